//! The Timeline screen: recordings of runs on one axis of time, below each other or side by side.

mod anchor;
mod background;
mod canvas;
mod controls;
mod counters;
mod export;
mod figure;
mod flow;
mod fold;
mod keys;
mod layout;
mod open;
mod panes;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::{CentralPanel, Context, Frame, Id, Margin, Panel, Ui};
use poll_promise::Promise;

use crate::app::command::{Command, ScreenCommand, ScreenName};
use crate::app::desk::{Desk, Intent, News};
use crate::app::screen::{self, Executes, KeyHelp, Keys, Screen};
use crate::app::settings::Folds;
use crate::app::task::Task;
use crate::app::words::path_word;
use crate::trace::{CriticalPath, Found, Split, StepsFrom, Timeline, TraceError};
pub use anchor::Anchor;
use background::Details;
use flow::Flows;
use layout::Detail;
use open::Opening;
pub use panes::Arrangement;

/// About the most items drawn for each shelf: the number of pixels across a wide window.
const MOST_ITEMS: usize = 2000;
/// Shortest and longest view, in nanoseconds.
const SHORTEST_NS: i64 = 50;
const LONGEST_NS: i64 = i64::MAX / 16;
/// The smallest height of the tables unless the user makes them smaller: room for their tabs, their legend and some lines.
const TABLES: f32 = 200.0;

/// The tables below the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumIter)]
pub enum Tab {
    /// The selected event.
    #[default]
    Event,
    /// Time by part, of all runs.
    Parts,
    /// Steps, starting with those that differ most.
    Steps,
    /// Idle times of GPUs.
    Gaps,
    /// Collectives, hidden and exposed.
    Communication,
    /// The critical path of a step: what it waited for, from its end back to its beginning.
    Path,
}

impl Tab {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "Event",
            Self::Parts => "Time by part",
            Self::Steps => "Steps",
            Self::Gaps => "Idle gaps",
            Self::Communication => "Communication",
            Self::Path => "Critical path",
        }
    }
}

/// An event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The index of the run.
    pub run: usize,
    /// The row and the event.
    pub event: Found,
}

/// A command of the Timeline screen.
#[derive(Clone, Debug, PartialEq)]
pub enum TimelineCommand {
    /// Choose a recording in the system's dialog.
    Choose,
    /// Open a recording below the open ones: its file, and the name to show.
    Open(PathBuf, String),
    /// Stop opening.
    Cancel,
    /// Stop adding up the time of the run at an index.
    CancelSplit(usize),
    /// Stop writing a file.
    CancelExport,
    /// Close the run at an index.
    Close(usize),
    /// Show this span, in nanoseconds from the anchor.
    View(i64, i64),
    /// Zoom by a factor around a time; in the middle if none is given.
    Zoom(f64, Option<i64>),
    /// Move by a part of the view.
    Pan(f64),
    /// Show everything.
    Fit,
    /// Arrange the runs on screen.
    Arrange(Arrangement),
    /// Align the runs.
    Align(Anchor),
    /// Align the runs at the selected event, and at the first event with the same name in each other run.
    AlignAtSelected,
    /// Divide the run at an index into steps: by an event that begins each step, or by two marks.
    Divide(usize, StepsFrom),
    /// Fold or unfold the run at an index, or its rank with this name.
    Fold(usize, Option<String>),
    /// Set the first or second mark, or remove both.
    Mark(Option<i64>),
    /// Select an event.
    Select(Option<Pick>),
    /// The pointer rests on an event.
    Hover(Option<Pick>),
    /// Select the row above or below.
    Row(isize),
    /// Select the next or the previous event of the selected row.
    Step(bool),
    /// Show the selected event.
    ShowSelected,
    /// Focus the search field.
    FocusSearch,
    /// Change the text of the search.
    Search(String),
    /// Find the next event.
    Find,
    /// Show a table.
    Tab(Tab),
    /// Sort the tables by a column; a second time in reverse order.
    Sort(usize),
    /// Write the events of a run for ui.perfetto.dev.
    Perfetto(usize),
    /// Write the view as a figure.
    Figure,
    /// Copy the command that shows these recordings.
    CopyCommand,
}

