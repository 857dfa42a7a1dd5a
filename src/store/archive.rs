//! A session as one file: a ZIP archive of its logs with a manifest of sizes and SHA-256 sums, without its index.
//!
//! ```text
//! manifest.json   version, program, created; path, size and sum of every other entry
//! session.toml
//! journal.jsonl
//! runs/<id>/…
//! ```

mod error;
mod export;
mod import;
mod manifest;
mod unpack;

pub use error::ArchiveError;
pub use export::{LeftOut, export_session};
pub use import::import_session;
pub use unpack::verify_archive;

use std::ops::ControlFlow;

/// Is told bytes done and bytes in all, and says whether to go on.
pub type ArchiveProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;
