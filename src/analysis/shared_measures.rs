//! User-defined measures of compared sessions: each session gets those of all, so that a measure has one formula wherever it is compared.

use std::collections::BTreeMap;

use super::RunSummary;
use crate::plan::{Key, OwnMeasure};

/// The user-defined measures of several sessions. If several sessions have one of the same key, the first one counts.
#[derive(Clone, Debug, Default)]
pub struct SharedMeasures {
    all: Vec<OwnMeasure>,
    /// The measures that sessions define differently, each with the reason why it cannot be compared.
    refused: BTreeMap<Key, String>,
}

impl SharedMeasures {
    /// Joins the lists of the sessions.
    pub fn of<'a>(lists: impl IntoIterator<Item = &'a [OwnMeasure]>) -> Self {
        let (mut all, mut refused): (Vec<OwnMeasure>, BTreeMap<Key, String>) = Default::default();
        for measure in lists.into_iter().flatten() {
            match all.iter().find(|known| known.key == measure.key) {
                Some(known) => {
                    if let Some(why) = disagreement(known, measure) {
                        refused.entry(known.key.clone()).or_insert(why);
                    }
                }
                None => all.push(measure.clone()),
            }
        }
        Self { all, refused }
    }

    /// Why values of a measure cannot be compared between the sessions: they disagree on its formula, or on its good values.
    pub fn refused(&self, key: &str) -> Option<&str> {
        self.refused.get(key).map(String::as_str)
    }

    /// The runs of a session with the measures of all sessions; `None` if they have them already. `list` is the session's own list, with
    /// which its runs were summarised.
    pub fn computed(&self, list: &[OwnMeasure], runs: &[RunSummary]) -> Option<Vec<RunSummary>> {
        if self.all == list {
            return None;
        }
        let mut runs = runs.to_vec();
        runs.iter_mut().for_each(|run| run.set_own(&self.all));
        Some(runs)
    }
}

/// In what two definitions of the same measure differ, with what to do; `None` if their values can be compared.
fn disagreement(one: &OwnMeasure, other: &OwnMeasure) -> Option<String> {
    let key = &one.key;
    if one.formula != other.formula {
        return Some(format!(
            "{key}: one session computes it as {}, another as {}: give it the same formula in both with `multicard measure`",
            one.formula, other.formula
        ));
    }
    one.better.is_opposite(other.better).then(|| {
        format!(
            "{key}: one session says that {} values of it are good, another that {} values are: give it the same --better in both with \
             `multicard measure`",
            one.better.name(),
            other.better.name()
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run};
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
    fn of_different_formulas_the_first_one_counts_and_the_measure_is_refused_by_name() {
        let (first, second) =
            ([OwnMeasure::new("own", "2 * step_time_s")], [OwnMeasure::new("own", "step_time_s / 3")]);
        let shared = SharedMeasures::of([&first[..], &second[..]]);
        let why = shared.refused("own").unwrap();
        assert!(
            why.starts_with("own: one session computes it as 2 * step_time_s, another as step_time_s / 3: give it"),
            "{why}"
        );
        assert_eq!(shared.refused("step_time_s"), None);
        assert_eq!(shared.computed(&second, &runs(&second)).unwrap(), runs(&first));
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
}
