#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::analysis::{Environment, RunSummary, Source, fixture, summarise_run};
use crate::figure::paper::{Style, lay_out};
use crate::figure::{AxisName, AxisOverride, Comparison, Form, Overrides, compare, table};
use crate::plan::Filter;

/// One session a day, with two cells on a machine. From day `slower_from` on, fp32 is slower.
fn nights(count: u32, slower_from: u32, machine: impl Fn(u32) -> &'static str) -> Vec<(String, Vec<RunSummary>)> {
    let mut noise = fixture::Noise::new(2);
    let night = |day: u32| {
        let mut environment = Environment::default();
        environment.set("hostname", Some(machine(day)));
        environment.set("driver", Some(if day < slower_from { "570" } else { "580" }));
        let environment = Arc::new(environment);
        let mut run = |precision: &str, repeat: u32| {
            let slower = if precision == "fp32" && day >= slower_from { 1.25 } else { 1.0 };
            let step_time_s = 0.1 * slower * (1.0 + 0.01 * noise.normal());
            let mut record = fixture::run(&fixture::cell(precision, 1, "single"), repeat, step_time_s);
            record.started_time_s = Some(86_400.0 * f64::from(day) + f64::from(repeat));
            record.environment = Some(Arc::clone(&environment));
            summarise_run(&record)
        };
        let runs = (1..=3).flat_map(|repeat| [run("fp32", repeat), run("fp16", repeat)]).collect();
        (format!("night-{day:02}"), runs)
    };
    (0..count).map(night).collect()
}

fn sources(sessions: &[(String, Vec<RunSummary>)]) -> Vec<Source<'_>> {
    sessions.iter().map(|(session, runs)| Source { session, runs, reports: &[] }).collect()
}

fn study() -> Study {
    Study { form: Form::History, measure: Some("step_time_s".into()), ..Study::default() }
}

fn texts(comparison: &Comparison, key: &str) -> Vec<String> {
    let place = comparison.table.columns.iter().position(|column| column.key == key).unwrap();
    let text = |value: &CellValue| match value {
        CellValue::Text(text) => text.clone(),
        CellValue::Level(level) => level.to_string(),
        CellValue::Measure(value) => format!("{:.2}", value.median),
        _ => String::new(),
    };
    comparison.table.rows.iter().map(|row| text(&row.values[place])).collect()
}

#[test]
fn each_cell_has_a_line_over_sessions_and_its_changes_are_told_with_what_changed() {
    let sessions = nights(16, 10, |_| "gpu1");
    let shown = compare(&sources(&sessions), &study());
    let chart = &shown.charts[0];
    assert_eq!(chart.title, "Step time over dates");
    assert_eq!((chart.x.categories.len(), chart.x.categories[10].as_str()), (16, "1970-01-11"));
    let lines: Vec<(&str, usize)> =
        chart.legend().iter().map(|series| (series.name.as_str(), series.points.len())).collect();
    assert_eq!(lines, [("fp32", 16), ("fp16", 16)]);
    assert_eq!(chart.series().filter(|series| series.role == Role::Ideal).count(), 2, "the levels of fp32");
    let changes: Vec<(usize, String)> =
        texts(&shown, "change").into_iter().enumerate().filter(|(_, text)| !text.is_empty()).collect();
    assert_eq!(changes, [(10, "1.25".to_owned())], "rows are sorted by cell, then by date");
    assert_eq!(texts(&shown, "date")[..2], ["1970-01-01", "1970-01-02"]);
    let sentence = &shown.table.notes.iter().find(|note| note.contains(" times [")).unwrap();
    assert!(
        sentence.starts_with("step time of fp32: 1.2") && sentence.contains("] since 1970-01-11 (95 %: between "),
        "{sentence}"
    );
    assert!(sentence.ends_with("); changed at the same time: NVIDIA driver"), "{sentence}");
    // If the track is alone in its panel, the place of the change is shaded.
    let alone = compare(&sources(&sessions), &Study { filter: "fp32".to_owned(), ..study() });
    let [_, region] = alone.charts[0].additions.as_slice() else { panic!("{:?}", alone.charts[0].additions) };
    let AdditionKind::Region { low, high, .. } = region.kind else { panic!("{region:?}") };
    assert!(low <= 9.0 && high >= 10.0 && high - low <= 5.0, "{low} to {high}");
    // What is shaded is said only where something is.
    let says_shaded = |chart: &Chart| chart.notes.iter().any(|note| note.contains("Shaded"));
    assert_eq!((says_shaded(&alone.charts[0]), says_shaded(chart)), (true, false));
    // The chart tells what was found; how it was sought is among the notes of the table.
    assert!(!chart.notes.iter().any(|note| note.contains("permutations")), "{:?}", chart.notes);
    assert!(shown.table.notes.iter().any(|note| note.contains("permutations")), "{:?}", shown.table.notes);
}

