//! Every preset, drawn of a session that is made for it, as `tests/golden/presets` shows. After a change that is meant to be seen:
//! `UPDATE_GOLDEN=1 cargo test --lib preset_tests`, then look at the pictures in `target/presets`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use super::tests::svg;
use super::{PaperFormat, encode};
use crate::analysis::{RunSummary, Source, fixture, summarise_run};
use crate::figure::{Figure, Study, figure, presets};
use crate::papers::artefact;
use crate::plan::{AskedCell, Level, Mode, Plan, asked_cells};
use crate::protocol::{CopiedBytes, TRACE_METRICS, TraceMetric, TraceMetricKind, TraceOutcome, TraceSummary};
use crate::store::{RunRecord, StepRecord};

/// How far three repeats are off.
const NOISE: [f64; 3] = [0.0, 0.012, -0.007];

/// The plan whose runs a preset shows: the artefact's own, or one whose runs have what it draws.
fn plan_of(study: &Study) -> Plan {
    let own = study.paper.as_ref().and_then(|id| artefact(id).unwrap().plan());
    let other = match study.paper.as_deref().unwrap_or(&study.name) {
        "2503.15252/table-1" | "2505.22905/table-1" => "2505.22905/precision-metrics",
        "2505.22905/fig-1" => "2503.15252/fig-1",
        "2505.22905/fig-7" | "2505.22905/fig-8" => "2505.22905/fig-6",
        "2503.15252/table-4" | "2505.22905/table-4" => "2505.22905/fig-10",
        name if name.starts_with("metrics") => "2505.22905/precision-metrics",
        _ => match own {
            Some(own) => return own.clone(),
            None => "2503.15252/table-2",
        },
    };
    let plan = artefact(other).unwrap().plan().unwrap().clone();
    // Quick runs tell no losses.
    Plan { mode: Mode::Full, ..plan }
}

/// A step's time: levels that make it longer or shorter, each by a factor.
fn step_time_s(cell: &AskedCell) -> f64 {
    let gpus = cell.levels.get("gpus").and_then(Level::as_number).unwrap();
    let factor = |key: &str, level: &Level| match (key, level.as_text().unwrap_or_default()) {
        ("precision", "fp64") => 1.6,
        ("precision", "fp16") => 0.7,
        ("pin_memory", "on") => 0.82,
        ("strategy", "ddp" | "ddp-rr") => gpus,
        ("loader", "dali") => 0.74,
        ("layout", "nhwc") => 0.9,
        ("technique", "qlora") => 1.7,
        ("technique", "dpo") => 1.35,
        ("technique", "qat") => 2.2,
        ("data_set", "grammar") => 0.6,
        ("data_set", "samsum") => 0.8,
        ("data_set", "slimorca") => 1.3,
        ("image_size", _) => (level.as_number().unwrap() / 500.0).powi(2),
        _ => 1.0,
    };
    let of_levels: f64 = cell.levels.iter().map(|(key, level)| factor(key, level)).product();
    0.2 * of_levels * (1.0 + 0.06 * (gpus - 1.0))
}

/// What a profiler saw of a run whose steps took so long.
fn trace(gpus: u32, step_time_s: f64) -> TraceSummary {
    let wall_s = 100.0 * step_time_s;
    let metric = |(place, kind): (usize, &TraceMetricKind)| {
        let place = place as f64;
        let seconds = wall_s * (0.02 + 0.03 * place) * (1.0 + 0.1 * f64::from(gpus));
        TraceMetric {
            key: kind.key.to_owned(),
            calls: 100,
            seconds,
            percent_of_report: 5.0 + 4.0 * place,
            percent_of_shown: 0.0,
            percent_of_wall: 100.0 * seconds / f64::from(gpus) / wall_s,
        }
    };
    let bytes = (1e10 * step_time_s) as u64;
    let copied = CopiedBytes { host_to_device: bytes / 100, device_to_device: 4 * bytes, device_to_host: bytes / 1000 };
    TraceSummary {
        metrics: TRACE_METRICS.iter().enumerate().map(metric).collect(),
        wall_s,
        gpus,
        copied: Some(copied),
        ..fixture::trace(0.0, 0.0)
    }
}

