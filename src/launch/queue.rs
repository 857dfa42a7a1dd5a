//! The queue of runs: a state machine without clock or processes.

use std::collections::HashSet;

use crate::plan::RunState;

/// Reason why a queue rejects an operation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The id is taken.
    #[error("run {0:?} is already in the queue: give the new one another id")]
    Duplicate(String),
    /// The run is not in the queue.
    #[error("run {0:?} is not in the queue")]
    Unknown(String),
    /// The run's state does not allow it.
    #[error("run {run:?} is {}: it cannot be {wish}", state.name())]
    Illegal {
        /// The run.
        run: String,
        /// Its state.
        state: RunState,
        /// The requested change.
        wish: &'static str,
    },
}

#[derive(Debug)]
struct Entry {
    run: String,
    state: RunState,
    /// Whether it may run next to other shared runs.
    shared: bool,
    /// Whether it waits for its [release](Queue::release).
    held: bool,
}

/// Runs in the order of their execution. At most one is starting or running, so that runs do not disturb each other; only
/// [shared](Self::share) runs may run side by side.
#[derive(Debug, Default)]
pub struct Queue {
    entries: Vec<Entry>,
    /// The ids of all entries: plans have up to a hundred thousand runs.
    ids: HashSet<String>,
    paused: bool,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a queued run at the end.
    ///
    /// # Errors
    /// The id is taken.
    pub fn push(&mut self, run: impl Into<String>) -> Result<(), QueueError> {
        let run = run.into();
        if !self.ids.insert(run.clone()) {
            return Err(QueueError::Duplicate(run));
        }
        self.entries.push(Entry { run, state: RunState::Queued, shared: false, held: false });
        Ok(())
    }

    /// Adds a run that an earlier workbench started and that may still be running.
    ///
    /// # Errors
    /// The id is taken.
    pub fn adopt(&mut self, run: &str) -> Result<(), QueueError> {
        self.push(run)?;
        self.entry(run)?.state = RunState::Starting;
        Ok(())
    }

    /// Lets a run run next to other shared runs.
    ///
    /// # Errors
    /// The run is not in the queue.
    pub fn share(&mut self, run: &str) -> Result<(), QueueError> {
        self.entry(run)?.shared = true;
        Ok(())
    }

    /// Keeps a run from starting until it is released.
    ///
    /// # Errors
    /// The run is not in the queue.
    pub fn hold(&mut self, run: &str) -> Result<(), QueueError> {
        self.entry(run)?.held = true;
        Ok(())
    }

    /// Allows a held run to start.
    ///
    /// # Errors
    /// The run is not in the queue.
    pub fn release(&mut self, run: &str) -> Result<(), QueueError> {
        self.entry(run)?.held = false;
        Ok(())
    }

    /// The queued runs that are held.
    pub fn held(&self) -> impl Iterator<Item = &str> {
        let held = self.entries.iter().filter(|entry| entry.held && entry.state == RunState::Queued);
        held.map(|entry| entry.run.as_str())
    }

    /// Whether no queued run may start: the queue is paused, or all queued runs are held.
    pub fn is_blocked(&self) -> bool {
        self.paused || !self.entries.iter().any(|entry| entry.state == RunState::Queued && !entry.held)
    }

    /// The next run: the first queued one that is not held, so that no run starves. `None` while the queue is paused, if nothing is queued, and
    /// while another run is active unless both are shared.
    pub fn peek(&self) -> Option<&str> {
        let next = self.entries.iter().find(|entry| entry.state == RunState::Queued && !entry.held)?;
        let apart = |entry: &Entry| entry.state.is_active() && !(entry.shared && next.shared);
        (!self.paused && !self.entries.iter().any(apart)).then_some(next.run.as_str())
    }

    /// Takes the next run, which is then starting; see [`peek`](Self::peek).
    #[allow(clippy::should_implement_trait)] // A queue is not an iterator: more may come after `None`.
    pub fn next(&mut self) -> Option<String> {
        let run = self.peek()?.to_owned();
        self.entry(&run).ok()?.state = RunState::Starting;
        Some(run)
    }

    /// The runs that are starting or running.
    pub fn active(&self) -> impl Iterator<Item = &str> {
        self.states().filter(|(_, state)| state.is_active()).map(|(run, _)| run)
    }

