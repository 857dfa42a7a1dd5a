//! How far an import is, who hears it, and who may stop it.

use std::ops::ControlFlow;

use super::TraceError;
use super::open::NsysExport;

/// What an import is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// nsys makes an `.sqlite` of an `.nsys-rep`.
    Exporting,
    /// The export is read.
    Reading,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What it is doing.
    pub stage: Stage,
    /// How much of that is done, from 0 to 1.
    pub fraction: f64,
}

/// Who is told how far an import is, and who may stop it.
pub(super) struct Watch<'a> {
    tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    pages_total: usize,
    pages_done: usize,
}

impl<'a> Watch<'a> {
    /// Counts on the pages of these tables.
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

    /// Reports `pages` more than those of the tables before.
    pub fn look(&mut self, pages: usize) -> Result<(), TraceError> {
        let fraction = (self.pages_done + pages) as f64 / self.pages_total.max(1) as f64;
        match (self.tell)(Progress { stage: Stage::Reading, fraction: fraction.clamp(0.0, 1.0) }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(TraceError::Cancelled),
        }
    }

    /// Reports that a table of `pages` has been read.
    pub fn table_done(&mut self, pages: usize) -> Result<(), TraceError> {
        self.pages_done += pages;
        self.look(0)
    }
}
