//! `multicard plan`: shows what a plan would run here.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::material::Material;
use super::{OK, Outcome, print, session_folder};
use crate::analysis::{
    Question, RunSummary, SpreadSeen, alike_runs, check_measures, check_search, counted, repeats_remark, summarise,
};
use crate::dataset::{check_models, missing};
use crate::figure::{check_studies, significant};
use crate::launch::script;
use crate::papers::preset_text;
use crate::plan::{
    Cell, Identity, Key, Levels, Matrix, Mode, Node, Plan, PlanError, Resolved, Tracer, design_trouble, expand,
    remarks, resolved,
};
use crate::program::missing_program;
use crate::session::{Machine, Where, node_hours};
use crate::text_table::{Field, TextTable};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    plan: PlanArgument,
    /// Print the plan as a plan file instead.
    #[arg(long)]
    toml: bool,
    /// A session (its folder, or its name in the default folder) whose runs show how long runs take and how many repeats a precision needs.
    #[arg(long)]
    session: Option<PathBuf>,
    #[command(flatten)]
    changes: Changes,
    /// Output format.
    #[arg(long, value_enum, default_value_t = PlanFormat::Md)]
    format: PlanFormat,
}

/// What is printed of a plan.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// Tables as Markdown.
    Md,
    /// JSON.
    Json,
    /// The batch script of the plan's first cell, as it would be sent to the plan's site.
    Sbatch,
}

/// Changes to a plan from the command line.
#[derive(Args, Clone, Default)]
pub(super) struct Changes {
    /// How long runs train, whatever the plan says.
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// The data set, whatever the plan says: for example `digits` if MNIST cannot be downloaded. Tables that compare with a paper's numbers
    /// state it.
    #[arg(long, value_name = "SET")]
    data: Option<String>,
    /// The site where the runs are executed, whatever the plan says: a cluster with Slurm. `multicard site` lists yours.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
}

impl Changes {
    fn is_any(&self) -> bool {
        self.mode.is_some() || self.data.is_some() || self.site.is_some()
    }

    fn apply(&self, plan: &mut Plan) -> Result<(), String> {
        if self.site.is_some() {
            plan.site.clone_from(&self.site);
        }
        plan.mode = match self.mode {
            Some(ModeName::Full) => Mode::Full,
            Some(ModeName::Quick) if plan.mode.is_full() => Mode::Quick { step_precision: Mode::STEP_PRECISION },
            Some(ModeName::Quick) | None => plan.mode,
        };
        let Some(set) = &self.data else { return Ok(()) };
        for block in std::iter::once(&mut plan.first).chain(&mut plan.further) {
            let rule = block.spec.data_set(set).ok_or_else(|| {
                let known: Vec<&str> = block.spec.data_sets.iter().map(|rule| &*rule.key).collect();
                format!(
                    "--data {set}: workload {} has no such data set; its data sets are {}",
                    block.spec.key,
                    known.join(", ")
                )
            })?;
            if let Some(key) = rule.required.first() {
                return Err(format!("--data {set} also needs data.{key}: write a plan with a [data] table of its own"));
            }
            let data = rule.default_data();
            block.set_data(data);
        }
        Ok(())
    }
}

/// How long runs train.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeName {
    /// Train all epochs.
    Full,
    /// Train until the mean step is known precisely enough.
    Quick,
}

/// A plan from a file, or the plan of a paper's table or figure.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(super) struct PlanArgument {
    /// The plan file.
    plan: Option<PathBuf>,
    /// The plan of a paper's table or figure instead, such as 2503.15252/table-2; `multicard papers` lists them.
    #[arg(long, value_name = "ID")]
    preset: Option<String>,
}

impl PlanArgument {
    /// The plan with the changes applied.
    pub fn read(&self, changes: &Changes) -> Result<Plan, Box<dyn Error>> {
        let mut plan = match &self.plan {
            Some(file) => read_plan(file)?,
            None => Plan::parse(&self.text(&Changes::default())?, self.preset.as_deref().unwrap_or_default())?,
        };
        changes.apply(&mut plan)?;
        Ok(plan)
    }

    /// Whether the plan is that of a paper's table or figure.
    pub fn is_preset(&self) -> bool {
        self.preset.is_some()
    }

