//! Progress and cancellation of an import.

use std::ops::ControlFlow;

use super::TraceError;

/// A stage of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// nsys exports the `.nsys-rep`.
    Exporting,
    /// The recording is being read.
    Reading,
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// The completed fraction of the stage, from 0 to 1.
    pub fraction: f64,
}

/// Reports progress to a callback, which may cancel.
pub(super) struct Watch<'a> {
    tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    units_total: usize,
    units_done: usize,
}

impl<'a> Watch<'a> {
    /// Sets the total.
    pub fn new(tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>, units_total: usize) -> Self {
        Self { tell, units_total, units_done: 0 }
    }

    /// Adds `units` to the progress of the current part.
    pub fn look(&mut self, units: usize) -> Result<(), TraceError> {
        let fraction = (self.units_done + units) as f64 / self.units_total.max(1) as f64;
        match (self.tell)(Progress { stage: Stage::Reading, fraction: fraction.clamp(0.0, 1.0) }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(TraceError::Cancelled),
        }
    }

    /// Reports that a part of `units` was read completely.
    pub fn done(&mut self, units: usize) -> Result<(), TraceError> {
        self.units_done += units;
        self.look(0)
    }
}
