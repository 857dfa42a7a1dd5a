use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Command;
use std::thread;

use rand::{Rng, SeedableRng};

use super::*;
use crate::protocol::{Phase, now_s};

fn place(folder: &Path) -> Place {
    Place { run_folder: folder.to_owned(), working_folder: folder.to_owned(), started_s: 100.0 }
}

fn spec(patterns: &[&str], files: &[&str]) -> ReadingsSpec {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    ReadingsSpec { patterns: texts(patterns), files: texts(files), ..ReadingsSpec::default() }
}

fn readings(folder: &Path, spec: &ReadingsSpec) -> Readings {
    Readings::new(spec, &spec.files, &place(folder), WarmUp::Steps(0))
}

/// Steps and readings of a log, in a few words.
fn words(events: &[(f64, Event)]) -> Vec<String> {
    let word = |(_, event): &(f64, Event)| match event {
        Event::Step { step, loss, units, duration_s, .. } => format!("step {step}: {loss} {units} {duration_s:.3}"),
        Event::Reading { key, value, step, .. } => format!("{key} = {value} at {step:?}"),
        Event::Phase { phase } => format!("{phase:?}"),
        Event::Warning { message } => message.clone(),
        other => format!("{other:?}"),
    };
    events.iter().map(word).collect()
}

#[test]
fn output_becomes_events_with_the_times_at_which_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let mut readings = readings(folder.path(), &spec(&[r"step (?<step>\d+) loss (?<loss>\S+)"], &[]));
    let mut events = Vec::new();
    readings.output(Stream::Output, b"hello\nstep 1 lo", 101.0);
    readings.output(Stream::Output, b"ss 0.5\n", 102.0);
    readings.output(Stream::Error, b"\rstep 2 loss 0.25\r", 103.5);
    readings.poll(104.0, &mut events);
    readings.output(Stream::Output, b"step 3 loss 0.125", 105.0);
    readings.finish(106.0, &mut events);
    let times: Vec<f64> = events.iter().map(|(time_s, _)| *time_s).collect();
    assert_eq!(times, [100.0, 102.0, 102.0, 103.5, 105.0, 106.0]);
    assert_eq!(
        words(&events),
        [
            "WarmUp",
            "step 1: 0.5 0 2.000",
            "Steady",
            "step 2: 0.25 0 1.500",
            "step 3: 0.125 0 1.500",
            "train_loss = 0.2916666666666667 at None"
        ]
    );
}

#[test]
fn output_is_skipped_only_after_its_first_megabyte_and_the_bytes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut readings = readings(folder.path(), &spec(&[r"step (?<step>\d+)"], &[]));
    readings.busy = Duration::from_secs(3_600);
    let (first, second) = ("step 1\n", "\nstep 2\n");
    let between = ".".repeat(ALWAYS_READ_BYTES as usize - first.len() - second.len());
    readings.output(Stream::Output, format!("{first}{between}{second}").as_bytes(), 101.0);
    readings.output(Stream::Output, b"step 3\n", 102.0);
    let mut events = Vec::new();
    readings.finish(103.0, &mut events);
    let words = words(&events);
    let has = |begin: &str| words.iter().any(|word| word.starts_with(begin));
    assert!(has("step 1:") && has("step 2:") && !has("step 3:"), "{words:?}");
    assert!(has("7 of 1000007 bytes of output were not searched for readings"), "{words:?}");
}

/// A source that sleeps for each line, as on a machine whose CPUs are busy with other programs.
struct Sleeper;

/// How long it sleeps.
const SLEEP: Duration = Duration::from_millis(50);

impl Source for Sleeper {
    fn line(&mut self, _stream: Stream, _line: &str, _at_s: f64, _found: &mut Vec<Found>) {
        thread::sleep(SLEEP);
    }
}

#[test]
fn time_that_passes_without_a_cpu_does_not_count_as_time_of_reading() {
    let folder = tempfile::tempdir().unwrap();
    let mut readings = readings(folder.path(), &ReadingsSpec::default());
    readings.sources = vec![Box::new(Sleeper)];
    readings.printed = ALWAYS_READ_BYTES;
    readings.output(Stream::Output, b"step 1\n", 101.0);
    assert!(readings.busy > Duration::ZERO && readings.busy < SLEEP, "{:?}", readings.busy);
}

