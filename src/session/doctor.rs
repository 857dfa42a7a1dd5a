//! Checks what runs need on a machine: the list that `multicard doctor` prints and the Node screen shows.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crate::foreign::disk_space;
use crate::launch::{self, TORCH_VERSION};
use crate::plan::{CudaState, Node};
use crate::protocol::Site;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It was found and works.
    Good,
    /// It is missing, but only optional features need it.
    Absent,
    /// Something does not work that should.
    Bad,
}

/// The check of one thing that runs need on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The name of the thing.
    pub name: String,
    /// The result.
    pub health: Health,
    /// The finding, in words.
    pub found: String,
    /// What the user can type or do if the result is not good.
    pub remedy: Option<String>,
}

impl Check {
    pub(super) fn good(name: &str, found: impl Into<String>) -> Self {
        Self { name: name.to_owned(), health: Health::Good, found: found.into(), remedy: None }
    }

    fn absent(name: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { health: Health::Absent, remedy: Some(remedy.into()), ..Self::good(name, found) }
    }

    pub(super) fn bad(name: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { health: Health::Bad, remedy: Some(remedy.into()), ..Self::good(name, found) }
    }
}

/// The number of open files that a process should be allowed at least: NCCL opens hundreds of files per rank among eight GPUs.
const LEAST_FILES: u64 = 1024;
/// The least shared memory: NCCL and the loaders of programs exchange data there.
const LEAST_SHARED_BYTES: u64 = 1 << 30;
/// Libraries that the window opens, with the packages that contain them on Debian and Ubuntu.
const WINDOW_LIBRARIES: [(&str, &str); 3] =
    [("libxkbcommon-x11.so.0", "libxkbcommon-x11-0"), ("libEGL.so.1", "libegl1"), ("libGL.so.1", "libgl1")];
/// The folders in which the dynamic linker looks on Debian, Ubuntu, Fedora and others.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
];

/// Checks this machine, described by `node`. It is fast, since it starts no program.
pub fn examine(node: &Node) -> Vec<Check> {
    let mut checks = vec![driver(node), worker(launch::worker_file()), torch(node)];
    checks.extend(cuda(node));
    checks.extend([nccl(node), cupti(node), nsys(node), dali(node)]);
    checks.push(open_files(getrlimit(Resource::Nofile)));
    checks.push(shared_memory(shared_space()));
    checks.push(ssh(env::var_os("PATH").as_deref()));
    checks.push(slurm(find("sbatch", env::var_os("PATH").as_deref()), launch::sites()));
    checks.push(display());
    checks
}

fn driver(node: &Node) -> Check {
    let name = "NVIDIA driver";
    let reason = || node.no_gpu_reason.clone().unwrap_or_else(|| "the reason is unknown".to_owned());
    match &node.driver {
        Some(version) if node.gpus.is_empty() => {
            Check::bad(name, format!("{version}, but no GPU: {}", reason()), "nvidia-smi")
        }
        Some(version) => Check::good(name, format!("{version}, GPUs: {}", node.gpus.len())),
        None => Check::absent(
            name,
            format!("{}; runs use the CPU", reason()),
            "on a machine with NVIDIA GPUs, install NVIDIA's driver until `nvidia-smi` lists them",
        ),
    }
}

fn worker(file: Result<PathBuf, String>) -> Check {
    match file {
        Ok(file) => Check::good("Worker", file.display().to_string()),
        Err(reason) => Check::bad("Worker", reason, "install multicard-worker beside multicard"),
    }
}

fn torch(node: &Node) -> Check {
    let name = format!("PyTorch {TORCH_VERSION}");
    match &node.worker {
        Ok(worker) => Check::good(&name, format!("the worker has loaded libtorch {}", worker.torch_version)),
        Err(reason) => Check::bad(&name, format!("{reason}; programs of your own run without it"), "multicard setup"),
    }
}

/// The check of CUDA in the worker; `None` on a machine without GPUs.
fn cuda(node: &Node) -> Option<Check> {
    let worker = node.worker.as_ref().ok().filter(|_| !node.gpus.is_empty())?;
    Some(match &worker.cuda {
        CudaState::Available => {
            Check::good("CUDA", worker.versions.cuda_runtime.clone().unwrap_or_else(|| "available".to_owned()))
        }
        CudaState::Unavailable { reason } => Check::bad("CUDA", reason, "multicard setup --cuda"),
    })
}

fn nccl(node: &Node) -> Check {
    let found = node.worker.as_ref().ok().and_then(|worker| worker.versions.nccl.clone());
    match found {
        Some(version) => Check::good("NCCL", version),
        None if node.gpus.len() > 1 => {
            Check::bad("NCCL", "the worker was built without it: runs use one GPU", "multicard setup --cuda")
        }
        None => Check::absent(
            "NCCL",
            "not loaded: only runs on several GPUs need it",
            "on a machine with several GPUs: multicard setup --cuda",
        ),
    }
}

