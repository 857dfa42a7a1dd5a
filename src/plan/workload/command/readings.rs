//! The readings that a plan declares for its command in `[command.readings]`, and the measures in `[command.measures]`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use regex::Regex;
use regex::bytes::RegexBuilder;
use serde::{Deserialize, Serialize};
use toml::de::DeValue;
use toml_edit::{Array, InlineTable, Item, Value};

use super::template::{self, Piece};
use crate::plan::checked_table::{Table, kind};
use crate::plan::problem::{Problems, quoted};
use crate::plan::{Better, DeclaredMeasure, suggestion};

const READINGS: &str = "readings";
const MEASURES: &str = "measures";
pub(super) const READINGS_KEYS: &[&str] = &["patterns", "files", "names", "warm_up"];
pub(super) const MEASURE_KEYS: &[&str] = &["name", "unit", "better", "on_speed"];
/// How the end of the warm-up is determined, the default first.
pub(super) const WARM_UP: &[&str] = &["steps", "found"];
/// The most patterns: each is compiled for each run, and tried on each line of output.
const MOST_PATTERNS: usize = 200;
/// The most memory of a compiled pattern in kB, without the tables of Unicode. With a thousand copies of a group, a log takes minutes.
const MOST_PATTERN_KB: usize = 64;
/// Longest key of a measure in bytes.
const LONGEST_KEY: usize = 100;

/// The sources of a command's readings, in addition to the file that `$MULTICARD_READINGS` names. If a plan declares none, multicard
/// searches the output for readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadingsSpec {
    /// Regular expressions with named groups, which are tried on each line of output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// Files that the program writes; names may contain placeholders. [`ReadFile`] tells the kind of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The program's names and their meaning: a field of readings, or the key of a measure.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    /// Whether the end of the warm-up is found from step times, instead of counted with the plan's `warm_up_steps`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub finds_warm_up: bool,
}

impl ReadingsSpec {
    /// Whether the plan declares no source, so that the output is searched for readings.
    pub fn names_no_source(&self) -> bool {
        self.patterns.is_empty() && self.files.is_empty()
    }
}

/// Compiles a pattern of `[command.readings]`.
///
/// # Errors
/// It is not a regular expression, or it is too large.
pub fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    // Classes such as `\w` have large tables, which take no time. Without Unicode, parts that are repeated make a pattern large.
    let plain = RegexBuilder::new(pattern).unicode(false).size_limit(MOST_PATTERN_KB << 10).build();
    match plain {
        Err(error @ regex::Error::CompiledTooBig(_)) => Err(error),
        _ => Regex::new(pattern),
    }
}

/// The kind of a file of readings, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFile {
    /// An object on each line: `.jsonl`, `.ndjson`.
    JsonLines,
    /// Comma- or tab-separated values: `.csv`, `.tsv`.
    Csv,
    /// TensorBoard's event files, or a folder of them: a name with `tfevents`, without an extension or with `/` at its end.
    EventFiles,
}

impl ReadFile {
    /// The kind of the file with this name; `None` for other names.
    pub fn of(name: &str) -> Option<Self> {
        let path = Path::new(name);
        let is_event_file = path.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"));
        match path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).as_deref() {
            _ if name.ends_with('/') || is_event_file => Some(Self::EventFiles),
            Some("jsonl" | "ndjson") => Some(Self::JsonLines),
            Some("csv" | "tsv") => Some(Self::Csv),
            None => Some(Self::EventFiles),
            Some(_) => None,
        }
    }
}

