//! A row of the list of runs: the session's record, overlaid with the state in the queue.

use std::sync::Arc;

use crate::analysis::Setting;
use crate::app::engine::{QueueRow, Records};
use crate::plan::{Facts, Key, Level, Levels, RunState, WorkloadSpec};
use crate::store::RunRecord;

/// A column for a property in which runs differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The factor's key, or `plan`, `workload` or `data`.
    pub key: Key,
    /// The name on screen.
    pub name: Arc<str>,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its id.
    pub run: String,
    /// Its number in the session, taken from its id; the id itself if it has none.
    pub number: String,
    /// Name of its plan; empty while the session has no record of it.
    pub plan: String,
    /// Its workload; empty while the session has no record of it.
    pub workload: Key,
    /// Name of its data set.
    pub data: String,
    /// All levels.
    pub levels: Levels,
    /// Texts of the columns.
    pub cells: Vec<String>,
    /// Its repeat number.
    pub repeat: Option<u32>,
    /// Its state.
    pub state: RunState,
    /// Steps done and total steps, while it runs.
    pub steps: Option<(u64, u64)>,
    /// Current epoch, from 1; 0 if none.
    pub epoch: u32,
    /// Latest loss.
    pub loss: Option<f64>,
    /// When its processes started.
    pub started_time_s: Option<f64>,
    /// When it ended.
    pub ended_time_s: Option<f64>,
    /// Why it did not finish.
    pub reason: Option<String>,
    /// Its position among the queued runs, from 0.
    pub place: Option<usize>,
    /// Whether it is in this window's queue.
    pub ours: bool,
    /// The latest run of its cell and repeat, queued after it did not finish.
    pub retried_as: Option<String>,
    /// Lower-case text that the filter searches.
    pub words: String,
}

impl Row {
    /// The row of a recorded run.
    pub fn of(record: &RunRecord, columns: &[Column]) -> Self {
        let mut row = Self::unknown(&record.run);
        row.plan.clone_from(&record.plan);
        row.workload = record.workload.key.clone();
        row.data = record.data.set.to_string();
        row.levels = record.levels.clone();
        row.cells = columns.iter().map(|column| row.level(&column.key).unwrap_or_else(|| "–".to_owned())).collect();
        row.repeat = Some(record.repeat);
        row.state = record.state;
        row.loss = last_loss(record);
        row.started_time_s = record.started_time_s;
        row.ended_time_s = record.ended_time_s;
        row.reason = record.reason.clone().filter(|reason| !reason.trim().is_empty());
        let levels = record.levels.iter().map(|(_, level)| level.to_string());
        let mut words: Vec<String> = levels.collect();
        words.extend([row.plan.clone(), row.data.clone(), row.run.clone()]);
        words.extend(row.reason.clone());
        row.words = words.join("\n").to_lowercase();
        row
    }

    /// The row of a run without a record yet.
    pub fn unknown(run: &str) -> Self {
        Self {
            run: run.to_owned(),
            number: Self::number_of(run).to_owned(),
            plan: String::new(),
            workload: Key::default(),
            data: String::new(),
            levels: Levels::default(),
            cells: Vec::new(),
            repeat: None,
            state: RunState::Queued,
            steps: None,
            epoch: 0,
            loss: None,
            started_time_s: None,
            ended_time_s: None,
            reason: None,
            place: None,
            ours: false,
            retried_as: None,
            words: run.to_lowercase(),
        }
    }

    /// Takes over the state in the queue.
    pub fn overlay(&mut self, queued: &QueueRow, place: Option<usize>) {
        // A recorded end is newer than the queue's state.
        if !self.state.is_final() {
            self.state = queued.state;
        }
        self.ours = true;
        self.place = place;
        let live = self.state.is_active() && queued.steps > 0;
        self.steps = live.then_some((queued.step, queued.steps));
        self.epoch = if live { queued.epoch } else { 0 };
        if live {
            self.loss = queued.loss.or(self.loss);
        }
    }

