//! The rows on their time axis: drawing, and the reaction to the pointer.

use std::ops::Range;

use eframe::egui::scroll_area::ScrollSource;
use eframe::egui::text::LayoutJob;
use eframe::egui::{
    Align, Align2, Button, Color32, Context, CursorIcon, FontId, Id, Label, Layout, Mesh, PointerButton, Pos2, Rect,
    Response, Role, ScrollArea, Sense, Shape, Stroke, StrokeKind, Ui, UiBuilder, WidgetInfo, pos2, vec2,
};

use super::counters::Counter;
use super::flow;
use super::fold::fold_ui;
use super::layout::{
    self, COUNTER, GAP, GROUP, Line, RUN, SHELF, full_memory, items, lines, text_on, tick_text, ticks, time_text,
};
use super::panes::{AXIS, Group, NAMES, Pane, Scale, groups};
use super::{MOST_ITEMS, Pick, Shown, TimelineCommand, TimelineScreen};
use crate::app::deliberate;
use crate::app::theme::{BODY, GRID, SMALL, palette};
use crate::app::widgets::{muted, named, strong};
use crate::app::words::bytes_text;
use crate::figure::{counted, grouped, significant};
use crate::trace::{Class, Found, Item, Steps};

/// Width of the triangle that folds rows.
const FOLD: f32 = 18.0;
/// The largest number of rows of the sentence that says what limits a run. [`RUN`] has room for them before the sentence is known.
const LIMIT_ROWS: usize = 2;
/// The smallest width of an event on which its name is written.
const NAMED: f32 = 34.0;
/// Distance from an event within which the pointer selects it, in points.
const REACH: f64 = 2.0;
/// Distance from a step between two values of a counter within which the pointer selects it, in points.
const STEP_REACH: f64 = 4.0;

/// Id of the time at which the pointer is, in egui's memory.
fn pointed_id() -> Id {
    Id::unique("timeline-pointed")
}

/// The time at which the pointer is, in nanoseconds from the anchor; `None` while it is not over rows.
pub fn pointed(context: &Context) -> Option<i64> {
    context.data(|data| data.get_temp::<Option<i64>>(pointed_id())).flatten()
}

/// Draws axes and rows into the remaining space.
pub fn canvas_ui(ui: &mut Ui, state: &TimelineScreen, commands: &mut Vec<TimelineCommand>) {
    ui.data_mut(|data| data.insert_temp(pointed_id(), None::<i64>));
    let room = ui.available_rect_before_wrap();
    let groups = groups(state, room);
    let hovered_events = groups.iter().filter_map(|group| group_ui(ui, state, group, commands));
    let hovered = hovered_events.last();
    if hovered != state.hovered {
        commands.push(TimelineCommand::Hover(hovered));
    }
    ui.advance_cursor_after_rect(room);
}

/// Draws panes that scroll together. Returns the event that the pointer rests on.
fn group_ui(ui: &mut Ui, state: &TimelineScreen, group: &Group, commands: &mut Vec<TimelineCommand>) -> Option<Pick> {
    let first = group.panes.first()?.runs.start;
    // Drawn first, since the names of rows take the pointer from it.
    let responses: Vec<Response> = group.panes.iter().map(|pane| pane_ui(ui, state, pane)).collect();
    let lines: Vec<(Vec<(Line, f32)>, f32)> = group.panes.iter().map(|pane| lines(state, pane.runs.clone())).collect();
    let height = lines.iter().map(|(_, height)| *height).fold(0.0, f32::max);
    let mut drawn: Vec<Vec<Drawn>> = group.panes.iter().map(|_| Vec::new()).collect();
    let below = group.room.with_min_y(group.room.top() + AXIS);
    let mut inner = ui.new_child(UiBuilder::new().max_rect(below));
    let area = ScrollArea::vertical().id_salt(("timeline-scroll", first)).auto_shrink(false);
    // Dragging moves in time.
    area.scroll_source(ScrollSource {
        drag: Default::default(),
        ..ScrollSource::MOUSE_WHEEL | ScrollSource::SCROLL_BAR
    })
    .show_viewport(&mut inner, |ui, port| {
        ui.set_height(height);
        let top = ui.max_rect().top();
        for ((pane, (lines, _)), drawn) in group.panes.iter().zip(&lines).zip(&mut drawn) {
            for &(line, at) in lines {
                if at > port.bottom() || at + below.height() < port.top() - RUN {
                    continue;
                }
                draw_line(ui, state, line, top + at, pane.scale, commands, drawn);
            }
            flow::links_ui(ui, state, lines, top, pane.scale);
        }
    });
    let mut hovered = None;
    for ((pane, response), drawn) in group.panes.iter().zip(&responses).zip(&drawn) {
        guides(ui, state, pane.scale, pane.rows);
        hovered = hovered.or(pointer(ui, state, response, pane.scale, drawn, commands));
    }
    hovered
}

