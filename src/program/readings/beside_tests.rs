//! Trainings of Hugging Face's Trainer, as tqdm and the Trainer print them.

use std::collections::BTreeMap;

use super::super::{Place, Readings, Stream};
use super::*;
use crate::plan::WarmUp;
use crate::plan::command::ReadingsSpec;
use crate::protocol::Event;

/// When the trainings begin.
const BEGIN_S: f64 = 100.0;

/// A training that prints a dictionary after every `logged` steps; the loss in it is the number of its step.
#[derive(Clone, Copy)]
struct Training {
    steps: u64,
    epochs: u64,
    step_s: f64,
    logged: u64,
    /// Whether the bar is drawn again behind each dictionary, as after `tqdm.write`.
    draws_again: bool,
}

/// A step of the run: epoch, loss, and duration if that is known.
type Step = (u32, f64, Option<f64>);

/// The steps of a run, by their numbers, given what its program prints: when, to which stream, and the text.
fn steps_of(pieces: &[(f64, Stream, String)]) -> BTreeMap<u64, Step> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let place = Place { run_folder: path.clone(), working_folder: path, started_s: BEGIN_S };
    let mut readings = Readings::new(&ReadingsSpec::default(), &[], &place, WarmUp::Steps(0));
    let (mut events, mut polled_s) = (Vec::new(), BEGIN_S);
    for (at_s, stream, text) in pieces {
        while polled_s + 0.1 < *at_s {
            polled_s += 0.1;
            readings.poll(polled_s, &mut events);
        }
        readings.output(*stream, text.as_bytes(), *at_s);
    }
    readings.finish(polled_s + 1.0, &mut events);
    let mut steps = BTreeMap::new();
    for (_, event) in events {
        match event {
            Event::Step { step, epoch, loss, duration_s, warm_up, .. } => {
                steps.insert(step, (epoch, loss, (!warm_up).then_some(duration_s)));
            }
            Event::Warning { message } => assert!(message.starts_with("steps were guessed from"), "{message}"),
            _ => {}
        }
    }
    steps
}

impl Training {
    /// What it prints: when, to which stream, and the text.
    fn prints(self) -> Vec<(f64, Stream, String)> {
        let Self { steps, .. } = self;
        let bar = |step: u64| format!("\r {:3}%|###   | {step}/{steps} [00:01<00:01, 20.00it/s]", 100 * step / steps);
        let (mut printed, mut drawn_s) = (vec![(BEGIN_S, Stream::Error, bar(0))], BEGIN_S);
        for step in 1..=steps {
            let at_s = BEGIN_S + step as f64 * self.step_s;
            if at_s - drawn_s >= 0.1 - 1e-9 {
                printed.push((at_s, Stream::Error, bar(step)));
                drawn_s = at_s;
            }
            if step % self.logged == 0 {
                let epoch = step as f64 * self.epochs as f64 / steps as f64;
                let entries = format!("{{'loss': {step}.0, 'grad_norm': 1.25, 'epoch': {epoch:.2}}}\n");
                let draws = [(1e-4, "\r         \r".to_owned()), (3e-4, bar(step))];
                let [clears, again] = draws.map(|(later_s, text)| (at_s + later_s, Stream::Error, text));
                printed.extend(Some(clears).filter(|_| self.draws_again));
                printed.push((at_s + 2e-4, Stream::Output, entries));
                printed.extend(Some(again).filter(|_| self.draws_again));
            }
        }
        printed
    }

    /// The steps of its run, by their numbers, if its standard output and its standard error are read so much later than they are written.
    fn steps_read_late(self, [output_s, errors_s]: [f64; 2]) -> BTreeMap<u64, Step> {
        let late_s = |stream: Stream| if stream == Stream::Output { output_s } else { errors_s };
        let mut pieces = self.prints();
        pieces.iter_mut().for_each(|(at_s, stream, _)| *at_s += late_s(*stream));
        pieces.sort_by(|(one_s, ..), (other_s, ..)| one_s.total_cmp(other_s));
        steps_of(&pieces)
    }

