#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::{EQUAL_WITHIN, Interval, RunSummary, Verdict, cells, fixture, summarise_run};

const FASTER: Reading<'static> = Reading {
    measure: "total_time_s",
    inverse: true,
    of_speed: true,
    equal_within: EQUAL_WITHIN,
    intervals: Intervals::ByCount,
    others: 0,
};

/// Runs of cells: precision, GPUs, and the time of each repeat.
fn runs(cells: &[(&str, i64, &[f64])]) -> Vec<RunSummary> {
    let run = |precision: &str, gpus: i64, repeat: u32, time_s: f64| {
        let record = fixture::run(&fixture::cell(precision, gpus, "ddp-ds"), repeat, 0.01);
        let mut run = summarise_run(&record);
        run.values.insert("total_time_s".into(), time_s);
        run
    };
    let runs_of = |(precision, gpus, times): &(&str, i64, &[f64])| -> Vec<RunSummary> {
        times.iter().zip(1..).map(|(time_s, repeat)| run(precision, *gpus, repeat, *time_s)).collect()
    };
    cells.iter().flat_map(runs_of).collect()
}

fn times(cell: &Cell) -> Vec<(u32, f64)> {
    cell.runs.iter().filter_map(|run| Some((run.repeat, run.value("total_time_s")?))).collect()
}

/// What stands for an effect in these tests: `fp16/fp32`, or `fp16/fp32 × 4/1`.
fn name(effect: &Effect) -> String {
    named(&effect.changes)
}

fn named(changes: &[Change]) -> String {
    let changes = changes.iter().map(|change| format!("{}/{}", change.level, change.base));
    changes.collect::<Vec<_>>().join(" × ")
}

fn effects_of(data: &[(&str, i64, &[f64])]) -> Vec<(String, Effect)> {
    let runs = runs(data);
    effects(&cells(&runs), &times, FASTER).computed.into_iter().map(|effect| (name(&effect), effect)).collect()
}

fn find(found: &[(String, Effect)], name: &str) -> Effect {
    found.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name}: {found:?}")).1.clone()
}

#[test]
fn effects_on_the_time_of_training_see_that_a_program_made_fewer_steps() {
    let command = Some(std::sync::Arc::new(crate::plan::Command::default()));
    let runs: Vec<_> = [("fp32", 0.1, 40), ("fp16", 0.05, 20)]
        .into_iter()
        .flat_map(|(precision, step_time_s, steps)| (1..=4).map(move |repeat| (precision, step_time_s, steps, repeat)))
        .map(|(precision, step_time_s, steps, repeat)| {
            let noise = 1.0 + 0.001 * f64::from(repeat % 3);
            let record = fixture::run(&fixture::cell(precision, 1, "single"), repeat, step_time_s * noise);
            let mut run = summarise_run(&record);
            run.workload =
                std::sync::Arc::new(crate::plan::WorkloadSpec { command: command.clone(), ..(*run.workload).clone() });
            run.training = run.training.map(|training| crate::analysis::TrainingTime { steps, ..training });
            run
        })
        .collect();
    let cells = cells(&runs);
    let effects_on = |measure: &'static str| {
        let values = |cell: &Cell| crate::analysis::by_repeat(cell, measure);
        effects(&cells, &values, Reading { measure, ..FASTER }).computed[0].judgement.to_string()
    };
    assert_eq!(effects_on("training_time_s"), "faster, but number of steps differs: 20 against 40");
    assert_eq!(effects_on("step_time_s"), "faster");
}

