//! Charts on screen: paints the scene of a chart, and reports which of its marks was clicked. Each mark can be pointed at, is reached by
//! Tab and the arrow keys, and has an accessible name.

mod shapes;

use std::cell::{Cell, RefCell};
use std::ops::Range;

use eframe::egui::{
    Color32, Painter, Pos2, Rect, Response, Role, ScrollArea, Sense, Shape, Stroke, StrokeKind, Ui, Vec2, WidgetInfo,
    epaint::shape_transform::adjust_colors, vec2,
};

use super::theme::{BODY, palette};
use crate::analysis::CellKey;
use crate::figure::paper::{Item, Mark, Page, Part, Scene, lay_out_on, swatch};
use crate::figure::{Chart, Look, Panel, Role as ChartRole, Series};
use shapes::{SCALE, letters, on_screen, path, rect};

/// Room for the bar that scrolls.
const SCROLL_BAR: f32 = 12.0;
/// If the scrolling part would be lower than this, the whole chart scrolls.
const LEAST_INNER: f32 = 72.0;
/// Least width and height of a target for the pointer.
const LEAST_TARGET: f32 = 12.0;
/// If a chart has more marks, keys and screen readers reach only the visible ones; if more are visible, only the pointer does.
const MOST_REACHED: usize = 1000;
/// The share of a line's colour that is left while another line is selected.
const BACK: f32 = 0.3;

/// Names and tooltips of marks.
pub trait About {
    /// The accessible name of a mark.
    fn name(&self, mark: &Mark) -> String;
    /// Draws its tooltip.
    fn hover(&self, ui: &mut Ui, mark: &Mark);
    /// The effect that a mark shows, by the name of its row in the table, if the mark does not belong to a single cell.
    fn effect(&self, _mark: &Mark) -> Option<String> {
        None
    }
}

/// The request of a click on a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Select a cell, or no cell.
    Select(Option<CellKey>),
    /// Show the runs of a cell.
    Open(CellKey),
    /// Select an effect, or none.
    Effect(Option<String>),
}

/// The selection: a cell, or an effect by the name of its row in the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selected<'a> {
    /// The cell.
    pub cell: Option<&'a CellKey>,
    /// The effect.
    pub effect: Option<&'a str>,
}

impl Selected<'_> {
    /// Whether a mark belongs to the selection.
    fn is(self, mark: &Mark, about: &dyn About) -> bool {
        match &mark.cell {
            Some(cell) => self.cell == Some(cell),
            None => self.effect.is_some() && about.effect(mark).as_deref() == self.effect,
        }
    }
}

/// Charts with their last layout, which is repeated only if their size or the theme changes.
#[derive(Clone, Debug, Default)]
pub struct Canvas {
    laid: RefCell<Option<Laid>>,
    /// The number of layouts so far.
    layouts: Cell<u64>,
}

/// The size and colours on which a layout depends, besides the charts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Room {
    size: Vec2,
    /// The background colour.
    ground: Color32,
    dark: bool,
}

impl Room {
    fn of(ui: &Ui, size: Vec2) -> Self {
        let visuals = ui.visuals();
        Self { size, ground: visuals.panel_fill, dark: visuals.dark_mode }
    }
}

/// Paints the look of a level as a small bar.
pub fn paint_swatch(ui: &Ui, rect: Rect, look: &Look) {
    let [width, height] = [rect.width(), rect.height()].map(|side| f64::from(side) / SCALE);
    let swatch = Laid::of(swatch(look, width, height), Room::of(ui, rect.size()));
    swatch.paint(&ui.painter().with_clip_rect(rect.intersect(ui.clip_rect())), rect.min, &[]);
}

/// One item of a scene, in points of the screen relative to the scene's corner.
#[derive(Clone, Debug)]
enum Painted {
    /// A part of a path.
    Shape(Shape),
    /// The text at this index among the items; egui lays out the letters itself.
    Text(usize),
}

/// A scene, ready to be painted.
#[derive(Clone, Debug)]
struct Laid {
    room: Room,
    scene: Scene,
    /// The painted items, each with the area that it covers and its place among the scene's items.
    painted: Vec<(Rect, usize, Painted)>,
}

