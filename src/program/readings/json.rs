//! Readings from JSON lines: the file that `$MULTICARD_READINGS` names, and files of the program's own.

use std::cell::Cell;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::fields::{Fields, Names, shown};
use super::growing::{Growing, Part};
use super::records::Records;
use super::{Found, Lines, Source};
use crate::plan::command::ReadingsSpec;

/// JSON lines that a program appends to a file.
pub(super) struct JsonLines {
    file: Growing,
    lines: Lines,
    names: Names,
    records: Records,
    /// Whether the plan declares the file, so that its absence is reported.
    is_declared: bool,
}

impl JsonLines {
    /// The file that `$MULTICARD_READINGS` names.
    pub fn of_program(path: PathBuf) -> Self {
        Self::read(Growing::new(path), Names::default(), false)
    }

    /// A file of the program's own, whose present contents are skipped.
    pub fn declared(path: PathBuf, spec: &ReadingsSpec) -> Self {
        Self::read(Growing::after_now(path, false).0, Names::new(&spec.names, true), true)
    }

    fn read(file: Growing, names: Names, is_declared: bool) -> Self {
        Self { file, lines: Lines::new(), names, records: Records::new("line"), is_declared }
    }
}

impl Source for JsonLines {
    fn watch(&mut self) {
        self.file.watch();
    }

    fn poll(&mut self, last: bool, now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        let Self { file, lines, names, records, is_declared } = self;
        let name = file.name();
        let written_s = Cell::new(now_s);
        let mut take = |_: u64, line: &str| {
            let read = object(line).and_then(|object| fields(&object, names, &name, found));
            records.take(read, |number| format!("{name}:{number}"), written_s.get(), found);
        };
        file.read(last, |part| match part {
            Part::Anew => *lines = Lines::new(),
            Part::Bytes(bytes, at_s) => {
                written_s.set(at_s.unwrap_or(now_s));
                lines.push(bytes, &mut take);
            }
        })?;
        if last {
            lines.finish(&mut take);
            records.end(file, *is_declared, found);
        }
        Ok(())
    }
}

/// The object in a line.
pub(super) fn object(line: &str) -> Result<Map<String, Value>, String> {
    let parsed = serde_json::from_str(line).or_else(|error| {
        // Python's json module and printf of C write numbers that are not valid JSON.
        serde_json::from_str(&without_nan(line)).map_err(|_| error)
    });
    match parsed {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("{} is not an object, such as {{\"step\": 1, \"loss\": 0.5}}", shown(line))),
        Err(error) => Err(format!("{} is not JSON: {error}", shown(line))),
    }
}

/// Numbers that are not finite, as Python and C write them, in lower case; a number comes before those that it begins with.
const NOT_FINITE: [&str; 7] = ["-infinity", "infinity", "-inf", "inf", "-nan(ind)", "-nan", "nan"];

/// The line with `null` in place of numbers that are not finite, outside of strings.
fn without_nan(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let (mut rest, mut in_text) = (line, false);
    while let Some(letter) = rest.chars().next() {
        let begins = |number: &str| rest.get(..number.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(number));
        let number = NOT_FINITE.iter().find(|number| !in_text && begins(number));
        let length = match (number, letter) {
            (Some(number), _) => {
                plain.push_str("null");
                rest = &rest[number.len()..];
                continue;
            }
            (None, '\\') => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, letter) => letter.len_utf8(),
        };
        in_text ^= letter == '"';
        plain.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    plain
}

/// The fields of a line: its numbers, and the numbers of the object `reading` in it. Texts that are numbers count as numbers; other texts,
/// lists and objects are ignored.
pub(super) fn fields(
    object: &Map<String, Value>,
    names: &mut Names,
    origin: &str,
    found: &mut Vec<Found>,
) -> Result<Fields, String> {
    let mut fields = Fields::default();
    object.keys().for_each(|name| names.see(name, origin, found));
    for (name, value) in object {
        match value {
            Value::Object(readings) if name == "reading" || name == "readings" => {
                for (key, value) in readings {
                    let value = number(value).ok_or_else(|| format!("the reading {key} is not a number"))?;
                    fields.reading(key, value);
                }
            }
            Value::String(text) => {
                if let Some(meaning) = names.meaning_of_text(name, text, origin, found) {
                    fields.text(meaning, text)?;
                }
            }
            Value::Bool(on) => {
                if names.meaning(name, origin, found) == "warm_up" {
                    fields.number("warm_up", f64::from(u8::from(*on)))?;
                }
            }
            _ => match number(value) {
                Some(value) => fields.number(names.meaning(name, origin, found), value)?,
                None if super::fields::WORDS.contains(&name.as_str()) => {
                    return Err(format!("{name} is not a number"));
                }
                None => {}
            },
        }
    }
    Ok(fields)
}

