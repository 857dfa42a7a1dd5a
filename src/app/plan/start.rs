//! Starting plans: those of `sessions/`, included in the program.

use crate::plan::{Plan, image};

/// A starting plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartingPlan {
    /// The name of its file without the extension.
    pub(super) name: &'static str,
    /// Its purpose.
    pub(super) help: &'static str,
    text: &'static str,
}

/// All starting plans; a new window opens with the first.
pub(super) const STARTING_PLANS: &[StartingPlan] = &[
    StartingPlan {
        name: "quickstart",
        help: "Four cells, two runs each: a few minutes on a laptop without any GPU.",
        text: include_str!("../../../sessions/quickstart.toml"),
    },
    StartingPlan {
        name: "llm-quickstart",
        help: "Fine-tuning of a tiny language model, adapters and all weights: three minutes without any GPU.",
        text: include_str!("../../../sessions/llm-quickstart.toml"),
    },
    StartingPlan {
        name: "llm-data-sets",
        help: "LoRA of Llama 3 8B on one GPU by data set, on stand-ins: three cells, three runs each.",
        text: include_str!("../../../sessions/llm-data-sets.toml"),
    },
    StartingPlan {
        name: "precision-layout-pin",
        help: "What precision, memory layout and pinned memory bring on one GPU: 16 cells, three runs each.",
        text: include_str!("../../../sessions/precision-layout-pin.toml"),
    },
];

/// The starting plan of a name.
pub(super) fn starting_plan(name: &str) -> Option<Plan> {
    let start = STARTING_PLANS.iter().find(|start| start.name == name)?;
    Plan::parse(start.text, start.name).ok()
}

/// The plan of a new window.
pub(super) fn first_plan() -> Plan {
    let first = STARTING_PLANS.first().and_then(|start| starting_plan(start.name));
    first.unwrap_or_else(|| Plan::new("untitled", image::spec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_starting_plan_can_be_read() {
        for start in STARTING_PLANS {
            assert!(starting_plan(start.name).is_some(), "{}", start.name);
        }
    }
}
