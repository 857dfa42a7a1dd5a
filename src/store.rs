//! The session folder: logs that are the truth, an index made from them, one writer thread, readers that never wait.

mod record;

pub use record::{EpochRecord, EvaluationRecord, RankRecord, RunRecord, StepRecord, TelemetryRecord};
