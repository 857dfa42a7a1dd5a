//! The column of plots, with a shared horizontal axis and cursor.

use eframe::egui::{
    Color32, FontId, Id, Label, Margin, PointerButton, Pos2, Rect, Role, ScrollArea, Stroke, Ui, Vec2b, WidgetInfo,
    vec2,
};
use egui_plot::{
    AxisHints, GridInput, GridMark, Line, MarkerShape, Plot, PlotPoint, PlotPoints, PlotUi, Points, Span, VLine,
};

use super::LiveCommand;
use super::axis::{x_text, x_ticks};
use super::scene::{Curve, STEADY_ROOM, Scene, YAxis};
use crate::app::curves::Kind;
use crate::app::screens::live::View;
use crate::app::theme::{GRID, SMALL, palette};
use crate::app::ticks::{log_text, log_ticks, y_text, y_ticks};
use crate::app::widgets::{muted, prose_of_size, strong};
use crate::plan::groups;

/// Least height of a panel.
const LEAST_HEIGHT: f32 = 100.0;
/// Width of the tick labels left of the plots; the same for all, so that their times align.
const NUMBERS_WIDTH: f32 = 56.0;
/// Height of the tick labels below the last plot.
const TIMES_HEIGHT: f32 = 18.0;
/// Markers per curve in view.
const MARKERS: usize = 6;
/// A right-drag narrower than this counts as a click.
const LEAST_DRAG: f32 = 4.0;

/// Area of the plots in the last frame, for the position of the cursor.
pub fn plots_rect(ui: &Ui) -> Option<Rect> {
    ui.data(|data| data.get_temp(Id::unique("live-plots")))
}

/// Position of the cursor on the horizontal axis, if it is over the plots.
pub fn cursor(ui: &Ui, scene: &Scene, plots: Rect) -> Option<f64> {
    let pointer = ui.input(|input| input.pointer.hover_pos()).filter(|pointer| plots.contains(*pointer))?;
    Some(place_at(scene, plots, pointer))
}

fn place_at(scene: &Scene, plots: Rect, pointer: Pos2) -> f64 {
    let share = f64::from((pointer.x - plots.left()) / plots.width().max(1.0));
    scene.view.0 + share * (scene.view.1 - scene.view.0)
}

/// Draws the plots into the remaining space.
pub fn plots_ui(ui: &mut Ui, view: View<'_>, scene: &Scene, commands: &mut Vec<LiveCommand>) {
    let (full, empty): (Vec<_>, Vec<_>) = scene.panels().into_iter().partition(|(_, curves)| !curves.is_empty());
    for line in empty_lines(scene, view, &empty) {
        let label = Label::new(prose_of_size(ui, &line, palette(ui.visuals()).muted, SMALL)).truncate();
        ui.add(label).on_hover_text(line);
    }
    if full.is_empty() {
        if empty.is_empty() {
            ui.label(muted(ui, "Tick a panel above to show it."));
        }
        return;
    }
    let title = ui.spacing().interact_size.y;
    let gaps = (title + 2.0 * ui.spacing().item_spacing.y) * full.len() as f32 + TIMES_HEIGHT;
    let height = ((ui.available_height() - gaps) / full.len() as f32).max(LEAST_HEIGHT).floor();
    let room = ui.available_rect_before_wrap();
    let visible = room.with_max_y(room.bottom() - TIMES_HEIGHT).intersect(ui.clip_rect());
    let mut plots: Option<Rect> = None;
    let selecting = selection(ui, scene);
    ScrollArea::vertical().auto_shrink(false).max_height(visible.height()).show(ui, |ui| {
        // Room for the scroll bar.
        eframe::egui::Frame::new().inner_margin(Margin { right: 10, ..Margin::ZERO }).show(ui, |ui| {
            for (kind, curves) in &full {
                let panel = Panel { kind: *kind, curves, height, visible, selecting };
                let rect = panel.ui(ui, scene, commands);
                plots = Some(plots.map_or(rect, |all| all.union(rect)));
            }
        });
    });
    if let Some(rect) = plots {
        times_ui(ui, scene, rect, visible.bottom());
        ui.data_mut(|data| data.insert_temp(Id::unique("live-plots"), rect.intersect(visible)));
    }
}

/// Draws the labels of the horizontal axis below all plots; they stay while the plots scroll.
fn times_ui(ui: &Ui, scene: &Scene, plots: Rect, top: f32) {
    let (from, to) = scene.view;
    let per_point = (to - from) / f64::from(plots.width().max(1.0));
    let input = GridInput { bounds: scene.view, base_step_size: 8.0 * per_point };
    let (font, colour) = (FontId::proportional(SMALL), palette(ui.visuals()).muted);
    for mark in x_ticks(scene.axis, &input) {
        let x = plots.left() + ((mark.value - from) / per_point) as f32;
        let text = x_text(scene.axis, mark);
        let galley = ui.painter().layout_no_wrap(text, font.clone(), colour);
        let half = galley.size().x / 2.0;
        let x = x.clamp(plots.left() + half - NUMBERS_WIDTH / 2.0, (plots.right() + 10.0 - half).max(plots.left()));
        ui.painter().galley(Pos2::new(x - half, top + GRID), galley, colour);
    }
}

