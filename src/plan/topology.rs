//! How the parts of a machine hang together: the ways between GPUs, and NUMA nodes with what is on them.

use serde::{Deserialize, Serialize};

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
    /// Those of them that this process may use, in order.
    #[serde(default)]
    pub usable_cpus: Vec<u32>,
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