/// The readings and the measures of a `[command]`, which has these placeholders.
pub(in crate::plan) fn read(
    command: &Table,
    placeholders: &[&str],
    problems: &mut Problems,
) -> (ReadingsSpec, Vec<DeclaredMeasure>) {
    let mut spec = ReadingsSpec::default();
    if let Some(table) = command.table(READINGS, problems) {
        table.check_keys(READINGS_KEYS, &[], problems);
        spec.patterns = patterns(&table, problems);
        for (span, file) in texts(&table, "files", problems) {
            if ReadFile::of(&file).is_none() || file.is_empty() {
                let message = format!(
                    "{} is not a kind of file that can be read: its name must end with .csv, .tsv or .jsonl; or name a folder of \
                         TensorBoard's event files with / at its end",
                    quoted(&file)
                );
                problems.add(&span, table.path("files"), message);
            }
            match template::pieces(&file) {
                Err(message) => problems.add(&span, table.path("files"), message),
                Ok(pieces) => {
                    for piece in pieces {
                        let (Piece::Value(name) | Piece::Switch(name, _)) = piece else { continue };
                        if !placeholders.contains(&name.as_str()) {
                            let message = format!("unknown placeholder {{{name}}}{}", suggestion(&name, placeholders));
                            problems.add(&span, table.path("files"), message);
                        }
                    }
                }
            }
            spec.files.push(file);
        }
        if let Some(names) = table.table("names", problems) {
            for (key, value) in names.entries {
                let name = key.get_ref();
                match value.get_ref() {
                    DeValue::String(meaning) if (1..=LONGEST_KEY).contains(&meaning.len()) => {
                        spec.names.insert(name.to_string(), meaning.to_string());
                    }
                    _ => {
                        let message = format!(
                            "must be a field of readings or the key of a measure, of 1 to {LONGEST_KEY} letters"
                        );
                        problems.add(&value.span(), names.path(name), message);
                    }
                }
            }
        }
        spec.finds_warm_up = table.choice("warm_up", WARM_UP, problems) == Some("found");
    }
    let mut measures = Vec::new();
    if let Some(tables) = command.table(MEASURES, problems) {
        for key in tables.entries.keys() {
            let Some(table) = tables.table(key.get_ref(), problems) else { continue };
            if !(1..=LONGEST_KEY).contains(&key.get_ref().len()) {
                problems.add(&key.span(), tables.path(key.get_ref()), format!("a key has 1 to {LONGEST_KEY} letters"));
            }
            measures.push((key.span().start, measure(key.get_ref(), &table, problems)));
        }
    }
    // In the order of the file.
    measures.sort_by_key(|(start, _)| *start);
    (spec, measures.into_iter().map(|(_, measure)| measure).collect())
}

/// The usable patterns of `[command.readings]`.
fn patterns(table: &Table, problems: &mut Problems) -> Vec<String> {
    let patterns = texts(table, "patterns", problems);
    if let Some((span, _)) = patterns.get(MOST_PATTERNS) {
        let message = format!(
            "{} patterns: at most {MOST_PATTERNS} are allowed, since each is tried on each line of output; put several groups into one \
                 pattern, or let the program write a file of readings",
            patterns.len()
        );
        problems.add(span, table.path("patterns"), message);
    }
    let mut usable = Vec::new();
    for (span, pattern) in patterns.into_iter().take(MOST_PATTERNS) {
        match compiled(&pattern) {
            Ok(regex) if regex.capture_names().flatten().next().is_none() => {
                let message = "the pattern has no named group, such as (?<loss>\\S+): it would read nothing";
                problems.add(&span, table.path("patterns"), message);
            }
            Ok(_) => usable.push(pattern),
            Err(regex::Error::CompiledTooBig(_)) => {
                let message = format!(
                    "{} is too large, so that each line of output would take long: it repeats its parts too often; repeat them less often, or \
                         without a limit, as in (…)*",
                    quoted(&pattern)
                );
                problems.add(&span, table.path("patterns"), message);
            }
            Err(error) => {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let message = format!("{} is not a regular expression: {why}", quoted(&pattern));
                problems.add(&span, table.path("patterns"), message);
            }
        }
    }
    usable
}

