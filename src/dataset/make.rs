//! Cache of the procedural digits: generated once, written atomically, verified on every use.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{DatasetError, digits, idx};

/// File of checksums in the format of `sha256sum`. It is written last, so it marks a complete set; its name contains the
/// version of the set, so an older set is replaced.
const CHECKSUMS: &str = "digits-1.sha256";
const COUNTS: [usize; 2] = [60_000, 10_000];

/// Generates the procedural digits in `folder`: 60,000 + 10,000 images of 28×28 pixels, the same on every machine. A
/// complete set is kept. If several processes need it, one generates it and the others wait. `progress` receives the images
/// done and their total, and cancels by breaking.
pub fn make_digits(folder: &Path, progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> Result<(), DatasetError> {
    make(folder, COUNTS, progress)
}

fn make(
    folder: &Path,
    counts: [usize; 2],
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), DatasetError> {
    if is_whole(folder) {
        return Ok(());
    }
    let _lock = lock(folder, progress)?;
    if is_whole(folder) {
        return Ok(());
    }
    let set = digits::draw_set(counts, digits::threads(), progress)?;
    let mut checksums = String::new();
    for (names, part) in idx::NAMES.iter().zip([&set.train, &set.test]) {
        for (name, bytes) in names.iter().zip(idx::encode(part)) {
            write_whole(&folder.join(name), &bytes)?;
            checksums.push_str(&format!("{}  {name}\n", sha256(&bytes)));
        }
    }
    write_whole(&folder.join(CHECKSUMS), checksums.as_bytes())
}

/// Whether all files match their checksums.
fn is_whole(folder: &Path) -> bool {
    let Ok(checksums) = fs::read_to_string(folder.join(CHECKSUMS)) else { return false };
    idx::NAMES.as_flattened().iter().all(|name| {
        let recorded = checksums.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix("  "));
        recorded.is_some_and(|sum| fs::read(folder.join(name)).is_ok_and(|bytes| sha256(&bytes) == sum))
    })
}

/// Creates the folder if necessary and locks it against other processes. Waiting ends when `progress` breaks. The lock is
/// released with the file handle, also when a process dies.
pub(super) fn lock(folder: &Path, progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> Result<File, DatasetError> {
    fs::create_dir_all(folder).map_err(DatasetError::write(folder))?;
    let path = folder.join(".lock");
    let file = File::options().create(true).append(true).open(&path).map_err(DatasetError::write(&path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // Some network file systems have no locks. Files are renamed into place, so at worst the work is done twice.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(DatasetError::write(&path)(error)),
            Err(TryLockError::WouldBlock) => {
                if progress(0, 0).is_break() {
                    return Err(DatasetError::Cancelled);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Writes a file atomically.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
    let part = path.with_added_extension(format!("{}.part", process::id()));
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(|error| {
        // Report the first error.
        let _ = fs::remove_file(&part);
        DatasetError::write(path)(error)
    })
}

/// SHA-256 in lower-case hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    const SMALL: [usize; 2] = [600, 40];

    fn go(_: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn a_generated_set_can_be_read_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), SMALL, &mut go).unwrap();
        let set = idx::read_set(folder.path(), "").unwrap();
        assert_eq!(set, digits::draw_set(SMALL, 1, &mut go).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6, "four files, checksums and the lock");
    }

    #[test]
    fn concurrent_callers_generate_the_set_once() {
        let folder = tempfile::tempdir().unwrap();
        let drawings = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut last = |done, total| {
                        drawings.fetch_add(usize::from(done == total && total > 0), Ordering::SeqCst);
                        ControlFlow::Continue(())
                    };
                    make(folder.path(), SMALL, &mut last).unwrap();
                });
            }
        });
        assert_eq!(drawings.into_inner(), 1);
        assert!(is_whole(folder.path()));
    }

    #[test]
    fn a_damaged_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), SMALL, &mut go).unwrap();
        let path = folder.path().join("t10k-images-idx3-ubyte");
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[500] ^= 1;
        fs::write(&path, bad).unwrap();
        assert!(!is_whole(folder.path()));
        make(folder.path(), SMALL, &mut go).unwrap();
        assert_eq!(fs::read(&path).unwrap(), good);
    }

    #[test]
    fn cancelling_leaves_no_set() {
        let folder = tempfile::tempdir().unwrap();
        let error = make(folder.path(), SMALL, &mut |_, _| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, DatasetError::Cancelled));
        assert!(!is_whole(folder.path()));
        let holder = lock(folder.path(), &mut go).unwrap();
        let error = make(folder.path(), SMALL, &mut |_, _| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, DatasetError::Cancelled), "waiting for another process ends too");
        drop(holder);
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = make(&file.join("digits"), SMALL, &mut go).unwrap_err().to_string();
        assert!(error.contains("file/digits"), "{error}");
    }
}
