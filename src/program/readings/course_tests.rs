use proptest::prelude::*;

use super::super::fields::Fields;
use super::super::keys::MOST_KEYS;
use super::*;
use crate::protocol::{EventLine, read_event_line};

fn found_step(step: u64, at_s: f64) -> FoundStep {
    FoundStep { step: Some(step), at_s, ..FoundStep::default() }
}

/// Each list is what one poll found. Gives the events of the log.
fn events(warm_up: WarmUp, polls: &[Vec<Found>]) -> Vec<Event> {
    let (mut course, mut events) = (Course::new(0.0, warm_up), Vec::new());
    polls.iter().for_each(|found| course.take(&mut found.clone(), 99.0, &mut events));
    course.finish(100.0, &mut events);
    events.into_iter().map(|(_, event)| event).collect()
}

/// The steps of a log as the store keeps them, the last of each number: number, epoch, duration, whether it counts.
fn steps(events: &[Event]) -> Vec<(u64, u32, f64, bool)> {
    let mut steps: Vec<(u64, u32, f64, bool)> = Vec::new();
    for event in events {
        if let Event::Step { step, epoch, duration_s, warm_up, .. } = event {
            steps.retain(|(number, ..)| number != step);
            steps.push((*step, *epoch, *duration_s, !warm_up));
        }
    }
    steps
}

fn of_steps(found: &[FoundStep]) -> Vec<(u64, u32, f64, bool)> {
    steps(&events(WarmUp::Steps(0), &[found.iter().copied().map(Found::Step).collect()]))
}

/// The losses of epochs.
fn losses(log: &[Event]) -> Vec<(Option<u32>, f64)> {
    let loss = |event: &Event| match event {
        Event::Reading { key, value, epoch, .. } if *key == "train_loss" => Some((*epoch, *value)),
        _ => None,
    };
    log.iter().filter_map(loss).collect()
}

fn warnings(events: &[Event]) -> Vec<&str> {
    let message = events.iter().map(|event| if let Event::Warning { message } = event { message } else { "" });
    message.filter(|message| !message.is_empty()).collect()
}

#[test]
fn a_step_takes_what_the_program_says_or_the_time_since_the_one_before() {
    let explicit = FoundStep { duration_s: Some(0.25), ..found_step(3, 2.0) };
    assert_eq!(
        of_steps(&[found_step(1, 1.0), found_step(2, 1.5), explicit, found_step(4, 3.0)]),
        [(1, 1, 1.0, false), (2, 1, 0.5, true), (3, 1, 0.25, true), (4, 1, 1.0, true)],
        "the first holds the start of the program"
    );
}

#[test]
fn a_step_during_which_the_clock_was_set_counts_no_time() {
    for (by_s, after_s) in [(3600.0, 3602.6), (-1.5, 1.1), (0.3, 2.9), (-0.3, 2.3)] {
        let (mut course, mut events) = (Course::new(0.0, WarmUp::Steps(0)), Vec::new());
        course.take(
            &mut [found_step(1, 1.0), found_step(2, 1.5), found_step(3, 2.0)].map(Found::Step).to_vec(),
            2.5,
            &mut events,
        );
        course.clock_set(2.5, after_s, by_s);
        let later = [2.75, 3.25].map(|at_s| at_s + by_s);
        course.take(
            &mut vec![Found::Step(found_step(4, later[0])), Found::Step(found_step(5, later[1]))],
            99.0,
            &mut events,
        );
        let events: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
        let counted: Vec<_> = steps(&events).into_iter().map(|(number, _, _, counts)| (number, counts)).collect();
        assert_eq!(counted, [(1, false), (2, true), (3, true), (4, false), (5, true)], "{by_s}");
        assert!(steps(&events).iter().all(|step| !step.3 || (step.2 - 0.5).abs() < 1e-9), "{by_s}: {events:?}");
        assert!(warnings(&events).is_empty(), "{by_s}: {events:?}");
    }
}

