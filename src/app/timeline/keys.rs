//! Keys of the Timeline screen.

use eframe::egui::{Context, Key, Modifiers};

use super::{Anchor, TimelineCommand};
use crate::app::{Command, State};

/// Part of the view by which an arrow moves it.
const PAN: f64 = 0.15;
/// Factor of one zoom.
pub(super) const ZOOM: f64 = 1.5;

/// Sends the commands of the keys that were pressed.
pub fn keys(context: &Context, state: &State, commands: &mut Vec<Command>) {
    let timeline = &state.timeline;
    let centre = timeline.view.0 + (timeline.view.1 - timeline.view.0) / 2;
    let here = timeline.selected.and_then(|pick| Some(pick.found.item.span.0 - timeline.runs.get(pick.run)?.zero));
    let next_anchor = match timeline.anchor {
        Anchor::Start => Anchor::Epoch(1),
        Anchor::Epoch(_) => Anchor::Step(1),
        Anchor::Step(_) => Anchor::Start,
    };
    let list = [
        (Key::Slash, TimelineCommand::FocusSearch),
        (Key::W, TimelineCommand::Zoom(ZOOM, here)),
        (Key::S, TimelineCommand::Zoom(1.0 / ZOOM, here)),
        (Key::A, TimelineCommand::Pan(-PAN)),
        (Key::D, TimelineCommand::Pan(PAN)),
        (Key::F, TimelineCommand::Fit),
        (Key::P, TimelineCommand::Figure),
        (Key::M, TimelineCommand::Mark(Some(here.unwrap_or(centre)))),
        (Key::G, TimelineCommand::Align(next_anchor)),
        (Key::E, TimelineCommand::Perfetto(timeline.row.map_or(0, |(run, _)| run))),
    ];
    let mut on = |key: Key, command: TimelineCommand| {
        if context.input_mut(|input| input.consume_key(Modifiers::NONE, key)) {
            commands.push(Command::Timeline(command));
        }
    };
    list.into_iter().for_each(|(key, command)| on(key, command));
    // Arrows and Enter belong to a control that has the focus.
    if context.memory(|memory| memory.focused().is_none()) {
        on(Key::ArrowLeft, TimelineCommand::Step(false));
        on(Key::ArrowRight, TimelineCommand::Step(true));
        on(Key::ArrowUp, TimelineCommand::Row(-1));
        on(Key::ArrowDown, TimelineCommand::Row(1));
        on(Key::Enter, TimelineCommand::ShowSelected);
        on(Key::Escape, TimelineCommand::Mark(None));
    }
}
