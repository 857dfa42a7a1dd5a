//! Tests that take minutes or disturb Slurm itself: time limits of jobs, drained nodes, a full disk, a thousand jobs, daemons
//! that are killed and started again, and random kills of everything. `make nightly` runs them, one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use multicard::plan::RunState;
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{CONTROLLER, NODES};
use crate::seeded::{succeed, text};
use crate::{Scene, WAITS};

/// Slurm ends a job up to a minute after its time is over.
const PATIENCE: Duration = Duration::from_secs(600);

/// A thousand jobs take some minutes.
const LONG_PATIENCE: Duration = Duration::from_secs(3600);

fn wait(what: &str, condition: impl Fn() -> bool) {
    wait_up_to(PATIENCE, what, condition);
}

fn wait_up_to(limit: Duration, what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "{what}: it never came true");
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Scene {
    fn until_all_ended(&self, runs: usize) {
        wait("all runs have ended", || {
            let states = self.states();
            states.len() >= runs && states.iter().all(|state| state.is_final())
        });
    }

    /// For each repeat the number of its finished runs.
    fn finished_repeats(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for record in self.records().iter().filter(|record| record.state == RunState::Finished) {
            *counts.entry(record.repeat).or_default() += 1;
        }
        counts
    }

    fn jobs_left(&self) -> String {
        let states = "--states=PENDING,RUNNING,COMPLETING";
        self.cluster.ask("squeue", &["--noheader", "--array", states, "--format", "%i %T %j"])
    }

    fn until_no_job_is_left(&self) {
        wait("no job is left", || self.jobs_left().trim().is_empty());
    }

    fn assert_none_finished_twice(&self) {
        let twice: Vec<_> = self.finished_repeats().into_iter().filter(|(_, count)| *count > 1).collect();
        assert!(twice.is_empty(), "these repeats count twice: {twice:?}");
    }

    /// Drains the nodes of most tests, or lets them take jobs again.
    fn set_nodes(&self, state: &str) {
        self.cluster.ask("scontrol", &["update", "NodeName=n1,n2", &format!("State={state}"), "Reason=test"]);
    }
}

/// Ten runs that wait for the gate: two nodes of four CPUs have room for eight of them, which are under way.
fn full_nodes() -> Option<Scene> {
    let scene = Scene::launched("lab", 10, &format!("{WAITS}; echo score: 1"))?;
    scene.await_start(7);
    Some(scene)
}

#[test]
#[ignore = "takes minutes: make nightly"]
fn a_run_that_uses_up_the_time_of_its_job_has_timed_out() {
    let Some(scene) = Scene::launched("short", 1, "echo $$ > pid; sleep 600") else { return };
    scene.until_all_ended(1);
    assert_eq!(scene.states(), [RunState::TimedOut], "{}", scene.reason(0));
    let pid = fs::read_to_string(scene.path("pid")).unwrap();
    wait("the program is gone", || !std::path::Path::new(&format!("/proc/{}", pid.trim())).exists());
}

#[test]
#[ignore = "takes minutes: make nightly"]
fn an_allocation_whose_time_is_over_is_followed_by_one_with_the_rest() {
    let Some(scene) = Scene::at("short") else { return };
    // The second run outlives its allocation the first time.
    let script = "if [ {repeat} = 2 ] && ! [ -e tried ]; then touch tried; sleep 600; fi; echo score: 1";
    scene.shared_plan(3, script, "gpus = 1");
    scene.detach();
    scene.until_all_ended(4);
    let counts = scene.finished_repeats();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(1, 1), (2, 1), (3, 1)], "{:?}", scene.states());
    let interrupted = scene.states().iter().position(|state| *state == RunState::Interrupted);
    let reason = interrupted.map(|run| scene.reason(run)).unwrap();
    assert!(reason.contains("at its time limit: raise `time` of the site"), "{reason}");
    assert!(scene.allocations().len() > 1);
    scene.until_no_job_is_left();
}

#[test]
#[ignore = "takes minutes: make nightly"]
fn a_run_that_follows_one_that_used_up_the_time_of_the_allocation_goes_to_the_next_one() {
    let Some(scene) = Scene::at("short") else { return };
    // Slurm ends a job some seconds after its time is over, and starts no step in between.
    scene.shared_plan(2, "[ {repeat} = 1 ] && sleep 61; echo score: 1", "gpus = 1");
    scene.detach();
    scene.until_all_ended(2);
    let counts = scene.finished_repeats();
    assert!(counts.values().all(|count| *count == 1) && counts.contains_key(&2), "{:?}", scene.states());
    assert!(!scene.states().contains(&RunState::Failed), "{:?}", scene.states());
    assert!(scene.allocations().len() > 1);
    scene.until_no_job_is_left();
}

