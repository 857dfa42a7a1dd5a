//! A methods paragraph: how the numbers of a study were measured. Each sentence comes from the session's records, and the paragraph says
//! which facts were not recorded.

use std::collections::BTreeMap;

use super::baseline_notes::summary_of_baseline;
use super::compare::Chosen;
use super::launches::launches;
use super::notes::method_note;
use super::number::{capitalised, counted};
use super::paper::Origin;
use super::ratio::finished;
use super::study::Study;
use super::table::{CellValue, Column, Row};
use super::verdict_notes::verdict_notes;
use crate::analysis::{
    Cell, Clock, DATA, Mark, Recording, RunState, RunSummary, Setting, Source, WORKLOAD, environment_notes, held,
    outliers, split_note, varying,
};
use crate::plan::{Mode, Plan};

/// Facts of environments for the sentence on hardware, each with the text before and after it.
const HARDWARE: [(&str, &str, &str); 6] = [
    ("cpu_model", "processor ", ""),
    ("cpus", "", ""),
    ("cpu_governor", "CPU governor ", ""),
    ("gpu_power_limit_w", "GPU power limit ", " W"),
    ("gpu_ecc", "GPU ECC ", ""),
    ("gpu_mig", "MIG ", ""),
];
/// Facts for the sentence on software.
const SOFTWARE: [(&str, &str, &str); 4] =
    [("system", "", ""), ("kernel", "Linux ", ""), ("driver", "NVIDIA driver ", ""), ("multicard", "multicard ", "")];
/// Libraries that the worker loads; a plan's own program has its own libraries.
const WORKER_SOFTWARE: [(&str, &str, &str); 4] = [
    ("cuda_runtime", "CUDA runtime ", ""),
    ("cudnn", "cuDNN ", ""),
    ("nccl", "NCCL ", ""),
    ("libtorch", "libtorch ", ""),
];
/// Facts about programs. The packages are those that are installed; which of them a program loads is not known.
const PROGRAM_SOFTWARE: [(&str, &str, &str); 4] = [
    ("program_container", "container ", ""),
    ("program_python", "Python ", ""),
    ("program_packages", "installed packages ", ""),
    ("program_git", "git commit ", ""),
];

/// The methods of a study over sessions as one paragraph of plain text.
pub fn methods(sources: &[Source], study: &Study, origins: &[Origin]) -> String {
    let chosen = Chosen::new(sources, study);
    let cells = &chosen.shown;
    let runs: Vec<&RunSummary> = cells.iter().flat_map(finished).collect();
    if runs.is_empty() {
        return "No run of these cells has finished: there is nothing to describe.".to_owned();
    }
    let mut sentences = Vec::new();
    sentences.push(design(cells));
    sentences.extend(chosen_by(&runs));
    sentences.extend(hardware(&runs, origins));
    sentences.push(repeats(cells));
    sentences.extend(launches(cells, origins));
    sentences.extend(modes(&runs, origins));
    sentences.extend(said_by_programs(&runs));
    let baseline = chosen.baseline();
    let table = chosen.table(&baseline);
    sentences.push(method_note(&table.rows));
    sentences.extend(summary_of_baseline(cells, &with_values(&table.columns, &table.rows), &baseline));
    sentences.extend(verdict_notes(cells, &table.columns, &table.rows));
    sentences.extend(split_note(cells));
    sentences.extend(environment_notes(cells, study.differing_facts()));
    sentences.push(marks(&runs));
    sentences.extend(excluded(&chosen, cells));
    sentences.extend(stand_off(cells, study));
    let ended = |sentence: &String| {
        let text = capitalised(sentence.trim_end_matches('.'));
        format!("{text}.")
    };
    sentences.iter().map(ended).collect::<Vec<_>>().join(" ")
}

/// How many CPUs runs could use: `1 usable CPU`, or `4 and 16 usable CPUs` if runs differ.
fn cpus(count: &str) -> String {
    format!("{count} usable {}", if count == "1" { "CPU" } else { "CPUs" })
}

