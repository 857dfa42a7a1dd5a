//! Makes the table of a study's cells: the columns that the study asks for, one row for each cell or epoch, and notes.

use std::collections::{BTreeSet, HashMap};

use super::baseline::Baseline;
use super::notes::{is_about_shown, lead, notes};
use super::ratio::{by_repeat, cost_over, epoch_values, epochs, finished, judge_cells, over_baseline};
use super::sibling::Against;
use super::study::{
    CHANGE, CHANGE_PLACE, COST_NAME, DECLARED, FRONT, OF_STEPS, RATIO, SPEEDUP, SPEEDUP_NAME, STEP_COST, Study,
    VERDICT, declared, is_measure, judged_ratio,
};
use super::table::{CellValue, Column, Row, Table};
use crate::analysis::{
    Cell, CellKey, Intervals, Judgement, Key, Mark, Measure, RunState, Setting, THROUGHPUT, measure_of,
};

/// Summarises the runs of cells as rows, with columns for these settings. Only finished runs are included in values. Notes name the other
/// runs, and their cells have rows, too.
pub(super) fn table_of(study: &Study, settings: &[Setting], cells: &[Cell], baseline: &Baseline) -> Table {
    let columns = columns(study, settings, cells);
    let of_column = |column: &Column| match Against::of_verdict(&column.key) {
        Some(against) => Some((column.key.clone(), against.verdicts(baseline.among, study.equal_within))),
        None => (column.key == VERDICT).then(|| (column.key.clone(), verdicts(study, baseline))),
    };
    let verdicts: HashMap<Key, HashMap<CellKey, Judgement>> = columns.iter().filter_map(of_column).collect();
    let value = |column: &Column, cell: &Cell, epoch: Option<u32>| match verdicts.get(&column.key) {
        Some(judged) => {
            judged.get(&cell.key()).map_or(CellValue::Missing, |judged| CellValue::Verdict(Box::new(judged.clone())))
        }
        None => cell_value(&column.key, cell, epoch, baseline, Intervals::ByCount),
    };
    let row = |cell: &Cell, epoch: Option<u32>| Row {
        session: cell.session.to_owned(),
        cell: cell.id.to_owned(),
        made_with: cell.made_with.to_string(),
        data: cell.data.to_owned(),
        levels: cell.levels.clone(),
        runs: finished(cell).count(),
        values: columns.iter().map(|column| value(column, cell, epoch)).collect(),
        marks: marks(cell),
        hidden_marks: hidden_marks(cell, &columns, baseline),
    };
    let rows = cells.iter().flat_map(|cell| {
        let epochs = if study.by_epoch { epochs(cell) } else { Vec::new() };
        let of_run = epochs.is_empty().then_some(None);
        epochs.into_iter().map(Some).chain(of_run).map(|epoch| row(cell, epoch)).collect::<Vec<_>>()
    });
    let rows: Vec<Row> = rows.collect();
    let lead = lead(cells, &columns, &rows, baseline);
    let notes = notes(study, cells, &columns, &rows, baseline);
    Table { study: study.name.clone(), columns, rows, notes, lead }
}

/// Judges each cell's ratio to its baseline. All cells of the study are one family, including those that its filter hides, because they
/// were compared, too.
fn verdicts(study: &Study, baseline: &Baseline) -> HashMap<CellKey, Judgement> {
    let measures = study.table_measures();
    let key = match judged_ratio(&measures).map(|place| &*measures[place]) {
        Some(SPEEDUP) => THROUGHPUT.into(),
        Some(STEP_COST) => OF_STEPS.into(),
        _ => baseline.ratio_of.clone(),
    };
    let pair = |cell| {
        let base = baseline.of(cell).filter(|base| base.key() != cell.key() && !by_repeat(cell, &key).is_empty())?;
        Some((cell, base))
    };
    let pairs: Vec<(&Cell, &Cell)> = baseline.among.iter().filter_map(pair).collect();
    let judged = judge_cells(&pairs, &key, study.equal_within);
    pairs.iter().map(|(cell, _)| cell.key()).zip(judged).collect()
}

