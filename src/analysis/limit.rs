//! How close a run comes to the limits of the hardware: the model's work in steady steps, as a share of the measured rates of the session's
//! devices.

use std::sync::Arc;

use super::Key;
use super::covered::weighed;
use crate::plan::{Hint, NumberFormat};
use crate::protocol::DeviceRates;
use crate::store::{RankRecord, RunRecord};

/// Readings of ranks about their steps: a value holds for all following steps, until another value is reported.
pub(super) const FLOP: &str = "flop_per_step";
pub(super) const BYTES: &str = "bytes_per_step";
/// FLOP per byte.
pub(super) const INTENSITY: &str = "intensity";
/// FLOP and bytes per second, for one device.
pub(super) const FLOP_RATE: &str = "flop_per_s";
pub(super) const BYTES_RATE: &str = "bytes_per_s";
/// These rates over the device's measured rates.
pub(super) const FLOP_SHARE: &str = "flop_share";
pub(super) const BYTES_SHARE: &str = "bytes_share";

/// The name of a rank's device if it is not a GPU.
const CPU: &str = "cpu";
/// The largest possible value for a step.
const MOST: f64 = 1e30;

/// The limits of a run's devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The rates of its device; if there are several devices, the rates of the first one.
    pub rates: Arc<DeviceRates>,
    /// The key of the rate of its arithmetic; `None` if no level gives the precision, or if that rate was not measured.
    pub arithmetic: Option<Key>,
}

impl Limits {
    /// `None` if its device was not measured.
    pub(super) fn of(record: &RunRecord) -> Option<Self> {
        let device = record.ranks.iter().find_map(|rank| rank.device.as_ref())?;
        // Rates that were measured while other programs used the CPUs are too low for a comparison.
        let is_same = |rates: &&Arc<DeviceRates>| rates.device == *device && !rates.is_contended();
        let is_alike = |rates: &&Arc<DeviceRates>| rates.device.name == device.name && !rates.is_contended();
        // GPUs with the same name are assumed to be alike; their UUIDs are missing in anonymous archives.
        let rates = record.rates.iter().rfind(is_same).or_else(|| record.rates.iter().rfind(is_alike))?;
        let arithmetic = number_format(record).map(NumberFormat::name).filter(|key| rates.find(key).is_some());
        Some(Self { rates: Arc::clone(rates), arithmetic: arithmetic.map(Into::into) })
    }
}

/// The format of the numbers that a run multiplies; `None` if no level gives the format.
fn number_format(record: &RunRecord) -> Option<NumberFormat> {
    let hints = || record.workload.all_hints(&record.levels);
    let asked = hints().find_map(|hint| if let Hint::Multiplies(asked) = hint { Some(*asked) } else { None })?;
    let on_cpu = record.ranks.iter().filter_map(|rank| rank.device.as_ref()).any(|device| device.name == CPU);
    let lowered = hints().find_map(|hint| match hint {
        Hint::Lowers(from, to) if *from == asked && !on_cpu => Some(*to),
        _ => None,
    });
    Some(lowered.unwrap_or(asked))
}

/// The measures of a run whose slowest rank took `time_s` for its `steps` steady steps, including those that were not logged.
pub(super) fn values(record: &RunRecord, steps: f64, time_s: f64, limits: Option<&Limits>) -> Vec<(Key, f64)> {
    let all = |key: &str| record.ranks.iter().map(|rank| of_steady(rank, key)).sum::<Option<f64>>();
    let all = |key: &str| all(key).filter(|sum| *sum > 0.0 && steps > 0.0);
    let (flop, bytes) = (all(FLOP), all(BYTES));
    let of_device = |sum: f64| Some(sum / time_s / devices(record)).filter(|rate| rate.is_finite() && *rate > 0.0);
    let rates = [flop, bytes].map(|sum| sum.and_then(of_device));
    let arithmetic = limits.and_then(|limits| limits.rates.find(limits.arithmetic.as_deref()?));
    let memory = limits.and_then(|limits| limits.rates.memory());
    let values = [
        (FLOP, flop.map(|flop| flop / steps)),
        (BYTES, bytes.map(|bytes| bytes / steps)),
        (INTENSITY, flop.zip(bytes).map(|(flop, bytes)| flop / bytes)),
        (FLOP_RATE, rates[0]),
        (BYTES_RATE, rates[1]),
        (FLOP_SHARE, rates[0].zip(arithmetic).map(|(rate, most)| rate / most.per_s)),
        (BYTES_SHARE, rates[1].zip(memory).map(|(rate, most)| rate / most.per_s)),
    ];
    values.into_iter().filter_map(|(key, value)| Some((key.into(), value?))).collect()
}

