//! Fold that summarizes a run's samples, both live and when the index is rebuilt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TelemetryRecord;
use super::course::EnergyCourse;
use super::load::LoadFold;
use crate::protocol::{GpuSample, Sample};

/// Longest gap within a span: it keeps the list of spans short if a reason flickers.
const SPAN_GAP_S: f64 = 1.0;

/// Energy of one GPU: from its counter, or from its power if it has no counter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Energy {
    /// Energy of earlier counters, since a reloaded driver counts from 0 again.
    before_j: f64,
    first_j: f64,
    last_j: f64,
    readings: u64,
    /// The last power reading of a GPU without a counter: time and power.
    power: Option<(f64, f64)>,
}

impl Energy {
    fn sample(&mut self, time_s: f64, energy_j: Option<f64>, power_w: Option<f64>) {
        match (energy_j, power_w) {
            (Some(energy_j), _) if self.power.is_none() => self.add(energy_j),
            // A counter that fails to answer for a moment is not replaced.
            (None, Some(power_w)) if self.readings == 0 || self.power.is_some() => self.integrate(time_s, power_w),
            _ => {}
        }
    }

    fn integrate(&mut self, time_s: f64, power_w: f64) {
        if let Some((before_s, before_w)) = self.power.replace((time_s, power_w)) {
            self.before_j += (time_s - before_s).max(0.0) * before_w.midpoint(power_w);
        }
        self.readings += 1;
    }

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

    /// Energy consumed; `None` before the second reading.
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
    /// The energy by GPU, including GPUs that never reported their energy.
    energy: BTreeMap<String, Energy>,
    /// The times of throttling, by reason.
    throttle: BTreeMap<String, Vec<Span>>,
    load: LoadFold,
    course: EnergyCourse,
}

impl TelemetryFold {
    pub(super) fn add(&mut self, sample: &Sample) {
        for gpu in &sample.gpus {
            self.peak_device_bytes = self.peak_device_bytes.max(gpu.memory_used_bytes);
            self.shared |= gpu.foreign_processes.is_some_and(|count| count > 0);
            let energy = self.energy.entry(gpu.uuid.clone()).or_default();
            energy.sample(sample.time_s, gpu.energy_j, gpu.power_w);
            for reason in &gpu.throttle_reasons {
                self.throttled(reason, sample);
            }
        }
        if let Some(hole_s) = sample.hole_s {
            self.longest_hole_s = Some(self.longest_hole_s.map_or(hole_s, |longest| longest.max(hole_s)));
        }
        let has_energy = |gpu: &GpuSample| gpu.energy_j.is_some() || gpu.power_w.is_some();
        if !sample.gpus.is_empty() && sample.gpus.iter().all(has_energy) {
            let taken_j: f64 = self.energy.values().map(|energy| energy.taken_j().unwrap_or(0.0)).sum();
            self.course.add(sample.time_s, taken_j);
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

    /// The summary. `counted` are the periods of counted steps (from, to); `None` counts the whole run. `ended_s` is the end of a program,
    /// in seconds since the Unix epoch: samples go on until what it reported has been read, and their energy does not belong to it.
    pub(super) fn summary(&self, counted: Option<&[(f64, f64)]>, ended_s: Option<f64>) -> TelemetryRecord {
        let seen = |spans: &[Span]| match counted {
            None => true,
            Some(times) => spans.iter().any(|s| times.iter().any(|&(from, to)| s.first_s <= to && s.last_s >= from)),
        };
        let throttled = self.throttle.iter().filter(|(_, spans)| seen(spans));
        // A sum over only some of the GPUs would be too low, so all of them must report.
        let energies: Option<Vec<f64>> = self.energy.values().map(Energy::taken_j).collect();
        let energy_j: Option<f64> = energies.filter(|all| !all.is_empty()).map(|all| all.iter().sum());
        let energy_j = match ended_s {
            Some(ended_s) if self.course.goes_on_after(ended_s) => energy_j.and_then(|_| self.course.at(ended_s)),
            _ => energy_j,
        };
        let steady = counted.filter(|_| energy_j.is_some()).and_then(|times| self.course.within(times));
        TelemetryRecord {
            peak_device_bytes: self.peak_device_bytes,
            energy_j,
            steady_energy_j: steady.map(|(energy_j, _)| energy_j),
            steady_time_s: steady.map(|(_, time_s)| time_s),
            counted_s: counted.map(|times| times.iter().map(|(from_s, to_s)| to_s - from_s).sum()),
            throttle_reasons: throttled.map(|(reason, _)| reason.clone()).collect(),
            all_throttle_reasons: self.throttle.keys().cloned().collect(),
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
        assert_eq!(fold(&all).summary(None, None).energy_j, Some(12.0));
        assert_eq!(fold(&all[..1]).summary(None, None).energy_j, None, "one reading gives no difference");
        let partly = [sample(0.0, &[Some(10.0), None], &[]), sample(1.0, &[Some(15.0), None], &[])];
        assert_eq!(fold(&partly).summary(None, None).energy_j, None, "a GPU did not report");
        let reloaded = [sample(0.0, &[Some(10.0)], &[]), sample(1.0, &[Some(15.0)], &[])];
        let reloaded = [&reloaded[..], &[sample(2.0, &[Some(1.0)], &[]), sample(3.0, &[Some(3.0)], &[])]].concat();
        assert_eq!(fold(&reloaded).summary(None, None).energy_j, Some(7.0), "the counter restarted");
    }

    #[test]
    fn the_energy_of_a_program_ends_with_it_and_not_with_the_last_sample() {
        let fold = fold(&[0.0, 1.0, 2.0, 3.0].map(|time_s| sample(time_s, &[Some(50.0 + 100.0 * time_s)], &[])));
        let energy_j = |ended_s: f64| fold.summary(None, Some(ended_s)).energy_j;
        assert_eq!([energy_j(1.5), energy_j(2.0), energy_j(3.0)], [Some(150.0), Some(200.0), Some(300.0)]);
        assert_eq!(energy_j(9.0), Some(300.0), "no sample was taken after its end");
        assert_eq!(energy_j(-1.0), None, "no sample was taken before its end");
        assert_eq!(fold.summary(None, None).energy_j, Some(300.0));
    }

    #[test]
    fn a_gpu_without_a_counter_has_the_energy_of_its_power_and_steps_have_theirs() {
        let at = |tick: u32| {
            let power_w = Some(if (10..30).contains(&tick) { 400.0 } else { 100.0 });
            let gpu = GpuSample { uuid: "GPU-0".to_owned(), power_w, ..GpuSample::default() };
            Sample { time_s: f64::from(tick), gpus: vec![gpu], ..Sample::default() }
        };
        let fold = fold(&(0..40).map(at).collect::<Vec<_>>());
        let summary = fold.summary(Some(&[(10.0, 29.0)]), None);
        assert_eq!((summary.energy_j, summary.steady_energy_j), (Some(9_900.0), Some(7_600.0)));
        assert_eq!(summary.steady_time_s, Some(19.0));
        assert_eq!(fold.summary(None, None).steady_energy_j, None);
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
        let reasons = |times: Option<&[(f64, f64)]>| fold.summary(times, None).throttle_reasons;
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
