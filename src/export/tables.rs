//! The tables: which runs, which columns, and the rows of one run.

use std::collections::BTreeMap;

use super::sink::{Column, Kind, Sink, Value};
use super::{ExportError, What};
use crate::analysis::{Recording, RunSummary, summarise_run};
use crate::plan::{Facts, Filter, Key, Level, Levels, RunState, Tracer, Unordered, factor_name, mentions};
use crate::protocol::{Sample, TraceOutcome, is_loss_not_finite};
use crate::store::{RankRecord, Reader, RunRecord, StoreError};

/// The first columns of every table; factors follow.
const HEAD: [(&str, Kind); 14] = [
    ("session", Kind::Text),
    ("plan", Kind::Text),
    ("run", Kind::Text),
    ("run_order", Kind::Integer),
    ("cell", Kind::Text),
    ("workload", Kind::Text),
    ("data", Kind::Text),
    ("mode", Kind::Text),
    ("traced", Kind::Flag),
    ("repeat", Kind::Integer),
    ("seed", Kind::Integer),
    ("state", Kind::Text),
    ("started_time_s", Kind::Number),
    ("marks", Kind::Text),
];
const RUNS: [(&str, Kind); 4] =
    [("reading", Kind::Text), ("unit", Kind::Text), ("value", Kind::Number), ("in_tables", Kind::Flag)];
const STEPS: [(&str, Kind); 10] = [
    ("rank", Kind::Integer),
    ("epoch", Kind::Integer),
    ("step", Kind::Integer),
    ("time_s", Kind::Number),
    ("duration_s", Kind::Number),
    ("load_wait_s", Kind::Number),
    ("loss", Kind::Number),
    ("units", Kind::Integer),
    ("warm_up", Kind::Flag),
    ("recorded", Kind::Flag),
];
const EPOCHS: [(&str, Kind); 7] = [
    ("rank", Kind::Integer),
    ("epoch", Kind::Integer),
    ("warm_up", Kind::Flag),
    ("time_s", Kind::Number),
    ("reading", Kind::Text),
    ("unit", Kind::Text),
    ("value", Kind::Number),
];
const SAMPLES: [(&str, Kind); 34] = [
    ("time_s", Kind::Number),
    ("elapsed_s", Kind::Number),
    ("hole_s", Kind::Number),
    ("subject", Kind::Text),
    ("gpu_uuid", Kind::Text),
    ("rank", Kind::Integer),
    ("cpus", Kind::Integer),
    ("cpus_busy", Kind::Number),
    ("stolen_cpus", Kind::Number),
    ("runnable_tasks", Kind::Integer),
    ("memory_used_bytes", Kind::Integer),
    ("disk_read_bytes_per_s", Kind::Number),
    ("disk_write_bytes_per_s", Kind::Number),
    ("resident_bytes", Kind::Integer),
    ("ranks_memory_bytes", Kind::Integer),
    ("foreign_processes", Kind::Integer),
    ("busy", Kind::Number),
    ("sm_activity", Kind::Number),
    ("tensor_activity", Kind::Number),
    ("power_w", Kind::Number),
    ("energy_j", Kind::Number),
    ("temperature_c", Kind::Number),
    ("sm_clock_mhz", Kind::Integer),
    ("memory_clock_mhz", Kind::Integer),
    ("throttle_reasons", Kind::Text),
    ("pcie_receive_bytes_per_s", Kind::Number),
    ("pcie_send_bytes_per_s", Kind::Number),
    ("fp64_activity", Kind::Number),
    ("fp32_activity", Kind::Number),
    ("fp16_activity", Kind::Number),
    ("dram_activity", Kind::Number),
    ("nvlink_receive_bytes_per_s", Kind::Number),
    ("nvlink_send_bytes_per_s", Kind::Number),
    ("int_activity", Kind::Number),
];
const EVIDENCE: [(&str, Kind); 6] = [
    ("rank", Kind::Integer),
    ("source", Kind::Text),
    ("factor", Kind::Text),
    ("asked", Kind::Text),
    ("seen", Kind::Text),
    ("in_effect", Kind::Flag),
];
const ENVIRONMENT: [(&str, Kind); 3] = [("fact", Kind::Text), ("name", Kind::Text), ("value_text", Kind::Text)];
/// The number of rows between two checks for cancellation.
const STOP_ROWS: u64 = 1 << 12;

/// A run and its levels.
pub(super) struct Heading {
    pub run: String,
    levels: Levels,
}

/// A run's text and levels, in the form that filters read.
struct Listed<'a> {
    record: &'a RunRecord,
    words: String,
}

