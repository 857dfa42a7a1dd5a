//! The phases of each rank of a run over time: starting, warming up, training, testing.

use strum::{IntoStaticStr, VariantArray};

use super::wall_clock::was_set;
use crate::plan::named;
use crate::store::{RankRecord, RunRecord};

/// A phase of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, VariantArray, IntoStaticStr)]
pub enum Phase {
    /// From the start of the processes to the first step: loading data, building the model.
    Start,
    /// Warm-up steps, which do not count.
    #[strum(serialize = "Warm-up")]
    WarmUp,
    /// Steps that count.
    Training,
    /// The test after an epoch.
    Test,
}

named!(Phase: all, name);

/// One phase of one rank, in seconds since its run was started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activity {
    /// The rank.
    pub rank: u32,
    /// The phase.
    pub phase: Phase,
    /// Its start.
    pub start_s: f64,
    /// Its end, which is not before `start_s`.
    pub end_s: f64,
}

/// The phases of a run's ranks, sorted by rank and time; the record must contain the steps.
pub(super) fn activity(record: &RunRecord) -> Vec<Activity> {
    if was_set(record) {
        return Vec::new();
    }
    let first = |rank: &RankRecord| rank.steps.first().map(|step| step.time_s - step.duration_s);
    let earliest = record.ranks.iter().filter_map(first).min_by(f64::total_cmp);
    let Some(origin) = record.started_time_s.or(earliest) else { return Vec::new() };
    let spans = record.ranks.iter().flat_map(|rank| of_rank(rank, origin));
    spans.filter(|span| span.start_s >= 0.0 && span.end_s > span.start_s && span.end_s.is_finite()).collect()
}

fn of_rank(rank: &RankRecord, origin: f64) -> Vec<Activity> {
    let mut spans = Vec::new();
    let mut add =
        |phase: Phase, start_s: f64, end_s: f64| spans.push(Activity { rank: rank.rank, phase, start_s, end_s });
    if let Some(step) = rank.steps.first() {
        add(Phase::Start, 0.0, step.time_s - step.duration_s - origin);
    }
    for epoch in rank.steps.chunk_by(|a, b| a.epoch == b.epoch) {
        for part in epoch.chunk_by(|a, b| a.warm_up == b.warm_up) {
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let phase = if first.warm_up { Phase::WarmUp } else { Phase::Training };
            add(phase, first.time_s - first.duration_s - origin, last.time_s - origin);
        }
        let Some(last) = epoch.last() else { continue };
        if let Some(test) = rank.readings_of("evaluation_time_s").find(|test| test.epoch == Some(last.epoch)) {
            add(Phase::Test, last.time_s - origin, last.time_s - origin + test.value);
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;

    #[test]
    fn phases_follow_each_other_and_start_at_the_start_of_the_run() {
        let record = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 1.0);
        let activity = activity(&record);
        let phases =
            |rank: u32| activity.iter().filter(|one| one.rank == rank).map(|one| one.phase).collect::<Vec<_>>();
        // The first steps report ten times the time between their events; still, no phase starts before the run.
        assert!(activity.iter().all(|one| one.start_s >= 0.0 && one.end_s > one.start_s));
        assert!(phases(0).contains(&Phase::Training) && phases(1).contains(&Phase::Test));
    }

    #[test]
    fn a_run_without_steps_has_no_activity() {
        let mut record = fixture::finished();
        record.ranks.iter_mut().for_each(|rank| rank.steps.clear());
        assert!(activity(&record).is_empty());
        record.started_time_s = Some(f64::NAN);
        assert!(activity(&record).is_empty());
    }
}