#[test]
fn steps_that_are_logged_now_and_then_and_steps_that_are_read_at_once_share_their_time() {
    assert_eq!(of_steps(&[found_step(10, 1.0), found_step(20, 3.0)]), [(10, 1, 1.0, false), (20, 1, 0.2, true)]);
    let counted = of_steps(&[found_step(1, 1.0), found_step(2, 3.0), found_step(3, 3.0), found_step(5, 3.0)]);
    assert_eq!(counted, [(1, 1, 1.0, false), (2, 1, 0.5, true), (3, 1, 0.5, true), (5, 1, 0.5, true)]);
}

#[test]
fn steps_that_are_said_long_after_they_ended_are_told_to_lack_their_time() {
    let timed = |step, at_s| Found::Step(FoundStep { duration_s: Some(0.1), ..found_step(step, at_s) });
    let at_the_end = events(WarmUp::Steps(0), &[(1..=50).map(|step| timed(step, 20.0)).collect()]);
    assert!(warnings(&at_the_end)[0].starts_with("4.9 s of steps were reported together"), "{at_the_end:?}");
    let in_milliseconds =
        |step| Found::Step(FoundStep { duration_s: Some(100.0), ..found_step(step, 0.1 * step as f64) });
    let impossible = events(WarmUp::Steps(0), &[(1..=50).map(in_milliseconds).collect()]);
    assert_eq!(warnings(&impossible).len(), 1, "{impossible:?}");
    assert!(warnings(&impossible)[0].contains("impossible"), "the program ran for 100 s: {impossible:?}");
    let with_their_times: Vec<Found> = (1..=50).map(|step| timed(step, 0.1 * step as f64)).collect();
    assert!(warnings(&events(WarmUp::Steps(0), &[with_their_times])).is_empty());
    let read_by_fives =
        (0..10).map(|poll| (1..=5).map(|step| timed(5 * poll + step, 0.5 * (poll + 1) as f64)).collect());
    assert!(warnings(&events(WarmUp::Steps(0), &read_by_fives.collect::<Vec<_>>())).is_empty());
}

#[test]
fn counts_from_0_and_counts_of_each_epoch_become_one_count_from_1() {
    let step_at = |epoch: f64, step: u64, steps: Option<u64>, at_s: f64| FoundStep {
        epoch: Some(epoch),
        steps,
        duration_s: Some(1.0),
        ..found_step(step, at_s)
    };
    let from_zero = [
        step_at(0.0, 0, None, 1.0),
        step_at(0.0, 1, None, 2.0),
        step_at(1.0, 0, None, 3.0),
        step_at(1.0, 1, None, 4.0),
    ];
    assert_eq!(
        of_steps(&from_zero).iter().map(|step| (step.0, step.1)).collect::<Vec<_>>(),
        [(1, 1), (2, 1), (3, 2), (4, 2)]
    );
    // Every tenth of 25 steps; the epochs are not said, but the count had come to its end.
    let bar = |step, at_s| FoundStep { steps: Some(25), duration_s: Some(1.0), ..found_step(step, at_s) };
    let bars = [bar(10, 1.0), bar(20, 2.0), bar(25, 3.0), bar(10, 4.0)];
    assert_eq!(of_steps(&bars).iter().map(|step| step.0).collect::<Vec<_>>(), [10, 20, 25, 35]);
    let fractions = [
        step_at(0.0, 1, None, 1.0),
        step_at(0.5, 2, None, 2.0),
        step_at(1.0, 3, None, 3.0),
        step_at(1.1, 4, None, 4.0),
    ];
    assert_eq!(of_steps(&fractions).iter().map(|step| step.1).collect::<Vec<_>>(), [1, 1, 1, 2]);
}

