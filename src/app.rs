//! The window: plan, launch, watch and compare runs.
//!
//! ```text
//! attachment (to a conductor) ─┐                    ┌─▶ Window::take ─▶ Desk, News ─▶ screens
//! librarian (reads sessions)  ─┴─▶ UiEvent ──▶ logic()                                   │
//!          ▲                                        ▲                                    ▼
//!          └──────────── Request ◀─ Desk ◀─ Window::execute ◀── Command ◀── ui(&screen, &Desk)
//! ```
//!
//! Each [`Screen`] is drawn from itself and from the [`Desk`], which all screens share, and answers with [`Command`]s. Menus, keys, the
//! command palette and tests send the same commands. A screen knows no other screen. Nothing here blocks: slow work runs on the engine's
//! threads, which wake the window when there is news.

mod allowing;
mod asking;
mod canvas;
mod cell_table;
mod closing;
mod columns;
mod command;
mod command_line;
mod command_palette;
mod curves;
mod deliberate;
mod desk;
#[cfg(test)]
mod dressed;
mod engine;
mod history;
mod keys;
mod listing;
mod look;
mod monitor;
#[cfg(test)]
mod notes_test;
mod notices;
mod open_error;
mod pace;
mod sample;
mod screen;
mod screens;
mod sessions;
mod settings;
mod shell;
#[cfg(test)]
mod snapshots;
mod study_list;
mod task;
mod theme;
mod ticks;
mod value_text;
mod widgets;
mod window;
mod words;

use std::path::PathBuf;
use std::sync::Arc;

pub use command::{CloseCommand, Command, Edits, ScreenCommand, ScreenName, SessionsCommand};
pub use curves::{Curves, LiveStep};
pub use desk::{Desk, News, OpenSession, Row};
pub use engine::{LiveBatch, Records, Request, RunCurves, UiEvent};
pub use open_error::OpenError;
pub use screen::{Executes, Screen};
pub use screens::{
    CompareCommand, CompareScreen, FiguresCommand, FiguresScreen, LiveCommand, LiveScreen, NodeCommand, NodeScreen,
    PlanCommand, PlanScreen, RunsCommand, RunsScreen, TimelineCommand, TimelineScreen,
};
pub use settings::{Settings, Theme};
pub use shell::shell_ui;
pub use theme::install as install_theme;
pub use window::Window;

use engine::Engine;
use pace::Pace;

/// The program's name, as in the title of a window without a session.
pub(crate) const NAME: &str = "multicard";

/// The window's content, and the engine behind it.
pub struct App {
    window: Window,
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
        let mut app =
            Self { window: Window::new(settings), engine, pace, commands: Vec::new(), title: NAME.to_owned() };
        let last = app.window.desk.settings.last_session().map(PathBuf::from);
        if let Some(folder) = session.or(last) {
            app.send(Command::OpenSession(folder));
        }
        let Window { desk, sessions, .. } = &mut app.window;
        desk.settings.apply(context);
        sessions.browser.restore_deleted(&desk.settings, context);
        app
    }

    /// The window.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Sends a command, as a click would.
    pub fn send(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// Takes over the engine's events and executes the commands.
    fn logic(&mut self, context: &eframe::egui::Context) {
        self.pace.frame(context.input(|input| !input.events.is_empty()));
        for event in self.engine.events() {
            self.window.take(event);
        }
        for command in std::mem::take(&mut self.commands) {
            self.window.execute(command, context);
        }
        if context.input(|input| input.viewport().close_requested()) {
            // The palette takes the focus again in each frame, and what is typed there changes nothing.
            if !self.window.command_palette && keys::closes_after_typing(context) {
                context.send_viewport_cmd(eframe::egui::ViewportCommand::CancelClose);
            } else {
                self.window.close_requested(context);
            }
        }
        if let Some(points) = context.input(|input| input.viewport().monitor_size) {
            self.window.desk.settings.on_monitor(points, context);
        }
        self.window.poll(context);
        self.window.watch_node(self.pace.is_at_rest());
        let title = self.window.title();
        if title != self.title {
            context.send_viewport_cmd(eframe::egui::ViewportCommand::Title(title.clone()));
            self.title = title;
        }
        for request in self.window.desk.take_requests() {
            self.engine.ask(request);
        }
    }
}

impl eframe::App for App {
    fn logic(&mut self, context: &eframe::egui::Context, _frame: &mut eframe::Frame) {
        self.logic(context);
    }

    fn ui(&mut self, ui: &mut eframe::egui::Ui, _frame: &mut eframe::Frame) {
        keys::commands(ui.ctx(), &self.window, &mut self.commands);
        shell_ui(ui, &self.window, &mut self.commands);
        theme::focus_ui(ui.ctx());
        if !self.commands.is_empty() {
            ui.ctx().request_repaint();
        }
    }

    fn on_exit(&mut self, _gl: Option<&eframe::glow::Context>) {
        self.window.desk.settings.save();
        self.window.sessions.browser.finish(&mut self.window.desk.settings);
        self.window.sessions.browser.forget_deleted();
    }
}

/// All keys of the window, one on each line.
pub fn describe_keys() -> String {
    keys::help(&screens::screens()).iter().map(|(keys, meaning)| format!("{keys:<24}{meaning}\n")).collect()
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
            app.window.desk.problem(ScreenName::PLAN, message);
        }
        Ok(Box::new(app))
    };
    Ok(eframe::run_native("multicard", options, Box::new(content))?)
}
