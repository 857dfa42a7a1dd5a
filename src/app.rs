//! The window: plan, launch, watch and compare runs.
//!
//! ```text
//! attachment (to a conductor) ─┐                    ┌─▶ State::take ─▶ State
//! librarian (reads sessions)  ─┴─▶ UiEvent ──▶ logic()                │
//!          ▲                                        ▲                   ▼
//!          └──────────── Request ◀── State::execute ◀── Command ◀── ui(&State)
//! ```
//!
//! Drawing reads [`State`] and returns [`Command`]s; menus, keys, the command palette and tests send the same ones.
//! Nothing here blocks: slow work runs on the engine's threads, which wake the window when there is news.

mod as_command;
mod closing;
mod columns;
mod command;
mod command_palette;
mod compare;
mod curves;
mod data_export;
mod engine;
mod figures;
mod keys;
mod listing;
mod live;
mod node;
mod open_error;
mod pace;
mod plan;
mod runs;
mod sample;
mod screen;
mod sessions;
mod settings;
mod shell;
#[cfg(test)]
mod snapshots;
mod state;
mod theme;
mod ticks;
mod timeline;
mod widgets;

use std::path::PathBuf;
use std::sync::Arc;

pub use command::{CloseCommand, Command};
pub use compare::CompareCommand;
pub use curves::{Curves, LiveStep};
pub use engine::{LiveBatch, Records, Request, RunCurves, UiEvent};
pub use figures::FiguresCommand;
pub use keys::describe as describe_keys;
pub use live::{LiveCommand, live_ui};
pub use node::NodeCommand;
pub use open_error::OpenError;
pub use plan::PlanCommand;
pub use runs::RunsCommand;
pub use screen::Screen;
pub use sessions::SessionsCommand;
pub use settings::{Settings, Theme};
pub use shell::shell_ui;
pub use state::State;
pub use theme::install as install_theme;
pub use timeline::{TimelineCommand, timeline_ui};

use engine::Engine;
use pace::Pace;

/// The program's name, as in the title of a window without a session.
pub(crate) const NAME: &str = "multicard";

/// The window's content: its state and the engine that works for it.
pub struct App {
    state: State,
    engine: Engine,
    pace: Arc<Pace>,
    /// Commands sent while drawing; executed before the next frame.
    commands: Vec<Command>,
    /// The title of the window.
    title: String,
}

impl App {
    /// The content of a window of `context`. Opens `session`, or the last open session if none is given.
    pub fn new(context: &eframe::egui::Context, settings: Settings, session: Option<PathBuf>) -> Self {
        theme::install(context);
        let pace = Arc::new(Pace::new());
        let (waker, waking) = (context.clone(), Arc::clone(&pace));
        let engine = Engine::start(move || waker.request_repaint_after(waking.wait()));
        let mut app = Self { state: State::new(settings), engine, pace, commands: Vec::new(), title: NAME.to_owned() };
        let last = app.state.settings.last_session().map(PathBuf::from);
        if let Some(folder) = session.or(last) {
            app.send(Command::OpenSession(folder));
        } else if app.state.settings.shows_sample() {
            app.send(Command::Sessions(SessionsCommand::OpenSample));
        }
        app.state.settings.apply(context);
        app
    }

    /// The window's state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Sends a command, as a click would.
    pub fn send(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// Takes over the engine's events and executes the commands.
    fn logic(&mut self, context: &eframe::egui::Context) {
        self.pace.frame(context.input(|input| !input.events.is_empty()));
        for event in self.engine.events() {
            self.state.take(event);
        }
        let mut requests = Vec::new();
        for command in std::mem::take(&mut self.commands) {
            self.state.execute(command, context, &mut requests);
        }
        if context.input(|input| input.viewport().close_requested()) {
            self.state.close_requested(context);
        }
        if let Some(points) = context.input(|input| input.viewport().monitor_size) {
            self.state.settings.on_monitor(points * context.pixels_per_point(), context);
        }
        self.state.poll(context, &mut requests);
        self.state.watch_node(self.pace.is_at_rest(), &mut requests);
        let title = self.state.window_title();
        if title != self.title {
            context.send_viewport_cmd(eframe::egui::ViewportCommand::Title(title.clone()));
            self.title = title;
        }
        for request in requests {
            self.engine.ask(request);
        }
    }
}

impl eframe::App for App {
    fn logic(&mut self, context: &eframe::egui::Context, _frame: &mut eframe::Frame) {
        self.logic(context);
    }

    fn ui(&mut self, ui: &mut eframe::egui::Ui, _frame: &mut eframe::Frame) {
        keys::commands(ui.ctx(), &self.state, &mut self.commands);
        shell_ui(ui, &self.state, &mut self.commands);
        if !self.commands.is_empty() {
            ui.ctx().request_repaint();
        }
    }

    fn on_exit(&mut self, _gl: Option<&eframe::glow::Context>) {
        self.state.settings.save();
        self.state.sessions.browser.forget_deleted();
    }
}

/// Opens the window, which begins with these commands, and returns when it is closed.
pub fn open(session: Option<PathBuf>, first: Vec<Command>) -> Result<(), OpenError> {
    use eframe::egui::ViewportBuilder;
    let (settings, unreadable) = Settings::load();
    let viewport = ViewportBuilder::default()
        .with_title(NAME)
        .with_app_id("multicard")
        .with_inner_size(settings.window_size())
        .with_min_inner_size([800.0, 500.0])
        .with_drag_and_drop(true);
    let options = eframe::NativeOptions { viewport, ..Default::default() };
    let content = move |context: &eframe::CreationContext| -> Result<Box<dyn eframe::App>, _> {
        let mut app = App::new(&context.egui_ctx, settings, session);
        first.into_iter().for_each(|command| app.send(command));
        if let Some(message) = unreadable {
            app.state.problem(Screen::Plan, message);
        }
        Ok(Box::new(app))
    };
    Ok(eframe::run_native("multicard", options, Box::new(content))?)
}
