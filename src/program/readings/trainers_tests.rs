//! Lines that usual trainers print, and what is read of them.

use std::collections::BTreeMap;

use super::super::shapes::{Shapes, pattern_of_guess};
use super::super::{Course, FoundStep, Untaken};
use super::*;
use crate::plan::WarmUp;
use crate::protocol::Event;

/// What a line comes to behind the lines before it, without what was not taken.
fn read(before: &[&str], line: &str) -> (Option<FoundStep>, Vec<(String, f64)>, Vec<Untaken>) {
    let (mut shapes, mut found) = (Shapes::of_log(), Vec::new());
    before.iter().for_each(|line| shapes.line(Stream::Output, line, 7.0, &mut found));
    found.clear();
    shapes.line(Stream::Output, line, 7.0, &mut found);
    let (mut step, mut readings, mut untaken) = (None, Vec::new(), Vec::new());
    for found in found {
        match found {
            Found::Step(found_step) => step = Some(found_step),
            Found::Reading { key, value, .. } => readings.push((key.to_string(), value)),
            Found::Untaken(part) => untaken.push(part),
            other => panic!("{line}: {other:?}"),
        }
    }
    (step, readings, untaken)
}

/// Checks a line of a step: its number and where the count ends, its epoch, loss, duration, and readings.
fn check(
    (before, line): (&[&str], &str),
    (step, steps, epoch): (u64, Option<u64>, Option<f64>),
    (loss, duration_s): (f64, Option<f64>),
    readings: &[(&str, f64)],
) {
    let (found, taken, _) = read(before, line);
    let found = found.unwrap_or_else(|| panic!("no step: {line}"));
    assert_eq!((found.step, found.steps, found.epoch), (Some(step), steps, epoch), "{line}");
    assert!((found.loss.unwrap() - loss).abs() < 1e-9, "{line}: {:?}", found.loss);
    let is_same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1e-9);
    match (found.duration_s, duration_s) {
        (Some(found), Some(expected)) => assert!(is_same(found, expected), "{line}: {found} s"),
        (found, expected) => assert_eq!(found, expected, "{line}"),
    }
    for (key, value) in readings {
        let found = taken.iter().find(|(taken, _)| taken == key);
        let (_, found) = found.unwrap_or_else(|| panic!("{line}: no {key} among {taken:?}"));
        assert!(is_same(*found, *value), "{line}: {key} = {found}");
    }
}

#[test]
fn step_times_and_shares_of_loops_of_ones_own_are_taken_with_their_units() {
    check(
        (&[], "iter 10: loss 3.2400, time 17.79ms, mfu 20.94%"),
        (10, None, None),
        (3.24, Some(0.01779)),
        &[("mfu_percent", 20.94)],
    );
    check((&[], "step 1 loss 2.27 time 1.39ms"), (1, None, None), (2.27, Some(0.00139)), &[]);
    check((&[], "step 3 | loss: 0.5 | 12 ms"), (3, None, None), (0.5, Some(0.012)), &[]);
    check(
        (&[], "step 3 | loss: 9.5 | lr 6.0e-04 | norm: 1.25 | dt: 331.45ms | tok/sec: 1581789.1"),
        (3, None, None),
        (9.5, Some(0.33145)),
        &[("lr", 6e-4), ("norm", 1.25), ("tok_per_s", 1_581_789.1)],
    );
    check(
        (
            &[],
            "step   12/18865 | loss 9.631250 (+nanz)| norm 7.2318 (+nanz)| lr 1.03e-05 | 1143.27 ms | 46.1% bf16 MFU | 458580 tok/s",
        ),
        (12, Some(18_865), None),
        (9.63125, Some(1.14327)),
        &[("norm", 7.2318), ("lr", 1.03e-5), ("tokens_per_s", 458_580.0)],
    );
}

