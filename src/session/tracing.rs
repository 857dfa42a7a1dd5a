//! Runs under a profiler: how they are started, and how their reports are imported when they have ended.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use super::{Notice, Session, SessionError};
use crate::plan::{Capture, Levels, Node};
use crate::protocol::{Job, TraceOutcome};
use crate::store::{Decision, RunRecord, Store};
use crate::trace::{self, Progress, Stage, TraceError, Window};

/// The report that a profiler writes into a run's folder, without its ending.
const REPORT: &str = "trace";

/// A report that is to be imported.
pub(super) struct ToImport {
    /// The run's id, or the name of a report that stands alone.
    name: String,
    of_run: bool,
    /// Those that the run was planned with.
    levels: Option<Levels>,
    source: Source,
}

/// Where a report is.
enum Source {
    /// In its run's folder, where its export is kept too.
    Recorded(PathBuf),
    /// A file of the user's.
    File(PathBuf),
}

/// An import that is under way.
pub(super) struct Import {
    name: String,
    of_run: bool,
    cancel: Arc<AtomicBool>,
    updates: Receiver<ImportUpdate>,
    thread: Option<JoinHandle<()>>,
}

enum ImportUpdate {
    Progress(f64),
    Done(TraceOutcome),
}

/// The command that starts a job under nsys.
pub(super) fn profiler(node: &Node, job: &Job, capture: Capture) -> Result<Command, String> {
    let nsys = node.nsys.as_ref().map_err(Clone::clone)?;
    let has_gpu = job.ranks.iter().any(|place| place.gpu_uuid.is_some());
    let folder = std::path::absolute(&job.folder).unwrap_or_else(|_| job.folder.clone());
    trace::profile_command(&nsys.path, capture, has_gpu, &folder.join(REPORT))
}

/// The recording in a run's folder.
fn recording(folder: &Path) -> PathBuf {
    folder.join(format!("{REPORT}.nsys-rep"))
}

/// Whether a run waits for the import of its report: an earlier workbench ended before it.
pub(super) fn waits_for_import(record: &RunRecord, folder: &Path) -> bool {
    record.traced && record.state.is_final() && record.trace.is_none() && recording(folder).exists()
}

impl Import {
    /// Starts to import a report.
    fn start(wanted: ToImport) -> Result<Self, SessionError> {
        let (sender, updates) = sync_channel(16);
        let cancel = Arc::<AtomicBool>::default();
        let cancelled = Arc::clone(&cancel);
        let ToImport { name, of_run, levels, source } = wanted;
        let work = move || {
            let outcome = import(&source, levels.as_ref(), &mut |progress| tell(&sender, &cancelled, progress));
            // Whoever no longer listens finds the recording when the session is opened again.
            let _ = outcome.map(|outcome| sender.send(ImportUpdate::Done(outcome)));
        };
        let thread = std::thread::Builder::new().name("import".to_owned()).spawn(work);
        let thread = Some(thread.map_err(SessionError::Thread)?);
        Ok(Self { name, of_run, cancel, updates, thread })
    }

    fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

/// Waits for the end of what nsys was doing, which a cancelled import ends at once.
impl Drop for Import {
    fn drop(&mut self) {
        self.cancel();
        // A thread that waits for room to tell its outcome waits no longer.
        self.updates = sync_channel(0).1;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed where it happened.
            let _ = thread.join();
        }
    }
}

/// A channel that is full has news enough.
fn tell(sender: &SyncSender<ImportUpdate>, cancelled: &AtomicBool, progress: Progress) -> ControlFlow<()> {
    // Reading is quicker than exporting by far.
    let fraction = match progress.stage {
        Stage::Exporting => 0.8 * progress.fraction,
        Stage::Reading => 0.8 + 0.2 * progress.fraction,
    };
    match sender.try_send(ImportUpdate::Progress(fraction)) {
        Err(TrySendError::Disconnected(_)) => ControlFlow::Break(()),
        _ if cancelled.load(Ordering::Relaxed) => ControlFlow::Break(()),
        Ok(()) | Err(TrySendError::Full(_)) => ControlFlow::Continue(()),
    }
}

