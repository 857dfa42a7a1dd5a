//! A table of cells, for Compare and Figures: sortable by its headings, with details in tooltips.
//!
//! The ratio, its verdict, check values and evidence are next to the levels. While the other columns are scrolled sideways, as many of them
//! stay visible as there is room for.

mod fit;
mod texts;

pub use fit::height_of_rows;
pub use texts::{Beside, CellTexts, Proof, Shown, Sort, next_sort};

use eframe::egui::{
    Align, Color32, Context, Id, Key, Label, Layout, Margin, Pos2, Rect, Response, RichText, Role, Sense, Ui,
    WidgetInfo, WidgetText,
};
use egui_table::{CellInfo, HeaderCellInfo, HeaderRow, Table as Grid, TableDelegate};

use crate::analysis::{CellKey, Judgement, Value};
use crate::app::command::Command;
use crate::app::listing::TRAINING_LOSS;
use crate::app::theme::{GRID, SMALL, palette};
use crate::app::value_text;
use crate::app::widgets::{muted, named, strong};
use crate::figure::{CellValue, Chart, Column, Format, Geometry, Look, Row, Series, Table, counted, precise};
use fit::{Fit, HEAD, ROW, line_width, wrapped};
use texts::{ColumnShape, column_name, heading, sort_key, value_and_n};

/// The end of the tooltip of the training loss, because Live shows another loss.
const LOSS_HELP: &str =
    "\nThe mean over an epoch: the last one, unless the table has a row for each. Live shows the loss of each step";

/// A table of cells.
#[derive(Clone, Copy)]
pub struct CellTable<'a> {
    /// Distinguishes it from other tables.
    pub id: &'a str,
    /// Its values.
    pub table: &'a Table,
    /// The texts to show for these values.
    pub texts: &'a CellTexts,
    /// The indexes of the displayed columns, in order.
    pub places: &'a [usize],
    /// The indexes of the displayed rows, in order.
    pub order: &'a [usize],
    /// The sort order.
    pub sort: &'a Sort,
    /// The cells with their names, in the order of the rows.
    pub cells: &'a [(CellKey, String)],
    /// The charts whose colours and markers are shown next to the levels.
    pub charts: &'a [Chart],
    /// The key of the column with these levels.
    pub swatched: Option<&'a str>,
    /// The baseline of ratios.
    pub baseline: Option<&'a CellKey>,
    /// Whether rows can be selected and opened.
    pub is_choosable: bool,
    /// The selected cell.
    pub selected: Option<&'a CellKey>,
    /// The selected effect, by its change.
    pub effect: Option<&'a str>,
}

/// The change of the effect that a row shows; `None` for the row of a cell.
pub fn effect_of<'t>(table: &'t Table, row: &'t Row) -> Option<&'t str> {
    let place = table.columns.iter().position(|column| *column.key == *"change").filter(|_| row.cell.is_empty())?;
    match row.values.get(place)? {
        CellValue::Text(change) => Some(change),
        _ => None,
    }
}

/// A request that was made in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Sort by the column with this key.
    Sort(String),
    /// Select a cell, or no cell.
    Select(Option<CellKey>),
    /// Show the runs of a cell.
    Open(CellKey),
    /// Select an effect, or none.
    Effect(Option<String>),
}

