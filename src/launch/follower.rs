//! Follower of one run: reads its logs, watches its processes and limits, and reports [`Update`]s.

mod logs;

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::foreign;
use crate::plan::{RunState, Tracer};
use crate::processes;
use crate::protocol::{EventLine, Exit, Job, Sample, now_s};

use super::outcome::{Ending, Facts, RankFacts};
use super::place::{End, Group, Standing};
use super::process::{self, STDERR_FILE, STDOUT_FILE};
use super::samples::NodeSamples;
use super::tail::Tail;
use super::watched::Watched;
use logs::{Source, logs_of};

/// Time after which a killed process that does not go away is left behind.
const STUCK_LIMIT: Duration = Duration::from_secs(30);

/// The longest time between two tries to send an update: a thousand followers may wait for the same receiver.
const MOST_PAUSE: Duration = Duration::from_millis(100);

/// The files that are looked at for a run that has not started: its supervisor's log, by its follower and by its group.
const FILES_WHILE_IT_WAITS: usize = 2;
/// The files that are looked at for any run that has started, beside its logs and samples: its output and its stderr.
const FILES_OF_ITS_OUTPUT: usize = 2;

/// Update on a run from the launcher.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A run changed its state. A final state is the last update of a run.
    State {
        /// The run's id.
        run: String,
        /// The new state.
        state: RunState,
        /// The reason, if it says more than the state's name.
        reason: Option<String>,
        /// Whether the site ended the run for a reason that is not in the run, so that it can be started again without a change.
        again: bool,
    },
    /// The run waits for its site, or no longer waits.
    Waits {
        /// The run's id.
        run: String,
        /// What it waits for; `None` once it has started or ended.
        reason: Option<String>,
    },
    /// The run's group was started. These values identify it for [`super::is_alive`] and [`super::Launcher::follow`].
    Started {
        /// The run's id.
        run: String,
        /// Process id of the group's leader, and id of its process group; 0 if it is not on this machine.
        pid: u32,
        /// Start of the leader, in clock ticks since boot.
        process_start: u64,
    },
    /// A rank's process was started; sent once per rank.
    RankUp {
        /// The run's id.
        run: String,
        /// The rank.
        rank: u32,
        /// Its process id.
        pid: u32,
    },
    /// A rank logged an event.
    Event(EventLine),
    /// The nodes of a run at a site were sampled. A run that an earlier process started is reported from its first sample.
    Sample {
        /// The run's id.
        run: String,
        /// The sample of all nodes.
        sample: Box<Sample>,
    },
    /// A line of a log is malformed.
    Noise {
        /// The run's id.
        run: String,
        /// The line's position and its first characters: `rank-0.jsonl:12: Segmentation fault`.
        file_line: String,
    },
}

/// Intervals and time limits of the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LauncherOptions {
    /// Interval between checks of logs and processes.
    pub poll: Duration,
    /// The longest silence of a run whose ranks are stepping, or have all finished, before it counts as hung.
    pub silence_limit: Duration,
    /// The longest silence while any rank is starting, loading, evaluating or preparing its first step.
    pub start_silence_limit: Duration,
    /// Time between the request to end and the kill of a run.
    pub grace: Duration,
    /// Time that a profiler has to write its report after the ranks have ended.
    pub report_limit: Duration,
    /// The shortest time between two questions to Slurm. Each question is about all jobs.
    pub slurm_interval: Duration,
}

impl Default for LauncherOptions {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(20),
            silence_limit: Duration::from_secs(120),
            start_silence_limit: Duration::from_secs(600),
            // The supervisor kills its ranks after 5 s, and needs time to log that.
            grace: Duration::from_secs(6),
            report_limit: Duration::from_secs(1800),
            slurm_interval: slurm_interval(),
        }
    }
}

/// The variable that sets how often Slurm is asked, in seconds.
const SLURM_INTERVAL_VARIABLE: &str = "MULTICARD_SLURM_INTERVAL_S";
/// How often Slurm is asked without this variable; not more often, because Slurm serves all users of a cluster.
const SLURM_INTERVAL_S: f64 = 10.0;

fn slurm_interval() -> Duration {
    let named = std::env::var(SLURM_INTERVAL_VARIABLE).ok().and_then(|text| text.parse().ok());
    let named = named.filter(|seconds| (0.1..=3600.0).contains(seconds));
    Duration::from_secs_f64(named.unwrap_or(SLURM_INTERVAL_S))
}

