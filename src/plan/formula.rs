//! Formulas: user-defined measures, computed from other measures of the same run.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = factor { ("*" | "/") factor }
//! factor  = "-" factor | number [unit] | name | function "(" sum { "," sum } ")" | "(" sum ")"
//! ```
//!
//! A name is the key of a measure, or of a factor whose levels are numbers. A name with other signs than letters, digits, `_`, `.` and `:`
//! is quoted. A unit stands behind its number: `24 GB`, `900 GB/s`. The functions are `min`, `max`, `sqrt` and `log2`. The signs
//! `−`, `×`, `·` and `÷` mean the same as `-`, `*` and `/`.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

use super::measure_unit::MeasureUnit;
use super::problem::{is_name, quoted, suggestion};
use super::{Better, Key};

/// Longest formula, in characters.
const LONGEST: usize = 2000;
/// Maximum nesting of parentheses, functions and signs.
const DEEPEST: usize = 64;

/// A user-defined measure, as plans and sessions store it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnMeasure {
    /// Its key.
    pub key: Key,
    /// How it is computed; see [`Formula`].
    pub formula: String,
    /// Its name on paper and on screen; `None` for a name made from the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The unit in which it is shown; `None` for the unit that its formula has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Which values are good.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub better: Better,
}

impl OwnMeasure {
    /// A measure that has only a formula.
    pub fn new(key: &str, formula: &str) -> Self {
        Self { key: key.into(), formula: formula.to_owned(), name: None, unit: None, better: Better::Neither }
    }

    /// Why its key or its name cannot be used.
    pub fn refused_name(&self) -> Option<String> {
        const RULE: &str =
            "a key has small letters, digits and _, starts with a letter, and is at most 64 letters long";
        let is_key = self.key.len() <= 64
            && self.key.starts_with(|letter: char| letter.is_ascii_lowercase())
            && self.key.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
        if !is_key {
            return Some(RULE.to_owned());
        }
        if Function::VARIANTS.iter().any(|function| self.key == *function.name()) {
            return Some(format!("{:?} is the name of a function: choose another key", &*self.key));
        }
        let name = self.name.as_deref().filter(|name| !is_name(name))?;
        Some(format!("{name:?} cannot be a name: {}", super::NAME_RULE))
    }
}

/// A function of formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Function {
    /// The lowest of its values.
    Min,
    /// The highest of its values.
    Max,
    /// The square root.
    Sqrt,
    /// The logarithm to base 2 of a plain number.
    Log2,
}

impl Function {
    /// The name in formulas.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it takes any number of values, and not one.
    fn takes_several(self) -> bool {
        matches!(self, Self::Min | Self::Max)
    }
}

/// A sign between two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The sum.
    Add,
    /// The difference.
    Subtract,
    /// The product.
    Multiply,
    /// The quotient.
    Divide,
}

/// A part of a formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A number in base units, with its unit.
    Number(f64, MeasureUnit),
    /// The key of a measure or factor.
    Name(Key),
    /// The negative of a part.
    Negative(Box<Place>),
    /// Two parts and the sign between them.
    Pair(Operator, Box<Place>, Box<Place>),
    /// A function of one part or more.
    Call(Function, Vec<Place>),
}

/// A part and where it stands in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The part.
    pub part: Part,
    /// Its characters in the text, from 0.
    pub at: Range<usize>,
}

/// A formula that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    letters: Vec<char>,
    /// The whole formula as one part.
    pub root: Place,
}

/// What is wrong with a formula.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("character {position}: {message}")]
pub struct FormulaError {
    /// Position in the text in characters, from 1.
    pub position: usize,
    /// What was found, and what to do.
    pub message: String,
}

