//! One session, seen from outside while its processes are killed: which there are, what its logs and its index say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use multicard::launch::MeetingFolder;
use multicard::plan::RunState;
use multicard::protocol::{EventLine, GROUP_LOG, GroupLine, Sample};
use multicard::store::{Decision, JournalLine, RunRecord, index_path};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustix::process::Pid;
use serde::de::DeserializeOwned;

use crate::seeded::records;
use crate::{CELLS, DEADLINE, REPEATS};

/// The processes of one session, by what they were called with.
#[derive(Debug, Default)]
pub struct Processes {
    pub workbench: Vec<Pid>,
    pub conductor: Vec<Pid>,
    pub group: Vec<Pid>,
    /// Ranks, and runners of programs.
    pub rank: Vec<Pid>,
    /// Programs, and what they started.
    pub program: Vec<Pid>,
}

impl Processes {
    /// `word` is one that the session's program was called with.
    fn of(session: &Path, word: &str) -> Self {
        let mut found = Self::default();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
            else {
                continue;
            };
            // What has ended and was not waited for has no command line.
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            let is_of_session = words.iter().any(|word| Path::new(word.as_ref()).starts_with(session));
            match words.get(1).map(AsRef::as_ref) {
                Some("group") if is_of_session => found.group.push(pid),
                Some("conduct") if is_of_session => found.conductor.push(pid),
                Some("rank" | "program") if is_of_session => found.rank.push(pid),
                _ if is_of_session => found.workbench.push(pid),
                _ if words.iter().any(|other| other.contains(word)) => found.program.push(pid),
                _ => {}
            }
        }
        found
    }

    pub fn all(&self) -> impl Iterator<Item = Pid> {
        let own = self.workbench.iter().chain(&self.conductor);
        own.chain(&self.group).chain(&self.rank).chain(&self.program).copied()
    }
}

/// One session through its kills.
pub struct Scene {
    pub session: PathBuf,
    pub errors: PathBuf,
    /// A word that its program was called with.
    pub word: String,
    /// Where its ranks meet.
    pub meetings: PathBuf,
    /// Where conductors listen.
    pub sockets: PathBuf,
    /// Whether its queue was ever left to a conductor.
    pub was_detached: bool,
    /// Whether a conductor of it was killed.
    pub conductor_killed: bool,
    /// Runs that were finished at some look, as they were then.
    pub finished: BTreeMap<String, String>,
}

impl Scene {
    pub fn processes(&self) -> Processes {
        Processes::of(&self.session, &self.word)
    }

    /// Whether somebody runs the session now, or is about to.
    pub fn is_written(&self) -> bool {
        let processes = self.processes();
        processes.workbench.into_iter().chain(processes.conductor).next().is_some()
    }

    /// Waits until the session's lock is free: a killed process has no command line any more before the system closes its files, and
    /// whoever reads meanwhile leaves the index to it.
    pub fn await_lock(&self) {
        wait_until("the lock is free", || File::open(self.session.join("session.lock")).unwrap().try_lock().is_ok());
    }

    /// Whether every cell has run as often as the plan says.
    pub fn is_complete(&self) -> bool {
        let found = records(&self.session);
        found.iter().filter(|record| record.state == RunState::Finished).count() == CELLS * REPEATS
    }

    /// What commands and conductors say.
    pub fn error_log(&self) -> File {
        File::options().create(true).append(true).open(&self.errors).unwrap()
    }

