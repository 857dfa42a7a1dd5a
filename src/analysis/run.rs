//! The measures of one run, computed from its ranks' logs and telemetry.
//!
//! Warm-up steps are left out. Ranks run in lockstep, so the slowest rank times the run: the rank whose steady steps took longest in total.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::clock::{Witness, by_single_steps, outlives_process, witness};
use super::covered::{counted, weighed, weighted_mean};
use super::fold::fold;
use super::limit::{self, Limits};
use super::loss::losses;
use super::measure::{
    DRAM_ACTIVITY, EPOCHS_TO_GOAL, FP16_ACTIVITY, FP32_ACTIVITY, FP64_ACTIVITY, GOAL, GPU_BUSY, INT_ACTIVITY,
    NVLINK_RECEIVE, NVLINK_SEND, SM_ACTIVITY, TENSOR_ACTIVITY,
};
use super::metric::metric_values;
use super::record_marks::record_marks;
use super::run_summary::compute_own;
use super::steadiness::Steadiness;
use super::training::TRAINING_TIME;
use super::{
    Clock, EpochSummary, LeftOut, Mark, Measures, Recording, RunSummary, TrainingTime, batch_means, resolution,
};
use crate::plan::{Hint, Key, Mode};
use crate::protocol::TraceOutcome;
use crate::statistics::median;
use crate::store::{LoadRecord, RankRecord, RunRecord, StepRecord};

/// Summarises one run with the measures of its workload; its record must contain the steps.
pub fn summarise_run(record: &RunRecord) -> RunSummary {
    summarise_run_by(record, &Measures::of_workload(&record.workload))
}

/// Summarises one run with the measures of a registry; its record must contain the steps.
pub fn summarise_run_by(record: &RunRecord, measures: &Arc<Measures>) -> RunSummary {
    let (original, witness) = (record, witness(record));
    let single = witness.and_then(|witness| witness.covered).map(|_| by_single_steps(original));
    let record = single.as_ref().unwrap_or(original);
    let steady = Steady::of(record);
    let folded = fold(&record.ranks, steady.slowest, measures);
    let mut values = folded.of_run;
    let steadiness = Steadiness::of(&steady.times_s, batch_means(&steady.times_s).as_ref());
    let training = TrainingTime::of(record, steady.slowest);
    let refusal = training.and_then(|training| refusal_of(&training, record, witness, measures, steady.slowest));
    let training = training.filter(|_| refusal.is_none());
    values.extend(derived(record, measures, &steady, &steadiness, training));
    values.extend(witness.and_then(|witness| Some(("clock_ratio".into(), witness.ratio?))));
    let limits = Limits::of(record);
    values.extend(limit::values(record, steady.steps, steady.time_s, limits.as_ref()));
    if let Some(TraceOutcome::Imported(trace)) = &record.trace {
        values.extend(metric_values(trace));
    }
    let mut summary = RunSummary {
        run: record.run.clone(),
        cell: record.cell.clone(),
        identity: Some(record.identity()),
        workload: Arc::clone(&record.workload),
        levels: record.levels.clone(),
        data: record.data.to_string(),
        device: record.ranks.iter().find_map(|rank| rank.device.as_ref()).map(|device| device.name.clone()),
        repeat: record.repeat,
        counts_rows: record.counts_rows,
        started_s: record.started_time_s.filter(|time_s| time_s.is_finite()),
        launch: record.launch.clone(),
        state: record.state,
        measures: Arc::clone(measures),
        values,
        disputed: Arc::default(),
        step_wait_s: steady.slowest.and_then(|rank| mean_wait(counted(rank))),
        clock: witness.map(|witness| witness.clock),
        told_resolution_s: told_resolution_s(original, &steady, witness),
        training,
        limits,
        mode: record.mode,
        warm_up: LeftOut::of(record, steady.slowest),
        checked: Arc::clone(&record.checked),
        design: record.design.clone(),
        marks: record_marks(record),
        environment: record.environment.clone(),
        activity: super::activity::activity(original),
        epochs: epochs(&record.ranks, folded.of_epochs),
        recording: Recording::by(record.tracer),
        trace: record.trace.clone(),
        losses: losses(&original.ranks),
    };
    let reaches = |epoch: &&EpochSummary| epoch.value("accuracy").is_some_and(|accuracy| accuracy >= GOAL);
    if let Some(epoch) = summary.epochs.iter().find(reaches) {
        summary.values.insert(EPOCHS_TO_GOAL.into(), f64::from(epoch.epoch));
    }
    summary.marks.extend(training.map_or_else(Vec::new, |training| quick_marks(record.mode, training)));
    summary.marks.extend(doubts(witness));
    summary.marks.extend(witness.and_then(|witness| Some(Mark::TimesDivided { steps: witness.covered? })));
    summary.marks.extend(folded.impossible.into_iter().map(Mark::Impossible));
    summary.marks.extend(refusal);
    summary.marks.extend(folded.includes_warm_up.then_some(Mark::IncludesWarmUp));
    if let Some(drift) = steadiness.drift.filter(|_| steadiness.drifts) {
        let LoadRecord { sm_clock_change: clock, temperature_rise_c: warmer_c, .. } = record.telemetry.load;
        summary.marks.push(Mark::Drifts { change: drift, clock, warmer_c });
    }
    summary.marks.extend(has_warm_up_only(record, &steady).then_some(Mark::NoSteadySteps));
    refuse_not_finite(&mut summary);
    share_keys(&mut summary);
    compute_own(&mut summary, measures, &record.own_measures);
    summary
}