    /// The text of the plan file.
    fn text(&self, changes: &Changes) -> Result<String, Box<dyn Error>> {
        if self.plan.is_some() || changes.is_any() {
            return Ok(self.read(changes)?.to_toml());
        }
        let (artefact, text) = preset_text(self.preset.as_deref().unwrap_or_default())?;
        text.map(str::to_owned).ok_or_else(|| {
            let needs = artefact.needs.as_deref().unwrap_or("multicard has no plan for it");
            format!("{artefact} has no plan: {needs}").into()
        })
    }
}

#[derive(Serialize)]
struct CellOut<'a> {
    id: &'a str,
    workload: &'a Key,
    levels: &'a Levels,
    trace: &'static str,
    /// `None` for a program of the plan's own, whose run time is unknown.
    estimated_s: Option<f64>,
    estimated_peak_bytes: Option<u64>,
    /// Memory by kind; empty if the workload does not estimate it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    estimated_memory_bytes: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct InvalidOut<'a> {
    workload: &'a Key,
    levels: &'a Levels,
    trace: &'static str,
    reason: &'a str,
}

#[derive(Serialize)]
struct MatrixOut<'a> {
    cells: Vec<CellOut<'a>>,
    invalid: Vec<InvalidOut<'a>>,
    merged: u64,
    runs: usize,
    /// What the plan's search asks; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<String>,
    /// What the designs of blocks can tell apart; absent without designs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    designs: Vec<DesignOut>,
}

