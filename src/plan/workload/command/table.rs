//! Reads and writes the `[command]` tables of a plan.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::DeValue;
use toml_edit::{Array, Item, Value};

use super::template::{self, Piece};
use super::{BUILT_IN, Command, DeclaredFactor, KEY, PLACING, USUAL, readings, spec};
use crate::plan::checked_table::{Table, integer, kind, real};
use crate::plan::problem::{Problems, quoted};
use crate::plan::{Key, Level, WorkloadSpec, suggestion, workload};

pub(super) const KEYS: &[&str] =
    &["name", "run", "folder", "env", "setup", "time_limit_s", "unit", "step", "factor", "readings", "measures"];
pub(super) const FACTOR_KEYS: &[&str] = &["name", "unit", "help"];
/// The characters of a name, which is a level of `workload` in filters.
const IN_NAMES: &str = "letters, digits, -, _ and .";

/// The workloads of the commands that a plan defines, each once. `tables` are the plan itself and its blocks. A table with a `[command]`
/// defines one; its factors are those of its own `[factors]` and of the blocks that name the command.
pub(in crate::plan) fn defined(tables: &[&Table], problems: &mut Problems) -> Vec<Arc<WorkloadSpec>> {
    let mut found: Vec<(Range<usize>, Command, WorkloadSpec)> = Vec::new();
    for table in tables.iter().filter(|table| defines(table)) {
        let Some(command_table) = table.table(KEY, problems) else { continue };
        let name = name(&command_table, problems);
        let named = |other: &&&Table| named(other, &name);
        let ticked = ticked(tables.iter().filter(named).copied(), problems);
        let (span, _) = table.find(KEY).unwrap_or_default_span();
        let (command, spec) = command(&command_table, name, ticked, problems);
        match found.iter().find(|(_, known, _)| known.name == command.name) {
            Some((_, known, _)) if *known != command => {
                let message = format!(
                    "two commands of the plan are called {:?}: give each a name of its own, such as name = \"pytorch\"",
                    command.name.as_str()
                );
                problems.add(&span, command_table.path("name"), message);
            }
            Some(_) => {}
            None => found.push((span, command, spec)),
        }
    }
    found.into_iter().map(|(_, _, spec)| Arc::new(spec)).collect()
}

/// Whether a table of the plan defines a command.
fn defines(table: &Table) -> bool {
    let of_commands = table.find("workload").is_none_or(|(_, value)| value.get_ref().as_str() == Some(KEY));
    of_commands && table.find(KEY).is_some()
}

/// Whether a table of the plan runs the command with this name.
fn named(table: &Table, name: &Key) -> bool {
    if defines(table) {
        let own = table.find(KEY).and_then(|(_, value)| value.get_ref().get("name")?.get_ref().as_str().map(Key::from));
        return own.unwrap_or(KEY.into()) == *name;
    }
    table.find("workload").and_then(|(_, value)| value.get_ref().as_str()) == Some(name.as_str())
}

/// The key of the workload that a table defines; `None` if it defines no command.
pub(in crate::plan) fn name_in(table: &Table) -> Option<Key> {
    let value = table.find(KEY).filter(|_| defines(table))?.1.get_ref();
    Some(value.get("name").and_then(|name| name.get_ref().as_str()).unwrap_or(KEY).into())
}

fn name(table: &Table, problems: &mut Problems) -> Key {
    let Some((span, name)) = table.text("name", problems) else { return KEY.into() };
    let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) {
        problems.add(&span, table.path("name"), format!("{} is not a valid name: write {IN_NAMES}", quoted(name)));
    } else if workload(name).is_some() {
        let message = format!("{name:?} is the name of a built-in workload: give the command another name");
        problems.add(&span, table.path("name"), message);
    }
    name.into()
}

