//! The machine of a session is measured by its conductor, with the real worker on the CPUs.

use std::ffi::OsStr;

use super::*;

/// A command whose conductor has a worker.
fn measuring(scene: &Scene, arguments: &[&str]) -> Command {
    let mut command = scene.multicard(arguments);
    command.env("MULTICARD_WORKER", built::worker());
    command
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The workers that a process has measuring.
fn workers(size: u32) -> Vec<u32> {
    let is_ours = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = Stat::from_file(format!("/proc/{pid}/stat"));
        words.split(|byte| *byte == 0).nth(1) == Some(b"rates")
            && stat.is_ok_and(|stat| stat.ppid.cast_unsigned() == size && stat.state != 'Z')
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
}

/// The worker that measures the session's machine, once it does.
fn worker(scene: &Scene) -> u32 {
    let workers = || scene.conductors().into_iter().flat_map(workers).collect::<Vec<_>>();
    wait("the worker measures", || workers().len() == 1);
    workers()[0]
}

fn lives(process: u32) -> bool {
    Stat::from_file(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.state != 'Z')
}

/// The devices that the session's records have rates of.
fn devices(scene: &Scene) -> Vec<String> {
    let rates = Reader::open(&scene.session()).unwrap().rates().unwrap();
    rates.iter().map(|rates| rates.device.name.clone()).collect()
}

/// The decisions of the session's journal, in order.
fn decisions(scene: &Scene) -> Vec<String> {
    let journal = fs::read_to_string(scene.session().join("journal.jsonl")).unwrap();
    let decision = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["decision"].as_str().unwrap().to_owned()
    };
    journal.lines().map(decision).collect()
}

/// A session whose runs have ended and that nobody conducts.
fn at_rest() -> Scene {
    let scene = Scene::new();
    scene.open_gate();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session"]));
    scene
}

#[test]
fn a_machine_is_measured_between_runs_and_kept_though_who_asked_was_killed() {
    let scene = Scene::new();
    succeed(&mut measuring(&scene, &["run", "waits.toml", "--session", "session", "--detach"]));
    scene.await_start(1);
    let conductor = scene.conductor();
    let mut asks = spawn(measuring(&scene, &["node", "measure", "--session", "session", "--seconds", "0.4"]));
    let mut stderr = BufReader::new(asks.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("waits until the runs and imports under way have ended"), "{line}");
    // A second one at once would disturb the first.
    let again = measuring(&scene, &["node", "measure", "--session", "session"]).output().unwrap();
    assert!(text(&again.stderr).contains("a measurement is waiting or running"), "{}", text(&again.stderr));
    asks.kill().unwrap();
    asks.wait().unwrap();
    assert_eq!((workers(conductor), devices(&scene)), (Vec::new(), Vec::new()), "a run is under way");
    scene.finish();
    assert_eq!(scene.states(), ALL_FINISHED);
    assert_eq!(devices(&scene), ["cpu"]);
    let decisions = decisions(&scene);
    let indices_of =
        |wanted: &str| decisions.iter().enumerate().filter(|(_, one)| *one == wanted).map(|(at, _)| at).collect();
    let (measured, placed, ended): (Vec<_>, Vec<_>, Vec<_>) =
        (indices_of("rates_measured"), indices_of("run_placed"), indices_of("run_ended"));
    assert_eq!(measured.len(), 1, "{decisions:?}");
    assert!(placed[0] < ended[0] && ended[0] < measured[0] && measured[0] < placed[1], "{decisions:?}");
}

#[test]
fn what_nobody_conducts_is_measured_and_its_rates_are_printed_and_are_the_records() {
    let scene = at_rest();
    let output = succeed(&mut measuring(
        &scene,
        &["node", "measure", "--session", "session", "--seconds", "0.4", "--format", "json"],
    ));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let known = Reader::open(&scene.session()).unwrap().rates().unwrap();
    assert_eq!(printed, serde_json::to_value([&*known[0]]).unwrap());
    assert!(known[0].time_s.is_some() && known[0].find("fp32").is_some() && known[0].memory().is_some());
    let without = scene.multicard(&["node", "measure", "--session", "session"]);
    wait("the conductor ends", || scene.conductors().is_empty());
    let stderr = text(&{ without }.output().unwrap().stderr);
    assert!(stderr.contains("cannot measure this machine") && stderr.contains("/nonexistent/worker"), "{stderr}");
}

#[test]
fn an_interrupt_ends_the_worker_and_keeps_no_rates() {
    let scene = at_rest();
    // Longer than this test waits for anything.
    let asks = spawn(measuring(&scene, &["node", "measure", "--session", "session", "--seconds", "600"]));
    let measures = worker(&scene);
    kill_process(Pid::from_child(&asks), Signal::INT).unwrap();
    let output = asks.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cancelled; nothing was measured"), "{}", text(&output.stderr));
    assert!(!lives(measures) && devices(&scene).is_empty());
    // `stop` ends it, too.
    let asks = spawn(measuring(&scene, &["node", "measure", "--session", "session", "--seconds", "600"]));
    let measures = worker(&scene);
    succeed(&mut scene.multicard(&["stop", "session"]));
    assert_eq!(asks.wait_with_output().unwrap().status.code(), Some(130));
    assert!(!lives(measures));
}

#[test]
fn a_killed_conductor_takes_its_worker_along_and_leaves_no_half_written_rates() {
    let scene = at_rest();
    let asks = spawn(measuring(&scene, &["node", "measure", "--session", "session", "--seconds", "600"]));
    let measures = worker(&scene);
    kill(scene.conductor());
    wait("the worker is gone", || !lives(measures));
    let output = asks.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("conductor has ended"), "{}", text(&output.stderr));
    assert!(!decisions(&scene).contains(&"rates_measured".to_owned()) && devices(&scene).is_empty());
    succeed(&mut measuring(&scene, &["node", "measure", "--session", "session", "--seconds", "0.4"]));
    assert_eq!(devices(&scene), ["cpu"]);
}

/// A worker that is no worker: what it says last is the reason.
#[test]
fn a_worker_that_breaks_is_named_with_its_last_words_and_the_session_goes_on() {
    let scene = at_rest();
    let broken = scene.path("broken-worker");
    let real = built::worker();
    let script =
        format!("#!/bin/sh\n[ \"$1\" = rates ] || exec {} \"$@\"\necho 'out of memory' >&2\nexit 9\n", real.display());
    executable::write(&broken, script);
    let measure = |worker: &OsStr| {
        let mut command = scene.multicard(&["node", "measure", "--session", "session", "--seconds", "0.4"]);
        command.env("MULTICARD_WORKER", worker).output().unwrap()
    };
    let output = measure(broken.as_os_str());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("cannot measure this machine") && stderr.contains("out of memory"), "{stderr}");
    wait("the conductor ends", || scene.conductors().is_empty());
    assert!(measure(real.as_os_str()).status.success());
}
