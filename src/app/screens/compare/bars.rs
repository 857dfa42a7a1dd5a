//! Grouped bars: groups run from top to bottom; panels stand side by side, or in several lines where the window is narrow; numbers stand at
//! the ends of bars.

use std::ops::Range;

use eframe::egui::{
    Align2, Color32, FontId, Painter, Pos2, Rect, Role, ScrollArea, Sense, Stroke, StrokeKind, Ui, WidgetInfo, vec2,
};

use super::picture::Picture;
use super::{CompareCommand, CompareScreen};
use crate::analysis::{CellKey, TRACE_METRICS};
use crate::app::command::Command;
use crate::app::look;
use crate::app::theme::{BODY, GRID, Palette, SMALL, palette};
use crate::app::value_text;
use crate::app::widgets::{cut_to, text_width};
use crate::figure::{Chart, Panel, Point, Role as RoleOf, Series, precise, tick_text, ticks};

/// Bars are at least so thick, and thicker up to this where there is room.
const BAR: f32 = 16.0;
const THICKEST_BAR: f32 = 32.0;
const GAP: f32 = 2.0;
const GROUP_GAP: f32 = 10.0;
const HEAD: f32 = 40.0;
const LEAST_PANEL: f32 = 176.0;
/// Room for numbers to the right of the longest bar.
const NUMBERS: f32 = 104.0;

/// What stands between the levels of a name.
const SEPARATOR: &str = " · ";
/// Room for the label of a tick.
const LABEL: f32 = 36.0;

/// Bars of one group, over all panels.
struct Group {
    top: f32,
    height: f32,
    /// Names of the series that have a bar in it.
    series: Vec<String>,
}

/// Draws the chart; a click on a bar selects its cell.
pub fn bars_ui(ui: &mut Ui, compare: &CompareScreen, picture: &Picture, chart: &Chart, commands: &mut Vec<Command>) {
    let has_names = chart.x.categories.iter().any(|name| !name.is_empty());
    let names = if has_names { names_width(ui, chart) } else { 0.0 };
    let room = ui.available_width() - names - 12.0;
    let (columns, lines) = arranged(chart.panels.len().max(1), room);
    let panel = (room / columns as f32).max(LEAST_PANEL);
    let bar = thickness(chart, ui.available_height() / lines as f32);
    let groups = groups(chart, bar);
    let height = groups.last().map_or(0.0, |group| group.top + group.height) + HEAD;
    ScrollArea::both().id_salt("bars").auto_shrink([false, false]).show_viewport(ui, |ui, viewport| {
        ui.set_min_size(vec2(names + panel * columns as f32, height * lines as f32));
        for line in 0..lines {
            let down = vec2(0.0, line as f32 * height);
            let panels = line * columns..((line + 1) * columns).min(chart.panels.len());
            let (origin, viewport) = (ui.max_rect().min + down, viewport.translate(-down));
            let bottom = if line + 1 == lines { f32::INFINITY } else { origin.y + height };
            let groups = &groups;
            let scene =
                Scene { compare, picture, chart, groups, bar, names, panel, panels, origin, height, bottom, viewport };
            scene.grid(ui);
            scene.names(ui);
            for index in scene.panels.clone() {
                scene.panel(ui, index, &chart.panels[index], commands);
            }
            scene.head(ui);
        }
    });
}

/// How many panels stand side by side in so much room, and in how many lines: as few lines as there is room for, alike in length.
fn arranged(panels: usize, room: f32) -> (usize, usize) {
    let fitting = ((room / LEAST_PANEL) as usize).max(1);
    let columns = panels.div_ceil(panels.div_ceil(fitting));
    (columns, panels.div_ceil(columns))
}

/// How thick bars are in so much height: they use what there is, and scroll where there is too little.
fn thickness(chart: &Chart, height: f32) -> f32 {
    let groups = groups(chart, 0.0);
    let bars: usize = groups.iter().map(|group| group.series.len().max(1)).sum();
    let taken = groups.last().map_or(0.0, |group| group.top + group.height) + HEAD;
    // Whole points, as everything else.
    ((height - taken) / bars.max(1) as f32).clamp(BAR, THICKEST_BAR).floor()
}

