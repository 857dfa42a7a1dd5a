//! Following until something is over: runs, the queue, or a measurement of the machine.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use super::interrupt::Interrupt;
use super::show::{draw, unrecorded};
use super::{Following, search_in};
use crate::cli::say;
use crate::conduct::{ConductError, Order, QueueView};
use crate::plan::RunState;
use crate::session::{Measurement, SearchView, open_reader};
use crate::store::StoreError;

/// How runs ended.
#[derive(Default)]
pub(in crate::cli) struct Outcomes {
    pub finished: usize,
    pub unfinished: usize,
}

impl Outcomes {
    /// Counts the runs that have ended. The queue does not know the runs that ended under an earlier conductor; they are read from the
    /// records. Of `earlier` runs, those that did not finish do not count: a resumed search has made them again.
    fn of(
        queue: &QueueView,
        runs: &HashSet<&str>,
        earlier: &HashSet<String>,
        folder: &Path,
    ) -> Result<Self, StoreError> {
        let rows = queue.rows.iter().filter(|row| runs.contains(row.run.as_str()));
        let mut states: HashMap<String, RunState> = rows.map(|row| (row.run.clone(), row.state)).collect();
        if states.len() < runs.len() {
            for record in open_reader(folder)?.headings()?.into_iter().filter(|run| runs.contains(run.run.as_str())) {
                states.entry(record.run).or_insert(record.state);
            }
        }
        states.retain(|_, state| state.is_final());
        let finished = states.values().filter(|state| **state == RunState::Finished).count();
        states.retain(|run, state| *state != RunState::Finished && !earlier.contains(run));
        Ok(Self { finished, unfinished: states.len() })
    }

    pub fn add(&mut self, more: &Self) {
        self.finished += more.finished;
        self.unfinished += more.unfinished;
    }
}

impl Following {
    /// Follows until only runs are left that wait for the queue to be resumed; `None` if it was interrupted.
    pub fn until_settled(&mut self) -> Result<Option<()>, Box<dyn Error>> {
        self.follow(|queue| queue.is_idle() || queue.is_resting())
    }

    /// Follows until nothing is left to do; `None` if it was interrupted.
    pub fn until_idle(&mut self) -> Result<Option<()>, Box<dyn Error>> {
        self.follow(QueueView::is_idle)
    }

    /// Follows until the given runs and the runs of the launched search have ended. `None` if they were stopped because
    /// of an interrupt or a closed stdout.
    pub fn until_ended(&mut self, runs: &[String]) -> Result<Option<Outcomes>, Box<dyn Error>> {
        let search = self.search.clone();
        let is_over = |queue: &QueueView| {
            let of_search = search_in(queue, search.as_deref());
            let wanted = wanted(runs, of_search);
            // A run that the queue does not have ended under an earlier conductor.
            let is_open = queue.rows.iter().any(|row| !row.state.is_final() && wanted.contains(row.run.as_str()));
            let is_deciding = of_search.is_some_and(|search| search.is_deciding);
            !is_open && !is_deciding && !queue.importing.iter().any(|name| wanted.contains(name.as_str()))
        };
        let is_whole = self.follow(is_over)?;
        let wanted = wanted(runs, search_in(&self.queue, search.as_deref()));
        let outcomes = Outcomes::of(&self.queue, &wanted, &self.earlier, &self.folder)?;
        if is_whole.is_none() {
            say(format_args!("{} finished, {} did not finish", outcomes.finished, outcomes.unfinished));
        }
        Ok(is_whole.map(|()| outcomes))
    }

