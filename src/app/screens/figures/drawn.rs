//! The drawn figure, computed in the background: its scene, its pixels, the texts of its table.

use eframe::egui::ColorImage;

use crate::analysis;
use crate::app::cell_table::{Beside, CellTexts, Sort};
use crate::app::desk::Source;
use crate::figure::paper::{Scene, Vision, rasterise};
use crate::figure::{self, Chart, Figure, Study};

/// Sessions as studies see them.
pub fn analysed(sources: &[Source]) -> Vec<analysis::Source<'_>> {
    sources.iter().map(Source::analysed).collect()
}

/// A figure, ready to show and export.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The figure.
    pub figure: Figure,
    /// Its scene on paper.
    pub scene: Scene,
    /// What would not do in print.
    pub warnings: Vec<String>,
    /// The scene's pixels.
    pub image: ColorImage,
    /// What its table shows.
    pub texts: CellTexts,
}

impl Drawn {
    /// Draws the figure, which takes tens of milliseconds, or more for hundreds of cells.
    pub fn new(sources: &[Source], study: &Study, resolution: f64, vision: Vision) -> Result<Self, String> {
        let figure = figure::figure(&analysed(sources), study).map_err(|error| error.to_string())?;
        let scene = figure.scene();
        let warnings = figure.warnings(&scene);
        let pixels = rasterise(&scene, resolution).map_err(|error| error.to_string())?.seen_as(vision);
        let size = [pixels.width as usize, pixels.height as usize];
        let image = ColorImage::from_rgba_unmultiplied(size, &pixels.rgba);
        let texts = CellTexts::new(&figure.table, Beside::default(), |column| column.is_measure);
        Ok(Self { figure, scene, warnings, image, texts })
    }

    /// Whether the figure shows nothing.
    pub fn is_empty(&self) -> bool {
        self.figure.charts.iter().all(Chart::is_empty)
    }

    /// The rows of its table sorted by a column, or in the table's order without one.
    pub fn order(&self, sort: &Sort) -> Vec<usize> {
        self.texts.order(&self.figure.table, &self.figure.settings, sort)
    }
}
