//! The drawn figure, computed in the background: its scene, its pixels, its table as text.

use eframe::egui::ColorImage;

use crate::analysis;
use crate::app::desk::Source;
use crate::figure::paper::{Scene, rasterise};
use crate::figure::{self, Chart, Figure, Format, Study, render};

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
    /// The scene's pixels.
    pub image: ColorImage,
    tables: [String; 3],
}

const FORMATS: [Format; 3] = [Format::Markdown, Format::Csv, Format::Latex];

impl Drawn {
    /// Draws the figure, which takes tens of milliseconds, or more for hundreds of cells.
    pub fn new(sources: &[Source], study: &Study, resolution: f64) -> Result<Self, String> {
        let figure = figure::figure(&analysed(sources), study).map_err(|error| error.to_string())?;
        let scene = figure.scene();
        let pixels = rasterise(&scene, resolution).map_err(|error| error.to_string())?;
        let size = [pixels.width as usize, pixels.height as usize];
        let image = ColorImage::from_rgba_unmultiplied(size, &pixels.rgba);
        let tables = FORMATS.map(|format| render(&figure.table, format));
        Ok(Self { figure, scene, image, tables })
    }

    /// Whether the figure shows nothing.
    pub fn is_empty(&self) -> bool {
        self.figure.charts.iter().all(Chart::is_empty)
    }

    /// The table in a format.
    pub fn table(&self, format: Format) -> &str {
        FORMATS.iter().position(|known| *known == format).map_or("", |place| &self.tables[place])
    }
}
