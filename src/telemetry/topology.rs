//! Reads the topology: interconnects between GPUs, and the host's NUMA nodes.

use std::fs;

use super::gpu;
use super::proc_text;
use super::roots::{Roots, read_text};
use crate::plan::{Link, Node, NumaNode, Topology};

/// Reads the topology of this machine. It queries the driver: do not call it on the window's thread.
pub fn read_topology(node: &Node) -> Topology {
    let uuids: Vec<(u32, &str)> = node.gpus.iter().map(|gpu| (gpu.index, gpu.uuid.as_str())).collect();
    let mut links = Vec::new();
    // The driver is needed for pairs of GPUs only.
    if uuids.len() > 1
        && let Ok(nvml) = gpu::open()
    {
        for (place, (a, uuid)) in uuids.iter().enumerate() {
            for (b, other) in &uuids[place + 1..] {
                let kind = gpu::link(nvml, uuid, other);
                links.extend(kind.map(|kind| Link { a: *a.min(b), b: *a.max(b), kind }));
            }
        }
    }
    Topology { links, numa: numa_nodes(&Roots::default(), node, &own_cpus()) }
}

/// The CPUs that this process may use; empty if unknown.
fn own_cpus() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

fn numa_nodes(roots: &Roots, node: &Node, own_cpus: &[u32]) -> Vec<NumaNode> {
    let folder = roots.sys.join("devices/system/node");
    let ids = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("node")?.parse::<u32>().ok();
    let mut ids: Vec<u32> = fs::read_dir(&folder).into_iter().flatten().flatten().filter_map(ids).collect();
    ids.sort_unstable();
    let gpus_on = |id| node.gpus.iter().filter(|gpu| gpu.numa_node == Some(id)).map(|gpu| gpu.index).collect();
    let mut nodes: Vec<NumaNode> = ids
        .into_iter()
        .map(|id| {
            let place = folder.join(format!("node{id}"));
            let cpu_list = read_text(&place.join("cpulist")).unwrap_or_default().trim().to_owned();
            NumaNode {
                id,
                cpus: proc_text::list_count(&cpu_list).unwrap_or(0),
                usable_cpus: own_cpus.iter().copied().filter(|cpu| proc_text::list_has(&cpu_list, *cpu)).collect(),
                cpu_list,
                memory_bytes: read_text(&place.join("meminfo")).as_deref().and_then(memory_bytes),
                gpus: gpus_on(id),
            }
        })
        // GPU memory and memory expanders also form nodes; those without CPUs and GPUs are irrelevant here.
        .filter(|numa| numa.cpus > 0 || !numa.gpus.is_empty())
        .collect();
    if nodes.is_empty() {
        // Without NUMA, the whole machine is one node.
        let gpus = node.gpus.iter().map(|gpu| gpu.index).collect();
        let memory_bytes = (node.memory_bytes > 0).then_some(node.memory_bytes);
        let usable_cpus = own_cpus.to_vec();
        nodes.push(NumaNode { cpus: node.cpus, usable_cpus, memory_bytes, gpus, ..NumaNode::default() });
    }
    nodes
}

/// `Node 0 MemTotal:       131072 kB`.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line.split("MemTotal:").nth(1)?.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::{Gpu, fixture};
    use crate::telemetry::roots;

    fn write(root: &Path, path: &str, text: &str) {
        roots::write(root, &format!("sys/devices/system/node/{path}"), text);
    }

    fn node(numa_of_gpus: &[Option<u32>]) -> Node {
        let gpu = |(index, numa_node): (u32, &Option<u32>)| Gpu {
            index,
            uuid: format!("GPU-{index}"),
            name: "H100".to_owned(),
            memory_bytes: 80 << 30,
            numa_node: *numa_node,
            mig: false,
            compute_capability: None,
        };
        Node { cpus: 8, memory_bytes: 1 << 34, gpus: (0..).zip(numa_of_gpus).map(gpu).collect(), ..fixture::cpu_node() }
    }

    #[test]
    fn numa_nodes_have_their_cpus_their_memory_and_their_gpus() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "node0/cpulist", "0-3,8-11\n");
        write(folder.path(), "node0/meminfo", "Node 0 MemTotal:       1000 kB\nNode 0 MemFree: 10 kB\n");
        write(folder.path(), "node1/cpulist", "4-7\n");
        write(folder.path(), "node10/cpulist", "\n");
        write(folder.path(), "has_cpu", "0-1\n");
        let numa = numa_nodes(&Roots::below(folder.path()), &node(&[Some(1), Some(0), Some(1), None]), &[2, 4, 9, 12]);
        let seen: Vec<_> = numa.iter().map(|n| (n.id, n.cpus, n.memory_bytes, n.gpus.clone())).collect();
        assert_eq!(seen, [(0, 8, Some(1_024_000), vec![1]), (1, 4, None, vec![0, 2])]);
        assert_eq!(numa[0].cpu_list, "0-3,8-11");
        assert_eq!((numa[0].usable_cpus.as_slice(), numa[1].usable_cpus.as_slice()), (&[2, 9][..], &[4][..]));
    }

    #[test]
    fn a_node_without_cpus_is_kept_if_it_has_a_gpu() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "node0/cpulist", "0\n");
        write(folder.path(), "node2/cpulist", "\n");
        let numa = numa_nodes(&Roots::below(folder.path()), &node(&[Some(2)]), &[]);
        assert_eq!(numa.iter().map(|numa| numa.id).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn a_machine_without_numa_is_one_node() {
        let folder = tempfile::tempdir().unwrap();
        let numa = numa_nodes(&Roots::below(folder.path()), &node(&[None]), &[0, 1]);
        assert_eq!(numa.len(), 1);
        assert_eq!((numa[0].cpus, numa[0].memory_bytes, numa[0].gpus.as_slice()), (8, Some(1 << 34), &[0][..]));
    }

    #[test]
    fn this_machine_has_a_numa_node_with_cpus() {
        let topology = read_topology(&super::super::read_node());
        assert!(topology.numa.iter().any(|numa| numa.cpus > 0 && !numa.usable_cpus.is_empty()));
    }

    /// Its output should agree with `nvidia-smi topo -m`.
    #[test]
    #[ignore = "needs two GPUs: make test-gpu"]
    fn reads_the_links_on_two_gpus() {
        let node = super::super::read_node();
        let topology = read_topology(&node);
        println!("{topology:#?}");
        assert_eq!(topology.links.len(), node.gpus.len() * (node.gpus.len() - 1) / 2);
    }
}
