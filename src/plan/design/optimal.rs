//! D-optimal designs: combinations whose information about the coefficients of a model has the largest determinant.
//!
//! Several starts from a seed. Each start exchanges the level of one factor of one run at a time (R. K. Meyer and C. J. Nachtsheim, "The
//! coordinate-exchange algorithm", *Technometrics* 37, 1995), and, where the candidates are few, whole runs (V. V. Fedorov, *Theory of
//! Optimal Experiments*, 1972), as long as the determinant grows and the search has not cost too much. No combination occurs twice.

use std::cell::Cell;
use std::collections::HashSet;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::linear::{dot, information, inverse, times};
use super::model::{Model, combination, combinations};
use crate::plan::random::{draw, shuffle};

/// Up to this many combinations are listed; of more, random ones are drawn.
const LISTED: u64 = 100_000;
/// Whole runs are exchanged if there are at most this many candidates.
const EXCHANGED: usize = 5_000;
/// The smallest growth of the determinant that counts.
const GROWTH: f64 = 1e-7;
/// An exchange of all levels or runs is repeated at most this often.
const MOST_PASSES: usize = 100;
/// The number that a random start adds to the diagonal of its information matrix so that the matrix can be inverted, as a share of the
/// runs.
const RIDGE: f64 = 1e-4;
/// The least and the most starts.
const STARTS: (usize, usize) = (6, 30);
/// About how many exchanges of a level are tried in a pass of all starts.
const TRIED: usize = 3_000_000;

/// The requested design.
pub(super) struct Problem<'a> {
    pub model: &'a Model,
    /// Whether a combination may be run.
    pub admits: &'a dyn Fn(&[usize]) -> bool,
    /// Combinations that are run in any case.
    pub fixed: &'a [Vec<usize>],
    /// The number of further combinations.
    pub runs: usize,
    pub seed: u64,
}

/// The most multiplications with the inverse in a pass over the levels of all factors of all runs: a search would end within a few passes
/// over larger designs.
const MOST_OF_PASS: usize = 500_000_000;
/// The inverse is multiplied about this often for each run, however few factors there are.
const LEAST_FACTORS: usize = 5;
/// The most multiplications of a search, which take 4 to 10 s on one core. A search that is cut off takes the best design that it has; more
/// would improve its efficiency in the third digit.
const MOST_WORK: u64 = 10_000_000_000;
/// The cost of drawing a combination and checking that it may be run, in multiplications.
const WORK_OF_DRAW: usize = 1_000;
/// The cost of looking up whether a combination is in the design, in multiplications.
const WORK_OF_LOOK_UP: usize = 200;

/// The rest of a search's budget. It counts multiplications and not seconds, so that a plan has the same design on every machine.
struct Budget(Cell<u64>);

impl Budget {
    fn of(multiplications: u64) -> Self {
        Self(Cell::new(multiplications))
    }

    fn spend(&self, multiplications: usize) {
        self.0.set(self.0.get().saturating_sub(multiplications as u64));
    }

    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// Why there is no design.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The number of combinations that may be run, if they were counted.
    TooFew(Option<usize>),
    /// No choice of combinations determines all coefficients.
    Singular,
    /// It would take too long.
    TooLarge,
}

/// The combinations to run in addition to the fixed ones.
pub(super) fn optimal(problem: &Problem<'_>) -> Result<Vec<Vec<usize>>, Trouble> {
    search(problem, &Budget::of(MOST_WORK))
}

