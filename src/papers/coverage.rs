//! Compares a session with a table or figure of a paper: which cells are missing, and which levels differ from the
//! paper's.

use std::collections::HashSet;

use super::published::Artefact;
use crate::analysis::{Cell, Measure, RunState, RunSummary, Scaling};
use crate::plan::{AskedCell, Data, Identity, Key, Level, Mode, Plan, asked_cells, identity};

/// Settings for the total amount of work of a run.
const AMOUNT: [&str; 3] = ["epochs", "train_images", "rows"];
/// Settings for the computation that is done for one image or row.
const WORK: [&str; 9] = [
    "image_size",
    "scenario",
    "width_multiplier",
    "model",
    "technique",
    "data_set",
    "template",
    "max_tokens",
    "row_tokens",
];
/// Settings for the amount of work in one step.
const STEP: [&str; 3] = ["batch_size", "gradient_accumulation", "packed"];

/// The cells that a plan asks for, compared with the cells of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// How many cells the plan asks for.
    pub asked: usize,
    /// Identities of these cells, in the plan's order.
    pub places: Vec<Identity>,
    /// Cells without a finished run.
    pub missing: Vec<AskedCell>,
    /// Cells of a quick plan that have finished full runs but no quick ones. Full runs measure more. Full and quick
    /// runs are never pooled.
    pub full: Vec<AskedCell>,
    /// The keys of factors that the plan varies.
    pub varied: Vec<Key>,
}

/// Compares the cells that a plan asks for with the cells of finished runs.
pub fn coverage<'a>(plan: &Plan, runs: impl IntoIterator<Item = &'a RunSummary>) -> Coverage {
    let finished: Vec<&RunSummary> = runs.into_iter().filter(|run| run.state == RunState::Finished).collect();
    let present: HashSet<Identity> = finished.iter().filter_map(|run| run.identity).collect();
    let cells = asked_cells(plan);
    // A run on the stand-in counts as a run on the data set, and the reverse, so the data set is not compared.
    let any_data: HashSet<Identity> = match cells.iter().any(is_stand_in) {
        true => finished.iter().filter(|run| run.identity.is_some()).map(|run| of_any_data(run)).collect(),
        false => HashSet::new(),
    };
    let (asked, places) = (cells.len(), cells.iter().map(|cell| cell.identity).collect());
    let has = |cell: &AskedCell, mode: Mode| {
        present.contains(&of_cell(cell, &cell.data, mode))
            || is_stand_in(cell) && any_data.contains(&of_cell(cell, &Data::default(), mode))
    };
    let lacking = cells.into_iter().filter(|cell| !has(cell, plan.mode));
    let (full, missing) = lacking.partition(|cell| !plan.mode.is_full() && has(cell, Mode::Full));
    Coverage { asked, places, missing, full, varied: plan.varied().into_iter().cloned().collect() }
}

fn of_cell(cell: &AskedCell, data: &Data, mode: Mode) -> Identity {
    identity(&cell.workload, data, cell.tracer, mode, &cell.levels)
}

fn of_any_data(run: &RunSummary) -> Identity {
    identity(&run.workload, &Data::default(), run.recording.tracer().unwrap_or_default(), run.mode, &run.levels)
}

/// Whether a cell uses generated rows in place of the rows of its data set.
fn is_stand_in(cell: &AskedCell) -> bool {
    &*cell.workload.key == crate::plan::llm::KEY
        && cell.workload.data_set(&cell.data.set).is_some_and(|rule| rule.synthetic)
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

/// A setting in which cells differ from the paper's cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The factor's key, or `data`.
    pub key: Key,
    /// The level that the session's cells have; `None` if their records do not contain the setting.
    pub own: Option<Level>,
    /// The level in the paper's plan.
    pub paper: Level,
    /// Whether the paper does not state this setting, so that multicard chose the level in the plan.
    pub open: bool,
    /// How many cells have this level.
    pub cells: usize,
}

/// How a session's cells differ from the cells of the table or figure that they are shown as.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deviations {
    /// The deviations of each cell. `None` for a cell that corresponds to no cell of the paper: its levels of the
    /// varied factors are different, or another shown cell is closer to the paper's cell.
    pub of_cells: Vec<Option<Vec<Deviation>>>,
    /// For each cell, the index of the corresponding cell in the plan's order; `None` if there is no corresponding
    /// cell.
    pub places: Vec<Option<usize>>,
}

