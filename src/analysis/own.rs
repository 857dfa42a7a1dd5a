//! User-defined measures: checks their formulas against the measures of a workload, with units, and computes them for each run.

mod code;
mod resolver;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Measure, Measures};
use crate::plan::{
    Domain, FormulaError, Key, Levels, MeasureUnit, OwnMeasure, Plan, PlanError, PlannedMeasure, Problem, WorkloadSpec,
};
use code::{NoValue, Values};
use resolver::{Numbers, Resolved, Resolver};

/// The most lists of measures that are kept: one for each workload and edited list.
const MOST_KNOWN: usize = 64;

/// The factors of a workload that formulas can use.
pub(super) fn numbers(spec: &WorkloadSpec) -> Numbers {
    let is_number = |domain: &Domain| matches!(domain, Domain::Integer { .. } | Domain::Number { .. });
    let factors = spec.factors.iter().filter(|factor| is_number(&factor.domain));
    factors.map(|factor| (factor.key.clone(), MeasureUnit::parse(&factor.unit))).collect()
}

/// Resolves a list for a workload. Results are kept, since the runs of a session share them.
fn resolved(base: &Arc<Measures>, spec: &WorkloadSpec, own: &[OwnMeasure]) -> Arc<Resolved> {
    struct Known {
        base: Arc<Measures>,
        numbers: Numbers,
        own: Vec<OwnMeasure>,
        resolved: Arc<Resolved>,
    }
    static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
    let numbers = numbers(spec);
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_this = |known: &&Known| Arc::ptr_eq(&known.base, base) && known.numbers == numbers && known.own == own;
    if let Some(known) = all.iter().find(is_this) {
        return Arc::clone(&known.resolved);
    }
    let resolved = Arc::new(Resolver::new(base, &numbers, own, spec.command.is_some()).resolve());
    if all.len() == MOST_KNOWN {
        all.remove(0);
    }
    all.push(Known { base: Arc::clone(base), numbers, own: own.to_vec(), resolved: Arc::clone(&resolved) });
    resolved
}

/// The measures of a workload, and the measures of a list whose formulas it can compute.
pub(super) fn measures_with(spec: &WorkloadSpec, own: &[OwnMeasure]) -> Arc<Measures> {
    Arc::clone(&resolved(&Measures::of_workload(spec), spec, own).measures)
}

/// Adds the measures of a list to a run's values, and returns the registry with them. `undefined` gets each measure whose result is not
/// defined, with the reason. A measure that needs a value that the run lacks has no value either, and is not passed on.
pub(super) fn own_values(
    base: &Arc<Measures>,
    spec: &WorkloadSpec,
    own: &[OwnMeasure],
    levels: &Levels,
    values: &mut BTreeMap<Key, f64>,
    mut undefined: impl FnMut(&Key, String),
) -> Arc<Measures> {
    if own.is_empty() {
        return Arc::clone(base);
    }
    let resolved = resolved(base, spec, own);
    for (key, code) in &resolved.computed {
        match code.value(&Values { measures: values, levels }) {
            Ok(value) if value.is_finite() => drop(values.insert(key.clone(), value)),
            Ok(_) => undefined(key, "the result is not a finite number".to_owned()),
            Err(NoValue::Undefined(reason)) => undefined(key, reason),
            Err(NoValue::Lacking) => {}
        }
    }
    Arc::clone(&resolved.measures)
}

/// A user-defined measure in several workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnOutcome {
    /// The measure in the first workload that its formula fits.
    pub measure: Measure,
    /// For each workload that lacks a measure that the formula names: the reason.
    pub lacking: Vec<String>,
}

/// The measures of a list, resolved for each of the workloads of a session or a plan.
pub(super) struct OwnList(Vec<Arc<Resolved>>);

impl OwnList {
    /// Resolves a list.
    pub(super) fn of<'a>(specs: impl IntoIterator<Item = &'a WorkloadSpec>, own: &[OwnMeasure]) -> Self {
        Self(specs.into_iter().map(|spec| resolved(&Measures::of_workload(spec), spec, own)).collect())
    }

    /// Checks one measure of the list.
    ///
    /// # Errors
    /// No workload has all measures that the formula names, or the formula is wrong for a workload that has them.
    pub(super) fn check(&self, key: &str) -> Result<OwnOutcome, FormulaError> {
        let (mut fits, mut lacking): (Option<Measure>, Vec<FormulaError>) = (None, Vec::new());
        for resolved in &self.0 {
            match resolved.problems.get(key) {
                Some(problem) if problem.is_unknown_name => lacking.push(problem.error.clone()),
                Some(problem) => return Err(problem.error.clone()),
                None => fits = fits.or_else(|| resolved.measures.find(key).cloned()),
            }
        }
        match fits {
            Some(measure) => Ok(OwnOutcome { measure, lacking: lacking.iter().map(ToString::to_string).collect() }),
            None => Err(lacking.into_iter().next().unwrap_or_else(|| FormulaError::at(0, "there is no such measure"))),
        }
    }
}

/// The measures of a session's list that are wrong in a workload of its runs, each with the reason. A measure that only names what this
/// workload lacks may be meant for another workload, and is not listed.
pub fn wrong_measures<'a>(specs: impl IntoIterator<Item = &'a WorkloadSpec>, own: &[OwnMeasure]) -> Vec<String> {
    if own.is_empty() {
        return Vec::new();
    }
    let mut wrong: BTreeMap<Key, String> = BTreeMap::new();
    for resolved in OwnList::of(specs, own).0 {
        for (key, problem) in resolved.problems.iter().filter(|(_, problem)| !problem.is_unknown_name) {
            wrong.entry(key.clone()).or_insert_with(|| format!("{key}: {}", problem.error));
        }
    }
    wrong.into_values().collect()
}

/// Checks the user-defined measures of a plan that was read from `origin`.
///
/// # Errors
/// A formula names an unknown measure, mixes units, needs itself or divides by zero; the error names its line.
pub fn check_measures(plan: &Plan, origin: &str) -> Result<(), PlanError> {
    let own: Vec<OwnMeasure> = plan.measures.iter().map(|planned| planned.measure.clone()).collect();
    let list = OwnList::of(plan.blocks().map(|block| &*block.spec), &own);
    let problem = |PlannedMeasure { measure, line }: &PlannedMeasure| {
        let error = list.check(&measure.key).err()?;
        let (origin, key) = (origin.to_owned(), format!("measures.{}", measure.key));
        Some(Problem { origin, line: *line, key, message: error.to_string() })
    };
    let problems: Vec<Problem> = plan.measures.iter().filter_map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(PlanError::Invalid(problems)) }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
