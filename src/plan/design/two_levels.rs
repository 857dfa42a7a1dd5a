//! Two-level designs: which regular fraction, or which design of Plackett and Burman, estimates what was ticked; and fold-overs.

use std::collections::HashSet;

use super::fit::{lost, resolution};
use super::model::Term;
use super::{Key, Space, fraction, name};

/// How many assignments of factors to the columns of a fraction are tried.
const ASSIGNMENTS: usize = 5_000;

/// The runs of the smallest design of Plackett and Burman; `None` if there are too many factors.
pub(super) fn usual_plackett_burman(factors: usize) -> Option<usize> {
    fraction::PLACKETT_BURMAN.into_iter().find(|runs| *runs > factors)
}

/// A factor that has not two levels, which two-level designs need.
fn only_two_levels(space: &Space, what: &str) -> Result<(), String> {
    match space.counts.iter().position(|count| *count != 2) {
        None => Ok(()),
        Some(factor) => Err(format!(
            "a {what} needs two levels of each factor, and {} has {}: leave out levels, or choose d-optimal",
            space.keys[factor], space.counts[factor]
        )),
    }
}

/// A regular fraction that estimates all main effects and these interactions.
pub(super) fn regular(space: &Space, runs: Option<usize>, interactions: &[Term]) -> Result<Vec<Vec<usize>>, String> {
    only_two_levels(space, "two-level fraction")?;
    let factors = space.counts.len();
    let sizes = fraction::sizes(factors);
    let listed = || sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (Some(largest), false) = (sizes.last(), factors > 15) else {
        return Err(format!(
            "there are fractions for up to 15 factors, and {factors} vary: choose plackett-burman or d-optimal"
        ));
    };
    let asked: Vec<usize> = match runs {
        Some(runs) if sizes.contains(&runs) => vec![runs],
        Some(runs) => {
            return Err(format!(
                "there is no fraction of {factors} factors with {runs} runs: runs can be {}",
                listed()
            ));
        }
        None => sizes.clone(),
    };
    for runs in asked.iter().copied() {
        let Some(columns) = fraction::columns(factors, runs) else { continue };
        let points = fraction::regular(&columns, runs);
        let is_clear =
            |points: &[Vec<usize>]| resolution(&space.counts, points).is_none_or(|resolution| resolution > 3);
        // Unless the number of runs was given, main effects are kept apart from interactions.
        if asked.len() > 1 && runs < *largest && !is_clear(&points) {
            continue;
        }
        if let Some(columns) = assigned(&columns, interactions) {
            return Ok(fraction::regular(&columns, runs));
        }
    }
    let lost = interactions.iter().map(|term| name(space, term)).collect::<Vec<_>>().join(", ");
    Err(format!(
        "no fraction with {} runs keeps the ticked interactions apart from each other and from the main effects ({lost}): give more \
         runs, untick some, or choose d-optimal",
        asked.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
    ))
}

/// The columns of a fraction assigned to the factors so that the interactions are estimated: the first assignment that does it, in the
/// order of permutations.
fn assigned(columns: &[usize], interactions: &[Term]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..columns.len()).collect();
    for _ in 0..ASSIGNMENTS {
        let assigned: Vec<usize> = order.iter().map(|place| columns[*place]).collect();
        if keeps_apart(&assigned, interactions) {
            return Some(assigned);
        }
        if !next_permutation(&mut order) {
            return None;
        }
    }
    None
}

/// Whether the main effects and these interactions can all be estimated separately. In Yates's numbering, the column of an interaction is
/// the exclusive or of its factors' columns, 0 is the mean, and different columns are orthogonal.
fn keeps_apart(columns: &[usize], interactions: &[Term]) -> bool {
    let of_terms = interactions.iter().map(|term| term.iter().fold(0, |column, factor| column ^ columns[*factor]));
    let mut seen = HashSet::from([0]);
    interactions.is_empty() || columns.iter().copied().chain(of_terms).all(|column| seen.insert(column))
}

/// The next order in lexicographic order; `false` after the last one.
fn next_permutation(order: &mut [usize]) -> bool {
    let Some(fall) = (1..order.len()).rev().find(|place| order[place - 1] < order[*place]) else { return false };
    if let Some(next) = (fall..order.len()).rev().find(|place| order[*place] > order[fall - 1]) {
        order.swap(fall - 1, next);
    }
    order[fall..].reverse();
    true
}

/// A design of Plackett and Burman that estimates all main effects and these interactions.
pub(super) fn plackett_burman(
    space: &Space,
    runs: Option<usize>,
    interactions: &[Term],
) -> Result<Vec<Vec<usize>>, String> {
    only_two_levels(space, "Plackett-Burman design")?;
    let factors = space.counts.len();
    let usual = usual_plackett_burman(factors).ok_or_else(|| {
        format!("there are Plackett-Burman designs for up to 83 factors, and {factors} vary: untick some")
    })?;
    let runs = runs.unwrap_or(usual);
    let points = fraction::plackett_burman(factors, runs).ok_or_else(|| {
        let possible = fraction::PLACKETT_BURMAN.iter().filter(|runs| **runs > factors).map(ToString::to_string);
        format!(
            "there is no Plackett-Burman design of {factors} factors with {runs} runs: runs can be {}; powers of two are fractions",
            possible.collect::<Vec<_>>().join(", ")
        )
    })?;
    match lost(&space.counts, interactions, &points).first() {
        None => Ok(points),
        Some(term) => Err(format!(
            "a Plackett-Burman design of {runs} runs cannot estimate {} beside the main effects: give more runs, untick it, or choose \
             d-optimal",
            name(space, term)
        )),
    }
}

/// The same combinations with the other levels of one factor or of all.
pub(super) fn fold_over(space: &Space, points: &[Vec<usize>], factor: Option<&Key>) -> Result<Vec<Vec<usize>>, String> {
    only_two_levels(space, "fold-over")?;
    let place = factor.map(|factor| {
        space.keys.iter().position(|key| *key == factor).ok_or_else(|| {
            format!("the fold-over names {factor}, which has one level here: tick another level of it, or name another factor")
        })
    });
    let place = place.transpose()?;
    let folded = |point: &Vec<usize>| {
        let level = |(factor, level): (usize, &usize)| match place {
            Some(place) if place != factor => *level,
            _ => 1 - level,
        };
        point.iter().enumerate().map(level).collect::<Vec<_>>()
    };
    let known: HashSet<&Vec<usize>> = points.iter().collect();
    let more: Vec<Vec<usize>> = points.iter().map(folded).filter(|point| !known.contains(point)).collect();
    if more.is_empty() {
        return Err("the fold-over adds nothing: its combinations are in the design already; fold over one factor, or add d-optimal runs".to_owned());
    }
    Ok(more)
}
