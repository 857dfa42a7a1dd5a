//! Records that readers return: everything known about a run, as plain values.

use std::collections::HashMap;
use std::sync::Arc;

use crate::plan::{
    Checked, Data, Design, Identity, Key, Levels, Mode, OwnMeasure, RunState, Tracer, WarmUp, WorkloadSpec, counted,
    identity,
};
use crate::protocol::{
    Device, DeviceRates, Environment, Evidence, FailureKind, IMPORTED_FROM, Placement, TraceOutcome, UNSTORED_UNITS,
};

/// Training step of a rank; see [`crate::protocol::Event::Step`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepRecord {
    /// The step, from 1.
    pub step: u64,
    /// Time it was logged, in seconds since the Unix epoch.
    pub time_s: f64,
    /// The epoch, from 1.
    pub epoch: u32,
    /// The time from the end of the previous step to the end of this step, in seconds.
    pub duration_s: f64,
    /// Time the host waited for the batch.
    pub load_wait_s: f64,
    /// The batch's mean loss.
    pub loss: f64,
    /// Units in the batch: images, tokens, or whatever the workload counts; see [`Self::stored_units`].
    pub units: u32,
    /// Excluded from statistics.
    pub warm_up: bool,
    /// In a window in which the run was recorded, or next to one: excluded from times.
    pub traced: bool,
}

impl StepRecord {
    /// Whether its time counts: it belongs neither to the warm-up nor to a window in which the run was recorded, and it
    /// is not next to a window.
    pub fn counts(&self) -> bool {
        !self.warm_up && !self.traced
    }

    /// Its units, 0 if nothing reported them; `None` if they could not be stored.
    pub fn stored_units(&self) -> Option<u32> {
        (self.units != UNSTORED_UNITS).then_some(self.units)
    }
}

/// Number that a rank measured; see [`crate::protocol::Event::Reading`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReadingRecord {
    /// The key of a measure.
    pub key: Key,
    /// The value; NaN if it was not a number.
    pub value: f64,
    /// The epoch it belongs to, from 1; `None` for the whole run.
    pub epoch: Option<u32>,
    /// The step it belongs to, from 1.
    pub step: Option<u64>,
    /// Time it was logged, in seconds since the Unix epoch.
    pub time_s: f64,
}

/// The logged data of one rank of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankRecord {
    /// The rank.
    pub rank: u32,
    /// Device it computed on.
    pub device: Option<Device>,
    /// libtorch version.
    pub torch_version: Option<String>,
    /// Its steps, in order.
    pub steps: Vec<StepRecord>,
    /// Its readings by epoch, step and key; those without an epoch come first.
    pub readings: Vec<ReadingRecord>,
    /// Evidence about factors. Ranks and runs with equal evidence share it.
    pub evidence: Vec<Arc<Evidence>>,
    /// Its warnings.
    pub warnings: Vec<String>,
    /// Why it failed.
    pub failure: Option<(FailureKind, String)>,
    /// Lifetime of its process, if it finished.
    pub duration_s: Option<f64>,
}

/// Summary of a run's telemetry, over its GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TelemetryRecord {
    /// Peak memory in use on one of its GPUs, by all processes (NVML).
    pub peak_device_bytes: Option<u64>,
    /// Energy of its GPUs during the run.
    pub energy_j: Option<f64>,
    /// Energy of its GPUs while steps counted.
    pub steady_energy_j: Option<f64>,
    /// The total time of counted steps, in seconds.
    pub steady_time_s: Option<f64>,
    /// The time in which steps counted according to the phases in the ranks' logs, in seconds, summed over ranks; `None` if the logs do not
    /// say it.
    pub counted_s: Option<f64>,
    /// Throttle reasons of its GPUs during counted steps, or at any time if it is unknown when these ran.
    pub throttle_reasons: Vec<String>,
    /// Throttle reasons of its GPUs at any time of the run.
    pub all_throttle_reasons: Vec<String>,
    /// Whether another process used one of its GPUs.
    pub shared: bool,
    /// Load of the machine while steps counted.
    pub load: LoadRecord,
    /// Longest time without samples.
    pub longest_hole_s: Option<f64>,
    /// Number of samples.
    pub samples: u64,
}