impl FormulaError {
    /// An error at a place that counts characters from 0.
    pub fn at(place: usize, message: impl Into<String>) -> Self {
        Self { position: place + 1, message: message.into() }
    }
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// The text is not a formula; the error says where and what to do. Whether names are known is not checked.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let letters: Vec<char> = text.chars().collect();
        if letters.len() > LONGEST {
            return Err(FormulaError::at(LONGEST, format!("a formula has at most {LONGEST} characters")));
        }
        let tokens = tokens(&letters)?;
        let mut parser = Parser { tokens: &tokens, at: 0, end: letters.len() };
        let root = parser.sum(0)?;
        match parser.peek() {
            None => Ok(Self { letters, root }),
            Some((Token::Close, at)) => Err(FormulaError::at(at.start, "\")\" without \"(\" before it: remove it")),
            Some((_, at)) => Err(FormulaError::at(at.start, "a sign is expected here: +, -, * or /")),
        }
    }

    /// The text of a part.
    pub fn text(&self, place: &Place) -> String {
        self.letters.get(place.at.clone()).unwrap_or_default().iter().collect()
    }

    /// The names in it, each once, in the order of the text.
    pub fn names(&self) -> Vec<&Key> {
        fn visit<'a>(place: &'a Place, names: &mut Vec<&'a Key>) {
            match &place.part {
                Part::Number(..) => {}
                Part::Name(key) if names.contains(&key) => {}
                Part::Name(key) => names.push(key),
                Part::Negative(part) => visit(part, names),
                Part::Pair(_, left, right) => [left, right].into_iter().for_each(|part| visit(part, names)),
                Part::Call(_, parts) => parts.iter().for_each(|part| visit(part, names)),
            }
        }
        let mut names = Vec::new();
        visit(&self.root, &mut names);
        names
    }
}

/// A key as formulas write it: quoted if necessary.
pub fn formula_name(key: &str) -> String {
    let is_bare = key.starts_with(begins_name) && key.chars().all(is_of_name);
    let is_bare = is_bare && Function::VARIANTS.iter().all(|function| function.name() != key);
    if is_bare { key.to_owned() } else { format!("\"{key}\"") }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64, MeasureUnit),
    Name(String),
    Function(Function),
    Sign(Operator),
    Open,
    Close,
    Comma,
}

fn begins_name(letter: char) -> bool {
    letter.is_alphabetic() && !"µ°".contains(letter) || letter == '_'
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || "_.:".contains(letter)
}

fn is_of_unit(letter: char) -> bool {
    letter.is_alphabetic() || "%°µ".contains(letter)
}

/// The tokens of a text with their places.
fn tokens(letters: &[char]) -> Result<Vec<(Token, Range<usize>)>, FormulaError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let run = |from: usize, is_part: fn(char) -> bool| {
        (from..letters.len()).find(|at| !is_part(letters[*at])).unwrap_or(letters.len())
    };
    while let Some(&letter) = letters.get(at) {
        let start = at;
        let token = match letter {
            _ if letter.is_whitespace() => {
                at += 1;
                continue;
            }
            '+' => Token::Sign(Operator::Add),
            '-' | '−' => Token::Sign(Operator::Subtract),
            '*' | '×' | '·' => Token::Sign(Operator::Multiply),
            '/' | '÷' => Token::Sign(Operator::Divide),
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '"' | '\'' => {
                let end = (start + 1..letters.len()).find(|at| letters[*at] == letter);
                let end = end.ok_or_else(|| FormulaError::at(start, "the closing quote is missing: add it"))?;
                at = end;
                Token::Name(letters[start + 1..end].iter().collect())
            }
            _ if letter.is_ascii_digit() || letter == '.' => {
                let (token, end) = number(letters, start)?;
                at = end - 1;
                token
            }
            _ if begins_name(letter) => {
                let end = run(start, is_of_name);
                at = end - 1;
                let name: String = letters[start..end].iter().collect();
                let next = (end..letters.len()).find(|at| !letters[*at].is_whitespace());
                let is_called = next.is_some_and(|at| letters[at] == '(');
                match Function::VARIANTS.iter().find(|function| function.name() == name) {
                    Some(function) => Token::Function(*function),
                    None if is_called => {
                        let known: Vec<&str> = Function::VARIANTS.iter().map(|function| function.name()).collect();
                        let message = format!("unknown function {}{}", quoted(&name), suggestion(&name, &known));
                        return Err(FormulaError::at(start, message));
                    }
                    None => Token::Name(name),
                }
            }
            _ => {
                let message =
                    format!("{letter:?} is not a part of formulas: use names, numbers, + - * / and parentheses");
                return Err(FormulaError::at(start, message));
            }
        };
        at += 1;
        tokens.push((token, start..at));
    }
    Ok(tokens)
}

