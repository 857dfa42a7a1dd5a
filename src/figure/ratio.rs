//! Values of a measure over a cell's repeats, and ratios to another cell.

use std::collections::BTreeSet;

use crate::analysis::{
    Cell, Comparison, Interval, Intervals, Judgement, Measure, Method, RunSummary, Value, judge_comparisons,
};

pub(super) use crate::analysis::{by_repeat, finished};

/// A measure divided by the baseline's. Times are inverted, so that twice as fast is 2. For distinct images per second this is the
/// speed-up, which is correct for any batch size and any number of GPUs.
pub(super) fn over_baseline(cell: &Cell, baseline: Option<&Cell>, key: &str, intervals: Intervals) -> Option<Value> {
    let baseline = baseline?;
    let has_ratio = match (cell.measure(key), baseline.measure(key)) {
        // Workloads that count different things have no ratio of throughputs.
        (Some(own), Some(other)) => own.key == other.key && own.factor_to(other).is_some(),
        (own, other) => own.is_none() && other.is_none(),
    };
    if !has_ratio {
        return None;
    }
    if is_own_baseline(cell, baseline) {
        let n = by_repeat(cell, key).len();
        // A cell's ratio to itself is 1 by definition; an interval would only show the cell's own spread.
        return (n > 0).then_some(Value { median: 1.0, interval: None, n, method: Method::One });
    }
    if cell.measure(key).is_some_and(Measure::is_time) {
        ratio_of(baseline, cell, key, intervals)
    } else {
        ratio_of(cell, baseline, key, intervals)
    }
}

/// The ratio of a measure in two cells: of their pairs of repeats, or of their means if repeats form no pairs.
fn ratio_of(over: &Cell, base: &Cell, key: &str, intervals: Intervals) -> Option<Value> {
    let [own, others] = [over, base].map(|cell| by_repeat(cell, key));
    if over.pairs_with(base) { intervals.of_ratio(&own, &others) } else { intervals.of_unpaired_ratio(&own, &others) }
}

/// How much more of a measure a cell needs than the baseline, as a share: 0.08 is 8 % more.
pub(super) fn cost_over(cell: &Cell, baseline: Option<&Cell>, key: &str, intervals: Intervals) -> Option<Value> {
    let baseline = baseline?;
    let ratio = if is_own_baseline(cell, baseline) {
        over_baseline(cell, Some(baseline), key, intervals)
    } else {
        ratio_of(cell, baseline, key, intervals)
    };
    let less_one = |ratio: Value| Value {
        median: ratio.median - 1.0,
        interval: ratio.interval.map(|ends| Interval { low: ends.low - 1.0, high: ends.high - 1.0 }),
        ..ratio
    };
    ratio.map(less_one)
}

/// Whether a cell is its own baseline.
fn is_own_baseline(cell: &Cell, baseline: &Cell) -> bool {
    baseline.key() == cell.key()
}

/// A value in another unit.
pub(super) fn scaled(value: Value, factor: f64) -> Value {
    let interval = value.interval.map(|ends| Interval {
        low: (ends.low * factor).min(ends.high * factor),
        high: (ends.low * factor).max(ends.high * factor),
    });
    Value { median: value.median * factor, interval, ..value }
}

/// Judges cells' ratios to other cells in a measure, as one family. Each pair is a cell and the cell that it is compared with.
pub(super) fn judge_cells(pairs: &[(&Cell, &Cell)], key: &str, equal_within: f64) -> Vec<Judgement> {
    let measure = pairs.first().and_then(|(_, base)| base.measure(key));
    let is_time = measure.is_some_and(Measure::is_time);
    let family: Vec<Comparison> =
        pairs.iter().map(|(cell, base)| Comparison::between(cell, base, key, is_time)).collect();
    judge_comparisons(&family, 0, measure.is_some_and(Measure::is_speed), equal_within)
}

/// A measure at the end of an epoch in a cell's finished runs, in the unit of the cell's measure.
pub(super) fn epoch_values(cell: &Cell, key: &str, epoch: u32) -> Vec<f64> {
    let measure = cell.measure(key);
    let value = |run: &RunSummary| {
        let value = run.epochs.iter().find(|one| one.epoch == epoch)?.value(key)?;
        Some(value * measure.map_or(Some(1.0), |measure| run.factor_to(measure))?)
    };
    finished(cell).filter_map(value).collect()
}

/// The epochs of a cell's finished runs, in order.
pub(super) fn epochs(cell: &Cell) -> Vec<u32> {
    let epochs: BTreeSet<u32> = finished(cell).flat_map(|run| &run.epochs).map(|epoch| epoch.epoch).collect();
    epochs.into_iter().collect()
}
