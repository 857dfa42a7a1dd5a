//! `multicard node`: describes this machine, and measures what its devices reach.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, OK, Outcome, print, say, session_folder};
use crate::figure::significant;
use crate::plan::{CudaState, Node};
use crate::protocol::{DeviceRates, PASSES, RateLine};
use crate::remote::Address;
use crate::session::{Machine, measure_rates};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what each GPU sustains, or the CPUs where there is none: FLOP/s of matrix products in each precision, bytes/s of passes
    /// over memory. Nothing else should run meanwhile. Tables of the session then tell shares of these rates.
    Measure {
        /// Session folder to keep the rates in, or the name of a session in the default folder.
        #[arg(long, value_name = "DIR")]
        session: Option<PathBuf>,
        /// Seconds for each device.
        #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = duration)]
        seconds: f64,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Md)]
        format: Format,
    },
}

fn duration(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=600.0).contains(seconds));
    seconds.ok_or_else(|| "it must be a number from 0.1 to 600".to_owned())
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let machine = Machine::look();
    if let Some(Command::Measure { session, seconds, format }) = arguments.command {
        return measure(&machine, session, seconds, format);
    }
    match arguments.format {
        Format::Md => print(&describe(&machine.node))?,
        Format::Json => print(&serde_json::to_string_pretty(&machine.node)?)?,
    }
    Ok(OK)
}

fn measure(machine: &Machine, session: Option<PathBuf>, seconds: f64, format: Format) -> Outcome {
    if let Some(address) = session.as_deref().map(Address::parse).transpose()?.flatten() {
        let host = address.host();
        return Err(format!("rates are those of the session's machine: run `multicard node measure` on {host}").into());
    }
    let folder = session.map(|session| session_folder(&session)).transpose()?;
    let shows_progress = std::io::stderr().is_terminal();
    let mut each = |line: Option<&RateLine>| {
        match line {
            Some(RateLine::Device { device, .. }) => say(format_args!("measuring {}", device.name)),
            Some(RateLine::Begins { key }) if shows_progress => say(format_args!("  {key} …")),
            Some(RateLine::Left { key, reason }) => say(format_args!("{key} cannot be measured: {reason}")),
            _ => {}
        }
        ControlFlow::Continue(())
    };
    let all = measure_rates(machine, folder.as_deref(), seconds, &mut each)?;
    match format {
        Format::Md => print(&all.iter().map(rates_table).collect::<Vec<_>>().join("\n\n"))?,
        Format::Json => print(&serde_json::to_string_pretty(&all)?)?,
    }
    Ok(OK)
}

fn rates_table(rates: &DeviceRates) -> String {
    let threads = rates.threads.map_or(String::new(), |threads| format!(", {threads} threads"));
    let mut lines = vec![
        format!("# {}{threads}, libtorch {}", rates.device.name, rates.torch_version),
        String::new(),
        "| rate | median | interval | samples | size |".to_owned(),
        "|---|---:|---:|---:|---:|".to_owned(),
    ];
    for rate in &rates.rates {
        let is_pass = PASSES.contains(&&*rate.key);
        let (unit, factor) = if is_pass { ("GB/s", 1e-9) } else { ("TFLOP/s", 1e-12) };
        let size = if is_pass { format!("{} MiB", rate.size >> 20) } else { format!("{0} × {0}", rate.size) };
        let [median, low, high] = [rate.per_s, rate.low_per_s, rate.high_per_s].map(|rate| significant(rate * factor));
        lines.push(format!("| {} | {median} {unit} | {low} to {high} | {} | {size} |", rate.key, rate.samples));
    }
    lines.push(String::new());
    lines.extend(rates.sm_clock_mhz.map(|clock| format!("Clock of the multiprocessors: {clock:.0} MHz.")));
    if !rates.throttle_reasons.is_empty() {
        lines.push(format!("Clocks were held down by {}.", rates.throttle_reasons.join(", ")));
    }
    lines.join("\n").trim_end().to_owned()
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
