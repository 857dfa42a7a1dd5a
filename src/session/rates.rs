//! Measures what the machine's devices reach, and keeps it with a session.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use super::{Machine, SAMPLES_IN_FLIGHT, SessionError};
use crate::launch::{self, Measured};
use crate::protocol::{DeviceRates, RateLine, Sample};
use crate::store::{Decision, Store};
use crate::telemetry::{self, Sampler, Watch};

/// Name of the watch of the samples meanwhile.
const WATCH: &str = "rates";

/// Measures each GPU of the machine one after another, or its CPUs where there is none, for about `duration_s` each, and records the
/// rates in the session of a folder, if one is given. `each` sees the worker's lines, and `None` in between; it may break off: what
/// was measured by then is kept.
///
/// # Errors
/// There is no worker, a device cannot be measured, or the session cannot be written, as while another process runs it.
pub fn measure_rates(
    machine: &Machine,
    folder: Option<&Path>,
    duration_s: f64,
    each: &mut dyn FnMut(Option<&RateLine>) -> ControlFlow<()>,
) -> Result<Vec<DeviceRates>, SessionError> {
    let Machine { node, worker, .. } = machine;
    let worker = worker
        .as_ref()
        .ok_or_else(|| SessionError::NoWorker(node.worker.as_ref().err().cloned().unwrap_or_default()))?;
    // Whoever holds the session could start runs meanwhile.
    let store = folder.map(Store::open).transpose()?;
    let gpus = node.gpus.iter().filter(|gpu| node.has_cuda() && !gpu.mig).map(|gpu| Some(&*gpu.uuid));
    let mut devices: Vec<Option<&str>> = gpus.collect();
    if devices.is_empty() {
        devices.push(None);
    }
    let mut all = Vec::new();
    for gpu_uuid in devices {
        let (sender, samples) = sync_channel(SAMPLES_IN_FLIGHT);
        let sampler = Sampler::start(telemetry::DEFAULT_INTERVAL, sender)?;
        let gpu_uuids = gpu_uuid.iter().map(|uuid| (*uuid).to_owned()).collect();
        sampler.watch(Watch { run: WATCH.to_owned(), gpu_uuids, ..Watch::default() });
        let mut seen = Seen::default();
        let mut watched = |line: Option<&RateLine>| {
            seen.is_measuring |= matches!(line, Some(RateLine::Begins { .. }));
            samples.try_iter().for_each(|(_, sample)| seen.take(&sample));
            each(line)
        };
        let measured = Measured { gpu_uuid, threads: node.cpus, duration_s };
        let found = launch::measure_rates(worker, &measured, &mut watched).map_err(SessionError::Rates)?;
        let Some(mut rates) = found else { break };
        rates.sm_clock_mhz = seen.clock_mhz();
        rates.throttle_reasons = seen.throttle_reasons.into_iter().collect();
        if let Some(store) = &store {
            store.decide(Decision::RatesMeasured { rates: rates.clone() })?;
        }
        all.push(rates);
    }
    Ok(all)
}

/// What samples say of a GPU while it is measured.
#[derive(Default)]
struct Seen {
    is_measuring: bool,
    clocks_mhz: f64,
    samples: u32,
    throttle_reasons: BTreeSet<String>,
}

impl Seen {
    fn take(&mut self, sample: &Sample) {
        for gpu in sample.gpus.iter().filter(|_| self.is_measuring) {
            self.throttle_reasons.extend(gpu.throttle_reasons.iter().cloned());
            if let Some(clock_mhz) = gpu.sm_clock_mhz {
                (self.clocks_mhz, self.samples) = (self.clocks_mhz + f64::from(clock_mhz), self.samples + 1);
            }
        }
    }

    fn clock_mhz(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.clocks_mhz / f64::from(self.samples))
    }
}
