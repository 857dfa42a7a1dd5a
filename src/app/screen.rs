//! The screens of the window.

use strum::{EnumIter, IntoStaticStr};

/// A screen, in the order of the rail, which is also that of the keys 1, 2, ….
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumIter, IntoStaticStr)]
pub enum Screen {
    /// What to run.
    #[default]
    Plan,
    /// The queue and all runs.
    Runs,
    /// Curves of running and chosen runs.
    Live,
    /// Cells compared.
    Compare,
    /// Recordings of runs on an axis of time.
    Timeline,
    /// Figures for paper.
    Figures,
    /// This machine.
    Node,
}

impl Screen {
    /// The name on the rail.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
