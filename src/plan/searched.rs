//! The steps of a search, as a session records them. These steps and the ended runs determine what runs next.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// A step of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum SearchStep {
    /// It begins with one run of each candidate.
    Begun {
        /// The ids of the candidates' cells in the session, in the order of the plan.
        candidates: Vec<String>,
        /// The number of the repeat with which the candidates begin.
        first_repeat: u32,
    },
    /// All runs of a round have ended.
    Round {
        /// The round, from 1: the runs of one repeat.
        round: u32,
        /// The cells that cannot be the answer any more.
        dropped: Vec<Dropped>,
        /// The cells that run in the next round, in the order of their runs; empty if this was the last one.
        next: Vec<String>,
    },
    /// It is over.
    Ended(SearchVerdict),
}

/// A cell that cannot be the answer any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// The cell's id.
    pub cell: String,
    /// Why.
    pub why: DropReason,
}

/// Why a cell was dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum DropReason {
    /// A run did not finish.
    Failed {
        /// How the run ended, and why.
        why: String,
    },
    /// A run finished without a value that the search needs.
    NoValue {
        /// The measure's key.
        measure: String,
        /// What the run has instead of the value, in words.
        found: String,
    },
    /// Another cell is better.
    Worse {
        /// The other cell's id.
        than: String,
        /// How much worse it is, as a share: 0.1 for 10 %.
        by: f64,
        /// How much worse it is at least, as a share.
        at_least: f64,
    },
    /// A cell that keeps all limits has a better level of the factor that is sought.
    Behind {
        /// The other cell's id.
        than: String,
        /// That level.
        level: String,
    },
    /// It does not keep a limit.
    Misses {
        /// The limit.
        limit: String,
        /// The value with its interval, in words.
        value: String,
    },
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SearchEnd {
    /// One cell is left.
    One,
    /// No other cell can be better by more than the tie.
    Ties,
    /// The budget of runs does not cover another round.
    Runs,
    /// The budget of minutes does not cover another round.
    Minutes,
    /// Each cell that is left has all repeats of the plan.
    Repeats,
    /// Every cell was dropped.
    None,
}

/// The answer of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchVerdict {
    /// Why it ended.
    pub end: SearchEnd,
    /// The id of the chosen cell; `None` if no cell is left.
    pub chosen: Option<String>,
    /// The chosen cell's values: the goal's first, then those of the limits, in words.
    pub values: Vec<String>,
    /// The limits that the chosen cell keeps by its values, but not surely.
    pub unsure: Vec<String>,
    /// The other cells that are left.
    pub others: Vec<Standing>,
    /// The runs that were made.
    pub made: SearchCost,
    /// The cost of all repeats of all cells, estimated from the mean of each cell's own runs.
    pub grid: SearchCost,
}

/// Another cell that is left at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its id.
    pub cell: String,
    /// Whether it ties with the chosen cell: its mean is within the tie of the chosen cell's, it cannot be better by
    /// more than the tie, and it surely keeps all limits.
    pub is_tie: bool,
    /// How much better and how much worse than the chosen cell it is at most, as shares. `None` without an interval.
    pub within: Option<(f64, f64)>,
    /// The limits that it does not surely keep.
    pub unsure: Vec<String>,
}

/// The cost of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchCost {
    /// The number of runs.
    pub runs: u64,
    /// Their steps.
    pub steps: u64,
    /// Their time in seconds.
    pub time_s: f64,
}