/// Load of the machine: means over the time in which steps counted. CPUs are counted in whole CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadRecord {
    /// CPUs of the machine.
    pub cpus: Option<u32>,
    /// CPUs that all processes kept busy.
    pub cpus_busy: Option<f64>,
    /// CPUs that processes outside the run kept busy.
    pub others_cpus: Option<f64>,
    /// CPUs that a hypervisor gave to other machines.
    pub stolen_cpus: Option<f64>,
    /// Tasks that ran or waited for a CPU.
    pub runnable: Option<f64>,
    /// Temperature of the GPUs: the mean over them.
    pub temperature_c: Option<f64>,
    /// How much warmer they were at the end than at the start.
    pub temperature_rise_c: Option<f64>,
    /// The mean clock of the GPUs' multiprocessors.
    pub sm_clock_mhz: Option<f64>,
    /// How much higher the clock was at the end than at the start, as a share.
    pub sm_clock_change: Option<f64>,
    /// The slowest GPU's clock over the median of all GPUs; for several GPUs only.
    pub least_clock_share: Option<f64>,
    /// Share of the time in which kernels ran, from 0 to 1: the mean over the GPUs.
    pub gpus_busy: Option<f64>,
    /// Share of multiprocessor cycles with a warp on them, from 0 to 1 (GPM): the mean over the GPUs. This and the following are missing
    /// unless all GPUs report them.
    pub sm_activity: Option<f64>,
    /// Share of cycles in which tensor cores worked, from 0 to 1 (GPM): the mean over the GPUs.
    pub tensor_activity: Option<f64>,
    /// Bytes that a GPU receives over PCIe per second: the mean over the GPUs.
    pub pcie_receive_bytes_per_s: Option<f64>,
    /// Bytes that a GPU sends over PCIe per second: the mean over the GPUs.
    pub pcie_send_bytes_per_s: Option<f64>,
    /// Share of cycles in which the FP64 pipe worked, from 0 to 1 (GPM): the mean over the GPUs.
    pub fp64_activity: Option<f64>,
    /// Share of cycles in which the FP32 pipe worked: the mean over the GPUs.
    pub fp32_activity: Option<f64>,
    /// Share of cycles in which the FP16 pipe worked, without tensor cores: the mean over the GPUs.
    pub fp16_activity: Option<f64>,
    /// Share of the memory's bandwidth in use, from 0 to 1 (GPM): the mean over the GPUs.
    pub dram_activity: Option<f64>,
    /// Bytes that a GPU receives over all its NVLinks per second: the mean over the GPUs.
    pub nvlink_receive_bytes_per_s: Option<f64>,
    /// Bytes that a GPU sends over all its NVLinks per second: the mean over the GPUs.
    pub nvlink_send_bytes_per_s: Option<f64>,
    /// Share of cycles in which the integer pipe worked, from 0 to 1 (GPM): the mean over the GPUs.
    pub int_activity: Option<f64>,
}

