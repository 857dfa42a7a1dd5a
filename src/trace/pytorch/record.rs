//! One event of a trace: its fields as written, and their meaning.
//!
//! The names of fields and categories are those of Kineto, PyTorch's library for profilers (`ActivityType.h`, `MetadataFieldCatalog.h`,
//! `output_json.cpp` and `cupti_strings.cpp` of its source).

use std::borrow::Cow;

use super::json::{Cursor, Stop, Value};
use crate::trace::event::{Kind, What};

/// The stream of calls that wait for a whole device, as CUPTI writes it. Kineto writes -1.
const NO_STREAM: i64 = 0xffff_ffff;
/// The domain of operators, as ranges of PyTorch itself.
pub(super) const OPERATORS: i64 = 1;
/// The operator during which a collective is launched.
const COLLECTIVE: &[u8] = b"record_param_comms";

/// The fields of an event that are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record<'a> {
    /// The phase of Chrome's format: `X` for events with a duration.
    pub phase: Value<'a>,
    pub category: Value<'a>,
    name: Value<'a>,
    start: Value<'a>,
    duration: Value<'a>,
    pub process: Value<'a>,
    track: Value<'a>,
    arguments: Arguments<'a>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Arguments<'a> {
    correlation: Value<'a>,
    device: Value<'a>,
    stream: Value<'a>,
    bytes: Value<'a>,
    graph_node: Value<'a>,
    source_device: Value<'a>,
    target_device: Value<'a>,
    synchronisation: Value<'a>,
    collective: Value<'a>,
    elements: Value<'a>,
    element_type: Value<'a>,
}

impl<'a> Record<'a> {
    /// Reads an object, at its opening bracket.
    pub fn read(cursor: &mut Cursor<'a>) -> Result<Self, Stop> {
        let mut record = Self::default();
        cursor.members(|key, cursor| {
            let field = match key {
                b"ph" => &mut record.phase,
                b"cat" => &mut record.category,
                b"name" => &mut record.name,
                b"ts" => &mut record.start,
                b"dur" => &mut record.duration,
                b"pid" => &mut record.process,
                b"tid" => &mut record.track,
                b"args" if cursor.peek()? == b'{' => return record.arguments.read(cursor),
                _ => return cursor.value().map(drop),
            };
            *field = cursor.value()?;
            Ok(())
        })?;
        Ok(record)
    }

    /// Whether it is an event at all, and not some other object.
    pub fn is_event(&self) -> bool {
        matches!(self.phase, Value::Text(_))
    }

