//! Closing the window: asks whether to stop active runs or keep them running, and whether to save edits.

use eframe::egui::{Context, Frame, Margin, Panel, Stroke, Ui, ViewportCommand};

use super::command::{CloseCommand, Command};
use super::desk::{Desk, Intent};
use super::screen::Unsaved;
use super::theme::palette;
use super::widgets::{muted, strong};
use super::words::runs_text;
use crate::conduct::{Order, ends_at_logout};
use crate::figure::capitalised;
use crate::plan::RunState;

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
    match (active, queued) {
        (0, _) => format!("{} {} queued. Stop {them} or keep {them} in the queue?", runs_text(queued), is(queued)),
        (_, 0) => format!("{} {} active. Stop {them} or keep {them} running?", runs_text(active), is(active)),
        _ => {
            let (runs, active_is, queued_is) = (runs_text(active), is(active), is(queued));
            format!("{runs} {active_is} active and {queued} {queued_is} queued. Stop {them} or keep {them} running?")
        }
    }
}

/// Draws the question below the bar. `unsaved` describes the edits that would be lost.
pub fn close_ui(
    ui: &mut Ui,
    closing: Closing,
    desk: &Desk,
    unsaved: &dyn Fn() -> Option<Unsaved>,
    commands: &mut Vec<Command>,
) {
    if matches!(closing, Closing::No | Closing::Now) {
        return;
    }
    let palette = palette(ui.visuals());
    let frame = Frame::new()
        .fill(palette.card)
        .stroke(Stroke::new(1.0, palette.warning))
        .inner_margin(Margin::symmetric(12, 8));
    Panel::top("closing").frame(frame).show(ui, |ui| {
        let mut button = |ui: &mut Ui, text: &str, hover: &str, command: CloseCommand| {
            if ui.button(text).on_hover_text(hover).clicked() {
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
                    button(
                        ui,
                        "Keep running and close",
                        "All runs go on without the window, the queued ones too; opening the session shows them",
                        CloseCommand::KeepRunning,
                    );
                    button(ui, "Cancel runs and close", "Stops all runs, then closes the window", CloseCommand::CancelRuns);
                }
            }
            button(ui, "Don't close", "Keeps the window open", CloseCommand::Stay);
        });
        if closing == Closing::Asked {
            ui.label(muted(
                ui,
                "Active and queued runs go on without the window, until the queue is empty or the machine is shut down. \
                 Open the session again to follow them, or run `multicard attach` with its path.",
            ));
            if let Some(ends) = ends_at_logout() {
                ui.colored_label(palette.warning, capitalised(ends));
            }
        }
    });
}
