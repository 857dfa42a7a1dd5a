//! Windows of tests, with the window's fonts.

use eframe::egui::{Event, Key, Modifiers, PointerButton, Pos2, Ui};
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

/// Types this text and presses Enter within one frame, as on a slow machine. The harness shows each event that it queues in a frame of its own.
pub fn type_at_once<S>(window: &mut Harness<'_, S>, text: &str) {
    let (key, modifiers) = (Key::Enter, Modifiers::NONE);
    let enter = Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
    window.input_mut().events.extend([Event::Text(text.to_owned()), enter]);
    window.run();
    window.event(Event::Key { key, physical_key: None, pressed: false, repeat: false, modifiers });
}

/// Presses or releases the button of the pointer at a place.
pub fn press<S>(window: &mut Harness<'_, S>, pos: Pos2, pressed: bool) {
    window.event(Event::PointerMoved(pos));
    let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
    window.event(Event::PointerButton { pos, button, pressed, modifiers });
    // One frame: a button that is held for longer is not clicked.
    window.step();
}

/// Clicks in the corner of the window, beside its dialogs.
pub fn click_beside<S>(window: &mut Harness<'_, S>) {
    for pressed in [true, false] {
        press(window, Pos2::new(5.0, 5.0), pressed);
    }
    window.run();
}
