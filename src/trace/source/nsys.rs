//! Reports of Nsight Systems as a source: their `.sqlite` exports.

mod open;
mod rows;
mod schema;
mod strings;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use open::NsysExport;
pub(in crate::trace) use open::is_sqlite;
use rows::Column::{Optional, Required};
use rows::{Column, Fields, Ids, Rows, ids, scan};
use schema::Schema;

use super::parts::in_parts;
use super::{Detail, Head, Names, Reading, Source};
use crate::trace::TraceError;
use crate::trace::event::{Event, Kind, Name, What, check_allocation, nameless};
use crate::trace::progress::Watch;
use crate::trace::value::GpuInfo;
use crate::trace::window::union;

/// The thread part of nsys' ids.
const THREAD_BITS: i64 = 0xff_ffff;

/// Types of NVTX events that are ranges: push/pop and start/end, including those imported from text files.
const RANGES: [i64; 4] = [59, 60, 70, 71];
/// Type of the NVTX event that names a domain.
const DOMAIN: i64 = 75;

/// Rows in a part, which take some milliseconds to read.
const ROWS_PER_PART: i128 = 8192;
/// Most parts of a table whose row ids are far apart.
const MOST_PARTS: i128 = 1 << 16;

/// Time and place of work on a GPU: the first columns of its tables.
const PLACE: [Column; 4] = [Required("start"), Required("end"), Required("deviceId"), Optional("globalPid")];
const STREAM: [Column; 2] = [Optional("streamId"), Optional("correlationId")];

/// The table with the events of a kind.
fn table(kind: Kind) -> &'static str {
    match kind {
        Kind::Kernel => "CUPTI_ACTIVITY_KIND_KERNEL",
        Kind::Copy => "CUPTI_ACTIVITY_KIND_MEMCPY",
        Kind::Memset => "CUPTI_ACTIVITY_KIND_MEMSET",
        Kind::Graph => "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        Kind::Call => "CUPTI_ACTIVITY_KIND_RUNTIME",
        Kind::Synchronisation => "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        Kind::Allocation => "CUDA_GPU_MEMORY_USAGE_EVENTS",
        Kind::Range | Kind::Collective | Kind::Domain => "NVTX_EVENTS",
    }
}

/// The number of parts in which the rows between two ids are read.
fn parts((first, last): Ids) -> usize {
    let ids = i128::from(last) - i128::from(first) + 1;
    usize::try_from((ids / ROWS_PER_PART).clamp(1, MOST_PARTS)).unwrap_or(1)
}

/// The range of ids of one part; parts have equal numbers of ids, as far as possible.
fn ids_of_part((first, last): Ids, parts: usize, part: usize) -> Ids {
    let ids = i128::from(last) - i128::from(first) + 1;
    let start = |part: usize| i128::from(first) + ids * part as i128 / parts as i128;
    let id = |id: i128| i64::try_from(id).unwrap_or(last);
    (id(start(part)), id(start(part + 1) - 1))
}

/// A report of Nsight Systems.
pub(in crate::trace) struct NsysReport<'a> {
    export: NsysExport<'a>,
    /// Read together with the head.
    devices: OnceLock<Devices>,
}

impl<'a> NsysReport<'a> {
    /// Opens an export on disk; the disk may be read-only.
    pub fn open(file: &Path) -> Result<Self, TraceError> {
        Ok(Self { export: NsysExport::open(file)?, devices: OnceLock::new() })
    }

    /// Opens an export in memory; `file` is its name in messages.
    pub fn from_bytes(file: &Path, bytes: &'a [u8]) -> Result<Self, TraceError> {
        Ok(Self { export: NsysExport::from_bytes(file, bytes)?, devices: OnceLock::new() })
    }

    /// Changes the file name in messages.
    pub fn named(mut self, file: PathBuf) -> Self {
        self.export.file = file;
        self
    }

