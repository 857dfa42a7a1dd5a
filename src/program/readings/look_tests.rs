use std::fs;
use std::io::Write;

use super::super::bars::GUESS;
use super::super::shapes::Shapes;
use super::super::{FoundStep, NamedPhase};
use super::*;

/// What the shapes of these lines come to.
pub(super) fn shapes(lines: &[&str]) -> Vec<Found> {
    let (mut shapes, mut found) = (Shapes::of_log(), Vec::new());
    lines.iter().for_each(|line| shapes.line(Stream::Output, line, 7.0, &mut found));
    found
}

pub(super) fn step(step: u64, steps: Option<u64>, epoch: Option<f64>, loss: f64) -> Found {
    Found::Step(FoundStep { step: Some(step), steps, epoch, loss: Some(loss), at_s: 7.0, ..FoundStep::default() })
}

pub(super) fn reading(key: &str, value: f64, step: Option<u64>, epoch: Option<f64>) -> Found {
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
