//! Which rows are folded: whole recordings, or single ranks. Remembered by file.

use eframe::egui::{Rect, Role, Sense, Ui, Vec2, WidgetInfo, collapsing_header, vec2};

use super::{Shown, TimelineScreen};
use crate::app::settings::Settings;
use crate::app::theme::SMALL;

impl TimelineScreen {
    /// Whether all rows of a recording are folded.
    pub(super) fn is_run_folded(&self, run: &Shown) -> bool {
        self.folds.get(&run.file).is_some_and(|folds| folds.whole)
    }

    /// Whether the rows of a rank are folded.
    pub(super) fn is_group_folded(&self, run: &Shown, group: &str) -> bool {
        self.folds.get(&run.file).is_some_and(|folds| folds.whole || folds.groups.contains(group))
    }

    /// Folds or unfolds a recording, or a rank of it.
    pub(super) fn fold(&mut self, place: usize, group: Option<String>) {
        let Some(run) = self.runs.get(place) else { return };
        let folds = self.folds.entry(run.file.clone()).or_default();
        match group {
            None => folds.whole = !folds.whole,
            Some(group) => {
                if !folds.groups.remove(&group) {
                    folds.groups.insert(group);
                }
            }
        }
    }

    /// Unfolds the parts that hide a row, so that an event found there becomes visible.
    pub(super) fn unfold(&mut self, place: usize, row: usize) {
        let Some(run) = self.runs.get(place) else { return };
        if let (Some(folds), Some(row)) = (self.folds.get_mut(&run.file), run.timeline.rows().get(row)) {
            folds.whole = false;
            folds.groups.remove(&row.group);
        }
    }

    /// Keeps what is folded for later windows.
    pub(super) fn keep_folds(&self, settings: &mut Settings) {
        for (file, folds) in self.runs.iter().filter_map(|run| self.folds.get_key_value(&run.file)) {
            settings.keep_folds(file, folds);
        }
    }
}

/// A triangle that points down where rows are shown, and right where they are folded; returns whether it was pressed.
pub(super) fn fold_ui(ui: &mut Ui, place: Rect, name: &str, is_folded: bool) -> bool {
    let inside = eframe::egui::UiBuilder::new().max_rect(place);
    let mut child = ui.new_child(inside);
    let response = child.allocate_response(place.size(), Sense::click());
    response.widget_info(|| {
        let action = if is_folded { "Unfold" } else { "Fold" };
        WidgetInfo::selected(Role::Button, true, !is_folded, format!("{action} {name}"))
    });
    let mut icon = response.clone();
    icon.rect = Rect::from_center_size(place.left_center() + vec2(SMALL / 2.0, 0.0), Vec2::splat(SMALL));
    collapsing_header::paint_default_icon(&mut child, if is_folded { 0.0 } else { 1.0 }, &icon);
    response.on_hover_text(if is_folded { "Show its rows (H)" } else { "Fold its rows away (H)" }).clicked()
}
