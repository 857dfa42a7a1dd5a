//! The supervisor of a run's ranks: starts them, watches them, and ends the others when one fails.
//!
//! It is a process of its own, `multicard group JOB PROGRAM…`, so that it survives the death of ranks and of the workbench. It
//! does not know what its ranks do: `PROGRAM…` is any command line. The job's `group.jsonl` records the exit of each process.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

use super::rendezvous::{Alone, MeetingFolder, Rendezvous};
use super::step::{Step, signal_steps};
use crate::foreign;
use crate::processes;
use crate::protocol::{CALLS_VARIABLE, Exit, GROUP_LOG, GroupEvent, GroupLine, Job, PROTOCOL_VERSION, RankPlace};

/// Subcommand of `multicard` that a rank starts as: `rank SUPERVISOR PROGRAM…`.
pub const RANK_COMMAND: &str = "rank";
/// Subcommand of `multicard` that a rank runs as if its job has a program: `program JOB`.
pub const PROGRAM_COMMAND: &str = "program";
/// Placeholder for the job file in a program's command line.
pub const JOB_WORD: &str = "{job}";
/// Placeholder for the rank in a program's command line.
pub const RANK_WORD: &str = "{rank}";

/// Time between the request to end and the kill of ranks.
const GRACE: Duration = Duration::from_secs(5);

/// Longest job: one of many ranks takes some kilobytes.
const MOST_JOB_BYTES: u64 = 16 << 20;

/// Longest output of a run's processes, and the sizes of the start and the end that are kept when it is shortened.
const MOST_OUTPUT_BYTES: u64 = 64 << 20;
const KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// Interval between checks of the ranks: long enough not to disturb their measurements.
const POLL: Duration = Duration::from_millis(20);

