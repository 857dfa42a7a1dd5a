//! Clocks of a run's nodes, and the time by this one.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Environment variable with the clocks of all nodes of a run, in the order of the nodes, as JSON.
pub const CLOCKS_VARIABLE: &str = "MULTICARD_CLOCKS";

/// Now by the clock of this machine, in seconds since the Unix epoch.
pub fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The clock of a node, compared with the clock of the run's first node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Seconds by which it is ahead of the first node's clock; negative if it is behind.
    pub ahead_s: f64,
    /// The largest error of that: half of the time from the question to the answer.
    pub error_s: f64,
}

impl Clock {
    /// The clock of a node of the run that this process belongs to. `None` for the first node, and if clocks were not compared.
    pub fn of_node(node: u32) -> Option<Self> {
        Self::in_text(&std::env::var(CLOCKS_VARIABLE).ok()?, node)
    }

    fn in_text(text: &str, node: u32) -> Option<Self> {
        let clocks: Vec<Option<Self>> = serde_json::from_str(text).ok()?;
        clocks.into_iter().nth(node as usize)?.filter(|_| node > 0)
    }

    /// The readings by which a node's log tells its clock: keys and values.
    pub fn readings(self) -> [(&'static str, f64); 2] {
        [("clock_offset_s", self.ahead_s), ("clock_offset_error_s", self.error_s)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_finds_its_own_clock_and_the_first_one_none() {
        let clocks = [Some(Clock::default()), Some(Clock { ahead_s: -0.5, error_s: 0.001 }), None];
        let text = serde_json::to_string(&clocks).unwrap_or_default();
        let found = |node| Clock::in_text(&text, node).map(|clock| clock.ahead_s);
        assert_eq!((0..4).map(found).collect::<Vec<_>>(), [None, Some(-0.5), None, None]);
    }
}
