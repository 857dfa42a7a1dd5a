//! The notes below a table: levels that all rows share, how values were computed, and which runs are excluded.

use std::collections::BTreeMap;

use super::baseline::Baseline;
use super::baseline_notes::summary_of_baseline;
use super::folded::folded;
use super::number::{significant, without_zeros};
use super::ratio::{by_repeat, finished};
use super::study::{RATIO, SPEEDUP, STEP_COST, Study};
use super::table::{CellValue, Column, Row};
use super::unlike_notes::unlike_notes;
use super::verdict_notes::verdict_notes;
use crate::analysis::{
    Cell, Condition, Mark, Method, PER_STEP, RunState, conditions, counted, environment_notes, held, measure_of,
    outliers, range, session_drift, session_jump, split_note, spread, step_of, usual_spread,
};
use crate::plan::{Hint, groups};

/// Measures that include the warm-up.
const WHOLE_RUN: [&str; 2] = ["total_time_s", "energy_j"];

/// The notes of a table, one sentence each.
pub(super) fn notes(
    study: &Study,
    cells: &[Cell],
    columns: &[Column],
    rows: &[Row],
    baseline: &Baseline,
) -> Vec<String> {
    if cells.is_empty() {
        return vec!["no runs".to_owned()];
    }
    let mut notes: Vec<String> = held_note(cells).into_iter().collect();
    notes.extend(lowered_notes(cells, columns));
    notes.push(method_note(rows));
    let shows = |key: &str| columns.iter().any(|column| column.key == key);
    // How imported times were measured is not known.
    if shows("step_time_s") && !cells.iter().all(Cell::is_imported) {
        notes.push("warm-up steps are left out; step times are those of the slowest rank".to_owned());
    }
    if shows("mean_step_time_s") {
        notes.push(format!(
            "mean {step} time: the mean of the slowest rank's steady {step}s, as the papers define their iteration time",
            step = step_of(cells)
        ));
    }
    let whole: Vec<&str> =
        columns.iter().filter(|column| WHOLE_RUN.contains(&&*column.key)).map(|column| column.name.as_str()).collect();
    if !whole.is_empty() {
        notes.push(format!("of the whole run, including its start and warm-up: {}", whole.join(", ").to_lowercase()));
    }
    if shows("training_time_s") {
        notes.push(
            "training time: the mean time of steady steps, without warm-up and the first step of each epoch, times all steps of the plan; it \
             includes neither the start nor evaluation"
                .to_owned(),
        );
    }
    notes.extend(longer_training_note(cells, columns, rows));
    notes.extend(summary_of_baseline(cells, &explained(columns, rows, baseline), baseline));
    notes.extend(verdict_notes(cells, columns, rows));
    notes.extend(bytes_note(columns, rows));
    if let Some(place) = columns.iter().position(|column| column.key == "warm_up_peak_bytes") {
        let of_warm_up = rows.iter().filter(|row| matches!(row.values[place], CellValue::Measure(_))).count();
        let peaks = "allocated, reserved and active peaks";
        notes.push(match of_warm_up {
            0 => format!("{peaks} include the warm-up if it is unknown"),
            _ => format!("{peaks} exclude the warm-up, in which cuDNN tries its algorithms"),
        });
    }
    notes.extend(recorded_steps_note(cells, columns));
    notes.extend(spread_note(cells, columns));
    notes.extend(outlier_notes(cells, columns));
    notes.extend(condition_notes(cells));
    notes.extend(session_drift_note(cells, columns));
    notes.extend(energy_note(cells, columns, rows));
    notes.extend(device_note(cells));
    notes.extend(split_note(cells));
    notes.extend(environment_notes(cells, study.differing_facts()));
    notes.extend(unlike_notes(cells, columns, baseline));
    notes.extend(mark_notes(cells, columns, baseline));
    notes.extend(stand_in_notes(cells));
    notes.extend(unfinished_note(cells));
    notes
}

