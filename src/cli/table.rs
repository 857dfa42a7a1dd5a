//! `multicard table`: a table of a session's results.

use std::path::PathBuf;

use clap::Args;

use super::{OK, Outcome, TableFormat, print, say, session_folder};
use crate::analysis::{summarise_report, summarise_run};
use crate::figure;
use crate::store::Reader;

#[derive(Args)]
pub(super) struct Arguments {
    /// The session's folder, or the name of one in the default place.
    session: PathBuf,
    /// Which table: that of a figure of this name (times, loading, loss, memory, scaling, metrics, …).
    #[arg(long, default_value = "times")]
    preset: String,
    /// The cell that speed-ups are relative to; by default the first row.
    #[arg(long)]
    baseline: Option<String>,
    /// With runs that a profiler recorded, which costs time.
    #[arg(long)]
    traced: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value_t = TableFormat::Md)]
    format: TableFormat,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let preset = figure::preset(&arguments.preset)?;
    let reader = Reader::open(&session_folder(&arguments.session)?)?;
    let mut summaries = Vec::new();
    for listed in reader.runs()? {
        // With its steps, one run at a time: a session may be larger than memory.
        if let Some(record) = reader.run(&listed.run)? {
            summaries.push(summarise_run(&record));
        }
    }
    for (name, report) in reader.reports()? {
        summaries.push(summarise_report(&name, report));
    }
    let preset = if arguments.traced { preset.with_traced() } else { preset };
    let table = figure::table(preset, &summaries, arguments.baseline.as_deref());
    if let Some(baseline) = &table.unmatched_baseline {
        return Err(format!("--baseline {baseline}: no row has this cell id or these levels").into());
    }
    if arguments.format == TableFormat::Csv {
        // A file of rows has no place for them.
        table.notes.iter().for_each(say);
    }
    print(&figure::render(&table, arguments.format.into()))?;
    Ok(OK)
}
