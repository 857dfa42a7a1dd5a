//! `multicard table`: prints a table of the results of one or more sessions.

use std::path::PathBuf;

use clap::Args;

use super::material::Materials;
use super::study::StudyArguments;
use super::{OK, Outcome, TableFormat, print, say, session_folder, variant};
use crate::figure;

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folders, or names of sessions in the default folder. Cells of several sessions are told apart by session, machine, commit and
    /// date.
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<PathBuf>,
    #[command(flatten)]
    study: StudyArguments,
    /// Output format.
    #[arg(long, value_parser = variant::<TableFormat>(), default_value = "md")]
    format: TableFormat,
    /// With Markdown: print all notes. Default: only those that change how a row is read.
    #[arg(long)]
    notes: bool,
}

/// Up to this many notes are printed, since a line that stands for them would be no shorter.
const FOLDED: usize = 2;

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folders: Vec<PathBuf> = arguments.sessions.iter().map(session_folder).collect::<Result<_, _>>()?;
    let study = arguments.study.study(&folders)?;
    let materials = Materials::read(&folders, study.measure.as_deref())?;
    arguments.study.check(&materials.sources())?;
    let mut table = figure::table(&materials.sources(), &study);
    if arguments.format == TableFormat::Csv {
        // CSV has no room for notes.
        table.notes.iter().for_each(say);
    }
    let more = table.notes.iter().filter(|note| !table.lead.contains(note)).count();
    if arguments.format == TableFormat::Markdown && !arguments.notes && more >= FOLDED {
        table.notes = std::mem::take(&mut table.lead);
        table.notes.push(format!("{more} more: --notes"));
    }
    print(&figure::render(&table, arguments.format))?;
    Ok(OK)
}
