//! `multicard plan`: shows what a plan would run here.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::material::Material;
use super::{Format, OK, Outcome, print, session_folder};
use crate::analysis::{SpreadSeen, counted, repeats_remark};
use crate::figure::check_studies;
use crate::papers::artefact;
use crate::plan::{Cell, Key, Levels, Matrix, Mode, Node, Plan, PlanError, Tracer, expand, missing_program, remarks};
use crate::session::{Machine, open_reader};
use crate::store::held_cells;
use crate::text_table::{Field, TextTable};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    plan: PlanArgument,
    /// Print the plan's file instead.
    #[arg(long)]
    toml: bool,
    /// A session whose repeats tell how many a precision takes: its folder, or its name in the default place.
    #[arg(long)]
    session: Option<PathBuf>,
    /// How far runs go, whatever the plan says.
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
}

/// How far runs go.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeName {
    /// Through all epochs.
    Full,
    /// Until the mean step is known.
    Quick,
}

/// A plan by its file, or that of a paper's table or figure.
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
    /// The plan, in another mode where one is given.
    pub fn read(&self, mode: Option<ModeName>) -> Result<Plan, Box<dyn Error>> {
        let mut plan = match &self.plan {
            Some(file) => read_plan(file)?,
            None => Plan::parse(&self.text(None)?, self.preset.as_deref().unwrap_or_default())?,
        };
        plan.mode = match mode {
            Some(ModeName::Full) => Mode::Full,
            Some(ModeName::Quick) if plan.mode.is_full() => Mode::Quick { step_precision: Mode::STEP_PRECISION },
            Some(ModeName::Quick) | None => plan.mode,
        };
        Ok(plan)
    }

    /// Whether it is that of a paper's table or figure.
    pub fn is_preset(&self) -> bool {
        self.preset.is_some()
    }

    /// The plan as a file.
    fn text(&self, mode: Option<ModeName>) -> Result<String, Box<dyn Error>> {
        if self.plan.is_some() || mode.is_some() {
            return Ok(self.read(mode)?.to_toml());
        }
        let artefact = artefact(self.preset.as_deref().unwrap_or_default())?;
        let text = artefact.plan_text().map(str::to_owned);
        text.ok_or_else(|| {
            let needs = artefact.needs.as_deref().unwrap_or("multicard has no plan of it");
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
    /// None of a program of the plan's own, of which nothing is known.
    estimated_s: Option<f64>,
    estimated_peak_bytes: Option<u64>,
    /// By kind; empty where the workload knows none.
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
}

/// Reads a plan and checks its studies.
fn read_plan(path: &Path) -> Result<Plan, PlanError> {
    let plan = Plan::read(path)?;
    check_studies(&plan, &path.display().to_string())?;
    Ok(plan)
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if arguments.toml {
        print(&arguments.plan.text(arguments.mode)?)?;
        return Ok(OK);
    }
    let plan = arguments.plan.read(arguments.mode)?;
    let Machine { node, .. } = Machine::look();
    let mut matrix = expand(&plan, &node);
    if let Some(session) = &arguments.session {
        take_times(&mut matrix, &session_folder(session)?)?;
    }
    let runs = matrix.cells.len() * plan.repeats as usize;
    match arguments.format {
        Format::Md => {
            let mut text = describe(&plan, &matrix, &node, runs);
            if let Some(session) = &arguments.session {
                text.push_str("\n\nNote: cells with a finished run in the session take what their last run took.");
                text.push_str(&repeats_text(&plan, session)?);
            }
            print(&text)?;
        }
        Format::Json => print(&serde_json::to_string_pretty(&json(&matrix, runs))?)?,
    }
    Ok(OK)
}

/// Puts what the last finished runs of a session took in place of estimates, for the cells that the session has.
fn take_times(matrix: &mut Matrix, session: &Path) -> Result<(), Box<dyn Error>> {
    let held = held_cells(&open_reader(session)?.headings()?);
    for cell in &mut matrix.cells {
        let last_s = held.get(&cell.identity).and_then(|held| held.last_s);
        cell.estimate.duration_s = last_s.unwrap_or(cell.estimate.duration_s);
    }
    Ok(())
}

/// How many repeats some precisions take, by the spread of a session's cells of the plan's workloads.
fn repeats_text(plan: &Plan, session: &PathBuf) -> Result<String, Box<dyn Error>> {
    let Material { runs, .. } = Material::read(&session_folder(session)?)?;
    let Some(seen) = SpreadSeen::of_plan(&SpreadSeen::by_workload(&runs), plan) else {
        return Ok("\n\nNote: no cell of the session of this workload has two finished repeats with CPUs of their own, which would tell how \
                   many are needed."
            .to_owned());
    };
    let remark = |precision: &f64| format!("\n\nNote: {}.", repeats_remark(&seen, *precision));
    Ok([0.01, 0.02, 0.05].iter().map(remark).collect())
}

/// Whether something is known of the time that a run of the cell takes.
fn has_time(cell: &Cell) -> bool {
    !cell.shape.own_program || cell.estimate.duration_s > 0.0
}

fn json(matrix: &Matrix, runs: usize) -> MatrixOut<'_> {
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
    MatrixOut { cells: cells.collect(), invalid: invalid.collect(), merged: matrix.merged.combinations, runs }
}

fn describe(plan: &Plan, matrix: &Matrix, node: &Node, runs: usize) -> String {
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
    let duration_s: f64 =
        matrix.cells.iter().map(|cell| cell.estimate.duration_s).sum::<f64>() * f64::from(plan.repeats);
    let peak_bytes = matrix.cells.iter().map(|cell| cell.estimate.peak_bytes).max().unwrap_or(0);
    // Nobody knows what programs of a plan's own take.
    let is_estimated = matrix.cells.is_empty() || matrix.cells.iter().any(has_time);
    let estimates = if is_estimated {
        let (time, peak_gb) = (crate::figure::duration_text(duration_s), peak_bytes as f64 / 1e9);
        let peak = if peak_bytes > 0 { format!(", peak about {peak_gb:.1} GB per rank") } else { String::new() };
        format!("about {time}{peak} (rough estimates)")
    } else {
        "run time unknown".to_owned()
    };
    let repeats = counted(plan.repeats as usize, "repeat");
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
    let (name, cells) = (&plan.name, matrix.cells.len());
    let mut text = format!("# {name}\n\n{runs} runs: {cells} cells × {repeats}; {estimates}.\n\n{}", table.markdown());
    for remark in missing_program(plan).into_iter().chain(remarks(plan, matrix, node)) {
        text += &format!("\n{}: {remark}.\n", if remark.is_warning { "Warning" } else { "Note" });
    }
    if !matrix.invalid.is_empty() {
        let mut table = TextTable::new("l".repeat(names.len() + 1), names.into_iter().chain(["reason"]));
        for cell in &matrix.invalid {
            let values = values(&cell.workload, &cell.levels, cell.tracer).into_iter();
            table.row(values.chain([cell.reason.as_str().into()]));
        }
        text += &format!("\n{} cells cannot run here:\n\n{}", matrix.invalid.len(), table.markdown());
    }
    text.trim_end().to_owned()
}
