//! The Runs screen: the queue, all runs of the session, and the page of the selected run.

mod advice;
mod header;
mod list;
mod page;
mod row;
mod summary;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod text;

use std::collections::HashMap;
use std::sync::Arc;

use eframe::egui::{Context, Frame, Id, Key, Modifiers, Panel, Ui};
use strum::{EnumIter, IntoStaticStr, VariantArray};

use super::engine::{Records, RunPage};
use super::listing::Listing;
use super::theme::GRID;
use super::widgets::{main_button, muted, strong};
use super::{Command, Request, Screen, State};
use crate::conduct::{Order, QueueView};
use crate::plan::{Filter, RunState};

use page::Page;
pub use row::Row;

/// Interval at which the page of an active run is read, in seconds.
const PAGE_INTERVAL_S: f64 = 2.0;

/// A tab of a run's page, in their order there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumIter, IntoStaticStr)]
pub enum Tab {
    /// Levels, placement, measures, epochs and evidence.
    #[default]
    Summary,
    /// Its processes' stderr.
    Log,
    /// The last lines of its ranks' event logs.
    Events,
    /// The job file of its group.
    Job,
    /// The plan's text.
    Plan,
}

impl Tab {
    /// The name on screen.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Destination of a queued run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// One position earlier.
    Up,
    /// One position later.
    Down,
    /// The first of the queue.
    Top,
}

/// A command of the Runs screen.
#[derive(Clone, Debug, PartialEq)]
pub enum RunsCommand {
    /// Pause or resume the queue.
    Pause(bool),
    /// Ask whether to cancel all runs.
    CancelAll,
    /// Answer that question.
    AnswerCancelAll(bool),
    /// Cancel a run.
    Cancel(String),
    /// Queue a run again.
    Retry(String),
    /// Queue all failed, timed-out and interrupted runs again that were not retried yet.
    RetryFailed,
    /// Move a queued run.
    Move(String, Move),
    /// Focus the filter field.
    FocusFilter,
    /// Filter the list.
    Filter(String),
    /// Show the page of a run, or close it.
    Select(Option<String>),
    /// Show a tab of the page.
    Show(Tab),
    /// Dismiss the message about the last launch.
    DismissLaunched,
    /// Queue the run that was cancelled last again.
    UndoCancel,
    /// Dismiss the message about it.
    DismissCancelled,
    /// The pointer came over the list, or left it.
    Point(bool),
    /// Note something of a run.
    Note(String, String),
}

/// Result of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Launched {
    queued: usize,
    kept: usize,
    invalid: usize,
}

/// State of the Runs screen.
#[derive(Default)]
pub struct RunsState {
    /// The recorded runs.
    listing: Arc<Listing>,
    /// All runs, in the order they were queued: the recorded ones, then those of the queue that are not recorded yet.
    rows: Vec<Row>,
    /// Indices into `rows` of the latter.
    unrecorded: HashMap<String, usize>,
    /// Indices into `rows` of the listed runs: active ones, queued ones, then the latest ended.
    shown: Vec<usize>,
    /// Number of runs in each state of [`RunState::VARIANTS`].
    counts: Vec<usize>,
    /// The runs that [`RunsCommand::RetryFailed`] retries.
    failed: Vec<String>,
    filter_text: String,
    filter: Filter,
    selected: Option<String>,
    tab: Tab,
    page: Option<Page>,
    /// The requested page: run, state, epoch and time of the request.
    asked: Option<(String, RunState, u32, f64)>,
    asking_cancel_all: bool,
    launched: Option<Launched>,
    /// The run that was cancelled last, and whether it was queued then.
    cancelled: Option<(String, bool)>,
    /// The pointer is over the list: what it aims at keeps its place.
    is_pointed_at: bool,
}

impl RunsState {
    /// The text of the list's filter.
    pub fn filter(&self) -> &str {
        &self.filter_text
    }

    /// A plan was queued.
    pub fn launched(&mut self, queued: usize, kept: usize, invalid: usize) {
        self.launched = Some(Launched { queued, kept, invalid });
    }

    /// A run's page was read.
    pub fn take_page(&mut self, page: RunPage) {
        if self.selected.as_ref() == Some(&page.record.run) {
            self.page = Some(Page::new(page));
        }
    }