#[test]
fn steps_that_go_back_replace_the_earlier_ones_and_that_is_said() {
    let log = events(
        WarmUp::Steps(0),
        &[vec![found_step(1, 1.0), found_step(2, 2.0), found_step(3, 3.0), found_step(2, 9.0), found_step(3, 11.0)]
            .into_iter()
            .map(Found::Step)
            .collect()],
    );
    assert_eq!(steps(&log), [(1, 1, 1.0, false), (2, 1, 6.0, false), (3, 1, 2.0, true)]);
    let [warning] = warnings(&log)[..] else { panic!("{log:?}") };
    assert!(warning.starts_with("step numbers went back, as step 3 was followed by step 2: "), "{warning}");
}

#[test]
fn a_clock_that_is_set_back_times_no_step() {
    let log = events(
        WarmUp::Steps(0),
        &[vec![found_step(1, 10.0), found_step(2, 5.0), found_step(3, 6.0)].into_iter().map(Found::Step).collect()],
    );
    assert_eq!(steps(&log), [(1, 1, 10.0, false), (2, 1, 0.0, false), (3, 1, 1.0, true)]);
    assert!(warnings(&log)[0].contains("the clock was set back"), "{log:?}");
}

#[test]
fn the_first_steps_of_the_run_are_warm_up_wherever_it_begins() {
    let step_of = |step| FoundStep { duration_s: Some(1.0), ..found_step(step, step as f64) };
    let log = events(WarmUp::Steps(2), &[(501..505).map(|step| Found::Step(step_of(step))).collect()]);
    assert_eq!(steps(&log).iter().map(|step| step.3).collect::<Vec<_>>(), [false, false, true, true]);
    let own = FoundStep { warm_up: Some(false), ..step_of(1) };
    assert!(steps(&events(WarmUp::Steps(9), &[vec![Found::Step(own)]]))[0].3, "the program says otherwise");
}

#[test]
fn the_end_of_the_warm_up_is_found_by_step_times() {
    let end_s = |step: u64| if step <= 3 { 30.0 * step as f64 } else { 90.0 + 0.1 * (step - 3) as f64 };
    let step_of = |step| FoundStep { duration_s: Some(end_s(step) - end_s(step - 1)), ..found_step(step, end_s(step)) };
    let log = events(WarmUp::Found, &[(1..=100).map(|step| Found::Step(step_of(step))).collect()]);
    let first = steps(&log).iter().find(|step| step.3).unwrap().0;
    assert!((40..=60).contains(&first), "{first}");
    assert!(warnings(&log).is_empty());
    let few = events(WarmUp::Found, &[(1..=20).map(|step| Found::Step(step_of(step))).collect()]);
    assert!(warnings(&few)[0].starts_with("the end of the warm-up was not found"), "{few:?}");
    let of_20 = |step| FoundStep { steps: Some(20), ..step_of(step) };
    let short = events(WarmUp::Found, &[(1..=20).map(|step| Found::Step(of_20(step))).collect()]);
    assert!(steps(&short).iter().any(|step| step.3), "the second half of a run whose end is known counts");
}

#[test]
fn an_epochs_loss_is_the_mean_over_its_steps_by_units() {
    let step_with = |step: u64, epoch: f64, loss, units| FoundStep {
        epoch: Some(epoch),
        loss: Some(loss),
        units: Some(units),
        duration_s: Some(1.0),
        ..found_step(step, step as f64)
    };
    let found = vec![step_with(1, 1.0, 1.0, 30.0), step_with(2, 1.0, 4.0, 10.0), step_with(3, 2.0, 0.5, 10.0)];
    let mut found: Vec<_> = found.into_iter().map(Found::Step).collect();
    assert_eq!(losses(&events(WarmUp::Steps(0), &[found.clone()])), [(Some(1), 1.75), (Some(2), 0.5)]);
    found.insert(0, Found::Reading { key: "train_loss".into(), value: 9.0, step: None, epoch: None });
    assert_eq!(losses(&events(WarmUp::Steps(0), &[found])), [(None, 9.0)], "the program says it itself");
}

