//! A search as a pure function: its recorded steps and its ended runs determine what comes next.

use std::collections::{HashMap, HashSet};

use super::decision::Standings;
use super::question::{Question, Sought};
use super::trial::Trial;
use super::words::shown_interval;
use crate::analysis::{Value, summarise};
use crate::plan::{SearchCost, SearchEnd, SearchStep, SearchVerdict, Standing, round_order};

/// A search that was begun.
pub struct Race<'a> {
    question: &'a Question,
    candidates: &'a [String],
    /// Their places by their ids.
    places: HashMap<&'a str, usize>,
    first_repeat: u32,
    /// The current round, or the last one if the search is over, counted from 1.
    round: u32,
    /// The candidates that run in it, in order; empty after the last round.
    active: Vec<String>,
    /// The candidates that may be the answer.
    contenders: Vec<usize>,
    /// The contenders before the last complete round, and the cells that ran in that round.
    before: (Vec<usize>, Vec<usize>),
    is_over: bool,
}

/// The next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// These cells need a run with this number of repeat, in this order.
    Runs(Vec<String>, u32),
    /// This step follows from the ended runs. The caller records it and asks for the next one.
    Step(SearchStep),
    /// It is over.
    Over,
}

impl<'a> Race<'a> {
    /// The first step of a search over these cells, in the order of the plan.
    pub fn begin(candidates: Vec<String>, first_repeat: u32) -> SearchStep {
        SearchStep::Begun { candidates, first_repeat }
    }

    /// The search after these steps; `None` if they do not begin one.
    pub fn after(question: &'a Question, steps: &'a [SearchStep]) -> Option<Self> {
        let Some(SearchStep::Begun { candidates, first_repeat }) = steps.first() else { return None };
        let all: Vec<usize> = (0..candidates.len()).collect();
        let active = order(question.seed, candidates, *first_repeat, &all, None);
        let mut race = Self {
            question,
            candidates,
            places: candidates.iter().enumerate().map(|(place, id)| (id.as_str(), place)).collect(),
            first_repeat: *first_repeat,
            round: 1,
            active,
            before: (all.clone(), all.clone()),
            contenders: all,
            is_over: false,
        };
        for step in &steps[1..] {
            match step {
                SearchStep::Begun { .. } => {}
                SearchStep::Round { dropped, next, .. } => {
                    race.before = (race.contenders.clone(), race.places(&race.active));
                    let gone: HashSet<&str> = dropped.iter().map(|dropped| dropped.cell.as_str()).collect();
                    race.contenders.retain(|place| !gone.contains(candidates[*place].as_str()));
                    race.active.clone_from(next);
                    race.round += u32::from(!next.is_empty());
                }
                SearchStep::Ended(_) => race.is_over = true,
            }
        }
        Some(race)
    }

    fn places(&self, cells: &[String]) -> Vec<usize> {
        cells.iter().filter_map(|cell| self.places.get(cell.as_str()).copied()).collect()
    }

    /// The repeat number of the current round.
    pub fn repeat(&self) -> u32 {
        self.first_repeat + self.round - 1
    }

    /// The next step, which follows from the ended runs.
    pub fn next(&self, trials: &[Trial]) -> Next {
        if self.is_over {
            return Next::Over;
        }
        let costs = Costs::of(trials);
        let runs = self.runs_by_round(trials);
        if self.active.is_empty() {
            return Next::Step(SearchStep::Ended(self.verdict(&costs, &runs)));
        }
        let active = self.places(&self.active);
        let missing: Vec<String> = active
            .iter()
            .filter(|place| runs[**place].len() < self.round as usize)
            .map(|place| self.candidates[*place].clone())
            .collect();
        if !missing.is_empty() {
            return Next::Runs(missing, self.repeat());
        }
        let standings = Standings::new(self.question, self.candidates, &runs, &self.contenders, &active);
        let wanted = standings.wanted(&active);
        let is_over = standings.end().is_some() || self.budget_end(&costs, &wanted).is_some();
        let next = if is_over {
            Vec::new()
        } else {
            let last = self.active.last().map(String::as_str);
            order(self.question.seed, self.candidates, self.repeat() + 1, &wanted, last)
        };
        Next::Step(SearchStep::Round { round: self.round, dropped: standings.dropped, next })
    }

