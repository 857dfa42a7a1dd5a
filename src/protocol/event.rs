//! What a rank says while it runs.

use serde::{Deserialize, Deserializer, Serialize};

use crate::plan::Key;

// JSON has no NaN: a loss that is not a number is written as `null`, and read back as NaN instead of losing its line.
pub(super) fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Opening libraries and the device, building the model.
    Start,
    /// Reading the data set.
    Load,
    /// Steps that statistics leave out.
    WarmUp,
    /// Steps that count.
    Steady,
    /// Passing over the test set.
    Evaluate,
}

/// Why a rank gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The job or the data set is wrong.
    Input,
    /// The device or the host ran out of memory.
    OutOfMemory,
    /// The loss is no longer a number.
    NotFinite,
    /// libtorch, CUDA or a library failed.
    Engine,
    /// Another rank failed first.
    Peer,
}

/// The device a rank computes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `cpu`, or the GPU's product name.
    pub name: String,
    /// The GPU's identity; none on the CPU.
    pub gpu_uuid: Option<String>,
}

/// What was seen of a factor while it should have been in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The factor's key.
    pub factor: String,
    /// The level that was asked for.
    pub asked: String,
    /// What was read back, such as `batch strides 30000, 1, 300, 3`.
    pub seen: String,
    /// Whether that shows the level in effect.
    pub in_effect: bool,
}

/// Something that happened in a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The rank is up. Always the first line of a log.
    Started {
        /// [`super::PROTOCOL_VERSION`] of the writer.
        protocol_version: u32,
        /// The process's id.
        pid: u32,
        /// libtorch's version.
        torch_version: String,
        /// Where it computes.
        device: Device,
        /// How many ranks there are.
        world_size: u32,
        /// The seed of weights and order.
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
        /// How many steps the whole run has.
        steps: u64,
        /// From the end of the step before to the end of this one, on the device's own clock: waiting for data included.
        duration_s: f64,
        /// How long the host waited for its batch.
        load_wait_s: f64,
        /// The loss of this rank's batch, averaged over its units, before any loss scaling.
        #[serde(deserialize_with = "number_or_null")]
        loss: f64,
        /// The units of this rank's batch: images, tokens, or what else the workload counts.
        #[serde(alias = "images")]
        units: u32,
        /// Left out of statistics.
        warm_up: bool,
    },
    /// Any other number that the rank measured.
    Reading {
        /// What was measured, such as `train_loss`: the key of a measure. At most [`super::MAX_KEY_BYTES`] long.
        key: Key,
        /// The value, in the unit that the measure's registry entry names; NaN where it is not a number.
        #[serde(deserialize_with = "number_or_null")]
        value: f64,
        /// The epoch it belongs to, from 1; none for the whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u32>,
        /// The step it belongs to, counted over the whole run from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u64>,
    },
    /// What was seen of a factor.
    Evidence(Evidence),
    /// Something the user should know; the run goes on.
    Warning {
        /// What, and what to do.
        message: String,
    },
    /// The rank did all it was told.
    Finished {
        /// Since the process started.
        duration_s: f64,
    },
    /// The rank gave up.
    Failed {
        /// Why.
        kind: FailureKind,
        /// What was tried, what was found, what to do.
        message: String,
    },
}

/// One line of a rank's log. [`super::read_event_line`] reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// The run's id.
    pub run: String,
    /// Who says it.
    pub rank: u32,
    /// When, in seconds since the Unix epoch.
    pub time_s: f64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}
