//! Live memory among the allocations that a recording saw.
//!
//! A process may have allocated memory before a recording began, and release it later; releases without a recorded allocation are ignored.
//! If an address is allocated again, the release in between was not recorded. The live amount is therefore never more than the recording
//! knows of, and never negative.

use std::collections::HashMap;
use std::hash::Hash;

use super::event::{ALLOCATED, What, check_allocation};

/// An allocation or a release of memory; sorted by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change<P> {
    pub at: i64,
    /// The call that made it; later calls have greater numbers.
    correlation: i64,
    operation: i64,
    /// The process that the address belongs to.
    process: i64,
    address: i64,
    bytes: u64,
    /// The place to which the memory is attributed.
    place: P,
}

impl<P> Change<P> {
    /// The change that an event of a process makes; `None` for events of other kinds.
    ///
    /// # Errors
    /// Why its size or operation is impossible.
    pub fn new(at: i64, correlation: i64, process: i64, what: What, place: P) -> Result<Option<Self>, String> {
        let What::Allocation { bytes, operation, address, .. } = what else { return Ok(None) };
        check_allocation(bytes, operation)?;
        Ok(Some(Self { at, correlation, operation, process, address, bytes, place }))
    }
}

/// The effect of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effect<P> {
    pub at: i64,
    /// The place to which the memory is attributed.
    pub place: P,
    pub bytes: u64,
    pub is_release: bool,
    /// Whether it releases memory whose allocation was not recorded.
    pub is_of_unseen: bool,
    /// For each place whose live amount has changed, the new amount in bytes.
    pub live: Vec<(P, u128)>,
}

/// Follows changes in order of time.
pub(super) fn follow<P: Copy + Eq + Hash + Ord>(mut changes: Vec<Change<P>>, mut each: impl FnMut(Effect<P>)) {
    changes.sort_unstable();
    let mut held: HashMap<(i64, i64), (P, u64)> = HashMap::new();
    let mut live: HashMap<P, u128> = HashMap::new();
    for Change { at, operation, process, address, bytes, place, .. } in changes {
        let mut now = Vec::new();
        let before = held.remove(&(process, address));
        if let Some((place, bytes)) = before {
            let sum = live.entry(place).or_default();
            *sum -= u128::from(bytes);
            now.push((place, *sum));
        }
        let is_release = operation != ALLOCATED;
        // A release counts where its memory was allocated, with the allocated size, because not every tracer records these for releases.
        let (place, bytes) = before.filter(|_| is_release).unwrap_or((place, bytes));
        if !is_release {
            held.insert((process, address), (place, bytes));
            let sum = live.entry(place).or_default();
            *sum += u128::from(bytes);
            now.retain(|(known, _)| *known != place);
            now.push((place, *sum));
        }
        let is_of_unseen = is_release && before.is_none();
        each(Effect { at, place, bytes, is_release, is_of_unseen, live: now });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::trace::event::RELEASED;

    fn change(at: i64, operation: i64, address: i64, bytes: u64, place: &'static str) -> Change<&'static str> {
        Change { at, correlation: at, operation, process: 7, address, bytes, place }
    }

    /// Time, bytes and what is live of "a" and "b" after each change.
    fn followed(changes: Vec<Change<&'static str>>) -> Vec<(i64, u64, u128, u128)> {
        let (mut found, mut now) = (Vec::new(), [0, 0]);
        follow(changes, |effect| {
            for (place, live) in effect.live {
                now[usize::from(place == "b")] = live;
            }
            found.push((effect.at, effect.bytes, now[0], now[1]));
        });
        found
    }

    #[test]
    fn releases_take_back_what_was_allocated_in_whatever_order_they_were_read() {
        let changes = vec![
            change(30, RELEASED, 1, 100, "a"),
            change(10, ALLOCATED, 1, 100, "a"),
            change(20, ALLOCATED, 2, 50, "b"),
            // The address is used again, and a tracer that does not say sizes and kinds of what is released.
            change(40, ALLOCATED, 1, 7, "a"),
            change(50, RELEASED, 2, 0, "a"),
        ];
        let expected = [(10, 100, 100, 0), (20, 50, 100, 50), (30, 100, 0, 50), (40, 7, 7, 50), (50, 50, 7, 0)];
        assert_eq!(followed(changes), expected);
    }

    #[test]
    fn what_was_allocated_before_the_recording_never_makes_less_than_nothing_live() {
        let changes = vec![change(1, RELEASED, 9, 1 << 30, "a"), change(2, ALLOCATED, 9, 4, "a")];
        let mut unseen = 0;
        follow(changes.clone(), |effect| unseen += u64::from(effect.is_of_unseen));
        assert_eq!((unseen, followed(changes)), (1, vec![(1, 1 << 30, 0, 0), (2, 4, 4, 0)]));
    }

    #[test]
    fn an_address_that_is_allocated_again_was_released_unseen() {
        let changes =
            vec![change(1, ALLOCATED, 9, 10, "a"), change(2, ALLOCATED, 9, 4, "b"), change(3, RELEASED, 9, 4, "b")];
        assert_eq!(followed(changes), [(1, 10, 10, 0), (2, 4, 0, 4), (3, 4, 0, 0)]);
    }

    #[test]
    fn two_processes_have_addresses_of_their_own_and_sums_beyond_64_bits_are_right() {
        let most = i64::MAX as u64;
        let change_of = |process, at| Change { process, ..change(at, ALLOCATED, 9, most, "a") };
        assert_eq!(followed(vec![change_of(1, 1), change_of(2, 2), change_of(3, 3)])[2].2, 3 * u128::from(most));
    }
}
