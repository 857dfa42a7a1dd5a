//! A figure: the charts and the table that a study makes of cells.

use std::collections::{HashMap, HashSet};

use super::baseline::{baseline_name, names_cell};
use super::chart::{Chart, Role};
use super::compare::{Comparison, SettingLevels, compare, compare_with, level_name};
use super::number::{capitalised, counted, significant};
use super::overrides::{Judged, LevelNames, Overrides, keys_of};
use super::paper::{CellFacts, DrawnChart, FigureError, Origin, Provenance, Scene, lay_out_with, time_axes};
use super::published::OfPaper;
use super::ratio::{judge_cells, over_baseline};
use super::render::{Format, render};
use super::study::{Form, Study};
use super::style::{PT_PER_MM, Style};
use super::table::Table;
use crate::analysis::{Cell, CellKey, Intervals, Key, Source, cells_pooling};
use crate::plan::Filter;

/// A figure before layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The study that was requested.
    pub study: Study,
    /// What it shows, in a few words.
    pub title: String,
    /// One or more charts, as panels of one figure.
    pub charts: Vec<Chart>,
    /// The numbers.
    pub table: Table,
    /// The settings that cells can be filtered by: those that differ among all cells.
    pub settings: Vec<SettingLevels>,
    /// The shown cells with their names.
    pub cells: Vec<(CellKey, String)>,
    /// The text by which brackets and baselines name these cells, in the same order.
    pub words: Vec<String>,
    /// The number of cells without the filter.
    pub all_cells: usize,
    /// The baseline, if all cells have the same one.
    pub baseline: Option<CellKey>,
    /// The measures to choose from: keys and names.
    pub measures: Vec<(Key, String)>,
    /// Measures, factors and levels that the study names but the cells do not have, one line each.
    pub missing: Vec<String>,
    /// How the cells compare with the paper's table or figure that the study belongs to.
    pub of_paper: Option<OfPaper>,
    facts: Vec<CellFacts>,
}

/// Makes a figure of the cells of one or more sessions. Fails if the study's filter cannot be read.
pub fn figure(sources: &[Source], study: &Study) -> Result<Figure, FigureError> {
    Filter::typed(&study.filter)?;
    let Comparison { mut charts, table, settings, cells, all_cells, measures, mut missing, of_paper, baseline, .. } =
        compare(sources, study);
    let baseline = baseline.and_then(|(cell, _)| cell);
    // Points that no line joins show no scaling; a note says what to run.
    let scales = |chart: &Chart| chart.series().any(|series| series.points.len() > 1 && series.role == Role::Measured);
    // They show no history either.
    if matches!(study.form, Form::Scaling | Form::History) && !charts.iter().any(scales) {
        charts.iter_mut().for_each(|chart| chart.panels.clear());
    }
    let keys: HashSet<&CellKey> = cells.iter().map(|(key, _)| key).collect();
    let shown = |cell: &&Cell| keys.contains(&cell.key());
    let all = cells_pooling(sources, &study.pool);
    let judge = |asked: &[(&str, &str)]| judged(study, &all, asked);
    missing.extend(study.overrides.apply(&mut charts, &names_of(&settings), &judge));
    let words = words_of(&cells, &settings, &all);
    let facts = all.iter().filter(shown).map(CellFacts::of).collect();
    let title = charts.first().map_or(study.about.clone(), |chart| chart.title.clone());
    let study = study.clone();
    Ok(Figure {
        study,
        title,
        charts,
        table,
        settings,
        cells,
        words,
        all_cells,
        baseline,
        measures,
        missing,
        of_paper,
        facts,
    })
}

/// Each of these cells by its levels, such as `precision=fp32,gpus=1`, if no other cell has these; otherwise by its id.
fn words_of(cells: &[(CellKey, String)], settings: &[SettingLevels], all: &[Cell]) -> Vec<String> {
    // Facts about the session would only make the words longer.
    let keys: Vec<&Key> = settings.iter().filter(|one| !one.setting.is_fact).map(|one| &one.setting.key).collect();
    let describe = |cell: &Cell| -> Vec<Option<String>> {
        keys.iter().map(|key| Some(format!("{key}={}", cell.level(key)?))).collect()
    };
    let known: HashMap<CellKey, (&Cell, Vec<Option<String>>)> =
        all.iter().map(|cell| (cell.key(), (cell, describe(cell)))).collect();
    // By the settings that a cell has: how many cells have the same levels of these. Cells with more settings count, too.
    let mut alike: HashMap<Vec<bool>, HashMap<Vec<&str>, usize>> = HashMap::new();
    let of_cell = |(key, _): &(CellKey, String)| {
        let Some((cell, levels)) = known.get(key) else { return baseline_name(key) };
        let has: Vec<bool> = levels.iter().map(Option::is_some).collect();
        let own: Vec<&str> = levels.iter().flatten().map(String::as_str).collect();
        let words = own.join(",");
        let counts = alike.entry(has).or_insert_with_key(|has| {
            let mut counts: HashMap<Vec<&str>, usize> = HashMap::new();
            let others = known.values().filter_map(|(_, levels)| of_settings(levels, has));
            others.for_each(|levels| *counts.entry(levels).or_default() += 1);
            counts
        });
        let is_only = !words.is_empty() && counts.get(&own) == Some(&1) && names_cell(&words, cell);
        if is_only { words } else { baseline_name(key) }
    };
    cells.iter().map(of_cell).collect()
}

