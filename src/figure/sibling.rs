//! The papers' "efficiency": training time of the cell that differs in one factor alone, over the cell's own.

use std::collections::HashMap;

use super::ratio::{by_repeat, judge_cells, over_baseline};
use crate::analysis::{Cell, CellKey, Interval, Intervals, Judgement, Key, Value};

/// The papers' runs train for so many epochs that their total time is that of training. A short run's is mostly start and warm-up,
/// whose ratios may have the wrong sign.
const TIME: &str = "training_time_s";

/// What ends the key of a column of verdicts.
const VERDICT_SUFFIX: &str = "_verdict";

/// A column that holds each cell against its sibling with one certain level.
pub(super) struct Against {
    /// The key in files.
    pub(super) key: &'static str,
    /// The papers' own heading.
    pub(super) name: &'static str,
    /// What the sibling differs in, and its level there.
    sibling: (&'static str, &'static str),
    /// It is the share of the sibling's time that the cell saves, rather than how many times as fast it is.
    saved: bool,
}

/// 2503.15252 Tables 2, 3 and 5, in percent: 187.66 % is 1.8766 times as fast, 3.50 % of time saved 1.0363 times.
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
    /// The column of this key.
    pub(super) fn find(key: &str) -> Option<&'static Self> {
        COLUMNS.iter().find(|column| column.key == key)
    }

    /// The column whose verdicts stand under this key.
    pub(super) fn of_verdict(key: &str) -> Option<&'static Self> {
        key.strip_suffix(VERDICT_SUFFIX).and_then(Self::find)
    }

    /// The key of the column of verdicts beside this one.
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
            other.is_like(cell, &[factor]) && other.level(factor).is_some_and(|found| found.to_string() == level)
        })
    }

    /// What stands in a cell's row; nothing where its sibling is not among the cells.
    pub(super) fn value(&self, cell: &Cell, cells: &[Cell]) -> Option<Value> {
        let over = over_baseline(cell, self.sibling_of(cell, cells), TIME, Intervals::ByCount)?;
        let shown = |ratio: f64| if self.saved { 1.0 - ratio.recip() } else { ratio };
        let interval = over.interval.map(|ends| Interval { low: shown(ends.low), high: shown(ends.high) });
        Some(Value { median: shown(over.median), interval, ..over })
    }

    /// What repeats say of each cell against its sibling. All cells are one family, those that a filter hides too: what is left out
    /// of sight was compared all the same.
    pub(super) fn verdicts(&self, all: &[Cell], equal_within: f64) -> HashMap<CellKey, Judgement> {
        let has_value = |cell: &Cell| !by_repeat(cell, TIME).is_empty();
        let pair = |cell| {
            let sibling = self.sibling_of(cell, all).filter(|sibling| sibling.key() != cell.key())?;
            (has_value(cell) && has_value(sibling)).then_some((cell, sibling))
        };
        let pairs: Vec<(&Cell, &Cell)> = all.iter().filter_map(pair).collect();
        pairs.iter().map(|(cell, _)| cell.key()).zip(judge_cells(&pairs, TIME, equal_within)).collect()
    }

    /// How the column was made.
    pub(super) fn note(&self) -> String {
        let (factor, level) = self.sibling;
        let name = self.name;
        if self.saved {
            return format!(
                "{name}: the share of the training time with {factor} = {level} that the row saves, all else equal"
            );
        }
        format!(
            "{name}: training time with {factor} = {level}, all else equal, over that of the row; 200 % is twice as fast"
        )
    }
}
