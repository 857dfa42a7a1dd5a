//! The thread that maintains a session's index: it appends samples to their logs, indexes messages, and commits in batches.
//! If the index fails, it later catches up from the logs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::index::Index;
use super::journal::{Decision, JournalLine};
use super::lines::Appender;
use super::replay::{self, RebuildReport};
use super::schema::{self, Opened};
use super::telemetry::TelemetryFold;
use super::{StoreError, folder};
use crate::protocol::{EventLine, Sample};

/// Longest time, and largest number of rows, between two commits.
const COMMIT_TIME: Duration = Duration::from_millis(100);
const COMMIT_ROWS: u32 = 1000;
/// Least time between retries after the index failed.
const RETRY_TIME: Duration = Duration::from_secs(1);

/// The first error of the thread that has not been reported yet.
pub(super) type PendingError = Arc<Mutex<Option<StoreError>>>;

/// Message to the thread.
pub(super) enum Message {
    /// A decision, and the journal's length after it.
    Decision(JournalLine, u64),
    Event(EventLine),
    Sample(String, Box<Sample>),
    /// Request to index all earlier messages, then to reply.
    Flush(SyncSender<()>),
}

// The guarded values are consistent at any time, so a poisoned lock does no harm.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the index for the holder of the lock and brings it up to date with the logs, or rebuilds it if it is unusable.
pub(super) fn open_index(folder: &Path) -> Result<(Index, RebuildReport), StoreError> {
    let path = folder::index_path(folder);
    let open = || schema::open_writer(&path).map_err(StoreError::index(&path));
    let report = match open()? {
        Opened::Ready(connection) => {
            let mut index = Index::new(connection);
            let caught_up = replay::list(folder, &index).and_then(|listing| {
                if listing.contradicts_index() {
                    Ok(None)
                } else {
                    catch_up(folder, listing, &path, &mut index).map(Some)
                }
            });
            match caught_up {
                Ok(Some(report)) => return Ok((index, report)),
                Ok(None) => {}
                Err(error) if error.is_corrupt_index() => {}
                Err(error) => return Err(error),
            }
            drop(index);
            replay::rebuild_locked(folder, &mut |_, _| {})?
        }
        Opened::Unusable => replay::rebuild_locked(folder, &mut |_, _| {})?,
    };
    match open()? {
        Opened::Ready(connection) => Ok((Index::new(connection), report)),
        Opened::Unusable => Err(StoreError::NoIndex { path }),
    }
}

fn catch_up(
    folder: &Path,
    listing: replay::Listing,
    path: &Path,
    index: &mut Index,
) -> Result<RebuildReport, StoreError> {
    index.begin().map_err(StoreError::index(path))?;
    let report = replay::catch_up(folder, listing, index, &mut |_, _| {});
    let committed = report.and_then(|report| index.commit().map(|()| report).map_err(StoreError::index(path)));
    committed.inspect_err(|_| index.roll_back())
}

/// Log of a run's samples.
struct SampleLog {
    appender: Appender,
    fold: TelemetryFold,
    /// Whether the fold is newer than the index.
    ahead: bool,
}

/// The state of the thread.
pub(super) struct IndexKeeper {
    folder: PathBuf,
    index_path: PathBuf,
    index: Index,
    pending_error: PendingError,
    samples: HashMap<String, SampleLog>,
    /// Runs whose logs were read up to their ends when they ended.
    sealed: HashSet<String>,
    /// Sealed runs whose ranks sent events afterwards.
    late: BTreeSet<String>,
    /// Length of the journal after its last decision in the open transaction.
    journal_bytes: Option<u64>,
    /// Start of the open transaction.
    transaction_start: Option<Instant>,
    rows: u32,
    /// Time of the last attempt, if the index is behind because of an error.
    failed: Option<Instant>,
}

impl IndexKeeper {
    /// Maintains the index of the session in `folder`; `pending_error` receives the first unreported error.
    pub fn new(folder: &Path, index: Index, pending_error: PendingError) -> Self {
        Self {
            folder: folder.to_owned(),
            index_path: folder::index_path(folder),
            index,
            pending_error,
            samples: HashMap::new(),
            sealed: HashSet::new(),
            late: BTreeSet::new(),
            journal_bytes: None,
            transaction_start: None,
            rows: 0,
            failed: None,
        }
    }

