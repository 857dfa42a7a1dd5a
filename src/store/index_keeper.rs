//! The thread that keeps a session's index: it appends samples to their logs, indexes what it is told, and commits in batches.
//! Where the index fails, what it lacks is in the logs, and is caught up with later.

use std::collections::HashMap;
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

/// Rows wait at most so long, and at most so many, before they are committed.
const COMMIT_TIME: Duration = Duration::from_millis(100);
const COMMIT_ROWS: u32 = 1000;
/// After the index failed, it is tried again at most so often.
const RETRY_TIME: Duration = Duration::from_secs(1);

/// The first error of the thread that nobody was told yet.
pub(super) type Kept = Arc<Mutex<Option<StoreError>>>;

/// What the thread is told.
pub(super) enum Message {
    /// With the journal's length after it.
    Decision(JournalLine, u64),
    Event(EventLine),
    Sample(String, Box<Sample>),
    /// Everything said before is to be in the index; then this is answered.
    Flush(SyncSender<()>),
}

// What the locks guard is whole at any time, so a panic elsewhere does not matter.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the index for who holds the lock, brought up to the logs; made anew where it cannot be used.
pub(super) fn open_index(folder: &Path) -> Result<(Index, RebuildReport), StoreError> {
    let path = folder::index_path(folder);
    let open = || schema::open_writer(&path).map_err(StoreError::index(&path));
    let report = match open()? {
        Opened::Ready(connection) => {
            let mut index = Index::new(connection);
            let shrunk = replay::has_shrunk(folder, &index).map_err(StoreError::index(&path));
            match shrunk
                .and_then(|shrunk| if shrunk { Ok(None) } else { catch_up(folder, &path, &mut index).map(Some) })
            {
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

fn catch_up(folder: &Path, path: &Path, index: &mut Index) -> Result<RebuildReport, StoreError> {
    index.begin().map_err(StoreError::index(path))?;
    let report = replay::catch_up(folder, index, &mut |_, _| {});
    let committed = report.and_then(|report| index.commit().map(|()| report).map_err(StoreError::index(path)));
    committed.inspect_err(|_| index.roll_back())
}

/// The samples' log of a run that is being sampled.
struct SampleLog {
    appender: Appender,
    fold: TelemetryFold,
    /// The fold is ahead of the index.
    ahead: bool,
}

/// The state of the thread.
pub(super) struct IndexKeeper {
    folder: PathBuf,
    index_path: PathBuf,
    index: Index,
    kept: Kept,
    samples: HashMap<String, SampleLog>,
    /// When the open transaction was begun.
    begun: Option<Instant>,
    rows: u32,
    /// The index lacks something since an error; when it was last tried.
    failed: Option<Instant>,
}

impl IndexKeeper {
    /// Keeps the index of the session in `folder`, and in `kept` the first error that nobody was told yet.
    pub fn new(folder: &Path, index: Index, kept: Kept) -> Self {
        Self {
            folder: folder.to_owned(),
            index_path: folder::index_path(folder),
            index,
            kept,
            samples: HashMap::new(),
            begun: None,
            rows: 0,
            failed: None,
        }
    }

    /// Works until nobody can tell it anything any more.
    pub fn run(mut self, receiver: &Receiver<Message>) {
        loop {
            let message = match self.begun {
                Some(begun) => receiver.recv_timeout(COMMIT_TIME.saturating_sub(begun.elapsed())),
                None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Flush(reply)) => {
                    self.settle();
                    // Nobody waits any more where this fails.
                    let _ = reply.send(());
                }
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => self.commit(),
                Err(RecvTimeoutError::Disconnected) => return self.settle(),
            }
        }
    }

    fn take(&mut self, message: Message) {
        // A log first: it is the truth, whatever becomes of the index.
        if let Message::Sample(run, sample) = &message
            && let Err(error) = self.append(run, sample)
        {
            return self.keep(error);
        }
        if let Some(tried) = self.failed {
            // What comes now is in the logs, where catching up finds it.
            if tried.elapsed() >= RETRY_TIME {
                self.recover();
            }
            return;
        }
        match self.index(message) {
            Ok(()) => {
                self.rows += 1;
                if self.rows >= COMMIT_ROWS || self.begun.is_some_and(|begun| begun.elapsed() >= COMMIT_TIME) {
                    self.commit();
                }
            }
            Err(error) => self.fail(error),
        }
    }

    fn append(&mut self, run: &str, sample: &Sample) -> Result<(), StoreError> {
        let path = folder::samples(&self.folder, run);
        if !self.samples.contains_key(run) {
            let run_folder = folder::run(&self.folder, run);
            fs::create_dir_all(&run_folder).map_err(StoreError::io("making", &run_folder))?;
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
        if self.begun.is_none() {
            self.index.begin().map_err(StoreError::index(path))?;
            self.begun = Some(Instant::now());
        }
        match message {
            Message::Event(line) => self.index.event(&line).map_err(StoreError::index(path)),
            Message::Decision(line, journal_bytes) => {
                let indexed = self.index.decision(&line);
                indexed
                    .and_then(|()| self.index.set_log_bytes("journal.jsonl", journal_bytes))
                    .map_err(StoreError::index(path))?;
                match line.decision {
                    Decision::RunEnded { run, .. } => self.seal(&run),
                    _ => Ok(()),
                }
            }
            // Folds are written once a commit; flushes do not come here.
            Message::Sample(..) | Message::Flush(_) => Ok(()),
        }
    }

    /// A run is over: whatever its logs hold beyond what was said of them is indexed now, and they need not be read
    /// again when the session is opened.
    fn seal(&mut self, run: &str) -> Result<(), StoreError> {
        self.index_folds()?;
        self.samples.remove(run);
        replay::catch_up_run(&self.folder, &mut self.index, run).map(|_| ())
    }

    fn index_folds(&mut self) -> Result<(), StoreError> {
        for (run, log) in self.samples.iter_mut().filter(|(_, log)| log.ahead) {
            let written = self.index.telemetry(run, &log.fold);
            let path = format!("runs/{run}/samples.jsonl");
            let written = written.and_then(|()| self.index.set_log_bytes(&path, log.appender.bytes()));
            written.map_err(StoreError::index(&self.index_path))?;
            log.ahead = false;
        }
        Ok(())
    }

    fn commit(&mut self) {
        if self.begun.is_none() {
            return;
        }
        let commit = |writer: &mut Self| {
            writer.index_folds()?;
            writer.index.commit().map_err(StoreError::index(&writer.index_path))
        };
        match commit(self) {
            Ok(()) => (self.begun, self.rows) = (None, 0),
            Err(error) => self.fail(error),
        }
    }

    /// Everything that can be in the index is, now.
    fn settle(&mut self) {
        self.commit();
        if self.failed.is_some() {
            self.recover();
        }
    }

    fn fail(&mut self, error: StoreError) {
        self.index.roll_back();
        (self.begun, self.rows, self.failed) = (None, 0, Some(Instant::now()));
        self.keep(error);
    }

    fn recover(&mut self) {
        match catch_up(&self.folder, &self.index_path, &mut self.index) {
            Ok(_) => self.failed = None,
            Err(error) => self.fail(error),
        }
    }

    fn keep(&self, error: StoreError) {
        lock(&self.kept).get_or_insert(error);
    }
}
