//! A list of texts: one line for each item, and one for a new item.

use eframe::egui::{
    Align, Button, CollapsingHeader, Id, Key as Pressed, Label, Layout, Response, RichText, Role, TextBuffer, TextEdit,
    TextStyle, Ui, WidgetInfo, vec2,
};

use super::PlanCommand;
use crate::app::deliberate;
use crate::app::theme::{GRID, SMALL, palette};
use crate::app::widgets::{focus_left, muted, named_text, select_at_focus, text_field};

/// Width of the button at the end of a line.
const BUTTON_WIDTH: f32 = 72.0;

/// A list of the form to which items can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FormList {
    /// The factors of a program.
    Factors,
    /// The measures of a program.
    Measures,
    /// The constraints of the plan.
    Constraints,
}

impl FormList {
    /// All of them. Constraints are last: they may name a factor that is added with them.
    pub(super) const ALL: [Self; 3] = [Self::Factors, Self::Measures, Self::Constraints];

    /// Whether each block of a plan has such a list of its own.
    pub(super) fn is_of_block(self) -> bool {
        self != Self::Constraints
    }

    /// The word for an item, as in `Name of a new factor`.
    fn item(self) -> &'static str {
        match self {
            Self::Factors => "factor",
            Self::Measures => "measure",
            Self::Constraints => "constraint",
        }
    }

    /// The columns, from the left.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Factors => &FACTOR,
            Self::Measures => &MEASURE,
            Self::Constraints => &CONSTRAINT,
        }
    }

    /// The first column that a new item needs and that is empty.
    fn missing(self, line: &NewLine) -> Option<&'static Column> {
        let is_missing = |(column, text): &(&Column, &String)| column.required && text.trim().is_empty();
        self.columns().iter().zip(&line.texts).find(is_missing).map(|(column, _)| column)
    }

    /// What a line lacks into which something was typed, in a sentence, which names the block at this index if it must be named.
    pub(super) fn lack(self, line: &NewLine, block: Option<usize>) -> Option<String> {
        let column = self.missing(line).filter(|_| line.is_begun())?.name.to_lowercase();
        let place = block.map_or(String::new(), |block| format!(" of block {}", block + 1));
        Some(format!("The new {}{place} has no {column}: complete its line, or empty it.", self.item()))
    }
}

/// The line for a new item of a list, as typed. The plan does not contain it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewLine {
    /// The texts of the columns, from the left.
    pub(super) texts: Vec<String>,
    /// Whether the first text was typed. Otherwise it is a suggested name, or empty.
    pub(super) has_own_name: bool,
}

impl NewLine {
    /// Whether something was typed into it.
    pub(super) fn is_begun(&self) -> bool {
        let is_typed = |(place, text): (usize, &String)| (place > 0 || self.has_own_name) && !text.trim().is_empty();
        self.texts.iter().enumerate().any(is_typed)
    }

    /// The suggested name of the item.
    fn suggested_name(&self) -> Option<&str> {
        self.texts.first().map(String::as_str).filter(|name| !self.has_own_name && !name.is_empty())
    }
}

/// A list.
pub(super) struct List<'a> {
    /// The columns, from the left.
    columns: &'a [Column],
    /// The line for a new item, if items can be added and removed.
    new: Option<(FormList, NewLine)>,
}

/// A column of a list.
pub(super) struct Column {
    /// Its name, as in `Levels of batch_size`.
    pub(super) name: &'static str,
    /// Its heading.
    pub(super) head: &'static str,
    /// Its share of the width.
    pub(super) share: f32,
    /// The hint in the empty field for a new item.
    pub(super) hint: &'static str,
    /// Whether a new item needs it.
    pub(super) required: bool,
}

const FACTOR: [Column; 2] = [
    Column { name: "Name", head: "Factor", share: 0.25, hint: "name", required: true },
    Column { name: "Levels", head: "Levels, separated by commas", share: 0.75, hint: "fp32, bf16", required: true },
];
const MEASURE: [Column; 3] = [
    Column { name: "Key", head: "Key: the name of the reading", share: 0.38, hint: "bleu", required: true },
    Column { name: "Name", head: "Name", share: 0.42, hint: "BLEU", required: false },
    Column { name: "Unit", head: "Unit", share: 0.2, hint: "GB/s", required: false },
];
const CONSTRAINT: [Column; 2] = [
    Column {
        name: "Cells",
        head: "Cells that are left out",
        share: 0.5,
        hint: "gpus > 2 and precision = fp64",
        required: true,
    },
    Column { name: "Reason", head: "Reason", share: 0.5, hint: "takes too long", required: true },
];