/// Requests of the launcher to a follower.
#[derive(Default)]
pub(super) struct Control {
    /// End the run.
    pub cancel: AtomicBool,
    /// Do not wait for room in the channel, as there may be no receiver left.
    pub closing: AtomicBool,
    /// Stop following and let the run continue.
    pub leave: AtomicBool,
}

/// Follower of one run.
pub(super) struct Follower {
    job: Job,
    group: Box<dyn Group>,
    updates: SyncSender<Update>,
    control: Arc<Control>,
    options: LauncherOptions,
    /// The logs of the ranks, then the logs about their processes: so the follower reads a rank's own failure before
    /// its exit.
    logs: Vec<(Source, Tail)>,
    samples: NodeSamples,
    watched: Watched,
    facts: Facts,
    state: RunState,
    begun: Instant,
    heard: Instant,
    printed_bytes: u64,
    ending_since: Option<Instant>,
    /// Time at which the last rank's process ended.
    ranks_gone: Option<Instant>,
    /// The last report of what its group waits for; empty if it does not wait.
    waits: String,
    /// Whether its start was reported.
    is_started: bool,
    /// When its supervisor began to work, in seconds since the Unix epoch, and how it ended, by the log of a scheduler's job.
    supervisor: (Option<f64>, Option<Exit>),
    /// The end of the group, once it has ended.
    ended: Option<End>,
}

impl Follower {
    pub(super) fn new(
        job: Job,
        group: Box<dyn Group>,
        updates: SyncSender<Update>,
        control: Arc<Control>,
        options: LauncherOptions,
        watched: Watched,
    ) -> Self {
        let now = Instant::now();
        Self {
            logs: logs_of(&job),
            samples: NodeSamples::of(&job),
            watched,
            facts: Facts {
                ranks: job.ranks.iter().map(|_| RankFacts::default()).collect(),
                profiled: job.tracer() == Tracer::Nsys,
                names_itself: job.shape.ranks_per_node > 0,
                ..Facts::default()
            },
            job,
            group,
            updates,
            control,
            options,
            state: RunState::Starting,
            begun: now,
            heard: now,
            printed_bytes: 0,
            ending_since: None,
            ranks_gone: None,
            waits: String::new(),
            is_started: false,
            supervisor: (None, None),
            ended: None,
        }
    }

    /// Follows the run until it has ended and its last update is sent.
    pub(super) fn follow(mut self) {
        self.send_state(None, false);
        self.watched.set(FILES_WHILE_IT_WAITS);
        if self.group.leader().is_some() {
            self.begin();
        }
        loop {
            if self.control.leave.load(Ordering::Relaxed) {
                return;
            }
            if self.is_over() {
                break;
            }
            let more = self.read_logs();
            self.read_samples(false);
            self.watch();
            if self.is_stuck() {
                break;
            }
            if !more {
                // Nobody needs to know within two seconds that a run has started.
                let pace = if self.is_started { self.group.pace().poll } else { 4 * self.group.pace().poll };
                thread::park_timeout(self.options.poll.max(pace).max(self.watched.interval()));
            }
        }
        while self.read_logs() {}
        self.read_samples(true);
        if self.control.leave.load(Ordering::Relaxed) {
            // Updates may be lost from here on; the next follower reads them from the logs.
            return;
        }
        self.read_cut_lines();
        self.conclude();
    }

    /// Whether the group has ended. The group is checked before the logs are read, so that everything that was written before its end is
    /// read.
    fn is_over(&mut self) -> bool {
        if self.ended.is_none() {
            // A supervisor that was interrupted does not know the reason; the process that interrupted it does.
            let is_own = self.facts.interrupted.is_none() || self.facts.ending.is_some();
            match self.group.look(self.supervisor.1.filter(|_| is_own)) {
                // A run that has started waits no more, even if Slurm does not answer.
                Standing::Waits(_) if self.is_started => {}
                Standing::Waits(reason) => {
                    (self.begun, self.heard) = (Instant::now(), Instant::now());
                    self.tell_wait(reason);
                }
                Standing::Runs => self.begin(),
                Standing::Ended(end) => self.ended = Some(end),
            }
        }
        if self.ended.is_none() {
            return false;
        }
        // Ranks survive a failing profiler, and their measurements count. The logs name the ranks' processes.
        while self.job.tracer() == Tracer::Nsys && self.read_logs() {}
        !self.signal_apart(None)
    }

