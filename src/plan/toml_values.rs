//! TOML as JSON values that know their lines: for tables whose keys other rooms read.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::checked_table::{integer, real};
use super::problem::{Problem, Problems};

/// A file of TOML as JSON.
#[derive(Clone, Debug)]
pub struct TomlValues {
    /// Its tables and values.
    pub value: Value,
    origin: String,
    /// The lines of keys and of items of lists by their paths, such as `panel[2].form`.
    lines: Vec<(String, usize)>,
}

impl TomlValues {
    /// Reads text that came from `origin`.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Problem> {
        let problems = Problems::new(origin, text);
        let document = DeTable::parse(text).map_err(|error| Problem {
            origin: origin.to_owned(),
            line: problems.line(&error.span().unwrap_or(0..0)),
            key: String::new(),
            message: format!("not TOML: {}", error.message()),
        })?;
        let mut lines = Vec::new();
        note_lines(document.get_ref(), "", &problems, &mut lines);
        Ok(Self { value: table(document.get_ref()), origin: origin.to_owned(), lines })
    }

    /// What is wrong at a path, with the line of the nearest key around it.
    pub fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        let is_around =
            |known: &str| path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let around = self.lines.iter().filter(|(known, _)| is_around(known)).max_by_key(|(known, _)| known.len());
        let line = around.map_or(1, |(_, line)| *line);
        Problem { origin: self.origin.clone(), line, key: path.to_owned(), message: message.into() }
    }
}

fn note_lines(table: &DeTable, path: &str, problems: &Problems, lines: &mut Vec<(String, usize)>) {
    for (key, value) in table {
        let between = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{between}{}", key.get_ref());
        lines.push((path.clone(), problems.line(&key.span())));
        note_value(value, &path, problems, lines);
    }
}

fn note_value(value: &Spanned<DeValue>, path: &str, problems: &Problems, lines: &mut Vec<(String, usize)>) {
    match value.get_ref() {
        DeValue::Table(table) => note_lines(table, path, problems, lines),
        DeValue::Array(items) => {
            for (nth, item) in items.iter().enumerate() {
                let path = format!("{path}[{}]", nth + 1);
                lines.push((path.clone(), problems.line(&item.span())));
                note_value(item, &path, problems, lines);
            }
        }
        _ => {}
    }
}

fn table(table: &DeTable) -> Value {
    let entries = table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value)));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// A value as JSON.
pub(super) fn json(value: &Spanned<DeValue>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(_) => integer(value).and_then(|number| i64::try_from(number).ok()).into(),
        DeValue::Float(_) => match real(value) {
            // JSON has no such number, and nothing would mean that the key is not there.
            Some(number) if !number.is_finite() => number.to_string().into(),
            number => number.into(),
        },
        DeValue::Boolean(on) => (*on).into(),
        DeValue::Datetime(date) => date.to_string().into(),
        DeValue::Array(items) => items.iter().map(json).collect(),
        DeValue::Table(entries) => table(entries),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_line_of_the_nearest_key_around_it() {
        let text = "version = 1\n\n[[panel]]\nform = \"bars\"\n[[panel]]\n[panel.overrides]\ntitle = 3\n";
        let values = TomlValues::parse(text, "f.toml").unwrap();
        assert_eq!(values.value["panel"][1]["overrides"]["title"], 3);
        let line = |path: &str| values.problem(path, "wrong").line;
        assert_eq!([line("panel[1].form"), line("panel[2]"), line("panel[2].overrides.title.x")], [4, 5, 7]);
        assert_eq!(values.problem("panel[1].form", "wrong").to_string(), "f.toml:4: panel[1].form: wrong");
        let endless = TomlValues::parse("a = nan\nb = -inf\nc = 1.5", "f.toml").unwrap().value;
        assert_eq!(endless, serde_json::json!({ "a": "NaN", "b": "-inf", "c": 1.5 }));
        let wrong = TomlValues::parse("a = 1\nb = = 2", "f.toml").unwrap_err().to_string();
        assert!(wrong.starts_with("f.toml:2: not TOML: "), "{wrong}");
    }
}
