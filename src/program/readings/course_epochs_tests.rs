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

/// What PyTorch Lightning's logger writes of a step: the loss, then the epoch.
fn with_late_epoch(step: u64, epoch: f64) -> [Found; 2] {
    let loss = FoundStep { loss: Some(1.0 / step as f64), ..found_step(step, step as f64) };
    let epoch = FoundStep { epoch: Some(epoch), ..found_step(step, step as f64) };
    [Found::Step(loss), Found::Step(epoch)]
}

#[test]
fn an_epoch_that_is_reported_after_its_step_is_the_epoch_of_that_step() {
    let lines: Vec<Found> =
        (1..=6_u64).flat_map(|line| with_late_epoch(20 * line - 1, ((line - 1) / 3) as f64)).collect();
    for polls in [vec![lines.clone()], lines.into_iter().map(|one| vec![one]).collect()] {
        let log = events(WarmUp::Steps(0), &polls);
        let epochs: Vec<_> = steps(&log).iter().map(|step| (step.0, step.1)).collect();
        assert_eq!(epochs, [(19, 1), (39, 1), (59, 1), (79, 2), (99, 2), (119, 2)]);
        let mean = |steps: [f64; 3]| steps.iter().map(|step| 1.0 / step).sum::<f64>() / 3.0;
        assert_eq!(losses(&log), [(Some(1), mean([19.0, 39.0, 59.0])), (Some(2), mean([79.0, 99.0, 119.0]))]);
        assert!(warnings(&log).is_empty(), "{log:?}");
    }
}

#[test]
fn the_epoch_of_a_step_that_is_logged_now_and_then_counts_from_that_step_on() {
    let timed = |step: u64| FoundStep { duration_s: Some(0.01), ..found_step(step, step as f64) };
    let logged =
        |step: u64| FoundStep { epoch: Some(step as f64 / 4.0), loss: Some(0.5), ..found_step(step, step as f64) };
    let lines = (1..=8).flat_map(|step| [Some(timed(step)), (step % 2 == 0).then(|| logged(step))]).flatten();
    let log = of_steps(&lines.collect::<Vec<_>>());
    assert_eq!(
        log.iter().map(|step| (step.0, step.1)).collect::<Vec<_>>(),
        [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 2), (7, 2), (8, 2)]
    );
}

/// Steps that do not report their epoch, with the loss 1/number.
fn silent_steps(numbers: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = Found> {
    let step = |step: u64| FoundStep {
        loss: Some(1.0 / step as f64),
        duration_s: Some(0.01),
        ..found_step(step, step as f64)
    };
    numbers.map(move |number| Found::Step(step(number)))
}

/// The epoch of each step.
fn epochs(found: Vec<Found>) -> Vec<u32> {
    let log = events(WarmUp::Steps(0), std::slice::from_ref(&found));
    let apart = events(WarmUp::Steps(0), &found.into_iter().map(|one| vec![one]).collect::<Vec<_>>());
    assert!(warnings(&log).is_empty(), "{log:?}");
    let epochs = |log: &[Event]| steps(log).iter().map(|step| step.1).collect::<Vec<_>>();
    assert_eq!(epochs(&log), epochs(&apart), "however many lines are read at once");
    epochs(&log)
}

#[test]
fn an_epoch_that_is_named_after_its_steps_ends_there() {
    for first in [0, 1] {
        let accuracy = |epoch: u32| {
            let epoch = f64::from(epoch + first);
            let reading = Found::Reading { key: "accuracy".into(), value: 0.5, step: None, epoch: Some(epoch) };
            // Two lines name it.
            [reading.clone(), Found::Epoch(epoch), reading, Found::Epoch(epoch)]
        };
        let of_epoch = |epoch: u64| silent_steps(2 * epoch + 1..=2 * epoch + 2).chain(accuracy(epoch as u32));
        let found: Vec<Found> = (0..3).flat_map(of_epoch).collect();
        assert_eq!(epochs(found.clone()), [1, 1, 2, 2, 3, 3], "epochs from {first}");
        let log = events(WarmUp::Steps(0), &[found]);
        assert_eq!(
            losses(&log),
            [(Some(1), 0.75), (Some(2), (1.0 / 3.0 + 0.25) / 2.0), (Some(3), (0.2 + 1.0 / 6.0) / 2.0)]
        );
    }
}

#[test]
fn an_epoch_that_is_named_before_its_steps_begins_there_even_if_their_count_starts_again() {
    let of_epoch = |epoch: u32| std::iter::once(Found::Epoch(epoch.into())).chain(silent_steps(1..=2));
    let found: Vec<Found> = (1..=3).flat_map(of_epoch).collect();
    assert_eq!(epochs(found), [1, 1, 2, 2, 3, 3]);
    let one_line = |epoch: u32| std::iter::once(Found::Epoch(epoch.into())).chain(silent_steps(30..=30));
    assert_eq!(epochs((1..=3).flat_map(one_line).collect()), [1, 2, 3]);
}

#[test]
fn an_epoch_that_is_named_again_and_again_ends_when_another_one_is_named() {
    let found = |step: u64| silent_steps(step..=step).chain([Found::Epoch(step.div_ceil(3) as f64)]);
    assert_eq!(epochs((1..=7).flat_map(found).collect()), [1, 1, 1, 1, 2, 2, 2]);
    // Fractions are parts of an epoch.
    let found = |step: u64| silent_steps(step..=step).chain([Found::Epoch(step as f64 / 3.0)]);
    assert_eq!(epochs((1..=5).flat_map(found).collect()), [1, 1, 1, 2, 2]);
}

#[test]
fn training_losses_that_a_program_reports_itself_are_logged_again_once_guessed_steps_are_withdrawn() {
    let own = Found::Reading { key: "train_loss".into(), value: 0.25, step: None, epoch: Some(1.0) };
    let guessed = Found::Step(FoundStep { loss: Some(0.5), ..found_step(1, 1.0) });
    let found = [vec![guessed, own], vec![Found::StepsWithdrawn, Found::Step(found_step(1, 2.0))]];
    let log = events(WarmUp::Steps(0), &found);
    let at = log.iter().position(|event| *event == Event::StepsWithdrawn).unwrap();
    assert_eq!(losses(&log[at..]), [(Some(1), 0.25)], "{log:?}");
    // The loss of a program whose guessed steps have none.
    let own = Found::Reading { key: "loss".into(), value: 0.25, step: None, epoch: Some(1.0) };
    let guessed = Found::Step(FoundStep { loss: None, ..found_step(1, 1.0) });
    let log = events(WarmUp::Steps(0), &[vec![guessed, own], vec![Found::StepsWithdrawn]]);
    let at = log.iter().position(|event| *event == Event::StepsWithdrawn).unwrap();
    assert_eq!(losses(&log[at..]), [(Some(1), 0.25)], "{log:?}");
}
