//! What is read of the output of trainings of many kinds, beside what happened in them.
//!
//! The trainings were simulated by `tests/oracles/outputs.py`, with a clock of their own; the bars are drawn by tqdm. Of each, the archive has what
//! it printed and when, its steps, and the losses of its evaluations.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use multicard::plan::WarmUp;
use multicard::plan::command::ReadingsSpec;
use multicard::program::readings::{Place, Readings, Stream};
use multicard::protocol::Event;
use serde::Deserialize;
use tempfile::TempDir;

/// How often a runner asks for readings.
const POLL_S: f64 = 0.1;
/// The most that a duration may differ from the true one: this share, or the time of a pipe.
const MOST_APART: f64 = 0.06;
const PIPE_S: f64 = 0.002;

/// A simulated training.
#[derive(Deserialize)]
struct Training {
    name: String,
    /// When it was started, and when it ended.
    started_s: f64,
    ended_s: f64,
    /// When it printed which text to `out` or `err`.
    chunks: Vec<(f64, String, String)>,
    /// Its steps: number, epoch, end, duration, the loss that was printed of it, and whether nothing else happened before it that the output
    /// does not show.
    steps: Vec<(u64, u32, f64, f64, Option<f64>, bool)>,
    /// The epoch and the loss of each evaluation whose loss was printed; `None` if it cannot be known which of them are read.
    evaluations: Option<Vec<(u32, f64)>>,
}

/// What was read of a training.
struct Reading {
    /// Of each step, its duration, its loss, and whether it counts in statistics.
    steps: BTreeMap<u64, (f64, f64, bool)>,
    /// The losses of evaluations.
    evaluations: Vec<f64>,
}

fn trainings() -> Vec<Training> {
    let mut archive = zip::ZipArchive::new(File::open("tests/golden/outputs.zip").unwrap()).unwrap();
    let mut text = String::new();
    archive.by_name("outputs.jsonl").unwrap().read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Reads the output as a runner does.
fn read(training: &Training) -> Reading {
    let folder = TempDir::new().unwrap();
    let place = Place {
        run_folder: folder.path().to_owned(),
        working_folder: folder.path().to_owned(),
        started_s: training.started_s,
    };
    let mut readings = Readings::new(&ReadingsSpec::default(), &[], &place, WarmUp::Steps(0));
    let (mut events, mut polled_s) = (Vec::new(), training.started_s);
    for (at_s, stream, text) in &training.chunks {
        while polled_s + POLL_S < *at_s {
            polled_s += POLL_S;
            readings.poll(polled_s, &mut events);
        }
        let stream = if stream == "out" { Stream::Output } else { Stream::Error };
        readings.output(stream, text.as_bytes(), *at_s);
    }
    readings.finish(training.ended_s, &mut events);
    let mut read = Reading { steps: BTreeMap::new(), evaluations: Vec::new() };
    for (_, event) in events {
        match event {
            Event::Step { step, duration_s, loss, warm_up, .. } => {
                read.steps.insert(step, (duration_s, loss, !warm_up));
            }
            Event::StepsWithdrawn => read.steps.clear(),
            Event::Reading { key, value, .. } if ["val_loss", "test_loss", "eval_loss"].contains(&key.as_str()) => {
                read.evaluations.push(value);
            }
            _ => {}
        }
    }
    read
}

/// What is wrong in what was read of a training.
fn faults(training: &Training, read: &Reading) -> Vec<String> {
    let mut faults = Vec::new();
    let truth: BTreeMap<u64, _> = training.steps.iter().map(|step| (step.0, step)).collect();
    let mut before = 0;
    for (number, (duration_s, loss, counts)) in &read.steps {
        let Some((.., true_loss, _)) = truth.get(number) else {
            faults.push(format!("there is no step {number}"));
            continue;
        };
        // A loss that was not read is no number.
        if true_loss.is_some_and(|true_loss| loss.is_nan() || (loss - true_loss).abs() > 0.006 * true_loss.max(1.0)) {
            faults.push(format!("step {number} has the loss {loss}, not {true_loss:?}"));
        }
        let since: Vec<_> = truth.range(before + 1..=*number).map(|(_, step)| step).collect();
        let mean_s = since.iter().map(|step| step.3).sum::<f64>() / since.len() as f64;
        let is_apart = |true_s: f64| (duration_s - true_s).abs() > (MOST_APART * true_s).max(PIPE_S);
        // A program may print the duration of the one step, or the mean of those since the step before.
        let is_wrong = is_apart(mean_s) && since.last().is_none_or(|last| is_apart(last.3));
        if *counts && since.iter().all(|step| step.5) && is_wrong {
            faults.push(format!("step {number} has {duration_s} s, not {mean_s} s"));
        }
        before = *number;
    }
    if let Some(evaluations) = &training.evaluations {
        let is_of = |read: f64, loss: f64| (read - loss).abs() < 0.006 * loss.max(1.0);
        let missing = evaluations.iter().find(|(_, loss)| !read.evaluations.iter().any(|read| is_of(*read, *loss)));
        faults.extend(
            missing.map(|(epoch, loss)| format!("the loss {loss} of the evaluation in epoch {epoch} is missing")),
        );
        let other = read.evaluations.iter().find(|read| !evaluations.iter().any(|(_, loss)| is_of(**read, *loss)));
        faults.extend(other.map(|loss| format!("no evaluation had the loss {loss}")));
    }
    faults
}

#[test]
fn steps_durations_and_losses_of_trainings_of_many_kinds_are_those_that_happened() {
    let trainings = trainings();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for training in &trainings {
        let (kind, _) = training.name.split_once('-').unwrap();
        let read = read(training);
        *kinds.entry(kind).or_default() += read.steps.values().filter(|(.., counts)| *counts).count();
        wrong.extend(faults(training, &read).first().map(|fault| format!("{}: {fault}", training.name)));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), trainings.len(), wrong.join("\n"));
    // None of the kinds is right only because nothing was read of it.
    assert!(kinds.len() > 15 && kinds.values().all(|steps| *steps > 30), "{kinds:?}");
}
