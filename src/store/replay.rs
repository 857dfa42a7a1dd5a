//! Replay of logs into the index: new parts when a session is opened, everything when the index is rebuilt.

mod damage;
mod listing;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::index::{Index, Indexed};
use super::journal::read_journal_line;
use super::lines::{self, Line};
use super::sum::sum_of_ends;
use super::telemetry::TelemetryFold;
use super::{Decision, LogSum, StoreError, folder, schema};
use crate::foreign;
use crate::plan::counted;
use crate::protocol::{Event, EventLine, PROTOCOL_VERSION, Sample, event_start, read_event_line, read_sample_line};
use listing::{Kind, LogFile, logs_of};
pub(super) use listing::{Listing, list};

/// Time after which a folder counts as unchanging.
const SETTLED: Duration = Duration::from_secs(2);

/// Findings of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Number of runs that the journal queued.
    pub runs: u64,
    /// Number of lines in rank logs.
    pub events: u64,
    /// Number of lines in sample logs.
    pub samples: u64,
    /// Malformed lines, each as `file:line: why`. They are left out; the rest is kept.
    pub damaged: Vec<String>,
    /// Last lines without a line break, each as `file:line: …`: they are still being written, or a crash interrupted them. They are left
    /// out.
    pub torn: Vec<String>,
}

/// Rebuilds the index of a session from its journal and logs, beside the old one, which it then replaces. `progress` receives
/// the bytes done and the total. Only the writer may do it.
pub fn rebuild(folder: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<RebuildReport, StoreError> {
    folder::read_node(folder)?;
    let _lock = folder::lock(folder)?;
    rebuild_locked(folder, progress)
}

/// Like [`rebuild`], for the holder of the lock.
pub(super) fn rebuild_locked(folder: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<RebuildReport, StoreError> {
    let path = folder::index_path(folder);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(StoreError::io("creating", parent))?;
    }
    let new = with_suffix(&path, ".new");
    remove(&new)?;
    // SQLite takes an empty file for a new database, and gives the files beside a database the owner of the database.
    drop(foreign::create_ours(&new).map_err(StoreError::io("creating", &new))?);
    let report = {
        let mut index = Index::new(schema::create(&new).map_err(StoreError::index(&new))?);
        index.begin().map_err(StoreError::index(&new))?;
        let report = catch_up(folder, list(folder, &index)?, &mut index, progress)?;
        index.commit().and_then(|()| index.finish()).map_err(StoreError::index(&new))?;
        report
    };
    // SQLite would apply a WAL left by the old index to the new one. The old index is removed before its WAL, without which it
    // could be a partial checkpoint: an interruption leaves no index, and it is rebuilt.
    for old in [path.clone(), with_suffix(&path, "-wal"), with_suffix(&path, "-shm")] {
        remove(&old)?;
    }
    fs::rename(&new, &path).map_err(StoreError::io("replacing", &path))?;
    Ok(report)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io("removing", path)(error)),
        _ => Ok(()),
    }
}

