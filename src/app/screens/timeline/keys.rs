//! Keys of the Timeline screen.

use eframe::egui::{Key, Modifiers};

use super::{Anchor, TimelineCommand, TimelineScreen, canvas};
use crate::app::screen::Keys;

/// The share of the view by which an arrow key moves it.
const PAN: f64 = 0.15;
/// The factor of one zoom step.
pub(super) const ZOOM: f64 = 1.5;

impl TimelineScreen {
    /// Sends the commands of the keys that were pressed.
    pub(super) fn take_keys(&self, keys: &mut Keys<'_>) {
        let centre = self.view.0 + (self.view.1 - self.view.0) / 2;
        let here = self.selected.and_then(|pick| Some(pick.event.item.span.0 - self.runs.get(pick.run)?.zero));
        let around = canvas::pointed(keys.context).or(here);
        let next_anchor = match self.anchor {
            Anchor::Start => Anchor::Epoch(1),
            Anchor::Epoch(_) => Anchor::Step(1),
            Anchor::Step(_) | Anchor::Event(_) => Anchor::Start,
        };
        let list = [
            (Key::Slash, TimelineCommand::FocusSearch),
            (Key::W, TimelineCommand::Zoom(ZOOM, around)),
            (Key::S, TimelineCommand::Zoom(1.0 / ZOOM, around)),
            (Key::A, TimelineCommand::Pan(-PAN)),
            (Key::D, TimelineCommand::Pan(PAN)),
            (Key::F, TimelineCommand::Fit),
            (Key::P, TimelineCommand::Figure),
            (Key::M, TimelineCommand::Mark(Some(here.unwrap_or(centre)))),
            (Key::G, TimelineCommand::Align(next_anchor)),
            (Key::X, TimelineCommand::AlignAtSelected),
            (Key::V, TimelineCommand::Arrange(self.arrangement.next())),
            (Key::E, TimelineCommand::Perfetto(self.row.map_or(0, |(run, _)| run))),
        ];
        list.into_iter().for_each(|(key, command)| keys.on(Modifiers::NONE, key, command));
        let group = self.row.and_then(|(place, row)| {
            let row = self.runs.get(place)?.timeline.rows().get(row)?;
            Some(TimelineCommand::Fold(place, Some(row.group.clone())))
        });
        group.into_iter().for_each(|fold| keys.on(Modifiers::NONE, Key::H, fold));
        // Arrows and Enter belong to a control that has the focus.
        if keys.has_arrows() {
            keys.on(Modifiers::NONE, Key::ArrowLeft, TimelineCommand::Step(false));
            keys.on(Modifiers::NONE, Key::ArrowRight, TimelineCommand::Step(true));
            keys.on(Modifiers::NONE, Key::ArrowUp, TimelineCommand::Row(-1));
            keys.on(Modifiers::NONE, Key::ArrowDown, TimelineCommand::Row(1));
            keys.on(Modifiers::NONE, Key::Enter, TimelineCommand::ShowSelected);
            keys.on(Modifiers::NONE, Key::Escape, TimelineCommand::Mark(None));
        }
    }
}
