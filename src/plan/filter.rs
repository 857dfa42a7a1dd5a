//! Filters: one small language that chooses runs and cells on every screen and command, and combinations of levels in plans.
//!
//! ```text
//! filter = group { ("and" | "or") group }      "and" binds tighter than "or"
//! group  = term { term }                       side by side means "and", and binds tightest
//! term   = "not" term | "(" filter ")" | pair | word
//! pair   = key ("=" | "!=" | "<" | "<=" | ">" | ">=") value
//! ```
//!
//! A word is looked for anywhere in the text of a thing, whatever its case. Values are compared as numbers where both
//! sides are numbers; otherwise as names, of which only letters, digits and dots count: `Timed out`, `timed_out` and
//! `timed-out` are the same. What lacks a key is not equal to any of its values. Names and values with spaces,
//! parentheses or comparisons in them stand in quotes, `"…"` or `'…'`, in which a backslash keeps the quote itself.
//!
//! Several `key=value` pairs of one key in a group mean one of these values: `precision=fp16 precision=bf16 gpus=4` is
//! `(precision=fp16 or precision=bf16) and gpus=4`. With `and` between them they must hold both, which no level does.

use std::fmt;

use thiserror::Error;

use super::level::Level;
use super::problem::{quoted as shown, suggestion};

/// Parentheses and `not` within each other beyond this are refused.
const DEEPEST: usize = 64;

/// What a filter asks of a thing.
pub trait Facts {
    /// The level of a key: of a factor, or of what else the thing has.
    fn level(&self, key: &str) -> Option<Level>;

    /// Whether the thing's text holds a word, which is in lower case.
    fn mentions(&self, word: &str) -> bool;
}

/// Levels alone; there is no text for words to match.
impl<F: Fn(&str) -> Option<Level>> Facts for F {
    fn level(&self, key: &str) -> Option<Level> {
        self(key)
    }

    fn mentions(&self, _word: &str) -> bool {
        false
    }
}

/// A condition that runs, cells or combinations of levels meet or not. The empty filter admits everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter(Option<Term>);

/// What is wrong with a filter's text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("character {position}: {found}: {remedy}")]
pub struct FilterError {
    /// The place in the text in characters, from 1.
    pub position: usize,
    /// What was found there.
    pub found: String,
    /// What to do.
    pub remedy: String,
}

