//! Sessions that are closed, left, killed or opened again by a later process: what is taken up, and what is not executed twice.

use std::thread;

use super::*;
use crate::plan::{Factor, Level, WorkloadSpec, image};
use crate::store::Imported;

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_run_of_a_workload_that_its_plan_brought_is_tried_again_by_a_later_process() {
    let scene = Scene::new(&format!("case $RUN in 0001*) started 0; exit 1;; esac; {WELL}"));
    let mut spec = WorkloadSpec::clone(&image::spec());
    spec.factors.push(Factor::named("cooling", "Cooling", &["air", "water"]));
    let mut brought = Plan::new("cooled", spec.into());
    brought.first.factors.last_mut().unwrap().1 = vec![Level::text("water")];
    let mut session = scene.open();
    session.add_plan(&brought, false).unwrap();
    to_end(&mut session);
    let first = runs(&session)[0].clone();
    drop(session);
    let mut session = scene.open();
    session.retry(&first).unwrap();
    to_end(&mut session);
    let records = kept(&session);
    assert_eq!(records[1].state, RunState::Finished);
    assert_eq!(records[1].levels.get("cooling"), Some(&Level::text("water")));
    assert!(records[1].workload.factor("cooling").is_some());
    assert_eq!(records[0].identity(), records[1].identity());
    // A run of the same levels by a plan that says nothing of it is another workload's: it knows no cooling.
    assert_eq!(session.add_plan(&plan(1, ""), true).unwrap().runs.len(), 1);
}

#[test]
fn a_run_that_is_left_goes_on_and_is_taken_up_by_the_next_session() {
    let scene = Scene::new(UNTIL_TOLD);
    let (session, names, folder) = scene.under_way(2);
    let started_time_s = kept(&session)[0].started_time_s;
    session.leave().unwrap();
    assert!(group(&folder).is_some());
    let mut session = scene.open();
    assert!(!session.is_idle());
    until_running(&mut session, &names[0]);
    fs::write(folder.join("go"), "").unwrap();
    to_end(&mut session);
    let records = kept(&session);
    assert_eq!((records[0].state, records[0].started_time_s), (RunState::Finished, started_time_s));
    assert_eq!(records[0].ranks[0].steps.len(), 1);
    // What was only queued is run when it is asked for.
    assert_eq!(records[1].state, RunState::Interrupted);
    let added = session.add_plan(&plan(2, ""), true).unwrap();
    assert_eq!((added.runs.len(), added.kept), (1, 1));
    assert!(runs(&session)[1].starts_with("0003-"));
}

#[test]
fn runs_that_ended_while_nobody_looked_are_what_their_logs_say() {
    for (end, expected) in [("go", RunState::Finished), ("kill", RunState::Interrupted)] {
        let scene = Scene::new(UNTIL_TOLD);
        let (session, _, folder) = scene.under_way(1);
        session.leave().unwrap();
        if end == "go" {
            fs::write(folder.join("go"), "").unwrap();
        } else {
            kill_group(group(&folder).unwrap());
        }
        wait_for("the group is gone", || group(&folder).is_none());
        let mut session = scene.open();
        to_end(&mut session);
        assert_eq!(kept(&session)[0].state, expected, "{end}");
    }
}

#[test]
fn a_run_that_nobody_follows_is_read_as_under_way_until_its_processes_are_gone() {
    let mut scene = Scene::new(UNTIL_TOLD);
    scene.machine.node.hostname = crate::protocol::hostname();
    let (session, _, run) = scene.under_way(1);
    let folder = session.folder().to_owned();
    session.leave().unwrap();
    let read = || open_reader(&folder).unwrap().headings().unwrap()[0].state;
    assert!(read().is_active(), "{:?}", read());
    kill_group(group(&run).unwrap());
    wait_for("the group is gone", || group(&run).is_none());
    assert_eq!(read(), RunState::Interrupted);
}

#[test]
fn what_an_earlier_process_never_started_is_read_as_ended_as_soon_as_the_session_is_open() {
    let scene = Scene::new(WELL);
    scene.paused(2).leave().unwrap();
    let session = scene.open();
    let records = session.reader().unwrap().headings().unwrap();
    let states: Vec<RunState> = records.iter().map(|record| record.state).collect();
    assert_eq!(states, [RunState::Interrupted; 2]);
}

#[test]
fn closing_a_session_ends_what_runs() {
    let scene = Scene::new(UNTIL_TOLD);
    let (session, _, folder) = scene.under_way(2);
    drop(session);
    assert_eq!(group(&folder), None);
    let mut session = scene.open();
    to_end(&mut session);
    assert_eq!(kept(&session).iter().filter(|record| record.state == RunState::Finished).count(), 0);
    assert!(kept(&session).iter().all(|record| record.state.is_final()));
}

