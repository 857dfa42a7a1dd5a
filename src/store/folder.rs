//! Paths within a session folder, its `session.toml`, and the lock that admits one writer.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::StoreError;
use super::error::LOCKING;
use crate::foreign;
use crate::plan::Node;

/// Version of session folders written here, and the newest that can be read.
const SESSION_VERSION: u32 = 1;
const LOCK: &str = "session.lock";
/// The file that marks a folder as the copy of a session on another machine.
const ORIGIN: &str = "origin";
/// Longest address of a session on another machine.
const MOST_ORIGIN_BYTES: u64 = 8 << 10;
/// Longest description of the process that holds the lock.
const MOST_HOLDER_BYTES: u64 = 1 << 10;
/// Longest `session.toml`: the description of a machine takes a few kilobytes.
const MOST_SESSION_FILE_BYTES: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
struct SessionFile {
    version: u32,
    /// Creation time: RFC 3339, UTC.
    created: String,
    node: Node,
}

pub(super) fn session_file(folder: &Path) -> PathBuf {
    folder.join("session.toml")
}

pub(super) fn journal(folder: &Path) -> PathBuf {
    folder.join("journal.jsonl")
}

pub(super) fn runs(folder: &Path) -> PathBuf {
    folder.join("runs")
}

pub(super) fn run(folder: &Path, run: &str) -> PathBuf {
    runs(folder).join(run)
}

pub(super) fn samples(folder: &Path, run_id: &str) -> PathBuf {
    run(folder, run_id).join("samples.jsonl")
}

/// The rank whose log has this file name; `None` for other names.
pub(super) fn rank_of(file_name: &str) -> Option<u32> {
    let digits = file_name.strip_prefix("rank-")?.strip_suffix(".jsonl")?;
    digits.parse().ok().filter(|rank: &u32| rank.to_string() == digits)
}

/// Rejects ids that would lead out of `runs/`.
pub(super) fn check_run_id(run: &str) -> Result<(), StoreError> {
    let plain = run.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
    if plain && !run.is_empty() && !run.starts_with('.') {
        return Ok(());
    }
    Err(StoreError::RunId { run: run.to_owned() })
}

/// The address of the session that this folder is a copy of; `None` if it is a session itself.
pub fn origin(folder: &Path) -> Option<String> {
    let text = foreign::read_ours(&folder.join(ORIGIN), MOST_ORIGIN_BYTES).ok()?;
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}

/// Marks a folder, which is created if it is missing, as the copy of a session on another machine. No process can then write a session into
/// it.
///
/// # Errors
/// The file cannot be written.
pub fn set_origin(folder: &Path, address: &str) -> Result<(), StoreError> {
    let write = || {
        fs::create_dir_all(folder)?;
        let mut options = File::options();
        let mut file = foreign::open_ours_with(&folder.join(ORIGIN), options.create(true).truncate(true).write(true))?;
        file.write_all(address.as_bytes())
    };
    write().map_err(StoreError::io("writing the origin of", folder))
}

/// Refuses to write a session into a folder whose path is not UTF-8, because the jobs of runs contain the path as text, and into the copy of
/// another session.
pub(super) fn check_place(folder: &Path) -> Result<(), StoreError> {
    if std::path::absolute(folder).is_ok_and(|whole| whole.to_str().is_none()) {
        return Err(StoreError::NotUtf8 { folder: folder.to_owned() });
    }
    check_original(folder)
}

/// Refuses to change the copy of another session.
pub(super) fn check_original(folder: &Path) -> Result<(), StoreError> {
    match origin(folder) {
        Some(origin) => Err(StoreError::Copy { folder: folder.to_owned(), origin }),
        None => Ok(()),
    }
}

