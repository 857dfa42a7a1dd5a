//! What is kept of a profiler's report.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use super::Evidence;

/// The NVTX range that a rank opens for the part of the run that a profiler is to record.
pub const CAPTURE_RANGE: &CStr = c"capture";

/// One metric of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMetric {
    /// `host_to_device`, `cuda_launch_kernel`, …
    pub key: String,
    /// How often.
    pub calls: u64,
    /// How long, summed over GPUs and threads.
    pub seconds: f64,
    /// `Time (%)` of the nsys report that lists it.
    pub percent_of_report: f64,
    /// Share of all metrics.
    pub percent_of_shown: f64,
    /// Share of the time the report covers, divided by the GPUs.
    pub percent_of_wall: f64,
}

/// What is kept of a report: of a run, or of one that stands alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// The file's name.
    pub file: String,
    /// The schema of the export, such as `3.20.3`.
    pub schema_version: String,
    /// The Nsight Systems that exported it.
    pub product_version: Option<String>,
    /// How much time it covers.
    pub wall_s: f64,
    /// GPUs that worked.
    pub gpus: u32,
    /// The papers' metrics, and NCCL's other collectives.
    pub metrics: Vec<TraceMetric>,
    /// What it shows of its run's factors; nothing for a report that stands alone.
    pub evidence: Vec<Evidence>,
    /// What a reader should know of it.
    pub warnings: Vec<String>,
}

/// What came of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceOutcome {
    /// It was imported.
    Imported(Box<TraceSummary>),
    /// There is none, or it could not be imported: what happened and what to do.
    Failed(String),
}
