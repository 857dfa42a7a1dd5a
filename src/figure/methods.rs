//! A methods paragraph: how the numbers of a study were measured, each sentence from the session's records. What is not recorded is
//! said to be so.

use std::collections::BTreeMap;

use super::compare::Chosen;
use super::notes::{method_note, summary_of_baseline, verdict_note};
use super::number::{capitalised, counted};
use super::paper::Origin;
use super::ratio::finished;
use super::study::Study;
use crate::analysis::{
    Cell, Recording, RunState, RunSummary, Setting, Source, environment_notes, held, outliers, varying,
};
use crate::plan::{Mode, Order, Plan};

/// Facts of environments that the sentence on hardware tells, each with what is written around it.
const HARDWARE: [(&str, &str, &str); 6] = [
    ("cpu_model", "processor ", ""),
    ("cpus", "", ""),
    ("cpu_governor", "CPU governor ", ""),
    ("gpu_power_limit_w", "GPU power limit ", " W"),
    ("gpu_ecc", "GPU ECC ", ""),
    ("gpu_mig", "MIG ", ""),
];
/// Those that the sentence on software tells.
const SOFTWARE: [(&str, &str, &str); 8] = [
    ("system", "", ""),
    ("kernel", "Linux ", ""),
    ("driver", "NVIDIA driver ", ""),
    ("cuda_runtime", "CUDA runtime ", ""),
    ("cudnn", "cuDNN ", ""),
    ("nccl", "NCCL ", ""),
    ("libtorch", "libtorch ", ""),
    ("multicard", "multicard ", ""),
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
    sentences.extend(hardware(&runs, origins));
    sentences.extend(repeats(cells, origins));
    sentences.extend(modes(&runs, origins));
    let baseline = chosen.baseline();
    let table = chosen.table(&baseline);
    sentences.push(method_note(&table.rows));
    sentences.extend(summary_of_baseline(cells, &table.columns, &baseline));
    sentences.extend(verdict_note(&table.columns, &table.rows));
    sentences.extend(environment_notes(cells));
    sentences.push(marks(&runs));
    sentences.extend(excluded(&chosen, cells));
    sentences.extend(stand_off(cells, study));
    let ended = |sentence: &String| {
        let text = capitalised(sentence.trim_end_matches('.'));
        format!("{text}.")
    };
    sentences.iter().map(ended).collect::<Vec<_>>().join(" ")
}

/// How many CPUs runs could use: `1 usable CPU`, or `4 and 16 usable CPUs` where runs differ.
fn cpus(count: &str) -> String {
    format!("{count} usable {}", if count == "1" { "CPU" } else { "CPUs" })
}

/// What was run: workloads, data, cells, what varied and what was held.
fn design(cells: &[Cell]) -> String {
    let described = |cell: &Cell| match cell.data {
        "" => cell.workload.name.to_string(),
        data => format!("{} on {data}", cell.workload.name),
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
    let is_said = |setting: &Setting| ["data", "workload"].contains(&&*setting.key);
    let held = held(cells).into_iter().filter(|(setting, _)| !is_said(setting));
    let held: Vec<String> = held.map(|(setting, level)| format!("{} {level}", setting.name)).collect();
    let mut text = format!("{} of {} were measured", counted(cells.len(), "cell"), workloads.join("; "));
    if !varied.is_empty() {
        text += &format!(", which vary in {}", varied.join(", "));
    }
    if !held.is_empty() {
        text += &format!("; held: {}", held.join(", "));
    }
    text
}

/// The distinct values of a fact over runs; `None` where some run does not tell it.
fn values_of(runs: &[&RunSummary], key: &str) -> Option<String> {
    let value = |run: &&RunSummary| Some(run.environment.as_ref()?.get(key)?.to_owned());
    let mut values: Vec<String> = runs.iter().map(value).collect::<Option<_>>()?;
    values.sort();
    values.dedup();
    Some(values.join(" and "))
}

/// The machine and its software, from what was recorded with each run; else from the session's description of its machine.
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
        let of = if recorded == 0 { "the runs".to_owned() } else { format!("{} of the runs", runs.len() - recorded) };
        return vec![
            format!("The sessions were created on: {nodes}"),
            format!("The environment of {of} (CUDA libraries, kernel, power limit, ECC, governor) was not recorded"),
        ];
    }
    let on_gpus = runs.iter().any(|run| run.environment.as_ref().and_then(|known| known.get("gpus")) != Some("none"));
    let (mut told, mut unknown) = (Vec::new(), Vec::new());
    let mut sentence = |facts: &[(&str, &str, &str)]| {
        for (key, before, after) in facts {
            let of_gpus = ["gpu", "driver", "cuda_runtime", "cudnn", "nccl"].iter().any(|start| key.starts_with(start));
            match values_of(runs, key) {
                // Libraries that libtorch brings say nothing of runs without a GPU.
                _ if of_gpus && !on_gpus => {}
                Some(value) if *key == "cpus" => told.push(cpus(&value)),
                Some(value) => told.push(format!("{before}{value}{after}")),
                None => unknown.push(if before.is_empty() { (*key).to_owned() } else { before.trim_end().to_owned() }),
            }
        }
        std::mem::take(&mut told).join(", ")
    };
    let (machine, software) = (sentence(&HARDWARE), sentence(&SOFTWARE));
    let gpus = values_of(runs, "gpus").filter(|gpus| gpus != "none").unwrap_or_else(|| "no GPU".to_owned());
    let commit = values_of(runs, "multicard_build").map_or(String::new(), |commit| format!(" (git commit {commit})"));
    if commit.is_empty() {
        unknown.push("multicard's git commit".to_owned());
    }
    let mut sentences = vec![format!("Runs used {gpus}; {machine}"), format!("Software: {software}{commit}")];
    if !unknown.is_empty() {
        sentences.push(format!("Not recorded: {}", unknown.join(", ")));
    }
    sentences
}

