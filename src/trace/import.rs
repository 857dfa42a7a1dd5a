//! Imports a report file as a [`Trace`].

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use super::TraceError;
use super::distribution::{Distribution, percent};
use super::export;
use super::family::{Family, family};
use super::gap::{Gaps, Longest, Marker};
use super::gpu::{self, Devices, GpuWork};
use super::host::{self, Calls, Ranges};
use super::metric::metrics;
use super::open::{NsysExport, is_sqlite};
use super::progress::{Progress, Watch};
use super::proof::proof;
use super::rows::Column::Optional;
use super::rows::scan;
use super::schema::Schema;
use super::strings::{meanings, names};
use super::timeline::Sweep;
use super::value::{Entry, FORMAT_VERSION, FamilyTime, GpuTime, MemoryOperation, Trace};
use super::window::{Limits, Window, union};

/// Imports a report: an `.sqlite` export, or an `.nsys-rep`, which nsys exports first. `tell` receives the progress and
/// cancels with [`ControlFlow::Break`]. The file is not changed, and nothing is left beside it.
///
/// # Errors
///
/// If the file is not a complete report of a known schema, holds an impossible value, or `tell` cancelled.
pub fn import(
    file: &Path,
    window: &Window,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Trace, TraceError> {
    let io = |source| TraceError::Io { file: file.to_owned(), source };
    let is_recording = file.extension().is_some_and(|ending| ending == "nsys-rep" || ending == "qdrep");
    if is_recording && !is_sqlite(file).map_err(io)? {
        let exported = export::export(file, tell)?;
        let mut report = NsysExport::open(&exported.file())?;
        // Messages name the file that was given.
        report.file = file.to_owned();
        return read(&report, window, tell);
    }
    read(&NsysExport::open(file)?, window, tell)
}

/// Imports an `.nsys-rep` and keeps its export, without private rows, as `kept`.
///
/// # Errors
///
/// As [`import`]. The export is kept only if it was made but could not be read.
pub fn import_recording(
    file: &Path,
    kept: &Path,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Trace, TraceError> {
    export::export(file, tell)?.keep(kept)?;
    read(&NsysExport::open(kept)?, &Window::default(), tell)
}

/// Imports an `.sqlite` export from memory; `file` is its name in messages.
///
/// # Errors
///
/// As [`import`].
pub fn import_bytes(file: &Path, bytes: &[u8], window: &Window) -> Result<Trace, TraceError> {
    read(&NsysExport::from_bytes(file, bytes)?, window, &mut |_| ControlFlow::Continue(()))
}

/// The role of a string when rows are read.
enum Meaning {
    Nccl,
    Marker(Marker),
}

fn read(
    report: &NsysExport<'_>,
    window: &Window,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Trace, TraceError> {
    let schema = Schema::read(report)?;
    let events = [gpu::KERNEL, gpu::MEMCPY, gpu::MEMSET, gpu::GRAPH, host::RUNTIME, host::SYNC, host::NVTX];
    let watch = &mut Watch::new(tell, report, &events)?;
    let covered = covered(report)?;
    let begin = match covered {
        Some((start, _)) => start,
        None if window.is_whole() => 0,
        None => first_start(report)?,
    };
    let limits = window.limits(begin)?;
    let devices = Devices::read(report)?;
    let known = meanings(report, |text| match Marker::of(text) {
        Some(marker) => Some(Meaning::Marker(marker)),
        None => text.starts_with("nccl").then_some(Meaning::Nccl),
    })?;
    let is_nccl = |id| matches!(known.get(&id), Some(Meaning::Nccl));
    let marker = |id| match known.get(&id) {
        Some(Meaning::Marker(marker)) => Some(*marker),
        _ => None,
    };

    let mut work = GpuWork::read(report, watch, limits, &devices, is_nccl)?;
    let mut gaps = Gaps::default();
    let per_gpu = per_gpu(&mut work, limits, &mut gaps);
    let calls = Calls::read(report, watch, limits, &mut gaps)?;
    let sync = host::synchronisations(report, watch, limits)?;
    let ranges = Ranges::read(report, watch, limits, marker, &mut gaps)?;

    let wanted: HashSet<i64> = (work.kernels.keys().map(|(_, id)| *id))
        .chain(calls.names())
        .chain(ranges.names())
        .chain(gaps.names())
        .collect();
    let names = names(report, &wanted)?;
    let name = |id: i64| names.get(&id).cloned().unwrap_or_else(|| format!("(name {id} is missing)"));

    let too_much = |table: &str| report.damaged(table, "the sum of times is beyond 64 bits");
    let calls_extent = calls.extent;
    let api = calls.entries(name).ok_or_else(|| too_much(host::RUNTIME))?;
    let kernels = kernels(&work, name).ok_or_else(|| too_much(gpu::KERNEL))?;
    let memory = work.operations.by_kind().ok_or_else(|| too_much(gpu::MEMCPY))?;
    let nvtx = ranges.entries(name).ok_or_else(|| too_much(host::NVTX))?;
    let families = families(&kernels, &memory);

    let extent = covered.or_else(|| union(work.extent, calls_extent));
    let begin = if covered.is_none() && window.is_whole() { extent.map_or(0, |(start, _)| start) } else { begin };
    let wall_ns = extent.and_then(|extent| limits.clip(extent)).map_or(0, |(start, end)| end.abs_diff(start));
    let gpus = work.gpus();
    let mut warnings: Vec<String> = schema.warning.into_iter().collect();
    warnings.extend(missing(report));
    let lost = wanted.iter().filter(|id| !names.contains_key(id)).count();
    if lost > 0 {
        warnings.push(format!("{lost} names are missing from the report; their times are listed all the same"));
    }
    if work.graph_traces > 0 && work.graph_kernels == 0 {
        warnings.push("kernels within CUDA graphs were not recorded: record with --cuda-graph-trace=node".to_owned());
    }
    let metrics = metrics(&api, &kernels, &memory, wall_ns, gpus.len());
    let proof = proof(&work, &api, &kernels, name);
    Ok(Trace {
        format_version: FORMAT_VERSION,
        schema_version: schema.version,
        product_version: schema.product_version,
        begin_ns: begin,
        wall_ns,
        window: *window,
        gpus: gpus.iter().map(|gpu| devices.info(*gpu)).collect(),
        memcpy: work.operations.memcpy(),
        memset: work.operations.memset_rows(),
        transfers: work.operations.transfers(),
        gaps: gaps.explain(begin, &work.ranks, name),
        per_gpu,
        api,
        kernels,
        memory,
        sync,
        nvtx,
        families,
        metrics,
        proof,
        warnings,
    })
}

/// The time that the report covers according to its own records.
fn covered(report: &NsysExport<'_>) -> Result<Option<(i64, i64)>, TraceError> {
    let mut covered = None;
    let columns = [Optional("startTime"), Optional("stopTime")];
    scan(report, "ANALYSIS_DETAILS", &columns, |fields| {
        if fields.integer(0)?.is_some() && fields.integer(1)?.is_some() {
            covered = union(covered, Some(fields.span()?));
        }
        Ok(())
    })?;
    Ok(covered)
}

/// The start of the first event, for reports that do not record their start.
fn first_start(report: &NsysExport<'_>) -> Result<i64, TraceError> {
    let mut first: Option<i64> = None;
    for table in [gpu::KERNEL, gpu::MEMCPY, gpu::MEMSET, gpu::GRAPH, host::RUNTIME] {
        scan(report, table, &[Optional("start"), Optional("end")], |fields| {
            let (start, end) = fields.span()?;
            if start < end {
                first = Some(first.map_or(start, |first| first.min(start)));
            }
            Ok(())
        })?;
    }
    Ok(first.unwrap_or(0))
}

/// Busy and idle time between the first and the last activity of any GPU within the window.
fn per_gpu(work: &mut GpuWork, limits: Limits, gaps: &mut Gaps) -> Vec<GpuTime> {
    let Some((from, to)) = work.extent.and_then(|extent| limits.clip(extent)) else { return Vec::new() };
    let mut swept: Vec<(i64, Sweep)> = Vec::new();
    for (gpu, timeline) in std::mem::take(&mut work.timelines) {
        let mut longest = Longest::default();
        swept.push((gpu, timeline.sweep(from, to, |pause| longest.add(pause))));
        gaps.add(gpu, longest, &work.ranks);
    }
    let mean = swept.iter().map(|(_, sweep)| sweep.other_ns as f64).sum::<f64>() / swept.len().max(1) as f64;
    swept
        .into_iter()
        .map(|(gpu, sweep)| GpuTime {
            gpu,
            busy_ns: sweep.busy_ns,
            idle_ns: to.abs_diff(from) - sweep.busy_ns,
            comm_ns: sweep.comm_ns,
            overlap_ns: sweep.overlap_ns(),
            imbalance: if mean > 0.0 { sweep.other_ns as f64 / mean - 1.0 } else { 0.0 },
        })
        .collect()
}

/// Kernels of all ranks by name; like nsys, by text.
fn kernels(work: &GpuWork, name: impl Fn(i64) -> String) -> Option<Vec<Entry>> {
    let mut by_id: HashMap<i64, Distribution> = HashMap::new();
    for ((_, id), times) in &work.kernels {
        by_id.entry(*id).or_default().merge(times.clone());
    }
    let mut by_name: HashMap<String, Distribution> = HashMap::new();
    for (id, times) in by_id {
        by_name.entry(name(id)).or_default().merge(times);
    }
    host::entries(by_name.into_iter())
}

fn families(kernels: &[Entry], memory: &[MemoryOperation]) -> Vec<FamilyTime> {
    let mut sums: HashMap<Family, (u64, u64)> = HashMap::new();
    let copies = memory.iter().map(|operation| (Family::DataMovement, operation.statistics));
    for (family, statistics) in kernels.iter().map(|entry| (family(&entry.name), entry.statistics)).chain(copies) {
        let (calls, total_ns) = sums.entry(family).or_default();
        *calls += statistics.calls;
        *total_ns = total_ns.saturating_add(statistics.total_ns);
    }
    let whole: f64 = sums.values().map(|(_, total_ns)| *total_ns as f64).sum();
    let mut all: Vec<FamilyTime> = sums
        .into_iter()
        .map(|(family, (calls, total_ns))| FamilyTime {
            family: family.name(),
            calls,
            total_ns,
            percent: percent(total_ns as f64, whole),
        })
        .collect();
    all.sort_by(|a, b| (b.total_ns, &a.family).cmp(&(a.total_ns, &b.family)));
    all
}

/// Warnings about what was not recorded.
fn missing(report: &NsysExport<'_>) -> Option<String> {
    let tables = [(host::RUNTIME, "CUDA calls"), (gpu::KERNEL, "kernels"), (gpu::MEMCPY, "copies")];
    let names: Vec<&str> = tables.iter().filter(|(table, _)| !report.has(table)).map(|(_, name)| *name).collect();
    (!names.is_empty()).then(|| {
        format!("the report holds no {}: there were none, or it was not recorded with `-t cuda`", names.join(", no "))
    })
}