#[test]
fn a_queue_that_the_user_paused_is_read_as_queued_without_a_conductor_and_stays_paused_for_the_next_one() {
    let mut scene = Scene::new(WELL);
    scene.machine.node.hostname = crate::protocol::hostname();
    let folder = scene.session();
    let read = || -> Vec<RunState> {
        open_reader(&folder).unwrap().headings().unwrap().iter().map(|record| record.state).collect()
    };
    scene.paused(2).leave().unwrap();
    assert_eq!(read(), [RunState::Interrupted; 2], "nobody has paused it");
    let mut session = scene.restore();
    assert!(!session.is_paused(), "the runs are only held");
    session.pause_until_resumed();
    session.leave().unwrap();
    assert_eq!(read(), [RunState::Queued; 2]);
    let mut session = scene.restore();
    assert_eq!((session.is_paused(), session.restored()), (true, 2));
    session.resume_queue().unwrap();
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Finished; 2]);
    session.leave().unwrap();
    assert!(!scene.restore().is_paused());
}

#[test]
fn a_run_of_an_archive_does_not_start_after_its_repeat_was_queued_again() {
    for is_left in [false, true] {
        let scene = Scene::new(WELL);
        let session = scene.paused(2);
        let imported = Imported { runs: runs(&session).into_iter().collect(), allowed: None };
        session.leave().unwrap();
        fs::write(scene.session().join("imported.json"), serde_json::to_vec(&imported).unwrap()).unwrap();
        let mut session = scene.restore();
        assert_eq!(session.restored(), 2);
        // Waiting runs of an archive do not count for a launch.
        assert_eq!(session.add_plan(&plan(1, ""), true).unwrap().runs.len(), 1);
        if is_left {
            session.leave().unwrap();
            session = scene.restore();
        }
        session.resume_queue().unwrap();
        to_end(&mut session);
        assert_eq!(states(&session), [RunState::Interrupted, RunState::Finished, RunState::Finished]);
        let records: Vec<_> = kept(&session).into_iter().map(|record| (record.repeat, record.state)).collect();
        let expected = [(1, RunState::Interrupted), (2, RunState::Finished), (1, RunState::Finished)];
        assert_eq!(records, expected);
        assert_eq!(reason(&session, 0), "not started: run 3 is the same repeat of its cell and was queued later");
    }
}

#[test]
fn a_launch_that_comes_again_is_answered_as_before_also_by_a_later_session() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    session.pause_queue();
    let launch = |session: &mut Session, id: &str| {
        session.launch_once(id, |session| session.add_plan(&plan(2, ""), false).map_err(|error| error.to_string()))
    };
    let first = launch(&mut session, "first").unwrap();
    assert_eq!(launch(&mut session, "first"), Ok(first.clone()));
    assert_eq!(runs(&session), first.runs);
    session.leave().unwrap();
    let mut session = scene.open();
    assert_eq!(launch(&mut session, "first"), Ok(first.clone()));
    assert_ne!(launch(&mut session, "second").unwrap().runs, first.runs, "another launch of the same plan");
    assert_eq!(kept(&session).len(), 4);
    // A refusal is repeated as well.
    let refuse = |session: &mut Session, why: &str| session.launch_once("third", |_| Err(why.to_owned()));
    assert_eq!(refuse(&mut session, "no"), Err("no".to_owned()));
    assert_eq!(refuse(&mut session, "never asked"), Err("no".to_owned()));
}

#[test]
fn a_launch_whose_session_ended_while_it_queued_runs_is_not_executed_again() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    session.kept_queue.keep_launch("first", None);
    session.keep_queue();
    session.leave().unwrap();
    let mut session = scene.open();
    let again = session.launch_once("first", |_| panic!("it was begun before"));
    assert!(again.unwrap_err().contains("launch the plan again with “keep finished repeats”"));
}

#[test]
fn a_queue_that_is_taken_over_keeps_its_order_and_the_folder_that_its_plan_was_launched_from() {
    let scene = Scene::new(WELL);
    let mut session = scene.paused(3);
    let [first, second, third]: [String; 3] = runs(&session).try_into().unwrap();
    session.reorder(&third, 0).unwrap();
    session.leave().unwrap();
    // As if it had been launched from elsewhere, where relative paths lead.
    let file = scene.session().join("queue.json");
    let elsewhere = scene.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut kept: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    kept["folders"]["p1"] = elsewhere.to_str().unwrap().into();
    fs::write(&file, kept.to_string()).unwrap();
    let mut session = scene.restore();
    assert_eq!((session.restored(), runs(&session)), (3, vec![third.clone(), first.clone(), second.clone()]));
    assert_eq!(session.jobs[&third].job.working_folder.as_ref(), Some(&elsewhere));
    // A second takeover has the same, and a file that cannot be read changes nothing.
    session.reorder(&second, 0).unwrap();
    session.leave().unwrap();
    let session = scene.restore();
    assert_eq!(runs(&session), [second.clone(), third.clone(), first.clone()]);
    session.leave().unwrap();
    fs::write(&file, "{").unwrap();
    let mut session = scene.restore();
    assert_eq!(runs(&session), [first, second, third]);
    session.resume_queue().unwrap();
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Finished; 3]);
}

