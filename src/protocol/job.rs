//! What a group of ranks is told to do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::{Capture, Data, Key, Levels, Shape};

/// Where a rank's memory comes from, as the kernel's memory policies say (set_mempolicy(2)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "snake_case")]
pub enum MemoryPolicy {
    /// From these NUMA nodes alone.
    Bind {
        /// Their numbers, in order.
        nodes: Vec<u32>,
    },
    /// Page by page from one node after the other.
    Interleave {
        /// Their numbers, in order.
        nodes: Vec<u32>,
    },
}

/// Where one rank runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankPlace {
    /// The rank, from 0.
    pub rank: u32,
    /// The identity of its GPU, the first one where it has several; none for a CPU rank.
    pub gpu_uuid: Option<String>,
    /// The identities of its other GPUs: only a rank that spreads its work over threads has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_gpu_uuids: Vec<String>,
    /// CPUs it may use; empty for all that its parent may use.
    pub cpus: Vec<u32>,
    /// Where its memory comes from; as its parent's where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryPolicy>,
    /// Threads for arithmetic on the CPU.
    pub compute_threads: u32,
}

impl RankPlace {
    /// A rank without a GPU, on all CPUs that its parent may use.
    pub fn on_cpu(rank: u32, compute_threads: u32) -> Self {
        Self { rank, gpu_uuid: None, more_gpu_uuids: Vec::new(), cpus: Vec::new(), memory: None, compute_threads }
    }

    /// The identities of all its GPUs, in order.
    pub fn gpu_uuids(&self) -> impl Iterator<Item = &str> {
        self.gpu_uuid.iter().chain(&self.more_gpu_uuids).map(String::as_str)
    }
}

/// Where a run is put.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Where each rank runs.
    pub ranks: Vec<RankPlace>,
    /// The ways between its GPUs, such as `NV18` or `2 × NV12, 4 × SYS`; empty for fewer than two.
    pub links: String,
}

/// What a run may take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLimits {
    /// After this time the launcher ends the run, in seconds.
    pub run_time_s: Option<f64>,
    /// What a rank may allocate on its GPU, in bytes.
    pub memory_limit_bytes: Option<u64>,
}

/// One run, as its group is told about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`super::PROTOCOL_VERSION`] of the writer.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The workload that it is a run of.
    pub workload: Key,
    /// The level of every factor.
    pub levels: Levels,
    /// Its processes and how far it goes: what `levels` come to.
    #[serde(default)]
    pub shape: Shape,
    /// Which data set.
    pub data: Data,
    /// Where the data set's files are.
    pub data_folder: PathBuf,
    /// Seeds weights and order; the same for every run of a repeat, so that cells differ in their levels alone.
    pub seed: u64,
    /// Steps at the start of the run that statistics leave out.
    pub warm_up_steps: u64,
    /// The run's folder: the ranks write their logs here.
    pub folder: PathBuf,
    /// Where each rank runs.
    pub ranks: Vec<RankPlace>,
    /// What the run may take.
    pub limits: JobLimits,
    /// The part of the run that a profiler records, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Capture>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