    /// Checks that all losses are kept at their steps, in their epochs, and that all steps but the first have their duration.
    fn check(self, late_s: [f64; 2]) {
        let steps = self.steps_read_late(late_s);
        let of_loss = |(number, (epoch, loss, _)): (&u64, &Step)| (!loss.is_nan()).then_some((*number, *epoch, *loss));
        let losses: Vec<(u64, u32, f64)> = steps.iter().filter_map(of_loss).collect();
        let logged = (1..=self.steps).filter(|step| step % self.logged == 0);
        let epoch = |step: u64| (step * self.epochs).div_ceil(self.steps) as u32;
        let expected: Vec<(u64, u32, f64)> = logged.map(|step| (step, epoch(step), step as f64)).collect();
        assert_eq!(losses, expected, "late by {late_s:?}");
        assert_eq!(steps.keys().last(), Some(&self.steps));
        for (number, (.., duration_s)) in steps.iter().skip(1) {
            let is_right = duration_s.is_some_and(|duration_s| (duration_s - self.step_s).abs() < 1e-3);
            assert!(is_right, "step {number}: {duration_s:?}, late by {late_s:?}");
        }
    }
}

#[test]
fn a_loss_belongs_to_the_step_that_the_bar_shows_behind_its_dictionary_whichever_stream_is_read_late() {
    let training = Training { steps: 120, epochs: 3, step_s: 0.03, logged: 10, draws_again: true };
    for late_s in [[0.0, 0.0], [0.01, 0.0], [0.0, 0.01]] {
        training.check(late_s);
        Training { steps: 60, step_s: 0.2, ..training }.check(late_s);
    }
}

#[test]
fn a_training_that_logs_each_step_keeps_all_losses_and_makes_no_steps_beyond_the_bar() {
    let training = Training { steps: 40, epochs: 2, step_s: 0.05, logged: 1, draws_again: true };
    for late_s in [[0.0, 0.0], [0.02, 0.0], [0.0, 0.02]] {
        training.check(late_s);
    }
}

#[test]
fn losses_of_steps_that_the_bar_does_not_show_are_kept_and_share_the_time_of_the_step_that_it_shows_next() {
    let training = Training { steps: 40, epochs: 2, step_s: 0.05, logged: 1, draws_again: false };
    let steps = training.steps_read_late([0.0, 0.0]);
    let losses: Vec<(u64, f64)> = steps.iter().map(|(number, (_, loss, _))| (*number, *loss)).collect();
    assert_eq!(losses, (1..=40_u64).map(|step| (step, step as f64)).collect::<Vec<_>>());
    let durations_s = steps.values().filter_map(|(.., duration_s)| *duration_s);
    assert!(durations_s.clone().all(|duration_s| (duration_s - 0.05).abs() < 1e-3) && durations_s.count() >= 38);
}

#[test]
fn the_number_of_epochs_is_certain_if_only_one_fits_and_never_if_none_does() {
    let mut whole = NumberOfEpochs::default();
    let step = |epochs: &NumberOfEpochs, epoch: f64| epochs.step(40, (epoch, 0.005));
    whole.narrow(40, (0.05, 0.005), &Around::at(1));
    assert_eq!(step(&whole, 0.05), None);
    whole.narrow(40, (0.5, 0.005), &Around::at(10));
    assert_eq!((step(&whole, 0.5), step(&whole, 1.05), step(&whole, 2.0)), (Some(10), Some(21), Some(40)));
    assert_eq!(step(&whole, 1.07), None, "no step ends there");
    assert_eq!(step(&whole, 2.05), None, "beyond the last step");
    // A training that ends within an epoch.
    let mut part = NumberOfEpochs::default();
    [(5, 0.32), (30, 1.92)].iter().for_each(|(step, epoch)| part.narrow(40, (*epoch, 0.005), &Around::at(*step)));
    assert_eq!((step(&part, 1.92), part.may_be_known()), (None, false));
}

/// What two epochs of 20 steps print, each with a bar of its own, which is full before the next one begins: `print({'loss': …})` after every
/// `logged` steps in `for batch in tqdm(loader)`, where the loss is the number of the step over both epochs.
fn two_bars(step_s: f64, logged: u32) -> Vec<(f64, Stream, String)> {
    let mut printed = Vec::new();
    for epoch in 0..2_u32 {
        let begin_s = BEGIN_S + 20.0 * step_s * f64::from(epoch) + 2e-4;
        printed.push((begin_s, Stream::Error, "\r  0%|   | 0/20 [00:00<?, ?it/s]".to_owned()));
        let mut drawn_s = begin_s;
        for step in 1..=20 {
            let at_s = begin_s + f64::from(step) * step_s - 1e-4;
            if step % logged == 0 {
                printed.push((at_s - 5e-5, Stream::Output, format!("{{'loss': {}.0}}\n", 20 * epoch + step)));
            }
            if at_s - drawn_s >= 0.099 || step == 20 {
                let end = if step == 20 { "\n" } else { "" };
                let text = format!("\r {:3}%|###   | {step}/20 [00:01<00:01, 20.00it/s]{end}", 5 * step);
                printed.push((at_s, Stream::Error, text));
                drawn_s = at_s;
            }
        }
    }
    printed
}

