#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::analysis::{Interval, Level, Method, RunSummary, Source, Value, fixture, summarise_run};
use crate::figure::{
    Annotation, AnnotationKind, Axis, AxisName, AxisOverride, Chart, DashKind, Figure, Geometry, Hatch, LegendPlace,
    LevelOverride, Look, Marker, Nth, Overrides, Panel, Place, Point, Role, Scale, Series, Study, compare_on_screen,
    figure, preset as study,
};
use crate::plan::{CudaState, Node, Worker};

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
fn the_same_figure_is_the_same_bytes() {
    let make = |format: PaperFormat| {
        let figure = preset("scaling");
        encode(&figure.scene(), &figure.provenance(vec![origin()]), format).unwrap()
    };
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 100 }] {
        assert!(make(format) == make(format), "{format:?}");
    }
}

#[test]
fn a_file_gives_back_where_it_comes_from() {
    let figure = figure_of(&Study {
        filter: "fp".to_owned(),
        hidden: vec![("gpus".into(), Level::Integer(2))],
        baseline: Some("precision=fp32,gpus=1".to_owned()),
        log: true,
        ..study("speedup").unwrap()
    });
    let provenance = figure.provenance(vec![origin()]);
    assert_eq!((provenance.cells.len(), provenance.cells[0].runs.len()), (4, 6));
    assert_eq!(provenance.sessions[0].date, "2026-11-21T08:08:39Z");
    assert!(!provenance.json().contains("secret"));
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 72 }] {
        let bytes = encode(&figure.scene(), &provenance, format).unwrap();
        assert_eq!(read_provenance(&bytes).unwrap(), provenance, "{format:?}");
    }
}

#[test]
fn text_of_others_neither_ends_an_element_nor_changes_the_order_of_text_and_is_given_back() {
    let hostile =
        "</metadata></title><script>a</script>]]> \u{202e}b\u{2066}c\u{200f}d\u{85}e\u{1b}[2Jf\u{0}g\u{e0041} & \"'";
    let figure = preset("times");
    let mut origin = origin();
    (origin.session, origin.plans[0].name, origin.plans[0].toml) = (hostile.into(), hostile.into(), hostile.into());
    let provenance = Provenance { title: hostile.to_owned(), ..figure.provenance(vec![origin]) };
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 72 }] {
        let bytes = encode(&figure.scene(), &provenance, format).unwrap();
        assert_eq!(read_provenance(&bytes).unwrap(), provenance, "{format:?}");
        // Neither as UTF-8, nor as the UTF-16 of a PDF's title.
        for mark in ["\u{202e}", "\u{2066}", "\u{200f}", "\u{e0041}"] {
            let utf16: Vec<u8> = mark.encode_utf16().flat_map(u16::to_be_bytes).collect();
            let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
            assert!(!has(mark.as_bytes()), "{format:?} {mark:?}");
            assert!(mark != "\u{202e}" || format != PaperFormat::Pdf || !has(&[&utf16[..], &[0, b'b']].concat()));
        }
        if format == PaperFormat::Svg {
            let text = String::from_utf8(bytes).unwrap();
            assert_eq!(["<title>", "<metadata", "<script>"].map(|tag| text.matches(tag).count()), [1, 1, 0]);
            assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'));
        }
    }
}

#[test]
fn foreign_cut_and_swollen_files_are_answered_with_what_is_wrong() {
    let message = |bytes: &[u8]| read_provenance(bytes).unwrap_err().to_string();
    assert!(message(b"").contains("neither SVG, PDF nor PNG"));
    assert!(message(b"<svg xmlns='http://www.w3.org/2000/svg'/>").contains("holds no figure of multicard"));
    assert!(message(b"%PDF-1.7\n%%EOF").contains("this PDF holds no figure"));
    assert!(message(b"\x89PNG\r\n\x1a\nrest").contains("this PNG is cut short or damaged"));
    assert!(message(b"%PDF-1.7 {\"multicard_figure\":1}").contains("has no end"));
    assert!(message(b"%PDF-1.7 {\"multicard_figure\":}endstream").contains("this PDF is cut short or damaged"));
    let newer =
        b"<svg><metadata id=\"multicard-figure\">{\"multicard_figure\":9,\"program\":\"multicard 9\"}</metadata></svg>";
    assert!(message(newer).contains("made by multicard 9"));
    let mut huge = b"<svg><metadata id=\"multicard-figure\">{\"multicard_figure\":1,\"title\":\"".to_vec();
    huge.resize(33 << 20, b'x');
    huge.extend(b"\"}</metadata></svg>");
    assert!(message(&huge).contains("more than 32 MiB of provenance"));
    let mut foreign = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut foreign, 1, 1);
    encoder.set_color(::png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[0]).unwrap();
    assert!(message(&foreign).contains("this PNG holds no figure"));
    let error = read_file(std::path::Path::new("/no/such/file.svg")).unwrap_err().to_string();
    assert!(error.contains("/no/such/file.svg"), "{error}");
}

