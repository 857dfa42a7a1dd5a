#![doc = include_str!("export/export.md")]

mod parquet;
mod sink;
mod tables;

use std::io;
use std::path::Path;

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use thiserror::Error;

use crate::foreign::Output;
use crate::plan::{Filter, Unordered, named};
use crate::store::{Reader, StoreError};

/// What the rows of a table are. The line that documents it is also its help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray, IntoStaticStr, EnumMessage)]
#[strum(serialize_all = "lowercase")]
pub enum What {
    /// Measures: a row for each run and measure.
    Runs,
    /// Training steps: a row for each step of each rank.
    Steps,
    /// Readings of epochs: a row for each rank, epoch and measure.
    Epochs,
    /// Telemetry: a row for each moment and subject (host, GPU, rank).
    Samples,
    /// Evidence: a row for each observation of whether a factor is in effect.
    Evidence,
    /// Environments: a row for each fact of a run's environment (driver, libraries, settings).
    Environment,
}

named!(What: name, help);

/// The format of an exported file. The line that documents it is also its help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray, IntoStaticStr, EnumMessage)]
#[strum(serialize_all = "lowercase")]
pub enum Format {
    /// CSV (RFC 4180 with plain newlines) in UTF-8, with a header line.
    Csv,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

named!(Format: name, help);

/// Why a table could not be exported.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The session could not be read.
    #[error(transparent)]
    Session(#[from] StoreError),
    /// The filter asks for an order of levels that have none.
    #[error("filter {0}")]
    Filter(#[from] Unordered),
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The Parquet writer failed.
    #[error("writing Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// It was asked to stop.
    #[error("interrupted; nothing was kept")]
    Interrupted,
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Runs that the filter admits.
    pub runs: usize,
    /// Rows.
    pub rows: u64,
    /// What the filter's keys mean that are keys of factors and of something else, and which keys no run has, one line each.
    pub meanings: Vec<String>,
}

/// Exports into a file, as [`export`] does. The file gets its name once it is complete, and then replaces an earlier file of this name.
///
/// # Errors
/// The errors of [`export`], with the file's name. If the export fails, nothing is kept of it.
pub fn export_to_file(
    reader: &Reader,
    session: &str,
    what: What,
    filter: &Filter,
    format: Format,
    file: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Exported, ExportError> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("writing {}: {error}", file.display()));
    let output = Output::replacing(file).map_err(named)?;
    let to = output.writer().map_err(named)?;
    let exported = export(reader, session, what, filter, format, to, stop);
    let exported =
        exported.map_err(|error| if let ExportError::Io(error) = error { named(error).into() } else { error })?;
    output.keep().map_err(named)?;
    Ok(exported)
}

/// Writes a table of a session's runs that a filter admits, one run at a time. `session` is the name in its first column; `stop` is
/// asked now and then whether to give up.
///
/// # Errors
/// The session cannot be read, the filter asks for an order of names, the file cannot be written, or `stop` said so.
pub fn export(
    reader: &Reader,
    session: &str,
    what: What,
    filter: &Filter,
    format: Format,
    to: impl io::Write + Send + 'static,
    stop: &dyn Fn() -> bool,
) -> Result<Exported, ExportError> {
    let records = reader.headings()?;
    let (listed, meanings) = (tables::admitted(&records, filter)?, tables::meanings(&records, filter));
    drop(records);
    let columns = tables::Columns::new(reader, what, &listed)?;
    let all = columns.all();
    let mut sink: Box<dyn sink::Sink> = match format {
        Format::Csv => Box::new(sink::Csv::new(to, &all)?),
        Format::Parquet => Box::new(parquet::Parquet::new(to, &all)?),
    };
    let mut rows = tables::Rows { sink: &mut *sink, rows: 0, stop };
    for heading in &listed {
        tables::write_run(reader, session, what, heading, &columns, &mut rows)?;
    }
    let exported = Exported { runs: listed.len(), rows: rows.rows, meanings };
    sink.finish()?;
    Ok(exported)
}
