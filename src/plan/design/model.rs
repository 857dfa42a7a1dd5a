//! The linear model of a design: which coefficients it has, and the row of a combination of levels in its matrix.
//!
//! Effects sum to zero over the levels of a factor. A factor with n levels has n − 1 coefficients: column j is −1 at its first level, 1 at
//! level j + 1 and 0 elsewhere, so that a factor with two levels is −1 and 1. An interaction has the products of its factors' columns.

use std::ops::Range;

/// Factors by their places, in ascending order: one for a main effect, two for an interaction.
pub type Term = Vec<usize>;

/// The mean and the effects of some terms.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// The number of levels of each factor.
    pub counts: Vec<usize>,
    /// The effects after the mean.
    pub terms: Vec<Term>,
    /// The first column of each term.
    starts: Vec<usize>,
    /// The number of coefficients, with the mean.
    pub width: usize,
}

impl Model {
    pub(super) fn new(counts: &[usize], terms: Vec<Term>) -> Self {
        let mut width = 1;
        let mut start = |term: &Term| {
            let first = width;
            width += freedom(counts, term);
            first
        };
        let starts = terms.iter().map(&mut start).collect();
        Self { counts: counts.to_vec(), terms, starts, width }
    }

    /// The columns of a term.
    pub(super) fn columns(&self, term: usize) -> Range<usize> {
        let start = self.starts[term];
        start..start + freedom(&self.counts, &self.terms[term])
    }

    /// Writes the row of a combination of levels.
    pub(super) fn fill(&self, point: &[usize], row: &mut Vec<f64>) {
        row.clear();
        row.push(1.0);
        for term in &self.terms {
            append(&self.counts, term, point, row);
        }
    }

    /// The row of a combination of levels.
    pub(super) fn row(&self, point: &[usize]) -> Vec<f64> {
        let mut row = Vec::with_capacity(self.width);
        self.fill(point, &mut row);
        row
    }

    /// The logarithm of the determinant of the information of one run, if all combinations were run equally often. A perfectly balanced
    /// design reaches this value.
    ///
    /// The information matrix of a factor with n levels is (I + J) / n, and its determinant is n / nⁿ⁻¹. The information matrix of an
    /// interaction is the Kronecker product of the factors' matrices.
    pub(super) fn balanced_log_determinant(&self) -> f64 {
        let of_factor = |factor: usize| {
            let count = self.counts[factor] as f64;
            count.ln() * (2.0 - count)
        };
        let of_term = |term: &Term| -> f64 {
            let all = freedom(&self.counts, term) as f64;
            term.iter().map(|factor| of_factor(*factor) * all / (self.counts[*factor] - 1) as f64).sum()
        };
        self.terms.iter().map(of_term).sum()
    }
}

/// The number of all combinations of levels.
pub(super) fn combinations(counts: &[usize]) -> u64 {
    counts.iter().fold(1, |product: u64, count| product.saturating_mul(*count as u64))
}

/// The combination with this number, from 0: its digits in a mixed-radix system, the first factor's level last.
pub(super) fn combination(counts: &[usize], mut number: u64) -> Vec<usize> {
    let digit = |count: &usize| {
        let digit = number % *count as u64;
        number /= *count as u64;
        digit as usize
    };
    counts.iter().map(digit).collect()
}

/// The number of coefficients of a term.
pub(super) fn freedom(counts: &[usize], term: &[usize]) -> usize {
    term.iter().map(|factor| counts[*factor] - 1).product()
}

/// A level of a factor with `count` levels in column `column` of the factor.
pub(super) fn coded(level: usize, column: usize) -> f64 {
    match level {
        0 => -1.0,
        level if level == column + 1 => 1.0,
        _ => 0.0,
    }
}

/// Appends the columns of a term.
pub(super) fn append(counts: &[usize], term: &[usize], point: &[usize], row: &mut Vec<f64>) {
    match term {
        [one] => row.extend((0..counts[*one] - 1).map(|column| coded(point[*one], column))),
        [one, other] => {
            for first in 0..counts[*one] - 1 {
                let value = coded(point[*one], first);
                row.extend((0..counts[*other] - 1).map(|column| value * coded(point[*other], column)));
            }
        }
        _ => {}
    }
}