    /// Reads the columns of a table; the columns in `whole` only if all details are requested.
    fn read<T: Default + Send>(
        &self,
        kind: Kind,
        (columns, whole): (&[Column], &[Column]),
        reading: Reading,
        watch: &mut Watch<'_>,
        each: impl Fn(&mut T, &Fields<'_>) -> Result<(), TraceError> + Sync,
    ) -> Result<Vec<T>, TraceError> {
        let columns = if reading.detail == Detail::Whole { [columns, whole].concat() } else { columns.to_vec() };
        let Some(rows) = Rows::of(&self.export, table(kind), &columns)? else { return Ok(Vec::new()) };
        let Some(ends) = ids(&self.export, table(kind))? else { return Ok(Vec::new()) };
        let parts = parts(ends);
        in_parts(
            (parts, parts),
            reading.threads,
            watch,
            || (),
            |(), sums, part| {
                rows.read(ids_of_part(ends, parts, part), |fields| each(sums, fields))?;
                Ok(1)
            },
        )
    }

    /// Reads a table of events. `event` reads one; it returns `None` if the row is not an event.
    fn read_events<T: Default + Send>(
        &self,
        kind: Kind,
        columns: (&[Column], &[Column]),
        reading: Reading,
        watch: &mut Watch<'_>,
        event: impl for<'f, 'r> Fn(&'f Fields<'r>, Detail) -> Result<Option<Event<'f>>, TraceError> + Sync,
        each: impl Fn(&mut T, &Event<'_>) -> Result<(), String> + Sync,
    ) -> Result<Vec<T>, TraceError> {
        self.read(kind, columns, reading, watch, |sums, fields| {
            let Some(event) = event(fields, reading.detail)? else { return Ok(()) };
            each(sums, &event).map_err(|problem| fields.refused(problem))
        })
    }

    /// Reads a table of work on GPUs. `what` reads the name and the columns after the place, from the fourth on; the stream and the
    /// correlation come after `columns`.
    fn read_work<T: Default + Send>(
        &self,
        kind: Kind,
        columns: &[Column],
        reading: Reading,
        watch: &mut Watch<'_>,
        what: impl Fn(&Fields<'_>) -> Result<(i64, What), TraceError> + Sync,
        each: impl Fn(&mut T, &Event<'_>) -> Result<(), String> + Sync,
    ) -> Result<Vec<T>, TraceError> {
        let columns = [&PLACE, columns].concat();
        let stream = columns.len();
        self.read_events(
            kind,
            (&columns, &STREAM),
            reading,
            watch,
            |fields, detail| {
                let span = fields.span()?;
                let (process, device) = (fields.integer(3)?.unwrap_or(0), fields.required(2)?);
                let (name, what) = what(fields)?;
                let (mut track, mut correlation) = (0, 0);
                if detail == Detail::Whole {
                    track = fields.integer(stream)?.unwrap_or(0);
                    correlation = fields.integer(stream + 1)?.unwrap_or(0);
                }
                let (name, order) = (Name::Id(name), fields.number());
                Ok(Some(Event { span, process, device, track, name, correlation, order, what }))
            },
            each,
        )
    }

    /// The time that the report covers according to its own records.
    fn covered(&self) -> Result<Option<(i64, i64)>, TraceError> {
        let mut covered = None;
        let columns = [Optional("startTime"), Optional("stopTime")];
        scan(&self.export, "ANALYSIS_DETAILS", &columns, |fields| {
            if fields.integer(0)?.is_some() && fields.integer(1)?.is_some() {
                covered = union(covered, Some(fields.span()?));
            }
            Ok(())
        })?;
        Ok(covered)
    }

    /// Warnings about what was not recorded.
    fn not_recorded(&self) -> Option<String> {
        let tables = [(Kind::Call, "CUDA calls"), (Kind::Kernel, "kernels"), (Kind::Copy, "copies")];
        let names: Vec<&str> =
            tables.iter().filter(|(kind, _)| !self.export.has(table(*kind))).map(|(_, name)| *name).collect();
        (!names.is_empty()).then(|| {
            format!(
                "the report contains no {}: there were none, or it was not recorded with `-t cuda`",
                names.join(", no ")
            )
        })
    }
}

impl Source for NsysReport<'_> {
    fn head(&self) -> Result<Head, TraceError> {
        let Schema { version, product_version, warning } = Schema::read(&self.export)?;
        let devices = Devices::read(&self.export)?;
        let head = Head {
            schema_version: version,
            product_version,
            covered: self.covered()?,
            gpus: devices.infos.values().cloned().collect(),
            warnings: warning.into_iter().chain(self.not_recorded()).collect(),
            ..Head::default()
        };
        // If the head is read again, it finds the same devices.
        let _ = self.devices.set(devices);
        Ok(head)
    }

    fn threads(&self) -> usize {
        self.export.threads
    }

    fn units(&self, kind: Kind) -> Result<usize, TraceError> {
        Ok(ids(&self.export, table(kind))?.map_or(0, parts))
    }

    fn scan<T: Default + Send>(
        &self,
        kind: Kind,
        reading: Reading,
        watch: &mut Watch<'_>,
        each: impl Fn(&mut T, &Event<'_>) -> Result<(), String> + Sync,
    ) -> Result<Vec<T>, TraceError> {
        match kind {
            Kind::Kernel => self.read_work(kind, &KERNEL, reading, watch, kernel, each),
            Kind::Copy => self.read_work(kind, &COPY, reading, watch, copy, each),
            Kind::Memset => self.read_work(kind, &MEMSET, reading, watch, memset, each),
            Kind::Graph => self.read_work(kind, &[], reading, watch, |_| Ok((0, What::Graph)), each),
            Kind::Call => self.read_events(kind, (&CALL, &CALL_WHOLE), reading, watch, call, each),
            Kind::Synchronisation => {
                let columns: (&[Column], &[Column]) = (&SYNCHRONISATION, &SYNCHRONISATION_WHOLE);
                self.read_events(kind, columns, reading, watch, synchronisation, each)
            }
            Kind::Allocation => {
                self.read_events(kind, (&ALLOCATION, &ALLOCATION_WHOLE), reading, watch, allocation, each)
            }
            Kind::Range | Kind::Collective | Kind::Domain => {
                self.read_events(kind, (&RANGE, &[]), reading, watch, range, each)
            }
        }
    }

    fn first_start(&self) -> Result<i64, TraceError> {
        let mut first: Option<i64> = None;
        for kind in [Kind::Kernel, Kind::Copy, Kind::Memset, Kind::Graph, Kind::Call] {
            scan(&self.export, table(kind), &[Optional("start"), Optional("end")], |fields| {
                let (start, end) = fields.span()?;
                if start < end {
                    first = Some(first.map_or(start, |first| first.min(start)));
                }
                Ok(())
            })?;
        }
        Ok(first.unwrap_or(0))
    }

    fn gpu(&self, process: i64, device: i64) -> i64 {
        self.devices.get().map_or(device, |devices| devices.gpu(process, device))
    }

    fn process_name(&self, process: i64) -> String {
        format!("process {}", (process >> 24) & THREAD_BITS)
    }

    fn meanings<M>(&self, meaning: impl Fn(&str) -> Option<M>) -> Result<HashMap<i64, M>, TraceError> {
        strings::meanings(&self.export, meaning)
    }

    fn names(&self, wanted: &HashSet<i64>) -> Result<Names, TraceError> {
        let mut texts = strings::names(&self.export, wanted)?;
        let missing: HashSet<i64> = wanted.iter().copied().filter(|id| !texts.contains_key(id)).collect();
        texts.extend(missing.iter().map(|id| (*id, nameless(*id))));
        Ok(Names { texts, missing })
    }

    fn losses(&self) -> Vec<String> {
        // A damaged report is rejected as a whole.
        Vec::new()
    }

    fn damaged(&self, kinds: &[Kind], problem: String) -> TraceError {
        let tables: Vec<&str> = kinds.iter().map(|kind| table(*kind)).collect();
        self.export.damaged(tables.join(", "), problem)
    }
}

const KERNEL: [Column; 2] = [Required("demangledName"), Optional("graphNodeId")];

fn kernel(fields: &Fields<'_>) -> Result<(i64, What), TraceError> {
    Ok((fields.required(4)?, What::Kernel { graph_node: fields.integer(5)?.unwrap_or(0) }))
}

const COPY: [Column; 6] = [
    Required("bytes"),
    Required("copyKind"),
    Optional("srcKind"),
    Optional("dstKind"),
    Optional("srcDeviceId"),
    Optional("dstDeviceId"),
];

fn copy(fields: &Fields<'_>) -> Result<(i64, What), TraceError> {
    let copy = What::Copy {
        bytes: fields.count(4)?,
        kind: fields.required(5)?,
        src: fields.integer(6)?,
        dst: fields.integer(7)?,
        src_device: fields.integer(8)?,
        dst_device: fields.integer(9)?,
    };
    Ok((0, copy))
}

const MEMSET: [Column; 2] = [Required("bytes"), Optional("memKind")];

fn memset(fields: &Fields<'_>) -> Result<(i64, What), TraceError> {
    Ok((0, What::Memset { bytes: fields.count(4)?, memory: fields.integer(5)? }))
}

const CALL: [Column; 4] = [Required("start"), Required("end"), Required("nameId"), Optional("globalTid")];
const CALL_WHOLE: [Column; 1] = [Optional("correlationId")];

fn call<'f>(fields: &'f Fields<'_>, detail: Detail) -> Result<Option<Event<'f>>, TraceError> {
    let (span, name) = (fields.span()?, Name::Id(fields.required(2)?));
    let thread = fields.integer(3)?.unwrap_or(0);
    let correlation = if detail == Detail::Whole { fields.integer(4)?.unwrap_or(0) } else { 0 };
    let (process, track, order) = (thread & !THREAD_BITS, thread & THREAD_BITS, fields.number());
    Ok(Some(Event { span, process, device: 0, track, name, correlation, order, what: What::Call }))
}

const SYNCHRONISATION: [Column; 4] =
    [Required("start"), Required("end"), Optional("syncType"), Optional("deprecatedSyncType")];
const SYNCHRONISATION_WHOLE: [Column; 3] = [Optional("globalPid"), Optional("streamId"), Optional("correlationId")];

fn synchronisation<'f>(fields: &'f Fields<'_>, detail: Detail) -> Result<Option<Event<'f>>, TraceError> {
    let span = fields.span()?;
    let kind = match fields.integer(2)? {
        Some(kind) => kind,
        None => fields.integer(3)?.unwrap_or(0),
    };
    let (mut process, mut track, mut correlation) = (0, 0, 0);
    if detail == Detail::Whole {
        process = fields.integer(4)?.unwrap_or(0);
        track = fields.integer(5)?.unwrap_or(0);
        correlation = fields.integer(6)?.unwrap_or(0);
    }
    let (name, order, what) = (Name::Id(0), fields.number(), What::Synchronisation { kind });
    Ok(Some(Event { span, process, device: 0, track, name, correlation, order, what }))
}

const ALLOCATION: [Column; 7] = [
    Required("start"),
    Required("bytes"),
    Required("memKind"),
    Required("memoryOperationType"),
    Required("address"),
    Required("deviceId"),
    Optional("globalPid"),
];
const ALLOCATION_WHOLE: [Column; 1] = [Optional("correlationId")];

fn allocation<'f>(fields: &'f Fields<'_>, detail: Detail) -> Result<Option<Event<'f>>, TraceError> {
    let memory = fields.required(2)?;
    // CUPTI's number is larger by one.
    let operation = fields.required(3)?.saturating_add(1);
    let (bytes, address) = (fields.count(1)?, fields.required(4)?);
    // cudaFree(0), with which programs initialise CUDA, releases nothing.
    if address == 0 {
        return Ok(None);
    }
    check_allocation(bytes, operation).map_err(|problem| fields.refused(problem))?;
    Ok(Some(Event {
        span: fields.time()?,
        process: fields.integer(6)?.unwrap_or(0),
        device: fields.required(5)?,
        track: memory,
        name: Name::Id(0),
        correlation: if detail == Detail::Whole { fields.integer(7)?.unwrap_or(0) } else { 0 },
        order: fields.number(),
        what: What::Allocation { bytes, memory: Some(memory), operation, address },
    }))
}

const RANGE: [Column; 7] = [
    Required("start"),
    Optional("end"),
    Required("eventType"),
    Optional("text"),
    Optional("textId"),
    Optional("domainId"),
    Optional("globalTid"),
];

/// A range, or the name of a domain of ranges.
fn range<'f>(fields: &'f Fields<'_>, _: Detail) -> Result<Option<Event<'f>>, TraceError> {
    let kind = fields.required(2)?;
    let domain = fields.integer(5)?.unwrap_or(0);
    let is_domain = kind == DOMAIN;
    // A range that is still open at the end of the recording has no end, like a mark.
    if !is_domain && (!RANGES.contains(&kind) || fields.integer(1)?.is_none()) {
        return Ok(None);
    }
    let span = if is_domain { (0, 0) } else { fields.span()? };
    let name = match (fields.text(3)?, fields.integer(4)?) {
        (Some(text), _) => Name::Text(text),
        (None, None) if is_domain => return Ok(None),
        (None, id) => Name::Id(id.unwrap_or(0)),
    };
    let thread = fields.integer(6)?.unwrap_or(0);
    let (process, track, order) = (thread & !THREAD_BITS, thread & THREAD_BITS, fields.number());
    let what = if is_domain { What::Domain { domain } } else { What::Range { domain } };
    Ok(Some(Event { span, process, device: 0, track, name, correlation: 0, order, what }))
}

/// The GPUs of the machine and the device ordinals of each process.
#[derive(Default)]
struct Devices {
    /// The GPUs' numbers, by process id and device ordinal.
    numbers: HashMap<(i64, i64), i64>,
    infos: BTreeMap<i64, GpuInfo>,
}

impl Devices {
    fn read(report: &NsysExport<'_>) -> Result<Self, TraceError> {
        let mut devices = Self::default();
        let columns = [Optional("gpuId"), Optional("cudaId"), Optional("pid")];
        scan(report, "TARGET_INFO_CUDA_DEVICE", &columns, |fields| {
            if let (Some(gpu), Some(cuda), Some(process)) = (fields.integer(0)?, fields.integer(1)?, fields.integer(2)?)
            {
                devices.numbers.entry((process, cuda)).or_insert(gpu);
            }
            Ok(())
        })?;
        let columns = [Optional("id"), Optional("name"), Optional("totalMemory"), Optional("smCount")];
        scan(report, "TARGET_INFO_GPU", &columns, |fields| {
            let Some(index) = fields.integer(0)? else { return Ok(()) };
            let whole = |column| -> Result<Option<u64>, TraceError> {
                Ok(fields.integer(column)?.and_then(|value| u64::try_from(value).ok()))
            };
            let name = fields.text(1)?.map(|name| name.chars().take(200).collect());
            let info = GpuInfo { index, name, memory_bytes: whole(2)?, sm_count: whole(3)? };
            devices.infos.entry(index).or_insert(info);
            Ok(())
        })?;
        Ok(devices)
    }

    /// The machine's index of a GPU, given the process (nsys' id) and its device ordinal.
    fn gpu(&self, process: i64, device: i64) -> i64 {
        let pid = (process >> 24) & THREAD_BITS;
        self.numbers.get(&(pid, device)).copied().unwrap_or(device)
    }
}
