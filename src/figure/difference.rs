//! Two sessions cell by cell: which cells became faster or slower, with verdicts.

use super::notes::verdict_note;
use super::ratio::{by_repeat, finished};
use super::study::VERDICT;
use super::table::{CellValue, Column, Row, Table};
use crate::analysis::{
    Better, Cell, Mark, Measure, Verdict, environments_between, judge, log_ratios, ratio, summarise, varying,
};

/// What a comparison of two sessions says.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// One row a cell that both have.
    pub table: Table,
    /// Cells that became worse: slower, or lower where high is good.
    pub worse: usize,
}

/// The marks of a cell's finished runs, each once.
fn marks<'a>(which: &'a str, cell: &'a Cell) -> impl Iterator<Item = String> + use<'a> {
    let mut labels: Vec<&str> = finished(cell).flat_map(|run| &run.marks).map(Mark::label).collect();
    labels.sort_unstable();
    labels.dedup();
    labels.into_iter().map(move |label| format!("{which}: {label}"))
}

/// Compares the cells that two sessions share by a measure: `before` and `after` are the cells of one session each. Ratios are the
/// other way round where low values are good, so that above 1 is better; repeats are paired by their number. All cells are one
/// family of verdicts.
pub fn difference(before: &[Cell], after: &[Cell], measure: &Measure, equal_within: f64) -> Difference {
    let key = &*measure.key;
    let identity = |cell: &Cell| cell.runs.first().and_then(|run| run.identity);
    let pairs: Vec<(&Cell, &Cell)> = before
        .iter()
        .filter_map(|old| {
            let new = after.iter().find(|new| identity(new).is_some() && identity(new) == identity(old))?;
            Some((old, new))
        })
        .collect();
    let sides = |(old, new): &(&Cell, &Cell)| {
        let (old, new) = (by_repeat(old, key), by_repeat(new, key));
        if measure.better == Better::Lower { (old, new) } else { (new, old) }
    };
    let logs: Vec<Vec<f64>> = pairs.iter().map(sides).map(|(over, base)| log_ratios(&over, &base)).collect();
    let judged = judge(&logs, measure.is_speed(), equal_within);
    let is_worse = |verdict: Verdict| matches!(verdict, Verdict::Slower | Verdict::Lower);
    let plain = |key: &str, name: &str, unit: &str| Column {
        key: key.into(),
        name: name.to_owned(),
        unit: unit.to_owned(),
        shown_unit: unit.to_owned(),
        shown_factor: 1.0,
        is_measure: false,
    };
    let of_measure = |key: &str, name: &str| Column {
        shown_unit: measure.shown_unit.clone(),
        shown_factor: measure.shown_factor,
        is_measure: true,
        ..plain(key, name, &measure.unit)
    };
    let shared: Vec<Cell> = pairs.iter().map(|(old, _)| (*old).clone()).collect();
    let settings = if shared.is_empty() { Vec::new() } else { varying(&shared) };
    let mut columns: Vec<Column> =
        settings.iter().map(|setting| plain(&setting.key, &setting.name, &setting.unit)).collect();
    columns.push(of_measure("before", &format!("{}, before", measure.name)));
    columns.push(of_measure("after", &format!("{}, after", measure.name)));
    columns.push(Column { is_measure: true, ..plain("better", "Times as good", "×") });
    columns.push(plain(VERDICT, "Verdict", ""));
    let value = |value| Option::map_or(value, CellValue::Missing, CellValue::Measure);
    let median = |cell: &Cell| summarise(&by_repeat(cell, key).iter().map(|pair| pair.1).collect::<Vec<_>>());
    let rows = pairs.iter().zip(&judged).map(|(pair, judgement)| {
        let (old, new) = *pair;
        let (over, base) = sides(pair);
        let levels = settings.iter().map(|one| old.level(&one.key).map_or(CellValue::Missing, CellValue::Level));
        let rest = [value(median(old)), value(median(new)), value(ratio(&over, &base)), CellValue::Verdict(*judgement)];
        Row {
            session: String::new(),
            cell: old.id.to_owned(),
            data: old.data.to_owned(),
            levels: old.levels.clone(),
            runs: by_repeat(old, key).len(),
            values: levels.chain(rest).collect(),
            marks: marks("before", old).chain(marks("after", new)).collect(),
        }
    });
    let rows: Vec<Row> = rows.collect();
    let mut notes =
        vec![format!("cells in both sessions: {}; above 1 is better; repeats are paired by their number", rows.len())];
    let only = (before.len() - rows.len(), after.len() - rows.len());
    if only != (0, 0) {
        notes.push(format!("not compared: {} cells of the session before alone, {} of the one after", only.0, only.1));
    }
    notes.extend(verdict_note(&columns, &rows));
    let notes: Vec<String> = notes.into_iter().chain(environments_between(before, after)).collect();
    let worse = judged.iter().filter(|judgement| is_worse(judgement.verdict)).count();
    Difference { table: Table { study: "diff".to_owned(), columns, rows, lead: notes.clone(), notes }, worse }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{RunSummary, cells, fixture, measure, summarise_run};

    /// Five repeats of cells; `shift` makes the noise of two sessions differ.
    fn session(steps: &[(&str, f64)], shift: u32) -> Vec<RunSummary> {
        let run = |(precision, step_time_s): &(&str, f64), repeat: u32| {
            let noise = 1.0 + 0.001 * f64::from((repeat + shift) % 3);
            summarise_run(&fixture::run(&fixture::cell(precision, 1, "single"), repeat, step_time_s * noise))
        };
        steps.iter().flat_map(|cell| (1..=5).map(|repeat| run(cell, repeat)).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn a_cell_that_became_slower_is_a_regression_and_one_that_is_equal_is_none() {
        let before = session(&[("fp32", 0.1), ("fp16", 0.05), ("fp64", 0.4)], 0);
        let after = session(&[("fp32", 0.12), ("fp16", 0.05), ("bf16", 0.05)], 1);
        let found = difference(&cells(&before), &cells(&after), measure("step_time_s").unwrap(), 0.01);
        assert_eq!((found.table.rows.len(), found.worse), (2, 1));
        let verdict = |row: &Row| match row.values.last().unwrap() {
            CellValue::Verdict(judged) => judged.to_string(),
            other => panic!("{other:?} is no verdict"),
        };
        let verdicts: Vec<String> = found.table.rows.iter().map(verdict).collect();
        assert_eq!(verdicts, ["slower", "equal within 1 %"]);
        assert!(
            found.table.notes[1].starts_with("not compared: 1 cells of the session before"),
            "{:?}",
            found.table.notes
        );
        let back = difference(&cells(&after), &cells(&before), measure("images_per_s").unwrap(), 0.01);
        assert_eq!(back.worse, 0);
    }
}
