//! The list of runs; only visible lines are drawn.

use eframe::egui::{
    Align, Align2, Button, Color32, CornerRadius, FontId, Id, Label, Layout, Rect, Response, RichText, Role, Sense,
    TextStyle, Ui, UiBuilder, Vec2, Visuals, WidgetInfo,
};
use egui_table::{CellInfo, HeaderCellInfo, HeaderRow, Table, TableDelegate};

use super::{Move, RunsCommand};
use crate::analysis::measure;
use crate::app::columns::{self, Listed};
use crate::app::command::Command;
use crate::app::deliberate;
use crate::app::desk::Row;
use crate::app::listing::TRAINING_LOSS;
use crate::app::screens::runs::View;
use crate::app::theme::{BODY, GRID, palette};
use crate::app::widgets::{muted, right, strong};
use crate::figure::{duration_text, precise, significant};
use crate::plan::RunState;
use crate::store::number_of;

const ROW_HEIGHT: f32 = 28.0;
const HEADER_HEIGHT: f32 = 26.0;
/// Width reserved for the scroll bar.
const SCROLL_BAR: f32 = 12.0;

/// Approximate width of a letter of a name, in points.
const NAME_LETTER: f32 = 7.5;
/// Width of a digit, in points, and the most digits of a number for which the list makes room.
const DIGIT: f32 = 8.5;
const MOST_DIGITS: usize = 8;
/// Number of lines, from the top, whose names decide the width of their column.
const NAMES_MEASURED: usize = 200;

/// Symbol and colour of a state.
pub fn sign(ui: &Ui, state: RunState) -> (&'static str, Color32) {
    let palette = palette(ui.visuals());
    match state {
        RunState::Queued => ("…", palette.muted),
        RunState::Starting => ("▶", palette.muted),
        RunState::Running => ("▶", palette.accent),
        RunState::Finished => ("✓", palette.good),
        RunState::Failed => ("✗", palette.bad),
        RunState::Cancelled => ("×", palette.muted),
        RunState::TimedOut => ("✗", palette.warning),
        RunState::Interrupted => ("⚠", palette.warning),
    }
}

/// A duration as `0.4 s`, `2.6 s`, `21 s`, `12 min 5 s` or `1 h 2 min`.
pub fn elapsed_text(duration_s: f64) -> String {
    match duration_s {
        ..0.05 => "< 0.1 s".to_owned(),
        0.05..9.95 => format!("{duration_s:.1} s"),
        _ => duration_text(duration_s),
    }
}

/// Content of a column.
#[derive(Clone, Copy, PartialEq)]
enum Field {
    Number,
    State,
    Action,
    Progress,
    Level(usize),
    Repeat,
    Loss,
    Elapsed,
    Left,
    Reason,
}

/// Draws the list.
pub fn list_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    if view.own.shown.is_empty() {
        ui.add_space(6.0 * GRID);
        ui.vertical_centered(|ui| ui.label(muted(ui, "No run matches the filter")));
        return;
    }
    let has_loss = view.runs.rows.iter().any(|row| row.loss.is_some());
    // Empty columns would push the notes out of small windows.
    let has_values = |field: &Field| match field {
        Field::Loss => has_loss,
        Field::Left => view.queue.is_active(),
        Field::Progress => view.runs.rows.iter().any(|row| !row.state.is_final()),
        _ => true,
    };
    let fields: Vec<Field> = all_fields(view).into_iter().filter(has_values).collect();
    let keys: Vec<String> = fields.iter().map(|field| key(view, *field)).collect();
    let shown = view.settings.columns_of(Listed::Runs).shown(&keys, &[]);
    let mut list = List { view, commands, fields: shown.into_iter().map(|place| fields[place]).collect() };
    // The reason takes the remaining width.
    let others = list.fields.iter().filter(|field| **field != Field::Reason).map(|field| list.width(*field));
    let mut reason = (ui.available_width() - others.sum::<f32>() - SCROLL_BAR).max(list.width(Field::Reason));
    // Names of plans and data sets may take the width that the reason can spare, until they are completely visible.
    let mut wider: Vec<(Field, f32)> = Vec::new();
    for field in list.fields.iter().filter(|field| list.is_name(**field)) {
        let width = list.whole_width(*field).min(list.width(*field) + reason - list.width(Field::Reason));
        reason -= width - list.width(*field);
        wider.push((*field, width));
    }
    let width = |field: Field| match wider.iter().find(|(known, _)| *known == field) {
        Some((_, width)) => *width,
        None if field == Field::Reason => reason,
        None => list.width(field),
    };
    let columns: Vec<_> = list.fields.iter().map(|field| list.column(*field, width(*field))).collect();
    let mut table = Table::new()
        .id_salt("runs")
        .num_rows(view.own.shown.len() as u64)
        .columns(columns)
        .headers([HeaderRow::new(HEADER_HEIGHT)]);
    // Scroll to the selected run when it changes, not while the user scrolls.
    let memory = Id::unique("runs-last-selected");
    let last: Option<String> = ui.data(|data| data.get_temp(memory)).unwrap_or_default();
    if last != view.own.selected {
        let is_selected = |index: &usize| Some(&view.runs.rows[*index].run) == view.own.selected.as_ref();
        if let Some(place) = view.own.shown.iter().position(is_selected) {
            table = table.scroll_to_row(place as u64, None);
        }
        ui.data_mut(|data| data.insert_temp(memory, view.own.selected.clone()));
    }
    let drawn = ui.scope(|ui| {
        // Selectable text would take the clicks that select a run.
        ui.style_mut().interaction.selectable_labels = false;
        table.show(ui, &mut list);
    });
    // While the pointer is over the list, rows keep their positions.
    let is_pointed_at = ui.rect_contains_pointer(drawn.response.rect);
    if is_pointed_at != view.own.pointed_at.is_some() {
        commands.push(Command::from(RunsCommand::Point(is_pointed_at)));
    }
}

