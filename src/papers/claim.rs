//! The claims that the papers make in words, each with what tests it, as values.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::plan::{Key, Level};

/// A comparison that a paper makes in words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name here.
    pub id: String,
    /// The paper's arXiv number.
    pub paper: String,
    /// Section and figure or table.
    pub place: String,
    /// What is claimed.
    pub text: String,
    /// Ids of the tables and figures that it is made of.
    pub on: Vec<String>,
    /// What the papers' own numbers say of it.
    pub on_their_numbers: String,
    /// What the paper ran where it gives a range, as a filter: cells outside do other work.
    #[serde(default)]
    pub within: String,
    /// Why nothing here can judge it, as a fragment of a sentence; it has no tests then.
    pub unjudged: Option<String>,
    /// What tests it; all must hold.
    #[serde(rename = "test", default)]
    pub tests: Vec<Test>,
}

/// How a test's two sides are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// The product of one side over that of the other.
    #[default]
    Ratio,
    /// The sum of one side less that of the other.
    Difference,
}

/// One test of a claim: a measure of cells over that of cells that are equal in all else, and between which bounds it must lie.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// In words.
    pub says: String,
    /// The cells it is about, as a filter.
    #[serde(rename = "where", default)]
    pub filter: String,
    /// A key of the registry; of several the sum.
    pub measure: Vec<Key>,
    /// The measure is taken as a share of the sum of these.
    #[serde(default)]
    pub share_of: Vec<Key>,
    /// It compares data sets: stand-ins say how they were made, and do not judge it.
    #[serde(default)]
    pub on_data: bool,
    /// The measure's mean over epochs, rather than its value of the run.
    #[serde(default)]
    pub over_epochs: bool,
    /// How the sides are compared.
    #[serde(default)]
    pub compare: Compare,
    /// Levels of the cells of one side.
    pub of: Vec<Side>,
    /// Levels of the cells of the other side.
    #[serde(default)]
    pub over: Vec<Side>,
    /// The least that is claimed.
    pub at_least: Option<f64>,
    /// The most that is claimed.
    pub at_most: Option<f64>,
    /// How far outside the value may lie: a share of the bound, of differences in the measure's unit.
    #[serde(default)]
    pub tolerance: f64,
}

/// What tells a cell of a test from the others of the same test: keys of settings and their levels.
pub type Side = std::collections::BTreeMap<Key, Level>;

impl Test {
    /// The bounds with the tolerance.
    pub fn bounds(&self) -> (f64, f64) {
        let slack = |bound: f64| match self.compare {
            Compare::Ratio => bound.abs() * self.tolerance,
            Compare::Difference => self.tolerance,
        };
        let low = self.at_least.map_or(f64::NEG_INFINITY, |bound| bound - slack(bound));
        (low, self.at_most.map_or(f64::INFINITY, |bound| bound + slack(bound)))
    }

    /// The keys in which its cells differ.
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
    // The file is part of the program; the tests hold that it can be read.
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
                // Each side names a level of every key, or a cell could be two sides at once.
                let keys = test.keys();
                for side in test.of.iter().chain(&test.over) {
                    assert_eq!(side.len(), keys.len(), "{}: {}", claim.id, test.says);
                }
            }
        }
    }
}
