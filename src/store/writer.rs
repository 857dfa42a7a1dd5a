//! The one writer of a session: the journal, the samples' logs, and the thread that keeps the index.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::index::Index;
use super::journal::{Decision, JournalLine};
use super::lines::Appender;
use super::replay::{self, RebuildReport};
use super::schema::{self, Opened};
use super::telemetry::TelemetryFold;
use super::{Reader, StoreError, folder};
use crate::plan::Node;
use crate::protocol::{Event, EventLine, PROTOCOL_VERSION, Sample};

/// Rows wait at most so long, and at most so many, before they are committed.
const COMMIT_TIME: Duration = Duration::from_millis(100);
const COMMIT_ROWS: u32 = 1000;
/// Messages between the session and the writer thread; who sends more waits.
const CHANNEL_MESSAGES: usize = 8192;
/// After the index failed, it is tried again at most so often.
const RETRY_TIME: Duration = Duration::from_secs(1);

/// A session that this process writes. Dropping it writes what is left and lets the next writer in.
pub struct Store {
    folder: PathBuf,
    journal: Mutex<Appender>,
    /// None only while dropping.
    sender: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    kept: Kept,
    found: RebuildReport,
    _lock: File,
}

/// The first error of the writer thread that nobody was told yet.
type Kept = Arc<Mutex<Option<StoreError>>>;

enum Message {
    /// With the journal's length after it.
    Decision(JournalLine, u64),
    Event(EventLine),
    Sample(String, Box<Sample>),
    Flush(SyncSender<()>),
}

impl Store {
    /// Makes a session of a new or empty folder and opens it. `node` is the machine it is made on.
    pub fn create(folder: &Path, node: &Node) -> Result<Self, StoreError> {
        let lock = folder::create(folder, node)?;
        // A session that cannot be written from the start is none: nothing half-made stays behind.
        Self::open_locked(folder, lock).inspect_err(|_| folder::unmake(folder))
    }