#[test]
fn a_file_cut_anywhere_is_read_or_refused() {
    let figure = preset("times");
    let provenance = figure.provenance(vec![origin()]);
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 72 }] {
        let bytes = encode(&figure.scene(), &provenance, format).unwrap();
        for length in (0..bytes.len()).step_by(97) {
            // The part before the cut may contain the whole provenance, which then can be read.
            if let Ok(read) = read_provenance(&bytes[..length]) {
                assert_eq!(read, provenance, "{format:?} cut at {length}");
            }
        }
    }
}

#[test]
fn a_png_says_its_resolution_and_has_that_many_pixels() {
    let figure = preset("times");
    for (dpi, per_metre) in [(300, 11_811), (600, 23_622)] {
        let bytes = encode(&figure.scene(), &figure.provenance(Vec::new()), PaperFormat::Png { dpi }).unwrap();
        let reader = ::png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let info = reader.info();
        assert_eq!(info.pixel_dims.unwrap().xppu, per_metre);
        assert_eq!(f64::from(info.width), (85.0 / 25.4 * f64::from(dpi)).round());
    }
}

#[test]
fn what_cannot_be_written_says_which_file_and_why() {
    let error = write_file(std::path::Path::new("/no/such/folder/a.pdf"), b"x").unwrap_err().to_string();
    assert!(error.contains("/no/such/folder/a.pdf") && error.contains("choose a folder"), "{error}");
    let error = PaperFormat::of(std::path::Path::new("a.gif"), 300).unwrap_err().to_string();
    assert!(error.contains("a.gif") && error.contains(".svg, .pdf or .png"), "{error}");
    let huge = Scene { width: 1e6, height: 1e6, ..Scene::default() };
    assert!(rasterise(&huge, 10.0).unwrap_err().to_string().contains("use another resolution"));
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
fn a_figure_of_the_first_version_opens_as_the_study_that_it_meant() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/sessions/times.svg");
    let written = read_file(std::path::Path::new(file)).unwrap();
    assert_eq!((written.multicard_figure, written.cells.len()), (1, 4));
    assert_eq!(written.study, study("times").unwrap());
    let first = r#"{"multicard_figure":1,"program":"multicard 0.1.0","title":"Epoch time","spec":{"preset":"PRESET",
        "filter":"fp16 not (2","hidden":[["gpus",2],["precision","fp64"]],"measure":"step_time_s","baseline":"gpus=1",
        "log":true,"style":{"width":"page","font":"serif","palette":"grey","size_pt":9.5}},
        "sessions":[],"cells":[],"table":{},"notes":[]}"#;
    let read = |preset: &str| {
        let text = first.replace("PRESET", preset);
        read_provenance(format!("<svg><metadata id=\"multicard-figure\">{text}</metadata></svg>").as_bytes())
    };
    let expected = Study {
        filter: "fp16 \"not\" \"(2\"".to_owned(),
        hidden: vec![("gpus".into(), Level::Integer(2)), ("precision".into(), Level::text("fp64"))],
        measure: Some("step_time_s".into()),
        baseline: Some("gpus=1".to_owned()),
        log: true,
        style: Style { width: Width::Page, font: Family::Serif, palette: Palette::Grey, size_pt: 9.5 },
        ..study("scaling").unwrap()
    };
    assert_eq!(read("scaling").unwrap().study, expected);
    assert!(read("scalling").unwrap_err().to_string().contains("did you mean \"scaling\""));
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

const GEOMETRIES: [Geometry; 12] = [
    Geometry::Bars,
    Geometry::Lines,
    Geometry::Scaling,
    Geometry::Stacked,
    Geometry::Percent,
    Geometry::Strip,
    Geometry::Gantt,
    Geometry::Heat,
    Geometry::Effects,
    Geometry::Tornado,
    Geometry::Profile,
    Geometry::Scatter,
];

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.0..200.0, 1 => -50.0..1e7, 1 => 0.0..1e-5, 1 => Just(0.0), 1 => Just(f64::NAN), 1 => Just(1e300)]
}

fn point(places: usize) -> impl Strategy<Value = Point> {
    (0..places, number(), prop::option::of((number(), number()))).prop_map(|(x, median, interval)| {
        let interval = interval.map(|(a, b)| Interval { low: a.min(b), high: a.max(b) });
        Point {
            x: x as f64,
            across: None,
            value: Value { median, interval, n: 3, method: Method::Range },
            ratio: None,
            cell: None,
        }
    })
}

/// Names as users choose them: short or long, with any letters.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z0-9]{1,6}", 2 => "[A-Za-z ·0-9]{6,40}", 1 => "\\PC{0,12}", 1 => "[W ]{60,120}"]
}

