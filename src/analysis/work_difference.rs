//! Explains the difference between the steps of two groups of recordings, kernel by kernel: the differences of the parts add up to the
//! difference of the steps.
//!
//! A step of a rank takes as long as its GPU was busy plus as long as nothing ran on it. Busy time is the time of all kernels and copies,
//! less the time in which several of them ran at once. Each of these parts is divided by the number of steps, and its mean over the
//! recordings of a group is compared with the mean of the other group. Means add up; medians would not.
//!
//! Whether a part changed beyond noise is tested by Welch's t (B. L. Welch, The generalization of Student's problem, *Biometrika* 34, 1947)
//! over recordings, with Holm's correction for all parts.

use std::collections::{BTreeMap, BTreeSet};

use super::contrast::{Contrast, ERROR, Sample, holm};
use super::renamed_kernels::{INDUCTOR, Placed, renamed};
use super::{Method, Value};
use crate::protocol::{TraceEntry, TraceList, TraceLists};

/// The part for time in which several kernels or copies ran at once, which is counted once in busy time.
pub const OVERLAP: &str = "(ran at the same time)";
/// The part for time in which nothing ran.
pub const IDLE: &str = "(GPU idle)";

/// How a part of the step changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkVerdict {
    /// No recording before has it, and each recording after does.
    Appeared,
    /// Each recording before has it, and none after.
    Vanished,
    /// It takes longer, beyond the spread of the recordings.
    Longer,
    /// It takes less time, beyond the spread of the recordings.
    Shorter,
    /// The difference is within the spread of the recordings.
    WithinNoise,
    /// A group has a single recording, so its spread is unknown.
    Unknown,
}

impl WorkVerdict {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Appeared => "appeared",
            Self::Vanished => "vanished",
            Self::Longer => "longer",
            Self::Shorter => "shorter",
            Self::WithinNoise => "within noise",
            Self::Unknown => "single recording",
        }
    }
}

/// A part of the step in both groups. Times are seconds for each step and rank.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkChange {
    /// The name of the kernels with their template arguments folded, the kind of copy, [`OVERLAP`] or [`IDLE`]. For kernels that only
    /// changed their name, both names with an arrow between them.
    pub name: String,
    /// Mean time before and after.
    pub means_s: (f64, f64),
    /// Mean number of calls in a step before and after; `None` for parts that are not calls.
    pub calls: Option<(f64, f64)>,
    /// After minus before, with the 95 % interval of Welch's t, which is not corrected for the number of parts.
    pub difference_s: Value,
    /// The share of the step's difference that this part explains; all parts together explain 1. `None` if the steps do not differ.
    pub share: Option<f64>,
    /// The verdict.
    pub verdict: WorkVerdict,
}

/// The comparison of two groups of recordings.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkDifference {
    /// The parts of the difference, the largest first.
    pub parts: Vec<WorkChange>,
    /// The step of all parts together.
    pub step: WorkChange,
    /// The number of recordings before and after.
    pub recordings: (usize, usize),
}

/// A recording's parts of a step, in seconds and calls.
type Parts = BTreeMap<String, (f64, f64)>;

