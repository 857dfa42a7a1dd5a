//! Checks whether two cells did the same work. The check is shown with each comparison of their speeds.
//!
//! A faster program may have computed something else. Accuracy and losses show such a difference, as far as the repeats allow. The
//! difference of each is compared with a margin; a difference beyond the margin prevents a cell from being called faster. The two one-sided
//! tests of equivalence are the same as for verdicts ([`super::contrast`]).

mod check_measure;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::contrast::{Contrast, ERROR, Sample, holm};
use super::value::complete_blocks;
use super::{Cell, Key, RunSummary};
use crate::plan::{Checked, Margin};
use crate::statistics::{least_that_suffices, median, student_t_quantile};

use check_measure::{CheckMeasure, LAST_LOSS, STEP_COUNT, STEPS, USUAL, margin_text};

/// The keys of measures that cover all steps of a run.
const OF_ALL_STEPS: [&str; 2] = ["training_time_s", "total_time_s"];

/// The check measures of cells with their margins: `val_loss (within 2 %)`. Cells of several sessions or workloads may have different ones.
pub fn checked_by(cells: &[Cell]) -> String {
    let mut named: Vec<(&Checked, Vec<String>)> = Vec::new();
    for run in cells.iter().flat_map(|cell| &cell.runs) {
        for checked in run.checked.iter() {
            let is_named = |(known, _): &&mut (&Checked, Vec<String>)| {
                known.measure == checked.measure && known.margin.is_like(&checked.margin)
            };
            let text = margin_text(checked, run);
            match named.iter_mut().find(is_named) {
                Some((_, texts)) if texts.contains(&text) => {}
                Some((_, texts)) => texts.push(text),
                None => named.push((checked, vec![text])),
            }
        }
    }
    let text = |(Checked { measure, .. }, texts): &(&Checked, Vec<String>)| match texts.as_slice() {
        [one] => format!("{measure} (within {one})"),
        several => format!(
            "{measure} (within {}: each comparison uses the tightest margin of its sessions and workloads)",
            several.join(" or ")
        ),
    };
    match named.as_slice() {
        [] => "accuracy (within 1 point) and losses (within 5 %)".to_owned(),
        named => named.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

/// The keys of the measures by which the work of runs is checked: the default ones, and those that plans name.
pub fn check_keys<'a>(runs: impl IntoIterator<Item = &'a RunSummary>) -> Vec<Key> {
    let mut keys: Vec<Key> = USUAL.iter().map(|usual| usual.key.clone()).collect();
    for checked in runs.into_iter().flat_map(|run| run.checked.iter()) {
        if !keys.contains(&checked.measure) {
            keys.push(checked.measure.clone());
        }
    }
    keys
}

/// The check measures of runs: those that the plans of their sessions name, with the tightest margins, or the default ones.
fn measures<'r>(runs: impl Iterator<Item = &'r RunSummary>) -> Vec<Arc<CheckMeasure>> {
    let mut named: Vec<CheckMeasure> = Vec::new();
    for run in runs {
        for checked in run.checked.iter() {
            match named.iter_mut().find(|known| known.is_named(&checked.measure, checked.margin)) {
                Some(known) => known.tighten(checked.margin, known.factor_from(run)),
                None => named.push(CheckMeasure::of(checked, run)),
            }
        }
    }
    if named.is_empty() { USUAL.to_vec() } else { named.into_iter().map(Arc::new).collect() }
}

/// How the values of a check measure differ between two cells.
#[derive(Clone)]
enum Differences {
    /// The difference in each repeat, with the repeat's number.
    Paired(Vec<(u32, f64)>),
    /// The difference of all repeats together, if repeats form no pairs: the contrast, and the smaller number of repeats of the two cells.
    Whole(Option<Contrast>, usize),
}

