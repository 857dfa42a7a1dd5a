//! The sample session: real records of the project's own on four GPUs, with which a window can be explored before anything has run.
//!
//! It is an archive within the program, as `multicard session export --anonymous` wrote it, unpacked when it is first shown. Nothing is
//! launched into it: a plan that is launched while it is shown makes a session of its own.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::store::import_session;

/// Its archive.
const ARCHIVE: &[u8] = include_bytes!("../../assets/samples/four-h200.zip");
/// Its place below the folder of data of all programs.
const PLACE: &str = "multicard/samples/four-h200";

/// Its name on screen.
pub const NAME: &str = "sample: four H200 GPUs";
/// What it is, and why it cannot be changed.
pub const ABOUT: &str = "Sample: the papers' precisions and pinned memory on four H200 GPUs, measured by the project on 2026-11-22 (quick \
                         runs, one repeat). Explore it on Runs, Live, Compare and Figures; plans that you launch go into a new session.";

/// Whether the session in a folder is the sample.
pub fn is_sample(folder: &Path) -> bool {
    folder.ends_with(PLACE)
}

/// The folder of the sample, unpacked into the data folder of the user if it is not there yet.
///
/// # Errors
/// What could not be written, and why.
pub fn folder() -> Result<PathBuf, String> {
    unpacked(&crate::foreign::data_folder()?)
}

fn unpacked(data: &Path) -> Result<PathBuf, String> {
    let folder = data.join(PLACE);
    if folder.join("session.toml").exists() {
        return Ok(folder);
    }
    let failed =
        |error: &dyn std::fmt::Display| format!("cannot unpack the sample session to {}: {error}", folder.display());
    let parent = folder.parent().unwrap_or(data);
    std::fs::create_dir_all(parent).map_err(|error| failed(&error))?;
    let archive = parent.join(format!(".four-h200-{}.zip", std::process::id()));
    let write = || std::fs::File::create_new(&archive)?.write_all(ARCHIVE);
    let result = write().map_err(|error| failed(&error)).and_then(|()| {
        import_session(&archive, &folder, &mut |_, _| ControlFlow::Continue(())).map_err(|error| failed(&error))
    });
    // It is not needed any more; the next one has another name if it cannot be removed.
    let _ = std::fs::remove_file(&archive);
    result.map(|()| folder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::RunState;
    use crate::session::open_reader;

    #[test]
    fn the_sample_holds_sixteen_finished_cells_and_names_no_machine() {
        let data = tempfile::tempdir().unwrap();
        let folder = unpacked(data.path()).unwrap();
        assert!(is_sample(&folder) && !is_sample(data.path()));
        assert_eq!(unpacked(data.path()).unwrap(), folder, "it is there already");
        assert_eq!(std::fs::read_dir(folder.parent().unwrap()).unwrap().count(), 1, "nothing else stays");
        let reader = open_reader(&folder).unwrap();
        let runs = reader.runs().unwrap();
        let finished = runs.iter().filter(|run| run.state == RunState::Finished);
        let cells: std::collections::BTreeSet<_> = finished.clone().map(|run| run.cell.clone()).collect();
        assert_eq!((finished.count(), cells.len()), (16, 16));
        assert_eq!((&*reader.node().unwrap().hostname, reader.node().unwrap().gpus.len()), ("host", 4));
    }
}
