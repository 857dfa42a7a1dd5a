//! Jobs as `squeue` lists them: their states and reasons in plain words.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::launch::place::{End, Standing};
use crate::plan::RunState;
use crate::protocol::Exit;

/// The columns that [`read`] reads: the id of the job or of its array, tasks of the array, state, start, nodes, priority, reason and comment,
/// separated by `|`. The last two are free text.
pub(super) const FORMAT: &str = "%F|%K|%T|%S|%N|%Q|%r|%k";

/// Begins the part of a waiting job's text that says what it waits for.
const JOB: &str = "Slurm job ";

/// A start that is further away is no forecast.
const FAR: Duration = Duration::from_secs(180 * 24 * 3600);
const FAR_START: &str = "; Slurm counts a year for a job without a time limit: it may start far sooner than expected";

/// Begins the comments of multicard's jobs.
pub(super) const COMMENT: &str = "multicard:";

/// A comment that no other job has.
pub(super) fn new_comment() -> String {
    format!("{COMMENT}{:016x}", rand::random::<u64>())
}

/// The name of a job in Slurm's commands: `12`, or `12_4` for a task of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct JobId {
    /// The number of the job, or of its array.
    pub id: u64,
    /// The number of the task, if the job is one.
    pub task: Option<u32>,
}

impl fmt::Display for JobId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            None => write!(to, "{}", self.id),
            Some(task) => write!(to, "{}_{task}", self.id),
        }
    }
}

/// A job that Slurm knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub id: JobId,
    /// Slurm's word for its state: `PENDING`.
    pub state: String,
    /// When it starts, or started, as Slurm writes it; `N/A` while the time is unknown.
    pub start: String,
    /// The names of its nodes.
    pub nodes: String,
    /// Its place among waiting jobs: higher numbers go first.
    pub priority: String,
    /// Slurm's word for why it waits or ended: `Resources`.
    pub reason: String,
    pub comment: String,
}

/// The jobs of multicard in the output of `squeue`, by their ids. Other lines are left out.
pub(super) fn read(text: &str) -> HashMap<JobId, Listed> {
    let jobs = |line: &str| {
        let mut columns = line.trim().splitn(8, '|').map(str::to_owned);
        let (id, tasks) = (columns.next()?.parse().ok()?, columns.next()?);
        let (state, start) = (columns.next()?, columns.next()?);
        let (nodes, priority) = (columns.next()?, columns.next()?);
        let (reason, comment) = (columns.next()?, columns.next()?);
        let tasks = if comment.starts_with(COMMENT) { tasks_in(&tasks)? } else { Vec::new() };
        let any = Listed { id: JobId { id, task: None }, state, start, nodes, priority, reason, comment };
        Some(tasks.into_iter().map(move |task| {
            let id = JobId { id, task };
            (id, Listed { id, ..any.clone() })
        }))
    };
    text.lines().filter_map(jobs).flatten().collect()
}

/// The tasks that a line of `squeue` is about: no task, because the job is not an array (`N/A`); one task (`4`); or all waiting tasks
/// (`0-2,5,8-12:2%3`, of which three may run at the same time).
fn tasks_in(text: &str) -> Option<Vec<Option<u32>>> {
    if text == "N/A" {
        return Some(vec![None]);
    }
    let mut tasks = Vec::new();
    for part in text.split('%').next()?.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        tasks.extend((first..=last).step_by(step.parse::<usize>().ok()?.max(1)).map(Some));
    }
    Some(tasks)
}

/// The end of a task of an array that Slurm forgot before the task started.
pub(super) fn forgotten(id: JobId) -> (RunState, String) {
    let reason = format!(
        "Slurm no longer has job {id}, which had not started: scancel or an administrator cancelled it, not multicard"
    );
    (RunState::Cancelled, reason)
}