/// The number of GPUs of a run; 1 for all of its ranks on CPUs, which share those.
fn devices(record: &RunRecord) -> f64 {
    let gpus = |rank: &RankRecord| {
        let is_gpu = rank.device.as_ref().is_some_and(|device| device.name != CPU);
        let place =
            record.placement.iter().flat_map(|placement| &placement.ranks).find(|place| place.rank == rank.rank);
        if is_gpu { place.map_or(1, |place| place.gpu_uuids().count()).max(1) } else { 0 }
    };
    record.ranks.iter().map(gpus).sum::<usize>().max(1) as f64
}

/// The sum of a rank's reported values over its steady steps; `None` if one of the steps has no value.
fn of_steady(rank: &RankRecord, key: &str) -> Option<f64> {
    let first_of = |epoch: u32| rank.steps.iter().find(|step| step.epoch == epoch).map(|step| step.step);
    let mut values: Vec<(u64, f64)> = Vec::new();
    for reading in rank.readings_of(key) {
        let from = reading.step.or_else(|| reading.epoch.and_then(first_of)).unwrap_or(0);
        values.push((from, reading.value));
    }
    values.sort_by_key(|(from, _)| *from);
    let (mut next, mut holds, mut sum) = (values.iter().peekable(), None, 0.0);
    for (step, covered) in weighed(rank) {
        while let Some((_, value)) = next.next_if(|(from, _)| *from <= step.step) {
            holds = Some(*value).filter(|value| (0.0..=MOST).contains(value));
        }
        if step.counts() {
            sum += holds? * covered as f64;
        }
    }
    Some(sum)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{RunSummary, fixture, summarise_run};
    use crate::plan::Level;
    use crate::protocol::{Device, Rate};
    use crate::store::ReadingRecord;

    fn rates(name: &str) -> Arc<DeviceRates> {
        let rate = |key: &str, per_s: f64| Rate {
            key: key.into(),
            per_s,
            low_per_s: 0.99 * per_s,
            high_per_s: 1.01 * per_s,
            samples: 20,
            size: 1024,
        };
        Arc::new(DeviceRates {
            device: Device { name: name.to_owned(), gpu_uuid: None },
            time_s: None,
            torch_version: "2.11.0".to_owned(),
            threads: None,
            rates: vec![rate("fp32", 1e12), rate("tf32", 8e12), rate("copy", 4e10), rate("add", 5e10)],
            sm_clock_mhz: None,
            throttle_reasons: Vec::new(),
            others_cpus: None,
        })
    }

    /// A run of two ranks whose steps, 20 ms of the slower one, are 2 GFLOP and 0.1 GB each, the last four twice as much.
    fn record(device: &str) -> RunRecord {
        let mut record = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.02);
        record.rates = vec![rates("cpu"), rates("NVIDIA H100")];
        for rank in &mut record.ranks {
            rank.device = Some(Device { name: device.to_owned(), gpu_uuid: None });
            let reading =
                |key: &str, value: f64, step| ReadingRecord { step, ..fixture::reading_record(key, value, None) };
            for (key, value) in [(FLOP, 2e9), (BYTES, 1e8)] {
                rank.readings.extend([reading(key, value, Some(1)), reading(key, 2.0 * value, Some(17))]);
            }
        }
        record
    }

    fn near(summary: &RunSummary, key: &str, expected: f64) {
        let found = summary.value(key).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{key}: {found} instead of {expected}");
    }

    #[test]
    fn rates_of_a_cpu_that_others_worked_on_limit_no_run() {
        let mut record = record("cpu");
        let with = |others: Option<f64>| Arc::new(DeviceRates { others_cpus: others, ..(*rates("cpu")).clone() });
        for (others, limits) in [(None, true), (Some(0.1), true), (Some(1.3), false)] {
            record.rates = vec![with(others)];
            assert_eq!(Limits::of(&record).is_some(), limits, "{others:?}");
        }
    }

    #[test]
    fn work_is_summed_over_ranks_and_steady_steps_and_held_against_the_rates_of_the_devices() {
        // 12 steps of 2 GFLOP and 4 of 4 on each rank, in 16 steps of 20 ms.
        let on_gpus = summarise_run(&record("NVIDIA H100"));
        let flop = 2.0 * (12.0 * 2e9 + 4.0 * 4e9);
        near(&on_gpus, FLOP, flop / 16.0);
        near(&on_gpus, BYTES, flop / 20.0 / 16.0);
        near(&on_gpus, INTENSITY, 20.0);
        near(&on_gpus, FLOP_RATE, flop / (16.0 * 0.02) / 2.0);
        near(&on_gpus, FLOP_SHARE, flop / (16.0 * 0.02) / 2.0 / 1e12);
        near(&on_gpus, BYTES_SHARE, flop / 20.0 / (16.0 * 0.02) / 2.0 / 5e10);
        // Ranks on CPUs share them.
        near(&summarise_run(&record("cpu")), FLOP_RATE, flop / (16.0 * 0.02));
    }

    #[test]
    fn work_of_a_logged_step_weighs_as_many_steps_as_it_stands_for() {
        // On each rank, 6 steps of 2 GFLOP and 20 ms are logged, and 10 of 100 later steps of 4 GFLOP and 2.5 ms.
        let summary = summarise_run(&fixture::logging_each_tenth(record("NVIDIA H100")));
        let flop = 2.0 * (6.0 * 2e9 + 100.0 * 4e9);
        near(&summary, FLOP, flop / 106.0);
        near(&summary, FLOP_RATE, flop / (6.0 * 0.02 + 100.0 * 0.0025) / 2.0);
        near(&summary, BYTES_RATE, flop / 20.0 / (6.0 * 0.02 + 100.0 * 0.0025) / 2.0);
    }

    #[test]
    fn shares_are_of_the_rate_of_the_precision_in_effect() {
        let limits = |precision: &str, tf32: &str, device: &str| {
            let mut record = record(device);
            let levels = record.levels.iter().filter(|(key, _)| **key != *"precision");
            let levels: Vec<_> = levels.map(|(key, level)| (key.clone(), level.clone())).collect();
            let own = [("precision".into(), Level::text(precision)), ("tf32".into(), Level::text(tf32))];
            record.levels = crate::plan::Levels::new(levels.into_iter().chain(own).collect::<Vec<_>>());
            Limits::of(&record).unwrap().arithmetic
        };
        assert_eq!(limits("fp32", "off", "NVIDIA H100").as_deref(), Some("fp32"));
        assert_eq!(limits("fp32", "all", "NVIDIA H100").as_deref(), Some("tf32"));
        assert_eq!(limits("fp32", "all", "cpu").as_deref(), Some("fp32"));
        assert_eq!(limits("bf16", "off", "cpu"), None, "it was not measured");
    }

    #[test]
    fn what_nobody_said_or_measured_is_no_measure() {
        let has_values = |record: &RunRecord| {
            let summary = summarise_run(record);
            [FLOP, FLOP_RATE, FLOP_SHARE, BYTES_SHARE].map(|key| summary.value(key).is_some())
        };
        let all = record("NVIDIA H100");
        assert_eq!(has_values(&all), [true; 4]);
        let mut unmeasured = all.clone();
        unmeasured.rates.clear();
        assert_eq!(has_values(&unmeasured), [true, true, false, false]);
        let mut unsaid = all.clone();
        unsaid.ranks[1].readings.retain(|reading| reading.key != FLOP);
        assert_eq!(
            has_values(&unsaid),
            [false, false, false, true],
            "a rank without FLOP leaves those of the run unknown"
        );
        let mut impossible = all.clone();
        impossible.ranks[0].readings.iter_mut().filter(|one| one.key == FLOP).for_each(|one| one.value = -1.0);
        assert_eq!(has_values(&impossible), [false, false, false, true]);
        // Steps of a negative time make a rank without any the slowest.
        let mut without_steps = all;
        without_steps.ranks[0].steps.iter_mut().for_each(|step| step.duration_s = -0.02);
        without_steps.ranks[1].steps.iter_mut().for_each(|step| step.warm_up = true);
        let summary = summarise_run(&without_steps);
        assert_eq!([FLOP, BYTES, INTENSITY, FLOP_RATE].map(|key| summary.value(key)), [None; 4]);
    }
}
