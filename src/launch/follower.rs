//! Follower of one run: reads its logs, watches its processes and limits, and reports [`Update`]s.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::de::DeserializeOwned;

use crate::foreign;
use crate::plan::{RunState, Tracer};
use crate::processes;
use crate::protocol::{Event, EventLine, Exit, GROUP_LOG, GroupEvent, GroupLine, Job, RankPlace, read_event_line};

use super::outcome::{Death, Ending, Facts, Failure, RankFacts};
use super::process::{self, Group, LeaderExit};
use super::tail::Tail;

/// The output of a run's processes; ranks write their logs to other files.
pub(super) const STDOUT_FILE: &str = "group.out";
/// Their stderr.
pub(super) const STDERR_FILE: &str = "stderr.log";

/// Time after which a killed process that does not go away is left behind.
const STUCK_LIMIT: Duration = Duration::from_secs(30);

/// Maximum length of a malformed line that is shown.
const SHOWN_CHARS: usize = 200;

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
    },
    /// The run's group was started. These values identify it for [`super::is_alive`] and [`super::Launcher::follow`].
    Started {
        /// The run's id.
        run: String,
        /// Process id of the group's leader, and id of its process group.
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
    /// A line of a log is malformed.
    Noise {
        /// The run's id.
        run: String,
        /// Its position and its start: `rank-0.jsonl:12: Segmentation fault`.
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
        }
    }
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
    group: Group,
    updates: SyncSender<Update>,
    control: Arc<Control>,
    options: LauncherOptions,
    /// The ranks' logs by position in the job, then the supervisor's, so that a rank's own failure is known before its exit.
    logs: Vec<(Option<usize>, Tail)>,
    facts: Facts,
    state: RunState,
    begun: Instant,
    heard: Instant,
    printed_bytes: u64,
    told: Option<Instant>,
    /// Time at which the last rank's process ended.
    ranks_gone: Option<Instant>,
    /// Exit of the group's leader, once it has ended.
    ended: Option<LeaderExit>,
}

