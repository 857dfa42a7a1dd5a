//! Sources of events: reports of Nsight Systems, and events files. Folds can read any of them.

pub(super) mod nsys;
pub(super) mod parts;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use super::TraceError;
use super::event::{Event, Kind};
use super::progress::Watch;
use super::value::GpuInfo;
use crate::protocol::TraceList;

/// Where the bytes of a recording are: in memory or in a file.
pub(super) enum Storage<'a> {
    File(File),
    Bytes(&'a [u8]),
}

impl Storage<'_> {
    /// The bytes from a position on. If the file is not in memory, they are read into `buffer`.
    pub fn bytes<'b>(&'b self, at: u64, length: usize, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        match self {
            Self::File(file) => {
                buffer.resize(length, 0);
                file.read_exact_at(buffer, at)?;
                Ok(buffer)
            }
            Self::Bytes(bytes) => {
                let whole = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(length)?));
                whole.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
        }
    }
}

/// Which details of each event are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Only what sums need.
    Sums,
    /// Streams, threads and correlations, too.
    Whole,
}

/// How events are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub detail: Detail,
    /// Maximum number of threads.
    pub threads: usize,
}

/// Facts about a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The schema of the export or the version of the tracer.
    pub schema_version: String,
    /// The Nsight Systems that exported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    /// The time that it covers, according to its own records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<(i64, i64)>,
    /// The windows in which everything was recorded, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<(i64, i64)>,
    /// Real time when the recording's clock was 0, in nanoseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_ns: Option<i64>,
    /// Whether it contains no CUDA calls and no work of GPUs because these were not recorded. It then has no metrics, instead of zeros.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_cuda: bool,
    /// Whether parts of it are known to be missing: it was cut off or damaged, its recorder lost events, or impossible events were left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_losses: bool,
    /// Whether calls of CUDA were left out on request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_calls: bool,
    /// GPUs that have more known facts than their index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuInfo>,
    /// The process whose raw file was converted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_of: Option<i64>,
    /// Caveats for readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Notes on what the recording does not contain by design.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Head {
    /// Whether the events that this list sums up were recorded.
    pub fn records(&self, list: TraceList) -> bool {
        !(self.without_cuda || self.without_calls && list == TraceList::Api)
    }
}

/// Names of ids.
#[derive(Default)]
pub(super) struct Names {
    /// The text for each requested id.
    pub texts: HashMap<i64, String>,
    /// Ids without a name, whose text is a substitute.
    pub missing: HashSet<i64>,
}

/// A recording that gives events.
pub(super) trait Source: Sync {
    /// Checks that it is readable, and returns its facts.
    fn head(&self) -> Result<Head, TraceError>;

    /// Number of threads to read with.
    fn threads(&self) -> usize;

    /// Reads what sums need, on all threads.
    fn for_sums(&self) -> Reading {
        Reading { detail: Detail::Sums, threads: self.threads() }
    }

    /// The number of progress units for all events of a kind.
    fn units(&self, kind: Kind) -> Result<usize, TraceError>;

    /// Passes each event of a kind to `each`, on several threads. Each thread has its own sums, which are returned, and reads its events in
    /// order. A problem that `each` finds in an event becomes an error that names the event.
    fn scan<T: Default + Send>(
        &self,
        kind: Kind,
        reading: Reading,
        watch: &mut Watch<'_>,
        each: impl Fn(&mut T, &Event<'_>) -> Result<(), String> + Sync,
    ) -> Result<Vec<T>, TraceError>;

    /// The start of the first event on a GPU or in a call, for recordings that do not state what they cover.
    fn first_start(&self) -> Result<i64, TraceError>;

    /// The index on the machine of the GPU that a process calls `device`.
    fn gpu(&self, process: i64, device: i64) -> i64;

    /// The name of a process.
    fn process_name(&self, process: i64) -> String;

    /// Roles of strings by id, derived from their text.
    fn meanings<M>(&self, meaning: impl Fn(&str) -> Option<M>) -> Result<HashMap<i64, M>, TraceError>;

    /// The names of the wanted ids.
    fn names(&self, wanted: &HashSet<i64>) -> Result<Names, TraceError>;

    /// The damaged parts that were skipped so far.
    fn losses(&self) -> Vec<String>;

    /// The error for impossible events of these kinds.
    fn damaged(&self, kinds: &[Kind], problem: String) -> TraceError;
}
