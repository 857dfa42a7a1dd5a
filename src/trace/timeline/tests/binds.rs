//! What binds a run: launches, copies, collectives, the loader, a delayed rank, computing.

use super::*;

#[test]
fn parts_over_repeats_have_the_median_of_the_runs_and_their_interval() {
    let run = |load: i64| made(&[&[("load", load), ("forward", 1_000 - load)]], 20, &[0]);
    let runs = [run(600), run(800), run(700)];
    let data = |splits: &[&Split]| over_repeats(splits).into_iter().find(|part| part.part == Part::Data).unwrap();
    let data_part = data(&[&runs[0], &runs[1], &runs[2]]);
    let rounded =
        [data_part.share, data_part.interval.0, data_part.interval.1].map(|share| (share * 1e6).round() / 1e6);
    assert_eq!((rounded, data_part.median_s), ([0.7, 0.6, 0.8], 7e-7));
}

#[test]
fn tiny_kernels_with_gaps_between_them_bind_a_run_by_launches() {
    let split = made_on_gpu(|fixture, start| {
        (0..20).fold(fixture, |fixture, kernel| {
            let at = start + kernel * 50_000;
            fixture.call(at, at + 5_000, 1).kernel(at + 6_000, at + 20_000, 3)
        })
    });
    assert_eq!(split.binding.part, Some(Part::Launch), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("72 %"), "{}", split.binding.sentence);
}

#[test]
fn copies_that_nothing_hides_bind_a_run_by_data_movement_and_a_long_idle_time_is_not_explained() {
    let copies = made_on_gpu(|fixture, start| {
        fixture.call(start, start + 600_000, 1).upload(start, start + 600_000).kernel(
            start + 600_000,
            start + 950_000,
            3,
        )
    });
    assert_eq!(copies.binding.part, Some(Part::Copy), "{}", copies.binding.sentence);
    let idle = made_on_gpu(|fixture, start| fixture.kernel(start, start + 300_000, 3));
    assert_eq!(idle.binding.part, None, "{}", idle.binding.sentence);
    assert!(idle.binding.sentence.starts_with("Nothing in the recording explains 70 %"), "{}", idle.binding.sentence);
    let busy = made_on_gpu(|fixture, start| fixture.kernel(start, start + 990_000, 3));
    assert_eq!(busy.binding.part, Some(Part::Matrix), "{}", busy.binding.sentence);
}

#[test]
fn exposed_collectives_and_waits_of_the_host_bind_a_run() {
    let collectives = made_on_gpu(|fixture, start| {
        fixture.kernel(start, start + 300_000, 3).kernel(start + 300_000, start + 950_000, 4)
    });
    assert_eq!(collectives.binding.part, Some(Part::Communication), "{}", collectives.binding.sentence);
    assert!(collectives.binding.sentence.contains("65 % [65 %, 65 %]"), "{}", collectives.binding.sentence);
    let hidden = made_on_gpu(|fixture, start| {
        fixture.kernel(start, start + 900_000, 3).kernel(start + 100_000, start + 950_000, 4)
    });
    assert_eq!(hidden.binding.part, Some(Part::Matrix), "{}", hidden.binding.sentence);
    let waits = made_on_gpu(|fixture, start| {
        fixture.kernel(start, start + 300_000, 3).call(start + 310_000, start + 950_000, 2)
    });
    assert_eq!(waits.binding.part, Some(Part::Synchronisation), "{}", waits.binding.sentence);
    assert!(waits.binding.sentence.contains("64 %"), "{}", waits.binding.sentence);
}

#[test]
fn a_slow_loader_binds_a_run() {
    let split = made(&[&[("load", 700), ("forward", 100), ("backward", 150), ("optimizer", 50)]], 40, &[0]);
    assert_eq!(split.binding.part, Some(Part::Data), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("70 % [70 %, 70 %]"), "{}", split.binding.sentence);
    let forward = split.part(Part::Forward).unwrap();
    assert!((forward.share - 0.1).abs() < 1e-9);
}

#[test]
fn warm_up_is_no_result_and_few_steps_are_not_judged() {
    let load: (&str, i64) = ("load", 700);
    let few = made(&[&[load, ("forward", 300)]], 5, &[0]);
    assert_eq!(few.binding.part, None, "{}", few.binding.sentence);
    assert!(
        few.binding.sentence.contains("there are 4 after the warm-up, and 6 are needed"),
        "{}",
        few.binding.sentence
    );
    let warm_up = made(&[&[load, ("phase: warm-up", 300)]], 40, &[0]);
    assert_eq!((warm_up.binding.part, warm_up.parts.len()), (None, 0), "{}", warm_up.binding.sentence);
    assert!(warm_up.binding.sentence.contains("there are 0 after the warm-up"), "{}", warm_up.binding.sentence);
}

#[test]
fn a_delayed_rank_binds_a_run_and_is_named() {
    let quick: &[(&str, i64)] =
        &[("load", 10), ("forward", 100), ("backward", 100), ("all_reduce", 460), ("optimizer", 30)];
    let slow: &[(&str, i64)] =
        &[("load", 10), ("forward", 350), ("backward", 250), ("all_reduce", 60), ("optimizer", 30)];
    let split = made(&[quick, quick, slow], 40, &[0]);
    assert_eq!(split.binding.part, Some(Part::Straggler), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("rank 2 is last in 40 of 40"), "{}", split.binding.sentence);
}

#[test]
fn computing_binds_a_run_that_waits_for_nothing_and_what_is_even_is_left_undecided() {
    let split = made(&[&[("load", 20), ("forward", 300), ("backward", 600), ("optimizer", 80)]], 30, &[0]);
    assert_eq!(split.binding.part, Some(Part::Backward), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("memory or arithmetic"), "{}", split.binding.sentence);
    let rank: &[(&str, i64)] = &[("load", 20), ("forward", 300), ("backward", 600), ("optimizer", 80)];
    let ranks = made(&[rank, rank], 30, &[0]);
    assert!(ranks.binding.sentence.contains("includes their communication"), "{}", ranks.binding.sentence);
    let even: &[(&str, i64)] = &[("load", 240), ("forward", 100), ("backward", 150), ("all_reduce", 240)];
    let split = made(&[even], 30, &[270]);
    assert_eq!(split.binding.part, None, "{}", split.binding.sentence);
}
