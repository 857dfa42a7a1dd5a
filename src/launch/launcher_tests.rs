//! The launcher with scripts as workers that end, die, hang or write noise.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::super::misbehaviour::{command, worker};
use super::super::process::GROUP_COMMAND;
use super::*;
use crate::plan::{Data, Levels, RunState, Shape, image};
use crate::protocol::{Event, EventLine, PROTOCOL_VERSION, RankPlace};

/// Far longer than anything takes; reached only if something hangs.
const DEADLINE: Duration = Duration::from_secs(60);

struct Scene {
    folder: tempfile::TempDir,
    launcher: Launcher,
    updates: Receiver<Update>,
}

impl Scene {
    fn new(body: &str) -> Self {
        Self::with(body, LauncherOptions { grace: Duration::from_millis(200), ..LauncherOptions::default() }, 64)
    }

    fn with(body: &str, options: LauncherOptions, capacity: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let worker = worker(folder.path(), body);
        let (sender, updates) = mpsc::sync_channel(capacity);
        let launcher = Launcher::with_options(worker, sender, options);
        Self { folder, launcher, updates }
    }

    fn job(&self, ranks: u32) -> Job {
        job(self.folder.path().join("runs/run"), ranks)
    }

    fn job_in(&self, folder: &str) -> Job {
        job(self.folder.path().join(folder), 1)
    }

    fn next(&self) -> Update {
        self.updates.recv_timeout(DEADLINE).expect("an update before the deadline")
    }

    /// All updates up to the final one.
    fn rest(&self) -> Vec<Update> {
        let mut updates = Vec::new();
        loop {
            let update = self.next();
            let last = matches!(&update, Update::State { state, .. } if state.is_final());
            updates.push(update);
            if last {
                return updates;
            }
        }
    }

    fn until(&self, wanted: RunState) {
        while !matches!(self.next(), Update::State { state, .. } if state == wanted) {}
    }

    fn end_of(&self, ranks: u32) -> (RunState, String) {
        self.launcher.start(self.job(ranks)).unwrap();
        end(&self.rest())
    }
}

fn job(folder: PathBuf, ranks: u32) -> Job {
    let shape = Shape { processes: ranks, ..Shape::default() };
    Job {
        run: "run".into(),
        folder,
        ranks: (0..ranks).map(|rank| RankPlace::on_cpu(rank, 1)).collect(),
        ..Job::new(image::KEY.into(), Levels::default(), shape, Data::of_set("digits"))
    }
}

fn end(updates: &[Update]) -> (RunState, String) {
    match updates.last() {
        Some(Update::State { state, reason, .. }) => (*state, reason.clone().unwrap_or_default()),
        other => panic!("no final state but {other:?}"),
    }
}