impl ScreenCommand for TimelineCommand {
    const SCREEN: ScreenName = ScreenName::TIMELINE;
}

/// The data that the screen is drawn from.
type View<'a> = screen::View<'a, TimelineScreen>;

/// A recording that is shown.
pub struct Shown {
    /// Its number among all recordings that were opened.
    order: usize,
    /// Its name.
    pub name: String,
    /// The file that was opened.
    pub file: PathBuf,
    /// The recording.
    pub timeline: Arc<Timeline>,
    /// Telemetry samples of the machine during the recording.
    pub counters: Vec<counters::Counter>,
    /// The parts of the time of its steps, once known.
    pub split: Option<Result<Split, String>>,
    /// The anchor's time on its clock.
    zero: i64,
    details: HashMap<usize, Detail>,
    splitting: Option<Task<Result<Split, TraceError>>>,
    /// The cell of its session that it is a repeat of, if known.
    pub cell: Option<String>,
    /// The critical path of a step, with the step's index, once it was requested.
    path: Option<(usize, Result<CriticalPath, String>)>,
    following: Option<(usize, Promise<Result<CriticalPath, TraceError>>)>,
}

/// The Timeline screen.
pub struct TimelineScreen {
    /// The runs, from top to bottom.
    pub runs: Vec<Shown>,
    /// The span shown, in nanoseconds from the anchor.
    pub view: (i64, i64),
    /// The arrangement of the runs on screen.
    pub arrangement: Arrangement,
    /// How the runs are aligned.
    pub anchor: Anchor,
    /// Two times to measure between.
    pub marks: [Option<i64>; 2],
    /// The selected event.
    pub selected: Option<Pick>,
    /// The row whose events the keys step through: run and row.
    pub row: Option<(usize, usize)>,
    /// The event that the pointer rests on.
    pub hovered: Option<Pick>,
    /// The text of the search.
    pub search: String,
    /// The result of the last search, export or opening, and whether it succeeded.
    pub outcome: Option<(String, bool)>,
    /// The table that is shown.
    pub tab: Tab,
    /// The column that tables are sorted by, and whether in ascending order.
    pub sort: (usize, bool),
    /// Steps in the order of their table, and the data from which that order was computed.
    step_order: Vec<usize>,
    ordered_by: (usize, usize, (usize, bool)),
    opening: Vec<Opening>,
    /// The number of recordings that were opened.
    opened: usize,
    choosing: Option<Promise<Option<PathBuf>>>,
    reading: Option<Promise<Result<Details, String>>>,
    flows: Flows,
    finding: Option<Promise<Result<Option<Pick>, String>>>,
    anchoring: Vec<anchor::Firsts>,
    folds: HashMap<PathBuf, Folds>,
    exporting: Option<Task<Result<String, String>>>,
    /// The folder of the open session.
    session: Option<PathBuf>,
}

impl Default for TimelineScreen {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            view: (0, 1_000_000_000),
            arrangement: Arrangement::default(),
            anchor: Anchor::Start,
            marks: [None; 2],
            selected: None,
            row: None,
            hovered: None,
            search: String::new(),
            outcome: None,
            tab: Tab::Event,
            sort: (usize::MAX, false),
            step_order: Vec::new(),
            ordered_by: (0, 0, (usize::MAX, false)),
            opening: Vec::new(),
            opened: 0,
            choosing: None,
            reading: None,
            flows: Flows::default(),
            finding: None,
            anchoring: Vec::new(),
            folds: HashMap::new(),
            exporting: None,
            session: None,
        }
    }
}

impl TimelineScreen {
    /// Whether something is being opened, read, searched or written.
    pub fn is_busy(&self) -> bool {
        !self.opening.is_empty()
            || self.reading.is_some()
            || self.flows.is_busy()
            || self.finding.is_some()
            || !self.anchoring.is_empty()
            || self.exporting.is_some()
            || self.runs.iter().any(|run| run.splitting.is_some() || run.following.is_some())
    }