    /// For each candidate its ended runs by round, up to the first round without one.
    fn runs_by_round<'t>(&self, trials: &'t [Trial]) -> Vec<Vec<&'t Trial>> {
        let mut runs: HashMap<(&str, u32), &Trial> = HashMap::with_capacity(trials.len());
        for trial in trials {
            let kept = runs.entry((&trial.cell, trial.repeat)).or_insert(trial);
            // If a failed run was repeated and finished, the finished run counts.
            if kept.values.is_err() && trial.values.is_ok() {
                *kept = trial;
            }
        }
        let run = |cell: &String, round: u32| runs.get(&(cell.as_str(), self.first_repeat + round)).copied();
        let of_cell = |cell: &String| (0..self.round).map_while(|round| run(cell, round)).collect();
        self.candidates.iter().map(of_cell).collect()
    }

    /// Which part of the budget does not cover another round of these cells; `None` if all parts do.
    fn budget_end(&self, costs: &Costs, wanted: &[usize]) -> Option<SearchEnd> {
        if self.round >= self.question.repeats {
            return Some(SearchEnd::Repeats);
        }
        if self.question.runs.is_some_and(|most| costs.made.runs + wanted.len() as u64 > u64::from(most)) {
            return Some(SearchEnd::Runs);
        }
        let most_s = self.question.minutes? * 60.0;
        let next_s: f64 = wanted.iter().map(|place| costs.mean(&self.candidates[*place]).1).sum();
        (costs.made.time_s + next_s > most_s).then_some(SearchEnd::Minutes)
    }

    fn verdict(&self, costs: &Costs, runs: &[Vec<&Trial>]) -> SearchVerdict {
        let (before, active) = &self.before;
        let (before, active) = (before.as_slice(), active.as_slice());
        let standings = Standings::new(self.question, self.candidates, runs, before, active);
        let end =
            standings.end().or_else(|| self.budget_end(costs, &standings.wanted(active))).unwrap_or(SearchEnd::Repeats);
        let chosen = standings.chosen();
        let id = |place: usize| self.candidates[place].clone();
        let other = |place: &usize| {
            let (is_tie, within) = standings.beside(*place, chosen?);
            let unsure = standings.unsure(*place);
            Some(Standing { cell: id(*place), is_tie: is_tie && unsure.is_empty(), within, unsure })
        };
        let others = standings.contenders.iter().filter(|place| Some(**place) != chosen).filter_map(other).collect();
        SearchVerdict {
            end,
            chosen: chosen.map(id),
            values: chosen.map_or_else(Vec::new, |place| self.values(&runs[place])),
            unsure: chosen.map_or_else(Vec::new, |place| standings.unsure(place)),
            others,
            made: costs.made,
            grid: self.grid(costs),
        }
    }

    /// The values of a cell in words: the goal, then the limits.
    fn values(&self, runs: &[&Trial]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        if let (Sought::Factor(key), Some(level)) =
            (&self.question.goal, runs.first().and_then(|run| run.level.as_ref()))
        {
            words.push(format!("{key} {level}"));
        }
        for measure in self.question.measures() {
            let values: Vec<f64> =
                runs.iter().filter_map(|run| run.values.as_ref().ok()?.get(&measure.key).copied()).collect();
            let Some(Value { median, interval, .. }) = summarise(&values) else { continue };
            let ends = interval.map(|interval| (interval.low, interval.high)).filter(|(low, high)| low < high);
            let word = format!("{} {}", measure.name, shown_interval(measure, median, ends));
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    }

    fn grid(&self, costs: &Costs) -> SearchCost {
        let repeats = f64::from(self.question.repeats);
        let costs: Vec<(f64, f64)> = self.candidates.iter().map(|cell| costs.mean(cell)).collect();
        SearchCost {
            runs: self.candidates.len() as u64 * u64::from(self.question.repeats),
            steps: costs.iter().map(|(steps, _)| (steps * repeats).round() as u64).sum(),
            time_s: costs.iter().map(|(_, time_s)| time_s * repeats).sum(),
        }
    }
}

/// The cost of runs.
struct Costs<'t> {
    /// All together.
    made: SearchCost,
    by_cell: HashMap<&'t str, SearchCost>,
}

impl<'t> Costs<'t> {
    fn of(trials: &'t [Trial]) -> Self {
        let mut costs = Self { made: SearchCost::default(), by_cell: HashMap::new() };
        for trial in trials {
            for cost in [&mut costs.made, costs.by_cell.entry(&trial.cell).or_default()] {
                cost.runs += 1;
                cost.steps += trial.steps;
                cost.time_s += trial.time_s;
            }
        }
        costs
    }

    /// The mean steps and the mean time of a cell's runs.
    fn mean(&self, cell: &str) -> (f64, f64) {
        let SearchCost { runs, steps, time_s } = self.by_cell.get(cell).copied().unwrap_or_default();
        let count = runs.max(1) as f64;
        (steps as f64 / count, time_s / count)
    }
}

/// These candidates in the random order of a repeat. The first one differs from the last one of the round before.
fn order(seed: u64, candidates: &[String], repeat: u32, wanted: &[usize], last: Option<&str>) -> Vec<String> {
    let mut places = round_order(seed, repeat, candidates.len());
    let wanted: HashSet<&usize> = wanted.iter().collect();
    places.retain(|place| wanted.contains(place));
    if places.len() > 1 && last.is_some_and(|last| candidates[places[0]] == last) {
        places.rotate_left(1);
    }
    places.into_iter().map(|place| candidates[place].clone()).collect()
}
