//! The measures of one run, from what its ranks said and what telemetry saw.
//!
//! Warm-up steps are left out. Ranks go in step, so that the slowest one times the run: the rank whose steady steps
//! took longest in all.

use std::collections::{BTreeSet, HashMap};

use super::bootstrap::median;
use super::loss::losses;
use super::{Activity, BatchMeans, LossPoint, Mark, batch_means};
use crate::plan::{Level, Levels, RunState, Strategy};
use crate::protocol::{TraceMetric, TraceOutcome, TraceSummary};
use crate::store::{RankRecord, RunRecord, StepRecord};

/// One epoch of a run, over its ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochSummary {
    /// The epoch, from 1.
    pub epoch: u32,
    /// The time of its training part: the slowest rank's.
    pub duration_s: Option<f64>,
    /// It holds a warm-up step.
    pub warm_up: bool,
    /// The mean over ranks, weighted by images.
    pub train_loss: Option<f64>,
    /// Of the test after it.
    pub test_loss: Option<f64>,
    /// Of the test after it, from 0 to 1.
    pub accuracy: Option<f64>,
    /// Its last step, counted over the whole run from 1.
    pub last_step: Option<u64>,
}

/// Whether a profiler had a part in a run's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Recording {
    /// None.
    #[default]
    Plain,
    /// It recorded the run, which costs time.
    Traced,
    /// There is only its report, of a run that is not in the session.
    Report,
}

/// The measures of one run. A measure that the run does not tell is `None`, never 0.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Its id.
    pub run: String,
    /// Its cell's id.
    pub cell: String,
    /// The level of every factor.
    pub levels: Levels,
    /// Its data set, in words.
    pub data: String,
    /// Where its first rank computed.
    pub device: Option<String>,
    /// Which repeat of the cell, from 1.
    pub repeat: u32,
    /// Where it stands.
    pub state: RunState,
    /// The median of steady steps.
    pub step_time_s: Option<f64>,
    /// The mean of steady steps within this run, with the interval that batch means give.
    pub step_mean: Option<BatchMeans>,
    /// The median of epochs without warm-up steps; of all epochs where each has some ([`Mark::IncludesWarmUp`]).
    pub epoch_time_s: Option<f64>,
    /// From the start of its processes to their end; where that is unknown, the longest life of a rank.
    pub total_time_s: Option<f64>,
    /// Distinct images in each second of steady steps: under `ddp` all ranks process the same ones, which count once.
    pub images_per_s: Option<f64>,
    /// Images of all ranks in each second of steady steps.
    pub processed_images_per_s: Option<f64>,
    /// The mean wait for data of a steady step, over all ranks.
    pub load_wait_s: Option<f64>,
    /// The median start of the loader in an epoch, of the slowest rank: until the first batch was prepared.
    pub loader_start_s: Option<f64>,
    /// Of the last epoch.
    pub train_loss: Option<f64>,
    /// Of the last epoch.
    pub test_loss: Option<f64>,
    /// Of the last epoch, from 0 to 1.
    pub accuracy: Option<f64>,
    /// The most of a rank.
    pub peak_allocated_bytes: Option<f64>,
    /// The most of a rank.
    pub peak_reserved_bytes: Option<f64>,
    /// The most of a rank.
    pub peak_active_bytes: Option<f64>,
    /// The most of a rank while it warmed up, in tensors: cuDNN's trials are a part of it.
    pub warm_up_peak_bytes: Option<f64>,
    /// The most of a GPU, as NVML says.
    pub peak_device_bytes: Option<f64>,
    /// Energy of all its GPUs.
    pub energy_j: Option<f64>,
    /// Its epochs, in order.
    pub epochs: Vec<EpochSummary>,
    /// What its ranks did when.
    pub activity: Vec<Activity>,
    /// Its training loss, thinned, in the order of its steps.
    pub losses: Vec<LossPoint>,
    /// What a reader must know.
    pub marks: Vec<Mark>,
    /// Whether a profiler recorded it.
    pub recording: Recording,
    /// What came of the profiler's report, once that is known.
    pub trace: Option<TraceOutcome>,
}