/// Draws the axis of a pane, and makes its rows answer the pointer.
fn pane_ui(ui: &Ui, state: &TimelineScreen, pane: &Pane) -> Response {
    axis_ui(ui, pane.scale, pane.axis);
    let id = Id::unique("timeline-rows").with(pane.runs.start);
    let response = ui.interact(pane.rows, id, Sense::click_and_drag());
    response.widget_info(|| {
        let (from, to) = state.view;
        let only = state.runs.get(pane.runs.start).filter(|_| pane.runs.len() < state.runs.len());
        let name = only.map_or(String::new(), |run| format!(" of {}", run.name));
        WidgetInfo::labeled(Role::Canvas, true, format!("Timeline{name} from {} to {}", time_text(from), time_text(to)))
    });
    response
}

fn axis_ui(ui: &Ui, scale: Scale, axis: Rect) {
    let palette = palette(ui.visuals());
    let painter = ui.painter_at(axis.expand2(vec2(40.0, 0.0)));
    let (step, mut at) = ticks(scale.view, (scale.width / 90.0) as usize);
    let most = scale.view.0.abs().max(scale.view.1.abs());
    while at <= scale.view.1 {
        let x = scale.x(at);
        painter.vline(x, (axis.bottom() - 4.0)..=axis.bottom(), Stroke::new(1.0, palette.muted));
        let font = FontId::proportional(SMALL);
        painter.text(pos2(x, axis.top()), Align2::CENTER_TOP, tick_text(at, step, most), font, palette.muted);
        at = at.saturating_add(step);
    }
}

/// A row as drawn: its area, run and row.
type Drawn = (Rect, usize, usize);

fn draw_line(
    ui: &mut Ui,
    state: &TimelineScreen,
    line: Line,
    top: f32,
    scale: Scale,
    commands: &mut Vec<TimelineCommand>,
    drawn: &mut Vec<Drawn>,
) {
    let left = scale.left - NAMES;
    match line {
        Line::Run(place) => {
            run_ui(ui, state, place, Rect::from_min_size(pos2(left, top), vec2(NAMES + scale.width, RUN)), commands);
        }
        Line::Group(place, row) => {
            let Some(run) = state.runs.get(place) else { return };
            let Some(lane) = run.timeline.rows().get(row) else { return };
            let palette = palette(ui.visuals());
            let font = FontId::proportional(BODY);
            let below = top + GROUP - GAP;
            let icon = Rect::from_min_max(pos2(left, top), pos2(left + FOLD, below));
            let name = format!("{} of {}", lane.group, run.name);
            if fold_ui(ui, icon, &name, state.is_group_folded(run, &lane.group)) {
                commands.push(TimelineCommand::Fold(place, Some(lane.group.clone())));
            }
            let at = pos2(left + FOLD, below - 2.0);
            ui.painter().text(at, Align2::LEFT_BOTTOM, &lane.group, font, ui.visuals().text_color());
            ui.painter().hline(left..=scale.left + scale.width, below, Stroke::new(1.0, palette.line));
        }
        Line::Counter(place, counter) => {
            let Some(run) = state.runs.get(place) else { return };
            let Some(values) = run.counters.get(counter) else { return };
            let rect = Rect::from_min_size(pos2(scale.left, top), vec2(scale.width, COUNTER));
            counter_ui(ui, state, run, values, rect, scale);
        }
        Line::Row(place, row) => {
            let Some(run) = state.runs.get(place) else { return };
            let Some(lane) = run.timeline.rows().get(row) else { return };
            let rect = Rect::from_min_size(pos2(scale.left, top), vec2(scale.width, layout::height(lane)));
            if !ui.is_rect_visible(rect.with_min_x(left)) {
                return;
            }
            let name = Rect::from_min_size(pos2(left, top), vec2(NAMES - 2.0 * GRID, rect.height().min(COUNTER)));
            let chosen = state.row == Some((place, row));
            let most = lane.live().map(|live| bytes_text(live.most()));
            let shown = most.as_ref().map_or_else(|| lane.name.clone(), |most| format!("{} ({most})", lane.name));
            let text = eframe::egui::RichText::new(shown).size(SMALL);
            let inside = UiBuilder::new().max_rect(name).layout(Layout::left_to_right(Align::Center));
            let mut child = ui.new_child(inside);
            child.spacing_mut().button_padding = vec2(GRID, 0.0);
            child.spacing_mut().interact_size.y = SHELF;
            let button = child.add(Button::selectable(chosen, text).truncate());
            let noun = if lane.events == 1 { "event" } else { "events" };
            let mut about = format!("{}: {}, {} {noun}", lane.group, lane.name, grouped(&lane.events.to_string()));
            if let Some(most) = most {
                about += &format!("; of the memory allocated since the recording began, at most {most} was live");
            }
            button.widget_info(|| WidgetInfo::selected(Role::Button, true, chosen, &about));
            if button.on_hover_text(about).clicked() {
                let by = state.rows().position(|known| known == (place, row)).unwrap_or(0) as isize;
                let now = state.row.and_then(|now| state.rows().position(|known| known == now)).unwrap_or(0) as isize;
                // The first selection starts at the top.
                if state.row.is_none() {
                    commands.push(TimelineCommand::Row(0));
                }
                commands.push(TimelineCommand::Row(by - now));
            }
            match lane.live() {
                Some(live) => steps_ui(ui, run, live, (full_memory(state, &lane.name), &bytes_text), rect, scale),
                None => row_ui(ui, run, row, rect, scale),
            }
            if rect.x_range().contains(scale.x(0)) {
                let stroke = Stroke::new(1.0, palette(ui.visuals()).muted.gamma_multiply(0.35));
                ui.painter().vline(scale.x(0), rect.y_range(), stroke);
            }
            drawn.push((rect, place, row));
        }
    }
}

