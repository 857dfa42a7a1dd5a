//! The supervisor of a run's ranks: starts them, watches them, and ends the others when one fails.
//!
//! It is a process of its own, `multicard group JOB PROGRAM…`, so that it survives the death of ranks and of the workbench. The supervisor
//! does not know what its ranks do: `PROGRAM…` is any command line. The job's `group.jsonl` records the exit of each process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

use super::group_log::GroupLog;
use super::process;
use super::rendezvous::{Alone, MeetingFolder, Rendezvous, SharedFolder};
use super::run_folder::RunFolder;
use super::step::{Step, node_of_step, signal_steps};
use crate::foreign;
use crate::processes;
use crate::protocol::{
    CALLS_VARIABLE, CLOCKS_VARIABLE, Clock, Exit, GROUP_LOG, GroupEvent, Job, PROTOCOL_VERSION, RankPlace, hostname,
    node_log, node_name,
};

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

/// Longest job file: a job of many ranks takes some kilobytes.
const MOST_JOB_BYTES: u64 = 16 << 20;

/// Longest output of a run's processes, and the sizes of the start and the end that are kept when it is shortened.
const MOST_OUTPUT_BYTES: u64 = 64 << 20;
const KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// Interval between checks of the ranks: long enough not to disturb their measurements.
const POLL: Duration = Duration::from_millis(20);

/// Leads the ranks of a job, one process each, until all have ended; returns whether all succeeded. `program` is the command
/// line of a rank, in which [`JOB_WORD`] and [`RANK_WORD`] are replaced. The calling process is dedicated to the job: it catches
/// SIGINT and SIGTERM, and must be `multicard`, as its ranks start as the same program. At a site, `describe_node` first writes the
/// environment of the node into the run's folder. `sample` then samples the node until the ranks have ended, unless other processes start
/// them.
///
/// # Errors
/// The job cannot be read, its log cannot be written, or there is no rendezvous for the ranks. No rank was started then.
pub fn lead<S>(
    job_path: &Path,
    program: &[OsString],
    describe_node: impl FnOnce(&Path),
    sample: impl FnOnce(&Job, u32, Vec<(u32, u32)>) -> S,
) -> Result<bool, String> {
    // nsys starts programs with a umask of 0.
    foreign::keep_files_from_others();
    let job = read(job_path)?;
    let log = GroupLog::open(&job.folder, GROUP_LOG)?;
    // Made now, as the folder may be renamed while the program runs.
    let mark = process::mark(&job);
    if job.site.is_some() && log.has_lines {
        return Err(
            "the scheduler started this job again, but each start is a run of its own: retry the run".to_owned()
        );
    }
    let signal = processes::signals()?;
    let own = own_path()?;
    let (spans_nodes, is_step) = (job.shape.nodes() > 1, job.is_step());
    let rendezvous: Box<dyn Rendezvous> = if job.program.is_some() {
        Box::new(Alone)
    } else if spans_nodes {
        Box::new(SharedFolder::new(&job.folder).map_err(|error| no_rendezvous(&error))?)
    } else if is_step {
        // The leader of the node's ranks makes the meeting folder.
        Box::new(Alone)
    } else {
        meeting(job.ranks.len())?
    };
    if job.program.is_some() {
        // Processes that survive the runner become children of this process, which ends them.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
    let step = Step { job: &job, own: &own };
    let clocks = match (&job.site, spans_nodes) {
        (None, _) => Ok(Vec::new()),
        (Some(_), false) => {
            describe_node(&job.folder);
            Ok(Vec::new())
        }
        (Some(_), true) => step.describe(),
    };
    let mut group = Group::new(log, RunFolder::open(&job.folder), is_step);
    if job.site.is_some() {
        group.log.note(GroupEvent::SupervisorStarted { hostname: hostname() });
    }
    let starter = Starter { job: &job, job_path, own: &own, program, rendezvous };
    match clocks {
        Err((rank, reason)) => {
            group.well = false;
            group.log.note(GroupEvent::RankNotStarted { rank, reason });
        }
        // One command for all nodes, whose processes sample them.
        Ok(clocks) if is_step => {
            let start = |place: &RankPlace| starter.start_step(&step, &clocks, place);
            group.supervise(job.ranks.get(..1).unwrap_or_default(), start, |_| (), &signal);
        }
        // The runner of a program samples its node itself.
        Ok(_) if job.program.is_some() => {
            group.supervise(&job.ranks, |place| starter.start(place), |_| (), &signal);
        }
        Ok(_) => {
            group.supervise(&job.ranks, |place| starter.start(place), |ranks| sample(&job, 0, ranks), &signal);
        }
    }
    if job.program.is_some() {
        end_leftovers(mark.as_deref());
    }
    if job.site.is_some() {
        group.log.note(GroupEvent::SupervisorEnded { well: group.well });
    }
    group.finish(&signal);
    Ok(group.well)
}

/// Leads the ranks of a job on this node until all of them have ended; returns whether all succeeded. The job's
/// supervisor starts one such process on each node. It writes the node's log. `sample` samples the node until the ranks have ended.
///
/// # Errors
/// Those of [`lead`].
pub fn lead_node<S>(
    job_path: &Path,
    program: &[OsString],
    sample: impl FnOnce(&Job, u32, Vec<(u32, u32)>) -> S,
) -> Result<bool, String> {
    foreign::keep_files_from_others();
    let job = read(job_path)?;
    let node = node_of_step();
    let log = GroupLog::open(&job.folder, &node_log(node))?;
    let signal = processes::signals()?;
    let own = own_path()?;
    let here: Vec<RankPlace> =
        job.ranks.iter().filter(|place| job.shape.node_of(place.rank) == node).cloned().collect();
    // The supervisor made the folder for the ranks of several nodes, and this process inherits its variables.
    let rendezvous = meeting(if job.shape.nodes() > 1 { 0 } else { here.len() })?;
    let starter = Starter { job: &job, job_path, own: &own, program, rendezvous };
    let mut group = Group::new(log, RunFolder::open(&job.folder), false);
    group.log.note(GroupEvent::SupervisorStarted { hostname: node_name() });
    group.supervise(&here, |place| starter.start(place), |ranks| sample(&job, node, ranks), &signal);
    group.log.note(GroupEvent::SupervisorEnded { well: group.well });
    group.finish(&signal);
    Ok(group.well)
}

/// The rendezvous for this number of ranks on this machine.
fn meeting(ranks: usize) -> Result<Box<dyn Rendezvous>, String> {
    if ranks < 2 {
        return Ok(Box::new(Alone));
    }
    Ok(Box::new(MeetingFolder::new().map_err(|error| no_rendezvous(&error))?))
}

fn no_rendezvous(error: &str) -> String {
    format!("no folder for the rendezvous of the ranks: {error}")
}

fn own_path() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))
}