#[test]
fn effects_on_rows_that_form_no_pairs_are_not_paired_by_their_places() {
    let times_s = [1.0, 1.1, 1.2, 1.3];
    let slower = times_s.map(|time_s| 1.02 * time_s);
    let mut runs = runs(&[("fp32", 1, &times_s), ("fp16", 1, &slower), ("fp32", 2, &times_s), ("fp16", 2, &slower)]);
    let effect_of = |runs: &[RunSummary]| {
        let found = effects(&cells(runs), &times, FASTER).computed.into_iter().map(|effect| (name(&effect), effect));
        find(&found.collect::<Vec<_>>(), "fp16/fp32")
    };
    assert_eq!(effect_of(&runs).judgement.verdict, Verdict::Slower);
    runs.iter_mut().for_each(|run| run.counts_rows = true);
    let Effect { value, judgement, groups, .. } = effect_of(&runs);
    let value = value.unwrap();
    assert_eq!((judgement.verdict, groups), (Verdict::Undecided, 2), "{judgement:?}");
    assert_eq!((value.n, value.method), (4, crate::analysis::Method::GeometricMeans));
    let ends = value.interval.unwrap();
    assert!((value.median - 1.0 / 1.02).abs() < 1e-9 && ends.low < 1.0 && ends.high > 1.0, "{value:?}");
    let means = mean_cells(&cells(&runs), &times, ("precision", "gpus"), Intervals::ByCount);
    assert!(means.iter().all(|mean| mean.value.n == 4), "{means:?}");
    // What a program rounds is no effect in rows either.
    let command = Some(std::sync::Arc::new(crate::plan::Command::default()));
    for run in &mut runs {
        let own = if run.cell.starts_with("fp16") { 2.0 } else { 1.0 };
        run.workload =
            std::sync::Arc::new(crate::plan::WorkloadSpec { command: command.clone(), ..(*run.workload).clone() });
        run.values.insert("load_from_disk_s".into(), own);
    }
    let values = |cell: &Cell| crate::analysis::by_repeat(cell, "load_from_disk_s");
    let found = effects(&cells(&runs), &values, Reading { measure: "load_from_disk_s", ..FASTER }).computed;
    let found: Vec<_> = found.into_iter().map(|effect| (name(&effect), effect)).collect();
    let coarse = find(&found, "fp16/fp32").judgement.to_string();
    assert_eq!(coarse, "not comparable: the values have too few digits: they resolve 75 %");
}

#[test]
fn a_main_effect_is_the_geometric_mean_over_pairs_that_are_otherwise_equal() {
    let found = effects_of(&[
        ("fp32", 1, &[40.0]),
        ("fp32", 2, &[20.0]),
        ("fp16", 1, &[10.0]),
        ("fp16", 2, &[10.0]),
        ("fp64", 4, &[900.0]),
    ]);
    let fp16 = find(&found, "fp16/fp32");
    // 4 times and twice as fast.
    assert!((fp16.value.unwrap().median - 8.0_f64.sqrt()).abs() < 1e-9 && fp16.groups == 2, "{fp16:?}");
    assert_eq!((fp16.value.unwrap().interval, fp16.judgement.verdict), (None, Verdict::Undecided));
    // Nothing is otherwise equal to the only fp64 cell.
    assert!(found.iter().all(|(name, _)| !name.contains("fp64")), "{found:?}");
}

#[test]
fn what_pairs_differ_in_is_an_interaction_and_not_in_the_main_effects_interval() {
    let near = |base: f64| [base, base * 1.01, base * 0.99];
    let (a, b, c, d) = (near(80.0), near(80.0), near(40.0), near(10.0));
    // Repeats of one cell go together with the others': the first change halves the time on one GPU, and takes 1/8 on two.
    let found = effects_of(&[("fp32", 1, &a), ("fp32", 2, &b), ("fp16", 1, &c), ("fp16", 2, &d)]);
    let main = find(&found, "fp16/fp32");
    let Interval { low, high } = main.value.unwrap().interval.unwrap();
    assert!((main.value.unwrap().median - 4.0).abs() < 1e-9 && low > 3.9 && high < 4.1, "{main:?}");
    assert_eq!((main.judgement.verdict, main.value.unwrap().n, main.groups), (Verdict::Faster, 3, 2));
    let interaction = find(&found, "fp16/fp32 × 2/1");
    assert!((interaction.value.unwrap().median - 4.0).abs() < 1e-9, "{interaction:?}");
    assert_eq!((interaction.groups, interaction.judgement.verdict), (1, Verdict::Faster));
    assert_eq!(
        found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["fp16/fp32", "2/1", "fp16/fp32 × 2/1"]
    );
}

