//! A list of texts: one line for each item, and one for a new item.

use eframe::egui::{
    Align, Button, CollapsingHeader, Id, Key as Pressed, Label, Layout, Response, RichText, Role, TextBuffer, TextEdit,
    TextStyle, Ui, WidgetInfo, vec2,
};

use crate::app::deliberate;
use crate::app::theme::{GRID, SMALL, palette};
use crate::app::widgets::{muted, named_text, select_all, text_field};

/// Width of the button at the end of a line.
const BUTTON_WIDTH: f32 = 72.0;

/// A list.
pub(super) struct List<'a> {
    /// What it lists, as in `Name of a new factor`.
    pub(super) what: &'a str,
    /// The columns, from the left.
    pub(super) columns: &'a [Column<'a>],
    /// Whether items can be added and removed.
    pub(super) grows: bool,
    /// The suggested name of the next item, if there is one.
    pub(super) next: Option<&'a str>,
}

/// A column of a list.
pub(super) struct Column<'a> {
    /// Its name, as in `Levels of batch_size`.
    pub(super) name: &'a str,
    /// Its heading.
    pub(super) head: &'a str,
    /// Its share of the width.
    pub(super) share: f32,
    /// The hint in the empty field for a new item.
    pub(super) hint: &'a str,
    /// Whether a new item needs it.
    pub(super) required: bool,
}

/// A field of a line.
pub(super) enum Field<'t> {
    /// A text that cannot be edited.
    Fixed(&'t str),
    /// A text that can be edited.
    Text(&'t mut String),
}

/// A line: the name of its item, and its fields.
pub(super) type Line<'t> = (String, Vec<Field<'t>>);

/// A request of a control.
pub(super) enum Asked {
    Nothing,
    /// Remove the item at this index.
    Remove(usize),
    /// Add an item with these texts.
    Add(Vec<String>),
}

impl List<'_> {
    /// Draws the list; `more` draws further content below each line.
    pub(super) fn ui(&self, ui: &mut Ui, lines: Vec<Line>, mut more: impl FnMut(&mut Ui, usize)) -> Asked {
        let button = if self.grows { BUTTON_WIDTH + 2.0 * GRID } else { 0.0 };
        let gaps = ui.spacing().item_spacing.x * self.columns.len() as f32;
        let room = (ui.available_width() - button - gaps).clamp(200.0, 860.0);
        let width = |column: &Column| room * column.share;
        if !lines.is_empty() || self.grows {
            ui.horizontal(|ui| {
                for column in self.columns {
                    fixed(ui, width(column), |ui| {
                        ui.add(Label::new(muted(ui, column.head).size(SMALL)).truncate());
                    });
                }
            });
        }
        let mut asked = Asked::Nothing;
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
                if self.grows {
                    let remove = ui.button("Remove");
                    remove.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Remove {name}")));
                    if deliberate::clicked(&remove, ("remove a line", &name)) {
                        asked = Asked::Remove(place);
                    }
                }
            });
            more(ui, place);
        }
        if self.grows
            && let Some(texts) = self.another_ui(ui, width, matches!(asked, Asked::Nothing))
        {
            asked = Asked::Add(texts);
        }
        asked
    }

    /// Puts the suggested name into the field for the next item, unless the user typed another name. If that field has the focus, the next
    /// one gets it: what is typed then would be added to the name.
    fn suggest(&self, ui: &Ui, id: Id, name: &mut String) {
        let memory = id.with("suggested");
        let before: String = ui.data(|data| data.get_temp(memory)).unwrap_or_default();
        let next = self.next.unwrap_or_default();
        if *name == before && before != next {
            next.clone_into(name);
            ui.data_mut(|data| data.insert_temp(memory, next.to_owned()));
            let [own, following, ..] = self.columns else { return };
            if !next.is_empty() && ui.memory(|memory| memory.has_focus(id.with(own.name))) {
                ui.memory_mut(|memory| memory.request_focus(id.with(following.name)));
            }
        }
    }

    /// The line for a new item; returns its texts once they are entered: with Enter or the button, or when the focus leaves a complete line,
    /// so that saving and launching include it, if it `may_be_left`.
    fn another_ui(&self, ui: &mut Ui, width: impl Fn(&Column) -> f32, may_be_left: bool) -> Option<Vec<String>> {
        let id = Id::unique(("another one on the list", self.what));
        let mut texts: Vec<String> = ui.data(|data| data.get_temp(id)).unwrap_or_default();
        texts.resize(self.columns.len(), String::new());
        self.suggest(ui, id, &mut texts[0]);
        let suggested: Option<String> = ui.data(|data| data.get_temp(id.with("suggested")));
        let (mut entered, mut is_left) = (false, false);
        ui.horizontal(|ui| {
            for (column, text) in self.columns.iter().zip(&mut texts) {
                fixed(ui, width(column), |ui| {
                    let field = ui.add(text_field(text, column.hint, width(column)).id(id.with(column.name)));
                    named(&field, &format!("{} of a new {}", column.name, self.what), text);
                    if suggested.as_ref() == Some(&*text) {
                        select_at_focus(ui, &field, text);
                    }
                    is_left |= field.lost_focus() && ui.input(|input| !input.key_pressed(Pressed::Escape));
                    if is_entered(ui, &field) {
                        entered = true;
                        field.request_focus();
                    }
                });
            }
            let is_complete =
                self.columns.iter().zip(&texts).all(|(column, text)| !column.required || !text.trim().is_empty());
            let add = ui.add_enabled(is_complete, Button::new("Add"));
            add.widget_info(|| WidgetInfo::labeled(Role::Button, is_complete, format!("Add {}", self.what)));
            if is_complete && entered {
                // The next item can be typed at once.
                ui.memory_mut(|memory| memory.request_focus(id.with(self.columns[0].name)));
            }
            let is_typed = |(place, text): (usize, &String)| {
                !text.trim().is_empty() && (place > 0 || suggested.as_ref() != Some(text))
            };
            is_left &= may_be_left
                && texts.iter().enumerate().any(is_typed)
                && !self.columns.iter().any(|column| ui.memory(|memory| memory.has_focus(id.with(column.name))))
                && !add.has_focus();
            entered = is_complete && (entered || add.clicked() || is_left);
        });
        if entered {
            ui.data_mut(|data| {
                data.remove::<Vec<String>>(id);
                data.remove::<String>(id.with("suggested"));
            });
            return Some(texts);
        }
        ui.data_mut(|data| data.insert_temp(id, texts));
        None
    }
}

/// Whether Enter was pressed in a field. The field loses the focus by this: without it, the keys typed next would be shortcuts.
fn is_entered(ui: &Ui, field: &Response) -> bool {
    field.lost_focus() && ui.input(|input| input.key_pressed(Pressed::Enter))
}

/// Selects the suggested text of a field that gets the focus, so that typing replaces it. While a button of the pointer is down, the field
/// places its cursor itself.
fn select_at_focus(ui: &Ui, field: &Response, text: &str) {
    let memory = field.id.with("selects its text");
    let is_due = field.gained_focus() || ui.data(|data| data.get_temp(memory)).unwrap_or(false);
    let is_pressed = ui.input(|input| input.pointer.any_down());
    ui.data_mut(|data| data.insert_temp(memory, is_due && is_pressed));
    if is_due && !is_pressed {
        select_all(ui, field, text);
    }
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
