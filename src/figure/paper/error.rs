//! Errors of making and writing figures.

use std::path::PathBuf;

use thiserror::Error;

/// Why a figure was not made.
#[derive(Debug, Error)]
pub enum FigureError {
    /// It cannot be written in a format.
    #[error("writing a figure as {format}: {reason}")]
    NotWritten {
        /// Which.
        format: &'static str,
        /// Why.
        reason: String,
    },
    /// The file cannot be written.
    #[error("writing {path}: {error}: choose a folder that is there and can be written")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A filter that cannot be read.
    #[error("the filter, {0}")]
    Filter(#[from] crate::plan::FilterError),
}
