//! Detects other users of a GPU before a run starts on it.

use super::gpu::{self, GpuReader};
use crate::plan::Gpu;
use crate::protocol::GpuSample;

/// Upper bound of the driver's own memory on an idle GPU, in bytes.
const IDLE_BYTES: u64 = 1_500_000_000;
/// Utilisation below which kernels may be the driver's own.
const IDLE_SHARE: f64 = 0.05;

/// Warnings about GPUs in use by others, one sentence each without a full stop. Call it while none of our runs is on them.
/// Empty without GPUs or NVML.
pub fn in_use(gpus: &[&Gpu]) -> Vec<String> {
    if gpus.is_empty() {
        return Vec::new();
    }
    let Ok(nvml) = gpu::open() else { return Vec::new() };
    let warning = |gpu: &&Gpu| {
        let reading = GpuReader::new(Some(&nvml), &gpu.uuid).read();
        let processes = reading.processes.and_then(|processes| u32::try_from(processes.len()).ok());
        let signs = signs_of_use(&GpuSample { foreign_processes: processes, ..reading.sample })?;
        Some(format!("GPU {} was in use by others when the run started: {signs}", gpu.index))
    };
    gpus.iter().filter_map(warning).collect()
}

/// Signs of other users on a GPU that none of our runs uses; `None` if it is idle.
pub fn signs_of_use(sample: &GpuSample) -> Option<String> {
    // In a container the count may be missing.
    let processes = sample.foreign_processes.filter(|count| *count > 0).map(|count| match count {
        1 => "1 process".to_owned(),
        _ => format!("{count} processes"),
    });
    let memory = sample.memory_used_bytes.filter(|used| *used > IDLE_BYTES);
    let memory = memory.map(|used| format!("{:.1} GB of memory in use", used as f64 / 1e9));
    // NVML's sampling period may cover the previous run: kernels count only together with other signs.
    let busy = sample.busy.filter(|busy| *busy > IDLE_SHARE && (processes.is_some() || memory.is_some()));
    let busy = busy.map(|busy| format!("kernels running {:.0} % of the time", busy * 100.0));
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
        assert_eq!(signs_of_use(&sample(Some(0), 600_000_000, 0.3)), None, "left over from the previous run");
        assert!(in_use(&[]).is_empty());
    }

    #[test]
    fn processes_memory_and_kernels_are_signs_of_others() {
        let text = signs_of_use(&sample(Some(2), 12_300_000_000, 0.8)).unwrap_or_default();
        assert_eq!(text, "2 processes, 12.3 GB of memory in use, kernels running 80 % of the time");
        // A container hides the processes.
        assert!(signs_of_use(&sample(None, 12_300_000_000, 0.0)).is_some_and(|text| text.ends_with("in use")));
    }
}
