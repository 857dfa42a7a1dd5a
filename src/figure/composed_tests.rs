//! Composed figures of made-up runs: aligned data, shared legends and axes, files that open again, and their golden pictures.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use proptest::prelude::*;

use super::ComposedFigure;
use crate::analysis::{RunSummary, Source, fixture, summarise_run};
use crate::figure::paper::{
    Area, Family, Palette, PaperFormat, Provenance, ReadError, Scene, Style, Width, encode, read_provenance,
};
use crate::figure::{
    Chart, ComposedPanel, Composition, CompositionFile, Form, LegendPlace, LevelOverride, Overrides, Place, Share,
    Study, figure, preset,
};

/// fp32 and fp16 on 1, 2 and 4 GPUs, three repeats each. The times of the second session are longer.
fn runs(slower: f64) -> Vec<RunSummary> {
    let mut runs = Vec::new();
    for (precision, gpus, step_time_s) in
        [("fp32", 1, 0.4), ("fp32", 2, 0.21), ("fp32", 4, 0.12), ("fp16", 1, 0.1), ("fp16", 2, 0.06), ("fp16", 4, 0.04)]
    {
        for repeat in 1..=3 {
            let spread = [0.0, 0.03, -0.02][repeat as usize - 1];
            let cell = fixture::cell(precision, gpus, "ddp-ds");
            runs.push(summarise_run(&fixture::run(&cell, repeat, slower * step_time_s * (1.0 + spread))));
        }
    }
    runs
}

fn panel(study: Study) -> ComposedPanel {
    ComposedPanel { sessions: vec!["made up".to_owned()], study, ..ComposedPanel::default() }
}

fn bars(measure: &str) -> Study {
    let (rows, colour) = (Place::Setting("gpus".into()), Place::Setting("precision".into()));
    Study { measure: Some(measure.into()), rows, colour, ..preset("times").unwrap() }
}

fn loss() -> Study {
    Study { measure: Some("train_loss".into()), filter: "gpus=1".to_owned(), ..preset("loss").unwrap() }
}

/// A composition of panels of one session; panels with the title `elsewhere` belong to another session.
fn composed(composition: Composition) -> ComposedFigure {
    let sessions = [runs(1.0), runs(1.7)];
    let figures = composition.panels.iter().map(|panel| {
        let runs = &sessions[usize::from(panel.title.as_deref() == Some("elsewhere"))];
        figure(&[Source { session: "", runs, reports: &[] }], &panel.study).map_err(|error| error.to_string())
    });
    ComposedFigure { panels: figures.collect(), composition }
}

/// The area of the data of each panel.
fn data_of(figure: &ComposedFigure) -> Vec<Area> {
    let scene = figure.scene();
    let mut areas = scene.data.iter();
    let panels = figure.panels.iter().map(|panel| {
        let count: usize = panel.as_ref().unwrap().charts.iter().filter(|chart| !chart.is_empty()).map(drawn).sum();
        areas.by_ref().take(count).copied().reduce(|all, own| {
            let (left, top) = (all.left.min(own.left), all.top.min(own.top));
            Area::between((left, top), (all.right().max(own.right()), all.bottom().max(own.bottom())))
        })
    });
    panels.map(Option::unwrap).collect()
}

fn drawn(chart: &Chart) -> usize {
    chart.panels.iter().filter(|panel| panel.series.iter().any(|series| !series.points.is_empty())).count()
}

fn texts(scene: &Scene) -> Vec<&str> {
    scene.texts().map(|text| text.text.as_str()).collect()
}

fn is_aligned(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.1
}

/// Studies of all geometries that can be drawn on paper.
fn studies() -> Vec<Study> {
    let forms =
        [Form::Bars, Form::Loss, Form::Scaling, Form::Memory, Form::Effects, Form::Repeats, Form::Map, Form::Parts];
    let forms = forms.into_iter().map(|form| Study { form, ..Study::default() });
    let own = [bars("training_time_s"), bars("throughput"), loss(), Study { log: true, ..bars("step_time_s") }];
    let named = ["scaling", "tornado", "interactions", "pareto", "energy"].map(|name| preset(name).unwrap());
    forms.chain(own).chain(named).collect()
}

