//! A step as the run's log holds it.

use super::FoundStep;
use crate::protocol::{Event, UNSTORED_UNITS};

/// A logged step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    pub step: FoundStep,
    /// Its number over the run, from 1.
    pub number: u64,
    pub epoch: u32,
    /// The number of steps whose time it has: the difference to the number of the previously logged step, or to the beginning of its epoch.
    pub advance: u64,
    pub duration_s: f64,
    /// Whether its duration is known.
    pub is_timed: bool,
    /// Whether it belongs to the warm-up, unless the program says so itself.
    pub warm_up: bool,
}

impl Logged {
    /// Whether statistics exclude it: it belongs to the warm-up, or its duration is unknown.
    pub fn is_excluded(&self) -> bool {
        self.step.warm_up.unwrap_or(self.warm_up) || !self.is_timed
    }

    /// Its event in the run's log.
    pub fn event(&self) -> Event {
        let FoundStep { steps, wait_s, loss, units, .. } = self.step;
        Event::Step {
            epoch: self.epoch,
            step: self.number,
            // A count that starts again in each epoch does not give the end of the run.
            steps: steps.filter(|steps| *steps >= self.number).unwrap_or(0),
            duration_s: self.duration_s,
            load_wait_s: wait_s.unwrap_or(f64::NAN),
            loss: loss.unwrap_or(f64::NAN),
            units: units.map_or(0, stored_units),
            warm_up: self.is_excluded(),
            traced: false,
        }
    }
}

/// The units of a step as the log holds them.
pub(super) fn stored_units(units: f64) -> u32 {
    let can_be = units.fract() == 0.0 && (0.0..f64::from(UNSTORED_UNITS)).contains(&units);
    if can_be { units as u32 } else { UNSTORED_UNITS }
}