#[test]
fn units_that_the_log_cannot_hold_are_left_out_and_said_once() {
    for (units, held) in [(1.4, UNSTORED_UNITS), (16e9, UNSTORED_UNITS), (4_294_967_294.0, 4_294_967_294), (0.0, 0)] {
        let step_of = |step: u64| Found::Step(FoundStep { units: Some(units), ..found_step(step, step as f64) });
        let log = events(WarmUp::Steps(0), &[vec![step_of(1)], vec![step_of(2)]]);
        let of_steps = log.iter().filter_map(|event| match event {
            Event::Step { units, .. } => Some(*units),
            _ => None,
        });
        assert_eq!(of_steps.collect::<Vec<_>>(), [held, held], "{units}");
        let expected = format!("units is {units} in step 1, but must be a whole number below 4294967295: ");
        let is_left_out = held == UNSTORED_UNITS;
        assert_eq!(warnings(&log).len(), usize::from(is_left_out), "{log:?}");
        assert!(warnings(&log).iter().all(|warning| warning.starts_with(&expected)), "{log:?}");
    }
}

#[test]
fn losses_of_steps_that_are_repeated_from_a_checkpoint_count_once() {
    let step_with = |step: u64, loss| {
        Found::Step(FoundStep { loss: Some(loss), duration_s: Some(1.0), ..found_step(step, step as f64) })
    };
    let found = vec![
        step_with(1, 5.0),
        step_with(2, 3.0),
        step_with(3, 100.0),
        step_with(4, 100.0),
        // It continues from step 2.
        step_with(3, 2.0),
        step_with(4, 2.0),
    ];
    for polls in [vec![found.clone()], found.into_iter().map(|one| vec![one]).collect()] {
        let log = events(WarmUp::Steps(0), &polls);
        assert_eq!(losses(&log), [(Some(1), 3.0)], "{log:?}");
    }
}

#[test]
fn a_loss_that_is_not_a_number_is_said_once_and_kept() {
    let step_of = |step: u64| Found::Step(FoundStep { loss: Some(f64::NAN), ..found_step(step, step as f64) });
    let log = events(WarmUp::Steps(0), &[vec![step_of(1)], vec![step_of(2)]]);
    assert_eq!(warnings(&log), ["the loss of step 1 is not a finite number"]);
    assert!(log.iter().any(|event| matches!(event, Event::Step { step: 2, loss, .. } if loss.is_nan())));
}

#[test]
fn readings_that_multicard_measures_itself_are_left_out_and_each_key_is_said_once() {
    let reading = |key: &str| Found::Reading { key: key.into(), value: 0.5, step: Some(1), epoch: None };
    let keys = ["program_time_s", "cpu_time_s", "peak_resident_bytes", "exit_code", "total_time_s"];
    let found: Vec<Found> = keys.into_iter().chain(["accuracy"]).map(reading).collect();
    let log = events(WarmUp::Steps(0), &[found.clone(), found]);
    let logged =
        log.iter().filter_map(|event| if let Event::Reading { key, .. } = event { Some(&**key) } else { None });
    assert_eq!(logged.collect::<Vec<_>>(), ["accuracy"; 2]);
    assert_eq!(warnings(&log).len(), keys.len(), "{log:?}");
    for (warning, key) in warnings(&log).into_iter().zip(keys) {
        assert!(warning.starts_with(&format!("the program reported {key}, which multicard measures itself: ")));
    }
}

#[test]
fn readings_of_endless_names_are_limited() {
    let reading = |key: usize| Found::Reading { key: format!("k{key}").into(), value: 1.0, step: None, epoch: None };
    let log = events(WarmUp::Steps(0), &[(0..2 * MOST_KEYS).map(reading).collect()]);
    assert_eq!(log.iter().filter(|event| matches!(event, Event::Reading { .. })).count(), MOST_KEYS);
    assert_eq!(warnings(&log).len(), 1);
}

fn any_time() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1e3, Just(7.0), any::<f64>()]
}

fn any_phase() -> impl Strategy<Value = NamedPhase> {
    prop_oneof![Just("train"), Just("evaluate"), Just("val")].prop_map(|name| NamedPhase::of(name).unwrap())
}

