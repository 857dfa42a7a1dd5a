//! The tracer of CUDA's activity: finds its library (`cupti/tracer.cpp` and the files around it), and moves the raw files that it leaves in
//! a run's folder, one for each process, into the run's events file.

mod raw;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::env;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::TraceError;
use super::event::{Kind, What, check_span, nameless};
use super::file::{Entry, EventsFile, EventsWriter, Lane};
use super::intake::Intake;
use super::progress::{Progress, Watch};
use super::reported_steps::{ReportedStep, mark_steps};
use super::source::Head;
use super::unfinished::Unfinished;
use super::value::{BUILT_IN, GpuInfo};
use crate::foreign::Output;
use crate::plan::counted;
use crate::protocol::EVENTS_FILE;
use raw::{Item, Piece, RawFile};

/// Name of the tracer's library.
pub const TRACER: &str = "libmulticard_cupti.so";
/// Environment variable with the path of the tracer, for installations in which it is not in the programs' folder.
const VARIABLE: &str = "MULTICARD_TRACER";
/// Environment variable with the folder that the tracer writes into.
const FOLDER_VARIABLE: &str = "MULTICARD_TRACE_FOLDER";
/// Environment variables through which CUDA's driver and NVTX load the tracer.
const INJECTIONS: [&str; 2] = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"];

/// Finds the tracer: `MULTICARD_TRACER`, else in this program's folder, in the folder above, or in the worker's folder.
///
/// # Errors
///
/// The places that were searched.
pub fn find_tracer() -> Result<PathBuf, String> {
    if let Some(set) = env::var_os(VARIABLE).filter(|set| !set.is_empty()) {
        let set = PathBuf::from(set);
        return if set.is_file() { Ok(set) } else { Err(format!("{VARIABLE}={} is not a file", set.display())) };
    }
    let exe = env::current_exe().unwrap_or_default();
    let worker = env::var_os("MULTICARD_WORKER").map(PathBuf::from);
    let folders = exe.ancestors().skip(1).take(2).chain(worker.as_deref().and_then(Path::parent));
    let tried: Vec<PathBuf> = folders.map(|folder| folder.join(TRACER)).collect();
    tried.iter().find(|file| file.is_file()).cloned().ok_or_else(|| {
        let tried: Vec<String> = tried.iter().map(|file| file.display().to_string()).collect();
        format!(
            "{TRACER} was not found: tried {}; build the worker with CUDA's headers (make build-cuda), or set {VARIABLE} to its path",
            tried.join(", ")
        )
    })
}

/// The environment variables with which an unmodified program, and all programs that it starts, is traced into a folder.
///
/// # Errors
///
/// The tracer is not installed, or a profiler has already set one of these variables.
pub fn injection(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let tracer = find_tracer()?;
    for name in INJECTIONS {
        if let Some(other) = env::var_os(name).filter(|other| !other.is_empty() && *other != *tracer.as_os_str()) {
            return Err(format!(
                "{name} is set to {}: CUDA accepts one tracer at a time; unset the variable, or end the profiler that set it",
                other.display()
            ));
        }
    }
    let mut all: Vec<(String, PathBuf)> = INJECTIONS.iter().map(|name| ((*name).to_owned(), tracer.clone())).collect();
    all.push((FOLDER_VARIABLE.to_owned(), folder.to_owned()));
    Ok(all)
}

/// Whether tracers left raw files in a folder that are not in its events file yet.
pub fn has_raw_files(folder: &Path) -> bool {
    !raw_files(folder).is_empty()
}

/// The raw files in a folder, by name.
fn raw_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file() && is_raw_name(path)).collect();
    files.sort();
    files
}

fn is_raw_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("trace-") && name.ends_with(".cupti")
}

/// Moves the events that tracers left in a run's folder into its events file, and removes their raw files. Continues an interrupted call.
/// `steps` are the steps that the program reported; they are marked unless ranges name steps.
///
/// # Errors
///
/// If a file cannot be read or written, or `tell` cancelled: all raw files still exist then.
pub fn gather(
    folder: &Path,
    steps: &[ReportedStep],
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), TraceError> {
    let files = raw_files(folder);
    if files.is_empty() {
        return Ok(());
    }
    let events = folder.join(EVENTS_FILE);
    let failed = |source| TraceError::Io { file: events.clone(), source };
    let unfinished = Unfinished::replacing(&events);
    let (mut known, mut writer) = (BTreeSet::new(), 0);
    if events.exists() {
        let before = EventsFile::open(&events)?;
        known = before.raw_processes();
        writer = before.next_writer();
        fs::copy(&events, &unfinished.path).map_err(failed)?;
    }
    append(&files, &unfinished.path, (writer, &known), tell)?;
    mark_steps(&unfinished.path, steps)?;
    EventsFile::open(&unfinished.path)?.keep_tiles()?;
    unfinished.keep()?;
    for file in files {
        fs::remove_file(&file).map_err(|source| TraceError::Io { file, source })?;
    }
    Ok(())
}

