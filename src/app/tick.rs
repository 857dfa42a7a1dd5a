//! Check boxes and radio buttons: filled with the accent colour when on, pale when disabled.

use eframe::egui::{Response, RichText, Stroke, TextWrapMode, Ui};

use super::theme::palette;

/// A check box. A disabled one still takes the focus, so that its reason can be read with the keyboard; the caller
/// ignores its clicks.
pub fn tick_ui(ui: &mut Ui, mut on: bool, enabled: bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    styled(ui, on, enabled, |ui| ui.checkbox(&mut on, text))
}

/// A check box that is always enabled.
pub fn check_ui(ui: &mut Ui, on: &mut bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    styled(ui, *on, true, |ui| ui.checkbox(on, text))
}

/// A radio button. A disabled one behaves like [`tick_ui`].
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
    // Outline on hover and focus.
    widgets.hovered.bg_stroke = Stroke::new(1.5, text);
    widgets.active.bg_stroke = Stroke::new(2.0, text);
    // Keep a box and its label on one line.
    ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
    if !enabled {
        ui.multiply_opacity(0.45);
    }
    let response = draw(ui);
    ui.set_opacity(opacity);
    ui.set_style(style);
    response
}
