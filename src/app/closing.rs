//! Closing the window: asks whether to stop active runs or keep them running, and whether to save edits.

use eframe::egui::{Context, Response, Ui, ViewportCommand};

use super::asking::{question_ui, title_ui};
use super::command::{CloseCommand, Command};
use super::deliberate;
use super::desk::{Desk, Intent};
use super::screen::Unsaved;
use super::theme::{GRID, palette};
use super::widgets::muted;
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

    /// Whether it is shown in the window, with a button that keeps the window open.
    pub fn is_shown(self) -> bool {
        !matches!(self, Self::No | Self::Now)
    }

    /// Whether the user has answered, and the window closes once something has ended.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::WhenEnded | Self::WhenSaved)
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

/// The sentence on the runs if the window closes and keeps them.
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

/// The sentence on the runs if they are cancelled.
fn what_is_lost(desk: &Desk) -> &'static str {
    let has = |is: fn(RunState) -> bool| desk.queue.rows.iter().any(|row| is(row.state));
    match (has(RunState::is_active), has(|state| state == RunState::Queued)) {
        (true, true) => {
            "Cancelling stops the active runs, whose results so far are lost, and takes the others out of the queue."
        }
        (true, false) => "Cancelling stops them: their results so far are lost.",
        (false, _) => "Cancelling takes them out of the queue.",
    }
}

/// Draws the question. `unsaved` describes the edits that would be lost.
pub fn close_ui(
    ui: &mut Ui,
    closing: Closing,
    desk: &Desk,
    unsaved: &dyn Fn() -> Option<Unsaved>,
    commands: &mut Vec<Command>,
) {
    let mut answer = None;
    match closing {
        Closing::No | Closing::WhenEnded | Closing::WhenSaved | Closing::Now => {}
        Closing::Asked => {
            if question_ui(ui.ctx(), "close with runs", |ui| runs_ui(ui, desk, &mut answer)) {
                answer = Some(CloseCommand::Stay);
            }
        }
        Closing::EditsAsked => {
            let unsaved = unsaved();
            if question_ui(ui.ctx(), "close with edits", |ui| edits_ui(ui, unsaved.as_ref(), &mut answer)) {
                answer = Some(CloseCommand::Stay);
            }
        }
    }
    commands.extend(answer.map(Command::Close));
}

/// Draws a button that gives an answer.
fn button_ui(ui: &mut Ui, (text, hover): (&str, &str), command: CloseCommand, answer: &mut Option<CloseCommand>) {
    if deliberate::clicked(&ui.button(text).on_hover_text(hover), ("closing", text)) {
        *answer = Some(command);
    }
}

/// Draws the button that keeps the window open.
fn stay_ui(ui: &mut Ui) -> Response {
    ui.button("Don't close").on_hover_text("Keeps the window open (Esc)")
}

/// Draws what the window waits for, after the answer, from the right.
pub fn waiting_ui(ui: &mut Ui, closing: Closing, commands: &mut Vec<Command>) {
    let mut answer = None;
    let waits = if closing == Closing::WhenEnded {
        let text = ("Close without waiting", "Runs that have not ended go on");
        button_ui(ui, text, CloseCommand::KeepRunning, &mut answer);
        "Stopping all runs. The window closes when they have ended."
    } else {
        if stay_ui(ui).clicked() {
            answer = Some(CloseCommand::Stay);
        }
        "The window closes when the plan is saved."
    };
    ui.colored_label(palette(ui.visuals()).warning, "⚠");
    ui.label(waits);
    commands.extend(answer.map(Command::Close));
}

/// Draws the question about active and queued runs; returns the button that keeps the window open.
fn runs_ui(ui: &mut Ui, desk: &Desk, answer: &mut Option<CloseCommand>) -> Response {
    title_ui(ui, &question(desk));
    let kept = what_is_kept(desk);
    ui.label(muted(ui, kept));
    ui.label(muted(ui, what_is_lost(desk)));
    if let Some(ends) = ends_at_logout().filter(|_| desk.queue.is_running() || !desk.queue.paused) {
        ui.colored_label(palette(ui.visuals()).warning, capitalised(ends));
    }
    ui.add_space(2.0 * GRID);
    let keep = match (desk.queue.paused, desk.queue.is_running()) {
        (true, false) => "Leave them queued and close",
        _ => "Keep running and close",
    };
    ui.horizontal_wrapped(|ui| {
        button_ui(ui, (keep, kept), CloseCommand::KeepRunning, answer);
        let cancel = ("Cancel runs and close", "Stops all runs, then closes the window");
        button_ui(ui, cancel, CloseCommand::CancelRuns, answer);
        stay_ui(ui)
    })
    .inner
}

/// Draws the question about unsaved edits; returns the button that keeps the window open.
fn edits_ui(ui: &mut Ui, unsaved: Option<&Unsaved>, answer: &mut Option<CloseCommand>) -> Response {
    let name = unsaved.map_or("", |unsaved| &unsaved.name);
    let refusal = unsaved.and_then(|unsaved| unsaved.refusal.as_deref());
    let can_be_saved = refusal.is_none();
    match refusal {
        None => title_ui(ui, &format!("The plan “{name}” has changes that are not saved.")),
        Some(refusal) => title_ui(ui, refusal),
    }
    ui.add_space(2.0 * GRID);
    ui.horizontal_wrapped(|ui| {
        if can_be_saved {
            let save = ("Save and close", "Saves the plan to its file, then closes");
            button_ui(ui, save, CloseCommand::Save, answer);
        }
        let lost = if can_be_saved { "The changes are lost" } else { "What was typed is lost" };
        button_ui(ui, ("Close without saving", lost), CloseCommand::DiscardEdits, answer);
        stay_ui(ui)
    })
    .inner
}
