//! Evaluations whose loss is all that a program reports.

use super::*;

/// A line with the loss of an evaluation.
fn evaluated(step: Option<u64>, at_s: f64) -> Found {
    Found::Evaluated { step, at_s }
}

fn step(number: u64, at_s: f64) -> Found {
    Found::Step(found_step(number, at_s))
}

/// The durations of the steps that count, with their numbers.
fn counted(log: &[Event]) -> Vec<(u64, f64)> {
    steps(log)
        .into_iter()
        .filter(|(.., counts)| *counts)
        .map(|(number, _, duration_s, _)| (number, duration_s))
        .collect()
}

#[test]
fn the_time_before_the_loss_of_an_evaluation_is_none_of_the_next_step() {
    for number in [Some(2), None] {
        let log = events(
            WarmUp::Steps(0),
            &[vec![
                step(1, 1.0),
                step(2, 2.0),
                // The losses of two data sets.
                evaluated(number, 5.0),
                evaluated(number, 8.0),
                step(3, 9.5),
            ]],
        );
        assert_eq!(counted(&log), [(2, 1.0), (3, 1.5)]);
        let phases =
            log.iter().filter_map(|event| if let Event::Phase { phase } = event { Some(*phase) } else { None });
        assert_eq!(phases.collect::<Vec<_>>(), [Phase::WarmUp, Phase::Steady, Phase::Evaluate, Phase::Steady]);
        assert!(warnings(&log).is_empty(), "{log:?}");
    }
}

#[test]
fn a_step_has_no_duration_if_the_steps_before_an_evaluation_are_not_known() {
    for (first, second, number) in [(1, 2, Some(3)), (10, 20, Some(25)), (10, 20, None)] {
        let next = second + (second - first);
        let found =
            vec![step(first, 1.0), step(second, 2.0), evaluated(number, 5.0), step(next, 9.0), step(next + 1, 10.0)];
        let log = events(WarmUp::Steps(0), &[found]);
        let numbers: Vec<_> = counted(&log).into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [second, next + 1], "{number:?}");
        assert!(warnings(&log).is_empty(), "{log:?}");
    }
}

#[test]
fn a_step_has_no_duration_if_the_first_gap_shows_that_steps_may_have_been_made_before_an_evaluation() {
    let found = |number| vec![step(1, 1.0), evaluated(number, 5.0), step(11, 9.0), step(21, 14.0)];
    assert_eq!(counted(&events(WarmUp::Steps(0), &[found(None)])), [(21, 0.5)]);
    assert_eq!(counted(&events(WarmUp::Steps(0), &[found(Some(1))])), [(11, 0.4), (21, 0.5)]);
}

#[test]
fn a_guessed_step_has_no_duration_after_an_epoch_if_it_took_longer_than_its_number_says() {
    let of_epoch = |is_guessed: bool, steps, number, epoch, at_s| {
        Found::Step(FoundStep { epoch: Some(epoch), steps, is_guessed, ..found_step(number, at_s) })
    };
    // Each epoch has 29 steps of 0.5 s, and every tenth step is printed.
    let (hidden, known) = ([(20, 0.5), (40, 0.5)], [(20, 0.5), (39, 0.5), (49, 0.5)]);
    let declared = [(20, 0.5), (30, 0.95), (40, 0.5)];
    for (is_guessed, steps, expected) in [(true, None, &hidden[..]), (true, Some(29), &known), (false, None, &declared)]
    {
        let step = |number, epoch, at_s| of_epoch(is_guessed, steps, number, epoch, at_s);
        let found = vec![step(10, 1.0, 5.0), step(20, 1.0, 10.0), step(10, 2.0, 19.5), step(20, 2.0, 24.5)];
        assert_eq!(counted(&events(WarmUp::Steps(0), &[found])), expected, "{is_guessed} {steps:?}");
    }
    // The last step of each epoch is printed.
    let step = |number, epoch, at_s| of_epoch(true, None, number, epoch, at_s);
    let found = vec![step(10, 1.0, 5.0), step(20, 1.0, 10.0), step(10, 2.0, 15.0), step(20, 2.0, 20.0)];
    assert_eq!(counted(&events(WarmUp::Steps(0), &[found])), [(20, 0.5), (30, 0.5), (40, 0.5)]);
}

