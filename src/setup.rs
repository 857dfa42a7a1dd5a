//! Fetches libraries that the worker loads and that no package of multicard contains: PyTorch's and, if requested, NVIDIA DALI's. They
//! are stored in the user's cache. They are unpacked from wheels of PyPI without the Python files, so no Python is needed.
//!
//! Whatever interrupts it, received data are kept and the next try continues: a download in the middle of a file, unpacking after the last
//! complete wheel. `make` uses the same folders and the same lock.

mod wheel;

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::dataset::{DatasetError, fetch_files};
use crate::{foreign, launch};

pub use wheel::{Set, Wheel, wheels};
use wheel::{address, merge, unpack};

/// Version of DALI that the worker is built for.
const DALI_VERSION: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/dali-version")).trim_ascii();
/// The file in a folder of libraries that lists the wheels unpacked there.
const COMPLETE: &str = "complete";
/// The entry in that list for all of CUDA's libraries; `.ci/libtorch` looks for it.
const CUDA_LIBRARIES: &str = "cuda-libraries";

/// Why libraries were not fetched.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no folder for the libraries.
    #[error("{0}")]
    NoFolder(String),
    /// The list of wheels cannot be used.
    #[error("{}{}: {reason}", path.display(), line.map_or_else(String::new, |line| format!(", line {line}")))]
    List {
        /// The list.
        path: PathBuf,
        /// Its line, if one is wrong.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
    },
    /// The disk has too little room.
    #[error(
        "unpacking needs {:.1} GB of free space in {}, but only {:.1} GB are free: make room, or set XDG_CACHE_HOME to another disk; \
             what was received is kept", *needed as f64 / 1e9, folder.display(), *free as f64 / 1e9
    )]
    Space {
        /// The folder.
        folder: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// A wheel was not received.
    #[error(transparent)]
    Fetch(#[from] DatasetError),
    /// A wheel cannot be unpacked.
    #[error("unpacking {} failed: {source}; repeat `multicard setup`", path.display())]
    Unpack {
        /// The wheel.
        path: PathBuf,
        /// Why.
        source: zip::result::ZipError,
    },
    /// A file cannot be written.
    #[error("writing {} failed: {source}: {}what was received is kept, and `multicard setup` continues from there", path.display(), remedy(source))]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl SetupError {
    fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }
}

/// The advice for a file that cannot be written, to stand before the rest of the message; empty if there is none.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "set XDG_CACHE_HOME to a folder that you can write; "
        }
        _ if foreign::is_full_disk(error) => "make room, or set XDG_CACHE_HOME to another disk; ",
        _ => "",
    }
}

/// Receives the progress: the current activity, the bytes of wheels received, and their total.
pub type Progress<'a> = dyn FnMut(&str, u64, u64) + 'a;

/// The folder that a set of libraries is fetched into.
pub fn folder(set: Set) -> Result<PathBuf, SetupError> {
    match set {
        Set::Cpu | Set::Cuda => launch::fetched_folder(set.name()),
        Set::Dali => foreign::cache_folder().map(|cache| cache.join("multicard").join(format!("dali-{DALI_VERSION}"))),
    }
    .map_err(SetupError::NoFolder)
}

/// Fetches the wheels that a folder does not contain yet, and unpacks them there. `from` is a mirror, or a folder with the files, in place
/// of the addresses in the list.
///
/// # Errors
///
/// Those of [`SetupError`]; the next call continues.
pub fn fetch(
    set: Set,
    wheels: &[Wheel],
    folder: &Path,
    from: Option<&str>,
    progress: &mut Progress<'_>,
) -> Result<(), SetupError> {
    let cache = folder.parent().unwrap_or(folder);
    fs::create_dir_all(folder).map_err(SetupError::write(folder))?;
    let _lock = lock(&cache.join(set.lock()), progress)?;
    let mut held = held(folder);
    let missing: Vec<&Wheel> = wheels.iter().filter(|wheel| !held.contains(&wheel.package)).collect();
    let total = missing.iter().map(|wheel| wheel.bytes).sum();
    // Received files are next to the libraries, in a folder that is removed once everything is unpacked.
    let received = folder.with_added_extension("received");
    let mut before = 0;
    for wheel in missing {
        check_space(folder, &received, wheel)?;
        let named = format!("downloading {}", wheel.package);
        let on_bytes = &mut |done, _| {
            progress(&named, before + done, total);
            ControlFlow::Continue(())
        };
        let local = from.map(Path::new).filter(|from| from.is_dir()).map(|from| from.join(wheel.file_name()));
        let file = match local {
            Some(file) => wheel.checked(file)?,
            None => {
                fetch_files(&received, &[wheel.wanted(address(wheel, from))], on_bytes)?;
                received.join(wheel.file_name())
            }
        };
        progress(&format!("unpacking {}", wheel.package), before + wheel.bytes, total);
        let staging = received.join("unpacked");
        let _ = fs::remove_dir_all(&staging);
        unpack(set, &file, &staging)?;
        merge(&staging, folder)?;
        held.push(wheel.package.clone());
        write_held(set, wheels, folder, &held)?;
        if file.starts_with(&received) {
            fs::remove_file(&file).map_err(SetupError::write(&file))?;
        }
        before += wheel.bytes;
    }
    write_held(set, wheels, folder, &held)?;
    match fs::remove_dir_all(&received) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SetupError::write(&received)(error)),
        _ => Ok(()),
    }
}

/// The wheels that were unpacked into a folder.
fn held(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join(COMPLETE)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn write_held(set: Set, wheels: &[Wheel], folder: &Path, held: &[String]) -> Result<(), SetupError> {
    let mut lines = held.to_vec();
    let is_whole = wheels.iter().all(|wheel| held.contains(&wheel.package));
    if set == Set::Cuda && is_whole && !held.iter().any(|line| line == CUDA_LIBRARIES) {
        lines.push(CUDA_LIBRARIES.to_owned());
    }
    let path = folder.join(COMPLETE);
    let part = path.with_added_extension("part");
    fs::write(&part, lines.join("\n") + "\n").map_err(SetupError::write(&part))?;
    fs::rename(&part, &path).map_err(SetupError::write(&path))
}

/// Waits for another set-up, which may be `make`, and makes others wait as long as the returned file is open.
fn lock(path: &Path, progress: &mut Progress<'_>) -> Result<File, SetupError> {
    let file = File::options().create(true).append(true).open(path).map_err(SetupError::write(path))?;
    if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
        progress(&format!("waiting for another set-up that is using {}", path.display()), 0, 0);
        // Where locking is not supported, as on some network file systems, moving files by renaming is still safe.
        let _ = file.lock();
    }
    Ok(file)
}

/// Checks that there is room for the rest of a wheel and for its contents.
fn check_space(folder: &Path, received: &Path, wheel: &Wheel) -> Result<(), SetupError> {
    let part = received.join(wheel.file_name()).with_added_extension("part");
    let had = fs::metadata(part).map_or(0, |part| part.len());
    // Wheels compress libraries to a third of their size or more.
    let needed = wheel.bytes.saturating_sub(had) + 3 * wheel.bytes;
    match foreign::disk_space(folder) {
        Some((free, _)) if free < needed => Err(SetupError::Space { folder: folder.to_owned(), needed, free }),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
