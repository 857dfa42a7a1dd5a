//! Levels that JSON writes in two ways: `true` and `"true"`, `1` and `"1"`. To a reader they are one level, so that their runs are of one
//! cell; whoever wrote two different things is told.

use std::collections::HashMap;
use std::mem::discriminant;

use super::Problem;
use super::table::{Field, ForeignTable};

/// A warning for each of these columns in which a level is written in two ways.
pub(super) fn two_spellings(table: &ForeignTable, columns: impl Iterator<Item = usize>) -> Vec<Problem> {
    columns.filter_map(|column| in_column(table, column)).collect()
}

fn in_column(table: &ForeignTable, column: usize) -> Option<Problem> {
    let mut first: HashMap<&str, (&Field, &str)> = HashMap::new();
    table.rows.iter().find_map(|row| {
        let field = &row.fields[column];
        let (known, place) = first.entry(field.text()).or_insert((field, row.place.as_str()));
        let differs = discriminant(*known) != discriminant(field);
        let what = || {
            let [here, before] = [field, *known].map(spelled);
            format!(
                "{here} here and {before} in {place} are one level, whose runs are of one cell: if two are meant, name them \
                 differently"
            )
        };
        differs.then(|| Problem::at(&row.place, &table.columns[column], what()))
    })
}

/// A value as JSON writes it.
fn spelled(field: &Field) -> String {
    match field {
        Field::Text(text) => format!("{text:?}"),
        other => other.text().to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::import::read_bytes;

    fn warnings(text: &str) -> Vec<String> {
        let table = read_bytes(text.as_bytes()).unwrap();
        two_spellings(&table, 0..table.columns.len()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_level_that_is_written_with_quotes_and_without_is_named_with_both_spellings() {
        let rest = "are one level, whose runs are of one cell: if two are meant, name them differently";
        let truths =
            "{\"fused\": true, \"time_s\": 1}\n{\"fused\": false}\n{\"fused\": \"true\"}\n{\"fused\": \"false\"}\n";
        assert_eq!(warnings(truths), [format!("line 3, column \"fused\": \"true\" here and true in line 1 {rest}")]);
        let numbers = "[{\"size\": \"1\", \"n\": 2}, {\"size\": 1, \"n\": 2}, {\"size\": 1}]";
        assert_eq!(warnings(numbers), [format!("[1], column \"size\": 1 here and \"1\" in [0] {rest}")]);
    }

    #[test]
    fn levels_that_are_written_in_one_way_and_missing_ones_are_no_two_spellings() {
        let none: [&str; 0] = [];
        assert_eq!(warnings("{\"a\": true, \"b\": \"\"}\n{\"a\": false, \"b\": null}\n{\"a\": true}\n"), none);
        assert_eq!(warnings("a,b\n1,true\n1,TRUE\n\"1\",true\n"), none);
    }
}
