//! The Runs screen: the queue, all runs, one run's page; and the session they are in.

use eframe::egui::{Context, Ui};

use super::engine::RunPage;
use super::{Command, Request, State};

/// What can be asked for on the Runs screen.
#[derive(Clone, Debug, PartialEq)]
pub enum RunsCommand {
    /// Let no further run start, or let them start again.
    Pause(bool),
    /// End all runs.
    CancelAll,
    /// Put the cursor into the filter.
    FocusFilter,
}

/// The Runs screen.
#[derive(Default)]
pub struct RunsState {}

impl RunsState {
    /// A plan was queued.
    pub fn launched(&mut self, _queued: usize, _kept: usize, _invalid: usize) {}

    /// A run's page was read.
    pub fn take_page(&mut self, _page: RunPage) {}
}

impl State {
    /// Does what was asked for on the Runs screen.
    pub fn execute_runs(&mut self, command: RunsCommand, _context: &Context, requests: &mut Vec<Request>) {
        match command {
            RunsCommand::Pause(pause) => requests.push(Request::Pause(pause)),
            RunsCommand::CancelAll => requests.push(Request::CancelAll),
            RunsCommand::FocusFilter => {}
        }
    }
}

/// The session's name, and what can be done with sessions.
pub fn session_menu_ui(ui: &mut Ui, state: &State, _commands: &mut Vec<Command>) {
    ui.label(state.session.as_ref().map_or("no session yet".to_owned(), |session| session.name()));
}

/// Draws the Runs screen.
pub fn runs_ui(ui: &mut Ui, _state: &State, _commands: &mut Vec<Command>) {
    ui.heading("Runs");
}