fn any_composition() -> impl Strategy<Value = Composition> {
    let studies = studies();
    let panels = prop::collection::vec((0..studies.len(), 1..3_usize), 1..7);
    let style = (60_u32..200, prop::bool::ANY, 6_u32..11);
    (panels, 1..4_usize, style, prop::bool::ANY, prop::bool::ANY).prop_map(
        move |(panels, columns, (mm, is_grey, size), legend, y)| {
            let panels =
                panels.into_iter().map(|(study, span)| ComposedPanel { span, ..panel(studies[study].clone()) });
            let palette = if is_grey { Palette::Grey } else { Palette::Colour };
            let (width, size_pt) = (Width::of_mm(f64::from(mm)).unwrap(), f64::from(size));
            let style = Style { width, palette, size_pt, font: Family::Sans };
            let share = [(legend, Share::Legend), (y, Share::Y)].into_iter().filter_map(|(on, one)| on.then_some(one));
            Composition { columns, share: share.collect(), style, panels: panels.collect(), ..Composition::default() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn data_of_a_row_has_one_top_and_baseline_and_data_of_a_column_one_left_and_right(asked in any_composition()) {
        let figure = composed(asked);
        let blank: Vec<usize> = figure.blank().into_iter().map(|(nth, _)| nth).collect();
        prop_assume!(blank.is_empty());
        let areas = data_of(&figure);
        let columns = columns_drawn(&figure);
        let (mut row, mut next) = (0, 0);
        let mut seats = Vec::new();
        for panel in &figure.composition.panels {
            let span = panel.span.min(columns);
            if next + span > columns {
                (row, next) = (row + 1, 0);
            }
            seats.push((row, next, next + span - 1));
            next += span;
        }
        for (a, one) in seats.iter().zip(&areas) {
            for (b, other) in seats.iter().zip(&areas) {
                if a.0 == b.0 {
                    prop_assert!(is_aligned(one.top, other.top) && is_aligned(one.bottom(), other.bottom()), "{one:?} {other:?}");
                }
                if a.1 == b.1 {
                    prop_assert!(is_aligned(one.left, other.left), "{one:?} {other:?}");
                }
                if a.2 == b.2 {
                    prop_assert!(is_aligned(one.right(), other.right()), "{one:?} {other:?}");
                }
            }
        }
        let scene = figure.scene();
        let page = Area { left: 0.0, top: 0.0, width: scene.width, height: scene.height };
        for area in &scene.data {
            prop_assert!(page.holds(area), "{area:?} is not on {page:?}");
        }
        for text in scene.texts().filter(|text| !text.in_data) {
            prop_assert!(!scene.data.iter().any(|area| area.overlaps(&text.area())), "{} lies on data", text.text);
        }
    }
}

/// The number of columns if the requested ones would be too narrow.
fn columns_drawn(figure: &ComposedFigure) -> usize {
    let asked = figure.composition.columns.min(figure.panels.len());
    let notes = figure.notes();
    let fewer = notes.iter().find_map(|note| {
        note.strip_prefix(&format!("{asked} columns would be too narrow for their axes: the figure has "))
    });
    fewer.map_or(asked, |left| left.parse().unwrap())
}

fn two_bars_and_loss(width: Width) -> Composition {
    let title = |text: &str, study: Study| ComposedPanel { title: Some(text.to_owned()), ..panel(study) };
    let panels = vec![
        title("Time", bars("training_time_s")),
        title("Throughput", bars("throughput")),
        ComposedPanel { span: 2, ..title("Loss on one GPU", loss()) },
    ];
    let style = Style { width, ..Style::default() };
    Composition { share: vec![Share::Legend], style, panels, ..Composition::default() }
}

fn two_by_two(width: Width) -> Composition {
    let titled = |text: &str, precision: &str| {
        let study = Study { filter: format!("precision={precision}"), ..bars("step_time_s") };
        ComposedPanel { title: Some(text.to_owned()), ..panel(study) }
    };
    let whole = |title: &str| ComposedPanel { title: Some(title.to_owned()), ..panel(bars("step_time_s")) };
    let panels = vec![whole("here"), whole("elsewhere"), titled("fp32 alone", "fp32"), titled("fp16 alone", "fp16")];
    let style = Style { width, ..Style::default() };
    Composition { share: vec![Share::Legend, Share::Y], style, panels, ..Composition::default() }
}

#[test]
fn composed_figures_are_drawn_as_the_golden_files_show() {
    let mm = |mm: f64| Width::of_mm(mm).unwrap();
    let figures = [
        ("composed-85", two_bars_and_loss(mm(85.0))),
        ("composed-180", two_bars_and_loss(mm(180.0))),
        ("composed-shared-85", two_by_two(mm(85.0))),
        ("composed-shared-180", two_by_two(mm(180.0))),
    ];
    let mut differ = Vec::new();
    for (name, asked) in figures {
        let figure = composed(asked);
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/figures/{name}.svg"));
        let own = Provenance::default();
        let bytes = encode(&figure.scene(), &own, PaperFormat::Svg).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let kept = text.lines().filter(|line| !line.starts_with("@font-face") && !line.starts_with("<title>"));
        let text = kept.filter(|line| !line.starts_with("<metadata")).collect::<Vec<_>>().join("\n") + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &text).unwrap();
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/presets");
            std::fs::create_dir_all(&folder).unwrap();
            let png = encode(&figure.scene(), &own, PaperFormat::Png { dpi: 200 }).unwrap();
            std::fs::write(folder.join(format!("{name}.png")), png).unwrap();
        }
        if std::fs::read_to_string(&golden).unwrap_or_default() != text {
            differ.push(name);
        }
    }
    assert!(differ.is_empty(), "these differ from tests/golden/figures: {differ:?}; UPDATE_GOLDEN=1 writes them anew");
}

#[test]
fn a_shared_legend_stands_once_and_shows_areas_and_lines() {
    let shared = composed(two_bars_and_loss(Width::Page));
    let own = composed(Composition { share: Vec::new(), ..two_bars_and_loss(Width::Page) });
    let count = |figure: &ComposedFigure| texts(&figure.scene()).iter().filter(|text| **text == "fp16").count();
    assert_eq!((count(&shared), count(&own)), (1, 3));
    assert!(shared.notes().iter().all(|note| !note.contains("legend")), "{:?}", shared.notes());
}

#[test]
fn a_panel_that_gives_a_level_another_colour_keeps_its_own_legend_and_says_so() {
    let mut asked = two_bars_and_loss(Width::Page);
    let level = |colour: &str| LevelOverride {
        level: "fp16".to_owned(),
        colour: Some(colour.to_owned()),
        ..LevelOverride::default()
    };
    asked.panels[1].study.overrides.levels = vec![level("#102030")];
    let figure = composed(asked);
    assert_eq!(texts(&figure.scene()).iter().filter(|text| **text == "fp16").count(), 2);
    assert!(figure.notes().iter().any(|note| note.starts_with("(b) keeps its own legend")), "{:?}", figure.notes());
}

#[test]
fn a_panel_whose_bars_are_named_below_in_looks_of_the_shared_legend_is_said_to_be_so() {
    let mut asked = two_bars_and_loss(Width::Page);
    let colour = Place::Setting("gpus".into());
    asked.panels.push(panel(Study { filter: "precision=fp32".to_owned(), colour, ..bars("step_time_s") }));
    let notes = composed(asked).notes();
    assert!(notes.iter().any(|note| note.starts_with("(d) uses looks of the shared legend")), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("keeps its own legend")), "{notes:?}");
}

