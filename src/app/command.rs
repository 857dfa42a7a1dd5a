//! Everything a user can ask of the window.

use std::path::PathBuf;

use super::columns::{Columns, Listed};
use super::data_export::DataCommand;
use super::{
    CompareCommand, FiguresCommand, LiveCommand, NodeCommand, PlanCommand, RunsCommand, Screen, SessionsCommand, Theme,
    TimelineCommand,
};

/// Answer to the question whether to close the window while runs are active or the plan has unsaved edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCommand {
    /// Close and keep the runs running.
    KeepRunning,
    /// Stop all runs, then close.
    CancelRuns,
    /// Save the plan, then close.
    SavePlan,
    /// Close without the plan's edits.
    DiscardEdits,
    /// Keep the window open.
    Stay,
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
    /// Show these columns of a table.
    Columns(Listed, Columns),
    /// Copy the command line for what is on screen.
    CopyCommand,
    /// Close the window, after the questions that it takes.
    Quit,
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
    /// A command of the Timeline screen.
    Timeline(TimelineCommand),
    /// A command of the Figures screen.
    Figures(FiguresCommand),
    /// A command of the export of data.
    Data(DataCommand),
    /// A command of the Node screen.
    Node(NodeCommand),
}

impl Command {
    /// What kind of command it is, whatever it is applied to: `Plan(OpenFile`.
    pub fn kind(&self) -> String {
        let text = format!("{self:?}");
        let end = text.match_indices(['(', '{', ' ', ')']).nth(1).map_or(text.len(), |(at, _)| at);
        text[..end].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_kind_differ_in_what_they_are_applied_to() {
        let open = |path: &str| Command::Plan(PlanCommand::OpenFile(path.into())).kind();
        assert_eq!((open("/a (b).toml"), open("/c")), ("Plan(OpenFile".to_owned(), "Plan(OpenFile".to_owned()));
        assert_ne!(open("/a"), Command::Plan(PlanCommand::Save).kind());
        assert_eq!(Command::Plan(PlanCommand::Save).kind(), "Plan(Save");
        assert_eq!(Command::CopyCommand.kind(), "CopyCommand");
    }
}
