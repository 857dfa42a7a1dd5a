//! The command palette: every command by name, filtered by typing.

use eframe::egui::{Align2, Context, Id, Key, Modal, Modifiers, ScrollArea};
use strum::IntoEnumIterator;

use super::command::{Command, SessionsCommand};
use super::sessions::{EXPORT_FIELD, MENU_FIELDS};
use super::settings::Theme;
use super::widgets::{opens, text_field};
use super::window::Window;

/// All available commands, with their names.
fn entries(window: &Window) -> Vec<(String, Command)> {
    let Window { desk, screens, .. } = window;
    let show = screens.iter().map(|screen| screen.name());
    let mut entries: Vec<(String, Command)> =
        show.map(|screen| (format!("Show {}", screen.name()), Command::Show(screen))).collect();
    entries.extend(screens.iter().flat_map(|screen| screen.palette(desk)));
    let mut add = |name: &str, command: Command| entries.push((name.to_owned(), command));
    add("Copy as command", Command::CopyCommand);
    // In a session that is only read, nothing is undone.
    let can_order = desk.locked().is_none();
    if let Some(what) = desk.history.next_undo().filter(|_| can_order) {
        add(&format!("Undo: {what}"), Command::Undo);
    }
    if let Some(what) = desk.history.next_redo().filter(|_| can_order) {
        add(&format!("Do again: {what}"), Command::Redo);
    }
    // Also while nothing runs: runs that are launched later then wait.
    let name = if desk.queue.paused { "Resume the queue" } else { "Pause the queue" };
    add(name, Command::Pause(!desk.queue.paused));
    for theme in Theme::iter() {
        add(theme.name(), Command::Theme(theme));
    }
    add("Zoom in", Command::Zoom(1));
    add("Zoom out", Command::Zoom(-1));
    add("Reset zoom", Command::Zoom(0));
    add("Keys", Command::Help(true));
    add("Close the window", Command::Quit);
    add("All sessions …", Command::Sessions(SessionsCommand::Browse(true)));
    for (name, field) in MENU_FIELDS {
        if field != EXPORT_FIELD || desk.session.is_some() {
            add(name, Command::Sessions(SessionsCommand::Menu(field)));
        }
    }
    add("Open the sample session", Command::Sessions(SessionsCommand::OpenSample));
    for folder in &desk.settings.recent {
        add(&format!("Open session {}", folder.display()), Command::Sessions(SessionsCommand::Open(folder.clone())));
    }
    entries
}

/// Whether a name contains all words of the query.
fn matches(name: &str, query: &str) -> bool {
    let name = name.to_lowercase();
    query.to_lowercase().split_whitespace().all(|word| name.contains(word))
}

/// Height of the list of commands in points, unless it has fewer.
const LIST: f32 = 320.0;

