//! The command palette: every command by name, filtered by typing.

use eframe::egui::{Align2, Context, Id, Key, Modal, Modifiers, ScrollArea};
use strum::IntoEnumIterator;

use super::plan::STARTING_PLANS;
use super::widgets::{fields_on_cards, text_field};
use super::{
    Command, CompareCommand, FiguresCommand, NodeCommand, PlanCommand, RunsCommand, Screen, SessionsCommand, State,
    Theme, TimelineCommand,
};
use crate::figure::Format;
use crate::plan::Tracer;

/// All available commands, with their names.
fn entries(state: &State) -> Vec<(String, Command)> {
    let mut entries: Vec<(String, Command)> = Vec::new();
    let mut add = |name: &str, command: Command| entries.push((name.to_owned(), command));
    for screen in Screen::iter() {
        add(&format!("Show {}", screen.name()), Command::Show(screen));
    }
    add("Launch the plan", Command::Plan(PlanCommand::Launch));
    add("Open a plan …", Command::Plan(PlanCommand::Open));
    add("Open a recording …", Command::Timeline(TimelineCommand::Choose));
    add("Save the plan …", Command::Plan(PlanCommand::Save));
    for start in STARTING_PLANS {
        add(&format!("Open the starting plan {}", start.name), Command::Plan(PlanCommand::Start(start.name)));
    }
    for path in &state.settings.recent_plans {
        add(&format!("Open plan {}", path.display()), Command::Plan(PlanCommand::OpenFile(path.clone())));
    }
    for tracer in Tracer::ALL {
        let is_ticked = state.plan.plan().tracing.has(tracer);
        let name = format!("{} trace {} in the plan", if is_ticked { "Untick" } else { "Tick" }, tracer.name());
        add(&name, Command::Plan(PlanCommand::ToggleTracer(tracer)));
    }
    add("Undo the last plan edit", Command::Plan(PlanCommand::Undo));
    add("Redo the plan edit", Command::Plan(PlanCommand::Redo));
    add("Copy as command", Command::CopyCommand);
    if state.screen == Screen::Figures {
        add("Export the figure", Command::Figures(FiguresCommand::Export));
        add("Copy the methods paragraph", Command::Figures(FiguresCommand::CopyMethods));
    } else {
        add("Export a figure: show Figures", Command::Show(Screen::Figures));
    }
    if state.screen == Screen::Compare {
        for (name, format) in [("Markdown", Format::Markdown), ("CSV", Format::Csv), ("LaTeX", Format::Latex)] {
            add(&format!("Copy the table as {name}"), Command::Compare(CompareCommand::Copy(format)));
        }
        add("Undo the last change of what is shown", Command::Compare(CompareCommand::Undo));
        add("Redo the change of what is shown", Command::Compare(CompareCommand::Redo));
        add("Make the next cell the baseline", Command::Compare(CompareCommand::NextBaseline));
    }
    if state.queue.is_active() {
        let name = if state.queue.paused { "Resume the queue" } else { "Pause the queue" };
        add(name, Command::Runs(RunsCommand::Pause(!state.queue.paused)));
        add("Cancel all runs", Command::Runs(RunsCommand::CancelAll));
    }
    if state.queue.is_measuring() {
        add("Cancel measuring rates", Command::Node(NodeCommand::CancelMeasuring));
    } else {
        add("Measure rates of the machine", Command::Node(NodeCommand::MeasureRates));
    }
    for theme in Theme::iter() {
        add(theme.name(), Command::Theme(theme));
    }
    add("Zoom in", Command::Zoom(1));
    add("Zoom out", Command::Zoom(-1));
    add("Reset zoom", Command::Zoom(0));
    add("Keys", Command::Help(true));
    add("Close the window", Command::Quit);
    add("All sessions …", Command::Sessions(SessionsCommand::Browse(true)));
    add("Open the sample session", Command::Sessions(SessionsCommand::OpenSample));
    for folder in &state.settings.recent {
        add(&format!("Open session {}", folder.display()), Command::OpenSession(folder.clone()));
    }
    entries
}

/// Whether a name contains all words of the query.
fn matches(name: &str, query: &str) -> bool {
    let name = name.to_lowercase();
    query.to_lowercase().split_whitespace().all(|word| name.contains(word))
}

/// Draws the command palette.
pub fn command_palette_ui(context: &Context, state: &State, commands: &mut Vec<Command>) {
    let (query_id, chosen_id) = (Id::unique("palette-query"), Id::unique("palette-chosen"));
    // The query is local state, kept in egui's memory.
    let mut query: String = context.data(|data| data.get_temp(query_id)).unwrap_or_default();
    let mut chosen: usize = context.data(|data| data.get_temp(chosen_id)).unwrap_or_default();
    let found: Vec<_> = entries(state).into_iter().filter(|(name, _)| matches(name, &query)).collect();
    let pressed = |key| context.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    if pressed(Key::ArrowDown) {
        chosen += 1;
    }
    if pressed(Key::ArrowUp) {
        chosen = chosen.saturating_sub(1);
    }
    chosen = chosen.min(found.len().saturating_sub(1));
    let mut picked = if pressed(Key::Enter) { Some(chosen) } else { None };
    let area = Modal::default_area(Id::unique("palette")).anchor(Align2::CENTER_TOP, [0.0, 80.0]);
    let modal = Modal::new(Id::unique("palette")).area(area).show(context, |ui| {
        ui.set_width(440.0);
        fields_on_cards(ui);
        let field = text_field(&mut query, "What do you want to do?", f32::INFINITY);
        let response = ui.add(field);
        response.request_focus();
        if response.changed() {
            chosen = 0;
        }
        ScrollArea::vertical().max_height(320.0).show(ui, |ui| {
            for (index, (name, _)) in found.iter().enumerate() {
                let row = ui.selectable_label(index == chosen, name);
                if index == chosen {
                    row.scroll_to_me(None);
                }
                if row.clicked() {
                    picked = Some(index);
                }
            }
            if found.is_empty() {
                ui.weak("No matching command");
            }
        });
    });
    let done = picked.and_then(|index| found.into_iter().nth(index));
    let close = done.is_some() || modal.should_close();
    if let Some((_, command)) = done {
        commands.push(command);
    }
    if close {
        commands.push(Command::Palette(false));
        (query, chosen) = (String::new(), 0);
    }
    context.data_mut(|data| {
        data.insert_temp(query_id, query);
        data.insert_temp(chosen_id, chosen);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Settings;

    #[test]
    fn exports_copies_and_plans_are_found_by_their_names() {
        let mut state = State::new(Settings::default());
        state.settings.recent_plans.push("/a/mine.toml".into());
        let found = |state: &State, query: &str| -> Vec<Command> {
            entries(state).into_iter().filter(|(name, _)| matches(name, query)).map(|(_, command)| command).collect()
        };
        assert_eq!(found(&state, "export"), [Command::Show(Screen::Figures)]);
        assert_eq!(found(&state, "plan strategies"), [Command::Plan(PlanCommand::Start("strategies"))]);
        assert_eq!(found(&state, "mine.toml"), [Command::Plan(PlanCommand::OpenFile("/a/mine.toml".into()))]);
        let built_in = Command::Plan(PlanCommand::ToggleTracer(Tracer::BuiltIn));
        assert_eq!(found(&state, "tick trace built-in"), [built_in]);
        state.screen = Screen::Figures;
        assert_eq!(found(&state, "export"), [Command::Figures(FiguresCommand::Export)]);
        state.screen = Screen::Compare;
        assert_eq!(found(&state, "copy latex"), [Command::Compare(CompareCommand::Copy(Format::Latex))]);
    }
}
