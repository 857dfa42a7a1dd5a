//! The capture window of a trace: the steps of a run that are recorded if the plan asks for only some of them.

use std::time::{Duration, Instant};

use multicard::analysis::recording_cost;
use multicard::plan::{Capture, Tracer};
use multicard::protocol::CAPTURE_RANGE;

use crate::recording;
use crate::report::Stop;
use crate::shim::Recording;

/// How long to wait after one rank has started a profiler until the profiler records the other ranks too.
const SPREAD: Duration = Duration::from_millis(300);

/// Opens and closes the capture window. A profiler records all ranks, so only the first rank controls it; the built-in trace is recorded by
/// each rank for itself.
pub struct CaptureWindow {
    capture: Capture,
    tracer: Tracer,
    tells: bool,
    begun: Instant,
    recording: Option<Open>,
    /// Steady steps and their durations, if only some steps are recorded.
    durations_s: Vec<(u64, f64)>,
}

/// A capture window that is open.
enum Open {
    Profiler(Recording),
    BuiltIn,
}

impl Open {
    fn new(tracer: Tracer) -> Self {
        if tracer == Tracer::BuiltIn {
            recording::resume();
            return Self::BuiltIn;
        }
        Self::Profiler(Recording::start(CAPTURE_RANGE))
    }

    fn end(self) {
        match self {
            Self::Profiler(recording) => recording.end(),
            Self::BuiltIn => recording::pause(),
        }
    }

    /// Ends the recording without waiting for a profiler.
    fn end_beside(self) {
        match self {
            Self::Profiler(recording) => recording.end_beside(),
            Self::BuiltIn => recording::pause(),
        }
    }
}

impl CaptureWindow {
    /// The capture window of a rank's run. Does nothing if the run has none.
    pub fn new(capture: Option<Capture>, tracer: Tracer, rank: u32) -> Self {
        let (capture, tells) = (capture.unwrap_or_default(), rank == 0 || tracer == Tracer::BuiltIn);
        let recording = (tells && matches!(capture, Capture::First { .. })).then(|| Open::new(tracer));
        Self { capture, tracer, tells, begun: Instant::now(), recording, durations_s: Vec::new() }
    }

    /// Called before a step is launched; steps are counted from 1. `meet` waits for the device and for the other ranks, so that the window
    /// holds whole steps and no rank's kernels wait for a rank that waits for the profiler.
    pub fn before_step(&mut self, step: u64, mut meet: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
        if let Capture::Steps { first, .. } = self.capture
            && step == first
        {
            meet()?;
            if self.tells {
                self.recording = Some(Open::new(self.tracer));
                if self.tracer != Tracer::BuiltIn {
                    std::thread::sleep(SPREAD);
                }
            }
            meet()?;
        }
        Ok(())
    }

    /// Called after a step was launched.
    pub fn after_step(&mut self, step: u64, mut meet: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
        match self.capture {
            Capture::First { seconds } => {
                let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                if let Some(recording) = self.recording.take_if(|_| self.begun.elapsed() >= limit) {
                    // Only this rank knows that the window's time is over; the other ranks continue.
                    recording.end_beside();
                }
            }
            Capture::Steps { last, .. } if step == last => {
                meet()?;
                if let Some(recording) = self.recording.take() {
                    recording.end();
                }
                meet()?;
            }
            Capture::Whole | Capture::Steps { .. } => {}
        }
        Ok(())
    }

    /// Notes how long a steady step took.
    pub fn took(&mut self, step: u64, duration_s: f64) {
        if matches!(self.capture, Capture::Steps { .. }) {
            self.durations_s.push((step, duration_s));
        }
    }

    /// By how much recording lengthened the recorded steps; none if all steps are recorded, or too few to tell.
    pub fn cost(&self) -> Option<f64> {
        let Capture::Steps { first, last } = self.capture else { return None };
        recording_cost(&self.durations_s, first, last)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The steps before and after which a rank waits for the device and the other ranks.
    fn waits(capture: Option<Capture>, rank: u32) -> Vec<(u64, &'static str)> {
        let mut waits = Vec::new();
        let mut window = CaptureWindow::new(capture, Tracer::Nsys, rank);
        for step in 1..=6 {
            for (when, is_before) in [("before", true), ("after", false)] {
                let meet = || {
                    waits.push((step, when));
                    Ok(())
                };
                let met = if is_before { window.before_step(step, meet) } else { window.after_step(step, meet) };
                assert!(met.is_ok());
            }
        }
        waits
    }

    #[test]
    fn all_ranks_meet_before_and_after_the_profiler_is_told_of_the_first_and_the_last_step() {
        let steps = Some(Capture::Steps { first: 2, last: 4 });
        for rank in [0, 1] {
            assert_eq!(waits(steps, rank), [(2, "before"), (2, "before"), (4, "after"), (4, "after")]);
        }
        let one = Some(Capture::Steps { first: 3, last: 3 });
        assert_eq!(waits(one, 0), [(3, "before"), (3, "before"), (3, "after"), (3, "after")]);
    }

    #[test]
    fn only_a_window_of_steps_tells_what_recording_costs() {
        let cost = |capture| {
            let mut window = CaptureWindow::new(Some(capture), Tracer::BuiltIn, 0);
            (1..=40).for_each(|step| window.took(step, if step > 20 { 3.0 } else { 2.0 }));
            window.cost()
        };
        assert_eq!(cost(Capture::Steps { first: 21, last: 40 }), Some(0.5));
        assert_eq!(cost(Capture::Whole), None);
    }

    #[test]
    fn a_window_of_time_and_a_whole_run_keep_nobody_waiting() {
        for capture in [Some(Capture::First { seconds: 1e-9 }), Some(Capture::First { seconds: 1e300 }), None] {
            assert_eq!(waits(capture, 0), []);
        }
        assert_eq!(waits(Some(Capture::Whole), 0), []);
    }
}