/// What was run: workloads, data, cells, varied and fixed settings.
fn design(cells: &[Cell]) -> String {
    let described = |cell: &Cell| match (cell.data, &cell.workload.name) {
        (_, name) if cell.workload.command.is_some() => format!("the plan's own program ({name})"),
        ("", name) => name.to_string(),
        (data, name) => format!("{name} on {data}"),
    };
    let mut workloads: Vec<String> = cells.iter().map(described).collect();
    workloads.sort();
    workloads.dedup();
    let varied: Vec<String> = varying(cells)
        .iter()
        .map(|setting| {
            let mut levels = Vec::new();
            for level in cells.iter().filter_map(|cell| cell.level(&setting.key)) {
                let level = level.to_string();
                if !levels.contains(&level) {
                    levels.push(level);
                }
            }
            format!("{} ({})", setting.name, levels.join(", "))
        })
        .collect();
    let is_said = |setting: &Setting| setting.is(DATA) || setting.is(WORKLOAD);
    let held = held(cells).into_iter().filter(|(setting, _)| !is_said(setting));
    let held: Vec<String> = held.map(|(setting, level)| format!("{} {level}", setting.name)).collect();
    let were = if cells.len() == 1 { "was" } else { "were" };
    let mut text = format!("{} of {} {were} measured", counted(cells.len(), "cell"), workloads.join("; "));
    if !varied.is_empty() {
        text += &format!(", which vary in {}", varied.join(", "));
    }
    if !held.is_empty() {
        text += &format!("; held: {}", held.join(", "));
    }
    text
}

/// The distinct values of a fact over runs; `None` if some run does not have it.
fn values_of(runs: &[&RunSummary], key: &str) -> Option<String> {
    let value = |run: &&RunSummary| Some(run.environment.as_ref()?.get(key)?.to_owned());
    let mut values: Vec<String> = runs.iter().map(value).collect::<Option<_>>()?;
    values.sort();
    values.dedup();
    Some(values.join(" and "))
}

/// The machine and its software, as recorded with each run, or else as the session describes its machine.
fn hardware(runs: &[&RunSummary], origins: &[Origin]) -> Vec<String> {
    let recorded = runs.iter().filter(|run| run.environment.is_some()).count();
    if recorded < runs.len() {
        let nodes = origins.iter().map(|origin| {
            let node = &origin.node;
            let gpus = if node.gpus.is_empty() { "no GPU".to_owned() } else { node.gpus.join(", ") };
            let unknown = || "not recorded".to_owned();
            format!(
                "{gpus}; {} with {}; {}; NVIDIA driver {}; libtorch {}",
                node.cpu_model,
                cpus(&node.cpus.to_string()),
                node.system,
                if node.gpus.is_empty() { "none".to_owned() } else { node.driver.clone().unwrap_or_else(unknown) },
                node.torch_version.clone().unwrap_or_else(unknown)
            )
        });
        let nodes = nodes.collect::<Vec<_>>().join(" / ");
        let which = if recorded == 0 {
            "the runs".to_owned()
        } else {
            format!("{} of {}", runs.len() - recorded, counted(runs.len(), "run"))
        };
        return vec![
            format!("The sessions were created on: {nodes}"),
            format!("The environment of {which} (CUDA libraries, kernel, power limit, ECC, governor) was not recorded"),
        ];
    }
    let (machine, software, mut unknown) = environment(runs);
    let gpus = values_of(runs, "gpus").filter(|gpus| gpus != "none").unwrap_or_else(|| "no GPU".to_owned());
    let commit = values_of(runs, "multicard_build").map_or(String::new(), |commit| format!(" (git commit {commit})"));
    if commit.is_empty() {
        unknown.push("multicard's git commit".to_owned());
    }
    let mut sentences = vec![format!("Runs used {gpus}; {machine}"), format!("Software: {software}{commit}")];
    let programs: Vec<&RunSummary> = runs.iter().copied().filter(|run| is_program(run)).collect();
    let fact_text =
        |(key, before, after): &(&str, &str, &str)| Some(format!("{before}{}{after}", values_of(&programs, key)?));
    let made_of: Vec<String> = PROGRAM_SOFTWARE.iter().filter_map(fact_text).collect();
    if !programs.is_empty() {
        let made_of = if made_of.is_empty() { "its libraries are not recorded".to_owned() } else { made_of.join(", ") };
        sentences.push(format!("The plan's own program: {made_of}"));
    }
    if !unknown.is_empty() {
        sentences.push(format!("Not recorded: {}", unknown.join(", ")));
    }
    sentences
}

