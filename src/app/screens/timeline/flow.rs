//! The events that are connected with the selected event and with the event under the pointer: how they are looked up, a text about them,
//! arrows over the rows, and buttons that go to them.

use std::ops::Range;
use std::sync::Arc;

use eframe::egui::{Context, Painter, Pos2, Rect, Shape, Stroke, Ui, pos2};
use poll_promise::Promise;

use super::layout::{self, Line, time_text};
use super::panes::Scale;
use super::{Pick, TimelineCommand, TimelineScreen};
use crate::app::task::{on_thread, taken_about};
use crate::trace::{Class, Flow, Found, TraceError};

/// Length and half the width of an arrow's head.
const HEAD: f32 = 8.0;
const HALF_HEAD: f32 = 3.5;

/// The flows that are known, and the one that is being looked up.
#[derive(Default)]
pub(super) struct Flows {
    /// `None` if a file could not be read.
    known: Vec<(Pick, Option<Flow>)>,
    reading: Option<(Pick, Promise<Result<Flow, TraceError>>)>,
}

impl Flows {
    pub fn is_busy(&self) -> bool {
        self.reading.is_some()
    }
}

impl TimelineScreen {
    /// The events that are connected with the selected event or with the event under the pointer, once they were looked up.
    pub fn flow(&self, pick: &Pick) -> Option<&Flow> {
        self.flows.known.iter().find(|(known, _)| known == pick)?.1.as_ref()
    }

    /// Looks up what is connected with the selected event and with the event under the pointer.
    pub(super) fn poll_flows(&mut self, context: &Context) {
        if let Some((pick, flow)) = taken_about(&mut self.flows.reading) {
            if let Err(error) = &flow {
                self.outcome = Some((error.to_string(), false));
            }
            self.flows.known.push((pick, flow.ok()));
        }
        let wanted = [self.selected, self.hovered];
        self.flows.known.retain(|(pick, _)| wanted.contains(&Some(*pick)));
        if self.flows.reading.is_some() {
            return;
        }
        let next = wanted.into_iter().flatten().find_map(|pick| {
            let timeline = &self.runs.get(pick.run)?.timeline;
            let is_known = self.flows.known.iter().any(|(known, _)| *known == pick);
            (!is_known && timeline.has_flow(&pick.event)).then(|| (pick, Arc::clone(timeline)))
        });
        if let Some((pick, timeline)) = next {
            let work = move || timeline.flow(&pick.event);
            self.flows.reading = Some((pick, on_thread("timeline flow", context, work)));
        }
    }
}

/// Two connected events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    pub from: Found,
    pub to: Found,
    /// Whether `from` launched `to`. Otherwise both are the same collective on two ranks.
    pub is_launch: bool,
}

/// The links of an event.
pub(super) fn links(flow: &Flow, own: Found) -> Vec<Link> {
    let launch = |from, to| Link { from, to, is_launch: true };
    let call = flow.call.map(|call| launch(call, own));
    let launched = flow.launched.iter().map(|work| launch(own, *work));
    let from = collective(flow, own);
    let peers = flow.peers.iter().map(|peer| Link { from, to: *peer, is_launch: false });
    call.into_iter().chain(launched).chain(peers).collect()
}

/// The collective that other ranks have too: the event itself, or what it launched.
fn collective(flow: &Flow, own: Found) -> Found {
    let is_it = |work: &&Found| flow.peers.first().is_some_and(|peer| peer.item.label == work.item.label);
    flow.launched.iter().find(is_it).copied().unwrap_or(own)
}

