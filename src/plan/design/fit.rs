//! Which effects a set of combinations can estimate, and with which interactions each of these effects is mixed.
//!
//! The model has the mean, the main effects, the ticked interactions, and all other interactions of two factors that are orthogonal to
//! these. The effects that are left out bias the estimates by the alias matrix (X'X)⁻¹X'Z (G. E. P. Box and K. B. Wilson, *Journal of the
//! Royal Statistical Society B* 13, 1951). For a regular fraction its entries are 0 and ±1; for other designs they lie between −1 and 1.

use std::collections::HashSet;

use super::linear::{dot, information, inverse};
use super::model::{Model, Term, append, coded, freedom};

/// Shares of a column that count as none.
const NOTHING: f64 = 1e-9;
/// Alias coefficients below this one are not reported.
const SLIGHT: f64 = 0.005;
/// A model with this many coefficients gets no further interaction that nobody asked for.
const MOST_COLUMNS: usize = 400;
/// Words of more factors are too many to be tried.
const MOST_FACTORS: usize = 20;

/// An interaction that an estimate contains, too.
#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    /// The factors of the interaction, by their places.
    pub term: Term,
    /// How much of its coefficient the estimate contains; 1 or −1 where the two cannot be separated at all. For factors with more than two
    /// levels the largest share, without a sign.
    pub share: f64,
}

/// The model that a set of combinations estimates.
pub struct Fit {
    model: Model,
    /// The number of the first terms, which were asked for.
    asked: usize,
    /// (X'X)⁻¹X', column by column.
    solved: Vec<Vec<f64>>,
    points: Vec<Vec<usize>>,
    /// Effects that were asked for and cannot be estimated.
    lost: Vec<Term>,
    /// Effects that are not in the model: the lost ones, and interactions that nobody asked for.
    outside: Vec<Term>,
}

impl Fit {
    /// Fits the main effects of factors with these numbers of levels, and these interactions.
    pub fn new(counts: &[usize], interactions: &[Term], points: &[Vec<usize>]) -> Self {
        let (mut basis, mut terms, lost) = split(counts, interactions, points);
        let asked = terms.len();
        let ticked: HashSet<&Term> = interactions.iter().collect();
        let factors: Vec<usize> = varied(counts).collect();
        let pairs = factors.iter().flat_map(|one| factors.iter().map(move |other| vec![*one, *other]));
        let others = pairs.filter(|pair| pair[0] < pair[1] && !ticked.contains(pair));
        // An interaction that overlaps with another one in part would be estimated at the cost of the other: only separate ones are added.
        let (clear, unclear): (Vec<Term>, Vec<Term>) = others.partition(|term| {
            if basis.0.len() >= MOST_COLUMNS || !basis.has_room(counts, term, points) {
                return false;
            }
            let columns = columns(counts, term, points);
            basis.is_orthogonal(&columns) && basis.add(&columns)
        });
        terms.extend(clear);
        let outside = lost.iter().cloned().chain(unclear).collect();
        let model = Model::new(counts, terms);
        let rows: Vec<Vec<f64>> = points.iter().map(|point| model.row(point)).collect();
        let solved = match inverse(&information(&rows, model.width), model.width) {
            Some((inverse, _)) => rows.iter().map(|row| super::linear::times(&inverse, row)).collect(),
            None => Vec::new(),
        };
        Self { model, asked, solved, points: points.to_vec(), lost, outside }
    }

    /// The effects that are estimated: main effects, ticked interactions, others.
    pub fn terms(&self) -> &[Term] {
        if self.solved.is_empty() { &[] } else { &self.model.terms }
    }

    /// The effects that were asked for and cannot be estimated.
    pub fn lost(&self) -> &[Term] {
        &self.lost
    }

    /// The interactions that are contained in the estimate of an effect, the largest share first.
    pub fn aliases(&self, term: &Term) -> Vec<Alias> {
        let Some(place) = self.terms().iter().position(|known| known == term) else { return Vec::new() };
        let weights = |column: usize| self.solved.iter().map(move |point| point[column]).collect::<Vec<_>>();
        let weights: Vec<Vec<f64>> = self.model.columns(place).map(weights).collect();
        let share = |other: &Term| {
            let sums = |weights: &Vec<f64>| weighted_sums(&self.model.counts, other, &self.points, weights);
            let shares: Vec<f64> = weights.iter().flat_map(sums).collect();
            let largest = shares.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
            if shares.len() == 1 { largest } else { largest.abs() }
        };
        let alias = |other: &Term| Alias { term: other.clone(), share: share(other) };
        let mut aliases: Vec<Alias> =
            self.outside.iter().map(alias).filter(|alias| alias.share.abs() >= SLIGHT).collect();
        aliases.sort_by(|a, b| b.share.abs().total_cmp(&a.share.abs()));
        aliases
    }

