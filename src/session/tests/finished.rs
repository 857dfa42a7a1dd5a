//! What a session's records tell of a plan that has nothing left to run.

use super::*;

const PLAN: &str = "version = 1\nrepeats = 2\n[factors]\nbatch_size = [8, 16]\n";

fn read(text: &str) -> Plan {
    Plan::parse(text, "small.toml").unwrap()
}

/// How many runs are kept, and the reasons of cells left out, if nothing is left to do.
fn left(session: &Session, plan: &Plan) -> Option<(usize, Vec<String>)> {
    session.flush().unwrap();
    let added = all_finished(plan, session.folder(), &session.reader().unwrap()).unwrap()?;
    assert!(added.runs.is_empty(), "{added:?}");
    Some((added.kept, added.invalid.into_iter().map(|cell| cell.reason).collect()))
}

#[test]
fn nothing_is_left_of_a_plan_whose_every_repeat_has_finished_and_something_of_any_other() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    let plan = read(PLAN);
    assert_eq!(left(&session, &plan), None, "the session does not know it");
    session.add_plan(&plan, true).unwrap();
    assert_eq!(left(&session, &plan), None, "its runs wait");
    to_end(&mut session);
    assert_eq!(left(&session, &plan), Some((4, vec![])));
    for (more, why) in [
        (PLAN.replace("repeats = 2", "repeats = 3"), "a repeat more"),
        (PLAN.replace("16]", "16, 32]"), "a level more"),
        (PLAN.replace("repeats = 2", "repeats = 1"), "it is not recorded in these words"),
    ] {
        assert_eq!(left(&session, &read(&more)), None, "{why}");
    }
    session.retry(&runs(&session)[0].clone()).unwrap();
    assert_eq!(left(&session, &plan), None, "a run of it waits, though all repeats are there");
    to_end(&mut session);
    assert_eq!(left(&session, &plan), Some((4, vec![])), "a repeat that finished twice counts once");
}

#[test]
fn a_repeat_that_failed_is_left_to_do() {
    let scene = Scene::new("case $F in *-2) kill -SEGV $$;; esac; started 0; finished 0");
    let mut session = scene.with_runs(2);
    to_end(&mut session);
    assert_eq!(states(&session), [RunState::Finished, RunState::Failed]);
    assert_eq!(left(&session, &plan(2, "")), None);
}

#[test]
fn cells_that_a_constraint_excludes_are_not_waited_for_and_a_study_that_was_deleted_is() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    let rule = "[[constraint]]\nexclude = \"batch_size = 16\"\nreason = \"too large\"\n[[study]]\nname = \"mine\"\n";
    let plan = read(&format!("{PLAN}{rule}"));
    session.add_plan(&plan, true).unwrap();
    to_end(&mut session);
    assert_eq!(left(&session, &plan), Some((2, vec!["too large".to_owned()])));
    session.delete_study("mine").unwrap();
    assert_eq!(left(&session, &plan), None);
}

#[test]
fn a_recording_that_waits_for_its_import_is_left_to_do() {
    let scene = Scene::new(&format!("{WELL}; touch \"$F/trace.events\""));
    let mut session = scene.open();
    let plan = read("version = 1\n[measure]\ntrace = \"built-in\"\n");
    session.add_plan(&plan, true).unwrap();
    to_end(&mut session);
    assert_eq!(left(&session, &plan), Some((1, vec![])));
    let folder = session.folder().to_owned();
    drop(session);
    // As if everything had been killed before the import's end was recorded.
    let journal = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
    let before: String =
        journal.lines().filter(|line| !line.contains("trace_ended")).map(|line| line.to_owned() + "\n").collect();
    assert!(before.len() < journal.len());
    fs::write(folder.join("journal.jsonl"), before).unwrap();
    fs::remove_file(folder.join("session.sqlite")).unwrap();
    assert!(all_finished(&plan, &folder, &open_reader(&folder).unwrap()).unwrap().is_none());
}
