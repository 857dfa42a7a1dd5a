//! The table below the plots: values of all curves at the cursor, or the newest ones.

use eframe::egui::{Align, Frame, Layout, Margin, Panel, ScrollArea, Sense, Ui, vec2};

use super::axis::place_text;
use super::plots::{cursor, plots_rect};
use super::scene::{Curve, Scene, YAxis, swatch};
use crate::app::State;
use crate::app::compare::look::text_width;
use crate::app::curves::Kind;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{card, muted, strong};
use crate::figure::{grouped, significant};

/// Lines shown without scrolling.
const MOST_LINES: usize = 8;
const LINE_HEIGHT: f32 = 18.0;
/// Padding around the table and above its card.
const PADDING: f32 = 6.0;
/// Least and greatest widths of the name column and the number columns.
const NAME_WIDTH: (f32, f32) = (124.0, 320.0);
const COLUMN_WIDTH: (f32, f32) = (60.0, 110.0);
/// Width of the sample of a line.
const SWATCH: f32 = 18.0;

/// What stands between the parts of a name.
const SEPARATOR: &str = " · ";

/// One line: a run, or one of its GPUs or ranks.
struct Line<'a> {
    name: String,
    /// Its first curve; all share colour and marker.
    curve: &'a Curve<'a>,
    values: Vec<Option<f64>>,
}

impl Line<'_> {
    /// Its name, whole or with levels alone: `fp32 · conv · 1 GPU` for `fp32 · TF32 conv · 1 GPU`.
    fn shown_name(&self, brief: bool) -> String {
        if brief { levels_alone(&self.name) } else { self.name.clone() }
    }
}

/// A name without the names of its settings, which stand before their levels.
fn levels_alone(name: &str) -> String {
    let level = |part: &str| match part.split_once(' ') {
        Some((setting, level)) if !setting.starts_with(|first: char| first.is_ascii_digit()) => level.to_owned(),
        _ => part.to_owned(),
    };
    name.split(SEPARATOR).map(level).collect::<Vec<_>>().join(SEPARATOR)
}

/// Draws the table at the bottom of the remaining space.
pub fn readout_ui(ui: &mut Ui, _state: &State, scene: &Scene) {
    let panels: Vec<(Kind, Vec<Curve>)> = scene.panels().into_iter().filter(|(_, curves)| !curves.is_empty()).collect();
    let at = plots_rect(ui).and_then(|plots| cursor(ui, scene, plots));
    let lines = lines(scene, &panels, at);
    if lines.is_empty() {
        return;
    }
    let width = scene.view.1 - scene.view.0;
    let when = at.map_or_else(|| "newest".to_owned(), |x| format!("at {}", place_text(scene, x, width)));
    let when = if scene.smoothing() > 0.0 { format!("{when}, smoothed") } else { when };
    let frame = Frame::new().inner_margin(Margin { top: PADDING as i8, ..Margin::ZERO });
    let height = LINE_HEIGHT * (2 + lines.len().min(MOST_LINES)) as f32 + 3.0 * PADDING + 2.0;
    let panel = Panel::bottom("live-readout").frame(frame).resizable(false).show_separator_line(false);
    panel.exact_size(height).show(ui, |ui| {
        card(ui).inner_margin(Margin::symmetric(12, PADDING as i8)).show(ui, |ui| {
            ui.take_available_width();
            ui.spacing_mut().item_spacing.y = 0.0;
            ui.spacing_mut().interact_size.y = LINE_HEIGHT;
            let (room, count) = (ui.available_width(), panels.len().max(1) as f32);
            let needed = |brief: bool| {
                let widths = lines.iter().map(|line| text_width(ui, &line.shown_name(brief)) + SWATCH + 2.0 * GRID);
                widths.fold(NAME_WIDTH.0, f32::max).min(NAME_WIDTH.1)
            };
            let most = room - COLUMN_WIDTH.0 * count;
            // Names that are cut off read alike: where they have no room, they are said without the names of settings.
            let brief = needed(false) > most;
            let name_width = needed(brief).min(most.max(NAME_WIDTH.0));
            let column = ((room - name_width) / count).clamp(COLUMN_WIDTH.0, COLUMN_WIDTH.1);
            let widths = ((room - column * count).clamp(NAME_WIDTH.0, NAME_WIDTH.1), column);
            let names: Vec<String> = panels.iter().map(|(kind, _)| kind.name(scene.step())).collect();
            row(ui, widths, |ui| drop(ui.label(strong(when))), &names, true);
            // The same units as in the panels above.
            let axes: Vec<YAxis> = panels.iter().map(|(kind, curves)| YAxis::new(*kind, curves, scene)).collect();
            let units: Vec<String> = axes.iter().map(|axis| axis.unit.to_owned()).collect();
            row(ui, widths, |_| (), &units, true);
            ScrollArea::vertical().auto_shrink(false).min_scrolled_height(0.0).show(ui, |ui| {
                for line in lines {
                    let values: Vec<String> =
                        line.values.iter().zip(&axes).map(|(value, axis)| text(*value, axis)).collect();
                    let name = |ui: &mut Ui| {
                        let size = vec2(SWATCH, ui.spacing().interact_size.y);
                        let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
                        swatch(ui.painter(), rect, ui.visuals(), line.curve.run.slot);
                        let label = eframe::egui::Label::new(line.shown_name(brief)).truncate();
                        ui.add(label).on_hover_text(line.curve.run.name);
                    };
                    row(ui, widths, name, &values, false);
                }
            });
        });
    });
}