#[test]
fn the_noise_of_repeats_is_the_width_of_the_interval() {
    let slower = |base: f64, noise: [f64; 6]| noise.map(|log: f64| base * log.exp());
    let (a, b) = (slower(80.0, [0.0; 6]), slower(40.0, [0.2, -0.1, 0.1, -0.2, 0.05, -0.05]));
    let found = effects_of(&[("fp32", 1, &a), ("fp16", 1, &b)]);
    let logs: Vec<(u32, f64)> = a.iter().zip(1..).map(|(time, repeat)| (repeat, *time)).collect();
    let base: Vec<(u32, f64)> = b.iter().zip(1..).map(|(time, repeat)| (repeat, *time)).collect();
    let ratio = crate::analysis::ratio(&logs, &base).unwrap();
    let value = find(&found, "fp16/fp32").value.unwrap();
    assert!((value.median - ratio.median).abs() < 1e-12, "one pair is a ratio: {value:?}");
    let (seen, expected) = (value.interval.unwrap(), ratio.interval.unwrap());
    assert!(
        (seen.low - expected.low).abs() < 1e-12 && (seen.high - expected.high).abs() < 1e-12,
        "{seen:?} {expected:?}"
    );
}

#[test]
fn an_effect_rests_on_the_repeats_that_all_groups_have() {
    // What a does is nothing; of the noisy half only one repeat survived.
    let quiet = [80.0, 80.1, 79.9, 80.05, 79.95, 80.0];
    let found = effects_of(&[("fp32", 1, &quiet), ("fp32", 2, &[80.0]), ("fp16", 1, &quiet), ("fp16", 2, &[83.0])]);
    let main = find(&found, "fp16/fp32");
    assert_eq!(
        (main.judgement.verdict, main.value.unwrap().n, main.repeats_seen),
        (Verdict::Undecided, 1, 6),
        "{main:?}"
    );
    assert_eq!((main.value.unwrap().interval, main.groups), (None, 2));
    // A group that lost two repeats leaves the others their noise.
    let noisy = [80.0, 84.0, 76.0, 83.0];
    let found = effects_of(&[("fp32", 1, &quiet), ("fp32", 2, &[80.0; 4]), ("fp16", 1, &quiet), ("fp16", 2, &noisy)]);
    let main = find(&found, "fp16/fp32");
    assert_eq!(
        (main.judgement.verdict, main.value.unwrap().n, main.repeats_seen),
        (Verdict::Undecided, 4, 6),
        "{main:?}"
    );
}

#[test]
fn effects_whose_cells_have_no_repeat_in_common_are_named() {
    // The first repeat of one cell failed, and the second one of another cell.
    let mut runs = runs(&[
        ("fp32", 1, &[10.0, 10.1]),
        ("fp32", 2, &[12.0, 12.1]),
        ("fp32", 4, &[10.0, 10.2]),
        ("fp16", 1, &[8.0, 8.1]),
        ("fp16", 2, &[9.6, 9.7]),
        ("fp16", 4, &[8.0, 8.2]),
    ]);
    let failed = [("fp32-1-ddp-ds", 1), ("fp16-2-ddp-ds", 2)];
    runs.retain(|run| !failed.contains(&(run.cell.as_str(), run.repeat)));
    assert_eq!(runs.len(), 10);
    let found = effects(&cells(&runs), &times, FASTER);
    let without: Vec<String> = found.without_repeats.iter().map(|changes| named(changes)).collect();
    assert_eq!(without, ["fp16/fp32", "2/1", "fp16/fp32 × 2/1"]);
    let computed: Vec<String> = found.computed.iter().map(name).collect();
    assert_eq!(computed, ["4/1", "fp16/fp32 × 4/1"]);
}