/// Compares recordings before a change with recordings after it.
///
/// # Errors
/// A group is empty, or a recording lacks what is needed: marked steps, or work of GPUs.
pub fn work_difference(before: &[&TraceLists], after: &[&TraceLists]) -> Result<WorkDifference, String> {
    if before.is_empty() || after.is_empty() {
        return Err("there must be recordings on both sides".to_owned());
    }
    let placed = |group: &[&TraceLists]| group.first().map_or(Vec::new(), |lists| placed(lists));
    let renamed = renamed(&placed(before), &placed(after));
    let parts = |group: &[&TraceLists]| group.iter().map(|lists| parts(lists)).collect::<Result<Vec<Parts>, _>>();
    let (mut before, mut after) = (parts(before)?, parts(after)?);
    for (old, new) in renamed {
        // All recordings of a side must agree with the first.
        let are = |group: &[Parts], has: &String, lacks: &String| {
            group.iter().all(|parts| parts.contains_key(has) && !parts.contains_key(lacks))
        };
        if are(&before, &old, &new) && are(&after, &new, &old) {
            let name = format!("{old} → {new}");
            rename(&mut before, &old, &name);
            rename(&mut after, &new, &name);
        }
    }
    let names: BTreeSet<&String> = before.iter().chain(&after).flat_map(BTreeMap::keys).collect();
    let whole = |group: &[Parts]| -> Vec<f64> {
        group.iter().map(|parts| parts.values().map(|(seconds, _)| seconds).sum()).collect()
    };
    let compared: Vec<Compared> = names.iter().map(|name| Compared::of(&before, &after, name)).collect();
    let adjusted = holm(&compared.iter().map(|one| one.p).collect::<Vec<_>>());
    let mut step = Compared { name: "step", times: [whole(&before), whole(&after)], calls: None, p: 1.0 };
    step.p = step.tested();
    let step_s = step.difference();
    let mut changes: Vec<WorkChange> =
        compared.iter().zip(adjusted).map(|(one, p)| one.change(p, (step_s != 0.0).then_some(step_s))).collect();
    changes.sort_by(|a, b| b.difference_s.median.abs().total_cmp(&a.difference_s.median.abs()));
    let step = step.change(step.p, (step_s != 0.0).then_some(step_s));
    Ok(WorkDifference { parts: changes, step, recordings: (before.len(), after.len()) })
}

/// The parts of a recording's step.
fn parts(lists: &TraceLists) -> Result<Parts, String> {
    let (lists, steps) = lists.of_step(TraceList::Kernel);
    if steps == 0 {
        return Err(
            "a recording marks no steps: ranges named step, iteration or ProfilerStep would mark them".to_owned()
        );
    }
    if lists.gpu_busy_s <= 0.0 {
        return Err("a recording contains no work of a GPU".to_owned());
    }
    let steps = steps as f64;
    let mut parts = Parts::new();
    let mut add = |name: String, entry: &TraceEntry| {
        let (seconds, calls) = parts.entry(name).or_default();
        *seconds += entry.seconds / steps;
        *calls += entry.calls as f64 / steps;
    };
    lists.kernels.iter().for_each(|entry| add(folded(&entry.name), entry));
    lists.copies.iter().for_each(|entry| add(entry.name.clone(), entry));
    let busy_s: f64 = parts.values().map(|(seconds, _)| seconds).sum();
    parts.insert(OVERLAP.to_owned(), (lists.gpu_busy_s / steps - busy_s, 0.0));
    parts.insert(IDLE.to_owned(), (lists.gpu_idle_s / steps, 0.0));
    Ok(parts)
}

/// The kernels of a recording in the order in which they begin for the first time. Empty for recordings of earlier versions.
fn placed(lists: &TraceLists) -> Vec<Placed> {
    let (lists, steps) = lists.of_step(TraceList::Kernel);
    let kernels = lists.kernels.iter().filter_map(|entry| Some((entry.place?, entry)));
    let mut all: Vec<Placed> = Vec::new();
    for entry in kernels.collect::<BTreeMap<u32, &TraceEntry>>().into_values() {
        let (name, calls) = (folded(&entry.name), entry.calls as f64 / steps.max(1) as f64);
        match all.iter_mut().find(|known| known.name == name) {
            Some(known) => known.calls += calls,
            None => all.push(Placed { name, calls }),
        }
    }
    all
}

/// Gives a part another name in all recordings of a group.
fn rename(group: &mut [Parts], old: &str, new: &str) {
    for parts in group {
        let part = parts.remove(old);
        parts.extend(part.map(|part| (new.to_owned(), part)));
    }
}

/// A part in all recordings of both groups.
struct Compared<'n> {
    name: &'n str,
    times: [Vec<f64>; 2],
    calls: Option<[Vec<f64>; 2]>,
    p: f64,
}

impl<'n> Compared<'n> {
    fn of(before: &[Parts], after: &[Parts], name: &'n String) -> Self {
        let value = |parts: &Parts| parts.get(name).copied().unwrap_or_default();
        let times = [before, after].map(|group| group.iter().map(|parts| value(parts).0).collect());
        let calls = [before, after].map(|group| group.iter().map(|parts| value(parts).1).collect());
        let is_work = name != OVERLAP && name != IDLE;
        let mut compared = Self { name, times, calls: is_work.then_some(calls), p: 1.0 };
        compared.p = compared.tested();
        compared
    }

