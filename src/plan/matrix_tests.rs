//! Which cells a plan expands to, and their identities.

use super::*;
use crate::plan::fixture::{cpu_node, gpu_node, small_plan};
use crate::plan::{Capture, Mode, WorkloadSpec, identity, image};

fn texts(names: &[&str]) -> Vec<Level> {
    names.iter().map(|name| Level::text(name)).collect()
}

#[test]
fn all_combinations_come_in_order_and_the_first_factor_varies_slowest() {
    let plan = small_plan(&[("precision", texts(&["fp32", "bf16"])), ("layout", texts(&["nchw", "nhwc"]))]);
    let matrix = expand(&plan, &cpu_node());
    let seen: Vec<String> = matrix
        .cells
        .iter()
        .map(|cell| format!("{} {}", cell.levels.get("precision").unwrap(), cell.levels.get("layout").unwrap()))
        .collect();
    assert_eq!(seen, ["fp32 nchw", "fp32 nhwc", "bf16 nchw", "bf16 nhwc"]);
    assert!(matrix.invalid.is_empty());
}

#[test]
fn an_aa_plan_has_its_first_cell_twice_and_the_copy_differs_in_nothing_but_its_name() {
    let levels = [("precision", texts(&["fp32", "bf16"]))];
    let plan = Plan { aa: true, ..small_plan(&levels) };
    let matrix = expand(&plan, &cpu_node());
    let [first, _, copy] = &matrix.cells[..] else { panic!("{:?}", matrix.cells) };
    assert_eq!((&copy.shape, &copy.estimate, &copy.data), (&first.shape, &first.estimate, &first.data));
    let more: Vec<_> = copy.levels.iter().filter(|(key, _)| first.levels.get(key).is_none()).collect();
    assert_eq!(more, [(&AA_COPY.into(), &Level::text("copy"))]);
    assert_ne!(first.identity, copy.identity);
    let asked = asked_cells(&plan);
    assert_eq!((asked[2].identity, &asked[2].levels), (copy.identity, &copy.levels));
    // A plan of some cells brings the copy of its own first cell, once.
    let some = plan_of_cells(&plan, &[asked_cells(&plan)[0].clone(), asked_cells(&plan)[2].clone()]).unwrap();
    assert_eq!(asked_cells(&some).len(), 2);
}

#[test]
fn a_plan_of_some_cells_asks_for_those_alone() {
    let plan = small_plan(&[
        ("precision", texts(&["fp64", "fp32", "fp16"])),
        ("tf32", texts(&["conv"])),
        ("gpus", vec![Level::Integer(1), Level::Integer(2)]),
    ]);
    let all = asked_cells(&plan);
    let levels_at = |places: &[usize]| {
        let cells: Vec<AskedCell> = places.iter().map(|place| all[*place].clone()).collect();
        let some = plan_of_cells(&plan, &cells).unwrap();
        assert_eq!(asked_cells(&some), cells, "{places:?}");
        1 + some.further.len()
    };
    assert_eq!(plan_of_cells(&plan, &all), Some(plan.clone()));
    // Two combinations of levels are one block; tf32 means nothing in fp64, so that its cells are no grid with those of fp32.
    assert_eq!((levels_at(&[2, 3]), levels_at(&[0, 1]), levels_at(&[0, 3]), levels_at(&[0, 1, 2, 3])), (1, 1, 2, 4));
    assert_eq!(plan_of_cells(&plan, &[]), None);
}

#[test]
fn each_tracer_has_the_cells_that_a_plan_of_it_alone_has_and_twins_stand_together() {
    let mut plan = small_plan(&[("precision", texts(&["fp32", "fp64"])), ("tf32", texts(&["off", "all"]))]);
    let alone = Tracer::KINDS.map(|tracer| {
        let tracing = Tracing::by(&[tracer], Capture::Whole);
        expand(&Plan { tracing, ..plan.clone() }, &gpu_node(1))
    });
    plan.tracing = Tracing::by(&Tracer::KINDS, Capture::Whole);
    let all = expand(&plan, &gpu_node(1));
    for (place, (tracer, alone)) in Tracer::KINDS.into_iter().zip(&alone).enumerate() {
        let own: Vec<Cell> = all.cells.iter().filter(|cell| cell.tracer == tracer).cloned().collect();
        assert_eq!(own, alone.cells);
        let twins = all.cells.chunks(4).map(|twins| (twins[place].tracer, &twins[place].levels));
        assert!(twins.eq(alone.cells.iter().map(|cell| (tracer, &cell.levels))));
    }
    assert_eq!((all.cells.len() as u64 + all.merged.combinations, all.merged.combinations), (plan.combinations(), 4));
    let some = plan_of_cells(&plan, &asked_cells(&plan)[4..8]).unwrap();
    assert_eq!((asked_cells(&some), some.further.len()), (asked_cells(&plan)[4..8].to_vec(), 0));
    let traced = plan_of_cells(&plan, &asked_cells(&plan)[1..3]).unwrap();
    assert_eq!(asked_cells(&traced), asked_cells(&plan)[1..3]);
}

