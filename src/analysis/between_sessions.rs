//! Compares one cell in the sessions before a change with the same cell in the sessions after it, with sessions as replicates.
//!
//! Conditions that change from session to session (clocks, temperature, neighbours on the machine) affect all repeats of a session in the
//! same way. A session is therefore one observation, however many repeats it has: the mean of the logarithms of its repeats. The spread
//! between sessions is pooled over both sides, so one side may be a single session if the other has several: earlier sessions of unchanged
//! code on the same machine show how much sessions differ.

use super::check::{CheckPairs, check_groups, check_pairs, paired};
use super::comparison;
use super::contrast::{Contrast, ERROR, holm};
use super::rounding::{Rounding, step_in_runs};
use super::verdict::{Verdict, judgement_of};
use super::{Cell, Comparison, Incomparable, Judgement, Measure, Method, RunState, RunSummary, Value, finished};

/// A cell before a change and after it.
pub struct SessionComparison {
    /// The difference between the sides' means on the scale of logarithms, above 0 if the cell became better; `None` for fewer than three
    /// sessions.
    contrast: Option<Contrast>,
    /// The ratio of the sides, above 1 if the cell became better; `None` without finished runs on both sides.
    ratio: Option<f64>,
    sessions: usize,
    /// The number of runs after the change that failed, and the number that ended, if all finished before the change or none finishes after
    /// it.
    failing: Option<(usize, usize)>,
    checks: Vec<CheckPairs>,
    /// How much rounding can change the difference.
    rounding: Rounding,
    /// The difference according to the arrival times of a program's lines, with its ratio. `None` if these times are unknown.
    by_arrival: Option<(Contrast, f64)>,
    /// Why the cells cannot be compared, whatever the numbers are.
    reason: Option<Incomparable>,
}

/// The result of comparing a cell between sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionJudgement {
    /// Whether the cell became faster or slower, judged by the spread between sessions.
    pub judgement: Judgement,
    /// Whether the cell is shown to be no worse than the margin allows.
    pub is_no_worse: bool,
    /// The number of runs after the change that failed, and the number that ended, if all finished before the change or none finishes after
    /// it.
    pub failing: Option<(usize, usize)>,
}

impl SessionJudgement {
    /// Whether the cell became slower, fails, or computes something else.
    pub fn is_worse(&self) -> bool {
        let slower = matches!(self.judgement.verdict, Verdict::Slower | Verdict::Lower);
        slower || self.failing.is_some() || matches!(self.judgement.check, super::Check::Differs { .. })
    }
}

impl SessionComparison {
    /// Compares one cell in the sessions of each side that have it, by a measure; `lower_is_better` inverts the ratio.
    pub fn of(before: &[&Cell], after: &[&Cell], key: &str, lower_is_better: bool) -> Self {
        let sessions = || after.iter().zip(before.iter().cycle());
        let checks = match sessions().all(|(new, old)| new.pairs_with(old)) {
            true => check_pairs(&sessions().flat_map(|(new, old)| paired(new, old)).collect::<Vec<_>>(), key),
            false => check_groups(after, before),
        };
        let cells = || before.iter().chain(after);
        let runs_of_all = || cells().flat_map(|cell| finished(cell));
        let measure = cells().find_map(|cell| cell.measure(key));
        if measure.is_some_and(|measure| !comparison::have_ratios(runs_of_all(), measure)) {
            return Self {
                failing: failing(before, after),
                checks,
                sessions: cells().count(),
                reason: Some(Incomparable::NoRatio),
                ..Self::of_means(&[], &[], lower_is_better)
            };
        }
        let of_shifted = |shift: &dyn Fn(&RunSummary) -> f64| {
            let means = |cells: &[&Cell]| measure.map_or_else(Vec::new, |measure| means(cells, measure, shift));
            Self::of_means(&means(before), &means(after), lower_is_better)
        };
        let is_told = measure.is_some_and(Measure::is_told);
        let is_rate = measure.is_some_and(|measure| !measure.is_time());
        let timed = || runs_of_all().filter(|_| is_told);
        let has_arrivals = timed().any(|run| run.clock.is_some());
        let rounding = |measure: &Measure| {
            let step = step_in_runs(runs_of_all(), measure);
            Rounding::most(runs_of_all().map(|run| Rounding::of_run(run, measure, step)))
        };
        // A line that arrives later than the program reports makes a time longer and a rate lower.
        let sign = if is_rate { 1.0 } else { -1.0 };
        let unlike = |measure: &Measure| {
            let units = comparison::unlike_units(measure, None, runs_of_all());
            let unlike = units.or_else(|| comparison::unlike_better(measure, runs_of_all()));
            unlike.or_else(|| comparison::unlike_warm_ups(runs_of_all(), measure))
        };
        let impossible = timed().any(comparison::is_impossible).then_some(Incomparable::ImpossibleClock);
        let by_arrival = has_arrivals.then(|| of_shifted(&|run| sign * comparison::clock_ratio(run).ln()));
        Self {
            failing: failing(before, after),
            checks,
            rounding: measure.map(rounding).unwrap_or_default(),
            by_arrival: by_arrival.and_then(|one| Some((one.contrast?, one.ratio?))),
            reason: impossible.or_else(|| unlike(measure?)),
            ..of_shifted(&|_| 0.0)
        }
    }

