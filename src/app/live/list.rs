//! The list of runs next to the plots: running ones first, drawn ones with colour and marker.

use std::collections::HashSet;

use eframe::egui::text::LayoutJob;
use eframe::egui::{Frame, Id, Margin, Panel, RichText, ScrollArea, Sense, Ui, WidgetInfo, vec2};

use super::LiveCommand;
use super::scene::{running, swatch};
use crate::app::State;
use crate::app::compare::look::text_width;
use crate::app::runs::Row;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{check_ui, filter_error_ui, filter_field, muted, strong};
use crate::conduct::QueueRow;
use crate::plan::{Facts, Filter, Level, RunState, mentions};

/// Number of runs, from the top, whose names are measured.
const NAMES_MEASURED: usize = 200;
/// Most lines of a name.
const MOST_LINES: f32 = 3.0;
/// Width of the tick box, the sample of the line and a state beside a name.
const NEXT_TO_NAME: f32 = 72.0;

/// A run of the list.
pub struct Listed<'a> {
    pub run: &'a str,
    pub name: &'a str,
    pub state: RunState,
    /// Its line on the Runs screen, which knows its levels.
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

/// The runs that have started: running ones first, then ended ones, latest first.
pub fn listed(state: &State) -> Vec<Listed<'_>> {
    let running: Vec<&QueueRow> = running(state).collect();
    let ids: HashSet<&str> = running.iter().map(|row| &*row.run).collect();
    let ended = state.runs.rows().iter().rev().filter(|row| {
        let started = row.started_time_s.is_some() || row.state == RunState::Running;
        started && !ids.contains(&*row.run)
    });
    let running = running.into_iter().map(|row| Listed::new(&row.run, row.state, state.runs.row(&row.run)));
    running.chain(ended.map(|row| Listed::new(&row.run, row.state, Some(row)))).collect()
}

/// The finished runs that stand for the session: the latest of each cell, the latest cells first.
pub fn latest_of_cells(rows: &[Row]) -> Vec<&str> {
    let mut cells = HashSet::new();
    let finished = rows.iter().rev().filter(|row| row.state == RunState::Finished);
    finished.filter(|row| cells.insert((&row.plan, &row.cells))).map(|row| &*row.run).collect()
}

/// Id of the filter field, for the key that focuses it.
pub fn filter_id() -> Id {
    Id::unique("live-filter")
}

/// Draws the list.
pub fn list_ui(ui: &mut Ui, state: &State, commands: &mut Vec<LiveCommand>) {
    ui.take_available_width();
    let runs = listed(state);
    ui.horizontal(|ui| {
        ui.label(strong("Runs"));
        if state.live.shelf.chosen().next().is_some() && ui.small_button("Untick all").clicked() {
            commands.push(LiveCommand::ChooseNone);
        }
    });
    ui.add_enabled_ui(!runs.is_empty(), |ui| {
        let field =
            filter_field(ui, filter_id(), "Filter the list of runs", "Filter", &state.live.filter, f32::INFINITY);
        commands.extend(field.map(LiveCommand::Filter));
    });
    filter_error_ui(ui, &state.live.filter);
    let filter = Filter::typed(&state.live.filter).unwrap_or_default();
    let fits = |listed: &&Listed| filter.is_empty() || filter.admits(*listed);
    let fitting: Vec<&Listed> = runs.iter().filter(fits).collect();
    if fitting.is_empty() {
        ui.label(muted(ui, if runs.is_empty() { "No run yet." } else { "No run matches." }));
    }
    ui.add_space(GRID);
    if state.live.shelf.chosen().next().is_some() {
        let help = "Drag to pan, right-drag to zoom to a range, Ctrl+wheel to zoom, double-click to show all.";
        let frame = Frame::new().inner_margin(Margin { top: 4, ..Margin::ZERO });
        Panel::bottom("live-help").frame(frame).resizable(false).show_separator_line(false).show(ui, |ui| {
            ui.label(muted(ui, help).small());
        });
    }
    // All rows are as high as the longest name needs: cut off, names of many factors read alike.
    let room = (ui.available_width() - NEXT_TO_NAME).max(1.0);
    let longest = fitting.iter().take(NAMES_MEASURED).map(|listed| text_width(ui, listed.name)).fold(0.0, f32::max);
    // Words do not fill their lines.
    let lines = if longest > room { (1.3 * longest / room).ceil().clamp(2.0, MOST_LINES) } else { 1.0 };
    let height = ui.spacing().interact_size.y.max(lines * ui.text_style_height(&eframe::egui::TextStyle::Body));
    ScrollArea::vertical().auto_shrink(false).show_rows(ui, height, fitting.len(), |ui, rows| {
        for listed in fitting.get(rows).unwrap_or_default() {
            row_ui(ui, state, listed, height, commands);
        }
    });
}

