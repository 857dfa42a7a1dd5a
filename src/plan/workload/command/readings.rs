//! Readings that a plan declares of its command.

use serde::{Deserialize, Serialize};

use crate::plan::DeclaredMeasure;
use crate::plan::checked_table::Table;
use crate::plan::problem::Problems;

/// Where readings of a command come from, beside `$MULTICARD_READINGS`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadingsSpec {
    /// Files that the program writes.
    #[serde(default)]
    pub files: Vec<String>,
}

impl ReadingsSpec {
    /// Whether the end of the warm-up is found by step times.
    pub fn warm_up_is_found(&self) -> bool {
        false
    }
}

/// The readings and the measures of a `[command]`.
pub(in crate::plan) fn read(_table: &Table, _problems: &mut Problems) -> (ReadingsSpec, Vec<DeclaredMeasure>) {
    (ReadingsSpec::default(), Vec::new())
}

/// Writes them into a `[command]`.
pub(in crate::plan) fn write(_spec: &ReadingsSpec, _measures: &[DeclaredMeasure], _table: &mut toml_edit::Table) {}
