//! The shape of a cell's runs, which is all that launch, placement and progress know about its levels; the limits of a run; and an estimate
//! of its time and memory.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::gpu_choice::GpuChoice;
use super::is_default;
use super::named::named;
use super::node::{is_one, one};

/// Binding of ranks and their memory to NUMA nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, EnumString, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Binding {
    /// None: the system decides.
    #[default]
    Off,
    /// Next to the rank's GPU.
    Local,
    /// Memory spread over all nodes.
    Interleave,
    /// Everything on the first node.
    FirstNode,
}

impl Binding {
    /// The key of the factor that sets the binding, in every workload that has it.
    pub const KEY: &'static str = "numa";
}

named!(Binding: names, name);

/// The processes of a run and its number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Processes: one for each rank; for a program of the plan's own, one for each node, which starts the program there.
    pub processes: u32,
    /// Devices that each process computes on.
    pub devices_per_process: u32,
    /// How ranks and their memory are bound to NUMA nodes.
    pub binding: Binding,
    /// How its GPUs are chosen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpu_choice: GpuChoice,
    /// Steps of a rank over the whole run; 0 if unknown.
    pub steps: u64,
    /// Units (images, tokens) in a step, over all ranks; 0 if unknown.
    pub units_per_step: u64,
    /// The number of first steps that statistics always leave out, even if the plan asks for fewer.
    pub warm_up_steps: u64,
    /// The step is captured as a CUDA graph and replayed.
    pub cuda_graph: bool,
    /// Whether the plan's own program is run, which needs neither the worker nor libtorch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_program: bool,
    /// How often each node starts the plan's own program, as ranks that get their numbers in variables. 0 for a program that is started
    /// once, without a number, and may start its own ranks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ranks_per_node: u32,
    /// The number of nodes over which the worker's ranks are spread evenly: the first ranks are on the first node, and
    /// so on.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rank_nodes: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            processes: 1,
            devices_per_process: 1,
            binding: Binding::Off,
            gpu_choice: GpuChoice::Nearest,
            steps: 0,
            units_per_step: 0,
            warm_up_steps: 0,
            cuda_graph: false,
            own_program: false,
            ranks_per_node: 0,
            rank_nodes: 1,
        }
    }
}

impl Shape {
    /// Devices of all processes.
    pub fn devices(&self) -> u32 {
        self.processes.saturating_mul(self.devices_per_process)
    }

    /// Nodes that the run spans.
    pub fn nodes(&self) -> u32 {
        if self.own_program { self.processes } else { self.rank_nodes.max(1) }
    }

    /// Processes on each node: the worker's ranks, or one process that starts the plan's own program.
    pub fn processes_per_node(&self) -> u32 {
        self.processes.div_ceil(self.nodes().max(1))
    }

    /// Devices of each node.
    pub fn devices_per_node(&self) -> u32 {
        self.processes_per_node().saturating_mul(self.devices_per_process)
    }

    /// The number of the node on which a process runs.
    pub fn node_of(&self, process: u32) -> u32 {
        process / self.processes_per_node().max(1)
    }
}

/// Limits of a run's time and memory, and whether it shares the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// A run is ended after this time, in seconds.
    pub run_time_s: Option<f64>,
    /// The most device memory that a rank may use, in GB (10⁹ bytes), for example to reproduce another card's limit.
    pub memory_limit_gb: Option<f64>,
    /// A run has the machine to itself, so that no other run affects its times. Otherwise several runs share the machine, each on its own
    /// GPUs and CPUs.
    pub exclusive: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { run_time_s: None, memory_limit_gb: None, exclusive: true }
    }
}

impl Limits {
    /// The memory limit in bytes.
    pub fn memory_limit_bytes(&self) -> Option<u64> {
        self.memory_limit_gb.map(|limit_gb| (limit_gb * 1e9) as u64)
    }
}

/// A rough estimate of a run's time and memory. It is good for planning an evening, not for a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Time from launch to end, in seconds.
    pub duration_s: f64,
    /// The part of the duration before the first step: starting processes, reading data, building the model.
    pub start_s: f64,
    /// The peak memory of one rank on its device: the GPU's memory, or the host's for a CPU rank.
    pub peak_bytes: u64,
    /// The peak memory of all ranks together in the host's memory.
    pub host_bytes: u64,
    /// The parts of `peak_bytes` that the workload knows; the rest belongs to the runtime.
    pub kinds: MemoryKinds,
}

/// A rank's memory by kind: names and bytes; an empty name ends the list.
pub type MemoryKinds = [(&'static str, u64); 8];

impl Estimate {
    /// The kinds that are known, in bytes.
    pub fn memory_kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.kinds.into_iter().take_while(|(name, _)| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_spread_evenly_over_nodes_and_a_run_on_one_node_is_written_as_ever() {
        let shape = Shape { processes: 4, rank_nodes: 2, ..Shape::default() };
        assert_eq!((shape.nodes(), shape.processes_per_node(), shape.devices_per_node()), (2, 2, 2));
        assert_eq!([0, 1, 2, 3].map(|rank| shape.node_of(rank)), [0, 0, 1, 1]);
        let program = Shape { processes: 3, devices_per_process: 4, own_program: true, ..Shape::default() };
        assert_eq!((program.nodes(), program.devices_per_node(), program.node_of(2)), (3, 4, 2));
        let text = serde_json::to_value(Shape { processes: 4, ..Shape::default() }).unwrap_or_default();
        assert_eq!(text.get("rank_nodes"), None);
        assert_eq!(serde_json::from_value::<Shape>(text).ok().map(|shape| shape.nodes()), Some(1));
    }

    #[test]
    fn a_binding_goes_by_the_name_of_its_level_everywhere() {
        for name in Binding::NAMES {
            let binding = name.parse().ok();
            assert_eq!(binding.map(Binding::name), Some(*name));
            assert_eq!(serde_json::to_value(binding).ok(), Some((*name).into()));
        }
        assert!("nearest".parse::<Binding>().is_err());
    }
}
