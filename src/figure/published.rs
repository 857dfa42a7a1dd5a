//! Adds what a paper prints to measured values: columns in a table, hollow marks in a chart, and notes.

use serde::Serialize;

use super::chart::{Chart, Geometry, Point, Role, Series};
use super::number::{capitalised, counted};
use super::ratio::{finished, scaled};
use super::sibling::Against;
use super::study::{Place, Study};
use super::table::{CellValue, Column, Row, Table};
use crate::analysis::{
    Cell, Interval, Key, Level, Measure, Method, RunState, RunSummary, Value, measure_of, summarise,
};
use crate::papers::{Artefact, Coverage, Deviation, Deviations, Printed, artefact, coverage, deviations};
use crate::plan::{AskedCell, Plan, asked_cells, plan_of_cells};

/// Maximum number of cells, and of contradictions, that a note names.
const NAMED: usize = 4;

/// How a session compares with a paper's table or figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfPaper {
    /// The artefact's id: `2503.15252/table-2`.
    pub id: String,
    /// Its name and subject: `2503.15252 Table 2: precision over GPUs`.
    pub title: String,
    /// The number of cells in the paper's plan; 0 if there is no plan.
    pub asked: usize,
    /// The cells without a finished run, by the levels that the plan varies.
    pub missing: Vec<String>,
    /// How many of the missing cells are shown with other settings.
    pub otherwise: usize,
    /// The cells of a quick plan that have full runs, which measure more, but no quick ones.
    pub full: Vec<String>,
    /// The plan of the missing cells.
    #[serde(skip)]
    pub plan_of_missing: Option<Plan>,
    /// Whether a shown cell has a level that differs from the paper's, or corresponds to no cell of the paper.
    pub deviates: bool,
    /// Notes for the reader, one sentence each, the most important first.
    pub notes: Vec<String>,
    /// How many notes, counted from the first, change how a row is read.
    #[serde(skip)]
    pub lead: usize,
}

/// The table or figure that a study belongs to.
fn artefact_of(study: &Study) -> Option<&'static Artefact> {
    study.paper.as_ref().and_then(|id| artefact(id).ok())
}

/// Notes on cells of a paper's table or figure that are missing, that have other settings, or that have full runs.
fn presence_notes(artefact: &Artefact, asked: usize, [absent, otherwise, full]: [&[String]; 3]) -> Vec<String> {
    let count = |cells: usize| if cells == asked { "all".to_owned() } else { format!("{cells} of the") };
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    let mut notes = Vec::new();
    if !absent.is_empty() {
        notes.push(format!(
            "{} {asked} cells of {artefact} {} missing: {}; multicard run --preset {} --resume --session DIR runs {}",
            count(absent.len()),
            are(absent.len()),
            named(absent, "; "),
            artefact.id(),
            if absent.len() == 1 { "it" } else { "them" }
        ));
    }
    if !otherwise.is_empty() {
        notes.push(format!(
            "{} {asked} cells of {artefact} {} here with other settings than the paper's: {}",
            count(otherwise.len()),
            are(otherwise.len()),
            named(otherwise, "; ")
        ));
    }
    if !full.is_empty() {
        notes.push(format!(
            "{} of the {asked} cells {} full runs, which measure more than the plan's quick runs and are never pooled with them: {}",
            full.len(),
            if full.len() == 1 { "has" } else { "have" },
            named(full, "; ")
        ));
    }
    notes
}

