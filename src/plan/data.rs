//! Data sets as plans, jobs and journals name them: the name of a set and its settings. Only the workload turns them into types.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::factor::{Domain, Factor};
use super::level::{Key, Level};

/// A data set, such as `{"set": "mnist", "folder": "/data/mnist"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Data {
    /// The name of the set; empty for workloads that use no data set.
    pub set: Key,
    /// Its settings, such as `folder`, in the order of the set's rule.
    pub keys: Vec<(Key, Level)>,
}

impl Data {
    /// A set without settings.
    pub fn of_set(set: &str) -> Self {
        Self { set: set.into(), keys: Vec::new() }
    }

    /// The same set with one setting added or changed.
    #[must_use]
    pub fn with(mut self, key: &str, level: Level) -> Self {
        match self.keys.iter_mut().find(|(name, _)| *name == key) {
            Some((_, current)) => *current = level,
            None => self.keys.push((key.into(), level)),
        }
        self
    }

    /// The same set with another path in a setting; an empty path removes the setting.
    #[must_use]
    pub fn with_path(mut self, key: &str, path: &str) -> Self {
        if path.is_empty() {
            self.keys.retain(|(name, _)| *name != key);
            return self;
        }
        self.with(key, Level::text(path))
    }

    /// The value of a setting.
    pub fn get(&self, key: &str) -> Option<&Level> {
        self.keys.iter().find(|(name, _)| *name == key).map(|(_, level)| level)
    }

    /// The folder of the set's files, if one is named.
    pub fn folder(&self) -> Option<&str> {
        self.get("folder").and_then(Level::as_text)
    }
}

/// The set in words: `digits`, `mnist in /data/mnist`, `folder /data/photos`.
impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.folder() {
            None => self.set.fmt(f),
            Some(folder) if self.set == "folder" => write!(f, "folder {folder}"),
            Some(folder) => write!(f, "{} in {folder}", self.set),
        }
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.keys.len()))?;
        map.serialize_entry("set", &self.set)?;
        for (key, level) in &self.keys {
            map.serialize_entry(key, level)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> serde::de::Visitor<'de> for Entries {
            type Value = Data;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a data set: a map with its name under \"set\"")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
                let mut set = None;
                let mut keys = Vec::new();
                while let Some((key, value)) = map.next_entry::<Key, serde_json::Value>()? {
                    match (&*key, level_of(value)) {
                        ("set", Some(Level::Text(name))) => set = Some(Key::from(&*name)),
                        (_, Some(level)) => keys.push((key, level)),
                        (_, None) => {}
                    }
                }
                let set = set.ok_or_else(|| serde::de::Error::missing_field("set"))?;
                Ok(Data { set, keys })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A value as a level. What a later version writes as a list or a map is kept as its JSON text, so that it can be shown.
fn level_of(value: serde_json::Value) -> Option<Level> {
    match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(Level::text(&text)),
        other => Some(match (other.as_i64(), other.as_f64()) {
            (Some(whole), _) => Level::Integer(whole),
            (None, Some(real)) => Level::Number(real),
            (None, None) => Level::text(&other.to_string()),
        }),
    }
}

/// How a data set's files come onto a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Obtained {
    /// This program generates it.
    Generated,
    /// It is downloaded.
    Downloaded,
}

/// A set of files that this program generates or downloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Obtainable {
    /// Its name on the command line: `multicard data fetch KEY`.
    pub key: Key,
    /// Its name on screen.
    pub name: String,
    /// One line: what it contains.
    pub about: String,
    /// How it is obtained.
    pub by: Obtained,
}

impl Obtainable {
    /// Files under their key: on screen they have the same name.
    pub fn new(key: &str, by: Obtained, about: &str) -> Self {
        Self { key: key.into(), name: key.to_owned(), about: about.to_owned(), by }
    }
}

/// The settings that a plan may give for one data set of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataSetRule {
    /// Its name in plans.
    pub key: Key,
    /// One line on the Plan screen.
    #[serde(default)]
    pub help: String,
    /// The possible settings.
    #[serde(default)]
    pub keys: Vec<Factor>,
    /// The keys of settings that must be given.
    #[serde(default)]
    pub required: Vec<Key>,
    /// The set is generated to resemble another set: results that depend on its content are not those of the original.
    #[serde(default)]
    pub synthetic: bool,
    /// Levels that belong to the set: choosing it ticks them.
    #[serde(default)]
    pub ticks: Vec<(Key, Level)>,
    /// The factors that decide which rows or files are read. If there are any, a launch reads the files before a run occupies a GPU, once
    /// for each combination of these factors' levels; otherwise the runs themselves find out what is wrong with the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_by: Vec<Key>,
    /// Files that this program can generate or download into the set's folder; if there are several, each has a sub-folder.
    #[serde(default)]
    pub obtainable: Vec<Obtainable>,
}

impl DataSetRule {
    /// The set for a plan that gives only its name.
    pub fn default_data(&self) -> Data {
        let without_paths = self.keys.iter().filter(|key| key.domain != Domain::Path);
        Data { set: self.key.clone(), keys: without_paths.map(|key| (key.key.clone(), key.default.clone())).collect() }
    }

    /// The set when it is chosen in the window, with a default folder if it needs one.
    pub fn chosen(&self) -> Data {
        let with_defaults = self.keys.iter().filter(|key| key.default != Level::text(""));
        Data { set: self.key.clone(), keys: with_defaults.map(|key| (key.key.clone(), key.default.clone())).collect() }
    }

    /// The value of a setting that a plan does not give.
    pub(super) fn default_of(&self, key: &str) -> Option<&Level> {
        self.keys.iter().find(|known| known.key == key).map(|known| &known.frozen_default)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_as_it_was_read_and_what_is_not_said_is_left_out() {
        for (text, written, words) in [
            (r#"{"set":"digits"}"#, None, "digits"),
            (r#"{"set":"mnist","folder":null}"#, Some(r#"{"set":"mnist"}"#), "mnist"),
            (r#"{"set":"mnist","folder":"/data"}"#, None, "mnist in /data"),
            (r#"{"set":"folder","folder":"photos","decode":"once"}"#, None, "folder photos"),
            (
                r#"{"set":"tokens","shards":8,"mix":["a","b"]}"#,
                Some(r#"{"set":"tokens","shards":8,"mix":"[\"a\",\"b\"]"}"#),
                "tokens",
            ),
        ] {
            let data: Data = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&data).unwrap(), written.unwrap_or(text));
            assert_eq!(data.to_string(), words);
        }
        assert!(serde_json::from_str::<Data>(r#"{"folder":"x"}"#).unwrap_err().to_string().contains("set"));
    }
}