fn measure(key: &str, table: &Table, problems: &mut Problems) -> DeclaredMeasure {
    table.check_keys(MEASURE_KEYS, &[], problems);
    let text = |key: &str, problems: &mut Problems| table.text(key, problems).map(|(_, text)| text.into());
    let better = Better::read(table, problems);
    DeclaredMeasure {
        key: key.into(),
        name: text("name", problems).unwrap_or_else(|| key.into()),
        unit: text("unit", problems).unwrap_or_default(),
        better,
        on_speed: table.switch("on_speed", problems).unwrap_or(false),
        written_steps: None,
        recurring_cells: Default::default(),
        dependent_cells: Default::default(),
    }
}

/// The texts of a list, each with its place in the file.
fn texts(table: &Table, key: &str, problems: &mut Problems) -> Vec<(Range<usize>, String)> {
    let Some((span, value)) = table.find(key) else { return Vec::new() };
    let DeValue::Array(items) = value.get_ref() else {
        problems.add(&span, table.path(key), format!("must be a list of texts, not {}", kind(value.get_ref())));
        return Vec::new();
    };
    let mut texts = Vec::new();
    for item in items {
        match item.get_ref() {
            DeValue::String(text) => texts.push((item.span(), text.to_string())),
            other => problems.add(&item.span(), table.path(key), format!("must be a text, not {}", kind(other))),
        }
    }
    texts
}

