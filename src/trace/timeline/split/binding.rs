//! The sentence that says what limits a run.

use std::collections::BTreeMap;

use strum::IntoEnumIterator as _;

use super::{Binding, Part, Process, Split};
use crate::statistics::INTERVAL_REPEATS;

/// The smallest share of a step's time with which a part can limit a run.
const BINDS: f64 = 0.25;
/// The number of steps from which the extremes are a 95 % interval of the median; with fewer steps nothing is concluded.
const JUDGED_STEPS: usize = INTERVAL_REPEATS;
/// If a rank is last in this share of the collectives, it is named.
const ALWAYS_LAST: f64 = 0.8;

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The sentence about a part of the steps that limits them: `amount` is its share of a step, and `over` says over how many steps.
fn limit(part: Part, amount: &str, over: &str, processes: &BTreeMap<i64, Process>) -> String {
    match part {
        Part::Data => format!("Limited by the loader: {amount} is waiting for data{over}."),
        Part::Launch => {
            format!("Limited by launches: for {amount} the GPU is idle because work arrives too slowly{over}.")
        }
        Part::Copy => format!("Limited by data movement: {amount} is copies that overlap with nothing else{over}."),
        Part::Straggler => {
            format!("Limited by the slowest rank: {amount} is waiting for it{over}.{}", slowest(processes))
        }
        Part::Communication => {
            format!("Limited by communication: {amount} is collectives that overlap with nothing else{over}.")
        }
        Part::Synchronisation => {
            format!("Limited by the host's waits: for {amount} the host waits while its GPU is idle{over}.")
        }
        _ => {
            format!(
                "Nothing in the recording explains {amount}{over}: neither kernels, copies, the loader nor calls of CUDA."
            )
        }
    }
}

/// The sentence that says what limits the run.
pub(super) fn binding(split: &Split, processes: &BTreeMap<i64, Process>) -> Binding {
    let none = |sentence: String| Binding { part: None, sentence };
    let counted: std::collections::BTreeSet<usize> =
        split.steps.iter().filter(|step| !step.warm_up).map(|step| step.step).collect();
    let counted = counted.len();
    if split.steps.is_empty() {
        return none("Nothing was recorded.".to_owned());
    }
    // Otherwise the start-up would be taken for what limits the steps.
    if !split.has_steps {
        let no_steps = "Cannot tell what limits the steps: the recording marks none, and no kernel recurs. Ranges named step, iteration or ProfilerStep would \
                        mark them.";
        return none(no_steps.to_owned());
    }
    if counted < JUDGED_STEPS {
        return none(format!(
            "Cannot tell what limits the steps: there are {counted} after the warm-up, and {JUDGED_STEPS} are needed."
        ));
    }
    let over = format!(" (median of {counted} steps)");
    let compute: f64 =
        Part::iter().filter(|part| part.computes()).filter_map(|part| split.part(part)).map(|time| time.share).sum();
    let mut others: Vec<(Part, f64, (f64, f64))> = Part::iter()
        .filter(|part| !part.computes())
        .map(|part| split.part(part).map_or((part, 0.0, (0.0, 0.0)), |time| (part, time.share, time.interval)))
        .collect();
    others.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some(&(part, share, (low, high))) = others.first() else { return none(String::new()) };
    let second = others.get(1).map_or(0.0, |(_, _, (_, high))| *high);
    let interval = format!(" [{}, {}]", percent(low), percent(high));
    if share >= BINDS && low > second && low > 0.5 * BINDS {
        let amount = format!("{}{interval} of a step", percent(share));
        let sentence = limit(part, &amount, &over, processes);
        let part = (!matches!(part, Part::Idle | Part::Step)).then_some(part);
        return Binding { part, sentence };
    }
    if compute >= 0.6 {
        let most = Part::iter().filter(|part| part.computes()).filter_map(|part| Some((part, split.part(part)?.share)));
        let (most, of_most) = most.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Part::Kernels, 0.0));
        // DistributedDataParallel's collectives run within the backward pass, where the host's ranges do not show them.
        let on_hosts =
            processes.len() > 1 && processes.values().all(|process| !process.has_gpu && process.waits.is_none());
        let unsaid = if on_hosts && most == Part::Backward {
            "With several ranks this includes their communication, which this recording does not distinguish."
        } else {
            "The recording cannot tell whether memory or arithmetic limits it."
        };
        let share = if of_most > 0.5 * compute { "most" } else { "the largest part" };
        let sentence = format!(
            "Limited by computing: {} of a step{over}, {share} of it {} ({} of the step). {unsaid}",
            percent(compute),
            most.name(),
            percent(of_most)
        );
        return Binding { part: Some(most), sentence };
    }
    let named: Vec<String> =
        others.iter().take(2).map(|(part, share, _)| format!("{} {}", part.name(), percent(*share))).collect();
    none(format!("No single cause stands out: computing {} of a step{over}, {}.", percent(compute), named.join(", ")))
}

/// Which rank is last, if it is nearly always the same one.
fn slowest(processes: &BTreeMap<i64, Process>) -> String {
    let communicating: Vec<&Process> = processes.values().filter(|process| !process.collectives.is_empty()).collect();
    let count = communicating.first().map_or(0, |process| process.collectives.len());
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for n in 0..count {
        let slowest = communicating
            .iter()
            .enumerate()
            .filter_map(|(place, process)| Some((process.collectives.get(n)?.span.0, place)))
            .max();
        *last.entry(slowest.map_or(0, |(_, place)| place)).or_default() += 1;
    }
    match last.into_iter().max_by_key(|(_, times)| *times) {
        Some((place, times)) if times as f64 >= ALWAYS_LAST * count as f64 => {
            format!(" {} is last in {times} of {count} collectives.", communicating[place].name)
        }
        _ => " The slowest rank is not always the same one.".to_owned(),
    }
}
