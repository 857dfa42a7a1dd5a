//! Searches over made-up cells, whose true values are known.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use proptest::prelude::*;

use super::{Next, Question, Race, Trial};
use crate::analysis::fixture::Noise;
use crate::plan::{DropReason, Level, Plan, SearchEnd, SearchStep, SearchVerdict};

const RATE: &str = "images_per_s";
const MEMORY: &str = "peak_allocated_bytes";

fn question(search: &str, repeats: u32) -> Question {
    let text = format!("version = 1\nrepeats = {repeats}\n[factors]\nbatch_size = [32, 64]\n[search]\n{search}\n");
    Question::of(&Plan::parse(&text, "p.toml").unwrap()).unwrap().unwrap()
}

fn fastest(repeats: u32) -> Question {
    question("goal = \"max throughput\"", repeats)
}

/// A finished run of a cell.
fn trial(cell: usize, repeat: u32, values: &[(&str, f64)]) -> Trial {
    Trial {
        cell: cell.to_string(),
        repeat,
        values: Ok(values.iter().map(|(key, value)| ((*key).into(), *value)).collect()),
        rounding: 0.0,
        level: Some(Level::Integer(1 << cell.min(40))),
        steps: 100,
        time_s: 2.0,
    }
}

/// A simulated search: its steps, and the runs that it made.
struct Seen {
    steps: Vec<SearchStep>,
    trials: Vec<Trial>,
}

impl Seen {
    fn verdict(&self) -> &SearchVerdict {
        let Some(SearchStep::Ended(verdict)) = self.steps.last() else { panic!("{:?}", self.steps) };
        verdict
    }

    fn chosen(&self) -> usize {
        self.verdict().chosen.as_ref().unwrap().parse().unwrap()
    }

    fn why_dropped(&self, cell: usize) -> Option<&DropReason> {
        let dropped = self.steps.iter().filter_map(|step| match step {
            SearchStep::Round { dropped, .. } => Some(dropped),
            _ => None,
        });
        dropped.flatten().find(|dropped| dropped.cell == cell.to_string()).map(|dropped| &dropped.why)
    }
}

/// Simulates a search over this number of cells; `run` makes a run of a cell.
fn searched(question: &Question, cells: usize, mut run: impl FnMut(usize, u32) -> Trial) -> Seen {
    let candidates = (0..cells).map(|cell| cell.to_string()).collect();
    let mut seen = Seen { steps: vec![Race::begin(candidates, 1)], trials: Vec::new() };
    loop {
        match Race::after(question, &seen.steps).unwrap().next(&seen.trials) {
            Next::Over => return seen,
            Next::Step(step) => seen.steps.push(step),
            Next::Runs(cells, repeat) => {
                seen.trials.extend(cells.iter().map(|cell| run(cell.parse().unwrap(), repeat)));
            }
        }
    }
}

/// Searches for the fastest of cells with these true rates and spreads. Each round also has noise that all cells share.
/// With a probability of 5 %, a run is slower by `tail`, as a logarithm.
fn race(rates: &[f64], spread: impl Fn(usize) -> f64, tail: f64, noise: &mut Noise) -> Seen {
    let shared: Vec<f64> = (0..40).map(|_| 0.05 * noise.normal()).collect();
    searched(&fastest(12), rates.len(), |cell, repeat| {
        // Some runs are disturbed and much slower.
        let disturbed = if tail > 0.0 && noise.normal() > 1.645 { tail } else { 0.0 };
        let log = spread(cell) * noise.normal() + shared[repeat as usize] - disturbed;
        trial(cell, repeat, &[(RATE, rates[cell] * log.exp())])
    })
}

