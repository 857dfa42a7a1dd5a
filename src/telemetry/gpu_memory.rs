//! Processes on a GPU: memory of the run's ranks, and the number of foreign processes.

/// A process on a GPU as listed by NVML. In a container, its id may be 0 or belong to another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GpuProcess {
    pub pid: u32,
    pub memory_bytes: Option<u64>,
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