#[test]
fn runs_in_windows_are_cells_of_their_own_and_a_plan_of_them_has_them_again() {
    let mut plan = small_plan(&[("precision", texts(&["fp32", "fp64"]))]);
    let cells = |plan: &mut Plan, part| {
        plan.tracing = Tracing::by(&[Tracer::Off, Tracer::BuiltIn], part);
        asked_cells(plan)
    };
    let whole = cells(&mut plan, Capture::Whole);
    let windows = cells(&mut plan, Capture::USUAL);
    let tracers = |cells: &[AskedCell]| cells.iter().map(|cell| cell.tracer).collect::<Vec<_>>();
    assert_eq!(tracers(&whole), [Tracer::Off, Tracer::BuiltIn, Tracer::Off, Tracer::BuiltIn]);
    assert_eq!(tracers(&windows), [Tracer::Off, Tracer::InWindows, Tracer::Off, Tracer::InWindows]);
    assert_eq!((whole[0].identity, whole[1].identity == windows[1].identity), (windows[0].identity, false));
    // The cells need not be of this plan: one session may have both kinds of runs.
    for wanted in [&windows, &whole] {
        for part in [Capture::Whole, Capture::USUAL] {
            plan.tracing = plan.tracing.with_capture(part);
            assert_eq!(asked_cells(&plan_of_cells(&plan, wanted).unwrap()), **wanted);
        }
    }
}

#[test]
fn only_the_cells_of_a_missing_profiler_cannot_run() {
    let mut plan = small_plan(&[("precision", texts(&["fp32", "fp16"]))]);
    plan.tracing = Tracing::by(&Tracer::ALL, Capture::Whole);
    let matrix = expand(&plan, &cpu_node());
    let tracers = |precision: &str| {
        let has_precision = |cell: &&InvalidCell| cell.levels.get("precision").unwrap().to_string() == precision;
        matrix
            .invalid
            .iter()
            .filter(has_precision)
            .map(|cell| (cell.tracer, cell.reason.contains("not on PATH")))
            .collect()
    };
    let (fp32, fp16): (Vec<_>, Vec<_>) = (tracers("fp32"), tracers("fp16"));
    let traced = [Tracer::Off, Tracer::BuiltIn, Tracer::BuiltInWithoutCalls];
    assert_eq!(matrix.cells.iter().map(|cell| cell.tracer).collect::<Vec<_>>(), traced);
    assert_eq!((fp32, fp16), (vec![(Tracer::Nsys, true)], Tracer::KINDS.map(|tracer| (tracer, false)).to_vec()));
}

#[test]
fn cells_that_can_run_those_that_cannot_and_those_merged_are_all_combinations() {
    let plan = small_plan(&[("precision", texts(&["fp32", "fp16"])), ("pin_memory", texts(&["off", "on"]))]);
    let (cpu, gpu) = (expand(&plan, &cpu_node()), expand(&plan, &gpu_node(1)));
    assert_eq!((cpu.cells.len(), cpu.invalid.len()), (1, 3));
    assert_eq!((gpu.cells.len(), gpu.invalid.len()), (4, 0));
}

#[test]
fn a_cells_identity_is_the_same_in_every_plan_and_on_every_machine() {
    let narrow = expand(&small_plan(&[("precision", texts(&["bf16"]))]), &cpu_node());
    let mut wide = small_plan(&[("precision", texts(&["fp64", "bf16"])), ("pin_memory", texts(&["off", "on"]))]);
    (wide.name, wide.repeats, wide.seed) = ("another".to_owned(), 5, 9);
    let wide = expand(&wide, &gpu_node(2));
    let same = wide.cells.iter().find(|cell| cell.levels == narrow.cells[0].levels).unwrap();
    assert_eq!((&same.id, same.identity), (&narrow.cells[0].id, narrow.cells[0].identity));
    assert_eq!(wide.cells.iter().map(|cell| &cell.id).collect::<HashSet<_>>().len(), 4);
}

