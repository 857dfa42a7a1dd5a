//! A session and workers that finish, die, hang and babble, from the plan to what is kept.
#![allow(clippy::unwrap_used)]

mod finished;
mod queueing;
mod rates;
mod searching;
mod taken_over;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::launch::{self, misbehaviour};
use crate::plan::{NumaNode, Plan, Tracer, fixture};
use crate::protocol::Event;
use crate::store::RunRecord;

/// Far longer than anything takes: reached only when something hangs.
const DEADLINE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_millis(10);

/// A run that takes three steps.
const WELL: &str = "started 0; for step in 1 2 3; do step 0 $step; done; finished 0";
/// A run that steps until a file `go` lies in its folder.
const UNTIL_TOLD: &str = "started 0; step 0 1; until [ -e \"$F/go\" ]; do sleep 0.01; done; finished 0";

/// A folder with a worker and a session.
struct Scene {
    folder: tempfile::TempDir,
    machine: Machine,
}

impl Scene {
    /// Every run does what the script says; see [`misbehaviour::worker`].
    fn new(body: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let worker = misbehaviour::worker(folder.path(), body);
        let numa = NumaNode { cpus: 4, usable_cpus: vec![0, 1, 2, 3], ..NumaNode::default() };
        let topology = Topology { numa: vec![numa], ..Topology::default() };
        Self { machine: Machine { node: fixture::cpu_node(), topology, worker: Some(worker) }, folder }
    }

    /// The folder of the session.
    fn session(&self) -> PathBuf {
        self.folder.path().join("session")
    }

    fn open(&self) -> Session {
        self.open_at(&self.session(), false)
    }

    /// Opens the session and puts queued runs of an earlier process back into the queue.
    fn restore(&self) -> Session {
        self.open_at(&self.session(), true)
    }

    fn open_at(&self, folder: &Path, restores: bool) -> Session {
        let options = LauncherOptions { grace: Duration::from_millis(200), ..LauncherOptions::default() };
        Session::open_with(folder, self.machine.clone(), options, restores).unwrap()
    }

    /// A session with a plan of so many runs of one cell.
    fn with_runs(&self, repeats: u32) -> Session {
        let mut session = self.open();
        assert_eq!(session.add_plan(&plan(repeats, ""), false).unwrap().runs.len(), repeats as usize);
        session
    }

    /// A session with a paused queue and a plan of so many runs of one cell.
    fn paused(&self, repeats: u32) -> Session {
        let mut session = self.with_runs(repeats);
        session.pause_queue();
        session
    }

    /// A session with a plan of so many runs of one cell, whose first run steps; the names of the runs, and the folder of the first run.
    fn under_way(&self, repeats: u32) -> (Session, Vec<String>, PathBuf) {
        let mut session = self.with_runs(repeats);
        let names = runs(&session);
        until_running(&mut session, &names[0]);
        let folder = session.folder().join("runs").join(&names[0]);
        (session, names, folder)
    }
}

fn plan(repeats: u32, limits: &str) -> Plan {
    Plan::parse(&format!("version = 1\nrepeats = {repeats}\n[limits]\n{limits}"), "small.toml").unwrap()
}

/// The ids of all runs in the order of the queue.
fn runs(session: &Session) -> Vec<String> {
    session.states().map(|(run, _)| run.to_owned()).collect()
}

fn states(session: &Session) -> Vec<RunState> {
    session.states().map(|(_, state)| state).collect()
}

/// What the session keeps of each run.
fn kept(session: &Session) -> Vec<RunRecord> {
    session.flush().unwrap();
    let reader = session.reader().unwrap();
    reader.runs().unwrap().iter().map(|listed| reader.run(&listed.run).unwrap().unwrap()).collect()
}

fn reason(session: &Session, run: usize) -> String {
    kept(session)[run].reason.clone().unwrap_or_default()
}

/// Drives a session until it said something; gives everything up to there.
fn until(session: &mut Session, what: &str, mut is_awaited: impl FnMut(&Notice) -> bool) -> Vec<Notice> {
    let start = Instant::now();
    let mut notices = Vec::new();
    loop {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}: {notices:?}");
        let new = session.advance(PATIENCE).unwrap();
        let reached = new.iter().any(&mut is_awaited);
        notices.extend(new);
        if reached {
            return notices;
        }
    }
}