    /// Opens a session to write it; [`StoreError::InUse`] where another does. An index that lacks something of the
    /// logs, or is missing, damaged or of another version, is brought up to them first.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        folder::read_node(folder)?;
        let lock = folder::lock(folder)?;
        Self::open_locked(folder, lock)
    }

    fn open_locked(folder: &Path, lock: File) -> Result<Self, StoreError> {
        let path = folder::journal(folder);
        let journal = Appender::open(&path).map_err(StoreError::io("opening", &path))?;
        let (index, mut found) = open_index(folder)?;
        if journal.was_torn() {
            found.torn.push("journal.jsonl: the last line had no end; cut off".to_owned());
        }
        let (sender, receiver) = sync_channel(CHANNEL_MESSAGES);
        let kept = Kept::default();
        let writer = Writer {
            folder: folder.to_owned(),
            index_path: folder::index_path(folder),
            index,
            kept: Arc::clone(&kept),
            samples: HashMap::new(),
            begun: None,
            rows: 0,
            failed: None,
        };
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread = thread.spawn(move || writer.run(&receiver));
        let thread = thread.map_err(StoreError::io("starting the writer thread of", folder))?;
        let (folder, journal) = (folder.to_owned(), Mutex::new(journal));
        Ok(Self { folder, journal, sender: Some(sender), thread: Some(thread), kept, found, _lock: lock })
    }

    /// The session's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a run: `runs/<id>`. The first sample makes it, or whoever launches the run.
    pub fn run_folder(&self, run: &str) -> PathBuf {
        folder::run(&self.folder, run)
    }

    /// What was left out of the index when the session was opened: lines damaged or torn, of logs read then.
    pub fn found(&self) -> &RebuildReport {
        &self.found
    }

    /// Keeps a decision: it is on the disk when this returns, and soon in the index. After an error it is not kept. What is
    /// said of a run before its end is on the disk before its end is.
    pub fn decide(&self, decision: Decision) -> Result<(), StoreError> {
        self.tell_kept()?;
        if let Decision::RunQueued { run, .. }
        | Decision::RunPlaced { run, .. }
        | Decision::RunStarted { run, .. }
        | Decision::RunEnded { run, .. } = &decision
        {
            folder::check_run_id(run)?;
        }
        if let Decision::TraceEnded { name, of_run: true, .. } = &decision {
            folder::check_run_id(name)?;
        }
        if let Decision::RunEnded { run, .. } = &decision {
            self.sync_run(run)?;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = JournalLine { time_s: now.as_secs_f64(), decision };
        let path = folder::journal(&self.folder);
        let text = serde_json::to_string(&line).map_err(|e| StoreError::io("writing", &path)(e.into()))?;
        // Held until the writer has it, so that the index learns decisions in the journal's order.
        let mut journal = lock(&self.journal);
        journal.append_durably(text).map_err(StoreError::io("writing", &path))?;
        self.send(Message::Decision(line, journal.bytes()))
    }

    /// Indexes a line of a rank's log. The log itself is the truth and written by the rank. Said twice, it counts once.
    pub fn event(&self, line: EventLine) -> Result<(), StoreError> {
        self.tell_kept()?;
        folder::check_run_id(&line.run)?;
        if let Event::Started { protocol_version, .. } = line.event
            && protocol_version > PROTOCOL_VERSION
        {
            return Err(StoreError::Newer {
                place: format!("run {}, rank {}", line.run, line.rank),
                what: "protocol",
                found: u64::from(protocol_version),
                known: PROTOCOL_VERSION,
            });
        }
        self.send(Message::Event(line))
    }

    /// Keeps a sample: appended to `runs/<id>/samples.jsonl`, its summary indexed, by the writer thread.
    pub fn sample(&self, run: &str, sample: Sample) -> Result<(), StoreError> {
        self.tell_kept()?;
        folder::check_run_id(run)?;
        self.send(Message::Sample(run.to_owned(), Box::new(sample)))
    }

    /// Waits until everything said before is in the index.
    pub fn flush(&self) -> Result<(), StoreError> {
        let (reply, done) = sync_channel(1);
        self.send(Message::Flush(reply))?;
        done.recv().map_err(|_| self.writer_gone())?;
        self.tell_kept()
    }

    /// A reader of this session.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open_index(&self.folder)
    }

    /// Waits until all files of a run are on the disk: a run that the journal calls finished has whole logs even when the
    /// machine loses its power in the next moment.
    fn sync_run(&self, run: &str) -> Result<(), StoreError> {
        let run_folder = self.run_folder(run);
        if !run_folder.is_dir() {
            return Ok(());
        }
        // The samples so far are in their log then; the index may fail without harm.
        let (reply, done) = sync_channel(1);
        self.send(Message::Flush(reply))?;
        done.recv().map_err(|_| self.writer_gone())?;
        let sync = |path: &Path| {
            let synced = File::open(path).and_then(|file| file.sync_all());
            synced.map_err(StoreError::io("writing", path))
        };
        let entries = fs::read_dir(&run_folder).map_err(StoreError::io("listing", &run_folder))?;
        for file in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
            sync(&file.path())?;
        }
        sync(&run_folder)?;
        sync(&folder::runs(&self.folder))
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        match &self.sender {
            Some(sender) if sender.send(message).is_ok() => Ok(()),
            _ => Err(self.writer_gone()),
        }
    }

    fn tell_kept(&self) -> Result<(), StoreError> {
        lock(&self.kept).take().map_or(Ok(()), Err)
    }

    fn writer_gone(&self) -> StoreError {
        StoreError::WriterGone { folder: self.folder.clone() }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // A closed channel ends the thread once it has written everything in it.
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// What the locks guard is whole at any time, so a panic elsewhere does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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

struct Writer {
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

impl Writer {
    fn run(mut self, receiver: &Receiver<Message>) {
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