/// A cell's levels of some of the settings; `None` if it lacks one of them.
fn of_settings<'l>(levels: &'l [Option<String>], has: &[bool]) -> Option<Vec<&'l str>> {
    levels.iter().zip(has).filter(|(_, has)| **has).map(|(level, _)| level.as_deref()).collect()
}

/// Compares the cells of one or more sessions for a screen: with the names, looks, limits and units that the study's author sets, but
/// without annotations, which are only on paper. The cell `foremost` is always drawn.
pub fn compare_on_screen(sources: &[Source], study: &Study, foremost: Option<&CellKey>) -> Comparison {
    let mut comparison = compare_with(sources, study, foremost);
    let overrides = Overrides { annotations: Vec::new(), ..study.overrides.clone() };
    let wrong = overrides.apply(&mut comparison.charts, &names_of(&comparison.settings), &|_| Vec::new());
    comparison.missing.extend(wrong);
    take_units_of_axes(&mut comparison.table, &comparison.charts);
    comparison
}

/// Gives a table's columns of times the units of the axes that show the same measures, so that readers find a chart's numbers in the table.
/// A measure that axes show in several units keeps the unit of its column.
fn take_units_of_axes(table: &mut Table, charts: &[Chart]) {
    for column in table.columns.iter_mut().filter(|column| column.is_measure && column.unit == "s") {
        let mut units = charts.iter().flat_map(time_axes).filter(|(name, ..)| *name == column.name);
        let Some((_, unit, factor)) = units.next() else { continue };
        if units.all(|(_, other, _)| other == unit) {
            (column.shown_unit, column.shown_factor) = (unit.to_owned(), factor);
        }
    }
}

/// The names by which the levels of settings can be given.
fn names_of(settings: &[SettingLevels]) -> Vec<LevelNames> {
    let names = settings.iter().flat_map(|SettingLevels { setting, levels }| {
        levels.iter().map(|(level, _)| LevelNames {
            name: level_name(setting, level),
            bare: level.to_string(),
            with_key: format!("{}={level}", setting.key),
        })
    });
    names.collect()
}

/// For each bracket: its cells, the ratio of the second to the first, and the verdict on it. The verdicts are one family.
fn judged(study: &Study, all: &[Cell], asked: &[(&str, &str)]) -> Vec<Result<Judged, String>> {
    let key = study.ratio_of();
    let named = |name: &str| {
        let cell = all.iter().filter(|cell| study.admits(cell)).find(|cell| names_cell(name, cell));
        cell.ok_or_else(|| format!("no cell is {name}"))
    };
    let pair = |(from, to): &(&str, &str)| {
        if !study.form.has_measure() {
            return Err("a bracket is about one measure, and this form draws several".to_owned());
        }
        Ok((named(to)?, named(from)?))
    };
    let pairs: Vec<Result<(&Cell, &Cell), String>> = asked.iter().map(pair).collect();
    let sound: Vec<(&Cell, &Cell)> = pairs.iter().filter_map(|pair| pair.as_ref().ok().copied()).collect();
    let mut judgements = judge_cells(&sound, &key, study.equal_within).into_iter();
    let judged = |pair: Result<(&Cell, &Cell), String>| {
        let (to, from) = pair?;
        let verdict = judgements.next().map_or("undecided", |judgement| judgement.verdict.name());
        let ratio = over_baseline(to, Some(from), &key, Intervals::ByCount);
        let ratio = ratio.ok_or_else(|| format!("one of its cells has no {key}"))?;
        let text = format!("{}×, {verdict}", significant(ratio.median));
        Ok(Judged { from: from.key(), to: to.key(), text })
    };
    pairs.into_iter().map(judged).collect()
}

impl Figure {
    /// The keys for overrides of a name that is pointed at in the figure: `precision=fp16`, or the name of a series.
    pub fn keys_of(&self, name: &str) -> Vec<String> {
        keys_of(name, &self.study.overrides, &names_of(&self.settings))
    }

    /// Whether all of its charts are empty.
    pub fn is_empty(&self) -> bool {
        self.charts.iter().all(Chart::is_empty)
    }

    /// The reason why the values are not drawn, and what to do, as a part of a sentence; `None` if the marks can be told apart.
    pub fn crowded(&self) -> Option<&str> {
        self.charts.iter().find_map(|chart| chart.crowded.as_deref())
    }

    /// The figure after layout.
    pub fn scene(&self) -> Scene {
        lay_out_with(&self.charts, &self.study.style, &self.study.overrides)
    }