/// The events that are connected with an event, in lines of text.
pub(super) fn words(state: &TimelineScreen, pick: &Pick) -> Vec<String> {
    let (Some(run), Some(flow)) = (state.runs.get(pick.run), state.flow(pick)) else { return Vec::new() };
    let timeline = &run.timeline;
    let start = pick.event.item.span.0;
    let mut words = Vec::new();
    match flow.call {
        Some(call) => {
            let name = timeline.name(call.item.label);
            let did = if timeline.class(pick.event.item.label) == Class::Memory { "Done" } else { "Launched" };
            let before = time_text(start - call.item.span.0);
            words.push(format!("{did} by {name}, {before} before, on {}", timeline.rows()[call.row].name));
        }
        None if timeline.is_launched(&pick.event) => {
            words.push("The call that launched it was not recorded.".to_owned());
        }
        None => {}
    }
    if let [first, more @ ..] = &flow.launched[..] {
        let (name, later) = (timeline.name(first.item.label), time_text(first.item.span.0 - start));
        let others = if more.is_empty() { String::new() } else { format!(", and to {} more", more.len()) };
        words.push(format!("Led to {name}, {later} later, on {}{others}", timeline.rows()[first.row].name));
    }
    let begun = collective(flow, pick.event).item.span.0;
    for peer in &flow.peers {
        let when = match peer.item.span.0 - begun {
            0 => "at the same time".to_owned(),
            later @ 1.. => format!("{} later", time_text(later)),
            earlier => format!("{} earlier", time_text(-earlier)),
        };
        words.push(format!("{} began the same collective {when}", timeline.rows()[peer.row].group));
    }
    if flow.has_unknown_peers {
        let text = "Ranks recorded different numbers of collectives of this name, so it is unknown which ones belong together.";
        words.push(text.to_owned());
    }
    words
}

/// Buttons that lead to the events that are connected with the selected one.
pub(super) fn buttons_ui(ui: &mut Ui, state: &TimelineScreen, pick: &Pick, commands: &mut Vec<TimelineCommand>) {
    let (Some(run), Some(flow)) = (state.runs.get(pick.run), state.flow(pick)) else { return };
    let call = flow.call.map(|call| ("Go to its call".to_owned(), call));
    let launched = flow.launched.first().map(|work| ("Go to what it launched".to_owned(), *work));
    let peers = flow.peers.iter().map(|peer| (format!("Go to {}", run.timeline.rows()[peer.row].group), *peer));
    let ways: Vec<(String, Found)> = call.into_iter().chain(launched).chain(peers).collect();
    if ways.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        for (name, event) in &ways {
            if ui.button(name.as_str()).clicked() {
                commands.push(TimelineCommand::Select(Some(Pick { run: pick.run, event: *event })));
                commands.push(TimelineCommand::ShowSelected);
            }
        }
        let hover = "Zooms to this event and all events that are connected with it";
        if ui.button("Show all of these").on_hover_text(hover).clicked() {
            let spans = ways.iter().map(|(_, event)| event.item.span).chain([pick.event.item.span]);
            let (from, to) = spans.fold((i64::MAX, i64::MIN), |all, span| (all.0.min(span.0), all.1.max(span.1)));
            let margin = to.saturating_sub(from) / 10 + 1;
            let [from, to] = [from - margin, to + margin].map(|at| at.saturating_sub(run.zero));
            commands.push(TimelineCommand::View(from, to));
        }
    });
}

/// Draws the links of the selected event over the rows of a pane, whose lines begin at `top`.
pub(super) fn links_ui(ui: &Ui, state: &TimelineScreen, lines: &[(Line, f32)], top: f32, scale: Scale) {
    let Some((pick, run)) = state.selected.and_then(|pick| Some((pick, state.runs.get(pick.run)?))) else { return };
    let Some(flow) = state.flow(&pick) else { return };
    let start = |event: &Found| -> Option<Pos2> {
        let line = Line::Row(pick.run, event.row);
        let at = lines.iter().find(|(known, _)| *known == line)?.1;
        let Range { start, end } = layout::shelf(run.timeline.rows().get(event.row)?, event.item.shelf);
        Some(pos2(scale.x(event.item.span.0.saturating_sub(run.zero)), top + at + f32::midpoint(start, end)))
    };
    let times = scale.left..=scale.left + scale.width;
    let painter = ui.painter_at(Rect::from_x_y_ranges(times, ui.clip_rect().y_range()).intersect(ui.clip_rect()));
    let stroke = Stroke::new(1.5, ui.visuals().text_color());
    for Link { from, to, is_launch } in links(flow, pick.event) {
        // Rows that are folded have no place.
        let (Some(from), Some(to)) = (start(&from), start(&to)) else { continue };
        painter.line_segment([from, to], stroke);
        if is_launch {
            head(&painter, from, to, stroke);
        } else {
            painter.circle_filled(to, HALF_HEAD, stroke.color);
        }
    }
}

/// Draws the head of an arrow.
fn head(painter: &Painter, from: Pos2, to: Pos2, stroke: Stroke) {
    let along = (to - from).normalized();
    let (base, side) = (to - along * HEAD, along.rot90() * HALF_HEAD);
    painter.add(Shape::convex_polygon(vec![to, base + side, base - side], stroke.color, Stroke::NONE));
}
