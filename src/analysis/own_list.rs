//! Changes of a session's list of user-defined measures: what they do to the list, and whether they can be made.

use super::own::{OwnList, OwnOutcome, measures_with, numbers};
use super::{Measure, RunSummary, THROUGHPUT};
use crate::plan::{Formula, Key, MOST_OWN_MEASURES, OwnMeasure, WorkloadSpec, workloads};

/// Checks a measure that is to be added to the list of a session with these runs, or to replace the measure with the same key.
///
/// # Errors
/// Its formula is wrong, runs report a reading under its key, another measure of the list would become wrong, or the list is full.
pub fn check_edit(runs: &[RunSummary], list: &[OwnMeasure], measure: &OwnMeasure) -> Result<OwnOutcome, String> {
    let key = &measure.key;
    let reports = |run: &&RunSummary| run.value(key).is_some() && run.measures.find(key).is_none();
    if let Some(run) = runs.iter().find(reports) {
        return Err(format!("run {} reports a reading {key}: choose another key", run.run));
    }
    let specs = specs_of(runs);
    let edited = with_measure(list, measure);
    if edited.len() > MOST_OWN_MEASURES.max(list.len()) {
        return Err(format!(
            "the session has {} user-defined measures, and at most {MOST_OWN_MEASURES} are used: delete one first",
            list.len()
        ));
    }
    let (before, after) = (OwnList::of(specs.iter().copied(), list), OwnList::of(specs.iter().copied(), &edited));
    let outcome = after.check(key).map_err(|error| error.to_string())?;
    let broken = list.iter().filter(|other| other.key != *key).find_map(|other| {
        let error = after.check(&other.key).err().filter(|_| before.check(&other.key).is_ok())?;
        Some(format!("{} would no longer work: {error}", other.key))
    });
    broken.map_or(Ok(outcome), Err)
}

/// The workloads of runs; all built-in ones if there are no runs.
fn specs_of(runs: &[RunSummary]) -> Vec<&WorkloadSpec> {
    let mut specs: Vec<&WorkloadSpec> = Vec::new();
    for run in runs {
        if !specs.iter().any(|known| **known == *run.workload) {
            specs.push(&run.workload);
        }
    }
    if specs.is_empty() {
        specs.extend(workloads().iter().map(|spec| &**spec));
    }
    specs
}

/// A name that formulas can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormulaName {
    /// The key, as it is written in a formula.
    pub key: Key,
    /// The name on screen.
    pub name: String,
    /// The unit of its values; empty for a plain number.
    pub unit: String,
}

impl FormulaName {
    fn of(measure: &Measure) -> Self {
        Self { key: measure.key.clone(), name: measure.name.clone(), unit: measure.unit.clone() }
    }
}

/// The names that formulas for a workload can use: the measures of the list whose formulas fit, the other measures, and the factors with
/// numbers. Metrics of recordings, which formulas can use as well, are not among them.
fn names_for(spec: &WorkloadSpec, list: &[OwnMeasure]) -> Vec<FormulaName> {
    let measures = measures_with(spec, list);
    let own = list.iter().filter_map(|own| measures.find(&own.key));
    let mut names: Vec<FormulaName> = own.map(FormulaName::of).collect();
    let rate = measures.find(THROUGHPUT);
    names.extend(rate.map(|rate| FormulaName { key: THROUGHPUT.into(), ..FormulaName::of(rate) }));
    names.extend(measures.iter().map(FormulaName::of));
    let factors = numbers(spec).into_iter().filter_map(|(key, _)| spec.factor(&key));
    names.extend(factors.map(|factor| FormulaName {
        key: factor.key.clone(),
        name: factor.name.to_string(),
        unit: factor.unit.to_string(),
    }));
    names
}

/// The names that formulas can use in a session with these runs, each once. Those without a value in these runs come last.
pub fn formula_names(runs: &[RunSummary], list: &[OwnMeasure]) -> Vec<FormulaName> {
    let mut names: Vec<FormulaName> = Vec::new();
    for name in specs_of(runs).into_iter().flat_map(|spec| names_for(spec, list)) {
        if names.iter().all(|known| known.key != name.key) {
            names.push(name);
        }
    }
    let has_value = |run: &RunSummary, key: &str| {
        let measured = run.measures.find(key).is_some_and(|measure| run.value(&measure.key).is_some());
        measured || run.levels.get(key).is_some()
    };
    names.sort_by_key(|name| !runs.iter().any(|run| has_value(run, &name.key)));
    names
}