impl CellTable<'_> {
    /// Draws the table; a click on a row selects its cell, a double click opens it.
    pub fn ui(self, ui: &mut Ui) -> Option<Asked> {
        let keys: Vec<String> = self.shown().map(|shown| column_name(self.table, shown)).collect();
        let Fit { wraps, widths, is_whole, pinned, narrow } = self.fit(ui);
        // The grid fits columns to the visible rows; the texts of the other rows need their width, too.
        let least = |place: usize, width: f32| if self.shape(place).wraps { width } else { 0.0 };
        let column = |(place, width): (&usize, &f32)| {
            egui_table::Column::new(*width).resizable(true).range(least(*place, *width)..=f32::INFINITY)
        };
        let columns: Vec<egui_table::Column> = self.places.iter().zip(&widths).map(column).collect();
        let (offsets, left) = (self.offsets(ui, &wraps), ui.cursor().min.x);
        let mut delegate = Delegate { cell_table: self, offsets, left, wraps, pinned, request: None };
        let mut grid = Grid::new()
            .id_salt((self.id, keys, narrow.to_bits(), is_whole))
            .num_rows(self.order.len() as u64)
            .columns(columns)
            .num_sticky_cols(pinned)
            .headers([HeaderRow::new(HEAD)]);
        if let Some(row) = self.newly_chosen(ui) {
            grid = grid.scroll_to_row(row, None);
        }
        grid.show(ui, &mut delegate);
        let request = delegate.request;
        let open = self.selected.filter(|_| {
            let nothing_has_focus = ui.memory(|memory| memory.focused().is_none());
            nothing_has_focus && ui.input(|input| input.key_pressed(Key::Enter) && input.modifiers.is_none())
        });
        request.or(open.map(|cell| Asked::Open(cell.clone())))
    }

    fn shown(&self) -> impl Iterator<Item = &Shown> {
        self.places.iter().filter_map(|place| self.texts.columns.get(*place))
    }

    fn text(&self, row: usize, place: usize) -> &str {
        self.texts.texts.get(row).and_then(|texts| texts.get(place)).map_or("", String::as_str)
    }

    fn shape(&self, place: usize) -> ColumnShape {
        self.texts.shapes.get(place).copied().unwrap_or_default()
    }

    fn is_swatched(&self, shown: &Shown) -> bool {
        matches!(shown, Shown::Value(place) if Some(&*self.table.columns[*place].key) == self.swatched)
    }

    /// The row of the cell or effect that was selected since the last frame, so that it can be scrolled into view.
    fn newly_chosen(&self, ui: &Ui) -> Option<u64> {
        let id = Id::unique(("chosen row of", self.id));
        let now = (self.selected.cloned(), self.effect.map(str::to_owned));
        let known = ui.data(|data| data.get_temp::<(Option<CellKey>, Option<String>)>(id)).unwrap_or_default();
        if known == now {
            return None;
        }
        ui.data_mut(|data| data.insert_temp(id, now));
        let is_chosen = |row: &usize| self.is_chosen(*row);
        self.order.iter().position(is_chosen).map(|place| place as u64)
    }

    fn is_chosen(&self, row: usize) -> bool {
        let Some(row) = self.table.rows.get(row) else { return false };
        match effect_of(self.table, row) {
            Some(effect) => self.effect == Some(effect),
            None => self.selected.is_some_and(|cell| row.key() == *cell),
        }
    }

    fn is_baseline(&self, row: usize) -> bool {
        self.baseline == Some(&self.table.rows[row].key())
    }
}

struct Delegate<'a> {
    cell_table: CellTable<'a>,
    /// See [`CellTable::offsets`].
    offsets: Vec<f32>,
    /// The table's left edge.
    left: f32,
    /// See [`Fit::wraps`].
    wraps: Vec<f32>,
    /// See [`Fit::pinned`].
    pinned: usize,
    request: Option<Asked>,
}

impl<'a> Delegate<'a> {
    fn row(&self, row_nr: u64) -> Option<usize> {
        self.cell_table.order.get(usize::try_from(row_nr).ok()?).copied()
    }

    fn shown(&self, column: usize) -> Option<(usize, &'a Shown)> {
        let place = *self.cell_table.places.get(column)?;
        Some((place, self.cell_table.texts.columns.get(place)?))
    }
}