fn until_running(session: &mut Session, run: &str) {
    until(
        session,
        "the run steps",
        |notice| matches!(notice, Notice::Event(line) if line.run == run && matches!(line.event, Event::Step { .. })),
    );
}

fn to_end(session: &mut Session) -> Vec<Notice> {
    let start = Instant::now();
    let mut notices = Vec::new();
    while !session.is_idle() {
        assert!(start.elapsed() < DEADLINE, "the session never comes to its end: {notices:?}");
        notices.extend(session.advance(PATIENCE).unwrap());
    }
    notices
}

/// The group that a run's processes are in.
fn group(folder: &Path) -> Option<u32> {
    launch::find_group(folder).map(|(pid, _)| pid)
}

fn kill_group(pid: u32) {
    assert!(Command::new("sh").args(["-c", &format!("kill -KILL -{pid}")]).status().unwrap().success());
}

#[test]
fn runs_that_finish_are_kept_with_their_steps_and_are_not_run_again() {
    let scene = Scene::new(WELL);
    let mut session = scene.with_runs(2);
    let notices = to_end(&mut session);
    assert_eq!(states(&session), [RunState::Finished; 2]);
    let events = notices.iter().filter(|notice| matches!(notice, Notice::Event(_))).count();
    assert_eq!(events, 2 * 5);
    for (record, repeat) in kept(&session).iter().zip(1..) {
        assert_eq!((record.state, record.repeat, record.reason.as_deref()), (RunState::Finished, repeat, None));
        assert_eq!(record.ranks[0].steps.len(), 3);
        assert!(record.started_time_s >= Some(record.queued_time_s) && record.ended_time_s >= record.started_time_s);
    }
    assert_eq!((session.progress().ended, session.progress().queued), (2, 2));
    let added = session.add_plan(&plan(3, ""), true).unwrap();
    assert_eq!((added.runs.len(), added.kept), (1, 2));
    let added = session.add_plan(&plan(1, ""), false).unwrap();
    assert_eq!((added.runs.len(), added.kept), (1, 0));
    to_end(&mut session);
    assert_eq!(kept(&session).iter().map(|record| record.repeat).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn all_cells_of_a_repeat_have_one_seed_and_the_first_has_the_plans() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    let text = "version = 1\nseed = 40\nrepeats = 3\n[factors]\nbatch_size = [32, 64]\n";
    session.add_plan(&Plan::parse(text, "small.toml").unwrap(), false).unwrap();
    let mut seeds: Vec<(u32, u64)> = kept(&session).iter().map(|record| (record.repeat, record.seed)).collect();
    seeds.sort_unstable();
    assert_eq!(seeds, [(1, 40), (1, 40), (2, 41), (2, 41), (3, 42), (3, 42)]);
}

#[test]
fn plans_are_numbered_on_wherever_the_session_is_opened_again() {
    let scene = Scene::new(WELL);
    for repeats in 1..=3 {
        scene.with_runs(repeats);
    }
    let session = scene.open();
    let plans = session.reader().unwrap().plans().unwrap();
    assert_eq!(plans.iter().map(|(plan, ..)| plan.as_str()).collect::<Vec<_>>(), ["p1", "p2", "p3"]);
}

#[test]
fn a_run_that_fails_says_why_and_the_next_one_runs() {
    let scene = Scene::new(&format!(
        "case $RUN in
        0001*) started 0; failed 0 'no data'; exit 1;;
        0002*) started 0; echo 'thread main panicked' >&2; exit 101;;
        0003*) {WELL};;
        esac"
    ));
    let mut session = scene.with_runs(3);
    let notices = to_end(&mut session);
    assert_eq!(states(&session), [RunState::Failed, RunState::Failed, RunState::Finished]);
    assert_eq!(reason(&session, 0), "rank 0: no data");
    let silent = reason(&session, 1);
    assert!(silent.contains("code 101") && silent.contains("thread main panicked"), "{silent}");
    let is_notice = |notice: &Notice| matches!(notice, Notice::State { reason: Some(reason), .. } if *reason == silent);
    assert!(notices.iter().any(is_notice));
}

