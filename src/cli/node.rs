//! `multicard node`: describes this machine, and measures what its devices reach.

use std::error::Error;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};

use super::follow::{Following, interrupts};
use super::remote::Place;
use super::{Format, INTERRUPTED, OK, Outcome, print, say};
use crate::analysis::counted;
use crate::conduct::Order;
use crate::figure::significant;
use crate::plan::{CudaState, Node};
use crate::protocol::{DeviceRates, PASSES, throttle_words};
use crate::session::{
    MEASURE_S, Machine, Measurement, RatesMessage, SessionError, Stage, USUAL_MEASURE_S, measure_rates, open_reader,
};
use crate::text_table::TextTable;

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
    /// Measure what each GPU sustains, or the CPUs where there is no GPU: FLOP/s of matrix products in each precision, bytes/s of passes
    /// over memory. Nothing else should run at that time; the session's runs wait. Afterwards the session's tables also give shares of
    /// these rates.
    Measure {
        /// Session whose machine is measured and which keeps the rates: a folder, the name of a session in the default folder, or
        /// ssh://[user@]host/path.
        #[arg(long, value_name = "DIR")]
        session: Option<PathBuf>,
        /// Seconds of measurement on each device.
        #[arg(long, value_name = "S", default_value_t = USUAL_MEASURE_S, value_parser = duration)]
        seconds: f64,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Md)]
        format: Format,
    },
}

fn duration(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| MEASURE_S.contains(seconds));
    seconds.ok_or_else(|| format!("it must be a number from {} to {}", MEASURE_S.start(), MEASURE_S.end()))
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    if let Some(Command::Measure { session, seconds, format }) = arguments.command {
        return measure(session, seconds, format);
    }
    let machine = Machine::look();
    match arguments.format {
        Format::Md => print(&describe(&machine.node))?,
        Format::Json => print(&serde_json::to_string_pretty(&machine.node)?)?,
    }
    Ok(OK)
}

fn measure(session: Option<PathBuf>, seconds: f64, format: Format) -> Outcome {
    let mut shown = Shown::default();
    let (rates, is_whole) = match session {
        Some(session) => measure_for(&session, seconds, &mut shown)?,
        None => {
            let mut rates = Vec::new();
            let mut tell = |progress| match progress {
                RatesMessage::At(measurement) => shown.show(&measurement),
                RatesMessage::Rates(device_rates) => rates.push(*device_rates),
            };
            measure_rates(&Machine::look(), seconds, &AtomicBool::new(false), &mut tell)?;
            (rates, true)
        }
    };
    match format {
        Format::Md if rates.is_empty() => {}
        Format::Md => print(&rates.iter().map(rates_table).collect::<Vec<_>>().join("\n\n"))?,
        Format::Json => print(&serde_json::to_string_pretty(&rates)?)?,
    }
    Ok(if is_whole { OK } else { INTERRUPTED })
}

/// Has the conductor of a session measure its machine. Returns the rates, and whether the measurement ran to its end.
fn measure_for(session: &PathBuf, seconds: f64, shown: &mut Shown) -> Result<(Vec<DeviceRates>, bool), Box<dyn Error>> {
    let mut place = Place::of(session)?;
    let client = place.connect_or_start(false)?;
    let interrupted = interrupts()?;
    let mut following = Following::new(client, None, place.folder(), None, Arc::clone(&interrupted))?;
    following.await_queue()?;
    let earlier_s = following.queue().measurement.as_ref().map(|earlier| earlier.time_s);
    let mut show = |measurement: &Measurement| shown.show(measurement);
    let asked = following.order(Order::MeasureRates(seconds));
    let mut outcome = asked.and_then(|_| following.until_measured(&mut show));
    let over = loop {
        match (&mut place, outcome) {
            (Place::There(far), Err(_)) if far.was_cut() => {
                if !far.wait(&interrupted)? {
                    say(format_args!(
                        "the measurement on {} goes on, and the session will keep its rates",
                        far.address().host()
                    ));
                    return Ok((Vec::new(), false));
                }
                following.go_on(far.client_or_start(false)?)?;
                outcome = following.until_measured(&mut show);
            }
            (_, outcome) => break outcome?,
        }
    };
    let over = over.filter(|over| Some(over.time_s) != earlier_s);
    let over = over
        .ok_or("the session's conductor knows of no measurement: the rates measured so far are kept; measure again")?;
    shown.show(&over);
    if let Stage::Failed(reason) = over.stage {
        return Err(SessionError::Rates(reason).into());
    }
    let mut rates: Vec<DeviceRates> = Vec::new();
    for known in open_reader(place.folder())?.rates()? {
        if known.time_s.is_some_and(|time_s| time_s >= over.time_s) {
            rates.push((*known).clone());
        }
    }
    Ok((rates, over.stage == Stage::Measured))
}

