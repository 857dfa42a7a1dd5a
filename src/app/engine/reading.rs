//! Reading a session as the window holds it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use super::messages::{Records, SessionPlan};
use crate::analysis::{summarise_report, summarise_runs};
use crate::figure::SavedStudy;
use crate::session::{open_reader, search_reports};
use crate::store::{Reader, StoreError, run_notes};

/// Reads all of a session, which takes seconds for thousands of runs.
///
/// # Errors
/// Its files cannot be read.
pub fn read_session(folder: &Path) -> Result<Records, StoreError> {
    let reader = open_reader(folder)?;
    let records = unsummarised(folder, &reader)?;
    let ended: Vec<String> = records.ended().map(|run| run.run.clone()).collect();
    let mut summaries = HashMap::new();
    let Ok(()) = summarise_runs(&reader, &ended, |some| {
        summaries.extend(some.into_iter().map(|summary| (summary.run.clone(), summary)));
        Ok::<(), Infallible>(())
    })?;
    Ok(records.with_summaries(|run| summaries.remove(&run.run)))
}

/// Reads a session without the summaries of its runs.
///
/// # Errors
/// Its files cannot be read.
pub(super) fn unsummarised(folder: &Path, reader: &Reader) -> Result<Records, StoreError> {
    let reports = reader.reports()?.into_iter().map(|(name, trace)| summarise_report(&name, trace)).collect();
    let studies = reader.studies()?.iter().map(|(name, json)| SavedStudy::read(name, json)).collect();
    let mut plans = Vec::new();
    for (plan, name, toml) in reader.plans()? {
        let brought = reader.brought_workloads(&plan)?;
        let folder = brought.iter().find_map(|spec| spec.command.as_ref()?.base.clone());
        plans.push(SessionPlan { name, toml, folder });
    }
    let records = Records {
        folder: folder.to_owned(),
        runs: reader.runs()?.into(),
        reports,
        studies,
        plans,
        notes: Arc::new(run_notes(folder)?),
        rates: reader.rates()?,
        own_measures: reader.own_measures()?,
        searches: search_reports(reader)?.into(),
        ..Records::default()
    };
    Ok(records.folded())
}