#[test]
fn a_legend_that_only_one_panel_has_stays_with_it() {
    let mut asked = two_bars_and_loss(Width::Page);
    asked.panels.truncate(1);
    let mut other = bars("throughput");
    (other.rows, other.colour) = (other.colour, other.rows);
    asked.panels.push(panel(other));
    let figure = composed(asked);
    let notes = figure.notes();
    for panel in ["(a)", "(b)"] {
        assert!(
            notes.contains(&format!("{panel} keeps its own legend: no other panel has any of its entries")),
            "{notes:?}"
        );
    }
    assert_eq!(
        texts(&figure.scene()).iter().filter(|text| **text == "2 GPUs").count(),
        2,
        "below (a), and in the legend of (b)"
    );
}

#[test]
fn shared_axes_of_values_have_one_scale_and_are_named_once_in_a_row() {
    let figure = composed(two_by_two(Width::Page));
    let scene = figure.scene();
    let titles = texts(&scene).iter().filter(|text| text.starts_with("Step time")).count();
    assert_eq!(titles, 2, "the left panel of each row names it");
    // Bars of 0.4 s have the same height in (a) and in (c), so both have the same scale.
    let highest = |chart: usize| {
        let marks = scene.marks.iter().filter(|mark| mark.place[0] == chart);
        marks.map(|mark| mark.area.height).fold(0.0, f64::max)
    };
    let charts: Vec<usize> = figure.panels.iter().map(|panel| panel.as_ref().unwrap().charts.len()).collect();
    assert_eq!(charts, [1, 1, 1, 1]);
    assert!(is_aligned(highest(0), highest(2)), "{} {}", highest(0), highest(2));
    assert!(highest(1) > 1.5 * highest(0));
    let alone = composed(Composition { share: Vec::new(), ..two_by_two(Width::Page) });
    assert_eq!(texts(&alone.scene()).iter().filter(|text| text.starts_with("Step time")).count(), 4);
}

