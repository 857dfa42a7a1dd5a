//! Figures as the window draws them.

use super::*;
use crate::figure::compare_on_screen;

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
    let bar = |scene: &Scene| scene.marks[0].area.height;
    // Bars are up to 20.7 points thick on paper.
    let highest = bar(&laid_out(5000.0));
    assert!(highest > 40.0 && highest < 56.0, "a high window has bars at least twice as thick as paper: {highest}");
    let wide = bar(&lay_out_on(&figure.charts, &Page::screen(1400.0, 5000.0, 9.0)));
    assert!(wide > 2.0 * highest && wide < 124.5, "longer bars may be thicker, up to six times: {wide}");
    // Half an axis of values would be useless.
    assert!(lay_out_on(&preset("scaling").charts, &Page::screen(640.0, 60.0, 9.0)).inner.is_none());
}

#[test]
fn on_a_screen_the_names_of_rows_say_what_they_are_of_since_their_axis_has_no_title() {
    let mut charts = preset("times").charts;
    let axis = &mut charts[0].x;
    axis.name = "size".to_owned();
    axis.categories = (0..axis.categories.len()).map(|place| format!("size {place}")).collect();
    let scene = lay_out_on(&charts[..1], &Page::screen(640.0, 300.0, 9.0));
    let names: Vec<&str> = scene.texts().map(|text| text.text.as_str()).collect();
    assert!(names.contains(&"size 0"), "{names:?}");
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
fn names_of_roofs_that_are_near_each_other_stand_apart_and_a_title_without_room_keeps_its_unit() {
    let point = |x: f64, y: f64| {
        let value = Value { median: y, interval: None, n: 0, method: Method::One };
        Point { x, across: None, value, ratio: None, cell: None }
    };
    let roof = |name: &str, rate: f64| {
        let points = vec![point(1.0, 1.0), point(rate, rate), point(1000.0, rate)];
        Series { role: Role::Ideal, points, ..Series::measured(name, Look::Grey) }
    };
    let names = ["fp16", "tf32", "fp64"];
    let mut series: Vec<Series> =
        names.into_iter().zip([660.0, 550.0, 60.0]).map(|(name, rate)| roof(name, rate)).collect();
    series.push(Series { points: vec![point(10.0, 5.0)], ..Series::measured("a cell", Look::Place(0)) });
    let axis = |name: &str, unit: &str| Axis { scale: crate::figure::chart::Scale::Log, ..Axis::new(name, unit) };
    let rate = axis("Model FLOP rate of one device in a sentence that no axis has the room for", "TFLOP/s");
    let empty = Chart::new("Roofline", Geometry::Scatter, axis("Arithmetic intensity", "FLOP/B"), rate);
    let chart = Chart { panels: vec![Panel { title: String::new(), series }], ..empty };
    let scene = lay_out_on(&[chart], &Page::screen(640.0, 150.0, 9.0));
    let areas = names.map(|name| scene.texts().find(|text| text.text == name).unwrap().area());
    assert!(!areas[0].overlaps(&areas[1]) && !areas[1].overlaps(&areas[2]), "{areas:?}");
    let title = scene.texts().find(|text| text.upwards).unwrap();
    assert!(title.text.contains("… (TFLOP/s)"), "{}", title.text);
}