#[test]
fn a_loss_without_a_step_is_that_of_the_training_unless_steps_have_losses_or_an_evaluation_goes_on() {
    let losses = |output: &str, lines: &str| {
        let folder = tempfile::tempdir().unwrap();
        let (mut readings, mut events) = (readings(folder.path(), &ReadingsSpec::default()), Vec::new());
        readings.output(Stream::Output, output.as_bytes(), 101.0);
        fs::write(folder.path().join(READINGS_FILE), lines).unwrap();
        readings.finish(102.0, &mut events);
        assert!(!readings.found_nothing());
        let mut words = words(&events);
        words.retain(|word| word.contains("loss = "));
        words
    };
    assert_eq!(losses("loss: 0.5\nloss: 0.25\n", ""), ["train_loss = 0.5 at None", "train_loss = 0.25 at None"]);
    assert_eq!(losses("step 1 loss 0.5\nloss: 0.25\n", ""), ["loss = 0.25 at None", "train_loss = 0.5 at None"]);
    assert_eq!(losses("", "{\"reading\":{\"loss\":5}}\n"), ["train_loss = 5 at None"]);
    assert_eq!(losses("", "{\"phase\":\"val\"}\n{\"reading\":{\"loss\":5}}\n"), ["loss = 5 at None"]);
    let reported = "{\"train_loss\":0.5}\n{\"reading\":{\"loss\":5}}\n";
    assert_eq!(losses("", reported), ["train_loss = 0.5 at None", "loss = 5 at None"]);
}

#[test]
fn a_bar_that_ends_when_the_next_one_is_printed_has_the_time_at_which_it_was_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut readings = readings(folder.path(), &ReadingsSpec::default());
    let mut events = Vec::new();
    for step in 1..=3 {
        let bar = format!("\r {step}/9 [00:01<00:01,  1.00it/s, loss=0.5]");
        readings.output(Stream::Error, bar.as_bytes(), 101.0 + f64::from(step));
    }
    readings.output(Stream::Error, b"\n", 120.0);
    readings.finish(121.0, &mut events);
    let times = events.iter().filter(|(_, event)| matches!(event, Event::Step { .. })).map(|(time_s, _)| *time_s);
    assert_eq!(times.collect::<Vec<_>>(), [102.0, 103.0, 104.0]);
}

#[test]
fn a_step_of_keras_does_not_last_as_long_as_the_validation_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut readings = readings(folder.path(), &ReadingsSpec::default());
    let mut events = Vec::new();
    for (at_s, text) in [
        (101.0, "Epoch 1/2\n"),
        (102.0, "\r1/3 [=>...] - ETA: 2s - loss: 0.9000"),
        (103.0, "\r2/3 [==>..] - ETA: 1s - loss: 0.8000"),
        (104.0, "\r3/3 [=====] - ETA: 0s - loss: 0.7000"),
        (114.0, "\r3/3 [=====] - 13s 1s/step - loss: 0.6875 - val_loss: 0.5000\n"),
        (114.0, "Epoch 2/2\n"),
        (115.0, "\r1/3 [=>...] - ETA: 2s - loss: 0.6000"),
        // Keras prints no line for a step that follows the one before at once, so this is the first line of the last step.
        (125.0, "\r3/3 [=====] - 11s 1s/step - loss: 0.5000 - val_loss: 0.2500\n"),
    ] {
        readings.output(Stream::Output, text.as_bytes(), at_s);
    }
    readings.finish(126.0, &mut events);
    let words = words(&events);
    let steps: Vec<&str> = words.iter().filter(|word| word.starts_with("step ")).map(String::as_str).collect();
    assert_eq!(
        steps,
        [
            "step 1: 0.9 0 2.000",
            "step 2: 0.8 0 1.000",
            "step 3: 0.7 0 1.000",
            "step 3: 0.6875 0 1.000",
            "step 4: 0.6 0 1.000",
            "step 6: 0.5 0 5.000"
        ],
        "{words:?}"
    );
    let counts =
        |event: &Event| if let Event::Step { step, warm_up, .. } = event { Some((*step, !warm_up)) } else { None };
    let last = events.iter().rev().find_map(|(_, event)| counts(event));
    assert_eq!(last, Some((6, false)), "its time contains the validation");
    let phases = events.iter().filter(|(_, event)| *event == Event::Phase { phase: Phase::Evaluate });
    assert_eq!(phases.map(|(time_s, _)| *time_s).collect::<Vec<_>>(), [104.0, 115.0]);
    assert!(words.contains(&"val_loss = 0.5 at Some(3)".to_owned()), "{words:?}");
}

