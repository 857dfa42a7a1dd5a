//! The worker that tests start. It is a package of its own: cargo builds it with the workspace, not with each test of the workbench.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What builds it as these tests are built.
const HOW: &str = "type `cargo test --workspace --features torch --test worker`, then repeat";

/// The worker beside the workbench. One that is missing, or older than what it is made of, would test something else.
pub fn worker() -> PathBuf {
    let workbench = Path::new(env!("CARGO_BIN_EXE_multicard"));
    let worker = workbench.with_file_name("multicard-worker");
    assert!(worker.is_file(), "{} is not there: {HOW}", worker.display());
    // The library that this workbench was linked with; later ones have other features.
    let mut libraries = files(&workbench.with_file_name("deps"));
    libraries.retain(|file| is_library(file) && time(file) <= time(workbench));
    let mut sources = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/worker"));
    // Tests of the worker are not in it.
    sources.retain(|file| !file.to_string_lossy().contains("test"));
    sources.extend(libraries.into_iter().max_by_key(|file| time(file)));
    let newer = sources.iter().find(|file| time(file) > time(&worker));
    assert!(newer.is_none(), "{} is older than {}: {HOW}", worker.display(), newer.unwrap_or(&worker).display());
    worker
}

fn is_library(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libmulticard-") && name.ends_with(".rlib")
}

/// The files of a folder and of those in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn time(file: &Path) -> SystemTime {
    fs::metadata(file).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}
