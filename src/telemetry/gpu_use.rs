//! Who uses a GPU: memory of the run's ranks, foreign processes, and other users before a run starts.

use super::gpu::{self, GpuProcess, GpuReader};
use crate::plan::{Gpu, counted};
use crate::protocol::GpuSample;

/// Upper bound of the driver's own memory on an idle GPU, in bytes.
const IDLE_BYTES: u64 = 1_500_000_000;
/// Utilisation below which kernels may be the driver's own.
const IDLE_SHARE: f64 = 0.05;

/// Warnings about GPUs that other programs use, one sentence each without a full stop. Must be called while no run of multicard uses these
/// GPUs. Empty without GPUs or NVML.
pub fn in_use(gpus: &[&Gpu]) -> Vec<String> {
    if gpus.is_empty() {
        return Vec::new();
    }
    let Ok(nvml) = gpu::open() else { return Vec::new() };
    let warning = |gpu: &&Gpu| {
        let reading = GpuReader::new(Some(nvml), &gpu.uuid).read();
        let processes = reading.processes.and_then(|processes| u32::try_from(processes.len()).ok());
        let signs = signs_of_use(&GpuSample { foreign_processes: processes, ..reading.sample })?;
        Some(format!("GPU {} was used by other programs when the run started: {signs}", gpu.index))
    };
    gpus.iter().filter_map(warning).collect()
}

/// Signs of other programs on a GPU that no run of multicard uses; `None` if the GPU is idle.
pub fn signs_of_use(sample: &GpuSample) -> Option<String> {
    // In a container the count may be missing.
    let processes = sample.foreign_processes.filter(|count| *count > 0).map(|count| counted(count, "process"));
    let memory = sample.memory_used_bytes.filter(|used| *used > IDLE_BYTES);
    let memory = memory.map(|used| format!("{:.1} GB of memory in use", used as f64 / 1e9));
    // NVML's sampling period may cover the previous run: kernels count only together with other signs.
    let busy = sample.busy.filter(|busy| *busy > IDLE_SHARE && (processes.is_some() || memory.is_some()));
    let busy = busy.map(|busy| format!("kernels running {:.0} % of the time", busy * 100.0));
    let signs: Vec<String> = [processes, memory, busy].into_iter().flatten().collect();
    (!signs.is_empty()).then(|| signs.join(", "))
}

/// Memory of the ranks in bytes, and the number of other processes. In a separate PID namespace, both are known only if
/// some ids match, and hidden processes can never be ruled out.
pub(super) fn split(processes: &[GpuProcess], ranks: &[u32], own_namespace: bool) -> (Option<u64>, Option<u32>) {
    let (ours, others): (Vec<&GpuProcess>, Vec<&GpuProcess>) =
        processes.iter().partition(|process| process.pid != 0 && ranks.contains(&process.pid));
    if own_namespace && ours.is_empty() {
        return (None, None);
    }
    let memory_bytes = ours.iter().try_fold(0_u64, |sum, process| sum.checked_add(process.memory_bytes?));
    let foreign = u32::try_from(others.len()).ok().filter(|count| *count > 0 || !own_namespace);
    (memory_bytes, foreign)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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

    fn process(pid: u32, memory_bytes: u64) -> GpuProcess {
        GpuProcess { pid, memory_bytes: Some(memory_bytes) }
    }

    #[test]
    fn on_the_machine_itself_the_list_is_complete() {
        let list = [process(10, 300), process(11, 40), process(99, 5000)];
        assert_eq!(split(&list, &[10, 11], false), (Some(340), Some(1)));
        assert_eq!(split(&list[..2], &[10, 11], false), (Some(340), Some(0)));
        assert_eq!(split(&[], &[10], false), (Some(0), Some(0)));
    }

    #[test]
    fn in_a_container_only_matching_ids_count() {
        assert_eq!(split(&[], &[10], true), (None, None));
        assert_eq!(split(&[process(0, 300)], &[10], true), (None, None));
        assert_eq!(split(&[process(43210, 300)], &[10], true), (None, None));
        assert_eq!(split(&[process(10, 300)], &[10], true), (Some(300), None));
        assert_eq!(split(&[process(10, 300), process(0, 7)], &[10], true), (Some(300), Some(1)));
    }

    #[test]
    fn memory_unknown_to_nvml_is_not_zero() {
        let list = [process(10, 300), GpuProcess { pid: 11, memory_bytes: None }];
        assert_eq!(split(&list, &[10, 11], false), (None, Some(0)));
    }
}
