//! Closing the window: asks whether to stop active runs or keep them running, and whether to save edits.

use eframe::egui::{Align2, Context, Stroke, Ui, Vec2, ViewportCommand};

use super::command::{CloseCommand, Command};
use super::deliberate;
use super::desk::{Desk, Intent};
use super::notices::{lifted, over};
use super::screen::Unsaved;
use super::theme::palette;
use super::widgets::{muted, strong};
use super::words::runs_text;
use crate::conduct::{Order, ends_at_logout};
use crate::figure::capitalised;
use crate::plan::RunState;

/// Room above, where the bar is, and at both sides, in points.
const BELOW_BAR: f32 = 46.0;
const SIDE: f32 = 12.0;

/// Whether the window is about to close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    /// It stays open.
    #[default]
    No,
    /// There are active runs, and the question is shown.
    Asked,
    /// It closes once the runs have ended.
    WhenEnded,
    /// There are unsaved edits, and the question is shown.
    EditsAsked,
    /// It closes once the edits are saved.
    WhenSaved,
    /// It closes now.
    Now,
}

impl Closing {
    /// The user closes the window.
    pub fn requested(&mut self, desk: &Desk, unsaved: Option<&Unsaved>, context: &Context) {
        let is_active = desk.queue.is_active();
        if *self == Self::Now || !(is_active || unsaved.is_some()) {
            return;
        }
        context.send_viewport_cmd(ViewportCommand::CancelClose);
        if *self == Self::No {
            *self = if is_active { Self::Asked } else { Self::EditsAsked };
        }
    }

    /// Executes the user's answer.
    pub fn execute(&mut self, command: CloseCommand, desk: &mut Desk, unsaved: Option<&Unsaved>, context: &Context) {
        match command {
            CloseCommand::Stay => *self = Self::No,
            CloseCommand::KeepRunning => self.runs_settled(unsaved, context),
            CloseCommand::CancelRuns => {
                desk.order(Order::CancelAll);
                *self = Self::WhenEnded;
            }
            CloseCommand::Save => {
                if let Some(unsaved) = unsaved {
                    desk.goto(unsaved.screen, Intent::Save);
                }
                *self = Self::WhenSaved;
            }
            CloseCommand::DiscardEdits => self.close(context),
        }
    }

    /// Whether it is shown in the window, with a button that keeps the window open.
    pub fn is_shown(self) -> bool {
        !matches!(self, Self::No | Self::Now)
    }

    /// Whether [`Closing::poll`] has something to wait for.
    pub fn waits(self) -> bool {
        !matches!(self, Self::No | Self::Now | Self::EditsAsked)
    }

    /// Closes once the runs have ended and the edits are saved.
    pub fn poll(&mut self, desk: &Desk, unsaved: Option<&Unsaved>, context: &Context) {
        let is_active = desk.queue.is_active();
        match self {
            // The question disappeared without an answer, which does not mean to close.
            Self::Asked if !is_active => *self = Self::No,
            Self::WhenEnded if !is_active => self.runs_settled(unsaved, context),
            Self::WhenSaved if unsaved.is_none() => self.close(context),
            // The dialog for a path was closed, or writing failed.
            Self::WhenSaved if unsaved.is_some_and(|unsaved| !unsaved.is_saving) => *self = Self::No,
            _ => {}
        }
    }

    /// Continues once no run keeps the window open.
    fn runs_settled(&mut self, unsaved: Option<&Unsaved>, context: &Context) {
        if unsaved.is_some() {
            *self = Self::EditsAsked;
        } else {
            self.close(context);
        }
    }

    fn close(&mut self, context: &Context) {
        *self = Self::Now;
        context.send_viewport_cmd(ViewportCommand::Close);
    }
}

/// The text of the question.
fn question(desk: &Desk) -> String {
    let active = desk.queue.rows.iter().filter(|row| row.state.is_active()).count();
    let queued = desk.queue.rows.iter().filter(|row| row.state == RunState::Queued).count();
    let is = |count| if count == 1 { "is" } else { "are" };
    let them = if active + queued == 1 { "it" } else { "them" };
    if desk.queue.paused && queued > 0 {
        let (wait, stays) = if queued == 1 { ("waits", "it") } else { ("wait", "them") };
        let waiting = format!("{} {wait} in the queue, which is paused", runs_text(queued));
        return match active {
            0 => format!("{waiting}. Cancel {stays} or leave {stays} in the queue?"),
            _ => format!("{} {} active, and {waiting}. Stop them or keep them?", runs_text(active), is(active)),
        };
    }
    match (active, queued) {
        (0, _) => format!("{} {} queued. Stop {them} or keep {them} in the queue?", runs_text(queued), is(queued)),
        (_, 0) => format!("{} {} active. Stop {them} or keep {them} running?", runs_text(active), is(active)),
        _ => {
            let (runs, active_is, queued_is) = (runs_text(active), is(active), is(queued));
            format!("{runs} {active_is} active and {queued} {queued_is} queued. Stop {them} or keep {them} running?")
        }
    }
}