#[derive(Serialize)]
struct DesignOut {
    /// The block's number, from 1.
    block: usize,
    summary: String,
    mixed: Vec<MixedOut>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct MixedOut {
    effect: String,
    not_told_apart_from: String,
}

/// Reads a plan and checks its measures and studies.
fn read_plan(path: &Path) -> Result<Plan, PlanError> {
    let plan = Plan::read(path)?;
    check_measures(&plan, &path.display().to_string())?;
    check_search(&plan, &path.display().to_string())?;
    check_studies(&plan, &path.display().to_string())?;
    Ok(plan)
}

/// Refuses a search if too few of its cells can run.
pub(super) fn check_candidates(plan: &Plan, matrix: &Matrix) -> Result<(), String> {
    let question = Question::of(plan).map_err(|wrong| wrong.join("\n"))?;
    question.and_then(|question| question.refuses(matrix.cells.len())).map_or(Ok(()), Err)
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if arguments.toml {
        print(&arguments.plan.text(&arguments.changes)?)?;
        return Ok(OK);
    }
    let plan = arguments.plan.read(&arguments.changes)?;
    if let Some(reason) = design_trouble(&plan) {
        return Err(reason.into());
    }
    for block in plan.blocks() {
        check_models(block)?;
    }
    let place = Where::of(&plan, &Machine::look().node)?;
    let node = &place.node;
    let mut matrix = expand(&plan, node);
    if arguments.format == PlanFormat::Sbatch {
        let cell = matrix.cells.first().ok_or("no cell of the plan can run there")?;
        let job = place.sample(&plan, &matrix.cells, cell)?;
        print(script(&job)?.trim_end())?;
        return Ok(OK);
    }
    let read = |session: &PathBuf| -> Result<Material, Box<dyn Error>> { Material::read(&session_folder(session)?) };
    let material = arguments.session.as_ref().map(read).transpose()?;
    let learnt = material.as_ref().and_then(|material| learn(&mut matrix, &material.runs));
    let runs = matrix.cells.len() * plan.repeats as usize;
    match arguments.format {
        PlanFormat::Sbatch => {}
        PlanFormat::Md => {
            let mut text = describe(&plan, &matrix, node);
            if let Some(start) = place.start(&plan, &matrix.cells) {
                text += &format!("\n\n{}: {start}.", if start.is_warning { "Warning" } else { "Note" });
            }
            learnt.iter().for_each(|note| text += &format!("\n\nNote: {note}."));
            if let Some(material) = &material {
                text.push_str(&repeats_text(&plan, &material.runs));
            }
            print(&text)?;
        }
        PlanFormat::Json => print(&serde_json::to_string_pretty(&json(&plan, &matrix, runs))?)?,
    }
    Ok(OK)
}

/// Replaces the estimates of a plan's cells by the times that the session's runs of these cells took, as far as these runs count now (see
/// [`alike_runs`]). The estimates of other cells are scaled by the same ratio: for example, runs spend time on cuDNN's trials of
/// algorithms, which estimates leave out. Cells of programs have no estimate, so the times of their runs scale nothing. Returns a sentence
/// that says so; `None` if no run belongs to these cells.
fn learn(matrix: &mut Matrix, runs: &[RunSummary]) -> Option<String> {
    let alike = alike_runs(runs);
    let took = |cell: &Cell| {
        let own = alike.get(&cell.identity)?.runs.iter();
        let times: Vec<f64> = own.filter_map(|run| run.value("total_time_s")).collect();
        summarise(&times).map(|value| value.median)
    };
    let known: Vec<Option<f64>> = matrix.cells.iter().map(took).collect();
    let finished = known.iter().flatten().count();
    if finished == 0 {
        return None;
    }
    let pairs: Vec<(f64, f64)> = matrix
        .cells
        .iter()
        .zip(&known)
        .filter_map(|(cell, known)| Some((cell.estimate.duration_s, (*known)?)))
        .filter(|(estimate, _)| *estimate > 0.0)
        .collect();
    let (estimated_s, took_s) =
        pairs.iter().fold((0.0, 0.0), |(all, took), (estimate, known)| (all + estimate, took + known));
    let times = if pairs.is_empty() { 1.0 } else { took_s / estimated_s };
    for (cell, known) in matrix.cells.iter_mut().zip(&known) {
        cell.estimate.duration_s = known.unwrap_or(times * cell.estimate.duration_s);
    }
    if pairs.is_empty() {
        return Some(format!(
            "the times of {finished} of {} come from their runs in the session",
            counted(known.len(), "cell")
        ));
    }
    let (times, cells) = (significant(times), counted(pairs.len(), "cell"));
    Some(format!(
        "{cells} took {times} times as long as estimated in the session: the estimates of the other cells are multiplied by {times}, too"
    ))
}

/// How many repeats certain precisions need, judged by the spread of a session's cells of the plan's workloads.
fn repeats_text(plan: &Plan, runs: &[RunSummary]) -> String {
    let Some(spread) = SpreadSeen::of_plan(&SpreadSeen::by_workload(runs), plan) else {
        return "\n\nNote: no cell of this workload in the session has two finished repeats that had CPUs to themselves, so the number of \
             repeats needed is unknown."
            .to_owned();
    };
    let remark = |precision: &f64| format!("\n\nNote: {}.", repeats_remark(&spread, *precision));
    [0.01, 0.02, 0.05].iter().map(remark).collect()
}

/// Whether the time of a run of the cell can be estimated.
fn has_time(cell: &Cell) -> bool {
    !cell.shape.own_program || cell.estimate.duration_s > 0.0
}

/// The node-hours of all runs of a plan at a site, after a comma; empty for runs on this machine, and if a time is unknown.
fn node_hours_text(plan: &Plan, matrix: &Matrix) -> String {
    node_hours(plan, matrix).map_or(String::new(), |(hours, is_most)| {
        let most = if is_most { "at most " } else { "" };
        format!(", {most}{} node-hours", significant(hours))
    })
}

fn json<'a>(plan: &Plan, matrix: &'a Matrix, runs: usize) -> MatrixOut<'a> {
    let cells = matrix.cells.iter().map(|cell| CellOut {
        id: &cell.id,
        workload: &cell.workload,
        levels: &cell.levels,
        trace: cell.tracer.name(),
        estimated_s: has_time(cell).then_some(cell.estimate.duration_s),
        estimated_peak_bytes: (!cell.shape.own_program).then_some(cell.estimate.peak_bytes),
        estimated_memory_bytes: cell.estimate.memory_kinds().collect(),
    });
    let invalid = matrix.invalid.iter().map(|cell| InvalidOut {
        workload: &cell.workload,
        levels: &cell.levels,
        trace: cell.tracer.name(),
        reason: &cell.reason,
    });
    let design = |(place, block)| {
        let Resolved { summary, mixed, notes, warnings } = resolved(plan, block, matrix)?;
        let mixed =
            mixed.into_iter().map(|(effect, others)| MixedOut { effect, not_told_apart_from: others }).collect();
        Some(DesignOut { block: place + 1, summary, mixed, notes, warnings })
    };
    MatrixOut {
        cells: cells.collect(),
        search: plan.search.as_ref().map(crate::plan::Search::question),
        invalid: invalid.collect(),
        merged: matrix.merged.combinations,
        runs,
        designs: plan.blocks().enumerate().filter_map(design).collect(),
    }
}