#[test]
fn the_line_of_a_loss_ends_its_step_if_each_step_has_an_evaluation_that_is_printed_before() {
    let patterns = [r"step (?<step>\d+) loss (?<loss>\S+)", r"step (?<step>\d+) val_loss (?<val_loss>\S+)"];
    let folder = tempfile::tempdir().unwrap();
    let (mut readings, mut events) = (readings(folder.path(), &spec(&patterns, &[])), Vec::new());
    for step in 1..=4 {
        let at_s = 101.0 + f64::from(step);
        readings.output(Stream::Output, format!("step {step} val_loss 0.5\n").as_bytes(), at_s - 0.25);
        readings.output(Stream::Output, format!("step {step} loss 0.75\n").as_bytes(), at_s);
        readings.poll(at_s, &mut events);
    }
    readings.finish(106.0, &mut events);
    let of_steps = events.iter().filter_map(|(_, event)| match event {
        Event::Step { step, duration_s, warm_up: false, .. } => Some((*step, *duration_s)),
        _ => None,
    });
    assert_eq!(of_steps.collect::<Vec<_>>(), [(3, 1.0), (4, 1.0)]);
}

#[test]
fn steps_that_were_guessed_before_the_program_reported_its_own_are_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let (mut readings, mut events) = (readings(folder.path(), &ReadingsSpec::default()), Vec::new());
    for step in 1..=3 {
        let at_s = 101.0 + f64::from(step);
        readings.output(Stream::Output, format!("step {step}00 loss 0.5\n").as_bytes(), at_s);
        readings.poll(at_s, &mut events);
    }
    let of_program = "{\"step\":1,\"duration_s\":0.5}\n{\"step\":2,\"duration_s\":0.5}\n";
    fs::write(folder.path().join(READINGS_FILE), of_program).unwrap();
    // A guess that comes together with the program's own steps is never logged.
    readings.output(Stream::Output, b"step 400 loss 0.5\n", 105.0);
    readings.finish(106.0, &mut events);
    let mut words = words(&events);
    let at = words.iter().position(|word| word == "StepsWithdrawn").unwrap();
    let after = words.split_off(at);
    assert!(words.iter().any(|word| word.starts_with("step 300: 0.5")), "{words:?}");
    assert_eq!(after, ["StepsWithdrawn", "Steady", "step 1: NaN 0 0.500", "step 2: NaN 0 0.500"]);
}

/// The times of five steps that were written to a file one by one and are read together, some time after the last one, with the times
/// after each write.
fn written_one_by_one(read_after: Duration) -> (Vec<f64>, Vec<f64>) {
    let folder = tempfile::tempdir().unwrap();
    let mut readings = readings(folder.path(), &ReadingsSpec::default());
    readings.watch_files();
    let mut file = OpenOptions::new().append(true).create(true).open(folder.path().join(READINGS_FILE)).unwrap();
    let (mut written_s, mut events) = (Vec::new(), Vec::new());
    for step in 1..=5 {
        thread::sleep(Duration::from_millis(20));
        writeln!(file, "{{\"step\": {step}}}").unwrap();
        written_s.push(now_s());
    }
    thread::sleep(read_after);
    readings.finish(now_s(), &mut events);
    let step = |(time_s, event): &(f64, Event)| matches!(event, Event::Step { .. }).then_some(*time_s);
    (events.iter().filter_map(step).collect(), written_s)
}