#[test]
fn the_cells_of_a_plan_have_the_identities_that_a_session_computes_from_what_it_kept() {
    let mut plan = small_plan(&[
        ("precision", texts(&["fp64", "fp32"])),
        ("tf32", texts(&["off", "all"])),
        ("learning_rate", vec![Level::Number(1.0), Level::Number(0.5)]),
    ]);
    plan.first.set_data(image::DataSet::files("photos").into());
    plan.tracing = Tracing::by(&Tracer::ALL, Capture::Whole);
    plan.mode = Mode::Quick { step_precision: 0.02 };
    let cells = expand(&plan, &gpu_node(1)).cells;
    assert_eq!(cells.len(), 24);
    for cell in cells {
        assert_eq!(identity(&plan.first.spec, &cell.data, cell.tracer, plan.mode, &cell.levels), cell.identity);
        assert_eq!(cell.id, cell.identity.digits(4));
    }
}

#[test]
fn another_data_set_workload_mode_or_precision_and_tracing_make_another_cell() {
    let mut plan = small_plan(&[]);
    let mut seen = HashSet::new();
    let mut is_new = |plan: &Plan| seen.insert(asked_cells(plan)[0].identity);
    assert!(is_new(&plan));
    plan.first.data = image::DataSet::Mnist { folder: None }.into();
    assert!(is_new(&plan));
    plan.first.data = image::DataSet::Mnist { folder: Some("elsewhere".into()) }.into();
    assert!(is_new(&plan));
    plan.tracing = Tracing::by(&[Tracer::Nsys], Capture::Whole);
    assert!(is_new(&plan));
    plan.tracing = Tracing::by(&[Tracer::BuiltIn], Capture::Whole);
    assert!(is_new(&plan));
    plan.mode = Mode::Quick { step_precision: 0.01 };
    assert!(is_new(&plan));
    plan.mode = Mode::Quick { step_precision: 0.02 };
    assert!(is_new(&plan));
    plan.first.spec = WorkloadSpec { key: "other".into(), ..WorkloadSpec::clone(&image::spec()) }.into();
    assert!(is_new(&plan));
}

#[test]
fn a_factor_that_joins_a_workload_changes_no_identity_until_it_is_ticked() {
    let before = expand(&small_plan(&[]), &cpu_node()).cells.remove(0);
    let mut later = WorkloadSpec::clone(&image::spec());
    let sparsity = Factor::named("sparsity", "Sparsity", &["off", "2:4"]);
    // Even where plans of the later version mean another level when they say nothing.
    later.factors.insert(0, sparsity.clone());
    let mut plan = Plan::new("later", later.into());
    assert_eq!(expand(&plan, &cpu_node()).cells[0].identity, before.identity);
    plan.first.factors[0].1.push(Level::text("2:4"));
    let cells = expand(&plan, &cpu_node()).cells;
    assert_eq!((cells.len(), cells[0].identity), (2, before.identity));
    assert_ne!(cells[1].identity, before.identity);
    let mut renewed = WorkloadSpec::clone(&image::spec());
    renewed.factors.insert(0, sparsity.default(Level::text("2:4")));
    let renewed = expand(&Plan::new("renewed", renewed.into()), &cpu_node()).cells.remove(0);
    assert_eq!(renewed.identity, cells[1].identity);
}

#[test]
fn levels_without_meaning_run_once_at_their_default_and_are_told() {
    let plan = small_plan(&[("precision", texts(&["fp32", "fp64", "bf16"])), ("tf32", texts(&["off", "conv", "all"]))]);
    let matrix = expand(&plan, &gpu_node(1));
    let seen: Vec<String> = matrix
        .cells
        .iter()
        .map(|cell| format!("{} {}", cell.levels.get("precision").unwrap(), cell.levels.get("tf32").unwrap()))
        .collect();
    assert_eq!(seen, ["fp32 off", "fp32 conv", "fp32 all", "fp64 off", "bf16 off"]);
    assert!(matrix.invalid.is_empty());
    assert_eq!(
        matrix.merged.to_string(),
        "4 combinations are the same as others: tf32 has no effect under precision = bf16, tf32 has no effect under precision = fp64"
    );
    let alone = small_plan(&[("precision", texts(&["fp64"])), ("tf32", texts(&["all"]))]);
    let matrix = expand(&alone, &gpu_node(1));
    assert_eq!(matrix.cells[0].levels.get("tf32"), Some(&Level::text("off")));
    assert_eq!(matrix.merged.to_string(), "tf32 has no effect under precision = fp64: the default is used there");
}

