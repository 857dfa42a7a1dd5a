use std::fs;
use std::io::Write;

use regex::Regex;

use super::super::bars::GUESS;
use super::super::shapes::{Shapes, pattern_of_guess};
use super::super::{FoundStep, NamedPhase, Untaken, read_log};
use super::*;
use crate::plan::command::ReadingsSpec;

/// What the shapes of these lines come to.
fn shapes(lines: &[&str]) -> Vec<Found> {
    let (mut shapes, mut found) = (Shapes::of_log(), Vec::new());
    lines.iter().for_each(|line| shapes.line(Stream::Output, line, 7.0, &mut found));
    found
}

fn step(step: u64, steps: Option<u64>, epoch: Option<f64>, loss: f64) -> Found {
    Found::Step(FoundStep { step: Some(step), steps, epoch, loss: Some(loss), at_s: 7.0, ..FoundStep::default() })
}

fn reading(key: &str, value: f64, step: Option<u64>, epoch: Option<f64>) -> Found {
    Found::Reading { key: key.into(), value, step, epoch }
}

#[test]
fn a_bar_with_a_loss_is_a_step_and_one_without_is_not() {
    let found = shapes(&[
        "Loading checkpoint shards: 100%|██████████| 2/2 [00:01<00:00,  1.95it/s]",
        "  0%|          | 0/100 [00:00<?, ?it/s, loss=2.3]",
        " 12%|█▏        | 12/100 [00:03<00:22,  4.00it/s, loss=0.5]",
        "Epoch 3:  50%|█████     | 16/32 [00:01<00:01, 15.9it/s, v_num=0, train_loss=2.30, acc=0.25]",
        "Downloading: 45%|████      | 12.3M/98.0M [00:10<01:10, 1.2MB/s]",
        " 13%|█▏        | 13/100 [01:02:03<?, 9.50s/it, loss=nan, lr=1e-5]",
    ]);
    assert_eq!(
        found[..3],
        [step(12, Some(100), None, 0.5), step(16, Some(32), Some(3.0), 2.3), reading("acc", 0.25, Some(16), Some(3.0))]
    );
    let [.., Found::Step(last), lr] = &found[..] else { panic!("{found:?}") };
    assert!(last.step == Some(13) && last.loss.unwrap().is_nan());
    assert_eq!(*lr, reading("lr", 1e-5, Some(13), None));
}

#[test]
fn the_loss_in_the_description_of_a_bar_is_that_of_its_step() {
    for (line, expected) in [
        (
            "1|25|Loss: 0.90625:   3%|▎         | 25/808 [00:25<13:15,  1.02s/it]",
            step(25, Some(808), Some(1.0), 0.90625),
        ),
        ("Epoch 2 loss 0.5000:  10%|█         | 10/100 [00:05<00:45,  2.00it/s]", step(10, Some(100), Some(2.0), 0.5)),
        ("Loss: nan: 10%|█ | 10/100 [00:05<00:45,  2.00batch/s]", step(10, Some(100), None, f64::NAN)),
        ("train_loss=0.5 val_loss=0.75: 30%|█ | 3/10 [00:05<00:45,  2.00it/s]", step(3, Some(10), None, 0.5)),
        ("12it [00:03,  4.00it/s, loss=0.5]", step(12, None, None, 0.5)),
        ("train: 12it [00:03,  1.50s/it, loss=0.5]", step(12, None, None, 0.5)),
        ("50%|█ | 3/6 [00:03<00:03,  1.00s/batch, loss=0.5]", step(3, Some(6), None, 0.5)),
    ] {
        assert_eq!(format!("{:?}", shapes(&[line])), format!("{:?}", [expected]), "{line}");
    }
    for line in [
        "best loss 0.5: 10%|█ | 10/100 [00:05<00:45,  2.00it/s]",
        "Downloading loss.csv: 10it [00:05,  2.00it/s]",
        "Loss: 0.5: 0%| | 0/100 [00:00<?, ?it/s]",
    ] {
        assert_eq!(shapes(&[line]), [], "{line}");
    }
    // Images are no steps.
    let images = shapes(&["10%|█ | 640/6400 [00:05<00:45, 200.00img/s, loss=0.5]"]);
    assert_eq!(images, [reading("loss", 0.5, None, None)]);
    let evaluates = shapes(&[
        "loss 0.5: 10%|█ | 10/100 [00:05<00:45,  2.00it/s]",
        "val loss 0.75: 10%|█ | 1/10 [00:05<00:45,  2.00it/s]",
    ]);
    let phase = Found::Phase { phase: NamedPhase::of("evaluate").unwrap(), at_s: 7.0 };
    assert_eq!(evaluates, [step(10, Some(100), None, 0.5), phase]);
}

