//! Designs: which combinations of a block's levels are run, if not all of them.
//!
//! A design works on places of factors and levels, so that it knows neither plans nor workloads; [`super::designed`] applies it to a block.

mod d_optimal;
mod fit;
mod fraction;
mod hypercube;
mod linear;
mod model;
mod optimal;
mod two_levels;

use std::collections::{HashMap, HashSet};

use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

pub use fit::{Alias, Fit, resolution};
pub use model::Term;

use super::{Key, Level, counted, named};
use d_optimal::{d_optimal, usual_optimal};
use model::freedom;
use two_levels::{fold_over, plackett_burman, regular, usual_plackett_burman};

/// How combinations are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum DesignKind {
    /// A base cell, and for each other level of each factor the base with this level alone changed.
    OneAtATime,
    /// A regular two-level fraction with minimum aberration.
    Fraction,
    /// A two-level design of Plackett and Burman.
    PlackettBurman,
    /// The combinations that know the ticked effects best for their number.
    DOptimal,
    /// Numbers spread over the ranges of the ticked levels.
    LatinHypercube,
}

named!(DesignKind: names, name);

impl DesignKind {
    /// The name in sentences and on screen.
    pub fn title(self) -> &'static str {
        match self {
            Self::OneAtATime => "one factor at a time",
            Self::Fraction => "two-level fraction",
            Self::PlackettBurman => "Plackett-Burman",
            Self::DOptimal => "D-optimal",
            Self::LatinHypercube => "Latin hypercube",
        }
    }

    /// Whether a linear model of main effects and interactions is fitted to its cells. Cells of the other kinds are compared in pairs, or
    /// drawn over the values of a factor.
    pub fn is_fitted(self) -> bool {
        matches!(self, Self::Fraction | Self::PlackettBurman | Self::DOptimal)
    }
}

/// The interactions that a design must estimate.
#[derive(Clone, Debug, PartialEq)]
pub enum Interactions {
    /// These pairs of factors.
    These(Vec<(Key, Key)>),
    /// The interactions of all pairs of factors that vary.
    All,
}

/// Combinations that are added to a design. The design's own combinations may have results already.
#[derive(Clone, Debug, PartialEq)]
pub enum Added {
    /// Each combination again with the other level of this factor, or with the other levels of all factors.
    FoldOver(Option<Key>),
    /// This many combinations that complete the ticked effects best.
    DOptimal(u32),
}

/// How large a design is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// The usual size of the kind.
    Usual,
    /// This many combinations.
    Runs(u32),
    /// As many combinations as fit into this time with their repeats.
    Time {
        /// The time for all runs.
        minutes: f64,
        /// How long a run takes.
        run_s: f64,
    },
}

/// A design.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// How combinations are chosen.
    pub kind: DesignKind,
    /// How many.
    pub size: Size,
    /// The interactions that the design must estimate in addition to the main effects.
    pub interactions: Interactions,
    /// Levels of the base cell; a factor that is not named has its first ticked level.
    pub base: Vec<(Key, Level)>,
    /// Factors whose numbers are spread evenly over their logarithms.
    pub logarithmic: Vec<Key>,
    /// The additions to the design, in order.
    pub added: Vec<Added>,
}

/// The factors that vary, as a design sees them.
pub(super) struct Space<'a> {
    /// Their keys.
    pub keys: Vec<&'a Key>,
    /// The number of ticked levels of each.
    pub counts: Vec<usize>,
    /// Whether a combination may be run.
    pub admits: &'a dyn Fn(&[usize]) -> bool,
    /// The combination that stands for each factor's base level.
    pub base: Vec<usize>,
    pub repeats: u32,
    pub seed: u64,
}

/// The most combinations that a plan may ask a design for.
pub const MOST_RUNS: u32 = 10_000;
/// Hypercubes have no usual size.
const USUAL_HYPERCUBE: usize = 10;
const MOST_OF_HYPERCUBE: usize = 2_000;
/// The most cells times factors times factors of one factor at a time: each cell looks up each of its factors, and more would take minutes.
const MOST_ONE_AT_A_TIME: u64 = 4_000_000_000;
/// The largest number of factors for [`Interactions::All`]: the pairs of more factors have more coefficients than any design has
/// combinations.
const MOST_IN_ALL_PAIRS: usize = 500;