fn chart() -> impl Strategy<Value = Chart> {
    let places = 1usize..14;
    (places, 0usize..GEOMETRIES.len(), any::<bool>(), name(), name(), 1usize..5, 1usize..6).prop_flat_map(
        |(places, geometry, log, x, y, panels, lines)| {
            let series = (name(), prop::collection::vec(point(places), 0..12), 0usize..30, any::<bool>());
            let panels = prop::collection::vec((name(), prop::collection::vec(series, 1..=lines)), 1..=panels);
            (prop::collection::vec(name(), places), panels).prop_map(move |(categories, panels)| {
                let geometry = GEOMETRIES[geometry];
                type Drawn = (String, Vec<Point>, usize, bool);
                let panel = |(title, series): (String, Vec<Drawn>)| Panel {
                    title,
                    series: series
                        .into_iter()
                        .map(|(name, points, place, ideal)| Series {
                            name: if geometry == Geometry::Heat {
                                categories[place % categories.len()].clone()
                            } else {
                                name
                            },
                            look: Look::Place(place),
                            variant: place % categories.len(),
                            role: if ideal { Role::Ideal } else { Role::Measured },
                            points,
                        })
                        .collect(),
                };
                let scale = if log { Scale::Log } else { Scale::Linear };
                Chart {
                    title: String::new(),
                    geometry,
                    additions: Vec::new(),
                    intervals: String::new(),
                    x: Axis { categories: categories.clone(), ..Axis::new(x.clone(), "s") },
                    y: Axis { categories: categories.clone(), scale, ..Axis::new(y.clone(), "images/s") },
                    panels: panels.into_iter().map(panel).collect(),
                    notes: Vec::new(),
                }
            })
        },
    )
}

