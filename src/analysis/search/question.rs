//! The question of a search with the measures that it names, and the check that it can be answered.

use std::sync::Arc;

use crate::analysis::own::measures_with;
use crate::analysis::{Better, Measure, Measures, THROUGHPUT};
use crate::plan::{
    Bound, Domain, KeptLimit, Key, MeasureUnit, OwnMeasure, Plan, PlanError, Problem, Search, WorkloadSpec, suggestion,
};

/// Measures that quick runs do not have: see `multicard help method`.
const ONLY_FULL: [&str; 4] = ["accuracy", "test_loss", "evaluation_time_s", "epochs_to_98_percent"];

/// The question of a plan whose names are known.
#[derive(Clone, Debug)]
pub struct Question {
    /// The goal.
    pub(super) goal: Sought,
    /// Whether high values are sought.
    pub(super) is_max: bool,
    pub(super) limits: Vec<Limit>,
    /// The plan's own measures. Values are computed from these, even if the session's measures of the same names have been changed.
    pub(super) own_measures: Arc<[OwnMeasure]>,
    /// Whether a program of the user's own reports the values.
    pub(super) is_program: bool,
    /// The logarithm of the largest ratio that counts as equal.
    pub(super) tie: f64,
    /// The probability of dropping the best cell.
    pub(super) error: f64,
    pub(super) runs: Option<u32>,
    pub(super) minutes: Option<f64>,
    /// The most repeats of a cell.
    pub(super) repeats: u32,
    pub(super) seed: u64,
}

/// The goal of a search.
#[derive(Clone, Debug)]
pub(super) enum Sought {
    /// The best value of a measure.
    Measure(Measure),
    /// The best level of a factor among the cells that keep the limits.
    Factor(Key),
}

/// A limit whose measure is known.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub text: String,
    pub measure: Measure,
    pub is_above: bool,
    pub is_strict: bool,
    pub bound: LimitBound,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LimitBound {
    /// A value in the unit of the measure.
    Value(f64),
    /// A share of the best value.
    OfBest(f64),
}

/// What is wrong with a part of a search: its key in the file, its line, and the message.
type Wrong = (String, usize, String);

impl Question {
    /// The question of a plan; `None` for a plan without a search.
    ///
    /// # Errors
    /// What is wrong with it, in the order of the file.
    pub fn of(plan: &Plan) -> Result<Option<Self>, Vec<String>> {
        match Self::checked(plan) {
            Ok(question) => Ok(question),
            Err(wrong) => Err(wrong.into_iter().map(|(key, _, message)| format!("{key}: {message}")).collect()),
        }
    }

    fn checked(plan: &Plan) -> Result<Option<Self>, Vec<Wrong>> {
        let Some(search) = &plan.search else { return Ok(None) };
        let spec = &plan.first.spec;
        let own_measures: Arc<[OwnMeasure]> = plan.measures.iter().map(|planned| planned.measure.clone()).collect();
        let measures = measures_with(spec, &own_measures);
        let known = Known { spec, measures: &measures, is_quick: !plan.mode.is_full() };
        let mut wrong: Vec<Wrong> = Vec::new();
        let goal = known.goal(plan, search);
        let mut limits = Vec::new();
        for limit in &search.keep {
            match known.limit(limit, search) {
                Ok(known) => limits.push(known),
                Err(message) => wrong.push(("search.keep".to_owned(), limit.line, message)),
            }
        }
        wrong.extend(contradiction(&limits).map(|(text, message)| {
            let line = search.keep.iter().find(|limit| limit.text == text).map_or(search.goal.line, |limit| limit.line);
            ("search.keep".to_owned(), line, message)
        }));
        let goal = match goal {
            Ok(goal) if wrong.is_empty() => goal,
            Ok(_) => return Err(wrong),
            Err(message) => {
                wrong.insert(0, ("search.goal".to_owned(), search.goal.line, message));
                return Err(wrong);
            }
        };
        Ok(Some(Self {
            goal,
            is_max: search.goal.is_max,
            limits,
            own_measures,
            is_program: spec.command.is_some(),
            tie: search.tie.ln_1p(),
            error: 1.0 - search.confidence,
            runs: search.runs,
            minutes: search.minutes,
            repeats: plan.repeats,
            seed: plan.seed,
        }))
    }

