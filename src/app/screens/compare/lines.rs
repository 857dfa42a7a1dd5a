//! Lines: losses with bands over epochs, steps or time, in plots that can be panned and zoomed.

use eframe::egui::{Color32, Pos2, ScrollArea, Ui, vec2};
use egui_plot::{
    FilledArea, GridInput, GridMark, HoverPosition, Line, LineStyle, MarkerShape, Plot, PlotPoint, PlotPoints, PlotUi,
    Points,
};

use super::{CompareCommand, CompareScreen};
use crate::analysis::CellKey;
use crate::app::command::Command;
use crate::app::look;
use crate::app::theme::{GRID, palette};
use crate::app::ticks::{log_text, log_ticks};
use crate::app::value_text;
use crate::app::widgets::{muted, strong};
use crate::figure::{Chart, PUBLISHED, Panel, Role, Scale, Series, tick_text, ticks_between};

const LEAST: f32 = 200.0;
const LEAST_HEIGHT: f32 = 116.0;
/// Distance from a line within which a click selects it, in points.
const REACH: f32 = 10.0;
/// Maximum number of markers per line.
const MARKED: usize = 24;

/// The vertical axis: values, or their logarithms.
#[derive(Clone, Copy)]
struct Values {
    is_log: bool,
}

impl Values {
    /// The position of a value; NaN if it has no logarithm.
    fn place(self, value: f64) -> f64 {
        match self.is_log {
            false => value,
            true if value > 0.0 => value.log10(),
            true => f64::NAN,
        }
    }

    fn value(self, place: f64) -> f64 {
        if self.is_log { 10_f64.powf(place) } else { place }
    }
}

/// Draws charts with lines; a click on a line selects its cell. If each chart has one panel, they are next to each other, otherwise there
/// is one chart per row with its panels next to each other.
pub fn lines_ui(ui: &mut Ui, compare: &CompareScreen, charts: &[Chart], commands: &mut Vec<Command>) {
    let charts: Vec<&Chart> = charts.iter().filter(|chart| !chart.is_empty()).collect();
    let rows: Vec<Vec<(&Chart, &Panel)>> = if charts.iter().all(|chart| chart.panels.len() == 1) {
        vec![charts.iter().flat_map(|chart| chart.panels.iter().map(|panel| (*chart, panel))).collect()]
    } else {
        charts.iter().map(|chart| chart.panels.iter().map(|panel| (*chart, panel)).collect()).collect()
    };
    let gap = 2.0 * GRID;
    let title = ui.spacing().interact_size.y + 2.0 * ui.spacing().item_spacing.y;
    let height = (ui.available_height() / rows.len() as f32 - title).max(LEAST_HEIGHT);
    let most = rows.iter().map(Vec::len).max().unwrap_or(1) as f32;
    let width = ((ui.available_width() - 8.0) / most - gap).max(LEAST);
    ScrollArea::both().id_salt("lines").auto_shrink([false, false]).show(ui, |ui| {
        for row in rows {
            ui.horizontal_top(|ui| {
                for (chart, panel) in row {
                    ui.allocate_ui(vec2(width, height), |ui| {
                        ui.vertical(|ui| panel_ui(ui, compare, (chart, panel), [width, height], commands));
                    });
                }
            });
        }
    });
}