#[test]
fn the_cells_of_all_blocks_are_joined_and_the_same_cell_stands_once() {
    let mut plan = small_plan(&[("precision", texts(&["fp32", "bf16"]))]);
    plan.further.push(small_plan(&[("precision", texts(&["bf16", "fp64"]))]).first);
    let mut photos = small_plan(&[]).first;
    photos.set_data(image::DataSet::files("photos").into());
    plan.further.push(photos);
    let matrix = expand(&plan, &cpu_node());
    let seen: Vec<String> =
        matrix.cells.iter().map(|cell| format!("{} {}", cell.data, cell.levels.get("precision").unwrap())).collect();
    assert_eq!(seen, ["digits fp32", "digits bf16", "digits fp64", "folder photos fp32"]);
    assert_eq!(matrix.merged.to_string(), "1 combination is the same as another");
    let varied: Vec<&str> = plan.varied().into_iter().map(|key| &**key).collect();
    assert_eq!(varied, ["precision", "scenario"]);
}

#[test]
fn what_a_plan_leaves_out_cannot_run_for_the_plans_own_reason() {
    let mut plan = small_plan(&[("precision", texts(&["fp32", "fp64"])), ("gpus", vec![1.into(), 2.into(), 4.into()])]);
    let exclude = crate::plan::Filter::parse("gpus > 1 and precision = fp64 and data = digits").unwrap();
    plan.constraints = vec![crate::plan::Constraint { exclude, reason: "fp64 takes too long".to_owned() }];
    let matrix = expand(&plan, &gpu_node(4));
    assert_eq!((matrix.cells.len(), matrix.invalid.len()), (4, 2));
    assert!(matrix.invalid.iter().all(|cell| cell.reason == "fp64 takes too long"));
}

#[test]
fn cells_whose_first_digits_agree_stay_apart() {
    let cell = &expand(&small_plan(&[]), &cpu_node()).cells[0];
    let mut taken = HashSet::from([cell.identity.digits(4)]);
    assert_eq!(distinct(cell.identity, &mut taken), cell.identity.digits(8));
}

#[test]
fn a_plan_too_large_to_expand_says_so_at_once() {
    let counts: Vec<Level> = (1..=256).map(Level::Integer).collect();
    let plan = small_plan(&[("epochs", counts.clone()), ("loader_workers", counts.clone()), ("gpus", counts)]);
    let matrix = expand(&plan, &cpu_node());
    assert!(matrix.cells.is_empty());
    assert!(matrix.invalid[0].reason.contains("16777216 combinations"), "{}", matrix.invalid[0].reason);
}

#[test]
fn many_factors_and_many_comparisons_of_constraints_are_refused_with_many_cells() {
    let numbers = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let plan = |levels: usize, factors: usize, constraints: usize| {
        let more: String = (0..factors).map(|place| format!("more{place} = 1\n")).collect();
        let all: String = (0..constraints)
            .map(|place| format!("[[constraint]]\nexclude = \"b = {place} and a = 9999\"\nreason = \"slow\"\n"))
            .collect();
        let words: String = (0..factors).map(|place| format!(", \"{{more{place}}}\"")).collect();
        let head = format!("version = 1\n[command]\nrun = [\"./it\", \"{{a}}\", \"{{b}}\"{words}]\n[factors]\n");
        let (a, b) = (numbers(levels), numbers(100));
        Plan::parse(&format!("{head}a = [{a}]\nb = [{b}]\n{more}{all}"), "p.toml").map_err(|error| error.to_string())
    };
    let refused = |plan: Result<Plan, String>| plan.map(|_| ()).unwrap_err();
    assert!(plan(10, 3, 3).is_ok());
    let text = refused(plan(1000, 250, 0));
    assert!(text.starts_with("p.toml") && text.contains("factors are too many to list: leave out factors"), "{text}");
    let text = refused(plan(1000, 0, 300));
    assert!(text.contains("100000 combinations of levels take too long to check with 600 comparisons"), "{text}");
}

#[test]
fn a_factor_without_any_level_gives_no_cells() {
    let matrix = expand(&small_plan(&[("layout", vec![])]), &cpu_node());
    assert_eq!(matrix, Matrix::default());
}