#[test]
fn the_size_of_a_change_stands_between_its_levels_whatever_multiple_of_the_unit_the_axis_shows() {
    let sessions = nights(16, 10, |_| "gpu1");
    let of_fp32 = Study { filter: "fp32".to_owned(), ..study() };
    let alone = compare(&sources(&sessions), &of_fp32);
    let [size, _] = alone.charts[0].additions.as_slice() else { panic!("{:?}", alone.charts[0].additions) };
    let AdditionKind::Text { x, y } = size.kind else { panic!("{size:?}") };
    assert!(size.text.starts_with("1.2") && size.text.contains("× [1.") && size.text.ends_with(']'), "{size:?}");
    assert!((x - 9.5).abs() < 1e-9 && (0.1..0.125).contains(&y), "{size:?}");
    assert!(alone.charts[0].notes.iter().any(|note| note.contains("Numbers: ")), "{:?}", alone.charts[0].notes);
    // The axis shows the values in ms, or in the unit that the author chooses.
    let unit = |unit: &str| AxisOverride { axis: AxisName::Y, unit: Some(unit.to_owned()), ..AxisOverride::default() };
    for axes in [Vec::new(), vec![unit("s")], vec![unit("µs")]] {
        let mut charts = alone.charts.clone();
        let wrong = Overrides { axes, ..Overrides::default() }.apply(&mut charts, &[], &|_| Vec::new());
        assert!(wrong.is_empty(), "{wrong:?}");
        let scene = lay_out(&charts, &Style::default());
        let label = scene.texts().find(|text| text.text == size.text).unwrap();
        let height = |nth: usize| scene.marks[nth].area.top + scene.marks[nth].area.height / 2.0;
        let (before, after) = (height(9), height(10));
        assert!(after < label.y && label.y < before, "{} is not between {after} and {before}", label.y);
    }
}

#[test]
fn a_filter_by_day_leaves_the_sessions_of_these_days() {
    let sessions = nights(12, 99, |_| "gpu1");
    let filter = "date>=1970-01-03 and date<1970-01-06 and fp16";
    Filter::parse(filter).unwrap();
    let shown = compare(&sources(&sessions), &Study { filter: filter.to_owned(), ..study() });
    assert_eq!(texts(&shown, "session"), ["night-02", "night-03", "night-04"]);
    let note = shown.table.notes.iter().find(|note| note.contains("8 or more"));
    assert_eq!(note.map(String::as_str), Some("3 sessions are too few to show a change: 8 or more can"));
}

#[test]
fn machines_have_histories_of_their_own_unless_they_are_pooled() {
    let sessions = nights(16, 99, |day| if day % 2 == 0 { "gpu1" } else { "gpu2" });
    let shown = compare(&sources(&sessions), &study());
    let mut names: Vec<&str> = shown.charts[0].legend().iter().map(|series| series.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["fp16 · gpu1", "fp16 · gpu2", "fp32 · gpu1", "fp32 · gpu2"]);
    let pooled = compare(&sources(&sessions), &Study { pool: vec!["hostname".into()], ..study() });
    assert_eq!(pooled.charts[0].legend().len(), 2);
}

