//! The outcome of a run, as a pure function of the facts known about it.

use crate::plan::RunState;
use crate::protocol::{Exit, FailureKind};

/// Time within which an exit precedes a reported failure: ranks may notice through their sockets that another died before the
/// supervisor does.
const NOTICE_S: f64 = 0.5;

/// A failure that a rank reported.
pub(super) struct Failure {
    pub time_s: f64,
    pub kind: FailureKind,
    pub message: String,
}

/// The exit of a rank's process, as the supervisor reported it.
pub(super) struct Death {
    pub time_s: f64,
    pub exit: Exit,
    pub told_to: bool,
}

/// Facts about one rank.
#[derive(Default)]
pub(super) struct RankFacts {
    /// Its process id, if known.
    pub pid: Option<u32>,
    /// The name of its node, for a run over several nodes.
    pub node: Option<String>,
    pub started: bool,
    /// Whether its latest event is a step, so that the next should follow soon.
    pub stepping: bool,
    pub finished: bool,
    pub failure: Option<Failure>,
    pub death: Option<Death>,
}

/// Reason why the launcher ended a run.
pub(super) struct Ending {
    pub state: RunState,
    pub reason: String,
    /// Whether it did not end on request and was killed.
    pub killed: bool,
}

/// Facts about a run.
#[derive(Default)]
pub(super) struct Facts {
    pub ranks: Vec<RankFacts>,
    /// Ranks that could not be started, with the reasons.
    pub not_started: Vec<(u32, String)>,
    /// How the command that started the ranks of all nodes ended, and whether it was asked to end.
    pub step: Option<(Exit, bool)>,
    /// Whether the messages of ranks name the rank, which may be one of several that a node starts.
    pub names_itself: bool,
    /// The signal that the supervisor received.
    pub interrupted: Option<i32>,
    /// Number of lines that were events.
    pub understood: u64,
    /// Number of other lines, and the first of them.
    pub noise: u64,
    pub first_noise: Option<String>,
    pub ending: Option<Ending>,
    /// Names of ranks' logs that were deleted, replaced or cut off.
    pub lost_logs: Vec<String>,
    /// Whether a profiler leads the group, so that its exit says nothing about the ranks.
    pub profiled: bool,
    /// Whether the disk of the run's folder is full, so that its logs may lack the reason of a failure.
    pub has_full_disk: bool,
}

impl Facts {
    /// The final state, and the reason if it says more than the state. `stderr` is the end of the processes' stderr.
    pub(super) fn outcome(&self, leader: Option<Exit>, stderr: &str) -> (RunState, Option<String>) {
        let ended_well = (self.profiled || leader.is_none_or(Exit::is_success))
            && self.ranks.iter().filter_map(|rank| rank.death.as_ref()).all(|death| death.exit.is_success());
        let have_finished = self.ranks.iter().all(|rank| rank.finished);
        // What ranks wrote after their logs were lost is unknown.
        if ended_well && (have_finished || self.ending.is_none() && !self.lost_logs.is_empty()) {
            if self.lost_logs.is_empty() {
                return (RunState::Finished, None);
            }
            // The log with its measurements is gone or incomplete.
            let lost = self.lost_logs.join(", ");
            return (
                RunState::Failed,
                Some(format!("{lost} was deleted, replaced or cut off while the run was active: run it again")),
            );
        }
        if let Some(ending) = &self.ending {
            let killed = if ending.killed { "; it did not end on request and was killed" } else { "" };
            return (ending.state, Some(format!("{}{killed}", ending.reason)));
        }
        if let Some(reason) = self.first_failure(stderr) {
            return (RunState::Failed, Some(reason));
        }
        let (state, reason) = self.unexplained(leader, stderr);
        (state, Some(self.with_hints(reason, stderr)))
    }

