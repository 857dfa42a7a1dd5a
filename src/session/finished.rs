//! Checks, by only the session's records, whether a session already has everything that a plan asks for. The machine is asked only for the
//! files of the plan's programs.

use std::collections::HashSet;
use std::path::Path;

use super::Added;
use super::kept_measures::kept_measures;
use super::made_otherwise::made_otherwise;
use super::tracing::waits_for_import;
use crate::plan::{
    Checked, DeclaredMeasure, InvalidCell, Key, Margin, Plan, RunState, SearchStep, WorkloadSpec, asked_cells,
};
use crate::program::Facts;
use crate::store::{Reader, RunRecord, StoreError, held_cells};

/// The result of launching a plan with `only_missing` if nothing is left to do: the session has recorded the plan, its measures and its
/// studies, has finished every repeat of each cell that no constraint excludes, and has no run or report of an earlier process to continue.
/// `None` if something may be left to do; the machine then decides what that is.
///
/// # Errors
/// The index cannot be read.
pub fn all_finished(plan: &Plan, folder: &Path, reader: &Reader) -> Result<Option<Added>, StoreError> {
    let text = plan.to_toml();
    let plans = reader.plans()?;
    let same: HashSet<&str> = plans
        .iter()
        .filter(|(_, name, toml)| (name, toml) == (&plan.name, &text))
        .map(|(id, ..)| id.as_str())
        .collect();
    let Some(last) = plans.iter().rposition(|(id, ..)| same.contains(id.as_str())) else { return Ok(None) };
    // The latest plan decides how results are judged: this one is recorded again if a later one judges them otherwise.
    if plans[last + 1..].iter().any(|(_, name, toml)| judges_otherwise(toml, name, plan)) {
        return Ok(None);
    }
    let saved: HashSet<String> = reader.studies()?.into_iter().map(|(name, _)| name).collect();
    let own = reader.own_measures()?;
    let has_measures = plan.measures.iter().all(|planned| own.iter().any(|own| own.key == planned.measure.key));
    if !has_measures || !plan.studies.iter().all(|study| saved.contains(&study.name)) {
        return Ok(None);
    }
    let runs = reader.headings()?;
    if runs.iter().any(|run| run.ended_time_s.is_none() || waits_for_import(run, &folder.join("runs").join(&run.run))) {
        return Ok(None);
    }
    let warnings = |kept: &[&RunRecord]| {
        let otherwise = made_otherwise(plan, folder, kept.iter().copied(), &mut Facts::default());
        kept_measures(plan, &own).into_iter().chain(otherwise).collect()
    };
    if plan.search.is_some() {
        let last = reader.searches()?.into_iter().rev().find(|(id, _)| same.contains(id.as_str()));
        let over = last.filter(|(_, steps)| steps.iter().any(|step| matches!(step, SearchStep::Ended(_))));
        return Ok(over.map(|(id, _)| {
            let is_own = |run: &&RunRecord| run.launch == id && run.state == RunState::Finished;
            let kept: Vec<&RunRecord> = runs.iter().filter(is_own).collect();
            Added { kept: kept.len(), warnings: warnings(&kept), search: Some(id), ..Added::default() }
        }));
    }
    let held = held_cells(&runs);
    let (mut kept, mut invalid) = (HashSet::new(), Vec::new());
    for cell in asked_cells(plan) {
        if let Some(reason) = cell.excluded_by(plan) {
            let (workload, reason) = (cell.workload.key.clone(), reason.to_owned());
            invalid.push(InvalidCell { workload, levels: cell.levels, tracer: cell.tracer, reason });
            continue;
        }
        let repeats = held.get(&cell.identity).map_or(&[][..], |held| &held.repeats);
        if !(1..=plan.repeats).all(|repeat| repeats.contains(&repeat)) {
            return Ok(None);
        }
        kept.extend((1..=plan.repeats).map(|repeat| (cell.identity, repeat)));
    }
    let is_kept = |run: &&RunRecord| run.holds_repeat() && kept.contains(&(run.identity(), run.repeat));
    let records: Vec<&RunRecord> = runs.iter().filter(is_kept).collect();
    let warnings = warnings(&records);
    Ok((!kept.is_empty()).then_some(Added { kept: kept.len(), invalid, warnings, ..Added::default() }))
}

/// Whether the text of another plan names other check measures for a workload of this plan, or declares other good values of its measures, or
/// another unit of a margin.
fn judges_otherwise(toml: &str, name: &str, plan: &Plan) -> bool {
    let Ok(other) = Plan::parse(toml, name) else { return false };
    let in_units: Vec<&Checked> =
        plan.checked.iter().filter(|checked| matches!(checked.margin, Margin::Absolute(_))).collect();
    let has_margin_in_unit = |measure: &DeclaredMeasure| in_units.iter().any(|checked| checked.measure == measure.key);
    let has_other_formula_unit = |checked: &&Checked| {
        let [own, others] = [plan, &other].map(|plan| unit_of_formula(plan, &checked.measure));
        own != others
    };
    let differs = |spec: &WorkloadSpec, others: &WorkloadSpec| {
        let is_other = |one: &DeclaredMeasure| {
            let is_judged_otherwise = |theirs: &DeclaredMeasure| {
                theirs.better != one.better || theirs.unit != one.unit && has_margin_in_unit(one)
            };
            others.measures.iter().any(|theirs| theirs.key == one.key && is_judged_otherwise(theirs))
        };
        other.checked != plan.checked
            || in_units.iter().any(has_other_formula_unit)
            || spec.measures.iter().any(is_other)
    };
    other.blocks().any(|block| plan.spec_of(&block.spec.key).is_some_and(|spec| differs(spec, &block.spec)))
}

/// The unit that a plan declares for a measure of its `[measures]`.
fn unit_of_formula<'p>(plan: &'p Plan, key: &Key) -> Option<&'p str> {
    plan.measures.iter().find(|planned| planned.measure.key == *key)?.measure.unit.as_deref()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn another_unit_of_a_measure_matters_only_for_a_margin_in_this_unit() {
        let solve = |unit: &str, margin: &str| {
            format!(
                "version = 1\n[command]\nname = \"solve\"\nrun = [\"./solve\"]\n[command.measures.q]\nunit = \"{unit}\"\n\
                 [check]\nq = {margin}\n"
            )
        };
        let is_other = |toml: &str, plan: &str| judges_otherwise(toml, "b", &Plan::parse(plan, "a").unwrap());
        assert!(is_other(&solve("ms", "0.5"), &solve("s", "0.5")));
        assert!(!is_other(&solve("s", "0.5"), &solve("s", "0.5")));
        assert!(is_other(&solve("s", "0.25"), &solve("s", "0.5")));
        assert!(!is_other(&solve("ms", "\"2 %\""), &solve("s", "\"2 %\"")));
        let formula = |unit: &str, margin: &str| {
            let own = format!("[measures]\nown = {{ formula = \"q * 1\", unit = \"{unit}\" }}\n");
            solve("s", "0.5") + &format!("own = {margin}\n") + &own
        };
        assert!(is_other(&formula("ms", "3"), &formula("us", "3")));
        assert!(!is_other(&formula("ms", "3"), &formula("ms", "3")));
        assert!(!is_other(&formula("ms", "\"2 %\""), &formula("us", "\"2 %\"")));
    }
}
