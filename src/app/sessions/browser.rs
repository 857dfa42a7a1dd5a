//! The browser of all known sessions: search, notes, renaming, archiving and deleting.

mod action;
mod dialog;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use eframe::egui::{Context, Id};
use poll_promise::Promise;

use super::plain_name;
use crate::app::command::SessionsCommand;
use crate::app::settings::Settings;
use crate::app::task::{on_thread, taken, taken_about};
use crate::app::widgets::filter_of_list;
use crate::plan::{Filter, RunState, Unordered};
use crate::remote::Address;
use crate::session::default_sessions_folder;
use crate::store::{ARCHIVED, DeletedSession, SessionHeading, origin, restore_deleted};
use action::{Action, Done, Note};
pub use dialog::browser_ui;

/// Interval at which the sessions are read again while the browser is open.
const INTERVAL: Duration = Duration::from_secs(2);
/// Longest wait for all actions that have not ended when the window is closed: on another machine, each may take ssh as long to begin, or as
/// long as the user takes to type a password.
const EXIT_LIMIT: Duration = Duration::from_secs(10);

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
    acting: Option<(Action, Acting)>,
    /// Actions that follow once the present one has ended.
    waiting: VecDeque<Action>,
    /// The session about whose deletion the user is asked.
    asking: Option<PathBuf>,
    /// Sessions that were deleted in this window.
    deleted: Vec<Deleted>,
    /// Sessions that were deleted in windows that were killed, while they are restored: the folder of each, or why it stays hidden.
    restoring: Option<Promise<Vec<Result<PathBuf, String>>>>,
    /// The present and the previous folder of the session that was renamed last.
    renamed: Option<(PathBuf, PathBuf)>,
    /// The result of the last action, or why it failed.
    outcome: Option<Result<String, String>>,
}

/// An action that is being performed.
type Acting = Promise<Result<Done, String>>;

/// A session and the state of its journal when it was read.
#[derive(Clone)]
struct Known {
    heading: Arc<SessionHeading>,
    journal: Option<(u64, SystemTime)>,
}

/// A deleted session, until the window is closed.
struct Deleted {
    session: Arc<DeletedSession>,
    was: PathBuf,
    /// Its place among the recent sessions, from 0, if it was one of them.
    place: Option<usize>,
}

impl Browser {
    /// Waits until all actions have ended that the user asked for, and no longer than a window may take to close. Actions on a session do not
    /// wait for those on another one, whose machine may not answer.
    pub fn finish(&mut self, settings: &mut Settings) {
        self.finish_within(EXIT_LIMIT, settings);
    }

    fn finish_within(&mut self, limit: Duration, settings: &mut Settings) {
        let (sender, ended) = sync_channel(1 + self.waiting.len());
        let mut of_sessions: HashMap<PathBuf, (Option<Acting>, VecDeque<Action>)> = HashMap::new();
        if let Some((action, promise)) = self.acting.take() {
            of_sessions.entry(action.session().to_owned()).or_default().0 = Some(promise);
        }
        for action in self.waiting.drain(..) {
            of_sessions.entry(action.session().to_owned()).or_default().1.push_back(action);
        }
        let end = Instant::now() + limit;
        for (present, mut following) in of_sessions.into_values() {
            let sender = sender.clone();
            let work = move || {
                let mut next = present.map(Acting::block_and_take);
                while let Some(done) = next.or_else(|| following.pop_front().map(Action::perform)) {
                    if let Ok(done) = &done {
                        following.iter_mut().for_each(|action| action.follow(done));
                    }
                    // After the limit, nobody receives the results.
                    let _ = sender.send(done);
                    next = None;
                }
            };
            // Without the thread, nothing is sent.
            let _ = std::thread::Builder::new().name("sessions-end".to_owned()).spawn(work);
        }
        drop(sender);
        while let Ok(done) = ended.recv_timeout(end.saturating_duration_since(Instant::now())) {
            // The window that would show why one failed is closed.
            let _ = done.map(|done| self.take_over(done, settings));
        }
    }