#[test]
fn an_evaluation_changes_nothing_where_the_program_reports_durations_or_phases() {
    let timed = |number, at_s| Found::Step(FoundStep { duration_s: Some(0.5), ..found_step(number, at_s) });
    let log = events(WarmUp::Steps(0), &[vec![timed(1, 1.0), evaluated(Some(7), 5.0), timed(2, 5.5)]]);
    assert_eq!(counted(&log), [(1, 0.5), (2, 0.5)]);
    let phase = |name: &str, at_s: f64| Found::Phase { phase: NamedPhase::of(name).unwrap(), at_s };
    let found = vec![step(1, 1.0), phase("evaluate", 1.0), evaluated(Some(1), 3.0), phase("train", 5.0), step(2, 6.0)];
    assert_eq!(counted(&events(WarmUp::Steps(0), &[found])), [(2, 1.0)]);
}

#[test]
fn steps_that_are_written_together_with_an_evaluation_have_no_durations_and_that_is_told() {
    let together = [step(2, 5.0), step(3, 5.0), evaluated(Some(3), 5.0), step(4, 5.0)];
    let log = events(WarmUp::Steps(0), &[[&[step(1, 1.0)][..], &together, &[step(5, 7.0)]].concat()]);
    assert_eq!(counted(&log), [(5, 2.0)]);
    let [warning] = warnings(&log)[..] else { panic!("{log:?}") };
    assert!(
        warning.starts_with("steps up to step 4 were reported together with the loss of an evaluation"),
        "{warning}"
    );
    // A single step may have been written just before its evaluation, which then took no time.
    let single = vec![step(1, 1.0), step(2, 2.0), evaluated(Some(2), 2.0), step(3, 3.0)];
    let log = events(WarmUp::Steps(0), &[single]);
    assert_eq!(counted(&log), [(2, 1.0), (3, 1.0)]);
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn the_step_that_contains_an_evaluation_which_is_reported_later_has_no_duration() {
    let found = vec![step(1, 1.0), step(2, 2.0), step(3, 6.0), evaluated(Some(2), 5.0), step(4, 7.0)];
    assert_eq!(counted(&events(WarmUp::Steps(0), &[found])), [(2, 1.0), (4, 1.0)]);
}

#[test]
fn an_evaluation_that_is_reported_in_each_step_before_its_loss_is_a_part_of_the_step_and_that_is_told() {
    for before_s in [0.0, 0.25] {
        let of_step = |number: u64| [evaluated(Some(number), number as f64 - before_s), step(number, number as f64)];
        let found: Vec<Found> = (1..=4).flat_map(of_step).collect();
        let apart: Vec<Vec<Found>> = found.iter().map(|one| vec![one.clone()]).collect();
        for log in [events(WarmUp::Steps(0), &[found]), events(WarmUp::Steps(0), &apart)] {
            assert_eq!(counted(&log), [(3, 1.0), (4, 1.0)], "that each step has one is known from the second on");
            let [warning] = warnings(&log)[..] else { panic!("{log:?}") };
            assert!(warning.starts_with("the program evaluates in each step, before it reports the step"), "{warning}");
        }
    }
}

#[test]
fn an_evaluation_before_some_of_the_steps_is_a_part_of_none() {
    let found = vec![
        step(1, 1.0),
        step(2, 2.0),
        evaluated(Some(3), 2.5),
        step(3, 3.0),
        step(4, 4.0),
        evaluated(Some(5), 4.5),
        step(5, 5.0),
        step(6, 6.0),
    ];
    let log = events(WarmUp::Steps(0), &[found]);
    assert_eq!(counted(&log), [(2, 1.0), (4, 1.0), (6, 1.0)]);
    assert!(warnings(&log).is_empty(), "{log:?}");
    let of_step = |number: u64| [evaluated(Some(number), number as f64 - 0.5), step(number, number as f64)];
    // Step 4 is not reported, but its evaluation is.
    let unreported = [evaluated(Some(4), 3.5), step(5, 5.0), step(6, 6.0)];
    let log = events(WarmUp::Steps(0), &[(1..=3).flat_map(of_step).chain(unreported).collect()]);
    assert_eq!(counted(&log), [(3, 1.0), (6, 1.0)]);
}

#[test]
fn a_run_whose_steps_have_no_durations_because_of_evaluations_tells_so() {
    for (first, second) in [(None, None), (Some(10), Some(20))] {
        let found = [evaluated(first, 0.5), step(10, 1.0), evaluated(second, 1.5), step(20, 2.0)];
        let log = events(WarmUp::Steps(0), &[found.to_vec()]);
        assert!(counted(&log).is_empty(), "{log:?}");
        let [warning] = warnings(&log)[..] else { panic!("{log:?}") };
        assert!(warning.starts_with("no step has a duration: before each of them"), "{warning}");
    }
    let log = events(WarmUp::Steps(0), &[vec![step(1, 1.0), evaluated(Some(9), 2.0)]]);
    assert!(warnings(&log).is_empty(), "a single step has no duration anyway: {log:?}");
}

/// What nanoGPT reports of some of its iterations of 20 ms, with an evaluation of half a second at the top of some of these: the time since
/// the end of the iteration before.
fn of_nano_gpt(every: u64, lines: u64, evaluates: impl Fn(u64) -> bool) -> Vec<Found> {
    let (mut found, mut end_s) = (Vec::new(), 0.0);
    for line in 0..lines {
        end_s += if line == 0 { 0.0 } else { 0.02 * (every - 1) as f64 };
        let evaluation_s = if evaluates(line) { 0.5 } else { 0.0 };
        end_s += evaluation_s;
        found.extend(evaluates(line).then(|| evaluated(Some(every * line), end_s)));
        end_s += 0.02;
        let duration_s = Some(evaluation_s + 0.02);
        found.push(Found::Step(FoundStep { duration_s, is_guessed: true, ..found_step(every * line, end_s) }));
    }
    found
}

#[test]
fn a_reported_duration_that_contains_an_evaluation_does_not_count() {
    for every in [1, 10] {
        let found = of_nano_gpt(every, 7, |line| line.is_multiple_of(3));
        let apart: Vec<Vec<Found>> = found.iter().map(|one| vec![one.clone()]).collect();
        for log in [events(WarmUp::Steps(0), &[found]), events(WarmUp::Steps(0), &apart)] {
            let expected = [1, 2, 4, 5].map(|line| (every * line + 1, 0.02));
            assert_eq!(counted(&log), expected, "every {every}: {log:?}");
            assert!(warnings(&log).is_empty(), "{log:?}");
        }
    }
}

#[test]
fn a_declared_duration_counts_even_if_the_line_of_an_evaluation_is_written_together_with_that_of_its_step() {
    let of_step = |number: u64| {
        let step = FoundStep { duration_s: Some(0.1), ..found_step(number, number as f64) };
        [evaluated(Some(number), number as f64), Found::Step(step)]
    };
    let log = events(WarmUp::Steps(0), &[(1..=3).flat_map(of_step).collect()]);
    assert_eq!(counted(&log), [(1, 0.1), (2, 0.1), (3, 0.1)]);
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn a_run_with_an_evaluation_in_each_reported_duration_tells_that_no_step_has_a_duration() {
    for every in [1, 10] {
        let log = events(WarmUp::Steps(0), &[of_nano_gpt(every, 5, |_| true)]);
        assert!(counted(&log).is_empty(), "{log:?}");
        let [warning] = warnings(&log)[..] else { panic!("{log:?}") };
        assert!(warning.contains("print steps more often than it evaluates"), "{warning}");
    }
}

#[test]
fn a_reported_duration_counts_if_the_program_names_its_training_or_another_source_evaluates() {
    let guessed = |number: u64, at_s: f64| FoundStep { is_guessed: true, ..found_step(number, at_s) };
    let late = Found::Step(FoundStep { duration_s: Some(0.5), ..guessed(2, 5.25) });
    let first = Found::Step(FoundStep { duration_s: Some(0.5), ..guessed(1, 1.0) });
    let train = Found::Phase { phase: NamedPhase::of("train").unwrap(), at_s: 0.5 };
    let found = vec![train, first.clone(), evaluated(Some(1), 5.0), late.clone()];
    assert_eq!(counted(&events(WarmUp::Steps(0), &[found])), [(1, 0.5), (2, 0.5)]);
    let (mut course, mut log) = (Course::new(0.0, WarmUp::Steps(0)), Vec::new());
    course.take_of_sources(&mut vec![(0, first), (1, evaluated(Some(1), 5.0)), (0, late)], 99.0, &mut log);
    course.finish(100.0, &mut log);
    assert_eq!(counted(&log.into_iter().map(|(_, event)| event).collect::<Vec<_>>()), [(1, 0.5), (2, 0.5)]);
}