fn cupti(node: &Node) -> Check {
    match &node.tracer {
        Ok(file) => Check::good("CUPTI", format!("the built-in tracer: {}", file.display())),
        Err(reason) => Check::absent(
            "CUPTI",
            format!("built-in traces hold no activity of GPUs: {reason}"),
            "on a machine with GPUs, install libmulticard_cupti.so beside multicard (make build-cuda)",
        ),
    }
}

fn nsys(node: &Node) -> Check {
    match &node.nsys {
        Ok(nsys) => Check::good("Nsight Systems", format!("{}, {}", nsys.version, nsys.path.display())),
        Err(reason) => Check::absent(
            "Nsight Systems",
            format!("{reason}; only `trace = \"nsys\"` needs it"),
            "install NVIDIA's package nsight-systems-cli, or set MULTICARD_NSYS to the path of nsys",
        ),
    }
}

fn dali(node: &Node) -> Check {
    let name = "NVIDIA DALI";
    match node.worker.as_ref().map(|worker| &worker.dali) {
        Ok(Ok(folder)) => Check::good(name, folder.display().to_string()),
        Ok(Err(reason)) => {
            Check::absent(name, format!("{reason}; only `loader = dali` needs it"), "multicard setup dali")
        }
        Err(_) => Check::absent(name, "unknown without a worker; only `loader = dali` needs it", "multicard setup"),
    }
}

fn open_files(limit: rustix::process::Rlimit) -> Check {
    let name = "Open files";
    // Zero means that there is no limit.
    let text = |limit: Option<u64>| limit.map_or_else(|| "any number".to_owned(), |limit| limit.to_string());
    let found = format!("{} at a time, at most {}", text(limit.current), text(limit.maximum));
    match (limit.current, limit.maximum) {
        (Some(current), _) if current >= LEAST_FILES => Check::good(name, found),
        (None, _) => Check::good(name, found),
        (Some(_), Some(most)) if most < LEAST_FILES => Check::bad(
            name,
            found,
            format!("as root, put `* hard nofile {LEAST_FILES}` into /etc/security/limits.conf and log in again"),
        ),
        (Some(_), most) => Check::bad(name, found, format!("ulimit -n {}", most.unwrap_or(4 * LEAST_FILES))),
    }
}

/// Free and total bytes of /dev/shm.
fn shared_space() -> Option<(u64, u64)> {
    let folder = Path::new("/dev/shm");
    folder.is_dir().then(|| disk_space(folder))?
}

/// `space` contains the free and total bytes of /dev/shm.
fn shared_memory(space: Option<(u64, u64)>) -> Check {
    let name = "Shared memory";
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    match space {
        Some((free, all)) => {
            let found = format!("{:.1} GB free of {:.1} GB in /dev/shm", gigabytes(free), gigabytes(all));
            if all < LEAST_SHARED_BYTES {
                let remedy = "in a container, start it with --ipc=host or --shm-size=8g; else, as root: \
                              mount -o remount,size=8g /dev/shm";
                Check::bad(name, found, remedy)
            } else if free < LEAST_SHARED_BYTES {
                Check::bad(
                    name,
                    found,
                    "run ls -l /dev/shm to see what fills it, and remove what ended programs have left",
                )
            } else {
                Check::good(name, found)
            }
        }
        None => Check::bad(name, "there is no /dev/shm", "as root: mount -t tmpfs none /dev/shm"),
    }
}

