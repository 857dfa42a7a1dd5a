//! Suggests the next runs: more repeats of cells whose verdicts are undecided, and runs of cells without a value.

use std::collections::HashMap;

use crate::analysis::{CellKey, INTERVAL_REPEATS, Judgement, MADE_WITH, Verdict};
use crate::app::desk::Source;
use crate::figure::{CellValue, Comparison};
use crate::plan::{AskedCell, Plan, plan_of_cells};
use crate::store::RunRecord;

/// Runs that would give more results.
#[derive(Clone, Debug, PartialEq)]
pub struct NextStep {
    /// The plan that queues them; its repeats include the existing ones.
    pub plan: Plan,
    /// The number of comparisons, or cells, that they are for.
    pub count: usize,
    /// The number of new repeats for each of its cells.
    pub more: u32,
    /// Whether more may be needed, because the spread of few repeats is uncertain.
    pub is_least: bool,
    /// How long they take, judged by the last runs of these cells; 0 if unknown.
    pub duration_s: f64,
}

/// How many more pairs of repeats would decide a comparison, and whether more may be needed. At most the present number is suggested,
/// because the spread of few repeats is uncertain.
fn more_pairs(judged: &Judgement) -> (u32, bool) {
    let repeats_made = judged.n as u32;
    let least = (INTERVAL_REPEATS as u32).saturating_sub(repeats_made).max(1);
    let most = repeats_made.max(least);
    match judged.repeats_needed() {
        Some(needed) => (needed.clamp(least, most), needed > most),
        None => (most, true),
    }
}

/// More repeats of the cells whose verdicts are undecided, and of the baseline. `None` for several sessions, and if each cell has its own
/// baseline.
pub fn more_repeats(
    comparison: &Comparison,
    sources: &[Source],
    runs: &HashMap<CellKey, &RunRecord>,
) -> Option<NextStep> {
    let [source] = sources else { return None };
    let table = &comparison.table;
    let verdict = table.columns.iter().position(|column| column.key == "verdict")?;
    let base = comparison.baseline.as_ref()?.0.as_ref()?;
    let mut cells = vec![*runs.get(base)?];
    let (mut more, mut is_least) = (0, false);
    // New runs are made in the present environment, so they only add to the last part of a split cell.
    let made_with = comparison.settings.iter().find(|one| one.setting.key == MADE_WITH);
    let last = made_with.and_then(|one| Some(one.levels.last()?.0.to_string())).unwrap_or_default();
    for row in table.rows.iter().filter(|row| row.made_with == last) {
        let CellValue::Verdict(judged) = row.values.get(verdict)? else { continue };
        let Some(run) = runs.get(&row.key()).filter(|_| judged.verdict == Verdict::Undecided && row.key() != *base)
        else {
            continue;
        };
        let (own, own_is_least) = more_pairs(judged);
        (more, is_least) = (more.max(own), is_least | own_is_least);
        cells.push(run);
    }
    let count = cells.len() - 1;
    let held = |run: &RunRecord| source.records.held.get(&run.identity());
    let repeats_made = cells.iter().filter_map(|run| held(run)?.repeats.iter().max().copied()).max()?;
    let duration_s = cells.iter().filter_map(|run| held(run)?.last_s).sum::<f64>() * f64::from(more);
    let plan = plan_of(source, &cells, Some(repeats_made + more))?;
    (count > 0).then_some(NextStep { plan, count, more, is_least, duration_s })
}

/// The missing runs of cells without a finished run.
pub fn lacking(comparison: &Comparison, sources: &[Source], runs: &HashMap<CellKey, &RunRecord>) -> Option<NextStep> {
    let [source] = sources else { return None };
    let rows = comparison.table.rows.iter().filter(|row| row.runs == 0);
    let cells: Vec<&RunRecord> = rows.filter_map(|row| runs.get(&row.key()).copied()).collect();
    let plan = plan_of(source, &cells, None)?;
    let (count, more) = (cells.len(), plan.repeats);
    Some(NextStep { plan, count, more, is_least: false, duration_s: 0.0 })
}

/// A plan with only these cells, similar to the plan from which the first of them was launched.
fn plan_of(source: &Source, cells: &[&RunRecord], repeats: Option<u32>) -> Option<Plan> {
    let first = cells.first()?;
    let launched = source.records.plans.iter().rfind(|plan| plan.name == first.plan)?.plan().ok()?;
    let plan = Plan { repeats: repeats.unwrap_or(launched.repeats), search: None, ..launched };
    let asked = |run: &&RunRecord| {
        let (workload, data, levels) = (run.workload.clone(), run.data.clone(), run.levels.clone());
        AskedCell { workload, data, levels, tracer: run.tracer, identity: run.identity() }
    };
    let mut asked: Vec<AskedCell> = cells.iter().map(asked).collect();
    let mut known = Vec::new();
    asked.retain(|cell| {
        let is_new = !known.contains(&cell.identity);
        known.push(cell.identity);
        is_new
    });
    plan_of_cells(&plan, &asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judge;

    fn more(logs: &[f64]) -> (u32, bool) {
        more_pairs(&judge(&[logs.to_vec()], true, 0.01)[0])
    }

    #[test]
    fn twice_as_many_pairs_as_there_are_stand_for_a_next_step_where_more_are_needed() {
        assert_eq!(more(&[0.05]), (5, true), "one pair shows nothing about the spread");
        let noise = [0.02, -0.02, 0.021, -0.019, 0.018, -0.022, 0.02, -0.018];
        assert_eq!(more(&noise.map(|log| log + 0.012)), (8, true));
        // A later look spends less: what nearly showed takes more than half as many again.
        let judged = &judge(&[noise.map(|log| log + 0.016).to_vec()], true, 0.01)[0];
        assert!(
            judged.verdict == Verdict::Undecided && judged.repeats_needed().is_some_and(|more| more > 4),
            "{judged:?}"
        );
    }
}
