//! The command that is copied from the screen divides by the baseline that the screen keeps.

use super::*;

/// The baseline that the copied command names.
fn copied_baseline(state: &State) -> Option<String> {
    let line = state.command_line().unwrap();
    let (_, after) = line.split_once(" --baseline ")?;
    after.split(' ').next().map(str::to_owned)
}

/// Checks that the copied command prints the rows on screen.
fn assert_printed_as_shown(state: &State) {
    let compare = state.own::<CompareScreen>();
    let sources = state.desk.sources();
    let analysed: Vec<analysis::Source> = sources.iter().map(Source::analysed).collect();
    let asked = Study { baseline: copied_baseline(state), ..compare.study.clone() };
    let printed = crate::figure::table(&analysed, &asked).rows;
    let shown = &compare.picture.as_ref().unwrap().comparison.table.rows;
    assert_eq!(format!("{printed:#?}"), format!("{shown:#?}"));
}

#[test]
fn the_copied_command_names_the_baseline_that_is_kept_while_the_filter_hides_it() {
    let mut state = state_of(records("s", small()));
    assert_eq!(copied_baseline(&state), None, "the command finds the same one");
    change(&mut state, |study| study.filter = "gpus=2".to_owned());
    assert_eq!(copied_baseline(&state).as_deref(), Some("fp32-1-ddp-ds"));
    assert_printed_as_shown(&state);
    send(&mut state, CompareCommand::Baseline(None));
    assert_eq!(copied_baseline(&state), None, "it is the first shown cell");
    assert_printed_as_shown(&state);
    change(&mut state, |study| study.filter.clear());
    assert_eq!(copied_baseline(&state).as_deref(), Some("fp32-2-ddp-ds"), "it is not the first of all cells");
    assert_printed_as_shown(&state);
    send(&mut state, CompareCommand::Baseline(Some("fp16-1-ddp-ds".to_owned())));
    assert_eq!(copied_baseline(&state).as_deref(), Some("fp16-1-ddp-ds"));
    assert_printed_as_shown(&state);
}

#[test]
fn the_copied_command_names_the_baseline_that_is_kept_when_another_first_cell_arrives() {
    let mut late: Vec<RunRecord> = small();
    let early: Vec<RunRecord> = late.drain(..2).collect();
    let mut state = state_of(records("s", late.clone()));
    assert_eq!(copied_baseline(&state), None);
    state.desk.records = records("s", early.into_iter().chain(late).collect());
    state.own_mut::<CompareScreen>().stale = true;
    assert_eq!(copied_baseline(&state).as_deref(), Some("fp32-2-ddp-ds"), "also before the new cell is shown");
    settle(&mut state);
    assert_eq!(copied_baseline(&state).as_deref(), Some("fp32-2-ddp-ds"));
    assert_printed_as_shown(&state);
}
