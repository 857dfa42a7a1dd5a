//! How long a run trains: through all of its epochs, or until its steady step time is known.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Estimate, Shape};

/// Estimated steps of a quick run: those in which the end of the warm-up is found, and those that the precision needs.
const QUICK_STEPS: u64 = 140;

/// How long a run trains. Quick and full runs belong to different cells: their results are never pooled, and resuming never takes one for
/// the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Trains through all epochs of its cell.
    #[default]
    Full,
    /// Trains until the mean of its steady steps is known well enough to extrapolate the training time. It reports no losses of epochs and
    /// no accuracy.
    Quick {
        /// Half the width of the mean's 95 % interval, as a share of the mean: 0.01 is ±1 %.
        step_precision: f64,
    },
}

impl Mode {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = &["full", "quick"];
    /// A quick run's precision in plans that do not state it.
    pub const STEP_PRECISION: f64 = 0.01;
    /// The least and the greatest precision that a plan may ask for.
    pub const STEP_PRECISIONS: (f64, f64) = (0.0001, 0.5);

    /// The name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick { .. } => "quick",
        }
    }

    /// Whether runs go through all epochs.
    pub fn is_full(&self) -> bool {
        *self == Self::Full
    }

    /// The precision of a quick run's mean step.
    pub fn step_precision(self) -> Option<f64> {
        match self {
            Self::Full => None,
            Self::Quick { step_precision } => Some(step_precision),
        }
    }

    /// The estimate of a run in this mode, from the estimate of a full run.
    pub(super) fn estimate(self, full: Estimate, shape: &Shape) -> Estimate {
        let share = match self {
            Self::Quick { .. } if shape.steps > QUICK_STEPS => QUICK_STEPS as f64 / shape.steps as f64,
            Self::Quick { .. } | Self::Full => 1.0,
        };
        Estimate { duration_s: full.start_s + share * (full.duration_s - full.start_s), ..full }
    }
}

/// `full`, or `quick (steps to ±1 %)`.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            // Shares such as 0.07 have no exact percentage.
            Self::Quick { step_precision } => write!(f, "quick (steps to ±{} %)", (step_precision * 1e8).round() / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::{gpu_node, small_plan};
    use crate::plan::{Level, expand};

    #[test]
    fn a_quick_run_of_many_steps_takes_its_start_and_few_of_them() {
        let full = Estimate { duration_s: 1_010.0, start_s: 10.0, peak_bytes: 1, host_bytes: 1, ..Estimate::default() };
        let quick = Mode::Quick { step_precision: 0.01 };
        let duration_of = |mode: Mode, steps| mode.estimate(full, &Shape { steps, ..Shape::default() }).duration_s;
        assert_eq!(duration_of(Mode::Full, 14_000), 1_010.0);
        assert!((duration_of(quick, 14_000) - 20.0).abs() < 1e-9);
        assert_eq!(duration_of(quick, 100), 1_010.0, "it has no more steps than the full run");
    }

    #[test]
    fn quick_runs_of_the_papers_second_table_take_less_than_an_hour_of_gpus() {
        // 2503.15252 Table 2: three precisions on one to four GPUs, 20 epochs of 60,000 images of 500 px.
        let mut plan = small_plan(&[
            ("precision", ["fp64", "fp32", "fp16"].map(Level::text).to_vec()),
            ("gpus", (1..=4).map(Level::Integer).collect()),
            ("image_size", vec![Level::Integer(500)]),
            ("epochs", vec![Level::Integer(20)]),
            ("train_images", vec![Level::Integer(60_000)]),
            ("test_images", vec![Level::Integer(10_000)]),
        ]);
        let gpu_hours = |plan: &crate::plan::Plan| {
            let cells = expand(plan, &gpu_node(4)).cells;
            assert_eq!(cells.len(), 12);
            let of_cell = |cell: &crate::plan::Cell| cell.estimate.duration_s * f64::from(cell.shape.devices());
            cells.iter().map(of_cell).sum::<f64>() / 3600.0
        };
        let full = gpu_hours(&plan);
        plan.mode = Mode::Quick { step_precision: 0.01 };
        let quick = gpu_hours(&plan);
        assert!(full > 5.0 && quick < 1.0, "full {full} h, quick {quick} h");
    }

    #[test]
    fn a_precision_is_shown_in_percent() {
        assert_eq!(Mode::Quick { step_precision: 0.07 }.to_string(), "quick (steps to ±7 %)");
        assert_eq!(Mode::Quick { step_precision: 0.0025 }.to_string(), "quick (steps to ±0.25 %)");
        assert_eq!(Mode::Full.to_string(), "full");
    }
}