#[test]
fn cells_of_several_sessions_have_columns_of_what_differs_between_these() {
    let sessions = nights(3, 2, |day| if day == 0 { "gpu1" } else { "gpu2" });
    let bars = table(&sources(&sessions), &Study { measure: Some("step_time_s".into()), ..Study::default() });
    let keys: Vec<&str> = bars.columns.iter().map(|column| &*column.key).take(4).collect();
    assert_eq!(keys, ["session", "machine", "date", "precision"]);
    let place = bars.columns.iter().position(|column| column.key == "verdict").unwrap();
    let CellValue::Verdict(judged) = &bars.rows[2].values[place] else { panic!("{:?}", bars.rows[2]) };
    let reason = judged.reason.as_ref().unwrap().to_string();
    assert_eq!(reason, "measured in different sessions; they differ in Machine, NVIDIA driver");
}

#[test]
fn bars_of_many_sessions_say_that_a_history_shows_them() {
    let shown = |count: u32, study: Study| compare(&sources(&nights(count, 99, |_| "gpu1")), &study);
    let bars = Study { measure: Some("step_time_s".into()), ..Study::default() };
    let many = shown(9, bars.clone());
    assert_eq!(many.occasions, Some(9));
    assert!(many.table.notes.iter().any(|note| note.contains("9 sessions") && note.contains("--form history")));
    let few = shown(3, bars);
    assert_eq!(few.occasions, None);
    assert!(!few.table.notes.iter().any(|note| note.contains("--form history")), "{:?}", few.table.notes);
    assert_eq!(shown(9, study()).occasions, None, "it is a history");
}

#[test]
fn a_single_session_says_that_a_history_needs_several() {
    let sessions = nights(1, 9, |_| "gpu1");
    let shown = compare(&sources(&sessions), &study());
    assert!(
        shown.table.notes.iter().any(|note| note.starts_with("a history needs a cell that ran in several sessions"))
    );
}

#[test]
fn what_cells_were_made_with_has_no_column_where_it_only_repeats_their_commits() {
    let run = |number: u32, driver: Option<&str>| {
        let mut environment = Environment::default();
        environment.set("program_git", Some(format!("abc000{number}")));
        environment.set("driver", driver);
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), number, 0.1);
        record.environment = Some(Arc::new(environment));
        summarise_run(&record)
    };
    let columns = |drivers: [Option<&str>; 2]| {
        let runs = [run(1, drivers[0]), run(2, drivers[1])];
        let sources = [Source { session: "", runs: &runs, reports: &[] }];
        let keys = compare(&sources, &study()).table.columns;
        keys.iter()
            .map(|column| column.key.to_string())
            .filter(|key| ["commit", "made_with"].contains(&&**key))
            .collect()
    };
    let both: Vec<String> = columns([Some("570"), Some("580")]);
    let commits: Vec<String> = columns([None, None]);
    assert_eq!((both.contains(&"made_with".to_owned()), commits), (true, vec!["commit".to_owned()]));
}

#[test]
fn a_history_does_not_say_that_its_commits_differ_but_says_what_else_does() {
    let run = |number: u32| {
        let mut environment = Environment::default();
        environment.set("program_git", Some(format!("abc000{number}")));
        environment.set("kernel", Some(format!("6.{number}")));
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), number, 0.1);
        record.environment = Some(Arc::new(environment));
        summarise_run(&record)
    };
    let runs = [run(1), run(2)];
    let sources = [Source { session: "", runs: &runs, reports: &[] }];
    let names = |study: &Study| -> Vec<&'static str> {
        let notes = table(&sources, study).notes;
        let differs = |name: &&str| notes.iter().any(|note| note.contains(&format!("environment: {name} differs")));
        ["Program's git commit", "Linux kernel"].into_iter().filter(differs).collect()
    };
    assert_eq!(names(&study()), ["Linux kernel"]);
    assert_eq!(names(&Study { form: Form::Bars, ..study() }), ["Program's git commit", "Linux kernel"]);
}
