//! Compares two cells by a measure: collects the pairs of repeats for a verdict, and checks what the design of the experiment allows to
//! conclude.
//!
//! Statistics cannot see how runs were made. If one cell was run today and the other a week ago, everything that changed in between is
//! mixed with the difference between the cells, and no number of repeats can separate the two. A [`Comparison`] records such problems
//! before anything is tested, and no verdict is given then.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{CheckPairs, check_cells, merged, paired};
use super::contrast::Sample;
use super::environment::machine_differs;
use super::rounding::{Rounding, step_in_runs};
use super::{Cell, Clock, Doubt, Incomparable, LeftOut, Measure, RunState, RunSummary};
use crate::protocol::{IMPORTED_FROM, fact_name};
use crate::statistics::median;

/// Paired runs may be started up to this number of seconds apart in any case.
const NEAR_S: f64 = 3_600.0;
/// They may be started farther apart, up to this multiple of the usual time between consecutive repeats of a cell.
const NEAR_REPEATS: f64 = 3.0;

/// Everything that a verdict on two cells is based on.
#[derive(Default)]
pub struct Comparison {
    /// The logarithms of the ratios of pairs, or of both sides where repeats form no pairs.
    pub(super) sample: Sample,
    /// How much rounding can change the logarithm of a ratio.
    pub(super) rounding: Rounding,
    /// The logarithms of the ratios according to the arrival of a program's lines, if these times are known.
    pub(super) by_arrival: Option<Sample>,
    /// How often somebody could have looked at the results: once for each launch that added repeats, and once more if some were cancelled.
    pub(super) looks: u32,
    /// The number of repeats that are still queued or active.
    pub(super) to_come: usize,
    /// The number of finished repeats of the cell that has fewer.
    pub(super) least: usize,
    /// The longest time between the starts of paired runs, in seconds, if starts are known.
    pub(super) gap_s: Option<f64>,
    /// Why no verdict is possible.
    pub(super) reason: Option<Incomparable>,
    /// The check values of the pairs.
    pub(super) checks: Vec<CheckPairs>,
}

impl Comparison {
    /// A comparison from logarithms of ratios, without runs.
    pub fn of_logs(logs: Vec<f64>) -> Self {
        Self { least: logs.len(), sample: Sample::Pairs(logs), looks: 1, ..Self::default() }
    }

    /// This comparison, with repeats that were added after this number of looks.
    pub fn looked_at(self, looks: u32) -> Self {
        Self { looks, ..self }
    }

    /// This comparison, with values that a clock rounded to multiples of this share of them.
    pub fn rounded(self, resolution: f64) -> Self {
        Self { rounding: Rounding { step: resolution, is_written: false }, ..self }
    }

    /// Compares a cell with a base by a measure that both have; `inverse` for the ratio of the base to the cell, so that half the time
    /// gives 2.
    pub fn between(cell: &Cell, base: &Cell, key: &str, inverse: bool) -> Self {
        let compared = if cell.pairs_with(base) {
            Self::of_pairs(cell, base, key, inverse)
        } else {
            Self::of_groups(cell, base, key, inverse)
        };
        let measure = cell.measure(key);
        if measure.is_none_or(|measure| have_ratios(super::finished(cell).chain(super::finished(base)), measure)) {
            return compared;
        }
        let (sample, reason) = (compared.sample.emptied(), Some(Incomparable::NoRatio));
        Self { sample, by_arrival: None, reason, ..compared }
    }

    /// Compares cells whose repeats form pairs, by values that have ratios.
    fn of_pairs(cell: &Cell, base: &Cell, key: &str, inverse: bool) -> Self {
        let measure = cell.measure(key);
        let value = |run: &RunSummary| run.comparable_value(measure?);
        let mut pairs: Vec<_> = paired(cell, base);
        pairs.retain(|(own, other)| value(own).is_some() && value(other).is_some());
        let has_value = |run: &&RunSummary| value(run).is_some();
        let least =
            super::finished(cell).filter(has_value).count().min(super::finished(base).filter(has_value).count());
        let (near, reason) = Self::design(cell, base, &pairs, key);
        let log = |pair: &(&RunSummary, &RunSummary), scale: &dyn Fn(&RunSummary) -> f64| {
            let ratio = value(pair.0)? * scale(pair.0) / (value(pair.1)? * scale(pair.1));
            let log = if inverse { -ratio.ln() } else { ratio.ln() };
            log.is_finite().then_some(log)
        };
        let reason = reason.or_else(|| no_partners(cell, base, &pairs, measure));
        let is_told = measure.is_some_and(Measure::is_told);
        let reason = reason.or_else(|| impossible_clock(&near).filter(|_| is_told));
        let is_rate = measure.is_some_and(|measure| !measure.is_time());
        let arrived = |run: &RunSummary| if is_rate { clock_ratio(run) } else { 1.0 / clock_ratio(run) };
        let has_arrivals = is_told && near.iter().any(|(own, other)| own.clock.is_some() || other.clock.is_some());
        let logs = |scale: &dyn Fn(&RunSummary) -> f64| {
            Sample::Pairs(near.iter().filter_map(|pair| log(pair, scale)).collect())
        };
        Self {
            sample: logs(&|_| 1.0),
            rounding: rounding(cell, base, &near, measure),
            looks: looks(cell, base),
            to_come: to_come(cell).max(to_come(base)),
            least,
            gap_s: near.iter().filter_map(gap_s).max_by(f64::total_cmp),
            reason,
            checks: check_cells(cell, base, &near, key),
            by_arrival: has_arrivals.then(|| logs(&arrived)),
        }
    }

