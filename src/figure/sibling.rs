//! The papers' "efficiency": training time of the cell that differs in one factor alone, over the cell's own.

use super::ratio::over_baseline;
use crate::analysis::{Cell, Intervals, Value};

/// The papers' runs train for so many epochs that their total time is that of training. A short run's is mostly start and warm-up,
/// whose ratios may have the wrong sign.
const TIME: &str = "training_time_s";

/// A column that holds each cell against its sibling with one certain level.
pub(super) struct Against {
    /// The key in files.
    pub(super) key: &'static str,
    /// The papers' own heading.
    pub(super) name: &'static str,
    /// What the sibling differs in, and its level there.
    sibling: (&'static str, &'static str),
}

/// 2503.15252 Tables 2 and 3, in percent: 187.66 % is 1.8766 times as fast.
const COLUMNS: [Against; 3] = [
    Against { key: "speedup_over_1_gpu", name: "Efficiency compare to 1 GPU", sibling: ("gpus", "1") },
    Against { key: "speedup_over_fp64", name: "Efficiency compare to FP64", sibling: ("precision", "fp64") },
    Against { key: "speedup_over_pageable", name: "Efficiency compare to FALSE", sibling: ("pin_memory", "off") },
];

impl Against {
    /// The column of this key.
    pub(super) fn find(key: &str) -> Option<&'static Self> {
        COLUMNS.iter().find(|column| column.key == key)
    }

    /// What stands in a cell's row; nothing where its sibling is not among the cells.
    pub(super) fn value(&self, cell: &Cell, cells: &[Cell]) -> Option<Value> {
        let (factor, level) = self.sibling;
        let is_sibling = |other: &&Cell| {
            other.is_like(cell, &[factor]) && other.level(factor).is_some_and(|found| found.to_string() == level)
        };
        over_baseline(cell, cells.iter().find(is_sibling), TIME, Intervals::ByCount)
    }

    /// How the column was made.
    pub(super) fn note(&self) -> String {
        let (factor, level) = self.sibling;
        format!(
            "{}: training time with {factor} = {level}, all else equal, over that of the row; 200 % is twice as fast",
            self.name
        )
    }
}