    /// Whether a session is being renamed, deleted or restored, or will be.
    fn is_moving(&self) -> bool {
        self.actions().any(|action| !matches!(action, Action::Note(_)))
    }

    /// The actions that have not ended, in their order.
    fn actions(&self) -> impl DoubleEndedIterator<Item = &Action> {
        self.acting.iter().map(|(action, _)| action).chain(&self.waiting)
    }

    /// Why the last action failed, if the dialog, which would say it, is closed.
    pub(super) fn unseen_failure(&mut self) -> Option<String> {
        self.outcome.take_if(|outcome| !self.is_open && outcome.is_err())?.err()
    }

    /// Removes deleted sessions for good, since the deletion cannot be undone any more.
    pub fn forget_deleted(&mut self) {
        for deleted in self.deleted.drain(..) {
            // What cannot be removed is restored by the next window.
            let _ = deleted.session.remove();
        }
    }

    /// Restores the sessions in the default folder, beside the recent sessions and where sessions were deleted lately that were deleted in windows
    /// that were killed: until a window is closed, its user can undo a deletion.
    pub fn restore_deleted(&mut self, settings: &Settings, context: &Context) {
        let beside = settings.recent.iter().filter_map(|session| session.parent()).map(Path::to_owned);
        let folders = beside.chain(settings.deleted_in.iter().cloned()).chain(default_sessions_folder());
        self.restore_in(folders.collect(), context);
    }

    fn restore_in(&mut self, folders: BTreeSet<PathBuf>, context: &Context) {
        let work = move || -> Vec<Result<PathBuf, String>> {
            let restored = folders.iter().flat_map(|folder| restore_deleted(folder));
            restored.map(|one| one.map_err(|error| error.to_string())).collect()
        };
        self.restoring = Some(on_thread("sessions-restore", context, work));
    }