impl Canvas {
    /// The number of layouts so far.
    #[cfg(test)]
    pub fn layouts(&self) -> u64 {
        self.layouts.get()
    }

    /// Draws charts, which must be the same in each frame. The marks of the selected cell are outlined.
    pub fn ui(&self, ui: &mut Ui, charts: &[Chart], selected: Selected<'_>, about: &dyn About) -> Option<Asked> {
        // Rounded to whole points: a panel that moves by a fraction should not cause a new layout.
        let size = (ui.available_size() - vec2(SCROLL_BAR, 0.0)).floor().max(Vec2::ZERO);
        let room = Room::of(ui, size);
        let mut laid = self.laid.borrow_mut();
        if laid.as_ref().is_none_or(|laid| laid.room != room) {
            *laid = Some(Laid::new(charts, room));
            self.layouts.set(self.layouts.get() + 1);
        }
        let laid = laid.as_ref()?;
        let (inner, whole) = (laid.inner(size.y), laid.size());
        let back = laid.standing_back(charts, selected.cell);
        ui.scope(|ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            laid.part_ui(ui, 0.0..inner.start, &[]);
            let height = (size.y - inner.start - (whole.y - inner.end)).max(0.0);
            let scroll = ScrollArea::vertical().id_salt("canvas").max_height(height).auto_shrink([false, true]);
            let scrolled = scroll.show(ui, |ui| {
                let chart = laid.part_ui(ui, inner.clone(), &back);
                let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
                chart.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("Chart: {}", titles.join(", "))));
                laid.marks_ui(ui, chart.rect.min - vec2(0.0, inner.start), selected, about)
            });
            laid.part_ui(ui, inner.end..whole.y, &[]);
            scrolled.inner
        })
        .inner
    }
}

impl Laid {
    fn new(charts: &[Chart], room: Room) -> Self {
        // One point less, so that rounding does not make a fitting chart scroll.
        let [width, height] = [room.size.x, room.size.y - 1.0].map(|side| f64::from(side) / SCALE);
        let scene = lay_out_on(charts, &Page::screen(width, height, f64::from(BODY) / SCALE));
        Self::of(scene, room)
    }

    /// Prepares a scene for the theme of its area.
    fn of(mut scene: Scene, room: Room) -> Self {
        let [red, green, blue, _] = room.ground.to_array();
        let ground = [red, green, blue];
        scene = if room.dark { scene.on_dark(ground) } else { scene.on_light(ground) };
        let mut painted = Vec::new();
        for (place, item) in scene.items.iter().enumerate() {
            match item {
                Item::Text(text) => painted.push((rect(&text.area()), place, Painted::Text(place))),
                Item::Path { segments, fill, stroke } => {
                    let mut shapes = Vec::new();
                    path(segments, *fill, stroke.as_ref(), &mut shapes);
                    let with_bounds = |shape: Shape| (shape.visual_bounding_rect(), place, Painted::Shape(shape));
                    painted.extend(shapes.into_iter().map(with_bounds));
                }
            }
        }
        Self { room, scene, painted }
    }

    /// The items of all lines but the selected cell's, if the selected cell has a line. An ideal line belongs to the line of its level.
    fn standing_back(&self, charts: &[Chart], selected: Option<&CellKey>) -> Vec<Range<usize>> {
        let series_at = |[chart, panel, series]: [usize; 3]| {
            let panel = charts.get(chart)?.panels.get(panel)?;
            Some((panel, panel.series.get(series)?))
        };
        let has = |series: &Series| series.points.iter().any(|point| point.cell.as_ref() == selected);
        let is_chosen = |(panel, series): (&Panel, &Series)| match series.role {
            ChartRole::Ideal => panel.series.iter().any(|own| own.look == series.look && has(own)),
            _ => has(series),
        };
        let lines: Vec<(bool, Range<usize>)> = self
            .scene
            .parts
            .iter()
            .filter_map(|placed| match placed.part {
                Part::Line(place) => Some((series_at(place).is_some_and(is_chosen), placed.items.clone())),
                _ => None,
            })
            .collect();
        let any = selected.is_some() && lines.iter().any(|(chosen, _)| *chosen);
        lines.into_iter().filter(|(chosen, _)| any && !chosen).map(|(_, items)| items).collect()
    }

