//! The Compare screen: cells side by side, as bars, curves and a table.

mod bars;
mod claims;
mod controls;
mod levels_menu;
mod lines;
pub(super) mod look;
mod metrics;
mod paper;
mod picture;
mod sheet;
mod sources;
mod stacked;
mod status;
mod study_menu;
mod table;
#[cfg(test)]
mod tests;
mod value_text;

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::{
    Align, CentralPanel, Context, Frame, Id, Label, Layout, Margin, Panel, TextureHandle, TextureOptions, Theme, Ui,
};
use poll_promise::Promise;

use super::engine::Records;
use super::sessions::choose_session;
use super::theme::{GRID, palette};
use super::widgets::{main_button, muted, strong};
use super::{Command, Request, Screen, State};
use crate::analysis::{CellKey, Key, Level, MetricUnit};
use crate::figure::{
    Comparison, Form, Format, Geometry, Limits, Over, Place, Runs, SavedStudy, Study, baseline_name, capitalised,
    render,
};
use picture::Picture;

/// Most changes of what is shown that can be undone.
const MOST_UNDONE: usize = 200;

/// Least height of the charts above the table.
const LEAST_CHARTS: f32 = 240.0;

/// A note of charts that takes more lines than this is cut off, and whole where the pointer rests on it.
const MOST_LINES_OF_NOTES: f32 = 2.0;

/// A command of the Compare screen.
#[derive(Clone, Debug, PartialEq)]
pub enum CompareCommand {
    /// Focus the filter field.
    FocusFilter,
    /// Make the next cell the baseline.
    NextBaseline,
    /// Filter the cells.
    Filter(String),
    /// Show or hide the cells with a level: key, level, whether to show.
    Keep(Key, Level, bool),
    /// Show all cells.
    KeepAll,
    /// Set what groups the bars.
    Rows(Place),
    /// Hold a factor at a level, or let it vary again.
    Hold(Key, Option<Level>),
    /// Put the levels of a setting in this order; none for the usual one.
    Order(Key, Vec<Level>),
    /// Give a level the colour of this place among the palette's, or the usual one.
    Paint(Key, Level, Option<u8>),
    /// Set what makes panels side by side.
    Columns(Place),
    /// Set what colours distinguish: bars of a group, lines of a panel.
    Colour(Place),
    /// Set the measure by its key; none means the form's default.
    Measure(Option<Key>),
    /// Add a measure to the table's columns, or take it away.
    TableMeasure(Key, bool),
    /// Set the baseline of ratios, as a study names it; none means the first cell that has the measure.
    Baseline(Option<String>),
    /// Switch to a study.
    Study(Box<Study>),
    /// Save what is shown as a study of this name in the session.
    SaveStudy(String),
    /// Delete the saved study of this name.
    DeleteStudy(String),
    /// Restore the study that was deleted last.
    RestoreStudy,
    /// Set the kind of chart.
    Form(Form),
    /// Show what the runs say to the papers' claims, in place of charts and table, or not.
    Claims(bool),
    /// Queue the runs that the session lacks of the paper's table or figure that is shown.
    QueueMissing,
    /// Open a plan of full runs of the quick cells that are shown.
    PlanFullRuns,
    /// The limits within which the fastest cell is sought.
    Limits(Limits),
    /// Draw values on a logarithmic axis, or not.
    Log(bool),
    /// Ratios that are surely nearer to 1 than this share count as equal.
    EqualWithin(f64),
    /// Set the horizontal axis of losses.
    Over(Over),
    /// Show or hide traced runs among the others.
    Traced(bool),
    /// Show or hide a metric of profiler reports, by its key.
    ShowMetric(Key, bool),
    /// Set the unit of metrics.
    MetricUnit(MetricUnit),
    /// Choose a profiler report in the system's dialog.
    ChooseReport,
    /// Sort the table by the column with this key: ascending, then descending, then not at all.
    Sort(String),
    /// Select a cell, or none.
    Select(Option<CellKey>),
    /// Add the session in a folder to the comparison.
    Add(PathBuf),
    /// Choose the folder of a session to add in the system's dialog.
    Choose,
    /// Remove the session in a folder from the comparison.
    Remove(PathBuf),
    /// Copy the table as shown.
    Copy(Format),
    /// Show the runs of a cell.
    Open(CellKey),
    /// Undo the last change of what is shown.
    Undo,
    /// Redo it.
    Redo,
}