prop_compose! {
    fn any_step()(
        step in proptest::option::of(prop_oneof![0..50_u64, any::<u64>()]),
        steps in proptest::option::of(0..50_u64),
        epoch in proptest::option::of(prop_oneof![0.0..3.0, Just(0.0), Just(1.0), 0.0..1e300]),
        duration_s in proptest::option::of(0.0..1e300),
        loss in proptest::option::of(any::<f64>()),
        is_mean_loss in any::<bool>(),
        units in proptest::option::of(0.0..1e300),
        warm_up in proptest::option::of(any::<bool>()),
        phase in proptest::option::of(any_phase()),
        is_guessed in any::<bool>(),
        at_s in any_time(),
        read_s in proptest::option::of(any_time()),
    ) -> FoundStep {
        let wait_s = None;
        let times = FoundStep { at_s, read_s, is_guessed, ..FoundStep::default() };
        FoundStep { step, steps, epoch, duration_s, wait_s, loss, is_mean_loss, units, warm_up, phase, ..times }
    }
}

fn any_found() -> impl Strategy<Value = Found> {
    prop_oneof![
        8 => any_step().prop_map(Found::Step),
        1 => prop_oneof![0.0..3.0, Just(1.0), Just(2.0), 0.0..1e300].prop_map(Found::Epoch),
        2 => (any_phase(), any_time()).prop_map(|(phase, at_s)| Found::Phase { phase, at_s }),
        1 => (proptest::option::of(0..50_u64), any_time()).prop_map(|(step, at_s)| Found::Evaluated { step, at_s }),
        1 => any_time().prop_map(|at_s| Found::Begins { at_s }),
    ]
}

proptest! {
    #[test]
    fn whatever_a_program_says_steps_count_from_1_and_have_durations(
        polls in proptest::collection::vec(proptest::collection::vec(any_found(), 0..8), 0..12),
        finds: bool,
    ) {
        let warm_up = if finds { WarmUp::Found } else { WarmUp::Steps(3) };
        let has_step = polls.iter().flatten().any(|found| matches!(found, Found::Step(_)));
        let evaluates = polls.iter().flatten().any(|found| match found {
            Found::Step(FoundStep { phase: Some(phase), .. }) | Found::Phase { phase, .. } => !phase.is_training(),
            _ => false,
        });
        let log = events(warm_up, &polls);
        prop_assert!(has_step || steps(&log).is_empty());
        prop_assert!(evaluates || has_step != steps(&log).is_empty());
        for event in &log {
            if let Event::Step { step, epoch, duration_s, .. } = event {
                prop_assert!(*step > 0 && *epoch > 0 && *duration_s >= 0.0 && duration_s.is_finite(), "{:?}", event);
            }
        }
    }

    #[test]
    fn durations_of_a_program_that_says_none_add_up_to_its_time(
        gaps in proptest::collection::vec((1..5_u64, 0.001..2.0_f64), 2..40),
    ) {
        let (mut step, mut at_s, mut found) = (0, 0.0, Vec::new());
        for (advance, passed_s) in &gaps {
            (step, at_s) = (step + advance, at_s + passed_s);
            found.push(Found::Step(found_step(step, at_s)));
        }
        let log = events(WarmUp::Steps(0), &[found]);
        let logged = steps(&log);
        // The first is the program's start, of one step.
        let rest: f64 = logged.iter().zip(&gaps).skip(1).map(|((_, _, each_s, counts), (advance, _))| {
            assert!(counts);
            each_s * *advance as f64
        }).sum();
        prop_assert!((rest - (at_s - gaps[0].1)).abs() < 1e-6);
    }
}

