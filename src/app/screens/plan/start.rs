//! Starting plans: those of `sessions/`, included in the program.

use crate::plan::{Plan, usual_workload};

/// A starting plan.
#[derive(Clone, Copy, Debug)]
pub(in crate::app) struct StartingPlan {
    /// The name of its file without the extension.
    pub(in crate::app) name: &'static str,
    text: &'static str,
}

impl StartingPlan {
    /// Its purpose: the first paragraph of the comment at the start of the file.
    pub(super) fn help(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("# "));
        lines.map(str::trim).collect::<Vec<_>>().join(" ")
    }
}

macro_rules! starting_plans {
    ($($name:literal),* $(,)?) => {
        &[$(StartingPlan { name: $name, text: include_str!(concat!("../../../../sessions/", $name, ".toml")) }),*]
    };
}

/// All starting plans; a new window opens with the first.
pub(in crate::app) const STARTING_PLANS: &[StartingPlan] = starting_plans![
    "quickstart",
    "llm-quickstart",
    "precision-layout-pin",
    "design",
    "strategies",
    "slurm-scaling",
    "pin-memory",
    "loaders",
    "loaders-scenario-b",
    "numa",
    "trace-precision",
    "trace-pin",
    "trace-cost",
    "trace-windows",
    "sample",
    "sample-traced",
    "llm-techniques",
    "llm-data-sets",
    "llm-pin-memory",
    "llm-search",
];

/// The starting plan with this name.
pub(super) fn starting_plan(name: &str) -> Option<Plan> {
    let start = STARTING_PLANS.iter().find(|start| start.name == name)?;
    Plan::parse(start.text, start.name).ok()
}

/// The plan of a new window.
pub(super) fn first_plan() -> Plan {
    let first = STARTING_PLANS.first().and_then(|start| starting_plan(start.name));
    first.unwrap_or_else(|| Plan::new("untitled", usual_workload()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_plan_can_be_started_from_and_says_what_it_is_for() {
        let shipped = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sessions")).unwrap().flatten();
        let files = shipped.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "toml"));
        // Programs of plans of the workload `command` are in the folder of the plan.
        let stands_alone = |path: &std::path::PathBuf| !std::fs::read_to_string(path).unwrap().contains("\"command\"");
        let files = files.filter(stands_alone);
        let mut files: Vec<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        let mut offered: Vec<_> = STARTING_PLANS.iter().map(|start| start.name.to_owned()).collect();
        files.sort();
        offered.sort();
        assert_eq!(offered, files);
        for start in STARTING_PLANS {
            assert!(starting_plan(start.name).is_some(), "{}", start.name);
            assert!(start.help().len() > 40 && !start.help().contains('\n'), "{}: {}", start.name, start.help());
        }
    }
}
