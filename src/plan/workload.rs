//! What is trained.

use serde::{Deserialize, Serialize};

/// The kind of job that a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// MobileNetV2 on images of digits (2503.15252 section 3).
    Image,
    /// Fine-tuning of a Llama (2503.15252 section 4).
    Llm,
    /// A user's own program.
    Command,
}

impl Workload {
    /// All workloads, in the order they are offered.
    pub const ALL: [Self; 3] = [Self::Image, Self::Llm, Self::Command];

    /// The name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Llm => "llm",
            Self::Command => "command",
        }
    }
}