    /// The span on a run's own clock.
    fn span_of(&self, run: usize) -> (i64, i64) {
        let zero = self.runs.get(run).map_or(0, |run| run.zero);
        (self.view.0.saturating_add(zero), self.view.1.saturating_add(zero))
    }

    /// A span of each run, joined, from the anchor.
    fn joined(&self, span_of: impl Fn(&Timeline) -> (i64, i64)) -> (i64, i64) {
        let spans = self.runs.iter().map(|run| {
            let (start, end) = span_of(&run.timeline);
            (start.saturating_sub(run.zero), end.saturating_sub(run.zero))
        });
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 1_000_000_000))
    }

    /// The indexes of runs have changed: data that refers to indexes is void.
    fn forget_places(&mut self) {
        (self.selected, self.row, self.hovered) = (None, None, None);
        (self.reading, self.finding) = (None, None);
        self.flows = Flows::default();
    }

    /// Reacts to another open session, or to none. Recordings of the former session stay, so that recordings of two sessions can be
    /// compared. Their names have the name of that session from now on, because runs of two sessions may have the same name. The names of
    /// recordings of the open session do not.
    fn session_changed(&mut self, session: Option<PathBuf>) {
        if session == self.session {
            return;
        }
        let former = std::mem::replace(&mut self.session, session);
        let shown = self.runs.iter_mut().map(|run| (&run.file, &mut run.name, &mut run.cell));
        let opening = self.opening.iter_mut().map(Opening::named);
        for (file, name, cell) in shown.chain(opening) {
            for text in std::iter::once(name).chain(cell) {
                let is_in = |session: &&PathBuf| file.starts_with(session);
                if let Some(former) = former.as_ref().filter(is_in) {
                    text.push_str(&of_session(former));
                } else if let Some(open) = self.session.as_ref().filter(is_in) {
                    let own = text.strip_suffix(&of_session(open)).map(str::to_owned);
                    own.into_iter().for_each(|own| *text = own);
                }
            }
        }
    }

    fn show(&mut self, from: i64, to: i64) {
        let from = from.clamp(-LONGEST_NS, LONGEST_NS);
        self.view = (from, to.clamp(from + SHORTEST_NS, from.saturating_add(LONGEST_NS)));
    }

    /// Shows all runs from the first event to the last.
    fn fit(&mut self) {
        self.show_with_margin(self.joined(Timeline::span));
    }

    /// Sets the first view of runs. It shows everything; but if longer phases would leave the work of the GPUs less than half of the width,
    /// it shows only this work and its launches.
    fn fit_work(&mut self) {
        let whole = self.joined(Timeline::span);
        let work = self.joined(|timeline| timeline.span_of_work().unwrap_or_else(|| timeline.span()));
        let length = |span: (i64, i64)| span.1.saturating_sub(span.0);
        self.show_with_margin(if length(work) < length(whole) / 2 { work } else { whole });
    }

    fn show_with_margin(&mut self, (start, end): (i64, i64)) {
        let margin = end.saturating_sub(start) / 50 + 1;
        self.show(start.saturating_sub(margin), end.saturating_add(margin));
    }

    fn zoom(&mut self, factor: f64, around: Option<i64>) {
        let (from, to) = self.view;
        let centre = around.unwrap_or(from + (to - from) / 2);
        let part = |edge: i64| ((edge - centre) as f64 / factor).round() as i64;
        let (before, after) = (part(from), part(to));
        if after - before >= SHORTEST_NS {
            self.show(centre.saturating_add(before), centre.saturating_add(after));
        }
    }

    /// The rows that are shown, as run and row.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.runs.iter().enumerate().flat_map(move |(place, run)| {
            let rows = run.timeline.rows().iter().enumerate();
            let shown = rows.filter(move |(_, row)| !self.is_group_folded(run, &row.group));
            shown.map(move |(row, _)| (place, row))
        })
    }

    fn select(&mut self, pick: Option<Pick>) {
        self.selected = pick;
        if let Some(pick) = pick {
            self.row = Some((pick.run, pick.event.row));
            self.unfold(pick.run, pick.event.row);
            self.tab = Tab::Event;
        }
    }

    /// Brings the selected event into view.
    fn show_selected(&mut self) {
        let Some((pick, run)) = self.selected.and_then(|pick| Some((pick, self.runs.get(pick.run)?))) else { return };
        let (start, end) = (pick.event.item.span.0 - run.zero, pick.event.item.span.1 - run.zero);
        let around = (end - start).saturating_mul(4).max(1_000);
        self.show(start.saturating_sub(around), end.saturating_add(around));
    }

    /// Moves the selection within its row.
    fn step(&mut self, forward: bool) {
        let Some((place, row)) = self.row.or_else(|| self.rows().next()) else { return };
        let Some(run) = self.runs.get(place) else { return };
        let at = match self.selected {
            Some(pick) if (pick.run, pick.event.row) == (place, row) => Some(pick.event.item.span.0),
            _ => None,
        };
        let all = layout::items(run, row, self.span_of(place));
        let next = match (at, forward) {
            (None, _) => all.into_iter().min_by_key(|item| item.span.0),
            (Some(at), true) => all.into_iter().filter(|item| item.span.0 > at).min_by_key(|item| item.span.0),
            (Some(at), false) => all.into_iter().filter(|item| item.span.0 < at).max_by_key(|item| item.span.0),
        };
        if let Some(item) = next {
            self.select(Some(Pick { run: place, event: Found { row, item } }));
        }
    }
}

