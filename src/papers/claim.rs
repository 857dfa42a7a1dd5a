//! The claims that the papers make in words, and the tests of each claim, as values.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::plan::{Key, Level};

/// A comparison that a paper makes in words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name in multicard.
    pub id: String,
    /// The paper's arXiv number.
    pub paper: String,
    /// The section, and the figure or table.
    pub place: String,
    /// The claim, in words.
    pub text: String,
    /// Ids of the tables and figures that it is about.
    pub on: Vec<String>,
    /// Whether the papers' own numbers support it, in words.
    pub on_their_numbers: String,
    /// The range of settings that the paper ran, as a filter: cells outside it do other work. Empty if the paper gives
    /// no range.
    #[serde(default)]
    pub within: String,
    /// Why multicard cannot judge it, as a fragment of a sentence; then it has no tests.
    pub unjudged: Option<String>,
    /// How to make the runs that test it, if the plan of its first table or figure does not make them: a command, or a
    /// fragment of a sentence that names one.
    pub advice: Option<String>,
    /// Its tests; the claim holds only if all of them hold.
    #[serde(rename = "test", default)]
    pub tests: Vec<Test>,
}

/// How a test's two sides are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// The ratio: the product of the values of one side, divided by the product of the values of the other side.
    #[default]
    Ratio,
    /// The difference: the sum of the values of one side, minus the sum of the values of the other side.
    Difference,
}

/// One test of a claim. It compares a measure between cells that differ only in the levels of `of` and `over`, and
/// checks whether the comparison is within bounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The test, in words.
    pub says: String,
    /// The cells that it uses, as a filter.
    #[serde(rename = "where", default)]
    pub filter: String,
    /// Keys of the registry of measures; the values of several are added.
    pub measure: Vec<Key>,
    /// If not empty, the measure is divided by the sum of these measures.
    #[serde(default)]
    pub share_of: Vec<Key>,
    /// Whether it compares data sets. Stand-ins cannot judge such a test, because their rows are generated.
    #[serde(default)]
    pub on_data: bool,
    /// Whether it uses the measure's mean over epochs in place of the run's value.
    #[serde(default)]
    pub over_epochs: bool,
    /// How the two sides are compared.
    #[serde(default)]
    pub compare: Compare,
    /// The cells of the first side, by their levels.
    pub of: Vec<Side>,
    /// The cells of the second side, by their levels.
    #[serde(default)]
    pub over: Vec<Side>,
    /// The lower bound of the claim.
    pub at_least: Option<f64>,
    /// The upper bound of the claim.
    pub at_most: Option<f64>,
    /// How far outside the bounds the value may be: a share of the bound, or for differences an amount in the measure's
    /// unit.
    #[serde(default)]
    pub tolerance: f64,
}

/// Why the bounds of tests are wider than the numbers in the papers, as a sentence without its full stop.
pub const WHY_WIDER: &str = "ranges from the papers are widened here by 8 % at both ends, because the papers' Tables 2 and 3 differ by \
                             8 % for the same condition; other tests name the margin that multicard allows";

/// The levels that distinguish one cell of a test from its other cells, by key.
pub type Side = std::collections::BTreeMap<Key, Level>;

impl Test {
    /// The lower and upper bound, widened by the tolerance.
    pub fn bounds(&self) -> (f64, f64) {
        let slack = |bound: f64| match self.compare {
            Compare::Ratio => bound.abs() * self.tolerance,
            Compare::Difference => self.tolerance,
        };
        let low = self.at_least.map_or(f64::NEG_INFINITY, |bound| bound - slack(bound));
        (low, self.at_most.map_or(f64::INFINITY, |bound| bound + slack(bound)))
    }

    /// The factor and the unit of its values for readers: differences of accuracy are percentage points.
    pub fn shown_unit(&self) -> (f64, &'static str) {
        let is_of_accuracy = self.measure.iter().all(|key| *key == *"accuracy");
        if self.compare == Compare::Difference && is_of_accuracy { (100.0, "percentage points") } else { (1.0, "") }
    }

    /// The keys of settings in which its cells differ.
    pub fn keys(&self) -> Vec<&Key> {
        let mut keys: Vec<&Key> = Vec::new();
        for key in self.of.iter().chain(&self.over).flat_map(Side::keys) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "version")]
    _version: u32,
    #[serde(rename = "claim")]
    claims: Vec<Claim>,
}

/// All claims of both papers.
pub fn claims() -> &'static [Claim] {
    // The file is compiled into the program. Tests make sure that it parses.
    static FILE: LazyLock<File> = LazyLock::new(|| toml::from_str(include_str!("claims.toml")).unwrap_or_default());
    &FILE.claims
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::measure;
    use crate::papers::artefact;
    use crate::plan::Filter;

    /// The tolerance of ranges that the papers print.
    const PRINTED_TOLERANCE: f64 = 0.08;

    #[test]
    fn every_tolerance_is_that_of_printed_ranges_or_is_named_by_its_test() {
        let mut printed = 0;
        for test in claims().iter().flat_map(|claim| &claim.tests).filter(|test| test.tolerance > 0.0) {
            let is_range = test.at_least.zip(test.at_most).is_some_and(|(low, high)| low < high);
            if is_range {
                assert!((test.tolerance - PRINTED_TOLERANCE).abs() < 1e-9, "{}", test.says);
                printed += 1;
                continue;
            }
            let percent = format!("within {} %", (100.0 * test.tolerance).round());
            let is_named = match test.compare {
                Compare::Ratio => test.says.contains(&percent),
                Compare::Difference => test.says.contains("percentage point"),
            };
            assert!(is_named, "{}: {}", test.says, test.tolerance);
        }
        assert!(printed > 2, "{printed}");
        assert!(WHY_WIDER.contains(&format!("widened here by {} %", (100.0 * PRINTED_TOLERANCE).round())));
    }

    #[test]
    fn every_claim_has_a_source_and_tests_that_can_be_carried_out() {
        let _: File = toml::from_str(include_str!("claims.toml")).unwrap();
        let mut ids: Vec<&str> = claims().iter().map(|claim| claim.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), claims().len());
        for claim in claims() {
            assert!(!claim.place.is_empty() && !claim.on.is_empty(), "{}", claim.id);
            assert_eq!(claim.tests.is_empty(), claim.unjudged.is_some(), "{}", claim.id);
            Filter::parse(&claim.within).unwrap();
            claim.on.iter().for_each(|id| assert!(artefact(id).is_ok(), "{}: {id}", claim.id));
            for test in &claim.tests {
                Filter::parse(&test.filter).unwrap();
                let (low, high) = test.bounds();
                assert!(low <= high && (low.is_finite() || high.is_finite()), "{}: {test:?}", claim.id);
                for key in test.measure.iter().chain(&test.share_of) {
                    assert!(measure(key).is_some(), "{}: {key}", claim.id);
                }
                // Each side names a level of every key. Otherwise one cell could belong to two sides.
                let keys = test.keys();
                for side in test.of.iter().chain(&test.over) {
                    assert_eq!(side.len(), keys.len(), "{}: {}", claim.id, test.says);
                }
            }
        }
    }
}
