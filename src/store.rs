//! The session folder: logs that are the truth, an index made from them, one writer thread, readers that never wait.
//!
//! ```text
//! decide ──▶ journal.jsonl (fsynced) ─┐
//! event  ────────────────────────────┼─▶ bounded channel ─▶ writer thread ─▶ session.sqlite ─▶ Reader
//! sample ────────────────────────────┘        └─▶ runs/<id>/samples.jsonl
//! ```
//!
//! The ranks write `runs/<id>/rank-<r>.jsonl` themselves. Whatever is in the index can be made anew from the logs
//! with [`rebuild`]; opening a session does so by itself where the index is missing, damaged or of another version.

mod archive;
mod error;
mod folder;
mod index;
mod index_keeper;
mod journal;
mod lines;
mod reader;
mod record;
mod replay;
mod schema;
mod telemetry;
#[cfg(test)]
mod tests;
mod writer;

pub use archive::{ArchiveError, ArchiveProgress, LeftOut, export_session, import_session, verify_archive};
pub use error::StoreError;
pub use folder::{index_path, parse_session_file};
pub use journal::{Decision, JournalLine};
pub use reader::{Reader, RunProcess};
pub use record::{RankRecord, ReadingRecord, RunRecord, StepRecord, TelemetryRecord};
pub use replay::{RebuildReport, rebuild};
pub use writer::Store;
