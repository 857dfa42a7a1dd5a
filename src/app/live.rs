//! The Live screen: curves of what runs now and of chosen runs, on one clock.

use eframe::egui::{Context, Ui};

use super::engine::{LiveBatch, RunCurves};
use super::{Command, Request, State};

/// What can be asked for on the Live screen.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveCommand {}

/// The Live screen.
#[derive(Default)]
pub struct LiveState {}

impl LiveState {
    /// Another session is open.
    pub fn session_changed(&mut self) {}

    /// Something arrived from a run.
    pub fn take(&mut self, _batch: LiveBatch) {}

    /// A run's curves were read.
    pub fn take_curves(&mut self, _curves: RunCurves) {}
}

impl State {
    /// Does what was asked for on the Live screen.
    pub fn execute_live(&mut self, command: LiveCommand, _context: &Context, _requests: &mut Vec<Request>) {
        match command {}
    }
}

/// Draws the Live screen.
pub fn live_ui(ui: &mut Ui, _state: &State, _commands: &mut Vec<Command>) {
    ui.heading("Live");
}