/// The title of a run: its name, what limits it, and its buttons.
fn run_ui(ui: &mut Ui, state: &TimelineScreen, place: usize, rect: Rect, commands: &mut Vec<TimelineCommand>) {
    let Some(run) = state.runs.get(place) else { return };
    if !ui.is_rect_visible(rect) {
        return;
    }
    let palette = palette(ui.visuals());
    ui.painter().rect_filled(rect.shrink2(vec2(0.0, 2.0)), 4.0, palette.card);
    let mut inner = ui.new_child(UiBuilder::new().max_rect(rect.shrink2(vec2(2.0 * GRID, GRID))));
    inner.spacing_mut().item_spacing.y = 0.0;
    inner.horizontal(|ui| {
        let (_, icon) = ui.allocate_space(vec2(FOLD - ui.spacing().item_spacing.x, ui.spacing().interact_size.y));
        if fold_ui(ui, icon, &run.name, state.is_run_folded(run)) {
            commands.push(TimelineCommand::Fold(place, None));
        }
        for warning in run.timeline.warnings() {
            ui.colored_label(palette.warning, "⚠").on_hover_text(warning);
        }
        // The buttons take their place first: a long name is cut, and they stay in sight.
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let close = ui.small_button("×").on_hover_text("Close this recording");
            close.widget_info(|| named(&format!("Close {}", run.name)));
            if deliberate::clicked(&close, ("close recording", &run.file)) {
                commands.push(TimelineCommand::Close(place));
            }
            let export = ui.small_button("Perfetto").on_hover_text("Write all events for ui.perfetto.dev (E)");
            export.widget_info(|| named(&format!("Write {} for Perfetto", run.name)));
            if export.clicked() {
                commands.push(TimelineCommand::Perfetto(place));
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                let name = Label::new(strong(&run.name)).truncate().show_tooltip_when_elided(false);
                ui.add(name).on_hover_text(format!("{}\n{}", run.name, run.file.display()));
                let (start, end) = run.timeline.span();
                let events = counted(grouped(&run.timeline.events().to_string()), "event");
                let recorder = run.timeline.profiler().map_or_else(String::new, |profiler| format!(" · {profiler}"));
                let about = format!("{} · {events}{recorder}", time_text(end - start));
                ui.add(Label::new(muted(ui, about)).truncate());
            });
        });
    });
    let (text, color) = match &run.split {
        None => ("Adding up where the time went …", palette.muted),
        Some(Ok(split)) => (split.binding.sentence.as_str(), inner.visuals().text_color()),
        Some(Err(error)) => (error.as_str(), palette.bad),
    };
    let mut job = LayoutJob::simple(text.to_owned(), FontId::proportional(SMALL + 0.5), color, 0.0);
    job.wrap.max_rows = LIMIT_ROWS;
    inner.add(Label::new(job).wrap().show_tooltip_when_elided(false)).on_hover_text(text);
}

