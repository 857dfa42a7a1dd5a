//! Errors when a figure is made or written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::foreign;

/// Why a figure was not made.
#[derive(Debug, Error)]
pub enum FigureError {
    /// It cannot be written in a format.
    #[error("writing a figure as {format}: {reason}")]
    NotWritten {
        /// The format.
        format: &'static str,
        /// What the writer reported.
        reason: String,
    },
    /// The file cannot be written.
    #[error("writing {path}: {error}: {}", advice(.error))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        error: io::Error,
    },
    /// A filter that cannot be read.
    #[error("the filter, {0}")]
    Filter(#[from] crate::plan::FilterError),
}

/// What to do about a file that cannot be written.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full: free some space, or choose a folder on another disk"
        }
        io::ErrorKind::InvalidFilename => "choose a shorter name",
        _ => foreign::advice(error).unwrap_or("choose a folder that exists and is writable"),
    }
}
