//! Progress and cancellation of an import.

use std::ops::ControlFlow;

use super::TraceError;
use super::open::NsysExport;

/// A stage of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// nsys exports the `.nsys-rep`.
    Exporting,
    /// The export is being read.
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
    pages_total: usize,
    pages_done: usize,
}

impl<'a> Watch<'a> {
    /// Sets the total to the pages of these tables.
    pub fn new(
        tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
        report: &NsysExport<'_>,
        tables: &[&str],
    ) -> Result<Self, TraceError> {
        let mut pages_total = 0;
        for table in tables {
            pages_total += report.leaves(table)?.len();
        }
        Ok(Self { tell, pages_total, pages_done: 0 })
    }

    /// Reports `pages` pages of the current table.
    pub fn look(&mut self, pages: usize) -> Result<(), TraceError> {
        let fraction = (self.pages_done + pages) as f64 / self.pages_total.max(1) as f64;
        match (self.tell)(Progress { stage: Stage::Reading, fraction: fraction.clamp(0.0, 1.0) }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(TraceError::Cancelled),
        }
    }

    /// Reports a completed table of `pages` pages.
    pub fn table_done(&mut self, pages: usize) -> Result<(), TraceError> {
        self.pages_done += pages;
        self.look(0)
    }
}
