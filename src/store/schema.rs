//! Tables of the index, and how writers and readers open it.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::folder;

/// Version of the tables below. An index of another version is rebuilt.
pub(super) const INDEX_VERSION: i64 = 19;

// `position` is the order in the journal, `start_order` the order of starts. Workloads, levels, data sets, modes, placements, environments,
// devices and the telemetry fold are JSON. `rank_key` is the key of the row in `rank`.
const TABLES: &str = "
CREATE TABLE plan (
    position INTEGER PRIMARY KEY, plan TEXT NOT NULL UNIQUE, name TEXT NOT NULL, toml TEXT NOT NULL,
    workloads TEXT NOT NULL
);
CREATE TABLE run (
    position INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, plan TEXT NOT NULL, cell TEXT NOT NULL,
    workload TEXT NOT NULL,
    levels TEXT NOT NULL, data TEXT NOT NULL, repeat INTEGER NOT NULL, seed INTEGER NOT NULL,
    queued_time_s REAL NOT NULL, state TEXT NOT NULL, reason TEXT,
    placement TEXT, warnings TEXT, started_time_s REAL, pid INTEGER, process_start INTEGER, ended_time_s REAL,
    traced INTEGER NOT NULL, mode TEXT NOT NULL, environment TEXT, start_order INTEGER
);
CREATE INDEX run_start_order ON run (start_order);
-- Runs that were under way at the same time, each pair both ways.
CREATE TABLE beside (run TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY (run, other)) WITHOUT ROWID;
CREATE TABLE rank (
    key INTEGER PRIMARY KEY, run TEXT NOT NULL, rank INTEGER NOT NULL,
    device TEXT, torch_version TEXT, world_size INTEGER, failure_kind TEXT, failure TEXT, duration_s REAL,
    UNIQUE (run, rank)
);
-- A rank's steps in blocks of a few hundred numbers, packed.
CREATE TABLE step (
    rank_key INTEGER NOT NULL, block INTEGER NOT NULL, steps BLOB NOT NULL, PRIMARY KEY (rank_key, block)
);
-- 0 is no epoch, and no step: both count from 1. What is not a number is null.
CREATE TABLE reading (
    rank_key INTEGER NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL, key TEXT NOT NULL, time_s REAL NOT NULL,
    value REAL,
    PRIMARY KEY (rank_key, epoch, step, key, time_s)
) WITHOUT ROWID;
-- Warnings as their text, evidence as JSON.
CREATE TABLE remark (
    rank_key INTEGER NOT NULL, time_s REAL NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (rank_key, time_s, kind, content)
) WITHOUT ROWID;
-- When steps counted; `last_s` is null while they do.
CREATE TABLE steady (
    rank_key INTEGER NOT NULL, first_s REAL NOT NULL, last_s REAL,
    PRIMARY KEY (rank_key, first_s)
) WITHOUT ROWID;
-- What came of profilers' reports, as JSON: of runs by their ids, and of reports that stand alone by their names.
CREATE TABLE trace (
    of_run INTEGER NOT NULL, name TEXT NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (of_run, name)
) WITHOUT ROWID;
-- Saved studies as JSON.
CREATE TABLE study (position INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, study TEXT NOT NULL);
-- The steps of searches as JSON, by the ids of their plans.
CREATE TABLE search (position INTEGER PRIMARY KEY, plan TEXT NOT NULL, step TEXT NOT NULL, UNIQUE (plan, step));
-- User-defined measures, as JSON.
CREATE TABLE measure (position INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, measure TEXT NOT NULL);
-- What devices were measured to reach, both as JSON.
CREATE TABLE rates (position INTEGER PRIMARY KEY, device TEXT NOT NULL UNIQUE, rates TEXT NOT NULL);
CREATE TABLE telemetry (run TEXT PRIMARY KEY, fold TEXT NOT NULL) WITHOUT ROWID;
-- What logs lack, by their paths and lines (0: the whole file); `harms` where a run's numbers may lack it, too.
CREATE TABLE damage (
    path TEXT NOT NULL, number INTEGER NOT NULL, run TEXT, harms INTEGER NOT NULL, what TEXT NOT NULL,
    PRIMARY KEY (path, number)
) WITHOUT ROWID;
-- How much of each log is in the index, by its path in the session folder, and when it was last changed before it was read, in
-- nanoseconds since the Unix epoch; 0 where nobody looked. `ends` is the SHA-256 of both ends of the indexed part, only of the journal.
CREATE TABLE log (
    path TEXT PRIMARY KEY, bytes INTEGER NOT NULL, changed_ns INTEGER NOT NULL, ends TEXT
) WITHOUT ROWID;
-- What the logs of finished runs were when their runs had finished, by their paths.
CREATE TABLE sum (path TEXT PRIMARY KEY, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL) WITHOUT ROWID;
-- When the folder of an ended run was last changed, in nanoseconds since the Unix epoch: until it changes again, its logs are those above.
CREATE TABLE folder (run TEXT PRIMARY KEY, changed_ns INTEGER NOT NULL) WITHOUT ROWID;
";

/// Result of opening an index.
pub(super) enum Opened {
    /// It is usable.
    Ready(Connection),
    /// It is missing, damaged or of another version, or a writer may only read it.
    Unusable,
}

/// Opens an index for writing.
pub(super) fn open_writer(path: &Path) -> rusqlite::Result<Opened> {
    // Another user, such as root, may have created it. Its folder can be written, so that a new index can take its place.
    if !path.is_file() || folder::is_read_only(path) {
        return Ok(Opened::Unusable);
    }
    usable(Connection::open(path).and_then(|connection| {
        connection.busy_timeout(Duration::from_secs(1))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }))
}

/// Opens an index for reading.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Opened> {
    if !path.is_file() {
        return Ok(Opened::Unusable);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    usable(Connection::open_with_flags(path, flags).and_then(|connection| {
        // With WAL, a reader waits only while the index is being opened or closed.
        connection.busy_timeout(Duration::from_secs(1))?;
        // Otherwise SQLite would plan its queries again for each run's name, which takes a fifth of the time of reading many runs.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }))
}

fn usable(opened: rusqlite::Result<Connection>) -> rusqlite::Result<Opened> {
    let version = |connection: Connection| {
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        Ok((connection, version))
    };
    match opened.and_then(version) {
        Ok((connection, INDEX_VERSION)) => Ok(Opened::Ready(connection)),
        Ok(_) => Ok(Opened::Unusable),
        Err(error) => match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => Ok(Opened::Unusable),
            _ => Err(error),
        },
    }
}

/// Creates an empty index to be filled and then renamed. It needs no journal, as a crash leaves it unused.
pub(super) fn create(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(TABLES)?;
    connection.pragma_update(None, "user_version", INDEX_VERSION)?;
    Ok(connection)
}
