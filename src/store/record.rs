//! What readers get: everything known of one run, as plain values.

use crate::plan::{Data, Identity, Key, Levels, RunState, identity};
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
    /// The batch's units: images, tokens, or what else the workload counts.
    pub units: u32,
    /// Left out of statistics.
    pub warm_up: bool,
}

/// A number that a rank measured; see [`crate::protocol::Event::Reading`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReadingRecord {
    /// What was measured: the key of a measure.
    pub key: Key,
    /// The value; NaN where it was not a number.
    pub value: f64,
    /// The epoch it belongs to, from 1; none for the whole run.
    pub epoch: Option<u32>,
    /// The step it belongs to, from 1.
    pub step: Option<u64>,
    /// When it was told, in seconds since the Unix epoch.
    pub time_s: f64,
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
    /// Its steps, in order.
    pub steps: Vec<StepRecord>,
    /// Its readings by epoch, step and key: first those of no epoch.
    pub readings: Vec<ReadingRecord>,
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
    /// The workload that it is a run of.
    pub workload: Key,
    /// The level of every factor.
    pub levels: Levels,
    /// Its data set.
    pub data: Data,
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

impl RankRecord {
    /// All readings of a key, in order.
    pub fn readings_of(&self, key: &str) -> impl DoubleEndedIterator<Item = &ReadingRecord> {
        self.readings.iter().filter(move |reading| reading.key == *key)
    }

    /// The last reading of a key.
    pub fn last_reading(&self, key: &str) -> Option<f64> {
        self.readings_of(key).next_back().map(|reading| reading.value)
    }
}

impl RunRecord {
    /// What its cell is, whatever id the session gave it.
    pub fn identity(&self) -> Identity {
        identity(&self.workload, &self.data, self.traced, &self.levels)
    }

    /// What was seen of factors, by ranks and in the profiler's report.
    pub fn evidence(&self) -> impl Iterator<Item = &Evidence> {
        let traced = match &self.trace {
            Some(TraceOutcome::Imported(trace)) => trace.evidence.as_slice(),
            Some(TraceOutcome::Failed(_)) | None => &[],
        };
        self.ranks.iter().flat_map(|rank| &rank.evidence).chain(traced)
    }
}
