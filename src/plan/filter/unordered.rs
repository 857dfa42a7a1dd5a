//! Comparisons by an order that levels do not have.
//!
//! Levels that look like numbers and are names may be versions, of which 1.10 follows 1.9, or decimals, of which 0.50 comes before 0.9. No
//! order is right for both, so none is assumed.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{Comparison, Facts, Operand, any_level, is_day, quoted};
use crate::plan::Level;
use crate::plan::problem::first_names;

/// A comparison such as `version>=2` with a key that has names as levels.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unordered(String);

impl Unordered {
    /// The error of a comparison among these things; `None` if it can be made with all their levels. An unknown level, which is empty, is
    /// compared with nothing.
    pub(super) fn find<'f, F: Facts + 'f>(
        key: &str,
        comparison: Comparison,
        value: &Operand,
        things: impl Iterator<Item = &'f F>,
    ) -> Option<Self> {
        let mut names: BTreeSet<Level> = BTreeSet::new();
        for thing in things {
            any_level(thing, key, &mut |level| {
                if value.order_of(level).is_none() && level.as_text() != Some("") {
                    names.insert(level.clone());
                }
                false
            });
        }
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let example = quoted(names.first()?);
        let (sign, kind) = (comparison.sign(), if is_day(&value.text) { "days" } else { "numbers" });
        Some(Self(format!(
            "{key}{sign}{}: levels of {key} that are no {kind} have no order ({}): choose levels by = and !=, such as {}={example}",
            value.text,
            first_names(&names),
            quoted(key)
        )))
    }
}
