//! The Compare screen: cells beside each other, as bars, curves and a table.

mod bars;
mod controls;
mod lines;
pub(super) mod look;
mod metrics;
mod picture;
mod sheet;
mod sources;
mod stacked;
mod status;
mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::{CentralPanel, Context, Frame, Id, Margin, Panel, TextureHandle, TextureOptions, Ui};
use poll_promise::Promise;

use super::engine::Records;
use super::sessions::choose_session;
use super::theme::{GRID, palette};
use super::widgets::{main_button, muted};
use super::{Command, Request, Screen, State};
use crate::analysis::{CellKey, Key, Level, MetricUnit};
use crate::figure::{Comparison, Form, Format, Geometry, Over, Place, Runs, Study, baseline_name, render};
use picture::Picture;

/// What can be asked for on the Compare screen.
#[derive(Clone, Debug, PartialEq)]
pub enum CompareCommand {
    /// Put the cursor into the filter.
    FocusFilter,
    /// Take the next cell as the baseline.
    NextBaseline,
    /// Show the cells that this filter admits.
    Filter(String),
    /// Show the cells with a level, or leave them out: key, level, whether to show.
    Keep(Key, Level, bool),
    /// Show all cells.
    KeepAll,
    /// Groups of bars.
    Rows(Place),
    /// Panels beside each other.
    Columns(Place),
    /// Bars of a group, lines of a panel.
    Colour(Place),
    /// The measure: its key; none: the form's usual one.
    Measure(Option<Key>),
    /// The cell that ratios are over; none: the first that has the measure.
    Baseline(Option<CellKey>),
    /// Compare as a study says.
    Study(Box<Study>),
    /// The kind of chart.
    Form(Form),
    /// What losses are drawn over.
    Over(Over),
    /// Show runs that a profiler recorded among the others, or not.
    Traced(bool),
    /// Show a metric of profilers' reports, or not: its key.
    ShowMetric(Key, bool),
    /// In what metrics are shown.
    MetricUnit(MetricUnit),
    /// Ask for the file of a profiler's report.
    ChooseReport,
    /// Sort the table by the column of this key; again: the other way round; again: not at all.
    Sort(String),
    /// Choose a cell, or none.
    Select(Option<CellKey>),
    /// Compare with the session in a folder too.
    Add(PathBuf),
    /// Choose the folder of a session to compare with in the system's dialog.
    Choose,
    /// No longer compare with the session in a folder.
    Remove(PathBuf),
    /// Copy the table as it is shown.
    Copy(Format),
    /// Look at the runs of a cell.
    Open(CellKey),
}

/// The Compare screen.
#[derive(Default)]
pub struct CompareState {
    /// What is shown and how.
    pub study: Study,
    /// The baseline that the study's default came to. It stays, whatever runs are added or filtered, until something else is
    /// compared.
    held: Option<CellKey>,
    /// The table's order: a column's key, and whether the greatest come first.
    pub sort: Option<(String, bool)>,
    /// The chosen cell.
    pub selected: Option<CellKey>,
    /// Sessions that are compared with the open one, in the order they were added.
    others: Vec<Arc<Records>>,
    /// Sessions that are being read.
    reading: Vec<PathBuf>,
    /// What is drawn.
    picture: Option<Picture>,
    /// Its sheet on the graphics card.
    texture: Option<TextureHandle>,
    /// The rows of its table in the order they are shown.
    order: Vec<usize>,
    work: Option<Promise<Picture>>,
    /// The dialog for a session's folder or a report's file.
    dialog: Option<Promise<Option<PathBuf>>>,
    /// Runs or view have changed since the work began.
    stale: bool,
}

impl CompareState {
    /// Another session is open.
    pub fn session_changed(&mut self) {
        (self.held, self.stale) = (None, true);
    }

    /// The open session has other runs now.
    pub fn records_changed(&mut self) {
        self.stale = true;
    }