impl Listed {
    /// The meaning of the job's state for its run. `exit` is called to get the job's exit if it failed.
    pub fn standing(&self, exit: impl FnOnce() -> Option<Exit>) -> Standing {
        let id = self.id;
        let ended =
            |state, reason: String, again| Standing::Ended(End { exit: None, ending: Some((state, reason)), again });
        let on = if self.nodes.is_empty() { String::new() } else { format!(" on {}", self.nodes) };
        let node = if self.nodes.is_empty() { "the node".to_owned() } else { format!("node {}", self.nodes) };
        match self.state.as_str() {
            "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"
            | "RESV_DEL_HOLD" => Standing::Waits(self.wait()),
            "COMPLETED" => Standing::Ended(End { exit: Some(Exit::Code(0)), ..End::default() }),
            "FAILED" => Standing::Ended(End { exit: exit().or(Some(Exit::Code(1))), ..End::default() }),
            "CANCELLED" => ended(
                RunState::Cancelled,
                format!("Slurm job {id} was cancelled by scancel or by an administrator, not by multicard"),
                false,
            ),
            "TIMEOUT" => ended(
                RunState::TimedOut,
                format!(
                    "Slurm ended job {id}{on} at its time limit: raise `time` of the site, or `run_time_s` of the plan"
                ),
                false,
            ),
            "DEADLINE" => ended(RunState::TimedOut, format!("Slurm ended job {id} at its deadline"), false),
            "OUT_OF_MEMORY" => ended(
                RunState::Failed,
                format!("Slurm ended job {id}{on}, which used more memory than it may: raise `memory` of the site"),
                false,
            ),
            "PREEMPTED" => ended(
                RunState::Interrupted,
                format!("Slurm took {node} from job {id} for a job of higher priority (preemption)"),
                true,
            ),
            "NODE_FAIL" => ended(RunState::Interrupted, format!("{node} of Slurm job {id} failed"), true),
            "BOOT_FAIL" => ended(RunState::Interrupted, format!("{node} of Slurm job {id} did not boot"), true),
            "REVOKED" => ended(RunState::Interrupted, format!("another cluster took Slurm job {id}"), false),
            // Running, completing, suspended, stopped, signalled, resized, or a state of a later version.
            _ => Standing::Runs,
        }
    }

    /// When the job is expected to start, its priority, and what it waits for, in this order: lists have room for the beginning only.
    fn wait(&self) -> String {
        let (start, note) = match self.start.as_str() {
            "" | "N/A" => (String::new(), ""),
            start => {
                let note = if is_far(start) { FAR_START } else { "" };
                (format!("expected start {}; ", start.replace('T', " ")), note)
            }
        };
        // A held job has the priority 0, which is not its place among waiting jobs.
        let priority = match self.priority.as_str() {
            "" | "0" => String::new(),
            priority => format!("priority {priority}; "),
        };
        format!("{start}{priority}{JOB}{} waits: {}{note}", self.id, in_words(&self.reason, self.id))
    }
}

/// What a waiting job's text says besides its expected start and its priority, which change with each question to Slurm.
pub fn lasting_reason(text: &str) -> &str {
    text.find(JOB).map_or(text, |start| &text[start..])
}

/// Whether a start is so far away that Slurm must have counted a job before it as endless. A time that cannot be read is not far.
fn is_far(start: &str) -> bool {
    let far = jiff::Zoned::now().datetime().checked_add(FAR);
    start.parse::<jiff::civil::DateTime>().is_ok_and(|start| far.is_ok_and(|far| start > far))
}

