//! The mapping of a file's columns to what they mean: deduced from names, units and values, shown, and changed by the user.

use std::collections::BTreeSet;

use thiserror::Error;

use super::Role;
use super::moment::moment;
use super::role::is_key;
use super::table::{Field, ForeignTable};
use crate::plan::{Better, MeasureUnit, suggestion};

/// The most distinct texts of a factor. A column with more texts is left out, because its texts are comments or outputs rather than levels.
const MOST_LEVELS: usize = 200;
/// Names of columns that show the column's role, in lower case.
static NAMES: [(&[&str], Role); 7] = [
    (&["repeat", "rep", "run", "trial", "iteration", "replicate", "replication", "sample", "round"], Role::Repeat),
    (&["machine", "host", "hostname", "node"], Role::Machine),
    (&["commit", "git_commit", "git", "sha", "revision", "git_sha", "commit_hash"], Role::Commit),
    (&["commit_time", "commit_date", "committed", "committed_at"], Role::CommitTime),
    (&["started", "start", "start_time", "date", "datetime", "timestamp", "day", "when", "time"], Role::Started),
    (&["session", "build", "nightly", "job", "job_id"], Role::Session),
    (&["id", "index", "comment", "note"], Role::Skip),
];
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
/// Words in the names of measures, with the values that are good.
const MEASURED: [(&str, Better); 12] = [
    ("throughput", Better::Higher),
    ("per_s", Better::Higher),
    ("accuracy", Better::Higher),
    ("speedup", Better::Higher),
    ("score", Better::Higher),
    ("bandwidth", Better::Higher),
    ("loss", Better::Lower),
    ("error", Better::Lower),
    ("latency", Better::Lower),
    ("duration", Better::Lower),
    ("time", Better::Lower),
    ("memory", Better::Lower),
];
/// Words in the names of measures of which few are good, whatever is measured in them: `errors/s`, `missed_bytes`.
const HARMFUL: [&str; 20] = [
    "drop", "dropped", "drops", "error", "errors", "failed", "failure", "failures", "fault", "faults", "loss",
    "losses", "lost", "miss", "missed", "misses", "retries", "retry", "stall", "stalls",
];
/// Words in the names of measures whose good values the name does not tell: `free memory (GB)`, `uptime_s`.
const UNTOLD: [&str; 9] =
    ["available", "free", "life", "lifetime", "remaining", "saved", "saving", "savings", "uptime"];

