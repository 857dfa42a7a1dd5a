//! The Runs screen: the queue, all runs of the session, and the page of the selected run.

mod advice;
mod header;
mod list;
mod orders;
mod page;
mod searches;
mod summary;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod text;

use std::collections::HashMap;

use eframe::egui::{Context, Frame, Id, Key, Modifiers, Panel, Ui};
use strum::{EnumIter, IntoStaticStr};

use crate::app::asking::ask_ui;
use crate::app::command::{Command, ScreenCommand, ScreenName};
use crate::app::command_line::of_session;
use crate::app::desk::{Desk, News, Row};
use crate::app::engine::{Request, UiEvent};
use crate::app::screen::{self, Executes, KeyHelp, Keys, Screen};
use crate::app::theme::GRID;
use crate::app::widgets::{filter_of_list, main_button, muted, strong};
use crate::app::words::runs_text;
use crate::conduct::Order;
use crate::plan::{Filter, RunState, Unordered};

use page::Page;

/// Interval at which the page of an active run is read, in seconds.
const PAGE_INTERVAL_S: f64 = 2.0;

/// A tab of a run's page, in order.
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
    /// Ask whether to cancel all runs.
    CancelAll,
    /// Answer that question.
    AnswerCancelAll(bool),
    /// Remove a run from the queue. If the run has started, the user is asked first.
    Cancel(String),
    /// Answer the question whether to stop a run.
    AnswerStop(bool),
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
    /// The pointer entered the list, or left it.
    Point(bool),
    /// Write a note on a run.
    Note(String, String),
}

impl ScreenCommand for RunsCommand {
    const SCREEN: ScreenName = ScreenName::RUNS;
}

impl RunsCommand {
    /// Whether the command needs a session that can be changed.
    fn changes_runs(&self) -> bool {
        !matches!(
            self,
            Self::FocusFilter
                | Self::Filter(_)
                | Self::Select(_)
                | Self::Show(_)
                | Self::Point(_)
                | Self::AnswerCancelAll(false)
                | Self::AnswerStop(false)
        )
    }
}

/// The data that the screen is drawn from.
type View<'a> = screen::View<'a, RunsScreen>;

/// The Runs screen.
#[derive(Default)]
pub struct RunsScreen {
    /// Indices of the listed runs among those of the desk: active ones, queued ones, then the latest ended.
    shown: Vec<usize>,
    filter_text: String,
    filter: Filter,
    /// Why the filter hides nothing, if it asks for an order of names.
    unordered: Option<Unordered>,
    selected: Option<String>,
    tab: Tab,
    page: Option<Page>,
    /// The requested page: run, state, epoch and time of the request.
    requested_page: Option<(String, RunState, u32, f64)>,
    asking_cancel_all: bool,
    /// The active run for which the question is shown whether to stop it.
    asking_stop: Option<String>,
    /// The run that was last taken out of the queue, until it is known whether it had started.
    taken_out: Option<String>,
    /// The listed runs in order, while the pointer is over the list: lines under the pointer keep their positions.
    pointed_at: Option<Vec<String>>,
}

impl RunsScreen {
    /// Another session was opened.
    fn session_changed(&mut self) {
        let tab = self.tab;
        *self = Self { tab, ..Self::default() };
    }

    /// Builds the list of runs again. While the pointer is over the list, the listed runs keep their order, and others are added after
    /// them. A listed run stays even if it no longer matches the filter: otherwise the lines below it would move up.
    fn refresh(&mut self, rows: &[Row]) {
        let before = self.pointed_at.take();
        let places: HashMap<&str, usize> =
            before.iter().flatten().enumerate().map(|(place, run)| (&**run, place)).collect();
        let place = |index: &usize| places.get(&*rows[*index].run).copied();
        let (filter, unordered) = filter_of_list(self.filter.clone().among(&rows.iter()));
        let is_shown = |index: &usize| place(index).is_some() || filter.admits(&rows[*index]);
        let mut shown: Vec<usize> = (0..rows.len()).filter(is_shown).collect();
        shown.sort_by_cached_key(|index| activity(&rows[*index], *index));
        // Without a pointer over the list, all places are equal, and the order stays.
        shown.sort_by_key(|index| place(index).unwrap_or(usize::MAX));
        let listed = || shown.iter().map(|index| rows[*index].run.clone()).collect();
        self.pointed_at = before.is_some().then(listed);
        (self.shown, self.unordered) = (shown, unordered);
    }

