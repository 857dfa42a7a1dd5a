//! Quick mode in a rank: decides when steps are steady and when there are enough, and keeps all ranks at the same step.
//!
//! The first rank decides at the ends of blocks of steps whose lengths all ranks know. A decision takes effect at the end of the
//! next block, so that the others find it without waiting. It is a mark file in the ranks' folder: no step has an additional
//! collective.

use multicard::analysis::{has_warmed_up, relative_half_width};
use strum::VariantArray;

use crate::parallel::Peers;
use crate::report::Stop;

/// Steps of the first blocks, and the minimum share of all steps so far that later blocks have.
const BLOCK: u64 = 8;
const BLOCK_SHARE: u64 = 8;

/// The state that a block's end decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
enum Verdict {
    /// Steps are still warm-up.
    WarmUp,
    /// Steps count.
    Steady,
    /// The run ends.
    Stop,
}

/// State of a quick run.
pub struct Quick {
    /// Required precision of the mean step: half the width of its interval, as a share.
    precision: f64,
    /// The warm-up ends here at the latest, so that short runs have steady steps.
    latest_warm_up: u64,
    /// Durations of the steps that count in this phase, without those that open an epoch.
    durations_s: Vec<f64>,
    /// The epoch of the last step seen.
    epoch: u32,
    /// Completed blocks.
    blocks: u64,
    /// The state in effect.
    now: Verdict,
    /// The state from the end of this block on.
    next: Verdict,
    /// The last step of this block.
    end: u64,
    /// The first steady step, once known.
    steady_from: Option<u64>,
}

impl Quick {
    /// The state of a run of `steps` steps. Its first `warm_up_steps` steps are warm-up in any case.
    pub fn new(precision: f64, steps: u64, warm_up_steps: u64) -> Self {
        Self {
            precision,
            latest_warm_up: steps / 2,
            durations_s: Vec::new(),
            epoch: 0,
            blocks: 0,
            now: Verdict::WarmUp,
            next: Verdict::WarmUp,
            end: BLOCK.max(warm_up_steps).min((steps / 4).max(1)),
            steady_from: None,
        }
    }

    /// The first steady step; `None` while unknown.
    pub fn steady_from(&self) -> Option<u64> {
        self.steady_from
    }

    /// Takes a finished step; `step` counts over the run. A step in or next to a recorded window has no duration,
    /// because its time does not count.
    pub fn see(&mut self, epoch: u32, step: u64, duration_s: Option<f64>) {
        let opens = std::mem::replace(&mut self.epoch, epoch) != epoch;
        // Warm-up steps may be reported after the warm-up has ended.
        let counts = self.steady_from.is_none_or(|first| step >= first);
        if counts && !opens {
            self.durations_s.extend(duration_s);
        }
    }

    /// Whether to make another step after `steps` have been queued.
    pub fn goes_on(&mut self, steps: u64, peers: Option<&Peers>) -> Result<bool, Stop> {
        if steps < self.end || self.now == Verdict::Stop {
            return Ok(self.now != Verdict::Stop);
        }
        let judges = peers.is_none_or(|peers| peers.rank == 0);
        let found = match peers {
            // There is no decision before the first block.
            Some(peers) if !judges && self.blocks > 0 => {
                let index = peers.read(&format!("quick-{steps}"), Verdict::VARIANTS.len())?;
                Verdict::VARIANTS[index]
            }
            _ => self.next,
        };
        if found == Verdict::Steady && self.now == Verdict::WarmUp {
            self.steady_from = Some(steps + 1);
            self.durations_s.clear();
        }
        (self.now, self.blocks) = (found, self.blocks + 1);
        self.end = steps + BLOCK.max(steps / BLOCK_SHARE);
        if judges {
            self.next = self.judge();
            if let Some(peers) = peers {
                let index = Verdict::VARIANTS.iter().position(|verdict| *verdict == self.next).unwrap_or_default();
                peers.say(&format!("quick-{}", self.end), index)?;
            }
        }
        Ok(self.now != Verdict::Stop)
    }

    /// The state from the end of the block that begins.
    fn judge(&self) -> Verdict {
        match self.now {
            Verdict::WarmUp if self.end >= self.latest_warm_up || has_warmed_up(&self.durations_s) => Verdict::Steady,
            Verdict::Steady if relative_half_width(&self.durations_s).is_some_and(|width| width <= self.precision) => {
                Verdict::Stop
            }
            unchanged => unchanged,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Runs steps of these durations until the run ends. Returns their number and the first steady step.
    fn course(mut quick: Quick, steps: u64, duration_s: impl Fn(u64) -> f64) -> (u64, Option<u64>) {
        for step in 1..=steps {
            if !quick.goes_on(step - 1, None).unwrap() {
                return (step - 1, quick.steady_from());
            }
            quick.see(1, step, Some(duration_s(step)));
        }
        (steps, quick.steady_from())
    }

    #[test]
    fn even_steps_end_a_run_once_there_is_an_interval_and_the_warm_up_is_left_out() {
        let slow_start = |step: u64| if step <= 3 { 10.0 } else { 1.0 + 0.001 * (step % 7) as f64 };
        let (steps, steady_from) = course(Quick::new(0.01, 10_000, 0), 10_000, slow_start);
        assert!((40..80).contains(&steady_from.unwrap()), "{steady_from:?}");
        assert!((140..200).contains(&steps), "{steps}");
    }

    #[test]
    fn uneven_steps_take_as_many_as_the_precision_asks_for() {
        let uneven = |step: u64| if step.is_multiple_of(13) { 2.0 } else { 1.0 };
        let (few, _) = course(Quick::new(0.1, 100_000, 0), 100_000, uneven);
        let (many, _) = course(Quick::new(0.001, 100_000, 0), 100_000, uneven);
        assert!(few < 200 && many > 2 * few, "{few} {many}");
    }

    #[test]
    fn a_short_run_has_steady_steps_and_goes_to_its_end() {
        for steps in [2, 5, 16, 40, 90] {
            let (made, steady_from) = course(Quick::new(0.01, steps, 0), steps, |_| 1.0);
            assert_eq!(made, steps);
            assert!(
                steps < 16 || steady_from.is_some_and(|first| first <= steps / 2 + BLOCK),
                "{steps} {steady_from:?}"
            );
        }
    }

    #[test]
    fn no_step_counts_before_those_that_are_warm_up_anyway() {
        let (_, steady_from) = course(Quick::new(0.01, 60, 11), 60, |_| 1.0);
        assert!(steady_from.unwrap() > 11, "{steady_from:?}");
    }
}
