//! Keyboard shortcuts: each sends the command that a click would send.

use eframe::egui::{Context, Frame, Grid, Id, Key, Margin, Modal, Modifiers, ScrollArea};
use strum::IntoEnumIterator;

use super::theme::GRID;
use super::widgets::strong;
use crate::figure::Format;

use super::{
    Command, CompareCommand, FiguresCommand, LiveCommand, PlanCommand, RunsCommand, Screen, SessionsCommand, State,
};

/// Keys and what they do.
const HELP: &[(&str, &str)] = &[
    ("Ctrl Enter", "launch the plan (Plan)"),
    ("Ctrl P", "pause or resume the queue"),
    ("/", "filter runs or cells (Runs, Live, Compare, Figures)"),
    ("↑ ↓, Del, R", "select, cancel, retry a run (Runs)"),
    ("Alt ↑ ↓, Alt Home", "move a queued run, move it to the top (Runs)"),
    ("B", "next baseline (Compare)"),
    ("E", "copy the table (Compare), export (Figures, Timeline)"),
    ("W S, A D, F", "zoom, move, show all (Timeline)"),
    ("↑ ↓, ← →, Enter", "choose a row, step through its events, show the event (Timeline)"),
    ("M, G, P, /", "set a mark, align at another start, write the view as a figure, search (Timeline)"),
    ("Ctrl Z, Ctrl Y", "undo, redo an edit of the plan (Plan) or of what is shown (Compare); Ctrl Shift Z redoes, too"),
    ("Ctrl O, Ctrl S", "open, save a plan"),
    ("Ctrl L", "all sessions: search, notes, rename, archive, delete"),
    ("Ctrl K", "command palette"),
    ("Ctrl Q", "close the window"),
    ("Ctrl +, Ctrl -, Ctrl 0", "zoom in, zoom out, reset zoom"),
    ("Tab, Shift Tab, Enter", "move between controls, use one"),
    ("?, F1", "this list"),
    ("Esc", "close what is open"),
];

/// How long after the end of typing in a field single keys do nothing: what is still being typed is not a command.
const AFTER_TYPING_S: f64 = 1.0;

/// The digit that shows a screen: its place on the rail, from 1.
fn digit(screen: Screen) -> Option<Key> {
    let place = Screen::iter().position(|known| known == screen)?;
    Key::from_name(&(place + 1).to_string())
}

/// All keys and what they do.
fn help() -> impl Iterator<Item = (String, &'static str)> {
    let screens = (format!("1 – {}", Screen::iter().count()), "show a screen");
    std::iter::once(screens).chain(HELP.iter().map(|(keys, meaning)| ((*keys).to_owned(), *meaning)))
}

