//! Placement of ranks: their GPUs, their CPUs, the NUMA nodes of their memory.

use std::collections::BTreeSet;

use super::gpu_set;
use crate::plan::{Binding, Gpu, Node, NumaNode, Shape, Topology, counted};
use crate::protocol::{MemoryPolicy, Placement, RankPlace};

/// Places a run on a machine that it has to itself, each rank on its own GPUs. GPUs are whole and have the best possible
/// interconnects; if the node cannot use CUDA, CPU ranks share the CPUs evenly. A binding ties ranks to NUMA nodes; without
/// one they may use all CPUs.
///
/// # Errors
/// The shape has no rank, or more ranks than there are GPUs (those in MIG mode do not count), or a rank cannot be bound.
pub fn place(shape: &Shape, node: &Node, topology: &Topology) -> Result<Placement, String> {
    let site = Site { node, topology, shape, has_gpus: has_gpus(shape, node) };
    let count = count(shape)?;
    let gpus = site.gpus(count, &[])?.ok_or_else(|| "no GPU is free".to_owned())?;
    let slots = (0..count).map(|index| site.slot(index, gpus.get(index).copied()));
    let slots = slots.collect::<Result<Vec<_>, _>>()?;
    let threads = |slot: &Slot| {
        let even = node.cpus as usize / count;
        // Ranks of one NUMA node share its CPUs.
        let beside =
            |home: &NumaNode| slots.iter().filter(|other| other.home.is_some_and(|own| own.id == home.id)).count();
        slot.home.map_or(even, |home| even.min(home.usable_cpus.len() / beside(home).max(1))).max(1)
    };
    let bound = |slot: &Slot| (slot.home.map_or(Vec::new(), |home| home.usable_cpus.clone()), threads(slot));
    let cpus: Vec<_> = slots.iter().map(bound).collect();
    Ok(site.placement(shape, &slots, &cpus))
}

/// Places a run next to other runs: on GPUs and CPUs that are not in `taken`. A GPU comes with an even share of the CPUs; a CPU rank has
/// one CPU. `None` if there is no room now.
///
/// # Errors
/// The errors of [`place`]; or the run would not have room on an empty machine either.
pub fn place_beside(
    shape: &Shape,
    node: &Node,
    topology: &Topology,
    taken: &[RankPlace],
) -> Result<Option<Placement>, String> {
    let site = Site { node, topology, shape, has_gpus: has_gpus(shape, node) };
    let count = count(shape)?;
    // A rank without its own CPUs may use all of them.
    if taken.iter().any(|place| place.cpus.is_empty()) {
        return Ok(None);
    }
    let Some(gpus) = site.gpus(count, taken)? else { return Ok(None) };
    let slots = (0..count).map(|index| site.slot(index, gpus.get(index).copied()));
    let slots = slots.collect::<Result<Vec<_>, _>>()?;
    let devices = if site.has_gpus { usable(node).count() } else { node.cpus as usize };
    let share = (node.cpus as usize / devices.max(1)).max(1);
    let used: BTreeSet<u32> = taken.iter().flat_map(|place| place.cpus.iter().copied()).collect();
    // The cgroup's quota may be lower than the number of CPUs.
    let has_room = used.len() + count * share <= node.cpus as usize;
    match site.cpu_sets(&slots, share, used).filter(|_| has_room) {
        Some(sets) => {
            let cpus: Vec<_> = sets.into_iter().map(|set| (set, share)).collect();
            Ok(Some(site.placement(shape, &slots, &cpus)))
        }
        None if taken.is_empty() => {
            let wanted = count * share;
            Err(format!("{wanted} CPUs are needed and {} are usable: use fewer GPUs", node.cpus))
        }
        None => Ok(None),
    }
}

fn count(shape: &Shape) -> Result<usize, String> {
    match shape.devices() {
        // A program that uses no GPU gets a place on the CPUs.
        0 if shape.own_program => Ok(1),
        0 => Err("cannot place 0 ranks: a run needs at least 1".to_owned()),
        devices => Ok(devices as usize),
    }
}

/// Whether runs of this shape get GPUs. Programs bring their own libraries, so it does not matter for them whether the worker can use CUDA.
fn has_gpus(shape: &Shape, node: &Node) -> bool {
    if shape.own_program { shape.devices() > 0 && !node.gpus.is_empty() } else { node.has_cuda() }
}

fn usable(node: &Node) -> impl Iterator<Item = &Gpu> {
    node.gpus.iter().filter(|gpu| !gpu.mig)
}

/// The machine, and how ranks are bound to its NUMA nodes.
struct Site<'a> {
    node: &'a Node,
    topology: &'a Topology,
    shape: &'a Shape,
    /// Whether runs get GPUs on this machine.
    has_gpus: bool,
}

/// The CPUs of a slot (empty means all), and its number of threads.
type Share = (Vec<u32>, usize);

/// Place of one model replica.
struct Slot<'a> {
    gpu: Option<&'a Gpu>,
    /// NUMA node that it is bound to.
    home: Option<&'a NumaNode>,
}