#[test]
#[ignore = "changes nodes that other tests use: make nightly"]
fn runs_wait_for_nodes_that_are_drained_and_start_when_these_are_back() {
    let Some(scene) = full_nodes() else { return };
    // The runs on a node continue while it drains.
    scene.set_nodes("DRAIN");
    scene.open_gate();
    let count = |state: RunState| scene.states().iter().filter(|known| **known == state).count();
    wait("what runs has ended", || count(RunState::Finished) == 8);
    wait("the others wait", || scene.jobs_left().matches("PENDING").count() == 2);
    assert_eq!(count(RunState::Finished), 8);
    scene.set_nodes("RESUME");
    scene.until_all_ended(10);
    assert_eq!(scene.states(), [RunState::Finished; 10]);
    scene.cluster.until_idle();
}

#[test]
#[ignore = "changes nodes that other tests use: make nightly"]
fn runs_are_queued_with_a_warning_while_all_nodes_are_drained() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.set_nodes("DRAIN");
    scene.plan(2, "echo score: 1", "");
    let mut launch = scene.multicard(&["run", "plan.toml", "--session", "session", "--detach"]);
    let stderr = text(&succeed(&mut launch).stderr);
    assert!(stderr.contains("warning: site lab: 2 of the 2 nodes of partition debug"), "{stderr}");
    wait("the jobs wait", || scene.jobs_left().matches("PENDING").count() == 2);
    scene.set_nodes("RESUME");
    scene.until_all_ended(2);
    assert_eq!(scene.states(), [RunState::Finished; 2]);
    scene.cluster.until_idle();
}

#[test]
#[ignore = "kills daemons that other tests use: make nightly"]
fn a_controller_that_is_killed_and_started_again_loses_no_run() {
    let Some(scene) = full_nodes() else { return };
    // A controller that is killed forgets what it had not written: it would start these tasks once more, and drain nodes that have them.
    scene.cluster.until_saved();
    scene.cluster.kill(CONTROLLER);
    scene.open_gate();
    wait("what runs has ended without a controller", || {
        scene.states().iter().filter(|state| **state == RunState::Finished).count() >= 4
    });
    scene.cluster.start_again(CONTROLLER);
    scene.until_all_ended(10);
    assert_eq!(scene.states(), [RunState::Finished; 10]);
    scene.until_no_job_is_left();
}

#[test]
#[ignore = "kills daemons that other tests use: make nightly"]
fn daemons_of_nodes_that_are_killed_and_started_again_lose_no_run() {
    let Some(scene) = Scene::launched("lab", 6, &format!("{WAITS}; echo score: 1")) else { return };
    scene.await_start(1);
    for node in ["n1", "n2"] {
        scene.cluster.kill(node);
    }
    scene.open_gate();
    wait("what ran has ended without them", || scene.states().contains(&RunState::Finished));
    for node in ["n1", "n2"] {
        scene.cluster.start_again(node);
    }
    scene.until_all_ended(6);
    assert_eq!(scene.states(), [RunState::Finished; 6]);
    scene.cluster.until_idle();
}

#[test]
#[ignore = "takes minutes: make nightly"]
fn a_thousand_queued_runs_outlive_their_conductor_and_each_finishes_once() {
    let repeats = 1000;
    let Some(scene) = Scene::launched("many", repeats, "echo score: 1") else { return };
    let finished = || scene.finished_repeats().len();
    wait_up_to(LONG_PATIENCE, "some runs have finished", || finished() > 10);
    scene.kill_conductor();
    let before = finished();
    let attached = scene.follow();
    wait_up_to(LONG_PATIENCE, "the next conductor has found more of them", || finished() > before);
    scene.kill_conductor();
    drop(attached);
    // Runs that were not sent yet wait in the queue until it is resumed.
    succeed(&mut scene.multicard(&["run", "plan.toml", "--session", "session", "--resume", "--detach"]));
    wait_up_to(LONG_PATIENCE, "each has finished", || finished() == repeats as usize);
    scene.assert_none_finished_twice();
    scene.until_no_job_is_left();
}

/// A small disk, which is taken away in the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// A disk of 64 MB at this folder; `None` where this process may not mount one.
    fn at(folder: PathBuf) -> Option<Self> {
        fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "none"]).arg(&folder).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            println!("skipped: a small disk can be mounted by root only");
            return None;
        }
        Some(Self(folder))
    }

    /// Leaves no room on it.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("fill")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root to mount a disk: make nightly"]
