//! `multicard trace`: summarises a recording, lists its collectives, or keeps its events.

mod collectives;

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use super::conduct::ordered_or;
use super::follow::interrupts;
use super::{INTERRUPTED, OK, Outcome, print, progress_bar, say, session_folder};
use crate::conduct::Order;
use crate::session::{SessionError, attach_report};
use crate::trace::{self, Progress, Stage, StepsFrom, TraceError, Window};

#[derive(Args)]
pub(super) struct Arguments {
    /// An .nsys-rep (needs nsys), its export by `nsys export --type sqlite`, a trace of PyTorch's profiler (.json, .json.gz) or a folder with
    /// those of several ranks, or an events file.
    file: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
    /// Include only events from this time on, in seconds from the report's start.
    #[arg(long, value_name = "SECONDS")]
    from: Option<f64>,
    /// Include only events that start before this time.
    #[arg(long, value_name = "SECONDS")]
    to: Option<f64>,
    /// What divides the recording into steps. NAME is a range, kernel, collective or call, or a part of its name: each
    /// range is a step, and each kernel, collective or call begins one. N:M are two marks around one step, in seconds
    /// from the recording's start: the first event after N divides the recording, and each step has as many of these
    /// events as there are between N and M. Default: ranges that name steps, the program's lines of output, or a kernel
    /// or collective that recurs.
    #[arg(long, value_name = "NAME|N:M", conflicts_with_all = ["events", "perfetto", "session"])]
    steps_from: Option<StepsFrom>,
    /// Write the recording's events to this file instead. It takes a fraction of the space and contains no environment, paths or commands;
    /// `trace` reads it like the report.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "format", "session"])]
    events: Option<PathBuf>,
    /// Write the recording's events to this file instead, as JSON that ui.perfetto.dev shows on a timeline.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "session", "events"])]
    perfetto: Option<PathBuf>,
    /// Print the recording's collectives instead, by name and size: calls, and the time that is hidden, spent waiting for the slowest rank,
    /// and exposed.
    #[arg(long, conflicts_with_all = ["from", "to", "events", "perfetto", "session"])]
    collectives: bool,
    /// Store the recording's metrics in this session, where `table --preset metrics` and the window compare them.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to", "format"])]
    session: Option<PathBuf>,
    /// Store the metrics as the trace of this run. Default: as a standalone report.
    #[arg(long, requires = "session")]
    run: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Markdown; long lists are shortened.
    Md,
    /// CSV with every name.
    Csv,
    /// JSON with all data.
    Json,
}

/// What is printed when the work is done: messages to stderr, then data to stdout.
struct Answer {
    messages: Vec<String>,
    data: Option<String>,
}

impl Answer {
    fn message(message: impl Into<String>) -> Self {
        Self { messages: vec![message.into()], data: None }
    }

    fn data(data: String) -> Self {
        Self { messages: Vec::new(), data: Some(data) }
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let interrupted = interrupts()?;
    let bar = progress_bar("{msg} {bar:40} {percent} %");
    bar.set_length(1000);
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    let answer = answer(arguments, &mut |progress| {
        show(&bar, progress);
        if interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    match answer {
        Err(error) if is_cancelled(&*error) => {
            say("interrupted");
            Ok(INTERRUPTED)
        }
        answer => {
            let Answer { messages, data } = answer?;
            messages.iter().for_each(say);
            data.map_or(Ok(()), |data| print(&data))?;
            Ok(OK)
        }
    }
}

fn is_cancelled(error: &(dyn Error + 'static)) -> bool {
    let of_session = || error.downcast_ref().map(|error| matches!(error, SessionError::Trace(TraceError::Cancelled)));
    error.downcast_ref().map(|error| matches!(error, TraceError::Cancelled)).or_else(of_session).unwrap_or(false)
}

fn answer(arguments: &Arguments, tell: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Answer, Box<dyn Error>> {
    let Arguments { file, format, .. } = arguments;
    let window = Window { from_s: arguments.from, to_s: arguments.to };
    if let Some(session) = &arguments.session {
        return attach(session, file, arguments.run.as_deref(), tell);
    }
    if let Some(events) = &arguments.events {
        trace::keep_events(file, events, tell)?;
        return Ok(Answer::message(written_text(events)));
    }
    if let Some(json) = &arguments.perfetto {
        trace::export_perfetto(file, &window, json, tell)?;
        return Ok(Answer::message(written_text(json)));
    }
    if arguments.collectives {
        let all = collectives::read(file, tell)?;
        if all.is_empty() && *format != Format::Json {
            return Ok(Answer::message("no collectives were recorded"));
        }
        return Ok(Answer::data(collectives::table(&all, *format)?));
    }
    let steps = arguments.steps_from.clone().unwrap_or_default();
    let trace = trace::import_divided(file, &window, &steps, tell)?;
    Ok(match format {
        Format::Md => Answer::data(trace::markdown(&trace)),
        // CSV has no room for warnings.
        Format::Csv => {
            Answer { data: Some(trace::csv(&trace)), messages: trace.warnings.into_iter().chain(trace.notes).collect() }
        }
        Format::Json => Answer::data(serde_json::to_string_pretty(&trace)?),
    })
}

/// Stores the metrics of a recording in a session. If another process runs the session, that process stores them.
fn attach(
    session: &PathBuf,
    file: &Path,
    run: Option<&str>,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Answer, Box<dyn Error>> {
    let folder = session_folder(session)?;
    let order = Order::Attach(std::path::absolute(file)?, run.map(str::to_owned));
    Ok(Answer::message(match ordered_or(&folder, &order, || attach_report(&folder, file, run, tell))? {
        Some(name) => format!("stored as {name}; multicard table {} --preset metrics", session.display()),
        None => "the process that runs this session imports the recording once no run is active: multicard attach shows how the import ends"
            .to_owned(),
    }))
}

/// The message about a file that was written from a recording, with its size.
fn written_text(file: &Path) -> String {
    let megabytes = std::fs::metadata(file).map_or(0.0, |about| about.len() as f64 / 1e6);
    format!("{} written, {megabytes:.1} MB", file.display())
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_message(match progress.stage {
        Stage::Exporting => "exporting",
        Stage::Reading => "reading",
    });
    bar.set_position((progress.fraction * 1000.0) as u64);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_written_is_named_with_its_size() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![0_u8; 240_000]).unwrap();
        assert_eq!(written_text(file.path()), format!("{} written, 0.2 MB", file.path().display()));
    }
}
