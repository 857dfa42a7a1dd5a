//! The drawn figure, computed in the background: its scene, its pixels, the texts of its table.

use eframe::egui::ColorImage;

use super::composing::Asked;
use crate::app::cell_table::{Beside, CellTexts, Sort};
use crate::app::desk::{Source, figure_of, with_run_numbers};
use crate::figure::paper::{Scene, Vision, panel_letter, rasterise};
use crate::figure::{ComposedFigure, Figure, Study};

/// Greatest width and height of a picture on screen, in pixels: what every graphics card takes as one texture.
const MOST_PIXELS: f64 = 8192.0;

/// The drawn figure that the screen shows.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The figure with its table, or why there is none.
    pub figure: Result<Tabled, String>,
    /// The page of the preview, or why there is none.
    pub page: Result<Page, String>,
}

/// A figure with its table.
#[derive(Clone, Debug)]
pub struct Tabled {
    /// The figure.
    pub figure: Figure,
    /// The contents of its table.
    pub texts: CellTexts,
}

/// A page of the screen: it shows either the figure or the composed figure.
#[derive(Clone, Debug)]
pub struct Page {
    /// What it shows, in a few words.
    pub title: String,
    /// The composed figure, if a composed figure is shown.
    pub composed: Option<ComposedFigure>,
    /// The figure on paper.
    pub scene: Scene,
    /// Warnings about problems in print.
    pub warnings: Vec<String>,
    /// The notes for readers, and warnings about problems in print.
    pub notes: Vec<String>,
    /// The scene's pixels.
    pub image: ColorImage,
    /// Whether nothing is drawn on it.
    pub is_empty: bool,
}

impl Drawn {
    /// Draws the figure, which takes tens of milliseconds, or more for hundreds of cells; or the composed one in its place, in a
    /// resolution and as somebody sees it.
    pub fn new(sources: &[Source], study: &Study, composed: Option<Asked>, seen: (f64, Vision)) -> Self {
        let figure = figure_of(sources, study);
        // What is typed into the figure's filter is no matter of the panels.
        let page = match composed {
            Some(composed) => Page::composed(composed.figure(), seen),
            None => figure.as_ref().map_err(Clone::clone).and_then(|figure| {
                let page = Page::single(figure, seen)?;
                Ok(Page { notes: with_run_numbers(sources, page.notes), ..page })
            }),
        };
        Self { figure: figure.map(Tabled::new), page }
    }
}

impl Tabled {
    fn new(figure: Figure) -> Self {
        let texts = CellTexts::new(&figure.table, Beside::default(), |column| column.is_measure);
        Self { figure, texts }
    }

    /// The rows of the table sorted by a column, or in the table's order without one.
    pub fn order(&self, sort: &Sort) -> Vec<usize> {
        self.texts.order(&self.figure.table, &self.figure.settings, sort)
    }
}

impl Page {
    fn single(figure: &Figure, seen: (f64, Vision)) -> Result<Self, String> {
        let scene = figure.scene();
        let (image, warnings) = (picture(&scene, seen)?, figure.warnings(&scene));
        let notes = figure.notes().into_iter().chain(warnings.iter().cloned()).collect();
        let (title, is_empty) = (figure.title.clone(), figure.is_empty());
        Ok(Self { title, composed: None, scene, warnings, notes, image, is_empty })
    }

    fn composed(figure: ComposedFigure, seen: (f64, Vision)) -> Result<Self, String> {
        let (scene, blank) = (figure.scene(), figure.blank());
        let (image, is_empty) = (picture(&scene, seen)?, blank.len() == figure.panels.len());
        // The panel's place in the figure has the reason, too, but cut off where the place is small.
        let blank = blank.into_iter().map(|(nth, reason)| format!("({}) is not drawn: {reason}", panel_letter(nth)));
        let warnings = figure.warnings(&scene);
        let notes = blank.chain(figure.notes()).chain(warnings.iter().cloned()).collect();
        Ok(Self { title: "Panels".to_owned(), composed: Some(figure), scene, warnings, notes, image, is_empty })
    }
}

/// The pixels of a scene. The number of pixels per point is the highest with which the scene fits into one texture.
fn picture(scene: &Scene, (resolution, vision): (f64, Vision)) -> Result<ColorImage, String> {
    let resolution = resolution.min(MOST_PIXELS / scene.width.max(scene.height).max(1.0));
    let pixels = rasterise(scene, resolution).map_err(|error| error.to_string())?.seen_as(vision);
    let size = [pixels.width as usize, pixels.height as usize];
    Ok(ColorImage::from_rgba_unmultiplied(size, &pixels.rgba))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_no_more_pixels_than_a_texture_holds() {
        for (width, height, resolution, expected) in
            [(100.0, 200.0, 2.0, [200, 400]), (100.0, 10_000.0, 3.0, [82, 8192]), (8192.0, 100.0, 4.0, [8192, 100])]
        {
            let scene = Scene { width, height, ..Scene::default() };
            let image = picture(&scene, (resolution, Vision::Usual)).unwrap();
            assert_eq!(image.size, expected, "{width} × {height}");
        }
    }
}
