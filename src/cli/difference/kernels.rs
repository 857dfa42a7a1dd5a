//! `multicard diff --kernels`: what explains the difference between the steps of recordings before and after a change.

use std::error::Error;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::material::Material;
use super::super::session_folder;
use crate::analysis::{Cell, RunState, TraceLists, cells, work_difference};
use crate::figure::{Table, work_table};
use crate::plan::{Filter, Identity};
use crate::trace::{self, Window};

/// A recording.
struct Recorded {
    /// The cell, and its id; `None` for a file.
    cell: Option<(Identity, String)>,
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

/// One table for each cell that both sides have; with filters or files, one for all recordings of a side together.
pub(super) fn tables(before: &Side, after: &Side, all: bool) -> Result<Vec<Table>, Box<dyn Error>> {
    let (old, new) = (recorded(before)?, recorded(after)?);
    let pooled = !before.filter.is_empty() || !after.filter.is_empty();
    if pooled || old.iter().chain(&new).any(|one| one.cell.is_none()) {
        one_cell(&old, before)?;
        one_cell(&new, after)?;
        return Ok(vec![table(&old.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>(), all)?]);
    }
    let mut tables = Vec::new();
    let mut done: Vec<&Identity> = Vec::new();
    for (identity, _) in old.iter().filter_map(|one| one.cell.as_ref()) {
        let is_of_cell = |one: &&Recorded| one.cell.as_ref().is_some_and(|(other, _)| other == identity);
        let (old, new): (Vec<&Recorded>, Vec<&Recorded>) =
            (old.iter().filter(is_of_cell).collect(), new.iter().filter(is_of_cell).collect());
        if !done.contains(&identity) && !new.is_empty() {
            done.push(identity);
            tables.push(table(&old, &new, all)?);
        }
    }
    if tables.is_empty() {
        return Err("no cell has recordings on both sides: --of-before and --of-after choose the cells to compare, such as --of-before \
                    precision=fp32 --of-after precision=bf16"
            .into());
    }
    Ok(tables)
}

fn table(before: &[&Recorded], after: &[&Recorded], all: bool) -> Result<Table, Box<dyn Error>> {
    let [old, new]: [Vec<&TraceLists>; 2] = [before, after].map(|side| side.iter().map(|one| &*one.lists).collect());
    let found = work_difference(&old, &new)?;
    let title = |side: &[&Recorded]| {
        let names: Vec<&str> = side.iter().map(|one| one.name.as_str()).collect();
        match side.first().and_then(|one| one.cell.as_ref()) {
            Some((_, cell)) => format!("cell {cell} ({})", names.join(", ")),
            None => names.join(", "),
        }
    };
    Ok(work_table(&found, &format!("{} against {}", title(before), title(after)), all))
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

/// The recordings of a side.
fn recorded(side: &Side) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let wrong = |error: &dyn Display| format!("{} {:?}: {error}", side.option, side.filter);
    let filter = Filter::parse(side.filter).map_err(|error| wrong(&error))?;
    let (mut all, mut materials) = (Vec::new(), Vec::new());
    for path in side.paths {
        if path.is_file() {
            let trace = trace::import(path, &Window::default(), &mut |_| ControlFlow::Continue(()))?;
            all.push(Recorded { cell: None, name: path.display().to_string(), lists: Arc::new(trace.lists()) });
            continue;
        }
        materials.push(Material::read(&session_folder(path)?)?);
    }
    let of_sessions: Vec<Cell> = materials.iter().flat_map(|material| cells(&material.runs)).collect();
    let filter = filter.among(&of_sessions.iter()).map_err(|error| wrong(&error))?;
    for cell in of_sessions.iter().filter(|cell| filter.admits(*cell)) {
        let finished = cell.runs.iter().filter(|run| run.state == RunState::Finished);
        all.extend(finished.filter_map(|run| {
            let lists = run.trace_summary()?.lists.clone()?;
            let cell = run.identity.map(|identity| (identity, cell.id.to_owned()));
            Some(Recorded { cell, name: run.run.clone(), lists })
        }));
    }
    if all.is_empty() {
        let paths: Vec<String> = side.paths.iter().map(|path| path.display().to_string()).collect();
        let filtered = if side.filter.is_empty() { String::new() } else { format!(" of cells with {}", side.filter) };
        return Err(format!(
            "{} contains no recordings{filtered}: a plan with trace = \"built-in\" records its runs",
            paths.join(", ")
        )
        .into());
    }
    Ok(all)
}