    /// Puts the list in order although the pointer is over it, because the user moved a run.
    fn sort(&mut self, rows: &[Row]) {
        let is_over = self.pointed_at.take().is_some();
        self.refresh(rows);
        if is_over {
            self.point(true, rows);
        }
    }

    fn point(&mut self, is_over: bool, rows: &[Row]) {
        let listed = || self.shown.iter().filter_map(|index| rows.get(*index)).map(|row| row.run.clone()).collect();
        self.pointed_at = is_over.then(listed);
        self.refresh(rows);
    }
}

impl<'a> View<'a> {
    fn selected_row(self) -> Option<&'a Row> {
        self.desk.runs.row(self.own.selected.as_deref()?)
    }

    /// The run listed next to the selected one.
    fn neighbour(self, down: bool) -> Option<String> {
        let (shown, rows) = (&self.own.shown, &self.desk.runs.rows);
        let is_selected = |index: &usize| Some(&rows[*index].run) == self.own.selected.as_ref();
        let place = match (shown.iter().position(is_selected), down) {
            (Some(place), true) => (place + 1).min(shown.len().saturating_sub(1)),
            (Some(place), false) => place.saturating_sub(1),
            (None, _) => 0,
        };
        shown.get(place).map(|index| rows[*index].run.clone())
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

impl Executes for RunsScreen {
    type Command = RunsCommand;

    fn execute(&mut self, command: RunsCommand, desk: &mut Desk, context: &Context) {
        if let Some(reason) = desk.locked().filter(|_| command.changes_runs()) {
            return desk.problem(desk.screen, reason.to_owned());
        }
        match command {
            RunsCommand::CancelAll if desk.queue.is_active() => {
                self.asking_cancel_all = true;
                desk.screen = ScreenName::RUNS;
            }
            RunsCommand::CancelAll => {}
            RunsCommand::AnswerCancelAll(yes) => {
                self.asking_cancel_all = false;
                if yes {
                    orders::cancel_all(desk);
                }
            }
            RunsCommand::Cancel(run) => match desk.runs.row(&run) {
                Some(row) if row.state.is_active() => {
                    self.asking_stop = Some(run);
                    desk.screen = ScreenName::RUNS;
                }
                Some(row) if !row.state.is_final() => {
                    self.taken_out = Some(run.clone());
                    orders::take_out(run, desk);
                }
                _ => {}
            },
            RunsCommand::AnswerStop(yes) => {
                if let Some(run) = self.asking_stop.take().filter(|_| yes) {
                    desk.order(Order::Cancel(run));
                }
            }
            RunsCommand::Point(is_over) => self.point(is_over, &desk.runs.rows),
            RunsCommand::Note(run, note) => orders::note(run, note, desk),
            RunsCommand::Retry(run) => orders::retry(vec![run], desk),
            RunsCommand::RetryFailed => orders::retry(desk.runs.failed.clone(), desk),
            RunsCommand::Move(run, to) => orders::reorder(run, to, desk),
            RunsCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(filter_id())),
            RunsCommand::Filter(text) => {
                // An error in the filter is shown below the field; until it is corrected, the filter hides nothing.
                self.filter = Filter::typed(&text).unwrap_or_default();
                self.filter_text = text;
                self.pointed_at = None;
                self.refresh(&desk.runs.rows);
            }
            RunsCommand::Select(run) => {
                if self.selected != run {
                    (self.page, self.requested_page) = (None, None);
                }
                self.selected = run;
            }
            RunsCommand::Show(tab) => self.tab = tab,
        }
    }
}