/// How much of a measurement has been printed.
#[derive(Default)]
struct Shown {
    doing: String,
    left: usize,
}

impl Shown {
    fn show(&mut self, measurement: &Measurement) {
        let doing = measurement.doing();
        // Where nobody watches, only what explains a long wait, or an end before the end.
        let is_said = std::io::stderr().is_terminal() || matches!(measurement.stage, Stage::Waits | Stage::Cancelled);
        let is_failed = matches!(measurement.stage, Stage::Failed(_) | Stage::Measured);
        if is_said && !is_failed && doing != self.doing {
            say(&doing);
            self.doing = doing;
        }
        for left in measurement.left.iter().skip(self.left) {
            say(left);
        }
        self.left = measurement.left.len();
    }
}

fn rates_table(rates: &DeviceRates) -> String {
    let threads = rates.threads.map_or(String::new(), |threads| format!(", {}", counted(threads, "thread")));
    let mut table = TextTable::new("lrrrr", ["rate", "median", "interval", "samples", "size"]);
    for rate in &rates.rates {
        let is_pass = PASSES.contains(&&*rate.key);
        let (unit, factor) = if is_pass { ("GB/s", 1e-9) } else { ("TFLOP/s", 1e-12) };
        let size = if is_pass { format!("{} MiB", rate.size >> 20) } else { format!("{0} × {0}", rate.size) };
        let [median, low, high] = [rate.per_s, rate.low_per_s, rate.high_per_s].map(|rate| significant(rate * factor));
        table.row([
            rate.key.as_str().into(),
            format!("{median} {unit}").into(),
            format!("{low} to {high}").into(),
            u64::from(rate.samples).into(),
            size.into(),
        ]);
    }
    let mut lines = vec![
        format!("# {}{threads}, libtorch {}", rates.device.name, rates.torch_version),
        String::new(),
        table.markdown(),
    ];
    lines.extend(rates.sm_clock_mhz.map(|clock| format!("Clock of the multiprocessors: {clock:.0} MHz.")));
    lines.extend(rates.others_cpus.filter(|_| rates.is_contended()).map(contended));
    if !rates.throttle_reasons.is_empty() {
        lines.push(format!("The clocks were limited by {}.", throttle_words(&rates.throttle_reasons)));
    }
    lines.join("\n").trim_end().to_owned()
}

/// The warning that other programs used the CPUs during the measurement.
fn contended(others: f64) -> String {
    format!(
        "Other programs kept {others:.2} CPUs busy at the same time: these rates are too low, and no run is compared with them. Measure \
             again when nothing else runs."
    )
}

fn describe(node: &Node) -> String {
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let mut lines = vec![
        format!("# {}", node.hostname),
        String::new(),
        format!("- system: {}", node.system),
        format!(
            "- processor: {}; {} usable, {}",
            node.cpu_model,
            counted(node.cpus as usize, "CPU"),
            counted(node.numa_nodes as usize, "NUMA node")
        ),
        format!("- memory: {} usable", gigabytes(node.memory_bytes)),
        format!("- NVIDIA driver: {}", node.driver.as_deref().unwrap_or("none")),
    ];
    for gpu in &node.gpus {
        let numa = gpu.numa_node.map_or(String::new(), |numa| format!(", NUMA node {numa}"));
        let mig = if gpu.mig { ", in MIG mode: cannot be used as a whole GPU" } else { "" };
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