/// Writes the readings and measures into a `[command]` table.
pub(in crate::plan) fn write(spec: &ReadingsSpec, measures: &[DeclaredMeasure], command: &mut toml_edit::Table) {
    let ReadingsSpec { patterns, files, names, finds_warm_up } = spec;
    let mut table = toml_edit::Table::new();
    let list = |texts: &[String]| Item::Value(Value::Array(texts.iter().map(String::as_str).collect::<Array>()));
    for (key, texts) in [("patterns", patterns), ("files", files)] {
        if !texts.is_empty() {
            table.insert(key, list(texts));
        }
    }
    if !names.is_empty() {
        let names: InlineTable =
            names.iter().map(|(name, meaning)| (name.as_str(), Value::from(meaning.as_str()))).collect();
        table.insert("names", Item::Value(Value::InlineTable(names)));
    }
    if *finds_warm_up {
        table.insert("warm_up", Item::Value("found".into()));
    }
    if !table.is_empty() {
        command.insert(READINGS, Item::Table(table));
    }
    if measures.is_empty() {
        return;
    }
    let mut tables = toml_edit::Table::new();
    tables.set_implicit(true);
    for DeclaredMeasure { key, name, unit, better, on_speed, .. } in measures {
        let mut table = toml_edit::Table::new();
        let mut put = |key: &str, value: Value| drop(table.insert(key, Item::Value(value)));
        if **name != **key {
            put("name", (&**name).into());
        }
        if !unit.is_empty() {
            put("unit", (&**unit).into());
        }
        if *better != Better::Neither {
            put("better", better.name().into());
        }
        if *on_speed {
            put("on_speed", true.into());
        }
        tables.insert(key, Item::Table(table));
    }
    command.insert(MEASURES, Item::Table(tables));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    const PLAN: &str = r#"version = 1
[command]
run = ["true"]
[command.readings]
patterns = ['step (?<step>\d+)']
files = ["{run_folder}/a.csv", "logs/"]
names = { "train/loss" = "loss" }
warm_up = "found"
[command.measures.bleu]
better = "higher"
[command.measures."tokens/s"]
name = "Rate"
unit = "tokens/s"
better = "higher"
on_speed = true
"#;

    fn problems(text: &str) -> String {
        Plan::parse(text, "own.toml").unwrap_err().to_string()
    }

    #[test]
    fn readings_and_measures_of_a_plan_are_read_and_written_as_they_were() {
        let plan = Plan::parse(PLAN, "own.toml").unwrap();
        let command = plan.first.spec.command.clone().unwrap();
        let expected = ReadingsSpec {
            patterns: vec!["step (?<step>\\d+)".to_owned()],
            files: vec!["{run_folder}/a.csv".to_owned(), "logs/".to_owned()],
            names: BTreeMap::from([("train/loss".to_owned(), "loss".to_owned())]),
            finds_warm_up: true,
        };
        assert_eq!(command.readings, expected);
        let measure = |key: &str| plan.first.spec.measures.iter().find(|measure| measure.key == *key).unwrap();
        let rate = DeclaredMeasure {
            key: "tokens/s".into(),
            name: "Rate".into(),
            unit: "tokens/s".into(),
            better: Better::Higher,
            on_speed: true,
            written_steps: None,
            recurring_cells: Default::default(),
            dependent_cells: Default::default(),
        };
        assert_eq!(*measure("tokens/s"), rate);
        assert_eq!((&*measure("bleu").name, measure("bleu").better), ("bleu", Better::Higher));
        assert_eq!(Plan::parse(&plan.to_toml(), "own.toml").unwrap(), Plan { name: "own".to_owned(), ..plan });
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        let text = PLAN
            .replace("(?<step>", "(?<step")
            .replace("a.csv", "a.log")
            .replace("found", "fond")
            .replace("logs/", "{log}/")
            .replace("higher", "hihger");
        let found = problems(&text);
        for part in [
            "own.toml:5: command.readings.patterns: \"step (?<step\\\\d+)\" is not a regular expression: ",
            "own.toml:6: command.readings.files: \"{run_folder}/a.log\" is not a kind of file that can be read",
            "own.toml:6: command.readings.files: unknown placeholder {log}",
            "own.toml:8: command.readings.warm_up: unknown \"fond\"; did you mean \"found\"?",
            "own.toml:10: command.measures.bleu.better: unknown \"hihger\"; did you mean \"higher\"?",
        ] {
            assert!(found.contains(part), "{part}\n{found}");
        }
        let found = problems(&PLAN.replace("(?<step>", "(").replace("\"logs/\"", "3").replace("on_speed", "speed"));
        for part in [
            "has no named group",
            "must be a text, not a whole number",
            "measures.tokens/s.speed: unknown key; did you mean \"on_speed\"?",
        ] {
            assert!(found.contains(part), "{part}\n{found}");
        }
    }

    #[test]
    fn more_patterns_than_each_line_is_worth_are_refused_before_they_are_compiled() {
        let patterns =
            |count: usize| (0..count).map(|n| format!("'v{n} (?<v{n}>\\S+)'")).collect::<Vec<_>>().join(", ");
        let text = |count: usize| PLAN.replace("'step (?<step>\\d+)'", &patterns(count));
        assert!(Plan::parse(&text(MOST_PATTERNS), "own.toml").is_ok());
        let found = problems(&text(3000));
        assert!(
            found.contains("own.toml:5: command.readings.patterns: 3000 patterns: at most 200 are allowed"),
            "{found}"
        );
    }

    #[test]
    fn a_pattern_that_is_too_large_is_refused_with_its_line_and_usual_ones_are_not() {
        let found = problems(&PLAN.replace("step (?<step>\\d+)", "(?<x>.*){0,1000}"));
        let expected = "own.toml:5: command.readings.patterns: \"(?<x>.*){0,1000}\" is too large";
        assert!(found.contains(expected), "{found}");
        let usual = r"(?i)epoch (?<epoch>\d+) step (?<step>\d+)/(?<steps>\d+) \w+ loss (?<loss>\S+) (?<duration_ms>[-+\d.eE]+) ms";
        assert!(compiled(usual).is_ok() && compiled(&r"\w+ (\S+ \p{L}+) ".repeat(5)).is_ok());
    }

    #[test]
    fn a_files_name_says_what_it_is() {
        for (name, kind) in [
            ("log/metrics.JSONL", Some(ReadFile::JsonLines)),
            ("{run_folder}/metrics.csv", Some(ReadFile::Csv)),
            ("metrics.tsv", Some(ReadFile::Csv)),
            ("runs", Some(ReadFile::EventFiles)),
            ("logs.2024/", Some(ReadFile::EventFiles)),
            ("runs/events.out.tfevents.1700000000.host.1.0", Some(ReadFile::EventFiles)),
            ("trainer.log", None),
        ] {
            assert_eq!(ReadFile::of(name), kind, "{name}");
        }
    }
}