/// Indexes every log whose length differs from its length in the index. Must be called within a transaction.
pub(super) fn catch_up(
    folder: &Path,
    listing: Listing,
    index: &mut Index,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RebuildReport, StoreError> {
    let mut replay = Replay::new(folder, index, progress);
    replay.from_start = true;
    let failed = StoreError::index(&replay.index_path);
    let (known, under_way) =
        replay.index.runs().and_then(|known| Ok((known, replay.index.under_way()?))).map_err(failed)?;
    let under_way: BTreeSet<String> = under_way.into_iter().collect();
    let Listing { journal, mut runs, others, changed, indexed, .. } = listing;
    let folders: Vec<String> = runs.keys().cloned().collect();
    let is_whole = |run: &String| runs[run].iter().all(|log| log.bytes.is_some_and(|bytes| bytes > 0));
    let whole: Vec<(String, i64)> = changed.into_iter().filter(|(run, _)| is_whole(run)).collect();
    let known_journal = indexed.get(&journal.path).copied();
    replay.add(journal, known_journal)?;
    // Includes runs whose folder is gone.
    for run in folders.iter().chain(&under_way).collect::<BTreeSet<_>>() {
        replay.begin_run(run, known.contains(run) && !under_way.contains(run))?;
        for log in runs.remove(run).unwrap_or_default() {
            let known_log = indexed.get(&log.path).copied();
            replay.add(log, known_log)?;
        }
    }
    let report = replay.run()?;
    let noted = note_strays(folder, index, &folders, &others).and_then(|()| note_folders(index, &whole));
    noted.map_err(StoreError::index(&folder::index_path(folder)))?;
    Ok(report)
}

/// Records the folders of ended runs whose logs are all in the index, with their modification times.
fn note_folders(index: &Index, folders: &[(String, i64)]) -> rusqlite::Result<()> {
    if folders.is_empty() {
        return Ok(());
    }
    // Clocks of file systems have a coarse resolution: a file added in the same tick as the listing would go unnoticed.
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let latest_ns = i64::try_from(now_ns).unwrap_or(i64::MAX) - SETTLED.as_nanos() as i64;
    let (known, under_way) = (index.runs()?, index.under_way()?.into_iter().collect::<BTreeSet<_>>());
    for (run, changed_ns) in folders {
        if *changed_ns < latest_ns && known.contains(run) && !under_way.contains(run) {
            index.set_folder(run, *changed_ns)?;
        }
    }
    Ok(())
}

/// Records that the journal is missing, and which folders in `runs` belong to no run.
fn note_strays(folder: &Path, index: &Index, folders: &[String], others: &[String]) -> rusqlite::Result<()> {
    const STRAYS: &str = "runs/";
    let journal = folder::journal(folder);
    if !journal.exists() {
        index.damage("journal.jsonl", 0, None, false, "it is missing: nothing is known about the session's runs")?;
    }
    let known = index.runs()?;
    index.forget_damage(STRAYS)?;
    let links =
        others.iter().filter(|name| fs::symlink_metadata(folder::run(folder, name)).is_ok_and(|at| at.is_symlink()));
    let links = links.map(|name| format!("{name} is a link, which is not followed"));
    let unknown = folders.iter().filter(|run| !known.contains(*run));
    let unknown = unknown.map(|run| {
        format!("the journal does not mention run {run}, whose logs are here: lines of the journal are lost")
    });
    for (number, what) in (1..).zip(unknown.chain(links)) {
        index.damage(STRAYS, number, None, false, &what)?;
    }
    Ok(())
}

/// Like [`catch_up`], for the logs of one run.
pub(super) fn catch_up_run(folder: &Path, index: &mut Index, run: &str) -> Result<RebuildReport, StoreError> {
    let progress = &mut |_, _| {};
    let mut replay = Replay::new(folder, index, progress);
    let ended = replay.index.has_ended(run).map_err(StoreError::index(&replay.index_path))?;
    replay.begin_run(run, ended)?;
    for log in logs_of(folder, run)? {
        let bytes = replay.index.log_bytes(&log.path).map_err(StoreError::index(&replay.index_path))?;
        replay.add(log, bytes.map(|bytes| Indexed { bytes, ..Indexed::default() }))?;
    }
    replay.run()
}

/// The checksum of both ends of the first `bytes` of a session's journal.
pub(super) fn journal_ends(folder: &Path, bytes: u64) -> Result<String, StoreError> {
    let path = folder::journal(folder);
    sum_of_ends(&path, bytes).map_err(StoreError::io("reading", &path))
}

/// Folds a run's samples up to `bytes` of their log.
pub(super) fn fold_samples(folder: &Path, run: &str, bytes: u64) -> Result<TelemetryFold, StoreError> {
    let mut fold = TelemetryFold::default();
    each_sample(folder, run, bytes, |sample| fold.add(&sample))?;
    Ok(fold)
}

/// Calls `each` for every sample up to `bytes` of their log, in order. Malformed lines are left out.
pub(super) fn each_sample(
    folder: &Path,
    run: &str,
    bytes: u64,
    mut each: impl FnMut(Sample),
) -> Result<(), StoreError> {
    let path = folder::samples(folder, run);
    let read = lines::read(&path, bytes, |line| {
        if let Line::Whole(line, _) = line
            && let Ok(sample) = read_sample_line(line)
        {
            each(sample);
        }
        Ok::<_, std::io::Error>(ControlFlow::Continue(()))
    });
    read.map_err(StoreError::io("reading", &path))
}

struct Replay<'a> {
    folder: &'a Path,
    index_path: PathBuf,
    index: &'a mut Index,
    progress: &'a mut dyn FnMut(u64, u64),
    /// Logs to be read, with the number of bytes to read.
    pending: Vec<(LogFile, u64)>,
    /// Whether to drop the indexed part of a log before reading it, because lines that were indexed live may not have reached the disk.
    from_start: bool,
    /// Whether the index may contradict the logs of the current run.
    distrusts_index: bool,
    done_bytes: u64,
    /// Runs that the journal mentions up to the current line, and whether it has queued them.
    known: HashMap<String, bool>,
    /// Damaged lines of the log that is being read.
    damaged_lines: u64,
    /// The pieces of lines in this log that were not written again so far, with the numbers of the lines that begin with them.
    pieces: Vec<(u64, Vec<u8>)>,
    report: RebuildReport,
}

