//! Which run is next: a state machine without clock or process.

use crate::plan::RunState;

/// Why a queue refuses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The id is taken.
    #[error("run {0:?} is in the queue already: give the new one another id")]
    Duplicate(String),
    /// There is no such run.
    #[error("run {0:?} is not in the queue")]
    Unknown(String),
    /// A run in this state cannot do that.
    #[error("run {run:?} is {}: it cannot be {wish}", state.name())]
    Illegal {
        /// The run.
        run: String,
        /// Where it stands.
        state: RunState,
        /// What was asked.
        wish: &'static str,
    },
}

#[derive(Debug)]
struct Entry {
    run: String,
    state: RunState,
    /// It may run beside others that may, too.
    shared: bool,
}

/// The runs in the order they are to be run. At most one is starting or running, for runs must not disturb each other; only
/// those that were [shared](Self::share) may run beside others of their kind.
#[derive(Debug, Default)]
pub struct Queue {
    entries: Vec<Entry>,
    paused: bool,
}

impl Queue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a run at the end, queued.
    ///
    /// # Errors
    /// When the id is taken.
    pub fn push(&mut self, run: impl Into<String>) -> Result<(), QueueError> {
        let run = run.into();
        if self.state(&run).is_some() {
            return Err(QueueError::Duplicate(run));
        }
        self.entries.push(Entry { run, state: RunState::Queued, shared: false });
        Ok(())
    }

    /// Takes in a run that an earlier workbench started and that may still be running.
    ///
    /// # Errors
    /// When the id is taken.
    pub fn adopt(&mut self, run: &str) -> Result<(), QueueError> {
        self.push(run)?;
        self.entry(run)?.state = RunState::Starting;
        Ok(())
    }

    /// Lets a run go beside others that may do so, too.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn share(&mut self, run: &str) -> Result<(), QueueError> {
        self.entry(run)?.shared = true;
        Ok(())
    }

    /// The run whose turn it is: the first that is queued, so that none is overtaken for ever. None while another is starting
    /// or running and not both may share, while the queue is paused, and when nothing is queued.
    pub fn peek(&self) -> Option<&str> {
        let next = self.entries.iter().find(|entry| entry.state == RunState::Queued)?;
        let apart = |entry: &Entry| entry.state.is_under_way() && !(entry.shared && next.shared);
        (!self.paused && !self.entries.iter().any(apart)).then_some(next.run.as_str())
    }

    /// The run whose turn it is, now starting; see [`peek`](Self::peek).
    #[allow(clippy::should_implement_trait)] // A queue is no iterator: more may come after `None`.
    pub fn next(&mut self) -> Option<String> {
        let run = self.peek()?.to_owned();
        self.entry(&run).ok()?.state = RunState::Starting;
        Some(run)
    }

    /// The runs that are starting or running.
    pub fn under_way(&self) -> impl Iterator<Item = &str> {
        self.states().filter(|(_, state)| state.is_under_way()).map(|(run, _)| run)
    }

    /// Cancels a queued run at once. A run that is starting or running stays as it is and `true` comes back: its group must
    /// be told to end, and its state is [`set`](Self::set) when it did.
    ///
    /// # Errors
    /// When there is no such run, or nothing more will happen to it.
    pub fn cancel(&mut self, run: &str) -> Result<bool, QueueError> {
        let entry = self.entry(run)?;
        match entry.state {
            RunState::Queued => entry.state = RunState::Cancelled,
            RunState::Starting | RunState::Running => return Ok(true),
            state => return Err(QueueError::Illegal { run: run.into(), state, wish: "cancelled" }),
        }
        Ok(false)
    }

    /// Queues a run again that did not finish, at the end. It needs a folder without logs.
    ///
    /// # Errors
    /// When there is no such run, or it finished, or it has not ended.
    pub fn retry(&mut self, run: &str) -> Result<(), QueueError> {
        let index = self.index(run)?;
        let state = self.entries[index].state;
        if !state.is_final() || state == RunState::Finished {
            return Err(QueueError::Illegal { run: run.into(), state, wish: "retried" });
        }
        let entry = self.entries.remove(index);
        self.entries.push(Entry { state: RunState::Queued, ..entry });
        Ok(())
    }

    /// Takes over what the launcher says of a run: it goes from starting to running, and from both to an end. The same state
    /// again changes nothing.
    ///
    /// # Errors
    /// When there is no such run, or it cannot come to that state from where it stands.
    pub fn set(&mut self, run: &str, state: RunState) -> Result<(), QueueError> {
        let entry = self.entry(run)?;
        let active = matches!(entry.state, RunState::Starting | RunState::Running);
        let forward = entry.state == RunState::Starting && state == RunState::Running;
        if entry.state != state && !forward && !(active && state.is_final()) {
            return Err(QueueError::Illegal { run: run.into(), state: entry.state, wish: state.name() });
        }
        entry.state = state;
        Ok(())
    }

    /// Moves a queued run so that it is the `position`th of the queued ones, from 0; a position beyond the end is the end.
    ///
    /// # Errors
    /// When there is no such run, or it is not queued.
    pub fn reorder(&mut self, run: &str, position: usize) -> Result<(), QueueError> {
        let index = self.index(run)?;
        let state = self.entries[index].state;
        if state != RunState::Queued {
            return Err(QueueError::Illegal { run: run.into(), state, wish: "moved" });
        }
        let entry = self.entries.remove(index);
        let queued = |(_, entry): &(usize, &Entry)| entry.state == RunState::Queued;
        let place = self.entries.iter().enumerate().filter(queued).nth(position).map(|(index, _)| index);
        self.entries.insert(place.unwrap_or(self.entries.len()), entry);
        Ok(())
    }

    /// Whether nothing is running and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.entries.iter().all(|entry| entry.state.is_final())
    }

    /// Hands out no further run; one that is running goes on.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Hands out runs again.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Whether the queue is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Where a run stands.
    pub fn state(&self, run: &str) -> Option<RunState> {
        self.entries.iter().find(|entry| entry.run == run).map(|entry| entry.state)
    }

    /// All runs in order, and where they stand.
    pub fn states(&self) -> impl Iterator<Item = (&str, RunState)> {
        self.entries.iter().map(|entry| (entry.run.as_str(), entry.state))
    }

    fn index(&self, run: &str) -> Result<usize, QueueError> {
        self.entries.iter().position(|entry| entry.run == run).ok_or_else(|| QueueError::Unknown(run.into()))
    }

    fn entry(&mut self, run: &str) -> Result<&mut Entry, QueueError> {
        let index = self.index(run)?;
        Ok(&mut self.entries[index])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn queue(runs: &[&str]) -> Queue {
        let mut queue = Queue::new();
        runs.iter().for_each(|run| queue.push(*run).unwrap());
        queue
    }

    #[test]
    fn one_run_at_a_time_in_order() {
        let mut queue = queue(&["a", "b"]);
        assert_eq!(queue.next().as_deref(), Some("a"));
        assert_eq!(queue.next(), None);
        queue.set("a", RunState::Running).unwrap();
        assert_eq!(queue.next(), None);
        queue.set("a", RunState::Failed).unwrap();
        assert_eq!(queue.next().as_deref(), Some("b"));
        queue.set("b", RunState::Finished).unwrap();
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn shared_runs_go_side_by_side_and_never_beside_one_that_is_alone() {
        let mut queue = queue(&["a", "b", "alone", "c"]);
        for run in ["a", "b", "c"] {
            queue.share(run).unwrap();
        }
        assert_eq!((queue.next().as_deref(), queue.next().as_deref()), (Some("a"), Some("b")));
        assert_eq!(queue.under_way().collect::<Vec<_>>(), ["a", "b"]);
        // The next one waits until it is alone, and is not overtaken.
        assert_eq!(queue.next(), None);
        queue.set("a", RunState::Finished).unwrap();
        assert_eq!(queue.peek(), None);
        queue.set("b", RunState::Finished).unwrap();
        assert_eq!((queue.next().as_deref(), queue.next()), (Some("alone"), None));
        queue.set("alone", RunState::Failed).unwrap();
        assert_eq!(queue.next().as_deref(), Some("c"));
        assert!(queue.share("x").is_err());
    }

    #[test]
    fn a_paused_queue_hands_out_nothing_until_resumed() {
        let mut queue = queue(&["a"]);
        queue.pause();
        assert_eq!((queue.is_paused(), queue.next()), (true, None));
        queue.resume();
        assert_eq!(queue.next().as_deref(), Some("a"));
    }

    #[test]
    fn a_cancelled_queued_run_is_skipped_and_an_active_one_is_left_to_the_launcher() {
        let mut queue = queue(&["a", "b", "c"]);
        queue.next();
        assert_eq!(queue.cancel("a"), Ok(true));
        assert_eq!(queue.state("a"), Some(RunState::Starting));
        assert_eq!(queue.cancel("b"), Ok(false));
        queue.set("a", RunState::Cancelled).unwrap();
        assert_eq!(queue.next().as_deref(), Some("c"));
        assert!(matches!(queue.cancel("b"), Err(QueueError::Illegal { state: RunState::Cancelled, .. })));
    }

    #[test]
    fn a_failed_run_is_retried_after_the_others() {
        let mut queue = queue(&["a", "b"]);
        queue.next();
        assert!(matches!(queue.retry("a"), Err(QueueError::Illegal { .. })));
        queue.set("a", RunState::TimedOut).unwrap();
        queue.retry("a").unwrap();
        assert_eq!(queue.states().collect::<Vec<_>>(), [("b", RunState::Queued), ("a", RunState::Queued)]);
        queue.next();
        queue.set("b", RunState::Finished).unwrap();
        assert!(matches!(queue.retry("b"), Err(QueueError::Illegal { .. })));
    }

    #[test]
    fn reordering_counts_queued_runs_only() {
        let mut queue = queue(&["a", "b", "c", "d"]);
        queue.next();
        queue.reorder("d", 0).unwrap();
        queue.reorder("b", 9).unwrap();
        let order: Vec<_> = queue.states().map(|(run, _)| run).collect();
        assert_eq!(order, ["a", "d", "c", "b"]);
        assert!(matches!(queue.reorder("a", 0), Err(QueueError::Illegal { .. })));
    }

    #[test]
    fn illegal_transitions_and_unknown_runs_are_errors() {
        use RunState::{Failed, Finished, Queued, Running, Starting};
        let mut queue = queue(&["a"]);
        assert_eq!(queue.push("a"), Err(QueueError::Duplicate("a".into())));
        assert_eq!(queue.set("x", Running), Err(QueueError::Unknown("x".into())));
        for state in [Starting, Running, Finished, Failed] {
            assert!(queue.set("a", state).is_err(), "queued to {}", state.name());
        }
        queue.next();
        assert!(queue.set("a", Queued).is_err());
        queue.set("a", Running).unwrap();
        assert!(queue.set("a", Starting).is_err());
        queue.set("a", Finished).unwrap();
        queue.set("a", Finished).unwrap();
        let text = queue.set("a", Failed).unwrap_err().to_string();
        assert!(text.contains("finished") && text.contains("failed"), "{text}");
    }
}
