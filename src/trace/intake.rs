//! Events on their way into an events file: impossible ones are counted and left out, since their sums would be wrong.

use std::fs::File;
use std::io::{self, Write};

use super::event::{Kind, What, check_allocation, check_span};
use super::file::{EventsWriter, Lane, Row, extras};

/// A writer that takes only events that are possible.
pub(super) struct Intake<W = File> {
    pub writer: EventsWriter<W>,
    impossible: u64,
    first_impossible: Option<String>,
    has_work: bool,
}

impl<W: Write> Intake<W> {
    pub fn new(writer: EventsWriter<W>) -> Self {
        Self { writer, impossible: 0, first_impossible: None, has_work: false }
    }

    /// Whether an event is possible; if not, it is counted as left out.
    pub fn admits(&mut self, span: (i64, i64), what: What) -> bool {
        let possible = check_span(span).and_then(|()| match what {
            What::Allocation { bytes, operation, .. } => check_allocation(bytes, operation),
            _ => Ok(()),
        });
        possible.map_err(|why| self.refuse(why)).is_ok()
    }

    /// Counts an event as left out.
    pub fn refuse(&mut self, why: String) {
        self.impossible += 1;
        self.first_impossible.get_or_insert(why);
    }

    /// Adds an event that was admitted.
    pub fn push(
        &mut self,
        lane: &Lane,
        (start, end): (i64, i64),
        name: u32,
        correlation: i64,
        what: What,
    ) -> io::Result<()> {
        self.has_work |= !matches!(lane.kind, Kind::Range | Kind::Domain | Kind::Collective);
        let lane = self.writer.lane(lane);
        self.writer.push(lane, Row { start, end, name, correlation, extras: extras(what) })
    }

    /// Whether there was work of GPUs, or a call of CUDA.
    pub fn has_work(&self) -> bool {
        self.has_work
    }

    /// The warning about events that were left out.
    pub fn refused(&mut self) -> Option<String> {
        let first = self.first_impossible.take().unwrap_or_default();
        match self.impossible {
            0 => None,
            1 => Some(format!("1 event with impossible times or sizes is left out: {first}")),
            events => {
                Some(format!("{events} events with impossible times or sizes are left out; of the first, {first}"))
            }
        }
    }
}
