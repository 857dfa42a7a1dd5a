//! Reads the logs of a run for its follower: logs of ranks, logs about their processes, and samples of nodes.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use serde::de::DeserializeOwned;

use super::{Follower, Update};
use crate::launch::outcome::{Death, Failure};
use crate::launch::process::{STDERR_FILE, STDOUT_FILE};
use crate::launch::tail::Tail;
use crate::plan::RunState;
use crate::protocol::{
    Event, EventLine, Exit, GROUP_LOG, GroupEvent, GroupLine, Job, event_start, node_log, rank_log, read_event_line,
};

/// Maximum length of a malformed line that is shown.
const SHOWN_CHARS: usize = 200;

/// The writer of a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A rank, or the ranks of a node that share a log. The log's name has this number.
    Ranks(u32),
    /// The supervisor.
    Group,
    /// The leader of the ranks of a node.
    Node(u32),
}

/// The logs of a run.
pub(super) fn logs_of(job: &Job) -> Vec<(Source, Tail)> {
    let tail = |name: String| Tail::new(job.folder.join(name));
    let numbers: BTreeSet<u32> = job.ranks.iter().map(|place| job.log_rank(place.rank)).collect();
    let of_ranks = numbers.into_iter().map(|number| (Source::Ranks(number), tail(rank_log(number))));
    // The runner of a program is both the rank and the leader of the node's ranks.
    let nodes = if job.is_step() && job.program.is_none() { job.shape.nodes() } else { 0 };
    let of_nodes = (0..nodes).map(|node| (Source::Node(node), tail(node_log(node))));
    let of_group = (Source::Group, tail(GROUP_LOG.to_owned()));
    of_ranks.chain(of_nodes).chain([of_group]).collect()
}

impl Follower {
    /// Reads a piece of every log; returns whether there was anything to read.
    pub(super) fn read_logs(&mut self) -> bool {
        let mut lines = Vec::new();
        let mut more = false;
        let mut unreadable = None;
        let is_waiting = !self.is_started && self.ended.is_none();
        let is_at_site = self.job.site.is_some();
        // The supervisor's log is the first of a run that waited for its site.
        for (source, log) in self.logs.iter_mut().filter(|(source, _)| !is_waiting || *source == Source::Group) {
            match log.read(|place, line| lines.push((*source, place, line.to_owned()))) {
                Ok(read) => more |= read,
                Err(error) => unreadable = Some(format!("cannot read {}: {error}", log.place())),
            }
            if is_at_site {
                // There may be many runs at a time, each with many ranks.
                log.close();
            }
        }
        // What it prints shows that it lives, once it has started.
        let printed_bytes = if is_waiting { self.printed_bytes } else { self.count_printed_bytes() };
        if more || printed_bytes != self.printed_bytes {
            self.heard = Instant::now();
            self.printed_bytes = printed_bytes;
        }
        for (source, place, line) in lines {
            self.take(source, &place, &line);
        }
        if let Some(reason) = unreadable {
            self.end(RunState::Failed, reason);
        }
        more
    }

    fn count_printed_bytes(&self) -> u64 {
        let about = |name| fs::metadata(self.job.folder.join(name)).ok();
        [STDOUT_FILE, STDERR_FILE].into_iter().filter_map(about).map(|about| about.len()).sum()
    }

    /// Reads and reports samples of the run's nodes. They come as long as the nodes live, even if no rank says anything.
    pub(super) fn read_samples(&mut self, is_over: bool) {
        // No node of a run that has not started is sampled.
        while self.is_started || is_over {
            let more = self.samples.read();
            for sample in self.samples.joined(more, is_over) {
                self.send(Update::Sample { run: self.job.run.clone(), sample: Box::new(sample) });
            }
            if !more {
                return;
            }
        }
    }

    /// Reads incomplete last lines, which killed processes may leave.
    pub(super) fn read_cut_lines(&mut self) {
        let mut lines = Vec::new();
        for (source, log) in &mut self.logs {
            log.finish(|place, line| lines.push((*source, place, line.to_owned())));
        }
        for (source, place, line) in lines {
            self.take(source, &place, &line);
        }
    }