impl Design {
    /// A design of this kind with nothing else chosen.
    pub fn new(kind: DesignKind) -> Self {
        Self {
            kind,
            size: Size::Usual,
            interactions: Interactions::These(Vec::new()),
            base: Vec::new(),
            logarithmic: Vec::new(),
            added: Vec::new(),
        }
    }

    /// The largest number of combinations of the design for factors with these numbers of levels; an upper bound if the design cannot be
    /// made.
    pub(super) fn at_most(&self, keys: &[&Key], counts: &[usize], repeats: u32) -> u64 {
        let own = match self.kind {
            DesignKind::OneAtATime => 1 + counts.iter().map(|count| *count as u64 - 1).sum::<u64>(),
            DesignKind::Fraction => match self.runs(repeats) {
                Some(runs) => runs as u64,
                None => fraction::sizes(counts.len()).last().map_or(0, |runs| *runs as u64),
            },
            DesignKind::PlackettBurman => {
                self.runs(repeats).or_else(|| usual_plackett_burman(counts.len())).unwrap_or(0) as u64
            }
            DesignKind::DOptimal => {
                self.runs(repeats).unwrap_or_else(|| usual_optimal(self.coefficients(keys, counts))) as u64
            }
            DesignKind::LatinHypercube => self.runs(repeats).unwrap_or(USUAL_HYPERCUBE) as u64,
        };
        self.added.iter().fold(own, |sum, added| match added {
            Added::FoldOver(_) => sum.saturating_mul(2),
            Added::DOptimal(runs) => sum.saturating_add(u64::from(*runs)),
        })
    }

    /// The number of combinations that the plan asks for.
    fn runs(&self, repeats: u32) -> Option<usize> {
        match self.size {
            Size::Usual => None,
            Size::Runs(runs) => Some(runs as usize),
            Size::Time { minutes, run_s } => Some((minutes * 60.0 / (run_s * f64::from(repeats.max(1)))) as usize),
        }
    }

    /// The number of coefficients of the mean, of all main effects and of the interactions.
    fn coefficients(&self, keys: &[&Key], counts: &[usize]) -> usize {
        let free = || counts.iter().map(|count| count - 1);
        let of_pairs = match &self.interactions {
            // The square of the sum has each pair twice, and the square of each factor.
            Interactions::All => (free().sum::<usize>().pow(2) - free().map(|own| own * own).sum::<usize>()) / 2,
            Interactions::These(_) => {
                self.interactions(keys).unwrap_or_default().iter().map(|term| freedom(counts, term)).sum()
            }
        };
        1 + free().sum::<usize>() + of_pairs
    }

    /// The interactions as places of factors that vary.
    ///
    /// # Errors
    /// A named factor does not vary, or there are too many pairs.
    pub(super) fn interactions(&self, keys: &[&Key]) -> Result<Vec<Term>, String> {
        let Interactions::These(pairs) = &self.interactions else {
            if keys.len() > MOST_IN_ALL_PAIRS {
                return Err(format!(
                    "the pairs of {} are too many interactions: name those that matter, or give most factors one level",
                    counted(keys.len(), "factor")
                ));
            }
            let all = (0..keys.len()).flat_map(|first| (first + 1..keys.len()).map(move |second| vec![first, second]));
            return Ok(all.collect());
        };
        let places: HashMap<&Key, usize> = keys.iter().enumerate().map(|(place, key)| (*key, place)).collect();
        let place = |key: &Key| {
            places.get(key).copied().ok_or_else(|| {
                format!("an interaction names {key}, which has one level here: tick another level of it, or untick the interaction")
            })
        };
        let (mut terms, mut seen) = (Vec::new(), HashSet::new());
        for (first, second) in pairs {
            let mut term = vec![place(first)?, place(second)?];
            term.sort_unstable();
            if seen.insert(term.clone()) {
                terms.push(term);
            }
        }
        Ok(terms)
    }

