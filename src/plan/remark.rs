//! Remarks on a plan: cells that run, but differently from what its author may expect.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::command::{Filled, filled};
use super::{Binding, Block, Cell, Level, Matrix, Mode, Node, Plan, Search, Tracer, counted, expand, usual_workload};

/// If the batch that is left out holds less than this share of a training set, no remark is made.
const LEAST_LEFT_OVER: f64 = 0.01;

/// A remark on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// A sentence without its full stop.
    pub text: String,
    /// Whether the runs would end without the result that they are made for.
    pub is_warning: bool,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The remarks on a plan, whose cells on this machine are `matrix`; warnings come first.
pub fn remarks(plan: &Plan, matrix: &Matrix, node: &Node) -> Vec<Remark> {
    let warnings = [
        unmeasured(plan, matrix),
        cut_off(plan, matrix),
        no_profiler(plan, node),
        few_repeats(plan),
        shared_file(plan, matrix),
        beside_programs(plan, matrix),
    ];
    let merged = Some(matrix.merged.to_string()).filter(|text| !text.is_empty());
    let notes = [
        merged,
        quick(plan, node),
        left_over(matrix),
        one_numa_node(matrix, node),
        shared(plan),
        without_cuda(plan, node),
    ];
    let remark = |is_warning| move |text| Remark { text, is_warning };
    let warnings = warnings.into_iter().flatten().map(remark(true));
    warnings.chain(notes.into_iter().flatten().map(remark(false))).collect()
}

/// Cells that would be trained in vain, because all of their steps are warm-up. A quick run goes on until it has steady steps.
fn unmeasured(plan: &Plan, matrix: &Matrix) -> Option<String> {
    let warm_up = |cell: &Cell| plan.warm_up_steps.max(cell.shape.warm_up_steps);
    let is_short = |cell: &&Cell| (1..=warm_up(cell)).contains(&cell.shape.steps);
    let short: Vec<&Cell> = matrix.cells.iter().filter(is_short).collect();
    let most = short.iter().max_by_key(|cell| cell.shape.steps).filter(|_| plan.mode.step_precision().is_none())?;
    let (steps, warm_up) = (most.shape.steps, warm_up(most));
    let by = if warm_up > plan.warm_up_steps { "what a CUDA graph needs" } else { "warm_up_steps" };
    Some(format!(
        "no step is measured in {} of {}: {}{} a run, and a warm-up of {warm_up} ({by}): train more epochs or rows, or lower the warm-up",
        short.len(),
        counted(matrix.cells.len(), "cell"),
        if short.len() > 1 { "at most " } else { "" },
        counted(steps, "step")
    ))
}

/// Cells whose estimated time exceeds the time limit.
fn cut_off(plan: &Plan, matrix: &Matrix) -> Option<String> {
    let limit_s = plan.limits.run_time_s?;
    let over: Vec<f64> =
        matrix.cells.iter().map(|cell| cell.estimate.duration_s).filter(|all_s| *all_s > limit_s).collect();
    let longest_s = over.iter().copied().reduce(f64::max)?;
    Some(format!(
        "run_time_s = {limit_s} would end {} of {} too early: the longest takes about {longest_s:.0} s, by a rough estimate",
        over.len(),
        counted(matrix.cells.len(), "cell")
    ))
}

/// What quick runs leave out, and how long full runs would take.
fn quick(plan: &Plan, node: &Node) -> Option<String> {
    let precision = plan.mode.step_precision()?;
    let full = Plan { mode: Mode::Full, ..plan.clone() };
    let full_s: f64 = expand(&full, node).cells.iter().map(|cell| cell.estimate.duration_s).sum();
    let hours = full_s * f64::from(plan.repeats) / 3600.0;
    let estimate = if full_s > 0.0 { format!(", about {hours:.1} hours by estimate") } else { String::new() };
    Some(format!(
        "mode = quick: runs end once their mean step is known to ±{} %; accuracy and losses of epochs take full runs \
         (mode = \"full\", or --mode full){estimate}",
        (precision * 1e8).round() / 1e6
    ))
}