/// Draws the events of a row.
fn row_ui(ui: &Ui, run: &Shown, row: usize, rect: Rect, scale: Scale) {
    let painter = ui.painter_at(rect.intersect(ui.clip_rect()));
    painter.rect_filled(rect, 0.0, ui.visuals().extreme_bg_color.gamma_multiply(0.6));
    let mut mesh = Mesh::default();
    let mut texts = Vec::new();
    // Events narrower than a point are summed up for each point, shelf by shelf.
    let mut narrow: Option<Narrow> = None;
    let span = (scale.view.0 + run.zero, scale.view.1 + run.zero);
    let ground = ui.visuals().extreme_bg_color;
    let colours = layout::colours(ui.visuals());
    layout::each_item(run, row, span, |item| {
        let color = colours[run.timeline.class(item.label) as usize];
        let (from, to) = (scale.x(item.span.0 - run.zero), scale.x(item.span.1 - run.zero));
        let top = rect.top() + f32::from(item.shelf) * SHELF + 1.0;
        let busy = item.busy_ns as f64 / scale.ns_per_point();
        if to - from < 1.0 {
            let place = (from.floor(), item.shelf);
            if let Some(known) = narrow.as_mut().filter(|known| known.place == place) {
                known.add(busy, color);
            } else if let Some(known) = narrow.replace(Narrow { place, busy, most: busy, color }) {
                known.draw(&mut mesh, rect, ground);
            }
            return;
        }
        let share = item.busy_ns as f32 / item.span.1.abs_diff(item.span.0).max(1) as f32;
        // A gap tells an event from one of the same colour that follows at once.
        let end = if to - from >= 3.0 { to - 1.0 } else { to };
        let full = Rect::from_min_max(pos2(from, top), pos2(end, top + SHELF - 2.0)).intersect(rect);
        mesh.add_colored_rect(full, ground.lerp_to_gamma(color, 0.25 + 0.75 * share.clamp(0.0, 1.0)));
        let visible = full.intersect(rect);
        if item.events == 1 && visible.width() >= NAMED {
            texts.push((visible, item.label, color));
        }
    });
    if let Some(known) = narrow {
        known.draw(&mut mesh, rect, ground);
    }
    painter.add(Shape::mesh(mesh));
    let font = FontId::proportional(10.5);
    for (place, label, color) in texts {
        let name = run.timeline.name(label);
        // Names of templates are long: only the visible part is laid out.
        let fits = (place.width() / 4.0) as usize;
        let end = name.char_indices().nth(fits).map_or(name.len(), |(at, _)| at);
        let clipped = painter.with_clip_rect(place.shrink2(vec2(2.0, 0.0)).intersect(painter.clip_rect()));
        let at = pos2(place.left() + 3.0, place.center().y);
        clipped.text(at, Align2::LEFT_CENTER, &name[..end], font.clone(), text_on(color));
    }
}

/// Draws samples with their name.
fn counter_ui(ui: &mut Ui, state: &TimelineScreen, run: &Shown, counter: &Counter, rect: Rect, scale: Scale) {
    let left = rect.left() - NAMES;
    if !ui.is_rect_visible(rect.with_min_x(left)) {
        return;
    }
    let palette = palette(ui.visuals());
    let name_and_most = format!("{} ({})", counter.name, counter.text(counter.full));
    let name = Rect::from_min_size(pos2(left + GRID, rect.top()), vec2(NAMES - 2.0 * GRID, COUNTER));
    let text = eframe::egui::RichText::new(&name_and_most).size(SMALL).color(palette.muted);
    let inside = UiBuilder::new().max_rect(name).layout(Layout::left_to_right(Align::Center));
    let label = ui.new_child(inside).add(Label::new(text).truncate());
    let full = counter.full_among(state.runs.iter().flat_map(|run| &run.counters));
    let high = counter.text(full);
    label.on_hover_text(format!("{}: {}the full height of the row means {high}", counter.name, counter.about()));
    steps_ui(ui, run, &counter.steps, (full, &|value| counter.text(value)), rect, scale);
}

