//! Figures on paper against golden files, and their texts.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::{Level, Method, RunSummary, Source, Value, fixture, summarise_run};
use crate::figure::{
    Annotation, AnnotationKind, Axis, AxisName, Chart, Figure, Geometry, Look, Nth, Panel, Place, Point, Role, Series,
    Study, figure, preset as study,
};
use crate::plan::{CudaState, Node, Worker};

mod any_chart;
mod authored;
mod files;
mod on_screen;

/// fp32 and fp16 on 1, 2 and 4 GPUs, some of them with six repeats.
fn runs() -> Vec<RunSummary> {
    let mut runs = Vec::new();
    for (precision, gpus, step_time_s) in
        [("fp32", 1, 0.4), ("fp32", 2, 0.21), ("fp32", 4, 0.12), ("fp16", 1, 0.1), ("fp16", 2, 0.06), ("fp16", 4, 0.04)]
    {
        for repeat in 1..=6 {
            let spread = [0.0, 0.03, -0.02, 0.01, 0.06, -0.01][repeat as usize - 1];
            let cell = fixture::cell(precision, gpus, "ddp-ds");
            runs.push(summarise_run(&fixture::run(&cell, repeat, step_time_s * (1.0 + spread))));
        }
    }
    runs
}

fn figure_of(asked: &Study) -> Figure {
    figure(&[Source { session: "", runs: &runs(), reports: &[] }], asked).unwrap()
}

fn preset(id: &str) -> Figure {
    figure_of(&study(id).unwrap())
}

fn origin() -> Origin {
    let worker = Worker {
        path: "/opt/multicard-worker".into(),
        version: "0.1.0".to_owned(),
        protocol_version: 1,
        torch_version: "2.11.0".to_owned(),
        cuda: CudaState::Available,
        dali: Err("not installed".to_owned()),
        versions: Default::default(),
    };
    let node = Node {
        hostname: "secret".to_owned(),
        system: "Linux".to_owned(),
        cpu_model: "EPYC <9>".to_owned(),
        cpus: 16,
        memory_bytes: 1,
        numa_nodes: 1,
        driver: Some("550.90".to_owned()),
        no_gpu_reason: None,
        gpus: Vec::new(),
        nodes: 1,
        nsys: Err("it is not on PATH".to_owned()),
        tracer: Err("it was not built".to_owned()),
        worker: Ok(worker),
    };
    let plan = ("p1".to_owned(), "made up".to_owned(), "version = 1\nname = \"a & <b> \\\" ü\"\n".to_owned());
    Origin::new("study".to_owned(), &node, vec![plan], Some(1_795_248_519.1))
}

/// Compares with `tests/golden/figures/NAME`; set `UPDATE_GOLDEN` to write the file again.
fn compare(name: &str, bytes: &[u8]) {
    let path = format!("{}/tests/golden/figures/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    assert!(bytes == std::fs::read(&path).unwrap(), "{name} differs");
}

/// The file without the parts that change with each version of the program.
pub(super) fn svg(figure: &Figure) -> Vec<u8> {
    let provenance = Provenance { program: "multicard".to_owned(), ..figure.provenance(Vec::new()) };
    let text = String::from_utf8(encode(&figure.scene(), &provenance, PaperFormat::Svg).unwrap()).unwrap();
    let (start, end) = (text.find("<metadata").unwrap(), text.find("</metadata>").unwrap());
    format!("{}{}", &text[..start], &text[end + "</metadata>\n".len()..]).into_bytes()
}

fn text_of(item: &Item) -> Option<&Text> {
    match item {
        Item::Text(text) => Some(text),
        Item::Path { .. } => None,
    }
}

#[test]
fn figures_are_written_with_their_fonts_as_the_golden_files_show() {
    for id in ["times", "loss", "effects"] {
        compare(&format!("{id}.svg"), &svg(&preset(id)));
    }
    let style = Style { width: Width::Page, font: Family::Serif, palette: Palette::Grey, size_pt: 9.0 };
    let times = Study { log: true, style, ..study("times").unwrap() };
    compare("times-page-serif-grey-log.svg", &svg(&figure_of(&times)));
}

#[test]
fn a_study_that_names_what_is_gone_says_so_and_shows_everything_else() {
    let asked = Study {
        filter: "fp and tf33=on".to_owned(),
        hidden: vec![("gpus".into(), Level::Integer(9))],
        rows: Place::Setting("numa".into()),
        measure: Some("speed".into()),
        measures: vec!["epoch_time_s".into(), "warp".into()],
        metrics: vec!["nccl".into()],
        baseline: Some("gpus=9".to_owned()),
        ..Study::default()
    };
    let figure = figure_of(&Study { filter: "fp".to_owned(), ..asked.clone() });
    assert_eq!((figure.cells.len(), figure.charts[0].is_empty()), (6, false));
    let expected = [
        "rows = numa: no cell has this factor",
        "hidden gpus = 9: no cell has it",
        "measure speed is not known: training_time_s is shown",
        "measure warp is not known: its column is left out",
        "metric nccl is not known: it is left out",
    ];
    assert_eq!(figure.missing, expected);
    assert!(expected.iter().all(|line| figure.notes().iter().any(|note| note == line)));
    assert!(figure_of(&asked).missing[1].starts_with("filter: no cell has tf33; there are batch_size, "));
    let ratio = Study { filter: String::new(), measures: Vec::new(), ..asked };
    assert!(figure_of(&ratio).table.notes.iter().any(|note| note.contains("baseline \"gpus=9\" is not among")));
}

#[test]
fn names_that_nothing_has_are_answered_with_those_that_exist() {
    assert!(study("tims").unwrap_err().to_string().contains("did you mean \"times\""));
    let form = serde_json::from_str::<Study>(r#"{"form": "pie"}"#).unwrap_err().to_string();
    assert!(form.contains("unknown variant `pie`, expected one of `bars`"), "{form}");
}

#[test]
fn a_type_size_outside_its_limits_is_named_and_not_drawn() {
    for size_pt in ["1e300", "-3", "0"] {
        let text = format!(
            r#"{{"multicard_figure":2,"program":"multicard","title":"t","study":{{"style":{{"size_pt":{size_pt}}}}},
            "sessions":[],"cells":[],"table":{{}},"notes":[]}}"#
        );
        let svg = format!("<svg><metadata id=\"multicard-figure\">{text}</metadata></svg>");
        let read = read_provenance(svg.as_bytes()).unwrap();
        assert_eq!(read.study.style.size_pt, 8.0);
        let [problem] = &read.problems[..] else { panic!("{:?}", read.problems) };
        let expected = format!("study.style.size_pt: {size_pt} is not from 4 to 20 points: 8 is used");
        assert_eq!(*problem, expected);
    }
}

