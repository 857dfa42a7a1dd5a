//! Compares two cells by a measure: collects the pairs of repeats for a verdict, and checks what the design of the experiment allows to
//! conclude.
//!
//! Statistics cannot see how runs were made. If one cell was run today and the other a week ago, everything that changed in between is
//! mixed with the difference between the cells, and no number of repeats can separate the two. A [`Comparison`] records such problems
//! before anything is tested, and no verdict is given then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::check::{CheckPairs, check_cells, merged, paired};
use super::contrast::Sample;
use super::environment::machine_differs;
use super::rounding::{Rounding, step_in_runs};
use super::{Cell, Clock, Doubt, Measure, RunState, RunSummary, by_repeat};
use crate::protocol::{IMPORTED_FROM, fact_name};
use crate::statistics::median;

/// Paired runs may be started up to this number of seconds apart in any case.
const NEAR_S: f64 = 3_600.0;
/// They may be started farther apart, up to this multiple of the usual time between consecutive repeats of a cell.
const NEAR_REPEATS: f64 = 3.0;

/// Why two cells cannot be compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Incomparable {
    /// They were measured in different sessions: everything that changed between the sessions is mixed with the difference.
    Sessions {
        /// Names of facts about machine and software in which they differ.
        with: Vec<String>,
    },
    /// One cell was imported from a file of another program, and the other one was measured here.
    Imported,
    /// Each side is a single session, so the difference between sessions of the same cell is unknown.
    OneSession,
    /// All runs of one cell were started before all runs of the other.
    OneAfterTheOther {
        /// The time from the last start of one cell to the first start of the other, in seconds.
        gap_s: f64,
        /// Names of facts about the machine that changed as well.
        with: Vec<String>,
    },
    /// Paired repeats were started too far apart.
    FarApart {
        /// The usual time between paired runs, in seconds.
        gap_s: f64,
        /// Names of facts about the machine that changed as well.
        with: Vec<String>,
    },
    /// A session contains runs of the cell that were made in different environments.
    Mixed,
    /// No repeat of one cell has a partner in the other.
    NoPartners {
        /// Names of facts about the machine in which they differ.
        with: Vec<String>,
    },
    /// Rows of a file recur, so that it is unknown how much independent repeats spread.
    RecurringRows,
    /// Values of the measure recur in rows that differ in other measures, so that the same is unknown of it.
    RecurringValues,
    /// Successive values of the measure in an imported file depend on each other.
    DependentValues,
    /// A value is 0 or negative.
    NoRatio,
    /// The difference is smaller than the resolution of the clock.
    CoarseClock {
        /// The resolution of the clock, as a share of a value.
        resolution: f64,
    },
    /// The difference is smaller than the step between the values that a program or a file gives.
    CoarseValues {
        /// The step, as a share of a value.
        resolution: f64,
    },
    /// The times that the program reports give another verdict than the times at which its lines arrived.
    ClocksDisagree {
        /// The ratio by the program's own clock.
        reported: f64,
        /// The ratio by the arrival of its lines.
        arrived: f64,
    },
    /// The arrival times of lines spread too much to give the same verdict as the program's own clock.
    Unconfirmed {
        /// The ratio by the program's own clock.
        reported: f64,
        /// The ratio by the arrival of its lines.
        arrived: f64,
    },
    /// A program reported impossible times: more than the elapsed time, or less than its GPUs worked.
    ImpossibleClock,
}

impl Incomparable {
    /// The reason if two clocks do not give the same verdict; the arrival of lines may give none.
    pub(super) fn of_clocks(arrival_is_open: bool, reported: f64, arrived: f64) -> Self {
        if arrival_is_open {
            Self::Unconfirmed { reported, arrived }
        } else {
            Self::ClocksDisagree { reported, arrived }
        }
    }

    /// The reason if the verdict changes once values are shifted by their rounding.
    pub(super) fn of_rounding(rounding: Rounding) -> Self {
        let resolution = rounding.step;
        if rounding.is_written { Self::CoarseValues { resolution } } else { Self::CoarseClock { resolution } }
    }

