//! Readings from TensorBoard's event files, read while they grow.
//!
//! An event file is a sequence of records in the framing of TFRecord: the length (u64), its masked CRC-32C (u32), the data, their masked
//! CRC-32C (u32), all little-endian (tensorflow/core/lib/io/record_writer.h). The data are a protobuf `Event`
//! (tensorflow/core/util/event.proto) with a `Summary` of values (tensorflow/core/framework/summary.proto). Only scalars are read:
//! `simple_value`, and tensors with one number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::fields::{Fields, Names};
use super::growing::{Growing, Part};
use super::order::sort_by_time;
use super::phases::names_evaluation;
use super::{Found, Source};
use crate::plan::command::ReadingsSpec;
use crate::protocol::check_moment;

/// Larger records, such as images and graphs, are skipped.
const LARGEST_RECORD: u64 = 4 << 20;
/// How deep folders are searched.
const DEPTH: usize = 5;
/// The most entries of folders that are examined, so that a data set next to the logs costs no time.
const ENTRIES: usize = 10_000;
/// Most event files of a run.
const FILES: usize = 64;
/// New files are looked for once in this number of polls.
const LOOK_EVERY: u32 = 5;
/// While there are only evaluations, this number of looks waits for files of the training, which a program may create later.
const WAIT: u32 = 20;
/// Fields that each record contains, so that a tag of this name is a reading.
const OF_RECORDS: &[&str] = &["step", "time_s", "rank"];

/// The event files of a folder, or one file.
pub(super) struct EventFiles {
    path: PathBuf,
    names: Names,
    /// Files that existed before the run, and belong to an earlier run.
    earlier: Vec<PathBuf>,
    files: Vec<(EventFile, String)>,
    /// The folder whose tags are used unchanged, see [`order`]; tags of other files get the name of their folder as a prefix.
    first_folder: Option<PathBuf>,
    /// The step of the newest scalar, and whether all scalars of this step are values of an evaluation.
    newest: Option<(u64, bool)>,
    polls: u32,
    /// The number of looks that found nothing but evaluations.
    waited: u32,
    /// Whether the plan declares the files, so that their absence is reported.
    is_declared: bool,
}

impl EventFiles {
    /// The event files that a plan declares; their present contents are skipped.
    pub fn declared(path: &Path, spec: &ReadingsSpec) -> Self {
        Self::at(path, Names::new(&spec.names, true), true)
    }

    /// The event files that appear in a folder.
    pub fn looked_for(folder: &Path) -> Self {
        Self::at(folder, Names::new(&BTreeMap::new(), true), false)
    }

    fn at(path: &Path, names: Names, is_declared: bool) -> Self {
        let path = path.to_owned();
        let (names, earlier) = (names.besides(OF_RECORDS), event_files(&path));
        let files = Vec::new();
        Self { path, names, earlier, files, first_folder: None, newest: None, polls: 0, waited: 0, is_declared }
    }

    /// Opens files that have appeared; `last` if no more will appear.
    fn look(&mut self, last: bool) {
        let mut new = event_files(&self.path);
        new.retain(|path| !self.earlier.contains(path) && !self.files.iter().any(|(file, _)| file.file.path() == path));
        let orders = new.iter().map(|path| order(&self.path, path));
        let is_evaluation = orders.min().is_some_and(|(evaluations, ..)| evaluations > 0);
        if self.first_folder.is_none() && is_evaluation && !last && self.waited < WAIT {
            self.waited += 1;
            return;
        }
        new.sort_by_cached_key(|path| order(&self.path, path));
        new.truncate(FILES.saturating_sub(self.files.len()));
        for path in new {
            let folder = path.parent().unwrap_or(&path).to_owned();
            let first = self.first_folder.get_or_insert_with(|| folder.clone());
            let before = if *first == folder { String::new() } else { prefix(&self.path, &folder) };
            self.files.push((EventFile::new(Growing::new(path)), before));
        }
    }
}

/// The order of event files below a folder: evaluations after all others, then by their depth and by their names. The first of them gives
/// the tags that are used unchanged.
fn order(root: &Path, file: &Path) -> (usize, usize, PathBuf) {
    let folder = file.parent().and_then(|folder| folder.strip_prefix(root).ok()).unwrap_or(Path::new(""));
    let folders = || folder.components().map(|folder| folder.as_os_str().to_string_lossy());
    (folders().filter(|name| names_evaluation(name)).count(), folders().count(), file.to_owned())
}