#[test]
fn json_and_dictionaries_in_the_output_are_steps_if_they_have_a_loss_and_the_number_of_a_step() {
    let lr = |step| reading("lr", 0.125, Some(step), None);
    assert_eq!(shapes(&[r#"{"step": 3, "loss": 0.5, "lr": 0.125}"#]), [step(3, None, None, 0.5), lr(3)]);
    assert_eq!(shapes(&["{'step': 3, 'loss': 0.5, 'lr': 0.125}"]), [step(3, None, None, 0.5), lr(3)]);
    assert_eq!(shapes(&["[rank0]: {'iter': 4, 'loss': '0.25'}"]), [step(4, None, None, 0.25)]);
    let found = shapes(&[r#"{"global_step": 7, "train_loss": "NaN", "epoch": 2, "tag": "a"}"#]);
    let [Found::Warning(_), Found::Warning(_), Found::Step(one)] = &found[..] else { panic!("{found:?}") };
    assert!((one.step, one.epoch) == (Some(7), Some(2.0)) && one.loss.is_some_and(f64::is_nan), "{one:?}");
    let found = shapes(&[r#"{"current_steps": 7, "total_steps": 90, "loss": 0.5, "elapsed_time": "0:00:09"}"#]);
    assert_eq!(found[2..], [step(7, Some(90), None, 0.5)], "{found:?}");
    assert_eq!(shapes(&[r#"{"loss": 0.5, "epoch": 1}"#]), [reading("loss", 0.5, None, Some(1.0))]);
    let evaluated =
        FoundStep { step: Some(3), loss: Some(0.5), phase: NamedPhase::of("val"), at_s: 7.0, ..FoundStep::default() };
    assert_eq!(shapes(&[r#"{"step": 3, "loss": 0.5, "phase": "val"}"#]), [Found::Step(evaluated)]);
    for line in [
        r#"{"step": 3, "loss": 0.5, "rank": 1}"#,
        r#"{"level": "info", "message": "the loss is 0.5"}"#,
        r#"{"step": -3, "loss": 0.5}"#,
        r#"{"step": 3, "val_loss": 0.5}"#,
        r#"{"loss": 0.5"#,
    ] {
        assert!(!shapes(&[line]).iter().any(|found| matches!(found, Found::Step(_))), "{line}");
    }
}

#[test]
fn a_json_object_with_only_the_loss_of_an_evaluation_tells_its_loss_and_its_end() {
    let found = shapes(&[r#"{"step": 3, "loss": 0.5}"#, r#"{"step": 3, "val_loss": 0.75}"#]);
    let loss = reading("val_loss", 0.75, Some(3), None);
    assert_eq!(found, [step(3, None, None, 0.5), loss, Found::Evaluated { step: Some(3), at_s: 7.0 }]);
    assert_eq!(shapes(&[r#"{"step": 3, "loss": 0.5}"#, r#"{"step": 3, "val_loss": 0.75, "rank": 1}"#]).len(), 1);
}

/// A state of tqdm's bar with a loss.
fn bar(description: &str, step: u64, steps: u64, loss: f64) -> String {
    format!("{description} 50%|█████     | {step}/{steps} [00:01<00:01,  4.00it/s, loss={loss}]")
}

#[test]
fn the_bar_of_an_evaluation_gives_no_steps_and_its_time_is_none_of_a_step() {
    let begins = "train:   0%|          | 0/2 [00:00<?, ?it/s]".to_owned();
    let lines = [
        bar("train:", 1, 2, 0.5),
        bar("train:", 2, 2, 0.25),
        bar("val:", 1, 2, 0.9),
        bar("val:", 2, 2, 0.8),
        begins,
        bar("train:", 1, 2, 0.125),
    ];
    let phase = |name| Found::Phase { phase: NamedPhase::of(name).unwrap(), at_s: 7.0 };
    let expected = [
        step(1, Some(2), None, 0.5),
        step(2, Some(2), None, 0.25),
        phase("evaluate"),
        Found::Begins { at_s: 7.0 },
        phase("train"),
        step(1, Some(2), None, 0.125),
    ];
    assert_eq!(shapes(&lines.each_ref().map(String::as_str)), expected);
}

#[test]
fn bars_without_a_description_are_told_apart_by_their_number_of_steps_and_that_is_said_once() {
    let epoch = [bar("", 20, 20, 0.5), bar("", 1, 5, 0.9), bar("", 5, 5, 0.8)];
    let lines: Vec<&str> = epoch.iter().chain(&epoch).map(String::as_str).collect();
    let training = step(20, Some(20), None, 0.5);
    let evaluation = Found::Phase { phase: NamedPhase::of("evaluate").unwrap(), at_s: 7.0 };
    let Found::Step(first) = training else { panic!("{training:?}") };
    let again = Found::Step(FoundStep { phase: NamedPhase::of("train"), ..first });
    let guess = Found::Warning(GUESS.to_owned());
    assert_eq!(shapes(&lines), [training, guess, evaluation.clone(), again, evaluation]);
    // Output that gives no steps gives no messages about its steps.
    let folder = tempfile::tempdir().unwrap();
    let mut look = Look::new(JsonLines::of_program(folder.path().join("readings.jsonl")), folder.path());
    let events = "tests/golden/tensorboard/events.out.tfevents.simple";
    fs::copy(events, folder.path().join("events.out.tfevents.simple")).unwrap();
    poll(&mut look, true);
    let found: Vec<Found> = lines.iter().flat_map(|text| line(&mut look, text)).collect();
    assert_eq!(found, []);
}

#[test]
fn the_time_of_an_evaluation_of_hugging_face_within_an_epoch_is_none_of_a_step() {
    let bar = |step: u64, steps: u64| format!(" 33%|███       | {step}/{steps} [00:01<00:01, 49.1it/s]");
    let loss = |loss: f64| format!("{{'loss': {loss}, 'grad_norm': 1.0, 'epoch': 0.25}}");
    let evaluated = "{'eval_loss': 2.25, 'eval_runtime': 0.5, 'epoch': 0.25}".to_owned();
    let evaluation = [bar(0, 10), bar(5, 10), evaluated];
    let begin = [bar(0, 60), bar(10, 60), loss(3.0), bar(10, 60), bar(20, 60), loss(2.5), bar(20, 60)];
    // The bars of the training and of the evaluation are printed again, in either order, when the evaluation is over.
    for (again, phases) in [
        ([bar(20, 60), bar(10, 10)], &["evaluate", "train"][..]),
        ([bar(10, 10), bar(20, 60)], &["evaluate", "train"][..]),
        // Steps were made before the evaluation that the bar did not show: the time of the step that it shows next is unknown.
        ([bar(25, 60), bar(10, 10)], &["evaluate"][..]),
    ] {
        let lines = [&begin[..], &evaluation, &again, &[bar(30, 60), loss(2.0), bar(30, 60)]].concat();
        let (mut steps, mut named) = (Vec::new(), Vec::new());
        for found in shapes(&lines.iter().map(String::as_str).collect::<Vec<_>>()) {
            match found {
                Found::Step(step) => steps.push((step.step, step.loss)),
                Found::Phase { phase, .. } => named.push(phase.name),
                Found::Warning(message) => assert_eq!(message, GUESS),
                Found::Reading { .. } | Found::Evaluated { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        let mut expected = vec![(Some(10), Some(3.0)), (Some(20), None), (Some(20), Some(2.5))];
        expected.extend((phases.len() == 1).then_some((Some(25), None)));
        expected.extend([(Some(30), None), (Some(30), Some(2.0))]);
        assert_eq!((steps, named.as_slice()), (expected, phases), "{again:?}");
    }
}

#[test]
fn a_dictionary_of_hugging_face_belongs_to_the_step_that_the_bar_beside_it_shows_next() {
    let dictionary = "{'loss': 0.6875, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 0.01}";
    let readings =
        |step| [reading("grad_norm", 1.5, step, Some(0.01)), reading("learning_rate", 5e-5, step, Some(0.01))];
    let bar = |step: u64| format!("  1%|          | {step}/1000 [00:05<08:00,  2.06it/s]");
    let found = shapes(&[&bar(8), dictionary, &bar(10)]);
    let bare = Found::Step(FoundStep { step: Some(8), steps: Some(1000), at_s: 7.0, ..FoundStep::default() });
    assert_eq!(found, [&[bare, step(10, Some(1000), Some(0.01), 0.6875)][..], &readings(Some(10))].concat());
    let alone = shapes(&[dictionary, "{'eval_loss': '0.25', 'eval_runtime': 1.0, 'epoch': 1.0}", "{'host': 'a'}"]);
    let expected = [
        &readings(None)[..],
        &[reading("loss", 0.6875, None, Some(0.01))],
        &[reading("eval_loss", 0.25, None, Some(1.0)), reading("eval_runtime", 1.0, None, Some(1.0))],
        &[Found::Evaluated { step: None, at_s: 7.0 }],
    ];
    assert_eq!(alone, expected.concat(), "without a number, a loss is not a step");
}

#[test]
fn of_several_dictionaries_at_a_step_the_last_one_has_its_loss_and_the_others_are_readings() {
    let bar = |step: u64| format!("  1%|          | {step}/1000 [00:05<08:00,  2.06it/s]");
    let found = shapes(&[&bar(8), "{'loss': 0.75, 'norm': 1.5}", "{'loss': 0.5, 'norm': 2.5}", &bar(10)]);
    let of_ten = |key: &str, value: f64| reading(key, value, Some(10), None);
    let expected = [step(10, Some(1000), None, 0.5), of_ten("norm", 2.5), of_ten("norm", 1.5), of_ten("loss", 0.75)];
    assert_eq!(found[1..], expected, "{found:?}");
}

/// A state of tqdm's bar without a loss.
fn bare_bar(description: &str, step: u64, steps: u64) -> String {
    format!("{description} 50%|█████     | {step}/{steps} [00:00<00:01,  4.00it/s]")
}

#[test]
fn a_second_training_with_another_number_of_steps_has_its_own_steps() {
    let lines = [
        bare_bar("Stage 1:", 0, 2),
        "{'loss': 0.5}".to_owned(),
        bare_bar("Stage 1:", 2, 2),
        bare_bar("Stage 2:", 0, 4),
        bare_bar("Stage 2:", 2, 4),
        "{'loss': 0.25}".to_owned(),
        bare_bar("Stage 2:", 4, 4),
    ];
    let bare = Found::Step(FoundStep { step: Some(2), steps: Some(4), at_s: 7.0, ..FoundStep::default() });
    let expected = [step(2, Some(2), None, 0.5), bare, step(4, Some(4), None, 0.25)];
    assert_eq!(shapes(&lines.each_ref().map(String::as_str)), expected);
}

#[test]
fn a_loss_beside_a_bar_that_is_guessed_to_be_an_evaluation_is_none_of_the_full_bar_before_it() {
    let lines = [
        bare_bar("", 0, 2),
        "{'loss': 0.5}".to_owned(),
        bare_bar("", 2, 2),
        bare_bar("", 0, 3),
        bare_bar("", 1, 3),
        "{'loss': 0.25}".to_owned(),
    ];
    let phase = Found::Phase { phase: NamedPhase::of("evaluate").unwrap(), at_s: 7.0 };
    let guess = Found::Warning(GUESS.to_owned());
    let expected = [step(2, Some(2), None, 0.5), guess, phase, reading("loss", 0.25, None, None)];
    assert_eq!(shapes(&lines.each_ref().map(String::as_str)), expected);
}

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

fn poll(look: &mut Look, last: bool) -> Vec<Found> {
    let mut found = Vec::new();
    look.poll(last, 8.0, &mut found).unwrap();
    found
}

fn line(look: &mut Look, line: &str) -> Vec<Found> {
    let mut found = Vec::new();
    look.line(Stream::Error, line, 7.0, &mut found);
    found
}

#[test]
fn a_guess_is_told_once_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut look = Look::new(JsonLines::of_program(folder.path().join("readings.jsonl")), folder.path());
    assert!(matches!(line(&mut look, "step 1 loss 0.5")[..], [Found::Step(_)]));
    assert!(matches!(line(&mut look, "step 2 loss 0.4")[..], [Found::Step(_)]));
    assert_eq!(poll(&mut look, false), []);
    let found = poll(&mut look, true);
    let [Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
    assert!(warning.contains("steps were guessed from output such as \"step … loss …\""), "{warning}");
}

#[test]
fn an_evaluation_before_the_first_step_is_told_because_the_step_may_contain_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut look = Look::new(JsonLines::of_program(folder.path().join("readings.jsonl")), folder.path());
    let found = line(&mut look, "step 0: train loss 2.5000, val loss 2.6000");
    assert!(matches!(found[..], [Found::Reading { .. }, Found::Evaluated { step: Some(0), .. }]), "{found:?}");
    assert!(matches!(line(&mut look, "iter 0: loss 2.5, time 520.00ms, mfu -100.00%")[..], [Found::Step(_), ..]));
}

#[test]
fn all_guessed_steps_give_way_to_those_that_the_program_reports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("readings.jsonl");
    let report = |line: &str| {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        writeln!(file, "{line}").unwrap();
    };
    let mut look = Look::new(JsonLines::of_program(path.clone()), folder.path());
    assert!(matches!(line(&mut look, "step 1 loss 0.5")[..], [Found::Step(FoundStep { is_guessed: true, .. })]));
    report("{\"accuracy\":0.5}");
    assert!(matches!(poll(&mut look, false)[..], [Found::Reading { .. }]), "a reading says nothing of the steps");
    assert!(matches!(line(&mut look, "step 2 loss 0.4")[..], [Found::Step(_)]));
    report("{\"step\":3,\"loss\":0.3}");
    assert!(matches!(poll(&mut look, false)[..], [Found::StepsWithdrawn, Found::Step(step)] if step.step == Some(3)));
    assert_eq!(line(&mut look, "step 3 loss 0.2"), []);
    report("{\"step\":4}");
    let last = poll(&mut look, true);
    assert!(
        matches!(last[..], [Found::Step(FoundStep { step: Some(4), is_guessed: false, .. })]),
        "nothing was guessed: {last:?}"
    );
}

#[test]
fn only_one_guess_gives_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut look = Look::new(JsonLines::of_program(folder.path().join("readings.jsonl")), folder.path());
    line(&mut look, "step 1 loss 0.5");
    let events = "tests/golden/tensorboard/events.out.tfevents.simple";
    fs::copy(events, folder.path().join("events.out.tfevents.simple")).unwrap();
    let found = poll(&mut look, true);
    assert!(!found.iter().any(|found| matches!(found, Found::Step(_))), "{found:?}");
    assert!(
        found.iter().any(|found| matches!(found, Found::Reading { key, .. } if *key == "eval/accuracy")),
        "{found:?}"
    );
}

#[test]
fn a_reading_without_a_step_is_said_to_be_a_guess() {
    let folder = tempfile::tempdir().unwrap();
    let mut look = Look::new(JsonLines::of_program(folder.path().join("readings.jsonl")), folder.path());
    let found = ["loss: 0.5", "loss: 0.4"].map(|text| line(&mut look, text));
    assert!(found.iter().all(|found| matches!(found[..], [Found::Reading { .. }])), "{found:?}");
    let last = poll(&mut look, true);
    assert!(matches!(&last[..], [Found::Warning(warning)] if warning.starts_with("readings were guessed")), "{last:?}");
}

#[test]
fn the_first_dictionary_of_a_trainer_waits_for_its_bar() {
    let folder = tempfile::tempdir().unwrap();
    let look = || Look::new(JsonLines::of_program(folder.path().join("readings.jsonl")), folder.path());
    let (none, one) = ("  0%| | 0/60 [00:00<?, ?it/s]", "  2%|▏| 1/60 [00:01<01:52,  1.90s/it]");
    let first = "{'loss': '10.96', 'grad_norm': '2.894', 'learning_rate': '5e-05', 'epoch': '0.0016'}";
    let mut counted = look();
    assert_eq!(line(&mut counted, none), []);
    assert_eq!(line(&mut counted, first), []);
    let mut found = line(&mut counted, one);
    found.extend(poll(&mut counted, true));
    let step = found.iter().find_map(|found| if let Found::Step(step) = found { Some(step) } else { None }).unwrap();
    assert_eq!((step.step, step.loss, step.at_s), (Some(1), Some(10.96), 7.0));
    assert!(!found.iter().any(|found| matches!(found, Found::Reading { key, .. } if *key == "loss")), "{found:?}");
    // A program that ends before its bar counts loses nothing.
    let mut ended = look();
    line(&mut ended, none);
    line(&mut ended, first);
    let found = poll(&mut ended, true);
    assert!(
        found
            .iter()
            .any(|found| matches!(found, Found::Reading { key, value, .. } if *key == "loss" && *value == 10.96)),
        "{found:?}"
    );
}