    /// The first failure of a rank, from its own report or its exit.
    fn first_failure(&self, stderr: &str) -> Option<String> {
        if let Some((rank, reason)) = self.not_started.first() {
            return Some(format!("rank {rank} could not be started: {reason}"));
        }
        let mut causes: Vec<(f64, String)> = Vec::new();
        let mut peers: Vec<(f64, String)> = Vec::new();
        for (rank, facts) in self.ranks.iter().enumerate() {
            let rank = match &facts.node {
                Some(node) => format!("rank {rank} on {node}"),
                None => format!("rank {rank}"),
            };
            match (&facts.failure, &facts.death) {
                (Some(failure), _) => {
                    let list = if failure.kind == FailureKind::Peer { &mut peers } else { &mut causes };
                    let name = if self.names_itself { String::new() } else { format!("{rank}: ") };
                    list.push((failure.time_s, name + &failure.message));
                }
                // Ranks that ended on request or with success are not the cause.
                (None, Some(death)) if !(death.told_to || death.exit.is_success() && facts.finished) => {
                    let reason = format!("{rank} {}", unexplained_exit(death.exit));
                    causes.push((death.time_s - NOTICE_S, self.with_hints(reason, stderr)));
                }
                (None, _) => {}
            }
        }
        let first = |list: Vec<(f64, String)>| list.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let noticed = || {
            let (time_s, reason) = first(peers)?;
            // If a node is lost, its ranks are the ranks that do not answer.
            let lost = self.step.is_some().then(|| lost_node(stderr)).flatten();
            Some((time_s, lost.map_or(reason.clone(), |lost| format!("{lost}; {reason}"))))
        };
        first(causes).or_else(noticed).map(|(_, reason)| reason)
    }

    /// A reason that did not come from a rank, with hints that may explain it.
    fn with_hints(&self, mut reason: String, stderr: &str) -> String {
        if self.has_full_disk {
            reason += "; the disk of its folder is full, so that its log may lack the reason: free some space and run it again";
        }
        if !stderr.is_empty() {
            reason += &format!("; end of stderr: {stderr}");
        }
        reason
    }

    fn unexplained(&self, leader: Option<Exit>, stderr: &str) -> (RunState, String) {
        if let Some(signal) = self.interrupted {
            return (RunState::Failed, format!("another process ended it with {}", signal_name(signal)));
        }
        if self.understood == 0 && self.noise > 0 {
            let first = self.first_noise.as_deref().unwrap_or_default();
            let reason = format!(
                "none of the {} lines that the worker wrote is an event (the first: {first}): use the worker of this version",
                self.noise
            );
            return (RunState::Failed, reason);
        }
        if let Some((exit, false)) = self.step.filter(|(exit, _)| !exit.is_success()) {
            let reason = lost_node(stderr).unwrap_or_else(|| format!("srun {}", unexplained_exit(exit)));
            return (RunState::Failed, reason);
        }
        let unfinished: Vec<_> = (0..).zip(&self.ranks).filter(|(_, rank)| !rank.finished).collect();
        let unfinished = unfinished.iter().map(|(rank, _): &(u32, _)| rank.to_string()).collect::<Vec<_>>().join(", ");
        match leader {
            None => {
                let reason = format!(
                    "it ended while multicard was not running, before rank {unfinished} had finished: retry it"
                );
                (RunState::Interrupted, reason)
            }
            Some(exit) if exit.is_success() => {
                let reason =
                    format!("the worker exited with code 0, but rank {unfinished} never reported that it finished");
                (RunState::Failed, reason)
            }
            Some(exit) => {
                let who = if self.profiled { "the profiler, or the worker under it," } else { "the worker" };
                (RunState::Failed, format!("{who} {}", unexplained_exit(exit)))
            }
        }
    }
}

/// What `srun` says about the first of its tasks that ended early, in stderr's last lines: `srun: error: n2: task 1: Killed`. There is one task
/// on each node.
fn lost_node(stderr: &str) -> Option<String> {
    let lines = stderr.split(" | ").filter_map(|line| line.strip_prefix("srun: error: "));
    let mut parts = lines.map(|line| line.splitn(3, ": "));
    parts.find_map(|mut parts| {
        let (name, task, end) = (parts.next()?, parts.next()?, parts.next()?);
        // A process that exited has written the reason into its log.
        if end.starts_with("Exited") {
            return None;
        }
        let node = task.strip_prefix("task ").or_else(|| task.strip_prefix("tasks "))?;
        Some(format!("multicard on node {node} ({name}) ended before its ranks did: {end}"))
    })
}