/// Whether this is a raw file.
pub(super) fn is_raw(file: &Path) -> Result<bool, TraceError> {
    // Folders and pipes are rejected later, by their kind.
    Ok(file.is_file() && RawFile::is_one(file).map_err(|source| TraceError::Io { file: file.to_owned(), source })?)
}

/// Writes the events of one raw file to a file, which must not exist yet.
pub(super) fn keep(
    file: &Path,
    kept: &Path,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { file: kept.to_owned(), source };
    let output = Output::new(kept).map_err(failed)?;
    append(&[file.to_owned()], output.path(), (0, &BTreeSet::new()), tell)?;
    EventsFile::open(output.path())?.keep_tiles()?;
    output.keep().map_err(failed)
}

/// Appends raw files to an events file, except those of processes that it already contains.
fn append(
    files: &[PathBuf],
    events: &Path,
    (first, known): (u16, &BTreeSet<i64>),
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), TraceError> {
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |about| about.len() as usize);
    let watch = &mut Watch::new(tell, files.iter().map(size).sum());
    for (number, file) in files.iter().enumerate() {
        let mut raw = RawFile::open(file)?;
        if !known.contains(&raw.process) {
            let writer = u16::try_from(usize::from(first) + number).unwrap_or(u16::MAX);
            Gathering::new(events, writer, &raw)?.take_all(&mut raw, watch)?;
        }
        watch.done(size(file))?;
    }
    Ok(())
}

/// The name that stands for all calls, in the record of calls that are left out.
const ALL_CALLS: &str = "*";
/// The note on a recording without calls.
const NO_CALLS: &str = "calls of CUDA, and waits for it, are not recorded: trace_calls = \"off\"";

/// The note on calls that are not recorded.
fn left_out(names: &str) -> String {
    const NAMED: usize = 4;
    let all: Vec<&str> = names.split(", ").collect();
    let more = all.len().saturating_sub(NAMED);
    let named = all[..all.len() - more].join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("calls that only query are not recorded: {named}{more}")
}

/// A raw file that is being converted into an events file.
struct Gathering<'a> {
    events: &'a Path,
    intake: Intake,
    process: i64,
    /// Ids of names: in the raw file and in the events file.
    names: HashMap<u32, u32>,
    nameless: HashSet<u32>,
    /// The machine's indices of devices by ordinal.
    gpus: HashMap<u32, i64>,
    head: Head,
}

impl<'a> Gathering<'a> {
    fn new(events: &'a Path, writer: u16, raw: &RawFile) -> Result<Self, TraceError> {
        let head = Head {
            schema_version: format!("{BUILT_IN} 1"),
            epoch_ns: raw.epoch_ns,
            without_cuda: true,
            raw_of: Some(raw.process),
            ..Head::default()
        };
        let mut writer = EventsWriter::append(events, writer, head.clone())
            .map_err(|source| TraceError::Io { file: events.to_owned(), source })?;
        let called = raw.rank.map_or_else(|| format!("process {}", raw.process), |rank| format!("rank {rank}"));
        writer.process(raw.process, called);
        Ok(Self {
            events,
            intake: Intake::new(writer),
            process: raw.process,
            names: HashMap::new(),
            nameless: HashSet::new(),
            gpus: HashMap::new(),
            head,
        })
    }

