//! Searches: the question in a plan's `[search]`. The analysis checks the names of its measures.

use super::formula::{Formula, Part};
use super::measure_unit::MeasureUnit;
use super::problem::quoted;
use super::{Key, formula_name};

/// The words that begin a goal.
const MOST: &str = "max";
const LEAST: &str = "min";
/// The words after a share of the best value.
const OF_BEST: &str = "of best";
/// The signs of limits; longer ones come first, since `<=` begins with `<`.
const SIGNS: [(&str, bool, bool); 6] = [
    ("<=", false, false),
    (">=", true, false),
    ("≤", false, false),
    ("≥", true, false),
    ("<", false, true),
    (">", true, true),
];

/// The letters with which signs begin.
const SIGN_LETTERS: [char; 4] = ['<', '>', '≤', '≥'];

/// The question of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The goal of the search.
    pub goal: Goal,
    /// The limits that the chosen cell must keep.
    pub keep: Vec<KeptLimit>,
    /// Cells that differ by less than this share count as equally good.
    pub tie: f64,
    /// The probability that the best cell is not dropped.
    pub confidence: f64,
    /// The largest number of runs of all cells together.
    pub runs: Option<u32>,
    /// The longest time of all runs together, in minutes.
    pub minutes: Option<f64>,
}

/// The measure or factor whose highest or lowest value is sought: `max throughput`, `min batch_size`.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The key of a measure, or of a factor whose levels are numbers.
    pub key: Key,
    /// Whether high values are sought.
    pub is_max: bool,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// A limit: `peak_allocated_bytes < 24 GB`, `throughput >= 95 % of best`.
#[derive(Clone, Debug)]
pub struct KeptLimit {
    /// The text.
    pub text: String,
    /// The key of a measure.
    pub key: Key,
    /// Whether values must be above the bound.
    pub is_above: bool,
    /// Whether a value equal to the bound breaks the limit.
    pub is_strict: bool,
    /// The bound.
    pub bound: Bound,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// The bound of a limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// A number in base units, with its unit.
    Value(f64, MeasureUnit),
    /// A share of the best value of all cells.
    OfBest(f64),
}

// The line in the file does not count: equal goals and limits may be on different lines.
impl PartialEq for Goal {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, self.is_max) == (&other.key, other.is_max)
    }
}

impl PartialEq for KeptLimit {
    fn eq(&self, other: &Self) -> bool {
        let parts = |limit: &Self| (limit.text.clone(), limit.bound.clone());
        parts(self) == parts(other)
    }
}

impl Goal {
    /// Reads a goal.
    ///
    /// # Errors
    /// What is wrong with the text, and what to do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = format!("write {MOST} or {LEAST} and a measure, such as \"{MOST} throughput\"");
        let (word, name) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let is_max = match word {
            MOST => true,
            LEAST => false,
            _ => return Err(format!("{} is no goal: {example}", quoted(text))),
        };
        Ok(Self {
            key: name_in(name).ok_or_else(|| format!("{} names no measure: {example}", quoted(text)))?,
            is_max,
            line: 1,
        })
    }

    /// The text in plans.
    pub fn text(&self) -> String {
        format!("{} {}", self.word(), formula_name(&self.key))
    }

    fn word(&self) -> &'static str {
        if self.is_max { MOST } else { LEAST }
    }
}

impl KeptLimit {
    /// Reads a limit.
    ///
    /// # Errors
    /// What is wrong with the text, and what to do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let example = "write a measure, a sign and a bound, such as \"peak_allocated_bytes < 24 GB\" or \"throughput >= 95 % of best\"";
        let place = text.find(SIGN_LETTERS);
        let place = place.ok_or_else(|| format!("{} has no sign <, <=, > or >=: {example}", quoted(text)))?;
        let (name, rest) = text.split_at(place);
        let found = SIGNS.iter().find_map(|(sign, above, strict)| Some((rest.strip_prefix(sign)?, *above, *strict)));
        let (bound, is_above, is_strict) = found.ok_or_else(|| format!("{} has no sign: {example}", quoted(text)))?;
        let key =
            name_in(name).ok_or_else(|| format!("{} names no measure before its sign: {example}", quoted(text)))?;
        let bound = bound.trim();
        let (number, is_of_best) = match bound.strip_suffix(OF_BEST) {
            Some(share) => (share.trim(), true),
            None => (bound, false),
        };
        let (value, unit) = number_in(number).ok_or_else(|| format!("{} is no bound: {example}", quoted(bound)))?;
        let bound = match is_of_best {
            false => Bound::Value(value, unit),
            true if unit.is_plain() && value > 0.0 => Bound::OfBest(value),
            true => return Err(format!("{} is no share of the best: write 95 % of best", quoted(bound))),
        };
        Ok(Self { text: text.to_owned(), key, is_above, is_strict, bound, line: 1 })
    }

    /// The part of the text after the measure: `< 24 GB`.
    pub fn sign_and_bound(&self) -> &str {
        self.text.find(SIGN_LETTERS).map_or("", |place| &self.text[place..])
    }
}