/// The hardware and software of runs whose environment was recorded, and the facts that some of these runs lack.
fn environment(runs: &[&RunSummary]) -> (String, String, Vec<String>) {
    let on_gpus = runs.iter().any(|run| run.environment.as_ref().and_then(|known| known.get("gpus")) != Some("none"));
    // Runs of programs do not use the worker's libraries.
    let of_worker: Vec<&RunSummary> = runs.iter().copied().filter(|run| !is_program(run)).collect();
    let mut unknown = Vec::new();
    let mut tell = |runs: &[&RunSummary], facts: &[(&str, &str, &str)]| {
        let mut recorded_facts = Vec::new();
        for (key, before, after) in facts.iter().filter(|_| !runs.is_empty()) {
            let of_gpus = ["gpu", "driver", "cuda_runtime", "cudnn", "nccl"].iter().any(|start| key.starts_with(start));
            match values_of(runs, key) {
                // Runs without a GPU do not use libtorch's CUDA libraries.
                _ if of_gpus && !on_gpus => {}
                Some(value) if *key == "cpus" => recorded_facts.push(cpus(&value)),
                Some(value) => recorded_facts.push(format!("{before}{value}{after}")),
                None => unknown.push(if before.is_empty() { (*key).to_owned() } else { before.trim_end().to_owned() }),
            }
        }
        recorded_facts
    };
    let machine = tell(runs, &HARDWARE).join(", ");
    let software = [tell(runs, &SOFTWARE), tell(&of_worker, &WORKER_SOFTWARE)].concat().join(", ");
    (machine, software, unknown)
}

/// Whether a run is of a program that its plan brings.
fn is_program(run: &RunSummary) -> bool {
    run.workload.command.is_some()
}

/// The designs that chose the cells, if not all combinations of levels were run.
fn chosen_by(runs: &[&RunSummary]) -> Option<String> {
    let mut kinds: Vec<&str> = runs.iter().filter_map(|run| Some(run.design.as_ref()?.kind.title())).collect();
    kinds.sort_unstable();
    kinds.dedup();
    (!kinds.is_empty()).then(|| {
        format!("Not all combinations of levels were run: cells were chosen by a design ({})", kinds.join(", "))
    })
}

/// How many repeats cells have.
fn repeats(cells: &[Cell]) -> String {
    let counts: Vec<usize> = cells.iter().map(|cell| finished(cell).count()).collect();
    let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
    let times =
        if least == most { counted(most, "finished repeat") } else { format!("{least} to {most} finished repeats") };
    format!("Each cell has {times}")
}

/// The columns in which more than one row has a value. A ratio that only the baseline has is not shown.
fn with_values(columns: &[Column], rows: &[Row]) -> Vec<Column> {
    let is_told = |place: usize| rows.iter().filter(|row| row.values[place] != CellValue::Missing).count() > 1;
    columns.iter().enumerate().filter(|(place, _)| is_told(*place)).map(|(_, column)| column.clone()).collect()
}