fn one_numa_node(matrix: &Matrix, node: &Node) -> Option<String> {
    let mut bound: Vec<&str> = Vec::new();
    for binding in matrix.cells.iter().map(|cell| cell.shape.binding).filter(|binding| *binding != Binding::Off) {
        if !bound.contains(&binding.name()) {
            bound.push(binding.name());
        }
    }
    (node.numa_nodes < 2 && !bound.is_empty()).then(|| {
        let (key, levels, hostname) = (Binding::KEY, bound.join(", "), &node.hostname);
        format!("{key} = {levels}: {hostname} has one NUMA node, so binding is applied and verified but has no effect")
    })
}

fn shared(plan: &Plan) -> Option<String> {
    (!plan.limits.exclusive).then(|| {
        "exclusive = false: runs share the machine; runs that had others beside them are marked, and their times are left out of tables"
            .to_owned()
    })
}

fn no_profiler(plan: &Plan, node: &Node) -> Option<String> {
    let missing = node.nsys.as_ref().err()?;
    let (what, out) = match plan.tracing.tracers() {
        [Tracer::Nsys] => ("this plan cannot run here", "that line"),
        tracers if tracers.contains(&Tracer::Nsys) => ("its runs under nsys cannot run here", "nsys from that list"),
        _ => return None,
    };
    Some(format!("trace = nsys: {missing}, so {what}: install Nsight Systems, or remove {out}"))
}

/// A search with so few repeats that it would end undecided.
fn few_repeats(plan: &Plan) -> Option<String> {
    let (repeats, useful) = (plan.repeats, Search::USEFUL_REPEATS);
    (plan.search.is_some() && repeats < useful).then(|| {
        format!(
            "repeats = {repeats}: with fewer than {useful} repeats, a search can hardly tell cells apart and ends undecided: set \
             repeats = {useful} or more; cells that it drops early do not use them all"
        )
    })
}

/// A file of readings that several runs would read at the same time: each run would take the readings of the others for its own.
fn shared_file(plan: &Plan, matrix: &Matrix) -> Option<String> {
    let (is_side_by_side, advice) = match &plan.site {
        Some(_) => (!plan.one_allocation, ""),
        None => (!plan.limits.exclusive, ", or leave out exclusive = false"),
    };
    let cells = matrix.cells.iter().enumerate().filter(|_| is_side_by_side);
    let mut runs = cells.flat_map(|(place, cell)| (1..=plan.repeats).map(move |repeat| (place, cell, repeat)));
    let mut read = HashSet::new();
    let file = runs.find_map(|(place, cell, repeat)| {
        files_of(plan, cell, (place, repeat)).into_iter().find(|file| !read.insert(file.clone()))
    })?;
    Some(format!(
        "runs side by side read the same file, {}, and take each other's readings for their own: give each run a file of its own, in \
         {{run_folder}}{advice}",
        file.display()
    ))
}

/// Cells that a plan has because its top level, which names nothing, is a block with all defaults, although every `[[block]]` is a program.
fn beside_programs(plan: &Plan, matrix: &Matrix) -> Option<String> {
    let usual = usual_workload();
    let are_programs = !plan.further.is_empty() && plan.further.iter().all(|block| block.spec.command.is_some());
    let cells = matrix.cells.iter().filter(|cell| cell.workload == usual.key).count();
    if cells == 0 || !are_programs || plan.first != Block::new(usual.clone()) {
        return None;
    }
    Some(format!(
        "beside the programs in its blocks, the plan has {} of the built-in workload {}, with all defaults: its top level adds cells, too. If \
         only the programs are wanted, write one of the blocks at the top level, as [command] and [factors]",
        counted(cells, "cell"),
        usual.key
    ))
}

