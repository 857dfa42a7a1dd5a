//! Steps of a program that names its phases.

use super::*;

/// A phase in a line of its own.
fn phase(name: &str, at_s: f64) -> Found {
    Found::Phase { phase: NamedPhase::of(name).unwrap(), at_s }
}

/// A line with a loss, and with a phase if it has a name.
fn line(name: &str, step: u64, loss: f64, at_s: f64) -> Found {
    Found::Step(FoundStep { phase: NamedPhase::of(name), loss: Some(loss), ..found_step(step, at_s) })
}

/// The readings of a log with their epochs.
fn readings(log: &[Event]) -> Vec<(&str, f64, Option<u32>)> {
    let readings = log.iter().filter_map(|event| match event {
        Event::Reading { key, value, epoch, .. } => Some((key.as_str(), *value, *epoch)),
        _ => None,
    });
    readings.collect()
}

#[test]
fn time_of_another_phase_is_not_a_steps() {
    let log = events(
        WarmUp::Steps(0),
        &[vec![
            phase("load", 5.0),
            Found::Step(found_step(1, 6.0)),
            phase("evaluate", 6.0),
            Found::Step(found_step(2, 9.0)),
            phase("evaluate", 9.0),
            phase("train", 20.0),
            phase("train", 20.5),
            Found::Step(found_step(3, 21.0)),
        ]],
    );
    assert_eq!(steps(&log), [(1, 1, 1.0, false), (2, 1, 3.0, false), (3, 1, 1.0, true)]);
    let phases: Vec<_> =
        log.iter().filter_map(|event| if let Event::Phase { phase } = event { Some(*phase) } else { None }).collect();
    assert_eq!(phases, [Phase::Load, Phase::WarmUp, Phase::Evaluate, Phase::WarmUp, Phase::Evaluate, Phase::Steady]);
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn a_phase_in_each_line_takes_no_time_from_steps_and_losses_of_evaluations_are_no_steps() {
    let rows = |of_own: bool| {
        // Evaluations report the number of the newest step, or count for themselves.
        let number = |step: u64, own: u64| if of_own { own } else { step };
        vec![
            line("train", 1, 4.0, 1.0),
            line("train", 2, 2.0, 2.0),
            line("val", number(2, 1), 7.0, 5.0),
            line("val", number(2, 2), 9.0, 6.0),
            line("train", 3, 3.0, 8.0),
            line("train", 4, 3.0, 9.0),
            line("test", number(4, 1), 5.0, 20.0),
        ]
    };
    for of_own in [false, true] {
        let together = events(WarmUp::Steps(0), &[rows(of_own)]);
        let apart = events(WarmUp::Steps(0), &rows(of_own).into_iter().map(|row| vec![row]).collect::<Vec<_>>());
        for log in [together, apart] {
            assert_eq!(steps(&log), [(1, 1, 1.0, false), (2, 1, 1.0, true), (3, 1, 2.0, false), (4, 1, 1.0, true)]);
            let expected = [("val_loss", 8.0, Some(1)), ("test_loss", 5.0, Some(1)), ("train_loss", 3.0, Some(1))];
            assert_eq!(readings(&log), expected);
            assert!(warnings(&log).is_empty(), "{log:?}");
        }
    }
}

#[test]
fn a_phase_of_its_own_line_lasts_until_another_one_is_named() {
    let log = events(
        WarmUp::Steps(0),
        &[vec![
            phase("train", 0.5),
            line("", 1, 4.0, 1.0),
            phase("evaluate", 1.0),
            line("", 1, 9.0, 3.0),
            line("", 1, 7.0, 4.0),
            phase("train", 5.0),
            line("", 2, 2.0, 6.0),
        ]],
    );
    assert_eq!(steps(&log), [(1, 1, 0.5, true), (2, 1, 1.0, true)]);
    assert_eq!(readings(&log), [("test_loss", 8.0, Some(1)), ("train_loss", 3.0, Some(1))]);
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn a_program_that_never_names_the_training_ends_other_phases_with_its_next_step() {
    let own_line = [line("", 1, 4.0, 1.0), phase("evaluate", 1.0), line("", 2, 2.0, 6.0), line("", 3, 3.0, 7.0)];
    let same_line = [line("", 1, 4.0, 1.0), line("eval", 1, 9.0, 5.0), line("", 2, 2.0, 6.0), line("", 3, 3.0, 7.0)];
    for (found, since_s) in [(own_line, 1.0), (same_line, 5.0)] {
        let log = events(WarmUp::Steps(0), &[found.to_vec()]);
        assert_eq!(steps(&log), [(1, 1, 1.0, false), (2, 1, 6.0 - since_s, false), (3, 1, 1.0, true)]);
        assert_eq!(losses(&log), [(Some(1), 3.0)]);
        assert!(warnings(&log).is_empty(), "{log:?}");
    }
}

#[test]
fn a_step_that_continues_the_numbers_or_epochs_of_the_training_ends_another_phase() {
    let epoch =
        |epoch, step, at_s| Found::Step(FoundStep { epoch: Some(epoch), loss: Some(1.0), ..found_step(step, at_s) });
    for next in [epoch(1.0, 3, 6.0), epoch(2.0, 1, 6.0)] {
        let begin = vec![phase("train", 0.0), epoch(1.0, 1, 1.0), epoch(1.0, 2, 2.0), phase("val", 2.0)];
        let log = events(WarmUp::Steps(0), &[[begin, vec![epoch(1.0, 2, 5.0), next]].concat()]);
        let counts: Vec<bool> = steps(&log).into_iter().map(|(.., counts)| counts).collect();
        assert_eq!(counts, [true, true, false], "when the training went on is unknown: {log:?}");
        assert!(warnings(&log).is_empty(), "{log:?}");
    }
}

#[test]
fn the_loss_of_an_evaluation_is_the_mean_of_each_epoch_by_units_unless_the_program_reports_it() {
    let of_epoch = |epoch, loss, units| {
        let step = FoundStep { epoch: Some(epoch), loss: Some(loss), units: Some(units), ..FoundStep::default() };
        Found::Step(FoundStep { phase: NamedPhase::of("eval"), at_s: epoch, ..step })
    };
    let mut found = vec![of_epoch(1.0, 8.0, 3.0), of_epoch(1.0, 4.0, 1.0), of_epoch(2.0, 2.0, 1.0)];
    let log = events(WarmUp::Steps(0), &[found.clone()]);
    assert_eq!(readings(&log), [("test_loss", 7.0, Some(1)), ("test_loss", 2.0, Some(2))]);
    found.insert(0, Found::Reading { key: "test_loss".into(), value: 1.0, step: None, epoch: None });
    assert_eq!(readings(&events(WarmUp::Steps(0), &[found])), [("test_loss", 1.0, None)]);
}

#[test]
fn what_is_lost_of_a_step_in_another_phase_is_told_once() {
    let timed = |name: &str, step: u64| {
        let step = FoundStep { duration_s: Some(0.5), ..found_step(step, step as f64) };
        Found::Step(FoundStep { phase: NamedPhase::of(name), ..step })
    };
    for (found, name) in [
        (vec![line("train", 1, 4.0, 1.0), timed("val", 2), timed("val", 3)], "val"),
        (vec![line("train", 1, 4.0, 1.0), line("load", 2, 4.0, 2.0)], "load"),
    ] {
        let log = events(WarmUp::Steps(0), &[found]);
        let [warning] = warnings(&log)[..] else { panic!("{log:?}") };
        assert!(
            warning.starts_with(&format!("step 2 was reported in the phase {name}, so it does not count")),
            "{warning}"
        );
        assert_eq!(steps(&log).len(), 1);
    }
}
