//! The part of a run that a trace records, if the plan asks for only some of its steps: one window, or one window in
//! each period of steps.

use std::time::{Duration, Instant};

use multicard::analysis::{RecordingCost, TimedStep, median, recording_cost};
use multicard::plan::{Capture, Tracer, WindowRole};
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
    steps: Vec<TimedStep>,
    /// First steps of windows that an epoch's end cut short.
    cut: Vec<u64>,
    /// How long it took to begin and to end the recording of each window, in seconds.
    switches_s: [Vec<f64>; 2],
}

/// A capture window that is open.
enum Open {
    Profiler(Recording),
    BuiltIn,
}

impl Open {
    fn new(tracer: Tracer) -> Self {
        if tracer.is_built_in() {
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
        let (capture, tells) = (capture.unwrap_or(Capture::Whole), rank == 0 || tracer.is_built_in());
        let recording = (tells && matches!(capture, Capture::First { .. })).then(|| Open::new(tracer));
        let (steps, cut, switches_s) = Default::default();
        Self { capture, tracer, tells, begun: Instant::now(), recording, steps, cut, switches_s }
    }

    /// Called before a step is launched; steps are counted from 1, and from `first_steady` on they count. `meet` waits for the device and for
    /// the other ranks, so that the window holds whole steps and no rank's kernels wait for a rank that waits for the profiler.
    pub fn before_step(
        &mut self,
        step: u64,
        first_steady: u64,
        mut meet: impl FnMut() -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let begins = match self.capture {
            Capture::Steps { first, .. } => step == first,
            Capture::Windows { .. } => self.window(step, first_steady) == Some((step, WindowRole::First)),
            Capture::Whole | Capture::First { .. } => false,
        };
        if begins {
            meet()?;
            if self.tells {
                let asked = Instant::now();
                self.recording = Some(Open::new(self.tracer));
                self.switches_s[0].push(asked.elapsed().as_secs_f64());
                if !self.tracer.is_built_in() {
                    std::thread::sleep(SPREAD);
                }
            }
            meet()?;
        }
        Ok(())
    }

    /// Called after a step was launched.
    pub fn after_step(&mut self, step: u64, meet: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
        match self.capture {
            Capture::First { seconds } => {
                let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                if let Some(recording) = self.recording.take_if(|_| self.begun.elapsed() >= limit) {
                    // Only this rank knows that the window's time is over; the other ranks continue.
                    recording.end_beside();
                }
                Ok(())
            }
            Capture::Steps { last, .. } if step == last => self.close(meet),
            Capture::Windows { .. } if self.recording.is_some() => match self.capture.window(step) {
                Some((_, WindowRole::Last)) => self.close(meet),
                _ => Ok(()),
            },
            Capture::Whole | Capture::Steps { .. } | Capture::Windows { .. } => Ok(()),
        }
    }

    /// Called after the last step of an epoch. If one of several windows is open, ends it, since other work than steps
    /// follows.
    pub fn after_epoch(&mut self, step: u64, meet: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
        let Some((first, _)) = self.capture.window(step).filter(|_| self.recording.is_some()) else { return Ok(()) };
        self.cut.push(first);
        self.close(meet)
    }

    fn close(&mut self, mut meet: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
        meet()?;
        if let Some(recording) = self.recording.take() {
            let asked = Instant::now();
            recording.end();
            self.switches_s[1].push(asked.elapsed().as_secs_f64());
        }
        meet()
    }

    /// For a run with several windows: the window in which a step is, or to which it is next. Windows with warm-up
    /// steps are not recorded.
    fn window(&self, step: u64, first_steady: u64) -> Option<(u64, WindowRole)> {
        self.capture.window(step).filter(|(first, _)| *first >= first_steady)
    }

    /// Whether a step is in one of several windows or next to one, so that its time does not count.
    pub fn touches(&self, step: u64, first_steady: u64) -> bool {
        self.window(step, first_steady).is_some()
    }

    /// Notes how long a steady step took.
    pub fn took(&mut self, step: TimedStep) {
        if matches!(self.capture, Capture::Steps { .. } | Capture::Windows { .. }) {
            self.steps.push(step);
        }
    }

    /// The cost of recording, as readings of the run. Empty if all steps are recorded, or too few steps for a comparison.
    pub fn readings(&self) -> Vec<(&'static str, f64)> {
        let mut readings = Vec::new();
        if let Some(RecordingCost { cost, pairs }) = recording_cost(&self.steps, self.capture, &self.cut) {
            readings.push(("recording_cost", cost));
            if let Some((pairs, interval)) = pairs {
                readings.extend([
                    ("recording_cost_low", interval.low),
                    ("recording_cost_high", interval.high),
                    ("recording_pairs", pairs as f64),
                ]);
            }
        }
        if matches!(self.capture, Capture::Windows { .. }) {
            for (key, times_s) in ["recording_begin_s", "recording_end_s"].into_iter().zip(&self.switches_s) {
                readings.extend((!times_s.is_empty()).then(|| (key, median(times_s))));
            }
        }
        readings
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The steps before and after which a rank waits for the device and the other ranks; two epochs of 20 steps.
    fn waits(capture: Option<Capture>, rank: u32) -> Vec<(u64, &'static str)> {
        let mut waits = Vec::new();
        let in_windows = matches!(capture, Some(Capture::Windows { .. }));
        let mut window = CaptureWindow::new(capture, if in_windows { Tracer::BuiltIn } else { Tracer::Nsys }, rank);
        for step in 1..=40 {
            let mut meet = |when| {
                waits.push((step, when));
                Ok(())
            };
            assert!(window.before_step(step, 3, || meet("before")).is_ok());
            assert!(window.after_step(step, || meet("after")).is_ok());
            if step % 20 == 0 {
                assert!(window.after_epoch(step, || meet("epoch")).is_ok());
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
    fn windows_by_turns_open_and_close_in_each_period_of_steady_steps_and_end_with_an_epoch() {
        // Steps 7 and 8, 15 and 16, 23 and 24, …; no window is in the warm-up of two steps.
        let all = waits(Some(Capture::Windows { recorded: 2, period: 8 }), 0);
        let times = |wanted: &[(u64, &'static str)]| wanted.iter().flat_map(|one| [*one, *one]).collect::<Vec<_>>();
        assert_eq!(all[..8], times(&[(7, "before"), (8, "after"), (15, "before"), (16, "after")])[..]);
        // Steps 19 to 21 of each 21. The epoch ends within the first window, which ends with it.
        let cut = waits(Some(Capture::Windows { recorded: 3, period: 21 }), 0);
        assert_eq!(cut[..6], times(&[(19, "before"), (20, "epoch"), (40, "before")])[..]);
        // Recorded steps before the warm-up's end.
        let warm = CaptureWindow::new(Some(Capture::USUAL), Tracer::BuiltIn, 0);
        assert!(warm.touches(16, 5) && warm.touches(21, 17) && !warm.touches(21, 18) && !warm.touches(10, 5));
        assert!(!CaptureWindow::new(Some(Capture::Whole), Tracer::BuiltIn, 0).touches(17, 1));
    }

    #[test]
    fn only_windows_of_steps_tell_what_recording_costs() {
        let readings = |capture: Capture, is_recorded: &dyn Fn(u64) -> bool| {
            let mut window = CaptureWindow::new(Some(capture), Tracer::BuiltIn, 0);
            for step in 1..=400 {
                let duration_s = if is_recorded(step) { 3.0 } else { 2.0 };
                window.took(TimedStep { epoch: 1, step, duration_s });
            }
            window.readings()
        };
        let steps = Capture::Steps { first: 21, last: 40 };
        assert_eq!(readings(steps, &|step| step > 20), [("recording_cost", 0.5)]);
        let in_turns = readings(Capture::USUAL, &|step| (step - 1) % 20 >= 16);
        let wanted = [
            ("recording_cost", 0.5),
            ("recording_cost_low", 0.5),
            ("recording_cost_high", 0.5),
            ("recording_pairs", 19.0),
        ];
        assert_eq!(in_turns, wanted);
        assert_eq!(readings(Capture::Whole, &|_| true), []);
    }

    #[test]
    fn a_window_of_time_and_a_whole_run_keep_nobody_waiting() {
        for capture in [Some(Capture::First { seconds: 1e-9 }), Some(Capture::First { seconds: 1e300 }), None] {
            assert_eq!(waits(capture, 0), []);
        }
        assert_eq!(waits(Some(Capture::Whole), 0), []);
    }
}
