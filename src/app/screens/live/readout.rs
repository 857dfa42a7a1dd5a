//! The table below the plots: values of all curves at the cursor, or the newest ones.

use eframe::egui::text::LayoutJob;
use eframe::egui::{
    Align, Color32, Frame, Label, Layout, Margin, Panel, Role, ScrollArea, Sense, TextStyle, Ui, WidgetInfo, vec2,
};

use super::axis::place_text;
use super::names::{breaking_between_parts, levels_alone, without_shared};
use super::plots::{cursor, plots_rect};
use super::scene::{Curve, Scene, YAxis};
use crate::app::curves::Kind;
use crate::app::screens::live::View;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::text_width;
use crate::app::widgets::{card, muted, strong};
use crate::figure::short;

/// Lines of text shown without scrolling, below the headings.
const MOST_LINES: usize = 8;
const LINE_HEIGHT: f32 = 18.0;
/// Padding around the table and above its card.
const PADDING: f32 = 6.0;
const SIDE: f32 = 12.0;
/// Least and greatest widths of the name column and the number columns.
const NAME_WIDTH: (f32, f32) = (124.0, 320.0);
const COLUMN_WIDTH: (f32, f32) = (50.0, 110.0);
/// Lines of a name that does not fit into one.
const WRAPPED_LINES: usize = 2;
/// Width of the sample of a line.
const SWATCH: f32 = 18.0;

/// One line: a run, or one of its GPUs or ranks.
struct Line<'a> {
    name: String,
    /// Its first curve; all share colour and marker.
    curve: &'a Curve<'a>,
    values: Vec<Option<f64>>,
}

impl Line<'_> {
    /// Its name, complete or only with levels: `fp32 · conv · 1 GPU` for `fp32 · TF32 conv · 1 GPU`.
    fn shown_name(&self, brief: bool) -> String {
        if brief { levels_alone(&self.name) } else { self.name.clone() }
    }
}

/// How the table fits into its area.
struct Columns {
    name: f32,
    /// Width of each column of numbers, in points.
    numbers: Vec<f32>,
    /// Whether names consist only of levels.
    brief: bool,
    /// Lines of a name, and of the headings.
    name_lines: usize,
    heading_lines: usize,
}

impl Columns {
    fn fit(ui: &Ui, room: f32, lines: &[Line], headings: &[String]) -> Self {
        let small = |text: &str, width: f32| {
            let font = TextStyle::Small.resolve(ui.style());
            ui.painter().layout(text.to_owned(), font, Color32::WHITE, width)
        };
        let word = |word: &str| small(word, f32::INFINITY).size().x.ceil() + GRID;
        let least = |heading: &String| heading.split(' ').map(word).fold(COLUMN_WIDTH.0, f32::max);
        let mut numbers: Vec<f32> = headings.iter().map(least).collect();
        let most = room - numbers.iter().sum::<f32>();
        let needed = |brief: bool| {
            let widths = lines.iter().map(|line| text_width(ui, &line.shown_name(brief)).ceil() + SWATCH + GRID);
            widths.fold(NAME_WIDTH.0, f32::max).min(NAME_WIDTH.1)
        };
        // Names that are cut off look alike: if there is no room, they are shown without the names of settings, and on two lines.
        let brief = needed(false) > most;
        let name_lines = if needed(brief) > most { WRAPPED_LINES } else { 1 };
        let name = needed(brief).min(most.max(NAME_WIDTH.0));
        let wider = (most - name).max(0.0) / numbers.len().max(1) as f32;
        numbers.iter_mut().for_each(|column| *column = (*column + wider).min(COLUMN_WIDTH.1.max(*column)));
        let name = (room - numbers.iter().sum::<f32>()).clamp(NAME_WIDTH.0, NAME_WIDTH.1);
        let lines_of = |(heading, column): (&String, &f32)| small(heading, column - GRID).rows.len();
        let heading_lines = headings.iter().zip(&numbers).map(lines_of).max().unwrap_or(1);
        Self { name, numbers, brief, name_lines, heading_lines }
    }

    /// Draws one line of the table, with a height of `lines` lines of text; numbers are right-aligned.
    fn row(&self, ui: &mut Ui, lines: usize, name: impl FnOnce(&mut Ui), values: &[String], header: bool) {
        let height = lines as f32 * LINE_HEIGHT;
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = GRID;
            let left = Layout::left_to_right(Align::Center);
            ui.allocate_ui_with_layout(vec2(self.name, height), left, |ui| {
                ui.set_min_size(vec2(self.name, height));
                name(ui);
            });
            let muted_colour = palette(ui.visuals()).muted;
            for (value, width) in values.iter().zip(&self.numbers) {
                let right = Layout::right_to_left(if header { Align::Max } else { Align::Center });
                ui.allocate_ui_with_layout(vec2(width - GRID, height), right, |ui| {
                    let label = if header { muted(ui, value).small() } else { value.as_str().into() };
                    let dash = value == "\u{2013}";
                    let label = Label::new(if dash { label.color(muted_colour) } else { label });
                    let drawn = ui.add(if header { label.wrap() } else { label.truncate() });
                    if dash {
                        drawn.on_hover_text("Nothing was sampled here while the run's steps ran");
                    }
                });
            }
        });
    }

    /// Draws the sample of a line and its name.
    fn name_ui(&self, ui: &mut Ui, line: &Line) {
        let (rect, _) = ui.allocate_exact_size(vec2(SWATCH, LINE_HEIGHT), Sense::hover());
        line.curve.run.look.swatch(ui.painter(), rect, ui.visuals());
        let font = TextStyle::Body.resolve(ui.style());
        let name = breaking_between_parts(&line.shown_name(self.brief));
        let mut job = LayoutJob::simple(name, font, ui.visuals().text_color(), ui.available_width());
        job.wrap.max_rows = self.name_lines;
        let label = ui.add(Label::new(job).wrap());
        label.widget_info(|| WidgetInfo::labeled(Role::Label, true, &line.name));
        label.on_hover_text(line.curve.run.name);
    }
}

