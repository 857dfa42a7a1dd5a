//! What is reported of a step later: by its source, or by another one.

use std::collections::BTreeMap;

use super::*;

/// Each list is what one poll found, each with the number of its source. Gives the events of the log.
fn events_of_sources(polls: Vec<Vec<(usize, Found)>>) -> Vec<Event> {
    let (mut course, mut events) = (Course::new(0.0, WarmUp::Steps(0)), Vec::new());
    for mut found in polls {
        course.take_of_sources(&mut found, 99.0, &mut events);
    }
    course.finish(100.0, &mut events);
    events.into_iter().map(|(_, event)| event).collect()
}

/// What is logged last of each step: number, epoch, duration, loss, units, whether it counts.
fn logged(events: &[Event]) -> Vec<(u64, u32, f64, f64, u32, bool)> {
    let mut steps = BTreeMap::new();
    for event in events {
        if let Event::Step { step, epoch, duration_s, loss, units, warm_up, .. } = *event {
            steps.insert(step, (step, epoch, duration_s, loss, units, !warm_up));
        }
    }
    steps.into_values().collect()
}

/// A step with its loss, at 20 ms a step.
fn loss_of(step: u64) -> FoundStep {
    FoundStep { loss: Some(3.0 / step as f64), ..found_step(step, 0.02 * step as f64) }
}

/// A step with its duration and its units, at 20 ms a step.
fn time_of(step: u64) -> FoundStep {
    FoundStep { duration_s: Some(0.015), units: Some(64.0), ..found_step(step, 0.02 * step as f64) }
}

