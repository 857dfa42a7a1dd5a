//! Import of an archive as a session folder: unpacked beside the destination, verified, then renamed.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::unpack::Archive;
use super::{ArchiveError, ArchiveProgress};
use crate::foreign;
use crate::store::{Imported, StoreError, folder};

/// Bytes that stay free on the disk.
const SPARE_BYTES: u64 = 1 << 20;

/// Imports the archive `archive` into the folder `session`, which must not exist yet. Every file is checked against the
/// manifest before the folder gets its name.
pub fn import_session(archive: &Path, session: &Path, progress: ArchiveProgress<'_>) -> Result<(), ArchiveError> {
    let file = foreign::open(archive).map_err(ArchiveError::io("reading", archive))?;
    let mut opened = Archive::open(file, archive)?;
    let total_bytes = opened.total_bytes();
    beside(session, total_bytes, &mut |unfinished| unpack(&mut opened, unfinished, progress))
}

/// Makes the session `session`, which must not exist yet. `fill` writes it into a folder beside it; then this folder
/// gets the session's name. The disk must have room for `needed_bytes`.
pub(super) fn beside(
    session: &Path,
    needed_bytes: u64,
    fill: &mut dyn FnMut(&Path) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    if session.symlink_metadata().is_ok() {
        return Err(ArchiveError::Exists { path: session.to_owned() });
    }
    let session = std::path::absolute(session).map_err(ArchiveError::io("finding", session))?;
    let (Some(parent), Some(name)) = (session.parent(), session.file_name()) else {
        return Err(ArchiveError::Exists { path: session });
    };
    fs::create_dir_all(parent).map_err(ArchiveError::io("creating", parent))?;
    let free_bytes = foreign::free_bytes(parent).unwrap_or(u64::MAX).saturating_sub(SPARE_BYTES);
    if needed_bytes > free_bytes {
        return Err(ArchiveError::NoRoom { path: parent.to_owned(), needed_bytes, free_bytes });
    }
    let unfinished = parent.join(format!(".{}.importing", name.to_string_lossy()));
    let _lock = take_over(&unfinished, &session)?;
    let filled = fill(&unfinished).and_then(|()| put_in_place(&unfinished, &session));
    filled.inspect_err(|_| {
        let _ = fs::remove_dir_all(&unfinished);
    })
}

/// Creates and locks the temporary folder. Remains of a killed import are removed.
fn take_over(unfinished: &Path, session: &Path) -> Result<folder::Lock, ArchiveError> {
    fs::create_dir_all(unfinished).map_err(ArchiveError::io("creating", unfinished))?;
    let lock = folder::lock_at_once(unfinished).map_err(|error| match error {
        StoreError::InUse { .. } => ArchiveError::InUse { path: session.to_owned() },
        other => other.into(),
    })?;
    let list = || -> io::Result<()> {
        for entry in fs::read_dir(unfinished)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else if entry.file_name() != "session.lock" {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    list().map_err(ArchiveError::io("emptying", unfinished))?;
    Ok(lock)
}

fn unpack(archive: &mut Archive<File>, to: &Path, progress: ArchiveProgress<'_>) -> Result<(), ArchiveError> {
    archive.unpack(progress, |path| create(&to.join(path)))?;
    let runs = folder::runs(to);
    fs::create_dir_all(&runs).map_err(ArchiveError::io("creating", &runs))?;
    folder::read_node(to)?;
    let imported = Imported::of_journal(to).map_err(ArchiveError::io("reading the journal of", to))?;
    imported.write(to)?;
    // One sync for all files: syncing each would take a minute for a hundred thousand.
    let synced = File::open(to).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
    synced.map_err(ArchiveError::io("writing", to))
}

fn put_in_place(unfinished: &Path, session: &Path) -> Result<(), ArchiveError> {
    foreign::put_in_place(unfinished, session).map_err(ArchiveError::placing(session))
}

fn create(path: &Path) -> Result<File, ArchiveError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(ArchiveError::io("creating", parent))?;
    }
    File::create_new(path).map_err(ArchiveError::io("writing", path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_needs_more_than_the_disk_has_is_refused_with_both_numbers_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("session");
        let refused = beside(&session, u64::MAX, &mut |_| panic!("there is no room")).unwrap_err();
        let ArchiveError::NoRoom { path, needed_bytes, free_bytes } = &refused else { panic!("{refused}") };
        assert_eq!((path.as_path(), *needed_bytes), (folder.path(), u64::MAX));
        assert!(*free_bytes < u64::MAX);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut fill =
            |unfinished: &Path| fs::write(unfinished.join("a"), "").map_err(ArchiveError::io("writing", unfinished));
        beside(&session, 0, &mut fill).unwrap();
        assert!(session.join("a").is_file());
    }
}