/// A field of a line.
pub(super) enum Field<'t> {
    /// A text that cannot be edited.
    Fixed(&'t str),
    /// A text that can be edited.
    Text(&'t mut String),
}

/// A line: the name of its item, and its fields.
pub(super) type Line<'t> = (String, Vec<Field<'t>>);

/// What the controls of a list ask for.
#[derive(Default)]
pub(super) struct Asked {
    /// The index of the item to remove.
    pub(super) removed: Option<usize>,
    /// What was done to the line for a new item.
    pub(super) commands: Vec<PlanCommand>,
}

impl<'a> List<'a> {
    /// A list whose items stay.
    pub(super) fn fixed(columns: &'a [Column]) -> Self {
        Self { columns, new: None }
    }

    /// A list with a line for a new item.
    pub(super) fn growing(list: FormList, new: NewLine) -> Self {
        Self { columns: list.columns(), new: Some((list, new)) }
    }

    /// Draws the list; `more` draws further content below each line.
    pub(super) fn ui(&self, ui: &mut Ui, lines: Vec<Line>, mut more: impl FnMut(&mut Ui, usize)) -> Asked {
        let grows = self.new.is_some();
        let button = if grows { BUTTON_WIDTH + 2.0 * GRID } else { 0.0 };
        let gaps = ui.spacing().item_spacing.x * self.columns.len() as f32;
        let room = (ui.available_width() - button - gaps).clamp(200.0, 860.0);
        let width = |column: &Column| room * column.share;
        if !lines.is_empty() || grows {
            ui.horizontal(|ui| {
                for column in self.columns {
                    fixed(ui, width(column), |ui| {
                        ui.add(Label::new(muted(ui, column.head).size(SMALL)).truncate());
                    });
                }
            });
        }
        let mut asked = Asked::default();
        for (place, (name, fields)) in lines.into_iter().enumerate() {
            ui.horizontal(|ui| {
                for (column, field) in self.columns.iter().zip(fields) {
                    fixed(ui, width(column), |ui| match field {
                        Field::Fixed(text) => {
                            ui.add(Label::new(text).truncate().show_tooltip_when_elided(false)).on_hover_text(text);
                        }
                        Field::Text(text) => {
                            let field = ui.add(text_field(text, "", width(column)));
                            named(&field, &format!("{} of {name}", column.name), text);
                            if is_entered(ui, &field) {
                                field.request_focus();
                            }
                        }
                    });
                }
                if grows {
                    let remove = ui.button("Remove");
                    remove.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Remove {name}")));
                    if deliberate::clicked(&remove, ("remove a line", &name)) {
                        asked.removed = Some(place);
                    }
                }
            });
            more(ui, place);
        }
        if let Some((list, new)) = &self.new {
            asked.commands = self.new_line_ui(ui, width, *list, new);
        }
        asked
    }

    /// Moves the focus from the field of the name to the next one when a name is suggested there: what is typed then would be added to the
    /// name.
    fn leave_suggested_name(&self, ui: &Ui, id: Id, suggested: Option<&str>) {
        let memory = id.with("suggested");
        let before: String = ui.data(|data| data.get_temp(memory)).unwrap_or_default();
        let now = suggested.unwrap_or_default();
        if before == now {
            return;
        }
        ui.data_mut(|data| data.insert_temp(memory, now.to_owned()));
        let [own, following, ..] = self.columns else { return };
        if suggested.is_some() && ui.memory(|memory| memory.has_focus(id.with(own.name))) {
            ui.memory_mut(|memory| memory.request_focus(id.with(following.name)));
        }
    }