#[test]
fn what_no_line_of_a_log_can_hold_is_not_logged() {
    let refused = |name: &str, value: f64| Fields::default().number(name, value).unwrap_err();
    assert!(refused("time_s", 1.76e12).contains("must be a time in seconds since 1970"), "milliseconds");
    assert!(refused("duration_s", 1e10).contains("must be the time of a step"));
    assert!(refused("wait_s", -1.0).contains("must be a number from 0"));

    // By a clock that starts with the program, a step may have begun before 1970; by another one, decades may have passed.
    let early = FoundStep { duration_s: Some(2.0), ..found_step(1, 1.0) };
    let (mut course, mut events) = (Course::new(1.7e9, WarmUp::Steps(0)), Vec::new());
    course.take(
        &mut vec![Found::Step(early), Found::Step(found_step(2, 2.0)), Found::Step(found_step(3, 9e10))],
        99.0,
        &mut events,
    );
    course.finish(100.0, &mut events);
    for (time_s, event) in events {
        let line = EventLine { run: "r1".to_owned(), rank: 0, time_s, event };
        read_event_line(&serde_json::to_vec(&line).unwrap()).unwrap();
    }
}

#[test]
fn the_end_of_a_run_is_logged_unless_the_count_has_passed_it() {
    let step_of_3 = |step| FoundStep { steps: Some(3), ..found_step(step, step as f64) };
    let log = events(WarmUp::Steps(0), &[(2..=4).map(|step| Found::Step(step_of_3(step))).collect()]);
    let ends: Vec<_> = log
        .iter()
        .filter_map(|event| if let Event::Step { step, steps, .. } = event { Some((*step, *steps)) } else { None })
        .collect();
    assert!([(2, 3), (3, 3), (4, 0)].iter().all(|end| ends.contains(end)), "{ends:?}");
}

#[test]
fn steps_may_take_up_to_twice_the_time_over_which_they_were_reported() {
    let timed = |step| Found::Step(FoundStep { duration_s: Some(1.4), ..found_step(step, step as f64) });
    let log = events(WarmUp::Steps(0), &[(1..=21).map(timed).collect()]);
    assert!(warnings(&log).is_empty(), "{log:?}");
}

/// The last log of each step of a program that starts at 1000 s and makes a step each 20 ms, whose lines are read each 0.1 s and report
/// the times that `told_s` makes of the number of seconds since the start: when the step ended, and its duration.
fn placed(steps: u64, told_s: impl Fn(f64) -> f64) -> (Vec<(f64, f64)>, Vec<Event>) {
    let (mut course, mut log) = (Course::new(1_000.0, WarmUp::Steps(0)), Vec::new());
    let all: Vec<u64> = (1..=steps).collect();
    for read_together in all.chunks(5) {
        let read_s = 1_000.0 + 0.02 * *read_together.last().unwrap() as f64;
        let found = |step: &u64| {
            let at_s = 1_000.0 + told_s(0.02 * *step as f64);
            Found::Step(FoundStep { read_s: Some(read_s), loss: Some(1.0), ..found_step(*step, at_s) })
        };
        course.take(&mut read_together.iter().map(found).collect(), read_s, &mut log);
    }
    course.finish(1_000.0 + 0.02 * steps as f64, &mut log);
    let mut placed = BTreeMap::new();
    for (time_s, event) in &log {
        if let Event::Step { step, duration_s, .. } = event {
            placed.insert(*step, (time_s - 1_000.0, *duration_s));
        }
    }
    (placed.into_values().collect(), log.into_iter().map(|(_, event)| event).collect())
}

#[test]
fn steps_end_at_the_times_that_a_program_reports_if_these_advance_like_the_times_of_reading() {
    let (placed, log) = placed(150, |since_s| since_s);
    assert_eq!(log.iter().filter(|event| matches!(event, Event::Step { .. })).count(), 150, "each once");
    assert!(
        placed.iter().zip(1..).all(|((end_s, _), step)| (end_s - 0.02 * f64::from(step)).abs() < 1e-9),
        "{placed:?}"
    );
    assert!(warnings(&log).is_empty(), "{log:?}");
}

