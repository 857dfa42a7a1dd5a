//! What recurs: rows of a cell whose measured values are the same in all digits, and values of a measure that are the same in rows which
//! differ in other measures. Such rows may be copies of one row, runs of a program without randomness, or readings of a clock whose ticks
//! the digits do not show. Such values may be those of one run, beside each of several samples of another measure. A file does not tell
//! which, and none of them shows how much independent runs spread. They are imported and marked, and get no verdict.
//!
//! Where values have few digits, they recur by chance. How many rows do is estimated cell by cell, from how far apart the values are
//! ([`super::spacing`]). Rows recur in all columns at once, so that the column counts in which values are farthest apart. A column that is
//! another, coarser one times a number, or a number divided by it, has digits of arithmetic, and does not count: a rate that was computed
//! from whole milliseconds.
//!
//! A cell whose rows all have one value of three digits or more in each column shows no spread at all. It is marked whatever the chance.
//!
//! In other cells, the number of rows that recur by chance is distributed as by Poisson with a mean of at most m, the sum of these
//! estimates, so that r or more recur with a probability of at most e^(r − m) (m / r)^r (Chernoff's bound). Below 1 %, the cells with such
//! rows are marked. Cells whose values are so close to each other that chance is explanation enough are left out of both sums.
//!
//! The values of each measure are judged alone in the same way, but for what independent runs have in common: settings, which have few
//! digits; counts and amounts of memory; and the few states of a program. A measure of which this is known is only marked where its values
//! belong to those of a marked one: where rows with the same time also have the same memory.
//!
//! Times, energies, powers, rates and energy efficiencies *spread*: two independent runs hardly agree in four digits of them. One such value that recurs is
//! enough to judge them, and a cell whose rows all have one such value is marked whatever the chance: it may be the time of a single run.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::Problem;
use super::amount::is_efficiency;
use super::spacing::Column;
use super::table::{Field, ForeignTable};
use super::written::digits;
use crate::analysis::counted;

/// Values of fewer digits than these are of a coarse clock, which their comparison says.
const FEWEST_STEPS: f64 = 100.0;
/// What recurs with a lower probability than this does not recur by chance.
const CHANCE: f64 = 1e-2;
/// In a cell, fewer different values than these recur in independent runs, too, unless the measure spreads: memory may have two states.
const LEAST_DIFFERENT: usize = 3;
/// Settings, such as a learning rate, and limits, at which times may end, have fewer digits than these.
const FEWEST_DIGITS: usize = 4;

/// Rows by the place of their cell.
pub(super) type ByCell = BTreeMap<usize, Vec<usize>>;

/// What recurs in a table although chance does not explain it.
#[derive(Debug, Default)]
pub(super) struct Recurring {
    /// The rows whose measured values are all those of an earlier row of their cell.
    pub(super) rows: ByCell,
    /// By the place of a measure's column: the rows with the value of an earlier row of their cell, in other cells.
    pub(super) values: BTreeMap<usize, ByCell>,
}

/// What recurs in a table. `cells` are the places of the rows of each cell, in ascending order; `measures` are the places of the columns of
/// measures, with the units of these measures.
pub(super) fn recurring(table: &ForeignTable, cells: &[Vec<usize>], measures: &[(usize, &str)]) -> Recurring {
    let places: Vec<usize> = measures.iter().map(|(place, _)| *place).collect();
    let whole: Vec<Vec<usize>> = cells.iter().map(|rows| repeated(table, rows, &places)).collect();
    let again_in = |measure: &(usize, &str)| -> Vec<Vec<usize>> {
        cells.iter().zip(&whole).map(|(rows, whole)| repeated_alone(table, rows, *measure, whole)).collect()
    };
    let again: Vec<Vec<Vec<usize>>> = measures.iter().map(again_in).collect();
    if whole.iter().chain(again.iter().flatten()).all(Vec::is_empty) {
        return Recurring::default();
    }
    let columns: Vec<Column> = places.iter().map(|place| Column::of(table, *place)).collect();
    let rows = recurring_rows(cells, &whole, &columns);
    let mut judged: BTreeMap<usize, ByCell> = BTreeMap::new();
    for (column, (measure, again)) in columns.iter().zip(measures.iter().zip(&again)) {
        if column.digits < FEWEST_DIGITS || is_count(table, *measure) {
            continue;
        }
        let others = (0..cells.len()).filter(|cell| cells[*cell].len() > 1 && !rows.contains_key(cell));
        let is_frozen = |cell: &usize| !again[*cell].is_empty() && column.is_constant(&cells[*cell]);
        let found = judged_cells(others, again, is_frozen, |cell| column.by_chance(&cells[cell]));
        if !found.is_empty() && !columns.iter().any(|other| column.is_made_from(other, cells)) {
            judged.insert(measure.0, found);
        }
    }
    let rest = places.iter().zip(&again).filter(|(place, _)| !judged.contains_key(*place));
    let belonging: Vec<(usize, ByCell)> =
        rest.map(|(place, again)| (*place, belonging(table, cells, (*place, again), &judged))).collect();
    judged.extend(belonging.into_iter().filter(|(_, found)| !found.is_empty()));
    Recurring { rows, values: judged }
}