impl<'a> Replay<'a> {
    fn new(folder: &'a Path, index: &'a mut Index, progress: &'a mut dyn FnMut(u64, u64)) -> Self {
        let index_path = folder::index_path(folder);
        let report = RebuildReport::default();
        Self {
            folder,
            index_path,
            index,
            progress,
            pending: Vec::new(),
            from_start: false,
            distrusts_index: false,
            done_bytes: 0,
            known: HashMap::new(),
            damaged_lines: 0,
            pieces: Vec::new(),
            report,
        }
    }

    /// Begins a run; its logs are added afterwards.
    fn begin_run(&mut self, run: &str, ended: bool) -> Result<(), StoreError> {
        // The logs of a run are synced before its end is recorded. Without an end, a crash of the machine may have kept the length
        // of a log and lost its contents.
        self.distrusts_index = self.from_start && !ended;
        if self.distrusts_index {
            // Includes logs that are empty or missing: their lines were indexed live, but did not reach the disk.
            self.index.forget_logs(run).map_err(StoreError::index(&self.index_path))?;
        }
        Ok(())
    }

    /// Adds a log; `indexed` is what the index contains of it.
    fn add(&mut self, log: LogFile, indexed: Option<Indexed>) -> Result<(), StoreError> {
        let Some(bytes) = log.bytes else {
            let what = "it is a link or not a regular file, and was left out";
            let noted = self.index.damage(&log.path, 0, log.kind.run(), log.kind.is_of_ranks(), what);
            return noted.map_err(StoreError::index(&self.index_path));
        };
        let is_as_long = indexed.is_some_and(|indexed| indexed.bytes == bytes);
        let is_touched = indexed.is_some_and(|indexed| indexed.has_sum && indexed.changed_ns != log.changed_ns);
        if (self.distrusts_index || !is_as_long || is_touched) && (bytes > 0 || indexed.is_some()) {
            self.pending.push((log, bytes));
        }
        Ok(())
    }

    fn run(mut self) -> Result<RebuildReport, StoreError> {
        let total_bytes = self.pending.iter().map(|(_, bytes)| bytes).sum();
        for (pending, bytes) in std::mem::take(&mut self.pending) {
            let before_bytes = self.done_bytes;
            self.replay(&pending, bytes, total_bytes)?;
            self.done_bytes = before_bytes + bytes;
            (self.progress)(self.done_bytes, total_bytes);
            let indexed = match &pending.kind {
                Kind::Journal => self.index.set_journal(bytes, &journal_ends(self.folder, bytes)?),
                _ => self.index.set_log_bytes(&pending.path, bytes, pending.changed_ns),
            };
            indexed.map_err(StoreError::index(&self.index_path))?;
        }
        Ok(self.report)
    }

