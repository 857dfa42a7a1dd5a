//! Searches with real processes: they queue their rounds by themselves, pause where the user stops them, and take the
//! same steps after any kill.

use std::sync::Arc;

use super::*;
use crate::plan::{DropReason, Dropped, SearchEnd, SearchStep};

/// A program whose step time depends on the batch size, with a little noise from the repeat. Batches of 64 run out of
/// memory.
const BY_BATCH: &str = r#"
started 0
case $(grep -o '"batch_size": *[0-9]*' "$2" | head -1) in
  *16) d=0.0300;; *32) d=0.0200;; *64) failed 0 "CUDA out of memory"; exit 1;; *) d=0.0250;;
esac
for step in 1 2 3 4; do
  say 0 100$step "\"event\":\"step\",\"epoch\":1,\"step\":$step,\"steps\":4,\"duration_s\":$d${RUN##*-},\"load_wait_s\":0,\"loss\":1,\"units\":32,\"warm_up\":false"
done
finished 0"#;

fn search(more: &str) -> Plan {
    let text = format!(
        "version = 1\nname = \"s\"\nrepeats = 6\n[factors]\nbatch_size = [16, 32, 48, 64]\n[search]\ngoal = \"min step_time_s\"\n{more}"
    );
    Plan::parse(&text, "s.toml").unwrap()
}

fn steps(session: &Session) -> Vec<SearchStep> {
    session.flush().unwrap();
    session.reader().unwrap().searches().unwrap().pop().map(|(_, steps)| steps).unwrap_or_default()
}

/// The batch size of a cell.
fn batch_of(session: &Session, cell: &str) -> i64 {
    let record = kept(session).into_iter().find(|record| record.cell == cell).unwrap();
    record.levels.get("batch_size").unwrap().as_integer().unwrap()
}

#[test]
fn a_search_queues_its_rounds_by_itself_until_it_has_an_answer() {
    let scene = Scene::new(BY_BATCH);
    let mut session = scene.open();
    let added = session.add_plan(&search(""), false).unwrap();
    assert_eq!((added.runs.len(), added.search.as_deref()), (4, Some("p1")));
    to_end(&mut session);
    let steps = steps(&session);
    let Some(SearchStep::Ended(verdict)) = steps.last() else { panic!("{steps:?}") };
    assert_eq!((verdict.end, batch_of(&session, verdict.chosen.as_ref().unwrap())), (SearchEnd::One, 32));
    assert_eq!(verdict.made.runs, kept(&session).len() as u64);
    assert!(verdict.made.runs < 12 && verdict.grid.runs == 24, "{verdict:?}");
    let SearchStep::Round { round: 1, dropped, .. } = &steps[1] else { panic!("{steps:?}") };
    let [lost] = &dropped[..] else { panic!("{dropped:?}") };
    assert_eq!(batch_of(&session, &lost.cell), 64);
    assert!(matches!(&lost.why, DropReason::Failed { why } if why.contains("out of memory")), "{lost:?}");
    // Its words are made once, and are those of its report.
    let seen = |session: &Session| session.searches().next().unwrap().lines;
    assert!(Arc::ptr_eq(&seen(&session), &seen(&session)));
    assert_eq!(*seen(&session), search_reports(&session.reader().unwrap()).unwrap()[0].lines);
    // All cells of a round have the same repeat and seed.
    assert!(kept(&session).iter().all(|record| record.seed == u64::from(record.repeat) && record.launch == "p1"));
    // A search that is over does not run again. A launch that keeps nothing begins a new search with new repeats.
    let again = session.add_plan(&search(""), true).unwrap();
    assert_eq!((again.runs.len(), again.kept, again.search.as_deref()), (0, verdict.made.runs as usize, Some("p1")));
    let anew = session.add_plan(&search(""), false).unwrap();
    assert_eq!((anew.runs.len(), anew.search.as_deref()), (4, Some("p2")));
    assert!(anew.runs.iter().all(|run| !run.ends_with("-1")), "{anew:?}");
    session.cancel_all().unwrap();
    to_end(&mut session);
}

#[test]
fn a_search_that_the_user_stops_rests_until_its_plan_is_launched_again() {
    let scene = Scene::new(BY_BATCH);
    let mut session = scene.open();
    let added = session.add_plan(&search(""), false).unwrap();
    let first = added.runs[0].clone();
    until(
        &mut session,
        "the first run ends",
        |notice| matches!(notice, Notice::State { run, state, .. } if *run == first && state.is_final()),
    );
    session.cancel_all().unwrap();
    to_end(&mut session);
    assert_eq!(kept(&session).len(), 4);
    assert!(steps(&session).len() == 1, "a round with cancelled runs decides nothing");
    session.leave().unwrap();
    let mut session = scene.open();
    to_end(&mut session);
    assert_eq!(kept(&session).len(), 4, "it goes on only when it is asked to");
    let added = session.add_plan(&search(""), true).unwrap();
    assert_eq!(added.search.as_deref(), Some("p1"), "the same search");
    assert!(added.runs.len() <= 3 && added.kept >= 1, "{added:?}");
    to_end(&mut session);
    assert!(matches!(steps(&session).last(), Some(SearchStep::Ended(_))));
}