/// One line per reason for empty panels.
fn empty_lines(scene: &Scene, view: View<'_>, empty: &[(Kind, Vec<Curve>)]) -> Vec<String> {
    let reasons = groups(empty.iter().map(|(kind, _)| (scene.why_empty(*kind, view), kind.name(scene.step()))));
    reasons.into_iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect()
}

struct Panel<'a> {
    kind: Kind,
    curves: &'a [Curve<'a>],
    height: f32,
    visible: Rect,
    selecting: Option<(f64, f64)>,
}

impl Panel<'_> {
    /// Draws the panel and returns the area of its curves.
    fn ui(&self, ui: &mut Ui, scene: &Scene, commands: &mut Vec<LiveCommand>) -> Rect {
        let YAxis { unit, scale, steady, is_cut } = YAxis::new(self.kind, self.curves, scene);
        self.title_ui(ui, scene, unit, is_cut);
        let log = scene.is_log(self.kind);
        let y_axis = AxisHints::new_y()
            .min_thickness(NUMBERS_WIDTH)
            .tick_label_font(FontId::proportional(SMALL))
            .formatter(move |mark: GridMark, _| if log { log_text(mark) } else { y_text(mark) });
        let axis = scene.axis;
        let mut plot = Plot::new(("live", self.kind))
            .height(self.height)
            .custom_y_axes(vec![y_axis])
            .x_grid_spacer(move |input| x_ticks(axis, &input))
            .y_grid_spacer(move |input| if log { log_ticks(&input) } else { y_ticks(&input) })
            .show_axes([false, true])
            .set_margin_fraction(vec2(0.0, 0.06))
            .auto_bounds(Vec2b::new(false, steady.is_none()))
            .allow_axis_zoom_drag(false)
            .allow_boxed_zoom(false)
            .allow_double_click_reset(false)
            .allow_drag(false)
            .allow_scroll(false)
            .allow_zoom(false)
            .grid_color(palette(ui.visuals()).line)
            .show_crosshair(false)
            .show_x(false)
            .show_y(false);
        if self.kind.starts_at_zero() {
            plot = plot.include_y(0.0);
        }
        let visuals = ui.visuals().clone();
        let pixels = ui.ctx().pixels_per_point();
        let shown = plot.show(ui, |plot_ui| {
            let rect = plot_ui.response().rect;
            // Panels scrolled out of view are not drawn.
            let seen = rect.intersects(self.visible);
            plot_ui.set_plot_bounds_x(scene.view.0..=scene.view.1);
            if let Some(steady) = steady {
                let top = STEADY_ROOM * steady * scale;
                plot_ui.set_plot_bounds_y((steady * scale - top)..=top);
            } else {
                // The plot remembers bounds set earlier.
                plot_ui.set_auto_bounds(Vec2b::new(false, true));
            }
            let columns = (rect.width() * pixels).max(1.0) as usize;
            let draw = Draw { scene, scale, log, columns };
            draw.background(plot_ui, &visuals);
            if seen {
                self.curves.iter().for_each(|curve| draw.curve(plot_ui, curve, curve.colour(&visuals)));
                // Markers on top of all curves identify hidden ones.
                if scene.runs.len() > 1 {
                    self.curves.iter().for_each(|curve| draw.markers(plot_ui, curve, curve.colour(&visuals)));
                }
            }
            draw.cursor(plot_ui, &visuals, self.selecting, self.visible);
        });
        let name = format!("{} over time", self.kind.name(scene.step()));
        shown.response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &name));
        interact(ui, scene, &shown.response, commands);
        shown.response.rect
    }

    fn title_ui(&self, ui: &mut Ui, scene: &Scene, unit: &str, is_cut: bool) {
        ui.horizontal(|ui| {
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
            let title = strong(format!("{}{unit}", self.kind.name(scene.step())));
            ui.label(title).on_hover_text(self.kind.meaning(scene.step()));
            ui.label(muted(ui, self.notes(scene, is_cut)).small());
        });
    }

    /// Notes next to the title: scale, combination of parts, smoothing.
    fn notes(&self, scene: &Scene, is_cut: bool) -> String {
        let mut notes = Vec::new();
        if scene.is_log(self.kind) {
            notes.push("logarithmic".to_owned());
        }
        let joined = self.curves.iter().filter(|curve| curve.part.is_none());
        if joined.clone().any(|curve| curve.run.curves.parts(self.kind) > 1) {
            notes.push(self.kind.whole().to_owned());
        }
        if is_cut {
            notes.push(format!("warm-up {}s exceed the axis", scene.step()));
        }
        let factor = scene.smoothing();
        if factor > 0.0 {
            let done = self.curves.iter().all(Curve::is_smooth);
            notes.push(if done {
                format!("smoothed {factor:.2}, raw curve behind")
            } else {
                "smoothing …".to_owned()
            });
        }
        notes.join(" · ")
    }
}

