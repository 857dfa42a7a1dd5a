//! Supervises the ranks of one run: starts them, watches them, ends the others when one ends badly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::binding;
use crate::parallel::{STORE_VARIABLE, serve_store};
use multicard::protocol::{Exit, GROUP_LOG, GroupEvent, GroupLine, Job, PROTOCOL_VERSION, RankPlace};
use rustix::fs::Mode;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGINT, SIGTERM};

/// What ranks may take to end when told to, before they are killed.
const GRACE: Duration = Duration::from_secs(5);

/// Between two looks at the ranks: rare enough not to disturb what they measure.
const POLL: Duration = Duration::from_millis(20);

/// NCCL's watchdog aborts communicators that fail or time out, and the rank, which asks, says so in its log. Left to itself it
/// would end the process without a word, and first wait a minute to dump what it knows.
const NCCL_WATCHDOG: [(&str, &str); 3] = [
    ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"),
    ("TORCH_NCCL_DUMP_ON_TIMEOUT", "0"),
    ("TORCH_NCCL_ENABLE_MONITORING", "0"),
];

/// Tells a rank who started it.
const PARENT_VARIABLE: &str = "MULTICARD_GROUP_PID";

/// Runs the job in the file: one process a rank, `rank JOB R` of this very program. Succeeds when all ranks do.
pub fn run(job_path: &Path) -> ExitCode {
    match supervise(job_path) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("multicard-worker: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Asks the kernel to kill this rank when its supervisor dies, however that happens. For a rank, first of all it does.
pub fn die_with_parent() {
    // Without it a rank could outlive its supervisor; the launcher kills such ranks with their process group.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let expected = std::env::var(PARENT_VARIABLE).ok().and_then(|pid| pid.parse::<i32>().ok());
    let parent = rustix::process::getppid().map(Pid::as_raw_pid);
    // The supervisor may have died before the kernel was asked.
    if expected.is_some() && expected != parent {
        eprintln!("multicard-worker: the group that started this rank is gone");
        std::process::exit(1);
    }
}

fn supervise(job_path: &Path) -> Result<bool, String> {
    keep_files_from_others();
    let shown = job_path.display();
    let text = fs::read(job_path).map_err(|error| format!("cannot read the job {shown}: {error}"))?;
    let job: Job =
        serde_json::from_slice(&text).map_err(|error| format!("the job {shown} cannot be understood: {error}"))?;
    if job.version != PROTOCOL_VERSION {
        return Err(format!("the job {shown} is of protocol {}, this worker speaks {PROTOCOL_VERSION}", job.version));
    }
    let log = job.folder.join(GROUP_LOG);
    let log = OpenOptions::new().create(true).append(true).open(&log);
    let log = log.map_err(|error| format!("cannot write {GROUP_LOG} in {}: {error}", job.folder.display()))?;
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGTERM, SIGINT] {
        let value = usize::try_from(number).unwrap_or_default();
        signal_hook::flag::register_usize(number, Arc::clone(&signal), value)
            .map_err(|error| format!("cannot catch signal {number}: {error}"))?;
    }
    let store = if job.ranks.len() > 1 { Some(serve_store()) } else { None };
    let store = store.transpose().map_err(|error| format!("cannot open the store where ranks meet: {error}"))?;
    let port = store.as_ref().map(|(_, port)| *port);
    Ok(Group { log, ranks: Vec::new(), told: None, well: true, port }.supervise(&job, job_path, &signal))
}

/// nsys starts programs with a mask of 0, which would let everybody write the logs.
fn keep_files_from_others() {
    let usual = Mode::WGRP | Mode::WOTH;
    let mask = rustix::process::umask(usual);
    if !mask.is_empty() {
        rustix::process::umask(mask);
    }
}

struct Rank {
    rank: u32,
    child: Child,
}

struct Group {
    log: File,
    /// The ranks that have not ended.
    ranks: Vec<Rank>,
    /// When they were told to end.
    told: Option<Instant>,
    well: bool,
    /// Of the store where the ranks meet.
    port: Option<u16>,
}

impl Group {
    fn supervise(mut self, job: &Job, job_path: &Path, signal: &AtomicUsize) -> bool {
        for place in &job.ranks {
            match spawn(place, job_path, self.port) {
                Ok(child) => {
                    self.note(GroupEvent::RankStarted { rank: place.rank, pid: child.id() });
                    self.ranks.push(Rank { rank: place.rank, child });
                }
                Err(error) => {
                    self.note(GroupEvent::RankNotStarted { rank: place.rank, reason: error.to_string() });
                    self.end();
                    break;
                }
            }
        }
        while !self.ranks.is_empty() {
            let mut ended = self.reap();
            if !ended.is_empty() {
                // A rank that died first may have been looked at just before it did: its peers' ends are not the first.
                ended.extend(self.reap());
            }
            // After the look at the ranks, so that ranks which the same signal ended were told to end.
            let number = signal.swap(0, Ordering::Relaxed);
            if number != 0 {
                self.note(GroupEvent::Interrupted { signal: i32::try_from(number).unwrap_or_default() });
                self.end();
            }
            let told_to = self.told.is_some();
            for (rank, pid, exit) in ended {
                self.note(GroupEvent::RankExited { rank, pid, exit, told_to });
                if !exit.is_success() {
                    self.end();
                }
            }
            if self.told.is_some_and(|told| told.elapsed() > GRACE) {
                self.signal(Signal::KILL);
            }
            thread::sleep(POLL);
        }
        self.well
    }

    /// The ranks that have ended since the last look: rank, process id, how.
    fn reap(&mut self) -> Vec<(u32, u32, Exit)> {
        let mut ended = Vec::new();
        self.ranks.retain_mut(|rank| match rank.child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                ended.push((rank.rank, rank.child.id(), Exit::from(status)));
                false
            }
            Err(error) => {
                eprintln!("multicard-worker: lost sight of rank {}: {error}", rank.rank);
                ended.push((rank.rank, rank.child.id(), Exit::Code(-1)));
                false
            }
        });
        ended
    }

    /// Tells the ranks to end, once.
    fn end(&mut self) {
        self.well = false;
        if self.told.is_none() {
            self.told = Some(Instant::now());
            self.signal(Signal::TERM);
            // A stopped process takes the signal only when it goes on.
            self.signal(Signal::CONT);
        }
    }

    fn signal(&self, signal: Signal) {
        for rank in &self.ranks {
            // It has not been waited for, so its id is still its own.
            let _ = rustix::process::kill_process(Pid::from_child(&rank.child), signal);
        }
    }

    fn note(&mut self, event: GroupEvent) {
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let line = serde_json::to_string(&GroupLine { time_s, event });
        let written = line.map_err(io::Error::from).and_then(|line| self.log.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            eprintln!("multicard-worker: cannot write {GROUP_LOG}: {error}");
        }
    }
}

fn spawn(place: &RankPlace, job_path: &Path, port: Option<u16>) -> io::Result<Child> {
    let threads = place.compute_threads.to_string();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("rank").arg(job_path).arg(place.rank.to_string()).stdin(Stdio::null());
    command.env("CUDA_VISIBLE_DEVICES", place.gpu_uuids().collect::<Vec<_>>().join(","));
    command.env("OMP_NUM_THREADS", &threads).env("MKL_NUM_THREADS", &threads);
    command.env(PARENT_VARIABLE, std::process::id().to_string());
    if let Some(port) = port {
        command.env(STORE_VARIABLE, port.to_string()).envs(NCCL_WATCHDOG);
    }
    binding::spawn(&mut command, place)
}
