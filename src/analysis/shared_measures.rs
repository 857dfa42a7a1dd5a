//! User-defined measures of compared sessions: each session gets those of all, so that a measure has one formula wherever it is compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RunSummary;
use crate::plan::{Formula, Key, OwnMeasure};

/// The user-defined measures of several sessions. If several sessions have one of the same key, the first one counts.
#[derive(Clone, Debug, Default)]
pub struct SharedMeasures {
    all: Vec<OwnMeasure>,
    /// The measures that sessions define differently, each with the reason why it cannot be compared.
    refused: Arc<BTreeMap<Key, String>>,
}

impl SharedMeasures {
    /// Joins the lists of the sessions.
    pub fn of<'a>(lists: impl IntoIterator<Item = &'a [OwnMeasure]>) -> Self {
        let mut all: Vec<OwnMeasure> = Vec::new();
        let (mut of_formulas, mut of_good_values): (BTreeMap<Key, String>, BTreeMap<Key, String>) = Default::default();
        for measure in lists.into_iter().flatten() {
            let Some(known) = all.iter().find(|known| known.key == measure.key) else {
                all.push(measure.clone());
                continue;
            };
            if known.formula != measure.formula {
                of_formulas.entry(known.key.clone()).or_insert_with(|| unlike_formulas(known, measure));
            } else if known.better.is_opposite(measure.better) {
                of_good_values.entry(known.key.clone()).or_insert_with(|| opposite_good_values(known, measure));
            }
        }
        let mut refused = with_dependents(&all, &of_formulas);
        for (key, why) in of_good_values {
            refused.entry(key).or_insert(why);
        }
        Self { all, refused: Arc::new(refused) }
    }

    /// Why values of a measure cannot be compared between the sessions: they disagree on its formula, on that of a measure that it needs, or
    /// on its good values.
    pub fn refused(&self, key: &str) -> Option<&str> {
        self.refused.get(key).map(String::as_str)
    }

    /// The runs of a session with the measures of all sessions; `None` if they have them already. `list` is the session's own list, with
    /// which its runs were summarised. No run has a value of a measure that is refused; see [`RunSummary::disputed`].
    pub fn computed(&self, list: &[OwnMeasure], runs: &[RunSummary]) -> Option<Vec<RunSummary>> {
        if self.all == list && self.refused.is_empty() {
            return None;
        }
        let mut runs = runs.to_vec();
        for run in &mut runs {
            run.set_own(&self.all);
            run.dispute(&self.refused);
        }
        Some(runs)
    }
}

/// In what the formulas of the same measure differ, with what to do.
fn unlike_formulas(one: &OwnMeasure, other: &OwnMeasure) -> String {
    format!(
        "{}: one session computes it as {}, another as {}: give it the same formula in both with `multicard measure`",
        one.key, one.formula, other.formula
    )
}

/// In what two sessions differ that have opposite good values of the same measure, with what to do.
fn opposite_good_values(one: &OwnMeasure, other: &OwnMeasure) -> String {
    format!(
        "{}: one session says that {} values of it are good, another that {} values are: give it the same --better in both with \
         `multicard measure`",
        one.key,
        one.better.name(),
        other.better.name()
    )
}