    /// Paints the visible part, starting at a corner. Items of `back` are faded.
    fn paint(&self, painter: &Painter, corner: Pos2, back: &[Range<usize>]) {
        let sight = painter.clip_rect().translate(-corner.to_vec2());
        let in_sight = self.painted.iter().filter(|(area, ..)| area.intersects(sight));
        let shapes = in_sight.map(|(_, item, painted)| match painted {
            Painted::Shape(shape) => {
                let mut shape = shape.clone();
                shape.translate(corner.to_vec2());
                if back.iter().any(|items| items.contains(item)) {
                    adjust_colors(&mut shape, |colour| *colour = colour.gamma_multiply(BACK));
                }
                shape
            }
            Painted::Text(item) => match &self.scene.items[*item] {
                Item::Text(text) => letters(painter, text, corner),
                Item::Path { .. } => Shape::Noop,
            },
        });
        painter.extend(shapes.collect::<Vec<_>>());
    }

    fn size(&self) -> Vec2 {
        vec2(on_screen(self.scene.width), on_screen(self.scene.height).ceil())
    }

    /// The part that scrolls within this height: everything, if the fixed parts would leave too little room.
    fn inner(&self, height: f32) -> Range<f32> {
        let whole = self.size().y;
        let (top, bottom) = self.scene.inner.unwrap_or((0.0, self.scene.height));
        // Cut at whole points, so that no line is cut in two, and the line of the axis stays with its ticks.
        let top = on_screen(top).floor();
        let bottom = (on_screen(bottom) - 1.0).floor().max(top);
        let fixed_height = top + whole - bottom;
        if whole > height && height - fixed_height < LEAST_INNER { 0.0..whole } else { top..bottom }
    }

    /// Paints the part of the scene between two heights.
    fn part_ui(&self, ui: &mut Ui, part: Range<f32>, back: &[Range<usize>]) -> Response {
        let size = vec2(self.size().x, part.end - part.start);
        let (place, response) = ui.allocate_exact_size(size, Sense::hover());
        let painter = ui.painter().with_clip_rect(place.expand2(vec2(SCROLL_BAR, 0.0)).intersect(ui.clip_rect()));
        self.paint(&painter, place.min - vec2(0.0, part.start), back);
        response
    }

    /// Makes marks react to the pointer and the keys, and visible to screen readers.
    fn marks_ui(&self, ui: &Ui, corner: Pos2, selected: Selected<'_>, about: &dyn About) -> Option<Asked> {
        let accent = Stroke::new(1.5, palette(ui.visuals()).accent);
        for outline in self.outlines(selected, about) {
            let outline = outline.translate(corner.to_vec2()).expand(1.5);
            ui.painter().rect_stroke(outline, 2.0, accent, StrokeKind::Outside);
        }
        let mut request = None;
        let target_of = |mark: &Mark| {
            let area = rect(&mark.area).translate(corner.to_vec2());
            let missing = (Vec2::splat(LEAST_TARGET) - area.size()).max(Vec2::ZERO);
            (area, area.expand2(missing / 2.0))
        };
        let mut marks: Vec<&Mark> = self.scene.marks.iter().collect();
        if marks.len() > MOST_REACHED {
            marks.retain(|mark| ui.is_rect_visible(target_of(mark).1));
        }
        if marks.len() > MOST_REACHED {
            // Only the nearest mark counts, because the marks of a cloud of points overlap.
            let pointer = ui.input(|input| input.pointer.latest_pos());
            let distance = |mark: &&Mark| pointer.map_or(0.0, |at| target_of(mark).0.center().distance(at));
            let near = |mark: &&Mark| pointer.is_some_and(|at| target_of(mark).1.contains(at));
            let nearest = marks.into_iter().filter(near).min_by(|a, b| distance(a).total_cmp(&distance(b)));
            marks = nearest.into_iter().collect();
        }
        for mark in marks {
            let (area, target) = target_of(mark);
            let is_selected = selected.is(mark, about);
            let response = mark_ui(ui, mark, target, is_selected, about);
            if response.has_focus() {
                let focus = Stroke::new(1.5, ui.visuals().text_color());
                ui.painter().rect_stroke(area.expand(3.0), 3.0, focus, StrokeKind::Outside);
            }
            let Some(cell) = &mark.cell else {
                if response.clicked()
                    && let Some(effect) = about.effect(mark)
                {
                    request = Some(Asked::Effect((!is_selected).then_some(effect)));
                }
                continue;
            };
            if response.clicked() {
                request = Some(Asked::Select((!is_selected).then(|| cell.clone())));
            }
            if response.double_clicked() {
                request = Some(Asked::Open(cell.clone()));
            }
        }
        request
    }

