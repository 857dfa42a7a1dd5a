//! Fields for the parts of a figure. Typed text counts at once, or when Enter ends it. Text that is not valid for its
//! field is not taken, and a tooltip says why.

use eframe::egui::{Context, Id, Key, Ui};

use crate::app::theme::palette;
use crate::app::widgets::{named_text, select_all, text_field};

/// The moment at which typed text counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    /// The text counts with each typed letter.
    Live,
    /// The text counts when Enter, Tab or a click elsewhere ends typing. Esc restores the earlier text.
    Kept,
}

/// The id under which the name of the field is stored that gets the focus in the next frame.
fn focus_id() -> Id {
    Id::unique("figures-focus")
}

/// The id under which it is stored that the last typed text was not valid for its field.
fn refused_id() -> Id {
    Id::unique("figures-refused")
}

/// Gives a field of this name the focus, with all of its text selected.
pub(super) fn focus(context: &Context, name: &str) {
    context.data_mut(|data| data.insert_temp(focus_id(), name.to_owned()));
}

/// Whether the user left a field with text that is not valid for it. The answer is given once.
pub(super) fn was_refused(context: &Context) -> bool {
    context.data_mut(|data| data.remove_temp::<bool>(refused_id())).is_some()
}

/// A field, with its accessible name and the hint that it shows when it is empty.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub name: &'a str,
    pub hint: &'a str,
    pub width: f32,
}

/// Shows a text in a field. Returns the typed text once it counts, if it is valid and differs. `check` says what is
/// wrong with it; while the user types, wrong text stays in the field.
pub(super) fn field(
    ui: &mut Ui,
    typing: Typing,
    Field { name, hint, width }: Field<'_>,
    text: &str,
    check: impl Fn(&str) -> Result<(), String>,
) -> Option<String> {
    let id = ui.scope_id().with(name);
    let now = ui.ctx().cumulative_pass_nr();
    // A live field with the same name is at the side: it must not take this focus. While a popup is measured, no field
    // can have the focus.
    let is_asked = typing == Typing::Kept
        && !ui.is_sizing_pass()
        && ui.data(|data| data.get_temp::<String>(focus_id())).is_some_and(|asked| asked == name);
    let draft = ui.data(|data| data.get_temp::<(String, u64)>(id)).filter(|(_, seen)| seen + 2 >= now && !is_asked);
    let had_draft = draft.is_some();
    let mut typed = draft.map_or_else(|| text.to_owned(), |(draft, _)| draft);
    let wrong = check(&typed).err();
    let colour = wrong.is_some().then(|| palette(ui.visuals()).bad);
    let mut response = ui.add(text_field(&mut typed, hint, width).id(id).text_color_opt(colour));
    response.widget_info(|| named_text(name, &typed));
    if is_asked {
        ui.data_mut(|data| data.remove_temp::<String>(focus_id()));
        response.request_focus();
        select_all(ui, &response, &typed);
    }
    let is_dropped = ui.input(|input| input.key_pressed(Key::Escape));
    let is_entered = ui.input(|input| input.key_pressed(Key::Enter));
    // A press elsewhere ends the typing before the pressed control acts.
    let is_pressed_elsewhere = ui.input(|input| {
        let press = input.pointer.interact_pos().filter(|_| input.pointer.any_pressed());
        press.is_some_and(|place| !response.rect.contains(place))
    });
    let is_left = had_draft && (!response.has_focus() || is_pressed_elsewhere);
    let wrong = check(&typed).err();
    if let Some(message) = &wrong {
        if is_left && is_entered {
            response.request_focus();
            ui.data_mut(|data| data.insert_temp(refused_id(), true));
        }
        response = response.on_hover_text(message);
        response.show_tooltip_text(message);
    }
    if response.has_focus() && !is_dropped {
        ui.data_mut(|data| data.insert_temp(id, (typed.clone(), now)));
    } else {
        ui.data_mut(|data| data.remove_temp::<(String, u64)>(id));
    }
    let counts = match typing {
        Typing::Live => response.changed(),
        Typing::Kept => is_left && !is_dropped,
    };
    (counts && wrong.is_none() && typed != text).then_some(typed)
}

/// Accepts any text.
pub(super) fn any_text(_: &str) -> Result<(), String> {
    Ok(())
}

/// A number, or nothing.
pub(super) fn number(text: &str) -> Result<Option<f64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.map(Some).ok_or_else(|| format!("{text:?} is not a number"))
}

/// A field for a number, or nothing.
pub(super) fn number_field(ui: &mut Ui, typing: Typing, name: &str, value: Option<f64>) -> Option<Option<f64>> {
    let shown = value.map_or(String::new(), |value| value.to_string());
    let asked = read_field(ui, typing, Field { name, hint: "auto", width: 52.0 }, &shown, number);
    asked.filter(|asked| *asked != value)
}

/// A field for a whole number within limits, or nothing.
pub(super) fn whole_field(
    ui: &mut Ui,
    typing: Typing,
    input: Field<'_>,
    value: Option<usize>,
    (least, most): (usize, usize),
) -> Option<Option<usize>> {
    let shown = value.map_or(String::new(), |value| value.to_string());
    read_field(ui, typing, input, &shown, |text| {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| format!("{text:?} is not a whole number from {least} to {most}"))
    })
}

/// A text field for a value. Returns the typed value once the text counts, can be read and differs from `shown`.
pub(super) fn read_field<T>(
    ui: &mut Ui,
    typing: Typing,
    input: Field<'_>,
    shown: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let typed = field(ui, typing, input, shown, |text| read(text).map(drop))?;
    read(&typed).ok()
}
