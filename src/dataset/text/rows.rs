//! Rows of text files, one after the other: JSON, JSON Lines, CSV, tab-separated values and Parquet.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;

use parquet::basic::Compression;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::dataset::DatasetError;
use crate::foreign;
use crate::plan::counted;

/// Columns of tab-separated files of C4_200M, which have no header line.
const TSV_COLUMNS: [&str; 2] = ["input", "output"];

/// Endings of files that can be read.
pub(super) const ENDINGS: [&str; 5] = ["json", "jsonl", "csv", "tsv", "parquet"];

/// One row, with its place.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) place: Place,
    pub(super) fields: Map<String, Value>,
}

/// The place of a row in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the row, from 1.
    row: u64,
    /// The number of the line it ends on, from 1; `None` for files without lines.
    line: Option<u64>,
}

#[cfg(test)]
impl Place {
    /// The place of a row in a file without lines.
    pub(super) fn of_row(row: u64) -> Self {
        Self { row, line: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "row {} (line {line})", self.row),
            None => write!(f, "row {}", self.row),
        }
    }
}

/// Whether to continue after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Reading continues with the next row.
    Next,
    /// Stop: enough rows were read.
    Stop,
}

/// Receives rows one by one.
pub(super) type Take<'a> = &'a mut dyn FnMut(Row) -> Result<Then, DatasetError>;

/// The format of a file, from its ending; `C4_200M.tsv-00000-of-00010` is recognised, too.
pub(super) fn ending(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    ENDINGS
        .into_iter()
        .filter(|ending| name.ends_with(&format!(".{ending}")) || name.contains(&format!(".{ending}-")))
        .max_by_key(|ending| ending.len())
}

/// Reads a file's rows in order until `take` stops. Only one row is held in memory; for Parquet, one row group.
pub(super) fn for_each(path: &Path, take: Take) -> Result<Then, DatasetError> {
    match ending(path) {
        Some("json" | "jsonl") => json(path, take),
        Some("csv") => separated(path, b',', take),
        Some("tsv") => separated(path, b'\t', take),
        Some(_) => parquet(path, take),
        None => Err(bad(path, None, format!("the name must end in one of {}", ENDINGS.join(", ")))),
    }
}

/// An error in a file, with the place of the row if it is known.
pub(super) fn bad(path: &Path, place: Option<Place>, reason: impl Into<String>) -> DatasetError {
    DatasetError::Row { path: path.to_owned(), place: place.map(|place| place.to_string()), reason: reason.into() }
}

fn open(path: &Path) -> Result<BufReader<File>, DatasetError> {
    Ok(BufReader::new(foreign::open(path).map_err(DatasetError::read(path))?))
}

/// A reader that counts the line ends in the bytes that are read.
struct Lines<R>(R, Rc<Cell<u64>>);

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(buffer)?;
        let ends = buffer[..count].iter().filter(|byte| **byte == b'\n').count();
        self.1.set(self.1.get() + ends as u64);
        Ok(count)
    }
}

/// Reads an array of objects, or objects one after the other.
fn json(path: &Path, take: Take) -> Result<Then, DatasetError> {
    let mut file = open(path)?;
    let lines = Rc::new(Cell::new(1));
    // The characters before the first row tell which of both it is.
    let first = loop {
        let buffer = file.fill_buf().map_err(DatasetError::read(path))?;
        let Some(byte) = buffer.first().copied() else { return Ok(Then::Next) };
        if !byte.is_ascii_whitespace() {
            break byte;
        }
        lines.set(lines.get() + u64::from(byte == b'\n'));
        file.consume(1);
    };
    let before = lines.get() - 1;
    let reader = Lines(file, Rc::clone(&lines));
    let mut rows = JsonRows { path, lines, row: 0, take, outcome: Ok(Then::Next) };
    let mut parser = serde_json::Deserializer::from_reader(reader);
    let read = if first == b'[' {
        (&mut parser).deserialize_seq(&mut rows).and_then(|()| parser.end())
    } else {
        let mut values = parser.into_iter::<Value>();
        loop {
            match values.next() {
                None => break Ok(()),
                Some(Err(error)) => break Err(error),
                Some(Ok(value)) => {
                    if !rows.take(value) {
                        break Ok(());
                    }
                }
            }
        }
    };
    match (rows.outcome, read) {
        (Ok(Then::Next), Err(error)) => {
            let place = Place { row: rows.row + 1, line: Some(before + error.line() as u64) };
            // The parser's own line number is left out, since the place already contains the line.
            let text = error.to_string();
            let reason = text.split(" at line ").next().unwrap_or_default();
            Err(bad(path, Some(place), format!("not JSON: {reason}")))
        }
        (outcome, _) => outcome,
    }
}

struct JsonRows<'a, 'b> {
    path: &'a Path,
    lines: Rc<Cell<u64>>,
    row: u64,
    take: Take<'b>,
    outcome: Result<Then, DatasetError>,
}

