//! Runs under Nsight Systems. Where an nsys is on this machine the real one records real training, else that part says that
//! it is skipped. How a failing nsys is borne is tested with stand-ins: scripts that start the worker as nsys does and then
//! misbehave. They record nothing.
#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Long enough for a slow machine; reaching it is a failure.
const DEADLINE: Duration = Duration::from_secs(600);

const PLAN: &str = r#"
version = 1
name = "traced"
workload = "image"
[measure]
warm_up_steps = 1
trace = "nsys"
WINDOW
[data]
set = "digits"
[factors]
image_size = 32
batch_size = 16
train_images = IMAGES
test_images = 32
loader_workers = 1
epochs = 2
"#;

fn plan(window: &str, images: u32) -> String {
    PLAN.replace("WINDOW", window).replace("IMAGES", &images.to_string())
}

fn data_folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| TempDir::new().unwrap()).path()
}

fn alone() -> MutexGuard<'static, ()> {
    static TRAINING: Mutex<()> = Mutex::new(());
    TRAINING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn multicard(nsys: Option<&Path>, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    command.args(arguments).env("MULTICARD_WORKER", env!("CARGO_BIN_EXE_multicard-worker"));
    command.env("MULTICARD_DATA", data_folder()).env("PLANTED_SECRET", "SECRET-token");
    if let Some(nsys) = nsys {
        command.env("MULTICARD_NSYS", nsys);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The nsys of this machine, if there is one.
fn real_nsys() -> Option<PathBuf> {
    let output = multicard(None, &["node", "--format", "json"]).output().unwrap();
    let node: Value = serde_json::from_slice(&output.stdout).unwrap();
    let path = node["nsys"]["Ok"]["path"].as_str().map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: no nsys on this machine ({})", node["nsys"]["Err"]);
    }
    path
}

struct Traced {
    folder: TempDir,
    session: String,
    output: Output,
}

fn run(nsys: &Path, plan: &str) -> Traced {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("plan.toml");
    fs::write(&file, plan).unwrap();
    let session = folder.path().join("session").display().to_string();
    let output = multicard(Some(nsys), &["run", file.to_str().unwrap(), "--session", &session]).output().unwrap();
    Traced { folder, session, output }
}

impl Traced {
    /// The folder of its only run.
    fn run_folder(&self) -> PathBuf {
        let mut runs = fs::read_dir(Path::new(&self.session).join("runs")).unwrap();
        runs.next().unwrap().unwrap().path()
    }

    fn said(&self) -> String {
        text(&self.output.stderr)
    }

    fn table(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["table", self.session.as_str(), "--format", "json"];
        all.extend(arguments);
        let output = multicard(None, &all).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn trace(&self) -> Value {
        let file = self.run_folder().join("trace.sqlite");
        let output = multicard(None, &["trace", file.to_str().unwrap(), "--format", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// How many ranges of a name the trace has.
    fn ranges(&self, name: &str) -> u64 {
        let trace = self.trace();
        let range = trace["nvtx"].as_array().unwrap().iter().find(|range| range["name"] == name);
        range.map_or(0, |range| range["calls"].as_u64().unwrap())
    }
}

#[test]
fn a_run_under_a_real_nsys_is_recorded_with_its_ranges_and_kept_apart_from_times() {
    let Some(nsys) = real_nsys() else { return };
    let _alone = alone();
    let traced = run(&nsys, &plan("", 96));
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.said());
    assert!(traced.said().contains("traced: "), "{}", traced.said());
    // Two epochs of six batches, and of two of the test; an end of data is a look too.
    let expected = [("step", 12), ("forward", 12), ("backward", 12), ("all_reduce", 12), ("optimizer", 12)];
    for (name, calls) in expected.into_iter().chain([("epoch 1", 1), ("epoch 2", 1), ("evaluate", 2)]) {
        assert_eq!(traced.ranges(name), calls, "{name}");
    }
    assert!(traced.ranges("load") >= 16 && traced.ranges("copy") >= 16);
    let folder = traced.run_folder();
    for name in ["trace.nsys-rep", "trace.sqlite"] {
        assert_eq!(fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    let kept = fs::read(folder.join("trace.sqlite")).unwrap();
    assert!(!kept.windows(12).any(|window| window == b"SECRET-token"), "the export holds the environment");
    let mode = fs::metadata(folder.join("rank-0.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o002, 0, "everybody may write the log");
    assert_eq!(traced.table(&["--preset", "metrics"])["rows"].as_array().unwrap().len(), 1);
    assert_eq!(traced.table(&["--preset", "times"])["rows"].as_array().unwrap().len(), 0);
    assert_eq!(traced.table(&["--preset", "times", "--traced"])["rows"].as_array().unwrap().len(), 1);
    // The same recording again, as a report that stands alone.
    let report = traced.folder.path().join("elsewhere.nsys-rep");
    fs::copy(folder.join("trace.nsys-rep"), &report).unwrap();
    let arguments = ["trace", report.to_str().unwrap(), "--session", &traced.session];
    let attached = multicard(Some(&nsys), &arguments).output().unwrap();
    assert!(attached.status.success(), "{}", text(&attached.stderr));
    assert_eq!(traced.table(&["--preset", "metrics"])["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn a_window_of_steps_ends_the_recording_of_a_real_nsys_and_not_the_run() {
    let Some(nsys) = real_nsys() else { return };
    let _alone = alone();
    let traced = run(&nsys, &plan("trace_steps = [3, 5]", 96));
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.said());
    assert_eq!(traced.ranges("step"), 3);
    let log = fs::read_to_string(traced.run_folder().join("rank-0.jsonl")).unwrap();
    assert_eq!(log.matches("\"event\":\"step\"").count(), 12);
}

#[test]
fn a_cancelled_run_under_a_real_nsys_keeps_its_report() {
    let Some(nsys) = real_nsys() else { return };
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("plan.toml");
    fs::write(&file, plan("", 30_000)).unwrap();
    let session = folder.path().join("session");
    let arguments = ["run", file.to_str().unwrap(), "--session", session.to_str().unwrap()];
    let child = multicard(Some(&nsys), &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stepped = || {
        let runs = fs::read_dir(session.join("runs")).into_iter().flatten().flatten();
        runs.filter_map(|run| fs::read_to_string(run.path().join("rank-0.jsonl")).ok())
            .any(|log| log.contains("\"step\""))
    };
    let begun = Instant::now();
    while !stepped() {
        assert!(begun.elapsed() < DEADLINE, "the run never made a step");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let traced = Traced { folder, session: session.display().to_string(), output };
    assert_eq!(traced.output.status.code(), Some(130), "{}", traced.said());
    assert!(traced.said().contains("cancelled"), "{}", traced.said());
    assert!(traced.run_folder().join("trace.nsys-rep").exists());
    assert!(traced.ranges("step") > 0);
}

/// A stand-in: it answers as nsys does, and does `profile` instead of recording; `$@` is then the worker's command.
fn stand_in(folder: &Path, help: &str, profile: &str) -> PathBuf {
    let path = folder.join("nsys");
    let script = format!(
        "#!/bin/sh\ncase \"$1 $2\" in\n--version*) echo 'stand-in version 0';;\n'profile --help') {help};;\n\
         *) while [ \"$1\" != --output ]; do shift; done; shift 2\n{profile};;\nesac\n"
    );
    // A child writes it, so that no other test holds it open when it is executed.
    let mut writer = Command::new("sh");
    writer.args(["-c", "printf %s \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", &script]).arg(&path);
    assert!(writer.status().unwrap().success());
    path
}

#[test]
fn an_nsys_that_writes_no_report_loses_no_measure() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let nsys = stand_in(folder.path(), "echo", "\"$@\"; exit 9");
    let traced = run(&nsys, &plan("", 96));
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.said());
    assert!(traced.said().contains("has no trace: nsys wrote no report"), "{}", traced.said());
    let times = traced.table(&["--preset", "times", "--traced"]);
    assert!(times["rows"][0]["step_time_s"]["median"].as_f64().unwrap() > 0.0, "{times}");
    assert_eq!(traced.table(&["--preset", "metrics"])["rows"].as_array().unwrap().len(), 0);
}

#[test]
fn ranks_that_outlive_their_nsys_are_followed_to_their_end() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let profile =
        "F=$(dirname \"$3\"); setsid \"$@\" & until [ -s \"$F/rank-0.jsonl\" ]; do sleep 0.02; done; kill -9 $$";
    let nsys = stand_in(folder.path(), "echo", profile);
    let traced = run(&nsys, &plan("", 96));
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.said());
    let times = traced.table(&["--preset", "times", "--traced"]);
    assert!(times["rows"][0]["step_time_s"]["median"].as_f64().unwrap() > 0.0, "{times}");
}

#[test]
fn an_nsys_that_does_not_run_fails_the_run_with_its_own_words() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let nsys = stand_in(folder.path(), "echo 'libdw.so.1: cannot open shared object file' >&2; exit 127", "exit 1");
    let traced = run(&nsys, &plan("", 96));
    assert_eq!(traced.output.status.code(), Some(1), "{}", traced.said());
    assert!(traced.said().contains("libdw.so.1"), "{}", traced.said());
}
