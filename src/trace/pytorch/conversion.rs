//! Converts traces to an events file.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::ops::ControlFlow;

use super::document::{Damage, Document, Piece};
use super::facts::Facts;
use super::json::Value;
use super::overlap::Overlaps;
use super::ranks::Ranks;
use super::record::{Item, OPERATORS, Record};
use crate::plan::counted;
use crate::trace::event::{Kind, What, bounded, check_near};
use crate::trace::file::{Entry, EventsWriter, Lane};
use crate::trace::intake::Intake;
use crate::trace::source::Head;
use crate::trace::value::{GpuInfo, PYTORCH};
use crate::trace::window::union;

/// Most bytes of names; further names are left out. Traces name some thousand operators and kernels.
const MOST_NAME_BYTES: usize = 256 << 20;
/// Most categories that are counted one by one.
const MOST_CATEGORIES: usize = 40;
/// Longest name of a category.
const LONGEST_CATEGORY: usize = 60;
/// Bytes between two reports of progress.
const LOOK_BYTES: u64 = 1 << 20;

/// Ids that events lack; 0 is used instead.
#[derive(Default)]
struct Missing {
    names: u64,
    gpus: u64,
    streams: u64,
    threads: u64,
    correlations: u64,
}

/// An events file that is being written.
pub(super) struct Conversion<W: Write> {
    intake: Intake<W>,
    ids: HashMap<Box<str>, u32>,
    name_bytes: usize,
    ranks: Ranks,
    head: Head,
    /// Real time at the recording's time 0.
    origin_ns: Option<i64>,
    has_events: bool,
    is_known: bool,
    /// Events of categories that are not imported.
    left_out: BTreeMap<String, u64>,
    missing: Missing,
    overlaps: Overlaps,
    extent: Option<(i64, i64)>,
    /// Events of the host whose process is not the file's.
    of_others: u64,
    world_size: Option<i64>,
    has_operators: bool,
}

/// One file while it is read.
struct Reading {
    process: usize,
    id: i64,
    /// The offset from the trace's clock to the recording's clock.
    offset_ns: i64,
    /// The time around which its events are, on the trace's clock; the first event's if it was not known before.
    middle_ns: Option<i64>,
    pid: Option<i64>,
    extent: Option<(i64, i64)>,
}

impl Reading {
    /// An event's start and end on the recording's clock. An error says why it cannot be one of this file's.
    fn span(&mut self, record: &Record<'_>) -> Result<(i64, i64), String> {
        let (start, end) = record.span()?;
        check_near((start, end), *self.middle_ns.get_or_insert(start))?;
        Ok((start.saturating_add(self.offset_ns), end.saturating_add(self.offset_ns)))
    }
}

impl<W: Write> Conversion<W> {
    pub fn new(to: W) -> io::Result<Self> {
        // What is not known yet is completed at the end.
        let head = Head { without_cuda: true, ..Head::default() };
        Ok(Self {
            intake: Intake::new(EventsWriter::to(to, 0, head.clone())?),
            ids: HashMap::new(),
            name_bytes: 0,
            ranks: Ranks::default(),
            head,
            origin_ns: None,
            has_events: false,
            is_known: false,
            left_out: BTreeMap::new(),
            missing: Missing::default(),
            overlaps: Overlaps::default(),
            extent: None,
            of_others: 0,
            world_size: None,
            has_operators: false,
        })
    }

    /// Takes a file whose `facts` were read before. `file` is its name in messages; `worker` is the name that it shares with other files of
    /// the same process. `look` is called from time to time, and ends the work if it breaks.
    pub fn take(
        &mut self,
        document: &mut Document<'_>,
        mut facts: Facts,
        (file, worker): (&str, String),
        mut look: impl FnMut() -> ControlFlow<()>,
    ) -> io::Result<()> {
        if let (None, Some(base)) = (self.origin_ns, facts.base_ns) {
            self.origin_ns = Some(base);
        }
        let offset_ns = match (facts.base_ns, self.origin_ns) {
            (Some(base), Some(origin)) => base.saturating_sub(origin),
            (None, Some(_)) => {
                let warning =
                    format!("{file} does not say when its clock began: its times are not aligned with the others");
                self.head.warnings.push(warning);
                0
            }
            (_, None) => 0,
        };
        let start = facts.start_ns.map(|start| start.saturating_add(offset_ns));
        let process = self.ranks.process(&facts, (file, worker), start);
        let id = self.ranks.get(process).id;
        let mut reading = Reading { process, id, offset_ns, middle_ns: facts.middle_ns, pid: facts.pid, extent: None };
        let mut looked = 0;
        let mut state = ControlFlow::Continue(());
        document.pieces(|piece, at| {
            match piece {
                Piece::Fact(key, value) => facts.take(key, value),
                Piece::Event(record) => self.event(record, &mut reading)?,
            }
            if at >= looked {
                looked = at + LOOK_BYTES;
                state = look();
            }
            Ok(state)
        })?;
        self.ranks.finish(process, reading.extent, facts.rank);
        self.extent = union(self.extent, reading.extent);
        self.facts(facts, process);
        let damage = damage(document.damage(), file);
        self.head.has_losses |= !damage.is_empty();
        self.head.warnings.extend(damage);
        Ok(())
    }

