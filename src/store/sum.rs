//! Checksums of the logs of finished runs. They are stored in the journal, so that later changes to a log are detected.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::folder;
use crate::foreign;

/// The length and checksum of a log when its run had finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSum {
    /// Its name in the run's folder.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of these bytes, in hexadecimal digits.
    pub sha256: String,
}

impl LogSum {
    /// The checksum of the first `bytes` bytes of a log, or of the whole log if it is shorter.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn of(log: &Path, bytes: u64) -> io::Result<Self> {
        let file = log.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut reader = foreign::open_ours(log)?.take(bytes);
        let (mut sum, mut block, mut length) = (Sha256::new(), vec![0; 1 << 17], 0);
        loop {
            let count = reader.read(&mut block)?;
            if count == 0 {
                break;
            }
            sum.update(&block[..count]);
            length += count as u64;
        }
        let sha256 = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { file, bytes: length, sha256 })
    }

    /// The checksums of the logs of a run's ranks, in the order of their names.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(super) fn of_run(run_folder: &Path) -> io::Result<Vec<Self>> {
        let mut logs = Vec::new();
        for entry in fs::read_dir(run_folder)? {
            let entry = entry?;
            let is_log = entry.file_name().to_str().is_some_and(|name| folder::rank_of(name).is_some());
            if is_log && entry.file_type()?.is_file() {
                let bytes = File::open(entry.path())?.metadata()?.len();
                logs.push(Self::of(&entry.path(), bytes)?);
            }
        }
        logs.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(logs)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_log_covers_the_bytes_that_it_had_when_its_run_finished() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("rank-0.jsonl");
        fs::write(&log, "abc").unwrap();
        let sum = LogSum::of(&log, 3).unwrap();
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((&*sum.file, sum.bytes, &*sum.sha256), ("rank-0.jsonl", 3, of_abc));
        fs::write(&log, "abc and more").unwrap();
        assert_eq!(LogSum::of(&log, 3).unwrap(), sum);
        assert_eq!(LogSum::of(&log, 100).unwrap().bytes, 12);
    }
}
