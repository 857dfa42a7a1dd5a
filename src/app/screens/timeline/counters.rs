//! Telemetry samples in the run's folder, next to a recording and on its clock: activity, power and memory of GPUs, and CPUs.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use crate::app::words::bytes_text;
use crate::figure::significant;
use crate::protocol::{Sample, read_sample_line};
use crate::trace::Steps;

/// Unit of bytes.
const BYTES: &str = "B";

/// Values of one kind over time.
pub struct Counter {
    /// Its name, such as `GPU 0 power`.
    pub name: String,
    /// Its unit; bytes get a unit that suits their size.
    pub unit: &'static str,
    /// Values on the recording's clock, each from the previous sample to its own.
    pub steps: Steps,
    /// The highest value, or the highest one possible if that is known. See [`Counter::full_among`].
    pub full: f64,
}

/// Reads the samples next to a recording; empty if there are none. `epoch_ns` is real time when its clock was 0.
pub fn beside(recording: &Path, epoch_ns: i64) -> Vec<Counter> {
    let file = recording.with_file_name("samples.jsonl");
    let Ok(file) = std::fs::File::open(file) else { return Vec::new() };
    // The last line of a run that was killed may be cut off.
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    counters(lines.filter_map(|line| read_sample_line(&line).ok()), epoch_ns)
}

fn counters(samples: impl Iterator<Item = Sample>, epoch_ns: i64) -> Vec<Counter> {
    type Filling = (String, &'static str, f64, Vec<(i64, f64)>);
    let mut all: Vec<Filling> = Vec::new();
    for sample in samples {
        let at = ((sample.time_s * 1e9) as i64).saturating_sub(epoch_ns);
        // It is not later than the previous one, because the machine's clock was set back.
        let mut add = |name: String, unit: &'static str, full: f64, value: Option<f64>| {
            let Some(value) = value else { return };
            let place = all.iter().position(|known| known.0 == name).unwrap_or_else(|| {
                all.push((name, unit, full, Vec::new()));
                all.len() - 1
            });
            let (.., full, points) = &mut all[place];
            if points.last().is_none_or(|last| last.0 < at) {
                points.push((at, value));
                *full = full.max(value);
            }
        };
        for (place, gpu) in sample.gpus.iter().enumerate() {
            add(format!("GPU {place} activity"), "%", 100.0, gpu.busy.map(|share| 100.0 * share));
            add(format!("GPU {place} power"), "W", 0.0, gpu.power_w);
            // Memory that the processes of a recording allocate has rows of its own.
            add(format!("GPU {place} NVML memory"), BYTES, 0.0, gpu.memory_used_bytes.map(|bytes| bytes as f64));
        }
        let cpus = sample.host.cpus.map_or(0.0, f64::from);
        add("CPUs busy".to_owned(), "CPUs", cpus, sample.host.cpus_busy);
    }
    // GPUs one below the other, each with its rows.
    all.sort_by(|(a, ..), (b, ..)| (a == "CPUs busy").cmp(&(b == "CPUs busy")).then_with(|| group(a).cmp(&group(b))));
    let counter = |(name, unit, full, points)| Counter { name, unit, full, steps: Steps::new(points) };
    all.into_iter().map(counter).collect()
}

/// The GPU's number; rows that belong to no GPU come last.
fn group(name: &str) -> u32 {
    name.strip_prefix("GPU ").and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(u32::MAX)
}

/// The quantity of a counter, without the GPU's number.
fn kind(name: &str) -> &str {
    name.strip_prefix("GPU ").and_then(|rest| Some(rest.split_once(' ')?.1)).unwrap_or(name)
}

impl Counter {
    /// The value that fills the row: the same for counters of one kind, such as the power of any GPU of any run, so that their heights can
    /// be compared.
    pub fn full_among<'c>(&self, all: impl IntoIterator<Item = &'c Self>) -> f64 {
        let alike = all.into_iter().filter(|other| kind(&other.name) == kind(&self.name) && other.unit == self.unit);
        alike.map(|other| other.full).fold(self.full, f64::max)
    }

    /// A value with its unit.
    pub fn text(&self, value: f64) -> String {
        if self.unit == BYTES { bytes_text(value) } else { format!("{} {}", significant(value), self.unit) }
    }

    /// The quantity that it counts, if its name does not say it.
    pub fn about(&self) -> &'static str {
        if self.unit == BYTES { "all memory in use on the GPU, by any process; " } else { "" }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::protocol::{GpuSample, HostSample};

    #[test]
    fn samples_lie_on_the_clock_of_the_recording_and_gpus_come_one_after_the_other() {
        let gpu = |power_w| GpuSample { busy: Some(0.5), power_w: Some(power_w), ..GpuSample::default() };
        let host = HostSample { cpus: Some(8), cpus_busy: Some(2.0), ..HostSample::default() };
        let sample = |time_s, power_w| Sample {
            time_s,
            host: host.clone(),
            gpus: vec![gpu(100.0), gpu(power_w)],
            ..Sample::default()
        };
        let all = counters([sample(10.0, 300.0), sample(10.5, 400.0), sample(10.25, 900.0)].into_iter(), 9_000_000_000);
        let names: Vec<&str> = all.iter().map(|counter| counter.name.as_str()).collect();
        assert_eq!(names, ["GPU 0 activity", "GPU 0 power", "GPU 1 activity", "GPU 1 power", "CPUs busy"]);
        let power = &all[3];
        // The sample from the past is left out.
        assert_eq!(power.steps.points(), [(1_000_000_000, 300.0), (1_500_000_000, 400.0)]);
        assert_eq!(power.text(400.0), "400 W");
        assert_eq!((all[0].full, power.full, all[4].full), (100.0, 400.0, 8.0));
    }

    #[test]
    fn counters_of_one_kind_share_the_value_that_fills_a_row_over_gpus_and_recordings() {
        let counter = |name: &str, unit, full| Counter { name: name.to_owned(), unit, full, steps: Steps::new(vec![]) };
        let all = [
            counter("GPU 0 NVML memory", BYTES, 3.55e9),
            counter("GPU 1 NVML memory", BYTES, 5.92e9),
            counter("GPU 0 power", "W", 400.0),
            counter("CPUs busy", "CPUs", 8.0),
            counter("CPUs busy", "CPUs", 16.0),
        ];
        let full: Vec<f64> = all.iter().map(|counter| counter.full_among(&all)).collect();
        assert_eq!(full, [5.92e9, 5.92e9, 400.0, 16.0, 16.0]);
    }
}
