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
    #[error("writing {path}: {error}{}", advice(.error))]
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

/// The advice about a file that cannot be written, to follow a colon. Empty if the error is a message of multicard, which already has its
/// advice.
fn advice(error: &io::Error) -> String {
    if error.get_ref().is_some() {
        return String::new();
    }
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full: free some space, or choose a folder on another disk"
        }
        io::ErrorKind::InvalidFilename => "choose a shorter name",
        _ => foreign::advice(error).unwrap_or("choose a folder that exists and is writable"),
    };
    format!(": {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_has_one_advice() {
        let message = |error: io::Error| FigureError::File { path: "a.pdf".into(), error }.to_string();
        let own = io::Error::new(io::ErrorKind::InvalidInput, "it belongs to a session: choose another name");
        assert_eq!(message(own), "writing a.pdf: it belongs to a session: choose another name");
        let of_system = message(io::ErrorKind::NotFound.into());
        assert!(of_system.ends_with(": choose a folder that exists and is writable"), "{of_system}");
    }
}