#[test]
fn the_best_cell_is_dropped_in_no_more_searches_than_the_confidence_allows() {
    let close: Vec<f64> = (0..10).map(|cell| if cell == 3 { 100.1 } else { 100.0 }).collect();
    let spaced: Vec<f64> = (0..10).map(|cell| 100.0 - 2.0 * ((cell + 7) % 10) as f64).collect();
    let even = |spread: f64| move |_: usize| spread;
    // The best cell is the noisiest one, or all others are.
    let noisy_best = |cell: usize| if cell == 3 { 0.03 } else { 0.005 };
    let noisy_others = |cell: usize| if cell == 3 { 0.005 } else { 0.03 };
    let mut noise = Noise::new(41);
    let mut dropped = |rates: &[f64], spread: &dyn Fn(usize) -> f64, tail: f64| {
        let is_dropped = |_: &u32| race(rates, spread, tail, &mut noise).why_dropped(3).is_some();
        (0..400).filter(is_dropped).count()
    };
    let found = [
        ("close", dropped(&close, &even(0.01), 0.0)),
        ("spaced", dropped(&spaced, &even(0.01), 0.0)),
        ("very noisy", dropped(&spaced, &even(0.1), 0.0)),
        ("noisy best", dropped(&close, &noisy_best, 0.0)),
        ("noisy others", dropped(&close, &noisy_others, 0.0)),
        ("disturbed runs", dropped(&close, &even(0.01), 0.3)),
        ("four cells", dropped(&[100.0, 100.0, 100.0, 100.1], &even(0.02), 0.0)),
    ];
    println!("dropped of 400: {found:?}");
    // 5 % of 400.
    assert!(found.iter().all(|(_, count)| *count <= 20), "{found:?}");
}

#[test]
fn cells_that_differ_are_told_apart_at_a_fraction_of_the_grid() {
    let mut noise = Noise::new(42);
    let rates: Vec<f64> = (0..20).map(|cell| 100.0 / (1.0 + 0.05 * cell as f64)).collect();
    let (mut right, mut runs) = (0, 0);
    for _ in 0..100 {
        let seen = race(&rates, |_| 0.01, 0.0, &mut noise);
        right += u32::from(seen.chosen() == 0);
        runs += seen.trials.len();
    }
    let share = runs as f64 / (100.0 * 20.0 * 12.0);
    assert!(right >= 95 && share < 0.35, "{right} of 100 are right, at {share} of the grid");
}

#[test]
fn equal_cells_end_as_ties_and_are_called_ties() {
    let mut noise = Noise::new(43);
    let mut ties = 0;
    for _ in 0..50 {
        let seen = race(&[100.0, 100.0, 80.0], |_| 0.002, 0.0, &mut noise);
        let verdict = seen.verdict();
        ties += u32::from(verdict.end == SearchEnd::Ties && verdict.others.len() == 1 && verdict.others[0].is_tie);
        assert!(seen.chosen() < 2 && matches!(seen.why_dropped(2), Some(DropReason::Worse { .. })));
    }
    assert!(ties >= 45, "{ties} of 50");
}

#[test]
fn runs_that_fail_drop_their_cells_with_the_reason_and_cost_too() {
    let out_of_memory = DropReason::Failed { why: "failed: CUDA out of memory".into() };
    let seen = searched(&fastest(6), 3, |cell, repeat| {
        let run = trial(cell, repeat, &[(RATE, 100.0 + cell as f64)]);
        if cell == 2 { Trial { values: Err(out_of_memory.clone()), ..run } } else { run }
    });
    assert_eq!((seen.why_dropped(2), seen.chosen()), (Some(&out_of_memory), 1));
    assert_eq!((seen.verdict().made.runs, seen.verdict().grid.runs), (5, 18));
    assert_eq!((seen.verdict().made.steps, seen.verdict().grid.steps), (500, 1800));
    let none = searched(&fastest(6), 2, |cell, repeat| Trial {
        values: Err(out_of_memory.clone()),
        ..trial(cell, repeat, &[])
    });
    assert_eq!((none.verdict().end, &none.verdict().chosen), (SearchEnd::None, &None));
}

#[test]
fn a_cell_is_not_dropped_by_values_that_a_program_rounds_unless_they_count_something() {
    let question = |unit: &str| {
        let text = format!(
            "version = 1\nrepeats = 6\n[command]\nrun = [\"x\", \"{{n}}\"]\n[command.measures.score]\nunit = \"{unit}\"\n\
             better = \"higher\"\n[factors]\nn = [1, 2]\n[search]\ngoal = \"max score\"\n"
        );
        Question::of(&Plan::parse(&text, "p.toml").unwrap()).unwrap().unwrap()
    };
    let searched = |unit: &str, scores: [f64; 2]| {
        searched(&question(unit), 2, |cell, repeat| trial(cell, repeat, &[("score", scores[cell])]))
    };
    // 1.49 and 1.51 are rounded to 1 and 2.
    let rounded = searched("", [1.0, 2.0]);
    assert_eq!((rounded.why_dropped(0), rounded.verdict().end), (None, SearchEnd::Repeats), "{:?}", rounded.steps);
    assert!(matches!(searched("", [1.0, 9.0]).why_dropped(0), Some(DropReason::Worse { .. })));
    assert!(matches!(searched("count", [1.0, 2.0]).why_dropped(0), Some(DropReason::Worse { .. })));
}

