//! The queue as clients see it, and the changes that are sent to them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::plan::RunState;
use crate::session::{Estimate, Measurement, SearchView, Session};

/// One run of the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRow {
    /// Its id.
    pub run: String,
    /// Its state.
    pub state: RunState,
    /// Steps done.
    pub step: u64,
    /// Total steps; 0 while unknown.
    pub steps: u64,
    /// Current epoch.
    pub epoch: u32,
    /// Latest loss.
    pub loss: Option<f64>,
    /// How long it takes from its start to its end by its own pace, in seconds; `None` until its pace is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_s: Option<f64>,
    /// The reason why it waits at its site, in words; `None` if it does not wait there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

#[cfg(test)]
impl QueueRow {
    /// A run in this state that has reported no step.
    pub fn in_state(run: &str, state: RunState) -> Self {
        Self { run: run.to_owned(), state, step: 0, steps: 0, epoch: 0, loss: None, whole_s: None, waits: None }
    }
}

/// The state of the queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueView {
    /// The runs in the order of the queue.
    pub rows: Vec<QueueRow>,
    /// Whether the queue is paused.
    pub paused: bool,
    /// The number of runs that an earlier conductor left, or that came with an archive, and that wait for an order to resume the queue.
    pub restored: usize,
    /// The command lines of programs that came with the session's archive and have not been allowed yet.
    pub asks: Vec<String>,
    /// Runs that ended.
    pub ended: usize,
    /// Runs queued.
    pub queued: usize,
    /// Names of the reports that are being imported or wait for their import.
    pub importing: Vec<String>,
    /// The runs whose starts or ends cannot be recorded, because the journal was deleted, replaced or moved away.
    pub unrecordable: Vec<String>,
    /// The measurement of the machine that is waiting or running, or else the last one.
    pub measurement: Option<Measurement>,
    /// The searches that this conductor continues or has completed.
    pub searches: Vec<SearchView>,
    /// Estimated time until the queue is empty, in seconds from `time_s`.
    pub remaining_s: f64,
    /// The basis of this estimate.
    pub remaining_is: Estimate,
    /// Time of this view, in seconds since the Unix epoch.
    pub time_s: f64,
}

/// A change of the queue: the rows that differ, each with its index, the searches if one of them differs, and all other
/// fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueChange {
    /// Whether all earlier rows are replaced, as after runs were moved.
    whole: bool,
    rows: Vec<(usize, QueueRow)>,
    paused: bool,
    restored: usize,
    asks: Vec<String>,
    ended: usize,
    queued: usize,
    importing: Vec<String>,
    unrecordable: Vec<String>,
    measurement: Option<Measurement>,
    /// `None` if no search has changed: their lines and runs may be many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    searches: Option<Vec<SearchView>>,
    remaining_s: f64,
    remaining_is: Estimate,
    time_s: f64,
}

impl QueueView {
    pub(super) fn of(session: &Session) -> Self {
        let progress = session.progress();
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let row = |(run, state): (&str, _)| {
            let at = progress.running.get(run).cloned().unwrap_or_default();
            let loss = at.loss.filter(|loss| loss.is_finite());
            let waits = session.waits(run).map(str::to_owned);
            let whole_s = at.whole_s();
            QueueRow {
                run: run.to_owned(),
                state,
                step: at.step,
                steps: at.steps,
                epoch: at.epoch,
                loss,
                whole_s,
                waits,
            }
        };
        let (remaining_s, remaining_is) = progress.remaining(time_s);
        Self {
            rows: session.states().map(row).collect(),
            paused: session.is_paused() || session.restored() > 0,
            restored: session.restored(),
            asks: session.asks().to_vec(),
            ended: progress.ended,
            queued: progress.queued,
            importing: session.importing().map(str::to_owned).collect(),
            unrecordable: session.unrecordable().map(str::to_owned).collect(),
            measurement: session.measurement().cloned(),
            searches: session.searches().collect(),
            remaining_s,
            remaining_is,
            time_s,
        }
    }

    /// Whether a run is starting or running.
    pub fn is_running(&self) -> bool {
        self.rows.iter().any(|row| row.state.is_active())
    }

    /// Whether any run is active or queued.
    pub fn is_active(&self) -> bool {
        self.rows.iter().any(|row| !row.state.is_final())
    }

    /// Whether a measurement of the machine is waiting or running.
    pub fn is_measuring(&self) -> bool {
        self.measurement.as_ref().is_some_and(|measurement| !measurement.is_over())
    }

    /// Whether nothing is left to do: no run, no import, no measurement.
    pub fn is_idle(&self) -> bool {
        !self.is_active() && self.importing.is_empty() && !self.is_measuring()
    }

    /// Whether only runs are left that wait for the user to resume them.
    pub fn is_resting(&self) -> bool {
        let unfinished = self.rows.iter().filter(|row| !row.state.is_final()).count();
        self.restored > 0 && self.restored == unfinished && self.importing.is_empty() && !self.is_measuring()
    }

    /// Whether only runs are left that start once the queue is resumed, whoever paused it.
    pub fn stands_still(&self) -> bool {
        let waits = self.is_resting() || self.paused && self.restored == 0;
        self.is_active() && !self.is_running() && waits && self.importing.is_empty() && !self.is_measuring()
    }