/// How the shown cells, and all cells that they are selected from, compare with the paper's table or figure.
pub(super) fn of_paper<'a>(
    study: &Study,
    shown: &[Cell],
    runs: impl IntoIterator<Item = &'a RunSummary>,
) -> Option<OfPaper> {
    let artefact = artefact_of(study)?;
    let id = artefact.id();
    let mut notes = Vec::new();
    if let Some(needs) = &artefact.needs {
        notes.push(format!("{artefact} cannot be measured by multicard, or only in part: {needs}"));
    }
    let coverage = artefact.plan().map(|plan| coverage(plan, runs));
    let names = |cells_of: fn(&Coverage) -> &[AskedCell]| -> Vec<String> {
        coverage.iter().flat_map(|all| cells_of(all).iter().map(|cell| all.name(cell))).collect()
    };
    let (missing, full) = (names(|all| &all.missing), names(|all| &all.full));
    let plan_of_missing = artefact.plan().and_then(|plan| plan_of_cells(plan, &coverage.as_ref()?.missing));
    let asked = coverage.as_ref().map_or(0, |all| all.asked);
    let deviations_of_cells = deviations(artefact, shown);
    let (otherwise, absent) =
        coverage.as_ref().map_or_else(Default::default, |all| told_apart(all, &deviations_of_cells, shown));
    notes.extend(presence_notes(artefact, asked, [&absent, &otherwise, &full]));
    let (deviating, strangers) = (deviations_of_cells.all(), deviations_of_cells.strangers());
    let deviates = asked > 0 && !(deviating.is_empty() && strangers == 0);
    if !deviating.is_empty() {
        let deviating: Vec<String> = deviating.iter().map(|one| deviation(one, shown.len())).collect();
        notes.push(format!("settings of the cells that differ from {artefact}: {}", deviating.join("; ")));
    }
    if strangers > 0 && asked > 0 {
        let which = if strangers == shown.len() { "none of the cells" } else { "not all cells" };
        notes.push(format!("{which} are among those of {artefact}: {} with other levels", counted(strangers, "cell")));
    }
    let lead = notes.len();
    notes.extend(artefact.differs.iter().map(|text| format!("different from the paper: {text}")));
    notes.extend(companion_note(artefact, study, shown));
    for contradiction in artefact.contradictions() {
        notes.push(format!("the papers contradict themselves ({}): {}", contradiction.place, contradiction.what));
    }
    if artefact.values().next().is_some()
        && let Some(paper) = artefact.paper()
    {
        let (node, id) = (&paper.node, &paper.id);
        notes.push(format!(
            "published values are those of arXiv {id}: {node}; the paper states no repeats, intervals or spreads"
        ));
    }
    Some(OfPaper {
        title: format!("{artefact}: {}", artefact.shows),
        id,
        asked,
        missing,
        otherwise: otherwise.len(),
        full,
        plan_of_missing,
        deviates,
        notes,
        lead,
    })
}

/// The names of a plan's missing cells, in two lists: cells that are shown with other settings, and all other cells.
fn told_apart(coverage: &Coverage, deviations: &Deviations, shown: &[Cell]) -> (Vec<String>, Vec<String>) {
    let is_done = |cell: &Cell| cell.runs.iter().any(|run| run.state == RunState::Finished);
    let here: Vec<usize> =
        deviations.places.iter().zip(shown).filter(|(_, cell)| is_done(cell)).filter_map(|(place, _)| *place).collect();
    let (otherwise, absent): (Vec<&AskedCell>, Vec<&AskedCell>) = coverage.missing.iter().partition(|cell| {
        coverage
            .places
            .iter()
            .position(|identity| *identity == cell.identity)
            .is_some_and(|place| here.contains(&place))
    });
    let names = |cells: Vec<&AskedCell>| cells.into_iter().map(|cell| coverage.name(cell)).collect();
    (names(otherwise), names(absent))
}

/// How to fill the columns that quick runs leave empty.
fn companion_note(artefact: &Artefact, study: &Study, shown: &[Cell]) -> Option<String> {
    let id = artefact.companion_id()?;
    let is_quick = |cell: &Cell| !cell.mode().is_full();
    let is_filled = |cell: &Cell| full_sibling(cell, shown).is_some();
    let asks = study.table_measures().iter().any(|key| FILLED.contains(&&**key));
    (asks && shown.iter().any(|cell| is_quick(cell) && !is_filled(cell))).then(|| {
        format!("accuracy needs full runs, which are missing: multicard run --preset {id} --resume --session DIR runs one per cell")
    })
}

/// Measures of a table that full runs have and quick runs do not.
const FILLED: [&str; 1] = ["accuracy"];

/// The cell of full runs that is equal to a quick cell in all other settings.
fn full_sibling<'a, 'b>(cell: &Cell, all: &'b [Cell<'a>]) -> Option<&'b Cell<'a>> {
    all.iter().find(|other| other.mode().is_full() && other.is_like_but_for_mode(cell))
}

