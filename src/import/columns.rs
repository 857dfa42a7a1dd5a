//! The mapping of a file's columns to what they mean: deduced from names, units and values, shown, and changed by the user.

mod units;

use std::collections::BTreeSet;

use thiserror::Error;

use super::Role;
use super::amount::{Amount, TIMES, is_efficiency, per_second, plain};
use super::moment::moment;
use super::role::is_key;
use super::table::{Field, ForeignTable};
use crate::plan::{Better, MeasureUnit, suggestion};

pub(super) use units::{MAY_MIX, Units, may_mix};

/// The most distinct texts of a factor. A column with more texts is left out, because its texts are comments or outputs rather than levels.
const MOST_LEVELS: usize = 200;
/// Names of columns that show the column's role, in lower case.
static NAMES: [(&[&str], Role); 7] = [
    (&["repeat", "rep", "run", "trial", "replicate", "replication"], Role::Repeat),
    (&["machine", "host", "hostname", "node"], Role::Machine),
    (&["commit", "git_commit", "git", "sha", "revision", "git_sha", "commit_hash"], Role::Commit),
    (&["commit_time", "commit_date", "committed", "committed_at"], Role::CommitTime),
    (&["started", "start", "start_time", "date", "datetime", "timestamp", "day", "when", "time"], Role::Started),
    (&["session", "build", "nightly", "job", "job_id"], Role::Session),
    (&["id", "index", "comment", "note"], Role::Skip),
];
/// Names of columns of whole numbers that often count parts of one run, which are no repeats.
const COUNTERS: [&str; 5] = ["iteration", "iter", "sample", "round", "step"];
/// What a map says of rows if each is a run of its own.
const RUNS: &str = "runs";
/// Why a column has no role yet: only the user knows whether it counts runs.
pub(super) const MAY_COUNT_PARTS: &str = "it may count parts of one run";
/// Why a column with an ending such as `_s` has no unit.
const MAY_BE_PER_UNIT: &str = "no unit was read: its name may mean a quantity in this unit, or an amount per unit";
/// Endings of names that stand for a unit, with this unit.
// `_min` is left out: `latency_min` is a minimum.
const ENDINGS: [(&str, &str); 25] = [
    ("_seconds", "s"),
    ("_secs", "s"),
    ("_sec", "s"),
    ("_s", "s"),
    ("_ms", "ms"),
    ("_us", "µs"),
    ("_ns", "ns"),
    ("_minutes", "min"),
    ("_bytes", "B"),
    ("_byte", "B"),
    ("_kb", "kB"),
    ("_mb", "MB"),
    ("_gb", "GB"),
    ("_kib", "KiB"),
    ("_mib", "MiB"),
    ("_gib", "GiB"),
    ("_watts", "W"),
    ("_w", "W"),
    ("_joules", "J"),
    ("_j", "J"),
    ("_percent", "%"),
    ("_pct", "%"),
    ("_hz", "Hz"),
    ("_mhz", "MHz"),
    ("_flops", "FLOP/s"),
];
/// Words in the names of measures that are better if high.
const HIGH: [&str; 6] = ["throughput", "accuracy", "efficiency", "speedup", "score", "bandwidth"];
/// Words in the names of measures that are better if low.
const LOW: [&str; 6] = ["loss", "error", "latency", "duration", "time", "memory"];
/// Words in the names of rates. An amount with such a name has a wrong unit, and of harm it is unclear what it means: `gc_throughput`.
const RATES: [&str; 2] = ["throughput", "bandwidth"];
/// Units of what is spent: time, memory, energy.
const SPENT: [&str; 22] = [
    "s", "ms", "µs", "us", "ns", "min", "h", "d", "B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "mJ", "J",
    "kJ", "Wh", "kWh",
];
/// Words in the names of measures that are better if low, whatever their unit: `errors/s`, `missed_bytes`.
const HARMFUL: [&str; 48] = [
    "abort",
    "aborted",
    "aborts",
    "collision",
    "collisions",
    "crash",
    "crashes",
    "drop",
    "dropped",
    "drops",
    "error",
    "errors",
    "eviction",
    "evictions",
    "fail",
    "failed",
    "fails",
    "failure",
    "failures",
    "false_negative",
    "false_negatives",
    "false_positive",
    "false_positives",
    "fault",
    "faults",
    "gc",
    "inefficiency",
    "loss",
    "losses",
    "lost",
    "miss",
    "missed",
    "misses",
    "pause",
    "pauses",
    "reject",
    "rejected",
    "rejections",
    "rejects",
    "retransmission",
    "retransmissions",
    "retransmits",
    "retransmitted",
    "retries",
    "retry",
    "stall",
    "stalls",
    "timeouts",
];
/// Words in the names of measures that are better if high, although they are times or amounts: `uptime_s`, `energy left (J)`.
const HELPFUL: [&str; 12] = [
    "battery_left",
    "charge_left",
    "energy_left",
    "harvested",
    "memory_left",
    "mttf",
    "space_left",
    "spare",
    "survival",
    "survived",
    "time_left",
    "uptime",
];
/// What the name of a time ends with that is better if high: `time to failure (h)`, but not `time to failure detection (s)`.
const TO_FAILURE: &str = "to_failure";
/// Words in the names of measures whose good values the name does not tell: `free memory (GB)`, `time between failures (h)`.
const UNTOLD: [&str; 13] = [
    "available",
    "between",
    "free",
    "headroom",
    "life",
    "lifetime",
    "mtbf",
    "remaining",
    "saved",
    "saving",
    "savings",
    TO_FAILURE,
    "unused",
];