    /// Compares cells whose repeats form no pairs, by values that have ratios.
    fn of_groups(cell: &Cell, base: &Cell, key: &str, inverse: bool) -> Self {
        let measure = cell.measure(key);
        let log = |run: &RunSummary| Some(run.comparable_value(measure?)?.ln());
        let logs = |cell: &Cell| super::finished(cell).filter_map(log).collect::<Vec<f64>>();
        let sample = Sample::Groups(vec![(1.0, logs(cell)), (-1.0, logs(base))]);
        Self {
            least: sample.count(),
            rounding: rounding(cell, base, &[], measure),
            sample: if inverse { sample.negated() } else { sample },
            looks: looks(cell, base),
            to_come: to_come(cell).max(to_come(base)),
            reason: Self::design(cell, base, &[], key).1,
            checks: check_cells(cell, base, &[], key),
            ..Self::default()
        }
    }

    /// The limits of the design for several pairs of cells together: the first reason why one of them cannot be compared, and the check
    /// values of the repeats that all pairs have.
    pub(super) fn of_design(pairs: &[(&Cell, &Cell)], measure: &str) -> Self {
        let known = pairs.iter().find_map(|(cell, _)| cell.measure(measure));
        let is_told = known.is_some_and(Measure::is_told);
        let runs = pairs.iter().flat_map(|(cell, base)| super::finished(cell).chain(super::finished(base)));
        let step = known.map_or(0.0, |known| step_in_runs(runs, known));
        let mut all = Self { looks: 1, ..Self::default() };
        let mut checks = Vec::new();
        for (cell, base) in pairs {
            let paired = paired(cell, base);
            let (near, reason) = Self::design(cell, base, &paired, measure);
            checks.push(check_cells(cell, base, &near, measure));
            let reason = all.reason.or(reason).or_else(|| no_partners(cell, base, &paired, cell.measure(measure)));
            all.reason = reason.or_else(|| impossible_clock(&near).filter(|_| is_told));
            let rounding = known.map(|known| Rounding::of_cells(cell, base, &near, known, step));
            all.rounding = Rounding::most([Some(all.rounding), rounding].into_iter().flatten());
            all.looks = all.looks.max(looks(cell, base));
            all.to_come = all.to_come.max(to_come(cell)).max(to_come(base));
            all.gap_s = near.iter().filter_map(gap_s).chain(all.gap_s).max_by(f64::total_cmp);
        }
        all.checks = merged(&checks);
        all
    }