#[test]
fn steps_of_a_file_have_the_times_at_which_they_were_written_whenever_it_is_read() {
    // On a busy machine a write is seen late: some go has a time for each.
    let has_times = (1..=10_u32).any(|go| {
        let (found_s, written_s) = written_one_by_one(Duration::from_millis(100) * go);
        assert_eq!(found_s.len(), 5, "{found_s:?}");
        for (found_s, before_s) in found_s[1..].iter().zip(&written_s) {
            assert!(found_s > before_s, "no step ends before the one before it is written: {found_s:?} {written_s:?}");
        }
        found_s.windows(2).all(|pair| pair[1] > pair[0])
    });
    assert!(has_times, "steps that are written one by one have different times");
}

#[test]
fn steps_that_two_files_report_within_one_poll_are_joined_in_either_order_of_the_files() {
    for files in [["metrics.csv", "timing.jsonl"], ["timing.jsonl", "metrics.csv"]] {
        let folder = tempfile::tempdir().unwrap();
        let (mut readings, mut events) = (readings(folder.path(), &spec(&[], &files)), Vec::new());
        let append = |name: &str, text: &str| {
            let file = OpenOptions::new().append(true).create(true).open(folder.path().join(name));
            file.unwrap().write_all(text.as_bytes()).unwrap();
        };
        append("metrics.csv", "step,loss\n");
        for poll in 0..3 {
            for step in 10 * poll + 1..=10 * poll + 10 {
                append("metrics.csv", &format!("{step},0.5\n"));
                append("timing.jsonl", &format!("{{\"step\":{step},\"duration_s\":0.015,\"units\":64}}\n"));
            }
            readings.poll(101.0 + f64::from(poll), &mut events);
        }
        readings.finish(105.0, &mut events);
        let words = words(&events);
        for step in 1..=30 {
            let of_step = |word: &&String| word.starts_with(&format!("step {step}: "));
            let newest = words.iter().rfind(of_step).map(String::as_str);
            assert_eq!(newest, Some(format!("step {step}: 0.5 64 0.015").as_str()), "{files:?}: {words:?}");
        }
        assert!(words.contains(&"train_loss = 0.5 at None".to_owned()), "{words:?}");
        assert!(!words.iter().any(|word| word.contains("went back")), "{words:?}");
    }
}

#[test]
fn what_was_declared_and_never_came_is_said_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut readings = readings(folder.path(), &spec(&["loss (?<loss>.+)"], &["a.csv", "b.jsonl", "logs/"]));
    let mut events = Vec::new();
    readings.output(Stream::Output, b"nothing\n", 101.0);
    readings.poll(101.0, &mut events);
    assert!(events.is_empty(), "{events:?}");
    readings.finish(102.0, &mut events);
    let message = words(&events).join("\n");
    for part in [
        "does not match the only line of output",
        "a.csv: the program wrote no rows",
        "b.jsonl: the program wrote no lines",
        "logs/",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a.csv")).unwrap();
    let mut readings = readings(folder.path(), &spec(&[], &["a.csv"]));
    let mut events = Vec::new();
    readings.poll(101.0, &mut events);
    readings.poll(102.0, &mut events);
    assert_eq!(events.len(), 1);
    assert!(words(&events)[0].contains("a.csv: it is not a regular file"), "{events:?}");
}

/// Bytes that programs print, and bytes that none should: every kind of line in pieces and mixed.
fn noise(random: &mut impl Rng) -> Vec<u8> {
    const PIECES: &[&[u8]] = &[
        b"{\"step\":",
        b"12",
        b",\"loss\":NaN}",
        b"}\n",
        b"{\"reading\":{\"a\":1}}\n",
        b"step ",
        b" loss ",
        b"0.5",
        b"-1e999",
        b"\r",
        b"\n",
        b"\x1b[31m",
        b"\x1b",
        b"{'loss': 0.5, 'epoch': 0.1}\n",
        b" 12/100 [00:03<00:22,  4.00it/s, loss=0.5]\r",
        b"\xff\xfe\x00",
        b",,,\n",
        b"step,loss\n",
        b"\"",
        b"1,2\n",
        "é".as_bytes(),
        b"99999999999999999999",
        b"epoch 0 ",
    ];
    let mut bytes = Vec::new();
    for _ in 0..random.next_u32() % 40 {
        let piece = PIECES[random.next_u32() as usize % PIECES.len()];
        match random.next_u32() % 8 {
            0 => bytes.extend((0..random.next_u32() % 50).map(|_| random.next_u32() as u8)),
            1 => bytes.extend(piece.repeat(1 + random.next_u32() as usize % 300)),
            _ => bytes.extend_from_slice(piece),
        }
    }
    bytes
}

