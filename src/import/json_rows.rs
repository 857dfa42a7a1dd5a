//! JSON: one object per line, a list of objects, or what `hyperfine --export-json` writes.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::Problem;
use super::table::{Field, ForeignTable, INEXACT, MOST_COLUMNS, MOST_PROBLEMS, MOST_ROWS, Row, too_wide};
use super::unique_json::parse;
use crate::analysis::counted;

/// The rows of a text in JSON.
pub(super) fn read(text: &str) -> Result<ForeignTable, Vec<Problem>> {
    // One value may span lines: a list, or hyperfine's object.
    match parse(text) {
        Ok(Value::Array(list)) => {
            let objects = list.into_iter().enumerate().map(|(place, value)| (format!("[{place}]"), value));
            rows(objects, "JSON")
        }
        Ok(Value::Object(mut whole)) => match whole.remove("results") {
            Some(Value::Array(results)) => hyperfine(&results),
            other => {
                whole.extend(other.map(|other| ("results".to_owned(), other)));
                rows(std::iter::once(("line 1".to_owned(), Value::Object(whole))), "JSON")
            }
        },
        Ok(_) => Err(vec![Problem::of_file("it has neither objects nor a list of them")]),
        Err(error) if error.is_data() => Err(vec![Problem::at(format!("line {}", error.line()), "", reason(&error))]),
        Err(_) => lines(text),
    }
}

/// The parser's error message, without the place that the parser adds.
fn reason(error: &serde_json::Error) -> String {
    let what = error.to_string();
    what.rsplit_once(" at line ").map_or(what.clone(), |(what, _)| what.to_owned())
}

fn lines(text: &str) -> Result<ForeignTable, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut values = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match parse(line) {
            Ok(value) => values.push((format!("line {number}"), value)),
            // The parser counts lines from the beginning of this line, so its line number is left out.
            Err(error) => {
                let kind = if error.is_data() { "" } else { "no JSON: " };
                let what = format!("{kind}{} (character {})", reason(&error), error.column());
                problems.push(Problem::at(format!("line {number}"), "", what));
            }
        }
        if problems.len() == MOST_PROBLEMS || values.len() > MOST_ROWS {
            break;
        }
    }
    if problems.is_empty() { rows(values.into_iter(), "JSON lines") } else { Err(problems) }
}

/// A table from objects. A key is the name of a column; the column of a value in an inner object is `outer.inner`.
fn rows(objects: impl Iterator<Item = (String, Value)>, format: &'static str) -> Result<ForeignTable, Vec<Problem>> {
    let (mut table, mut problems) = (ForeignTable { format, columns: Vec::new(), rows: Vec::new() }, Vec::new());
    for (place, value) in objects {
        let Value::Object(object) = value else {
            problems.push(Problem::at(place, "", "it is no object: write {\"column\": value, …}"));
            if problems.len() == MOST_PROBLEMS {
                break;
            }
            continue;
        };
        let mut fields = vec![Field::Missing; table.columns.len()];
        add(&mut table.columns, &mut fields, &mut HashSet::new(), "", object, &mut |column, what| {
            problems.push(Problem::at(&place, column, what));
        });
        if table.columns.len() > MOST_COLUMNS || table.rows.len() > MOST_ROWS || problems.len() >= MOST_PROBLEMS {
            table.rows.push(Row { place, fields });
            break;
        }
        table.rows.push(Row { place, fields });
    }
    let count = table.columns.len();
    table.rows.iter_mut().for_each(|row| row.fields.resize(count, Field::Missing));
    problems.truncate(MOST_PROBLEMS);
    if problems.is_empty() { Ok(table) } else { Err(problems) }
}

/// Adds the values of an object to a row, up to the first column beyond the limit: each key is looked for among all columns. `given` are the
/// columns that have a value.
fn add(
    columns: &mut Vec<String>,
    fields: &mut Vec<Field>,
    given: &mut HashSet<usize>,
    outer: &str,
    object: Map<String, Value>,
    refuse: &mut dyn FnMut(&str, &str),
) {
    for (key, value) in object {
        if columns.len() > MOST_COLUMNS {
            return;
        }
        let name = if outer.is_empty() { key } else { format!("{outer}.{key}") };
        let field = match value {
            Value::Object(inner) => {
                add(columns, fields, given, &name, inner, refuse);
                continue;
            }
            Value::Array(_) => {
                refuse(&name, "it is a list: write one line for each of its values");
                continue;
            }
            Value::Null => Field::Missing,
            Value::Bool(value) => Field::Truth(value),
            Value::Number(number) => number_field(&number),
            // A text that looks like a number is a name, such as a version.
            Value::String(text) => match Field::of_text(&text) {
                Field::Number(_, text) => Field::Text(text),
                field => field,
            },
        };
        let place = columns.iter().position(|known| *known == name).unwrap_or_else(|| {
            columns.push(name);
            fields.push(Field::Missing);
            columns.len() - 1
        });
        if !given.insert(place) {
            refuse(
                &columns[place],
                "it has two values in one object, as a key with a point and in an inner object: rename one",
            );
        }
        fields[place] = field;
    }
}

