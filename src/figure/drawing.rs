//! A figure: the charts and the table that a preset makes of cells.

use super::chart::{Chart, Role, Scale};
use super::compare::{Comparison, SettingLevels, compare_as, draw};
use super::paper::{FigureError, Origin, Provenance, Scene, lay_out};
use super::preset::{Preset, Runs, preset};
use super::render::{Format, render};
use super::spec::Spec;
use super::table::{Table, has_levels};
use super::{Place, View};
use crate::analysis::{CellKey, Measures, Source, cells_of, measure};
use crate::figure::paper::{CellFacts, DrawnChart};
use crate::plan::Filter;

/// Which charts a preset draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// A measure as grouped bars.
    Bars,
    /// Losses and accuracy by epoch; of one measure alone where one is named.
    Loss,
    /// A measure over GPUs beside its ideal, and the efficiency.
    Scaling,
    /// Peaks of GPU memory.
    Memory,
    /// The effect of each level.
    Effects,
    /// Every repeat of every cell.
    Repeats,
    /// A measure over two factors as a field of colours.
    Map,
    /// What a step's time goes to, in seconds and percent.
    Parts,
    /// What each rank did when.
    Activity,
    /// The papers' metrics of profilers' reports, on top of each other.
    Metrics,
}

/// A figure before it is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was asked for.
    pub spec: Spec,
    /// What it shows, in a few words.
    pub title: String,
    /// One or more, as panels of one figure.
    pub charts: Vec<Chart>,
    /// The numbers.
    pub table: Table,
    /// What can be filtered by: the settings that differ among all cells.
    pub settings: Vec<SettingLevels>,
    /// The cells that are shown, with their names.
    pub cells: Vec<(CellKey, String)>,
    /// How many cells there are without the filter.
    pub all_cells: usize,
    facts: Vec<CellFacts>,
}

/// Makes a figure of the cells of one or more sessions.
pub fn figure(sources: &[Source], spec: &Spec) -> Result<Figure, FigureError> {
    let preset = preset(&spec.preset)?;
    Filter::typed(&spec.filter)?;
    let all = cells_of(sources);
    let baseline = match &spec.baseline {
        None => None,
        Some(asked) => {
            let found =
                all.iter().find(|cell| cell.id == asked).or_else(|| all.iter().find(|cell| has_levels(cell, asked)));
            Some(found.ok_or_else(|| FigureError::Baseline(asked.clone()))?.key())
        }
    };
    let view = View { baseline, ..view(preset, spec)? };
    let comparison = compare_as(sources, &view, Some(&preset), &|scene| draw(scene, preset.drawing));
    let Comparison { mut charts, table, settings, cells, all_cells, .. } = comparison;
    if preset.drawing == Drawing::Loss && (!preset.metric.is_empty() || spec.measure.is_some()) {
        let name = measure(view.metric).map(|measure| measure.name.as_str());
        charts.retain(|chart| Some(chart.title.as_str()) == name);
    }
    // Points that no line joins say nothing of scaling: a note says what to run.
    let scales = |chart: &Chart| chart.series().any(|series| series.points.len() > 1 && series.role == Role::Measured);
    if preset.drawing == Drawing::Scaling && !charts.iter().any(scales) {
        charts.iter_mut().for_each(|chart| chart.panels.clear());
    }
    if spec.log {
        charts.iter_mut().filter(|chart| can_be_log(chart)).for_each(|chart| chart.y.scale = Scale::Log);
    }
    let shown = |cell: &&crate::analysis::Cell| cells.iter().any(|(key, _)| *key == cell.key());
    let facts = all.iter().filter(shown).map(CellFacts::of).collect();
    let title = charts.first().map_or(preset.help.to_owned(), |chart| chart.title.clone());
    Ok(Figure { spec: spec.clone(), title, charts, table, settings, cells, all_cells, facts })
}

/// Shares have no logarithm that says anything, and fields of colours no axis.
fn can_be_log(chart: &Chart) -> bool {
    use super::Form;
    !matches!(chart.form, Form::Percent | Form::Stacked | Form::Heat | Form::Gantt) && chart.y.unit != "%"
}

fn view(preset: Preset, spec: &Spec) -> Result<View, FigureError> {
    let place = |key: Option<&str>| key.map_or(Place::Auto, |key| Place::Setting(key.to_owned()));
    let metric = match spec.measure.as_deref() {
        None => preset.usual_metric(),
        Some(super::SPEEDUP) => super::SPEEDUP,
        Some(asked) => match measure(asked) {
            Some(measure) => &measure.key,
            None => {
                let known: Vec<&str> =
                    Measures::built_in().iter().map(|measure| &*measure.key).chain([super::SPEEDUP]).collect();
                return Err(FigureError::Measure { given: asked.to_owned(), known: known.join(", ") });
            }
        },
    };
    Ok(View {
        filter: spec.filter.clone(),
        hidden: spec.hidden.clone(),
        rows: place(preset.rows),
        colour: place(preset.colour),
        columns: Place::Auto,
        metric,
        baseline: None,
        kind: preset.drawing.kind(),
        traced: preset.runs != Runs::Plain,
        metrics: preset.metrics(),
        metric_unit: preset.metric_unit,
        ..View::default()
    })
}

impl Drawing {
    /// The kind of comparison whose arrangement it shares.
    fn kind(self) -> super::Kind {
        match self {
            Self::Loss => super::Kind::Loss,
            Self::Scaling => super::Kind::Scaling,
            Self::Memory => super::Kind::Memory,
            Self::Metrics => super::Kind::Metrics,
            Self::Bars | Self::Effects | Self::Repeats | Self::Map | Self::Parts | Self::Activity => super::Kind::Bars,
        }
    }

    /// Whether it draws a measure that can be chosen.
    pub fn has_measure(self) -> bool {
        matches!(self, Self::Bars | Self::Scaling | Self::Effects | Self::Repeats | Self::Map)
    }
}

impl Figure {
    /// The figure as it is set.
    pub fn scene(&self) -> Scene {
        lay_out(&self.charts, &self.spec.style)
    }

    /// What a reader must know: of the charts, then of the numbers.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for note in self.charts.iter().flat_map(|chart| &chart.notes).chain(&self.table.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }

    /// Where it comes from.
    pub fn provenance(&self, sessions: Vec<Origin>) -> Provenance {
        // What was just written as JSON is JSON.
        let table = serde_json::from_str(&render(&self.table, Format::Json)).unwrap_or_default();
        let drawn = self.charts.iter().map(DrawnChart::of).collect();
        let (title, spec, cells) = (self.title.clone(), self.spec.clone(), self.facts.clone());
        Provenance::new(title, spec, sessions, cells, table, drawn, self.notes())
    }
}
