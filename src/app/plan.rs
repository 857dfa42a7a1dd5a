//! The Plan screen: tick levels, see what would be launched, launch it.

use std::path::PathBuf;

use eframe::egui::{Context, Ui};

use super::{Command, Request, State};

/// What can be asked for on the Plan screen.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanCommand {
    /// Choose a plan file and open it.
    Open,
    /// Open this plan file.
    OpenFile(PathBuf),
    /// Save the plan; asks where, unless it came from a file.
    Save,
    /// Take back the last edit.
    Undo,
    /// Make it again.
    Redo,
    /// Launch what is ticked.
    Launch,
}

/// The Plan screen.
#[derive(Default)]
pub struct PlanState {}

impl PlanState {
    /// The machine is known, or another.
    pub fn node_changed(&mut self) {}
}

impl State {
    /// Does what was asked for on the Plan screen.
    pub fn execute_plan(&mut self, _command: PlanCommand, _context: &Context, _requests: &mut Vec<Request>) {}

    /// Takes over what background work has done.
    pub fn poll_plan(&mut self, _context: &Context, _requests: &mut Vec<Request>) {}
}

/// Draws the Plan screen.
pub fn plan_ui(ui: &mut Ui, _state: &State, _commands: &mut Vec<Command>) {
    ui.heading("Plan");
}