/// Why a training time is left out; `None` if training can have taken it.
fn refusal_of(
    training: &TrainingTime,
    record: &RunRecord,
    witness: Option<Witness>,
    measures: &Measures,
    slowest: Option<&RankRecord>,
) -> Option<Mark> {
    if measures.find(TRAINING_TIME).is_some_and(|measure| !measure.is_possible(training.time_s)) {
        return Some(Mark::Impossible(TRAINING_TIME.into()));
    }
    let outlives = witness.is_some_and(|witness| witness.outlives) || outlives_process(record, slowest, training);
    outlives.then_some(Mark::TrainingOutlivesProcess)
}

/// Whether all steps of an ended run are warm-up steps. A run that has not ended may still make steps that count.
fn has_warm_up_only(record: &RunRecord, steady: &Steady) -> bool {
    let has_steps = record.ranks.iter().any(|rank| !rank.steps.is_empty());
    record.state.is_final() && steady.times_s.is_empty() && has_steps
}

/// Replaces keys of measures by equal ones of the registry, which all of its runs share.
fn share_keys(summary: &mut RunSummary) {
    let of_epochs = summary.epochs.iter_mut().map(|epoch| &mut epoch.values);
    for values in std::iter::once(&mut summary.values).chain(of_epochs) {
        let own = std::mem::take(values).into_iter();
        *values = own.map(|(key, value)| (summary.measures.shared_key(key), value)).collect();
    }
}

/// The measures that are computed from a run's steady steps and its telemetry.
fn derived(
    record: &RunRecord,
    measures: &Measures,
    steady: &Steady,
    steadiness: &Steadiness,
    training: Option<TrainingTime>,
) -> impl Iterator<Item = (Key, f64)> {
    let telemetry = &record.telemetry;
    let load = &telemetry.load;
    let step_time_s = (!steady.times_s.is_empty()).then(|| median(&steady.times_s));
    let power_w = telemetry.steady_energy_j.zip(telemetry.steady_time_s).map(|(energy_j, time_s)| energy_j / time_s);
    let values = [
        (TRAINING_TIME.into(), training.map(|training| training.time_s)),
        ("step_time_s".into(), step_time_s),
        ("mean_step_time_s".into(), steady.mean_s()),
        ("total_time_s".into(), super::wall_clock::total_time(record)),
        (measures.distinct_rate.clone(), steady.rate(steady.distinct_units)),
        (measures.processed_rate.clone(), steady.rate(steady.processed_units)),
        ("load_wait_s".into(), steady.load_wait_s),
        ("step_spread".into(), steadiness.spread),
        ("step_drift".into(), steadiness.drift),
        ("step_lag_one".into(), steadiness.lag_one),
        ("step_error".into(), steadiness.error),
        ("peak_device_bytes".into(), telemetry.peak_device_bytes.map(|bytes| bytes as f64)),
        ("energy_j".into(), telemetry.energy_j),
        ("steady_energy_j".into(), telemetry.steady_energy_j),
        ("energy_per_unit_j".into(), steady.energy_per_unit_j(telemetry.steady_energy_j)),
        ("power_w".into(), power_w),
        ("others_cpus".into(), load.others_cpus),
        ("runnable_tasks".into(), load.runnable),
        ("temperature_c".into(), load.temperature_c),
        ("temperature_rise_c".into(), load.temperature_rise_c),
        ("sm_clock_mhz".into(), load.sm_clock_mhz),
        ("sm_clock_change".into(), load.sm_clock_change),
        (GPU_BUSY.into(), load.gpus_busy),
        (SM_ACTIVITY.into(), load.sm_activity),
        (TENSOR_ACTIVITY.into(), load.tensor_activity),
        ("pcie_receive_bytes_per_s".into(), load.pcie_receive_bytes_per_s),
        ("pcie_send_bytes_per_s".into(), load.pcie_send_bytes_per_s),
        (FP64_ACTIVITY.into(), load.fp64_activity),
        (FP32_ACTIVITY.into(), load.fp32_activity),
        (FP16_ACTIVITY.into(), load.fp16_activity),
        (INT_ACTIVITY.into(), load.int_activity),
        (DRAM_ACTIVITY.into(), load.dram_activity),
        (NVLINK_RECEIVE.into(), load.nvlink_receive_bytes_per_s),
        (NVLINK_SEND.into(), load.nvlink_send_bytes_per_s),
        ("run_order".into(), record.start_order.map(f64::from)),
    ];
    // Nothing is known of an imported run except what its file says.
    let is_imported = record.is_imported();
    values.into_iter().filter(move |_| !is_imported).filter_map(|(key, value)| Some((key, value?)))
}