#[test]
fn an_axis_that_no_other_panel_shows_is_its_own_and_is_named() {
    let asked = Composition { share: vec![Share::Y], ..two_bars_and_loss(Width::Page) };
    let notes = composed(asked).notes();
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("(b) does not share its axis of values: no other panel shows Throughput")),
        "{notes:?}"
    );
}

#[test]
fn a_panel_that_cannot_be_made_says_why_in_its_place_and_the_others_stay_where_they_are() {
    let mut figure = composed(two_bars_and_loss(Width::Page));
    let whole = data_of(&figure);
    figure.panels[1] = Err("its session is gone".to_owned());
    assert_eq!(figure.blank(), [(1, "its session is gone".to_owned())]);
    let scene = figure.scene();
    assert!(texts(&scene).contains(&"its session is gone"));
    assert!(scene.data[0].top == whole[0].top && texts(&scene).contains(&"(c) "), "{:?}", texts(&scene));
}

#[test]
fn the_file_of_a_composed_figure_gives_back_its_composition_and_earlier_programs_refuse_it() {
    let mut asked = two_by_two(Width::Column);
    asked.panels[1].study.overrides = Overrides { legend: LegendPlace::Below, ..Overrides::default() };
    let figure = composed(asked);
    let provenance = figure.provenance(Vec::new());
    assert_eq!(provenance.multicard_figure, 3);
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 72 }] {
        let again = read_provenance(&encode(&figure.scene(), &provenance, format).unwrap()).unwrap();
        assert_eq!(again.composition.as_ref(), Some(&figure.composition), "{format:?}");
        assert_eq!((again.drawn.len(), again.problems.len()), (4, 0));
    }
    let newer = Provenance { multicard_figure: 4, ..provenance };
    let error = read_provenance(&encode(&figure.scene(), &newer, PaperFormat::Svg).unwrap()).unwrap_err();
    assert!(matches!(error, ReadError::Newer { found: 4, .. }), "{error}");
}

#[test]
fn what_a_composition_of_another_version_says_and_cannot_be_read_is_named() {
    let figure = composed(two_by_two(Width::Column));
    let mut json: serde_json::Value = serde_json::from_str(&figure.provenance(Vec::new()).json()).unwrap();
    json["composition"]["panels"][2]["study"]["colur"] = "gpus".into();
    json["composition"]["columns"] = "many".into();
    let svg = format!("<svg xmlns=\"x\"><metadata id=\"multicard-figure\">{json}</metadata></svg>");
    let read = read_provenance(svg.as_bytes()).unwrap();
    let problems = read.problems.join("\n");
    assert!(
        problems.contains("composition.panels[3].study.colur: unknown key; did you mean \"colour\"?"),
        "{problems}"
    );
    assert!(problems.contains("composition.columns: invalid type"), "{problems}");
    assert_eq!(read.composition.unwrap().panels.len(), 4);
}

fn file(text: &str) -> Result<CompositionFile, String> {
    CompositionFile::parse(text, "f.toml")
}

#[test]
fn a_file_asks_for_panels_with_studies_that_differ_from_named_ones() {
    let text = "version = 1\ntitle = \"Both\"\ncolumns = 3\nwidth = 180\npalette = \"grey\"\nshare = [\"legend\", \"y\"]\n\
                [[panel]]\nsession = \"a\"\nstudy = \"loss\"\nlog = true\ntitle = \"Loss\"\nspan = 2\n\
                [panel.overrides]\nlegend = \"off\"\n\
                [[panel]]\nsession = [\"a\", \"b\"]\nform = \"scaling\"\n";
    let file = file(text).unwrap();
    assert_eq!(file.problems, []);
    let style = Style { width: Width::of_mm(180.0).unwrap(), palette: Palette::Grey, ..Style::default() };
    assert_eq!((file.composition.columns, file.composition.style), (3, style));
    let (first, wrong) = file.panel(&file.panels[0], vec!["a".to_owned()], &[]).unwrap();
    assert_eq!(wrong, []);
    let overrides = Overrides { legend: LegendPlace::Off, ..Overrides::default() };
    assert_eq!(first.study, Study { log: true, overrides, ..preset("loss").unwrap() });
    assert_eq!((first.span, first.title.as_deref()), (2, Some("Loss")));
    assert_eq!(file.panels[1].sessions, ["a", "b"]);
    let (second, _) = file.panel(&file.panels[1], Vec::new(), &[]).unwrap();
    assert_eq!(second.study, Study { form: Form::Scaling, ..Study::default() });
}

