//! The displayed picture, computed in the background: the comparison, its texts, and the evidence on its factors.

use std::collections::{HashMap, HashSet};

use super::effect_rows::EffectRows;
use super::next_step::{self, NextStep};
use crate::analysis::{self, CellKey, RunState, cell_keys, cells_of, cells_pooling, check_keys};
use crate::app::canvas::Canvas;
use crate::app::cell_table::{Beside, CellTexts, Proof, Sort};
use crate::app::desk::{SharedSources, Source, with_run_numbers};
use crate::figure::{Chart, Column, Comparison, Form, Row, Study, compare_on_screen};
use crate::papers::{Judgement, artefact, judge};
use crate::plan::{AskedCell, Identity, Mode, Plan, asked_cells, identity, plan_of_cells};
use crate::store::RunRecord;

/// The displayed picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Charts and table.
    pub comparison: Comparison,
    /// The notes of its table.
    pub notes: Vec<String>,
    /// Its charts with their layout on screen.
    pub canvas: Canvas,
    /// The texts of its table.
    pub texts: CellTexts,
    /// The rows of effects that its marks show.
    pub effects: EffectRows,
    /// A plan with full runs of the displayed quick cells that have none, and the number of its cells.
    pub full_runs: Option<(Plan, usize)>,
    /// More repeats that would decide undecided comparisons.
    pub more_repeats: Option<NextStep>,
    /// Runs for cells without a finished run.
    pub lacking: Option<NextStep>,
    /// The verdicts on the papers' claims; empty unless requested.
    pub claims: Vec<Judgement>,
    /// Whether it shows several sessions.
    pub is_of_several: bool,
    /// Number of ended runs whose measures are still being computed.
    pub pending: usize,
    /// Number of runs that have not ended.
    pub waiting: usize,
}

impl Picture {
    /// Computes the picture, which takes seconds for hundreds of cells with many repeats. The `selected` cell is always drawn.
    pub fn new(sources: &[Source], study: &Study, selected: Option<&CellKey>) -> Self {
        let shared = SharedSources::of(sources, study);
        let named = shared.analysed();
        let mut comparison = compare_on_screen(&named, study, selected);
        // A copied table says it, too.
        comparison.table.notes.splice(0..0, shared.refused().iter().cloned());
        let keys = Keys(cell_keys(&cells_pooling(&named, &study.pool)));
        let proofs = proofs(sources, &keys);
        let stories = stories(&named, &keys);
        let proofs_of_row = |row: &Row| proofs.get(&row.key()).cloned().unwrap_or_default();
        let proofs: Vec<Vec<Proof>> = comparison.table.rows.iter().map(proofs_of_row).collect();
        let stories_of_row = |row: &Row| stories.get(&row.key()).cloned().unwrap_or_default();
        let stories = comparison.table.rows.iter().map(stories_of_row).collect();
        let runs = || sources.iter().flat_map(|source| source.records.runs.iter());
        let by_cell: HashMap<CellKey, &RunRecord> = sources
            .iter()
            .flat_map(|source| source.records.runs.iter().map(|run| (keys.of(&source.name, &run.run, &run.cell), run)))
            .collect();
        let is_quick = |row: &Row| by_cell.get(&row.key()).is_some_and(|run| !run.mode.is_full());
        let quick = comparison.table.rows.iter().map(is_quick).collect();
        let checks = check_keys(named.iter().flat_map(|source| source.runs));
        let beside = Beside { proofs, stories, quick, checks };
        let has_interval = |column: &Column| column.key == *comparison.measure || column.key == "ratio";
        Self {
            texts: CellTexts::new(&comparison.table, beside, has_interval),
            full_runs: full_runs(&comparison, &by_cell).map(|plan| {
                let cells = asked_cells(&plan).len();
                (plan, cells)
            }),
            more_repeats: next_step::more_repeats(&comparison, sources, &by_cell),
            lacking: next_step::lacking(&comparison, sources, &by_cell),
            effects: EffectRows::of(&comparison.table),
            notes: with_run_numbers(sources, comparison.table.notes.iter().cloned()),
            canvas: Canvas::default(),
            comparison,
            claims: Vec::new(),
            is_of_several: sources.len() > 1,
            pending: sources.iter().map(|source| source.records.pending).sum(),
            waiting: runs().filter(|run| !run.state.is_final()).count(),
        }
    }

    /// Whether a chart draws a cell.
    pub fn draws(&self, cell: &CellKey) -> bool {
        let mut points = self.comparison.charts.iter().flat_map(Chart::series).flat_map(|series| &series.points);
        points.any(|point| point.cell.as_ref() == Some(cell))
    }

    /// The columns of its table that hold no values, without the measure that is drawn.
    pub fn empty_columns(&self) -> Vec<usize> {
        let is_drawn = |place: usize| self.comparison.table.columns[place].key == *self.comparison.measure;
        let is_other = |column: &usize| self.texts.value(*column).is_some_and(|place| !is_drawn(place));
        self.texts.empty.iter().copied().filter(is_other).collect()
    }

    /// The key of the setting whose levels the colours of a form's charts stand for.
    pub fn coloured(&self, form: Form) -> Option<&str> {
        let setting = self.comparison.arrangement.colour.as_ref().filter(|_| form.colours_levels());
        setting.map(|setting| &*setting.key)
    }

    fn row(&self, cell: &CellKey) -> Option<usize> {
        self.comparison.table.rows.iter().position(|row| row.key() == *cell)
    }

    /// The verdict on a cell in its table.
    pub fn verdict(&self, cell: &CellKey) -> Option<&str> {
        let named = self.texts.named(&self.comparison.table);
        let column = named.iter().position(|(key, _)| key == "verdict")?;
        let text = self.texts.texts.get(self.row(cell)?)?.get(column)?;
        (!text.is_empty() && text != "–").then_some(text)
    }

