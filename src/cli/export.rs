//! `multicard export`: long tables of a session for other programs.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;

use super::follow::interrupts;
use super::output::of_stdout;
use super::{INTERRUPTED, OK, Outcome, say, session_folder, variant};
use crate::analysis::counted;
use crate::export::{ExportError, Exported, Format, What, export, export_to_file};
use crate::plan::Filter;

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folder, or the name of a session in the default folder.
    session: PathBuf,
    /// What each row describes.
    #[arg(long, value_parser = variant::<What>())]
    what: What,
    /// Output format. Default: by the ending of the output file, or CSV.
    #[arg(long, value_parser = variant::<Format>())]
    format: Option<Format>,
    /// Include only these runs: words that occur in their levels, or comparisons such as "precision=fp16 and state=finished".
    #[arg(long, default_value = "", hide_default_value = true)]
    filter: String,
    /// File to write, replaced if it exists. Default: standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = session_folder(&arguments.session)?;
    let filter =
        Filter::parse(&arguments.filter).map_err(|error| format!("--filter {:?}: {error}", arguments.filter))?;
    let by_ending = || match arguments.output.as_ref()?.extension()?.to_str()? {
        "parquet" => Some(Format::Parquet),
        "csv" => Some(Format::Csv),
        _ => None,
    };
    let format = arguments.format.or_else(by_ending).unwrap_or(Format::Csv);
    if format == Format::Parquet && arguments.output.is_none() && io::stdout().is_terminal() {
        return Err("--format parquet cannot be written to a terminal: name a file with --output FILE".into());
    }
    let interrupted = interrupts()?;
    let reader = super::material::open(&folder)?;
    let name = folder.canonicalize()?.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let what = arguments.what;
    let stop = || interrupted.load(Ordering::Relaxed);
    let exported = match &arguments.output {
        None => export(&reader, &name, what, &filter, format, io::stdout(), &stop),
        Some(file) => export_to_file(&reader, &name, what, &filter, format, file, &stop),
    };
    match exported {
        Ok(Exported { runs, rows, meanings }) => {
            meanings.iter().for_each(|meaning| say(format_args!("--filter: {meaning}")));
            if runs == 0 && !filter.is_empty() {
                say(format_args!("--filter {:?}: no run of the session matches", arguments.filter));
            }
            if let Some(file) = &arguments.output {
                say(format_args!(
                    "{} from {} in {}",
                    counted(rows as usize, "row"),
                    counted(runs, "run"),
                    file.display()
                ));
            }
            Ok(OK)
        }
        Err(error @ ExportError::Interrupted) => {
            say(error);
            Ok(INTERRUPTED)
        }
        // A reader such as `head` has closed the pipe.
        Err(ExportError::Io(error)) if arguments.output.is_none() => Err(of_stdout(&error).into()),
        Err(error) => Err(error.into()),
    }
}
