//! Communication by collective: how much of it overlaps with computing, and how much is waiting for the slowest rank.

use std::collections::BTreeMap;

use strum::IntoEnumIterator as _;

use super::{Part, Process, Spans, latest_starts, take, unite};
use crate::trace::timeline::Timeline;

/// Why the size of a collective is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoSize {
    /// No host recorded collectives.
    NotRecorded,
    /// No host launched it during a collective that was recorded.
    NoLaunch,
    /// Its rank launched several collectives at the same time.
    Overlapping,
    /// It is one of the kernels of a group.
    Group,
}

impl NoSize {
    /// The reason, as a part of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotRecorded => {
                "this recording contains no sizes of collectives; traces of the built-in tracer and of PyTorch's profiler do"
            }
            Self::NoLaunch => {
                "no recorded collective launched it: a CUDA graph or a group that was not recorded did, or calls were not recorded"
            }
            Self::Overlapping => "its rank launched several collectives at the same time",
            Self::Group => {
                "it is one of several kernels of a group (ncclGroupStart), and NCCL does not tell which collectives each of them performed"
            }
        }
    }
}

/// All collectives of one name and size, over ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Its name, without the arguments of a template.
    pub name: String,
    /// Size in bytes, if the recording contains it: kernels do not, but a rank that launches them may. See `What::Collective` for what is
    /// counted. A kernel that performs several collectives of a group has the sum of their sizes.
    pub bytes: Option<u64>,
    /// Why the size is not known; `None` if it is.
    pub no_size: Option<NoSize>,
    /// Number of collectives, counted for each rank.
    pub calls: u64,
    /// Their total time in nanoseconds, which is the sum of the following three.
    pub total_ns: u64,
    /// Time in which other kernels or copies of the rank ran; on a host, time in which the rank did not wait.
    pub hidden_ns: u64,
    /// Time before the last rank began in which nothing else ran; `None` if ranks began different numbers of collectives, so that it is
    /// unknown which ones belong together.
    pub waiting_ns: Option<u64>,
    /// The rest: time in which nothing else ran.
    pub exposed_ns: u64,
    /// Start and end of the longest one, on the recording's clock.
    pub longest: (i64, i64),
}

/// Collectives by name and size, or by the reason for its absence; sorted by time, the longest first.
pub(super) fn collectives(timeline: &Timeline, processes: &BTreeMap<i64, Process>) -> Vec<Collective> {
    let latest = latest_starts(processes);
    let ranks = processes.values().filter(|process| !process.collectives.is_empty()).count();
    let is_known = latest.is_some() || ranks == 1;
    let mut all: BTreeMap<(&str, Result<u64, NoSize>), Collective> = BTreeMap::new();
    for process in processes.values().filter(|process| !process.collectives.is_empty()) {
        let work = Part::iter().filter(|part| part.is_on_gpu() && *part != Part::Communication);
        let mut computing: Spans = work.filter_map(|part| process.layers.get(&part)).flatten().copied().collect();
        unite(&mut computing);
        for (n, began) in process.collectives.iter().enumerate() {
            let name = short(timeline.name(began.label));
            let collective_times = all.entry((name, began.size)).or_insert_with(|| Collective {
                name: name.to_owned(),
                bytes: began.size.ok(),
                no_size: began.size.err(),
                calls: 0,
                total_ns: 0,
                hidden_ns: 0,
                waiting_ns: is_known.then_some(0),
                exposed_ns: 0,
                longest: began.span,
            });
            let mut left = vec![began.span];
            let hidden = match &process.waits {
                Some(waits) => {
                    let mut beside = vec![began.span];
                    take(&mut beside, waits);
                    take(&mut left, &beside)
                }
                None => take(&mut left, &computing),
            };
            let begun = latest.as_ref().and_then(|latest| latest.get(n)).copied();
            let waiting = begun.map_or(0, |begun| take(&mut left, &[(began.span.0, begun.max(began.span.0))]));
            let total = began.span.1.abs_diff(began.span.0);
            collective_times.calls += 1;
            collective_times.total_ns += total;
            collective_times.hidden_ns += hidden;
            collective_times.waiting_ns = collective_times.waiting_ns.map(|known| known + waiting);
            collective_times.exposed_ns += total - hidden - waiting;
            if total > collective_times.longest.1.abs_diff(collective_times.longest.0) {
                collective_times.longest = began.span;
            }
        }
    }
    let mut all: Vec<Collective> = all.into_values().collect();
    all.sort_by_key(|collective| std::cmp::Reverse(collective.total_ns));
    all
}

/// A kernel's name without its arguments.
fn short(name: &str) -> &str {
    name.split(['(', '<']).next().unwrap_or(name)
}