    /// The pairs of runs that were made at nearby times, and the reason if the cells cannot be compared by a measure. Cells whose repeats
    /// form no pairs have none.
    fn design<'a>(
        cell: &Cell<'a>,
        base: &Cell<'a>,
        pairs: &[(&'a RunSummary, &'a RunSummary)],
        key: &str,
    ) -> (Vec<(&'a RunSummary, &'a RunSummary)>, Option<Incomparable>) {
        if cell.is_imported() != base.is_imported() {
            return (pairs.to_vec(), Some(Incomparable::Imported));
        }
        let with = || machine_differs(super::finished(cell), super::finished(base));
        // A file may hold several sessions, which this fact of its runs names.
        let is_split = || cell.is_imported() && with().iter().any(|name| *name == fact_name(IMPORTED_FROM));
        if cell.session != base.session || is_split() {
            return (pairs.to_vec(), Some(Incomparable::Sessions { with: with() }));
        }
        let has_one = |is: &dyn Fn(&RunSummary) -> bool| super::finished(cell).chain(super::finished(base)).any(is);
        if has_one(&RunSummary::is_of_recurring_rows) {
            return (pairs.to_vec(), Some(Incomparable::RecurringRows));
        }
        if has_one(&|run| run.has_recurring_values(key)) {
            return (pairs.to_vec(), Some(Incomparable::RecurringValues));
        }
        if has_one(&|run| run.has_dependent_values(key)) {
            return (pairs.to_vec(), Some(Incomparable::DependentValues));
        }
        let measure = cell.measure(key);
        let all = || super::finished(cell).chain(super::finished(base));
        let unlike = |measure: &Measure| {
            unlike_units(measure, base.measure(key), all()).or_else(|| unlike_better(measure, all()))
        };
        if let Some(unlike) = measure.and_then(unlike) {
            return (pairs.to_vec(), Some(unlike));
        }
        let apart = |gap_s: f64| Incomparable::OneAfterTheOther { gap_s, with: with() };
        if !cell.pairs_with(base) {
            let runs = |cell: &Cell<'a>| super::finished(cell).collect::<Vec<_>>();
            let reason = separated_s(&runs(cell), &runs(base)).map(apart);
            return (Vec::new(), reason.or_else(|| unlike_warm_ups(all(), measure?)));
        }
        let longest_s = NEAR_S.max(NEAR_REPEATS * usual_spacing_s(cell).max(usual_spacing_s(base)));
        let is_near = |pair: &&(&RunSummary, &RunSummary)| gap_s(pair).is_none_or(|gap_s| gap_s <= longest_s);
        let near: Vec<_> = pairs.iter().filter(is_near).copied().collect();
        let reason = if near.is_empty() && !pairs.is_empty() {
            let gaps: Vec<f64> = pairs.iter().filter_map(gap_s).collect();
            Some(Incomparable::FarApart { gap_s: median(&gaps), with: with() })
        } else {
            let (own, other): (Vec<_>, Vec<_>) = near.iter().copied().unzip();
            separated_s(&own, &other).map(apart)
        };
        let near = if reason.is_none() { interleaved(near) } else { near };
        let of_pairs = || near.iter().find_map(|(own, other)| unlike_warm_ups([*own, *other], measure?));
        let reason = reason.or_else(of_pairs);
        (near, reason)
    }
}

/// Leaves out pairs of launches in which all runs of one side were started before all runs of the other: repeats of a later launch of both
/// cells do not make these pairs comparable. If there are no other pairs, all pairs are kept.
fn interleaved<'a>(pairs: Vec<(&'a RunSummary, &'a RunSummary)>) -> Vec<(&'a RunSummary, &'a RunSummary)> {
    let launches = |(own, other): &(&'a RunSummary, &'a RunSummary)| (own.launch.as_str(), other.launch.as_str());
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    pairs.iter().for_each(|pair| groups.entry(launches(pair)).or_default().push(*pair));
    groups.retain(|_, group| {
        let (own, other): (Vec<_>, Vec<_>) = group.iter().copied().unzip();
        separated_s(&own, &other).is_none()
    });
    if groups.is_empty() {
        return pairs;
    }
    pairs.into_iter().filter(|pair| groups.contains_key(&launches(pair))).collect()
}

/// The reason if both cells have values of a measure, none of their paired runs has one on both sides, and no repeat is to come.
fn no_partners(
    cell: &Cell,
    base: &Cell,
    pairs: &[(&RunSummary, &RunSummary)],
    measure: Option<&Measure>,
) -> Option<Incomparable> {
    let has_value = |run: &RunSummary| measure.is_some_and(|measure| run.comparable_value(measure).is_some());
    let has_partners = || pairs.iter().any(|(own, other)| has_value(own) && has_value(other));
    let have_values = || super::finished(cell).any(has_value) && super::finished(base).any(has_value);
    let is_over = to_come(cell).max(to_come(base)) == 0;
    let is_alone = is_over && cell.pairs_with(base) && !has_partners() && have_values();
    is_alone.then(|| Incomparable::NoPartners { with: machine_differs(super::finished(cell), super::finished(base)) })
}

/// The time between the starts of paired runs.
fn gap_s((own, other): &(&RunSummary, &RunSummary)) -> Option<f64> {
    Some((own.started_s? - other.started_s?).abs())
}

/// The usual time between the starts of consecutive repeats of a cell; 0 for a single repeat.
fn usual_spacing_s(cell: &Cell) -> f64 {
    let mut starts: Vec<f64> = super::finished(cell).filter_map(|run| run.started_s).collect();
    starts.sort_by(f64::total_cmp);
    let spacings: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if spacings.is_empty() { 0.0 } else { median(&spacings) }
}

