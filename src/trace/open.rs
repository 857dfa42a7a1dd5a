//! Opens an export for reading: says early and plainly what is wrong with a file, and changes nothing on disk.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rusqlite::{Connection, OpenFlags};

use super::TraceError;

const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Beginnings of files that people give by mistake.
const MAGICS: &[(&[u8], &str)] = &[
    (b"\xfd7zXZ\0", "compressed with xz: unpack it first"),
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x89HDF", "an HDF5 export"),
    (b"ARROW1", "an Arrow export"),
    (b"PAR1", "a Parquet export"),
];

/// More threads than this gain little, and each has sums of its own.
const MOST_THREADS: usize = 16;

/// An export that is open, on a connection for each thread that reads it.
pub(super) struct Report<'a> {
    /// For messages.
    pub file: PathBuf,
    /// How large the file is; it bounds how many rows it can hold.
    pub size_bytes: u64,
    source: Source<'a>,
    /// Connections that no thread uses now.
    free: Mutex<Vec<Connection>>,
    /// The columns of each table.
    tables: HashMap<String, Vec<String>>,
}

/// Where an export is.
enum Source<'a> {
    File(PathBuf),
    Bytes(&'a [u8]),
}

impl Source<'_> {
    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = match self {
            Self::File(file) => {
                let flags =
                    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(uri(file), flags)?
            }
            Self::Bytes(bytes) => {
                let mut connection = Connection::open_in_memory()?;
                connection.deserialize_read_exact("main", *bytes, bytes.len(), true)?;
                connection
            }
        };
        // A schema made by somebody else may not run functions of its own choice, and broken pages are to be noticed.
        // Pages are read once: few are kept.
        let settings = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON;
            PRAGMA cache_size = -256;";
        connection.execute_batch(settings)?;
        Ok(connection)
    }
}

impl<'a> Report<'a> {
    /// Opens an export on disk, which may be read-only.
    pub fn open(file: &Path) -> Result<Self, TraceError> {
        let io = |source| TraceError::Io { file: file.to_owned(), source };
        let mut opened = File::open(file).map_err(io)?;
        let about = opened.metadata().map_err(io)?;
        if about.is_dir() {
            return Err(not_a_report(file, "a folder"));
        }
        let mut head = Vec::new();
        opened.by_ref().take(100).read_to_end(&mut head).map_err(io)?;
        check_head(file, &head, about.len())?;
        for (suffix, what) in [("-journal", "its journal"), ("-wal", "its write-ahead log")] {
            let mut beside = file.as_os_str().to_owned();
            beside.push(suffix);
            let beside = PathBuf::from(beside);
            if beside.metadata().is_ok_and(|about| about.len() > 0) {
                let found =
                    format!("{what} {} is not empty: it is still being written, or was cut off", beside.display());
                return Err(not_a_report(file, &found));
            }
        }
        Self::with(file, Source::File(file.to_owned()), about.len())
    }

    /// Opens an export in memory; `file` is what messages call it.
    pub fn from_bytes(file: &Path, bytes: &'a [u8]) -> Result<Self, TraceError> {
        check_head(file, bytes, bytes.len() as u64)?;
        Self::with(file, Source::Bytes(bytes), bytes.len() as u64)
    }

    fn with(file: &Path, source: Source<'a>, size_bytes: u64) -> Result<Self, TraceError> {
        let connection = source.connect().map_err(sqlite(file))?;
        let tables = tables(&connection).map_err(sqlite(file))?;
        Ok(Self { file: file.to_owned(), size_bytes, source, free: Mutex::new(vec![connection]), tables })
    }

    /// Does something with a connection that no other thread uses meanwhile.
    pub fn on_connection<T>(&self, work: impl FnOnce(&Connection) -> Result<T, TraceError>) -> Result<T, TraceError> {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free().pop();
        let connection = match found {
            Some(connection) => connection,
            None => self.source.connect().map_err(|error| self.sqlite(error))?,
        };
        let done = work(&connection);
        free().push(connection);
        done
    }

    /// How many threads can read at a time. Each would need a copy of what is in memory.
    pub fn threads(&self) -> usize {
        match self.source {
            Source::File(_) => thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS),
            Source::Bytes(_) => 1,
        }
    }

    /// The columns of a table that is there.
    pub fn columns(&self, table: &str) -> Option<&[String]> {
        self.tables.get(table).map(Vec::as_slice)
    }

    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The names of a few tables, for messages.
    pub fn some_tables(&self) -> String {
        let mut names: Vec<&str> = self.tables.keys().map(String::as_str).collect();
        names.sort_unstable();
        match names.len() {
            0 => "no table at all".to_owned(),
            n => {
                let shown: Vec<String> =
                    names.iter().take(3).map(|name| name.chars().take(40).collect::<String>()).collect();
                format!("{n} tables ({}{})", shown.join(", "), if n > 3 { ", …" } else { "" })
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

/// Tables that hold rows of their own. Views and virtual tables run code of the file's maker, so they are not there.
fn tables(connection: &Connection) -> rusqlite::Result<HashMap<String, Vec<String>>> {
    let mut list = connection.prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")?;
    let names = list.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    // Generated columns are not in this list, which is right: they too are code.
    let mut info = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let mut tables = HashMap::new();
    for name in names.into_iter().filter(|name| !name.starts_with("sqlite_")) {
        let columns = info.query_map([&name], |row| row.get(0))?.collect::<Result<_, _>>()?;
        tables.insert(name, columns);
    }
    Ok(tables)
}

/// Tells an SQLite file that is all there from everything else.
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
    let Some(header) = head.get(..100) else { return Err(not_a_report(file, "cut off within its first bytes")) };
    let page_bytes = match u64::from(u16::from_be_bytes([header[16], header[17]])) {
        1 => 65_536,
        bytes => bytes,
    };
    let pages = u64::from(u32::from_be_bytes([header[28], header[29], header[30], header[31]]));
    // The count of pages is only valid where both change counters agree (SQLite's file format, 1.3.8).
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
    // A character may be cut at the end.
    let whole = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.valid_up_to() + 4 > head.len() && error.error_len().is_none(),
    };
    whole && !head.iter().any(|byte| *byte < 9)
}

/// A path as SQLite's URI. `immutable`: nothing is locked, so that reports on read-only disks open.
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

/// Whether a file holds an SQLite database, by its first bytes.
pub(super) fn is_sqlite(file: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(file)?.take(SQLITE_MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head == SQLITE_MAGIC)
}