impl Screen for RunsScreen {
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>) {
        runs_ui(ui, View { own: self, desk }, commands);
    }

    /// Requests the page of the selected run if the shown one is out of date.
    fn poll(&mut self, desk: &mut Desk, _context: &Context) {
        let (Some(session), Some(row)) = (&desk.session, (View { own: self, desk }).selected_row()) else { return };
        // A run without a record cannot be read yet.
        if row.plan.is_empty() {
            return;
        }
        let now_s = desk.queue.time_s;
        let is_fresh = |(run, state, epoch, time_s): &(String, RunState, u32, f64)| {
            let old = row.state.is_active() && now_s - time_s >= PAGE_INTERVAL_S;
            *run == row.run && *state == row.state && *epoch == row.epoch && !old
        };
        if !self.requested_page.as_ref().is_some_and(is_fresh) {
            let requested_page = (row.run.clone(), row.state, row.epoch, now_s);
            let request = Request::Page(session.folder.clone(), row.run.clone());
            self.requested_page = Some(requested_page);
            desk.ask(request);
        }
    }

    fn receive_news(&mut self, news: News, desk: &mut Desk) {
        if matches!(news, News::Records | News::Queue) {
            self.taken_out.take_if(|run| orders::correct_taken_out(run, desk));
        }
        match news {
            News::Session => self.session_changed(),
            News::SessionAgain | News::Records => self.refresh(&desk.runs.rows),
            News::Queue => {
                self.asking_cancel_all &= desk.queue.is_active();
                let is_over = |run: &mut String| desk.runs.row(run).is_none_or(|row| row.state.is_final());
                self.asking_stop.take_if(is_over);
                if std::mem::take(&mut desk.has_moved_runs) {
                    self.sort(&desk.runs.rows);
                } else {
                    self.refresh(&desk.runs.rows);
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, event: UiEvent) -> Option<UiEvent> {
        let UiEvent::Page(page) = event else { return Some(event) };
        if self.selected.as_ref() == Some(&page.record.run) {
            self.page = Some(Page::new(*page));
        }
        None
    }

    fn keys(&self, desk: &Desk, keys: &mut Keys<'_>) {
        keys.on(Modifiers::NONE, Key::Slash, RunsCommand::FocusFilter);
        if !keys.has_arrows() {
            return;
        }
        let view = View { own: self, desk };
        if let Some(row) = view.selected_row() {
            let run = || row.run.clone();
            for (key, to) in [(Key::ArrowUp, Move::Up), (Key::ArrowDown, Move::Down), (Key::Home, Move::Top)] {
                if keys.pressed(Modifiers::ALT, key) && row.place.is_some() {
                    keys.send(RunsCommand::Move(run(), to));
                }
            }
            if keys.pressed(Modifiers::NONE, Key::Delete) && !row.state.is_final() {
                keys.send(RunsCommand::Cancel(run()));
            }
            if keys.pressed(Modifiers::NONE, Key::R) && row.can_retry() && row.retried_as.is_none() {
                keys.send(RunsCommand::Retry(run()));
            }
            keys.on(Modifiers::NONE, Key::Escape, RunsCommand::Select(None));
        }
        for (key, down) in [(Key::ArrowDown, true), (Key::ArrowUp, false)] {
            if keys.pressed(Modifiers::NONE, key) && !self.shown.is_empty() {
                keys.send(RunsCommand::Select(view.neighbour(down)));
            }
        }
    }

    /// Undo and redo of actions on the session.
    fn shortcuts(&self, desk: &Desk, keys: &mut Keys<'_>) {
        if desk.screen == ScreenName::RUNS {
            keys.history(Command::Undo, Command::Redo);
        }
    }

    fn key_help(&self) -> KeyHelp {
        &[
            ("/", "filter runs or cells (Runs, Live, Compare, Figures)"),
            ("↑ ↓, Del, R", "select, cancel, retry a run (Runs)"),
            ("Alt ↑ ↓, Alt Home", "move a queued run, move it to the top (Runs)"),
        ]
    }

    fn palette(&self, desk: &Desk) -> Vec<(String, Command)> {
        let cancel_all = || ("Cancel all runs".to_owned(), RunsCommand::CancelAll.into());
        let retry_failed = || ("Retry all failed runs".to_owned(), RunsCommand::RetryFailed.into());
        let has_failed = !desk.runs.failed.is_empty() && desk.locked().is_none();
        let cancel_all = desk.queue.is_active().then(cancel_all);
        cancel_all.into_iter().chain(has_failed.then(retry_failed)).collect()
    }

    /// The command that follows the queue and its curves: attaching to the session.
    fn command_line(&self, desk: &Desk) -> Result<String, String> {
        of_session(desk, if desk.queue.is_active() { "attach" } else { "session show" }, &[])
    }

    fn badge(&self, desk: &Desk) -> String {
        match desk.records.runs.len() {
            0 => String::new(),
            few @ ..10_000 => format!("  {few}"),
            // The rail is narrow; the filter of the list shows the complete number.
            many => format!("  {}k", many / 1000),
        }
    }
}

/// Least and greatest width of the page of a run, unless the user moves its boundary.
const PAGE_WIDTH: (f32, f32) = (320.0, 900.0);

/// Draws the Runs screen.
fn runs_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    crate::app::sessions::session_notes_ui(ui, view.desk, commands);
    header::header_ui(ui, view, commands);
    ui.add_space(GRID);
    if view.runs.rows.is_empty() {
        empty_ui(ui, view, commands);
        return;
    }
    searches::searches_ui(ui, view);
    if let Some(row) = view.selected_row() {
        let width = ui.available_width();
        let frame = Frame::new().inner_margin(eframe::egui::Margin { left: 12, ..Default::default() });
        Panel::right("run-page")
            .frame(frame)
            .resizable(true)
            .default_size((width * 0.42).clamp(PAGE_WIDTH.0, PAGE_WIDTH.1))
            .size_range(280.0..=(width - 240.0).max(300.0))
            .show(ui, |ui| {
                ui.take_available_width();
                page::page_ui(ui, view, row, commands);
            });
    }
    list::list_ui(ui, view, commands);
    questions_ui(ui, view, commands);
}

/// Questions before work is lost.
fn questions_ui(ui: &Ui, view: View<'_>, commands: &mut Vec<Command>) {
    if view.own.asking_cancel_all {
        let active = view.queue.rows.iter().filter(|row| !row.state.is_final()).count();
        let question = format!("Cancel {}?", runs_text(active));
        let loss = "Runs that have started are stopped, and their results are lost. Undo restores the waiting runs.";
        let answer = ask_ui(ui.ctx(), "cancel all", &question, loss, "Yes, cancel", "No");
        commands.extend(answer.map(|yes| Command::from(RunsCommand::AnswerCancelAll(yes))));
        return;
    }
    let asking = view.own.asking_stop.as_deref().and_then(|run| view.runs.row(run));
    if let Some(row) = asking {
        let question = format!("Stop run {}?", row.number);
        let loss = "It has started: its results so far are lost, and stopping it cannot be undone.";
        let yes = format!("Stop run {}", row.number);
        let answer = ask_ui(ui.ctx(), &row.run, &question, loss, &yes, "Let it run");
        commands.extend(answer.map(|yes| Command::from(RunsCommand::AnswerStop(yes))));
    }
}

fn empty_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.add_space(12.0 * GRID);
    ui.vertical_centered(|ui| {
        if view.is_reading_session() {
            ui.label(strong("Reading the session …").size(crate::app::theme::TITLE));
            return;
        }
        ui.label(strong("No runs yet").size(crate::app::theme::TITLE));
        let next = match &view.session {
            Some(_) => "Tick at least one level of each factor on the Plan screen, then launch.",
            None => {
                "Tick levels on the Plan screen and launch; a session is created automatically. Or open an earlier \
                 session in the bar above."
            }
        };
        ui.label(muted(ui, next));
        ui.add_space(2.0 * GRID);
        if main_button(ui, true, "Show Plan").clicked() {
            commands.push(Command::Show(ScreenName::PLAN));
        }
    });
}