fn style() -> impl Strategy<Value = Style> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 6.0..10.0).prop_map(|(page, serif, grey, size_pt)| Style {
        width: if page { Width::Page } else { Width::Column },
        font: if serif { Family::Serif } else { Family::Sans },
        palette: if grey { Palette::Grey } else { Palette::Colour },
        size_pt,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 64, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn no_text_covers_data_or_leaves_the_page_and_nothing_is_drawn_off_it(
        charts in prop::collection::vec(chart(), 1..3),
        style in style(),
    ) {
        let scene = lay_out(&charts, &style);
        let page = Area { left: 0.0, top: 0.0, width: scene.width, height: scene.height };
        for data in &scene.data {
            prop_assert!(page.holds(data), "{data:?} leaves {page:?}");
        }
        for text in scene.texts() {
            let area = text.area();
            prop_assert!(page.holds(&area), "{:?} at {area:?} leaves {page:?}", text.text);
            for data in scene.data.iter().filter(|_| !text.in_data) {
                prop_assert!(!area.overlaps(data), "{:?} at {area:?} covers {data:?}", text.text);
            }
        }
        for item in &scene.items {
            let Item::Path { segments, .. } = item else { continue };
            for segment in segments {
                if let Segment::Move(x, y) | Segment::Line(x, y) = segment {
                    prop_assert!(x.is_finite() && y.is_finite());
                    // A marker at the edge of the data may extend beyond it by its radius.
                    let inside = *x > -3.0 && *x < scene.width + 3.0 && *y > -3.0 && *y < scene.height + 3.0;
                    prop_assert!(inside, "{x}, {y} leaves {page:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 64, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn on_a_screen_of_any_size_marks_are_those_of_points_and_no_text_covers_data(
        charts in prop::collection::vec(chart(), 1..3),
        (width, height) in (0.0..1700.0, 0.0..900.0),
    ) {
        let scene = lay_out_on(&charts, &Page::screen(width, height, 9.0));
        let page = Area { left: 0.0, top: 0.0, width: scene.width, height: scene.height };
        for mark in &scene.marks {
            let (.., point) = mark.of(&charts).unwrap();
            prop_assert_eq!(&point.cell, &mark.cell);
            prop_assert!(mark.area.left.is_finite() && mark.area.width >= 0.0 && mark.area.height >= 0.0);
        }
        for text in scene.texts().filter(|text| !text.in_data) {
            let area = text.area();
            prop_assert!(page.holds(&area), "{:?} at {area:?} leaves {page:?}", text.text);
            for data in &scene.data {
                prop_assert!(!area.overlaps(data), "{:?} at {area:?} covers {data:?}", text.text);
            }
        }
    }
}

#[test]
fn every_cell_that_is_drawn_has_a_mark_that_carries_it_on_paper_and_on_a_screen() {
    for study in crate::figure::presets() {
        let figure = figure_of(study);
        let measured = figure.charts.iter().flat_map(|chart| chart.series()).filter(|one| one.role == Role::Measured);
        let drawn: Vec<_> = measured.flat_map(|series| &series.points).filter_map(|point| point.cell.clone()).collect();
        for scene in [figure.scene(), lay_out_on(&figure.charts, &Page::screen(640.0, 300.0, 9.0))] {
            let has_mark = |cell: &_| scene.marks.iter().any(|mark| mark.cell.as_ref() == Some(cell));
            assert!(drawn.iter().all(has_mark), "{}: {} marks", study.name, scene.marks.len());
            for mark in &scene.marks {
                assert_eq!(mark.of(&figure.charts).unwrap().3.cell, mark.cell, "{}", study.name);
            }
        }
    }
}

#[test]
fn on_a_screen_bars_run_across_with_values_in_the_unit_of_the_axis_behind_them() {
    let figure = figure_of(&Study { measure: Some("step_time_s".into()), ..study("times").unwrap() });
    let scene = lay_out_on(&figure.charts[..1], &Page::screen(640.0, 300.0, 9.0));
    let (.., point) = scene.marks[0].of(&figure.charts).unwrap();
    let bar = &scene.marks[0].area;
    assert!(bar.width > bar.height, "{bar:?}");
    let behind: Vec<&str> =
        scene.texts().filter(|text| text.in_data && bar.holds(&text.area())).map(|text| text.text.as_str()).collect();
    let axis = scene.texts().any(|text| text.text.ends_with("(ms)"));
    let value = point.value.median * if axis { 1e3 } else { 1.0 };
    assert!(behind.contains(&crate::figure::short(value).as_str()), "{behind:?} {value}");
}

#[test]
fn on_a_screen_data_uses_the_height_and_what_needs_more_scrolls_between_legend_and_axis() {
    let figure = preset("times");
    let laid_out = |height: f64| lay_out_on(&figure.charts, &Page::screen(640.0, height, 9.0));
    let (low, high) = (laid_out(60.0), laid_out(500.0));
    assert!(low.height > 60.0 && high.height > low.height && high.height <= 500.0, "{} {}", low.height, high.height);
    let (top, bottom) = low.inner.unwrap();
    assert!(low.marks.iter().all(|mark| mark.area.top >= top && mark.area.bottom() <= bottom));
    assert!(top > 0.0 && bottom < low.height);
    // Half an axis of values would be useless.
    assert!(lay_out_on(&preset("scaling").charts, &Page::screen(640.0, 60.0, 9.0)).inner.is_none());
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

#[test]
fn a_figures_file_carries_the_values_that_it_draws_and_its_table_the_measure_that_was_asked_for() {
    let figure = figure_of(&Study { measure: Some("energy_j".into()), ..study("times").unwrap() });
    assert!(figure.table.columns.iter().any(|column| column.key == "energy_j"));
    let drawn = figure.provenance(vec![origin()]).drawn;
    let marks: Vec<&Point> =
        figure.charts.iter().flat_map(|chart| chart.series()).flat_map(|one| &one.points).collect();
    let carried: Vec<f64> = drawn.iter().flat_map(|chart| &chart.points).map(|point| point.value).collect();
    assert!(!carried.is_empty() && drawn[0].y == "Energy (J)", "{drawn:?}");
    assert_eq!(carried, marks.iter().map(|point| point.value.median).collect::<Vec<_>>());
    let groups = &figure.charts[0].x.categories;
    assert!(drawn[0].points.iter().all(|point| groups.contains(&point.x)), "{drawn:?}");
}

#[test]
fn a_bracket_stands_beyond_bars_that_run_across_and_their_numbers() {
    let brackets = ["precision=fp32,gpus=1 to precision=fp16,gpus=1"];
    let brackets = brackets.map(|words| Annotation::parse(AnnotationKind::Bracket, words).unwrap());
    let figure = edited("times", |one| one.annotations = brackets.to_vec());
    let scene = lay_out_on(&figure.charts[..1], &Page::screen(640.0, 300.0, 9.0));
    let placed = scene.parts.iter().find(|placed| placed.part == Part::Annotation(0)).unwrap();
    let texts: Vec<&Text> = scene.items[placed.items.clone()].iter().filter_map(text_of).collect();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].text == "4.00×, faster", "{texts:?}");
    let of_cells = |words: &str| figure.words.iter().position(|known| known == words).unwrap();
    let ends = ["precision=fp32,gpus=1", "precision=fp16,gpus=1"].map(|words| {
        let cell = &figure.cells[of_cells(words)].0;
        scene.marks.iter().find(|mark| mark.cell.as_ref() == Some(cell)).unwrap().area
    });
    for bar in ends {
        assert!(placed.area.left > bar.right(), "{:?} {bar:?}", placed.area);
        let middle = bar.top + bar.height / 2.0;
        assert!(placed.area.top <= middle + 0.1 && placed.area.bottom() >= middle - 0.1, "{:?} {bar:?}", placed.area);
    }
    assert!(placed.area.right() <= scene.width);
}

fn text_of(item: &Item) -> Option<&Text> {
    match item {
        Item::Text(text) => Some(text),
        Item::Path { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 64, ..ProptestConfig::with_cases(32) })]
    #[test]
    fn no_two_names_of_a_chart_are_cut_to_the_same_text(
        start in "[a-z ]{0,60}",
        middles in prop::collection::hash_set("[a-z0-9]{1,4}( · [a-z]{1,30}){0,2}", 2..9),
        end in "[a-z ]{0,50}",
        geometry in 0usize..GEOMETRIES.len(),
    ) {
        let names: Vec<String> = middles.into_iter().map(|middle| format!("{start}{middle}{end}")).collect();
        let point = |place: usize| Point { x: place as f64, across: None, value: Value { median: 1.0, interval: None, n: 1, method: Method::One }, ratio: None, cell: None };
        let series = names.iter().enumerate().map(|(place, name)| Series { points: vec![point(place)], ..Series::measured(name.clone(), Look::Place(place)) });
        let axis = Axis { categories: names.clone(), ..Axis::new("", "") };
        let chart = Chart {
            panels: vec![Panel { title: String::new(), series: series.collect() }],
            ..Chart::new("", GEOMETRIES[geometry], axis, Axis { categories: names.clone(), ..Axis::new("value", "") })
        };
        let scene = lay_out(&[chart], &Style::default());
        let shown = |is: &dyn Fn(&Part) -> bool| -> Vec<String> {
            let words_of = |placed: &Placed| scene.items[placed.items.clone()].iter().filter_map(text_of).map(|text| text.text.as_str()).collect::<Vec<_>>().join(" ");
            scene.parts.iter().filter(|placed| is(&placed.part)).map(words_of).collect()
        };
        for labels in [shown(&|part| matches!(part, Part::Place(_, AxisName::X, _))), shown(&|part| matches!(part, Part::Place(_, AxisName::Y, _))), shown(&|part| matches!(part, Part::Entry(_)))] {
            let mut once = labels.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), labels.len(), "{:?} of {:?}", labels, names);
        }
    }
}

/// The words on a figure's page, in the order in which they are drawn.
fn words(figure: &Figure) -> Vec<String> {
    figure.scene().texts().map(|text| text.text.clone()).collect()
}

fn edited(id: &str, change: impl FnOnce(&mut Overrides)) -> Figure {
    let mut study = study(id).unwrap();
    change(&mut study.overrides);
    figure_of(&study)
}

#[test]
fn names_and_looks_of_levels_change_wherever_they_stand() {
    let figure = edited("times", |one| {
        one.level_mut("precision=fp16").label = Some("FP16 (AMP)".to_owned());
        one.level_mut("4 GPUs").label = Some("four".to_owned());
        one.level_mut("1 GPU").colour = Some("#010203".to_owned());
        one.level_mut("fp23").label = Some("x".to_owned());
        one.title = Some("Of my own".to_owned());
        one.axis_mut(AxisName::Y, Nth(1)).name = Some("Time of training".to_owned());
    });
    let words = words(&figure);
    for part in ["FP16 (AMP)", "four", "Of my own", "Time of training (s)"] {
        assert!(words.iter().any(|word| word.contains(part)), "{part} in {words:?}");
    }
    assert!(!words.iter().any(|word| word.contains("fp16") || word.contains("4 GPUs")), "{words:?}");
    assert!(String::from_utf8(svg(&figure)).unwrap().contains("#010203"));
    let missing: Vec<&String> = figure.missing.iter().filter(|line| line.contains("\"fp23\"")).collect();
    assert_eq!(missing.len(), 1, "{:?}", figure.missing);
}

#[test]
fn limits_that_hide_values_are_said_on_the_page() {
    let figure = edited("times", |one| {
        let axis = one.axis_mut(AxisName::Y, Nth(1));
        (axis.low, axis.high) = (Some(1.0), Some(2.0));
    });
    let message = words(&figure).join(" ");
    assert!(message.contains("beyond the axes") && message.contains("Bars do not begin at 0"), "{message}");
    assert!(!words(&preset("times")).join(" ").contains("beyond"));
    let wrong = edited("times", |one| {
        let axis = one.axis_mut(AxisName::Y, Nth(1));
        (axis.low, axis.high, axis.unit) = (Some(2.0), Some(1.0), Some("GB".to_owned()));
    });
    assert_eq!(wrong.missing.iter().filter(|line| line.starts_with("axis ")).count(), 2, "{:?}", wrong.missing);
    assert_eq!(svg(&wrong), svg(&preset("times")));
}

#[test]
fn a_screen_shows_names_looks_and_limits_of_the_author_and_its_marks_say_the_cells_that_are_drawn() {
    let mut asked = study("times").unwrap();
    let words = |asked: &Study| -> (Scene, Vec<String>) {
        let comparison = compare_on_screen(&[Source { session: "", runs: &runs(), reports: &[] }], asked, None);
        let scene = lay_out_on(&comparison.charts[..1], &Page::screen(640.0, 300.0, 9.0));
        let words = scene.texts().map(|text| text.text.clone()).collect();
        (scene, words)
    };
    let usual = words(&asked).0;
    asked.overrides.level_mut("precision=fp16").label = Some("AMP".to_owned());
    asked.overrides.level_mut("1 GPU").colour = Some("#010203".to_owned());
    asked.overrides.annotations = vec![Annotation::parse(AnnotationKind::Line, "y=2,on paper alone").unwrap()];
    let axis = asked.overrides.axis_mut(AxisName::Y, Nth(1));
    (axis.low, axis.high) = (Some(1.0), Some(2.0));
    let (scene, words) = words(&asked);
    let message = words.join(" ");
    assert!(message.contains("AMP") && !message.contains("fp16") && !message.contains("on paper alone"), "{message}");
    assert!(message.contains("beyond the axes") && message.contains("Bars do not begin at 0"), "{message}");
    let is_own = |item: &Item| matches!(item, Item::Path { fill: Some(([1, 2, 3], _)), .. });
    assert!(scene.items.iter().any(is_own) && !usual.items.iter().any(is_own));
    let cells = |scene: &Scene| scene.marks.iter().map(|mark| mark.cell.clone()).collect::<Vec<_>>();
    assert_eq!(cells(&scene), cells(&usual));
}

#[test]
fn the_table_below_a_chart_on_screen_has_the_unit_of_the_axis_that_shows_its_measure() {
    let mut asked = study("times").unwrap();
    asked.measure = Some("step_time_s".into());
    let unit = |asked: &Study| {
        let comparison = compare_on_screen(&[Source { session: "", runs: &runs(), reports: &[] }], asked, None);
        let scene = lay_out_on(&comparison.charts[..1], &Page::screen(640.0, 300.0, 9.0));
        let column = comparison.table.columns.iter().find(|column| column.key == *"step_time_s").unwrap();
        let title = format!("Step time ({})", column.shown_unit);
        assert!(scene.texts().any(|text| text.text == title), "{title} is not the title of the axis");
        let other = comparison.table.columns.iter().find(|column| column.key == *"training_time_s").unwrap();
        assert_eq!(other.shown_unit, "s", "no axis shows it");
        (column.shown_unit.clone(), column.shown_factor)
    };
    assert_eq!(unit(&asked), ("ms".to_owned(), 1e3));
    asked.log = true;
    assert_eq!(unit(&asked), ("s".to_owned(), 1.0), "a logarithmic axis is labelled in seconds");
}

#[test]
fn each_change_of_a_figure_is_drawn_and_read_back_as_it_was_kept() {
    let with_change = |change: &dyn Fn(&mut Study), id: &str| {
        let mut asked = study(id).unwrap();
        change(&mut asked);
        figure_of(&asked)
    };
    let y =
        |change: fn(&mut AxisOverride)| move |study: &mut Study| change(study.overrides.axis_mut(AxisName::Y, Nth(1)));
    let level = |key: &'static str, change: fn(&mut LevelOverride)| {
        move |study: &mut Study| change(study.overrides.level_mut(key))
    };
    /// A preset, the change, and its name.
    type Changed<'a> = (&'a str, &'a str, &'a dyn Fn(&mut Study));
    let changes: [Changed<'_>; 14] = [
        ("times", "hatch", &level("gpus=1", |one| one.hatch = Some(Hatch::Dots))),
        ("times", "colour", &level("gpus=1", |one| one.colour = Some("grey".to_owned()))),
        ("scaling", "marker", &level("precision=fp16", |one| one.marker = Some(Marker::Cross))),
        ("scaling", "dash", &level("precision=fp16", |one| one.dash = Some(DashKind::Long))),
        ("times", "unit", &y(|one| one.unit = Some("ms".to_owned()))),
        ("times", "ticks", &y(|one| one.ticks = vec![0.0, 1.0])),
        ("times", "count of ticks", &y(|one| one.tick_count = Some(12))),
        ("times", "scale", &y(|one| one.log = Some(true))),
        ("scaling", "scale of x", &|study| study.overrides.axis_mut(AxisName::X, Nth(1)).log = Some(true)),
        ("times", "order", &|study| study.put_in_order("precision".into(), vec![Level::text("fp16")])),
        ("times", "width of bars", &|study| study.overrides.bar_width = Some(0.3)),
        ("scaling", "width of lines", &|study| study.overrides.line_width = Some(2.0)),
        ("scaling", "columns of the legend", &|study| study.overrides.legend_columns = Some(1)),
        ("times", "place of the legend", &|study| study.overrides.legend = LegendPlace::Below),
    ];
    for (id, name, change) in changes {
        let figure = with_change(change, id);
        assert!(svg(&figure) != svg(&preset(id)), "{name} changes nothing");
        assert!(figure.missing.is_empty(), "{name}: {:?}", figure.missing);
        let bytes = encode(&figure.scene(), &figure.provenance(vec![origin()]), PaperFormat::Svg).unwrap();
        let read = read_provenance(&bytes).unwrap();
        assert_eq!((read.study, read.problems.len()), (figure.study, 0), "{name}");
    }
    let shown = |figure: &Figure, part: Part| -> Vec<String> {
        let scene = figure.scene();
        let placed = scene.parts.iter().find(|placed| placed.part == part).unwrap();
        scene.items[placed.items.clone()].iter().filter_map(text_of).map(|text| text.text.clone()).collect()
    };
    let ticks = with_change(&y(|one| one.ticks = vec![0.0, 1.0]), "times");
    assert_eq!(shown(&ticks, Part::Ticks(0, AxisName::Y)), ["0", "1"]);
    let log = with_change(&|study| study.overrides.axis_mut(AxisName::X, Nth(1)).log = Some(true), "scaling");
    assert_eq!(shown(&log, Part::Ticks(0, AxisName::X)), ["1", "2", "4"]);
    let wrong = with_change(&y(|one| one.tick_count = Some(1)), "times");
    assert_eq!(wrong.missing, ["axis y: tick_count = 1 must be from 2 to 20: the default is used"]);
    assert_eq!(svg(&wrong), svg(&preset("times")));
}

