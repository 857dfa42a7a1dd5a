//! The papers' "efficiency": the training time of the cell that differs in only one factor, divided by the cell's own.

use std::collections::HashMap;

use super::ratio::{by_repeat, judge_cells, over_baseline};
use crate::analysis::{Cell, CellKey, Interval, Intervals, Judgement, Key, Value};

/// The papers' runs train for many epochs, so that their total time is nearly the training time. A short run's total time is mostly start
/// and warm-up; ratios of it can be on the wrong side of 1.
const TIME: &str = "training_time_s";

/// The suffix of the key of a column of verdicts.
const VERDICT_SUFFIX: &str = "_verdict";

/// A column that compares each cell with its sibling: the cell with another level of one factor.
pub(super) struct Against {
    /// The key in files.
    pub(super) key: &'static str,
    /// The heading in the papers.
    pub(super) name: &'static str,
    /// The factor in which the sibling differs, and the sibling's level.
    sibling: (&'static str, &'static str),
    /// Whether it shows the share of the sibling's time that the cell saves; otherwise it shows how many times as fast the cell is.
    saved: bool,
}

/// The columns of 2503.15252 Tables 2, 3 and 5, in percent: 187.66 % is 1.8766 times as fast, and 3.50 % of time saved is 1.0363 times as
/// fast.
const COLUMNS: [Against; 4] = [
    of_speed("speedup_over_1_gpu", "Efficiency compare to 1 GPU", ("gpus", "1")),
    of_speed("speedup_over_fp64", "Efficiency compare to FP64", ("precision", "fp64")),
    of_speed("speedup_over_pageable", "Efficiency compare to FALSE", ("pin_memory", "off")),
    Against { saved: true, ..of_speed("time_saved_over_pageable", "Relative improvement", ("pin_memory", "off")) },
];

const fn of_speed(key: &'static str, name: &'static str, sibling: (&'static str, &'static str)) -> Against {
    Against { key, name, sibling, saved: false }
}

impl Against {
    /// The column with this key.
    pub(super) fn find(key: &str) -> Option<&'static Self> {
        COLUMNS.iter().find(|column| column.key == key)
    }

    /// The column whose verdicts have this key.
    pub(super) fn of_verdict(key: &str) -> Option<&'static Self> {
        key.strip_suffix(VERDICT_SUFFIX).and_then(Self::find)
    }

    /// The key of its column of verdicts.
    pub(super) fn verdict_key(&self) -> Key {
        format!("{}{VERDICT_SUFFIX}", self.key).into()
    }

    /// The heading of the column of verdicts.
    pub(super) fn verdict_name(&self) -> String {
        let (factor, level) = self.sibling;
        format!("Verdict against {factor} = {level}")
    }

    fn sibling_of<'a>(&self, cell: &Cell, cells: &'a [Cell<'a>]) -> Option<&'a Cell<'a>> {
        let (factor, level) = self.sibling;
        cells.iter().find(|other| {
            other.is_like(cell, &[factor])
                && other.level(factor).is_some_and(|own_level| own_level.to_string() == level)
        })
    }

    /// The value in a cell's row; `None` if its sibling is not among the cells.
    pub(super) fn value(&self, cell: &Cell, cells: &[Cell]) -> Option<Value> {
        let over = over_baseline(cell, self.sibling_of(cell, cells), TIME, Intervals::ByCount)?;
        let shown = |ratio: f64| if self.saved { 1.0 - ratio.recip() } else { ratio };
        let interval = over.interval.map(|ends| Interval { low: shown(ends.low), high: shown(ends.high) });
        Some(Value { median: shown(over.median), interval, ..over })
    }

    /// Judges each cell against its sibling. All cells are one family, including those that a filter hides, because they were compared,
    /// too.
    pub(super) fn verdicts(&self, all: &[Cell], equal_within: f64) -> HashMap<CellKey, Judgement> {
        let has_value = |cell: &Cell| !by_repeat(cell, TIME).is_empty();
        let pair = |cell| {
            let sibling = self.sibling_of(cell, all).filter(|sibling| sibling.key() != cell.key())?;
            (has_value(cell) && has_value(sibling)).then_some((cell, sibling))
        };
        let pairs: Vec<(&Cell, &Cell)> = all.iter().filter_map(pair).collect();
        pairs.iter().map(|(cell, _)| cell.key()).zip(judge_cells(&pairs, TIME, equal_within)).collect()
    }

    /// The note on how the column is computed.
    pub(super) fn note(&self) -> String {
        let (factor, level) = self.sibling;
        let name = self.name;
        if self.saved {
            return format!(
                "{name}: the share of the training time with {factor} = {level} that the row saves, all else being equal"
            );
        }
        format!(
            "{name}: training time with {factor} = {level}, all else being equal, over that of the row; 200 % is twice as fast"
        )
    }
}