/// State of the Compare screen.
#[derive(Default)]
pub struct CompareState {
    /// What is shown and how.
    pub study: Study,
    /// The cell that the default baseline resolved to. It stays when runs are added or filtered and when another measure is chosen, as
    /// long as it has that measure.
    held: Option<CellKey>,
    /// The saved study that was deleted last.
    deleted: Option<SavedStudy>,
    /// What was shown before, and what was undone; the last is the nearest.
    past: Vec<Study>,
    future: Vec<Study>,
    /// Whether the last change was typed or dragged: more of it is the same change.
    is_gradual: bool,
    /// Whether claims are shown in place of charts and table.
    pub claims: bool,
    /// The table's order: a column's key, and whether it is descending.
    pub sort: Option<(String, bool)>,
    /// The selected cell.
    pub selected: Option<CellKey>,
    /// Other compared sessions, in the order they were added.
    others: Vec<Arc<Records>>,
    /// Sessions being read.
    reading: Vec<PathBuf>,
    /// The drawn picture.
    picture: Option<Picture>,
    /// Texture of its sheet.
    texture: Option<TextureHandle>,
    /// Rows of its table in the displayed order.
    order: Vec<usize>,
    work: Option<Promise<Picture>>,
    /// Dialog for a session's folder or a report's file.
    dialog: Option<Promise<Option<PathBuf>>>,
    /// Whether runs, study or theme have changed since the work started.
    stale: bool,
    /// Whether the picture is for the dark theme.
    dark: bool,
}

impl CompareState {
    /// Another session was opened.
    pub fn session_changed(&mut self) {
        (self.held, self.deleted, self.stale) = (None, None, true);
        (self.past, self.future) = (Vec::new(), Vec::new());
    }

    /// The session's records changed.
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
            // It was removed meanwhile, or was open before.
            None => return,
        }
        self.stale = true;
    }

    /// Whether the picture is out of date.
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

    fn table_measure(&mut self, key: Key, add: bool) {
        let measures = &mut self.study.measures;
        if measures.is_empty()
            && let Some(picture) = &self.picture
        {
            let columns = picture.comparison.table.columns.iter();
            *measures = columns.filter(|column| column.is_measure).map(|column| column.key.clone()).collect();
        }
        measures.retain(|known| *known != key);
        measures.extend(add.then_some(key));
    }

    /// The study with the resolved baseline.
    fn held_study(&self) -> Study {
        let held = || self.held.as_ref().map(baseline_name);
        Study { baseline: self.study.baseline.clone().or_else(held), ..self.study.clone() }
    }

    /// Holds on to the baseline that was found, as long as there are ratios over it: filters, forms and runs that arrive do not move
    /// it.
    fn hold_baseline(&mut self, comparison: &Comparison) {
        if self.study.baseline.is_some() || self.stale {
            return;
        }
        let was_held = self.held.take().is_some();
        if comparison.has_ratios {
            self.held = comparison.baseline.as_ref().and_then(|(cell, _)| cell.clone());
        }
        // Another one may have the measure.
        self.stale = was_held && self.held.is_none();
    }

    /// Records a change of what is shown, so that it can be undone.
    fn changed(&mut self, before: Study, is_gradual: bool) {
        if !(is_gradual && self.is_gradual) {
            self.past.push(before);
            // Nobody goes back further.
            if self.past.len() > MOST_UNDONE {
                self.past.remove(0);
            }
        }
        self.future.clear();
        (self.is_gradual, self.stale) = (is_gradual, true);
    }

    fn undo(&mut self, redo: bool) {
        let (from, to) = if redo { (&mut self.future, &mut self.past) } else { (&mut self.past, &mut self.future) };
        let Some(study) = from.pop() else { return };
        to.push(std::mem::replace(&mut self.study, study));
        (self.is_gradual, self.stale) = (false, true);
    }

    fn next_baseline(&mut self) {
        let Some(picture) = &self.picture else { return };
        let cells = &picture.comparison.cells;
        let now = picture.comparison.baseline.as_ref().and_then(|baseline| baseline.0.as_ref());
        let place = cells.iter().position(|(key, _)| Some(key) == now);
        let next = place.map_or(0, |place| (place + 1) % cells.len().max(1));
        self.study.baseline = cells.get(next).map(|(key, _)| baseline_name(key));
    }
}

