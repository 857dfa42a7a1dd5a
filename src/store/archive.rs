//! Archives: a session as one ZIP file that holds its logs and a manifest of sizes and SHA-256 sums, but not its index.
//!
//! ```text
//! manifest.json   version, program, created; path, size and checksum of every other entry
//! session.toml
//! journal.jsonl
//! runs/<id>/…
//! ```

mod anonymous;
mod ended;
mod error;
mod export;
mod import;
mod manifest;
mod tree;
mod unpack;
mod words;

pub use anonymous::{shown_host, shown_text};
pub use ended::{EndedRun, create_ended};
pub use error::ArchiveError;
pub use export::{LeftOut, export_anonymous, export_session};
pub use import::import_session;
pub use unpack::verify_archive;

use std::ops::ControlFlow;

/// Callback that receives the bytes done and the total, and decides whether to continue.
pub type ArchiveProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;