/// What a key may be compared with, where that is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Known<'a> {
    /// These names.
    Names(Vec<&'a str>),
    /// Numbers.
    Number,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    /// In lower case.
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

/// The value of a pair, read once.
#[derive(Clone, Debug, PartialEq)]
struct Operand {
    text: String,
    number: Option<f64>,
    name: String,
}

impl Operand {
    fn new(text: String) -> Self {
        Self { number: number(&text), name: plain(&text), text }
    }

    fn equals(&self, level: &Level) -> bool {
        let theirs = match level {
            Level::Text(name) => number(name),
            Level::Integer(_) | Level::Number(_) => level.as_number(),
        };
        match (self.number, theirs, level) {
            (Some(own), Some(theirs), _) => own == theirs,
            (_, _, Level::Text(name)) if self.name.is_empty() => self.text == name.as_ref(),
            (_, _, Level::Text(name)) => self.name == plain(name),
            (_, _, Level::Integer(_) | Level::Number(_)) => false,
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A name without what people write in different ways: its letters in lower case, digits and dots.
fn plain(text: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || *c == '.';
    text.chars().filter(kept).flat_map(char::to_lowercase).collect()
}

impl Filter {
    /// Reads a filter that is complete.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Parser::new(text, false, None)?.filter()
    }

    /// Reads a filter that is being typed: what is not finished yet, such as `gpus=` or `precision=fp16 or`, is left out.
    pub fn typed(text: &str) -> Result<Self, FilterError> {
        Parser::new(text, true, None)?.filter()
    }

    /// Reads a complete filter that may use these keys with these levels alone, and no words.
    pub fn parse_known(text: &str, known: &[(&str, Known)]) -> Result<Self, FilterError> {
        Parser::new(text, false, Some(known))?.filter()
    }

    /// Whether it admits everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a thing meets it.
    pub fn admits(&self, facts: &dyn Facts) -> bool {
        self.0.as_ref().is_none_or(|term| term.holds(facts))
    }

    /// The keys that it compares, each once.
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

impl Term {
    fn visit<'a>(&'a self, seen: &mut dyn FnMut(&'a Self)) {
        seen(self);
        match self {
            Self::Word(_) | Self::Pair(..) => {}
            Self::Not(term) => term.visit(seen),
            Self::All(terms) | Self::Any(terms) => terms.iter().for_each(|term| term.visit(seen)),
        }
    }

    fn holds(&self, facts: &dyn Facts) -> bool {
        match self {
            Self::Word(word) => facts.mentions(word),
            Self::Pair(key, comparison, value) => compare(level_of(facts, key).as_ref(), *comparison, value),
            Self::Not(term) => !term.holds(facts),
            Self::All(terms) => terms.iter().all(|term| term.holds(facts)),
            Self::Any(terms) => terms.iter().any(|term| term.holds(facts)),
        }
    }

    /// One term for several; none for none.
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

/// Keys are found as they are written, in lower case, and `gpu` for `gpus`.
fn level_of(facts: &dyn Facts, key: &str) -> Option<Level> {
    let lower = || key.to_lowercase();
    let level = facts.level(key).or_else(|| facts.level(&lower()));
    level.or_else(|| if lower() == "gpu" { facts.level("gpus") } else { None })
}

fn compare(level: Option<&Level>, comparison: Comparison, value: &Operand) -> bool {
    let equals = level.is_some_and(|level| value.equals(level));
    let ordered = |holds: fn(&f64, &f64) -> bool| {
        let own = level.and_then(Level::as_number);
        own.zip(value.number).is_some_and(|(own, value)| holds(&own, &value))
    };
    match comparison {
        Comparison::Equal => equals,
        Comparison::NotEqual => !equals,
        Comparison::Less => ordered(f64::lt),
        Comparison::AtMost => ordered(f64::le),
        Comparison::Greater => ordered(f64::gt),
        Comparison::AtLeast => ordered(f64::ge),
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |term| term.write(f, 0))
    }
}

impl Term {
    /// Writes the term within others that bind as tightly as 0 (nothing), 1 (`or`), 2 (`and`) or 3 (`not`).
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

/// A word, key or value as it stands in a filter's text: in quotes where it needs them.
pub fn quoted(text: &str) -> String {
    let bare = Token::all(text).is_ok_and(
        |tokens| matches!(tokens.as_slice(), [(_, Token::Text { text: read, quoted: false })] if read == text),
    );
    // Behind a "!" the comparison "=" would be read as another.
    if bare && !text.contains('!') && Keyword::of(text).is_none() {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyword {
    And,
    Or,
    Not,
}

impl Keyword {
    fn of(text: &str) -> Option<Self> {
        match text.to_lowercase().as_str() {
            "and" => Some(Self::And),
            "or" => Some(Self::Or),
            "not" => Some(Self::Not),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Open,
    Close,
    Compare(Comparison),
    Text { text: String, quoted: bool },
}

/// A token with the places of its first character and of the one behind its last.
type Placed = ((usize, usize), Token);

impl Token {
    /// The tokens of a text; where quotes do not end, the place at which they begin.
    fn all(text: &str) -> Result<Vec<Placed>, usize> {
        let letters: Vec<char> = text.chars().collect();
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&letter) = letters.get(at) {
            let start = at;
            let token = match (letter, comparison_at(&letters, at)) {
                _ if letter.is_whitespace() => {
                    at += 1;
                    continue;
                }
                ('(' | ')', _) => {
                    at += 1;
                    if letter == '(' { Self::Open } else { Self::Close }
                }
                (_, Some(comparison)) => {
                    at += comparison.sign().len();
                    Self::Compare(comparison)
                }
                ('"' | '\'', _) => {
                    let (text, end) = quoted_text(&letters, at).ok_or(start)?;
                    at = end;
                    Self::Text { text, quoted: true }
                }
                _ => {
                    let ends = |at: usize| {
                        let letter = letters[at];
                        letter.is_whitespace() || "()".contains(letter) || comparison_at(&letters, at).is_some()
                    };
                    at = (at..letters.len()).find(|at| ends(*at)).unwrap_or(letters.len());
                    Self::Text { text: letters[start..at].iter().collect(), quoted: false }
                }
            };
            tokens.push(((start, at), token));
        }
        Ok(tokens)
    }

    /// What it looks like, for messages.
    fn name(&self) -> String {
        match self {
            Self::Open => "\"(\"".to_owned(),
            Self::Close => "\")\"".to_owned(),
            Self::Compare(comparison) => format!("{:?}", comparison.sign()),
            Self::Text { text, .. } => shown(text),
        }
    }
}

fn comparison_at(letters: &[char], at: usize) -> Option<Comparison> {
    let begins = |sign: &str| sign.chars().enumerate().all(|(place, letter)| letters.get(at + place) == Some(&letter));
    Comparison::ALL.into_iter().find(|(_, sign)| begins(sign)).map(|(comparison, _)| comparison)
}

/// What stands in quotes, and the place behind them; none where they do not end.
fn quoted_text(letters: &[char], start: usize) -> Option<(String, usize)> {
    let quote = letters[start];
    let mut text = String::new();
    let mut at = start + 1;
    loop {
        match (letters.get(at)?, letters.get(at + 1)) {
            ('\\', Some(next)) if *next == quote || *next == '\\' => {
                text.push(*next);
                at += 2;
            }
            (letter, _) if *letter == quote => return Some((text, at + 1)),
            (letter, _) => {
                text.push(*letter);
                at += 1;
            }
        }
    }
}

/// Reads tokens into terms. What is unfinished is no term (`None`) while it is typed, and an error otherwise.
struct Parser<'a> {
    tokens: Vec<Placed>,
    at: usize,
    end: usize,
    typing: bool,
    known: Option<&'a [(&'a str, Known<'a>)]>,
}

type Read = Result<Option<Term>, FilterError>;

impl<'a> Parser<'a> {
    fn new(text: &str, typing: bool, known: Option<&'a [(&'a str, Known<'a>)]>) -> Result<Self, FilterError> {
        let tokens = Token::all(text).or_else(|start| {
            // While a quoted value is typed, what there is of it counts.
            let quote = text.chars().nth(start).filter(|_| typing);
            let closed = quote.and_then(|quote| Token::all(&format!("{text}{quote}")).ok());
            closed.ok_or_else(|| error(start, "a quote that does not end", "close it, or put it in other quotes"))
        })?;
        Ok(Self { tokens, at: 0, end: text.chars().count(), typing, known })
    }

    fn filter(mut self) -> Result<Filter, FilterError> {
        if self.tokens.is_empty() {
            return Ok(Filter::default());
        }
        let term = self.either(0)?;
        match self.peek() {
            None => Ok(Filter(term)),
            // Only a parenthesis ends what stands outside of parentheses.
            Some(_) => Err(self.error("\")\" without \"(\" before it", "take it away, or put it in quotes")),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn keyword(&self) -> Option<Keyword> {
        match self.peek()? {
            Token::Text { text, quoted: false } if !self.is_key() => Keyword::of(text),
            _ => None,
        }
    }

    /// Whether a comparison follows.
    fn is_key(&self) -> bool {
        matches!(self.tokens.get(self.at + 1), Some((_, Token::Compare(_))))
    }

    fn take(&mut self, keyword: Keyword) -> bool {
        let found = self.keyword() == Some(keyword);
        self.at += usize::from(found);
        found
    }

    /// An error at the next token.
    fn error(&self, found: impl Into<String>, remedy: impl Into<String>) -> FilterError {
        error(self.tokens.get(self.at).map_or(self.end, |((start, _), _)| *start), found, remedy)
    }

    /// Nothing, where something must stand: fine at the end of what is being typed.
    fn missing(&self, what: &str) -> Read {
        let found = match self.peek() {
            None if self.typing => return Ok(None),
            None => "the end of the filter".to_owned(),
            Some(token) => token.name(),
        };
        Err(self.error(found, format!("{what} must stand here")))
    }

    fn either(&mut self, depth: usize) -> Read {
        let mut terms = vec![self.both(depth)?];
        while self.take(Keyword::Or) {
            terms.push(self.both(depth)?);
        }
        Ok(Term::any(terms.into_iter().flatten().collect()))
    }

    fn both(&mut self, depth: usize) -> Read {
        let mut terms = vec![self.group(depth)?];
        while self.take(Keyword::And) {
            terms.push(self.group(depth)?);
        }
        Ok(Term::all(terms.into_iter().flatten().collect()))
    }

    fn group(&mut self, depth: usize) -> Read {
        // Values of one key side by side are values of which one must hold: they gather behind the first of them.
        let mut terms: Vec<(Option<String>, Vec<Term>)> = Vec::new();
        let first = self.at;
        while !matches!(self.keyword(), Some(Keyword::And | Keyword::Or))
            && !matches!(self.peek(), None | Some(Token::Close))
        {
            let is_pair = self.is_key();
            let Some(term) = self.term(depth)? else { continue };
            let key = match &term {
                Term::Pair(key, Comparison::Equal, _) if is_pair => Some(key.clone()),
                _ => None,
            };
            match terms.iter_mut().find(|(known, _)| key.is_some() && *known == key) {
                Some((_, values)) => values.push(term),
                None => terms.push((key, vec![term])),
            }
        }
        if self.at == first {
            return self.missing("a word, or key=value,");
        }
        Ok(Term::all(terms.into_iter().filter_map(|(_, values)| Term::any(values)).collect()))
    }

    fn term(&mut self, depth: usize) -> Read {
        if depth == DEEPEST {
            return Err(self.error("parentheses too deep in each other", "write it in fewer of them"));
        }
        if self.take(Keyword::Not) {
            if matches!(self.peek(), None | Some(Token::Close)) || self.keyword().is_some_and(|key| key != Keyword::Not)
            {
                return self.missing("what \"not\" is about");
            }
            return Ok(self.term(depth + 1)?.map(|term| Term::Not(Box::new(term))));
        }
        let start = self.at;
        let Some((_, token)) = self.tokens.get(start).cloned() else { return self.missing("a word, or key=value,") };
        self.at += 1;
        match token {
            Token::Open => {
                let term = self.either(depth + 1)?;
                match self.peek() {
                    Some(Token::Close) => self.at += 1,
                    None if self.typing => {}
                    _ => {
                        self.at = start;
                        return Err(self.error("\"(\" that is not closed", "add \")\", or put it in quotes"));
                    }
                }
                Ok(term)
            }
            Token::Text { text, .. } => match self.peek() {
                Some(Token::Compare(comparison)) => {
                    let comparison = *comparison;
                    self.at += 1;
                    self.pair(start, text, comparison)
                }
                _ => self.word(start, &text),
            },
            Token::Compare(_) | Token::Close => {
                self.at = start;
                let remedy = "write key=value, and put values that hold comparisons in quotes";
                Err(self.error(format!("{} without a key before it", token.name()), remedy))
            }
        }
    }

    fn word(&mut self, start: usize, text: &str) -> Read {
        if self.known.is_some() {
            self.at = start;
            return Err(self.error(format!("the word {}", shown(text)), "write key = level"));
        }
        Ok(Some(Term::Word(text.to_lowercase())))
    }

    /// What follows a key and its comparison. A value that touches the comparison is one whatever it says; after a space
    /// a keyword or the key of another pair says that the value is missing.
    fn pair(&mut self, start: usize, key: String, comparison: Comparison) -> Read {
        let touches = self.tokens.get(self.at).is_some_and(|((from, _), _)| self.tokens[self.at - 1].0.1 == *from);
        let another = self.keyword().is_some() || self.is_key();
        let value = match self.peek() {
            Some(Token::Text { text, .. }) if touches || !another => Some(text.clone()),
            None | Some(Token::Text { .. } | Token::Close) => None,
            Some(Token::Open) => {
                let remedy = format!("write ({key}=… or {key}=…)");
                return Err(self.error("\"(\" where a value must stand", remedy));
            }
            Some(Token::Compare(_)) => {
                return Err(self.error("a second comparison", "write key=value, and join pairs with \"and\""));
            }
        };
        let Some(value) = value else {
            let sign = comparison.sign();
            let found = format!("no value after {}", shown(&format!("{key}{sign}")));
            return if self.typing { Ok(None) } else { Err(self.error(found, "add one, in quotes if it has spaces")) };
        };
        let value = Operand::new(value);
        if comparison.is_order() && value.number.is_none() {
            let sign = comparison.sign();
            return Err(self.error(
                format!("{key}{sign} with {}", shown(&value.text)),
                "give a number; names are compared by = and !=",
            ));
        }
        self.known.map_or(Ok(()), |known| self.check(start, known, (&key, comparison, &value)))?;
        self.at += 1;
        Ok(Some(Term::Pair(key, comparison, value)))
    }

    /// Refuses keys and levels that are not known; the parser stands at the value.
    fn check(
        &self,
        start: usize,
        known: &[(&str, Known)],
        (key, comparison, value): (&str, Comparison, &Operand),
    ) -> Result<(), FilterError> {
        let Some((_, may)) = known.iter().find(|(known, _)| *known == key) else {
            let keys: Vec<&str> = known.iter().map(|(key, _)| *key).collect();
            let (found, remedy) = (format!("unknown key {}", shown(key)), remedy(key, &keys));
            return Err(error(self.tokens[start].0.0, found, remedy));
        };
        match may {
            Known::Number if value.number.is_none() => {
                Err(self.error(format!("{key} with {}", shown(&value.text)), "give a number"))
            }
            Known::Number => Ok(()),
            Known::Names(_) if comparison.is_order() => {
                Err(self.error(format!("{key}{}", comparison.sign()), "names are compared by = and !="))
            }
            Known::Names(names) if names.iter().any(|name| value.equals(&Level::text(name))) => Ok(()),
            Known::Names(names) => {
                Err(self.error(format!("unknown {key} {}", shown(&value.text)), remedy(&value.text, names)))
            }
        }
    }
}

fn error(place: usize, found: impl Into<String>, remedy: impl Into<String>) -> FilterError {
    FilterError { position: place + 1, found: found.into(), remedy: remedy.into() }
}

fn remedy(name: &str, choice: &[&str]) -> String {
    suggestion(name, choice).trim_start_matches("; ").to_owned()
}

/// The text of a filter with a pair added that must hold too, or taken away where it is there.
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

/// Whether the text of a filter holds the pair that [`toggled`] adds and takes away.
pub fn holds(text: &str, pair: &str) -> bool {
    text.split_whitespace().any(|term| term == pair)
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