#[test]
fn a_legend_has_the_order_of_the_bars_in_every_panel() {
    let panel = |names: &[&str]| {
        let value = Value { median: 1.0, interval: None, n: 1, method: Method::One };
        let point = Point { x: 0.0, across: None, value, ratio: None, cell: None };
        let series = names
            .iter()
            .map(|name| Series { points: vec![point.clone()], ..Series::measured((*name).to_owned(), Look::Place(0)) });
        Panel { title: String::new(), series: series.collect() }
    };
    let panels = vec![panel(&["fp64"]), panel(&["fp32", "fp64", "fp16"]), panel(&["bf16", "fp16", "fp8"])];
    let chart = Chart { panels, ..Chart::new("", Geometry::Bars, Axis::new("", ""), Axis::new("value", "")) };
    let names: Vec<&str> = chart.legend().into_iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["fp32", "fp64", "bf16", "fp16", "fp8"]);
}

#[test]
fn a_legend_of_very_many_names_ends_and_the_figure_says_how_to_show_fewer() {
    let drawn = |count: usize| {
        let mut figure = preset("times");
        figure.charts.truncate(1);
        let chart = &mut figure.charts[0];
        let like = chart.series().next().unwrap().clone();
        let series =
            (0..count).map(|nth| Series { name: format!("day {nth}"), look: Look::Place(nth), ..like.clone() });
        chart.panels = vec![Panel { title: String::new(), series: series.collect() }];
        let scene = figure.scene();
        let entries = scene.parts.iter().filter(|placed| matches!(placed.part, Part::Entry(_))).count();
        let more: Vec<String> =
            scene.texts().map(|text| text.text.clone()).filter(|text| text.ends_with(" more")).collect();
        (entries, more, figure.warnings(&scene).into_iter().filter(|line| line.contains("filter")).collect::<Vec<_>>())
    };
    assert_eq!(drawn(24), (24, vec![], vec![]));
    let (entries, more, warnings) = drawn(45);
    assert_eq!((entries, more.as_slice()), (24, ["and 21 more".to_owned()].as_slice()));
    assert!(warnings.len() == 1 && warnings[0].starts_with("the legend leaves out 21 names:"), "{warnings:?}");
}

#[test]
fn names_that_would_be_cut_alike_show_in_what_they_differ() {
    let mut figure = preset("times");
    let long = "a precision of somebody's own with a name that no axis has room for";
    let names = &mut figure.charts[0].x.categories;
    *names = (0..names.len()).map(|index| format!("{long} · workers {index}")).collect();
    let scene = lay_out_on(&figure.charts[..1], &Page::screen(300.0, 300.0, 9.0));
    let shown: Vec<&str> = scene
        .texts()
        .map(|text| text.text.as_str())
        .filter(|text| text.contains("work") || text.contains("a prec"))
        .collect();
    let mut once = shown.clone();
    once.sort_unstable();
    once.dedup();
    assert!(shown.len() > 1 && once.len() == shown.len(), "{shown:?}");
}
