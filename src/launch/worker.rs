//! Search for the worker binary and its description, and for the supervisor's program.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::plan::Worker;
use crate::protocol::{Exit, PROTOCOL_VERSION};

use super::process;
use super::supervisor::{JOB_WORD, RANK_WORD};

/// File name of the worker.
const NAME: &str = "multicard-worker";

/// File name of the supervisor's program.
const SUPERVISOR: &str = "multicard";

/// Version of libtorch that the worker is built for: its C++ interface is stable only within one version.
const TORCH_VERSION: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/torch-version")).trim_ascii();

/// Time limit for a worker to describe itself: loading CUDA's libraries from a cold disk takes seconds.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(30);

/// Worker with its description, ready to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The binary.
    pub path: PathBuf,
    /// Additional environment variables.
    pub environment: Vec<(String, String)>,
    /// Its description.
    pub description: Worker,
}

impl WorkerCommand {
    /// Command line of each rank.
    pub(super) fn rank_program(&self) -> [OsString; 4] {
        [self.path.clone().into(), "rank".into(), JOB_WORD.into(), RANK_WORD.into()]
    }
}

/// Finds `multicard`, the supervisor's program: this program if it is `multicard`, so that both have one version, else the one
/// beside the worker, beside this program or one folder above.
pub fn find_supervisor(worker: Option<&Path>) -> Result<PathBuf, String> {
    supervisor_for(&env::current_exe().unwrap_or_default(), worker)
}

fn supervisor_for(exe: &Path, worker: Option<&Path>) -> Result<PathBuf, String> {
    if exe.ends_with(SUPERVISOR) && exe.is_file() {
        return Ok(exe.to_owned());
    }
    let folders = worker.and_then(Path::parent).into_iter().chain(exe.ancestors().skip(1).take(2));
    let tried: Vec<_> = folders.map(|folder| folder.join(SUPERVISOR)).collect();
    tried.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        format!("no {SUPERVISOR}, which leads the ranks of runs: tried {}: install it beside the worker", all(&tried))
    })
}

/// `a and b`.
fn all(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

/// Finds the worker: `$MULTICARD_WORKER`, else `multicard-worker` beside this program or one folder above. If
/// `$MULTICARD_TORCH` names a torch folder (`…/site-packages/torch`), the worker loads the libraries from there.
///
/// # Errors
/// There is no worker, it cannot be executed, or it does not describe itself within 30 s as a worker of this workbench's
/// protocol. The error says what was tried, what happened and what to do.
pub fn find_worker() -> Result<WorkerCommand, String> {
    let exe = env::current_exe().unwrap_or_default();
    let folders: Vec<_> = exe.ancestors().skip(1).take(2).map(Path::to_owned).collect();
    Search {
        worker: set("MULTICARD_WORKER").map(PathBuf::from),
        folders,
        torch: set("MULTICARD_TORCH").map(PathBuf::from),
        library_path: set("LD_LIBRARY_PATH"),
        limit: DESCRIBE_LIMIT,
    }
    .find()
}

fn set(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|value| !value.is_empty())
}

/// Folders to search, and the environment.
struct Search {
    worker: Option<PathBuf>,
    folders: Vec<PathBuf>,
    torch: Option<PathBuf>,
    library_path: Option<OsString>,
    limit: Duration,
}

impl Search {
    fn find(&self) -> Result<WorkerCommand, String> {
        let path = self.locate()?;
        let environment = self.environment()?;
        let description = describe(&path, &environment, self.limit)?;
        Ok(WorkerCommand { description: Worker { path: path.clone(), ..description }, path, environment })
    }

    fn locate(&self) -> Result<PathBuf, String> {
        if let Some(path) = &self.worker {
            return std::path::absolute(path).ok().filter(|path| path.is_file()).ok_or_else(|| {
                format!("MULTICARD_WORKER names {}, which is not a file: correct or unset it", path.display())
            });
        }
        let tried: Vec<_> = self.folders.iter().map(|folder| folder.join(NAME)).collect();
        tried.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
            format!(
                "no worker found: tried {}: build it with `cargo build --workspace`, or set MULTICARD_WORKER to its path",
                all(&tried)
            )
        })
    }

    /// Library folders of the named torch, before the existing library path.
    fn environment(&self) -> Result<Vec<(String, String)>, String> {
        let Some(torch) = &self.torch else { return Ok(Vec::new()) };
        let version = torch_version(torch)?;
        if version.split('+').next() != Some(TORCH_VERSION) {
            return Err(format!(
                "MULTICARD_TORCH names torch {version} ({}), but the worker needs torch {TORCH_VERSION}: install that version",
                torch.display()
            ));
        }
        let mut folders = vec![torch.join("lib")];
        let packages = torch.parent().map(|parent| parent.join("nvidia"));
        let packages = packages.and_then(|nvidia| fs::read_dir(nvidia).ok()).into_iter().flatten().flatten();
        let mut libraries: Vec<_> =
            packages.map(|entry| entry.path().join("lib")).filter(|path| path.is_dir()).collect();
        libraries.sort();
        folders.append(&mut libraries);
        folders.extend(self.library_path.iter().flat_map(env::split_paths));
        let joined = env::join_paths(&folders).ok().and_then(|joined| joined.into_string().ok());
        let joined = joined.ok_or_else(|| {
            format!("MULTICARD_TORCH ({}): the path contains a colon or is not UTF-8: move the folder", torch.display())
        })?;
        Ok(vec![("LD_LIBRARY_PATH".into(), joined)])
    }
}

