//! What can go wrong with a data set.

use std::io;
use std::path::{Path, PathBuf};

/// Why a data set could not be found, read, made or fetched.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// No home directory, so no place for data.
    #[error("found no folder for data sets: this user has no home directory; set MULTICARD_DATA to a folder")]
    NoDataFolder,
    /// A file of the set is missing.
    #[error("{}/{file}[.gz] is absent; {remedy}", folder.display())]
    Absent {
        /// Where it was looked for.
        folder: PathBuf,
        /// Its name without `.gz`.
        file: &'static str,
        /// What the user can do.
        remedy: &'static str,
    },
    /// A folder of image files was asked for as bytes.
    #[error("{} is a folder of image files, which scenario b decodes; digits and mnist are read as bytes", .0.display())]
    NotBytes(PathBuf),
    /// A folder of image files without a part, or without classes in it.
    #[error("{} holds no folders of images: one for each class is expected there", .0.display())]
    NoClasses(PathBuf),
    /// More classes than the model tells apart, or others in the test part.
    #[error("{} has the classes {found:?}; {expected}", folder.display())]
    Classes {
        /// The part's folder.
        folder: PathBuf,
        /// Names of its sub-folders.
        found: Vec<String>,
        /// What they should be.
        expected: String,
    },
    /// Not an image that can be decoded.
    #[error("{} cannot be decoded: {reason}; remove it, or say corrupt = \"skip\" in the plan's [data]", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What its decoder found.
        reason: String,
    },
    /// Something is where a set should be made.
    #[error("{} is there already: name another folder, or remove it first", .0.display())]
    Exists(PathBuf),
    /// Reading failed.
    #[error("reading {} failed: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Writing failed.
    #[error("writing {} failed: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No space is left.
    #[error("writing {} failed: the disk is full; free some space or set MULTICARD_DATA to a folder on another disk", .0.display())]
    DiskFull(PathBuf),
    /// Not an IDX file of the kind expected.
    #[error("{} starts with {found:#010x} where an IDX file of {what} starts with {expected:#010x}", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
        /// Images or labels.
        what: &'static str,
        /// The magic number of that kind.
        expected: u32,
        /// Its first four bytes.
        found: u32,
    },
    /// The header does not describe images that can be.
    #[error("{} announces {count} images of {rows}×{columns} pixels; at least 1 and at most 4096 pixels a side are read", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Images announced.
        count: u32,
        /// Rows announced.
        rows: u32,
        /// Columns announced.
        columns: u32,
    },
    /// Shorter than its header says.
    #[error("{} is truncated: expected {expected} bytes, found {found}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that its header announces, header included, uncompressed.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// Longer than its header says.
    #[error("{} goes on after the {expected} bytes that its header announces", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Bytes that its header announces, header included, uncompressed.
        expected: u64,
    },
    /// Images and labels do not belong together.
    #[error("{} holds {images} images, but {} holds {labels} labels", images_path.display(), labels_path.display())]
    Counts {
        /// The file of images.
        images_path: PathBuf,
        /// Its count.
        images: usize,
        /// The file of labels.
        labels_path: PathBuf,
        /// Its count.
        labels: usize,
    },
    /// A label that is no digit.
    #[error("label {index} of {} is {label}; labels are 0 to 9", path.display())]
    Label {
        /// The file of labels.
        path: PathBuf,
        /// Which label, from 0.
        index: usize,
        /// Its value.
        label: u8,
    },
    /// No mirror gave the file.
    #[error("fetching {file} failed: {}; try again (what arrived is kept), or put the files into {} yourself", tried.join("; "), folder.display())]
    Fetch {
        /// The file's name.
        file: String,
        /// Where it should have gone.
        folder: PathBuf,
        /// Each address and what happened there.
        tried: Vec<String>,
    },
    /// No thread could be started.
    #[error("starting a thread that draws digits failed: {0}")]
    Thread(io::Error),
    /// The progress callback asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl DatasetError {
    /// Reading `path` failed.
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    /// Writing `path` failed; a full disk has its own error.
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path),
            _ => Self::Write { path, source },
        }
    }
}
