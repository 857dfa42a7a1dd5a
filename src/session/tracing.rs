//! Traced runs: starting them under a profiler, and importing what was recorded afterwards.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use super::{Notice, Session, SessionError};
use crate::plan::{Capture, Levels, Node, Tracer, WorkloadSpec};
use crate::protocol::{EVENTS_FILE, Job, NOTHING_RECORDED, TraceOutcome};
use crate::store::{Decision, RunRecord, Store};
use crate::trace::{self, Progress, ReportedStep, Stage, Trace, TraceError, Window};

/// File name of the profiler's report in a run's folder, without extension.
const REPORT: &str = "trace";

/// A report to import.
pub(super) struct ToImport {
    /// The run's id, or the name of a standalone report.
    name: String,
    of_run: bool,
    planned: Option<Planned>,
    source: Source,
}

/// The plan of the run that a report belongs to.
struct Planned {
    spec: Arc<WorkloadSpec>,
    levels: Levels,
    /// The steps that its program reported, which mark the steps of its recording.
    steps: Vec<ReportedStep>,
}

impl Planned {
    fn of(record: RunRecord) -> Self {
        let is_program = record.workload.command.is_some();
        let reported = record.ranks.iter().filter(|_| is_program).take(1).flat_map(|rank| &rank.steps);
        let reported = reported.map(|step| ReportedStep { start_s: step.time_s - step.duration_s, end_s: step.time_s });
        let steps = reported.filter(|step| step.start_s.is_finite() && step.end_s.is_finite()).collect();
        Self { steps, spec: record.workload, levels: record.levels }
    }
}

/// Location of a report.
enum Source {
    /// The profiler recorded the run, into the run's folder, in which the export of its report is kept too.
    Recorded(PathBuf),
    /// The ranks and the built-in tracer recorded the run, into the run's folder.
    Events(PathBuf),
    /// A file chosen by the user.
    File(PathBuf),
}

/// An import in progress.
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

/// Whether a run's report still has to be imported because an earlier process ended before that.
pub(super) fn waits_for_import(record: &RunRecord, folder: &Path) -> bool {
    let recorded = match record.tracer {
        Tracer::Off => false,
        Tracer::Nsys => recording(folder).exists(),
        _ => folder.join(EVENTS_FILE).exists() || trace::has_raw_files(folder),
    };
    recorded && record.state.is_final() && record.trace.is_none()
}

