//! Filters: a small language that selects runs and cells on every screen and command, and combinations of levels in plans.
//!
//! ```text
//! filter = group { ("and" | "or") group }      "and" binds tighter than "or"
//! group  = term { term }                       side by side means "and", and binds tightest
//! term   = "not" term | "(" filter ")" | pair | word
//! pair   = key ("=" | "!=" | "<" | "<=" | ">" | ">=") value
//! ```
//!
//! A word matches anywhere in the text of a thing, ignoring case; a number does not match within a longer number, so
//! that `0.01` does not find `0.0123`. Values are compared as numbers if levels are numbers, and as days if both
//! have the form `2026-11-26`. Otherwise they are compared as names, in which only letters, digits and dots count:
//! `Timed out`, `timed_out` and `timed-out` are equal. Names that look like numbers are equal only if all letters are:
//! `1.1` is not the version `1.10`. A value that is exactly the name of a level of one of the things
//! means no other level: `A` is not `a` if both exist. A thing without a key equals none of its values. Names have no
//! order: `version>=2` is refused where levels of `version` are names. Names and values with spaces, parentheses or
//! comparison signs are quoted, `"…"` or `'…'`; a backslash escapes the quote.
//!
//! A key means a factor or another property of things, such as `plan` of a run. If a factor has the key of such a
//! property, `factor_plan` is the factor. If a factor of a cell has the key of a setting, `cell` is the factor, and
//! `setting_cell` the setting.
//!
//! Several `key=value` pairs of one key in a group mean one of these values: `precision=fp16 precision=bf16 gpus=4` is
//! `(precision=fp16 or precision=bf16) and gpus=4`. With `and` between them, a thing would need both values, which no thing has.

mod parser;
mod unordered;

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

use super::level::Level;
use parser::{Keyword, Parser, Placed, Token};

pub use unordered::Unordered;

/// Anything that a filter can be applied to.
pub trait Facts {
    /// The level of a key, which is a factor or another property.
    fn level(&self, key: &str) -> Option<Level>;

    /// Whether any level of a key meets a condition, for things that have several levels.
    fn any_level(&self, key: &str, meets: &mut dyn FnMut(&Level) -> bool) -> bool {
        self.level(key).is_some_and(|level| meets(&level))
    }

    /// Whether the text of the thing contains a lower-case word.
    fn mentions(&self, word: &str) -> bool;
}

/// Filters on levels only, without a text: words never match.
impl<F: Fn(&str) -> Option<Level>> Facts for F {
    fn level(&self, key: &str) -> Option<Level> {
        self(key)
    }

    fn mentions(&self, _word: &str) -> bool {
        false
    }
}

/// Whether a text in lower case contains a word; see the grammar above.
pub fn mentions(text: &str, word: &str) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    if !word.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return text.contains(word);
    }
    let stands_alone = |at: usize| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + word.len()..].chars();
        let (next, second) = (after.next(), after.next());
        !(digit(before) || before == Some('.') || digit(next) || next == Some('.') && digit(second))
    };
    text.match_indices(word).any(|(at, _)| stands_alone(at))
}

/// A condition on runs, cells or combinations of levels. The empty filter admits everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter(Option<Term>);

/// A syntax error in a filter, or an unknown key or level.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("character {position}: {found}: {remedy}")]
pub struct FilterError {
    /// Position in the text in characters, from 1.
    pub position: usize,
    /// What was found at this position.
    pub found: String,
    /// What to do.
    pub remedy: String,
}

