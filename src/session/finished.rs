//! Whether a session already has all that a plan asks for, which its records alone tell.

use std::collections::HashSet;
use std::path::Path;

use super::Added;
use super::tracing::waits_for_import;
use crate::plan::{InvalidCell, Plan, asked_cells};
use crate::store::{Reader, StoreError, held_cells};

/// What launching a plan with `only_missing` comes to where that is nothing: the session has recorded the plan and its studies,
/// finished every repeat of each cell that no constraint excludes, and holds no run or report of an earlier process to go on with.
/// None where something may be left to do, which only the machine tells.
///
/// # Errors
/// The index cannot be read.
pub fn all_finished(plan: &Plan, folder: &Path, reader: &Reader) -> Result<Option<Added>, StoreError> {
    let text = plan.to_toml();
    let has_plan = reader.plans()?.iter().any(|(_, name, toml)| (name, toml) == (&plan.name, &text));
    let saved: HashSet<String> = reader.studies()?.into_iter().map(|(name, _)| name).collect();
    if !has_plan || !plan.studies.iter().all(|study| saved.contains(&study.name)) {
        return Ok(None);
    }
    let runs = reader.headings()?;
    if runs.iter().any(|run| run.ended_time_s.is_none() || waits_for_import(run, &folder.join("runs").join(&run.run))) {
        return Ok(None);
    }
    let held = held_cells(&runs);
    let (mut kept, mut invalid) = (0, Vec::new());
    for cell in asked_cells(plan) {
        if let Some(reason) = cell.excluded_by(plan) {
            let (workload, reason) = (cell.workload.key.clone(), reason.to_owned());
            invalid.push(InvalidCell { workload, levels: cell.levels, tracer: cell.tracer, reason });
            continue;
        }
        let repeats = held.get(&cell.identity).map_or(&[][..], |held| &held.repeats);
        let asked: HashSet<&u32> = repeats.iter().filter(|repeat| (1..=plan.repeats).contains(*repeat)).collect();
        if asked.len() < plan.repeats as usize {
            return Ok(None);
        }
        kept += asked.len();
    }
    Ok((kept > 0).then_some(Added { runs: Vec::new(), kept, invalid }))
}