    /// Another session was opened.
    pub fn session_changed(&mut self) {
        let tab = self.tab;
        *self = Self { tab, ..Self::default() };
    }

    /// The session's records were read.
    pub fn records_changed(&mut self, records: &Records, queue: &QueueView) {
        let before = self.order_to_keep();
        self.listing = Arc::clone(&records.listing);
        self.rows = self.listing.entries.iter().map(Row::of).collect();
        self.unrecorded.clear();
        for summary in records.summaries.iter().filter(|summary| !summary.marks.is_empty()) {
            if let Some(place) = self.listing.places.get(&summary.run) {
                self.rows[*place].mark(summary);
            }
        }
        for (run, note) in &*records.notes {
            if let Some(place) = self.listing.places.get(run) {
                self.rows[*place].note.clone_from(note);
            }
        }
        self.overlay(queue);
        self.refresh(&before);
    }

    /// The queue changed.
    pub fn queue_changed(&mut self, queue: &QueueView) {
        let before = self.order_to_keep();
        self.overlay(queue);
        self.refresh(&before);
    }

    /// Takes over the states in the queue.
    fn overlay(&mut self, queue: &QueueView) {
        let mut waiting = 0;
        for queued in &queue.rows {
            let place = (queued.state == RunState::Queued).then_some(waiting);
            waiting += usize::from(place.is_some());
            let index = self.index_of(&queued.run).unwrap_or_else(|| {
                self.unrecorded.insert(queued.run.clone(), self.rows.len());
                self.rows.push(Row::unknown(&queued.run));
                self.rows.len() - 1
            });
            self.rows[index].overlay(queued, place);
        }
        self.asking_cancel_all &= queue.is_active();
    }

    /// The listed runs in their order, while the pointer aims at one of them; else none.
    fn order_to_keep(&self) -> Vec<String> {
        let listed = self.shown.iter().filter(|_| self.is_pointed_at);
        listed.filter_map(|index| self.rows.get(*index)).map(|row| row.run.clone()).collect()
    }

    /// Updates counts and list. The runs of `before` keep their order, and others come after them.
    fn refresh(&mut self, before: &[String]) {
        self.counts =
            RunState::VARIANTS.iter().map(|state| self.rows.iter().filter(|row| row.state == *state).count()).collect();
        let admitted = |index: &usize| self.filter.admits(&self.rows[*index]);
        let mut shown: Vec<usize> = (0..self.rows.len()).filter(admitted).collect();
        shown.sort_by_cached_key(|index| activity(&self.rows[*index], *index));
        if !before.is_empty() {
            let places: HashMap<&str, usize> = before.iter().enumerate().map(|(place, run)| (&**run, place)).collect();
            shown.sort_by_key(|index| places.get(&*self.rows[*index].run).copied().unwrap_or(usize::MAX));
        }
        self.shown = shown;
        let mut latest = vec![0; self.listing.attempted];
        for (index, row) in self.rows.iter().enumerate() {
            if let Some(at) = row.attempt_at {
                latest[at] = index;
            }
        }
        let latest_of = |index: usize| self.rows[index].attempt_at.map_or(index, |at| latest[at]);
        let failed = |index: &usize| self.rows[*index].has_failed() && latest_of(*index) == *index;
        let all = 0..self.rows.len();
        self.failed = all.clone().filter(failed).map(|index| self.rows[index].run.clone()).collect();
        let successor = |index: usize| {
            let latest = Some(latest_of(index)).filter(|latest| *latest > index && self.rows[index].can_retry());
            latest.map(|latest| self.rows[latest].run.clone())
        };
        let successors: Vec<Option<String>> = all.map(successor).collect();
        for (row, successor) in self.rows.iter_mut().zip(successors) {
            row.retried_as = successor;
        }
    }

    fn index_of(&self, run: &str) -> Option<usize> {
        self.listing.places.get(run).or_else(|| self.unrecorded.get(run)).copied()
    }

    /// All runs, in the order they were queued.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The line of a run.
    pub fn row(&self, run: &str) -> Option<&Row> {
        self.index_of(run).and_then(|index| self.rows.get(index))
    }

    fn selected_row(&self) -> Option<&Row> {
        self.row(self.selected.as_deref()?)
    }

