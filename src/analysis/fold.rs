//! Folds the readings of ranks into one value for each epoch and one for the run, as the registry says.

use std::collections::{BTreeMap, BTreeSet};

use super::measure::{Origin, OverRanks, OverTime};
use super::{Measure, Measures};
use crate::plan::Key;
use crate::statistics::median;
use crate::store::{RankRecord, StepRecord};

/// The position of a reading in a run: its epoch and step; both `None` for the whole run.
type Moment = (Option<u32>, Option<u64>);

/// The readings of one key: for each moment, the values of each rank, in order.
type ReadingsByMoment<'a> = BTreeMap<Moment, Vec<(&'a RankRecord, Vec<f64>)>>;

/// The readings of a run, folded.
#[derive(Default)]
pub(super) struct Folded {
    /// The value of each key for the run.
    pub of_run: BTreeMap<Key, f64>,
    /// The values of each epoch, by key.
    pub of_epochs: BTreeMap<u32, BTreeMap<Key, f64>>,
    /// Whether a median over epochs without warm-up was requested, but each epoch has some warm-up.
    pub includes_warm_up: bool,
    /// Keys of readings with values that are impossible for their measure. They count as values that are not finite, or are left out of
    /// medians.
    pub impossible: BTreeSet<Key>,
}

/// Folds all readings of a run. `slowest` is the rank whose steady steps took longest.
pub(super) fn fold(ranks: &[RankRecord], slowest: Option<&RankRecord>, measures: &Measures) -> Folded {
    let mut readings_by_key: BTreeMap<&Key, ReadingsByMoment> = BTreeMap::new();
    let mut folded = Folded::default();
    for rank in ranks {
        for reading in &rank.readings {
            let mut value = reading.value;
            if let Some(measure) = measures.find(&reading.key).filter(|measure| !measure.is_possible(value)) {
                folded.impossible.insert(reading.key.clone());
                // A median needs no particular reading. In any other fold, another reading, such as an earlier one, would stand for it.
                if matches!(measure.origin, Origin::Readings(_, OverTime::Median | OverTime::MedianOfSteady)) {
                    continue;
                }
                value = f64::NAN;
            }
            let moments = readings_by_key.entry(&reading.key).or_default();
            let ranks = moments.entry((reading.epoch, reading.step)).or_default();
            match ranks.last_mut() {
                Some((last_rank, values)) if last_rank.rank == rank.rank => values.push(value),
                _ => ranks.push((rank, vec![value])),
            }
        }
    }
    let last_epoch = readings_by_key.values().flat_map(BTreeMap::keys).filter_map(|(epoch, _)| *epoch).max();
    let warm_up = WarmUp::of(ranks);
    for (key, moments) in readings_by_key {
        let origin = measures.find(key).map(|measure| measure.origin);
        // A derived measure is computed and never read; readings under its key are ignored.
        let (over_ranks, over_time) = match origin {
            Some(Origin::Derived) => continue,
            Some(Origin::Readings(over_ranks, over_time)) => (over_ranks, over_time),
            None => match Measure::new(key).origin {
                Origin::Readings(over_ranks, over_time) => (over_ranks, over_time),
                Origin::Derived => continue,
            },
        };
        let mut values: Vec<(Moment, f64)> = Vec::new();
        for (moment, values_of_ranks) in moments {
            let ranks: Vec<(&RankRecord, f64)> = values_of_ranks
                .into_iter()
                .filter_map(|(rank, values)| Some((rank, over_time.fold(&values)?)))
                .collect();
            values.extend(over_ranks.fold(&ranks, slowest, moment).map(|value| (moment, value)));
        }
        for of_epoch in values.chunk_by(|a, b| a.0.0 == b.0.0) {
            let Some(epoch) = of_epoch[0].0.0 else { continue };
            let all: Vec<f64> = of_epoch.iter().map(|(_, value)| *value).collect();
            let value = over_time.fold(&all);
            folded.of_epochs.entry(epoch).or_default().extend(value.map(|value| (key.clone(), value)));
        }
        let last_epoch = match over_time {
            OverTime::Last => last_epoch,
            OverTime::LastWithLoss => last_epoch_with_loss(ranks, &values),
            _ => None,
        };
        if last_epoch.is_some() && values.iter().any(|((epoch, _), _)| epoch.is_some()) {
            // Without the value of the last epoch, an earlier value would look like the run's.
            values.retain(|((epoch, _), _)| *epoch == last_epoch);
        }
        if over_time == OverTime::MedianOfSteady {
            let steady = |moment: &Moment| !warm_up.holds(*moment);
            if values.iter().any(|(moment, _)| steady(moment)) {
                values.retain(|(moment, _)| steady(moment));
            } else {
                folded.includes_warm_up |= !values.is_empty();
            }
        }
        let all: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
        folded.of_run.extend(over_time.fold(&all).map(|value| (key.clone(), value)));
    }
    folded
}