#[test]
fn megatron_deepspeed_and_torchtitan_are_read() {
    check(
        (
            &[],
            " [2024-03-01 10:11:12] iteration       10/     100 | consumed samples:         5120 | elapsed time per iteration (ms): \
             1234.5 | throughput per GPU (TFLOP/s/GPU): 150.2 | learning rate: 1.500000E-05 | global batch size:   512 | lm loss: \
             9.123456E+00 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        ),
        (10, Some(100), None),
        (9.123456, Some(1.2345)),
        &[("throughput_per_gpu_tflop_per_s", 150.2), ("learning_rate", 1.5e-5), ("grad_norm", 1.234)],
    );
    check(
        (&[], "steps: 10 loss: 9.0112 iter time (s): 0.541 samples/sec: 473.345"),
        (10, None, None),
        (9.0112, Some(0.541)),
        &[("samples_per_s", 473.345)],
    );
    check(
        (
            &[],
            "[titan] 2025-02-03 04:05:06,789 - root - INFO - step: 10  loss:  7.8312  grad_norm:  1.2345  memory: 22.26GiB(28.11%)  tps: \
             12,345  tflops: 123.45  mfu: 12.48%",
        ),
        (10, None, None),
        (7.8312, None),
        &[("tps", 12_345.0), ("tflops", 123.45), ("mfu_percent", 12.48), ("memory_bytes", 22.26 * 1_073_741_824.0)],
    );
    let timer = "[2023-06-01 12:00:00,123] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, \
                 RunningAvgSamplesPerSec=123.45, CurrSamplesPerSec=120.1, MemAllocated=1.2GB, MaxMemAllocated=5.3GB";
    assert_eq!(read(&[], timer).1, [("samples_per_s".to_owned(), 120.1)]);
}

#[test]
fn timm_and_pytorchs_examples_are_read_with_their_waiting() {
    let line = "Train: 0 [  50/1251 (  4%)]  Loss: 6.93 (6.95)  Time: 0.312s,  820.51/s  (0.343s,  746.36/s)  LR: 1.000e-06  Data: \
                0.012 (0.030)";
    check((&[], line), (50, Some(1251), Some(0.0)), (6.93, Some(0.312)), &[("samples_per_s", 820.51), ("lr", 1e-6)]);
    assert_eq!(read(&[], line).0.unwrap().wait_s, Some(0.012));
    let line = "Epoch: [2][  10/5005]\tTime  0.312 ( 0.512)\tData  0.010 ( 0.120)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.78 (  0.10)";
    check((&[], line), (10, Some(5005), Some(2.0)), (6.9, Some(0.312)), &[]);
    assert_eq!(read(&[], line).0.unwrap().wait_s, Some(0.01));
}

#[test]
fn torchvision_and_mmengine_are_read() {
    check(
        (
            &[],
            "Epoch: [0]  [ 10/100]  eta: 0:00:12  lr: 0.1000  img/s: 512.3  loss: 2.3452 (2.4012)  acc1: 10.1 (9.9)  time: 0.1234  data: \
             0.0012  max mem: 500",
        ),
        (10, Some(100), Some(0.0)),
        (2.3452, None),
        &[("lr", 0.1)],
    );
    let log = "12/01 10:00:00 - mmengine - INFO -";
    let rest = "lr: 1.0000e-03  eta: 0:05:00  time: 0.0523  data_time: 0.0012  memory: 500  loss: 2.3000";
    let (lr, memory) = (("lr", 1e-3), ("memory", 500.0));
    let of_epoch = format!("{log} Epoch(train)  [1][ 50/391]  {rest}");
    check((&[], &of_epoch), (50, Some(391), Some(1.0)), (2.3, None), &[lr, memory]);
    let of_run = format!("{log} Iter(train) [    50/160000]  {rest}");
    check((&[], &of_run), (50, Some(160_000), None), (2.3, None), &[lr, memory]);
}

#[test]
fn keras_is_read_with_the_epoch_of_the_line_before() {
    check(
        (&["Epoch 2/5"], "1875/1875 ━━━━━━━━━━━━━━━━━━━━ 5s 2ms/step - accuracy: 0.9123 - loss: 0.3012"),
        (1875, Some(1875), Some(2.0)),
        (0.3012, None),
        &[("accuracy", 0.9123), ("mean_step_s", 0.002)],
    );
    check(
        (&[], " 123/1875 [=>............................] - ETA: 3s - loss: 1.25 - accuracy: 0.5"),
        (123, Some(1875), None),
        (1.25, None),
        &[("accuracy", 0.5)],
    );
    check(
        (
            &["Epoch 1/5"],
            "1875/1875 - 5s - 3ms/step - accuracy: 0.91 - loss: 0.30 - val_accuracy: 0.95 - val_loss: 0.15",
        ),
        (1875, Some(1875), Some(1.0)),
        (0.3, None),
        &[("val_loss", 0.15), ("val_accuracy", 0.95), ("accuracy", 0.95), ("train_accuracy", 0.91)],
    );
    // The losses of several outputs are none of a validation.
    check(
        (&["Epoch 1/5"], "1875/1875 - 5s - 3ms/step - a_loss: 0.10 - b_loss: 0.20 - loss: 0.30"),
        (1875, Some(1875), Some(1.0)),
        (0.3, Some(0.003)),
        &[("a_loss", 0.1), ("b_loss", 0.2)],
    );
}

#[test]
fn a_line_of_keras_without_a_bar_that_is_printed_after_a_validation_gives_steps_without_durations() {
    let epoch = |epoch: u64, validation: &str| {
        let line = format!("25/25 - 0s - 20ms/step - accuracy: 0.5000 - loss: 0.{epoch}000{validation}");
        [(epoch as f64 - 0.5, format!("Epoch {epoch}/4")), (epoch as f64, line)]
    };
    for (validations, durations_s, is_told) in [
        (["", "", "", ""], [Some(0.02); 4], false),
        (["", " - val_loss: 1.0", "", " - val_loss: 1.0"], [Some(0.02), None, Some(0.02), None], false),
        ([" - val_accuracy: 0.5 - val_loss: 1.0"; 4], [None; 4], true),
    ] {
        let lines = (1..).zip(validations).flat_map(|(number, validation)| epoch(number, validation));
        let (mut shapes, mut found, mut events) = (Shapes::default(), Vec::new(), Vec::new());
        let mut course = Course::new(0.0, WarmUp::Steps(0));
        for (at_s, line) in lines {
            shapes.line(Stream::Output, &line, at_s, &mut found);
            course.take(&mut found, at_s, &mut events);
        }
        course.finish(5.0, &mut events);
        let (mut steps, mut messages) = (Vec::new(), Vec::new());
        for (_, event) in events {
            match event {
                Event::Step { step, duration_s, warm_up, .. } => steps.push((step, (!warm_up).then_some(duration_s))),
                Event::Warning { message } => messages.push(message),
                _ => {}
            }
        }
        let expected: Vec<(u64, Option<f64>)> = (1..).map(|epoch| 25 * epoch).zip(durations_s).collect();
        assert_eq!(steps, expected, "{validations:?}");
        assert_eq!(messages.len(), usize::from(is_told), "{messages:?}");
        assert!(messages.iter().all(|message| message.starts_with("no step has a duration: ")), "{messages:?}");
    }
}

#[test]
fn the_accuracy_of_keras_is_that_of_the_validation_once_there_is_one() {
    let bar = "30/30 ━━━━━━━━━━━━━━━━━━━━ 1s 10ms/step - accuracy: 0.50 - loss: 0.50";
    let validated = format!("{bar} - val_accuracy: 0.25 - val_loss: 0.75");
    let accuracies = |before: &[&str]| {
        let mut readings = read(before, bar).1;
        readings.retain(|(key, _)| key.ends_with("accuracy"));
        readings
    };
    assert_eq!(accuracies(&["Epoch 1/2"]), [("accuracy".to_owned(), 0.5)]);
    assert_eq!(accuracies(&["Epoch 1/2", &validated, "Epoch 2/2"]), [("train_accuracy".to_owned(), 0.5)]);
}

#[test]
fn the_training_loss_of_programs_that_print_means_over_the_epoch_is_the_last_one_of_the_epoch() {
    let keras = |step: u64, loss: f64| format!("{step}/30 ━━━━━━━━━━━━━━━━━━━━ 1s 10ms/step - loss: {loss:.4}");
    let yolo = |step: u64, loss: f64| {
        format!(
            "      1/1      2.17G      {loss:.4}      0.0      7       640: 50%|█ | {step}/30 [00:01<00:01, 6.45it/s]"
        )
    };
    let header = "      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size".to_owned();
    let of_keras = vec!["Epoch 1/1".to_owned(), keras(10, 2.0), keras(20, 1.5), keras(30, 1.0), keras(30, 0.75)];
    let of_yolo = vec![header, yolo(10, 2.0), yolo(20, 1.5), yolo(30, 0.75)];
    for lines in [of_keras, of_yolo] {
        let (mut shapes, mut found, mut events) = (Shapes::default(), Vec::new(), Vec::new());
        for (at_s, line) in (1..).zip(&lines) {
            shapes.line(Stream::Output, line, f64::from(at_s), &mut found);
        }
        let mut course = Course::new(0.0, WarmUp::Steps(0));
        course.take(&mut found, 9.0, &mut events);
        course.finish(10.0, &mut events);
        let losses = events.into_iter().filter_map(|(_, event)| match event {
            Event::Reading { key, value, .. } if key == "train_loss" => Some(value),
            _ => None,
        });
        assert_eq!(losses.collect::<Vec<_>>(), [0.75], "{lines:?}");
    }
}

#[test]
fn an_epoch_that_has_one_line_is_a_step_of_its_own() {
    let keras =
        ["Epoch 1/2", "30/30 - 1s - 10ms/step - loss: 0.5000", "Epoch 2/2", "30/30 - 1s - 10ms/step - loss: 0.2500"];
    let pytorch = [
        "Epoch: [1][ 0/30]\tTime  0.010 ( 0.010)\tLoss 0.5 (0.5)",
        "Epoch: [2][ 0/30]\tTime  0.010 ( 0.010)\tLoss 0.25 (0.5)",
    ];
    for (lines, expected) in [(&keras[..], [(30, 1), (60, 2)]), (&pytorch[..], [(1, 1), (31, 2)])] {
        let (mut shapes, mut found, mut events) = (Shapes::default(), Vec::new(), Vec::new());
        for (at_s, line) in (1..).zip(lines) {
            shapes.line(Stream::Output, line, f64::from(at_s), &mut found);
        }
        Course::new(0.0, WarmUp::Steps(0)).take(&mut found, 9.0, &mut events);
        let of_step = |(_, event)| match event {
            Event::Step { step, epoch, .. } => Some((step, epoch)),
            _ => None,
        };
        assert_eq!(events.into_iter().filter_map(of_step).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_loss_of_an_evaluation_is_no_loss_of_the_step_and_its_time_is_none_of_the_next_step() {
    let log = "[titan] 2025-05-14 10:12:01,123 - root - INFO -";
    for (evaluation, next_s) in [
        ("validate step: 10  loss:  9.1000  memory:  1.07GiB(1.35%)  tps: 194,931", Some(0.1)),
        ("step 10 dev loss 9.2", Some(0.1)),
        ("step 10 | dev_loss=9.2 | loss 9.2", Some(0.1)),
        ("evaluate: step 10 loss 9.2", Some(0.1)),
        ("Evaluating step 10 loss 9.2", Some(0.1)),
        ("step 10 held-out loss 9.2", Some(0.1)),
        ("step 10: val loss 9.2", Some(0.1)),
        ("step 15: val loss 9.2", None),
        ("validation loss: 9.2", None),
        // The best loss so far is none of a step, and says nothing about an evaluation.
        ("step 10 best loss 9.2", Some(0.9)),
    ] {
        let step = |step: u64| format!("{log} step: {step}  loss:  1.5000  tps: 94,931  mfu: 0.64%");
        let lines = [(1.0, step(10)), (9.0, format!("{log} {evaluation}")), (10.0, step(20)), (11.0, step(30))];
        let (mut shapes, mut found, mut events) = (Shapes::default(), Vec::new(), Vec::new());
        for (at_s, line) in &lines {
            shapes.line(Stream::Output, line, *at_s, &mut found);
        }
        Course::new(0.0, WarmUp::Steps(0)).take(&mut found, 12.0, &mut events);
        let of_step = |(_, event)| match event {
            Event::Step { step, loss, duration_s, warm_up, .. } => {
                Some((step, loss, (!warm_up).then(|| (duration_s * 1e6).round() / 1e6)))
            }
            _ => None,
        };
        let expected = [(10, 1.5, None), (20, 1.5, next_s), (30, 1.5, Some(0.1))];
        assert_eq!(events.into_iter().filter_map(of_step).collect::<Vec<_>>(), expected, "{evaluation}");
    }
}

#[test]
fn the_loss_of_an_evaluation_without_a_number_ends_the_evaluation_after_the_newest_step_if_all_steps_are_reported() {
    let lines = [
        (1.0, "Step 1/3 | train loss 1.5"),
        (9.0, "val loss 2.0"),
        (10.0, "Step 2/3 | train loss 1.0"),
        (19.0, "val loss 1.75"),
        (20.5, "Step 3/3 | train loss 0.5"),
    ];
    let (mut shapes, mut found, mut events) = (Shapes::default(), Vec::new(), Vec::new());
    for (at_s, line) in lines {
        shapes.line(Stream::Output, line, at_s, &mut found);
    }
    Course::new(0.0, WarmUp::Steps(0)).take(&mut found, 21.0, &mut events);
    let of_step = |(_, event)| match event {
        Event::Step { duration_s, .. } => Some(duration_s),
        _ => None,
    };
    assert_eq!(events.into_iter().filter_map(of_step).collect::<Vec<_>>()[1..], [1.0, 1.5]);
}

/// The epoch of a step, its duration in milliseconds if it counts, and its loss.
type SeenStep = (u32, Option<u64>, f64);

/// The steps of these lines, and the mean losses of epochs.
fn steps_of(lines: &[(f64, String)]) -> (Vec<SeenStep>, Vec<f64>) {
    let (mut shapes, mut found, mut events) = (Shapes::default(), Vec::new(), Vec::new());
    let mut course = Course::new(0.0, WarmUp::Steps(0));
    for (at_s, line) in lines {
        shapes.line(Stream::Error, line, *at_s, &mut found);
        course.take(&mut found, *at_s, &mut events);
    }
    course.finish(99.0, &mut events);
    let (mut steps, mut losses) = (BTreeMap::new(), Vec::new());
    for (_, event) in events {
        match event {
            Event::Step { step, epoch, duration_s, loss, warm_up, .. } => {
                steps.insert(step, (epoch, (!warm_up).then(|| (duration_s * 1e3).round() as u64), loss));
            }
            Event::Reading { key, value, .. } if key == "train_loss" => losses.push(value),
            Event::Warning { message } => panic!("{message}"),
            _ => {}
        }
    }
    (steps.into_values().collect(), losses)
}

/// A line of tqdm's bar of three steps after so many of them, with this loss if any.
fn bar_of_three(description: &str, step: u64, loss: Option<f64>) -> String {
    let more = loss.map_or_else(String::new, |loss| format!(", loss={loss}"));
    format!("{description} {}%|███  | {step}/3 [00:00<00:00, 10.0it/s{more}]", 33 * step)
}

#[test]
fn an_empty_bar_after_a_full_one_begins_an_epoch_and_the_time_before_it_is_none_of_a_step() {
    for (first, second) in [("", ""), ("train:", "train:"), ("Epoch 0:", "Epoch 1:")] {
        // A second of validation prints nothing; the bar of the first epoch is cleared before its last step is shown.
        let lines = [
            (1.0, bar_of_three(first, 0, None)),
            (1.1, bar_of_three(first, 1, Some(4.0))),
            (1.2, bar_of_three(first, 2, Some(3.0))),
            (2.3, bar_of_three(second, 0, None)),
            (2.4, bar_of_three(second, 1, Some(2.0))),
            (2.5, bar_of_three(second, 2, Some(1.0))),
            (2.6, bar_of_three(second, 3, Some(0.0))),
        ];
        let expected =
            [(1, None, 4.0), (1, Some(100), 3.0), (2, Some(100), 2.0), (2, Some(100), 1.0), (2, Some(100), 0.0)];
        assert_eq!(steps_of(&lines), (expected.to_vec(), vec![3.5, 1.0]), "{first}");
    }
}

/// A line of Lightning's bar of 20 steps.
fn bar_of_lightning(epoch: u64, step: u64) -> String {
    format!("Epoch {epoch}: {}%|███  | {step}/20 [00:01<00:01, 98.0it/s, v_num=0, train_loss=0.5]", 5 * step)
}

#[test]
fn steps_that_a_bar_may_have_hidden_before_an_evaluation_leave_the_next_one_without_a_duration() {
    let validation = || "Validation DataLoader 0:   0%|          | 0/5 [00:00<?, ?it/s]".to_owned();
    let [none, ten] = [(1, None, 0.5), (1, Some(10), 0.5)];
    for (shown, expected) in [([1, 2, 3, 4], [none, ten, ten, ten]), ([4, 8, 12, 16], [none, ten, none, ten])] {
        let [first, second, third, fourth] = shown;
        // Before the evaluation, half of the steps up to the third line were made. The bar is drawn again after it.
        let each_s = 0.01 * (second - first) as f64;
        let begin_s = 2.0 + each_s;
        let lines = [
            (1.0, bar_of_lightning(0, first)),
            (1.0 + each_s, bar_of_lightning(0, second)),
            (1.0 + 1.5 * each_s, validation()),
            (begin_s, bar_of_lightning(0, second)),
            (begin_s, bar_of_lightning(0, second)),
            (begin_s + each_s, bar_of_lightning(0, third)),
            (begin_s + each_s, bar_of_lightning(0, third)),
            (begin_s + 2.0 * each_s, bar_of_lightning(0, fourth)),
        ];
        assert_eq!(steps_of(&lines), (expected.to_vec(), vec![0.5]), "{shown:?}");
    }
    // An empty bar shows when its first steps begin.
    let lines = [
        (1.0, bar_of_lightning(0, 16)),
        (1.02, bar_of_lightning(0, 18)),
        (1.03, validation()),
        (2.03, bar_of_lightning(0, 18)),
        (2.5, "Epoch 1:   0%|     | 0/20 [00:00<?, ?it/s]".to_owned()),
        (2.52, bar_of_lightning(1, 2)),
    ];
    assert_eq!(steps_of(&lines), (vec![none, ten, (2, Some(10), 0.5)], vec![0.5, 0.5]));
}

#[test]
fn a_bar_of_epochs_around_the_bar_of_steps_gives_no_steps() {
    let epochs = |step: u64, more: &str| format!("Epochs: {}%|███  | {step}/2 [00:00<?, ?it/s{more}]", 50 * step);
    let mut lines = vec![(1.0, epochs(0, ""))];
    for epoch in 0..2 {
        let begin_s = 1.0 + 1.5 * f64::from(epoch);
        lines.push((begin_s, bar_of_three("Batches:", 0, None)));
        for step in 1..=3 {
            let loss = f64::from(3 * (1 - epoch)) + 3.0 - step as f64;
            lines.push((begin_s + 0.1 * step as f64, bar_of_three("Batches:", step, Some(loss))));
        }
        // Until then, a validation goes on.
        lines.push((begin_s + 1.4, epochs(epoch as u64, ", loss=9, val_loss=2.5")));
        lines.push((begin_s + 1.4, epochs(epoch as u64 + 1, ", loss=9, val_loss=2.5")));
    }
    let (steps, losses) = steps_of(&lines);
    let hundred = Some(100);
    let expected =
        [(1, None, 5.0), (1, hundred, 4.0), (1, hundred, 3.0), (2, hundred, 2.0), (2, hundred, 1.0), (2, hundred, 0.0)];
    assert_eq!((steps, losses), (expected.to_vec(), vec![4.0, 1.0]));
    let (step, readings, _) = read(&[&lines[0].1, &lines[1].1, &lines[2].1], &lines[6].1);
    assert_eq!((step, readings), (None, vec![("val_loss".to_owned(), 2.5)]));
}

#[test]
fn a_line_that_names_the_best_loss_or_a_device_beside_its_own_loss_is_a_step() {
    for line in [
        "step 10 loss 1.5 (best loss 0.9)",
        "step 10 best loss 0.9 loss 1.5",
        "step 10 | lowest loss: 0.9 | loss: 1.5",
        "/dev/nvidia0 step 10 loss 1.5",
        "step 10 loss 1.5, next: testing",
    ] {
        check((&[], line), (10, None, None), (1.5, None), &[]);
    }
}

#[test]
fn lightning_and_yolo_are_read_from_their_bars() {
    check(
        (&[], "Epoch 0: 100%|██████████| 1875/1875 [00:12<00:00, 150.71it/s, v_num=0, train_loss=0.0312]"),
        (1875, Some(1875), Some(0.0)),
        (0.0312, None),
        &[],
    );
    check(
        (
            &["      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size"],
            "      3/100      2.17G      1.161      1.908      1.264         57        640: 100%|██████████| 8/8 [00:01<00:00,  6.45it/s]",
        ),
        (8, Some(8), Some(3.0)),
        (1.161 + 1.908 + 1.264, None),
        &[("box_loss", 1.161), ("gpu_mem_gb", 2.17), ("Instances", 57.0)],
    );
}

#[test]
fn numbers_that_were_not_taken_are_named_with_patterns_that_take_them() {
    let line = "iter 10: loss 3.24, time 17.79ms, patches 64, elapsed 12.5s";
    let (_, _, untaken) = read(&[], line);
    let numbers: Vec<&str> = untaken.iter().map(|untaken| untaken.number.as_str()).collect();
    assert_eq!(numbers, ["patches 64", "elapsed 12.5 s"]);
    assert_eq!(read(&[line], line).2, [], "each is said once");
    let patterns: Vec<String> = pattern_of_guess(line)
        .unwrap()
        .into_iter()
        .take(1)
        .chain(untaken.into_iter().map(|untaken| untaken.pattern))
        .collect();
    let spec = crate::plan::command::ReadingsSpec { patterns, ..Default::default() };
    let mut found = Vec::new();
    super::super::read_log(&spec, line.as_bytes(), |_, one| found.push(one)).unwrap();
    let [Found::Step(step), Found::Reading { key: first, value: 64.0, .. }, Found::Reading { key, value: 12.5, .. }] =
        &found[..]
    else {
        panic!("{spec:?}: {found:?}")
    };
    assert_eq!((step.step, step.loss, step.duration_s), (Some(10), Some(3.24), Some(0.01779)));
    assert_eq!((first.as_str(), key.as_str()), ("patches", "elapsed_s"));
}

#[test]
fn the_pattern_of_what_was_guessed_keeps_steps_that_are_counted_in_brackets_or_behind_a_name_with_step_in_it() {
    for (line, step, loss) in [
        ("Epoch [1/5], Step [100/600], Loss: 0.25, patches 7", 100, 0.25),
        ("Train: 0 [  50/1251 (  4%)]  Loss: 6.93 (6.95)  patches: 3", 50, 6.93),
        ("INFO global_step=12 loss=0.5 patches 7", 12, 0.5),
        ("loss 0.125 at step [9/10], patches 7", 9, 0.125),
    ] {
        for pattern in pattern_of_guess(line).unwrap() {
            let spec = crate::plan::command::ReadingsSpec { patterns: vec![pattern], ..Default::default() };
            let mut found = Vec::new();
            super::super::read_log(&spec, line.as_bytes(), |_, one| found.push(one)).unwrap();
            let [Found::Step(read), rest @ ..] = &found[..] else { panic!("{spec:?}: {found:?}") };
            assert!(rest.iter().all(|found| matches!(found, Found::Untaken(_))), "{spec:?}: {found:?}");
            assert_eq!((read.step, read.loss), (Some(step), Some(loss)), "{line}");
        }
    }
}
