//! The table of cells: sortable, with details in tooltips.

use eframe::egui::{Align, FontId, Id, Key, Label, Layout, Margin, Pos2, Rect, Response, Role, Sense, Ui, WidgetInfo};
use egui_table::{CellInfo, HeaderCellInfo, HeaderRow, Table, TableDelegate};

use super::picture::{Picture, Shown};
use super::{CompareCommand, CompareScreen, value_text};
use crate::analysis::{CellKey, Judgement, Value};
use crate::app::columns::{self, Listed};
use crate::app::command::Command;
use crate::app::screens::compare::View;
use crate::app::settings::Settings;
use crate::app::theme::{BODY, GRID, SMALL, palette};
use crate::app::widgets::{muted, strong};
use crate::figure::{CellValue, Chart, Column, Form, Geometry, Look, Runs, Series, precise};

const ROW: f32 = 24.0;
/// Height of a heading: name above unit.
const HEAD: f32 = 40.0;

/// Draws the table; a click on a row selects its cell, a double click shows its runs.
pub fn table_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let compare = view.own;
    if compare.order.is_empty() {
        let comparison = &picture.comparison;
        let study = &compare.study;
        let reason = match (study.form == Form::Metrics, study.runs != Runs::Plain) {
            _ if comparison.all_cells > 0 => "No cell matches the filter. Show all, or tick a level.",
            (true, _) => "No run here has a profiler's report.",
            _ if comparison.traced == 0 => "No run here has what this study shows.",
            (false, false) => {
                "All runs here are traced, which costs time. Tick “Traced runs”, or choose the form Metrics."
            }
            (false, true) => "There are only reports here, which do not have these measures. Choose the form Metrics.",
        };
        ui.label(muted(ui, reason));
        return;
    }
    let places = shown_columns(picture, &view.settings);
    let keys: Vec<String> = places.iter().map(|place| column_name(picture, &picture.columns[*place])).collect();
    let column = |place: &usize| egui_table::Column::new(width(ui, picture, *place)).resizable(true);
    let columns: Vec<egui_table::Column> = places.iter().map(column).collect();
    let mut delegate = Delegate { compare, picture, commands, places };
    let mut table = Table::new()
        .id_salt(("compare", keys))
        .num_rows(compare.order.len() as u64)
        .columns(columns)
        .headers([HeaderRow::new(HEAD)]);
    if let Some(row) = newly_chosen(ui, compare, picture) {
        table = table.scroll_to_row(row, None);
    }
    table.show(ui, &mut delegate);
    let open = compare.selected.as_ref().filter(|_| {
        let nothing_has_focus = ui.memory(|memory| memory.focused().is_none());
        nothing_has_focus && ui.input(|input| input.key_pressed(Key::Enter) && input.modifiers.is_none())
    });
    if let Some(cell) = open {
        commands.push(Command::from(CompareCommand::Open(cell.clone())));
    }
}

/// The row of a cell selected since the last frame, to scroll it into view.
fn newly_chosen(ui: &Ui, compare: &CompareScreen, picture: &Picture) -> Option<u64> {
    let id = Id::unique("compare-chosen-row");
    let known: Option<CellKey> = ui.data(|data| data.get_temp(id)).flatten();
    if known == compare.selected {
        return None;
    }
    ui.data_mut(|data| data.insert_temp(id, compare.selected.clone()));
    let chosen = compare.selected.as_ref()?;
    let is_chosen = |row: &usize| picture.comparison.table.rows.get(*row).is_some_and(|row| row.key() == *chosen);
    compare.order.iter().position(is_chosen).map(|place| place as u64)
}

