//! The warm-ups of runs. Runs that leave out different numbers of steps measure different steps.

use std::collections::BTreeSet;

use super::covered::weighed;
use crate::plan::WarmUp;
use crate::store::{RankRecord, RunRecord};

/// The warm-up of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// What its plan asks for.
    pub asked: WarmUp,
    /// The number of steps at its start that do not count. It may differ from what the plan asks for: a program can mark its warm-up itself,
    /// and captures of graphs take some steps.
    pub steps: u64,
}

impl LeftOut {
    /// The warm-up of a run by its slowest rank; `None` without steps, and if it is unknown what the plan asks for.
    pub(super) fn of(record: &RunRecord, slowest: Option<&RankRecord>) -> Option<Self> {
        let rank = slowest.filter(|rank| !rank.steps.is_empty())?;
        let first = weighed(rank).take_while(|(step, _)| step.warm_up);
        Some(Self { asked: record.warm_up?, steps: first.map(|(_, covered)| covered).sum() })
    }

    /// The least and the most steps that runs leave out because their plans ask for different warm-ups; `None` if no two of the runs
    /// differ. A warm-up that is found differs from run to run, which is no difference of plans.
    pub fn differing(runs: impl IntoIterator<Item = Self>) -> Option<[u64; 2]> {
        let all: BTreeSet<Self> = runs.into_iter().collect();
        let has_other = |one: &&Self| all.iter().any(|other| other.asked != one.asked && other.steps != one.steps);
        let steps: BTreeSet<u64> = all.iter().filter(has_other).map(|one| one.steps).collect();
        Some([*steps.first()?, *steps.last()?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{RunSummary, fixture, summarise_run};

    /// A run that leaves out the first `steps` steps, as its plan asks.
    fn run(asked: WarmUp, steps: u64) -> RunSummary {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.1);
        record.warm_up = Some(asked);
        record.ranks[0].steps.iter_mut().for_each(|step| step.warm_up = step.step <= steps);
        summarise_run(&record)
    }

    #[test]
    fn warm_ups_differ_where_plans_ask_for_others_and_get_them() {
        use WarmUp::{Found, Steps};
        let between = |runs: &[(WarmUp, u64)]| {
            LeftOut::differing(runs.iter().filter_map(|(asked, steps)| run(*asked, *steps).warm_up))
        };
        assert_eq!(between(&[(Steps(0), 0), (Steps(6), 6), (Steps(3), 3)]), Some([0, 6]));
        assert_eq!(between(&[(Steps(2), 6), (Steps(6), 6)]), None, "graphs are captured in as many steps");
        assert_eq!(between(&[(Steps(4), 5), (Steps(4), 7)]), None, "the program marks them itself");
        assert_eq!(between(&[(Found, 5), (Found, 7)]), None);
        assert_eq!(between(&[(Found, 5), (Found, 7), (Steps(4), 4)]), Some([4, 7]));
        assert_eq!(between(&[(Steps(4), 4)]), None);
        assert_eq!(summarise_run(&fixture::finished()).warm_up, None, "its plan is unknown");
    }

    #[test]
    fn a_logged_step_of_the_warm_up_stands_for_those_before_it() {
        let mut record = fixture::logging_each_tenth(fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.016));
        record.warm_up = Some(WarmUp::Steps(25));
        record.ranks[0].steps.iter_mut().for_each(|step| step.warm_up = step.step <= 25);
        assert_eq!(summarise_run(&record).warm_up, Some(LeftOut { asked: WarmUp::Steps(25), steps: 20 }));
    }
}
