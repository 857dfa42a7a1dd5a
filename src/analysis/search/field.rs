//! The values of a measure in all cells and rounds.

use super::bounds::{Bounded, Bounds, Prior};

/// For each cell the values of its rounds, in order. Dropped cells have fewer.
#[derive(Clone, Debug, Default)]
pub(super) struct Field {
    rows: Vec<Vec<f64>>,
    /// For each cell how far rounding can move a value: half of the step between values.
    rounding: Vec<f64>,
}

impl Field {
    pub fn new(rows: Vec<Vec<f64>>, rounding: Vec<f64>) -> Self {
        Self { rows, rounding }
    }

    /// The values multiplied by a sign.
    pub fn signed(&self, sign: f64) -> Self {
        let rows = self.rows.iter().map(|row| row.iter().map(|value| sign * value).collect());
        Self { rows: rows.collect(), rounding: self.rounding.clone() }
    }

    /// The logarithms of the values. A cell's values end before its first value without a logarithm, which would make the spread of all
    /// cells infinite.
    pub fn logarithms(&self) -> Self {
        let sound = |row: &[f64]| -> Vec<f64> { row.iter().copied().take_while(|value| *value > 0.0).collect() };
        let rows: Vec<Vec<f64>> = self.rows.iter().map(|row| sound(row)).collect();
        let least = |row: &Vec<f64>| row.iter().copied().fold(f64::INFINITY, f64::min);
        let rounding = rows.iter().zip(&self.rounding).map(|(row, rounding)| rounding / least(row)).collect();
        let logarithms = |row: &Vec<f64>| -> Vec<f64> { row.iter().map(|value| value.ln()).collect() };
        Self { rows: rows.iter().map(logarithms).collect(), rounding }
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

    /// How far rounding can move the mean of a cell.
    pub fn rounding(&self, cell: usize) -> f64 {
        self.rounding[cell]
    }

    /// The difference of two cells, bounded.
    pub fn difference(&self, one: usize, other: usize, bounds: &Bounds, prior: Prior) -> Option<Bounded> {
        bounds.of(&self.differences(one, other), prior, self.rounding[one] + self.rounding[other])
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

    #[test]
    fn rounding_is_a_share_of_a_cells_least_value_once_values_are_logarithms() {
        let field = Field::new(vec![vec![4.0, 2.0], vec![8.0, 10.0]], vec![0.5; 2]);
        assert_eq!([0, 1].map(|cell| field.logarithms().rounding(cell)), [0.25, 0.0625]);
        let exact = Field::new(vec![vec![1.0, 1.0], vec![2.0, 2.0]], vec![0.0; 2]);
        let coarse = Field::new(vec![vec![1.0, 1.0], vec![2.0, 2.0]], vec![0.5; 2]);
        let high = |field: &Field| {
            let bound = field.logarithms().difference(0, 1, &Bounds::new(0.05), Prior::default());
            bound.map_or(f64::NAN, Bounded::high)
        };
        assert!(high(&exact) < -0.69 && high(&coarse) > 0.0, "1.49 and 1.51 are written as 1 and 2");
    }
}