/// The notes that change how a row is read: which runs are not in the values, what must be known about other runs, what brackets and
/// ratios mean.
pub(super) fn lead(cells: &[Cell], columns: &[Column], rows: &[Row], baseline: &Baseline) -> Vec<String> {
    if cells.is_empty() {
        return Vec::new();
    }
    let mut lead: Vec<String> =
        unfinished_note(cells).into_iter().chain(mark_notes(cells, columns, baseline)).collect();
    lead.extend(unlike_notes(cells, columns, baseline));
    lead.extend(stand_in_notes(cells));
    lead.extend(lowered_notes(cells, columns));
    lead.push(method_note(rows));
    let shows = |key: &str| columns.iter().any(|column| column.key == key);
    if shows(SPEEDUP) || shows(RATIO) || shows(STEP_COST) {
        lead.extend(summary_of_baseline(cells, &explained(columns, rows, baseline), baseline));
    }
    lead
}

/// Why training seems to take longer than the whole run. Marks say of quick runs that they ended before they had made all steps.
fn longer_training_note(cells: &[Cell], columns: &[Column], rows: &[Row]) -> Option<String> {
    let place = |key: &str| columns.iter().position(|column| column.key == key);
    let (training, total) = (place("training_time_s")?, place("total_time_s")?);
    let quick = Mark::Quick { steps: 0, planned: 0 }.label();
    let is_longer = |row: &&Row| {
        let is_over = match (&row.values[training], &row.values[total]) {
            (CellValue::Measure(training), CellValue::Measure(total)) => training.median > total.median,
            _ => false,
        };
        is_over && row.marks.iter().all(|mark| mark != quick)
    };
    let longer = rows.iter().filter(is_longer).count();
    let has_programs = cells.iter().any(|cell| cell.workload.command.is_some());
    let or = if has_programs { ", or the times that the program reports are too long" } else { "" };
    (longer > 0).then(|| {
        format!(
            "training time is longer than the total time in {}: it takes all steps to be as long as the steady ones, and the steps before \
             these were shorter{or}",
            counted(longer, "row")
        )
    })
}

/// The columns whose ratios notes explain: those with values. Speed-ups that are missing because the baseline is unknown are explained, too.
fn explained(columns: &[Column], rows: &[Row], baseline: &Baseline) -> Vec<Column> {
    let has_values = |place: usize| rows.iter().any(|row| row.values[place] != CellValue::Missing);
    let is_explained = |(place, column): &(usize, &Column)| {
        *column.key != *SPEEDUP || baseline.unknown.is_some() || has_values(*place)
    };
    columns.iter().enumerate().filter(is_explained).map(|(_, column)| column.clone()).collect()
}