    /// The weights with which the values of the points are added to estimate an effect. For one factor, it is the effect of a level over
    /// the first level, averaged over the levels of all other factors. For two factors, it is the interaction: how much the second change
    /// changes the effect of the first. `None` if the effect is not in the model.
    pub fn weights(&self, changes: &[(usize, usize)]) -> Option<Vec<f64>> {
        let term: Term = changes.iter().map(|(factor, _)| *factor).collect();
        let place = self.terms().iter().position(|known| *known == term)?;
        let of_change = |(factor, level): &(usize, usize)| -> Vec<f64> {
            let columns = 0..self.model.counts[*factor] - 1;
            columns.map(|column| coded(*level, column) - coded(0, column)).collect()
        };
        let contrast: Vec<f64> = match changes {
            [one] => of_change(one),
            [one, other] => {
                let other = of_change(other);
                of_change(one).into_iter().flat_map(|a| other.iter().map(move |b| a * b)).collect()
            }
            _ => return None,
        };
        let columns = self.model.columns(place);
        Some(self.solved.iter().map(|point| dot(&point[columns.clone()], &contrast)).collect())
    }

    /// The model of the effects that were asked for.
    fn asked_model(&self) -> Model {
        Model::new(&self.model.counts, self.model.terms[..self.asked].to_vec())
    }

    /// D-efficiency: the geometric mean of the information about the coefficients that were asked for, divided by that of a perfectly
    /// balanced design with as many runs. `None` if nothing can be estimated.
    pub fn efficiency(&self) -> Option<f64> {
        let model = self.asked_model();
        let rows: Vec<Vec<f64>> = self.points.iter().map(|point| model.row(point)).collect();
        let (_, log_determinant) = inverse(&information(&rows, model.width), model.width)?;
        let balanced = model.balanced_log_determinant() + model.width as f64 * (rows.len() as f64).ln();
        Some(((log_determinant - balanced) / model.width as f64).exp())
    }

    /// The number of coefficients that were asked for, with the mean.
    pub fn coefficients(&self) -> usize {
        self.asked_model().width
    }
}

/// The factors that have two levels or more.
fn varied(counts: &[usize]) -> impl Iterator<Item = usize> {
    (0..counts.len()).filter(|factor| counts[*factor] > 1)
}

/// Divides the main effects and these interactions into two parts: effects that the combinations can separate from the mean and from the
/// effects before them, and all others. The returned basis is the basis of the first part.
fn split(counts: &[usize], interactions: &[Term], points: &[Vec<usize>]) -> (Basis, Vec<Term>, Vec<Term>) {
    let mut basis = Basis::default();
    basis.add(&[vec![1.0; points.len()]]);
    let asked = varied(counts).map(|factor| vec![factor]).chain(interactions.iter().cloned());
    let (estimated, lost) =
        asked.partition(|term| basis.has_room(counts, term, points) && basis.add(&columns(counts, term, points)));
    (basis, estimated, lost)
}

/// The main effects and these interactions that some combinations cannot tell apart from the mean and from the effects before them.
pub(super) fn lost(counts: &[usize], interactions: &[Term], points: &[Vec<usize>]) -> Vec<Term> {
    split(counts, interactions, points).2
}

/// The resolution of two-level combinations: the least number of factors whose levels multiply to the same sign in all of them; 2 if two
/// factors always change together. `None` if there are none among up to six factors, a factor has more levels, or more than 20 vary.
pub fn resolution(counts: &[usize], points: &[Vec<usize>]) -> Option<usize> {
    if counts.iter().any(|count| *count != 2) || points.is_empty() || counts.len() > MOST_FACTORS {
        return None;
    }
    let signs: Vec<u32> =
        points.iter().map(|point| point.iter().rev().fold(0, |bits, level| bits << 1 | *level as u32)).collect();
    let is_word = |set: u32| {
        let parity = |bits: &u32| (bits & set).count_ones() % 2;
        signs.iter().all(|bits| parity(bits) == parity(&signs[0]))
    };
    let mut sets: Vec<(u32, usize)> = vec![(0, 0)];
    for length in 1..=6.min(counts.len()) {
        let longer = sets.iter().flat_map(|(set, from)| (*from..counts.len()).map(move |at| (set | 1 << at, at + 1)));
        sets = longer.collect();
        if sets.iter().any(|(set, _)| is_word(*set)) {
            return Some(length);
        }
    }
    None
}

