//! Recordings for viewing: rows of a timeline with tiles for every zoom level, the events of a span, search, marks, and where the time of
//! each step went.

mod flow;
mod path;
mod rows;
mod split;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

pub use flow::Flow;
pub use path::{CriticalPath, Segment};
pub use rows::{Class, Shelf, TimelineRow};
pub use split::{Binding, Collective, NoSize, Part, PartTime, Split, StepSplit, Stretch, over_repeats};
pub use steps::Steps;

use flow::Sequences;
use rows::{Label, Labels, name_groups, rows_of};

use super::TraceError;
use super::division::{StepsFrom, divide};
use super::event::Kind;
use super::file::{EventsFile, Lane, LaneKey};
use super::fold::{is_epoch, is_step};
use super::import::{is_events, keep_events};
use super::live::{Change, follow};
use super::progress::{Progress, Stage};
use super::pytorch;
use super::source::Source as _;
use super::tile;
use super::value::{REPORTED_STEPS, STEPS_BY_LINES};
use super::window::{between, in_windows};
use crate::protocol::{PYTORCH_PROFILER, STEPS_BY_RANGES, recorder};

/// Counts changes of what conversions write into events files.
const CONVERSION: u32 = 2;

/// Maximum number of marks kept.
const MOST_MARKS: usize = 200_000;

/// An event, or several that are drawn as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Start and end in nanoseconds on the recording's clock.
    pub span: (i64, i64),
    /// Time within it that is busy.
    pub busy_ns: u64,
    /// Number of events.
    pub events: u32,
    /// The label with the most time; see [`Timeline::name`].
    pub label: u32,
    /// The index of its shelf in the row.
    pub shelf: u8,
    /// Size of a copy or memset.
    pub bytes: Option<u64>,
    /// Connects a call with the work that it launched; 0 if there is none.
    pub correlation: i64,
}

/// The kind of a mark at which recordings can be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MarkKind {
    /// An epoch.
    Epoch,
    /// A step.
    Step,
}

/// An epoch or a step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its kind.
    pub kind: MarkKind,
    /// The process.
    pub process: i64,
    /// Start and end in nanoseconds.
    pub span: (i64, i64),
}

/// A result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The index of its row.
    pub row: usize,
    /// The event.
    pub item: Item,
}

/// A recording that is open for viewing. Everything except single events is in memory.
pub struct Timeline {
    file: EventsFile<'static>,
    rows: Vec<TimelineRow>,
    labels: Vec<Label>,
    marks: Vec<Mark>,
    span: (i64, i64),
    warnings: Vec<String>,
    has_gpus: bool,
    /// Whether ranks record their collectives: ranks without GPUs perform them and wait for them, others launch them.
    has_collectives: bool,
    /// Times between windows, in which nothing was recorded.
    holes: Vec<(i64, i64)>,
    /// Whether its head tells that parts are missing.
    has_losses: bool,
    /// What marks its steps, in words; `None` without steps.
    steps_by: Option<String>,
    /// Whether each step is exactly as long as its mark. Otherwise a step lasts from the end of the previous one to its
    /// own end.
    has_exact_steps: bool,
    epoch_ns: Option<i64>,
    profiler: Option<String>,
    /// All collectives, once they were asked for.
    sequences: OnceLock<Sequences>,
}

