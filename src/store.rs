#![doc = include_str!("store/session.md")]
#![doc = include_str!("store/trust.md")]

mod archive;
mod block;
mod catalogue;
mod course;
mod error;
mod folder;
mod imported;
mod index;
mod index_keeper;
mod journal;
mod lines;
mod load;
mod mapping;
mod reader;
mod record;
mod replay;
mod schema;
mod sum;
mod telemetry;
#[cfg(test)]
mod tests;
mod writer;

pub use archive::{
    ArchiveError, ArchiveProgress, EndedRun, LeftOut, create_ended, export_anonymous, export_session, import_session,
    shown_host, shown_text, verify_archive,
};
pub use catalogue::{
    ARCHIVED, DeletedSession, IMPORTED_SYSTEM, SessionHeading, UNKNOWN_HOST, delete_session, rename_session,
    restore_deleted, run_notes, tags,
};
pub use error::StoreError;
pub use folder::{index_path, origin, parse_session_file, set_origin};
pub use imported::Imported;
pub use journal::{Decision, JournalLine};
pub use mapping::REPEAT_ROLE;
pub use reader::{ReadLists, Reader, RunProcess};
pub use record::{
    HeldCell, LoadRecord, RankRecord, ReadingRecord, RunRecord, StepRecord, TelemetryRecord, held_cells, number_of,
    repeated_text,
};
pub use replay::{RebuildReport, rebuild};
pub use sum::LogSum;
pub use writer::Store;