fn row_ui(ui: &mut Ui, state: &State, listed: &Listed, height: f32, commands: &mut Vec<LiveCommand>) {
    let choice = state.live.shelf.choice(listed.run);
    ui.horizontal(|ui| {
        ui.set_height(height);
        ui.spacing_mut().item_spacing.x = GRID;
        let mut on = choice.is_some();
        let response = check_ui(ui, &mut on, "");
        let info = format!("Draw run {}", listed.run);
        response.widget_info(|| WidgetInfo::selected(eframe::egui::Role::CheckBox, true, on, &info));
        if response.changed() {
            commands.push(LiveCommand::Choose(listed.run.to_owned(), on));
        }
        let (rect, _) = ui.allocate_exact_size(vec2(20.0, ui.spacing().interact_size.y), Sense::hover());
        if let Some(choice) = choice {
            swatch(ui.painter(), rect, ui.visuals(), choice.slot);
        }
        let (text, colour) = state_text(ui, state, listed);
        ui.with_layout(eframe::egui::Layout::right_to_left(eframe::egui::Align::Center), |ui| {
            if !text.is_empty() {
                ui.label(RichText::new(text).small().color(colour));
            }
            ui.with_layout(eframe::egui::Layout::left_to_right(eframe::egui::Align::Center), |ui| {
                let label = eframe::egui::Label::new(name_in(ui, listed.name, height)).wrap().sense(Sense::click());
                let hover = format!("{}\n{}, {}", listed.name, listed.run, listed.state.name());
                if ui.add(label).on_hover_text(hover).clicked() {
                    commands.push(LiveCommand::Choose(listed.run.to_owned(), choice.is_none()));
                }
            });
        });
    });
}

/// A name in the rest of a row: on as many lines as it has, and cut off at the end of the last.
fn name_in(ui: &Ui, name: &str, height: f32) -> LayoutJob {
    let font = eframe::egui::TextStyle::Body.resolve(ui.style());
    let mut job = LayoutJob::simple(name.to_owned(), font, ui.visuals().text_color(), ui.available_width());
    job.wrap.max_rows = (height / ui.text_style_height(&eframe::egui::TextStyle::Body)).round().max(1.0) as usize;
    job
}

/// Short state of a run; empty if it finished.
fn state_text(ui: &Ui, state: &State, listed: &Listed) -> (String, eframe::egui::Color32) {
    let palette = palette(ui.visuals());
    if state.live.shelf.is_reading(listed.run) {
        return ("reading …".to_owned(), palette.muted);
    }
    match listed.state {
        RunState::Finished => (String::new(), palette.muted),
        RunState::Starting | RunState::Running => {
            let row = state.queue.rows.iter().find(|row| row.run == listed.run);
            let share = row.filter(|row| row.steps > 0).map(|row| 100.0 * row.step as f64 / row.steps as f64);
            let text = share.map_or_else(|| listed.state.name().to_owned(), |share| format!("{share:.0} %"));
            (format!("● {text}"), palette.good)
        }
        other => (other.name().to_owned(), palette.bad),
    }
}