impl RunSummary {
    /// What is kept of its profiler's report.
    pub fn trace_summary(&self) -> Option<&TraceSummary> {
        match &self.trace {
            Some(TraceOutcome::Imported(trace)) => Some(trace),
            Some(TraceOutcome::Failed(_)) | None => None,
        }
    }

    /// A metric of its profiler's report.
    pub fn trace_metric(&self, key: &str) -> Option<&TraceMetric> {
        self.trace_summary()?.metrics.iter().find(|metric| metric.key == key)
    }
}

/// A report that stands alone, as a run that tells nothing but its metrics.
pub fn summarise_report(name: &str, trace: TraceSummary) -> RunSummary {
    let marks = trace.warnings.iter().map(|warning| Mark::Warned(format!("{}: {warning}", trace.file))).collect();
    RunSummary {
        run: name.to_owned(),
        cell: name.to_owned(),
        levels: Levels::default(),
        data: String::new(),
        device: None,
        repeat: 1,
        state: RunState::Finished,
        step_time_s: None,
        step_mean: None,
        epoch_time_s: None,
        total_time_s: None,
        images_per_s: None,
        processed_images_per_s: None,
        load_wait_s: None,
        loader_start_s: None,
        train_loss: None,
        test_loss: None,
        accuracy: None,
        peak_allocated_bytes: None,
        peak_reserved_bytes: None,
        peak_active_bytes: None,
        warm_up_peak_bytes: None,
        peak_device_bytes: None,
        energy_j: None,
        epochs: Vec::new(),
        activity: Vec::new(),
        losses: Vec::new(),
        marks,
        recording: Recording::Report,
        trace: Some(TraceOutcome::Imported(Box::new(trace))),
    }
}

impl RunSummary {
    /// Whether other runs of the session were on the machine at the same time, so that its times are not its own.
    pub fn had_company(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::SharedNode(_)))
    }
}

/// Sums up one run; its record must hold the steps.
pub fn summarise_run(record: &RunRecord) -> RunSummary {
    let steady = Steady::of(record);
    let epochs = epochs(&record.ranks);
    let last = epochs.last();
    let (epoch_time_s, includes_warm_up) = epoch_time(&epochs);
    let peak = |key: &str| {
        record.ranks.iter().flat_map(|rank| rank.readings_of(key)).map(|one| one.value).max_by(f64::total_cmp)
    };
    let mut summary = RunSummary {
        run: record.run.clone(),
        cell: record.cell.clone(),
        levels: record.levels.clone(),
        data: super::cell::data_name(&record.data),
        device: record.ranks.iter().find_map(|rank| rank.device.as_ref()).map(|device| device.name.clone()),
        repeat: record.repeat,
        state: record.state,
        step_time_s: (!steady.times_s.is_empty()).then(|| median(&steady.times_s)),
        step_mean: batch_means(&steady.times_s),
        epoch_time_s,
        total_time_s: super::wall_clock::total_time(record),
        images_per_s: steady.rate(steady.distinct_images),
        processed_images_per_s: steady.rate(steady.processed_images),
        load_wait_s: steady.load_wait_s,
        loader_start_s: loader_start(&record.ranks),
        train_loss: last.and_then(|epoch| epoch.train_loss),
        test_loss: last.and_then(|epoch| epoch.test_loss),
        accuracy: last.and_then(|epoch| epoch.accuracy),
        peak_allocated_bytes: peak("peak_allocated_bytes"),
        peak_reserved_bytes: peak("peak_reserved_bytes"),
        peak_active_bytes: peak("peak_active_bytes"),
        warm_up_peak_bytes: peak("warm_up_peak_bytes"),
        peak_device_bytes: record.telemetry.peak_device_bytes.map(|bytes| bytes as f64),
        energy_j: record.telemetry.energy_j,
        marks: Mark::of_run(record),
        activity: super::activity::activity(record),
        epochs,
        recording: if record.traced { Recording::Traced } else { Recording::Plain },
        trace: record.trace.clone(),
        losses: losses(&record.ranks),
    };
    if includes_warm_up {
        summary.marks.push(Mark::IncludesWarmUp);
    }
    if steady.times_s.is_empty() && record.ranks.iter().any(|rank| !rank.steps.is_empty()) {
        summary.marks.push(Mark::NoSteadySteps);
    }
    refuse_not_finite(&mut summary);
    summary
}