/// The resolution of the step times that a program reports. A time that covers several steps resolves each of them more finely.
fn told_resolution_s(record: &RunRecord, steady: &Steady, witness: Option<Witness>) -> Option<f64> {
    record.workload.command.as_ref()?;
    match witness.and_then(|witness| witness.covered) {
        Some(covered) => resolution(&Steady::of(record).times_s).map(|resolution_s| resolution_s / covered),
        None => resolution(&steady.times_s),
    }
}

/// The mark if a program's clock is not confirmed.
fn doubts(witness: Option<Witness>) -> Option<Mark> {
    witness.map(|witness| witness.clock).filter(|clock| *clock != Clock::Confirmed).map(Mark::Clock)
}

/// The marks about the precision of a quick run; empty for a full run.
fn quick_marks(mode: Mode, training: TrainingTime) -> Vec<Mark> {
    let Some(requested) = mode.step_precision() else { return Vec::new() };
    let (steps, planned, reached) = (training.steps, training.planned_steps as u64, training.step_precision);
    let mut marks = vec![Mark::Quick { steps, planned }];
    if steps >= planned && reached.is_none_or(|reached| reached > requested) {
        marks.push(Mark::NotPrecise { reached, requested });
    }
    marks
}

/// The steady steps of a run. Sums over them include the steps that were not logged: each logged step stands for those since the one before
/// it.
struct Steady<'a> {
    slowest: Option<&'a RankRecord>,
    /// The times of the slowest rank's logged steps.
    times_s: Vec<f64>,
    /// The number of the slowest rank's steps.
    steps: f64,
    /// Their total time.
    time_s: f64,
    distinct_units: f64,
    processed_units: f64,
    /// The distinct units of all steady steps, divided by the distinct units of the steps whose times count. Both numbers differ if the run
    /// was recorded in windows, because its energy is then known for all steady steps.
    with_traced: f64,
    load_wait_s: Option<f64>,
}

impl<'a> Steady<'a> {
    fn of(record: &'a RunRecord) -> Self {
        let time_of =
            |rank: &RankRecord| -> f64 { counted(rank).map(|(step, covered)| step.duration_s * covered as f64).sum() };
        let units_of = |rank: &RankRecord| units_in(counted(rank));
        let slowest = record.ranks.iter().max_by(|a, b| time_of(a).total_cmp(&time_of(b)));
        let times_s: Vec<f64> = slowest.into_iter().flat_map(counted).map(|(step, _)| step.duration_s).collect();
        let steps = slowest.into_iter().flat_map(counted).map(|(_, covered)| covered as f64).sum();
        let processed_units: f64 = record.ranks.iter().map(units_of).sum();
        // If ranks process the same units, the units of the slowest rank count once for each group of ranks with the same units.
        let groups = record.ranks.len() as f64 / copies(record);
        let repeated = groups < record.ranks.len() as f64;
        let distinct_units =
            if repeated { slowest.map_or(0.0, |rank| units_of(rank) * groups) } else { processed_units };
        let load_wait_s = mean_wait(record.ranks.iter().flat_map(counted));
        let all = record.ranks.iter().flat_map(weighed).filter(|(step, _)| !step.warm_up);
        let all_units = units_in(all);
        let with_traced = if processed_units > 0.0 { all_units / processed_units } else { 1.0 };
        let time_s = slowest.map_or(0.0, time_of);
        Self { slowest, times_s, steps, time_s, distinct_units, processed_units, with_traced, load_wait_s }
    }

