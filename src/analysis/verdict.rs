//! Verdicts on a family of comparisons: which differences are real, which are shown to be small, and which cannot be decided with so few
//! repeats.
//!
//! Verdicts are made only here, from comparisons that know the design of the experiment ([`Comparison`]), with the tests of
//! [`super::contrast`] on logarithms of ratios of paired repeats.

use std::fmt;

use strum::IntoStaticStr;

use super::check::{Check, CheckPairs, judge_checks};
use super::contrast::{Contrast, ERROR, Sample, holm_among, spent_at, standard_deviation};
use super::texts::percent;
use super::value::{Intervals, pairs};
use super::{Comparison, Incomparable, capitalised};
use crate::statistics::{Interval, median};

/// The word for the observations of most verdicts.
const PAIR: &str = "pair";
/// The word for the observations of verdicts without pairs.
pub const REPEAT: &str = "repeat";
/// The default bound: ratios that differ by less than this are equal.
pub const EQUAL_WITHIN: f64 = 0.01;

/// The verdict on a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// Above 1, for a ratio of speeds.
    Faster,
    /// Below 1, for a ratio of speeds.
    Slower,
    /// Above 1, for any other measure.
    Higher,
    /// Below 1, for any other measure.
    Lower,
    /// The ratio is equal to 1 within the bound.
    Equal,
    /// These repeats cannot decide it.
    Undecided,
    /// No number of such repeats could decide it: see [`Judgement::reason`].
    #[strum(serialize = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// The name in files.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it says that the ratio is above or below 1.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Faster | Self::Slower | Self::Higher | Self::Lower)
    }

    fn of_difference(is_above: bool, of_speed: bool) -> Self {
        match (of_speed, is_above) {
            (true, true) => Self::Faster,
            (true, false) => Self::Slower,
            (false, true) => Self::Higher,
            (false, false) => Self::Lower,
        }
    }
}

/// A verdict and its grounds. It is made only by [`judge_comparisons`] and, for sessions, by [`super::judge_sessions`]; everything that
/// shows a verdict shows this value.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why the cells cannot be compared, if that is the verdict.
    pub reason: Option<Incomparable>,
    /// The probability of ratios at least this far from 1 if nothing differs; `None` for fewer than two pairs.
    pub p: Option<f64>,
    /// The probability after the corrections for looks and, by Holm, for the family.
    pub p_holm: Option<f64>,
    /// The smallest difference, as a share, that an equal number of new repeats would show in 80 % of cases in this family; `None` for
    /// fewer than two pairs.
    pub detectable: Option<f64>,
    /// The bound within which ratios count as equal, as a share.
    pub equal_within: f64,
    /// The number of pairs of repeats, or of sessions; where repeats form no pairs, the number of repeats of the cell that has fewer.
    pub n: usize,
    /// The word for an observation: `pair`, `session` or [`REPEAT`].
    pub counts: &'static str,
    /// The number of finished repeats of the cell that has fewer.
    pub least: usize,
    /// The number of repeats that are still queued or active; nothing is decided before they end.
    pub to_come: usize,
    /// The number of comparisons in the family, including those that a filter hides.
    pub family: usize,
    /// How often somebody could have looked at the cells before adding repeats, including the last look.
    pub looks: u32,
    /// The longest time between the starts of paired runs, in seconds, if starts are known.
    pub gap_s: Option<f64>,
    /// Whether accuracy and losses agree.
    pub check: Check,
    /// The mean of the logarithms and its standard error; `None` for fewer than two pairs.
    pub seen: Option<(f64, f64)>,
    /// The condition that an undecided comparison does not fulfil although it looks like a difference.
    pub lack: Option<Lack>,
}

/// A condition for a verdict of difference that a comparison does not fulfil. The verdict needs a low probability and an interval without
/// 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The interval lies on one side of 1, but the corrected probability is not below 5 %.
    LowProbability,
    /// The corrected probability is below 5 %, but the interval contains 1.
    IntervalWithout1,
}

