//! Readings of a program: steps and other numbers found in its output and its files.
//!
//! Bytes go in, events of a run's log come out. Each [`Source`] turns lines of output or the new part of a file into [`Found`] values; the
//! run's [`Course`] turns these into steps with durations and warm-up.
//!
#![doc = include_str!("readings/readings.md")]

mod ahead;
mod arrivals;
mod bars;
mod beside;
mod course;
mod csv;
mod drawn;
mod evaluation;
mod fields;
mod growing;
mod json;
mod keys;
mod lines;
mod logged;
mod look;
mod losses;
mod numbers;
mod order;
mod others;
mod parts;
mod pattern;
mod phases;
mod printed;
mod program_clock;
mod records;
mod sentence;
mod shapes;
mod suggestions;
mod summary;
mod tensorboard;
mod truncations;
mod warm_up;
mod whole_seconds;

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::plan::command::{ReadFile, ReadingsSpec};
use crate::plan::{Key, WarmUp, counted};
use crate::protocol::Event;

pub use course::Course;
pub use lines::Lines;
pub use phases::NamedPhase;
pub use suggestions::{MOST_LOG_BYTES, NO_PATTERNS, READABLE, Suggestions};
pub use summary::{StepParts, summary};

/// The environment variable that names the file for a program's own readings.
pub const READINGS_VARIABLE: &str = "MULTICARD_READINGS";
/// The name of that file in the run's folder.
pub const READINGS_FILE: &str = "readings.jsonl";
/// The helper module for Python programs.
pub const PYTHON_ADAPTER: &str = include_str!("readings/adapter.py");

/// Reading output may take this much CPU time in all, plus one part in [`BUSY_SHARE`] of a run's time, because the program waits meanwhile.
const BUSY: Duration = Duration::from_secs(1);
const BUSY_SHARE: u32 = 20;
/// So much output is always read, and its time does not count: regular expressions are compiled when they are first used.
const ALWAYS_READ_BYTES: u64 = 1_000_000;

/// Something that was found in a program's output or files.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A step has ended, or more is known about the step that ended last.
    Step(FoundStep),
    /// All steps that were found before were guessed, and do not count: the program itself reports its steps from now on.
    StepsWithdrawn,
    /// Any other number.
    Reading {
        /// The key of its measure.
        key: Key,
        /// The value, in the measure's unit.
        value: f64,
        /// The step it belongs to, as the program counts.
        step: Option<u64>,
        /// The epoch it belongs to, as the program counts.
        epoch: Option<f64>,
    },
    /// A phase begins. If the program reports only that it trains, the [`Course`] decides whether that is the warm-up.
    Phase {
        /// The phase.
        phase: NamedPhase,
        /// The time, in seconds since the Unix epoch.
        at_s: f64,
    },
    /// A line has the loss of an evaluation and no value of a step: the evaluation has ended.
    Evaluated {
        /// The number of a step in the line, as the program counts.
        step: Option<u64>,
        /// The time of the line, in seconds since the Unix epoch.
        at_s: f64,
    },
    /// A progress bar of the training begins again, and with it an epoch: its steps are counted anew, and the first one begins at this time.
    Begins {
        /// The time of the line, in seconds since the Unix epoch.
        at_s: f64,
    },
    /// A line names an epoch, as the program counts, without a step of its own: the epoch of the steps before it, which end with it, or of
    /// the steps after it.
    Epoch(f64),
    /// A number in a line of output whose meaning is unknown.
    Untaken(Untaken),
    /// A message for the user, for example about a line that its source cannot use; the run continues.
    Warning(String),
}

/// A number in a line of output that was not read: neither its name nor its unit gives its meaning, or its separators do not show its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Untaken {
    /// The name that is printed with it; empty if there is none.
    pub name: String,
    /// The number with its name and its unit.
    pub number: String,
    /// A pattern that reads the number, and one that does so only in lines that begin like its line; empty if no pattern reads it, see
    /// [`READABLE`]. They may read other lines, too: [`Suggestions`] are patterns for a plan.
    pub pattern: String,
    /// See `pattern`.
    pub anchored: String,
}

