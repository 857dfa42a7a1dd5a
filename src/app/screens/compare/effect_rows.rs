//! The rows of effects that marks of charts show, found by name in each frame without a search.

use std::collections::{HashMap, HashSet};

use crate::app::cell_table::effect_of;
use crate::figure::Table;

/// The effects of a table, by what charts call them.
#[derive(Clone, Debug, Default)]
pub struct EffectRows {
    /// The change that a row is of, by itself: `fp16 over fp32`.
    changes: HashSet<String>,
    /// The interaction of two levels, `fp16 over fp32 × 2 GPUs over 1 GPU`, by the levels in the order of their names.
    interactions: HashMap<[String; 2], String>,
}

impl EffectRows {
    /// The effects that a table has rows of.
    pub fn of(table: &Table) -> Self {
        let mut found = Self::default();
        for change in table.rows.iter().filter_map(|row| effect_of(table, row)) {
            let level = |part: &str| part.split(" over ").next().unwrap_or_default().to_owned();
            // Effects that the design does not separate from this effect follow a sign.
            let own = change.split(" + ").next().and_then(|own| own.split(" − ").next()).unwrap_or_default();
            if let [first, second] = &own.split(" × ").map(level).collect::<Vec<_>>()[..] {
                found.interactions.entry(in_order(first, second)).or_insert_with(|| change.to_owned());
            }
            found.changes.insert(change.to_owned());
        }
        found
    }

    /// The effect with this change.
    pub fn change(&self, name: &str) -> Option<&str> {
        self.changes.get(name).map(String::as_str)
    }

    /// The interaction of two levels, in any order.
    pub fn interaction(&self, first: &str, second: &str) -> Option<&str> {
        self.interactions.get(&in_order(first, second)).map(String::as_str)
    }
}

fn in_order(first: &str, second: &str) -> [String; 2] {
    let (first, second) = if first <= second { (first, second) } else { (second, first) };
    [first.to_owned(), second.to_owned()]
}