/// The names of effects with their numbers of groups and their verdicts, and whether they have a probability.
fn judged(effects: &[&Effect]) -> Vec<(String, usize, String, bool)> {
    let one =
        |effect: &&Effect| (name(effect), effect.groups, effect.judgement.to_string(), effect.judgement.p.is_some());
    effects.iter().map(one).collect()
}

/// The effects that compare fp16 on 2 GPUs with other cells, with the same verdict.
fn without_the_second_cell(verdict: &str) -> [(String, usize, String, bool); 3] {
    [("fp16/fp32", 3), ("2/1", 2), ("fp16/fp32 × 2/1", 1)]
        .map(|(name, groups)| (name.to_owned(), groups, verdict.to_owned(), false))
}

#[test]
fn effects_with_a_group_whose_cells_have_no_repeat_in_common_are_not_comparable() {
    let near = |base: f64| [base, base * 1.01, base * 0.99];
    let mut runs = runs(&[
        ("fp32", 1, &near(10.0)),
        ("fp32", 2, &near(12.0)),
        ("fp32", 4, &near(14.0)),
        ("fp16", 1, &near(5.0)),
        ("fp16", 2, &near(2.0)),
        ("fp16", 4, &near(7.0)),
    ]);
    for run in runs.iter_mut().filter(|run| run.cell == "fp16-2-ddp-ds") {
        run.repeat += 3;
    }
    let found = effects(&cells(&runs), &times, FASTER);
    let (known, unknown): (Vec<&Effect>, Vec<&Effect>) =
        found.computed.iter().partition(|effect| effect.value.is_some());
    assert_eq!(known.into_iter().map(name).collect::<Vec<_>>(), ["4/1", "fp16/fp32 × 4/1"]);
    let expected = "not comparable: no repeat of one has a partner in the other";
    assert_eq!(judged(&unknown), without_the_second_cell(expected));
    assert!(found.without_repeats.is_empty());
    // A partner is still to come.
    let mut queued = runs.iter().find(|run| run.cell == "fp16-2-ddp-ds").unwrap().clone();
    (queued.run, queued.repeat, queued.state) = ("next".to_owned(), 1, crate::plan::RunState::Queued);
    queued.values.clear();
    runs.push(queued);
    let found = effects(&cells(&runs), &times, FASTER);
    let without: Vec<String> = found.without_repeats.iter().map(|changes| named(changes)).collect();
    assert_eq!(
        (without.as_slice(), found.computed.len()),
        (&["fp16/fp32", "2/1", "fp16/fp32 × 2/1"].map(str::to_owned)[..], 2)
    );
}

#[test]
fn effects_whose_cells_have_a_value_that_is_not_above_0_are_not_comparable() {
    let near = |base: f64| [base, base * 1.01, base * 0.99];
    for bad in [0.0, -3.0] {
        let mut runs = runs(&[
            ("fp32", 1, &near(10.0)),
            ("fp32", 2, &near(12.0)),
            ("fp32", 4, &near(14.0)),
            ("fp16", 1, &near(5.0)),
            ("fp16", 2, &[6.0, bad, 6.1]),
            ("fp16", 4, &near(7.0)),
        ]);
        // Repeats that form pairs, and rows that do not.
        for counts_rows in [false, true] {
            runs.iter_mut().for_each(|run| run.counts_rows = counts_rows);
            let found = effects(&cells(&runs), &times, FASTER);
            let (known, unknown): (Vec<&Effect>, Vec<&Effect>) =
                found.computed.iter().partition(|effect| effect.value.is_some());
            let known: Vec<String> = known.into_iter().map(name).collect();
            assert_eq!(known, ["4/1", "fp16/fp32 × 4/1"], "{bad} {counts_rows}");
            let expected = "not comparable: ratios need values above 0";
            assert_eq!(judged(&unknown), without_the_second_cell(expected), "{bad} {counts_rows}");
            assert!(found.without_repeats.is_empty());
        }
        let means = mean_cells(&cells(&runs), &times, ("precision", "gpus"), Intervals::ByCount);
        let names: Vec<String> = means.iter().map(|one| format!("{} {}", one.first, one.second)).collect();
        assert_eq!(names, ["fp32 1", "fp32 4", "fp16 1", "fp16 4"]);
    }
}