    /// The mean time of the slowest rank's steady steps, in seconds.
    fn mean_s(&self) -> Option<f64> {
        (!self.times_s.is_empty()).then(|| self.time_s / self.steps)
    }

    /// Joules per distinct unit.
    fn energy_per_unit_j(&self, energy_j: Option<f64>) -> Option<f64> {
        let units = self.distinct_units * self.with_traced;
        energy_j.filter(|_| units > 0.0).map(|energy_j| energy_j / units)
    }

    /// Units per second; `None` if the units of a step are unknown, if the clock did not advance, and if the time is not finite.
    fn rate(&self, units: f64) -> Option<f64> {
        let rate = if self.time_s.is_finite() { units / self.time_s } else { f64::NAN };
        (!self.times_s.is_empty() && units > 0.0 && (self.time_s > 0.0 || rate.is_nan())).then_some(rate)
    }
}

/// The sum of the units of steps; 0 if those of a step could not be stored.
fn units_in<'s>(mut steps: impl Iterator<Item = (&'s StepRecord, u64)>) -> f64 {
    let sum = steps
        .try_fold(0, |sum: u128, (step, covered)| Some(sum + u128::from(step.stored_units()?) * u128::from(covered)));
    sum.unwrap_or_default() as f64
}

/// How many ranks process each unit.
fn copies(record: &RunRecord) -> f64 {
    // In protocol 1 ranks do not report this.
    let by_level = || match record.workload.all_hints(&record.levels).any(|hint| *hint == Hint::SharedUnits) {
        true => record.ranks.len() as f64,
        false => 1.0,
    };
    let copies = record.ranks.iter().find_map(|rank| rank.last_reading("unit_copies"));
    copies.filter(|copies| copies.is_finite() && *copies >= 1.0).unwrap_or_else(by_level)
}

/// The mean wait for data in steps; steps with an unknown wait are left out.
fn mean_wait<'s>(steps: impl Iterator<Item = (&'s StepRecord, u64)>) -> Option<f64> {
    weighted_mean(steps.map(|(step, covered)| (step.load_wait_s, covered)).filter(|(wait_s, _)| !wait_s.is_nan()))
}

/// The epochs for which ranks reported something, in order.
fn epochs(ranks: &[RankRecord], values: BTreeMap<u32, BTreeMap<Key, f64>>) -> Vec<EpochSummary> {
    // There are many steps, so one pass finds for each epoch whether it contains warm-up, and its last step.
    let mut steps: HashMap<u32, (bool, u64)> = HashMap::new();
    for step in ranks.iter().flat_map(|rank| &rank.steps) {
        let (warm_up, last) = steps.entry(step.epoch).or_default();
        (*warm_up, *last) = (*warm_up || step.warm_up, step.step.max(*last));
    }
    let summary = |(epoch, values)| {
        let steps = steps.get(&epoch);
        let (warm_up, last_step) = (steps.is_some_and(|(warm_up, _)| *warm_up), steps.map(|(_, last)| *last));
        EpochSummary { epoch, warm_up, last_step, values }
    };
    values.into_iter().map(summary).collect()
}

/// Removes measures that are not finite, and marks them. Those with an impossible reading are marked already.
fn refuse_not_finite(summary: &mut RunSummary) {
    let RunSummary { measures, values, epochs, marks, .. } = summary;
    let of_all = std::iter::once(values).chain(epochs.iter_mut().map(|epoch| &mut epoch.values));
    for values in of_all {
        let mut refused: Vec<Key> = Vec::new();
        values.retain(|key, value| {
            value.is_finite() || {
                refused.push(key.clone());
                false
            }
        });
        // In the order of columns.
        refused.sort_by_key(|key| measures.iter().position(|measure| measure.key == *key).unwrap_or(usize::MAX));
        for key in refused {
            if ![Mark::Impossible(key.clone()), Mark::NotFinite(key.clone())].iter().any(|mark| marks.contains(mark)) {
                marks.push(Mark::NotFinite(key));
            }
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
