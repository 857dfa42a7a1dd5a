//! The facts that a trace states besides its events: clock, rank, GPUs, and the version of PyTorch.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use super::document::{Document, Piece};
use super::json::Value;
use crate::trace::event::check_near;
use crate::trace::value::GpuInfo;

/// The largest number of events that are read to find the first event of the host and the time around which events lie.
const MOST_EVENTS: u32 = 2000;
/// Longest text of a version.
const LONGEST_VERSION: usize = 40;
/// Times above this number of nanoseconds count from 1970: traces of PyTorch before 2.3 have no `baseTimeNanoseconds`, and their times are
/// those of the real clock.
const SINCE_1970_NS: i64 = 1_000_000_000_000_000_000;

/// Facts about a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// Whether a fact shows that this is a trace of PyTorch's profiler.
    pub is_known: bool,
    pub schema_version: Option<i64>,
    pub torch_version: Option<String>,
    /// Real time at the trace's time 0, in nanoseconds since 1970.
    pub base_ns: Option<i64>,
    pub rank: Option<i64>,
    pub world_size: Option<i64>,
    /// GPUs by their numbers in the process.
    pub gpus: Vec<GpuInfo>,
    /// The process of the first event of the host.
    pub pid: Option<i64>,
    /// The start of the first event with a time that is near most others, in nanoseconds on the trace's clock.
    pub start_ns: Option<i64>,
    /// The median start of the first events, on the same clock.
    pub middle_ns: Option<i64>,
}

