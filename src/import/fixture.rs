//! Files that tests import.
#![allow(clippy::unwrap_used)]

use super::{Mapping, Results, read_bytes, results};

/// The results of a file's text, with roles that the user gives to columns, or the problems in words.
pub(super) fn imported(text: &str, sets: &[(&str, &str)]) -> Result<Results, Vec<String>> {
    let table = read_bytes(text.as_bytes()).unwrap();
    let mut mapping = Mapping::deduced(&table);
    sets.iter().for_each(|(column, role)| mapping.set(column, role).unwrap());
    results(&table, &mapping, "f.csv").map_err(|problems| problems.iter().map(ToString::to_string).collect())
}
