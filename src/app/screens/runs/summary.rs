//! The summary tab of a run: warnings, measures, epochs, trace, evidence, levels, placement, times and node.

use eframe::egui::{Grid, Label, Ui};

use super::list::elapsed_text;
use crate::analysis::{Mark, Measure, Setting, TRACE_METRICS, counted};
use crate::app::desk::Row;
use crate::app::engine::RunPage;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{muted, right, strong};
use crate::app::words::bytes_text;
use crate::figure::{grouped, precise, significant, unit_of_times};
use crate::plan::{CudaState, GpuChoice, Node};
use crate::protocol::{MemoryPolicy, RankPlace, TraceSummary, ranges_text};
use crate::store::{shown_host, shown_text};

/// Draws the summary.
pub fn summary_ui(ui: &mut Ui, row: &Row, page: &RunPage) {
    marks_ui(ui, page);
    measures_ui(ui, page);
    epochs_ui(ui, page);
    trace_ui(ui, page);
    evidence_ui(ui, page);
    program_ui(ui, page);
    levels_ui(ui, row, page);
    places_ui(ui, page);
    times_ui(ui, page);
    environment_ui(ui, page);
    if let Some(node) = &page.node {
        node_ui(ui, node);
    }
}

/// A heading with space above it.
fn section(ui: &mut Ui, title: &str) {
    ui.add_space(2.0 * GRID);
    ui.label(strong(title));
}

/// Names and values in two columns. Values that an anonymous archive left out are called that.
fn pairs_ui(ui: &mut Ui, id: &str, pairs: &[(String, String)]) {
    Grid::new(id).num_columns(2).spacing([16.0, 4.0]).show(ui, |ui| {
        for (name, value) in pairs {
            ui.label(muted(ui, name));
            ui.add(Label::new(shown_text(value)).wrap().selectable(true));
            ui.end_row();
        }
    });
}

fn marks_ui(ui: &mut Ui, page: &RunPage) {
    // The reason why it did not finish is shown above the tabs.
    let marks: Vec<&Mark> = page.summary.marks.iter().filter(|mark| !matches!(mark, Mark::Failed(_))).collect();
    if marks.is_empty() {
        return;
    }
    let warning = palette(ui.visuals()).warning;
    section(ui, "Warnings");
    for mark in marks {
        ui.horizontal_wrapped(|ui| {
            ui.colored_label(warning, format!("⚠ {}", mark.label()));
            ui.label(mark.to_string());
        });
    }
}

fn measures_ui(ui: &mut Ui, page: &RunPage) {
    let summary = &page.summary;
    let mut known: Vec<(Measure, f64)> =
        summary.measures.iter().filter_map(|measure| Some((measure.clone(), summary.value(&measure.key)?))).collect();
    // Readings of a newer worker, or of a program, are shown by their keys.
    let unregistered = |key: &str| Measure { name: key.replace('_', " "), ..Measure::new(key) };
    known.extend(summary.unregistered().map(|(key, value)| (unregistered(key), value)));
    section(ui, "Measures");
    if known.is_empty() {
        ui.weak("None yet: they are computed from steps and epochs.");
        return;
    }
    Grid::new("run-measures").num_columns(3).spacing([16.0, 4.0]).show(ui, |ui| {
        for (measure, value) in known {
            ui.label(muted(ui, &measure.name)).on_hover_text(&*measure.key);
            let (number, unit) = shown_value(&measure, value);
            right(ui, grouped(&number)).on_hover_text(format!("{} = {} {}", measure.key, precise(value), measure.unit));
            ui.label(muted(ui, unit));
            ui.end_row();
        }
    });
}

/// A value's number, and the unit that fits its size: 602 kB, not 0.000602 GB.
fn shown_value(measure: &Measure, value: f64) -> (String, String) {
    match (measure.unit.as_str(), measure.shown_unit.as_str()) {
        // Counts and codes are whole numbers.
        (_, "") if value.fract() == 0.0 => (format!("{value:.0}"), String::new()),
        ("B", "GB") => match bytes_text(value).split_once(' ') {
            Some((number, unit)) => (number.to_owned(), unit.to_owned()),
            None => (significant(value), "B".to_owned()),
        },
        ("s", "s") => {
            let (unit, factor) = unit_of_times(value.abs()).unwrap_or(("s", 1.0));
            (significant(value * factor), unit.to_owned())
        }
        (_, unit) => (significant(value * measure.shown_factor), unit.to_owned()),
    }
}