#[test]
fn the_last_steps_of_an_epoch_are_none_of_the_next_one_whose_bar_begins_at_once() {
    // With such short steps, the bar shows none of them but the last one.
    for (step_s, logged, shown) in [(0.05, 2, 2), (0.005, 1, 20)] {
        let steps = steps_of(&two_bars(step_s, logged));
        let seen: Vec<(u64, u32, f64)> = steps.iter().map(|(step, (epoch, loss, _))| (*step, *epoch, *loss)).collect();
        let numbers = (1..=40_u64).filter(|step| step % shown == 0);
        let expected: Vec<_> = numbers.map(|step| (step, if step > 20 { 2 } else { 1 }, step as f64)).collect();
        assert_eq!(seen, expected, "steps of {step_s} s");
        for (step, (.., duration_s)) in steps.iter().skip(1) {
            let is_right = duration_s.is_some_and(|duration_s| (duration_s - step_s).abs() < 1e-3);
            assert!(is_right, "step {step} of {step_s} s: {duration_s:?}");
        }
    }
}

/// A dictionary with this epoch.
fn of_epoch(epoch: f64, at_s: f64) -> Dictionary {
    Dictionary::of(&format!("{{'loss': 1.0, 'epoch': {epoch}}}"), at_s).unwrap()
}

#[test]
fn a_step_that_the_number_of_epochs_makes_certain_counts_only_near_its_dictionary() {
    let epochs = NumberOfEpochs { least: 3.5, most: 4.5 };
    let beside = Beside { steps: Some(40), epochs, ..Beside::default() };
    let certain = [4, 5, 6, 8].map(|near| beside.certain(&of_epoch(0.5, 0.0), &Around::at(near)));
    assert_eq!(certain, [Some(5), Some(5), Some(5), None]);
}

#[test]
fn each_dictionary_tells_of_the_number_of_epochs_once() {
    let mut beside = Beside::default();
    beside.show((10, Some(40)), false, 1.0);
    beside.add(of_epoch(0.5, 1.5), false);
    assert_eq!(beside.noted, 0, "the bar has not shown a step behind it");
    beside.show((20, Some(40)), false, 2.0);
    assert_eq!((beside.noted, beside.waiting.len()), (1, 1));
    let range = |beside: &Beside| (beside.epochs.least, beside.epochs.most);
    let before = range(&beside);
    beside.index_of(15);
    beside.narrow();
    assert_eq!(range(&beside), before, "a step that was added behind it says nothing new");
}

#[test]
fn of_endless_dictionaries_beside_a_bar_that_stands_still_a_limited_number_waits() {
    for (mut beside, at_s) in [(Beside::default(), 2.0), (Beside::of_log(), 1.0)] {
        beside.show((3, Some(5)), false, 1.0);
        let reports: usize = (0..3 * MOST_WAITING).map(|_| beside.add(of_epoch(0.5, at_s), false).len()).sum();
        assert_eq!((reports, beside.waiting.len()), (2 * MOST_WAITING, MOST_WAITING));
        assert!(beside.shown[0].beside.is_empty() && beside.noted == 0, "none of them is looked at again");
    }
}

#[test]
fn steps_that_were_not_reported_are_kept_however_many_they_are() {
    let mut beside = Beside { counted: [Some(1000)].into(), ..Beside::default() };
    let known: usize = (1..=300).map(|step| beside.show((step, Some(1000)), false, 1.0).len()).sum();
    assert_eq!((known, beside.settle(f64::INFINITY).len()), (0, 300));
}

#[test]
fn the_rounding_of_an_epoch_is_that_of_its_digits() {
    for (text, expected) in [("0.25", 0.005), ("1.0", 0.005), ("2", 0.005), ("0.0016", 0.00005), ("123.5", 0.05)] {
        let found = rounding(text, text.parse().unwrap());
        assert!((found - expected).abs() < 1e-9, "{text}: {found}");
    }
}
