//! The values of a measure in all cells and rounds.

use super::bounds::Prior;

/// For each cell the values of its rounds, in order. Dropped cells have fewer.
#[derive(Clone, Debug, Default)]
pub(super) struct Field {
    rows: Vec<Vec<f64>>,
    /// For each cell the share of a value that the rounding of its clock can change.
    rounding: Vec<f64>,
}

impl Field {
    pub fn new(rows: Vec<Vec<f64>>, rounding: Vec<f64>) -> Self {
        Self { rows, rounding }
    }

    /// The same with each value changed.
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        let rows = self.rows.iter().map(|row| row.iter().map(|value| change(*value)).collect());
        Self { rows: rows.collect(), rounding: self.rounding.clone() }
    }

    /// The same as logarithms. A cell's values end at its first one without a logarithm, which would make the spread of
    /// all cells infinite.
    pub fn logarithms(&self) -> Self {
        let logarithms = |row: &Vec<f64>| -> Vec<f64> {
            row.iter().take_while(|value| **value > 0.0).map(|value| value.ln()).collect()
        };
        Self { rows: self.rows.iter().map(logarithms).collect(), rounding: self.rounding.clone() }
    }

    pub fn of_cell(&self, cell: usize) -> &[f64] {
        &self.rows[cell]
    }

    pub fn all(&self) -> impl Iterator<Item = f64> {
        self.rows.iter().flatten().copied()
    }

    pub fn mean(&self, cell: usize) -> f64 {
        let row = &self.rows[cell];
        row.iter().sum::<f64>() / row.len() as f64
    }

    /// The differences of two cells, round by round.
    pub fn differences(&self, one: usize, other: usize) -> Vec<f64> {
        self.rows[one].iter().zip(&self.rows[other]).map(|(one, other)| one - other).collect()
    }

    /// How far the rounding of clocks can move the difference of two cells.
    pub fn rounding(&self, one: usize, other: usize) -> f64 {
        (self.rounding[one] + self.rounding[other]) / 2.0
    }

    /// The variance of the difference of two cells, estimated from all cells: from their changes between one round and
    /// the next, minus the mean change of all cells.
    pub fn of_differences(&self) -> Prior {
        let rounds = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let (mut squares, mut freedom) = (0.0, 0.0);
        for round in 1..rounds {
            let change = |row: &Vec<f64>| Some(row.get(round)? - row[round - 1]);
            let changes: Vec<f64> = self.rows.iter().filter_map(change).collect();
            let mean = changes.iter().sum::<f64>() / changes.len() as f64;
            squares += changes.iter().map(|change| (change - mean).powi(2)).sum::<f64>();
            freedom += changes.len() as f64 - 1.0;
        }
        // A change between two repeats has the same variance as a difference between two cells: twice that of one
        // repeat.
        Prior { variance: if freedom > 0.0 { squares / freedom } else { 0.0 }, freedom }
    }

    /// The variance of the repeats of a cell, estimated from all cells.
    pub fn of_repeats(&self) -> Prior {
        let (mut squares, mut freedom) = (0.0, 0.0);
        for (cell, row) in self.rows.iter().enumerate().filter(|(_, row)| row.len() > 1) {
            let mean = self.mean(cell);
            squares += row.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            freedom += row.len() as f64 - 1.0;
        }
        Prior { variance: if freedom > 0.0 { squares / freedom } else { 0.0 }, freedom }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_cells_share_in_a_round_is_no_spread_of_differences() {
        let field = Field::new(vec![vec![1.0, 2.0, 5.0], vec![3.0, 4.0, 7.0], vec![8.0, 9.0]], vec![0.0; 3]);
        assert_eq!(field.of_differences().variance, 0.0);
        assert_eq!(field.of_differences().freedom, 3.0);
        assert!(field.of_repeats().variance > 1.0);
        assert_eq!(field.differences(1, 0), [2.0; 3]);
        assert_eq!(field.differences(2, 0), [7.0; 2], "rounds that both have");
    }

    #[test]
    fn logarithms_of_a_cell_end_at_its_first_value_that_is_not_above_0() {
        let field = Field::new(vec![vec![1.0, 0.0, 1.0], vec![-1.0], vec![1.0, 1.0, 1.0]], vec![0.0; 3]).logarithms();
        assert_eq!((field.of_cell(0), field.of_cell(1).len(), field.of_cell(2).len()), (&[0.0][..], 0, 3));
        assert!(field.of_differences().variance.is_finite());
    }
}
