//! Reads the facts about this node: system, processor, memory, NUMA nodes and the GPUs visible to CUDA.

use std::env;
use std::fs;

use super::roots::{Roots, read_text};
use super::visible::{Identity, visible};
use super::{cgroup, gpu, host, proc_text};
use crate::plan::{Gpu, Node};

const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// Reads this node, without the worker and nsys. GPUs are those left by `CUDA_VISIBLE_DEVICES`, and [`Gpu::index`] is the
/// index among them.
pub fn read_node() -> Node {
    let variable = env::var_os(VISIBLE_DEVICES).map(|value| value.to_string_lossy().into_owned());
    // The kernel refuses if the machine has more CPUs than the set can hold; then all CPUs count.
    let affinity = rustix::thread::sched_getaffinity(None).ok().map(|set| set.count());
    let mut node = read_host(&Roots::default(), affinity);
    match read_gpus(&mut node, variable.as_deref()) {
        Ok(()) => {}
        Err(reason) => node.no_gpu_reason = Some(reason),
    }
    node
}

fn read_gpus(node: &mut Node, variable: Option<&str>) -> Result<(), String> {
    let nvml = gpu::open()?;
    node.driver = gpu::driver_version(nvml);
    node.gpus = visible_gpus(&Roots::default(), &gpu::list(nvml)?, variable)?;
    Ok(())
}

/// The GPUs visible to CUDA, or why there are none.
fn visible_gpus(roots: &Roots, listed: &[gpu::Listed], variable: Option<&str>) -> Result<Vec<Gpu>, String> {
    if listed.is_empty() {
        return Err(
            "the NVIDIA driver works but shows no GPU that this process may open: check `nvidia-smi`".to_owned()
        );
    }
    let identities: Vec<Identity> = listed.iter().map(|gpu| gpu.identity.clone()).collect();
    let gpus: Vec<Gpu> = (0..)
        .zip(visible(variable, &identities))
        .map(|(index, place)| {
            let gpu = &listed[place];
            Gpu {
                index,
                uuid: gpu.identity.uuid.clone(),
                name: gpu.name.clone(),
                memory_bytes: gpu.memory_bytes,
                numa_node: gpu.bus_id.as_deref().and_then(|bus_id| numa_node(roots, bus_id)),
                mig: gpu.mig,
                compute_capability: gpu.compute_capability,
            }
        })
        .collect();
    if gpus.is_empty() {
        let (variable, count) = (variable.unwrap_or_default(), listed.len());
        return Err(format!(
            "{VISIBLE_DEVICES}=`{variable}` hides {}: unset it, or list some of 0 to {}",
            if count == 1 { "the GPU".to_owned() } else { format!("all {count} GPUs") },
            count - 1
        ));
    }
    Ok(gpus)
}

/// The NUMA node of a PCI device; the kernel writes -1 if unknown.
fn numa_node(roots: &Roots, bus_id: &str) -> Option<u32> {
    let folder = roots.sys.join("bus/pci/devices").join(gpu::sysfs_bus_id(bus_id)?);
    read_text(&folder.join("numa_node"))?.trim().parse().ok()
}

/// Reads everything except GPUs.
fn read_host(roots: &Roots, affinity: Option<u32>) -> Node {
    let text = |path: &str| Some(read_text(&roots.proc.join(path))?.trim().to_owned());
    let unknown = || "unknown".to_owned();
    let cpuinfo = text("cpuinfo").unwrap_or_default();
    let os_release = read_text(&roots.etc.join("os-release")).unwrap_or_default();
    let system = proc_text::pretty_name(&os_release).unwrap_or("Linux");
    let processors = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let cpus = affinity.unwrap_or(u32::try_from(processors).unwrap_or(u32::MAX)).max(1);
    let memory_bytes = host::memory_total_bytes(roots);
    let limit_bytes = cgroup::memory_limit(roots).map(|limit| limit.limit_bytes);
    Node {
        hostname: text("sys/kernel/hostname").unwrap_or_else(unknown),
        system: format!("{system}, Linux {}", text("sys/kernel/osrelease").unwrap_or_else(unknown)),
        cpu_model: ["model name", "Model", "Hardware"]
            .iter()
            .find_map(|key| proc_text::cpuinfo_value(&cpuinfo, key))
            .unwrap_or(env::consts::ARCH)
            .to_owned(),
        cpus: cgroup::cpu_quota(roots).map_or(cpus, |quota| quota.min(cpus)),
        memory_bytes: memory_bytes.into_iter().chain(limit_bytes).min().unwrap_or(0),
        numa_nodes: numa_nodes(roots),
        driver: None,
        no_gpu_reason: None,
        gpus: Vec::new(),
        nodes: 1,
        worker: Err("not looked for".to_owned()),
        nsys: Err("not looked for".to_owned()),
        tracer: Err("not looked for".to_owned()),
    }
}

