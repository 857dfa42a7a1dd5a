//! The browser of all known sessions: search, notes, renaming, archiving and deleting.

mod dialog;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use eframe::egui::{Context, Id};
use poll_promise::Promise;

use super::plain_name;
use crate::app::command::SessionsCommand;
use crate::app::settings::Settings;
use crate::app::task::{on_thread, taken, taken_about};
use crate::app::widgets::filter_of_list;
use crate::conduct::{Client, Order};
use crate::plan::{Filter, RunState, Unordered};
use crate::remote::{Address, Line, Prompts};
use crate::session::{default_sessions_folder, note_session};
use crate::store::{ARCHIVED, SessionHeading, delete_session, origin, put_back, remove_deleted, rename_session};
pub use dialog::browser_ui;

/// Interval at which the sessions are read again while the browser is open.
const INTERVAL: Duration = Duration::from_secs(2);

/// All sessions, once they differ from the list; `None` if the list was closed before.
type Changed = Promise<Option<Vec<Known>>>;

/// The browser's state.
#[derive(Default)]
pub struct Browser {
    /// Whether it is open.
    pub is_open: bool,
    search: String,
    filter: Filter,
    /// Why the filter hides nothing, if it asks for an order of names.
    unordered: Option<Unordered>,
    /// All sessions, the one that was used last first.
    headings: Arc<Vec<Known>>,
    /// Indexes of the listed ones.
    listed: Vec<usize>,
    picked: Option<PathBuf>,
    reading: Option<Promise<Vec<Known>>>,
    /// All sessions once they differ from the list. The work ends when its sender is dropped, and then finds nothing.
    watching: Option<(SyncSender<()>, Changed)>,
    acting: Option<Promise<Result<Done, String>>>,
    /// Notes that are written once the present action has ended.
    notes: VecDeque<Note>,
    /// The note that was sent last, until the sessions are read again: leaving its field and closing the dialog write it once.
    noted: Option<Note>,
    /// The session about whose deletion the user is asked.
    asking: Option<PathBuf>,
    /// Sessions that were deleted in this window.
    deleted: Vec<Deleted>,
    /// The present and the previous folder of the session that was renamed last.
    renamed: Option<(PathBuf, PathBuf)>,
    /// The result of the last action, or why it failed.
    outcome: Option<Result<String, String>>,
}

/// A session and the state of its journal when it was read.
#[derive(Clone)]
struct Known {
    heading: Arc<SessionHeading>,
    journal: Option<(u64, SystemTime)>,
}

/// A note on a session, to be written.
#[derive(Clone, PartialEq)]
struct Note {
    folder: PathBuf,
    text: String,
    /// What is said once it is written.
    message: &'static str,
}

impl Note {
    fn new(folder: PathBuf, text: String) -> Self {
        Self { folder, text, message: "Noted." }
    }

    fn write(self) -> Result<Done, String> {
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str()).to_string_lossy();
        note(&self.folder, None, self.text)
            .map(|()| Done::Noted(self.message.to_owned()))
            .map_err(|error| format!("The note on the session {name} was not written: {error}"))
    }
}

/// A deleted session, until the window is closed.
struct Deleted {
    at: PathBuf,
    was: PathBuf,
    /// Its place among the recent sessions, from 0, if it was one of them.
    place: Option<usize>,
}

/// The result of an action.
enum Done {
    /// A message about a note that was written.
    Noted(String),
    Deleted {
        at: PathBuf,
        was: PathBuf,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    PutBack(PathBuf),
}

impl Browser {
    /// Waits until the notes are written that were typed last.
    pub fn finish_notes(&mut self) {
        if let Some(acting) = self.acting.take() {
            // The window that would say why it failed is closed.
            let _ = acting.block_and_take();
        }
        self.notes.drain(..).for_each(|note| drop(note.write()));
    }

    /// Why the last action failed, if the dialog, which would say it, is closed.
    pub(super) fn unseen_failure(&mut self) -> Option<String> {
        self.outcome.take_if(|outcome| !self.is_open && outcome.is_err())?.err()
    }

    /// Removes deleted sessions for good, since the deletion cannot be undone any more.
    pub fn forget_deleted(&mut self) {
        for deleted in self.deleted.drain(..) {
            // What cannot be removed stays hidden.
            let _ = remove_deleted(&deleted.at);
        }
    }

    /// The command that takes back the last deletion or, without one, the last renaming.
    pub fn undo(&self) -> Option<SessionsCommand> {
        if !self.deleted.is_empty() {
            return Some(SessionsCommand::UndoDelete);
        }
        let (now, old) = self.renaming()?;
        Some(SessionsCommand::Rename(now.to_owned(), old))
    }

