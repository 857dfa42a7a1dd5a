//! The Live screen: curves of what runs now and of chosen runs, on one clock.

mod axis;
mod curves;
mod drawn;
mod kind;
mod list;
mod mark;
mod options;
mod plots;
mod readout;
mod scene;
mod store;
#[cfg(test)]
mod tests;
mod track;

use std::collections::HashMap;

use eframe::egui::{Align, CentralPanel, Context, Frame, Layout, Margin, Panel, Ui};

use super::engine::{LiveBatch, Records, RunCurves};
use super::theme::GRID;
use super::widgets::{main_button, muted};
use super::{Command, Request, Screen, State};

pub use curves::Curves;
pub use kind::{Kind, XAxis};
use scene::Scene;
use store::Shelf;

/// What can be asked for on the Live screen.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveCommand {
    /// Draw a run, or no longer.
    Choose(String, bool),
    /// Draw no run.
    ChooseNone,
    /// Show or hide a panel.
    Panel(Kind, bool),
    /// Put something else to the right.
    XAxis(XAxis),
    /// One curve for each GPU or rank, or one for the run.
    PerGpu(bool),
    /// Smooth so strongly, from 0 (not at all) to below 1.
    Smoothing(f32),
    /// Draw the loss on a logarithmic axis.
    LogLoss(bool),
    /// Keep the newest in view.
    Follow(bool),
    /// Look at this part of the horizontal axis.
    View(f64, f64),
    /// Look at everything.
    Reset,
    /// Put the cursor into the filter.
    FocusFilter,
    /// List only runs that this filter admits.
    Filter(String),
}

/// The Live screen.
pub struct LiveState {
    shelf: Shelf,
    /// Panels that are not to be seen.
    hidden: Vec<Kind>,
    x_axis: XAxis,
    per_gpu: bool,
    smoothing: f32,
    log_loss: bool,
    follow: bool,
    /// The part of the horizontal axis that was asked for; none is everything.
    view: Option<(f64, f64)>,
    filter: String,
    /// What tells runs of the session apart, by run.
    names: HashMap<String, String>,
}

impl Default for LiveState {
    fn default() -> Self {
        Self {
            shelf: Shelf::default(),
            hidden: vec![Kind::SmActivity],
            x_axis: XAxis::default(),
            per_gpu: false,
            smoothing: 0.0,
            log_loss: false,
            follow: true,
            view: None,
            filter: String::new(),
            names: HashMap::new(),
        }
    }
}

impl LiveState {
    /// Another session is open.
    pub fn session_changed(&mut self) {
        self.shelf = Shelf::default();
        (self.view, self.filter) = (None, String::new());
        self.names.clear();
    }

    /// The open session has other runs now.
    pub fn records_changed(&mut self, records: &Records) {
        self.names = list::names(records);
    }

    /// Whether all that is to be smoothed is.
    pub fn is_settled(&self) -> bool {
        self.shelf.is_smooth(self.smoothing)
    }

    /// Something arrived from a run.
    pub fn take(&mut self, batch: LiveBatch) {
        self.shelf.take(batch);
    }

    /// A run's curves were read.
    pub fn take_curves(&mut self, curves: RunCurves) {
        self.shelf.take_curves(curves);
    }
}

impl State {
    /// Does what was asked for on the Live screen.
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
            // A part of one axis means nothing on another.
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

    /// Asks for curves that are not there, and takes over what background work has done.
    pub fn poll_live(&mut self, context: &Context, requests: &mut Vec<Request>) {
        if let Some(session) = &self.session {
            let folder = &session.folder;
            requests.extend(self.live.shelf.ask(folder).map(|run| Request::Curves(folder.clone(), run)));
        }
        self.live.shelf.smooth(self.live.smoothing, context);
    }
}

/// Draws the Live screen.
pub fn live_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let mut asked = Vec::new();
    let side = Frame::new().inner_margin(Margin { left: 12, ..Margin::ZERO });
    let width = (ui.available_width() * 0.24).clamp(200.0, 340.0);
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
            ui.label(muted(ui, "Reading what was recorded …"));
            return;
        }
        ui.heading(if state.queue.is_running() { "No run is ticked" } else { "Nothing is running" });
        let listed = !list::listed(state).is_empty();
        let next = if listed { "Tick a run of the list, or launch a plan." } else { "Launch a plan to see it here." };
        ui.label(muted(ui, next));
        ui.add_space(2.0 * GRID);
        if main_button(ui, true, "Show Plan").clicked() {
            commands.push(Command::Show(Screen::Plan));
        }
    });
}