#[test]
fn what_a_file_says_and_cannot_be_read_is_named_with_its_line_and_the_rest_is_kept() {
    let text = "version = 1\ncolums = 3\nshare = [\"legend\", \"x\"]\nsize_pt = 99\n\n[[panel]]\nsession = 3\n\n\
                [[panel]]\nsession = \"a\"\nspan = 0\nstyle = { size_pt = 9 }\nfiltr = \"x\"\nlog = true\n\
                [panel.overrides]\ntitel = \"A\"\nheight_mm = 60\n";
    let file = file(text).unwrap();
    let (panel, wrong) = file.panel(&file.panels[1], Vec::new(), &[]).unwrap();
    let problems: Vec<String> = file.problems.iter().chain(&wrong).map(ToString::to_string).collect();
    let message = problems.join("\n");
    for part in [
        "f.toml:2: colums: unknown key; did you mean \"columns\"?",
        "f.toml:3: share[2]: unknown variant `x`",
        "f.toml:4: size_pt: it must be from 4 to 20",
        "f.toml:7: panel[1].session: give the name or the folder of a session",
        "f.toml:11: panel[2].span: it must be a number of columns, at least 1",
        "f.toml:12: panel[2].style: it is the same for all panels",
        "f.toml:13: panel[2].filtr: unknown key; did you mean \"filter\"?",
        "f.toml:16: panel[2].overrides.titel: unknown key; did you mean \"title\"?",
    ] {
        assert!(message.contains(part), "{part} in\n{message}");
    }
    assert_eq!(file.composition.share, [Share::Legend]);
    assert!(panel.study.log);
    assert_eq!(panel.study.overrides.height_mm, Some(60.0));
}

#[test]
fn numbers_that_no_figure_can_have_are_named_with_their_lines() {
    let text = "height_mm = nan\ncolumns = 1000000\n[[panel]]\nsession = \"a\"\n[panel.overrides]\nheight_mm = inf\n";
    let file = file(text).unwrap();
    let (panel, wrong) = file.panel(&file.panels[0], Vec::new(), &[]).unwrap();
    let problems: Vec<String> = file.problems.iter().chain(&wrong).map(ToString::to_string).collect();
    let message = problems.join("\n");
    for part in [
        "f.toml:1: height_mm: invalid type: string \"NaN\"",
        "f.toml:2: columns: it must be from 1 to 64: 2 are used",
        "f.toml:6: panel[1].overrides.height_mm: invalid type: string \"inf\"",
    ] {
        assert!(message.contains(part), "{part} in\n{message}");
    }
    assert_eq!((file.composition.height_mm, file.composition.columns), (None, 2));
    assert_eq!(panel.study.overrides.height_mm, None);
}

#[test]
fn files_that_ask_for_no_figure_are_refused_with_the_reason() {
    for (text, part) in [
        ("version = 2\n[[panel]]\nsession = \"a\"\n", "f.toml:1: version: 2 is newer than this multicard's 1"),
        ("version = \"one\"\n", "this version does not exist: write version = 1"),
        ("version = 1\n", "panel: missing: a figure has a [[panel]] with a session for each panel"),
        ("version = 1\ncolumns = = 2\n", "f.toml:2: not TOML"),
    ] {
        let error = file(text).unwrap_err();
        assert!(error.contains(part), "{part} in {error}");
    }
    let file = file("[[panel]]\nsession = \"a\"\nstudy = \"tims\"\n").unwrap();
    let error = file.panel(&file.panels[0], Vec::new(), &[]).unwrap_err();
    assert!(error.contains("unknown study \"tims\"; did you mean \"times\"?"), "{error}");
}