    /// The session that was renamed last, if it is still there, and the name that it had.
    fn renaming(&self) -> Option<(&Path, String)> {
        let (now, was) = self.renamed.as_ref().filter(|(now, _)| self.heading(now).is_some())?;
        Some((now.as_path(), was.file_name().unwrap_or_default().to_string_lossy().into_owned()))
    }

    fn refresh(&mut self) {
        (self.listed, self.unordered) = self.found(&self.search, &self.filter);
    }

    /// Indexes of the sessions that a search finds, and why its filter hides nothing.
    fn found(&self, search: &str, filter: &Filter) -> (Vec<usize>, Option<Unordered>) {
        let archived = search.to_lowercase().contains(ARCHIVED);
        let filter = filter.clone().among(&self.headings.iter().map(|known| &*known.heading));
        let (filter, unordered) = filter_of_list(filter);
        let fits = |known: &Known| {
            (archived || !known.heading.is_archived()) && (filter.is_empty() || filter.admits(&*known.heading))
        };
        ((0..self.headings.len()).filter(|index| fits(&self.headings[*index])).collect(), unordered)
    }

    /// The session that Enter opens: the chosen one or, in the search, the first that it finds. `typed` is the search if it changed in this
    /// frame: the list still follows the search before it.
    fn entered(&self, typed: Option<&str>, is_searching: bool) -> Option<&SessionHeading> {
        let found = typed.map(|text| self.found(text, &Filter::typed(text).unwrap_or_default()).0);
        let listed = found.as_ref().unwrap_or(&self.listed);
        let heading = |index: &usize| self.headings.get(*index).map(|known| &*known.heading);
        let picked = listed.iter().filter_map(heading).find(|heading| self.picked.as_ref() == Some(&heading.folder));
        picked.or_else(|| listed.first().filter(|_| is_searching).and_then(heading))
    }

    /// The session at a place of the list, from 0.
    fn listed_heading(&self, place: usize) -> Option<&SessionHeading> {
        self.headings.get(*self.listed.get(place)?).map(|known| &*known.heading)
    }

    /// The place of the chosen session in the list, from 0, if it is listed.
    fn picked_place(&self) -> Option<usize> {
        let picked = self.picked.as_ref()?;
        (0..self.listed.len()).find(|place| self.listed_heading(*place).is_some_and(|known| known.folder == *picked))
    }

    /// The session to which an arrow moves the choice.
    fn next(&self, is_down: bool, is_up: bool) -> Option<&SessionHeading> {
        let last = self.listed.len().checked_sub(1)?;
        let place = match (is_down, is_up, self.picked_place()) {
            (true, _, place) => place.map_or(0, |place| last.min(place + 1)),
            (_, true, Some(place)) => place.saturating_sub(1),
            _ => return None,
        };
        self.listed_heading(place)
    }

