//! Whether somebody else uses a GPU, before a run is put on it.

use super::gpu::{self, GpuReader, Reading};
use crate::plan::Gpu;

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
    let told = |gpu: &&Gpu| said(gpu.index, &GpuReader::new(Some(&nvml), &gpu.uuid).read());
    gpus.iter().filter_map(told).collect()
}

fn said(index: u32, reading: &Reading) -> Option<String> {
    let mut signs = Vec::new();
    // In a container the list may be empty though there are some.
    match reading.processes.as_ref().map_or(0, Vec::len) {
        0 => {}
        1 => signs.push("1 process is on it".to_owned()),
        count => signs.push(format!("{count} processes are on it")),
    }
    if let Some(used) = reading.sample.memory_used_bytes.filter(|used| *used > IDLE_BYTES) {
        signs.push(format!("{:.1} GB of its memory are taken", used as f64 / 1e9));
    }
    if let Some(busy) = reading.sample.busy.filter(|busy| *busy > IDLE_SHARE) {
        signs.push(format!("kernels ran {:.0} % of the time", busy * 100.0));
    }
    (!signs.is_empty()).then(|| format!("GPU {index} was in use by others when the run started: {}", signs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::gpu_memory::GpuProcess;
    use super::*;
    use crate::protocol::GpuSample;

    fn reading(processes: usize, used_bytes: u64, busy: f64) -> Reading {
        let process = GpuProcess { pid: 7, memory_bytes: None };
        let sample = GpuSample { memory_used_bytes: Some(used_bytes), busy: Some(busy), ..GpuSample::default() };
        Reading { sample, processes: Some(vec![process; processes]) }
    }

    #[test]
    fn an_idle_gpu_is_not_in_use() {
        assert_eq!(said(0, &reading(0, 600_000_000, 0.01)), None);
        assert_eq!(said(0, &Reading::default()), None);
        assert!(in_use(&[]).is_empty());
    }

    #[test]
    fn processes_memory_and_kernels_are_signs_of_others() {
        let text = said(3, &reading(2, 12_300_000_000, 0.8)).unwrap_or_default();
        assert!(text.starts_with("GPU 3 was in use by others"), "{text}");
        assert!(text.ends_with("2 processes are on it, 12.3 GB of its memory are taken, kernels ran 80 % of the time"), "{text}");
        // A container hides the processes.
        assert!(said(0, &reading(0, 12_300_000_000, 0.0)).is_some_and(|text| text.ends_with("taken")));
    }
}