    fn facts(&mut self, facts: Facts, process: usize) {
        self.is_known |= facts.is_known;
        if self.head.schema_version.is_empty() {
            let version = facts.schema_version.map_or_else(String::new, |version| format!(" {version}"));
            self.head.schema_version = format!("{PYTORCH}{version}");
        }
        if self.head.product_version.is_none() {
            self.head.product_version = facts.torch_version;
        }
        self.world_size = self.world_size.max(facts.world_size);
        for (device, gpu) in self.ranks.gpus(process) {
            let mut infos = facts.gpus.iter().filter(|info| info.index == device);
            if let Some(info) = infos.next().filter(|_| self.head.gpus.iter().all(|known| known.index != gpu)) {
                self.head.gpus.push(GpuInfo { index: gpu, ..info.clone() });
            }
        }
    }

    fn event(&mut self, record: &Record<'_>, reading: &mut Reading) -> io::Result<()> {
        let item = match record.phase {
            Value::Text(b"X") => record.item(),
            // Moments, such as PyTorch's allocations of memory, and counters.
            Value::Text(b"i" | b"C") if record.category != Value::Missing => None,
            // Names of rows, and arrows between events that name each other anyway.
            _ => return Ok(()),
        };
        let Some(item) = item else {
            self.leave_out(record, reading);
            return Ok(());
        };
        self.has_events = true;
        let span = match reading.span(record) {
            Ok(span) => span,
            Err(why) => {
                self.intake.refuse(why);
                return Ok(());
            }
        };
        if !self.intake.admits(span, item.what) {
            return Ok(());
        }
        reading.extent = union(reading.extent, Some(span));
        let pid = record.process.integer();
        self.of_others += u64::from(item.device.is_none() && item.kind != Kind::Synchronisation && pid != reading.pid);
        self.push(&item, span, reading)
    }

    fn push(&mut self, item: &Item<'_>, span: (i64, i64), reading: &Reading) -> io::Result<()> {
        let gpu = item.device.map(|device| {
            self.missing.gpus += u64::from(device.is_none());
            self.ranks.gpu(reading.process, device.unwrap_or(0))
        });
        let is_stream = gpu.is_some() || item.kind == Kind::Synchronisation;
        if item.track.is_none() {
            *(if is_stream { &mut self.missing.streams } else { &mut self.missing.threads }) += 1;
        }
        self.missing.correlations += u64::from(gpu.is_some() && item.correlation.is_none());
        let what = match item.what {
            What::Copy { bytes, kind, src, dst, src_device, dst_device } => {
                let mut on = |device: Option<i64>| device.map(|device| self.ranks.gpu(reading.process, device));
                What::Copy { bytes, kind, src, dst, src_device: on(src_device), dst_device: on(dst_device) }
            }
            what => what,
        };
        self.has_operators |=
            matches!(what, What::Range { domain: OPERATORS } | What::Collective { domain: OPERATORS, .. });
        let is_named = matches!(item.kind, Kind::Kernel | Kind::Call | Kind::Range | Kind::Collective);
        let name = match (&item.name, is_named) {
            (_, false) => 0,
            (Some(name), true) => self.name(name)?,
            (None, true) => {
                self.missing.names += 1;
                self.name("(no name)")?
            }
        };
        let lane = Lane { kind: item.kind, process: reading.id, gpu, track: item.track.unwrap_or(0) };
        self.overlaps.see(&lane, span);
        self.intake.push(&lane, span, name, item.correlation.unwrap_or(0), what)
    }