impl Differences {
    /// The mean over pairs of cells: of the repeats that all pairs have, or on the whole. Pairs of cells that share a cell are not independent,
    /// so errors of whole cells are averaged as if they always went the same way.
    fn mean(of_cells: &[CheckPairs]) -> Self {
        let paired: Option<Vec<&Vec<(u32, f64)>>> = of_cells.iter().map(|pairs| pairs.differences.paired()).collect();
        if let Some(paired) = paired {
            return Self::Paired(complete_blocks(&paired));
        }
        let contrasts: Option<Vec<Contrast>> = of_cells.iter().map(|pairs| pairs.contrast()).collect();
        let mean = |contrasts: &[Contrast], part: fn(&Contrast) -> f64| {
            contrasts.iter().map(part).sum::<f64>() / contrasts.len() as f64
        };
        let contrast = contrasts.map(|all| Contrast {
            mean: mean(&all, |contrast| contrast.mean),
            error: mean(&all, |contrast| contrast.error),
            freedom: all.iter().map(|contrast| contrast.freedom).fold(f64::INFINITY, f64::min),
            ..Contrast::default()
        });
        Self::Whole(contrast, of_cells.iter().map(|pairs| pairs.count()).min().unwrap_or(0))
    }

    /// The differences on a scale that is stretched by a factor.
    fn times(&self, factor: f64) -> Self {
        let stretched = |own: &Contrast| Contrast {
            mean: own.mean * factor,
            error: own.error * factor,
            rounding: own.rounding * factor,
            ..*own
        };
        match self {
            Self::Paired(all) => Self::Paired(all.iter().map(|(repeat, one)| (*repeat, one * factor)).collect()),
            Self::Whole(contrast, count) => Self::Whole(contrast.as_ref().map(stretched), *count),
        }
    }

    fn paired(&self) -> Option<&Vec<(u32, f64)>> {
        if let Self::Paired(differences) = self { Some(differences) } else { None }
    }
}

/// The values of one check measure in two cells.
#[derive(Clone)]
pub(super) struct CheckPairs {
    measure: Arc<CheckMeasure>,
    over: f64,
    base: f64,
    differences: Differences,
    /// The number of pairs in which only the cell's value is not finite or impossible, and the number in which only the baseline's is. Where
    /// repeats form no pairs, the number of such repeats of the only cell that has some.
    not_valid: (usize, usize),
}

impl CheckPairs {
    /// The check values of paired repeats; a value that is not finite or impossible is NaN. A pair of two such values is left out.
    fn of(measure: Arc<CheckMeasure>, values: Vec<(u32, f64, f64)>) -> Option<Self> {
        let (finite, others): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|(_, over, base)| over.is_finite() && base.is_finite());
        let lone = |is: fn(&(u32, f64, f64)) -> bool| others.iter().filter(|pair| is(pair)).count();
        let not_valid = (lone(|pair| pair.2.is_finite()), lone(|pair| pair.1.is_finite()));
        let valid = |side: fn(&(u32, f64, f64)) -> f64| {
            finite.iter().chain(&others).map(side).filter(|value| value.is_finite()).collect::<Vec<f64>>()
        };
        let (over, base): (Vec<f64>, Vec<f64>) = finite.iter().map(|(_, over, base)| (*over, *base)).unzip();
        let [over, base] = measure.scaled(&over, &base);
        let scaled = over.iter().zip(&base).map(|(over, base)| over - base);
        let differences = Differences::Paired(finite.iter().map(|(repeat, ..)| *repeat).zip(scaled).collect());
        let (over, base) = (middle(&valid(|pair| pair.1)), middle(&valid(|pair| pair.2)));
        (!finite.is_empty() || not_valid != (0, 0)).then_some(Self { measure, over, base, differences, not_valid })
    }

    /// The check values of repeats that form no pairs; a value that is not finite or impossible is NaN. `None` if a side has no value, or
    /// if both sides have NaN and one side has only NaN.
    fn of_groups(measure: Arc<CheckMeasure>, over: &[f64], base: &[f64]) -> Option<Self> {
        if over.is_empty() || base.is_empty() {
            return None;
        }
        let valid = |side: &[f64]| side.iter().copied().filter(|value| value.is_finite()).collect::<Vec<f64>>();
        let sides = [over, base].map(valid);
        let not_valid = match (over.len() - sides[0].len(), base.len() - sides[1].len()) {
            (over, base) if over == 0 || base == 0 => (over, base),
            _ => (0, 0),
        };
        let is_known = not_valid != (0, 0) || sides.iter().all(|side| !side.is_empty());
        let [over, base] = measure.scaled(&sides[0], &sides[1]);
        let sample = Sample::Groups(vec![(1.0, over), (-1.0, base)]);
        let differences = Differences::Whole(Contrast::of_sample(&sample), sample.count());
        let (over, base) = (middle(&sides[0]), middle(&sides[1]));
        is_known.then_some(Self { measure, over, base, differences, not_valid })
    }

    /// The same values in the unit of a check measure; `None` if that is not of one quantity with their own.
    fn in_unit_of(&self, measure: &Arc<CheckMeasure>) -> Option<Self> {
        let factor = self.measure.factor_to(measure)?;
        // Differences relative to values have no unit.
        let of_differences = if matches!(measure.margin, Margin::Absolute(_)) { factor } else { 1.0 };
        Some(Self {
            measure: Arc::clone(measure),
            over: self.over * factor,
            base: self.base * factor,
            differences: self.differences.times(of_differences),
            not_valid: self.not_valid,
        })
    }

    /// The median of one side in words; or the statement that some repeats have no valid value.
    fn shown(&self, value: f64, not_valid: usize) -> String {
        match not_valid {
            0 => self.measure.shown(value),
            count => format!("no valid value in {}", super::counted(count, "repeat")),
        }
    }

    /// Whether it checks what was learned; equal numbers of steps do not show that.
    fn counts(&self) -> bool {
        *self.measure.key != *STEPS
            || match &self.differences {
                Differences::Paired(differences) => differences.iter().any(|(_, difference)| *difference != 0.0),
                Differences::Whole(..) => true,
            }
    }

    fn contrast(&self) -> Option<Contrast> {
        match &self.differences {
            Differences::Paired(differences) => {
                Contrast::of(&differences.iter().map(|(_, difference)| *difference).collect::<Vec<_>>())
            }
            Differences::Whole(contrast, _) => *contrast,
        }
    }

    /// The number of repeats that are compared.
    fn count(&self) -> usize {
        match &self.differences {
            Differences::Paired(differences) => differences.len(),
            Differences::Whole(_, count) => *count,
        }
    }
}

