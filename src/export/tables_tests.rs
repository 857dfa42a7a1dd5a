use std::sync::Arc;

use super::*;
use crate::analysis::fixture;
use crate::plan::{Command, WorkloadSpec};
use crate::protocol::loss_not_finite;

/// Keeps what is written: the values of each row.
#[derive(Default)]
struct Kept(Vec<Vec<String>>);

impl Sink for Kept {
    fn begin(&mut self, _head: &[Value]) -> Result<(), ExportError> {
        Ok(())
    }

    fn row(&mut self, rest: &[Value]) -> Result<(), ExportError> {
        self.0.push(rest.iter().map(|value| format!("{value:?}")).collect());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        Ok(())
    }
}

/// The values of a column in the steps of a run's first rank.
fn of_steps(record: &RunRecord, name: &str) -> Vec<String> {
    let mut kept = Kept::default();
    let mut rows = Rows { sink: &mut kept, rows: 0, stop: &|| false };
    assert!(steps(record, &record.ranks[0], &[], &mut rows).is_ok());
    let place = STEPS.iter().position(|(column, _)| *column == name).unwrap();
    kept.0.into_iter().map(|mut row| row.swap_remove(place)).collect()
}

#[test]
fn waits_and_losses_that_no_program_reported_are_unknown_and_a_loss_that_is_no_number_stays_one() {
    let workers = fixture::finished();
    let command = Some(Arc::new(Command::default()));
    let workload = Arc::new(WorkloadSpec { command, ..(*workers.workload).clone() });
    let mut record = RunRecord { workload, ..workers };
    record.ranks[0].steps.truncate(2);
    let first = &mut record.ranks[0].steps[0];
    (first.loss, first.load_wait_s) = (f64::NAN, f64::NAN);
    assert_eq!(of_steps(&record, "loss"), ["Unknown", "Number(1.0)"]);
    assert_eq!(of_steps(&record, "load_wait_s"), ["Unknown", "Number(1.0)"]);
    let mut diverged = record.clone();
    diverged.ranks[0].warnings.push(loss_not_finite(1));
    assert_eq!(of_steps(&diverged, "loss"), ["Number(NaN)", "Number(1.0)"]);
    assert_eq!(of_steps(&diverged, "load_wait_s"), ["Unknown", "Number(1.0)"]);
    // The worker reports the loss of each step.
    let of_worker = RunRecord { workload: workers.workload, ..record };
    assert_eq!(of_steps(&of_worker, "loss"), ["Number(NaN)", "Number(1.0)"]);
}

#[test]
fn a_filter_that_names_a_level_exactly_selects_no_run_of_another_level() {
    let run = |level: &str| RunRecord {
        run: level.to_owned(),
        levels: Levels::new(vec![(Key::from("v"), Level::text(level))]),
        ..fixture::finished()
    };
    let chosen = |levels: [&str; 2]| -> Vec<String> {
        let headings = admitted(&levels.map(run), &Filter::parse("v=2.10").unwrap()).unwrap();
        headings.into_iter().map(|heading| heading.run).collect()
    };
    assert_eq!(chosen(["2.1", "2.10"]), ["2.10"]);
    assert!(chosen(["2.1", "2.2"]).is_empty(), "2.1 is another version");
    let order = admitted(&["2.1", "2.10"].map(run), &Filter::parse("v>=2").unwrap()).err().unwrap().to_string();
    assert!(order.contains("have no order (2.1, 2.10)"), "{order}");
}

#[test]
fn a_filter_finds_a_column_and_the_factor_of_the_same_key_by_different_names_and_says_so() {
    let levels = ["plan", "state", "mode"].map(|key| (Key::from(key), Level::text("own")));
    let records = [RunRecord { levels: Levels::new(levels.to_vec()), ..fixture::finished() }];
    let count = |filter: &str| admitted(&records, &Filter::parse(filter).unwrap()).unwrap().len();
    assert_eq!([count("plan=own"), count("factor_plan=own"), count("factor_state=own")], [0, 1, 1]);
    assert_eq!([count("state=finished"), count("factor_state=finished"), count("factor_mode=own")], [1, 0, 1]);
    let meanings_of = |filter: &str| meanings(&records, &Filter::parse(filter).unwrap());
    assert_eq!(meanings_of("State=own word"), ["state means the column state; write factor_state for the factor"]);
    assert_eq!(
        meanings_of("mode=own"),
        ["mode means the factor mode for runs that have it, and the setting for all others"]
    );
    assert!(meanings_of("factor_plan=own data=digits gpu!=1").is_empty());
    assert_eq!(meanings_of("not version_=2"), ["no run has version_"]);
}

#[test]
fn a_filter_selects_runs_by_a_programs_factors_that_have_the_keys_of_settings() {
    let admits = |record: &RunRecord, filter: &str| {
        Filter::parse(filter).unwrap().admits(&Listed { record, words: String::new() })
    };
    let recorded = RunRecord { tracer: Tracer::Nsys, ..fixture::finished() };
    let keys = ["workload", "data", "mode", Tracer::KEY, "commit", "machine", "date"];
    let levels = keys.map(|key| (Key::from(key), Level::text("own"))).to_vec();
    let own = RunRecord { levels: Levels::new(levels), ..recorded.clone() };
    for key in keys {
        assert!(admits(&own, &format!("{key}=own")) && !admits(&recorded, &format!("{key}=own")), "{key}");
    }
    for filter in ["mode=full", "data=digits", "trace=nsys", "trace=on"] {
        assert!(admits(&recorded, filter) && !admits(&own, filter), "{filter}");
    }
    let names: Vec<Key> = factors(&[Heading { run: String::new(), levels: own.levels }])
        .iter()
        .map(|(key, _)| factor_column(key))
        .collect();
    assert!(names.contains(&Key::from("factor_mode")) && names.contains(&Key::from("trace")), "{names:?}");
}