#[test]
fn runs_that_are_taken_over_and_retried_belong_to_the_launch_that_queued_them_whatever_its_name() {
    let scene = Scene::new(UNTIL_TOLD);
    let mut session = scene.open();
    // The plan's file was changed between two launches.
    let first = session.add_plan(&plan(2, "run_time_s = 600"), false).unwrap().runs;
    session.add_plan(&plan(1, "run_time_s = 700"), false).unwrap();
    until_running(&mut session, &first[0]);
    session.leave().unwrap();
    let session = scene.restore();
    // The first run is active, and the second one waits.
    assert!(first.iter().all(|run| session.jobs[run].origin.plan == "p1"));
    assert_eq!(session.jobs[&first[1]].job.limits.run_time_s, Some(600.0));
    session.leave().unwrap();
    // Without a takeover, the second one is interrupted.
    let mut session = scene.open();
    session.retry(&first[1]).unwrap();
    let again = runs(&session).pop().unwrap();
    assert_eq!(session.jobs[&again].origin.plan, "p1");
    assert_eq!(session.jobs[&again].job.limits.run_time_s, Some(600.0));
    session.cancel_all().unwrap();
    to_end(&mut session);
}

/// Ends a session of one finished cell and writes its journal as another version would have, without an index.
fn rewritten(scene: &Scene, change: impl Fn(&str) -> String) {
    let mut session = scene.with_runs(2);
    to_end(&mut session);
    drop(session);
    let folder = scene.session();
    let journal = folder.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.lines().map(|line| change(line) + "\n").collect::<String>()).unwrap();
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("index") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn a_session_from_before_a_factor_and_workloads_is_resumed_under_its_own_ids() {
    let scene = Scene::new(WELL);
    rewritten(&scene, |line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        if line["decision"] == "run_queued" {
            line["cell"] = "0badc0de".into();
            line.as_object_mut().unwrap().remove("workload");
            line["levels"].as_object_mut().unwrap().remove("data_copy");
        }
        line.to_string()
    });
    let mut session = scene.open();
    let added = session.add_plan(&plan(2, ""), true).unwrap();
    assert_eq!((added.runs.len(), added.kept), (0, 2));
    let added = session.add_plan(&plan(3, ""), true).unwrap();
    assert_eq!((added.runs.len(), added.kept), (1, 2));
    to_end(&mut session);
    let cells: Vec<_> = kept(&session).into_iter().map(|record| (record.cell.to_string(), record.repeat)).collect();
    assert_eq!(cells, [1, 2, 3].map(|repeat| ("0badc0de".to_owned(), repeat)));
}

#[test]
fn a_run_with_a_factor_of_a_later_version_is_not_queued_again_and_that_is_said() {
    let scene = Scene::new(WELL);
    rewritten(&scene, |line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        if line["decision"] == "run_queued" {
            line["levels"]["sparsity"] = "2:4".into();
        }
        line.to_string()
    });
    let mut session = scene.open();
    let run = kept(&session)[0].run.to_string();
    let error = session.retry(&run).unwrap_err().to_string();
    assert!(error.contains("sparsity is a factor that this version does not know"), "{error}");
    // It is another cell than the plan's.
    assert_eq!(session.add_plan(&plan(1, ""), true).unwrap().runs.len(), 1);
}

#[test]
fn samples_of_a_site_are_recorded_once_though_the_next_process_reads_them_again() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    let mut notices = Vec::new();
    let run = "0001-a-1";
    let mut take = |session: &mut Session, time_s: f64| {
        let sample = Box::new(Sample { time_s, ..Sample::default() });
        session.take(Update::Sample { run: run.to_owned(), sample }, &mut notices).unwrap();
    };
    take(&mut session, 5.0);
    take(&mut session, 6.0);
    session.flush().unwrap();
    // The next process knows only what is recorded.
    session.sampled_until_s.clear();
    for time_s in [5.0, 6.0, 7.0] {
        take(&mut session, time_s);
    }
    session.flush().unwrap();
    let recorded = session.reader().unwrap().samples(run).unwrap();
    assert_eq!(recorded.iter().map(|sample| sample.time_s).collect::<Vec<_>>(), [5.0, 6.0, 7.0]);
    assert_eq!(notices.len(), 3);
}