    pub fn complaints(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Every file in folders of runs, with its run.
    pub fn run_files(&self) -> Vec<(String, PathBuf)> {
        let runs = self.session.join("runs");
        let files = |run: String| {
            let folder = runs.join(&run);
            names(&folder).into_iter().map(move |name| (run.clone(), folder.join(name)))
        };
        names(&runs).into_iter().flat_map(files).collect()
    }

    pub fn log_bytes(&self) -> u64 {
        let logs = self.run_files().into_iter().map(|(_, file)| file).chain([self.session.join("journal.jsonl")]);
        let logs = logs.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
        logs.filter_map(|file| fs::metadata(file).ok()).map(|metadata| metadata.len()).sum()
    }

    pub fn journal(&self) -> Vec<JournalLine> {
        lines(&self.session.join("journal.jsonl"))
    }

    /// What a machine that loses its power does to a log: its end is gone, or zeros. What was synced before stays. Says
    /// what became of one.
    pub fn lose_a_page(&self, random: &mut ChaCha8Rng) -> Option<&'static str> {
        let journal = self.session.join("journal.jsonl");
        let text = fs::read(&journal).unwrap_or_default();
        let ended: BTreeSet<String> = self
            .journal()
            .into_iter()
            .filter_map(|line| match line.decision {
                Decision::RunEnded { run, .. } => Some(run),
                _ => None,
            })
            .collect();
        let mut logs: Vec<(PathBuf, usize)> = Vec::new();
        for (run, file) in self.run_files() {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".jsonl") && !ended.contains(&run) {
                logs.push((file, 0));
            }
        }
        // Of the journal only the last line may not have been synced yet.
        let last = text.strip_suffix(b"\n").unwrap_or(&text).iter().rposition(|byte| *byte == b'\n');
        logs.push((journal, last.map_or(0, |at| at + 1)));
        let index = index_path(&self.session).display().to_string();
        let [wal, shared] = ["-wal", "-shm"].map(|ending| PathBuf::from(format!("{index}{ending}")));
        logs.push((wal.clone(), synced_bytes(&wal, &shared)));
        let is_of_text = |file: &Path| file.extension().is_some_and(|ending| ending == "jsonl");
        let (file, kept) = logs.swap_remove(random.random_range(0..logs.len()));
        let mut bytes = fs::read(&file).ok()?;
        if kept > 0 && is_of_text(&file) && random.random_bool(0.3) {
            // A line that was never synced may have left its length alone.
            bytes.resize(bytes.len() + random.random_range(1..300), 0);
            fs::write(&file, bytes).unwrap();
            return Some("zeros stood at the end of the journal");
        }
        if bytes.len() <= kept {
            return None;
        }
        let at = random.random_range(kept..bytes.len());
        let cut = kept > 0 && is_of_text(&file) || random.random_bool(0.7);
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at..].fill(0);
        }
        fs::write(&file, bytes).unwrap();
        if kept > 0 && file == wal {
            return Some("the end of the index's WAL was lost after a part of it was in the database");
        }
        Some(if cut { "the end of a log was cut off" } else { "the end of a log became zeros" })
    }

    /// Every whole line of every log can be understood.
    pub fn check_logs(&self) {
        self.journal();
        for (run, file) in self.run_files() {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("rank-") {
                assert!(lines::<EventLine>(&file).iter().all(|line| line.run == run));
            } else if name == "samples.jsonl" {
                lines::<Sample>(&file);
            } else if name == GROUP_LOG {
                lines::<GroupLine>(&file);
            }
        }
    }

    /// What holds once the plan has come to its end.
    pub fn check_end(&self) {
        let found = records(&self.session);
        let finished = |record: &&RunRecord| record.state == RunState::Finished;
        assert_eq!(found.iter().filter(finished).count(), CELLS * REPEATS, "{}", self.complaints());
        assert!(found.iter().all(|record| record.state.is_final()));
        let cells: BTreeSet<_> = found.iter().filter(finished).map(|record| (&record.cell, record.repeat)).collect();
        assert_eq!(cells.len(), CELLS * REPEATS);
        wait_until("no process is left", || self.processes().all().next().is_none());
        for name in names(&self.sockets).into_iter().filter(|name| name.ends_with(".sock")) {
            // A conductor that was killed after the last run left it, and no later one replaced it.
            assert!(self.conductor_killed, "{name}");
            let socket = self.sockets.join(name);
            assert_eq!(UnixStream::connect(&socket).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            fs::remove_file(socket).unwrap();
        }
        // What killed supervisors left, the next one of this user removes.
        drop(MeetingFolder::new_in(&self.meetings).unwrap());
        assert_eq!(names(&self.meetings), Vec::<String>::new());
        let steps = |record: &RunRecord| record.ranks.iter().map(|rank| rank.steps.len()).collect::<Vec<_>>();
        for record in found.iter().filter(finished) {
            assert!(steps(record).iter().all(|count| *count == steps(record)[0] && *count > 0), "{record:?}");
        }
    }
}

/// How much of SQLite's WAL the disk has for certain. SQLite syncs it before it copies pages from it into the database, and says in the file that
/// its processes share (offset 128 of the WAL-index) how many frames it has begun to copy. Without these frames, pages of the database would be
/// newer than others.
fn synced_bytes(wal: &Path, shared: &Path) -> usize {
    const HEADER_BYTES: usize = 32;
    const FRAME_HEADER_BYTES: usize = 24;
    let number = |bytes: &[u8], at: usize| <[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok();
    let copied_frames = fs::read(shared).ok().and_then(|bytes| number(&bytes, 128)).map_or(0, u32::from_ne_bytes);
    let page_bytes = fs::read(wal).ok().and_then(|bytes| number(&bytes, 8)).map_or(0, u32::from_be_bytes);
    if copied_frames == 0 {
        0
    } else {
        HEADER_BYTES + copied_frames as usize * (FRAME_HEADER_BYTES + page_bytes as usize)
    }
}

/// The whole lines of a log; a last one without an end is left out.
fn lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read(path).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let parse = |line: &[u8]| {
        serde_json::from_slice(line)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", path.display(), String::from_utf8_lossy(line)))
    };
    text[..whole].split_inclusive(|byte| *byte == b'\n').map(|line| parse(line.strip_suffix(b"\n").unwrap())).collect()
}

pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}
