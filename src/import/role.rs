//! What a column of a file means: `factor`, `factor MB`, `measure ms lower as step_time_s`, `repeat`, `machine`, `commit`, `commit time`,
//! `started`, `session`, `unit`, `skip`.

use std::fmt;

use crate::plan::{Better, suggestion};
use crate::store::REPEAT_ROLE;

/// The meaning of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A factor, with the unit of its levels.
    Factor {
        /// The unit; empty for names and counts.
        unit: String,
        /// Its key, if it is not made from the column's name.
        key: Option<String>,
    },
    /// A measure.
    Measure {
        /// The unit of its values; empty for plain numbers.
        unit: String,
        /// Which values are good.
        better: Better,
        /// Its key, if it is not made from the column's name.
        key: Option<String>,
    },
    /// The number of the repeat.
    Repeat,
    /// The name of the machine.
    Machine,
    /// The git commit of what was measured.
    Commit,
    /// When that commit was made.
    CommitTime,
    /// When the run was started. If all values are days, each day is a session of its own.
    Started,
    /// Which session the run belongs to, such as the number of a nightly build.
    Session,
    /// The units of the values in other columns.
    Unit,
    /// Nothing: the column is left out.
    Skip,
}

/// The words of roles without details.
static PLAIN: [(&str, Role); 8] = [
    (REPEAT_ROLE, Role::Repeat),
    ("machine", Role::Machine),
    ("commit", Role::Commit),
    ("commit time", Role::CommitTime),
    ("started", Role::Started),
    ("session", Role::Session),
    ("unit", Role::Unit),
    ("skip", Role::Skip),
];

impl Role {
    /// The first words of all roles, for choices.
    pub const WORDS: [&'static str; 10] =
        ["factor", "measure", REPEAT_ROLE, "machine", "commit", "commit time", "started", "session", "unit", "skip"];

    /// Reads a role.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some((_, role)) = PLAIN.iter().find(|(word, _)| *word == text) {
            return Ok(role.clone());
        }
        let (text, key) = match text.split_once(" as ") {
            Some((text, key)) => (text.trim(), Some(key.trim().to_owned())),
            None => (text, None),
        };
        if let Some(key) = key.as_deref().filter(|key| !is_key(key)) {
            return Err(format!("{key:?} cannot be a key: use small letters, digits and _, beginning with a letter"));
        }
        let mut words = text.split_whitespace();
        match words.next() {
            Some("factor") => Ok(Self::Factor { unit: words.collect::<Vec<_>>().join(" "), key }),
            Some("measure") => {
                let mut words: Vec<&str> = words.collect();
                let better = words.last().and_then(|word| word.parse::<Better>().ok());
                if better.is_some() {
                    words.pop();
                }
                Ok(Self::Measure { unit: words.join(" "), better: better.unwrap_or_default(), key })
            }
            word => Err(format!("unknown role {:?}{}", word.unwrap_or_default(), suggestion(text, &Self::WORDS))),
        }
    }

    /// The first word, or words, of the role.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Factor { .. } => "factor",
            Self::Measure { .. } => "measure",
            plain => PLAIN.iter().find(|(_, role)| role == plain).map_or("skip", |(word, _)| *word),
        }
    }
}

/// Whether a text can be the key of a factor or a measure.
pub(super) fn is_key(text: &str) -> bool {
    let mut letters = text.chars();
    text.len() <= 64
        && letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_')
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        let (unit, better, key) = match self {
            Self::Factor { unit, key } => (unit.as_str(), Better::Neither, key),
            Self::Measure { unit, better, key } => (unit.as_str(), *better, key),
            _ => return Ok(()),
        };
        if !unit.is_empty() {
            write!(f, " {unit}")?;
        }
        if better != Better::Neither {
            write!(f, " {}", better.name())?;
        }
        key.as_ref().map_or(Ok(()), |key| write!(f, " as {key}"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        for text in [
            "factor",
            "factor MB",
            "measure ms lower as step_time_s",
            "measure",
            "measure tokens/s higher",
            "commit time",
            "unit",
            "skip",
        ] {
            assert_eq!(Role::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Role::parse("measure neither").unwrap().to_string(), "measure");
        assert!(Role::parse("mesure s").unwrap_err().starts_with("unknown role \"mesure\""));
        assert!(Role::parse("measure s as Step Time").unwrap_err().contains("cannot be a key"));
    }
}
