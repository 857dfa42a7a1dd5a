//! The folder of a run, which may be removed while the run is active: its session was deleted, or moved to another disk, where it is a copy.
//! Nobody can follow or stop the run any more then, so that the supervisor ends it.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::foreign;

/// Interval between checks.
const INTERVAL: Duration = Duration::from_secs(2);

/// The folder of a run, which stays the same if it is renamed.
pub(super) struct RunFolder {
    /// `None` if it cannot be opened.
    folder: Option<File>,
    checked: Instant,
    was_removed: bool,
}

impl RunFolder {
    pub fn open(folder: &Path) -> Self {
        Self { folder: File::open(folder).ok(), checked: Instant::now(), was_removed: false }
    }

    /// Whether the folder was removed. It looks only once in an interval, and the folder must be found removed twice in succession.
    pub fn is_removed(&mut self) -> bool {
        if self.checked.elapsed() < INTERVAL {
            return false;
        }
        self.checked = Instant::now();
        self.look()
    }

    fn look(&mut self) -> bool {
        let is_removed = self.folder.as_ref().is_some_and(foreign::is_removed);
        std::mem::replace(&mut self.was_removed, is_removed) && is_removed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_counts_as_removed_once_it_is_gone_twice_in_succession_and_never_when_it_is_renamed() {
        let home = tempfile::tempdir().unwrap();
        let [run, renamed] = ["run", "renamed"].map(|name| home.path().join(name));
        fs::create_dir(&run).unwrap();
        let mut folder = RunFolder::open(&run);
        let mut looks = || [folder.look(), folder.look()];
        assert_eq!(looks(), [false, false]);
        fs::rename(&run, &renamed).unwrap();
        assert_eq!(looks(), [false, false]);
        // Another folder at the old path is not the run's.
        fs::create_dir(&run).unwrap();
        fs::remove_dir(&renamed).unwrap();
        assert_eq!(looks(), [false, true]);
        let mut absent = RunFolder::open(&renamed);
        assert!(!absent.look() && !absent.look());
    }
}