impl Lack {
    fn between(interval_excludes_1: bool, p_corrected: Option<f64>) -> Option<Self> {
        match (interval_excludes_1, p_corrected?) {
            (true, p) if p >= ERROR => Some(Self::LowProbability),
            (false, p) if p < ERROR => Some(Self::IntervalWithout1),
            _ => None,
        }
    }

    /// The missing condition in words, to follow the word "undecided".
    fn text(self, judged: &Judgement) -> String {
        let [alone, corrected] = [judged.p, judged.p_holm].map(|p| p.unwrap_or(1.0));
        match self {
            // The interval is that of this comparison alone, too.
            Self::LowProbability if alone < ERROR => format!(
                "p {} for this comparison alone, but p {} corrected for {}, not below {ERROR:.2}",
                p_text(alone),
                p_text(corrected),
                judged.corrected_for()
            ),
            Self::LowProbability => {
                format!("the interval excludes 1, but p {} is not below {ERROR:.2}", p_text(alone))
            }
            Self::IntervalWithout1 => format!("the corrected p is below {ERROR:.2}, but the interval contains 1"),
        }
    }
}

/// A probability after the letter p: `= 0.013`, `= 0.92`. No correction makes chance certain, so it is at most `> 0.99`.
fn p_text(p: f64) -> String {
    match p {
        p if p < 0.001 => "< 0.001".to_owned(),
        p if p < 0.1 => format!("= {p:.3}"),
        p if p < 0.995 => format!("= {p:.2}"),
        _ => "> 0.99".to_owned(),
    }
}

/// The largest detectable difference, as a share, that is worth mentioning. If even a doubling could not be detected, the text says that
/// the repeats are too few.
const TELLING: f64 = 1.0;

/// The verdict in a few words: `faster`, `equal within 1 %`, `undecided: with the spread of 3 pairs only differences above 12 % would
/// show`, `undecided: 2 pairs are too few, about 74 more would decide`, `undecided: p = 0.013 for this comparison alone, but p = 0.16
/// corrected for all 10 comparisons, not below 0.05`.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.verdict.name();
        let count = super::counted(self.n, self.counts);
        match (self.verdict, &self.reason, self.detectable) {
            (Verdict::NotComparable, Some(reason), _) => write!(f, "{name}: {reason}")?,
            (Verdict::Equal, ..) => write!(f, "equal within {}", percent(self.equal_within))?,
            (Verdict::Undecided, ..) if self.to_come > 0 => {
                write!(f, "undecided: {} to come", super::counted(self.to_come, "repeat"))?;
            }
            (Verdict::Undecided, _, Some(detectable)) if detectable <= TELLING => match self.lack {
                Some(lack) => write!(f, "undecided: {}", lack.text(self))?,
                None => write!(
                    f,
                    "undecided: with the spread of {count} only differences above {} would show",
                    percent(detectable)
                )?,
            },
            (Verdict::Undecided, _, Some(_)) => {
                write!(f, "undecided: {count} are too few")?;
                if let Some(more) = self.repeats_needed() {
                    write!(f, ", about {more} more would decide")?;
                }
            }
            (Verdict::Undecided, _, None) if self.counts == REPEAT => write!(f, "undecided: one repeat is too few")?,
            (Verdict::Undecided, _, None) => {
                write!(f, "undecided: {}", if self.n == 1 { "one pair" } else { "no pairs" })?;
            }
            _ => f.write_str(name)?,
        }
        match &self.check {
            differs @ Check::Differs { .. } if self.verdict == Verdict::Faster => write!(f, ", but {differs}"),
            differs @ Check::Differs { .. } if self.verdict != Verdict::NotComparable => write!(f, "; {differs}"),
            _ => Ok(()),
        }
    }
}

/// The logarithms of `over / base`, pair by pair of repeats.
pub fn log_ratios(over: &[(u32, f64)], base: &[(u32, f64)]) -> Vec<f64> {
    let logs = pairs(over, base).into_iter().map(|(over, base)| (over / base).ln());
    logs.filter(|log| log.is_finite()).collect()
}