#[test]
fn no_effect_of_a_design_is_comparable_if_one_of_its_cells_has_a_value_of_0() {
    let mut runs = designed_runs("kind = \"fraction\"\nruns = 8\n", |at| 0.1 * at[0] as f64);
    let all = effects(&cells(&runs), &times, FASTER).computed;
    assert!(all.iter().all(|effect| effect.value.is_some()));
    runs[3].values.insert("total_time_s".into(), 0.0);
    let found = effects(&cells(&runs), &times, FASTER);
    assert_eq!((found.computed.len(), found.without_repeats.len()), (all.len(), 0));
    for effect in found.computed {
        assert_eq!((effect.value, effect.fitted.as_ref().unwrap().cells), (None, 8));
        assert_eq!(effect.judgement.reason, Some(Incomparable::NoRatio));
    }
}

#[test]
fn one_cell_and_none_have_no_effects() {
    assert!(effects_of(&[("fp32", 1, &[0.4])]).is_empty());
    assert!(effects_of(&[]).is_empty());
}

/// Seconds of arXiv 2503.15252 Table 2: 20 epochs with strategy ddp-ds on 1 to 4 GPUs, pin_memory off.
const TABLE_2: [(&str, [f64; 4]); 3] = [
    ("fp64", [6266.0, 3339.0, 2318.0, 1937.0]),
    ("fp32", [3721.0, 2094.0, 1483.0, 1256.0]),
    ("fp16", [2477.0, 1445.0, 1049.0, 919.0]),
];
/// Table 3: the same in fp32, pin_memory off and on.
const TABLE_3: [(&str, [f64; 4]); 2] =
    [("off", [3792.0, 2205.0, 1579.0, 1358.0]), ("on", [2921.0, 1733.0, 1283.0, 1165.0])];

fn assert_effects(found: &[(String, Effect)], expected: &[(&str, f64)]) {
    for (name, ratio) in expected {
        let seen = find(found, name).value.unwrap().median;
        assert!((seen - ratio).abs() < 5e-5, "{name}: {seen} for {ratio}");
    }
}

#[test]
fn effects_of_the_published_table_2_agree_with_a_recomputation_by_hand() {
    let columns = TABLE_2.iter().flat_map(|(precision, times)| {
        times.iter().zip(1..).map(move |(time_s, gpus)| (*precision, gpus, std::slice::from_ref(time_s)))
    });
    let found = effects_of(&columns.collect::<Vec<_>>());
    // Geometric means of printed times over printed times; 1.4321 = ⁴√(3721/2477 · 2094/1445 · 1483/1049 · 1256/919).
    let expected = [
        ("fp16/fp32", 1.432_091),
        ("fp64/fp32", 0.626_945),
        ("2/1", 1.788_017),
        ("4/1", 2.956_064),
        ("fp16/fp32 × 4/1", 0.909_79),
        ("fp64/fp32 × 4/1", 1.091_92),
    ];
    assert_effects(&found, &expected);
}

#[test]
fn effects_of_the_published_table_3_agree_with_a_recomputation_by_hand() {
    let mut all = Vec::new();
    for (pin, times) in TABLE_3 {
        let cells: Vec<(&str, i64, &[f64])> =
            times.iter().zip(1..).map(|(time_s, gpus)| ("fp32", gpus, std::slice::from_ref(time_s))).collect();
        for mut run in runs(&cells) {
            let level = [("pin_memory".into(), Level::text(pin))];
            let levels = run.levels.iter().map(|(key, level)| (key.clone(), level.clone())).chain(level);
            run.levels = crate::plan::Levels::new(levels.collect::<Vec<_>>());
            run.identity = None;
            run.cell = format!("{}-{pin}", run.cell);
            all.push(run);
        }
    }
    let cells = cells(&all);
    let found: Vec<_> =
        effects(&cells, &times, FASTER).computed.into_iter().map(|effect| (name(&effect), effect)).collect();
    assert_effects(&found, &[("on/off", 1.240_706), ("4/1", 2.645_983), ("4/1 × on/off", 0.897_92)]);
}