fn states(updates: &[Update]) -> Vec<RunState> {
    let state = |update: &Update| if let Update::State { state, .. } = update { Some(*state) } else { None };
    updates.iter().filter_map(state).collect()
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_run_goes_from_starting_over_running_to_finished_and_says_everything_before_its_end() {
    let scene = Scene::new(
        "rank_started 0 77
        started 0; started 1; for step in $(seq 500); do step 0 $step; done; finished 0; finished 1",
    );
    scene.launcher.start(scene.job(2)).unwrap();
    let updates = scene.rest();
    assert_eq!(states(&updates), [RunState::Starting, RunState::Running, RunState::Finished]);
    assert_eq!(end(&updates).1, "");
    let events = updates.iter().filter(|update| matches!(update, Update::Event(_))).count();
    assert_eq!(events, 504);
    let up = |update: &&Update| matches!(update, Update::RankUp { .. });
    assert_eq!(updates.iter().filter(up).count(), 2);
    let job: Job = serde_json::from_slice(&fs::read(scene.folder.path().join("runs/run/job.json")).unwrap()).unwrap();
    assert_eq!(job, scene.job(2));
}

#[test]
fn a_folder_with_a_log_is_refused_and_so_is_a_supervisor_that_cannot_be_executed() {
    let scene = Scene::new("exit 0");
    let job = scene.job(1);
    fs::create_dir_all(&job.folder).unwrap();
    fs::write(job.folder.join("rank-0.jsonl"), "").unwrap();
    assert!(matches!(scene.launcher.start(job), Err(LaunchError::HasLog(path)) if path.ends_with("rank-0.jsonl")));
    assert!(matches!(scene.launcher.start(scene.job(0)), Err(LaunchError::NoRank(_))));
    let (sender, _updates) = mpsc::sync_channel(1);
    let plain = scene.folder.path().join("other/multicard");
    fs::create_dir_all(plain.parent().unwrap()).unwrap();
    fs::write(&plain, "").unwrap();
    let launcher = Launcher::new(command(plain.with_file_name("worker")), sender);
    let error = launcher.start(scene.job_in("third")).unwrap_err().to_string();
    assert!(error.contains("failed to start") && error.contains(plain.to_str().unwrap()), "{error}");
}

#[test]
fn a_ranks_own_words_are_the_reason() {
    let scene = Scene::new("started 0; failed 0 'no data'; exit 1");
    assert_eq!(scene.end_of(1), (RunState::Failed, "rank 0: no data".into()));
}

#[test]
fn a_silent_exit_shows_the_code_and_the_last_words() {
    let (state, reason) = Scene::new("started 0; echo 'thread main panicked' >&2; exit 101").end_of(1);
    assert_eq!(state, RunState::Failed);
    assert!(reason.contains("code 101") && reason.contains("thread main panicked"), "{reason}");
}

#[test]
fn a_deadly_signal_is_named() {
    let (state, reason) = Scene::new("started 0; kill -KILL $$").end_of(1);
    assert_eq!(state, RunState::Failed);
    assert!(reason.contains("SIGKILL") && reason.contains("out-of-memory"), "{reason}");
    let (_, reason) = Scene::new(
        "started 0; started 1
        rank_exited 1 11 false; rank_exited 0 15 true; exit 1",
    )
    .end_of(2);
    assert!(reason.contains("rank 1") && reason.contains("SIGSEGV"), "{reason}");
}

#[test]
fn a_hung_run_is_killed() {
    let short = Duration::from_millis(300);
    let options = LauncherOptions { silence_limit: short, grace: short, ..LauncherOptions::default() };
    // Stepping, so that the shorter limit holds.
    let (state, reason) = Scene::with("trap '' TERM; started 0; step 0 1; sleep 600", options, 64).end_of(1);
    assert_eq!(state, RunState::Failed);
    assert!(reason.contains("hung") && reason.contains("0.3 s"), "{reason}");
}

#[test]
fn silence_while_starting_is_measured_by_the_longer_limit() {
    let silence_limit = Duration::from_millis(1);
    let options = LauncherOptions { silence_limit, ..LauncherOptions::default() };
    let scene = Scene::with("started 0; sleep 0.3; finished 0", options, 64);
    assert_eq!(scene.end_of(1).0, RunState::Finished);
}

#[test]
fn noise_is_handed_on_with_its_place_and_is_the_reason_when_there_is_nothing_else() {
    let scene = Scene::new("echo hello >> \"$F/rank-0.jsonl\"; printf '{\"run\":\"oth' >> \"$F/rank-0.jsonl\"");
    scene.launcher.start(scene.job(1)).unwrap();
    let updates = scene.rest();
    let noise = |update: &Update| match update {
        Update::Noise { file_line, .. } => Some(file_line.clone()),
        _ => None,
    };
    let noise: Vec<_> = updates.iter().filter_map(noise).collect();
    assert_eq!(noise, ["rank-0.jsonl:1: hello", "rank-0.jsonl:2: {\"run\":\"oth"]);
    let (state, reason) = end(&updates);
    assert_eq!(state, RunState::Failed);
    assert!(reason.contains("2 lines") && reason.contains("hello"), "{reason}");
}

#[test]
fn events_of_ranks_that_share_a_log_are_those_of_the_ranks_that_they_name() {
    // The log of the second node has an event of the first one's rank, which is not believed. A rank that is killed leaves a piece of a line.
    let scene = Scene::new(
        "cd \"$F\"; for rank in 0 1 2 3; do started $rank; done; step 1 7; cat rank-1.jsonl >> rank-0.jsonl
        step 0 3; cat rank-3.jsonl >> rank-2.jsonl; printf '{\"run\":\"run\",\"rank\":2,\"ti' >> rank-2.jsonl
        rm rank-1.jsonl rank-3.jsonl; failed 3 'no data'; failed 1 lost
        cat rank-3.jsonl rank-1.jsonl >> rank-2.jsonl; rm rank-1.jsonl rank-3.jsonl; exit 1",
    );
    let mut job = scene.job(4);
    job.shape.rank_nodes = 2;
    job.shared_logs = true;
    scene.launcher.start(job).unwrap();
    let updates = scene.rest();
    assert_eq!(states(&updates), [RunState::Starting, RunState::Running, RunState::Failed]);
    assert_eq!(end(&updates).1, "rank 3: no data");
    let step = |update: &Update| match update {
        Update::Event(EventLine { rank, event: Event::Step { step, .. }, .. }) => Some((*rank, *step)),
        _ => None,
    };
    let mut steps: Vec<_> = updates.iter().filter_map(step).collect();
    steps.sort_unstable();
    assert_eq!(steps, [(0, 3), (1, 7)]);
    let noise = |update: &&Update| matches!(update, Update::Noise { file_line, .. } if file_line.contains("lost"));
    assert_eq!(updates.iter().filter(noise).count(), 1, "{updates:?}");
}

#[test]
fn a_run_that_an_older_multicard_started_is_followed_in_its_protocol() {
    let scene = Scene::new(
        "started 0 1
        say 0 2.0 '\"event\":\"evaluation\",\"epoch\":1,\"duration_s\":0.5,\"test_loss\":2.1,\"accuracy\":0.5,\"images\":25'
        finished 0",
    );
    scene.launcher.start(Job { version: 1, ..scene.job(1) }).unwrap();
    let updates = scene.rest();
    assert_eq!(end(&updates).0, RunState::Finished, "{updates:?}");
    let reading = |update: &Update| match update {
        Update::Event(EventLine { event: Event::Reading { key, value, .. }, .. }) => Some((key.to_string(), *value)),
        _ => None,
    };
    let readings: Vec<_> = updates.iter().filter_map(reading).collect();
    assert!(readings.contains(&("accuracy".to_owned(), 0.5)) && readings.len() == 4, "{readings:?}");
}

#[test]
fn another_protocol_version_ends_the_run_and_names_both() {
    let (state, reason) = Scene::new("started 0 7; sleep 600").end_of(1);
    assert_eq!(state, RunState::Failed);
    assert!(reason.contains("protocol 7") && reason.contains(&format!("uses {PROTOCOL_VERSION}")), "{reason}");
}

#[test]
fn a_run_over_its_time_is_timed_out() {
    let scene = Scene::new("started 0; sleep 600");
    let mut job = scene.job(1);
    job.limits.run_time_s = Some(0.2);
    scene.launcher.start(job).unwrap();
    let (state, reason) = end(&scene.rest());
    assert_eq!(state, RunState::TimedOut);
    assert!(reason.contains("0.2"), "{reason}");
}

#[test]
fn cancel_ends_obedient_and_deaf_groups_with_everything_they_started() {
    for trap in ["", "trap '' TERM;"] {
        // The second process stands for a rank that would outlive its supervisor.
        let scene = Scene::new(&format!("{trap} sleep 600 & echo $! > \"$F/rank.pid\"; started 0; wait; sleep 600"));
        let job = scene.job(1);
        scene.launcher.start(job.clone()).unwrap();
        scene.until(RunState::Running);
        let rank: u32 = fs::read_to_string(job.folder.join("rank.pid")).unwrap().trim().parse().unwrap();
        let start = process::process_start(rank).unwrap();
        assert!(crate::launch::is_alive(rank, start));
        scene.launcher.cancel("run");
        let (state, reason) = end(&scene.rest());
        assert_eq!((state, reason.contains("killed")), (RunState::Cancelled, !trap.is_empty()), "{reason}");
        assert!(!crate::launch::is_alive(rank, start));
    }
}

#[test]
fn ranks_that_outlive_their_supervisor_are_killed() {
    let scene = Scene::new("(trap '' TERM; sleep 600) & echo $! > \"$F/rank.pid\"; started 0; exit 0");
    let job = scene.job(1);
    assert_eq!(scene.end_of(1).0, RunState::Failed);
    let rank: u32 = fs::read_to_string(job.folder.join("rank.pid")).unwrap().trim().parse().unwrap();
    wait_for("the rank is gone", || {
        process::process_start(rank).is_none_or(|start| !crate::launch::is_alive(rank, start))
    });
}

#[test]
fn a_slow_receiver_loses_nothing() {
    let body = "started 0; for step in $(seq 300); do step 0 $step; done; finished 0";
    let scene = Scene::with(body, LauncherOptions::default(), 1);
    scene.launcher.start(scene.job(1)).unwrap();
    let log = scene.folder.path().join("runs/run/rank-0.jsonl");
    wait_for("the log is complete", || fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 302));
    let updates = scene.rest();
    assert_eq!(updates.iter().filter(|update| matches!(update, Update::Event(_))).count(), 302);
}

