//! Whether two cells learned the same: the check that stands beside each comparison of their speeds.
//!
//! A fast program may compute something else. Accuracy and losses say so, as far as repeats can tell: each is held against a margin,
//! above which a difference bars a cell from being called faster. The two one-sided tests of equivalence are those of verdicts
//! ([`super::contrast`]).

use std::fmt;

use super::contrast::{Contrast, ERROR, holm};
use super::value::complete_blocks;
use super::{Cell, RunSummary};
use crate::statistics::{median, student_t_quantile};

/// A measure by which work is checked.
struct CheckMeasure {
    key: &'static str,
    name: &'static str,
    /// Differences up to this one do not matter.
    margin: Margin,
}

/// How far check values may differ.
#[derive(Clone, Copy)]
enum Margin {
    /// By this much.
    Absolute(f64),
    /// By this share.
    Relative(f64),
}

/// The last losses of a run, where it tells no loss of an epoch.
const LAST_LOSS: &str = "last_loss";

/// What work is checked by, the first one that both cells tell first.
const CHECKS: [CheckMeasure; 4] = [
    CheckMeasure { key: "accuracy", name: "accuracy", margin: Margin::Absolute(0.01) },
    CheckMeasure { key: "test_loss", name: "test loss", margin: Margin::Relative(0.05) },
    CheckMeasure { key: "train_loss", name: "training loss", margin: Margin::Relative(0.05) },
    CheckMeasure { key: LAST_LOSS, name: "last losses", margin: Margin::Relative(0.05) },
];

impl CheckMeasure {
    fn value(&self, run: &RunSummary) -> Option<f64> {
        if self.key != LAST_LOSS {
            return run.value(self.key);
        }
        let tail = run.losses.len().div_ceil(10);
        let last = &run.losses[run.losses.len() - tail..];
        (!last.is_empty()).then(|| last.iter().map(|point| point.loss).sum::<f64>() / last.len() as f64)
    }

    /// The difference on the scale on which the margin is symmetric.
    fn difference(&self, over: f64, base: f64) -> f64 {
        match self.margin {
            Margin::Absolute(_) => over - base,
            Margin::Relative(_) if over == base => 0.0,
            Margin::Relative(_) => (over / base).ln(),
        }
    }

    fn margin(&self) -> f64 {
        match self.margin {
            Margin::Absolute(margin) => margin,
            Margin::Relative(share) => share.ln_1p(),
        }
    }

    fn shown(&self, value: f64) -> String {
        match self.margin {
            Margin::Absolute(_) => format!("{:.1}", 100.0 * value).replace(".0", ""),
            Margin::Relative(_) => format!("{value:.3}"),
        }
    }
}

/// One check value of two cells, repeat by repeat.
#[derive(Clone)]
pub(super) struct CheckPairs {
    of: &'static CheckMeasure,
    over: f64,
    base: f64,
    /// Each with its repeat.
    differences: Vec<(u32, f64)>,
}

impl CheckPairs {
    fn contrast(&self) -> Option<Contrast> {
        Contrast::of(&self.differences.iter().map(|(_, difference)| *difference).collect::<Vec<_>>())
    }
}

/// The check values that the runs of both cells tell, over pairs of their repeats.
pub(super) fn check_pairs(pairs: &[(&RunSummary, &RunSummary)]) -> Vec<CheckPairs> {
    let pairs_of = |of: &'static CheckMeasure| {
        let values: Vec<(u32, f64, f64)> =
            pairs.iter().filter_map(|(over, base)| Some((over.repeat, of.value(over)?, of.value(base)?))).collect();
        let middle = |side: fn(&(u32, f64, f64)) -> f64| median(&values.iter().map(side).collect::<Vec<_>>());
        let differences = values.iter().map(|(repeat, over, base)| (*repeat, of.difference(*over, *base))).collect();
        (!values.is_empty()).then(|| CheckPairs {
            of,
            over: middle(|value| value.1),
            base: middle(|value| value.2),
            differences,
        })
    };
    let mut all: Vec<CheckPairs> = CHECKS.iter().filter_map(pairs_of).collect();
    // Last losses stand in where nothing else is told.
    if all.len() > 1 {
        all.retain(|one| one.of.key != LAST_LOSS);
    }
    all
}

/// The check values of several pairs of cells together: the means of their differences in the repeats that all pairs have.
pub(super) fn merged(pairs: &[Vec<CheckPairs>]) -> Vec<CheckPairs> {
    let merge = |of: &'static CheckMeasure| {
        let same: Vec<&CheckPairs> = pairs.iter().flatten().filter(|one| one.of.key == of.key).collect();
        let differences: Vec<&Vec<(u32, f64)>> = same.iter().map(|one| &one.differences).collect();
        let mean = |side: fn(&CheckPairs) -> f64| same.iter().map(|one| side(one)).sum::<f64>() / same.len() as f64;
        (!same.is_empty() && same.len() == pairs.len()).then(|| CheckPairs {
            of,
            over: mean(|one| one.over),
            base: mean(|one| one.base),
            differences: complete_blocks(&differences),
        })
    };
    CHECKS.iter().filter_map(merge).collect()
}

