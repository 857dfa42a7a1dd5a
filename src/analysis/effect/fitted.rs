//! Effects from the cells of a design: least squares on the logarithms, repeat by repeat, with the effects that each estimate is mixed with.
//!
//! The intervals are over repeats, as for full grids: each repeat of all cells gives one estimate of each effect.

use std::collections::HashMap;

use super::{Combined, Design, Estimate, Fitted, MOST_INTERACTIONS, Mixed, Reading};
use crate::analysis::contrast::Sample;
use crate::analysis::{Cell, Comparison, Setting};
use crate::plan::{Alias, Fit, Interactions, Term};

/// The interactions that the design of the latest run must estimate, as places of settings. `None` if no design with a model chose the
/// cells.
pub(super) fn requested_interactions(cells: &[Cell], settings: &[Setting]) -> Option<Vec<Term>> {
    let runs = cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.design.is_some());
    let queued = |run: &&crate::analysis::RunSummary| run.started_s.unwrap_or(0.0);
    let latest = runs.max_by(|a, b| queued(a).total_cmp(&queued(b)))?;
    let design = latest.design.as_ref().filter(|design| design.kind.is_fitted())?;
    let place = |key: &str| settings.iter().position(|setting| *setting.key == *key);
    Some(match &design.interactions {
        Interactions::All => {
            (0..settings.len()).flat_map(|one| (one + 1..settings.len()).map(move |other| vec![one, other])).collect()
        }
        Interactions::These(pairs) => {
            let term = |one: &str, other: &str| {
                let (one, other) = (place(one)?, place(other)?);
                Some(vec![one.min(other), one.max(other)])
            };
            pairs.iter().filter_map(|(one, other)| term(one, other)).collect()
        }
    })
}

/// Estimates the effects of a model. The model has all main effects, these interactions, and all other interactions that are not mixed with
/// these effects.
pub(super) fn fitted(design: &Design<'_, '_>, interactions: &[Term], reading: &Reading<'_>) -> Vec<Estimate> {
    let counts: Vec<usize> = design.levels.iter().map(|levels| levels.len().max(1)).collect();
    let fit = Fit::new(&counts, interactions, &design.codes);
    let (main, of_two) = design.changes();
    let main = main.into_iter().map(|change| vec![change]);
    let of_two = of_two.filter(|changes| {
        let term: Term = changes.iter().map(|(setting, _)| *setting).collect();
        fit.terms().contains(&term)
    });
    // The changes to all levels of a factor have the same ones.
    let mut aliases: HashMap<Term, Vec<Alias>> = HashMap::new();
    let estimate = |changes: Vec<(usize, usize)>| {
        let weights = fit.weights(&changes)?;
        let term: Term = changes.iter().map(|(setting, _)| *setting).collect();
        let aliases = aliases.entry(term).or_insert_with_key(|term| fit.aliases(term));
        let mixed = aliases.iter().map(|alias| Mixed {
            settings: alias.term.iter().map(|place| design.settings[*place].clone()).collect(),
            share: alias.share,
        });
        let mut comparison = compared(design, &weights, reading);
        // Each estimate is a sum over all cells.
        comparison.reason = design.no_ratio(0..design.cells.len()).or(comparison.reason);
        comparison.by_arrival = Some(weighted(&weights, &design.clocks).sample);
        // The weights of the ratio of two values are 1 and -1.
        comparison.rounding.step *= weights.iter().map(|weight| weight.abs()).sum::<f64>() / 2.0;
        let fitted = Some(Fitted { cells: weights.len(), mixed: mixed.collect() });
        Some(Estimate { changes: design.named(&changes), combined: combined(design, &weights), comparison, fitted })
    };
    main.chain(of_two.take(MOST_INTERACTIONS)).filter_map(estimate).collect()
}

/// The weighted sum of all cells.
fn combined(design: &Design<'_, '_>, weights: &[f64]) -> Combined {
    if design.cells.iter().all(|cell| cell.has_partners()) {
        return weighted(weights, &design.logs);
    }
    design.whole(weights.iter().copied().zip(0..), weights.len())
}

/// The weighted sums of the repeats that all cells have.
fn weighted(weights: &[f64], logs: &[Vec<(u32, f64)>]) -> Combined {
    let sum = |repeat: u32| -> Option<f64> {
        let of_cell = |(weight, logs): (&f64, &Vec<(u32, f64)>)| {
            Some(weight * logs.iter().find(|(known, _)| *known == repeat)?.1)
        };
        weights.iter().zip(logs).map(of_cell).sum()
    };
    let repeats = logs.first().map_or(&[][..], Vec::as_slice);
    Combined {
        sample: Sample::Pairs(repeats.iter().filter_map(|(repeat, _)| sum(*repeat)).collect()),
        groups: weights.len(),
        repeats: logs.iter().map(Vec::len).max().unwrap_or(0),
    }
}

/// The limits of the design for one effect: each cell that counts positively is compared with a cell that counts negatively. Cells are in
/// the order of launches, so that cells of one launch are compared with each other as far as the effect is balanced within it.
fn compared(design: &Design<'_, '_>, weights: &[f64], reading: &Reading<'_>) -> Comparison {
    let largest = weights.iter().fold(0.0, |most: f64, weight| most.max(weight.abs()));
    let mut places: Vec<usize> = (0..weights.len()).collect();
    let started = |place: &usize| {
        let starts = design.cells[*place].runs.iter().filter_map(|run| run.started_s);
        starts.fold(f64::INFINITY, f64::min)
    };
    places.sort_by(|one, other| started(one).total_cmp(&started(other)));
    let with = |sign: f64| places.iter().copied().filter(move |place| sign * weights[*place] > 1e-6 * largest);
    let (positive, negative): (Vec<usize>, Vec<usize>) = (with(1.0).collect(), with(-1.0).collect());
    if positive.is_empty() || negative.is_empty() {
        return Comparison::of_design(&[], reading.measure);
    }
    let count = positive.len().max(negative.len());
    let pair = |at: usize| {
        let cell = |side: &[usize]| design.cells[side[at * side.len() / count]];
        (cell(&positive), cell(&negative))
    };
    let pairs: Vec<_> = (0..count).map(pair).collect();
    Comparison::of_design(&pairs, reading.measure)
}
