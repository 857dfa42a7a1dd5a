//! The session's decisions: lines of `journal.jsonl`.

use serde::{Deserialize, Serialize};

use super::LogSum;
use crate::plan::{Data, Key, Levels, Mode, OwnMeasure, RunState, SearchStep, Tracer, usual_workload};
use crate::protocol::{DeviceRates, Environment, Placement, TraceOutcome, check_duration, check_moment};

/// The workload of old journals, which name none.
fn unnamed() -> Key {
    usual_workload().key.clone()
}

/// Decision of the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// A plan was added to the session.
    PlanAdded {
        /// Its id within the session: `p1`, `p2`, …
        plan: String,
        /// Its name.
        name: String,
        /// The plan file's text.
        toml: String,
        /// The workloads that come with it, each serialized as [`crate::plan::WorkloadSpec`]: those that are not identified by a key alone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        workloads: Vec<serde_json::Value>,
    },
    /// The search of a plan took a step.
    Searched {
        /// Id of its plan.
        plan: String,
        /// The step.
        step: SearchStep,
    },
    /// A run was queued.
    RunQueued {
        /// The run's id.
        run: String,
        /// Id of its plan.
        plan: String,
        /// Id of its cell.
        cell: String,
        /// Key of its workload; sessions of version 0.1 name none.
        #[serde(default = "unnamed")]
        workload: Key,
        /// The level of every factor.
        levels: Levels,
        /// Its data set.
        data: Data,
        /// Number of the repeat of the cell, from 1.
        repeat: u32,
        /// Seed of the weights and the order of samples.
        seed: u64,
        /// Which tracer records it.
        #[serde(default, rename = "traced", skip_serializing_if = "crate::plan::is_default")]
        tracer: Tracer,
        /// How long it trains.
        #[serde(default, skip_serializing_if = "Mode::is_full")]
        mode: Mode,
    },
    /// A run was placed, right before its start.
    RunPlaced {
        /// The run's id.
        run: String,
        /// Where its ranks run.
        placement: Placement,
        /// Other runs that were running on the machine.
        beside: Vec<String>,
        /// Caveats about its GPUs, such as use by others.
        warnings: Vec<String>,
        /// The environment it runs in; sessions of version 0.1 record none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<Environment>,
    },
    /// A run's group was started.
    RunStarted {
        /// The run's id.
        run: String,
        /// The group's process id.
        pid: u32,
        /// Start of that process in clock ticks since boot (`/proc/<pid>/stat`, field 22); with the id, it identifies the
        /// process.
        process_start: u64,
    },
    /// A run ended.
    RunEnded {
        /// The run's id.
        run: String,
        /// How it ended.
        state: RunState,
        /// Why it did not finish; `None` if it did.
        reason: Option<String>,
        /// Duration by a monotonic clock; `None` if no process watched its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_s: Option<f64>,
    },
    /// The import of a profiler's report ended. Of several decisions with the same name, the last one counts.
    TraceEnded {
        /// The run's id, or the name of a standalone report.
        name: String,
        /// Whether it belongs to a run.
        of_run: bool,
        /// The outcome.
        outcome: TraceOutcome,
    },
    /// A study was saved under a name. Of several decisions with the same name, the last one counts.
    StudySaved {
        /// Its name.
        name: String,
        /// The study, as `figure::Study` serializes it.
        study: serde_json::Value,
    },
    /// A saved study was deleted.
    StudyDeleted {
        /// Its name.
        name: String,
    },
    /// A user-defined measure was saved. Of several decisions with the same key, the last one counts.
    MeasureSaved {
        /// The measure.
        measure: OwnMeasure,
    },
    /// A user-defined measure was deleted.
    MeasureDeleted {
        /// Its key.
        key: Key,
    },
    /// The rates of a device of the session's machine were measured. If a device was measured several times, the last measurement counts.
    RatesMeasured {
        /// The measured rates.
        rates: DeviceRates,
    },
    /// The user wrote a note on the session or on one of its runs. The last note counts; an empty one means no note.
    Noted {
        /// The run's id; `None` for the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// The note; words with a `#` are tags.
        note: String,
    },
}

/// Parses one line of the journal, given without its line break.
pub(super) fn read_journal_line(line: &[u8]) -> Result<JournalLine, String> {
    let line: JournalLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    check_moment(line.time_s)?;
    if let Decision::RunEnded { duration_s: Some(duration_s), .. } = &line.decision {
        check_duration("duration_s", *duration_s)?;
    }
    if let Decision::RatesMeasured { rates } = &line.decision {
        rates.check()?;
    }
    Ok(line)
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    /// Seconds since the Unix epoch.
    pub time_s: f64,
    /// The decision.
    #[serde(flatten)]
    pub decision: Decision,
    /// At the end of a finished run: the checksums of its ranks' logs. Empty in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogSum>,
}
