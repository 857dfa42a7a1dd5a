//! Copied rows: a block of rows that recurs with all its digits, as in a log that was appended to itself. Copies are no further runs.
//!
//! Rows may also recur by chance if their values have few digits. By chance, a value of a cell is the same as another one about once in
//! as many cases as the cell's values spread over steps of their last digit.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Problem;
use super::table::{Field, ForeignTable};
use super::written::step;

/// Blocks that recur by chance in at least this share of such files are no copies.
const CHANCE: f64 = 1e-3;
/// Times and rates spread at least by this share of their value.
const LEAST_SPREAD: f64 = 1e-3;

/// The problem of the first block of rows that recurs although chance does not explain it. `cells` names the cell of each row; `measures`
/// are the places of the columns of measures, each with whether it is a time or a rate.
pub(super) fn copies(table: &ForeignTable, cells: &[&str], measures: &[(usize, bool)]) -> Option<Problem> {
    let rows = hashes(table);
    let count = rows.len();
    // The sums of the logarithms of the rows' chances.
    let mut sums = vec![0.0];
    sums.extend(chances(table, cells, measures).into_iter().scan(0.0, |sum, chance: f64| {
        *sum += chance.ln();
        Some(*sum)
    }));
    let pairs_of_places = count as f64 * count as f64 / 2.0;
    let is_chance = |from: usize, length: usize| pairs_of_places * (sums[from + length] - sums[from]).exp() >= CHANCE;
    // Hashes of the blocks of 1, 2, 4, … rows that begin at each row.
    let (mut blocks, mut length) = (rows.clone(), 1);
    while 4 * length <= count {
        blocks = (0..=count - 2 * length).map(|place| hash((blocks[place], blocks[place + length]))).collect();
        length *= 2;
        let mut first: HashMap<u64, usize> = HashMap::new();
        for (place, block) in blocks.iter().enumerate() {
            let earlier = *first.entry(*block).or_insert(place);
            if place - earlier >= length && !is_chance(place, length) {
                let recurs = |rest: &usize| {
                    earlier + rest < place && rows.get(place + rest).is_some_and(|row| *row == rows[earlier + rest])
                };
                let length = (length..).find(|rest| !recurs(rest)).unwrap_or(length);
                let [first, last] = [earlier, earlier + length - 1].map(|row| &table.rows[row].place);
                let what = format!(
                    "{first} to {last} recur here with all their digits, as if they were copied, and copies are no further runs: \
                     remove them; if each row is a run of its own, add a column with the time at which the run was started"
                );
                return Some(Problem::at(&table.rows[place].place, "", what));
            }
        }
    }
    None
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A hash of each row as it is written.
fn hashes(table: &ForeignTable) -> Vec<u64> {
    table.rows.iter().map(|row| hash(row.fields.iter().map(Field::text).collect::<Vec<_>>())).collect()
}

/// How probable it is that another row of the cell has the same values as a row, judged by its finest measure.
fn chances(table: &ForeignTable, cells: &[&str], measures: &[(usize, bool)]) -> Vec<f64> {
    let mut chances = vec![1.0_f64; table.rows.len()];
    for (column, is_of_speed) in measures {
        // The least value of each cell, the greatest, and the step of the last digit.
        let mut seen: HashMap<&str, (f64, f64, f64)> = HashMap::new();
        let column = *column;
        let written = || table.rows.iter().zip(cells).map(move |(row, cell)| (*cell, &row.fields[column]));
        for (cell, field) in written() {
            if let Field::Number(number, text) = field {
                let (least, most, finest) = seen.entry(cell).or_insert((*number, *number, f64::INFINITY));
                (*least, *most, *finest) = (least.min(*number), most.max(*number), finest.min(step(text)));
            }
        }
        for (chance, (cell, field)) in chances.iter_mut().zip(written()) {
            if let (Field::Number(..), Some((least, most, finest))) = (field, seen.get(cell)) {
                let known = if *is_of_speed { LEAST_SPREAD * most.abs() } else { 0.0 };
                let spread = (most - least).max(known);
                *chance = chance.min(if spread > 0.0 { finest / spread } else { 1.0 }).max(f64::MIN_POSITIVE);
            }
        }
    }
    chances
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::import::read_bytes;

    /// The place and the text of the problem of a table with the columns `algo` and `time`; `algo` is the cell.
    fn found(rows: &str) -> Option<String> {
        let table = read_bytes(format!("algo,time\n{rows}").as_bytes()).unwrap();
        let cells: Vec<&str> = table.rows.iter().map(|row| row.fields[0].text()).collect();
        copies(&table, &cells, &[(1, true)]).map(|problem| problem.to_string())
    }

    #[test]
    fn a_block_of_rows_that_recurs_with_all_its_digits_is_copied() {
        let four = "a,1.00123\nb,0.98234\na,1.00456\nb,0.97811\n";
        assert_eq!(found(four), None);
        for times in [2, 6] {
            let told = found(&four.repeat(times)).unwrap();
            assert!(told.starts_with("line 6: line 2 to line 5 recur here with all their digits"), "{told}");
            assert!(told.ends_with("add a column with the time at which the run was started"), "{told}");
        }
        // Another row in between, and one run of each cell.
        let told = found(&format!("{four}a,1.00333\n{four}")).unwrap();
        assert!(told.starts_with("line 7: line 2 to line 5 "), "{told}");
        assert!(found("a,1.00123\nb,0.98234\na,1.00123\nb,0.98234\n").is_some());
    }

    #[test]
    fn rows_of_few_digits_may_recur_by_chance_and_long_blocks_of_them_are_copied() {
        let mut seed = 7_u32;
        let mut ticks = |count: usize| -> String {
            let next = |_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                format!("a,{}\n", 12 + (seed >> 16) % 4)
            };
            (0..count).map(next).collect()
        };
        assert_eq!(found(&ticks(2_000)), None);
        let log = ticks(40);
        assert_eq!(found(&log), None);
        assert!(found(&(log.clone() + &log)).is_some());
        // A clock that shows nothing.
        assert_eq!(found(&"a,1.5\nb,1.6\n".repeat(20)), None);
    }
}
