//! Keys and names of factors and measures, made from the names of columns.

use super::amount::{Amount, plain};
use crate::analysis::{COMMIT, DATE, MACHINE, SETTINGS, capitalised};

/// Keys of facts about sessions and of table columns. No factor and no measure may have one of them.
const TAKEN: [&str; 10] =
    [MACHINE, COMMIT, DATE, "runs", "epoch", "repeat", "throughput", "speedup", "ratio", "change"];

/// A name without its unit, but with the words `per_s` of a rate and `per_w` of an efficiency.
pub(super) fn stem(name: &str) -> String {
    let name = name.trim();
    let bare = name.rsplit_once(['(', '[']).map_or(name, |(stem, _)| stem).trim();
    if let Some(stem) = Amount::of(bare).and_then(|amount| amount.stem) {
        return stem;
    }
    let mut plain = plain(if bare.is_empty() { name } else { bare });
    for ending in [
        "_seconds", "_secs", "_sec", "_s", "_ms", "_us", "_ns", "_bytes", "_kb", "_mb", "_gb", "_kib", "_mib", "_gib",
        "_watts", "_w", "_joules", "_j",
    ] {
        if let Some(stem) = plain.strip_suffix(ending).filter(|stem| !stem.is_empty() && !stem.ends_with("_per")) {
            plain = stem.to_owned();
            break;
        }
    }
    plain
}

/// What is wrong with a key that the user gave.
pub(super) fn taken(key: &str) -> String {
    format!("{key} is the name of a setting or of a column of tables: give another key with \"… as KEY\"")
}

/// Whether no factor may have this key.
pub(super) fn is_taken(key: &str) -> bool {
    TAKEN.contains(&key)
}

/// Whether no measure may have this key. The key of a setting may be that of a factor: for runs with this factor, it means the factor.
pub(super) fn is_taken_of_measures(key: &str) -> bool {
    is_taken(key) || SETTINGS.contains(&key)
}

/// A key for a measure of this name.
pub(super) fn measure_key(plain: &str) -> String {
    free_key(plain, is_taken_of_measures)
}

/// A key for a factor of this name.
pub(super) fn factor_key(plain: &str) -> String {
    free_key(plain, is_taken)
}

/// What the user must know of the factor that a column becomes: that its key is not the column's name, because this name is taken.
pub(super) fn renamed(column: &str, key: &str) -> Option<String> {
    let name = stem(column);
    (is_taken(&name) && key != name).then(|| {
        format!("its factor is called {key}, also in filters: {name} is the name of a setting or of a column of tables")
    })
}

/// A key for this name that is not taken.
fn free_key(plain: &str, is_taken: fn(&str) -> bool) -> String {
    let mut key: String = plain.chars().take(60).collect();
    if !key.starts_with(|first: char| first.is_ascii_lowercase()) {
        key = format!("c_{key}");
    }
    if is_taken(&key) { key + "_" } else { key }
}

/// A key in words: `Wall time`.
pub(super) fn words(key: &str) -> String {
    capitalised(&key.replace('_', " "))
}
