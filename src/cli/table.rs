//! `multicard table`: prints a table of the results of one or more sessions.

use std::path::PathBuf;

use clap::Args;

use super::material::Materials;
use super::study::StudyArguments;
use super::{OK, Outcome, TableFormat, print, say, session_folder, variant};
use crate::figure;
use crate::session::{SearchReport, open_reader, search_reports};

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folders, or names of sessions in the default folder. With several sessions, their cells are
    /// distinguished by session, machine, commit and date.
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

/// The answers of a session's searches, for the lines below its table.
fn searches_text(searches: &[SearchReport]) -> String {
    let of_search = |search: &SearchReport| {
        let lines: Vec<String> = search.answer().into_iter().map(|line| format!("- {}", line.trim_start())).collect();
        format!("\n\nSearch of {}: {}\n\n{}", search.name, search.question, lines.join("\n"))
    };
    searches.iter().map(of_search).collect()
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folders: Vec<PathBuf> = arguments.sessions.iter().map(session_folder).collect::<Result<_, _>>()?;
    let study = arguments.study.study(&folders)?;
    let materials = Materials::read(&folders, &study)?;
    arguments.study.check(&materials.sources())?;
    let mut table = figure::table(&materials.sources(), &study);
    let unit = arguments.study.unit_of_figures();
    table.lead.extend(unit.clone());
    table.notes.extend(unit);
    if arguments.format == TableFormat::Csv {
        // CSV has no room for notes.
        table.notes.iter().for_each(say);
    }
    let more = table.notes.iter().filter(|note| !table.lead.contains(note)).count();
    let is_folded = !arguments.notes && !table.rows.is_empty() && more >= FOLDED;
    if arguments.format == TableFormat::Markdown && is_folded {
        table.notes = std::mem::take(&mut table.lead);
        table.notes.push(format!("{more} more: --notes"));
    }
    let mut text = figure::render(&table, arguments.format);
    if arguments.format == TableFormat::Markdown {
        for folder in &folders {
            text += &searches_text(&search_reports(&open_reader(folder)?)?);
        }
    }
    print(&text)?;
    Ok(OK)
}
