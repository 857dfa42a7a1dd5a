//! Replays searches on recorded grids: how often is the chosen cell within 1 % of the best one, and which share of the
//! grid's steps does a search need?
//!
//! Each replay takes the recorded repeats in a random order of its own. A grid with fewer than six repeats gets more,
//! which are drawn from the deviations of its own runs. The numbers are in `tests/records/2026-11-26-searches.md`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use multicard::analysis::{Next, Question, Race, Trial};
use multicard::plan::{Plan, SearchEnd, SearchStep};
use multicard::store::{Reader, import_session};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

const REPLAYS: u64 = 100;

/// A grid: for each cell its runs by repeat.
struct Grid {
    name: String,
    cells: BTreeMap<String, Vec<Trial>>,
    /// The key of the measure that is sought.
    key: String,
    is_max: bool,
}

impl Grid {
    fn repeats(&self) -> usize {
        self.cells.values().map(Vec::len).min().unwrap_or(0)
    }

    fn value(&self, trial: &Trial) -> f64 {
        trial.values.as_ref().unwrap()[self.key.as_str()]
    }

    /// The median of a cell as a logarithm, with such a sign that high values are good.
    fn median_log(&self, cell: &str) -> f64 {
        let mut logs: Vec<f64> = self.cells[cell].iter().map(|trial| self.value(trial).ln()).collect();
        logs.sort_by(f64::total_cmp);
        let middle = (logs[(logs.len() - 1) / 2] + logs[logs.len() / 2]) / 2.0;
        if self.is_max { middle } else { -middle }
    }

    /// The same grid with this many repeats, drawn from the deviations of its runs from the medians of their cells.
    fn drawn(&self, repeats: usize, random: &mut ChaCha8Rng) -> Self {
        let sign = if self.is_max { 1.0 } else { -1.0 };
        let mut deviations = Vec::new();
        for trials in self.cells.values() {
            let mean = trials.iter().map(|trial| self.value(trial).ln()).sum::<f64>() / trials.len() as f64;
            // The mean of few runs is nearer to them than the true mean.
            let wider = (trials.len() as f64 / (trials.len() as f64 - 1.0)).sqrt();
            deviations.extend(trials.iter().map(|trial| wider * (self.value(trial).ln() - mean)));
        }
        let cells = self.cells.iter().map(|(cell, trials)| {
            let middle = sign * self.median_log(cell);
            let more = (0..repeats).map(|place| {
                let mut trial = trials[place % trials.len()].clone();
                let value = (middle + deviations[random.random_range(0..deviations.len())]).exp();
                trial.values.as_mut().unwrap().insert(self.key.as_str().into(), value);
                trial
            });
            (cell.clone(), more.collect())
        });
        Self {
            name: format!("{}, drawn", self.name),
            cells: cells.collect(),
            key: self.key.clone(),
            is_max: self.is_max,
        }
    }
}

/// What the replays of a grid gave.
#[derive(Debug, Default)]
struct Outcome {
    within: u32,
    exactly: u32,
    ties: u32,
    spent: u32,
    /// The steps of all replays over those of their grids.
    share: f64,
    greatest_share: f64,
}

fn replay(grid: &Grid, question: &Question, seed: u64) -> (String, SearchEnd, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let repeats = grid.repeats();
    let mut order: Vec<usize> = (0..repeats).collect();
    for end in (1..repeats).rev() {
        order.swap(end, random.random_range(0..=end));
    }
    let mut steps = vec![Race::begin(grid.cells.keys().cloned().collect(), 1)];
    let mut trials: Vec<Trial> = Vec::new();
    loop {
        match Race::after(question, &steps).unwrap().next(&trials) {
            Next::Step(step) => steps.push(step),
            Next::Runs(cells, repeat) => trials.extend(cells.into_iter().map(|cell| {
                let trial = grid.cells[&cell][order[repeat as usize - 1]].clone();
                Trial { repeat, ..trial }
            })),
            Next::Over => break,
        }
    }
    let Some(SearchStep::Ended(verdict)) = steps.pop() else { panic!("{steps:?}") };
    let of_grid: u64 = grid.cells.values().flat_map(|trials| &trials[..repeats]).map(|trial| trial.steps.max(1)).sum();
    let made: u64 = trials.iter().map(|trial| trial.steps.max(1)).sum();
    (verdict.chosen.unwrap(), verdict.end, made as f64 / of_grid as f64)
}