#[test]
fn dropping_the_launcher_ends_its_runs_even_when_nobody_receives() {
    let body = "echo $$ > \"$F/group.pid\"; while :; do started 0; sleep 0.01; done";
    let scene = Scene::with(body, LauncherOptions::default(), 1);
    let job = scene.job(1);
    scene.launcher.start(job.clone()).unwrap();
    assert!(matches!(scene.launcher.start(job.clone()), Err(LaunchError::AlreadyRunning(_) | LaunchError::HasLog(_))));
    let leader = || fs::read_to_string(job.folder.join("group.pid")).ok()?.trim().parse::<u32>().ok();
    wait_for("the group is up", || leader().is_some());
    let start = process::process_start(leader().unwrap()).unwrap();
    drop(scene.launcher);
    assert!(!crate::launch::is_alive(leader().unwrap(), start));
}

/// A group that this launcher did not start, as after the death of the workbench that did.
fn orphan(scene: &Scene, ranks: u32) -> (Job, Child, u64) {
    let job = scene.job(ranks);
    let path = prepare_folder(&job).unwrap();
    let mut command = Command::new(&scene.launcher.worker.as_ref().unwrap().path);
    let child = command.arg(GROUP_COMMAND).arg(path).process_group(0).stdin(Stdio::null()).spawn().unwrap();
    let start = process::process_start(child.id()).unwrap();
    (job, child, start)
}