    /// The question of a plan for readers, with the names and the unit of what it is about: `max Throughput (images/s), keep Peak allocated
    /// < 24 GB`; `None` if the plan asks none that can be answered.
    pub fn for_readers(plan: &Plan) -> Option<String> {
        let (search, question) = (plan.search.as_ref()?, Self::of(plan).ok()??);
        let goal = match &question.goal {
            Sought::Measure(measure) if measure.shown_unit.is_empty() => measure.name.clone(),
            Sought::Measure(measure) => format!("{} ({})", measure.name, measure.shown_unit),
            Sought::Factor(key) => {
                plan.first.spec.factor(key).map_or(key.to_string(), |factor| factor.name.to_string())
            }
        };
        let limits = search.keep.iter().zip(&question.limits);
        let limits = limits.map(|(kept, limit)| format!("{} {}", limit.measure.name, kept.sign_and_bound()));
        Some(search.question_about(&goal, &limits.collect::<Vec<_>>()))
    }

    /// The measures that each run must have.
    pub(super) fn measures(&self) -> impl Iterator<Item = &Measure> {
        let goal = if let Sought::Measure(measure) = &self.goal { Some(measure) } else { None };
        goal.into_iter().chain(self.limits.iter().map(|limit| &limit.measure))
    }

    /// Why a search over this number of cells cannot be answered; `None` if it can.
    pub fn refuses(&self, candidates: usize) -> Option<String> {
        match (candidates, self.runs) {
            (0, _) => Some("no cell can run here: there is nothing to search".to_owned()),
            (1, _) => Some("only one cell can run here: there is nothing to search; give more levels".to_owned()),
            (cells, Some(runs)) if (runs as usize) < cells => Some(format!(
                "search.runs: {runs} runs are fewer than one of each of {cells} cells: raise runs, or give fewer levels"
            )),
            _ => None,
        }
    }
}

/// Checks the search of a plan that was read from `origin`.
///
/// # Errors
/// It names an unknown measure, a bound with another unit, or limits that no cell can keep; the error names its line.
pub fn check_search(plan: &Plan, origin: &str) -> Result<(), PlanError> {
    let problem = |(key, line, message)| Problem { origin: origin.to_owned(), line, key, message };
    let problems = |wrong: Vec<Wrong>| PlanError::Invalid(wrong.into_iter().map(problem).collect());
    Question::checked(plan).map(drop).map_err(problems)
}

/// The measures and factors that the cells of a plan have.
struct Known<'a> {
    spec: &'a WorkloadSpec,
    measures: &'a Measures,
    is_quick: bool,
}

impl Known<'_> {
    fn goal(&self, plan: &Plan, search: &Search) -> Result<Sought, String> {
        let key = &search.goal.key;
        let Some(factor) = self.spec.factor(key) else {
            let measure = self.measure(key)?;
            return Ok(Sought::Measure(measure));
        };
        let is_number = matches!(factor.domain, Domain::Integer { .. } | Domain::Number { .. });
        if !is_number && !plan.blocks().all(|block| block.levels(key).iter().all(|level| level.as_number().is_some())) {
            return Err(format!("{key} has levels that are no numbers: name a measure, or a factor with numbers"));
        }
        if !plan.varied().contains(&key) {
            return Err(format!("{key} has one level: give more, or seek a measure"));
        }
        Ok(Sought::Factor(key.clone()))
    }

    fn measure(&self, key: &str) -> Result<Measure, String> {
        let Some(measure) = self.measures.find(key) else {
            let known = self.measures.iter().map(|measure| &*measure.key);
            let names: Vec<&str> = std::iter::once(THROUGHPUT).chain(known).collect();
            return Err(format!("there is no measure {key:?}{}", suggestion(key, &names)));
        };
        if self.measures.is_of_reports(key) {
            return Err(format!(
                "{key} is read from recordings, some of which are imported later: seek a measure of the runs themselves"
            ));
        }
        if self.is_quick && ONLY_FULL.contains(&&*measure.key) {
            return Err(format!("quick runs have no {key}: leave out mode = \"quick\", or this measure"));
        }
        Ok(measure.clone())
    }

    fn limit(&self, limit: &KeptLimit, search: &Search) -> Result<Limit, String> {
        let KeptLimit { key, text, is_above, is_strict, .. } = limit;
        if self.spec.factor(key).is_some() {
            return Err(format!("{key} is a factor: give it fewer levels, or leave cells out with [[constraint]]"));
        }
        let measure = self.measure(key)?;
        let goal = self.measure(&search.goal.key).ok().filter(|_| self.spec.factor(&search.goal.key).is_none());
        let is_goal = goal.is_some_and(|goal| goal.key == measure.key);
        let bound = match &limit.bound {
            Bound::OfBest(_) if is_goal => {
                return Err(format!("{key} is the goal, so the chosen cell has the best value: leave out this limit"));
            }
            Bound::OfBest(share) => LimitBound::OfBest(share_of_best(*share, *is_above, &measure)?),
            Bound::Value(..) if is_goal && search.goal.is_max != *is_above => {
                return Err(format!(
                    "the goal {} cannot meet this limit, which asks for the opposite: change one of them",
                    search.goal.text()
                ));
            }
            Bound::Value(value, unit) => LimitBound::Value(value_in_unit(*value, unit, &measure, *is_above)?),
        };
        Ok(Limit { text: text.clone(), measure, is_above: *is_above, is_strict: *is_strict, bound })
    }
}

