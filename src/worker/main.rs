//! The worker: trains the ranks of one run. It is started by the workbench, which reads the logs that it writes.
//!
//! ```text
//! job ─▶ workloads ─▶ a Task ─▶ train::run ─▶ Trainer::step ─▶ events and readings
//!                       │            │              │
//!              loss, batches,     clock, capture,  Module, Optimizer, Arithmetic,
//!              score, proof       watchdog, memory StepGraph, Strategy
//! ```
//!
//! - A [`task::Task`] is a workload as the loop sees it: its batches, its module, its loss and score, its optimizer, and what
//!   shows its factors in effect. Everything it measures is a reading, whose key names a measure.
//! - A [`module::Module`] is a network: parameters, buffers, a forward pass and its units, the blocks that a strategy may
//!   treat one by one.
//! - A [`parallel::Strategy`] spreads a step over devices. Its hooks are called around each pass; a module runs its units
//!   through [`module::Pass::unit`], which calls [`module::UnitHooks`] where the strategy has some and costs nothing where it
//!   has none.
//! - [`train::run`] is the only loop. It owns the order of things, clock, watchdog, profiler window, phases, memory, warm-up,
//!   losses that are not numbers, CUDA graphs and precision, and knows no workload.
//!
//! **To add a workload**: a folder here with a type that implements `Task`, one line in `workloads.rs`, and its
//! `WorkloadSpec` in the library's `plan`.
//!
//! **To add a strategy**: a file in `parallel/` with a type that implements `Strategy`, one arm in `parallel::strategy`, and a
//! level of the factor `strategy` in the workloads that offer it.
//!
//! **To add an optimizer**: a type that implements [`task::Optimizer`]; tasks make theirs.

mod binding;
mod capture;
mod checkpoint;
mod clock;
mod device;
mod graph;
mod image;
mod job;
mod llm;
mod module;
mod nodes;
mod order;
mod parallel;
#[cfg(test)]
mod perceptron_test;
mod precision;
mod proof;
mod quick;
mod rates;
mod recording;
mod report;
mod shim;
mod task;
#[cfg(test)]
mod testing;
mod train;
mod trainer;
mod watchdog;
mod work;
mod workloads;

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use multicard::foreign::say;
use multicard::plan::{Capture, Worker};
use multicard::protocol::{EVENTS_FILE, Event, Job, PROTOCOL_VERSION, RankPlace, RateLine};

use crate::report::{FAILED, Report, Stop};

/// The job or the command line was rejected.
const BAD_JOB: u8 = 2;

const USAGE: &str = "\
usage: multicard-worker describe        what this worker is and whether it can use CUDA, as JSON
       multicard-worker rank JOB RANK   run one rank of a job
       multicard-worker rates SECONDS THREADS [GPU-UUID]
                                        measure a device's arithmetic and memory; a line of JSON for each rate";

fn main() -> ExitCode {
    let started = Instant::now();
    multicard::protocol::set_build(option_env!("MULTICARD_BUILD"));
    multicard::foreign::keep_files_from_others();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    match words[..] {
        ["describe"] => describe(),
        ["rank", _, rank] => {
            let Ok(rank) = rank.parse() else {
                say(format_args!("multicard-worker: rank {rank:?} is not a number from 0\n{USAGE}"));
                return ExitCode::from(BAD_JOB);
            };
            run_rank(Path::new(&arguments[1]), rank, started)
        }
        ["rates", seconds, threads] => measure_rates(seconds, threads, None),
        ["rates", seconds, threads, uuid] => measure_rates(seconds, threads, Some(uuid)),
        ["--help" | "-h"] => print(USAGE),
        ["--version" | "-V"] => print(concat!("multicard-worker ", env!("CARGO_PKG_VERSION"))),
        _ => {
            say(USAGE);
            ExitCode::from(BAD_JOB)
        }
    }
}