impl State {
    /// Executes a command of the Compare screen.
    pub fn execute_compare(&mut self, command: CompareCommand, context: &Context, requests: &mut Vec<Request>) {
        let compare = &mut self.compare;
        let before = compare.study.clone();
        let is_gradual =
            matches!(command, CompareCommand::Filter(_) | CompareCommand::Limits(_) | CompareCommand::EqualWithin(_));
        if matches!(command, CompareCommand::Undo | CompareCommand::Redo) {
            return compare.undo(command == CompareCommand::Redo);
        }
        match command {
            CompareCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(filter_id())),
            CompareCommand::NextBaseline => compare.next_baseline(),
            CompareCommand::Filter(text) => compare.study.filter = text,
            CompareCommand::Keep(key, level, keep) => compare.keep(key, level, keep),
            CompareCommand::KeepAll => compare.study.show_all(),
            CompareCommand::Hold(key, level) => compare.study.hold(key, level),
            CompareCommand::Order(key, levels) => compare.study.put_in_order(key, levels),
            CompareCommand::Paint(key, level, place) => compare.study.paint(key, level, place),
            CompareCommand::Rows(place) => compare.study.rows = place,
            CompareCommand::Columns(place) => compare.study.columns = place,
            CompareCommand::Colour(place) => compare.study.colour = place,
            CompareCommand::Measure(key) => compare.study.measure = key,
            CompareCommand::TableMeasure(key, add) => compare.table_measure(key, add),
            CompareCommand::Baseline(asked) => {
                (compare.held, compare.stale) = (None, true);
                compare.study.baseline = asked;
            }
            CompareCommand::Study(study) => {
                (compare.held, compare.study, compare.claims) = (None, *study, false);
            }
            CompareCommand::Form(form) => (compare.claims, compare.study.form) = (false, form),
            CompareCommand::Claims(show) => {
                compare.stale |= show && !compare.claims;
                compare.claims = show;
            }
            CompareCommand::QueueMissing => {
                let of_paper = compare.picture.as_ref().and_then(|picture| picture.comparison.of_paper.as_ref());
                if let Some(plan) = of_paper.and_then(|of_paper| of_paper.plan_of_missing.clone()) {
                    requests.push(Request::Launch { plan: Box::new(plan), only_missing: true });
                }
            }
            CompareCommand::PlanFullRuns => {
                let full = compare.picture.as_ref().and_then(|picture| picture.full_runs.clone());
                if let Some(full) = full {
                    self.plan.edit_plan(full);
                    self.screen = Screen::Plan;
                }
            }
            CompareCommand::SaveStudy(name) => self.save_study(&name, requests),
            CompareCommand::DeleteStudy(name) => self.delete_study(&name, requests),
            CompareCommand::RestoreStudy => self.restore_study(requests),
            CompareCommand::Limits(limits) => compare.study.limits = limits,
            CompareCommand::Log(log) => compare.study.log = log,
            CompareCommand::EqualWithin(share) => compare.study.equal_within = share,
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
            CompareCommand::Select(cell) => {
                let is_line = matches!(compare.study.form, Form::Loss | Form::Activity);
                let is_left_out = |picture: &Picture| cell.as_ref().is_some_and(|cell| !picture.draws(cell));
                compare.stale |= is_line && compare.picture.as_ref().is_some_and(is_left_out);
                compare.selected = cell;
            }
            CompareCommand::Add(folder) => self.add_session(folder, requests),
            CompareCommand::Choose => {
                let title = "Add a session: choose its folder";
                compare.dialog.get_or_insert_with(|| choose_session(context, title));
            }
            CompareCommand::Remove(folder) => {
                compare.reading.retain(|known| *known != folder);
                compare.others.retain(|other| other.folder != folder);
                compare.stale = true;
            }
            CompareCommand::Copy(format) => {
                if let Some(picture) = &compare.picture {
                    let columns = table::shown_columns(picture, &self.settings);
                    context.copy_text(render(&picture.shown_table(&compare.order, &columns), format));
                }
            }
            CompareCommand::Open(cell) => {
                compare.selected = Some(cell);
                self.screen = Screen::Runs;
            }
            CompareCommand::Undo | CompareCommand::Redo => {}
        }
        if self.compare.study != before {
            // Figures have the order and the colours of this screen.
            self.figures.records_changed();
            self.compare.changed(before, is_gradual);
        }
    }

    /// Whether a comparison is being computed.
    pub fn is_comparing(&self) -> bool {
        self.compare.is_updating()
    }

    /// Takes over the results of background work, and starts it if something has changed.
    pub fn poll_compare(&mut self, context: &Context, requests: &mut Vec<Request>) {
        match self.compare.dialog.take().map(Promise::try_take) {
            // A session is a folder, a report is a file.
            Some(Ok(Some(folder))) if folder.is_dir() => self.add_session(folder, requests),
            Some(Ok(Some(file))) => self.attach(file, None, requests),
            // Cancelled, or the system has no dialog; the path field works without one.
            Some(Ok(None)) | None => {}
            Some(Err(waiting)) => self.compare.dialog = Some(waiting),
        }
        if let Some(work) = self.compare.work.take() {
            match work.try_take() {
                Ok(picture) => {
                    self.compare.hold_baseline(&picture.comparison);
                    let image = picture.sheet.as_ref().and_then(|sheet| sheet.as_ref().ok()).map(|sheet| &sheet.image);
                    self.compare.texture =
                        image.map(|image| context.load_texture("compare", image.clone(), TextureOptions::LINEAR));
                    self.compare.picture = Some(picture);
                    self.compare.sort_rows();
                }
                Err(work) => self.compare.work = Some(work),
            }
        }
        let dark = context.theme() == Theme::Dark;
        self.compare.stale |= dark != std::mem::replace(&mut self.compare.dark, dark);
        // One at a time, and only while the screen is shown; later changes start another one.
        if self.compare.stale && self.compare.work.is_none() && self.screen == Screen::Compare {
            self.compare.stale = false;
            let sources = self.compare_sources();
            self.compare.name_cells_for(&sources);
            let study = self.compare.held_study();
            let (with_claims, selected) = (self.compare.claims, self.compare.selected.clone());
            let most_pixels = context.input(|input| input.max_texture_side);
            let context = context.clone();
            let (sender, work) = Promise::new();
            let work_on = move || {
                let picture = Picture::new(&sources, &study, selected.as_ref(), most_pixels, dark);
                sender.send(if with_claims { picture.with_claims(&sources) } else { picture });
                context.request_repaint();
            };
            match std::thread::Builder::new().name("compare".to_owned()).spawn(work_on) {
                Ok(_) => self.compare.work = Some(work),
                Err(error) => {
                    let message = format!("cannot start a thread to compare runs ({error}): close other programs");
                    self.problem(Screen::Compare, message);
                }
            }
        }
    }
}

