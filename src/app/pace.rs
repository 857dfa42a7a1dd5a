//! Decides how soon the window draws news while it is not used.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Share of a core that drawing news may take while pointer and keys rest.
const SHARE: f64 = 0.04;
/// Longest time that news wait, however much a frame costs.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// For this long after the user's last action, news are drawn at once, since they may be its result.
const ATTENTION: Duration = Duration::from_secs(2);
/// After this long without user action, a window is at rest.
const REST: Duration = Duration::from_secs(10);

/// The cost of frames, which determines how long news wait: hardly at all if a GPU draws, up to a second if the processor does.
pub(super) struct Pace(Mutex<Last>);

/// The last frame.
#[derive(Clone, Copy)]
struct Last {
    begun: Instant,
    /// The process's CPU time when it began.
    spent: Duration,
    /// CPU time of the process from the frame before it to this one.
    cost: Duration,
    /// The time of the user's last action.
    touched: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self(Mutex::new(Last { begun: now, spent: cpu_time(), cost: Duration::ZERO, touched: now }))
    }

    /// A frame begins; `touched` says whether the user did something since the last one.
    pub(super) fn frame(&self, touched: bool) {
        let (now, spent) = (Instant::now(), cpu_time());
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = if touched { now } else { last.touched };
        *last = Last { begun: now, spent, cost: spent.saturating_sub(last.spent), touched };
    }

    /// Whether the user has not touched the window for a while.
    pub(super) fn is_at_rest(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).touched.elapsed() >= REST
    }

    /// How long news that arrive now wait.
    pub(super) fn wait(&self) -> Duration {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.touched.elapsed() < ATTENTION {
            return Duration::ZERO;
        }
        // The cost of the current frame is only known in the next one, so the higher of both counts.
        let cost = last.cost.max(cpu_time().saturating_sub(last.spent));
        interval(cost).saturating_sub(last.begun.elapsed())
    }
}

/// Time between two frames with this cost.
fn interval(cost: Duration) -> Duration {
    cost.div_f64(SHARE).min(LONGEST_WAIT)
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn news_wait_as_long_as_frames_are_dear_but_not_for_a_user_who_waits() {
        assert_eq!(interval(Duration::from_millis(1)), Duration::from_millis(25));
        assert_eq!(interval(Duration::from_millis(300)), LONGEST_WAIT);
        let pace = Pace::new();
        // Spend CPU time, as drawing does.
        let spent = cpu_time();
        while cpu_time() - spent < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
        pace.frame(false);
        assert_eq!(pace.wait(), Duration::ZERO, "the window was just opened");
        pace.0.lock().unwrap().touched -= ATTENTION;
        assert!(pace.wait() > Duration::from_millis(500), "{:?}", pace.wait());
        pace.frame(true);
        assert_eq!(pace.wait(), Duration::ZERO);
    }

    #[test]
    fn a_window_is_at_rest_until_somebody_touches_it() {
        let pace = Pace::new();
        assert!(!pace.is_at_rest(), "it was just opened");
        pace.0.lock().unwrap().touched -= REST;
        pace.frame(false);
        assert!(pace.is_at_rest());
        pace.frame(true);
        assert!(!pace.is_at_rest());
    }
}