fn share_of_best(share: f64, is_above: bool, measure: &Measure) -> Result<f64, String> {
    let key = &measure.key;
    match (measure.better, is_above) {
        (Better::Neither, _) => Err(format!(
            "it is not known whether high or low values of {key} are good: compare it with a number, or give better in [measures]"
        )),
        (Better::Higher, true) if share <= 1.0 => Ok(share),
        (Better::Lower, false) if share >= 1.0 => Ok(share),
        (Better::Higher, _) => Err(format!("no cell has more {key} than the best: write {key} >= 95 % of best")),
        (Better::Lower, _) => Err(format!("no cell has less {key} than the best: write {key} <= 105 % of best")),
    }
}

/// The bound in the measure's unit.
fn value_in_unit(value: f64, unit: &MeasureUnit, measure: &Measure, is_above: bool) -> Result<f64, String> {
    let own = MeasureUnit::parse(&measure.unit);
    let key = &measure.key;
    if !own.is_like(unit) {
        let named = |text: String| if text.is_empty() { "a plain number".to_owned() } else { text };
        let (own_name, found) = (named(own.to_string()), named(unit.to_string()));
        let like = if measure.shown_unit.is_empty() { "0.5".to_owned() } else { format!("3 {}", measure.shown_unit) };
        return Err(format!("{key} has the unit {own_name}, and the bound {found}: write a bound such as {like}"));
    }
    let value = value / own.factor;
    let (least, most) = measure.possible;
    let shown = |value: f64| super::words::shown(measure, value);
    match is_above {
        true if value > most => Err(format!("no cell can keep it: {key} is at most {}", shown(most))),
        false if value < least => Err(format!("no cell can keep it: {key} is at least {}", shown(least))),
        _ => Ok(value),
    }
}

