//! A row of the list of runs: what was recorded of a run, overlaid with its state in the queue.

use std::ops::Deref;
use std::sync::Arc;

use crate::analysis::{Mark, RunSummary};
use crate::app::listing::Entry;
use crate::conduct::QueueRow;
use crate::plan::{Facts, Level, RunState, Tracer, mentions};
use crate::store::tags;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    entry: Arc<Entry>,
    /// Its state.
    pub state: RunState,
    /// Steps done and total steps, while it runs.
    pub steps: Option<(u64, u64)>,
    /// Current epoch, from 1; 0 if none.
    pub epoch: u32,
    /// Latest loss.
    pub loss: Option<f64>,
    /// Its position among the queued runs, from 0.
    pub place: Option<usize>,
    /// Whether it is in this window's queue.
    pub ours: bool,
    /// The latest run of its cell and repeat, queued after it did not finish.
    pub retried_as: Option<String>,
    /// What befell it, in a few words: `contended, throttled`; empty if nothing did.
    pub marks: String,
    /// The same at length, a line each.
    pub stories: String,
    /// What its user noted.
    pub note: String,
}

impl Deref for Row {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl Row {
    /// The row of a recorded run.
    pub fn of(entry: &Arc<Entry>) -> Self {
        Self {
            state: entry.recorded_state,
            steps: None,
            epoch: 0,
            loss: entry.recorded_loss,
            place: None,
            ours: false,
            retried_as: None,
            marks: String::new(),
            stories: String::new(),
            note: String::new(),
            entry: Arc::clone(entry),
        }
    }

    /// The row of a run without a record yet.
    pub fn unknown(run: &str) -> Self {
        Self::of(&Arc::new(Entry::unknown(run)))
    }

    /// Takes over what its summary says befell it.
    pub fn mark(&mut self, summary: &RunSummary) {
        let befell: Vec<&Mark> = summary.marks.iter().filter(|mark| mark.is_disturbance()).collect();
        let mut labels: Vec<&str> = befell.iter().map(|mark| mark.label()).collect();
        labels.dedup();
        self.marks = labels.join(", ");
        self.stories = befell.iter().map(|mark| format!("{}: {mark}", mark.label())).collect::<Vec<_>>().join("\n");
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
            "plan" | "data" | "run" | Tracer::KEY => self.entry.level(key).map(|text| Level::text(&text)),
            _ => self.levels.get(key).cloned(),
        }
    }

    fn any_level(&self, key: &str, meets: &mut dyn FnMut(&Level) -> bool) -> bool {
        match key {
            "tag" => tags(&self.note).any(|tag| meets(&Level::text(&tag))),
            "mark" => self.marks.split(", ").any(|mark| meets(&Level::text(mark))),
            _ => self.level(key).is_some_and(|level| meets(&level)),
        }
    }

    fn mentions(&self, word: &str) -> bool {
        mentions(&self.words, word)
            || self.state.name().contains(word)
            || mentions(&self.marks, word)
            || mentions(&self.note.to_lowercase(), word)
    }
}