/// The version in a torch folder's `version.py`.
fn torch_version(torch: &Path) -> Result<String, String> {
    let path = torch.join("version.py");
    let text = fs::read_to_string(&path).map_err(|error| {
        format!(
            "MULTICARD_TORCH: cannot read {}: {error}: name the folder of an installed torch {TORCH_VERSION}",
            path.display()
        )
    })?;
    let version = text.lines().find_map(|line| line.strip_prefix("__version__")?.trim_start().strip_prefix('='));
    let version = version.map(|version| version.trim().trim_matches(['\'', '"']).to_owned());
    version.ok_or_else(|| {
        format!("MULTICARD_TORCH: {} has no __version__: name the folder of an installed torch", path.display())
    })
}

/// Runs `multicard-worker describe` and reads its output.
fn describe(path: &Path, environment: &[(String, String)], limit: Duration) -> Result<Worker, String> {
    let shown = path.display();
    let mut command = Command::new(path);
    command.arg("describe").envs(environment.iter().map(|(key, value)| (key, value))).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("the worker {shown} is not executable ({error}): make it so with `chmod +x`")
        }
        _ => format!("the worker {shown} cannot be started: {error}: build it again for this machine"),
    })?;
    let deadline = Instant::now() + limit;
    let stdout = collect("describe-stdout", child.stdout.take());
    let stderr = collect("describe-stderr", child.stderr.take());
    let exit = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Exit::from(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                process::kill_group(child.id());
                let _ = child.wait();
                let seconds = limit.as_secs_f64();
                return Err(format!(
                    "the worker {shown} did not describe itself within {seconds} s and was killed: run `{shown} describe` to see why"
                ));
            }
        }
    };
    let stdout = received(&stdout, deadline);
    let stderr = received(&stderr, deadline);
    if !exit.is_success() {
        return Err(crashed(path, exit, &stderr));
    }
    understand(path, &stdout)
}

fn crashed(path: &Path, exit: Exit, stderr: &str) -> String {
    let how = match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    };
    let first: Vec<_> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    let said = if first.is_empty() { "nothing on stderr".into() } else { first.join(" | ") };
    let remedy = if stderr.contains("cannot open shared object file") {
        format!("name the folder of torch {TORCH_VERSION} in MULTICARD_TORCH, such as …/site-packages/torch")
    } else {
        format!("run `{} describe` to see more", path.display())
    };
    format!("the worker {} crashed ({how}): {said}: {remedy}", path.display())
}

fn understand(path: &Path, stdout: &str) -> Result<Worker, String> {
    let shown = path.display();
    let value = serde_json::from_str::<serde_json::Value>(stdout.trim()).ok();
    let version = value.as_ref().and_then(|value| value.get("protocol_version")?.as_u64());
    match (value, version) {
        (_, Some(version)) if version != u64::from(PROTOCOL_VERSION) => Err(format!(
            "the worker {shown} uses protocol {version}, but this workbench uses {PROTOCOL_VERSION}: build both from one version"
        )),
        (Some(value), Some(_)) => serde_json::from_value(value).map_err(|error| {
            format!("the worker {shown} printed a description that this workbench does not know: {error}: build both from one version")
        }),
        _ => {
            let start: String = stdout.trim().chars().take(200).collect();
            Err(format!("{shown} is not a worker of multicard: `describe` printed {start:?}: correct MULTICARD_WORKER or build it again"))
        }
    }
}

/// Reads at most 1 MiB from a pipe on a thread, so that a full pipe never blocks the process.
fn collect(name: &str, pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let read = move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(1 << 20).read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    };
    // If the thread cannot be started, the output is empty.
    let _ = thread::Builder::new().name(name.into()).spawn(read);
    receiver
}