/// Draws values as an area relative to the value that fills the row; the second argument formats them.
fn steps_ui(
    ui: &Ui,
    run: &Shown,
    steps: &Steps,
    (full, text): (f64, &dyn Fn(f64) -> String),
    rect: Rect,
    scale: Scale,
) {
    let palette = palette(ui.visuals());
    let painter = ui.painter_at(rect.intersect(ui.clip_rect()));
    painter.rect_filled(rect, 0.0, ui.visuals().extreme_bg_color.gamma_multiply(0.6));
    let span = (scale.view.0.saturating_add(run.zero), scale.view.1.saturating_add(run.zero));
    let mut mesh = Mesh::default();
    let color = palette.accent.gamma_multiply(0.55);
    let mut bar = |from: f32, to: f32, value: f64| {
        let height = (value / full.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) as f32 * (COUNTER - 2.0);
        let area = Rect::from_min_max(pos2(from, rect.bottom() - height), pos2(to, rect.bottom())).intersect(rect);
        mesh.add_colored_rect(area, color);
    };
    // Several values within a point are drawn as the highest of them.
    let mut narrow: Option<(f32, f64)> = None;
    for (since, at, value) in steps.within(span, MOST_ITEMS) {
        let (from, to) = (scale.x(since - run.zero), scale.x(at - run.zero));
        if to - from >= 1.0 {
            bar(from, to, value);
            continue;
        }
        match &mut narrow {
            Some((place, most)) if *place == from.floor() => *most = most.max(value),
            _ => {
                if let Some((place, most)) = narrow.replace((from.floor(), value)) {
                    bar(place, place + 1.0, most);
                }
            }
        }
    }
    if let Some((place, most)) = narrow {
        bar(place, place + 1.0, most);
    }
    painter.add(Shape::mesh(mesh));
    if let Some(at) = ui.ctx().pointer_hover_pos().filter(|at| rect.contains(*at))
        && let Some(value) = steps.at(scale.at(at.x).saturating_add(run.zero))
    {
        painter.vline(at.x, rect.y_range(), Stroke::new(1.0, ui.visuals().text_color()));
        let left = at.x > rect.center().x;
        let (place, anchor) = if left { (at.x - 4.0, Align2::RIGHT_TOP) } else { (at.x + 4.0, Align2::LEFT_TOP) };
        painter.text(
            pos2(place, rect.top() + 1.0),
            anchor,
            text(value),
            FontId::proportional(SMALL),
            ui.visuals().text_color(),
        );
    }
}

/// Events within one point.
struct Narrow {
    place: (f32, u8),
    busy: f64,
    most: f64,
    color: Color32,
}

impl Narrow {
    fn add(&mut self, busy: f64, color: Color32) {
        self.busy += busy;
        if busy > self.most {
            (self.most, self.color) = (busy, color);
        }
    }

    fn draw(&self, mesh: &mut Mesh, rect: Rect, ground: Color32) {
        let (x, shelf) = self.place;
        let top = rect.top() + f32::from(shelf) * SHELF + 1.0;
        let place = Rect::from_min_size(pos2(x, top), vec2(1.0, SHELF - 2.0)).intersect(rect);
        // Even the shortest event is visible.
        mesh.add_colored_rect(place, ground.lerp_to_gamma(self.color, 0.25 + 0.75 * self.busy.clamp(0.0, 1.0) as f32));
    }
}

/// Lines over all rows: marks with the time between them.
fn guides(ui: &Ui, state: &TimelineScreen, scale: Scale, rows: Rect) {
    let palette = palette(ui.visuals());
    let painter = ui.painter_at(rows);
    let marks: Vec<i64> = state.marks.iter().flatten().copied().collect();
    for at in &marks {
        painter.vline(scale.x(*at), rows.y_range(), Stroke::new(1.5, palette.accent));
    }
    if let [a, b] = marks[..] {
        let (left, right) = (scale.x(a.min(b)), scale.x(a.max(b)));
        let band = Rect::from_x_y_ranges(left..=right, rows.y_range()).intersect(rows);
        painter.rect_filled(band, 0.0, palette.accent.gamma_multiply(0.10));
        if band.is_positive() {
            let at = pos2(band.center().x, rows.top() + 2.0);
            label(&painter, at, &time_text((b - a).abs()), palette.accent, palette.on_accent);
        }
    }
}

