//! Exports an `.nsys-rep` as `.sqlite` with nsys.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::{Pid, Signal};

use super::TraceError;
use super::nsys::nsys_path;
use super::progress::{Progress, Stage};
use crate::protocol::EXPORT_FOLDER;

/// Interval at which cancellation is checked while nsys prints nothing.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of nsys' output that are kept for error messages.
const MOST_OUTPUT: usize = 2000;

/// An export in a private folder (mode 0700), which is removed when this value is dropped: besides the imported data, it contains the
/// environment of the program.
pub(super) struct Exported(PrivateFolder);

/// A folder of the user's own (mode 0700) that is removed when this value is dropped.
pub(super) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Creates the folder next to a file, where enough space is more likely than in the temporary folder. If the file's folder is not
    /// writable, creates it in the temporary folder.
    pub fn beside(file: &Path) -> Result<Self, TraceError> {
        let folder = private_folder(file).map_err(|source| TraceError::Io { file: file.to_owned(), source })?;
        Ok(Self(folder))
    }

    /// The path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Exported {
    pub fn file(&self) -> PathBuf {
        self.0.file("report.sqlite")
    }

    /// Stores the export as a file (mode 0600) without its private rows.
    pub fn keep(&self, kept: &Path) -> Result<(), TraceError> {
        let io = |source| TraceError::Io { file: kept.to_owned(), source };
        scrub(&self.file()).map_err(|source| TraceError::Sqlite { file: self.file(), source })?;
        fs::set_permissions(self.file(), fs::Permissions::from_mode(0o600)).map_err(io)?;
        fs::rename(self.file(), kept).map_err(io)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Tables of events on CPUs and GPUs. All others may name people, hosts, programs or environments.
const KEPT_TABLES: [&str; 11] = [
    "CUPTI_",
    "CUDA_",
    "NVTX_",
    "ENUM_",
    "StringIds",
    "ANALYSIS_DETAILS",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_",
    "PROFILER_OVERHEAD",
];

/// Columns of these tables that refer to `StringIds`, which also holds environments and output of processes.
const NAMES: &str = "'nameId', 'textId', 'jsonTextId', 'demangledName', 'shortName', 'mangledName'";

/// Removes everything that the import does not read: environments, commands, hosts, users, output of programs.
fn scrub(file: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(file)?;
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;")?;
    let tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let has = |table: &str| tables.iter().any(|known| known == table);
    for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"].into_iter().filter(|table| has(table)) {
        connection.execute_batch(&format!("DELETE FROM {table} WHERE name LIKE 'EXPORT_PARAM%';"))?;
    }
    for table in tables.iter().filter(|name| !KEPT_TABLES.iter().any(|kept| name.starts_with(kept))) {
        connection.execute_batch(&format!("DROP TABLE {};", quoted(table)))?;
    }
    if has("StringIds") {
        let named = connection
            .prepare(&format!(
                "SELECT tables.name, columns.name FROM sqlite_schema tables, pragma_table_info(tables.name) columns
                 WHERE tables.type = 'table' AND columns.name IN ({NAMES})"
            ))?
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?
            .map(|found| {
                found.map(|(table, column)| format!("SELECT {column} FROM {} WHERE {column} NOT NULL", quoted(&table)))
            })
            .collect::<Result<Vec<_>, _>>()?;
        // Without any column, `NOT IN ()` would be true for all strings.
        let named = named.join(" UNION ");
        connection.execute_batch(&format!("DELETE FROM StringIds WHERE id NOT IN ({named});"))?;
    }
    // Deleted rows stay in the file until it is rewritten.
    connection.execute_batch("COMMIT; VACUUM;")
}

/// A table's name, quoted for SQL.
fn quoted(table: &str) -> String {
    format!("\"{}\"", table.replace('"', "\"\""))
}

/// Exports a report.
pub(super) fn export(file: &Path, tell: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Exported, TraceError> {
    let nsys = nsys_path().map_err(|looked| TraceError::NoNsys { file: file.to_owned(), looked })?;
    export_with(&nsys, file, tell)
}

fn export_with(
    nsys: &Path,
    file: &Path,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Exported, TraceError> {
    let io = |source| TraceError::Io { file: file.to_owned(), source };
    let file_path = fs::canonicalize(file).map_err(io)?;
    let exported = Exported(PrivateFolder::beside(&file_path)?);
    let mut command = Command::new(nsys);
    command.args(["export", "--type", "sqlite", "--force-overwrite", "true", "--output"]);
    command.arg(exported.file()).arg(&file_path);
    // A new process group, so that processes started by nsys end with it.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let failed = |status: String, text: &str| TraceError::Export {
        file: file.to_owned(),
        status,
        output: if text.trim().is_empty() { "it said nothing".to_owned() } else { text.trim().to_owned() },
    };
    let mut child =
        command.spawn().map_err(|error| failed(format!("{} did not start", nsys.display()), &error.to_string()))?;
    let mut output = String::new();
    let followed = follow(&mut child, &mut output, tell);
    if followed.is_err() {
        end(&mut child);
    }
    let status = child.wait().map_err(io)?;
    followed?;
    if !status.success() || !exported.file().exists() {
        return Err(failed(status.to_string(), &output));
    }
    Ok(exported)
}

/// Reads the output of nsys to its end and reports the percentages in it.
fn follow(
    child: &mut Child,
    output: &mut String,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), TraceError> {
    let (sender, receiver) = sync_channel::<String>(16);
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    for mut pipe in [stdout, stderr].into_iter().flatten() {
        let sender = sender.clone();
        let reader = move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut bytes) {
                if sender.send(String::from_utf8_lossy(&bytes[..n]).into_owned()).is_err() {
                    break;
                }
            }
        };
        // If nobody reads, the pipe is closed and nsys ends by itself.
        let _ = thread::Builder::new().name("nsys-output".to_owned()).spawn(reader);
    }
    drop(sender);
    let mut fraction = 0.0;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(text) => {
                fraction = last_percent(&text).map_or(fraction, |percent| percent / 100.0);
                output.push_str(&text);
                if output.len() > MOST_OUTPUT {
                    let cut = output
                        .char_indices()
                        .map(|(at, _)| at)
                        .find(|at| output.len() - at <= MOST_OUTPUT)
                        .unwrap_or(0);
                    output.drain(..cut);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if tell(Progress { stage: Stage::Exporting, fraction }).is_break() {
            return Err(TraceError::Cancelled);
        }
    }
}

fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
}

/// The last number before a `%`.
fn last_percent(text: &str) -> Option<f64> {
    let before = &text[..text.rfind('%')?];
    let digits = before
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(before, |at| &before[at + before[at..].chars().next().map_or(1, char::len_utf8)..]);
    digits.parse::<f64>().ok().filter(|percent| *percent <= 100.0)
}

/// Creates a private folder next to the report, where enough space is more likely than in the temporary folder. If the report's folder is
/// not writable, creates it in the temporary folder.
fn private_folder(file: &Path) -> std::io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{EXPORT_FOLDER}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let beside = file.parent().unwrap_or(Path::new(".")).join(&name);
    let make = |folder: &Path| DirBuilder::new().mode(0o700).create(folder);
    if make(&beside).is_ok() {
        return Ok(beside);
    }
    let temporary = env::temp_dir().join(&name);
    make(&temporary)?;
    Ok(temporary)
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod export_tests;
