//! Compares the machine's clock, which may be set at any time, with durations that cannot be changed.

use crate::store::{RankRecord, RunRecord};

/// Events are reported slightly after they happened.
const SLACK_S: f64 = 5.0;

/// The time from the start of a run's processes to their end, as the launcher measured it; if it is unknown, the longest life of a rank.
pub(super) fn total_time(record: &RunRecord) -> Option<f64> {
    let by_ranks = || record.ranks.iter().filter_map(|rank| rank.duration_s).max_by(f64::total_cmp);
    record.launched_s().or_else(by_ranks)
}

/// Whether something in a run can have lasted this long by the clock. If it would have lasted longer than the run, the clock was set.
pub(super) fn can_have_lasted(record: &RunRecord, duration_s: f64) -> bool {
    total_time(record).is_none_or(|total_s| duration_s <= total_s + SLACK_S)
}

/// Whether the clock was set while the steps of a run were made. The times that a program reports for its steps are not used as evidence.
pub(super) fn was_set(record: &RunRecord) -> bool {
    let is_program = record.workload.command.is_some();
    record.ranks.iter().any(|rank| if is_program { jumps(rank) } else { disagrees(rank) })
}

/// Whether steps were logged after the process had ended, or in the past.
fn jumps(rank: &RankRecord) -> bool {
    let went_back = rank.steps.windows(2).any(|pair| pair[1].time_s < pair[0].time_s - SLACK_S);
    went_back || outlives(rank)
}

/// Whether, by the clock, steps lasted longer than the process lived.
fn outlives(rank: &RankRecord) -> bool {
    let by_clock_s = rank.steps.last().zip(rank.steps.first()).map(|(last, first)| last.time_s - first.time_s);
    by_clock_s.zip(rank.duration_s).is_some_and(|(by_clock_s, life_s)| by_clock_s > life_s + SLACK_S)
}

/// Whether, by the clock, the steps lasted longer than the process lived, or shorter than they took.
fn disagrees(rank: &RankRecord) -> bool {
    let (Some(first), Some(last)) = (rank.steps.first(), rank.steps.last()) else { return false };
    let by_clock_s = last.time_s - first.time_s;
    let steady = rank.steps.iter().skip(1).filter(|step| !step.warm_up);
    let at_least_s: f64 = steady.map(|step| step.duration_s).sum();
    by_clock_s < at_least_s - SLACK_S || outlives(rank)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Mark, RunSummary, fixture, summarise_run};
    use crate::plan::RunState;
    use crate::store::held_cells;

    #[test]
    fn a_cells_time_is_that_of_its_last_finished_run_by_a_clock_that_was_not_set_back() {
        let run = |repeat: u32, state: RunState, ended_time_s: f64| RunRecord {
            state,
            started_time_s: Some(100.0),
            ended_time_s: Some(ended_time_s),
            ..fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 1.0)
        };
        let mut runs = vec![run(1, RunState::Finished, 107.0), run(2, RunState::Finished, 108.5)];
        runs.extend([run(3, RunState::Failed, 101.0), run(4, RunState::Finished, 40.0)]);
        let held = held_cells(&runs);
        assert_eq!(held.values().map(|cell| cell.last_s).collect::<Vec<_>>(), [Some(8.5)]);
    }

    #[test]
    fn a_clock_that_was_set_leaves_what_cannot_be_set() {
        for hours in [-2.0, 2.0] {
            let mut record = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 1.0);
            let whole = summarise_run(&record);
            assert!(!whole.marks.contains(&Mark::ClockSet) && !whole.activity.is_empty());
            // Set after the twelfth step; the end of a run is measured from its start.
            for step in record.ranks.iter_mut().flat_map(|rank| rank.steps.iter_mut().skip(12)) {
                step.time_s += hours * 3600.0;
            }
            let set = summarise_run(&record);
            assert!(set.marks.contains(&Mark::ClockSet) && set.activity.is_empty(), "{:?}", set.marks);
            let times = |run: &RunSummary| ["step_time_s", "epoch_time_s", "total_time_s"].map(|key| run.value(key));
            assert_eq!(times(&set), times(&whole));
        }
    }

    #[test]
    fn a_hole_of_telemetry_that_is_longer_than_the_run_is_the_clocks() {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 1.0);
        let total_s = total_time(&record).unwrap();
        for (hole_s, is_marked) in [(3.0, true), (total_s + 4.0, true), (total_s + 6.0, false), (3600.0, false)] {
            record.telemetry.longest_hole_s = Some(hole_s);
            let marks = summarise_run(&record).marks;
            assert_eq!(marks.contains(&Mark::TelemetryHole(hole_s)), is_marked, "{marks:?}");
        }
    }

    #[test]
    fn steps_that_are_told_late_are_no_sign_of_it() {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.01);
        record.ranks[0].steps.last_mut().unwrap().time_s += 3.0;
        assert!(!was_set(&record));
        record.ranks[0].steps.clear();
        assert!(!was_set(&record));
    }
}