/// Sends the commands of the keys that were pressed.
pub fn commands(context: &Context, state: &State, commands: &mut Vec<Command>) {
    let dropped: Vec<_> =
        context.input(|input| input.raw.dropped_files.iter().map(|file| file.path().to_path_buf()).collect());
    if !dropped.is_empty() {
        commands.push(Command::Dropped(dropped));
    }
    let mut on = |modifiers: Modifiers, key: Key, command: Command| {
        if context.input_mut(|input| input.consume_key(modifiers, key)) {
            commands.push(command);
        }
    };
    on(Modifiers::COMMAND, Key::K, Command::Palette(!state.command_palette));
    // In a text field, undo belongs to the field; on another screen it would change what nobody sees.
    let history = match state.screen {
        Screen::Plan => Some((Command::Plan(PlanCommand::Undo), Command::Plan(PlanCommand::Redo))),
        Screen::Compare => Some((Command::Compare(CompareCommand::Undo), Command::Compare(CompareCommand::Redo))),
        _ => None,
    };
    if let Some((undo, redo)) = history.filter(|_| !context.text_edit_focused()) {
        on(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z, redo.clone());
        on(Modifiers::COMMAND, Key::Y, redo);
        on(Modifiers::COMMAND, Key::Z, undo);
    }
    on(Modifiers::COMMAND, Key::Q, Command::Quit);
    on(Modifiers::NONE, Key::F1, Command::Help(!state.help));
    let is_browsing = state.sessions.browser.is_open;
    on(Modifiers::COMMAND, Key::L, Command::Sessions(SessionsCommand::Browse(!is_browsing)));
    on(Modifiers::COMMAND, Key::O, Command::Plan(PlanCommand::Open));
    on(Modifiers::COMMAND, Key::S, Command::Plan(PlanCommand::Save));
    on(Modifiers::COMMAND, Key::Plus, Command::Zoom(1));
    on(Modifiers::COMMAND, Key::Equals, Command::Zoom(1));
    on(Modifiers::COMMAND, Key::Minus, Command::Zoom(-1));
    on(Modifiers::COMMAND, Key::Num0, Command::Zoom(0));
    if state.queue.is_active() {
        on(Modifiers::COMMAND, Key::P, Command::Runs(RunsCommand::Pause(!state.queue.paused)));
    }
    if state.command_palette || state.help {
        on(
            Modifiers::NONE,
            Key::Escape,
            if state.command_palette { Command::Palette(false) } else { Command::Help(false) },
        );
        return;
    }
    if is_browsing {
        on(Modifiers::NONE, Key::Escape, Command::Sessions(SessionsCommand::Browse(false)));
        return;
    }
    // In a text field Ctrl Enter ends the typing, so that a launch has what was typed in its plan.
    if context.text_edit_focused() {
        if context.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter)) {
            context.memory_mut(|memory| {
                if let Some(field) = memory.focused() {
                    memory.surrender_focus(field);
                }
            });
        }
    } else if state.screen == Screen::Plan {
        on(Modifiers::COMMAND, Key::Enter, Command::Plan(PlanCommand::Launch));
    }
    // Single keys belong to the text field.
    if is_typing(context) {
        return;
    }
    let digits = || Screen::iter().filter_map(|screen| Some((digit(screen)?, screen)));
    if context.input(|input| input.modifiers.is_none() && digits().any(|(key, _)| input.key_pressed(key))) {
        // What has the focus is out of sight then: the arrows are the new screen's.
        context.memory_mut(|memory| memory.focused().into_iter().for_each(|field| memory.surrender_focus(field)));
    }
    digits().for_each(|(key, screen)| on(Modifiers::NONE, key, Command::Show(screen)));
    on(Modifiers::SHIFT, Key::Slash, Command::Help(true));
    on(Modifiers::NONE, Key::Questionmark, Command::Help(true));
    match state.screen {
        Screen::Compare => {
            on(Modifiers::NONE, Key::B, Command::Compare(CompareCommand::NextBaseline));
            on(Modifiers::NONE, Key::E, Command::Compare(CompareCommand::Copy(Format::Markdown)));
            on(Modifiers::NONE, Key::Slash, Command::Compare(CompareCommand::FocusFilter));
        }
        Screen::Runs => {
            on(Modifiers::NONE, Key::Slash, Command::Runs(RunsCommand::FocusFilter));
        }
        Screen::Live => on(Modifiers::NONE, Key::Slash, Command::Live(LiveCommand::FocusFilter)),
        Screen::Figures => {
            on(Modifiers::NONE, Key::E, Command::Figures(FiguresCommand::Export));
            on(Modifiers::NONE, Key::Slash, Command::Figures(FiguresCommand::FocusFilter));
        }
        Screen::Timeline => super::timeline::keys(context, state, commands),
        Screen::Plan | Screen::Node => {}
    }
    if state.screen == Screen::Runs && context.memory(|memory| memory.focused().is_none()) {
        super::runs::keys(context, state, commands);
    }
}

/// Whether a text field has the focus, or had it a moment ago.
fn is_typing(context: &Context) -> bool {
    let id = Id::unique("time of typing");
    let now_s = context.input(|input| input.time);
    if context.text_edit_focused() {
        context.data_mut(|data| data.insert_temp(id, now_s));
        return true;
    }
    // A click or Esc says that the typing is over.
    if context.input(|input| input.pointer.any_pressed() || input.key_pressed(Key::Escape)) {
        context.data_mut(|data| data.remove::<f64>(id));
    }
    context.data(|data| data.get_temp::<f64>(id)).is_some_and(|typed_s| now_s - typed_s < AFTER_TYPING_S)
}

/// The list of keys, a line each.
pub fn describe() -> String {
    help().map(|(keys, meaning)| format!("{keys:<22}{meaning}\n")).collect()
}

