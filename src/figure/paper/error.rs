//! Errors when a figure is made or written.

use std::path::PathBuf;

use thiserror::Error;

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
    #[error("writing {path}: {error}: choose a folder that exists and is writable")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        error: std::io::Error,
    },
    /// A filter that cannot be read.
    #[error("the filter, {0}")]
    Filter(#[from] crate::plan::FilterError),
}
