//! The sampler: the handle of the telemetry thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use thiserror::Error;

use super::gpu;
use super::roots::Roots;
use super::ticker::{Entry, Shared, Ticker, Watch};
use crate::protocol::Sample;

/// Default interval: ten samples per second.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);

/// Shortest interval; one round of sampling takes longer than a shorter one.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Longest interval.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// A sampler could not be started.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The interval is out of range.
    #[error(
        "the sampling interval {0:?} is out of range: it must be from {SHORTEST_INTERVAL:?} to {LONGEST_INTERVAL:?}"
    )]
    Interval(Duration),
    /// The thread could not be started.
    #[error("cannot start the telemetry thread ({0}): close other programs or raise `ulimit -u`")]
    Thread(#[from] io::Error),
}

/// The telemetry thread. Dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    gpu_source: Result<(), String>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread, which sleeps until something is watched. It never waits for `sink`: if that is full, samples are
    /// dropped and the next one marks the gap in `hole_s`. The thread ends when the receiver is dropped.
    ///
    /// # Errors
    /// When the interval is below 1 ms or above 1 h, or no thread can be started. Missing NVML is not an error; see
    /// [`Self::gpu_source`].
    pub fn start(interval: Duration, sink: SyncSender<(String, Sample)>) -> Result<Self, TelemetryError> {
        if !(SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
            return Err(TelemetryError::Interval(interval));
        }
        let (nvml, gpu_source) = match gpu::open() {
            Ok(nvml) => (Some(nvml), Ok(())),
            Err(reason) => (None, Err(reason)),
        };
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let thread = Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || Ticker::new(interval, sink, nvml, Roots::default()).run(&for_thread))?;
        Ok(Self { shared, gpu_source, thread: Some(thread) })
    }

    /// Starts sampling a run, or changes the GPUs or ranks of one that is being sampled.
    pub fn watch(&self, watch: Watch) {
        self.shared.change(|board| {
            board.revision += 1;
            let revision = board.revision;
            let birth = board.watches.get(&watch.run).map_or(revision, |entry| entry.birth);
            board.watches.insert(watch.run.clone(), Entry { birth, revision, watch });
        });
    }

    /// Stops sampling a run. One more sample may be delivered.
    pub fn unwatch(&self, run: &str) {
        self.shared.change(|board| {
            board.revision += 1;
            board.watches.remove(run);
        });
    }

    /// Whether GPUs can be read.
    ///
    /// # Errors
    /// Why NVML cannot be used, and what to do.
    pub fn gpu_source(&self) -> Result<(), String> {
        self.gpu_source.clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.change(|board| board.stop = true);
        if let Some(thread) = self.thread.take() {
            // A panic was printed where it happened.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
    use std::time::Instant;
    use std::{env, process};

    use super::*;
    use crate::protocol::GpuSample;
    use crate::telemetry::ticker::in_own_pid_namespace;

    /// A time limit far above what the tests need.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn watch(run: &str, ranks: Vec<(u32, u32)>) -> Watch {
        Watch { run: run.to_owned(), ranks, ..Watch::default() }
    }

    fn next(samples: &Receiver<(String, Sample)>) -> (String, Sample) {
        samples.recv_timeout(PATIENCE).unwrap()
    }

    #[test]
    fn a_watched_process_is_seen_with_its_memory_and_then_its_cpu() {
        let (sink, samples) = sync_channel(64);
        let sampler = Sampler::start(Duration::from_millis(5), sink).unwrap();
        sampler.watch(watch("a", vec![(4, process::id())]));
        let (run, first) = next(&samples);
        assert_eq!((run.as_str(), first.ranks[0].rank), ("a", 4));
        assert!(first.ranks[0].resident_bytes.is_some_and(|bytes| bytes > 0));
        assert_eq!((first.hole_s, first.ranks[0].cpus_busy), (None, None));
        let (mut of_rank, mut of_host) = (None, None);
        while of_rank.is_none() || of_host.is_none() {
            let (_, later) = next(&samples);
            (of_rank, of_host) = (of_rank.or(later.ranks[0].cpus_busy), of_host.or(later.host.cpus_busy));
            assert!(later.time_s > first.time_s);
        }
    }

    #[test]
    fn samples_come_no_faster_than_the_interval_and_every_gap_is_marked() {
        let interval = Duration::from_millis(10);
        let (sink, samples) = sync_channel(64);
        let sampler = Sampler::start(interval, sink).unwrap();
        let start = Instant::now();
        sampler.watch(watch("a", Vec::new()));
        let mut last_s: Option<f64> = None;
        for tick in 0..40_u32 {
            let (_, sample) = next(&samples);
            assert!(start.elapsed() >= interval * tick, "sample {tick} came early");
            if let Some(gap_s) = last_s.map(|last_s| sample.time_s - last_s).filter(|gap_s| *gap_s > 0.041) {
                assert_eq!(sample.hole_s, Some(gap_s));
            }
            last_s = Some(sample.time_s);
        }
    }

    #[test]
    fn an_earlier_sampling_of_the_run_leaves_a_marked_gap() {
        let (sink, samples) = sync_channel(64);
        let sampler = Sampler::start(Duration::from_millis(5), sink).unwrap();
        sampler.watch(Watch { samples_after: Some(1000.0), ..watch("a", Vec::new()) });
        let (_, sample) = next(&samples);
        assert_eq!(sample.hole_s, Some(sample.time_s - 1000.0));
    }

    #[test]
    fn a_watch_is_replaced_and_an_unwatched_run_is_no_longer_sampled() {
        let (sink, samples) = sync_channel(64);
        let sampler = Sampler::start(Duration::from_millis(2), sink).unwrap();
        sampler.watch(watch("a", vec![(0, 1)]));
        next(&samples);
        sampler.watch(watch("a", vec![(0, 1), (1, process::id())]));
        while next(&samples).1.ranks.len() < 2 {}
        sampler.watch(watch("b", Vec::new()));
        while next(&samples).0 != "b" {}
        sampler.unwatch("a");
        // One tick may have been under way; after as many of `b` as the sink holds none of `a` can be left.
        let mut of_b = 0;
        while of_b < 100 {
            let (run, _) = next(&samples);
            of_b = if run == "b" { of_b + 1 } else { 0 };
        }
    }

    #[test]
    fn a_stopped_sampler_has_ended_its_thread() {
        for watched in [true, false] {
            let (sink, samples) = sync_channel(1);
            let sampler = Sampler::start(Duration::from_millis(1), sink).unwrap();
            if watched {
                sampler.watch(watch("a", Vec::new()));
                next(&samples);
            } else {
                assert_eq!(samples.try_recv().unwrap_err(), std::sync::mpsc::TryRecvError::Empty);
            }
            drop(sampler);
            // The thread alone holds the sink.
            let end = samples.into_iter().count();
            assert!(end <= 1);
        }
    }

    #[test]
    fn the_thread_ends_when_the_receiver_is_dropped() {
        let (sink, samples) = sync_channel(1);
        let sampler = Sampler::start(Duration::from_millis(1), sink).unwrap();
        drop(samples);
        sampler.watch(watch("a", Vec::new()));
        let start = Instant::now();
        while !sampler.thread.as_ref().unwrap().is_finished() {
            assert!(start.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_interval_out_of_range_is_refused() {
        for interval in [Duration::ZERO, Duration::MAX] {
            let (sink, _samples) = sync_channel(1);
            let error = Sampler::start(interval, sink).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("the sampling interval {interval:?} is out of range: it must be from 1ms to 3600s")
            );
        }
    }

    #[test]
    fn a_gpu_unknown_to_nvml_has_only_its_uuid() {
        let (sink, samples) = sync_channel(8);
        let sampler = Sampler::start(Duration::from_millis(5), sink).unwrap();
        sampler.watch(Watch { gpu_uuids: vec!["GPU-unknown".to_owned()], ..watch("a", Vec::new()) });
        let expected = GpuSample { uuid: "GPU-unknown".to_owned(), ..GpuSample::default() };
        assert_eq!(next(&samples).1.gpus, [expected]);
    }

    /// Best with a program on the GPUs.
    #[test]
    #[ignore = "needs a GPU: make test-gpu"]
    fn reads_every_gpu_value_on_a_gpu_node() {
        let node = super::super::read_node();
        println!("{node:#?}\nCUDA_VISIBLE_DEVICES: {:?}", env::var_os("CUDA_VISIBLE_DEVICES"));
        assert!(!node.gpus.is_empty(), "no GPU: {:?}", node.no_gpu_reason);
        let (sink, samples) = sync_channel(64);
        let sampler = Sampler::start(DEFAULT_INTERVAL, sink).unwrap();
        sampler.gpu_source().unwrap();
        let gpu_uuids: Vec<String> = node.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        sampler.watch(Watch { gpu_uuids, ..watch("a", vec![(0, process::id())]) });
        let mut times_s = Vec::new();
        let mut last = Sample::default();
        while times_s.len() < 30 {
            match samples.recv_timeout(PATIENCE) {
                Ok((_, sample)) => {
                    times_s.push(sample.time_s);
                    last = sample;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => panic!("no sample came"),
            }
        }
        println!("{last:#?}");
        let gaps_ms: Vec<f64> = times_s.windows(2).map(|pair| (pair[1] - pair[0]) * 1e3).collect();
        println!("gaps in ms: {gaps_ms:.1?}; own PID namespace: {}", in_own_pid_namespace(&Roots::default()));
        for gpu in &last.gpus {
            assert!(gpu.memory_used_bytes.is_some() && gpu.power_w.is_some() && gpu.temperature_c.is_some());
        }
    }
}