/// Width of a column's longest text.
fn width(ui: &Ui, picture: &Picture, column: usize) -> f32 {
    let texts = picture.texts.iter().filter_map(|row| row.get(column));
    let size = if matches!(picture.columns[column], Shown::Interval(_)) { SMALL } else { BODY };
    let of = |text: &str, size: f32| {
        let font = FontId::proportional(size);
        ui.painter().layout_no_wrap(text.to_owned(), font, eframe::egui::Color32::WHITE).size().x
    };
    let longest = texts.max_by_key(|text| text.chars().count()).map_or(0.0, |text| of(text, size));
    let (name, unit) = heading(picture, &picture.columns[column]);
    let head = (of(&name, BODY) + 18.0).max(of(&unit, SMALL));
    let least = if is_swatched(picture, column) { longest + 20.0 } else { longest };
    (least.max(head) + 5.0 * GRID).clamp(40.0, 360.0).round()
}

/// The name of a column, with its unit.
fn column_name(picture: &Picture, shown: &Shown) -> String {
    let (name, unit) = heading(picture, shown);
    if unit.is_empty() { name } else { format!("{name} ({unit})") }
}

fn heading(picture: &Picture, shown: &Shown) -> (String, String) {
    match shown {
        Shown::Value(place) => {
            let column = &picture.comparison.table.columns[*place];
            (column.name.clone(), column.shown_unit.clone())
        }
        Shown::Interval(_) => ("Interval".to_owned(), String::new()),
        Shown::Marks => ("Marks".to_owned(), String::new()),
        Shown::Proof => ("Proof".to_owned(), String::new()),
    }
}

fn is_swatched(picture: &Picture, column: usize) -> bool {
    let colour = picture.comparison.arrangement.colour.as_ref().map(|setting| &setting.key);
    matches!(&picture.columns[column], Shown::Value(place) if Some(&picture.comparison.table.columns[*place].key) == colour)
}

struct Delegate<'a> {
    compare: &'a CompareScreen,
    picture: &'a Picture,
    commands: &'a mut Vec<Command>,
    /// The places of the displayed columns among those of the picture.
    places: Vec<usize>,
}

/// The table's columns by the names under which they are chosen and kept: the value's key, with what is said of it.
pub fn named_columns(picture: &Picture) -> Vec<columns::Named> {
    let named = |shown: &Shown| match shown {
        Shown::Interval(place) => {
            let column = &picture.comparison.table.columns[*place];
            (format!("interval of {}", column.key), format!("Interval of {}", column.name))
        }
        shown => (picture.key(shown).unwrap_or_default().to_owned(), column_name(picture, shown)),
    };
    picture.columns.iter().map(named).collect()
}

/// The places of the columns that are displayed, in their order.
pub fn shown_columns(picture: &Picture, settings: &Settings) -> Vec<usize> {
    let keys: Vec<String> = named_columns(picture).into_iter().map(|(key, _)| key).collect();
    settings.columns_of(Listed::Compare).shown(&keys)
}

impl Delegate<'_> {
    fn is_right(&self, shown: &Shown) -> bool {
        matches!(shown, Shown::Value(place) if !self.picture.comparison.table.is_text(*place))
    }

    fn row(&self, row_nr: u64) -> Option<usize> {
        self.compare.order.get(usize::try_from(row_nr).ok()?).copied()
    }

    fn is_baseline(&self, row: usize) -> bool {
        let baseline = self.picture.comparison.baseline.as_ref().and_then(|baseline| baseline.0.as_ref());
        baseline == Some(&self.picture.comparison.table.rows[row].key())
    }
}