impl TableDelegate for Delegate<'_> {
    fn default_row_height(&self) -> f32 {
        ROW
    }

    fn row_top_offset(&self, _ctx: &Context, _table_id: Id, row_nr: u64) -> f32 {
        let place = usize::try_from(row_nr).unwrap_or(usize::MAX).min(self.offsets.len() - 1);
        self.offsets[place]
    }

    fn header_cell_ui(&mut self, ui: &mut Ui, cell: &HeaderCellInfo) {
        let Some((place, shown)) = self.shown(cell.col_range.start) else { return };
        let (name, unit) = heading(self.cell_table.table, shown);
        let Some(key) = sort_key(self.cell_table.table, shown) else {
            padded(ui, false, |ui| two_lines(ui, false, strong(name), &unit, Sense::hover()));
            return;
        };
        let arrow = match self.cell_table.sort {
            Some((sorted, true)) if sorted == key => " ▼",
            Some((sorted, false)) if sorted == key => " ▲",
            _ => "",
        };
        let (text, right) = (strong(format!("{name}{arrow}")), self.cell_table.shape(place).is_right);
        let response = padded(ui, right, |ui| two_lines(ui, right, text, &unit, Sense::click()));
        let name = format!("Sort by {}", column_name(self.cell_table.table, shown));
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
        if response.clicked() {
            self.request = Some(Asked::Sort(key.to_owned()));
        }
        let help = if key == TRAINING_LOSS { LOSS_HELP } else { "" };
        response.on_hover_text(format!("{name}{help}"));
    }

    fn row_ui(&mut self, ui: &mut Ui, row_nr: u64) {
        let Some(row) = self.row(row_nr) else { return };
        if ui.clip_rect().width() < 2.0 {
            // The table draws each row twice, even if no column is fixed.
            return;
        }
        // A row is one element for the keyboard and for screen readers: the part that is drawn on the left.
        let is_first = self.pinned == 0 || ui.clip_rect().left() < self.left + 1.0;
        let rect = ui.max_rect();
        let palette = palette(ui.visuals());
        let cell_table = self.cell_table;
        let key = cell_table.table.rows[row].key();
        let chosen = cell_table.is_chosen(row);
        if chosen {
            ui.painter().rect_filled(rect, 0.0, palette.accent.gamma_multiply(0.22));
        } else if row_nr % 2 == 1 {
            ui.painter().rect_filled(rect, 0.0, ui.visuals().faint_bg_color);
        }
        if is_first && cell_table.is_baseline(row) {
            let stripe = Rect::from_min_max(rect.min, Pos2::new(rect.left() + 3.0, rect.bottom()));
            ui.painter().rect_filled(stripe, 0.0, palette.accent);
        }
        let id = ui.scope_id().with(if is_first { "row" } else { "scrolled part of the row" });
        let effect = effect_of(cell_table.table, &cell_table.table.rows[row]).filter(|_| cell_table.is_choosable);
        if let Some(effect) = effect {
            let response = ui.interact(rect, id, if is_first { Sense::click() } else { Sense::CLICK });
            if is_first {
                let words = cell_table.texts.texts[row].last().map_or("", String::as_str);
                response.widget_info(|| WidgetInfo::selected(Role::Row, true, chosen, format!("Effect: {words}")));
            }
            if response.clicked() {
                self.request = Some(Asked::Effect((!chosen).then(|| effect.to_owned())));
            }
            return;
        }
        if key.cell.is_empty() || !cell_table.is_choosable {
            if is_first {
                let words = cell_table.texts.texts[row].last().map_or("", String::as_str);
                let name = match cell_table.cells.get(row) {
                    Some((_, name)) if !key.cell.is_empty() => format!("Cell {name}"),
                    _ => format!("Effect: {words}"),
                };
                let response = ui.interact(rect, id, Sense::hover());
                response.widget_info(|| WidgetInfo::labeled(Role::Row, true, &name));
            }
            return;
        }
        let response = ui.interact(rect, id, if is_first { Sense::click() } else { Sense::CLICK });
        if is_first {
            let name = cell_table.cells.get(row).map_or("", |cell| cell.1.as_str());
            response.widget_info(|| WidgetInfo::selected(Role::Row, true, chosen, format!("Cell {name}")));
        }
        if response.double_clicked() {
            self.request = Some(Asked::Open(key));
        } else if response.clicked() {
            self.request = Some(Asked::Select((!chosen).then_some(key)));
        }
    }

    fn cell_ui(&mut self, ui: &mut Ui, cell: &CellInfo) {
        let Some(row) = self.row(cell.row_nr) else { return };
        let Some((place, shown)) = self.shown(cell.col_nr) else { return };
        let cell_table = self.cell_table;
        let wrap = self.wraps.get(cell.col_nr).copied().unwrap_or(f32::INFINITY);
        let ColumnShape { wraps, is_right, longest_n, .. } = cell_table.shape(place);
        let text = cell_table.text(row, place);
        let palette = palette(ui.visuals());
        let response = padded(ui, is_right, |ui| match shown {
            Shown::Value(value) => {
                let column = &cell_table.table.columns[*value];
                if cell_table.is_swatched(shown)
                    && let Some(look) = cell_table.look_of(row)
                {
                    crate::app::look::swatch_ui(ui, &look);
                }
                if wraps {
                    return wrapped_ui(ui, text, ui.visuals().text_color(), wrap);
                }
                let (number, n) = value_and_n(text);
                if let Some(longest) = longest_n {
                    n_ui(ui, n, value_and_n(cell_table.text(longest, place)).1);
                }
                label(ui, if *column.key == *"ratio" { with_times(number) } else { number.to_owned() })
            }
            Shown::Interval(place) => {
                let is_baseline = *cell_table.table.columns[*place].key == *"ratio" && cell_table.is_baseline(row);
                let text = if is_baseline { "baseline" } else { text };
                label(ui, muted(ui, text).size(SMALL))
            }
            Shown::Marks => wrapped_ui(ui, text, palette.warning, wrap),
            Shown::Proof => {
                let colour = if text.starts_with('✓') { palette.good } else { palette.bad };
                wrapped_ui(ui, text, colour, wrap)
            }
        });
        if response.contains_pointer() {
            response.on_hover_ui(|ui| cell_table.hover(ui, row, shown));
        }
    }
}

/// The formats in which a table can be copied.
const FORMATS: [(&str, Format); 3] = [("Markdown", Format::Markdown), ("CSV", Format::Csv), ("LaTeX", Format::Latex)];

/// The menu items that copy a table, with their names; `copy` gives the command for a format.
pub fn copies(copy: impl Fn(Format) -> Command) -> impl Iterator<Item = (String, Command)> {
    FORMATS.into_iter().map(move |(name, format)| (format!("Copy the table as {name}"), copy(format)))
}