    /// Another session was read.
    pub fn take_other(&mut self, records: Arc<Records>) {
        let was_asked_for = self.reading.iter().any(|folder| *folder == records.folder);
        let known = self.others.iter().position(|other| other.folder == records.folder);
        match known {
            Some(place) => self.others[place] = records,
            None if was_asked_for => {
                self.reading.retain(|folder| *folder != records.folder);
                self.others.push(records);
            }
            // It was taken away meanwhile, or was open before.
            None => return,
        }
        self.stale = true;
    }

    /// Whether what is drawn is not yet what was asked for.
    fn is_updating(&self) -> bool {
        self.stale || self.work.is_some()
    }

    fn sort_rows(&mut self) {
        self.order = self.picture.as_ref().map_or(Vec::new(), |picture| picture.order(self.sort.as_ref()));
    }

    fn keep(&mut self, key: Key, level: Level, keep: bool) {
        let hidden = (key, level);
        self.study.hidden.retain(|known| *known != hidden);
        if !keep {
            self.study.hidden.push(hidden);
        }
    }

    /// The study with the baseline that it is held against.
    fn held_study(&self) -> Study {
        let held = || self.held.as_ref().map(baseline_name);
        Study { baseline: self.study.baseline.clone().or_else(held), ..self.study.clone() }
    }

    fn next_baseline(&mut self) {
        let Some(picture) = &self.picture else { return };
        let cells = &picture.comparison.cells;
        let now = picture.comparison.baseline.as_ref().map(|baseline| &baseline.0);
        let place = cells.iter().position(|(key, _)| Some(key) == now);
        let next = place.map_or(0, |place| (place + 1) % cells.len().max(1));
        self.study.baseline = cells.get(next).map(|(key, _)| baseline_name(key));
    }
}

