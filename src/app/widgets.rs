//! Widgets shared by several screens.

use eframe::egui::{
    Button, ComboBox, FontFamily, Frame, Margin, Response, RichText, Role, Stroke, Ui, Widget as _, WidgetInfo,
};

use super::theme::{GRID, STRONG, palette};

/// Text in semibold.
pub fn strong(text: impl Into<String>) -> RichText {
    RichText::new(text).family(FontFamily::Name(STRONG.into()))
}

/// Secondary text.
pub fn muted(ui: &Ui, text: impl Into<String>) -> RichText {
    RichText::new(text).color(palette(ui.visuals()).muted)
}

/// The frame of a card.
pub fn card(ui: &Ui) -> Frame {
    let palette = palette(ui.visuals());
    Frame::new()
        .fill(palette.card)
        .stroke(Stroke::new(1.0, palette.line))
        .corner_radius(6)
        .inner_margin(Margin::same((3.0 * GRID) as i8))
}

/// Gives text fields on cards a background colour; they would be white on white.
pub fn fields_on_cards(ui: &mut Ui) {
    let visuals = ui.visuals_mut();
    let ground = if visuals.dark_mode { visuals.extreme_bg_color } else { visuals.faint_bg_color };
    visuals.text_edit_bg_color = Some(ground);
}

/// The primary button of a screen.
pub fn main_button(ui: &mut Ui, enabled: bool, text: impl Into<String>) -> Response {
    let palette = palette(ui.visuals());
    let text = strong(text).color(if enabled { palette.on_accent } else { palette.muted });
    let button = if enabled { Button::new(text).fill(palette.accent) } else { Button::new(text) };
    ui.add_enabled_ui(enabled, |ui| button.ui(ui)).inner
}

/// The accessible name of a button whose label is a symbol or too short.
pub fn named(name: &str) -> WidgetInfo {
    WidgetInfo::labeled(Role::Button, true, name)
}

/// A drop-down list; `now` is the current choice.
pub fn choice(ui: &mut Ui, name: &str, now: &str, width: f32, content: impl FnOnce(&mut Ui)) {
    let list = ComboBox::from_id_salt(name).selected_text(now).width(width).height(480.0).truncate();
    let response = list.show_ui(ui, content).response;
    response.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::ComboBox, true, name);
        info.current_text_value = Some(now.to_owned());
        info
    });
    response.on_hover_text(format!("{name}: {now}"));
}

/// Bytes as text in decimal units with three digits, such as `1.20 GB`.
pub fn bytes_text(bytes: f64) -> String {
    let (value, unit) = match bytes {
        1e9.. => (bytes / 1e9, "GB"),
        1e6.. => (bytes / 1e6, "MB"),
        1e3.. => (bytes / 1e3, "kB"),
        _ => return format!("{bytes:.0} B"),
    };
    format!("{} {unit}", crate::figure::significant(value))
}
