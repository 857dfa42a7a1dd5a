//! The list of runs next to the plots: active ones first, drawn ones with colour and marker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use eframe::egui::text::LayoutJob;
use eframe::egui::{
    Color32, Frame, Id, Label, Margin, Panel, Rect, Role, ScrollArea, Sense, TextFormat, TextStyle, Ui, WidgetInfo,
    vec2,
};

use super::LiveCommand;
use super::looks::{RunLook, chosen_looks};
use super::names::{breaking_between_parts, levels_alone};
use super::scene::running;
use super::store::AUTOMATIC_RUNS;
use crate::app::desk::Row;
use crate::app::screens::live::View;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{check_ui, filter_field, filter_of_list, muted, strong};
use crate::conduct::QueueRow;
use crate::plan::{Facts, Filter, Level, RunState, mentions};

/// Number of runs, from the top, whose names are measured.
const NAMES_MEASURED: usize = 100;
/// The most lines of a name, and of a name that consists only of levels.
const MOST_LINES: usize = 3;
const MOST_BRIEF_LINES: usize = 4;
/// Width of the tick box and the line sample in front of a name.
const BEFORE_NAME: f32 = 52.0;

/// A run of the list.
pub struct Listed<'a> {
    pub run: &'a str,
    pub name: &'a str,
    pub state: RunState,
    /// Its line on the Runs screen, which has its levels.
    row: Option<&'a Row>,
}

impl<'a> Listed<'a> {
    fn new(run: &'a str, state: RunState, row: Option<&'a Row>) -> Self {
        Self { run, name: row.map_or(run, |row| &row.name), state, row }
    }
}

impl Facts for Listed<'_> {
    fn level(&self, key: &str) -> Option<Level> {
        match key {
            "state" => Some(Level::text(self.state.name())),
            _ => Facts::level(self.row?, key),
        }
    }

    fn mentions(&self, word: &str) -> bool {
        self.row.is_some_and(|row| mentions(&row.name_words, word)) || self.state.name().contains(word)
    }
}