    /// The name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sessions { .. } => "sessions",
            Self::Imported => "imported",
            Self::OneSession => "one_session",
            Self::OneAfterTheOther { .. } => "one_after_the_other",
            Self::FarApart { .. } => "far_apart",
            Self::Mixed => "mixed",
            Self::NoPartners { .. } => "no_partners",
            Self::RecurringRows => "recurring_rows",
            Self::RecurringValues => "recurring_values",
            Self::DependentValues => "dependent_values",
            Self::NoRatio => "no_ratio",
            Self::CoarseClock { .. } => "coarse_clock",
            Self::CoarseValues { .. } => "coarse_values",
            Self::ClocksDisagree { .. } => "clocks_disagree",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::ImpossibleClock => "impossible_clock",
        }
    }

    /// What the user can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Imported => {
                "measure both in the same way, or let `multicard diff --imported` compare them all the same"
            }
            Self::Sessions { .. } => "compare whole sessions with `multicard diff`, several on each side",
            Self::Mixed => "compare sessions whose runs were made with the same machine, builds and files",
            Self::OneSession => "give several sessions on at least one side: multicard diff A1 A2 A3 -- B",
            Self::OneAfterTheOther { .. } | Self::FarApart { .. } | Self::NoPartners { .. } => {
                "run both cells again in one launch, which interleaves their repeats"
            }
            Self::RecurringRows => {
                "keep one row of each run; a program without randomness needs one run a cell, and its ratio is exact; if each row is a run \
                 of its own, import the file with --rows-are-runs"
            }
            Self::RecurringValues => {
                "keep one row of each run for this measure; if each row is a run of its own, import the file with --rows-are-runs"
            }
            Self::DependentValues => {
                "keep one value of each independent run for this measure, without smoothing; if each row is a run of its own, import the \
                 file with --rows-are-runs"
            }
            Self::NoRatio => {
                "compare a formula whose values are above 0, such as -log_likelihood (`multicard measure`)"
            }
            Self::CoarseClock { .. } => "let the program print more digits of its durations",
            Self::CoarseValues { .. } => {
                "write the values with more digits; those of a count are exact with the unit `count`"
            }
            Self::Unconfirmed { .. } => {
                "print each step when it ends, on a quiet machine, or run more repeats: lines must arrive when steps end"
            }
            Self::ClocksDisagree { .. } | Self::ImpossibleClock => {
                "let the program wait for the GPU before it reads the clock (torch.cuda.synchronize), and print each step when it ends"
            }
        }
    }
}

/// Half a sentence.
impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = |with: &[String]| match with {
            [] => String::new(),
            names => format!("; {} changed meanwhile", names.join(", ")),
        };
        match self {
            Self::Sessions { with } => {
                let with =
                    if with.is_empty() { String::new() } else { format!("; they differ in {}", with.join(", ")) };
                write!(f, "measured in different sessions{with}")
            }
            Self::Imported => f.write_str("one was imported, and the other was measured here"),
            Self::OneSession => f.write_str("each side is one session, so it is unknown how much sessions differ"),
            Self::OneAfterTheOther { gap_s, with } => {
                let gap = if *gap_s < 1.0 { "right".to_owned() } else { long_time(*gap_s) };
                write!(f, "one was run {gap} after the other{}", changed(with))
            }
            Self::FarApart { gap_s, with } => {
                write!(f, "their repeats were run {} apart{}", long_time(*gap_s), changed(with))
            }
            Self::Mixed => f.write_str("a session has runs of this cell from different environments"),
            Self::NoPartners { with } => {
                let with =
                    if with.is_empty() { String::new() } else { format!("; they differ in {}", with.join(", ")) };
                write!(f, "no repeat of one has a partner in the other{with}")
            }
            Self::RecurringRows => f.write_str("rows of the file recur with all their digits"),
            Self::RecurringValues => f.write_str("values of this measure recur in the file with all their digits"),
            Self::DependentValues => f.write_str("successive values of this measure depend on each other in the file"),
            Self::NoRatio => f.write_str("ratios need values above 0"),
            Self::CoarseClock { resolution } => {
                write!(f, "the clock is too coarse: it resolves {}", percent(*resolution))
            }
            Self::CoarseValues { resolution } => {
                write!(f, "the values have too few digits: they resolve {}", percent(*resolution))
            }
            Self::ClocksDisagree { reported, arrived } => {
                let [reported, arrived] = told_apart(*reported, *arrived);
                write!(f, "{reported}× by the program's clock, {arrived}× by the arrival of its lines")
            }
            Self::Unconfirmed { reported, arrived } => {
                let [reported, arrived] = told_apart(*reported, *arrived);
                write!(
                    f,
                    "{reported}× by the program's clock is not confirmed by the arrival of its lines ({arrived}×)"
                )
            }
            Self::ImpossibleClock => f.write_str("the program reported impossible times"),
        }
    }
}

