//! `multicard trace`: summarises a recording, lists its collectives, or keeps its events.

mod collectives;

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::conduct::ordered;
use super::{INTERRUPTED, OK, Outcome, print, say, session_folder};
use crate::conduct::Order;
use crate::session::{SessionError, attach_report};
use crate::trace::{self, Progress, Stage, TraceError, Window};

#[derive(Args)]
pub(super) struct Arguments {
    /// An .nsys-rep (needs nsys), its export by `nsys export --type sqlite`, or an events file.
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
    /// Write its events to this file instead, which takes a fraction of the space and holds no environment, paths or commands; `trace` reads it as it reads the
    /// report.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "format", "session"])]
    events: Option<PathBuf>,
    /// Write its events to this file instead, as JSON that ui.perfetto.dev shows on a timeline.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "session", "events"])]
    perfetto: Option<PathBuf>,
    /// Print its collectives instead, by name and size: calls, and time that is hidden, spent waiting for the slowest rank, and exposed.
    #[arg(long, conflicts_with_all = ["from", "to", "events", "perfetto", "session"])]
    collectives: bool,
    /// Store its metrics in this session, where `table --preset metrics` and the window compare them.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to", "format"])]
    session: Option<PathBuf>,
    /// Store it as the trace of this run. Default: as a standalone report.
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

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let window = Window { from_s: arguments.from, to_s: arguments.to };
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))?;
    let bar = bar()?;
    let mut on_progress = |progress| {
        show(&bar, progress);
        if interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    if let Some(session) = &arguments.session {
        let folder = session_folder(session)?;
        let file = std::path::absolute(&arguments.file)?;
        if ordered(&folder, Order::Attach(file, arguments.run.clone()))? {
            say(
                "the process that runs this session imports it, once no run is active: multicard attach says how that ends",
            );
            return Ok(OK);
        }
        let stored = attach_report(&folder, &arguments.file, arguments.run.as_deref(), &mut on_progress);
        bar.finish_and_clear();
        return match stored {
            Ok(name) => {
                say(format_args!("stored as {name}; multicard table {} --preset metrics", session.display()));
                Ok(OK)
            }
            Err(SessionError::Trace(TraceError::Cancelled)) => {
                say("interrupted");
                Ok(INTERRUPTED)
            }
            Err(error) => Err(error.into()),
        };
    }
    let written = match (&arguments.events, &arguments.perfetto) {
        (Some(events), _) => Some((events, trace::keep_events(&arguments.file, events, &mut on_progress))),
        (None, Some(json)) => Some((json, trace::export_perfetto(&arguments.file, &window, json, &mut on_progress))),
        (None, None) => None,
    };
    if let Some((file, written)) = written {
        bar.finish_and_clear();
        return match written {
            Err(TraceError::Cancelled) => {
                say("interrupted");
                Ok(INTERRUPTED)
            }
            written => {
                written?;
                let size = |file: &PathBuf| std::fs::metadata(file).map_or(0.0, |about| about.len() as f64 / 1e6);
                say(format_args!("{}: {:.1} MB of {:.1} MB", file.display(), size(file), size(&arguments.file)));
                Ok(OK)
            }
        };
    }
    if arguments.collectives {
        let read = collectives::read(&arguments.file, &mut on_progress);
        bar.finish_and_clear();
        return match read {
            Err(TraceError::Cancelled) => {
                say("interrupted");
                Ok(INTERRUPTED)
            }
            Ok(all) if all.is_empty() && arguments.format != Format::Json => {
                say("no collectives were recorded");
                Ok(OK)
            }
            read => {
                print(&collectives::table(&read?, arguments.format)?)?;
                Ok(OK)
            }
        };
    }
    let imported = trace::import(&arguments.file, &window, &mut on_progress);
    bar.finish_and_clear();
    let trace = match imported {
        Err(TraceError::Cancelled) => {
            say("interrupted");
            return Ok(INTERRUPTED);
        }
        imported => imported?,
    };
    match arguments.format {
        Format::Md => print(&trace::markdown(&trace))?,
        Format::Csv => {
            // CSV has no room for warnings.
            trace.warnings.iter().chain(&trace.notes).for_each(say);
            print(&trace::csv(&trace))?;
        }
        Format::Json => print(&serde_json::to_string_pretty(&trace)?)?,
    }
    Ok(OK)
}

fn bar() -> Result<ProgressBar, Box<dyn std::error::Error>> {
    if !std::io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let bar = ProgressBar::new(1000).with_style(ProgressStyle::with_template("{msg} {bar:40} {percent} %")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_message(match progress.stage {
        Stage::Exporting => "exporting",
        Stage::Reading => "reading",
    });
    bar.set_position((progress.fraction * 1000.0) as u64);
}