/// Path of a session's index: `session.sqlite` in its folder. If the folder is read-only or on a network file system (on
/// whose shared memory and locks SQLite's WAL cannot rely), or if `MULTICARD_INDEX=state`, the index is
/// `multicard/indexes/<hash of the folder's path>.sqlite` in the XDG state directory of this machine, or if that is read-only, in
/// `multicard-<user id>` of the temporary folder.
pub fn index_path(folder: &Path) -> PathBuf {
    let magic = || rustix::fs::statfs(folder).map(|statistics| statistics.f_type as u64).unwrap_or(0);
    let elsewhere =
        || is_read_only(folder) || std::env::var_os("MULTICARD_INDEX").is_some_and(|value| value == "state");
    match state_folder() {
        Some(state) if is_network(magic()) || elsewhere() => state_index(&state, folder),
        _ => folder.join("session.sqlite"),
    }
}

/// The folder for indexes outside sessions: in the user's state folder, or in a temporary one if that cannot be written.
fn state_folder() -> Option<PathBuf> {
    let can_be_made = |folder: &PathBuf| {
        let existing = folder.ancestors().find(|folder| folder.exists());
        existing.is_some_and(|existing| !is_read_only(existing))
    };
    foreign::state_folder().ok().filter(can_be_made).or_else(foreign::temporary_folder)
}

/// Whether a file or folder exists and is not writable.
pub(super) fn is_read_only(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    use rustix::io::Errno;
    matches!(access(path, Access::WRITE_OK), Err(Errno::ROFS | Errno::ACCESS | Errno::PERM))
}

// From linux/magic.h and the headers of Lustre, GPFS, BeeGFS and Panasas.
fn is_network(magic: u64) -> bool {
    const NETWORK: [u64; 12] = [
        0x6969,      // NFS
        0x517B,      // SMB
        0xFF53_4D42, // CIFS
        0xFE53_4D42, // SMB 2
        0x0BD0_0BD0, // Lustre
        0x4750_4653, // GPFS
        0x1983_0326, // BeeGFS
        0xAAD7_AAEA, // PanFS
        0x6573_5546, // FUSE: sshfs and the like
        0x00C3_6400, // Ceph
        0x5346_414F, // AFS
        0x0102_1997, // 9P
    ];
    // Some kernels sign-extend the 32-bit number.
    NETWORK.contains(&(magic & 0xFFFF_FFFF))
}

fn state_index(state: &Path, folder: &Path) -> PathBuf {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    let name: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    state.join("multicard").join("indexes").join(name + ".sqlite")
}

/// Creates an empty session in a new or empty folder, and locks it.
pub(super) fn create(folder: &Path, node: &Node) -> Result<Lock, StoreError> {
    fs::create_dir_all(folder).map_err(StoreError::io("creating", folder))?;
    let exists = || StoreError::Exists { folder: folder.to_owned() };
    if session_file(folder).exists() {
        return Err(exists());
    }
    let entries = fs::read_dir(folder).map_err(StoreError::io("listing", folder))?;
    // An interrupted creation leaves a lock and a partial session.toml.
    let is_empty = |name: &str| fs::read_dir(folder.join(name)).is_ok_and(|mut entries| entries.next().is_none());
    let leftover = |name: &str| name == LOCK || name == "session.toml.new" || name == "runs" && is_empty(name);
    let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    if let Some(found) = names.find(|name| !leftover(name)) {
        // Another program may have created the session in the meantime.
        if session_file(folder).exists() {
            return Err(exists());
        }
        return Err(StoreError::NotEmpty { folder: folder.to_owned(), found });
    }
    let lock = lock(folder)?;
    if session_file(folder).exists() {
        return Err(exists());
    }
    let written = write_session_file(folder, node);
    written.inspect_err(|_| remove_created(folder))?;
    Ok(lock)
}

/// Writes the files of an empty session: `session.toml` last, which makes the folder a session.
pub(super) fn write_session_file(folder: &Path, node: &Node) -> Result<(), StoreError> {
    let created = jiff::Timestamp::now().to_string();
    let session = SessionFile { version: SESSION_VERSION, created, node: node.clone() };
    let text = toml::to_string(&session)
        .map_err(|error| StoreError::Malformed { file: session_file(folder), reason: error.to_string() })?;
    let new = folder.join("session.toml.new");
    let write = || -> io::Result<()> {
        fs::create_dir_all(runs(folder))?;
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, session_file(folder))?;
        File::create(journal(folder))?.sync_all()?;
        File::open(folder)?.sync_all()
    };
    write().map_err(StoreError::io("creating a session in", folder))
}

