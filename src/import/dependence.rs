//! Values that depend on their predecessors in the file: those of rolling means, of several rows of one run, of copies that were rounded
//! to different digits, and of a machine that drifts. Such rows are no independent runs, though no value recurs. They are imported and
//! marked, and get no verdict by this measure.
//!
//! Independent values are in random order, so that successive ones are no more alike than others ([`Succession`]). Each cell is judged
//! alone, and the other cells of a measure together, since a few rows show little. Independent files are marked with a probability of about
//! [`CHANCE`] at most, whatever the distribution of their values. The first row of each cell is left out: a first run is often slow, because
//! caches are empty, and the others do not depend on it.
//!
//! A cell whose rows are in the order of one of the measures was sorted, or that measure counts the time: the order of such rows says nothing
//! about the others.
//!
//! If the cells were measured in rounds, the rows are judged in the order of the rounds, and without what all cells have in common in a
//! round: a drift of the machine cancels in pairs of repeats, and does not favour a cell where the cells take turns.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Problem;
use super::recurring::{ByCell, Recurring, outcome};
use super::table::ForeignTable;
use crate::analysis::counted;
use crate::statistics::{Succession, alike_by_chance, ranks};

/// The probability with which an independent file is marked.
const CHANCE: f64 = 1e-3;
/// The part of this probability that is left to cells that are judged alone.
const ALONE: f64 = 0.1;

/// The rows of a cell but the first, and their values of a measure, in the order in which they are judged.
struct Series {
    cell: usize,
    values: Vec<(usize, f64)>,
}

/// By the place of a measure's column: the rows of the cells in which successive values depend on each other. `cells` are the places of the
/// rows of each cell, in ascending order; `measures` are the places of the columns of measures. Cells in which values recur are left out.
/// `rounds` are the rounds of all rows, if the cells were measured in rounds.
pub(super) fn dependent(
    table: &ForeignTable,
    cells: &[Vec<usize>],
    measures: &[usize],
    recurring: &Recurring,
    rounds: Option<&[u32]>,
) -> BTreeMap<usize, ByCell> {
    let series = |cell: usize, place: usize| {
        let mut rows = cells[cell].clone();
        rows.sort_by_key(|row| rounds.map(|rounds| rounds[*row]));
        let values = rows.into_iter().filter_map(|row| Some((row, table.rows[row].fields[place].number()?)));
        Series { cell, values: values.skip(1).collect() }
    };
    let is_sorted = |cell: usize| measures.iter().any(|place| series(cell, *place).is_sorted());
    let sorted: BTreeSet<usize> = (0..cells.len()).filter(|cell| is_sorted(*cell)).collect();
    let of_measure = |place: &usize| {
        let marked_if_dependent = |cell: &usize| cells[*cell].len() > 1 && !recurring.has(*place, *cell);
        let all: Vec<usize> = (0..cells.len()).filter(marked_if_dependent).collect();
        let mut judged: Vec<Series> =
            all.iter().filter(|cell| !sorted.contains(*cell)).map(|cell| series(*cell, *place)).collect();
        let mut independent = 1.0;
        if let Some(rounds) = rounds {
            subtract_common(&mut judged, rounds);
            // What is left adds up to 0 in each round.
            independent -= (judged.len().max(1) as f64).recip();
        }
        let found = dependent_cells(all, &judged, independent, CHANCE / measures.len() as f64);
        let found: ByCell = found.into_iter().map(|cell| (cell, cells[cell].clone())).collect();
        (!found.is_empty()).then_some((*place, found))
    };
    measures.iter().filter_map(of_measure).collect()
}

/// The cells among `all` whose values depend on each other. The values of the cells in `judged` decide it; the share `independent` of these
/// cells does not follow from the others. Independent values are taken for dependent with at most the probability `chance`.
fn dependent_cells(all: Vec<usize>, judged: &[Series], independent: f64, chance: f64) -> Vec<usize> {
    let values = |series: &Series| series.values.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let successions: Vec<(usize, Succession)> =
        judged.iter().filter_map(|series| Some((series.cell, Succession::of(&values(series))?))).collect();
    let chance_alone = ALONE * chance / successions.len().max(1) as f64;
    let (alone, rest): (Vec<_>, Vec<_>) =
        successions.into_iter().partition(|(_, succession)| alike_by_chance(&[*succession], 1.0) <= chance_alone);
    let alone: BTreeSet<usize> = alone.into_iter().map(|(cell, _)| cell).collect();
    let rest: Vec<Succession> = rest.into_iter().map(|(_, succession)| succession).collect();
    let is_rest_dependent = alike_by_chance(&rest, independent) <= (1.0 - ALONE) * chance;
    all.into_iter().filter(|cell| is_rest_dependent || alone.contains(cell)).collect()
}

/// Replaces values by their ranks within their cell, less their mean over the cells in each round.
fn subtract_common(judged: &mut [Series], rounds: &[u32]) {
    let mut common: HashMap<u32, (f64, f64)> = HashMap::new();
    for Series { values, .. } in judged.iter_mut() {
        let count = values.len() as f64;
        let numbers: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        for ((row, value), rank) in values.iter_mut().zip(ranks(&numbers)) {
            *value = (rank - (count + 1.0) / 2.0) / count;
            let (sum, cells) = common.entry(rounds[*row]).or_default();
            *sum += *value;
            *cells += 1.0;
        }
    }
    for (row, value) in judged.iter_mut().flat_map(|series| &mut series.values) {
        let (sum, cells) = common[&rounds[*row]];
        *value -= sum / cells;
    }
}

impl Series {
    /// Whether the values are not all the same, and never fall or never rise.
    fn is_sorted(&self) -> bool {
        let any = |is: fn(f64, f64) -> bool| self.values.windows(2).any(|pair| is(pair[0].1, pair[1].1));
        any(|one, next| one < next) != any(|one, next| one > next)
    }
}

/// The warning of each measure whose successive values depend on each other. `are_runs` says that the user declared that each row is a run
/// of its own.
pub(super) fn warnings(table: &ForeignTable, dependent: &BTreeMap<usize, ByCell>, are_runs: bool) -> Vec<Problem> {
    let warning = |(place, found): (&usize, &ByCell)| {
        let first = found.values().flatten().min()?;
        let what = format!(
            "successive values in {} from here on are more alike than by chance, as in rolling means, in several rows of one run or of one \
             value, and on a machine that drifts: {}",
            counted(found.len(), "cell"),
            outcome("no verdict by this measure", are_runs)
        );
        Some(Problem::at(&table.rows[*first].place, &table.columns[*place], what))
    };
    dependent.iter().filter_map(warning).collect()
}

#[cfg(test)]
#[path = "dependence_tests.rs"]
mod tests;