/// Fills measures of learning in rows of quick runs with values from full runs of the same cells, and adds a note.
pub(super) fn add_full_runs(table: &mut Table, study: &Study, shown: &[Cell], all: &[Cell]) {
    if artefact_of(study).is_none() || table.rows.len() != shown.len() {
        return;
    }
    let mut filled: Vec<String> = Vec::new();
    for (place, column) in table.columns.iter().enumerate() {
        let Some(measure) = measure_of(shown, &column.key).filter(|_| FILLED.contains(&&*column.key)) else { continue };
        for (row, cell) in table.rows.iter_mut().zip(shown).filter(|(_, cell)| !cell.mode().is_full()) {
            let Some(full) = full_sibling(cell, all).filter(|_| row.values[place] == CellValue::Missing) else {
                continue;
            };
            let values: Vec<f64> = finished(full).filter_map(|run| run.value_alone(measure)).collect();
            if let Some(value) = summarise(&values) {
                row.values[place] = CellValue::Measure(value);
                if !filled.contains(&column.name) {
                    filled.push(column.name.clone());
                }
            }
        }
    }
    if !filled.is_empty() {
        let note = format!(
            "{} of quick rows comes from full runs of the same cells, whose number is next to it; everything else in the row comes from its quick \
             runs",
            filled.join(", ")
        );
        table.lead.push(note.clone());
        table.notes.push(note);
    }
}

/// Sorts rows by the paper's levels, and removes rows of full runs whose values rows of quick runs show.
pub(super) fn in_order_of_paper(table: &mut Table, study: &Study, shown: &[Cell]) {
    let Some(plan) = artefact_of(study).and_then(Artefact::plan).filter(|_| table.rows.len() == shown.len()) else {
        return;
    };
    let asked = asked_cells(plan);
    let keys = [&study.rows, &study.columns, &study.colour];
    let keys: Vec<&Key> =
        keys.into_iter().filter_map(|place| if let Place::Setting(key) = place { Some(key) } else { None }).collect();
    let place = |cell: &Cell, key: &Key| {
        let mut levels: Vec<Level> = Vec::new();
        for level in asked.iter().filter_map(|asked| asked.levels.get(key)) {
            if !levels.contains(level) {
                levels.push(level.clone());
            }
        }
        levels.iter().position(|level| cell.level(key).as_ref() == Some(level)).unwrap_or(levels.len())
    };
    let takes = |cell: &Cell| {
        cell.mode().is_full() && shown.iter().any(|other| !other.mode().is_full() && other.is_like_but_for_mode(cell))
    };
    let rows = std::mem::take(&mut table.rows);
    let mut rows: Vec<_> = rows.into_iter().zip(shown).filter(|(_, cell)| !takes(cell)).collect();
    rows.sort_by_cached_key(|(_, cell)| keys.iter().map(|key| place(cell, key)).collect::<Vec<_>>());
    table.rows = rows.into_iter().map(|(row, _)| row).collect();
}

