//! Whether a cell keeps a limit: surely, surely not, or still unknown.

use super::bounds::{Bounded, Bounds, Prior};
use super::field::Field;
use super::question::{Limit, LimitBound};
use super::words::{percent_of_best, shown_interval};
use crate::analysis::Better;

/// Whether a cell keeps a limit; `Open` if that is still unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    Yes,
    No,
    Open,
}

/// A limit, and the values of the limited measure in all cells and rounds.
pub(super) struct LimitField<'a> {
    limit: &'a Limit,
    /// The values, as logarithms if all of them are above 0, with such a sign that high ones keep the limit.
    field: Field,
    is_logarithmic: bool,
    /// The bound on the scale of `field`. For a share of the best value: how far a cell may be below the best one.
    bound: f64,
    bounds: Bounds,
    prior: Prior,
    /// For a share of the best: the cells that may be the best.
    best: Vec<usize>,
}

impl<'a> LimitField<'a> {
    /// `values` are those of the limit's measure. `error` is the probability that a statement about one cell is wrong.
    pub fn new(limit: &'a Limit, values: &Field, error: f64, ran: &[usize]) -> Self {
        let is_of_best = matches!(limit.bound, LimitBound::OfBest(_));
        let bound = match limit.bound {
            LimitBound::Value(bound) => bound,
            LimitBound::OfBest(share) => share,
        };
        let is_logarithmic = is_of_best || bound > 0.0 && values.all().all(|value| value > 0.0);
        let is_up = if is_of_best { limit.measure.better == Better::Higher } else { limit.is_above };
        let sign = if is_up { 1.0 } else { -1.0 };
        let field = if is_logarithmic { values.logarithms().signed(sign) } else { values.signed(sign) };
        let bounds = Bounds::new(error);
        let prior = if is_of_best { field.of_differences() } else { field.of_repeats() };
        let bound = if is_of_best { -bound.ln().abs() } else { sign * if is_logarithmic { bound.ln() } else { bound } };
        let mut all = Self { limit, field, is_logarithmic, bound, bounds, prior, best: Vec::new() };
        if is_of_best {
            all.best = all.may_be_best(ran);
        }
        all
    }

    /// The cells that may have the best value: they ran, and no other cell surely exceeds them.
    fn may_be_best(&self, ran: &[usize]) -> Vec<usize> {
        let rounds = ran.iter().map(|cell| self.field.of_cell(*cell).len()).max().unwrap_or(0);
        let active = ran.iter().copied().filter(|cell| self.field.of_cell(*cell).len() == rounds);
        let Some(top) = active.max_by(|a, b| self.field.mean(*a).total_cmp(&self.field.mean(*b))) else {
            return Vec::new();
        };
        let may = |cell: &usize| *cell == top || self.difference(*cell, top).is_none_or(|bound| bound.high() >= 0.0);
        ran.iter().copied().filter(may).collect()
    }

    fn difference(&self, one: usize, other: usize) -> Option<Bounded> {
        self.field.difference(one, other, &self.bounds, self.prior)
    }

    /// The cell's value, bounded.
    fn value(&self, cell: usize) -> Option<Bounded> {
        self.bounds.of(self.field.of_cell(cell), self.prior, self.field.rounding(cell))
    }

    /// The cells that have to run again so that others can be compared with the best one. None if the bound is a
    /// number.
    pub fn references(&self) -> &[usize] {
        &self.best
    }

    /// Whether a cell keeps the limit.
    pub fn keeps(&self, cell: usize) -> Keeps {
        if let LimitBound::OfBest(_) = self.limit.bound {
            let of_pair = |best: &usize| match self.difference(cell, *best) {
                _ if *best == cell => Keeps::Yes,
                Some(bound) if bound.low() >= self.bound => Keeps::Yes,
                Some(bound) if bound.high() < self.bound => Keeps::No,
                _ => Keeps::Open,
            };
            let all: Vec<Keeps> = self.best.iter().map(of_pair).collect();
            // A cell that is too far below any cell is too far below the best one.
            return match () {
                () if all.contains(&Keeps::No) => Keeps::No,
                () if all.contains(&Keeps::Open) => Keeps::Open,
                () => Keeps::Yes,
            };
        }
        let Some(bound) = self.value(cell) else { return Keeps::Open };
        let is_in = |value: f64| if self.limit.is_strict { value > self.bound } else { value >= self.bound };
        match (is_in(bound.low()), is_in(bound.high())) {
            (true, _) => Keeps::Yes,
            (false, false) => Keeps::No,
            (false, true) => Keeps::Open,
        }
    }

    /// Whether a cell keeps the limit by its mean.
    pub fn keeps_by_mean(&self, cell: usize) -> bool {
        let mean = self.field.mean(cell);
        match self.limit.bound {
            LimitBound::Value(_) => {
                if self.limit.is_strict {
                    mean > self.bound
                } else {
                    mean >= self.bound
                }
            }
            LimitBound::OfBest(_) => self.best.iter().all(|best| self.mean_difference(cell, *best) >= self.bound),
        }
    }

    fn mean_difference(&self, one: usize, other: usize) -> f64 {
        let differences = self.field.differences(one, other);
        differences.iter().sum::<f64>() / differences.len().max(1) as f64
    }

    /// A cell's value in words, with its always-valid interval.
    pub fn in_words(&self, cell: usize) -> String {
        if let LimitBound::OfBest(_) = self.limit.bound {
            let others = self.best.iter().filter(|best| **best != cell);
            let nearest =
                others.filter_map(|best| self.difference(cell, *best)).min_by(|a, b| a.mean.total_cmp(&b.mean));
            let sign = if self.limit.measure.better == Better::Higher { 1.0 } else { -1.0 };
            return nearest.map_or("the best value".to_owned(), |bound| percent_of_best(sign, bound));
        }
        let back = |value: f64| {
            let value = if self.limit.is_above { value } else { -value };
            if self.is_logarithmic { value.exp() } else { value }
        };
        let bound = self.value(cell).filter(|bound| bound.half > 0.0);
        let ends = bound.map(|bound| (back(bound.low()), back(bound.high())));
        shown_interval(&self.limit.measure, back(self.field.mean(cell)), ends)
    }

    /// The limit's text.
    pub fn text(&self) -> &str {
        &self.limit.text
    }
}
