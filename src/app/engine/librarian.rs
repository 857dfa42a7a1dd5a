//! The thread that reads sessions for the window: all runs, one run's page, one run's curves.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::{LiveStep, Outbox, Records, Report, Request, RunCurves, RunPage, WindowClosed};
use crate::analysis::{RunSummary, summarise_report, summarise_run};
use crate::app::Screen;
use crate::app::live::Curves;
use crate::store::{Reader, RunRecord, StoreError, index_path};

/// While measures of many runs are being worked out, those that are ready are shown so often.
const PARTIAL_INTERVAL: Duration = Duration::from_millis(300);
/// So many runs are summed up at once without anything being shown before.
const FEW_RUNS: usize = 20;
/// Threads that sum up runs.
const MOST_THREADS: usize = 8;
/// How much of a log is shown.
const LOG_BYTES: usize = 64 << 10;

/// The open session is looked at so often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Works until the window is gone.
pub(super) fn run(requests: &Receiver<Request>, outbox: &Outbox) {
    let mut librarian = Librarian { outbox, shelves: HashMap::new(), followed: None, told: None };
    loop {
        let request = match requests.recv_timeout(LOOK_INTERVAL) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) => match librarian.look() {
                Ok(()) => continue,
                Err(WindowClosed) => return,
            },
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let answered = match request {
            Request::Read(folder) => librarian.read(&folder, false),
            Request::Follow { folder, read_only } => {
                librarian.told = None;
                librarian.followed = Some(Followed { print: print(&folder), folder, read_only, gone: false });
                Ok(())
            }
            Request::Page(folder, run) => librarian.page(&folder, &run),
            Request::Curves(folder, run) => librarian.curves(&folder, &run),
            _ => Ok(()),
        };
        if let Err(WindowClosed) = answered {
            return;
        }
    }
}

/// What is kept of a session: measures of runs that have ended do not change.
#[derive(Default)]
struct Shelf {
    summaries: HashMap<String, RunSummary>,
}

/// The session that is open.
struct Followed {
    folder: PathBuf,
    /// Another workbench writes it.
    read_only: bool,
    /// Its folder was not there at the last look.
    gone: bool,
    /// What its files looked like when it was last read.
    print: Print,
}

/// Lengths and times of the files that change when a session is written.
type Print = [Option<(u64, SystemTime)>; 3];

fn print(folder: &Path) -> Print {
    let index = index_path(folder);
    let mut log = index.clone().into_os_string();
    log.push("-wal");
    let log = PathBuf::from(log);
    [folder.join("journal.jsonl"), index, log].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    })
}

struct Librarian<'a> {
    outbox: &'a Outbox,
    shelves: HashMap<PathBuf, Shelf>,
    followed: Option<Followed>,
    /// What the window was told last.
    told: Option<Arc<Records>>,
}

impl Librarian<'_> {
    /// Sees whether the open session is still there, and follows what another workbench writes to it.
    fn look(&mut self) -> Result<(), WindowClosed> {
        let Some(followed) = &mut self.followed else { return Ok(()) };
        let gone = !followed.folder.join("session.toml").exists();
        if gone != followed.gone {
            followed.gone = gone;
            self.outbox.send(Report::SessionGone(gone))?;
        }
        let print = print(&followed.folder);
        if gone || !followed.read_only || print == followed.print {
            return Ok(());
        }
        followed.print = print;
        let folder = followed.folder.clone();
        self.read(&folder, true)
    }

    /// Tells all runs of a session; with `only_new`, where that is not what was told last.
    fn read(&mut self, folder: &Path, only_new: bool) -> Result<(), WindowClosed> {
        match self.try_read(folder, only_new) {
            Ok(told) => told,
            Err(error) => self.outbox.problem(Screen::Runs, format!("reading a session: {error}")),
        }
    }

    fn try_read(&mut self, folder: &Path, only_new: bool) -> Result<Result<(), WindowClosed>, StoreError> {
        let reader = Reader::open(folder)?;
        let runs = reader.runs()?;
        let shelf = self.shelves.entry(folder.to_owned()).or_default();
        let ended: Vec<&RunRecord> = runs.iter().filter(|run| run.state.is_final()).collect();
        let reports = reader.reports()?;
        let reports: Vec<RunSummary> =
            reports.into_iter().map(|(name, trace)| summarise_report(&name, trace)).collect();
        let records = |shelf: &Shelf, pending: usize| {
            let summaries = runs.iter().filter_map(|run| shelf.summaries.get(&run.run).cloned()).collect();
            let (folder, runs, reports) = (folder.to_owned(), runs.clone(), reports.clone());
            Report::Records(Arc::new(Records { folder, runs, summaries, reports, pending }))
        };
        // A trace is imported after the end of its run.
        let is_known = |run: &RunRecord| shelf.summaries.get(&run.run).is_some_and(|known| known.trace == run.trace);
        let missing: Vec<String> = ended.iter().filter(|run| !is_known(run)).map(|run| run.run.clone()).collect();
        if !missing.is_empty() {
            self.told = None;
        }
        if missing.len() > FEW_RUNS
            && let Err(closed) = self.outbox.send(records(shelf, missing.len()))
        {
            return Ok(Err(closed));
        }
        let mut left = missing.len();
        let mut told = Instant::now();
        let summed = sum_up(folder, &reader, &missing, |summaries| {
            left = left.saturating_sub(summaries.len());
            shelf.summaries.extend(summaries.into_iter().map(|summary| (summary.run.clone(), summary)));
            if told.elapsed() < PARTIAL_INTERVAL {
                return Ok(());
            }
            told = Instant::now();
            self.outbox.send(records(shelf, left))
        })?;
        if let Err(closed) = summed {
            return Ok(Err(closed));
        }
        let Report::Records(read) = records(shelf, 0) else { return Ok(Ok(())) };
        // Nothing is drawn anew where nothing changed.
        if only_new && self.told.as_ref().is_some_and(|told| is_same(told, &read)) {
            return Ok(Ok(()));
        }
        self.told = Some(Arc::clone(&read));
        Ok(self.outbox.send(Report::Records(read)))
    }

    fn page(&self, folder: &Path, run: &str) -> Result<(), WindowClosed> {
        match read_page(folder, run) {
            Ok(Some(page)) => self.outbox.send(Report::Page(Box::new(page))),
            Ok(None) => self.outbox.problem(Screen::Runs, format!("{}: run {run} is not in it", folder.display())),
            Err(error) => self.outbox.problem(Screen::Runs, format!("reading run {run}: {error}")),
        }
    }

    fn curves(&self, folder: &Path, run: &str) -> Result<(), WindowClosed> {
        match read_curves(folder, run) {
            Ok(curves) => self.outbox.send(Report::Curves(Box::new(curves))),
            Err(error) => self.outbox.problem(Screen::Live, format!("reading the curves of run {run}: {error}")),
        }
    }
}

