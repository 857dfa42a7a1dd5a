//! The Live screen: curves of running and chosen runs on one time axis.

mod axis;
mod drawn;
mod list;
mod looks;
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

use eframe::egui::{Align, CentralPanel, Context, Frame, Key, Layout, Margin, Modifiers, Panel, Ui};

use crate::app::command::{Command, ScreenName};
use crate::app::command_line::of_session;
use crate::app::desk::{Desk, Looks, News};
use crate::app::engine::{Request, UiEvent};
use crate::app::screen::{self, Executes, Keys, Screen};
use crate::app::theme::GRID;
use crate::app::widgets::{main_button, muted};
use crate::figure::{LineLooks, Study};

use scene::Scene;
pub use state::{LiveCommand, LiveScreen};
use store::Shelf;

/// The data that the screen is drawn from.
type View<'a> = screen::View<'a, LiveScreen>;

impl LiveScreen {
    /// Whether smoothing is complete.
    pub fn is_settled(&self) -> bool {
        self.shelf.is_smooth(self.smoothing)
    }

    /// Takes over in which order and in which colours Compare shows the levels of the session's runs.
    fn take_looks(&mut self, desk: &Desk) {
        let Looks { order, colours, colour, .. } = desk.looks.clone();
        let study = Study { order, colours, colour, ..Study::default() };
        self.lines = LineLooks::new(&study, &desk.records.listing.settings);
    }
}

impl Executes for LiveScreen {
    type Command = LiveCommand;

    fn execute(&mut self, command: LiveCommand, _desk: &mut Desk, context: &Context) {
        match command {
            LiveCommand::Choose(run, chosen) => self.shelf.choose(&run, chosen),
            LiveCommand::ChooseNone => self.shelf.choose_none(),
            LiveCommand::Panel(kind, shown) => {
                self.hidden.retain(|hidden| *hidden != kind);
                if !shown {
                    self.hidden.push(kind);
                }
            }
            // A range of one axis is meaningless on another axis.
            LiveCommand::XAxis(axis) => (self.x_axis, self.view) = (axis, None),
            LiveCommand::PerGpu(per_gpu) => self.per_gpu = per_gpu,
            LiveCommand::Smoothing(factor) if factor.is_finite() => self.smoothing = factor.clamp(0.0, 0.999),
            LiveCommand::Smoothing(_) => {}
            LiveCommand::LogLoss(log) => self.log_loss = log,
            LiveCommand::Follow(follow) => self.follow = follow,
            LiveCommand::View(from, to) => {
                if from.is_finite() && to.is_finite() && to - from > 1e-6 {
                    self.view = Some((from, to));
                }
            }
            LiveCommand::Reset => self.view = None,
            LiveCommand::FocusFilter => context.memory_mut(|memory| memory.request_focus(list::filter_id())),
            LiveCommand::Filter(filter) => self.filter = filter,
        }
    }
}

impl Screen for LiveScreen {
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>) {
        live_ui(ui, View { own: self, desk }, commands);
    }

    /// Requests missing curves and takes over the results of background work.
    fn poll(&mut self, desk: &mut Desk, context: &Context) {
        if let Some(folder) = desk.session.as_ref().map(|session| session.folder.clone()) {
            if desk.screen == ScreenName::LIVE {
                self.shelf.offer(|| list::latest(&desk.runs.rows));
            }
            for run in self.shelf.ask(&folder) {
                desk.ask(Request::Curves(folder.clone(), run));
            }
        }
        self.shelf.smooth(self.smoothing, context);
    }

    fn receive_news(&mut self, news: News, desk: &mut Desk) {
        if matches!(news, News::Session | News::Records | News::Looks) {
            self.take_looks(desk);
        }
        match news {
            News::Session => {
                self.shelf = Shelf::default();
                (self.view, self.filter) = (None, String::new());
            }
            // The user's choice stays.
            News::SessionAgain => self.shelf.read_anew(),
            News::Records => self.step = Arc::clone(&desk.records.listing.step),
            _ => {}
        }
    }

    fn take(&mut self, event: UiEvent) -> Option<UiEvent> {
        match event {
            UiEvent::Live(batch) => self.shelf.take(batch),
            UiEvent::Curves(curves) => self.shelf.take_curves(*curves),
            other => return Some(other),
        }
        None
    }

    fn keys(&self, _desk: &Desk, keys: &mut Keys<'_>) {
        keys.on(Modifiers::NONE, Key::Slash, LiveCommand::FocusFilter);
    }

    /// The command that follows the queue and its curves: attaching to the session.
    fn command_line(&self, desk: &Desk) -> Result<String, String> {
        of_session(desk, if desk.queue.is_active() { "attach" } else { "session show" }, &[])
    }

    fn badge(&self, desk: &Desk) -> String {
        if desk.queue.is_running() { "  ●".to_owned() } else { String::new() }
    }
}

/// Draws the Live screen.
fn live_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let mut asked = Vec::new();
    let side = Frame::new().inner_margin(Margin { left: 12, ..Margin::ZERO });
    let width = (ui.available_width() * 0.24).clamp(200.0, 460.0);
    Panel::right("live-runs").frame(side).resizable(false).show_separator_line(false).exact_size(width).show(
        ui,
        |ui| {
            list::list_ui(ui, view, &mut asked);
        },
    );
    let scene = Scene::new(view);
    CentralPanel::default().frame(Frame::new()).show(ui, |ui| {
        options::options_ui(ui, view, &mut asked);
        ui.add_space(GRID);
        if scene.runs.is_empty() {
            empty_ui(ui, view, commands);
        } else {
            readout::readout_ui(ui, view, &scene);
            plots::plots_ui(ui, view, &scene, &mut asked);
        }
    });
    commands.extend(asked.into_iter().map(Command::from));
}

fn empty_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.add_space(ui.available_height() * 0.3);
    ui.with_layout(Layout::top_down(Align::Center), |ui| {
        if view.own.shelf.chosen().next().is_some() {
            ui.label(muted(ui, why_no_curves(view)));
            return;
        }
        if view.is_reading_session() {
            ui.heading("Reading the session …");
            return;
        }
        let listed = !list::listed(view).is_empty();
        ui.heading(if listed { "No run is ticked" } else { "Nothing has run yet" });
        let next = if listed {
            "Tick runs in the list to see their curves, or launch a plan."
        } else {
            "Launch a plan: losses, step times and telemetry of its runs appear here while they go on."
        };
        ui.label(muted(ui, next));
        ui.add_space(2.0 * GRID);
        if main_button(ui, true, "Show Plan").clicked() {
            commands.push(Command::Show(ScreenName::PLAN));
        }
    });
}

/// Why no curve of the ticked runs is shown.
fn why_no_curves(view: View<'_>) -> &'static str {
    let shelf = &view.own.shelf;
    if shelf.chosen().any(|chosen| shelf.is_reading(&chosen.run)) {
        return "Reading the recorded curves …";
    }
    if shelf.chosen().all(|chosen| view.runs.row(&chosen.run).is_some_and(|row| row.is_imported)) {
        return "Imported runs have no curves. The Compare screen shows their results.";
    }
    "The ticked runs have no curves: no step and no sample of them was recorded."
}
