//! Opens an export read-only and rejects invalid files early, with a clear message.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use rusqlite::{Connection, OpenFlags};

use super::pages::{PageError, Pages, page_bytes};
use crate::foreign;
use crate::trace::TraceError;
use crate::trace::source::Storage;

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

/// An open export. SQLite lists its tables; rows are read directly from pages.
pub(super) struct NsysExport<'a> {
    /// The file's name in messages.
    pub file: PathBuf,
    pub pages: Pages<'a>,
    pub connection: Mutex<Connection>,
    /// Number of threads to read with.
    pub threads: usize,
    tables: HashMap<String, Table>,
}

/// An ordinary table.
#[derive(Default)]
pub(super) struct Table {
    /// Root page of its b-tree.
    pub root: u32,
    /// Its columns by name.
    pub columns: HashMap<String, Stored>,
}

/// Position of a column in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub place: usize,
    /// Whether the column is an alias of the row id, which rows do not store.
    pub is_id: bool,
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
        let header = check_head(file, &head, about.len())?;
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
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri(file), flags).map_err(sqlite(file))?;
        Self::with(file, connection, Storage::File(opened), header, about.len())
    }

    /// Opens an export in memory; `file` is its name in messages.
    pub fn from_bytes(file: &Path, bytes: &'a [u8]) -> Result<Self, TraceError> {
        let header = check_head(file, bytes, bytes.len() as u64)?;
        let mut connection = Connection::open_in_memory().map_err(sqlite(file))?;
        connection.deserialize_read_exact("main", bytes, bytes.len(), true).map_err(sqlite(file))?;
        Self::with(file, connection, Storage::Bytes(bytes), header, bytes.len() as u64)
    }

    fn with(
        file: &Path,
        connection: Connection,
        storage: Storage<'a>,
        header: &[u8; 100],
        size_bytes: u64,
    ) -> Result<Self, TraceError> {
        // A foreign schema must not run functions, and damaged pages must be detected.
        let settings = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON;";
        connection.execute_batch(settings).map_err(sqlite(file))?;
        let tables = tables(&connection).map_err(sqlite(file))?;
        let pages = Pages::new(storage, header, size_bytes).map_err(|error| not_a_report(file, &error.to_string()))?;
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        Ok(Self { file: file.to_owned(), threads, pages, connection: Mutex::new(connection), tables })
    }

    /// The pages with the rows of a table.
    pub fn leaves(&self, table: &str) -> Result<Vec<u32>, TraceError> {
        let Some(Table { root, .. }) = self.tables.get(table) else { return Ok(Vec::new()) };
        self.pages.leaves(*root).map_err(|error| self.page(table, error))
    }

    pub fn page(&self, table: &str, error: PageError) -> TraceError {
        match error {
            PageError::Io(source) => TraceError::Io { file: self.file.clone(), source },
            PageError::Damaged(problem) => self.damaged(table, problem),
        }
    }

    /// A table that is there.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
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

/// Ordinary tables. Views and virtual tables are left out: they run code from the file.
fn tables(connection: &Connection) -> rusqlite::Result<HashMap<String, Table>> {
    // Generated columns are left out, as they are code too. Virtual ones (2) are not stored either.
    let mut list = connection.prepare(
        "SELECT list.name, rootpage, info.name, info.type = 'INTEGER' COLLATE NOCASE AND pk = 1, pk, hidden
         FROM pragma_table_list AS list JOIN sqlite_schema USING (name, type) JOIN pragma_table_xinfo(list.name) AS info
         WHERE list.schema = 'main' AND list.type = 'table' AND list.name NOT GLOB 'sqlite_*'
         ORDER BY list.name, cid",
    )?;
    let mut tables: HashMap<String, Table> = HashMap::new();
    let mut rows = list.query([])?;
    let mut places = 0;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if !tables.contains_key(&name) {
            places = 0;
        }
        let table = tables.entry(name).or_default();
        table.root = row.get(1)?;
        let (is_id, hidden): (bool, i64) = (row.get(3)?, row.get(5)?);
        // A row id alias is a single column.
        if row.get::<_, i64>(4)? > 1 {
            table.columns.values_mut().for_each(|column| column.is_id = false);
        }
        if hidden == 0 {
            table.columns.insert(row.get(2)?, Stored { place: places, is_id });
        }
        places += usize::from(hidden != 2);
    }
    Ok(tables)
}

/// Rejects everything but a complete SQLite file.
fn check_head<'a>(file: &Path, head: &'a [u8], size_bytes: u64) -> Result<&'a [u8; 100], TraceError> {
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
    let Some(header) = head.first_chunk() else { return Err(not_a_report(file, "cut off within its first bytes")) };
    if header[59] > 1 {
        return Err(not_a_report(file, "an SQLite file with text in UTF-16, which nsys does not write"));
    }
    let page_bytes = page_bytes(header) as u64;
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
    Ok(header)
}

fn is_text(head: &[u8]) -> bool {
    // The last character may be cut.
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
