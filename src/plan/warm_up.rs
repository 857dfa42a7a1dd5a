//! Which steps at the start of a run are left out of statistics.

use super::WorkloadSpec;

/// Which steps at the start of a run are left out of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WarmUp {
    /// This number of steps.
    Steps(u64),
    /// The steps until step times have settled.
    Found,
}

impl WarmUp {
    /// The warm-up that a plan asks for in full runs of a workload; `steps` is its `warm_up_steps`.
    pub fn of(spec: &WorkloadSpec, steps: u64) -> Self {
        let is_found = spec.command.as_ref().is_some_and(|command| command.readings.finds_warm_up);
        if is_found { Self::Found } else { Self::Steps(steps) }
    }
}
