//! What a paper prints, beside what was measured: columns of a table, hollow marks of a chart, and what must be said of them.

use serde::Serialize;

use super::chart::{Chart, Geometry, Point, Role, Series};
use super::number::capitalised;
use super::ratio::scaled;
use super::study::Study;
use super::table::{CellValue, Column, Row, Table};
use crate::analysis::{Cell, Interval, Measure, Method, RunSummary, Value, measure_of};
use crate::papers::{Artefact, Coverage, Deviation, Deviations, Printed, artefact, coverage, deviations};
use crate::plan::{AskedCell, Plan, plan_of_cells};

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
    /// Those of a quick plan that have full runs, which tell more, in place of quick ones.
    pub full: Vec<String>,
    /// The plan of the missing cells.
    #[serde(skip)]
    pub plan_of_missing: Option<Plan>,
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
    let names = |of: fn(&Coverage) -> &[AskedCell]| -> Vec<String> {
        coverage.iter().flat_map(|all| of(all).iter().map(|cell| all.name(cell))).collect()
    };
    let (missing, full) = (names(|all| &all.missing), names(|all| &all.full));
    let plan_of_missing = artefact.plan().and_then(|plan| plan_of_cells(plan, &coverage.as_ref()?.missing));
    let asked = coverage.as_ref().map_or(0, |all| all.asked);
    if !missing.is_empty() {
        let count = if missing.len() == asked { "all".to_owned() } else { format!("{} of the", missing.len()) };
        notes.push(format!(
            "{count} {asked} cells of {artefact} are missing: {}; multicard run --preset {id} --resume --session DIR runs \
             them",
            named(&missing, "; ")
        ));
    }
    if !full.is_empty() {
        notes.push(format!(
            "{} of the {asked} cells have full runs, which tell more than the quick ones of the plan and never pool with them: {}",
            full.len(),
            named(&full, "; ")
        ));
    }
    let found = deviations(artefact, shown);
    let (deviating, strangers) = (found.all(), found.strangers());
    let deviates = asked > 0 && !(deviating.is_empty() && strangers == 0);
    if !deviating.is_empty() {
        let deviating: Vec<String> = deviating.iter().map(|one| deviation(one, shown.len())).collect();
        notes.push(format!("the cells deviate from {artefact}: {}", deviating.join("; ")));
    }
    if strangers > 0 && asked > 0 {
        let of = if strangers == shown.len() { "none of the cells" } else { "not all cells" };
        notes.push(format!("{of} are among those of {artefact}: {strangers} have other levels"));
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
    Some(OfPaper {
        title: format!("{artefact}: {}", artefact.shows),
        id,
        asked,
        missing,
        full,
        plan_of_missing,
        deviates,
        notes,
    })
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
    let found = deviations(artefact, cells);
    let mut place = 0;
    let mut is_any = false;
    let mut left_out: Vec<String> = Vec::new();
    while place < table.columns.len() {
        let column = &table.columns[place];
        let unit = (column.shown_unit.as_str(), column.shown_factor);
        let printed = |(at, cell): (usize, &Cell)| {
            artefact.printed(&column.key, &|key: &str| cell.level(key), unit).filter(|_| found.is_of_paper(at))
        };
        let printed: Vec<Option<Printed>> = cells.iter().enumerate().map(printed).collect();
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
        let measure = measure_of(cells, &column.key);
        table.columns.splice(place + 1..=place, added);
        for (at, (row, printed)) in table.rows.iter_mut().zip(&printed).enumerate() {
            let published = printed.map_or(CellValue::Missing, |printed| CellValue::Measure(printed_value(printed)));
            let is_same = measure.is_none_or(|measure| found.is_same_work(at, measure));
            let over = if is_same { over(row, place, *printed) } else { CellValue::Missing };
            row.values.splice(place + 1..=place, [published, over].into_iter().take(count));
        }
        if let Some(measure) = measure.filter(|_| count > 1) {
            left_out.extend(other_work(&found, measure, cells.len()));
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
    table.notes.extend(left_out);
}

/// Why some cells of a measure are not held against what the paper prints.
fn other_work(found: &Deviations, measure: &Measure, cells: usize) -> Option<String> {
    let deviating: Vec<String> = found.other_work(measure).iter().map(|one| deviation(one, cells)).collect();
    let name = measure.name.to_lowercase();
    let why = deviating.join("; ");
    (!why.is_empty()).then(|| format!("{name} is not held against the paper's where the work is another: {why}"))
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
    let found = deviations(artefact, cells);
    let of_measure = |chart: &&mut Chart| {
        matches!(chart.geometry, Geometry::Bars | Geometry::Scaling) && chart.y.name == measure.name
    };
    for chart in charts.iter_mut().filter(of_measure) {
        for panel in &mut chart.panels {
            let published = panel.series.iter().filter(|series| series.role == Role::Measured).filter_map(|series| {
                let point = |point: &Point| {
                    let place = cells.iter().position(|cell| Some(cell.key()) == point.cell)?;
                    let cell = Some(&cells[place])
                        .filter(|_| found.is_of_paper(place) && found.is_same_work(place, measure))?;
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
        let is_printed = |cell: &Cell| {
            artefact.printed(key, &|key: &str| cell.level(key), (&measure.shown_unit, measure.shown_factor)).is_some()
        };
        if cells.iter().any(is_printed)
            && let Some(note) = other_work(&found, measure, cells.len())
        {
            chart.notes.push(capitalised(&note) + ".");
        }
    }
}
