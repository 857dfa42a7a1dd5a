//! Why runs lack a measure that they could have.

use super::RunSummary;
use super::counted;
use super::measure::{GPU_BUSY, OF_GPM};
use super::recorded::RecordedMeasure;

/// The reason why a measure is wrong, or why no run has it. `None` if a run has it. Only three kinds of measures have such reasons: measures
/// that compared sessions define differently, measures of recordings by pattern, and measures of the GPUs' samples.
pub fn why_absent<'r>(runs: impl IntoIterator<Item = &'r RunSummary>, key: &str) -> Option<String> {
    let runs: Vec<&RunSummary> = runs.into_iter().collect();
    if let Some(why) = runs.iter().find_map(|run| run.disputed.get(key)) {
        return Some(why.clone());
    }
    let is_sampled = key == GPU_BUSY || OF_GPM.contains(&key);
    let why = match RecordedMeasure::parse(key) {
        Some(Err(wrong)) => return Some(wrong),
        Some(Ok(asked)) => why_not_recorded(&runs, &asked)?,
        None if is_sampled => why_not_sampled(&runs, key)?,
        None => return None,
    };
    Some(format!("measure {key}: {why}"))
}

fn why_not_recorded(runs: &[&RunSummary], asked: &RecordedMeasure) -> Option<String> {
    let mut reasons: Vec<String> = Vec::new();
    for trace in runs.iter().filter_map(|run| run.trace_summary()) {
        match asked.value(trace) {
            Ok(_) => return None,
            Err(reason) => reasons.push(reason),
        }
    }
    Some(match reasons.as_slice() {
        [] => "no run is recorded; a plan with `trace = \"built-in\"` records its runs".to_owned(),
        [only] => only.clone(),
        [first, ..] => format!("{first}; the other {} have none either", counted(reasons.len() - 1, "recording")),
    })
}

fn why_not_sampled(runs: &[&RunSummary], key: &str) -> Option<String> {
    if runs.is_empty() || runs.iter().any(|run| run.value(key).is_some()) {
        return None;
    }
    let mut devices: Vec<&str> = runs.iter().filter_map(|run| run.device.as_deref()).collect();
    devices.sort_unstable();
    devices.dedup();
    if !devices.is_empty() && devices.iter().all(|device| *device == "cpu") {
        return Some("these runs used no GPU".to_owned());
    }
    let devices = devices.join(", ");
    Some(match key {
        GPU_BUSY => format!("the samples of these runs ({devices}) contain no utilisation while steps counted"),
        _ => format!(
            "the samples of these runs ({devices}) contain none while steps counted: GPM needs a Hopper GPU or newer without MIG, and a run \
             longer than some samples"
        ),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::measure::{SM_ACTIVITY, TENSOR_ACTIVITY};
    use crate::analysis::{fixture, summarise_run};
    use crate::store::RunRecord;

    #[test]
    fn the_activity_of_gpus_is_a_measure_and_its_absence_has_a_reason() {
        let mut record = fixture::finished();
        let on = |record: &mut RunRecord, device: &str| {
            record.ranks.iter_mut().for_each(|rank| rank.device.as_mut().unwrap().name = device.to_owned());
        };
        on(&mut record, "NVIDIA A100-SXM4-80GB");
        let without = [summarise_run(&record)];
        let why = why_absent(&without, SM_ACTIVITY).unwrap();
        assert!(why.contains("Hopper") && why.contains("A100"), "{why}");
        assert_eq!(why_absent(&without, "energy_j"), None, "nothing special is known about other measures");
        (record.telemetry.load.gpus_busy, record.telemetry.load.sm_activity) = (Some(0.99), Some(0.4));
        let run = summarise_run(&record);
        assert_eq!((run.value(GPU_BUSY), run.value(SM_ACTIVITY)), (Some(0.99), Some(0.4)), "a busy GPU has idle SMs");
        assert_eq!(why_absent([&run], SM_ACTIVITY), None);
        assert!(why_absent([&run], TENSOR_ACTIVITY).is_some());
        on(&mut record, "cpu");
        let on_cpus = [summarise_run(&record)];
        assert!(why_absent(&on_cpus, TENSOR_ACTIVITY).unwrap().contains("used no GPU"));
    }
}
