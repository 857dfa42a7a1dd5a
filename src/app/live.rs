//! The Live screen: curves of running and chosen runs on one time axis.

mod axis;
mod drawn;
mod list;
mod names;
mod options;
mod plots;
mod readout;
mod scene;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use eframe::egui::{Align, CentralPanel, Context, Frame, Layout, Margin, Panel, Ui};

use super::engine::{LiveBatch, Records, RunCurves};
use super::theme::GRID;
use super::widgets::{main_button, muted};
use super::{Command, Request, Screen, State};

use scene::Scene;
pub use state::{LiveCommand, LiveState};
use store::Shelf;

impl LiveState {
    /// Another session was opened.
    pub fn session_changed(&mut self) {
        self.shelf = Shelf::default();
        (self.view, self.filter) = (None, String::new());
    }

    /// The session was opened again: what is chosen stays.
    pub fn session_opened_again(&mut self) {
        self.shelf.read_anew();
    }

    /// The records of the session changed.
    pub fn records_changed(&mut self, records: &Records) {
        self.step = Arc::clone(&records.listing.step);
    }

    /// Whether smoothing is complete.
    pub fn is_settled(&self) -> bool {
        self.shelf.is_smooth(self.smoothing)
    }

    /// Takes over new steps and samples.
    pub fn take(&mut self, batch: LiveBatch) {
        self.shelf.take(batch);
    }

    /// Takes over the curves of a run.
    pub fn take_curves(&mut self, curves: RunCurves) {
        self.shelf.take_curves(curves);
    }
}

impl State {
    /// Executes a command of the Live screen.
    pub fn execute_live(&mut self, command: LiveCommand, context: &Context, _requests: &mut Vec<Request>) {
        let live = &mut self.live;
        match command {
            LiveCommand::Choose(run, chosen) => live.shelf.choose(&run, chosen),
            LiveCommand::ChooseNone => live.shelf.choose_none(),
            LiveCommand::Panel(kind, shown) => {
                live.hidden.retain(|hidden| *hidden != kind);
                if !shown {
                    live.hidden.push(kind);
                }
            }
            // A range of one axis is meaningless on another.
            LiveCommand::XAxis(axis) => (live.x_axis, live.view) = (axis, None),
            LiveCommand::PerGpu(per_gpu) => live.per_gpu = per_gpu,
            LiveCommand::Smoothing(factor) if factor.is_finite() => live.smoothing = factor.clamp(0.0, 0.999),
            LiveCommand::Smoothing(_) => {}
            LiveCommand::LogLoss(log) => live.log_loss = log,
            LiveCommand::Follow(follow) => live.follow = follow,
            LiveCommand::View(from, to) => {
                if from.is_finite() && to.is_finite() && to - from > 1e-6 {
                    live.view = Some((from, to));
                }
            }
            LiveCommand::Reset => live.view = None,
            LiveCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(list::filter_id())),
            LiveCommand::Filter(filter) => live.filter = filter,
        }
    }

    /// Requests missing curves and takes over the results of background work.
    pub fn poll_live(&mut self, context: &Context, requests: &mut Vec<Request>) {
        if let Some(session) = &self.session {
            let folder = &session.folder;
            if self.screen == Screen::Live && !self.queue.is_running() {
                let offered = list::latest_of_cells(self.runs.rows());
                self.live.shelf.offer(offered.into_iter());
            }
            requests.extend(self.live.shelf.ask(folder).map(|run| Request::Curves(folder.clone(), run)));
        }
        self.live.shelf.smooth(self.live.smoothing, context);
    }
}

/// Draws the Live screen.
pub fn live_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let mut asked = Vec::new();
    let side = Frame::new().inner_margin(Margin { left: 12, ..Margin::ZERO });
    let width = (ui.available_width() * 0.24).clamp(200.0, 460.0);
    Panel::right("live-runs").frame(side).resizable(false).show_separator_line(false).exact_size(width).show(
        ui,
        |ui| {
            list::list_ui(ui, state, &mut asked);
        },
    );
    let scene = Scene::new(state);
    CentralPanel::default().frame(Frame::new()).show(ui, |ui| {
        options::options_ui(ui, state, &mut asked);
        ui.add_space(GRID);
        if scene.runs.is_empty() {
            empty_ui(ui, state, commands);
        } else {
            readout::readout_ui(ui, state, &scene);
            plots::plots_ui(ui, state, &scene, &mut asked);
        }
    });
    commands.extend(asked.into_iter().map(Command::Live));
}

fn empty_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.add_space(ui.available_height() * 0.3);
    ui.with_layout(Layout::top_down(Align::Center), |ui| {
        if state.live.shelf.chosen().next().is_some() {
            ui.label(muted(ui, "Reading the recorded curves …"));
            return;
        }
        if state.is_reading_session() {
            ui.heading("Reading the session …");
            return;
        }
        let listed = !list::listed(state).is_empty();
        ui.heading(if listed { "No run is ticked" } else { "Nothing has run yet" });
        let next = if listed {
            "Tick runs in the list to see their curves, or launch a plan."
        } else {
            "Launch a plan: losses, step times and telemetry of its runs appear here while they go on."
        };
        ui.label(muted(ui, next));
        ui.add_space(2.0 * GRID);
        if main_button(ui, true, "Show Plan").clicked() {
            commands.push(Command::Show(Screen::Plan));
        }
    });
}