/// A number with the unit behind it, and the place after both.
fn number(letters: &[char], start: usize) -> Result<(Token, usize), FormulaError> {
    let digits = |from: usize| {
        (from..letters.len())
            .find(|at| !(letters[*at].is_ascii_digit() || letters[*at] == '.'))
            .unwrap_or(letters.len())
    };
    let mut end = digits(start);
    if letters.get(end).is_some_and(|letter| "eE".contains(*letter)) {
        let signed = end + 1 + usize::from(letters.get(end + 1).is_some_and(|letter| "+-".contains(*letter)));
        if letters.get(signed).is_some_and(char::is_ascii_digit) {
            end = digits(signed);
        }
    }
    let text: String = letters[start..end].iter().collect();
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let number = number.ok_or_else(|| FormulaError::at(start, format!("{} is not a number", quoted(&text))))?;
    let first = (end..letters.len()).find(|at| !letters[*at].is_whitespace()).unwrap_or(letters.len());
    let word_end = |from: usize| (from..letters.len()).find(|at| !is_of_unit(letters[*at])).unwrap_or(letters.len());
    let mut last = word_end(first);
    // A word that goes on with other letters is a name.
    if last == first || letters.get(last).is_some_and(|letter| is_of_name(*letter)) {
        if last > first {
            return Err(FormulaError::at(first, "a sign is expected between a number and a name: +, -, * or /"));
        }
        return Ok((Token::Number(number, MeasureUnit::default()), end));
    }
    // Behind a stroke without spaces, the unit goes on, if the word there is a unit.
    while letters.get(last) == Some(&'/') {
        let end = word_end(last + 1);
        let word: String = letters[last + 1..end].iter().collect();
        if MeasureUnit::symbol(&word).is_none() || letters.get(end).is_some_and(|letter| is_of_name(*letter)) {
            break;
        }
        last = end;
    }
    let unit = MeasureUnit::parse(&letters[first..last].iter().collect::<String>());
    Ok((Token::Number(number * unit.factor, unit.base()), last))
}

struct Parser<'t> {
    tokens: &'t [(Token, Range<usize>)],
    at: usize,
    end: usize,
}