#[test]
fn a_running_group_is_found_again_and_followed_from_its_beginning() {
    let scene = Scene::new("started 0; step 0 1; until [ -e \"$F/go\" ]; do sleep 0.01; done; finished 0");
    let (job, mut child, start) = orphan(&scene, 1);
    scene.launcher.follow(job.clone(), child.id(), start).unwrap();
    scene.until(RunState::Running);
    fs::write(job.folder.join("go"), "").unwrap();
    assert_eq!(end(&scene.rest()).0, RunState::Finished);
    child.wait().unwrap();
}

#[test]
fn a_group_is_found_by_its_runs_folder_as_long_as_it_lives() {
    let scene = Scene::new("sleep 600");
    let (job, mut child, start) = orphan(&scene, 1);
    // The command line is that of the shell once it is executed.
    wait_for("it is found", || process::find_group(&job.folder) == Some((child.id(), start)));
    assert_eq!(process::find_group(scene.folder.path()), None);
    process::kill_group(child.id());
    wait_for("it is dead", || process::find_group(&job.folder).is_none());
    child.wait().unwrap();
}

#[test]
fn a_group_is_found_in_its_renamed_folder_and_not_in_a_copy_that_takes_the_old_name() {
    let scene = Scene::new("started 0; sleep 600");
    let job = scene.job(1);
    scene.launcher.start(job.clone()).unwrap();
    scene.until(RunState::Running);
    let found = process::find_group(&job.folder);
    assert!(found.is_some());
    let renamed = scene.folder.path().join("renamed");
    fs::rename(&job.folder, &renamed).unwrap();
    assert!(Command::new("cp").arg("-a").arg(&renamed).arg(&job.folder).status().unwrap().success());
    assert_eq!(process::find_group(&job.folder), None);
    assert_eq!(process::find_group(&renamed), found);
}

