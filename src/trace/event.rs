//! Events of a recording: what ran, when and where, in the same form for all recorders.

use strum::{IntoStaticStr, VariantArray};

/// Maximum duration of an event: a year.
const LONGEST_NS: i64 = 365 * 24 * 3600 * 1_000_000_000;

/// Half of the 64-bit range, so that differences of times cannot overflow.
const LATEST_NS: i64 = i64::MAX / 2;

/// Maximum size of a single allocation: 1 PiB, so that sums of many stay within 64 bits.
const LARGEST_BYTES: u64 = 1 << 50;

/// Maximum length of a name in bytes. Longer names, such as those of C++ templates, are cut: their ends add no information.
pub(super) const LONGEST_NAME: usize = 1 << 16;

/// A kind of event. The names are those in events files.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    VariantArray,
    IntoStaticStr,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(super) enum Kind {
    Kernel,
    Copy,
    Memset,
    /// A CUDA graph recorded as a whole, without its kernels.
    Graph,
    /// A call of the CUDA runtime or driver.
    Call,
    Synchronisation,
    /// Memory that was allocated or released through CUDA, at a single moment.
    Allocation,
    /// A named range of a thread.
    Range,
    /// A collective that a thread performs.
    Collective,
    /// The name of a domain of ranges.
    Domain,
}

impl Kind {
    /// Kinds with times, in the order in which they are read. Collectives are read together with ranges.
    pub const TIMED: [Self; 8] = [
        Self::Kernel,
        Self::Copy,
        Self::Memset,
        Self::Graph,
        Self::Call,
        Self::Synchronisation,
        Self::Allocation,
        Self::Range,
    ];
}

/// A name: a text, or an id that is not resolved yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// The id of a string in its source.
    Id(i64),
    Text(&'a str),
}

impl Name<'_> {
    /// The id; 0 if the name is given as text.
    pub fn id(self) -> i64 {
        match self {
            Self::Id(id) => id,
            Self::Text(_) => 0,
        }
    }
}

/// The values that only some kinds of events have. Kinds are numbered as in CUPTI; kinds of memory as in nsys, which is CUPTI's number
/// minus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Kernel {
        /// The node of a CUDA graph that ran it; 0 if none.
        graph_node: i64,
    },
    Copy {
        bytes: u64,
        kind: i64,
        src: Option<i64>,
        dst: Option<i64>,
        /// Device ordinals, if they differ from the event's own.
        src_device: Option<i64>,
        dst_device: Option<i64>,
    },
    Memset {
        bytes: u64,
        memory: Option<i64>,
    },
    Graph,
    Call,
    Synchronisation {
        kind: i64,
    },
    Allocation {
        bytes: u64,
        memory: Option<i64>,
        /// [`ALLOCATED`] or [`RELEASED`].
        operation: i64,
        /// The address of the memory, which identifies it within its process.
        address: i64,
    },
    Range {
        domain: i64,
    },
    Collective {
        /// Size in bytes of a rank's contribution. Traced programs have NCCL's message size instead: for a reduce-scatter or a scatter the
        /// size that a rank receives, for an all-to-all the size that it sends to each peer.
        bytes: u64,
        /// The domain of its range; 0 if it has none.
        domain: i64,
    },
    Domain {
        domain: i64,
    },
}

