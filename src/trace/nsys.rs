//! The Nsight Systems command line: finding it, its options, and starting a run under it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::plan::{Capture, Nsys};
use crate::protocol::CAPTURE_RANGE;

/// Environment variable with the path of nsys, for installations that are not on PATH.
const VARIABLE: &str = "MULTICARD_NSYS";
/// Time limit for nsys to report its version.
const LIMIT: Duration = Duration::from_secs(20);

/// Usual installation folders, the likeliest first. `*` stands for any name; the name that sorts last is tried first.
const PLACES: [&str; 9] = [
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems/*/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "/opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/local/cuda*/nsight-systems*/bin/nsys",
    "/usr/lib/nsight-systems/bin/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-compute*/host/target-linux-*/nsys",
];

/// Finds nsys: `MULTICARD_NSYS`, else the first on PATH, else the usual installation folders.
///
/// # Errors
///
/// The places searched.
pub fn nsys_path() -> Result<PathBuf, String> {
    find(env::var_os(VARIABLE), env::var_os("PATH").as_deref(), Path::new("/"))
}

/// Finds nsys and reads its version.
///
/// # Errors
///
/// The places searched, or why it does not run.
pub fn find_nsys() -> Result<Nsys, String> {
    let path = nsys_path()?;
    let version = ask(&path, &["--version"])?;
    // "NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0"
    let version =
        version.lines().map(str::trim).find(|line| line.contains(char::is_numeric)).unwrap_or("unknown version");
    let version = version.rsplit_once("version ").map_or(version, |(_, version)| version).to_owned();
    Ok(Nsys { path, version })
}

/// Searches; [`PLACES`] are relative to `root`.
pub(super) fn find(set: Option<OsString>, path: Option<&OsStr>, root: &Path) -> Result<PathBuf, String> {
    if let Some(set) = set.filter(|set| !set.is_empty()) {
        let set = PathBuf::from(set);
        return if is_program(&set) { Ok(set) } else { Err(format!("{VARIABLE}={} is not a program", set.display())) };
    }
    let on_path = path.map(env::split_paths).into_iter().flatten().map(|folder| folder.join("nsys"));
    let installed = PLACES.iter().flat_map(|place| matching(root, place));
    on_path.chain(installed).find(|file| is_program(file)).ok_or_else(|| {
        format!(
            "nsys is not on PATH, nor where Nsight Systems or Nsight Compute install it; set {VARIABLE} to its path"
        )
    })
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// The files that match a place.
fn matching(root: &Path, place: &str) -> Vec<PathBuf> {
    let mut folders = vec![root.to_owned()];
    for part in place.split('/').filter(|part| !part.is_empty()) {
        let Some((before, after)) = part.split_once('*') else {
            folders.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        let is_meant =
            |name: &str| name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after);
        let children = |folder: &PathBuf| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            names.retain(|name| is_meant(name));
            names.sort_unstable_by(|a, b| b.cmp(a));
            names.into_iter().map(|name| folder.join(name)).collect()
        };
        folders = folders.iter().flat_map(children).collect();
    }
    folders
}

/// The output of an nsys query such as `--version`.
fn ask(nsys: &Path, arguments: &[&str]) -> Result<String, String> {
    let failed = |how: String| format!("{} {}: {how}", nsys.display(), arguments.join(" "));
    let mut command = Command::new(nsys);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let (sender, answer) = sync_channel(1);
    let wait = move || {
        // This fails only if the receiver is gone.
        let _ = sender.send(child.wait_with_output());
    };
    thread::Builder::new().name("nsys-answer".to_owned()).spawn(wait).map_err(|error| failed(error.to_string()))?;
    let output = match answer.recv_timeout(LIMIT) {
        Ok(output) => output.map_err(|error| failed(error.to_string()))?,
        Err(_) => {
            if let Some(group) = group {
                // An error means that the process has just ended.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            return Err(failed(format!("no answer within {} s", LIMIT.as_secs())));
        }
    };
    let [out, complaints] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if output.status.success() {
        return Ok(out);
    }
    let stderr = complaints.trim();
    Err(failed(format!("{}: {}", output.status, if stderr.is_empty() { out.trim() } else { stderr })))
}

/// The command prefix that records a program with nsys: CUDA, NVTX and, if supported, NCCL, kernels within CUDA graphs and memory use; no
/// CPU sampling. `report` is the report's path without extension. A part of a run is recorded between `cudaProfilerStart` and
/// `cudaProfilerStop` or, without a GPU, within the range [`CAPTURE_RANGE`]; the run continues after it.
///
/// # Errors
///
/// If nsys does not list its options.
pub fn profile_command(nsys: &Path, capture: Capture, has_gpu: bool, report: &Path) -> Result<Command, String> {
    let help = ask(nsys, &["profile", "--help"])?;
    let mut command = Command::new(nsys);
    command.args(profile_arguments(&help, capture, has_gpu)).arg("--output").arg(report);
    // Ranges are selected by their text, which nsys compares only with this variable.
    command.env("NSYS_NVTX_PROFILER_REGISTER_ONLY", "0");
    Ok(command)
}

fn profile_arguments(help: &str, capture: Capture, has_gpu: bool) -> Vec<String> {
    let mut trace = "--trace=cuda,nvtx".to_owned();
    if option(help, "--trace").is_some_and(|about| about.contains("'nccl'")) {
        trace.push_str(",nccl");
    }
    let mut arguments = vec!["profile".to_owned(), trace];
    arguments.extend(["--sample=none", "--cpuctxsw=none", "--force-overwrite=true"].map(str::to_owned));
    let mut add = |argument: String| arguments.push(argument);
    for (name, value) in [("--cuda-graph-trace", "node"), ("--cuda-memory-usage", "true")] {
        if option(help, name).is_some_and(|about| about.contains(&format!("'{value}'"))) {
            add(format!("{name}={value}"));
        }
    }
    if capture != Capture::Whole {
        match CAPTURE_RANGE.to_str() {
            Ok(range) if !has_gpu => {
                add("--capture-range=nvtx".to_owned());
                add(format!("--nvtx-capture={range}"));
            }
            _ => add("--capture-range=cudaProfilerApi".to_owned()),
        }
        add("--capture-range-end=stop".to_owned());
    }
    arguments
}

/// The help text of an option; `None` if this nsys lacks it.
fn option<'h>(help: &'h str, name: &str) -> Option<&'h str> {
    let is_head = |line: &str| line.trim_start().starts_with('-');
    let has = |line: &str| {
        let names = line.trim().split(',').map(|one| one.trim().split(['=', '[', ' ']).next().unwrap_or_default());
        is_head(line) && names.into_iter().any(|known| known == name)
    };
    let mut at = 0;
    let mut start = None;
    for line in help.split_inclusive('\n') {
        match start {
            None if has(line) => start = Some(at),
            Some(start) if is_head(line) => return help.get(start..at),
            _ => {}
        }
        at += line.len();
    }
    help.get(start?..)
}

#[cfg(test)]
#[path = "nsys_tests.rs"]
mod tests;