    /// The word before the remaining time: nothing if it is estimated from the plan and from runs of the same cells, `about` if it is
    /// guessed from runs of other cells, and `at least` if nothing is known of some runs.
    pub fn remaining_word(&self) -> &'static str {
        match self.remaining_is {
            Estimate::Estimated => "",
            Estimate::Guessed => "about ",
            Estimate::AtLeast => "at least ",
        }
    }

    /// Whether both views show the same, apart from the time.
    pub(super) fn shows(&self, other: &Self) -> bool {
        let counts = |view: &Self| (view.paused, view.restored, view.ended, view.queued);
        let are_lists_same =
            (&self.asks, &self.importing, &self.unrecordable) == (&other.asks, &other.importing, &other.unrecordable);
        are_lists_same
            && (&self.rows, counts(self), &self.measurement, &self.searches)
                == (&other.rows, counts(other), &other.measurement, &other.searches)
    }

    /// The change that turns an earlier view into this one.
    pub(super) fn since(&self, earlier: &Self) -> QueueChange {
        let same_runs = earlier.rows.len() <= self.rows.len()
            && earlier.rows.iter().zip(&self.rows).all(|(before, now)| before.run == now.run);
        let is_new = |(place, row): &(usize, &QueueRow)| !same_runs || earlier.rows.get(*place) != Some(*row);
        QueueChange {
            whole: !same_runs,
            rows: self.rows.iter().enumerate().filter(is_new).map(|(place, row)| (place, row.clone())).collect(),
            paused: self.paused,
            restored: self.restored,
            asks: self.asks.clone(),
            ended: self.ended,
            queued: self.queued,
            importing: self.importing.clone(),
            unrecordable: self.unrecordable.clone(),
            measurement: self.measurement.clone(),
            searches: (self.searches != earlier.searches).then(|| self.searches.clone()),
            remaining_s: self.remaining_s,
            remaining_is: self.remaining_is,
            time_s: self.time_s,
        }
    }

    /// Applies a change.
    pub fn apply(&mut self, change: QueueChange) {
        if change.whole {
            self.rows.clear();
        }
        for (place, row) in change.rows {
            match self.rows.get_mut(place) {
                Some(before) => *before = row,
                None => self.rows.push(row),
            }
        }
        (self.paused, self.ended, self.queued) = (change.paused, change.ended, change.queued);
        (self.remaining_s, self.remaining_is, self.time_s) = (change.remaining_s, change.remaining_is, change.time_s);
        (self.asks, self.unrecordable) = (change.asks, change.unrecordable);
        if let Some(searches) = change.searches {
            self.searches = searches;
        }
        (self.restored, self.importing, self.measurement) = (change.restored, change.importing, change.measurement);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn view(rows: &[(&str, RunState)]) -> QueueView {
        let row = |(run, state): &(&str, RunState)| QueueRow::in_state(run, *state);
        QueueView { rows: rows.iter().map(row).collect(), queued: rows.len(), ..QueueView::default() }
    }

    #[test]
    fn a_queue_stands_still_if_all_that_is_left_waits_for_the_queue_to_be_resumed() {
        use RunState::{Finished, Queued, Running};
        let paused = |rows: &[(&str, RunState)]| QueueView { paused: true, ..view(rows) };
        assert!(paused(&[("a", Finished), ("b", Queued)]).stands_still());
        assert!(!paused(&[("a", Running), ("b", Queued)]).stands_still(), "one is active");
        assert!(!paused(&[("a", Finished)]).stands_still(), "nothing is left");
        assert!(!view(&[("b", Queued)]).stands_still(), "it is not paused");
        let left = |restored| QueueView { restored, ..paused(&[("b", Queued), ("c", Queued)]) };
        assert!(left(2).stands_still() && !left(1).stands_still(), "a launched run may start beside restored ones");
    }

    #[test]
    fn changes_one_after_the_other_give_the_view_and_hold_only_what_changed() {
        use RunState::{Finished, Queued, Running};
        let views = [
            view(&[("a", Queued), ("b", Queued)]),
            view(&[("a", Running), ("b", Queued)]),
            view(&[("a", Running), ("b", Queued), ("c", Queued)]),
            view(&[("a", Finished), ("c", Running), ("b", Queued)]),
            view(&[("b", Queued)]),
            QueueView { unrecordable: vec!["a".to_owned()], ..view(&[("b", Queued)]) },
        ];
        let (mut shown, mut sent) = (QueueView::default(), Vec::new());
        for view in &views {
            assert!(!view.shows(&shown));
            let change = view.since(&shown);
            sent.push((change.whole, change.rows.len()));
            shown.apply(change);
            assert_eq!(&shown, view);
        }
        assert_eq!(sent, [(false, 2), (false, 1), (false, 1), (true, 3), (true, 1), (false, 0)]);
    }

    #[test]
    fn searches_are_sent_only_if_one_of_them_has_changed() {
        let search = |lines: &[&str]| SearchView {
            plan: "p1".to_owned(),
            lines: Arc::new(lines.iter().map(|line| (*line).to_owned()).collect()),
            runs: Arc::default(),
            is_deciding: false,
        };
        let begun = QueueView { searches: vec![search(&["a"])], ..view(&[("a", RunState::Running)]) };
        let stepped = QueueView { ended: 1, ..begun.clone() };
        let decided = QueueView { searches: vec![search(&["a", "b"])], ..stepped.clone() };
        let (mut shown, mut sent) = (QueueView::default(), Vec::new());
        for view in [&begun, &stepped, &decided] {
            let change = view.since(&shown);
            sent.push(change.searches.is_some());
            let text = serde_json::to_string(&change).unwrap();
            shown.apply(serde_json::from_str(&text).unwrap());
            assert_eq!(&shown, view);
        }
        assert_eq!(sent, [true, false, true]);
    }
}