/// The events file to open for a recording: the recording itself, or the file in `cache` to which a report of nsys or traces of PyTorch's
/// profiler were converted. The conversion is repeated only if the recording has changed.
///
/// # Errors
///
/// As [`super::keep_events`].
pub fn keep_for_timeline(
    file: &Path,
    cache: Result<PathBuf, String>,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<PathBuf, TraceError> {
    use sha2::{Digest, Sha256};
    let failed = |source| TraceError::Io { file: file.to_owned(), source };
    if is_events(file)? {
        return Ok(file.to_owned());
    }
    // A folder for temporary files is writable for all users: another user could put a timeline there first.
    let no_cache = |reason| TraceError::NoCache { file: file.to_owned(), reason };
    let cache = &cache.map_err(no_cache)?;
    let whole = file.canonicalize().map_err(failed)?;
    // A report is converted again if the report, the format of events files, the set of imported kinds of events, or what else a conversion
    // writes has changed.
    let (format, kinds) = (super::file::VERSION, Kind::TIMED.len());
    let mut key = String::new();
    for part in pytorch::files(&whole)? {
        let about = part.metadata().map_err(failed)?;
        let changed = about.modified().map_err(failed)?;
        key += &format!("{} {} {changed:?} {format} {kinds} {CONVERSION}", part.display(), about.len());
    }
    let hash: String = Sha256::digest(key.as_bytes()).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let kept = cache.join(format!("{hash}.events"));
    if !kept.exists() {
        std::fs::create_dir_all(cache).map_err(|source| TraceError::Io { file: cache.to_owned(), source })?;
        keep_events(file, &kept, tell)?;
    }
    Ok(kept)
}

impl Timeline {
    /// Opens an events file. Its tiles are read, or computed from its events if they are missing.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or `tell` cancelled.
    pub fn open(file: &Path, tell: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Self, TraceError> {
        Self::open_divided(file, &StepsFrom::Found, tell)
    }

    /// Opens a recording as [`Self::open`] does, and divides it into steps by `steps`.
    ///
    /// # Errors
    /// The errors of [`Self::open`]; or the recording cannot be divided into steps in this way.
    pub fn open_divided(
        file: &Path,
        steps: &StepsFrom,
        tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Self, TraceError> {
        let file = EventsFile::open(file)?;
        let head = file.head()?;
        let lanes: Vec<(LaneKey, Lane, u64)> = (file.lanes().into_iter())
            .filter(|(_, lane, _)| lane.kind != Kind::Domain)
            .map(|(key, lane, events)| (key, lane.clone(), events))
            .collect();
        let all: u64 = lanes.iter().map(|(.., events)| events).sum();
        let mut done = 0;
        let mut rows = Vec::new();
        let mut labels = Labels::default();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
        for part in lanes.chunks(threads) {
            let read: Vec<_> = thread::scope(|scope| {
                let file = &file;
                let reading = part.iter().map(|(key, ..)| scope.spawn(|| file.tiles(*key))).collect::<Vec<_>>();
                reading.into_iter().map(thread::ScopedJoinHandle::join).collect()
            });
            for ((key, lane, events), tiles) in part.iter().zip(read) {
                let tiles = tiles.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                rows.extend(rows_of(&file, *key, lane, tiles, &mut labels));
                done += events;
            }
            let progress = Progress { stage: Stage::Reading, fraction: done as f64 / all.max(1) as f64 };
            if tell(progress).is_break() {
                return Err(TraceError::Cancelled);
            }
        }
        name_groups(&mut rows, &lanes, |process| file.process_name(process));
        let mut marks = marks(&file, &lanes)?;
        let span = span(&rows);
        let is_step = |mark: &Mark| mark.kind == MarkKind::Step;
        let has_ranges = *steps == StepsFrom::Found && marks.iter().any(is_step);
        let division = if has_ranges { None } else { divide(&file, steps, span.0, tell)? };
        let has_exact_steps = division.is_some();
        let mut steps_by = has_ranges.then(|| match head.notes.iter().any(|note| note == REPORTED_STEPS) {
            true => STEPS_BY_LINES.to_owned(),
            false => format!("{STEPS_BY_RANGES} that name them"),
        });
        if let Some(division) = division {
            marks.retain(|mark| !is_step(mark));
            let steps = division.steps.into_iter().take(MOST_MARKS);
            marks.extend(steps.map(|(process, span)| Mark { kind: MarkKind::Step, process, span }));
            marks.sort_by_key(|mark| (mark.process, mark.span.0));
            steps_by = Some(division.by);
        }
        live(&file, &mut rows, span)?;
        let has_gpus = lanes.iter().any(|(_, lane, _)| lane.gpu.is_some() && lane.kind != Kind::Allocation);
        let has_collectives = lanes.iter().any(|(_, lane, _)| lane.kind == Kind::Collective);
        let holes: Vec<(i64, i64)> = between(&head.windows).collect();
        let in_windows = in_windows(&head.windows);
        let divided = steps_by.as_ref().filter(|_| has_exact_steps).map(|by| format!("steps: {by}"));
        let remarks = in_windows.into_iter().chain(divided).collect();
        let warnings = [head.warnings, file.losses(), head.notes, remarks].concat();
        let (epoch_ns, has_losses) = (head.epoch_ns, head.has_losses);
        let is_pytorch = head.schema_version.starts_with(PYTORCH_PROFILER);
        let profiler = is_pytorch.then(|| recorder(&head.schema_version, head.product_version.as_deref()));
        let labels = labels.all;
        Ok(Self {
            file,
            rows,
            labels,
            marks,
            span,
            warnings,
            has_gpus,
            has_collectives,
            holes,
            has_losses,
            steps_by,
            has_exact_steps,
            epoch_ns,
            profiler,
            sequences: OnceLock::new(),
        })
    }

    /// All rows in the order in which they are drawn.
    pub fn rows(&self) -> &[TimelineRow] {
        &self.rows
    }

    /// The time from the first event to the last event, in nanoseconds.
    pub fn span(&self) -> (i64, i64) {
        self.span
    }

    /// The time from the first to the last event among events of GPUs and calls of CUDA, in nanoseconds; `None` if there are no such
    /// events. Ranges, such as phases of a run, may last much longer.
    pub fn span_of_work(&self) -> Option<(i64, i64)> {
        let rows = self.rows.iter().filter(|row| row.is_on_gpu() || row.kind == Kind::Call);
        let tiles = rows.flat_map(|row| &row.shelves).filter_map(|shelf| shelf.levels.last()).flatten();
        tiles.map(|tile| (tile.start, tile.end)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Number of events.
    pub fn events(&self) -> u64 {
        self.rows.iter().map(|row| row.events).sum()
    }

    /// The name of a process.
    pub fn process_name(&self, process: i64) -> String {
        self.file.process_name(process)
    }

    /// Real time when the recording's clock was 0, in nanoseconds since the Unix epoch; `None` if unknown.
    pub fn epoch_ns(&self) -> Option<i64> {
        self.epoch_ns
    }

    /// The profiler that recorded it, with its version, if it is PyTorch's.
    pub fn profiler(&self) -> Option<&str> {
        self.profiler.as_deref()
    }

    /// What marks its steps, in words; `None` without steps.
    pub fn steps_by(&self) -> Option<&str> {
        self.steps_by.as_deref()
    }

    /// Caveats: what is damaged or was not recorded.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether parts of it are known to be missing. What damaged parts contained is known once they were read.
    fn lacks_parts(&self) -> bool {
        self.has_losses || !self.file.losses().is_empty()
    }

    /// The text of a label.
    pub fn name(&self, label: u32) -> &str {
        self.labels.get(label as usize).map_or("(unknown)", |label| label.text.as_str())
    }

    /// The class of a label.
    pub fn class(&self, label: u32) -> Class {
        self.labels.get(label as usize).map_or(Class::Other, |label| label.class)
    }

    /// Whether it contains events of a class.
    pub fn has(&self, class: Class) -> bool {
        self.labels.iter().any(|label| label.class == class)
    }

    /// Epochs or steps of the first rank that has some, in order.
    pub fn marks(&self, kind: MarkKind) -> impl Iterator<Item = &Mark> {
        let process = self.marks.iter().find(|mark| mark.kind == kind).map(|mark| mark.process);
        self.marks.iter().filter(move |mark| mark.kind == kind && Some(mark.process) == process)
    }

    /// The items to draw for a shelf in a span: at most about `most` tiles, or up to twice as many single events. The second value says
    /// whether single events would show more detail.
    pub fn drawn(
        &self,
        row: usize,
        shelf: usize,
        span: (i64, i64),
        most: usize,
    ) -> (impl Iterator<Item = Item> + '_, bool) {
        let row_and_shelf = self.rows.get(row).and_then(|row| Some((row, row.shelves.get(shelf)?)));
        let (tiles, level) = row_and_shelf.map_or((&[][..], 1), |(_, shelf)| tile::within(&shelf.levels, span, most));
        let is_fine = level == 0 && tiles.len() * tile::EVENTS as usize <= 2 * most;
        let items = tiles.iter().map(move |tile| Item {
            span: (tile.start, tile.end),
            busy_ns: tile.busy_ns,
            events: tile.events,
            label: row_and_shelf.and_then(|(row, _)| row.labels.get(tile.label as usize).copied()).unwrap_or(u32::MAX),
            shelf: shelf as u8,
            bytes: None,
            correlation: 0,
        });
        (items, is_fine && tiles.iter().any(|tile| tile.events > 1))
    }

    /// The single events of a row that touch a span, in order of start. Reads the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn items(&self, row: usize, span: (i64, i64)) -> Result<Vec<Item>, TraceError> {
        let mut items = Vec::new();
        if let Some(events_row) = self.rows.get(row) {
            self.file.in_order(events_row.lane, span, |event| {
                items.extend(events_row.item(event).filter(|item| item.span.1 >= span.0 && item.span.0 <= span.1));
                event.span.0 <= span.1
            })?;
        }
        Ok(items)
    }

    /// Labels whose text contains this, ignoring case.
    pub fn matching(&self, text: &str) -> Vec<u32> {
        let text = text.to_lowercase();
        let matching = self.labels.iter().enumerate().filter(|(_, label)| label.text.to_lowercase().contains(&text));
        matching.map(|(number, _)| number as u32).collect()
    }

    /// Labels with exactly this text; a kernel and a call may have the same one.
    pub fn named(&self, text: &str) -> Vec<u32> {
        let all = self.labels.iter().enumerate();
        all.filter(|(_, label)| label.text == text).map(|(number, _)| number as u32).collect()
    }

    /// The first event with one of these labels that starts after a time. Reads the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn next(&self, labels: &[u32], after: i64) -> Result<Option<Found>, TraceError> {
        let mut first: Option<Found> = None;
        for (place, row) in self.rows.iter().enumerate() {
            if !row.labels.iter().any(|label| labels.contains(label)) {
                continue;
            }
            self.file.in_order(row.lane, (after, i64::MAX), |event| {
                if first.is_some_and(|first| event.span.0 >= first.item.span.0) {
                    return false;
                }
                let next_item = row.item(event).filter(|item| item.span.0 > after && labels.contains(&item.label));
                if let Some(item) = next_item {
                    first = Some(Found { row: place, item });
                    return false;
                }
                true
            })?;
        }
        Ok(first)
    }

    /// Where the time of each step went. Reads the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or `tell` cancelled.
    pub fn split(&self, tell: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Split, TraceError> {
        split::split(self, tell)
    }

    /// The critical path of a step, from its end back to its beginning; see [`CriticalPath`]. Reads the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn critical_path(&self, step: &StepSplit) -> Result<CriticalPath, TraceError> {
        path::critical_path(self, step)
    }
}

fn span(rows: &[TimelineRow]) -> (i64, i64) {
    let tiles = || rows.iter().flat_map(|row| &row.shelves).filter_map(|shelf| shelf.levels.last()).flatten();
    let start = tiles().map(|tile| tile.start).min().unwrap_or(0);
    (start, tiles().map(|tile| tile.end).max().unwrap_or(start))
}

/// Adds the live amount over time to rows of memory.
fn live(file: &EventsFile<'_>, rows: &mut [TimelineRow], (start, end): (i64, i64)) -> Result<(), TraceError> {
    let mut changes = Vec::new();
    for (place, row) in rows.iter().enumerate().filter(|(_, row)| row.kind == Kind::Allocation) {
        file.in_order(row.lane, (i64::MIN, i64::MAX), |event| {
            // Impossible values are also in the file's sums, where they are rejected.
            changes.extend(Change::new(event.span.0, event.correlation, row.process, event.what, place).ok().flatten());
            true
        })?;
    }
    let mut points: HashMap<usize, (Vec<(i64, f64)>, f64)> = HashMap::new();
    follow(changes, |effect| {
        for (place, bytes) in effect.live {
            let (points, now) = points.entry(place).or_insert_with(|| (vec![(start, 0.0)], 0.0));
            // Several changes at the same time become one change to the last value.
            if points.last().is_none_or(|last| last.0 < effect.at) {
                points.push((effect.at, *now));
            }
            *now = bytes as f64;
        }
    });
    for (place, (mut steps, now)) in points {
        // The last value holds up to the end of the recording.
        steps.extend(steps.last().map(|last| (end.max(last.0.saturating_add(1)), now)));
        rows[place].live = Some(Steps::new(steps));
    }
    Ok(())
}

/// Epochs and steps of all processes, by process and start.
fn marks(file: &EventsFile<'_>, lanes: &[(LaneKey, Lane, u64)]) -> Result<Vec<Mark>, TraceError> {
    let mut marks = Vec::new();
    for (key, lane, _) in lanes.iter().filter(|(_, lane, _)| lane.kind == Kind::Range) {
        let mut kinds: HashMap<u32, Option<MarkKind>> = HashMap::new();
        file.in_order(*key, (i64::MIN, i64::MAX), |event| {
            let kind = *kinds.entry(event.label).or_insert_with(|| match file.text(key.0, event.label) {
                Some(text) if is_step(text) => Some(MarkKind::Step),
                Some(text) if is_epoch(text) => Some(MarkKind::Epoch),
                _ => None,
            });
            marks.extend(kind.map(|kind| Mark { kind, process: lane.process, span: event.span }));
            marks.len() < MOST_MARKS
        })?;
    }
    marks.sort_by_key(|mark| (mark.process, mark.span.0));
    Ok(marks)
}
