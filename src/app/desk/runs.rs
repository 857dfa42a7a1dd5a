//! All runs of the open session: their records, overlaid with their states in the queue.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use strum::VariantArray as _;

use crate::analysis::{Mark, RunSummary};
use crate::app::engine::Records;
use crate::app::listing::{Entry, Listing, TRAINING_LOSS};
use crate::conduct::{QueueRow, QueueView};
use crate::plan::{Facts, Level, RunState, mentions};
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
    /// The loss of the newest step while it runs, then its training loss: the mean of the last epoch.
    pub loss: Option<f64>,
    /// How long it takes from its start to its end by its own pace, in seconds, once that is known; `None` if it does not run.
    whole_s: Option<f64>,
    /// The reason why it waits at its site; `None` if it does not wait there.
    pub waits: Option<String>,
    /// Its position among the queued runs, from 0; `None` if it is not queued.
    pub place: Option<usize>,
    /// Whether it is in the queue that this window is attached to.
    pub ours: bool,
    /// If this run did not finish and was queued again: the name of the latest run with the same cell and repeat.
    pub retried_as: Option<String>,
    /// Labels of its marks about disturbances: `contended, throttled`; empty without any.
    pub marks: String,
    /// The labels of [`Self::marks`] with the texts of warnings, because a label alone would not give the reason for a warning.
    pub remarks: String,
    /// The full texts of these marks, one on each line.
    pub stories: String,
    /// The user's note.
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
            whole_s: None,
            waits: None,
            place: None,
            ours: false,
            retried_as: None,
            marks: String::new(),
            remarks: String::new(),
            stories: String::new(),
            note: String::new(),
            entry: Arc::clone(entry),
        }
    }

    /// The row of a run without a record yet.
    pub fn unknown(run: &str) -> Self {
        Self::of(&Arc::new(Entry::unknown(run)))
    }

    /// Takes the marks and the training loss from the run's summary.
    pub fn summarise(&mut self, summary: &RunSummary) {
        self.loss = summary.value(TRAINING_LOSS).or(self.loss);
        let befell: Vec<&Mark> = summary.marks.iter().filter(|mark| mark.is_disturbance()).collect();
        let mut labels: Vec<&str> = befell.iter().map(|mark| mark.label()).collect();
        labels.dedup();
        self.marks = labels.join(", ");
        let remark = |mark: &&Mark| match mark {
            Mark::Warned(message) => format!("{}: {message}", mark.label()),
            _ => mark.label().to_owned(),
        };
        let mut remarks: Vec<String> = befell.iter().map(remark).collect();
        remarks.dedup();
        self.remarks = remarks.join(", ");
        self.stories = befell.iter().map(|mark| format!("{}: {mark}", mark.label())).collect::<Vec<_>>().join("\n");
    }

    /// Sets the state to that in the queue.
    pub fn overlay(&mut self, queued: &QueueRow, place: Option<usize>) {
        // A recorded end is newer than the queue's state.
        if !self.state.is_final() {
            self.state = queued.state;
        }
        self.ours = true;
        self.waits = queued.waits.clone().filter(|_| !self.state.is_final());
        self.place = place;
        let live = self.state.is_active() && queued.steps > 0;
        self.steps = live.then_some((queued.step, queued.steps));
        self.epoch = if live { queued.epoch } else { 0 };
        self.whole_s = queued.whole_s.filter(|_| live);
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

    /// Elapsed time, in seconds. It is unknown of an imported run: its file says at most when it was started.
    pub fn elapsed_s(&self, now_s: f64) -> Option<f64> {
        if self.is_imported {
            return None;
        }
        let started_s = self.started_time_s?;
        let end_s = match self.ended_time_s {
            Some(ended_s) => ended_s,
            // The clock of another process's runs is unknown.
            None if self.state.is_active() && now_s >= started_s => now_s,
            None => return None,
        };
        Some((end_s - started_s).max(0.0))
    }

    /// Time left at the run's own pace, in seconds, once that is known.
    pub fn remaining_s(&self, now_s: f64) -> Option<f64> {
        Some((self.whole_s? - self.elapsed_s(now_s)?).max(0.0))
    }

    fn has_failed(&self) -> bool {
        matches!(self.state, RunState::Failed | RunState::TimedOut | RunState::Interrupted)
    }

    /// Whether it can be queued again.
    pub fn can_retry(&self) -> bool {
        self.state.is_final() && self.state != RunState::Finished
    }

    /// Its state in a word. A run that was sent to its site and waits there has not begun.
    pub fn state_word(&self) -> &'static str {
        if self.waits.is_some() { "waiting" } else { self.state.name() }
    }

    /// Its accessible name.
    pub fn spoken(&self) -> String {
        format!("Run {}: {}, {}", self.number, self.cells.join(", "), self.state_word())
    }
}

