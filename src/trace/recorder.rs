//! Recording by the ranks of a run: named ranges and phases are written into the run's events file.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::event::{Kind, What};
use super::file::{Entry, EventsWriter, Lane, Row, extras};
use super::source::Head;
use super::value::BUILT_IN;

/// Longest time for which an event stays in memory.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Records named ranges of one rank. Times are nanoseconds of the clock of [`now_ns`], which all processes of a machine share.
pub struct Recorder {
    writer: EventsWriter,
    process: i64,
    /// Lanes of threads, by kind.
    lanes: HashMap<(Kind, i64), u32>,
    /// The current phase, its start and its thread.
    phase: Option<(&'static str, i64, i64)>,
    flushed: Instant,
    head: Head,
}

impl Recorder {
    /// Appends to the events file of a run, to which the other ranks append, too. `missing` states what is not recorded, and why.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn append(file: &Path, rank: u32, missing: Option<String>) -> io::Result<Self> {
        let rank = u16::try_from(rank).map_err(|_| io::Error::other("more ranks than an events file can hold"))?;
        let head = Head {
            schema_version: format!("{BUILT_IN} 1"),
            epoch_ns: Some(epoch_ns()),
            without_cuda: true,
            warnings: missing.into_iter().collect(),
            ..Head::default()
        };
        Self::of_process(file, rank, head, std::process::id().into())
    }

    /// Appends as if this process had the given number.
    #[cfg(test)]
    pub(super) fn as_process(file: &Path, rank: u16, process: i64) -> io::Result<Self> {
        let head = Head { schema_version: format!("{BUILT_IN} 1"), without_cuda: true, ..Head::default() };
        Self::of_process(file, rank, head, process)
    }

    fn of_process(file: &Path, rank: u16, head: Head, process: i64) -> io::Result<Self> {
        let mut writer = EventsWriter::append(file, rank, head.clone())?;
        writer.process(process, format!("rank {rank}"));
        Ok(Self { writer, process, lanes: HashMap::new(), phase: None, flushed: Instant::now(), head })
    }

    /// Records a range of a thread. It is written within about a second, or with the next range.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn range(&mut self, name: &str, thread: i64, span: (i64, i64)) -> io::Result<()> {
        self.record(Kind::Range, What::Range { domain: 0 }, name, thread, span)
    }

    /// Records a collective that a thread has performed, as [`Self::range`] does. `bytes` is the size of this rank's contribution.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn collective(&mut self, name: &str, bytes: u64, thread: i64, span: (i64, i64)) -> io::Result<()> {
        self.record(Kind::Collective, What::Collective { bytes, domain: 0 }, name, thread, span)
    }

    fn record(&mut self, kind: Kind, what: What, name: &str, thread: i64, (start, end): (i64, i64)) -> io::Result<()> {
        let Self { writer, process, lanes, .. } = self;
        let lane = *lanes
            .entry((kind, thread))
            .or_insert_with(|| writer.lane(&Lane { kind, process: *process, gpu: None, track: thread }));
        let name = writer.name(name)?;
        writer.push(lane, Row { start, end, name, correlation: 0, extras: extras(what) })?;
        if self.flushed.elapsed() < FLUSH_INTERVAL {
            return Ok(());
        }
        self.flushed = Instant::now();
        self.writer.flush()
    }

    /// Notes one of several windows: a time in which everything was recorded.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn window(&mut self, span: (i64, i64)) -> io::Result<()> {
        let head = Head { covered: Some(span), windows: vec![span], warnings: Vec::new(), ..self.head.clone() };
        self.writer.define(Entry::Head(head))
    }

    /// Ends the current phase, and begins the next one, if any.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn phase(&mut self, next: Option<&'static str>, thread: i64) -> io::Result<()> {
        let now = now_ns();
        let begun = self.phase.take();
        self.phase = next.map(|name| (name, now, thread));
        match begun {
            Some((name, start, thread)) => self.range(name, thread, (start, now)),
            None => Ok(()),
        }
    }

    /// Ends the current phase and writes the mark that nothing follows.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn finish(mut self, thread: i64) -> io::Result<()> {
        self.phase(None, thread)?;
        self.writer.finish()
    }
}

/// Nanoseconds of the machine's monotonic clock.
pub fn now_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Real time when that clock was 0, in nanoseconds since the Unix epoch.
fn epoch_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec - now_ns()
}

/// The calling thread, as the system numbers it.
pub fn this_thread() -> i64 {
    i64::from(rustix::thread::gettid().as_raw_nonzero().get())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::trace::{Trace, Window, import};
    use std::ops::ControlFlow;

    fn read(file: &Path) -> Trace {
        import(file, &Window::default(), &mut |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn ranges_and_phases_of_two_ranks_are_read_back_without_metrics_that_nobody_measured() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.events");
        let begin = now_ns();
        for rank in [0, 1] {
            let mut recorder = Recorder::append(
                &file,
                rank,
                (rank == 1).then(|| "CUDA calls and kernels are not recorded: why".to_owned()),
            )
            .unwrap();
            recorder.phase(Some("phase: steady"), 7).unwrap();
            for step in 0..5 {
                recorder.range("step", 7, (begin + step * 100, begin + step * 100 + 60)).unwrap();
            }
            recorder.finish(7).unwrap();
        }
        let trace = read(&file);
        let counts: Vec<(&str, u64)> =
            trace.nvtx.iter().map(|range| (range.name.as_str(), range.statistics.calls)).collect();
        assert!(counts.contains(&("step", 10)) && counts.contains(&("phase: steady", 2)), "{counts:?}");
        assert!(trace.wall_ns >= 460 && trace.begin_ns == begin, "{} from {}", trace.wall_ns, trace.begin_ns - begin);
        assert_eq!((trace.metrics.len(), trace.gpus.len(), trace.warnings.len()), (0, 0, 1));
        assert!(trace.warnings[0].contains("CUDA calls and kernels are not recorded"));
        let report = crate::trace::markdown(&trace);
        assert!(report.contains("no work of GPUs was recorded") && !report.contains("strategy:"), "{report}");
        let summary = trace.summary("trace.events", None);
        assert!(summary.copied.is_none() && summary.metrics.is_empty());
        let step = summary.ranges.iter().find(|range| range.name == "step").unwrap();
        let rounded = [step.seconds, step.median_s].map(|seconds| (seconds * 1e9).round());
        assert_eq!((step.calls, rounded), (10, [600.0, 60.0]));
    }

    #[test]
    fn a_rank_that_was_killed_leaves_what_it_flushed_and_its_missing_end_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.events");
        let mut killed = Recorder::append(&file, 0, None).unwrap();
        killed.range("step", 1, (10, 20)).unwrap();
        killed.flushed = Instant::now().checked_sub(FLUSH_INTERVAL).unwrap();
        killed.range("step", 1, (20, 30)).unwrap();
        killed.range("step", 1, (30, 40)).unwrap();
        drop(killed);
        Recorder::append(&file, 1, None).unwrap().finish(1).unwrap();
        let trace = read(&file);
        assert_eq!(trace.nvtx[0].statistics.calls, 2);
        assert!(trace.warnings[0].contains("the end of writer 0 is missing"), "{:?}", trace.warnings);
    }
}