impl TableDelegate for Delegate<'_> {
    fn default_row_height(&self) -> f32 {
        ROW
    }

    fn header_cell_ui(&mut self, ui: &mut Ui, cell: &HeaderCellInfo) {
        let Some(shown) = self.places.get(cell.col_range.start).map(|place| &self.picture.columns[*place]) else {
            return;
        };
        let (name, unit) = heading(self.picture, shown);
        let Some(key) = self.picture.key(shown) else {
            padded(ui, false, |ui| two_lines(ui, false, strong(name), &unit, Sense::hover()));
            return;
        };
        let arrow = match &self.compare.sort {
            Some((sorted, true)) if sorted == key => " ▼",
            Some((sorted, false)) if sorted == key => " ▲",
            _ => "",
        };
        let (text, right) = (strong(format!("{name}{arrow}")), self.is_right(shown));
        let response = padded(ui, right, |ui| two_lines(ui, right, text, &unit, Sense::click()));
        let name = format!("Sort by {}", column_name(self.picture, shown));
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
        if response.clicked() {
            self.commands.push(Command::from(CompareCommand::Sort(key.to_owned())));
        }
        response.on_hover_text(name);
    }

    fn row_ui(&mut self, ui: &mut Ui, row_nr: u64) {
        let Some(row) = self.row(row_nr) else { return };
        if ui.clip_rect().width() < 2.0 {
            // The table draws each row again for sticky columns; there are none.
            return;
        }
        let rect = ui.max_rect();
        let palette = palette(ui.visuals());
        let key = self.picture.comparison.table.rows[row].key();
        let chosen = self.compare.selected.as_ref() == Some(&key);
        if chosen {
            ui.painter().rect_filled(rect, 0.0, palette.accent.gamma_multiply(0.22));
        } else if row_nr % 2 == 1 {
            ui.painter().rect_filled(rect, 0.0, ui.visuals().faint_bg_color);
        }
        if self.is_baseline(row) {
            let stripe = Rect::from_min_max(rect.min, Pos2::new(rect.left() + 3.0, rect.bottom()));
            ui.painter().rect_filled(stripe, 0.0, palette.accent);
        }
        if key.cell.is_empty() {
            // An effect is of no one cell that could be chosen.
            let response = ui.interact(rect, ui.scope_id().with("row"), Sense::hover());
            let words = self.picture.texts[row].last().map_or("", String::as_str);
            response.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("Effect: {words}")));
            return;
        }
        let name = self.picture.comparison.cells.get(row).map_or("", |cell| cell.1.as_str());
        let response = ui.interact(rect, ui.scope_id().with("row"), Sense::click());
        response.widget_info(|| WidgetInfo::selected(Role::Row, true, chosen, format!("Cell {name}")));
        if response.double_clicked() {
            self.commands.push(Command::from(CompareCommand::Open(key)));
        } else if response.clicked() {
            self.commands.push(Command::from(CompareCommand::Select((!chosen).then_some(key))));
        }
    }

    fn cell_ui(&mut self, ui: &mut Ui, cell: &CellInfo) {
        let Some(row) = self.row(cell.row_nr) else { return };
        let Some(place) = self.places.get(cell.col_nr).copied() else { return };
        let (shown, text) = (&self.picture.columns[place], &self.picture.texts[row][place]);
        let picture = self.picture;
        let palette = palette(ui.visuals());
        let response = padded(ui, self.is_right(shown), |ui| match shown {
            Shown::Value(value) => {
                let column = &picture.comparison.table.columns[*value];
                if is_swatched(picture, place)
                    && let Some(look) = look_of(picture, row)
                {
                    crate::app::look::swatch_ui(ui, &look);
                }
                let text = if column.key == "ratio" { with_times(text) } else { text.clone() };
                label(ui, text.into())
            }
            Shown::Interval(place) => {
                let is_baseline = picture.comparison.table.columns[*place].key == "ratio" && self.is_baseline(row);
                let text = if is_baseline { "baseline" } else { text };
                label(ui, muted(ui, text).size(SMALL))
            }
            Shown::Marks => label(ui, eframe::egui::RichText::new(text).color(palette.warning)),
            Shown::Proof => {
                let colour = if text.starts_with('✓') { palette.good } else { palette.bad };
                label(ui, eframe::egui::RichText::new(text).color(colour))
            }
        });
        if response.contains_pointer() {
            response.on_hover_ui(|ui| hover(ui, picture, row, shown));
        }
    }
}

/// A ratio's text with its sign behind the number, before what is said of it: `0.156× (n = 1)`.
pub(super) fn with_times(text: &str) -> String {
    match text.split_once(' ') {
        _ if text == "–" => text.to_owned(),
        Some((number, rest)) => format!("{number}× {rest}"),
        None => format!("{text}×"),
    }
}