/// A step as a program reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FoundStep {
    /// Its number, as the program counts: from 0 or 1, over the run or over each epoch. Without a number, it follows the previous step.
    pub step: Option<u64>,
    /// The last number of its count, if the program reports it.
    pub steps: Option<u64>,
    /// The epoch, as the program counts: from 0 or 1. A fraction is the finished part of the current epoch.
    pub epoch: Option<f64>,
    /// Its duration; without one, the time since the previous step.
    pub duration_s: Option<f64>,
    /// Whether the time since the previous step contains an evaluation, or a part of it that is unknown, so that the step has no duration.
    pub is_untimed: bool,
    /// Time spent waiting for data.
    pub wait_s: Option<f64>,
    /// The loss.
    pub loss: Option<f64>,
    /// Whether the loss is the mean over the steps since the epoch began, as some programs print it.
    pub is_mean_loss: bool,
    /// Units (images, tokens) of the step, over all of the program's processes.
    pub units: Option<f64>,
    /// Whether the program excludes it from statistics; `None` leaves that to the plan.
    pub warm_up: Option<bool>,
    /// The phase that its line names.
    pub phase: Option<NamedPhase>,
    /// Whether it was guessed, so that its duration may contain something else.
    pub is_guessed: bool,
    /// When it ended, in seconds since the Unix epoch: as the program reports it, or when its line was read.
    pub at_s: f64,
    /// When its line was read, if the program reports when the step ended, in seconds since the Unix epoch.
    pub read_s: Option<f64>,
    /// Whether the time that the program reports is rounded to a whole second, which several steps share.
    pub is_rounded: bool,
}

/// A number without the inexact last digits that unit conversions leave: 0.0041 instead of 0.0040999999999999995.
fn plain(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

/// The finding in words, for users who try their patterns: `step 3 of 100, loss 0.5`.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_step = |step: Option<u64>| step.map_or(String::new(), |step| format!(" of step {step}"));
        match self {
            Self::Step(FoundStep {
                step,
                steps,
                epoch,
                duration_s,
                is_untimed: _,
                wait_s,
                loss,
                is_mean_loss: _,
                units,
                warm_up,
                phase,
                is_guessed: _,
                at_s: _,
                read_s: _,
                is_rounded: _,
            }) => {
                f.write_str("step")?;
                step.map_or(Ok(()), |step| write!(f, " {step}"))?;
                steps.map_or(Ok(()), |steps| write!(f, " of {steps}"))?;
                epoch.map_or(Ok(()), |epoch| write!(f, ", epoch {epoch}"))?;
                loss.map_or(Ok(()), |loss| write!(f, ", loss {loss}"))?;
                units.map_or(Ok(()), |units| write!(f, ", {}", counted(units, "unit")))?;
                duration_s.map_or(Ok(()), |duration_s| write!(f, ", {} s", plain(duration_s)))?;
                wait_s.map_or(Ok(()), |wait_s| write!(f, ", of which {} s were spent waiting", plain(wait_s)))?;
                phase.map_or(Ok(()), |phase| write!(f, ", phase {}", phase.name))?;
                if *warm_up == Some(true) { f.write_str(", warm-up") } else { Ok(()) }
            }
            Self::StepsWithdrawn => f.write_str("the steps before were guessed and do not count"),
            Self::Reading { key, value, step, epoch } => {
                write!(f, "reading {key} = {value}{}", of_step(*step))?;
                epoch.map_or(Ok(()), |epoch| write!(f, ", epoch {epoch}"))
            }
            Self::Epoch(epoch) => write!(f, "epoch {epoch}"),
            Self::Evaluated { step, .. } => {
                f.write_str("an evaluation has ended")?;
                step.map_or(Ok(()), |step| write!(f, " after step {step}"))
            }
            Self::Begins { .. } => f.write_str("an epoch begins"),
            Self::Phase { phase, .. } if phase.is_training() => f.write_str("training begins"),
            Self::Phase { phase, .. } => write!(f, "phase {}", phase.name),
            Self::Untaken(untaken) => write!(f, "not read: {}", untaken.number),
            Self::Warning(message) => f.write_str(message),
        }
    }
}

/// A stream of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A source of readings: lines of output, or files that the program writes.
pub trait Source {
    /// Reads a line of the program's output, as [`Lines`] returns it.
    fn line(&mut self, stream: Stream, line: &str, at_s: f64, found: &mut Vec<Found>) {
        let _ = (stream, line, at_s, found);
    }

    /// Notes from now on when its files are written.
    fn watch(&mut self) {}

    /// Reads what is new in its files. After the program's end, `last` is true: a last line without a line break counts, and declared
    /// readings that were never found are reported.
    ///
    /// # Errors
    /// A file cannot be read. The source is polled again.
    fn poll(&mut self, last: bool, now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        let _ = (last, now_s, found);
        Ok(())
    }
}

/// The place of a running program.
#[derive(Clone, Debug)]
pub struct Place {
    /// The run's folder.
    pub run_folder: PathBuf,
    /// The folder that the program runs in; its relative paths are relative to it.
    pub working_folder: PathBuf,
    /// The time at which the program is started, in seconds since the Unix epoch.
    pub started_s: f64,
}