/// All columns in the default order.
fn all_fields(view: View<'_>) -> Vec<Field> {
    // Buttons come before the columns that appear and disappear with the states of runs, so that they keep their places.
    let first = [Field::Number, Field::State, Field::Action, Field::Progress];
    let levels = (0..view.runs.listing.columns.len()).map(Field::Level);
    let last = [Field::Repeat, Field::Loss, Field::Elapsed, Field::Left, Field::Reason];
    first.into_iter().chain(levels).chain(last).collect()
}

/// The key under which the user's choice of columns is stored: a word for the column, or a factor's key.
fn key(view: View<'_>, field: Field) -> String {
    match field {
        Field::Level(index) => view.runs.listing.columns[index].key.to_string(),
        Field::Action => "Action".to_owned(),
        Field::Loss => "Loss".to_owned(),
        field => title(view, field).to_owned(),
    }
}

/// Draws the menu that chooses columns and their order.
pub fn choose_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let named: Vec<columns::Named> = all_fields(view)
        .into_iter()
        .map(|field| {
            let name = if field == Field::Action { "Cancel or retry" } else { title(view, field) };
            (key(view, field), name.to_owned())
        })
        .collect();
    let changed = columns::columns_ui(ui, "Columns", &view.settings.columns_of(Listed::Runs), &named, &[], |_| {});
    commands.extend(changed.map(|columns| Command::Columns(Listed::Runs, columns)));
}

fn title(view: View<'_>, field: Field) -> &str {
    let listing = &view.desk.runs.listing;
    match field {
        Field::Number => "#",
        Field::State => "State",
        Field::Progress => "Progress",
        Field::Action => "",
        Field::Level(index) => &listing.columns[index].name,
        Field::Repeat => "Repeat",
        Field::Loss => measure(TRAINING_LOSS).map_or("Loss", |measure| measure.name.as_str()),
        Field::Elapsed => "Time",
        Field::Left => "Left",
        Field::Reason => "Notes",
    }
}

struct List<'a> {
    view: View<'a>,
    commands: &'a mut Vec<Command>,
    fields: Vec<Field>,
}

