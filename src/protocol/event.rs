//! What a rank says while it runs.

use serde::{Deserialize, Deserializer, Serialize};

// JSON has no NaN: a loss that is no number is written as `null`, and read back as NaN instead of losing its line.
fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
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
        /// How many trainable parameters it has.
        parameters: u64,
    },
    /// A phase begins; it lasts until the next.
    Phase {
        /// Which.
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
        /// The loss of this rank's batch, averaged over its images, before any loss scaling.
        #[serde(deserialize_with = "number_or_null")]
        loss: f64,
        /// The images of this rank's batch.
        images: u32,
        /// Left out of statistics.
        warm_up: bool,
    },
    /// The training part of an epoch is over.
    Epoch {
        /// The epoch, from 1.
        epoch: u32,
        /// From the first batch asked for to the last step done, by the host's clock with one synchronisation.
        duration_s: f64,
        /// The mean of the steps' losses, weighted by images.
        #[serde(deserialize_with = "number_or_null")]
        train_loss: f64,
        /// Images this rank processed.
        images: u64,
        /// Bytes of batches this rank received.
        received_bytes: u64,
        /// Until the first batch was there: what the start of the loader costs.
        loader_start_s: f64,
        /// Steps whose update was skipped because scaled gradients overflowed.
        skipped_updates: u64,
    },
    /// The test set has been passed over.
    Evaluation {
        /// The epoch after which, from 1.
        epoch: u32,
        /// How long it took.
        duration_s: f64,
        /// The mean loss over all test images.
        #[serde(deserialize_with = "number_or_null")]
        test_loss: f64,
        /// Correct test images over all test images, from 0 to 1.
        accuracy: f64,
        /// Test images, over all ranks.
        images: u64,
    },
    /// The caching allocator's statistics since the last reset; on the CPU, the process's resident memory stands for all.
    Memory {
        /// At most in tensors.
        peak_allocated_bytes: u64,
        /// At most taken from the device.
        peak_reserved_bytes: u64,
        /// At most in blocks that are in use or waiting for a stream.
        peak_active_bytes: u64,
        /// They are of the warm-up, in which libraries try their algorithms: not what the run needs from then on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        warm_up: bool,
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

/// One line of a rank's log.
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
