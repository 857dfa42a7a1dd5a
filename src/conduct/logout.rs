//! Finds out whether the system ends its users' processes at logout, including conductors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::foreign;

/// The folders of logind's configuration; a file in a later folder replaces the file of the same name in an earlier one (logind.conf(5)).
const FOLDERS: [&str; 3] = ["usr/lib/systemd/logind.conf.d", "run/systemd/logind.conf.d", "etc/systemd/logind.conf.d"];
const MOST_BYTES: u64 = 1 << 20;

/// The warning if a conductor would end with its user's logout, with what to do; `None` if it outlives the logout, according to the
/// machine's settings.
pub fn ends_at_logout() -> Option<&'static str> {
    static ENDS: OnceLock<bool> = OnceLock::new();
    let ends = *ENDS.get_or_init(|| {
        let user = std::env::var("USER").unwrap_or_default();
        user != "root" && ends_users_processes(Path::new("/"), &user)
    });
    ends.then_some(
        "this system ends all of a user's processes at logout (KillUserProcesses), including the queue: see `multicard help elsewhere`",
    )
}

/// Whether logind ends the processes that a user leaves running, according to the files below `root`.
fn ends_users_processes(root: &Path, user: &str) -> bool {
    let mut files: BTreeMap<std::ffi::OsString, PathBuf> = BTreeMap::new();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let of_kind = entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "conf"));
        files.extend(of_kind.map(|entry| (entry.file_name(), entry.path())));
    }
    let first = root.join("etc/systemd/logind.conf");
    let mut ends = false;
    for file in std::iter::once(first).chain(files.into_values()) {
        let text = foreign::read(&file, MOST_BYTES).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some(value) =
                line.trim().strip_prefix("KillUserProcesses").and_then(|rest| rest.trim().strip_prefix('='))
            {
                ends = ["yes", "true", "on", "1"].contains(&value.trim().to_lowercase().as_str());
            }
        }
    }
    let lingers = !user.is_empty() && root.join("var/lib/systemd/linger").join(user).exists();
    ends && !lingers
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_user_whose_processes_end_at_logout_is_known_by_the_settings_of_logind() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let ends = || ends_users_processes(root.path(), "me");
        assert!(!ends(), "nothing is set");
        write("etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=yes\n");
        assert!(!ends(), "a comment");
        write("etc/systemd/logind.conf", "[Login]\n KillUserProcesses = yes\n");
        assert!(ends());
        write("usr/lib/systemd/logind.conf.d/50-keep.conf", "[Login]\nKillUserProcesses=no\n");
        assert!(!ends(), "what comes later counts");
        write("etc/systemd/logind.conf.d/50-keep.conf", "[Login]\nKillUserProcesses=true\n");
        assert!(ends(), "a file of the same name takes its place");
        write("var/lib/systemd/linger/me", "");
        assert!(!ends(), "the user lingers");
    }
}
