//! The cell that ratios are over: how a study names it, and which one it is.

use super::ratio::by_repeat;
use super::study::{SPEEDUP, Study};
use crate::analysis::{Cell, CellKey, Key, Source, THROUGHPUT, cells_of};

/// The name of a cell as a study's baseline.
pub fn baseline_name(cell: &CellKey) -> String {
    if cell.session.is_empty() { cell.cell.clone() } else { format!("session={},cell={}", cell.session, cell.cell) }
}

/// Whether some cell is what a study's baseline asks for.
pub fn has_baseline(sources: &[Source], asked: &str) -> bool {
    cells_of(sources).iter().any(|cell| names_cell(asked, cell))
}

/// Whether a study's baseline means this cell: by its id, or by levels as `precision=fp32,gpus=1`.
pub(super) fn names_cell(asked: &str, cell: &Cell) -> bool {
    if cell.id == asked {
        return true;
    }
    let mut pairs: Vec<String> = Vec::new();
    for part in asked.split(',') {
        match pairs.last_mut() {
            // A comma may stand within a level.
            Some(pair) if !part.contains('=') => *pair += &format!(",{part}"),
            _ => pairs.push(part.to_owned()),
        }
    }
    pairs.iter().all(|pair| {
        let asked = pair.split_once('=').map(|(key, level)| (key.trim(), level.trim()));
        asked.is_some_and(|(key, level)| {
            // Cells name their session only where there are several.
            let is_only = key == "session" && cell.session.is_empty();
            is_only || cell.level(key).is_some_and(|own| own.to_string() == level)
        })
    })
}

/// The cell that speed-ups and ratios are over.
pub(super) struct Baseline<'a> {
    pub(super) cell: Option<&'a Cell<'a>>,
    /// All cells of the study, in which each finds its siblings.
    pub(super) among: &'a [Cell<'a>],
    /// What was asked for, where no cell matches it.
    pub(super) unknown: Option<String>,
    /// The filter leaves the cell out.
    pub(super) is_hidden: bool,
    /// The measure whose ratio the column `ratio` shows.
    pub(super) ratio_of: Key,
}

impl<'a> Baseline<'a> {
    /// The cell that the study names, shown or not. Where it names none: the first of the shown cells that has all
    /// measures of which the study shows ratios, or else the first that has one of them.
    pub(super) fn find(study: &Study, all: &'a [Cell<'a>], shown: &[Cell]) -> Self {
        let ratio_of = study.ratio_of();
        let is_shown = |cell: &Cell| shown.iter().any(|shown| shown.key() == cell.key());
        let cell = match &study.baseline {
            Some(asked) => {
                // An id stands before levels, and of several cells with these levels a shown one before others.
                let by_id = || all.iter().find(|cell| cell.id == asked.as_str());
                let named = || all.iter().filter(|cell| names_cell(asked, cell));
                by_id().or_else(|| named().find(|cell| is_shown(cell))).or_else(|| named().next())
            }
            None => {
                let has = |cell: &Cell, key: &str| !by_repeat(cell, key).is_empty();
                let speedup = study.table_measures().iter().any(|key| key == SPEEDUP);
                let whole = shown.iter().find(|cell| has(cell, &ratio_of) && (!speedup || has(cell, THROUGHPUT)));
                let first = whole.or_else(|| shown.iter().find(|cell| has(cell, &ratio_of)));
                let first = first.or_else(|| shown.iter().find(|cell| speedup && has(cell, THROUGHPUT)));
                first.and_then(|first| all.iter().find(|cell| cell.key() == first.key()))
            }
        };
        let unknown = study.baseline.clone().filter(|_| cell.is_none());
        Self { cell, among: all, unknown, is_hidden: cell.is_some_and(|cell| !is_shown(cell)), ratio_of }
    }

    /// Whether it has a value of the measure of which ratios are shown.
    pub(super) fn has_value(&self) -> bool {
        self.cell.is_some_and(|cell| !by_repeat(cell, &self.ratio_of).is_empty())
    }
}
