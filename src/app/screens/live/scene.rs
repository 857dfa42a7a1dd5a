//! The scene to draw: the chosen runs with their curves, the panels, and the visible range of the horizontal axis.

use std::sync::Arc;

use eframe::egui::{Color32, Context, Visuals};
use egui_plot::MarkerShape;
use strum::IntoEnumIterator;

use super::LiveScreen;
use super::View;
use super::drawn::{self, Key, Pieces};
use super::looks::{RunLook, chosen_looks};
use crate::analysis::Places;
use crate::app::curves::Curves;
use crate::app::curves::{Column, Track};
use crate::app::curves::{Kind, XAxis};
use crate::app::desk::Desk;
use crate::conduct::QueueRow;
use crate::plan::RunState;

/// Margin at both ends of the data, as a share of its width.
const MARGIN: f64 = 0.01;

/// A chosen run.
pub struct SceneRun<'a> {
    pub run: &'a str,
    pub name: &'a str,
    pub look: RunLook,
    /// Its index among the chosen runs.
    pub place: usize,
    pub curves: &'a Curves,
    pub running: bool,
}

/// End of the step-time axis, relative to the greatest step time after the warm-up.
pub const STEADY_ROOM: f64 = 1.06;

/// One curve of a panel.
pub struct Curve<'a> {
    pub run: &'a SceneRun<'a>,
    /// Name of the GPU or rank; `None` for the whole run.
    pub part: Option<String>,
    place: (usize, usize),
    track: &'a Track,
    column: &'a Column,
}

/// The scene to draw.
pub struct Scene<'a> {
    pub runs: Vec<SceneRun<'a>>,
    pub axis: XAxis,
    /// Range of all data on the horizontal axis.
    pub all: (f64, f64),
    /// Visible range.
    pub view: (f64, f64),
    live: &'a LiveScreen,
}