#[test]
fn whatever_a_program_writes_its_steps_are_whole_and_nothing_breaks() {
    let golden = fs::read("tests/golden/tensorboard/events.out.tfevents.tensor").unwrap();
    for seed in 0..15 {
        let random = &mut rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let folder = tempfile::tempdir().unwrap();
        let patterns = [r"step (?<step>\S+)", r"loss (?<loss>\S+)", r"epoch (?<epoch>\d+)"];
        let spec = if seed % 3 == 0 {
            ReadingsSpec::default()
        } else {
            spec(&patterns, &["a.csv", "b.jsonl", "events.out.tfevents.1"])
        };
        let mut readings = readings(folder.path(), &spec);
        let mut events = Vec::new();
        for poll in 0..20 {
            let now_s = 100.0 + f64::from(random.next_u32() % 50) - f64::from(poll % 2) * 20.0;
            readings.output(Stream::Output, &noise(random), now_s);
            readings.output(Stream::Error, &noise(random), now_s);
            for name in ["a.csv", "b.jsonl", "readings.jsonl", "events.out.tfevents.1"] {
                let mut file = OpenOptions::new().append(true).create(true).open(folder.path().join(name)).unwrap();
                let bytes = if name.contains("tfevents") && poll < 10 {
                    let cut = random.next_u32() as usize % golden.len();
                    golden[..cut].to_vec()
                } else {
                    noise(random)
                };
                file.write_all(&bytes).unwrap();
                if random.next_u32().is_multiple_of(9) {
                    file.set_len(u64::from(random.next_u32() % 100)).unwrap();
                }
            }
            readings.poll(now_s, &mut events);
        }
        readings.finish(200.0, &mut events);
        for (_, event) in &events {
            if let Event::Step { step, epoch, duration_s, .. } = event {
                assert!(
                    *step > 0 && *epoch > 0 && duration_s.is_finite() && *duration_s >= 0.0,
                    "seed {seed}: {event:?}"
                );
            }
            let line = crate::protocol::EventLine { run: "r".into(), rank: 0, time_s: 0.0, event: event.clone() };
            let read = crate::protocol::read_event_line(&serde_json::to_vec(&line).unwrap());
            assert!(read.is_ok(), "seed {seed}: {event:?}: {read:?}");
        }
        let warnings = events.iter().filter(|(_, event)| matches!(event, Event::Warning { .. })).count();
        assert!(warnings < 100, "seed {seed}: {warnings} warnings");
    }
}

/// Runs a Python program beside the adapter, and gives the events of its readings.
fn python(folder: &Path, program: &str, variables: &[(&str, &str)]) -> Vec<String> {
    fs::write(folder.join("multicard_readings.py"), PYTHON_ADAPTER).unwrap();
    let output = Command::new("python3")
        .args(["-B", "-c", program])
        .current_dir(folder)
        .env_remove(READINGS_VARIABLE)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut events, mut readings) = (Vec::new(), readings(folder, &ReadingsSpec::default()));
    readings.finish(1e10, &mut events);
    words(&events)
}

const LOOP: &str = "
from multicard_readings import run
for number in range(3):
    with run.step(units=4) as step:
        step['loss'], step['lr'] = 1.0 / (number + 1), 0.5
run.say(phase='evaluate')
run.say(epoch=1, reading={'accuracy': 0.75})
";

