//! Errors of data sets.

use std::io;
use std::path::{Path, PathBuf};

use crate::foreign;
use crate::plan::counted;

/// A data set could not be found, read, generated or downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// There is no home directory.
    #[error("no folder for data sets: {0}, or set MULTICARD_DATA to a folder")]
    NoDataFolder(String),
    /// A file of the set is missing.
    #[error("{}/{file}[.gz] is missing; {remedy}", folder.display())]
    Absent {
        /// The folder searched.
        folder: PathBuf,
        /// File name without `.gz`.
        file: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A folder of image files was used where an IDX set is needed.
    #[error("{} is a folder of image files, for scenario b only; use digits or mnist here", .0.display())]
    NotBytes(PathBuf),
    /// A folder of image files without class folders.
    #[error("{} contains no folders of images: it needs one folder per class", .0.display())]
    NoClasses(PathBuf),
    /// More classes than labels can count.
    #[error("{} has {found} folders of images, one per class; at most {most} are read: remove some", folder.display())]
    TooManyClasses {
        /// The part's folder.
        folder: PathBuf,
        /// Number of classes found.
        found: usize,
        /// Greatest number of classes.
        most: usize,
    },
    /// The two parts have different classes.
    #[error("{} has the classes {found:?}; {expected}", folder.display())]
    Classes {
        /// The part's folder.
        folder: PathBuf,
        /// The classes found.
        found: Vec<String>,
        /// The classes expected.
        expected: String,
    },
    /// An image that cannot be decoded.
    #[error("{} cannot be decoded: {reason}; remove it, or set corrupt = \"skip\" in the plan's [data]", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The decoder's message.
        reason: String,
    },
    /// The target folder is not empty.
    #[error("{} exists already: name another folder, or remove it first", .0.display())]
    Exists(PathBuf),
    /// Reading failed.
    #[error("reading {} failed: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Writing failed.
    #[error("writing {} failed: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The disk is full.
    #[error("writing {} failed: the disk is full; free some space, or set MULTICARD_DATA to a folder on another disk", .0.display())]
    DiskFull(PathBuf),
    /// The file is not an IDX file of the expected kind.
    #[error("{} starts with {found:#010x}, but an IDX file of {what} starts with {expected:#010x}", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
        /// Images or labels.
        what: &'static str,
        /// The expected magic number.
        expected: u32,
        /// Its first four bytes.
        found: u32,
    },
    /// The header describes an invalid image size.
    #[error("{} declares {count} images of {rows}×{columns} pixels; sides must be 1 to 4096 pixels", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Declared images.
        count: u32,
        /// Declared rows.
        rows: u32,
        /// Declared columns.
        columns: u32,
    },
    /// Shorter than its header says.
    #[error("{} is truncated: expected {expected} bytes, found {found}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Uncompressed size by its header, in bytes, including the header.
        expected: u64,
        /// Uncompressed size found, in bytes.
        found: u64,
    },
    /// Longer than its header says.
    #[error("{} is longer than the {expected} bytes that its header declares", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Uncompressed size by its header, in bytes, including the header.
        expected: u64,
    },
    /// The numbers of images and labels differ.
    #[error("{} holds {images} images, but {} holds {labels} labels", images_path.display(), labels_path.display())]
    Counts {
        /// The file of images.
        images_path: PathBuf,
        /// Number of images.
        images: usize,
        /// The file of labels.
        labels_path: PathBuf,
        /// Number of labels.
        labels: usize,
    },
    /// A label that is not a digit.
    #[error("label {index} of {} is {label}; labels are 0 to 9", path.display())]
    Label {
        /// The file of labels.
        path: PathBuf,
        /// Index of the label, from 0.
        index: usize,
        /// Its value.
        label: u8,
    },
    /// The download failed from every mirror.
    #[error("downloading {file} failed: {}; try again (received data is kept), or put the files into {} yourself", tried.join("; "), folder.display())]
    Fetch {
        /// The file's name.
        file: String,
        /// The target folder.
        folder: PathBuf,
        /// Each URL with its error.
        tried: Vec<String>,
    },
    /// A row, or a whole file of rows, that cannot be used.
    #[error("{}{}: {reason}", path.display(), place.as_ref().map(|place| format!(", {place}")).unwrap_or_default())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row and its line, if they are known.
        place: Option<String>,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Fewer rows than the plan asks for.
    #[error("only {rows} rows in {}{}, but {requested} are asked for: lower rows or test_rows", path.display(), more_files(*files))]
    FewRows {
        /// The first file.
        path: PathBuf,
        /// How many there are.
        files: usize,
        /// Rows in all of them.
        rows: usize,
        /// Rows asked for.
        requested: usize,
    },
    /// A published data set is not there.
    #[error("{} contains no rows of {set}: run `multicard data fetch {set}`, or use data.set = stand-in", folder.display())]
    NoText {
        /// The folder searched.
        folder: PathBuf,
        /// The data set.
        set: &'static str,
    },
    /// Text without a tokenizer.
    #[error("text needs a tokenizer: name data.tokenizer, or data.weights if the folder contains one")]
    NoTokenizer,
    /// A tokenizer that cannot be used.
    #[error("{}: {reason}", path.display())]
    Tokenizer {
        /// Its file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Text that cannot be read as a plan asks for it: why.
    #[error("{0}")]
    Text(String),
    /// A thread could not be started.
    #[error("cannot start a thread to generate images: {0}")]
    Thread(io::Error),
    /// The progress callback cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

/// ` and 2 more files`, after the name of the first one; nothing if it is the only one.
pub(super) fn more_files(files: usize) -> String {
    if files > 1 { format!(" and {}", counted(files - 1, "more file")) } else { String::new() }
}

impl DatasetError {
    /// An error from reading `path`.
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    /// An error from writing `path`; a full disk has its own variant.
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| if foreign::is_full_disk(&source) { Self::DiskFull(path) } else { Self::Write { path, source } }
    }
}