/// Draws the list of keys.
pub fn help_ui(context: &Context, commands: &mut Vec<Command>) {
    let frame = Frame::popup(&context.global_style()).inner_margin(Margin::same((4.0 * GRID) as i8));
    // The heading, the button and what is left around them.
    let room = context.content_rect().height() - 30.0 * GRID;
    let modal = Modal::new(Id::unique("keys")).frame(frame).show(context, |ui| {
        ui.heading("Keys");
        // The box is in the middle, so that below its top there is less room than it may take.
        ScrollArea::vertical().max_height(room).min_scrolled_height(room).show(ui, |ui| {
            Grid::new("keys-grid").num_columns(2).spacing([6.0 * GRID, GRID]).show(ui, |ui| {
                for (keys, meaning) in help() {
                    ui.label(strong(keys));
                    ui.label(meaning);
                    ui.end_row();
                }
            });
        });
        ui.add_space(GRID);
        if ui.button("Close").clicked() {
            commands.push(Command::Help(false));
        }
    });
    if modal.should_close() {
        commands.push(Command::Help(false));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use eframe::egui::{Event, RawInput, TextEdit};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn single_keys_rest_for_a_moment_after_typing() {
        let (context, state, mut text) = (Context::default(), State::default(), String::new());
        let mut frame = |time_s: f64, is_typing: bool, key: Option<Key>| {
            let (physical_key, pressed, repeat, modifiers) = (None, true, false, Modifiers::NONE);
            let key = key.map(|key| Event::Key { key, physical_key, pressed, repeat, modifiers });
            let input = RawInput { time: Some(time_s), events: key.into_iter().collect(), ..RawInput::default() };
            let mut sent = Vec::new();
            let mut drawn = context.run_ui(input, |ui| {
                commands(ui.ctx(), &state, &mut sent);
                let field = ui.add(TextEdit::singleline(&mut text));
                if is_typing { field.request_focus() } else { field.surrender_focus() }
            });
            drawn.textures_delta.clear();
            sent
        };
        frame(0.0, true, None);
        assert_eq!(frame(0.1, true, Some(Key::Num2)), [], "the field has the focus");
        frame(0.2, false, None);
        assert_eq!(frame(0.3, false, Some(Key::Num2)), [], "it lost the focus a moment ago");
        assert_eq!(frame(2.0, false, Some(Key::Num2)), [Command::Show(Screen::Runs)]);
    }

    #[test]
    fn a_screen_that_a_digit_shows_has_the_arrows_at_once() {
        let (context, state) = (Context::default(), State::default());
        let mut sent = Vec::new();
        for key in [None, None, Some(Key::Num2)] {
            let (physical_key, pressed, repeat, modifiers) = (None, true, false, Modifiers::NONE);
            let key = key.map(|key| Event::Key { key, physical_key, pressed, repeat, modifiers });
            let input = RawInput { events: key.into_iter().collect(), ..RawInput::default() };
            let mut drawn = context.run_ui(input, |ui| {
                commands(ui.ctx(), &state, &mut sent);
                let button = ui.button("Bars");
                if sent.is_empty() {
                    button.request_focus();
                }
            });
            drawn.textures_delta.clear();
        }
        assert_eq!(sent, [Command::Show(Screen::Runs)]);
        assert_eq!(context.memory(|memory| memory.focused()), None);
    }

    #[test]
    fn edits_of_the_plan_are_undone_where_it_is_seen_alone() {
        let context = Context::default();
        let sent = |screen: Screen, key: Key| {
            let mut state = State::default();
            state.screen = screen;
            let (physical_key, pressed, repeat, modifiers) = (None, true, false, Modifiers::COMMAND);
            let events = vec![Event::Key { key, physical_key, pressed, repeat, modifiers }];
            let mut sent = Vec::new();
            let input = RawInput { events, ..RawInput::default() };
            let mut drawn = context.run_ui(input, |ui| commands(ui.ctx(), &state, &mut sent));
            drawn.textures_delta.clear();
            sent
        };
        assert_eq!(sent(Screen::Plan, Key::Z), [Command::Plan(PlanCommand::Undo)]);
        assert_eq!(sent(Screen::Plan, Key::Y), [Command::Plan(PlanCommand::Redo)]);
        assert_eq!(sent(Screen::Compare, Key::Z), [Command::Compare(CompareCommand::Undo)]);
        assert_eq!([sent(Screen::Figures, Key::Z), sent(Screen::Figures, Key::Y)], [[], []]);
    }

    /// A window of this size that shows the list of keys.
    fn list_of_keys(size: [f32; 2]) -> Harness<'static> {
        let mut has_fonts = false;
        let mut window = Harness::builder().with_size(size).build_ui(move |ui| {
            if std::mem::replace(&mut has_fonts, true) {
                help_ui(ui.ctx(), &mut Vec::new());
            } else {
                crate::app::install_theme(ui.ctx());
                ui.ctx().request_repaint();
            }
        });
        window.run();
        window
    }

    #[test]
    fn the_list_of_keys_fits_into_the_smallest_window() {
        let window = list_of_keys([800.0, 500.0]);
        let (title, close) = (window.get_by_label("Keys").rect(), window.get_by_label("Close").rect());
        assert!(title.top() > 8.0 && close.bottom() < 492.0, "{title:?} {close:?}");
    }

    #[test]
    fn the_list_of_keys_is_whole_where_there_is_room() {
        for size in [[1280.0, 800.0], [1000.0, 700.0]] {
            let window = list_of_keys(size);
            let (last, close) = (HELP[HELP.len() - 1].1, window.get_by_label("Close").rect());
            let last = window.get_by_label(last).rect();
            assert!(last.bottom() < close.top(), "{size:?}: {last:?} {close:?}");
        }
    }

    #[test]
    fn f1_opens_the_list_of_keys_and_closes_it() {
        let context = Context::default();
        for help in [false, true] {
            let mut state = State::default();
            state.help = help;
            let (physical_key, pressed, repeat, modifiers) = (None, true, false, Modifiers::NONE);
            let events = vec![Event::Key { key: Key::F1, physical_key, pressed, repeat, modifiers }];
            let mut sent = Vec::new();
            let input = RawInput { events, ..RawInput::default() };
            let mut drawn = context.run_ui(input, |ui| commands(ui.ctx(), &state, &mut sent));
            drawn.textures_delta.clear();
            assert_eq!(sent, [Command::Help(!help)]);
        }
    }

    #[test]
    fn each_screen_has_a_digit_of_its_own() {
        let digits: HashSet<Key> = Screen::iter().filter_map(digit).collect();
        assert_eq!(digits.len(), Screen::iter().count(), "more than nine screens need another kind of key");
        assert_eq!(digit(Screen::Plan), Some(Key::Num1));
    }
}