    /// The comparison, marked as not comparable because a session's runs of the cell were made in different environments.
    pub fn mixed(self) -> Self {
        Self { reason: Some(Incomparable::Mixed), ..self }
    }

    /// The comparison, marked as not comparable if some of the sessions were imported from files of other programs and
    /// others were measured here.
    #[must_use]
    pub fn apart_from_imported(self, before: &[&Cell], after: &[&Cell]) -> Self {
        let first = before.iter().chain(after).next().map(|cell| cell.is_imported());
        let is_mixed = before.iter().chain(after).any(|cell| Some(cell.is_imported()) != first);
        Self { reason: if is_mixed { Some(Incomparable::Imported) } else { self.reason }, ..self }
    }

    /// Sessions given by one number each: the mean of the logarithms of a cell's repeats.
    pub fn of_means(old: &[f64], new: &[f64], lower_is_better: bool) -> Self {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let sign = if lower_is_better { -1.0 } else { 1.0 };
        let change = (!old.is_empty() && !new.is_empty()).then(|| sign * (mean(new) - mean(old)));
        let squares = |values: &[f64]| values.iter().map(|value| (value - mean(values)).powi(2)).sum::<f64>();
        let freedom = (old.len() + new.len()) as f64 - 2.0;
        let share = 1.0 / old.len() as f64 + 1.0 / new.len() as f64;
        let error = ((squares(old) + squares(new)) / freedom * share).sqrt();
        let contrast = change.filter(|_| freedom >= 1.0);
        let contrast = contrast.map(|mean| Contrast { mean, error, freedom, scale: share.sqrt(), rounding: 0.0 });
        Self {
            contrast,
            ratio: change.map(f64::exp),
            sessions: old.len() + new.len(),
            failing: None,
            checks: Vec::new(),
            rounding: Rounding::default(),
            by_arrival: None,
            reason: None,
        }
    }

    /// The ratio with its 95 % interval by Student's t between sessions.
    pub fn value(&self) -> Option<Value> {
        let interval = self.contrast.as_ref().map(Contrast::interval_of_ratio);
        let method = if interval.is_some() { Method::BetweenSessions } else { Method::One };
        Some(Value { median: self.ratio?, interval, n: self.sessions, method })
    }
}

/// The mean of the logarithms of a cell's repeats in each session, with `shift` added to each repeat; sessions without a finished repeat
/// are left out.
fn means(cells: &[&Cell], measure: &Measure, shift: &dyn Fn(&RunSummary) -> f64) -> Vec<f64> {
    let mean = |cell: &&Cell| {
        let log = |run: &RunSummary| Some(run.comparable_value(measure)?.ln() + shift(run));
        let logs: Vec<f64> = finished(cell).filter_map(log).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        mean.is_finite().then_some(mean)
    };
    cells.iter().filter_map(mean).collect()
}

