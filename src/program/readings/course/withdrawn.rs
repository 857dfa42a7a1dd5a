//! Steps that were guessed, and do not count any more because the program reports its steps itself.

use super::{Course, Event};

impl Course {
    /// Begins anew: the steps so far do not count. Keys of readings, clocks, and what was warned of stay known. With the steps go the training
    /// losses of their epochs, so that those which the program has reported itself are logged again.
    pub(super) fn withdraw_steps(&mut self, now_s: f64, events: &mut Vec<(f64, Event)>) {
        let anew = Self::new(self.started_s, self.warm_up.asked());
        let Self { first, set, keys, own_losses, clock, warned, .. } = std::mem::replace(self, anew);
        (self.set, self.keys, self.own_losses, self.clock, self.warned) = (set, keys, own_losses, clock, warned);
        if first.is_some() {
            events.push((now_s, Event::StepsWithdrawn));
            events.extend(self.own_losses.values().cloned());
        }
    }
}