/// The loader starts anew in each epoch, in some runs: the median over epochs of what the slowest rank waits for its first batch.
fn loader_start(ranks: &[RankRecord]) -> Option<f64> {
    let slowest = |epoch: u32| {
        let starts = ranks.iter().filter_map(|rank| of_epoch(rank, "loader_start_s", epoch));
        starts.fold(0.0, f64::max)
    };
    let starts: Vec<f64> = epoch_numbers(ranks, "loader_start_s").into_iter().map(slowest).collect();
    (!starts.is_empty()).then(|| median(&starts))
}

/// A rank's reading of an epoch, the last one where it told several.
fn of_epoch(rank: &RankRecord, key: &str, epoch: u32) -> Option<f64> {
    rank.readings_of(key).filter(|one| one.epoch == Some(epoch)).last().map(|one| one.value)
}

/// The epochs that a reading was told of, in order.
fn epoch_numbers(ranks: &[RankRecord], key: &str) -> BTreeSet<u32> {
    ranks.iter().flat_map(|rank| rank.readings_of(key)).filter_map(|one| one.epoch).collect()
}

/// The steady steps of a run.
struct Steady {
    /// The slowest rank's step times.
    times_s: Vec<f64>,
    /// Their sum.
    time_s: f64,
    distinct_images: u64,
    processed_images: u64,
    load_wait_s: Option<f64>,
}

impl Steady {
    fn of(record: &RunRecord) -> Self {
        let time_of = |rank: &&RankRecord| steady(rank).map(|step| step.duration_s).sum::<f64>();
        let images_of = |rank: &RankRecord| steady(rank).map(|step| u64::from(step.units)).sum::<u64>();
        let slowest = record.ranks.iter().max_by(|a, b| time_of(a).total_cmp(&time_of(b)));
        let times_s: Vec<f64> = slowest.into_iter().flat_map(steady).map(|step| step.duration_s).collect();
        let processed_images = record.ranks.iter().map(images_of).sum();
        // Protocol 1 left it to the strategy's name.
        let by_name = || record.levels.get(Strategy::KEY).and_then(Level::as_text) == Some(Strategy::Ddp.name());
        let copies = record.ranks.iter().find_map(|rank| rank.last_reading("unit_copies"));
        let repeats_images = copies.map_or_else(by_name, |copies| copies > 1.0);
        let distinct_images = if repeats_images { slowest.map_or(0, images_of) } else { processed_images };
        let waits = record.ranks.iter().flat_map(steady).map(|step| step.load_wait_s);
        let (count, wait_s) = waits.fold((0_u64, 0.0), |(count, sum), wait_s| (count + 1, sum + wait_s));
        Self {
            time_s: times_s.iter().sum(),
            times_s,
            distinct_images,
            processed_images,
            load_wait_s: (count > 0).then(|| wait_s / count as f64),
        }
    }

    /// Images a second; a clock that did not move forward tells none, and a time that is not finite has no rate.
    fn rate(&self, images: u64) -> Option<f64> {
        let rate = if self.time_s.is_finite() { images as f64 / self.time_s } else { f64::NAN };
        (!self.times_s.is_empty() && (self.time_s > 0.0 || rate.is_nan())).then_some(rate)
    }
}

fn steady(rank: &RankRecord) -> impl Iterator<Item = &StepRecord> {
    rank.steps.iter().filter(|step| !step.warm_up)
}

