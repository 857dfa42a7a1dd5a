//! Names by id. Only names of calls, kernels and ranges are read, because the table also contains output of programs.

use std::collections::{HashMap, HashSet};

use super::open::NsysExport;
use super::rows::{Column, scan};
use crate::trace::TraceError;
use crate::trace::event::bounded;

const TABLE: &str = "StringIds";
const COLUMNS: [Column; 2] = [Column::Required("id"), Column::Required("value")];

/// The names of the requested ids. Two names for one id are an error: sums would be ambiguous.
pub(super) fn names(report: &NsysExport<'_>, wanted: &HashSet<i64>) -> Result<HashMap<i64, String>, TraceError> {
    let mut names = HashMap::with_capacity(wanted.len());
    scan(report, TABLE, &COLUMNS, |fields| {
        let id = fields.required(0)?;
        if wanted.contains(&id) {
            let name = bounded(fields.text(1)?.ok_or_else(|| fields.damaged(1, "holds nothing"))?);
            if let Some(other) = names.insert(id, name.clone())
                && other != name
            {
                let short = |name: &str| name.chars().take(60).collect::<String>();
                let problem = format!("{id} occurs twice, for {:?} and for {:?}", short(&other), short(&name));
                return Err(fields.damaged(0, problem));
            }
        }
        Ok(())
    })?;
    Ok(names)
}

/// Roles of strings by id, derived from their text. The texts are not stored.
pub(super) fn meanings<T>(
    report: &NsysExport<'_>,
    meaning: impl Fn(&str) -> Option<T>,
) -> Result<HashMap<i64, T>, TraceError> {
    let mut ids = HashMap::new();
    scan(report, TABLE, &COLUMNS, |fields| {
        // Values that are not text are reported when a name needs them; they do not matter elsewhere.
        if let Ok(Some(text)) = fields.text(1)
            && let Some(meaning) = meaning(text)
        {
            ids.insert(fields.required(0)?, meaning);
        }
        Ok(())
    })?;
    Ok(ids)
}