/// Works out the measures of runs, here and for many runs on threads beside, as their steps take time to read. `take` has
/// what is ready now and then.
fn sum_up(
    folder: &Path,
    reader: &Reader,
    runs: &[String],
    mut take: impl FnMut(Vec<RunSummary>) -> Result<(), WindowClosed>,
) -> Result<Result<(), WindowClosed>, StoreError> {
    let next = AtomicUsize::new(0);
    let ready = Mutex::new(Vec::new());
    // Sums up one more run; false where none is left.
    let one = |reader: &Reader| -> bool {
        let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else { return false };
        let summary = reader.run(run).map(|record| record.as_ref().map(summarise_run));
        ready.lock().unwrap_or_else(PoisonError::into_inner).push(summary);
        true
    };
    let mut taken = || -> Result<Result<(), WindowClosed>, StoreError> {
        let ready = std::mem::take(&mut *ready.lock().unwrap_or_else(PoisonError::into_inner));
        let summaries: Vec<Option<RunSummary>> = ready.into_iter().collect::<Result<_, _>>()?;
        Ok(take(summaries.into_iter().flatten().collect()))
    };
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let helpers = if runs.len() > FEW_RUNS { cpus.min(MOST_THREADS) - 1 } else { 0 };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            let help = || {
                if let Ok(reader) = Reader::open(folder) {
                    while one(&reader) {}
                }
            };
            // With fewer helpers it only takes longer.
            let _ = std::thread::Builder::new().name("summing".to_owned()).spawn_scoped(scope, help);
        }
        while one(reader) {
            let told = taken();
            if !matches!(told, Ok(Ok(()))) {
                // Nobody wants the others any more.
                next.store(runs.len(), Ordering::Relaxed);
                return told;
            }
        }
        Ok(Ok(()))
    })
    .and_then(|told| if told.is_err() { Ok(told) } else { taken() })
}

fn is_same(a: &Records, b: &Records) -> bool {
    (&a.folder, a.pending, &a.runs, &a.summaries, &a.reports)
        == (&b.folder, b.pending, &b.runs, &b.summaries, &b.reports)
}

fn read_page(folder: &Path, run: &str) -> Result<Option<RunPage>, StoreError> {
    let reader = Reader::open(folder)?;
    let Some(record) = reader.run(run)? else { return Ok(None) };
    let files = folder.join("runs").join(run);
    let mut events = Vec::new();
    for rank in &record.ranks {
        let text = tail(&files.join(format!("rank-{}.jsonl", rank.rank)));
        events.extend(text.lines().map(str::to_owned));
    }
    let plan = reader.plans()?.into_iter().find(|(_, name, _)| *name == record.plan).map(|(_, _, text)| text);
    Ok(Some(RunPage {
        summary: summarise_run(&record),
        record,
        log: tail(&files.join("stderr.log")),
        events,
        job: std::fs::read_to_string(files.join("job.json")).unwrap_or_default(),
        node: reader.node().ok(),
        plan: plan.unwrap_or_default(),
    }))
}

fn read_curves(folder: &Path, run: &str) -> Result<RunCurves, StoreError> {
    let reader = Reader::open(folder)?;
    let ranks = reader.run(run)?.map_or_else(Vec::new, |record| record.ranks);
    let steps = ranks.into_iter().flat_map(|of| of.steps.into_iter().map(move |step| LiveStep { rank: of.rank, step }));
    let curves = Curves::build(steps, reader.samples(run)?);
    Ok(RunCurves { folder: folder.to_owned(), run: run.to_owned(), curves })
}

/// The end of a file, from the start of a line; empty where there is none.
fn tail(path: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        let from = length.saturating_sub(LOG_BYTES as u64);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES as u64).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(if from == 0 { text } else { text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned()) })
    };
    read().unwrap_or_default()
}