/// The rows of each cell that recur as a whole.
fn recurring_rows(cells: &[Vec<usize>], whole: &[Vec<usize>], columns: &[Column]) -> ByCell {
    if whole.iter().all(Vec::is_empty) {
        return ByCell::new();
    }
    let is_own = |one: &&Column| !columns.iter().any(|other| one.is_made_from(other, cells));
    let own: Vec<&Column> = columns.iter().filter(is_own).collect();
    let is_frozen = |cell: &usize| {
        let rows = &cells[*cell];
        whole[*cell].len() == rows.len() - 1 && own.iter().any(|column| column.steps(rows) >= FEWEST_STEPS)
    };
    let several = (0..cells.len()).filter(|cell| cells[*cell].len() > 1);
    let by_chance = |cell: usize| own.iter().filter_map(|column| column.by_chance(&cells[cell])).min_by(f64::total_cmp);
    judged_cells(several, whole, is_frozen, by_chance)
}

/// The rows that recur in these cells: in frozen cells whatever the chance, and in the others if chance does not explain how many do.
/// `again` are the rows of each cell that recur, and `by_chance` tells how many of a cell's rows recur by chance at most.
fn judged_cells(
    cells: impl Iterator<Item = usize>,
    again: &[Vec<usize>],
    is_frozen: impl Fn(&usize) -> bool,
    by_chance: impl Fn(usize) -> Option<f64>,
) -> ByCell {
    let (frozen, others): (Vec<usize>, Vec<usize>) = cells.partition(is_frozen);
    let mut found = beyond_chance(others.into_iter().map(|cell| (cell, &again[cell], by_chance(cell))));
    found.extend(frozen.into_iter().map(|cell| (cell, again[cell].clone())));
    found
}

/// The rows that recur, if chance does not explain how many do. Each cell comes with its rows that recur, and with how many of its rows
/// recur by chance at most; without, chance is explanation enough.
fn beyond_chance<'a>(cells: impl Iterator<Item = (usize, &'a Vec<usize>, Option<f64>)>) -> ByCell {
    let (mut found, mut expected) = (ByCell::new(), 0.0);
    for (cell, rows, by_chance) in cells {
        if let Some(by_chance) = by_chance {
            expected += by_chance;
            found.insert(cell, rows.clone());
        }
    }
    let count = found.values().map(Vec::len).sum::<usize>() as f64;
    let is_chance = count <= expected || count - expected + count * (expected / count).ln() >= CHANCE.ln();
    found.retain(|_, rows| !is_chance && !rows.is_empty());
    found
}

/// The rows whose measured values are those of an earlier row.
fn repeated(table: &ForeignTable, rows: &[usize], measures: &[usize]) -> Vec<usize> {
    let mut seen: BTreeSet<Vec<Option<u64>>> = BTreeSet::new();
    rows.iter().copied().filter(|row| !seen.insert(measured(table, *row, measures))).collect()
}

/// The rows that have the value of an earlier row in a measure's column without recurring as a `whole`. If there are few different such
/// values, only those of enough digits count, and only of a measure that spreads.
fn repeated_alone(table: &ForeignTable, rows: &[usize], (place, unit): (usize, &str), whole: &[usize]) -> Vec<usize> {
    let field = |row: &usize| &table.rows[*row].fields[place];
    let mut seen: HashSet<u64> = HashSet::new();
    let values = rows.iter().filter_map(|row| Some((*row, bits(field(row))?)));
    let again = values.filter(|(row, value)| !seen.insert(*value) && whole.binary_search(row).is_err());
    let (again, values): (Vec<usize>, HashSet<u64>) = again.unzip();
    let has_many = values.len() >= LEAST_DIFFERENT;
    let counts = |row: &usize| has_many || spreads(unit) && digits(field(row).text()) >= FEWEST_DIGITS;
    again.into_iter().filter(counts).collect()
}