fn run_of(cell: &AskedCell, plan: &Plan, repeat: u32) -> RunRecord {
    let step_time_s = step_time_s(cell) * (1.0 + NOISE[repeat as usize - 1]);
    let number = |key: &str| cell.levels.get(key).and_then(Level::as_number);
    let (gpus, batch) = (number("gpus").unwrap(), number("batch_size").unwrap());
    let units = number("train_images").or(number("rows")).filter(|units| *units > 0.0).unwrap_or(51_760.0);
    let planned = number("epochs").unwrap() * (units / gpus / batch).floor();
    let mut record = fixture::run_of(cell, plan, repeat, step_time_s);
    // 500 W a GPU.
    let steady_time_s = 196.0 * step_time_s;
    record.telemetry.steady_time_s = Some(steady_time_s);
    record.telemetry.steady_energy_j = Some(500.0 * gpus * steady_time_s);
    for rank in &mut record.ranks {
        // Enough of them to tell how steady they are.
        let last = rank.steps[19];
        rank.steps.extend((21..=200_u64).map(|step| StepRecord {
            step,
            time_s: last.time_s + (step - 20) as f64 * last.duration_s,
            duration_s: last.duration_s * (1.0 + 0.01 * [0.0, 1.0, -0.5, 2.0, -1.0][step as usize % 5]),
            ..last
        }));
        // A clock that is behind the durations would have been set meanwhile.
        let mut time_s = 1_002.0;
        for step in &mut rank.steps {
            time_s += step.duration_s;
            step.time_s = time_s;
        }
        rank.readings.push(fixture::reading_record("planned_steps", planned, None));
        rank.duration_s = Some(time_s - 1_001.0);
        record.ended_time_s = Some(record.ended_time_s.unwrap_or(0.0).max(time_s + 1.0));
    }
    if plan.tracing.capture().is_some() {
        record.traced = true;
        record.trace = Some(TraceOutcome::Imported(Box::new(trace(gpus as u32, step_time_s))));
    }
    record
}

fn runs_of(plan: &Plan) -> Vec<RunSummary> {
    let repeats = |cell: &AskedCell| [1, 2, 3].map(|repeat| summarise_run(&run_of(cell, plan, repeat)));
    asked_cells(plan).iter().flat_map(repeats).collect()
}

fn golden(study: &Study) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/presets");
    folder.join(format!("{}.svg", study.name.replace('/', "-")))
}

/// Without its fonts, which goldens of figures hold.
fn without_fonts(svg: &[u8]) -> String {
    let text = String::from_utf8(svg.to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("@font-face")).collect();
    lines.join("\n") + "\n"
}

/// A picture to look at, where the golden file was made anew.
fn picture(study: &Study, drawn: &Figure) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/presets");
    fs::create_dir_all(&folder).unwrap();
    let png = encode(&drawn.scene(), &drawn.provenance(Vec::new()), PaperFormat::Png { dpi: 200 }).unwrap();
    fs::write(folder.join(format!("{}.png", study.name.replace('/', "-"))), png).unwrap();
}

#[test]
fn every_preset_of_a_session_of_its_own_cells_is_drawn_as_its_golden_file_shows() {
    let mut differ = Vec::new();
    for study in presets() {
        let runs = runs_of(&plan_of(study));
        let drawn = figure(&[Source { session: "", runs: &runs, reports: &[] }], study).unwrap();
        if drawn.charts.iter().all(|chart| chart.is_empty()) {
            differ.push(format!("{} (nothing is drawn)", study.name));
        }
        let text = without_fonts(&svg(&drawn));
        let file = golden(study);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, &text).unwrap();
            picture(study, &drawn);
        }
        if fs::read_to_string(&file).unwrap_or_default() != text {
            differ.push(study.name.clone());
        }
        let own = drawn.of_paper.as_ref().filter(|own| own.asked > 0 && (own.deviates || !own.missing.is_empty()));
        differ.extend(own.map(|own| format!("{} (not its own cells: {:?})", study.name, own.notes)));
    }
    assert!(differ.is_empty(), "these differ from tests/golden/presets: {differ:?}; UPDATE_GOLDEN=1 writes them anew");
    let kept = fs::read_dir(golden(&presets()[0]).parent().unwrap()).unwrap().count();
    assert_eq!(kept, presets().len(), "tests/golden/presets holds files of presets that are gone");
}