fn replays(grid: &Grid) -> Outcome {
    let (cells, repeats) = (grid.cells.len(), grid.repeats());
    let goal = format!("{} {}", if grid.is_max { "max" } else { "min" }, grid.key);
    let text = |seed: u64| {
        format!(
            "version = 1\nrepeats = {repeats}\nseed = {seed}\n[factors]\nbatch_size = [1, 2]\n[search]\ngoal = \"{goal}\"\nruns = {}\n",
            cells * repeats / 2
        )
    };
    let best = grid.cells.keys().map(|cell| grid.median_log(cell)).fold(f64::NEG_INFINITY, f64::max);
    let mut outcome = Outcome::default();
    for seed in 1..=REPLAYS {
        let question = Question::of(&Plan::parse(&text(seed), "replay").unwrap()).unwrap().unwrap();
        let (chosen, end, share) = replay(grid, &question, seed);
        let behind = best - grid.median_log(&chosen);
        outcome.within += u32::from(behind <= 0.01_f64.ln_1p());
        outcome.exactly += u32::from(behind == 0.0);
        outcome.ties += u32::from(end == SearchEnd::Ties);
        outcome.spent += u32::from(end == SearchEnd::Runs);
        outcome.share += share / REPLAYS as f64;
        outcome.greatest_share = outcome.greatest_share.max(share);
    }
    eprintln!(
        "| {} | {cells} × {repeats} | {} | {} | {} | {} | {:.2} | {:.2} |",
        grid.name, outcome.within, outcome.exactly, outcome.ties, outcome.spent, outcome.share, outcome.greatest_share
    );
    outcome
}

/// The grids of an archive: the cells of each workload that have enough repeats.
fn grids(archive: &str, key: &str, is_max: bool, least: usize) -> Vec<Grid> {
    let folder = TempDir::new().unwrap();
    let session: PathBuf = folder.path().join("session");
    import_session(&Path::new(env!("CARGO_MANIFEST_DIR")).join(archive), &session, &mut |_, _| {
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let reader = Reader::open(&session).unwrap();
    let goal = format!("{} {key}", if is_max { "max" } else { "min" });
    let headings = reader.headings().unwrap();
    let mut by_workload: BTreeMap<String, BTreeMap<String, Vec<Trial>>> = BTreeMap::new();
    for heading in headings {
        let record = reader.run(&heading.run).unwrap().unwrap();
        let text = format!("version = 1\nrepeats = 2\n[factors]\nbatch_size = [1, 2]\n[search]\ngoal = \"{goal}\"\n");
        let question = Question::of(&Plan::parse(&text, "grid").unwrap()).unwrap().unwrap();
        let Some(trial) = Trial::of(&record, &question).filter(|trial| trial.values.is_ok()) else { continue };
        by_workload
            .entry(record.workload.key.to_string())
            .or_default()
            .entry(record.cell.clone())
            .or_default()
            .push(trial);
    }
    let name = archive.rsplit('/').next().unwrap().trim_end_matches(".zip");
    let mut grids = Vec::new();
    for (workload, mut cells) in by_workload {
        cells.retain(|_, trials| trials.len() >= least);
        let key = key.to_owned();
        if cells.len() > 1 {
            grids.push(Grid { name: format!("{name}, {workload}"), cells, key, is_max });
        }
    }
    grids
}

fn check(grids: &[Grid]) {
    assert!(!grids.is_empty());
    for grid in grids {
        let outcome = replays(grid);
        assert!(outcome.within >= 95, "{}: {outcome:?}", grid.name);
        assert!(outcome.greatest_share <= 0.5, "{}: {outcome:?}", grid.name);
    }
}

#[test]
fn searches_on_recorded_grids_choose_a_cell_within_1_percent_of_the_best_at_half_of_the_steps() {
    check(&grids("assets/samples/one-h100.zip", "step_time_s", false, 6));
}

#[test]
fn searches_on_grids_that_are_drawn_from_recorded_ones_do_so_too() {
    let mut random = ChaCha8Rng::seed_from_u64(47);
    for name in ["26-h100-figure-2", "25-h100-figure-10", "25-h100-figure-13", "25-h100-calls", "25-h100-table-5"] {
        let recorded = grids(&format!("tests/records/2026-11-{name}.zip"), "step_time_s", false, 2);
        let drawn: Vec<Grid> = recorded.iter().map(|grid| grid.drawn(12, &mut random)).collect();
        check(&drawn);
    }
}