#[test]
fn a_name_on_the_page_says_which_levels_it_is_of_also_where_one_is_renamed() {
    let figure = edited("times", |one| one.level_mut("precision=fp16").label = Some("half".to_owned()));
    for (name, keys) in [
        ("half", vec!["precision=fp16"]),
        ("half · 4 GPUs", vec!["precision=fp16", "gpus=4"]),
        ("fp32", vec!["precision=fp32"]),
        ("Peak allocated", vec!["Peak allocated"]),
    ] {
        assert_eq!(figure.keys_of(name), keys, "{name}");
    }
    assert_eq!(figure.words.len(), figure.cells.len());
    assert!(figure.words.contains(&"precision=fp16,gpus=4".to_owned()), "{:?}", figure.words);
}

#[test]
fn the_parts_of_a_page_are_laid_out_around_its_data_and_name_what_they_show() {
    let figure = edited("times", |one| {
        one.title = Some("A title".to_owned());
        one.annotations = vec![Annotation::parse(AnnotationKind::Line, "y=2,limit").unwrap()];
    });
    let scene = figure.scene();
    let area =
        |part: Part| scene.parts.iter().find(|placed| placed.part == part).unwrap_or_else(|| panic!("{part:?}")).area;
    let data = scene.data[0];
    for part in [Part::Title, Part::Legend, Part::Entry("1 GPU".to_owned())] {
        assert!(area(part.clone()).bottom() <= data.top, "{part:?}");
    }
    assert!(area(Part::Legend).holds(&area(Part::Entry("4 GPUs".to_owned()))));
    for part in [Part::AxisName(0, AxisName::Y), Part::Ticks(0, AxisName::Y)] {
        assert!(area(part.clone()).right() <= data.left + 0.1, "{part:?}");
    }
    for part in [Part::Place(0, AxisName::X, 1), Part::AxisName(0, AxisName::X), Part::Caption] {
        assert!(area(part.clone()).top >= data.bottom(), "{part:?}");
    }
    assert!(data.overlaps(&area(Part::Annotation(0))));
    // Keys first reach the parts that explain the data, then the points, then annotations.
    let kinds: Vec<usize> = scene
        .pointed(1000)
        .map(|(part, _)| match part {
            Part::Point(_) => 1,
            Part::Annotation(_) => 2,
            _ => 0,
        })
        .collect();
    assert!(kinds.is_sorted() && kinds.contains(&1) && kinds.contains(&2), "{kinds:?}");
    assert!(!scene.pointed(0).any(|(part, _)| matches!(part, Part::Point(_))));
}