fn epochs(ranks: &[RankRecord]) -> Vec<EpochSummary> {
    let mut numbers = epoch_numbers(ranks, "epoch_time_s");
    numbers.append(&mut epoch_numbers(ranks, "test_loss"));
    // Steps are many: they are passed over once. Of each epoch: whether one is warm-up, and the last.
    let mut steps: HashMap<u32, (bool, u64)> = HashMap::new();
    for step in ranks.iter().flat_map(|rank| &rank.steps) {
        let (warm_up, last) = steps.entry(step.epoch).or_default();
        (*warm_up, *last) = (*warm_up || step.warm_up, step.step.max(*last));
    }
    numbers.into_iter().map(|epoch| one_epoch(ranks, epoch, steps.get(&epoch))).collect()
}

fn one_epoch(ranks: &[RankRecord], epoch: u32, steps: Option<&(bool, u64)>) -> EpochSummary {
    // Each rank's test counts the images of all, so that any rank's tells it.
    let first = |key: &str| ranks.iter().find_map(|rank| of_epoch(rank, key, epoch));
    let units = |rank: &RankRecord| of_epoch(rank, "units", epoch);
    let all_units: f64 = ranks.iter().filter_map(units).sum();
    let losses = ranks.iter().filter_map(|rank| Some(of_epoch(rank, "train_loss", epoch)? * units(rank)?));
    let loss = losses.sum::<f64>() / all_units;
    EpochSummary {
        epoch,
        duration_s: ranks.iter().filter_map(|rank| of_epoch(rank, "epoch_time_s", epoch)).max_by(f64::total_cmp),
        warm_up: steps.is_some_and(|(warm_up, _)| *warm_up),
        train_loss: (all_units > 0.0).then_some(loss),
        test_loss: first("test_loss"),
        accuracy: first("accuracy"),
        last_step: steps.map(|(_, last)| *last),
    }
}

/// The median epoch, and whether warm-up steps are in it because no epoch is without.
fn epoch_time(epochs: &[EpochSummary]) -> (Option<f64>, bool) {
    let times = |warm_up_too: bool| -> Vec<f64> {
        let counted = epochs.iter().filter(|epoch| warm_up_too || !epoch.warm_up);
        counted.filter_map(|epoch| epoch.duration_s).collect()
    };
    let steady = times(false);
    if !steady.is_empty() {
        return (Some(median(&steady)), false);
    }
    let all = times(true);
    ((!all.is_empty()).then(|| median(&all)), !all.is_empty())
}

/// Takes out measures that are not finite, and says so.
fn refuse_not_finite(summary: &mut RunSummary) {
    let marks = &mut summary.marks;
    let mut refuse = |key: &'static str, value: &mut Option<f64>| {
        if value.is_some_and(|value| !value.is_finite()) {
            *value = None;
            if !marks.contains(&Mark::NotFinite(key)) {
                marks.push(Mark::NotFinite(key));
            }
        }
    };
    refuse("step_time_s", &mut summary.step_time_s);
    refuse("epoch_time_s", &mut summary.epoch_time_s);
    refuse("total_time_s", &mut summary.total_time_s);
    refuse("images_per_s", &mut summary.images_per_s);
    refuse("processed_images_per_s", &mut summary.processed_images_per_s);
    refuse("load_wait_s", &mut summary.load_wait_s);
    refuse("loader_start_s", &mut summary.loader_start_s);
    refuse("train_loss", &mut summary.train_loss);
    refuse("test_loss", &mut summary.test_loss);
    refuse("accuracy", &mut summary.accuracy);
    refuse("energy_j", &mut summary.energy_j);
    for epoch in &mut summary.epochs {
        refuse("epoch_time_s", &mut epoch.duration_s);
        refuse("train_loss", &mut epoch.train_loss);
        refuse("test_loss", &mut epoch.test_loss);
        refuse("accuracy", &mut epoch.accuracy);
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
