//! What an author changes of a figure: names, looks, limits, units, heights, brackets and parts.

use super::*;
use crate::figure::{AxisOverride, DashKind, Hatch, LegendPlace, LevelOverride, Marker, Overrides};

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