    /// Start and end in nanoseconds on the trace's clock, or what is wrong with them.
    pub fn span(&self) -> Result<(i64, i64), String> {
        let time = |value: Value<'_>, what: &str| match (value.microseconds(), value) {
            (Some(ns), _) => Ok(ns),
            (None, Value::Missing) => Err(format!("it has no {what}")),
            (None, Value::Text(raw) | Value::Bare(raw) | Value::Nested(raw)) => {
                let shown: String = String::from_utf8_lossy(raw).chars().take(40).collect();
                Err(format!("its {what} is {shown}"))
            }
        };
        let (start, duration) = (time(self.start, "start")?, time(self.duration, "duration")?);
        if duration < 0 {
            return Err(format!("it lasts {duration} ns"));
        }
        let end = start.checked_add(duration).ok_or_else(|| format!("it starts at {start} ns"))?;
        Ok((start, end))
    }

    /// What the event is; `None` if its category is not imported.
    pub fn item(&self) -> Option<Item<'a>> {
        let Value::Text(category) = self.category else { return None };
        let arguments = &self.arguments;
        let correlation = arguments.correlation.integer();
        let host = |kind, what| Item {
            kind,
            name: self.name.text(),
            device: None,
            track: self.track.integer(),
            correlation,
            what,
        };
        let graph_node = arguments.graph_node.integer().unwrap_or(0);
        Some(match category {
            b"kernel" => self.on_gpu(Kind::Kernel, What::Kernel { graph_node }),
            b"gpu_memcpy" => self.copy(),
            b"gpu_memset" => {
                let memory = self.name.text().and_then(|name| memory(within(&name)));
                self.on_gpu(Kind::Memset, What::Memset { bytes: arguments.bytes.count().unwrap_or(0), memory })
            }
            b"cuda_sync" => self.synchronisation(),
            b"user_annotation" => host(Kind::Range, What::Range { domain: 0 }),
            b"cpu_op" => match self.collective() {
                Some((name, bytes)) => {
                    let what = What::Collective { bytes, domain: OPERATORS };
                    Item { name: Some(Cow::Owned(name)), ..host(Kind::Collective, what) }
                }
                None => host(Kind::Range, What::Range { domain: OPERATORS }),
            },
            // `cuda_runtime`, `cuda_driver`, and those of other makers' GPUs.
            _ if category.ends_with(b"_runtime") || category.ends_with(b"_driver") => host(Kind::Call, What::Call),
            _ => return None,
        })
    }

    fn on_gpu(&self, kind: Kind, what: What) -> Item<'a> {
        let arguments = &self.arguments;
        Item {
            kind,
            name: self.name.text(),
            // Kineto's row of a GPU has its number as its process, and the stream as its thread.
            device: Some(arguments.device.integer().or_else(|| self.process.integer())),
            track: arguments.stream.integer().or_else(|| self.track.integer()),
            correlation: arguments.correlation.integer(),
            what,
        }
    }

    fn copy(&self) -> Item<'a> {
        let name = self.name.text().unwrap_or_default();
        let kind =
            COPIES.iter().find(|(known, _)| name.split(' ').any(|word| word == *known)).map_or(0, |(_, kind)| *kind);
        let (src, dst) = within(&name).split_once(" -> ").unwrap_or_default();
        let arguments = &self.arguments;
        let what = What::Copy {
            bytes: arguments.bytes.count().unwrap_or(0),
            kind,
            src: memory(src),
            dst: memory(dst),
            src_device: arguments.source_device.integer(),
            dst_device: arguments.target_device.integer(),
        };
        self.on_gpu(Kind::Copy, what)
    }

    fn synchronisation(&self) -> Item<'a> {
        let text = self.arguments.synchronisation.text().or_else(|| self.name.text()).unwrap_or_default();
        let kind = SYNCHRONISATIONS.iter().position(|known| *known == text).map_or(0, |place| place as i64 + 1);
        let item = self.on_gpu(Kind::Synchronisation, What::Synchronisation { kind });
        // A call that waits is the host's.
        Item { device: None, track: item.track.map(|stream| if stream == -1 { NO_STREAM } else { stream }), ..item }
    }

    /// The name of the collective that an operator launches, and the size in bytes of what this rank contributes.
    fn collective(&self) -> Option<(String, u64)> {
        if self.name != Value::Text(COLLECTIVE) {
            return None;
        }
        let Arguments { collective, elements, element_type, .. } = &self.arguments;
        let Value::Text(element_type) = element_type else { return None };
        let element_bytes = ELEMENTS.iter().find(|(name, _)| *name == *element_type)?.1;
        let bytes = elements.count()?.checked_mul(element_bytes)?;
        Some((format!("nccl:{}", collective.text()?), bytes))
    }
}

impl<'a> Arguments<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Stop> {
        cursor.members(|key, cursor| {
            let field = match key {
                b"correlation" => &mut self.correlation,
                // Copies between GPUs name the GPU that they run on differently.
                b"device" | b"inDevice" => &mut self.device,
                b"stream" => &mut self.stream,
                b"bytes" => &mut self.bytes,
                b"graph node id" => &mut self.graph_node,
                b"fromDevice" => &mut self.source_device,
                b"toDevice" => &mut self.target_device,
                b"cuda_sync_kind" => &mut self.synchronisation,
                b"Collective name" => &mut self.collective,
                b"In msg nelems" => &mut self.elements,
                b"dtype" => &mut self.element_type,
                _ => return cursor.value().map(drop),
            };
            *field = cursor.value()?;
            Ok(())
        })
    }
}

/// An event that is imported.
pub(super) struct Item<'a> {
    pub kind: Kind,
    pub name: Option<Cow<'a, str>>,
    /// For work on a GPU its number in the process; the inner value is `None` if the event does not say it.
    pub device: Option<Option<i64>>,
    /// Stream or thread.
    pub track: Option<i64>,
    pub correlation: Option<i64>,
    pub what: What,
}

/// Kinds of copy by their names and CUPTI's numbers.
const COPIES: [(&str, i64); 10] = [
    ("HtoD", 1),
    ("DtoH", 2),
    ("HtoA", 3),
    ("AtoH", 4),
    ("AtoA", 5),
    ("AtoD", 6),
    ("DtoA", 7),
    ("DtoD", 8),
    ("HtoH", 9),
    ("PtoP", 10),
];

/// Kinds of memory in the order of nsys' numbers.
const MEMORY: [&str; 7] = ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];

/// Kinds of synchronisation in the order of CUPTI's numbers, from 1.
const SYNCHRONISATIONS: [&str; 4] = ["Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"];

