//! Which steps are the same, and to which epochs they belong.

use super::*;

/// A program that reports each epoch with one step; all steps have the same number.
fn of_epochs(steps: Option<u64>) -> Vec<FoundStep> {
    let of_epoch = |epoch: u32| FoundStep {
        epoch: Some(f64::from(epoch)),
        steps,
        duration_s: Some(0.01),
        loss: Some(1.0 / f64::from(epoch)),
        ..found_step(30, f64::from(epoch))
    };
    (1..=3).map(of_epoch).collect()
}

#[test]
fn the_same_number_in_another_epoch_is_another_step() {
    for steps in [None, Some(30)] {
        let log = events(WarmUp::Steps(0), &[of_epochs(steps).into_iter().map(Found::Step).collect()]);
        let numbers: Vec<_> = self::steps(&log).iter().map(|step| (step.0, step.1)).collect();
        assert_eq!(numbers, [(30, 1), (60, 2), (90, 3)], "{log:?}");
        assert!(warnings(&log).is_empty(), "{log:?}");
        assert_eq!(losses(&log), [(Some(1), 1.0), (Some(2), 0.5), (Some(3), 1.0 / 3.0)]);
    }
    // `Epoch: [1][ 0/30]`: only the first of 30 steps has a line.
    let first = |epoch: u32| FoundStep { epoch: Some(epoch.into()), steps: Some(30), ..found_step(0, epoch.into()) };
    assert_eq!(of_steps(&[1, 2, 3].map(first)).iter().map(|step| step.0).collect::<Vec<_>>(), [1, 31, 61]);
}

#[test]
fn a_step_that_is_reported_again_in_its_epoch_is_the_same_step() {
    let mut twice: Vec<FoundStep> = of_epochs(Some(30)).into_iter().flat_map(|step| [step, step]).collect();
    assert_eq!(of_steps(&twice).iter().map(|step| step.0).collect::<Vec<_>>(), [30, 60, 90]);
    // The count ends where it did, although the second line does not repeat its end; nor does it repeat the epoch.
    twice.iter_mut().skip(1).step_by(2).for_each(|step| (step.steps, step.epoch) = (None, None));
    twice.push(FoundStep { duration_s: Some(0.01), ..found_step(1, 4.0) });
    assert_eq!(of_steps(&twice).iter().map(|step| step.0).collect::<Vec<_>>(), [30, 60, 90, 91]);
}