fn epochs_ui(ui: &mut Ui, page: &RunPage) {
    if page.summary.epochs.is_empty() {
        return;
    }
    section(ui, "Epochs");
    // The measures that describe the run at the end of each epoch, and the epoch's time.
    let summary = &page.summary;
    let has_epochs = |measure: &&Measure| summary.epochs.iter().any(|epoch| epoch.value(&measure.key).is_some());
    let shown = |measure: &&Measure| measure.is_of_epochs() || measure.key == "epoch_time_s";
    let mut measures: Vec<&Measure> = summary.measures.iter().filter(shown).filter(has_epochs).collect();
    measures.sort_by_key(|measure| measure.is_time());
    Grid::new("run-epochs").num_columns(measures.len() + 2).spacing([16.0, 4.0]).striped(true).show(ui, |ui| {
        right(ui, muted(ui, "Epoch"));
        for measure in &measures {
            right(ui, muted(ui, format!("{} {}", measure.name, measure.shown_unit).trim_end()));
        }
        ui.label("");
        ui.end_row();
        for epoch in &page.summary.epochs {
            right(ui, epoch.epoch.to_string());
            for measure in &measures {
                let value = epoch.value(&measure.key).map(|value| value * measure.shown_factor);
                let response = right(ui, value.map_or("–".to_owned(), significant));
                if let Some(value) = value {
                    response.on_hover_text(precise(value));
                }
            }
            ui.label(muted(ui, if epoch.warm_up { "includes warm-up" } else { "" }));
            ui.end_row();
        }
    });
}

/// The metrics of the profiler report, or what the ranks recorded themselves.
fn trace_ui(ui: &mut Ui, page: &RunPage) {
    let Some(trace) = page.summary.trace_summary() else { return };
    section(ui, "Trace");
    if !trace.ranges.is_empty() {
        return ranges_ui(ui, trace);
    }
    let (wall_s, recorder) = (significant(trace.wall_s), trace.recorder());
    let about = format!("{} · {wall_s} s on {} · {recorder}", trace.file, counted(trace.gpus as usize, "GPU"));
    ui.add(Label::new(muted(ui, about)).wrap().selectable(true));
    Grid::new("run-trace").num_columns(5).spacing([16.0, 4.0]).striped(true).show(ui, |ui| {
        ui.label(muted(ui, "Metric"));
        for title in ["Calls", "s", "% of report", "% of wall"] {
            right(ui, muted(ui, title));
        }
        ui.end_row();
        for kind in &TRACE_METRICS {
            let Some(metric) = page.summary.trace_metric(kind.key) else { continue };
            ui.label(kind.name).on_hover_text(kind.help);
            right(ui, grouped(&metric.calls.to_string()));
            for value in [metric.seconds, metric.percent_of_report, metric.percent_of_wall] {
                right(ui, significant(value)).on_hover_text(precise(value));
            }
            ui.end_row();
        }
    });
}

fn ranges_ui(ui: &mut Ui, trace: &TraceSummary) {
    let about = format!("{} · {} s · recorded by {}", trace.file, significant(trace.wall_s), trace.recorder());
    ui.add(Label::new(muted(ui, about)).wrap().selectable(true));
    Grid::new("run-ranges").num_columns(4).spacing([16.0, 4.0]).striped(true).show(ui, |ui| {
        ui.label(muted(ui, "Range"));
        for title in ["Calls", "s", "Median s"] {
            right(ui, muted(ui, title));
        }
        ui.end_row();
        for range in &trace.ranges {
            ui.label(&range.name).on_hover_text(
                "Time is summed over ranks and threads; ranges can contain each other, so the sum may \
                 count time twice",
            );
            right(ui, grouped(&range.calls.to_string()));
            for value in [range.seconds, range.median_s] {
                right(ui, significant(value)).on_hover_text(precise(value));
            }
            ui.end_row();
        }
    });
}

fn evidence_ui(ui: &mut Ui, page: &RunPage) {
    let mut evidence: Vec<_> = page.record.evidence().collect();
    evidence.dedup();
    let mut seen = Vec::new();
    // Most ranks report the same; each item is shown once.
    evidence.retain(|item| {
        !seen.contains(item) && {
            seen.push(item);
            true
        }
    });
    if evidence.is_empty() {
        return;
    }
    section(ui, "Evidence");
    let palette = palette(ui.visuals());
    Grid::new("run-evidence").num_columns(4).spacing([16.0, 4.0]).show(ui, |ui| {
        for title in ["", "Factor", "Asked", "Seen"] {
            ui.label(muted(ui, title));
        }
        ui.end_row();
        for item in evidence {
            let (symbol, color) = if item.in_effect { ("✓", palette.good) } else { ("✗", palette.bad) };
            let hover = if item.in_effect { "in effect" } else { "not in effect" };
            ui.colored_label(color, symbol).on_hover_text(hover);
            let factor = page.record.workload.factor(&item.factor);
            ui.label(factor.map_or(&*item.factor, |factor| &*factor.name));
            ui.label(shown_text(&item.asked));
            ui.add(Label::new(shown_text(&item.seen)).wrap());
            ui.end_row();
        }
    });
}