/// Imports a report; none where that was cancelled.
fn import(
    source: &Source,
    levels: Option<&Levels>,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Option<TraceOutcome> {
    let (file, imported) = match source {
        Source::File(file) => (file.clone(), trace::import(file, &Window::default(), tell)),
        Source::Recorded(folder) => {
            let recording = recording(folder);
            if !recording.exists() {
                return Some(TraceOutcome::Failed(no_recording(folder)));
            }
            protect(&recording);
            let imported = trace::import_recording(&recording, &folder.join(format!("{REPORT}.sqlite")), tell);
            (recording, imported)
        }
    };
    match imported {
        Ok(trace) => Some(TraceOutcome::Imported(Box::new(trace.summary(&named(&file), levels)))),
        Err(TraceError::Cancelled) => None,
        Err(error) => Some(TraceOutcome::Failed(error.to_string())),
    }
}

/// Why a run has no report, as far as its folder tells.
fn no_recording(folder: &Path) -> String {
    let unfinished = folder.join(format!("{REPORT}.qdstrm"));
    let why = if unfinished.exists() {
        format!("nsys recorded {} and could not import it", unfinished.display())
    } else {
        "nsys wrote no report, as it does when the run never came to the window that the plan names".to_owned()
    };
    format!("{why}: group.out and stderr.log in the run's folder say more")
}

/// A file's name.
fn named(file: &Path) -> String {
    file.file_name().map_or_else(|| "report".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What a report that stands alone is called in a session.
fn report_name(file: &Path) -> String {
    file.file_stem().map_or_else(|| "report".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The recording holds the environment of the run: nobody else is to read it.
fn protect(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    // A file system without permissions has nothing to protect.
    let _ = std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600));
}

impl Session {
    /// A traced run has ended: its report is imported before another run starts, so that none is disturbed.
    pub(super) fn import_trace(&mut self, run: &str, levels: Levels) -> Result<(), SessionError> {
        let source = Source::Recorded(self.store.run_folder(run));
        self.to_import.push_back(ToImport { name: run.to_owned(), of_run: true, levels: Some(levels), source });
        self.start_import()
    }

    /// Imports a report from a file, as the trace of a run, or as a report that stands alone and is called by its file's
    /// name. [`Session::advance`] tells how far that is and what came of it.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn attach(&mut self, file: &Path, run: Option<&str>) -> Result<(), SessionError> {
        self.store.flush()?;
        let levels = levels_of(&self.store, run)?;
        let name = run.map_or_else(|| report_name(file), str::to_owned);
        self.to_import.push_back(ToImport {
            name,
            of_run: run.is_some(),
            levels,
            source: Source::File(file.to_owned()),
        });
        self.start_import()
    }

    fn start_import(&mut self) -> Result<(), SessionError> {
        // A run that is under way would be disturbed.
        while self.import.is_none()
            && !self.queue.states().any(|(_, state)| state.is_under_way())
            && let Some(wanted) = self.to_import.pop_front()
        {
            self.import = Some(Import::start(wanted)?);
        }
        Ok(())
    }

    /// Takes what the import said since the last time.
    pub(super) fn take_import(&mut self, notices: &mut Vec<Notice>) -> Result<(), SessionError> {
        let Some(import) = &self.import else { return self.start_import() };
        let name = import.name.clone();
        let of_run = import.of_run;
        let mut over = import.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let mut fraction = None;
        let mut outcome = None;
        for update in import.updates.try_iter() {
            match update {
                ImportUpdate::Progress(so_far) => fraction = Some(so_far),
                ImportUpdate::Done(done) => outcome = Some(done),
            }
        }
        over |= outcome.is_some();
        match outcome {
            // A report that stands alone and cannot be read is nothing to keep.
            Some(outcome) if of_run || matches!(outcome, TraceOutcome::Imported(_)) => {
                self.store.decide(Decision::TraceEnded { name: name.clone(), of_run, outcome: outcome.clone() })?;
                notices.push(Notice::Trace { name, outcome: Some(outcome) });
            }
            Some(outcome) => notices.push(Notice::Trace { name, outcome: Some(outcome) }),
            None if over => notices.push(Notice::Trace { name, outcome: None }),
            None => notices.extend(fraction.map(|fraction| Notice::Importing { name, fraction })),
        }
        if over {
            self.import = None;
            self.start_import()?;
        }
        Ok(())
    }

    /// Ends imports: the recordings stay, and are imported when the session is opened again.
    pub fn cancel_imports(&mut self) {
        self.to_import.clear();
        if let Some(import) = &self.import {
            import.cancel();
        }
    }

    /// Imports of earlier runs that were cut off.
    pub(super) fn take_up_imports(&mut self) -> Result<(), SessionError> {
        let runs = self.store.reader()?.runs()?;
        for record in runs {
            if waits_for_import(&record, &self.store.run_folder(&record.run)) {
                self.import_trace(&record.run, record.levels)?;
            }
        }
        Ok(())
    }
}

/// Imports a report into a session that nobody else writes: as that of a run, or as one that stands alone, called by its
/// file's name. Of the same name the last one counts. Gives what came of it, and its name in the session.
///
/// # Errors
/// When the report cannot be imported, the session cannot be written, or it has no such run.
pub fn attach_report(
    session: &Path,
    file: &Path,
    run: Option<&str>,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<String, SessionError> {
    let store = Store::open(session)?;
    let levels = levels_of(&store, run)?;
    let imported = trace::import(file, &Window::default(), tell)?;
    let name = run.map_or_else(|| report_name(file), str::to_owned);
    let outcome = TraceOutcome::Imported(Box::new(imported.summary(&named(file), levels.as_ref())));
    store.decide(Decision::TraceEnded { name: name.clone(), of_run: run.is_some(), outcome })?;
    store.flush()?;
    Ok(name)
}

/// The levels that a run was planned with; none without a run.
fn levels_of(store: &Store, run: Option<&str>) -> Result<Option<Levels>, SessionError> {
    let Some(run) = run else { return Ok(None) };
    let record = store.reader()?.run(run)?;
    Ok(Some(record.ok_or_else(|| SessionError::UnknownRun { run: run.to_owned() })?.levels))
}
