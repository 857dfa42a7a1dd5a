//! Which marks a run's record gives. The summary of the run adds those that depend on its measures.

use std::collections::BTreeSet;

use super::{Mark, wall_clock};
use crate::plan::RunState;
use crate::protocol::{IMPORTED_FROM, TraceOutcome};
use crate::store::{LoadRecord, RunRecord};

/// The measure for the share of preference pairs with a generated answer.
const MADE_ANSWERS: &str = "made_answers_share";
/// If hardly any CPU is idle, other programs matter from this number of busy CPUs on, or from this share of all.
const OTHERS_CPUS: f64 = 0.25;
const OTHERS_SHARE: f64 = 0.05;
/// A GPU whose clock is at most this share of the median of the run's GPUs slows down all of them, since ranks run in lockstep. Drifts of 3
/// % within a run are marked, too.
const UNEVEN_CLOCK: f64 = 0.97;
/// From this share of busy CPUs on, hardly any CPU is idle.
const FULL_SHARE: f64 = 0.9;
/// A hypervisor matters if it takes this number of CPUs away, or this share of all.
const STOLEN_CPUS: f64 = 0.05;
const STOLEN_SHARE: f64 = 0.01;

/// The marks of a run that its record gives.
pub(super) fn record_marks(record: &RunRecord) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut add = |mark: Mark| {
        if !marks.contains(&mark) {
            marks.push(mark);
        }
    };
    if record.state.is_final() && record.state != RunState::Finished {
        let by_rank = record.ranks.iter().find_map(|rank| rank.failure.as_ref()).map(|(_, message)| message.as_str());
        let state = record.state.name();
        // A cancelled run has no further reason.
        let reason = record.reason.as_deref().or(by_rank).filter(|reason| *reason != state);
        add(Mark::Failed(reason.map_or(state.to_owned(), |reason| format!("{state}: {reason}"))));
    }
    if !record.telemetry.throttle_reasons.is_empty() {
        add(Mark::Throttled(record.telemetry.throttle_reasons.clone()));
    }
    if record.telemetry.shared {
        add(Mark::Shared);
    }
    marks_of_load(&record.telemetry.load).into_iter().for_each(&mut add);
    if let Some(share) = record.telemetry.load.least_clock_share.filter(|share| *share <= UNEVEN_CLOCK) {
        add(Mark::UnevenClocks(share));
    }
    if !record.beside.is_empty() {
        add(Mark::SharedNode(record.beside.clone()));
    }
    for evidence in record.evidence().filter(|evidence| !evidence.in_effect) {
        add(Mark::FactorNotInEffect {
            factor: evidence.factor.clone(),
            requested: evidence.asked.clone(),
            observed: evidence.seen.clone(),
        });
    }
    // All ranks skip the same updates: the highest count is the run's.
    let skipped =
        record.ranks.iter().map(|rank| rank.readings_of("skipped_updates").map(|reading| reading.value).sum::<f64>());
    if let Some(skipped) = skipped.max_by(f64::total_cmp).filter(|skipped| *skipped > 0.0) {
        add(Mark::SkippedUpdates(skipped as u64));
    }
    let tried = record.ranks.iter().filter_map(|rank| rank.last_reading("cudnn_trials_s"));
    if let Some(tried_s) = tried.max_by(f64::total_cmp) {
        add(Mark::Tried(tried_s));
    }
    let lasted = |hole_s: &f64| *hole_s > 0.0 && wall_clock::can_have_lasted(record, *hole_s);
    if let Some(hole_s) = record.telemetry.longest_hole_s.filter(lasted) {
        add(Mark::TelemetryHole(hole_s));
    }
    for message in record.warnings.iter().chain(record.ranks.iter().flat_map(|rank| &rank.warnings)) {
        add(Mark::Warned(message.clone()));
    }
    if wall_clock::was_set(record) {
        add(Mark::ClockSet);
    }
    let is_unrecorded = record.trace.as_ref().is_some_and(TraceOutcome::recorded_nothing);
    if record.tracer.is_on() && !is_unrecorded {
        let in_windows = record.ranks.iter().flat_map(|rank| &rank.steps).any(|step| step.traced);
        add(if in_windows { Mark::TracedInWindows } else { Mark::Traced });
    }
    marks_of_import(record).for_each(&mut add);
    let has_made_answers =
        record.ranks.iter().any(|rank| rank.last_reading(MADE_ANSWERS).is_some_and(|share| share > 0.0));
    if has_made_answers || record.workload.data_set(&record.data.set).is_some_and(|rule| rule.synthetic) {
        add(Mark::Synthetic);
    }
    match &record.trace {
        Some(TraceOutcome::Imported(trace)) => {
            trace.warnings.iter().for_each(|warning| add(Mark::Warned(format!("{}: {warning}", trace.file))));
        }
        Some(TraceOutcome::Failed(reason)) => add(Mark::NoTrace(reason.clone())),
        None => {}
    }
    marks
}