struct Draw<'a> {
    scene: &'a Scene<'a>,
    scale: f64,
    log: bool,
    columns: usize,
}

impl Draw<'_> {
    /// A value in plot coordinates; `None` if it cannot be drawn.
    fn y(&self, value: f64) -> Option<f64> {
        if !self.log {
            return Some(value * self.scale);
        }
        (value > 0.0).then(|| value.log10())
    }

    /// Shades the warm-up and marks epochs with thin lines. Where the warm-ups of several runs overlap, the shade is that of the first run.
    fn background(&self, plot: &mut PlotUi, visuals: &eframe::egui::Visuals) {
        let width = self.scene.view.1 - self.scene.view.0;
        let mut shaded: Vec<(f64, f64)> = Vec::new();
        for run in &self.scene.runs {
            let colour = run.look.colour(visuals, (0, 1));
            if let Some([first, last]) = run.curves.warm_up {
                let warm_up = (self.scene.place(run, first.0, first.1), self.scene.place(run, last.0, last.1));
                let fill = colour.gamma_multiply(0.10);
                for (from, to) in uncovered(warm_up, &shaded) {
                    plot.span(Span::new("", from..=to).fill(fill).border(Stroke::new(0.0, fill)).border_color(fill));
                }
                shaded.push(warm_up);
            }
            // Skipped when the lines would be too dense to read.
            let place = |epoch: &crate::app::curves::EpochStart| self.scene.place(run, epoch.time_s, epoch.step);
            let starts = run.curves.epochs.iter().map(place);
            let seen: Vec<f64> =
                starts.filter(|x| self.scene.view.0 <= *x && *x <= self.scene.view.1 && width > 0.0).collect();
            if seen.len() * 12 <= self.columns {
                for x in seen {
                    plot.vline(VLine::new("", x).stroke(Stroke::new(1.0, colour.gamma_multiply(0.35))));
                }
            }
        }
    }

    fn curve(&self, plot: &mut PlotUi, curve: &Curve, colour: Color32) {
        if curve.is_smooth() {
            self.lines(plot, curve, colour.gamma_multiply(0.3), false);
        }
        self.lines(plot, curve, colour, true);
    }

    fn lines(&self, plot: &mut PlotUi, curve: &Curve, colour: Color32, smooth: bool) {
        let pieces = curve.pieces(plot.ctx(), self.scene, self.columns, smooth);
        for piece in pieces.iter() {
            // Values without a logarithm are gaps.
            let mut points = Vec::with_capacity(piece.len());
            for &[x, value] in piece {
                match self.y(value) {
                    Some(y) => points.push(PlotPoint { x, y }),
                    None => line(plot, std::mem::take(&mut points), colour),
                }
            }
            line(plot, points, colour);
        }
    }

    /// Draws a few markers on the curve, at different positions for each run.
    fn markers(&self, plot: &mut PlotUi, curve: &Curve, colour: Color32) {
        let Some((from, to)) = curve.seen(self.scene) else { return };
        let at = |index: usize| (index as f64 + 0.5 + 0.13 * (curve.run.place % 4) as f64) / MARKERS as f64;
        let points: Vec<PlotPoint> = (0..MARKERS)
            .filter_map(|index| curve.at(self.scene, Some(from + at(index) * (to - from))))
            .filter(|[x, _]| *x >= from)
            .filter_map(|[x, value]| self.y(value).map(|y| PlotPoint { x, y }))
            .collect();
        let shape: MarkerShape = curve.marker();
        let points = Points::new("", PlotPoints::Owned(points)).shape(shape).radius(4.0).color(colour);
        plot.points(points.filled(true).allow_hover(false));
    }

    fn cursor(&self, plot: &mut PlotUi, visuals: &eframe::egui::Visuals, selecting: Option<(f64, f64)>, visible: Rect) {
        let accent = palette(visuals).accent;
        if let Some((from, to)) = selecting {
            let fill = accent.gamma_multiply(0.2);
            plot.span(Span::new("", from.min(to)..=from.max(to)).fill(fill).border_color(fill));
        }
        let rect = plot.response().rect;
        let across = Rect::from_x_y_ranges(rect.x_range(), visible.y_range());
        let pointer = plot.ctx().input(|input| input.pointer.hover_pos());
        if let Some(pointer) = pointer.filter(|pointer| across.contains(*pointer)) {
            let x = place_at(self.scene, rect, pointer);
            plot.vline(VLine::new("", x).stroke(Stroke::new(1.0, palette(visuals).muted)));
        }
    }
}