/// The factors in the `[factors]` of these tables, in the order of the file, each with all levels that any of the tables lists for it.
fn ticked<'t, 'i: 't>(
    tables: impl Iterator<Item = &'t Table<'t, 'i>>,
    problems: &mut Problems,
) -> Vec<(Range<usize>, Key, Vec<Level>)> {
    let mut all: Vec<(Range<usize>, Key, Vec<Level>)> = Vec::new();
    for factors in tables.filter_map(|table| match table.find("factors")?.1.get_ref() {
        DeValue::Table(entries) => Some(entries),
        _ => None,
    }) {
        let mut entries: Vec<_> = factors.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let items = match value.get_ref() {
                DeValue::Array(items) => items.iter().collect(),
                _ => vec![value],
            };
            let path = format!("factors.{}", key.get_ref());
            let mut levels: Vec<Level> = Vec::new();
            for item in items {
                match level(item) {
                    Ok(level) => levels.push(level),
                    Err(message) if !problems.has(&path) => problems.add(&item.span(), &path, message),
                    Err(_) => {}
                }
            }
            let texts = levels.iter().filter(|level| level.as_text().is_some()).count();
            if texts > 0 && texts < levels.len() && !problems.has(&path) {
                let message = "mixes texts and numbers: write all levels as texts, such as [\"auto\", \"4\"]";
                problems.add(&value.span(), &path, message);
            }
            match all.iter_mut().find(|(_, known, _)| *known == **key.get_ref()) {
                Some((_, _, known)) => levels.into_iter().for_each(|level| {
                    if !known.contains(&level) {
                        known.push(level);
                    }
                }),
                None => all.push((key.span(), key.get_ref().as_ref().into(), levels)),
            }
        }
    }
    all
}

fn level(value: &Spanned<DeValue>) -> Result<Level, String> {
    match value.get_ref() {
        // Levels become arguments and variables of programs, which end at a NUL.
        DeValue::String(text) if text.contains('\0') => {
            Err("a level has a NUL character (\\u0000), which no argument of a program can have: remove it".to_owned())
        }
        DeValue::String(text) => Ok(Level::text(text)),
        DeValue::Integer(_) => integer(value)
            .and_then(|number| i64::try_from(number).ok())
            .map(Level::Integer)
            .ok_or_else(|| "the number is too large".to_owned()),
        DeValue::Float(_) => {
            // -0.0 and 0.0 are the same level.
            let number = real(value).filter(|number| number.is_finite());
            number.map(|number| Level::Number(number + 0.0)).ok_or("must be finite".to_owned())
        }
        DeValue::Boolean(on) => Err(format!("{on} is not a level; did you mean {:?}?", if *on { "on" } else { "off" })),
        other => Err(format!("must be a text or a number, not {}", kind(other))),
    }
}

fn command(
    table: &Table,
    name: Key,
    ticked: Vec<(Range<usize>, Key, Vec<Level>)>,
    problems: &mut Problems,
) -> (Command, WorkloadSpec) {
    table.check_keys(KEYS, &[], problems);
    let mut names: Vec<&str> = ticked.iter().map(|(_, key, _)| key.as_str()).collect();
    names.extend(BUILT_IN.iter().map(|(name, _)| *name));
    let mut words = Words { names: &names, used: Vec::new() };
    let run = words.list(table, "run", problems);
    match table.find("run") {
        None => {
            let message = "missing: a command needs run = [\"program\", \"argument\", …]";
            problems.add(&(0..0), table.path("run"), message);
        }
        Some((span, _)) if run.as_ref().is_some_and(Vec::is_empty) => {
            problems.add(&span, table.path("run"), "an empty list: name the program");
        }
        Some(_) => {}
    }
    let folder = table.text("folder", problems);
    let folder = folder.map(|(span, text)| words.word(&span, text, &table.path("folder"), problems));
    let env = words.env(table, problems);
    let setup = words.list(table, "setup", problems).unwrap_or_default();
    let used = words.used;
    for (span, key, _) in &ticked {
        let is_placed = PLACING.contains(&key.as_str());
        if !is_placed && !used.contains(&key.to_string()) {
            let message = format!(
                "{{{key}}} does not occur in the command, so all levels would run the same program: write it into run, env or folder, or \
                     remove the factor"
            );
            problems.add(span, format!("factors.{key}"), message);
        }
    }
    let mut word = |key: &str, usual: &str| match table.text(key, problems) {
        Some((span, text)) if text.trim().is_empty() || text.chars().any(char::is_control) => {
            problems.add(&span, table.path(key), "empty: write one word, such as \"images\"");
            usual.to_owned()
        }
        Some((_, text)) => text.to_owned(),
        None => usual.to_owned(),
    };
    let (unit, step) = (word("unit", USUAL.0), word("step", USUAL.1));
    let keys: Vec<&Key> = ticked.iter().map(|(_, key, _)| key).collect();
    let factors = declared_factors(table, &keys, problems);
    let time_limit_s = table.positive("time_limit_s", 1e9, problems);
    let (readings, measures) = readings::read(table, &names, problems);
    let run = run.unwrap_or_default();
    let command = Command { name, run, folder, base: None, env, setup, time_limit_s, factors, readings };
    let ticked = ticked.into_iter().map(|(_, key, levels)| (key, levels)).collect();
    let spec = spec(command.clone(), ticked, &unit, &step, measures);
    (command, spec)
}