#[test]
fn the_python_module_writes_what_is_read_here() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(READINGS_FILE);
    let warnings =
        python(folder.path(), LOOP, &[(READINGS_VARIABLE, file.to_str().unwrap()), ("WORLD_SIZE", "2"), ("RANK", "0")]);
    let losses: Vec<_> =
        warnings.iter().filter(|word| word.starts_with("step")).map(|word| &word[..word.len().min(11)]).collect();
    assert_eq!(losses, ["step 1: 1 8", "step 2: 0.5", "step 3: 0.3"], "{warnings:?}");
    for part in ["lr = 0.5 at Some(3)", "Evaluate", "accuracy = 0.75 at None"] {
        assert!(warnings.iter().any(|word| word == part), "{part}: {warnings:?}");
    }
}

/// Two epochs of two steps of the training and three of an evaluation.
const PHASES: &str = "
from multicard_readings import run
for epoch in (1, 2):
    for phase, steps in (('train', 2), ('val', 3)):
        for _ in range(steps):
            with run.step(epoch=epoch, phase=phase) as step:
                step['loss'] = 0.5
";

#[test]
fn the_python_module_numbers_the_steps_of_the_training_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(READINGS_FILE);
    let words = python(folder.path(), PHASES, &[(READINGS_VARIABLE, file.to_str().unwrap())]);
    let steps: Vec<&str> = words.iter().filter(|word| word.starts_with("step ")).map(|word| &word[..6]).collect();
    assert_eq!(steps, ["step 1", "step 2", "step 3", "step 4"], "{words:?}");
    let lines = fs::read_to_string(&file).unwrap();
    let numbered: Vec<bool> = lines.lines().map(|line| line.contains("\"step\"")).collect();
    let of_epoch = [true, true, false, false, false];
    assert_eq!(numbered, [of_epoch, of_epoch].concat(), "{lines}");
}

#[test]
fn steps_of_the_python_module_are_of_the_phase_that_was_named_last() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(READINGS_FILE);
    let program = "
from multicard_readings import run
for epoch in range(2):
    for phase, loss in ('train', 2.0), ('evaluate', 3.0):
        run.say(phase=phase)
        for number in range(3):
            with run.step(phase=None) as step:
                step['loss'] = loss
";
    let words = python(folder.path(), program, &[(READINGS_VARIABLE, file.to_str().unwrap())]);
    let steps: Vec<&str> = words.iter().filter(|word| word.starts_with("step ")).map(|word| &word[..9]).collect();
    assert_eq!(steps, (1..=6).map(|step| format!("step {step}: 2")).collect::<Vec<_>>(), "{words:?}");
    let losses = words.iter().filter(|word| word.starts_with("test_loss = 3 ")).count();
    assert_eq!(losses, 2, "{words:?}");
    assert!(!words.iter().any(|word| word.contains("report the phase train")), "{words:?}");
}

#[test]
fn the_python_module_is_silent_beside_another_rank_and_without_the_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(READINGS_FILE);
    let of_others: [&[(&str, &str)]; 5] = [
        &[("RANK", "1")],
        &[("SLURM_PROCID", "2"), ("LOCAL_RANK", "0")],
        &[("SLURM_PROCID", "0"), ("LOCAL_RANK", "1")],
        &[("LOCAL_RANK", "1")],
        &[("LOCAL_RANK", "0"), ("NODE_RANK", "1")],
    ];
    for variables in of_others {
        let variables = [&[(READINGS_VARIABLE, file.to_str().unwrap())], variables].concat();
        assert!(python(folder.path(), LOOP, &variables).is_empty(), "{variables:?}");
    }
    assert!(python(folder.path(), LOOP, &[]).is_empty());
    assert!(!file.exists());
}

#[test]
fn the_python_module_counts_the_units_of_ranks_that_are_started_after_it_was_imported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(READINGS_FILE);
    // Lightning's launcher starts the other ranks from the first one.
    let program = LOOP.replace("run\nfor", "run\nimport os\nos.environ.update(WORLD_SIZE='2', LOCAL_RANK='0')\nfor");
    let words = python(folder.path(), &program, &[(READINGS_VARIABLE, file.to_str().unwrap())]);
    assert!(words.iter().any(|word| word.starts_with("step 1: 1 8")), "{words:?}");
}

#[test]
fn the_python_module_is_short() {
    assert!(PYTHON_ADAPTER.lines().count() <= 60);
}
