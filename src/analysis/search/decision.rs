//! The decisions after a round: which cells are dropped and why, which cells run again, and whether the search is over.

use super::bounds::{Bounded, Bounds, Prior};
use super::field::Field;
use super::limits::{Keeps, LimitField};
use super::question::{LimitBound, Question, Sought};
use super::trial::Trial;
use crate::analysis::Measure;
use crate::analysis::rounding::step_of_values;
use crate::plan::{DropReason, Dropped, Level, SearchEnd};

/// The candidates after a round.
pub(super) struct Standings<'a> {
    question: &'a Question,
    /// The ids of all candidates.
    candidates: &'a [String],
    /// For each candidate its ended runs by round.
    runs: &'a [Vec<&'a Trial>],
    /// The candidates that may be the answer.
    pub contenders: Vec<usize>,
    /// The cells that were dropped in this round.
    pub dropped: Vec<Dropped>,
    pub limits: Vec<LimitField<'a>>,
    goal: GoalField,
}

/// The goal's values.
enum GoalField {
    /// Logarithms of a measure; high ones are good.
    Measure { field: Field, bounds: Bounds, prior: Prior },
    /// The level of each candidate; high ones are good.
    Levels(Vec<f64>),
}

/// The values of one measure by candidate and round. A candidate's values end at its first run without one.
fn field(question: &Question, runs: &[Vec<&Trial>], measure: &Measure) -> Field {
    let value = |run: &&Trial| run.values.as_ref().ok()?.get(&measure.key).copied();
    let rows: Vec<Vec<f64>> = runs.iter().map(|runs| runs.iter().map_while(value).collect()).collect();
    let reported = rows.iter().flatten().copied().filter(|_| question.is_program);
    let step = step_of_values(reported, measure);
    let by_clock = |run: &&Trial| value(run).filter(|_| measure.is_told()).map(|value| run.rounding * value.abs());
    let rounding = |runs: &Vec<&Trial>| (step + runs.iter().filter_map(by_clock).fold(0.0, f64::max)) / 2.0;
    let rounding = runs.iter().map(rounding).collect();
    Field::new(rows, rounding)
}