/// The columns of a term over some combinations.
fn columns(counts: &[usize], term: &Term, points: &[Vec<usize>]) -> Vec<Vec<f64>> {
    let mut columns = vec![Vec::with_capacity(points.len()); freedom(counts, term)];
    let mut row = Vec::new();
    for point in points {
        row.clear();
        append(counts, term, point, &mut row);
        columns.iter_mut().zip(&row).for_each(|(column, value)| column.push(*value));
    }
    columns
}

/// For each column of a term, the sum of its values over some combinations, each value multiplied by the combination's weight. The weights
/// are first added up by the levels of the term: it may have thousands of columns.
fn weighted_sums(counts: &[usize], term: &[usize], points: &[Vec<usize>], weights: &[f64]) -> Vec<f64> {
    match *term {
        [one] => {
            let mut by_level = vec![0.0; counts[one]];
            points.iter().zip(weights).for_each(|(point, weight)| by_level[point[one]] += weight);
            by_level[1..].iter().map(|sum| sum - by_level[0]).collect()
        }
        [one, other] => {
            let width = counts[other];
            let mut by_levels = vec![0.0; counts[one] * width];
            let place = |point: &Vec<usize>| point[one] * width + point[other];
            points.iter().zip(weights).for_each(|(point, weight)| by_levels[place(point)] += weight);
            let (first, rest) = by_levels.split_at(width);
            let of_line = |line: &[f64]| {
                let over_first: Vec<f64> = line.iter().zip(first).map(|(sum, first)| sum - first).collect();
                over_first[1..].iter().map(|sum| sum - over_first[0]).collect::<Vec<_>>()
            };
            rest.chunks_exact(width).flat_map(of_line).collect()
        }
        _ => Vec::new(),
    }
}

/// An orthonormal basis of columns (Gram and Schmidt, each column projected twice against rounding).
#[derive(Default)]
struct Basis(Vec<Vec<f64>>);

impl Basis {
    /// Adds columns if all of them are independent of the basis and of each other; otherwise adds none.
    fn add(&mut self, columns: &[Vec<f64>]) -> bool {
        let before = self.0.len();
        for column in columns {
            let mut rest = column.clone();
            for _ in 0..2 {
                for known in &self.0 {
                    let share = dot(known, &rest);
                    rest.iter_mut().zip(known).for_each(|(value, known)| *value -= share * known);
                }
            }
            let length = dot(&rest, &rest);
            if length <= NOTHING * dot(column, column).max(1.0) {
                self.0.truncate(before);
                return false;
            }
            rest.iter_mut().for_each(|value| *value /= length.sqrt());
            self.0.push(rest);
        }
        true
    }

    /// Whether the columns of a term can be independent of the basis and of each other: there are no more independent columns than points.
    fn has_room(&self, counts: &[usize], term: &[usize], points: &[Vec<usize>]) -> bool {
        self.0.len() + freedom(counts, term) <= points.len()
    }