impl Judgement {
    /// The comparisons and looks for which the probability is corrected: `all 10 comparisons and 2 looks`.
    fn corrected_for(&self) -> String {
        let looks = super::counted(self.looks, "look");
        match (self.family, self.looks) {
            (0..=1, 0..=1) => "later looks".to_owned(),
            (0..=1, _) => looks,
            (family, 0..=1) => format!("all {family} comparisons"),
            (family, _) => format!("all {family} comparisons and {looks}"),
        }
    }

    /// About how many more repeats would decide an undecided comparison in four of five cases, judged by the observed difference and
    /// spread; `None` if that cannot be estimated.
    pub fn repeats_needed(&self) -> Option<u32> {
        let is_open = self.verdict == Verdict::Undecided && self.to_come == 0 && self.counts == PAIR;
        let (mean, error) = self.seen.filter(|_| is_open)?;
        let contrast = Contrast { mean, error, freedom: self.n as f64 - 1.0, ..Contrast::default() };
        contrast.repeats_needed(self.family, self.looks + 1, self.equal_within.ln_1p())
    }

    /// The grounds of the verdict in sentences; the verdict itself comes first.
    pub fn grounds(&self) -> Vec<String> {
        let number = |p: Option<f64>| p.map_or("none".to_owned(), |p| format!("{p:.2e}"));
        let mut lines = vec![capitalised(&self.to_string())];
        lines.extend(self.reason.as_ref().map(|reason| capitalised(reason.advice())));
        let looks = if self.looks > 1 { format!(" and {} looks", self.looks) } else { String::new() };
        let count = super::counted(self.n, self.counts);
        lines.push(format!(
            "p = {} by {count}; {} after the corrections for {}{looks}",
            number(self.p),
            number(self.p_holm),
            super::counted(self.family, "comparison"),
        ));
        let left_out = self.least.saturating_sub(self.n);
        if left_out > 0 && self.counts == PAIR && self.to_come == 0 && self.reason.is_none() {
            let repeats = super::counted(left_out, "repeat");
            lines.push(format!(
                "Left out: {repeats} without a partner near in time, or of launches in which one cell ran after the other"
            ));
        }
        if let Some(detectable) = self.detectable.filter(|least| *least <= TELLING && self.reason.is_none()) {
            lines.push(format!("{count} would show a difference of {} in 80 % of cases", percent(detectable)));
        }
        lines.extend(
            self.repeats_needed()
                .map(|more| format!("About {} more would decide it", super::counted(more as usize, "repeat"))),
        );
        lines.push(capitalised(&self.check.to_string()));
        lines
    }
}

/// Judges comparisons by only the logarithms of their paired ratios, without their runs. See [`judge_comparisons`].
pub fn judge(family: &[Vec<f64>], of_speed: bool, equal_within: f64) -> Vec<Judgement> {
    let family: Vec<Comparison> = family.iter().cloned().map(Comparison::of_logs).collect();
    judge_comparisons(&family, 0, of_speed, equal_within)
}

