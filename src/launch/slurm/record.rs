//! What a run's folder says about its job: `slurm.json`, by which a later conductor finds the job.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::foreign;
use crate::protocol::{GROUP_LOG, GroupEvent, GroupLine};

/// The record's name in the run's folder.
const RECORD_FILE: &str = "slurm.json";

/// Longest record, and longest log of a supervisor: a rank takes some hundred bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The job of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The job's comment, which no other job has.
    pub comment: String,
    /// Its id; `None` before Slurm has taken it.
    pub job: Option<u64>,
}

impl Record {
    /// Writes the record into the folder of a run.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let path = folder.join(RECORD_FILE);
        let unfinished = path.with_extension("json.tmp");
        let text = serde_json::to_vec(self)?;
        let mut file =
            foreign::open_ours_with(&unfinished, fs::File::options().write(true).create(true).truncate(true))?;
        file.write_all(&text).and_then(|()| file.sync_all())?;
        fs::rename(unfinished, path)
    }

    /// The record in the folder of a run; `None` if the run was never sent to a site.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&foreign::read_ours(&folder.join(RECORD_FILE), MOST_BYTES).ok()?).ok()
    }
}

/// Whether the run in this folder was sent to a site and its supervisor has not logged its end, so that Slurm may still have it.
pub fn may_be_at_a_site(folder: &Path) -> bool {
    Record::read(folder).is_some() && !has_ended(folder)
}

fn has_ended(folder: &Path) -> bool {
    let Ok(text) = foreign::read_ours(&folder.join(GROUP_LOG), MOST_BYTES) else { return false };
    let last = text.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let last = serde_json::from_slice::<GroupLine>(last);
    matches!(last, Ok(GroupLine { event: GroupEvent::SupervisorEnded { .. }, .. }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_run_may_be_at_a_site_from_its_record_to_the_last_line_of_its_supervisor() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(!may_be_at_a_site(folder));
        let record = Record { comment: "multicard:a".into(), job: None };
        record.write(folder).unwrap();
        assert!(may_be_at_a_site(folder));
        let record = Record { job: Some(7), ..record };
        record.write(folder).unwrap();
        assert_eq!(Record::read(folder), Some(record));
        let log = "{\"time_s\":1.0,\"event\":\"supervisor_started\",\"hostname\":\"n1\"}\n";
        fs::write(folder.join(GROUP_LOG), log).unwrap();
        assert!(may_be_at_a_site(folder));
        let log = format!("{log}{{\"time_s\":2.0,\"event\":\"supervisor_ended\",\"well\":true}}\n");
        fs::write(folder.join(GROUP_LOG), log).unwrap();
        assert!(!may_be_at_a_site(folder));
    }
}
