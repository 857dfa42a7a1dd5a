//! Search for the worker binary and its description, and for the supervisor's program.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::plan::Worker;
use crate::protocol::{Exit, PROTOCOL_VERSION};

use super::answer::finish;
use super::supervisor::{JOB_WORD, RANK_WORD};
use super::torch::{self, Place, TORCH_VERSION, library_path, torch_version};

/// File name of the worker.
const NAME: &str = "multicard-worker";

/// File name of the supervisor's program.
const SUPERVISOR: &str = "multicard";

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

/// Finds `multicard`, the supervisor's program. If this program is `multicard`, it is used, so that both have the same version. Otherwise
/// `multicard` is searched in the worker's folder, in this program's folder and in the folder above.
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
        format!(
            "no {SUPERVISOR}, which leads the ranks of runs: tried {}: install it in the worker's folder",
            all(&tried)
        )
    })
}

/// The paths in words: `a and b`.
fn all(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

/// Finds the worker: `$MULTICARD_WORKER`, else `multicard-worker` in this program's folder or in the folder above. If `$MULTICARD_TORCH`
/// names a torch folder (`…/site-packages/torch`), the worker loads its libraries from there. Otherwise it loads those that it was linked
/// with, or, if these are missing, those of a Python of this node or of `multicard setup`.
///
/// # Errors
/// There is no worker; there is no torch that it can load; it cannot be executed; or it does not describe itself within 30 s as a worker
/// with this workbench's protocol. The error says what was tried, what happened and what to do.
pub fn find_worker() -> Result<WorkerCommand, String> {
    Search::of_this_program().find()
}

/// The worker's file, which may or may not be executable.
///
/// # Errors
/// It was not found.
pub fn worker_file() -> Result<PathBuf, String> {
    Search::of_this_program().locate()
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
    /// Other places where torch may be.
    places: Vec<Place>,
    limit: Duration,
}

/// Why a worker did not describe itself.
enum Failure {
    /// A library that it is linked with was not found: the line of the dynamic linker.
    Library(String),
    Other(String),
}

impl Search {
    fn of_this_program() -> Self {
        let exe = env::current_exe().unwrap_or_default();
        Self {
            worker: set("MULTICARD_WORKER").map(PathBuf::from),
            folders: exe.ancestors().skip(1).take(2).map(Path::to_owned).collect(),
            torch: set("MULTICARD_TORCH").map(PathBuf::from),
            library_path: set("LD_LIBRARY_PATH"),
            places: torch::places(),
            limit: DESCRIBE_LIMIT,
        }
    }

    fn find(&self) -> Result<WorkerCommand, String> {
        let path = self.locate()?;
        let environment = match &self.torch {
            Some(torch) => self.with_torch(torch, self.check_named(torch))?,
            None => Vec::new(),
        };
        match self.started(&path, environment) {
            Ok(worker) => Ok(worker),
            Err(Failure::Library(missing)) if self.torch.is_none() => self.find_with_other_torch(&path, &missing),
            Err(Failure::Library(missing)) => Err(format!(
                "the worker {} did not start with the torch that MULTICARD_TORCH names: {missing}: name another torch \
                 {TORCH_VERSION}, or unset it and type `multicard setup`",
                path.display()
            )),
            Err(Failure::Other(reason)) => Err(reason),
        }
    }

    /// The worker with the first torch from another place with which it starts.
    fn find_with_other_torch(&self, path: &Path, missing: &str) -> Result<WorkerCommand, String> {
        let mut tried = Vec::new();
        for place in &self.places {
            let torch = match place.torch() {
                Ok(torch) => torch,
                Err(reason) => {
                    tried.extend(reason.filter(|reason| !tried.contains(reason)));
                    continue;
                }
            };
            let started = self.with_torch(&torch, Ok(())).map_err(Failure::Other);
            match started.and_then(|environment| self.started(path, environment)) {
                Ok(worker) => return Ok(worker),
                Err(Failure::Library(reason) | Failure::Other(reason)) => {
                    tried.push(format!("with {}: {reason}", torch.display()));
                }
            }
        }
        let tried = if tried.is_empty() { "no Python was found".to_owned() } else { tried.join("; ") };
        Err(format!(
            "the built-in workloads need PyTorch {TORCH_VERSION}, which was not found ({missing}; {tried}): type `multicard setup`, \
             which downloads its libraries, or install torch=={TORCH_VERSION} for python3, or name its folder in MULTICARD_TORCH"
        ))
    }

    fn started(&self, path: &Path, environment: Vec<(String, String)>) -> Result<WorkerCommand, Failure> {
        let description = describe(path, &environment, self.limit)?;
        Ok(WorkerCommand {
            description: Worker { path: path.to_owned(), ..description },
            path: path.to_owned(),
            environment,
        })
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
                "no worker found: tried {}: install {NAME} beside {SUPERVISOR} (in the source folder, `make build` builds both), or set MULTICARD_WORKER to its \
                 path",
                all(&tried)
            )
        })
    }

    /// Whether the folder that MULTICARD_TORCH names is a torch of the right version.
    fn check_named(&self, torch: &Path) -> Result<(), String> {
        let version = torch_version(torch).map_err(|error| format!("MULTICARD_TORCH: {error}"))?;
        if version.split('+').next() == Some(TORCH_VERSION) {
            return Ok(());
        }
        Err(format!(
            "MULTICARD_TORCH names torch {version} ({}), but the worker needs torch {TORCH_VERSION}: install that version, or unset \
             it and type `multicard setup`",
            torch.display()
        ))
    }

    /// The environment variables with which the worker loads a torch, if the check of that torch succeeded.
    fn with_torch(&self, torch: &Path, checked: Result<(), String>) -> Result<Vec<(String, String)>, String> {
        checked?;
        Ok(vec![("LD_LIBRARY_PATH".into(), library_path(torch, self.library_path.as_deref())?)])
    }
}