impl<'a> Scene<'a> {
    /// The scene for the chosen runs.
    pub fn new(view: View<'a>) -> Self {
        let live = view.own;
        let runs: Vec<SceneRun> = chosen_looks(view)
            .into_iter()
            .enumerate()
            .filter_map(|(place, (chosen, look))| {
                let curves = live.shelf.curves(&chosen.run).filter(|curves| !curves.is_empty())?;
                let name = view.desk.runs.row(&chosen.run).map_or(&chosen.run, |row| &row.name);
                let running = running(view.desk).any(|row| row.run == chosen.run);
                Some(SceneRun { run: &chosen.run, name, look, place, curves, running })
            })
            .collect();
        let mut scene = Self { runs, axis: live.x_axis, all: (0.0, 1.0), view: (0.0, 1.0), live };
        let of_all = |runs: &mut dyn Iterator<Item = &SceneRun>| {
            let ends = runs.flat_map(|run| scene.ends(run));
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |all, end| (all.0.min(end.0), all.1.max(end.1)))
        };
        let all = of_all(&mut scene.runs.iter());
        let newest = of_all(&mut scene.runs.iter().filter(|run| run.running)).1;
        if all.0 <= all.1 {
            let margin = (MARGIN * (all.1 - all.0)).max(if scene.axis == XAxis::Step { 0.5 } else { 1e-3 });
            scene.all = (all.0 - margin, all.1 + margin);
        }
        scene.view = match live.view {
            None => scene.all,
            Some((from, to)) if live.follow && newest.is_finite() => {
                let width = to - from;
                (newest + MARGIN * width - width, newest + MARGIN * width)
            }
            Some(view) => view,
        };
        scene
    }

    /// Ranges of a run's tracks.
    fn ends(&self, run: &SceneRun) -> Vec<(f64, f64)> {
        let telemetry = (self.axis != XAxis::Step).then(|| run.curves.samples());
        let tracks = run.curves.steps().into_iter().chain(telemetry);
        let ends = tracks.filter_map(|track| {
            let xs = self.xs(track);
            xs.first().zip(xs.last()).map(|(first, last)| (first - self.shift(run), last - self.shift(run)))
        });
        ends.collect()
    }

    /// Horizontal positions of a track's points, before the shift is subtracted.
    fn xs<'b>(&self, track: &'b Track) -> &'b Places {
        if self.axis == XAxis::Step { &track.steps } else { &track.times }
    }

    /// Shift of a run's positions.
    fn shift(&self, run: &SceneRun) -> f64 {
        if self.axis == XAxis::Since { run.curves.start_s() } else { 0.0 }
    }

    /// Position of a moment of a run.
    pub fn place(&self, run: &SceneRun, time_s: f64, step: u64) -> f64 {
        if self.axis == XAxis::Step { step as f64 } else { time_s - self.shift(run) }
    }

    /// The visible panels, each with its curves.
    pub fn panels(&'a self) -> Vec<(Kind, Vec<Curve<'a>>)> {
        let shown = Kind::iter().filter(|kind| !self.live.hidden.contains(kind));
        shown.map(|kind| (kind, self.curves(kind))).collect()
    }

    fn curves(&'a self, kind: Kind) -> Vec<Curve<'a>> {
        if self.axis == XAxis::Step && !Kind::OF_STEPS.contains(&kind) {
            return Vec::new();
        }
        let of_run = |run: &'a SceneRun<'a>| {
            let parts = run.curves.of(kind, self.live.per_gpu);
            let count = parts.len();
            parts.into_iter().enumerate().filter_map(move |(index, (part, track, column))| {
                let column = track.columns.get(column).filter(|column| column.raw.has_values())?;
                Some(Curve { run, part, place: (index, count), track, column })
            })
        };
        self.runs.iter().flat_map(of_run).collect()
    }

    /// Why a panel has no curves.
    pub fn why_empty(&self, kind: Kind, view: View<'_>) -> String {
        if self.axis == XAxis::Step && !Kind::OF_STEPS.contains(&kind) {
            return format!("recorded by time, not by {}", self.step());
        }
        if Kind::OF_STEPS.contains(&kind) {
            return format!("no {} yet", self.step());
        }
        if Kind::OF_HOST.contains(&kind) {
            return "no sample yet".to_owned();
        }
        if self.runs.iter().any(|run| run.curves.gpus() > 0) {
            return "not reported by these GPUs".to_owned();
        }
        let reason = view.node.as_ref().and_then(|node| node.no_gpu_reason.clone());
        reason.unwrap_or_else(|| "these runs use no GPU".to_owned())
    }

    /// The word for a step in the session's workloads.
    pub fn step(&self) -> &'a str {
        &self.live.step
    }

    /// Smoothing factor.
    pub fn smoothing(&self) -> f32 {
        self.live.smoothing
    }

    /// Whether the newest values are kept in view.
    pub fn follows(&self) -> bool {
        self.live.follow
    }

    /// Whether a panel has a logarithmic axis.
    pub fn is_log(&self, kind: Kind) -> bool {
        kind == Kind::Loss && self.live.log_loss
    }
}

/// The vertical axis of a panel.
pub struct YAxis {
    pub unit: &'static str,
    /// Factor from SI units to that unit.
    pub scale: f64,
    /// Upper end of the axis, if not the greatest value: for step times, the greatest in view after the warm-up, and that of the warm-up of
    /// curves that have no later step in view.
    pub steady: Option<f64>,
    /// Whether warm-up steps exceed the axis.
    pub is_cut: bool,
}

impl YAxis {
    pub fn new(kind: Kind, curves: &[Curve], scene: &Scene) -> Self {
        let max = curves.iter().map(Curve::max).fold(0.0, f64::max);
        // Warm-up steps are so long that the other steps would look like zero.
        let of_curves = if kind == Kind::StepTime { curves } else { &[] };
        let [warm, steady] = of_curves.iter().fold([None, None], |most: [Option<f64>; 2], curve| {
            let [warm, steady] = curve.warm_and_steady_max(scene);
            // A curve with only warm-up steps in view would be above the axis.
            let steady = steady.or(warm);
            [most[0].into_iter().chain(warm).reduce(f64::max), most[1].into_iter().chain(steady).reduce(f64::max)]
        });
        // An axis needs an extent.
        let steady = steady.filter(|steady| *steady > 0.0);
        let is_cut = steady.is_some_and(|steady| warm.is_some_and(|warm| warm > STEADY_ROOM * steady));
        let (unit, scale) = kind.unit(steady.unwrap_or(max));
        Self { unit, scale, steady, is_cut }
    }
}

