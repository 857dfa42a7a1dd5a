//! Reports of ranks on several nodes before they train: the names of the nodes, and the differences of their clocks.

use std::collections::BTreeSet;
use std::rc::Rc;

use multicard::plan::{NODES, counted};
use multicard::protocol::{Clock, Event, node_name};

use crate::parallel::Peers;
use crate::proof;
use crate::report::{Report, Stop};

/// A difference of clocks above this is a warning.
const MOST_CLOCK_OFFSET_S: f64 = 0.05;

/// Reports the nodes of the ranks. The first rank of each further node also reports how far its node's clock is ahead
/// of the first node's. Ranks on one node report nothing. All ranks must call it.
pub fn report(peers: &Rc<Peers>, nodes: u32, report: &mut Report) -> Result<(), Stop> {
    if nodes < 2 {
        return Ok(());
    }
    let names = peers.tell("node", &node_name())?;
    let distinct: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let listed = distinct.iter().copied().collect::<Vec<_>>().join(", ");
    let seen = format!("{} on {}: {listed}", counted(names.len(), "rank"), counted(distinct.len(), "node"));
    report.event(Event::Evidence(proof::evidence(
        NODES,
        &nodes.to_string(),
        seen,
        distinct.len() == nodes as usize,
    )))?;
    // The supervisor has compared the clocks before it started the ranks.
    let Some(clock) = peers.further_node().and_then(Clock::of_node) else { return Ok(()) };
    for (key, value) in clock.readings() {
        report.reading(key, value, None, None)?;
    }
    let offset_s = clock.ahead_s;
    if offset_s.abs() <= MOST_CLOCK_OFFSET_S {
        return Ok(());
    }
    let message = format!(
        "the clock of {} is {:.3} s {} that of the run's first node: each rank's events have the times of its own node, and which of two \
         nodes failed first is uncertain by as much",
        node_name(),
        offset_s.abs(),
        if offset_s > 0.0 { "ahead of" } else { "behind" }
    );
    report.event(Event::Warning { message })
}
