//! A composed figure: several figures as panels of one.

use super::chart::Chart;
use super::composition::Composition;
use super::drawing::{Figure, warnings};
use super::paper::{CellFacts, Origin, Panels, Provenance, Scene, Shown, said_of_panels};
use super::render::{Format, render};

/// A composed figure before layout.
#[derive(Clone, Debug)]
pub struct ComposedFigure {
    /// The requested composition.
    pub composition: Composition,
    /// The figure of each panel, or why it cannot be drawn.
    pub panels: Vec<Result<Figure, String>>,
}

impl ComposedFigure {
    /// The contents of each panel.
    fn shown(&self) -> Vec<Shown> {
        let panels = self.composition.panels.iter().zip(&self.panels);
        let shown = panels.map(|(panel, figure)| {
            let overrides = panel.study.overrides.clone();
            let title = panel.title.clone().or_else(|| overrides.title.clone()).unwrap_or_default();
            let charts = figure.as_ref().map_or(Vec::new(), |figure| figure.charts.clone());
            Shown { charts, blank: why_blank(figure), overrides, title, span: panel.span }
        });
        shown.collect()
    }

    /// The figure after layout.
    pub fn scene(&self) -> Scene {
        Panels::new(self.shown(), &self.composition).scene()
    }

    /// Panels without a picture, by index from 0, with the reason.
    pub fn blank(&self) -> Vec<(usize, String)> {
        self.panels.iter().enumerate().filter_map(|(nth, figure)| Some((nth, why_blank(figure)?))).collect()
    }

    /// Notes for the reader: first the notes about the whole figure, then the notes of panels, by letter.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Panels::new(self.shown(), &self.composition).notes().to_vec();
        let of_panel = |figure: &Result<Figure, String>| figure.as_ref().map_or(Vec::new(), Figure::notes);
        notes.extend(said_of_panels(&self.panels.iter().map(of_panel).collect::<Vec<_>>()));
        notes
    }

    /// Problems of this figure in print, one line each.
    pub fn warnings(&self, scene: &Scene) -> Vec<String> {
        warnings(scene, self.composition.height_mm)
    }

    /// The figure's provenance.
    pub fn provenance(&self, sessions: Vec<Origin>) -> Provenance {
        let figures: Vec<&Figure> = self.panels.iter().flatten().collect();
        let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
        let title = self.composition.title.clone().unwrap_or_else(|| titles.join("; "));
        // The text was written as JSON just before, so it parses.
        let tables = figures.iter().map(|figure| serde_json::from_str(&render(&figure.table, Format::Json)));
        let tables = serde_json::Value::Array(tables.map(Result::unwrap_or_default).collect());
        let mut cells: Vec<CellFacts> = Vec::new();
        for cell in figures.iter().flat_map(|figure| figure.facts()) {
            if !cells.contains(cell) {
                cells.push(cell.clone());
            }
        }
        let drawn = figures.iter().flat_map(|figure| figure.drawn_values()).collect();
        let mut composition = self.composition.clone();
        for (panel, figure) in composition.panels.iter_mut().zip(&self.panels) {
            panel.blank = why_blank(figure);
        }
        Provenance::composed(title, composition, sessions, cells, tables, drawn, self.notes())
    }
}

/// Why a panel has no picture, if it has none.
fn why_blank(figure: &Result<Figure, String>) -> Option<String> {
    match figure {
        Ok(figure) if figure.charts.iter().all(Chart::is_empty) => {
            let why = figure.crowded().map_or_else(|| figure.notes().join("; "), str::to_owned);
            Some(format!("nothing to draw: {why}"))
        }
        Ok(_) => None,
        Err(reason) => Some(reason.clone()),
    }
}

#[cfg(test)]
#[path = "composed_tests.rs"]
mod tests;