impl ToImport {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Import {
    /// Starts importing a report.
    fn start(wanted: ToImport) -> Result<Self, SessionError> {
        let (sender, updates) = sync_channel(16);
        let cancel = Arc::<AtomicBool>::default();
        let cancelled = Arc::clone(&cancel);
        let ToImport { name, of_run, planned, source } = wanted;
        let work = move || {
            let outcome = import(&source, planned.as_ref(), &mut |progress| tell(&sender, &cancelled, progress));
            // If the receiver is gone, the recording is imported when the session is opened again.
            let _ = outcome.map(|outcome| sender.send(ImportUpdate::Done(outcome)));
        };
        let thread = std::thread::Builder::new().name("import".to_owned()).spawn(work);
        let thread = Some(thread.map_err(SessionError::Thread)?);
        Ok(Self { name, of_run, cancel, updates, thread })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

/// Waits for nsys, which stops at once when the import is cancelled.
impl Drop for Import {
    fn drop(&mut self) {
        self.cancel();
        // Unblocks a thread that waits for room in the channel.
        self.updates = sync_channel(0).1;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed where it happened.
            let _ = thread.join();
        }
    }
}

/// Sends progress; skips it while the channel is full.
fn tell(sender: &SyncSender<ImportUpdate>, cancelled: &AtomicBool, progress: Progress) -> ControlFlow<()> {
    // Exporting takes most of the time.
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

/// Imports a report; `None` if it was cancelled.
fn import(
    source: &Source,
    planned: Option<&Planned>,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Option<TraceOutcome> {
    let (file, imported) = match source {
        Source::File(file) => (file.clone(), trace::import(file, &Window::default(), tell)),
        Source::Events(folder) => {
            let file = folder.join(EVENTS_FILE);
            let steps = planned.map_or(&[][..], |planned| &planned.steps);
            let gathered = trace::gather(folder, steps, tell);
            if gathered.is_ok() && !file.exists() {
                let why = "its ranks ended before they opened the trace, or no process of the program used CUDA or NVTX; see stderr.log \
                           in the run's folder";
                return Some(TraceOutcome::Failed(format!("{NOTHING_RECORDED}: {why}")));
            }
            let imported = gathered.and_then(|()| trace::import(&file, &Window::default(), tell));
            (file, imported)
        }
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
        Ok(trace) => Some(imported_as(&trace, &file, planned)),
        Err(TraceError::Cancelled) => None,
        Err(error) => Some(TraceOutcome::Failed(error.to_string())),
    }
}

/// The outcome that a session stores for an imported report.
fn imported_as(trace: &Trace, file: &Path, planned: Option<&Planned>) -> TraceOutcome {
    let planned = planned.map(|Planned { spec, levels, .. }| (&**spec, levels));
    TraceOutcome::Imported(Box::new(trace.summary(&named(file), planned)))
}

/// Why a run has no report, judging by its folder.
fn no_recording(folder: &Path) -> String {
    let unfinished = folder.join(format!("{REPORT}.qdstrm"));
    let why = if unfinished.exists() {
        format!("nsys recorded {} but could not convert it", unfinished.display())
    } else {
        "nsys wrote no report; this happens when the run never reaches the capture window of the plan".to_owned()
    };
    format!("{why}; see group.out and stderr.log in the run's folder")
}

/// A file's name.
fn named(file: &Path) -> String {
    file.file_name().map_or_else(|| "report".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Name of a standalone report in a session.
fn report_name(file: &Path) -> String {
    file.file_stem().map_or_else(|| "report".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Makes a recording readable by its owner only, as it contains the run's environment.
fn protect(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    // Some file systems have no permissions.
    let _ = std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600));
}

impl Session {
    /// Imports the report of a run that ended, if it was traced. No other run starts until the import ends, so none is disturbed.
    pub(super) fn import_own_trace(&mut self, run: &str) -> Result<(), SessionError> {
        let Some(queued) = self.jobs.get(run).filter(|queued| queued.job.tracer().is_on()) else { return Ok(()) };
        let tracer = queued.job.tracer();
        self.store.flush()?;
        match self.store.reader()?.run(run)? {
            Some(record) => self.import_trace(run, tracer, Planned::of(record)),
            None => Ok(()),
        }
    }

    fn import_trace(&mut self, run: &str, tracer: Tracer, planned: Planned) -> Result<(), SessionError> {
        let folder = self.store.run_folder(run);
        let source = if tracer.is_built_in() { Source::Events(folder) } else { Source::Recorded(folder) };
        self.to_import.push_back(ToImport { name: run.to_owned(), of_run: true, planned: Some(planned), source });
        self.start_import()
    }

    /// Imports a report from a file: as the trace of a run, or as a standalone report named after the file.
    /// [`Session::advance`] returns its progress and outcome.
    ///
    /// # Errors
    /// When the session has no such run.
    pub fn attach(&mut self, file: &Path, run: Option<&str>) -> Result<(), SessionError> {
        self.store.flush()?;
        let planned = planned(&self.store, run)?;
        let name = run.map_or_else(|| report_name(file), str::to_owned);
        self.to_import.push_back(ToImport {
            name,
            of_run: run.is_some(),
            planned,
            source: Source::File(file.to_owned()),
        });
        self.start_import()
    }

    fn start_import(&mut self) -> Result<(), SessionError> {
        // An import would disturb an active run, or a measurement of the machine.
        while self.import.is_none()
            && self.measuring.is_none()
            && !self.queue.states().any(|(_, state)| state.is_active())
            && let Some(wanted) = self.to_import.pop_front()
        {
            self.import = Some(Import::start(wanted)?);
        }
        Ok(())
    }

    /// Takes over the progress and the outcome of the import.
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
            // A failed import is recorded for a run only; a standalone report leaves nothing to keep.
            Some(outcome) if of_run || matches!(outcome, TraceOutcome::Imported(_)) => {
                self.record(Decision::TraceEnded { name: name.clone(), of_run, outcome: outcome.clone() });
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

    /// Cancels imports. The recordings stay and are imported when the session is opened again.
    pub fn cancel_imports(&mut self) {
        self.to_import.clear();
        if let Some(import) = &self.import {
            import.cancel();
        }
    }

    /// Resumes interrupted imports of earlier runs.
    pub(super) fn take_up_imports(&mut self, runs: Vec<RunRecord>) -> Result<(), SessionError> {
        for record in runs {
            if waits_for_import(&record, &self.store.run_folder(&record.run)) {
                let (run, tracer) = (record.run.clone(), record.tracer);
                // Only this record contains its steps.
                let whole = self.store.reader()?.run(&run)?.unwrap_or(record);
                self.import_trace(&run, tracer, Planned::of(whole))?;
            }
        }
        Ok(())
    }
}

/// Imports a report into a session that no other process writes: as the trace of a run, or as a standalone report named
/// after the file, replacing one of the same name. Returns its name in the session.
///
/// # Errors
/// When the report cannot be imported, the session cannot be written or has no such run.
pub fn attach_report(
    session: &Path,
    file: &Path,
    run: Option<&str>,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<String, SessionError> {
    let store = Store::open(session)?;
    let planned = planned(&store, run)?;
    let imported = trace::import(file, &Window::default(), tell)?;
    let name = run.map_or_else(|| report_name(file), str::to_owned);
    let outcome = imported_as(&imported, file, planned.as_ref());
    store.decide(Decision::TraceEnded { name: name.clone(), of_run: run.is_some(), outcome })?;
    store.flush()?;
    Ok(name)
}

/// The plan of a run; `None` without a run.
fn planned(store: &Store, run: Option<&str>) -> Result<Option<Planned>, SessionError> {
    let Some(run) = run else { return Ok(None) };
    let record = store.reader()?.run(run)?.ok_or_else(|| SessionError::UnknownRun { run: run.to_owned() })?;
    Ok(Some(Planned::of(record)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_report_says_whether_nsys_wrote_none_or_could_not_convert_it_and_a_file_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let why = || match import(&Source::Recorded(folder.path().to_owned()), None, &mut |_| ControlFlow::Continue(()))
        {
            Some(TraceOutcome::Failed(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why().starts_with("nsys wrote no report"), "{}", why());
        std::fs::write(folder.path().join("trace.qdstrm"), "").unwrap();
        assert!(why().contains("trace.qdstrm but could not convert it"), "{}", why());
        std::fs::write(recording(folder.path()), "not a report").unwrap();
        assert!(!why().contains("convert it;") && !why().starts_with("nsys wrote no report"), "{}", why());
    }
}