#[test]
fn error_bars_on_areas_have_a_white_edge_that_no_hatch_and_no_colour_hides() {
    for id in ["times", "tornado", "memory"] {
        let figure = preset(id);
        let points = figure.charts.iter().flat_map(|chart| chart.series()).flat_map(|series| &series.points);
        let intervals = points.filter(|point| point.value.interval.is_some()).count();
        let is_edge = |item: &&Item| matches!(item, Item::Path { stroke: Some(stroke), fill: None, .. } if stroke.colour == [0xff; 3] && stroke.width > 1.0);
        let scene = figure.scene();
        assert!(intervals > 0, "{id}");
        assert_eq!(scene.items.iter().filter(is_edge).count(), intervals, "{id}");
    }
}

#[test]
fn a_unit_converts_values_and_ticks() {
    let figure = edited("times", |one| one.axis_mut(AxisName::Y, Nth(1)).unit = Some("min".to_owned()));
    let value = |figure: &Figure| figure.charts[0].series().next().unwrap().points[0].value.median;
    assert!((value(&figure) * 60.0 - value(&preset("times"))).abs() < 1e-9);
    assert!(words(&figure).iter().any(|word| word == "Training time (min)"), "{:?}", words(&figure));
}

#[test]
fn a_figure_is_as_high_as_it_is_asked_to_be_or_says_why_not() {
    for (id, mm) in [("times", 60.0), ("loss", 140.0), ("effects", 50.0)] {
        let figure = edited(id, |one| one.height_mm = Some(mm));
        assert!((figure.scene().height / PT_PER_MM - mm).abs() < 0.1, "{id}: {}", figure.scene().height / PT_PER_MM);
        assert!(figure.warnings(&figure.scene()).is_empty());
    }
    let low = edited("loss", |one| one.height_mm = Some(20.0));
    assert!(low.warnings(&low.scene())[0].contains("it is not 20 mm high"));
}