impl Facts {
    /// Reads the facts before the events, the process of the first event of the host, and the time around which events lie.
    pub fn peek(document: &mut Document<'_>) -> io::Result<Self> {
        let mut facts = Self::default();
        let (mut looked, mut spans) = (0, Vec::new());
        document.pieces(|piece, _| {
            match piece {
                // Facts behind the events are taken when the whole file is read.
                Piece::Fact(key, value) if facts.pid.is_none() => facts.take(key, value),
                Piece::Fact(..) => {}
                Piece::Event(record) => {
                    looked += 1;
                    spans.extend(record.span().ok());
                    if record.item().is_some_and(|item| item.device.is_none()) {
                        facts.pid = facts.pid.or(record.process.integer());
                    }
                }
            }
            Ok(if looked >= MOST_EVENTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let mut starts: Vec<i64> = spans.iter().map(|span| span.0).collect();
        starts.sort_unstable();
        facts.middle_ns = starts.get(starts.len() / 2).copied();
        let is_near =
            |span: &&(i64, i64)| facts.middle_ns.is_some_and(|middle_ns| check_near(**span, middle_ns).is_ok());
        facts.start_ns = spans.iter().find(is_near).map(|span| span.0);
        if facts.base_ns.is_none() && facts.start_ns.is_some_and(|start| start > SINCE_1970_NS) {
            facts.base_ns = Some(0);
        }
        Ok(facts)
    }

    /// Whether this is a trace of PyTorch's profiler.
    pub fn is_trace(&self) -> bool {
        self.is_known || self.pid.is_some()
    }

    /// Whether both traces are copies of one file: of the same process at the same time. Two processes hardly have events at the same
    /// nanoseconds.
    pub fn is_of_copy(&self, other: &Self) -> bool {
        self.pid.is_some() && self.start_ns.is_some() && self == other
    }

    /// Takes a member of the outermost object.
    pub fn take(&mut self, key: &[u8], value: Value<'_>) {
        match key {
            b"schemaVersion" => self.schema_version = value.integer(),
            b"baseTimeNanoseconds" => self.base_ns = value.integer(),
            b"torch_version" | b"pytorch_version" => {
                let text = value.text().filter(|text| !text.trim().is_empty());
                self.torch_version = text.map(|text| text.trim().chars().take(LONGEST_VERSION).collect());
            }
            b"distributedInfo" => {
                let info = object(value);
                let number = |key: &str| info.as_ref().and_then(|info| integer(&info[key]));
                (self.rank, self.world_size) = (number("rank").or(self.rank), number("world_size").or(self.world_size));
            }
            b"deviceProperties" => self.gpus = gpus(value),
            _ => return,
        }
        // Other tools write traces of the same form, and other JSON has versions.
        self.is_known |= matches!(key, b"deviceProperties" | b"distributedInfo" | b"baseTimeNanoseconds");
    }
}

fn object(value: Value<'_>) -> Option<serde_json::Value> {
    match value {
        Value::Nested(text) => serde_json::from_slice(text).ok(),
        _ => None,
    }
}

/// A whole number, which may be in quotes.
fn integer(value: &serde_json::Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn gpus(value: Value<'_>) -> Vec<GpuInfo> {
    let Some(serde_json::Value::Array(all)) = object(value) else { return Vec::new() };
    let gpu = |gpu: &serde_json::Value| {
        Some(GpuInfo {
            index: integer(&gpu["id"])?,
            name: gpu["name"].as_str().map(|name| name.chars().take(200).collect()),
            memory_bytes: gpu["totalGlobalMem"].as_u64(),
            sm_count: gpu["numSms"].as_u64(),
        })
    };
    all.iter().filter_map(gpu).collect()
}

/// The rank that a file's name gives, such as `trace.rank3.json` or `rank_3.json.gz`.
pub(super) fn rank_of(file: &Path) -> Option<i64> {
    let name = file.file_name()?.to_string_lossy().to_lowercase();
    let places = name.match_indices("rank").map(|(place, word)| &name[place + word.len()..]);
    places
        .filter_map(|rest| {
            let rest = rest.trim_start_matches(['_', '-', '.', '=']);
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse().ok()
        })
        .last()
}

/// The name of the worker that wrote a file. PyTorch's own handler writes one file for each recorded span of a worker, and names it
/// `WORKER.TIME.pt.trace.json`.
pub(super) fn worker_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let named = name.strip_suffix(".gz").unwrap_or(&name).strip_suffix(".pt.trace.json");
    let worker = named.and_then(|named| named.rsplit_once('.'));
    match worker {
        Some((worker, time)) if !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit()) => worker.to_owned(),
        _ => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_give_ranks_and_workers() {
        for (name, rank, worker) in [
            ("trace.rank3.json", Some(3), "trace.rank3.json"),
            ("Rank_12.json.gz", Some(12), "Rank_12.json.gz"),
            ("rank-7-of-rank.json", Some(7), "rank-7-of-rank.json"),
            ("ranking.json", None, "ranking.json"),
            ("node_77.1732580000000000000.pt.trace.json.gz", None, "node_77"),
            ("node_77.x1.pt.trace.json", None, "node_77.x1.pt.trace.json"),
        ] {
            assert_eq!((rank_of(Path::new(name)), worker_of(Path::new(name)).as_str()), (rank, worker), "{name}");
        }
    }

    #[test]
    fn facts_of_a_wrong_form_are_unknown() {
        let mut facts = Facts::default();
        for (key, text) in [
            ("distributedInfo", "{\"rank\": \"2\", \"world_size\": 4}"),
            (
                "deviceProperties",
                "[{\"id\": 1, \"name\": \"GPU\", \"totalGlobalMem\": 10, \"numSms\": 2}, {\"name\": 1}, 7]",
            ),
            ("baseTimeNanoseconds", "12 "),
        ] {
            facts.take(key.as_bytes(), super::super::json::Cursor::new(text.as_bytes()).value().unwrap_or_default());
        }
        let gpu = GpuInfo { index: 1, name: Some("GPU".to_owned()), memory_bytes: Some(10), sm_count: Some(2) };
        assert_eq!(
            (facts.rank, facts.world_size, facts.base_ns, facts.gpus.clone()),
            (Some(2), Some(4), Some(12), vec![gpu])
        );
        for key in ["schemaVersion", "baseTimeNanoseconds", "distributedInfo", "deviceProperties", "torch_version"] {
            facts.take(key.as_bytes(), Value::Nested(b"[{\"rank\":{}}"));
        }
        assert_eq!((facts.schema_version, facts.torch_version, facts.rank), (None, None, Some(2)));
    }
}