/// The measures that sessions compute by different formulas, and the measures that need one of these, each with the reason.
fn with_dependents(all: &[OwnMeasure], disputed: &BTreeMap<Key, String>) -> BTreeMap<Key, String> {
    if disputed.is_empty() {
        return BTreeMap::new();
    }
    let parsed = all.iter().filter_map(|own| Some((&own.key, Formula::parse(&own.formula).ok()?)));
    let formulas: Vec<(&Key, Formula)> = parsed.collect();
    let mut reasons: BTreeMap<Key, &str> = disputed.iter().map(|(key, why)| (key.clone(), why.as_str())).collect();
    // A measure may need others through further ones, which may stand behind it in the list.
    loop {
        let known = reasons.len();
        for (key, formula) in &formulas {
            if let Some(why) = formula.names().into_iter().find_map(|name| reasons.get(name).copied()) {
                reasons.entry((*key).clone()).or_insert(why);
            }
        }
        if reasons.len() == known {
            break;
        }
    }
    let sentence = |(key, why): (Key, &str)| {
        let why = if disputed.contains_key(&key) { why.to_owned() } else { format!("{key} needs {why}") };
        (key, why)
    };
    reasons.into_iter().map(sentence).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run, why_absent};
    use crate::plan::Better;
    use crate::store::RunRecord;

    /// The runs of a session with this list.
    fn runs(list: &[OwnMeasure]) -> Vec<RunSummary> {
        let record = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.1);
        vec![summarise_run(&RunRecord { own_measures: list.into(), ..record })]
    }

    #[test]
    fn a_measure_of_one_session_is_computed_in_the_others_too() {
        let with: &[OwnMeasure] = &[OwnMeasure::new("twice", "2 * step_time_s")];
        let without: &[OwnMeasure] = &[];
        for lists in [[with, without], [without, with]] {
            let shared = SharedMeasures::of(lists);
            assert_eq!(shared.refused("twice"), None);
            assert!(shared.computed(with, &runs(with)).is_none(), "they have it already");
            let before = runs(without);
            assert_eq!(before[0].value("twice"), None);
            assert_eq!(shared.computed(without, &before).unwrap(), runs(with));
        }
    }

    #[test]
    fn a_measure_with_different_formulas_is_refused_by_name_and_no_run_has_a_value_of_it() {
        let (first, second) =
            ([OwnMeasure::new("own", "2 * step_time_s")], [OwnMeasure::new("own", "step_time_s / 3")]);
        let shared = SharedMeasures::of([&first[..], &second[..]]);
        let why = shared.refused("own").unwrap();
        assert!(
            why.starts_with("own: one session computes it as 2 * step_time_s, another as step_time_s / 3: give it"),
            "{why}"
        );
        assert_eq!(shared.refused("step_time_s"), None);
        for list in [&first, &second] {
            let computed = shared.computed(list, &runs(list)).unwrap();
            assert_eq!(computed[0].value("own"), None);
            assert_eq!(why_absent(&computed, "own").as_deref(), Some(why));
            assert_eq!(why_absent(&computed, "step_time_s"), None);
        }
    }

    #[test]
    fn what_needs_a_measure_with_different_formulas_is_refused_with_the_same_sentence() {
        let list = |formula: &str| {
            [
                OwnMeasure::new("triple", "3 * double"),
                OwnMeasure::new("own", formula),
                OwnMeasure::new("double", "2 * own"),
                OwnMeasure::new("other", "2 * step_time_s"),
            ]
        };
        let (first, second) = (list("2 * step_time_s"), list("step_time_s / 3"));
        let shared = SharedMeasures::of([&first[..], &second[..]]);
        let why = shared.refused("own").unwrap();
        for key in ["double", "triple"] {
            assert_eq!(shared.refused(key).unwrap(), format!("{key} needs {why}"));
        }
        assert_eq!(shared.refused("other"), None);
        let computed = shared.computed(&first, &runs(&first)).unwrap();
        let has_value = |key: &str| computed[0].value(key).is_some();
        assert_eq!(["own", "double", "triple", "other"].map(has_value), [false, false, false, true]);
    }

    #[test]
    fn opposite_good_values_are_refused_and_a_name_or_unknown_good_values_are_not() {
        let own = OwnMeasure::new("own", "2 * step_time_s");
        let better = |better| [OwnMeasure { better, ..own.clone() }];
        let refused = |one: &[OwnMeasure], other: &[OwnMeasure]| {
            SharedMeasures::of([one, other]).refused("own").map(str::to_owned)
        };
        let why = refused(&better(Better::Higher), &better(Better::Lower)).unwrap();
        assert!(
            why.starts_with("own: one session says that higher values of it are good, another that lower"),
            "{why}"
        );
        assert_eq!(refused(&better(Better::Higher), &better(Better::Neither)), None);
        let named = [OwnMeasure { name: Some("Own".to_owned()), ..own.clone() }];
        assert_eq!(refused(&[own], &named), None);
    }

    #[test]
    fn what_needs_a_measure_with_opposite_good_values_has_values_because_its_formula_is_the_same() {
        let list = |better| {
            [OwnMeasure { better, ..OwnMeasure::new("own", "2 * step_time_s") }, OwnMeasure::new("double", "2 * own")]
        };
        let (first, second) = (list(Better::Higher), list(Better::Lower));
        let shared = SharedMeasures::of([&first[..], &second[..]]);
        assert!(shared.refused("own").is_some() && shared.refused("double").is_none());
        let computed = shared.computed(&second, &runs(&second)).unwrap();
        assert_eq!((computed[0].value("own"), computed[0].value("double").is_some()), (None, true));
    }
}
