//! The mapping that a session keeps in place of the plan of its imported runs: which column of their file meant what. `import` writes it.

/// The meaning of a column that numbers the repeats of each cell.
pub const REPEAT_ROLE: &str = "repeat";

/// Whether a column of the file numbers the repeats; `None` for a text that is no mapping, such as a plan.
pub(super) fn numbers_repeats(toml: &str) -> Option<bool> {
    // Plans have no such table, and need not be parsed.
    let table: toml::Table = toml.contains("[columns]").then(|| toml.parse().ok())??;
    let columns = table.get("columns")?.as_table()?;
    Some(columns.values().any(|role| role.as_str() == Some(REPEAT_ROLE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_says_whether_a_column_numbers_the_repeats() {
        let mapping = |role: &str| {
            format!("# How multicard read a.csv (CSV).\nname = \"imported\"\n\n[columns]\nrun = \"{role}\"\n")
        };
        assert_eq!(
            [mapping("repeat"), mapping("factor")].map(|toml| numbers_repeats(&toml)),
            [Some(true), Some(false)]
        );
        assert_eq!(numbers_repeats("version = 1\nname = \"[columns]\"\n"), None);
        assert_eq!(numbers_repeats(""), None);
    }
}
