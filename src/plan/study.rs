//! Studies in plan files: `[[study]]` tables. The rooms that show results know what their keys mean; here they are stored as written, with
//! their lines.

use serde_json::{Map, Value};

use super::checked_table::Table;
use super::problem::{NAME_RULE, Problems, is_name, quoted};
use super::toml_values::json;

/// A `[[study]]` of a plan file.
#[derive(Clone, Debug)]
pub struct StudyTable {
    /// Its name, which is unique in the plan.
    pub name: String,
    /// The line of its name in the file, from 1.
    pub line: usize,
    /// Its other keys, in alphabetical order.
    pub entries: Vec<StudyEntry>,
}

/// A key of a `[[study]]`.
#[derive(Clone, Debug)]
pub struct StudyEntry {
    /// The key, such as `form`.
    pub key: String,
    /// Its value as JSON.
    pub value: Value,
    /// Its line in the file, from 1.
    pub line: usize,
}

// The name may be anywhere in the table.
impl PartialEq for StudyTable {
    fn eq(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }
}

impl StudyTable {
    /// The table as a JSON object.
    pub fn to_json(&self) -> Value {
        let entries = self.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone()));
        let name = ("name".to_owned(), Value::from(self.name.as_str()));
        Value::Object(std::iter::once(name).chain(entries).collect::<Map<_, _>>())
    }
}

/// The studies of a plan's file.
pub(super) fn studies(top: &Table, problems: &mut Problems) -> Vec<StudyTable> {
    let mut studies: Vec<StudyTable> = Vec::new();
    for (span, table) in top.tables("study", problems) {
        let Some((name_span, name)) = table.text("name", problems) else {
            if table.find("name").is_none() {
                problems.add(&span, table.path("name"), "missing: a study needs a name");
            }
            continue;
        };
        if !is_name(name) {
            problems.add(&name_span, table.path("name"), NAME_RULE);
        } else if studies.iter().any(|known| known.name == name) {
            problems.add(&name_span, table.path("name"), format!("{} is the name of two studies", quoted(name)));
        }
        let keys = table.entries.iter().filter(|(key, _)| key.get_ref() != "name");
        let mut entries: Vec<StudyEntry> = keys
            .map(|(key, value)| StudyEntry {
                key: key.get_ref().to_string(),
                value: json(value),
                line: problems.line(&key.span()),
            })
            .collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        studies.push(StudyTable { name: name.to_owned(), line: problems.line(&name_span), entries });
    }
    studies
}
