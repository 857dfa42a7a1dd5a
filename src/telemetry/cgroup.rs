//! CPU and memory limits of this process's control group, v2 or v1.

use std::path::{Component, Path, PathBuf};

use super::proc_text::keyed_value;
use super::roots::{Roots, read_text};

/// The tightest memory limit of this process, and the group that sets it and whose usage counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryLimit {
    pub limit_bytes: u64,
    group: PathBuf,
    names: MemoryNames,
}

/// File names of one cgroup version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryNames {
    limit: &'static str,
    usage: &'static str,
    cache: &'static str,
}

const V2: MemoryNames = MemoryNames { limit: "memory.max", usage: "memory.current", cache: "inactive_file" };
const V1: MemoryNames =
    MemoryNames { limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes", cache: "total_inactive_file" };

impl MemoryLimit {
    /// Memory used by the group in bytes, without inactive file pages, which the kernel can drop.
    pub fn used_bytes(&self) -> Option<u64> {
        let usage: u64 = read_text(&self.group.join(self.names.usage))?.trim().parse().ok()?;
        let cache = read_text(&self.group.join("memory.stat")).and_then(|text| keyed_value(&text, self.names.cache));
        Some(usage.saturating_sub(cache.unwrap_or(0)))
    }
}

/// The tightest memory limit; `None` if there is none.
pub(super) fn memory_limit(roots: &Roots) -> Option<MemoryLimit> {
    let limit = |group: PathBuf, names: MemoryNames| {
        let limit_bytes = read_text(&group.join(names.limit))?.trim().parse().ok()?;
        Some(MemoryLimit { limit_bytes, group, names })
    };
    let v2 = groups(roots, None).into_iter().filter_map(|group| limit(group, V2));
    let v1 = groups(roots, Some("memory")).into_iter().filter_map(|group| limit(group, V1));
    v2.chain(v1).min_by_key(|limit| limit.limit_bytes)
}

/// Number of CPUs by the tightest quota, rounded up; `None` if there is none.
pub(super) fn cpu_quota(roots: &Roots) -> Option<u32> {
    let v2 = groups(roots, None).into_iter().filter_map(|group| {
        let text = read_text(&group.join("cpu.max"))?;
        let (quota, period) = text.trim().split_once(' ')?;
        whole_cpus(quota, period)
    });
    let v1 = groups(roots, Some("cpu")).into_iter().filter_map(|group| {
        whole_cpus(&read_text(&group.join("cpu.cfs_quota_us"))?, &read_text(&group.join("cpu.cfs_period_us"))?)
    });
    v2.chain(v1).min()
}

/// Parses a quota. Without a quota the file contains `max` (v2) or `-1` (v1); neither is an unsigned number.
fn whole_cpus(quota_us: &str, period_us: &str) -> Option<u32> {
    let (quota_us, period_us): (u64, u64) = (quota_us.trim().parse().ok()?, period_us.trim().parse().ok()?);
    if period_us == 0 {
        return None;
    }
    u32::try_from(quota_us.div_ceil(period_us)).ok().filter(|cpus| *cpus > 0)
}

/// The folders of this process's group and its ancestors, for a v1 controller or for v2 (`None`). In a container, some
/// of them may not exist.
fn groups(roots: &Roots, controller: Option<&str>) -> Vec<PathBuf> {
    let Some(text) = read_text(&roots.proc.join("self/cgroup")) else { return Vec::new() };
    let mount = roots.sys.join("fs/cgroup");
    let Some(path) = group_path(&text, controller) else { return Vec::new() };
    let mount = controller.map_or(mount.clone(), |controller| mount.join(controller));
    let names: Vec<_> = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect();
    (0..=names.len()).map(|depth| mount.join(names[..depth].iter().collect::<PathBuf>())).collect()
}

/// The group path of a controller in `/proc/self/cgroup`, whose lines are `id:controllers:path`; v2 has no controllers.
fn group_path<'a>(text: &'a str, controller: Option<&str>) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let has_limit = match controller {
            None => controllers.is_empty(),
            Some(controller) => controllers.split(',').any(|name| name == controller),
        };
        has_limit.then_some(path)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::telemetry::roots::write;

    #[test]
    fn the_tightest_v2_group_on_the_way_up_counts() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        write(folder.path(), "proc/self/cgroup", "0::/job/step\n");
        write(folder.path(), "sys/fs/cgroup/job/memory.max", "8000\n");
        write(folder.path(), "sys/fs/cgroup/job/memory.current", "5000\n");
        write(folder.path(), "sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 1500\n");
        write(folder.path(), "sys/fs/cgroup/job/cpu.max", "250000 100000\n");
        write(folder.path(), "sys/fs/cgroup/job/step/memory.max", "max\n");
        write(folder.path(), "sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
        let limit = memory_limit(&roots).unwrap();
        assert_eq!((limit.limit_bytes, limit.used_bytes()), (8000, Some(3500)));
        assert_eq!(cpu_quota(&roots), Some(3));
    }

    #[test]
    fn v1_controllers_are_read_and_minus_one_is_no_quota() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        write(folder.path(), "proc/self/cgroup", "4:memory:/hidden/box\n2:cpu,cpuacct:/\n0::/\n");
        write(folder.path(), "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        write(folder.path(), "sys/fs/cgroup/memory/memory.usage_in_bytes", "700\n");
        write(folder.path(), "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        write(folder.path(), "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(memory_limit(&roots).unwrap().used_bytes(), Some(700));
        assert_eq!(cpu_quota(&roots), None);
        write(folder.path(), "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
        assert_eq!(cpu_quota(&roots), Some(2));
    }

    #[test]
    fn without_groups_nothing_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        assert_eq!((memory_limit(&roots), cpu_quota(&roots)), (None, None));
    }

    #[test]
    fn a_group_outside_the_namespace_cannot_lead_out_of_the_mount() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        write(folder.path(), "proc/self/cgroup", "0::/../../proc\n");
        assert!(groups(&roots, None).iter().all(|group| group.starts_with(folder.path().join("sys/fs/cgroup"))));
    }
}