/// A number of JSON, for which `1000`, `1000.0` and `1e3` are one number: whole ones are written by their digits alone, as far as these are
/// exact.
fn number_field(number: &Number) -> Field {
    match number.as_f64().filter(|number| number.is_finite()) {
        // 0 and -0 are one number, too.
        Some(value) if number.is_f64() && value.fract() == 0.0 && value.abs() < INEXACT => {
            Field::Number(value, (value + 0.0).to_string())
        }
        Some(value) => Field::Number(value, number.to_string()),
        None => Field::Text(number.to_string()),
    }
}

/// hyperfine's results: a row for each of the `times` of each command. The parameters are columns, or the command if
/// there are none.
fn hyperfine(results: &[Value]) -> Result<ForeignTable, Vec<Problem>> {
    const KNOWN: [&str; 4] = ["command", "repeat", "time (s)", "memory (B)"];
    let mut problems = Vec::new();
    let mut parameters: Vec<&str> = Vec::new();
    for key in results.iter().filter_map(|one| one.get("parameters")?.as_object()).flat_map(Map::keys) {
        if !parameters.contains(&key.as_str()) && !KNOWN.contains(&key.as_str()) {
            parameters.push(key);
        }
        if parameters.len() > MOST_COLUMNS {
            return Err(vec![too_wide()]);
        }
    }
    let has_memory = results.iter().any(|one| one.get("memory_usage_byte").is_some_and(Value::is_array));
    let mut rows = Vec::new();
    for (nth, one) in results.iter().enumerate() {
        let place = format!("results[{nth}]");
        let Some(times) = one.get("times").and_then(Value::as_array).filter(|times| !times.is_empty()) else {
            problems.push(Problem::at(
                place,
                "times",
                "it has no times of single runs: hyperfine writes them with --export-json",
            ));
            continue;
        };
        let codes = one.get("exit_codes").filter(|codes| !codes.is_null());
        let codes = codes.map(|codes| codes.as_array().map_or(0, Vec::len)).filter(|codes| *codes != times.len());
        if let Some(codes) = codes {
            let message = format!(
                "it has {} for {}: which runs failed is unknown",
                counted(codes, "code"),
                counted(times.len(), "time")
            );
            problems.push(Problem::at(place, "exit_codes", message));
            continue;
        }
        // A run that a signal ended has the code null.
        let failed = |run: usize| one.get("exit_codes")?.get(run).filter(|code| code.as_f64() != Some(0.0));
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => Field::of_text(text),
            Some(Value::Number(number)) => number_field(number),
            _ => Field::Missing,
        };
        // A command is never a number.
        let command = one.get("command").and_then(Value::as_str).unwrap_or_default();
        for (run, time) in times.iter().enumerate() {
            let place = format!("{place}.times[{run}]");
            if let Some(code) = failed(run) {
                problems.push(Problem::at(
                    &place,
                    "exit_codes",
                    format!("this run failed with code {code}: its time is that of a failure"),
                ));
            }
            let number = |value: Option<&Value>| match value.and_then(Value::as_f64) {
                Some(number) => Field::Number(number, number.to_string()),
                None => value.map_or(Field::Missing, |value| Field::Text(value.to_string())),
            };
            let mut fields = vec![Field::Text(command.to_owned())];
            fields.extend(parameters.iter().map(|key| text(one.get("parameters").and_then(|all| all.get(key)))));
            fields.extend([Field::Number((run + 1) as f64, (run + 1).to_string()), number(Some(time))]);
            fields.extend(has_memory.then(|| number(one.get("memory_usage_byte").and_then(|all| all.get(run)))));
            rows.push(Row { place, fields });
        }
        if rows.len() > MOST_ROWS || problems.len() >= MOST_PROBLEMS {
            break;
        }
    }
    let columns = std::iter::once("command").chain(parameters).chain(["repeat", "time (s)"]);
    let columns = columns.chain(has_memory.then_some("memory (B)")).map(str::to_owned).collect();
    problems.truncate(MOST_PROBLEMS);
    if problems.is_empty() { Ok(ForeignTable { format: "hyperfine", columns, rows }) } else { Err(problems) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::import::read_bytes;
    use crate::import::table::MOST_COLUMNS;

    #[test]
    fn lines_of_json_and_lists_of_objects_become_rows() {
        let table = read_bytes(b"{\"a\": 1, \"in\": {\"b\": \"x\"}}\n\n{\"a\": null, \"c\": true}\n").unwrap();
        assert_eq!(
            (table.format, table.columns.as_slice()),
            ("JSON lines", ["a", "in.b", "c"].map(str::to_owned).as_slice())
        );
        let texts: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.fields.iter().map(|field| field.text()).collect()).collect();
        assert_eq!(texts, [["1", "x", ""], ["", "", "true"]]);
        assert_eq!(table.rows[1].place, "line 3");
        assert_eq!(read_bytes(b"[{\"a\": 1}, {\"a\": 2}]").unwrap().rows[1].place, "[1]");
    }

    #[test]
    fn a_whole_number_has_one_text_however_json_writes_it() {
        let text = b"[{\"n\": 1000}, {\"n\": 1e3}, {\"n\": 1000.0}, {\"n\": -0.0}, {\"n\": 0.5}, {\"n\": 1e22}]";
        let table = read_bytes(text).unwrap();
        assert_eq!(
            table.values(0).map(|field| field.text()).collect::<Vec<_>>(),
            ["1000", "1000", "1000", "0", "0.5", "1e+22"]
        );
        let hyperfine = br#"{"results": [{"command": "x", "times": [1.0], "parameters": {"n": 1e3}}]}"#;
        assert_eq!(read_bytes(hyperfine).unwrap().rows[0].fields[1].text(), "1000");
    }

    #[test]
    fn wrong_lines_of_json_are_named() {
        let problems =
            |text: &[u8]| -> Vec<String> { read_bytes(text).unwrap_err().iter().map(ToString::to_string).collect() };
        let found = problems(b"{\"a\": 1}\n{\"a\": }\n{\"a\": [1]}\n");
        assert_eq!(found, ["line 2: no JSON: expected value (character 7)"]);
        assert_eq!(
            problems(b"{\"a\": [1]}\n{\"a\": 2}\n"),
            ["line 1, column \"a\": it is a list: write one line for each of its values"]
        );
        assert_eq!(problems(b"[1]"), ["[0]: it is no object: write {\"column\": value, …}"]);
    }

    #[test]
    fn a_value_that_is_there_twice_is_named_and_not_lost() {
        let problems =
            |text: &[u8]| -> Vec<String> { read_bytes(text).unwrap_err().iter().map(ToString::to_string).collect() };
        let twice = "an object has the key \"a\" twice: leave one out";
        assert_eq!(problems(b"[\n{\"a\": 1, \"a\": 2}]"), [format!("line 2: {twice}")]);
        let found = problems(b"{\"a\": 1}\n{\"a\": 1, \"a\": 2}\n");
        assert!(found.len() == 1 && found[0].starts_with(&format!("line 2: {twice}")), "{found:?}");
        let found = problems(b"[{\"a.b\": 1, \"a\": {\"b\": 2}}]");
        assert!(found.len() == 1 && found[0].starts_with("[0], column \"a.b\": it has two values"), "{found:?}");
    }

    #[test]
    fn columns_beyond_the_limit_are_not_looked_at() {
        let keys: Vec<String> = (0..1000).map(|nth| format!("\"k{nth}\": 1")).collect();
        let object = format!("{{{}}}", keys.join(", "));
        assert_eq!(super::read(&object).unwrap().columns.len(), MOST_COLUMNS + 1);
        let hyperfine =
            format!("{{\"results\": [{{\"command\": \"x\", \"times\": [1.0], \"parameters\": {object}}}]}}");
        for text in [object, hyperfine] {
            let found: Vec<String> = read_bytes(text.as_bytes()).unwrap_err().iter().map(ToString::to_string).collect();
            assert_eq!(found, ["it has more than 256 columns: leave out those that are not needed"]);
        }
    }

    #[test]
    fn each_time_of_hyperfine_is_a_row() {
        let text = br#"{"results": [
            {"command": "sort -j 1", "mean": 2.0, "times": [1.9, 2.1], "exit_codes": [0, 0], "parameters": {"threads": "1"}},
            {"command": "sort -j 2", "times": [1.0], "memory_usage_byte": [4096], "parameters": {"threads": "2"}}]}"#;
        let table = read_bytes(text).unwrap();
        assert_eq!(table.columns, ["command", "threads", "repeat", "time (s)", "memory (B)"]);
        let last: Vec<&str> = table.rows[2].fields.iter().map(|field| field.text()).collect();
        assert_eq!((table.rows.len(), last), (3, vec!["sort -j 2", "2", "1", "1", "4096"]));
        let codes = br#"{"results": [{"command": "x", "times": [1.0, 1.1, 1.2], "exit_codes": [0, null, "7"]}]}"#;
        let found: Vec<String> = read_bytes(codes).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(found[0].contains("times[1]") && found[0].contains("failed with code null"), "{found:?}");
        assert!(found[1].contains("times[2]") && found[1].contains("failed with code \"7\""), "{found:?}");
        let short = br#"{"results": [{"command": "x", "times": [1.0, 1.1], "exit_codes": [0]}]}"#;
        let found: Vec<String> = read_bytes(short).unwrap_err().iter().map(ToString::to_string).collect();
        let expected = "results[0], column \"exit_codes\": it has 1 code for 2 times: which runs failed is unknown";
        assert_eq!(found, [expected]);
        let failed = br#"{"results": [{"command": "x", "times": [1.0], "exit_codes": [2]}, {"command": "y"}]}"#;
        let found: Vec<String> = read_bytes(failed).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(
            found[0].starts_with("results[0].times[0], column \"exit_codes\": this run failed with code 2"),
            "{found:?}"
        );
        assert!(found[1].starts_with("results[1], column \"times\": it has no times"), "{found:?}");
    }
}