impl Executes for TimelineScreen {
    type Command = TimelineCommand;

    fn execute(&mut self, command: TimelineCommand, desk: &mut Desk, context: &Context) {
        match command {
            TimelineCommand::Choose => self.choose_recording(context),
            TimelineCommand::Open(file, name) => self.open_recording(file, name, desk, context),
            TimelineCommand::Cancel => self.opening.iter().for_each(|opening| opening.task.cancel()),
            TimelineCommand::CancelSplit(place) => {
                self.runs.get(place).and_then(|run| run.splitting.as_ref()).into_iter().for_each(Task::cancel);
            }
            TimelineCommand::CancelExport => self.exporting.iter().for_each(Task::cancel),
            TimelineCommand::Close(place) => {
                if place < self.runs.len() {
                    self.runs.remove(place);
                }
                self.forget_places();
                self.fit();
            }
            TimelineCommand::View(from, to) => self.show(from, to),
            TimelineCommand::Zoom(factor, around) => self.zoom(factor, around),
            TimelineCommand::Pan(part) => {
                let by = ((self.view.1 - self.view.0) as f64 * part).round() as i64;
                self.show(self.view.0.saturating_add(by), self.view.1.saturating_add(by));
            }
            TimelineCommand::Fit => self.fit(),
            TimelineCommand::Arrange(arrangement) => self.arrangement = arrangement,
            TimelineCommand::Align(anchor) => self.align(anchor),
            TimelineCommand::AlignAtSelected => self.align_at_selected(context),
            TimelineCommand::Divide(place, steps) => self.divide(place, steps, context),
            TimelineCommand::Fold(place, group) => self.fold(place, group),
            TimelineCommand::Mark(None) => self.marks = [None; 2],
            TimelineCommand::Mark(at) => {
                self.marks =
                    if self.marks[1].is_some() || self.marks[0].is_none() { [at, None] } else { [self.marks[0], at] };
            }
            TimelineCommand::Select(pick) => self.select(pick),
            TimelineCommand::Hover(pick) => self.hovered = pick,
            TimelineCommand::Row(by) => {
                let rows: Vec<(usize, usize)> = self.rows().collect();
                let now = self.row.and_then(|row| rows.iter().position(|known| *known == row));
                let next = now.map_or(0, |now| now.saturating_add_signed(by)).min(rows.len().saturating_sub(1));
                self.row = rows.get(next).copied();
                self.selected = None;
            }
            TimelineCommand::Step(forward) => self.step(forward),
            TimelineCommand::ShowSelected => self.show_selected(),
            TimelineCommand::FocusSearch => context.memory_mut(|memory| memory.request_focus(search_id())),
            TimelineCommand::Search(text) => self.search = text,
            TimelineCommand::Find => self.find(context),
            TimelineCommand::Tab(tab) => self.tab = tab,
            TimelineCommand::Sort(column) => {
                let up = self.sort.0 == column && !self.sort.1;
                self.sort = (column, up);
            }
            TimelineCommand::Perfetto(place) => self.export_recording(place, context),
            TimelineCommand::Figure => self.export_view(context),
            TimelineCommand::CopyCommand => {
                self.outcome = Some(match self.command_line(desk) {
                    Ok(command) => {
                        context.copy_text(command.clone());
                        (format!("Copied: {command}"), true)
                    }
                    Err(reason) => (reason, false),
                });
            }
        }
    }
}

