//! The worker: trains the ranks of one run. It is started by the workbench, which reads the logs that it writes.

mod binding;
mod capture;
mod clock;
mod device;
mod graph;
mod group;
mod image;
mod job;
mod parallel;
mod precision;
mod report;
mod shim;
#[cfg(test)]
mod testing;
mod train;
mod trainer;
mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use multicard::plan::{ImageSettings, Worker};
use multicard::protocol::{self, Event, Job, PROTOCOL_VERSION, RankPlace};

use crate::device::RankDevice;
use crate::parallel::Peers;
use crate::report::{FAILED, Report, Stop};

/// The job or the command line was not taken.
const BAD_JOB: u8 = 2;

const USAGE: &str = "\
usage: multicard-worker describe        what this worker is and whether it can use CUDA, as JSON
       multicard-worker group JOB       start the ranks of a job, watch them, end them together
       multicard-worker rank JOB RANK   run one rank of a job";

fn main() -> ExitCode {
    let started = Instant::now();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    match words[..] {
        ["describe"] => describe(),
        ["group", _] => group::run(Path::new(&arguments[1])),
        ["rank", _, rank] => {
            let Ok(rank) = rank.parse() else {
                eprintln!("multicard-worker: rank {rank:?} is no number from 0\n{USAGE}");
                return ExitCode::from(BAD_JOB);
            };
            group::die_with_parent();
            run_rank(Path::new(&arguments[1]), rank, started)
        }
        ["--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        ["--version" | "-V"] => {
            println!("multicard-worker {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(BAD_JOB)
        }
    }
}

fn describe() -> ExitCode {
    let worker = Worker {
        path: std::env::current_exe().unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol_version: PROTOCOL_VERSION,
        torch_version: shim::torch_version(),
        cuda: device::cuda_state(),
        dali: image::dali::folder(),
    };
    match serde_json::to_string(&worker) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("multicard-worker: describing it failed: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn run_rank(path: &Path, rank: u32, started: Instant) -> ExitCode {
    let (job, settings) = match job::read(path) {
        Ok(job) => job,
        Err(error) => {
            eprintln!("multicard-worker: {error}");
            return ExitCode::from(BAD_JOB);
        }
    };
    let Some(place) = job::place(&job, rank) else {
        eprintln!("multicard-worker: {} has no rank {rank}", path.display());
        return ExitCode::from(BAD_JOB);
    };
    match Report::open(&job.folder, &job.run, rank).and_then(|mut report| {
        remember_panics();
        let work = AssertUnwindSafe(|| train(&job, place, &settings, &mut report));
        let outcome = catch_unwind(work).unwrap_or_else(|_| Err(Stop::engine(&last_panic())));
        tell_end(outcome, &mut report, started)
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            eprintln!("multicard-worker: rank {rank}: {stop}");
            if job.ranks.len() > 1 {
                shim::exit_now(FAILED);
            }
            ExitCode::from(FAILED)
        }
    }
}

fn train(job: &Job, place: &RankPlace, settings: &ImageSettings, report: &mut Report) -> Result<(), Stop> {
    let device = RankDevice::open(place, settings.gpus / job.ranks.len(), job.limits.memory_limit_bytes);
    let unavailable = protocol::Device { name: "unavailable".into(), gpu_uuid: place.gpu_uuid.clone() };
    report.event(Event::Started {
        protocol_version: PROTOCOL_VERSION,
        pid: std::process::id(),
        torch_version: shim::torch_version(),
        device: device.as_ref().map_or(unavailable, |device| device.described.clone()),
        world_size: job.ranks.len() as u32,
        seed: job.seed,
    })?;
    let device = device?;
    precision::flags(settings).set()?;
    // One chain of operations: threads between operations would only take CPUs from those within.
    shim::set_threads(place.compute_threads.max(1), 1)?;
    let Some(peers) = Peers::join(place.rank, job.ranks.len() as u32, device.device)? else {
        return train::run(job, place.rank, settings, &device, None, report);
    };
    train::run(job, place.rank, settings, &device, Some(&peers), report).map_err(|stop| peers.explain(stop))?;
    peers.leave()
}

/// The last words of a log.
fn tell_end(outcome: Result<(), Stop>, report: &mut Report, started: Instant) -> Result<(), Stop> {
    let stop = match outcome {
        Ok(()) => return report.event(Event::Finished { duration_s: started.elapsed().as_secs_f64() }),
        Err(stop) => stop,
    };
    report.failed(&stop)?;
    Err(stop)
}

/// What the last panic said, and where.
static PANIC: Mutex<String> = Mutex::new(String::new());

fn remember_panics() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("multicard-worker: {panic}");
        if let Ok(mut text) = PANIC.lock() {
            *text = panic.to_string();
        }
    }));
}

fn last_panic() -> String {
    PANIC.lock().map_or_else(|_| "the worker panicked".into(), |text| text.clone())
}