    fn heading(&self, folder: &Path) -> Option<&SessionHeading> {
        self.headings.iter().map(|known| &*known.heading).find(|heading| heading.folder == folder)
    }
}

/// Reads the headings of all sessions in the default folder, and of those in `others`. Unchanged sessions are not read again.
fn read(known: &[Known], others: &[PathBuf]) -> Vec<Known> {
    let before: HashMap<&Path, &Known> = known.iter().map(|known| (&*known.heading.folder, known)).collect();
    let mut folders: BTreeSet<PathBuf> = others.iter().cloned().collect();
    let entries = default_sessions_folder().ok().and_then(|folder| std::fs::read_dir(folder).ok());
    let visible = |path: &PathBuf| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    folders.extend(entries.into_iter().flatten().flatten().map(|entry| entry.path()).filter(visible));
    let mut all: Vec<Known> = folders
        .iter()
        .filter_map(|folder| {
            let about = std::fs::metadata(folder.join("journal.jsonl")).ok()?;
            let journal = about.modified().ok().map(|modified| (about.len(), modified));
            // Whether a run is followed is not in the journal.
            let is_same = |known: &&&Known| {
                known.journal == journal && !known.heading.runs.contains_key(RunState::Running.name())
            };
            if let Some(known) = before.get(folder.as_path()).filter(is_same) {
                return Some((*known).clone());
            }
            // Other folders, and sessions of a newer version, are not listed.
            let heading = Arc::new(SessionHeading::read(folder).ok()?);
            Some(Known { heading, journal })
        })
        .collect();
    let time_s = |known: &Known| known.heading.changed_time_s.unwrap_or(0.0);
    all.sort_by(|a, b| time_s(b).total_cmp(&time_s(a)));
    all
}

/// The address of the session that a folder is a copy of; `None` if it is not a copy.
fn elsewhere(folder: &Path) -> Option<Address> {
    Address::parse(Path::new(&origin(folder)?)).ok().flatten()
}

/// Writes a note on a session or on one of its runs, through its conductor if it has one.
fn note(folder: &Path, run: Option<String>, text: String) -> Result<(), String> {
    if let Some(address) = Address::of(folder)? {
        let (line, _news, _) = Line::reach(address, Prompts::Askpass, drop).map_err(|error| error.to_string())?;
        let client = line.client_or_start(false);
        return client.and_then(|client| client.order(Order::Note(run, text))).map_err(|error| error.to_string());
    }
    match Client::connect(folder, false) {
        Ok(Some(client)) => client.order(Order::Note(run, text)).map_err(|error| error.to_string()),
        Ok(None) => note_session(folder, run, text).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The note with the tag of archived sessions added or removed.
fn archived(note: &str, archive: bool) -> String {
    let tag = format!("#{ARCHIVED}");
    let without: Vec<&str> = note.split(' ').filter(|word| *word != tag).collect();
    let without = without.join(" ").trim().to_owned();
    match (archive, without.is_empty()) {
        (false, _) => without,
        (true, true) => tag,
        (true, false) => format!("{without} {tag}"),
    }
}

impl Browser {
    /// Executes a command of the browser.
    pub(super) fn execute(&mut self, command: SessionsCommand, settings: &Settings, context: &Context) {
        match command {
            SessionsCommand::Browse(open) => {
                if !open {
                    self.write_typed_note(context);
                }
                (self.is_open, self.outcome, self.asking) = (open, None, None);
                if open {
                    (self.search, self.filter) = (String::new(), Filter::default());
                    self.refresh();
                    self.read_sessions(settings, context);
                } else {
                    self.watching = None;
                }
            }
            SessionsCommand::Search(text) => {
                self.filter = Filter::typed(&text).unwrap_or_default();
                self.search = text;
                self.refresh();
            }
            SessionsCommand::Pick(folder) => self.picked = Some(folder),
            SessionsCommand::Note(folder, text) => self.write_note(Note::new(folder, text), context),
            SessionsCommand::Archive(folder, archive) => {
                let id = note_id(&folder);
                let typed: Option<String> = context.data_mut(|data| data.remove_temp(id));
                let before = typed.as_deref().or_else(|| self.heading(&folder).map(|heading| &*heading.note));
                let text = archived(before.unwrap_or_default(), archive);
                let message =
                    if archive { "Archived: search for “archived” to see it." } else { "No longer archived." };
                self.write_note(Note { folder, text, message }, context);
            }
            SessionsCommand::Rename(folder, name) => match plain_name(&name) {
                Err(message) => self.outcome = Some(Err(message)),
                Ok(name) => {
                    if let Some(address) = elsewhere(&folder) {
                        let (host, command) = (address.host(), address.renaming(&name));
                        let message = format!(
                            "The session is on {host}: type `{command}` there, and open the session at its new address."
                        );
                        self.outcome = Some(Err(message));
                        return;
                    }
                    self.act(context, move || {
                        let to = rename_session(&folder, &name).map_err(|error| error.to_string())?;
                        Ok(Done::Renamed { from: folder, to })
                    });
                }
            },
            SessionsCommand::Delete(was) => {
                if let Some(address) = elsewhere(&was) {
                    let (host, command, copy) = (address.host(), address.session_command("rm -r"), was.display());
                    let message = format!(
                        "The session is on {host}: type `{command}` there to delete it. Its copy on this machine is in {copy}."
                    );
                    self.outcome = Some(Err(message));
                    return;
                }
                self.asking = Some(was);
            }
            SessionsCommand::AnswerDelete(yes) => {
                if let Some(was) = self.asking.take().filter(|_| yes) {
                    self.act(context, move || {
                        let at = delete_session(&was).map_err(|error| error.to_string())?;
                        Ok(Done::Deleted { at, was })
                    });
                }
            }
            SessionsCommand::UndoDelete => {
                let Some(Deleted { at, was, .. }) = self.deleted.last() else { return };
                let (at, was) = (at.clone(), was.clone());
                self.act(context, move || {
                    put_back(&at, &was).map_err(|error| error.to_string())?;
                    Ok(Done::PutBack(at))
                });
            }
            _ => {}
        }
    }

    /// Writes the note that was typed on the chosen session, unless it is written already.
    fn write_typed_note(&mut self, context: &Context) {
        let Some(heading) = self.picked.as_ref().and_then(|folder| self.heading(folder)) else { return };
        let typed: Option<String> = context.data(|data| data.get_temp(note_id(&heading.folder)));
        let differing = typed.filter(|text| text.trim() != heading.note);
        let note = differing.map(|text| Note::new(heading.folder.clone(), text.trim().to_owned()));
        if let Some(note) = note {
            self.write_note(note, context);
        }
    }

    fn write_note(&mut self, note: Note, context: &Context) {
        if self.noted.as_ref() != Some(&note) {
            self.noted = Some(note.clone());
            self.notes.push_back(note);
            self.write_next_note(context);
        }
    }

    fn write_next_note(&mut self, context: &Context) {
        if self.acting.is_none()
            && let Some(note) = self.notes.pop_front()
        {
            self.act(context, move || note.write());
        }
    }

    fn act(&mut self, context: &Context, work: impl FnOnce() -> Result<Done, String> + Send + 'static) {
        self.acting.get_or_insert_with(|| on_thread("sessions", context, work));
    }

    /// Reads the list of sessions again, because a list that is being read may be older than an action that has just ended.
    fn read_sessions(&mut self, settings: &Settings, context: &Context) {
        self.watching = None;
        let others = settings.recent.clone();
        let known = Arc::clone(&self.headings);
        self.reading = Some(on_thread("all-sessions", context, move || read(&known, &others)));
    }

    /// Reads the sessions every few seconds, and wakes the window only when they have changed.
    fn watch(&mut self, settings: &Settings, context: &Context) {
        let (others, mut known) = (settings.recent.clone(), Arc::clone(&self.headings));
        let (sender, promise) = Promise::new();
        let (open, closed) = sync_channel(0);
        let context = context.clone();
        let work = move || {
            let mut changed = None;
            while changed.is_none() && closed.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now = read(&known, &others);
                if now.iter().map(|one| &one.heading).eq(known.iter().map(|one| &one.heading)) {
                    known = Arc::new(now);
                } else {
                    changed = Some(now);
                }
            }
            let is_changed = changed.is_some();
            sender.send(changed);
            if is_changed {
                context.request_repaint();
            }
        };
        // Without the thread, the list stays as it was read.
        let started = std::thread::Builder::new().name("sessions-again".to_owned()).spawn(work);
        self.watching = started.is_ok().then_some((open, promise));
    }

    fn take(&mut self, all: Vec<Known>, settings: &Settings, context: &Context) {
        self.headings = Arc::new(all);
        self.refresh();
        if self.is_open {
            self.watch(settings, context);
        }
    }

    /// Takes over the results of background work.
    pub(super) fn poll(&mut self, settings: &mut Settings, context: &Context) {
        if let Some(all) = taken(&mut self.reading) {
            self.noted = None;
            self.take(all, settings, context);
        }
        if let Some((_, Some(all))) = taken_about(&mut self.watching) {
            self.take(all, settings, context);
        }
        if let Some(done) = taken(&mut self.acting) {
            self.outcome = Some(done.map(|done| match done {
                Done::Noted(message) => message,
                Done::Deleted { at, was } => {
                    // A session that takes its place must not show what was typed about this one.
                    let typed = [Id::unique(name_id(&was).as_str()), note_id(&was)];
                    context.data_mut(|data| typed.into_iter().for_each(|id| data.remove::<String>(id)));
                    let (message, place) = (format!("Deleted {}.", was.display()), settings.deleted(&was));
                    self.deleted.push(Deleted { at, was, place });
                    message
                }
                Done::Renamed { from, to } => {
                    settings.renamed(&from, &to);
                    let message = format!("Renamed to {}.", to.display());
                    (self.picked, self.renamed) = (Some(to.clone()), Some((to, from)));
                    message
                }
                Done::PutBack(at) => {
                    for back in self.deleted.extract_if(.., |known| known.at == at) {
                        if let Some(place) = back.place {
                            settings.restored(&back.was, place);
                        }
                    }
                    "The session is restored.".to_owned()
                }
            }));
            self.write_next_note(context);
            self.read_sessions(settings, context);
        }
    }
}

/// The place of the typed note on a session.
fn note_id(folder: &Path) -> Id {
    Id::unique(("session-note", folder))
}

/// The name under which the typed new name of a session is stored.
fn name_id(folder: &Path) -> String {
    format!("session-name {}", folder.display())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