fn text(value: Option<f64>, axis: &YAxis) -> String {
    let scaled = |value: f64| grouped(&significant(value * axis.scale).replace('-', "\u{2212}"));
    value.map_or_else(|| "\u{2013}".to_owned(), scaled)
}

/// Draws one line of the table; numbers are right-aligned.
fn row(ui: &mut Ui, (name_width, column): (f32, f32), name: impl FnOnce(&mut Ui), values: &[String], header: bool) {
    let height = ui.spacing().interact_size.y;
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = GRID;
        let left = Layout::left_to_right(Align::Center);
        ui.allocate_ui_with_layout(vec2(name_width, height), left, |ui| {
            ui.set_min_width(name_width);
            name(ui);
        });
        let muted_colour = palette(ui.visuals()).muted;
        for value in values {
            let right = Layout::right_to_left(Align::Center);
            ui.allocate_ui_with_layout(vec2(column - GRID, height), right, |ui| {
                let label = if header { muted(ui, value).small() } else { value.as_str().into() };
                let dash = value == "\u{2013}";
                let label = if dash { label.color(muted_colour) } else { label };
                ui.add(eframe::egui::Label::new(label).truncate());
            });
        }
    });
}

/// Names without the parts that all of them have at one place; whole ones where nothing would be left.
fn without_shared(names: &[&str]) -> Vec<String> {
    let parts: Vec<Vec<&str>> = names.iter().map(|name| name.split(SEPARATOR).collect()).collect();
    let is_shared =
        |place: usize, part: &str| parts.len() > 1 && parts.iter().all(|other| other.get(place) == Some(&part));
    let own = |parts: &Vec<&str>| {
        let own: Vec<&str> =
            parts.iter().enumerate().filter(|(place, part)| !is_shared(*place, part)).map(|(_, part)| *part).collect();
        if own.is_empty() { parts.join(SEPARATOR) } else { own.join(SEPARATOR) }
    };
    parts.iter().map(own).collect()
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
            let of = |curves: &'a [Curve<'a>]| curves.iter().find(|c| c.run.run == run.run && c.part == *part);
            let found: Vec<Option<&Curve>> = panels.iter().map(|(_, curves)| of(curves)).collect();
            let Some(curve) = found.iter().flatten().next().copied() else { continue };
            let name = part.as_ref().map_or_else(|| run_name.clone(), |part| format!("{part} · {run_name}"));
            let value = |curve: Option<&Curve>| curve.and_then(|curve| curve.at(scene, at)).map(|[_, y]| y);
            lines.push(Line { name, curve, values: found.into_iter().map(value).collect() });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drawn_runs_show_what_differs_among_them() {
        let names = ["fp32 · TF32 conv · 1 GPU · #1", "fp64 · TF32 conv · 4 GPUs · #1"];
        assert_eq!(without_shared(&names), ["fp32 · 1 GPU", "fp64 · 4 GPUs"]);
        assert_eq!(without_shared(&names[..1]), names[..1]);
        assert_eq!(without_shared(&["a · b", "a · b"]), ["a · b", "a · b"]);
    }

    #[test]
    fn a_brief_name_has_its_levels_alone() {
        assert_eq!(levels_alone("fp32 · TF32 conv · pin_memory off · 1 GPU · #1"), "fp32 · conv · off · 1 GPU · #1");
    }
}