/// Slurm's word for why a job waits, with what it means and what to do.
fn in_words(reason: &str, id: JobId) -> String {
    let words = match reason {
        "None" | "" => return "Slurm has not considered it yet".to_owned(),
        "Resources" => "no node is free that has what it asks for",
        "Priority" => "jobs of higher priority come first",
        "Dependency" => "the job that it depends on has not ended",
        "DependencyNeverSatisfied" => {
            "it never starts, because the job that it depends on did not end as required: cancel it"
        }
        "JobHeldUser" => return format!("it is held: `scontrol release {id}` lets it start (JobHeldUser)"),
        "JobHeldAdmin" => "an administrator holds it",
        "BeginTime" => "its begin time has not come",
        "JobArrayTaskLimit" => "its array has as many running jobs as it may",
        "PartitionDown" | "PartitionInactive" => "its partition takes no jobs now",
        "PartitionTimeLimit" => "its time is over the partition's limit: lower `time` of the site",
        "PartitionNodeLimit" => "the partition has fewer nodes than it asks for",
        "ReqNodeNotAvail" => "nodes that it needs are down, drained or reserved",
        "NodeDown" => "a node that it needs is down",
        "BadConstraints" => "no node has what its constraint asks for: correct `constraint` of the site",
        "Licenses" => "its licences are in use",
        "Reservation" => "its reservation has not begun",
        "InvalidAccount" => "its account is not valid: correct `account` of the site",
        "InvalidQOS" => "its quality of service is not valid: correct `qos` of the site",
        "TimeLimit" => "its time limit is used up",
        reason if reason.starts_with("QOS") => "a limit of its quality of service is reached",
        reason if reason.starts_with("Assoc") || reason.starts_with("MaxAssoc") => "a limit of its account is reached",
        reason => return reason.to_owned(),
    };
    format!("{words} ({reason})")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The id of a job that is no task of an array.
    fn single(id: u64) -> JobId {
        JobId { id, task: None }
    }

    fn listed(state: &str, reason: &str) -> Listed {
        let text = format!("12|N/A|{state}|2026-11-25T14:05:00|n1|4294|{reason}|multicard:abc\n");
        read(&text).remove(&single(12)).unwrap()
    }

    fn never() -> Option<Exit> {
        panic!("only a failed job is asked for its exit")
    }

    #[test]
    fn only_jobs_of_multicard_are_read_and_a_reason_may_hold_any_text_but_the_separator() {
        let text = "1|N/A|RUNNING|N/A|n1|1|None|(null)\n\
                    2|N/A|PENDING|N/A||0|Nodes required for job are DOWN, DRAINED|multicard:a|b\nslurm_load_jobs error\n";
        let jobs = read(text);
        assert_eq!(jobs.len(), 1);
        let job = &jobs[&single(2)];
        assert_eq!((job.comment.as_str(), job.nodes.as_str()), ("multicard:a|b", ""));
    }

    #[test]
    fn tasks_of_an_array_are_jobs_whether_slurm_lists_them_alone_or_together() {
        let text = "7|0|RUNNING|N/A|n1|1|None|multicard:a\n7|1-2,5,8-12:2%3|PENDING|N/A||1|Resources|multicard:a\n\
                    8|0-9|PENDING|N/A||1|Resources|(null)\n";
        let jobs = read(text);
        let mut ids: Vec<String> = jobs.keys().map(ToString::to_string).collect();
        ids.sort();
        assert_eq!(ids, ["7_0", "7_1", "7_10", "7_12", "7_2", "7_5", "7_8"]);
        let state = |task| jobs[&JobId { id: 7, task: Some(task) }].state.as_str();
        assert_eq!((state(0), state(5)), ("RUNNING", "PENDING"));
    }

    #[test]
    fn a_waiting_job_says_when_it_is_expected_to_start_and_then_its_priority_and_what_it_waits_for() {
        let waits = |reason: &str| match listed("PENDING", reason).standing(never) {
            Standing::Waits(text) => text,
            other => panic!("{other:?}"),
        };
        let text = waits("Resources");
        let reason = "Slurm job 12 waits: no node is free that has what it asks for (Resources)";
        assert_eq!(text, format!("expected start 2026-11-25 14:05:00; priority 4294; {reason}"));
        assert_eq!(lasting_reason(&text), reason);
        let unplanned = Listed { start: "N/A".to_owned(), priority: "0".to_owned(), ..listed("PENDING", "Resources") };
        assert_eq!(unplanned.wait(), reason);
        assert_eq!(lasting_reason("another text"), "another text");
        let mut behind_an_endless_job = listed("PENDING", "Resources");
        behind_an_endless_job.start = "2999-11-25T14:05:00".to_owned();
        let text = behind_an_endless_job.wait();
        assert!(text.starts_with("expected start 2999-11-25 14:05:00; ") && text.ends_with(FAR_START), "{text}");
        assert!(waits("JobHeldUser").contains("`scontrol release 12`"));
        assert!(waits("QOSMaxGRESPerUser").contains("quality of service"));
        assert!(waits("SomethingNew").contains("waits: SomethingNew"));
    }

    #[test]
    fn what_slurm_does_to_a_job_is_the_state_of_its_run_and_only_its_own_doing_starts_it_again() {
        let ended = |state: &str| match listed(state, "None").standing(never) {
            Standing::Ended(End { ending: Some((state, reason)), again, .. }) => (state, reason, again),
            other => panic!("{other:?}"),
        };
        for (state, expected, again) in [
            ("TIMEOUT", RunState::TimedOut, false),
            ("CANCELLED", RunState::Cancelled, false),
            ("OUT_OF_MEMORY", RunState::Failed, false),
            ("PREEMPTED", RunState::Interrupted, true),
            ("NODE_FAIL", RunState::Interrupted, true),
        ] {
            let (found, reason, is_again) = ended(state);
            assert_eq!((found, is_again), (expected, again), "{state}");
            assert!(reason.contains("12"), "{reason}");
        }
        let failed = listed("FAILED", "NonZeroExitCode").standing(|| Some(Exit::Code(7)));
        assert_eq!(failed, Standing::Ended(End { exit: Some(Exit::Code(7)), ..End::default() }));
        assert_eq!(listed("RUNNING", "None").standing(never), Standing::Runs);
        assert_eq!(listed("COMPLETING", "None").standing(never), Standing::Runs);
    }

    proptest! {
        #[test]
        fn whatever_squeue_prints_is_read_or_left_out(
            text in r"([0-9]{1,21}\|(PENDING|FAILED|TIMEOUT|NODE_FAIL|[A-Z]{0,3})\|(N/A|[0-9T:-]{0,9})\|(n1)?\|[0-9]{0,3}\|(Resources|JobHeldUser|.{0,5})\|(multicard:.{0,5}|\(null\))\n|[^\n]{0,40}\n){0,4}",
        ) {
            let jobs = read(&text);
            prop_assert!(jobs.len() <= text.lines().count());
            for (id, job) in jobs {
                prop_assert!(job.id == id && job.comment.starts_with(COMMENT));
                match job.standing(|| None) {
                    Standing::Waits(reason) => prop_assert!(reason.contains(&id.to_string())),
                    Standing::Ended(end) => prop_assert!(end.exit.is_some() || end.ending.is_some()),
                    Standing::Runs => {}
                }
            }
        }
    }
}
