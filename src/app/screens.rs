//! The screens of the window; each has a file or a folder.

mod compare;
mod figures;
mod live;
mod node;
mod plan;
mod runs;
mod timeline;

use super::screen::Screen;

pub use compare::{CompareCommand, CompareScreen};
pub use figures::{FiguresCommand, FiguresScreen};
pub use live::{LiveCommand, LiveScreen};
pub use node::{NodeCommand, NodeScreen};
pub use plan::{PlanCommand, PlanScreen};
pub use runs::{RunsCommand, RunsScreen};
pub use timeline::{TimelineCommand, TimelineScreen};

/// The screens in the order of the rail.
pub fn screens() -> Vec<Box<dyn Screen>> {
    vec![
        Box::<PlanScreen>::default(),
        Box::<RunsScreen>::default(),
        Box::<LiveScreen>::default(),
        Box::<CompareScreen>::default(),
        Box::<TimelineScreen>::default(),
        Box::<FiguresScreen>::default(),
        Box::<NodeScreen>::default(),
    ]
}