#[test]
fn reported_times_that_are_no_times_of_the_machines_clock_give_durations_but_do_not_say_when_a_step_ended() {
    for (steps, rate) in [(150, 0.5), (30, 0.5), (30, 1.5)] {
        let (placed, log) = placed(steps, |since_s| rate * since_s);
        for (place, (end_s, duration_s)) in placed.iter().enumerate() {
            let read_s = 0.1 * (place / 5 + 1) as f64;
            assert!((end_s - read_s).abs() < 1e-9, "{rate}: step {} ended at {end_s} s", place + 1);
            assert!((duration_s - 0.02 * rate).abs() < 1e-9, "{rate}: {duration_s} s");
        }
        assert!(warnings(&log).is_empty(), "{log:?}");
    }
    let (placed, log) = placed(30, |since_s| since_s + 180_000.0 * since_s);
    assert!(placed.iter().all(|(end_s, _)| (0.0..=0.6 + 1e-9).contains(end_s)), "{placed:?}");
    assert!((placed[9].1 - 3_600.02).abs() < 1e-6, "the analysis finds that this is impossible: {placed:?}");
    let [impossible] = warnings(&log)[..] else { panic!("{log:?}") };
    assert!(
        impossible.starts_with("the program reported a time (time_s) that is 3599.9 s after its line was read"),
        "{impossible}"
    );
}

#[test]
fn more_about_a_step_stays_with_it_when_its_reported_time_turns_out_to_be_wrong() {
    let (mut course, mut log) = (Course::new(1_000.0, WarmUp::Steps(0)), Vec::new());
    let step = |at_s: f64| Found::Step(FoundStep { read_s: Some(1_001.0), ..found_step(1, at_s) });
    let loss = Found::Step(FoundStep { loss: Some(0.5), ..found_step(1, 1_001.0) });
    course.take(&mut vec![step(1_001.0)], 1_001.0, &mut log);
    course.take(&mut vec![loss], 1_001.0, &mut log);
    let late = FoundStep { read_s: Some(1_002.0), ..found_step(2, 9_000.0) };
    course.take(&mut vec![Found::Step(late)], 1_002.0, &mut log);
    let mut losses = log.iter().filter_map(|(_, event)| match event {
        Event::Step { step: 1, loss, .. } => Some(*loss),
        _ => None,
    });
    assert_eq!(losses.next_back(), Some(0.5), "{log:?}");
}

#[test]
fn waits_that_are_longer_than_their_steps_are_left_out_and_said_once() {
    let waits = |log: &[Event]| -> Vec<f64> {
        let wait = |event: &Event| if let Event::Step { load_wait_s, .. } = event { Some(*load_wait_s) } else { None };
        log.iter().filter_map(wait).collect()
    };
    let waited = |step: u64, wait_s| FoundStep { wait_s: Some(wait_s), ..found_step(step, step as f64) };
    // Steps of 1 s by their lines; several lines are read together.
    let by_lines = events(
        WarmUp::Steps(0),
        &[[0.9, 0.5, 2.5, 0.1].into_iter().zip(1..).map(|(wait_s, step)| Found::Step(waited(step, wait_s))).collect()],
    );
    assert_eq!(format!("{:?}", waits(&by_lines)), "[0.9, 0.5, NaN, 0.1]");
    let [warning] = warnings(&by_lines)[..] else { panic!("{by_lines:?}") };
    assert!(
        warning.starts_with("the program reported 2.500 s of waiting for step 3, which took 1.500 s at most"),
        "{warning}"
    );
    // The duration arrives in a line of its own.
    let timed = FoundStep { duration_s: Some(0.01), ..found_step(1, 1.0) };
    let apart = events(WarmUp::Steps(0), &[vec![Found::Step(waited(1, 0.5))], vec![Found::Step(timed)]]);
    assert_eq!(format!("{:?}", waits(&apart)), "[0.5, NaN]");
    assert_eq!(warnings(&apart).len(), 1, "{apart:?}");
}

#[path = "course_more_tests.rs"]
mod more;

#[path = "course_phases_tests.rs"]
mod phases;

#[path = "course_epochs_tests.rs"]
mod epochs;

#[path = "course_evaluated_tests.rs"]
mod evaluated;