    /// Handles one line of a log.
    fn take(&mut self, source: Source, place: &str, line: &str) {
        let understood = match source {
            Source::Ranks(number) => self.take_event(number, line),
            Source::Group => self.take_group_line(line),
            Source::Node(node) => self.take_node_line(node, line),
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

    fn take_event(&mut self, log: u32, line: &str) -> bool {
        let line = &line[event_start(line.as_bytes())..];
        // A run that an older multicard started has a job and a worker with the protocol of that version.
        let expected = self.job.version;
        if let Some(version) = other_version(line, expected) {
            let reason = format!(
                "rank {log} uses protocol {version}, but its job uses {expected}: use the worker of this multicard"
            );
            self.end(RunState::Failed, reason);
            return true;
        }
        let own = |line: &EventLine| line.run == self.job.run && self.job.log_rank(line.rank) == log;
        let known = read_event_line(line.as_bytes()).ok().filter(|lines| lines.iter().all(own));
        let Some(lines) = known else { return false };
        // All events of a line are of one rank.
        let Some(rank) = lines.first().and_then(|line| self.position(line.rank)) else { return false };
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
            self.send_state(None, false);
        }
    }

    /// The position of a rank in the job.
    fn position(&self, rank: u32) -> Option<usize> {
        self.job.ranks.iter().position(|place| place.rank == rank)
    }

    fn take_group_line(&mut self, line: &str) -> bool {
        let Some(GroupLine { time_s, event }) = parse(line) else { return false };
        match event {
            GroupEvent::RankStarted { rank, pid } => {
                let Some(rank) = self.position(rank) else { return false };
                self.rank_up(rank, pid);
            }
            GroupEvent::RankNotStarted { rank, reason } => self.facts.not_started.push((rank, reason)),
            GroupEvent::RankExited { rank, exit, told_to, .. } => {
                let Some(rank) = self.position(rank) else { return false };
                self.facts.ranks[rank].death = Some(Death { time_s, exit, told_to });
                if self.facts.ranks.iter().all(|rank| rank.death.is_some()) {
                    self.ranks_gone = Some(Instant::now());
                }
            }
            GroupEvent::StepEnded { exit, told_to } => {
                self.facts.step = Some((exit, told_to));
                self.ranks_gone = Some(Instant::now());
            }
            GroupEvent::Interrupted { signal } => self.facts.interrupted = Some(signal),
            GroupEvent::SupervisorStarted { .. } => {
                self.supervisor.0 = Some(time_s);
                self.begin();
            }
            GroupEvent::SupervisorEnded { well } => self.supervisor.1 = Some(Exit::Code(i32::from(!well))),
        }
        true
    }

    /// Handles one line from the log of the leader of a node's ranks.
    fn take_node_line(&mut self, node: u32, line: &str) -> bool {
        let Some(GroupLine { event, .. }) = parse(line) else { return false };
        match event {
            GroupEvent::SupervisorStarted { hostname } => {
                for (facts, place) in self.facts.ranks.iter_mut().zip(&self.job.ranks) {
                    if self.job.shape.node_of(place.rank) == node {
                        facts.node = Some(hostname.clone());
                    }
                }
                true
            }
            // These events say that something ended the ranks of this node. The log of the process that ended them gives the reason, and
            // the supervisor ends last.
            GroupEvent::Interrupted { .. } | GroupEvent::SupervisorEnded { .. } => true,
            _ => self.take_group_line(line),
        }
    }

    fn rank_up(&mut self, rank: usize, pid: u32) {
        if self.facts.ranks[rank].pid.replace(pid).is_none() {
            self.send(Update::RankUp { run: self.job.run.clone(), rank: self.job.ranks[rank].rank, pid });
        }
    }
}

fn parse<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}

/// The protocol version of a first line, if it is not the expected one. A line of another version may have any form after this number.
fn other_version(line: &str, expected: u32) -> Option<u64> {
    if !line.contains("\"protocol_version\"") {
        return None;
    }
    let version = parse::<serde_json::Value>(line)?.get("protocol_version")?.as_u64()?;
    (version != u64::from(expected)).then_some(version)
}
