//! Losses and accuracy of each cell over epochs, steps or time: the median over repeats, and a band for their range.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::arrange::name_of;
use super::{Scene, shown_measure};
use crate::analysis::{Cell, LossPoint, RunSummary, Setting, Value, capitalised, range, step_of};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, panel_of};
use crate::figure::number::significant;
use crate::figure::ratio::{epoch_values, epochs, finished};
use crate::figure::study::{CURVES, Over};

use super::bars::scaled;

/// Maximum number of distinguishable lines in a chart.
pub(super) const LINES: usize = 16;
/// Maximum number of cells whose values a sentence gives.
const NAMED: usize = 6;

/// The curve that the study asks for; otherwise training loss, test loss, accuracy, and any other measure of epochs that describes the
/// run so far.
pub(super) fn by_epoch(scene: &Scene) -> Vec<Chart> {
    let mut keys: Vec<&str> = CURVES.to_vec();
    for run in scene.cells.iter().flat_map(|cell| &cell.runs) {
        for measure in run.measures.iter().filter(|measure| measure.is_of_epochs()) {
            let has_value = || run.epochs.iter().any(|epoch| epoch.value(&measure.key).is_some());
            if !keys.contains(&&*measure.key) && has_value() {
                keys.push(&measure.key);
            }
        }
    }
    let asked = keys.iter().position(|key| scene.study.measure.as_deref() == Some(key));
    if let Some(place) = asked {
        keys = vec![keys[place]];
    }
    keys.into_iter().map(|key| chart(scene, key)).collect()
}

fn chart(scene: &Scene, key: &str) -> Chart {
    let over = scene.study.over;
    let lines = lines(scene, key, over);
    let chart = drawn(scene, key, over, lines);
    let has_lines = |chart: &Chart| chart.series().any(|series| series.points.len() > 1);
    if over != Over::Epochs || has_lines(&chart) || chart.is_empty() {
        return chart;
    }
    // A single epoch is a point, not a line.
    if key == "train_loss" {
        let by_step = drawn(scene, key, Over::Steps, self::lines(scene, key, Over::Steps));
        if has_lines(&by_step) {
            let step = step_of(scene.cells);
            let note = format!("There is one epoch: {} is drawn over {step}s.", chart.y.name.to_lowercase());
            return Chart { notes: by_step.notes.iter().cloned().chain([note]).collect(), ..by_step };
        }
    }
    let note = only_values(scene, &chart);
    Chart { panels: Vec::new(), notes: chart.notes.iter().cloned().chain([note]).collect(), ..chart }
}