#[test]
fn a_value_that_is_not_above_0_in_a_later_round_drops_its_own_cell_only() {
    let rates = [[100.0, 105.0, 98.0, 103.0], [101.0, 99.0, 104.0, 97.0], [50.0, 0.0, 50.0, 50.0]];
    let seen =
        searched(&fastest(4), 3, |cell, repeat| trial(cell, repeat, &[(RATE, rates[cell][repeat as usize - 1])]));
    assert!(matches!(seen.why_dropped(2), Some(DropReason::NoValue { .. })), "{:?}", seen.steps);
    assert_eq!((seen.why_dropped(0), seen.why_dropped(1)), (None, None));
    assert_eq!(seen.trials.len(), 10);
}

#[test]
fn a_cell_that_failed_after_the_first_round_is_not_compared_with_as_the_best_one() {
    let question = question("goal = \"min batch_size\"\nkeep = \"throughput >= 95 % of best\"", 12);
    // The fastest cell fails in the second round. The smallest of the others that is fast enough varies, so that the
    // search needs more rounds.
    let seen = searched(&question, 4, |cell, repeat| {
        let noise = [0.0, if repeat % 2 == 0 { 0.01 } else { -0.01 }, 0.0, 0.0][cell];
        let run = trial(cell, repeat, &[(RATE, [50.0, 99.0, 100.0, 200.0][cell] * (1.0 + noise))]);
        let failed = DropReason::Failed { why: "failed".into() };
        if cell == 3 && repeat == 2 { Trial { values: Err(failed), ..run } } else { run }
    });
    assert!(matches!(seen.why_dropped(3), Some(DropReason::Failed { .. })), "{:?}", seen.steps);
    assert_eq!((seen.verdict().end, seen.chosen()), (SearchEnd::One, 1), "{:?}", seen.steps);
    assert!(seen.verdict().unsure.is_empty(), "{:?}", seen.verdict());
}

#[test]
fn budgets_end_a_search_before_a_round_that_they_do_not_cover() {
    let mut noise = Noise::new(44);
    let mut budget = |search: &str| {
        let question = question(&format!("goal = \"max throughput\"\n{search}"), 50);
        let seen =
            searched(&question, 4, |cell, repeat| trial(cell, repeat, &[(RATE, 100.0 * (0.3 * noise.normal()).exp())]));
        (seen.verdict().end, seen.trials.len(), seen.verdict().others.len())
    };
    assert_eq!(budget("runs = 11"), (SearchEnd::Runs, 8, 3));
    // Runs take 2 s.
    assert_eq!(budget("minutes = 0.5"), (SearchEnd::Minutes, 12, 3));
    assert_eq!(budget("confidence = 0.999999").1, 200);
}

#[test]
fn a_limit_drops_cells_that_surely_miss_it_and_only_those_that_keep_it_are_compared_with() {
    let question = question("goal = \"max throughput\"\nkeep = \"peak_allocated_bytes < 24 GB\"", 6);
    // The fastest ones need too much memory.
    let seen = searched(&question, 4, |cell, repeat| {
        trial(cell, repeat, &[(RATE, 100.0 + 10.0 * cell as f64), (MEMORY, 10e9 + 8e9 * cell as f64)])
    });
    assert_eq!(seen.chosen(), 1);
    for cell in [2, 3] {
        let Some(DropReason::Misses { limit, value }) = seen.why_dropped(cell) else { panic!("{:?}", seen.steps) };
        assert_eq!((limit.as_str(), value.as_str()), ("peak_allocated_bytes < 24 GB", ["26 GB", "34 GB"][cell - 2]));
    }
    assert_eq!(seen.verdict().values, ["Throughput (distinct images) 110 images/s", "Peak allocated 18 GB"]);
    assert_eq!(seen.trials.len(), 8, "two repeats that agree decide");
}