impl What {
    /// Whether it is work on a GPU, or concerns a GPU's memory.
    pub fn is_on_gpu(self) -> bool {
        match self {
            Self::Kernel { .. } | Self::Copy { .. } | Self::Memset { .. } | Self::Graph => true,
            // Pageable and pinned memory is in the host, whatever device was current when it was allocated.
            Self::Allocation { memory, .. } => !matches!(memory, Some(0 | 1)),
            _ => false,
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    /// Start and end in nanoseconds on the recording's clock; equal if they are unknown.
    pub span: (i64, i64),
    /// Its process.
    pub process: i64,
    /// Ordinal of its device in the process; 0 for events on the host.
    pub device: i64,
    /// For work on a GPU the stream, for events on the host the thread, for allocations the kind of memory (-1 if unknown); 0 if not
    /// requested.
    pub track: i64,
    pub name: Name<'a>,
    /// Connects a call with the work that it launched; 0 if not requested, or if there is none.
    pub correlation: i64,
    /// Its position among events of its kind: the first event has the smallest number.
    pub order: i64,
    pub what: What,
}

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The source's id of the process.
    pub process: i64,
    /// The GPU's index on the machine.
    pub gpu: i64,
}

/// Operations of memory by CUPTI's number.
pub(super) const ALLOCATED: i64 = 1;
pub(super) const RELEASED: i64 = 2;

/// A single number for a kind of memory and an operation.
pub(super) fn allocation_number(memory: Option<i64>, operation: i64) -> i64 {
    memory.unwrap_or(-1).saturating_add(1).saturating_mul(2).saturating_add(i64::from(operation != ALLOCATED))
}

/// The inverse of [`allocation_number`].
pub(super) fn of_allocation_number(number: i64) -> (Option<i64>, i64) {
    let memory = number / 2 - 1;
    ((memory >= 0).then_some(memory), if number % 2 == 0 { ALLOCATED } else { RELEASED })
}

/// Whether size and operation are possible for an allocation or a release; if not, why.
pub(super) fn check_allocation(bytes: u64, operation: i64) -> Result<(), String> {
    if bytes > LARGEST_BYTES {
        return Err(format!("it has {bytes} bytes"));
    }
    match operation {
        ALLOCATED | RELEASED => Ok(()),
        _ => Err("it neither allocates nor releases memory".to_owned()),
    }
}

/// Whether start and end are possible for an event; if not, why.
#[inline]
pub(super) fn check_span((start, end): (i64, i64)) -> Result<(), String> {
    if start < -LATEST_NS || end > LATEST_NS || start > LATEST_NS || end < -LATEST_NS {
        return Err(format!("{start} to {end} ns is not a time in a report"));
    }
    if end < start {
        return Err(format!("it ends at {end} ns, before it starts at {start} ns"));
    }
    if end - start > LONGEST_NS {
        return Err(format!("it lasts {} ns, more than a year", end - start));
    }
    Ok(())
}

/// Whether an event's time, in nanoseconds, belongs to a recording most of whose events are around `middle_ns`; if not, why. All events
/// that do lie within the maximum duration.
pub(super) fn check_near((start, end): (i64, i64), middle_ns: i64) -> Result<(), String> {
    check_span((start, end))?;
    let reach_ns = LONGEST_NS / 2;
    if start < middle_ns.saturating_sub(reach_ns) || end > middle_ns.saturating_add(reach_ns) {
        return Err(format!("it is at {start} ns, more than half a year from most others"));
    }
    Ok(())
}

/// A name cut to the maximum length.
pub(super) fn bounded(name: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let mut end = LONGEST_NAME;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &name[..end])
}

/// The text for an id without a name.
pub(super) fn nameless(id: i64) -> String {
    format!("(name {id} is missing)")
}

/// A call's name as nsys prints it: without `_v3020`, but with `_v11060`.
pub(super) fn printed(name: &str) -> &str {
    let version = name.len().checked_sub(6).filter(|at| name.is_char_boundary(*at));
    match version {
        Some(at) if name[at..].starts_with("_v") => &name[..at],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::printed;

    #[test]
    fn versions_of_four_digits_are_dropped_as_nsys_does() {
        for (name, shown) in [
            ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
            ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC_v11060"),
            ("cuGetProcAddress_v2", "cuGetProcAddress_v2"),
            ("cuInit", "cuInit"),
            ("_v3020", ""),
            ("é_v302", "é_v302"),
            ("", ""),
        ] {
            assert_eq!(printed(name), shown, "{name}");
        }
    }
}