    fn difference(&self) -> f64 {
        mean(&self.times[1]) - mean(&self.times[0])
    }

    /// Welch's test; `None` if a group has a single recording.
    fn welch(&self) -> Option<Contrast> {
        let [before, after] = self.times.clone();
        Contrast::of_sample(&Sample::Groups(vec![(-1.0, before), (1.0, after)]))
    }

    fn tested(&self) -> f64 {
        self.welch().map_or(1.0, |contrast| contrast.difference())
    }

    /// The verdict, given the corrected probability of such a difference by chance.
    fn judged(&self, p: f64) -> WorkVerdict {
        let has = |calls: &[f64]| calls.iter().all(|calls| *calls > 0.0);
        let lacks = |calls: &[f64]| calls.iter().all(|calls| *calls == 0.0);
        match &self.calls {
            Some([before, after]) if lacks(before) && has(after) => WorkVerdict::Appeared,
            Some([before, after]) if has(before) && lacks(after) => WorkVerdict::Vanished,
            _ if self.welch().is_none() => WorkVerdict::Unknown,
            _ if p >= ERROR => WorkVerdict::WithinNoise,
            _ if self.difference() > 0.0 => WorkVerdict::Longer,
            _ => WorkVerdict::Shorter,
        }
    }

    fn change(&self, p: f64, step_s: Option<f64>) -> WorkChange {
        let difference_s = self.difference();
        let interval = self.welch().map(|contrast| contrast.interval());
        let method = if interval.is_some() { Method::Means } else { Method::One };
        let n = self.times.iter().map(Vec::len).sum();
        WorkChange {
            name: self.name.to_owned(),
            means_s: (mean(&self.times[0]), mean(&self.times[1])),
            calls: self.calls.as_ref().map(|[before, after]| (mean(before), mean(after))),
            difference_s: Value { median: difference_s, interval, n, method },
            share: step_s.map(|step_s| difference_s / step_s),
            verdict: self.judged(p),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The texts that compilers write for a namespace without a name.
const NAMELESS: [&str; 2] = ["<unnamed>", "(anonymous namespace)"];

/// A kernel's name without its result, its arguments and its template arguments, and for Inductor's kernels without their number, which
/// changes from build to build: `at::native::reduce_kernel<…>` for `void at::native::reduce_kernel<512, 1>(float *)`.
pub fn folded(kernel: &str) -> String {
    if let (true, Some((name, number))) = (kernel.starts_with(INDUCTOR), kernel.rsplit_once('_')) {
        return if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) { name } else { kernel }
            .to_owned();
    }
    let name = kernel.strip_prefix("void ").unwrap_or(kernel);
    let (mut text, mut depth, mut rest) = (String::new(), 0_usize, name);
    while let Some(letter) = rest.chars().next() {
        if let Some(nameless) = NAMELESS.iter().find(|nameless| rest.starts_with(**nameless)) {
            if depth == 0 {
                text += nameless;
            }
            rest = &rest[nameless.len()..];
            continue;
        }
        match letter {
            '<' => {
                if depth == 0 {
                    text += "<…>";
                }
                depth += 1;
            }
            '>' if depth > 0 => depth -= 1,
            '(' if depth == 0 => return text,
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
        rest = &rest[letter.len_utf8()..];
    }
    // A name with unequal brackets is not a C++ name, or was cut.
    if depth == 0 { text } else { kernel.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::statistics::Interval;

    fn entry(name: &str, calls: u64, seconds: f64) -> TraceEntry {
        TraceEntry { name: name.to_owned(), calls, seconds, place: None }
    }

    /// A recording of ten steps. Each kernel is given with its milliseconds per step; in each step nothing ran for 1 ms.
    fn recording(kernels: &[(&str, f64)]) -> TraceLists {
        let kernels: Vec<TraceEntry> = kernels.iter().map(|(name, ms)| entry(name, 20, ms * 10.0 * 1e-3)).collect();
        let sum: f64 = kernels.iter().map(|kernel| kernel.seconds).sum();
        TraceLists { ranks: 1, steps: 10, gpu_busy_s: 0.9 * sum, gpu_idle_s: 0.01, kernels, ..TraceLists::default() }
    }

    fn compare(before: &[TraceLists], after: &[TraceLists]) -> WorkDifference {
        work_difference(&before.iter().collect::<Vec<_>>(), &after.iter().collect::<Vec<_>>()).unwrap()
    }

    fn compared(before: &[f64], after: &[f64]) -> Compared<'static> {
        Compared { name: "gemm", times: [before.to_vec(), after.to_vec()], calls: None, p: 1.0 }
    }

    #[test]
    fn the_parts_of_a_difference_add_up_to_the_steps_difference() {
        let before: Vec<_> =
            [1.0, 1.01, 0.99].map(|noise| recording(&[("void gemm<1>(int)", 4.0 * noise), ("relu", noise)])).into();
        let after: Vec<_> =
            [1.0, 1.01, 0.99].map(|noise| recording(&[("void gemm<2>(int)", 2.0 * noise), ("gelu", noise)])).into();
        let found = compare(&before, &after);
        let part = |name: &str| found.parts.iter().find(|part| part.name == name).unwrap();
        assert_eq!(found.parts[0].name, "gemm<…>", "the largest difference is first");
        assert_eq!(part("gemm<…>").verdict, WorkVerdict::Shorter);
        assert_eq!((part("relu").verdict, part("gelu").verdict), (WorkVerdict::Vanished, WorkVerdict::Appeared));
        assert_eq!(part(IDLE).verdict, WorkVerdict::WithinNoise);
        assert!((part("gemm<…>").difference_s.median + 0.002).abs() < 1e-12);
        assert_eq!(part("gemm<…>").calls, Some((2.0, 2.0)));
        let sum: f64 = found.parts.iter().map(|part| part.difference_s.median).sum();
        assert!((sum - found.step.difference_s.median).abs() < 1e-15, "{sum}");
        let shares: f64 = found.parts.iter().map(|part| part.share.unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        // 0.9 of 5 ms and 1 ms without work.
        assert!((found.step.means_s.0 - 0.0055).abs() < 1e-12);
    }

    #[test]
    fn a_step_is_made_of_the_work_within_the_steps_that_count() {
        let recorded = |ms: f64| {
            let in_steps = recording(&[("gemm", ms)]);
            // The whole recording contains a start of a second, and a trial.
            let whole = recording(&[("gemm", ms), ("trial", 3.0)]);
            TraceLists { gpu_idle_s: 1.0, begun_steps: 12, in_steps: Some(Box::new(in_steps)), ..whole }
        };
        let found = compare(&[recorded(2.0)], &[recorded(4.0)]);
        assert!((found.step.means_s.0 - 0.0028).abs() < 1e-12, "{:?}", found.step);
        assert!(found.parts.iter().all(|part| part.name != "trial"), "{found:?}");
    }

    #[test]
    fn a_kernel_whose_name_changed_is_one_part_with_both_names() {
        let recording = |name: &str, ms: f64| -> TraceLists {
            let mut lists = recording(&[("gemm", 4.0), (name, ms), ("softmax", 1.0)]);
            (0..).zip(&mut lists.kernels).for_each(|(place, kernel)| kernel.place = Some(place));
            lists
        };
        let before = [1.0, 1.01, 0.99].map(|noise| recording("triton_poi_fused_gelu_3", 2.0 * noise));
        let after = [1.0, 1.01, 0.99].map(|noise| recording("triton_poi_fused_gelu_mul_7", 3.0 * noise));
        let found = compare(&before, &after);
        let changed = &found.parts[0];
        assert_eq!(
            (changed.name.as_str(), changed.verdict),
            ("triton_poi_fused_gelu → triton_poi_fused_gelu_mul", WorkVerdict::Longer)
        );
        assert!((changed.difference_s.median - 0.001).abs() < 1e-9 && changed.calls == Some((2.0, 2.0)), "{changed:?}");
        assert!(found.parts.iter().all(|part| !matches!(part.verdict, WorkVerdict::Appeared | WorkVerdict::Vanished)));
        // A recording that has both kernels contradicts the others.
        let mut both = after;
        both[1].kernels.push(entry("triton_poi_fused_gelu_4", 20, 1e-3));
        assert!(compare(&before, &both).parts.iter().all(|part| !part.name.contains('→')));
    }

    #[test]
    fn noise_is_no_change_and_a_single_recording_shows_none() {
        let noisy = |values: [f64; 3]| -> Vec<TraceLists> { values.map(|ms| recording(&[("gemm", ms)])).into() };
        let found = compare(&noisy([1.0, 1.3, 0.8]), &noisy([1.1, 0.9, 1.2]));
        assert!(found.parts.iter().all(|part| part.verdict == WorkVerdict::WithinNoise), "{found:?}");
        let single = compare(&noisy([1.0; 3])[..1], &noisy([2.0; 3])[..1]);
        assert_eq!((single.parts[0].verdict, single.parts[0].difference_s.interval), (WorkVerdict::Unknown, None));
        assert_eq!(single.step.verdict, WorkVerdict::Unknown);
    }

    #[test]
    fn the_freedom_of_groups_of_unequal_spread_is_welchs() {
        // Variances of the means: 2 / 2 = 1 and 8 / 2 = 4; (1 + 4)² / (1² / 1 + 4² / 1) = 25 / 17.
        let test = compared(&[0.0, 2.0], &[10.0, 14.0]).welch().unwrap();
        for (found, expected) in [(test.mean, 11.0), (test.error, 5_f64.sqrt()), (test.freedom, 25.0 / 17.0)] {
            assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
        }
    }

    #[test]
    fn the_interval_of_a_difference_extends_as_far_below_it_as_above() {
        // Variances of the means: 1 and 1; the quantile of t at 97.5 % with 2 degrees of freedom is 4.302653.
        let change = compared(&[1.0, 3.0], &[11.0, 13.0]).change(1.0, None);
        let Interval { low, high } = change.difference_s.interval.unwrap();
        let half = 4.302_653 * 2_f64.sqrt();
        assert!((low - (10.0 - half)).abs() < 1e-5 && (high - (10.0 + half)).abs() < 1e-5, "{low} to {high}");
    }

    #[test]
    fn times_without_any_spread_differ_for_certain_or_not_at_all() {
        let changed = compared(&[1.0; 3], &[2.0; 2]);
        assert_eq!((changed.tested(), compared(&[1.0; 3], &[1.0; 2]).tested()), (0.0, 1.0));
        assert_eq!(changed.change(0.0, None).difference_s.interval, Some(Interval { low: 1.0, high: 1.0 }));
    }

    #[test]
    fn what_cannot_be_compared_is_named() {
        let one = recording(&[("gemm", 1.0)]);
        let without_steps = TraceLists { steps: 0, ..one.clone() };
        assert!(work_difference(&[&one], &[&without_steps]).unwrap_err().contains("marks no steps"));
        assert!(work_difference(&[&one], &[]).unwrap_err().contains("both sides"));
        let of_cpus = TraceLists { gpu_busy_s: 0.0, ..one.clone() };
        assert!(work_difference(&[&of_cpus], &[&one]).unwrap_err().contains("no work of a GPU"));
    }

    #[test]
    fn names_are_folded_to_what_stays_when_types_and_builds_change() {
        for (name, expected) in [
            (
                "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float>>(T3)",
                "at::native::reduce_kernel<…>",
            ),
            ("void at::native::<unnamed>::nll<float, long>(T1 *, const T2 *)", "at::native::<unnamed>::nll<…>"),
            ("void (anonymous namespace)::softmax<float>(float*)", "(anonymous namespace)::softmax<…>"),
            ("void a<f(int)::[lambda() (instance 1)]>::b<2>(x)", "a<…>::b<…>"),
            ("sm80_xmma_gemm_f32f32_nn_n", "sm80_xmma_gemm_f32f32_nn_n"),
            ("triton_poi_fused_add_gelu_12", "triton_poi_fused_add_gelu"),
            ("triton_mine", "triton_mine"),
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            ),
            ("cut<float, (int", "cut<float, (int"),
            ("", ""),
        ] {
            assert_eq!(folded(name), expected, "{name}");
        }
    }
}
