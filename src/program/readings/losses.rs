//! The mean loss of each epoch. Steps that are repeated, because the program continued from a checkpoint, count once.

/// The most losses that are kept one by one; if there are more, neighbours are joined.
const MOST_LOSSES: usize = 1 << 18;

/// The losses of the current epoch and of the previous epoch, to which a program may go back.
#[derive(Default)]
pub(super) struct Losses {
    /// The losses, in the order of their steps.
    losses: Vec<Loss>,
    /// Whether there was a loss in any epoch.
    has_any: bool,
}

/// The loss of a step, or of neighbouring steps.
struct Loss {
    epoch: u32,
    /// The number of the first of these steps.
    step: u64,
    /// The sum of their losses, each multiplied by its weight.
    sum: f64,
    weight: f64,
}

impl Losses {
    /// Whether there was a loss in any epoch.
    pub fn has_any(&self) -> bool {
        self.has_any
    }

    /// Adds the loss of a step that follows all others, with its weight in the mean.
    pub fn add(&mut self, epoch: u32, step: u64, loss: f64, weight: f64) {
        if self.losses.len() == MOST_LOSSES {
            self.join();
        }
        self.losses.push(Loss { epoch, step, sum: loss * weight, weight });
        self.has_any = true;
    }

    /// Joins each loss with the next one of its epoch. If a program goes back to the second step of such a pair, that step counts twice.
    fn join(&mut self) {
        let mut joined: Vec<Loss> = Vec::with_capacity(MOST_LOSSES);
        let mut is_single = false;
        for loss in self.losses.drain(..) {
            match joined.last_mut().filter(|last| is_single && last.epoch == loss.epoch) {
                Some(last) => {
                    (last.sum, last.weight) = (last.sum + loss.sum, last.weight + loss.weight);
                    is_single = false;
                }
                None => {
                    joined.push(loss);
                    is_single = true;
                }
            }
        }
        self.losses = joined;
    }

    /// Forgets this step and all later ones, which the program repeats.
    pub fn forget_from(&mut self, step: u64) {
        self.losses.truncate(self.losses.partition_point(|loss| loss.step < step));
    }

    /// Ends an epoch, and gives its mean loss; `None` if it had no loss.
    pub fn end(&mut self, epoch: u32) -> Option<f64> {
        self.losses.retain(|loss| loss.epoch == epoch);
        let add = |(sum, weight): (f64, f64), loss: &Loss| (sum + loss.sum, weight + loss.weight);
        let (sum, weight) = self.losses.iter().fold((0.0, 0.0), add);
        (weight > 0.0).then(|| sum / weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_more_losses_than_are_kept_is_that_of_all() {
        let mut losses = Losses::default();
        let count = 3 * MOST_LOSSES as u64;
        (1..=count).for_each(|step| losses.add(1, step, step as f64, 2.0));
        assert!(losses.losses.len() <= MOST_LOSSES, "{}", losses.losses.len());
        let expected = (count + 1) as f64 / 2.0;
        assert!(losses.end(1).is_some_and(|mean| (mean / expected - 1.0).abs() < 1e-9));
        // Half of the steps are repeated.
        losses.forget_from(count / 2 + 1);
        (count / 2 + 1..=count).for_each(|step| losses.add(1, step, step as f64, 2.0));
        assert!(losses.end(1).is_some_and(|mean| (mean / expected - 1.0).abs() < 1e-4));
    }

    #[test]
    fn a_program_that_goes_back_to_the_epoch_before_keeps_the_steps_that_it_does_not_repeat() {
        let mut losses = Losses::default();
        losses.add(1, 1, 8.0, 1.0);
        losses.add(1, 2, 4.0, 1.0);
        assert_eq!(losses.end(1), Some(6.0));
        losses.add(2, 3, 1.0, 1.0);
        losses.forget_from(2);
        losses.add(1, 2, 2.0, 1.0);
        assert_eq!(losses.end(1), Some(5.0));
        losses.add(2, 3, 1.0, 1.0);
        assert_eq!((losses.end(2), losses.end(3)), (Some(1.0), None));
    }
}