/// Whether the time of any of a plan's runs can be estimated: nobody knows what programs of a plan's own take.
fn is_estimated(matrix: &Matrix) -> bool {
    matrix.cells.is_empty() || matrix.cells.iter().any(has_time)
}

/// How many runs a plan makes, and about how long they take: `6 runs: 3 cells × 2 repeats; about 4 min (rough estimates)`. Repeats of cells
/// that are `finished` are not run again: `6 runs: 3 cells × 2 repeats, 2 still to run; about 1 min 20 s (rough estimates)`.
fn summary(plan: &Plan, matrix: &Matrix, finished: &HashMap<Identity, u32>) -> String {
    let left = |cell: &Cell| plan.repeats.saturating_sub(finished.get(&cell.identity).copied().unwrap_or(0));
    let duration_s: f64 = matrix.cells.iter().map(|cell| cell.estimate.duration_s * f64::from(left(cell))).sum();
    let peak_bytes = matrix.cells.iter().map(|cell| cell.estimate.peak_bytes).max().unwrap_or(0);
    // Those are the node-hours of all runs.
    let hours = if finished.is_empty() { node_hours_text(plan, matrix) } else { String::new() };
    let estimates = if is_estimated(matrix) {
        let (time, peak_gb) = (crate::figure::duration_text(duration_s), peak_bytes as f64 / 1e9);
        let peak = if peak_bytes > 0 { format!(", peak about {peak_gb:.1} GB per rank") } else { String::new() };
        format!("about {time}{peak}{hours} (rough estimates)")
    } else {
        format!("run time unknown{hours}")
    };
    let (cells, repeats) = (matrix.cells.len(), plan.repeats as usize);
    let remain = matrix.cells.iter().map(|cell| left(cell) as usize).sum::<usize>();
    let remain = match remain {
        remain if remain == cells * repeats => String::new(),
        1 => ", 1 still to run".to_owned(),
        remain => format!(", {remain} still to run"),
    };
    let runs = counted(cells * repeats, "run");
    format!("{runs}: {} × {}{remain}; {estimates}", counted(cells, "cell"), counted(repeats, "repeat"))
}

/// The most levels of a factor that the head of a plan names.
const NAMED: usize = 8;

/// What a plan runs, in at most two lines: its summary, and the levels of the factors that it varies. `finished` counts the repeats of
/// each cell that are not run again.
pub(super) fn head(plan: &Plan, matrix: &Matrix, finished: &HashMap<Identity, u32>) -> Vec<String> {
    let levels_of = |key: &&Key| {
        let mut levels: Vec<String> = Vec::new();
        for level in matrix.cells.iter().filter_map(|cell| cell.levels.get(key)).map(ToString::to_string) {
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        let more = levels.len().saturating_sub(NAMED);
        levels.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!levels.is_empty()).then(|| format!("{key}: {}{more}", levels.join(", ")))
    };
    let levels: Vec<String> = plan.varied().iter().filter_map(levels_of).collect();
    let levels = (!levels.is_empty()).then(|| levels.join("; "));
    std::iter::once(format!("{}: {}", plan.name, summary(plan, matrix, finished))).chain(levels).collect()
}

