//! What a paper prints, beside what was measured: columns of a table, hollow marks of a chart, and what must be said of them.

use serde::Serialize;

use super::chart::{Chart, Geometry, Point, Role, Series};
use super::study::Study;
use super::table::{CellValue, Column, Row, Table, scaled};
use crate::analysis::{Cell, Interval, Method, RunSummary, Value, measure_of};
use crate::papers::{Artefact, Deviation, Printed, artefact, coverage, deviations};

/// Cells and contradictions that a note names.
const NAMED: usize = 4;

/// What a session has of a paper's table or figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfPaper {
    /// The artefact's id: `2503.15252/table-2`.
    pub id: String,
    /// `2503.15252 Table 2: precision over GPUs`
    pub title: String,
    /// Cells that the paper's setting has; 0 where there is no plan of it.
    pub asked: usize,
    /// Those without a finished run, by the levels that the plan varies.
    pub missing: Vec<String>,
    /// Some shown cell has another level than the paper's, or is none of the paper's.
    pub deviates: bool,
    /// What a reader must know, one sentence each, the weightiest first.
    pub notes: Vec<String>,
}

/// The table or figure that a study is of.
fn of(study: &Study) -> Option<&'static Artefact> {
    study.paper.as_ref().and_then(|id| artefact(id).ok())
}

/// What the shown cells, and all runs that they are chosen from, have of the paper's table or figure.
pub(super) fn of_paper<'a>(
    study: &Study,
    shown: &[Cell],
    runs: impl IntoIterator<Item = &'a RunSummary>,
) -> Option<OfPaper> {
    let artefact = of(study)?;
    let id = artefact.id();
    let mut notes = Vec::new();
    if let Some(needs) = &artefact.needs {
        notes.push(format!("{artefact} cannot be measured here, or not wholly: {needs}"));
    }
    let coverage = artefact.plan().map(|plan| coverage(plan, runs));
    let missing: Vec<String> = coverage.iter().flat_map(|all| all.missing.iter().map(|cell| all.name(cell))).collect();
    let asked = coverage.as_ref().map_or(0, |all| all.asked);
    if !missing.is_empty() {
        let count = if missing.len() == asked { "all".to_owned() } else { format!("{} of the", missing.len()) };
        notes.push(format!(
            "{count} {asked} cells of {artefact} are missing: {}; multicard run --preset {id} --resume --session DIR runs \
             them",
            named(&missing, "; ")
        ));
    }
    let (deviating, strangers) = deviations(artefact, shown);
    let deviates = asked > 0 && !(deviating.is_empty() && strangers.is_empty());
    if !deviating.is_empty() {
        let deviating: Vec<String> = deviating.iter().map(|one| deviation(one, shown.len())).collect();
        notes.push(format!("the cells deviate from {artefact}: {}", deviating.join("; ")));
    }
    if !strangers.is_empty() && asked > 0 {
        let of = if strangers.len() == shown.len() { "none of the cells" } else { "not all cells" };
        notes.push(format!("{of} are among those of {artefact}: {} have other levels", strangers.len()));
    }
    for contradiction in artefact.contradictions() {
        notes.push(format!("the papers contradict themselves ({}): {}", contradiction.place, contradiction.what));
    }
    if artefact.values().next().is_some()
        && let Some(paper) = artefact.paper()
    {
        let (node, id) = (&paper.node, &paper.id);
        notes.push(format!("published values are of arXiv {id}: {node}; it states no repeats, intervals or spreads"));
    }
    Some(OfPaper { title: format!("{artefact}: {}", artefact.shows), id, asked, missing, deviates, notes })
}