    /// The combinations to run, each once: places of levels for each factor, or strata from 0 for a Latin hypercube.
    ///
    /// # Errors
    /// The design cannot be made; the error says why, and what to do.
    pub(super) fn points(&self, space: &Space) -> Result<Vec<Vec<usize>>, String> {
        let interactions = self.interactions(&space.keys)?;
        let runs = self.runs(space.repeats);
        let mut points = match self.kind {
            DesignKind::OneAtATime => {
                let cells = self.at_most(&space.keys, &space.counts, space.repeats);
                let factors = space.counts.len();
                if cells.saturating_mul((factors * factors) as u64) > MOST_ONE_AT_A_TIME {
                    return Err(format!(
                        "{} of {} take too long to list: give some factors one level, or split the plan",
                        counted(cells, "cell"),
                        counted(factors, "factor")
                    ));
                }
                one_at_a_time(&space.base, &space.counts)
            }
            DesignKind::Fraction => regular(space, runs, &interactions)?,
            DesignKind::PlackettBurman => plackett_burman(space, runs, &interactions)?,
            DesignKind::DOptimal => d_optimal(space, runs, interactions.clone(), &[])?,
            DesignKind::LatinHypercube => {
                let runs = runs.unwrap_or(USUAL_HYPERCUBE);
                if !(2..=MOST_OF_HYPERCUBE).contains(&runs) {
                    return Err(format!("a Latin hypercube has from 2 to {MOST_OF_HYPERCUBE} runs, not {runs}"));
                }
                hypercube::hypercube(runs, space.counts.len(), space.seed)
            }
        };
        for added in &self.added {
            let more = match added {
                _ if self.kind == DesignKind::LatinHypercube => {
                    return Err(
                        "nothing can be added to a Latin hypercube: its strata depend on its runs; raise runs instead"
                            .to_owned(),
                    );
                }
                Added::FoldOver(factor) => fold_over(space, &points, factor.as_ref())?,
                Added::DOptimal(runs) => d_optimal(space, Some(*runs as usize), interactions.clone(), &points)?,
            };
            points.extend(more);
        }
        let mut seen = HashSet::new();
        points.retain(|point| seen.insert(point.clone()));
        Ok(points)
    }
}

fn one_at_a_time(base: &[usize], counts: &[usize]) -> Vec<Vec<usize>> {
    let changed = counts.iter().enumerate().flat_map(|(factor, count)| {
        (0..*count).filter(move |level| *level != base[factor]).map(move |level| {
            let mut point = base.to_vec();
            point[factor] = level;
            point
        })
    });
    std::iter::once(base.to_vec()).chain(changed).collect()
}