/// Draws the table at the bottom of the remaining space.
pub fn readout_ui(ui: &mut Ui, _view: View<'_>, scene: &Scene) {
    let panels: Vec<(Kind, Vec<Curve>)> = scene.panels().into_iter().filter(|(_, curves)| !curves.is_empty()).collect();
    let at = plots_rect(ui).and_then(|plots| cursor(ui, scene, plots));
    let lines = lines(scene, &panels, at);
    if lines.is_empty() {
        return;
    }
    let width = scene.view.1 - scene.view.0;
    let when = at.map_or_else(|| "newest".to_owned(), |x| format!("at {}", place_text(scene, x, width)));
    let when = if scene.smoothing() > 0.0 { format!("{when}, smoothed") } else { when };
    let headings: Vec<String> = panels.iter().map(|(kind, _)| kind.name_of_number(scene.step())).collect();
    // The card has an outline.
    let columns = Columns::fit(ui, ui.available_width() - 2.0 * (SIDE + 1.0), &lines, &headings);
    let lines_of_text = columns.heading_lines + 1 + (columns.name_lines * lines.len()).min(MOST_LINES);
    let frame = Frame::new().inner_margin(Margin { top: PADDING as i8, ..Margin::ZERO });
    let height = LINE_HEIGHT * lines_of_text as f32 + 3.0 * PADDING + 2.0;
    let panel = Panel::bottom("live-readout").frame(frame).resizable(false).show_separator_line(false);
    panel.exact_size(height).show(ui, |ui| {
        card(ui).inner_margin(Margin::symmetric(SIDE as i8, PADDING as i8)).show(ui, |ui| {
            ui.take_available_width();
            ui.spacing_mut().item_spacing.y = 0.0;
            ui.spacing_mut().interact_size.y = LINE_HEIGHT;
            columns.row(ui, columns.heading_lines, |ui| drop(ui.label(strong(when))), &headings, true);
            // The same units as in the panels above.
            let axes: Vec<YAxis> = panels.iter().map(|(kind, curves)| YAxis::new(*kind, curves, scene)).collect();
            let units: Vec<String> = axes.iter().map(|axis| axis.unit.to_owned()).collect();
            columns.row(ui, 1, |_| (), &units, true);
            ScrollArea::vertical().auto_shrink(false).min_scrolled_height(0.0).show(ui, |ui| {
                for line in lines {
                    let values: Vec<String> =
                        line.values.iter().zip(&axes).map(|(value, axis)| text(*value, axis)).collect();
                    columns.row(ui, columns.name_lines, |ui| columns.name_ui(ui, &line), &values, false);
                }
            });
        });
    });
}

fn text(value: Option<f64>, axis: &YAxis) -> String {
    let scaled = |value: f64| short(value * axis.scale);
    value.map_or_else(|| "\u{2013}".to_owned(), scaled)
}

fn lines<'a>(scene: &Scene, panels: &'a [(Kind, Vec<Curve<'a>>)], at: Option<f64>) -> Vec<Line<'a>> {
    let mut lines: Vec<Line> = Vec::new();
    let names = without_shared(&scene.runs.iter().map(|run| run.name).collect::<Vec<_>>());
    for (run, run_name) in scene.runs.iter().zip(names) {
        let own = |curve: &&Curve| curve.run.run == run.run;
        let mut parts: Vec<&Option<String>> = Vec::new();
        for curve in panels.iter().flat_map(|(_, curves)| curves).filter(own) {
            if !parts.contains(&&curve.part) {
                parts.push(&curve.part);
            }
        }
        parts.sort();
        for part in parts {
            let curve_of_run =
                |curves: &'a [Curve<'a>]| curves.iter().find(|c| c.run.run == run.run && c.part == *part);
            let curves_of_run: Vec<Option<&Curve>> = panels.iter().map(|(_, curves)| curve_of_run(curves)).collect();
            let Some(curve) = curves_of_run.iter().flatten().next().copied() else { continue };
            let name = part.as_ref().map_or_else(|| run_name.clone(), |part| format!("{part} · {run_name}"));
            let value = |curve: Option<&Curve>| curve.and_then(|curve| curve.at(scene, at)).map(|[_, y]| y);
            lines.push(Line { name, curve, values: curves_of_run.into_iter().map(value).collect() });
        }
    }
    lines
}
