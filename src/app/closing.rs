//! Closing the window: asks whether to stop active runs or keep them running, and whether to save the plan's edits.

use eframe::egui::{Context, Frame, Margin, Panel, Stroke, Ui, ViewportCommand};

use super::state::Closing;
use super::theme::palette;
use super::widgets::strong;
use super::{CloseCommand, Command, PlanCommand, Request, Screen, State};
use crate::conduct::{Order, ends_at_logout};
use crate::figure::capitalised;

impl State {
    /// The user closes the window.
    pub fn close_requested(&mut self, context: &Context) {
        if self.closing == Closing::Now || !(self.queue.is_active() || self.plan.has_unsaved_edits(&self.records)) {
            return;
        }
        context.send_viewport_cmd(ViewportCommand::CancelClose);
        if self.closing == Closing::No {
            self.closing = if self.queue.is_active() { Closing::Asked } else { Closing::PlanAsked };
        }
    }

    /// Executes the answer.
    pub fn execute_close(&mut self, command: CloseCommand, context: &Context, requests: &mut Vec<Request>) {
        match command {
            CloseCommand::Stay => self.closing = Closing::No,
            CloseCommand::KeepRunning => self.runs_settled(context),
            CloseCommand::CancelRuns => {
                requests.push(Request::Order(Order::CancelAll));
                self.closing = Closing::WhenEnded;
            }
            CloseCommand::SavePlan => {
                self.screen = Screen::Plan;
                self.execute_plan(PlanCommand::Save, context, requests);
                self.closing = Closing::WhenSaved;
            }
            CloseCommand::DiscardEdits => self.close_now(context),
        }
    }

    /// Closes once the runs have ended and the plan is saved.
    pub fn poll_closing(&mut self, context: &Context) {
        match self.closing {
            // Nobody answered: who is asked nothing any longer has not said to close.
            Closing::Asked if !self.queue.is_active() => self.closing = Closing::No,
            Closing::WhenEnded if !self.queue.is_active() => self.runs_settled(context),
            Closing::WhenSaved if !self.plan.has_unsaved_edits(&self.records) => self.close_now(context),
            // The question for a path was closed, or writing failed.
            Closing::WhenSaved if !self.plan.is_saving() => self.closing = Closing::No,
            _ => {}
        }
    }

    /// No run keeps the window open any longer.
    fn runs_settled(&mut self, context: &Context) {
        if self.plan.has_unsaved_edits(&self.records) {
            self.closing = Closing::PlanAsked;
        } else {
            self.close_now(context);
        }
    }

    fn close_now(&mut self, context: &Context) {
        self.closing = Closing::Now;
        context.send_viewport_cmd(ViewportCommand::Close);
    }
}

/// `1 run`, `2 runs`.
pub fn runs_text(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

/// The question.
fn question(state: &State) -> String {
    let active = state.queue.rows.iter().filter(|row| row.state.is_active()).count();
    let queued = state.queue.rows.iter().filter(|row| row.state == crate::plan::RunState::Queued).count();
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

/// Draws the question below the bar.
pub fn close_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    if matches!(state.closing, Closing::No | Closing::Now) {
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
            match state.closing {
                Closing::WhenEnded => {
                    ui.label("Stopping all runs. The window closes when they have ended.");
                    button(ui, "Close without waiting", "Runs that have not ended go on", CloseCommand::KeepRunning);
                    return;
                }
                Closing::WhenSaved => {
                    ui.label("The window closes when the plan is saved.");
                }
                Closing::PlanAsked if state.plan.form_error().is_some() => {
                    ui.label(strong(format!(
                        "What is typed in the program's form of {} is not right yet, so that it cannot be saved.",
                        state.plan.plan().name
                    )));
                    button(ui, "Close without saving", "What was typed is lost", CloseCommand::DiscardEdits);
                }
                Closing::PlanAsked => {
                    ui.label(strong(format!("The plan {} has changes that are not saved.", state.plan.plan().name)));
                    button(ui, "Save and close", "Saves the plan to its file, then closes", CloseCommand::SavePlan);
                    button(ui, "Close without saving", "The changes are lost", CloseCommand::DiscardEdits);
                }
                _ => {
                    ui.label(strong(question(state)));
                    button(
                        ui,
                        "Keep running and close",
                        "All runs go on without the window, the queued ones too; opening the session shows them",
                        CloseCommand::KeepRunning,
                    );
                    button(ui, "Cancel runs and close", "Stops all runs, then closes", CloseCommand::CancelRuns);
                }
            }
            button(ui, "Don't close", "Keeps the window open", CloseCommand::Stay);
        });
        if state.closing == Closing::Asked {
            ui.label(super::widgets::muted(
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