/// What repeats say of a comparison's check values.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Check {
    /// The runs tell no accuracy and no loss.
    #[default]
    None,
    /// They are shown to be equal within their margins.
    Same,
    /// One is shown to differ by more than its margin.
    Differs {
        /// What differs: `accuracy`.
        measure: &'static str,
        /// Its median in the cell, as shown: `10`.
        over: String,
        /// Its median in the cell that it is held against, with its unit: `98 %`.
        base: String,
    },
    /// These repeats cannot tell.
    Unknown {
        /// What cannot be told: `accuracy`.
        measure: &'static str,
        /// Repeats that would tell, if check values go on to spread as they do; none of fewer than two.
        needed: Option<u32>,
    },
}

impl Check {
    /// The name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Same => "same",
            Self::Differs { .. } => "differs",
            Self::Unknown { .. } => "unknown",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no check value: the runs tell neither accuracy nor loss"),
            Self::Same => f.write_str("check values are equal within their margins"),
            Self::Differs { measure, over, base } => write!(f, "{measure} differs: {over} against {base}"),
            Self::Unknown { measure, needed: Some(needed) } => {
                write!(f, "these repeats cannot tell whether {measure} is the same: it takes about {needed}")
            }
            Self::Unknown { measure, needed: None } => {
                write!(f, "one repeat cannot tell whether {measure} is the same")
            }
        }
    }
}

/// Judges the check values of a family of comparisons.
pub(super) fn judge_checks(family: &[&[CheckPairs]]) -> Vec<Check> {
    let contrasts: Vec<Vec<Option<Contrast>>> =
        family.iter().map(|checks| checks.iter().map(CheckPairs::contrast).collect()).collect();
    // Differences beyond margins are corrected over all check values of the family: chance alone must not bar a cell.
    let beyond = |contrast: &Option<Contrast>, one: &CheckPairs| {
        contrast.as_ref().map_or(1.0, |contrast| contrast.beyond(one.of.margin()))
    };
    let all: Vec<f64> = family
        .iter()
        .zip(&contrasts)
        .flat_map(|(checks, contrasts)| checks.iter().zip(contrasts).map(|(one, contrast)| beyond(contrast, one)))
        .collect();
    let mut adjusted = holm(&all).into_iter();
    let check = |(checks, contrasts): (&&[CheckPairs], &Vec<Option<Contrast>>)| {
        let differ: Vec<f64> = adjusted.by_ref().take(checks.len()).collect();
        if let Some((one, _)) = checks.iter().zip(&differ).find(|(_, p)| **p < ERROR) {
            let unit = if matches!(one.of.margin, Margin::Absolute(_)) { " %" } else { "" };
            let (over, base) = (one.of.shown(one.over), one.of.shown(one.base) + unit);
            return Check::Differs { measure: one.of.name, over, base };
        }
        let open = checks.iter().zip(contrasts).find(|(one, contrast)| {
            contrast.as_ref().is_none_or(|contrast| contrast.equality(one.of.margin(), 0.0) >= ERROR)
        });
        match open {
            None if checks.is_empty() => Check::None,
            None => Check::Same,
            Some((one, contrast)) => {
                let needed = contrast.as_ref().map(|contrast| needed(contrast, one.of.margin()));
                Check::Unknown { measure: one.of.name, needed }
            }
        }
    };
    family.iter().zip(&contrasts).map(check).collect()
}

/// Repeats after which values that spread as these do could be shown to be equal within a margin.
fn needed(contrast: &Contrast, margin: f64) -> u32 {
    let deviation = contrast.error * (contrast.freedom + 1.0).sqrt();
    let suffices =
        |n: &u32| student_t_quantile(ERROR, f64::from(*n) - 1.0) * deviation / f64::from(*n).sqrt() <= margin / 2.0;
    (2..1_000).find(suffices).unwrap_or(1_000).max(contrast.freedom as u32 + 2)
}

/// The finished runs of two cells that form pairs, by the number of their repeat; each run is used once.
pub(super) fn paired<'a>(over: &Cell<'a>, base: &Cell<'a>) -> Vec<(&'a RunSummary, &'a RunSummary)> {
    let mut rest: Vec<&RunSummary> = super::finished(base).collect();
    let partner = |run: &'a RunSummary| {
        let place = rest.iter().position(|other| other.repeat == run.repeat)?;
        Some((run, rest.swap_remove(place)))
    };
    super::finished(over).filter_map(partner).collect()
}
