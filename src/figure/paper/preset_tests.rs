//! Every preset, drawn of a session that is made for it, as `tests/golden/presets` shows. After a change that is meant to be seen:
//! `UPDATE_GOLDEN=1 cargo test --lib preset_tests`, then look at the pictures in `target/presets`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use super::tests::svg;
use super::{PaperFormat, encode};
use crate::analysis::{RunSummary, Source, fixture};
use crate::figure::{Figure, Form, Runs, Study, figure, presets};
use crate::papers::artefact;
use crate::plan::{Capture, Mode, Plan, Tracer, Tracing};

/// The plan of the runs that a preset shows: the artefact's own plan, or another one whose runs have what the preset draws.
fn plan_of(study: &Study) -> Plan {
    let own = study.paper.as_ref().and_then(|id| artefact(id).unwrap().plan());
    let other = match study.paper.as_deref().unwrap_or(&study.name) {
        "2503.15252/table-1" | "2505.22905/table-1" => "2505.22905/precision-metrics",
        "2505.22905/fig-1" => "2503.15252/fig-1",
        "2503.15252/table-4" | "2505.22905/table-4" => "2505.22905/fig-10",
        name if name.starts_with("metrics") => "2505.22905/precision-metrics",
        _ => match own {
            Some(own) => return own.clone(),
            None => "2503.15252/table-2",
        },
    };
    let plan = artefact(other).unwrap().plan().unwrap().clone();
    // Quick runs report no losses.
    Plan { mode: Mode::Full, ..plan }
}

/// The sessions of a preset's runs. A history has one session a day; two of its cells become slower, one later than the
/// other. Other forms have one session.
fn sessions_of(study: &Study, plan: &Plan) -> Vec<(String, Vec<RunSummary>)> {
    let mut runs = fixture::runs_of(plan);
    if study.form != Form::History {
        return vec![(String::new(), runs)];
    }
    let cells: Vec<String> = runs.iter().map(|run| run.cell.clone()).take(4).collect();
    runs.retain(|run| cells.contains(&run.cell));
    let mut noise = fixture::Noise::new(8);
    let of_day = |day: u32| {
        let mut runs = runs.clone();
        for (place, run) in runs.iter_mut().enumerate() {
            let slower = if place < 3 { day >= 9 } else { day >= 12 };
            let factor = (1.0 + 0.02 * noise.normal()) * if slower { 1.3 } else { 1.0 };
            run.values.entry("training_time_s".into()).and_modify(|time_s| *time_s *= factor);
            run.started_s = Some(1_767_261_600.0 + 86_400.0 * f64::from(day));
        }
        (format!("night-{day}"), runs)
    };
    (0..16).map(of_day).collect()
}

fn golden(study: &Study) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/presets");
    folder.join(format!("{}.svg", study.name.replace('/', "-")))
}

/// The SVG without its fonts, which the golden files of figures contain.
fn without_fonts(svg: &[u8]) -> String {
    let text = String::from_utf8(svg.to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("@font-face")).collect();
    lines.join("\n") + "\n"
}

/// Writes a picture to look at, if the golden file was written again.
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
        let mut plan = plan_of(study);
        if study.runs == Runs::All && study.paper.is_none() {
            plan.tracing = Tracing::by(&[Tracer::Off, Tracer::BuiltIn, Tracer::Nsys], Capture::Whole);
        }
        let sessions = sessions_of(study, &plan);
        let sources: Vec<Source> =
            sessions.iter().map(|(session, runs)| Source { session, runs, reports: &[] }).collect();
        let drawn = figure(&sources, study).unwrap();
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