fn a_full_disk_loses_nothing_that_has_finished_and_the_rest_is_done_once_there_is_room() {
    let Some(scene) = Scene::at("lab") else { return };
    let Some(disk) = SmallDisk::at(scene.session()) else { return };
    let repeats = 6;
    // The first two runs end at once.
    let script = format!(
        "echo >> {0}/count; [ $(wc -l < {0}/count) -le 2 ] || {WAITS}; echo score: 1",
        scene.path("").display()
    );
    scene.plan(repeats, &script, "");
    scene.detach();
    wait("some runs have finished", || !scene.finished_repeats().is_empty());
    scene.await_start(repeats as usize - 1);
    let finished = |scene: &Scene| -> Vec<String> {
        let records = scene.records();
        let finished = records.iter().filter(|record| record.state == RunState::Finished);
        finished.map(|record| record.run.clone()).collect()
    };
    let before = finished(&scene);
    disk.fill();
    scene.open_gate();
    wait("the jobs have ended on the full disk", || scene.jobs_left().trim().is_empty());
    disk.make_room();
    let resume = ["run", "plan.toml", "--session", "session", "--resume"];
    let begun = Instant::now();
    while scene.finished_repeats().len() < repeats as usize {
        assert!(begun.elapsed() < PATIENCE, "the rest never finished: {:?}", scene.states());
        let _ = scene.multicard(&resume).output();
    }
    let after = finished(&scene);
    assert!(before.iter().all(|run| after.contains(run)), "{before:?} had finished: {after:?}");
    scene.assert_none_finished_twice();
    wait("no conductor is left", || scene.conductors().is_empty());
    scene.until_no_job_is_left();
}

#[test]
#[ignore = "needs root to mount a disk, on a node that other tests use: make nightly"]
fn a_node_that_does_not_share_the_folder_is_found_by_the_test_of_its_site() {
    let Some(scene) = Scene::at("lab") else { return };
    let may_mount = Command::new("unshare").args(["--mount", "true"]).output();
    if !may_mount.is_ok_and(|output| output.status.success()) {
        println!("skipped: a node that sees other files can be started by root only");
        return;
    }
    scene.cluster.kill("n2");
    scene.cluster.start_apart("n2", &scene.path(""));
    scene.cluster.until_idle();
    let output = scene.multicard(&["site", "lab", "--nodes", "2"]).output().unwrap();
    scene.cluster.kill("n2");
    scene.cluster.start_again("n2");
    scene.cluster.until_idle();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(
        stdout.contains("✗ Run: ") && stdout.contains("put the session on a file system that all nodes share"),
        "{stdout}"
    );
}

/// What is killed at random: the processes of multicard and of the programs, which are in the scene's home or name it.
fn victims(scene: &Scene) -> Vec<i32> {
    let home = scene.home.path().display().to_string();
    let is_ours = |pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let at = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        at == scene.home.path() || String::from_utf8_lossy(&words).contains(&home)
    };
    let own = std::process::id() as i32;
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && is_ours(pid))
        .collect()
}

/// `MULTICARD_KILLS` kills (100) of a random process of the session, or of Slurm's daemons, while runs are executed.
#[test]
#[ignore = "kills daemons that other tests use, many times: make nightly"]
fn kills_of_everything_at_random_lose_nothing_and_leave_nothing() {
    let Some(scene) = Scene::at("lab") else { return };
    let kills: usize = std::env::var("MULTICARD_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let repeats = 12;
    scene.plan(repeats, "sleep 0.3; echo score: 1", "");
    let resume = ["run", "plan.toml", "--session", "session", "--resume", "--detach"];
    let mut finished: Vec<String> = Vec::new();
    for round in 0..kills {
        // A conductor that was killed is followed by the next one.
        let _ = scene.multicard(&resume).output();
        std::thread::sleep(Duration::from_millis(rand::random::<u64>() % 900));
        match rand::random::<u64>() % 4 {
            0 => {
                let name = [CONTROLLER, NODES[0], NODES[1]][round % 3];
                scene.cluster.kill(name);
                std::thread::sleep(Duration::from_millis(rand::random::<u64>() % 500));
                scene.cluster.start_again(name);
            }
            _ => {
                let all = victims(&scene);
                if !all.is_empty() {
                    let victim = all[rand::random::<u64>() as usize % all.len()];
                    // The process may have ended meanwhile.
                    let _ = kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL);
                }
            }
        }
        let records = scene.records();
        let state_of = |run: &String| records.iter().find(|record| record.run == *run).map(|record| record.state);
        for run in &finished {
            assert!(
                records.is_empty() || state_of(run) == Some(RunState::Finished),
                "{run} had finished: {:?}",
                state_of(run)
            );
        }
        let new = records.iter().filter(|record| record.state == RunState::Finished).map(|record| record.run.clone());
        finished.extend(new.collect::<Vec<_>>().into_iter().filter(|run| !finished.contains(run)).collect::<Vec<_>>());
        if finished.len() >= repeats as usize {
            // All repeats are done. The next round begins with new repeats.
            let _ = scene.multicard(&["run", "plan.toml", "--session", "session", "--detach"]).output();
        }
    }
    let begun = Instant::now();
    while scene.states().iter().any(|state| !state.is_final()) || scene.finished_repeats().len() < repeats as usize {
        assert!(begun.elapsed() < PATIENCE, "the rest never ended: {:?}", scene.states());
        succeed(&mut scene.multicard(&resume));
        std::thread::sleep(Duration::from_millis(500));
    }
    scene.assert_none_finished_twice();
    scene.until_no_job_is_left();
    println!("{} runs, {} of them finished", scene.states().len(), finished.len());
}