/// Runs `multicard-worker describe` and reads its output.
fn describe(path: &Path, environment: &[(String, String)], limit: Duration) -> Result<Worker, Failure> {
    let shown = path.display();
    let mut command = Command::new(path);
    command.arg("describe").envs(environment.iter().map(|(key, value)| (key, value)));
    let finished = finish(command, limit).map_err(|error| {
        Failure::Other(match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("the worker {shown} is not executable ({error}): make it so with `chmod +x`")
            }
            _ => format!("the worker {shown} cannot be started: {error}: build it again for this machine"),
        })
    })?;
    let Some((exit, stdout, stderr)) = finished else {
        let seconds = limit.as_secs_f64();
        return Err(Failure::Other(format!(
            "the worker {shown} did not describe itself within {seconds} s and was killed: run `{shown} describe` to see why"
        )));
    };
    if exit.is_success() {
        understand(path, &stdout).map_err(Failure::Other)
    } else {
        Err(crashed(path, exit, &stderr))
    }
}

fn crashed(path: &Path, exit: Exit, stderr: &str) -> Failure {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    if let Some(line) = lines.clone().find(|line| line.contains("cannot open shared object file")) {
        return Failure::Library(line.to_owned());
    }
    let how = match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    };
    let first: Vec<_> = lines.by_ref().take(3).collect();
    let output = if first.is_empty() { "nothing on stderr".into() } else { first.join(" | ") };
    let shown = path.display();
    Failure::Other(format!("the worker {shown} crashed ({how}): {output}: run `{shown} describe` to see more"))
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::super::misbehaviour::{describing, script};
    use super::*;

    fn search(worker: Option<PathBuf>) -> Search {
        let limit = Duration::from_secs(60);
        Search { worker, folders: Vec::new(), torch: None, library_path: None, places: Vec::new(), limit }
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
        assert!(text.contains("c/multicard and ") && text.contains("install it in the worker's folder"), "{text}");
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
        assert!(
            text.contains("libtorch_cpu.so") && text.contains("no Python") && text.contains("multicard setup"),
            "{text}"
        );
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
            let search = Search { library_path, ..search(None) };
            search.with_torch(&torch, search.check_named(&torch))
        };
        let at = |folder: &str| site.path().join(folder).display().to_string();
        let expected =
            [at("torch/lib"), at("nvidia/cu13/lib"), at("nvidia/nccl/lib"), "/usr/a:/usr/b".into()].join(":");
        assert_eq!(with("2.11.0+cu130"), Ok(vec![("LD_LIBRARY_PATH".into(), expected)]));
        let text = with("2.10.1").unwrap_err();
        assert!(text.contains("2.10.1") && text.contains("2.11.0"), "{text}");
        fs::remove_file(torch.join("version.py")).unwrap();
        let missing = search(None).check_named(&torch).unwrap_err();
        assert!(missing.contains("MULTICARD_TORCH") && missing.contains("version.py"), "{missing}");
    }

    /// A worker that finds its libraries where the variable names a folder of this name.
    fn needing(folder: &Path, needed: &str) -> PathBuf {
        let missing =
            "echo 'error while loading shared libraries: libtorch_cpu.so: cannot open shared object file' >&2";
        let describing = describing(PROTOCOL_VERSION);
        script(
            folder,
            &format!("case \"$LD_LIBRARY_PATH\" in *{needed}/torch/lib*) {describing};; *) {missing}; exit 127;; esac"),
        )
    }

    fn install(folder: &Path, version: &str) -> Place {
        let torch = folder.join("torch");
        fs::create_dir_all(torch.join("lib")).unwrap();
        fs::write(torch.join("version.py"), format!("__version__ = '{version}'\n")).unwrap();
        Place::Folder("a test", torch)
    }

    #[test]
    fn a_worker_without_its_libraries_takes_the_first_torch_of_the_node_that_fits() {
        let folder = tempfile::tempdir().unwrap();
        let worker = needing(folder.path(), "right");
        let at = |name: &str| folder.path().join(name);
        let places = vec![
            Place::Python(at("no-python").into()),
            install(&at("old"), "2.4.0"),
            install(&at("wrong"), TORCH_VERSION),
            install(&at("right"), TORCH_VERSION),
        ];
        let found = Search { places: places.clone(), ..search(Some(worker.clone())) }.find().unwrap();
        let path = &found.environment[0].1;
        assert!(path.starts_with(&at("right/torch/lib").display().to_string()), "{path}");
        // Without it, each place is named with what is there.
        let text = Search { places: places[..3].to_vec(), ..search(Some(worker)) }.find().unwrap_err();
        let old = format!("a test has torch 2.4.0 ({})", at("old/torch").display());
        for part in [&*old, "libtorch_cpu.so", &*at("wrong/torch").display().to_string(), "`multicard setup`"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