/// The list with a measure added, or in place of the measure with the same key.
pub fn with_measure(list: &[OwnMeasure], measure: &OwnMeasure) -> Vec<OwnMeasure> {
    let mut list = list.to_vec();
    match list.iter_mut().find(|known| known.key == measure.key) {
        Some(known) => *known = measure.clone(),
        None => list.push(measure.clone()),
    }
    list
}

/// A measure of a list whose formula names this one.
pub fn needs_measure<'a>(list: &'a [OwnMeasure], key: &str) -> Option<&'a OwnMeasure> {
    let names = |other: &OwnMeasure| {
        Formula::parse(&other.formula).is_ok_and(|other| other.names().iter().any(|name| ***name == *key))
    };
    list.iter().find(|other| *other.key != *key && names(other))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run};

    #[test]
    fn an_edit_is_refused_if_it_breaks_another_measure_or_hides_a_reading() {
        let mut record = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.1);
        let reading = record.ranks[0].readings[0].clone();
        record.ranks[0].readings.push(crate::store::ReadingRecord { key: "perplexity".into(), ..reading });
        let runs = [summarise_run(&record)];
        let list = [OwnMeasure::new("rate", "throughput"), OwnMeasure::new("faster", "rate + throughput")];
        let edit = |key: &str, formula: &str| check_edit(&runs, &list, &OwnMeasure::new(key, formula));
        assert!(edit("rate", "throughput / 2").is_ok());
        let broken = edit("rate", "step_time_s").unwrap_err();
        assert!(broken.starts_with("faster would no longer work: character 8: rate has the unit s"), "{broken}");
        let cycle = edit("rate", "faster").unwrap_err();
        assert!(cycle.contains("its own formula is wrong") || cycle.contains("needs"), "{cycle}");
        let hidden = edit("perplexity", "2 * throughput").unwrap_err();
        assert_eq!(hidden, format!("run {} reports a reading perplexity: choose another key", runs[0].run));
        assert_eq!(needs_measure(&list, "rate").unwrap().key, "faster");
        assert!(needs_measure(&list, "faster").is_none());
        assert_eq!(with_measure(&list, &OwnMeasure::new("rate", "1 s"))[0].formula, "1 s");
    }

    #[test]
    fn the_names_of_formulas_are_accepted_in_one_and_those_with_values_come_first() {
        let list = [OwnMeasure::new("rate", "throughput / 2"), OwnMeasure::new("wrong", "nothing + 1")];
        let mut record = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.1);
        record.own_measures = list.clone().into();
        let runs = [summarise_run(&record)];
        let names = formula_names(&runs, &list);
        for name in &names {
            let checked = check_edit(&runs, &list, &OwnMeasure::new("further", &format!("2 * {}", name.key)));
            assert!(checked.is_ok(), "{}: {checked:?}", name.key);
        }
        let place = |key: &str| names.iter().position(|name| *name.key == *key);
        assert_eq!((place("rate"), place("wrong")), (Some(0), None));
        assert!(place("throughput").is_some() && place("gpus").is_some(), "{names:?}");
        let has_value = |name: &&FormulaName| {
            let key = &*name.key;
            key == THROUGHPUT || runs[0].value(key).is_some() || runs[0].levels.get(key).is_some()
        };
        let without: Vec<&FormulaName> = names.iter().skip_while(has_value).collect();
        assert!(!without.is_empty() && !without.iter().any(has_value), "{without:?}");
        let mut keys: Vec<&str> = names.iter().map(|name| &*name.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), names.len(), "each once");
    }

    #[test]
    fn a_full_list_takes_no_further_measure_and_lets_its_own_be_replaced() {
        let runs = [summarise_run(&fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.1))];
        let list: Vec<OwnMeasure> =
            (0..MOST_OWN_MEASURES).map(|number| OwnMeasure::new(&format!("m{number}"), "2 * step_time_s")).collect();
        let refused = check_edit(&runs, &list, &OwnMeasure::new("further", "step_time_s")).unwrap_err();
        assert!(refused.contains("at most 1000 are used: delete one first"), "{refused}");
        assert!(check_edit(&runs, &list, &OwnMeasure::new("m7", "step_time_s")).is_ok());
    }
}
