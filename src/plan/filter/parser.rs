//! The grammar of filters: from text to tokens, from tokens to terms.

use super::{Comparison, Filter, FilterError, Known, Operand, Term, is_day};
use crate::plan::Level;
use crate::plan::problem::{quoted as shown, suggestion};

/// Maximum nesting of parentheses and `not`.
const DEEPEST: usize = 64;

/// A word that joins terms or negates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Or,
    Not,
}

impl Keyword {
    pub(super) fn of(text: &str) -> Option<Self> {
        match text.to_lowercase().as_str() {
            "and" => Some(Self::And),
            "or" => Some(Self::Or),
            "not" => Some(Self::Not),
            _ => None,
        }
    }
}

/// A token of a filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Open,
    Close,
    Compare(Comparison),
    Text { text: String, quoted: bool },
}

/// A token with the positions of its first character and of the one after its last.
pub(super) type Placed = ((usize, usize), Token);

impl Token {
    /// The tokens of a text; the error is the position of an unclosed quote.
    pub(super) fn all(text: &str) -> Result<Vec<Placed>, usize> {
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

    /// The token as shown in messages.
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

/// Quoted text and the position after it; `None` if the quote is not closed.
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

/// Parses tokens into terms. While the user types, unfinished input is ignored (`None`); in all other cases it is an error.
pub(super) struct Parser<'a> {
    tokens: Vec<Placed>,
    at: usize,
    end: usize,
    typing: bool,
    known: Option<&'a [(&'a str, Known<'a>)]>,
}

type Read = Result<Option<Term>, FilterError>;

impl<'a> Parser<'a> {
    pub(super) fn new(
        text: &str,
        typing: bool,
        known: Option<&'a [(&'a str, Known<'a>)]>,
    ) -> Result<Self, FilterError> {
        let tokens = Token::all(text).or_else(|start| {
            // While a quoted value is being typed, its beginning counts.
            let quote = text.chars().nth(start).filter(|_| typing);
            let closed = quote.and_then(|quote| Token::all(&format!("{text}{quote}")).ok());
            closed
                .ok_or_else(|| error(start, "the closing quote is missing", "add it, or use the other kind of quotes"))
        })?;
        Ok(Self { tokens, at: 0, end: text.chars().count(), typing, known })
    }

    pub(super) fn filter(mut self) -> Result<Filter, FilterError> {
        if self.tokens.is_empty() {
            return Ok(Filter::default());
        }
        let term = self.either(0)?;
        match self.peek() {
            None => Ok(Filter(term)),
            // Outside parentheses, only an extra one ends the input early.
            Some(_) => Err(self.error("\")\" without \"(\" before it", "remove it, or put it in quotes")),
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
        let is_keyword = self.keyword() == Some(keyword);
        self.at += usize::from(is_keyword);
        is_keyword
    }

    /// An error at the next token.
    fn error(&self, found: impl Into<String>, remedy: impl Into<String>) -> FilterError {
        error(self.tokens.get(self.at).map_or(self.end, |((start, _), _)| *start), found, remedy)
    }

    /// A missing term: accepted at the end of a filter that is being typed.
    fn missing(&self, what: &str) -> Read {
        let found = match self.peek() {
            None if self.typing => return Ok(None),
            None => "the end of the filter".to_owned(),
            Some(token) => token.name(),
        };
        Err(self.error(found, format!("{what} is expected here")))
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
        // Values of one key side by side are alternatives: they are grouped at the first of them.
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
            return Err(self.error("parentheses are nested too deeply", "use fewer levels of parentheses"));
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

    /// Parses what follows a key and its comparison. Text right after the sign is always a value; after a space,
    /// a keyword or the key of another pair means that the value is missing.
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
        let mut value = Operand::new(value);
        let known = self.known.and_then(|known| known.iter().find(|(known, _)| *known == key));
        if let Some((_, Known::Names(names))) = known {
            value.narrow(names.iter().copied());
        }
        if comparison.is_order() && value.number.is_none() && !is_day(&value.text) {
            let sign = comparison.sign();
            return Err(self.error(
                format!("{key}{sign} with {}", shown(&value.text)),
                "give a number, or a day such as 2026-11-26; names are compared by = and !=",
            ));
        }
        self.known.map_or(Ok(()), |known| self.check(start, known, (&key, comparison, &value)))?;
        self.at += 1;
        Ok(Some(Term::Pair(key, comparison, value)))
    }

    /// Rejects unknown keys and levels; the parser is at the value.
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
            Known::Names(_) | Known::Text if comparison.is_order() => {
                Err(self.error(format!("{key}{}", comparison.sign()), "names are compared by = and !="))
            }
            Known::Text => Ok(()),
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
