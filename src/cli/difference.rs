//! `multicard diff`: what became faster or slower between sessions before a change and sessions after it, cell by cell.

mod kernels;

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, Parser};

use super::material::{Material, refuse_copies, share_measures};
use super::percent::share;
use super::{OK, Outcome, SOME_RUN_FAILED, TableFormat, UNDECIDED, print, say, session_folder, variant};
use crate::analysis::{Better, Cell, cells, measure_of, why_absent};
use crate::figure::{self, DifferenceOutcome, difference};

#[derive(Args)]
pub(super) struct Arguments {
    /// The sessions before: folders, or names in the default folder. Without `--`, the last one is the session after.
    #[arg(required = true, value_name = "BEFORE")]
    before: Vec<PathBuf>,
    /// The sessions after, written after `--`.
    #[arg(last = true, value_name = "AFTER")]
    after: Vec<String>,
    #[command(flatten)]
    options: Options,
}

/// The options that may also follow the sessions after `--`.
#[derive(Args, Clone)]
struct Options {
    /// The measure, by its key.
    #[arg(long, value_name = "KEY", default_value = "step_time_s")]
    measure: String,
    /// By how much a cell may become worse, such as 2%; smaller differences are called equal.
    #[arg(long, alias = "equal-within", value_name = "PERCENT", value_parser = margin, default_value = "1%")]
    margin: f64,
    /// Compare recordings instead: which kernels, copies and idle times explain the difference of a step. Recordings (trace.events, reports
    /// of nsys) can take the place of sessions.
    #[arg(long)]
    kernels: bool,
    /// With --kernels: the cells before, such as precision=fp32. With this or --of-after, a single session can be on both sides.
    #[arg(long, value_name = "FILTER", requires = "kernels", default_value = "")]
    of_before: String,
    /// With --kernels: the cells after.
    #[arg(long, value_name = "FILTER", requires = "kernels", default_value = "")]
    of_after: String,
    /// Also give verdicts between sessions that were imported (`multicard import`) and sessions that were measured
    /// here.
    #[arg(long)]
    imported: bool,
    /// Output format.
    #[arg(long, value_parser = variant::<TableFormat>(), default_value = "md")]
    format: TableFormat,
}

/// The arguments after `--`: sessions, then options, since users of a shell write options last.
#[derive(Parser)]
#[command(name = "multicard diff", no_binary_name = true)]
struct Behind {
    sessions: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// Exit code 0 if every cell of the sessions before is shown to be no worse than the margin allows, 1 if a cell became worse, 3 if the runs
/// cannot decide it or a cell has vanished.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let (paths_before, paths_after, options) = sides(arguments)?;
    if options.kernels {
        return compare_kernels(&paths_before, &paths_after, &options);
    }
    let read = |sessions: &[PathBuf]| -> Result<Vec<Material>, Box<dyn Error>> {
        sessions.iter().map(|session| Material::read(&session_folder(session)?)).collect()
    };
    let (mut before, mut after) = (read(&paths_before)?, read(&paths_after)?);
    refuse_copies(paths_before.iter().chain(&paths_after).zip(before.iter().chain(&after)))?;
    let judged = std::iter::once(("--measure", options.measure.as_str()));
    share_measures(before.iter_mut().chain(&mut after).collect(), judged)?;
    let mut runs = before.iter().chain(&after).flat_map(|material| &material.runs);
    if let Some(why) = why_absent(runs.clone(), &options.measure) {
        return Err(why.into());
    }
    // Runs without a recording have no such measure.
    let needs_recording = runs.any(|run| run.measures.is_of_reports(&options.measure));
    let (before, after) = (cells_of_each(&before, needs_recording), cells_of_each(&after, needs_recording));
    let Some(measure) =
        before.iter().find_map(|cells| measure_of(cells, &options.measure)).filter(|one| one.better != Better::Neither)
    else {
        let asked = &options.measure;
        return Err(format!("--measure {asked}: these runs have no such measure, or it is not known whether high or low values of it are good; \
             `multicard help method` lists measures").into());
    };
    let comparison = difference(&before, &after, measure, (options.margin, options.imported));
    if comparison.table.rows.is_empty() {
        return Err("the sessions have no cell in common: nothing to compare".into());
    }
    if options.format == TableFormat::Csv {
        // A file of rows has no place for them.
        comparison.table.notes.iter().for_each(say);
    }
    print(&figure::render(&comparison.table, options.format))?;
    Ok(match comparison.outcome {
        DifferenceOutcome::NoWorse => OK,
        DifferenceOutcome::Worse => SOME_RUN_FAILED,
        DifferenceOutcome::Open => UNDECIDED,
    })
}

/// Prints what explains the difference of a step.
fn compare_kernels(before: &[PathBuf], after: &[PathBuf], options: &Options) -> Outcome {
    let before = kernels::Side { paths: before, filter: &options.of_before, option: "--of-before" };
    let after = kernels::Side { paths: after, filter: &options.of_after, option: "--of-after" };
    let is_for_readers = matches!(options.format, TableFormat::Markdown | TableFormat::Latex);
    for table in kernels::tables(&before, &after, !is_for_readers)? {
        if options.format == TableFormat::Csv {
            table.notes.iter().for_each(say);
        }
        print(&figure::render(&table, options.format))?;
    }
    Ok(OK)
}

/// The cells of each session: all, or those with recordings.
fn cells_of_each(sessions: &[Material], needs_recording: bool) -> Vec<Vec<Cell<'_>>> {
    let is_compared = |cell: &Cell| !needs_recording || cell.runs.iter().any(|run| run.trace_summary().is_some());
    sessions.iter().map(|material| cells(&material.runs).into_iter().filter(is_compared).collect()).collect()
}

/// The sessions before, those after, and the options.
type Sides = (Vec<PathBuf>, Vec<PathBuf>, Options);

/// Splits the arguments into the sessions of each side and the options, wherever the options stand.
fn sides(arguments: &Arguments) -> Result<Sides, Box<dyn Error>> {
    let (mut before, options) = (arguments.before.clone(), arguments.options.clone());
    let is_within_one = options.kernels && !(options.of_before.is_empty() && options.of_after.is_empty());
    if arguments.after.is_empty() && is_within_one && before.len() == 1 {
        return Ok((before.clone(), before, options));
    }
    if arguments.after.is_empty() {
        let after = before.pop().filter(|_| !before.is_empty());
        let after = after
            .ok_or("give sessions before and after: multicard diff BEFORE AFTER, or multicard diff A1 A2 -- B1 B2")?;
        if before.len() > 1 {
            return Err("put -- between the sessions before and those after: multicard diff A1 A2 -- B1 B2".into());
        }
        return Ok((before, vec![after], options));
    }
    if arguments.after.iter().all(|text| !text.starts_with("--")) {
        return Ok((before, arguments.after.iter().map(PathBuf::from).collect(), options));
    }
    let behind = Behind::try_parse_from(&arguments.after).map_err(|error| error.to_string())?;
    Ok((before, behind.sessions, behind.options))
}

/// Reads the share by which a cell may become worse.
fn margin(text: &str) -> Result<f64, String> {
    share(text, 0.0..100.0, "from 0 to below 100, such as 2%")
}