    /// The level of a factor, or the plan, data set, repeat or run number, as text.
    pub fn level(&self, key: &str) -> Option<String> {
        match key {
            "plan" => Some(self.plan.clone()),
            "workload" => Some(self.workload.to_string()),
            "data" => Some(self.data.clone()),
            "repeat" => self.repeat.map(|repeat| repeat.to_string()),
            "run" => Some(self.number.clone()),
            _ => self.levels.get(key).map(ToString::to_string),
        }
    }

    /// Fraction done, from 0 to 1, if known.
    pub fn share(&self) -> Option<f32> {
        match (self.state, self.steps) {
            (RunState::Finished, _) => Some(1.0),
            (_, Some((step, steps))) => Some((step as f32 / steps.max(1) as f32).clamp(0.0, 1.0)),
            _ => None,
        }
    }

    /// Elapsed time, in seconds.
    pub fn elapsed_s(&self, now_s: f64) -> Option<f64> {
        let started_s = self.started_time_s?;
        let end_s = match self.ended_time_s {
            Some(ended_s) => ended_s,
            // The clock of another process's runs is unknown.
            None if self.state.is_active() && now_s >= started_s => now_s,
            None => return None,
        };
        Some((end_s - started_s).max(0.0))
    }

    /// Time left by the run's own pace, in seconds, once that is meaningful.
    pub fn remaining_s(&self, now_s: f64) -> Option<f64> {
        let share = f64::from(self.share().filter(|share| *share > 0.02 && self.state.is_active())?);
        self.elapsed_s(now_s).map(|elapsed_s| elapsed_s * (1.0 - share) / share)
    }

    /// Whether it can be queued again.
    pub fn can_retry(&self) -> bool {
        self.state.is_final() && self.state != RunState::Finished
    }

    /// The number of a run: the digits at the start of its id, or the id itself.
    pub fn number_of(run: &str) -> &str {
        let digits = run.split('-').next().unwrap_or_default().trim_start_matches('0');
        if digits.parse::<u32>().is_ok() { digits } else { run }
    }

    /// Its accessible name.
    pub fn spoken(&self) -> String {
        format!("Run {}: {}, {}", self.number, self.cells.join(", "), self.state.name())
    }
}

impl Facts for Row {
    fn level(&self, key: &str) -> Option<Level> {
        match key {
            "state" => Some(Level::text(self.state.name())),
            "repeat" => self.repeat.map(|repeat| Level::Integer(repeat.into())),
            "plan" | "data" | "run" => self.level(key).map(|text| Level::text(&text)),
            _ => self.levels.get(key).cloned(),
        }
    }

    fn mentions(&self, word: &str) -> bool {
        self.words.contains(word) || self.state.name().contains(word)
    }
}

fn last_loss(record: &RunRecord) -> Option<f64> {
    record.ranks.first()?.last_reading("train_loss").filter(|loss| loss.is_finite())
}

/// The properties in which runs differ: plan, data set, workload, and factors in their usual order.
pub fn columns(records: &Records) -> Vec<Column> {
    let Some(first) = records.runs.first() else { return Vec::new() };
    let mut columns = Vec::new();
    if records.runs.iter().any(|run| run.plan != first.plan) {
        columns.push(Column { key: "plan".into(), name: "Plan".into() });
    }
    if records.runs.iter().any(|run| run.data != first.data) {
        columns.push(Column { key: "data".into(), name: "Data".into() });
    }
    if records.runs.iter().any(|run| run.workload.key != first.workload.key) {
        columns.push(Column { key: "workload".into(), name: "Workload".into() });
    }
    let mut factors: Vec<(&WorkloadSpec, &Key)> = Vec::new();
    for run in &records.runs {
        let new = run.levels.iter().filter(|(key, _)| factors.iter().all(|(_, known)| known != key));
        let new: Vec<_> = new.map(|(key, _)| (&*run.workload, key)).collect();
        factors.extend(new);
    }
    for (workload, key) in factors {
        if records.runs.iter().any(|run| run.levels.get(key) != first.levels.get(key)) {
            columns.push(Column { key: key.clone(), name: Setting::of_factor(workload, key).name });
        }
    }
    columns
}
