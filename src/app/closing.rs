//! Closing the window while runs are under way: asks once what is to become of them.

use eframe::egui::{Context, Frame, Margin, Panel, Stroke, Ui, ViewportCommand};

use super::theme::palette;
use super::widgets::strong;
use super::{Command, Request, State};

/// What can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCommand {
    /// Close, and let runs go on.
    KeepRunning,
    /// End all runs, then close.
    CancelRuns,
    /// Do not close.
    Stay,
}

/// Whether the window is about to close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    /// It is not.
    #[default]
    No,
    /// Runs are under way and nobody has said what is to become of them.
    Asked,
    /// It closes when the runs have ended.
    WhenEnded,
    /// It closes.
    Now,
}

impl State {
    /// Somebody wants to close the window.
    pub fn close_requested(&mut self, context: &Context) {
        if self.closing == Closing::Now || !self.queue.is_active() {
            return;
        }
        context.send_viewport_cmd(ViewportCommand::CancelClose);
        if self.closing == Closing::No {
            self.closing = Closing::Asked;
        }
    }

    /// Does what was answered.
    pub fn execute_close(&mut self, command: CloseCommand, context: &Context, requests: &mut Vec<Request>) {
        match command {
            CloseCommand::Stay => self.closing = Closing::No,
            CloseCommand::KeepRunning => self.close_now(context),
            CloseCommand::CancelRuns => {
                requests.push(Request::CancelAll);
                self.closing = Closing::WhenEnded;
            }
        }
    }

    /// Closes once the runs have ended.
    pub fn poll_closing(&mut self, context: &Context) {
        let settled = matches!(self.closing, Closing::Asked | Closing::WhenEnded) && !self.queue.is_active();
        if settled {
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

/// What is asked, in one sentence.
fn question(state: &State) -> String {
    let under_way = state.queue.rows.iter().filter(|row| row.state.is_under_way()).count();
    let waiting = state.queue.rows.iter().filter(|row| row.state == crate::plan::RunState::Queued).count();
    let is = |count| if count == 1 { "is" } else { "are" };
    match (under_way, waiting) {
        (0, _) => format!("{} {} queued.", runs_text(waiting), is(waiting)),
        (_, 0) => format!("{} {} under way.", runs_text(under_way), is(under_way)),
        _ => format!("{} {} under way and {} {} queued.", runs_text(under_way), is(under_way), waiting, is(waiting)),
    }
}

/// Draws the question below the bar.
pub fn close_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    if !matches!(state.closing, Closing::Asked | Closing::WhenEnded) {
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
            if state.closing == Closing::WhenEnded {
                ui.label("Ending all runs; the window closes when they have ended.");
                button(ui, "Close without waiting", "Runs that do not end go on", CloseCommand::KeepRunning);
                return;
            }
            ui.label(strong(question(state)));
            button(
                ui,
                "Keep running and close",
                "Runs under way go on and are found again when the session is opened",
                CloseCommand::KeepRunning,
            );
            button(ui, "Cancel runs and close", "Ends all runs, then closes", CloseCommand::CancelRuns);
            button(ui, "Stay", "Does not close the window", CloseCommand::Stay);
        });
        if state.closing == Closing::Asked {
            ui.label(super::widgets::muted(
                ui,
                "Runs that go on are found again when this session is opened next. Queued ones will not start by \
                 themselves: they are then marked as interrupted and can be retried.",
            ));
        }
    });
}