/// Judges a family of comparisons. `others` further comparisons belong to the family but are not in the list. `of_speed` means that above 1
/// is faster. `equal_within` is the bound for equality as a share: 0.01 for 1 %.
pub fn judge_comparisons(family: &[Comparison], others: usize, of_speed: bool, equal_within: f64) -> Vec<Judgement> {
    let margin = equal_within.max(0.0).ln_1p();
    let samples: Vec<&Sample> = family.iter().map(|comparison| &comparison.sample).collect();
    let contrasts = contrasts_of(family, &samples, |comparison| comparison.rounding.step);
    let tested = contrasts.iter().flatten().count() + others;
    let decisions = decide(family, &samples, &contrasts, others, margin);
    // What the values give without their rounding, and what the arrival of lines gives.
    let unrounded = contrasts_of(family, &samples, |_| 0.0);
    let unrounded = decide(family, &samples, &unrounded, others, margin);
    let lines: Vec<&Sample> =
        family.iter().map(|comparison| comparison.by_arrival.as_ref().unwrap_or(&comparison.sample)).collect();
    let arrived = contrasts_of(family, &lines, |comparison| comparison.rounding.step);
    let by_arrival = decide(family, &lines, &arrived, others, margin);
    let checks: Vec<&[CheckPairs]> = family.iter().map(|comparison| comparison.checks.as_slice()).collect();
    let mut checks = judge_checks(&checks).into_iter();
    let judgement = |(place, comparison): (usize, &Comparison)| {
        let contrast = contrasts[place].as_ref();
        let decided = &decisions[place];
        let reason = comparison.reason.clone().or_else(|| {
            if comparison.rounding.step > 0.0 && decided.decision != unrounded[place].decision {
                return Some(Incomparable::of_rounding(comparison.rounding));
            }
            let ratio = |contrast: &Option<Contrast>| contrast.as_ref().map_or(1.0, |contrast| contrast.mean.exp());
            let (own_ratio, arrived) = (ratio(&contrasts[place]), ratio(&arrived[place]));
            let by_arrival = by_arrival[place].decision;
            (decided.decision != by_arrival && decided.decision != Decision::Open)
                .then(|| Incomparable::of_clocks(by_arrival == Decision::Open, own_ratio, arrived))
        });
        let plain = judgement_of(contrast, (decided.p_adjusted, None), of_speed, equal_within);
        let cannot = reason.is_some() && (comparison.reason.is_some() || decided.decision != Decision::Open);
        let verdict = match decided.decision {
            _ if cannot || reason.is_some() && unrounded[place].decision != Decision::Open => Verdict::NotComparable,
            _ if comparison.to_come > 0 => Verdict::Undecided,
            Decision::Open => Verdict::Undecided,
            Decision::Equal => Verdict::Equal,
            Decision::Above | Decision::Below => Verdict::of_difference(decided.decision == Decision::Above, of_speed),
        };
        let is_open = verdict == Verdict::Undecided && comparison.to_come == 0;
        Judgement {
            verdict,
            reason: reason.filter(|_| verdict == Verdict::NotComparable),
            detectable: contrast.map(|contrast| contrast.detectable(tested, comparison.looks)),
            n: comparison.sample.count(),
            counts: if matches!(comparison.sample, Sample::Groups(_)) { REPEAT } else { PAIR },
            least: comparison.least,
            to_come: comparison.to_come,
            family: tested,
            looks: comparison.looks,
            gap_s: comparison.gap_s,
            check: checks.next().unwrap_or_default(),
            lack: if is_open { Lack::between(excludes_1(&comparison.sample, 0.0), decided.p_adjusted) } else { None },
            ..plain
        }
    };
    family.iter().enumerate().map(judgement).collect()
}

/// The judgement of one contrast from the adjusted probabilities of difference and of equality.
pub(super) fn judgement_of(
    contrast: Option<&Contrast>,
    (difference, equality): (Option<f64>, Option<f64>),
    of_speed: bool,
    equal_within: f64,
) -> Judgement {
    let decision = Decision::of(contrast, difference, equality);
    let verdict = match decision {
        Decision::Above | Decision::Below => Verdict::of_difference(decision == Decision::Above, of_speed),
        Decision::Equal => Verdict::Equal,
        Decision::Open => Verdict::Undecided,
    };
    Judgement {
        verdict,
        reason: None,
        p: contrast.map(Contrast::difference),
        p_holm: difference,
        detectable: contrast.map(|contrast| contrast.detectable(1, 1)),
        equal_within,
        n: contrast.map_or(0, |contrast| contrast.freedom as usize + 1),
        counts: PAIR,
        least: 0,
        to_come: 0,
        family: 1,
        looks: 1,
        gap_s: None,
        check: Check::None,
        seen: contrast.map(|contrast| (contrast.mean, contrast.error)),
        // Student's interval, which is shown beside means, excludes 1 if the uncorrected p is below 5 %.
        lack: contrast
            .filter(|_| verdict == Verdict::Undecided)
            .and_then(|contrast| Lack::between(contrast.difference() < ERROR, difference)),
    }
}

