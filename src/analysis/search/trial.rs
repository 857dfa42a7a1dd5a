//! An ended run as a search sees it.

use std::collections::BTreeMap;

use super::question::{Question, Sought};
use crate::analysis::comparison::is_impossible;
use crate::analysis::rounding::clock_resolution;
use crate::analysis::{Key, Level, RunState, RunSummary, summarise_run};
use crate::plan::DropReason;
use crate::store::RunRecord;

/// A run of a search that has finished or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its cell's id.
    pub cell: String,
    /// The number of its repeat.
    pub repeat: u32,
    /// The values of the measures that the search needs, or why the cell is dropped.
    pub values: Result<BTreeMap<Key, f64>, DropReason>,
    /// The resolution of the clock of its steps, as a share of a step.
    pub rounding: f64,
    /// The level of the factor that is sought, if one is.
    pub level: Option<Level>,
    /// Its steps.
    pub steps: u64,
    /// How long it took, in seconds.
    pub time_s: f64,
}

impl Trial {
    /// A run as a trial; `None` for a run that has not ended, or was cancelled or interrupted. Its record must contain
    /// the steps.
    pub fn of(record: &RunRecord, question: &Question) -> Option<Self> {
        let values = match record.state {
            RunState::Finished => {
                let mut run = summarise_run(record);
                run.set_own(&question.own_measures);
                let mut values = BTreeMap::new();
                let missing = question.measures().find_map(|measure| match value(&run, measure) {
                    Ok(value) => {
                        values.insert(measure.key.clone(), value);
                        None
                    }
                    Err(found) => Some(DropReason::NoValue { measure: measure.key.to_string(), found }),
                });
                let rounding = clock_resolution(&run);
                return Some(Self { rounding, ..Self::new(record, question, missing.map_or(Ok(values), Err)) });
            }
            RunState::Failed | RunState::TimedOut => {
                let reason = record.reason.as_deref().filter(|reason| *reason != record.state.name());
                let why = reason
                    .map_or(record.state.name().to_owned(), |reason| format!("{}: {reason}", record.state.name()));
                Err(DropReason::Failed { why })
            }
            _ => return None,
        };
        Some(Self::new(record, question, values))
    }

    fn new(record: &RunRecord, question: &Question, values: Result<BTreeMap<Key, f64>, DropReason>) -> Self {
        let level = if let Sought::Factor(key) = &question.goal { record.levels.get(key).cloned() } else { None };
        let steps = record.ranks.iter().map(|rank| rank.steps.len() as u64).max().unwrap_or(0);
        let time_s = record.launched_s().unwrap_or(0.0);
        Self { cell: record.cell.clone(), repeat: record.repeat, values, rounding: 0.0, level, steps, time_s }
    }
}

/// The value of a measure of a finished run, or the reason why it has none.
fn value(run: &RunSummary, measure: &crate::analysis::Measure) -> Result<f64, String> {
    if measure.is_told() && is_impossible(run) {
        return Err("its program reported impossible times".to_owned());
    }
    match run.value_alone(measure) {
        Some(value) if value.is_finite() => Ok(value),
        Some(_) => Err("it is not a finite number".to_owned()),
        None if run.had_company() => Err("other runs were on the machine at the same time".to_owned()),
        None => Err("the run has none".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::fixture::finished;
    use crate::plan::Plan;

    #[test]
    fn values_are_computed_by_the_plans_measures_whatever_the_session_has_under_their_names() {
        let text = |formula: &str| {
            format!(
                "version = 1\nrepeats = 3\n[factors]\nbatch_size = [32, 64]\n[measures]\ncost = \"{formula}\"\n[search]\ngoal = \"min cost\"\n"
            )
        };
        let plan = |formula: &str| Plan::parse(&text(formula), "p.toml").unwrap();
        let question = Question::of(&plan("2 * step_time_s")).unwrap().unwrap();
        let edited = plan("3 * step_time_s").measures.iter().map(|planned| planned.measure.clone()).collect();
        let record = RunRecord { own_measures: edited, ..finished() };
        let step_time_s = summarise_run(&record).value("step_time_s").unwrap();
        let value = Trial::of(&record, &question).unwrap().values.unwrap()["cost"];
        assert!((value - 2.0 * step_time_s).abs() < 1e-12, "{value} of {step_time_s}");
    }
}
