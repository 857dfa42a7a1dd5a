//! Messages in the bar above the screens: failures, completed actions, the offer of the sample session to a new user, and the reason why a
//! closing window waits. There they cover nothing, and no control moves when they appear or disappear. Their buttons come before their
//! texts, so that a button's place does not depend on the text.

use eframe::egui::text::LayoutJob;
use eframe::egui::{Align, Color32, FontId, Frame, Id, Label, Layout, Margin, Rect, Stroke, TextFormat, Ui, UiBuilder};

use super::command::{Command, ScreenName, SessionsCommand};
use super::desk::Problem;
use super::theme::{SMALL, palette};
use super::widgets::{card, main_button, named, notes_menu_ui};
use super::window::Window;
use super::{closing, deliberate, sample};

/// How long a notice stays, in seconds: longer if it offers to undo something.
const SHOWN_S: f64 = 6.0;
const SHOWN_WITH_UNDO_S: f64 = 20.0;
/// The most rows of a message: its tooltip has the rest.
const MOST_ROWS: usize = 2;
/// The failures' share of the width while there is something else to say.
const SHARE_OF_PROBLEMS: f32 = 0.6;

/// The messages that are to be shown.
struct Messages<'w> {
    /// The failures of the current screen, oldest first.
    problems: Vec<&'w Problem>,
    is_new_user: bool,
    has_others: bool,
}

impl<'w> Messages<'w> {
    fn of(window: &'w Window) -> Self {
        let desk = &window.desk;
        let problems = desk.problems.iter().filter(|problem| problem.screen == desk.screen).collect();
        let is_new_user = desk.session.is_none() && desk.opening.is_none() && desk.settings.offers_sample();
        let has_others = window.closing.is_decided() || desk.notice.is_some() || is_new_user;
        Self { problems, is_new_user, has_others }
    }
}

/// Whether there is a message.
pub fn are_any(window: &Window) -> bool {
    let messages = Messages::of(window);
    messages.has_others || !messages.problems.is_empty()
}

/// Draws the messages in the room that the bar leaves.
pub fn notices_ui(ui: &mut Ui, window: &Window, commands: &mut Vec<Command>) {
    let Messages { problems, is_new_user, has_others } = Messages::of(window);
    let share = match (problems.is_empty(), has_others) {
        (true, _) => 0.0,
        (false, true) => SHARE_OF_PROBLEMS,
        (false, false) => 1.0,
    };
    let (left, right) = ui.available_rect_before_wrap().split_left_right_at_fraction(share);
    inside(ui, left, |ui| problems_ui(ui, &problems, commands));
    inside(ui, right, |ui| match &window.desk.notice {
        _ if window.closing.is_decided() => {
            let warning = palette(ui.visuals()).warning;
            framed(ui, warning).show(ui, |ui| closing::waiting_ui(ui, window.closing, commands));
        }
        Some((number, notice)) => {
            let can_undo = notice.can_undo && window.desk.locked().is_none();
            notice_ui(ui, *number, &notice.text, can_undo, commands);
        }
        None if is_new_user => offer_ui(ui, commands),
        None => {}
    });
}

fn inside(ui: &mut Ui, room: Rect, content: impl FnOnce(&mut Ui)) {
    ui.scope_builder(UiBuilder::new().max_rect(room).layout(Layout::left_to_right(Align::Center)), content);
}

/// The frame of a message.
fn framed(ui: &Ui, line: Color32) -> Frame {
    card(ui).stroke(Stroke::new(1.0, line)).inner_margin(Margin::symmetric(8, 1))
}

/// Draws a text in the room that is left.
fn text_ui(ui: &mut Ui, text: &str) {
    let format = TextFormat::simple(FontId::proportional(SMALL), ui.visuals().text_color());
    let mut job = LayoutJob::single_section(text.to_owned(), format);
    job.wrap.max_rows = MOST_ROWS;
    ui.add(Label::new(job).wrap().halign(Align::LEFT));
}

/// Offers the sample session, which is shown on the Compare screen first.
fn offer_ui(ui: &mut Ui, commands: &mut Vec<Command>) {
    framed(ui, palette(ui.visuals()).accent).show(ui, |ui| {
        let open = main_button(ui, true, "Open the sample session").on_hover_text(sample::ABOUT);
        if deliberate::clicked(&open, "open the sample session") {
            commands.push(Command::Sessions(SessionsCommand::OpenSample));
            commands.push(Command::Show(ScreenName::COMPARE));
        }
        let no = ui.button("No, thanks").on_hover_text("The session menu opens it at any time");
        if deliberate::clicked(&no, "decline the sample session") {
            commands.push(Command::Sessions(SessionsCommand::CloseSample));
        }
        text_ui(ui, "New here? A sample session shows what was measured on one H100 GPU, on every screen.");
    });
}

/// Draws the newest failure, and a list of all if there are more.
fn problems_ui(ui: &mut Ui, problems: &[&Problem], commands: &mut Vec<Command>) {
    let Some(newest) = problems.last() else { return };
    let bad = palette(ui.visuals()).bad;
    framed(ui, bad).show(ui, |ui| {
        ui.colored_label(bad, "⚠");
        if deliberate::clicked(&ui.small_button("Dismiss"), ("dismiss", newest.number)) {
            commands.push(Command::Dismiss(newest.number));
        }
        if problems.len() > 1 {
            notes_menu_ui(ui, "Messages", &problems.iter().map(|problem| &problem.message).collect::<Vec<_>>());
        }
        text_ui(ui, &newest.message);
    });
}