/// The values that a key may be compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Known<'a> {
    /// These names.
    Names(Vec<&'a str>),
    /// Numbers.
    Number,
    /// Any text.
    Text,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    /// A word, in lower case.
    Word(String),
    Pair(String, Comparison, Operand),
    Not(Box<Term>),
    /// Two terms or more, none of them `All`.
    All(Vec<Term>),
    /// Two terms or more, none of them `Any`.
    Any(Vec<Term>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    /// Longer signs come first: `<=` begins with `<`.
    const ALL: [(Self, &'static str); 6] = [
        (Self::NotEqual, "!="),
        (Self::AtMost, "<="),
        (Self::AtLeast, ">="),
        (Self::Equal, "="),
        (Self::Less, "<"),
        (Self::Greater, ">"),
    ];

    fn sign(self) -> &'static str {
        Self::ALL.into_iter().find(|(known, _)| *known == self).map_or("=", |(_, sign)| sign)
    }

    fn is_order(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

/// The value of a pair, parsed once.
#[derive(Clone, Debug, PartialEq)]
struct Operand {
    text: String,
    number: Option<f64>,
    name: String,
    /// Whether a level has exactly this name, so that no other level is meant.
    is_exact: bool,
}

impl Operand {
    fn new(text: String) -> Self {
        Self { number: number(&text), name: plain(&text), text, is_exact: false }
    }

    /// Chooses only the level with exactly this name, if it is among these names.
    fn narrow<'l>(&mut self, mut names: impl Iterator<Item = &'l str>) {
        self.is_exact = names.any(|name| name == self.text);
    }

    /// How a level compares with the value; `None` if they are neither numbers nor days.
    fn order_of(&self, level: &Level) -> Option<Ordering> {
        match level.as_text().filter(|day| is_day(day) && is_day(&self.text)) {
            Some(day) => Some(day.cmp(self.text.as_str())),
            None => level.as_number()?.partial_cmp(&self.number?),
        }
    }

    fn equals(&self, level: &Level) -> bool {
        let Level::Text(name) = level else {
            return self.number.is_some() && self.number == level.as_number();
        };
        // Names that look like numbers may be versions, of which 1.1 is not 1.10.
        let is_by_letter = self.is_exact || self.name.is_empty() || self.number.is_some() || number(name).is_some();
        if is_by_letter { self.text == name.as_ref() } else { self.name == plain(name) }
    }
}

/// Whether a text is a day in the form `2026-11-26`.
fn is_day(text: &str) -> bool {
    let is_place =
        |(place, byte): (usize, u8)| if place == 4 || place == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(is_place)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A name normalised for comparison: lower-case letters, digits and dots.
fn plain(text: &str) -> String {
    let is_part_of_word = |c: &char| c.is_alphanumeric() || *c == '.';
    text.chars().filter(is_part_of_word).flat_map(char::to_lowercase).collect()
}

impl Filter {
    /// Parses a complete filter.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Parser::new(text, false, None)?.filter()
    }

    /// Parses a filter that is being typed: an unfinished end, such as `gpus=` or `precision=fp16 or`, is ignored.
    pub fn typed(text: &str) -> Result<Self, FilterError> {
        Parser::new(text, true, None)?.filter()
    }

    /// Parses a complete filter that may use only these keys and levels, and no words.
    pub fn parse_known(text: &str, known: &[(&str, Known)]) -> Result<Self, FilterError> {
        Parser::new(text, false, Some(known))?.filter()
    }

    /// The filter among these things: a value that is exactly the name of one of their levels means no other level. Everything that chooses
    /// from a list is to choose by this.
    ///
    /// # Errors
    /// It compares levels of these things by their order, and some of these levels have none.
    pub fn among<'f, F: Facts + 'f>(
        mut self,
        things: &(impl Iterator<Item = &'f F> + Clone),
    ) -> Result<Self, Unordered> {
        let mut unordered = None;
        if let Some(term) = &mut self.0 {
            term.narrow(&mut |key, comparison, value| {
                if comparison.is_order() {
                    unordered = unordered.take().or_else(|| Unordered::find(key, comparison, value, things.clone()));
                    return;
                }
                let mut is_named = |level: &Level| level.as_text() == Some(value.text.as_str());
                value.is_exact = things.clone().any(|thing| any_level(thing, key, &mut is_named));
            });
        }
        unordered.map_or(Ok(self), Err)
    }

    /// Whether the filter is empty and therefore admits everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the filter admits a thing.
    pub fn admits(&self, facts: &dyn Facts) -> bool {
        self.0.as_ref().is_none_or(|term| term.holds(facts))
    }

    /// The keys and levels of a filter that asks for levels alone, all of which must be met: `precision=fp32 and gpus=1`. `None` if it asks
    /// for anything else.
    pub fn levels(&self) -> Option<Vec<(String, String)>> {
        let terms = match self.0.as_ref()? {
            Term::All(terms) => terms.as_slice(),
            term => std::slice::from_ref(term),
        };
        let level = |term: &Term| match term {
            Term::Pair(key, Comparison::Equal, value) => Some((key.clone(), value.text.clone())),
            _ => None,
        };
        terms.iter().map(level).collect()
    }

    /// The keys that the filter compares, each once.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys = Vec::new();
        if let Some(term) = &self.0 {
            term.visit(&mut |term| {
                if let Term::Pair(key, ..) = term
                    && !keys.contains(&key.as_str())
                {
                    keys.push(key);
                }
            });
        }
        keys
    }
}

impl Filter {
    /// The number of words and pairs in the filter.
    pub(super) fn comparisons(&self) -> usize {
        let mut comparisons = 0;
        if let Some(term) = &self.0 {
            term.visit(&mut |term| comparisons += usize::from(matches!(term, Term::Word(_) | Term::Pair(..))));
        }
        comparisons
    }

    /// The pairs `key=value` whose value no thing has, each once. `levels` gives the existing levels of a key.
    pub fn unmet(&self, mut levels: impl FnMut(&str) -> Vec<Level>) -> Vec<(&str, &str)> {
        let mut unmet: Vec<(&str, &str)> = Vec::new();
        let Some(term) = &self.0 else { return unmet };
        term.visit(&mut |term| {
            if let Term::Pair(key, Comparison::Equal, value) = term
                && !unmet.contains(&(key, &value.text))
                && !levels(key).iter().any(|level| value.equals(level))
            {
                unmet.push((key, &value.text));
            }
        });
        unmet
    }
}

impl Term {
    fn visit<'a>(&'a self, seen: &mut dyn FnMut(&'a Self)) {
        seen(self);
        match self {
            Self::Word(_) | Self::Pair(..) => {}
            Self::Not(term) => term.visit(seen),
            Self::All(terms) | Self::Any(terms) => terms.iter().for_each(|term| term.visit(seen)),
        }
    }

    /// Calls `each` with the key, the comparison and the value of every pair.
    fn narrow(&mut self, each: &mut dyn FnMut(&str, Comparison, &mut Operand)) {
        match self {
            Self::Word(_) => {}
            Self::Pair(key, comparison, value) => each(key, *comparison, value),
            Self::Not(term) => term.narrow(each),
            Self::All(terms) | Self::Any(terms) => terms.iter_mut().for_each(|term| term.narrow(each)),
        }
    }

    fn holds(&self, facts: &dyn Facts) -> bool {
        match self {
            Self::Word(word) => facts.mentions(word),
            Self::Pair(key, comparison, value) => compare(facts, key, *comparison, value),
            Self::Not(term) => !term.holds(facts),
            Self::All(terms) => terms.iter().all(|term| term.holds(facts)),
            Self::Any(terms) => terms.iter().any(|term| term.holds(facts)),
        }
    }

    /// Joins terms into one; `None` for an empty list.
    fn all(terms: Vec<Self>) -> Option<Self> {
        let flat = |term| if let Self::All(terms) = term { terms } else { vec![term] };
        join(terms.into_iter().flat_map(flat).collect(), Self::All)
    }

    fn any(terms: Vec<Self>) -> Option<Self> {
        let flat = |term| if let Self::Any(terms) = term { terms } else { vec![term] };
        join(terms.into_iter().flat_map(flat).collect(), Self::Any)
    }
}

fn join(mut terms: Vec<Term>, several: fn(Vec<Term>) -> Term) -> Option<Term> {
    if terms.len() > 1 { Some(several(terms)) } else { terms.pop() }
}

/// Whether any level of a key meets a condition. The key is looked up as written, then in lower case; `gpu` means `gpus`.
fn any_level(facts: &dyn Facts, key: &str, meets: &mut dyn FnMut(&Level) -> bool) -> bool {
    let lower = key.to_lowercase();
    let known = [key, &lower, if lower == "gpu" { "gpus" } else { "" }];
    let known = known.into_iter().find(|key| facts.any_level(key, &mut |_| true));
    known.is_some_and(|key| facts.any_level(key, meets))
}

fn compare(facts: &dyn Facts, key: &str, comparison: Comparison, value: &Operand) -> bool {
    let any = |meets: &mut dyn FnMut(&Level) -> bool| any_level(facts, key, meets);
    let ordered = |holds: fn(Ordering) -> bool| any(&mut |level| value.order_of(level).is_some_and(holds));
    match comparison {
        Comparison::Equal => any(&mut |level| value.equals(level)),
        Comparison::NotEqual => !any(&mut |level| value.equals(level)),
        Comparison::Less => ordered(Ordering::is_lt),
        Comparison::AtMost => ordered(Ordering::is_le),
        Comparison::Greater => ordered(Ordering::is_gt),
        Comparison::AtLeast => ordered(Ordering::is_ge),
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |term| term.write(f, 0))
    }
}

impl Term {
    /// Writes the term, in parentheses if the surrounding operator needs them. `around` is how tightly that operator binds: 0 (none), 1
    /// (`or`), 2 (`and`) or 3 (`not`).
    fn write(&self, f: &mut fmt::Formatter<'_>, around: u8) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, terms: &[Self], word: &str, own: u8| {
            let enclosed = around > own;
            f.write_str(if enclosed { "(" } else { "" })?;
            for (place, term) in terms.iter().enumerate() {
                f.write_str(if place > 0 { word } else { "" })?;
                term.write(f, own + 1)?;
            }
            f.write_str(if enclosed { ")" } else { "" })
        };
        match self {
            Self::Word(word) => f.write_str(&quoted(word)),
            Self::Pair(key, comparison, value) => {
                write!(f, "{}{}{}", quoted(key), comparison.sign(), quoted(&value.text))
            }
            Self::Not(term) => {
                f.write_str("not ")?;
                term.write(f, 3)
            }
            Self::All(terms) => joined(f, terms, " and ", 2),
            Self::Any(terms) => joined(f, terms, " or ", 1),
        }
    }
}