impl<'a> Listed<'a> {
    fn of(record: &'a RunRecord) -> Self {
        let levels = record.levels.iter().map(|(_, level)| level.to_string());
        let words = [record.run.clone(), record.cell.clone(), record.plan.clone(), record.data.to_string()];
        let words = words.into_iter().chain(levels).collect::<Vec<_>>().join(" ").to_lowercase();
        Self { record, words }
    }
}

impl Facts for Listed<'_> {
    fn level(&self, key: &str) -> Option<Level> {
        let record = self.record;
        // A factor of a user's program may have the key of a setting.
        let factor_or_setting = || record.levels.named(key).cloned().or_else(|| setting(record, key));
        own(record, key).or_else(factor_or_setting)
    }

    fn any_level(&self, key: &str, meets: &mut dyn FnMut(&Level) -> bool) -> bool {
        let is_factor = self.record.levels.get(key).is_some();
        let was_on = key == Tracer::KEY && !is_factor && self.record.tracer == Tracer::Nsys;
        self.level(key).is_some_and(|level| meets(&level)) || was_on && meets(&Level::text(Tracer::EARLIER_NSYS))
    }

    fn mentions(&self, word: &str) -> bool {
        mentions(&self.words, word)
    }
}

/// What a run has by itself; a factor with the same key has another name in filters.
fn own(record: &RunRecord, key: &str) -> Option<Level> {
    match key {
        "run" => Some(Level::text(&record.run)),
        "cell" => Some(Level::text(&record.cell)),
        "plan" => Some(Level::text(&record.plan)),
        "state" => Some(Level::text(record.state.name())),
        "repeat" => Some(Level::Integer(record.repeat.into())),
        _ => None,
    }
}

/// A setting of a run that is no factor.
fn setting(record: &RunRecord, key: &str) -> Option<Level> {
    match key {
        "workload" => Some(Level::text(&record.workload.key)),
        "data" => Some(Level::text(&record.data.to_string())),
        "mode" => Some(Level::text(&record.mode.to_string())),
        Tracer::KEY => Some(Level::text(record.tracer.name())),
        _ => None,
    }
}

/// The runs that a filter admits, in the order they were queued.
///
/// # Errors
/// The filter asks for an order of levels that have none.
pub(super) fn admitted(records: &[RunRecord], filter: &Filter) -> Result<Vec<Heading>, Unordered> {
    let listed: Vec<Listed> = records.iter().map(Listed::of).collect();
    let filter = filter.clone().among(&listed.iter())?;
    let admitted = listed.iter().filter(|run| filter.admits(*run)).map(|run| run.record);
    Ok(admitted.map(|record| Heading { run: record.run.clone(), levels: record.levels.clone() }).collect())
}

/// What the filter's keys mean that are keys of factors and of something else, and which keys no run has, one line each.
pub(super) fn meanings(records: &[RunRecord], filter: &Filter) -> Vec<String> {
    let meaning = |key: &str| {
        let key = key.to_lowercase();
        let has_it = |record: &RunRecord| {
            record.levels.named(&key).is_some() || own(record, &key).or_else(|| setting(record, &key)).is_some()
        };
        if key != "gpu" && !records.iter().any(has_it) {
            return Some(format!("no run has {key}"));
        }
        let record = records.iter().find(|record| record.levels.get(&key).is_some())?;
        if own(record, &key).is_some() {
            return Some(format!("{key} means the column {key}; write {} for the factor", factor_name(&key)));
        }
        let of_others =
            || format!("{key} means the factor {key} for runs that have it, and the setting for all others");
        setting(record, &key).map(|_| of_others())
    };
    filter.keys().into_iter().filter_map(meaning).collect()
}

fn fixed(what: What) -> &'static [(&'static str, Kind)] {
    match what {
        What::Runs => &RUNS,
        What::Steps => &STEPS,
        What::Epochs => &EPOCHS,
        What::Samples => &SAMPLES,
        What::Evidence => &EVIDENCE,
        What::Environment => &ENVIRONMENT,
    }
}

/// The columns of a table, in this order.
pub(super) struct Columns {
    head: Vec<Column>,
    factors: Vec<Column>,
    fixed: Vec<Column>,
    /// Readings of single steps.
    readings: Vec<Column>,
}