/// The runs that have started: active ones first, then ended ones, latest first.
pub fn listed(view: View<'_>) -> Vec<Listed<'_>> {
    let runs = &view.desk.runs;
    let running: Vec<&QueueRow> = running(view.desk).collect();
    let ids: HashSet<&str> = running.iter().map(|row| &*row.run).collect();
    let ended = runs.rows.iter().rev().filter(|row| {
        let started = row.started_time_s.is_some() || row.state == RunState::Running;
        started && !ids.contains(&*row.run)
    });
    let running = running.into_iter().map(|row| Listed::new(&row.run, row.state, runs.row(&row.run)));
    running.chain(ended.map(|row| Listed::new(&row.run, row.state, Some(row)))).collect()
}

/// The finished runs that represent the session, in the order of the queue: the latest run of each cell, then the latest others.
pub fn latest(rows: &[Row]) -> Vec<&str> {
    let mut cells = HashSet::new();
    let finished = rows.iter().enumerate().rev().filter(|(_, row)| row.state == RunState::Finished);
    let (of_cells, others): (Vec<_>, Vec<_>) = finished.partition(|(_, row)| cells.insert((&row.plan, &row.cells)));
    let mut latest: Vec<(usize, &Row)> = of_cells.into_iter().chain(others).take(AUTOMATIC_RUNS).collect();
    latest.sort_by_key(|(place, _)| *place);
    latest.into_iter().map(|(_, row)| &*row.run).collect()
}

/// Id of the filter field, for the key that focuses it.
pub fn filter_id() -> Id {
    Id::unique("live-filter")
}

/// The places of runs in the list, by id.
type Held = Arc<HashMap<String, usize>>;

/// Draws the list.
pub fn list_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<LiveCommand>) {
    ui.take_available_width();
    let runs = listed(view);
    ui.horizontal(|ui| {
        ui.label(strong("Runs"));
        if view.own.shelf.chosen().next().is_some() && ui.small_button("Untick all").clicked() {
            commands.push(LiveCommand::ChooseNone);
        }
    });
    let filter = Filter::typed(&view.own.filter).unwrap_or_default().among(&runs.iter());
    let (filter, unordered) = filter_of_list(filter);
    ui.add_enabled_ui(!runs.is_empty(), |ui| {
        let (names, keys) = (("Filter the list of runs", "Filter"), view.filter_keys());
        let (text, unordered) = (&view.own.filter, unordered.as_ref());
        let field = filter_field(ui, filter_id(), names, text, f32::INFINITY, &keys, unordered);
        commands.extend(field.map(LiveCommand::Filter));
    });
    let fits = |listed: &&Listed| filter.is_empty() || filter.admits(*listed);
    let mut fitting: Vec<&Listed> = runs.iter().filter(fits).collect();
    hold_order(ui, &mut fitting);
    if fitting.is_empty() {
        ui.label(muted(ui, if runs.is_empty() { "No run yet." } else { "No run matches." }));
    }
    ui.add_space(GRID);
    if view.own.shelf.chosen().next().is_some() {
        let help = "Shaded: warm-up. Thin lines: epochs begin. Drag to pan, right-drag to zoom to a range, Ctrl+wheel to zoom, double-click \
                    to show all.";
        let frame = Frame::new().inner_margin(Margin { top: 4, ..Margin::ZERO });
        Panel::bottom("live-help").frame(frame).resizable(false).show_separator_line(false).show(ui, |ui| {
            ui.label(muted(ui, help).small());
        });
    }
    let (form, looks) = (Form::fit(ui, &fitting), chosen_looks(view));
    let scroll = ScrollArea::vertical().auto_shrink(false);
    let shown = scroll.show_rows(ui, form.height(ui), fitting.len(), |ui, rows| {
        for listed in fitting.get(rows).unwrap_or_default() {
            let look = looks.iter().find(|(chosen, _)| chosen.run == listed.run).map(|(_, look)| look);
            row_ui(ui, view, (listed, look), form, commands);
        }
    });
    ui.data_mut(|data| data.insert_temp(area_id(), shown.inner_rect));
}

/// Under which the area of the list in the last frame is stored.
fn area_id() -> Id {
    Id::unique("area of the list of Live")
}

/// Keeps the order of the list while the pointer is over it: a run that starts or ends must not move others under the pointer. Runs that
/// come in the meantime are the last ones.
fn hold_order(ui: &Ui, runs: &mut [&Listed]) {
    let id = Id::unique("order of the list of Live");
    let area: Option<Rect> = ui.data(|data| data.get_temp(area_id()));
    if !area.is_some_and(|area| ui.rect_contains_pointer(area)) {
        ui.data_mut(|data| data.remove::<Held>(id));
        return;
    }
    match ui.data(|data| data.get_temp::<Held>(id)) {
        Some(held) => runs.sort_by_key(|listed| held.get(listed.run).copied().unwrap_or(usize::MAX)),
        None => {
            let places = runs.iter().zip(0..).map(|(listed, place)| (listed.run.to_owned(), place));
            let held: Held = Arc::new(places.collect());
            ui.data_mut(|data| data.insert_temp(id, held));
        }
    }
}

/// How names are written, so that they are not cut off: names of many factors that are cut off would look alike.
#[derive(Clone, Copy)]
struct Form {
    /// Whether names consist only of levels.
    brief: bool,
    /// The number of lines for each name.
    lines: usize,
}