/// What a source reports of these steps.
fn of_source(source: usize, steps: impl IntoIterator<Item = FoundStep>) -> Vec<(usize, Found)> {
    steps.into_iter().map(|step| (source, Found::Step(step))).collect()
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

#[test]
fn steps_whose_rounded_times_are_read_late_share_their_seconds_whatever_is_read_together() {
    // 20 steps a second from 10.5 s on; each time 15 of them are read.
    let step = |step: u64| {
        let at_s = (10.5 + (step - 1) as f64 / 20.0).floor();
        FoundStep { read_s: Some(15.0), is_rounded: step > 1, ..found_step(step, at_s) }
    };
    let polls = (0..5).map(|poll| of_source(0, (15 * poll + 1..=15 * poll + 15).map(step)));
    let log = events_of_sources(polls.collect());
    let logged = logged(&log);
    assert_eq!(logged.len(), 75);
    let counted: Vec<_> = logged.iter().filter(|(.., counts)| *counts).collect();
    // The first second and the last one are not full.
    assert_eq!((counted[0].0, counted[counted.len() - 1].0), (11, 70));
    assert!(counted.len() == 60 && counted.iter().all(|step| is_near(step.2, 0.05)), "{counted:?}");
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn more_about_a_step_joins_it() {
    let loss = |step: Option<u64>, loss| FoundStep { step, loss: Some(loss), at_s: 2.0, ..FoundStep::default() };
    let (first, second) = (Found::Step(found_step(1, 2.0)), Found::Step(loss(Some(1), 0.5)));
    let together = events(WarmUp::Steps(0), &[vec![first.clone(), second.clone()]]);
    let apart = events(WarmUp::Steps(0), &[vec![first], vec![second.clone()], vec![second]]);
    for (log, count) in [(together, 1), (apart, 2)] {
        let logged: Vec<_> = log.iter().filter(|event| matches!(event, Event::Step { .. })).collect();
        assert_eq!(logged.len(), count, "{log:?}");
        assert!(matches!(logged[count - 1], Event::Step { step: 1, loss: 0.5, duration_s: 2.0, .. }), "{log:?}");
    }
}

#[test]
fn what_sources_report_of_the_same_steps_is_joined_however_many_steps_are_read_at_once() {
    let all: Vec<u64> = (1..=60).collect();
    let expected: Vec<_> = all.iter().map(|step| (*step, 1, 0.015, 3.0 / *step as f64, 64, true)).collect();
    let mean = all.iter().map(|step| 3.0 / *step as f64).sum::<f64>() / 60.0;
    for size in [1, 10, 60] {
        let polls = |of_losses: usize| -> Vec<Vec<(usize, Found)>> {
            let poll = |steps: &[u64]| {
                let losses = of_source(of_losses, steps.iter().copied().map(loss_of));
                let times = of_source(1 - of_losses, steps.iter().copied().map(time_of));
                if of_losses == 0 { [losses, times].concat() } else { [times, losses].concat() }
            };
            all.chunks(size).map(poll).collect()
        };
        for of_losses in [0, 1] {
            let log = events_of_sources(polls(of_losses));
            assert_eq!(logged(&log), expected, "{size} steps are read at once, losses from source {of_losses}");
            let [(Some(1), loss)] = losses(&log)[..] else { panic!("{log:?}") };
            assert!(is_near(loss, mean), "{loss}");
            assert!(warnings(&log).is_empty(), "{log:?}");
        }
    }
}

#[test]
fn losses_that_wait_in_a_buffer_are_those_of_their_steps_and_epochs() {
    let timed = |step: u64| FoundStep { epoch: Some(step.div_ceil(20) as f64), ..time_of(step) };
    for late in [25, 60] {
        let (mut polls, mut waiting) = (Vec::new(), Vec::new());
        for step in 1..=60 {
            polls.push(of_source(0, [timed(step)]));
            waiting.push(loss_of(step));
            if waiting.len() == late {
                polls.push(of_source(1, waiting.drain(..)));
            }
        }
        polls.push(of_source(1, waiting));
        let log = events_of_sources(polls);
        let expected: Vec<_> =
            (1..=60_u64).map(|step| (step, step.div_ceil(20) as u32, 0.015, 3.0 / step as f64, 64, true)).collect();
        assert_eq!(logged(&log), expected, "{late} losses at once");
        let last: BTreeMap<_, _> = losses(&log).into_iter().collect();
        for (epoch, steps) in [(1_u32, 1..=20_u64), (2, 21..=40), (3, 41..=60)] {
            let mean = steps.map(|step| 3.0 / step as f64).sum::<f64>() / 20.0;
            assert!(is_near(last[&Some(epoch)], mean), "epoch {epoch}: {last:?}");
        }
        assert!(warnings(&log).is_empty(), "{log:?}");
    }
}

#[test]
fn steps_that_only_a_late_source_reports_stand_between_those_of_the_other_one() {
    let found = [of_source(0, [10, 20, 30].map(loss_of)), of_source(1, (1..=32).map(time_of))].concat();
    let log = events_of_sources(vec![found]);
    let steps = logged(&log);
    let times = steps.iter().map(|(step, _, duration_s, _, units, counts)| (*step, *duration_s, *units, *counts));
    assert_eq!(times.collect::<Vec<_>>(), (1..=32).map(|step| (step, 0.015, 64, true)).collect::<Vec<_>>());
    let with_loss = steps.iter().filter(|(.., loss, _, _)| loss.is_finite()).map(|(step, ..)| *step);
    assert_eq!(with_loss.collect::<Vec<_>>(), [10, 20, 30]);
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn counts_of_each_epoch_are_the_same_for_a_source_that_reports_only_some_steps() {
    let of_epochs = |source: usize, every: usize, make: fn(u64) -> FoundStep| {
        let of_epoch = move |epoch: u64| {
            let step = move |step: u64| FoundStep {
                epoch: Some(epoch as f64),
                steps: Some(25),
                at_s: 0.02 * (25 * epoch + step) as f64,
                ..make(step)
            };
            (every as u64..=25).step_by(every).map(step)
        };
        of_source(source, (0..3).flat_map(of_epoch))
    };
    let (losses, times) = (of_epochs(0, 10, loss_of), of_epochs(1, 1, time_of));
    for found in [[losses.clone(), times.clone()].concat(), [times, losses].concat()] {
        let log = events_of_sources(vec![found]);
        let steps = logged(&log);
        let epochs: Vec<_> = steps.iter().map(|(step, epoch, ..)| (*step, *epoch)).collect();
        assert_eq!(epochs, (1..=75_u64).map(|step| (step, step.div_ceil(25) as u32)).collect::<Vec<_>>());
        let with_loss = steps.iter().filter(|(.., loss, _, _)| loss.is_finite()).map(|(step, ..)| *step);
        assert_eq!(with_loss.collect::<Vec<_>>(), [10, 20, 35, 45, 60, 70]);
        assert!(warnings(&log).is_empty(), "{log:?}");
    }
}

#[test]
fn a_program_that_goes_back_does_so_once_for_all_sources() {
    let again = |step: FoundStep| FoundStep { at_s: step.at_s + 1.0, loss: step.loss.map(|loss| loss + 6.0), ..step };
    let both = |step: u64| [(0, loss_of(step)), (1, time_of(step))];
    let repeated = [2, 3].into_iter().flat_map(both).map(|(source, step)| (source, again(step)));
    let steps = [1, 2, 3].into_iter().flat_map(both).chain(repeated);
    let (losses_first, times): (Vec<_>, Vec<_>) = steps.clone().partition(|(source, _)| *source == 0);
    // Both are read as they come, or what one reports is read after the end of what the other one reports.
    for steps in [steps.collect::<Vec<_>>(), [losses_first, times].concat()] {
        let polls = steps.into_iter().map(|(source, step)| of_source(source, [step])).collect();
        let log = events_of_sources(polls);
        let [warning] = warnings(&log)[..] else { panic!("{log:?}") };
        assert!(warning.starts_with("step numbers went back, as step 3 was followed by step 2: "), "{warning}");
        let expected = [(1, 1, 0.015, 3.0, 64, true), (2, 1, 0.015, 7.5, 64, true), (3, 1, 0.015, 7.0, 64, true)];
        assert_eq!(logged(&log), expected);
        assert_eq!(losses(&log).last().map(|(_, loss)| *loss), Some(17.5 / 3.0));
    }
}

#[test]
fn a_step_that_a_source_reports_while_another_one_evaluates_is_one_of_the_training() {
    let phase = |name: &str, at_s: f64| (0, Found::Phase { phase: NamedPhase::of(name).unwrap(), at_s });
    let read_late = |step: u64| FoundStep { at_s: 0.5, ..loss_of(step) };
    let log = events_of_sources(vec![
        [vec![phase("train", 0.0)], of_source(0, [1, 2, 3].map(time_of)), of_source(1, [loss_of(1)])].concat(),
        [vec![phase("evaluate", 0.07)], of_source(1, [2, 3].map(read_late))].concat(),
        [vec![phase("train", 2.0)], of_source(0, [FoundStep { at_s: 2.1, ..time_of(4) }])].concat(),
    ]);
    let steps: Vec<_> = logged(&log).into_iter().take(3).collect();
    assert_eq!(steps, [1, 2, 3].map(|step| (step, 1, 0.015, 3.0 / step as f64, 64, true)));
    let keys =
        log.iter().filter_map(|event| if let Event::Reading { key, .. } = event { Some(key.as_str()) } else { None });
    assert!(keys.clone().all(|key| key == "train_loss") && keys.count() > 0, "{log:?}");
}

#[test]
fn what_is_reported_later_than_steps_are_kept_is_left_out_and_told() {
    let found = [of_source(0, (1..=recent::MOST_KEPT as u64 + 10).map(time_of)), of_source(1, [loss_of(5)])].concat();
    let log = events_of_sources(vec![found]);
    let [warning] = warnings(&log)[..] else { panic!("{:?}", warnings(&log)) };
    assert!(warning.starts_with("step 5 was reported more than 32768 steps later than by another source"), "{warning}");
    assert_eq!(log.iter().filter(|event| matches!(event, Event::Step { step: 5, .. })).count(), 1);
}

proptest! {
    #[test]
    fn whatever_several_sources_report_steps_count_from_1_and_have_durations(
        polls in proptest::collection::vec(proptest::collection::vec((0..3_usize, any_found()), 0..8), 0..12),
    ) {
        let log = events_of_sources(polls);
        for event in &log {
            if let Event::Step { step, epoch, duration_s, .. } = event {
                prop_assert!(*step > 0 && *epoch > 0 && *duration_s >= 0.0 && duration_s.is_finite(), "{:?}", event);
            }
        }
    }
}

/// Steps 0 to 24 of three epochs, as a program without an end of its counts reports them.
fn counted_from_zero(make: fn(u64) -> FoundStep) -> impl Fn(u64) -> FoundStep {
    move |place| FoundStep {
        step: Some(place % 25),
        epoch: Some((place / 25 + 1) as f64),
        at_s: 0.02 * place as f64,
        ..make(place + 1)
    }
}

#[test]
fn a_source_that_begins_an_epoch_first_and_reports_only_some_steps_does_not_shorten_the_epoch_before() {
    let (sparse, dense) = (counted_from_zero(loss_of), counted_from_zero(time_of));
    let of_step = |place: u64| {
        let losses = (place % 25).is_multiple_of(10).then(|| (0, Found::Step(sparse(place))));
        losses.into_iter().chain([(1, Found::Step(dense(place)))])
    };
    let log = events_of_sources(vec![(0..75).flat_map(of_step).collect()]);
    let steps: Vec<_> = logged(&log).iter().map(|(step, epoch, ..)| (*step, *epoch)).collect();
    assert_eq!(steps, (1..=75_u64).map(|step| (step, step.div_ceil(25) as u32)).collect::<Vec<_>>());
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn a_source_that_names_no_epoch_may_be_late_over_the_end_of_an_epoch() {
    let (first, second) = (counted_from_zero(time_of), counted_from_zero(loss_of));
    let late = |place: u64| (1, Found::Step(FoundStep { epoch: None, ..second(place) }));
    let of_step = |place: u64| {
        let ahead = (place < 75).then(|| (0, Found::Step(first(place))));
        ahead.into_iter().chain(place.checked_sub(3).map(late))
    };
    let log = events_of_sources(vec![(0..78).flat_map(of_step).collect()]);
    let steps: Vec<_> = logged(&log).iter().map(|(step, epoch, _, loss, ..)| (*step, *epoch, *loss)).collect();
    let expected = (1..=75_u64).map(|step| (step, step.div_ceil(25) as u32, 3.0 / step as f64));
    assert_eq!(steps, expected.collect::<Vec<_>>());
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn what_a_late_source_reports_from_before_a_return_is_no_step_after_it() {
    let at = |step: FoundStep, at_s: f64| FoundStep { at_s, ..step };
    let units = |step: u64, at_s: f64| (1, Found::Step(FoundStep { duration_s: None, ..at(time_of(step), at_s) }));
    let loss = |step: u64, at_s: f64| (0, Found::Step(at(loss_of(step), at_s)));
    let before = (1..=10).flat_map(|step| {
        let late = (step < 9).then(|| units(step, step as f64));
        [loss(step, step as f64)].into_iter().chain(late)
    });
    let again = (1..=6).flat_map(|step| {
        let at_s = 20.0 + step as f64;
        let late = (step == 2).then(|| [units(9, at_s), units(10, at_s)]);
        [loss(step, at_s)].into_iter().chain(late.into_iter().flatten())
    });
    let log = events_of_sources(before.chain(again).map(|found| vec![found]).collect());
    let steps = logged(&log);
    let durations_s: Vec<_> =
        steps.iter().filter(|(step, ..)| (3..=5).contains(step)).map(|(_, _, s, ..)| *s).collect();
    assert_eq!(durations_s, [1.0; 3], "{steps:?}");
    assert_eq!(warnings(&log).len(), 1, "{log:?}");
}

#[test]
fn a_source_that_appears_after_a_return_keeps_the_steps_that_it_reports_first() {
    for has_time in [false, true] {
        let at = |step: FoundStep, at_s: f64| FoundStep { at_s, read_s: has_time.then_some(at_s), ..step };
        let loss = |step: u64, at_s: f64| vec![(0, Found::Step(at(loss_of(step), at_s)))];
        let units =
            |step: u64, at_s: f64| vec![(1, Found::Step(FoundStep { duration_s: None, ..at(time_of(step), at_s) }))];
        let before = (1..=10).map(|step| loss(step, step as f64));
        let again = [loss(5, 21.0), loss(6, 22.0), units(9, 25.0), units(12, 28.0), loss(12, 28.0)];
        let log = events_of_sources(before.chain(again).collect());
        let steps = logged(&log);
        let of_both = steps.iter().filter(|(.., units, _)| *units > 0);
        let of_both: Vec<_> = of_both.map(|(step, _, s, _, _, counts)| (*step, *s, *counts)).collect();
        assert_eq!(of_both, [(9, 1.0, true), (12, 1.0, true)], "with times of its own: {has_time}: {log:?}");
        assert_eq!(warnings(&log).len(), 1, "{log:?}");
    }
}

#[test]
fn a_source_whose_lines_are_all_read_after_a_return_goes_back_with_the_others() {
    let losses = |since_s: f64| {
        let loss = move |step: u64| FoundStep { at_s: since_s + step as f64, ..loss_of(step) };
        (1..=10).map(loss).map(|step| of_source(0, [step]))
    };
    let units = |step: u64| FoundStep { duration_s: None, at_s: 31.0, ..time_of(step) };
    let late = of_source(1, (1..=10).chain(1..=10).map(units));
    let log = events_of_sources(losses(0.0).chain(losses(20.0)).chain([late]).collect());
    let steps = logged(&log);
    assert!(steps.iter().all(|(.., units, _)| *units == 64), "{steps:?}");
    let durations_s = steps.iter().filter(|(.., counts)| *counts).map(|(_, _, duration_s, ..)| *duration_s);
    assert_eq!(durations_s.collect::<Vec<_>>(), [1.0; 9], "{steps:?}");
    assert_eq!(warnings(&log).len(), 1, "{log:?}");
}
