//! A grid of cards that wraps with the width; cards of one row have equal heights.

use eframe::egui::{Id, Ui};

use crate::app::theme::GRID;
use crate::app::widgets::card;

/// Least width of a card.
const LEAST_WIDTH: f32 = 248.0;
const GAP: f32 = 2.0 * GRID;
/// Margins and borders on both sides of a card.
const FRAME: f32 = 2.0 * (3.0 * GRID + 1.0);

/// Draws `count` cards; `name` identifies the grid.
pub(super) fn grid_ui(ui: &mut Ui, name: &str, count: usize, mut draw: impl FnMut(&mut Ui, usize)) {
    let width = ui.available_width();
    let columns = (((width + GAP) / (LEAST_WIDTH + GAP)) as usize).clamp(1, count.max(1));
    let card_width = ((width - GAP * (columns - 1) as f32) / columns as f32).floor();
    for first in (0..count).step_by(columns) {
        let height_id = Id::unique(("height of cards", name, first, columns));
        let known: f32 = ui.data(|data| data.get_temp(height_id)).unwrap_or_default();
        let mut highest: f32 = 0.0;
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = GAP;
            for index in first..count.min(first + columns) {
                card(ui).show(ui, |ui| {
                    ui.vertical(|ui| {
                        ui.spacing_mut().item_spacing.x = 2.0 * GRID;
                        ui.set_width(card_width - FRAME);
                        draw(ui, index);
                        let height = ui.min_rect().height();
                        highest = highest.max(height);
                        if known > height {
                            ui.add_space(known - height - ui.spacing().item_spacing.y);
                            ui.allocate_space([0.0, 0.0].into());
                        }
                    });
                });
            }
        });
        ui.add_space(GAP - ui.spacing().item_spacing.y);
        if (highest - known).abs() > 0.5 {
            ui.data_mut(|data| data.insert_temp(height_id, highest));
            ui.request_discard("the height of the cards is known now");
            // A pass can be discarded once per frame; later changes are drawn in the next one.
            ui.request_repaint();
        }
    }
}