    fn name(&mut self, name: &str) -> io::Result<u32> {
        if let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        let is_too_much = self.name_bytes >= MOST_NAME_BYTES;
        let shown = if is_too_much { "(other name)".to_owned() } else { bounded(name) };
        if let Some(id) = self.ids.get(shown.as_str()) {
            return Ok(*id);
        }
        let id = self.intake.writer.new_name();
        self.name_bytes += shown.len();
        self.ids.insert(shown.as_str().into(), id);
        self.intake.writer.define(Entry::Name(id, shown))?;
        Ok(id)
    }

    fn leave_out(&mut self, record: &Record<'_>, reading: &mut Reading) {
        let category = record.category.text().unwrap_or_default();
        // The profiler's own span is the time that the trace covers.
        if category == "Trace" {
            if let Ok(covered) = reading.span(record)
                && self.intake.admits(covered, What::Range { domain: 0 })
            {
                self.head.covered = union(self.head.covered, Some(covered));
            }
            return;
        }
        let category: String = category.chars().take(LONGEST_CATEGORY).collect();
        let category = if category.is_empty() { "no category".to_owned() } else { category };
        let is_listed = self.left_out.len() < MOST_CATEGORIES || self.left_out.contains_key(&category);
        *self.left_out.entry(if is_listed { category } else { "others".to_owned() }).or_default() += 1;
    }

    /// Writes the remaining entries. The inner `Err` says what the files are, if nothing in them comes from PyTorch's profiler.
    pub fn finish(mut self) -> io::Result<Result<(), &'static str>> {
        if !self.is_known && !self.has_events {
            return Ok(Err("JSON without events of PyTorch's profiler"));
        }
        for (id, name) in self.ranks.names() {
            self.intake.writer.process(id, name);
        }
        if self.has_operators {
            let id = self.name("cpu_op")?;
            let what = What::Domain { domain: OPERATORS };
            let process = self.ranks.get(0).id;
            self.intake.push(&Lane { kind: Kind::Domain, process, gpu: None, track: 0 }, (0, 0), id, 0, what)?;
        }
        self.head.without_cuda = !self.intake.has_work();
        self.head.epoch_ns = self.origin_ns;
        if self.head.without_cuda {
            let why = "no work of GPUs was recorded: the trace has rows of the CPU only";
            self.head.notes.push(why.to_owned());
        }
        let refused = self.intake.refused();
        self.head.has_losses |= refused.is_some();
        self.head.warnings.extend(refused);
        self.head.warnings.extend(self.missing.warning());
        if self.of_others > 0 {
            let warning = format!(
                "the host has {} of other processes than their file's: shown among its own",
                counted(self.of_others, "event")
            );
            self.head.warnings.push(warning);
        }
        if self.name_bytes >= MOST_NAME_BYTES {
            self.head.warnings.push("the trace has too many names: some are left out, their times are not".to_owned());
        }
        let begin = self.head.covered.or(self.extent).map_or(0, |span| span.0);
        self.head.notes.extend(self.overlaps.note(begin));
        self.head.notes.extend(self.ranks.notes(self.world_size));
        if !self.left_out.is_empty() {
            let counts: Vec<String> =
                self.left_out.iter().map(|(category, count)| format!("{category} ({count})")).collect();
            self.head.notes.push(format!("events of these categories are not imported: {}", counts.join(", ")));
        }
        let head = Entry::Head(self.head);
        self.intake.writer.define(head)?;
        self.intake.writer.finish()?;
        Ok(Ok(()))
    }
}

impl Missing {
    fn warning(&self) -> Option<String> {
        let counts = [
            (self.names, "name"),
            (self.gpus, "GPU"),
            (self.streams, "stream"),
            (self.threads, "thread"),
            (self.correlations, "correlation"),
        ];
        let lacks: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what)).collect();
        (!lacks.is_empty()).then(|| format!("events lack ids, for which 0 stands: {}", lacks.join(", ")))
    }
}

/// Warnings about what could not be read of a file.
fn damage(damage: &Damage, file: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(reason) = &damage.unpacking {
        warnings.push(format!("{file} could not be unpacked to its end ({reason}): everything before was read"));
    }
    if damage.places > 0 {
        warnings.push(format!(
            "{file} is damaged in {} from byte {} on: the events there are left out, all others were read",
            counted(damage.places, "place"),
            damage.first
        ));
    }
    match damage.cut_at {
        Some(at) if damage.given_up => {
            warnings.push(format!("{file} is too damaged to be read beyond byte {at}: everything before was read"));
        }
        Some(at) => warnings.push(format!("{file} is cut off at byte {at}: everything before was read")),
        None => {}
    }
    warnings
}
