//! The user's folders according to the XDG Base Directory Specification. A home folder that does not exist is not created: otherwise a
//! mistyped `HOME` would appear on the disk.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;

/// `$XDG_DATA_HOME`, or `.local/share` in the home folder.
///
/// # Errors
/// There is no home folder, or what `HOME` names does not exist or is no folder.
pub fn data_folder() -> Result<PathBuf, String> {
    folder(|places| Some(places.data_dir()))
}

/// `$XDG_STATE_HOME`, or `.local/state` in the home folder.
///
/// # Errors
/// Those of [`data_folder`].
pub fn state_folder() -> Result<PathBuf, String> {
    folder(Xdg::state_dir)
}

/// `$XDG_CONFIG_HOME`, or `.config` in the home folder.
///
/// # Errors
/// Those of [`data_folder`].
pub fn config_folder() -> Result<PathBuf, String> {
    folder(|places| Some(places.config_dir()))
}

/// `$XDG_CACHE_HOME`, or `.cache` in the home folder.
///
/// # Errors
/// Those of [`data_folder`].
pub fn cache_folder() -> Result<PathBuf, String> {
    folder(|places| Some(places.cache_dir()))
}

/// A folder for files that can be made again, in `$TMPDIR` or `/tmp`, which only the user may enter; `None` if it cannot be created or
/// belongs to another user.
pub fn temporary_folder() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let folder = std::env::temp_dir().join(format!("multicard-{user}"));
    // An existing folder is checked like a new one.
    let _ = DirBuilder::new().mode(0o700).create(&folder);
    let about = folder.symlink_metadata().ok()?;
    (about.is_dir() && about.uid() == user && about.mode() & 0o077 == 0).then_some(folder)
}

fn folder(choose: impl FnOnce(&Xdg) -> Option<PathBuf>) -> Result<PathBuf, String> {
    let places = Xdg::new().map_err(|error| format!("this user has no home folder: {error}"))?;
    let folder = choose(&places).ok_or("this user has no such folder")?;
    let home = places.home_dir();
    if folder.starts_with(home) && !home.is_dir() {
        let what = if home.exists() { "is not a folder" } else { "does not exist" };
        return Err(format!("the home folder {} {what}: set HOME to a folder that exists", home.display()));
    }
    Ok(folder)
}

/// Free bytes for this user and total bytes of the file system of a folder, which need not exist yet.
pub fn disk_space(folder: &Path) -> Option<(u64, u64)> {
    let existing = folder.ancestors().find(|folder| folder.exists())?;
    let statistics = rustix::fs::statvfs(existing).ok()?;
    Some((
        statistics.f_bavail.saturating_mul(statistics.f_frsize),
        statistics.f_blocks.saturating_mul(statistics.f_frsize),
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_space_of_the_one_it_will_be_in() {
        let folder = tempfile::tempdir().unwrap();
        let (_, all) = disk_space(folder.path()).unwrap();
        assert_eq!(disk_space(&folder.path().join("a/b")).unwrap().1, all);
    }
}