impl Deviations {
    /// Each deviation once, with the number of cells that have it. Deviations in settings that the paper does not state
    /// are last.
    pub fn all(&self) -> Vec<Deviation> {
        self.joined(|_| true)
    }

    /// How many cells correspond to no cell of the paper.
    pub fn strangers(&self) -> usize {
        self.of_cells.iter().filter(|cell| cell.is_none()).count()
    }

    /// Whether the paper's numbers may be shown next to a cell. They may be shown next to every cell if no deviations
    /// are known.
    pub fn is_of_paper(&self, cell: usize) -> bool {
        self.of_cells.get(cell).is_none_or(Option::is_some)
    }

    /// Whether a cell does the computation that the paper states for an image or a row. Settings that the paper does
    /// not state may have any level.
    pub fn is_stated_work(&self, cell: usize) -> bool {
        let deviations = self.of_cells.get(cell).and_then(Option::as_ref);
        deviations.is_none_or(|all| all.iter().all(|one| one.open || !WORK.contains(&&*one.key)))
    }

    /// Whether a cell does the same work as the paper's cell, as far as it affects this measure. If not, the ratio of
    /// the two values is meaningless.
    pub fn is_same_work(&self, cell: usize, measure: &Measure) -> bool {
        let deviations = self.of_cells.get(cell).and_then(Option::as_ref);
        deviations.is_none_or(|all| all.iter().all(|one| !is_work(&one.key, measure)))
    }

    /// The deviations that make the cells' work different from the paper's, as far as it affects this measure.
    pub fn other_work(&self, measure: &Measure) -> Vec<Deviation> {
        self.joined(|one| is_work(&one.key, measure))
    }

    fn joined(&self, counts: impl Fn(&Deviation) -> bool) -> Vec<Deviation> {
        let mut joined: Vec<Deviation> = Vec::new();
        for one in self.of_cells.iter().flatten().flatten().filter(|one| counts(one)) {
            let is_known =
                |known: &&mut Deviation| (&known.key, &known.own, &known.paper) == (&one.key, &one.own, &one.paper);
            match joined.iter_mut().find(is_known) {
                Some(known) => known.cells += 1,
                None => joined.push(one.clone()),
            }
        }
        joined.sort_by_key(|deviation| deviation.open);
        joined
    }
}

/// Whether another level of this setting changes the work that a measure depends on.
pub(super) fn is_work(key: &str, measure: &Measure) -> bool {
    let of_step = ["step_time_s", "mean_step_time_s"].contains(&&*measure.key) || measure.key.starts_with("peak_");
    let of_learning = !of_step && (measure.is_of_epochs() || &*measure.key == "epochs_to_98_percent");
    // Units per second do not depend on the number of epochs.
    let of_amount = AMOUNT.contains(&key) && !(key == "epochs" && measure.scaling == Scaling::Linear);
    WORK.contains(&key) || (of_step && STEP.contains(&key)) || (!of_step && of_amount) || (of_learning && key == "data")
}

/// The cells of a table or figure, as its plan asks for them.
pub(super) struct PaperCells {
    artefact: &'static Artefact,
    plan: &'static Plan,
    asked: Vec<AskedCell>,
}

impl PaperCells {
    /// `None` if the table or figure has no plan.
    pub(super) fn of(artefact: &'static Artefact) -> Option<Self> {
        let plan = artefact.plan()?;
        Some(Self { artefact, plan, asked: asked_cells(plan) })
    }

    /// `2503.15252 Table 2`
    pub(super) fn name(&self) -> String {
        self.artefact.to_string()
    }

