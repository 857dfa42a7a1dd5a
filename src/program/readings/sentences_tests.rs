//! Sentences in a program's output, and what is read of them.

use regex::Regex;

use super::super::shapes::{Shapes, pattern_of_guess};
use super::super::{FoundStep, Untaken, read_log};
use super::tests::{reading, shapes, step};
use super::*;
use crate::plan::command::ReadingsSpec;

#[test]
fn a_sentence_with_a_step_and_a_loss_is_a_step() {
    for (line, expected) in [
        ("step 3 | loss: 0.5 | twelve", step(3, None, None, 0.5)),
        ("Epoch [1/5], Step [100/600], Loss: 0.2514", step(100, Some(600), Some(1.0), 0.2514)),
        ("iter 12: train loss = 2.5e-1.", step(12, None, None, 0.25)),
        ("INFO global_step=7 epoch=2 loss=nan", step(7, None, Some(2.0), f64::NAN)),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.301", reading("loss", 2.301, None, Some(1.0))),
        ("loss: 0.5", reading("loss", 0.5, None, None)),
    ] {
        assert_eq!(format!("{:?}", shapes(&[line])), format!("{:?}", [expected]), "{line}");
    }
}

#[test]
fn step_numbers_with_commas_are_read_whole() {
    for (line, expected) in [
        ("step 1,000/1,500 loss 2.5", step(1_000, Some(1_500), None, 2.5)),
        ("step 20/1,000 loss 2.5", step(20, Some(1_000), None, 2.5)),
        ("Step [1,000/12,345], Loss: 2.5", step(1_000, Some(12_345), None, 2.5)),
        ("iter 1,234,567: loss 2.5", step(1_234_567, None, None, 2.5)),
        ("Train: 0 [ 1,000/1,251 ( 80%)]  Loss: 2.5", step(1_000, Some(1_251), Some(0.0), 2.5)),
        ("step 5, loss 2.5", step(5, None, None, 2.5)),
        ("step 3. loss 2.5", step(3, None, None, 2.5)),
    ] {
        assert_eq!(shapes(&[line]), [expected], "{line}");
    }
}

#[test]
fn a_line_whose_step_or_loss_has_unclear_separators_is_no_step_and_its_numbers_are_named() {
    for (line, named) in [
        ("step 1 000/1 500 loss 2.5", "step 1 000"),
        ("step 1'000 loss 2.5", "step 1'000"),
        ("step 1,5 loss 2.5", "step 1,5"),
        ("step 4 loss 2,2", "loss 2,2"),
        ("step 5 loss 2,345", "loss 2,345"),
        ("step 6 loss 0,345 time 10ms", "loss 0,345"),
    ] {
        let found = shapes(&[line]);
        let is_named = |found: &Found| matches!(found, Found::Untaken(Untaken { number, .. }) if number == named);
        assert!(found.iter().all(|found| matches!(found, Found::Untaken(_))), "{line}: {found:?}");
        assert!(found.iter().any(is_named), "{line}: {found:?}");
    }
    let bar = |more: &str| {
        let line = format!(" 12%|█▏        | 12/100 [00:03<00:22,  4.00it/s, {more}]");
        shapes(&[line.as_str()])
    };
    assert_eq!(shapes(&["step 7 loss 1.#QNAN", "step 8 loss 2^3"]), []);
    assert_eq!(bar("loss=0,5"), []);
    assert_eq!(bar("loss=0.5, acc=0,25"), [step(12, Some(100), None, 0.5)]);
    assert_eq!(shapes(&["{'loss': '2,5', 'epoch': '0.1'}", "{'loss': 2,5, 'epoch': 0.1}"]), []);
}

