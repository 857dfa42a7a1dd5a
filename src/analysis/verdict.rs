//! Verdicts over a family of comparisons: which differences are real, which are shown to be small, and what is too few repeats to
//! tell.
//!
//! Student's t on logarithms of ratios of paired repeats; equivalence by two one-sided tests (D. J. Schuirmann, *Journal of
//! Pharmacokinetics and Biopharmaceutics* 15(6), 1987); the family by S. Holm, A simple sequentially rejective multiple test
//! procedure, *Scandinavian Journal of Statistics* 6(2), 1979.

use std::fmt;

use strum::IntoStaticStr;

use super::value::pairs;
use crate::statistics::{CONFIDENCE, INTERVAL_REPEATS, Interval, median, student_t_above, student_t_quantile};

/// Probability of a false verdict of difference in a family, and in one of equality.
const ERROR: f64 = 1.0 - CONFIDENCE;
/// The power at which a difference counts as one that repeats could show.
const POWER: f64 = 0.8;
/// Ratios that differ by less than this are equal, unless another bound is asked for.
pub const EQUAL_WITHIN: f64 = 0.01;
/// More repeats than anybody makes.
const MOST_REPEATS: u32 = 10_000;
/// The standard error of a median over that of a mean, for many normal values: √(π / 2).
const MEDIAN_OVER_MEAN: f64 = 1.253_314_137_315_500_3;

/// What repeats say about a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// Above 1, of a ratio of speeds.
    Faster,
    /// Below 1, of a ratio of speeds.
    Slower,
    /// Above 1, of any other measure.
    Higher,
    /// Below 1, of any other measure.
    Lower,
    /// Within the bound.
    Equal,
    /// These repeats cannot tell.
    Undecided,
}

impl Verdict {
    /// The name in files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A verdict and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// What the repeats say.
    pub verdict: Verdict,
    /// The probability of ratios at least as far from 1 where nothing differs; none of fewer than two pairs.
    pub p: Option<f64>,
    /// The same after Holm's correction for the family.
    pub p_holm: Option<f64>,
    /// The smallest difference, as a share, that these repeats show in 80 % of cases in this family; none of fewer than two pairs.
    pub detectable: Option<f64>,
    /// The bound under which ratios count as equal, as a share.
    pub equal_within: f64,
    /// How many pairs of repeats.
    pub n: usize,
}

/// In a few words: `faster`, `equal within 1 %`, `undecided: could show 3.2 %`.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.verdict.name();
        match (self.verdict, self.detectable) {
            (Verdict::Equal, _) => write!(f, "equal within {}", percent(self.equal_within)),
            (Verdict::Undecided, Some(detectable)) => write!(f, "undecided: could show {}", percent(detectable)),
            (Verdict::Undecided, None) => write!(f, "undecided: {}", if self.n == 1 { "one pair" } else { "no pairs" }),
            _ => f.write_str(name),
        }
    }
}

/// A share in percent with two digits; whole from 10 % on.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if !percent.is_finite() || percent >= 1_000.0 => "only over 1000 %".to_owned(),
        9.95.. => format!("{percent:.0} %"),
        0.995.. => format!("{percent:.1} %").replace(".0 %", " %"),
        _ => format!("{percent:.2} %"),
    }
}

/// The logarithms of `over / base`, pair by pair of repeats.
pub fn log_ratios(over: &[(u32, f64)], base: &[(u32, f64)]) -> Vec<f64> {
    let logs = pairs(over, base).into_iter().map(|(over, base)| (over / base).ln());
    logs.filter(|log| log.is_finite()).collect()
}

/// Judges a family of comparisons, each given by the logarithms of its paired ratios. `of_speed`: above 1 is faster.
/// `equal_within` is the bound of equality as a share: 0.01 for 1 %.
pub fn judge(family: &[Vec<f64>], of_speed: bool, equal_within: f64) -> Vec<Judgement> {
    let contrasts: Vec<Option<Contrast>> = family.iter().map(|logs| Contrast::of(logs)).collect();
    let tested = contrasts.iter().flatten().count();
    let margin = equal_within.max(0.0).ln_1p();
    let adjusted = |p: &dyn Fn(&Contrast) -> f64| {
        let all: Vec<f64> = contrasts.iter().flatten().map(p).collect();
        let mut adjusted = holm(&all).into_iter();
        contrasts.iter().map(|one| one.as_ref().and_then(|_| adjusted.next())).collect::<Vec<Option<f64>>>()
    };
    let differences = adjusted(&Contrast::difference);
    let equalities = adjusted(&|one| one.equality(margin));
    let judged = contrasts.iter().zip(family).zip(differences.into_iter().zip(equalities));
    judged
        .map(|((contrast, logs), (difference, equality))| {
            let is_above = contrast.as_ref().is_some_and(|one| one.mean > 0.0);
            let verdict = match () {
                // Where both hold, the difference is real and too small to matter.
                () if equality.is_some_and(|p| p < ERROR) => Verdict::Equal,
                () if difference.is_none_or(|p| p >= ERROR) => Verdict::Undecided,
                () if of_speed => {
                    if is_above {
                        Verdict::Faster
                    } else {
                        Verdict::Slower
                    }
                }
                () => {
                    if is_above {
                        Verdict::Higher
                    } else {
                        Verdict::Lower
                    }
                }
            };
            Judgement {
                verdict,
                p: contrast.as_ref().map(Contrast::difference),
                p_holm: difference,
                detectable: contrast.as_ref().map(|one| one.detectable(tested)),
                equal_within,
                n: logs.len(),
            }
        })
        .collect()
}

