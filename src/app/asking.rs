//! Questions before something is lost. A question covers the window, which takes no other input until the question is answered.

use eframe::egui::accesskit::Role;
use eframe::egui::{Context, Frame, Id, Margin, Modal, Response, RichText, Stroke, Ui};

use super::deliberate;
use super::theme::{GRID, palette};
use super::widgets::{is_dismissed, muted, strong};

/// Width of a question in points, if the window has the room.
const WIDTH: f32 = 520.0;

/// The id under which the question that was drawn last is stored, with the pass in which it was drawn.
fn known_id() -> Id {
    Id::unique("question")
}

/// Whether a question is open. It then takes all keys.
pub fn is_asked(context: &Context) -> bool {
    let now = context.cumulative_pass_nr();
    let known: Option<(String, u64)> = context.data(|data| data.get_temp(known_id()));
    known.is_some_and(|(_, seen)| seen + 1 >= now)
}

/// The id under which the question that has the window is stored, with the last pass in which it had it.
fn drawn_id() -> Id {
    Id::unique("question drawn")
}

/// Whether another question was drawn in this pass; if not, this one has the window.
fn must_wait(context: &Context, what: &str) -> bool {
    let now = context.cumulative_pass_nr();
    let drawn: Option<(String, u64)> = context.data(|data| data.get_temp(drawn_id()));
    if drawn.is_some_and(|(asked, pass)| asked != what && pass == now) {
        return true;
    }
    context.data_mut(|data| data.insert_temp(drawn_id(), (what.to_owned(), now)));
    false
}

/// Draws a question over the window. `what` identifies the question. `content` draws it, and returns the button of the
/// answer that changes nothing; this button has the focus first. Returns whether the user gave this answer, by its
/// button or by Esc. While another question is open that is drawn first, this one waits for its answer.
pub fn question_ui(context: &Context, what: &str, content: impl FnOnce(&mut Ui) -> Response) -> bool {
    if must_wait(context, what) {
        return false;
    }
    let now = context.cumulative_pass_nr();
    let known: Option<(String, u64)> = context.data(|data| data.get_temp(known_id()));
    let is_new = known.is_none_or(|(asked, seen)| asked != what || seen + 1 < now);
    let style = context.global_style();
    let frame = Frame::popup(&style)
        .stroke(Stroke::new(1.0, palette(&style.visuals).warning))
        .inner_margin(Margin::same((4.0 * GRID) as i8));
    let room = context.content_rect().width() - 20.0 * GRID;
    let area = Modal::default_area(Id::unique("question over all")).role(Role::AlertDialog);
    let modal = Modal::new(Id::unique("question over all")).area(area).frame(frame).show(context, |ui| {
        ui.set_width(WIDTH.min(room));
        let stays = content(ui);
        // While a question is only measured, it cannot take the focus.
        if !ui.is_sizing_pass() {
            ui.data_mut(|data| data.insert_temp(known_id(), (what.to_owned(), now)));
            if is_new {
                stays.request_focus();
            }
        }
        stays.clicked()
    });
    let is_escaped = is_dismissed(&modal);
    modal.inner || is_escaped
}

/// Draws the first line of a question.
pub fn title_ui(ui: &mut Ui, question: &str) {
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new("⚠").color(palette(ui.visuals()).warning));
        ui.label(strong(question));
    });
}

/// Asks before something is lost. `what` identifies the question. Returns the answer once the user has given it.
pub fn ask_ui(context: &Context, what: &str, question: &str, loss: &str, yes: &str, no: &str) -> Option<bool> {
    let mut is_confirmed = false;
    let stays = question_ui(context, what, |ui| {
        title_ui(ui, question);
        ui.label(muted(ui, loss));
        ui.add_space(2.0 * GRID);
        ui.horizontal_wrapped(|ui| {
            is_confirmed = deliberate::clicked(&ui.button(yes), (what, "yes"));
            ui.button(no)
        })
        .inner
    });
    match (is_confirmed, stays) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use eframe::egui::{Key, Modifiers};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::app::dressed::dressed;

    /// Whether the question and another one are open, the answers so far, and how often the button below was pressed.
    #[derive(Default)]
    struct Asked {
        is_open: bool,
        is_other_open: bool,
        answers: Vec<bool>,
        presses: usize,
    }

    fn draw(ui: &mut Ui, asked: &mut Asked) {
        deliberate::watch(ui.ctx());
        asked.presses += usize::from(ui.button("Below").clicked());
        if asked.is_open
            && let Some(answer) = ask_ui(ui.ctx(), "delete", "Delete it?", "It is lost.", "Yes", "No")
        {
            asked.answers.push(answer);
            asked.is_open = false;
        }
        if asked.is_other_open && ask_ui(ui.ctx(), "close", "Close it?", "It ends.", "Yes", "No").is_some() {
            asked.is_other_open = false;
        }
    }

    fn window() -> Harness<'static, Asked> {
        let mut window = dressed(Harness::builder().with_size([900.0, 500.0]), Asked::default(), draw);
        window.state_mut().is_open = true;
        window.run();
        window
    }

    #[test]
    fn a_question_starts_at_the_answer_that_changes_nothing_which_enter_and_esc_give() {
        for key in [Key::Enter, Key::Escape] {
            let mut window = window();
            assert!(window.get_by_label("No").is_focused() && is_asked(&window.ctx), "{key:?}");
            window.key_press(key);
            window.run();
            assert_eq!(window.state().answers, [false], "{key:?}");
            window.run();
            assert!(window.query_by_label("Delete it?").is_none() && !is_asked(&window.ctx));
        }
        let mut window = window();
        window.get_by_label("Yes").focus();
        window.run();
        window.key_press(Key::Enter);
        window.run();
        assert_eq!(window.state().answers, [true]);
    }

    #[test]
    fn a_second_question_waits_for_the_answer_to_the_first_one() {
        let mut window = window();
        window.state_mut().is_other_open = true;
        window.run();
        assert!(window.query_by_label("Delete it?").is_some() && window.query_by_label("Close it?").is_none());
        window.key_press(Key::Escape);
        window.run();
        assert_eq!((window.state().answers.as_slice(), window.state().is_other_open), (&[false][..], true));
        window.run();
        assert!(window.query_by_label("Delete it?").is_none() && window.query_by_label("Close it?").is_some());
        assert!(window.get_by_label("No").is_focused());
    }

    #[test]
    fn nothing_below_a_question_can_be_pressed() {
        let mut window = window();
        let below = window.get_by_label("Below").rect().center();
        for pressed in [true, false] {
            window.event(eframe::egui::Event::PointerMoved(below));
            window.event(eframe::egui::Event::PointerButton {
                pos: below,
                button: eframe::egui::PointerButton::Primary,
                pressed,
                modifiers: Modifiers::NONE,
            });
            window.run();
        }
        assert_eq!((window.state().presses, window.state().answers.len()), (0, 0));
        window.key_press(Key::Escape);
        window.run();
        window.get_by_label("Below").click();
        window.run();
        assert_eq!(window.state().presses, 1);
    }
}
