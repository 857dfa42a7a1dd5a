//! Boxes and dots to tick: filled with the accent where they are on, pale where they are not for use.

use eframe::egui::{Response, RichText, Stroke, TextWrapMode, Ui};

use super::theme::palette;

/// A box to tick. One that is not enabled still takes the focus, so that why can be read with the keyboard, too: the
/// caller ignores its clicks.
pub fn tick_ui(ui: &mut Ui, mut on: bool, enabled: bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    styled(ui, on, enabled, |ui| ui.checkbox(&mut on, text))
}

/// A box to tick that is always for use.
pub fn check_ui(ui: &mut Ui, on: &mut bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    styled(ui, *on, true, |ui| ui.checkbox(on, text))
}

/// A dot among others of which one is on. One that is not enabled is drawn as [`tick_ui`] does.
pub fn radio_ui(ui: &mut Ui, on: bool, enabled: bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    styled(ui, on, enabled, |ui| ui.radio(on, text))
}

fn styled(ui: &mut Ui, on: bool, enabled: bool, draw: impl FnOnce(&mut Ui) -> Response) -> Response {
    let (style, opacity) = (ui.style().clone(), ui.opacity());
    let palette = palette(ui.visuals());
    let text = ui.visuals().text_color();
    ui.visuals_mut().override_text_color.get_or_insert(text);
    let widgets = &mut ui.visuals_mut().widgets;
    for widget in [&mut widgets.inactive, &mut widgets.hovered, &mut widgets.active] {
        widget.bg_fill = if on { palette.accent } else { palette.card };
        widget.bg_stroke = Stroke::new(1.0, if on { palette.accent } else { palette.muted });
        widget.fg_stroke.color = palette.on_accent;
    }
    // What is pointed at, and what has the focus.
    widgets.hovered.bg_stroke = Stroke::new(1.5, text);
    widgets.active.bg_stroke = Stroke::new(2.0, text);
    // A box and its text stay together where a line is full.
    ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
    if !enabled {
        ui.multiply_opacity(0.45);
    }
    let response = draw(ui);
    ui.set_opacity(opacity);
    ui.set_style(style);
    response
}
