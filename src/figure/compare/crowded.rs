//! Charts that are not drawn because they have so many marks or panels that nobody could distinguish them.

use std::collections::HashSet;

use super::arrange::name_of;
use super::{Scene, shown_measure};
use crate::analysis::{Setting, capitalised, counted, varying};
use crate::figure::chart::{Axis, Chart, Geometry};
use crate::figure::study::Form;

/// The most cells of a chart in which each has a place of its own: on a page, its bars are as thin as a hair.
pub(super) const MOST_PLACES: usize = 1_000;
/// The most panels of a chart.
const MOST_PANELS: usize = 100;

/// A chart without panels that says what there is too much of, and what to do; `None` if the requested chart can be read.
pub(super) fn crowded(scene: &Scene) -> Option<Chart> {
    let (places, panels) = counts(scene);
    let why = match () {
        () if places > MOST_PLACES => format!(
            "{} are more than can be shown next to each other ({MOST_PLACES} at most): show fewer with a filter, or each as a point over a \
             measure or a factor (--form scatter --across KEY, \"Scatter\" in the window); the table has all",
            counted(places, what(scene.study.form))
        ),
        () if panels > MOST_PANELS => format!(
            "{panels} panels are more than can be shown next to each other ({MOST_PANELS} at most): show fewer with a filter, or choose a \
             setting with fewer levels for them (--columns KEY, \"Columns\" in the window)"
        ),
        () => return None,
    };
    let (name, unit, _) = shown_measure(scene, scene.study.shown_measure());
    let chart = Chart::new(name.clone(), Geometry::Bars, Axis::default(), Axis::new(name, unit));
    Some(Chart { notes: vec![capitalised(&why) + "."], crowded: Some(why), ..chart })
}

/// The word for the things that have a place of their own in a form.
fn what(form: Form) -> &'static str {
    if form == Form::Map { "level" } else { "cell" }
}

/// The number of places along an axis, and the number of panels; 0 where a form limits them itself.
fn counts(scene: &Scene) -> (usize, usize) {
    let by_panel = || scene.cells.iter().map(|cell| scene.panel_name(cell)).collect::<HashSet<String>>().len();
    match scene.study.form {
        Form::Bars | Form::Memory | Form::Repeats => (scene.cells.len(), by_panel()),
        Form::Metrics | Form::Parts => (scene.cells.len(), 0),
        Form::Map => of_map(scene),
        Form::Loss | Form::Scaling | Form::Roofline | Form::Scatter | Form::History => (0, by_panel()),
        Form::Effects | Form::Tornado | Form::Interactions | Form::Pareto | Form::Activity => (0, 0),
    }
}

/// A map has the levels of its first and of its last setting along its axes, and the others on panels.
fn of_map(scene: &Scene) -> (usize, usize) {
    let settings = varying(scene.cells);
    let levels = |setting: &Setting| {
        scene.cells.iter().filter_map(|cell| cell.level(&setting.key)).collect::<HashSet<_>>().len()
    };
    let places = settings.first().into_iter().chain(settings.last()).map(levels).max().unwrap_or(0);
    let others = settings.get(1..settings.len().saturating_sub(1)).unwrap_or_default();
    let panels = scene.cells.iter().map(|cell| name_of(cell, others)).collect::<HashSet<String>>().len();
    (places, if others.is_empty() { 1 } else { panels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Key, Level, Levels, RunSummary, Source, fixture, summarise_run};
    use crate::figure::{Comparison, Place, Study, compare};

    /// One run in each of so many cells, which differ in their batch size.
    fn runs(count: usize) -> Vec<RunSummary> {
        let one = summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.01));
        let run = |batch_size: i64| {
            let level = |(key, level): (&Key, &Level)| match &**key {
                "batch_size" => (key.clone(), Level::Integer(batch_size)),
                _ => (key.clone(), level.clone()),
            };
            let levels = Levels::new(one.levels.iter().map(level).collect());
            let identity = None;
            let (run, cell) = (format!("r{batch_size}"), format!("c{batch_size}"));
            RunSummary { run, cell, levels, identity, ..one.clone() }
        };
        (1..=count as i64).map(run).collect()
    }

    fn compared(runs: &[RunSummary], study: &Study) -> Comparison {
        compare(&[Source { session: "", runs, reports: &[] }], study)
    }

    #[test]
    fn bars_of_more_cells_than_can_be_told_apart_are_not_drawn_and_their_note_says_what_to_do() {
        let (many, few) = (runs(MOST_PLACES + 1), runs(MOST_PLACES));
        for form in [Form::Bars, Form::Memory, Form::Repeats, Form::Map] {
            let study = Study { form, measure: Some("step_time_s".into()), ..Study::default() };
            let drawn = compared(&many, &study);
            assert!(drawn.charts.iter().all(Chart::is_empty), "{form:?}");
            let note = &drawn.charts[0].notes[0];
            assert!(note.contains("1001") && note.contains("filter") && note.contains("--form scatter"), "{note}");
            assert_eq!(drawn.table.rows.len(), many.len());
            assert!(!compared(&few, &study).charts[0].is_empty(), "{form:?}");
        }
    }

    #[test]
    fn more_panels_than_can_be_told_apart_are_not_drawn() {
        let study = Study {
            form: Form::Scatter,
            measure: Some("step_time_s".into()),
            across: Some("throughput".into()),
            columns: Place::Setting("batch_size".into()),
            ..Study::default()
        };
        let drawn = compared(&runs(MOST_PANELS + 1), &study);
        assert!(drawn.charts.iter().all(Chart::is_empty));
        assert!(drawn.charts[0].notes[0].contains("101 panels"), "{:?}", drawn.charts[0].notes);
        assert!(!compared(&runs(MOST_PANELS), &study).charts[0].is_empty());
    }
}