/// Bytes of an element, by the names of c10's scalar types.
const ELEMENTS: [(&[u8], u64); 19] = [
    (b"Byte", 1),
    (b"Char", 1),
    (b"Bool", 1),
    (b"Float8_e4m3fn", 1),
    (b"Float8_e5m2", 1),
    (b"Float8_e4m3fnuz", 1),
    (b"Float8_e5m2fnuz", 1),
    (b"Float8_e8m0fnu", 1),
    (b"Short", 2),
    (b"UInt16", 2),
    (b"Half", 2),
    (b"BFloat16", 2),
    (b"Int", 4),
    (b"UInt32", 4),
    (b"Float", 4),
    (b"Long", 8),
    (b"Double", 8),
    (b"ComplexFloat", 8),
    (b"ComplexDouble", 16),
];

/// The text between a name's parentheses.
fn within(name: &str) -> &str {
    let after = name.split_once('(').map_or("", |(_, after)| after);
    after.strip_suffix(')').unwrap_or(after)
}

fn memory(name: &str) -> Option<i64> {
    MEMORY.iter().position(|known| *known == name).map(|place| place as i64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(text: &str) -> Record<'_> {
        Record::read(&mut Cursor::new(text.as_bytes())).unwrap()
    }

    #[test]
    fn copies_have_kinds_memories_and_the_gpus_between_which_they_run() {
        let copy = |name: &str, arguments: &str| {
            let text =
                format!(r#"{{"ph":"X","cat":"gpu_memcpy","name":"{name}","pid":3,"tid":7,"args":{{{arguments}}}}}"#);
            let item = record(&text).item().unwrap();
            (item.device, item.track, item.what)
        };
        let what =
            |kind, src, dst, src_device, dst_device| What::Copy { bytes: 8, kind, src, dst, src_device, dst_device };
        assert_eq!(
            copy("Memcpy HtoD (Pinned -> Device)", r#""device": 1, "stream": 20, "bytes": 8"#),
            (Some(Some(1)), Some(20), what(1, Some(1), Some(2), None, None))
        );
        assert_eq!(
            copy(
                "Memcpy PtoP (Device -> Device)",
                r#""fromDevice": 0, "inDevice": 0, "toDevice": 5, "stream": 7, "bytes": 8"#
            ),
            (Some(Some(0)), Some(7), what(10, Some(2), Some(2), Some(0), Some(5)))
        );
        assert_eq!(copy("Memcpy", r#""bytes": 8"#), (Some(Some(3)), Some(7), what(0, None, None, None, None)));
    }

    #[test]
    fn a_collective_is_as_large_as_what_the_rank_contributes() {
        let collective = |arguments: &str| {
            let text = format!(r#"{{"ph":"X","cat":"cpu_op","name":"record_param_comms","args":{{{arguments}}}}}"#);
            let item = record(&text).item().unwrap();
            (item.name.unwrap().into_owned(), item.what)
        };
        let whole = r#""Collective name": "_reduce_scatter_base", "dtype": "BFloat16", "In msg nelems": 1000, "Out msg nelems": 500"#;
        assert_eq!(
            collective(whole),
            ("nccl:_reduce_scatter_base".to_owned(), What::Collective { bytes: 2000, domain: OPERATORS })
        );
        let operator = ("record_param_comms".to_owned(), What::Range { domain: OPERATORS });
        assert_eq!(collective(""), operator);
        assert_eq!(collective(&whole.replace("BFloat16", "Quaternion")), operator);
        assert_eq!(collective(&whole.replace("1000", "18446744073709551615")), operator);
    }

    #[test]
    fn waits_have_kinds_and_the_stream_that_is_waited_for() {
        let wait = |kind: &str, stream: &str| {
            let text = format!(
                r#"{{"ph":"X","cat":"cuda_sync","name":"{kind}","pid":0,"tid":900007,"args":{{"cuda_sync_kind":"{kind}","stream":{stream}}}}}"#
            );
            let item = record(&text).item().unwrap();
            assert_eq!(item.device, None);
            (item.what, item.track)
        };
        assert_eq!(wait("Stream Wait Event", "20"), (What::Synchronisation { kind: 2 }, Some(20)));
        assert_eq!(wait("Context Sync", "-1"), (What::Synchronisation { kind: 4 }, Some(NO_STREAM)));
        assert_eq!(wait("Unknown Sync", "7"), (What::Synchronisation { kind: 0 }, Some(7)));
    }

    #[test]
    fn impossible_times_are_named() {
        for (times, problem) in [
            (r#""ts": 1.5"#, "it has no duration"),
            (r#""dur": 1"#, "it has no start"),
            (r#""ts": NaN, "dur": 1"#, "its start is NaN"),
            (r#""ts": 1, "dur": -2"#, "it lasts -2000 ns"),
            (r#""ts": 9000000000000000, "dur": 900000000000000"#, "it starts at 9000000000000000000 ns"),
        ] {
            assert_eq!(record(&format!("{{{times}}}")).span(), Err(problem.to_owned()));
        }
        assert_eq!(record(r#"{"ts": "1.5", "dur": 0.25}"#).span(), Ok((1500, 1750)));
    }
}
