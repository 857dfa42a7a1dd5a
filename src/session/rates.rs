//! Measures the rates that the machine's devices reach, between runs, and stores them in the session device by device.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::measurement::{MEASURE_S, Measurement, Stage};
use super::{Machine, SAMPLES_IN_FLIGHT, Session, SessionError};
use crate::launch::{self, Measured, WorkerCommand};
use crate::plan::{Gpu, Node};
use crate::protocol::{DeviceRates, RateLine, Sample, now_s};
use crate::store::Decision;
use crate::telemetry::{self, Sampler, Watch};

/// Name under which the sampler collects samples during the measurement.
const WATCH: &str = "rates";
/// The most messages that wait to be read.
const MESSAGES_IN_FLIGHT: usize = 64;

/// Messages during a measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum RatesMessage {
    /// Its progress.
    At(Measurement),
    /// A device was measured.
    Rates(Box<DeviceRates>),
}

/// Measures each GPU of the machine one after another, or its CPUs if there is none, for about `duration_s` each, until `cancelled` is set.
/// Sends its progress and the rates through `tell`.
///
/// # Errors
/// No worker was found, or the worker failed to measure a device.
pub fn measure_rates(
    machine: &Machine,
    duration_s: f64,
    cancelled: &AtomicBool,
    tell: &mut dyn FnMut(RatesMessage),
) -> Result<(), SessionError> {
    let worker = machine.worker.as_ref().ok_or_else(|| no_worker(&machine.node))?;
    let measurement = new_measurement(&machine.node, duration_s)?;
    match measure(&machine.node, worker, measurement, cancelled, tell).stage {
        Stage::Failed(reason) => Err(SessionError::Rates(reason)),
        _ => Ok(()),
    }
}

fn no_worker(node: &Node) -> SessionError {
    SessionError::Rates(node.worker.as_ref().err().cloned().unwrap_or_else(|| "there is no worker".to_owned()))
}

/// The GPUs of a machine that are measured. If the list is empty, the machine's CPUs are measured.
pub fn measured_gpus(node: &Node) -> Vec<&Gpu> {
    node.gpus.iter().filter(|gpu| node.has_cuda() && !gpu.mig).collect()
}

/// The UUIDs of the GPUs that are measured; `None` means the CPUs.
fn devices(node: &Node) -> Vec<Option<&str>> {
    let gpus = measured_gpus(node);
    if gpus.is_empty() { vec![None] } else { gpus.into_iter().map(|gpu| Some(&*gpu.uuid)).collect() }
}

/// A new measurement of the machine's devices, before its start.
fn new_measurement(node: &Node, duration_s: f64) -> Result<Measurement, SessionError> {
    if !MEASURE_S.contains(&duration_s) {
        let (least, most) = (MEASURE_S.start(), MEASURE_S.end());
        let reason = format!("each device is measured for {least} to {most} s, and {duration_s} s were asked for");
        return Err(SessionError::Rates(reason));
    }
    let devices = devices(node).len();
    Ok(Measurement { time_s: now_s(), duration_s, devices, measured: 0, left: Vec::new(), stage: Stage::Waits })
}

/// Measures the devices and returns the measurement in its final state.
fn measure(
    node: &Node,
    worker: &WorkerCommand,
    mut at: Measurement,
    cancelled: &AtomicBool,
    tell: &mut dyn FnMut(RatesMessage),
) -> Measurement {
    at.stage = Stage::Measured;
    for gpu_uuid in devices(node) {
        at.stage = Stage::Opens;
        tell(RatesMessage::At(at.clone()));
        match measure_device(node, worker, gpu_uuid, &mut at, cancelled, tell) {
            Ok(Some(rates)) => {
                tell(RatesMessage::Rates(Box::new(rates)));
                at.measured += 1;
                at.stage = Stage::Measured;
            }
            Ok(None) => at.stage = Stage::Cancelled,
            Err(reason) => at.stage = Stage::Failed(reason),
        }
        if at.stage != Stage::Measured {
            break;
        }
    }
    tell(RatesMessage::At(at.clone()));
    at
}

