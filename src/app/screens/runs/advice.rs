//! Why a run did not finish, and what to do.

use crate::plan::RunState;
use crate::protocol::FailureKind;
use crate::store::RunRecord;

/// What happened, as a heading, and what to do about it; `None` if the run finished or has not ended.
pub fn advice(record: &RunRecord) -> Option<(&'static str, &'static str)> {
    const RETRY: &str = "Retry queues it again as a new run.";
    Some(match record.state {
        RunState::Failed => match failure(record) {
            Some(FailureKind::OutOfMemory) => (
                "Out of memory",
                "Use a smaller batch, a lower precision or more GPUs, or free this memory from other processes, then retry.",
            ),
            Some(FailureKind::NotFinite) => (
                "Loss is not finite",
                "Use a lower learning rate or a precision with more range (bf16, fp32). A retry gives the same result.",
            ),
            Some(FailureKind::Input) => {
                ("Invalid job or data set", "Fix the plan or the data set (see the Node screen), then retry.")
            }
            Some(FailureKind::Peer) => {
                ("A rank lost its peers", "Another rank failed first; see the log and the events.")
            }
            Some(FailureKind::Engine) | None => {
                ("Failed", "See the log for details. Retry queues it again as a new run.")
            }
        },
        RunState::Cancelled => ("Cancelled", RETRY),
        RunState::TimedOut => {
            ("Time limit exceeded", "Raise run_time_s in the plan's limits or use fewer images, then launch again.")
        }
        RunState::Interrupted => ("Interrupted", RETRY),
        RunState::Queued | RunState::Starting | RunState::Running | RunState::Finished => return None,
    })
}

/// The kind of failure, from the first rank that did not fail because of a peer.
fn failure(record: &RunRecord) -> Option<FailureKind> {
    let kinds = || record.ranks.iter().filter_map(|rank| rank.failure.as_ref()).map(|(kind, _)| *kind);
    kinds().find(|kind| *kind != FailureKind::Peer).or_else(|| kinds().next())
}