/// Draws the command palette.
pub fn command_palette_ui(context: &Context, window: &Window, commands: &mut Vec<Command>) {
    let (query_id, chosen_id) = (Id::unique("palette-query"), Id::unique("palette-chosen"));
    // The text of the search is stored in egui's memory.
    let mut query: String = context.data(|data| data.get_temp(query_id)).unwrap_or_default();
    let mut chosen: usize = context.data(|data| data.get_temp(chosen_id)).unwrap_or_default();
    if opens(context, query_id) {
        (query, chosen) = (String::new(), 0);
    }
    let chosen_before = chosen;
    // The field would take these keys.
    let pressed = |key| context.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    let (is_down, is_up, is_entered) = (pressed(Key::ArrowDown), pressed(Key::ArrowUp), pressed(Key::Enter));
    let (mut matching, mut picked) = (Vec::new(), None);
    let area = Modal::default_area(Id::unique("palette")).anchor(Align2::CENTER_TOP, [0.0, 80.0]);
    let modal = Modal::new(Id::unique("palette")).area(area).show(context, |ui| {
        ui.set_width(440.0);
        let field = text_field(&mut query, "What do you want to do?", f32::INFINITY);
        let response = ui.add(field);
        response.request_focus();
        if response.changed() {
            chosen = 0;
        }
        // Letters may arrive in the same frame as Enter: the field has added them to the query.
        matching = entries(window).into_iter().filter(|(name, _)| matches(name, &query)).collect();
        if is_down {
            chosen += 1;
        }
        if is_up {
            chosen = chosen.saturating_sub(1);
        }
        chosen = chosen.min(matching.len().saturating_sub(1));
        picked = is_entered.then_some(chosen);
        // Without a least height, the list would never be higher than that of the query before.
        ScrollArea::vertical().max_height(LIST).min_scrolled_height(LIST).show(ui, |ui| {
            for (index, (name, _)) in matching.iter().enumerate() {
                let row = ui.selectable_label(index == chosen, name);
                if index == chosen && chosen != chosen_before {
                    row.scroll_to_me(None);
                }
                if row.clicked() {
                    picked = Some(index);
                }
            }
            if matching.is_empty() {
                ui.weak("No matching command");
            }
        });
    });
    let done = picked.and_then(|index| matching.into_iter().nth(index));
    let close = done.is_some() || modal.should_close();
    if let Some((_, command)) = done {
        commands.push(command);
    }
    if close {
        commands.push(Command::Palette(false));
    }
    context.data_mut(|data| {
        data.insert_temp(query_id, query);
        data.insert_temp(chosen_id, chosen);
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use eframe::egui::{Event, Ui};
    use egui_kittest::Harness;

    use super::*;
    use crate::app::command::ScreenName;
    use crate::app::desk::{Deed, Inverse, OpenSession};
    use crate::app::dressed::{dressed, type_at_once};
    use crate::app::engine::Request;
    use crate::app::keys;
    use crate::app::{CompareCommand, FiguresCommand, PlanCommand, PlanScreen};
    use crate::conduct::Order;
    use crate::figure::{Form, Format, preset};
    use crate::plan::Tracer;

    #[test]
    fn pausing_and_all_that_the_session_menu_offers_are_found_by_their_names() {
        let state = Window::default();
        let names = |query: &str| -> Vec<String> {
            entries(&state).into_iter().map(|(name, _)| name).filter(|name| matches(name, query)).collect()
        };
        assert_eq!(names("pause"), ["Pause the queue"]);
        let sessions = names("sess");
        for name in ["New session …", "Open a session …", "Import session …", "All sessions …"] {
            assert!(sessions.iter().any(|known| known == name), "{name}: {sessions:?}");
        }
        assert!(names("export session").is_empty(), "no session is open");
    }

    #[test]
    fn a_recent_session_is_opened_and_never_created_in_its_place() {
        let mut state = Window::default();
        state.desk.settings.recent.push("/a/batch study".into());
        let (_, open) = entries(&state).into_iter().find(|(name, _)| matches(name, "open batch study")).unwrap();
        state.execute(open, &Context::default());
        assert_eq!(state.desk.take_requests(), [Request::OpenExisting("/a/batch study".into())]);
    }

    #[test]
    fn each_opening_begins_without_a_query_and_the_list_grows_again_after_a_query_of_few_commands() {
        let draw = |ui: &mut Ui, window: &mut Window| {
            let mut commands = Vec::new();
            keys::commands(ui.ctx(), window, &mut commands);
            if window.command_palette {
                command_palette_ui(ui.ctx(), window, &mut commands);
            }
            commands.into_iter().for_each(|command| window.execute(command, ui.ctx()));
        };
        let mut harness = dressed(Harness::builder().with_size([1000.0, 700.0]), Window::default(), draw);
        let press = |harness: &mut Harness<'_, Window>, modifiers, key| {
            harness.key_press_modifiers(modifiers, key);
            harness.run();
        };
        let type_text = |harness: &mut Harness<'_, Window>, text: &str| {
            harness.event(Event::Text(text.to_owned()));
            harness.run();
        };
        let height = |harness: &Harness<'_, Window>| {
            harness.ctx.memory(|memory| memory.area_rect(Id::unique("palette"))).unwrap().height()
        };
        press(&mut harness, Modifiers::COMMAND, Key::K);
        let full = height(&harness);
        assert!(full > LIST);
        type_text(&mut harness, "zoom in");
        assert!(height(&harness) < full / 2.0, "{}", height(&harness));
        for _ in 0.."zoom in".len() {
            press(&mut harness, Modifiers::NONE, Key::Backspace);
        }
        assert_eq!(height(&harness), full);
        for close in [(Modifiers::NONE, Key::Escape), (Modifiers::COMMAND, Key::K)] {
            type_text(&mut harness, "zoom in");
            assert!(height(&harness) < full / 2.0);
            press(&mut harness, close.0, close.1);
            assert!(!harness.state().command_palette);
            press(&mut harness, Modifiers::COMMAND, Key::K);
            assert_eq!(height(&harness), full, "{close:?}");
        }
    }

    #[test]
    fn enter_executes_what_matches_letters_of_the_same_frame() {
        let draw = |ui: &mut Ui, commands: &mut Vec<Command>| {
            command_palette_ui(ui.ctx(), &Window::default(), commands);
        };
        let mut harness = dressed(Harness::builder().with_size([1000.0, 700.0]), Vec::new(), draw);
        harness.run();
        type_at_once(&mut harness, "pause");
        let paused = entries(&Window::default()).into_iter().find(|(name, _)| matches(name, "pause"));
        assert_eq!(harness.state().first(), paused.map(|(_, command)| command).as_ref());
    }

    #[test]
    fn exports_copies_and_plans_are_found_by_their_names() {
        let mut state = Window::default();
        state.desk.settings.recent_plans.push("/a/mine.toml".into());
        let commands_for = |state: &Window, query: &str| -> Vec<Command> {
            entries(state).into_iter().filter(|(name, _)| matches(name, query)).map(|(_, command)| command).collect()
        };
        assert_eq!(commands_for(&state, "export"), [Command::Show(ScreenName::FIGURES)]);
        assert_eq!(commands_for(&state, "plan strategies"), [Command::from(PlanCommand::Start("strategies"))]);
        assert_eq!(commands_for(&state, "mine.toml"), [Command::from(PlanCommand::OpenFile("/a/mine.toml".into()))]);
        let built_in = {
            let mut plan = state.own::<PlanScreen>().plan().clone();
            plan.toggle(Tracer::BuiltIn);
            Command::from(PlanCommand::Edit(Box::new(plan), None))
        };
        assert!(commands_for(&state, "tick trace built-in").contains(&built_in));
        state.desk.screen = ScreenName::FIGURES;
        assert_eq!(commands_for(&state, "export"), [Command::from(FiguresCommand::Export)]);
        state.desk.screen = ScreenName::COMPARE;
        assert_eq!(commands_for(&state, "copy latex"), [Command::from(CompareCommand::Copy(Format::Latex))]);
    }

    #[test]
    fn undo_is_offered_only_where_there_is_something_to_undo() {
        let (mut state, context) = (Window::default(), Context::default());
        let offered = |state: &Window, query: &str| entries(state).iter().any(|(name, _)| matches(name, query));
        for screen in [ScreenName::PLAN, ScreenName::COMPARE, ScreenName::FIGURES] {
            state.desk.screen = screen;
            assert!(!offered(&state, "undo") && !offered(&state, "redo"), "{screen:?}");
        }
        let mut plan = state.own::<PlanScreen>().plan().clone();
        plan.toggle(Tracer::BuiltIn);
        let scaling = || Box::new(preset("scaling").unwrap());
        let edit = Command::from(PlanCommand::Edit(Box::new(plan), None));
        for (edit, undo, words) in [
            (edit, Command::from(PlanCommand::Undo), "plan edit"),
            (CompareCommand::Study(scaling()).into(), CompareCommand::Undo.into(), "what is shown"),
            (FiguresCommand::Study(scaling()).into(), FiguresCommand::Undo.into(), "the figure"),
        ] {
            state.desk.screen = if words == "the figure" { ScreenName::FIGURES } else { ScreenName::COMPARE };
            state.execute(edit, &context);
            let offers = |state: &Window| ["undo", "redo"].map(|verb| offered(state, &format!("{verb} {words}")));
            assert_eq!(offers(&state), [true, false], "{words}");
            state.execute(undo, &context);
            assert_eq!(offers(&state), [false, true], "{words}");
        }
    }

    #[test]
    fn an_action_on_a_session_that_is_only_read_by_now_is_not_offered_to_be_undone() {
        let mut state = Window::default();
        state.desk.session = Some(OpenSession { folder: "/a/session".into(), read_only: None });
        let (orders, inverse) = (vec![Order::Pause(true)], vec![Inverse::Order(Order::Pause(false))]);
        state.desk.order_to_undo(Deed { what: "The queue was paused".to_owned(), orders, inverse });
        let is_offered = |state: &Window| entries(state).iter().any(|(name, _)| matches(name, "undo queue paused"));
        assert!(is_offered(&state));
        state.desk.session.as_mut().unwrap().read_only = Some("its conductor has ended".to_owned());
        assert!(!is_offered(&state));
    }

    #[test]
    fn views_of_compare_are_found_on_every_screen_and_go_there() {
        let mut state = Window::default();
        let screens: Vec<ScreenName> = state.screens.iter().map(|screen| screen.name()).collect();
        let effects = Command::from(CompareCommand::Form(Form::Effects));
        let scaling = Command::from(CompareCommand::Study(Box::new(preset("scaling").unwrap())));
        let claims = Command::from(CompareCommand::Claims(true));
        for (query, view) in [("effects", effects), ("study scaling", scaling), ("claims", claims)] {
            for screen in &screens {
                state.desk.screen = *screen;
                let found =
                    entries(&state).into_iter().find(|(name, command)| matches(name, query) && *command == view);
                let (_, command) = found.unwrap_or_else(|| panic!("{query} on {screen:?}"));
                state.execute(command, &Context::default());
                assert_eq!(state.desk.screen, ScreenName::COMPARE, "{query} on {screen:?}");
            }
        }
    }
}