/// Measures a device; `None` if it was cancelled.
fn measure_device(
    node: &Node,
    worker: &WorkerCommand,
    gpu_uuid: Option<&str>,
    at: &mut Measurement,
    cancelled: &AtomicBool,
    tell: &mut dyn FnMut(RatesMessage),
) -> Result<Option<DeviceRates>, String> {
    let (sender, samples) = sync_channel(SAMPLES_IN_FLIGHT);
    let sampler = Sampler::start(telemetry::DEFAULT_INTERVAL, sender).map_err(|error| error.to_string())?;
    let gpu_uuids: Vec<String> = gpu_uuid.iter().map(|uuid| (*uuid).to_owned()).collect();
    let mut watch = |process: u32| {
        let gpu_uuids = gpu_uuids.clone();
        sampler.watch(Watch { run: WATCH.to_owned(), gpu_uuids, ranks: vec![(0, process)], ..Watch::default() });
    };
    let (mut seen, mut name) = (Seen::default(), String::new());
    let measured = Measured { gpu_uuid, threads: node.cpus, duration_s: at.duration_s };
    let found = launch::measure_rates(worker, &measured, &mut watch, &mut |line| {
        samples.try_iter().for_each(|(_, sample)| seen.take(&sample));
        match line {
            Some(RateLine::Device { device, .. }) => name.clone_from(&device.name),
            Some(RateLine::Begins { key }) => {
                seen.is_measuring = true;
                at.stage = Stage::Measures { device: name.clone(), key: key.clone() };
                tell(RatesMessage::At(at.clone()));
            }
            Some(RateLine::Left { key, reason }) => {
                at.left.push(format!("{key} of {name} cannot be measured: {reason}"));
            }
            _ => {}
        }
        if cancelled.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found.map(|rates| DeviceRates {
        time_s: Some(now_s()),
        sm_clock_mhz: seen.clock_mhz(),
        others_cpus: seen.others_cpus().filter(|_| gpu_uuid.is_none()),
        throttle_reasons: seen.throttle_reasons.into_iter().collect(),
        ..rates
    }))
}

/// The findings in the telemetry samples during the measurement of a device.
#[derive(Default)]
struct Seen {
    is_measuring: bool,
    /// The CPUs that other programs kept busy: the sum over samples, and the number of samples.
    others: (f64, u32),
    clocks_mhz: f64,
    samples: u32,
    throttle_reasons: BTreeSet<String>,
}

impl Seen {
    fn take(&mut self, sample: &Sample) {
        let worker = sample.ranks.iter().map(|rank| rank.cpus_busy).sum::<Option<f64>>();
        let worker = worker.filter(|_| self.is_measuring && !sample.ranks.is_empty());
        if let Some((all, worker)) = sample.host.cpus_busy.zip(worker) {
            // The counters of the host and of the process are not read at exactly the same moment.
            self.others = (self.others.0 + (all - worker).max(0.0), self.others.1 + 1);
        }
        for gpu in sample.gpus.iter().filter(|_| self.is_measuring) {
            self.throttle_reasons.extend(gpu.throttle_reasons.iter().cloned());
            if let Some(clock_mhz) = gpu.sm_clock_mhz {
                (self.clocks_mhz, self.samples) = (self.clocks_mhz + f64::from(clock_mhz), self.samples + 1);
            }
        }
    }

    fn others_cpus(&self) -> Option<f64> {
        (self.others.1 > 0).then(|| self.others.0 / f64::from(self.others.1))
    }

    fn clock_mhz(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.clocks_mhz / f64::from(self.samples))
    }
}

/// A measurement on a thread. Dropping it ends the worker at once.
pub(super) struct Measuring {
    cancelled: Arc<AtomicBool>,
    messages: Receiver<RatesMessage>,
    thread: Option<JoinHandle<()>>,
}

impl Measuring {
    fn start(node: Node, worker: WorkerCommand, measurement: Measurement) -> std::io::Result<Self> {
        let (sender, messages) = sync_channel(MESSAGES_IN_FLIGHT);
        let cancelled = Arc::<AtomicBool>::default();
        let theirs = Arc::clone(&cancelled);
        let work = move || {
            // If the receiver is gone, the measurement was cancelled.
            let mut tell = |progress| drop(sender.send(progress));
            measure(&node, &worker, measurement, &theirs, &mut tell);
        };
        let thread = std::thread::Builder::new().name("measuring".to_owned()).spawn(work)?;
        Ok(Self { cancelled, messages, thread: Some(thread) })
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        // Unblocks a thread that waits for room in the channel.
        self.messages = sync_channel(0).1;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed where it happened.
            let _ = thread.join();
        }
    }
}