impl JsonRows<'_, '_> {
    /// Passes a row on; returns whether another row is wanted.
    fn take(&mut self, value: Value) -> bool {
        self.row += 1;
        let place = Place { row: self.row, line: Some(self.lines.get()) };
        self.outcome = match value {
            Value::Object(fields) => (self.take)(Row { place, fields }),
            other => {
                Err(bad(self.path, Some(place), format!("a row must be an object of columns, not {}", kind(&other))))
            }
        };
        matches!(self.outcome, Ok(Then::Next))
    }
}

impl<'de> Visitor<'de> for &mut JsonRows<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(value) = rows.next_element_seed(AnyValue)? {
            if !self.take(value) {
                // Reading stops here on purpose: the parser's error about the rest is not reported.
                return Err(serde::de::Error::custom("enough"));
            }
        }
        Ok(())
    }
}

struct AnyValue;

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        serde::Deserialize::deserialize(deserializer)
    }
}

/// The kind of a value in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads CSV with a header line (RFC 4180), or tab-separated values without header and quotes.
fn separated(path: &Path, separator: u8, take: Take) -> Result<Then, DatasetError> {
    let with_names = separator == b',';
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(with_names)
        .quoting(with_names)
        .flexible(true)
        .from_reader(open(path)?);
    let names: Vec<String> = if with_names {
        let names = reader.headers().map_err(|error| separated_error(path, 0, &error))?;
        names.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect()
    } else {
        TSV_COLUMNS.map(str::to_owned).to_vec()
    };
    // For a row that ends with CR LF, the reader counts the line end with the next row.
    let late = u64::from(with_names && ends_on_cr_lf(path)?);
    let mut record = csv::StringRecord::new();
    let mut row = 0;
    loop {
        let more = reader.read_record(&mut record).map_err(|error| separated_error(path, row, &error))?;
        if !more {
            return Ok(Then::Next);
        }
        row += 1;
        let place = Place { row, line: record.position().map(|position| position.line() + late) };
        if record.len() != names.len() {
            let (found, expected) = (record.len(), names.len());
            return Err(bad(path, Some(place), format!("it has {} instead of {expected}", counted(found, "column"))));
        }
        let fields = names.iter().cloned().zip(record.iter().map(|text| Value::String(text.to_owned()))).collect();
        if take(Row { place, fields })? == Then::Stop {
            return Ok(Then::Stop);
        }
    }
}

/// Whether the first line ends with CR LF.
fn ends_on_cr_lf(path: &Path) -> Result<bool, DatasetError> {
    let mut line = Vec::new();
    open(path)?.take(1 << 20).read_until(b'\n', &mut line).map_err(DatasetError::read(path))?;
    Ok(line.ends_with(b"\r\n"))
}

fn separated_error(path: &Path, row: u64, error: &csv::Error) -> DatasetError {
    let line = error.position().map(csv::Position::line);
    let reason = match error.kind() {
        csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
        _ => error.to_string(),
    };
    bad(path, Some(Place { row: row + 1, line }), reason)
}

fn parquet(path: &Path, take: Take) -> Result<Then, DatasetError> {
    let file = foreign::open(path).map_err(DatasetError::read(path))?;
    let mut row = 0;
    // The reader may panic on a damaged file.
    let read = AssertUnwindSafe(|| {
        let at = |row, reason: String| bad(path, Some(Place { row, line: None }), format!("not Parquet: {reason}"));
        let reader =
            SerializedFileReader::new(file).map_err(|error| bad(path, None, format!("not Parquet: {error}")))?;
        let columns = reader.metadata().row_groups().iter().flat_map(|group| group.columns());
        let other = |codec: &Compression| !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY);
        if let Some(codec) = columns.map(|column| column.compression()).find(other) {
            // The codec's text also contains its level.
            let codec = codec.to_string();
            let codec = codec.split('(').next().unwrap_or_default();
            let reason = format!(
                "its columns are compressed with {codec}, but only snappy can be read: write the file again with snappy or without \
                     compression"
            );
            return Err(bad(path, None, reason));
        }
        for read in reader.get_row_iter(None).map_err(|error| at(1, error.to_string()))? {
            row += 1;
            let read = read.map_err(|error| at(row, error.to_string()))?;
            let fields = read.into_columns().into_iter().map(|(name, field)| (name, value(field))).collect();
            if take(Row { place: Place { row, line: None }, fields })? == Then::Stop {
                return Ok(Then::Stop);
            }
        }
        Ok(Then::Next)
    });
    catch_unwind(read).unwrap_or_else(|_| Err(bad(path, None, "not Parquet, or the file is damaged")))
}

fn value(field: Field) -> Value {
    match field {
        Field::Str(text) => Value::String(text),
        Field::Bytes(bytes) => Value::String(String::from_utf8_lossy(bytes.data()).into_owned()),
        Field::Bool(on) => Value::Bool(on),
        Field::Int(number) => number.into(),
        Field::Long(number) => number.into(),
        Field::Float(number) => f64::from(number).into(),
        Field::Double(number) => number.into(),
        Field::Group(row) => {
            Value::Object(row.into_columns().into_iter().map(|(name, field)| (name, value(field))).collect())
        }
        Field::ListInternal(list) => Value::Array(list.elements().iter().cloned().map(value).collect()),
        Field::Null => Value::Null,
        other => Value::String(other.to_string()),
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