impl List<'_> {
    /// Whether a column holds names of plans or data sets, which may be long.
    fn is_name(&self, field: Field) -> bool {
        matches!(field, Field::Level(index) if matches!(&*self.view.runs.listing.columns[index].key, "plan" | "data"))
    }

    /// The width that shows all names in the column completely.
    fn whole_width(&self, field: Field) -> f32 {
        let Field::Level(index) = field else { return self.width(field) };
        let entries = self.view.own.shown.iter().take(NAMES_MEASURED).map(|shown| &self.view.runs.rows[*shown]);
        let longest = entries.filter_map(|row| row.cells.get(index)).map(|name| name.chars().count()).max();
        (20.0 + NAME_LETTER * longest.unwrap_or(0) as f32).max(self.width(field))
    }

    fn width(&self, field: Field) -> f32 {
        match field {
            Field::Number => {
                // Runs are numbered in the order in which they were queued.
                let digits = self.view.runs.rows.last().map_or(0, |row| row.number.len().min(MOST_DIGITS));
                (16.0 + DIGIT * digits as f32).max(44.0)
            }
            Field::State => 112.0,
            Field::Progress => 104.0,
            Field::Action => 68.0,
            Field::Level(index) => {
                let column = &self.view.runs.listing.columns[index];
                if self.is_name(field) { 120.0 } else { 20.0 + 8.0 * column.name.len().max(7) as f32 }
            }
            Field::Repeat => 60.0,
            Field::Loss => 104.0,
            Field::Elapsed | Field::Left => 88.0,
            Field::Reason => 240.0,
        }
    }

    fn column(&self, field: Field, width: f32) -> egui_table::Column {
        let id = match field {
            Field::Level(index) => Id::unique(("runs-level", &self.view.runs.listing.columns[index].key)),
            other => Id::unique(("runs-column", title(self.view, other))),
        };
        // Without a least width, a column shrinks to the part visible in its first frame. The reason gets the remaining width.
        let most = if field == Field::Reason { width } else { width.max(900.0) };
        egui_table::Column::new(width).range(width..=most).id(id)
    }

    fn send(&mut self, command: RunsCommand) {
        self.commands.push(Command::from(command));
    }

    fn field_ui(&mut self, ui: &mut Ui, field: Field, row: &Row) {
        let now_s = self.view.queue.time_s;
        let time = |duration_s: Option<f64>| duration_s.map_or("–".to_owned(), elapsed_text);
        let (response, hover) = match field {
            Field::Action => {
                self.action_ui(ui, row);
                return;
            }
            Field::Progress => (progress_ui(ui, row), String::new()),
            Field::Number => (right(ui, &row.number), row.run.clone()),
            Field::State => {
                let (symbol, color) = sign(ui, if row.waits.is_some() { RunState::Queued } else { row.state });
                let text = RichText::new(format!("{symbol} {}", row.state_word())).color(color);
                let response = ui.label(text);
                if !row.marks.is_empty() {
                    // The notes may be outside a small window.
                    let sign = ui.colored_label(palette(ui.visuals()).warning, "⚠");
                    sign.on_hover_text(&row.stories);
                }
                (response, row.stories.clone())
            }
            Field::Level(index) => {
                let column = &self.view.runs.listing.columns[index];
                let text = row.cells.get(index).map_or("…", String::as_str);
                if column.is_number {
                    (right(ui, text), String::new())
                } else if let Some(rest) = text.strip_prefix(&*column.shared).filter(|rest| rest.len() < text.len())
                    && NAME_LETTER * text.chars().count() as f32 > ui.available_width()
                {
                    // Names that are cut off after a common beginning would look the same.
                    (ui.add(Label::new(format!("… {rest}")).truncate()), text.to_owned())
                } else {
                    (ui.add(Label::new(text).truncate()), String::new())
                }
            }
            Field::Repeat => {
                let text = row.repeat.map_or("…".to_owned(), |repeat| repeat.to_string());
                (right(ui, text), String::new())
            }
            Field::Loss => {
                let period = if row.steps.is_some() { "of the latest step" } else { "mean of the last epoch" };
                let hover = row.loss.map_or(String::new(), |loss| format!("{}, {period}", precise(loss)));
                (right(ui, row.loss.map_or("–".to_owned(), significant)), hover)
            }
            Field::Elapsed => {
                let elapsed_s = row.elapsed_s(now_s);
                let hover = elapsed_s.map(|elapsed_s| format!("{elapsed_s:.3} s since its processes started"));
                (right(ui, time(elapsed_s)), hover.unwrap_or_default())
            }
            Field::Left => {
                (right(ui, time(row.remaining_s(now_s))), "Estimated from the run's steps after its warm-up".to_owned())
            }
            Field::Reason => {
                let reason = row.waits.as_deref().or(row.reason.as_deref()).unwrap_or_default();
                let first = reason.lines().next().unwrap_or_default();
                let parts = |parts: &[&str], between: &str| {
                    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(between)
                };
                // Why a run did not finish comes first: the end may be cut off.
                let text = parts(&[first, &row.remarks, row.note.lines().next().unwrap_or_default()], " · ");
                let text = match (text.is_empty(), row.marks.is_empty()) {
                    (true, _) => return,
                    (false, true) => muted(ui, text),
                    (false, false) => RichText::new(format!("⚠ {text}")).color(palette(ui.visuals()).warning),
                };
                let hover = parts(&[reason, &row.stories, &row.note], "\n");
                (ui.add(Label::new(text).truncate()), hover)
            }
        };
        if !hover.is_empty() {
            response.on_hover_text(hover);
        }
    }

    fn action_ui(&mut self, ui: &mut Ui, row: &Row) {
        let (text, name, command) = if !row.state.is_final() {
            ("Cancel", format!("Cancel run {}", row.number), RunsCommand::Cancel(row.run.clone()))
        } else if let Some(successor) = &row.retried_as {
            return self.link_ui(ui, row, successor);
        } else if row.can_retry() {
            ("Retry", format!("Retry run {}", row.number), RunsCommand::Retry(row.run.clone()))
        } else {
            return;
        };
        let why_not = self.view.locked();
        // The id contains the run, so that a press that began on another run's button is not a click.
        let add = |ui: &mut Ui| ui.add_enabled(why_not.is_none(), Button::new(text).small());
        let response = ui.push_id((text, &row.run), add).inner;
        let response = response.on_disabled_hover_text(why_not.unwrap_or_default());
        response.widget_info(|| WidgetInfo::labeled(Role::Button, why_not.is_none(), &name));
        if deliberate::clicked(&response, (text, &row.run)) {
            self.send(command);
        }
    }

    /// Draws the link to the run that retried this one.
    fn link_ui(&mut self, ui: &mut Ui, row: &Row, successor: &str) {
        let number = number_of(successor);
        let response = ui.link(format!("→ {number}")).on_hover_text(format!("Retried as run {number}"));
        let name = format!("Run {} was retried as run {number}", row.number);
        response.widget_info(|| WidgetInfo::labeled(Role::Link, true, &name));
        if response.clicked() {
            self.send(RunsCommand::Select(Some(successor.to_owned())));
        }
    }

    fn menu_ui(&mut self, ui: &mut Ui, row: &Row) {
        let unlocked = self.view.locked().is_none();
        let run = || row.run.clone();
        let queued = row.place.is_some();
        let entries = [
            ("Cancel", "Del", !row.state.is_final(), RunsCommand::Cancel(run())),
            ("Retry", "R", row.can_retry() && row.retried_as.is_none(), RunsCommand::Retry(run())),
            ("To the top", "Alt Home", queued, RunsCommand::Move(run(), Move::Top)),
            ("Up", "Alt ↑", queued, RunsCommand::Move(run(), Move::Up)),
            ("Down", "Alt ↓", queued, RunsCommand::Move(run(), Move::Down)),
        ];
        for (name, keys, enabled, command) in entries {
            let button = Button::new(name).shortcut_text(keys);
            let response = ui.add_enabled(enabled && unlocked, button);
            let response = response.on_disabled_hover_text(self.view.locked().unwrap_or("Not possible in this state"));
            if deliberate::clicked(&response, (name, &row.run)) {
                self.send(command);
                ui.close();
            }
        }
        ui.separator();
        if ui.button("Copy id").clicked() {
            ui.ctx().copy_text(row.run.clone());
            ui.close();
        }
    }
}