/// Words in the names of changes, whose good values the name does not tell: `latency reduction (%)`. A `reduction_time` is a time.
const CHANGES: [&str; 7] = ["decrease", "gain", "gains", "improvement", "improvements", "reduction", "reductions"];

/// What each column of a file means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The name of the workload that was measured. Cells of files with the same name, factors and levels are the same
    /// cells.
    pub name: String,
    /// Whether the user declares that each row is a run of its own, also where rows recur or depend on each other.
    pub rows_are_runs: bool,
    /// The columns in the order of the file, each with its role and the reason for this role.
    pub columns: Vec<(String, Role, String)>,
}

/// A mapping that cannot be read, or does not fit the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct MappingError(pub(super) String);

impl Mapping {
    /// Deduces what the columns of a table mean.
    pub fn deduced(table: &ForeignTable) -> Self {
        let column = |(place, name): (usize, &String)| {
            let (role, why) = deduced(table, place, name);
            (name.clone(), role, why)
        };
        let mut columns: Vec<_> = table.columns.iter().enumerate().map(column).collect();
        // Only one column can have such a role: the first one that fits gets it.
        let mut seen: Vec<&'static str> = Vec::new();
        for (_, role, why) in &mut columns {
            let is_plain = !matches!(role, Role::Factor { .. } | Role::Measure { .. } | Role::Skip);
            if is_plain && seen.contains(&role.word()) {
                *why = format!("another column is the {}", role.word());
                *role = Role::Skip;
            } else if is_plain {
                seen.push(role.word());
            }
        }
        units::deduce(table, &mut columns);
        let name = if table.format == "hyperfine" { "hyperfine" } else { "imported" };
        let mut mapping = Self { name: name.to_owned(), rows_are_runs: false, columns };
        mapping.leave_out_what_parameters_tell(table);
        mapping
    }

