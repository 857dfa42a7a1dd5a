//! `multicard diff --kernels`: what explains the difference between the steps of recordings before and after a change. Versions of a program
//! are kept apart.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::material::Material;
use super::super::session_folder;
use crate::analysis::{Cell, RunState, RunSummary, TraceLists, cells, program_versions, work_difference};
use crate::figure::{Table, work_table};
use crate::plan::{Filter, Identity};
use crate::trace::{self, Window};

/// A recording.
struct Recorded {
    /// The cell, and its id; `None` for a file.
    cell: Option<(Identity, String)>,
    /// The version of its program, in words; empty if its session made the cell with one version only.
    version: Arc<str>,
    /// The run or the file.
    name: String,
    lists: Arc<TraceLists>,
}

/// What a side of the comparison is taken from.
pub(super) struct Side<'a> {
    /// Sessions and recordings.
    pub paths: &'a [PathBuf],
    /// Which cells of the sessions; an empty text for all.
    pub filter: &'a str,
    /// The option that gives the filter, for messages.
    pub option: &'a str,
}

impl Side<'_> {
    /// The message for a filter that cannot be used.
    fn wrong(&self, error: &dyn Display) -> String {
        format!("{} {:?}: {error}", self.option, self.filter)
    }

    fn parsed(&self) -> Result<Filter, String> {
        Filter::parse(self.filter).map_err(|error| self.wrong(&error))
    }
}

/// Tables for each cell that both sides have; with filters or files, for all recordings of a side together. One table compares one version of
/// the program before with one after.
pub(super) fn tables(before: &Side, after: &Side, all: bool) -> Result<Vec<Table>, Box<dyn Error>> {
    let (filter_before, filter_after) = (before.parsed()?, after.parsed()?);
    let ((files_before, sessions_before), (files_after, sessions_after)) = (read(before)?, read(after)?);
    let sessions: Vec<&[RunSummary]> =
        sessions_before.iter().chain(&sessions_after).map(|session| session.runs.as_slice()).collect();
    let versions = program_versions(&sessions);
    let (versions_before, versions_after) = versions.split_at(sessions_before.len());
    let mut old = files_before;
    old.extend(recorded(before, filter_before, &sessions_before, versions_before)?);
    let mut new = files_after;
    new.extend(recorded(after, filter_after, &sessions_after, versions_after)?);
    for (side, found) in [(before, &old), (after, &new)] {
        if found.is_empty() {
            return Err(nothing_recorded(side).into());
        }
    }
    let pooled = !before.filter.is_empty() || !after.filter.is_empty();
    if pooled || old.iter().chain(&new).any(|one| one.cell.is_none()) {
        one_cell(&old, before)?;
        one_cell(&new, after)?;
        return tables_of_versions(&old.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>(), all);
    }
    let mut tables = Vec::new();
    let mut done: Vec<&Identity> = Vec::new();
    for (identity, _) in old.iter().filter_map(|one| one.cell.as_ref()) {
        let is_of_cell = |one: &&Recorded| one.cell.as_ref().is_some_and(|(other, _)| other == identity);
        let (old, new): (Vec<&Recorded>, Vec<&Recorded>) =
            (old.iter().filter(is_of_cell).collect(), new.iter().filter(is_of_cell).collect());
        if !done.contains(&identity) && !new.is_empty() {
            done.push(identity);
            tables.extend(tables_of_versions(&old, &new, all)?);
        }
    }
    if tables.is_empty() {
        return Err("no cell has recordings on both sides: --of-before and --of-after choose the cells to compare, such as --of-before \
                    precision=fp32 --of-after precision=bf16"
            .into());
    }
    Ok(tables)
}

/// A table for each version of a cell's program before with each version after: a mean over several versions would describe none of them.
fn tables_of_versions(before: &[&Recorded], after: &[&Recorded], all: bool) -> Result<Vec<Table>, Box<dyn Error>> {
    let (before, after) = (by_version(before), by_version(after));
    let pairs = before.iter().flat_map(|old| after.iter().map(move |new| (old, new)));
    pairs.map(|(old, new)| table(old, new, all)).collect()
}

/// The recordings of each version, in the order of their first recordings.
fn by_version<'r>(side: &[&'r Recorded]) -> Vec<Vec<&'r Recorded>> {
    let mut versions: Vec<Vec<&Recorded>> = Vec::new();
    for one in side.iter().copied() {
        match versions.iter_mut().find(|known| known.iter().all(|known| known.version == one.version)) {
            Some(known) => known.push(one),
            None => versions.push(vec![one]),
        }
    }
    versions
}

fn table(before: &[&Recorded], after: &[&Recorded], all: bool) -> Result<Table, Box<dyn Error>> {
    let [old, new]: [Vec<&TraceLists>; 2] = [before, after].map(|side| side.iter().map(|one| &*one.lists).collect());
    let found = work_difference(&old, &new)?;
    Ok(work_table(&found, &format!("{} against {}", title(before), title(after)), all))
}

/// `cell fp32-1, Program's files 2nd (0003-fp32-1-3, 0004-fp32-1-4)`; the names of files.
fn title(side: &[&Recorded]) -> String {
    let names = side.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    match side.first().and_then(|one| Some((one, one.cell.as_ref()?))) {
        Some((one, (_, cell))) if one.version.is_empty() => format!("cell {cell} ({names})"),
        Some((one, (_, cell))) => format!("cell {cell}, {} ({names})", one.version),
        None => names,
    }
}

