//! How a program is spread over nodes: the levels of the factors that place its runs.

use super::super::machine::no_nodes;
use super::super::{GPUS, GPUS_PER_NODE, NODES};
use crate::plan::{Binding, GpuChoice, Levels, Node, counted};

/// The key of the factor for the number of ranks that each node starts.
pub const RANKS_PER_NODE: &str = "ranks_per_node";

/// The factors that place a run. They need no placeholder in its command.
pub(in crate::plan) const PLACING: [&str; 6] =
    [GPUS, NODES, GPUS_PER_NODE, RANKS_PER_NODE, GpuChoice::KEY, Binding::KEY];

/// Most devices or ranks of a node, and most nodes.
const MOST: u32 = 1024;

/// How a run's program is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// Nodes of the run.
    pub nodes: u32,
    /// GPUs of each node, or CPU ranks where there are no GPUs; 0 for a program that uses no GPU.
    pub devices_per_node: u32,
    /// Ranks that each node starts; 0 for a program that is started once and starts its own ranks.
    pub ranks_per_node: u32,
}

impl Spread {
    /// Reads the levels. Without `gpus` and `gpus_per_node`, each rank has one GPU.
    ///
    /// # Errors
    /// A level is not a number that fits, or GPUs cannot be divided evenly by the nodes.
    pub fn read(levels: &Levels) -> Result<Self, String> {
        let nodes = count(levels, NODES, 1, "nodes")?;
        let ranks = count(levels, RANKS_PER_NODE, 1, "ranks")?;
        let own_ranks = if levels.get(NODES).is_some() { 1 } else { 0 };
        let (all, per_node) = (count(levels, GPUS, 0, "GPUs")?, count(levels, GPUS_PER_NODE, 0, "GPUs")?);
        let count_of_nodes = nodes.unwrap_or(1);
        let devices_per_node = match (all, per_node) {
            (Some(_), Some(_)) => {
                return Err(format!(
                    "{GPUS} counts the GPUs of all nodes, and {GPUS_PER_NODE} those of one node: remove one of them"
                ));
            }
            (Some(all), None) if all % count_of_nodes != 0 => {
                return Err(format!(
                    "{GPUS} = {all} cannot be divided evenly by {NODES} = {count_of_nodes}: {GPUS} counts the GPUs of all nodes, and \
                     {GPUS_PER_NODE} those of one node"
                ));
            }
            (Some(all), None) => all / count_of_nodes,
            (None, Some(per_node)) => per_node,
            (None, None) => ranks.unwrap_or(1),
        };
        Ok(Self { nodes: count_of_nodes, devices_per_node, ranks_per_node: ranks.unwrap_or(own_ranks) })
    }

    /// Why a run that is spread this way cannot be executed on a machine, or on nodes like it.
    pub fn refusal(self, node: &Node) -> Option<String> {
        let Self { nodes, devices_per_node: devices, ranks_per_node: ranks } = self;
        let usable = node.gpus.iter().filter(|gpu| !gpu.mig).count();
        let hostname = &node.hostname;
        if let Some(reason) = no_nodes(node, nodes) {
            let meant = if node.nodes == 1 { "; a factor that means something else needs another name" } else { "" };
            return Some(reason + meant);
        }
        if node.gpus.is_empty() && devices > node.cpus {
            return Some(format!(
                "{hostname} has no GPUs and {} for {devices} CPU ranks: use fewer",
                counted(node.cpus, "CPU")
            ));
        }
        if !node.gpus.is_empty() && devices as usize > usable {
            return Some(format!("{hostname} has {}, not {devices}: use fewer", counted(usable, "usable GPU")));
        }
        if ranks > node.cpus {
            return Some(format!(
                "{RANKS_PER_NODE} = {ranks}: {hostname} has {}: use fewer",
                counted(node.cpus, "CPU")
            ));
        }
        if !node.gpus.is_empty() && devices > 0 && ranks > devices {
            return Some(format!(
                "{RANKS_PER_NODE} = {ranks} ranks would share {} of a node: use as many GPUs as ranks, or {GPUS} = 0",
                counted(devices, "GPU")
            ));
        }
        None
    }
}

/// The number that a level gives; `None` without a level.
fn count(levels: &Levels, key: &str, least: u32, what: &str) -> Result<Option<u32>, String> {
    let Some(level) = levels.get(key) else { return Ok(None) };
    let number = level.as_integer().and_then(|count| u32::try_from(count).ok());
    let number = number.filter(|count| (least..=MOST).contains(count));
    number.map(Some).ok_or_else(|| {
        format!("{key} = {level} is not a number of {what}: write a whole number from {least} to {MOST}")
    })
}
