//! Whether somebody else uses a GPU, before a run is put on it.

use super::gpu::{self, GpuReader};
use crate::plan::Gpu;
use crate::protocol::GpuSample;

/// What the driver itself takes of an idle GPU stays below this.
const IDLE_BYTES: u64 = 1_500_000_000;
/// Kernels that ran in less than this share of NVML's last period may be the driver's own.
const IDLE_SHARE: f64 = 0.05;

/// Which of these GPUs are in use, and how that is seen; a sentence each without its full stop. To be asked while no run of
/// ours is on them. Empty without GPUs, or where NVML cannot be used.
pub fn in_use(gpus: &[&Gpu]) -> Vec<String> {
    if gpus.is_empty() {
        return Vec::new();
    }
    let Ok(nvml) = gpu::open() else { return Vec::new() };
    let told = |gpu: &&Gpu| {
        let reading = GpuReader::new(Some(&nvml), &gpu.uuid).read();
        let processes = reading.processes.and_then(|processes| u32::try_from(processes.len()).ok());
        let signs = signs_of_use(&GpuSample { foreign_processes: processes, ..reading.sample })?;
        Some(format!("GPU {} was in use by others when the run started: {signs}", gpu.index))
    };
    gpus.iter().filter_map(told).collect()
}

/// How it is seen that somebody uses a GPU on which no run of ours is; none where it is idle.
pub fn signs_of_use(sample: &GpuSample) -> Option<String> {
    // In a container the count may be missing though there are some.
    let processes = sample.foreign_processes.filter(|count| *count > 0).map(|count| match count {
        1 => "1 process is on it".to_owned(),
        _ => format!("{count} processes are on it"),
    });
    let memory = sample.memory_used_bytes.filter(|used| *used > IDLE_BYTES);
    let memory = memory.map(|used| format!("{:.1} GB of its memory are taken", used as f64 / 1e9));
    // NVML's period reaches back into the run before: kernels alone, of nobody who holds memory, are its trail.
    let busy = sample.busy.filter(|busy| *busy > IDLE_SHARE && (processes.is_some() || memory.is_some()));
    let busy = busy.map(|busy| format!("kernels ran {:.0} % of the time", busy * 100.0));
    let signs: Vec<String> = [processes, memory, busy].into_iter().flatten().collect();
    (!signs.is_empty()).then(|| signs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(processes: Option<u32>, used_bytes: u64, busy: f64) -> GpuSample {
        GpuSample {
            foreign_processes: processes,
            memory_used_bytes: Some(used_bytes),
            busy: Some(busy),
            ..GpuSample::default()
        }
    }

    #[test]
    fn an_idle_gpu_is_not_in_use() {
        assert_eq!(signs_of_use(&sample(Some(0), 600_000_000, 0.01)), None);
        assert_eq!(signs_of_use(&GpuSample::default()), None);
        assert_eq!(signs_of_use(&sample(Some(0), 600_000_000, 0.3)), None, "the trail of the run before");
        assert!(in_use(&[]).is_empty());
    }

    #[test]
    fn processes_memory_and_kernels_are_signs_of_others() {
        let text = signs_of_use(&sample(Some(2), 12_300_000_000, 0.8)).unwrap_or_default();
        assert_eq!(text, "2 processes are on it, 12.3 GB of its memory are taken, kernels ran 80 % of the time");
        // A container hides the processes.
        assert!(signs_of_use(&sample(None, 12_300_000_000, 0.0)).is_some_and(|text| text.ends_with("taken")));
    }
}