/// Draws the command line of the run's program, and its environment variables.
fn program_ui(ui: &mut Ui, page: &RunPage) {
    let Some(program) = &page.program else { return };
    section(ui, "Program");
    let set = program.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut pairs = vec![
        ("Command".to_owned(), shown_words(&program.command_line)),
        ("Executed".to_owned(), program.executable.display().to_string()),
        ("Folder".to_owned(), program.folder.display().to_string()),
    ];
    pairs.extend(set);
    pairs_ui(ui, "run-program", &pairs);
}

/// Words of a command line, quoted for a shell.
fn shown_words(words: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+./,:@%".contains(c);
    let quoted = |word: &String| {
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn levels_ui(ui: &mut Ui, row: &Row, page: &RunPage) {
    let record = &page.record;
    section(ui, "Levels");
    let mut pairs: Vec<(String, String)> = record
        .levels
        .iter()
        .map(|(key, level)| (Setting::of_factor(&record.workload, key).name.to_string(), level.to_string()))
        .collect();
    let mut add = |name: &str, value: String| pairs.push((name.to_owned(), value));
    add("Data", page.summary.data.clone());
    add("Seed", record.seed.to_string());
    add("Repeat", record.repeat.to_string());
    add("Plan", record.plan.clone());
    add("Cell", record.cell.clone());
    add("Id", row.run.clone());
    pairs_ui(ui, "run-levels", &pairs);
}

fn places_ui(ui: &mut Ui, page: &RunPage) {
    if page.record.ranks.is_empty() {
        return;
    }
    section(ui, "Placement");
    let links = page.record.placement.as_ref().map_or("", |placement| &placement.links);
    for (name, value) in [("GPUs", gpus_text(page)), ("Interconnects", links.to_owned())] {
        if !value.is_empty() {
            ui.horizontal_wrapped(|ui| {
                ui.label(muted(ui, name));
                ui.label(value);
            });
        }
    }
    for rank in &page.record.ranks {
        let mut parts = Vec::new();
        if let Some(device) = &rank.device {
            parts.push(device.name.clone());
            parts.extend(device.gpu_uuid.clone());
        }
        let libtorch = rank.torch_version.as_ref().filter(|version| !version.is_empty());
        parts.extend(libtorch.map(|version| format!("libtorch {version}")));
        let parameters = rank.last_reading("parameters");
        parts.extend(parameters.map(|count| counted(grouped(&count.to_string()), "parameter")));
        parts.extend(place_of(page, rank.rank).map(place_text).filter(|text| !text.is_empty()));
        let peaks = rank.readings_of("peak_allocated_bytes").map(|reading| reading.value);
        parts.extend(peaks.max_by(f64::total_cmp).map(|bytes| format!("peak {}", bytes_text(bytes))));
        ui.horizontal_wrapped(|ui| {
            ui.label(muted(ui, format!("Rank {}", rank.rank)));
            ui.add(Label::new(parts.join(" · ")).selectable(true));
        });
    }
}

/// The run's GPUs by their indexes, with their NUMA nodes if known: `0 (NUMA node 0), 3 (NUMA node 1)`, and how they were chosen. Empty
/// without GPUs of this session's node.
fn gpus_text(page: &RunPage) -> String {
    let placed = page.record.placement.iter().flat_map(|placement| &placement.ranks).flat_map(RankPlace::gpu_uuids);
    let known = |uuid: &str| page.node.as_ref()?.gpus.iter().find(|gpu| gpu.uuid == uuid);
    let gpus: Vec<String> = placed
        .filter_map(known)
        .map(|gpu| match gpu.numa_node {
            Some(node) => format!("{} (NUMA node {node})", gpu.index),
            None => gpu.index.to_string(),
        })
        .collect();
    let asked = page.record.levels.get(GpuChoice::KEY).map(|level| format!(" · {} = {level}", GpuChoice::KEY));
    if gpus.is_empty() { String::new() } else { gpus.join(", ") + &asked.unwrap_or_default() }
}

/// The placement of a rank.
fn place_of(page: &RunPage, rank: u32) -> Option<&RankPlace> {
    page.record.placement.as_ref()?.ranks.iter().find(|place| place.rank == rank)
}

/// Number of GPUs if several, and the CPUs and NUMA nodes it was bound to.
fn place_text(place: &RankPlace) -> String {
    let mut parts = Vec::new();
    if !place.more_gpu_uuids.is_empty() {
        parts.push(format!("{} GPUs", place.gpu_uuids().count()));
    }
    if !place.cpus.is_empty() {
        parts.push(format!("CPUs {}", ranges_text(&place.cpus)));
    }
    parts.extend(place.memory.as_ref().map(|memory| match memory {
        MemoryPolicy::Bind { nodes } => format!("memory of NUMA node {}", ranges_text(nodes)),
        MemoryPolicy::Interleave { nodes } => format!("memory interleaved over NUMA nodes {}", ranges_text(nodes)),
    }));
    parts.join(" · ")
}

fn times_ui(ui: &mut Ui, page: &RunPage) {
    let record = &page.record;
    section(ui, "Times");
    let at = |time_s: f64| {
        let time = jiff::Timestamp::from_millisecond((time_s * 1e3) as i64).ok()?;
        Some(time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string())
    };
    let mut pairs = vec![("Queued".to_owned(), at(record.queued_time_s).unwrap_or_default())];
    for (name, time_s) in [("Started", record.started_time_s), ("Ended", record.ended_time_s)] {
        pairs.push((name.to_owned(), time_s.and_then(at).unwrap_or("–".to_owned())));
    }
    let times_s = record.started_time_s.zip(record.ended_time_s);
    if let Some((started_s, ended_s)) = times_s.filter(|_| !record.is_imported()) {
        pairs.push(("Took".to_owned(), elapsed_text(ended_s - started_s)));
    }
    let samples = record.telemetry.samples;
    pairs.push(("Telemetry".to_owned(), counted(grouped(&samples.to_string()), "sample")));
    pairs_ui(ui, "run-times", &pairs);
}

fn environment_ui(ui: &mut Ui, page: &RunPage) {
    section(ui, "Environment");
    match &page.record.environment {
        Some(environment) => {
            let facts = environment.facts().map(|(_, name, value)| (name.to_owned(), value.to_owned()));
            pairs_ui(ui, "run-environment", &facts.collect::<Vec<_>>());
        }
        None => drop(ui.weak("Not recorded: the run has not started, or an earlier version of multicard ran it.")),
    }
}

/// The machine that the session was created on.
fn node_ui(ui: &mut Ui, node: &Node) {
    section(ui, "Node");
    let mut pairs = vec![
        ("Name".to_owned(), shown_host(node).to_owned()),
        ("System".to_owned(), node.system.clone()),
        ("Processor".to_owned(), format!("{}, {}", node.cpu_model, counted(node.cpus, "CPU"))),
        ("Memory".to_owned(), bytes_text(node.memory_bytes as f64)),
    ];
    for gpu in &node.gpus {
        pairs.push((format!("GPU {}", gpu.index), format!("{}, {}", gpu.name, gpu.uuid)));
    }
    pairs.extend(node.driver.clone().map(|driver| ("Driver".to_owned(), driver)));
    if let Ok(worker) = &node.worker {
        let cuda = if worker.cuda == CudaState::Available { "with CUDA" } else { "without CUDA" };
        let text = format!("{}, libtorch {}, {cuda}", worker.version, worker.torch_version);
        pairs.push(("Worker".to_owned(), text));
        pairs.push(("Worker's path".to_owned(), worker.path.display().to_string()));
    }
    pairs_ui(ui, "run-node", &pairs);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_run_have_the_unit_that_fits_them() {
        let shown = |unit: &str, shown_unit: &str, factor: f64, value: f64| {
            let measure = Measure {
                unit: unit.to_owned(),
                shown_unit: shown_unit.to_owned(),
                shown_factor: factor,
                ..Measure::new("one")
            };
            let (number, unit) = shown_value(&measure, value);
            format!("{number} {unit}").trim_end().to_owned()
        };
        assert_eq!(shown("B", "GB", 1e-9, 602_000.0), "602 kB");
        assert_eq!(shown("s", "s", 1.0, 4.42e-6), "4.42 µs");
        assert_eq!(shown("s", "s", 1.0, 12.5), "12.5 s");
        assert_eq!(shown("", "%", 100.0, 0.5), "50.0 %");
        assert_eq!(shown("", "", 1.0, 3.0), "3");
    }
}
