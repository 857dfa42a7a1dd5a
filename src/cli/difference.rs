//! `multicard diff`: what became faster or slower between two sessions, cell by cell.

use std::path::PathBuf;

use clap::Args;

use super::material::Material;
use super::{OK, Outcome, SOME_RUN_FAILED, TableFormat, print, say, session_folder, variant};
use crate::analysis::{Better, cells, measure_of};
use crate::figure::{self, difference};

#[derive(Args)]
pub(super) struct Arguments {
    /// The session before: its folder, or its name in the default place.
    before: PathBuf,
    /// The session after.
    after: PathBuf,
    /// The measure, by its key.
    #[arg(long, value_name = "KEY", default_value = "step_time_s")]
    measure: String,
    /// Differences below this share are none: 0.01 for 1 %.
    #[arg(long, value_name = "SHARE", default_value_t = crate::analysis::EQUAL_WITHIN)]
    equal_within: f64,
    /// How to write it.
    #[arg(long, value_parser = variant::<TableFormat>(), default_value = "md")]
    format: TableFormat,
}

/// Exit code 1 where a cell became worse.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    if !(0.0..1.0).contains(&arguments.equal_within) {
        return Err(format!("--equal-within {}: give a share from 0 to below 1", arguments.equal_within).into());
    }
    let (before, after) = (session_folder(&arguments.before)?, session_folder(&arguments.after)?);
    let (before, after) = (Material::read(&before)?, Material::read(&after)?);
    let (before, after) = (cells(&before.runs), cells(&after.runs));
    let Some(measure) = measure_of(&before, &arguments.measure).filter(|one| one.better != Better::Neither) else {
        let asked = &arguments.measure;
        return Err(format!("--measure {asked}: no measure of these runs that is better low or high; `multicard help method` lists measures").into());
    };
    let found = difference(&before, &after, measure, arguments.equal_within);
    if found.table.rows.is_empty() {
        return Err("the sessions have no cell in common: nothing to compare".into());
    }
    if arguments.format == TableFormat::Csv {
        // A file of rows has no place for them.
        found.table.notes.iter().for_each(say);
    }
    print(&figure::render(&found.table, arguments.format))?;
    Ok(if found.worse > 0 { SOME_RUN_FAILED } else { OK })
}
