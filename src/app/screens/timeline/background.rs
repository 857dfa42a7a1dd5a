//! Background work of the screen: adding up time, reading single events, searches and critical paths.

use std::sync::Arc;

use eframe::egui::Context;

use super::layout::Detail;
use super::{Anchor, MOST_ITEMS, Pick, Shown, Tab, TimelineScreen, tables};
use crate::app::command::ScreenName;
use crate::app::desk::Desk;
use crate::app::task::{on_thread, taken, taken_about};
use crate::trace::{Timeline, TraceError};

/// The message of a recording whose times were not added up.
const CANCELLED_SPLIT: &str =
    "Adding up the times of this recording was cancelled. Open the recording again to add them up.";

/// The result of a thread: the row and its events.
pub(super) type Details = Vec<(usize, usize, Detail)>;

impl TimelineScreen {
    /// The step of a run whose critical path is shown: the step at the anchor, or else the step of median length after the warm-up.
    pub(super) fn step_of_path(&self, run: &Shown) -> Option<usize> {
        let steps = run.split.as_ref()?.as_ref().ok().filter(|split| split.has_steps)?.first_rank();
        if let Anchor::Step(number) = &self.anchor {
            return number.checked_sub(1).filter(|place| *place < steps.len());
        }
        let mut counted: Vec<usize> = (0..steps.len()).filter(|place| !steps[*place].warm_up).collect();
        counted.sort_by_key(|place| steps[*place].span.1.abs_diff(steps[*place].span.0));
        counted.get(counted.len() / 2).copied()
    }

    /// Computes the critical paths that are shown and not known yet.
    fn poll_paths(&mut self, context: &Context) {
        for place in 0..self.runs.len() {
            let wanted = self.step_of_path(&self.runs[place]).filter(|_| self.tab == Tab::Path);
            let run = &mut self.runs[place];
            if let Some((step, path)) = taken_about(&mut run.following) {
                run.path = Some((step, path.map_err(|error| error.to_string())));
            }
            let Some(step) = wanted.filter(|step| run.path.as_ref().is_none_or(|(known, _)| known != step)) else {
                continue;
            };
            if let (None, Some(Ok(split))) = (&run.following, &run.split)
                && let Some(split_of_step) = split.first_rank().get(step).cloned()
            {
                let timeline = Arc::clone(&run.timeline);
                run.following =
                    Some((step, on_thread("timeline path", context, move || timeline.critical_path(&split_of_step))));
            }
        }
    }
}

impl TimelineScreen {
    /// Takes over the results of background work, and starts new work if the view needs it.
    pub(super) fn poll_work(&mut self, desk: &mut Desk, context: &Context) {
        self.poll_recordings(desk, context);
        self.poll_details(desk, context);
        self.poll_flows(context);
        self.poll_paths(context);
        self.poll_anchor();
        for run in &mut self.runs {
            if let Some(ended) = run.splitting.take_if(|splitting| splitting.has_ended()) {
                run.split = Some(ended.result().map_err(|error| match error {
                    TraceError::Cancelled => CANCELLED_SPLIT.to_owned(),
                    error => error.to_string(),
                }));
            }
        }
        let known = self.runs.iter().filter(|run| run.split.is_some()).count();
        let by = (self.runs.len(), known, self.sort);
        if self.ordered_by != by {
            self.ordered_by = by;
            self.step_order = tables::step_order(self);
        }
        match taken(&mut self.finding) {
            Some(Ok(Some(pick))) => {
                self.outcome = None;
                self.select(Some(pick));
                self.show_selected();
            }
            Some(Ok(None)) => {
                let message = format!("No event whose name contains \"{}\" after the selection.", self.search);
                self.outcome = Some((message, false));
            }
            Some(Err(error)) => self.outcome = Some((error, false)),
            None => {}
        }
        if let Some(ended) = self.exporting.take_if(|exporting| exporting.has_ended()) {
            self.outcome = Some(match ended.result() {
                Ok(message) => (message, true),
                Err(message) => (message, false),
            });
        }
    }

    /// Looks for the next event by name, after the selected one.
    pub(super) fn find(&mut self, context: &Context) {
        let text = self.search.trim().to_owned();
        if text.is_empty() || self.finding.is_some() {
            return;
        }
        let from = self.selected.map_or(0, |pick| pick.run);
        let after = |place: usize| match self.selected {
            Some(pick) if pick.run == place => pick.event.item.span.0,
            _ => i64::MIN,
        };
        let runs: Vec<(usize, Arc<Timeline>, i64)> = (self.runs.iter().enumerate().skip(from))
            .map(|(place, run)| (place, Arc::clone(&run.timeline), after(place)))
            .collect();
        self.finding = Some(on_thread("timeline search", context, move || {
            for (run, timeline, after) in runs {
                let labels = timeline.matching(&text);
                let event = timeline.next(&labels, after).map_err(|error| error.to_string())?;
                if let Some(event) = event {
                    return Ok(Some(Pick { run, event }));
                }
            }
            Ok(None)
        }));
    }

    /// Reads single events if the view shows few enough of them.
    fn poll_details(&mut self, desk: &Desk, context: &Context) {
        match taken(&mut self.reading) {
            Some(Ok(details)) => {
                for (run, row, detail) in details {
                    if let Some(run) = self.runs.get_mut(run) {
                        run.details.insert(row, detail);
                    }
                }
            }
            Some(Err(error)) => self.outcome = Some((error, false)),
            None => {}
        }
        if self.reading.is_some() || desk.screen != ScreenName::TIMELINE {
            return;
        }
        let mut wanted = Vec::new();
        for (place, run) in self.runs.iter().enumerate() {
            let span = (self.view.0.saturating_add(run.zero), self.view.1.saturating_add(run.zero));
            let margin = (span.1 - span.0) / 2;
            for (row, timeline_row) in run.timeline.rows().iter().enumerate() {
                if self.is_group_folded(run, &timeline_row.group) {
                    continue;
                }
                let is_known =
                    run.details.get(&row).is_some_and(|known| known.span.0 <= span.0 && span.1 <= known.span.1);
                let is_fine = |shelf| run.timeline.drawn(row, shelf, span, MOST_ITEMS).1;
                if !is_known && (0..timeline_row.shelves.len()).any(is_fine) {
                    let around = (span.0.saturating_sub(margin), span.1.saturating_add(margin));
                    wanted.push((place, row, around, Arc::clone(&run.timeline)));
                }
            }
        }
        if wanted.is_empty() {
            return;
        }
        self.reading = Some(on_thread("timeline reader", context, move || {
            let read = |(run, row, span, timeline): (usize, usize, (i64, i64), Arc<Timeline>)| {
                Ok((run, row, Detail::new(span, timeline.items(row, span)?)))
            };
            wanted.into_iter().map(read).collect::<Result<Details, TraceError>>().map_err(|error| error.to_string())
        }));
    }
}
