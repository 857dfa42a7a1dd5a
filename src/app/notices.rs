//! Messages over the screens: completed actions, failures, and the offer of the sample session to a new user. They lie over the screen, so
//! that nothing moves under the pointer when they appear or disappear.

use eframe::egui::{Align2, Area, Context, Frame, Id, Label, Order, ScrollArea, Stroke, Ui, Vec2};

use super::command::{Command, ScreenName, SessionsCommand};
use super::desk::{Desk, Notice, Problem};
use super::theme::palette;
use super::widgets::{card, main_button, named, strong};
use super::{deliberate, sample};

/// How long a notice stays, in seconds, since it covers what is below it: longer if it offers to undo something.
const SHOWN_S: f64 = 6.0;
const SHOWN_WITH_UNDO_S: f64 = 20.0;
/// Room below, where screens have their main buttons.
const ABOVE_BUTTONS: f32 = 64.0;

/// Draws the messages over the current screen.
pub fn notices_ui(context: &Context, desk: &Desk, commands: &mut Vec<Command>) {
    let problems: Vec<&Problem> = desk.problems.iter().filter(|problem| problem.screen == desk.screen).collect();
    let is_new_user = desk.session.is_none() && desk.opening.is_none() && desk.settings.offers_sample();
    if problems.is_empty() && desk.notice.is_none() && !is_new_user {
        return;
    }
    let width = (context.content_rect().width() - 160.0).clamp(240.0, 760.0);
    over(context, "notices", Align2::CENTER_BOTTOM, Vec2::new(52.0, -ABOVE_BUTTONS), |ui| {
        ui.set_max_width(width);
        if is_new_user {
            offer_ui(ui, commands);
        }
        if !problems.is_empty() {
            problems_ui(ui, &problems, commands);
        }
        if let Some((number, notice)) = &desk.notice {
            notice_ui(ui, *number, notice, commands);
        }
    });
}

/// Draws something over the screen, without taking room from it.
pub(super) fn over(context: &Context, id: &'static str, align: Align2, offset: Vec2, content: impl FnOnce(&mut Ui)) {
    Area::new(Id::unique(id)).order(Order::Foreground).anchor(align, offset).show(context, content);
}

/// The frame of something that lies over the screen.
pub(super) fn lifted(ui: &Ui) -> Frame {
    card(ui).shadow(ui.visuals().popup_shadow)
}

/// Offers the sample session, which is shown on the Compare screen first.
fn offer_ui(ui: &mut Ui, commands: &mut Vec<Command>) {
    lifted(ui).stroke(Stroke::new(1.0, palette(ui.visuals()).accent)).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.label(strong("New here?"));
            ui.label("A sample session shows what was measured on one H100 GPU, on every screen.");
        });
        // A button in a row that wraps would break its text.
        ui.horizontal(|ui| {
            let open = main_button(ui, true, "Open the sample session").on_hover_text(sample::ABOUT);
            if deliberate::clicked(&open, "open the sample session") {
                commands.push(Command::Sessions(SessionsCommand::OpenSample));
                commands.push(Command::Show(ScreenName::COMPARE));
            }
            if ui.button("No, thanks").on_hover_text("The session menu opens it at any time").clicked() {
                commands.push(Command::Sessions(SessionsCommand::CloseSample));
            }
        });
    });
}

fn problems_ui(ui: &mut Ui, problems: &[&Problem], commands: &mut Vec<Command>) {
    let bad = palette(ui.visuals()).bad;
    lifted(ui).stroke(Stroke::new(1.0, bad)).show(ui, |ui| {
        ScrollArea::vertical().id_salt("problems").max_height(160.0).show(ui, |ui| {
            for problem in problems {
                ui.horizontal_wrapped(|ui| {
                    ui.colored_label(bad, "⚠");
                    ui.label(&problem.message);
                    if ui.small_button("Dismiss").clicked() {
                        commands.push(Command::Dismiss(problem.number));
                    }
                });
            }
        });
    });
}

fn notice_ui(ui: &mut Ui, number: u64, notice: &Notice, commands: &mut Vec<Command>) {
    let frame = lifted(ui).show(ui, |ui| {
        ui.horizontal(|ui| {
            ui.add(Label::new(&notice.text).truncate());
            if notice.can_undo {
                let undo = ui.small_button("Undo").on_hover_text("Puts things back as they were (Ctrl Z on Runs)");
                if deliberate::clicked(&undo, ("undo", number)) {
                    commands.push(Command::Undo);
                }
            }
            let close = ui.small_button("×").on_hover_text("Dismiss (Esc)");
            close.widget_info(|| named("Dismiss the notice"));
            if close.clicked() {
                commands.push(Command::DismissNotice(number));
            }
        });
    });
    let id = Id::unique("notice since");
    let now_s = ui.input(|input| input.time);
    let known: Option<(u64, f64)> = ui.data(|data| data.get_temp(id));
    let is_read = ui.rect_contains_pointer(frame.response.rect);
    let since_s = known.filter(|(shown, _)| *shown == number && !is_read).map_or(now_s, |(_, since_s)| since_s);
    ui.data_mut(|data| data.insert_temp(id, (number, since_s)));
    let shown_s = if notice.can_undo { SHOWN_WITH_UNDO_S } else { SHOWN_S };
    let left_s = since_s + shown_s - now_s;
    if left_s <= 0.0 {
        commands.push(Command::DismissNotice(number));
    } else if !is_read {
        ui.ctx().request_repaint_after(std::time::Duration::from_secs_f64(left_s));
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::RawInput;

    use super::*;

    /// Whether a notice is dismissed that is drawn at these times, in seconds.
    fn is_dismissed(can_undo: bool, times_s: &[f64]) -> bool {
        let (context, mut commands) = (Context::default(), Vec::new());
        let notice = Notice { text: "Copied".to_owned(), can_undo };
        for time_s in times_s {
            let input = RawInput { time: Some(*time_s), ..RawInput::default() };
            let mut drawn = context.run_ui(input, |ui| notice_ui(ui, 0, &notice, &mut commands));
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