impl TableDelegate for List<'_> {
    fn header_cell_ui(&mut self, ui: &mut Ui, cell: &HeaderCellInfo) {
        let Some(field) = self.fields.get(cell.group_index).copied() else { return };
        let numeric = match field {
            Field::Number | Field::Repeat | Field::Loss | Field::Elapsed | Field::Left => true,
            Field::Level(index) => self.view.runs.listing.columns[index].is_number,
            _ => false,
        };
        let hover = match field {
            Field::Elapsed => "Time since its processes started",
            Field::Left => "Time left, estimated from the run's own pace",
            Field::Loss => {
                "The mean of the last epoch, as in tables; while a run is active, the loss of its newest step, as on Live"
            }
            _ => "",
        };
        let title = strong(title(self.view, field)).color(palette(ui.visuals()).muted);
        let response = inside(ui, |ui| if numeric { right(ui, title) } else { ui.add(Label::new(title).truncate()) });
        if !hover.is_empty() {
            response.on_hover_text(hover);
        }
        let line = palette(ui.visuals()).line;
        ui.painter().hline(ui.max_rect().x_range(), ui.max_rect().bottom(), (1.0, line));
    }

    fn row_ui(&mut self, ui: &mut Ui, place: u64) {
        let view = self.view;
        let Some(row) = row_at(view, place) else { return };
        // The table draws each row again for sticky columns; there are none.
        if !ui.clip_rect().is_positive() {
            return;
        }
        let selected = view.own.selected.as_ref() == Some(&row.run);
        let rect = ui.max_rect();
        let response = ui.interact(rect, Id::unique(("run-row", &row.run)), Sense::click());
        response.widget_info(|| WidgetInfo::selected(Role::Button, true, selected, row.spoken()));
        let visuals = ui.visuals();
        let fill = if selected {
            palette(visuals).accent.gamma_multiply(0.18)
        } else if response.hovered() {
            palette(visuals).accent.gamma_multiply(0.08)
        } else if place % 2 == 1 {
            visuals.faint_bg_color
        } else {
            Color32::TRANSPARENT
        };
        ui.painter().rect_filled(rect, CornerRadius::ZERO, fill);
        if response.clicked() {
            self.send(RunsCommand::Select((!selected).then(|| row.run.clone())));
        }
        response.context_menu(|ui| self.menu_ui(ui, row));
    }

    fn cell_ui(&mut self, ui: &mut Ui, cell: &CellInfo) {
        let Some(field) = self.fields.get(cell.col_nr).copied() else { return };
        let state = self.view;
        let Some(row) = row_at(state, cell.row_nr) else { return };
        inside(ui, |ui| self.field_ui(ui, field, row));
    }

    fn default_row_height(&self) -> f32 {
        ROW_HEIGHT
    }
}