#[test]
fn a_search_with_a_question_that_cannot_be_answered_queues_nothing() {
    let scene = Scene::new(BY_BATCH);
    let mut session = scene.open();
    let refused = |session: &mut Session, more: &str| session.add_plan(&search(more), false).unwrap_err().to_string();
    assert!(refused(&mut session, "keep = \"speed > 3\"").contains("there is no measure \"speed\""));
    assert!(refused(&mut session, "runs = 3").contains("3 runs are fewer than one of each of 4 cells"));
    assert!(session.is_idle() && kept(&session).is_empty());
    assert!(session.reader().unwrap().plans().unwrap().is_empty());
}

/// A copy of a session whose journal ends after this number of lines, as if its conductor had been killed then.
fn cut_off(session: &Path, to: &Path, lines: usize) {
    let copied = Command::new("cp").arg("-r").arg(session).arg(to).status().unwrap();
    assert!(copied.success());
    let journal = fs::read_to_string(session.join("journal.jsonl")).unwrap();
    let kept: String = journal.lines().take(lines).map(|line| format!("{line}\n")).collect();
    fs::write(to.join("journal.jsonl"), kept).unwrap();
    for entry in fs::read_dir(to).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("session.sqlite") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    // What was not started yet has no folder.
    let journal = fs::read_to_string(to.join("journal.jsonl")).unwrap();
    let started: Vec<&str> = journal.lines().filter(|line| line.contains("\"run_started\"")).collect();
    for entry in fs::read_dir(to.join("runs")).unwrap().flatten() {
        let run = format!("\"{}\"", entry.file_name().to_string_lossy());
        if !started.iter().any(|line| line.contains(&run)) {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}

#[test]
fn a_search_that_is_killed_at_any_point_of_its_journal_goes_on_in_the_same_way() {
    let scene = Scene::new(BY_BATCH);
    let mut session = scene.open();
    session.add_plan(&search(""), false).unwrap();
    to_end(&mut session);
    let whole = steps(&session);
    let order = |session: &Session| -> Vec<(String, u32)> {
        kept(session).into_iter().map(|record| (record.cell, record.repeat)).collect()
    };
    let runs = order(&session);
    let folder = session.folder().to_owned();
    session.leave().unwrap();
    let journal = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
    let lines = journal.lines().count();
    let begun = journal.lines().position(|line| line.contains("\"searched\"")).unwrap() + 1;
    // The times of runs differ, and the verdict contains their sum. Why a run failed is said in other words if nobody watched it.
    let but_times = |steps: &[SearchStep]| -> Vec<SearchStep> {
        let without = |step: &SearchStep| match step {
            SearchStep::Round { round, dropped, next } => {
                let plain = |lost: &Dropped| match &lost.why {
                    DropReason::Failed { .. } => {
                        Dropped { why: DropReason::Failed { why: String::new() }, ..lost.clone() }
                    }
                    _ => lost.clone(),
                };
                SearchStep::Round { round: *round, dropped: dropped.iter().map(plain).collect(), next: next.clone() }
            }
            SearchStep::Ended(verdict) => {
                let mut verdict = verdict.clone();
                (verdict.made.time_s, verdict.grid.time_s) = (0.0, 0.0);
                SearchStep::Ended(verdict)
            }
            step => step.clone(),
        };
        steps.iter().map(without).collect()
    };
    for cut in begun..=lines {
        let copy = scene.folder.path().join(format!("cut-{cut}"));
        cut_off(&folder, &copy, cut);
        let mut session = scene.open_at(&copy, true);
        session.resume_queue().unwrap();
        to_end(&mut session);
        if !matches!(steps(&session).last(), Some(SearchStep::Ended(_))) {
            // The first round had not been queued as a whole, or no run was left: the plan is launched again.
            session.add_plan(&search(""), true).unwrap();
            to_end(&mut session);
        }
        assert_eq!(but_times(&steps(&session)), but_times(&whole), "cut after line {cut}");
        assert_eq!(order(&session).len(), runs.len(), "cut after line {cut}: no run is made twice");
        session.leave().unwrap();
        fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
fn a_search_that_was_left_between_two_rounds_queues_nothing_until_its_plan_is_launched_again() {
    let scene = Scene::new(BY_BATCH);
    let mut session = scene.open();
    session.add_plan(&search(""), false).unwrap();
    to_end(&mut session);
    let folder = session.folder().to_owned();
    session.leave().unwrap();
    // As if the user had stopped it when the last run of the first round had just ended.
    let journal = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
    let (last, _) = journal.lines().enumerate().filter(|(_, line)| line.contains("\"run_ended\"")).nth(3).unwrap();
    let copy = scene.folder.path().join("stopped");
    cut_off(&folder, &copy, last + 1);
    let mut session = scene.open_at(&copy, true);
    assert_eq!((session.restored(), kept(&session).len()), (0, 4), "nothing waits for an order");
    session.resume_queue().unwrap();
    to_end(&mut session);
    assert_eq!(kept(&session).len(), 4, "an order for another plan's runs does not start it");
    session.add_plan(&search(""), true).unwrap();
    to_end(&mut session);
    assert!(matches!(steps(&session).last(), Some(SearchStep::Ended(_))));
}

#[test]
fn a_search_whose_runs_wait_goes_on_to_its_answer_once_the_next_process_resumes_them() {
    let scene = Scene::new(BY_BATCH);
    let mut session = scene.open();
    session.pause_queue();
    session.add_plan(&search(""), false).unwrap();
    session.leave().unwrap();
    let mut session = scene.restore();
    assert_eq!((session.restored(), session.searches().count()), (4, 1));
    session.resume_queue().unwrap();
    to_end(&mut session);
    assert!(matches!(steps(&session).last(), Some(SearchStep::Ended(_))), "nobody launched its plan again");
}
