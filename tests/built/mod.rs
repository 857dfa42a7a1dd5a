//! The worker that tests start. It is a package of its own: cargo builds it with the workspace, not with each test of the workbench.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What builds it as these tests are built.
const HOW: &str = "type `cargo test --workspace --features torch --test worker`, then repeat";

/// The worker beside the workbench. One that is missing, or older than what it is made of, would test something else.
pub fn worker() -> PathBuf {
    let worker = Path::new(env!("CARGO_BIN_EXE_multicard")).with_file_name("multicard-worker");
    let time = |file: &Path| fs::metadata(file).and_then(|metadata| metadata.modified());
    let built = time(&worker).unwrap_or_else(|error| panic!("{}: {error}: {HOW}", worker.display()));
    let is_newer = |file: &&Path| time(file).unwrap_or(SystemTime::UNIX_EPOCH) > built;
    let files = files(&worker.with_extension("d"));
    let newer = files.iter().map(PathBuf::as_path).find(is_newer);
    assert!(newer.is_none(), "{} is older than {}: {HOW}", worker.display(), newer.unwrap_or(&worker).display());
    worker
}

/// The files that a program is made of, by cargo's list: `program: file file`.
fn files(list: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(list).unwrap_or_else(|error| panic!("{}: {error}: {HOW}", list.display()));
    let (_, files) = text.split_once(": ").unwrap_or_default();
    let files = files.trim_end().replace("\\ ", "\0");
    files.split(' ').map(|file| PathBuf::from(file.replace('\0', " "))).collect()
}
