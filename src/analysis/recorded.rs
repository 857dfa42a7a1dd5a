//! Measures of recordings by pattern: `kernel:gemm`, `api.count.per_step:cudaLaunchKernel`. They need no entry in the registry: what
//! a key asks for is computed from the lists of each run's recording.

use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::plan::named;
use crate::protocol::{TraceEntry, TraceList, TraceLists, TracePattern, TraceSummary};

/// What is computed from the entries that the pattern matches. The name in keys is given by attributes; the doc comment is also the help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray, IntoStaticStr, EnumMessage)]
#[strum(serialize_all = "snake_case")]
pub enum RecordedStatistic {
    /// Seconds, summed over GPUs and threads.
    #[default]
    #[strum(message = "Time")]
    Total,
    /// Number of calls.
    #[strum(message = "Number")]
    Count,
    /// Seconds of a call: total over count.
    #[strum(message = "Mean time")]
    Mean,
    /// Share of the time of the whole list: of all kernels, of all calls. Ranges contain each other and therefore have no share.
    #[strum(message = "Share")]
    Share,
    /// Share of the recorded time, divided by the number of GPUs (without GPUs: of ranks).
    #[strum(message = "Share of recorded time")]
    Wall,
}

named!(RecordedStatistic: all, key, label, sentences);

/// The words for a total or a count that is divided by the number of steps, of ranks, or of both.
pub const PER_STEP: &str = "per_step";
/// See [`PER_STEP`].
pub const PER_RANK: &str = "per_rank";

/// A parsed key of the form `LIST[.STATISTIC][.per_step][.per_rank]:PATTERN`.
#[derive(Clone, Debug)]
pub struct RecordedMeasure {
    /// The entries that are selected.
    pub pattern: TracePattern,
    /// The number that is computed from these entries.
    pub statistic: RecordedStatistic,
    /// Whether it is divided by the number of steps.
    pub per_step: bool,
    /// Whether it is divided by the number of ranks.
    pub per_rank: bool,
}

impl RecordedMeasure {
    /// Parses a key; `None` if it does not begin like a measure of recordings.
    ///
    /// # Errors
    /// Which word or which part of the pattern is wrong.
    pub fn parse(key: &str) -> Option<Result<Self, String>> {
        let (words, pattern) = key.split_once(':')?;
        let mut words = words.split('.');
        let list = TraceList::of_key(words.next()?)?;
        Some(Self::of_words(list, words, pattern).map_err(|why| format!("measure {key}: {why}")))
    }