/// The sources of a program's readings, as declared by its plan; `files` are the plan's files with their placeholders filled. The present
/// contents of these files are skipped, since earlier runs wrote them.
pub fn sources(spec: &ReadingsSpec, files: &[String], place: &Place) -> Vec<Box<dyn Source>> {
    let own = json::JsonLines::of_program(place.run_folder.join(READINGS_FILE));
    if spec.names_no_source() {
        return vec![Box::new(look::Look::new(own, &place.run_folder))];
    }
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(own)];
    if !spec.patterns.is_empty() {
        sources.push(Box::new(pattern::Patterns::new(spec)));
    }
    sources.extend(files.iter().map(|file| file_source(&place.working_folder.join(file), file, spec)));
    sources
}

/// The source that reads a program's file of a certain kind.
fn file_source(path: &Path, name: &str, spec: &ReadingsSpec) -> Box<dyn Source> {
    match ReadFile::of(name) {
        Some(ReadFile::JsonLines) => Box::new(json::JsonLines::declared(path.to_owned(), spec)),
        Some(ReadFile::Csv) => Box::new(csv::Csv::new(path.to_owned(), spec)),
        _ => Box::new(tensorboard::EventFiles::declared(path, spec)),
    }
}

/// The source that reads the output of a program.
fn output(spec: &ReadingsSpec) -> Box<dyn Source> {
    if spec.patterns.is_empty() { Box::new(shapes::Shapes::of_log()) } else { Box::new(pattern::Patterns::new(spec)) }
}

/// The lines of a program's output. Patterns are tried on whole lines, as they stand in a log.
fn lines_of_output(spec: &ReadingsSpec) -> Lines {
    if spec.patterns.is_empty() { Lines::of_output() } else { Lines::new() }
}