/// How runs ended, and their warm-up.
fn modes(runs: &[&RunSummary], origins: &[Origin]) -> Vec<String> {
    let mut sentences = Vec::new();
    let (programs, own): (Vec<&RunSummary>, Vec<&RunSummary>) = runs.iter().copied().partition(|run| is_program(run));
    let (full, quick): (Vec<&RunSummary>, Vec<&RunSummary>) = own.into_iter().partition(|run| run.mode == Mode::Full);
    if !full.is_empty() {
        let warm_up = warm_up(&full, origins);
        sentences.push(format!("{} completed all epochs; warm-up{warm_up} is left out", counted(full.len(), "run")));
    }
    if !programs.is_empty() {
        let finds_warm_up =
            programs.iter().filter_map(|run| run.workload.command.as_ref()).all(|own| own.readings.finds_warm_up);
        let warm_up = if finds_warm_up { " (found by MSER-5)".to_owned() } else { warm_up(&programs, origins) };
        let itself = if programs.len() == 1 { "itself" } else { "themselves" };
        sentences.push(format!(
            "{} of the plan's own program ended by {itself}; warm-up{warm_up} is left out",
            counted(programs.len(), "run")
        ));
    }
    sentences.extend(quick_runs(&quick));
    for (recording, by) in [
        (Recording::Traced, "Nsight Systems"),
        (Recording::BuiltIn, "the built-in tracer"),
        (Recording::BuiltInWithoutCalls, "the built-in tracer without calls"),
        (Recording::InWindows, "the built-in tracer in windows"),
        (Recording::InWindowsWithoutCalls, "the built-in tracer in windows without calls"),
    ] {
        let traced = runs.iter().filter(|run| run.recording == recording && !run.recorded_nothing()).count();
        if traced > 0 {
            let were = if traced == 1 { "was" } else { "were" };
            sentences.push(format!("{} {were} recorded by {by}, which costs time", counted(traced, "run")));
        }
    }
    sentences
}

/// The minimum warm-up steps that the plans of runs ask for: ` (at least 10 steps)`.
fn warm_up(runs: &[&RunSummary], origins: &[Origin]) -> String {
    let plans = origins.iter().flat_map(|origin| &origin.plans);
    let mut steps: Vec<u64> = plans
        .filter(|plan| runs.iter().any(|run| run.launch == plan.id))
        .filter_map(|plan| Plan::parse(&plan.toml, &plan.name).ok())
        .map(|plan| plan.warm_up_steps)
        .collect();
    steps.sort_unstable();
    steps.dedup();
    let texts: Vec<String> = steps.iter().map(ToString::to_string).collect();
    match steps.as_slice() {
        [] => String::new(),
        [1] => " (at least 1 step)".to_owned(),
        _ => format!(" (at least {} steps)", texts.join(" or ")),
    }
}

/// How quick runs ended: when the requested precision was reached, or after all their steps.
fn quick_runs(runs: &[&RunSummary]) -> Vec<String> {
    if runs.is_empty() {
        return Vec::new();
    }
    let percent = |share: f64| format!("±{} %", (share * 1e4).round() / 1e2);
    let mut asked: Vec<String> = runs.iter().filter_map(|run| run.mode.step_precision()).map(percent).collect();
    asked.sort();
    asked.dedup();
    let missed = |run: &&RunSummary| {
        run.marks
            .iter()
            .find_map(|mark| if let Mark::NotPrecise { reached, .. } = mark { Some(*reached) } else { None })
    };
    let missed: Vec<Option<f64>> = runs.iter().filter_map(missed).collect();
    let early =
        |run: &&&RunSummary| run.training.is_some_and(|training| (training.steps as f64) < training.planned_steps);
    let early = runs.iter().filter(early).count();
    let mut text = format!(
        "{} found their own warm-up (MSER-5) and were to end when the mean step time was known to {}",
        counted(runs.len(), "quick run"),
        asked.join(" or ")
    );
    text += &match (early, missed.len()) {
        (_, 0) => format!("; all of them reached this, {early} before their last step"),
        (early, missing) => format!("; {early} ended early, and {missing} did all their steps without reaching it"),
    };
    if let Some(worst) = missed.iter().flatten().copied().max_by(f64::total_cmp) {
        text += &format!(", the worst to {}", percent(worst));
    }
    if early > 0 {
        text += &format!("; training times of {early} are extrapolated");
    }
    vec![text]
}

