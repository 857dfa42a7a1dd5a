//! All commands that a user can give to the window.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;

use super::columns::{Columns, Listed};
use super::settings::Theme;
use crate::export::{Format, What};

/// A screen, identified by its name on the rail. Only screens that other code refers to have a constant here, so a new screen needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScreenName(pub &'static str);

impl ScreenName {
    /// The plan to run.
    pub const PLAN: Self = Self("Plan");
    /// The queue and all runs.
    pub const RUNS: Self = Self("Runs");
    /// Curves of running and chosen runs.
    pub const LIVE: Self = Self("Live");
    /// Cells compared.
    pub const COMPARE: Self = Self("Compare");
    /// Recordings of runs on an axis of time.
    pub const TIMELINE: Self = Self("Timeline");
    /// Figures for print.
    pub const FIGURES: Self = Self("Figures");
    /// This machine.
    pub const NODE: Self = Self("Node");

    /// The name on the rail.
    pub fn name(self) -> &'static str {
        self.0
    }
}

impl Default for ScreenName {
    fn default() -> Self {
        Self::PLAN
    }
}

/// One user command. Clicks, keys, the command palette and tests send the same commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Show a screen.
    Show(ScreenName),
    /// Change the theme.
    Theme(Theme),
    /// Zoom by this many steps of 10 %; 0 resets to 100 %.
    Zoom(i32),
    /// Open or close the command palette.
    Palette(bool),
    /// Show these columns of a table.
    Columns(Listed, Columns),
    /// Copy the command line that shows the same in a terminal as the screen.
    CopyCommand,
    /// Close the window, after any necessary questions.
    Quit,
    /// Open or close the list of keys.
    Help(bool),
    /// Open the session in this folder, or create one.
    OpenSession(PathBuf),
    /// Dismiss the message with this number.
    Dismiss(u64),
    /// Undo the last action on the session.
    Undo,
    /// Redo the last undone action.
    Redo,
    /// Dismiss the notice with this number.
    DismissNotice(u64),
    /// Pause or resume the queue.
    Pause(bool),
    /// Import a profiler report into the open session: as the trace of a run, or as a standalone report.
    Attach(PathBuf, Option<String>),
    /// Cancel the import of reports.
    CancelImports,
    /// Files dropped on the window.
    Dropped(Vec<PathBuf>),
    /// A command on sessions.
    Sessions(SessionsCommand),
    /// Whether programs that came with an archive may run.
    Allow(bool),
    /// The answer to the question on closing.
    Close(CloseCommand),
    /// Save the table for which the user is asked for a path to this file; without a file, stop asking.
    SaveTable(Option<PathBuf>),
    /// A command of the export of data.
    Data(DataCommand),
    /// A command of a screen.
    Screen(Box<dyn Boxed>),
}

impl Command {
    /// The kind of command, without its arguments: `Plan(OpenFile`.
    pub fn kind(&self) -> String {
        let text = match self {
            Self::Screen(own) => format!("{own:?}"),
            other => format!("{other:?}"),
        };
        let end = text.match_indices(['(', '{', ' ', ')']).nth(1).map_or(text.len(), |(at, _)| at);
        text[..end].to_owned()
    }

    /// The command of a screen, if it is one of this type.
    pub fn of_screen<C: ScreenCommand>(&self) -> Option<&C> {
        match self {
            Self::Screen(own) => own.any_ref().downcast_ref(),
            _ => None,
        }
    }
}

/// A command of one screen.
pub trait ScreenCommand: Clone + fmt::Debug + PartialEq + Send + 'static {
    /// The screen that executes it.
    const SCREEN: ScreenName;
}

impl<C: ScreenCommand> From<C> for Command {
    fn from(command: C) -> Self {
        Self::Screen(Box::new(command))
    }
}

/// Kind of an edit. Consecutive edits of one kind, such as the steps of dragging a number, are undone together.
pub type EditKind = &'static str;

/// Commands of a screen that edits a value: each edit replaces the value by the edited one.
pub trait Edits: ScreenCommand {
    /// The value that is edited.
    type Value: Clone;

    /// The command that sets this value.
    fn edit(value: Self::Value, kind: Option<EditKind>) -> Self;

    /// The value that this command sets.
    fn edited(&self) -> Option<&Self::Value>;
}

/// Sends the value with a change applied. If there are two changes in one frame, the second is applied to the result of the first.
pub fn edit<C: Edits>(
    commands: &mut Vec<Command>,
    value: &C::Value,
    kind: Option<EditKind>,
    change: impl FnOnce(&mut C::Value),
) {
    let earlier = commands.iter().rev().find_map(|command| command.of_screen().and_then(C::edited));
    let mut value = earlier.unwrap_or(value).clone();
    change(&mut value);
    commands.push(C::edit(value, kind).into());
}