/// A word, key or value as filter text, quoted if necessary.
pub fn quoted(text: &str) -> String {
    let bare = Token::all(text).is_ok_and(
        |tokens| matches!(tokens.as_slice(), [(_, Token::Text { text: read, quoted: false })] if read == text),
    );
    // After a "!" the comparison "=" would be read as "!=".
    if bare && !text.contains('!') && Keyword::of(text).is_none() {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The parts of a text between commas. A comma in a quoted name or value, as filters have them, separates nothing.
pub fn between_commas(text: &str) -> Vec<String> {
    let is_quoted = |(_, token): &Placed| matches!(token, Token::Text { quoted: true, .. });
    let tokens = Token::all(text).unwrap_or_default();
    let quoted: Vec<(usize, usize)> = tokens.into_iter().filter(is_quoted).map(|(place, _)| place).collect();
    let (mut parts, mut part) = (Vec::new(), String::new());
    for (place, letter) in text.chars().enumerate() {
        if letter == ',' && !quoted.iter().any(|(start, end)| (*start..*end).contains(&place)) {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(letter);
        }
    }
    parts.push(part);
    parts
}

/// The text of a filter with a further required pair added, or removed if it is present.
pub fn toggled(text: &str, pair: &str) -> String {
    let without: Vec<&str> = text.split_whitespace().filter(|term| *term != pair).collect();
    if without.len() < text.split_whitespace().count() {
        return without.join(" ");
    }
    let mut depth = 0_usize;
    let is_or = |(_, token): &(_, Token)| {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            Token::Compare(_) | Token::Text { .. } => {}
        }
        let or = matches!(token, Token::Text { text, quoted: false } if Keyword::of(text) == Some(Keyword::Or));
        depth == 0 && or
    };
    let or = Token::all(text).is_ok_and(|tokens| tokens.iter().any(is_or));
    let text = text.trim();
    match (text.is_empty(), or) {
        (true, _) => pair.to_owned(),
        (false, true) => format!("({text}) {pair}"),
        (false, false) => format!("{text} {pair}"),
    }
}

/// Whether the text of a filter contains the pair that [`toggled`] adds and removes.
pub fn holds(text: &str, pair: &str) -> bool {
    text.split_whitespace().any(|term| term == pair)
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
