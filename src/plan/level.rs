//! Keys, one value of a factor, and the values of all factors of a cell.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The key of the level that distinguishes an A/A copy from the cell that it copies. Both are equal in everything else, and no other code
/// reads the level.
pub const AA_COPY: &str = "aa_copy";

/// Begins the name of a factor where its key alone means something else, as `plan` does of runs: `factor_plan`.
const OF_FACTOR: &str = "factor_";

/// The name that means the factor with this key, whatever else has the key.
pub fn factor_name(key: &str) -> String {
    format!("{OF_FACTOR}{key}")
}

/// The key of the factor that a name made by [`factor_name`] means; any other name as it is.
pub fn factor_key(name: &str) -> &str {
    name.strip_prefix(OF_FACTOR).unwrap_or(name)
}

/// The name of a factor, a workload or a measure in files: `"precision"`. Copies share its text.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<str>);

impl Key {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Self(Arc::from(name))
    }
}

impl From<String> for Key {
    fn from(name: String) -> Self {
        Self(Arc::from(name))
    }
}

impl From<&Self> for Key {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

impl PartialEq<str> for Key {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<Key> for str {
    fn eq(&self, other: &Key) -> bool {
        *self == **other
    }
}

impl PartialEq<Key> for &str {
    fn eq(&self, other: &Key) -> bool {
        **self == **other
    }
}

/// One value of a factor: `"fp16"`, `4`, `0.01`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// A count.
    Integer(i64),
    /// A real number.
    Number(f64),
    /// A named level.
    Text(Arc<str>),
}

impl Level {
    /// A named level.
    pub fn text(name: &str) -> Self {
        Self::Text(Arc::from(name))
    }

    /// The name of a named level.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(name) => Some(name),
            Self::Integer(_) | Self::Number(_) => None,
        }
    }

    /// The value of a whole number.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            Self::Number(_) | Self::Text(_) => None,
        }
    }

    /// The value of any number.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            Self::Text(_) => None,
        }
    }
}

impl From<i64> for Level {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => f.pad(&number_text(*value)),
            Self::Text(name) => name.fmt(f),
        }
    }
}

/// A number with all its digits: plain, or as `5e-324` if plain digits would have hundreds of zeros.
pub fn number_text(value: f64) -> String {
    const LONGEST: usize = 40;
    let plain = value.to_string();
    if plain.len() > LONGEST { format!("{value:e}") } else { plain }
}

// Numbers sort before names, and by value, so that 1, 2, 4 GPUs appear in that order on every axis.
impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Text(_), _) => Ordering::Greater,
            (_, Self::Text(_)) => Ordering::Less,
            (a, b) => a.as_number().unwrap_or(f64::NAN).total_cmp(&b.as_number().unwrap_or(f64::NAN)),
        }
    }
}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Level {}

impl Hash for Level {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Text(name) => name.hash(state),
            number => number.as_number().unwrap_or(f64::NAN).to_bits().hash(state),
        }
    }
}

/// The place of each level among these, in the order in which they first occur.
pub fn places_of(levels: impl IntoIterator<Item = Level>) -> HashMap<Level, usize> {
    let mut places = HashMap::new();
    for level in levels {
        let next = places.len();
        places.entry(level).or_insert(next);
    }
    places
}

/// The position of a level among others of its factor: numbers by value, then offered names by their places, then other names by their
/// letters.
pub fn rank_among(level: Level, place: Option<usize>) -> (usize, Option<Level>) {
    match (level.as_text().is_some(), place) {
        (false, _) => (0, Some(level)),
        (true, Some(place)) => (place + 1, None),
        (true, None) => (usize::MAX, Some(level)),
    }
}

/// The level of every factor of one cell, in the order of its workload's factors. Levels of another version are kept as they are.
///
/// Cells of a block share their keys, since 10,000 cells of 25 factors would otherwise hold 250,000 references, and copies of levels share
/// all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Levels {
    keys: Arc<[Key]>,
    /// A level for each key.
    levels: Arc<[Level]>,
}

impl Levels {
    /// Levels from pairs of factor key and level.
    pub fn new<K: Into<Key>>(pairs: Vec<(K, Level)>) -> Self {
        let (keys, levels): (Vec<Key>, Vec<Level>) = pairs.into_iter().map(|(key, level)| (key.into(), level)).unzip();
        Self { keys: keys.into(), levels: levels.into() }
    }

    /// Levels for keys that are shared with other cells; there must be as many levels as keys.
    pub(super) fn of_keys(keys: &Arc<[Key]>, levels: impl Iterator<Item = Level>) -> Self {
        Self { keys: Arc::clone(keys), levels: levels.take(keys.len()).collect() }
    }

    /// The level of a factor.
    pub fn get(&self, key: &str) -> Option<&Level> {
        self.levels.get(self.keys.iter().position(|name| *name == key)?)
    }

    /// The level of the factor that a filter names: by its key, or by [`factor_name`].
    pub fn named(&self, name: &str) -> Option<&Level> {
        self.get(name).or_else(|| self.get(factor_key(name)))
    }

    /// Pairs of factor key and level.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Level)> {
        self.keys.iter().zip(self.levels.iter())
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self::new::<Key>(Vec::new())
    }
}

impl Serialize for Levels {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = Levels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from factor to level")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Levels, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(32));
                while let Some(pair) = map.next_entry::<Key, Level>()? {
                    pairs.push(pair);
                }
                Ok(Levels::new(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_of_its_name_or_of_another_key() {
        let key = Key::from("sparsity");
        assert_eq!([Key::from(&key), Key::from("sparsity".to_owned())], [key.clone(), key]);
    }

    #[test]
    fn numbers_of_hundreds_of_zeros_are_written_as_powers_and_all_others_as_ever() {
        let shown = [5e-324, 1e308, 1e-7, 0.5, 1e21].map(|number| Level::Number(number).to_string());
        assert_eq!(shown, ["5e-324", "1e308", "0.0000001", "0.5", "1000000000000000000000"]);
    }

    #[test]
    fn levels_have_the_places_in_which_they_first_occur_and_a_number_is_the_same_in_any_type() {
        let places = places_of([Level::Integer(4), Level::text("a"), Level::Number(4.0), Level::Number(0.5)]);
        let place = |level: Level| places.get(&level).copied();
        assert_eq!([place(Level::Number(4.0)), place(Level::text("a")), place(0_i64.into())], [Some(0), Some(1), None]);
        assert_eq!(place(Level::Number(0.5)), Some(2));
    }

    #[test]
    fn factors_and_levels_of_another_version_are_read_and_written_as_they_are() {
        let text = r#"{"precision":"fp8","sparsity":"2:4","gpus":2}"#;
        let levels: Levels = serde_json::from_str(text).unwrap();
        assert_eq!(levels.get("sparsity"), Some(&Level::text("2:4")));
        assert_eq!(serde_json::to_string(&levels).unwrap(), text);
    }
}
