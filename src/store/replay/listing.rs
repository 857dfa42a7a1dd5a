//! The logs of a session on the disk.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::ops::{Bound, Range};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::journal_ends;
use crate::store::index::{Index, Indexed};
use crate::store::{StoreError, folder};

/// The logs of a session on the disk. They are listed only once, because ten thousand runs have tens of thousands of files.
pub(in crate::store) struct Listing {
    pub(super) journal: LogFile,
    /// The logs of each run folder.
    pub(super) runs: BTreeMap<String, Vec<LogFile>>,
    /// Other entries next to the folders of runs.
    pub(super) others: Vec<String>,
    /// Folders of runs that changed since their logs were indexed, with their modification times in nanoseconds since the Unix epoch.
    pub(super) changed: Vec<(String, i64)>,
    /// How much of each log the index contains, by path.
    pub(super) indexed: HashMap<String, Indexed>,
    /// Whether the part of the journal that is in the index differs from the journal: the index was made from another one.
    is_of_another_journal: bool,
}

/// Lists the logs of a session. If a folder has not changed since all of its logs were indexed, it is not listed again; only its known logs
/// are checked.
pub(in crate::store) fn list(folder: &Path, index: &Index) -> Result<Listing, StoreError> {
    let known = index.logs().and_then(|logs| Ok((logs, index.folders()?)));
    let (indexed, known) = known.map_err(StoreError::index(&folder::index_path(folder)))?;
    let mut known_names: HashMap<&str, Vec<&str>> = HashMap::new();
    for (run, name) in indexed.iter().filter_map(|(path, _)| path.strip_prefix("runs/")?.split_once('/')) {
        known_names.entry(run).or_default().push(name);
    }
    let journal = LogFile::look(folder, Kind::Journal, "journal.jsonl".to_owned())?;
    let is_of_another_journal = match index.journal().map_err(StoreError::index(&folder::index_path(folder)))? {
        Some((bytes, ends)) if journal.bytes.is_some() => journal_ends(folder, bytes)? != ends,
        _ => false,
    };
    let (mut runs, mut others, mut changed) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (run, is_folder) in sorted_names(&folder::runs(folder))? {
        if !is_folder {
            others.push(run);
            continue;
        }
        let changed_ns = changed_ns(&folder::run(folder, &run))?;
        let logs = match known_names.get(&*run) {
            Some(names) if known.get(&run) == Some(&changed_ns) => {
                LogFile::of_run(folder, &run, names.iter().copied())?
            }
            _ => {
                changed.push((run.clone(), changed_ns));
                logs_of(folder, &run)?
            }
        };
        runs.insert(run, logs);
    }
    Ok(Listing { journal, runs, others, changed, indexed: indexed.into_iter().collect(), is_of_another_journal })
}

/// When a name was last added to a folder or removed from it, in nanoseconds since the Unix epoch; 0 if the folder does not exist.
fn changed_ns(folder: &Path) -> Result<i64, StoreError> {
    match fs::symlink_metadata(folder) {
        Ok(about) => Ok(about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(StoreError::io("reading", folder)(error)),
    }
}

/// The logs in the folder of a run; empty if the folder does not exist.
pub(super) fn logs_of(folder: &Path, run: &str) -> Result<Vec<LogFile>, StoreError> {
    let names = sorted_names(&folder::run(folder, run))?;
    LogFile::of_run(folder, run, names.iter().map(|(name, _)| name.as_str()))
}

impl Listing {
    fn logs(&self) -> impl Iterator<Item = &LogFile> {
        self.runs.values().flatten().chain([&self.journal])
    }

    /// Whether the index must be made again: it was made from the journal of another session that had the same path, or a log is shorter
    /// than its indexed part, because a crash of the machine lost an unsynced part of it.
    pub(in crate::store) fn contradicts_index(&self) -> bool {
        let lengths: HashMap<&str, u64> = self.logs().map(|log| (&*log.path, log.bytes.unwrap_or(0))).collect();
        let is_shorter =
            |(path, indexed): (&String, &Indexed)| lengths.get(&**path).copied().unwrap_or(0) < indexed.bytes;
        self.is_of_another_journal || self.indexed.iter().any(is_shorter)
    }
}

/// The names in a folder, and whether each is a folder (not a link to one); empty if the folder does not exist.
fn sorted_names(folder: &Path) -> Result<Vec<(String, bool)>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("listing", folder)(error)),
    };
    let about = |entry: fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        Some((entry.file_name().into_string().ok()?, is_folder))
    };
    let mut names: Vec<(String, bool)> = entries.flatten().filter_map(about).collect();
    names.sort_unstable();
    Ok(names)
}

/// The kind of a log.
pub(super) enum Kind {
    Journal,
    /// A rank, or ranks that share a log: from the rank in its name up to that in the name of the run's next log.
    Ranks {
        run: String,
        ranks: Range<u32>,
    },
    Samples {
        run: String,
    },
}

impl Kind {
    pub(super) fn run(&self) -> Option<&str> {
        match self {
            Self::Journal => None,
            Self::Ranks { run, .. } | Self::Samples { run } => Some(run),
        }
    }

    /// Whether it is the log of ranks. If one of these is missing, the run has no numbers.
    pub(super) fn is_of_ranks(&self) -> bool {
        matches!(self, Self::Ranks { .. })
    }
}

/// A log on the disk.
pub(super) struct LogFile {
    pub(super) kind: Kind,
    /// Path within the session folder.
    pub(super) path: String,
    /// Its length; `None` if it is not a regular file.
    pub(super) bytes: Option<u64>,
    /// When it was last changed, in nanoseconds since the Unix epoch.
    pub(super) changed_ns: i64,
}

impl LogFile {
    /// The logs among the files with these names in the folder of a run.
    fn of_run<'a>(
        folder: &Path,
        run: &str,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Vec<Self>, StoreError> {
        let firsts: BTreeSet<u32> = names.clone().filter_map(folder::rank_of).collect();
        let kind = |name: &str| match folder::rank_of(name) {
            Some(rank) => {
                let next = firsts.range((Bound::Excluded(rank), Bound::Unbounded)).next();
                Some(Kind::Ranks { run: run.to_owned(), ranks: rank..next.copied().unwrap_or(u32::MAX) })
            }
            None => (name == "samples.jsonl").then(|| Kind::Samples { run: run.to_owned() }),
        };
        let logs = names.filter_map(|name| Some((kind(name)?, format!("runs/{run}/{name}"))));
        logs.map(|(kind, path)| Self::look(folder, kind, path)).collect()
    }

    /// Reads the length and modification time of a log; a missing log counts as empty.
    fn look(folder: &Path, kind: Kind, path: String) -> Result<Self, StoreError> {
        let file = folder.join(&path);
        let (bytes, changed_ns) = match fs::symlink_metadata(&file) {
            Ok(about) => {
                // The change time cannot be set by users, unlike the modification time.
                let changed_ns = about.ctime().saturating_mul(1_000_000_000).saturating_add(about.ctime_nsec());
                (about.is_file().then_some(about.len()), changed_ns)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Some(0), 0),
            Err(error) => return Err(StoreError::io("reading", &file)(error)),
        };
        Ok(Self { kind, path, bytes, changed_ns })
    }
}