    /// The index of the paper's cell that has the same levels of the varied factors as `cell`, and how `cell` differs
    /// from it. The settings `but` may have any level: they are what a claim's test compares.
    pub(super) fn closest(&self, cell: &Cell, but: &[&Key]) -> Option<(usize, Vec<Deviation>)> {
        // A factor that did not exist when the cell ran had its first default.
        let own = |key: &Key| -> Option<Level> {
            let first = || self.asked.first()?.workload.factor(key).map(|factor| factor.frozen_default.clone());
            cell.levels.get(key).cloned().or_else(first)
        };
        let same = |asked: &AskedCell, key: &Key| {
            own(key).as_ref() == asked.levels.get(key)
                || !asked.workload.has_meaning(key, &asked.levels)
                || !cell.workload.has_meaning(key, cell.levels)
        };
        let varied = self.plan.varied();
        let is_it = |asked: &AskedCell| {
            let mut keys = varied.iter().filter(|key| !but.contains(key));
            asked.workload.key == cell.workload.key && keys.all(|key| same(asked, key))
        };
        let others = |asked: &AskedCell| but.iter().filter(|key| !same(asked, key)).count();
        let alike = self.asked.iter().enumerate().filter(|(_, asked)| is_it(asked));
        let (place, asked) = alike.min_by_key(|(_, asked)| others(asked))?;
        let deviation = |key: &Key, own: Option<Level>, paper: Level| {
            let open = self.artefact.leaves_open(key);
            Deviation { key: key.clone(), own, paper, open, cells: 1 }
        };
        let mut deviations = Vec::new();
        let data = asked.data.to_string();
        if cell.data != data && !is_stand_in(asked) {
            deviations.push(deviation(&"data".into(), Some(Level::text(cell.data)), Level::text(&data)));
        }
        let other = asked.levels.iter().filter(|(key, _)| !but.contains(key) && !same(asked, key));
        deviations.extend(other.map(|(key, level)| deviation(key, own(key), level.clone())));
        Some((place, deviations))
    }
}

