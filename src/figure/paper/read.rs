//! Reads where a figure comes from out of its file.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::provenance::{KEYWORD, Provenance, VERSION};
use super::svg;
use crate::figure::style::Style;
use crate::figure::{Study, UnknownPreset, preset};
use crate::plan::filter::quoted;
use crate::plan::{Key, Level};

/// Figures are far smaller.
const MOST_BYTES: u64 = 256 << 20;
/// What a figure says of itself is far shorter.
const MOST_METADATA_BYTES: usize = 32 << 20;

/// Why a file does not say where it comes from.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("reading {path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is too long for a figure.
    #[error("{0} is larger than 256 MiB: no figure of multicard is")]
    TooLarge(PathBuf),
    /// It is no SVG, PDF or PNG.
    #[error("neither SVG, PDF nor PNG: give a figure that multicard wrote")]
    Unknown,
    /// It says nothing of multicard.
    #[error(
        "this {0} holds no figure of multicard: either another program made it, or one that saved it again left out \
         what multicard had written into it"
    )]
    Foreign(&'static str),
    /// It ends too early, or is damaged.
    #[error("this {format} is cut short or damaged: {reason}; take another copy of it")]
    Damaged {
        /// What it is.
        format: &'static str,
        /// What was found.
        reason: String,
    },
    /// It says too much.
    #[error("this {0} says more of itself than 32 MiB: no figure of multicard does")]
    TooMuch(&'static str),
    /// It is of a preset that is not known.
    #[error(transparent)]
    Preset(UnknownPreset),
    /// A newer program made it.
    #[error("made by {program}, in form {found}: this multicard reads form {VERSION}, use a newer one")]
    Newer {
        /// Who made it.
        program: String,
        /// The version of its form.
        found: u32,
    },
}

/// Reads a file's provenance.
pub fn read_file(path: &Path) -> Result<Provenance, ReadError> {
    let failed = |error| ReadError::File { path: path.to_owned(), error };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ReadError::TooLarge(path.to_owned()));
    }
    read_provenance(&bytes)
}

/// Reads the provenance in the bytes of an SVG, a PDF or a PNG.
pub fn read_provenance(bytes: &[u8]) -> Result<Provenance, ReadError> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return parse("PNG", &of_png(bytes)?);
    }
    if bytes.starts_with(b"%PDF-") {
        return of_pdf(bytes);
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    if head.contains("<svg") {
        return parse("SVG", &of_svg(bytes)?);
    }
    Err(ReadError::Unknown)
}

fn of_png(bytes: &[u8]) -> Result<String, ReadError> {
    let damaged = |reason: png::DecodingError| match reason {
        png::DecodingError::LimitsExceeded => ReadError::TooMuch("PNG"),
        reason => ReadError::Damaged { format: "PNG", reason: reason.to_string() },
    };
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_limits(png::Limits { bytes: 2 * MOST_METADATA_BYTES });
    let reader = decoder.read_info().map_err(damaged)?;
    let chunks = &reader.info().utf8_text;
    let chunk = chunks.iter().find(|chunk| chunk.keyword == KEYWORD).ok_or(ReadError::Foreign("PNG"))?;
    chunk.get_text().map_err(damaged)
}

fn of_svg(bytes: &[u8]) -> Result<String, ReadError> {
    let damaged = |reason: &str| ReadError::Damaged { format: "SVG", reason: reason.to_owned() };
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not UTF-8"))?;
    let open = "<metadata id=\"multicard-figure\">";
    let start = text.find(open).ok_or(ReadError::Foreign("SVG"))? + open.len();
    let length = text[start..].find("</metadata>").ok_or_else(|| damaged("its metadata does not end"))?;
    Ok(svg::unescape(&text[start..start + length]))
}

/// The attachment is not compressed and begins like no other JSON.
fn of_pdf(bytes: &[u8]) -> Result<Provenance, ReadError> {
    let sign = b"{\"multicard_figure\":";
    let start = bytes.windows(sign.len()).position(|window| window == sign).ok_or(ReadError::Foreign("PDF"))?;
    let rest = &bytes[start..];
    let length = rest.windows(9).position(|window| window == b"endstream");
    let cut = || ReadError::Damaged { format: "PDF", reason: "its attachment does not end".to_owned() };
    let text = String::from_utf8_lossy(&rest[..length.ok_or_else(cut)?]);
    parse("PDF", text.trim_end())
}

#[derive(Deserialize)]
struct Head {
    multicard_figure: u32,
    #[serde(default)]
    program: String,
}

fn parse(format: &'static str, text: &str) -> Result<Provenance, ReadError> {
    if text.len() > MOST_METADATA_BYTES {
        return Err(ReadError::TooMuch(format));
    }
    let damaged = |error: serde_json::Error| ReadError::Damaged { format, reason: error.to_string() };
    let head: Head = serde_json::from_str(text).map_err(damaged)?;
    if head.multicard_figure > VERSION {
        return Err(ReadError::Newer { program: head.program, found: head.multicard_figure });
    }
    let mut whole: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).map_err(damaged)?;
    if head.multicard_figure == 1 {
        let spec: FirstSpec = serde_json::from_value(whole.remove("spec").unwrap_or_default()).map_err(damaged)?;
        let study = spec.study().map_err(ReadError::Preset)?;
        whole.insert("study".to_owned(), serde_json::to_value(study).map_err(damaged)?);
    }
    serde_json::from_value(whole.into()).map_err(damaged)
}

/// What files of the first form (multicard 0.1) say instead of a study.
#[derive(Deserialize)]
#[serde(default)]
struct FirstSpec {
    preset: String,
    filter: String,
    hidden: Vec<(Key, Level)>,
    measure: Option<String>,
    baseline: Option<String>,
    log: bool,
    style: Style,
}

impl Default for FirstSpec {
    fn default() -> Self {
        let Study { filter, hidden, baseline, log, style, .. } = Study::default();
        Self { preset: "times".to_owned(), filter, hidden, measure: None, baseline, log, style }
    }
}

impl FirstSpec {
    fn study(self) -> Result<Study, UnknownPreset> {
        let preset = preset(&self.preset)?;
        // Filters were words alone.
        let words: Vec<String> = self.filter.split_whitespace().map(quoted).collect();
        let measure = self.measure.map(Key::from).or(preset.measure);
        let Self { hidden, baseline, log, style, .. } = self;
        Ok(Study { filter: words.join(" "), hidden, measure, baseline, log, style, ..preset })
    }
}
