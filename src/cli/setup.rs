//! `multicard setup`: fetches the libraries that the built-in workloads need and a package does not hold.

use clap::{Args, ValueEnum};

use super::{OK, Outcome, print, progress_bar, say};
use crate::launch::find_worker;
use crate::plan::CudaState;
use crate::setup::{Set, fetch, folder, wheels};
use crate::telemetry::read_node;

#[derive(Args)]
pub(super) struct Arguments {
    /// What to fetch.
    #[arg(value_enum, default_value_t = What::Torch)]
    what: What,
    /// PyTorch with all of CUDA's libraries (2.5 GB to download). Default where there is an NVIDIA driver.
    #[arg(long, conflicts_with = "cpu")]
    cuda: bool,
    /// PyTorch for CPUs (0.5 GB to download). Default where there is no NVIDIA driver.
    #[arg(long)]
    cpu: bool,
    /// A folder that contains the files, for machines without a network, or the address of a mirror.
    #[arg(long, value_name = "DIR|URL")]
    from: Option<String>,
    /// Only print what would be downloaded: size in bytes, SHA-256, address.
    #[arg(long)]
    list: bool,
    /// Fetch PyTorch even if the worker has found one.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum What {
    /// PyTorch's libraries, for the built-in workloads.
    Torch,
    /// NVIDIA DALI, for `loader = dali`.
    Dali,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let set = match arguments.what {
        What::Dali => Set::Dali,
        What::Torch if arguments.cuda => Set::Cuda,
        What::Torch if arguments.cpu || read_node().driver.is_none() => Set::Cpu,
        What::Torch => Set::Cuda,
    };
    let wheels = wheels(set)?;
    if arguments.list {
        let line = |wheel: &crate::setup::Wheel| format!("{} {} {}", wheel.bytes, wheel.sha256, wheel.url);
        print(&wheels.iter().map(line).collect::<Vec<_>>().join("\n"))?;
        return Ok(OK);
    }
    if let Some(found) = found_already(set).filter(|_| !arguments.force) {
        say(format_args!("{found}: there is nothing to fetch; --force fetches it anyway"));
        return Ok(OK);
    }
    let folder = folder(set)?;
    say(format_args!("fetching into {}", folder.display()));
    let bar = progress_bar("{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}  {msg}");
    let mut doing = String::new();
    let outcome = fetch(set, &wheels, &folder, arguments.from.as_deref(), &mut |what, done, total| {
        if doing != what {
            what.clone_into(&mut doing);
            if bar.is_hidden() { say(what) } else { bar.set_message(what.to_owned()) }
        }
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    outcome?;
    // What was fetched has to be of use, not only there.
    let worker = find_worker()?;
    let found = match set {
        Set::Dali => format!("NVIDIA DALI: {}", worker.description.dali?.display()),
        Set::Cpu | Set::Cuda => format!("the worker has loaded libtorch {}", worker.description.torch_version),
    };
    say(found);
    Ok(OK)
}

/// What the worker has already found of these libraries.
fn found_already(set: Set) -> Option<String> {
    let worker = find_worker().ok()?.description;
    match set {
        Set::Dali => Some(format!("the worker has found NVIDIA DALI in {}", worker.dali.ok()?.display())),
        Set::Cpu => Some(format!("the worker has loaded libtorch {}", worker.torch_version)),
        Set::Cuda => (worker.cuda == CudaState::Available)
            .then(|| format!("the worker has loaded libtorch {} and can use CUDA", worker.torch_version)),
    }
}