fn search(problem: &Problem<'_>, budget: &Budget) -> Result<Vec<Vec<usize>>, Trouble> {
    let counts = &problem.model.counts;
    let tried = problem.runs * counts.iter().map(|count| count - 1).sum::<usize>() * problem.model.width;
    let starts = (TRIED / tried.max(1)).clamp(STARTS.0, STARTS.1);
    let width = problem.model.width;
    let pass = [width, width, counts.len().max(LEAST_FACTORS)]
        .into_iter()
        .fold(problem.runs + problem.fixed.len(), usize::saturating_mul);
    if pass > MOST_OF_PASS {
        return Err(Trouble::TooLarge);
    }
    let candidates = candidates(problem);
    if let Some(all) = candidates.as_ref().filter(|all| all.len() < problem.runs) {
        return Err(Trouble::TooFew(Some(all.len())));
    }
    let mut random = ChaCha8Rng::seed_from_u64(problem.seed);
    let mut best: Option<(f64, Vec<Vec<usize>>)> = None;
    for _ in 0..starts {
        if budget.is_spent() {
            break;
        }
        let points = start(problem, candidates.as_deref(), &mut random, budget).ok_or(Trouble::TooFew(None))?;
        let few = candidates.as_deref().filter(|all| all.len() <= EXCHANGED).unwrap_or_default();
        let Some((log_determinant, points)) = Exchange::new(problem, points, budget).run(few) else { continue };
        if best.as_ref().is_none_or(|(known, _)| log_determinant > known + GROWTH) {
            best = Some((log_determinant, points));
        }
    }
    let trouble = if budget.is_spent() { Trouble::TooLarge } else { Trouble::Singular };
    best.map(|(_, points)| points).ok_or(trouble)
}

/// All combinations that may be run and are not fixed; `None` if there are too many combinations to list.
fn candidates(problem: &Problem<'_>) -> Option<Vec<Vec<usize>>> {
    let counts = &problem.model.counts;
    let all = combinations(counts);
    (all <= LISTED).then(|| {
        let fixed: HashSet<&Vec<usize>> = problem.fixed.iter().collect();
        let is_free = |point: &Vec<usize>| !fixed.contains(point) && (problem.admits)(point);
        (0..all).map(|number| combination(counts, number)).filter(is_free).collect()
    })
}

/// Random combinations, each once; `None` if too few that may be run are found.
fn start(
    problem: &Problem<'_>,
    candidates: Option<&[Vec<usize>]>,
    random: &mut ChaCha8Rng,
    budget: &Budget,
) -> Option<Vec<Vec<usize>>> {
    if let Some(candidates) = candidates {
        let mut places: Vec<usize> = (0..candidates.len()).collect();
        shuffle(&mut places, random);
        return Some(places[..problem.runs].iter().map(|place| candidates[*place].clone()).collect());
    }
    let mut points = Vec::with_capacity(problem.runs);
    let mut seen: HashSet<Vec<usize>> = problem.fixed.iter().cloned().collect();
    for _ in 0..1_000 + 500 * problem.runs {
        if points.len() == problem.runs {
            break;
        }
        budget.spend(WORK_OF_DRAW);
        let point: Vec<usize> = problem.model.counts.iter().map(|count| draw(random, *count)).collect();
        if (problem.admits)(&point) && seen.insert(point.clone()) {
            points.push(point);
        }
    }
    (points.len() == problem.runs).then_some(points)
}

/// A design while its runs are exchanged.
struct Exchange<'a> {
    problem: &'a Problem<'a>,
    budget: &'a Budget,
    points: Vec<Vec<usize>>,
    rows: Vec<Vec<f64>>,
    fixed: Vec<Vec<f64>>,
    taken: HashSet<Vec<usize>>,
    /// The inverse of the information.
    inverse: Vec<f64>,
}

impl<'a> Exchange<'a> {
    fn new(problem: &'a Problem<'a>, points: Vec<Vec<usize>>, budget: &'a Budget) -> Self {
        let rows = points.iter().map(|point| problem.model.row(point)).collect();
        let fixed = problem.fixed.iter().map(|point| problem.model.row(point)).collect();
        let taken = points.iter().chain(problem.fixed).cloned().collect();
        Self { problem, budget, points, rows, fixed, taken, inverse: Vec::new() }
    }