/// Two ratios with two decimals, or with more, up to five, where these show a difference.
fn told_apart(one: f64, other: f64) -> [String; 2] {
    let texts = |decimals: usize| [one, other].map(|ratio| format!("{ratio:.decimals$}"));
    (2..=5).map(texts).find(|[one, other]| one != other).unwrap_or_else(|| texts(2))
}

/// The text of [`percent`] for larger shares.
pub(super) const OVER_1000: &str = "more than 1000 %";

/// A share in percent with two digits; a whole number from 10 % on. Shares that are too large to be worth a number are [`OVER_1000`].
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if !percent.is_finite() || percent > 1_000.0 => OVER_1000.to_owned(),
        9.95.. => format!("{percent:.0} %"),
        0.995.. => format!("{percent:.1} %").replace(".0 %", " %"),
        _ => format!("{percent:.2} %"),
    }
}

/// A time in the largest unit that fits: `26 h`.
pub(super) fn long_time(time_s: f64) -> String {
    match time_s {
        172_800.0.. => format!("{:.0} days", time_s / 86_400.0),
        5_400.0.. => format!("{:.0} h", time_s / 3_600.0),
        90.0.. => format!("{:.0} min", time_s / 60.0),
        _ => format!("{:.0} s", time_s.max(0.0)),
    }
}

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
        if have_ratios(super::finished(cell).chain(super::finished(base)), key) {
            return compared;
        }
        let (sample, reason) = (compared.sample.emptied(), Some(Incomparable::NoRatio));
        Self { sample, by_arrival: None, reason, ..compared }
    }

    /// Compares cells whose repeats form pairs, by values that have ratios.
    fn of_pairs(cell: &Cell, base: &Cell, key: &str, inverse: bool) -> Self {
        let value = |run: &RunSummary| run.value_alone(run.measures.find(key)?);
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
        let to_come = to_come(cell).max(to_come(base));
        let reason = reason.or_else(|| {
            let with = || machine_differs(super::finished(cell), super::finished(base));
            (pairs.is_empty() && least > 0 && to_come == 0).then(|| Incomparable::NoPartners { with: with() })
        });
        let measure = cell.measure(key);
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
            to_come,
            least,
            gap_s: near.iter().filter_map(gap_s).max_by(f64::total_cmp),
            reason,
            checks: check_cells(cell, base, &near, key),
            by_arrival: has_arrivals.then(|| logs(&arrived)),
        }
    }

    /// Compares cells whose repeats form no pairs, by values that have ratios.
    fn of_groups(cell: &Cell, base: &Cell, key: &str, inverse: bool) -> Self {
        let logs = |cell: &Cell| by_repeat(cell, key).into_iter().map(|(_, value)| value.ln()).collect();
        let sample = Sample::Groups(vec![(1.0, logs(cell)), (-1.0, logs(base))]);
        Self {
            least: sample.count(),
            rounding: rounding(cell, base, &[], cell.measure(key)),
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
            let (near, reason) = Self::design(cell, base, &paired(cell, base), measure);
            checks.push(check_cells(cell, base, &near, measure));
            all.reason = all.reason.or(reason).or_else(|| impossible_clock(&near).filter(|_| is_told));
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
        let apart = |gap_s: f64| Incomparable::OneAfterTheOther { gap_s, with: with() };
        if !cell.pairs_with(base) {
            let runs = |cell: &Cell<'a>| super::finished(cell).collect::<Vec<_>>();
            return (Vec::new(), separated_s(&runs(cell), &runs(base)).map(apart));
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
pub(super) fn have_ratios<'a>(mut runs: impl Iterator<Item = &'a RunSummary>, key: &str) -> bool {
    runs.all(|run| run.measures.find(key).and_then(|measure| run.value_alone(measure)).is_none_or(|value| value > 0.0))
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
