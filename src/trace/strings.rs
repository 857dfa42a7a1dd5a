//! Names by id. Only names of calls, kernels and ranges are read: the table also holds output of programs.

use std::collections::{HashMap, HashSet};

use super::TraceError;
use super::open::NsysExport;
use super::rows::{Column, scan};

const TABLE: &str = "StringIds";
const COLUMNS: [Column; 2] = [Column::Required("id"), Column::Required("value")];

/// Maximum length of a name: longer template names add no information.
pub(super) const LONGEST_NAME: usize = 1 << 16;

/// A name cut to the maximum length.
pub(super) fn bounded(name: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let mut end = LONGEST_NAME;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &name[..end])
}

/// A call's name as nsys prints it: without `_v3020`, with `_v11060`.
pub(super) fn printed(name: &str) -> &str {
    let version = name.len().checked_sub(6).filter(|at| name.is_char_boundary(*at));
    match version {
        Some(at) if name[at..].starts_with("_v") => &name[..at],
        _ => name,
    }
}

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
                let problem = format!("{id} stands twice, for {:?} and for {:?}", short(&other), short(&name));
                return Err(fields.damaged(0, problem));
            }
        }
        Ok(())
    })?;
    Ok(names)
}

/// Roles of strings by id, derived from their text. The texts are not kept.
pub(super) fn meanings<T>(
    report: &NsysExport<'_>,
    meaning: impl Fn(&str) -> Option<T>,
) -> Result<HashMap<i64, T>, TraceError> {
    let mut ids = HashMap::new();
    scan(report, TABLE, &COLUMNS, |fields| {
        // Values that are not text are reported when a name needs them; other strings do not matter.
        if let Ok(Some(text)) = fields.text(1)
            && let Some(meaning) = meaning(text)
        {
            ids.insert(fields.required(0)?, meaning);
        }
        Ok(())
    })?;
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::printed;

    #[test]
    fn versions_of_four_digits_are_dropped_as_nsys_does() {
        for (name, shown) in [
            ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
            ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC_v11060"),
            ("cuGetProcAddress_v2", "cuGetProcAddress_v2"),
            ("cuInit", "cuInit"),
            ("_v3020", ""),
            ("é_v302", "é_v302"),
            ("", ""),
        ] {
            assert_eq!(printed(name), shown, "{name}");
        }
    }
}
