//! Writes a figure as a file: SVG, PDF or PNG.

use std::path::Path;

use thiserror::Error;

use super::error::FigureError;
use super::provenance::Provenance;
use super::scene::Scene;
use super::{pdf, png, svg};
use crate::foreign;

/// A file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaperFormat {
    /// Lines and text, for papers.
    #[default]
    Pdf,
    /// Lines and text, for the web and for drawing programs.
    Svg,
    /// Pixels, for slides and messages.
    Png {
        /// Pixels per inch.
        dpi: u32,
    },
}

/// The error for a file name with an unknown extension.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}: figures are written as .svg, .pdf or .png: give a file name that ends with one of these")]
pub struct UnknownPaperFormat(String);

impl PaperFormat {
    /// The format that a file's name requests. `dpi` is used only for pixels.
    pub fn of(file: &Path, dpi: u32) -> Result<Self, UnknownPaperFormat> {
        let extension = file.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match extension.as_str() {
            "svg" => Ok(Self::Svg),
            "pdf" => Ok(Self::Pdf),
            "png" => Ok(Self::Png { dpi }),
            _ => Err(UnknownPaperFormat(file.display().to_string())),
        }
    }
}

/// A scene as the bytes of a file. Equal scenes with equal provenance give equal bytes.
pub fn encode(scene: &Scene, provenance: &Provenance, format: PaperFormat) -> Result<Vec<u8>, FigureError> {
    // Names and plans from other people may contain characters that reverse the order of text on screen. They are written as escapes,
    // which readers of JSON turn back into the same characters.
    let texts = [provenance.title.clone(), provenance.about(), provenance.json()];
    let [title, about, metadata] = texts.map(|text| foreign::printable(&text).into_owned());
    match format {
        PaperFormat::Svg => Ok(svg::write(scene, &title, &metadata).into_bytes()),
        PaperFormat::Pdf => pdf::write(scene, &title, &about, &metadata),
        PaperFormat::Png { dpi } => png::write(scene, dpi, &title, &metadata),
    }
}

/// Writes a file atomically: other programs see either the old file or the complete new one.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), FigureError> {
    foreign::write(path, bytes).map_err(|error| FigureError::File { path: path.to_owned(), error })
}
