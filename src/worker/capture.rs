//! The part of a run that a profiler records, where its plan wants only a part.

use std::time::{Duration, Instant};

use multicard::plan::Capture;
use multicard::protocol::CAPTURE_RANGE;
use tch::TchError;

use crate::shim::Recording;

/// Opens and closes the window. A profiler watches all ranks, so one of them is enough.
pub struct CaptureWindow {
    capture: Capture,
    begun: Instant,
    recording: Option<Recording>,
}

impl CaptureWindow {
    /// For a rank of a run that is traced so, or not at all.
    pub fn new(capture: Option<Capture>, rank: u32) -> Self {
        let capture = capture.filter(|_| rank == 0).unwrap_or_default();
        let recording = matches!(capture, Capture::First { .. }).then(|| Recording::start(CAPTURE_RANGE));
        Self { capture, begun: Instant::now(), recording }
    }

    /// A step is about to be given to the device; steps count from 1. `finish` waits for the device, so that the window holds
    /// whole steps.
    pub fn before_step(&mut self, step: u64, finish: impl FnOnce() -> Result<(), TchError>) -> Result<(), TchError> {
        if let Capture::Steps { first, .. } = self.capture
            && step == first
        {
            finish()?;
            self.recording = Some(Recording::start(CAPTURE_RANGE));
        }
        Ok(())
    }

    /// A step was given to the device.
    pub fn after_step(&mut self, step: u64, finish: impl FnOnce() -> Result<(), TchError>) -> Result<(), TchError> {
        let is_over = match self.capture {
            Capture::Whole => false,
            Capture::First { seconds } => {
                self.begun.elapsed() >= Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
            Capture::Steps { last, .. } => step >= last,
        };
        if is_over && self.recording.is_some() {
            finish()?;
            self.recording = None;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Before and after which steps the device was waited for.
    fn waits(capture: Option<Capture>, rank: u32) -> Vec<(u64, &'static str)> {
        let mut waits = Vec::new();
        let mut window = CaptureWindow::new(capture, rank);
        for step in 1..=6 {
            window.before_step(step, || Ok(waits.push((step, "before")))).unwrap();
            window.after_step(step, || Ok(waits.push((step, "after")))).unwrap();
        }
        waits
    }

    #[test]
    fn a_window_of_steps_holds_those_steps_and_is_opened_by_the_first_rank_alone() {
        let steps = Some(Capture::Steps { first: 2, last: 4 });
        assert_eq!(waits(steps, 0), [(2, "before"), (4, "after")]);
        assert_eq!(waits(steps, 1), []);
        assert_eq!(waits(Some(Capture::Steps { first: 3, last: 3 }), 0), [(3, "before"), (3, "after")]);
    }

    #[test]
    fn a_window_of_time_ends_with_the_first_step_after_it_and_a_whole_run_has_none() {
        assert_eq!(waits(Some(Capture::First { seconds: 1e-9 }), 0), [(1, "after")]);
        assert_eq!(waits(Some(Capture::First { seconds: 1e300 }), 0), []);
        assert_eq!(waits(Some(Capture::Whole), 0), []);
        assert_eq!(waits(None, 0), []);
    }
}