/// A number, or a text that is one; `null` becomes NaN.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Null => Some(f64::NAN),
        Value::String(text) => text.trim().parse().ok(),
        _ => value.as_f64(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{FoundStep, NamedPhase};
    use super::*;
    use crate::protocol::Phase;

    fn read(text: &str) -> Vec<Found> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("readings.jsonl");
        std::fs::write(&path, text).unwrap();
        let (mut source, mut found) = (JsonLines::of_program(path), Vec::new());
        source.poll(false, 7.0, &mut found).unwrap();
        source.poll(true, 8.0, &mut found).unwrap();
        found
    }

    #[test]
    fn lines_are_steps_readings_and_phases() {
        let found = read(concat!(
            r#"{"phase":"train","time_s":1}"#,
            "\n",
            r#"{"step":3,"steps":9,"epoch":1,"loss":0.5,"units":64,"duration_s":0.1,"wait_s":0.01,"time_s":2,"warm_up":true}"#,
            "\n",
            r#"{"reading":{"accuracy":0.9},"epoch":1}"#,
            "\n",
            r#"{"step":4,"loss":NaN,"note":"NaN, \"Infinity\"","list":[1]}"#,
        ));
        let step = FoundStep {
            step: Some(3),
            steps: Some(9),
            epoch: Some(1.0),
            duration_s: Some(0.1),
            is_untimed: false,
            wait_s: Some(0.01),
            loss: Some(0.5),
            is_mean_loss: false,
            units: Some(64.0),
            warm_up: Some(true),
            phase: None,
            is_guessed: false,
            at_s: 2.0,
            read_s: Some(7.0),
            is_rounded: false,
        };
        let training = NamedPhase { phase: Phase::Steady, name: "train" };
        assert_eq!(found[0], Found::Phase { phase: training, at_s: 1.0 });
        assert_eq!(found[1], Found::Step(step));
        assert_eq!(found[2], Found::Reading { key: "accuracy".into(), value: 0.9, step: None, epoch: Some(1.0) });
        assert_eq!(found[3], Found::Epoch(1.0));
        let Found::Step(step) = found[4] else { panic!("{found:?}") };
        assert!(step.loss.unwrap().is_nan() && step.at_s == 8.0, "without a line break it was read last");
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn readings_that_are_texts_of_numbers_are_numbers() {
        let found =
            read("{\"accuracy\":\"NaN\",\"note\":\"best\"}\n{\"score\":\" 0.1 \",\"reading\":{\"f1\":\"0.5\"}}\n");
        let values: Vec<(&str, f64)> = found
            .iter()
            .map(|found| match found {
                Found::Reading { key, value, .. } => (&**key, *value),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(values[0].0 == "accuracy" && values[0].1.is_nan(), "{values:?}");
        assert_eq!(values[1..], [("f1", 0.5), ("score", 0.1)]);
        let refused = format!("{:?}", read("{\"reading\":{\"f1\":\"high\"}}\n"));
        assert!(refused.contains("readings.jsonl:1: the reading f1 is not a number"), "{refused}");
    }

    #[test]
    fn a_line_with_the_loss_of_an_evaluation_and_neither_step_nor_phase_tells_the_end_of_the_evaluation() {
        let line = "{\"step\":10,\"val_loss\":2.5}\n";
        let loss = Found::Reading { key: "val_loss".into(), value: 2.5, step: Some(10), epoch: None };
        assert_eq!(read(line), [loss, Found::Evaluated { step: Some(10), at_s: 7.0 }]);
        let timed = read("{\"reading\":{\"eval/loss\":2.5},\"time_s\":5}\n");
        assert_eq!(timed[1], Found::Evaluated { step: None, at_s: 5.0 });
        for other in ["\"loss\":0.5", "\"duration_s\":0.5", "\"phase\":\"evaluate\""] {
            let found = read(&line.replace('{', &format!("{{{other},")));
            assert!(!found.iter().any(|found| matches!(found, Found::Evaluated { .. })), "{found:?}");
        }
    }

    #[test]
    fn rank_0_counts() {
        let found = read("{\"rank\":1,\"step\":1,\"loss\":1}\n{\"rank\":0,\"step\":1,\"loss\":2}\n");
        assert!(matches!(&found[..], [Found::Step(step)] if step.loss == Some(2.0)), "{found:?}");
    }

    #[test]
    fn lines_of_other_ranks_alone_are_told_to_count_nothing() {
        let found = read("{\"rank\":1,\"step\":1,\"loss\":1}\n{\"rank\":2,\"step\":1,\"loss\":2}\n");
        let [Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
        assert!(
            warning.starts_with("readings.jsonl: no line of rank 0") && warning.contains("2 lines of other ranks"),
            "{warning}"
        );
    }

    #[test]
    fn lines_that_an_earlier_run_wrote_count_if_the_program_writes_them_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let text = "{\"step\":1,\"loss\":2}\n";
        std::fs::write(&path, text).unwrap();
        let mut source = JsonLines::declared(path.clone(), &ReadingsSpec::default());
        std::fs::write(&path, text).unwrap();
        let mut found = Vec::new();
        source.poll(true, 7.0, &mut found).unwrap();
        let step = FoundStep { step: Some(1), loss: Some(2.0), at_s: 7.0, ..FoundStep::default() };
        assert_eq!(found, [Found::Step(step)]);
    }

    #[test]
    fn lines_that_cannot_be_read_are_named_and_many_are_counted() {
        let found = read(&format!("{{\"step\":\"x\"}}\n[1]\n{}", "{\"step\":1\n".repeat(9)));
        let warnings: Vec<&str> = found
            .iter()
            .map(|found| match found {
                Found::Warning(message) => message.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(warnings[0].starts_with("readings.jsonl:1: step is \"x\", but must be a number"), "{warnings:?}");
        assert!(warnings[1].contains("readings.jsonl:2: \"[1]\" is not an object"), "{warnings:?}");
        assert!(warnings[2].contains("is not JSON"), "{warnings:?}");
        assert_eq!(warnings[3], "readings.jsonl: 11 of 11 lines could not be read");
    }

    #[test]
    fn a_field_beside_another_name_for_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut source = JsonLines::declared(path.clone(), &ReadingsSpec::default());
        std::fs::write(&path, "{\"step\":1,\"loss\":2,\"train/loss\":7,\"global_step\":64}\n").unwrap();
        let mut found = Vec::new();
        source.poll(true, 7.0, &mut found).unwrap();
        let step = FoundStep { step: Some(1), loss: Some(2.0), at_s: 7.0, ..FoundStep::default() };
        let reading = |key: &str, value| Found::Reading { key: key.into(), value, step: Some(1), epoch: None };
        assert_eq!(found, [Found::Step(step), reading("global_step", 64.0), reading("train/loss", 7.0)]);
    }

    #[test]
    fn a_usual_name_of_the_time_with_dates_gives_the_times_of_steps_and_with_other_texts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut source = JsonLines::declared(path.clone(), &ReadingsSpec::default());
        let lines = [
            r#"{"timestamp":"soon","step":1}"#,
            r#"{"timestamp":"2026-11-26T08:30:00.5Z","step":2}"#,
            r#"{"time_s":"soon","step":3}"#,
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let mut found = Vec::new();
        source.poll(true, 7.0, &mut found).unwrap();
        let [Found::Step(first), Found::Warning(guess), Found::Step(second), rest @ ..] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((first.at_s, first.read_s, second.at_s, second.read_s), (7.0, None, 1_795_681_800.5, Some(7.0)));
        assert!(guess.starts_with("log.jsonl: \"timestamp\" was taken for time_s"), "{guess}");
        let rest = format!("{rest:?}");
        assert!(rest.contains("log.jsonl:3: time_s is \\\"soon\\\", but must be a number"), "{rest}");
    }

    #[test]
    fn a_text_that_tells_training_and_validation_apart_is_the_phase_of_a_step_and_a_number_of_that_name_is_a_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut source = JsonLines::declared(path.clone(), &ReadingsSpec::default());
        std::fs::write(&path, "{\"split\":\"val\",\"step\":1,\"loss\":5}\n{\"stage\":2,\"mode\":true,\"step\":1}\n")
            .unwrap();
        let mut found = Vec::new();
        source.poll(true, 7.0, &mut found).unwrap();
        let phase = NamedPhase::of("val");
        let step = FoundStep { step: Some(1), loss: Some(5.0), phase, at_s: 7.0, ..FoundStep::default() };
        let [Found::Warning(guess), rest @ ..] = &found[..] else { panic!("{found:?}") };
        assert!(guess.starts_with("log.jsonl: \"split\" was taken for phase"), "{guess}");
        let stage = Found::Reading { key: "stage".into(), value: 2.0, step: Some(1), epoch: None };
        assert_eq!(rest, [Found::Step(step), stage]);
    }

    #[test]
    fn words_of_texts_are_kept_where_they_look_like_numbers_of_python() {
        let line = r#"{"loss":NaN,"least":-Infinity,"note":"NaN, \"Infinity\"","most":Infinity}"#;
        assert_eq!(without_nan(line), r#"{"loss":null,"least":null,"note":"NaN, \"Infinity\"","most":null}"#);
        let of_c = r#"{"nan":nan,"b":-nan,"c":inf,"d":-inf,"e":-nan(ind),"f":-1,"inf":Inf}"#;
        assert_eq!(without_nan(of_c), r#"{"nan":null,"b":null,"c":null,"d":null,"e":null,"f":-1,"inf":null}"#);
    }
}