impl Columns {
    pub fn new(reader: &Reader, what: What, listed: &[Heading]) -> Result<Self, StoreError> {
        let columns = |all: &[(&str, Kind)]| -> Vec<Column> {
            all.iter().map(|(name, kind)| Column { name: (*name).into(), kind: *kind }).collect()
        };
        let factors = factors(listed).into_iter().map(|(key, kind)| Column { name: factor_column(&key), kind });
        let (head, factors, fixed) = (columns(&HEAD), factors.collect::<Vec<_>>(), columns(fixed(what)));
        let keys = if what == What::Steps { reader.step_reading_keys()? } else { Vec::new() };
        let is_free = |key: &Key| [&head, &factors, &fixed].into_iter().flatten().all(|known| known.name != *key);
        let readings = keys.into_iter().filter(is_free).map(|name| Column { name, kind: Kind::Number }).collect();
        Ok(Self { head, factors, fixed, readings })
    }

    pub fn all(&self) -> Vec<Column> {
        [&self.head, &self.factors, &self.fixed, &self.readings].into_iter().flatten().cloned().collect()
    }
}

/// The factors of runs with the type of their levels: whole numbers, numbers, or text if any level is a name.
fn factors(listed: &[Heading]) -> Vec<(Key, Kind)> {
    let mut factors: Vec<(Key, Kind)> = Vec::new();
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    for (key, level) in listed.iter().flat_map(|run| run.levels.iter()) {
        let kind = match level {
            Level::Integer(_) => Kind::Integer,
            Level::Number(_) => Kind::Number,
            Level::Text(_) => Kind::Text,
        };
        let place = *places.entry(key.clone()).or_insert(factors.len());
        match factors.get_mut(place) {
            None => factors.push((key.clone(), kind)),
            Some((_, known)) if *known == kind => {}
            Some((_, known)) if *known == Kind::Text || kind == Kind::Text => *known = Kind::Text,
            Some((_, known)) => *known = Kind::Number,
        }
    }
    factors
}

/// The name of a factor's column: its key, unless a table has another column with that name.
fn factor_column(key: &Key) -> Key {
    let fixed = [&HEAD[..], &RUNS, &STEPS, &EPOCHS, &SAMPLES, &EVIDENCE, &ENVIRONMENT];
    let is_taken = fixed.iter().copied().flatten().any(|(name, _)| key == name);
    if is_taken { factor_name(key).into() } else { key.clone() }
}

/// Rows on their way into a file.
pub(super) struct Rows<'a> {
    pub sink: &'a mut dyn Sink,
    pub rows: u64,
    pub stop: &'a dyn Fn() -> bool,
}

impl Rows<'_> {
    fn add(&mut self, values: &[Value]) -> Result<(), ExportError> {
        if self.rows.is_multiple_of(STOP_ROWS) && (self.stop)() {
            return Err(ExportError::Interrupted);
        }
        self.rows += 1;
        self.sink.row(values)
    }
}

/// Writes the rows of one run. A run without any has none but in the table of runs.
pub(super) fn write_run(
    reader: &Reader,
    session: &str,
    what: What,
    heading: &Heading,
    columns: &Columns,
    rows: &mut Rows,
) -> Result<(), ExportError> {
    let Some(record) = reader.run(&heading.run)? else { return Ok(()) };
    let summary = summarise_run(&record);
    let (data, mode) = (record.data.to_string(), record.mode.to_string());
    let mut marks: Vec<&str> = summary.marks.iter().map(|mark| mark.label()).collect();
    marks.dedup();
    let marks = marks.join("; ");
    let mut head: Vec<Value> = vec![
        session.into(),
        (&*record.plan).into(),
        (&*record.run).into(),
        record.start_order.into(),
        (&*record.cell).into(),
        (&*record.workload.key).into(),
        (&*data).into(),
        (&*mode).into(),
        record.tracer.is_on().into(),
        record.repeat.into(),
        record.seed.into(),
        record.state.name().into(),
        record.started_time_s.into(),
        (&*marks).into(),
    ];
    let levels: Vec<(Key, &Level, String)> =
        record.levels.iter().map(|(key, level)| (factor_column(key), level, level.to_string())).collect();
    head.extend(columns.factors.iter().map(|column| {
        let level = levels.iter().find(|(key, ..)| *key == column.name);
        match (level, column.kind) {
            (None, _) => Value::Unknown,
            (Some((_, _, text)), Kind::Text) => Value::Text(text),
            (Some((_, level, _)), Kind::Integer) => level.as_integer().map_or(Value::Unknown, Value::Integer),
            (Some((_, level, _)), _) => level.as_number().into(),
        }
    }));
    rows.sink.begin(&head)?;
    match what {
        What::Runs => of_run(&summary, rows),
        What::Steps => record.ranks.iter().try_for_each(|rank| steps(&record, rank, &columns.readings, rows)),
        What::Epochs => record.ranks.iter().try_for_each(|rank| epochs(rank, &summary, rows)),
        What::Samples => samples(reader, &record, rows),
        What::Evidence => evidence(&record, rows),
        What::Environment => environment(&record, rows),
    }
}