/// Which step times programs reported, and whether their clocks were confirmed.
fn said_by_programs(runs: &[&RunSummary]) -> Vec<String> {
    let programs = || runs.iter().filter(|run| is_program(run));
    let clocks: Vec<Clock> = programs().filter_map(|run| run.clock).collect();
    let by_lines = programs().filter(|run| run.clock.is_none() && run.value("step_time_s").is_some()).count();
    let mut sentences = Vec::new();
    if by_lines > 0 {
        sentences.push(format!("Step times of {} are the times between the program's lines", counted(by_lines, "run")));
    }
    if !clocks.is_empty() {
        let confirmed = clocks.iter().filter(|clock| **clock == Clock::Confirmed).count();
        let impossible = clocks.iter().filter(|clock| clock.is_impossible()).count();
        let open = clocks.len() - confirmed - impossible;
        let mut text = format!(
            "Step times of {} are those that the program reported; the arrival times of its lines confirm those of {confirmed}",
            counted(clocks.len(), "run")
        );
        if impossible > 0 {
            text += &format!("; those of {impossible} are impossible");
        }
        if open > 0 {
            text += &format!("; those of {open} could not be confirmed");
        }
        sentences.push(text);
    }
    sentences
}

/// How many runs have marks.
fn marks(runs: &[&RunSummary]) -> String {
    let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        let mut own: Vec<&str> = run.marks.iter().map(|mark| mark.label()).collect();
        own.sort_unstable();
        own.dedup();
        own.into_iter().for_each(|label| *labels.entry(label).or_default() += 1);
    }
    if labels.is_empty() {
        return format!(
            "None of {} is marked (throttled, contended, shared, drifting)",
            counted(runs.len(), "finished run")
        );
    }
    let listed: Vec<String> = labels.iter().map(|(label, count)| format!("{label} ({count})")).collect();
    format!("Marks on {}: {}", counted(runs.len(), "finished run"), listed.join(", "))
}

/// A sentence on the runs and values that are excluded.
fn excluded(chosen: &Chosen, cells: &[Cell]) -> Vec<String> {
    let mut out = Vec::new();
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for run in cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.state != RunState::Finished) {
        *states.entry(run.state.name()).or_default() += 1;
    }
    out.extend(states.iter().map(|(state, count)| format!("{count} {state}")));
    let beside = cells.iter().flat_map(finished).filter(|run| run.had_company()).count();
    if beside > 0 {
        out.push(format!("times, rates and energy of {} that shared the machine", counted(beside, "run")));
    }
    if chosen.all.len() > cells.len() {
        out.push(format!("{} by filter", counted(chosen.all.len() - cells.len(), "cell")));
    }
    if chosen.traced > 0 && cells.iter().all(|cell| !cell.recording().is_traced()) {
        out.push(format!("{}, as tracing costs time", counted(chosen.traced, "traced cell")));
    }
    vec![if out.is_empty() { "No run was excluded".to_owned() } else { format!("Excluded: {}", out.join("; ")) }]
}

/// Outliers of the study's measure, which are included in the values.
fn stand_off(cells: &[Cell], study: &Study) -> Option<String> {
    let key = study.measure.clone().unwrap_or_else(|| study.ratio_of());
    let outliers_of_cells: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some(outliers(cell, cell.measure(&key)?)))
        .flatten()
        .map(|outlier| outlier.run)
        .collect();
    (!outliers_of_cells.is_empty()).then(|| format!("Outliers, kept in all values: {}", outliers_of_cells.join(", ")))
}

#[cfg(test)]
#[path = "methods_tests.rs"]
mod tests;
