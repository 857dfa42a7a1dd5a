//! Rendezvous of a run's ranks: what their supervisor prepares and puts into their environment.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::foreign;
use crate::protocol::MEETING_VARIABLE;

/// Prefix of the folder's name.
const PREFIX: &str = "multicard-ranks-";

/// Number of attempts to create a folder: another supervisor may remove it before it is locked.
const ATTEMPTS: u32 = 10;

/// Write permission for the group and for others.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Sticky bit: only the owners of the folder and of an entry may remove or rename the entry.
const STICKY: u32 = 0o1000;

/// Environment of NCCL, unless the user has set other values.
///
/// With these settings, NCCL's watchdog aborts communicators that fail or time out, and the rank, which polls it, logs that. By default it
/// would dump its state for a minute and then end the process without a message.
const NCCL: [(&str, &str); 3] = [
    ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"),
    ("TORCH_NCCL_DUMP_ON_TIMEOUT", "0"),
    ("TORCH_NCCL_ENABLE_MONITORING", "0"),
];
/// For ranks on one machine: NCCL's bootstrap and gloo listen on the loopback interface, where only users of this machine can connect;
/// `src/store/trust.md` describes what these users can do there.
const ON_ONE_MACHINE: [(&str, &str); 1] = [("NCCL_SOCKET_IFNAME", "lo")];
/// For ranks on several nodes: NCCL chooses interfaces and transports, and writes them into its log.
const OVER_NODES: [(&str, &str); 2] = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,NET")];

