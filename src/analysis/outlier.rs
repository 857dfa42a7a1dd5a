//! Finds repeats that are far from the others of their cell. They are reported, never dropped.

use super::condition::{Condition, conditions};
use super::{Cell, Measure, RunState, RunSummary};
use crate::plan::Key;
use crate::statistics::median;

/// The smallest relative distance from its cell's median at which a repeat is reported, however close together the others are.
const LEAST_DEVIATION: f64 = 0.01;
/// Critical values by the number of repeats: the modified z-score that the farthest of that many normal values exceeds in 1 % of cases, by
/// simulation.
const CRITICAL: [(usize, f64); 14] = [
    (3, 108.8),
    (4, 15.9),
    (5, 18.4),
    (6, 10.1),
    (7, 10.7),
    (8, 7.9),
    (9, 8.2),
    (10, 6.9),
    (12, 6.3),
    (15, 6.0),
    (20, 5.3),
    (30, 4.8),
    (50, 4.5),
    (100, 4.3),
];
/// The median absolute deviation of the standard normal distribution.
const NORMAL_MAD: f64 = 0.674_489_750_196_081_7;

/// A repeat that is far from the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlier {
    /// Its run.
    pub run: String,
    /// The measure in which it differs.
    pub measure: Key,
    /// Its value.
    pub value: f64,
    /// The median of its cell.
    pub median: f64,
    /// The modified z-score: its distance from the median in standard deviations, estimated from the median absolute deviation.
    pub score: f64,
    /// Possible reasons: labels of the run's marks that no other repeat of its cell has, and of conditions that distinguish it.
    pub reasons: Vec<&'static str>,
}

/// The outliers of a cell in a measure (B. Iglewicz and D. C. Hoaglin, *How to Detect and Handle Outliers*, 1993). Fewer than three repeats
/// have none.
pub fn outliers(cell: &Cell, measure: &Measure) -> Vec<Outlier> {
    let finished = || cell.runs.iter().copied().filter(|run| run.state == RunState::Finished);
    let runs: Vec<(&RunSummary, f64)> = finished().filter_map(|run| Some((run, run.value_alone(measure)?))).collect();
    let Some((_, critical)) = CRITICAL.iter().rev().find(|(n, _)| *n <= runs.len()) else { return Vec::new() };
    let values: Vec<f64> = runs.iter().map(|(_, value)| *value).collect();
    let middle = median(&values);
    let deviation = median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>());
    let stands_off = |(run, value): (&RunSummary, f64)| {
        let distance = (value - middle).abs();
        let score = NORMAL_MAD * distance / deviation;
        let is_far = score > *critical && distance > LEAST_DEVIATION * middle.abs();
        is_far.then(|| Outlier {
            run: run.run.clone(),
            measure: measure.key.clone(),
            value,
            median: middle,
            score,
            reasons: reasons(run, &runs, &conditions(cell)),
        })
    };
    runs.iter().copied().filter_map(stands_off).collect()
}

fn reasons(run: &RunSummary, others: &[(&RunSummary, f64)], conditions: &[Condition]) -> Vec<&'static str> {
    let has = |other: &RunSummary, label: &str| other.marks.iter().any(|mark| mark.label() == label);
    let mut labels: Vec<&'static str> = run.marks.iter().map(super::Mark::label).collect();
    labels.dedup();
    labels.retain(|label| others.iter().filter(|(other, _)| has(other, label)).count() == 1);
    labels.extend(conditions.iter().filter(|one| one.run == run.run).map(|one| one.label));
    labels
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Mark, cells, fixture, measure, summarise_run};

    fn outliers_of(times_s: &[f64], throttled: Option<usize>) -> Vec<Outlier> {
        let one = summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), 1, 1.0));
        let repeat = |(time_s, repeat): (&f64, u32)| {
            let mut run = RunSummary { run: format!("r{repeat}"), repeat, ..one.clone() };
            run.values.insert("step_time_s".into(), *time_s);
            run
        };
        let mut runs: Vec<RunSummary> = times_s.iter().zip(1..).map(repeat).collect();
        if let Some(place) = throttled {
            runs[place].marks.push(Mark::Throttled(vec!["sw_power_cap".to_owned()]));
        }
        outliers(&cells(&runs)[0], measure("step_time_s").unwrap())
    }

    #[test]
    fn a_repeat_far_off_is_named_with_what_only_it_bears() {
        let found = outliers_of(&[0.0160, 0.0161, 0.0162, 0.0159, 0.0161, 0.0310], Some(5));
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.run.as_str(), &*one.measure, one.value), ("r6", "step_time_s", 0.0310));
        assert_eq!((one.median, one.reasons.as_slice()), (0.0161, &["throttled"][..]));
        assert!(outliers_of(&[0.0160, 0.0161, 0.0162, 0.0159, 0.0161, 0.0310], None)[0].reasons.is_empty());
    }

    #[test]
    fn spread_that_few_repeats_show_by_chance_and_small_deviations_are_no_outliers() {
        assert!(outliers_of(&[0.0160, 0.0170, 0.0200], None).is_empty());
        assert!(outliers_of(&[0.016, 0.030], None).is_empty());
        assert!(outliers_of(&[0.0160, 0.01600001, 0.01600002, 0.01600001, 0.01605, 0.01600001], None).is_empty());
        // Equal but for one.
        assert_eq!(outliers_of(&[0.016, 0.016, 0.016, 0.017], None).len(), 1);
    }

    #[test]
    fn one_cell_in_a_hundred_of_normal_repeats_has_one() {
        let mut noise = fixture::Noise::new(6);
        for n in [5, 8, 20] {
            let cells = (0..400).filter(|_| {
                let times: Vec<f64> = (0..n).map(|_| 0.02 * (1.0 + 0.05 * noise.normal())).collect();
                !outliers_of(&times, None).is_empty()
            });
            let count = cells.count();
            assert!(count <= 12, "{count} of 400 with {n} repeats");
        }
    }
}
