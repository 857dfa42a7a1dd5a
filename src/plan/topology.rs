//! How the parts of a machine are connected: the links between GPUs, and NUMA nodes with their CPUs and GPUs.

use serde::{Deserialize, Serialize};

/// The connection between two GPUs, with the names of `nvidia-smi topo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// This number of NVLinks, direct or through switches.
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

    /// Its meaning in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NvLink(_) => "NVLink: the fastest connection, which bypasses the host",
            Self::Pix => "at most one PCIe switch between them",
            Self::Pxb => "several PCIe switches between them, without the host bridge",
            Self::Phb => "through the PCIe host bridge of the processor",
            Self::Node => "through several host bridges of one NUMA node",
            Self::Sys => "through the link between NUMA nodes: the slowest way",
        }
    }
}

/// The connection between two GPUs of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The index of the first GPU.
    pub a: u32,
    /// The index of the second GPU, which is larger.
    pub b: u32,
    /// The kind of connection.
    pub kind: LinkKind,
}

/// A part of the host with its own memory and CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its CPUs as the kernel writes them: `0-15,32-47`.
    pub cpu_list: String,
    /// The number of its CPUs.
    pub cpus: u32,
    /// Its CPUs that this process may use, in order.
    #[serde(default)]
    pub usable_cpus: Vec<u32>,
    /// Its memory, if the kernel reports it.
    pub memory_bytes: Option<u64>,
    /// The indexes of the GPUs on it.
    pub gpus: Vec<u32>,
}

/// How the parts of a machine are connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The connections between GPUs, as far as the driver reports them.
    pub links: Vec<Link>,
    /// NUMA nodes that have CPUs or GPUs.
    pub numa: Vec<NumaNode>,
}

impl Topology {
    /// The connection between two GPUs, in either order.
    pub fn link(&self, a: u32, b: u32) -> Option<LinkKind> {
        let (a, b) = (a.min(b), a.max(b));
        self.links.iter().find(|link| (link.a, link.b) == (a, b)).map(|link| link.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_found_in_either_order_and_named_as_nvidia_smi_does() {
        let link = Link { a: 0, b: 3, kind: LinkKind::NvLink(18) };
        let topology = Topology { links: vec![link], numa: Vec::new() };
        assert_eq!(topology.link(3, 0).map(LinkKind::name).as_deref(), Some("NV18"));
        assert_eq!(topology.link(0, 1), None);
    }
}