fn panel_ui(
    ui: &mut Ui,
    compare: &CompareScreen,
    (chart, panel): (&Chart, &Panel),
    size: [f32; 2],
    commands: &mut Vec<Command>,
) {
    ui.horizontal(|ui| {
        ui.label(strong(chart.y.title()));
        if !panel.title.is_empty() {
            ui.label(muted(ui, &panel.title));
        }
    });
    let visuals = ui.visuals().clone();
    let values = Values { is_log: chart.y.scale == Scale::Log };
    let is_chosen = |series: &Series| {
        compare.selected.is_some() && series.points.iter().any(|point| point.cell == compare.selected)
    };
    let any_chosen = panel.series.iter().any(is_chosen);
    // The selected line is drawn last, on top of the others.
    let mut all: Vec<&Series> = panel.series.iter().collect();
    all.sort_by_key(|series| is_chosen(series));
    let shown = empty_plot(chart, panel, size, palette(ui.visuals()).line).show(ui, |plot| {
        for series in all {
            let stands_back = any_chosen && !is_chosen(series);
            let colour = look::line_colour(&series.look, &visuals).gamma_multiply(if stands_back { 0.3 } else { 1.0 });
            let width = if any_chosen && !stands_back { 2.6 } else { 1.8 };
            draw_series(plot, series, (colour, width), values);
        }
    });
    let clicked = shown.response.interact_pointer_pos().filter(|_| shown.response.clicked());
    if let Some(pointer) = clicked {
        let place = |x: f64, y: f64| shown.transform.position_from_point(&PlotPoint::new(x, values.place(y)));
        let nearest = nearest(panel, pointer, place);
        if nearest != compare.selected || nearest.is_some() {
            let cell = nearest.filter(|cell| compare.selected.as_ref() != Some(cell));
            commands.push(Command::from(CompareCommand::Select(cell)));
        }
    }
}

/// The axes of a panel, without its lines.
fn empty_plot<'a>(chart: &'a Chart, panel: &Panel, size: [f32; 2], grid: Color32) -> Plot<'a> {
    let places: Vec<f64> = places(panel);
    let values = Values { is_log: chart.y.scale == Scale::Log };
    // A plot remembers its bounds, which have another meaning on the other scale.
    let salt = ("compare-lines", &chart.title, &panel.title, values.is_log);
    let mut plot = Plot::new(salt)
        .width(size[0])
        .height(size[1])
        .allow_scroll(false)
        .x_axis_label(chart.x.title())
        .set_margin_fraction(vec2(0.04, 0.06))
        .grid_color(grid)
        .grid_fade(0.0)
        .x_axis_formatter(|mark, _| tick_text(mark.value))
        .y_axis_formatter(move |mark, _| if values.is_log { log_text(mark) } else { tick_text(mark.value) })
        .label_formatter(move |position| hover_text(position, chart, values));
    let (across, up) = ((size[0] / 90.0).clamp(2.0, 10.0), (size[1] / 44.0).clamp(2.0, 10.0));
    let only_whole = chart.x.unit.is_empty();
    plot = plot
        .x_grid_spacer(move |input| {
            let marks = ticks_between(input.bounds.0, input.bounds.1, across as usize);
            marks_at(marks.into_iter().filter(|mark| !only_whole || mark.fract() == 0.0), &input)
        })
        .y_grid_spacer(move |input| match values.is_log {
            true => log_ticks(&input),
            false => marks_at(ticks_between(input.bounds.0, input.bounds.1, up as usize).into_iter(), &input),
        });
    if let Some([low, high]) = around_one(&places) {
        plot = plot.include_x(low).include_x(high);
    }
    if !values.is_log && chart.y.unit != "%" {
        plot = plot.include_y(0.0);
    }
    plot
}

/// Draws one line with its band or intervals and its markers.
fn draw_series<'a>(plot: &mut PlotUi<'a>, series: &'a Series, (colour, width): (Color32, f32), values: Values) {
    if series.role == Role::Published {
        let name = format!("{}, {PUBLISHED}", series.name);
        let marks = Points::new(name, medians(series, values)).color(colour).filled(false);
        return plot.points(marks.shape(MarkerShape::Diamond).radius(5.5));
    }
    band(series, colour, values).into_iter().for_each(|band| plot.add(band));
    // With very many points, only some have markers.
    let each = series.points.len().div_ceil(MARKED).max(1);
    let style = match look::dash_of(series.variant) {
        None => LineStyle::Solid,
        Some((length, gap)) if length < gap => LineStyle::Dotted { spacing: length + gap },
        Some((length, _)) => LineStyle::Dashed { length },
    };
    plot.line(
        Line::new(series.name.clone(), medians(series, values))
            .allow_band(false)
            .color(colour)
            .width(width)
            .style(style)
            .allow_hover(each > 1),
    );
    let shape = look::marker_shape(series.look.sign().marker);
    let marked: PlotPoints =
        medians(series, values).points().iter().step_by(each).map(|point| [point.x, point.y]).collect();
    plot.points(Points::new(series.name.clone(), marked).color(colour).shape(shape).radius(3.5));
}