/// Everything known about one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its id.
    pub run: String,
    /// Name of its plan.
    pub plan: String,
    /// The launch that queued it: the id of its plan within the session, `p1`, `p2`, …, which is new for each launch.
    pub launch: String,
    /// Id of its cell.
    pub cell: String,
    /// Its workload: the one that came with its plan, the built-in one, or an unknown one.
    pub workload: Arc<WorkloadSpec>,
    /// The level of every factor.
    pub levels: Levels,
    /// Its data set.
    pub data: Data,
    /// Number of the repeat of the cell, from 1.
    pub repeat: u32,
    /// Whether that number only counts the rows of the file from which it was imported.
    pub counts_rows: bool,
    /// Seed of the weights and the order of samples.
    pub seed: u64,
    /// Its state.
    pub state: RunState,
    /// Why it did not finish.
    pub reason: Option<String>,
    /// Where its ranks run.
    pub placement: Option<Placement>,
    /// Caveats about its GPUs, such as use by others.
    pub warnings: Vec<String>,
    /// The environment it ran in, if it was recorded. Runs with equal environments share one value.
    pub environment: Option<Arc<Environment>>,
    /// Its number in the order in which the session's runs were started, from 1.
    pub start_order: Option<u32>,
    /// Runs that ran on the machine at the same time.
    pub beside: Vec<String>,
    /// The time at which it was queued, in seconds since the Unix epoch.
    pub queued_time_s: f64,
    /// The time at which its processes were started.
    pub started_time_s: Option<f64>,
    /// The time at which it ended.
    pub ended_time_s: Option<f64>,
    /// Logs of its ranks.
    pub ranks: Vec<RankRecord>,
    /// Summary of its telemetry.
    pub telemetry: TelemetryRecord,
    /// Which tracer recorded it, which costs time.
    pub tracer: Tracer,
    /// How long it trains.
    pub mode: Mode,
    /// The warm-up that its plan asks for; `None` if its plan is unknown, for a quick run, which finds the end of its warm-up, and for an
    /// imported run.
    pub warm_up: Option<WarmUp>,
    /// The check measures that the session's latest plan with its workload names, with margins in the units of its values; empty if that plan
    /// names none.
    pub checked: Arc<[Checked]>,
    /// The session's user-defined measures, which are computed from the others.
    pub own_measures: Arc<[OwnMeasure]>,
    /// The design that chose its plan's cells of this workload; `None` for all combinations.
    pub design: Option<Arc<Design>>,
    /// Outcome of importing the profiler's report, once known.
    pub trace: Option<TraceOutcome>,
    /// The measured rates of the session's devices, from the last measurement of each.
    pub rates: Vec<Arc<DeviceRates>>,
}

/// The number of a tracer in the index.
pub(super) fn tracer_number(tracer: Tracer) -> i64 {
    match tracer {
        Tracer::Off => 0,
        Tracer::Nsys => 1,
        Tracer::BuiltIn => 2,
        Tracer::BuiltInWithoutCalls => 3,
        Tracer::InWindows => 4,
        Tracer::InWindowsWithoutCalls => 5,
    }
}

/// The inverse of [`tracer_number`].
pub(super) fn tracer(number: i64) -> Tracer {
    match number {
        0 => Tracer::Off,
        2 => Tracer::BuiltIn,
        3 => Tracer::BuiltInWithoutCalls,
        4 => Tracer::InWindows,
        5 => Tracer::InWindowsWithoutCalls,
        _ => Tracer::Nsys,
    }
}

/// The runs of a cell in a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldCell {
    /// The id of the cell in the session.
    pub cell: String,
    /// The repeats that have finished or may still finish.
    pub repeats: Vec<u32>,
    /// The repeats all of whose runs ended without finishing: a launch that asks for them repeats those runs. Ascending, each once.
    pub unfinished: Vec<u32>,
    /// The time of its last finished run from the start of its processes to their end, in seconds.
    pub last_s: Option<f64>,
}

impl HeldCell {
    /// How many runs of the cell are queued by a launch that asks for repeats 1 to `repeats` and keeps those that the session has; and how
    /// many of them repeat runs that did not finish.
    pub fn missing(&self, repeats: u32) -> (usize, usize) {
        let queued = (1..=repeats).filter(|repeat| !self.repeats.contains(repeat)).count();
        let repeated = self.unfinished.iter().filter(|repeat| **repeat <= repeats).count();
        (queued, repeated)
    }

    /// The fewest repeats that a launch has to ask for so that it queues this many runs of the cell; see [`Self::missing`].
    pub fn repeats_that_queue(&self, runs: usize) -> u32 {
        let missing = (1..).filter(|repeat| !self.repeats.contains(repeat));
        missing.take(runs).last().unwrap_or(0)
    }
}

/// The end of a sentence about queued runs, `count` of which repeat runs that did not finish; empty if none do.
pub fn repeated_text(count: usize) -> String {
    if count == 0 { String::new() } else { format!("; this repeats {}", counted(count, "unfinished run")) }
}

/// The number of a run: the digits at the start of its id, or the id itself.
pub fn number_of(run: &str) -> &str {
    let digits = run.split('-').next().unwrap_or_default().trim_start_matches('0');
    if digits.parse::<u32>().is_ok() { digits } else { run }
}