/// The decision of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Above,
    Below,
    Equal,
    Open,
}

impl Decision {
    /// The verdict from the adjusted probabilities. If both tests succeed, the difference is real but too small to matter.
    fn of(contrast: Option<&Contrast>, difference: Option<f64>, equality: Option<f64>) -> Self {
        let holds = |p: Option<f64>| p.is_some_and(|p| p < ERROR);
        match contrast {
            Some(_) if holds(equality) => Self::Equal,
            Some(contrast) if holds(difference) => {
                if contrast.mean > 0.0 {
                    Self::Above
                } else {
                    Self::Below
                }
            }
            _ => Self::Open,
        }
    }
}

struct Decided {
    decision: Decision,
    p_adjusted: Option<f64>,
}

/// Whether the interval that is shown of a ratio, given by logarithms, lies on one side of 1 even after a shift by rounding.
fn excludes_1(sample: &Sample, rounding: f64) -> bool {
    let interval = Intervals::ByCount.of_sample(sample).and_then(|value| value.interval);
    interval.is_some_and(|ends| ends.low > rounding.exp() || ends.high < (-rounding).exp())
}

/// The contrast of each comparison of a family from its logarithms, which rounding can change by as much as `rounding` says.
fn contrasts_of(
    family: &[Comparison],
    samples: &[&Sample],
    rounding: impl Fn(&Comparison) -> f64,
) -> Vec<Option<Contrast>> {
    let contrast = |(comparison, sample): (&Comparison, &&Sample)| {
        Some(Contrast::of_sample(sample)?.rounded(rounding(comparison)))
    };
    family.iter().zip(samples).map(contrast).collect()
}

/// Decides a family from the logarithms of each comparison and their contrasts.
fn decide(
    family: &[Comparison],
    samples: &[&Sample],
    contrasts: &[Option<Contrast>],
    others: usize,
    margin: f64,
) -> Vec<Decided> {
    let adjusted = |p: &dyn Fn(&Contrast) -> f64| {
        let of_one =
            |(contrast, comparison): (&Contrast, &Comparison)| (p(contrast) / spent_at(comparison.looks)).min(1.0);
        let all: Vec<f64> = contrasts
            .iter()
            .zip(family)
            .filter_map(|(contrast, comparison)| Some(of_one((contrast.as_ref()?, comparison))))
            .collect();
        let mut adjusted = holm_among(&all, others).into_iter();
        contrasts.iter().map(|contrast| contrast.as_ref().and_then(|_| adjusted.next())).collect::<Vec<Option<f64>>>()
    };
    let differences = adjusted(&Contrast::difference);
    let equalities = adjusted(&|contrast| contrast.equality(margin));
    let decided = |(place, (difference, equality)): (usize, (Option<f64>, Option<f64>))| {
        // The interval that is shown with the verdict must agree with it.
        let contrast = contrasts[place].as_ref();
        let rounding = contrast.map_or(0.0, |contrast| contrast.rounding);
        let decision = match Decision::of(contrast, difference, equality) {
            Decision::Above | Decision::Below if !excludes_1(samples[place], rounding) => Decision::Open,
            decision => decision,
        };
        Decided { decision, p_adjusted: difference }
    };
    differences.into_iter().zip(equalities).enumerate().map(decided).collect()
}

/// The 95 % interval of the mean of values by Student's t, which assumes normal values; `None` for fewer than two.
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    Contrast::of(values).map(|contrast| contrast.interval())
}

/// The spread of repeats, as a share: the standard deviation of their logarithms. `None` for fewer than two values, or if one is not above
/// 0.
pub fn spread(repeats: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = repeats.iter().map(|value| value.ln()).collect();
    standard_deviation(&logs).filter(|spread| spread.is_finite())
}

/// The usual spread of cells: the median of the known ones.
pub fn usual_spread(spreads: &[f64]) -> Option<f64> {
    (!spreads.is_empty()).then(|| median(spreads))
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
