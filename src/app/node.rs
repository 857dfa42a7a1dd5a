//! The Node screen: what this machine offers and what it does right now.

use eframe::egui::{Context, Ui};

use super::{Command, Request, State};
use crate::protocol::Sample;

/// What can be asked for on the Node screen.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeCommand {
    /// Look at the machine anew.
    LookAgain,
}

/// The Node screen.
#[derive(Default)]
pub struct NodeState {
    /// The latest sample of the whole machine.
    pub sample: Option<Sample>,
}

impl NodeState {
    /// The machine was looked at.
    pub fn node_changed(&mut self) {}

    /// A sample of the whole machine.
    pub fn take_sample(&mut self, sample: Sample) {
        self.sample = Some(sample);
    }
}

impl State {
    /// Does what was asked for on the Node screen.
    pub fn execute_node(&mut self, command: NodeCommand, _context: &Context, requests: &mut Vec<Request>) {
        match command {
            NodeCommand::LookAgain => requests.push(Request::LookAgain),
        }
    }

    /// Takes over what background work has done.
    pub fn poll_node(&mut self, _context: &Context, _requests: &mut Vec<Request>) {}
}

/// Draws the Node screen.
pub fn node_ui(ui: &mut Ui, _state: &State, _commands: &mut Vec<Command>) {
    ui.heading("Node");
}
