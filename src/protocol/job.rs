//! Jobs: a job describes what a group of ranks runs, and which devices and CPUs each rank uses.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Site;
use crate::plan::{Capture, Command, Data, Key, Levels, Mode, Shape, Tracer};

/// NUMA memory policy of a rank (set_mempolicy(2)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "snake_case")]
pub enum MemoryPolicy {
    /// Allocate from these NUMA nodes only.
    Bind {
        /// Their numbers, in order.
        nodes: Vec<u32>,
    },
    /// Allocate pages from these nodes in turn.
    Interleave {
        /// Their numbers, in order.
        nodes: Vec<u32>,
    },
}

/// GPU, CPUs and memory of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankPlace {
    /// The rank, from 0.
    pub rank: u32,
    /// UUID of its GPU, or of the first of several; `None` for a CPU rank.
    pub gpu_uuid: Option<String>,
    /// UUIDs of its other GPUs; only a rank whose threads drive several GPUs has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_gpu_uuids: Vec<String>,
    /// CPUs it may use; empty means all CPUs of its parent.
    pub cpus: Vec<u32>,
    /// NUMA memory policy; `None` means its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryPolicy>,
    /// Number of threads for arithmetic on the CPU.
    pub compute_threads: u32,
}

impl RankPlace {
    /// Rank without a GPU, on all CPUs of its parent.
    pub fn on_cpu(rank: u32, compute_threads: u32) -> Self {
        Self { rank, gpu_uuid: None, more_gpu_uuids: Vec::new(), cpus: Vec::new(), memory: None, compute_threads }
    }

    /// UUIDs of all its GPUs, in order.
    pub fn gpu_uuids(&self) -> impl Iterator<Item = &str> {
        self.gpu_uuid.iter().chain(&self.more_gpu_uuids).map(String::as_str)
    }
}

/// The places of a run's ranks on the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The place of each rank.
    pub ranks: Vec<RankPlace>,
    /// Interconnects between its GPUs, such as `NV18` or `2 × NV12, 4 × SYS`; empty for fewer than two GPUs.
    pub links: String,
}

/// The size of an allocation in which several runs are executed one after the other: the largest that any of these runs asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationSize {
    /// Nodes.
    pub nodes: u32,
    /// CPUs of each node.
    pub cpus: u32,
    /// GPUs of each node, or CPU ranks at a site without GPUs.
    pub devices: u32,
}

impl AllocationSize {
    /// The size that a run of this shape asks for at a site.
    pub fn of(site: &Site, shape: &Shape) -> Self {
        Self { nodes: shape.nodes(), cpus: site.cpus(shape), devices: shape.devices_per_node() }
    }

    /// The least size in which runs of both sizes have room.
    pub fn or(self, other: Self) -> Self {
        Self {
            nodes: self.nodes.max(other.nodes),
            cpus: self.cpus.max(other.cpus),
            devices: self.devices.max(other.devices),
        }
    }

    /// Whether runs of another size have room in it.
    pub fn fits(&self, other: &Self) -> bool {
        self.or(*other) == *self
    }
}

/// Limits on a run's time and memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLimits {
    /// Time after which the launcher ends the run.
    pub run_time_s: Option<f64>,
    /// Bytes that a rank may allocate on its GPU.
    pub memory_limit_bytes: Option<u64>,
}

/// Folder of a run's checkpoint within the run's folder; deleted when the run finishes.
pub const CHECKPOINT_FOLDER: &str = "checkpoint";

/// Description of one run: the contents of `job.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`super::PROTOCOL_VERSION`] of the writer.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// Key of the workload.
    pub workload: Key,
    /// The level of every factor.
    pub levels: Levels,
    /// Processes, devices and steps, derived from `levels`.
    #[serde(default)]
    pub shape: Shape,
    /// The data set.
    pub data: Data,
    /// Folder of the data set's files.
    pub data_folder: PathBuf,
    /// Seed of the weights and the order of samples; the same for all cells of one repeat, so that they differ only in levels.
    pub seed: u64,
    /// Steps at the start of the run that are excluded from statistics.
    pub warm_up_steps: u64,
    /// How long the run trains; a quick run finds the end of its warm-up itself.
    #[serde(default, skip_serializing_if = "Mode::is_full")]
    pub mode: Mode,
    /// The run's folder, which holds the ranks' logs.
    pub folder: PathBuf,
    /// The folder that its ranks start in; `None` means the folder of the process that starts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_folder: Option<PathBuf>,
    /// The place of each rank.
    pub ranks: Vec<RankPlace>,
    /// Limits on time and memory.
    pub limits: JobLimits,
    /// The site whose scheduler starts the run and chooses its node, its GPUs and its CPUs; `None` for a run on the workbench's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Site>,
    /// The size of the allocation at the site that the run shares with other runs of its plan; `None` for a job of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationSize>,
    /// The checkpoint of an earlier run of the same cell and repeat, from which this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<PathBuf>,
    /// The part of the run that is recorded, if any is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Capture>,
    /// Whether its ranks and the built-in tracer record it, into [`super::EVENTS_FILE`], instead of a profiler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub built_in_trace: bool,
    /// Whether the built-in tracer leaves out calls of CUDA.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_calls: bool,
    /// Whether the plan asks the built-in tracer for windows. A run that is too short for windows is recorded as a
    /// whole nevertheless: `trace` has the part that is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_windows: bool,
    /// Whether the ranks of a node share one log, so that a run has few files on a file system that nodes share. Otherwise each rank has a
    /// log of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_logs: bool,
    /// The program that the run starts; `None` if the worker has a task for its workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
}