/// How cells differ from the cells of a table or figure. Each cell is compared with the paper's cell that has the same
/// levels of the varied factors. If several cells correspond to one of the paper's cells, only those with the fewest
/// deviations in stated settings count as the paper's, so that a number that the paper prints for fp32 is not shown
/// next to fp64 as well. Without a plan, no deviations are known.
pub fn deviations(artefact: &'static Artefact, cells: &[Cell]) -> Deviations {
    let Some(paper) = PaperCells::of(artefact) else { return Deviations::default() };
    let closest_cells: Vec<Option<(usize, Vec<Deviation>)>> =
        cells.iter().map(|cell| paper.closest(cell, &[])).collect();
    let stated = |deviations: &[Deviation]| deviations.iter().filter(|one| !one.open).count();
    let mut least = vec![usize::MAX; paper.asked.len()];
    for (place, deviations) in closest_cells.iter().flatten() {
        least[*place] = least[*place].min(stated(deviations));
    }
    let closest = |(place, deviations): (usize, Vec<Deviation>)| {
        (stated(&deviations) == least[place]).then_some((place, deviations))
    };
    let (places, of_cells) = closest_cells.into_iter().map(|one| one.and_then(closest).unzip()).unzip();
    Deviations { places, of_cells }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{cells, fixture, measure as analysis_measure, summarise_run};
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
        let found = deviations(table, &cells);
        let deviations = found.all();
        let facts: Vec<_> = deviations.iter().map(|one| (one.key.to_string(), one.open, one.cells)).collect();
        assert_eq!(facts, [("epochs".to_owned(), false, 2), ("batch_size".to_owned(), true, 1)]);
        assert_eq!((&deviations[0].own, &deviations[0].paper), (&Some(Level::Integer(1)), &Level::Integer(20)));
        assert_eq!(found.strangers(), 1);
    }

    #[test]
    fn a_factor_that_is_younger_than_a_run_had_its_first_default() {
        let mut run = run_of("fp32", 1, &[]);
        let known = run.levels.iter().filter(|(key, _)| !["kernels", "passes"].contains(&key.as_str()));
        run.levels = Levels::new(known.map(|(key, level)| (key.clone(), level.clone())).collect::<Vec<_>>());
        let runs = [run];
        let found = deviations(artefact("2503.15252/table-2").unwrap(), &cells(&runs));
        assert_eq!((found.all(), found.strangers()), (Vec::new(), 0));
    }

    #[test]
    fn of_cells_that_could_be_one_of_the_papers_the_closest_is_it() {
        let table = artefact("2503.15252/table-2").unwrap();
        let (pinned, batch) = ([("pin_memory", Level::text("on"))], [("batch_size", Level::Integer(32))]);
        let runs =
            [run_of("fp32", 1, &[]), run_of("fp32", 1, &pinned), run_of("fp32", 1, &batch), run_of("fp64", 1, &pinned)];
        let cells = cells(&runs);
        let found = deviations(table, &cells);
        let of_paper: Vec<_> =
            (0..cells.len()).filter(|place| found.is_of_paper(*place)).map(|place| &cells[place]).collect();
        let level = |cell: &Cell, key: &str| cell.levels.get(key).unwrap().to_string();
        let mut levels: Vec<_> = of_paper
            .iter()
            .map(|cell| (level(cell, "precision"), level(cell, "pin_memory"), level(cell, "batch_size")))
            .collect();
        levels.sort();
        let expected = [("fp32", "off", "32"), ("fp32", "off", "64"), ("fp64", "on", "64")];
        // The paper does not state the batch size, so another one is allowed. fp64 has no closer cell than the pinned
        // one.
        assert_eq!(levels, expected.map(|(precision, pinned, batch)| (precision.into(), pinned.into(), batch.into())));
        assert_eq!(found.strangers(), 1);
    }

    #[test]
    fn another_image_size_is_the_stated_work_only_where_the_paper_leaves_it_open() {
        let runs = [run_of("fp32", 1, &[("epochs", Level::Integer(1))])];
        let cells = cells(&runs);
        let does = |id: &str| {
            let found = deviations(artefact(id).unwrap(), &cells);
            (found.is_of_paper(0), found.is_stated_work(0))
        };
        assert_eq!(does("2503.15252/table-2"), (true, true), "500 px are the plan's choice");
        assert_eq!(does("2503.15252/fig-1"), (true, false), "the paper states 700 px");
        assert_eq!(does("2505.22905/fig-6"), (true, false), "the paper states files of 300 px");
    }

    #[test]
    fn a_cell_with_full_runs_is_not_missing_from_a_quick_plan() {
        let plan = artefact("2503.15252/table-2").unwrap().plan().unwrap();
        let mut full = run_of("fp32", 1, &[]);
        let asked = &asked_cells(plan)[4];
        (full.mode, full.identity) = (Mode::Full, Some(of_cell(asked, &asked.data, Mode::Full)));
        let runs = [full, run_of("fp64", 4, &[])];
        let coverage = coverage(plan, &runs);
        assert_eq!((coverage.missing.len(), coverage.full.len()), (10, 1));
        assert_eq!(coverage.name(&coverage.full[0]), "precision = fp32, gpus = 1");
        // Quick runs do not count for a plan of full runs.
        let plan = Plan { mode: Mode::Full, ..plan.clone() };
        let coverage = super::coverage(&plan, &[run_of("fp64", 4, &[])]);
        assert_eq!((coverage.missing.len(), coverage.full.len()), (12, 0));
    }

    #[test]
    fn rows_of_files_count_for_a_plan_of_stand_ins() {
        let table = artefact("2503.15252/table-5").unwrap();
        let plan = table.plan().unwrap();
        let cells_of_plan = asked_cells(plan);
        let mut record = fixture::run_of(&cells_of_plan[0], plan, 1, 0.7);
        record.data = Data::of_set("files").with("weights", Level::text("/models/llama"));
        let runs = [summarise_run(&record)];
        assert_eq!(coverage(plan, &runs).missing.len(), 7);
        let found = deviations(table, &cells(&runs)).all();
        assert!(found.is_empty(), "{found:?}");
        let other = Plan { mode: Mode::Full, ..plan.clone() };
        assert_eq!(coverage(&other, &runs).missing.len(), 8);
    }

    #[test]
    fn other_epochs_are_other_work_for_the_whole_time_and_the_accuracy_and_the_same_for_a_step() {
        let table = artefact("2503.15252/table-2").unwrap();
        let runs = [
            run_of("fp32", 1, &[("epochs", Level::Integer(1))]),
            run_of("fp32", 2, &[("loader_workers", Level::Integer(2))]),
            run_of("fp32", 3, &[("batch_size", Level::Integer(32))]),
            run_of("fp32", 4, &[("image_size", Level::Integer(100))]),
        ];
        let cells = cells(&runs);
        let found = deviations(table, &cells);
        let place =
            |gpus: i64| cells.iter().position(|cell| cell.levels.get("gpus") == Some(&Level::Integer(gpus))).unwrap();
        let same = |key: &str| {
            let measure = analysis_measure(key).unwrap();
            [1, 2, 3, 4].map(|gpus| found.is_same_work(place(gpus), measure))
        };
        assert_eq!(same("training_time_s"), [false, true, true, false]);
        assert_eq!(same("accuracy"), [false, true, true, false]);
        assert_eq!(same("step_time_s"), [true, true, false, false]);
        assert_eq!(found.other_work(analysis_measure("step_time_s").unwrap()).len(), 2);
    }
}
