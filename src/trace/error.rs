//! What can go wrong with a report, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a report could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file system refused.
    #[error("{file}: {source}; check the path and the permissions", file = file.display())]
    Io {
        /// What was opened.
        file: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file is something else.
    #[error(
        "{file}: {found}; give an .nsys-rep, or the .sqlite that `nsys export --type sqlite` makes of it",
        file = file.display()
    )]
    NotAReport {
        /// What was opened.
        file: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// The file ends too early.
    #[error(
        "{file}: cut off: its header speaks of {expected_bytes} bytes, it has {found_bytes}; copy or export it again",
        file = file.display()
    )]
    Truncated {
        /// What was opened.
        file: PathBuf,
        /// What its header says.
        expected_bytes: u64,
        /// What is there.
        found_bytes: u64,
    },
    /// The export is of a schema that is not known here.
    #[error("{file}: {found}; {advice}", file = file.display())]
    Schema {
        /// What was opened.
        file: PathBuf,
        /// The schema that was found.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A value that no report holds. Nothing of the report is used then, because its sums would be wrong.
    #[error("{file}: {place}: {problem}; the file is damaged: export or record it again", file = file.display())]
    Damaged {
        /// What was opened.
        file: PathBuf,
        /// Table and row.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// SQLite could not read the file.
    #[error("{file}: {source}; the file is damaged or incomplete: copy or export it again", file = file.display())]
    Sqlite {
        /// What was opened.
        file: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// There is no nsys to read an .nsys-rep with.
    #[error(
        "{file}: reading an .nsys-rep needs nsys, and {looked}; install Nsight Systems, set MULTICARD_NSYS to its \
         nsys, or run `nsys export --type sqlite` where the report was recorded and open the .sqlite",
        file = file.display()
    )]
    NoNsys {
        /// What was opened.
        file: PathBuf,
        /// Where it was looked for.
        looked: String,
    },
    /// nsys did not export the report.
    #[error("{file}: `nsys export` failed ({status}): {said}", file = file.display())]
    Export {
        /// What was exported.
        file: PathBuf,
        /// How nsys ended.
        status: String,
        /// The last it said.
        said: String,
    },
    /// The window is none.
    #[error("from {from_s} s to {to_s} s: no such window; times are seconds from the start of the report, from < to")]
    Window {
        /// Its start.
        from_s: f64,
        /// Its end.
        to_s: f64,
    },
    /// The caller asked to stop.
    #[error("import cancelled; nothing was kept")]
    Cancelled,
}