/// Writes a line to stdout.
fn print(line: &str) -> ExitCode {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("multicard-worker: writing to standard output: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

fn describe() -> ExitCode {
    // Looking for CUDA loads its libraries, which then report their versions.
    let cuda = device::cuda_state();
    let worker = Worker {
        path: std::env::current_exe().unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol_version: PROTOCOL_VERSION,
        torch_version: shim::torch_version(),
        cuda,
        dali: image::dali::folder(),
        versions: shim::versions(),
    };
    match serde_json::to_string(&worker) {
        Ok(text) => print(&text),
        Err(error) => {
            say(format_args!("multicard-worker: describing it failed: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Measures a device and prints its highest rates.
fn measure_rates(seconds: &str, threads: &str, gpu_uuid: Option<&str>) -> ExitCode {
    let asked = seconds.parse::<f64>().ok().filter(|seconds| (0.0..=3600.0).contains(seconds));
    let (Some(seconds), Ok(threads)) = (asked, threads.parse()) else {
        say(USAGE);
        return ExitCode::from(BAD_JOB);
    };
    // If this fails, the process that reads the lines has closed the pipe.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let place = RankPlace { gpu_uuid: gpu_uuid.map(str::to_owned), ..RankPlace::on_cpu(0, threads) };
    let mut report = |line: RateLine| {
        let text = serde_json::to_string(&line).unwrap_or_default();
        if writeln!(io::stdout(), "{text}").is_err() {
            // Nobody reads the rates any more.
            shim::exit_now(FAILED);
        }
    };
    match rates::measure(&place, seconds, &mut report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            report(RateLine::Failed { message: stop.to_string() });
            ExitCode::from(FAILED)
        }
    }
}

fn run_rank(path: &Path, rank: u32, started: Instant) -> ExitCode {
    let (job, work) = match job::read(path) {
        Ok(job) => job,
        Err(error) => {
            say(format_args!("multicard-worker: {error}"));
            return ExitCode::from(BAD_JOB);
        }
    };
    let Some(place) = job::place(&job, rank) else {
        say(format_args!("multicard-worker: {} has no rank {rank}", path.display()));
        return ExitCode::from(BAD_JOB);
    };
    // Before there are threads, which inherit the policy, and before there are data.
    binding::bind_memory(place);
    let place = &device::assigned(&job, place);
    match Report::open(&job, rank).and_then(|mut report| {
        remember_panics();
        if job.built_in_trace {
            record(&job, place, &mut report)?;
        }
        let work = AssertUnwindSafe(|| work(&job, place, &mut report));
        let outcome = catch_unwind(work).unwrap_or_else(|_| Err(Stop::engine(&last_panic())));
        tell_end(outcome, &mut report, started)
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            say(format_args!("multicard-worker: rank {rank}: {stop}"));
            if job.ranks.len() > 1 {
                shim::exit_now(FAILED);
            }
            ExitCode::from(FAILED)
        }
    }
}

/// Begins the built-in trace. If that fails the run continues without it, because its measurements count.
fn record(job: &Job, place: &RankPlace, report: &mut Report) -> Result<(), Stop> {
    let open = |tracer: shim::Tracer| Box::new(tracer) as Box<dyn recording::Tracer>;
    let tracer = place.gpu_uuid.is_some().then(|| shim::Tracer::open(&job.folder, place.rank).map(open));
    let in_windows = matches!(job.trace, Some(Capture::Windows { .. }));
    match recording::open(&job.folder, place.rank, in_windows, tracer) {
        Ok(()) => {
            // NCCL's collectives are kernels, which do not tell their sizes.
            shim::record_collectives(place.gpu_uuid.is_none())?;
            if job.trace.is_none_or(|part| part == Capture::Whole) {
                recording::resume();
            }
            Ok(())
        }
        Err(error) => {
            let file = job.folder.join(EVENTS_FILE);
            let message = format!("there is no trace, as writing {} failed: {error}", file.display());
            report.event(Event::Warning { message })
        }
    }
}

/// Logs how the rank ended.
fn tell_end(outcome: Result<(), Stop>, report: &mut Report, started: Instant) -> Result<(), Stop> {
    let stop = match outcome {
        Ok(()) => return report.event(Event::Finished { duration_s: started.elapsed().as_secs_f64() }),
        Err(stop) => stop,
    };
    report.failed(&stop)?;
    Err(stop)
}

/// Message and location of the last panic.
static PANIC: Mutex<String> = Mutex::new(String::new());

fn remember_panics() {
    std::panic::set_hook(Box::new(|panic| {
        say(format_args!("multicard-worker: {panic}"));
        if let Ok(mut text) = PANIC.lock() {
            *text = panic.to_string();
        }
    }));
}

fn last_panic() -> String {
    PANIC.lock().map_or_else(|_| "the worker panicked".into(), |text| text.clone())
}
