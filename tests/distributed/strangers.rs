//! Strangers on the machine: they connect to each new port of ranks over gloo and say what a rank would say.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use multicard::plan::RunState;
use multicard::protocol::{GROUP_LOG, GroupEvent, GroupLine};
use tempfile::TempDir;

use super::{
    CARD, DEADLINE, Run, TRAIN_IMAGES, environment, job, make_set, say_the_same, worker_whose_first_rank_waits,
};

/// What a run may take that strangers keep from meeting: ten seconds of attempts, and the start of its ranks.
const TOLD_WITHIN_S: f64 = 20.0;
/// How often ranks are attacked.
const RUNS: usize = 8;

/// A thread that connects to ports of a run's ranks as soon as they listen.
struct Stranger {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Stranger {
    /// Connects to each new port of these processes, once a `word`. A rank says the number of its place first; nobody need say anything.
    fn start(processes: Vec<u32>, words: &'static [Option<i64>]) -> Self {
        let ended = Arc::<AtomicBool>::default();
        let ended_copy = Arc::clone(&ended);
        let connect = move || {
            let (mut seen, mut held) = (BTreeSet::new(), Vec::new());
            while !ended_copy.load(Ordering::Relaxed) {
                for (port, inode) in listening() {
                    if seen.insert((port, inode)) && processes.iter().any(|process| owns(*process, inode)) {
                        held.extend(words.iter().filter_map(|word| connected(port, *word)));
                    }
                }
            }
            held.len()
        };
        let thread = thread::Builder::new().name("stranger".into()).spawn(connect).unwrap();
        Self { ended, thread }
    }

    /// Leaves; returns how many connections there were.
    fn leave(self) -> usize {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn connected(port: u16, word: Option<i64>) -> Option<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    if let Some(word) = word {
        stream.write_all(&word.to_le_bytes()).ok()?;
    }
    Some(stream)
}

/// Ports on which somebody listens, with the inodes of the sockets.
fn listening() -> Vec<(u16, u64)> {
    let text = fs::read_to_string("/proc/net/tcp").unwrap();
    let listening = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let port = u16::from_str_radix(fields.get(1)?.split_once(':')?.1, 16).ok()?;
        (fields[3] == "0A").then_some((port, fields.get(9)?.parse().ok()?))
    };
    text.lines().filter_map(listening).collect()
}

fn owns(process: u32, inode: u64) -> bool {
    let socket = format!("socket:[{inode}]");
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target == Path::new(&socket))
}

/// The processes of both ranks, once they are started.
fn processes(run: &Run) -> Vec<u32> {
    let begin = Instant::now();
    loop {
        let text = fs::read_to_string(run.run_folder().join(GROUP_LOG)).unwrap_or_default();
        let started = |line: &str| match serde_json::from_str::<GroupLine>(line).ok()?.event {
            GroupEvent::RankStarted { pid, .. } => Some(pid),
            _ => None,
        };
        let processes: Vec<_> = text.lines().filter_map(started).collect();
        if processes.len() == 2 {
            return processes;
        }
        assert!(begin.elapsed() < DEADLINE, "the ranks do not start: {text}");
        thread::yield_now();
    }
}

#[test]
fn ranks_meet_in_spite_of_strangers_who_take_their_places_or_name_them() {
    let mut outcomes = Vec::new();
    for _ in 0..RUNS {
        let run = Run::start("ddp-ds", 2, &[], &[]);
        let stranger = Stranger::start(processes(&run), &ALL_PLACES);
        let begin = Instant::now();
        let (state, reason) = run.end();
        let took_s = begin.elapsed().as_secs_f64();
        assert!(stranger.leave() > 0, "no port was found in time");
        if state == RunState::Finished {
            say_the_same(&run, 2);
        }
        outcomes.push((state, took_s, reason));
    }
    println!("{outcomes:#?}");
    for (state, took_s, reason) in &outcomes {
        let named = reason.contains("strangers") && reason.contains("user id") && *took_s < TOLD_WITHIN_S;
        assert!(*state == RunState::Finished || named, "{outcomes:#?}");
    }
}

/// What a stranger says where it wants to take any rank's place.
const ALL_PLACES: [Option<i64>; 5] = [None, Some(0), Some(1), Some(2), Some(3)];

/// A run whose second rank takes the first one for there, `attempts` times, with a stranger who is at its ports long before the first
/// comes: that one waits for the file `go`.
fn attacked(attempts: usize) -> (Run, Stranger, PathBuf) {
    let folder = TempDir::new().unwrap();
    make_set(folder.path(), TRAIN_IMAGES);
    let (job, worker) = (job(folder.path(), "ddp-ds", 2, 2, &[]), worker_whose_first_rank_waits(folder.path()));
    let go = folder.path().join("go");
    let run = Run::launch(folder, job, worker);
    let stranger = Stranger::start(processes(&run), &ALL_PLACES);
    let meeting = PathBuf::from(environment(run.process(1, |_| true), "MULTICARD_MEETING"));
    for attempt in 1..=attempts {
        fs::write(meeting.join(format!("card-{attempt}-0")), CARD).unwrap();
    }
    let begin = Instant::now();
    while !meeting.join("spoiled-1").exists() {
        assert!(begin.elapsed() < DEADLINE, "nothing is amiss");
        thread::sleep(Duration::from_millis(2));
    }
    (run, stranger, go)
}

#[test]
fn a_meeting_that_a_stranger_spoils_is_repeated_on_new_ports() {
    let (run, stranger, go) = attacked(1);
    assert!(stranger.leave() >= ALL_PLACES.len());
    fs::write(go, "").unwrap();
    run.finished();
    say_the_same(&run, 2);
}

#[test]
fn strangers_who_spoil_every_meeting_are_named() {
    let (run, stranger, _) = attacked(5);
    let begin = Instant::now();
    let (state, reason) = run.end();
    assert!(begin.elapsed().as_secs_f64() < TOLD_WITHIN_S, "{reason}");
    let found = stranger.leave();
    assert!(found >= 5 * ALL_PLACES.len(), "{found}");
    let user = rustix::process::geteuid().as_raw();
    let named = reason.starts_with("rank 1: strangers kept the ranks from meeting");
    assert!(state == RunState::Failed && named && reason.contains(&format!("of user id {user}")), "{reason}");
}
