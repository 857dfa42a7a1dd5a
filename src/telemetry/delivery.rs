//! Delivery of a run's samples to the sink, without waiting and with gaps marked.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use crate::protocol::Sample;

/// The receiver of samples is gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SinkGone;

/// Delay, in intervals, from which a gap is marked.
const LATE_INTERVALS: f64 = 3.0;

/// State of the delivery of one run.
#[derive(Debug)]
pub(super) struct Delivery {
    last_time_s: Option<f64>,
    dropped: bool,
}

impl Delivery {
    /// Continues after an earlier sampling of the run, if there was one.
    pub fn after(last_time_s: Option<f64>) -> Self {
        Self { last_time_s, dropped: false }
    }

    /// Delivers a sample. If the sink is full, the sample is dropped and the next one marks the gap.
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
                // If the first sample is dropped, the gap starts there.
                self.last_time_s.get_or_insert(time_s);
                self.dropped = true;
            }
            Err(TrySendError::Disconnected(_)) => return Err(SinkGone),
        }
        Ok(())
    }

    /// Duration of the gap before a sample, in wall time, so that a suspended machine also leaves a gap.
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
    fn a_full_sink_drops_samples_and_the_next_delivered_one_marks_the_gap() {
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
    fn a_tick_late_by_more_than_three_intervals_and_an_earlier_sampling_leave_a_gap() {
        let hole_s = |last: Option<f64>, time_s: f64| Delivery::after(last).hole_s(time_s, INTERVAL);
        assert_eq!(hole_s(None, 5.0), None);
        assert_eq!(hole_s(Some(5.0), 5.375), None);
        assert_eq!(hole_s(Some(5.0), 5.5), Some(0.5));
        assert_eq!(hole_s(Some(5.0), 65.0), Some(60.0));
        // The clock was set back.
        assert_eq!(hole_s(Some(5.0), 4.0), None);
    }

    #[test]
    fn a_sink_without_receiver_is_an_error() {
        let (sink, samples) = sync_channel(1);
        drop(samples);
        assert_eq!(Delivery::after(None).deliver("a", sample(1.0), INTERVAL, &sink), Err(SinkGone));
    }
}
