//! Keyboard shortcuts: each sends the command that a click would send.

use eframe::egui::{Context, Event, Frame, Grid, Id, Key, Margin, Modal, Modifiers, Popup, ScrollArea};

use super::asking;
use super::command::{CloseCommand, Command, SessionsCommand};
use super::screen::{KeyHelp, Keys, Screen};
use super::theme::GRID;
use super::widgets::strong;
use super::window::Window;

/// Keys of the window with their meaning.
const HELP: KeyHelp = &[
    ("Ctrl P", "pause or resume the queue"),
    ("Ctrl L", "all sessions: search, notes, rename, archive, delete"),
    ("Ctrl K", "command palette"),
    ("Ctrl Q", "close the window"),
    ("Ctrl +, Ctrl -, Ctrl 0", "zoom in, zoom out, reset zoom"),
    ("Tab, Shift Tab, Enter", "move between controls, use the control"),
    ("?, F1", "this list"),
    ("Esc", "close the open menu or page"),
];

/// For this long after typing in a field, single keys are ignored, since they may still belong to the text.
const AFTER_TYPING_S: f64 = 1.0;

/// The keys with Ctrl that act on typed text: they launch the plan, save it, and close the window, which asks about unsaved edits.
const USE_TYPED_TEXT: [Key; 3] = [Key::Enter, Key::S, Key::Q];

/// The digit key for the screen at an index of the rail, from 0.
fn digit(place: usize) -> Option<Key> {
    Key::from_name(&(place + 1).to_string()).filter(|_| place < 9)
}

/// Sends the commands of the keys that were pressed.
pub fn commands(context: &Context, window: &Window, commands: &mut Vec<Command>) {
    let dropped: Vec<_> =
        context.input(|input| input.raw.dropped_files.iter().map(|file| file.path().to_path_buf()).collect());
    if !dropped.is_empty() {
        commands.push(Command::Dropped(dropped));
    }
    // A question takes all keys.
    if asking::is_asked(context) {
        return;
    }
    if !press_again(context) {
        end_typing(context);
    }
    let Window { desk, screens, command_palette, help, .. } = window;
    let is_browsing = window.sessions.browser.is_open;
    let is_mapping = window.sessions.mapping.is_some();
    let mut keys = Keys::new(context, *command_palette || *help || is_browsing || is_mapping, commands);
    keys.on(Modifiers::COMMAND, Key::K, Command::Palette(!command_palette));
    keys.on(Modifiers::COMMAND, Key::Q, Command::Quit);
    keys.on(Modifiers::NONE, Key::F1, Command::Help(!help));
    keys.on(Modifiers::COMMAND, Key::L, Command::Sessions(SessionsCommand::Browse(!is_browsing)));
    keys.on(Modifiers::COMMAND, Key::Plus, Command::Zoom(1));
    keys.on(Modifiers::COMMAND, Key::Equals, Command::Zoom(1));
    keys.on(Modifiers::COMMAND, Key::Minus, Command::Zoom(-1));
    keys.on(Modifiers::COMMAND, Key::Num0, Command::Zoom(0));
    if desk.queue.is_active() {
        keys.on(Modifiers::COMMAND, Key::P, Command::Pause(!desk.queue.paused));
    }
    screens.iter().for_each(|screen| screen.shortcuts(desk, &mut keys));
    if keys.is_covered {
        let is_on_top = is_browsing && !command_palette && !help && !context.text_edit_focused();
        if let Some(undo) = window.sessions.browser.undo().filter(|_| is_on_top) {
            keys.on(Modifiers::COMMAND, Key::Z, Command::Sessions(undo));
        }
        let close = match (command_palette, help) {
            (true, _) => Command::Palette(false),
            (_, true) => Command::Help(false),
            // The dialog takes Esc itself, since one of its lists may be open.
            _ if is_mapping => return,
            _ => Command::Sessions(SessionsCommand::Browse(false)),
        };
        return keys.on(Modifiers::NONE, Key::Escape, close);
    }
    // Single keys belong to the text field.
    if is_typing(context) {
        return;
    }
    // An open list or menu uses these keys, above all Esc.
    if Popup::is_any_open(context) {
        return;
    }
    if window.closing.is_shown() && keys.pressed(Modifiers::NONE, Key::Escape) {
        return keys.send(Command::Close(CloseCommand::Stay));
    }
    // The key is not consumed: what it closes on the screen is closed as well.
    if let Some((number, _)) = desk.notice.as_ref().filter(|_| context.input(|input| input.key_pressed(Key::Escape))) {
        keys.send(Command::DismissNotice(*number));
    }
    for (place, screen) in screens.iter().enumerate() {
        if digit(place).is_some_and(|key| keys.pressed(Modifiers::NONE, key)) {
            // The focused control disappears with its screen, so the arrow keys then belong to the new screen.
            context.memory_mut(|memory| memory.focused().into_iter().for_each(|field| memory.surrender_focus(field)));
            keys.send(Command::Show(screen.name()));
        }
    }
    keys.on(Modifiers::SHIFT, Key::Slash, Command::Help(true));
    keys.on(Modifiers::NONE, Key::Questionmark, Command::Help(true));
    if let Some(screen) = window.shown() {
        screen.keys(desk, &mut keys);
    }
}

