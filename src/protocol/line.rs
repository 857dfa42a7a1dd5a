//! Reader of the lines of a rank's log, in this protocol or protocol 1.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::event::number_or_null;
use super::possible::{check_duration, check_moment, check_step};
use super::{Event, EventLine};
use crate::plan::Key;

/// Maximum length of a reading's key.
pub const MAX_KEY_BYTES: usize = 100;

/// Parses one line of a rank's log, given without its line break. A line of protocol 1 may hold several events.
///
/// # Errors
/// The line is not JSON, names an unknown event, lacks a field, holds an impossible value, or its reading's key is empty or longer than
/// [`MAX_KEY_BYTES`].
pub fn read_event_line(line: &[u8]) -> Result<Vec<EventLine>, String> {
    if let Ok(step) = serde_json::from_slice::<StepLine>(line) {
        return checked(step.into()).map(|line| vec![line]);
    }
    if let Ok(reading) = serde_json::from_slice::<ReadingLine>(line) {
        return checked(reading.into()).map(|line| vec![line]);
    }
    if is_protocol_1(line) {
        return serde_json::from_slice::<Protocol1Line>(line)
            .map_err(|error| error.to_string())
            .and_then(|line| line.adapt().into_iter().map(checked).collect());
    }
    let line: EventLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    checked(line).map(|line| vec![line])
}

/// How a rank begins each line of its log. No text in an event contains this, because quotation marks within texts are escaped.
const BEGINNING: &[u8] = br#"{"run":""#;

/// Where the event of a line begins. Several ranks may write one log: before the event, there may be pieces of lines that other ranks could
/// not finish, because the disk was full or because they were killed. 0 if there is nothing before the event.
pub fn event_start(line: &[u8]) -> usize {
    line.windows(BEGINNING.len()).rposition(|part| part == BEGINNING).unwrap_or(0)
}

/// Rejects impossible values, and readings without a key.
fn checked(line: EventLine) -> Result<EventLine, String> {
    check_moment(line.time_s)?;
    match &line.event {
        Event::Step { step, steps, duration_s, load_wait_s, .. } => {
            check_step("step", *step)?;
            check_step("steps", *steps)?;
            check_duration("duration_s", *duration_s)?;
            // NaN means that the program does not report its waiting time.
            if !load_wait_s.is_nan() {
                check_duration("load_wait_s", *load_wait_s)?;
            }
            Ok(line)
        }
        Event::Finished { duration_s } => check_duration("duration_s", *duration_s).map(|()| line),
        Event::Reading { key, .. } if key.is_empty() || key.len() > MAX_KEY_BYTES => {
            Err(format!("the key of a reading has {} bytes, it must have 1 to {MAX_KEY_BYTES}", key.len()))
        }
        Event::Reading { step: Some(step), .. } => check_step("step", *step).map(|()| line),
        _ => Ok(line),
    }
}

/// Flat form of a step's line. It repeats the fields of [`Event::Step`] for speed: nearly all lines are steps and readings,
/// and `serde(flatten)` in [`EventLine`] buffers every field until it knows the event.
#[derive(Deserialize)]
struct StepLine<'a> {
    run: &'a str,
    rank: u32,
    time_s: f64,
    #[serde(rename = "event")]
    _event: StepTag,
    epoch: u32,
    step: u64,
    steps: u64,
    duration_s: f64,
    #[serde(deserialize_with = "number_or_null")]
    load_wait_s: f64,
    #[serde(deserialize_with = "number_or_null")]
    loss: f64,
    #[serde(alias = "images")]
    units: u32,
    warm_up: bool,
    #[serde(default)]
    traced: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StepTag {
    Step,
}

impl From<StepLine<'_>> for EventLine {
    fn from(line: StepLine) -> Self {
        let StepLine { epoch, step, steps, duration_s, load_wait_s, loss, units, warm_up, traced, .. } = line;
        let event = Event::Step { epoch, step, steps, duration_s, load_wait_s, loss, units, warm_up, traced };
        Self { run: line.run.to_owned(), rank: line.rank, time_s: line.time_s, event }
    }
}

/// Flat form of a reading's line.
#[derive(Deserialize)]
struct ReadingLine<'a> {
    run: &'a str,
    rank: u32,
    time_s: f64,
    #[serde(rename = "event")]
    _event: ReadingTag,
    key: Key,
    #[serde(deserialize_with = "number_or_null")]
    value: f64,
    epoch: Option<u32>,
    step: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadingTag {
    Reading,
}