    /// Exchanges until nothing grows or the budget is spent; the logarithm of the determinant and the runs, or `None` if they do not determine all coefficients.
    fn run(mut self, candidates: &[Vec<usize>]) -> Option<(f64, Vec<Vec<usize>>)> {
        let candidates: Vec<(&Vec<usize>, Vec<f64>)> =
            candidates.iter().map(|point| (point, self.problem.model.row(point))).collect();
        let ridge = RIDGE * (self.rows.len() + self.fixed.len()) as f64;
        for ridge in [ridge, 0.0] {
            for _ in 0..MOST_PASSES {
                self.invert(ridge)?;
                if !self.exchange_levels() {
                    break;
                }
            }
            for _ in 0..MOST_PASSES {
                self.invert(ridge)?;
                if candidates.is_empty() || !self.exchange_runs(&candidates) {
                    break;
                }
            }
        }
        let log_determinant = self.invert(0.0)?;
        Some((log_determinant, self.points))
    }

    /// Computes the inverse anew, without the rounding of its updates.
    fn invert(&mut self, ridge: f64) -> Option<f64> {
        let width = self.problem.model.width;
        self.budget.spend(width * width * (width + self.rows.len() + self.fixed.len()));
        let mut sum = information(&self.rows, width);
        sum.iter_mut().zip(information(&self.fixed, width)).for_each(|(sum, fixed)| *sum += fixed);
        (0..width).for_each(|place| sum[place * width + place] += ridge);
        let (inverse, log_determinant) = inverse(&sum, width)?;
        self.inverse = inverse;
        Some(log_determinant)
    }

    /// Tries every other level of every factor of every run; whether something grew.
    fn exchange_levels(&mut self) -> bool {
        let counts = &self.problem.model.counts;
        let (mut grew, mut other_row) = (false, Vec::new());
        for run in 0..self.points.len() {
            if self.budget.is_spent() {
                break;
            }
            let mut solved = self.times(&self.rows[run]);
            for factor in 0..counts.len() {
                let own = dot(&self.rows[run], &solved);
                let mut best: Option<(f64, Vec<usize>)> = None;
                let mut other = self.points[run].clone();
                for level in (0..counts[factor]).filter(|level| *level != self.points[run][factor]) {
                    other[factor] = level;
                    self.problem.model.fill(&other, &mut other_row);
                    let growth = self.growth(&self.rows[run], (&solved, own), &other_row);
                    if growth > best.as_ref().map_or(1.0 + GROWTH, |best| best.0)
                        && !self.taken.contains(&other)
                        && (self.problem.admits)(&other)
                    {
                        best = Some((growth, other.clone()));
                    }
                }
                if let Some((_, other)) = best {
                    self.replace(run, other);
                    solved = self.times(&self.rows[run]);
                    grew = true;
                }
            }
        }
        grew
    }

    /// Tries every candidate in place of every run; whether something grew.
    fn exchange_runs(&mut self, candidates: &[(&Vec<usize>, Vec<f64>)]) -> bool {
        let mut grew = false;
        for run in 0..self.points.len() {
            if self.budget.is_spent() {
                break;
            }
            self.budget.spend(candidates.len() * WORK_OF_LOOK_UP);
            let solved = self.times(&self.rows[run]);
            let own = dot(&self.rows[run], &solved);
            let mut best: Option<(f64, &Vec<usize>)> = None;
            for (other, row) in candidates.iter().filter(|(other, _)| !self.taken.contains(*other)) {
                let growth = self.growth(&self.rows[run], (&solved, own), row);
                if growth > best.as_ref().map_or(1.0 + GROWTH, |best| best.0) {
                    best = Some((growth, other));
                }
            }
            if let Some((_, other)) = best {
                self.replace(run, other.clone());
                grew = true;
            }
        }
        grew
    }

    /// The product of the inverse and a row.
    fn times(&self, row: &[f64]) -> Vec<f64> {
        self.budget.spend(row.len() * row.len());
        times(&self.inverse, row)
    }

