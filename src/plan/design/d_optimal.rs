//! D-optimal designs for the ticked levels and interactions: their model, their usual size, and the reasons why a design cannot be made.

use super::model::{Model, Term, combination, combinations};
use super::optimal::{Problem, Trouble, optimal};
use super::{Space, counted, fit, name};

/// The model of all main effects and these interactions.
pub(super) fn full_model(counts: &[usize], interactions: Vec<Term>) -> Model {
    Model::new(counts, (0..counts.len()).map(|factor| vec![factor]).chain(interactions).collect())
}

/// A quarter more combinations than coefficients, at least two more: enough to see lack of fit.
pub(super) fn usual_optimal(coefficients: usize) -> usize {
    coefficients + (coefficients / 4).max(2)
}

/// Combinations that estimate the main effects and these interactions best, beside `fixed` ones.
pub(super) fn d_optimal(
    space: &Space,
    runs: Option<usize>,
    interactions: Vec<Term>,
    fixed: &[Vec<usize>],
) -> Result<Vec<Vec<usize>>, String> {
    let mains = space.counts.len();
    let model = full_model(&space.counts, interactions);
    let of_mains = 1 + space.counts.iter().map(|count| count - 1).sum::<usize>();
    let usual = usual_optimal(model.width);
    let runs = runs.unwrap_or_else(|| usual.min(usize::try_from(combinations(&space.counts)).unwrap_or(usual)));
    if runs + fixed.len() < model.width {
        return Err(format!(
            "{} cannot estimate {} ({of_mains} of the mean and {}, {} of interactions): give {} runs or more, or untick interactions or \
             levels",
            counted(runs + fixed.len(), "run"),
            counted(model.width, "coefficient"),
            counted(mains, "main effect"),
            model.width - of_mains,
            model.width - fixed.len()
        ));
    }
    let problem = Problem { model: &model, admits: space.admits, fixed, runs, seed: space.seed };
    optimal(&problem).map_err(|trouble| match trouble {
        Trouble::TooFew(Some(left)) => format!(
            "the constraints leave {} to run, and the design needs {runs}: lower runs, relax a constraint, or tick more levels",
            counted(left, "combination")
        ),
        Trouble::TooFew(None) => format!(
            "fewer than {runs} of {} combinations that were drawn at random meet the constraints: relax a constraint",
            1_000 + 500 * runs
        ),
        Trouble::TooLarge => format!(
            "{} of {} with {} take too long to optimise: lower runs, untick interactions or levels, or leave out factors",
            counted(runs, "run"),
            counted(mains, "factor"),
            counted(model.width, "coefficient")
        ),
        Trouble::Singular => match lost(space, &model, fixed) {
            Some(term) => format!(
                "the constraints leave no combinations that tell {} apart from the other effects: untick it, or relax a constraint",
                name(space, &term)
            ),
            None => format!("{} cannot tell all ticked effects apart: give more runs", counted(runs, "run")),
        },
    })
}

/// The first effect that no combinations can estimate, judged by up to some thousands of them.
fn lost(space: &Space, model: &Model, fixed: &[Vec<usize>]) -> Option<Term> {
    let number = combinations(&space.counts);
    // Looks far apart from each other.
    let step = (number / 4_000).max(1);
    let looked_at =
        (0..number.min(4_000)).map(|place: u64| combination(&space.counts, place.saturating_mul(step) % number));
    let admitted: Vec<Vec<usize>> =
        fixed.iter().cloned().chain(looked_at.filter(|point| (space.admits)(point))).collect();
    let interactions: Vec<Term> = model.terms.iter().filter(|term| term.len() == 2).cloned().collect();
    fit::lost(&space.counts, &interactions, &admitted).into_iter().next()
}
