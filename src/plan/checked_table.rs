//! Reads a table of a plan's TOML key by key: checks each value, and reports what is wrong with it.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Factor;
use super::problem::{Problems, quoted, suggestion};

/// A table of the plan; `name` is empty for the document itself.
pub(super) struct Table<'t, 'i> {
    pub name: String,
    pub entries: &'t DeTable<'i>,
}

impl<'t, 'i> Table<'t, 'i> {
    /// The place of a key in the text, and its value.
    pub fn find(&self, key: &str) -> Option<(Range<usize>, &'t Spanned<DeValue<'i>>)> {
        self.entries.get_key_value(key).map(|(key, value)| (key.span(), value))
    }

    pub fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// Reports keys that are not known. Keys of factors get a hint that they belong in `[factors]`.
    pub fn check_keys<S: AsRef<str>>(&self, known: &[S], factors: &[Factor], problems: &mut Problems) {
        for key in self.entries.keys().filter(|key| known.iter().all(|known| known.as_ref() != key.get_ref().as_ref()))
        {
            let name = key.get_ref();
            let message = if factors.iter().any(|factor| factor.key == **name) {
                "unknown key here: it is a factor and belongs in [factors]".to_owned()
            } else {
                format!("unknown key{}", suggestion(name, known))
            };
            problems.add(&key.span(), self.path(&shortened(name)), message);
        }
    }

    pub fn table(&self, key: &str, problems: &mut Problems) -> Option<Table<'t, 'i>> {
        let (span, value) = self.find(key)?;
        match value.get_ref() {
            DeValue::Table(entries) => Some(Table { name: self.path(key), entries }),
            other => {
                problems.add(&span, self.path(key), format!("must be a table [{key}], not {}", kind(other)));
                None
            }
        }
    }

    /// The tables of an array `[[key]]`, each with its place in the text.
    pub fn tables(&self, key: &str, problems: &mut Problems) -> Vec<(Range<usize>, Table<'t, 'i>)> {
        let Some((span, value)) = self.find(key) else { return Vec::new() };
        let tables: Option<Vec<_>> = value
            .get_ref()
            .as_array()
            .map(|items| {
                let table = |item: &'t Spanned<DeValue<'i>>| match item.get_ref() {
                    DeValue::Table(entries) => Some((item.span(), Table { name: self.path(key), entries })),
                    _ => None,
                };
                items.iter().map(table).collect::<Option<Vec<_>>>()
            })
            .unwrap_or_default();
        tables.unwrap_or_else(|| {
            problems.add(&span, self.path(key), format!("must be tables [[{key}]], not {}", kind(value.get_ref())));
            Vec::new()
        })
    }

    pub fn text(&self, key: &str, problems: &mut Problems) -> Option<(Range<usize>, &'t str)> {
        let (span, value) = self.find(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some((span, text.as_ref())),
            other => {
                problems.add(&span, self.path(key), format!("must be a string, not {}", kind(other)));
                None
            }
        }
    }

    pub fn choice<'n, S>(&self, key: &str, names: &'n [S], problems: &mut Problems) -> Option<&'n str>
    where
        S: AsRef<str>,
    {
        let (span, text) = self.text(key, problems)?;
        let chosen = names.iter().map(S::as_ref).find(|name| *name == text);
        if chosen.is_none() {
            problems.add(&span, self.path(key), format!("unknown {}{}", quoted(text), suggestion(text, names)));
        }
        chosen
    }

    pub fn whole(&self, key: &str, range: RangeInclusive<u64>, problems: &mut Problems) -> Option<u64> {
        let (span, value) = self.find(key)?;
        let number = integer(value).and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let message = format!("must be a whole number from {} to {}", range.start(), range.end());
            problems.add(&span, self.path(key), message);
        }
        number
    }

    pub fn switch(&self, key: &str, problems: &mut Problems) -> Option<bool> {
        let (span, value) = self.find(key)?;
        let on = value.get_ref().as_bool();
        if on.is_none() {
            problems.add(&span, self.path(key), format!("must be true or false, not {}", kind(value.get_ref())));
        }
        on
    }

    /// Two whole numbers from 1: the first and the last step.
    pub fn steps(&self, key: &str, problems: &mut Problems) -> Option<(u64, u64)> {
        let (span, value) = self.find(key)?;
        match whole_numbers(value)[..] {
            [Some(first @ 1..), Some(last)] if first <= last => Some((first, last)),
            _ => {
                let message = "must be the first and the last step, counted from 1, such as [20, 60]";
                problems.add(&span, self.path(key), message);
                None
            }
        }
    }

    pub fn positive(&self, key: &str, max: f64, problems: &mut Problems) -> Option<f64> {
        let (span, value) = self.find(key)?;
        let number = real(value).filter(|number| *number > 0.0 && *number <= max);
        if number.is_none() {
            problems.add(&span, self.path(key), format!("must be a number above 0, at most {max}"));
        }
        number
    }
}

/// The numbers of a list, each `None` if it is no whole number from 0; empty if it is no list.
pub(super) fn whole_numbers(value: &Spanned<DeValue>) -> Vec<Option<u64>> {
    let DeValue::Array(items) = value.get_ref() else { return Vec::new() };
    items.iter().map(|item| integer(item).and_then(|number| u64::try_from(number).ok())).collect()
}

pub(super) fn integer(value: &Spanned<DeValue>) -> Option<i128> {
    value.get_ref().as_integer().and_then(|number| i128::from_str_radix(number.as_str(), number.radix()).ok())
}

pub(super) fn real(value: &Spanned<DeValue>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => integer(value).map(|number| number as f64),
    }
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

pub(super) fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