impl Screen for TimelineScreen {
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>) {
        timeline_ui(ui, View { own: self, desk }, commands);
    }

    fn poll(&mut self, desk: &mut Desk, context: &Context) {
        self.poll_work(desk, context);
        self.keep_folds(&mut desk.settings);
    }

    fn receive_news(&mut self, news: News, desk: &mut Desk) {
        if news == News::Session {
            self.session_changed(desk.session.as_ref().map(|session| session.folder.clone()));
        }
    }

    fn receive_request(&mut self, intent: Intent, desk: &mut Desk, context: &Context) {
        if let Intent::Open(file) = intent {
            self.execute(TimelineCommand::file(file), desk, context);
        }
    }

    fn keys(&self, _desk: &Desk, keys: &mut Keys<'_>) {
        self.take_keys(keys);
    }

    fn key_help(&self) -> KeyHelp {
        &[
            ("W S, A D, F", "zoom, move, show all (Timeline)"),
            ("↑ ↓, ← →, Enter", "choose a row, step through its events, show the event (Timeline)"),
            ("M, G X, H, P, /", "mark, align at another start or the selected event, fold, figure, search (Timeline)"),
            ("V", "recordings in one list, below each other, side by side (Timeline)"),
        ]
    }

    fn palette(&self, _desk: &Desk) -> Vec<(String, Command)> {
        vec![("Open a recording …".to_owned(), TimelineCommand::Choose.into())]
    }

    fn command_line(&self, _desk: &Desk) -> Result<String, String> {
        if self.runs.is_empty() {
            return Err("no recording is open: open one first".to_owned());
        }
        let files: Vec<String> = self.runs.iter().map(|run| path_word(&run.file)).collect();
        Ok(format!("multicard timeline {}", files.join(" ")))
    }
}

/// The suffix of a recording's name while its session is not open.
fn of_session(folder: &Path) -> String {
    format!(" · {}", folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy())
}

/// Id of the search field, for the key that focuses it.
fn search_id() -> Id {
    Id::unique("timeline-search")
}

/// Draws the Timeline screen.
fn timeline_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let mut own = Vec::new();
    controls::bar_ui(ui, view, &mut own);
    if view.own.runs.is_empty() {
        controls::empty_ui(ui, view, &mut own);
    } else {
        let below = Frame::new().inner_margin(Margin { top: 8, ..Margin::ZERO });
        let (height, canvas) = (ui.available_height(), panes::full_height(view.own));
        let most = (height - 160.0).max(97.0);
        // Room that the rows do not need is the tables'.
        let least = (height - canvas).clamp(96.0, most);
        // Where other rows are folded, another height was chosen.
        Panel::bottom(("timeline-tables", canvas as u32))
            .frame(below)
            .resizable(true)
            .default_size((height * 0.28).max(TABLES).round())
            .size_range(least..=most)
            .show(ui, |ui| tables::tables_ui(ui, view.own, &mut own));
        CentralPanel::default().frame(Frame::new()).show(ui, |ui| canvas::canvas_ui(ui, view.own, &mut own));
    }
    commands.extend(own.into_iter().map(Command::from));
}