impl From<ReadingLine<'_>> for EventLine {
    fn from(line: ReadingLine) -> Self {
        let ReadingLine { key, value, epoch, step, .. } = line;
        let event = Event::Reading { key, value, epoch, step };
        Self { run: line.run.to_owned(), rank: line.rank, time_s: line.time_s, event }
    }
}

/// Line that only protocol 1 has. All its other lines parse as protocol 2; the `images` of a step are its units.
#[derive(Deserialize)]
struct Protocol1Line {
    run: String,
    rank: u32,
    time_s: f64,
    #[serde(flatten)]
    event: Protocol1Event,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Protocol1Event {
    Model {
        name: String,
        parameters: u64,
    },
    Epoch {
        epoch: u32,
        duration_s: f64,
        #[serde(deserialize_with = "number_or_null")]
        train_loss: f64,
        images: u64,
        received_bytes: u64,
        loader_start_s: f64,
        skipped_updates: u64,
    },
    Evaluation {
        epoch: u32,
        duration_s: f64,
        #[serde(deserialize_with = "number_or_null")]
        test_loss: f64,
        accuracy: f64,
        images: u64,
    },
    Memory {
        peak_allocated_bytes: u64,
        peak_reserved_bytes: u64,
        peak_active_bytes: u64,
        #[serde(default)]
        warm_up: bool,
    },
}

/// Whether a line has a form that only protocol 1 has.
fn is_protocol_1(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Named<'a> {
        event: &'a str,
        parameters: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Named>(line).is_ok_and(|named| match named.event {
        "epoch" | "evaluation" | "memory" => true,
        "model" => named.parameters.is_some(),
        _ => false,
    })
}

impl Protocol1Line {
    /// The same events in the form of protocol 2.
    fn adapt(self) -> Vec<EventLine> {
        let (model, epoch, readings) = match self.event {
            Protocol1Event::Model { name, parameters } => (Some(name), None, vec![("parameters", parameters as f64)]),
            Protocol1Event::Epoch {
                epoch,
                duration_s,
                train_loss,
                images,
                received_bytes,
                loader_start_s,
                skipped_updates,
            } => {
                let readings = vec![
                    ("epoch_time_s", duration_s),
                    ("train_loss", train_loss),
                    ("units", images as f64),
                    ("received_bytes", received_bytes as f64),
                    ("loader_start_s", loader_start_s),
                    ("skipped_updates", skipped_updates as f64),
                ];
                (None, Some(epoch), readings)
            }
            Protocol1Event::Evaluation { epoch, duration_s, test_loss, accuracy, images } => {
                let readings = vec![
                    ("evaluation_time_s", duration_s),
                    ("test_loss", test_loss),
                    ("accuracy", accuracy),
                    ("test_units", images as f64),
                ];
                (None, Some(epoch), readings)
            }
            // Libraries try their algorithms during warm-up; the other two peaks of protocol 1 were never used.
            Protocol1Event::Memory { warm_up: true, peak_allocated_bytes, .. } => {
                (None, None, vec![("warm_up_peak_bytes", peak_allocated_bytes as f64)])
            }
            Protocol1Event::Memory { peak_allocated_bytes, peak_reserved_bytes, peak_active_bytes, .. } => {
                let readings = vec![
                    ("peak_allocated_bytes", peak_allocated_bytes as f64),
                    ("peak_reserved_bytes", peak_reserved_bytes as f64),
                    ("peak_active_bytes", peak_active_bytes as f64),
                ];
                (None, None, readings)
            }
        };
        let reading = |(key, value)| Event::Reading { key: Key::from(key), value, epoch, step: None };
        let events = model.map(|name| Event::Model { name }).into_iter().chain(readings.into_iter().map(reading));
        let line = |event| EventLine { run: self.run.clone(), rank: self.rank, time_s: self.time_s, event };
        events.map(line).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::protocol::MOST_STEPS;

    fn read(event: &str) -> Result<Vec<Event>, String> {
        let line = format!(r#"{{"run":"r1","rank":3,"time_s":17.5,{event}}}"#);
        let lines = read_event_line(line.as_bytes())?;
        assert!(lines.iter().all(|line| (line.run.as_str(), line.rank, line.time_s) == ("r1", 3, 17.5)));
        Ok(lines.into_iter().map(|line| line.event).collect())
    }

    fn readings(event: &str) -> Vec<(String, f64, Option<u32>)> {
        let reading = |event| match event {
            Event::Reading { key, value, epoch, step: None } => Some((key.to_string(), value, epoch)),
            _ => None,
        };
        read(event).unwrap().into_iter().filter_map(reading).collect()
    }

    #[test]
    fn a_step_of_either_protocol_reads_as_the_same_event() {
        let step = |count: &str, loss: &str| {
            format!(
                r#""event":"step","epoch":1,"step":2,"steps":9,"duration_s":0.5,"load_wait_s":1e-4,"loss":{loss},"{count}":64,"warm_up":false"#
            )
        };
        let expected = Event::Step {
            epoch: 1,
            step: 2,
            steps: 9,
            duration_s: 0.5,
            load_wait_s: 1e-4,
            loss: 2.25,
            units: 64,
            warm_up: false,
            traced: false,
        };
        for count in ["units", "images"] {
            assert_eq!(read(&step(count, "2.25")).unwrap(), std::slice::from_ref(&expected));
            let unknown = read(&step(count, "2.25").replace("1e-4", "null")).unwrap();
            assert!(matches!(unknown[..], [Event::Step { load_wait_s, .. }] if load_wait_s.is_nan()), "{unknown:?}");
            let lost = read(&step(count, "null")).unwrap();
            assert!(matches!(lost[..], [Event::Step { loss, .. }] if loss.is_nan()), "{lost:?}");
        }
        let lacking = read(&step("pictures", "2.25")).unwrap_err();
        assert!(lacking.contains("units"), "{lacking}");
        assert!(read(&step("units", "\"low\"")).unwrap_err().contains("low"));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let events = [
            Event::Model { name: "mobilenet_v2".into() },
            Event::Reading { key: "train_loss".into(), value: 0.5, epoch: Some(2), step: None },
            Event::Reading { key: "gradient_norm".into(), value: -1e-300, epoch: None, step: Some(MOST_STEPS) },
            Event::Finished { duration_s: 1.0 },
        ];
        for event in events {
            let line = EventLine { run: "a \"quoted\" run".into(), rank: 0, time_s: 1.5, event };
            assert_eq!(read_event_line(&serde_json::to_vec(&line).unwrap()).unwrap(), [line]);
        }
    }

    #[test]
    fn the_event_of_a_line_begins_after_the_pieces_of_other_lines_whatever_its_texts_say() {
        let message = r#"{"run":"r1" is in this text"#.to_owned();
        let event = Event::Warning { message };
        let line = EventLine { run: "r1".into(), rank: 0, time_s: 1.5, event };
        let whole = serde_json::to_vec(&line).unwrap();
        for pieces in ["", "{", r#"{"run":"r1","rank":1,"ti"#, r#"{"run"{"run":"r1","rank":1{"run":""#] {
            let joined = [pieces.as_bytes(), &whole].concat();
            assert_eq!(event_start(&joined), pieces.len(), "{pieces}");
            assert_eq!(read_event_line(&joined[pieces.len()..]).unwrap(), std::slice::from_ref(&line));
        }
        assert_eq!((event_start(b""), event_start(b"garbage")), (0, 0));
    }

    #[test]
    fn a_value_that_is_not_a_number_keeps_its_reading() {
        let event = Event::Reading { key: "test_loss".into(), value: f64::NAN, epoch: Some(1), step: None };
        let line = EventLine { run: "r1".into(), rank: 0, time_s: 0.0, event };
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.ends_with(r#""event":"reading","key":"test_loss","value":null,"epoch":1}"#), "{text}");
        let read = read_event_line(text.as_bytes()).unwrap();
        assert!(matches!(read[0].event, Event::Reading { value, .. } if value.is_nan()), "{read:?}");
    }

    #[test]
    fn lines_of_protocol_1_become_readings() {
        let model = read(r#""event":"model","name":"mobilenet_v2","parameters":2236682"#).unwrap();
        let parameters = Event::Reading { key: "parameters".into(), value: 2_236_682.0, epoch: None, step: None };
        assert_eq!(model, [Event::Model { name: "mobilenet_v2".into() }, parameters]);
        let epoch = readings(
            r#""event":"epoch","epoch":1,"duration_s":1.45,"train_loss":null,"images":16,"received_bytes":1024,"loader_start_s":0.01,"skipped_updates":2"#,
        );
        let keys: Vec<&str> = epoch.iter().map(|(key, ..)| key.as_str()).collect();
        let expected = ["epoch_time_s", "train_loss", "units", "received_bytes", "loader_start_s", "skipped_updates"];
        assert_eq!(keys, expected);
        assert!(epoch[1].1.is_nan() && epoch.iter().all(|(_, _, epoch)| *epoch == Some(1)));
        assert_eq!((epoch[0].1, epoch[2].1, epoch[5].1), (1.45, 16.0, 2.0));
        let test =
            readings(r#""event":"evaluation","epoch":3,"duration_s":0.5,"test_loss":2.1,"accuracy":0.1,"images":25"#);
        let named = |key: &str, value: f64| (key.to_owned(), value, Some(3));
        let expected = [
            named("evaluation_time_s", 0.5),
            named("test_loss", 2.1),
            named("accuracy", 0.1),
            named("test_units", 25.0),
        ];
        assert_eq!(test, expected);
    }

    #[test]
    fn memory_of_protocol_1_is_that_of_the_warm_up_or_of_the_run() {
        let memory = r#""event":"memory","peak_allocated_bytes":1,"peak_reserved_bytes":2,"peak_active_bytes":3"#;
        let named = |key: &str, value: f64| (key.to_owned(), value, None);
        let peaks =
            [named("peak_allocated_bytes", 1.0), named("peak_reserved_bytes", 2.0), named("peak_active_bytes", 3.0)];
        assert_eq!(readings(memory), peaks);
        assert_eq!(readings(&format!(r#"{memory},"warm_up":true"#)), [named("warm_up_peak_bytes", 1.0)]);
    }

    #[test]
    fn a_damaged_line_says_what_it_lacks_in_either_protocol() {
        for (event, expected) in [
            (
                r#""event":"evaluation","epoch":3,"duration_s":0.5,"accuracy":0.1,"images":25"#,
                "missing field `test_loss`",
            ),
            (r#""event":"memory","peak_allocated_bytes":-1"#, "-1"),
            (r#""event":"reading","value":1"#, "missing field `key`"),
            (r#""event":"reading","key":"accuracy""#, "missing field `value`"),
            (r#""event":"reading","key":"","value":1"#, "has 0 bytes"),
            (r#""event":"rumour""#, "unknown variant `rumour`"),
            (r#""step":1"#, "missing field `event`"),
        ] {
            let error = read(event).unwrap_err();
            assert!(error.contains(expected), "{event}: {error}");
        }
        assert!(read_event_line(b"").is_err() && read_event_line(b"[]").is_err());
    }

    #[test]
    fn a_line_with_an_impossible_value_is_refused_by_name_and_number() {
        let step = |duration_s: &str, wait_s: &str| {
            format!(
                r#""event":"step","epoch":1,"step":2,"steps":9,"duration_s":{duration_s},"load_wait_s":{wait_s},"loss":1,"units":64,"warm_up":false"#
            )
        };
        assert!(read(&step("0", "0")).is_ok());
        for (event, expected) in [
            (step("-0.5", "0"), "duration_s = -5e-1 is impossible"),
            (step("1e308", "0"), "duration_s = 1e308 is impossible"),
            (step("1", "-1e-9"), "load_wait_s = -1e-9 is impossible"),
            (
                step("1", "0").replace(r#""step":2"#, r#""step":9007199254740993"#),
                "step = 9007199254740993 is impossible",
            ),
            (
                step("1", "0").replace(r#""steps":9"#, r#""steps":9007199254740993"#),
                "steps = 9007199254740993 is impossible",
            ),
            (
                r#""event":"reading","key":"a","value":1,"step":18446744073709551615"#.to_owned(),
                "step = 18446744073709551615 is impossible",
            ),
            (r#""event":"finished","duration_s":1e12"#.to_owned(), "duration_s = 1e12 is impossible"),
        ] {
            let error = read(&event).unwrap_err();
            assert!(error.contains(expected), "{event}: {error}");
        }
        let late = br#"{"run":"r1","rank":0,"time_s":-3,"event":"reading","key":"a","value":1}"#;
        assert!(read_event_line(late).unwrap_err().contains("time_s = -3e0 is impossible"));
    }

    #[test]
    fn a_key_of_megabytes_is_refused_in_a_few_words() {
        let error = read(&format!(r#""event":"reading","key":"{}","value":1"#, "k".repeat(4 << 20))).unwrap_err();
        assert_eq!(error, "the key of a reading has 4194304 bytes, it must have 1 to 100");
    }
}