/// The name of an effect: `precision` or `precision × layout`.
fn name(space: &Space, term: &Term) -> String {
    term.iter().map(|place| space.keys[*place].as_str()).collect::<Vec<_>>().join(" × ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn keys(count: usize) -> Vec<Key> {
        (0..count).map(|place| Key::from(format!("f{place}"))).collect()
    }

    fn points(design: &Design, counts: &[usize]) -> Result<Vec<Vec<usize>>, String> {
        points_where(design, counts, &|_| true)
    }

    fn points_where(
        design: &Design,
        counts: &[usize],
        admits: &dyn Fn(&[usize]) -> bool,
    ) -> Result<Vec<Vec<usize>>, String> {
        let keys = keys(counts.len());
        let (keys, base): (Vec<&Key>, _) = (keys.iter().collect(), vec![0; counts.len()]);
        let space = Space { keys, counts: counts.to_vec(), admits, base, repeats: 2, seed: 1 };
        let points = design.points(&space)?;
        assert!(points.len() as u64 <= design.at_most(&space.keys, counts, 2), "{}", points.len());
        assert_eq!(points.iter().collect::<HashSet<_>>().len(), points.len());
        Ok(points)
    }

    fn pairs(pairs: &[(usize, usize)]) -> Interactions {
        let key = |place: usize| Key::from(format!("f{place}"));
        Interactions::These(pairs.iter().map(|(first, second)| (key(*first), key(*second))).collect())
    }

    fn error(design: &Design, counts: &[usize]) -> String {
        points(design, counts).unwrap_err()
    }

    #[test]
    fn one_at_a_time_has_the_base_and_each_other_level_once() {
        let design = Design::new(DesignKind::OneAtATime);
        assert_eq!(points(&design, &[2, 3]).unwrap(), [[0, 0], [1, 0], [0, 1], [0, 2]]);
    }

    #[test]
    fn a_fraction_is_as_small_as_main_effects_clear_of_interactions_allow() {
        let design = Design::new(DesignKind::Fraction);
        let size = |factors: usize| points(&design, &vec![2; factors]).unwrap().len();
        assert_eq!([2, 3, 4, 5, 6, 8, 9].map(size), [4, 8, 8, 16, 16, 16, 32]);
        let given = Design { size: Size::Runs(8), ..design.clone() };
        assert_eq!(points(&given, &[2; 7]).unwrap().len(), 8);
    }

    #[test]
    fn columns_are_assigned_so_that_ticked_interactions_are_estimated() {
        // With E = ABCD's shorter words, the usual assignment of 2^(6−2) has AB = CE; another one keeps A × B and C × E apart.
        let design = Design {
            size: Size::Runs(16),
            interactions: pairs(&[(0, 1), (2, 4), (2, 3)]),
            ..Design::new(DesignKind::Fraction)
        };
        let points = points(&design, &[2; 6]).unwrap();
        assert!(Fit::new(&[2; 6], &[vec![0, 1], vec![2, 4], vec![2, 3]], &points).lost().is_empty());
        let all = Design { interactions: Interactions::All, ..design };
        let text = error(&all, &[2; 6]);
        assert!(
            text.contains("no fraction with 16 runs keeps the ticked interactions apart") && text.contains("f0 × f1"),
            "{text}"
        );
    }

    #[test]
    fn impossible_designs_are_refused_with_what_to_do() {
        let fraction = Design::new(DesignKind::Fraction);
        assert!(error(&fraction, &[2, 3]).contains("f1 has 3: leave out levels, or choose d-optimal"));
        let twelve = Design { size: Size::Runs(12), ..fraction };
        assert!(error(&twelve, &[2; 5]).contains("runs can be 8, 16, 32"));
        let optimal = Design { size: Size::Runs(4), ..Design::new(DesignKind::DOptimal) };
        let text = error(&optimal, &[3, 3]);
        assert!(text.contains("4 runs cannot estimate 5 coefficients") && text.contains("give 5 runs"), "{text}");
        // One coefficient of the mean, one of f0, two of f1, and two of their interaction.
        let few = Design { size: Size::Runs(5), interactions: pairs(&[(0, 1)]), ..optimal };
        let text = error(&few, &[2, 3]);
        let parts = "6 coefficients (4 of the mean and 2 main effects, 2 of interactions): give 6 runs";
        assert!(text.contains(parts), "{text}");
        let unvaried = Design { interactions: pairs(&[(0, 7)]), ..Design::new(DesignKind::DOptimal) };
        assert!(error(&unvaried, &[2, 2]).contains("names f7, which has one level here"));
        let burman = Design { size: Size::Runs(16), ..Design::new(DesignKind::PlackettBurman) };
        assert!(error(&burman, &[2; 5]).contains("runs can be 12, 20"));
        let crowded = Design { interactions: Interactions::All, ..Design::new(DesignKind::PlackettBurman) };
        assert!(error(&crowded, &[2; 6]).contains("cannot estimate"));
    }

    #[test]
    fn designs_that_would_take_minutes_or_all_memory_are_refused_at_once() {
        let optimal = Design { size: Size::Runs(1000), ..Design::new(DesignKind::DOptimal) };
        let text = error(&optimal, &[5; 60]);
        assert!(
            text.starts_with("1000 runs of 60 factors with 241 coefficients take too long to optimise: "),
            "{text}"
        );
        let levels = Design { size: Size::Runs(700), ..Design::new(DesignKind::DOptimal) };
        let text = error(&levels, &[300, 300]);
        assert!(text.starts_with("700 runs of 2 factors with 599 coefficients take too long to optimise: "), "{text}");
        let all = Design { interactions: Interactions::All, ..Design::new(DesignKind::DOptimal) };
        let text = error(&all, &[2; 40_000]);
        assert!(text.starts_with("the pairs of 40000 factors are too many interactions: "), "{text}");
        let one_at_a_time = Design::new(DesignKind::OneAtATime);
        let text = error(&one_at_a_time, &[2; 3000]);
        assert!(text.starts_with("3001 cells of 3000 factors take too long to list: "), "{text}");
        assert_eq!(points(&one_at_a_time, &[2; 300]).unwrap().len(), 301);
    }

    #[test]
    fn a_fraction_whose_interactions_cannot_be_kept_apart_is_refused_at_once() {
        // Each of 5,000 assignments for each number of runs would be fitted with 120 effects otherwise.
        let all = Design { interactions: Interactions::All, ..Design::new(DesignKind::Fraction) };
        let text = error(&all, &[2; 15]);
        assert!(
            text.starts_with("no fraction with 16 or 32 or 64 or 128 runs keeps the ticked interactions apart"),
            "{text}"
        );
    }

    #[test]
    fn the_usual_size_is_known_before_the_design_is_made() {
        for interactions in [Interactions::All, pairs(&[(0, 1), (1, 2), (2, 1)])] {
            let design = Design { interactions, ..Design::new(DesignKind::DOptimal) };
            let (counts, keys) = ([2, 3, 4, 3], keys(4));
            let keys: Vec<&Key> = keys.iter().collect();
            let model = d_optimal::full_model(&counts, design.interactions(&keys).unwrap());
            assert_eq!(design.coefficients(&keys, &counts), model.width);
            assert_eq!(points(&design, &counts).unwrap().len(), usual_optimal(model.width));
        }
    }

    #[test]
    fn constraints_that_leave_too_little_are_named() {
        let design = Design { size: Size::Runs(6), ..Design::new(DesignKind::DOptimal) };
        let few = points_where(&design, &[2, 2, 2], &|point| point[0] == 0).unwrap_err();
        assert!(few.contains("leave 4 combinations") && few.contains("needs 6"), "{few}");
        let smaller = Design { size: Size::Runs(4), ..design };
        let lost = points_where(&smaller, &[2, 2, 2], &|point| point[0] == point[1]).unwrap_err();
        assert!(lost.contains("tell f1 apart"), "{lost}");
    }

    #[test]
    fn a_budget_of_time_counts_repeats() {
        let size = Size::Time { minutes: 10.0, run_s: 25.0 };
        let design = Design { size, ..Design::new(DesignKind::DOptimal) };
        assert_eq!(points(&design, &[3, 3, 2]).unwrap().len(), 12);
        let short = Design { size: Size::Time { minutes: 1.0, run_s: 25.0 }, ..design };
        assert!(error(&short, &[3, 3, 2]).starts_with("1 run cannot estimate"));
    }

    #[test]
    fn added_runs_leave_the_earlier_ones_as_they_are() {
        let mut design = Design { size: Size::Runs(8), ..Design::new(DesignKind::Fraction) };
        let before = points(&design, &[2; 5]).unwrap();
        design.added = vec![Added::FoldOver(None)];
        let folded = points(&design, &[2; 5]).unwrap();
        assert_eq!((&folded[..8], folded.len()), (&before[..], 16));
        // A full fold-over of resolution III has resolution IV.
        assert_eq!((resolution(&[2; 5], &before), resolution(&[2; 5], &folded)), (Some(3), Some(4)));
        design.added.push(Added::DOptimal(3));
        let more = points(&design, &[2; 5]).unwrap();
        assert_eq!((&more[..16], more.len()), (&folded[..], 19));
        let full = Design { added: vec![Added::FoldOver(None)], ..Design::new(DesignKind::Fraction) };
        assert!(error(&full, &[2; 2]).contains("adds nothing"));
        let cube = Design { added: vec![Added::DOptimal(2)], ..Design::new(DesignKind::LatinHypercube) };
        assert!(error(&cube, &[2; 2]).contains("raise runs"));
    }
}