impl Follower {
    pub(super) fn new(
        job: Job,
        group: Group,
        updates: SyncSender<Update>,
        control: Arc<Control>,
        options: LauncherOptions,
    ) -> Self {
        let log = |(position, place): (usize, &RankPlace)| {
            (Some(position), Tail::new(job.folder.join(format!("rank-{}.jsonl", place.rank))))
        };
        let group_log = (None, Tail::new(job.folder.join(GROUP_LOG)));
        let now = Instant::now();
        Self {
            logs: job.ranks.iter().enumerate().map(log).chain([group_log]).collect(),
            facts: Facts {
                ranks: job.ranks.iter().map(|_| RankFacts::default()).collect(),
                profiled: job.tracer() == Tracer::Nsys,
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
            told: None,
            ranks_gone: None,
            ended: None,
        }
    }

    /// Follows the run until it has ended and its last update is sent. `process_start` is the start of its group.
    pub(super) fn follow(mut self, process_start: u64) {
        if let (Group::Found { .. }, Some(age)) = (&self.group, process::age(process_start)) {
            self.begun = self.begun.checked_sub(age).unwrap_or(self.begun);
        }
        let (run, pid) = (self.job.run.clone(), self.group.pid());
        self.send_state(None);
        self.send(Update::Started { run, pid, process_start });
        let leader = loop {
            if self.control.leave.load(Ordering::Relaxed) {
                return;
            }
            // The exit is checked before the logs are read, so that everything written before it is read below.
            if self.ended.is_none() {
                self.ended = self.group.ended();
            }
            if let Some(leader) = self.ended {
                // Ranks survive a failing profiler, and their measurements count. The logs name the ranks' processes.
                while self.job.tracer() == Tracer::Nsys && self.read_logs() {}
                if !self.signal_apart(None) {
                    break leader;
                }
            }
            let more = self.read_logs();
            self.watch();
            if self.is_stuck() {
                // It was killed, even if it has not disappeared yet.
                break Some(Exit::Signal(Signal::KILL.as_raw()));
            }
            if !more {
                thread::park_timeout(self.options.poll);
            }
        };
        while self.read_logs() {}
        if self.control.leave.load(Ordering::Relaxed) {
            // Updates may be lost from here on; the next follower reads them from the logs.
            return;
        }
        self.read_cut_lines();
        if let Some(program) = &self.job.program {
            let left = process::end_program(&program.marker);
            if let (false, Some(ending)) = (left.is_empty(), &mut self.facts.ending) {
                let left = processes::named(&left);
                ending.reason = format!("{}; {left} cannot be killed and may still hold GPUs", ending.reason);
            }
        }
        let lost = self.logs.iter().filter(|(rank, log)| rank.is_some() && !log.is_kept()).map(|(_, log)| log.name());
        self.facts.lost_logs = lost.collect();
        let stderr = last_lines(&self.job.folder.join(STDERR_FILE));
        let (state, reason) = self.facts.outcome(leader, &stderr);
        self.state = state;
        self.send_state(reason);
    }

    /// Reads a piece of every log; returns whether there was anything to read.
    fn read_logs(&mut self) -> bool {
        let mut lines = Vec::new();
        let mut more = false;
        let mut unreadable = None;
        for (rank, log) in &mut self.logs {
            match log.read(|place, line| lines.push((*rank, place, line.to_owned()))) {
                Ok(read) => more |= read,
                Err(error) => unreadable = Some(format!("cannot read {}: {error}", log.place())),
            }
        }
        let printed_bytes = [STDOUT_FILE, STDERR_FILE]
            .iter()
            .filter_map(|name| fs::metadata(self.job.folder.join(name)).ok())
            .map(|metadata| metadata.len())
            .sum();
        if more || printed_bytes != self.printed_bytes {
            self.heard = Instant::now();
            self.printed_bytes = printed_bytes;
        }
        for (rank, place, line) in lines {
            self.take(rank, &place, &line);
        }
        if let Some(reason) = unreadable {
            self.end(RunState::Failed, reason);
        }
        more
    }

    /// Reads incomplete last lines, which killed processes may leave.
    fn read_cut_lines(&mut self) {
        let mut lines = Vec::new();
        for (rank, log) in &mut self.logs {
            log.finish(|place, line| lines.push((*rank, place, line.to_owned())));
        }
        for (rank, place, line) in lines {
            self.take(rank, &place, &line);
        }
    }

    /// Handles one line of a rank's log, or of the supervisor's.
    fn take(&mut self, rank: Option<usize>, place: &str, line: &str) {
        let understood = match rank {
            Some(rank) => self.take_event(rank, line),
            None => self.take_group_line(line),
        };
        if understood {
            self.facts.understood += 1;
            return;
        }
        self.facts.noise += 1;
        let shown: String = line.chars().take(SHOWN_CHARS).collect();
        self.facts.first_noise.get_or_insert_with(|| shown.clone());
        self.send(Update::Noise { run: self.job.run.clone(), file_line: format!("{place}: {shown}") });
    }

    fn take_event(&mut self, rank: usize, line: &str) -> bool {
        // A run that an older multicard started has a job and a worker with the protocol of that version.
        let expected = self.job.version;
        if let Some(version) = other_version(line, expected) {
            let reason = format!(
                "rank {rank} uses protocol {version}, but its job uses {expected}: use the worker of this multicard"
            );
            self.end(RunState::Failed, reason);
            return true;
        }
        let own = |line: &EventLine| line.run == self.job.run && line.rank == self.job.ranks[rank].rank;
        let known = read_event_line(line.as_bytes()).ok().filter(|lines| lines.iter().all(own));
        let Some(lines) = known else { return false };
        for line in lines {
            self.take_known_event(rank, line);
        }
        true
    }

    fn take_known_event(&mut self, rank: usize, line: EventLine) {
        let facts = &mut self.facts.ranks[rank];
        facts.stepping = matches!(line.event, Event::Step { .. });
        match &line.event {
            Event::Started { pid, .. } => {
                facts.started = true;
                let pid = *pid;
                self.rank_up(rank, pid);
            }
            Event::Finished { .. } => facts.finished = true,
            Event::Failed { kind, message } if facts.failure.is_none() => {
                facts.failure = Some(Failure { time_s: line.time_s, kind: *kind, message: message.clone() });
            }
            _ => {}
        }
        self.send(Update::Event(line));
        if self.state == RunState::Starting && self.facts.ranks.iter().all(|rank| rank.started) {
            self.state = RunState::Running;
            self.send_state(None);
        }
    }

    fn take_group_line(&mut self, line: &str) -> bool {
        let Some(GroupLine { time_s, event }) = parse(line) else { return false };
        let position = |wanted: u32| self.job.ranks.iter().position(|place| place.rank == wanted);
        match event {
            GroupEvent::RankStarted { rank, pid } => {
                let Some(rank) = position(rank) else { return false };
                self.rank_up(rank, pid);
            }
            GroupEvent::RankNotStarted { rank, reason } => self.facts.not_started.push((rank, reason)),
            GroupEvent::RankExited { rank, exit, told_to, .. } => {
                let Some(rank) = position(rank) else { return false };
                self.facts.ranks[rank].death = Some(Death { time_s, exit, told_to });
                if self.facts.ranks.iter().all(|rank| rank.death.is_some()) {
                    self.ranks_gone = Some(Instant::now());
                }
            }
            GroupEvent::Interrupted { signal } => self.facts.interrupted = Some(signal),
        }
        true
    }

    fn rank_up(&mut self, rank: usize, pid: u32) {
        if self.facts.ranks[rank].pid.replace(pid).is_none() {
            self.send(Update::RankUp { run: self.job.run.clone(), rank: self.job.ranks[rank].rank, pid });
        }
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
        } else if limit.is_some_and(|limit| self.heard.elapsed() > limit) {
            let limit = limit.unwrap_or_default();
            self.end(RunState::Failed, format!("hung: no rank logged anything for {} s", limit.as_secs_f64()));
        }
        let reporting = self.is_reporting();
        if let (Some(told), Some(ending)) = (self.told, &mut self.facts.ending)
            && told.elapsed() > self.options.grace
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
    fn kill(&self) {
        self.signal_apart(Some(Signal::KILL));
        self.group.signal(Signal::KILL);
    }

    /// Sends a signal to the ranks if they are outside the followed group, where a profiler starts them; returns whether there are any.
    fn signal_apart(&self, signal: Option<Signal>) -> bool {
        let mut found = false;
        if self.job.tracer() == Tracer::Nsys {
            let own = self.group.pid();
            // Every rank is signalled: one signal per group would need the groups first, and a second signal does no harm.
            for pid in self.facts.ranks.iter().filter(|rank| rank.death.is_none()).filter_map(|rank| rank.pid) {
                found |= process::signal_group_of(pid, own, signal);
            }
        }
        found
    }

    /// Whether a killed process does not go away because it waits in the kernel, such as for a hung driver. It is left behind with
    /// a message.
    fn is_stuck(&mut self) -> bool {
        let patience = self.options.grace + if self.is_reporting() { self.options.report_limit } else { STUCK_LIMIT };
        let stuck = self.told.is_some_and(|since| since.elapsed() > patience);
        if let (true, Some(ending)) = (stuck, &mut self.facts.ending) {
            let pid = self.group.pid();
            ending.reason =
                format!("{}; process group {pid} cannot be killed and may still hold its GPUs", ending.reason);
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
            self.told = Some(Instant::now());
            self.group.signal(Signal::TERM);
            if self.ended.is_some() {
                self.signal_apart(Some(Signal::TERM));
            }
        }
    }

    fn send_state(&self, reason: Option<String>) {
        self.send(Update::State { run: self.job.run.clone(), state: self.state, reason });
    }

    fn is_unheard(&self) -> bool {
        self.control.closing.load(Ordering::Relaxed) || self.control.leave.load(Ordering::Relaxed)
    }

    /// Waits for room in the channel, so that nothing is lost; gives up if there is no receiver.
    fn send(&self, update: Update) {
        let mut update = update;
        loop {
            match self.updates.try_send(update) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(_)) if self.is_unheard() => return,
                Err(TrySendError::Full(back)) => update = back,
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn parse<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}

/// The protocol version of a first line, if it is not the expected one. Then the rest of the line may be anything.
fn other_version(line: &str, expected: u32) -> Option<u64> {
    if !line.contains("\"protocol_version\"") {
        return None;
    }
    let version = parse::<serde_json::Value>(line)?.get("protocol_version")?.as_u64()?;
    (version != u64::from(expected)).then_some(version)
}

/// The last non-empty lines of a file, at most five.
fn last_lines(path: &Path) -> String {
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
