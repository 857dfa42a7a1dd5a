//! Keys and names of factors and measures, made from the names of columns.

use super::columns::{plain, rate_of};
use crate::analysis::capitalised;

/// Keys of settings and of table columns. No factor and no measure may have one of them.
pub(super) const TAKEN: [&str; 17] = [
    "session",
    "machine",
    "commit",
    "date",
    "workload",
    "data",
    "trace",
    "mode",
    "cell",
    "made_with",
    "runs",
    "epoch",
    "repeat",
    "throughput",
    "speedup",
    "ratio",
    "change",
];

/// A name without its unit, but with the words `per_s` of a rate.
pub(super) fn stem(name: &str) -> String {
    let name = name.trim();
    let bare = name.rsplit_once(['(', '[']).map_or(name, |(stem, _)| stem).trim();
    // Such rates are converted to rates per second.
    if let Some((counted, _)) = rate_of(bare).filter(|(_, per)| *per != "s") {
        return counted;
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

/// A key for this name that no setting has.
pub(super) fn key_of(plain: &str) -> String {
    let mut key: String = plain.chars().take(60).collect();
    if !key.starts_with(|first: char| first.is_ascii_lowercase()) {
        key = format!("c_{key}");
    }
    if TAKEN.contains(&key.as_str()) { key + "_" } else { key }
}

/// A key in words: `Wall time`.
pub(super) fn words(key: &str) -> String {
    capitalised(&key.replace('_', " "))
}
