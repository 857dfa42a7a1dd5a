//! Everything a user can ask of the window.

use std::path::PathBuf;

use super::{
    CloseCommand, CompareCommand, FiguresCommand, LiveCommand, NodeCommand, PlanCommand, RunsCommand, SessionsCommand,
    Theme,
};

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

/// One user command. Clicks, keys, the command palette and tests send the same ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Show a screen.
    Show(Screen),
    /// Change the theme.
    Theme(Theme),
    /// Zoom by this many steps of 10 %; 0 resets to 100 %.
    Zoom(i32),
    /// Open or close the command palette.
    Palette(bool),
    /// Open or close the list of keys.
    Help(bool),
    /// Open the session in this folder, or create one.
    OpenSession(PathBuf),
    /// Dismiss the message with this number.
    Dismiss(u64),
    /// Import a profiler report into the open session: as the trace of a run, or as a standalone report.
    Attach(PathBuf, Option<String>),
    /// Cancel the import of reports.
    CancelImports,
    /// Files dropped on the window.
    Dropped(Vec<PathBuf>),
    /// A command on sessions.
    Sessions(SessionsCommand),
    /// The answer to the question on closing.
    Close(CloseCommand),
    /// A command of the Plan screen.
    Plan(PlanCommand),
    /// A command of the Runs screen.
    Runs(RunsCommand),
    /// A command of the Live screen.
    Live(LiveCommand),
    /// A command of the Compare screen.
    Compare(CompareCommand),
    /// A command of the Figures screen.
    Figures(FiguresCommand),
    /// A command of the Node screen.
    Node(NodeCommand),
}