fn unexplained_exit(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with code {code} without a reason"),
        Exit::Signal(9) => {
            "was killed by SIGKILL, possibly by the kernel's out-of-memory killer (see the kernel's log)".into()
        }
        Exit::Signal(signal) => format!("was killed by {}", signal_name(signal)),
    }
}

/// The name of a signal as in signal(7).
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL (an instruction that this CPU does not have)",
        6 => "SIGABRT (an internal error)",
        7 => "SIGBUS (often a full /dev/shm)",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV (a bad memory access)",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU (the limit of CPU time)",
        25 => "SIGXFSZ (the limit of file size)",
        other => return format!("signal {other}"),
    };
    name.into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn facts(ranks: Vec<RankFacts>) -> Facts {
        Facts { ranks, understood: 1, ..Facts::default() }
    }

    fn failed(time_s: f64, kind: FailureKind, message: &str) -> RankFacts {
        RankFacts { failure: Some(Failure { time_s, kind, message: message.into() }), ..RankFacts::default() }
    }

    fn died(time_s: f64, exit: Exit, told_to: bool) -> RankFacts {
        RankFacts { death: Some(Death { time_s, exit, told_to }), ..RankFacts::default() }
    }

    fn finished() -> RankFacts {
        RankFacts { finished: true, ..died(1.0, Exit::Code(0), false) }
    }

    fn reason(facts: &Facts, leader: Option<Exit>) -> String {
        let (state, reason) = facts.outcome(leader, "boom");
        assert_eq!(state, RunState::Failed);
        reason.unwrap()
    }

    #[test]
    fn a_run_is_finished_only_when_every_rank_said_so_and_all_exited_with_zero() {
        let both = facts(vec![finished(), finished()]);
        assert_eq!(both.outcome(Some(Exit::Code(0)), "noise of a library").0, RunState::Finished);
        assert_eq!(both.outcome(None, "").0, RunState::Finished);
        assert_eq!(both.outcome(Some(Exit::Code(1)), "").0, RunState::Failed);
        let lost = Facts { lost_logs: vec!["rank-1.jsonl".to_owned()], ..facts(vec![finished(), finished()]) };
        assert!(reason(&lost, Some(Exit::Code(0))).contains("rank-1.jsonl was deleted"));
        let lost = Facts { ranks: vec![finished(), died(1.0, Exit::Code(0), false)], ..lost };
        assert!(reason(&lost, Some(Exit::Code(0))).contains("rank-1.jsonl was deleted"), "its end is unknown");
        let one = facts(vec![finished(), RankFacts::default()]);
        assert!(reason(&one, Some(Exit::Code(0))).contains("rank 1 never reported"));
        let crashed_at_exit =
            RankFacts { death: Some(Death { time_s: 1.0, exit: Exit::Signal(11), told_to: false }), ..finished() };
        assert!(reason(&facts(vec![crashed_at_exit]), Some(Exit::Code(1))).contains("SIGSEGV"));
    }

    #[test]
    fn the_first_failure_is_the_reason_and_a_peers_failure_never_hides_it() {
        let facts = facts(vec![
            failed(1.0, FailureKind::Peer, "rank 1 is gone"),
            failed(2.0, FailureKind::OutOfMemory, "out of memory"),
            failed(3.0, FailureKind::Engine, "connection closed"),
        ]);
        assert_eq!(reason(&facts, Some(Exit::Code(1))), "rank 1: out of memory");
    }

    #[test]
    fn a_death_comes_before_the_failures_it_causes_and_after_those_that_cause_it() {
        let killed = || died(10.02, Exit::Signal(9), false);
        let consequence = facts(vec![failed(10.0, FailureKind::Engine, "connection closed"), killed()]);
        let text = reason(&consequence, Some(Exit::Code(1)));
        assert!(text.contains("rank 1") && text.contains("out-of-memory killer") && text.contains("boom"), "{text}");
        let cause = facts(vec![failed(5.0, FailureKind::Input, "no such file"), killed()]);
        assert_eq!(reason(&cause, Some(Exit::Code(1))), "rank 0: no such file");
        let outcome = facts(vec![died(10.0, Exit::Signal(15), true), died(10.1, Exit::Code(3), false)]);
        assert!(reason(&outcome, Some(Exit::Code(1))).contains("rank 1 exited with code 3"));
    }

    #[test]
    fn on_a_full_disk_a_failure_that_no_rank_explains_names_it() {
        let full = |ranks| Facts { has_full_disk: true, ..facts(ranks) };
        let text = reason(&full(vec![died(1.0, Exit::Code(1), false)]), Some(Exit::Code(1)));
        assert!(
            text.starts_with("rank 0 exited with code 1 without a reason; the disk of its folder is full"),
            "{text}"
        );
        let text = reason(&full(vec![RankFacts::default()]), Some(Exit::Code(1)));
        assert!(text.contains("the disk of its folder is full") && text.ends_with("; end of stderr: boom"), "{text}");
        let explained = full(vec![failed(1.0, FailureKind::Engine, "sh exited with code 3")]);
        assert_eq!(reason(&explained, Some(Exit::Code(1))), "rank 0: sh exited with code 3");
    }

    #[test]
    fn a_run_that_the_launcher_ended_keeps_that_reason_unless_it_had_finished() {
        let end = |ranks| {
            let ending = Ending { state: RunState::Cancelled, reason: "cancelled".into(), killed: true };
            Facts { ending: Some(ending), ..facts(ranks) }
        };
        let (state, text) = end(vec![RankFacts::default()]).outcome(Some(Exit::Signal(9)), "");
        assert_eq!(state, RunState::Cancelled);
        assert!(text.unwrap().contains("was killed"));
        assert_eq!(end(vec![finished()]).outcome(Some(Exit::Code(0)), "").0, RunState::Finished);
    }

    #[test]
    fn a_node_that_is_lost_is_named_by_what_srun_says_and_not_if_a_rank_said_why() {
        let step = |ranks| Facts { step: Some((Exit::Code(137), false)), names_itself: true, ..facts(ranks) };
        let stderr = "a | srun: error: n2: task 1: Killed | srun: error: n1: task 0: Terminated";
        let lost = step(vec![RankFacts::default(), RankFacts::default()]);
        let (state, text) = lost.outcome(Some(Exit::Code(1)), stderr);
        assert_eq!(state, RunState::Failed);
        assert!(
            text.unwrap().starts_with("multicard on node 1 (n2) ended before its ranks did: Killed; end of stderr")
        );
        assert!(lost.outcome(Some(Exit::Code(1)), "").1.unwrap().starts_with("srun exited with code 137"));
        let failed_step = step(vec![RankFacts::default(), failed(1.0, FailureKind::Engine, "rank 3 on n2: sh exited")]);
        assert_eq!(failed_step.outcome(Some(Exit::Code(1)), stderr).1.unwrap(), "rank 3 on n2: sh exited");
    }

    #[test]
    fn noise_interruption_and_an_unwatched_end_are_told_apart() {
        let noise =
            Facts { understood: 0, noise: 3, first_noise: Some("hello".into()), ..facts(vec![RankFacts::default()]) };
        let text = reason(&noise, Some(Exit::Code(0)));
        assert!(text.contains("3 lines") && text.contains("hello"), "{text}");
        let interrupted = Facts { interrupted: Some(15), ..facts(vec![died(1.0, Exit::Signal(15), true)]) };
        assert!(reason(&interrupted, Some(Exit::Code(1))).contains("SIGTERM"));
        let (state, _) = facts(vec![RankFacts::default()]).outcome(None, "");
        assert_eq!(state, RunState::Interrupted);
        let unstarted = Facts { not_started: vec![(1, "too many processes".into())], ..facts(vec![]) };
        let unstarted = Facts { ranks: vec![RankFacts::default()], ..unstarted };
        assert_eq!(reason(&unstarted, Some(Exit::Code(1))), "rank 1 could not be started: too many processes");
    }
}