fn label(painter: &eframe::egui::Painter, at: Pos2, text: &str, ground: Color32, color: Color32) {
    let galley = painter.layout_no_wrap(text.to_owned(), FontId::proportional(SMALL), color);
    let rect = Align2::CENTER_TOP.anchor_size(at, galley.size() + vec2(8.0, 2.0));
    painter.rect_filled(rect, 3.0, ground);
    painter.galley(rect.min + vec2(4.0, 1.0), galley, color);
}

/// The event at a position, if there is one within reach.
fn event_at(state: &TimelineScreen, scale: Scale, drawn: &[Drawn], at: Pos2) -> Option<(Pick, Rect)> {
    let &(rect, place, row) = drawn.iter().find(|(rect, ..)| rect.contains(at))?;
    let run = state.runs.get(place)?;
    let time = scale.at(at.x).saturating_add(run.zero);
    let drawn_row = run.timeline.rows().get(row)?;
    let is_memory = drawn_row.live().is_some();
    let shelf = if is_memory { 0 } else { ((at.y - rect.top()) / SHELF) as u8 };
    let reach = (if is_memory { STEP_REACH } else { REACH } * scale.ns_per_point()).ceil() as i64;
    let near = |item: &Item| {
        let away = (item.span.0 - time).max(time - item.span.1).max(0);
        (item.shelf == shelf && away <= reach).then_some((away, item.span.1 - item.span.0))
    };
    let span = (time - reach, time + reach);
    let view = (scale.view.0.saturating_add(run.zero), scale.view.1.saturating_add(run.zero));
    let all = items(run, row, view).into_iter().filter(|item| item.span.1 >= span.0 && item.span.0 <= span.1);
    let item = all.filter_map(|item| Some((near(&item)?, item))).min_by_key(|(away, _)| *away)?.1;
    let Range { start: top, end: bottom } = layout::shelf(drawn_row, shelf);
    let x = scale.x(item.span.0 - run.zero)..=scale.x(item.span.1 - run.zero);
    let y = rect.top() + top + 1.0..=rect.top() + bottom - 1.0;
    Some((Pick { run: place, event: Found { row, item } }, Rect::from_x_y_ranges(x, y)))
}

/// Handles hover, clicks, drags and the wheel. Returns the event that the pointer rests on.
fn pointer(
    ui: &Ui,
    state: &TimelineScreen,
    response: &Response,
    scale: Scale,
    drawn: &[Drawn],
    commands: &mut Vec<TimelineCommand>,
) -> Option<Pick> {
    outline_selected(ui, state, scale, drawn);
    let hover = response.hover_pos();
    let hit = hover.and_then(|at| event_at(state, scale, drawn, at));
    let hovered = hit.map(|(pick, _)| pick);
    if let Some((pick, rect)) = hit {
        let painter = ui.painter_at(response.rect);
        painter.rect_stroke(rect.expand(0.5), 0.0, Stroke::new(1.5, ui.visuals().text_color()), StrokeKind::Outside);
        if !response.dragged() {
            response.clone().on_hover_ui_at_pointer(|ui| {
                ui.set_max_width(420.0);
                for line in about(state, &pick) {
                    ui.label(line);
                }
            });
        }
    }
    let (modifiers, zoom, scroll) =
        ui.input(|input| (input.modifiers, input.zoom_delta(), input.smooth_scroll_delta()));
    if let Some(at) = hover {
        ui.data_mut(|data| data.insert_temp(pointed_id(), Some(scale.at(at.x))));
        if (zoom - 1.0).abs() > 1e-3 {
            commands.push(TimelineCommand::Zoom(f64::from(zoom), Some(scale.at(at.x))));
        } else if scroll.x != 0.0 {
            commands.push(TimelineCommand::Pan(f64::from(-scroll.x / scale.width)));
        }
    }
    let at = response.interact_pointer_pos().map(|at| scale.at(at.x));
    let from = Id::unique("timeline-mark-from");
    if response.dragged_by(PointerButton::Primary) && modifiers.shift || response.dragged_by(PointerButton::Secondary) {
        // Draws a measured span.
        if let Some(at) = at {
            let begin = ui.data_mut(|data| *data.get_temp_mut_or(from, at));
            commands.push(TimelineCommand::Mark(None));
            commands.push(TimelineCommand::Mark(Some(begin)));
            commands.push(TimelineCommand::Mark(Some(at)));
        }
    } else if response.dragged_by(PointerButton::Primary) {
        ui.set_cursor_icon(CursorIcon::Grabbing);
        commands.push(TimelineCommand::Pan(f64::from(-response.drag_delta().x / scale.width)));
    }
    if response.drag_stopped() {
        ui.data_mut(|data| data.remove::<i64>(from));
    }
    if response.double_clicked() {
        commands.push(TimelineCommand::ShowSelected);
    } else if response.clicked() {
        commands.push(TimelineCommand::Select(hovered));
    } else if response.secondary_clicked()
        && let Some(at) = at
    {
        commands.push(TimelineCommand::Mark(Some(at)));
    }
    hovered
}