/// The last epoch with a value of a loss or with a step that has a loss.
fn last_epoch_with_loss(ranks: &[RankRecord], values: &[(Moment, f64)]) -> Option<u32> {
    let steps = ranks.iter().flat_map(|rank| &rank.steps).filter(|step| step.loss.is_finite());
    steps.map(|step| step.epoch).chain(values.iter().filter_map(|((epoch, _), _)| *epoch)).max()
}

impl OverTime {
    /// Folds the values of one rank or run, in order; `None` without values.
    fn fold(self, values: &[f64]) -> Option<f64> {
        let last = *values.last()?;
        Some(match self {
            Self::Last | Self::LastWithLoss => last,
            Self::Median | Self::MedianOfSteady => median(values),
            Self::Max => values.iter().copied().max_by(f64::total_cmp)?,
            Self::Sum => values.iter().sum(),
        })
    }
}

impl OverRanks {
    /// Folds the values of ranks, in order.
    fn fold(self, ranks: &[(&RankRecord, f64)], slowest: Option<&RankRecord>, moment: Moment) -> Option<f64> {
        let values = || ranks.iter().map(|(_, value)| *value);
        match self {
            Self::Max => values().max_by(f64::total_cmp),
            Self::Sum => (!ranks.is_empty()).then(|| values().sum()),
            Self::First => values().next(),
            Self::Slowest => {
                let slowest = slowest?.rank;
                ranks.iter().find(|(rank, _)| rank.rank == slowest).map(|(_, value)| *value)
            }
            Self::MeanByUnits => {
                let weighed = ranks.iter().filter_map(|(rank, value)| Some((units(rank, moment)?, *value)));
                let weighed: Vec<(f64, f64)> = weighed.collect();
                if weighed.is_empty() {
                    return (!ranks.is_empty()).then(|| values().sum::<f64>() / ranks.len() as f64);
                }
                let all: f64 = weighed.iter().map(|(units, _)| units).sum();
                let sum: f64 = weighed.iter().map(|(units, value)| value * units).sum();
                (all > 0.0).then(|| sum / all)
            }
        }
    }
}

/// The units that a rank processed: in a step, in an epoch, or in all its steps.
fn units(rank: &RankRecord, moment: Moment) -> Option<f64> {
    match moment {
        (_, Some(step)) => at_step(rank, step).map(units_of_step),
        (Some(epoch), None) => {
            let mut units = rank.readings_of("units").filter(|reading| reading.epoch == Some(epoch));
            units.next_back().map(|reading| reading.value)
        }
        (None, None) => (!rank.steps.is_empty()).then(|| rank.steps.iter().map(units_of_step).sum()),
    }
}

/// The units of a step, 0 if they are unknown.
fn units_of_step(step: &StepRecord) -> f64 {
    step.stored_units().unwrap_or_default().into()
}

fn at_step(rank: &RankRecord, step: u64) -> Option<&StepRecord> {
    rank.steps.binary_search_by_key(&step, |record| record.step).ok().map(|place| &rank.steps[place])
}

/// The steps of a run that do not count, and the epochs that contain warm-up steps. Steps of the warm-up, in windows
/// and next to windows do not count.
struct WarmUp<'a> {
    epochs: Vec<u32>,
    ranks: &'a [RankRecord],
}

impl<'a> WarmUp<'a> {
    fn of(ranks: &'a [RankRecord]) -> Self {
        let mut epochs: Vec<u32> = Vec::new();
        for step in ranks.iter().flat_map(|rank| &rank.steps).filter(|step| step.warm_up) {
            if epochs.last() != Some(&step.epoch) {
                epochs.push(step.epoch);
            }
        }
        epochs.sort_unstable();
        epochs.dedup();
        Self { epochs, ranks }
    }

