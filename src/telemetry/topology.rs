//! How GPUs hang together and on the host: NVLink and PCIe between GPUs, and the host's NUMA nodes.

use std::fs;

use serde::{Deserialize, Serialize};

use super::gpu;
use super::proc_text;
use super::roots::{Roots, read_text};
use crate::plan::Node;

/// The way between two GPUs, as `nvidia-smi topo` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// So many NVLinks, straight or through switches.
    NvLink(u32),
    /// At most one PCIe switch, or one board.
    Pix,
    /// Several PCIe switches, without the host bridge.
    Pxb,
    /// The host bridge.
    Phb,
    /// Host bridges within one NUMA node.
    Node,
    /// The link between NUMA nodes.
    Sys,
}

impl LinkKind {
    /// The short name: `NV18`, `PIX`.
    pub fn name(self) -> String {
        match self {
            Self::NvLink(links) => format!("NV{links}"),
            Self::Pix => "PIX".to_owned(),
            Self::Pxb => "PXB".to_owned(),
            Self::Phb => "PHB".to_owned(),
            Self::Node => "NODE".to_owned(),
            Self::Sys => "SYS".to_owned(),
        }
    }

    /// What it means, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NvLink(_) => "NVLink: the fastest way, past the host",
            Self::Pix => "at most one PCIe switch between them",
            Self::Pxb => "several PCIe switches between them, without the host bridge",
            Self::Phb => "through the PCIe host bridge of the processor",
            Self::Node => "through several host bridges of one NUMA node",
            Self::Sys => "through the link between NUMA nodes: the slowest way",
        }
    }
}

/// The way between two GPUs of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The index of one.
    pub a: u32,
    /// The index of the other, which is larger.
    pub b: u32,
    /// The way.
    pub kind: LinkKind,
}

/// A part of the host with its own memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its CPUs as the kernel writes them: `0-15,32-47`.
    pub cpu_list: String,
    /// How many those are.
    pub cpus: u32,
    /// Its memory, where the kernel says.
    pub memory_bytes: Option<u64>,
    /// The indexes of the GPUs on it.
    pub gpus: Vec<u32>,
}

/// How the parts of a machine hang together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The ways between GPUs that the driver tells.
    pub links: Vec<Link>,
    /// NUMA nodes with CPUs, and others that hold a GPU.
    pub numa: Vec<NumaNode>,
}

impl Topology {
    /// The way between two GPUs, in either order.
    pub fn link(&self, a: u32, b: u32) -> Option<LinkKind> {
        let (a, b) = (a.min(b), a.max(b));
        self.links.iter().find(|link| (link.a, link.b) == (a, b)).map(|link| link.kind)
    }
}

/// Reads how the parts of this machine hang together. It asks the driver, so not for the window's thread.
pub fn read_topology(node: &Node) -> Topology {
    let uuids: Vec<(u32, &str)> = node.gpus.iter().map(|gpu| (gpu.index, gpu.uuid.as_str())).collect();
    let mut links = Vec::new();
    // Without GPUs the driver need not be opened.
    if uuids.len() > 1
        && let Ok(nvml) = gpu::open()
    {
        for (place, (a, uuid)) in uuids.iter().enumerate() {
            for (b, other) in &uuids[place + 1..] {
                let kind = gpu::link(&nvml, uuid, other);
                links.extend(kind.map(|kind| Link { a: *a.min(b), b: *a.max(b), kind }));
            }
        }
    }
    Topology { links, numa: numa_nodes(&Roots::default(), node) }
}