impl Session {
    /// Measures the machine's devices for about `duration_s` each, as soon as nothing else is running; no further run starts before its
    /// end. [`Session::measurement`] gives its progress.
    ///
    /// # Errors
    /// Another measurement is waiting or running, no worker was found, or `duration_s` is not within [`MEASURE_S`].
    pub fn measure_rates(&mut self, duration_s: f64) -> Result<(), SessionError> {
        if self.is_measuring() {
            let reason = "a measurement is waiting or running: wait for its end, or cancel it";
            return Err(SessionError::Rates(reason.to_owned()));
        }
        if self.worker.is_none() {
            return Err(no_worker(&self.node));
        }
        self.measurement = Some(new_measurement(&self.node, duration_s)?);
        self.start_measuring();
        Ok(())
    }

    /// Cancels the measurement that is waiting or running; the rates measured so far are kept.
    pub fn cancel_measuring(&mut self) {
        match (&self.measuring, &mut self.measurement) {
            (Some(measuring), _) => measuring.cancelled.store(true, Ordering::Relaxed),
            (None, Some(waiting)) if !waiting.is_over() => waiting.stage = Stage::Cancelled,
            (None, _) => {}
        }
    }

    /// The measurement that is waiting or running, or else the last one.
    pub fn measurement(&self) -> Option<&Measurement> {
        self.measurement.as_ref()
    }

    /// Whether a measurement is waiting or running.
    pub(super) fn is_measuring(&self) -> bool {
        // A thread that has reported its end counts as running until it is joined.
        self.measuring.is_some() || self.measurement.as_ref().is_some_and(|measurement| !measurement.is_over())
    }

    /// Starts the waiting measurement, unless it would disturb something or be disturbed.
    fn start_measuring(&mut self) {
        let Some(measurement) = self.measurement.as_mut().filter(|measurement| measurement.stage == Stage::Waits)
        else {
            return;
        };
        let is_alone = self.queue.active().next().is_none() && self.import.is_none() && self.to_import.is_empty();
        let (true, Some(worker)) = (is_alone, self.worker.clone()) else { return };
        match Measuring::start(self.node.clone(), worker, measurement.clone()) {
            Ok(measuring) => {
                measurement.stage = Stage::Opens;
                self.measuring = Some(measuring);
            }
            Err(error) => {
                measurement.stage = Stage::Failed(format!("cannot start a thread: {error}: end other programs"));
            }
        }
    }

    /// Takes over the results of the running measurement, or starts the waiting one.
    pub(super) fn take_measured(&mut self) {
        let Some(measuring) = &self.measuring else { return self.start_measuring() };
        let has_ended = measuring.thread.as_ref().is_none_or(JoinHandle::is_finished);
        for message in measuring.messages.try_iter().collect::<Vec<_>>() {
            match message {
                RatesMessage::At(measurement) => self.measurement = Some(measurement),
                RatesMessage::Rates(rates) => self.record(Decision::RatesMeasured { rates: *rates }),
            }
        }
        if !has_ended {
            return;
        }
        self.measuring = None;
        if let Some(broken) = self.measurement.as_mut().filter(|measurement| !measurement.is_over()) {
            broken.stage =
                Stage::Failed("the measurement was interrupted; the conductor's log gives the reason".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{HostSample, RankSample};

    #[test]
    fn what_others_take_while_a_cpu_is_measured_is_seen() {
        let sample = |all: f64, worker: f64| Sample {
            host: HostSample { cpus_busy: Some(all), ..HostSample::default() },
            ranks: vec![RankSample { cpus_busy: Some(worker), ..RankSample::default() }],
            ..Sample::default()
        };
        let mut seen = Seen::default();
        seen.take(&sample(2.0, 0.0));
        assert_eq!(seen.others_cpus(), None, "the worker opens its libraries");
        seen.is_measuring = true;
        [(2.0, 1.0), (2.0, 1.5), (1.0, 1.25)].iter().for_each(|(all, worker)| seen.take(&sample(*all, *worker)));
        seen.take(&Sample::default());
        assert_eq!(seen.others_cpus(), Some(0.5));
    }
}