#[test]
fn caption_error_bars_and_legend_are_left_out_where_they_are_off() {
    let usual = words(&preset("times"));
    let off = edited("times", |one| one.caption = false);
    assert!(usual.iter().any(|word| word.contains("Error bars")));
    assert!(!words(&off).iter().any(|word| word.contains("Error bars")));
    let bare = edited("times", |one| one.error_bars = false);
    assert!(bare.charts[0].series().flat_map(|series| &series.points).all(|point| point.value.interval.is_none()));
    assert!(!words(&bare).iter().any(|word| word.contains("Error bars")));
    let legend =
        |place| words(&edited("scaling", |one| one.legend = place)).iter().filter(|word| *word == "fp32").count();
    assert_eq!(
        [LegendPlace::Above, LegendPlace::Below, LegendPlace::Right, LegendPlace::Off].map(legend),
        [1, 1, 1, 0]
    );
}

#[test]
fn a_bracket_says_the_ratio_and_the_verdict_of_its_cells() {
    let annotations = vec![
        Annotation::parse(AnnotationKind::Bracket, "precision=fp32,gpus=1 to precision=fp16,gpus=1").unwrap(),
        Annotation::parse(AnnotationKind::Bracket, "precision=fp32,gpus=1 to precision=fp8,gpus=1").unwrap(),
        Annotation::parse(AnnotationKind::Line, "y=2,a line").unwrap(),
        Annotation::parse(AnnotationKind::Text, "nowhere,2,lost").unwrap(),
    ];
    let figure = edited("times", |one| one.annotations = annotations);
    let words = words(&figure);
    assert!(words.iter().any(|word| word == "4.00×, faster"), "{words:?}");
    assert!(words.iter().any(|word| word == "a line"));
    let missing = figure.missing.join("\n");
    assert!(
        missing.contains("no cell is precision=fp8,gpus=1") && missing.contains("there is no place \"nowhere\""),
        "{missing}"
    );
}