/// The median; NaN without values.
fn middle(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { median(values) }
}

/// Tells which values of a check measure count: if they recur in a cell of an imported file, the same values count once, since copies show
/// nothing of the spread.
fn once(key: Key) -> impl FnMut(&[&RunSummary], &[f64]) -> bool {
    let mut known: HashSet<Vec<u64>> = HashSet::new();
    move |runs, values| {
        let is_new = known.insert(values.iter().map(|value| value.to_bits()).collect());
        is_new || !runs.iter().any(|run| run.has_recurring_values(&key))
    }
}

/// The check values of paired runs of two cells, for a comparison by `measure`. If the measure covers all steps, programs of the plan's own
/// are also checked by their number of steps, since half the time may mean half the work. The worker's workloads always train the epochs
/// that their factors name.
pub(super) fn check_pairs(pairs: &[(&RunSummary, &RunSummary)], measure: &str) -> Vec<CheckPairs> {
    let pairs_of = |check_measure: Arc<CheckMeasure>| {
        let mut counts = once(check_measure.key.clone());
        let values = pairs.iter().filter_map(|(over, base)| {
            let (own, other) = (check_measure.value(over)?, check_measure.value(base)?);
            counts(&[*over, *base], &[own, other]).then_some((over.repeat, own, other))
        });
        let values: Vec<(u32, f64, f64)> = values.collect();
        CheckPairs::of(check_measure, values)
    };
    let runs = pairs.iter().flat_map(|(over, base)| [*over, *base]);
    let all = without_last_losses(measures(runs).into_iter().filter_map(pairs_of).collect());
    let steps = OF_ALL_STEPS.contains(&measure).then(|| pairs_of(Arc::clone(&STEP_COUNT))).flatten();
    all.into_iter().chain(steps).collect()
}

/// The check values of two cells for a comparison by `measure`: the values of these pairs of runs, or the values of all finished runs if
/// repeats form no pairs.
pub(super) fn check_cells(
    over: &Cell,
    base: &Cell,
    pairs: &[(&RunSummary, &RunSummary)],
    measure: &str,
) -> Vec<CheckPairs> {
    if over.pairs_with(base) {
        return check_pairs(pairs, measure);
    }
    check_groups(&[over], &[base])
}