fn failing(before: &[&Cell], after: &[&Cell]) -> Option<(usize, usize)> {
    let failed = |cells: &[&Cell]| {
        let ended = || cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.state.is_final());
        // Runs that the user cancelled are ignored.
        let lost = ended().filter(|run| !matches!(run.state, RunState::Finished | RunState::Cancelled));
        (lost.count(), ended().count())
    };
    let (old, new) = (failed(before), failed(after));
    let had_finished = before.iter().any(|cell| finished(cell).next().is_some());
    (had_finished && new.0 > 0 && (old.0 == 0 || new.0 == new.1)).then_some(new)
}

/// Judges cells as one family. `margin` is the share by which a cell may become worse, and also the bound for equality.
pub fn judge_sessions(family: &[SessionComparison], of_speed: bool, margin: f64) -> Vec<SessionJudgement> {
    let bound = margin.max(0.0).ln_1p();
    let rounded = |one: &SessionComparison, contrast: Option<Contrast>| Some(contrast?.rounded(one.rounding.step));
    let exact: Vec<Option<Contrast>> = family.iter().map(|one| one.contrast).collect();
    let found: Vec<Option<Contrast>> = family.iter().map(|one| rounded(one, one.contrast)).collect();
    let arrived = |one: &SessionComparison| one.by_arrival.as_ref().map(|(contrast, _)| *contrast).or(one.contrast);
    let arrived: Vec<Option<Contrast>> = family.iter().map(|one| rounded(one, arrived(one))).collect();
    // Differences and equalities, adjusted over the family.
    let adjusted = |contrasts: &[Option<Contrast>]| -> Vec<(Option<f64>, Option<f64>)> {
        let of_all = |p: &dyn Fn(&Contrast) -> f64| {
            let all: Vec<Option<f64>> = contrasts.iter().map(|contrast| contrast.as_ref().map(p)).collect();
            let mut adjusted = holm(&all.iter().copied().flatten().collect::<Vec<_>>()).into_iter();
            all.into_iter().map(|p| p.and_then(|_| adjusted.next())).collect::<Vec<Option<f64>>>()
        };
        let equalities = of_all(&|one| one.equality(bound));
        of_all(&Contrast::difference).into_iter().zip(equalities).collect()
    };
    let (unrounded, by_arrival) = (adjusted(&exact), adjusted(&arrived));
    let comparisons: Vec<Comparison> =
        family.iter().map(|one| Comparison { checks: one.checks.clone(), ..Comparison::of_logs(Vec::new()) }).collect();
    let checked = super::judge_comparisons(&comparisons, 0, of_speed, margin);
    let adjusted = adjusted(&found);
    let judgement = |(place, checked): (usize, Judgement)| {
        let one = &family[place];
        let contrast = found[place].as_ref();
        let judgement = judgement_of(contrast, adjusted[place], of_speed, margin);
        let verdict =
            |contrast: &Option<Contrast>, adjusted| judgement_of(contrast.as_ref(), adjusted, of_speed, margin).verdict;
        let reason = match one {
            _ if one.reason.is_some() => one.reason.clone(),
            _ if one.ratio.is_some() && one.contrast.is_none() => Some(Incomparable::OneSession),
            _ if one.rounding.step > 0.0 && verdict(&exact[place], unrounded[place]) != judgement.verdict => {
                Some(Incomparable::of_rounding(one.rounding))
            }
            _ if judgement.verdict == Verdict::Undecided => None,
            _ if verdict(&arrived[place], by_arrival[place]) != judgement.verdict => {
                one.ratio.zip(one.by_arrival.as_ref()).map(|(own_ratio, (_, by_lines))| {
                    let is_open = verdict(&arrived[place], by_arrival[place]) == Verdict::Undecided;
                    Incomparable::of_clocks(is_open, own_ratio, *by_lines)
                })
            }
            _ => None,
        };
        let verdict = if reason.is_some() { Verdict::NotComparable } else { judgement.verdict };
        let judgement = Judgement {
            verdict,
            reason,
            detectable: contrast.map(|contrast| contrast.detectable(family.len(), 1)),
            n: one.sessions,
            counts: "session",
            family: family.len(),
            check: checked.check,
            ..judgement
        };
        // "No worse" has to be shown for each cell separately, so having many cells gives no advantage and needs no correction.
        let no_worse = |contrast: &Option<Contrast>| contrast.is_some_and(|contrast| contrast.no_worse(bound) < ERROR);
        let is_no_worse = one.reason.is_none() && no_worse(&found[place]) && no_worse(&arrived[place]);
        SessionJudgement { judgement, is_no_worse, failing: one.failing }
    };
    checked.into_iter().enumerate().map(judgement).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{cells, fixture, summarise_run};
    use crate::plan::{Command, WorkloadSpec};

    /// The verdict on a score in two sessions before a change and two after it. The score grows a little from repeat to repeat.
    fn verdict_on(scores: [f64; 4], growth: f64, is_program: bool) -> String {
        let session = |score: f64| -> Vec<RunSummary> {
            let run = |repeat: u32| {
                let mut run = summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 0.1));
                run.values.insert("train_loss".into(), score + growth * f64::from(repeat));
                let command = is_program.then(|| Arc::new(Command::default()));
                run.workload = Arc::new(WorkloadSpec { command, ..(*run.workload).clone() });
                run
            };
            (1..=3).map(run).collect()
        };
        let sessions = scores.map(session);
        let cells: Vec<Cell> = sessions.iter().flat_map(|runs| cells(runs)).collect();
        let (before, after) = ([&cells[0], &cells[1]], [&cells[2], &cells[3]]);
        let compared = SessionComparison::of(&before, &after, "train_loss", false);
        assert_eq!(compared.value().is_some(), scores[0] > 0.0);
        judge_sessions(&[compared], false, 0.01).remove(0).judgement.to_string()
    }

    #[test]
    fn sessions_with_values_that_are_not_above_0_have_no_verdict_by_ratios() {
        let verdict = |scores: [f64; 4]| verdict_on(scores, 0.01, false);
        let expected = "not comparable: ratios need values above 0";
        assert!(verdict([-100.0, -101.0, -200.0, -201.0]).starts_with(expected));
        assert!(verdict([0.0, -101.0, 200.0, 201.0]).starts_with(expected));
        assert!(verdict([100.0, 101.0, 200.0, 201.0]).starts_with("higher"));
    }

    #[test]
    fn sessions_with_values_that_a_program_rounds_have_no_verdict_below_their_step() {
        let expected = "not comparable: the values have too few digits: they resolve 100 %";
        assert_eq!(verdict_on([1.0, 1.0, 2.0, 2.0], 0.0, true), expected);
        assert!(verdict_on([1.0, 1.0, 2.0, 2.0], 0.0, false).starts_with("higher"));
        assert!(verdict_on([100.0, 101.0, 200.0, 201.0], 0.0, true).starts_with("higher"));
    }

    #[test]
    fn the_interval_of_a_ratio_is_students_of_the_pooled_spread_between_sessions() {
        // Logarithms: the change is 1, the pooled variance 0.02, so that the error is √(0.02 (1/2 + 1/2)). t(0.975, 2) = 4.302653.
        let value = SessionComparison::of_means(&[0.0, 0.2], &[1.0, 1.2], false).value();
        let logs =
            value.and_then(|value| Some((value.median.ln(), value.interval?.low.ln(), value.interval?.high.ln())));
        let half = 4.302_653 * 0.02_f64.sqrt();
        let is_near = |(median, low, high): (f64, f64, f64)| {
            (median - 1.0).abs() < 1e-9 && (low - (1.0 - half)).abs() < 1e-6 && (high - (1.0 + half)).abs() < 1e-6
        };
        assert!(logs.is_some_and(is_near), "{logs:?}");
    }
}