#[test]
fn a_run_that_failed_is_tried_again_in_a_folder_of_its_own() {
    let scene = Scene::new(&format!("case $RUN in 0001*) started 0; exit 1;; esac; {WELL}"));
    let mut session = scene.with_runs(1);
    to_end(&mut session);
    let first = runs(&session)[0].clone();
    session.retry(&first).unwrap();
    to_end(&mut session);
    let records = kept(&session);
    assert_eq!(states(&session), [RunState::Failed, RunState::Finished]);
    assert_eq!((&records[1].cell, records[1].repeat), (&records[0].cell, 1));
    assert_eq!(records[0].ranks[0].steps.len(), 0);
    drop(session);
    // The same by a later workbench, which knows the run only by what is kept of it.
    let mut session = scene.open();
    session.retry(&first).unwrap();
    to_end(&mut session);
    assert_eq!(kept(&session)[2].state, RunState::Finished);
}

#[test]
fn a_run_taken_out_of_the_queue_comes_back_as_itself_in_its_place_and_no_repeat_is_queued_twice() {
    let scene = Scene::new(WELL);
    let mut session = scene.paused(3);
    let queued = runs(&session);
    session.cancel(&queued[1]).unwrap();
    assert_eq!((session.progress().queued, kept(&session)[1].state), (2, RunState::Cancelled));
    session.revive(&queued[1]).unwrap();
    assert_eq!((runs(&session), states(&session)), (queued.clone(), vec![RunState::Queued; 3]));
    assert_eq!((session.progress().queued, kept(&session)[1].state), (3, RunState::Queued));
    session.cancel(&queued[1]).unwrap();
    session.retry(&queued[1]).unwrap();
    for refused in [session.revive(&queued[1]), session.retry(&queued[1])] {
        let refused = refused.unwrap_err().to_string();
        let names =
            "run 2 (repeat 2) is not queued again: run 4 (repeat 2) is the same repeat of its cell and has not ended";
        assert!(refused.starts_with(names), "{refused}");
    }
    session.resume_queue().unwrap();
    to_end(&mut session);
    let finished = kept(&session).into_iter().filter(|run| run.state == RunState::Finished);
    assert_eq!(finished.map(|run| run.repeat).collect::<Vec<_>>(), [1, 3, 2]);
    let heading = crate::store::SessionHeading::read(session.folder()).unwrap();
    assert_eq!(heading.runs.into_iter().collect::<Vec<_>>(), [("cancelled", 1), ("finished", 3)]);
    let refused = session.revive(&queued[0]).unwrap_err().to_string();
    assert!(
        refused.starts_with("run 1 (repeat 1) cannot be put back into the queue, since it has started"),
        "{refused}"
    );
}

#[test]
fn a_hanging_run_is_ended_when_its_time_is_over() {
    // On a busy machine a run may not come to its step in the shortest time.
    for limit in ["0.3", "1.5", "7.5", "37.5"] {
        let scene = Scene::new("started 0; step 0 1; sleep 600");
        let mut session = scene.open();
        session.add_plan(&plan(1, &format!("run_time_s = {limit}")), false).unwrap();
        to_end(&mut session);
        assert_eq!(states(&session), [RunState::TimedOut]);
        assert!(reason(&session, 0).contains(limit), "{}", reason(&session, 0));
        if kept(&session)[0].ranks.first().is_some_and(|rank| rank.steps.len() == 1) {
            return;
        }
    }
    panic!("no run came to its step");
}