/// Refuses a side whose recordings are of several cells.
fn one_cell(side: &[Recorded], Side { filter, option, .. }: &Side) -> Result<(), String> {
    let mut cells: Vec<&str> = side.iter().filter_map(|one| Some(one.cell.as_ref()?.1.as_str())).collect();
    cells.sort_unstable();
    cells.dedup();
    if cells.len() < 2 {
        return Ok(());
    }
    Err(format!(
        "{option} {filter:?}: recordings of {} cells match ({}); choose one, such as {option} cell={}",
        cells.len(),
        cells.join(", "),
        cells[0]
    ))
}

/// Recordings in files, and sessions.
type Opened = (Vec<Recorded>, Vec<Material>);

/// Reads what a side names.
fn read(side: &Side) -> Result<Opened, Box<dyn Error>> {
    let (mut files, mut sessions) = (Vec::new(), Vec::new());
    for path in side.paths {
        if path.is_file() {
            let trace = trace::import(path, &Window::default(), &mut |_| ControlFlow::Continue(()))?;
            let (name, lists) = (path.display().to_string(), Arc::new(trace.lists()));
            files.push(Recorded { cell: None, version: Arc::default(), name, lists });
            continue;
        }
        sessions.push(Material::read(&session_folder(path)?)?);
    }
    Ok((files, sessions))
}

/// The recordings in the sessions of a side, each session with the versions of its runs' programs.
fn recorded(
    side: &Side,
    filter: Filter,
    sessions: &[Material],
    versions: &[HashMap<&str, Arc<str>>],
) -> Result<Vec<Recorded>, String> {
    let of_sessions: Vec<Vec<Cell>> = sessions.iter().map(|session| cells(&session.runs)).collect();
    let filter = filter.among(&of_sessions.iter().flatten()).map_err(|error| side.wrong(&error))?;
    let mut all = Vec::new();
    for (cells, versions) in of_sessions.iter().zip(versions) {
        for cell in cells.iter().filter(|cell| filter.admits(*cell)) {
            let finished = cell.runs.iter().filter(|run| run.state == RunState::Finished);
            all.extend(finished.filter_map(|run| {
                let lists = run.trace_summary()?.lists.clone()?;
                let cell = run.identity.map(|identity| (identity, cell.id.to_owned()));
                let version = versions.get(run.run.as_str()).cloned().unwrap_or_default();
                Some(Recorded { cell, version, name: run.run.clone(), lists })
            }));
        }
    }
    Ok(all)
}

/// The message for a side without recordings.
fn nothing_recorded(side: &Side) -> String {
    let paths: Vec<String> = side.paths.iter().map(|path| path.display().to_string()).collect();
    let filtered = if side.filter.is_empty() { String::new() } else { format!(" of cells with {}", side.filter) };
    format!("{} contains no recordings{filtered}: a plan with trace = \"built-in\" records its runs", paths.join(", "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::protocol::TraceEntry;

    /// A recording of ten steps of a file or, in a session, of a run with this version of its program.
    fn recording(name: &str, version: &str) -> Recorded {
        let kernel = TraceEntry { name: "gemm".to_owned(), calls: 10, seconds: 0.01, place: None };
        let lists =
            TraceLists { ranks: 1, steps: 10, gpu_busy_s: 0.01, kernels: vec![kernel], ..TraceLists::default() };
        Recorded { cell: None, version: version.into(), name: name.to_owned(), lists: Arc::new(lists) }
    }

    /// The first notes of the tables that compare two sides.
    fn compared(before: &[Recorded], after: &[Recorded]) -> Vec<String> {
        let [before, after]: [Vec<&Recorded>; 2] = [before, after].map(|side| side.iter().collect());
        let tables = tables_of_versions(&before, &after, true).unwrap();
        tables.iter().map(|table| table.notes[0].split(';').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn recordings_of_several_versions_of_a_program_are_compared_version_by_version() {
        let before = ["r1", "r2"].map(|name| recording(name, ""));
        let after = [("r3", "files 1st"), ("r4", "files 2nd"), ("r5", "files 1st")];
        let after = after.map(|(name, version)| recording(name, version));
        assert_eq!(
            compared(&before, &after),
            [
                "r1, r2 against r3, r5: 2 recordings before, 2 recordings after",
                "r1, r2 against r4: 2 recordings before, 1 recording after"
            ]
        );
        assert_eq!(compared(&after, &after).len(), 4);
        assert_eq!(compared(&before, &before), ["r1, r2 against r1, r2: 2 recordings before, 2 recordings after"]);
    }

    #[test]
    fn a_table_names_the_version_of_the_program_where_there_are_several() {
        let identity = fixture::finished().identity();
        let titled = |version: &str| {
            let one = Recorded { cell: Some((identity, "fp32-1".to_owned())), ..recording("0003-fp32-1-3", version) };
            title(&[&one])
        };
        assert_eq!(titled(""), "cell fp32-1 (0003-fp32-1-3)");
        assert_eq!(titled("Program's files 2nd"), "cell fp32-1, Program's files 2nd (0003-fp32-1-3)");
        assert_eq!(title(&[&recording("a.events", ""), &recording("b.events", "")]), "a.events, b.events");
    }
}
