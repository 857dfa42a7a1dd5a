//! Events: the lines that a rank logs while it runs.

use serde::{Deserialize, Deserializer, Serialize};

use crate::plan::Key;

// JSON has no NaN: a loss that is not a number is written as `null`, and read back as NaN instead of losing its line.
pub(super) fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// What the texts of [`loss_not_finite`] begin and end with.
const LOSS_NOT_FINITE: (&str, &str) = ("the loss of step ", " is not a finite number");

/// The warning that a program reported a loss which is not a finite number, in this step first.
pub fn loss_not_finite(step: u64) -> String {
    let (begin, end) = LOSS_NOT_FINITE;
    format!("{begin}{step}{end}")
}

/// Whether a warning is one of [`loss_not_finite`].
pub fn is_loss_not_finite(warning: &str) -> bool {
    let (begin, end) = LOSS_NOT_FINITE;
    warning.starts_with(begin) && warning.ends_with(end)
}

/// The units of a step whose number, as a program reported it, cannot be stored: it is not whole, or not smaller than this.
pub const UNSTORED_UNITS: u32 = u32::MAX;

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Opening libraries and the device, building the model.
    Start,
    /// Loading the data set.
    Load,
    /// Steps excluded from statistics.
    WarmUp,
    /// Steps that count.
    Steady,
    /// Evaluating the test set.
    Evaluate,
}

/// Why a rank failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The job or the data set is wrong.
    Input,
    /// The device or the host ran out of memory.
    OutOfMemory,
    /// The loss became NaN or infinite.
    NotFinite,
    /// libtorch, CUDA or a library failed.
    Engine,
    /// Another rank failed first.
    Peer,
}

/// Device that a rank computes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `cpu`, or the GPU's product name.
    pub name: String,
    /// The GPU's UUID; `None` for the CPU.
    pub gpu_uuid: Option<String>,
}

/// Observation of whether a factor's level is in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The factor's key.
    pub factor: String,
    /// The requested level.
    pub asked: String,
    /// The observed value, such as `batch strides 30000, 1, 300, 3`.
    pub seen: String,
    /// Whether the observation confirms the level.
    pub in_effect: bool,
}

/// Something that happened in a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The rank has started. Always its first line.
    Started {
        /// [`super::PROTOCOL_VERSION`] of the writer.
        protocol_version: u32,
        /// Process id.
        pid: u32,
        /// libtorch version.
        torch_version: String,
        /// Device it computes on.
        device: Device,
        /// Number of ranks.
        world_size: u32,
        /// Seed of the weights and the order of samples.
        seed: u64,
    },
    /// The model is built.
    Model {
        /// Its name.
        name: String,
    },
    /// A phase begins; it lasts until the next.
    Phase {
        /// The phase.
        phase: Phase,
    },
    /// One training step.
    Step {
        /// The epoch, from 1.
        epoch: u32,
        /// The step, counted over the whole run from 1.
        step: u64,
        /// Number of steps of the whole run.
        steps: u64,
        /// From the end of the previous step to the end of this one, on the device's clock; includes waiting for data.
        duration_s: f64,
        /// Time the host waited for this batch; NaN if unknown.
        #[serde(deserialize_with = "number_or_null")]
        load_wait_s: f64,
        /// The loss of this rank's batch, averaged over its units, before any loss scaling; NaN if it is not a number or there is none. If
        /// a program reported one that is not a number, its log has a warning of it, see [`loss_not_finite`].
        #[serde(deserialize_with = "number_or_null")]
        loss: f64,
        /// Units in this rank's batch: images, tokens, or whatever the workload counts; 0 if unknown, and [`UNSTORED_UNITS`] if the number
        /// that a program reported cannot be stored.
        #[serde(alias = "images")]
        units: u32,
        /// Excluded from statistics.
        warm_up: bool,
        /// Whether it is in a window of a recorded run, or next to one. Such steps do not count in times.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        traced: bool,
    },
    /// The steps that the rank has logged so far do not count: they were guessed from a program's output, until the program itself reported
    /// its steps.
    StepsWithdrawn,
    /// Any other number that the rank measured.
    Reading {
        /// The key of a measure, such as `train_loss`. At most [`super::MAX_KEY_BYTES`] long.
        key: Key,
        /// The value, in the unit of the measure's registry entry; NaN if it is not a number.
        #[serde(deserialize_with = "number_or_null")]
        value: f64,
        /// The epoch it belongs to, from 1; `None` for the whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u32>,
        /// The step it belongs to, counted over the whole run from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u64>,
    },
    /// Observation of a factor's effect.
    Evidence(Evidence),
    /// Something the user should know; the run continues.
    Warning {
        /// What happened and what to do.
        message: String,
    },
    /// The rank completed its job.
    Finished {
        /// Since the process started. The runner of a program counts until the program's last process has ended, without the time that it
        /// takes to read what the program reported.
        duration_s: f64,
    },
    /// The rank failed.
    Failed {
        /// The reason.
        kind: FailureKind,
        /// What was tried, what was found, what to do.
        message: String,
    },
}

/// The name of a rank's log in the run's folder. If the ranks of a node share a log, it has the number of the first of them
/// ([`super::Job::log_rank`]).
pub fn rank_log(rank: u32) -> String {
    format!("rank-{rank}.jsonl")
}

/// One line of a rank's log. [`super::read_event_line`] reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// The run's id.
    pub run: String,
    /// The rank that logged the line.
    pub rank: u32,
    /// Seconds since the Unix epoch.
    pub time_s: f64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}