impl State {
    /// Does what was asked for on the Compare screen.
    pub fn execute_compare(&mut self, command: CompareCommand, context: &Context, requests: &mut Vec<Request>) {
        let compare = &mut self.compare;
        let before = compare.study.clone();
        match command {
            CompareCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(filter_id())),
            CompareCommand::NextBaseline => compare.next_baseline(),
            CompareCommand::Filter(text) => compare.study.filter = text,
            CompareCommand::Keep(key, level, keep) => compare.keep(key, level, keep),
            CompareCommand::KeepAll => {
                compare.study.hidden.clear();
                compare.study.filter.clear();
            }
            CompareCommand::Rows(place) => compare.study.rows = place,
            CompareCommand::Columns(place) => compare.study.columns = place,
            CompareCommand::Colour(place) => compare.study.colour = place,
            CompareCommand::Measure(key) => compare.study.measure = key,
            CompareCommand::Baseline(cell) => {
                (compare.held, compare.stale) = (None, true);
                compare.study.baseline = cell.as_ref().map(baseline_name);
            }
            CompareCommand::Study(study) => {
                (compare.held, compare.study) = (None, *study);
            }
            CompareCommand::Form(form) => compare.study.form = form,
            CompareCommand::Over(over) => compare.study.over = over,
            CompareCommand::Traced(traced) => compare.study.runs = if traced { Runs::All } else { Runs::Plain },
            CompareCommand::ShowMetric(key, show) => {
                compare.study.metrics.retain(|known| *known != key);
                compare.study.metrics.extend(show.then_some(key));
            }
            CompareCommand::ChooseReport if compare.dialog.is_none() => {
                let waker = context.clone();
                compare.dialog = Some(Promise::spawn_thread("report-dialog", move || {
                    let dialog = rfd::FileDialog::new().set_title("Attach a report of Nsight Systems");
                    let chosen = dialog.add_filter("reports", &["nsys-rep", "sqlite"]).pick_file();
                    waker.request_repaint();
                    chosen
                }));
            }
            CompareCommand::ChooseReport => {}
            CompareCommand::MetricUnit(unit) => compare.study.metric_unit = unit,
            CompareCommand::Sort(column) => {
                compare.sort = match compare.sort.take() {
                    Some((known, false)) if known == column => Some((column, true)),
                    Some((known, true)) if known == column => None,
                    _ => Some((column, false)),
                };
                compare.sort_rows();
            }
            CompareCommand::Select(cell) => compare.selected = cell,
            CompareCommand::Add(folder) => self.add_session(folder, requests),
            CompareCommand::Choose => {
                let title = "Compare with a session: choose its folder";
                compare.dialog.get_or_insert_with(|| choose_session(context, title));
            }
            CompareCommand::Remove(folder) => {
                compare.reading.retain(|known| *known != folder);
                compare.others.retain(|other| other.folder != folder);
                compare.stale = true;
            }
            CompareCommand::Copy(format) => {
                if let Some(picture) = &compare.picture {
                    context.copy_text(render(&picture.sorted_table(&compare.order), format));
                }
            }
            CompareCommand::Open(cell) => {
                compare.selected = Some(cell);
                self.screen = Screen::Runs;
            }
        }
        let compare = &mut self.compare;
        compare.stale |= compare.study != before;
        let asks = |study: &Study| (study.form, study.runs, study.measure.clone());
        if asks(&compare.study) != asks(&before) {
            compare.held = None;
        }
    }

    /// Whether cells are being compared on a thread.
    pub fn is_comparing(&self) -> bool {
        self.compare.is_updating()
    }

    /// Takes over what background work has done, and begins it where something has changed.
    pub fn poll_compare(&mut self, context: &Context, requests: &mut Vec<Request>) {
        match self.compare.dialog.take().map(Promise::try_take) {
            // A session is a folder, a report is a file.
            Some(Ok(Some(folder))) if folder.is_dir() => self.add_session(folder, requests),
            Some(Ok(Some(file))) => self.attach(file, None, requests),
            // Cancelled, or there is no dialog on this system: the path field does it then.
            Some(Ok(None)) | None => {}
            Some(Err(waiting)) => self.compare.dialog = Some(waiting),
        }
        if let Some(work) = self.compare.work.take() {
            match work.try_take() {
                Ok(picture) => {
                    if self.compare.study.baseline.is_none() && self.compare.held.is_none() && !self.compare.stale {
                        self.compare.held = picture.comparison.baseline.as_ref().map(|(cell, _)| cell.clone());
                    }
                    let image = picture.sheet.as_ref().and_then(|sheet| sheet.as_ref().ok()).map(|sheet| &sheet.image);
                    self.compare.texture =
                        image.map(|image| context.load_texture("compare", image.clone(), TextureOptions::LINEAR));
                    self.compare.picture = Some(picture);
                    self.compare.sort_rows();
                }
                Err(work) => self.compare.work = Some(work),
            }
        }
        // One at a time, and only for somebody who looks; what changes meanwhile is worked in afterwards.
        if self.compare.stale && self.compare.work.is_none() && self.screen == Screen::Compare {
            self.compare.stale = false;
            let sources = self.compare_sources();
            self.compare.name_cells_for(&sources);
            let study = self.compare.held_study();
            let most_pixels = context.input(|input| input.max_texture_side);
            let context = context.clone();
            let (sender, work) = Promise::new();
            let work_on = move || {
                sender.send(Picture::new(&sources, &study, most_pixels));
                context.request_repaint();
            };
            match std::thread::Builder::new().name("compare".to_owned()).spawn(work_on) {
                Ok(_) => self.compare.work = Some(work),
                Err(error) => {
                    let message = format!("comparing needs a thread and got none ({error}): end other programs");
                    self.problem(Screen::Compare, message);
                }
            }
        }
    }
}

/// The id of the filter's field, which a key puts the cursor into.
fn filter_id() -> Id {
    Id::unique("compare-filter")
}