/// Draws the menu that copies a table or saves it; `copy` gives the command for a format.
pub fn copy_ui(ui: &mut Ui, copy: impl Fn(Format) -> Command, save: Command, commands: &mut Vec<Command>) {
    ui.menu_button("Copy as", |ui| {
        for (name, format) in FORMATS {
            let button = ui.button(name).on_hover_text(format!("Copy the table as {name}"));
            button.widget_info(|| named(&format!("Copy as {name}")));
            if button.clicked() {
                commands.push(copy(format));
            }
        }
        let command = ui.button("Command").on_hover_text("Copy the command that prints the same table in a terminal");
        command.widget_info(|| named("Copy as command"));
        if command.clicked() {
            commands.push(Command::CopyCommand);
        }
        ui.separator();
        let help = "Save the table as a file: CSV, Markdown, LaTeX or JSON, by the ending of its name";
        if ui.button("Save table …").on_hover_text(help).clicked() {
            commands.push(save);
        }
    });
}

/// A ratio with its sign: `0.156×`.
fn with_times(number: &str) -> String {
    if number == "–" { number.to_owned() } else { format!("{number}×") }
}

/// Draws the number of repeats to the right of a value, or its room: the numbers of a column stand below each other.
fn n_ui(ui: &mut Ui, n: &str, longest: &str) {
    let room = line_width(ui, longest, SMALL);
    if n.is_empty() {
        ui.add_space(room + ui.spacing().item_spacing.x);
    } else {
        label(ui, muted(ui, n).size(SMALL));
        ui.add_space(room - line_width(ui, n, SMALL));
    }
}

/// Draws a heading with its unit below.
fn two_lines(ui: &mut Ui, right: bool, name: RichText, unit: &str, sense: Sense) -> Response {
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
fn label(ui: &mut Ui, text: impl Into<WidgetText>) -> Response {
    ui.add(Label::new(text).selectable(false).sense(Sense::hover()))
}

/// Draws a text that may wrap. Its accessible name is the original text, without the no-break spaces that are drawn.
fn wrapped_ui(ui: &mut Ui, text: &str, colour: Color32, wrap: f32) -> Response {
    let response = label(ui, wrapped(ui, text, colour, wrap));
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    response
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

impl CellTable<'_> {
    /// The look of a row's cell in the chart; `None` if parts of the cell have different looks, or if colours stand for values, as in a
    /// map.
    fn look_of(&self, row: usize) -> Option<Look> {
        let key = self.table.rows[row].key();
        let charts = self.charts.iter().filter(|chart| chart.geometry != Geometry::Heat);
        let is_of = |series: &&Series| series.points.iter().any(|point| point.cell.as_ref() == Some(&key));
        let mut looks = charts.flat_map(Chart::series).filter(is_of).map(|series| &series.look);
        let look = looks.next()?;
        looks.all(|other| other == look).then(|| look.clone())
    }

    /// Tooltip of a cell: the value with all digits and its origin, or the full text.
    fn hover(&self, ui: &mut Ui, row: usize, shown: &Shown) {
        ui.set_max_width(440.0);
        let (table, beside) = (self.table, &self.texts.beside);
        let cell = &table.rows[row];
        match shown {
            Shown::Value(place) | Shown::Interval(place) => match &cell.values[*place] {
                CellValue::Measure(value) => measured(ui, &table.columns[*place], value),
                CellValue::Level(level) => drop(ui.label(format!("{} = {level}", table.columns[*place].key))),
                CellValue::Count(count) => {
                    drop(ui.label(format!("{} of cell {}", counted(count, "finished run"), cell.cell)));
                }
                CellValue::Missing if beside.quick.get(row) == Some(&true) => {
                    drop(
                        ui.label("No finished run has this value: quick runs give no accuracy and no losses of epochs"),
                    );
                }
                CellValue::Missing => drop(ui.label("No finished run has this value")),
                CellValue::Text(text) => drop(ui.label(text)),
                CellValue::Verdict(judged) => judged_ui(ui, judged),
            },
            Shown::Marks => {
                for story in beside.stories.get(row).unwrap_or(&cell.marks) {
                    ui.label(story);
                }
            }
            Shown::Proof => {
                for proof in beside.proofs.get(row).into_iter().flatten() {
                    ui.label(proof.line());
                }
            }
        }
    }
}

/// Shows the grounds of a verdict.
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
    fn the_sign_of_a_ratio_stands_behind_its_number_and_the_repeats_apart_from_it() {
        let parts = ["1.92", "0.156 (n = 1)", "–"].map(value_and_n);
        assert_eq!(parts, [("1.92", ""), ("0.156", "(n = 1)"), ("–", "")]);
        assert_eq!(parts.map(|(number, _)| with_times(number)), ["1.92×", "0.156×", "–"]);
    }
}