/// The text before the tags of a folder's files: the path of the folder below the root, or the name of the root itself.
fn prefix(root: &Path, folder: &Path) -> String {
    let below = folder.strip_prefix(root).unwrap_or(folder);
    match below.as_os_str().is_empty() {
        true => root.file_name().map_or(String::new(), |name| format!("{}/", name.to_string_lossy())),
        false => format!("{}/", below.display()),
    }
}

impl Source for EventFiles {
    fn poll(&mut self, last: bool, now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        if last || self.polls.is_multiple_of(LOOK_EVERY) {
            self.look(last);
        }
        self.polls = self.polls.wrapping_add(1);
        let (mut failed, mut of_files) = (None, Vec::new());
        for (number, (file, before)) in self.files.iter_mut().enumerate() {
            let (name, names, newest) = (file.file.name(), &mut self.names, &mut self.newest);
            let (mut warnings, mut new) = (Vec::new(), Vec::new());
            let mut scalar = |scalar: Scalar| {
                let tag = if before.is_empty() { scalar.tag } else { format!("{before}{}", scalar.tag) };
                names.see(&tag, &name, &mut warnings);
                let meaning = names.meaning(&tag, &name, &mut warnings).to_owned();
                // PyTorch Lightning writes the epoch after the values of an evaluation, too: such a line ends no step.
                if meaning == "epoch" && *newest == Some((scalar.step, true)) {
                    return;
                }
                let is_first = newest.is_none_or(|(step, _)| step != scalar.step);
                let only = names_evaluation(&tag) && (is_first || *newest == Some((scalar.step, true)));
                *newest = Some((scalar.step, only));
                let mut fields = Fields::default();
                (fields.step.step, fields.time_s) = (Some(scalar.step), Some(scalar.time_s));
                let read = if OF_RECORDS.contains(&meaning.as_str()) {
                    fields.reading(&tag, scalar.value);
                    Ok(())
                } else {
                    fields.number(&meaning, scalar.value)
                };
                match read {
                    Ok(()) => fields.found(now_s, &mut new),
                    Err(why) => new.push(Found::Warning(format!("{name}: {why}; it was left out"))),
                }
            };
            failed = failed.or(file.read(last, &mut scalar).err());
            if let Some(damage) = file.damage.take() {
                new.push(Found::Warning(format!("{name}: {damage}")));
            }
            new.append(&mut warnings);
            of_files.extend(new.into_iter().map(|found| (number, found)));
        }
        // The files may have the same steps, or the evaluations between them.
        sort_by_time(&mut of_files);
        found.extend(of_files.into_iter().map(|(_, found)| found));
        if last && self.is_declared && self.files.is_empty() {
            let message = format!("{}: the program wrote no event file of TensorBoard there", self.path.display());
            found.push(Found::Warning(message));
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The event files at a path or below it, in order.
fn event_files(path: &Path) -> Vec<PathBuf> {
    fn is_one(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"))
    }
    fn add(folder: &Path, depth: usize, left: &mut usize, files: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut folders = Vec::new();
        for entry in entries.flatten() {
            let Some(fewer) = left.checked_sub(1) else { return };
            *left = fewer;
            // Links are not followed, since they may form circles.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && is_one(&entry.path()) => files.push(entry.path()),
                _ => {}
            }
        }
        if depth > 0 {
            folders.sort();
            folders.iter().for_each(|folder| add(folder, depth - 1, left, files));
        }
    }
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut files = Vec::new();
    add(path, DEPTH, &mut ENTRIES.clone(), &mut files);
    files.sort();
    files
}

/// A number that was logged.
#[derive(Clone, Debug, PartialEq)]
struct Scalar {
    tag: String,
    step: u64,
    time_s: f64,
    value: f64,
}

/// One event file.
struct EventFile {
    file: Growing,
    /// Bytes of an incomplete record.
    pending: Vec<u8>,
    /// The number of bytes to skip.
    skip: u64,
    /// The position of `pending` in the file.
    offset: u64,
    /// Whether nothing more is read.
    is_over: bool,
    /// Damage that was found but not reported yet.
    damage: Option<String>,
}

impl EventFile {
    fn new(file: Growing) -> Self {
        Self { file, pending: Vec::new(), skip: 0, offset: 0, is_over: false, damage: None }
    }

    fn read(&mut self, all: bool, scalar: &mut impl FnMut(Scalar)) -> Result<(), String> {
        if self.is_over {
            return Ok(());
        }
        let Self { file, pending, skip, offset, is_over, damage } = self;
        file.read(all, |part| match part {
            Part::Anew => {
                pending.clear();
                (*skip, *offset) = (0, 0);
            }
            Part::Bytes(bytes, _) if !*is_over => {
                let skipped = (*skip).min(bytes.len() as u64);
                (*skip, *offset) = (*skip - skipped, *offset + skipped);
                pending.extend_from_slice(&bytes[skipped as usize..]);
                let mut rest = pending.as_slice();
                loop {
                    match record(rest) {
                        Record::Incomplete => break,
                        Record::Whole { data, length } => {
                            if let Err(why) = scalars(data, scalar) {
                                *damage = Some(format!("the record at byte {offset} was left out: {why}"));
                            }
                            rest = &rest[length..];
                            *offset += length as u64;
                        }
                        Record::Damaged { length } => {
                            *damage = Some(format!("the record at byte {offset} is damaged and was left out"));
                            rest = &rest[length..];
                            *offset += length as u64;
                        }
                        Record::Large { length } => {
                            *skip = length - rest.len() as u64;
                            *offset += rest.len() as u64;
                            rest = &[];
                            break;
                        }
                        Record::NotOne => {
                            *damage = Some(format!("damaged at byte {offset}; what follows is left out"));
                            (*is_over, rest) = (true, &[]);
                            break;
                        }
                    }
                }
                *pending = rest.to_vec();
            }
            Part::Bytes(..) => {}
        })
    }
}

/// The record at the start of some bytes.
enum Record<'b> {
    /// A record whose end is not there yet.
    Incomplete,
    /// A complete record of this total length.
    Whole { data: &'b [u8], length: usize },
    /// A record whose data do not match their checksum.
    Damaged { length: usize },
    /// A record that is too large to be kept, and longer than the bytes at hand.
    Large { length: u64 },
    /// The bytes are not a record.
    NotOne,
}

fn record(bytes: &[u8]) -> Record<'_> {
    const HEADER: usize = 8 + 4;
    const FOOTER: usize = 4;
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Record::Incomplete };
    let (length, sum) = header.split_at(8);
    if !is_sum(length, sum) {
        return Record::NotOne;
    }
    let length = length.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    let whole = (HEADER + FOOTER) as u64;
    let Some(all) = length.checked_add(whole) else { return Record::NotOne };
    if length > LARGEST_RECORD && all > bytes.len() as u64 {
        return Record::Large { length: all };
    }
    let length = length as usize;
    let Some(data) = rest.get(..length) else { return Record::Incomplete };
    let Some(sum) = rest.get(length..length + FOOTER) else { return Record::Incomplete };
    let length = length + HEADER + FOOTER;
    if is_sum(data, sum) { Record::Whole { data, length } } else { Record::Damaged { length } }
}

