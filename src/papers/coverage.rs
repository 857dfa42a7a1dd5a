//! What a session has of a table or figure: cells that are missing, and levels that deviate from the paper's.

use super::published::Artefact;
use crate::analysis::{Cell, RunState, RunSummary};
use crate::plan::{AskedCell, Identity, Key, Level, Plan, asked_cells};

/// What a session has of the cells that a plan asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// Cells that the plan asks for.
    pub asked: usize,
    /// Those of which no run has finished.
    pub missing: Vec<AskedCell>,
    /// The keys of factors that the plan varies.
    pub varied: Vec<Key>,
}

/// Compares the cells that a plan asks for with runs.
pub fn coverage<'a>(plan: &Plan, runs: impl IntoIterator<Item = &'a RunSummary>) -> Coverage {
    let finished = runs.into_iter().filter(|run| run.state == RunState::Finished);
    let there: Vec<Identity> = finished.filter_map(|run| run.identity).collect();
    let mut missing = asked_cells(plan);
    let asked = missing.len();
    missing.retain(|cell| !there.contains(&cell.identity));
    Coverage { asked, missing, varied: plan.varied().into_iter().cloned().collect() }
}

impl Coverage {
    /// The name of a cell: `precision = fp16, gpus = 4`.
    pub fn name(&self, cell: &AskedCell) -> String {
        let level = |key: &Key| {
            let level = cell.levels.get(key).filter(|_| cell.workload.has_meaning(key, &cell.levels))?;
            Some(format!("{key} = {level}"))
        };
        self.varied.iter().filter_map(level).collect::<Vec<_>>().join(", ")
    }
}

/// A setting in which cells deviate from the paper's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The factor's key, or `data`.
    pub key: Key,
    /// What the cells have; none where they do not say.
    pub own: Option<Level>,
    /// What the paper's plan has.
    pub paper: Level,
    /// The paper leaves it open: the plan's level is multicard's.
    pub open: bool,
    /// How many cells have it.
    pub cells: usize,
}

/// How cells deviate from the table or figure that they are shown as: each setting once, and the cells that are none of the
/// paper's. A cell is held against that of the paper's cells that has its levels of what the plan varies.
pub fn deviations<'a>(artefact: &Artefact, cells: &'a [Cell<'a>]) -> (Vec<Deviation>, Vec<&'a Cell<'a>>) {
    let Some(plan) = artefact.plan() else { return (Vec::new(), Vec::new()) };
    let (asked, varied) = (asked_cells(plan), plan.varied());
    let (mut deviations, mut strangers): (Vec<Deviation>, Vec<&Cell>) = (Vec::new(), Vec::new());
    for cell in cells {
        let same = |asked: &AskedCell, key: &Key| {
            cell.levels.get(key) == asked.levels.get(key)
                || !asked.workload.has_meaning(key, &asked.levels)
                || !cell.workload.has_meaning(key, cell.levels)
        };
        let is_it =
            |asked: &&AskedCell| asked.workload.key == cell.workload.key && varied.iter().all(|key| same(asked, key));
        let Some(asked) = asked.iter().find(is_it) else {
            strangers.push(cell);
            continue;
        };
        let mut note = |key: &Key, own: Option<Level>, paper: Level| {
            let is_known = |known: &&mut Deviation| known.key == *key && known.own == own && known.paper == paper;
            match deviations.iter_mut().find(is_known) {
                Some(known) => known.cells += 1,
                None => {
                    let open = artefact.leaves_open(key);
                    deviations.push(Deviation { key: key.clone(), own, paper, open, cells: 1 });
                }
            }
        };
        let data = asked.data.to_string();
        if cell.data != data {
            note(&"data".into(), Some(Level::text(cell.data)), Level::text(&data));
        }
        for (key, level) in asked.levels.iter().filter(|(key, _)| !same(asked, key)) {
            note(key, cell.levels.get(key).cloned(), level.clone());
        }
    }
    deviations.sort_by_key(|deviation| deviation.open);
    (deviations, strangers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{cells, fixture, summarise_run};
    use crate::papers::artefact;
    use crate::plan::Levels;

    /// A run of a cell of Table 2's plan with some of its levels changed.
    fn run_of(precision: &str, gpus: i64, changed: &[(&str, Level)]) -> RunSummary {
        let plan = artefact("2503.15252/table-2").unwrap().plan().unwrap();
        let (precision, gpus) = (Level::text(precision), Level::Integer(gpus));
        let is_it = |cell: &AskedCell| {
            cell.levels.get("precision") == Some(&precision) && cell.levels.get("gpus") == Some(&gpus)
        };
        let asked = asked_cells(plan).into_iter().find(is_it).unwrap();
        let mut record = fixture::finished();
        (record.data, record.mode) = (asked.data.clone(), plan.mode);
        let level = |(key, level): (&Key, &Level)| {
            let other = changed.iter().find(|(name, _)| key == name);
            (key.clone(), other.map_or(level, |(_, level)| level).clone())
        };
        record.levels = Levels::new(asked.levels.iter().map(|(key, own)| level((key, own))).collect::<Vec<_>>());
        summarise_run(&record)
    }

    #[test]
    fn cells_without_a_finished_run_are_missing_and_those_that_deviate_do_not_count() {
        let plan = artefact("2503.15252/table-2").unwrap().plan().unwrap();
        let epochs = [("epochs", Level::Integer(1))];
        let runs = [run_of("fp32", 1, &[]), run_of("fp64", 4, &[]), run_of("fp16", 2, &epochs)];
        let coverage = coverage(plan, &runs);
        assert_eq!((coverage.asked, coverage.missing.len()), (12, 10));
        let names: Vec<String> = coverage.missing.iter().map(|cell| coverage.name(cell)).collect();
        assert!(names.contains(&"precision = fp16, gpus = 2".to_owned()), "{names:?}");
        assert!(!names.contains(&"precision = fp32, gpus = 1".to_owned()), "{names:?}");
    }

    #[test]
    fn levels_that_are_not_the_papers_are_told_once_and_open_ones_last() {
        let table = artefact("2503.15252/table-2").unwrap();
        let batch = [("batch_size", Level::Integer(32)), ("epochs", Level::Integer(1))];
        let bf16 = [("precision", Level::text("bf16"))];
        let runs = [run_of("fp32", 1, &batch), run_of("fp64", 1, &batch[1..]), run_of("fp16", 1, &bf16)];
        let cells = cells(&runs);
        let (deviations, strangers) = deviations(table, &cells);
        let told: Vec<_> = deviations.iter().map(|one| (one.key.to_string(), one.open, one.cells)).collect();
        assert_eq!(told, [("epochs".to_owned(), false, 2), ("batch_size".to_owned(), true, 1)]);
        assert_eq!((&deviations[0].own, &deviations[0].paper), (&Some(Level::Integer(1)), &Level::Integer(20)));
        assert_eq!(strangers.len(), 1);
    }
}