    fn replay(&mut self, pending: &LogFile, bytes: u64, total_bytes: u64) -> Result<(), StoreError> {
        // Progress is reported at most once per this many bytes.
        const REPORT_BYTES: u64 = 1 << 20;
        let file = self.folder.join(&pending.path);
        let mut fold = TelemetryFold::default();
        let mut reported_bytes = self.done_bytes;
        let torn_before = self.report.torn.len();
        let prepared = self.prepare(pending).map_err(StoreError::index(&self.index_path))?;
        let Some(ranks) = prepared else { return Ok(()) };
        let read = lines::read::<Stop>(&file, bytes, |line| {
            let (line, number) = match line {
                Line::Whole(line, number) => (line, number),
                Line::TooLong(number) => {
                    self.damaged(pending, number, &"the line is longer than any line of a log")?;
                    return Ok(ControlFlow::Continue(()));
                }
                Line::Torn(number) => {
                    self.torn(pending, number)?;
                    return Ok(ControlFlow::Break(()));
                }
            };
            let flow = match &pending.kind {
                Kind::Journal => self.decision(line, pending, number)?,
                Kind::Ranks { run, .. } => self.event(line, (run, &ranks), pending, number)?,
                Kind::Samples { .. } => {
                    match read_sample_line(line) {
                        Ok(sample) => {
                            fold.add(&sample);
                            self.report.samples += 1;
                        }
                        Err(error) => self.damaged(pending, number, &error)?,
                    }
                    ControlFlow::Continue(())
                }
            };
            self.done_bytes += line.len() as u64 + 1;
            if self.done_bytes - reported_bytes >= REPORT_BYTES {
                reported_bytes = self.done_bytes;
                (self.progress)(self.done_bytes, total_bytes);
            }
            Ok(flow)
        });
        read.map_err(|stop| match stop {
            Stop::Io(source) => StoreError::io("reading", &file)(source),
            Stop::Index(source) => StoreError::index(&self.index_path)(source),
        })?;
        self.note_rest(pending).map_err(StoreError::index(&self.index_path))?;
        // A log whose damage is already reported is known to differ from its checksum.
        if bytes > 0 && self.damaged_lines == 0 && self.report.torn.len() == torn_before {
            self.check_sum(pending, &file, bytes)?;
        }
        if let Kind::Samples { run } = &pending.kind {
            self.index.telemetry(run, &fold).map_err(StoreError::index(&self.index_path))?;
        }
        Ok(())
    }

    /// Prepares the index for a log that is read from its first line. Returns the ranks that may have written it, which are none for other
    /// logs; `None` if the log is left out.
    fn prepare(&mut self, log: &LogFile) -> rusqlite::Result<Option<Range<u32>>> {
        self.damaged_lines = 0;
        self.pieces.clear();
        self.index.forget_damage(&log.path)?;
        match &log.kind {
            Kind::Journal => {
                self.known.clear();
                // Starts are numbered in the order in which they are read.
                self.index.forget_start_orders()?;
                Ok(Some(0..0))
            }
            Kind::Ranks { run, ranks } => {
                if self.from_start {
                    self.index.forget_ranks(run, ranks)?;
                }
                let first = ranks.start;
                match self.index.world_size(run)? {
                    Some(size) if first >= size.max(1) => {
                        let size = counted(size, "rank");
                        let what = format!("the run has {size} and no rank {first}: the log was left out");
                        self.index.damage(&log.path, 0, Some(run), false, &what)?;
                        Ok(None)
                    }
                    Some(size) => Ok(Some(first..ranks.end.min(size.max(1)))),
                    None => Ok(Some(ranks.clone())),
                }
            }
            Kind::Samples { .. } => Ok(Some(0..0)),
        }
    }