    /// The run listed next to the selected one.
    fn neighbour(&self, down: bool) -> Option<String> {
        let is_selected = |index: &usize| Some(&self.rows[*index].run) == self.selected.as_ref();
        let place = match (self.shown.iter().position(is_selected), down) {
            (Some(place), true) => (place + 1).min(self.shown.len().saturating_sub(1)),
            (Some(place), false) => place.saturating_sub(1),
            (None, _) => 0,
        };
        self.shown.get(place).map(|index| self.rows[*index].run.clone())
    }
}

impl Row {
    fn has_failed(&self) -> bool {
        matches!(self.state, RunState::Failed | RunState::TimedOut | RunState::Interrupted)
    }
}

/// Sort key of the list: active runs, queued ones in the queue's order, then ended ones, latest first.
fn activity(row: &Row, index: usize) -> (u8, usize, u64, usize) {
    if row.state.is_active() {
        return (0, 0, 0, index);
    }
    if !row.state.is_final() {
        return (1, row.place.unwrap_or(usize::MAX), 0, index);
    }
    // A run that just ended has no time yet. Milliseconds are precise enough for an order.
    let ended_ms = row.ended_time_s.map_or(u64::MAX, |time_s| (time_s * 1e3) as u64);
    (2, 0, u64::MAX - ended_ms, usize::MAX - index)
}

/// Id of the filter field.
fn filter_id() -> Id {
    Id::unique("runs-filter")
}

/// Why the session is read-only; `None` if runs can be changed.
fn locked(state: &State) -> Option<&str> {
    state.session.as_ref().and_then(|session| session.read_only.as_deref())
}

impl State {
    /// Executes a command of the Runs screen.
    pub fn execute_runs(&mut self, command: RunsCommand, context: &Context, requests: &mut Vec<Request>) {
        let changes_runs = !matches!(
            command,
            RunsCommand::FocusFilter
                | RunsCommand::Filter(_)
                | RunsCommand::Select(_)
                | RunsCommand::Show(_)
                | RunsCommand::DismissLaunched
                | RunsCommand::DismissCancelled
                | RunsCommand::Point(_)
                | RunsCommand::AnswerCancelAll(false)
        );
        if changes_runs && let Some(reason) = locked(self) {
            let reason = reason.to_owned();
            return self.problem(self.screen, reason);
        }
        match command {
            RunsCommand::Pause(pause) => requests.push(Request::Order(Order::Pause(pause))),
            RunsCommand::CancelAll if self.queue.is_active() => {
                self.runs.asking_cancel_all = true;
                self.screen = Screen::Runs;
            }
            RunsCommand::CancelAll => {}
            RunsCommand::AnswerCancelAll(yes) => {
                self.runs.asking_cancel_all = false;
                requests.extend(yes.then_some(Request::Order(Order::CancelAll)));
            }
            RunsCommand::Cancel(run) => {
                let was_queued = self.runs.row(&run).is_some_and(|row| row.place.is_some());
                self.runs.cancelled = Some((run.clone(), was_queued));
                requests.push(Request::Order(Order::Cancel(run)));
            }
            RunsCommand::UndoCancel => {
                requests.extend(self.runs.cancelled.take().map(|(run, _)| Request::Order(Order::Retry(run))));
            }
            RunsCommand::DismissCancelled => self.runs.cancelled = None,
            RunsCommand::Point(is_pointed_at) => {
                self.runs.is_pointed_at = is_pointed_at;
                let before = self.runs.order_to_keep();
                self.runs.refresh(&before);
            }
            RunsCommand::Note(run, note) => requests.push(Request::Order(Order::Note(Some(run), note))),
            RunsCommand::Retry(run) => requests.push(Request::Order(Order::Retry(run))),
            RunsCommand::RetryFailed => {
                let failed = self.runs.failed.iter().cloned();
                requests.extend(failed.map(|run| Request::Order(Order::Retry(run))));
            }
            RunsCommand::Move(run, to) => {
                let place = self.runs.row(&run).and_then(|row| row.place);
                let target = place.map(|place| match to {
                    Move::Up => place.saturating_sub(1),
                    Move::Down => place + 1,
                    Move::Top => 0,
                });
                requests.extend(target.map(|target| Request::Order(Order::Reorder(run, target))));
            }
            RunsCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(filter_id())),
            RunsCommand::Filter(text) => {
                // What is wrong with it is said below the field; until it is right it hides nothing.
                self.runs.filter = Filter::typed(&text).unwrap_or_default();
                self.runs.filter_text = text;
                self.runs.refresh(&[]);
            }
            RunsCommand::Select(run) => {
                if self.runs.selected != run {
                    (self.runs.page, self.runs.asked) = (None, None);
                }
                self.runs.selected = run;
            }
            RunsCommand::Show(tab) => self.runs.tab = tab,
            RunsCommand::DismissLaunched => self.runs.launched = None,
        }
    }

    /// Requests the page of the selected run if the shown one is out of date.
    pub fn poll_runs(&mut self, requests: &mut Vec<Request>) {
        let (Some(session), Some(row)) = (&self.session, self.runs.selected_row()) else { return };
        // A run without a record cannot be read yet.
        if row.plan.is_empty() {
            return;
        }
        let now_s = self.queue.time_s;
        let is_fresh = |(run, state, epoch, time_s): &(String, RunState, u32, f64)| {
            let old = row.state.is_active() && now_s - time_s >= PAGE_INTERVAL_S;
            *run == row.run && *state == row.state && *epoch == row.epoch && !old
        };
        if !self.runs.asked.as_ref().is_some_and(is_fresh) {
            let asked = (row.run.clone(), row.state, row.epoch, now_s);
            requests.push(Request::Page(session.folder.clone(), row.run.clone()));
            self.runs.asked = Some(asked);
        }
    }
}

