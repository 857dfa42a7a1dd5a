//! The order and the looks of the chosen runs: those that Compare gives their levels. Runs of one look differ in shade and marker.

use std::collections::HashMap;

use eframe::egui::{Color32, Painter, Rect, Stroke, Visuals, pos2};
use egui_plot::MarkerShape;

use super::View;
use super::store::{Chosen, place_in_session};
use crate::app::desk::Row;
use crate::app::listing::Entry;
use crate::app::look::{line_colour, marker_shape, paint_marker};
use crate::app::theme::{LINE_CONTRAST, at_contrast, least_contrast};
use crate::figure::{COLOURS, Look};

/// The look of a chosen run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLook {
    /// That of its level.
    pub look: Look,
    /// Its index among the chosen runs that have this look, too.
    pub variant: usize,
}

/// The contrast of the first of several GPUs or ranks, relative to the least contrast of lines.
const FIRST_OF_SEVERAL: f32 = 2.5;

/// The factor between the contrasts of runs of one look, and the number of their shades.
const SHADE: f32 = 1.6;
const SHADES: usize = 3;

impl RunLook {
    /// The colour. `part` is the index and the number of GPUs or ranks; later ones are paler, but stand out from the ground, too.
    pub fn colour(&self, visuals: &Visuals, part: (usize, usize)) -> Color32 {
        let own = line_colour(&self.look, visuals);
        let (place, count) = part;
        if count > 1 {
            let share = 1.0 - place as f32 / count as f32;
            return at_contrast(own, visuals, LINE_CONTRAST * FIRST_OF_SEVERAL.powf(share));
        }
        let shade = self.variant % SHADES;
        if shade == 0 {
            return own;
        }
        // Strong colours become paler, and weak ones stronger.
        let (contrast, factor) = (least_contrast(own, visuals), SHADE.powi(shade as i32));
        let wanted = if contrast > 2.0 * LINE_CONTRAST { contrast / factor } else { contrast * factor };
        at_contrast(own, visuals, wanted.max(LINE_CONTRAST))
    }

    /// The marker.
    pub fn marker(&self) -> MarkerShape {
        marker_shape(self.look.sign_of(self.variant).marker)
    }

    /// Draws a line sample with its marker, as in a legend.
    pub fn swatch(&self, painter: &Painter, rect: Rect, visuals: &Visuals) {
        let (centre, colour) = (rect.center(), self.colour(visuals, (0, 1)));
        painter.line_segment([pos2(rect.left(), centre.y), pos2(rect.right(), centre.y)], Stroke::new(1.5, colour));
        paint_marker(painter, centre, 4.0, self.look.sign_of(self.variant).marker, colour);
    }
}

/// Order in which runs take colours that stand for no level: yellow, which is weak on white, comes last.
const PLACES: [usize; COLOURS.len()] = [0, 1, 2, 4, 5, 6, 7, 3];

/// The look of a run whose colour stands for no level. When colours repeat, the marker changes.
fn look_of_slot(slot: usize) -> Look {
    Look::Place(PLACES[slot % PLACES.len()] + slot / PLACES.len() * PLACES.len())
}

/// The chosen runs with their looks, in the order of their levels, then in that of the queue.
pub fn chosen_looks(view: View<'_>) -> Vec<(&Chosen, RunLook)> {
    let (live, runs) = (view.own, &view.desk.runs);
    // The levels of a run are known once it is recorded.
    let row = |chosen: &Chosen| runs.row(&chosen.run).filter(|row| !row.workload.is_empty());
    let level = |row: Option<&Row>, key: &str| row.and_then(|row| Entry::level(row, key));
    let mut chosen: Vec<&Chosen> = live.shelf.chosen().collect();
    chosen.sort_by_cached_key(|chosen| {
        let row = row(chosen);
        let rank = live.lines.rank(|key| level(row, key));
        (row.is_none(), rank, place_in_session(&chosen.run), chosen.run.clone())
    });
    let mut counts: HashMap<Look, usize> = HashMap::new();
    let with_look = chosen.into_iter().map(|chosen| {
        let row = row(chosen);
        let of_level = live.lines.look(|key| level(row, key)).filter(|_| row.is_some());
        let look = of_level.unwrap_or_else(|| look_of_slot(chosen.slot));
        let count = counts.entry(look.clone()).or_default();
        *count += 1;
        (chosen, RunLook { look, variant: *count - 1 })
    });
    with_look.collect()
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Context, Theme};

    use super::*;
    use crate::app::theme::{contrast, grounds, install};

    #[test]
    fn curves_of_every_look_run_gpu_and_rank_stand_out_from_the_ground_and_those_of_one_look_differ() {
        let context = Context::default();
        install(&context);
        for theme in [Theme::Light, Theme::Dark] {
            let visuals = context.style_of(theme).visuals.clone();
            for look in (0..COLOURS.len()).map(Look::Place).chain([Look::Grey]) {
                let colour = |variant, part| RunLook { look: look.clone(), variant }.colour(&visuals, part);
                let runs: Vec<Color32> = (0..SHADES).map(|variant| colour(variant, (0, 1))).collect();
                let gpus =
                    |count: usize| -> Vec<Color32> { (0..count).map(|place| colour(0, (place, count))).collect() };
                for curves in [runs, gpus(2), gpus(8)] {
                    assert!(curves.windows(2).all(|two| two[0] != two[1]), "{theme:?}, {look:?}: {curves:?}");
                    for ground in grounds(&visuals) {
                        let least = curves.iter().map(|curve| contrast(*curve, ground)).fold(f32::INFINITY, f32::min);
                        assert!(least >= LINE_CONTRAST, "{theme:?}, {look:?}, {} curves: {least}", curves.len());
                    }
                }
                let markers = [0, 1].map(|variant| RunLook { look: look.clone(), variant }.marker());
                assert_ne!(markers[0], markers[1], "{look:?}");
            }
        }
    }
}
