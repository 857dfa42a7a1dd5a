//! The lists of the names in a recording (kernels, calls, copies, ranges), and patterns that select names from these lists.

use regex::Regex;
use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::plan::{is_default, named};

/// The most names of a list that a summary keeps; further ones are summed up as [`FURTHER`].
pub const MOST_ENTRIES: usize = 1000;

/// The name of the entry that sums up the names beyond [`MOST_ENTRIES`].
pub const FURTHER: &str = "(further names)";

/// The beginning of [`TraceLists::steps_by`] if ranges mark the steps.
pub const STEPS_BY_RANGES: &str = "ranges";

/// All calls of one name in a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Its name: of a kernel with its template arguments, as `nsys stats` prints it.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Duration, summed over GPUs and threads.
    pub seconds: f64,
    /// For a kernel: its place, from 0, in the order in which the kernels of a recording begin for the first time. `None` in other lists
    /// and in summaries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
}

/// The entries of a recording by name; each list is sorted by time, the longest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceLists {
    /// Number of processes whose work was recorded.
    pub ranks: u32,
    /// Number of steps, summed over ranks. Ranges mark them, or else a kernel or collective that recurs; 0 if nothing
    /// marks steps.
    pub steps: u64,
    /// What marks the steps, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_by: Option<String>,
    /// Time in which at least one kernel, copy or memset ran, summed over GPUs.
    pub gpu_busy_s: f64,
    /// Time in which nothing ran between the first and the last work of any GPU, summed over GPUs.
    pub gpu_idle_s: f64,
    /// Kernels.
    pub kernels: Vec<TraceEntry>,
    /// Copies and memsets by kind.
    pub copies: Vec<TraceEntry>,
    /// Calls of CUDA.
    pub calls: Vec<TraceEntry>,
    /// Named ranges; one may contain others.
    pub ranges: Vec<TraceEntry>,
    /// Kernels, copies and memsets by purpose.
    pub families: Vec<TraceEntry>,
    /// Number of steps that begin, summed over ranks, if not all of them count: trials of algorithms do not. 0 if all count, and in
    /// summaries of earlier versions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begun_steps: u64,
    /// The work of GPUs within the steps that count, if a kernel or collective that recurs marks them: without calls and ranges. `None` in
    /// summaries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_steps: Option<Box<Self>>,
}

impl TraceLists {
    /// What marks the steps, in words; `None` if ranges do.
    pub fn steps_without_ranges(&self) -> Option<&str> {
        self.steps_by.as_deref().filter(|words| !words.starts_with(STEPS_BY_RANGES))
    }

    /// The lists and the number of steps that a value of a step of `list` is made of: both are about the same time.
    pub fn of_step(&self, list: TraceList) -> (&Self, u64) {
        match (list, &self.in_steps) {
            // Calls and ranges of the host begin earlier than their work on a GPU, which marks the steps. So all of them count, and all steps.
            (TraceList::Api | TraceList::Range, _) => (self, self.begun_steps.max(self.steps)),
            (_, Some(in_steps)) => (in_steps, in_steps.steps),
            (_, None) => (self, self.steps),
        }
    }
}

/// A list of a recording. Its name in patterns is given by attributes; the doc comment is also the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, VariantArray, IntoStaticStr, EnumMessage)]
#[strum(serialize_all = "snake_case")]
pub enum TraceList {
    /// Kernels, by their names with template arguments.
    #[strum(message = "kernels")]
    Kernel,
    /// Kernels of NCCL: collectives.
    #[strum(message = "NCCL kernels")]
    Nccl,
    /// Kernels, copies and memsets by purpose: `convolution`, `matrix`, `attention`, `nccl_all_reduce`, …
    #[strum(message = "families")]
    Family,
    /// Copies and memsets by kind: `[CUDA memcpy Host-to-Device]`, `[CUDA memset]`.
    #[strum(message = "kinds of copies")]
    Copy,
    /// Calls of CUDA by the host.
    #[strum(message = "CUDA calls")]
    Api,
    /// Named ranges (NVTX, or the ranks' own). A range may contain others.
    #[strum(message = "ranges")]
    Range,
}

named!(TraceList: all, key, label, sentences);

impl TraceList {
    /// The list with this name.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|list| list.key() == key)
    }

    /// Whether an entry of the stored list is in this one: NCCL's kernels are some of the kernels.
    pub fn contains(self, name: &str) -> bool {
        self != Self::Nccl || name.starts_with("nccl")
    }
}