/// The marks of a run that was imported.
fn marks_of_import(record: &RunRecord) -> impl Iterator<Item = Mark> {
    let file = record.environment.as_ref().and_then(|environment| environment.get(IMPORTED_FROM));
    let (workload, is_own) = (&record.workload, move |cells: &BTreeSet<String>| cells.contains(&record.cell));
    let values = workload.measures.iter().filter(move |measure| is_own(&measure.recurring_cells));
    let dependent = workload.measures.iter().filter(move |measure| is_own(&measure.dependent_cells));
    let rows = is_own(&workload.recurring_cells).then_some(Mark::Recurring);
    let declared = is_own(&workload.declared_cells).then_some(Mark::DeclaredRuns);
    let values = values.map(|measure| Mark::RecurringValues(measure.key.clone()));
    let dependent = dependent.map(|measure| Mark::DependentValues(measure.key.clone()));
    let file = file.map(|file| Mark::Imported(file.to_owned()));
    file.into_iter().chain(rows).chain(values).chain(dependent).chain(declared)
}

/// The mark if a run lost CPUs to other programs. The documentation of the method states the thresholds.
fn marks_of_load(load: &LoadRecord) -> Option<Mark> {
    let (cpus, busy, others) = (load.cpus?, load.cpus_busy?, load.others_cpus?);
    let (all, stolen) = (f64::from(cpus), load.stolen_cpus.unwrap_or(0.0));
    let by_others = others >= OTHERS_CPUS.max(OTHERS_SHARE * all) && busy + stolen >= FULL_SHARE * all;
    let by_hypervisor = stolen >= STOLEN_CPUS.max(STOLEN_SHARE * all);
    (by_others || by_hypervisor).then_some(Mark::Contended { others, stolen, busy, cpus })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run};
    use crate::plan::Tracer;
    use crate::protocol::NOTHING_RECORDED;

    fn marks(cpus: u32, busy: f64, others: f64, stolen: f64) -> Vec<&'static str> {
        let mut record = fixture::finished();
        record.telemetry.load = LoadRecord {
            cpus: Some(cpus),
            cpus_busy: Some(busy),
            others_cpus: Some(others),
            stolen_cpus: Some(stolen),
            ..LoadRecord::default()
        };
        summarise_run(&record).marks.iter().map(Mark::label).collect()
    }

    #[test]
    fn a_run_that_lost_cpus_to_others_is_marked_and_one_that_did_not_is_not() {
        assert_eq!(marks(2, 1.99, 1.33, 0.0), ["contended"]);
        assert_eq!(marks(2, 1.99, 0.03, 0.0), [""; 0], "alone it keeps all CPUs busy itself");
        assert_eq!(marks(16, 9.0, 5.0, 0.0), [""; 0], "there are idle CPUs");
        assert_eq!(marks(16, 15.5, 0.5, 0.0), [""; 0], "too little of them");
        // From 5 % of all CPUs on, and from 1 % of what a hypervisor takes.
        for (others, marked) in [(3.1, false), (3.3, true)] {
            assert_eq!(!marks(64, 63.5, others, 0.0).is_empty(), marked, "{others} of 64");
        }
        for (others, marked) in [(0.24, false), (0.26, true)] {
            assert_eq!(!marks(2, 1.99, others, 0.0).is_empty(), marked, "{others} of 2");
        }
        for (stolen, marked) in [(0.63, false), (0.65, true)] {
            assert_eq!(!marks(64, 9.0, 0.0, stolen).is_empty(), marked, "{stolen} of 64 stolen");
        }
        assert_eq!(marks(64, 57.5, 9.0, 0.0), [""; 0], "a tenth of the CPUs is idle");
        assert_eq!(marks(64, 57.7, 9.0, 0.0), ["contended"]);
        assert_eq!(marks(2, 1.2, 0.0, 0.3), ["contended"], "a hypervisor takes time away");
        assert!(summarise_run(&fixture::finished()).marks.is_empty(), "of an earlier version, nothing is known");
        let lost = Mark::Contended { others: 1.33, stolen: 0.0, busy: 1.99, cpus: 2 };
        assert!(lost.to_string().contains("1.33 of 2 CPUs"), "{lost}");
    }

    #[test]
    fn a_run_that_no_tracer_recorded_is_not_marked_as_traced_and_one_whose_recording_was_lost_is() {
        let mut record = fixture::finished();
        record.tracer = Tracer::BuiltIn;
        for (reason, labels) in [
            (format!("{NOTHING_RECORDED}: no process of the program used CUDA or NVTX"), ["no trace"].as_slice()),
            ("trace.events is damaged".to_owned(), &["traced", "no trace"]),
        ] {
            record.trace = Some(TraceOutcome::Failed(reason));
            let marks: Vec<_> = summarise_run(&record).marks.iter().map(Mark::label).collect();
            assert_eq!(marks, labels);
        }
    }

    #[test]
    fn losses_over_generated_answers_are_marked_and_a_share_of_none_of_them_is_not() {
        for (share, marked) in [(0.0, false), (0.25, true)] {
            let mut record = fixture::finished();
            record.ranks[0].readings.push(fixture::reading_record(MADE_ANSWERS, share, None));
            assert_eq!(summarise_run(&record).marks.contains(&Mark::Synthetic), marked, "{share}");
        }
    }
}
