//! The librarian thread: reads sessions for the window.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use super::messages::{Outbox, Records, Request, RunCurves, RunPage, UiEvent, WindowClosed};
use super::reading::unsummarised;
use crate::analysis::{RunSummary, summarise_run, summarise_runs};
use crate::app::command::ScreenName;
use crate::app::curves::{Curves, LiveStep};
use crate::foreign;
use crate::plan::{Better, Key, OwnMeasure, WorkloadSpec};
use crate::program::RECORD_FILE;
use crate::protocol::{DeviceRates, rank_log};
use crate::session::{damage_message, open_reader};
use crate::store::{Reader, RunRecord, StoreError, index_path};

/// Least interval of partial results while many runs are summarised.
const PARTIAL_INTERVAL: Duration = Duration::from_millis(300);
/// The interval is at least this many times the time that making the last partial result took, which grows with the number of runs.
const PARTIAL_TIMES: u32 = 10;
/// Up to this many runs are summarised without partial results.
const FEW_RUNS: usize = 20;
/// Longest record of a program that is read.
const MOST_RECORD_BYTES: u64 = 16 << 20;
/// Part of a log that is shown, in bytes.
const LOG_BYTES: usize = 64 << 10;

/// Interval between checks of the open session.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Works until the window is closed.
pub(super) fn run(requests: &Receiver<Request>, outbox: &Outbox) {
    let mut librarian = Librarian::new(outbox);
    loop {
        let request = match requests.recv_timeout(CHECK_INTERVAL) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) => match librarian.check() {
                Ok(()) => continue,
                Err(WindowClosed) => return,
            },
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let answered = match request {
            Request::Read(folder) => librarian.read(&folder, false),
            Request::Follow { folder, read_only } => {
                librarian.sent = None;
                librarian.followed =
                    Some(Followed { fingerprint: fingerprint(&folder), folder, read_only, gone: false });
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

/// Cached summaries of a session's ended runs.
#[derive(Default)]
struct Shelf {
    /// The summaries that were sent last; the window shares them.
    summaries: Arc<[RunSummary]>,
    /// The summaries that were made since then, by run.
    fresh: HashMap<String, RunSummary>,
    /// The measured rates when they were made.
    rates: Vec<Arc<DeviceRates>>,
    /// The user-defined measures that they contain.
    own_measures: Arc<[OwnMeasure]>,
    /// The damage of its logs that was shown to the user.
    damage: Option<String>,
}

impl Shelf {
    /// Computes the user-defined measures again.
    fn set_own(&mut self, own: &Arc<[OwnMeasure]>) {
        self.own_measures = Arc::clone(own);
        let known = Arc::make_mut(&mut self.summaries).iter_mut();
        known.chain(self.fresh.values_mut()).for_each(|summary| summary.set_own(own));
    }
}

/// Whether a summary describes the present state of a run. A run that was cancelled while it waited may have been put back into the queue
/// and have run since, the logs of a finished run may have been damaged, and a later plan may judge its results otherwise.
fn is_current(known: &RunSummary, run: &RunRecord) -> bool {
    (known.state, known.started_s) == (run.state, run.started_time_s.filter(|time_s| time_s.is_finite()))
        && known.checked == run.checked
        && judged(&known.workload).eq(judged(&run.workload))
}

/// The measures of a workload, each with what a later plan may say of its values. Nothing else about them changes, and an imported workload has
/// facts about each measure and cell.
fn judged(workload: &WorkloadSpec) -> impl Iterator<Item = (&Key, Better)> {
    workload.measures.iter().map(|measure| (&measure.key, measure.better))
}

/// The known summary of a run, if it describes the run's present state.
fn known_of<'s>(known: &'s HashMap<String, RunSummary>, run: &RunRecord) -> Option<&'s RunSummary> {
    known.get(&run.run).filter(|known| is_current(known, run))
}

/// The open session.
struct Followed {
    folder: PathBuf,
    /// Whether another process writes it.
    read_only: bool,
    /// Whether its folder was missing at the last check.
    gone: bool,
    /// State of its files when it was last read.
    fingerprint: Fingerprint,
}

/// Lengths and modification times of the files that change when a session is written.
type Fingerprint = [Option<(u64, SystemTime)>; 3];

fn fingerprint(folder: &Path) -> Fingerprint {
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
    /// The records sent last.
    sent: Option<Arc<Records>>,
}

impl<'a> Librarian<'a> {
    fn new(outbox: &'a Outbox) -> Self {
        Self { outbox, shelves: HashMap::new(), followed: None, sent: None }
    }

    /// Checks whether the open session still exists, and follows what another process writes to it.
    fn check(&mut self) -> Result<(), WindowClosed> {
        let Some(followed) = &mut self.followed else { return Ok(()) };
        let gone = !followed.folder.join("session.toml").exists();
        if gone != followed.gone {
            followed.gone = gone;
            self.outbox.send(UiEvent::SessionGone(gone))?;
        }
        let fingerprint = fingerprint(&followed.folder);
        if gone || !followed.read_only || fingerprint == followed.fingerprint {
            return Ok(());
        }
        followed.fingerprint = fingerprint;
        let folder = followed.folder.clone();
        self.read(&folder, true)
    }

    /// Sends all runs of a session; with `only_new`, only if they changed.
    fn read(&mut self, folder: &Path, only_new: bool) -> Result<(), WindowClosed> {
        match self.try_read(folder, only_new) {
            Ok(sent) => sent,
            Err(error) => self.outbox.problem(ScreenName::RUNS, format!("reading a session: {error}")),
        }
    }

    fn try_read(&mut self, folder: &Path, only_new: bool) -> Result<Result<(), WindowClosed>, StoreError> {
        let reader = open_reader(folder)?;
        let shelf = self.shelves.entry(folder.to_owned()).or_default();
        let damage = damage_message(folder, &reader)?;
        if let Some(message) = damage.as_ref().filter(|_| damage != shelf.damage)
            && let Err(closed) = self.outbox.problem(ScreenName::RUNS, message)
        {
            return Ok(Err(closed));
        }
        shelf.damage = damage;
        let unsummarised = unsummarised(folder, &reader)?;
        if shelf.own_measures != unsummarised.own_measures {
            shelf.set_own(&unsummarised.own_measures);
        }
        let earlier = Arc::clone(&shelf.summaries);
        let known: HashMap<&str, &RunSummary> = earlier.iter().map(|summary| (summary.run.as_str(), summary)).collect();
        let earlier_of = |run: &RunRecord| known.get(run.run.as_str()).copied().filter(|known| is_current(known, run));
        let records = |fresh: &HashMap<String, RunSummary>, pending: usize| {
            let known = |run: &RunRecord| known_of(fresh, run).or_else(|| earlier_of(run)).cloned();
            UiEvent::Records(Arc::new(Records { pending, ..unsummarised.with_summaries(known) }))
        };
        let has_rates = shelf.rates == unsummarised.rates;
        // A trace is imported after its run has ended.
        let is_known = |run: &RunRecord| {
            let known = known_of(&shelf.fresh, run).or_else(|| earlier_of(run));
            has_rates && known.is_some_and(|known| known.trace == run.trace)
        };
        let ended = unsummarised.ended();
        let missing: Vec<String> = ended.filter(|run| !is_known(run)).map(|run| run.run.clone()).collect();
        if !missing.is_empty() {
            self.sent = None;
        }
        if missing.len() > FEW_RUNS
            && let Err(closed) = self.outbox.send(records(&shelf.fresh, missing.len()))
        {
            return Ok(Err(closed));
        }
        let mut left = missing.len();
        let (mut sent, mut interval) = (Instant::now(), PARTIAL_INTERVAL);
        let summarised = summarise_runs(&reader, &missing, |summaries| {
            left = left.saturating_sub(summaries.len());
            shelf.fresh.extend(summaries.into_iter().map(|summary| (summary.run.clone(), summary)));
            if sent.elapsed() < interval {
                return Ok(());
            }
            let began = Instant::now();
            let records = records(&shelf.fresh, left);
            interval = PARTIAL_INTERVAL.max(PARTIAL_TIMES * began.elapsed());
            sent = Instant::now();
            self.outbox.send(records)
        })?;
        if let Err(closed) = summarised {
            return Ok(Err(closed));
        }
        shelf.rates.clone_from(&unsummarised.rates);
        // The window and this thread share one copy of the summaries.
        let mut fresh = std::mem::take(&mut shelf.fresh);
        let summary = |run: &RunRecord| {
            let fresh = fresh.remove(&run.run).filter(|known| is_current(known, run));
            fresh.or_else(|| earlier_of(run).cloned())
        };
        let read = Arc::new(unsummarised.with_summaries(summary));
        // Unchanged records need no redraw.
        if only_new && self.sent.as_ref().is_some_and(|sent| is_same(sent, &read)) {
            return Ok(Ok(()));
        }
        shelf.summaries = Arc::clone(&read.summaries);
        self.sent = Some(Arc::clone(&read));
        Ok(self.outbox.send(UiEvent::Records(read)))
    }

    fn page(&self, folder: &Path, run: &str) -> Result<(), WindowClosed> {
        match read_page(folder, run) {
            Ok(Some(page)) => self.outbox.send(UiEvent::Page(Box::new(page))),
            Ok(None) => self.outbox.problem(ScreenName::RUNS, format!("{}: there is no run {run}", folder.display())),
            Err(error) => self.outbox.problem(ScreenName::RUNS, format!("reading run {run}: {error}")),
        }
    }

    fn curves(&self, folder: &Path, run: &str) -> Result<(), WindowClosed> {
        match read_curves(folder, run) {
            Ok(curves) => self.outbox.send(UiEvent::Curves(Box::new(curves))),
            Err(error) => self.outbox.problem(ScreenName::LIVE, format!("reading the curves of run {run}: {error}")),
        }
    }
}

fn is_same(a: &Records, b: &Records) -> bool {
    (&a.folder, a.pending, &a.runs, &a.summaries, &a.reports, &a.studies, &a.plans, &a.notes, &a.rates)
        == (&b.folder, b.pending, &b.runs, &b.summaries, &b.reports, &b.studies, &b.plans, &b.notes, &b.rates)
        && (&a.own_measures, &a.searches) == (&b.own_measures, &b.searches)
}

fn read_page(folder: &Path, run: &str) -> Result<Option<RunPage>, StoreError> {
    let reader = Reader::open(folder)?;
    let Some(record) = reader.run(run)? else { return Ok(None) };
    let files = folder.join("runs").join(run);
    let mut events = Vec::new();
    for rank in &record.ranks {
        let text = tail(&files.join(rank_log(rank.rank)));
        events.extend(text.lines().map(str::to_owned));
    }
    let plan = reader.plans()?.into_iter().find(|(_, name, _)| *name == record.plan).map(|(_, _, text)| text);
    Ok(Some(RunPage {
        summary: summarise_run(&record),
        record,
        log: output(&files),
        events,
        job: tail(&files.join("job.json")),
        program: foreign::read_ours(&files.join(RECORD_FILE), MOST_RECORD_BYTES)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        node: reader.node().ok(),
        plan: plan.unwrap_or_default(),
    }))
}

fn read_curves(folder: &Path, run: &str) -> Result<RunCurves, StoreError> {
    let reader = Reader::open(folder)?;
    let ranks = reader.run(run)?.map_or_else(Vec::new, |record| record.ranks);
    let steps = ranks
        .into_iter()
        .flat_map(|rank_steps| rank_steps.steps.into_iter().map(move |step| LiveStep { rank: rank_steps.rank, step }));
    let curves = Curves::build(steps, reader.samples(run)?);
    Ok(RunCurves { folder: folder.to_owned(), run: run.to_owned(), curves })
}

/// The end of the output of a run's processes: standard error, and standard output if there is any.
fn output(files: &Path) -> String {
    let (out, errors) = (tail(&files.join("group.out")), tail(&files.join("stderr.log")));
    if out.is_empty() {
        return errors;
    }
    let errors = if errors.is_empty() { String::new() } else { format!("— standard error —\n{errors}\n") };
    format!("{errors}— standard output —\n{out}")
}

/// The end of a file, starting at a line; empty if there is no file.
fn tail(path: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<String> {
        let mut file = foreign::open_ours(path)?;
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::analysis::fixture;
    use crate::plan::{DeclaredMeasure, RunState};
    use crate::store::{Decision, Store};

    /// A copy of a small session in a folder.
    fn seed(folder: &Path) -> PathBuf {
        let session = folder.join("session");
        let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds/session");
        assert!(std::process::Command::new("cp").arg("-r").args([&seed, &session]).status().unwrap().success());
        session
    }

    #[test]
    fn a_run_that_was_cancelled_put_back_and_finished_is_summarised_as_finished() {
        let folder = tempfile::tempdir().unwrap();
        let session = seed(folder.path());
        let (sender, events) = sync_channel(10);
        let outbox = Outbox::new(sender, || ());
        let mut librarian = Librarian::new(&outbox);
        let mut read = || {
            assert!(librarian.read(&session, false).is_ok());
            let UiEvent::Records(records) = events.try_iter().last().unwrap() else { panic!("no records") };
            records
        };
        let before = read();
        let record = before.runs.iter().find(|run| run.state == RunState::Finished).unwrap();
        let run = || record.run.clone();
        let decide = |decision: Decision| {
            let store = Store::open(&session).unwrap();
            store.decide(decision).unwrap();
            store.flush().unwrap();
        };
        let ended = |state| Decision::RunEnded { run: run(), state, reason: None, duration_s: Some(1.0) };
        let states = |records: &Records| -> Vec<RunState> {
            records.summaries.iter().filter(|summary| summary.run == run()).map(|summary| summary.state).collect()
        };
        decide(ended(RunState::Cancelled));
        assert_eq!(states(&read()), [RunState::Cancelled]);
        decide(Decision::RunQueued {
            run: run(),
            plan: record.launch.clone(),
            cell: record.cell.clone(),
            workload: record.workload.key.clone(),
            levels: record.levels.clone(),
            data: record.data.clone(),
            repeat: record.repeat,
            seed: record.seed,
            tracer: record.tracer,
            mode: record.mode,
        });
        assert_eq!(states(&read()), [], "it waits again");
        decide(Decision::RunStarted { run: run(), pid: 1, process_start: 1 });
        decide(ended(RunState::Finished));
        assert_eq!(states(&read()), [RunState::Finished]);
    }

    #[test]
    fn the_window_and_the_librarian_share_one_copy_of_the_summaries() {
        let folder = tempfile::tempdir().unwrap();
        let session = seed(folder.path());
        let (sender, _events) = sync_channel(10);
        let outbox = Outbox::new(sender, || ());
        let mut librarian = Librarian::new(&outbox);
        for only_new in [false, false, true] {
            assert!(librarian.read(&session, only_new).is_ok());
            let shelf = &librarian.shelves[&session];
            assert!(shelf.fresh.is_empty());
            let sent = librarian.sent.as_ref().unwrap();
            assert!(!sent.summaries.is_empty() && Arc::ptr_eq(&sent.summaries, &shelf.summaries), "{only_new}");
        }
    }

    #[test]
    fn runs_that_were_read_before_are_judged_as_a_later_plan_says() {
        let folder = tempfile::tempdir().unwrap();
        let session = seed(folder.path());
        let (sender, events) = sync_channel(10);
        let outbox = Outbox::new(sender, || ());
        let mut librarian = Librarian::new(&outbox);
        let mut checked = || {
            assert!(librarian.read(&session, false).is_ok());
            let UiEvent::Records(records) = events.try_iter().last().unwrap() else { panic!("no records") };
            records.summaries.iter().map(|summary| summary.checked.len()).collect::<Vec<usize>>()
        };
        let before = checked();
        assert!(!before.is_empty() && before.iter().all(|count| *count == 0), "{before:?}");
        let toml = "version = 1\n[check]\naccuracy = 0.5\n".to_owned();
        let (plan, name, workloads) = ("later".to_owned(), "later".to_owned(), Vec::new());
        let store = Store::open(&session).unwrap();
        store.decide(Decision::PlanAdded { plan, name, toml, workloads }).unwrap();
        store.flush().unwrap();
        drop(store);
        assert_eq!(checked(), vec![1; before.len()]);
    }

    #[test]
    fn a_summary_is_held_against_what_a_later_plan_can_change_of_measures_and_not_against_each_cell_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let records = super::super::reading::read_session(&seed(folder.path())).unwrap();
        let known = &records.summaries[0];
        let run = records.runs.iter().find(|run| run.run == known.run).unwrap();
        let is_current = |declared: [DeclaredMeasure; 2]| {
            let of_plan = |measure| {
                let measures = vec![measure];
                Arc::new(WorkloadSpec { measures, ..WorkloadSpec::clone(&run.workload) })
            };
            let [before, after] = declared.map(of_plan);
            is_current(
                &RunSummary { workload: before, ..known.clone() },
                &RunRecord { workload: after, ..RunRecord::clone(run) },
            )
        };
        let declared = DeclaredMeasure { key: "residual".into(), ..DeclaredMeasure::default() };
        let written =
            |step: f64| DeclaredMeasure { written_steps: Some([("cell".to_owned(), step)].into()), ..declared.clone() };
        assert!(is_current([written(0.1), written(0.2)]), "facts about cells of a file stay as they were read");
        assert!(!is_current([declared.clone(), DeclaredMeasure { better: Better::Lower, ..declared.clone() }]));
    }

    #[test]
    fn runs_that_were_read_before_their_machine_was_measured_are_held_against_its_rates() {
        let folder = tempfile::tempdir().unwrap();
        let session = seed(folder.path());
        let (sender, events) = sync_channel(10);
        let outbox = Outbox::new(sender, || ());
        let mut librarian = Librarian::new(&outbox);
        let mut read = || {
            assert!(librarian.read(&session, false).is_ok());
            let UiEvent::Records(records) = events.try_iter().last().unwrap() else { panic!("no records") };
            let limits = records.summaries.iter().filter_map(|summary| summary.limits.as_ref());
            (records.summaries.len(), limits.map(|limits| (*limits.rates).clone()).collect::<Vec<_>>())
        };
        let (runs, limits) = read();
        assert!(runs > 0 && limits.is_empty());
        for time_s in [1.7e9, 1.8e9] {
            let rates = DeviceRates { time_s: Some(time_s), ..fixture::rates() };
            let store = Store::open(&session).unwrap();
            store.decide(Decision::RatesMeasured { rates: rates.clone() }).unwrap();
            store.flush().unwrap();
            assert_eq!(read(), (runs, vec![rates; runs]));
        }
    }
}