fn named(names: &[String], between: &str) -> String {
    let more = names.len().saturating_sub(NAMED);
    let shown = names[..names.len() - more].join(between);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// `epochs = 1 rather than 20 (all cells)`
fn deviation(deviation: &Deviation, shown: usize) -> String {
    let Deviation { key, own, paper, open, cells } = deviation;
    let own = own.as_ref().map_or("unknown".to_owned(), ToString::to_string);
    let of = if *cells == shown { "all cells".to_owned() } else { format!("{cells} of {shown} cells") };
    let open = if *open { ", which the paper leaves open" } else { "" };
    format!("{key} = {own} rather than {paper}{open} ({of})")
}

/// Puts what the paper prints of a measure, and the measured value over it, behind the measure's column.
pub(super) fn add_columns(table: &mut Table, study: &Study, cells: &[Cell]) {
    let Some(artefact) = of(study).filter(|_| table.rows.len() == cells.len()) else { return };
    let mut place = 0;
    let mut is_any = false;
    while place < table.columns.len() {
        let column = &table.columns[place];
        let unit = (column.shown_unit.as_str(), column.shown_factor);
        let printed = |cell: &Cell| artefact.printed(&column.key, &|key: &str| cell.level(key), unit);
        let printed: Vec<Option<Printed>> = cells.iter().map(printed).collect();
        if !column.is_measure || printed.iter().all(Option::is_none) {
            place += 1;
            continue;
        }
        is_any = true;
        let column = column.clone();
        let (key, name) = (&column.key, &column.name);
        let published =
            Column { key: format!("published_{key}").into(), name: format!("{name}, published"), ..column.clone() };
        let ratio = Column {
            key: format!("{key}_over_published").into(),
            name: format!("{name}, measured over published"),
            unit: "×".into(),
            shown_unit: "×".into(),
            shown_factor: 1.0,
            is_measure: true,
        };
        // A ratio of ratios would say nothing.
        let added: Vec<Column> = if column.unit == "×" { vec![published] } else { vec![published, ratio] };
        let count = added.len();
        table.columns.splice(place + 1..=place, added);
        for (row, printed) in table.rows.iter_mut().zip(&printed) {
            let published = printed.map_or(CellValue::Missing, |printed| CellValue::Measure(printed_value(printed)));
            let added = [published, over(row, place, *printed)];
            row.values.splice(place + 1..=place, added.into_iter().take(count));
        }
        place += 1 + count;
    }
    if is_any {
        table.notes.push(
            "measured over published: the paper's machine, software and images are others; ranges are of conditions that \
             the paper joins, and the ratio is over their middle"
                .to_owned(),
        );
    }
}

fn over(row: &Row, place: usize, printed: Option<Printed>) -> CellValue {
    let (CellValue::Measure(value), Some(printed)) = (&row.values[place], printed) else { return CellValue::Missing };
    CellValue::Measure(scaled(*value, printed.middle().recip()))
}

/// A printed value: nobody says of how many repeats.
fn printed_value(printed: Printed) -> Value {
    let interval = printed.number().is_none().then_some(Interval { low: printed.low, high: printed.high });
    Value { median: printed.middle(), interval, n: 0, method: Method::One }
}

/// Adds what the paper prints of the shown measure as hollow marks: a series behind each measured one, of its name and look.
pub(super) fn add_marks(charts: &mut [Chart], study: &Study, cells: &[Cell]) {
    let Some(artefact) = of(study) else { return };
    let key = study.shown_measure();
    let Some(measure) = measure_of(cells, key) else { return };
    let of_measure = |chart: &&mut Chart| {
        matches!(chart.geometry, Geometry::Bars | Geometry::Scaling) && chart.y.name == measure.name
    };
    for chart in charts.iter_mut().filter(of_measure) {
        for panel in &mut chart.panels {
            let published = panel.series.iter().filter(|series| series.role == Role::Measured).filter_map(|series| {
                let point = |point: &Point| {
                    let cell = cells.iter().find(|cell| Some(cell.key()) == point.cell)?;
                    let unit = (measure.shown_unit.as_str(), measure.shown_factor);
                    let printed = artefact.printed(key, &|key: &str| cell.level(key), unit)?;
                    let value = scaled(printed_value(printed), measure.shown_factor);
                    Some(Point { x: point.x, value, ratio: None, cell: None })
                };
                let points: Vec<Point> = series.points.iter().filter_map(point).collect();
                (!points.is_empty()).then(|| Series { role: Role::Published, points, ..series.clone() })
            });
            let published: Vec<Series> = published.collect();
            panel.series.extend(published);
        }
    }
}