fn received(pipe: &Receiver<String>, deadline: Instant) -> String {
    let left = deadline.saturating_duration_since(Instant::now());
    pipe.recv_timeout(left.max(Duration::from_millis(100))).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::misbehaviour::{describing, script};
    use super::*;

    fn search(worker: Option<PathBuf>) -> Search {
        let limit = Duration::from_secs(60);
        Search { worker, folders: Vec::new(), torch: None, library_path: None, limit }
    }

    fn refusal(body: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        search(Some(script(folder.path(), body))).find().unwrap_err()
    }

    #[test]
    fn a_worker_beside_the_program_is_found_and_described() {
        let folder = tempfile::tempdir().unwrap();
        let path = script(folder.path(), &describing(PROTOCOL_VERSION));
        let folders = vec![folder.path().join("deps"), folder.path().to_owned()];
        let found = Search { folders, ..search(None) }.find().unwrap();
        assert_eq!((found.path, found.environment), (path.clone(), vec![]));
        assert_eq!((found.description.path, found.description.torch_version.as_str()), (path, "2.11.0"));
    }

    #[test]
    fn a_missing_worker_is_named_with_every_place_tried() {
        let folders = vec!["/nowhere/deps".into(), "/nowhere".into()];
        let text = Search { folders, ..search(None) }.find().unwrap_err();
        assert!(text.contains("/nowhere/deps/multicard-worker and /nowhere/multicard-worker"), "{text}");
        let text = search(Some("/nowhere/worker".into())).find().unwrap_err();
        assert!(text.contains("MULTICARD_WORKER") && text.contains("/nowhere/worker"), "{text}");
    }

    #[test]
    fn ranks_are_led_by_this_program_where_it_is_multicard_else_by_the_one_beside_the_worker() {
        let folders = ["own", "worker", "empty"].map(|_| tempfile::tempdir().unwrap());
        let [own, worker, empty] = folders.each_ref().map(|folder| folder.path());
        let [ours, beside] = [own, worker].map(|folder| folder.join("multicard"));
        for path in [&ours, &beside] {
            fs::write(path, "").unwrap();
        }
        let worker = worker.join("multicard-worker");
        assert_eq!(supervisor_for(&ours, Some(&worker)), Ok(ours.clone()));
        // Another program, such as a test, and one whose file has been replaced.
        for exe in [own.join("deps/launch-0123"), own.join("multicard (deleted)")] {
            assert_eq!(supervisor_for(&exe, Some(&worker)), Ok(beside.clone()));
        }
        assert_eq!(supervisor_for(&own.join("deps/launch-0123"), Some(&empty.join("worker"))), Ok(ours));
        let text = supervisor_for(&empty.join("a/b"), Some(&empty.join("c/worker"))).unwrap_err();
        assert!(text.contains("c/multicard and ") && text.contains("install it beside the worker"), "{text}");
    }

    #[test]
    fn a_worker_that_may_not_be_executed_is_told_from_one_that_crashes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plain");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        let text = search(Some(path)).find().unwrap_err();
        assert!(text.contains("not executable"), "{text}");
        let text = refusal(
            "echo 'worker: error while loading shared libraries: libtorch_cpu.so: cannot open shared object file' >&2; exit 127",
        );
        assert!(text.contains("127") && text.contains("libtorch_cpu.so") && text.contains("MULTICARD_TORCH"), "{text}");
        let text = refusal("kill -SEGV $$");
        assert!(text.contains("signal 11") && text.contains("nothing on stderr"), "{text}");
    }

    #[test]
    fn another_protocol_and_noise_are_refused() {
        let text = refusal(&describing(7));
        assert!(text.contains("uses protocol 7") && text.contains(&format!("uses {PROTOCOL_VERSION}")), "{text}");
        let text = refusal("echo hello; echo world");
        assert!(text.contains("not a worker") && text.contains("hello"), "{text}");
        let text = refusal(&format!("echo '{{\"protocol_version\":{PROTOCOL_VERSION}}}'"));
        assert!(text.contains("does not know"), "{text}");
    }

    #[test]
    fn a_worker_that_never_answers_is_killed_and_one_that_prints_for_ever_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let worker = Some(script(folder.path(), "sleep 600"));
        let text = Search { limit: Duration::from_millis(50), ..search(worker) }.find().unwrap_err();
        assert!(text.contains("did not describe itself within 0.05 s"), "{text}");
        assert!(refusal("yes").contains("crashed"));
    }

    #[test]
    fn the_named_torch_extends_the_library_path_and_another_version_is_refused() {
        let site = tempfile::tempdir().unwrap();
        let torch = site.path().join("torch");
        for folder in ["torch/lib", "nvidia/cu13/lib", "nvidia/nccl/lib", "nvidia/empty"] {
            fs::create_dir_all(site.path().join(folder)).unwrap();
        }
        let with = |version: &str| {
            fs::write(torch.join("version.py"), format!("debug = False\n__version__ = '{version}'\n")).unwrap();
            let library_path = Some("/usr/a:/usr/b".into());
            Search { torch: Some(torch.clone()), library_path, ..search(None) }.environment()
        };
        let at = |folder: &str| site.path().join(folder).display().to_string();
        let expected =
            [at("torch/lib"), at("nvidia/cu13/lib"), at("nvidia/nccl/lib"), "/usr/a:/usr/b".into()].join(":");
        assert_eq!(with("2.11.0+cu130"), Ok(vec![("LD_LIBRARY_PATH".into(), expected)]));
        let text = with("2.10.1").unwrap_err();
        assert!(text.contains("2.10.1") && text.contains("2.11.0"), "{text}");
        fs::remove_file(torch.join("version.py")).unwrap();
        let missing = Search { torch: Some(torch), ..search(None) }.environment().unwrap_err();
        assert!(missing.contains("version.py"), "{missing}");
    }
}
