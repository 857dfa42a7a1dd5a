//! The cells that ratios are over: how a study names them, and which one is a cell's own.

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

/// The levels of a baseline as `precision=fp32,gpus=1`, or none if one of them is not of that form.
fn levels_of(asked: &str) -> Option<Vec<(String, String)>> {
    let mut pairs: Vec<String> = Vec::new();
    for part in asked.split(',') {
        match pairs.last_mut() {
            // A comma may stand within a level.
            Some(pair) if !part.contains('=') => *pair += &format!(",{part}"),
            _ => pairs.push(part.to_owned()),
        }
    }
    let pair =
        |pair: &String| pair.split_once('=').map(|(key, level)| (key.trim().to_owned(), level.trim().to_owned()));
    pairs.iter().map(pair).collect()
}

/// Whether a study's baseline means this cell: by its id, or by levels.
pub(super) fn names_cell(asked: &str, cell: &Cell) -> bool {
    let has = |(key, level): &(String, String)| {
        // Cells name their session only where there are several.
        let is_only = key == "session" && cell.session.is_empty();
        is_only || cell.level(key).is_some_and(|own| own.to_string() == *level)
    };
    cell.id == asked || levels_of(asked).is_some_and(|levels| levels.iter().all(has))
}

/// The cells that speed-ups and ratios are over: one for all, or one for each.
pub(super) struct Baseline<'a> {
    /// The cells that were asked for, those that are shown first. Of several, each cell is held against the one that is alike in
    /// all but the levels that were asked for.
    named: Vec<&'a Cell<'a>>,
    /// The levels that were asked for.
    levels: Vec<(String, String)>,
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
    /// measures of which the study shows ratios, or else the first that has one of them. Levels that several cells have name the
    /// sibling of each.
    pub(super) fn find(study: &Study, all: &'a [Cell<'a>], shown: &[Cell]) -> Self {
        let ratio_of = study.ratio_of();
        let is_shown = |cell: &Cell| shown.iter().any(|shown| shown.key() == cell.key());
        let named: Vec<&Cell> = match &study.baseline {
            Some(asked) => match all.iter().find(|cell| cell.id == asked.as_str()) {
                Some(cell) => vec![cell],
                None => {
                    let mut named: Vec<&Cell> = all.iter().filter(|cell| names_cell(asked, cell)).collect();
                    named.sort_by_key(|cell| !is_shown(cell));
                    named
                }
            },
            None => {
                let has = |cell: &Cell, key: &str| !by_repeat(cell, key).is_empty();
                let speedup = study.table_measures().iter().any(|key| key == SPEEDUP);
                let whole = shown.iter().find(|cell| has(cell, &ratio_of) && (!speedup || has(cell, THROUGHPUT)));
                let first = whole.or_else(|| shown.iter().find(|cell| has(cell, &ratio_of)));
                let first = first.or_else(|| shown.iter().find(|cell| speedup && has(cell, THROUGHPUT)));
                first.and_then(|first| all.iter().find(|cell| cell.key() == first.key())).into_iter().collect()
            }
        };
        let levels = study.baseline.as_deref().and_then(levels_of).unwrap_or_default();
        let unknown = study.baseline.clone().filter(|_| named.is_empty());
        let is_hidden = named.first().is_some_and(|cell| !is_shown(cell));
        Self { named, levels, among: all, unknown, is_hidden, ratio_of }
    }

    /// The cell that ratios of all cells are over, if it is one.
    pub(super) fn only(&self) -> Option<&'a Cell<'a>> {
        if let [only] = *self.named { Some(only) } else { None }
    }

    /// The cell that this cell's ratio is over.
    pub(super) fn of(&self, cell: &Cell) -> Option<&'a Cell<'a>> {
        let asked: Vec<&str> = self.levels.iter().map(|(key, _)| key.as_str()).collect();
        self.only().or_else(|| {
            let own = self.named.iter().find(|named| named.key() == cell.key());
            own.or_else(|| self.named.iter().find(|named| cell.is_like(named, &asked))).copied()
        })
    }

    /// The levels by which each cell's baseline differs from it, where cells have one each: `workload = pytorch`.
    pub(super) fn of_each(&self) -> Option<String> {
        let levels =
            || self.levels.iter().map(|(key, level)| format!("{key} = {level}")).collect::<Vec<_>>().join(", ");
        (self.named.len() > 1).then(levels)
    }

    /// Whether it has a value of the measure of which ratios are shown.
    pub(super) fn has_value(&self) -> bool {
        self.named.iter().any(|cell| !by_repeat(cell, &self.ratio_of).is_empty())
    }
}
