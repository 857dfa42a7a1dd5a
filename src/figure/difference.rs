//! Compares sessions before a change with sessions after it, cell by cell: which cells became faster or slower, with verdicts based on
//! the spread between sessions.

use super::ratio::finished;
use super::study::VERDICT;
use super::table::{CellValue, Column, Row, Table};
use super::verdict_notes::verdict_notes;
use crate::analysis::{
    Better, Cell, Mark, Measure, SESSION, SessionComparison, SessionJudgement, counted, environments_between,
    judge_sessions, summarise, varying,
};

/// The result of a comparison of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// One row for each cell that both sides have.
    pub table: Table,
    /// The outcome of the change, according to the rows.
    pub outcome: DifferenceOutcome,
}

/// Whether a change may be accepted. With several cells, the outcome that is last in this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceOutcome {
    /// Every cell of the sessions before is shown to be no worse than the margin allows.
    NoWorse,
    /// These sessions do not show it, or no session after has one of these cells.
    Open,
    /// A cell became worse, fails, or computes something else.
    Worse,
}

impl DifferenceOutcome {
    fn of(judged: &SessionJudgement) -> Self {
        match () {
            () if judged.is_worse() => Self::Worse,
            () if judged.is_no_worse => Self::NoWorse,
            () => Self::Open,
        }
    }
}

/// A cell in each session that has it, before and after a change.
struct Matched<'a, 'c> {
    before: Vec<&'a Cell<'c>>,
    after: Vec<&'a Cell<'c>>,
    /// Whether a session has the cell in several parts that were made with different things.
    is_mixed: bool,
}

/// The cells of both sides, including those that only one side has.
fn matched<'a, 'c>(before: &'a [Vec<Cell<'c>>], after: &'a [Vec<Cell<'c>>]) -> Vec<Matched<'a, 'c>> {
    let identity = |cell: &Cell| cell.runs.first().and_then(|run| run.identity);
    let mut known = Vec::new();
    let mut all: Vec<Matched> = Vec::new();
    // The index of the session in which each cell was found last.
    let mut last: Vec<usize> = Vec::new();
    let sessions = before.iter().map(|cells| (false, cells)).chain(after.iter().map(|cells| (true, cells)));
    for (session, (is_after, cell)) in sessions
        .enumerate()
        .flat_map(|(session, (is_after, cells))| cells.iter().map(move |cell| (session, (is_after, cell))))
    {
        let Some(identity) = identity(cell) else { continue };
        let place = known.iter().position(|one| *one == identity).unwrap_or_else(|| {
            known.push(identity);
            all.push(Matched { before: Vec::new(), after: Vec::new(), is_mixed: false });
            last.push(usize::MAX);
            all.len() - 1
        });
        all[place].is_mixed |= last[place] == session;
        last[place] = session;
        if is_after { all[place].after.push(cell) } else { all[place].before.push(cell) }
    }
    all
}

/// The marks of a side's finished runs that concern a measure, each once.
fn marks(which: &str, cells: &[&Cell], key: &str) -> Vec<String> {
    let all = cells.iter().flat_map(|cell| finished(cell)).flat_map(|run| &run.marks);
    let of_measure = all.filter(|mark| mark.measure().is_none_or(|concerned| concerned == key));
    let mut labels: Vec<&str> = of_measure.map(Mark::label).collect();
    labels.sort_unstable();
    labels.dedup();
    labels.into_iter().map(|label| format!("{which}: {label}")).collect()
}

