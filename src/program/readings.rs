//! Readings of a program: what its output and its files say about its steps, and other numbers.
//!
//! The runner passes each line of output to every source and polls all of them several times a second, and once more after the
//! program has ended. What they find becomes events of the run's log.

use crate::plan::Key;
use crate::protocol::Phase;

/// Something that a program said about itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A step has ended.
    Step {
        /// Its number over the whole run, from 1; without one, it follows the previous step.
        step: Option<u64>,
        /// The number of steps of the whole run, if the program says so.
        steps: Option<u64>,
        /// The epoch, from 1.
        epoch: Option<u32>,
        /// Its duration; without one, the time since the previous step.
        duration_s: Option<f64>,
        /// Time spent waiting for data.
        wait_s: Option<f64>,
        /// The loss.
        loss: Option<f64>,
        /// Units (images, tokens) of the step, over all of the program's processes.
        units: Option<f64>,
        /// The program, or warm-up detection, excludes it from statistics; none leaves that to the plan's `warm_up_steps`.
        warm_up: Option<bool>,
        /// When it ended, in seconds since the Unix epoch.
        at_s: f64,
    },
    /// Any other number.
    Reading {
        /// The key of its measure.
        key: Key,
        /// The value, in the measure's unit.
        value: f64,
        /// The step it belongs to.
        step: Option<u64>,
        /// The epoch it belongs to.
        epoch: Option<u32>,
    },
    /// A phase begins.
    Phase(Phase),
    /// Something that the user should know, such as a line that is not what its source expects; the run continues.
    Warning(String),
}

/// A stream of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Where readings come from: lines of output, or files that the program writes.
pub trait Source {
    /// Takes a line of the program's output, without its line break. Bytes that are not UTF-8 have been replaced.
    fn line(&mut self, stream: Stream, line: &str, at_s: f64, found: &mut Vec<Found>) {
        let _ = (stream, line, at_s, found);
    }

    /// Reads what is new in its files; after the program's end, `last` is true, and a last line without a line break counts.
    ///
    /// # Errors
    /// A file cannot be read. The run's log says so once per message; the source is polled again.
    fn poll(&mut self, last: bool, found: &mut Vec<Found>) -> Result<(), String> {
        let _ = (last, found);
        Ok(())
    }
}