impl Facts for Row {
    fn level(&self, key: &str) -> Option<Level> {
        match key {
            "state" => Some(Level::text(self.state.name())),
            "repeat" => self.repeat.map(|repeat| Level::Integer(repeat.into())),
            "plan" => Some(Level::text(&self.plan)),
            "run" => Some(self.number.parse().map_or_else(|_| Level::text(&self.number), Level::Integer)),
            _ => self.entry.level(key),
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
            || self.state_word().contains(word)
            || mentions(&self.marks, word)
            || mentions(&self.note.to_lowercase(), word)
    }
}

/// All runs of the open session, in the order they were queued.
#[derive(Default)]
pub struct Runs {
    /// The recorded runs.
    pub listing: Arc<Listing>,
    /// The recorded runs, then the runs of the queue that are not recorded yet.
    pub rows: Vec<Row>,
    /// Indexes into `rows` of the runs that are not recorded yet.
    unrecorded: HashMap<String, usize>,
    /// Number of runs in each state of [`RunState::VARIANTS`].
    pub counts: Vec<usize>,
    /// The failed, timed-out and interrupted runs that were not retried yet.
    pub failed: Vec<String>,
}

impl Runs {
    /// The session's records were read.
    pub fn records_changed(&mut self, records: &Records, queue: &QueueView) {
        self.listing = Arc::clone(&records.listing);
        self.rows = self.listing.entries.iter().map(Row::of).collect();
        self.unrecorded.clear();
        for summary in records.summaries.iter() {
            if let Some(place) = self.listing.places.get(&summary.run) {
                self.rows[*place].summarise(summary);
            }
        }
        for (run, note) in &*records.notes {
            if let Some(place) = self.listing.places.get(run) {
                self.rows[*place].note.clone_from(note);
            }
        }
        self.queue_changed(queue);
    }

    /// The queue changed.
    pub fn queue_changed(&mut self, queue: &QueueView) {
        let mut waiting = 0;
        for queued in &queue.rows {
            let place = (queued.state == RunState::Queued).then_some(waiting);
            waiting += usize::from(place.is_some());
            let index = self.index_of(&queued.run).unwrap_or_else(|| {
                self.unrecorded.insert(queued.run.clone(), self.rows.len());
                self.rows.push(Row::unknown(&queued.run));
                self.rows.len() - 1
            });
            self.rows[index].overlay(queued, place);
        }
        self.count();
    }

    /// Counts states, and finds the attempts that followed a run.
    fn count(&mut self) {
        self.counts =
            RunState::VARIANTS.iter().map(|state| self.rows.iter().filter(|row| row.state == *state).count()).collect();
        let mut latest = vec![0; self.listing.attempted];
        for (index, row) in self.rows.iter().enumerate() {
            if let Some(at) = row.attempt_at {
                latest[at] = index;
            }
        }
        let latest_of = |index: usize| self.rows[index].attempt_at.map_or(index, |at| latest[at]);
        let failed = |index: &usize| self.rows[*index].has_failed() && latest_of(*index) == *index;
        let all = 0..self.rows.len();
        self.failed = all.clone().filter(failed).map(|index| self.rows[index].run.clone()).collect();
        let successor = |index: usize| {
            let latest = Some(latest_of(index)).filter(|latest| *latest > index && self.rows[index].can_retry());
            latest.map(|latest| self.rows[latest].run.clone())
        };
        let successors: Vec<Option<String>> = all.map(successor).collect();
        for (row, successor) in self.rows.iter_mut().zip(successors) {
            row.retried_as = successor;
        }
    }

    fn index_of(&self, run: &str) -> Option<usize> {
        self.listing.places.get(run).or_else(|| self.unrecorded.get(run)).copied()
    }

    /// The row of a run.
    pub fn row(&self, run: &str) -> Option<&Row> {
        self.index_of(run).and_then(|index| self.rows.get(index))
    }
}