    fn of_words<'w>(list: TraceList, words: impl Iterator<Item = &'w str>, pattern: &str) -> Result<Self, String> {
        let (mut statistic, mut per_step, mut per_rank) = (None, false, false);
        for word in words {
            match (RecordedStatistic::ALL.iter().find(|one| one.key() == word), word) {
                (Some(one), _) if statistic.is_none() => statistic = Some(*one),
                (None, PER_STEP) if !per_step => per_step = true,
                (None, PER_RANK) if !per_rank => per_rank = true,
                (None, _) if word != PER_STEP && word != PER_RANK => {
                    let known: Vec<&str> = RecordedStatistic::ALL.iter().map(|one| one.key()).collect();
                    return Err(format!("{word:?} is unknown: use {}, {PER_STEP}, {PER_RANK}", known.join(", ")));
                }
                _ => return Err(format!("{word:?} is one too many")),
            }
        }
        let statistic = statistic.unwrap_or_default();
        if (per_step || per_rank) && !matches!(statistic, RecordedStatistic::Total | RecordedStatistic::Count) {
            return Err(format!("only total and count can be divided by steps and ranks, not {}", statistic.key()));
        }
        if (list, statistic) == (TraceList::Range, RecordedStatistic::Share) {
            return Err("ranges contain each other, so they have no share of a sum: use range.wall".to_owned());
        }
        Ok(Self { pattern: TracePattern::new(list, pattern)?, statistic, per_step, per_rank })
    }

    /// Whether a key asks for a measure of recordings, right or wrong.
    pub fn is_meant(key: &str) -> bool {
        Self::parse(key).is_some()
    }

    /// Its name on paper and on screen.
    pub fn name(&self) -> String {
        let per = match (self.per_step, self.per_rank) {
            (true, true) => " per step and rank",
            (true, false) => " per step",
            (false, true) => " per rank",
            (false, false) => "",
        };
        format!("{} of {} {}{per}", self.statistic.name(), self.pattern.list.name(), shown(self.pattern.text()))
    }

    /// The key of a measure of `list`, before the pattern's colon.
    pub fn prefix(list: TraceList, statistic: RecordedStatistic, per_step: bool, per_rank: bool) -> String {
        let words = [
            Some(list.key()),
            (statistic != RecordedStatistic::default()).then(|| statistic.key()),
            per_step.then_some(PER_STEP),
            per_rank.then_some(PER_RANK),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(".")
    }

    /// Its value in a recording.
    ///
    /// # Errors
    /// Why the recording has none.
    pub fn value(&self, trace: &TraceSummary) -> Result<f64, String> {
        let whole = trace.lists.as_ref().ok_or_else(|| {
            format!(
                "{} was imported by an earlier version, which kept no names: `multicard trace` can import it again",
                trace.file
            )
        })?;
        let list = self.pattern.list;
        if self.picked(whole).next().is_none() {
            return Err(match whole.of(list).count() {
                0 => format!("{} contains no {}", trace.file, list.name()),
                names => format!("{}: none of its {names} {} matches", trace.file, list.name()),
            });
        }
        let (lists, steps) = if self.per_step { whole.of_step(list) } else { (&**whole, whole.steps) };
        let divided_by = |count: f64, what: &str| if count > 0.0 { Ok(count) } else { Err(what.to_owned()) };
        let calls = self.picked(lists).map(|entry| entry.calls).sum::<u64>() as f64;
        let seconds: f64 = self.picked(lists).map(|entry| entry.seconds).sum();
        let ranks = f64::from(lists.ranks);
        let value = match self.statistic {
            RecordedStatistic::Total => seconds,
            RecordedStatistic::Count => calls,
            RecordedStatistic::Mean => seconds / divided_by(calls, "its names were called 0 times")?,
            RecordedStatistic::Share => {
                let whole: f64 = lists.stored(list).iter().map(|entry| entry.seconds).sum();
                seconds / divided_by(whole, "the whole list took no time")?
            }
            RecordedStatistic::Wall => {
                let devices = if trace.gpus > 0 { f64::from(trace.gpus) } else { ranks.max(1.0) };
                seconds / divided_by(trace.wall_s, "the recording covers no time")? / devices
            }
        };
        // Steps are counted over all ranks.
        let no_steps = "the recording marks no steps: ranges named step, iteration or ProfilerStep would mark them";
        let per = match (self.per_step, self.per_rank) {
            (false, false) => 1.0,
            (false, true) => divided_by(ranks, "the recording does not tell its ranks")?,
            (true, true) => divided_by(steps as f64, no_steps)?,
            (true, false) => divided_by(steps as f64, no_steps)? / ranks.max(1.0),
        };
        Ok(value / per)
    }

    /// The entries that its pattern picks.
    fn picked<'l>(&self, lists: &'l TraceLists) -> impl Iterator<Item = &'l TraceEntry> {
        lists.of(self.pattern.list).filter(move |entry| self.pattern.picks(&entry.name))
    }
}

/// The longest text of a pattern in a name, in letters.
const SHOWN: usize = 60;

/// A pattern as it is shown: a pattern for a single name is shown as that name, and a long one is cut.
fn shown(pattern: &str) -> String {
    let exact = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')).map(unescaped);
    let text =
        exact.filter(|name| format!("^{}$", regex::escape(name)) == pattern).unwrap_or_else(|| pattern.to_owned());
    if text.chars().count() <= SHOWN { text } else { text.chars().take(SHOWN - 1).chain(['…']).collect() }
}