/// The contents of the `[command.factor.KEY]` tables.
fn declared_factors(table: &Table, keys: &[&Key], problems: &mut Problems) -> Vec<DeclaredFactor> {
    let Some(factors) = table.table("factor", problems) else { return Vec::new() };
    let mut all = Vec::new();
    for (key, _) in factors.entries {
        let key = key.get_ref().as_ref();
        let Some(table) = factors.table(key, problems) else { continue };
        if keys.iter().all(|known| **known != *key) {
            let (span, _) = factors.find(key).unwrap_or_default_span();
            let message = format!("[factors] has no {key}{}", suggestion(key, keys));
            problems.add(&span, factors.path(key), message);
        }
        table.check_keys(FACTOR_KEYS, &[], problems);
        let mut text = |name: &str| table.text(name, problems).map(|(_, text)| text.to_owned());
        all.push(DeclaredFactor { key: key.into(), name: text("name"), unit: text("unit"), help: text("help") });
    }
    all
}

/// The place of a key in the file; the start of the file for a missing key.
trait OrStart<'v, 'i> {
    fn unwrap_or_default_span(self) -> (Range<usize>, Option<&'v Spanned<DeValue<'i>>>);
}

impl<'v, 'i> OrStart<'v, 'i> for Option<(Range<usize>, &'v Spanned<DeValue<'i>>)> {
    fn unwrap_or_default_span(self) -> (Range<usize>, Option<&'v Spanned<DeValue<'i>>>) {
        self.map_or((0..0, None), |(span, value)| (span, Some(value)))
    }
}

/// Words of a command whose placeholders are checked.
struct Words<'n> {
    /// The placeholders that may be used.
    names: &'n [&'n str],
    /// The placeholders that were used.
    used: Vec<String>,
}

