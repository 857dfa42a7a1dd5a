//! How recordings are aligned: at their first events, at an epoch or a step, or at an event with a given name.

use std::sync::Arc;

use eframe::egui::Context;
use poll_promise::Promise;

use super::{Shown, TimelineScreen};
use crate::app::task::on_thread;
use crate::foreign::with_ellipsis;
use crate::trace::{MarkKind, Timeline, TraceError};

/// The event or mark at which recordings are aligned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// The first event of each recording.
    #[default]
    Start,
    /// The start of an epoch, counted from 1.
    Epoch(usize),
    /// The start of a step, counted from 1.
    Step(usize),
    /// An event that was selected in one recording, and the first event with the same name in each of the others; contains the name.
    Event(String),
}

impl Anchor {
    /// Its name in a list, and after "time since".
    pub fn name(&self) -> String {
        /// The number of letters of an event's name that are shown.
        const MOST_LETTERS: usize = 40;
        match self {
            Self::Start => "first event".to_owned(),
            Self::Epoch(number) => format!("epoch {number}"),
            Self::Step(number) => format!("step {number}"),
            Self::Event(name) if name.chars().count() > MOST_LETTERS => {
                with_ellipsis(&name.chars().take(MOST_LETTERS).collect::<String>(), "")
            }
            Self::Event(name) => name.clone(),
        }
    }

    /// Its time on a recording's clock, if the recording has it. For an event, it is looked up in the file.
    fn zero(&self, timeline: &Timeline) -> Option<i64> {
        let mark = |kind, number: usize| timeline.marks(kind).nth(number.checked_sub(1)?).map(|mark| mark.span.0);
        match self {
            Self::Start => Some(timeline.span().0),
            Self::Epoch(number) => mark(MarkKind::Epoch, *number),
            Self::Step(number) => mark(MarkKind::Step, *number),
            Self::Event(_) => None,
        }
    }
}

/// The time of the first event with a name in each of some recordings, which are given by their order; `None` if a recording has no such
/// event.
pub(super) type Firsts = Promise<Result<Vec<(usize, Option<i64>)>, String>>;

impl TimelineScreen {
    /// Places the anchor of all runs at time 0. Runs without it are placed there with their first event. What is in view of the first run
    /// stays there.
    pub(super) fn align(&mut self, anchor: Anchor) {
        self.anchoring.clear();
        let (from, to) = self.runs.first().map_or(self.view, |_| self.span_of(0));
        for run in &mut self.runs {
            run.zero = anchor.zero(&run.timeline).unwrap_or_else(|| run.timeline.span().0);
        }
        self.anchor = anchor;
        let zero = self.runs.first().map_or(0, |run| run.zero);
        self.show(from.saturating_sub(zero), to.saturating_sub(zero));
    }

    /// Places the selected event at time 0, and the first event with the same name in each other run as well.
    pub(super) fn align_at_selected(&mut self, context: &Context) {
        let selected = self.selected.and_then(|pick| Some((pick, self.runs.get(pick.run)?)));
        let Some((pick, run)) = selected.filter(|(pick, _)| pick.event.item.events == 1) else {
            self.outcome = Some(("Select a single event first; zoom in if it is drawn with others.".to_owned(), false));
            return;
        };
        let name = run.timeline.name(pick.event.item.label).to_owned();
        let at = pick.event.item.span.0;
        self.align(Anchor::Event(name));
        self.runs[pick.run].zero = at;
        let own = self.runs[pick.run].order;
        self.look_for_anchor(|run| run.order != own, context);
        self.show_selected();
    }

    /// A recording was opened: places its anchor at time 0.
    pub(super) fn anchor_opened(&mut self, order: usize, context: &Context) {
        for run in self.runs.iter_mut().filter(|run| run.order == order) {
            run.zero = self.anchor.zero(&run.timeline).unwrap_or_else(|| run.timeline.span().0);
        }
        self.look_for_anchor(|run| run.order == order, context);
    }

    /// Looks up, in some recordings, the event at which recordings are aligned.
    fn look_for_anchor(&mut self, is_wanted: impl Fn(&Shown) -> bool, context: &Context) {
        let Anchor::Event(name) = self.anchor.clone() else { return };
        let wanted = self.runs.iter().filter(|run| is_wanted(run));
        let runs: Vec<(usize, Arc<Timeline>)> = wanted.map(|run| (run.order, Arc::clone(&run.timeline))).collect();
        if runs.is_empty() {
            return;
        }
        self.anchoring.push(on_thread("timeline anchor", context, move || {
            let first = |(order, timeline): (usize, Arc<Timeline>)| {
                let next_item = timeline.next(&timeline.named(&name), i64::MIN)?;
                Ok((order, next_item.map(|next_item| next_item.item.span.0)))
            };
            runs.into_iter().map(first).collect::<Result<_, TraceError>>().map_err(|error| error.to_string())
        }));
    }

    /// Takes over the result of the look-up.
    pub(super) fn poll_anchor(&mut self) {
        for anchoring in std::mem::take(&mut self.anchoring) {
            match anchoring.try_take() {
                Ok(Ok(firsts)) => self.lay_firsts(firsts),
                Ok(Err(error)) => self.outcome = Some((error, false)),
                Err(anchoring) => self.anchoring.push(anchoring),
            }
        }
    }

    fn lay_firsts(&mut self, firsts: Vec<(usize, Option<i64>)>) {
        let mut without = Vec::new();
        for (order, first) in firsts {
            // It may have been closed in the meantime.
            let Some(run) = self.runs.iter_mut().find(|run| run.order == order) else { continue };
            match first {
                Some(first) => run.zero = first,
                None => without.push(run.name.clone()),
            }
        }
        if !without.is_empty() {
            let (runs, name) = (without.join(", "), self.anchor.name());
            self.outcome =
                Some((format!("No event named {name} in {runs}: aligned at its first event instead."), false));
        }
    }
}
