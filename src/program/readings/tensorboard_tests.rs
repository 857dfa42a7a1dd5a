use std::fs;
use std::io::Write;

use super::super::FoundStep;
use super::*;

const GOLDEN: &str = "tests/golden/tensorboard";

/// The numbers that the file's writer was given: tag, step, time, value.
fn expected(name: &str) -> Vec<Scalar> {
    let text = fs::read_to_string(format!("{GOLDEN}/{name}.json")).unwrap();
    let rows: Vec<(String, u64, f64, Option<f64>)> = serde_json::from_str(&text).unwrap();
    let scalar = |(tag, step, time_s, value): (_, _, _, Option<f64>)| Scalar {
        tag,
        step,
        time_s,
        value: value.unwrap_or(f64::NAN),
    };
    rows.into_iter().map(scalar).collect()
}

fn golden(name: &str) -> Vec<u8> {
    fs::read(format!("{GOLDEN}/events.out.tfevents.{name}")).unwrap()
}

/// What is read of a file that grows by these pieces, and what is said to be damaged.
fn read(pieces: &[&[u8]]) -> (Vec<Scalar>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let mut writer = fs::File::create(&path).unwrap();
    let (mut file, mut scalars, mut damages) = (EventFile::new(Growing::new(path)), Vec::new(), Vec::new());
    for piece in pieces {
        writer.write_all(piece).unwrap();
        file.read(true, &mut |scalar| scalars.push(scalar)).unwrap();
        damages.extend(file.damage.take());
    }
    (scalars, damages)
}

/// A record with its checksums.
fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length, masked_crc(&length).to_le_bytes().as_slice(), data, &masked_crc(data).to_le_bytes()].concat()
}

#[test]
fn files_of_tensorboard_give_the_numbers_that_were_written() {
    for name in ["simple", "tensor"] {
        let (found, damages) = read(&[&golden(name)]);
        // NaN differs from itself.
        assert_eq!(format!("{found:?}"), format!("{:?}", expected(name)), "{name}");
        assert!(damages.is_empty(), "{damages:?}");
    }
}

#[test]
fn a_growing_file_is_read_record_by_record_wherever_it_is_torn() {
    let bytes = golden("simple");
    let whole = format!("{:?}", expected("simple"));
    for cut in (0..bytes.len()).step_by(7) {
        let (found, damages) = read(&[&bytes[..cut], &bytes[cut..]]);
        assert_eq!((format!("{found:?}"), damages.is_empty()), (whole.clone(), true), "cut at {cut}");
        let (found, damages) = read(&[&bytes[..cut]]);
        assert!(damages.is_empty() && whole.starts_with(format!("{found:?}").trim_end_matches(']')), "torn at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(format!("{:?}", read(&single).0), whole);
}

#[test]
fn damage_is_named_and_what_can_be_read_is() {
    let bytes = golden("simple");
    let all = expected("simple").len();
    let (mut framing, mut data) = (0, 0);
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        let (found, damages) = read(&[&damaged]);
        assert!(found.len() <= all, "{place}");
        // A length that is damaged ends what can be read, as nobody knows where the next record starts.
        match &damages[..] {
            [damage] if damage.contains("what follows is left out") => framing += 1,
            [damage] if damage.contains("is damaged and was left out") => data += 1,
            other => panic!("{place}: {other:?}"),
        }
    }
    assert!(framing > 0 && data > framing);
}

#[test]
fn a_large_record_is_skipped_and_the_next_is_read() {
    let bytes = golden("simple");
    let image = framed(&vec![7; LARGEST_RECORD as usize + 3]);
    let joined = [image.as_slice(), &bytes].concat();
    let pieces: Vec<&[u8]> = joined.chunks(1 << 20).collect();
    let (found, damages) = read(&pieces);
    assert_eq!(format!("{found:?}"), format!("{:?}", expected("simple")), "{damages:?}");
}

#[test]
fn what_is_not_an_event_is_left_out() {
    let bytes = golden("simple");
    let (found, damages) = read(&[&[framed(b"\xff\xff\xff"), framed(&[]), bytes].concat()]);
    assert_eq!(found.len(), expected("simple").len());
    assert_eq!(damages, ["the record at byte 0 was left out: it is not an event"]);
    let (found, damages) = read(&[b"GIF89a is no event file at all"]);
    assert_eq!(
        (found.len(), damages.as_slice()),
        (0, ["damaged at byte 0; what follows is left out".to_owned()].as_slice())
    );
}

#[test]
fn files_of_a_folder_are_found_as_they_appear_and_those_of_earlier_runs_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).join("events.out.tfevents.1");
    for name in ["old", "train", "validation"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    fs::write(file("old"), golden("simple")).unwrap();
    let mut source = EventFiles::declared(folder.path(), &ReadingsSpec::default());
    let mut found = Vec::new();
    source.poll(false, 0.0, &mut found).unwrap();
    assert!(found.is_empty());
    fs::write(file("train"), golden("simple")).unwrap();
    fs::write(file("validation"), golden("tensor")).unwrap();
    source.poll(true, 0.0, &mut found).unwrap();
    let first = expected("simple").into_iter().find(|scalar| scalar.tag == "train/loss").unwrap();
    let (step, loss) = (Some(first.step), Some(first.value));
    let step = FoundStep { step, loss, at_s: first.time_s, read_s: Some(0.0), ..FoundStep::default() };
    assert!(found.contains(&Found::Step(step)), "{found:?}");
    let of_folder =
        found.iter().any(|found| matches!(found, Found::Reading { key, .. } if key.starts_with("validation/")));
    assert!(of_folder, "{found:?}");
    let guessed = found
        .iter()
        .any(|found| matches!(found, Found::Warning(warning) if warning.contains("\"train/loss\" was taken for loss")));
    assert!(guessed, "{found:?}");
}

