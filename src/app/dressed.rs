//! Windows of tests, with the window's fonts.

use eframe::egui::Ui;
use egui_kittest::{Harness, HarnessBuilder};

use super::theme;

/// A window that draws this. Its first frame only installs the fonts, which are there from the next frame on.
pub fn dressed<S: 'static>(
    builder: HarnessBuilder<S>,
    state: S,
    mut draw: impl FnMut(&mut Ui, &mut S) + 'static,
) -> Harness<'static, S> {
    let mut is_dressed = false;
    let show = move |ui: &mut Ui, state: &mut S| {
        if std::mem::replace(&mut is_dressed, true) {
            return draw(ui, state);
        }
        theme::install(ui.ctx());
        ui.ctx().request_repaint();
    };
    let mut window = builder.with_max_steps(24).build_ui_state(show, state);
    window.run();
    window
}