/// What happens to the runs if the window closes and keeps them.
fn what_is_kept(desk: &Desk) -> &'static str {
    match (desk.queue.paused, desk.queue.is_running()) {
        (false, _) => {
            "Active and queued runs go on without the window, until the queue is empty or the machine is shut down. \
             Open the session again to follow them, or run `multicard attach` with its path."
        }
        (true, true) => {
            "Active runs go on without the window. The queue stays paused: the runs in it start once you open the session \
             again and resume the queue, or run `multicard attach --resume` with its path."
        }
        (true, false) => {
            "Nothing runs while the window is closed, because the queue stays paused: its runs start once you open the \
             session again and resume the queue, or run `multicard attach --resume` with its path."
        }
    }
}

/// Draws the question over the screen, below the bar, so that nothing moves. `unsaved` describes the edits that would be lost.
pub fn close_ui(
    ui: &mut Ui,
    closing: Closing,
    desk: &Desk,
    unsaved: &dyn Fn() -> Option<Unsaved>,
    commands: &mut Vec<Command>,
) {
    if !closing.is_shown() {
        return;
    }
    let width = ui.ctx().content_rect().width();
    over(ui.ctx(), "closing", Align2::CENTER_TOP, Vec2::new(0.0, BELOW_BAR), |ui| {
        lifted(ui).stroke(Stroke::new(1.0, palette(ui.visuals()).warning)).show(ui, |ui| {
            ui.set_width((width - 4.0 * SIDE).max(240.0));
            question_ui(ui, closing, desk, unsaved, commands);
        });
    });
}

fn question_ui(
    ui: &mut Ui,
    closing: Closing,
    desk: &Desk,
    unsaved: &dyn Fn() -> Option<Unsaved>,
    commands: &mut Vec<Command>,
) {
    let palette = palette(ui.visuals());
    let mut button = |ui: &mut Ui, text: &str, hover: &str, command: CloseCommand| {
        if deliberate::clicked(&ui.button(text).on_hover_text(hover), ("closing", text)) {
            commands.push(Command::Close(command));
        }
    };
    ui.horizontal_wrapped(|ui| {
        ui.colored_label(palette.warning, "⚠");
        match closing {
            Closing::WhenEnded => {
                ui.label("Stopping all runs. The window closes when they have ended.");
                button(ui, "Close without waiting", "Runs that have not ended go on", CloseCommand::KeepRunning);
                return;
            }
            Closing::WhenSaved => {
                ui.label("The window closes when the plan is saved.");
            }
            Closing::EditsAsked => {
                let unsaved = unsaved();
                let name = unsaved.as_ref().map_or("", |unsaved| &unsaved.name);
                if unsaved.as_ref().is_none_or(|unsaved| unsaved.can_be_saved) {
                    ui.label(strong(format!("The plan {name} has changes that are not saved.")));
                    button(ui, "Save and close", "Saves the plan to its file, then closes", CloseCommand::Save);
                    button(ui, "Close without saving", "The changes are lost", CloseCommand::DiscardEdits);
                } else {
                    ui.label(strong(format!(
                        "The program's form of {name} contains an error, so the plan cannot be saved."
                    )));
                    button(ui, "Close without saving", "What was typed is lost", CloseCommand::DiscardEdits);
                }
            }
            _ => {
                ui.label(strong(question(desk)));
                let kept = what_is_kept(desk);
                let keep = match (desk.queue.paused, desk.queue.is_running()) {
                    (true, false) => "Leave them queued and close",
                    _ => "Keep running and close",
                };
                button(ui, keep, kept, CloseCommand::KeepRunning);
                button(ui, "Cancel runs and close", "Stops all runs, then closes the window", CloseCommand::CancelRuns);
            }
        }
        button(ui, "Don't close", "Keeps the window open (Esc)", CloseCommand::Stay);
    });
    if closing == Closing::Asked {
        ui.label(muted(ui, what_is_kept(desk)));
        if let Some(ends) = ends_at_logout().filter(|_| desk.queue.is_running() || !desk.queue.paused) {
            ui.colored_label(palette.warning, capitalised(ends));
        }
    }
}
