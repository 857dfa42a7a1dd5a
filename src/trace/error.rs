//! Errors of reports, each with its remedy.

use std::io;
use std::path::PathBuf;

/// Why a report could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file system returned an error.
    #[error("{file}: {source}; check the path and the permissions", file = file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// The file is not a report.
    #[error(
        "{file}: {found}; give an .nsys-rep, the .sqlite that `nsys export --type sqlite` makes of it, a trace of PyTorch's \
         profiler (.json, .json.gz), or an events file",
        file = file.display()
    )]
    NotAReport {
        /// The file.
        file: PathBuf,
        /// The actual kind of the file.
        found: String,
    },
    /// Two files of a folder are the same trace.
    #[error(
        "{file} and {copy} are copies of one trace, whose events would count twice; remove one of them from the folder",
        file = file.display(),
        copy = copy.display()
    )]
    Copies {
        /// The file.
        file: PathBuf,
        /// The other file.
        copy: PathBuf,
    },
    /// The file is truncated.
    #[error(
        "{file}: cut off: its header declares {expected_bytes} bytes, but it has {found_bytes}; copy or export it again",
        file = file.display()
    )]
    Truncated {
        /// The file.
        file: PathBuf,
        /// The size that its header states.
        expected_bytes: u64,
        /// The size of the file.
        found_bytes: u64,
    },
    /// The export has an unsupported schema.
    #[error("{file}: {found}; {advice}", file = file.display())]
    Schema {
        /// The file.
        file: PathBuf,
        /// The schema found.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// An impossible value. The whole report is rejected, because its sums would be wrong.
    #[error("{file}: {place}: {problem}; the file is damaged: export or record it again", file = file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Table and row.
        place: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// SQLite could not read the file.
    #[error("{file}: {source}; the file is damaged or incomplete: copy or export it again", file = file.display())]
    Sqlite {
        /// The file.
        file: PathBuf,
        /// SQLite's message.
        source: rusqlite::Error,
    },
    /// No nsys was found to export the .nsys-rep.
    #[error(
        "{file}: reading an .nsys-rep needs nsys, and {looked}; install Nsight Systems, set MULTICARD_NSYS to its \
         nsys, or run `nsys export --type sqlite` where the report was recorded and open the .sqlite",
        file = file.display()
    )]
    NoNsys {
        /// The file.
        file: PathBuf,
        /// The places searched.
        looked: String,
    },
    /// nsys failed to export the report.
    #[error("{file}: `nsys export` failed ({status}): {output}", file = file.display())]
    Export {
        /// The report.
        file: PathBuf,
        /// The exit status of nsys.
        status: String,
        /// The last lines of its output.
        output: String,
    },
    /// There is no folder of this user in which its events could be stored.
    #[error(
        "{file}: it must be converted once, but there is no folder for the result: {reason}; set HOME or XDG_CACHE_HOME, or convert it \
             with `multicard trace FILE --events OUT` and open OUT",
        file = file.display()
    )]
    NoCache {
        /// The report.
        file: PathBuf,
        /// Why no folder can be used.
        reason: String,
    },
    /// The window is empty or invalid.
    #[error(
        "from {from_s} s to {to_s} s is not a valid window: times are seconds from the start of the report, and the first must be \
         smaller"
    )]
    Window {
        /// Its start.
        from_s: f64,
        /// Its end.
        to_s: f64,
    },
    /// It cannot be divided into steps as asked.
    #[error(
        "{reason}: `multicard trace FILE` lists names; two marks are seconds from the start of the recording, such as 3.2:3.4"
    )]
    Steps {
        /// The reason, which names what was not found.
        reason: String,
    },
    /// The caller cancelled the import.
    #[error("import cancelled; nothing was kept")]
    Cancelled,
}