type Read = Result<Place, FormulaError>;

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t (Token, Range<usize>)> {
        self.tokens.get(self.at)
    }

    fn error(&self, message: impl Into<String>) -> FormulaError {
        FormulaError::at(self.peek().map_or(self.end, |(_, at)| at.start), message)
    }

    fn sign(&mut self, signs: [Operator; 2]) -> Option<Operator> {
        match self.peek() {
            Some((Token::Sign(sign), _)) if signs.contains(sign) => {
                self.at += 1;
                Some(*sign)
            }
            _ => None,
        }
    }

    fn chain(&mut self, signs: [Operator; 2], part: &mut dyn FnMut(&mut Self) -> Read) -> Read {
        let mut left = part(self)?;
        while let Some(sign) = self.sign(signs) {
            let right = part(self)?;
            let at = left.at.start..right.at.end;
            left = Place { part: Part::Pair(sign, Box::new(left), Box::new(right)), at };
        }
        Ok(left)
    }

    fn sum(&mut self, depth: usize) -> Read {
        self.chain([Operator::Add, Operator::Subtract], &mut |parser| {
            parser.chain([Operator::Multiply, Operator::Divide], &mut |parser| parser.factor(depth))
        })
    }

    fn factor(&mut self, depth: usize) -> Read {
        if depth == DEEPEST {
            return Err(self.error("parentheses are nested too deeply: use fewer levels"));
        }
        let Some((token, at)) = self.peek() else {
            return Err(self.error("the formula ends here, and a number or a name is expected"));
        };
        self.at += 1;
        let part = match token {
            Token::Number(number, unit) => Part::Number(*number, unit.clone()),
            Token::Name(name) => Part::Name(name.as_str().into()),
            Token::Sign(Operator::Subtract) => {
                let part = self.factor(depth + 1)?;
                let at = at.start..part.at.end;
                return Ok(Place { part: Part::Negative(Box::new(part)), at });
            }
            Token::Open => {
                let part = self.sum(depth + 1)?;
                let end = self.close(at)?;
                return Ok(Place { part: part.part, at: at.start..end });
            }
            Token::Function(function) => return self.call(*function, at, depth),
            Token::Sign(_) | Token::Close | Token::Comma => {
                self.at -= 1;
                return Err(self.error("a number or a name is expected here"));
            }
        };
        Ok(Place { part, at: at.clone() })
    }

    fn call(&mut self, function: Function, at: &Range<usize>, depth: usize) -> Read {
        let name = function.name();
        let Some((Token::Open, open)) = self.peek() else {
            return Err(self.error(format!("{name} needs parentheses: {name}(…)")));
        };
        self.at += 1;
        let mut parts = vec![self.sum(depth + 1)?];
        while let Some((Token::Comma, comma)) = self.peek() {
            if !function.takes_several() {
                return Err(FormulaError::at(comma.start, format!("{name} takes one value")));
            }
            self.at += 1;
            parts.push(self.sum(depth + 1)?);
        }
        let end = self.close(open)?;
        if function.takes_several() && parts.len() == 1 {
            return Err(FormulaError::at(at.start, format!("{name} takes two values or more, separated by commas")));
        }
        Ok(Place { part: Part::Call(function, parts), at: at.start..end })
    }

    /// Reads the parenthesis that closes one, and returns the place after it.
    fn close(&mut self, open: &Range<usize>) -> Result<usize, FormulaError> {
        match self.peek() {
            Some((Token::Close, at)) => {
                self.at += 1;
                Ok(at.end)
            }
            None => Err(FormulaError::at(open.start, "\"(\" that is not closed: add \")\"")),
            Some(_) => Err(self.error("a sign or \")\" is expected here")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(text: &str) -> String {
        fn written(place: &Place) -> String {
            match &place.part {
                Part::Number(number, unit) => format!("{number}{unit}"),
                Part::Name(key) => key.to_string(),
                Part::Negative(part) => format!("-{}", written(part)),
                Part::Pair(sign, left, right) => {
                    let sign = ["+", "-", "*", "/"][*sign as usize];
                    format!("({}{sign}{})", written(left), written(right))
                }
                Part::Call(function, parts) => {
                    format!("{}({})", function.name(), parts.iter().map(written).collect::<Vec<_>>().join(","))
                }
            }
        }
        written(&Formula::parse(text).unwrap().root)
    }

    #[test]
    fn signs_bind_as_in_arithmetic_and_from_the_left() {
        for (text, expected) in [
            ("a + b * c", "(a+(b*c))"),
            ("a - b - c", "((a-b)-c)"),
            ("a / b / c", "((a/b)/c)"),
            ("(a + b) × c", "((a+b)*c)"),
            ("−a ÷ -b", "(-a/-b)"),
            ("min(a, b + 1) · sqrt(c)", "(min(a,(b+1))*sqrt(c))"),
            ("\"tokens/s\" / 'a b'", "(tokens/s/a b)"),
            ("kernel:gemm / 2e3", "(kernel:gemm/2000)"),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
    }

    #[test]
    fn a_unit_belongs_to_the_number_before_it() {
        for (text, expected) in [
            ("24 GB", "24000000000B"),
            ("x / 900GB/s", "(x/900000000000B/s)"),
            ("24 GB / s", "(24000000000B/s)"),
            ("24 GB/step_time_s", "(24000000000B/step_time_s)"),
            ("1.5 h", "5400s"),
            ("50 %", "0.5"),
            ("100 tokens/s", "100tokens/s"),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
    }

    #[test]
    fn bad_formulas_are_refused_with_their_place() {
        for (text, position, message) in [
            ("", 1, "the formula ends here"),
            ("a +", 4, "the formula ends here"),
            ("a b", 3, "a sign is expected here"),
            ("a * / b", 5, "a number or a name is expected here"),
            ("(a + )", 6, "a number or a name is expected here"),
            ("(a", 1, "\"(\" that is not closed"),
            ("a)", 2, "\")\" without"),
            ("sin(a)", 1, "unknown function \"sin\"; did you mean \"min\"?"),
            ("min(a)", 1, "min takes two values"),
            ("sqrt(a, b)", 7, "sqrt takes one value"),
            ("sqrt a", 6, "sqrt needs parentheses"),
            ("2 step_time_s", 3, "a sign is expected between"),
            ("1.2.3", 1, "\"1.2.3\" is not a number"),
            ("1e999", 1, "is not a number"),
            ("a ^ 2", 3, "'^' is not a part"),
            ("\"a", 1, "the closing quote"),
        ] {
            let error = Formula::parse(text).unwrap_err();
            assert_eq!(error.position, position, "{text}: {error}");
            assert!(error.message.contains(message), "{text}: {error}");
        }
        assert!(Formula::parse(&"(".repeat(1000)).unwrap_err().message.contains("nested"));
        assert!(Formula::parse(&"-".repeat(1000)).unwrap_err().message.contains("nested"));
    }

    #[test]
    fn a_part_is_quoted_as_it_was_written() {
        let formula = Formula::parse("a + min(b, 2 s)").unwrap();
        let Part::Pair(_, _, right) = &formula.root.part else { panic!() };
        assert_eq!(formula.text(right), "min(b, 2 s)");
        assert_eq!(formula.names(), [&Key::from("a"), &Key::from("b")]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[ a-c0-9.e+*/(),\"'µ%s−-]{0,60}") {
            if let Err(error) = Formula::parse(&text) {
                prop_assert!(error.position <= text.chars().count() + 1);
            }
        }
    }
}