/// Notes on data sets that replace other data sets.
fn stand_in_notes(cells: &[Cell]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for cell in cells {
        let set = cell.data.split(' ').next().unwrap_or_default();
        let Some(rule) = cell.workload.data_set(set).filter(|rule| rule.synthetic) else { continue };
        let help = rule.help.split(['.', ';']).next().unwrap_or_default();
        let text = format!(
            "data = {set}: {help}; comparisons of data sets then show only how they were generated",
            help = lower(help)
        );
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
    notes
}

/// A sentence in a form that can follow a colon.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

/// The note on steps that no range of a recording marks, if a column is divided by steps.
fn recorded_steps_note(cells: &[Cell], columns: &[Column]) -> Option<String> {
    let is_per_step = |column: &Column| {
        column.key.split_once(':').is_some_and(|(words, _)| words.split('.').any(|word| word == PER_STEP))
    };
    if !columns.iter().any(is_per_step) {
        return None;
    }
    let lists = cells.iter().flat_map(finished).filter_map(|run| run.trace_summary()?.lists.as_deref());
    let others: Vec<&str> = lists.filter_map(|lists| lists.steps_without_ranges()).collect();
    let first = others.first()?;
    let more = if others.iter().all(|by| by == first) { "" } else { ", and similar" };
    Some(format!("steps of {}: {first}{more}", counted(others.len(), "recording")))
}

/// The note that traced cells are left out.
pub(super) fn traced_note(traced: usize) -> String {
    format!(
        "traced cells: {traced}, left out because tracing costs time: \"Traced runs\" in the window or --traced in a command includes them"
    )
}

/// The note that explains GB and peaks, if the table has any.
fn bytes_note(columns: &[Column], rows: &[Row]) -> Option<String> {
    let has_values = |place: usize| rows.iter().any(|row| matches!(row.values[place], CellValue::Measure(_)));
    let in_gb = |(place, column): &(usize, &Column)| column.shown_unit == "GB" && has_values(*place);
    let shown: Vec<&Column> = columns.iter().enumerate().filter(in_gb).map(|(_, column)| column).collect();
    let has_peaks = shown.iter().any(|column| column.key.contains("peak"));
    let peaks = if has_peaks { "; peaks are those of the rank or GPU with the highest" } else { "" };
    (!shown.is_empty()).then(|| format!("1 GB is 10^9 bytes{peaks}"))
}

/// The levels that all cells share; `None` if they share none.
fn held_note(cells: &[Cell]) -> Option<String> {
    let held: Vec<String> = held(cells)
        .iter()
        .map(|(setting, level)| {
            let unit = if setting.unit.is_empty() { String::new() } else { format!(" {}", setting.unit) };
            format!("{} = {level}{unit}", setting.key)
        })
        .collect();
    (!held.is_empty()).then(|| format!("held: {}", held.join(", ")))
}

/// Notes on levels without a column that let GPUs compute the products of a precision in another format, which the name of the precision
/// does not show.
fn lowered_notes(cells: &[Cell], columns: &[Column]) -> Vec<String> {
    let on_gpus = |cell: &&Cell| finished(cell).any(|run| run.device.as_deref().is_some_and(|device| device != "cpu"));
    let mut notes: Vec<String> = Vec::new();
    for cell in cells.iter().filter(on_gpus) {
        let multiplies = |format| cell.workload.all_hints(cell.levels).any(|hint| *hint == Hint::Multiplies(format));
        for (key, level) in cell.levels.iter().filter(|(key, _)| columns.iter().all(|column| column.key != **key)) {
            for hint in cell.workload.hints(key, level) {
                let Hint::Lowers(from, to) = hint else { continue };
                let to = to.name().to_uppercase();
                let note = format!(
                    "{} is not strict: with {key} = {level}, GPUs may multiply its numbers in {to}",
                    from.name()
                );
                if multiplies(*from) && !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
    notes
}

/// The meaning of the brackets, for each method and number of repeats in the table.
pub(super) fn method_note(rows: &[Row]) -> String {
    let values = rows.iter().flat_map(|row| &row.values).filter_map(|value| match value {
        CellValue::Measure(value) => Some((value.method, value.n)),
        _ => None,
    });
    // A value divided by itself has several repeats and no interval; the baseline's note says so.
    let mut methods: Vec<(Method, usize)> = values.filter(|(method, n)| *method != Method::One || *n == 1).collect();
    methods.sort_unstable();
    methods.dedup();
    let described: Vec<String> = methods
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| {
            let counts: Vec<String> = same.iter().map(|(_, n)| n.to_string()).collect();
            let counts = counts.join(" or ");
            match same[0].0 {
                Method::One => "none for n = 1".to_owned(),
                Method::Range => {
                    let shares = same.iter().map(|(_, n)| coverage_text(*n)).collect::<Vec<_>>().join(" or ");
                    format!("range of {counts} repeats, which holds the true median in {shares} % of cases")
                }
                Method::OrderStatistics => {
                    format!("95 % interval of the median of {counts} repeats, by order statistics")
                }
                Method::BetweenSessions => format!("95 % interval by the spread between {counts} sessions"),
                Method::Means => {
                    format!("95 % interval of a difference of means over {counts} recordings, by Welch's t")
                }
                Method::Unpaired => "none for ratios without a pair of repeats".to_owned(),
                Method::GeometricMeans => {
                    format!("95 % interval of the ratio of geometric means of {counts} repeats, by Welch's t")
                }
            }
        })
        .collect();
    if described.is_empty() {
        return "no values yet".to_owned();
    }
    let has_other_n = |row: &Row| {
        row.values.iter().any(|value| matches!(value, CellValue::Measure(value) if row.other_n(value).is_some()))
    };
    let counts = if rows.iter().any(has_other_n) {
        "; n behind a value: how many of the row's repeats have it, for ratios how many pairs of repeats"
    } else {
        ""
    };
    format!("values are medians of repeats; intervals: {}{counts}", described.join("; "))
}

/// The probability in percent that the range of `n` repeats contains the median.
pub(super) fn coverage_text(n: usize) -> String {
    let coverage = range(&vec![0.0; n]).and_then(|value| value.coverage()).unwrap_or(0.0);
    without_zeros(&format!("{:.2}", 100.0 * coverage)).to_owned()
}

/// How much repeats of the first measure of speed spread, and how much of that comes from within runs.
fn spread_note(cells: &[Cell], columns: &[Column]) -> Option<String> {
    let measures = columns.iter().filter_map(|column| measure_of(cells, &column.key));
    let measure = measures.into_iter().find(|measure| measure.on_speed)?;
    let values_of =
        |cell: &Cell, key: &str| by_repeat(cell, key).into_iter().map(|(_, value)| value).collect::<Vec<f64>>();
    let spreads: Vec<f64> = cells.iter().filter_map(|cell| spread(&values_of(cell, &measure.key))).collect();
    let usual = usual_spread(&spreads)?;
    let within = |cell: &Cell| {
        let errors = values_of(cell, "step_error");
        (!errors.is_empty()).then(|| errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64)
    };
    let name = measure.name.to_lowercase();
    let mut note =
        format!("repeats of {name} spread by {} % of the value (median over cells)", significant(100.0 * usual));
    let withins: Vec<f64> = cells.iter().filter_map(within).collect();
    if let Some(within) = usual_spread(&withins).filter(|_| measure.key == "step_time_s" && usual > 0.0) {
        let share = (100.0 * within / usual.powi(2)).min(100.0);
        let advice = if share < 50.0 {
            "more repeats make intervals narrower, longer runs do not"
        } else {
            "longer runs make intervals narrower, too"
        };
        note += &format!("; {share:.0} % of that variance comes from within runs: {advice}");
    }
    Some(note)
}

/// Repeats that are far from the other repeats of their cell, one line per run.
fn outlier_notes(cells: &[Cell], columns: &[Column]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for cell in cells {
        let measures = columns.iter().filter_map(|column| Some((cell.measure(&column.key)?, column)));
        let outliers_of_cells = measures
            .flat_map(|(measure, column)| outliers(cell, measure).into_iter().map(move |outlier| (outlier, column)));
        let mut by_run: Vec<(String, Vec<&'static str>, Vec<String>)> = Vec::new();
        for (outlier, column) in outliers_of_cells {
            let short = column.unit_of_times(outlier.value.max(outlier.median));
            let (unit, factor) = short.unwrap_or((column.shown_unit.as_str(), column.shown_factor));
            let [shown, median] = [outlier.value, outlier.median].map(|value| significant(value * factor));
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            let text = format!("{} {shown}{unit} (its cell's median: {median}{unit})", column.name.to_lowercase());
            match by_run.iter_mut().find(|known| known.0 == outlier.run) {
                Some(known) => known.2.push(text),
                None => by_run.push((outlier.run, outlier.reasons, vec![text])),
            }
        }
        notes.extend(by_run.into_iter().map(|(run, reasons, texts)| {
            let why = if reasons.is_empty() { "no mark explains it".to_owned() } else { reasons.join(", ") };
            format!("outlier, kept in all values: {run}: {}; {why}", texts.join(", "))
        }));
    }
    notes
}

/// Repeats whose GPUs were slower or warmer than in the other repeats.
fn condition_notes(cells: &[Cell]) -> Vec<String> {
    let slow_or_warm = cells.iter().flat_map(conditions);
    slow_or_warm.map(|Condition { run, label, text }| format!("{label}: {run}: {text}")).collect()
}

/// Whether the first measure of speed jumped or drifted with the order of runs.
fn session_drift_note(cells: &[Cell], columns: &[Column]) -> Option<String> {
    let mut measures = columns.iter().filter_map(|column| measure_of(cells, &column.key));
    let measure = measures.find(|measure| measure.on_speed)?;
    if let Some(jump) = session_jump(cells, measure) {
        return Some(format!(
            "jump within the session: {} of the {} runs from {} on {:+.1} % against the {} before, in the order of their starts; repeats \
             on either side of it are not alike",
            measure.name.to_lowercase(),
            jump.runs - jump.before,
            jump.first_after,
            100.0 * jump.change,
            jump.before
        ));
    }
    let drift = session_drift(cells, measure)?;
    let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
    let mut note = format!(
        "drift over the session: {} of the last fifth of {} runs {} against the first fifth, in the order of their starts",
        measure.name.to_lowercase(),
        drift.runs,
        percent(drift.change)
    );
    note += &drift.clock.map_or(String::new(), |clock| format!("; GPU clock {}", percent(clock)));
    note += &drift.warmer_c.map_or(String::new(), |warmer_c| format!("; GPU temperature {warmer_c:+.0} °C"));
    if cells.iter().all(|cell| cell.pairs_with(cell)) {
        note += "; ratios are paired by repeat, which cancels this if runs are interleaved";
    }
    Some(note)
}

/// Why cells of energy are empty.
fn energy_note(cells: &[Cell], columns: &[Column], rows: &[Row]) -> Option<String> {
    const ENERGIES: [&str; 4] = ["energy_j", "steady_energy_j", "energy_per_unit_j", "power_w"];
    let is_empty = |place: usize| rows.iter().all(|row| row.values[place] == CellValue::Missing);
    let mut places = columns.iter().enumerate().filter(|(_, column)| ENERGIES.contains(&&*column.key));
    places.find(|(place, _)| is_empty(*place))?;
    let on_cpus = cells.iter().flat_map(finished).all(|run| run.device.as_deref() == Some("cpu"));
    Some(if on_cpus {
        "energy: none, because these runs used no GPU".to_owned()
    } else {
        "energy: none, because some of the runs' GPUs did not report energy or power during the steps that count, or the times of these \
         steps are unknown (a program that reports its steps late must give the `time_s` of each)"
            .to_owned()
    })
}

fn device_note(cells: &[Cell]) -> Option<String> {
    let mut devices: Vec<&str> = cells.iter().flat_map(finished).filter_map(|run| run.device.as_deref()).collect();
    devices.sort_unstable();
    devices.dedup();
    match devices.as_slice() {
        [] => None,
        [device] => Some(format!("device: {device}")),
        several => Some(format!("runs used different devices and may not be comparable: {}", several.join(", "))),
    }
}

/// The number of runs that a note names.
const NAMED: usize = 4;

/// Whether a mark concerns the shown columns. A mark of a single measure does so if that measure, or a ratio of it, is shown.
pub(super) fn is_about_shown(mark: &Mark, columns: &[Column], baseline: &Baseline) -> bool {
    let is_shown = |key: &str| columns.iter().any(|column| *column.key == *key) || *baseline.ratio_of == *key;
    mark.measure().is_none_or(is_shown)
}

/// One note for each mark of finished runs that concerns what is shown, with the runs that have it.
fn mark_notes(cells: &[Cell], columns: &[Column], baseline: &Baseline) -> Vec<String> {
    let mut by_label: BTreeMap<&str, Vec<(&Mark, &str)>> = BTreeMap::new();
    for run in cells.iter().flat_map(finished) {
        for mark in run.marks.iter().filter(|mark| is_about_shown(mark, columns, baseline)) {
            by_label.entry(mark.label()).or_default().push((mark, &run.run));
        }
    }
    let all = cells.iter().flat_map(finished).count();
    let mut notes = Vec::new();
    for (label, borne) in by_label {
        let mut stories = groups(borne.iter().map(|(mark, run)| (mark.to_string(), *run)));
        let marks: Vec<&Mark> = borne.iter().map(|(mark, _)| *mark).collect();
        if stories.len() > 1
            && let Some(story) = Mark::of_several(&marks)
        {
            stories = vec![(story, borne.iter().map(|(_, run)| *run).collect())];
        }
        let marked =
            folded(stories).into_iter().map(|(story, runs)| format!("{label}: {story} ({})", runs_of(&runs, all)));
        notes.extend(marked);
    }
    notes
}

/// `all 3 runs`, or the names of the first few.
fn runs_of(runs: &[&str], all: usize) -> String {
    match runs.len() {
        count if count == all && all > 1 => format!("all {all} runs"),
        count if count > NAMED => format!("{} and {} more", runs[..NAMED].join(", "), count - NAMED),
        _ => runs.join(", "),
    }
}

fn unfinished_note(cells: &[Cell]) -> Option<String> {
    let unfinished = cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.state != RunState::Finished);
    let listed: Vec<String> = unfinished
        .map(|run| {
            let failed = run.marks.iter().find(|mark| mark.label() == "not finished");
            format!("{} {}", run.run, failed.map_or(run.state.name().to_owned(), ToString::to_string))
        })
        .collect();
    match listed.len() {
        0 => None,
        1 => Some(format!("1 run is not in the values: {}", listed[0])),
        count => {
            let more = count.saturating_sub(NAMED);
            let shown = listed[..count - more].join("; ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Some(format!("{count} runs are not in the values: {shown}{more}"))
        }
    }
}
