//! `multicard node`: describes this machine.

use clap::Args;

use super::{Format, OK, Outcome, print};
use crate::plan::{CudaState, Node};
use crate::session::Machine;

#[derive(Args)]
pub(super) struct Arguments {
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Machine { node, .. } = Machine::look();
    match arguments.format {
        Format::Md => print(&describe(&node))?,
        Format::Json => print(&serde_json::to_string_pretty(&node)?)?,
    }
    Ok(OK)
}

fn describe(node: &Node) -> String {
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let mut lines = vec![
        format!("# {}", node.hostname),
        String::new(),
        format!("- system: {}", node.system),
        format!("- processor: {}; {} CPUs usable, {} NUMA nodes", node.cpu_model, node.cpus, node.numa_nodes),
        format!("- memory: {} usable", gigabytes(node.memory_bytes)),
        format!("- NVIDIA driver: {}", node.driver.as_deref().unwrap_or("none")),
    ];
    for gpu in &node.gpus {
        let numa = gpu.numa_node.map_or(String::new(), |numa| format!(", NUMA node {numa}"));
        let mig = if gpu.mig { ", MIG on: not usable as a whole" } else { "" };
        lines.push(format!(
            "- GPU {}: {}, {}{numa}, {}{mig}",
            gpu.index,
            gpu.name,
            gigabytes(gpu.memory_bytes),
            gpu.uuid
        ));
    }
    if node.gpus.is_empty() {
        lines.push(format!("- GPUs: none ({})", node.no_gpu_reason.as_deref().unwrap_or("reason unknown")));
    }
    match &node.worker {
        Ok(worker) => {
            lines.push(format!("- worker: {}, libtorch {}", worker.path.display(), worker.torch_version));
            match &worker.cuda {
                CudaState::Available => lines.push("- CUDA in the worker: available".into()),
                CudaState::Unavailable { reason } => lines.push(format!("- CUDA in the worker: off ({reason})")),
            }
            match &worker.dali {
                Ok(folder) => lines.push(format!("- NVIDIA DALI: {}", folder.display())),
                Err(reason) => lines.push(format!("- NVIDIA DALI: off ({reason})")),
            }
        }
        Err(reason) => lines.push(format!("- worker: none: {reason}")),
    }
    lines.push(match &node.nsys {
        Ok(nsys) => format!("- Nsight Systems: {}, {}", nsys.version, nsys.path.display()),
        Err(reason) => format!("- Nsight Systems: none: {reason}"),
    });
    lines.join("\n")
}