    /// Caveats about a cell's runs, without the one about tracing, which is the purpose of some charts.
    pub fn stories(&self, cell: &CellKey) -> impl Iterator<Item = &String> {
        let stories = self.row(cell).and_then(|row| self.texts.beside.stories.get(row));
        stories.into_iter().flatten().filter(|story| !story.starts_with("traced:"))
    }

    /// The same with the papers' claims judged by all cells.
    pub fn with_claims(self, sources: &[Source]) -> Self {
        Self { claims: judge(&cells_of(&sources.iter().map(Source::analysed).collect::<Vec<_>>())), ..self }
    }

    /// The rows sorted by a column, or in the table's order without one.
    pub fn order(&self, sort: &Sort) -> Vec<usize> {
        self.texts.order(&self.comparison.table, &self.comparison.settings, sort)
    }
}

/// The cells of runs.
struct Keys<'a>(HashMap<(&'a str, &'a str), CellKey>);

impl Keys<'_> {
    /// The cell of a run, by the names of its session and of the run, and the cell's id.
    fn of(&self, session: &str, run: &str, cell: &str) -> CellKey {
        let alone = || CellKey { session: session.to_owned(), cell: cell.to_owned(), made_with: String::new() };
        self.0.get(&(session, run)).cloned().unwrap_or_else(alone)
    }
}

/// A plan with full runs of the displayed quick cells that have no full run, with the same number of repeats.
fn full_runs(comparison: &Comparison, by_cell: &HashMap<CellKey, &RunRecord>) -> Option<Plan> {
    let identity_of = |run: &RunRecord, mode| identity(&run.workload, &run.data, run.tracer, mode, &run.levels);
    let is_done = |run: &&&RunRecord| run.mode.is_full() && run.state == RunState::Finished;
    let mut known: HashSet<Identity> =
        by_cell.values().filter(is_done).map(|run| identity_of(run, Mode::Full)).collect();
    let quick = comparison.cells.iter().filter_map(|(key, _)| by_cell.get(key)).filter(|run| !run.mode.is_full());
    let (mut cells, mut first, mut repeats): (Vec<AskedCell>, Option<&RunRecord>, u32) = (Vec::new(), None, 1);
    for run in quick {
        let identity = identity_of(run, Mode::Full);
        if known.insert(identity) {
            let RunRecord { workload, data, levels, .. } = *run;
            let (workload, data, levels) = (workload.clone(), data.clone(), levels.clone());
            cells.push(AskedCell { workload, data, levels, tracer: run.tracer, identity });
            (first, repeats) = (first.or(Some(run)), repeats.max(run.repeat));
        }
    }
    // A plan records the runs of the built-in tracer either in windows or as a whole. Once it is launched, the others follow.
    let built_in = |cell: &&AskedCell| cell.tracer.is_built_in();
    let in_windows = cells.iter().find(built_in).map(|cell| cell.tracer.is_in_windows());
    cells.retain(|cell| !cell.tracer.is_built_in() || in_windows == Some(cell.tracer.is_in_windows()));
    let first = first?;
    let paper = comparison.of_paper.as_ref().and_then(|of_paper| artefact(&of_paper.id).ok()?.plan());
    let plan = match paper {
        Some(plan) => Plan { mode: Mode::Full, name: format!("{}, full runs", plan.name), ..plan.clone() },
        None => Plan { repeats, ..Plan::new(&format!("{}, full runs", first.plan), first.workload.clone()) },
    };
    plan_of_cells(&plan, &cells)
}

/// Evidence on each factor for each cell: a factor is in effect if all finished runs and ranks show it.
fn proofs(sources: &[Source], keys: &Keys) -> HashMap<CellKey, Vec<Proof>> {
    let mut proofs: HashMap<CellKey, Vec<Proof>> = HashMap::new();
    for source in sources {
        for run in source.records.runs.iter().filter(|run| run.state == RunState::Finished) {
            let known = proofs.entry(keys.of(&source.name, &run.run, &run.cell)).or_default();
            for evidence in run.evidence() {
                let proof = Proof {
                    factor: evidence.factor.clone(),
                    asked: evidence.asked.clone(),
                    seen: evidence.seen.clone(),
                    in_effect: evidence.in_effect,
                };
                match known.iter_mut().find(|known| known.factor == proof.factor) {
                    Some(known) if known.in_effect && !proof.in_effect => *known = proof,
                    Some(_) => {}
                    None => known.push(proof),
                }
            }
        }
    }
    proofs
}

/// Full texts of the marks of each cell's runs, each text once, with the runs that have it.
fn stories(sources: &[analysis::Source], keys: &Keys) -> HashMap<CellKey, Vec<String>> {
    let mut stories: HashMap<CellKey, Vec<(String, Vec<&str>)>> = HashMap::new();
    for (source, run) in
        sources.iter().flat_map(|source| source.runs.iter().chain(source.reports).map(move |run| (source, run)))
    {
        let known = stories.entry(keys.of(source.session, &run.run, &run.cell)).or_default();
        for mark in &run.marks {
            let story = format!("{}: {mark}", mark.label());
            match known.iter_mut().find(|(other, _)| *other == story) {
                Some((_, runs)) => runs.push(&run.run),
                None => known.push((story, vec![&run.run])),
            }
        }
    }
    let story_and_runs = |(story, runs): (String, Vec<&str>)| format!("{story} ({})", runs.join(", "));
    stories.into_iter().map(|(key, stories)| (key, stories.into_iter().map(story_and_runs).collect())).collect()
}
