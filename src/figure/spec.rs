//! What is asked of a figure: which preset, which cells, how it is set.

use serde::{Deserialize, Serialize};

use super::paper::Style;
use crate::analysis::Level;

/// What is asked of a figure. It travels in the figure's file and makes it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// The preset's id.
    pub preset: String,
    /// Which cells are shown: see [`crate::plan::filter`]; words match their levels.
    pub filter: String,
    /// Levels whose cells are left out: key and level.
    pub hidden: Vec<(String, Level)>,
    /// A measure's key, where it is not the preset's own.
    pub measure: Option<String>,
    /// The cell that ratios are over: its id, or levels as `precision=fp32,gpus=1`; else the first with the measure.
    pub baseline: Option<String>,
    /// The values' axis is logarithmic.
    pub log: bool,
    /// How it is set.
    pub style: Style,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            preset: "times".to_owned(),
            filter: String::new(),
            hidden: Vec::new(),
            measure: None,
            baseline: None,
            log: false,
            style: Style::default(),
        }
    }
}