/// The file of a program on a search path.
fn find(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    path.into_iter().flat_map(env::split_paths).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// `sbatch` is its file; `sites` are the clusters that the user's settings name.
fn slurm(sbatch: Option<PathBuf>, sites: Result<Vec<Site>, String>) -> Check {
    let name = "Slurm";
    let names = match sites {
        Ok(sites) => sites.into_iter().map(|site| site.name).collect::<Vec<_>>(),
        Err(reason) => return Check::bad(name, reason, "multicard help slurm"),
    };
    match (sbatch, names.first()) {
        (None, None) => Check::absent(
            name,
            "sbatch is not on PATH: runs start on this machine only",
            "on a cluster's login node, load Slurm's module",
        ),
        (None, Some(_)) => Check::bad(
            name,
            format!("sbatch is not on PATH, but there are sites: {}", names.join(", ")),
            "log in to the cluster's login node, or load Slurm's module",
        ),
        (Some(file), None) => {
            Check::absent(name, format!("{}, but no site", file.display()), "multicard site NAME --add")
        }
        (Some(file), Some(_)) => Check::good(name, format!("{}, sites: {}", file.display(), names.join(", "))),
    }
}

fn ssh(path: Option<&OsStr>) -> Check {
    let found = find("ssh", path);
    match found {
        Some(file) => Check::good("ssh", file.display().to_string()),
        None => Check::absent(
            "ssh",
            "not on PATH: sessions on other machines cannot be opened",
            "apt-get install openssh-client, or set MULTICARD_SSH to an ssh program",
        ),
    }
}

fn display() -> Check {
    let named = ["WAYLAND_DISPLAY", "DISPLAY"].into_iter().find_map(|variable| {
        let value = env::var_os(variable).filter(|value| !value.is_empty())?;
        Some(format!("{variable}={}", value.to_string_lossy()))
    });
    let is_there = |library: &str| LIBRARY_FOLDERS.iter().any(|folder| Path::new(folder).join(library).exists());
    let missing: Vec<&str> =
        WINDOW_LIBRARIES.iter().filter(|(library, _)| !is_there(library)).map(|(_, package)| *package).collect();
    window_on(named, &missing)
}

/// Whether the window opens on this display, if one is named, without the libraries of these packages.
fn window_on(named: Option<String>, missing: &[&str]) -> Check {
    let name = "Display";
    match named {
        _ if !cfg!(feature = "window") => {
            Check::absent(name, "this program was built without the window", "use the subcommands: multicard --help")
        }
        None => Check::absent(
            name,
            "neither WAYLAND_DISPLAY nor DISPLAY is set: the window cannot open here, the command line works",
            "on a machine with a display: multicard --session ssh://THIS-HOST/SESSION",
        ),
        Some(found) if missing.is_empty() => Check::good(name, found),
        Some(found) => Check::absent(
            name,
            format!("{found}, but the window may lack libraries"),
            format!("apt-get install {}", missing.join(" ")),
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustix::process::Rlimit;

    use super::*;
    use crate::plan::fixture;

    #[test]
    fn a_node_without_torch_runs_programs_and_is_told_to_fetch_it() {
        let node = Node { worker: Err("torch 2.4.0 is too old".to_owned()), ..fixture::cpu_node() };
        let checks = examine(&node);
        let torch = checks.iter().find(|check| check.name.starts_with("PyTorch")).unwrap();
        assert_eq!((torch.health, torch.remedy.as_deref()), (Health::Bad, Some("multicard setup")));
        assert!(torch.found.contains("programs of your own run") && torch.found.contains("2.4.0"), "{}", torch.found);
        assert!(checks.iter().all(|check| (check.health == Health::Good) == check.remedy.is_none()), "{checks:?}");
    }

    #[test]
    fn a_cluster_is_named_with_its_sites_and_sites_without_slurm_are_a_fault() {
        let site = || Site { name: "lab".to_owned(), ..Site::default() };
        let file = || Some(PathBuf::from("/usr/bin/sbatch"));
        assert_eq!(slurm(None, Ok(Vec::new())).health, Health::Absent);
        assert_eq!(slurm(file(), Ok(Vec::new())).remedy.as_deref(), Some("multicard site NAME --add"));
        assert_eq!(slurm(None, Ok(vec![site()])).health, Health::Bad);
        let good = slurm(file(), Ok(vec![site()]));
        assert!(good.health == Health::Good && good.found.ends_with("sites: lab"), "{}", good.found);
        assert_eq!(slurm(file(), Err("line 2".to_owned())).health, Health::Bad);
    }

    #[test]
    fn too_few_files_are_raised_by_the_user_or_by_root() {
        let check = |current, maximum| open_files(Rlimit { current: Some(current), maximum: Some(maximum) });
        assert_eq!(check(1024, 1024).health, Health::Good);
        assert_eq!(check(256, 65_536).remedy.as_deref(), Some("ulimit -n 65536"));
        assert!(check(256, 512).remedy.unwrap().contains("limits.conf"));
        assert_eq!(open_files(Rlimit { current: None, maximum: None }).health, Health::Good);
    }

    #[test]
    fn the_small_shared_memory_of_a_container_and_a_full_one_are_told_apart() {
        assert!(shared_memory(Some((64 << 20, 64 << 20))).remedy.unwrap().contains("--ipc=host"));
        assert!(shared_memory(Some((1 << 20, 16 << 30))).remedy.unwrap().contains("ls -l /dev/shm"));
        assert_eq!(shared_memory(Some((8 << 30, 16 << 30))).health, Health::Good);
    }

    #[cfg(feature = "window")]
    #[test]
    fn the_window_opens_on_a_named_display_with_all_libraries() {
        let named = || Some("DISPLAY=:0".to_owned());
        assert_eq!(
            (window_on(named(), &[]).health, window_on(named(), &[]).found.as_str()),
            (Health::Good, "DISPLAY=:0")
        );
        assert_eq!(
            window_on(named(), &["libgl1", "libx11-6"]).remedy.as_deref(),
            Some("apt-get install libgl1 libx11-6")
        );
        assert!(window_on(None, &[]).found.contains("neither WAYLAND_DISPLAY nor DISPLAY is set"));
    }
}
