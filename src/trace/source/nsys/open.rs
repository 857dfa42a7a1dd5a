//! Opens an export read-only and rejects invalid files early, with a clear message.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rusqlite::{Connection, OpenFlags};

use crate::foreign;
use crate::plan::counted;
use crate::trace::TraceError;

const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Magic bytes of files that are often given by mistake.
const MAGICS: &[(&[u8], &str)] = &[
    (b"\xfd7zXZ\0", "compressed with xz: unpack it first"),
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x89HDF", "an HDF5 export"),
    (b"ARROW1", "an Arrow export"),
    (b"PAR1", "a Parquet export"),
];

/// Maximum number of threads: more gain little, and each keeps its own sums.
const MOST_THREADS: usize = 16;

/// An open export.
pub(super) struct NsysExport<'a> {
    /// The file's name in messages.
    pub file: PathBuf,
    /// Number of threads to read with.
    pub threads: usize,
    place: Place<'a>,
    /// Connections that no thread uses at the moment.
    idle: Mutex<Vec<Connection>>,
    /// Names of the columns of each ordinary table.
    tables: HashMap<String, HashSet<String>>,
}

/// Where the bytes of an export are.
enum Place<'a> {
    /// The address of a file, for SQLite.
    File(String),
    Bytes(&'a [u8]),
}

impl Place<'_> {
    /// A connection that only reads.
    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = match self {
            Self::File(uri) => {
                let flags =
                    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(uri, flags)?
            }
            Self::Bytes(bytes) => {
                let mut connection = Connection::open_in_memory()?;
                connection.deserialize_read_exact("main", *bytes, bytes.len(), true)?;
                connection
            }
        };
        // A foreign schema must not run functions, and damaged pages must be detected. The file is not memory-mapped: if it were truncated
        // in the meantime, reading a mapped page would end the process.
        let settings = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON;
            PRAGMA mmap_size = 0;";
        connection.execute_batch(settings)?;
        Ok(connection)
    }
}

impl<'a> NsysExport<'a> {
    /// Opens an export on disk; the disk may be read-only.
    pub fn open(file: &Path) -> Result<Self, TraceError> {
        let io = |source| TraceError::Io { file: file.to_owned(), source };
        if file.is_dir() {
            return Err(not_a_report(file, "a folder"));
        }
        let mut opened = foreign::open(file).map_err(io)?;
        let about = opened.metadata().map_err(io)?;
        let mut head = Vec::new();
        opened.by_ref().take(100).read_to_end(&mut head).map_err(io)?;
        check_head(file, &head, about.len())?;
        for (suffix, what) in [("-journal", "its journal"), ("-wal", "its write-ahead log")] {
            let mut beside = file.as_os_str().to_owned();
            beside.push(suffix);
            let beside = PathBuf::from(beside);
            if beside.metadata().is_ok_and(|about| about.len() > 0) {
                let header =
                    format!("{what} {} is not empty: it is still being written, or was cut off", beside.display());
                return Err(not_a_report(file, &header));
            }
        }
        Self::with(file, Place::File(uri(file)))
    }

    /// Opens an export in memory; `file` is its name in messages.
    pub fn from_bytes(file: &Path, bytes: &'a [u8]) -> Result<Self, TraceError> {
        check_head(file, bytes, bytes.len() as u64)?;
        Self::with(file, Place::Bytes(bytes))
    }

    fn with(file: &Path, place: Place<'a>) -> Result<Self, TraceError> {
        let connection = place.connect().map_err(sqlite(file))?;
        let tables = tables(&connection).map_err(sqlite(file))?;
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        Ok(Self { file: file.to_owned(), threads, place, idle: Mutex::new(vec![connection]), tables })
    }