/// A record with a scalar, logged at 100 s.
fn scalar(tag: &str, step: u8, value: f32) -> Vec<u8> {
    scalar_at(100.0, tag, step, value)
}

/// A record with a scalar that was logged at this time.
fn scalar_at(at_s: f64, tag: &str, step: u8, value: f32) -> Vec<u8> {
    let within = |field: u8, bytes: &[u8]| [&[field, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let value = [within(0x0a, tag.as_bytes()).as_slice(), &[0x15], &value.to_le_bytes()].concat();
    let summary = within(0x2a, &within(0x0a, &value));
    framed(&[&[0x09], at_s.to_le_bytes().as_slice(), &[0x10, step], &summary].concat())
}

/// What a program's event files come to: those of each list are written before a poll. Gives the losses of steps and the keys of readings.
fn files(polls: &[&[(&str, &str)]]) -> (Vec<f64>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    let (mut source, mut found) = (EventFiles::declared(&logs, &ReadingsSpec::default()), Vec::new());
    for files in polls {
        for (name, tag) in *files {
            fs::create_dir_all(logs.join(name)).unwrap();
            // The first letter of a folder's path is its loss.
            let loss = f32::from(name.bytes().next().unwrap_or_default());
            fs::write(logs.join(name).join("events.out.tfevents.1"), scalar(tag, 1, loss)).unwrap();
        }
        (0..LOOK_EVERY).for_each(|_| source.poll(false, 0.0, &mut found).unwrap());
    }
    source.poll(true, 0.0, &mut found).unwrap();
    let losses = found.iter().filter_map(|found| if let Found::Step(step) = found { step.loss } else { None });
    let keys = found.iter().filter_map(|found| match found {
        Found::Reading { key, .. } => Some(key.to_string()),
        _ => None,
    });
    (losses.collect(), keys.collect())
}

#[test]
fn the_loss_of_an_evaluation_is_no_loss_of_training_whichever_of_their_files_appears_first() {
    let (training, evaluation) = (("", "loss"), ("eval", "loss"));
    let expected = (vec![0.0], vec!["eval/loss".to_owned()]);
    assert_eq!(files(&[&[training, evaluation]]), expected);
    assert_eq!(files(&[&[evaluation], &[training]]), expected);
    assert_eq!(files(&[&[training], &[evaluation]]), expected);
    // In the order of their names, all others come behind the evaluation.
    let others = [("Val_1", "loss"), ("train", "loss"), ("z/test", "loss")];
    let keys = vec!["Val_1/loss".to_owned(), "z/test/loss".to_owned()];
    assert_eq!(files(&[&others]), (vec![f64::from(b't')], keys));
    // The name of an experiment.
    assert_eq!(files(&[&[("test", "loss")]]), (vec![f64::from(b't')], Vec::new()));
    assert_eq!(files(&[&[("train", "loss")], &[("", "loss")]]), (vec![f64::from(b't')], vec!["logs/loss".to_owned()]));
}

#[test]
fn tags_that_are_called_like_the_step_and_the_time_of_a_record_are_readings() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = EventFiles::declared(folder.path(), &ReadingsSpec::default());
    let tags = ["step", "global_step", "timestamp"];
    let records: Vec<Vec<u8>> = tags.iter().map(|tag| scalar(tag, 3, 64.0)).chain([scalar("loss", 3, 0.5)]).collect();
    fs::write(folder.path().join("events.out.tfevents.1"), records.concat()).unwrap();
    let mut found = Vec::new();
    source.poll(true, 0.0, &mut found).unwrap();
    let step = FoundStep { step: Some(3), loss: Some(0.5), at_s: 100.0, read_s: Some(0.0), ..FoundStep::default() };
    let reading = |tag: &str| Found::Reading { key: tag.into(), value: 64.0, step: Some(3), epoch: None };
    let expected: Vec<Found> = tags.iter().map(|tag| reading(tag)).chain([Found::Step(step)]).collect();
    assert_eq!(found, expected);
}

#[test]
fn an_epoch_beside_values_of_an_evaluation_ends_no_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = EventFiles::declared(folder.path(), &ReadingsSpec::default());
    // PyTorch Lightning logs each 50th step, and evaluates after step 75.
    let records = [
        scalar("train_loss", 49, 0.5),
        scalar("epoch", 49, 0.0),
        scalar("val_loss", 74, 0.75),
        scalar("epoch", 74, 0.0),
        scalar("train_loss", 99, 0.25),
        scalar("val_loss", 99, 0.5),
        scalar("epoch", 99, 1.0),
    ];
    fs::write(folder.path().join("events.out.tfevents.1"), records.concat()).unwrap();
    let mut found = Vec::new();
    source.poll(true, 0.0, &mut found).unwrap();
    let of_step = |found: &Found| if let Found::Step(step) = found { Some((step.step, step.epoch)) } else { None };
    let steps: Vec<_> = found.iter().filter_map(of_step).collect();
    assert_eq!(steps, [(Some(49), None), (Some(49), Some(0.0)), (Some(99), None), (Some(99), Some(1.0))], "{found:?}");
}

