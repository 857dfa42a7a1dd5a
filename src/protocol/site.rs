//! Sites: clusters on which Slurm starts runs, and the settings of the jobs that multicard submits there.

use serde::{Deserialize, Serialize};

use crate::plan::Shape;

/// Most jobs of a session that wait or run at a site at the same time, if its settings name no other number.
const USUAL_MOST_JOBS: u32 = 50;
/// Most starts of a run that Slurm ends early, if the site's settings name no other number.
const USUAL_MOST_STARTS: u32 = 3;

/// The name of this node for the site's scheduler; without a scheduler, the machine's host name.
pub fn node_name() -> String {
    std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| hostname())
}

/// The host name of this machine.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The settings of a site's jobs: options of `sbatch`. Slurm decides what they leave open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Site {
    /// The name that plans and commands use.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `--partition`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `--account`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `--qos`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// `--time`, the time limit of a job, as Slurm writes it (`02:00:00`). A plan's `run_time_s` takes its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Slurm's name for a GPU, `gpu` or `gpu:TYPE` (a generic resource): a run asks for one for each of its devices. `None` for jobs
    /// without GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
    /// `--constraint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// `--exclusive`: a job has its node to itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// `--cpus-per-task`, the CPUs of a run on each of its nodes; `None` for one, or for one for each rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// `--mem`, the memory of a job, as Slurm writes it (`16G`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Lines of the shell that a job executes first, such as `module load cuda`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prologue: Vec<String>,
    /// A command that executes the command which is appended to it, in a container: `apptainer exec --nv IMAGE`. Programs of plans are executed
    /// by it; empty for none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container: Vec<String>,
    /// Further options of `sbatch`, such as `--reservation=tuesday`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The number of a session's jobs that may wait or run at the same time.
    #[serde(skip_serializing_if = "is_usual_most_jobs")]
    pub most_jobs: u32,
    /// How often a run is started if Slurm preempts it or its node fails. Each start is a run of its own.
    #[serde(skip_serializing_if = "is_usual_most_starts")]
    pub most_starts: u32,
}

fn is_usual_most_jobs(number: &u32) -> bool {
    *number == USUAL_MOST_JOBS
}

fn is_usual_most_starts(number: &u32) -> bool {
    *number == USUAL_MOST_STARTS
}

impl Default for Site {
    fn default() -> Self {
        Self {
            name: String::new(),
            partition: None,
            account: None,
            qos: None,
            time: None,
            gres: None,
            constraint: None,
            exclusive: false,
            cpus_per_task: None,
            memory: None,
            prologue: Vec::new(),
            container: Vec::new(),
            options: Vec::new(),
            most_jobs: USUAL_MOST_JOBS,
            most_starts: USUAL_MOST_STARTS,
        }
    }
}

impl Site {
    /// The name of its GPUs as the settings write it; `cpu` for jobs without GPUs.
    pub fn device(&self) -> String {
        let Some(gres) = &self.gres else { return "cpu".to_owned() };
        gres.strip_prefix("gpu:").map_or_else(|| "GPU".to_owned(), str::to_owned)
    }

    /// The CPUs of a run on each of its nodes: those that the settings name, but at least one for each rank, and for each device of a run
    /// without GPUs.
    pub fn cpus(&self, shape: &Shape) -> u32 {
        let devices = if self.gres.is_some() { 1 } else { shape.devices_per_node() };
        self.cpus_per_task.unwrap_or(1).max(devices).max(shape.ranks_per_node).max(shape.processes_per_node())
    }

    /// Whether the site's scheduler assigns GPUs to a run with this shape.
    pub fn assigns_gpus(&self, shape: &Shape) -> bool {
        self.gres.is_some() && shape.devices() > 0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_not_named_are_not_written_and_an_unknown_one_is_an_error() {
        let site: Site = toml::from_str("partition = \"gpu\"\ngres = \"gpu:h100\"").unwrap();
        assert_eq!((site.most_jobs, site.most_starts), (50, 3));
        assert_eq!(serde_json::to_string(&site).unwrap(), r#"{"partition":"gpu","gres":"gpu:h100"}"#);
        assert!(toml::from_str::<Site>("partion = \"gpu\"").unwrap_err().to_string().contains("partion"));
    }

    #[test]
    fn a_rank_without_a_gpu_has_a_cpu_and_gpus_share_those_of_the_settings() {
        let with = |gres: Option<&str>, cpus_per_task| {
            let site = Site { gres: gres.map(str::to_owned), cpus_per_task, ..Site::default() };
            let shape = |devices_per_process| Shape { devices_per_process, own_program: true, ..Shape::default() };
            [0, 1, 4].map(|devices| site.cpus(&shape(devices)))
        };
        assert_eq!(with(None, None), [1, 1, 4]);
        assert_eq!(with(None, Some(2)), [2, 2, 4]);
        assert_eq!(with(Some("gpu"), Some(8)), [8, 8, 8]);
        let ranks = Shape { ranks_per_node: 4, own_program: true, ..Shape::default() };
        assert_eq!(Site { gres: Some("gpu".to_owned()), ..Site::default() }.cpus(&ranks), 4);
        let of_worker = Shape { processes: 6, rank_nodes: 2, ..Shape::default() };
        assert_eq!(Site { gres: Some("gpu".to_owned()), ..Site::default() }.cpus(&of_worker), 3);
    }
}
