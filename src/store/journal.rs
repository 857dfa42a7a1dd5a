//! Decisions of the session: the lines of `journal.jsonl`.

use serde::{Deserialize, Serialize};

use crate::plan::{Data, Key, Levels, RunState, image};
use crate::protocol::{Placement, TraceOutcome};

/// The workload of sessions that name none.
fn image() -> Key {
    image::KEY.into()
}

/// Something the session decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// A plan joined the session.
    PlanAdded {
        /// Its id within the session: `p1`, `p2`, …
        plan: String,
        /// Its name.
        name: String,
        /// The plan file's text.
        toml: String,
    },
    /// A run waits for its turn.
    RunQueued {
        /// The run's id.
        run: String,
        /// The id of the plan that asked for it.
        plan: String,
        /// Its cell's id.
        cell: String,
        /// The workload that it is a run of; sessions of before there were several name none.
        #[serde(default = "image")]
        workload: Key,
        /// The level of every factor.
        levels: Levels,
        /// Its data set.
        data: Data,
        /// Which repeat of the cell, from 1.
        repeat: u32,
        /// The seed of weights and order.
        seed: u64,
        /// A profiler records it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        traced: bool,
    },
    /// A run got its place, right before it was started.
    RunPlaced {
        /// The run's id.
        run: String,
        /// Where its ranks run.
        placement: Placement,
        /// Runs that were under way on the machine.
        beside: Vec<String>,
        /// What is to be known of its GPUs, such as that others use them.
        warnings: Vec<String>,
    },
    /// A run's group was started.
    RunStarted {
        /// The run's id.
        run: String,
        /// The group's process id.
        pid: u32,
        /// When that process started, in clock ticks since boot (`/proc/<pid>/stat`, field 22): with the id it
        /// recognises the process again.
        process_start: u64,
    },
    /// A run is over.
    RunEnded {
        /// The run's id.
        run: String,
        /// How it ended.
        state: RunState,
        /// Why, where it did not finish.
        reason: Option<String>,
        /// How long it took, by a clock that nobody sets; none where nobody watched its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_s: Option<f64>,
    },
    /// A profiler's report was imported, or was not. Of the same name, the last word counts.
    TraceEnded {
        /// The run's id, or the name of a report that stands alone.
        name: String,
        /// It is that of a run.
        of_run: bool,
        /// What came of it.
        outcome: TraceOutcome,
    },
    /// A study was saved under a name; of the same name, the last word counts.
    StudySaved {
        /// Its name.
        name: String,
        /// What is shown and how, as those who draw write it.
        study: serde_json::Value,
    },
    /// The study of a name was deleted.
    StudyDeleted {
        /// Its name.
        name: String,
    },
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    /// When, in seconds since the Unix epoch.
    pub time_s: f64,
    /// What.
    #[serde(flatten)]
    pub decision: Decision,
}
