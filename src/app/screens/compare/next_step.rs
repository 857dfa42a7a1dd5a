//! Suggests the next runs: more repeats of cells whose verdicts are undecided, and runs of cells without a value.

use std::collections::{HashMap, HashSet};

use crate::analysis::{CellKey, INTERVAL_REPEATS, Judgement, MADE_WITH, Verdict, counted};
use crate::app::desk::Source;
use crate::figure::{CellValue, Comparison};
use crate::plan::{AskedCell, Capture, Plan, Tracer, Tracing, plan_of_cells};
use crate::store::{HeldCell, RunRecord, repeated_text};

/// Runs that would give more results.
#[derive(Clone, Debug, PartialEq)]
pub struct NextStep {
    /// The plans that queue them, at least one; their repeats include the existing ones. A plan records the same part of
    /// each of its runs, so there is one plan for each part that cells record.
    pub plans: Vec<Plan>,
    /// The number of comparisons, or cells, that they are for.
    pub count: usize,
    /// The number of new repeats for each of its cells, beside those that did not finish.
    pub more: u32,
    /// The number that would decide all comparisons, at least `more`; `None` if that cannot be estimated.
    pub needed: Option<u32>,
    /// How many of the runs of more repeats repeat runs that did not finish.
    pub repeated: usize,
    /// How long they take, judged by the last runs of these cells; 0 if unknown.
    pub duration_s: f64,
}

impl NextStep {
    /// How many comparisons are undecided, how many new repeats of each cell they need, how many of these are queued now, and how many runs
    /// are queued for repeats that did not finish.
    pub fn repeats_text(&self) -> String {
        let more = |count: u32| counted(count as usize, "more repeat");
        let (undecided, need) = (self.count, if self.count == 1 { "needs" } else { "need" });
        let text = match self.needed {
            Some(needed) if needed > self.more => {
                format!("{undecided} undecided, {need} about {}: queue {} now", more(needed), self.more)
            }
            Some(_) => {
                let them = if self.more == 1 { "it" } else { "them" };
                format!("{undecided} undecided, {need} about {}: queue {them}", more(self.more))
            }
            None => format!("{undecided} undecided: queue at least {}", more(self.more)),
        };
        text + &repeated_text(self.repeated)
    }
}

