//! Reads the provenance of a figure from its file.

use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::provenance::{KEYWORD, Provenance, VERSION};
use super::svg;
use crate::figure::lenient::leniently;
use crate::figure::style::Style;
use crate::figure::{Composition, Study, UnknownPreset, preset};
use crate::foreign;
use crate::plan::filter::quoted;
use crate::plan::{Key, Level};

/// Maximum size of a file. Figures are much smaller.
const MOST_BYTES: u64 = 256 << 20;
/// Maximum size of the provenance. It is usually much smaller.
const MOST_METADATA_BYTES: usize = 32 << 20;

/// Why a file's provenance cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("reading {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The file is too large for a figure.
    #[error("{0} is larger than 256 MiB, so it is not a figure of multicard")]
    TooLarge(PathBuf),
    /// The file is not SVG, PDF or PNG.
    #[error("neither SVG, PDF nor PNG: give a figure that multicard wrote")]
    Unknown,
    /// The file has no provenance of multicard.
    #[error(
        "this {0} holds no figure of multicard: either another program made it, or one that saved it again left out \
         what multicard had written into it"
    )]
    Foreign(&'static str),
    /// The file is cut short or damaged.
    #[error("this {format} is cut short or damaged: {reason}; take another copy of it")]
    Damaged {
        /// Its format.
        format: &'static str,
        /// The problem.
        reason: String,
    },
    /// The provenance is too large.
    #[error("this {0} contains more than 32 MiB of provenance, so multicard did not write it")]
    TooMuch(&'static str),
    /// Its preset is unknown.
    #[error(transparent)]
    Preset(UnknownPreset),
    /// A newer program made it.
    #[error("made by {program}, in form {found}: this multicard reads form {VERSION}, use a newer one")]
    Newer {
        /// The program that made it.
        program: String,
        /// The version of its format.
        found: u32,
    },
}

/// Reads a file's provenance. Only the provenance is kept in memory.
pub fn read_file(path: &Path) -> Result<Provenance, ReadError> {
    let failed = |error| ReadError::File { path: path.to_owned(), error };
    let file = foreign::open(path).map_err(failed)?;
    if foreign::regular(&file).map_err(failed)? > MOST_BYTES {
        return Err(ReadError::TooLarge(path.to_owned()));
    }
    read(BufReader::with_capacity(1 << 16, file), path)
}

/// Reads the provenance in the bytes of an SVG, a PDF or a PNG.
pub fn read_provenance(bytes: &[u8]) -> Result<Provenance, ReadError> {
    read(Cursor::new(bytes), Path::new(""))
}

fn read(mut file: impl BufRead + Seek, path: &Path) -> Result<Provenance, ReadError> {
    let failed = |error| ReadError::File { path: path.to_owned(), error };
    let mut head = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut head).map_err(failed)?;
    file.rewind().map_err(failed)?;
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        return parse("PNG", &of_png(file)?);
    }
    let (format, from, to) = if head.starts_with(b"%PDF-") {
        // The attachment is not compressed, and no other JSON begins like this.
        ("PDF", "{\"multicard_figure\":", "endstream")
    } else if String::from_utf8_lossy(&head).contains("<svg") {
        ("SVG", "<metadata id=\"multicard-figure\">", "</metadata>")
    } else {
        return Err(ReadError::Unknown);
    };
    if !skip_past(&mut file, from.as_bytes()).map_err(failed)? {
        return Err(ReadError::Foreign(format));
    }
    let damaged = |reason: &str| ReadError::Damaged { format, reason: reason.to_owned() };
    let text = take_until(&mut file, to.as_bytes()).map_err(failed)?;
    if text.len() > MOST_METADATA_BYTES {
        return Err(ReadError::TooMuch(format));
    }
    let text = text.strip_suffix(to.as_bytes()).ok_or_else(|| damaged("its provenance has no end"))?;
    let text = std::str::from_utf8(text).map_err(|_| damaged("its provenance is not UTF-8"))?;
    if format == "SVG" {
        parse(format, &svg::unescape(text))
    } else {
        parse(format, &format!("{from}{}", text.trim_end()))
    }
}