impl<'a> Site<'a> {
    /// `wanted` GPUs that are not taken; an empty list without CUDA, `None` if too many are taken.
    fn gpus(&self, wanted: usize, taken: &[RankPlace]) -> Result<Option<Vec<&'a Gpu>>, String> {
        let choice = self.shape.gpu_choice;
        if let Some(reason) = choice.refusal(self.node, self.has_gpus, wanted) {
            return Err(reason);
        }
        if !self.has_gpus {
            return Ok(Some(Vec::new()));
        }
        let whole = usable(self.node).count();
        if wanted > whole {
            let split = match self.node.gpus.len() - whole {
                0 => String::new(),
                mig => format!(" ({mig} more in MIG mode cannot be used whole: switch MIG off for them)"),
            };
            let hostname = &self.node.hostname;
            return Err(format!(
                "{} asked for, {whole} can be used on {hostname}{split}: use fewer",
                counted(wanted, "GPU")
            ));
        }
        let is_taken = |gpu: &&Gpu| taken.iter().flat_map(RankPlace::gpu_uuids).any(|uuid| uuid == gpu.uuid);
        let free: Vec<&Gpu> = usable(self.node).filter(|gpu| !is_taken(gpu)).collect();
        Ok(gpu_set::choose_by(choice, &free, wanted, self.topology))
    }

    /// NUMA nodes that have CPUs this process may use.
    fn hosts(&self) -> Vec<&'a NumaNode> {
        self.topology.numa.iter().filter(|numa| !numa.usable_cpus.is_empty()).collect()
    }

    fn slot(&self, index: usize, gpu: Option<&'a Gpu>) -> Result<Slot<'a>, String> {
        let hosts = self.hosts();
        let first = hosts.first().copied();
        let home = match (self.shape.binding, gpu) {
            (Binding::Off | Binding::Interleave, _) => return Ok(Slot { gpu, home: None }),
            (Binding::FirstNode, _) => first,
            // Without GPUs, ranks spread over the nodes.
            (Binding::Local, None) => hosts.get(index % hosts.len().max(1)).copied(),
            (Binding::Local, Some(gpu)) => match gpu.numa_node {
                Some(id) => Some(hosts.iter().copied().find(|numa| numa.id == id).ok_or_else(|| {
                    let gpu = gpu.index;
                    format!("numa = local: GPU {gpu} is on NUMA node {id}, and this process may use none of that node's CPUs: use numa = \
                         off")
                })?),
                None if hosts.len() == 1 => first,
                None => {
                    let gpu = gpu.index;
                    return Err(format!("numa = local: the NUMA node of GPU {gpu} is unknown: use numa = off"));
                }
            },
        };
        let none =
            || format!("numa = {}: no NUMA node with usable CPUs is known: use numa = off", self.shape.binding.name());
        Ok(Slot { gpu, home: Some(home.ok_or_else(none)?) })
    }

    /// `share` unused CPUs for each slot, without overlap; `None` if there are too few. They belong to the slot's node, or
    /// preferably to the node of its GPU.
    fn cpu_sets(&self, slots: &[Slot], share: usize, mut used: BTreeSet<u32>) -> Option<Vec<Vec<u32>>> {
        let hosts = self.hosts();
        let mut sets = Vec::new();
        for slot in slots {
            let near = slot.home.map(|home| home.id).or_else(|| slot.gpu.and_then(|gpu| gpu.numa_node));
            let mut from = hosts.clone();
            from.retain(|host| slot.home.is_none() || Some(host.id) == near);
            from.sort_by_key(|host| Some(host.id) != near);
            let free = from.iter().flat_map(|host| &host.usable_cpus).copied().filter(|cpu| !used.contains(cpu));
            let set: Vec<u32> = free.take(share).collect();
            if set.len() < share {
                return None;
            }
            used.extend(&set);
            sets.push(set);
        }
        Some(sets)
    }

    /// The slots as ranks.
    fn placement(&self, shape: &Shape, slots: &[Slot], cpus: &[Share]) -> Placement {
        let of_rank = shape.devices_per_process.max(1) as usize;
        let rank = |rank: u32, slots: &[Slot], cpus: &[Share]| {
            let mut uuids = slots.iter().filter_map(|slot| slot.gpu).map(|gpu| gpu.uuid.clone());
            let union: BTreeSet<u32> = cpus.iter().flat_map(|(cpus, _)| cpus.iter().copied()).collect();
            // Replicas of one process also compute at the same time.
            let threads = cpus.iter().map(|(_, threads)| *threads).min().unwrap_or(1);
            RankPlace {
                gpu_uuid: uuids.next(),
                more_gpu_uuids: uuids.collect(),
                cpus: union.into_iter().collect(),
                memory: self.memory(slots),
                ..RankPlace::on_cpu(rank, u32::try_from(threads).unwrap_or(u32::MAX))
            }
        };
        let ranks = (0..).zip(slots.chunks(of_rank).zip(cpus.chunks(of_rank)));
        let ranks = ranks.map(|(number, (slots, cpus))| rank(number, slots, cpus)).collect();
        let gpus: Vec<&Gpu> = slots.iter().filter_map(|slot| slot.gpu).collect();
        Placement { ranks, links: gpu_set::interconnects(&gpus, self.topology) }
    }

    fn memory(&self, slots: &[Slot]) -> Option<MemoryPolicy> {
        match self.shape.binding {
            Binding::Off => None,
            Binding::Interleave => {
                let nodes: Vec<u32> = self.hosts().iter().map(|numa| numa.id).collect();
                (!nodes.is_empty()).then_some(MemoryPolicy::Interleave { nodes })
            }
            Binding::Local | Binding::FirstNode => {
                let nodes: BTreeSet<u32> = slots.iter().filter_map(|slot| slot.home).map(|home| home.id).collect();
                Some(MemoryPolicy::Bind { nodes: nodes.into_iter().collect() })
            }
        }
    }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