#[test]
fn an_evaluation_in_a_file_of_its_own_ends_between_the_steps_that_were_made_before_and_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = EventFiles::declared(folder.path(), &ReadingsSpec::default());
    fs::create_dir(folder.path().join("eval")).unwrap();
    let steps = [scalar_at(100.0, "loss", 1, 0.5), scalar_at(102.0, "loss", 2, 0.25)];
    fs::write(folder.path().join("events.out.tfevents.1"), steps.concat()).unwrap();
    fs::write(folder.path().join("eval/events.out.tfevents.1"), scalar_at(101.0, "loss", 1, 0.75)).unwrap();
    let mut found = Vec::new();
    source.poll(true, 110.0, &mut found).unwrap();
    found.retain(|found| !matches!(found, Found::Reading { .. }));
    let step = |number, loss, at_s| {
        let step =
            FoundStep { step: Some(number), loss: Some(loss), at_s, read_s: Some(110.0), ..FoundStep::default() };
        Found::Step(step)
    };
    let evaluated = Found::Evaluated { step: Some(1), at_s: 101.0 };
    assert_eq!(found, [step(1, 0.5, 100.0), evaluated, step(2, 0.25, 102.0)]);
}

#[test]
fn a_tag_that_is_called_loss_counts_before_others_that_mean_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = EventFiles::declared(folder.path(), &ReadingsSpec::default());
    let records: Vec<Vec<u8>> = (1..=2).flat_map(|n| [scalar("train/loss", n, 9.0), scalar("loss", n, 0.5)]).collect();
    fs::write(folder.path().join("events.out.tfevents.1"), records.concat()).unwrap();
    let mut found = Vec::new();
    source.poll(true, 0.0, &mut found).unwrap();
    let losses: Vec<_> =
        found.iter().filter_map(|found| if let Found::Step(step) = found { step.loss } else { None }).collect();
    assert_eq!(losses, [9.0, 0.5, 0.5], "the step's own loss replaces the guess: {found:?}");
    assert!(found.iter().any(|found| matches!(found, Found::Reading { key, .. } if *key == "train/loss")), "{found:?}");
}

#[test]
fn folders_are_searched_to_a_depth_of_five() {
    let folder = tempfile::tempdir().unwrap();
    let mut deepest = folder.path().to_owned();
    // The last file is one folder too deep.
    let mut expected: Vec<_> = (0..=DEPTH + 1)
        .map(|depth| {
            let file = deepest.join("events.out.tfevents.1");
            fs::write(&file, "").unwrap();
            deepest.push(format!("{depth}"));
            fs::create_dir(&deepest).unwrap();
            file
        })
        .collect();
    assert!(expected.pop().is_some_and(|file| file.is_file()));
    let mut found = event_files(folder.path());
    found.sort_by_key(|file| file.components().count());
    assert_eq!((found.len(), found), (6, expected));
}

#[test]
fn a_tensor_with_empty_contents_has_its_number_in_its_list() {
    let number = 0.25_f32.to_le_bytes();
    // Field 1: the type, a float. Field 4: no contents. Field 5: the list of numbers.
    let tensor = [&[0x08, 1, 0x22, 0, 0x2d][..], &number].concat();
    assert_eq!(number_of(&tensor), Ok(Some(0.25)));
    let contents = [&[0x08, 1, 0x22, 4][..], &number].concat();
    assert_eq!(number_of(&contents), Ok(Some(0.25)));
}
