//! `multicard table`: prints a table of a session's results.

use std::path::PathBuf;

use clap::Args;

use super::material::Material;
use super::study::StudyArguments;
use super::{OK, Outcome, TableFormat, print, say, session_folder, variant};
use crate::figure;

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folder, or the name of a session in the default folder.
    session: PathBuf,
    #[command(flatten)]
    study: StudyArguments,
    /// Output format.
    #[arg(long, value_parser = variant::<TableFormat>(), default_value = "md")]
    format: TableFormat,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = session_folder(&arguments.session)?;
    let study = arguments.study.study(&folder)?;
    let material = Material::read(&folder)?;
    arguments.study.check(&material)?;
    let table = figure::table(&material.sources(), &study);
    if arguments.format == TableFormat::Csv {
        // CSV has no room for notes.
        table.notes.iter().for_each(say);
    }
    print(&figure::render(&table, arguments.format))?;
    Ok(OK)
}