    /// Leaves out the column of hyperfine's commands if the parameters distinguish the commands.
    fn leave_out_what_parameters_tell(&mut self, table: &ForeignTable) {
        let parameters: Vec<usize> =
            (1..table.columns.len()).filter(|place| matches!(self.columns[*place].1, Role::Factor { .. })).collect();
        if table.format != "hyperfine" || parameters.is_empty() {
            return;
        }
        let levels: BTreeSet<Vec<&str>> =
            table.rows.iter().map(|row| parameters.iter().map(|place| row.fields[*place].text()).collect()).collect();
        let with_command: BTreeSet<(&str, Vec<&str>)> = table
            .rows
            .iter()
            .map(|row| (row.fields[0].text(), parameters.iter().map(|place| row.fields[*place].text()).collect()))
            .collect();
        if levels.len() == with_command.len() {
            self.columns[0].1 = Role::Skip;
            self.columns[0].2 = "the parameters tell the commands apart".to_owned();
        }
    }

    /// Changes the role of a column.
    ///
    /// # Errors
    /// The file has no such column, or there is no such role.
    pub fn set(&mut self, column: &str, role: &str) -> Result<(), MappingError> {
        let names: Vec<&str> = self.columns.iter().map(|(name, ..)| name.as_str()).collect();
        let Some(place) = names.iter().position(|name| *name == column) else {
            return Err(MappingError(format!("the file has no column {column:?}{}", suggestion(column, &names))));
        };
        let role = Role::parse(role).map_err(|error| MappingError(format!("column {column:?}: {error}")))?;
        (self.columns[place].1, self.columns[place].2) = (role, "as you say".to_owned());
        Ok(())
    }