/// Measures of a run. One that has none yet has a row that says so.
fn of_run(summary: &RunSummary, rows: &mut Rows) -> Result<(), ExportError> {
    let is_counted = summary.state == RunState::Finished && summary.recording == Recording::Plain;
    for (key, value) in &summary.values {
        let measure = summary.measures.find(key);
        let unit = measure.map(|measure| &*measure.unit);
        let enters = measure.map_or(Some(*value), |measure| summary.value_alone(measure)).is_some();
        rows.add(&[(&**key).into(), unit.into(), (*value).into(), (is_counted && enters).into()])?;
    }
    if summary.values.is_empty() {
        rows.add(&[Value::Unknown, Value::Unknown, Value::Unknown, false.into()])?;
    }
    Ok(())
}

/// A number that cannot be NaN: its record is NaN if it is unknown.
fn known(number: f64) -> Value<'static> {
    if number.is_nan() { Value::Unknown } else { Value::Number(number) }
}

/// The steps of a rank with its readings of single steps.
fn steps(record: &RunRecord, rank: &RankRecord, columns: &[Column], rows: &mut Rows) -> Result<(), ExportError> {
    // The log of a program holds a loss that is not a number like one that was not reported, but also a warning of the first such loss.
    let has_lost = rank.warnings.iter().any(|warning| is_loss_not_finite(warning));
    let may_lack_loss = record.workload.command.is_some() && !has_lost;
    let loss = |loss: f64| if may_lack_loss { known(loss) } else { loss.into() };
    let of_column = |column: &Column| {
        let mut values: Vec<(u64, f64)> =
            rank.readings_of(&column.name).filter_map(|reading| Some((reading.step?, reading.value))).collect();
        values.sort_by_key(|(step, _)| *step);
        values
    };
    let readings: Vec<Vec<(u64, f64)>> = columns.iter().map(of_column).collect();
    let mut places = vec![0; readings.len()];
    let mut values: Vec<Value> = Vec::with_capacity(STEPS.len() + columns.len());
    for step in &rank.steps {
        values.clear();
        values.extend([
            rank.rank.into(),
            step.epoch.into(),
            step.step.into(),
            step.time_s.into(),
            step.duration_s.into(),
            known(step.load_wait_s),
            loss(step.loss),
            step.stored_units().map_or(Value::Unknown, Value::from),
            step.warm_up.into(),
            step.traced.into(),
        ]);
        for (column, place) in readings.iter().zip(&mut places) {
            let mut value = Value::Unknown;
            while let Some((of_step, number)) = column.get(*place).filter(|(of_step, _)| *of_step <= step.step) {
                // A reading told more than once in a step keeps its last value.
                if *of_step == step.step {
                    value = Value::Number(*number);
                }
                *place += 1;
            }
            values.push(value);
        }
        rows.add(&values)?;
    }
    Ok(())
}

/// Writes the readings of a rank's epochs.
fn epochs(rank: &RankRecord, summary: &RunSummary, rows: &mut Rows) -> Result<(), ExportError> {
    let mut warm: Vec<u32> = rank.steps.iter().filter(|step| step.warm_up).map(|step| step.epoch).collect();
    warm.dedup();
    for reading in rank.readings.iter().filter(|reading| reading.step.is_none()) {
        let Some(epoch) = reading.epoch else { continue };
        let unit = summary.measures.find(&reading.key).map(|measure| &*measure.unit);
        rows.add(&[
            rank.rank.into(),
            epoch.into(),
            warm.contains(&epoch).into(),
            reading.time_s.into(),
            (&*reading.key).into(),
            unit.into(),
            reading.value.into(),
        ])?;
    }
    Ok(())
}

/// Writes the samples of a run. For each time there is a row of the host, a row of each GPU and a row of each rank.
fn samples(reader: &Reader, record: &RunRecord, rows: &mut Rows) -> Result<(), ExportError> {
    let mut outcome = Ok(());
    reader.each_sample(&record.run, |sample| {
        if outcome.is_ok() {
            outcome = sample_rows(&sample, record.started_time_s, rows);
        }
    })?;
    outcome
}