    fn is_orthogonal(&self, columns: &[Vec<f64>]) -> bool {
        columns.iter().all(|column| {
            let length = dot(column, column);
            self.0.iter().all(|known| dot(known, column).powi(2) <= NOTHING * length)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::design::fraction;

    fn fraction(factors: usize, runs: usize) -> Fit {
        let columns = fraction::columns(factors, runs).unwrap_or_default();
        Fit::new(&vec![2; factors], &[], &fraction::regular(&columns, runs))
    }

    /// `BC + 0.33 DE` with the letters of the factors.
    fn text(aliases: &[Alias]) -> String {
        let letters = |term: &Term| term.iter().map(|place| char::from(b'A' + *place as u8)).collect::<String>();
        let one = |alias: &Alias| match alias.share {
            1.0 => letters(&alias.term),
            share => format!("{share:.2} {}", letters(&alias.term)),
        };
        aliases.iter().map(one).collect::<Vec<_>>().join(" + ")
    }

    #[test]
    fn alias_groups_of_regular_fractions_are_those_of_the_textbook() {
        // Box, Hunter and Hunter, 2nd edition, table 6.2: 2^(7−4) with D = AB, E = AC, F = BC, G = ABC.
        let fit = fraction(7, 8);
        let rounded = |term: &Term| {
            let mut aliases = fit.aliases(term);
            aliases.iter_mut().for_each(|alias| alias.share = alias.share.round());
            text(&aliases)
        };
        assert_eq!(rounded(&vec![0]), "BD + CE + FG");
        assert_eq!(rounded(&vec![6]), "AF + BE + CD");
        assert_eq!(fit.terms().len(), 7);
        // 2^(4−1) with D = ABC: main effects are clear of interactions of two factors, which come in pairs.
        let half = fraction(4, 8);
        assert!((0..4).all(|factor| half.aliases(&vec![factor]).is_empty()));
        assert_eq!(half.terms()[4..], [vec![0, 1], vec![0, 2], vec![0, 3]]);
        assert_eq!(half.aliases(&vec![0, 1])[0].term, [2, 3]);
        assert_eq!(resolution(&[2; 4], &half.points), Some(4));
        assert_eq!(resolution(&[2; 7], &fit.points), Some(3));
        assert_eq!(resolution(&[2, 2], &fraction(2, 4).points), None);
        assert_eq!(resolution(&[3, 2], &[vec![0, 0]]), None);
    }

    #[test]
    fn alias_coefficients_of_plackett_and_burman_are_thirds() {
        // Montgomery, Design and Analysis of Experiments, 8th edition, section 8.6.3: ±1/3 with every interaction without the factor.
        let points = fraction::plackett_burman(11, 12).unwrap_or_default();
        let fit = Fit::new(&[2; 11], &[], &points);
        let aliases = fit.aliases(&vec![4]);
        assert_eq!(aliases.len(), 45);
        assert!(aliases.iter().all(|alias| (alias.share.abs() - 1.0 / 3.0).abs() < 1e-9 && !alias.term.contains(&4)));
    }

    #[test]
    fn weighted_sums_are_the_products_of_weights_and_columns() {
        let counts = [3, 4, 2];
        let points: Vec<Vec<usize>> = (0..24).map(|number| vec![number % 3, number % 4, number / 12]).collect();
        let weights: Vec<f64> = (0..24).map(|number| f64::from(number * number % 7) - 2.5).collect();
        for term in [vec![0], vec![2], vec![0, 1], vec![1, 2], vec![0, 2]] {
            let products: Vec<f64> =
                columns(&counts, &term, &points).iter().map(|column| dot(column, &weights)).collect();
            let sums = weighted_sums(&counts, &term, &points, &weights);
            assert_eq!(sums.len(), products.len());
            assert!(sums.iter().zip(&products).all(|(a, b)| (a - b).abs() < 1e-9), "{sums:?} {products:?}");
        }
    }

    #[test]
    fn an_interaction_with_more_columns_than_there_are_points_is_mixed_with_the_main_effects() {
        // Its 9,801 columns times 220 points are not multiplied with each of the 198 weights, which would take seconds.
        let points: Vec<Vec<usize>> =
            (0..220).map(|number| vec![number % 100, (number * 7 + number / 100) % 100]).collect();
        let fit = Fit::new(&[100, 100], &[], &points);
        assert_eq!(fit.terms(), [vec![0], vec![1]]);
        let aliases = fit.aliases(&vec![0]);
        assert!(matches!(&aliases[..], [alias] if alias.term == [0, 1] && alias.share > 0.1), "{aliases:?}");
    }

    #[test]
    fn weights_of_a_full_grid_are_differences_of_means() {
        let points: Vec<Vec<usize>> = (0..6).map(|number| vec![number / 3, number % 3]).collect();
        let fit = Fit::new(&[2, 3], &[vec![0, 1]], &points);
        let near = |weights: Option<Vec<f64>>, expected: [f64; 6]| {
            let weights = weights.unwrap_or_default();
            assert_eq!(weights.len(), 6);
            assert!(weights.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{weights:?}");
        };
        let third = 1.0 / 3.0;
        near(fit.weights(&[(0, 1)]), [-third, -third, -third, third, third, third]);
        near(fit.weights(&[(1, 2)]), [-0.5, 0.0, 0.5, -0.5, 0.0, 0.5]);
        near(fit.weights(&[(0, 1), (1, 2)]), [1.0, 0.0, -1.0, -1.0, 0.0, 1.0]);
        assert!(fit.aliases(&vec![0]).is_empty() && fit.lost().is_empty());
        assert!((fit.efficiency().unwrap_or(0.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_effect_that_always_comes_with_another_is_lost_and_named_as_its_alias() {
        let points = vec![vec![0, 0, 0], vec![1, 1, 0], vec![0, 0, 1], vec![1, 1, 1]];
        let fit = Fit::new(&[2, 2, 2], &[], &points);
        assert_eq!(fit.lost(), [vec![1]]);
        assert_eq!(fit.aliases(&vec![0])[0], Alias { term: vec![1], share: 1.0 });
        assert_eq!(resolution(&[2; 3], &points), Some(2));
    }
}