/// Leads the ranks of a job, one process each, until all have ended; returns whether all succeeded. `program` is the command
/// line of a rank, in which [`JOB_WORD`] and [`RANK_WORD`] are replaced. The calling process is dedicated to the job: it catches
/// SIGINT and SIGTERM, and must be `multicard`, as its ranks start as the same program. At a site, `describe_node` first writes the
/// environment of the node into the run's folder.
///
/// # Errors
/// The job cannot be read, its log cannot be written, or there is no rendezvous for the ranks. No rank was started then.
pub fn lead(job_path: &Path, program: &[OsString], describe_node: impl FnOnce(&Path)) -> Result<bool, String> {
    // nsys starts programs with a umask of 0.
    foreign::keep_files_from_others();
    let job = read(job_path)?;
    let log = job.folder.join(GROUP_LOG);
    let log = foreign::open_ours_with(&log, OpenOptions::new().create(true).append(true));
    let log = log.map_err(|error| format!("cannot write {GROUP_LOG} in {}: {error}", job.folder.display()))?;
    if job.site.is_some() && log.metadata().is_ok_and(|about| about.len() > 0) {
        return Err(
            "the scheduler started this job again, but each start is a run of its own: retry the run".to_owned()
        );
    }
    let signal = processes::signals()?;
    let own = std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let spans_nodes = job.shape.nodes() > 1;
    // In an allocation that runs share, a run's ranks are a step, which has what the run asks for.
    let is_step = spans_nodes || job.allocation.is_some();
    let rendezvous: Box<dyn Rendezvous> = if job.ranks.len() > 1 && !spans_nodes {
        Box::new(MeetingFolder::new().map_err(|error| format!("no folder for the rendezvous of the ranks: {error}"))?)
    } else {
        Box::new(Alone)
    };
    if job.program.is_some() {
        // Processes that survive the runner become children of this process, which ends them.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
    let step = Step { job: &job, own: &own };
    let start = |place: &RankPlace| {
        let mut command = match is_step {
            // One command for all nodes.
            true => {
                step.program(words(program.get(1..).unwrap_or_default(), job_path, place)).map_err(io::Error::other)?
            }
            false => command(&own, program, job_path, place),
        };
        let threads = place.compute_threads.to_string();
        command.env("OMP_NUM_THREADS", &threads).env("MKL_NUM_THREADS", &threads);
        if job.without_calls {
            command.env(CALLS_VARIABLE.0, CALLS_VARIABLE.1);
        }
        // A site's scheduler chooses the GPUs of a job that asks for some.
        let is_assigned = job.shape.devices() > 0 && job.site.as_ref().is_some_and(|site| site.gres.is_some());
        if !is_assigned {
            command.env("CUDA_VISIBLE_DEVICES", place.gpu_uuids().collect::<Vec<_>>().join(","));
        }
        command.envs(rendezvous.environment());
        on_cpus(&mut command, &place.cpus)
    };
    let unfit = match (&job.site, spans_nodes) {
        (None, _) => None,
        (Some(_), false) => {
            describe_node(&job.folder);
            None
        }
        (Some(_), true) => step.describe().err(),
    };
    let mut group = Group { log, is_step, ranks: Vec::new(), ending_since: None, well: true };
    if job.site.is_some() {
        let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
        group.note(GroupEvent::SupervisorStarted { hostname });
    }
    match unfit {
        Some((rank, reason)) => {
            group.well = false;
            group.note(GroupEvent::RankNotStarted { rank, reason });
        }
        None => {
            let watched = if is_step { &job.ranks[..job.ranks.len().min(1)] } else { &job.ranks };
            group.supervise(watched, start, &signal);
        }
    }
    if let Some(program) = &job.program {
        end_leftovers(&program.marker);
    }
    if job.site.is_some() {
        group.note(GroupEvent::SupervisorEnded { well: group.well });
    }
    Ok(group.well)
}

/// Kills the remaining processes of a program whose runner has ended: descendants of this process, and processes with the run's marker.
fn end_leftovers(marker: &str) {
    let find = || {
        let mut descendants = processes::descendants(std::process::id());
        let others = processes::marked(marker).into_iter().filter(|process| !descendants.contains(process));
        let others: Vec<_> = others.collect();
        descendants.extend(others);
        descendants
    };
    let (_, left) = processes::end(find, Duration::ZERO, || ());
    if !left.is_empty() {
        eprintln!("multicard: {} cannot be killed", processes::named(&left));
    }
}

/// First step of a rank's process: ties its lifetime to its supervisor's, and becomes its program. Returns only on failure, with
/// the reason.
pub fn become_rank(supervisor: u32, program: &[OsString]) -> String {
    // If this fails, a rank may outlive its supervisor; the launcher kills such ranks with their process group.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // The supervisor may have died before this request.
    let parent = rustix::process::getppid().map(Pid::as_raw_pid);
    if i32::try_from(supervisor).ok() != parent {
        return format!("the supervisor {supervisor} that started this rank is gone");
    }
    let Some((name, arguments)) = program.split_first() else { return "a rank needs a program".to_owned() };
    let error = Command::new(name).args(arguments).exec();
    format!("cannot execute {}: {error}: {}", name.display(), foreign::start_advice(&error))
}

fn read(path: &Path) -> Result<Job, String> {
    let shown = path.display();
    let text = foreign::read(path, MOST_JOB_BYTES).map_err(|error| format!("cannot read the job {shown}: {error}"))?;
    let job: Job = serde_json::from_slice(&text).map_err(|error| format!("the job {shown} is malformed: {error}"))?;
    if job.version != PROTOCOL_VERSION {
        return Err(format!(
            "the job {shown} uses protocol {}, this multicard uses {PROTOCOL_VERSION}: use one version for both",
            job.version
        ));
    }
    Ok(job)
}

/// Command of a rank: this program, which becomes the rank's program.
fn command(own: &Path, program: &[OsString], job_path: &Path, place: &RankPlace) -> Command {
    let mut command = Command::new(own);
    let program = words(program, job_path, place);
    command.arg(RANK_COMMAND).arg(std::process::id().to_string()).args(program).stdin(Stdio::null());
    command
}

/// Words of a rank's command line with their placeholders filled.
fn words(program: &[OsString], job_path: &Path, place: &RankPlace) -> Vec<OsString> {
    let word = |word: &OsString| match word.to_str() {
        Some(JOB_WORD) => job_path.as_os_str().to_owned(),
        Some(RANK_WORD) => OsString::from(place.rank.to_string()),
        _ => word.clone(),
    };
    program.iter().map(word).collect()
}

/// Starts a process on these CPUs, or on all if the list is empty, so that all of its threads and pages are there.
fn on_cpus(command: &mut Command, cpus: &[u32]) -> io::Result<Child> {
    if cpus.is_empty() {
        return command.spawn();
    }
    // A child inherits the CPUs of the thread that starts it, and keeps them across exec.
    let own = rustix::thread::sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter_map(|cpu| usize::try_from(*cpu).ok()).filter(|cpu| *cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| io::Error::other(format!("cannot bind to CPUs {cpus:?}: {error}")))?;
    let child = command.spawn();
    rustix::thread::sched_setaffinity(None, &own)?;
    child
}

/// Removes the middle of an output file that has grown beyond its limit, because the first and the last lines are the most useful ones.
/// Output that is written at the same moment may be lost.
fn shorten(output: impl AsFd) {
    let cut = || -> io::Result<()> {
        let mut file = File::from(output.as_fd().try_clone_to_owned()?);
        let about = file.metadata()?;
        if !about.is_file() || about.len() <= MOST_OUTPUT_BYTES {
            return Ok(());
        }
        let mut last = vec![0; KEPT_OUTPUT_BYTES];
        file.read_exact_at(&mut last, about.len() - KEPT_OUTPUT_BYTES as u64)?;
        file.set_len(KEPT_OUTPUT_BYTES as u64)?;
        let left_out = about.len() - 2 * KEPT_OUTPUT_BYTES as u64;
        write!(file, "\n[multicard left out {left_out} bytes of output here]\n")?;
        file.write_all(&last)
    };
    // An output that is not one of the launcher's files is not changed.
    let _ = cut();
}

struct Rank {
    rank: u32,
    child: Child,
}

struct Group {
    log: File,
    /// Whether one process, `srun`, stands for all ranks.
    is_step: bool,
    /// Ranks that have not ended.
    ranks: Vec<Rank>,
    /// Time at which the ranks were asked to end.
    ending_since: Option<Instant>,
    /// Whether all ranks that have ended succeeded.
    well: bool,
}

impl Group {
    /// Starts the ranks and watches them until none is left.
    fn supervise(
        &mut self,
        ranks: &[RankPlace],
        start: impl Fn(&RankPlace) -> io::Result<Child>,
        signal: &AtomicUsize,
    ) {
        for place in ranks {
            match start(place) {
                Ok(child) => {
                    // Ranks on other nodes log their start themselves.
                    if !self.is_step {
                        self.note(GroupEvent::RankStarted { rank: place.rank, pid: child.id() });
                    }
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
                // The rank that died first may have been checked just before that, so its peers' exits come first here.
                ended.extend(self.reap());
            }
            // After checking the ranks, so that ranks ended by the same signal count as ended on request.
            let number = signal.swap(0, Ordering::Relaxed);
            if number != 0 {
                self.note(GroupEvent::Interrupted { signal: i32::try_from(number).unwrap_or_default() });
                self.end();
            }
            let told_to = self.ending_since.is_some();
            for (rank, pid, exit) in ended {
                self.note(match self.is_step {
                    true => GroupEvent::StepEnded { exit, told_to },
                    false => GroupEvent::RankExited { rank, pid, exit, told_to },
                });
                if !exit.is_success() {
                    self.end();
                }
            }
            if self.ending_since.is_some_and(|since| since.elapsed() > GRACE) {
                // Without srun, the program would live on.
                if self.is_step {
                    signal_steps(Signal::KILL);
                }
                self.signal(Signal::KILL);
            }
            shorten(io::stdout());
            shorten(io::stderr());
            thread::sleep(POLL);
        }
    }

    /// Ranks that have ended since the last check: rank, process id, exit.
    fn reap(&mut self) -> Vec<(u32, u32, Exit)> {
        let mut ended = Vec::new();
        self.ranks.retain_mut(|rank| match rank.child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                ended.push((rank.rank, rank.child.id(), Exit::from(status)));
                false
            }
            Err(error) => {
                eprintln!("multicard: cannot wait for rank {}: {error}", rank.rank);
                ended.push((rank.rank, rank.child.id(), Exit::Code(-1)));
                false
            }
        });
        ended
    }

    /// Requests the ranks to end, once.
    fn end(&mut self) {
        self.well = false;
        if self.ending_since.is_none() {
            self.ending_since = Some(Instant::now());
            // srun would kill the program.
            if !(self.is_step && signal_steps(Signal::TERM)) {
                self.signal(Signal::TERM);
            }
            // A stopped process handles the signal only after it is continued.
            self.signal(Signal::CONT);
        }
    }

    fn signal(&self, signal: Signal) {
        for rank in &self.ranks {
            // It has not been reaped, so its id is still valid.
            let _ = rustix::process::kill_process(Pid::from_child(&rank.child), signal);
        }
    }

    fn note(&mut self, event: GroupEvent) {
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let line = serde_json::to_string(&GroupLine { time_s, event });
        let written = line.map_err(io::Error::from).and_then(|line| self.log.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            eprintln!("multicard: cannot write {GROUP_LOG}: {error}");
        }
    }
}