impl Words<'_> {
    fn list(&mut self, table: &Table, key: &str, problems: &mut Problems) -> Option<Vec<String>> {
        let (span, value) = table.find(key)?;
        let path = table.path(key);
        let DeValue::Array(items) = value.get_ref() else {
            let message = format!(
                "must be a list of words, such as [\"python3\", \"train.py\"], not {}: no shell reads it",
                kind(value.get_ref())
            );
            problems.add(&span, path, message);
            return None;
        };
        let mut words = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) => words.push(self.word(&item.span(), text, &path, problems)),
                DeValue::Integer(_) | DeValue::Float(_) => {
                    words.push(real(item).map_or(String::new(), |number| number.to_string()));
                }
                other => problems.add(&item.span(), &path, format!("must be a string, not {}", kind(other))),
            }
        }
        Some(words)
    }

    fn env(&mut self, table: &Table, problems: &mut Problems) -> Vec<(String, String)> {
        let Some(env) = table.table("env", problems) else { return Vec::new() };
        let mut pairs = Vec::new();
        for (key, value) in env.entries {
            let (name, path) = (key.get_ref().as_ref(), env.path(key.get_ref()));
            if name.is_empty() || name.contains(['=', '\0']) {
                problems.add(&key.span(), &path, "the name of a variable must not be empty or contain =");
            }
            if name.starts_with("MULTICARD_") {
                problems.add(&key.span(), &path, "multicard sets this variable itself: choose another name");
            }
            let text = match value.get_ref() {
                DeValue::String(text) => self.word(&value.span(), text, &path, problems),
                DeValue::Integer(_) | DeValue::Float(_) => {
                    real(value).map_or(String::new(), |number| number.to_string())
                }
                other => {
                    problems.add(&value.span(), &path, format!("must be a string, not {}", kind(other)));
                    continue;
                }
            };
            pairs.push((key.span().start, (name.to_owned(), text)));
        }
        pairs.sort();
        pairs.into_iter().map(|(_, pair)| pair).collect()
    }

    fn word(&mut self, span: &Range<usize>, text: &str, path: &str, problems: &mut Problems) -> String {
        if text.contains('\0') {
            problems.add(span, path, "contains a zero byte, which cannot be passed to a program");
        }
        match template::pieces(text) {
            Err(message) => problems.add(span, path, message),
            Ok(pieces) => {
                for piece in pieces {
                    let (Piece::Value(name) | Piece::Switch(name, _)) = piece else { continue };
                    if !self.names.contains(&name.as_str()) {
                        let others = suggestion(&name, self.names);
                        let message = format!("unknown placeholder {{{name}}}: add a factor of that name{others}");
                        problems.add(span, path, message);
                    }
                    self.used.push(name);
                }
            }
        }
        text.to_owned()
    }
}

/// Writes a command into a table of a plan.
pub(in crate::plan) fn write(workload: &WorkloadSpec, command: &Command, top: &mut toml_edit::Table) {
    let mut table = toml_edit::Table::new();
    table.decor_mut().set_prefix("\n");
    let mut put = |key: &str, value: Value| drop(table.insert(key, Item::Value(value)));
    let list = |words: &[String]| Value::Array(words.iter().map(String::as_str).collect::<Array>());
    if command.name != KEY {
        put("name", command.name.as_str().into());
    }
    put("run", list(&command.run));
    if let Some(folder) = &command.folder {
        put("folder", folder.as_str().into());
    }
    if !command.setup.is_empty() {
        put("setup", list(&command.setup));
    }
    if let Some(limit_s) = command.time_limit_s {
        put("time_limit_s", limit_s.into());
    }
    if *workload.unit.many != *USUAL.0 {
        put("unit", (&*workload.unit.many).into());
    }
    if *workload.step != *USUAL.1 {
        put("step", (&*workload.step).into());
    }
    if !command.env.is_empty() {
        let mut env = toml_edit::Table::new();
        for (name, value) in &command.env {
            env.insert(name, Item::Value(value.as_str().into()));
        }
        table.insert("env", Item::Table(env));
    }
    if !command.factors.is_empty() {
        let mut factors = toml_edit::Table::new();
        factors.set_implicit(true);
        for texts in &command.factors {
            let mut one = toml_edit::Table::new();
            for (key, text) in [("name", &texts.name), ("unit", &texts.unit), ("help", &texts.help)] {
                if let Some(text) = text {
                    one.insert(key, Item::Value(text.as_str().into()));
                }
            }
            factors.insert(&texts.key, Item::Table(one));
        }
        table.insert("factor", Item::Table(factors));
    }
    let own = super::own_measures();
    let measures: Vec<_> = workload.measures.iter().filter(|measure| !own.contains(measure)).cloned().collect();
    readings::write(&command.readings, &measures, &mut table);
    top.insert(KEY, Item::Table(table));
}
