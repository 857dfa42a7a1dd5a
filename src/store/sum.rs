//! Checksums of logs. Those of finished runs are stored in the journal, so that later changes to a log are detected. The checksum of the
//! journal's ends is stored in the index, so that the index is not used for the journal of another session.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::folder;
use crate::foreign;

/// Length of each end in [`sum_of_ends`]. The first lines of a journal contain the time when its session began.
const END_BYTES: u64 = 64 << 10;

/// SHA-256 of the first and the last bytes of the first `bytes` of a log, in hexadecimal digits. A missing log is empty.
///
/// It stays the same while a log only grows, in copies of a log, and on network file systems, where inodes and times may change. Of a long
/// log, only its ends are read.
///
/// # Errors
/// The log cannot be read.
pub(super) fn sum_of_ends(log: &Path, bytes: u64) -> io::Result<String> {
    let mut sum = Sha256::new();
    match foreign::open_ours(log) {
        Ok(mut file) => {
            for start in [0, bytes.saturating_sub(END_BYTES)] {
                let mut end = Vec::new();
                file.seek(SeekFrom::Start(start))?;
                file.by_ref().take(bytes.min(END_BYTES)).read_to_end(&mut end)?;
                sum.update(&end);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(hexadecimal(sum))
}

fn hexadecimal(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

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
        Ok(Self { file, bytes: length, sha256: hexadecimal(sum) })
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
    fn the_ends_of_a_log_stay_the_same_while_it_grows_and_differ_from_those_of_another_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("journal.jsonl");
        let missing = sum_of_ends(&log, 5).unwrap();
        let of = |text: &str, bytes: u64| {
            fs::write(&log, text).unwrap();
            sum_of_ends(&log, bytes).unwrap()
        };
        assert_eq!(of("first", 5), of("first and more", 5));
        let short = ["first", "third", "firs", ""].map(|text| of(text, 5));
        assert!(short.iter().enumerate().all(|(place, sum)| !short[..place].contains(sum)), "{short:?}");
        assert_eq!(short[3], missing);
        let long = "x".repeat(300_000);
        let bytes = long.len() as u64;
        for changed in [format!("y{}", &long[1..]), format!("{}y", &long[1..])] {
            assert_ne!(of(&changed, bytes), of(&long, bytes));
        }
    }

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