/// The files from which the readings of a run are read, each once: the run of a cell at this place, with the number of its repeat.
fn files_of(plan: &Plan, cell: &Cell, (place, repeat): (usize, u32)) -> BTreeSet<PathBuf> {
    let Some(command) = plan.spec_of(&cell.workload).and_then(|spec| spec.command.as_deref()) else {
        return BTreeSet::new();
    };
    let built_in = |name: &str| match name {
        "repeat" => repeat.to_string(),
        "seed" => plan.seed.wrapping_add(u64::from(repeat) - 1).to_string(),
        // No two runs have these in common.
        "run_folder" | "port" => format!("{name}-{place}-{repeat}"),
        _ => name.to_owned(),
    };
    let value = |name: &str| Some(cell.levels.get(name).map_or_else(|| built_in(name), ToString::to_string));
    let Ok(Filled { folder, .. }) = command.filled(&value) else { return BTreeSet::new() };
    let folder = folder.unwrap_or_default();
    let files = command.readings.files.iter().filter_map(|file| filled(file, &value).ok().flatten());
    files.map(|file| Path::new(&folder).join(file)).collect()
}

/// The largest share of a training set that is in the last, incomplete batch, on which no step trains.
fn left_over(matrix: &Matrix) -> Option<String> {
    let of_cell = |cell: &Cell| {
        let images = u64::try_from(cell.levels.get("train_images")?.as_integer()?).ok()?;
        // Under `ddp` each rank trains on the whole set.
        let is_whole = cell.levels.get("strategy").and_then(Level::as_text) == Some("ddp");
        let apart = if is_whole { cell.shape.processes } else { 1 };
        let left = images.checked_rem(cell.shape.units_per_step / u64::from(apart.max(1)))?;
        Some((left as f64 / images as f64, left, images))
    };
    let shares: Vec<_> =
        matrix.cells.iter().filter_map(of_cell).filter(|(share, ..)| *share >= LEAST_LEFT_OVER).collect();
    let (_, left, images) = shares.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "in {} of {} the last batch of an epoch is not full and is left out: up to {left} of {}",
        shares.len(),
        counted(matrix.cells.len(), "cell"),
        counted(images, "training image")
    ))
}