fn describe(plan: &Plan, matrix: &Matrix, node: &Node) -> String {
    let varied = plan.varied();
    let several = plan.has_several_workloads();
    let twins = plan.tracing.tracers().len() > 1;
    let values = |workload: &Key, levels: &Levels, tracer: Tracer| -> Vec<Field> {
        let level = |key: &&Key| levels.get(key).map_or_else(|| "–".to_owned(), ToString::to_string);
        let workload = several.then(|| workload.to_string());
        let tracer = twins.then(|| tracer.name().to_owned());
        workload.into_iter().chain(varied.iter().map(level)).chain(tracer).map(Field::from).collect()
    };
    let names = several.then_some("workload").into_iter().chain(varied.iter().map(|key| key.as_str()));
    let names: Vec<&str> = names.chain(twins.then_some(Tracer::KEY)).collect();
    let is_estimated = is_estimated(matrix);
    let estimated: &[&str] = if is_estimated { &["estimated s", "estimated peak GB"] } else { &[] };
    let sides = "l".repeat(1 + names.len()) + &"r".repeat(estimated.len());
    let mut table = TextTable::new(sides, ["cell"].iter().chain(&names).chain(estimated).copied());
    for cell in &matrix.cells {
        let numbers = match (is_estimated, cell.shape.own_program) {
            (false, _) => Vec::new(),
            (true, true) if has_time(cell) => vec![format!("{:.1}", cell.estimate.duration_s), "–".to_owned()],
            (true, true) => vec!["–".to_owned(); 2],
            (true, false) => [cell.estimate.duration_s, cell.estimate.peak_bytes as f64 / 1e9]
                .map(|number| format!("{number:.1}"))
                .to_vec(),
        };
        let values = values(&cell.workload, &cell.levels, cell.tracer).into_iter();
        table.row([cell.id.as_str().into()].into_iter().chain(values).chain(numbers.into_iter().map(Field::from)));
    }
    let mut text = format!("# {}\n\n{}.\n\n{}", plan.name, summary(plan, matrix, &HashMap::new()), table.markdown());
    text += &designs_text(plan, matrix);
    text += &search_text(plan, matrix);
    for remark in missing_program(plan).into_iter().chain(remarks(plan, matrix, node)) {
        text += &format!("\n{}: {remark}.\n", if remark.is_warning { "Warning" } else { "Note" });
    }
    let mut absent: Vec<String> = plan.blocks().flat_map(missing).collect();
    absent.dedup();
    absent.iter().for_each(|what| text += &format!("\nWarning: {what}.\n"));
    if !matrix.invalid.is_empty() {
        let mut table = TextTable::new("l".repeat(names.len() + 1), names.into_iter().chain(["reason"]));
        for cell in &matrix.invalid {
            let values = values(&cell.workload, &cell.levels, cell.tracer).into_iter();
            table.row(values.chain([cell.reason.as_str().into()]));
        }
        text += &format!("\n{} cannot run here:\n\n{}", counted(matrix.invalid.len(), "cell"), table.markdown());
    }
    text.trim_end().to_owned()
}

/// What the search of a plan asks, and what it may cost at most.
fn search_text(plan: &Plan, matrix: &Matrix) -> String {
    let Some(search) = &plan.search else { return String::new() };
    let cells = matrix.cells.len();
    let grid = cells as u64 * u64::from(plan.repeats);
    let most = search.runs.map_or(grid, |runs| grid.min(u64::from(runs)));
    let minutes = search.minutes.map_or(String::new(), |minutes| format!(", or {}", counted(minutes, "minute")));
    let refused = check_candidates(plan, matrix).err();
    let warning = refused.map_or(String::new(), |reason| format!("\nWarning: {reason}.\n"));
    format!(
        "\nSearch: {}. It begins with {} and ends after at most {most} of {grid}{minutes}.\n{warning}",
        search.question(),
        counted(cells, "run"),
    )
}

/// What the designs of a plan's blocks can tell apart.
fn designs_text(plan: &Plan, matrix: &Matrix) -> String {
    let of_block = |(place, block)| {
        let Resolved { summary, mixed, notes, warnings } = resolved(plan, block, matrix)?;
        let title =
            if plan.further.is_empty() { "Design".to_owned() } else { format!("Design of block {}", place + 1) };
        let mut text = format!("\n{title}: {summary}.\n");
        if !mixed.is_empty() {
            let mut table = TextTable::new("ll", ["effect", "not told apart from"]);
            mixed.into_iter().for_each(|(effect, others)| table.row([effect, others].map(Field::from)));
            text += &format!("\n{}", table.markdown());
        }
        notes.iter().for_each(|note| text += &format!("\nNote: {note}.\n"));
        warnings.iter().for_each(|warning| text += &format!("\nWarning: {warning}.\n"));
        Some(text)
    };
    plan.blocks().enumerate().filter_map(of_block).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "plan_tests.rs"]
mod tests;