/// The name that a text consists of; formulas quote names with unusual signs.
fn name_in(text: &str) -> Option<Key> {
    match Formula::parse(text).ok()?.root.part {
        Part::Name(key) => Some(key),
        _ => None,
    }
}

/// The number that a text consists of, in base units, with its unit.
fn number_in(text: &str) -> Option<(f64, MeasureUnit)> {
    match Formula::parse(text).ok()?.root.part {
        Part::Number(number, unit) => Some((number, unit)),
        Part::Negative(part) => match part.part {
            Part::Number(number, unit) => Some((-number, unit)),
            _ => None,
        },
        _ => None,
    }
}

/// A share, as a number or written as percent: `1 %`.
pub(super) fn share_in(text: &str) -> Option<f64> {
    number_in(text).filter(|(_, unit)| unit.is_plain()).map(|(share, _)| share)
}

impl Search {
    /// The confidence of a search whose plan names none.
    pub const CONFIDENCE: f64 = 0.95;
    /// The tie of a search whose plan names none.
    pub const TIE: f64 = 0.01;
    /// With fewer repeats, the intervals of a search are so wide that they can hardly ever separate cells.
    pub const USEFUL_REPEATS: u32 = 6;

    /// A search with this goal, without limits and budget.
    pub fn new(goal: Goal) -> Self {
        Self { goal, keep: Vec::new(), tie: Self::TIE, confidence: Self::CONFIDENCE, runs: None, minutes: None }
    }

    /// The question in words: `max throughput, keep peak_allocated_bytes < 24 GB`.
    pub fn question(&self) -> String {
        let limits: Vec<String> = self.keep.iter().map(|limit| limit.text.clone()).collect();
        self.question_about(&formula_name(&self.goal.key), &limits)
    }

    /// The question with these words for what is sought and for the limits.
    pub fn question_about(&self, goal: &str, limits: &[String]) -> String {
        let keep = if limits.is_empty() { String::new() } else { format!(", keep {}", limits.join(" and ")) };
        format!("{} {goal}{keep}", self.goal.word())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn goals_and_limits_are_read_with_their_units() {
        let goal = Goal::parse("max throughput").unwrap();
        assert_eq!((goal.key.as_str(), goal.is_max, goal.text().as_str()), ("throughput", true, "max throughput"));
        assert!(!Goal::parse(" min  batch_size ").unwrap().is_max);
        let limit = KeptLimit::parse("peak_allocated_bytes < 24 GB").unwrap();
        assert_eq!((limit.key.as_str(), limit.is_above, limit.is_strict), ("peak_allocated_bytes", false, true));
        let Bound::Value(bytes, unit) = limit.bound else { panic!("{limit:?}") };
        assert_eq!((bytes, unit.to_string().as_str()), (24e9, "B"));
        assert!(matches!(KeptLimit::parse("accuracy>=98%").unwrap().bound, Bound::Value(0.98, _)));
        let of_best = KeptLimit::parse("throughput ≥ 95 % of best").unwrap().bound;
        assert!(matches!(of_best, Bound::OfBest(share) if (share - 0.95).abs() < 1e-12), "{of_best:?}");
        assert!(matches!(KeptLimit::parse("\"my loss\" <= -1").unwrap().bound, Bound::Value(-1.0, _)));
        assert_eq!(share_in("1 %"), Some(0.01));
    }

    #[test]
    fn what_is_no_question_is_refused_with_an_example() {
        for text in ["", "throughput", "max", "most throughput", "max a b", "max 3"] {
            assert!(Goal::parse(text).unwrap_err().contains("max throughput"), "{text}");
        }
        for (text, expected) in [
            ("accuracy", "has no sign"),
            ("accuracy = 3", "has no sign"),
            ("< 3", "names no measure"),
            ("a + b < 3", "names no measure"),
            ("a <", "is no bound"),
            ("a < b", "is no bound"),
            ("a > 3 s of best", "is no share of the best"),
        ] {
            let message = KeptLimit::parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