fn sample_rows(sample: &Sample, started_time_s: Option<f64>, rows: &mut Rows) -> Result<(), ExportError> {
    let mut add = |subject: &'static str, known: &[(&str, Value)]| {
        let value = |(name, _): &(&str, Kind)| match *name {
            "time_s" => sample.time_s.into(),
            "elapsed_s" => started_time_s.map(|started_s| sample.time_s - started_s).into(),
            "hole_s" => sample.hole_s.into(),
            "subject" => subject.into(),
            name => known.iter().find(|(known, _)| *known == name).map_or(Value::Unknown, |(_, value)| value.clone()),
        };
        rows.add(&SAMPLES.iter().map(value).collect::<Vec<_>>())
    };
    let host = &sample.host;
    add(
        "host",
        &[
            ("cpus", host.cpus.into()),
            ("cpus_busy", host.cpus_busy.into()),
            ("stolen_cpus", host.stolen_cpus.into()),
            ("runnable_tasks", host.runnable.into()),
            ("memory_used_bytes", host.memory_used_bytes.into()),
            ("disk_read_bytes_per_s", host.disk_read_bytes_per_s.into()),
            ("disk_write_bytes_per_s", host.disk_write_bytes_per_s.into()),
        ],
    )?;
    for gpu in &sample.gpus {
        let reasons = gpu.throttle_reasons.join("; ");
        add(
            "gpu",
            &[
                ("gpu_uuid", (&*gpu.uuid).into()),
                ("memory_used_bytes", gpu.memory_used_bytes.into()),
                ("ranks_memory_bytes", gpu.ranks_memory_bytes.into()),
                ("foreign_processes", gpu.foreign_processes.into()),
                ("busy", gpu.busy.into()),
                ("sm_activity", gpu.sm_activity.into()),
                ("tensor_activity", gpu.tensor_activity.into()),
                ("power_w", gpu.power_w.into()),
                ("energy_j", gpu.energy_j.into()),
                ("temperature_c", gpu.temperature_c.into()),
                ("sm_clock_mhz", gpu.sm_clock_mhz.into()),
                ("memory_clock_mhz", gpu.memory_clock_mhz.into()),
                ("throttle_reasons", (&*reasons).into()),
                ("pcie_receive_bytes_per_s", gpu.pcie_receive_bytes_per_s.into()),
                ("pcie_send_bytes_per_s", gpu.pcie_send_bytes_per_s.into()),
                ("fp64_activity", gpu.fp64_activity.into()),
                ("fp32_activity", gpu.fp32_activity.into()),
                ("fp16_activity", gpu.fp16_activity.into()),
                ("dram_activity", gpu.dram_activity.into()),
                ("nvlink_receive_bytes_per_s", gpu.nvlink_receive_bytes_per_s.into()),
                ("nvlink_send_bytes_per_s", gpu.nvlink_send_bytes_per_s.into()),
                ("int_activity", gpu.int_activity.into()),
            ],
        )?;
    }
    for rank in &sample.ranks {
        let known = [
            ("rank", rank.rank.into()),
            ("resident_bytes", rank.resident_bytes.into()),
            ("cpus_busy", rank.cpus_busy.into()),
        ];
        add("rank", &known)?;
    }
    Ok(())
}

/// The facts of a run's environment. One whose environment is not recorded has a row that says so.
fn environment(record: &RunRecord, rows: &mut Rows) -> Result<(), ExportError> {
    let Some(environment) = &record.environment else {
        return rows.add(&[Value::Unknown, Value::Unknown, Value::Unknown]);
    };
    environment.facts().try_for_each(|(key, name, value)| rows.add(&[key.into(), name.into(), value.into()]))
}

/// Evidence of ranks and of the profiler's report.
fn evidence(record: &RunRecord, rows: &mut Rows) -> Result<(), ExportError> {
    let of_ranks = record
        .ranks
        .iter()
        .flat_map(|rank| rank.evidence.iter().map(|evidence| (Some(rank.rank), "rank", &**evidence)));
    let of_report = match &record.trace {
        Some(TraceOutcome::Imported(trace)) => trace.evidence.as_slice(),
        Some(TraceOutcome::Failed(_)) | None => &[],
    };
    for (rank, source, evidence) in of_ranks.chain(of_report.iter().map(|evidence| (None, "profiler", evidence))) {
        rows.add(&[
            rank.into(),
            source.into(),
            (&*evidence.factor).into(),
            (&*evidence.asked).into(),
            (&*evidence.seen).into(),
            evidence.in_effect.into(),
        ])?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "tables_tests.rs"]
mod tests;
