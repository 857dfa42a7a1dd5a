//! Hands the samples of one run to the sink without ever waiting, and marks holes in them.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use crate::protocol::Sample;

/// Nobody receives samples any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SinkGone;

/// A sample later than this many intervals is said to be so.
const LATE_INTERVALS: f64 = 3.0;

/// What of one run has been delivered.
#[derive(Debug)]
pub(super) struct Delivery {
    last_time_s: Option<f64>,
    dropped: bool,
}

impl Delivery {
    /// Goes on after an earlier sampling of the run, where there was one.
    pub fn after(last_time_s: Option<f64>) -> Self {
        Self { last_time_s, dropped: false }
    }

    /// Delivers a sample. Where the sink is full the sample is lost, and the next one that gets through says so.
    pub fn deliver(
        &mut self,
        run: &str,
        mut sample: Sample,
        interval: Duration,
        sink: &SyncSender<(String, Sample)>,
    ) -> Result<(), SinkGone> {
        let time_s = sample.time_s;
        sample.hole_s = self.hole_s(time_s, interval);
        match sink.try_send((run.to_owned(), sample)) {
            Ok(()) => *self = Self::after(Some(time_s)),
            Err(TrySendError::Full(_)) => {
                // A run whose very first sample is lost is without samples since then.
                self.last_time_s.get_or_insert(time_s);
                self.dropped = true;
            }
            Err(TrySendError::Disconnected(_)) => return Err(SinkGone),
        }
        Ok(())
    }

    /// Wall time, because readers see wall time: a machine that slept has a hole too.
    fn hole_s(&self, time_s: f64, interval: Duration) -> Option<f64> {
        let gap_s = time_s - self.last_time_s?;
        let late = gap_s > (LATE_INTERVALS + 1.0) * interval.as_secs_f64();
        (gap_s > 0.0 && (self.dropped || late)).then_some(gap_s)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn sample(time_s: f64) -> Sample {
        Sample { time_s, ..Sample::default() }
    }

    #[test]
    fn a_full_sink_loses_samples_and_the_next_delivered_one_says_so() {
        let (sink, samples) = sync_channel(1);
        let mut delivery = Delivery::after(None);
        for time_s in [10.0, 10.125, 10.25] {
            delivery.deliver("a", sample(time_s), INTERVAL, &sink).unwrap();
        }
        assert_eq!(samples.recv().unwrap().1, sample(10.0));
        delivery.deliver("a", sample(10.375), INTERVAL, &sink).unwrap();
        assert_eq!(samples.recv().unwrap().1.hole_s, Some(0.375));
        delivery.deliver("a", sample(10.5), INTERVAL, &sink).unwrap();
        assert_eq!(samples.recv().unwrap().1.hole_s, None);
    }

    #[test]
    fn a_tick_late_by_more_than_three_intervals_and_an_earlier_sampling_leave_a_hole() {
        let hole_s = |last: Option<f64>, time_s: f64| Delivery::after(last).hole_s(time_s, INTERVAL);
        assert_eq!(hole_s(None, 5.0), None);
        assert_eq!(hole_s(Some(5.0), 5.375), None);
        assert_eq!(hole_s(Some(5.0), 5.5), Some(0.5));
        assert_eq!(hole_s(Some(5.0), 65.0), Some(60.0));
        // The clock was set back: nothing true can be said.
        assert_eq!(hole_s(Some(5.0), 4.0), None);
    }

    #[test]
    fn a_sink_without_receiver_is_told() {
        let (sink, samples) = sync_channel(1);
        drop(samples);
        assert_eq!(Delivery::after(None).deliver("a", sample(1.0), INTERVAL, &sink), Err(SinkGone));
    }
}