#[test]
fn the_words_of_a_bracket_cover_no_bar_beside_it() {
    let mut figure = edited("times", |one| {
        one.annotations =
            vec![Annotation::parse(AnnotationKind::Bracket, "precision=fp16,gpus=1 to precision=fp16,gpus=2").unwrap()];
    });
    for addition in &mut figure.charts[0].additions {
        addition.text = "0.501×, not comparable because one was run later".to_owned();
    }
    let scene = lay_out_on(&figure.charts[..1], &Page::paper(&Style::default()));
    let placed = scene.parts.iter().find(|placed| placed.part == Part::Annotation(0)).unwrap();
    let text = scene.items[placed.items.clone()].iter().find_map(text_of).unwrap();
    let (left, bottom) = (text.x, text.y);
    let right = left + 0.4 * text.size * text.text.chars().count() as f64;
    let beside = scene.marks.iter().filter(|mark| mark.area.right() > left && mark.area.left < right);
    let tops: Vec<f64> = beside.map(|mark| mark.area.top).collect();
    assert!(tops.len() > 2 && tops.iter().all(|top| *top >= bottom - 0.1), "{bottom} {tops:?}");
}

#[test]
fn what_differs_travels_in_the_file_and_unknown_entries_are_named() {
    let figure = edited("times", |one| one.title = Some("Kept".to_owned()));
    let text =
        String::from_utf8(encode(&figure.scene(), &figure.provenance(vec![origin()]), PaperFormat::Svg).unwrap());
    let text = text.unwrap();
    assert_eq!(read_provenance(text.as_bytes()).unwrap().study, figure.study);
    let other = text
        .replace("&quot;title&quot;:&quot;Kept&quot;", "&quot;titel&quot;:&quot;Kept&quot;,&quot;caption&quot;:false");
    let read = read_provenance(other.as_bytes()).unwrap();
    assert!(!read.study.overrides.caption);
    assert_eq!(read.problems, ["study.overrides.titel: unknown key; did you mean \"title\"?"]);
}

#[test]
fn widths_have_the_names_of_venues_or_millimetres() {
    let width = |text: &str| serde_json::from_str::<Width>(text);
    assert_eq!(width("\"ieee-column\"").unwrap().mm(), 88.9);
    assert_eq!(width("92.5").unwrap().mm(), 92.5);
    assert_eq!("92.5mm".parse::<Width>().unwrap(), Width::of_mm(92.5).unwrap());
    assert!(width("5").unwrap_err().to_string().contains("from 30 to 500 mm"));
    assert!(width("\"ieee\"").unwrap_err().to_string().contains("ieee-column"));
    for known in Width::named().chain([Width::Tenths(925)]) {
        assert_eq!(width(&serde_json::to_string(&known).unwrap()).unwrap(), known);
    }
    let style = Style { width: Width::of_mm(60.0).unwrap(), size_pt: 5.0, ..Style::default() };
    let small = figure_of(&Study { style, ..study("times").unwrap() });
    assert!((small.scene().width / PT_PER_MM - 60.0).abs() < 1e-9);
    assert!(small.warnings(&small.scene())[0].contains("print needs 6 pt"));
}

/// Without this program, fonts cannot be listed.
#[test]
fn every_font_of_a_pdf_is_embedded_and_none_is_of_type_3() {
    if std::process::Command::new("pdffonts").arg("-v").output().is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for id in ["times", "loss", "interactions", "roofline", "map"] {
        let figure = preset(id);
        let file = folder.path().join(format!("{id}.pdf"));
        let bytes = encode(&figure.scene(), &figure.provenance(Vec::new()), PaperFormat::Pdf).unwrap();
        write_file(&file, &bytes).unwrap();
        let listed = std::process::Command::new("pdffonts").arg(&file).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let fonts: Vec<&str> = listed.lines().skip(2).collect();
        assert!(!fonts.is_empty(), "{id}");
        for font in fonts {
            let embedded = font.split_whitespace().rev().nth(4);
            assert!(!font.contains("Type 3") && embedded == Some("yes"), "{id}: {font}");
        }
    }
}