#[test]
fn without_a_worker_runs_are_followed_and_none_is_started() {
    let scene = Scene::new("started 0; finished 0");
    let (job, mut child, start) = orphan(&scene, 1);
    child.wait().unwrap();
    let (sender, updates) = mpsc::sync_channel(64);
    let scene = Scene { launcher: Launcher::new(None, sender), updates, ..scene };
    assert!(matches!(scene.launcher.start(scene.job_in("other")), Err(LaunchError::NoWorker(_))));
    scene.launcher.follow(job, child.id(), start).unwrap();
    assert_eq!(end(&scene.rest()).0, RunState::Finished);
}

#[test]
fn a_group_that_died_unwatched_is_interrupted_or_what_its_logs_say() {
    for (body, expected) in [
        ("started 0; step 0 1; kill -KILL $$", RunState::Interrupted),
        ("started 0; finished 0", RunState::Finished),
        ("started 0; failed 0 'no data'", RunState::Failed),
    ] {
        let scene = Scene::new(body);
        let (job, mut child, start) = orphan(&scene, 1);
        child.wait().unwrap();
        scene.launcher.follow(job, child.id(), start).unwrap();
        assert_eq!(end(&scene.rest()).0, expected, "{body}");
    }
}

#[test]
fn a_followed_group_can_be_cancelled() {
    let scene = Scene::new("started 0; sleep 600");
    let (job, mut child, start) = orphan(&scene, 1);
    scene.launcher.follow(job, child.id(), start).unwrap();
    scene.until(RunState::Running);
    scene.launcher.cancel("run");
    assert_eq!(end(&scene.rest()).0, RunState::Cancelled);
    child.wait().unwrap();
}

#[test]
fn a_run_that_is_left_goes_on_and_is_followed_to_its_end_by_the_next_launcher() {
    let scene = Scene::new("started 0; while [ ! -e $F/go ]; do sleep 0.02; done; finished 0");
    let job = scene.job(1);
    scene.launcher.start(job.clone()).unwrap();
    let (pid, process_start) = loop {
        if let Update::Started { pid, process_start, .. } = scene.next() {
            break (pid, process_start);
        }
    };
    scene.until(RunState::Running);
    let Scene { folder, launcher, updates } = scene;
    let worker = launcher.worker.clone();
    launcher.leave();
    assert!(process::is_alive(pid, process_start));
    let received: Vec<_> = updates.try_iter().collect();
    assert!(
        !received.iter().any(|update| matches!(update, Update::State { state, .. } if state.is_final())),
        "{received:?}"
    );
    let (sender, updates) = mpsc::sync_channel(64);
    let scene = Scene { folder, launcher: Launcher::new(worker, sender), updates };
    scene.launcher.follow(job.clone(), pid, process_start).unwrap();
    scene.until(RunState::Running);
    fs::write(job.folder.join("go"), "").unwrap();
    scene.until(RunState::Finished);
}