/// The check values of cells whose repeats form no pairs.
pub(super) fn check_groups(over: &[&Cell], base: &[&Cell]) -> Vec<CheckPairs> {
    let values = |check_measure: &CheckMeasure, cells: &[&Cell]| -> Vec<f64> {
        let of_cell = |cell: &&Cell| -> Vec<f64> {
            let mut counts = once(check_measure.key.clone());
            let value = |run: &RunSummary| check_measure.value(run).filter(|value| counts(&[run], &[*value]));
            super::finished(cell).filter_map(value).collect()
        };
        cells.iter().flat_map(of_cell).collect()
    };
    let of_groups = |check_measure: Arc<CheckMeasure>| {
        let (over, base) = (values(&check_measure, over), values(&check_measure, base));
        CheckPairs::of_groups(check_measure, &over, &base)
    };
    let runs = over.iter().chain(base).flat_map(|cell| super::finished(cell));
    without_last_losses(measures(runs).into_iter().filter_map(of_groups).collect())
}

/// Leaves out the last losses if something else is reported.
fn without_last_losses(mut all: Vec<CheckPairs>) -> Vec<CheckPairs> {
    if all.len() > 1 {
        all.retain(|check_pairs| *check_pairs.measure.key != *LAST_LOSS);
    }
    all
}

/// The check values of several pairs of cells together: the means of their differences over the repeats that all pairs have.
pub(super) fn merged(pairs: &[Vec<CheckPairs>]) -> Vec<CheckPairs> {
    let mut known: Vec<CheckMeasure> = Vec::new();
    for CheckPairs { measure, .. } in pairs.iter().flatten() {
        match known.iter_mut().find(|known| known.is_named(&measure.key, measure.margin)) {
            Some(known) => known.tighten(measure.margin, measure.factor_to(known)),
            None => known.push(CheckMeasure::clone(measure)),
        }
    }
    let merge = |measure: CheckMeasure| {
        let measure = Arc::new(measure);
        let is_same = |check_pairs: &&CheckPairs| check_pairs.measure.is_named(&measure.key, measure.margin);
        let same = pairs.iter().flatten().filter(is_same).filter_map(|check_pairs| check_pairs.in_unit_of(&measure));
        let same: Vec<CheckPairs> = same.collect();
        let mean = |side: fn(&CheckPairs) -> f64| same.iter().map(side).sum::<f64>() / same.len() as f64;
        (!same.is_empty() && same.len() == pairs.len()).then(|| CheckPairs {
            measure: Arc::clone(&measure),
            over: mean(|check_pairs| check_pairs.over),
            base: mean(|check_pairs| check_pairs.base),
            differences: Differences::mean(&same),
            not_valid: same
                .iter()
                .fold((0, 0), |all, check_pairs| (all.0 + check_pairs.not_valid.0, all.1 + check_pairs.not_valid.1)),
        })
    };
    known.into_iter().filter_map(merge).collect()
}

/// The result of checking a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Check {
    /// The runs report neither accuracy nor loss.
    #[default]
    None,
    /// The check values are shown to be equal within their margins.
    Same,
    /// A check value is shown to differ by more than its margin.
    Differs {
        /// The measure: `accuracy`.
        measure: Arc<str>,
        /// Its median in the cell, as shown: `10`.
        over: String,
        /// Its median in the baseline, with its unit: `98 %`.
        base: String,
    },
    /// These repeats cannot decide it.
    Unknown {
        /// The measure: `accuracy`.
        measure: Arc<str>,
        /// The number of repeats that would decide it, if the spread of check values stays the same; `None` for fewer than two repeats.
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
            Self::None => f.write_str("no check value: the runs report neither accuracy nor loss"),
            Self::Same => f.write_str("check values are equal within their margins"),
            Self::Differs { measure, over, base } => write!(f, "{measure} differs: {over} against {base}"),
            Self::Unknown { measure, needed: Some(needed) } => {
                write!(f, "these repeats are too few to tell whether {measure} is the same: about {needed} are needed")
            }
            Self::Unknown { measure, needed: None } => {
                write!(f, "one repeat is too few to tell whether {measure} is the same")
            }
        }
    }
}