fn groups(chart: &Chart, bar: f32) -> Vec<Group> {
    let legend: Vec<&Series> = chart.legend();
    let mut top = 0.0;
    (0..chart.x.categories.len())
        .map(|group| {
            let has_bar = |name: &str| {
                chart.series().filter(|series| series.name == name).any(|series| bar_of(series, group).is_some())
            };
            let series: Vec<String> =
                legend.iter().map(|series| series.name.clone()).filter(|name| has_bar(name)).collect();
            let height = series.len().max(1) as f32 * (bar + GAP) + GROUP_GAP;
            let group = Group { top, height, series };
            top += height;
            group
        })
        .collect()
}

fn bar_of(series: &Series, group: usize) -> Option<&Point> {
    series.points.iter().find(|point| point.x == group as f64)
}

/// Width of the longest name of a group, within limits.
fn names_width(ui: &Ui, chart: &Chart) -> f32 {
    let longest = chart.x.categories.iter().max_by_key(|name| name.chars().count());
    let width = longest.map_or(0.0, |name| {
        ui.painter().layout_no_wrap(name.clone(), FontId::proportional(BODY), Color32::WHITE).size().x
    });
    let title = ui.painter().layout_no_wrap(chart.y.title(), FontId::proportional(SMALL), Color32::WHITE).size().x;
    // Bars need most of the width, and names that are cut read alike.
    (width.max(title) + 4.0 * GRID).clamp(60.0, (0.4 * ui.available_width()).max(300.0))
}

/// A group's name in so much room: whole, else without the parts that it shares with the group above, else its end cut off.
fn name_in(ui: &Ui, name: &str, above: Option<&str>, room: f32) -> String {
    if text_width(ui, name) <= room {
        return name.to_owned();
    }
    let mut rest = name.to_owned();
    if let Some(above) = above {
        let same = |(own, other): &(&str, &str)| own == other;
        let shared = name.split(SEPARATOR).zip(above.split(SEPARATOR)).take_while(same).count();
        let own: Vec<&str> = name.split(SEPARATOR).skip(shared).collect();
        if shared > 0 && !own.is_empty() {
            rest = format!("… {}", own.join(SEPARATOR));
        }
    }
    cut_to(ui, &rest, room)
}

/// Ticks up to the longest bar, for an axis of this length in points. A lone zero would be no scale: where the round number of
/// two ticks lies beyond the longest bar, there are more.
fn marks(greatest: f64, length: f32) -> Vec<f64> {
    let wanted = (length / 72.0).clamp(2.0, 8.0) as usize;
    let marks = (wanted..=8).map(|count| ticks(greatest, count)).find(|marks| marks.len() > 1);
    let marks = marks.unwrap_or_else(|| vec![0.0]);
    match marks[..] {
        // Their labels would run into each other.
        [first, second, .., last] if length * (second / greatest) as f32 <= LABEL => vec![first, last],
        _ => marks,
    }
}

/// A line of panels.
struct Scene<'a> {
    compare: &'a CompareScreen,
    picture: &'a Picture,
    chart: &'a Chart,
    groups: &'a [Group],
    /// How thick a bar is.
    bar: f32,
    names: f32,
    panel: f32,
    panels: Range<usize>,
    origin: Pos2,
    height: f32,
    /// Where its grid ends.
    bottom: f32,
    /// The visible part, from the top left.
    viewport: Rect,
}