/// A command of a screen whose type is known only to the screen.
pub trait Boxed: Send {
    /// The screen that executes it.
    fn screen(&self) -> ScreenName;
    /// The command itself.
    fn any(self: Box<Self>) -> Box<dyn Any>;
    /// A reference to the command itself.
    fn any_ref(&self) -> &dyn Any;
    /// Whether another command is equal.
    fn equals(&self, other: &dyn Boxed) -> bool;
    /// A copy of the command.
    fn cloned(&self) -> Box<dyn Boxed>;
    /// Writes it as [`fmt::Debug`] does.
    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl<C: ScreenCommand> Boxed for C {
    fn screen(&self) -> ScreenName {
        C::SCREEN
    }

    fn any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn any_ref(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Boxed) -> bool {
        other.any_ref().downcast_ref::<C>() == Some(self)
    }

    fn cloned(&self) -> Box<dyn Boxed> {
        Box::new(self.clone())
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}({self:?})", C::SCREEN.name())
    }
}

impl Clone for Box<dyn Boxed> {
    fn clone(&self) -> Self {
        (**self).cloned()
    }
}

impl PartialEq for Box<dyn Boxed> {
    fn eq(&self, other: &Self) -> bool {
        (**self).equals(&**other)
    }
}

impl fmt::Debug for dyn Boxed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(formatter)
    }
}

/// Answer to the question whether to close the window while runs are active or edits are not saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCommand {
    /// Close and keep the runs running.
    KeepRunning,
    /// Stop all runs, then close.
    CancelRuns,
    /// Save what was edited, then close.
    Save,
    /// Close without the edits.
    DiscardEdits,
    /// Keep the window open.
    Stay,
}

/// A command on sessions.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionsCommand {
    /// Create a session with this name in the default folder.
    New(String),
    /// Open the session in this folder.
    Open(PathBuf),
    /// Open the sample session.
    OpenSample,
    /// Close the sample session; new windows do not open it any more.
    CloseSample,
    /// Choose a folder in the system's file dialog.
    Choose,
    /// Check which recent sessions still exist.
    CheckRecent,
    /// Try to open the read-only session for writing.
    TryAgain,
    /// Export the open session to an archive.
    Export(PathBuf),
    /// Import a session from an archive, and open it. If the file is not an archive, show first what its columns mean.
    Import(PathBuf),
    /// Change what a column of the shown file means: its place and its role.
    MapColumn(usize, String),
    /// Declare that each row of the shown file is a run of its own, or take that back.
    DeclareRuns(bool),
    /// Make a session of the shown file, and open it.
    TakeMapping,
    /// Close the dialog about the shown file.
    CloseMapping,
    /// Cancel the current export or import and remove what it wrote.
    StopTransfer,
    /// Open or close the browser of all sessions.
    Browse(bool),
    /// Open the session menu, with the focus in the field of this name.
    Menu(&'static str),
    /// Search the sessions.
    Search(String),
    /// Show the details of a session.
    Pick(PathBuf),
    /// Write a note on a session.
    Note(PathBuf, String),
    /// Archive a session, or restore it from the archive.
    Archive(PathBuf, bool),
    /// Rename a session.
    Rename(PathBuf, String),
    /// Ask whether to delete a session. A deletion can be undone until the window is closed.
    Delete(PathBuf),
    /// Answer the question whether to delete a session.
    AnswerDelete(bool),
    /// Restore the session that was deleted last.
    UndoDelete,
}

/// A command of the export of data.
#[derive(Clone, Debug, PartialEq)]
pub enum DataCommand {
    /// Choose what each row describes.
    What(What),
    /// Choose the format.
    Format(Format),
    /// Change the file's path; an empty path means the suggested one.
    Path(String),
    /// Export the runs that this filter admits.
    Export(String),
    /// Stop the export; nothing is kept.
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command of a screen that is not built in.
    #[derive(Clone, Debug, PartialEq)]
    enum NotesCommand {
        Open(PathBuf),
        Save,
    }

    impl ScreenCommand for NotesCommand {
        const SCREEN: ScreenName = ScreenName("Notes");
    }

    #[test]
    fn commands_of_a_kind_differ_in_what_they_are_applied_to() {
        let open = |path: &str| Command::from(NotesCommand::Open(path.into())).kind();
        assert_eq!((open("/a (b).toml"), open("/c")), ("Notes(Open".to_owned(), "Notes(Open".to_owned()));
        assert_ne!(open("/a"), Command::from(NotesCommand::Save).kind());
        assert_eq!(Command::from(NotesCommand::Save).kind(), "Notes(Save");
        assert_eq!(Command::CopyCommand.kind(), "CopyCommand");
    }

    #[test]
    fn commands_of_screens_are_compared_by_what_they_ask() {
        let open = |path: &str| Command::from(NotesCommand::Open(path.into()));
        let first = open("/a");
        assert_eq!((first.clone(), first), (open("/a"), open("/a")));
        assert_ne!(open("/a"), open("/b"));
        assert_ne!(open("/a"), Command::Quit);
    }
}
