//! Mean losses of the steps of each epoch. Steps that are repeated, because the program continued from a checkpoint, count once. Of losses that
//! are means over the epoch so far, the last one is the mean of the epoch.

/// The most losses that are kept one by one. If there are more, neighbours are joined, and if that is not enough, the oldest are dropped.
const MOST_LOSSES: usize = 1 << 18;

/// The losses so far: a program may go back to an earlier epoch, and a source may report losses later than other sources report steps.
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

    /// Adds the loss of a step with its weight in the mean, in place of an earlier loss of the step.
    pub fn add(&mut self, epoch: u32, step: u64, loss: f64, weight: f64) {
        let new = Loss { epoch, step, sum: loss * weight, weight };
        self.has_any = true;
        match self.losses.binary_search_by_key(&step, |loss| loss.step) {
            Ok(place) => self.losses[place] = new,
            Err(place) => self.losses.insert(place, new),
        }
        if self.losses.len() > MOST_LOSSES {
            self.join();
            if self.losses.len() > MOST_LOSSES / 4 * 3 {
                self.losses.drain(..MOST_LOSSES / 2);
            }
        }
    }

    /// Adds the mean loss of an epoch up to a step, in place of the losses of the epoch's earlier steps.
    pub fn add_mean(&mut self, epoch: u32, step: u64, loss: f64) {
        while self.losses.last().is_some_and(|last| last.epoch == epoch && last.step < step) {
            self.losses.pop();
        }
        if self.losses.last().is_none_or(|last| last.epoch != epoch || last.step == step) {
            self.add(epoch, step, loss, 1.0);
        }
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

    /// The mean loss of an epoch; `None` if it had no loss.
    pub fn mean(&self, epoch: u32) -> Option<f64> {
        let add = |(sum, weight): (f64, f64), loss: &Loss| (sum + loss.sum, weight + loss.weight);
        // From the end, because nearly always the epoch is one of the newest.
        let end = self.losses.iter().rposition(|loss| loss.epoch == epoch)? + 1;
        let begin = self.losses[..end].iter().rposition(|loss| loss.epoch != epoch).map_or(0, |before| before + 1);
        let (sum, weight) = self.losses[begin..end].iter().fold((0.0, 0.0), add);
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
        assert!(losses.mean(1).is_some_and(|mean| (mean / expected - 1.0).abs() < 1e-9));
        // Half of the steps are repeated.
        losses.forget_from(count / 2 + 1);
        (count / 2 + 1..=count).for_each(|step| losses.add(1, step, step as f64, 2.0));
        assert!(losses.mean(1).is_some_and(|mean| (mean / expected - 1.0).abs() < 1e-4));
    }

    #[test]
    fn of_means_over_an_epoch_so_far_the_last_one_counts() {
        let mut losses = Losses::default();
        for (epoch, step, loss) in [(1, 1, 8.0), (1, 2, 6.0), (1, 2, 5.0), (2, 3, 4.0), (2, 4, 3.0), (2, 3, 9.0)] {
            losses.add_mean(epoch, step, loss);
        }
        assert_eq!((losses.mean(1), losses.mean(2)), (Some(5.0), Some(3.0)));
        losses.forget_from(3);
        losses.add_mean(2, 3, 2.0);
        assert_eq!((losses.mean(1), losses.mean(2)), (Some(5.0), Some(2.0)));
    }

    #[test]
    fn a_program_that_goes_back_to_the_epoch_before_keeps_the_steps_that_it_does_not_repeat() {
        let mut losses = Losses::default();
        losses.add(1, 1, 8.0, 1.0);
        losses.add(1, 2, 4.0, 1.0);
        assert_eq!(losses.mean(1), Some(6.0));
        losses.add(2, 3, 1.0, 1.0);
        losses.forget_from(2);
        losses.add(1, 2, 2.0, 1.0);
        assert_eq!(losses.mean(1), Some(5.0));
        losses.add(2, 3, 1.0, 1.0);
        assert_eq!((losses.mean(2), losses.mean(3)), (Some(1.0), None));
    }

    #[test]
    fn the_loss_of_an_earlier_step_counts_in_its_epoch_and_once() {
        let mut losses = Losses::default();
        for (epoch, step, loss) in [(1, 1, 8.0), (1, 3, 4.0), (2, 5, 1.0)] {
            losses.add(epoch, step, loss, 1.0);
        }
        losses.add(1, 2, 0.0, 1.0);
        losses.add(1, 3, 1.0, 1.0);
        assert_eq!((losses.mean(1), losses.mean(2)), (Some(3.0), Some(1.0)));
    }

    #[test]
    fn of_epochs_with_one_loss_each_the_newest_are_kept() {
        let mut losses = Losses::default();
        let count = MOST_LOSSES as u32 + 1;
        (1..=count).for_each(|epoch| losses.add(epoch, epoch.into(), 1.0, 1.0));
        assert!(losses.losses.len() <= MOST_LOSSES, "{}", losses.losses.len());
        assert_eq!((losses.mean(1), losses.mean(count)), (None, Some(1.0)));
    }
}
