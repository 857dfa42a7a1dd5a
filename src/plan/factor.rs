//! Factors: every setting that a plan may vary, with its levels and its help.

use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::gpu_choice::GpuChoice;
use super::hint::Hint;
use super::level::{Key, Level};

/// The values that a factor takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Named levels.
    Names(Vec<Arc<str>>),
    /// Whole numbers from `min` to `max`.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// Real numbers from `min` to `max`.
    Number {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// A path of the file system; empty for none.
    Path,
    /// These names, and lists of GPUs by their indexes, such as `0,2`.
    GpuSet(Vec<Arc<str>>),
}

/// One setting that plans can vary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// The key in plans.
    pub key: Key,
    /// The name on screen.
    pub name: Arc<str>,
    /// The unit of its values; empty for named levels and counts.
    #[serde(default)]
    pub unit: Arc<str>,
    /// The possible values.
    pub domain: Domain,
    /// The level in plans that do not name the factor.
    pub default: Level,
    /// The level of cells from versions before the factor was added. It must never change, because a cell's identity contains the levels
    /// that differ from it.
    pub frozen_default: Level,
    /// Where the factor has no effect: in cells in which one of these settings has one of these levels. A key is a factor's key, or
    /// `data.decode` and similar. In such cells the factor's level is not part of the cell.
    #[serde(default)]
    pub idle: Vec<(Key, Vec<Level>)>,
    /// Numbers offered as boxes to tick, in order, each with its own colour; empty for named levels.
    ///
    /// Later versions append: the place of a number decides its colour.
    #[serde(default)]
    pub usual: Vec<f64>,
    /// Its named levels are clear without its name, as `fp16` is without `precision`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub speaks_for_itself: bool,
    /// The meanings of its levels for code that does not know the workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<(Level, Hint)>,
    /// One line of help: what the factor changes, and what to expect.
    #[serde(default)]
    pub help: String,
    /// The papers' finding about the factor, with the place in the paper; empty if there is none.
    #[serde(default)]
    pub finding: String,
}

impl Factor {
    /// A factor of named levels, the default first.
    pub fn named(key: &str, name: &str, names: &[&str]) -> Self {
        let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
        let default = names.first().map_or(Level::text(""), |first| Level::Text(first.clone()));
        Self::new(key, name, Domain::Names(names), default)
    }

    /// A factor of whole numbers.
    pub fn count(key: &str, name: &str, range: RangeInclusive<i64>, default: i64) -> Self {
        Self::new(key, name, Domain::Integer { min: *range.start(), max: *range.end() }, Level::Integer(default))
    }

    /// A factor of real numbers.
    pub fn number(key: &str, name: &str, range: RangeInclusive<f64>, default: f64) -> Self {
        Self::new(key, name, Domain::Number { min: *range.start(), max: *range.end() }, Level::Number(default))
    }

    /// A path.
    pub fn path(key: &str, name: &str, default: &str) -> Self {
        Self::new(key, name, Domain::Path, Level::text(default))
    }

    /// The choice of a run's GPUs, the default first.
    pub fn gpu_set(key: &str, name: &str, names: &[&str]) -> Self {
        let named = Self::named(key, name, names);
        let names = names.iter().map(|name| Arc::from(*name)).collect();
        Self { domain: Domain::GpuSet(names), ..named }
    }

    fn new(key: &str, name: &str, domain: Domain, default: Level) -> Self {
        Self {
            key: key.into(),
            name: name.into(),
            unit: "".into(),
            domain,
            frozen_default: default.clone(),
            default,
            idle: Vec::new(),
            usual: Vec::new(),
            speaks_for_itself: false,
            hints: Vec::new(),
            help: String::new(),
            finding: String::new(),
        }
    }

    /// Sets the level for plans that do not name the factor; the frozen default stays.
    pub fn default(self, default: Level) -> Self {
        Self { default, ..self }
    }

    /// The factor has no effect where the setting `key` has one of these named levels.
    pub fn idle_where(mut self, key: &str, levels: &[&str]) -> Self {
        self.idle.push((key.into(), levels.iter().map(|name| Level::text(name)).collect()));
        self
    }