/// How many more pairs of repeats of a comparison are suggested, and how many would decide it, if that can be estimated. At most the present
/// number is suggested, because the spread of few repeats is uncertain.
fn more_pairs(judged: &Judgement) -> (u32, Option<u32>) {
    let repeats_made = judged.n as u32;
    let least = (INTERVAL_REPEATS as u32).saturating_sub(repeats_made).max(1);
    let most = repeats_made.max(least);
    match judged.repeats_needed() {
        Some(needed) => (needed.clamp(least, most), Some(needed.max(least))),
        None => (most, None),
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
    let (mut more, mut needed) = (0, Some(0));
    // New runs are made in the present environment. Where a cell is split by environments, they belong to its last part.
    let made_with = comparison.settings.iter().find(|one| one.setting.is(MADE_WITH));
    let last = made_with.and_then(|one| Some(one.levels.last()?.0.to_string())).unwrap_or_default();
    for row in table.rows.iter().filter(|row| row.made_with == last) {
        let CellValue::Verdict(judged) = row.values.get(verdict)? else { continue };
        let Some(run) = runs.get(&row.key()).filter(|_| judged.verdict == Verdict::Undecided && row.key() != *base)
        else {
            continue;
        };
        let (own, own_needed) = more_pairs(judged);
        (more, needed) = (more.max(own), needed.zip(own_needed).map(|(all, own)| all.max(own)));
        cells.push(run);
    }
    let count = cells.len() - 1;
    // A cell that is split by environments has several rows.
    let mut known = HashSet::new();
    let once = cells.iter().map(|run| run.identity()).filter(|cell| known.insert(*cell));
    let held: Vec<&HeldCell> = once.filter_map(|cell| source.records.held.get(&cell)).collect();
    let repeats = more + held.iter().filter_map(|cell| cell.repeats.iter().max().copied()).max()?;
    let duration_s = held.iter().map(|cell| cell.last_s.unwrap_or(0.0) * cell.missing(repeats).0 as f64).sum();
    let repeated = held.iter().map(|cell| cell.missing(repeats).1).sum();
    let plans = plans_of(source, &cells, Some(repeats));
    (count > 0 && !plans.is_empty()).then_some(NextStep { plans, count, more, needed, repeated, duration_s })
}

/// The missing runs of cells without a finished run.
pub fn lacking(comparison: &Comparison, sources: &[Source], runs: &HashMap<CellKey, &RunRecord>) -> Option<NextStep> {
    let [source] = sources else { return None };
    let rows = comparison.table.rows.iter().filter(|row| row.runs == 0);
    let cells: Vec<&RunRecord> = rows.filter_map(|row| runs.get(&row.key()).copied()).collect();
    let plans = plans_of(source, &cells, None);
    let (count, more) = (cells.len(), plans.first()?.repeats);
    Some(NextStep { plans, count, more, needed: None, repeated: 0, duration_s: 0.0 })
}

/// Plans with only these cells, one for each part of runs that is recorded: the whole run, the same steps, or the same
/// windows. Cells that no tracer records are in the first plan.
fn plans_of<'a>(source: &Source, cells: &[&'a RunRecord], repeats: Option<u32>) -> Vec<Plan> {
    let mut known: HashMap<&'a str, Option<Plan>> = HashMap::new();
    let part_of = |run: &&'a RunRecord| -> Option<Capture> {
        let plan = known.entry(run.plan.as_str()).or_insert_with(|| launched(source, &run.plan));
        plan.as_ref()?.tracing.capture().filter(|_| run.tracer.is_on())
    };
    let own: Vec<Option<Capture>> = cells.iter().map(part_of).collect();
    let mut parts: Vec<Option<Capture>> = Vec::new();
    for part in own.iter().filter(|part| part.is_some()) {
        if !parts.contains(part) {
            parts.push(*part);
        }
    }
    let first = parts.first().copied().flatten();
    let plan = |part: Option<Capture>| {
        let cells = cells.iter().zip(&own).filter(|(_, own)| own.or(first) == part).map(|(run, _)| *run);
        plan_of(source, &cells.collect::<Vec<_>>(), part, repeats)
    };
    if parts.is_empty() { plan(None).into_iter().collect() } else { parts.into_iter().filter_map(plan).collect() }
}

/// The plan with this name, as it was launched last.
fn launched(source: &Source, name: &str) -> Option<Plan> {
    source.records.plans.iter().rfind(|plan| plan.name == name)?.plan().ok()
}