/// The inverse of [`regex::escape`].
fn unescaped(pattern: &str) -> String {
    let mut is_escaped = false;
    let is_kept = |letter: &char| {
        is_escaped = *letter == '\\' && !is_escaped;
        !is_escaped
    };
    pattern.chars().filter(is_kept).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{fixture, measure, summarise_report, why_absent};
    use crate::plan::Better;

    fn entry(name: &str, calls: u64, seconds: f64) -> TraceEntry {
        TraceEntry { name: name.to_owned(), calls, seconds, place: None }
    }

    /// A recording of two ranks with ten steps each, on two GPUs.
    fn trace() -> TraceSummary {
        let lists = TraceLists {
            ranks: 2,
            steps: 20,
            kernels: vec![
                entry("ampere_sgemm_64x64_nn", 40, 0.6),
                entry("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 0.3),
                entry("ampere_sgemm_32x32_tn", 20, 0.1),
            ],
            calls: vec![entry("cudaLaunchKernel", 60, 0.02)],
            ranges: vec![entry("forward", 20, 0.4)],
            ..TraceLists::default()
        };
        TraceSummary { lists: Some(Arc::new(lists)), gpus: 2, wall_s: 2.0, ..fixture::trace(0.0, 0.0) }
    }

    fn value(key: &str) -> Result<f64, String> {
        RecordedMeasure::parse(key).unwrap()?.value(&trace())
    }

    #[test]
    fn each_statistic_is_computed_from_all_names_that_the_pattern_picks() {
        let near = |key: &str, expected: f64| {
            assert!((value(key).unwrap() - expected).abs() < 1e-12, "{key}: {:?}", value(key));
        };
        near("kernel:ampere_.*gemm", 0.7);
        near("kernel.count:ampere_.*gemm", 60.0);
        near("kernel.mean:ampere_.*gemm", 0.7 / 60.0);
        near("kernel.share:ampere_.*gemm", 0.7);
        near("kernel.wall:ampere_.*gemm", 0.7 / 2.0 / 2.0);
        near("kernel.per_step:ampere_.*gemm", 0.07);
        near("kernel.per_rank:ampere_.*gemm", 0.35);
        near("kernel.total.per_step.per_rank:ampere_.*gemm", 0.035);
        near("kernel.count.per_step.per_rank:ampere_.*gemm", 3.0);
        near("nccl.share:AllReduce", 0.3);
        near("api:cudaLaunch", 0.02);
        near("range.wall:^forward$", 0.1);
    }

    #[test]
    fn values_of_a_step_are_of_the_work_within_the_steps_that_count() {
        let whole = TraceLists::clone(trace().lists.as_ref().unwrap());
        let kernels = vec![entry("ampere_sgemm_64x64_nn", 32, 0.4)];
        let in_steps = TraceLists { ranks: 2, steps: 16, kernels, ..TraceLists::default() };
        let lists = TraceLists { steps: 16, begun_steps: 20, in_steps: Some(Box::new(in_steps)), ..whole };
        let trace = TraceSummary { lists: Some(Arc::new(lists)), ..trace() };
        let near = |key: &str, expected: f64| {
            let value = RecordedMeasure::parse(key).unwrap().unwrap().value(&trace);
            assert!((value.clone().unwrap() - expected).abs() < 1e-12, "{key}: {value:?}");
        };
        near("kernel.count.per_step.per_rank:64x64", 2.0);
        near("kernel.per_step.per_rank:64x64", 0.025);
        near("kernel:64x64", 0.6);
        near("kernel.per_step:32x32", 0.0);
        near("api.count.per_step.per_rank:cudaLaunch", 3.0);
    }

    #[test]
    fn what_a_recording_lacks_is_absent_with_the_reason() {
        let why = |key: &str| value(key).unwrap_err();
        assert_eq!(why("kernel:cudnn"), "trace.nsys-rep: none of its 3 kernels matches");
        assert_eq!(why("copy:Host"), "trace.nsys-rep contains no kinds of copies");
        let mut lists = TraceLists::clone(trace().lists.as_ref().unwrap());
        lists.steps = 0;
        let without = TraceSummary { lists: Some(Arc::new(lists)), ..trace() };
        let per_step = RecordedMeasure::parse("kernel.per_step:gemm").unwrap().unwrap();
        assert!(per_step.value(&without).unwrap_err().contains("marks no steps"));
        let earlier = TraceSummary { lists: None, ..trace() };
        assert!(per_step.value(&earlier).unwrap_err().contains("earlier version"));
        let runs = [summarise_report("a", trace()), summarise_report("b", trace())];
        let why = why_absent(&runs, "kernel:cudnn").unwrap();
        assert!(
            why.starts_with("measure kernel:cudnn: trace.nsys-rep: none") && why.ends_with("have none either"),
            "{why}"
        );
        assert_eq!(why_absent(&runs, "kernel:gemm"), None);
        assert!(why_absent(&[], "kernel:gemm").unwrap().contains("no run is recorded"));
    }

    #[test]
    fn a_wrong_key_says_which_word_or_letter_is_wrong() {
        let why = |key: &str| value(key).unwrap_err();
        assert!(
            why("kernel.median:x")
                .contains("\"median\" is unknown: use total, count, mean, share, wall, per_step, per_rank")
        );
        assert!(why("kernel.mean.per_step:x").contains("only total and count"));
        assert!(why("kernel.count.total:x").contains("one too many"));
        assert!(why("range.share:x").contains("range.wall"));
        assert!(why("kernel:a(").contains("letter 2"));
        assert!(RecordedMeasure::parse("step_time_s").is_none() && RecordedMeasure::parse("disk:x").is_none());
    }

    #[test]
    fn a_long_pattern_is_cut_to_sixty_letters() {
        let name = |letters: usize| measure(&format!("kernel:{}", "ä".repeat(letters))).unwrap().name.to_string();
        assert_eq!(name(60), format!("Time of kernels {}", "ä".repeat(60)));
        assert_eq!(name(61), format!("Time of kernels {}…", "ä".repeat(59)));
    }

    #[test]
    fn a_run_has_these_measures_like_any_other() {
        let run = summarise_report("a", trace());
        assert!((run.value("kernel:gemm").unwrap() - 0.7).abs() < 1e-12);
        assert_eq!(run.value("kernel:cudnn"), None);
        let total = measure("kernel.per_step.per_rank:gemm").unwrap();
        assert_eq!(
            (&*total.name, &*total.unit, &*total.shown_unit),
            ("Time of kernels gemm per step and rank", "s", "ms")
        );
        assert!(total.is_time() && total.better == Better::Lower);
        assert!(measure("kernel:a(").is_none());
        let exact = format!("kernel:^{}$", regex::escape("void f<(int)4>(float *)"));
        assert_eq!(measure(&exact).unwrap().name, "Time of kernels void f<(int)4>(float *)");
    }
}
