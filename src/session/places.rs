//! Topology, data sets and disk space of a machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::default_sessions_folder;
use super::doctor::{Check, examine};
use crate::dataset;
use crate::foreign::disk_space;
use crate::plan::{Node, Topology, obtainable};
use crate::telemetry::read_topology;

/// A folder's file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// What the folder contains, in words.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// Bytes free for this user and in total; `None` if unknown.
    pub space: Option<(u64, u64)>,
}

/// Topology, data sets and disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// GPU interconnects and NUMA nodes.
    pub topology: Topology,
    /// Data sets, in the order of [`obtainable`]: the folder, and the size in bytes if present.
    pub sets: Vec<(Result<PathBuf, String>, Option<u64>)>,
    /// Disks of data and sessions.
    pub disks: Vec<Disk>,
    /// Checks whether the machine has what runs need.
    #[serde(default)]
    pub checks: Vec<Check>,
}

impl Places {
    /// Reads the topology, data sets and disks of this machine, described by `node`; `session` is the folder of the open session.
    pub fn look(node: &Node, session: Option<PathBuf>) -> Self {
        let sets: Vec<_> = obtainable()
            .map(|(rule, files)| {
                let folder = dataset::folder_of(rule, files).map_err(|error| error.to_string());
                let bytes = folder.as_deref().ok().and_then(|folder| dataset::present(&files.key, folder));
                (folder, bytes)
            })
            .collect();
        let data = sets.first().and_then(|(folder, _)| folder.as_ref().ok()?.parent().map(PathBuf::from));
        let sessions = default_sessions_folder().ok();
        let named = [("Data", data), ("Sessions", sessions), ("Open session", session)];
        let disk = |(name, folder): (&'static str, Option<PathBuf>)| {
            let folder = folder?;
            Some(Disk { name: name.to_owned(), space: disk_space(&folder), folder })
        };
        Self {
            topology: read_topology(node),
            sets,
            disks: named.into_iter().filter_map(disk).collect(),
            checks: examine(node),
        }
    }
}