/// The values of a chart with one value per cell, as a sentence.
fn only_values(scene: &Scene, chart: &Chart) -> String {
    let points: Vec<&Point> = chart.series().flat_map(|series| &series.points).collect();
    let values = points.iter().take(NAMED).map(|point| {
        let cell = scene.cells.iter().find(|cell| point.cell.as_ref() == Some(&cell.key()));
        let name =
            cell.filter(|_| points.len() > 1).map_or(String::new(), |cell| format!("{} ", name_of(cell, scene.naming)));
        let value = format!("{name}{} {}", significant(point.value.median), chart.y.unit);
        let ends = point
            .value
            .interval
            .map_or(String::new(), |ends| format!(" [{}, {}]", significant(ends.low), significant(ends.high)));
        format!("{}{ends}", value.trim_end())
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let more =
        if points.len() > NAMED { format!(" and {} more in the table", points.len() - NAMED) } else { String::new() };
    format!("{} after the only epoch, which makes no line: {values}{more}.", chart.y.name)
}

fn lines(scene: &Scene, key: &str, over: Over) -> Lines {
    let factor = shown_measure(scene, key).2;
    let mut lines = Lines::default();
    for cell in all_colours_first(scene) {
        let points = match over {
            // The training loss is known within epochs, too.
            Over::Steps | Over::Time if key == "train_loss" => by_piece(over, cell),
            Over::Epochs | Over::Steps | Over::Time => by_epoch_end(over, cell, key),
        };
        let points = points.into_iter().map(|(x, value)| {
            let value = scaled(value, factor);
            Point { x, across: None, value, ratio: None, cell: Some(cell.key()) }
        });
        lines.add(scene, cell, &[], points.collect());
    }
    lines
}

fn drawn(scene: &Scene, key: &str, over: Over, lines: Lines) -> Chart {
    let (name, unit, _) = shown_measure(scene, key);
    let notes = lines.note().into_iter().collect();
    let x = match over {
        Over::Epochs => Axis::new("Epoch", ""),
        Over::Steps => Axis::new(capitalised(step_of(scene.cells)), ""),
        Over::Time => Axis::new("Training time", "s"),
    };
    Chart { panels: lines.panels, notes, ..Chart::new(name.clone(), Geometry::Lines, x, Axis::new(name, unit)) }
}

/// A measure at the end of each epoch.
fn by_epoch_end(over: Over, cell: &Cell, key: &str) -> Vec<(f64, Value)> {
    let point = |epoch: u32| {
        let ends = || finished(cell).filter_map(move |run| run.epochs.iter().find(|one| one.epoch == epoch));
        let value = range(&epoch_values(cell, key, epoch))?;
        let x = match over {
            Over::Epochs => f64::from(epoch),
            Over::Steps => ends().filter_map(|end| end.last_step).max()? as f64,
            Over::Time => trained_s(cell, epoch)?,
        };
        Some((x, value))
    };
    epochs(cell).into_iter().filter_map(point).collect()
}

/// The training loss by pieces of runs. Repeats have the same steps, so their pieces end at the same steps.
fn by_piece(over: Over, cell: &Cell) -> Vec<(f64, Value)> {
    let mut pieces: BTreeMap<u64, Vec<LossPoint>> = BTreeMap::new();
    for point in finished(cell).flat_map(|run| &run.losses) {
        pieces.entry(point.step).or_default().push(*point);
    }
    let point = |(step, repeats): (u64, Vec<LossPoint>)| {
        let value = range(&repeats.iter().map(|point| point.loss).collect::<Vec<_>>())?;
        let time_s = || range(&repeats.iter().map(|point| point.time_s).collect::<Vec<_>>());
        let x = if over == Over::Time { time_s()?.median } else { step as f64 };
        Some((x, value))
    };
    pieces.into_iter().filter_map(point).collect()
}

/// If there are too many cells for one chart, the cells in an order in which the first few have all colours. The foremost cell is first.
fn all_colours_first<'a>(scene: &'a Scene<'a>) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell> = scene.cells.iter().collect();
    if cells.len() > LINES {
        let is_foremost = |cell: &Cell| scene.foremost.is_some_and(|foremost| cell.key() == *foremost);
        let mut seen: HashMap<Look, usize> = HashMap::new();
        let mut round = |cell: &Cell| {
            let count = seen.entry(scene.look(cell)).or_default();
            *count += 1;
            *count
        };
        cells.sort_by_cached_key(|cell| (!is_foremost(cell), round(cell)));
    }
    cells
}

/// The time spent in training until the end of an epoch, without tests: the median over repeats.
fn trained_s(cell: &Cell, epoch: u32) -> Option<f64> {
    let until = |run: &&RunSummary| -> Option<f64> {
        run.epochs.iter().filter(|one| one.epoch <= epoch).map(|one| one.value("epoch_time_s")).sum()
    };
    let has_epoch = |run: &&RunSummary| run.epochs.iter().any(|one| one.epoch == epoch);
    let times: Vec<f64> = finished(cell).filter(has_epoch).filter_map(|run| until(&run)).collect();
    range(&times).map(|value| value.median)
}

/// Lines by panel, at most the number of lines that can be distinguished.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) panels: Vec<Panel>,
    names: Vec<(Look, String)>,
    left_out: HashSet<String>,
}

impl Lines {
    /// Adds points to the line of their cell. Cells that differ only in settings of `along` share a line.
    pub(super) fn add(&mut self, scene: &Scene, cell: &Cell, along: &[&str], points: Vec<Point>) {
        if points.is_empty() {
            return;
        }
        let mut settings: Vec<Setting> = scene.arrangement.colour.iter().cloned().collect();
        let rest = scene.arrangement.rest.iter().filter(|setting| !along.contains(&&*setting.key));
        settings.extend(rest.cloned());
        let name = if settings.is_empty() { String::new() } else { name_of(cell, &settings) };
        let look = scene.look(cell);
        let known = self.names.iter().any(|(_, known)| *known == name);
        if !known && self.names.len() == LINES {
            self.left_out.insert(name);
            return;
        }
        if !known {
            self.names.push((look.clone(), name.clone()));
        }
        let alike = self.names.iter().filter(|(other, _)| *other == look);
        let variant = alike.map(|(_, name)| name).position(|other| *other == name).unwrap_or(0);
        let series = panel_of(&mut self.panels, scene.panel_name(cell)).series_of(name, |_| look);
        series.variant = variant;
        series.points.extend(points);
    }

    /// The note on lines that are not drawn.
    pub(super) fn note(&self) -> Option<String> {
        let count = self.left_out.len();
        (count > 0).then(|| format!("{LINES} of {} lines are drawn: filter to see the others.", LINES + count))
    }
}