impl Scene<'_> {
    fn palette(&self, ui: &Ui) -> Palette {
        palette(ui.visuals())
    }

    /// Start of the bars, and their length per unit.
    fn scale(&self, panel: usize) -> (f32, f32) {
        let left = self.origin.x + self.names + (panel - self.panels.start) as f32 * self.panel;
        let greatest = self.chart.greatest();
        let length = (self.panel - NUMBERS - 3.0 * GRID).max(40.0);
        (left, if greatest > 0.0 { length / greatest as f32 } else { 0.0 })
    }

    fn is_visible(&self, group: &Group) -> bool {
        let top = group.top + HEAD;
        top + group.height >= self.viewport.top() && top <= self.viewport.bottom()
    }

    fn ticks(&self) -> Vec<f64> {
        marks(self.chart.greatest(), self.panel - NUMBERS)
    }

    fn grid(&self, ui: &Ui) {
        let line = Stroke::new(1.0, self.palette(ui).line.gamma_multiply(0.7));
        let bottom = ui.max_rect().bottom().max(ui.clip_rect().bottom()).min(self.bottom);
        for panel in self.panels.clone() {
            let (left, unit) = self.scale(panel);
            for tick in self.ticks() {
                let x = (left + tick as f32 * unit).round() + 0.5;
                ui.painter().line_segment([Pos2::new(x, self.origin.y), Pos2::new(x, bottom)], line);
            }
        }
    }

    fn names(&self, ui: &Ui) {
        let text = ui.visuals().text_color();
        let names = &self.chart.x.categories;
        let mut above = None;
        for (group, name) in self.groups.iter().zip(names).filter(|(group, _)| self.is_visible(group)) {
            let shown = name_in(ui, name, above, self.names - 3.0 * GRID);
            above = Some(name.as_str());
            let middle = self.origin.y + HEAD + group.top + (group.height - GROUP_GAP) / 2.0;
            let right = Pos2::new(self.origin.x + self.names - 2.0 * GRID, middle);
            let clip = Rect::from_min_max(
                Pos2::new(self.origin.x, middle - group.height),
                Pos2::new(self.origin.x + self.names, middle + group.height),
            );
            let painter = ui.painter().with_clip_rect(clip.intersect(ui.clip_rect()));
            let place = painter.text(right, Align2::RIGHT_CENTER, &shown, FontId::proportional(BODY), text);
            if shown != *name {
                ui.interact(place, ui.scope_id().with(("name", self.panels.start, name)), Sense::hover())
                    .on_hover_text(name);
            }
        }
    }

    fn panel(&self, ui: &mut Ui, index: usize, panel: &Panel, commands: &mut Vec<Command>) {
        let (left, unit) = self.scale(index);
        for (place, group) in self.groups.iter().enumerate().filter(|(_, group)| self.is_visible(group)) {
            for (line, name) in group.series.iter().enumerate() {
                let Some(series) = panel.series.iter().find(|series| series.name == *name) else { continue };
                let Some(point) = bar_of(series, place) else { continue };
                let top = self.origin.y + HEAD + group.top + line as f32 * (self.bar + GAP);
                let length = (point.value.median as f32 * unit).max(1.0);
                let bar = Rect::from_min_size(Pos2::new(left, top), vec2(length, self.bar));
                self.bar(ui, (index, series, point), bar, (left, unit), commands);
            }
        }
    }

    fn bar(
        &self,
        ui: &mut Ui,
        (panel, series, point): (usize, &Series, &Point),
        bar: Rect,
        (left, unit): (f32, f32),
        commands: &mut Vec<Command>,
    ) {
        let palette = self.palette(ui);
        look::paint_bar(ui.painter(), bar, &series.look, ui.visuals().dark_mode);
        let text_colour = ui.visuals().text_color();
        // Where the bar's whisker ends, and where it begins.
        let (mut end, mut begin) = (bar.right(), bar.right());
        let mut mark = None;
        if let Some(ends) = point.value.interval {
            let (low, high) = (left + ends.low as f32 * unit, left + ends.high as f32 * unit);
            whisker(ui.painter(), bar.center().y, (low, high), text_colour, ui.visuals().extreme_bg_color);
            (end, begin) = (end.max(high), begin.min(low));
        }
        if let Some(printed) = self.published(panel, series, point) {
            let x = left + printed.value.median as f32 * unit;
            let mut reach = (x - 6.0, x + 6.0);
            if let Some(ends) = printed.value.interval {
                let ends = (left + ends.low as f32 * unit, left + ends.high as f32 * unit);
                whisker(ui.painter(), bar.center().y, ends, text_colour, ui.visuals().extreme_bg_color);
                reach = (reach.0.min(ends.0), reach.1.max(ends.1));
            }
            look::paint_hollow(ui.painter(), Pos2::new(x, bar.center().y), text_colour, ui.visuals().extreme_bg_color);
            mark = Some(reach);
        }
        let (median, ratio) =
            (value_text::number(point.value.median), point.ratio.map(|ratio| value_text::ratio(ratio.median)));
        let font = FontId::proportional(SMALL);
        let layout = |text: &str, colour| ui.painter().layout_no_wrap(text.to_owned(), font.clone(), colour);
        let median_text = layout(&median, text_colour);
        let ratio_text = ratio.as_ref().map(|ratio| layout(ratio, palette.muted));
        let gap = 1.5 * GRID;
        let width = median_text.size().x + ratio_text.as_ref().map_or(0.0, |text| gap + text.size().x);
        // The numbers are the bar's: a mark that stands where they would be moves them into the bar, or behind itself.
        let is_free = |from: f32| mark.is_none_or(|(low, high)| from + width < low || from - gap / 2.0 > high);
        let inside = begin - gap - width;
        let start = match mark {
            _ if is_free(end + gap) => end + gap,
            _ if inside > left + gap && is_free(inside) => {
                let plate = Rect::from_center_size(
                    Pos2::new(inside + width / 2.0, bar.center().y),
                    vec2(width + gap, median_text.size().y.min(self.bar)),
                );
                ui.painter().rect_filled(plate, 2.0, ui.visuals().extreme_bg_color);
                inside
            }
            _ => mark.map_or(end, |(_, high)| end.max(high)) + gap,
        };
        let mut right = start;
        for text in std::iter::once(median_text).chain(ratio_text) {
            let at = Pos2::new(right, bar.center().y - text.size().y / 2.0);
            right += text.size().x + gap;
            ui.painter().galley(at, text, text_colour);
        }
        right -= gap;
        let chosen = point.cell.is_some() && self.compare.selected == point.cell;
        let all = Rect::from_min_max(bar.min, Pos2::new(right, bar.bottom()));
        if chosen {
            ui.painter().rect_stroke(all.expand(1.5), 2.0, Stroke::new(1.5, palette.accent), StrokeKind::Outside);
        }
        let id = ui.scope_id().with((panel, &series.name, point.x as usize));
        let response = ui.interact(all, id, Sense::click());
        response
            .widget_info(|| WidgetInfo::selected(Role::Button, true, chosen, self.bar_name((panel, series), point)));
        if response.clicked() {
            commands.push(Command::from(CompareCommand::Select(point.cell.clone().filter(|_| !chosen))));
        }
        if response.double_clicked()
            && let Some(cell) = &point.cell
        {
            commands.push(Command::from(CompareCommand::Open(cell.clone())));
        }
        response.on_hover_ui(|ui| self.hover(ui, (panel, series), point));
    }

    /// What a paper prints of a bar.
    fn published(&self, panel: usize, series: &Series, point: &Point) -> Option<&Point> {
        let of = |other: &&Series| other.role == RoleOf::Published && other.name == series.name;
        bar_of(self.chart.panels[panel].series.iter().find(of)?, point.x as usize)
    }

    /// The accessible name of a bar.
    fn bar_name(&self, (panel, series): (usize, &Series), point: &Point) -> String {
        let cell = point.cell.as_ref().map_or("", |key| self.cell_name(key));
        let value = format!("{} {}", value_text::number(point.value.median), self.chart.y.unit);
        let is_metric = TRACE_METRICS.iter().any(|kind| kind.name == series.name);
        let measure = if is_metric || self.chart.y.name == series.name || self.chart.title.starts_with("Peak memory") {
            &series.name
        } else {
            &self.chart.y.name
        };
        let printed = self.published(panel, series, point);
        let printed = printed
            .map_or(String::new(), |printed| format!(", published {}", value_text::number(printed.value.median)));
        format!("Bar {cell}: {measure} {}{printed}", value.trim_end())
    }

    fn cell_name(&self, key: &CellKey) -> &str {
        let cells = &self.picture.comparison.cells;
        cells.iter().find(|(known, _)| known == key).map_or("", |(_, name)| name)
    }

    /// Tooltip: the value with all digits, and its origin.
    fn hover(&self, ui: &mut Ui, (panel, series): (usize, &Series), point: &Point) {
        ui.set_max_width(360.0);
        ui.strong(point.cell.as_ref().map_or("", |key| self.cell_name(key)));
        let unit = &self.chart.y.unit;
        ui.label(format!("{}: {} {unit}", self.chart.y.name, precise(point.value.median)));
        if !series.name.is_empty() {
            ui.label(&series.name);
        }
        ui.label(value_text::origin(&point.value, 1.0, unit));
        if let Some(printed) = self.published(panel, series, point) {
            let over = point.value.median / printed.value.median;
            let ends = printed.value.interval;
            let ends = ends.map_or(String::new(), |ends| format!(" [{}, {}]", precise(ends.low), precise(ends.high)));
            ui.label(format!(
                "published: {}{ends} {unit}; measured over published {}",
                precise(printed.value.median),
                value_text::ratio(over)
            ));
        }
        if let (Some(ratio), Some((_, baseline))) = (&point.ratio, &self.picture.comparison.baseline) {
            let interval = value_text::interval(ratio, 1.0);
            ui.label(format!("{} {interval} vs {baseline}", value_text::ratio(ratio.median)));
        }
    }

    /// Titles of panels and labels of ticks, which stay in view.
    fn head(&self, ui: &Ui) {
        let palette = self.palette(ui);
        let top = self.origin.y + self.viewport.top().clamp(0.0, self.height - HEAD);
        let wide = ui.max_rect().right().max(ui.clip_rect().right());
        let head = Rect::from_min_max(Pos2::new(self.origin.x, top), Pos2::new(wide, top + HEAD - GRID));
        ui.painter().rect_filled(head, 0.0, ui.visuals().panel_fill);
        let y = top + HEAD - 3.0 * GRID;
        if self.chart.panels.iter().any(|panel| !panel.title.is_empty()) {
            let at = Pos2::new(self.origin.x + self.names - 2.0 * GRID, y);
            let font = FontId::proportional(SMALL);
            ui.painter().text(at, Align2::RIGHT_CENTER, self.chart.y.title(), font, palette.muted);
        }
        for index in self.panels.clone() {
            let (panel, (left, unit)) = (&self.chart.panels[index], self.scale(index));
            let title = if panel.title.is_empty() { self.chart.y.title() } else { panel.title.clone() };
            let strong = FontId::new(BODY, eframe::egui::FontFamily::Name(crate::app::theme::STRONG.into()));
            ui.painter().text(Pos2::new(left, top), Align2::LEFT_TOP, title, strong, ui.visuals().text_color());
            for tick in self.ticks() {
                let at = Pos2::new(left + tick as f32 * unit, y);
                let align = if tick == 0.0 { Align2::LEFT_CENTER } else { Align2::CENTER_CENTER };
                ui.painter().text(at, align, tick_text(tick), FontId::proportional(SMALL), palette.muted);
            }
        }
    }
}