/// Repeats of cells, and the order in which they were run.
fn repeats(cells: &[Cell], origins: &[Origin]) -> Vec<String> {
    let counts: Vec<usize> = cells.iter().map(|cell| finished(cell).count()).collect();
    let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
    let times =
        if least == most { counted(most, "finished repeat") } else { format!("{least} to {most} finished repeats") };
    let mut sentences = vec![format!("Each cell has {times}")];
    let mut orders = Vec::new();
    let mut unreadable = 0;
    for plan in origins.iter().flat_map(|origin| &origin.plans) {
        let Ok(plan) = Plan::parse(&plan.toml, &plan.name) else {
            unreadable += 1;
            continue;
        };
        let order = match plan.order {
            Order::Interleaved => format!("interleaved: each repeat is a shuffle of all cells (seed {})", plan.seed),
            Order::Sequential => "sequential: all repeats of a cell, then the next cell".to_owned(),
        };
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    if !orders.is_empty() {
        sentences.push(format!("Runs were {}", orders.join("; or ")));
    }
    if unreadable > 0 {
        sentences.push(format!("The order of {} is not known to this version", counted(unreadable, "plan")));
    }
    sentences
}

/// How far runs went, and their warm-up.
fn modes(runs: &[&RunSummary], origins: &[Origin]) -> Vec<String> {
    let mut sentences = Vec::new();
    let full = runs.iter().filter(|run| run.mode == Mode::Full).count();
    let mut precisions: Vec<String> = runs
        .iter()
        .filter_map(|run| run.mode.step_precision())
        .map(|share| format!("±{} %", (share * 1e6).round() / 1e4))
        .collect();
    precisions.sort();
    precisions.dedup();
    if full > 0 {
        let mut steps: Vec<u64> = origins
            .iter()
            .flat_map(|origin| &origin.plans)
            .filter_map(|plan| Plan::parse(&plan.toml, &plan.name).ok())
            .map(|plan| plan.warm_up_steps)
            .collect();
        steps.sort_unstable();
        steps.dedup();
        let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
        let steps = if steps.is_empty() { String::new() } else { format!(" (at least {} steps)", steps.join(" or ")) };
        sentences.push(format!("{} went through all epochs; warm-up{steps} is left out", counted(full, "run")));
    }
    if full < runs.len() {
        sentences.push(format!(
            "{} found their own warm-up (MSER-5) and ended once the mean step was known to {}; training times are extrapolated",
            counted(runs.len() - full, "quick run"),
            precisions.join(" or ")
        ));
    }
    for (recording, by) in [(Recording::Traced, "Nsight Systems"), (Recording::BuiltIn, "the built-in tracer")] {
        let traced = runs.iter().filter(|run| run.recording == recording).count();
        if traced > 0 {
            let were = if traced == 1 { "was" } else { "were" };
            sentences.push(format!("{} {were} recorded by {by}, which costs time", counted(traced, "run")));
        }
    }
    sentences
}

/// How many runs bear marks.
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

/// What does not enter the values.
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
    if chosen.traced > 0 && cells.iter().all(|cell| !matches!(cell.recording(), Recording::Traced | Recording::BuiltIn))
    {
        out.push(format!("{}, as tracing costs time", counted(chosen.traced, "traced cell")));
    }
    vec![if out.is_empty() { "No run was excluded".to_owned() } else { format!("Excluded: {}", out.join("; ")) }]
}

/// Outliers of the study's measure, which stay.
fn stand_off(cells: &[Cell], study: &Study) -> Option<String> {
    let key = study.measure.clone().unwrap_or_else(|| study.ratio_of());
    let found: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some(outliers(cell, cell.measure(&key)?)))
        .flatten()
        .map(|outlier| outlier.run)
        .collect();
    (!found.is_empty()).then(|| format!("Outliers, kept in all values: {}", found.join(", ")))
}

#[cfg(test)]
#[path = "methods_tests.rs"]
mod tests;
