//! Levels as types: enums of named levels, readers of other levels, and levels that several workloads share. Errors name the factor.

use crate::plan::{Binding, Hint, Level, Levels};

/// Defines an enum of the named levels of one factor, the default first.
macro_rules! levels {
    ($(#[$doc:meta])* $name:ident = $key:literal { $($(#[$variant_doc:meta])* $variant:ident = $level:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// The factor's key in plans.
            pub const KEY: &'static str = $key;
            /// Its levels, the default first.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The names of its levels, the default first.
            pub const NAMES: &'static [&'static str] = &[$($level),+];

            /// The level's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $level),+ }
            }

            /// Reads the level of a cell.
            pub(in crate::plan) fn read(levels: &$crate::plan::Levels) -> Result<Self, String> {
                match levels.get($key) {
                    $(Some($crate::plan::Level::Text(name)) if name.as_ref() == $level => Ok(Self::$variant),)+
                    Some(other) => Err(format!("{} = {other} is not one of {}", $key, Self::NAMES.join(", "))),
                    None => Err(format!("the level of {} is missing", $key)),
                }
            }
        }
    };
}
pub(super) use levels;

levels! {
    /// Implementation of the optimizer's update.
    OptimizerImpl = "optimizer_impl" {
        /// One kernel for all parameters.
        Fused = "fused",
        /// A few kernels for all parameters.
        Foreach = "foreach",
        /// Several kernels per parameter.
        Loop = "loop",
    }
}

levels! {
    /// The passes of a step.
    Passes = "passes" {
        /// Forward pass, backward pass and update.
        Training = "training",
        /// The forward pass alone, without gradients.
        Inference = "inference",
    }
}

levels! {
    /// The kernels that compute a layer.
    Kernels = "kernels" {
        /// libtorch's operations, one for each step of the formulas.
        Plain = "plain",
        /// Kernels that fuse several steps.
        Fused = "fused",
    }
}

/// The least number of warm-up steps of a run with `cuda_graph = on`. Eleven steps are not replayed: in these, cuDNN tries its algorithms,
/// and c10d builds and times its buckets. The twelfth is captured and replayed.
pub const CUDA_GRAPH_WARM_UP_STEPS: u64 = 12;

/// How a recording shows whether batches are staged in page-locked memory.
pub(super) fn pinned() -> [(&'static str, Hint); 2] {
    [("off", Hint::PinnedCopies(false)), ("on", Hint::PinnedCopies(true))]
}

/// How a recording shows whether steps are captured and replayed.
pub(super) fn graphs() -> [(&'static str, Hint); 2] {
    [("off", Hint::NoGraphs), ("on", Hint::GraphsAfter(CUDA_GRAPH_WARM_UP_STEPS))]
}

/// Reads a level that is on or off.
pub(super) fn switch(levels: &Levels, key: &str) -> Result<bool, String> {
    match levels.get(key).and_then(Level::as_text) {
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        _ => Err(format!("the level of {key} must be on or off")),
    }
}

/// Reads a non-negative whole number.
pub(super) fn count(levels: &Levels, key: &str) -> Result<usize, String> {
    let value = levels.get(key).and_then(Level::as_integer).and_then(|value| usize::try_from(value).ok());
    value.ok_or_else(|| format!("the level of {key} must be a whole number"))
}

/// Reads a real number.
pub(super) fn number(levels: &Levels, key: &str) -> Result<f64, String> {
    levels.get(key).and_then(Level::as_number).ok_or_else(|| format!("the level of {key} must be a number"))
}

/// Reads the binding of ranks to NUMA nodes.
pub(super) fn binding(levels: &Levels) -> Result<Binding, String> {
    let level = levels.get(Binding::KEY).ok_or_else(|| format!("the level of {} is missing", Binding::KEY))?;
    let named = level.as_text().and_then(|name| name.parse().ok());
    named.ok_or_else(|| format!("{} = {level} is not one of {}", Binding::KEY, Binding::NAMES.join(", ")))
}