fn named(names: &[String], between: &str) -> String {
    let more = names.len().saturating_sub(NAMED);
    let shown = names[..names.len() - more].join(between);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// A deviation as text: `epochs = 1 rather than 20 (all cells)`.
fn deviation(deviation: &Deviation, shown: usize) -> String {
    let Deviation { key, own, paper, open, cells } = deviation;
    let own = own.as_ref().map_or("unknown".to_owned(), ToString::to_string);
    let which = if *cells == shown { "all cells".to_owned() } else { format!("{cells} of {shown} cells") };
    let open = if *open { ", which the paper does not state" } else { "" };
    format!("{key} = {own} rather than {paper}{open} ({which})")
}

/// Adds two columns after a measure's column: the values that the paper prints, and the measured value divided by the published one.
pub(super) fn add_columns(table: &mut Table, study: &Study, cells: &[Cell]) {
    let Some(artefact) = artefact_of(study).filter(|_| table.rows.len() == cells.len()) else { return };
    let deviations_of_cells = deviations(artefact, cells);
    let mut place = 0;
    let mut is_any = false;
    let mut left_out: Vec<String> = Vec::new();
    while place < table.columns.len() {
        let column = &table.columns[place];
        let unit = (column.shown_unit.as_str(), column.shown_factor);
        let printed = |(at, cell): (usize, &Cell)| {
            artefact
                .printed(&column.key, &|key: &str| cell.level(key), unit)
                .filter(|_| deviations_of_cells.is_of_paper(at))
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
            Column { key: format!("published_{key}").into(), name: published_name(key, name), ..column.clone() };
        let ratio = Column {
            key: format!("{key}_over_published").into(),
            name: format!("{name}, measured over published"),
            unit: "×".into(),
            shown_unit: "×".into(),
            shown_factor: 1.0,
            is_measure: true,
        };
        // A ratio of ratios would be meaningless.
        let is_ratio = column.unit == "×" || Against::find(key).is_some();
        let added: Vec<Column> = if is_ratio { vec![published] } else { vec![published, ratio] };
        let count = added.len();
        let measure = measure_of(cells, &column.key);
        table.columns.splice(place + 1..=place, added);
        for (at, (row, printed)) in table.rows.iter_mut().zip(&printed).enumerate() {
            let published = printed.map_or(CellValue::Missing, |printed| CellValue::Measure(printed_value(printed)));
            let is_same = measure.is_none_or(|measure| deviations_of_cells.is_same_work(at, measure));
            let over = if is_same { over(row, place, *printed) } else { CellValue::Missing };
            row.values.splice(place + 1..=place, [published, over].into_iter().take(count));
        }
        if let Some(measure) = measure.filter(|_| count > 1) {
            left_out.extend(other_work(&deviations_of_cells, measure, cells.len()));
        }
        place += 1 + count;
    }
    if is_any {
        table.notes.push(
            "measured over published: the paper's machine, software and images were different; ranges are over conditions that \
             the paper joins, and the ratio is over their middle"
                .to_owned(),
        );
    }
    table.lead.extend(left_out.iter().cloned());
    table.notes.extend(left_out);
}

/// The name of a measure as the papers print it. What they call total time is compared with the training time.
fn published_name(key: &str, name: &str) -> String {
    if key == "training_time_s" { "Total time, published".to_owned() } else { format!("{name}, published") }
}

/// Why some cells of a measure are not compared with the published values.
fn other_work(deviations: &Deviations, measure: &Measure, cells: usize) -> Option<String> {
    let deviating: Vec<String> = deviations.other_work(measure).iter().map(|one| deviation(one, cells)).collect();
    let name = measure.name.to_lowercase();
    let why = deviating.join("; ");
    (!why.is_empty()).then(|| format!("{name} is not compared with the paper's if the work is different: {why}"))
}

fn over(row: &Row, place: usize, printed: Option<Printed>) -> CellValue {
    let (CellValue::Measure(value), Some(printed)) = (&row.values[place], printed) else { return CellValue::Missing };
    CellValue::Measure(scaled(*value, printed.middle().recip()))
}

/// A printed value; its number of repeats is unknown.
fn printed_value(printed: Printed) -> Value {
    let interval = printed.number().is_none().then_some(Interval { low: printed.low, high: printed.high });
    Value { median: printed.middle(), interval, n: 0, method: Method::One }
}

/// Adds the published values of the shown measure as hollow marks: one more series for each measured one, with its name and look.
pub(super) fn add_marks(charts: &mut [Chart], study: &Study, cells: &[Cell]) {
    let Some(artefact) = artefact_of(study) else { return };
    let key = study.shown_measure();
    let Some(measure) = measure_of(cells, key) else { return };
    let deviations_of_cells = deviations(artefact, cells);
    let of_measure = |chart: &&mut Chart| {
        matches!(chart.geometry, Geometry::Bars | Geometry::Scaling) && chart.y.name == measure.name
    };
    for chart in charts.iter_mut().filter(of_measure) {
        for panel in &mut chart.panels {
            let published = panel.series.iter().filter(|series| series.role == Role::Measured).filter_map(|series| {
                let point = |point: &Point| {
                    let place = cells.iter().position(|cell| Some(cell.key()) == point.cell)?;
                    let cell = Some(&cells[place]).filter(|_| {
                        deviations_of_cells.is_of_paper(place) && deviations_of_cells.is_same_work(place, measure)
                    })?;
                    let unit = (measure.shown_unit.as_str(), measure.shown_factor);
                    let printed = artefact.printed(key, &|key: &str| cell.level(key), unit)?;
                    let value = scaled(printed_value(printed), measure.shown_factor);
                    Some(Point { x: point.x, across: None, value, ratio: None, cell: None })
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
            && let Some(note) = other_work(&deviations_of_cells, measure, cells.len())
        {
            chart.notes.push(capitalised(&note) + ".");
        }
    }
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;
