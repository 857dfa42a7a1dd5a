//! Runs under Nsight Systems. Where an nsys is on this machine the real one records real training, else that part says that
//! it is skipped. How a failing nsys is borne is tested with stand-ins: scripts that start the worker as nsys does and then
//! misbehave. They record nothing.
#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use multicard::trace::{Part, Timeline};
use serde_json::Value;
use tempfile::TempDir;

mod executable;
mod training;

use training::{alone, json, multicard, rank_logs, run_command, table, text, wait_for};

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

/// The nsys of this machine, if there is one.
fn real_nsys() -> Option<PathBuf> {
    let node = json(multicard(&["node", "--format", "json"]));
    let path = node["nsys"]["Ok"]["path"].as_str().map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: no nsys on this machine ({})", node["nsys"]["Err"]);
    }
    path
}

struct Traced {
    folder: TempDir,
    session: PathBuf,
    output: Output,
}

/// The command that runs a plan under this nsys, with a secret in its environment.
fn command(nsys: &Path, folder: &TempDir, plan: &str) -> (Command, PathBuf) {
    let (mut command, session) = run_command(folder, plan);
    command.env("MULTICARD_NSYS", nsys).env("PLANTED_SECRET", "SECRET-token");
    (command, session)
}

fn run(nsys: &Path, plan: &str) -> Traced {
    let folder = TempDir::new().unwrap();
    let (mut command, session) = command(nsys, &folder, plan);
    let output = command.output().unwrap();
    Traced { folder, session, output }
}

impl Traced {
    /// The folder of its only run.
    fn run_folder(&self) -> PathBuf {
        let mut runs = fs::read_dir(self.session.join("runs")).unwrap();
        runs.next().unwrap().unwrap().path()
    }

    fn stderr(&self) -> String {
        text(&self.output.stderr)
    }

    fn rows(&self, preset: &str, more: &[&str]) -> Vec<Value> {
        table(&self.session, preset, more)["rows"].as_array().unwrap().clone()
    }

    fn trace_in(&self, file: &str) -> Value {
        let file = self.run_folder().join(file);
        json(multicard(&["trace", file.to_str().unwrap(), "--format", "json"]))
    }

    fn trace(&self) -> Value {
        self.trace_in("trace.sqlite")
    }

    /// How many ranges of a name the trace has.
    fn ranges(&self, name: &str) -> u64 {
        ranges_in(&self.trace(), name)
    }
}

/// How many ranges of a name a trace has.
fn ranges_in(trace: &Value, name: &str) -> u64 {
    let range = trace["nvtx"].as_array().unwrap().iter().find(|range| range["name"] == name);
    range.map_or(0, |range| range["calls"].as_u64().unwrap())
}

#[test]
fn a_run_under_a_real_nsys_is_recorded_with_its_ranges_and_kept_apart_from_times() {
    let Some(nsys) = real_nsys() else { return };
    let _alone = alone();
    let traced = run(&nsys, &plan("", 96));
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.stderr());
    assert!(traced.stderr().contains("traced: "), "{}", traced.stderr());
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
    assert_eq!(traced.rows("metrics", &[]).len(), 1);
    assert_eq!(traced.rows("times", &[]).len(), 0);
    assert_eq!(traced.rows("times", &["--traced"]).len(), 1);
    // The same recording again, as a report that stands alone.
    let report = traced.folder.path().join("elsewhere.nsys-rep");
    fs::copy(folder.join("trace.nsys-rep"), &report).unwrap();
    let mut attach = multicard(&["trace", report.to_str().unwrap(), "--session", traced.session.to_str().unwrap()]);
    let attached = attach.env("MULTICARD_NSYS", nsys).output().unwrap();
    assert!(attached.status.success(), "{}", text(&attached.stderr));
    assert_eq!(traced.rows("metrics", &[]).len(), 2);
}