    /// Calls a function with a connection that no other thread uses at the same time.
    pub fn connected<T>(&self, work: impl FnOnce(&Connection) -> Result<T, TraceError>) -> Result<T, TraceError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.place.connect().map_err(|error| self.sqlite(error))?,
        };
        let result = work(&connection);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        result
    }

    /// The columns of a table; `None` if the table does not exist.
    pub fn columns(&self, table: &str) -> Option<&HashSet<String>> {
        self.tables.get(table)
    }

    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Names of a few tables, for messages.
    pub fn some_tables(&self) -> String {
        let mut names: Vec<&str> = self.tables.keys().map(String::as_str).collect();
        names.sort_unstable();
        match names.len() {
            0 => "no table at all".to_owned(),
            n => {
                let shown: Vec<String> =
                    names.iter().take(3).map(|name| name.chars().take(40).collect::<String>()).collect();
                format!("{} ({}{})", counted(n, "table"), shown.join(", "), if n > 3 { ", …" } else { "" })
            }
        }
    }

    pub fn sqlite(&self, source: rusqlite::Error) -> TraceError {
        sqlite(&self.file)(source)
    }

    pub fn damaged(&self, place: impl Into<String>, problem: impl Into<String>) -> TraceError {
        TraceError::Damaged { file: self.file.clone(), place: place.into(), problem: problem.into() }
    }
}

fn sqlite(file: &Path) -> impl Fn(rusqlite::Error) -> TraceError + '_ {
    |source| TraceError::Sqlite { file: file.to_owned(), source }
}

fn not_a_report(file: &Path, found: &str) -> TraceError {
    TraceError::NotAReport { file: file.to_owned(), found: found.to_owned() }
}

/// Ordinary tables and their columns. Views, virtual tables and generated columns are left out, because they would run code from the file.
fn tables(connection: &Connection) -> rusqlite::Result<HashMap<String, HashSet<String>>> {
    let mut list = connection.prepare(
        "SELECT list.name, info.name FROM pragma_table_list AS list JOIN pragma_table_xinfo(list.name) AS info
         WHERE list.schema = 'main' AND list.type = 'table' AND list.name NOT GLOB 'sqlite_*' AND hidden = 0",
    )?;
    let mut tables: HashMap<String, HashSet<String>> = HashMap::new();
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
    }
    Ok(tables)
}

/// Rejects everything but a complete SQLite file.
fn check_head(file: &Path, head: &[u8], size_bytes: u64) -> Result<(), TraceError> {
    if head.is_empty() {
        return Err(not_a_report(file, "an empty file"));
    }
    let magic = &head[..head.len().min(SQLITE_MAGIC.len())];
    if magic != SQLITE_MAGIC {
        let found = match MAGICS.iter().find(|(magic, _)| head.starts_with(magic)) {
            Some((_, what)) => what,
            None if SQLITE_MAGIC.starts_with(magic) => "cut off within its first bytes",
            None if is_text(&head[..head.len().min(100)]) => "a text file",
            None => "not an SQLite file, or an encrypted one",
        };
        return Err(not_a_report(file, found));
    }
    let Some(header) = head.first_chunk::<100>() else {
        return Err(not_a_report(file, "cut off within its first bytes"));
    };
    if header[59] > 1 {
        return Err(not_a_report(file, "an SQLite file with text in UTF-16, which nsys does not write"));
    }
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let pages = u64::from(u32::from_be_bytes([header[28], header[29], header[30], header[31]]));
    // The page count is valid only if both change counters agree (SQLite file format, 1.3.8).
    let valid = header[24..28] == header[92..96];
    if valid && size_bytes < pages * page_bytes {
        return Err(TraceError::Truncated {
            file: file.to_owned(),
            expected_bytes: pages * page_bytes,
            found_bytes: size_bytes,
        });
    }
    Ok(())
}

fn is_text(head: &[u8]) -> bool {
    // The last character may be cut off.
    let whole = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.valid_up_to() + 4 > head.len() && error.error_len().is_none(),
    };
    whole && !head.iter().any(|byte| *byte < 9)
}

/// A path as an SQLite URI. `immutable` disables locking, so that reports on read-only disks open.
fn uri(file: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in file.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri + "?immutable=1"
}

/// Whether a file is an SQLite database, by its first bytes.
pub(in crate::trace) fn is_sqlite(file: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(file)?.take(SQLITE_MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head == SQLITE_MAGIC)
}