/// Removes what [`create`] made, and the index, as far as possible. The folder itself stays: the user may have created it.
pub(super) fn remove_created(folder: &Path) {
    let index = index_path(folder);
    let beside = |ending: &str| PathBuf::from(format!("{}{ending}", index.display()));
    let files = [
        session_file(folder),
        journal(folder),
        index.clone(),
        beside("-wal"),
        beside("-shm"),
        beside(".new"),
        folder.join(LOCK),
    ];
    for file in files {
        let _ = fs::remove_file(file);
    }
    let _ = fs::remove_dir(runs(folder));
}

/// A lock on a file, held until the value is dropped.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Locks a file, which is created if it is missing; `None` if another holder prevents it.
    fn take(path: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> Result<Option<Self>, StoreError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(StoreError::io("creating", parent))?;
        }
        let (file, denied) = Self::open(path).map_err(StoreError::io("opening", path))?;
        match (lock(&file), denied) {
            (Ok(()), _) => Ok(Some(Self(file))),
            (Err(TryLockError::WouldBlock), _) => Ok(None),
            (Err(TryLockError::Error(_)), Some(denied)) => Err(StoreError::io("opening", path)(denied)),
            (Err(TryLockError::Error(source)), None) => Err(StoreError::io(LOCKING, path)(source)),
        }
    }

    /// Opens a file to lock it, and creates it if it is missing. If this process may write the folder but not the file, which another user
    /// has created, the file is opened for reading, and the error of opening it for writing is returned, too.
    fn open(path: &Path) -> io::Result<(File, Option<io::Error>)> {
        let created = foreign::create_ours(path);
        if !matches!(&created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            return created.map(|file| (file, None));
        }
        // A shared lock on NFS needs a file that is open for reading, an exclusive one a file that is open for writing. Other file systems
        // lock any open file.
        match foreign::open_ours_with(path, File::options().read(true).write(true)) {
            Err(denied)
                if denied.kind() == io::ErrorKind::PermissionDenied
                    && path.parent().is_some_and(|folder| !is_read_only(folder)) =>
            {
                match foreign::open_ours(path) {
                    Ok(file) => Ok((file, Some(denied))),
                    Err(_) => Err(denied),
                }
            }
            opened => opened.map(|file| (file, None)),
        }
    }

    /// Whether no process holds the exclusive lock on a file; false if that cannot be found out. The right to read the file suffices.
    fn is_free(path: &Path) -> bool {
        match foreign::open_ours(path) {
            Ok(file) => {
                let test = Self(file);
                test.0.try_lock_shared().is_ok()
            }
            // Whoever locks it creates it first.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that another thread has just forked shares it until it executes its program.
        let _ = self.0.unlock();
    }
}

