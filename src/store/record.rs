//! What readers get: everything known of one run, as plain values.

use crate::plan::{DataSet, Levels, RunState};
use crate::protocol::{Device, Evidence, FailureKind, Placement, TraceOutcome};

/// One training step of a rank; see [`crate::protocol::Event::Step`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepRecord {
    /// The step, from 1.
    pub step: u64,
    /// When it was told, in seconds since the Unix epoch.
    pub time_s: f64,
    /// The epoch, from 1.
    pub epoch: u32,
    /// From the end of the step before to the end of this one.
    pub duration_s: f64,
    /// How long the host waited for its batch.
    pub load_wait_s: f64,
    /// The batch's mean loss.
    pub loss: f64,
    /// The batch's images.
    pub images: u32,
    /// Left out of statistics.
    pub warm_up: bool,
}

/// The training part of one epoch of a rank; see [`crate::protocol::Event::Epoch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochRecord {
    /// The epoch, from 1.
    pub epoch: u32,
    /// The host's time over all its steps.
    pub duration_s: f64,
    /// The mean of the steps' losses, weighted by images.
    pub train_loss: f64,
    /// Images this rank processed.
    pub images: u64,
    /// Bytes of batches this rank received.
    pub received_bytes: u64,
    /// Until the first batch was there.
    pub loader_start_s: f64,
    /// Updates skipped because scaled gradients overflowed.
    pub skipped_updates: u64,
}

/// One pass over the test set; see [`crate::protocol::Event::Evaluation`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvaluationRecord {
    /// The epoch after which, from 1.
    pub epoch: u32,
    /// How long it took.
    pub duration_s: f64,
    /// The mean loss over all test images.
    pub test_loss: f64,
    /// From 0 to 1.
    pub accuracy: f64,
    /// Test images, over all ranks.
    pub images: u64,
}

/// What one rank of a run said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankRecord {
    /// The rank.
    pub rank: u32,
    /// Where it computed.
    pub device: Option<Device>,
    /// libtorch's version.
    pub torch_version: Option<String>,
    /// Trainable parameters of its model.
    pub parameters: Option<u64>,
    /// Its steps, in order.
    pub steps: Vec<StepRecord>,
    /// Its epochs, in order.
    pub epochs: Vec<EpochRecord>,
    /// Its passes over the test set, in order.
    pub evaluations: Vec<EvaluationRecord>,
    /// At most in tensors.
    pub peak_allocated_bytes: Option<u64>,
    /// At most taken from the device.
    pub peak_reserved_bytes: Option<u64>,
    /// At most in active blocks.
    pub peak_active_bytes: Option<u64>,
    /// At most in tensors while it warmed up, which cuDNN's trials are a part of.
    pub warm_up_peak_bytes: Option<u64>,
    /// What was seen of factors.
    pub evidence: Vec<Evidence>,
    /// What it warned of.
    pub warnings: Vec<String>,
    /// Why it gave up.
    pub failure: Option<(FailureKind, String)>,
    /// How long its process lived, where it finished.
    pub duration_s: Option<f64>,
}

/// What telemetry saw of a run, over its GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TelemetryRecord {
    /// At most in use on one of its GPUs, by everybody (NVML).
    pub peak_device_bytes: Option<u64>,
    /// Energy its GPUs took while it ran.
    pub energy_j: Option<f64>,
    /// Throttle reasons seen on its GPUs while its steps counted.
    pub throttle_reasons: Vec<String>,
    /// Another process used one of its GPUs.
    pub shared: bool,
    /// The longest time without samples.
    pub longest_hole_s: Option<f64>,
    /// How many samples there are.
    pub samples: u64,
}

/// All that is known of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its id.
    pub run: String,
    /// The name of the plan that asked for it.
    pub plan: String,
    /// Its cell's id.
    pub cell: String,
    /// The level of every factor.
    pub levels: Levels,
    /// Its data set.
    pub data: DataSet,
    /// Which repeat of the cell, from 1.
    pub repeat: u32,
    /// The seed of weights and order.
    pub seed: u64,
    /// Where it stands.
    pub state: RunState,
    /// Why, where it failed.
    pub reason: Option<String>,
    /// Where it was put.
    pub placement: Option<Placement>,
    /// What is to be known of its GPUs, such as that others used them.
    pub warnings: Vec<String>,
    /// Runs that were under way on the machine at the same time.
    pub beside: Vec<String>,
    /// When it was queued, in seconds since the Unix epoch.
    pub queued_time_s: f64,
    /// When its processes were started.
    pub started_time_s: Option<f64>,
    /// When it ended.
    pub ended_time_s: Option<f64>,
    /// What its ranks said.
    pub ranks: Vec<RankRecord>,
    /// What telemetry saw.
    pub telemetry: TelemetryRecord,
    /// A profiler recorded it, which costs time.
    pub traced: bool,
    /// What came of the profiler's report, once that is known.
    pub trace: Option<TraceOutcome>,
}

impl RunRecord {
    /// What was seen of factors, by ranks and in the profiler's report.
    pub fn evidence(&self) -> impl Iterator<Item = &Evidence> {
        let traced = match &self.trace {
            Some(TraceOutcome::Imported(trace)) => trace.evidence.as_slice(),
            Some(TraceOutcome::Failed(_)) | None => &[],
        };
        self.ranks.iter().flat_map(|rank| &rank.evidence).chain(traced)
    }
}
