//! `multicard session`: rebuilds, exports and imports sessions.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};

use super::{INTERRUPTED, OK, Outcome, SOME_RUN_FAILED, say, session_folder};
use crate::session::default_sessions_folder;
use crate::store::{self, ArchiveError, ArchiveProgress};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Rebuild the index from the logs.
    Rebuild {
        /// Session folder, or the name of a session in the default folder.
        session: PathBuf,
    },
    /// Export a session as a ZIP archive with sizes and SHA-256 checksums. Excludes the index and the recordings of Nsight
    /// Systems (.nsys-rep), which contain the environment of programs.
    Export {
        /// Session folder, or the name of a session in the default folder.
        session: PathBuf,
        /// The archive to write; it must end in .zip and not exist yet.
        #[arg(long, value_name = "FILE.zip")]
        out: PathBuf,
    },
    /// Import a session from an archive after verifying all checksums.
    Import {
        /// The archive.
        file: PathBuf,
        /// Folder of the new session; it must not exist yet. Default: named after the archive, in the default folder.
        #[arg(long, value_name = "DIR")]
        session: Option<PathBuf>,
    },
}

pub(super) fn run(command: Command) -> Outcome {
    match command {
        Command::Rebuild { session } => rebuild(&session_folder(&session)?),
        Command::Export { session, out } => {
            let session = session_folder(&session)?;
            let work = |progress: ArchiveProgress<'_>| store::export_session(&session, &out, progress);
            let done = |left_out| format!("{} holds {}{left_out}", out.display(), session.display());
            transfer("exporting", work, done)
        }
        Command::Import { file, session } => {
            let session = match session {
                Some(session) => session,
                None => default_folder(&file)?,
            };
            let work = |progress: ArchiveProgress<'_>| store::import_session(&file, &session, progress);
            transfer("importing", work, |()| format!("session {}", session.display()))
        }
    }
}

fn rebuild(session: &Path) -> Outcome {
    let report = store::rebuild(session, &mut |_, _| {})?;
    say(format_args!("{} runs, {} events, {} samples", report.runs, report.events, report.samples));
    for damage in &report.damaged {
        say(format_args!("excluded: {damage}"));
    }
    Ok(if report.damaged.is_empty() { OK } else { SOME_RUN_FAILED })
}

/// The session folder named after an archive, in the default folder.
fn default_folder(archive: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let name = archive.file_stem().ok_or("the archive's path does not name a file")?;
    Ok(default_sessions_folder()?.join(name))
}

/// Runs work with a progress bar until it ends or is interrupted.
fn transfer<T>(
    what: &'static str,
    work: impl FnOnce(ArchiveProgress<'_>) -> Result<T, ArchiveError>,
    done: impl FnOnce(T) -> String,
) -> Outcome {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::with_template("{msg} {bar:40} {bytes}/{total_bytes} ETA {eta}")?);
    bar.set_message(what);
    let outcome = work(&mut |done_bytes, total_bytes| {
        bar.set_length(total_bytes);
        bar.set_position(done_bytes);
        if interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    match outcome {
        Err(error @ ArchiveError::Cancelled) => {
            say(error);
            Ok(INTERRUPTED)
        }
        outcome => {
            say(done(outcome?));
            Ok(OK)
        }
    }
}
