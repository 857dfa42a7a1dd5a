//! Laws of times: Amdahl's over the number of GPUs, and α-β over bytes, fitted to the repeats of cells.

use std::collections::BTreeMap;

use super::value::{Intervals, Method, Value};

/// A law that times may follow. Both have the form a + b·u: u is 1 over the number of GPUs, or the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLaw {
    /// T(n) = T₁ (s + (1 − s) / n): a share s of the work is serial (G. M. Amdahl, AFIPS 1967). Parameters: T₁ and s.
    Amdahl,
    /// T(m) = α + m / β: a latency, and a rate in bytes per second (R. W. Hockney, *Parallel Computing* 20, 1994). Parameters: α and β.
    AlphaBeta,
}

impl TimeLaw {
    fn u(self, x: f64) -> f64 {
        if self == Self::Amdahl { x.recip() } else { x }
    }

    /// The law's two parameters from a and b.
    fn parameters(self, [a, b]: [f64; 2]) -> [f64; 2] {
        if self == Self::Amdahl { [a + b, a / (a + b)] } else { [a, b.recip()] }
    }
}

/// One repeat of a cell: its number, x (GPUs or bytes) and its time in seconds.
pub type TimeAt = (u32, f64, f64);

/// A cell whose time is not what the law says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    /// The number of GPUs or bytes.
    pub x: f64,
    /// Its median over the law's time, minus 1.
    pub over: f64,
    /// Half the width of its interval, as a share of its median.
    pub spread: f64,
}

/// A fitted law.
#[derive(Clone, Debug, PartialEq)]
pub struct LawFit {
    /// The law.
    pub law: TimeLaw,
    /// Its two parameters: medians over the repeats' fits, with their intervals.
    pub parameters: [Value; 2],
    /// a and b of the fit to the cells' medians, which is drawn.
    line: [f64; 2],
    /// The number of different x.
    pub places: usize,
    /// Misses: cells whose time the law does not give, by x.
    pub misses: Vec<Miss>,
    /// The number of cells without an interval, for which it is unknown whether they are misses.
    pub untold: usize,
}

impl LawFit {
    /// The law's time at x.
    pub fn at(&self, x: f64) -> f64 {
        self.line[0] + self.line[1] * self.law.u(x)
    }