    /// The factor has no effect where the factor `key` has this number.
    pub fn idle_at(mut self, key: &str, number: i64) -> Self {
        self.idle.push((key.into(), vec![Level::Integer(number)]));
        self
    }

    /// Sets the unit of its values.
    pub fn unit(self, unit: &str) -> Self {
        Self { unit: unit.into(), ..self }
    }

    /// Sets the numbers that are offered as boxes to tick.
    pub fn usual(self, usual: &[f64]) -> Self {
        Self { usual: usual.to_vec(), ..self }
    }

    /// Marks its named levels as clear without its name.
    pub fn speaks_for_itself(self) -> Self {
        Self { speaks_for_itself: true, ..self }
    }

    /// Sets what its named levels mean to code that does not know the workload.
    pub fn hints<'a>(self, hints: impl IntoIterator<Item = (&'a str, Hint)>) -> Self {
        Self { hints: hints.into_iter().map(|(name, hint)| (Level::text(name), hint)).collect(), ..self }
    }

    /// Sets the line of help.
    pub fn help(self, help: &str) -> Self {
        Self { help: help.to_owned(), ..self }
    }

    /// Sets what the papers found.
    pub fn finding(self, finding: &str) -> Self {
        Self { finding: finding.to_owned(), ..self }
    }

    /// Whether a level is possible for this factor.
    pub fn admits(&self, level: &Level) -> bool {
        match (&self.domain, level) {
            (Domain::Names(names), Level::Text(name)) => names.contains(name),
            (Domain::Path, Level::Text(_)) => true,
            // Each list has one spelling only, so that no two levels mean the same.
            (Domain::GpuSet(_), Level::Text(name)) => {
                name.parse::<GpuChoice>().is_ok_and(|choice| choice.to_string() == **name)
            }
            (Domain::Integer { min, max }, Level::Integer(value)) => (min..=max).contains(&value),
            (Domain::Number { min, max }, Level::Integer(_) | Level::Number(_)) => {
                level.as_number().is_some_and(|value| (*min..=*max).contains(&value))
            }
            _ => false,
        }
    }

    /// The levels that are always offered: all names, or the usual numbers.
    pub fn offered(&self) -> impl Iterator<Item = Level> {
        let names =
            if let Domain::Names(names) | Domain::GpuSet(names) = &self.domain { names.as_slice() } else { &[] };
        let whole = matches!(self.domain, Domain::Integer { .. });
        let number = move |number: &f64| if whole { Level::Integer(*number as i64) } else { Level::Number(*number) };
        names.iter().cloned().map(Level::Text).chain(self.usual.iter().map(number))
    }

    /// The index of a named level among all names, or of a number among the usual ones.
    pub fn place(&self, level: &Level) -> Option<usize> {
        match (&self.domain, level) {
            (Domain::Names(names) | Domain::GpuSet(names), Level::Text(name)) => {
                names.iter().position(|known| known == name)
            }
            (Domain::Names(_) | Domain::GpuSet(_) | Domain::Path, _) | (_, Level::Text(_)) => None,
            (_, number) => self.usual.iter().position(|usual| Some(*usual) == number.as_number()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::workloads;

    #[test]
    fn usual_numbers_lie_in_the_domain_and_every_numeric_factor_has_some() {
        for factor in workloads().iter().flat_map(|spec| &spec.factors) {
            let (min, max) = match factor.domain {
                Domain::Names(_) | Domain::GpuSet(_) | Domain::Path => {
                    assert!(factor.usual.is_empty(), "{}", factor.key);
                    continue;
                }
                Domain::Integer { min, max } => (min as f64, max as f64),
                Domain::Number { min, max } => (min, max),
            };
            let usual = &factor.usual;
            assert!(!usual.is_empty(), "{}", factor.key);
            assert!(usual.iter().all(|number| (min..=max).contains(number)), "{}: {usual:?}", factor.key);
            assert!(usual.windows(2).all(|pair| pair[0] < pair[1]), "{}: {usual:?}", factor.key);
        }
    }
}