/// The time from the last run of one side to the first run of the other, if each side has two or more runs and all runs of one side were
/// started first.
fn separated_s(own: &[&RunSummary], other: &[&RunSummary]) -> Option<f64> {
    if own.len().min(other.len()) < 2 {
        return None;
    }
    let starts = |runs: &[&RunSummary]| runs.iter().map(|run| run.started_s).collect::<Option<Vec<f64>>>();
    let (own, other) = (starts(own)?, starts(other)?);
    let least = |starts: &[f64]| starts.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |starts: &[f64]| starts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [least(&own) - most(&other), least(&other) - most(&own)].into_iter().find(|gap_s| *gap_s > 0.0)
}

/// How often somebody could have looked at two cells and decided to add repeats.
fn looks(cell: &Cell, base: &Cell) -> u32 {
    let runs = || cell.runs.iter().chain(&base.runs);
    let launches: BTreeSet<&str> =
        runs().filter(|run| run.state == RunState::Finished).map(|run| run.launch.as_str()).collect();
    let was_cut_short = runs().any(|run| run.state == RunState::Cancelled);
    launches.len().max(1) as u32 + u32::from(was_cut_short)
}

/// Whether ratios of a measure exist: all of its values are above 0.
pub(super) fn have_ratios<'a>(mut runs: impl Iterator<Item = &'a RunSummary>, measure: &Measure) -> bool {
    runs.all(|run| run.comparable_value(measure).is_none_or(|value| value > 0.0))
}

/// The reason if the same measure of the other side, or of one of the runs, has a unit that cannot be converted to the unit of `measure`.
pub(super) fn unlike_units<'r>(
    measure: &Measure,
    other: Option<&'r Measure>,
    mut runs: impl Iterator<Item = &'r RunSummary>,
) -> Option<Incomparable> {
    let of_side = other.filter(|other| measure.factor_to(other).is_none()).map(|other| other.unit.as_str());
    let other = of_side.or_else(|| runs.find_map(|run| run.unlike_unit(measure)))?;
    let units = [measure.unit.clone(), other.to_owned()];
    Some(Incomparable::Units { measure: measure.key.to_string(), units })
}

/// The reason if low values of a measure are good by what it declares, and high values by what a run's plan declares, or the reverse.
pub(super) fn unlike_better<'r>(
    measure: &Measure,
    mut runs: impl Iterator<Item = &'r RunSummary>,
) -> Option<Incomparable> {
    let judges_otherwise = |run: &RunSummary| {
        let is_opposite = |own: &Measure| own.better.is_opposite(measure.better);
        !run.measures.holds(measure)
            && run.value(&measure.key).is_some()
            && run.measures.find(&measure.key).is_some_and(is_opposite)
    };
    runs.any(judges_otherwise).then(|| Incomparable::Better { measure: measure.key.to_string() })
}

/// The reason if runs leave out different numbers of warm-up steps and the measure is of the other steps.
pub(super) fn unlike_warm_ups<'r>(
    runs: impl IntoIterator<Item = &'r RunSummary>,
    measure: &Measure,
) -> Option<Incomparable> {
    let with_value = runs.into_iter().filter(|run| measure.is_of_steady_steps && run.value(&measure.key).is_some());
    LeftOut::differing(with_value.filter_map(|run| run.warm_up)).map(|steps| Incomparable::WarmUps { steps })
}

/// How much rounding can change the ratio of two cells by a measure; see [`Rounding::of_cells`].
fn rounding(cell: &Cell, base: &Cell, pairs: &[(&RunSummary, &RunSummary)], measure: Option<&Measure>) -> Rounding {
    measure.map_or_else(Rounding::default, |measure| {
        let step = step_in_runs(super::finished(cell).chain(super::finished(base)), measure);
        Rounding::of_cells(cell, base, pairs, measure, step)
    })
}

/// Whether a run's program reported impossible times.
pub(super) fn is_impossible(run: &RunSummary) -> bool {
    run.clock.is_some_and(|clock| clock.is_impossible())
}

fn impossible_clock(pairs: &[(&RunSummary, &RunSummary)]) -> Option<Incomparable> {
    let is_one = pairs.iter().any(|(own, other)| is_impossible(own) || is_impossible(other));
    is_one.then_some(Incomparable::ImpossibleClock)
}

/// Reported time over the time in which the same lines arrived; 1 if there is no second clock, or if it is not usable.
pub(super) fn clock_ratio(run: &RunSummary) -> f64 {
    let is_held_back = matches!(run.clock, Some(Clock::Unconfirmed(Doubt::Together { .. })));
    run.value("clock_ratio").filter(|ratio| !is_held_back && *ratio > 0.0 && ratio.is_finite()).unwrap_or(1.0)
}

fn to_come(cell: &Cell) -> usize {
    cell.runs.iter().filter(|run| !run.state.is_final()).count()
}