#[test]
fn noise_is_told_with_its_place_and_disturbs_nothing() {
    let scene = Scene::new(&format!(
        "echo to stdout; echo to stderr >&2; started 0; echo 'no event' >> \"$F/rank-0.jsonl\"; {WELL}
        printf '{{\"run\":\"half a li' >> \"$F/rank-0.jsonl\""
    ));
    let mut session = scene.with_runs(1);
    let notices = to_end(&mut session);
    assert_eq!(states(&session), [RunState::Finished]);
    let noise = |notice: &Notice| if let Notice::Noise { message, .. } = notice { Some(message.clone()) } else { None };
    let noise: Vec<String> = notices.iter().filter_map(noise).collect();
    assert_eq!(noise, ["rank-0.jsonl:2: no event", "rank-0.jsonl:8: {\"run\":\"half a li"]);
    assert_eq!(kept(&session)[0].ranks[0].steps.len(), 3);
    let folder = session.folder().join("runs").join(&runs(&session)[0]);
    assert_eq!(fs::read_to_string(folder.join("group.out")).unwrap(), "to stdout\n");
    assert_eq!(fs::read_to_string(folder.join("stderr.log")).unwrap(), "to stderr\n");
}

#[test]
fn a_rank_of_another_protocol_ends_its_run_and_both_versions_are_named() {
    let scene = Scene::new("started 0 77; sleep 600");
    let mut session = scene.with_runs(1);
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Failed]);
    let reason = reason(&session, 0);
    let own = crate::protocol::PROTOCOL_VERSION;
    assert!(reason.contains("protocol 77") && reason.contains(&format!("uses {own}")), "{reason}");
}

#[test]
fn a_worker_that_cannot_be_executed_fails_its_runs() {
    let mut scene = Scene::new("");
    scene.machine.worker = Some(misbehaviour::command("/nowhere/worker".into()));
    let mut session = scene.with_runs(2);
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Failed; 2]);
    assert!(reason(&session, 1).contains("/nowhere/worker"), "{}", reason(&session, 1));
}

#[test]
fn without_a_worker_nothing_is_queued_and_the_reason_is_told() {
    let mut scene = Scene::new("");
    scene.machine.worker = None;
    scene.machine.node.worker = Err("no worker: build it".into());
    let mut session = scene.open();
    let error = session.add_plan(&plan(1, ""), false).unwrap_err().to_string();
    assert!(error.contains("no worker: build it"), "{error}");
    assert!(kept(&session).is_empty());
}

#[test]
fn a_queued_run_is_cancelled_without_a_trace_and_a_running_one_is_ended() {
    let scene = Scene::new(&format!("case $RUN in 0001*) started 0; step 0 1; sleep 600;; esac; {WELL}"));
    let (mut session, names, folder) = scene.under_way(3);
    session.cancel(&names[1]).unwrap();
    assert_eq!(states(&session), [RunState::Running, RunState::Cancelled, RunState::Queued]);
    session.cancel(&names[0]).unwrap();
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Cancelled, RunState::Cancelled, RunState::Finished]);
    assert!(!session.folder().join("runs").join(&names[1]).exists());
    assert_eq!(group(&folder), None);
    let states: Vec<RunState> = kept(&session).iter().map(|record| record.state).collect();
    assert_eq!(states, [RunState::Cancelled, RunState::Cancelled, RunState::Finished]);
}

#[test]
fn cancelling_all_ends_a_deaf_run_by_force_and_starts_no_other() {
    let scene = Scene::new("trap '' TERM; started 0; step 0 1; while :; do sleep 0.05; done");
    let (mut session, ..) = scene.under_way(3);
    session.cancel_all().unwrap();
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Cancelled; 3]);
    assert!(reason(&session, 0).contains("killed"), "{}", reason(&session, 0));
    assert_eq!(fs::read_dir(session.folder().join("runs")).unwrap().count(), 1);
}

#[test]
fn a_killed_group_is_a_failed_run_with_the_signal_named() {
    let scene = Scene::new(&format!("case $RUN in 0001*) started 0; step 0 1; sleep 600;; esac; {WELL}"));
    let (mut session, _, folder) = scene.under_way(2);
    kill_group(group(&folder).unwrap());
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Failed, RunState::Finished]);
    assert!(reason(&session, 0).contains("SIGKILL"), "{}", reason(&session, 0));
}