#[test]
fn ranks_record_themselves_on_one_clock_without_a_profiler() {
    let _alone = alone();
    let plan = plan("", 96).replace("trace = \"nsys\"", "trace = \"built-in\"") + "gpus = 2\n";
    let traced = run(Path::new("/nonexistent"), &plan);
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.stderr());
    assert!(traced.stderr().contains(" traced: ") && !traced.stderr().contains("GPUs"), "{}", traced.stderr());
    let recording = traced.run_folder().join("trace.events").display().to_string();
    assert!(traced.stderr().contains(&format!(" s in {recording}")), "{}", traced.stderr());
    let trace = traced.trace_in("trace.events");
    assert_eq!(trace["warnings"].as_array().unwrap().len(), 0, "{}", trace["warnings"]);
    assert_eq!(trace["metrics"].as_array().unwrap().len(), 0);
    // Two epochs of two ranks, which share the batches.
    let steps = 12;
    for (name, calls) in
        [("step", steps), ("forward", steps), ("backward", steps), ("optimizer", steps), ("epoch 1", 2)]
    {
        assert_eq!(ranges_in(&trace, name), calls, "{name}");
    }
    for phase in ["start", "load", "warm-up", "steady", "evaluate"] {
        assert!(ranges_in(&trace, &format!("phase: {phase}")) >= 2, "{phase}");
    }
    // A rank leaves the backward pass of a step, which averages the gradients, only after the other has begun it.
    let timeline =
        Timeline::open(&traced.run_folder().join("trace.events"), &mut |_| ControlFlow::Continue(())).unwrap();
    let backward: Vec<Vec<(i64, i64)>> = (0..timeline.rows().len())
        .map(|row| {
            let items = timeline.items(row, (i64::MIN, i64::MAX)).unwrap();
            items.iter().filter(|item| timeline.name(item.label) == "backward").map(|item| item.span).collect()
        })
        .filter(|spans: &Vec<_>| !spans.is_empty())
        .collect();
    assert_eq!(backward.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6]);
    for (one, other) in backward[0].iter().zip(&backward[1]) {
        assert!(one.1 > other.0 && other.1 > one.0, "{one:?} {other:?}");
    }
    let split = timeline.split(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((split.first_rank().len(), split.steps.len()), (6, 12));
    // The first step has one bucket of all gradients, the later ones several, whose sizes come to the same.
    let reduced = split
        .collectives
        .iter()
        .filter(|collective| collective.name == "gloo:all_reduce" && collective.bytes.unwrap() > 1000);
    let whole = reduced
        .clone()
        .filter(|collective| collective.calls == 2)
        .map(|collective| collective.bytes.unwrap())
        .max()
        .unwrap();
    let buckets: Vec<_> = reduced.filter(|collective| collective.calls == 10).collect();
    assert!(buckets.len() > 1, "{:?}", split.collectives);
    assert_eq!(
        buckets.iter().map(|collective| collective.bytes.unwrap()).sum::<u64>(),
        whole,
        "{:?}",
        split.collectives
    );
    assert!(buckets.iter().any(|collective| collective.hidden_ns > 0), "{buckets:?}");
    for collective in &split.collectives {
        assert_eq!(
            collective.hidden_ns + collective.waiting_ns.unwrap() + collective.exposed_ns,
            collective.total_ns,
            "{collective:?}"
        );
    }
    assert!(!split.binding.sentence.contains("does not distinguish"), "{}", split.binding.sentence);
    for step in split.first_rank() {
        let path = timeline.critical_path(step).unwrap();
        assert_eq!(path.parts.iter().sum::<u64>(), step.span.1.abs_diff(step.span.0));
        assert!(path.parts[Part::Communication as usize] > 0, "{path:?}");
    }
    let run_s = traced.rows("times", &["--traced"])[0]["total_time_s"]["median"].as_f64().unwrap();
    let wall_s = trace["wall_ns"].as_f64().unwrap() * 1e-9;
    assert!(wall_s <= run_s + 1.0 && wall_s > 0.3 * run_s, "two clocks? {wall_s} s of {run_s} s");
    // Where all runs are recorded there is nothing else to show: they are shown, and marked.
    let rows = traced.rows("times", &[]);
    assert!(rows.len() == 1 && rows[0]["marks"].to_string().contains("traced"), "{rows:?}");
}

#[test]
fn ranks_record_only_a_window_of_steps_themselves_and_the_run_goes_on_and_says_what_recording_cost() {
    let _alone = alone();
    let plan = plan("trace_steps = [14, 25]", 608).replace("trace = \"nsys\"", "trace = \"built-in\"") + "gpus = 2\n";
    let traced = run(Path::new("/nonexistent"), &plan);
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.stderr());
    let trace = traced.trace_in("trace.events");
    let counts = ["step", "forward", "phase: evaluate"].map(|name| ranges_in(&trace, name));
    // Of two ranks, which both evaluate twice.
    assert_eq!(counts, [24, 24, 4], "{}", trace["nvtx"]);
    for rank in ["rank-0.jsonl", "rank-1.jsonl"] {
        let log = fs::read_to_string(traced.run_folder().join(rank)).unwrap();
        assert_eq!(log.matches("\"event\":\"step\"").count(), 38);
        let values: Vec<Value> = log
            .lines()
            .filter(|line| line.contains("recording_cost"))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [values] = &values[..] else { panic!("{values:?}") };
        assert!(values["value"].as_f64().is_some_and(|cost| cost > -0.9) && values["step"].is_null(), "{values}");
    }
    let output = multicard(&["export", "--what", "runs", traced.session.to_str().unwrap()]).output().unwrap();
    let exported = text(&output.stdout);
    assert_eq!(exported.matches("recording_cost").count(), 1, "{exported}");
}

