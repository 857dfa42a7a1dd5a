//! The Compare screen: cells beside each other, as bars, curves and a table.

use std::sync::Arc;

use eframe::egui::{Context, Ui};

use super::engine::Records;
use super::{Command, Request, State};

/// What can be asked for on the Compare screen.
#[derive(Clone, Debug, PartialEq)]
pub enum CompareCommand {
    /// Put the cursor into the filter.
    FocusFilter,
    /// Take the next cell as the baseline.
    NextBaseline,
}

/// The Compare screen.
#[derive(Default)]
pub struct CompareState {}

impl CompareState {
    /// The open session has other runs now.
    pub fn records_changed(&mut self) {}

    /// Another session was read.
    pub fn take_other(&mut self, _records: Arc<Records>) {}
}

impl State {
    /// Does what was asked for on the Compare screen.
    pub fn execute_compare(&mut self, _command: CompareCommand, _context: &Context, _requests: &mut Vec<Request>) {}

    /// Takes over what background work has done.
    pub fn poll_compare(&mut self, _context: &Context, _requests: &mut Vec<Request>) {}
}

/// Draws the Compare screen.
pub fn compare_ui(ui: &mut Ui, _state: &State, _commands: &mut Vec<Command>) {
    ui.heading("Compare");
}