/// Checks whether two cells that are compared by a measure did the same work, as a single comparison.
pub fn check_between(over: &Cell, base: &Cell, measure: &str) -> Check {
    judge_checks(&[&check_cells(over, base, &paired(over, base), measure)]).pop().unwrap_or_default()
}

/// Checks a family of comparisons.
pub(super) fn judge_checks(family: &[&[CheckPairs]]) -> Vec<Check> {
    let family: Vec<Vec<&CheckPairs>> =
        family.iter().map(|checks| checks.iter().filter(|check_pairs| check_pairs.counts()).collect()).collect();
    let contrasts: Vec<Vec<Option<Contrast>>> =
        family.iter().map(|checks| checks.iter().map(|check_pairs| check_pairs.contrast()).collect()).collect();
    // Differences beyond margins are corrected over all check values of the family, so that chance alone does not exclude a cell.
    let beyond = |contrast: &Option<Contrast>, check_pairs: &CheckPairs| {
        contrast.as_ref().map_or(1.0, |contrast| contrast.beyond(check_pairs.measure.margin()))
    };
    let all: Vec<f64> = family
        .iter()
        .zip(&contrasts)
        .flat_map(|(checks, contrasts)| {
            checks.iter().zip(contrasts).map(|(check_pairs, contrast)| beyond(contrast, check_pairs))
        })
        .collect();
    let mut adjusted = holm(&all).into_iter();
    let check = |(checks, contrasts): (&Vec<&CheckPairs>, &Vec<Option<Contrast>>)| {
        let differ: Vec<f64> = adjusted.by_ref().take(checks.len()).collect();
        let is_shown = |(check_pairs, p): &(&&CheckPairs, &f64)| **p < ERROR || check_pairs.not_valid != (0, 0);
        if let Some((check_pairs, _)) = checks.iter().zip(&differ).find(is_shown) {
            let (over, base) = (
                check_pairs.shown(check_pairs.over, check_pairs.not_valid.0),
                check_pairs.shown(check_pairs.base, check_pairs.not_valid.1),
            );
            let base = base + &check_pairs.measure.unit();
            return Check::Differs { measure: Arc::clone(&check_pairs.measure.name), over, base };
        }
        let open = checks.iter().zip(contrasts).find(|(check_pairs, contrast)| {
            contrast.as_ref().is_none_or(|contrast| contrast.equality(check_pairs.measure.margin()) >= ERROR)
        });
        match open {
            None if checks.is_empty() => Check::None,
            None => Check::Same,
            Some((check_pairs, contrast)) => {
                let needed = contrast
                    .as_ref()
                    .map(|contrast| needed(contrast, check_pairs.count(), check_pairs.measure.margin()));
                Check::Unknown { measure: Arc::clone(&check_pairs.measure.name), needed }
            }
        }
    };
    family.iter().zip(&contrasts).map(check).collect()
}

/// The number of repeats after which values with the spread of this number of repeats could be shown to be equal within a margin.
fn needed(contrast: &Contrast, count: usize, margin: f64) -> u32 {
    let deviation = contrast.error * (count as f64).sqrt();
    let suffices =
        |n: u32| student_t_quantile(ERROR, f64::from(n) - 1.0) * deviation / f64::from(n).sqrt() <= margin / 2.0;
    least_that_suffices(1, 1_000, suffices).max(count as u32 + 1)
}

/// The finished runs of two cells as pairs with the same repeat number, if such repeats are partners; each run is used once.
pub(super) fn paired<'a>(over: &Cell<'a>, base: &Cell<'a>) -> Vec<(&'a RunSummary, &'a RunSummary)> {
    if !over.pairs_with(base) {
        return Vec::new();
    }
    let mut rest: Vec<&RunSummary> = super::finished(base).collect();
    let partner = |run: &'a RunSummary| {
        let place = rest.iter().position(|other| other.repeat == run.repeat)?;
        Some((run, rest.swap_remove(place)))
    };
    super::finished(over).filter_map(partner).collect()
}