impl Curve<'_> {
    /// The colour.
    pub fn colour(&self, visuals: &Visuals) -> Color32 {
        self.run.look.colour(visuals, self.place)
    }

    /// The marker.
    pub fn marker(&self) -> MarkerShape {
        self.run.look.marker()
    }

    /// Whether it is smoothed.
    pub fn is_smooth(&self) -> bool {
        self.column.smooth.is_some()
    }

    /// The greatest value.
    pub fn max(&self) -> f64 {
        self.column.raw.extent(0, usize::MAX).map_or(0.0, |(_, max)| max)
    }

    /// The greatest values in view: of the warm-up and after it.
    pub fn warm_and_steady_max(&self, scene: &Scene) -> [Option<f64>; 2] {
        let (xs, shift) = (scene.xs(self.track), scene.shift(self.run));
        // By step, because ranks end the same step at different times.
        let last = self.run.curves.warm_up.map_or(f64::NEG_INFINITY, |[_, (_, step)]| step as f64);
        let after = self.track.steps.partition_point(|step| *step <= last);
        let from = xs.partition_point(|x| *x - shift < scene.view.0);
        let to = xs.partition_point(|x| *x - shift <= scene.view.1);
        let max = |from, to| if from < to { self.column.raw.extent(from, to).map(|(_, max)| max) } else { None };
        [max(from, after.min(to)), max(after.max(from), to)]
    }

    /// Its points in view, raw or smoothed.
    pub fn pieces(&self, context: &Context, scene: &Scene, columns: usize, smooth: bool) -> Arc<Pieces> {
        let (values, smoothing) = match &self.column.smooth {
            Some(smoothed) if smooth => (&smoothed.values, smoothed.factor),
            _ => (&self.column.raw, 0.0),
        };
        let key = Key {
            run: (self.run.run.to_owned(), self.run.curves.generation),
            values: (values.values().as_ptr().addr(), values.values().len()),
            smoothing: smoothing.to_bits(),
            axis: scene.axis,
            view: (scene.view.0.to_bits(), scene.view.1.to_bits()),
            columns,
        };
        drawn::pieces(context, key, || {
            let shift = scene.shift(self.run);
            let (from, to) = (scene.view.0 + shift, scene.view.1 + shift);
            let mut pieces = values.pieces(scene.xs(self.track), crate::analysis::View { from, to, columns });
            pieces.iter_mut().flatten().for_each(|point| point[0] -= shift);
            pieces
        })
    }

    /// Its visible range.
    pub fn seen(&self, scene: &Scene) -> Option<(f64, f64)> {
        let (xs, shift) = (scene.xs(self.track), scene.shift(self.run));
        let (first, last) = xs.first().zip(xs.last())?;
        let seen = (scene.view.0.max(first - shift), scene.view.1.min(last - shift));
        (seen.0 <= seen.1).then_some(seen)
    }

    /// The last point at or before a position, smoothed if the curve is. `None` in gaps and past the end.
    pub fn at(&self, scene: &Scene, x: Option<f64>) -> Option<[f64; 2]> {
        let (xs, shift) = (scene.xs(self.track), scene.shift(self.run));
        let values = self.column.smooth.as_ref().map_or(&self.column.raw, |smooth| &smooth.values).values();
        let count = match x {
            // After its last step a run frees what it used: the state of the machine after that says nothing about the run.
            None if !self.run.running && self.track.steps.is_empty() => match self.run.curves.steps() {
                Some(steps) => steps.times.last().map_or(0, |end_s| self.track.times.partition_point(|at| at <= end_s)),
                None => xs.len(),
            },
            None => xs.len(),
            // Positions past the last point have no value.
            Some(x) if xs.last().is_none_or(|last| *last - shift < x) => return None,
            Some(x) => xs.partition_point(|other| *other - shift <= x),
        };
        let index = count.checked_sub(1)?;
        let (x, y) = (xs.get(index)?, values.get(index)?);
        y.is_finite().then_some([x - shift, *y])
    }
}

/// The runs of the queue that are starting or running.
pub fn running(desk: &Desk) -> impl Iterator<Item = &QueueRow> {
    let goes_on = |row: &&QueueRow| matches!(row.state, RunState::Starting | RunState::Running);
    desk.queue.rows.iter().filter(goes_on)
}