    /// Takes over the sessions that were restored; returns what to say of each. They follow the last open session among the recent ones.
    pub(super) fn restored(&mut self, settings: &mut Settings) -> Vec<String> {
        let restored = taken(&mut self.restoring).unwrap_or_default();
        let messages = restored.into_iter().map(|one| match one {
            Ok(folder) => {
                settings.restored(&folder, 1);
                format!(
                    "A deleted session is back in {}: the window that deleted it was killed before it removed the session. \
                     If nobody needs it, delete it again (Ctrl L).",
                    folder.display()
                )
            }
            Err(reason) => format!(
                "A window that was killed did not remove a session that was deleted in it, and the session cannot be restored: {reason}"
            ),
        });
        messages.collect()
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
            SessionsCommand::Note(folder, text) => self.act(Action::Note(Note::new(folder, text)), context),
            SessionsCommand::Archive(folder, archive) => {
                let id = note_id(&folder);
                let typed: Option<String> = context.data_mut(|data| data.remove_temp(id));
                let before = typed.as_deref().or_else(|| self.heading(&folder).map(|heading| &*heading.note));
                let text = archived(before.unwrap_or_default(), archive);
                let message =
                    if archive { "Archived: search for “archived” to see it." } else { "No longer archived." };
                self.act(Action::Note(Note { folder, text, message }), context);
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
                    self.act(Action::Rename(folder, name), context);
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
                    self.act(Action::Delete(was), context);
                }
            }
            SessionsCommand::UndoDelete => {
                let Some(Deleted { session, was, .. }) = self.deleted.last() else { return };
                let back = Action::PutBack { deleted: Arc::clone(session), was: was.clone() };
                self.act(back, context);
            }
            _ => {}
        }
    }

    /// Writes the note that was typed on the chosen session, unless it is written already.
    fn write_typed_note(&mut self, context: &Context) {
        let Some(heading) = self.picked.as_ref().and_then(|folder| self.heading(folder)) else { return };
        let typed: Option<String> = context.data(|data| data.get_temp(note_id(&heading.folder)));
        let differing = typed.filter(|text| text.trim() != heading.note.trim());
        let note = differing.map(|text| Note::new(heading.folder.clone(), text.trim().to_owned()));
        if let Some(note) = note {
            self.act(Action::Note(note), context);
        }
    }

    /// Begins an action once all earlier ones have ended. The last one is not begun twice: leaving the field of a note and closing the dialog
    /// write it once.
    fn act(&mut self, action: Action, context: &Context) {
        if self.actions().next_back() != Some(&action) {
            if self.actions().next().is_none() {
                self.outcome = None;
            }
            self.waiting.push_back(action);
            self.act_next(context);
        }
    }

    fn act_next(&mut self, context: &Context) {
        if self.acting.is_none()
            && let Some(action) = self.waiting.pop_front()
        {
            let work = action.clone();
            self.acting = Some((action, on_thread("sessions", context, move || work.perform())));
        }
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
            self.take(all, settings, context);
        }
        if let Some((_, Some(all))) = taken_about(&mut self.watching) {
            self.take(all, settings, context);
        }
        if let Some((_, done)) = taken_about(&mut self.acting) {
            if let Ok(done) = &done {
                forget_typed(done, context);
                self.waiting.iter_mut().for_each(|action| action.follow(done));
            }
            let outcome = done.map(|done| self.take_over(done, settings));
            // Why an action failed is said until the user asks for another one, and not only until the next in the queue has ended.
            if outcome.is_err() || !matches!(self.outcome, Some(Err(_))) {
                self.outcome = Some(outcome);
            }
            self.act_next(context);
            self.read_sessions(settings, context);
        }
    }

    /// Takes over a change; returns what the dialog says of it.
    fn take_over(&mut self, done: Done, settings: &mut Settings) -> String {
        match done {
            Done::Noted(note) => {
                let mut all = Arc::make_mut(&mut self.headings).iter_mut();
                if let Some(known) = all.find(|known| known.heading.folder == note.folder) {
                    Arc::make_mut(&mut known.heading).note = note.text;
                }
                note.message.to_owned()
            }
            Done::Deleted { deleted, was } => {
                let (message, place) = (format!("Deleted {}.", was.display()), settings.deleted(&was));
                self.deleted.push(Deleted { session: Arc::new(deleted), was, place });
                message
            }
            Done::Renamed { from, to } => {
                settings.renamed(&from, &to);
                let message = format!("Renamed to {}.", to.display());
                (self.picked, self.renamed) = (Some(to.clone()), Some((to, from)));
                message
            }
            Done::PutBack(at) => {
                for back in self.deleted.extract_if(.., |known| known.session.folder() == at) {
                    if let Some(place) = back.place {
                        settings.restored(&back.was, place);
                    }
                }
                "The session is restored.".to_owned()
            }
        }
    }
}

/// Forgets what was typed about a session and is not needed after a change: a note that is written, unless the user has typed on, and all texts
/// about a deleted session, which another session in its place must not show. A typed note follows its renamed session.
fn forget_typed(done: &Done, context: &Context) {
    context.data_mut(|data| match done {
        Done::Noted(note) => {
            let id = note_id(&note.folder);
            if data.get_temp::<String>(id).is_some_and(|text| text.trim() == note.text) {
                data.remove::<String>(id);
            }
        }
        Done::Deleted { was, .. } => {
            let typed = [Id::unique(name_id(was).as_str()), note_id(was)];
            typed.into_iter().for_each(|id| data.remove::<String>(id));
        }
        Done::Renamed { from, to } => {
            if let Some(text) = data.remove_temp::<String>(note_id(from)) {
                data.insert_temp(note_id(to), text);
            }
        }
        Done::PutBack(_) => {}
    });
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