fn numa_nodes(roots: &Roots, node: &Node) -> Vec<NumaNode> {
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
                cpu_list,
                memory_bytes: read_text(&place.join("meminfo")).as_deref().and_then(memory_bytes),
                gpus: gpus_on(id),
            }
        })
        // Memory of GPUs and of expanders forms nodes too; without CPUs and GPUs they say nothing here.
        .filter(|numa| numa.cpus > 0 || !numa.gpus.is_empty())
        .collect();
    if nodes.is_empty() {
        // A kernel without NUMA: the whole machine is one node.
        let gpus = node.gpus.iter().map(|gpu| gpu.index).collect();
        let memory_bytes = (node.memory_bytes > 0).then_some(node.memory_bytes);
        nodes.push(NumaNode { cpus: node.cpus, memory_bytes, gpus, ..NumaNode::default() });
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
    use crate::plan::Gpu;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join("sys/devices/system/node").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn node(numa_of_gpus: &[Option<u32>]) -> Node {
        let gpu = |(index, numa_node): (u32, &Option<u32>)| Gpu {
            index,
            uuid: format!("GPU-{index}"),
            name: "H100".to_owned(),
            memory_bytes: 80 << 30,
            numa_node: *numa_node,
            mig: false,
        };
        Node {
            hostname: String::new(),
            system: String::new(),
            cpu_model: String::new(),
            cpus: 8,
            memory_bytes: 1 << 34,
            numa_nodes: 1,
            driver: None,
            no_gpu_reason: None,
            gpus: (0..).zip(numa_of_gpus).map(gpu).collect(),
            nsys: Err("it is not on PATH".to_owned()),
            worker: Err(String::new()),
        }
    }

    #[test]
    fn numa_nodes_have_their_cpus_their_memory_and_their_gpus() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "node0/cpulist", "0-3,8-11\n");
        write(folder.path(), "node0/meminfo", "Node 0 MemTotal:       1000 kB\nNode 0 MemFree: 10 kB\n");
        write(folder.path(), "node1/cpulist", "4-7\n");
        write(folder.path(), "node10/cpulist", "\n");
        write(folder.path(), "has_cpu", "0-1\n");
        let numa = numa_nodes(&Roots::below(folder.path()), &node(&[Some(1), Some(0), Some(1), None]));
        let seen: Vec<_> = numa.iter().map(|n| (n.id, n.cpus, n.memory_bytes, n.gpus.clone())).collect();
        assert_eq!(seen, [(0, 8, Some(1_024_000), vec![1]), (1, 4, None, vec![0, 2])]);
        assert_eq!(numa[0].cpu_list, "0-3,8-11");
    }

    #[test]
    fn a_node_without_cpus_is_kept_where_a_gpu_is_on_it() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "node0/cpulist", "0\n");
        write(folder.path(), "node2/cpulist", "\n");
        let numa = numa_nodes(&Roots::below(folder.path()), &node(&[Some(2)]));
        assert_eq!(numa.iter().map(|numa| numa.id).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn a_machine_that_tells_no_numa_nodes_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let numa = numa_nodes(&Roots::below(folder.path()), &node(&[None]));
        assert_eq!(numa.len(), 1);
        assert_eq!((numa[0].cpus, numa[0].memory_bytes, numa[0].gpus.as_slice()), (8, Some(1 << 34), &[0][..]));
    }

    #[test]
    fn a_way_is_found_in_either_order_and_named_as_nvidia_smi_does() {
        let link = Link { a: 0, b: 3, kind: LinkKind::NvLink(18) };
        let topology = Topology { links: vec![link], numa: Vec::new() };
        assert_eq!(topology.link(3, 0).map(LinkKind::name).as_deref(), Some("NV18"));
        assert_eq!(topology.link(0, 1), None);
    }

    #[test]
    fn this_machine_has_a_numa_node_with_cpus() {
        let topology = read_topology(&super::super::read_node());
        assert!(topology.numa.iter().any(|numa| numa.cpus > 0));
    }

    /// `cargo test --lib reads_the_links -- --ignored --nocapture`, beside `nvidia-smi topo -m`.
    #[test]
    #[ignore = "needs two NVIDIA GPUs"]
    fn reads_the_links_of_a_gpu_node() {
        let node = super::super::read_node();
        let topology = read_topology(&node);
        println!("{topology:#?}");
        assert_eq!(topology.links.len(), node.gpus.len() * (node.gpus.len() - 1) / 2);
    }
}