/// Compares, by a measure, the cells that sessions before a change share with sessions after it. If low values are
/// good, ratios are inverted, so that above 1 is better. `margin` is the share by which a cell may become worse. All
/// cells are one family of tests. With `with_imported`, imported sessions also get verdicts against measured ones.
pub fn difference(
    before: &[Vec<Cell>],
    after: &[Vec<Cell>],
    measure: &Measure,
    (margin, with_imported): (f64, bool),
) -> Difference {
    let key = &*measure.key;
    let (shared, alone): (Vec<Matched>, Vec<Matched>) =
        matched(before, after).into_iter().partition(|cell| !cell.before.is_empty() && !cell.after.is_empty());
    let family: Vec<SessionComparison> = shared
        .iter()
        .map(|cell| {
            let compared = SessionComparison::of(&cell.before, &cell.after, key, measure.better == Better::Lower);
            let compared =
                if with_imported { compared } else { compared.apart_from_imported(&cell.before, &cell.after) };
            if cell.is_mixed { compared.mixed() } else { compared }
        })
        .collect();
    let judged = judge_sessions(&family, measure.is_speed(), margin);
    let firsts: Vec<Cell> = shared.iter().map(|cell| cell.before[0].clone()).collect();
    let mut settings = if firsts.is_empty() { Vec::new() } else { varying(&firsts) };
    settings.retain(|setting| !setting.is(SESSION));
    let mut columns: Vec<Column> =
        settings.iter().map(|setting| Column::plain(&setting.key, &setting.name, &setting.unit)).collect();
    let of_measure = |key: &str, name: &str| Column {
        shown_unit: measure.shown_unit.clone(),
        shown_factor: measure.shown_factor,
        is_measure: true,
        ..Column::plain(key, name, &measure.unit)
    };
    columns.push(of_measure("before", &format!("{}, before", measure.name)));
    columns.push(of_measure("after", &format!("{}, after", measure.name)));
    columns.push(Column { is_measure: true, ..Column::plain("better", "Times as good", "×") });
    columns.push(Column::plain(VERDICT, "Verdict", ""));
    columns.push(Column::plain("failing", "Failing after", ""));
    let value = |value| Option::map_or(value, CellValue::Missing, CellValue::Measure);
    let values = |cells: &[&Cell], measure: &Measure| -> Vec<f64> {
        cells.iter().flat_map(|cell| finished(cell)).filter_map(|run| run.comparable_value(measure)).collect()
    };
    let row = |(cell, (comparison, judged)): (&Matched, (&SessionComparison, &SessionJudgement))| {
        let first = cell.before[0];
        // A measure whose unit depends on what the workload counts keeps the unit of the cell.
        let own = first.measure(key).filter(|own| own.factor_to(measure).is_none()).unwrap_or(measure);
        let [old, new] = [&cell.before, &cell.after].map(|cells| values(cells, own));
        let levels = settings.iter().map(|one| first.level(&one.key).map_or(CellValue::Missing, CellValue::Level));
        let failing = judged.failing.map_or(CellValue::Missing, |(failed, ended)| {
            CellValue::Text(format!("{failed} of {}", counted(ended, "run")))
        });
        let verdict = CellValue::Verdict(Box::new(judged.judgement.clone()));
        let rest = [value(summarise(&old)), value(summarise(&new)), value(comparison.value()), verdict, failing];
        Row {
            session: String::new(),
            cell: first.id.to_owned(),
            made_with: String::new(),
            data: first.data.to_owned(),
            levels: first.levels.clone(),
            runs: old.len(),
            values: levels.chain(rest).collect(),
            marks: [marks("before", &cell.before, key), marks("after", &cell.after, key)].concat(),
            hidden_marks: Vec::new(),
        }
    };
    let mut rows: Vec<Row> = shared.iter().zip(family.iter().zip(&judged)).map(row).collect();
    if judged.iter().all(|judged| judged.failing.is_none()) {
        columns.pop();
        rows.iter_mut().for_each(|row| drop(row.values.pop()));
    }
    let notes = notes(before, after, &alone, &columns, &rows);
    // A program that crashes before it writes its results leaves no cell.
    let vanished = alone.iter().find(|cell| cell.after.is_empty()).map(|_| DifferenceOutcome::Open);
    let outcome = judged.iter().map(DifferenceOutcome::of).chain(vanished).max().unwrap_or(DifferenceOutcome::Open);
    let mut table = Table { study: "diff".to_owned(), columns, rows, lead: notes.clone(), notes };
    table.shorten_times();
    Difference { table, outcome }
}