    /// Processes messages until all senders are gone.
    pub fn run(mut self, receiver: &Receiver<Message>) {
        loop {
            let message = match self.transaction_start {
                Some(transaction_start) => {
                    receiver.recv_timeout(COMMIT_TIME.saturating_sub(transaction_start.elapsed()))
                }
                None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Flush(reply)) => {
                    self.settle();
                    // Fails only if nobody waits any more.
                    let _ = reply.send(());
                }
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => self.commit(),
                Err(RecvTimeoutError::Disconnected) => return self.settle(),
            }
        }
    }

    fn take(&mut self, message: Message) {
        // The log comes first: it is the truth, whatever happens to the index.
        if let Message::Sample(run, sample) = &message
            && let Err(error) = self.append(run, sample)
        {
            return self.report(error);
        }
        if let Some(tried) = self.failed {
            // Catching up finds this message in the logs.
            if tried.elapsed() >= RETRY_TIME {
                self.recover();
            }
            return;
        }
        match self.index(message) {
            Ok(()) => {
                self.rows += 1;
                if self.rows >= COMMIT_ROWS
                    || self
                        .transaction_start
                        .is_some_and(|transaction_start| transaction_start.elapsed() >= COMMIT_TIME)
                {
                    self.commit();
                }
            }
            Err(error) => self.fail(error),
        }
    }

    fn append(&mut self, run: &str, sample: &Sample) -> Result<(), StoreError> {
        let path = folder::samples(&self.folder, run);
        if !self.samples.contains_key(run) {
            // A sample that comes after the end of its run would open the log again, for good. The log is complete.
            if self.index.has_ended(run).unwrap_or(false) {
                return Ok(());
            }
            let run_folder = folder::run(&self.folder, run);
            fs::create_dir_all(&run_folder).map_err(StoreError::io("creating", &run_folder))?;
            let appender = Appender::open(&path).map_err(StoreError::io("opening", &path))?;
            let fold = replay::fold_samples(&self.folder, run, appender.bytes())?;
            self.samples.insert(run.to_owned(), SampleLog { appender, fold, ahead: false });
        }
        if let Some(log) = self.samples.get_mut(run) {
            let line = serde_json::to_string(sample).map_err(|e| StoreError::io("writing", &path)(e.into()))?;
            log.appender.append(line).map_err(StoreError::io("writing", &path))?;
            log.fold.add(sample);
            log.ahead = true;
        }
        Ok(())
    }

    fn index(&mut self, message: Message) -> Result<(), StoreError> {
        let path = &self.index_path;
        if self.transaction_start.is_none() {
            self.index.begin().map_err(StoreError::index(path))?;
            self.transaction_start = Some(Instant::now());
        }
        match message {
            // The log is the truth: the reading at the run's end may have found this event and later ones, which it must not replace.
            Message::Event(line) if self.sealed.contains(&line.run) => {
                self.late.insert(line.run);
                Ok(())
            }
            Message::Event(line) => self.index.event(&line).map_err(StoreError::index(path)),
            Message::Decision(line, journal_bytes) => {
                if let Decision::RunQueued { run, .. } | Decision::RunStarted { run, .. } = &line.decision {
                    self.sealed.remove(run);
                }
                self.index.decision(&line).map_err(StoreError::index(path))?;
                self.journal_bytes = Some(journal_bytes);
                match line.decision {
                    Decision::RunEnded { run, .. } => self.seal(&run),
                    _ => Ok(()),
                }
            }
            // Folds are written once per commit; flushes are handled elsewhere.
            Message::Sample(..) | Message::Flush(_) => Ok(()),
        }
    }

    /// Indexes the rest of an ended run's logs, so that they need not be read again when the session is opened.
    fn seal(&mut self, run: &str) -> Result<(), StoreError> {
        self.index_folds()?;
        self.samples.remove(run);
        self.sealed.insert(run.to_owned());
        replay::catch_up_run(&self.folder, &mut self.index, run).map(|_| ())
    }

    /// Reads what ranks logged after their runs had ended.
    fn index_late(&mut self) -> Result<(), StoreError> {
        for run in std::mem::take(&mut self.late) {
            replay::catch_up_run(&self.folder, &mut self.index, &run)?;
        }
        Ok(())
    }

    fn index_folds(&mut self) -> Result<(), StoreError> {
        for (run, log) in self.samples.iter_mut().filter(|(_, log)| log.ahead) {
            let written = self.index.telemetry(run, &log.fold);
            let path = format!("runs/{run}/samples.jsonl");
            let written = written.and_then(|()| self.index.set_log_bytes(&path, log.appender.bytes(), 0));
            written.map_err(StoreError::index(&self.index_path))?;
            log.ahead = false;
        }
        Ok(())
    }

    /// Records how much of the journal is indexed. Its ends are read once per commit, because a commit may contain many decisions.
    fn index_journal_bytes(&mut self) -> Result<(), StoreError> {
        let Some(bytes) = self.journal_bytes.take() else { return Ok(()) };
        let ends = replay::journal_ends(&self.folder, bytes)?;
        self.index.set_journal(bytes, &ends).map_err(StoreError::index(&self.index_path))
    }

    fn commit(&mut self) {
        if self.transaction_start.is_none() {
            return;
        }
        let commit = |writer: &mut Self| {
            writer.index_folds()?;
            writer.index_late()?;
            writer.index_journal_bytes()?;
            writer.index.commit().map_err(StoreError::index(&writer.index_path))
        };
        match commit(self) {
            Ok(()) => (self.transaction_start, self.rows) = (None, 0),
            Err(error) => self.fail(error),
        }
    }

    /// Writes and commits everything to the index, as far as it works.
    fn settle(&mut self) {
        self.commit();
        if self.failed.is_some() {
            self.recover();
        }
    }

    fn fail(&mut self, error: StoreError) {
        self.index.roll_back();
        (self.transaction_start, self.rows, self.failed) = (None, 0, Some(Instant::now()));
        self.journal_bytes = None;
        self.report(error);
    }

    fn recover(&mut self) {
        let caught_up = replay::list(&self.folder, &self.index)
            .and_then(|listing| catch_up(&self.folder, listing, &self.index_path, &mut self.index));
        match caught_up {
            Ok(_) => self.failed = None,
            Err(error) => self.fail(error),
        }
    }

    fn report(&self, error: StoreError) {
        lock(&self.pending_error).get_or_insert(error);
    }
}
