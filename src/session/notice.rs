//! What a session says of what happens in it.

use crate::plan::RunState;
use crate::protocol::{EventLine, Sample, TraceOutcome};

/// Something that happened, for whoever shows it.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A run changed its state.
    State {
        /// Which run.
        run: String,
        /// Where it stands now.
        state: RunState,
        /// Why, where it did not finish.
        reason: Option<String>,
    },
    /// A rank said something.
    Event(EventLine),
    /// What telemetry read while a run was under way.
    Sample {
        /// Which run.
        run: String,
        /// What.
        sample: Box<Sample>,
    },
    /// A report is being imported.
    Importing {
        /// The run's id, or the name of a report that stands alone.
        name: String,
        /// How much of that is done, from 0 to 1.
        fraction: f64,
    },
    /// The import of a report is over.
    Trace {
        /// The run's id, or the name of a report that stands alone.
        name: String,
        /// What came of it; none where it was cancelled.
        outcome: Option<TraceOutcome>,
    },
    /// A line of a rank's log that could not be read, with file and line.
    Noise {
        /// Which run.
        run: String,
        /// What and where.
        message: String,
    },
}
