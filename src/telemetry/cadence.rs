//! Deadlines of samples on a fixed grid, so that delays do not accumulate.

use std::time::{Duration, Instant};

/// The grid of deadlines. It starts at the first call, and again after every rest.
#[derive(Debug)]
pub(super) struct Cadence {
    interval: Duration,
    next: Option<Instant>,
}

impl Cadence {
    pub fn new(interval: Duration) -> Self {
        Self { interval, next: None }
    }

    /// Time until the next deadline; zero if it is due.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.next.get_or_insert(now).saturating_duration_since(now)
    }

    /// Moves to the first deadline after `now`, skipping missed ones.
    pub fn advance(&mut self, now: Instant) {
        let due = self.next.unwrap_or(now);
        let missed = now.saturating_duration_since(due).as_nanos() / self.interval.as_nanos().max(1);
        let steps = u32::try_from(missed).unwrap_or(u32::MAX - 1) + 1;
        self.next = Some(due + self.interval * steps);
    }

    /// Drops the grid while nothing is watched.
    pub fn rest(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn delays_do_not_move_the_grid() {
        let ms = Duration::from_millis;
        let start = Instant::now();
        let mut cadence = Cadence::new(ms(100));
        assert_eq!(cadence.wait(start), ms(0));
        cadence.advance(start);
        for tick in 1..1000_u32 {
            let late = start + ms(100) * tick + ms(u64::from(tick % 37));
            assert_eq!(cadence.wait(late), ms(0));
            cadence.advance(late);
            assert_eq!(cadence.wait(start + ms(100) * tick + ms(40)), ms(60));
        }
    }

    #[test]
    fn missed_deadlines_are_skipped_and_a_rest_starts_a_new_grid() {
        let ms = Duration::from_millis;
        let start = Instant::now();
        let mut cadence = Cadence::new(ms(100));
        cadence.wait(start);
        cadence.advance(start + ms(350));
        assert_eq!(cadence.wait(start + ms(350)), ms(50));
        cadence.rest();
        assert_eq!(cadence.wait(start + ms(1234)), ms(0));
    }
}
