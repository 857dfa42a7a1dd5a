//! Everything a person can ask the window for.

use std::path::PathBuf;

use super::{
    CloseCommand, CompareCommand, FiguresCommand, LiveCommand, NodeCommand, PlanCommand, RunsCommand, SessionsCommand,
    Theme,
};

/// A screen of the rail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Screen {
    /// What to run.
    #[default]
    Plan,
    /// The queue and single runs.
    Runs,
    /// Curves of what runs now.
    Live,
    /// Cells beside each other.
    Compare,
    /// Figures for paper.
    Figures,
    /// This machine.
    Node,
}

impl Screen {
    /// All screens in the order of the rail; the keys 1, 2, … show them.
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

/// One thing that was asked for. Clicks, keys, the palette and tests send the same ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Show a screen.
    Show(Screen),
    /// Use another theme.
    Theme(Theme),
    /// Draw everything larger or smaller by so many steps of 10 %; 0 is back to 100 %.
    Zoom(i32),
    /// Open or close the palette of all commands.
    Palette(bool),
    /// Open or close the list of keys.
    Help(bool),
    /// Open a session, or make one in this folder.
    OpenSession(PathBuf),
    /// Take away the message of this number.
    Dismiss(u64),
    /// Import a profiler's report into the open session: as the trace of a run, or as one that stands alone.
    Attach(PathBuf, Option<String>),
    /// End the import of reports.
    CancelImports,
    /// Files dropped on the window.
    Dropped(Vec<PathBuf>),
    /// Of sessions.
    Sessions(SessionsCommand),
    /// Of closing the window while runs are under way.
    Close(CloseCommand),
    /// Of the Plan screen.
    Plan(PlanCommand),
    /// Of the Runs screen.
    Runs(RunsCommand),
    /// Of the Live screen.
    Live(LiveCommand),
    /// Of the Compare screen.
    Compare(CompareCommand),
    /// Of the Figures screen.
    Figures(FiguresCommand),
    /// Of the Node screen.
    Node(NodeCommand),
}