/// Finds two limits of a measure that no value can keep together. Returns the text of the second limit, and the problem.
fn contradiction(limits: &[Limit]) -> Option<(String, String)> {
    let value = |limit: &Limit| if let LimitBound::Value(value) = limit.bound { Some(value) } else { None };
    limits.iter().enumerate().find_map(|(place, one)| {
        let other = limits[..place].iter().find(|other| {
            let (Some(own), Some(others)) = (value(one), value(other)) else { return false };
            let (above, below) = if one.is_above { (own, others) } else { (others, own) };
            let is_empty = above > below || above == below && (one.is_strict || other.is_strict);
            one.measure.key == other.measure.key && one.is_above != other.is_above && is_empty
        })?;
        Some((one.text.clone(), format!("no value keeps {} and {}: change one of them", other.text, one.text)))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn plan(goal: &str, keep: &str, more: &str) -> Plan {
        let text = format!(
            "version = 1\nrepeats = 6\n{more}\n[factors]\nbatch_size = [32, 64]\nprecision = [\"fp32\", \"bf16\"]\n[search]\ngoal = \"{goal}\"\nkeep = [{keep}]\n"
        );
        Plan::parse(&text, "p.toml").unwrap_or_else(|error| panic!("{error}"))
    }

    fn refused(goal: &str, keep: &str, more: &str) -> String {
        check_search(&plan(goal, keep, more), "p.toml").map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn readers_are_told_names_and_units_in_place_of_keys() {
        let shown = |goal: &str, keep: &str| Question::for_readers(&plan(goal, keep, "")).unwrap();
        let fastest = shown("max throughput", "\"peak_allocated_bytes < 24 GB\"");
        assert_eq!(fastest, "max Throughput (distinct images) (images/s), keep Peak allocated < 24 GB");
        assert_eq!(shown("min batch_size", ""), "min Batch size");
    }

    #[test]
    fn good_questions_are_accepted_with_aliases_units_and_own_measures() {
        assert_eq!(refused("max throughput", "\"peak_allocated_bytes < 24 GiB\", \"accuracy >= 98 %\"", ""), "");
        assert_eq!(refused("min batch_size", "\"throughput >= 95 % of best\"", ""), "");
        assert_eq!(refused("min step_time_s", "\"step_time_s <= 20 ms\"", ""), "");
        assert_eq!(
            refused("max per_joule", "\"power_w < 0.4 kW\"", "[measures]\nper_joule = \"throughput / power_w\""),
            ""
        );
    }

    #[test]
    fn bad_questions_are_refused_with_their_line_and_what_to_do() {
        for (goal, keep, more, expected) in [
            ("max throughputs", "", "", "p.toml:8: search.goal: there is no measure \"throughputs\"; did you mean"),
            ("max precision", "", "", "p.toml:8: search.goal: precision has levels that are no numbers"),
            ("max epochs", "", "", "p.toml:8: search.goal: epochs has one level"),
            (
                "max throughput",
                "\"peak_allocated_bytes < 24\"",
                "",
                "p.toml:9: search.keep: peak_allocated_bytes has the unit B, and the bound a plain number: write a bound such as 3 GB",
            ),
            ("max throughput", "\"step_time_s < 3 GB\"", "", "step_time_s has the unit s, and the bound B"),
            ("max throughput", "\"accuracy >= 120 %\"", "", "no cell can keep it: accuracy is at most 100 %"),
            ("max throughput", "\"throughput >= 90 % of best\"", "", "throughput is the goal"),
            ("max throughput", "\"throughput < 900 images/s\"", "", "the goal max throughput cannot meet this limit"),
            (
                "max throughput",
                "\"accuracy > 90 %\", \"accuracy < 80 %\"",
                "",
                "no value keeps accuracy > 90 % and accuracy < 80 %",
            ),
            ("max throughput", "\"step_time_s <= 95 % of best\"", "", "no cell has less step_time_s than the best"),
            (
                "max throughput",
                "\"power_w <= 105 % of best\"",
                "",
                "it is not known whether high or low values of power_w are good",
            ),
            ("max throughput", "\"batch_size > 32\"", "", "batch_size is a factor"),
            ("max throughput", "\"accuracy > 90 %\"", "[measure]\nmode = \"quick\"", "quick runs have no accuracy"),
        ] {
            let found = refused(goal, keep, more);
            assert!(found.contains(expected), "{goal} {keep}: {found}");
        }
    }

    #[test]
    fn a_search_needs_cells_and_a_run_of_each() {
        let text = "version = 1\nrepeats = 6\n[factors]\nbatch_size = [32, 64]\n[search]\ngoal = \"max throughput\"\nruns = 10\n";
        let question = Question::of(&Plan::parse(text, "p.toml").unwrap()).unwrap().unwrap();
        assert!(question.refuses(0).unwrap().contains("no cell can run here"));
        assert!(question.refuses(1).unwrap().contains("only one cell"));
        // The same words are read in the terminal, where nothing can be ticked.
        assert_eq!(
            question.refuses(11).unwrap(),
            "search.runs: 10 runs are fewer than one of each of 11 cells: raise runs, or give fewer levels"
        );
        assert_eq!(question.refuses(10), None);
    }
}
