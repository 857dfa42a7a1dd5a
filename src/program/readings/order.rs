//! The order in which several sources found something.

use std::collections::BTreeMap;

use super::{Found, FoundStep};

/// Sorts what sources found, each with the number of its source, by time. What one source found keeps its order: something without a time
/// comes after what its source found before.
pub(super) fn sort_by_time(found: &mut Vec<(usize, Found)>) {
    if found.windows(2).all(|pair| pair[0].0 == pair[1].0) {
        return;
    }
    let mut newest_s: BTreeMap<usize, f64> = BTreeMap::new();
    let with_time = |(source, found): (usize, Found)| {
        let latest_s = newest_s.entry(source).or_insert(f64::NEG_INFINITY);
        *latest_s = latest_s.max(time_s(&found).unwrap_or(f64::NEG_INFINITY));
        (*latest_s, (source, found))
    };
    let mut timed: Vec<(f64, (usize, Found))> = found.drain(..).map(with_time).collect();
    timed.sort_by(|(one_s, _), (other_s, _)| one_s.total_cmp(other_s));
    found.extend(timed.into_iter().map(|(_, found)| found));
}

/// The time of a finding, if it has one: not later than the reading of its line.
fn time_s(found: &Found) -> Option<f64> {
    match found {
        Found::Step(FoundStep { at_s, read_s, .. }) => Some(read_s.map_or(*at_s, |read_s| read_s.min(*at_s))),
        Found::Phase { at_s, .. } | Found::Evaluated { at_s, .. } | Found::Begins { at_s } => Some(*at_s),
        Found::StepsWithdrawn | Found::Reading { .. } | Found::Epoch(_) | Found::Untaken(_) | Found::Warning(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_several_sources_are_sorted_by_time_and_those_of_one_keep_their_order() {
        let step = |number: u64, at_s: f64| {
            Found::Step(FoundStep { step: Some(number), at_s, read_s: Some(9.0), ..FoundStep::default() })
        };
        let mut found = vec![
            (1, step(1, 1.0)),
            (1, Found::Epoch(1.0)),
            (1, step(2, 3.0)),
            (0, Found::Epoch(0.0)),
            (0, step(1, 2.0)),
            (0, step(2, 1.5)),
        ];
        sort_by_time(&mut found);
        let expected = [
            (0, Found::Epoch(0.0)),
            (1, step(1, 1.0)),
            (1, Found::Epoch(1.0)),
            (0, step(1, 2.0)),
            (0, step(2, 1.5)),
            (1, step(2, 3.0)),
        ];
        assert_eq!(found, expected);
        let mut of_one = vec![(1, step(2, 5.0)), (1, step(1, 1.0))];
        sort_by_time(&mut of_one);
        assert_eq!(of_one, [(1, step(2, 5.0)), (1, step(1, 1.0))]);
    }
}
