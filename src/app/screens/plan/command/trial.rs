//! A trial of the first cell, and the readings that it found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use eframe::egui::style::ScrollAnimation;
use eframe::egui::{Button, Context, Id, Label, Rect, RichText, ScrollArea, Ui};
use poll_promise::Promise;

use super::Form;
use crate::app::deliberate;
use crate::app::screens::plan::PlanCommand;
use crate::app::screens::plan::View;
use crate::app::task::on_thread;
use crate::app::theme::{SMALL, palette};
use crate::app::widgets::muted;
use crate::plan::Plan;
use crate::session::{Machine, Trial, try_once};

/// Most seconds that a trial takes.
const TRIAL_S: f64 = 10.0;
/// Height of the list of readings.
const READ_HEIGHT: f32 = 220.0;

/// The state of a trial of the first cell.
#[derive(Default)]
pub(super) enum Tried {
    /// No trial was made.
    #[default]
    Not,
    /// It is running.
    Running {
        /// The digest of its program.
        program: String,
        /// Requests its end.
        stop: Arc<AtomicBool>,
        /// Its future result.
        result: Promise<Result<Trial, String>>,
    },
    /// It has ended, with the digest of its program and its result.
    Done(String, Result<Trial, String>),
}

impl Form {
    /// Whether a trial is running.
    pub(in crate::app::screens::plan) fn is_trying(&self) -> bool {
        matches!(self.tried, Tried::Running { .. })
    }

    /// Starts a trial of a plan's first cell.
    pub(in crate::app::screens::plan) fn try_once(&mut self, plan: Plan, context: &Context) {
        let program = digest(&plan);
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let result = on_thread("trial", context, move || {
            try_once(&plan, TRIAL_S, Machine::look(), &asked).map_err(|error| error.to_string())
        });
        self.tried = Tried::Running { program, stop, result };
        self.trials += 1;
    }

    /// Ends the trial.
    pub(in crate::app::screens::plan) fn stop_trial(&self) {
        if let Tried::Running { stop, .. } = &self.tried {
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// Takes over the result of a trial that has ended.
    pub(in crate::app::screens::plan) fn poll_trial(&mut self) {
        if let Tried::Running { result, .. } = &self.tried
            && result.ready().is_some()
            && let Tried::Running { program, result, .. } = std::mem::take(&mut self.tried)
        {
            self.tried = Tried::Done(program, result.block_and_take());
        }
    }
}

/// The digest of the program of the plan's first cell and of the readings that are declared for it; empty for plans without a program.
fn digest(plan: &Plan) -> String {
    let command = plan.first.spec.command.as_ref();
    command.map_or(String::new(), |command| format!("{} {:?}", command.digest(), command.readings))
}

/// Draws the button, and the outcome of the last trial.
pub(super) fn trial_ui(ui: &mut Ui, view: View<'_>, asked: &mut Vec<PlanCommand>) {
    let refusal = view.trial_refusal();
    let tried = &view.own.program.tried;
    ui.horizontal_wrapped(|ui| match tried {
        Tried::Running { .. } => {
            if deliberate::clicked(&ui.button("Stop"), "stop the trial") {
                asked.push(PlanCommand::StopTrial);
            }
            ui.spinner();
            ui.label(muted(ui, format!("The first cell runs for at most {TRIAL_S} s")));
        }
        _ => {
            let button = ui.add_enabled(refusal.is_none(), Button::new("Try once"));
            let help = format!("Runs the first cell for at most {TRIAL_S} s. Nothing is recorded.");
            if button.on_hover_text(help).clicked() {
                asked.push(PlanCommand::TryOnce);
            }
            let note = refusal.unwrap_or_else(|| {
                format!("runs the first cell for at most {TRIAL_S} s and shows the readings that were found; nothing is recorded")
            });
            ui.label(muted(ui, note).size(SMALL));
        }
    });
    if let Tried::Done(program, outcome) = tried {
        // What another program did says nothing about this one.
        let is_of_this_program = *program == digest(view.own.plan());
        let place = ui.scope(|ui| match outcome {
            _ if !is_of_this_program => {
                ui.label(muted(ui, "The program has changed since it was tried.").size(SMALL));
            }
            Ok(trial) => outcome_ui(ui, trial),
            Err(error) => {
                ui.colored_label(palette(ui.visuals()).bad, RichText::new(error).size(SMALL));
            }
        });
        bring_into_view(ui, view.own.program.trials, place.response.rect);
    }
}

/// Scrolls to the outcome of a trial when it is drawn for the first time: it is often below the edge of the window. The focus stays where it
/// is.
fn bring_into_view(ui: &Ui, trial: u64, place: Rect) {
    let id = Id::unique("trial that was brought into view");
    let is_new = ui.data(|data| data.get_temp::<u64>(id)) != Some(trial);
    if is_new {
        ui.data_mut(|data| data.insert_temp(id, trial));
        ui.scroll_to_rect_animation(place, None, ScrollAnimation::none());
    }
}

/// Draws how a trial ended, what was read of its output, and what was not.
fn outcome_ui(ui: &mut Ui, trial: &Trial) {
    let end = trial.end.as_deref().unwrap_or("It was ended when its time was over.");
    ui.label(format!("{}. {end}", trial.summary()));
    for warning in &trial.warnings {
        ui.colored_label(palette(ui.visuals()).warning, RichText::new(warning).size(SMALL));
    }
    for untaken in &trial.untaken {
        ui.add(Label::new(RichText::new(untaken).size(SMALL)).wrap().selectable(true));
    }
    ScrollArea::vertical().id_salt("what a trial read").max_height(READ_HEIGHT).auto_shrink([false, true]).show(
        ui,
        |ui| {
            for (line, found) in &trial.read {
                ui.horizontal_wrapped(|ui| {
                    ui.label(RichText::new(line.trim()).monospace().size(SMALL));
                    ui.label(RichText::new(format!("→ {found}")).size(SMALL).color(palette(ui.visuals()).accent));
                });
            }
            if trial.read.is_empty() && !trial.output.is_empty() {
                ui.label(muted(ui, "No reading was found in its output. The last lines:").size(SMALL));
                for line in &trial.output {
                    ui.label(RichText::new(line).monospace().size(SMALL));
                }
            }
        },
    );
}