/// Reads a log of a program's output as if the program were running, and passes the readings to `take`, with the number and the text of
/// their line; readings found at the end have no line. Numbers that were not read are passed on, too, and once for each key the warning about
/// readings that a run leaves out. Returns the number of lines.
///
/// # Errors
/// The log cannot be read.
pub fn read_log(
    spec: &ReadingsSpec,
    mut log: impl Read,
    mut take: impl FnMut(Option<(u64, &str)>, Found),
) -> io::Result<u64> {
    let mut source = output(spec);
    let (mut lines, mut found, mut last) = (lines_of_output(spec), Vec::new(), 0);
    let (mut others, mut left_out) = (others::Others::default(), HashSet::new());
    let mut line = |number: u64, line: &str| {
        source.line(Stream::Output, line, 0.0, &mut found);
        others.look(line, &mut found);
        let known = found.drain(..).filter_map(|found| as_in_a_run(found, &mut left_out));
        known.for_each(|found| take(Some((number, line)), found));
        last = number;
    };
    let mut chunk = vec![0; 1 << 16];
    loop {
        match log.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => lines.push(&chunk[..count], &mut line),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    lines.finish(&mut line);
    // These sources read only lines, not files that could fail.
    let _ = source.poll(true, 0.0, &mut found);
    found.into_iter().filter_map(|found| as_in_a_run(found, &mut left_out)).for_each(|found| take(None, found));
    Ok(last)
}

/// What a run makes of a finding: a reading that it leaves out becomes the warning about its key, unless that was given before.
fn as_in_a_run(found: Found, left_out: &mut HashSet<Key>) -> Option<Found> {
    let Found::Reading { key, .. } = &found else { return Some(found) };
    let Some(message) = keys::refusal(key) else { return Some(found) };
    left_out.insert(key.clone()).then_some(Found::Warning(message))
}

/// The readings of a run: everything between the program's bytes and the run's log.
pub struct Readings {
    sources: Vec<Box<dyn Source>>,
    /// Each stream, and when its newest text was read.
    streams: [(Lines, f64); 2],
    course: Course,
    /// What was found since the last poll, each with the number of its source.
    found: Vec<(usize, Found)>,
    /// Messages about unreadable files that were already reported.
    failures: HashSet<String>,
    opened: Instant,
    /// CPU time that reading output has taken, after the first [`ALWAYS_READ_BYTES`].
    busy: Duration,
    /// Bytes of output in total, and bytes that were not read because they arrived too fast.
    printed: u64,
    skipped: u64,
}

impl Readings {
    /// The readings of a program that is about to start; `files` are the plan's files with their placeholders filled.
    pub fn new(spec: &ReadingsSpec, files: &[String], place: &Place, warm_up: WarmUp) -> Self {
        Self {
            sources: sources(spec, files, place),
            streams: [(); 2].map(|()| (lines_of_output(spec), place.started_s)),
            course: Course::new(place.started_s, warm_up),
            found: Vec::new(),
            failures: HashSet::new(),
            opened: Instant::now(),
            busy: Duration::ZERO,
            printed: 0,
            skipped: 0,
        }
    }

    /// Notes from now on when files with readings are written, so that steps in them have the time at which they ended.
    pub fn watch_files(&mut self) {
        self.sources.iter_mut().for_each(|source| source.watch());
    }

    /// Reads output as it arrives: the time of a line is the time at which its text is read. If a program prints much, and faster than its
    /// output can be read, parts are skipped.
    pub fn output(&mut self, stream: Stream, bytes: &[u8], now_s: f64) {
        let Self { sources, streams, found, .. } = self;
        let (lines, text_s) = match stream {
            Stream::Output => &mut streams[0],
            Stream::Error => &mut streams[1],
        };
        self.printed += bytes.len() as u64;
        let is_counted = self.printed > ALWAYS_READ_BYTES;
        if is_counted && self.busy > BUSY + self.opened.elapsed() / BUSY_SHARE {
            self.skipped += bytes.len() as u64;
            return lines.skip();
        }
        let begun = thread_cpu_time();
        let mut first_s = if lines.has_text_of_line_ended_by(bytes) { *text_s } else { now_s };
        lines.push(bytes, |_, line| {
            let at_s = std::mem::replace(&mut first_s, now_s);
            ask_each(sources, found, |source, new| source.line(stream, line, at_s, new));
        });
        *text_s = now_s;
        if is_counted {
            self.busy += thread_cpu_time().saturating_sub(begun);
        }
    }

    /// Reports that the machine's clock was set by `by_s`, at a moment between these two times and before the next output.
    pub fn clock_set(&mut self, before_s: f64, after_s: f64, by_s: f64) {
        self.course.clock_set(before_s, after_s, by_s);
        let message = format!(
            "the machine's clock was set by {by_s:+.1} s while the program ran: the step in which this happened is left out of \
                 statistics, unless the program reported its duration"
        );
        self.found.push((0, Found::Warning(message)));
    }

    /// Adds the events since the last call, each with its time. It should be called a few times a second.
    pub fn poll(&mut self, now_s: f64, events: &mut Vec<(f64, Event)>) {
        self.poll_sources(false, now_s);
        self.take(now_s, events);
    }

    /// Adds the last events, once the program has ended.
    pub fn finish(&mut self, now_s: f64, events: &mut Vec<(f64, Event)>) {
        let Self { sources, streams, found, .. } = self;
        for ((lines, text_s), stream) in streams.iter_mut().zip([Stream::Output, Stream::Error]) {
            lines.finish(|_, line| ask_each(sources, found, |source, new| source.line(stream, line, *text_s, new)));
        }
        self.poll_sources(true, now_s);
        if self.skipped > 0 {
            let message = format!(
                "{} of {} of output were not searched for readings, because the program printed faster than multicard could read: let it \
                     print less",
                self.skipped,
                counted(self.printed, "byte")
            );
            self.found.push((0, Found::Warning(message)));
        }
        self.take(now_s, events);
        self.course.finish(now_s, events);
    }

    /// Whether there was neither a step nor a reading.
    pub fn found_nothing(&self) -> bool {
        self.course.is_empty()
    }

    fn poll_sources(&mut self, last: bool, now_s: f64) {
        let Self { sources, found, failures, .. } = self;
        ask_each(sources, found, |source, new| {
            if let Err(message) = source.poll(last, now_s, new)
                && failures.insert(message.clone())
            {
                new.push(Found::Warning(message));
            }
        });
    }

    /// Passes what was found to the course. Between two polls, each source may find several steps.
    fn take(&mut self, now_s: f64, events: &mut Vec<(f64, Event)>) {
        order::sort_by_time(&mut self.found);
        self.course.take_of_sources(&mut self.found, now_s, events);
    }
}

/// Adds what each source finds to `found`, with the number of the source.
fn ask_each(
    sources: &mut [Box<dyn Source>],
    found: &mut Vec<(usize, Found)>,
    mut ask: impl FnMut(&mut dyn Source, &mut Vec<Found>),
) {
    let mut new = Vec::new();
    for (number, source) in sources.iter_mut().enumerate() {
        ask(source.as_mut(), &mut new);
        found.extend(new.drain(..).map(|found| (number, found)));
    }
}

/// CPU time of the calling thread. On a busy machine it is much shorter than the time that passes.
fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "readings/readings_tests.rs"]
mod tests;
