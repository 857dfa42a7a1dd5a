//! Why a run did not finish, and what to do, in plain words.

use crate::plan::RunState;
use crate::protocol::FailureKind;
use crate::store::RunRecord;

/// What happened, as a heading.
pub fn heading(record: &RunRecord) -> Option<&'static str> {
    Some(match record.state {
        RunState::Failed => match failure(record) {
            Some(FailureKind::OutOfMemory) => "It ran out of memory",
            Some(FailureKind::NotFinite) => "Its loss is no longer a number",
            Some(FailureKind::Input) => "Its job or its data set is wrong",
            Some(FailureKind::Peer) => "A rank lost the others",
            Some(FailureKind::Engine) | None => "It failed",
        },
        RunState::Cancelled => "It was cancelled",
        RunState::TimedOut => "It took longer than the plan allows",
        RunState::Interrupted => "It was interrupted",
        RunState::Queued | RunState::Starting | RunState::Running | RunState::Finished => return None,
    })
}

/// What to do about it.
pub fn advice(record: &RunRecord) -> Option<&'static str> {
    Some(match record.state {
        RunState::Failed => match failure(record) {
            Some(FailureKind::OutOfMemory) => {
                "Take a smaller batch, a smaller precision or more GPUs, or end what else uses this memory, then retry."
            }
            Some(FailureKind::NotFinite) => {
                "Take a smaller learning rate or a precision with more range (bf16, fp32). Retrying gives the same."
            }
            Some(FailureKind::Input) => {
                "Mend the plan or the data set (the Node screen shows the data sets), then retry."
            }
            Some(FailureKind::Peer) => "Another rank failed first: the log and the events tell which and why.",
            Some(FailureKind::Engine) | None => "The log has the whole story. Retry queues it again as a new run.",
        },
        RunState::Cancelled => "Retry queues it again as a new run.",
        RunState::TimedOut => "Raise run_time_s in the plan's limits, or train fewer images, and launch again.",
        RunState::Interrupted => "Retry queues it again as a new run.",
        RunState::Queued | RunState::Starting | RunState::Running | RunState::Finished => return None,
    })
}

/// What the first rank that failed by itself said of the kind.
fn failure(record: &RunRecord) -> Option<FailureKind> {
    let kinds = || record.ranks.iter().filter_map(|rank| rank.failure.as_ref()).map(|(kind, _)| *kind);
    kinds().find(|kind| *kind != FailureKind::Peer).or_else(|| kinds().next())
}