/// The rows of each cell whose values of a measure belong to those of a judged one: rows with the same value of that measure have the same
/// value of this one. `again` are the rows of each cell that have the value of an earlier row.
fn belonging(
    table: &ForeignTable,
    cells: &[Vec<usize>],
    (place, again): (usize, &[Vec<usize>]),
    judged: &BTreeMap<usize, ByCell>,
) -> ByCell {
    let belongs = |(other, cell): &(usize, usize)| {
        let mut known: HashMap<u64, u64> = HashMap::new();
        let values = cells[*cell].iter().map(|row| [*other, place].map(|place| bits(&table.rows[*row].fields[place])));
        let mut both = values.filter_map(|[other, own]| Some((other?, own?)));
        !again[*cell].is_empty() && both.all(|(other, own)| *known.entry(other).or_insert(own) == own)
    };
    let of_judged = judged.iter().flat_map(|(other, found)| found.keys().map(move |cell| (*other, *cell)));
    of_judged.filter(belongs).map(|(_, cell)| (cell, again[cell].clone())).collect()
}

/// Whether a measure of this unit is a time, an energy, a power, a rate or an energy efficiency: independent runs hardly agree in many digits of it.
fn spreads(unit: &str) -> bool {
    ["s", "J", "W"].contains(&unit) || unit.ends_with("/s") || is_efficiency(unit)
}

/// Whether a measure counts something or is an amount of bytes: independent runs often agree in one of a few such values.
fn is_count(table: &ForeignTable, (place, unit): (usize, &str)) -> bool {
    unit == "B" || !spreads(unit) && table.values(place).filter_map(Field::number).all(|number| number.fract() == 0.0)
}

/// The bits of the measured values of a row.
pub(super) fn measured(table: &ForeignTable, row: usize, measures: &[usize]) -> Vec<Option<u64>> {
    measures.iter().map(|place| bits(&table.rows[row].fields[*place])).collect()
}

/// The bits of a number. 0 and −0 are the same number.
fn bits(field: &Field) -> Option<u64> {
    field.number().map(|number| (number + 0.0).to_bits())
}

impl Recurring {
    /// Whether the values of the measure at a place recur in a cell, or its rows do.
    pub(super) fn has(&self, place: usize, cell: usize) -> bool {
        self.rows.contains_key(&cell) || self.values.get(&place).is_some_and(|found| found.contains_key(&cell))
    }

    /// The warnings of rows that recur, and of each measure whose values do. `are_runs` says that the user declared that each row is a run
    /// of its own.
    pub(super) fn warnings(&self, table: &ForeignTable, are_runs: bool) -> Vec<Problem> {
        let of_rows = std::iter::once((None, &self.rows));
        let of_values = self.values.iter().map(|(place, found)| (Some(*place), found));
        of_rows.chain(of_values).filter_map(|(measure, found)| warning(table, measure, found, are_runs)).collect()
    }
}

/// The warning at the first of these rows. `measure` is the place of the column whose values recur; `None` if whole rows do.
fn warning(table: &ForeignTable, measure: Option<usize>, found: &ByCell, are_runs: bool) -> Option<Problem> {
    let first = found.values().flatten().min()?;
    let count = counted(found.values().map(Vec::len).sum::<usize>(), "such row");
    let cells = counted(found.len(), "cell");
    let (same, known, verdict) = match measure {
        None => {
            ("measured values", "as copies have, runs without randomness, and readings of a coarse clock", "no verdict")
        }
        Some(_) => (
            "value",
            "although others differ, as in several rows of one run, and in runs without randomness",
            "no verdict by this measure",
        ),
    };
    let what = format!(
        "an earlier row of its cell has the same {same}, digit for digit ({count} in {cells}), {known}: {}",
        outcome(verdict, are_runs)
    );
    Some(Problem::at(&table.rows[*first].place, measure.map_or("", |place| table.columns[place].as_str()), what))
}

/// What happens to the cells of a warning, which otherwise get this `verdict`.
pub(super) fn outcome(verdict: &str, are_runs: bool) -> String {
    match are_runs {
        true => "each row counts as a run of its own, as you say, and the cells are marked".to_owned(),
        false => {
            format!("their cells are marked and get {verdict}; if each row is a run of its own, add --rows-are-runs")
        }
    }
}

#[cfg(test)]
#[path = "recurring_tests.rs"]
mod tests;