    /// The factor by which the determinant grows if a run is replaced: (1 + y'Dy)(1 − x'Dx) + (x'Dy)², where D is the inverse of the
    /// information. `solved` is Dx, `own` x'Dx. The rows of neighbours differ in few columns, so that only these are multiplied.
    fn growth(&self, row: &[f64], (solved, own): (&[f64], f64), other: &[f64]) -> f64 {
        let width = row.len();
        let mut changes: [(usize, f64); 64] = [(0, 0.0); 64];
        let mut count = 0;
        for (place, change) in row.iter().zip(other).map(|(own, other)| other - own).enumerate() {
            if change != 0.0 {
                if count == changes.len() {
                    let theirs = self.times(other);
                    return (1.0 + dot(other, &theirs)) * (1.0 - own) + dot(other, solved).powi(2);
                }
                changes[count] = (place, change);
                count += 1;
            }
        }
        // The row was made and compared, and each change is multiplied with each.
        self.budget.spend(4 * width + 2 * count * count);
        let changes = &changes[..count];
        let linear: f64 = changes.iter().map(|(place, change)| change * solved[*place]).sum();
        let mut square = 0.0;
        for (place, change) in changes {
            let line = &self.inverse[place * width..(place + 1) * width];
            square += change * changes.iter().map(|(other, change)| change * line[*other]).sum::<f64>();
        }
        let (both, theirs) = (own + linear, own + 2.0 * linear + square);
        (1.0 + theirs) * (1.0 - own) + both * both
    }