/// Draws the Compare screen.
pub fn compare_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let Some(picture) = state.compare.picture.as_ref().filter(|picture| picture.comparison.known_cells > 0) else {
        empty_ui(ui, state, commands);
        return;
    };
    let side = Frame::new().inner_margin(Margin { right: 12, ..Margin::ZERO });
    Panel::left("compare-side").frame(side).resizable(false).exact_size(216.0).show_separator_line(false).show(
        ui,
        |ui| {
            ui.take_available_width();
            controls::side_ui(ui, state, picture, commands);
        },
    );
    controls::top_ui(ui, state, picture, commands);
    warnings_ui(ui, picture);
    let below = Frame::new().inner_margin(Margin { top: 8, ..Margin::ZERO });
    let height = ui.available_height();
    Panel::bottom("compare-table")
        .frame(below)
        .resizable(true)
        .default_size((height * 0.42).round())
        .size_range(96.0..=(height - 120.0).max(97.0))
        .show(ui, |ui| {
            // A short table would draw the panel in, and the next one would start as low.
            ui.take_available_height();
            status::status_ui(ui, state, picture, commands);
            table::table_ui(ui, &state.compare, picture, commands);
        });
    let charts = Frame::new().inner_margin(Margin { top: 4, bottom: 4, ..Margin::ZERO });
    CentralPanel::default().frame(charts).show(ui, |ui| charts_ui(ui, &state.compare, picture, commands));
}

/// What the study names that is not there, and what is to be said of its baseline.
fn warnings_ui(ui: &mut Ui, picture: &Picture) {
    let Comparison { missing, baseline_warning, .. } = &picture.comparison;
    for line in missing.iter().chain(baseline_warning) {
        ui.colored_label(palette(ui.visuals()).warning, format!("⚠ {line}"));
    }
}

fn charts_ui(ui: &mut Ui, compare: &CompareState, picture: &Picture, commands: &mut Vec<Command>) {
    let charts = &picture.comparison.charts;
    if picture.sheet.is_none() {
        look::legend_ui(ui, charts);
    }
    let mut notes: Vec<&str> = charts.iter().flat_map(|chart| &chart.notes).map(String::as_str).collect();
    notes.dedup();
    if !notes.is_empty() {
        ui.label(muted(ui, notes.join(" ")));
    }
    if let Some(sheet) = &picture.sheet {
        return sheet::sheet_ui(ui, picture, sheet, compare.texture.as_ref());
    }
    match charts.as_slice() {
        [chart] if chart.geometry == Geometry::Stacked => stacked::stacked_ui(ui, compare, picture, chart, commands),
        [chart] if chart.geometry == Geometry::Bars => bars::bars_ui(ui, compare, picture, chart, commands),
        _ => lines::lines_ui(ui, compare, charts),
    }
}

/// What to do while there is nothing to compare.
fn empty_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.vertical_centered(|ui| {
        ui.add_space((ui.available_height() / 3.0 - 40.0).max(8.0));
        let waits = state.records.pending > 0 || state.compare.is_updating() && !state.records.summaries.is_empty();
        if waits {
            ui.heading("Reading the runs …");
            if state.records.pending > 0 {
                let text = format!("measures of {} runs are still being worked out", state.records.pending);
                ui.label(muted(ui, text));
            }
            return;
        }
        ui.heading("Nothing to compare yet");
        let running = state.queue.is_active() || state.records.runs.iter().any(|run| !run.state.is_final());
        ui.label(muted(
            ui,
            if running {
                "Runs appear here as they finish."
            } else {
                "Launch a plan: its cells appear here, beside each other, as their runs finish."
            },
        ));
        ui.add_space(2.0 * GRID);
        let (name, screen) = if running { ("Show Runs", Screen::Runs) } else { ("Show Plan", Screen::Plan) };
        if main_button(ui, true, name).clicked() {
            commands.push(Command::Show(screen));
        }
        ui.add_space(2.0 * GRID);
        ui.horizontal(|ui| {
            ui.add_space((ui.available_width() / 2.0 - 60.0).max(0.0));
            controls::add_session_ui(ui, state, commands);
            metrics::attach_ui(ui, state, commands);
        });
    });
}
