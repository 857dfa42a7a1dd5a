//! Writer of a session: writes decisions to the journal, and passes everything else to the index thread.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::WRITING;
use super::index_keeper::{IndexKeeper, Message, PendingError, lock, open_index};
use super::journal::{Decision, JournalLine};
use super::lines::Appender;
use super::replay::RebuildReport;
use super::{LogSum, Reader, StoreError, folder};
use crate::plan::{Node, RunState};
use crate::protocol::{Event, EventLine, PROTOCOL_VERSION, Sample};

/// Capacity of the channel to the writer thread; senders wait while it is full.
const CHANNEL_MESSAGES: usize = 8192;

/// Session that this process writes. Dropping it writes everything that is pending and releases the lock.
pub struct Store {
    folder: PathBuf,
    journal: Mutex<Appender>,
    /// `None` only during drop.
    sender: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    pending_error: PendingError,
    found: RebuildReport,
    _lock: folder::Lock,
}

impl Store {
    /// Creates a session in a new or empty folder and opens it. `node` is the machine it is created on.
    pub fn create(folder: &Path, node: &Node) -> Result<Self, StoreError> {
        folder::check_place(folder)?;
        let lock = folder::create(folder, node)?;
        // If a session cannot be written right after its creation, it is removed.
        Self::open_locked(folder, lock).inspect_err(|_| folder::remove_created(folder))
    }

    /// Opens a session for writing, or fails with [`StoreError::InUse`]. The index is first brought up to date with the logs, or
    /// rebuilt if it is missing, damaged or of another version.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        folder::check_place(folder)?;
        folder::read_node(folder)?;
        let lock = folder::lock(folder)?;
        Self::open_locked(folder, lock)
    }

    fn open_locked(folder: &Path, lock: folder::Lock) -> Result<Self, StoreError> {
        let path = folder::journal(folder);
        let journal = Appender::open(&path).map_err(StoreError::io("opening", &path))?;
        let (index, mut found) = open_index(folder)?;
        if journal.was_torn() {
            found.torn.push("journal.jsonl: the last line was incomplete and was removed".to_owned());
        }
        let (sender, receiver) = sync_channel(CHANNEL_MESSAGES);
        let pending_error = PendingError::default();
        let keeper = IndexKeeper::new(folder, index, Arc::clone(&pending_error));
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread = thread.spawn(move || keeper.run(&receiver));
        let thread = thread.map_err(StoreError::io("starting the writer thread of", folder))?;
        let (folder, journal) = (folder.to_owned(), Mutex::new(journal));
        Ok(Self { folder, journal, sender: Some(sender), thread: Some(thread), pending_error, found, _lock: lock })
    }

    /// The session's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder of a run: `runs/<id>`. The launcher or the first sample creates it.
    pub fn run_folder(&self, run: &str) -> PathBuf {
        folder::run(&self.folder, run)
    }

    /// Findings when the session was opened: damaged and torn lines that the index leaves out.
    pub fn found(&self) -> &RebuildReport {
        &self.found
    }

    /// Records a decision: it is on disk when this returns, and soon in the index. After an error it is not recorded. The logs of
    /// a run are on disk before its end is.
    pub fn decide(&self, decision: Decision) -> Result<(), StoreError> {
        self.decide_all(vec![decision])
    }

    /// Records several decisions at once, waiting for the disk only once. After an error none of them is recorded.
    pub fn decide_all(&self, decisions: Vec<Decision>) -> Result<(), StoreError> {
        self.check_pending_error()?;
        let sums = decisions.iter().map(|decision| self.prepare(decision)).collect::<Result<Vec<_>, _>>()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let path = folder::journal(&self.folder);
        let (mut lines, mut texts) = (Vec::with_capacity(decisions.len()), Vec::with_capacity(decisions.len()));
        for (decision, logs) in decisions.into_iter().zip(sums) {
            let line = JournalLine { time_s: now.as_secs_f64(), decision, logs };
            texts.push(serde_json::to_string(&line).map_err(|e| StoreError::io("writing", &path)(e.into()))?);
            lines.push(line);
        }
        // The lock is held until the decisions are sent, so that the index receives them in the journal's order.
        let mut journal = lock(&self.journal);
        let mut bytes = journal.bytes();
        journal.append_durably(texts.join("\n")).map_err(StoreError::io(WRITING, &path))?;
        for (line, text) in lines.into_iter().zip(texts) {
            bytes += text.len() as u64 + 1;
            self.send(Message::Decision(line, bytes))?;
        }
        Ok(())
    }

    /// Prepares a decision: checks its names, and syncs the logs of a run that ended. For a finished run, returns the checksums of its
    /// logs.
    fn prepare(&self, decision: &Decision) -> Result<Vec<LogSum>, StoreError> {
        match decision {
            Decision::RunEnded { run, state, .. } => {
                folder::check_run_id(run)?;
                self.sync_run(run)?;
                let run_folder = self.run_folder(run);
                if *state == RunState::Finished && run_folder.is_dir() {
                    return LogSum::of_run(&run_folder).map_err(StoreError::io("reading the logs in", &run_folder));
                }
            }
            Decision::RunQueued { run, .. } | Decision::RunPlaced { run, .. } | Decision::RunStarted { run, .. } => {
                folder::check_run_id(run)?;
            }
            Decision::TraceEnded { name, of_run: true, .. } => folder::check_run_id(name)?,
            _ => {}
        }
        Ok(Vec::new())
    }

    /// Indexes a line of a rank's log, which the rank writes. Repeated lines count once.
    pub fn event(&self, line: EventLine) -> Result<(), StoreError> {
        self.check_pending_error()?;
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

    /// Records a sample: the writer thread appends it to `runs/<id>/samples.jsonl` and indexes its summary.
    pub fn sample(&self, run: &str, sample: Sample) -> Result<(), StoreError> {
        self.check_pending_error()?;
        folder::check_run_id(run)?;
        self.send(Message::Sample(run.to_owned(), Box::new(sample)))
    }

    /// Waits until all earlier messages are in the index.
    pub fn flush(&self) -> Result<(), StoreError> {
        let (reply, done) = sync_channel(1);
        self.send(Message::Flush(reply))?;
        done.recv().map_err(|_| self.writer_gone())?;
        self.check_pending_error()
    }

    /// Opens a reader of this session.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open_index(&self.folder)
    }

    /// Syncs all files of a run to disk, so that a run that the journal reports as finished has complete logs even after a power
    /// failure.
    fn sync_run(&self, run: &str) -> Result<(), StoreError> {
        let run_folder = self.run_folder(run);
        if !run_folder.is_dir() {
            return Ok(());
        }
        // Then the samples so far are in their log; a failing index does no harm.
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

    fn check_pending_error(&self) -> Result<(), StoreError> {
        lock(&self.pending_error).take().map_or(Ok(()), Err)
    }

    fn writer_gone(&self) -> StoreError {
        StoreError::WriterGone { folder: self.folder.clone() }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Closing the channel ends the thread once it has processed all messages.
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