/// Id of the filter field, for the key that focuses it.
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
    if state.compare.claims {
        return claims::claims_ui(ui, picture, commands);
    }
    paper::paper_ui(ui, state, picture, commands);
    warnings_ui(ui, picture);
    let below = Frame::new().inner_margin(Margin { top: 8, ..Margin::ZERO });
    let height = ui.available_height();
    Panel::bottom("compare-table")
        .frame(below)
        .resizable(true)
        .default_size((height * 0.42).round())
        // A size that was chosen in a larger window leaves the charts their room.
        .size_range(96.0..=(height - LEAST_CHARTS).max(97.0))
        .show(ui, |ui| {
            // A short table would shrink the panel for the next one.
            ui.take_available_height();
            status::status_ui(ui, state, picture, commands);
            table::table_ui(ui, state, picture, commands);
        });
    let charts = Frame::new().inner_margin(Margin { top: 4, bottom: 4, ..Margin::ZERO });
    CentralPanel::default().frame(charts).show(ui, |ui| charts_ui(ui, &state.compare, picture, commands));
}

/// Draws the fastest cell within the limits, and warnings: missing items of the study, and its baseline.
fn warnings_ui(ui: &mut Ui, picture: &Picture) {
    let Comparison { missing, baseline_warning, fastest, .. } = &picture.comparison;
    if let Some(fastest) = fastest {
        ui.label(strong(capitalised(fastest)));
    }
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
    if picture.sheet.is_none() {
        // A sheet says it itself.
        let intervals = charts.iter().map(|chart| chart.intervals.as_str()).filter(|text| !text.is_empty());
        notes.extend(intervals);
    }
    notes.dedup();
    // A note of many cells' names would take the charts' room.
    let (long, short): (Vec<&str>, Vec<&str>) =
        notes.into_iter().partition(|note| look::text_width(ui, note) > MOST_LINES_OF_NOTES * ui.available_width());
    if !short.is_empty() {
        ui.label(muted(ui, short.join(" ")));
    }
    for note in long {
        ui.add(Label::new(muted(ui, note)).truncate()).on_hover_text(note);
    }
    if let Some(sheet) = &picture.sheet {
        return sheet::sheet_ui(ui, &picture.comparison.charts, sheet, compare.texture.as_ref());
    }
    match charts.as_slice() {
        [chart] if chart.geometry == Geometry::Stacked => stacked::stacked_ui(ui, compare, picture, chart, commands),
        [chart] if chart.geometry == Geometry::Bars => bars::bars_ui(ui, compare, picture, chart, commands),
        _ => lines::lines_ui(ui, compare, charts, commands),
    }
}

