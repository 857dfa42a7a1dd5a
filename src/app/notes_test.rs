//! A screen that only this file and one line know: what the contract of [`super::screen`] asks of one, and gets for it.
#![allow(clippy::unwrap_used)]

use eframe::egui::{Context, Event, Key, Modifiers, RawInput, Ui};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::command::{Command, ScreenCommand, ScreenName};
use super::desk::{Desk, Intent, News};
use super::dressed::dressed;
use super::screen::{Executes, KeyHelp, Keys, Screen};
use super::screens::screens;
use super::{Settings, UiEvent, Window, keys, shell_ui};

/// What can be asked of the screen.
#[derive(Clone, Debug, PartialEq)]
enum NotesCommand {
    /// Adds a line.
    Add(String),
}

impl ScreenCommand for NotesCommand {
    const SCREEN: ScreenName = ScreenName("Notes");
}

/// Lines that somebody wrote down.
#[derive(Default)]
struct NotesScreen {
    lines: Vec<String>,
}

impl Executes for NotesScreen {
    type Command = NotesCommand;

    fn execute(&mut self, command: NotesCommand, desk: &mut Desk, _context: &Context) {
        match command {
            NotesCommand::Add(line) if line.is_empty() => {
                desk.problem(desk.screen, "an empty line is no note".to_owned());
            }
            NotesCommand::Add(line) => self.lines.push(line),
        }
    }
}

impl Screen for NotesScreen {
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>) {
        ui.heading(format!("{} notes beside {} runs", self.lines.len(), desk.records.runs.len()));
        if ui.button("Note the time").clicked() {
            commands.push(NotesCommand::Add("noon".to_owned()).into());
        }
    }

    fn receive_news(&mut self, news: News, _desk: &mut Desk) {
        if news == News::Session {
            self.lines.clear();
        }
    }

    fn receive_request(&mut self, intent: Intent, _desk: &mut Desk, _context: &Context) {
        if let Intent::Open(path) = intent {
            self.lines.push(path.display().to_string());
        }
    }

    fn keys(&self, _desk: &Desk, keys: &mut Keys<'_>) {
        keys.on(Modifiers::NONE, Key::N, NotesCommand::Add("by key".to_owned()));
    }

    fn key_help(&self) -> KeyHelp {
        &[("N", "note something (Notes)")]
    }

    fn badge(&self, _desk: &Desk) -> String {
        format!("  {}", self.lines.len())
    }
}

/// The window's screens, and this one: the line that a new screen takes.
fn window() -> Window {
    let mut screens = screens();
    screens.push(Box::<NotesScreen>::default());
    Window::with_screens(Settings::default(), screens)
}

fn lines(window: &Window) -> &[String] {
    &window.own::<NotesScreen>().lines
}

/// The commands of a key.
fn pressed(window: &Window, key: Key) -> Vec<Command> {
    let (physical_key, pressed, repeat, modifiers) = (None, true, false, Modifiers::NONE);
    let events = vec![Event::Key { key, physical_key, pressed, repeat, modifiers }];
    let mut sent = Vec::new();
    let input = RawInput { events, ..RawInput::default() };
    let mut drawn = Context::default().run_ui(input, |ui| keys::commands(ui.ctx(), window, &mut sent));
    drawn.textures_delta.clear();
    sent
}

#[test]
fn a_screen_of_its_own_file_is_on_the_rail_and_has_a_digit_keys_and_help() {
    let mut window = window();
    assert_eq!(pressed(&window, Key::N), [], "another screen is shown");
    let [show] = &pressed(&window, Key::Num8)[..] else { panic!("the digit of the eighth screen does nothing") };
    window.execute(show.clone(), &Context::default());
    assert_eq!(window.desk.screen, ScreenName("Notes"));
    for command in pressed(&window, Key::N) {
        window.execute(command, &Context::default());
    }
    assert_eq!(lines(&window), ["by key"]);
    assert!(keys::help(&window.screens).contains(&("N".to_owned(), "note something (Notes)")));
}

#[test]
fn a_click_on_the_new_screen_is_executed_by_it_alone() {
    let draw = |ui: &mut Ui, window: &mut Window| {
        let mut commands = Vec::new();
        shell_ui(ui, window, &mut commands);
        commands.into_iter().for_each(|command| window.execute(command, ui.ctx()));
    };
    let mut harness = dressed(Harness::builder().with_size([1000.0, 700.0]), window(), draw);
    harness.get_by_label("Notes").click();
    harness.run();
    harness.get_by_label("Note the time").click();
    harness.run();
    harness.get_by_label("1 notes beside 0 runs");
    assert_eq!(lines(harness.state()), ["noon"]);
}

#[test]
fn a_message_of_the_new_screen_goes_once_its_command_succeeds() {
    let (mut window, context) = (window(), Context::default());
    window.execute(Command::Show(ScreenName("Notes")), &context);
    window.execute(NotesCommand::Add(String::new()).into(), &context);
    assert_eq!(window.desk.problems[0].screen, ScreenName("Notes"));
    window.execute(NotesCommand::Add("a".to_owned()).into(), &context);
    assert!(window.desk.problems.is_empty());
}

#[test]
fn the_new_screen_is_asked_by_others_and_told_what_happened() {
    let (mut window, context) = (window(), Context::default());
    window.desk.goto(ScreenName("Notes"), Intent::Open("/a".into()));
    window.poll(&context);
    assert_eq!((lines(&window), window.desk.screen), (&["/a".to_owned()][..], ScreenName("Notes")));
    window.take(UiEvent::Session { folder: "/sessions/study".into(), read_only: None });
    assert!(lines(&window).is_empty());
}