impl Form {
    /// The form in which the names of the first runs fit.
    fn fit(ui: &Ui, runs: &[&Listed]) -> Self {
        let room = ui.available_width() - BEFORE_NAME - ui.spacing().scroll.allocated_width();
        let lines = |brief: bool| {
            let name_lines = |listed: &&Listed| {
                let widest_state = match listed.state {
                    RunState::Starting | RunState::Running => "● 100\u{a0}%",
                    RunState::Finished => "",
                    other => other.name(),
                };
                let mut job = name_job(ui, listed, brief, (widest_state, Color32::WHITE));
                job.wrap.max_width = room;
                ui.fonts_mut(|fonts| fonts.layout_job(job)).rows.len()
            };
            runs.iter().take(NAMES_MEASURED).map(name_lines).max().unwrap_or(1)
        };
        match lines(false) {
            lines @ ..=MOST_LINES => Self { brief: false, lines },
            _ => Self { brief: true, lines: lines(true).min(MOST_BRIEF_LINES) },
        }
    }

    /// Height of all rows.
    fn height(self, ui: &Ui) -> f32 {
        let text = self.lines as f32 * ui.text_style_height(&TextStyle::Body);
        ui.spacing().interact_size.y.max(text)
    }
}

/// The name of a run and what it is doing.
fn name_job(ui: &Ui, listed: &Listed, brief: bool, (state, colour): (&str, Color32)) -> LayoutJob {
    let name = if brief { levels_alone(listed.name) } else { listed.name.to_owned() };
    let format = |style: TextStyle, colour: Color32| TextFormat::simple(style.resolve(ui.style()), colour);
    let mut job = LayoutJob::default();
    job.append(&breaking_between_parts(&name), 0.0, format(TextStyle::Body, ui.visuals().text_color()));
    if !state.is_empty() {
        job.append(" ", 0.0, format(TextStyle::Body, colour));
        job.append(&state.replace(' ', "\u{a0}"), 0.0, format(TextStyle::Small, colour));
    }
    job
}

/// Draws the line of a run; a drawn one has a look.
fn row_ui(
    ui: &mut Ui,
    view: View<'_>,
    (listed, look): (&Listed, Option<&RunLook>),
    form: Form,
    commands: &mut Vec<LiveCommand>,
) {
    let height = form.height(ui);
    ui.horizontal(|ui| {
        ui.set_height(height);
        ui.spacing_mut().item_spacing.x = GRID;
        let mut on = look.is_some();
        let response = check_ui(ui, &mut on, "");
        let info = format!("Draw run {}", listed.run);
        response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, on, &info));
        if response.changed() {
            commands.push(LiveCommand::Choose(listed.run.to_owned(), on));
        }
        let (rect, _) = ui.allocate_exact_size(vec2(20.0, ui.spacing().interact_size.y), Sense::hover());
        if let Some(look) = look {
            look.swatch(ui.painter(), rect, ui.visuals());
        }
        let (text, colour) = state_text(ui, view, listed);
        let mut job = name_job(ui, listed, form.brief, (&text, colour));
        job.wrap.max_rows = form.lines;
        let hover = format!("{}\n{}, {}", listed.name, listed.run, listed.state.name());
        let label = ui.add(Label::new(job).wrap().sense(Sense::click()));
        let whole = if text.is_empty() { listed.name.to_owned() } else { format!("{}, {text}", listed.name) };
        label.widget_info(|| WidgetInfo::labeled(Role::Label, true, &whole));
        if label.on_hover_text(hover).clicked() {
            commands.push(LiveCommand::Choose(listed.run.to_owned(), look.is_none()));
        }
    });
}

/// Short state of a run; empty if it finished.
fn state_text(ui: &Ui, view: View<'_>, listed: &Listed) -> (String, Color32) {
    let palette = palette(ui.visuals());
    if view.own.shelf.is_reading(listed.run) {
        return ("reading …".to_owned(), palette.muted);
    }
    match listed.state {
        RunState::Finished => (String::new(), palette.muted),
        RunState::Starting | RunState::Running => {
            let row = view.queue.rows.iter().find(|row| row.run == listed.run);
            let share = row.filter(|row| row.steps > 0).map(|row| 100.0 * row.step as f64 / row.steps as f64);
            let text = share.map_or_else(|| listed.state.name().to_owned(), |share| format!("{share:.0} %"));
            (format!("● {text}"), palette.good)
        }
        other => (other.name().to_owned(), palette.bad),
    }
}