/// A plan with only these cells, similar to the plan from which the first of them was launched. `part` is the part of its
/// runs that is recorded.
fn plan_of(source: &Source, cells: &[&RunRecord], part: Option<Capture>, repeats: Option<u32>) -> Option<Plan> {
    let launched = launched(source, &cells.first()?.plan)?;
    let tracers: Vec<Tracer> = cells.iter().map(|run| run.tracer).collect();
    let tracing = part.map_or_else(|| launched.tracing.clone(), |part| Tracing::by(&tracers, part));
    let plan = Plan { repeats: repeats.unwrap_or(launched.repeats), search: None, tracing, ..launched };
    let asked = |run: &&RunRecord| {
        let (workload, data, levels) = (run.workload.clone(), run.data.clone(), run.levels.clone());
        AskedCell { workload, data, levels, tracer: run.tracer, identity: run.identity() }
    };
    let mut asked: Vec<AskedCell> = cells.iter().map(asked).collect();
    let mut known = HashSet::new();
    asked.retain(|cell| known.insert(cell.identity));
    plan_of_cells(&plan, &asked)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{fixture, judge};
    use crate::app::engine::{Records, SessionPlan};
    use crate::plan::asked_cells;

    /// A run of the only cell of a plan.
    fn run_of(plan: &SessionPlan) -> RunRecord {
        let parsed = plan.plan().unwrap();
        let cell = &asked_cells(&parsed)[0];
        RunRecord { plan: plan.name.clone(), tracer: cell.tracer, ..fixture::run_of(cell, &parsed, 1, 0.1) }
    }

    #[test]
    fn further_repeats_record_the_part_of_each_run_that_its_own_plan_records() {
        let plan = |name: &str, measure: &str| {
            let toml = format!("version = 1\nname = \"{name}\"\n[measure]\n{measure}\n");
            SessionPlan { name: name.to_owned(), toml, folder: None }
        };
        let plans = vec![
            plan("plain", "warm_up_steps = 3"),
            plan("whole", "trace = \"built-in\""),
            plan("windows", "trace = \"built-in\"\ntrace_windows = [2, 6]"),
        ];
        let runs: Vec<RunRecord> = plans.iter().map(run_of).collect();
        let source = Source { name: String::new(), records: Arc::new(Records { plans, ..Records::default() }) };
        let windows = Capture::Windows { recorded: 2, period: 6 };
        let parts = |runs: &[&RunRecord]| -> Vec<(Option<Capture>, Vec<Tracer>)> {
            let plans = plans_of(&source, runs, Some(5));
            assert!(plans.iter().all(|plan| plan.repeats == 5));
            let tracers = |plan: &Plan| -> Vec<Tracer> { asked_cells(plan).iter().map(|cell| cell.tracer).collect() };
            plans.iter().map(|plan| (plan.tracing.capture(), tracers(plan))).collect()
        };
        let [plain, whole, in_windows] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!(
            parts(&[plain, whole, in_windows]),
            [(Some(Capture::Whole), vec![Tracer::Off, Tracer::BuiltIn]), (Some(windows), vec![Tracer::InWindows])]
        );
        assert_eq!(parts(&[plain, in_windows]), [(Some(windows), vec![Tracer::Off, Tracer::InWindows])]);
        assert_eq!(parts(&[plain]), [(None, vec![Tracer::Off])]);
    }

    fn more(logs: &[f64]) -> (u32, Option<u32>) {
        more_pairs(&judge(&[logs.to_vec()], true, 0.01)[0])
    }

    #[test]
    fn twice_as_many_pairs_as_there_are_stand_for_a_next_step_where_more_are_needed() {
        assert_eq!(more(&[0.05]), (5, None), "one pair shows nothing about the spread");
        let noise = [0.02, -0.02, 0.021, -0.019, 0.018, -0.022, 0.02, -0.018];
        let (queued, needed) = more(&noise.map(|log| log + 0.012));
        assert!(queued == 8 && needed.is_none_or(|needed| needed > 8), "{queued} of {needed:?}");
        // A later look spends less: what nearly showed takes more than half as many again.
        let judged = &judge(&[noise.map(|log| log + 0.016).to_vec()], true, 0.01)[0];
        assert!(
            judged.verdict == Verdict::Undecided && judged.repeats_needed().is_some_and(|more| more > 4),
            "{judged:?}"
        );
    }

    #[test]
    fn a_part_of_the_repeats_that_would_decide_names_the_number_that_the_verdict_names() {
        let text = |count: usize, more: u32, needed: Option<u32>| {
            NextStep { plans: Vec::new(), count, more, needed, repeated: 0, duration_s: 0.0 }.repeats_text()
        };
        assert_eq!(text(1, 4, Some(11)), "1 undecided, needs about 11 more repeats: queue 4 now");
        assert_eq!(text(2, 4, Some(4)), "2 undecided, need about 4 more repeats: queue them");
        assert_eq!(text(1, 1, None), "1 undecided: queue at least 1 more repeat");
        let noise = [0.02, -0.02, 0.021, -0.019, 0.018, -0.022, 0.02, -0.018].map(|log| log + 0.016);
        let judged = &judge(&[noise.to_vec()], true, 0.01)[0];
        let (_, needed) = more_pairs(judged);
        let named = format!("About {} more would decide it", counted(needed.unwrap() as usize, "repeat"));
        assert!(judged.grounds().contains(&named), "{named}: {:?}", judged.grounds());
    }
}
