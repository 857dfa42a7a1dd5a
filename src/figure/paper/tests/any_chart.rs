//! Charts of any content: no text covers data or leaves the page, marks are those of points, and names that are cut still differ.

use proptest::prelude::*;

use super::*;
use crate::analysis::Interval;
use crate::figure::Scale;

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
                    cautions: Vec::new(),
                    x: Axis { categories: categories.clone(), ..Axis::new(x.clone(), "s") },
                    y: Axis { categories: categories.clone(), scale, ..Axis::new(y.clone(), "images/s") },
                    panels: panels.into_iter().map(panel).collect(),
                    notes: Vec::new(),
                    crowded: None,
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
