//! Problems of a plan file, reported with their place and a remedy.

use std::io;
use std::ops::Range;

use thiserror::Error;

use super::counted;
use crate::foreign;

/// Problems beyond these are counted, not shown.
const SHOWN: usize = 20;
/// Longer names are cut in messages and get no suggestion of a similar name.
const LONGEST_NAME: usize = 64;

/// Longest name of a plan or a study, in characters.
const LONGEST_OWN_NAME: usize = 200;
/// The rule that [`is_name`] checks, for messages.
pub const NAME_RULE: &str = "a name needs letters, at most 200 characters, and no line breaks, control characters or characters that change the writing \
         direction";

/// The most names that a message lists.
const MOST_NAMED: usize = 24;

/// Whether a text can be the name of a plan or a study.
pub fn is_name(name: &str) -> bool {
    let misleads = |letter: char| letter.is_control() || foreign::misleads(letter);
    !name.trim().is_empty() && !name.contains(misleads) && name.chars().nth(LONGEST_OWN_NAME).is_none()
}

/// Why a plan cannot be used.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The file could not be read.
    #[error("cannot read the plan {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is far larger than any plan.
    #[error("{path} is larger than {limit_bytes} bytes: it is not a plan")]
    TooLarge {
        /// The file.
        path: String,
        /// The largest size that is read.
        limit_bytes: u64,
    },
    /// The text is not a plan of this version; at least one problem, in the order of lines.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
}

/// One thing that is wrong in a plan's text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{origin}:{line}: {}{message}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct Problem {
    /// Where the text came from: the file's path.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// The key with its table, such as `factors.precision`; empty where the text is not TOML.
    pub key: String,
    /// What was found and what to do.
    pub message: String,
}

/// Collects problems, and knows the text that they occur in.
pub(super) struct Problems<'a> {
    origin: &'a str,
    text: &'a str,
    found: Vec<Problem>,
    more: usize,
}

impl<'a> Problems<'a> {
    pub(super) fn new(origin: &'a str, text: &'a str) -> Self {
        Self { origin, text, found: Vec::new(), more: 0 }
    }

    /// The line, from 1, of a place in the text.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    pub(super) fn add(&mut self, span: &Range<usize>, key: impl Into<String>, message: impl Into<String>) {
        if self.found.len() == SHOWN {
            self.more += 1;
            return;
        }
        let line = self.line(span);
        self.found.push(Problem { origin: self.origin.to_owned(), line, key: key.into(), message: message.into() });
    }

    /// Whether a problem was already reported for a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.found.iter().any(|problem| problem.key == key)
    }

    pub(super) fn any(&self) -> bool {
        !self.found.is_empty()
    }

    pub(super) fn into_error(mut self) -> PlanError {
        self.found.sort_by_key(|problem| problem.line);
        if let (Some(last), more @ 1..) = (self.found.last_mut(), self.more) {
            last.message.push_str(&format!(" (and {})", counted(more, "more problem")));
        }
        PlanError::Invalid(self.found)
    }
}

/// `; did you mean "fp32"?`, or the list of all names if none is similar.
pub fn suggestion<S: AsRef<str>>(name: &str, choice: &[S]) -> String {
    match nearest(name, choice) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => format!("; there are {}", first_names(choice)),
    }
}

/// The first of these names, and how many more there are.
pub(super) fn first_names<S: AsRef<str>>(names: &[S]) -> String {
    let named: Vec<&str> = names.iter().take(MOST_NAMED).map(S::as_ref).collect();
    let more = names.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

fn nearest<'a, S: AsRef<str>>(name: &str, choice: &'a [S]) -> Option<&'a str> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let name = plain(name);
    let distance = |right: &&str| strsim::damerau_levenshtein(&name, &plain(right));
    let near = choice.iter().map(S::as_ref).min_by_key(|right| distance(right))?;
    // A third of the letters may be wrong; in short names one letter.
    if distance(&near) <= (near.len() / 3).max(1) {
        return Some(near);
    }
    // Or the name contains it as a word: `batch` in `batch_size`.
    let has_word = |right: &&str| plain(right).split('_').any(|word| word == name);
    choice.iter().map(S::as_ref).filter(has_word).min_by_key(|right| right.len()).filter(|_| name.len() > 2)
}

/// A name for a message: in quotes, and cut if it is long.
pub(super) fn quoted(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}