    /// The outlines of the selected marks: one outline around marks that touch, such as the parts of a bar.
    fn outlines(&self, selected: Selected<'_>, about: &dyn About) -> Vec<Rect> {
        let mut outlines: Vec<Rect> = Vec::new();
        for mark in self.scene.marks.iter().filter(|mark| selected.is(mark, about)) {
            let area = rect(&mark.area);
            match outlines.last_mut() {
                Some(last) if last.expand(0.5).intersects(area) => *last = last.union(area),
                _ => outlines.push(area),
            }
        }
        outlines
    }
}

fn mark_ui(ui: &Ui, mark: &Mark, target: Rect, is_selected: bool, about: &dyn About) -> Response {
    // A mark that sums up several cells selects its effect, if it has one; otherwise it only has a tooltip.
    let can_select = mark.cell.is_some() || about.effect(mark).is_some();
    let sense = if can_select { Sense::click() } else { Sense::focusable_noninteractive() };
    let response = ui.interact(target, ui.scope_id().with(mark.place), sense);
    response.widget_info(|| match can_select {
        true => WidgetInfo::selected(Role::Button, true, is_selected, about.name(mark)),
        false => WidgetInfo::labeled(Role::Label, true, about.name(mark)),
    });
    if response.gained_focus() {
        ui.scroll_to_rect(target, None);
    }
    if response.has_focus() && !response.hovered() {
        response.show_tooltip_ui(|ui| about.hover(ui, mark));
    }
    response.on_hover_ui(|ui| about.hover(ui, mark))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Source, fixture, summarise_run};
    use crate::figure::{Form, Study, compare, paper};

    #[test]
    fn lines_stand_back_behind_that_of_the_selected_cell() {
        let cells = [("fp32", 1, 0.4), ("fp32", 2, 0.2), ("fp16", 1, 0.1), ("fp16", 2, 0.06)];
        let runs = cells.map(|(precision, gpus, step_time_s)| {
            summarise_run(&fixture::run(&fixture::cell(precision, gpus, "ddp-ds"), 1, step_time_s))
        });
        let study = Study { form: Form::Scaling, ..Study::default() };
        let charts = compare(&[Source { session: "", runs: &runs, reports: &[] }], &study).charts;
        let room = Room { size: vec2(600.0, 400.0), ground: Color32::WHITE, dark: false };
        let laid = Laid::new(&charts, room);
        let lines = laid.scene.parts.iter().filter(|placed| matches!(placed.part, Part::Line(_))).count();
        assert!(laid.standing_back(&charts, None).is_empty());
        let cell = charts[0].panels[0].series[0].points[0].cell.clone();
        let back = laid.standing_back(&charts, cell.as_ref());
        assert!(!back.is_empty() && back.len() < lines, "{} of {lines}", back.len());
        for mark in &laid.scene.marks {
            let [chart, panel, series, _] = mark.place;
            let is_of = |placed: &&paper::Placed| placed.part == Part::Line([chart, panel, series]);
            let items = laid.scene.parts.iter().find(is_of).unwrap().items.clone();
            let has = charts[chart].panels[panel].series[series].points.iter().any(|point| point.cell == cell);
            assert_eq!(back.contains(&items), !has);
        }
    }
}