impl TraceLists {
    /// The stored list from which `list` takes its entries.
    pub fn stored(&self, list: TraceList) -> &[TraceEntry] {
        match list {
            TraceList::Kernel | TraceList::Nccl => &self.kernels,
            TraceList::Family => &self.families,
            TraceList::Copy => &self.copies,
            TraceList::Api => &self.calls,
            TraceList::Range => &self.ranges,
        }
    }

    /// The entries of a list.
    pub fn of(&self, list: TraceList) -> impl Iterator<Item = &TraceEntry> {
        self.stored(list).iter().filter(move |entry| list.contains(&entry.name))
    }
}

/// Picks entries by name: `kernel:ampere_.*gemm`. The part behind the colon is a regular expression (syntax of the crate `regex`) that is
/// searched in each name; `^` and `$` stand for a name's start and end.
#[derive(Clone, Debug)]
pub struct TracePattern {
    /// The list.
    pub list: TraceList,
    regex: Regex,
}

impl TracePattern {
    /// A pattern of `list`.
    ///
    /// # Errors
    /// What is wrong with the regular expression, and at which of its letters.
    pub fn new(list: TraceList, pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            let key = list.key();
            return Err(format!("nothing behind the colon: name {} or give a pattern, such as {key}:.*", list.name()));
        }
        let regex = Regex::new(pattern).map_err(|error| wrong(pattern, &error))?;
        Ok(Self { list, regex })
    }

    /// Parses `LIST:PATTERN`.
    ///
    /// # Errors
    /// If there is no such list, and as [`Self::new`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let list = text.split_once(':').and_then(|(list, pattern)| Some((TraceList::of_key(list)?, pattern)));
        let (list, pattern) = list.ok_or_else(|| {
            let known: Vec<&str> = TraceList::ALL.iter().map(|list| list.key()).collect();
            format!(
                "{text:?} is not a list and a pattern: write one of {} and a colon before the pattern",
                known.join(", ")
            )
        })?;
        Self::new(list, pattern)
    }

    /// Whether it picks this name of its list.
    pub fn picks(&self, name: &str) -> bool {
        self.list.contains(name) && self.regex.is_match(name)
    }

    /// The regular expression.
    pub fn text(&self) -> &str {
        self.regex.as_str()
    }

    /// The pattern that picks a single name.
    pub fn exactly(list: TraceList, name: &str) -> String {
        format!("{}:^{}$", list.key(), regex::escape(name))
    }
}

/// Why a regular expression is refused, with the place in it that the parser's message marks by a caret.
fn wrong(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    // Patterns of one line are printed below the first line of the message, indented by four.
    let caret =
        text.lines().nth(2).filter(|line| !line.is_empty() && line.trim_start().trim_end_matches('^').is_empty());
    let place = caret.and_then(|line| line.find('^')).and_then(|column| column.checked_sub(4));
    let place = place.map_or(String::new(), |column| {
        let rest: String = pattern.chars().skip(column).take(20).collect();
        let at = if rest.is_empty() { "at its end".to_owned() } else { format!("at {rest:?}") };
        format!(", {at} (letter {})", column + 1)
    });
    format!("{pattern:?} is not a regular expression: {why}{place}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_searched_in_the_names_of_its_list_only() {
        let gemm = TracePattern::parse("kernel:ampere_.*gemm").unwrap();
        assert!(gemm.picks("ampere_bf16_s16816gemm_bf16_128x64") && !gemm.picks("sm90_xmma_gemm"));
        let reduce = TracePattern::parse("nccl:AllReduce").unwrap();
        assert!(reduce.picks("ncclDevKernel_AllReduce_Sum_f32_RING_LL") && !reduce.picks("my_AllReduce"));
        let with_colons = TracePattern::parse("kernel:at::native::").unwrap();
        assert!(with_colons.picks("void at::native::reduce_kernel<512>()"));
        let name = "void f<(int)4>(float *)";
        let exact = TracePattern::parse(&TracePattern::exactly(TraceList::Kernel, name)).unwrap();
        assert!(exact.picks(name) && !exact.picks("void f<(int)4>(float *)2"));
    }

    #[test]
    fn a_wrong_pattern_is_refused_with_its_place() {
        let why = |text: &str| TracePattern::parse(text).unwrap_err();
        assert_eq!(why("kernel:a(b"), "\"a(b\" is not a regular expression: unclosed group, at \"(b\" (letter 2)");
        assert!(why("kernel:ab[z-a]").contains("letter 4"), "{}", why("kernel:ab[z-a]"));
        assert!(why("kernel:").contains("nothing behind the colon"));
        assert!(why("kernels:x").contains("kernel, nccl, family, copy, api, range"), "{}", why("kernels:x"));
        assert!(why(&format!("kernel:{}", "(a{100}){100}{100}")).contains("not a regular expression"));
    }
}