#[test]
fn durations_and_readings_of_a_step_are_read_whole_or_named() {
    let found = shapes(&["step 3 loss 2.5 time 17,79ms 17,5 samples/sec mem 12,5 GB lr 1e-3"]);
    let is_step = |found: &&Found| !matches!(found, Found::Untaken(_));
    let taken: Vec<Found> = found.iter().filter(is_step).cloned().collect();
    assert_eq!(taken, [step(3, None, None, 2.5), reading("lr", 1e-3, Some(3), None)]);
    let named: Vec<String> = found.iter().filter(|found| !is_step(found)).map(Found::to_string).collect();
    let numbers = ["time 17,79 ms", "17,5 samples/sec", "mem 12,5 GB"];
    assert_eq!(named, numbers.map(|number| format!("not read: {number}")));
    let grouped = shapes(&["step 3 loss 2.5 time 1,234.5ms"]);
    let [Found::Step(FoundStep { duration_s: Some(duration_s), .. })] = grouped[..] else { panic!("{grouped:?}") };
    assert!((duration_s - 1.2345).abs() < 1e-9, "{duration_s}");
}

#[test]
fn a_wait_that_is_longer_than_its_step_is_not_taken() {
    let found = shapes(&["step 12 loss 1.6 data 30ms time 20ms"]);
    let [Found::Untaken(wait), Found::Step(read)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((wait.number.as_str(), read.duration_s, read.wait_s), ("data 30 ms", Some(0.02), None));
}

#[test]
fn the_pattern_of_a_step_reads_its_number_with_and_without_commas() {
    for line in ["step 5/1,500 loss 2.5 patches 7", "Step [5/1,500], Loss: 2.5, patches 7"] {
        let pattern = Regex::new(&pattern_of_guess(line).unwrap()[0]).unwrap();
        let later = line.replace("5/", "1,005/");
        assert_eq!(["step", "loss"].map(|name| pattern.captures(&later).unwrap()[name].to_owned()), ["1,005", "2.5"]);
    }
}

#[test]
fn lines_that_only_look_alike_say_nothing() {
    let lines = [
        "the loss of 3 packets",
        "loss function: cross entropy",
        "blossom=3",
        "loss: see 3",
        "12/100 tests passed [00:03]",
        "{'loss': 'high'}",
        "loss 1.2.3",
        "",
    ];
    for line in lines {
        let found = shapes(&[line]);
        assert!(found.iter().all(|found| matches!(found, Found::Untaken(_))), "{line}: {found:?}");
    }
}

#[test]
fn a_line_with_the_loss_of_an_evaluation_gives_the_loss_and_no_step() {
    for (line, key, loss, step, epoch) in [
        ("step 3: val loss 0.5", "val_loss", 0.5, Some(3), None),
        ("step 0: train loss 2.5000, val loss 2.6000", "val_loss", 2.6, Some(0), None),
        ("val_loss: 0.5", "val_loss", 0.5, None, None),
        ("dev_loss=0.5", "val_loss", 0.5, None, None),
        ("Test set: Average loss: 0.0512", "test_loss", 0.0512, None, None),
        ("Validation: average loss 0.5", "val_loss", 0.5, None, None),
        ("| end of epoch   3 | time:  1.00s | valid loss  4.50 | valid ppl  90", "val_loss", 4.5, None, Some(3.0)),
        ("epoch 0: {'accuracy': 0.8} perplexity: 6.2 eval_loss: 1.75", "test_loss", 1.75, None, Some(0.0)),
        ("root - INFO - validate step: 10  loss:  7.8312  memory: 22GiB", "val_loss", 7.8312, Some(10), None),
        (
            " validation loss at iteration 10 | lm loss value: 2.1E+00 | lm loss PPL: 8.0E+00 |",
            "val_loss",
            2.1,
            Some(10),
            None,
        ),
    ] {
        let mut found = shapes(&[line]);
        found.retain(|found| !matches!(found, Found::Untaken(_)));
        let (loss, ended) = (reading(key, loss, step, epoch), Found::Evaluated { step, at_s: 7.0 });
        assert_eq!(found, [loss, ended], "{line}");
    }
    // The line of an epoch gives both losses.
    let mut found = shapes(&["Epoch 3/10: train loss 0.5, val loss 0.75"]);
    found.retain(|found| !matches!(found, Found::Untaken(_)));
    let (loss, val_loss) = (reading("loss", 0.5, None, Some(3.0)), reading("val_loss", 0.75, None, Some(3.0)));
    assert_eq!(found, [loss, val_loss, Found::Evaluated { step: None, at_s: 7.0 }]);
}

#[test]
fn a_loss_without_a_word_in_front_of_it_is_that_of_the_step() {
    for (line, loss) in [
        ("step 3 min loss 0.1000 loss 2.9", Some(2.9)),
        ("step 3 aux loss 0.1, loss: 2.9", Some(2.9)),
        ("step 3 avg loss 2.9", Some(2.9)),
        ("step 3 total loss 2.9 ce loss 1.9", Some(2.9)),
        ("step 3 train loss 2.9 aux loss 0.1", Some(2.9)),
        ("Train loss 39 1.025 Grad Norm 2.5", None),
        ("Validation loss 30: 1.32", None),
        ("new best_val_loss: 0.4321, saved", None),
        ("Early stopping: best val loss 0.40", None),
        ("Config: lr=0.1 val_loss=1", None),
    ] {
        let found = shapes(&[line]);
        let read = found.iter().find_map(|found| match found {
            Found::Step(step) => step.loss,
            Found::Reading { key, value, .. } if key.ends_with("loss") => Some(*value),
            _ => None,
        });
        assert_eq!(read, loss, "{line}: {found:?}");
    }
    let current = shapes(&["Early stopping: best val loss 0.40, current val loss 0.45"]);
    assert!(current.contains(&reading("val_loss", 0.45, None, None)), "{current:?}");
}

#[test]
fn bars_of_keras_without_an_epoch_are_those_of_an_evaluation() {
    let bar = |step: u64, steps: u64, loss: f64| {
        format!(" {step}/{steps} ━━━━━━━━━━ 0s 20ms/step - accuracy: 0.75 - loss: {loss}")
    };
    let epoch = ["Epoch 1/1".to_owned(), bar(1, 2, 0.5), bar(2, 2, 0.25)];
    let evaluation = [bar(1, 2, 0.9), bar(2, 2, 0.8)];
    let lines: Vec<String> = [&epoch[..], &evaluation, &epoch].concat();
    let found = shapes(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let steps = found.iter().filter_map(|found| if let Found::Step(step) = found { step.step } else { None });
    assert_eq!(steps.collect::<Vec<_>>(), [1, 2, 1, 2]);
    for reading in [reading("test_loss", 0.8, None, None), reading("test_accuracy", 0.75, None, None)] {
        assert_eq!(found.iter().filter(|found| **found == reading).count(), 1, "{found:?}");
    }
    // The second training begins with its heading.
    assert!(found.contains(&Found::Begins { at_s: 7.0 }), "{found:?}");
}

#[test]
fn lines_of_an_evaluation_without_its_loss_tell_its_end() {
    for line in [
        "12/01 10:00:00 - mmengine - INFO - Epoch(val) [3][7/7]    accuracy/top1: 80.0  time: 0.05",
        "Test:  [ 7/79]  eta: 0:00:12  acc1: 10.1 (9.9)",
    ] {
        assert_eq!(shapes(&[line]), [Found::Evaluated { step: None, at_s: 7.0 }], "{line}");
    }
}

#[test]
fn batches_are_steps_if_the_line_has_the_number_of_all() {
    for (line, number, steps, epoch) in [
        ("Epoch 2, Batch 10/938, Loss: 0.5", 10, Some(938), Some(2.0)),
        ("epoch 2 batch 10 of 938: loss 0.5", 10, Some(938), Some(2.0)),
        (
            "| epoch   2 |   200/ 2983 batches | lr 20.00 | ms/batch 16.92 | loss  0.50 | ppl  1.6",
            200,
            Some(2983),
            Some(2.0),
        ),
        ("[2,  2000] loss: 0.500", 2000, None, Some(2.0)),
    ] {
        let found = shapes(&[line]);
        let Some(Found::Step(read)) = found.iter().find(|found| matches!(found, Found::Step(_))) else {
            panic!("{line}: {found:?}")
        };
        assert_eq!((read.step, read.steps, read.epoch, read.loss), (Some(number), steps, epoch, Some(0.5)), "{line}");
    }
    for line in
        ["batch 64 loss 0.5", "Epoch 1/10 | batch: 128 | loss 0.5", "Epoch 5: loss 0.5 (time per batch: 120 ms)"]
    {
        let found = shapes(&[line]);
        assert!(!found.iter().any(|found| matches!(found, Found::Step(_))), "{line}: it may be the size of a batch");
    }
}

#[test]
fn the_loss_below_the_heading_of_an_evaluation_is_none_of_the_training() {
    let training = "loss: 1.590000  [ 2624/ 3200]";
    let test = " Accuracy: 66.0%, Avg loss: 0.800000";
    let evaluated = Found::Evaluated { step: None, at_s: 7.0 };
    let taken = |lines: &[&str]| {
        let mut found = shapes(lines);
        found.retain(|found| !matches!(found, Found::Untaken(_)));
        found
    };
    for heading in ["Test Error: ", "Validation:", "12:00:01 INFO Evaluating epoch 3:", "[rank0]: Eval results:"] {
        let expected = [reading("loss", 1.59, None, None), evaluated.clone(), reading("loss", 1.59, None, None)];
        assert_eq!(taken(&[training, heading, test, training]), expected, "{heading}");
        for other in ["loss: 0.8", "{'loss': 0.8}", r#"{"step": 3, "loss": 0.8}"#, "step 3 loss 0.8"] {
            let found = taken(&[heading, other]);
            assert!(found.iter().all(|found| matches!(found, Found::Evaluated { .. })), "{heading} {other}: {found:?}");
        }
    }
    // Further lines belong to the heading as long as they count on.
    let below = ["batch 1/3 loss 9.0", "batch 2/3 loss 9.0", "batch 3/3 loss 9.0"];
    let found = taken(&[&["Validation:"], &below[..], &["batch 1/9 loss 0.5", "batch 2/9 loss 0.5"]].concat());
    let steps = found.iter().filter(|found| matches!(found, Found::Step(step) if step.loss == Some(0.5)));
    assert_eq!((found.len(), steps.count()), (5, 2), "{found:?}");
    for heading in ["Test Error", "Training, then test:", "Latest results:", "Results:"] {
        assert_eq!(taken(&[heading, training]), [reading("loss", 1.59, None, None)], "{heading}");
    }
    // A heading is that of the next line of its stream.
    let (mut shapes, mut found) = (Shapes::of_log(), Vec::new());
    for (stream, line) in [(Stream::Output, "Test:"), (Stream::Error, training), (Stream::Output, "loss: 0.5")] {
        shapes.line(stream, line, 7.0, &mut found);
    }
    assert_eq!(found[0], reading("loss", 1.59, None, None));
    assert!(found[1..].contains(&evaluated), "{found:?}");
}

#[test]
fn the_mean_loss_behind_an_accuracy_is_none_of_the_training_if_that_prints_its_losses_in_other_lines() {
    let scores = "Accuracy: 66.0%, Avg loss: 0.800000";
    let evaluated = Found::Evaluated { step: None, at_s: 7.0 };
    for (training, expected) in [
        ("loss: 1.59  [ 2624/ 3200]", reading("loss", 1.59, None, None)),
        ("step 3 loss 1.59", step(3, None, None, 1.59)),
        ("Epoch 2: avg loss 1.59, accuracy 0.5", reading("loss", 1.59, None, Some(2.0))),
    ] {
        let mut found = shapes(&[training, scores, training]);
        found.retain(|found| !matches!(found, Found::Untaken(_)));
        assert_eq!(found, [expected.clone(), evaluated.clone(), expected], "{training}");
    }
    assert_eq!(shapes(&[scores, scores]), [reading("loss", 0.8, None, None), reading("loss", 0.8, None, None)]);
    let numbered = "Accuracy: 0.51, avg loss: 1.23, step 100/1000";
    let is_step = |found: &Found| matches!(found, Found::Step(step) if step.step == Some(100));
    assert_eq!(shapes(&["initial loss: 2.30", numbered]).iter().filter(|found| is_step(found)).count(), 1);
}

#[test]
fn of_lines_that_begin_with_a_rank_only_those_of_the_first_rank_count() {
    for [first, other] in [
        ["[rank0]: ", "[rank1]: "],
        ["[default0]:", "[default12]:"],
        ["[Rank 0] ", "[Rank 3] "],
        ["rank 0: ", "rank 1: "],
    ] {
        let lines = [format!("{first}step 1 loss 0.5"), format!("{other}step 1 loss 9.5")];
        let found = shapes(&[&lines[0], &lines[1]]);
        assert_eq!(found, shapes(&["step 1 loss 0.5"]), "{first}");
    }
    let of_lora = shapes(&["rank 8: step 1 loss 0.5"]);
    assert!(of_lora.contains(&step(1, None, None, 0.5)), "{of_lora:?}");
}

#[test]
fn nothing_is_guessed_from_binary_data_and_a_line_with_a_few_stray_bytes_is_text() {
    let lines_with_findings = |log: &[u8]| {
        let mut numbers = Vec::new();
        read_log(&ReadingsSpec::default(), log, |line, _| numbers.extend(line.map(|(number, _)| number))).unwrap();
        numbers
    };
    let binary: [&[u8]; 5] = [
        b"step 3 loss 0.5 \0\n",
        b"step 3 loss 0.5 \x01\x02\x03\x04\n",
        b"\x8b\xff\xfe\x9a step 3 loss 0.5\n",
        b"latency 12.5 ms \0\n",
        b"\x1b[31m\x01\x02\x03\x04 12/100 [00:03<00:22,  4.00it/s, loss=0.5]\n",
    ];
    for line in binary {
        assert!(lines_with_findings(line).is_empty(), "{line:?}");
    }
    // A bell, a letter of Latin-1, a bar of Keras that takes back the one before, colours.
    let text: [&[u8]; 4] = [
        b"\x07step 3 loss 0.5\n",
        b"step 3 loss 0.5, Ger\xe4t\n",
        b"\x08\x08\x08\x08\x08step 3 loss 0.5\n",
        b"\x1b[1m\x1b[31mstep 3\x1b[0m \x1b[32mloss 0.5\x1b[0m\x1b[K\n",
    ];
    for line in text {
        assert_eq!(lines_with_findings(line), [1], "{line:?}");
    }
}

#[test]
fn numbers_of_a_line_that_tells_an_evaluation_are_named_and_no_step_is_counted_twice() {
    let found =
        shapes(&["iter 250: loss 2.3, time 12.5ms", "step 250: train loss 2.49, val_loss 2.51, perplexity 12.3"]);
    let [Found::Step(step), rest @ .., Found::Evaluated { step: Some(250), .. }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((step.step, step.loss), (Some(250), Some(2.3)));
    let numbers: Vec<&str> = rest
        .iter()
        .filter_map(|found| if let Found::Untaken(untaken) = found { Some(untaken.number.as_str()) } else { None })
        .collect();
    assert_eq!(numbers, ["train loss 2.49", "perplexity 12.3"]);
    let line = "step 250: train loss 2.49, val_loss 2.51";
    let pattern = Regex::new(&pattern_of_guess(line).unwrap()[0]).unwrap();
    assert_eq!(&pattern.captures(line).unwrap()["val_loss"], "2.51", "{pattern}");
}

#[test]
fn the_pattern_of_a_step_names_its_step_alone() {
    for (line, step) in [
        ("epoch 2 iter 100 loss 0.2514 patches 7", "100"),
        ("1875/1875 - 5s - 3ms/step - accuracy: 0.91 - loss: 0.30", "1875"),
    ] {
        for taken in pattern_of_guess(line).unwrap() {
            assert_eq!(Regex::new(&taken).unwrap().captures(line).unwrap()["step"], *step, "{taken}");
            assert_eq!(taken.matches("(?<step>").count(), 1, "{taken}");
        }
    }
    let of_mean = " 123/1875 [=>............................] - ETA: 3s - loss: 1.25 - accuracy: 0.5";
    assert_eq!(pattern_of_guess(of_mean), None, "a pattern would take a mean for the loss of a step");
}
