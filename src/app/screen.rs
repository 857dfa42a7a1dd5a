//! The screens of the window.

/// A screen, listed on the rail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
    /// Figures for paper.
    Figures,
    /// This machine.
    Node,
}

impl Screen {
    /// All screens in the order of the rail, which is also that of the keys 1, 2, ….
    pub const ALL: [Self; 6] = [Self::Plan, Self::Runs, Self::Live, Self::Compare, Self::Figures, Self::Node];

    /// The name on the rail.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "Plan",
            Self::Runs => "Runs",
            Self::Live => "Live",
            Self::Compare => "Compare",
            Self::Figures => "Figures",
            Self::Node => "Node",
        }
    }
}