/// Keys of the Runs screen, while no text field has the focus.
pub fn keys(context: &Context, state: &State, commands: &mut Vec<Command>) {
    let pressed = |modifiers: Modifiers, key: Key| context.input_mut(|input| input.consume_key(modifiers, key));
    let mut send = |command: RunsCommand| commands.push(Command::Runs(command));
    let selected = state.runs.selected_row();
    if let Some(row) = selected {
        let run = || row.run.clone();
        for (key, to) in [(Key::ArrowUp, Move::Up), (Key::ArrowDown, Move::Down), (Key::Home, Move::Top)] {
            if pressed(Modifiers::ALT, key) && row.place.is_some() {
                send(RunsCommand::Move(run(), to));
            }
        }
        if pressed(Modifiers::NONE, Key::Delete) && !row.state.is_final() {
            send(RunsCommand::Cancel(run()));
        }
        if pressed(Modifiers::NONE, Key::R) && row.can_retry() {
            send(RunsCommand::Retry(run()));
        }
        if pressed(Modifiers::NONE, Key::Escape) {
            send(RunsCommand::Select(None));
        }
    }
    for (key, down) in [(Key::ArrowDown, true), (Key::ArrowUp, false)] {
        if pressed(Modifiers::NONE, key) && !state.runs.shown.is_empty() {
            send(RunsCommand::Select(state.runs.neighbour(down)));
        }
    }
}

/// Draws the Runs screen.
pub fn runs_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    super::sessions::session_notes_ui(ui, state, commands);
    header::header_ui(ui, state, commands);
    ui.add_space(GRID);
    if state.runs.rows.is_empty() {
        empty_ui(ui, state, commands);
        return;
    }
    if let Some(row) = state.runs.selected_row() {
        let width = ui.available_width();
        let frame = Frame::new().inner_margin(eframe::egui::Margin { left: 12, ..Default::default() });
        Panel::right("run-page")
            .frame(frame)
            .resizable(true)
            .default_size((width * 0.42).clamp(320.0, 620.0))
            .size_range(280.0..=(width - 240.0).max(300.0))
            .show(ui, |ui| {
                ui.take_available_width();
                page::page_ui(ui, state, row, commands);
            });
    }
    list::list_ui(ui, state, commands);
}

fn empty_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.add_space(12.0 * GRID);
    ui.vertical_centered(|ui| {
        if state.is_reading_session() {
            ui.label(strong("Reading the session …").size(super::theme::TITLE));
            return;
        }
        ui.label(strong("No runs yet").size(super::theme::TITLE));
        let next = match &state.session {
            Some(_) => "Tick at least one level of each factor on the Plan screen, then launch.",
            None => {
                "Tick levels on the Plan screen and launch; a session is created automatically. Or open an earlier \
                 session in the bar above."
            }
        };
        ui.label(muted(ui, next));
        ui.add_space(2.0 * GRID);
        if main_button(ui, true, "Show Plan").clicked() {
            commands.push(Command::Show(Screen::Plan));
        }
    });
}