fn notes(
    before: &[Vec<Cell>],
    after: &[Vec<Cell>],
    alone: &[Matched],
    columns: &[Column],
    rows: &[Row],
) -> Vec<String> {
    let mut notes = vec![format!(
        "{} before, {} after; cells that both have: {}; above 1 is better; a session is one observation, the mean of its repeats",
        counted(before.len(), "session"),
        counted(after.len(), "session"),
        rows.len()
    )];
    if !alone.is_empty() {
        let of_before = alone.iter().filter(|cell| cell.after.is_empty()).count();
        notes.push(format!(
            "not compared: {} that only sessions before have, {} that only those after have",
            counted(of_before, "cell"),
            counted(alone.len() - of_before, "cell")
        ));
    }
    notes.extend(verdict_notes(&[before.concat(), after.concat()].concat(), columns, rows));
    notes.into_iter().chain(environments_between(&before.concat(), &after.concat())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{RunSummary, cells, fixture, measure, summarise_run};

    /// Six repeats of cells in a session on a day when the machine was this fast.
    fn session(steps: &[(&str, f64)], day: f64) -> Vec<RunSummary> {
        let run = |(precision, step_time_s): &(&str, f64), repeat: u32| {
            let noise = 1.0 + 0.001 * f64::from(repeat % 3);
            summarise_run(&fixture::run(&fixture::cell(precision, 1, "single"), repeat, step_time_s * noise * day))
        };
        steps.iter().flat_map(|cell| (1..=6).map(|repeat| run(cell, repeat)).collect::<Vec<_>>()).collect()
    }

    fn diff(before: &[Vec<RunSummary>], after: &[Vec<RunSummary>], margin: f64) -> (Difference, Vec<String>) {
        let copies = |sessions: &[Vec<RunSummary>]| sessions.to_vec();
        let (before, after) = (copies(before), copies(after));
        let all = |sessions: &'static [Vec<RunSummary>]| sessions.iter().map(|runs| cells(runs)).collect::<Vec<_>>();
        let (before, after) = (all(Vec::leak(before)), all(Vec::leak(after)));
        let found = difference(&before, &after, measure("step_time_s").unwrap(), (margin, false));
        let place = found.table.columns.iter().position(|column| column.key == VERDICT).unwrap();
        let verdict = |row: &Row| match &row.values[place] {
            CellValue::Verdict(judged) => judged.to_string(),
            other => panic!("{other:?} is no verdict"),
        };
        let verdicts = found.table.rows.iter().map(verdict).collect();
        (found, verdicts)
    }

    const STEPS: [(&str, f64); 2] = [("fp32", 0.1), ("fp16", 0.05)];

    #[test]
    fn two_sessions_of_unchanged_code_decide_nothing() {
        // 1.5 % between sessions, 0.1 % between repeats.
        let (found, verdicts) = diff(&[session(&STEPS, 1.0)], &[session(&STEPS, 1.015)], 0.01);
        assert_eq!(found.outcome, DifferenceOutcome::Open);
        assert!(
            verdicts.iter().all(|text| text.starts_with("not comparable: each side is one session")),
            "{verdicts:?}"
        );
    }

    #[test]
    fn a_difference_counts_that_the_spread_between_sessions_does_not_explain() {
        let days =
            |days: &[f64], steps: &[(&str, f64)]| days.iter().map(|day| session(steps, *day)).collect::<Vec<_>>();
        let before = days(&[1.0, 1.015, 0.99], &STEPS);
        let (found, verdicts) = diff(&before, &days(&[1.005, 0.995, 1.01], &STEPS), 0.05);
        assert_eq!(
            (found.outcome, verdicts.as_slice()),
            (DifferenceOutcome::NoWorse, ["equal within 5 %", "equal within 5 %"].map(String::from).as_slice())
        );
        let slower = [("fp32", 0.12), ("fp16", 0.05)];
        let (found, verdicts) = diff(&before, &days(&[1.0, 1.01, 0.995], &slower), 0.05);
        assert_eq!((found.outcome, verdicts[0].as_str()), (DifferenceOutcome::Worse, "slower"));
        // Several sessions on one side show how far sessions differ.
        let (found, verdicts) = diff(&days(&[1.0, 1.015, 0.99, 1.0, 1.01], &STEPS), &[session(&slower, 1.0)], 0.05);
        assert_eq!((found.outcome, verdicts[0].as_str()), (DifferenceOutcome::Worse, "slower"));
    }

    #[test]
    fn a_cell_that_crashes_or_computes_something_else_became_worse() {
        let before = [session(&STEPS, 1.0)];
        let mut crashed = session(&STEPS, 1.0);
        for run in crashed.iter_mut().filter(|run| run.cell.starts_with("fp16")) {
            run.state = crate::analysis::RunState::Failed;
        }
        let (found, _) = diff(&before, &[crashed], 0.01);
        assert_eq!(found.outcome, DifferenceOutcome::Worse);
        assert_eq!(found.table.rows[1].values.last(), Some(&CellValue::Text("6 of 6 runs".to_owned())));
        // Also where one run had failed before.
        let mut before_one = session(&STEPS, 1.0);
        let first = before_one.iter_mut().find(|run| run.cell.starts_with("fp16"));
        first.unwrap().state = crate::analysis::RunState::Failed;
        let mut crashed = session(&STEPS, 1.0);
        for run in crashed.iter_mut().filter(|run| run.cell.starts_with("fp16")) {
            run.state = crate::analysis::RunState::Failed;
        }
        assert_eq!(diff(&[before_one], &[crashed], 0.01).0.outcome, DifferenceOutcome::Worse);
        let mut stupid = session(&STEPS, 0.5);
        for (run, place) in stupid.iter_mut().filter(|run| run.cell.starts_with("fp16")).zip(0..) {
            run.values.insert("accuracy".into(), 0.1 + 0.001 * f64::from(place % 2));
        }
        let (found, verdicts) = diff(&before, &[stupid], 0.01);
        assert_eq!(found.outcome, DifferenceOutcome::Worse);
        assert!(verdicts[1].contains("not comparable"), "{verdicts:?}");
    }

    #[test]
    fn a_session_whose_runs_were_made_with_different_things_is_not_compared() {
        let mut mixed = session(&STEPS, 1.0);
        for run in &mut mixed {
            let mut environment = crate::analysis::Environment::default();
            environment.set("driver", Some(if run.repeat > 3 { "580" } else { "570" }));
            run.environment = Some(std::sync::Arc::new(environment));
        }
        let before = [session(&STEPS, 1.0), session(&STEPS, 1.01), session(&STEPS, 0.99)];
        let (found, verdicts) = diff(&before, &[mixed], 0.05);
        assert_eq!((found.outcome, found.table.rows.len()), (DifferenceOutcome::Open, 2));
        assert!(verdicts.iter().all(|text| text.contains("from different environments")), "{verdicts:?}");
    }

    #[test]
    fn nothing_is_said_of_sessions_below_the_resolution_of_their_clocks() {
        let coarse = |day: f64| {
            let mut runs = session(&STEPS, day);
            runs.iter_mut().for_each(|run| run.told_resolution_s = Some(0.004));
            runs
        };
        let before = [coarse(1.0), coarse(1.001), coarse(0.999)];
        let after = [coarse(1.03), coarse(1.031), coarse(1.029)];
        let (found, verdicts) = diff(&before, &after, 0.01);
        assert_eq!(found.outcome, DifferenceOutcome::Open, "{verdicts:?}");
        assert!(verdicts[0].contains("the clock is too coarse"), "{verdicts:?}");
        // 20 % is more than 4 or 8 % of rounding.
        let after = [coarse(1.2), coarse(1.201), coarse(1.199)];
        assert_eq!(diff(&before, &after, 0.01).0.outcome, DifferenceOutcome::Worse);
    }

    #[test]
    fn cells_of_one_side_alone_are_counted() {
        let (found, _) = diff(&[session(&STEPS, 1.0)], &[session(&[("fp32", 0.1), ("bf16", 0.05)], 1.0)], 0.01);
        assert_eq!(found.table.rows.len(), 1);
        assert_eq!(
            found.table.notes[1],
            "not compared: 1 cell that only sessions before have, 1 cell that only those after have"
        );
    }

    #[test]
    fn a_cell_that_vanished_is_not_shown_to_be_no_worse_and_a_new_one_changes_nothing() {
        let days = |steps: &[(&str, f64)]| [1.0, 1.002, 0.999].map(|day| session(steps, day)).to_vec();
        let (both, one) = (days(&STEPS), days(&STEPS[..1]));
        let outcome = |before: &[Vec<RunSummary>], after: &[Vec<RunSummary>]| diff(before, after, 0.05).0.outcome;
        assert_eq!(outcome(&both, &both), DifferenceOutcome::NoWorse);
        assert_eq!(outcome(&both, &one), DifferenceOutcome::Open);
        assert_eq!(outcome(&one, &both), DifferenceOutcome::NoWorse);
        let slower = days(&[("fp32", 0.2)]);
        assert_eq!(outcome(&both, &slower), DifferenceOutcome::Worse);
    }

    #[test]
    fn imported_sessions_get_no_verdict_with_own_ones_unless_it_is_asked_for() {
        let own: Vec<Vec<RunSummary>> = [1.0, 1.002, 0.999].iter().map(|day| session(&[("fp32", 0.1)], *day)).collect();
        let mut imported: Vec<Vec<RunSummary>> =
            [1.0, 1.001, 0.998].iter().map(|day| session(&[("fp32", 0.2)], *day)).collect();
        let mut environment = crate::analysis::Environment::default();
        environment.set(crate::analysis::IMPORTED_FROM, Some("other.csv (CSV)"));
        let environment = std::sync::Arc::new(environment);
        imported.iter_mut().flatten().for_each(|run| run.environment = Some(environment.clone()));
        let cells_of =
            |sessions: &'static [Vec<RunSummary>]| sessions.iter().map(|runs| cells(runs)).collect::<Vec<_>>();
        let (own, imported) = (cells_of(own.leak()), cells_of(imported.leak()));
        let assumed = "verdicts assume that each imported session is independent of the others; files do not show it";
        let verdict = |with_imported: bool| {
            let found = difference(&own, &imported, measure("step_time_s").unwrap(), (0.01, with_imported));
            let place = found.table.columns.iter().position(|column| column.key == VERDICT).unwrap();
            let CellValue::Verdict(judged) = &found.table.rows[0].values[place] else { panic!("no verdict") };
            assert_eq!(found.table.notes.iter().filter(|note| *note == assumed).count(), 1, "{:?}", found.table.notes);
            judged.to_string()
        };
        let kept_apart = verdict(false);
        assert!(kept_apart.contains("one was imported, and the other was measured here"), "{kept_apart}");
        assert!(verdict(true).starts_with("slower"), "{}", verdict(true));
    }
}
