//! `slurm.json` in the folder of a run or of an allocation: the facts about its job by which a later conductor finds the job.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::jobs::JobId;
use crate::foreign;
use crate::processes::inode;
use crate::protocol::{AllocationSize, GROUP_LOG, GroupEvent, GroupLine};

/// The record's name in the run's folder.
const RECORD_FILE: &str = "slurm.json";

/// Longest record, and longest log of a supervisor: a rank takes some hundred bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The job of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The comment of the job, or of its array, which no other job has; empty for a run in an allocation.
    pub comment: String,
    /// The id of the job, or of its array; `None` before Slurm has taken it.
    pub job: Option<u64>,
    /// The number of the task, if the job is one of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// The name of the allocation in which the run is a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<String>,
    /// The size of an allocation, in the record of its own folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<AllocationSize>,
    /// The inode of the folder that the record was written into; `None` in records of earlier versions. The device is left out, because
    /// machines number the devices of a file system that they share differently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
}

impl Record {
    /// Writes the record into the folder of a run, and into the record which folder that is.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let path = folder.join(RECORD_FILE);
        let unfinished = path.with_extension("json.tmp");
        let (_, inode) = inode(folder)?;
        let text = serde_json::to_vec(&Self { inode: Some(inode), ..self.clone() })?;
        let mut file =
            foreign::open_ours_with(&unfinished, fs::File::options().write(true).create(true).truncate(true))?;
        file.write_all(&text).and_then(|()| file.sync_all())?;
        fs::rename(unfinished, path)
    }

    /// The record in the folder of a run; `None` if the run was never sent to a site.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&foreign::read_ours(&folder.join(RECORD_FILE), MOST_BYTES).ok()?).ok()
    }

    /// The job's id, once Slurm has taken it.
    pub fn job_id(&self) -> Option<JobId> {
        self.job.map(|id| JobId { id, task: self.task })
    }

    /// Whether the job was sent for this folder. If not, the folder is a copy, and the job belongs to the original. A folder that was
    /// renamed keeps its job.
    pub fn is_of(&self, folder: &Path) -> bool {
        self.inode.is_none_or(|recorded| inode(folder).is_ok_and(|(_, own)| own == recorded))
    }
}

/// Whether the run in this folder was sent to a site and its supervisor has not logged its end, so that Slurm may still have it.
pub fn may_be_at_a_site(folder: &Path) -> bool {
    Record::read(folder).is_some_and(|record| record.is_of(folder)) && !has_ended(folder)
}

/// Whether the supervisor in this folder logged its end.
pub(super) fn has_ended(folder: &Path) -> bool {
    ended(folder).is_some()
}

/// Whether the supervisor in this folder, or the steward of an allocation, logged an end that was its own.
pub(super) fn has_ended_well(folder: &Path) -> bool {
    ended(folder) == Some(true)
}

/// Whether the supervisor in this folder ended well; `None` if it did not log its end.
fn ended(folder: &Path) -> Option<bool> {
    let text = foreign::read_ours(&folder.join(GROUP_LOG), MOST_BYTES).ok()?;
    let last = text.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice::<GroupLine>(last).ok()?.event {
        GroupEvent::SupervisorEnded { well } => Some(well),
        _ => None,
    }
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
        let record = Record { comment: "multicard:a".into(), ..Record::default() };
        record.write(folder).unwrap();
        assert!(may_be_at_a_site(folder));
        let record = Record { job: Some(7), ..record };
        record.write(folder).unwrap();
        assert_eq!(Record::read(folder).unwrap().job, Some(7));
        let log = "{\"time_s\":1.0,\"event\":\"supervisor_started\",\"hostname\":\"n1\"}\n";
        fs::write(folder.join(GROUP_LOG), log).unwrap();
        assert!(may_be_at_a_site(folder));
        let log = format!("{log}{{\"time_s\":2.0,\"event\":\"supervisor_ended\",\"well\":true}}\n");
        fs::write(folder.join(GROUP_LOG), log).unwrap();
        assert!(!may_be_at_a_site(folder));
    }

    #[test]
    fn a_record_belongs_to_the_folder_that_it_was_written_into_whatever_its_name_and_not_to_a_copy() {
        let home = tempfile::tempdir().unwrap();
        let [run, copy, renamed] = ["run", "copy", "renamed"].map(|name| home.path().join(name));
        fs::create_dir(&run).unwrap();
        fs::create_dir(&copy).unwrap();
        Record { comment: "multicard:a".into(), job: Some(7), ..Record::default() }.write(&run).unwrap();
        fs::copy(run.join(RECORD_FILE), copy.join(RECORD_FILE)).unwrap();
        fs::rename(&run, &renamed).unwrap();
        assert_eq!([&renamed, &copy].map(|folder| may_be_at_a_site(folder)), [true, false]);
        // Earlier versions wrote no inode.
        fs::write(copy.join(RECORD_FILE), r#"{"comment":"multicard:a","job":7}"#).unwrap();
        assert!(may_be_at_a_site(&copy));
    }
}