#[test]
fn ranks_record_windows_by_turns_and_the_times_of_the_run_are_those_between_them() {
    let _alone = alone();
    let windows = "trace_windows = [2, 6]\ntrace_calls = \"off\"";
    let plan = plan(windows, 1216).replace("trace = \"nsys\"", "trace = \"built-in\"") + "gpus = 2\n";
    let traced = run(Path::new("/nonexistent"), &plan);
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.stderr());
    let trace = traced.trace_in("trace.events");
    // Two ranks recorded twelve windows of two steps each. Epochs and phases are recorded as a whole.
    let counts = ["step", "forward", "epoch 1", "phase: evaluate"].map(|name| ranges_in(&trace, name));
    assert_eq!(counts, [48, 48, 2, 4], "{}", trace["nvtx"]);
    assert!(trace["notes"].to_string().contains("recorded in 12 windows"), "{}", trace["notes"]);
    let [recorded, all] = ["wall_ns", "span_ns"].map(|key| trace[key].as_u64().unwrap());
    assert!(0 < recorded && recorded < all, "{recorded} of {all}");
    for rank in ["rank-0.jsonl", "rank-1.jsonl"] {
        let log = fs::read_to_string(traced.run_folder().join(rank)).unwrap();
        // Each window has two steps, and one step next to it on each side. The last step of the run is next to a
        // thirteenth window.
        assert_eq!((log.matches("\"event\":\"step\"").count(), log.matches("\"traced\":true").count()), (76, 49));
        let reading = |key: &str| {
            let line = log.lines().find(|line| line.contains(&format!("\"{key}\""))).unwrap();
            serde_json::from_str::<Value>(line).unwrap()["value"].as_f64().unwrap()
        };
        assert_eq!(reading("recording_pairs"), 12.0);
        assert!(reading("recording_cost_low") <= reading("recording_cost_high") && reading("recording_end_s") < 1.0);
    }
    // Of 76 steps, without the first one, and without the steps in and next to windows.
    let steps = multicard(&["export", "--what", "steps", traced.session.to_str().unwrap()]).output().unwrap();
    let steps = text(&steps.stdout);
    let mut rows = steps.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let [warm_up, touched, step_s] =
        ["warm_up", "recorded", "duration_s"].map(|name| head.iter().position(|column| *column == name).unwrap());
    let counted: Vec<f64> = rows
        .filter(|row| (row[warm_up], row[touched]) == ("false", "false"))
        .map(|row| row[step_s].parse().unwrap())
        .collect();
    assert_eq!(counted.len(), 2 * (76 - 1 - 49));
    let rows = traced.rows("times", &["--traced"]);
    assert!(rows[0]["marks"].to_string().contains("traced"), "{rows:?}");
}

#[test]
fn a_window_of_steps_ends_the_recording_of_a_real_nsys_and_not_the_run() {
    let Some(nsys) = real_nsys() else { return };
    let _alone = alone();
    let traced = run(&nsys, &plan("trace_steps = [3, 5]", 96));
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.stderr());
    assert_eq!(traced.ranges("step"), 3);
    let log = fs::read_to_string(traced.run_folder().join("rank-0.jsonl")).unwrap();
    assert_eq!(log.matches("\"event\":\"step\"").count(), 12);
}

#[test]
fn a_cancelled_run_under_a_real_nsys_keeps_its_report() {
    let Some(nsys) = real_nsys() else { return };
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (mut command, session) = command(&nsys, &folder, &plan("", 30_000));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| rank_logs(&session).iter().any(|log| log.contains("\"step\"")).then_some(()));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let traced = Traced { folder, session, output };
    assert_eq!(traced.output.status.code(), Some(130), "{}", traced.stderr());
    assert!(traced.stderr().contains("cancelled"), "{}", traced.stderr());
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
    executable::write(&path, script);
    path
}

#[test]
fn an_nsys_that_writes_no_report_loses_no_measure() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let nsys = stand_in(folder.path(), "echo", "\"$@\"; exit 9");
    let traced = run(&nsys, &plan("", 96));
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.stderr());
    assert!(traced.stderr().contains("has no trace: nsys wrote no report"), "{}", traced.stderr());
    let times = traced.rows("times", &["--traced"]);
    assert!(times[0]["step_time_s"]["median"].as_f64().unwrap() > 0.0, "{times:?}");
    assert_eq!(traced.rows("metrics", &[]).len(), 0);
}

#[test]
fn ranks_that_outlive_their_nsys_are_followed_to_their_end() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let profile =
        "F=$(dirname \"$3\"); setsid \"$@\" & until [ -s \"$F/rank-0.jsonl\" ]; do sleep 0.02; done; kill -9 $$";
    let nsys = stand_in(folder.path(), "echo", profile);
    let traced = run(&nsys, &plan("", 96));
    assert_eq!(traced.output.status.code(), Some(0), "{}", traced.stderr());
    let times = traced.rows("times", &["--traced"]);
    assert!(times[0]["step_time_s"]["median"].as_f64().unwrap() > 0.0, "{times:?}");
}

#[test]
fn an_nsys_that_does_not_run_fails_the_run_with_its_own_words() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let nsys = stand_in(folder.path(), "echo 'libdw.so.1: cannot open shared object file' >&2; exit 127", "exit 1");
    let traced = run(&nsys, &plan("", 96));
    assert_eq!(traced.output.status.code(), Some(1), "{}", traced.stderr());
    assert!(traced.stderr().contains("libdw.so.1"), "{}", traced.stderr());
}