/// Retries for at most `patience` while a session is in use or has no index.
pub(super) fn patiently<T>(patience: Duration, attempt: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    const INTERVAL: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(StoreError::InUse { .. } | StoreError::NoIndex { .. }) if begun.elapsed() < patience => {
                thread::sleep(INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

/// Locks a session for writing.
pub(super) fn lock(folder: &Path) -> Result<Lock, StoreError> {
    // A reader that brings the index up to date keeps writers out only for a moment.
    patiently(Duration::from_millis(200), || lock_at_once(folder))
}

/// Like [`lock`], but tries only once.
pub(super) fn lock_at_once(folder: &Path) -> Result<Lock, StoreError> {
    lock_session(folder, File::try_lock)
}

/// Keeps writers out of a session, or out of its index if the folder is read-only. Several holders can do so at the same time.
pub(super) fn lock_out_writers(folder: &Path) -> Result<Lock, StoreError> {
    lock_session(folder, File::try_lock_shared)
}

/// Whether no process writes a session, as far as the lock in its folder says; false if that cannot be found out. If the folder is read-only,
/// [`lock_out_writers`] locks another file, which does not show whether the session's owner is writing.
pub(super) fn is_unattended(folder: &Path) -> bool {
    Lock::is_free(&folder.join(LOCK))
}

fn lock_session(folder: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> Result<Lock, StoreError> {
    // If the folder is read-only, the lock is in the state directory, next to the index.
    let path = match state_folder() {
        Some(state) if is_read_only(folder) => state_index(&state, folder).with_extension("lock"),
        _ => folder.join(LOCK),
    };
    let Some(lock) = Lock::take(&path, lock)? else {
        let holder = holder(&path);
        return Err(StoreError::InUse { folder: folder.to_owned(), is_other_user: is_other_user(&holder), holder });
    };
    // Without this text, others cannot name this process, or they name the last one that could write it; the session works all the same.
    let _ = lock.0.set_len(0).and_then(|()| (&lock.0).write_all(this_process().as_bytes()));
    Ok(lock)
}

/// Locks the right to bring the index up to date, among processes that keep writers out; `None` while another process has it.
pub(super) fn lock_index(folder: &Path) -> Result<Option<Lock>, StoreError> {
    Lock::take(&index_path(folder).with_added_extension("lock"), File::try_lock)
}

/// A description of this process for others that want the lock: `process 4711 of anna on node7 (multicard conduct)`.
fn this_process() -> String {
    let user = user_name().unwrap_or_else(user_number);
    let words: Vec<String> = std::env::args_os().take(2).map(|word| word.to_string_lossy().into_owned()).collect();
    let name = words.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default().to_string_lossy();
    // Paths are left out, since they may be private.
    let command = words.get(1).filter(|word| word.chars().all(|c| c.is_ascii_lowercase()));
    let command = command.map_or(String::new(), |command| format!(" {command}"));
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    format!("process {} of {user} on {host} ({name}{command})", std::process::id())
}

/// The name of this process's user, if its environment has one.
fn user_name() -> Option<String> {
    std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok()
}

/// This process's user by number: `user 1000`.
fn user_number() -> String {
    format!("user {}", rustix::process::geteuid().as_raw())
}

/// Whether the description of a lock's holder names another user than that of this process. False if one of the two has no name.
fn is_other_user(holder: &str) -> bool {
    let named = holder.split_once(" of ").and_then(|(_, rest)| rest.split_once(" on ")).map(|(user, _)| user);
    named.is_some_and(|named| named != user_number() && user_name().is_some_and(|own| named != own))
}

/// The description that the holder of a lock wrote into its file.
fn holder(lock: &Path) -> String {
    let text = foreign::read_ours(lock, MOST_HOLDER_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() { "another process".to_owned() } else { foreign::message(line).into_owned() }
}

/// The node that a session was created on. Rejects folders that are not sessions, and newer versions.
pub(super) fn read_node(folder: &Path) -> Result<Node, StoreError> {
    let file = session_file(folder);
    let text = match foreign::read_ours(&file, MOST_SESSION_FILE_BYTES) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(StoreError::NotASession { folder: folder.to_owned() });
        }
        Err(source) => return Err(StoreError::Io { doing: "reading", path: file, source }),
    };
    parse_session_file(&text, &file)
}

/// The node in the text of a `session.toml`; `file` is its name in error messages.
pub fn parse_session_file(text: &str, file: &Path) -> Result<Node, StoreError> {
    let malformed = |reason: String| StoreError::Malformed { file: file.to_owned(), reason };
    // The version is parsed first, because the rest of a newer file may differ.
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| malformed(error.to_string()))?;
    let version = table.get("version").and_then(toml::Value::as_integer);
    let version = version.and_then(|version| u64::try_from(version).ok());
    match version {
        None => Err(malformed("key `version` is missing or not a whole number".to_owned())),
        Some(found) if found > u64::from(SESSION_VERSION) => {
            Err(StoreError::Newer { place: file.display().to_string(), what: "session", found, known: SESSION_VERSION })
        }
        Some(_) => toml::from_str(text).map(|session: SessionFile| session.node).map_err(|e| malformed(e.to_string())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_magic_numbers() {
        assert!(is_network(0x6969));
        assert!(is_network(0xFFFF_FFFF_FF53_4D42), "sign-extended CIFS");
        assert!(!is_network(0xEF53), "ext4");
        assert!(!is_network(0x0102_1994), "tmpfs");
    }

    #[test]
    fn an_index_in_local_state_belongs_to_one_folder() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state = Path::new("/state");
        let index_in = |folder: &Path| state_index(state, folder);
        assert_ne!(index_in(a.path()), index_in(b.path()));
        assert_eq!(index_in(a.path()), index_in(&a.path().join(".")), "one folder, two spellings");
        assert!(index_in(a.path()).starts_with("/state/multicard/indexes"));
    }

    #[test]
    fn a_lock_is_free_once_it_is_dropped_though_a_process_that_is_being_started_shares_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock_at_once(folder.path()).unwrap();
        assert!(matches!(lock_at_once(folder.path()), Err(StoreError::InUse { .. })));
        // As a child process does until it executes its program.
        let inherited = held.0.try_clone().unwrap();
        drop(held);
        lock_at_once(folder.path()).unwrap();
        drop(inherited);
    }

    #[test]
    fn writers_are_kept_out_by_several_and_keep_all_out() {
        let folder = tempfile::tempdir().unwrap();
        let readers = [lock_out_writers(folder.path()).unwrap(), lock_out_writers(folder.path()).unwrap()];
        assert!(matches!(lock_at_once(folder.path()), Err(StoreError::InUse { .. })));
        drop(readers);
        let _writer = lock_at_once(folder.path()).unwrap();
        assert!(matches!(lock_out_writers(folder.path()), Err(StoreError::InUse { .. })));
    }

    #[test]
    fn a_lock_file_that_may_only_be_read_keeps_others_out_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join(LOCK);
        drop(lock_at_once(folder.path()).unwrap());
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o444)).unwrap();
        let writer = lock_at_once(folder.path()).unwrap();
        assert!(matches!(lock_out_writers(folder.path()), Err(StoreError::InUse { .. })));
        drop(writer);
        lock_out_writers(folder.path()).unwrap();
    }

    #[test]
    fn a_session_is_unattended_if_no_writer_holds_its_lock_and_not_if_nobody_can_tell() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join(LOCK);
        assert!(is_unattended(folder.path()), "no process has ever written it");
        let writer = lock_at_once(folder.path()).unwrap();
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(!is_unattended(folder.path()), "the right to read its lock suffices");
        drop(writer);
        assert!(is_unattended(folder.path()));
        fs::remove_file(&lock).unwrap();
        let reader = lock_out_writers(folder.path()).unwrap();
        assert!(is_unattended(folder.path()), "readers do not write it");
        drop(reader);
        fs::rename(&lock, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &lock).unwrap();
        assert!(!is_unattended(folder.path()), "its lock cannot be opened");
    }

    #[test]
    fn run_ids_that_lead_elsewhere_are_refused() {
        for run in ["", ".", "..", "../x", "a/b", "a\0b", ".hidden"] {
            assert!(check_run_id(run).is_err(), "{run:?}");
        }
        assert!(check_run_id("r-0001_fp16.2").is_ok());
    }

    #[test]
    fn rank_logs_are_known_by_their_names() {
        assert_eq!(rank_of("rank-0.jsonl"), Some(0));
        assert_eq!(rank_of("rank-12.jsonl"), Some(12));
        for name in ["rank-.jsonl", "rank-01.jsonl", "rank-0.json", "samples.jsonl", "rank-+1.jsonl"] {
            assert_eq!(rank_of(name), None, "{name}");
        }
    }
}
