//! A figure: the charts and the table that a study makes of cells.

use super::chart::{Chart, Role};
use super::compare::{Comparison, SettingLevels, compare};
use super::paper::{CellFacts, DrawnChart, FigureError, Origin, Provenance, Scene, lay_out};
use super::published::OfPaper;
use super::render::{Format, render};
use super::study::{Form, Study};
use super::table::Table;
use crate::analysis::{Cell, CellKey, Key, Source, cells_pooling};
use crate::plan::Filter;

/// A figure before it is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was asked for.
    pub study: Study,
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
    /// The cell that ratios are over, where it is one for all.
    pub baseline: Option<CellKey>,
    /// The measures to choose from: keys and names.
    pub measures: Vec<(Key, String)>,
    /// What the study names that is not there, one line each.
    pub missing: Vec<String>,
    /// What there is of the paper's table or figure that the study is of.
    pub of_paper: Option<OfPaper>,
    facts: Vec<CellFacts>,
}

/// Makes a figure of the cells of one or more sessions; fails where the study's filter cannot be read.
pub fn figure(sources: &[Source], study: &Study) -> Result<Figure, FigureError> {
    Filter::typed(&study.filter)?;
    let Comparison { mut charts, table, settings, cells, all_cells, measures, missing, of_paper, baseline, .. } =
        compare(sources, study);
    let baseline = baseline.and_then(|(cell, _)| cell);
    // Points that no line joins say nothing of scaling: a note says what to run.
    let scales = |chart: &Chart| chart.series().any(|series| series.points.len() > 1 && series.role == Role::Measured);
    if study.form == Form::Scaling && !charts.iter().any(scales) {
        charts.iter_mut().for_each(|chart| chart.panels.clear());
    }
    let shown = |cell: &&Cell| cells.iter().any(|(key, _)| *key == cell.key());
    let facts = cells_pooling(sources, &study.pool).iter().filter(shown).map(CellFacts::of).collect();
    let title = charts.first().map_or(study.about.clone(), |chart| chart.title.clone());
    let study = study.clone();
    Ok(Figure { study, title, charts, table, settings, cells, all_cells, baseline, measures, missing, of_paper, facts })
}

impl Figure {
    /// The figure as it is set.
    pub fn scene(&self) -> Scene {
        lay_out(&self.charts, &self.study.style)
    }

    /// What a reader must know: of what is missing, of the charts, then of the numbers.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        let of_charts = self.charts.iter().flat_map(|chart| &chart.notes);
        let of_paper = self.of_paper.iter().flat_map(|of_paper| &of_paper.notes);
        let intervals = self.charts.iter().map(|chart| &chart.intervals).filter(|text| !text.is_empty());
        for note in self.missing.iter().chain(of_paper).chain(of_charts).chain(intervals).chain(&self.table.notes) {
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
        let (title, study, cells) = (self.title.clone(), self.study.clone(), self.facts.clone());
        Provenance::new(title, study, sessions, cells, table, drawn, self.notes())
    }
}
