//! The cells that ratios are over: how a study names them, and which one is a cell's own.

use super::ratio::by_repeat;
use super::study::{SPEEDUP, Study};
use crate::analysis::{Cell, CellKey, Key, Source, THROUGHPUT, cells_of};

/// The name of a cell as a study's baseline.
pub fn baseline_name(cell: &CellKey) -> String {
    if cell.session.is_empty() && cell.made_with.is_empty() {
        return cell.cell.clone();
    }
    let parts = [("session", &cell.session), ("cell", &cell.cell), ("made_with", &cell.made_with)];
    let parts = parts.iter().filter(|(_, level)| !level.is_empty());
    parts.map(|(key, level)| format!("{key}={level}")).collect::<Vec<_>>().join(",")
}

/// Whether some cell is what a study's baseline asks for.
pub fn has_baseline(sources: &[Source], asked: &str) -> bool {
    cells_of(sources).iter().any(|cell| names_cell(asked, cell))
}

/// What a baseline begins with that is another one for each cell.
const EACH: &str = "each ";

/// The levels of a baseline as `precision=fp32,gpus=1`, or none if one of them is not of that form.
fn levels_of(asked: &str) -> Option<Vec<(String, String)>> {
    let mut pairs: Vec<String> = Vec::new();
    for part in asked.strip_prefix(EACH).unwrap_or(asked).split(',') {
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
        is_only || cell.any_level(key, &mut |own| own.to_string() == *level)
    };
    cell.id == asked || levels_of(asked).is_some_and(|levels| levels.iter().all(has))
}

/// The cells that speed-ups and ratios are over: one for all, or one for each.
pub(super) struct Baseline<'a> {
    /// The cell that was asked for, or those of which each cell is held against the one that is alike in all but the levels below.
    named: Vec<&'a Cell<'a>>,
    /// The levels that were asked for, where each cell has a baseline of its own.
    of_each: Option<Vec<(String, String)>>,
    /// All cells of the study, in which each finds its siblings.
    pub(super) among: &'a [Cell<'a>],
    /// The one cell stands for all that differ from it in what they were made with alone: each cell is held against the one that was
    /// made like it.
    pub(super) is_by_making: bool,
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
        let of_each = study.baseline.as_deref().filter(|asked| asked.starts_with(EACH)).and_then(levels_of);
        let named: Vec<&Cell> = match &study.baseline {
            Some(asked) => match all.iter().find(|cell| cell.id == asked.as_str()) {
                Some(cell) => vec![cell],
                None => {
                    // If several cells have these levels, a shown one is preferred.
                    let mut named: Vec<&Cell> = all.iter().filter(|cell| names_cell(asked, cell)).collect();
                    named.sort_by_key(|cell| !is_shown(cell));
                    named.truncate(if of_each.is_some() { named.len() } else { 1 });
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
        let unknown = study.baseline.clone().filter(|_| named.is_empty());
        let is_hidden = of_each.is_none() && named.first().is_some_and(|cell| !is_shown(cell));
        let is_by_making = study.baseline.as_ref().is_none_or(|asked| !asked.contains("made_with="));
        Self { named, of_each, among: all, is_by_making, unknown, is_hidden, ratio_of }
    }

    /// The cell that ratios of all cells are over, if it is one.
    pub(super) fn only(&self) -> Option<&'a Cell<'a>> {
        self.named.first().copied().filter(|_| self.of_each.is_none())
    }

    /// The cell that this cell's ratio is over.
    pub(super) fn of(&self, cell: &Cell) -> Option<&'a Cell<'a>> {
        let Some(levels) = &self.of_each else {
            let only = self.only()?;
            let made_alike = |other: &&Cell| other.made_with == cell.made_with && other.is_like(only, &["made_with"]);
            let sibling = self.among.iter().find(made_alike).filter(|_| self.is_by_making);
            return Some(sibling.unwrap_or(only));
        };
        let asked: Vec<&str> = levels.iter().map(|(key, _)| key.as_str()).collect();
        let own = self.named.iter().find(|named| named.key() == cell.key());
        own.or_else(|| self.named.iter().find(|named| cell.is_like(named, &asked))).copied()
    }

    /// The levels by which each cell's baseline differs from it, where cells have one each: `workload = pytorch`.
    pub(super) fn of_each(&self) -> Option<String> {
        let levels = self.of_each.as_ref().filter(|_| !self.named.is_empty())?;
        Some(levels.iter().map(|(key, level)| format!("{key} = {level}")).collect::<Vec<_>>().join(", "))
    }

    /// Whether it has a value of the measure of which ratios are shown.
    pub(super) fn has_value(&self) -> bool {
        self.named.iter().any(|cell| !by_repeat(cell, &self.ratio_of).is_empty())
    }
}