#[test]
fn means_of_levels_are_over_combinations_that_all_of_them_have() {
    let runs = runs(&[
        ("fp32", 1, &[40.0, 44.0]),
        ("fp32", 2, &[20.0, 22.0]),
        ("fp16", 1, &[10.0, 11.0]),
        ("fp16", 2, &[10.0, 11.0]),
    ]);
    let found = mean_cells(&cells(&runs), &times, ("precision", "gpus"), Intervals::ByCount);
    let texts: Vec<String> =
        found.iter().map(|one| format!("{} {} {:.2}", one.first, one.second, one.value.median)).collect();
    assert_eq!(texts, ["fp32 1 41.95", "fp32 2 20.98", "fp16 1 10.49", "fp16 2 10.49"]);
    assert!(found.iter().all(|one| one.cells == 1), "each cell counts once: {found:?}");
    assert_eq!(found[0].value.interval.map(|ends| ends.low.round()), Some(40.0));
    assert!(mean_cells(&cells(&runs[..6]), &times, ("precision", "gpus"), Intervals::ByCount).is_empty());
}

#[test]
fn means_of_an_incomplete_grid_leave_out_the_level_that_lacks_cells() {
    let grid = [("fp32", 1), ("fp32", 2), ("fp16", 1), ("fp16", 2), ("bf16", 1)];
    let runs = runs(&grid.map(|(precision, gpus)| (precision, gpus, &[10.0, 11.0][..])));
    let found = mean_cells(&cells(&runs), &times, ("precision", "gpus"), Intervals::ByCount);
    let names: Vec<String> = found.iter().map(|one| format!("{} {}", one.first, one.second)).collect();
    assert_eq!(names, ["fp32 1", "fp32 2", "fp16 1", "fp16 2"]);
}

/// Runs of the cells that a plan's design chooses, twice each; the logarithm of the time is `log` of the places of the levels.
fn designed_runs(design: &str, log: impl Fn(&[usize]) -> f64) -> Vec<RunSummary> {
    let text = format!(
        "version = 1\n[factors]\nprecision = [\"fp32\", \"bf16\"]\nlayout = [\"nchw\", \"nhwc\"]\npin_memory = [\"off\", \"on\"]\n\
         batch_size = [32, 64]\n[design]\n{design}"
    );
    let plan = crate::plan::Plan::parse(&text, "p.toml").unwrap();
    let varied: Vec<_> = plan.first.varied().map(|(_, key, levels)| (key.clone(), levels.to_vec())).collect();
    let design = std::sync::Arc::new(plan.first.design.clone().unwrap());
    let asked = crate::plan::asked_cells(&plan);
    let run = |asked: &crate::plan::AskedCell, repeat: u32| {
        let place = |(key, levels): &(crate::plan::Key, Vec<Level>)| {
            levels.iter().position(|level| Some(level) == asked.levels.get(key)).unwrap()
        };
        let places: Vec<usize> = varied.iter().map(place).collect();
        let mut run = summarise_run(&fixture::run_of(asked, &plan, repeat, 0.01));
        // The second repeat of all cells is slower, as on a machine that got warm.
        run.values.insert("total_time_s".into(), (log(&places) + 0.1 * f64::from(repeat)).exp());
        run.design = Some(std::sync::Arc::clone(&design));
        run
    };
    asked.iter().flat_map(|asked| [run(asked, 1), run(asked, 2)]).collect()
}