/// Whether four bytes are the masked checksum of others.
fn is_sum(bytes: &[u8], sum: &[u8]) -> bool {
    sum == masked_crc(bytes).to_le_bytes()
}

/// The CRC-32C (Castagnoli) of bytes, rotated and offset as TFRecord masks it.
fn masked_crc(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut value, mut bit) = (byte as u32, 0);
            while bit < 8 {
                value = (value >> 1) ^ if value & 1 == 1 { 0x82f6_3b78 } else { 0 };
                bit += 1;
            }
            table[byte] = value;
            byte += 1;
        }
        table
    };
    let crc = !bytes.iter().fold(!0_u32, |crc, byte| (crc >> 8) ^ TABLE[(crc as u8 ^ byte) as usize]);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A field of a protobuf message.
enum Value<'b> {
    Number(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'b [u8]),
}

/// The fields of a protobuf message, with their numbers.
fn fields<'b>(mut bytes: &'b [u8], mut take: impl FnMut(u64, Value<'b>) -> Result<(), String>) -> Result<(), String> {
    fn number(bytes: &mut &[u8]) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let (byte, rest) = bytes.split_first()?;
            *bytes = rest;
            number |= u64::from(byte & 0x7f).checked_shl(7 * place).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
    fn field<'b>(bytes: &mut &'b [u8]) -> Option<(u64, Value<'b>)> {
        let tag = number(bytes)?;
        let value = match tag & 7 {
            0 => Value::Number(number(bytes)?),
            1 => {
                let (value, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Value::Fixed64(*value)
            }
            2 => {
                let length = usize::try_from(number(bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                *bytes = rest;
                Value::Bytes(value)
            }
            5 => {
                let (value, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Value::Fixed32(*value)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
    while !bytes.is_empty() {
        let (number, value) = field(&mut bytes).ok_or("it is not an event")?;
        take(number, value)?;
    }
    Ok(())
}

/// Passes the scalars of an `Event` to `take`.
fn scalars(event: &[u8], take: &mut impl FnMut(Scalar)) -> Result<(), String> {
    let (mut time_s, mut step, mut summaries) = (0.0, 0, Vec::new());
    fields(event, |number, value| {
        match (number, value) {
            (1, Value::Fixed64(bytes)) => time_s = f64::from_le_bytes(bytes),
            (2, Value::Number(number)) => step = number,
            (5, Value::Bytes(bytes)) => summaries.push(bytes),
            _ => {}
        }
        Ok(())
    })?;
    check_moment(time_s)?;
    // Steps are signed; none is below 0.
    let Ok(step) = u64::try_from(step.cast_signed()) else { return Err(format!("its step is {}", step.cast_signed())) };
    for summary in summaries {
        fields(summary, |number, value| {
            if let (1, Value::Bytes(value)) = (number, value)
                && let Some((tag, value)) = value_of(value)?
            {
                take(Scalar { tag, step, time_s, value });
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The tag and the number of a `Summary.Value`; `None` if it is not a scalar.
fn value_of(value: &[u8]) -> Result<Option<(String, f64)>, String> {
    let (mut tag, mut scalar) = (String::new(), None);
    fields(value, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => tag = String::from_utf8_lossy(bytes).into_owned(),
            (2, Value::Fixed32(bytes)) => scalar = Some(f64::from(f32::from_le_bytes(bytes))),
            (8, Value::Bytes(tensor)) => scalar = number_of(tensor)?,
            _ => {}
        }
        Ok(())
    })?;
    // The plug-in for hyperparameters stores its own values as summaries.
    Ok(scalar.filter(|_| !tag.starts_with("_hparams_")).map(|value| (tag, value)))
}

/// The number of a `TensorProto` with one element.
fn number_of(tensor: &[u8]) -> Result<Option<f64>, String> {
    let (mut kind, mut elements, mut content, mut listed) = (0, 1_u64, None, None);
    fields(tensor, |number, value| {
        match (number, value) {
            (1, Value::Number(number)) => kind = number,
            (2, Value::Bytes(shape)) => elements = elements_of(shape)?,
            (4, Value::Bytes(bytes)) if !bytes.is_empty() => content = Some(bytes),
            // Lists of numbers, packed or one by one.
            (5, Value::Fixed32(bytes)) => listed = Some(f64::from(f32::from_le_bytes(bytes))),
            (6, Value::Fixed64(bytes)) => listed = Some(f64::from_le_bytes(bytes)),
            (5, Value::Bytes(bytes)) => listed = bytes.first_chunk().map(|bytes| f64::from(f32::from_le_bytes(*bytes))),
            (6, Value::Bytes(bytes)) => listed = bytes.first_chunk().map(|bytes| f64::from_le_bytes(*bytes)),
            (7 | 10, Value::Number(number)) => listed = Some(number.cast_signed() as f64),
            (7 | 10, Value::Bytes(bytes)) => {
                // A packed number is encoded like a field without its tag.
                let field = [&[0], bytes].concat();
                let mut first = None;
                let _ = fields(&field, |_, value| {
                    if let (None, Value::Number(number)) = (first, value) {
                        first = Some(number.cast_signed() as f64);
                    }
                    Err(String::new())
                });
                listed = first;
            }
            _ => {}
        }
        Ok(())
    })?;
    if elements != 1 {
        return Ok(None);
    }
    let of_content = |bytes: &[u8]| match kind {
        1 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        2 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        3 => Some(f64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
        9 => Some(i64::from_le_bytes(bytes.try_into().ok()?) as f64),
        _ => None,
    };
    Ok(content.map_or(listed, of_content))
}

/// The number of elements of a `TensorShapeProto`.
fn elements_of(shape: &[u8]) -> Result<u64, String> {
    let mut elements: u64 = 1;
    fields(shape, |number, value| {
        if let (2, Value::Bytes(dimension)) = (number, value) {
            // Sizes of 0 are not encoded.
            let mut size = 0;
            fields(dimension, |number, value| {
                if let (1, Value::Number(number)) = (number, value) {
                    size = number;
                }
                Ok(())
            })?;
            elements = elements.saturating_mul(size);
        }
        Ok(())
    })?;
    Ok(elements)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "tensorboard_tests.rs"]
mod tests;