/// The id under which the key is stored that is to be pressed again in the next frame.
fn again_id() -> Id {
    Id::unique("key after typing")
}

/// In a text field the keys of [`USE_TYPED_TEXT`] first end the typing: the field keeps its text in this frame, and the key counts in the
/// next one, so that its command uses the typed text.
fn end_typing(context: &Context) {
    if !context.text_edit_focused() {
        return;
    }
    let is_pressed = |key: &Key| context.input_mut(|input| input.consume_key(Modifiers::COMMAND, *key));
    if let Some(key) = USE_TYPED_TEXT.into_iter().find(is_pressed) {
        press_after_typing(context, key);
    }
}

/// Ends the typing, and presses the key in the next frame.
fn press_after_typing(context: &Context, key: Key) {
    context.memory_mut(|memory| memory.focused().into_iter().for_each(|field| memory.surrender_focus(field)));
    context.data_mut(|data| data.insert_temp(again_id(), Some(key)));
    context.request_repaint();
}

/// Whether the window must not close yet, because a text is being typed: the typing ends first, and then Ctrl Q counts.
pub(super) fn closes_after_typing(context: &Context) -> bool {
    // A question takes all keys.
    let is_typing = context.text_edit_focused() && !asking::is_asked(context);
    if is_typing {
        press_after_typing(context, Key::Q);
    }
    is_typing
}

/// Presses the key again that ended the typing in the frame before; returns whether there was one.
fn press_again(context: &Context) -> bool {
    let again: Option<Option<Key>> = context.data_mut(|data| data.remove_temp(again_id()));
    let Some(key) = again.flatten() else { return false };
    let modifiers = Modifiers::COMMAND;
    let event = Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
    context.input_mut(|input| input.events.push(event));
    true
}

/// Whether a text field has the focus, or had it a moment ago.
fn is_typing(context: &Context) -> bool {
    let id = Id::unique("time of typing");
    let now_s = context.input(|input| input.time);
    if context.text_edit_focused() {
        context.data_mut(|data| data.insert_temp(id, now_s));
        return true;
    }
    // A click or Esc ends the typing at once.
    if context.input(|input| input.pointer.any_pressed() || input.key_pressed(Key::Escape)) {
        context.data_mut(|data| data.remove::<f64>(id));
    }
    context.data(|data| data.get_temp::<f64>(id)).is_some_and(|typed_s| now_s - typed_s < AFTER_TYPING_S)
}

/// All keys of the window and of these screens, with their meaning.
pub fn help(screens: &[Box<dyn Screen>]) -> Vec<(String, &'static str)> {
    let rail = (format!("1 – {}", screens.len()), "show a screen");
    let own = screens.iter().flat_map(|screen| screen.key_help()).chain(HELP);
    std::iter::once(rail).chain(own.map(|(keys, meaning)| ((*keys).to_owned(), *meaning))).collect()
}

