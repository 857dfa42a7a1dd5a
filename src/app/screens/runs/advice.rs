//! Why a run did not finish, and what to do.

use crate::plan::RunState;
use crate::protocol::FailureKind;
use crate::store::RunRecord;

/// What happened, as a heading; `None` if the run finished or has not ended.
pub fn heading(record: &RunRecord) -> Option<&'static str> {
    Some(match record.state {
        RunState::Failed => match failure(record) {
            Some(FailureKind::OutOfMemory) => "Out of memory",
            Some(FailureKind::NotFinite) => "Loss is not finite",
            Some(FailureKind::Input) => "Invalid job or data set",
            Some(FailureKind::Peer) => "A rank lost its peers",
            Some(FailureKind::Engine) | None => "Failed",
        },
        RunState::Cancelled => "Cancelled",
        RunState::TimedOut => "Time limit exceeded",
        RunState::Interrupted => "Interrupted",
        RunState::Queued | RunState::Starting | RunState::Running | RunState::Finished => return None,
    })
}

/// What to do about it.
pub fn advice(record: &RunRecord) -> Option<&'static str> {
    Some(match record.state {
        RunState::Failed => match failure(record) {
            Some(FailureKind::OutOfMemory) => {
                "Use a smaller batch, a lower precision or more GPUs, or free this memory from other processes, then retry."
            }
            Some(FailureKind::NotFinite) => {
                "Use a lower learning rate or a precision with more range (bf16, fp32). A retry gives the same result."
            }
            Some(FailureKind::Input) => "Fix the plan or the data set (see the Node screen), then retry.",
            Some(FailureKind::Peer) => "Another rank failed first; see the log and the events.",
            Some(FailureKind::Engine) | None => "See the log for details. Retry queues it again as a new run.",
        },
        RunState::Cancelled => "Retry queues it again as a new run.",
        RunState::TimedOut => "Raise run_time_s in the plan's limits or use fewer images, then launch again.",
        RunState::Interrupted => "Retry queues it again as a new run.",
        RunState::Queued | RunState::Starting | RunState::Running | RunState::Finished => return None,
    })
}

/// The kind of failure, from the first rank that did not fail because of a peer.
fn failure(record: &RunRecord) -> Option<FailureKind> {
    let kinds = || record.ranks.iter().filter_map(|rank| rank.failure.as_ref()).map(|(kind, _)| *kind);
    kinds().find(|kind| *kind != FailureKind::Peer).or_else(|| kinds().next())
}