#[test]
fn the_smallest_level_that_keeps_a_share_of_the_best_is_found_as_often_as_is_said() {
    let question = question("goal = \"min batch_size\"\nkeep = \"throughput >= 95 % of best\"", 20);
    // Rates that saturate: 50, 75, 87.5, 93.75, 96.9, 98.4, 99.2 of 100.
    let mut noise = Noise::new(45);
    let (mut wrong, mut runs) = (0, 0);
    for _ in 0..200 {
        let seen = searched(&question, 7, |cell, repeat| {
            let rate = 100.0 * (1.0 - 0.5_f64.powi(cell as i32 + 1));
            trial(cell, repeat, &[(RATE, rate * (0.002 * noise.normal()).exp())])
        });
        runs += seen.trials.len();
        wrong += u32::from(seen.chosen() != 4);
    }
    assert!(wrong <= 10, "{wrong} of 200");
    assert!(runs < 200 * 7 * 10, "{runs} runs");
}

#[test]
fn a_decision_among_a_thousand_cells_takes_less_than_50_ms() {
    let question = question("goal = \"max throughput\"\nkeep = [\"peak_allocated_bytes < 24 GB\"]", 12);
    let mut noise = Noise::new(46);
    let mut longest_s = 0.0_f64;
    let candidates = (0..1000).map(|cell| cell.to_string()).collect();
    let mut seen = Seen { steps: vec![Race::begin(candidates, 1)], trials: Vec::new() };
    loop {
        let begun = Instant::now();
        let next = Race::after(&question, &seen.steps).unwrap().next(&seen.trials);
        longest_s = longest_s.max(begun.elapsed().as_secs_f64());
        match next {
            Next::Over => break,
            Next::Step(step) => seen.steps.push(step),
            Next::Runs(cells, repeat) => seen.trials.extend(cells.iter().map(|cell| {
                let rate = 100.0 * (0.5 * noise.normal()).exp();
                trial(cell.parse().unwrap(), repeat, &[(RATE, rate), (MEMORY, 20e9 + 5e9 * noise.normal())])
            })),
        }
    }
    eprintln!("longest decision: {:.1} ms, {} runs", longest_s * 1e3, seen.trials.len());
    // Tests are not optimised.
    let most_s = if cfg!(debug_assertions) { 2.0 } else { 0.05 };
    assert!(longest_s < most_s, "{longest_s} s");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// At any time, the records determine what comes next: a search that is killed at any point takes the same steps.
    #[test]
    fn a_search_that_is_cut_off_at_any_point_goes_on_in_the_same_way(seed in 0_u64..1000, cells in 2_usize..7, spread in 0.001_f64..0.1) {
        let question = question("goal = \"max throughput\"\nkeep = \"peak_allocated_bytes < 24 GB\"\nruns = 60", 12);
        let run = |cell: usize, repeat: u32| {
            // Each run has its own noise, whenever it is made.
            let mut noise = Noise::new(seed ^ (cell as u64) << 20 ^ u64::from(repeat) << 40);
            let rate = (100.0 + 3.0 * cell as f64) * (spread * noise.normal()).exp();
            trial(cell, repeat, &[(RATE, rate), (MEMORY, 22e9 + 1e9 * (cell as f64) + 1e8 * noise.normal())])
        };
        let whole = searched(&question, cells, run);
        for cut in 0..=whole.trials.len() {
            // Any number of the trials has ended, and all steps that follow from these are recorded, or all but the
            // last one.
            let trials = whole.trials[..cut].to_vec();
            let recorded = |steps: &[SearchStep]| {
                let count = 1 + steps.iter().skip(1).zip(1..).take_while(|(step, place)| match step {
                    SearchStep::Round { .. } => {
                        let race = Race::after(&question, &whole.steps[..*place]).unwrap();
                        matches!(race.next(&trials), Next::Step(_))
                    }
                    _ => cut == whole.trials.len(),
                }).count();
                steps[..count].to_vec()
            };
            let steps = recorded(&whole.steps);
            for fewer in [0, 1] {
                let steps = steps[..(steps.len() - fewer).max(1)].to_vec();
                let mut seen = Seen { steps, trials: trials.clone() };
                loop {
                    match Race::after(&question, &seen.steps).unwrap().next(&seen.trials) {
                        Next::Over => break,
                        Next::Step(step) => seen.steps.push(step),
                        Next::Runs(cells, repeat) => seen.trials.extend(cells.iter().map(|cell| run(cell.parse().unwrap(), repeat))),
                    }
                }
                prop_assert_eq!(&seen.steps, &whole.steps);
                prop_assert_eq!(&seen.trials, &whole.trials);
            }
        }
    }
}