/// [`NCCL`], `more` and the variable for the meeting's folder, without the variables of NCCL that the user has set.
fn variables(folder: &Path, more: Vec<(&'static str, OsString)>) -> Vec<(&'static str, OsString)> {
    let unset = NCCL.iter().map(|(name, value)| (*name, OsString::from(value))).chain(more);
    let unset = unset.filter(|(name, _)| std::env::var_os(name).is_none());
    unset.chain([(MEETING_VARIABLE, folder.to_owned().into_os_string())]).collect()
}

/// Place where the ranks of a run find each other. It must outlive them; dropping it cleans up.
pub trait Rendezvous {
    /// Environment variables that ranks need for it.
    fn environment(&self) -> Vec<(&'static str, OsString)>;
}

/// Rendezvous of a single rank, which needs none.
pub struct Alone;

impl Rendezvous for Alone {
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        Vec::new()
    }
}

/// Rendezvous of ranks on one machine: a new folder that only this user can enter. Ranks exchange addresses in a file there
/// and leave markers as empty files.
///
/// The supervisor holds a lock on the folder. If it is killed, the kernel releases the lock, and the next supervisor of the same
/// user removes the folder.
pub struct MeetingFolder {
    path: PathBuf,
    /// The folder itself, locked.
    _lock: File,
}

impl MeetingFolder {
    /// Creates a folder that other users cannot interfere with, in the first suitable one of `$XDG_RUNTIME_DIR`, `$TMPDIR` (or `/tmp`),
    /// `/dev/shm`. All are local to the machine, unlike the session's folder, which may be on a network file system.
    ///
    /// # Errors
    /// None of them is suitable; the error gives the reason for each.
    pub fn new() -> Result<Self, String> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
        let mut refusals = Vec::new();
        for parent in runtime.into_iter().chain([std::env::temp_dir(), "/dev/shm".into()]) {
            match Self::new_in(&parent) {
                Ok(folder) => return Ok(folder),
                Err(refusal) => refusals.push(refusal),
            }
        }
        Err(format!("{}: set TMPDIR to a folder that belongs to you", refusals.join("; ")))
    }

    /// Creates a folder in `parent`, and removes abandoned ones there.
    ///
    /// # Errors
    /// Other users can rename or remove entries of `parent`, or no folder can be created there.
    pub fn new_in(parent: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot create a folder in {}: {error}", parent.display());
        // Links are resolved once, so that the checked path is the one that is used.
        let parent = parent.canonicalize().map_err(failed)?;
        for folder in parent.ancestors() {
            refuse_foreign(folder, &fs::metadata(folder).map_err(failed)?)?;
        }
        remove_abandoned(&parent);
        for _ in 0..ATTEMPTS {
            let path = parent.join(format!("{PREFIX}{:016x}", rand::random::<u64>()));
            DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            if let Some(lock) = lock(&path) {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(format!("every folder that was created in {} was removed immediately", parent.display()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Rendezvous for MeetingFolder {
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        variables(&self.path, ON_ONE_MACHINE.map(|(name, value)| (name, value.into())).into())
    }
}

impl Drop for MeetingFolder {
    fn drop(&mut self) {
        // The next supervisor removes any remains.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Rendezvous of ranks on several nodes: a new folder on the file system that the nodes share, which only this user can enter. It is not
/// locked, since locks of folders do not reach other machines; a supervisor that is killed leaves it in the run's folder.
pub struct SharedFolder {
    path: PathBuf,
}

impl SharedFolder {
    /// Creates the folder in the run's folder. If others may write into the run's folder or into one above it, creates
    /// the folder in the user's cache folder.
    ///
    /// # Errors
    /// Neither is suitable; the error gives the reason for each.
    pub fn new(run_folder: &Path) -> Result<Self, String> {
        let cache = foreign::cache_folder().map(|folder| folder.join("multicard"));
        let mut refusals = Vec::new();
        for parent in [Ok(run_folder.to_owned()), cache] {
            match parent.and_then(|parent| Self::new_in(&parent)) {
                Ok(folder) => return Ok(folder),
                Err(refusal) => refusals.push(refusal),
            }
        }
        Err(format!("{}: put the session into a folder of yours that all nodes share", refusals.join("; ")))
    }

    fn new_in(parent: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot create a folder in {}: {error}", parent.display());
        fs::create_dir_all(parent).map_err(failed)?;
        let parent = parent.canonicalize().map_err(failed)?;
        for folder in parent.ancestors() {
            refuse_foreign(folder, &fs::metadata(folder).map_err(failed)?)?;
        }
        let path = parent.join(format!("{PREFIX}{:016x}", rand::random::<u64>()));
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        Ok(Self { path })
    }
}

impl Rendezvous for SharedFolder {
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        // Each rank has a log of its own there: `%h` is its host, `%p` its process. If the user names another file, ranks read
        // that one.
        let log = self.path.join("nccl-%h-%p.log").into_os_string();
        let debug = OVER_NODES.map(|(name, value)| (name, value.into()));
        variables(&self.path, debug.into_iter().chain([("NCCL_DEBUG_FILE", log)]).collect())
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        // If something is left, it is deleted together with the run's folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Opens and locks a folder, unless another process has locked or removed it.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    file.try_lock().ok()?;
    let (locked, named) = (file.metadata().ok()?, fs::symlink_metadata(folder).ok()?);
    (foreign::identity(&locked) == foreign::identity(&named)).then_some(file)
}

/// Removes folders of this user's supervisors that have ended.
fn remove_abandoned(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = |about: Metadata| about.is_dir() && about.uid() == own;
        let named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if named
            && entry.metadata().is_ok_and(is_ours)
            && let Some(_lock) = lock(&entry.path())
        {
            // Another supervisor may be removing it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Rejects a folder whose entries other users can rename or remove.
fn refuse_foreign(folder: &Path, about: &Metadata) -> Result<(), String> {
    let shown = folder.display();
    let owner = about.uid();
    let own = rustix::process::geteuid().as_raw();
    if ![own, 0].contains(&owner) && !is_unmapped(owner) {
        return Err(format!("{shown} belongs to another user (uid {owner})"));
    }
    let mode = about.mode() & 0o7777;
    if mode & WRITABLE_BY_OTHERS != 0 && mode & STICKY == 0 {
        return Err(format!("others can write to {shown} (mode {mode:o}; `chmod go-w` prevents that)"));
    }
    Ok(())
}

/// Whether a user namespace, such as a container's, shows users outside it by this number, such as the real root as the owner
/// of `/` and `/tmp` (user_namespaces(7)).
fn is_unmapped(uid: u32) -> bool {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").ok().and_then(|text| number(&text));
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let every_user = format!("{} {} {}", 0, 0, u32::MAX);
    overflow == Some(uid) && map.split_whitespace().collect::<Vec<_>>().join(" ") != every_user
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    fn set_mode(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn ranks_meet_in_a_folder_of_their_user_alone_that_goes_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let folder = MeetingFolder::new_in(parent.path()).unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        let environment = folder.environment();
        assert!(environment.contains(&(MEETING_VARIABLE, path.clone().into_os_string())), "{environment:?}");
        assert!(environment.contains(&("NCCL_SOCKET_IFNAME", "lo".into())), "{environment:?}");
        fs::write(path.join("store"), "").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn ranks_on_several_nodes_meet_in_the_runs_folder_and_nccl_chooses_its_interface() {
        let run = tempfile::tempdir().unwrap();
        let folder = SharedFolder::new_in(run.path()).unwrap();
        let path = folder.path.clone();
        assert_eq!(path.parent(), Some(&*run.path().canonicalize().unwrap()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        let environment = folder.environment();
        assert!(environment.contains(&("NCCL_DEBUG", "INFO".into())), "{environment:?}");
        assert!(!environment.iter().any(|(name, _)| *name == "NCCL_SOCKET_IFNAME"), "{environment:?}");
        drop(folder);
        assert!(!path.exists());
        set_mode(run.path(), 0o777);
        assert!(SharedFolder::new_in(run.path()).err().unwrap().contains("others can write to"));
    }

    #[test]
    fn folders_of_supervisors_that_are_gone_are_removed_and_all_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let living = MeetingFolder::new_in(parent.path()).unwrap();
        // A killed supervisor leaves a folder that is not locked.
        let abandoned = parent.path().join(format!("{PREFIX}0123456789abcdef"));
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join("store"), "addresses").unwrap();
        let foreign = parent.path().join("multicard-session");
        fs::create_dir(&foreign).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), parent.path().join(format!("{PREFIX}link"))).unwrap();
        let next = MeetingFolder::new_in(parent.path()).unwrap();
        assert!(!abandoned.exists());
        assert!(living.path().exists() && next.path().exists() && foreign.exists() && elsewhere.path().exists());
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused_by_name() {
        let parent = tempfile::tempdir().unwrap();
        let below = parent.path().join("below");
        fs::create_dir(&below).unwrap();
        for (mode, refused) in [(0o777, true), (0o720, true), (0o1777, false), (0o755, false)] {
            set_mode(parent.path(), mode);
            // A user who can rename a parent folder can replace it.
            for folder in [parent.path(), &below] {
                match MeetingFolder::new_in(folder) {
                    Ok(_) => assert!(!refused, "{mode:o}"),
                    Err(text) => {
                        let shown = parent.path().canonicalize().unwrap();
                        let expected = format!("others can write to {} (mode {mode:o};", shown.display());
                        assert!(refused && text.contains(&expected), "{mode:o}: {text}");
                    }
                }
            }
        }
        assert!(fs::read_dir(parent.path()).unwrap().count() == 1 && fs::read_dir(&below).unwrap().count() == 0);
        let text = MeetingFolder::new_in(&parent.path().join("missing")).err().unwrap();
        assert!(text.contains("missing: No such file"), "{text}");
    }

    #[test]
    fn another_user_can_neither_see_nor_change_what_ranks_tell_each_other() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;
        let parent = tempfile::tempdir().unwrap();
        set_mode(parent.path(), 0o755);
        let folder = MeetingFolder::new_in(parent.path()).unwrap();
        fs::write(folder.path().join("store"), "addresses").unwrap();
        let as_user = |uid: u32, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).env("F", folder.path()).current_dir("/").uid(uid).gid(uid);
            command.output()
        };
        // 4711 is any other user; the parent itself is open to all.
        if !as_user(4711, "ls \"$F/..\"").is_ok_and(|listed| listed.status.success()) {
            println!("skipped: only root can become another user");
            return;
        }
        for attempt in [
            "ls \"$F\"",
            "cat \"$F/store\"",
            "echo mine > \"$F/store\"",
            "touch \"$F/rank-1\"",
            "mv \"$F\" \"$F-2\"",
            "rmdir \"$F\"",
            "chmod 777 \"$F\"",
        ] {
            let tried = as_user(4711, attempt).unwrap();
            assert!(!tried.status.success(), "{attempt}: {}", String::from_utf8_lossy(&tried.stdout));
        }
        assert_eq!(fs::read_to_string(folder.path().join("store")).unwrap(), "addresses");
        assert!(lock(folder.path()).is_none(), "it is still its supervisor's");
    }

    #[test]
    fn a_folder_of_another_user_is_refused_by_name() {
        let parent = tempfile::tempdir().unwrap();
        let theirs = parent.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        // 4711 is any other user.
        if chown(&theirs, Some(4711), None).is_err() {
            println!("skipped: only root can give a folder to another user");
            return;
        }
        let text = MeetingFolder::new_in(&theirs).err().unwrap();
        assert!(text.contains("theirs belongs to another user (uid 4711)"), "{text}");
    }
}