/// Number of NUMA nodes with CPUs. GPU memory and memory expanders also form nodes, but no rank can run there.
fn numa_nodes(roots: &Roots) -> u32 {
    let folder = roots.sys.join("devices/system/node");
    let with_cpus = read_text(&folder.join("has_cpu")).and_then(|text| proc_text::list_count(&text));
    let folders = || {
        let names = fs::read_dir(&folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_node = |name: &String| name.strip_prefix("node").is_some_and(|id| id.parse::<u32>().is_ok());
        u32::try_from(names.filter(is_node).count()).ok()
    };
    with_cpus.or_else(folders).unwrap_or(1).max(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::telemetry::roots::write;

    fn listed(uuid: &str, bus_id: &str) -> gpu::Listed {
        gpu::Listed {
            identity: Identity { uuid: uuid.to_owned(), mig_uuids: Vec::new() },
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            memory_bytes: 80 << 30,
            bus_id: Some(bus_id.to_owned()),
            mig: false,
            compute_capability: Some((9, 0)),
        }
    }

    #[test]
    fn a_node_is_what_its_group_and_affinity_leave_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "proc/sys/kernel/hostname", "node7\n");
        write(folder.path(), "proc/sys/kernel/osrelease", "6.8.0\n");
        write(folder.path(), "proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654\nprocessor\t: 1\n");
        write(folder.path(), "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
        write(folder.path(), "proc/self/cgroup", "0::/\n");
        write(folder.path(), "sys/fs/cgroup/memory.max", "500000\n");
        write(folder.path(), "sys/fs/cgroup/cpu.max", "350000 100000\n");
        write(folder.path(), "etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12\"\n");
        for node in ["node0", "node1", "node2"] {
            write(folder.path(), &format!("sys/devices/system/node/{node}/cpulist"), "0\n");
        }
        let roots = Roots::below(folder.path());
        let node = read_host(&roots, Some(16));
        assert_eq!((node.hostname.as_str(), node.cpu_model.as_str()), ("node7", "AMD EPYC 9654"));
        assert_eq!(node.system, "Debian GNU/Linux 12, Linux 6.8.0");
        assert_eq!((node.cpus, node.memory_bytes, node.numa_nodes), (4, 500_000, 3));
        assert_eq!(read_host(&roots, Some(3)).cpus, 3);
        assert_eq!(read_host(&roots, None).cpus, 2);
        write(folder.path(), "sys/devices/system/node/has_cpu", "0-1\n");
        assert_eq!(read_host(&roots, None).numa_nodes, 2);
    }

    #[test]
    fn an_empty_machine_has_at_least_one_cpu_and_one_numa_node() {
        let folder = tempfile::tempdir().unwrap();
        let node = read_host(&Roots::below(folder.path()), None);
        assert_eq!((node.cpus, node.memory_bytes, node.numa_nodes), (1, 0, 1));
    }

    #[test]
    fn gpus_are_numbered_as_cuda_shows_them_and_know_their_numa_node() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        write(folder.path(), "sys/bus/pci/devices/0000:1b:00.0/numa_node", "1\n");
        write(folder.path(), "sys/bus/pci/devices/0000:9a:00.0/numa_node", "-1\n");
        let machine = [listed("GPU-a", "00000000:1B:00.0"), listed("GPU-b", "00000000:9A:00.0")];
        let gpus = visible_gpus(&roots, &machine, Some("1,0")).unwrap();
        let seen: Vec<_> = gpus.iter().map(|gpu| (gpu.index, gpu.uuid.as_str(), gpu.numa_node)).collect();
        assert_eq!(seen, [(0, "GPU-b", None), (1, "GPU-a", Some(1))]);
        assert_eq!(gpu::sysfs_bus_id("00010002:1B:00.0").as_deref(), Some("10002:1b:00.0"));
    }

    #[test]
    fn hidden_gpus_and_no_gpus_are_told_apart() {
        let roots = Roots::default();
        let hidden = visible_gpus(&roots, &[listed("GPU-a", "x")], Some("")).unwrap_err();
        assert!(hidden.contains("CUDA_VISIBLE_DEVICES=`` hides the GPU: unset it"), "{hidden}");
        let none = visible_gpus(&roots, &[], None).unwrap_err();
        assert!(none.contains("shows no GPU"), "{none}");
    }

    #[test]
    fn this_machine_is_read_and_gpus_are_there_or_their_absence_is_explained() {
        let node = read_node();
        assert!(node.cpus >= 1 && node.memory_bytes > 0 && !node.hostname.is_empty());
        assert_eq!(node.gpus.is_empty(), node.no_gpu_reason.is_some());
        assert!(node.worker.is_err());
    }
}