    /// Replaces a run and updates the inverse (J. Sherman and W. J. Morrison, 1950).
    fn replace(&mut self, run: usize, point: Vec<usize>) {
        let row = self.problem.model.row(&point);
        let old = std::mem::replace(&mut self.rows[run], row);
        self.taken.remove(&self.points[run]);
        self.taken.insert(point.clone());
        self.points[run] = point;
        for (row, sign) in [(&self.rows[run], 1.0), (&old, -1.0)] {
            let solved = self.times(row);
            let scale = sign / (1.0 + sign * dot(row, &solved));
            let width = row.len();
            self.budget.spend(width * width);
            for (place, value) in solved.iter().enumerate() {
                let line = &mut self.inverse[place * width..(place + 1) * width];
                line.iter_mut().zip(&solved).for_each(|(entry, other)| *entry -= scale * value * other);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::design::model::Term;

    fn efficiency(model: &Model, points: &[Vec<usize>]) -> f64 {
        let rows: Vec<Vec<f64>> = points.iter().map(|point| model.row(point)).collect();
        let (_, log_determinant) = inverse(&information(&rows, model.width), model.width).unwrap();
        let balanced = model.balanced_log_determinant() + model.width as f64 * (points.len() as f64).ln();
        ((log_determinant - balanced) / model.width as f64).exp()
    }

    fn mains(counts: &[usize], interactions: impl IntoIterator<Item = Term>) -> Model {
        Model::new(counts, (0..counts.len()).map(|factor| vec![factor]).chain(interactions).collect())
    }

    #[test]
    fn designs_are_as_efficient_as_the_best_of_20_starts_of_algdesign() {
        let golden = include_str!("../../../tests/golden/designs/optimal.json");
        let problems: Vec<serde_json::Value> = serde_json::from_str(golden).unwrap();
        assert_eq!(problems.len(), 10);
        for problem in &problems {
            let numbers = |value: &serde_json::Value| -> Vec<usize> {
                value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
            };
            let lists = |key: &str| problem[key].as_array().unwrap().iter().map(numbers).collect::<Vec<_>>();
            let model = mains(&numbers(&problem["levels"]), lists("interactions"));
            let forbidden = lists("forbidden");
            let admits = |point: &[usize]| !forbidden.iter().any(|f| point[f[0]] == f[1] && point[f[2]] == f[3]);
            let runs = problem["runs"].as_u64().unwrap() as usize;
            let points = optimal(&Problem { model: &model, admits: &admits, fixed: &[], runs, seed: 1 }).unwrap();
            assert_eq!(points.iter().collect::<HashSet<_>>().len(), runs);
            assert!(points.iter().all(|point| admits(point)));
            let share = efficiency(&model, &points) / efficiency(&model, &lists("design"));
            println!("{:?}: {share:.4} of AlgDesign's efficiency", model.counts);
            assert!(share >= 0.99, "{:?}: {share}", model.counts);
        }
    }

    #[test]
    fn a_design_drawn_today_can_be_drawn_again() {
        let model = mains(&[2, 3, 4], []);
        let problem = Problem { model: &model, admits: &|_| true, fixed: &[], runs: 9, seed: 3 };
        let points = optimal(&problem).unwrap();
        assert_eq!(points, optimal(&problem).unwrap());
        let text: Vec<String> =
            points.iter().map(|point| point.iter().map(ToString::to_string).collect::<String>()).collect();
        assert_eq!(
            text.join(" "),
            "120 100 122 111 021 002 103 013 010",
            "a change of this design breaks the resumption of old sessions"
        );
    }

    #[test]
    fn runs_among_a_million_combinations_are_nearly_balanced() {
        let model = mains(&[10; 6], []);
        let admits = |point: &[usize]| point[0] + point[1] < 17;
        // `cargo bench --bench plan` measures 200 runs with optimised code.
        let runs = if cfg!(debug_assertions) { 70 } else { 200 };
        let points = optimal(&Problem { model: &model, admits: &admits, fixed: &[], runs, seed: 1 }).unwrap();
        let efficiency = efficiency(&model, &points);
        assert!(efficiency > 0.8 && points.iter().all(|point| admits(point)), "{efficiency}");
    }

    #[test]
    fn added_runs_complete_what_is_fixed_and_repeat_nothing() {
        let model = mains(&[2, 2, 2], []);
        let fixed = [vec![0, 0, 0], vec![1, 1, 0]];
        let added = optimal(&Problem { model: &model, admits: &|_| true, fixed: &fixed, runs: 2, seed: 1 }).unwrap();
        let all: Vec<Vec<usize>> = fixed.iter().chain(&added).cloned().collect();
        // The half fraction, which is perfectly balanced.
        assert!((efficiency(&model, &all) - 1.0).abs() < 1e-9, "{added:?}");
    }

    #[test]
    fn a_search_that_costs_too_much_takes_the_best_design_that_it_has() {
        let model = mains(&[12, 12], []);
        let spread = Problem { model: &model, admits: &|_| true, fixed: &[], runs: 30, seed: 1 };
        let whole = Budget::of(MOST_WORK);
        let best = search(&spread, &whole).unwrap();
        let needed = MOST_WORK - whole.0.get();
        let cut_off = Budget::of(needed / 20);
        let cut = search(&spread, &cut_off).unwrap();
        assert!(cut_off.is_spent() && cut.iter().collect::<HashSet<_>>().len() == 30);
        let share = efficiency(&model, &cut) / efficiency(&model, &best);
        assert!((0.9..=1.0).contains(&share), "{share}");
        // 23 combinations that were drawn at random do not determine 23 coefficients.
        let tight = Problem { runs: 23, ..spread };
        assert_eq!(search(&tight, &Budget::of(1)), Err(Trouble::TooLarge));
        assert!(search(&tight, &Budget::of(MOST_WORK)).is_ok());
    }

    #[test]
    fn impossible_designs_say_why() {
        let model = mains(&[2, 2, 2], []);
        let never_both = |point: &[usize]| point[0] == point[1];
        let asked = |runs, admits: &dyn Fn(&[usize]) -> bool| {
            optimal(&Problem { model: &model, admits, fixed: &[], runs, seed: 1 })
        };
        assert_eq!(asked(4, &never_both), Err(Trouble::Singular));
        assert_eq!(asked(5, &never_both), Err(Trouble::TooFew(Some(4))));
        let large = mains(&[100, 100, 100], []);
        let none = Problem { model: &large, admits: &|_| false, fixed: &[], runs: 300, seed: 1 };
        assert_eq!(optimal(&none), Err(Trouble::TooFew(None)));
    }
}