/// Draws a heading with its unit below.
fn two_lines(ui: &mut Ui, right: bool, name: eframe::egui::RichText, unit: &str, sense: Sense) -> Response {
    let align = if right { Align::Max } else { Align::Min };
    let content = |ui: &mut Ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        ui.add_space(2.0);
        let response = ui.add(Label::new(name).selectable(false).sense(sense));
        if !unit.is_empty() {
            ui.add(Label::new(muted(ui, unit).size(SMALL)).selectable(false));
        }
        response
    };
    ui.with_layout(Layout::top_down(align), content).inner
}

/// Draws text that passes clicks on to its row.
fn label(ui: &mut Ui, text: eframe::egui::RichText) -> Response {
    ui.add(Label::new(text).selectable(false).sense(Sense::hover()))
}

fn padded(ui: &mut Ui, right: bool, content: impl FnOnce(&mut Ui) -> Response) -> Response {
    let frame = eframe::egui::Frame::new().inner_margin(Margin::symmetric((2.0 * GRID) as i8, 0));
    let inner = frame.show(ui, |ui| {
        if right && !ui.is_sizing_pass() {
            ui.with_layout(Layout::right_to_left(Align::Center), content).inner
        } else {
            content(ui)
        }
    });
    inner.inner
}

/// The look of a row's cell in the chart, if it has one: parts of a cell differ, and fields of a map have the colours of values.
fn look_of(picture: &Picture, row: usize) -> Option<Look> {
    let key = picture.comparison.table.rows[row].key();
    let charts = picture.comparison.charts.iter().filter(|chart| chart.geometry != Geometry::Heat);
    let is_of = |series: &&Series| series.points.iter().any(|point| point.cell.as_ref() == Some(&key));
    let mut looks = charts.flat_map(Chart::series).filter(is_of).map(|series| &series.look);
    let look = looks.next()?;
    looks.all(|other| other == look).then(|| look.clone())
}

/// Tooltip of a cell: the value with all digits and its origin, or full texts.
fn hover(ui: &mut Ui, picture: &Picture, row: usize, shown: &Shown) {
    ui.set_max_width(440.0);
    let (table, cell) = (&picture.comparison.table, &picture.comparison.table.rows[row]);
    match shown {
        Shown::Value(place) | Shown::Interval(place) => match &cell.values[*place] {
            CellValue::Measure(value) => measured(ui, &table.columns[*place], value),
            CellValue::Level(level) => drop(ui.label(format!("{} = {level}", table.columns[*place].key))),
            CellValue::Count(count) => drop(ui.label(format!("{count} finished runs of cell {}", cell.cell))),
            CellValue::Missing if picture.quick[row] => {
                drop(ui.label("No finished run has it: quick runs tell no accuracy and no losses of epochs"));
            }
            CellValue::Missing => drop(ui.label("No finished run has it")),
            CellValue::Text(text) => drop(ui.label(text)),
            CellValue::Verdict(judged) => judged_ui(ui, judged),
        },
        Shown::Marks => {
            for story in &picture.stories[row] {
                ui.label(story);
            }
        }
        Shown::Proof => {
            for proof in &picture.proofs[row] {
                let sign = if proof.in_effect { "✓" } else { "✗" };
                ui.label(format!("{sign} {} = {}: {}", proof.factor, proof.asked, proof.seen));
            }
        }
    }
}

/// What a verdict rests on.
fn judged_ui(ui: &mut Ui, judged: &Judgement) {
    for line in judged.grounds() {
        ui.label(line);
    }
}

fn measured(ui: &mut Ui, column: &Column, value: &Value) {
    let shown = precise(value.median * column.shown_factor);
    ui.label(format!("{}: {shown} {}", column.name, column.shown_unit));
    ui.label(value_text::origin(value, column.shown_factor, &column.shown_unit));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_of_a_ratio_stands_behind_its_number() {
        assert_eq!(["1.92", "0.156 (n = 1)", "–"].map(with_times), ["1.92×", "0.156× (n = 1)", "–"]);
    }
}