#[test]
fn runs_that_may_share_the_machine_are_under_way_together_and_know_of_each_other() {
    // Each waits for the other's log.
    let meet = "started 0; until [ $(ls \"$F\"/../*/rank-0.jsonl | wc -l) = 2 ]; do sleep 0.01; done; finished 0";
    let scene = Scene::new(meet);
    let mut session = scene.open();
    session.add_plan(&plan(2, "exclusive = false"), false).unwrap();
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Finished; 2]);
    let records = kept(&session);
    assert_eq!(
        (&records[0].beside, &records[1].beside),
        (&vec![records[1].run.clone()], &vec![records[0].run.clone()])
    );
    let cpus = |record: &RunRecord| record.placement.clone().unwrap().ranks[0].cpus.clone();
    assert!(!cpus(&records[0]).is_empty() && cpus(&records[0]) != cpus(&records[1]));
}

#[test]
fn runs_whose_memory_does_not_suffice_for_both_run_one_after_the_other_and_one_alone_starts_all_the_same() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    session.add_plan(&plan(2, "exclusive = false"), false).unwrap();
    session.node.memory_bytes = 1;
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Finished; 2]);
    assert!(kept(&session).iter().all(|record| record.beside.is_empty()));
}

#[test]
fn a_paused_queue_starts_nothing_until_it_goes_on() {
    let scene = Scene::new(WELL);
    let mut session = scene.paused(2);
    assert!(session.advance(PATIENCE).unwrap().iter().all(|notice| matches!(notice, Notice::Sample { .. })));
    assert_eq!(states(&session), [RunState::Queued; 2]);
    let second = runs(&session)[1].clone();
    session.reorder(&second, 0).unwrap();
    session.resume_queue().unwrap();
    let notices = to_end(&mut session);
    let first = notices.iter().find_map(|notice| if let Notice::State { run, .. } = notice { Some(run) } else { None });
    assert_eq!(first, Some(&second));
    assert_eq!(states(&session), [RunState::Finished; 2]);
}

#[test]
fn each_run_of_a_plan_with_several_tracers_is_traced_by_its_own_also_when_it_is_queued_again() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    let text = "version = 1\nrepeats = 2\n[measure]\ntrace = [\"off\", \"built-in\", \"nsys\"]\ntrace_steps = [1, 2]";
    let added = session.add_plan(&Plan::parse(text, "twins.toml").unwrap(), false).unwrap();
    let lacking: Vec<Tracer> = added.invalid.iter().map(|cell| cell.tracer).collect();
    assert_eq!((added.runs.len(), lacking), (4, vec![Tracer::Nsys]));
    to_end(&mut session);
    let traced = |session: &Session| {
        let is_as_recorded = |run: &RunRecord| {
            let job = session.recorded_job(&run.run).unwrap();
            assert_eq!((job.tracer(), job.trace.is_some()), (run.tracer, run.tracer.is_on()));
            (run.repeat, run.tracer)
        };
        kept(session).iter().map(is_as_recorded).collect::<Vec<_>>()
    };
    let mut seen = traced(&session);
    assert!(seen[0].0 == 1 && seen[1].0 == 1, "twins of a repeat run one after the other: {seen:?}");
    seen.sort_unstable();
    assert_eq!(seen, [(1, Tracer::Off), (1, Tracer::BuiltIn), (2, Tracer::Off), (2, Tracer::BuiltIn)]);
    for run in kept(&session) {
        drop(session);
        session = scene.open();
        session.retry(&run.run).unwrap();
        to_end(&mut session);
        assert_eq!(traced(&session).last(), Some(&(run.repeat, run.tracer)));
    }
}

#[test]
fn what_a_run_waits_for_at_its_site_is_known_until_it_waits_no_longer() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    let mut notices = Vec::new();
    let waits = |reason: Option<&str>| Update::Waits { run: "0001-a-1".to_owned(), reason: reason.map(str::to_owned) };
    session.take(waits(Some("for resources")), &mut notices).unwrap();
    assert_eq!((session.waits("0001-a-1"), session.waits("0002-a-1")), (Some("for resources"), None));
    session.take(waits(None), &mut notices).unwrap();
    assert_eq!(session.waits("0001-a-1"), None);
    assert_eq!(notices.len(), 2);
}
