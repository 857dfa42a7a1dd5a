//! Readings of a program.

use std::path::PathBuf;

use crate::plan::command::ReadingsSpec;
use crate::protocol::Event;

/// Environment variable that names the file of a program's own readings.
pub const READINGS_VARIABLE: &str = "MULTICARD_READINGS";
/// That file in the run's folder.
pub const READINGS_FILE: &str = "readings.jsonl";

/// How the warm-up is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// So many steps.
    Steps(u64),
    /// By step times.
    Found,
}

/// A stream of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Where a program runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// The run's folder.
    pub run_folder: PathBuf,
    /// The program's folder.
    pub working_folder: PathBuf,
    /// When it started, in seconds since the Unix epoch.
    pub started_s: f64,
}

/// All sources of a run.
pub struct Readings;

impl Readings {
    /// Sources of a run.
    pub fn new(_spec: &ReadingsSpec, _files: &[String], _place: &Place, _warm_up: WarmUp) -> Self {
        Self
    }

    /// Takes output.
    pub fn output(&mut self, _stream: Stream, _bytes: &[u8], _now_s: f64) {}

    /// What is new.
    pub fn poll(&mut self, _now_s: f64, _events: &mut Vec<(f64, Event)>) {}

    /// What is left.
    pub fn finish(&mut self, _now_s: f64, _events: &mut Vec<(f64, Event)>) {}
}