/// Starts the processes of a job's ranks.
struct Starter<'a> {
    job: &'a Job,
    job_path: &'a Path,
    /// `multicard`.
    own: &'a Path,
    /// The command line of a rank.
    program: &'a [OsString],
    rendezvous: Box<dyn Rendezvous>,
}

impl Starter<'_> {
    /// Starts a rank on this node.
    fn start(&self, place: &RankPlace) -> io::Result<Child> {
        let mut command = command(self.own, self.program, self.job_path, place);
        let (job, shape) = (self.job, &self.job.shape);
        if !self.has_assigned_gpus() {
            command.env("CUDA_VISIBLE_DEVICES", place.gpu_uuids().collect::<Vec<_>>().join(","));
        } else if job.program.is_none() {
            let all = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            let local = place.rank % shape.processes_per_node().max(1);
            command.env("CUDA_VISIBLE_DEVICES", share(all.as_deref(), local, shape.devices_per_process));
        }
        self.spawn(command, place)
    }

    /// Starts the command that starts the ranks of all nodes.
    fn start_step(&self, step: &Step, clocks: &[Option<Clock>], place: &RankPlace) -> io::Result<Child> {
        let mut command = if self.job.program.is_some() {
            let runner = self.program.get(1..).unwrap_or_default();
            step.program(words(runner, self.job_path, place)).map_err(io::Error::other)?
        } else {
            step.ranks(self.job_path, self.program)
        };
        command.env(CLOCKS_VARIABLE, serde_json::to_string(clocks).unwrap_or_default());
        if !self.has_assigned_gpus() {
            command.env("CUDA_VISIBLE_DEVICES", place.gpu_uuids().collect::<Vec<_>>().join(","));
        }
        self.spawn(command, place)
    }

    fn spawn(&self, mut command: Command, place: &RankPlace) -> io::Result<Child> {
        let threads = place.compute_threads.to_string();
        command.env("OMP_NUM_THREADS", &threads).env("MKL_NUM_THREADS", &threads);
        if self.job.without_calls {
            command.env(CALLS_VARIABLE.0, CALLS_VARIABLE.1);
        }
        command.envs(self.rendezvous.environment());
        on_cpus(&mut command, &place.cpus)
    }

    /// Whether a site's scheduler chooses the GPUs of the job.
    fn has_assigned_gpus(&self) -> bool {
        self.job.site.as_ref().is_some_and(|site| site.assigns_gpus(&self.job.shape))
    }
}