impl<'a> Standings<'a> {
    /// Judges a round. `before` are the contenders before it, and `active` the candidates that ran in it.
    pub fn new(
        question: &'a Question,
        candidates: &'a [String],
        runs: &'a [Vec<&'a Trial>],
        before: &[usize],
        active: &[usize],
    ) -> Self {
        let mut dropped = Vec::new();
        let mut failed = Vec::new();
        for cell in active {
            if let Some(why) = incomparable(question, &runs[*cell]) {
                failed.push(*cell);
                if before.contains(cell) {
                    dropped.push(Dropped { cell: candidates[*cell].clone(), why });
                }
            }
        }
        let contenders: Vec<usize> = before.iter().copied().filter(|cell| !failed.contains(cell)).collect();
        // A cell that failed in an earlier round does not come back as one that may have the best value.
        let has_values = |cell: &usize| !runs[*cell].is_empty() && incomparable(question, &runs[*cell]).is_none();
        let ran: Vec<usize> = (0..candidates.len()).filter(has_values).collect();
        let (cells, limits) = (candidates.len() as f64, question.limits.len() as f64);
        // With limits, one half of the error is for the goal and the other half for the limits. Without limits, all of
        // it is for the goal.
        let share = if question.limits.is_empty() { 1.0 } else { 0.5 };
        let of_limit = question.error / 2.0 / (2.0 * cells * limits.max(1.0));
        let values = |measure: &Measure| field(question, runs, measure);
        let limits =
            question.limits.iter().map(|limit| LimitField::new(limit, &values(&limit.measure), of_limit, &ran));
        let sign = if question.is_max { 1.0 } else { -1.0 };
        let goal = match &question.goal {
            Sought::Measure(measure) => {
                let field = values(measure).logarithms().signed(sign);
                let (prior, error) = (field.of_differences(), question.error * share / (cells - 1.0).max(1.0));
                GoalField::Measure { field, bounds: Bounds::new(error), prior }
            }
            Sought::Factor(_) => {
                let level = |runs: &Vec<&Trial>| sign * level_of(runs).and_then(Level::as_number).unwrap_or(f64::NAN);
                GoalField::Levels(runs.iter().map(level).collect())
            }
        };
        let limits = limits.collect();
        let mut standings = Self { question, candidates, runs, contenders, dropped, limits, goal };
        standings.drop_by_limits();
        standings.drop_by_goal();
        standings
    }

    /// Whether a cell keeps all limits.
    fn keeps(&self, cell: usize) -> Keeps {
        let all: Vec<Keeps> = self.limits.iter().map(|limit| limit.keeps(cell)).collect();
        match () {
            () if all.contains(&Keeps::No) => Keeps::No,
            () if all.contains(&Keeps::Open) => Keeps::Open,
            () => Keeps::Yes,
        }
    }

    fn remove(&mut self, gone: Vec<(usize, DropReason)>) {
        self.contenders.retain(|cell| gone.iter().all(|(other, _)| other != cell));
        self.dropped.extend(gone.into_iter().map(|(cell, why)| Dropped { cell: self.candidates[cell].clone(), why }));
    }

    fn drop_by_limits(&mut self) {
        let misses = |cell: &usize| {
            let limit = self.limits.iter().find(|limit| limit.keeps(*cell) == Keeps::No)?;
            Some((*cell, DropReason::Misses { limit: limit.text().to_owned(), value: limit.in_words(*cell) }))
        };
        let gone = self.contenders.iter().filter_map(misses).collect();
        self.remove(gone);
    }

    /// The contenders that surely keep all limits.
    pub fn sure(&self) -> Vec<usize> {
        self.contenders.iter().copied().filter(|cell| self.keeps(*cell) == Keeps::Yes).collect()
    }

    /// The best of these cells by their values so far; the first one of equal cells.
    fn best_of(&self, cells: &[usize]) -> Option<usize> {
        let value = |cell: usize| match &self.goal {
            GoalField::Measure { field, .. } => field.mean(cell),
            GoalField::Levels(levels) => levels[cell],
        };
        cells.iter().copied().reduce(|best, cell| if value(cell) > value(best) { cell } else { best })
    }

    /// The logarithm of how much better `cell` is than `other`; `None` before two rounds, and for levels.
    fn ahead(&self, cell: usize, other: usize) -> Option<Bounded> {
        let GoalField::Measure { field, bounds, prior } = &self.goal else { return None };
        field.difference(cell, other, bounds, *prior)
    }

    fn drop_by_goal(&mut self) {
        let Some(leader) = self.best_of(&self.sure()) else { return };
        let than = self.candidates[leader].clone();
        let behind = |cell: &usize| {
            let why = match &self.goal {
                GoalField::Levels(levels) => {
                    let level = level_of(&self.runs[leader])?;
                    let (than, level) = (than.clone(), level.to_string());
                    (levels[*cell] < levels[leader]).then_some(DropReason::Behind { than, level })?
                }
                GoalField::Measure { .. } => {
                    let bound = self.ahead(*cell, leader).filter(|bound| *cell != leader && bound.high() < 0.0)?;
                    let worse = |log: f64| self.worse_by(log);
                    DropReason::Worse { than: than.clone(), by: worse(bound.mean), at_least: worse(bound.high()) }
                }
            };
            Some((*cell, why))
        };
        let gone = self.contenders.iter().filter_map(behind).collect();
        self.remove(gone);
    }

    /// The share by which a cell is worse than another one, from the logarithm by which it is ahead. For example, 80
    /// images/s are 20 % worse than 100 images/s, and 12 s are 20 % worse than 10 s.
    fn worse_by(&self, ahead: f64) -> f64 {
        if self.question.is_max { -ahead.exp_m1() } else { (-ahead).exp_m1() }
    }

    /// The cells that have to run again: the contenders, and the cells that may have the best value of a measure if a
    /// limit compares others with the best value.
    pub fn wanted(&self, active: &[usize]) -> Vec<usize> {
        let references = self.limits.iter().flat_map(|limit| limit.references().iter().copied());
        let mut wanted: Vec<usize> = self.contenders.iter().copied().chain(references).collect();
        // A cell that did not run in a round cannot be paired with the others any more.
        wanted.retain(|cell| active.contains(cell));
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Why the search is over, if the values decide that it is; the budget is not considered.
    pub fn end(&self) -> Option<SearchEnd> {
        if self.contenders.is_empty() {
            return Some(SearchEnd::None);
        }
        let sure = self.sure();
        let leader = self.best_of(&sure)?;
        let others = || self.contenders.iter().copied().filter(move |cell| *cell != leader);
        if others().next().is_none() {
            return Some(SearchEnd::One);
        }
        let is_no_better = |cell: usize| match &self.goal {
            GoalField::Levels(levels) => levels[cell] <= levels[leader],
            GoalField::Measure { .. } => {
                self.ahead(cell, leader).is_some_and(|bound| bound.high() <= self.question.tie)
            }
        };
        others().all(is_no_better).then_some(SearchEnd::Ties)
    }

    /// The cell that is chosen: the best one that surely keeps all limits; if there is none, the best one whose means
    /// keep them; else the best contender.
    pub fn chosen(&self) -> Option<usize> {
        let by_mean = || {
            self.contenders.iter().copied().filter(|cell| self.limits.iter().all(|limit| limit.keeps_by_mean(*cell)))
        };
        self.best_of(&self.sure())
            .or_else(|| self.best_of(&by_mean().collect::<Vec<_>>()))
            .or_else(|| self.best_of(&self.contenders))
    }

    /// The limits that a cell does not surely keep.
    pub fn unsure(&self, cell: usize) -> Vec<String> {
        let open = self.limits.iter().filter(|limit| limit.keeps(cell) != Keeps::Yes);
        open.map(|limit| format!("{}: {}", limit.text(), limit.in_words(cell))).collect()
    }

    /// Whether a cell ties with the chosen one, and by how much it is at most better and at most worse, as shares.
    pub fn beside(&self, cell: usize, chosen: usize) -> (bool, Option<(f64, f64)>) {
        if let GoalField::Levels(levels) = &self.goal {
            return (levels[cell] == levels[chosen], None);
        }
        let Some(bound) = self.ahead(cell, chosen) else { return (false, None) };
        let is_tie = bound.high() <= self.question.tie && bound.mean.abs() <= self.question.tie;
        let better = -self.worse_by(bound.high());
        (is_tie, Some((better.max(0.0), self.worse_by(bound.low()).max(0.0))))
    }
}

fn level_of<'r>(runs: &[&'r Trial]) -> Option<&'r Level> {
    runs.first().and_then(|run| run.level.as_ref())
}

/// Why a cell cannot be compared with others; `None` if all of its runs have values with ratios.
fn incomparable(question: &Question, runs: &[&Trial]) -> Option<DropReason> {
    let failed = runs.iter().find_map(|run| run.values.as_ref().err().cloned());
    failed.or_else(|| not_positive(question, runs))
}

/// Why a cell's values cannot be compared as ratios; `None` if they can.
fn not_positive(question: &Question, runs: &[&Trial]) -> Option<DropReason> {
    let goal = if let Sought::Measure(measure) = &question.goal { Some(measure) } else { None };
    let of_best = question.limits.iter().filter(|limit| matches!(limit.bound, LimitBound::OfBest(_)));
    let last = runs.last()?.values.as_ref().ok()?;
    let measure = goal
        .into_iter()
        .chain(of_best.map(|limit| &limit.measure))
        .find(|measure| last.get(&measure.key).is_some_and(|value| *value <= 0.0))?;
    let found = format!("it is {}, and ratios need values above 0", last[&measure.key]);
    Some(DropReason::NoValue { measure: measure.key.to_string(), found })
}