    /// Fits a law to the repeats of cells. There is a fit for each repeat that all cells have, by least squares of relative errors. The
    /// parameters are summarised over these fits. If repeats are not `paired`, the medians are fitted, and the parameters have no
    /// intervals. A cell is a miss if the law's time is outside its interval and differs by more than `equal_within` from its median.
    ///
    /// # Errors
    /// The law cannot be fitted: too few places, no repeat in common, times or places that are not above 0.
    pub fn of(
        law: TimeLaw,
        (cells, paired): (&[Vec<TimeAt>], bool),
        equal_within: f64,
        intervals: Intervals,
    ) -> Result<Self, String> {
        let cells: Vec<&Vec<TimeAt>> = cells.iter().filter(|cell| !cell.is_empty()).collect();
        let is_above_0 = |(_, x, time_s): &TimeAt| *x > 0.0 && *time_s > 0.0 && x.is_finite() && time_s.is_finite();
        if !cells.iter().all(|cell| cell.iter().all(is_above_0)) {
            return Err("its values are not all above 0".to_owned());
        }
        let medians: Vec<(f64, Value)> = cells.iter().filter_map(|cell| median_of(cell, intervals)).collect();
        let mut places: Vec<f64> = medians.iter().map(|(x, _)| *x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        if places.len() < 2 {
            return Err("it needs cells at two places or more".to_owned());
        }
        let mut repeats: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
        for (repeat, x, time_s) in cells.iter().copied().flatten() {
            repeats.entry(*repeat).or_default().push((*x, *time_s));
        }
        let whole = repeats.into_values().filter(|times| times.len() == cells.len());
        let fits: Vec<[f64; 2]> =
            whole.filter_map(|times| line(law, &times)).map(|line| law.parameters(line)).collect();
        let all: Vec<(f64, f64)> = medians.iter().map(|(x, value)| (*x, value.median)).collect();
        let line = line(law, &all);
        let of_medians = |place: usize| {
            let median = law.parameters(line?)[place];
            Some(Value { median, interval: None, n: 0, method: Method::Unpaired })
        };
        let over = |place: usize| match paired {
            true => intervals.of(&fits.iter().map(|fit| fit[place]).collect::<Vec<_>>()),
            false => of_medians(place),
        };
        let (Some(first), Some(second), Some(line)) = (over(0), over(1), line) else {
            return Err("no repeat number is in all of its cells".to_owned());
        };
        let mut fit = Self {
            law,
            parameters: [first, second],
            line,
            places: places.len(),
            misses: Vec::new(),
            untold: medians.iter().filter(|(_, value)| value.interval.is_none()).count(),
        };
        fit.misses = medians.iter().filter_map(|(x, value)| fit.miss(*x, value, equal_within)).collect();
        fit.misses.sort_by(|a, b| a.x.total_cmp(&b.x));
        Ok(fit)
    }

    fn miss(&self, x: f64, value: &Value, equal_within: f64) -> Option<Miss> {
        let (ends, law_s) = (value.interval?, self.at(x));
        let over = value.median / law_s - 1.0;
        let is_outside = !(ends.low..=ends.high).contains(&law_s);
        let spread = (ends.high - ends.low) / (2.0 * value.median);
        (is_outside && (law_s <= 0.0 || over.abs() > equal_within)).then_some(Miss { x, over, spread })
    }
}

/// The median place and time of a cell.
fn median_of(cell: &[TimeAt], intervals: Intervals) -> Option<(f64, Value)> {
    let places: Vec<f64> = cell.iter().map(|(_, x, _)| *x).collect();
    let times: Vec<f64> = cell.iter().map(|(.., time_s)| *time_s).collect();
    Some((intervals.of(&places)?.median, intervals.of(&times)?))
}

/// a and b that minimise Σ ((a + b u) / T − 1)²; `None` if all places are the same.
fn line(law: TimeLaw, times: &[(f64, f64)]) -> Option<[f64; 2]> {
    // Places are divided by the greatest one, since bytes are large numbers.
    let most = times.iter().map(|(x, _)| law.u(*x)).fold(0.0, f64::max);
    let (mut pp, mut pq, mut qq, mut p1, mut q1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, time_s) in times {
        let (p, q) = (time_s.recip(), law.u(*x) / most / time_s);
        (pp, pq, qq, p1, q1) = (pp + p * p, pq + p * q, qq + q * q, p1 + p, q1 + q);
    }
    let determinant = pp * qq - pq * pq;
    let is_sound = determinant > 1e-12 * pp * qq;
    is_sound.then(|| [(p1 * qq - q1 * pq) / determinant, (pp * q1 - pq * p1) / determinant / most])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::statistics::Interval;

    /// Repeats of cells at these places, whose times differ by ±0.2 %, in another order in each cell.
    fn cells(places: &[f64], time_s: impl Fn(f64) -> f64) -> Vec<Vec<TimeAt>> {
        let noise = [1.0, 1.002, 0.998, 1.001, 0.999, 1.0];
        let at = |(place, x): (usize, &f64)| {
            let noise = noise.iter().cycle().skip(place).take(noise.len());
            noise.zip(1..).map(|(noise, repeat)| (repeat, *x, noise * time_s(*x))).collect()
        };
        places.iter().enumerate().map(at).collect()
    }

    fn fit(law: TimeLaw, cells: &[Vec<TimeAt>]) -> Result<LawFit, String> {
        LawFit::of(law, (cells, true), 0.01, Intervals::ByCount)
    }

    fn holds(value: &Value, truth: f64) -> bool {
        let ends = value.interval.unwrap();
        (ends.low..=ends.high).contains(&truth) && (value.median / truth - 1.0).abs() < 0.01
    }

    #[test]
    fn parameters_come_back_with_intervals_over_the_repeats() {
        let amdahl = fit(TimeLaw::Amdahl, &cells(&[1.0, 2.0, 4.0, 8.0], |n| 100.0 * (0.05 + 0.95 / n))).unwrap();
        assert!(holds(&amdahl.parameters[0], 100.0) && holds(&amdahl.parameters[1], 0.05), "{amdahl:?}");
        assert_eq!((amdahl.parameters[0].n, amdahl.places, amdahl.misses.len()), (6, 4, 0));
        assert!((amdahl.at(16.0) / 10.9375 - 1.0).abs() < 0.01);
        let bytes = [1e3, 1e6, 1e8, 1e9];
        let alpha_beta = fit(TimeLaw::AlphaBeta, &cells(&bytes, |m| 20e-6 + m / 150e9)).unwrap();
        assert!(holds(&alpha_beta.parameters[0], 20e-6) && holds(&alpha_beta.parameters[1], 150e9), "{alpha_beta:?}");
    }

    #[test]
    fn repeats_without_partners_give_parameters_without_intervals() {
        // The times of each cell are sorted, as in a file whose rows were sorted.
        let mut sorted = cells(&[1.0, 2.0, 4.0, 8.0], |n| 100.0 * (0.05 + 0.95 / n));
        for times in &mut sorted {
            let mut times_s: Vec<f64> = times.iter().map(|(.., time_s)| *time_s).collect();
            times_s.sort_by(f64::total_cmp);
            times.iter_mut().zip(times_s).for_each(|(time, time_s)| time.2 = time_s);
        }
        let fit = LawFit::of(TimeLaw::Amdahl, (&sorted, false), 0.01, Intervals::ByCount).unwrap();
        let [time_s, share] = fit.parameters;
        assert!((time_s.median / 100.0 - 1.0).abs() < 0.01 && (share.median - 0.05).abs() < 0.005, "{fit:?}");
        assert_eq!((time_s.interval, share.interval, time_s.method), (None, None, Method::Unpaired));
    }

    #[test]
    fn places_that_do_not_follow_the_law_are_named_and_noise_is_not() {
        let slow_at_8 = |n: f64| 100.0 * (0.05 + 0.95 / n) * if n == 8.0 { 1.3 } else { 1.0 };
        let fit_of = fit(TimeLaw::Amdahl, &cells(&[1.0, 2.0, 4.0, 8.0], slow_at_8)).unwrap();
        let eight = fit_of.misses.iter().find(|miss| miss.x == 8.0).unwrap();
        assert!(eight.over > 0.03 && eight.spread < 0.005, "{fit_of:?}");
        let alone: Vec<Vec<TimeAt>> = [1.0, 2.0, 4.0].map(|n| vec![(1, n, slow_at_8(n))]).into();
        let fit_of = fit(TimeLaw::Amdahl, &alone).unwrap();
        assert_eq!((fit_of.misses.len(), fit_of.untold, fit_of.parameters[0].interval), (0, 3, None));
    }

    #[test]
    fn a_miss_is_told_by_how_much_its_median_is_over_the_laws_time() {
        let value = |median: f64| Value {
            median,
            interval: Some(Interval { low: median - 0.5, high: median + 0.5 }),
            n: 6,
            method: Method::OrderStatistics,
        };
        let parameters = [value(1.0), value(1.0)];
        // T(m) = 1 + m.
        let law =
            LawFit { law: TimeLaw::AlphaBeta, parameters, line: [1.0, 1.0], places: 2, misses: Vec::new(), untold: 0 };
        assert_eq!(law.miss(3.0, &value(5.0), 0.01), Some(Miss { x: 3.0, over: 0.25, spread: 0.1 }));
        assert_eq!(law.miss(3.0, &value(3.0), 0.01).map(|miss| miss.over), Some(-0.25));
        assert_eq!(law.miss(3.0, &value(4.25), 0.01), None, "the law's time is in its interval");
        assert_eq!(law.miss(3.0, &value(5.0), 0.3), None, "it counts as equal");
    }

    #[test]
    fn what_cannot_be_fitted_says_why() {
        let error = |cells: &[Vec<TimeAt>]| fit(TimeLaw::Amdahl, cells).unwrap_err();
        assert_eq!(error(&cells(&[2.0], |_| 1.0)), "it needs cells at two places or more");
        assert_eq!(error(&[vec![(1, 1.0, 0.0)], vec![(1, 2.0, 1.0)]]), "its values are not all above 0");
        let apart = [vec![(1, 1.0, 2.0)], vec![(2, 2.0, 1.0)]];
        assert_eq!(error(&apart), "no repeat number is in all of its cells");
    }
}
