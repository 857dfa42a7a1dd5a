//! Converts any source to an events file.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::reader::EventsFile;
use super::writer::EventsWriter;
use super::{Entry, Lane, Row, extras};
use crate::foreign::Output;
use crate::trace::TraceError;
use crate::trace::event::{Event, Kind, Name, What, nameless};
use crate::trace::progress::{Progress, Watch};
use crate::trace::source::{Detail, Head, Reading, Source};

/// Writes all events of a source to a file, which must not exist yet. The file appears only when it is complete.
pub(in crate::trace) fn keep(
    source: &impl Source,
    kept: &Path,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { file: kept.to_owned(), source };
    let output = Output::new(kept).map_err(failed)?;
    let head = source.head()?;
    let mut units = 0;
    for kind in Kind::TIMED {
        units += source.units(kind)?;
    }
    let watch = &mut Watch::new(tell, units);
    let writer = EventsWriter::append(output.path(), 0, head.clone()).map_err(failed)?;
    let conversion = Mutex::new(Conversion {
        writer,
        ids: HashMap::new(),
        domains: HashSet::new(),
        processes: HashSet::new(),
        failed: None,
    });
    // On a single thread, so that lanes are in the order of their first events.
    let reading = Reading { detail: Detail::Whole, threads: 1 };
    let scanned = Kind::TIMED.into_iter().try_for_each(|kind| {
        let done = source.scan(kind, reading, watch, |(): &mut (), event| {
            conversion.lock().unwrap_or_else(PoisonError::into_inner).take(source, kind, event)
        });
        done.map(drop)
    });
    let Conversion { mut writer, ids, failed: problem, .. } =
        conversion.into_inner().unwrap_or_else(PoisonError::into_inner);
    match problem {
        Some(problem) => return Err(failed(problem)),
        None => scanned?,
    }
    let names = source.names(&ids.keys().copied().collect())?;
    for (source_id, id) in ids {
        let text = names.texts.get(&source_id).cloned().unwrap_or_else(|| nameless(source_id));
        let is_missing = names.missing.contains(&source_id);
        let entry = if is_missing { Entry::Nameless(id, text) } else { Entry::Name(id, text) };
        writer.define(entry).map_err(failed)?;
    }
    // What is lost of an events file is known once it was read.
    let warnings = source.losses();
    if !warnings.is_empty() {
        writer.define(Entry::Head(Head { has_losses: true, warnings, ..head })).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    EventsFile::open(output.path())?.keep_tiles()?;
    output.keep().map_err(failed)
}

struct Conversion {
    writer: EventsWriter,
    /// For each id of a name in the source, its id in the file.
    ids: HashMap<i64, u32>,
    /// Domains that already have a name.
    domains: HashSet<i64>,
    processes: HashSet<i64>,
    failed: Option<io::Error>,
}

impl Conversion {
    fn take(&mut self, source: &impl Source, source_kind: Kind, event: &Event<'_>) -> Result<(), String> {
        let gpu = event.what.is_on_gpu().then(|| source.gpu(event.process, event.device));
        let (kind, what) = match event.what {
            What::Domain { domain } if !self.domains.insert(domain) => return Ok(()),
            What::Domain { .. } => (Kind::Domain, event.what),
            What::Collective { .. } => (Kind::Collective, event.what),
            What::Copy { bytes, kind, src, dst, src_device, dst_device } => {
                let on = |device: Option<i64>| device.map(|device| source.gpu(event.process, device));
                (
                    source_kind,
                    What::Copy { bytes, kind, src, dst, src_device: on(src_device), dst_device: on(dst_device) },
                )
            }
            what => (source_kind, what),
        };
        if self.processes.insert(event.process) {
            self.writer.process(event.process, source.process_name(event.process));
        }
        let lane = self.writer.lane(&Lane { kind, process: event.process, gpu, track: event.track });
        let named = match event.name {
            Name::Text(text) => self.writer.name(text),
            Name::Id(id)
                if matches!(kind, Kind::Kernel | Kind::Call | Kind::Range | Kind::Collective | Kind::Domain) =>
            {
                Ok(*self.ids.entry(id).or_insert_with(|| self.writer.new_name()))
            }
            // Copies, memsets, graphs and allocations have no name.
            Name::Id(_) => Ok(0),
        };
        let (start, end) = event.span;
        let row = |name| Row { start, end, name, correlation: event.correlation, extras: extras(what) };
        named.and_then(|name| self.writer.push(lane, row(name))).map_err(|error| {
            let message = error.to_string();
            self.failed = Some(error);
            message
        })
    }
}
