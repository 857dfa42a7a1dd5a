//! The window of a trace: the steps of a run that are recorded if the plan asks for only a part of it.

use std::time::{Duration, Instant};

use multicard::plan::{Capture, Tracer};
use multicard::protocol::CAPTURE_RANGE;
use multicard::statistics::median;

use crate::recording;
use crate::report::Stop;
use crate::shim::Recording;

/// Delay after which a profiler started by one rank records the others too.
const SPREAD: Duration = Duration::from_millis(300);
/// What recording costs is told by at least so many steps of it and before it.
const LEAST_STEPS: usize = 10;

/// Opens and closes the window. A profiler records all ranks, so the first rank controls it; the built-in trace is each rank's own.
pub struct CaptureWindow {
    capture: Capture,
    tracer: Tracer,
    tells: bool,
    begun: Instant,
    recording: Option<Open>,
    /// Steady steps with their durations, where only some are recorded.
    durations_s: Vec<(u64, f64)>,
}

/// A window that is open.
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

    /// Ends it without waiting for a profiler.
    fn end_beside(self) {
        match self {
            Self::Profiler(recording) => recording.end_beside(),
            Self::BuiltIn => recording::pause(),
        }
    }
}

impl CaptureWindow {
    /// The window of a rank's run. Does nothing if the run has none.
    pub fn new(capture: Option<Capture>, tracer: Tracer, rank: u32) -> Self {
        let (capture, tells) = (capture.unwrap_or_default(), rank == 0 || tracer == Tracer::BuiltIn);
        let recording = (tells && matches!(capture, Capture::First { .. })).then(|| Open::new(tracer));
        Self { capture, tracer, tells, begun: Instant::now(), recording, durations_s: Vec::new() }
    }

    /// Called before a step is launched; steps count from 1. `meet` waits for the device and for the other ranks, so
    /// that the window holds whole steps, and no rank's kernels wait for another that waits for the profiler.
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
                    // The other ranks do not know this rank's clock and go on.
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

    /// Takes note of how long a steady step took.
    pub fn took(&mut self, step: u64, duration_s: f64) {
        if matches!(self.capture, Capture::Steps { .. }) {
            self.durations_s.push((step, duration_s));
        }
    }

    /// How much longer recorded steps took than as many before them, or what there is of those: the ratio of the medians, less 1. None
    /// where there are fewer than ten of either. The first step of the window does not count: the wait for the recorder is in its time. Nor
    /// do those after the window: a recorder that has ended has still work to do (steps under Nsight Systems stay as slow for a while).
    pub fn cost(&self) -> Option<f64> {
        let Capture::Steps { first, last } = self.capture else { return None };
        let durations_s = |of: &dyn Fn(u64) -> bool| -> Vec<f64> {
            self.durations_s.iter().filter(|(step, _)| of(*step)).map(|(_, duration_s)| *duration_s).collect()
        };
        let within = durations_s(&|step| first < step && step <= last);
        let before = durations_s(&|step| step < first);
        let before = &before[before.len().saturating_sub(within.len())..];
        (within.len().min(before.len()) >= LEAST_STEPS).then(|| median(&within) / median(before) - 1.0)
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

    /// What recording steps 101 to 200 costs in a run of these steady steps.
    fn cost(steps: impl Iterator<Item = u64>, duration_s: impl Fn(u64) -> f64) -> Option<f64> {
        let mut window = CaptureWindow::new(Some(Capture::Steps { first: 101, last: 200 }), Tracer::BuiltIn, 0);
        steps.for_each(|step| window.took(step, duration_s(step)));
        window.cost()
    }

    #[test]
    fn what_recording_costs_is_told_by_the_steps_next_to_the_beginning_of_the_window() {
        // Steps far before it, its first one and those after it say nothing of it.
        let duration_s = |step: u64| match step {
            ..=1 | 101 | 201.. => 9.0,
            102..=200 => 1.2,
            _ => 1.0,
        };
        let found = cost(1..=300, duration_s).unwrap();
        assert!((found - 0.2).abs() < 1e-9, "{found}");
        assert!(cost(91..=111, duration_s).is_some());
        for too_few in [92..=111, 91..=110, 101..=300, 21..=100] {
            assert_eq!(cost(too_few.clone(), duration_s), None, "{too_few:?}");
        }
        let mut whole = CaptureWindow::new(Some(Capture::Whole), Tracer::BuiltIn, 0);
        (1..=300).for_each(|step| whole.took(step, 1.0));
        assert_eq!(whole.cost(), None);
    }

    #[test]
    fn a_window_of_time_and_a_whole_run_keep_nobody_waiting() {
        for capture in [Some(Capture::First { seconds: 1e-9 }), Some(Capture::First { seconds: 1e300 }), None] {
            assert_eq!(waits(capture, 0), []);
        }
        assert_eq!(waits(Some(Capture::Whole), 0), []);
    }
}