    /// Cancels a queued run at once. For an active run it changes nothing and returns `true`: the caller ends its group and then
    /// [sets](Self::set) its state.
    ///
    /// # Errors
    /// The run is not in the queue, or it has ended.
    pub fn cancel(&mut self, run: &str) -> Result<bool, QueueError> {
        let entry = self.entry(run)?;
        match entry.state {
            RunState::Queued => entry.state = RunState::Cancelled,
            RunState::Starting | RunState::Running => return Ok(true),
            state => return Err(QueueError::Illegal { run: run.into(), state, wish: "cancelled" }),
        }
        Ok(false)
    }

    /// Takes a queued run that must not start out of the queue: it counts as interrupted.
    ///
    /// # Errors
    /// The run is not in the queue, or is not queued.
    pub fn interrupt(&mut self, run: &str) -> Result<(), QueueError> {
        let entry = self.entry(run)?;
        if entry.state != RunState::Queued {
            return Err(QueueError::Illegal { run: run.into(), state: entry.state, wish: "taken out of the queue" });
        }
        entry.state = RunState::Interrupted;
        Ok(())
    }

    /// Queues a cancelled run again, in its place between its neighbours. It must not have been started.
    ///
    /// # Errors
    /// The run is not in the queue, or is not cancelled.
    pub fn revive(&mut self, run: &str) -> Result<(), QueueError> {
        let entry = self.entry(run)?;
        if entry.state != RunState::Cancelled {
            return Err(QueueError::Illegal { run: run.into(), state: entry.state, wish: "put back into the queue" });
        }
        entry.state = RunState::Queued;
        entry.held = false;
        Ok(())
    }

    /// Sets the state reported by the launcher: from starting to running, and from both to a final state. Repeating a state
    /// changes nothing.
    ///
    /// # Errors
    /// The run is not in the queue, or its state does not allow the change.
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

    /// Moves a queued run to a position among the queued ones, from 0; a position beyond the end means the end.
    ///
    /// # Errors
    /// The run is not in the queue, or is not queued.
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

    /// Whether no run is active or queued.
    pub fn is_idle(&self) -> bool {
        self.entries.iter().all(|entry| entry.state.is_final())
    }

    /// Pauses: no further run starts; active ones continue.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Resumes after a pause.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Whether the queue is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The state of a run.
    pub fn state(&self, run: &str) -> Option<RunState> {
        self.entries.iter().find(|entry| entry.run == run).map(|entry| entry.state)
    }

    /// All runs in order, with their states.
    pub fn states(&self) -> impl Iterator<Item = (&str, RunState)> {
        self.entries.iter().map(|entry| (entry.run.as_str(), entry.state))
    }

    fn index(&self, run: &str) -> Result<usize, QueueError> {
        // After a run is added, its state is usually looked up next, so the search starts at the end.
        let is_last = self.entries.last().is_some_and(|entry| entry.run == run);
        let index =
            if is_last { Some(self.entries.len() - 1) } else { self.entries.iter().position(|entry| entry.run == run) };
        index.ok_or_else(|| QueueError::Unknown(run.into()))
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
    fn a_held_run_waits_for_its_release_and_lets_others_pass() {
        let mut queue = queue(&["a", "b", "c"]);
        queue.hold("a").unwrap();
        queue.hold("c").unwrap();
        assert_eq!((queue.held().collect::<Vec<_>>(), queue.is_blocked()), (vec!["a", "c"], false));
        assert_eq!(queue.next().as_deref(), Some("b"));
        queue.set("b", RunState::Finished).unwrap();
        assert_eq!((queue.next(), queue.is_blocked(), queue.is_idle()), (None, true, false));
        queue.resume();
        assert_eq!(queue.next(), None, "a queue that goes on releases nothing");
        queue.release("c").unwrap();
        assert_eq!(queue.next().as_deref(), Some("c"));
        queue.cancel("a").unwrap();
        assert_eq!(queue.held().count(), 0);
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
        assert_eq!(queue.active().collect::<Vec<_>>(), ["a", "b"]);
        // The next one waits until it can run alone, and is not overtaken.
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
    fn a_cancelled_run_comes_back_in_its_place() {
        let mut queue = queue(&["a", "b", "c"]);
        queue.next();
        assert!(matches!(queue.revive("a"), Err(QueueError::Illegal { .. })), "it has started");
        assert!(matches!(queue.revive("b"), Err(QueueError::Illegal { .. })), "it waits");
        queue.cancel("b").unwrap();
        queue.revive("b").unwrap();
        assert_eq!(queue.states().map(|(run, _)| run).collect::<Vec<_>>(), ["a", "b", "c"]);
        queue.set("a", RunState::Finished).unwrap();
        assert_eq!(queue.next().as_deref(), Some("b"));
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