/// Draws a line from the low to the high end, with a background that separates it from any hatch.
fn whisker(painter: &Painter, y: f32, (low, high): (f32, f32), colour: Color32, ground: Color32) {
    for (width, colour) in [(3.5, ground), (1.2, colour)] {
        let stroke = Stroke::new(width, colour);
        painter.line_segment([Pos2::new(low, y), Pos2::new(high, y)], stroke);
        for x in [low, high] {
            painter.line_segment([Pos2::new(x, y - 4.0), Pos2::new(x, y + 4.0)], stroke);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_axes_have_a_tick_beyond_zero() {
        assert_eq!(marks(4156.0, 60.0), [0.0, 4000.0]);
        assert_eq!(marks(4156.0, 400.0), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        for greatest in [1.0e-3, 0.9, 1.0, 1.1, 4.9, 5.1, 9.9, 186.0, 4156.0] {
            assert!(marks(greatest, 60.0).len() > 1, "{greatest}");
        }
        assert_eq!(marks(0.0, 60.0), [0.0]);
    }

    #[test]
    fn panels_without_room_side_by_side_stand_in_lines_of_the_same_length() {
        let of = |panels: usize, fitting: f32| arranged(panels, fitting * LEAST_PANEL);
        assert_eq!(
            [of(1, 0.5), of(4, 4.0), of(4, 3.9), of(4, 2.0), of(4, 1.0)],
            [(1, 1), (4, 1), (2, 2), (2, 2), (1, 4)]
        );
        assert_eq!([of(5, 4.0), of(7, 3.0), of(8, 3.0)], [(3, 2), (3, 3), (3, 3)]);
    }

    #[test]
    fn names_without_room_show_in_what_they_differ_from_the_one_above() {
        let context = eframe::egui::Context::default();
        crate::app::install_theme(&context);
        let mut drawn = context.run_ui(eframe::egui::RawInput::default(), |ui| {
            let long = "precision fp32 · layout nhwc · pin_memory on · loader workers 8";
            let above = "precision fp32 · layout nhwc · pin_memory on · loader workers 4";
            assert_eq!(name_in(ui, long, Some(above), 2000.0), long);
            assert_eq!(name_in(ui, long, Some(above), 200.0), "… loader workers 8");
            let cut = name_in(ui, long, None, 200.0);
            assert!(cut.starts_with("precision fp32 · ") && cut.ends_with('…'), "{cut}");
        });
        drawn.textures_delta.clear();
    }
}