    /// Applies a map: TOML with `name`, `rows` and a table `[columns]`.
    ///
    /// # Errors
    /// The text cannot be read, or does not fit the file.
    pub fn change(&mut self, toml: &str) -> Result<(), MappingError> {
        let table: toml::Table =
            toml.parse().map_err(|error: toml::de::Error| MappingError(error.to_string().trim_end().to_owned()))?;
        for (key, value) in table {
            match (key.as_str(), value) {
                ("name", toml::Value::String(name)) if is_key(&name) => self.name = name,
                ("name", _) => {
                    return Err(MappingError(
                        "name: use small letters, digits and _, beginning with a letter".to_owned(),
                    ));
                }
                ("rows", toml::Value::String(word)) if word == RUNS => self.rows_are_runs = true,
                ("rows", other) => {
                    return Err(MappingError(format!(
                        "rows: {other} is unknown: write rows = \"{RUNS}\" if each row is a run of its own, or leave `rows` out"
                    )));
                }
                ("columns", toml::Value::Table(columns)) => {
                    for (column, role) in columns {
                        let role = role.as_str().ok_or_else(|| {
                            MappingError(format!(
                                "columns.{column:?}: write a role in quotes, such as \"measure s lower\""
                            ))
                        })?;
                        self.set(&column, role)?;
                    }
                }
                (other, _) => {
                    return Err(MappingError(format!(
                        "unknown key {other:?}: a map has `name`, `rows` and `[columns]`"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The mapping as TOML, which [`Self::change`] reads. Columns of which only the user knows the role are left out.
    pub fn toml(&self) -> String {
        let known = self.columns.iter().filter(|(.., why)| ![MAY_COUNT_PARTS, MAY_MIX].contains(&why.as_str()));
        let columns: toml::Table =
            known.map(|(name, role, _)| (name.clone(), toml::Value::String(role.to_string()))).collect();
        let mut table = toml::Table::new();
        table.insert("name".to_owned(), toml::Value::String(self.name.clone()));
        if self.rows_are_runs {
            table.insert("rows".to_owned(), toml::Value::String(RUNS.to_owned()));
        }
        table.insert("columns".to_owned(), toml::Value::Table(columns));
        toml::to_string(&table).unwrap_or_default()
    }
}

/// The role of a column, and why.
fn deduced(table: &ForeignTable, place: usize, name: &str) -> (Role, String) {
    let values = || table.values(place).filter(|field| **field != Field::Missing);
    if values().next().is_none() {
        return (Role::Skip, "it has no values".to_owned());
    }
    let plain = plain(name);
    let named = NAMES.iter().find(|(names, _)| names.contains(&plain.as_str())).map(|(_, role)| role);
    if let Some(role) = named.filter(|role| fits(role, values())) {
        return (role.clone(), "by its name".to_owned());
    }
    // A loss that is not a number does not make its column a factor; a later error names its line.
    let is_nan = |field: &Field| field.text().eq_ignore_ascii_case("nan");
    let is_number = values().all(|field| field.number().is_some() || is_nan(field)) && !values().all(is_nan);
    let count = values().map(Field::text).collect::<BTreeSet<_>>().len();
    let factor = |unit: &str| Role::Factor { unit: unit.to_owned(), key: None };
    let measure = |unit: String| {
        let why = if unit.is_empty() { MAY_BE_PER_UNIT } else { "by the unit in its name" };
        (Role::Measure { better: better(name, &unit), unit, key: None }, why.to_owned())
    };
    if !is_number || is_version(name) {
        // A column of a measure may have texts among its numbers by mistake, or be written in another way. A later error names their lines.
        let has_numbers = values().any(|field| field.number().is_some() || field.advice().is_some());
        if let Some(unit) = unit_of(name).filter(|_| has_numbers) {
            return measure(unit);
        }
        if count > 0 && values().all(|field| moment(field).is_some_and(|(_, is_day)| !is_day)) {
            return (Role::Started, "dates with times of day".to_owned());
        }
        return match count {
            1..=MOST_LEVELS => (factor(""), "names".to_owned()),
            _ => (Role::Skip, format!("more than {MOST_LEVELS} different texts")),
        };
    }
    if let Some(unit) = unit_of(name) {
        return measure(unit);
    }
    if named_better(name).is_some() {
        return (Role::Measure { better: better(name, ""), unit: String::new(), key: None }, "by its name".to_owned());
    }
    let is_whole = values().all(|field| field.number().is_some_and(|number| number.fract() == 0.0));
    if is_whole && count > 1 && COUNTERS.contains(&plain.as_str()) {
        (Role::Skip, MAY_COUNT_PARTS.to_owned())
    } else if is_whole || 3 * count <= table.rows.len() {
        (factor(""), "numbers that repeat, or whole numbers".to_owned())
    } else {
        (
            Role::Measure { unit: String::new(), better: Better::Neither, key: None },
            "numbers that hardly repeat".to_owned(),
        )
    }
}

/// Whether a column's name ends in the word version, so that its values are names even if they look like numbers.
pub(super) fn is_version(name: &str) -> bool {
    plain(name).split('_').next_back() == Some("version")
}

/// Whether the values of a column fit the role that its name suggests.
fn fits<'a>(role: &Role, mut values: impl Iterator<Item = &'a Field>) -> bool {
    match role {
        Role::Repeat => values.all(|field| field.number().is_some_and(|number| number >= 0.0 && number.fract() == 0.0)),
        // If most values are times, an error later names the values that are not times.
        Role::Started | Role::CommitTime => {
            let counted = |(count, times): (usize, usize), field: &Field| {
                (count + 1, times + usize::from(moment(field).is_some()))
            };
            let (count, times) = values.fold((0, 0), counted);
            2 * times > count
        }
        _ => true,
    }
}

/// The unit that a column's name contains: `time (ms)`, `time [ms]`, `time_ms`, `tokens/s`, `tokens_per_s`. It is empty if the name may mean
/// a quantity or an amount per unit.
fn unit_of(name: &str) -> Option<String> {
    if let Some(unit) = bits_of(name) {
        return Some(unit);
    }
    let within = |open, close| {
        let (_, rest) = name.rsplit_once(open)?;
        Some(rest.trim().strip_suffix(close)?.trim().replace('\u{3bc}', "\u{b5}"))
    };
    if let Some(unit) = within('(', ')').or_else(|| within('[', ']')).filter(|unit| is_unit(unit)) {
        return Some(unit);
    }
    if let Some(amount) = Amount::of(name) {
        return Some(amount.unit.unwrap_or_default());
    }
    let plain = plain(name);
    ENDINGS.iter().find(|(ending, _)| plain.ends_with(ending)).map(|(_, unit)| (*unit).to_owned())
}

/// The unit in bits that a column's name ends with: `size (Gb)`, `rate [Mib/s]`. Only the case of its last letter distinguishes bits from
/// bytes.
fn bits_of(name: &str) -> Option<String> {
    let name = name.trim().trim_end_matches([')', ']']).trim_end();
    let (name, per) = name.strip_suffix("/s").map_or((name, ""), |rest| (rest, "/s"));
    let word = name.rsplit(|letter: char| !letter.is_ascii_alphanumeric()).next()?;
    let prefix = word.strip_suffix('b').filter(|prefix| ["M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(prefix))?;
    Some(format!("{prefix}bit{per}"))
}

/// Whether a text is a known unit, so that its values can be compared with others.
pub(super) fn is_unit(text: &str) -> bool {
    const BASE: [&str; 5] = ["s", "B", "J", "FLOP", "°C"];
    let unit = MeasureUnit::parse(text);
    !text.is_empty() && (unit.parts().any(|part| BASE.contains(&part)) || unit.is_plain())
}

/// Which values are good, from the name and the unit of a measure.
fn better(name: &str, unit: &str) -> Better {
    let (is_spent, is_harmful) = (SPENT.contains(&unit), has_one_of(name, &HARMFUL));
    match unit {
        _ if is_to_failure(name) || has_one_of(name, &HELPFUL) && !is_harmful => Better::Higher,
        _ if has_one_of(name, &UNTOLD) || is_change(name) || (is_spent || is_harmful) && has_one_of(name, &RATES) => {
            Better::Neither
        }
        _ if is_spent || is_harmful => Better::Lower,
        // Energy per time is a power.
        _ if per_second(unit).is_some() && !MeasureUnit::parse(unit).is_like(&MeasureUnit::parse("W")) => {
            Better::Higher
        }
        _ if is_efficiency(unit) => Better::Higher,
        "W" => named_better(name).unwrap_or(Better::Lower),
        _ => named_better(name).unwrap_or_default(),
    }
}

/// Which values are good, from the name of a measure alone; `None` if it is no known name of a measure.
fn named_better(name: &str) -> Option<Better> {
    let plain = plain(name);
    let words: Vec<&str> = plain.split('_').collect();
    let is_rate = words.windows(2).any(|pair| pair[0] == "per" && ["s", "sec", "second"].contains(&pair[1]));
    let contains = |known: &[&str]| known.iter().any(|word| plain.contains(word));
    match (is_rate || contains(&HIGH), contains(&LOW)) {
        // `time_to_accuracy`, `accuracy_at_time`
        (true, _) if has_one_of(name, &TIMES) => Some(Better::Neither),
        (true, _) => Some(Better::Higher),
        (false, true) => Some(Better::Lower),
        (false, false) => None,
    }
}

/// Whether a name without its unit ends with [`TO_FAILURE`].
fn is_to_failure(name: &str) -> bool {
    without_unit(name).ends_with(TO_FAILURE)
}

/// Whether a name is that of a change, and does not end with a word for a time.
fn is_change(name: &str) -> bool {
    has_one_of(name, &CHANGES) && !TIMES.iter().any(|time| without_unit(name).ends_with(time))
}

/// A name without its unit.
fn without_unit(name: &str) -> String {
    let mut bare = plain(name.split(['(', '[']).next().unwrap_or(name));
    let unit = ENDINGS.iter().map(|(ending, _)| *ending).chain(["_h", "_hours"]).find(|ending| bare.ends_with(*ending));
    bare.truncate(bare.len() - unit.map_or(0, str::len));
    bare
}

/// Whether a name contains one of these words, or several in a row that are joined by `_`.
fn has_one_of(name: &str, words: &[&str]) -> bool {
    let plain = format!("_{}_", plain(name));
    words.iter().any(|word| plain.contains(&format!("_{word}_")))
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
