//! Copied rows: a block of rows that recurs with all its digits, as in a log that was appended to itself. Copies are no further runs.
//!
//! Rows may also recur by chance: a program without randomness gives few different rows, and so does a coarse clock. A block counts as
//! copied if even a program that draws each row from the different rows of its cell would hardly repeat the block in its order. A row that
//! repeats the previous row of its cell says nothing, since values may stay for a while. Rows that recur without such an order are marked
//! instead; see [`super::recurring`].

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Problem;
use super::recurring::measured;
use super::table::{Field, ForeignTable};

/// Blocks that recur by chance in at least this share of such files are no copies.
const CHANCE: f64 = 1e-3;

/// The problem of the first block of rows that recurs although chance does not explain it. `cells` are the places of the rows of each cell;
/// `measures` are the places of the columns of measures.
pub(super) fn copies(table: &ForeignTable, cells: &[Vec<usize>], measures: &[usize]) -> Option<Problem> {
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

/// How probable it is that another row of the cell has the same measured values as a row.
fn chances(table: &ForeignTable, cells: &[Vec<usize>], measures: &[usize]) -> Vec<f64> {
    let mut chances = vec![1.0; table.rows.len()];
    for rows in cells {
        let values: Vec<u64> = rows.iter().map(|row| hash(measured(table, *row, measures))).collect();
        let mut counts: HashMap<u64, usize> = HashMap::new();
        values.iter().for_each(|value| *counts.entry(*value).or_default() += 1);
        for (place, (row, value)) in rows.iter().zip(&values).enumerate() {
            if place == 0 || values[place - 1] != *value {
                chances[*row] = counts[value] as f64 / values.len() as f64;
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
        let is_of = |row: &usize, algo: &str| table.rows[*row].fields[0].text() == algo;
        let cells = ["a", "b"].map(|algo| (0..table.rows.len()).filter(|row| is_of(row, algo)).collect::<Vec<_>>());
        copies(&table, &cells, &[1]).map(|problem| problem.to_string())
    }

    /// A log of rows of two cells in turns, whose times are drawn from `different` values.
    fn log(rows: u32, different: u32) -> String {
        let mut seed = 7_u32;
        let row = |place: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("{},{}\n", ["a", "b"][place as usize % 2], 12 + (seed >> 16) % different)
        };
        (0..rows).map(row).collect()
    }

    #[test]
    fn a_log_that_was_appended_to_itself_is_copied_whatever_its_digits_are() {
        for different in [6, 60_000] {
            let log = log(40, different);
            assert_eq!(found(&log), None);
            let message = found(&log.repeat(2)).unwrap();
            assert!(message.starts_with("line 42: line 2 to line 41 recur here with all their digits"), "{message}");
            assert!(message.ends_with("add a column with the time at which the run was started"), "{message}");
            // Another row in between.
            let message = found(&format!("{log}a,11\n{log}")).unwrap();
            assert!(message.starts_with("line 43: line 2 to line 41 "), "{message}");
        }
    }

    #[test]
    fn rows_of_which_there_are_few_different_ones_recur_by_chance() {
        assert_eq!(found(&log(2_000, 4)), None);
        // A clock that shows nothing, and a program without randomness.
        assert_eq!(found(&"a,1.5\nb,1.6\n".repeat(20)), None);
        assert_eq!(found(&"a,0.00123456\nb,0.00234567\n".repeat(20)), None);
        // Few seeds in turns.
        assert_eq!(found(&"a,1.00123\nb,0.98234\na,1.00456\nb,0.97811\n".repeat(6)), None);
        // Values that stay for a while, as in a sorted file.
        let sorted: String = (12..20).map(|time| format!("a,{time}\n").repeat(30)).collect();
        assert_eq!(found(&sorted), None);
    }
}