/// Draws the list of keys.
pub fn help_ui(context: &Context, screens: &[Box<dyn Screen>], commands: &mut Vec<Command>) {
    let frame = Frame::popup(&context.global_style()).inner_margin(Margin::same((4.0 * GRID) as i8));
    // The heading, the button and the margins around them.
    let room = context.content_rect().height() - 30.0 * GRID;
    let modal = Modal::new(Id::unique("keys")).frame(frame).show(context, |ui| {
        ui.heading("Keys");
        // The box is centred, so the room below its top is less than the height that it may take.
        ScrollArea::vertical().max_height(room).min_scrolled_height(room).show(ui, |ui| {
            // Room for the scroll bar.
            let beside_bar = Margin { right: (3.0 * GRID) as i8, ..Margin::ZERO };
            Frame::new().inner_margin(beside_bar).show(ui, |ui| {
                Grid::new("keys-grid").num_columns(2).spacing([6.0 * GRID, GRID]).show(ui, |ui| {
                    for (keys, meaning) in help(screens) {
                        ui.label(strong(keys));
                        ui.label(meaning);
                        ui.end_row();
                    }
                });
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

    use eframe::egui::{RawInput, TextEdit};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::app::command::ScreenName;
    use crate::app::desk::Notice;
    use crate::app::dressed::dressed;
    use crate::app::screens::screens;
    use crate::app::{CompareCommand, FiguresCommand, PlanCommand};

    #[test]
    fn single_keys_rest_for_a_moment_after_typing() {
        let (context, state, mut text) = (Context::default(), Window::default(), String::new());
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
        assert_eq!(frame(2.0, false, Some(Key::Num2)), [Command::Show(ScreenName::RUNS)]);
    }

    #[test]
    fn a_key_that_uses_typed_text_counts_once_the_typing_has_ended() {
        for (key, command) in [(Key::S, Command::from(PlanCommand::Save)), (Key::Q, Command::Quit)] {
            let (context, state, mut text) = (Context::default(), Window::default(), String::new());
            let mut frame = |key: Option<Key>, takes_focus: bool| {
                let (physical_key, pressed, repeat, modifiers) = (None, true, false, Modifiers::COMMAND);
                let key = key.map(|key| Event::Key { key, physical_key, pressed, repeat, modifiers });
                let input = RawInput { events: key.into_iter().collect(), ..RawInput::default() };
                let mut sent = Vec::new();
                let mut has_ended = false;
                let mut drawn = context.run_ui(input, |ui| {
                    commands(ui.ctx(), &state, &mut sent);
                    let field = ui.add(TextEdit::singleline(&mut text));
                    has_ended = field.lost_focus();
                    if takes_focus {
                        field.request_focus();
                    }
                });
                drawn.textures_delta.clear();
                (sent, has_ended)
            };
            frame(None, true);
            frame(None, true);
            assert_eq!(frame(Some(key), false), (Vec::new(), true), "{key:?}: the field takes over its text first");
            assert_eq!(frame(None, false).0, [command], "{key:?}");
            assert_eq!(frame(None, false).0, [], "{key:?} counts once");
        }
    }

    #[test]
    fn a_window_that_is_closed_while_a_text_is_typed_takes_over_the_text_first() {
        let (context, state, mut text) = (Context::default(), Window::default(), String::new());
        let mut frame = |takes_focus: bool| {
            let (mut sent, mut has_ended) = (Vec::new(), false);
            let mut drawn = context.run_ui(RawInput::default(), |ui| {
                commands(ui.ctx(), &state, &mut sent);
                let field = ui.add(TextEdit::singleline(&mut text));
                has_ended = field.lost_focus();
                if takes_focus {
                    field.request_focus();
                }
            });
            drawn.textures_delta.clear();
            (sent, has_ended)
        };
        assert!(!closes_after_typing(&context), "nothing is typed");
        frame(true);
        frame(true);
        assert!(closes_after_typing(&context));
        assert_eq!(frame(false), (vec![Command::Quit], true));
        assert!(!closes_after_typing(&context));
    }

    #[test]
    fn a_screen_that_a_digit_shows_has_the_arrows_at_once() {
        let (context, state) = (Context::default(), Window::default());
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
        assert_eq!(sent, [Command::Show(ScreenName::RUNS)]);
        assert_eq!(context.memory(|memory| memory.focused()), None);
    }

    #[test]
    fn edits_of_the_plan_are_undone_where_it_is_seen_alone() {
        let context = Context::default();
        let sent = |screen: ScreenName, key: Key| {
            let mut state = Window::default();
            state.desk.screen = screen;
            let (physical_key, pressed, repeat, modifiers) = (None, true, false, Modifiers::COMMAND);
            let events = vec![Event::Key { key, physical_key, pressed, repeat, modifiers }];
            let mut sent = Vec::new();
            let input = RawInput { events, ..RawInput::default() };
            let mut drawn = context.run_ui(input, |ui| commands(ui.ctx(), &state, &mut sent));
            drawn.textures_delta.clear();
            sent
        };
        assert_eq!(sent(ScreenName::PLAN, Key::Z), [Command::from(PlanCommand::Undo)]);
        assert_eq!(sent(ScreenName::PLAN, Key::Y), [Command::from(PlanCommand::Redo)]);
        assert_eq!(sent(ScreenName::COMPARE, Key::Z), [Command::from(CompareCommand::Undo)]);
        assert_eq!(sent(ScreenName::FIGURES, Key::Z), [Command::from(FiguresCommand::Undo)]);
        assert_eq!([sent(ScreenName::LIVE, Key::Z), sent(ScreenName::LIVE, Key::Y)], [[], []]);
    }

    #[test]
    fn esc_dismisses_a_notice() {
        let (context, mut state) = (Context::default(), Window::default());
        state.desk.say(Notice { text: "Copied".to_owned(), can_undo: false });
        let (physical_key, pressed, repeat, modifiers) = (None, true, false, Modifiers::NONE);
        let events = vec![Event::Key { key: Key::Escape, physical_key, pressed, repeat, modifiers }];
        let mut sent = Vec::new();
        let input = RawInput { events, ..RawInput::default() };
        let mut drawn = context.run_ui(input, |ui| commands(ui.ctx(), &state, &mut sent));
        drawn.textures_delta.clear();
        assert!(matches!(sent[..], [Command::DismissNotice(_)]), "{sent:?}");
    }

    /// A window of this size that shows the list of keys.
    fn list_of_keys(size: [f32; 2]) -> Harness<'static> {
        dressed(Harness::builder().with_size(size), (), |ui, ()| help_ui(ui.ctx(), &screens(), &mut Vec::new()))
    }

    #[test]
    fn the_list_of_keys_fits_into_the_smallest_window() {
        let window = list_of_keys([800.0, 500.0]);
        let (title, close) = (window.get_by_label("Keys").rect(), window.get_by_label("Close").rect());
        assert!(title.top() > 8.0 && close.bottom() < 492.0, "{title:?} {close:?}");
    }

    #[test]
    fn the_scroll_bar_of_the_list_of_keys_has_room_beside_the_texts() {
        let (window, screens) = (list_of_keys([1000.0, 500.0]), screens());
        let labels = help(&screens).into_iter().filter_map(|(_, meaning)| window.query_all_by_label(meaning).next());
        let right = labels.map(|label| label.rect().right()).fold(0.0, f32::max);
        let list = window.ctx.memory(|memory| memory.area_rect(Id::unique("keys"))).expect("the list of keys is drawn");
        assert!(right > list.center().x && right + (4.0 + 3.0) * GRID <= list.right() + 1.0, "{right} {list:?}");
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
            let state = Window { help, ..Window::default() };
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
        let digits: HashSet<Key> = (0..screens().len()).filter_map(digit).collect();
        assert_eq!(digits.len(), screens().len(), "more than nine screens need another kind of key");
        assert_eq!((digit(0), digit(9)), (Some(Key::Num1), None));
    }
}