/// The resolution in dpi that a PNG states.
pub fn png_dpi(path: &Path) -> Option<u32> {
    let file = foreign::open(path).ok()?;
    let mut decoder = png::Decoder::new(BufReader::new(file));
    decoder.set_limits(png::Limits { bytes: 2 * MOST_METADATA_BYTES });
    let dims = decoder.read_info().ok()?.info().pixel_dims?;
    let dpi = (f64::from(dims.xppu) * 0.0254).round() as u32;
    (dims.unit == png::Unit::Meter && (72..=1200).contains(&dpi)).then_some(dpi)
}

fn of_png(file: impl BufRead + Seek) -> Result<String, ReadError> {
    let damaged = |reason: png::DecodingError| match reason {
        png::DecodingError::LimitsExceeded => ReadError::TooMuch("PNG"),
        reason => ReadError::Damaged { format: "PNG", reason: reason.to_string() },
    };
    let mut decoder = png::Decoder::new(file);
    decoder.set_limits(png::Limits { bytes: 2 * MOST_METADATA_BYTES });
    let reader = decoder.read_info().map_err(damaged)?;
    let chunks = &reader.info().utf8_text;
    let mut chunk = chunks.iter().find(|chunk| chunk.keyword == KEYWORD).ok_or(ReadError::Foreign("PNG"))?.clone();
    // A few kilobytes can unpack to gigabytes.
    chunk.decompress_text_with_limit(MOST_METADATA_BYTES).map_err(damaged)?;
    chunk.get_text().map_err(damaged)
}

/// Skips everything up to and including the first `sign`; returns whether there is one.
fn skip_past(file: &mut impl BufRead, sign: &[u8]) -> std::io::Result<bool> {
    let last = sign[sign.len() - 1];
    let mut end = Vec::new();
    while file.by_ref().take(1 << 16).read_until(last, &mut end)? > 0 {
        if end.ends_with(sign) {
            return Ok(true);
        }
        end.drain(..end.len().saturating_sub(sign.len()));
    }
    Ok(false)
}

/// Reads up to and including the first `sign`, or up to the end, or until the limit is exceeded.
fn take_until(file: &mut impl BufRead, sign: &[u8]) -> std::io::Result<Vec<u8>> {
    let last = sign[sign.len() - 1];
    let mut text = Vec::new();
    while text.len() <= MOST_METADATA_BYTES
        && file.by_ref().take(1 << 16).read_until(last, &mut text)? > 0
        && !text.ends_with(sign)
    {}
    Ok(text)
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
    // If a part of the study cannot be read, only that part is lost, not the figure.
    let study = whole.remove("study").unwrap_or_else(|| serde_json::Value::Object(serde_json::Map::new()));
    let (mut study, mut problems) = leniently::<Study>(study, "study");
    let composition =
        whole.remove("composition").map(|composition| leniently::<Composition>(composition, "composition"));
    let mut composition = composition.map(|(composition, wrong)| {
        problems.extend(wrong);
        composition
    });
    let of_composition = composition.as_mut().map(|composition| ("composition", &mut composition.style));
    for (part, style) in [("study", &mut study.style)].into_iter().chain(of_composition) {
        let wrong = style.refuse_size();
        problems.extend(wrong.map(|wrong| format!("{part}.style.size_pt: {wrong}: {} is used", style.size_pt)));
    }
    let provenance: Provenance = serde_json::from_value(whole.into()).map_err(damaged)?;
    Ok(Provenance { study, composition, problems, ..provenance })
}

/// The description that files of format 1 (multicard 0.1) contain in place of a study.
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
        // In that format, filters were only words.
        let words: Vec<String> = self.filter.split_whitespace().map(quoted).collect();
        let measure = self.measure.map(Key::from).or(preset.measure);
        let Self { hidden, baseline, log, style, .. } = self;
        Ok(Study { filter: words.join(" "), hidden, measure, baseline, log, style, ..preset })
    }
}
