//! The field in which filters are typed, the same on every screen; see [`crate::plan::filter`] for what they say.

use eframe::egui::{Id, Role, TextEdit, Ui, WidgetInfo};

use super::theme::palette;
use crate::plan::Filter;

/// What the field says to those who look at it for longer.
const HELP: &str = "Words, or key=value with =, != and for numbers <, <=, >, >=. Join them with and, or, not and \
                    parentheses; side by side means and, several values of one key mean one of them. Key: /";

/// Draws the field; returns what was typed where it has changed.
pub fn filter_field(ui: &mut Ui, id: Id, name: &str, hint: &str, text: &str, width: f32) -> Option<String> {
    let wrong = Filter::typed(text).is_err().then(|| palette(ui.visuals()).bad);
    let mut text = text.to_owned();
    let field = TextEdit::singleline(&mut text).id(id).hint_text(hint).desired_width(width).text_color_opt(wrong);
    let response = ui.add(field).on_hover_text(HELP);
    response.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::TextInput, true, name);
        info.current_text_value = Some(text.clone());
        info
    });
    response.changed().then_some(text)
}

/// Says what is wrong with a filter; nothing where it can be used.
pub fn filter_error_ui(ui: &mut Ui, text: &str) {
    if let Err(error) = Filter::typed(text) {
        ui.colored_label(palette(ui.visuals()).bad, format!("Filter, {error}. Until then it hides nothing."));
    }
}