fn notice_ui(ui: &mut Ui, number: u64, text: &str, can_undo: bool, commands: &mut Vec<Command>) {
    let frame = framed(ui, palette(ui.visuals()).line).show(ui, |ui| {
        let close = ui.small_button("×").on_hover_text("Dismiss (Esc)");
        close.widget_info(|| named("Dismiss the notice"));
        if close.clicked() {
            commands.push(Command::DismissNotice(number));
        }
        if can_undo {
            let undo = ui.small_button("Undo").on_hover_text("Puts things back as they were (Ctrl Z on Runs)");
            if deliberate::clicked(&undo, ("undo", number)) {
                commands.push(Command::Undo);
            }
        }
        text_ui(ui, text);
    });
    let id = Id::unique("notice since");
    let now_s = ui.input(|input| input.time);
    let known: Option<(u64, f64)> = ui.data(|data| data.get_temp(id));
    let is_read = ui.rect_contains_pointer(frame.response.rect);
    let since_s = known.filter(|(shown, _)| *shown == number && !is_read).map_or(now_s, |(_, since_s)| since_s);
    ui.data_mut(|data| data.insert_temp(id, (number, since_s)));
    let shown_s = if can_undo { SHOWN_WITH_UNDO_S } else { SHOWN_S };
    let left_s = since_s + shown_s - now_s;
    if left_s <= 0.0 {
        commands.push(Command::DismissNotice(number));
    } else if !is_read {
        ui.ctx().request_repaint_after(std::time::Duration::from_secs_f64(left_s));
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::accesskit::Role;
    use eframe::egui::{Context, RawInput, Vec2};
    use egui_kittest::Harness;
    use egui_kittest::kittest::{NodeT as _, Queryable as _};

    use super::*;
    use crate::app::desk::Notice;
    use crate::app::dressed::dressed;
    use crate::app::shell::BAR_HEIGHT;
    use crate::app::shell_ui;

    /// The names and places of the controls in a window.
    fn controls(harness: &Harness<'_, Window>) -> Vec<(String, Rect)> {
        let roles = [Role::Button, Role::CheckBox, Role::ComboBox, Role::RadioButton, Role::Tab, Role::TextInput];
        let controls = harness.query_all_by(|node| roles.contains(&node.role()));
        controls.map(|control| (control.accesskit_node().label().unwrap_or_default(), control.rect())).collect()
    }

    #[test]
    fn messages_lie_in_the_bar_of_every_screen_and_move_no_control() {
        for size in [Vec2::new(1000.0, 700.0), Vec2::new(2560.0, 1440.0)] {
            let draw = |ui: &mut Ui, window: &mut Window| shell_ui(ui, window, &mut Vec::new());
            let mut harness = dressed(Harness::builder().with_size(size), Window::default(), draw);
            let screens: Vec<ScreenName> = harness.state().screens.iter().map(|screen| screen.name()).collect();
            for screen in screens {
                harness.state_mut().desk.screen = screen;
                harness.run_steps(6);
                let before = controls(&harness);
                let desk = &mut harness.state_mut().desk;
                desk.problem(screen, "cannot read the report: it ends in the middle of a line; ".repeat(9));
                desk.say(Notice { text: "30 runs taken out of the queue. ".repeat(9), can_undo: true });
                harness.run_steps(6);
                let mut added = controls(&harness);
                added.retain(|control| !before.contains(control));
                assert_eq!(added.len(), 3, "{screen:?} at {size:?}: {added:?}");
                for (name, place) in &added {
                    assert!(["Dismiss", "Undo", "Dismiss the notice"].contains(&name.as_str()), "{screen:?}: {name}");
                    assert!(place.bottom() <= BAR_HEIGHT && place.right() < size.x, "{screen:?}: {name} at {place:?}");
                }
                let desk = &mut harness.state_mut().desk;
                desk.problems.clear();
                desk.notice = None;
            }
        }
    }

    /// Whether a notice is dismissed that is drawn at these times, in seconds.
    fn is_dismissed(can_undo: bool, times_s: &[f64]) -> bool {
        let (context, mut commands) = (Context::default(), Vec::new());
        for time_s in times_s {
            let input = RawInput { time: Some(*time_s), ..RawInput::default() };
            let mut drawn = context.run_ui(input, |ui| notice_ui(ui, 0, "Copied", can_undo, &mut commands));
            drawn.textures_delta.clear();
        }
        commands.contains(&Command::DismissNotice(0))
    }

    #[test]
    fn a_notice_goes_after_some_seconds_and_later_if_it_offers_to_undo() {
        assert!(!is_dismissed(false, &[0.0, 5.0]) && is_dismissed(false, &[0.0, 5.0, 7.0]));
        assert!(!is_dismissed(true, &[0.0, 7.0, 19.0]) && is_dismissed(true, &[0.0, 7.0, 21.0]));
    }
}