/// The parts of a span that no other span covers.
fn uncovered(span: (f64, f64), others: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut parts = vec![span];
    for (from, to) in others {
        let beside = |(start, end): (f64, f64)| [(start, end.min(*from)), (start.max(*to), end)];
        parts = parts.into_iter().flat_map(beside).filter(|(start, end)| start < end).collect();
    }
    parts
}

fn line(plot: &mut PlotUi, points: Vec<PlotPoint>, colour: Color32) {
    if !points.is_empty() {
        // Bands would fill the area up to the next point; there are only few points.
        let line = Line::new("", PlotPoints::Owned(points)).stroke(Stroke::new(1.5, colour));
        plot.line(line.allow_band(false).allow_hover(false));
    }
}

/// The range being selected on the horizontal axis.
fn selection(ui: &Ui, scene: &Scene) -> Option<(f64, f64)> {
    let start: Option<f32> = ui.data(|data| data.get_temp(Id::unique("live-selection")));
    let (start, plots) = start.zip(plots_rect(ui))?;
    let pointer = ui.input(|input| input.pointer.hover_pos())?;
    let at = |x: f32| place_at(scene, plots, Pos2::new(x.clamp(plots.left(), plots.right()), pointer.y));
    Some((at(start), at(pointer.x)))
}

/// Handles pan, zoom and reset by the pointer.
fn interact(ui: &Ui, scene: &Scene, response: &eframe::egui::Response, commands: &mut Vec<LiveCommand>) {
    let (from, to) = scene.view;
    let per_point = (to - from) / f64::from(response.rect.width().max(1.0));
    let start_id = Id::unique("live-selection");
    if response.double_clicked() {
        commands.push(LiveCommand::Reset);
        return;
    }
    let pointer = ui.input(|input| input.pointer.hover_pos());
    if response.drag_started_by(PointerButton::Secondary)
        && let Some(start) = ui.input(|input| input.pointer.press_origin())
    {
        ui.data_mut(|data| data.insert_temp(start_id, start.x));
    }
    if response.drag_stopped_by(PointerButton::Secondary) {
        let start: Option<f32> = ui.data_mut(|data| data.remove_temp(start_id));
        if let (Some(start), Some(end)) = (start, pointer)
            && (start - end.x).abs() > LEAST_DRAG
        {
            let at = |x: f32| place_at(scene, response.rect, Pos2::new(x, 0.0));
            look(scene, (at(start.min(end.x)), at(start.max(end.x))), commands);
        }
    }
    if response.dragged_by(PointerButton::Primary) && response.drag_delta().x != 0.0 {
        let moved = f64::from(response.drag_delta().x) * per_point;
        look(scene, (from - moved, to - moved), commands);
    }
    if let Some(pointer) = pointer.filter(|_| response.contains_pointer()) {
        let zoom = f64::from(ui.input(|input| input.zoom_delta()));
        if zoom != 1.0 && zoom > 0.0 {
            let centre = place_at(scene, response.rect, pointer);
            look(scene, (centre - (centre - from) / zoom, centre + (to - centre) / zoom), commands);
        }
        let scroll = ui.input(|input| input.smooth_scroll_delta.x);
        if scroll != 0.0 {
            let moved = f64::from(scroll) * per_point;
            look(scene, (from - moved, to - moved), commands);
        }
    }
}

/// Zooms to a range. Ends following, so that the view does not jump back to the newest values.
fn look(scene: &Scene, (from, to): (f64, f64), commands: &mut Vec<LiveCommand>) {
    let (first, last) = scene.all;
    // There are no data further out.
    if to - from > 4.0 * (last - first) {
        commands.push(LiveCommand::Reset);
        return;
    }
    if scene.follows() {
        commands.push(LiveCommand::Follow(false));
    }
    commands.push(LiveCommand::View(from, to));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_of_warm_ups_that_overlap_do_not_add_up() {
        assert_eq!(uncovered((0.0, 4.0), &[]), [(0.0, 4.0)]);
        assert_eq!(uncovered((0.0, 4.0), &[(0.0, 3.0)]), [(3.0, 4.0)]);
        assert_eq!(uncovered((0.0, 4.0), &[(1.0, 2.0), (3.0, 9.0)]), [(0.0, 1.0), (2.0, 3.0)]);
        assert!(uncovered((0.0, 4.0), &[(-1.0, 5.0)]).is_empty());
        assert_eq!(uncovered((0.0, 4.0), &[(5.0, 6.0), (-2.0, -1.0)]), [(0.0, 4.0)], "they are apart");
    }
}
