//! The sample session: real records of the project on one GPU, for exploring the window before anything has run. `sessions/sample.toml` and
//! `sessions/sample-traced.toml` produced it.
//!
//! It is an archive inside the program, written by `multicard session export --anonymous`, plus the recordings of its traced runs, which
//! such an archive leaves out. It is unpacked when it is first shown. Nothing is launched into it: a plan that is launched while it is
//! shown creates a new session.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::store::import_session;

/// Its archive.
const ARCHIVE: &[u8] = include_bytes!("../../assets/samples/one-h100.zip");
/// Its folder, relative to the data folder of all programs.
const PLACE: &str = "multicard/samples/one-h100";

/// Its name on screen.
pub const NAME: &str = "sample: one H100 GPU";
/// Its description, and why it cannot be changed.
pub const ABOUT: &str = "Sample: precision and pinned memory on one H100 GPU, measured by the project on 2026-11-25: five cells of six \
                         repeats, and two of them recorded. Explore it on every screen; plans that you launch go into a new session.";

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
    let archive = parent.join(format!(".one-h100-{}.zip", std::process::id()));
    let write = || std::fs::File::create_new(&archive)?.write_all(ARCHIVE);
    let result = write().map_err(|error| failed(&error)).and_then(|()| {
        import_session(&archive, &folder, &mut |_, _| ControlFlow::Continue(())).map_err(|error| failed(&error))
    });
    // It is not needed any more; if it cannot be removed, the next one gets another name.
    let _ = std::fs::remove_file(&archive);
    result.map(|()| folder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::{Recording, RunSummary, cells, summarise_run};
    use crate::papers::{Verdict, judge};
    use crate::plan::{Plan, RunState};
    use crate::protocol::EVENTS_FILE;
    use crate::session::open_reader;
    use crate::trace::{Window, import};

    fn runs_of_the_sample(folder: &Path) -> Vec<RunSummary> {
        let reader = open_reader(folder).unwrap();
        let ids: Vec<String> = reader.headings().unwrap().into_iter().map(|run| run.run).collect();
        let read = |id: &String| reader.run(id).unwrap().unwrap();
        ids.iter().map(read).map(|record| summarise_run(&record)).collect()
    }

    #[test]
    fn the_sample_holds_five_cells_of_six_repeats_and_two_that_were_recorded_and_names_no_machine() {
        let data = tempfile::tempdir().unwrap();
        let folder = unpacked(data.path()).unwrap();
        assert!(is_sample(&folder) && !is_sample(data.path()));
        assert_eq!(unpacked(data.path()).unwrap(), folder, "it is there already");
        assert_eq!(std::fs::read_dir(folder.parent().unwrap()).unwrap().count(), 1, "nothing else stays");
        let reader = open_reader(&folder).unwrap();
        let runs = reader.runs().unwrap();
        let mut repeats: BTreeMap<&str, usize> = BTreeMap::new();
        for run in runs.iter().filter(|run| run.state == RunState::Finished) {
            *repeats.entry(&run.cell).or_default() += 1;
        }
        let mut repeats: Vec<usize> = repeats.into_values().collect();
        repeats.sort_unstable();
        assert_eq!(repeats, [3, 3, 6, 6, 6, 6, 6]);
        let recorded: Vec<PathBuf> = runs
            .iter()
            .map(|run| folder.join("runs").join(&run.run).join(EVENTS_FILE))
            .filter(|file| file.exists())
            .collect();
        assert_eq!(recorded.len(), 6);
        let recording = import(&recorded[0], &Window::default(), &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(!recording.gpus.is_empty() && !recording.families.is_empty());
        let plans = reader.plans().unwrap();
        let names: Vec<&str> = plans.iter().map(|(_, name, _)| name.as_str()).collect();
        assert_eq!(names, ["precision and pinned memory", "precision, traced", "precision and pinned memory"]);
        for (_, name, text) in &plans {
            assert_eq!(Plan::parse(text, "sample").unwrap().name, *name, "it is opened again in the window");
        }
        assert!(!reader.rates().unwrap().is_empty(), "shares of the machine's rates can be told");
        assert_eq!((&*reader.node().unwrap().hostname, reader.node().unwrap().gpus.len()), ("host", 1));
    }

    #[test]
    fn the_sample_decides_speeds_and_has_a_claim_that_holds_one_that_fails_and_one_that_is_undecided() {
        let data = tempfile::tempdir().unwrap();
        let summaries = runs_of_the_sample(&unpacked(data.path()).unwrap());
        let cells = cells(&summaries);
        let verdict =
            |id: &str| judge(&cells).into_iter().find(|one| one.claim.id == id).map(|one| one.verdict).unwrap();
        assert_eq!(verdict("half-halves-memory"), Verdict::Holds);
        assert_eq!(verdict("precision-speeds-up"), Verdict::Fails);
        assert_eq!(verdict("pinning-speeds-up"), Verdict::Undecided);
        let outcomes = summaries.iter().filter(|run| run.recording == Recording::BuiltIn && run.trace.is_some());
        assert_eq!(outcomes.count(), 6, "each recording is told with its run");
    }
}