/// The mean of logarithms of paired ratios, and its standard error.
struct Contrast {
    mean: f64,
    error: f64,
    freedom: f64,
}

impl Contrast {
    fn of(logs: &[f64]) -> Option<Self> {
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let deviation = standard_deviation(logs)?;
        // Values that are equal but for rounding say that nothing spreads, not that rounding does.
        let error = if deviation < 1e-14 { 0.0 } else { deviation / n.sqrt() };
        let mean = if mean.abs() < 1e-14 { 0.0 } else { mean };
        mean.is_finite().then_some(Self { mean, error, freedom: n - 1.0 })
    }

    /// The t of a distance from 0; without spread, any distance is infinitely far.
    fn t(&self, distance: f64) -> f64 {
        if self.error > 0.0 || distance == 0.0 {
            distance / self.error.max(f64::MIN_POSITIVE)
        } else {
            distance * f64::INFINITY
        }
    }

    fn difference(&self) -> f64 {
        (2.0 * student_t_above(self.t(self.mean.abs()), self.freedom)).min(1.0)
    }

    /// That the ratio lies outside of ± margin is refused by two one-sided tests.
    fn equality(&self, margin: f64) -> f64 {
        student_t_above(self.t(margin - self.mean.abs()), self.freedom)
    }

    fn detectable(&self, family: usize) -> f64 {
        let far = student_t_quantile(ERROR / 2.0 / family as f64, self.freedom);
        ((far + student_t_quantile(1.0 - POWER, self.freedom)) * self.error).exp_m1()
    }
}

/// The 95 % interval of the mean of values by Student's t, which takes them as normal; none of fewer than two.
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    let Contrast { mean, error, freedom } = Contrast::of(values)?;
    let half = student_t_quantile(ERROR / 2.0, freedom) * error;
    Some(Interval { low: mean - half, high: mean + half })
}

/// Holm's adjusted probabilities, in the order of `p`.
fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut greatest = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        greatest = greatest.max((p.len() - rank) as f64 * p[place]).min(1.0);
        adjusted[place] = greatest;
    }
    adjusted
}

/// The sample standard deviation; none of fewer than two values.
fn standard_deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1 && squares.is_finite()).then(|| (squares / (n - 1.0)).sqrt())
}

/// How far repeats spread, as a share: the standard deviation of their logarithms. None of fewer than two, or not above 0.
pub fn spread(repeats: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = repeats.iter().map(|value| value.ln()).collect();
    standard_deviation(&logs).filter(|spread| spread.is_finite())
}

/// The usual spread of cells: the median of those that are known.
pub fn usual_spread(spreads: &[f64]) -> Option<f64> {
    (!spreads.is_empty()).then(|| median(spreads))
}