/// Draws what to do while there is nothing to compare.
fn empty_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.vertical_centered(|ui| {
        ui.add_space((ui.available_height() / 3.0 - 40.0).max(8.0));
        let waits = state.is_reading_session()
            || state.records.pending > 0
            || state.compare.is_updating() && !state.records.summaries.is_empty();
        if waits {
            ui.heading("Reading the runs …");
            if state.records.pending > 0 {
                let text = format!("computing the measures of {} runs", state.records.pending);
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
                "Launch a plan: its cells appear here side by side as their runs finish."
            },
        ));
        ui.add_space(2.0 * GRID);
        let (name, screen) = if running { ("Show Runs", Screen::Runs) } else { ("Show Plan", Screen::Plan) };
        if main_button(ui, true, name).clicked() {
            commands.push(Command::Show(screen));
        }
        ui.add_space(2.0 * GRID);
        // Centred as a pair: their texts, with what is around and between them.
        let texts = look::text_width(ui, controls::ADD_SESSION) + look::text_width(ui, metrics::ATTACH);
        let width = texts + 4.0 * ui.spacing().button_padding.x + ui.spacing().item_spacing.x;
        ui.allocate_ui_with_layout([width, 0.0].into(), Layout::left_to_right(Align::Center), |ui| {
            controls::add_session_ui(ui, state, commands);
            metrics::attach_ui(ui, state, commands);
        });
    });
}