    /// Notes for the reader: what is missing, then the notes of the charts, then the notes of the table.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        // A chart ends with sentences that the table has as notes.
        let is_told = |note: &&String| self.table.notes.iter().any(|other| is_same_sentence(note, other));
        let of_charts = self.charts.iter().flat_map(|chart| &chart.notes).filter(|note| !is_told(note));
        let of_paper = self.of_paper.iter().flat_map(|of_paper| &of_paper.notes);
        let intervals = self.charts.iter().map(|chart| &chart.intervals).filter(|text| !text.is_empty());
        for note in self.missing.iter().chain(of_paper).chain(of_charts).chain(intervals).chain(&self.table.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }

    /// Problems of this figure in print, one line each.
    pub fn warnings(&self, scene: &Scene) -> Vec<String> {
        warnings(scene, self.study.overrides.height_mm)
    }

    /// The figure's provenance.
    pub fn provenance(&self, sessions: Vec<Origin>) -> Provenance {
        // The text was written as JSON just before, so it parses.
        let table = serde_json::from_str(&render(&self.table, Format::Json)).unwrap_or_default();
        let (title, study) = (self.title.clone(), self.study.clone());
        Provenance::new(title, study, sessions, self.facts.clone(), table, self.drawn_values(), self.notes())
    }

    /// The cells that are shown.
    pub(super) fn facts(&self) -> &[CellFacts] {
        &self.facts
    }

    /// The values that are drawn.
    pub(super) fn drawn_values(&self) -> Vec<DrawnChart> {
        self.charts.iter().map(DrawnChart::of).collect()
    }
}

/// Problems in print, one line each: text that is too small, a height that is too small for its parts, a legend that leaves out names, and
/// different names that are shortened to the same text.
pub(super) fn warnings(scene: &Scene, height_mm: Option<f64>) -> Vec<String> {
    let mut warnings = Vec::new();
    // Raised powers are always smaller than their number.
    let is_power = |text: &str| text.chars().all(|letter| letter.is_ascii_digit() || letter == '\u{2212}');
    let letters = || scene.texts().filter(|text| !is_power(&text.text));
    let least = letters().map(|text| text.size).fold(f64::INFINITY, f64::min);
    if least < Style::LEGIBLE_PT {
        warnings.push(format!("the smallest text has {} pt: print needs {} pt", significant(least), Style::LEGIBLE_PT));
    }
    if let Some(asked) = height_mm.filter(|mm| (scene.height / PT_PER_MM - mm).abs() > 0.5) {
        let height = scene.height / PT_PER_MM;
        warnings.push(format!("its parts need {height:.0} mm: it is not {asked} mm high"));
    }
    if scene.left_out > 0 {
        warnings.push(format!(
            "the legend leaves out {}: show fewer levels with a filter (such as date>=2026-11-01), or choose a setting with fewer levels \
             for the colours",
            counted(scene.left_out, "name")
        ));
    }
    let cut: Vec<&str> = letters().map(|text| text.text.as_str()).filter(|text| text.contains('…')).collect();
    if let Some(same) = cut.iter().find(|text| cut.iter().filter(|other| other == text).count() > 1) {
        warnings.push(format!("names are cut to the same text, {same}: give shorter ones with --label"));
    }
    warnings
}

/// Whether two notes are the same sentence, in one of which it has a capital letter and a full stop.
fn is_same_sentence(one: &str, other: &str) -> bool {
    one == other || capitalised(one.trim_end_matches('.')) == capitalised(other.trim_end_matches('.'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{RunSummary, fixture, summarise_run};
    use crate::figure::preset;

    #[test]
    fn cells_are_called_by_their_levels_and_a_lone_cell_by_its_id() {
        let run = |precision: &str| summarise_run(&fixture::run(&fixture::cell(precision, 1, "ddp-ds"), 1, 0.01));
        let runs = ["fp32", "fp16"].map(run);
        let words = |runs: &[RunSummary]| {
            figure(&[Source { session: "", runs, reports: &[] }], &preset("times").unwrap()).unwrap().words
        };
        assert_eq!(words(&runs), ["precision=fp32", "precision=fp16"]);
        assert_eq!(words(&runs[..1]), ["fp32-1-ddp-ds"]);
    }

    #[test]
    fn a_sentence_of_chart_and_table_stands_once_among_the_notes() {
        let run = |(precision, repeat): (&str, u32)| {
            summarise_run(&fixture::run(&fixture::cell(precision, 1, "ddp-ds"), repeat, 0.01))
        };
        let runs = [("fp32", 1), ("fp32", 2), ("fp16", 1), ("fp16", 2)].map(run);
        let sources = [Source { session: "", runs: &runs, reports: &[] }];
        let shown = figure(&sources, &preset("effects").unwrap()).unwrap();
        assert!(shown.charts[0].notes.iter().any(|note| note.starts_with("An effect compares")));
        let notes = shown.notes();
        let count = notes.iter().filter(|note| note.contains("n effect compares")).count();
        assert_eq!(count, 1, "{notes:?}");
    }
}