/// The GPUs that one rank of a node gets, as `CUDA_VISIBLE_DEVICES` names them. `all` are the GPUs that the scheduler
/// assigned to the job on this node. If it named none, GPUs are counted from 0.
fn share(all: Option<&str>, rank_of_node: u32, devices: u32) -> String {
    let (first, devices) = (rank_of_node as usize * devices as usize, devices as usize);
    let assigned: Vec<&str> = all.unwrap_or_default().split(',').filter(|gpu| !gpu.is_empty()).collect();
    let own = (first..first + devices).map(|place| match assigned.get(place) {
        Some(gpu) => (*gpu).to_owned(),
        None if assigned.is_empty() => place.to_string(),
        // There are fewer GPUs than the run needs: this rank finds none and reports that.
        None => "none".to_owned(),
    });
    own.collect::<Vec<_>>().join(",")
}

/// Kills the remaining processes of a program whose runner has ended: descendants of this process, and processes with the run's mark.
fn end_leftovers(mark: Option<&str>) {
    let find = || {
        let mut descendants = processes::descendants(std::process::id());
        let marked = mark.map(processes::marked).unwrap_or_default();
        let others: Vec<_> = marked.into_iter().filter(|process| !descendants.contains(process)).collect();
        descendants.extend(others);
        descendants
    };
    let (_, left) = processes::end(find, Duration::ZERO, || ());
    if !left.is_empty() {
        foreign::say(format_args!("multicard: {} cannot be killed", processes::named(&left)));
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

/// Starts a process on these CPUs, or on all CPUs if the list is empty. The process is bound from its start, so that all of its threads and
/// memory pages are on these CPUs' nodes.
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
    log: GroupLog,
    folder: RunFolder,
    /// Whether one process, `srun`, represents all ranks.
    is_step: bool,
    /// Whether a signal asked this process to end the run, or the run's folder was removed.
    is_told: bool,
    /// Ranks that have not ended.
    ranks: Vec<Rank>,
    /// Time at which the ranks were asked to end.
    ending_since: Option<Instant>,
    /// Whether all ranks that have ended succeeded.
    well: bool,
}

impl Group {
    fn new(log: GroupLog, folder: RunFolder, is_step: bool) -> Self {
        Self { log, folder, is_step, is_told: false, ranks: Vec::new(), ending_since: None, well: true }
    }

    /// Starts the ranks and watches them until none is left. What `sample` makes of the ranks and their processes is kept until then.
    fn supervise<S>(
        &mut self,
        ranks: &[RankPlace],
        start: impl Fn(&RankPlace) -> io::Result<Child>,
        sample: impl FnOnce(Vec<(u32, u32)>) -> S,
        signal: &AtomicUsize,
    ) {
        for place in ranks {
            match start(place) {
                Ok(child) => {
                    // Ranks on other nodes log their start themselves.
                    if !self.is_step {
                        self.log.note(GroupEvent::RankStarted { rank: place.rank, pid: child.id() });
                    }
                    self.ranks.push(Rank { rank: place.rank, child });
                }
                Err(error) => {
                    self.log.note(GroupEvent::RankNotStarted { rank: place.rank, reason: error.to_string() });
                    self.end();
                    break;
                }
            }
        }
        let _sampler = sample(self.ranks.iter().map(|rank| (rank.rank, rank.child.id())).collect());
        while !self.ranks.is_empty() {
            let mut ended = self.reap();
            if !ended.is_empty() {
                // The rank that died first may have been checked just before that, so its peers' exits come first here.
                ended.extend(self.reap());
            }
            // After checking the ranks, so that ranks ended by the same signal count as ended on request.
            let number = signal.swap(0, Ordering::Relaxed);
            if number != 0 {
                self.is_told = true;
                self.log.note(GroupEvent::Interrupted { signal: i32::try_from(number).unwrap_or_default() });
                self.end();
            }
            if self.folder.is_removed() {
                self.is_told = true;
                self.end();
            }
            let told_to = self.ending_since.is_some();
            for (rank, pid, exit) in ended {
                self.log.note(match self.is_step {
                    true => GroupEvent::StepEnded { exit, told_to },
                    false => GroupEvent::RankExited { rank, pid, exit, told_to },
                });
                if !exit.is_success() {
                    self.end();
                }
            }
            if self.ending_since.is_some_and(|since| since.elapsed() > GRACE) {
                // If only srun were killed, the program would continue.
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
                foreign::say(format_args!("multicard: cannot wait for rank {}: {error}", rank.rank));
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

    /// Writes the rest of the log. If the disk is full, waits for room, unless a signal asks this process to end.
    fn finish(&mut self, signal: &AtomicUsize) {
        let is_told = self.is_told;
        self.log.finish(|| is_told || signal.load(Ordering::Relaxed) != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_node_share_the_gpus_that_slurm_assigned() {
        assert_eq!([0, 1].map(|rank| share(Some("4,5"), rank, 1)), ["4", "5"]);
        assert_eq!(share(Some("GPU-a,GPU-b,GPU-c,GPU-d"), 1, 2), "GPU-c,GPU-d");
        assert_eq!(share(None, 2, 1), "2", "a site whose Slurm sets no variable");
        assert_eq!(share(Some("4"), 1, 1), "none");
    }
}