/// The cell of the line nearest to a position on screen, if one is within reach.
fn nearest(panel: &Panel, at: Pos2, place: impl Fn(f64, f64) -> Pos2) -> Option<CellKey> {
    let distance = |series: &Series| {
        let points: Vec<Pos2> = series.points.iter().map(|point| place(point.x, point.value.median)).collect();
        let to_points = points.iter().map(|point| point.distance(at));
        let to_segments = points.windows(2).map(|ends| {
            let (along, from) = (ends[1] - ends[0], at - ends[0]);
            let share = (from.dot(along) / along.length_sq().max(f32::EPSILON)).clamp(0.0, 1.0);
            (from - along * share).length()
        });
        to_points.chain(to_segments).fold(f32::INFINITY, f32::min)
    };
    let lines = panel.series.iter().filter(|series| series.role == Role::Measured);
    let nearest = lines.map(|series| (distance(series), series)).min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, series) = nearest.filter(|(distance, _)| *distance <= REACH)?;
    series.points.iter().find_map(|point| point.cell.clone())
}

/// Grid lines of equal strength, far enough apart for their labels.
fn marks_at(values: impl Iterator<Item = f64>, input: &GridInput) -> Vec<GridMark> {
    let step_size = input.bounds.1 - input.bounds.0;
    values.map(|value| GridMark { value, step_size }).collect()
}

fn medians(series: &Series, values: Values) -> PlotPoints<'static> {
    let places = series.points.iter().map(|point| [point.x, values.place(point.value.median)]);
    places.filter(|place| place[1].is_finite()).collect()
}

/// The band from the lowest to the highest repeat; `None` if each point has one repeat.
fn band(series: &Series, colour: Color32, values: Values) -> Option<FilledArea> {
    let ends = |point: &&crate::figure::Point| {
        let median = point.value.median;
        let (low, high) = point.value.interval.map_or((median, median), |ends| (ends.low, ends.high));
        (values.place(low), values.place(high))
    };
    // An area cannot have gaps.
    let points: Vec<_> = series.points.iter().filter(|point| ends(point).0.is_finite()).collect();
    if points.len() < 2 || points.iter().all(|point| point.value.interval.is_none()) {
        return None;
    }
    let xs: Vec<f64> = points.iter().map(|point| point.x).collect();
    let (low, high): (Vec<f64>, Vec<f64>) = points.iter().map(ends).unzip();
    let area = FilledArea::new(format!("{} range", series.name), &xs, &low, &high);
    Some(area.fill_color(colour.gamma_multiply(0.18)).allow_hover(false))
}

/// The ends of an axis with a single position; by default the plot would choose ends far away.
fn around_one(places: &[f64]) -> Option<[f64; 2]> {
    let [place] = places else { return None };
    Some([place - 1.0, place + 1.0])
}

/// Horizontal positions of the points.
fn places(panel: &Panel) -> Vec<f64> {
    let points = panel.series.iter().filter(|series| series.role == Role::Measured).flat_map(|series| &series.points);
    let mut places: Vec<f64> = points.map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

fn hover_text(position: &HoverPosition, chart: &Chart, values: Values) -> Option<String> {
    match position {
        HoverPosition::NearDataPoint { plot_name, position, .. } => {
            let name = if plot_name.is_empty() { String::new() } else { format!("{plot_name}\n") };
            let value = format!("{} {}", value_text::number(values.value(position.y)), chart.y.unit);
            let place = format!("{} {} {}", chart.x.name, tick_text(position.x), chart.x.unit);
            Some(format!("{name}{}: {}", place.trim_end(), value.trim_end()))
        }
        HoverPosition::Elsewhere { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_with_one_epoch_ends_beside_it() {
        assert_eq!(around_one(&[1.0]), Some([0.0, 2.0]));
        assert_eq!(around_one(&[1.0, 2.0]), None);
    }
}
