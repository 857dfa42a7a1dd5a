//! The energy of a run's GPUs over time: the sum of their counters, thinned out. It gives the energy of any part of the run.

use serde::{Deserialize, Serialize};

/// The number of points that are kept: in a run of an hour at least one every seven seconds.
const POINTS: usize = 1024;
/// The share of a requested period that points must cover.
const COVERED: f64 = 0.95;

/// The energy since the first sample, over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct EnergyCourse {
    /// Times in seconds since the Unix epoch, with the energy consumed so far in joules; only every `every`-th sample is kept.
    points: Vec<(f64, f64)>,
    /// The newest point.
    newest: Option<(f64, f64)>,
    every: u32,
    /// The number of points since the last one that was kept.
    since: u32,
}

impl EnergyCourse {
    pub(super) fn add(&mut self, time_s: f64, energy_j: f64) {
        // If the clock is set back, nothing is added until it has caught up.
        if self.newest.is_some_and(|(newest_s, _)| time_s <= newest_s) {
            return;
        }
        self.newest = Some((time_s, energy_j));
        self.since += 1;
        if !self.points.is_empty() && self.since < self.every {
            return;
        }
        self.since = 0;
        if self.points.len() == POINTS {
            let mut place = 0;
            self.points.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every = self.every.max(1) * 2;
        }
        self.points.push((time_s, energy_j));
    }

    /// The energy consumed in periods (from, to), and the total length of the periods; overlaps count once. `None` if the samples do not
    /// cover them.
    pub(super) fn within(&self, periods: &[(f64, f64)]) -> Option<(f64, f64)> {
        let ((first_s, _), (last_s, _)) = (*self.points.first()?, self.newest?);
        let mut sorted: Vec<(f64, f64)> =
            periods.iter().map(|(from_s, to_s)| (*from_s, if to_s.is_finite() { *to_s } else { last_s })).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut energy_j, mut covered_s, mut asked_s, mut reached_s) = (0.0, 0.0, 0.0, f64::NEG_INFINITY);
        for (from_s, to_s) in sorted {
            let from_s = from_s.max(reached_s);
            if to_s <= from_s {
                continue;
            }
            reached_s = to_s;
            asked_s += to_s - from_s;
            let (from_s, to_s) = (from_s.max(first_s), to_s.min(last_s));
            if to_s > from_s {
                covered_s += to_s - from_s;
                energy_j += self.at(to_s)? - self.at(from_s)?;
            }
        }
        (asked_s > 0.0 && covered_s >= COVERED * asked_s).then_some((energy_j, covered_s))
    }

    /// Whether there are points after a time.
    pub(super) fn goes_on_after(&self, time_s: f64) -> bool {
        self.newest.is_some_and(|(newest_s, _)| newest_s > time_s)
    }

    /// The energy at a time between the first and the newest point, interpolated linearly. `None` before the first point.
    pub(super) fn at(&self, time_s: f64) -> Option<f64> {
        let after = self.points.partition_point(|(point_s, _)| *point_s <= time_s);
        let before = *self.points.get(after.checked_sub(1)?)?;
        let after = self.points.get(after).copied().or(self.newest)?;
        let span_s = after.0 - before.0;
        let share = if span_s > 0.0 { (time_s - before.0) / span_s } else { 0.0 };
        Some(before.1 + share.clamp(0.0, 1.0) * (after.1 - before.1))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// 100 W for ten seconds, 500 W for `steady_s`, then 100 W again; ten points a second.
    fn course(steady_s: f64) -> EnergyCourse {
        let mut course = EnergyCourse::default();
        let mut energy_j = 0.0;
        for tick in 0..((steady_s + 20.0) * 10.0) as u32 {
            let time_s = f64::from(tick) / 10.0;
            course.add(1000.0 + time_s, energy_j);
            energy_j += if (10.0..10.0 + steady_s).contains(&time_s) { 50.0 } else { 10.0 };
        }
        course
    }

    #[test]
    fn energy_within_steady_periods_is_theirs_alone() {
        let (energy_j, time_s) = course(60.0).within(&[(1010.0, 1070.0)]).unwrap();
        assert!((energy_j - 30_000.0).abs() < 1e-6 && (time_s - 60.0).abs() < 1e-9, "{energy_j} J in {time_s} s");
        // Ranks say nearly the same periods; what two of them say counts once.
        let (energy_j, time_s) = course(60.0).within(&[(1010.0, 1040.0), (1020.0, 1030.0), (1035.0, 1070.0)]).unwrap();
        assert!((energy_j - 30_000.0).abs() < 1e-6 && (time_s - 60.0).abs() < 1e-9, "{energy_j} J in {time_s} s");
    }

    #[test]
    fn an_hour_is_thinned_and_its_energy_stays_within_a_thousandth() {
        let course = course(3600.0);
        assert!(course.points.len() <= POINTS);
        let (energy_j, _) = course.within(&[(1010.0, 4610.0)]).unwrap();
        assert!((energy_j / (3600.0 * 500.0) - 1.0).abs() < 1e-3, "{energy_j} J");
    }

    #[test]
    fn a_period_without_samples_has_no_energy() {
        assert_eq!(course(10.0).within(&[(2000.0, 2010.0)]), None);
        assert_eq!(course(10.0).within(&[(900.0, 1010.0)]), None);
        assert_eq!(course(10.0).within(&[]), None);
        assert_eq!(EnergyCourse::default().within(&[(0.0, 1.0)]), None);
        // A run that goes on has an open period.
        let (_, time_s) = course(10.0).within(&[(1010.0, f64::INFINITY)]).unwrap();
        assert!((time_s - 19.9).abs() < 1e-9, "{time_s}");
    }
}