    fn holds(&self, moment: Moment) -> bool {
        match moment {
            (_, Some(step)) => {
                self.ranks.iter().find_map(|rank| at_step(rank, step)).is_some_and(|record| !record.counts())
            }
            (Some(epoch), None) => self.epochs.binary_search(&epoch).is_ok(),
            (None, None) => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::store::ReadingRecord;

    /// Two ranks with steps, and these readings: rank, epoch, step, value.
    fn folded(rows: &[(usize, Option<u32>, Option<u64>, f64)], origin: (OverRanks, OverTime)) -> Folded {
        let mut ranks = fixture::finished().ranks;
        for (rank, epoch, step, value) in rows {
            let reading = ReadingRecord { step: *step, ..fixture::reading_record("own", *value, *epoch) };
            ranks[*rank].readings.push(reading);
        }
        let own = Measure { origin: Origin::Readings(origin.0, origin.1), ..Measure::new("own") };
        fold(&ranks, ranks.get(1), &Measures::of_units("images").with([own]))
    }

    fn of_run(rows: &[(usize, Option<u32>, Option<u64>, f64)], origin: (OverRanks, OverTime)) -> Option<f64> {
        folded(rows, origin).of_run.get("own").copied()
    }

    #[test]
    fn ranks_are_folded_before_epochs() {
        let rows = [(0, Some(1), None, 1.0), (1, Some(1), None, 5.0), (0, Some(2), None, 4.0), (1, Some(2), None, 2.0)];
        for (ranks, expected) in [
            (OverRanks::Max, [5.0, 4.0]),
            (OverRanks::Sum, [6.0, 6.0]),
            (OverRanks::First, [1.0, 4.0]),
            (OverRanks::Slowest, [5.0, 2.0]),
            (OverRanks::MeanByUnits, [3.0, 3.0]),
        ] {
            let folded = folded(&rows, (ranks, OverTime::Last));
            assert_eq!([1, 2].map(|epoch| folded.of_epochs[&epoch]["own"]), expected, "{ranks:?}");
            assert_eq!(folded.of_run["own"], expected[1], "{ranks:?}");
        }
        for (time, expected) in
            [(OverTime::Max, 5.0), (OverTime::Sum, 9.0), (OverTime::Median, 4.5), (OverTime::MedianOfSteady, 4.0)]
        {
            assert_eq!(of_run(&rows, (OverRanks::Max, time)), Some(expected), "{time:?}");
        }
    }

    #[test]
    fn readings_of_steps_leave_out_the_warm_up_and_weigh_by_the_steps_units() {
        let rows: Vec<_> = (1..=12).map(|step| (0, Some(1), Some(step), step as f64)).collect();
        // The first four steps are warm-up.
        assert_eq!(of_run(&rows, (OverRanks::MeanByUnits, OverTime::MedianOfSteady)), Some(8.5));
        assert_eq!(of_run(&rows, (OverRanks::First, OverTime::Median)), Some(6.5));
        assert!(!folded(&rows, (OverRanks::First, OverTime::MedianOfSteady)).includes_warm_up);
        assert!(folded(&rows[..3], (OverRanks::First, OverTime::MedianOfSteady)).includes_warm_up);
    }

    #[test]
    fn readings_of_the_whole_run_are_folded_rank_by_rank() {
        let rows = [(0, None, None, 3.0), (0, None, None, 1.0), (1, None, None, 2.0)];
        assert_eq!(of_run(&rows, (OverRanks::Max, OverTime::Max)), Some(3.0));
        assert_eq!(of_run(&rows, (OverRanks::Max, OverTime::Last)), Some(2.0));
        assert_eq!(of_run(&rows, (OverRanks::Sum, OverTime::Sum)), Some(6.0));
    }

    #[test]
    fn the_loss_of_a_run_is_that_of_the_last_epoch_with_losses_or_none() {
        let mut ranks = fixture::finished().ranks;
        ranks.truncate(1);
        let accuracy = fixture::reading_record("accuracy", 0.5, Some(3));
        ranks[0].readings = vec![fixture::reading_record("train_loss", 1.5, Some(1)), accuracy];
        let loss = |ranks: &[RankRecord]| {
            fold(ranks, ranks.first(), &Measures::of_units("images")).of_run.get("train_loss").copied()
        };
        assert_eq!(loss(&ranks), None, "the second epoch has losses, but it did not end");
        for step in ranks[0].steps.iter_mut().filter(|step| step.epoch == 2) {
            step.loss = f64::NAN;
        }
        assert_eq!(loss(&ranks), Some(1.5));
        ranks[0].readings.push(fixture::reading_record("train_loss", f64::NAN, Some(2)));
        assert!(loss(&ranks).is_some_and(f64::is_nan), "the run diverged");
        ranks[0].readings = vec![fixture::reading_record("train_loss", 0.5, None)];
        assert_eq!(loss(&ranks), Some(0.5), "the program tells no epoch");
        ranks[0].readings.insert(0, fixture::reading_record("train_loss", 1.5, Some(1)));
        assert_eq!(loss(&ranks), Some(1.5), "losses of steps have epochs");
    }

    #[test]
    fn the_last_value_is_that_of_the_last_epoch_or_none() {
        // The fixture has two epochs.
        assert_eq!(of_run(&[(0, Some(1), None, 1.0)], (OverRanks::First, OverTime::Last)), None);
        assert_eq!(of_run(&[], (OverRanks::First, OverTime::Last)), None);
    }
}