/// The cells of a session's runs, by their identity.
pub fn held_cells(runs: &[RunRecord]) -> HashMap<Identity, HeldCell> {
    let mut cells: HashMap<Identity, HeldCell> = HashMap::new();
    for run in runs {
        let held = cells.entry(run.identity()).or_default();
        if held.cell.is_empty() {
            held.cell.clone_from(&run.cell);
        }
        let repeats = if run.holds_repeat() { &mut held.repeats } else { &mut held.unfinished };
        repeats.push(run.repeat);
        let took_s = run.launched_s().filter(|_| run.state == RunState::Finished);
        held.last_s = took_s.or(held.last_s);
    }
    for held in cells.values_mut() {
        held.unfinished.retain(|repeat| !held.repeats.contains(repeat));
        held.unfinished.sort_unstable();
        held.unfinished.dedup();
    }
    cells
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
    /// Whether its repeat is not run again: it has finished, or may still finish.
    pub fn holds_repeat(&self) -> bool {
        self.state == RunState::Finished || !self.state.is_final()
    }

    /// Removes energy and load of counted steps, and takes throttling from the whole run, if the steps did not run at the times that the
    /// log gives. A program may report all of its steps together after the last one has ended; then the telemetry during its steps is
    /// unknown. The ranks' steps must be loaded.
    pub(super) fn leave_out_what_was_not_of_its_steps(&mut self) {
        let Some(counted_s) = self.telemetry.counted_s else { return };
        let steps = self.ranks.iter().flat_map(|rank| &rank.steps);
        let counted = steps.filter(|step| !step.warm_up && step.duration_s.is_finite()).map(|step| step.duration_s);
        let (sum_s, longest_s) =
            counted.fold((0.0, 0.0_f64), |(sum_s, longest_s), one| (sum_s + one, longest_s.max(one)));
        // The first step may have been reported after it had ended.
        if counted_s + self.ranks.len() as f64 * longest_s < 0.9 * sum_s {
            let telemetry = &mut self.telemetry;
            (telemetry.steady_energy_j, telemetry.steady_time_s) = (None, None);
            telemetry.load = LoadRecord::default();
            telemetry.throttle_reasons.clone_from(&telemetry.all_throttle_reasons);
        }
    }

    /// Whether it was imported from a file of another program.
    pub fn is_imported(&self) -> bool {
        self.environment.as_ref().is_some_and(|environment| environment.get(IMPORTED_FROM).is_some())
    }

    /// From the start of its processes to their end by the launcher's clock, in seconds; `None` if the clock was set back in between.
    pub fn launched_s(&self) -> Option<f64> {
        let took_s = self.ended_time_s? - self.started_time_s?;
        (took_s >= 0.0).then_some(took_s)
    }

    /// Identity of its cell, independent of the session's id for it.
    pub fn identity(&self) -> Identity {
        identity(&self.workload, &self.data, self.tracer, self.mode, &self.levels)
    }

    /// Evidence on factors, from ranks and the profiler's report.
    pub fn evidence(&self) -> impl Iterator<Item = &Evidence> {
        let traced = match &self.trace {
            Some(TraceOutcome::Imported(trace)) => trace.evidence.as_slice(),
            Some(TraceOutcome::Failed(_)) | None => &[],
        };
        self.ranks.iter().flat_map(|rank| rank.evidence.iter().map(|one| &**one)).chain(traced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_runs_that_are_repeated_are_counted_and_none_are_not_mentioned() {
        let texts = ["", "; this repeats 1 unfinished run", "; this repeats 2 unfinished runs"];
        assert_eq!([0, 1, 2].map(repeated_text), texts);
    }

    #[test]
    fn the_fewest_repeats_that_queue_some_runs_queue_these_and_no_more_where_numbers_have_gaps() {
        for (repeats, asked_for_two) in
            [(vec![], 2), (vec![1, 2, 3], 5), (vec![4], 2), (vec![2, 4, 5], 3), (vec![1, 1], 3)]
        {
            let held = HeldCell { repeats, ..HeldCell::default() };
            assert_eq!((held.repeats_that_queue(0), held.repeats_that_queue(2)), (0, asked_for_two), "{held:?}");
            for runs in 1..=6 {
                let repeats = held.repeats_that_queue(runs);
                assert_eq!((held.missing(repeats).0, held.missing(repeats - 1).0), (runs, runs - 1), "{held:?}");
            }
        }
    }
}