/// What each column of a file means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The name of the workload that was measured. Cells of files with the same name, factors and levels are the same
    /// cells.
    pub name: String,
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
        let name = if table.format == "hyperfine" { "hyperfine" } else { "imported" };
        let mut mapping = Self { name: name.to_owned(), columns };
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

    /// Applies a map: TOML with `name` and a table `[columns]`.
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
                    return Err(MappingError(format!("unknown key {other:?}: a map has `name` and `[columns]`")));
                }
            }
        }
        Ok(())
    }

    /// The mapping as TOML, which [`Self::change`] reads.
    pub fn toml(&self) -> String {
        let columns: toml::Table =
            self.columns.iter().map(|(name, role, _)| (name.clone(), toml::Value::String(role.to_string()))).collect();
        let mut table = toml::Table::new();
        table.insert("name".to_owned(), toml::Value::String(self.name.clone()));
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
    let is_number = values().all(|field| field.number().is_some());
    let count = values().map(Field::text).collect::<BTreeSet<_>>().len();
    let factor = |unit: &str| Role::Factor { unit: unit.to_owned(), key: None };
    if !is_number {
        // A column of a measure may have texts among its numbers by mistake. A later error names their lines.
        let numbers = values().filter(|field| field.number().is_some()).count();
        if let Some(unit) = unit_of(name).filter(|_| numbers > 0) {
            return (
                Role::Measure { better: better(name, &unit), unit, key: None },
                "by the unit in its name".to_owned(),
            );
        }
        return match count {
            1..=MOST_LEVELS => (factor(""), "names".to_owned()),
            _ => (Role::Skip, format!("more than {MOST_LEVELS} different texts")),
        };
    }
    if let Some(unit) = unit_of(name) {
        return (Role::Measure { better: better(name, &unit), unit, key: None }, "by the unit in its name".to_owned());
    }
    if MEASURED.iter().any(|(word, _)| plain.contains(word)) {
        return (Role::Measure { better: better(name, ""), unit: String::new(), key: None }, "by its name".to_owned());
    }
    let is_whole = values().all(|field| field.number().is_some_and(|number| number.fract() == 0.0));
    if is_whole || 3 * count <= table.rows.len() {
        (factor(""), "numbers that repeat, or whole numbers".to_owned())
    } else {
        (
            Role::Measure { unit: String::new(), better: Better::Neither, key: None },
            "numbers that hardly repeat".to_owned(),
        )
    }
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

/// A name in small letters, with `_` for everything else.
pub(super) fn plain(name: &str) -> String {
    let letters: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' })
        .collect();
    let mut words: Vec<&str> = letters.split('_').collect();
    words.retain(|word| !word.is_empty());
    words.join("_")
}

/// The unit that a column's name contains: `time (ms)`, `time [ms]`, `time_ms`, `tokens/s`, `tokens_per_s`.
fn unit_of(name: &str) -> Option<String> {
    if let Some(unit) = bits_of(name) {
        return Some(unit);
    }
    let within = |open, close| {
        let (_, rest) = name.rsplit_once(open)?;
        Some(rest.trim().strip_suffix(close)?.trim().to_owned())
    };
    if let Some(unit) = within('(', ')').or_else(|| within('[', ']')).filter(|unit| is_unit(unit)) {
        return Some(unit);
    }
    let plain = plain(name);
    for ending in ["_per_s", "_per_second", "_per_sec"] {
        if let Some(counted) = plain.strip_suffix(ending) {
            return Some(format!("{}/s", counted.rsplit('_').next().unwrap_or(counted)));
        }
    }
    if let Some((counted, "s")) = name.trim().rsplit_once('/') {
        return Some(format!("{}/s", plain_word(counted)));
    }
    ENDINGS.iter().find(|(ending, _)| plain.ends_with(ending)).map(|(_, unit)| (*unit).to_owned())
}

/// The unit in bits that a column's name ends with: `size (Gb)`, `rate [Mb/s]`. Only the case of its last letter distinguishes bits from
/// bytes.
fn bits_of(name: &str) -> Option<String> {
    let name = name.trim().trim_end_matches([')', ']']).trim_end();
    let (name, per) = name.strip_suffix("/s").map_or((name, ""), |rest| (rest, "/s"));
    let word = name.rsplit(|letter: char| !letter.is_ascii_alphanumeric()).next()?;
    let prefix = word.strip_suffix('b').filter(|prefix| ["M", "G", "T"].contains(prefix))?;
    Some(format!("{prefix}bit{per}"))
}

fn plain_word(text: &str) -> String {
    plain(text).rsplit('_').next().unwrap_or_default().to_owned()
}

/// Whether a text is a known unit, so that its values can be compared with others.
pub(super) fn is_unit(text: &str) -> bool {
    const BASE: [&str; 5] = ["s", "B", "J", "FLOP", "°C"];
    let unit = MeasureUnit::parse(text);
    !text.is_empty() && (unit.parts().any(|part| BASE.contains(&part)) || unit.is_plain())
}

/// Which values are good, from the name and the unit of a measure.
fn better(name: &str, unit: &str) -> Better {
    let plain = plain(name);
    let named = MEASURED.iter().find(|(word, _)| plain.contains(word)).map(|(_, better)| *better);
    let has_one_of = |words: &[&str]| plain.split('_').any(|word| words.contains(&word));
    match unit {
        _ if has_one_of(&UNTOLD) => Better::Neither,
        _ if has_one_of(&HARMFUL) => Better::Lower,
        _ if unit.ends_with("/s") => Better::Higher,
        _ if named.is_some() => named.unwrap_or_default(),
        "s" | "ms" | "µs" | "us" | "ns" | "min" | "h" | "B" | "kB" | "MB" | "GB" | "KiB" | "MiB" | "GiB" | "J"
        | "W" => Better::Lower,
        _ => Better::Neither,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::import::read_bytes;

    fn roles(text: &str) -> Vec<(String, String)> {
        let table = read_bytes(text.as_bytes()).unwrap();
        Mapping::deduced(&table).columns.into_iter().map(|(name, role, _)| (name, role.to_string())).collect()
    }

    fn roles_of(text: &str) -> Vec<String> {
        roles(text).into_iter().map(|(_, role)| role).collect()
    }

    #[test]
    fn roles_are_deduced_from_names_units_and_values() {
        let text = "kernel,threads,Repeat,Time (ms),memory_mb,tokens_per_s,accuracy,host,commit,date,remark\n\
                    a,1,1,1.5,10,3.5,0.5,n1,12345678,2026-11-26,\nb,2,2,1.6,11,3.6,0.6,n1,12345678,2026-11-27,\n";
        let expected = [
            "factor",
            "factor",
            "repeat",
            "measure ms lower",
            "measure MB lower",
            "measure tokens/s higher",
            "measure higher",
            "machine",
            "commit",
            "started",
            "skip",
        ];
        assert_eq!(roles_of(text), expected);
        // A column with the name `time` is a measure if its values are not times of day.
        assert_eq!(roles_of("time,x\n0.5,1\n0.6,1\n"), ["measure lower", "factor"]);
        // `time_min` is a minimum, not a number of minutes.
        assert_eq!(roles_of("latency_min,b_minutes\n0.51,1.5\n0.62,2.5\n"), ["measure lower", "measure min lower"]);
        // Numbers that rarely occur twice are a measure. A text among numbers with a unit does not make the column a factor; it causes an
        // error later.
        assert_eq!(roles_of("a,b_s\n0.51,1\n0.62,oops\n0.7,2\n"), ["measure", "measure s lower"]);
    }

    #[test]
    fn bits_and_bytes_are_told_apart_by_the_case_of_their_letter() {
        let text = "size (Gb),size_GB,rate [Mb/s],gb\n1.5,2.5,3.5,4.5\n1.6,2.6,3.6,4.6\n";
        let expected = ["measure Gbit", "measure GB lower", "measure Mbit/s higher", "measure"];
        assert_eq!(roles_of(text), expected);
    }

    #[test]
    fn errors_a_second_are_better_if_low_and_what_is_left_or_saved_has_no_better_direction() {
        for name in [
            "errors/s",
            "cache misses/s",
            "dropped packets/s",
            "retries_per_s",
            "page faults/s",
            "lost (MB/s)",
            "failures (B)",
        ] {
            let role = roles_of(&format!("{name}\n0.51\n0.62\n")).remove(0);
            assert!(role.starts_with("measure ") && role.ends_with(" lower"), "{name}: {role}");
        }
        for name in
            ["free memory (GB)", "memory_saved_GB", "time_saved_s", "uptime_s", "battery life (min)", "remaining/s"]
        {
            let role = roles_of(&format!("{name}\n0.51\n0.62\n")).remove(0);
            assert!(
                role.starts_with("measure ") && !role.ends_with(" lower") && !role.ends_with(" higher"),
                "{name}: {role}"
            );
        }
        let others = "lossless (MB/s),frequency_s,tokens/s\n0.51,1.5,2.5\n0.62,1.6,2.6\n";
        assert_eq!(roles_of(others), ["measure MB/s higher", "measure s lower", "measure tokens/s higher"]);
    }

    #[test]
    fn a_map_changes_roles_and_is_written_as_it_is_read() {
        let table = read_bytes(b"a,b\n1,2\n").unwrap();
        let mut mapping = Mapping::deduced(&table);
        mapping.change("name = \"sorting\"\n[columns]\na = \"measure s lower\"\n").unwrap();
        assert_eq!(
            (mapping.name.as_str(), mapping.columns[0].1.to_string()),
            ("sorting", "measure s lower".to_owned())
        );
        let mut again = Mapping::deduced(&table);
        again.change(&mapping.toml()).unwrap();
        assert_eq!(again.toml(), mapping.toml());
        let wrong = |toml: &str| Mapping::deduced(&table).change(toml).unwrap_err().to_string();
        assert!(wrong("[columns]\nc = \"skip\"").starts_with("the file has no column \"c\""));
        assert!(wrong("[columns]\na = \"skap\"").starts_with("column \"a\": unknown role \"skap\""));
        assert!(wrong("nam = 1").starts_with("unknown key \"nam\""));
        assert!(wrong("[columns").contains("line 1"));
    }

    #[test]
    fn commands_of_hyperfine_are_left_out_where_parameters_tell_them_apart() {
        let text = r#"{"results": [{"command": "s 1", "times": [1.0, 1.1], "parameters": {"n": "1"}},
            {"command": "s 2", "times": [2.0, 2.1], "parameters": {"n": "2"}}]}"#;
        assert_eq!(roles_of(text), ["skip", "factor", "repeat", "measure s lower"]);
        let text = r#"{"results": [{"command": "a", "times": [1.0, 1.1]}, {"command": "b", "times": [2.0]}]}"#;
        assert_eq!(roles_of(text), ["factor", "repeat", "measure s lower"]);
    }
}