    /// The line for a new item, and below it what it lacks. The item is added once its line is entered: with Enter or the button, or when the
    /// focus leaves a complete line.
    fn new_line_ui(
        &self,
        ui: &mut Ui,
        width: impl Fn(&Column) -> f32,
        list: FormList,
        shown: &NewLine,
    ) -> Vec<PlanCommand> {
        let id = Id::unique(("another one on the list", list.item()));
        let suggested = shown.suggested_name();
        self.leave_suggested_name(ui, id, suggested);
        let mut line = shown.clone();
        let mut is_added = false;
        ui.horizontal(|ui| {
            let mut entered = false;
            for (column, text) in self.columns.iter().zip(&mut line.texts) {
                fixed(ui, width(column), |ui| {
                    let field = ui.add(text_field(text, column.hint, width(column)).id(id.with(column.name)));
                    named(&field, &format!("{} of a new {}", column.name, list.item()), text);
                    if suggested == Some(text.as_str()) {
                        select_at_focus(ui, &field, text);
                    }
                    if is_entered(ui, &field) {
                        entered = true;
                        field.request_focus();
                    }
                });
            }
            line.has_own_name |= line.texts.first() != shown.texts.first();
            let is_complete = list.missing(&line).is_none();
            let add = ui.add_enabled(is_complete, Button::new("Add"));
            add.widget_info(|| WidgetInfo::labeled(Role::Button, is_complete, format!("Add {}", list.item())));
            entered |= add.clicked();
            if is_complete && entered {
                // The next item can be typed at once.
                ui.memory_mut(|memory| memory.request_focus(id.with(self.columns[0].name)));
            }
            let is_left = self.is_left(ui, id, &add);
            is_added = is_complete && (entered || (is_left && line.is_begun()));
            // A name may be suggested again for a line that was emptied.
            line.has_own_name &= !is_left || line.is_begun();
        });
        if let Some(lack) = list.lack(&line, None) {
            error_ui(ui, Some(&lack));
        }
        let mut commands = Vec::new();
        if line != *shown {
            commands.push(PlanCommand::TypeLine(list, line));
        }
        if is_added {
            commands.push(PlanCommand::AddLine(list));
        }
        commands
    }

    /// Whether the focus has left the line for a new item since the last frame. Esc leaves it as it is, and a press on the button is a
    /// click later.
    fn is_left(&self, ui: &Ui, id: Id, add: &Response) -> bool {
        let is_in_field = |column: &Column| ui.memory(|memory| memory.has_focus(id.with(column.name)));
        let has_focus = add.has_focus() || self.columns.iter().any(is_in_field);
        focus_left(ui.ctx(), id, has_focus)
            && !add.is_pointer_button_down_on()
            && ui.input(|input| !input.key_pressed(Pressed::Escape))
    }
}

/// Whether Enter was pressed in a field. The field loses the focus by this: without it, the keys typed next would be shortcuts.
fn is_entered(ui: &Ui, field: &Response) -> bool {
    field.lost_focus() && ui.input(|input| input.key_pressed(Pressed::Enter))
}

/// Draws in a part of a line with a fixed width.
pub(super) fn fixed(ui: &mut Ui, width: f32, content: impl FnOnce(&mut Ui)) {
    let size = [width, ui.spacing().interact_size.y].into();
    ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
        ui.set_min_width(width);
        ui.set_max_width(width);
        content(ui);
    });
}

/// A part of a form that can be folded; its title shows the number of items in it.
pub(super) fn part_ui(ui: &mut Ui, name: &str, count: usize, content: impl FnOnce(&mut Ui)) {
    let title = if count == 0 { name.to_owned() } else { format!("{name}: {count}") };
    CollapsingHeader::new(title).id_salt(("part of the form", name)).show_unindented(ui, content);
}

/// Draws an error message on a line that always exists, so that the fields below do not move while the user types.
pub(super) fn error_ui(ui: &mut Ui, error: Option<&str>) {
    let line = vec2(ui.available_width(), (2.0 * ui.text_style_height(&TextStyle::Small)).ceil());
    ui.allocate_ui_with_layout(line, Layout::left_to_right(Align::Center), |ui| {
        ui.set_min_size(line);
        if let Some(error) = error {
            let text = RichText::new(error).size(SMALL).color(palette(ui.visuals()).bad);
            ui.add(Label::new(text).wrap());
        }
    });
}

/// A field of several lines, as high as its text.
pub(super) fn lines_ui(ui: &mut Ui, name: &str, text: &mut String, hint: &str, help: &str) {
    ui.label(name);
    let rows = text.lines().count().clamp(1, 6);
    let field = TextEdit::multiline(text)
        .desired_rows(rows)
        .hint_text(hint.to_owned())
        .desired_width(f32::INFINITY)
        .code_editor();
    let field = ui.add(field.lock_focus(false)).on_hover_text(help);
    named(&field, name, text);
}

/// Gives a field its accessible name.
pub(super) fn named(field: &Response, name: &str, text: &dyn TextBuffer) {
    field.widget_info(|| named_text(name, text.as_str()));
}