    fn take_all(mut self, raw: &mut RawFile, watch: &mut Watch<'_>) -> Result<(), TraceError> {
        let failed = |source| TraceError::Io { file: self.events.to_owned(), source };
        let mut looked = 0;
        let mut problems = Vec::new();
        let mut lost = 0;
        let mut is_whole = false;
        let mut windows = Vec::new();
        while let Some(piece) = raw.next()? {
            match piece {
                Piece::Name(id, text) => {
                    let own = self.name(id);
                    self.nameless.remove(&id);
                    self.intake.writer.define(Entry::Name(own, super::event::bounded(&text))).map_err(failed)?;
                }
                Piece::Gpu { ordinal, index, name, memory_bytes, sm_count } => {
                    let index = index.unwrap_or_else(|| i64::from(ordinal));
                    self.gpus.insert(ordinal, index);
                    self.head.gpus.push(GpuInfo { index, name, memory_bytes, sm_count });
                }
                Piece::Window(span) if check_span(span).is_ok() => {
                    self.head.covered = super::window::union(self.head.covered, Some(span));
                    windows.push(span);
                }
                Piece::Window(_) => {}
                Piece::Problem(text) => problems.push(text),
                Piece::LeftOut(names) if names == ALL_CALLS => {
                    self.head.without_calls = true;
                    self.head.notes.push(NO_CALLS.to_owned());
                }
                Piece::LeftOut(names) => self.head.notes.push(left_out(&names)),
                Piece::End { dropped } => {
                    (lost, is_whole) = (dropped, true);
                }
                Piece::Note(text) => self.head.warnings.push(text),
                Piece::Item(item) => self.take(&item).map_err(failed)?,
            }
            if raw.read_bytes() - looked > 1 << 20 {
                looked = raw.read_bytes();
                watch.look(looked as usize)?;
            }
        }
        if windows.len() > 1 {
            self.head.windows = windows;
        }
        self.head.without_cuda = !self.intake.has_work() && !problems.is_empty();
        let warnings =
            problems.into_iter().map(|problem| format!("CUDA calls and kernels are not recorded: {problem}"));
        self.head.warnings.extend(warnings);
        let losses = [
            (lost > 0).then(|| format!("CUPTI lost {} of process {}", counted(lost, "record"), raw.process)),
            self.intake.refused(),
            raw.damage().map(|damage| {
                format!("the trace of process {}: {damage}; everything before the damage was read", raw.process)
            }),
        ];
        self.head.has_losses = losses.iter().any(Option::is_some);
        self.head.warnings.extend(losses.into_iter().flatten());
        for id in &self.nameless {
            let own = self.names.get(id).copied().unwrap_or_default();
            self.intake.writer.define(Entry::Nameless(own, nameless((*id).into()))).map_err(failed)?;
        }
        self.intake.writer.define(Entry::Head(self.head)).map_err(failed)?;
        // Readers report a missing end themselves.
        if is_whole { self.intake.writer.finish() } else { self.intake.writer.flush() }.map_err(failed)
    }

    fn name(&mut self, id: u32) -> u32 {
        let Self { names, nameless, intake, .. } = self;
        *names.entry(id).or_insert_with(|| {
            nameless.insert(id);
            intake.writer.new_name()
        })
    }

    fn gpu(&self, ordinal: u32) -> i64 {
        self.gpus.get(&ordinal).copied().unwrap_or_else(|| i64::from(ordinal))
    }

    fn take(&mut self, item: &Item) -> io::Result<()> {
        if !self.intake.admits(item.span, item.what) {
            return Ok(());
        }
        let gpu = item.what.is_on_gpu().then(|| self.gpu(item.device));
        let what = match item.what {
            What::Copy { bytes, kind, src, dst, src_device, dst_device } => {
                let on = |device: Option<i64>| device.map(|device| self.gpu(device as u32));
                What::Copy { bytes, kind, src, dst, src_device: on(src_device), dst_device: on(dst_device) }
            }
            // Each process numbers its domains itself; in the events file, the numbers of all processes differ.
            What::Range { domain } if domain != 0 => What::Range { domain: self.process << 32 | domain },
            What::Collective { bytes, domain } if domain != 0 => {
                What::Collective { bytes, domain: self.process << 32 | domain }
            }
            What::Domain { domain } => What::Domain { domain: self.process << 32 | domain },
            what => what,
        };
        let named = matches!(item.kind, Kind::Kernel | Kind::Call | Kind::Range | Kind::Domain | Kind::Collective);
        let name = if named { self.name(item.name) } else { 0 };
        let lane = Lane { kind: item.kind, process: self.process, gpu, track: item.track };
        self.intake.push(&lane, item.span, name, item.correlation, what)
    }
}

#[cfg(test)]
#[path = "cupti/tests.rs"]
mod tests;
