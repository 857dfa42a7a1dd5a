//! The sentence about the intervals of a chart: what they mean, and which values have none.

use std::collections::BTreeSet;

use crate::analysis::Method;
use crate::figure::chart::{Chart, Geometry};
use crate::figure::notes::coverage_text;

/// What the intervals of a chart mean, and which values have none. The intervals of a measure of two cells are over pairs of repeats.
pub(super) fn intervals_note(chart: &Chart, are_pairs: bool) -> String {
    let drawn = match chart.geometry {
        Geometry::Lines => "Bands",
        Geometry::Effects => "Lines",
        _ => "Error bars",
    };
    let meaning = meaning_of_intervals(chart, drawn, are_pairs);
    let repeats = chart.repeats();
    let single = repeats.iter().filter(|n| **n == 1).count();
    if single == 0 {
        return meaning;
    }
    // Without a word, a value that was measured once would look like an exact one.
    if single == repeats.len() && meaning.is_empty() {
        return format!("No {}: n = 1, and a single repeat has no interval.", drawn.to_lowercase());
    }
    let have = if single == 1 { "has" } else { "have" };
    let without = format!("{single} of {} values {have} n = 1 and no interval.", repeats.len());
    if meaning.is_empty() { without } else { format!("{meaning} {without}") }
}

/// What the intervals that a chart draws mean; empty if it draws none.
fn meaning_of_intervals(chart: &Chart, drawn: &str, are_pairs: bool) -> String {
    let (of_what, of_pairs) = if are_pairs { ("pairs of repeats", " over pairs of repeats") } else { ("repeats", "") };
    let methods = chart.methods();
    let counts: BTreeSet<usize> = methods.iter().map(|(_, n)| *n).collect();
    let listed = |text: &dyn Fn(usize) -> String| match (counts.first(), counts.last()) {
        (Some(least), Some(most)) if least < most => format!("{} to {}", text(*least), text(*most)),
        (Some(only), _) => text(*only),
        _ => String::new(),
    };
    match methods.first() {
        None => String::new(),
        Some((Method::OrderStatistics, _)) => {
            format!("{drawn}: 95 % intervals of the median{of_pairs} (n = {}).", listed(&|n: usize| n.to_string()))
        }
        Some((Method::GeometricMeans, _)) => format!(
            "{drawn}: 95 % intervals of ratios of geometric means by Welch's t (n = {}).",
            listed(&|n: usize| n.to_string())
        ),
        Some(_) => format!(
            "{drawn}: range of {of_what} (n = {}), which holds the true median in {} % of cases.",
            listed(&|n: usize| n.to_string()),
            listed(&coverage_text)
        ),
    }
}
