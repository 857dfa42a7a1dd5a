//! Guards against accidental clicks: a control that cancels, deletes or queues something ignores a press if the control itself moved under
//! the pointer a moment ago. Otherwise, after a list has moved or another button has appeared, the second half of a double click could hit
//! the wrong control.

use std::fmt::Debug;
use std::hash::Hash;

use eframe::egui::{Context, Id, Pos2, Response};

/// If a control moved under the pointer, it must have been there for this long before a press counts.
pub const AIM_S: f64 = 0.5;

/// The state of the pointer, stored in egui's memory.
#[derive(Clone, Copy)]
struct Aim {
    /// The pass of egui in which it was last updated.
    pass: u64,
    /// The position of the pointer in the previous pass, and now.
    before: Option<Pos2>,
    now: Option<Pos2>,
    /// The time at which the primary button was last pressed.
    pressed_s: f64,
    /// The control under the pointer, the time from which a press on it counts, and the last pass in which it was there.
    at: Option<(Id, f64, u64)>,
}

/// Updates the state of the pointer. The window calls this in each pass, so that the previous position is known before a screen with such
/// controls is shown.
pub fn watch(context: &Context) {
    updated(context);
}

fn updated(context: &Context) -> Aim {
    let id = Id::unique("deliberate");
    let pass = context.cumulative_pass_nr();
    let known: Option<Aim> = context.data(|data| data.get_temp(id));
    if let Some(known) = known.filter(|known| known.pass == pass) {
        return known;
    }
    let aim = context.input(|input| Aim {
        pass,
        before: known.and_then(|known| known.now),
        now: input.pointer.latest_pos(),
        pressed_s: match known {
            Some(known) if !input.pointer.primary_pressed() => known.pressed_s,
            _ => input.time,
        },
        at: known.and_then(|known| known.at),
    });
    context.data_mut(|data| data.insert_temp(id, aim));
    aim
}

/// Whether a control was clicked on purpose. `what` identifies the action and its object: a button that cancels a run and a button that
/// retries the same run are different controls, even at the same position.
pub fn clicked(response: &Response, what: impl Hash + Debug) -> bool {
    let context = &response.ctx;
    let mut aim = updated(context);
    let what = Id::unique(("deliberate", what));
    let (now_s, is_by_pointer) = context.input(|input| (input.time, input.pointer.any_released()));
    if response.contains_pointer() {
        let stayed = aim.at.filter(|(at, _, last)| *at == what && last + 1 >= aim.pass);
        let came_to_pointer = aim.before.is_some_and(|before| response.interact_rect.contains(before));
        let since_s = match stayed {
            Some((_, since_s, _)) => since_s,
            None if came_to_pointer => now_s + AIM_S,
            None => f64::NEG_INFINITY,
        };
        aim.at = Some((what, since_s, aim.pass));
        context.data_mut(|data| data.insert_temp(Id::unique("deliberate"), aim));
    }
    if !response.clicked() {
        return false;
    }
    // Keys and screen readers address the control directly.
    if !is_by_pointer {
        return true;
    }
    let is_aimed_at = aim.at.is_some_and(|(at, since_s, _)| at == what && aim.pressed_s >= since_s);
    if is_aimed_at {
        // The second half of a double click on the same control is ignored.
        aim.at = Some((what, now_s + AIM_S, aim.pass));
        context.data_mut(|data| data.insert_temp(Id::unique("deliberate"), aim));
    }
    is_aimed_at
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use eframe::egui::{Rect, Ui, Vec2, pos2};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    /// Two objects with a button each; the list scrolls by `shift`.
    #[derive(Default)]
    struct List {
        shift: f32,
        hit: Vec<usize>,
    }

    fn list_ui(ui: &mut Ui, list: &mut List) {
        watch(ui.ctx());
        for index in 0..2_usize {
            let top = 100.0 + 30.0 * index as f32 - list.shift;
            let rect = Rect::from_min_size(pos2(50.0, top), Vec2::new(80.0, 28.0));
            let response = ui.push_id(index, |ui| ui.put(rect, eframe::egui::Button::new(format!("Delete {index}"))));
            if clicked(&response.inner, ("delete", index)) {
                list.hit.push(index);
            }
        }
    }

    fn press(harness: &mut Harness<'_, List>, pos: Pos2) {
        for pressed in [true, false] {
            harness.event(eframe::egui::Event::PointerButton {
                pos,
                button: eframe::egui::PointerButton::Primary,
                pressed,
                modifiers: eframe::egui::Modifiers::default(),
            });
            harness.step();
        }
    }

    #[test]
    fn a_control_that_came_under_a_resting_pointer_is_not_hit_until_it_was_there_for_a_while() {
        let mut harness =
            Harness::builder().with_max_steps(24).with_step_dt(0.05).build_ui_state(list_ui, List::default());
        harness.step();
        let pos = harness.get_by_label("Delete 0").rect().center();
        harness.hover_at(pos);
        harness.step();
        press(&mut harness, pos);
        assert_eq!(harness.state().hit, [0], "the pointer moved to it");
        press(&mut harness, pos);
        assert_eq!(harness.state().hit, [0], "a double click is one click");
        // Another one takes its place, and the pointer trembles.
        harness.state_mut().shift = 30.0;
        harness.step();
        harness.hover_at(pos + Vec2::new(1.0, 1.0));
        harness.step();
        press(&mut harness, pos);
        assert_eq!(harness.state().hit, [0], "the second half of a double click");
        harness.run_steps((AIM_S / 0.05) as usize + 1);
        press(&mut harness, pos);
        assert_eq!(harness.state().hit, [0, 1], "it has been there for half a second");
    }

    #[test]
    fn keys_and_screen_readers_are_not_kept_waiting() {
        let mut harness =
            Harness::builder().with_max_steps(24).with_step_dt(0.05).build_ui_state(list_ui, List::default());
        harness.step();
        harness.get_by_label("Delete 1").click_accesskit();
        harness.step();
        assert_eq!(harness.state().hit, [1]);
    }
}