fn outline_selected(ui: &Ui, state: &TimelineScreen, scale: Scale, drawn: &[Drawn]) {
    let Some(pick) = state.selected else { return };
    let Some(run) = state.runs.get(pick.run) else { return };
    let picked_row = drawn.iter().find(|(_, place, row)| (*place, *row) == (pick.run, pick.event.row));
    let Some((rect, ..)) = picked_row else { return };
    let (item, Some(row)) = (pick.event.item, run.timeline.rows().get(pick.event.row)) else { return };
    let Range { start: top, end: bottom } = layout::shelf(row, item.shelf);
    let x =
        scale.x(item.span.0 - run.zero)..=scale.x(item.span.1 - run.zero).max(scale.x(item.span.0 - run.zero) + 2.0);
    let place = Rect::from_x_y_ranges(x, rect.top() + top..=rect.top() + bottom);
    let stroke = Stroke::new(2.0, ui.visuals().text_color());
    ui.painter_at(*rect).rect_stroke(place, 0.0, stroke, StrokeKind::Inside);
}

/// The description of an event, in lines.
pub fn about(state: &TimelineScreen, pick: &Pick) -> Vec<String> {
    let Some(run) = state.runs.get(pick.run) else { return Vec::new() };
    let timeline = &run.timeline;
    let item = &pick.event.item;
    let length = item.span.1 - item.span.0;
    let mut lines = Vec::new();
    let (name, class) = (timeline.name(item.label), timeline.class(item.label));
    if item.events > 1 {
        let share = 100.0 * item.busy_ns as f64 / length.max(1) as f64;
        lines.push(match class {
            Class::Memory => format!("{} times memory was allocated or released", item.events),
            _ => format!("{} events, busy {} %, longest in total: {name}", item.events, significant(share)),
        });
        lines.push("Zoom in to see them one by one.".to_owned());
    } else {
        lines.push(name.to_owned());
    }
    let start = time_text(item.span.0 - run.zero);
    lines.push(match length {
        0 => format!("at {start}, {}", class.name()),
        _ => format!("{} long, starts at {start}, {}", time_text(length), class.name()),
    });
    if let Some(bytes) = item.bytes.filter(|_| class == Class::Memory) {
        lines.push(bytes_text(bytes as f64));
    } else if let Some(bytes) = item.bytes {
        let rate = bytes as f64 / (length.max(1) as f64 / 1e9);
        lines.push(format!("{}, {}/s", bytes_text(bytes as f64), bytes_text(rate)));
    }
    lines.extend(flow::words(state, pick));
    let live = timeline.rows().get(pick.event.row).and_then(|row| row.live());
    if let Some((before, after)) = live.and_then(|live| Some((live.at(item.span.0)?, live.at(item.span.1 + 1)?))) {
        lines.push(format!("Live afterwards: {} of the memory allocated since the recording began", bytes_text(after)));
        if before == after && item.events == 1 && timeline.name(item.label).ends_with("released") {
            lines.push("Its allocation was not recorded, because it happened before the recording.".to_owned());
        }
    }
    if let Some(row) = timeline.rows().get(pick.event.row) {
        lines.push(format!("{}: {}", row.group, row.name));
    }
    lines
}
