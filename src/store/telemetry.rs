//! Fold that summarizes a run's samples, both live and when the index is rebuilt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TelemetryRecord;
use super::load::LoadFold;
use crate::protocol::Sample;

/// Longest gap within a span: it keeps the list of spans short if a reason flickers.
const SPAN_GAP_S: f64 = 1.0;

/// Energy counter of one GPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Energy {
    /// Energy of earlier counters: a reloaded driver counts from 0.
    before_j: f64,
    first_j: f64,
    last_j: f64,
    readings: u64,
}

impl Energy {
    fn add(&mut self, energy_j: f64) {
        if self.readings == 0 {
            self.first_j = energy_j;
        } else if energy_j < self.last_j {
            self.before_j += self.last_j - self.first_j;
            self.first_j = energy_j;
        }
        self.last_j = energy_j;
        self.readings += 1;
    }

    /// Energy consumed; none before the second reading.
    fn taken_j(&self) -> Option<f64> {
        (self.readings > 1).then_some(self.before_j + (self.last_j - self.first_j))
    }
}

/// Period from the first to the last consecutive sample with a throttle reason, in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Span {
    first_s: f64,
    last_s: f64,
}

/// State of the summary over the samples so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TelemetryFold {
    samples: u64,
    peak_device_bytes: Option<u64>,
    shared: bool,
    longest_hole_s: Option<f64>,
    last_time_s: f64,
    /// By GPU, including GPUs that never reported their energy.
    energy: BTreeMap<String, Energy>,
    /// By throttle reason.
    throttle: BTreeMap<String, Vec<Span>>,
    load: LoadFold,
}

impl TelemetryFold {
    pub(super) fn add(&mut self, sample: &Sample) {
        for gpu in &sample.gpus {
            self.peak_device_bytes = self.peak_device_bytes.max(gpu.memory_used_bytes);
            self.shared |= gpu.foreign_processes.is_some_and(|count| count > 0);
            let energy = self.energy.entry(gpu.uuid.clone()).or_default();
            if let Some(energy_j) = gpu.energy_j {
                energy.add(energy_j);
            }
            for reason in &gpu.throttle_reasons {
                self.throttled(reason, sample);
            }
        }
        if let Some(hole_s) = sample.hole_s {
            self.longest_hole_s = Some(self.longest_hole_s.map_or(hole_s, |longest| longest.max(hole_s)));
        }
        self.load.add(sample);
        self.last_time_s = sample.time_s;
        self.samples += 1;
    }

    fn throttled(&mut self, reason: &str, sample: &Sample) {
        let spans = self.throttle.entry(reason.to_owned()).or_default();
        let before_s = self.last_time_s;
        match spans.last_mut() {
            Some(span)
                if sample.time_s - span.last_s <= SPAN_GAP_S
                    || (span.last_s == before_s && sample.hole_s.is_none()) =>
            {
                span.last_s = sample.time_s;
            }
            _ => spans.push(Span { first_s: sample.time_s, last_s: sample.time_s }),
        }
    }

    /// The summary. `counted` are the periods of counted steps (from, to); `None` counts the whole run.
    pub(super) fn summary(&self, counted: Option<&[(f64, f64)]>) -> TelemetryRecord {
        let seen = |spans: &[Span]| match counted {
            None => true,
            Some(times) => spans.iter().any(|s| times.iter().any(|&(from, to)| s.first_s <= to && s.last_s >= from)),
        };
        let throttled = self.throttle.iter().filter(|(_, spans)| seen(spans));
        // A sum over a part of the GPUs would be too low, so all of them must report.
        let energies: Option<Vec<f64>> = self.energy.values().map(Energy::taken_j).collect();
        TelemetryRecord {
            peak_device_bytes: self.peak_device_bytes,
            energy_j: energies.filter(|all| !all.is_empty()).map(|all| all.iter().sum()),
            throttle_reasons: throttled.map(|(reason, _)| reason.clone()).collect(),
            shared: self.shared,
            load: self.load.summary(counted),
            longest_hole_s: self.longest_hole_s,
            samples: self.samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::GpuSample;

    fn sample(time_s: f64, energies_j: &[Option<f64>], reasons: &[&str]) -> Sample {
        let gpu = |(index, energy_j): (usize, &Option<f64>)| GpuSample {
            uuid: format!("GPU-{index}"),
            energy_j: *energy_j,
            throttle_reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            ..GpuSample::default()
        };
        Sample { time_s, gpus: energies_j.iter().enumerate().map(gpu).collect(), ..Sample::default() }
    }

    fn fold(samples: &[Sample]) -> TelemetryFold {
        let mut fold = TelemetryFold::default();
        samples.iter().for_each(|sample| fold.add(sample));
        fold
    }

    #[test]
    fn energy_is_the_sum_over_gpus_of_last_less_first() {
        let all = [sample(0.0, &[Some(10.0), Some(100.0)], &[]), sample(1.0, &[Some(15.0), Some(107.0)], &[])];
        assert_eq!(fold(&all).summary(None).energy_j, Some(12.0));
        assert_eq!(fold(&all[..1]).summary(None).energy_j, None, "one reading gives no difference");
        let partly = [sample(0.0, &[Some(10.0), None], &[]), sample(1.0, &[Some(15.0), None], &[])];
        assert_eq!(fold(&partly).summary(None).energy_j, None, "a GPU did not report");
        let reloaded = [sample(0.0, &[Some(10.0)], &[]), sample(1.0, &[Some(15.0)], &[])];
        let reloaded = [&reloaded[..], &[sample(2.0, &[Some(1.0)], &[]), sample(3.0, &[Some(3.0)], &[])]].concat();
        assert_eq!(fold(&reloaded).summary(None).energy_j, Some(7.0), "the counter restarted");
    }

    #[test]
    fn throttle_reasons_count_only_while_steps_count() {
        let gpu = &[None];
        let fold = fold(&[
            sample(0.0, gpu, &["idle"]),
            sample(10.0, gpu, &["power"]),
            sample(20.0, gpu, &["power"]),
            sample(30.0, gpu, &["heat"]),
        ]);
        let reasons = |times: Option<&[(f64, f64)]>| fold.summary(times).throttle_reasons;
        assert_eq!(reasons(Some(&[(5.0, 12.0)])), ["power"]);
        assert_eq!(reasons(Some(&[(12.0, 18.0)])), ["power"], "between two samples that both show it");
        assert_eq!(reasons(Some(&[(21.0, 29.0)])), [""; 0]);
        assert_eq!(reasons(Some(&[(0.0, 1.0), (29.0, f64::INFINITY)])), ["heat", "idle"]);
        assert_eq!(reasons(None), ["heat", "idle", "power"]);
    }

    #[test]
    fn a_flickering_reason_stays_one_span() {
        let flicker: Vec<Sample> =
            (0..100).map(|i| sample(f64::from(i) * 0.1, &[None], if i % 2 == 0 { &["power"] } else { &[] })).collect();
        assert_eq!(fold(&flicker).throttle["power"].len(), 1);
    }
}