/// The run in a line of the list.
fn row_at(view: View<'_>, place: u64) -> Option<&Row> {
    let index = *view.own.shown.get(usize::try_from(place).ok()?)?;
    view.desk.runs.rows.get(index)
}

/// Draws inside a cell, with padding.
fn inside<R>(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> R) -> R {
    let rect = ui.max_rect().shrink2(Vec2::new(1.5 * GRID, 0.0));
    let builder = UiBuilder::new().max_rect(rect).layout(Layout::left_to_right(Align::Center));
    ui.scope_builder(builder, add).inner
}

/// The colours of a progress bar, and of its part that is done. The text over both has one colour, which can be read on each.
fn progress_colours(visuals: &Visuals, state: RunState) -> (Color32, Color32) {
    let (ground, palette) = (visuals.widgets.inactive.bg_fill, palette(visuals));
    let done = if state == RunState::Finished { palette.good } else { palette.accent };
    (ground, ground.blend(done.gamma_multiply(0.35)))
}

/// Draws the progress bar of a run, labelled with its steps.
fn progress_ui(ui: &mut Ui, row: &Row) -> Response {
    let Some(share) = row.share() else { return ui.label("") };
    let (rect, response) = ui.allocate_exact_size(Vec2::new(ui.available_width(), 16.0), Sense::hover());
    let (ground, fill) = progress_colours(ui.visuals(), row.state);
    let text = match row.steps {
        Some((step, steps)) => format!("{step} / {steps}"),
        None => "100 %".to_owned(),
    };
    let name = format!("Progress of run {}", row.number);
    response.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::ProgressIndicator, true, &name);
        info.value = Some(f64::from(share));
        info.current_text_value = Some(text.clone());
        info
    });
    let painter = ui.painter();
    painter.rect_filled(rect, 4, ground);
    let done = Rect::from_min_size(rect.min, Vec2::new(rect.width() * share, rect.height()));
    painter.rect_filled(done, 4, fill);
    let font = FontId::new(BODY - 2.0, TextStyle::Body.resolve(ui.style()).family);
    painter.text(rect.center(), Align2::CENTER_CENTER, &text, font, ui.visuals().text_color());
    match row.steps {
        Some((step, steps)) => response.on_hover_text(format!(
            "step {step} of {steps}, epoch {}{}",
            row.epoch,
            row.loss.map_or(String::new(), |loss| format!(", loss {}", significant(loss)))
        )),
        None => response.on_hover_text(
            row.elapsed_s(0.0)
                .map_or("finished".to_owned(), |elapsed_s| format!("finished in {}", duration_text(elapsed_s))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Context, Theme};

    use super::*;
    use crate::app::theme::{contrast, install};

    #[test]
    fn the_text_of_a_progress_bar_can_be_read_on_both_of_its_parts() {
        for theme in [Theme::Light, Theme::Dark] {
            let context = Context::default();
            install(&context);
            let visuals = context.style_of(theme).visuals.clone();
            for state in [RunState::Running, RunState::Finished] {
                let (ground, done) = progress_colours(&visuals, state);
                for part in [ground, done] {
                    let contrast = contrast(visuals.text_color(), part);
                    assert!(contrast >= 4.5, "{theme:?}, {state:?}: text on {part:?}: {contrast}");
                }
            }
        }
    }

    #[test]
    fn durations_below_a_second_are_not_rounded_to_nothing() {
        let texts = [0.01, 0.42, 0.97, 2.6, 21.0, 59.7, 725.0, 3723.0].map(elapsed_text);
        assert_eq!(texts, ["< 0.1 s", "0.4 s", "1.0 s", "2.6 s", "21 s", "1 min 0 s", "12 min 5 s", "1 h 2 min"]);
    }
}