fn mixed(effect: &Effect) -> String {
    let one = |mixed: &Mixed| {
        let names: Vec<&str> = mixed.settings.iter().map(|setting| &*setting.key).collect();
        format!("{:+.2} {}", mixed.share, names.join("×"))
    };
    effect.fitted.as_ref().unwrap().mixed.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_half_fraction_estimates_what_the_full_grid_would_and_names_mixed_interactions_together() {
    // Levels count as 0 and 1, of precision, pin_memory, layout and batch_size. The first two change each other's effect.
    let log = |at: &[usize]| {
        let at: Vec<f64> = at.iter().map(|place| *place as f64).collect();
        0.1 * at[0] - 0.2 * at[1] + 0.05 * at[2] + 0.3 * at[0] * at[1]
    };
    let runs = designed_runs("kind = \"fraction\"\nruns = 8\n", log);
    let estimates: Vec<(String, Effect)> =
        effects(&cells(&runs), &times, FASTER).computed.into_iter().map(|effect| (name(&effect), effect)).collect();
    // Times are inverted: a longer time is a ratio below 1.
    let near = |name: &str, log: f64| {
        let effect = find(&estimates, name);
        assert!((effect.value.unwrap().median.ln() + log).abs() < 1e-9, "{name}: {:?}", effect.value);
        effect
    };
    assert_eq!(mixed(&near("bf16/fp32", 0.1 + 0.15)), "");
    near("on/off", -0.2 + 0.15);
    near("nhwc/nchw", 0.05);
    near("64/32", 0.0);
    let interaction = near("bf16/fp32 × on/off", 0.3);
    assert_eq!((mixed(&interaction).as_str(), interaction.fitted.unwrap().cells), ("+1.00 layout×batch_size", 8));
    assert_eq!(estimates.len(), 4 + 3);
}

#[test]
fn an_estimate_that_is_mixed_with_an_interaction_contains_it() {
    // Three factors in four cells: each is the product of the other two. The cell of all first levels is not among them, and the base of each
    // effect is still the factor's first level.
    let text = "version = 1\n[factors]\nprecision = [\"fp32\", \"bf16\"]\nlayout = [\"nchw\", \"nhwc\"]\npin_memory = [\"off\", \"on\"]\n";
    let plan = crate::plan::Plan::parse(&format!("{text}[design]\nkind = \"fraction\"\nruns = 4\n"), "p").unwrap();
    let design = std::sync::Arc::new(plan.first.design.clone().unwrap());
    let is_on =
        |asked: &crate::plan::AskedCell, key: &str, level: &str| asked.levels.get(key) == Some(&Level::text(level));
    let run = |asked: &crate::plan::AskedCell, repeat: u32| {
        let both = is_on(asked, "precision", "bf16") && is_on(asked, "layout", "nhwc");
        let mut run = summarise_run(&fixture::run_of(asked, &plan, repeat, 0.01));
        run.values.insert("total_time_s".into(), if both { 0.4_f64.exp() } else { 1.0 });
        run.design = Some(std::sync::Arc::clone(&design));
        run
    };
    let runs: Vec<_> =
        crate::plan::asked_cells(&plan).iter().flat_map(|asked| [run(asked, 1), run(asked, 2)]).collect();
    let estimates: Vec<(String, Effect)> =
        effects(&cells(&runs), &times, FASTER).computed.into_iter().map(|effect| (name(&effect), effect)).collect();
    let pin = find(&estimates, "on/off");
    // Nothing depends on pin_memory, and half of the interaction shows as its effect: this is why they are named together.
    assert!((pin.value.unwrap().median.ln() + 0.2).abs() < 1e-9, "{:?}", pin.value);
    assert_eq!(mixed(&pin), "+1.00 precision×layout");
    assert_eq!(estimates.len(), 3);
}

#[test]
fn effects_of_one_at_a_time_are_pairs_with_the_base() {
    let runs = designed_runs("kind = \"one-at-a-time\"\n", |at| 0.1 * at[0] as f64 + 0.7 * at[3] as f64);
    let estimates = effects(&cells(&runs), &times, FASTER).computed;
    assert_eq!(estimates.len(), 4);
    assert!(estimates.iter().all(|effect| effect.groups == 1 && effect.fitted.is_none()));
}