/// What the built-in trace does not record on this machine.
fn without_cuda(plan: &Plan, node: &Node) -> Option<String> {
    let missing = node.tracer.as_ref().err().filter(|_| plan.tracing.has_built_in())?;
    let recorded = if plan.blocks().all(|block| block.spec.command.is_some()) {
        "nothing for programs of your own"
    } else {
        "phases, loader waits and the parts of steps on the host"
    };
    Some(format!("trace = built-in: CUDA calls and kernels are not recorded, as {missing}; recorded: {recorded}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::fixture::{cpu_node, gpu_node, small_plan};
    use crate::plan::{Capture, Tracing, expand};

    fn remark_texts(plan: &Plan, node: &Node) -> Vec<String> {
        remarks(plan, &expand(plan, node), node).into_iter().map(|remark| remark.text).collect()
    }

    #[test]
    fn cells_of_which_nothing_would_be_measured_are_counted() {
        let mut plan = small_plan(&[("batch_size", vec![Level::Integer(64), Level::Integer(128)])]);
        let steps: Vec<u64> = expand(&plan, &cpu_node()).cells.iter().map(|cell| cell.shape.steps).collect();
        let (least, most) = (*steps.iter().min().unwrap(), *steps.iter().max().unwrap());
        assert!(least < most, "{steps:?}");
        plan.warm_up_steps = least - 1;
        assert!(remark_texts(&plan, &cpu_node()).is_empty());
        plan.warm_up_steps = least;
        let texts = remark_texts(&plan, &cpu_node());
        assert!(
            texts[0].starts_with(&format!(
                "no step is measured in 1 of 2 cells: {least} steps a run, and a warm-up of {least} (warm_up_steps)"
            )),
            "{texts:?}"
        );
        assert!(remarks(&plan, &expand(&plan, &cpu_node()), &cpu_node())[0].is_warning);
        plan.mode = Mode::Quick { step_precision: 0.05 };
        assert!(!remark_texts(&plan, &cpu_node())[0].contains("no step is measured"));
        assert!(!remarks(&plan, &expand(&plan, &cpu_node()), &cpu_node())[0].is_warning);
    }

    #[test]
    fn images_that_no_full_batch_holds_are_told() {
        let remark_for = |strategy: &str| {
            small_plan(&[
                ("train_images", vec![Level::Integer(400)]),
                ("batch_size", vec![Level::Integer(32), Level::Integer(100)]),
                ("gpus", vec![Level::Integer(2)]),
                ("strategy", vec![Level::text(strategy)]),
            ])
        };
        let left = |strategy| {
            remark_texts(&remark_for(strategy), &cpu_node()).into_iter().find(|text| text.contains("is left out"))
        };
        let text =
            "in 1 of 2 cells the last batch of an epoch is not full and is left out: up to 16 of 400 training images";
        assert_eq!(left("ddp-ds").as_deref(), Some(text), "6 steps of 64");
        assert_eq!(left("ddp").as_deref(), Some(text), "12 steps of 32, in each rank");
        let large = small_plan(&[("train_images", vec![Level::Integer(60_000)])]);
        assert_eq!(
            remark_texts(&large, &cpu_node()).iter().find(|text| text.contains("is left out")),
            None,
            "32 of 60,000"
        );
    }

    #[test]
    fn cells_that_the_time_limit_would_end_are_counted() {
        let mut plan = small_plan(&[("image_size", vec![Level::Integer(32), Level::Integer(100)])]);
        let estimate = |at: usize| expand(&plan, &cpu_node()).cells[at].estimate.duration_s;
        let between_s = (estimate(0) * estimate(1)).sqrt().round();
        assert!(estimate(0).min(estimate(1)) < between_s);
        plan.limits.run_time_s = Some(between_s);
        let texts = remark_texts(&plan, &cpu_node());
        assert!(texts[0].starts_with(&format!("run_time_s = {between_s} would end 1 of 2 cells")), "{texts:?}");
    }

    #[test]
    fn a_binding_without_effect_is_said_where_there_is_one_node() {
        let plan = small_plan(&[("numa", ["off", "local", "first-node"].map(Level::text).to_vec())]);
        let found = remark_texts(&plan, &cpu_node());
        assert!(found.len() == 1 && found[0].starts_with("numa = local, first-node: small has one"), "{found:?}");
        assert!(remark_texts(&plan, &gpu_node(2)).is_empty());
        assert!(remark_texts(&small_plan(&[]), &cpu_node()).is_empty());
    }

    #[test]
    fn a_plan_that_asks_for_a_missing_profiler_is_said_not_to_run() {
        let mut plan = small_plan(&[]);
        plan.tracing = Tracing::by(&[Tracer::Nsys], Capture::Whole);
        assert!(remark_texts(&plan, &cpu_node())[0].contains("it is not on PATH, so this plan cannot run"));
        plan.tracing = Tracing::by(&Tracer::ALL, Capture::Whole);
        let remarks = remark_texts(&plan, &cpu_node());
        assert!(
            remarks.len() == 2 && remarks[0].contains("it is not on PATH, so its runs under nsys cannot"),
            "{remarks:?}"
        );
        assert!(remarks[1].contains("trace = built-in: CUDA calls and kernels are not recorded"), "{remarks:?}");
        plan.tracing = Tracing::by(&[Tracer::BuiltIn], Capture::Whole);
        let remarks = remark_texts(&plan, &cpu_node());
        assert!(
            remarks.len() == 1 && remarks[0].contains("kernels are not recorded, as it was not built"),
            "{remarks:?}"
        );
    }

    #[test]
    fn what_quick_runs_leave_out_is_said_with_the_cost_of_full_ones() {
        let mut plan = small_plan(&[]);
        plan.mode = Mode::Quick { step_precision: 0.05 };
        let texts = remark_texts(&plan, &cpu_node());
        assert!(
            texts[0].starts_with("mode = quick: runs end once their mean step is known to ±5 %; accuracy"),
            "{texts:?}"
        );
    }

    #[test]
    fn a_search_with_too_few_repeats_is_warned_of() {
        let mut plan = small_plan(&[("batch_size", vec![Level::Integer(32), Level::Integer(64)])]);
        plan.search = crate::plan::Goal::parse("max throughput").ok().map(Search::new);
        plan.repeats = 3;
        let found = remarks(&plan, &expand(&plan, &cpu_node()), &cpu_node());
        let warning = found.iter().find(|remark| remark.text.starts_with("repeats = 3: with fewer than 6 repeats"));
        assert!(warning.is_some_and(|warning| warning.is_warning), "{found:?}");
        let warns = |plan: &Plan| remark_texts(plan, &cpu_node()).iter().any(|text| text.contains("repeats"));
        plan.repeats = 6;
        assert!(!warns(&plan));
        (plan.repeats, plan.search) = (3, None);
        assert!(!warns(&plan), "other plans compare few repeats, too");
    }

    #[test]
    fn a_file_that_runs_side_by_side_read_is_warned_of_unless_each_run_has_its_own() {
        let warned = |file: &str, more: &str| {
            let text = format!(
                "version = 1\nrepeats = 2\n{more}\n[command]\nrun = [\"true\", \"{{level}}\"]\n[command.readings]\nfiles = [\"{file}\"]\n\
                 [factors]\nlevel = [1, 2]\ngpus = 0\n"
            );
            let plan = Plan::parse(&text, "").unwrap();
            let found = remarks(&plan, &expand(&plan, &cpu_node()), &cpu_node());
            found.into_iter().find(|remark| remark.is_warning).map(|remark| remark.text)
        };
        let beside = "[limits]\nexclusive = false";
        let text = warned("results.jsonl", beside).unwrap();
        assert!(text.starts_with("runs side by side read the same file, results.jsonl, "), "{text}");
        assert!(text.ends_with("in {run_folder}, or leave out exclusive = false"), "{text}");
        assert!(warned("{level}.jsonl", beside).is_some_and(|text| text.contains("1.jsonl")), "its repeats share it");
        for file in ["{run_folder}/results.jsonl", "{level}-{repeat}.jsonl", "{seed}/{level}.jsonl"] {
            assert_eq!(warned(file, beside), None, "{file}");
        }
        assert_eq!(warned("results.jsonl", ""), None, "one run at a time");
        // Jobs of a site run at the same time, unless they share an allocation.
        let at_site = warned("results.jsonl", "[where]\nsite = \"lab\"").unwrap();
        assert!(at_site.ends_with("in {run_folder}"), "{at_site}");
        assert_eq!(warned("results.jsonl", "[where]\nsite = \"lab\"\njobs = \"one-allocation\""), None);
    }

    #[test]
    fn a_cell_that_the_top_level_adds_to_blocks_of_programs_is_warned_of_unless_the_plan_names_it() {
        let program = "[[block]]\n[block.command]\nname = \"own\"\nrun = [\"true\", \"{level}\"]\n[block.factors]\nlevel = [1, 2]\n";
        let warned = |top: &str, more: &str| {
            let plan = Plan::parse(&format!("version = 1\n{top}\n{program}{more}"), "").unwrap();
            let matrix = expand(&plan, &cpu_node());
            let found = remarks(&plan, &matrix, &cpu_node());
            let warning = found.into_iter().find(|remark| remark.text.starts_with("beside the programs in its blocks"));
            warning.inspect(|warning| assert!(warning.is_warning)).map(|warning| (matrix.cells.len(), warning.text))
        };
        let (cells, text) = warned("", "").unwrap();
        assert_eq!(cells, 3, "the cells are those that such plans always had");
        assert!(text.contains("has 1 cell of the built-in workload image, with all defaults"), "{text}");
        assert!(text.ends_with("write one of the blocks at the top level, as [command] and [factors]"), "{text}");
        assert_eq!(warned("[factors]\nbatch_size = [32, 64]", ""), None, "it is asked for");
        assert_eq!(warned("[command]\nname = \"first\"\nrun = [\"true\"]", ""), None, "it is a program");
        assert_eq!(warned("", "[[block]]\n[block.factors]\nbatch_size = 64\n"), None, "beside other built-in cells");
        let excluded = "[[constraint]]\nexclude = \"workload = image\"\nreason = \"not wanted\"\n";
        assert_eq!(warned("", excluded), None, "it is excluded");
    }

    #[test]
    fn runs_side_by_side_are_said_to_have_no_times() {
        let mut plan = small_plan(&[]);
        plan.limits.exclusive = false;
        assert!(remark_texts(&plan, &cpu_node())[0].contains("share the machine"));
    }
}