    /// Waits for runs that other programs queued in this process and that would end with it, then ends the conductor in this process; false
    /// if it was interrupted.
    pub fn wait_for_others(&mut self) -> Result<bool, Box<dyn Error>> {
        while self.host.is_some() {
            if !self.queue.is_idle() {
                say("waiting for runs that other programs queued here");
                self.shown = None;
                if self.until_idle()?.is_none() {
                    return Ok(false);
                }
            }
            match self.order(Order::End) {
                Ok(_) => break,
                // Another program queued runs in the meantime.
                Err(_) if !self.queue.is_idle() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Follows until `is_over`. An interrupt stops the runs that are shown, or all runs if the conductor is in this process, and waits for
    /// their end, unless it cannot be recorded any more; a second interrupt does not wait.
    fn follow(&mut self, is_over: impl Fn(&QueueView) -> bool) -> Result<Option<()>, Box<dyn Error>> {
        let mut cancelled = false;
        self.await_queue()?;
        while !is_over(&self.queue) {
            self.watch_turn()?;
            if self.host.is_none() && self.queue.is_resting() && !is_over(&self.queue) {
                return Err("the session's conductor was killed and its queue is paused: multicard attach --resume continues it".into());
            }
            let interrupt = self.interrupts.take();
            if cancelled && interrupt == Some(Interrupt::Wanted) {
                self.bar.suspend(|| {
                    say("interrupted again: the next process that opens the session will record how its runs ended");
                });
                return Ok(None);
            }
            if (interrupt.is_some() || self.unwritten.is_some()) && !cancelled {
                let why = self.unwritten.as_ref();
                let why = why.map_or("interrupted".to_owned(), |error| format!("cannot write events: {error}"));
                self.bar.suspend(|| say(format_args!("{why}: stopping all runs")));
                self.stop_shown()?;
                cancelled = true;
            }
            if cancelled && !self.queue.unrecordable.is_empty() {
                break;
            }
        }
        self.bar.finish_and_clear();
        if !self.queue.unrecordable.is_empty() {
            let is_own = |run: &str| self.host.is_some() || self.shows(run);
            say(unrecorded(&self.queue, is_own, &self.folder));
        }
        // Whoever closes the pipe interrupts; runs that ended anyway are kept.
        match self.unwritten.take() {
            Some(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
            Some(_) => Ok(None),
            None => Ok((!cancelled).then_some(())),
        }
    }

    /// Waits a moment for news, then shows the news and the progress. While runs are active, the conductor reports progress every second.
    fn watch_turn(&mut self) -> Result<(), Box<dyn Error>> {
        self.turn()?;
        self.say_starts();
        draw(&self.bar, &self.queue);
        match self.silence().filter(|_| self.queue.is_running()) {
            Some(silent) if self.is_impatient => return Err(ConductError::Silent(silent).into()),
            Some(silent) => self.say_silence(&silent),
            None => {}
        }
        Ok(())
    }

    /// Follows until nothing is left to do. An interrupt ends the following; the runs go on.
    pub fn watch(&mut self) -> Result<(), Box<dyn Error>> {
        self.watch_until(QueueView::is_idle)
    }

    /// Follows runs that a launch kept until they have ended; returns how they ended, and how many have not. An interrupt ends the following;
    /// the runs go on, since other programs queued them.
    pub fn watch_kept(&mut self, runs: &[String]) -> Result<(Outcomes, usize), Box<dyn Error>> {
        let wanted = wanted(runs, None);
        let open = |queue: &QueueView| {
            queue.rows.iter().filter(|row| !row.state.is_final() && wanted.contains(row.run.as_str())).count()
        };
        self.show_too(runs);
        self.watch_until(|queue| open(queue) == 0)?;
        Ok((Outcomes::of(&self.queue, &wanted, &self.earlier, &self.folder)?, open(&self.queue)))
    }

    /// Follows until `is_over`, or until only runs are left that wait for the queue to be resumed.
    fn watch_until(&mut self, is_over: impl Fn(&QueueView) -> bool) -> Result<(), Box<dyn Error>> {
        self.await_queue()?;
        while !is_over(&self.queue) && !self.queue.is_resting() && !self.interrupts.is_pending() {
            self.watch_turn()?;
            if let Some(error) = self.unwritten.take() {
                return Err(error.into());
            }
        }
        self.bar.finish_and_clear();
        Ok(())
    }

    /// Follows the measurement of the machine until it is over and returns it; `None` if the conductor has none. An interrupt cancels the
    /// measurement.
    pub fn until_measured(
        &mut self,
        show: &mut dyn FnMut(&Measurement),
    ) -> Result<Option<Measurement>, Box<dyn Error>> {
        self.await_queue()?;
        let mut is_cancelled = false;
        loop {
            match &self.queue.measurement {
                Some(measurement) if !measurement.is_over() => show(measurement),
                over => return Ok(over.clone()),
            }
            if self.interrupts.take().is_some() && !is_cancelled {
                self.order(Order::CancelMeasuring)?;
                is_cancelled = true;
            }
            self.turn()?;
        }
    }

    fn stop_shown(&mut self) -> Result<(), Box<dyn Error>> {
        if let Some(search) = self.search.clone() {
            // Otherwise the search could queue its next round after its runs were stopped.
            self.order(Order::StopSearch(search))?;
        }
        let shown = self.shown.clone().filter(|_| self.host.is_none());
        let Some(shown) = shown else { return self.order(Order::CancelAll).map(|_| ()) };
        // From the end of the queue, so that none starts in place of a stopped one.
        let of_search =
            search_in(&self.queue, self.search.as_deref()).map_or_else(Arc::default, |search| Arc::clone(&search.runs));
        let is_own = |run: &String| shown.contains(run) || of_search.contains(run);
        for run in self.unfinished().into_iter().rev().filter(is_own) {
            self.order(Order::Cancel(run))?;
        }
        Ok(())
    }
}

/// The runs of a launch, and the runs that its search queued.
fn wanted<'r>(runs: &'r [String], search: Option<&'r SearchView>) -> HashSet<&'r str> {
    let of_search = search.map_or(&[][..], |search| search.runs.as_slice());
    runs.iter().chain(of_search).map(String::as_str).collect()
}