/// How many repeats it takes until the 95 % interval of a cell's median reaches ± `precision` (a share: 0.01 for 1 %) where repeats
/// spread by `spread` (see [`spread`]); at least [`INTERVAL_REPEATS`]. `None` where no number of repeats that anybody makes does it.
///
/// t · 1.2533 · spread / √n ≤ ln(1 + precision), with t the 97.5 % quantile of Student's t with n − 1 degrees of freedom.
pub fn repeats_for(spread: f64, precision: f64) -> Option<u32> {
    let half = precision.ln_1p();
    if !(spread.is_finite() && spread >= 0.0 && half > 0.0) {
        return None;
    }
    let reaches = |n: u32| {
        let t = student_t_quantile(ERROR / 2.0, f64::from(n) - 1.0);
        t * MEDIAN_OVER_MEAN * spread / f64::from(n).sqrt() <= half
    };
    let least = INTERVAL_REPEATS as u32;
    if reaches(least) {
        return Some(least);
    }
    // More repeats never reach less.
    let (mut too_few, mut enough) = (least, MOST_REPEATS);
    if !reaches(enough) {
        return None;
    }
    while enough - too_few > 1 {
        let middle = too_few.midpoint(enough);
        if reaches(middle) { enough = middle } else { too_few = middle }
    }
    Some(enough)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::statistics::fixture::oracle;

    #[test]
    fn tests_their_correction_and_what_could_be_shown_agree_with_scipy() {
        use Verdict::{Equal, Faster, Slower, Undecided};
        let oracle = oracle();
        let judged = judge(&oracle.family, true, oracle.within);
        for (place, one) in judged.iter().enumerate() {
            let near = |seen: f64, expected: f64| (seen - expected).abs() <= 1e-9 * expected.max(1e-3);
            assert!(near(one.p.unwrap(), oracle.difference[place]), "{place}: {one:?}");
            assert!(near(one.p_holm.unwrap(), oracle.difference_holm[place]), "{place}: {one:?}");
            assert!(near(one.detectable.unwrap(), oracle.detectable[place]), "{place}: {one:?}");
            let is_equal = oracle.equivalence_holm[place] < 0.05;
            assert_eq!(one.verdict == Equal, is_equal, "{place}: {one:?}");
        }
        assert_eq!(
            judged.iter().map(|one| one.verdict).collect::<Vec<_>>(),
            [Faster, Undecided, Slower, Equal, Faster]
        );
        let told: Vec<String> = judged.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["faster", "undecided: could show 6.1 %", "slower", "equal within 1 %", "faster"]);
    }

    #[test]
    fn the_interval_of_a_mean_is_students_and_two_values_say_little() {
        // R: t.test(c(1.1, 1.3, 0.9, 1.2))$conf.int
        let Interval { low, high } = mean_interval(&[1.1, 1.3, 0.9, 1.2]).unwrap();
        assert!((low - 0.853_247).abs() < 1e-6 && (high - 1.396_753).abs() < 1e-6, "{low} {high}");
        let Interval { low, high } = mean_interval(&[1.0, 1.02]).unwrap();
        assert!((high - low - 2.0 * 12.706_205 * 0.01).abs() < 1e-6, "{low} {high}");
        assert_eq!(mean_interval(&[1.0]), None);
        assert_eq!(mean_interval(&[2.0, 2.0]), Some(Interval { low: 2.0, high: 2.0 }));
    }

    #[test]
    fn a_difference_that_stands_alone_may_not_stand_in_a_family() {
        let weak = vec![0.028, 0.042, 0.035];
        assert_eq!(judge(std::slice::from_ref(&weak), true, 0.01)[0].verdict, Verdict::Faster);
        let noise = || vec![0.01, -0.02, 0.013];
        let family: Vec<Vec<f64>> = std::iter::once(weak).chain(std::iter::repeat_with(noise).take(9)).collect();
        let judged = judge(&family, true, 0.01);
        assert!(judged.iter().all(|one| one.verdict == Verdict::Undecided), "{judged:?}");
    }

    #[test]
    fn values_without_spread_are_equal_or_differ_and_too_few_are_undecided() {
        let verdicts = |family: &[Vec<f64>], of_speed| -> Vec<Verdict> {
            judge(family, of_speed, 0.01).into_iter().map(|one| one.verdict).collect()
        };
        let family = [vec![0.0, 0.0], vec![0.5, 0.5], vec![-0.5, -0.5 + 1e-16], vec![0.5], vec![]];
        use Verdict::{Equal, Higher, Lower, Undecided};
        assert_eq!(verdicts(&family, false), [Equal, Higher, Lower, Undecided, Undecided]);
        let told = judge(&family, false, 0.01);
        assert_eq!(
            (told[3].to_string(), told[4].to_string()),
            ("undecided: one pair".into(), "undecided: no pairs".into())
        );
        assert!(judge(&[], true, 0.01).is_empty());
    }

    #[test]
    fn as_many_repeats_as_are_said_reach_the_precision() {
        assert_eq!(repeats_for(0.0, 0.01), Some(6));
        assert_eq!(repeats_for(1.0, 0.0001), None);
        assert_eq!((repeats_for(f64::NAN, 0.01), repeats_for(0.1, 0.0)), (None, None));
        let needed = repeats_for(0.02, 0.01).unwrap();
        assert!((24..30).contains(&needed), "{needed}");
        // The half width of intervals over made-up repeats with that spread.
        let mut noise = crate::analysis::fixture::Noise::new(5);
        let half_widths = (0..400).map(|_| {
            let repeats: Vec<f64> = (0..needed).map(|_| (0.02 * noise.normal()).exp()).collect();
            let ends = crate::analysis::summarise(&repeats).unwrap().interval.unwrap();
            (ends.high - ends.low) / 2.0
        });
        let mean = half_widths.sum::<f64>() / 400.0;
        assert!((0.0085..0.0115).contains(&mean), "{mean}");
    }
}