impl Job {
    /// A full run of a cell, without an id, folders, ranks, limits or a trace, from seed 1.
    pub fn new(workload: Key, levels: Levels, shape: Shape, data: Data) -> Self {
        Self {
            version: super::PROTOCOL_VERSION,
            run: String::new(),
            workload,
            levels,
            shape,
            data,
            data_folder: PathBuf::new(),
            seed: 1,
            warm_up_steps: 0,
            mode: Mode::Full,
            folder: PathBuf::new(),
            working_folder: None,
            ranks: Vec::new(),
            limits: JobLimits::default(),
            site: None,
            allocation: None,
            resume: None,
            trace: None,
            built_in_trace: false,
            without_calls: false,
            in_windows: false,
            shared_logs: false,
            program: None,
        }
    }

    /// Whether a step of a scheduler's job starts its ranks. This is so on several nodes, and in an allocation that
    /// runs share.
    pub fn is_step(&self) -> bool {
        self.shape.nodes() > 1 || self.allocation.is_some()
    }

    /// The number in the name of a rank's log ([`super::rank_log`]): the number of the first rank on its node if the node's ranks share a
    /// log, otherwise the rank's own number.
    pub fn log_rank(&self, rank: u32) -> u32 {
        if self.shared_logs { rank - rank % self.shape.processes_per_node().max(1) } else { rank }
    }

    /// Which tracer records the run.
    pub fn tracer(&self) -> Tracer {
        match self.trace {
            _ if self.built_in_trace => {
                let kind = if self.without_calls { Tracer::BuiltInWithoutCalls } else { Tracer::BuiltIn };
                if self.in_windows { kind.in_windows() } else { kind }
            }
            Some(_) => Tracer::Nsys,
            None => Tracer::Off,
        }
    }
}

/// The program of a run, which one rank, `multicard program`, starts and watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The plan's command, with its placeholders.
    pub command: Command,
    /// Number of the repeat of the cell, from 1.
    pub repeat: u32,
    /// Marks the run's processes, together with the run's folder.
    pub marker: String,
    /// The product name of its GPUs, or `cpu`.
    pub device: String,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_node_share_the_log_of_the_first_of_them_only_if_the_job_says_so() {
        let shape = Shape { processes: 6, rank_nodes: 2, ..Shape::default() };
        let mut job = Job::new("any".into(), Levels::default(), shape, Data::default());
        let logs = |job: &Job| (0..6).map(|rank| job.log_rank(rank)).collect::<Vec<_>>();
        assert_eq!(logs(&job), [0, 1, 2, 3, 4, 5]);
        job.shared_logs = true;
        assert_eq!(logs(&job), [0, 0, 0, 3, 3, 3]);
        // The runner of a program counts as the rank with its node's number.
        job.shape = Shape { processes: 6, own_program: true, ..Shape::default() };
        assert_eq!(logs(&job), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn places_of_one_gpu_are_written_as_ever_and_those_of_several_name_all() {
        let text = r#"{"rank":1,"gpu_uuid":"GPU-a","cpus":[],"compute_threads":2}"#;
        let mut place: RankPlace = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&place).unwrap(), text);
        place.more_gpu_uuids = vec!["GPU-b".into()];
        let read: RankPlace = serde_json::from_str(&serde_json::to_string(&place).unwrap()).unwrap();
        assert_eq!(read.gpu_uuids().collect::<Vec<_>>(), ["GPU-a", "GPU-b"]);
        assert_eq!(RankPlace::on_cpu(0, 1).gpu_uuids().count(), 0);
        place.memory = Some(MemoryPolicy::Bind { nodes: vec![1] });
        let text = serde_json::to_string(&place).unwrap();
        assert!(text.contains(r#""memory":{"policy":"bind","nodes":[1]}"#), "{text}");
        assert_eq!(serde_json::from_str::<RankPlace>(&text).unwrap(), place);
    }
}
