//! The one writer of a session: decisions go to the journal here, all else to the thread that keeps the index.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use super::index_keeper::{IndexKeeper, Kept, Message, lock, open_index};
use super::journal::{Decision, JournalLine};
use super::lines::Appender;
use super::replay::RebuildReport;
use super::{Reader, StoreError, folder};
use crate::plan::Node;
use crate::protocol::{Event, EventLine, PROTOCOL_VERSION, Sample};

/// Messages between the session and the writer thread; who sends more waits.
const CHANNEL_MESSAGES: usize = 8192;

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
        let keeper = IndexKeeper::new(folder, index, Arc::clone(&kept));
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread = thread.spawn(move || keeper.run(&receiver));
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