    /// Reports the start of the group, once.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        self.watched.set(FILES_OF_ITS_OUTPUT + self.logs.len() + self.samples.files());
        self.tell_wait(String::new());
        let by_log = || Duration::try_from_secs_f64(now_s() - self.supervisor.0?).ok();
        let age = self.group.age().or_else(by_log).unwrap_or_default();
        self.begun = Instant::now().checked_sub(age).unwrap_or(self.begun);
        self.heard = Instant::now();
        let (pid, process_start) = self.group.leader().unwrap_or_default();
        self.send(Update::Started { run: self.job.run.clone(), pid, process_start });
    }

    /// Reports what the group waits for, if that is new. An empty text means that it does not wait.
    fn tell_wait(&mut self, reason: String) {
        if reason != self.waits {
            self.waits.clone_from(&reason);
            let reason = Some(reason).filter(|reason| !reason.is_empty());
            self.send(Update::Waits { run: self.job.run.clone(), reason });
        }
    }

    /// Reports the outcome.
    fn conclude(&mut self) {
        let left = self.group.end_program();
        if let (false, Some(ending)) = (left.is_empty(), &mut self.facts.ending) {
            let left = processes::named(&left);
            ending.reason = format!("{}; {left} cannot be killed and may still hold GPUs", ending.reason);
        }
        let lost = self.logs.iter().filter(|(source, log)| matches!(source, Source::Ranks(_)) && !log.is_kept());
        let lost = lost.map(|(_, log)| log.name());
        self.facts.lost_logs = lost.collect();
        self.facts.has_full_disk = foreign::has_no_room(&self.job.folder);
        // A group that did not go away was killed.
        let killed = || End { exit: Some(Exit::Signal(Signal::KILL.as_raw())), ..End::default() };
        let End { exit, ending, again } = self.ended.take().unwrap_or_else(killed);
        let is_own = self.facts.ending.is_some();
        if let (None, Some((state, reason))) = (&self.facts.ending, ending) {
            self.facts.ending = Some(Ending { state, reason, killed: false });
        }
        let stderr = last_lines(&self.job.folder.join(STDERR_FILE));
        let (state, reason) = self.facts.outcome(exit, &stderr);
        self.tell_wait(String::new());
        self.state = state;
        // The logs may show that a run finished before its site lost it.
        self.send_state(reason, again && !is_own && state != RunState::Finished);
    }

    /// Ends the run on request or when it exceeds its limits, and kills it if it does not end.
    fn watch(&mut self) {
        if self.control.cancel.load(Ordering::Relaxed) {
            self.end(RunState::Cancelled, "cancelled".into());
        }
        if let Some(limit_s) = self.job.limits.run_time_s
            && self.begun.elapsed().as_secs_f64() > limit_s
            && self.ranks_gone.is_none()
        {
            let own = self.job.program.as_ref().and_then(|program| program.command.time_limit_s);
            let name = if own == Some(limit_s) { "time_limit_s" } else { "run_time_s" };
            self.end(RunState::TimedOut, format!("exceeded the plan's limit {name} = {limit_s}"));
        }
        let limit = self.silence_limit();
        if self.is_reporting() {
            let limit = self.options.report_limit;
            if self.ranks_gone.is_some_and(|gone| gone.elapsed() > limit) {
                self.end(
                    RunState::Failed,
                    format!("the profiler did not write its report within {} s", limit.as_secs_f64()),
                );
                self.kill();
            }
        } else if let Some(limit) = limit.filter(|limit| self.heard.elapsed() > *limit) {
            if foreign::has_no_room(&self.job.folder) {
                // What the ranks log waits for room.
                self.heard = Instant::now();
            } else {
                self.end(RunState::Failed, format!("hung: no rank logged anything for {} s", limit.as_secs_f64()));
            }
        }
        let reporting = self.is_reporting();
        if let (Some(ending_since), Some(ending)) = (self.ending_since, &mut self.facts.ending)
            && ending_since.elapsed() > self.options.grace.max(self.group.pace().grace)
            && !reporting
        {
            ending.killed = true;
            self.kill();
        }
    }

    /// Whether a profiler is still writing its report.
    fn is_reporting(&self) -> bool {
        self.job.tracer() == Tracer::Nsys && self.ranks_gone.is_some()
    }

    /// Kills the group, and the ranks' own group if a profiler started them in one.
    fn kill(&mut self) {
        self.signal_apart(Some(Signal::KILL));
        self.group.signal(Signal::KILL);
    }

    /// Sends a signal to the ranks if they are outside the followed group, where a profiler starts them; returns whether there are any.
    fn signal_apart(&self, signal: Option<Signal>) -> bool {
        let mut is_sent = false;
        if self.job.tracer() == Tracer::Nsys {
            let own = self.group.leader().map_or(0, |(pid, _)| pid);
            // Every rank is signalled: one signal per group would need the groups first, and a second signal does no harm.
            for pid in self.facts.ranks.iter().filter(|rank| rank.death.is_none()).filter_map(|rank| rank.pid) {
                is_sent |= process::signal_group_of(pid, &self.job.folder, own, signal);
            }
        }
        is_sent
    }

    /// Whether a killed process does not go away because it waits in the kernel, such as for a hung driver. It is left behind with
    /// a message.
    fn is_stuck(&mut self) -> bool {
        let patience = self.options.grace.max(self.group.pace().grace)
            + if self.is_reporting() { self.options.report_limit } else { STUCK_LIMIT };
        let stuck = self.ending_since.is_some_and(|since| since.elapsed() > patience);
        if let (true, Some(ending)) = (stuck, &mut self.facts.ending) {
            ending.reason =
                format!("{}; {} cannot be killed and may still hold its GPUs", ending.reason, self.group.name());
        }
        stuck
    }

    /// The longest allowed silence: steps follow each other closely, but starting, loading, evaluation and a first step may take long. A
    /// program may be silent as long as its time limit allows.
    fn silence_limit(&self) -> Option<Duration> {
        let ranks = &self.facts.ranks;
        if self.job.program.is_some() && ranks.iter().any(|rank| !rank.finished) {
            return None;
        }
        let brisk = ranks.iter().all(|rank| rank.stepping) || ranks.iter().all(|rank| rank.finished);
        Some(if brisk { self.options.silence_limit } else { self.options.start_silence_limit })
    }

    /// Requests the group to end; the first reason is kept.
    fn end(&mut self, state: RunState, reason: String) {
        if self.facts.ending.is_none() {
            self.facts.ending = Some(Ending { state, reason, killed: false });
            self.ending_since = Some(Instant::now());
            self.group.signal(Signal::TERM);
            if self.ended.is_some() {
                self.signal_apart(Some(Signal::TERM));
            }
        }
    }

    fn send_state(&self, reason: Option<String>, again: bool) {
        self.send(Update::State { run: self.job.run.clone(), state: self.state, reason, again });
    }

    fn is_unheard(&self) -> bool {
        self.control.closing.load(Ordering::Relaxed) || self.control.leave.load(Ordering::Relaxed)
    }

    /// Waits for room in the channel, so that nothing is lost; gives up if there is no receiver.
    fn send(&self, update: Update) {
        let mut update = update;
        let mut pause = Duration::from_millis(1);
        loop {
            match self.updates.try_send(update) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(_)) if self.is_unheard() => return,
                Err(TrySendError::Full(back)) => update = back,
            }
            thread::sleep(pause);
            pause = MOST_PAUSE.min(2 * pause);
        }
    }
}

/// The output of the run's processes: at most `most_bytes` of stdout, and the last lines of stderr.
pub fn output(folder: &Path, most_bytes: u64) -> (String, String) {
    let printed = foreign::read_ours(&folder.join(STDOUT_FILE), most_bytes).unwrap_or_default();
    (String::from_utf8_lossy(&printed).into_owned(), last_lines(&folder.join(STDERR_FILE)))
}

/// The last non-empty lines of a file, at most five.
pub(super) fn last_lines(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = foreign::open_ours(path).and_then(|mut file| {
        let start = file.metadata()?.len().saturating_sub(4096);
        file.seek(SeekFrom::Start(start))?;
        file.take(4096).read_to_end(&mut bytes)
    });
    if read.is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).rev().take(5).collect();
    lines.reverse();
    lines.join(" | ")
}