fn columns(study: &Study, varying: &[Setting], cells: &[Cell]) -> Vec<Column> {
    let plain = Column::plain;
    let mut columns: Vec<Column> =
        varying.iter().map(|setting| plain(&setting.key, &setting.name, &setting.unit)).collect();
    if study.by_epoch {
        columns.push(plain("epoch", "Epoch", ""));
    }
    columns.push(plain("runs", "Runs", ""));
    columns.extend(measure_keys(study, cells).iter().map(|key| match (measure_of(cells, key), Against::find(key)) {
        (Some(measure), _) => Column {
            shown_unit: measure.shown_unit.clone(),
            shown_factor: measure.shown_factor,
            is_measure: true,
            ..plain(key, &measure.name, &measure.unit)
        },
        (None, Some(against)) => {
            let percent = Column { shown_unit: "%".into(), shown_factor: 100.0, ..plain(key, against.name, "×") };
            Column { is_measure: true, ..percent }
        }
        (None, None) if key == VERDICT => plain(key, "Verdict", ""),
        (None, None) if Against::of_verdict(key).is_some() => {
            plain(key, &Against::of_verdict(key).map_or(String::new(), Against::verdict_name), "")
        }
        (None, None) if key == CHANGE => Column { is_measure: true, ..plain(key, "Change", "×") },
        (None, None) if key == CHANGE_PLACE => plain(key, "Changed between", ""),
        (None, None) if key == FRONT => plain(key, "Pareto front", ""),
        (None, None) if key == STEP_COST => {
            let percent = Column { shown_unit: "%".into(), shown_factor: 100.0, ..plain(key, COST_NAME, "") };
            Column { is_measure: true, ..percent }
        }
        (None, None) if key == RATIO => {
            // The name includes the measure, because speed-ups of times and of throughput differ in their last digits.
            let speed = measure_of(cells, &study.ratio_of()).filter(|speed| speed.is_speed());
            let name = speed
                .map_or("Ratio vs baseline".to_owned(), |speed| format!("Speed-up by {}", speed.name.to_lowercase()));
            Column { is_measure: true, ..plain(key, &name, "×") }
        }
        (None, None) => Column { is_measure: true, ..plain(key, SPEEDUP_NAME, "×") },
    }));
    columns
}

/// The keys of the columns of measures. There is one column of throughput for each unit that the cells' workloads count.
fn measure_keys(study: &Study, cells: &[Cell]) -> Vec<Key> {
    let mut rates: Vec<Key> = Vec::new();
    for measure in cells.iter().filter_map(|cell| cell.measure(THROUGHPUT)) {
        if !rates.contains(&measure.key) {
            rates.push(measure.key.clone());
        }
    }
    let rates = if rates.is_empty() { vec![THROUGHPUT.into()] } else { rates };
    // A factor on the x axis has its column among the levels.
    let is_column = |key: &Key| study.across.as_ref() != Some(key) || is_measure(cells, key);
    let keys = study.table_measures().into_iter().filter(is_column);
    let of_key = |key: Key| match &*key {
        THROUGHPUT => rates.clone(),
        DECLARED => declared(cells),
        _ => vec![key],
    };
    // A measure that is both declared and shown has one column.
    let mut once: Vec<Key> = Vec::new();
    for key in keys.flat_map(of_key) {
        if !once.contains(&key) {
            once.push(key);
        }
    }
    once
}

pub(super) fn cell_value(
    key: &str,
    cell: &Cell,
    epoch: Option<u32>,
    baseline: &Baseline,
    intervals: Intervals,
) -> CellValue {
    let measure = cell.measure(key);
    let of_epoch = epoch.filter(|_| measure.is_some_and(Measure::is_of_epochs));
    let value = match (key, of_epoch) {
        ("runs", _) => return CellValue::Count(finished(cell).count() as u64),
        ("epoch", _) => return epoch.map_or(CellValue::Missing, |epoch| CellValue::Count(u64::from(epoch))),
        (SPEEDUP, _) => over_baseline(cell, baseline.of(cell), THROUGHPUT, intervals),
        (STEP_COST, _) => cost_over(cell, baseline.of(cell), OF_STEPS, intervals),
        (RATIO, _) => over_baseline(cell, baseline.of(cell), &baseline.ratio_of, intervals),
        (_, Some(epoch)) => intervals.of(&epoch_values(cell, key, epoch)),
        _ => match (measure, Against::find(key)) {
            (Some(measure), _) => {
                let values = finished(cell).filter_map(|run| run.value_alone(measure));
                intervals.of(&values.collect::<Vec<_>>())
            }
            (None, Some(against)) => against.value(cell, baseline.among),
            (None, None) => return cell.level(key).map_or(CellValue::Missing, CellValue::Level),
        },
    };
    value.map_or(CellValue::Missing, CellValue::Measure)
}

/// The labels of a row's runs that concern a measure that its table does not show.
fn hidden_marks(cell: &Cell, columns: &[Column], baseline: &Baseline) -> Vec<String> {
    let all = finished(cell).flat_map(|run| &run.marks);
    let (shown, hidden): (Vec<&Mark>, Vec<&Mark>) = all.partition(|mark| is_about_shown(mark, columns, baseline));
    let [shown, hidden] = [shown, hidden].map(|marks| marks.into_iter().map(Mark::label).collect::<BTreeSet<&str>>());
    hidden.difference(&shown).map(|label| (*label).to_owned()).collect()
}

/// The labels of a row's runs, each once, and how many runs did not finish.
fn marks(cell: &Cell) -> Vec<String> {
    let mut marks: Vec<String> = Vec::new();
    for mark in finished(cell).flat_map(|run| &run.marks) {
        if marks.iter().all(|known| known != mark.label()) {
            marks.push(mark.label().to_owned());
        }
    }
    let mut states: Vec<RunState> = cell.runs.iter().map(|run| run.state).collect();
    states.retain(|state| *state != RunState::Finished);
    states.sort_unstable();
    for same in states.chunk_by(|a, b| a == b) {
        marks.push(format!("{} {}", same.len(), same[0].name()));
    }
    marks
}

#[cfg(test)]
#[path = "tabulate_tests.rs"]
mod tests;