    /// Reports a log of a finished run that differs from its recorded checksum. The run then has no numbers.
    fn check_sum(&mut self, log: &LogFile, file: &Path, bytes: u64) -> Result<(), StoreError> {
        let Kind::Ranks { run, .. } = &log.kind else { return Ok(()) };
        let known = self.index.sum(&log.path).map_err(StoreError::index(&self.index_path))?;
        let Some((known_bytes, sha256)) = known else { return Ok(()) };
        let sum = LogSum::of(file, bytes).map_err(StoreError::io("reading", file))?;
        if (sum.bytes, &sum.sha256) == (known_bytes, &sha256) {
            return Ok(());
        }
        let what = "it was changed after its run had finished: its checksum differs from the one in the journal";
        self.report.damaged.push(format!("{}: {what}", log.path));
        let noted = self.index.damage(&log.path, 0, Some(run), true, what);
        noted.map_err(StoreError::index(&self.index_path))
    }

    fn decision(&mut self, line: &[u8], log: &LogFile, number: u64) -> rusqlite::Result<ControlFlow<()>> {
        match read_journal_line(line) {
            Ok(line) => {
                match &line.decision {
                    Decision::RunQueued { run, .. } => {
                        self.report.runs += 1;
                        if self.known.insert(run.clone(), true) == Some(false) {
                            let why = format_args!(
                                "it queues the run {run}, which earlier lines already mention: lines of the journal are out of order"
                            );
                            self.damaged(log, number, &why)?;
                        }
                    }
                    Decision::RunPlaced { run, .. }
                    | Decision::RunStarted { run, .. }
                    | Decision::RunEnded { run, .. } => {
                        self.known.entry(run.clone()).or_insert(false);
                    }
                    _ => {}
                }
                self.index.decision(&line)?;
            }
            Err(error) => self.damaged(log, number, &error)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn event(
        &mut self,
        line: &[u8],
        from: (&str, &Range<u32>),
        log: &LogFile,
        number: u64,
    ) -> rusqlite::Result<ControlFlow<()>> {
        let parsed = read_event_line(line);
        let version = match parsed.as_deref() {
            Ok([EventLine { event: Event::Started { protocol_version, .. }, .. }]) => {
                Some(u64::from(*protocol_version))
            }
            Ok(_) => None,
            Err(_) => protocol_version_of(line),
        };
        if let Some(newer_version) = version.filter(|&newer_version| newer_version > u64::from(PROTOCOL_VERSION)) {
            let known = PROTOCOL_VERSION;
            let newer = format!(
                "protocol version {newer_version} is newer than {known}, the newest supported; update multicard (the rest of this log is skipped)"
            );
            self.damaged(log, number, &newer)?;
            return Ok(ControlFlow::Break(()));
        }
        match parsed {
            Ok(lines) => {
                self.pieces.retain(|(_, piece)| !line.starts_with(piece));
                // All events in a line belong to the same run and rank.
                let (run, ranks) = from;
                if let Some(foreign) = lines.iter().find(|line| line.run != run || !ranks.contains(&line.rank)) {
                    let why = format_args!("it belongs to run {:?}, rank {}", foreign.run, foreign.rank);
                    self.damaged(log, number, &why)?;
                    return Ok(ControlFlow::Continue(()));
                }
                for line in &lines {
                    self.index.event(line)?;
                }
                self.report.events += 1;
            }
            Err(error) => {
                let (pieces, whole) = line.split_at(event_start(line));
                if !pieces.is_empty() && read_event_line(whole).is_ok() {
                    self.keep_pieces(pieces, log, number)?;
                    return self.event(whole, from, log, number);
                }
                self.damaged(log, number, &error)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The protocol version in a line that may be of a newer protocol.
fn protocol_version_of(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct VersionOnly {
        protocol_version: Option<u64>,
    }
    serde_json::from_slice::<VersionOnly>(line).ok()?.protocol_version
}

enum Stop {
    Io(std::io::Error),
    Index(rusqlite::Error),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Index(error)
    }
}
