//! The next step that a comparison offers: more repeats of cells whose verdicts are undecided, and runs of cells that have no value.

use std::collections::HashMap;

use crate::analysis::{CellKey, INTERVAL_REPEATS, Judgement, Verdict};
use crate::app::desk::Source;
use crate::figure::{CellValue, Comparison};
use crate::plan::{AskedCell, Plan, plan_of_cells};
use crate::store::RunRecord;

/// Runs that would tell more.
#[derive(Clone, Debug, PartialEq)]
pub struct NextStep {
    /// The plan that queues them, with repeats that are there already.
    pub plan: Plan,
    /// Comparisons, or cells, that they are for.
    pub count: usize,
    /// Repeats that each of its cells gets.
    pub more: u32,
    /// Whether more may be needed: a spread that few repeats show tells little.
    pub is_least: bool,
    /// How long they take, by the last runs of these cells; 0 where nothing is known.
    pub duration_s: f64,
}

/// How many more pairs of repeats would show the difference that these show, or that it is within the bound; and whether more may be
/// needed. The difference that repeats can show shrinks with the root of their number. Offered are at most as many as there are.
fn more_pairs(judged: &Judgement, ratio: f64) -> (u32, bool) {
    let made = judged.n as u32;
    let least = (INTERVAL_REPEATS as u32).saturating_sub(made).max(1);
    let (Some(detectable), true) = (judged.detectable, made > 1) else { return (least, true) };
    let difference = ratio.ln().abs();
    let room = (judged.equal_within.ln_1p() - difference).max(0.0);
    let needed = f64::from(made) * (detectable.ln_1p() / difference.max(room)).powi(2);
    if !needed.is_finite() {
        return (least.max(made), true);
    }
    let more = (needed.ceil() as u32).saturating_sub(made).max(least);
    (more.min(made.max(least)), more > made.max(least))
}

/// More repeats of the cells whose verdicts are undecided, and of the cell that they are held against. None of several sessions, and none
/// where each cell has a baseline of its own.
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
    for row in &table.rows {
        let CellValue::Verdict(judged) = row.values.get(verdict)? else { continue };
        let CellValue::Measure(ratio) = row.values.get(verdict.checked_sub(1)?)? else { continue };
        let Some(run) = runs.get(&row.key()).filter(|_| judged.verdict == Verdict::Undecided && row.key() != *base)
        else {
            continue;
        };
        let (own, own_is_least) = more_pairs(judged, ratio.median);
        (more, is_least) = (more.max(own), is_least | own_is_least);
        cells.push(run);
    }
    let count = cells.len() - 1;
    let held = |run: &RunRecord| source.records.held.get(&run.identity());
    let made = cells.iter().filter_map(|run| held(run)?.repeats.iter().max().copied()).max()?;
    let duration_s = cells.iter().filter_map(|run| held(run)?.last_s).sum::<f64>() * f64::from(more);
    let plan = plan_of(source, &cells, Some(made + more))?;
    (count > 0).then_some(NextStep { plan, count, more, is_least, duration_s })
}

/// The runs that cells without a finished run lack.
pub fn lacking(comparison: &Comparison, sources: &[Source], runs: &HashMap<CellKey, &RunRecord>) -> Option<NextStep> {
    let [source] = sources else { return None };
    let rows = comparison.table.rows.iter().filter(|row| row.runs == 0);
    let cells: Vec<&RunRecord> = rows.filter_map(|row| runs.get(&row.key()).copied()).collect();
    let plan = plan_of(source, &cells, None)?;
    let (count, more) = (cells.len(), plan.repeats);
    Some(NextStep { plan, count, more, is_least: false, duration_s: 0.0 })
}

/// A plan of these cells alone, like the one that the first of them was launched by.
fn plan_of(source: &Source, cells: &[&RunRecord], repeats: Option<u32>) -> Option<Plan> {
    let first = cells.first()?;
    let launched = source.records.plans.iter().rfind(|plan| plan.name == first.plan)?.plan().ok()?;
    let like = Plan { repeats: repeats.unwrap_or(launched.repeats), ..launched };
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
    plan_of_cells(&like, &asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judge;

    fn judged(n: usize, detectable: Option<f64>) -> Judgement {
        Judgement { detectable, n, ..judge(&[Vec::new()], true, 0.01).remove(0) }
    }

    #[test]
    fn pairs_are_asked_for_by_what_those_that_are_there_could_show() {
        assert_eq!(more_pairs(&judged(1, None), 1.05), (5, true), "of one pair nothing is known");
        // 8 pairs show 4 %; a difference of 3 % takes (4 / 3)² as many.
        assert_eq!(more_pairs(&judged(8, Some(0.04)), 1.03), (7, false));
        // A difference of 0.5 % takes far more: twice as many are a next step.
        assert_eq!(more_pairs(&judged(8, Some(0.04)), 1.005), (8, true));
        // Nothing differs: it takes what shows that it is within 1 %.
        assert_eq!(more_pairs(&judged(8, Some(0.012)), 1.0), (4, false));
    }
}
