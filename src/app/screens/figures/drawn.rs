//! The drawn figure, computed in the background: its scene, its pixels, the texts of its table.

use eframe::egui::ColorImage;

use super::composing::Asked;
use crate::analysis;
use crate::app::cell_table::{Beside, CellTexts, Sort};
use crate::app::desk::Source;
use crate::figure::paper::{Scene, Vision, panel_letter, rasterise};
use crate::figure::{self, Chart, ComposedFigure, Figure, Study};

/// Sessions as studies see them.
pub fn analysed(sources: &[Source]) -> Vec<analysis::Source<'_>> {
    sources.iter().map(Source::analysed).collect()
}

/// Greatest width and height of a picture on screen, in pixels: what every graphics card takes as one texture.
const MOST_PIXELS: f64 = 8192.0;

/// A figure, ready to show and export.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The figure.
    pub figure: Figure,
    /// The composed figure, where that is shown in its place.
    pub composed: Option<ComposedFigure>,
    /// What is shown on paper.
    pub scene: Scene,
    /// What would not do in print.
    pub warnings: Vec<String>,
    /// What a reader must know, and what would not do in print.
    pub notes: Vec<String>,
    /// The scene's pixels.
    pub image: ColorImage,
    /// What its table shows.
    pub texts: CellTexts,
}

impl Drawn {
    /// Draws the figure, which takes tens of milliseconds, or more for hundreds of cells; or the composed one in its place, in a
    /// resolution and as somebody sees it.
    pub fn new(
        sources: &[Source],
        study: &Study,
        composed: Option<Asked>,
        (resolution, vision): (f64, Vision),
    ) -> Result<Self, String> {
        let figure = figure::figure(&analysed(sources), study).map_err(|error| error.to_string())?;
        let composed = composed.map(Asked::figure);
        let (scene, warnings) = match &composed {
            None => {
                let scene = figure.scene();
                let warnings = figure.warnings(&scene);
                (scene, warnings)
            }
            Some(composed) => {
                let scene = composed.scene();
                let blank = composed.blank().into_iter();
                let blank = blank.map(|(nth, reason)| format!("({}) is not drawn: {reason}", panel_letter(nth)));
                let warnings = blank.chain(composed.warnings(&scene)).collect();
                (scene, warnings)
            }
        };
        let notes = composed.as_ref().map_or_else(|| figure.notes(), ComposedFigure::notes);
        let notes = notes.into_iter().chain(warnings.iter().cloned()).collect();
        let resolution = resolution.min(MOST_PIXELS / scene.width.max(scene.height).max(1.0));
        let pixels = rasterise(&scene, resolution).map_err(|error| error.to_string())?.seen_as(vision);
        let size = [pixels.width as usize, pixels.height as usize];
        let image = ColorImage::from_rgba_unmultiplied(size, &pixels.rgba);
        let texts = CellTexts::new(&figure.table, Beside::default(), |column| column.is_measure);
        Ok(Self { figure, composed, scene, warnings, notes, image, texts })
    }

    /// Whether what is shown on paper is empty.
    pub fn is_empty(&self) -> bool {
        match &self.composed {
            Some(composed) => composed.blank().len() == composed.panels.len(),
            None => self.figure_is_empty(),
        }
    }

    /// Whether the figure, composed or not, has nothing to draw of its own.
    pub fn figure_is_empty(&self) -> bool {
        self.figure.charts.iter().all(Chart::is_empty)
    }

    /// What it shows, in a few words.
    pub fn title(&self) -> &str {
        if self.composed.is_some() { "Panels" } else { &self.figure.title }
    }

    /// The rows of its table sorted by a column, or in the table's order without one.
    pub fn order(&self, sort: &Sort) -> Vec<usize> {
        self.texts.order(&self.figure.table, &self.figure.settings, sort)
    }
}
