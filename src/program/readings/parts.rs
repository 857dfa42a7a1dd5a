//! Patterns that read numbers of a printed line, made from the line: the words in front of each number, and a group for the number.

use std::ops::Range;

use regex::escape;

use super::fields::WORDS;
use super::printed::{Printed, unit_of};

impl Printed<'_> {
    /// A pattern that reads this number, as the field or reading with the given name, or as the reading with its own name. Empty if there is
    /// no such name, if that name means a field, or if the number has separators or a unit that patterns do not read.
    pub fn pattern(&self, name: Option<&str>) -> String {
        let (group, unit) = self.group();
        let name = name.unwrap_or(if WORDS.contains(&group.as_str()) { "" } else { &group });
        let (factor, ending) = unit_of(self.unit);
        let is_scaled_rate = factor != 1.0 && ending.ends_with("_per_s");
        let is_read = self.value.is_some() && !self.text.contains(',') && !is_scaled_rate;
        let gap = spaced(self.named_gap());
        if !name.is_empty() && is_read { format!("{gap}(?<{name}>{PLAIN}){unit}") } else { String::new() }
    }

    /// That pattern as a part of the pattern for its line; `None` if it is empty.
    pub fn part(&self, name: Option<&str>) -> Option<Part> {
        let pattern = self.pattern(name);
        let (from, end) = (self.at - self.named_gap().len(), self.at + self.text.len());
        (!pattern.is_empty()).then_some(Part { from, end, pattern })
    }

    /// The text in front of the number from its name on.
    fn named_gap(&self) -> &str {
        &self.gap[self.gap.rfind(self.name).unwrap_or(0)..]
    }

    /// The part that reads it as the duration of a step; `None` if no field has its unit.
    pub fn part_of_duration(&self) -> Option<Part> {
        let (factor, _) = unit_of(self.unit);
        let in_ms = (factor == 1e-3).then_some("duration_ms");
        in_ms.or((factor == 1.0).then_some("duration_s")).and_then(|field| self.part(Some(field)))
    }

    /// The part that reads it as the wait of a step; `None` if it is not in seconds.
    pub fn part_of_wait(&self) -> Option<Part> {
        let (factor, _) = unit_of(self.unit);
        (factor == 1.0).then_some("wait_s").and_then(|field| self.part(Some(field)))
    }

    /// The name of its group in a pattern, empty if it has none, and the text that follows the number. Patterns read a number as it is
    /// printed, so the name contains the printed unit.
    fn group(&self) -> (String, String) {
        let (factor, ending) = unit_of(self.unit);
        let name = if self.name.is_empty() { String::new() } else { self.key() };
        let stem = name.strip_suffix(ending).unwrap_or(&name);
        let unit = self.unit.to_lowercase().replace('µ', "u");
        let printed = match ending {
            // A time without a name may be any time.
            "_s" if name.is_empty() => String::new(),
            "_s" | "_bytes" if factor != 1.0 => format!("_{}", unit.split('/').next().unwrap_or_default()),
            ending => ending.to_owned(),
        };
        let group = format!("{stem}{printed}");
        let group = group.trim_start_matches(|c: char| !c.is_alphabetic());
        let is_behind = !self.unit.is_empty() && !self.gap.contains(self.unit);
        (group.to_owned(), if is_behind { format!("\\s?{}", escape(self.unit)) } else { String::new() })
    }
}

/// A number in a pattern. It includes commas, so that no part of a number with commas is read.
const PLAIN: &str = r"[-+]?\.?\d(?:[\d.,]*\d)?(?:[eE][-+]?\d+)?";
/// The number of a step in a pattern.
const COUNT: &str = r"\d(?:[\d,]*\d)?";

/// A part of the pattern for a line: it reads one number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// The place in the line at which its text begins, and that at which the number ends, in bytes.
    from: usize,
    end: usize,
    pattern: String,
}

impl Part {
    /// The part for a count, an epoch or a step, at this place of a line and behind the place `after`: the last word in front of it, then
    /// the number, and the number of the last step if that ends at `last_end`. Other numbers in that word may differ from line to line.
    pub fn of_count(line: &str, after: usize, place: &Range<usize>, name: &str, last_end: Option<usize>) -> Self {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let before = &line[after..place.start];
        let word = before.trim_end_matches(|c| !is_word(c)).trim_end_matches(is_word);
        let from = after + word.len();
        let is_first = line[..place.start].trim().is_empty();
        let begin = if is_first { "^\\s*".to_owned() } else { like(&line[from..place.start]) };
        let digits = if name == "step" { COUNT } else { PLAIN };
        let last = last_end.map_or(String::new(), |_| format!("\\s*/\\s*(?<steps>{COUNT})"));
        Self { from, end: last_end.unwrap_or(place.end), pattern: format!("{begin}(?<{name}>{digits}){last}") }
    }

    /// The name of its group.
    fn group(&self) -> Option<&str> {
        self.pattern.split_once("(?<")?.1.split_once('>').map(|(name, _)| name)
    }
}

/// The patterns that read these parts of a line: one for anywhere in a line, and one for lines that begin like this one. Of parts with the
/// same group, the first one counts. Empty if there are no parts.
pub(super) fn patterns(line: &str, mut parts: Vec<Part>) -> [String; 2] {
    parts.sort();
    let (mut pattern, mut groups, mut end) = (String::new(), Vec::new(), None);
    for part in &parts {
        if groups.contains(&part.group()) {
            continue;
        }
        let is_next = end.is_none_or(|end| end == part.from);
        pattern.push_str(if is_next { "" } else { ".*?" });
        pattern.push_str(&part.pattern);
        groups.push(part.group());
        end = Some(part.end);
    }
    let Some(first) = parts.first() else { return Default::default() };
    let lead = line.find(|c: char| c.is_ascii_digit()).unwrap_or(line.len());
    let (begin, gap) = if first.from <= lead { (first.from, "") } else { (lead, ".*?") };
    let anchored = format!("^{}{gap}{}", like(&line[..begin]), pattern.trim_start_matches('^'));
    [pattern, anchored]
}

/// The class of a character in a pattern.
#[derive(PartialEq)]
enum Kind {
    Digits,
    Space,
    Other,
}

fn kind_of(letter: char) -> Kind {
    match letter {
        _ if letter.is_ascii_digit() => Kind::Digits,
        _ if letter.is_whitespace() => Kind::Space,
        _ => Kind::Other,
    }
}

/// A text as a pattern in which any number matches any number, and any white space matches any white space or none.
fn like(text: &str) -> String {
    let mut pattern = String::new();
    for part in text.chars().collect::<Vec<_>>().chunk_by(|a, b| kind_of(*a) == kind_of(*b)) {
        match kind_of(part[0]) {
            Kind::Digits => pattern += "\\d+",
            Kind::Space => pattern += "\\s*",
            Kind::Other => pattern += &escape(&part.iter().collect::<String>()),
        }
    }
    pattern
}

/// A text as a pattern in which any white space matches any white space.
fn spaced(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(escape).collect();
    let end = if text.ends_with(char::is_whitespace) { "\\s*" } else { "" };
    format!("{}{end}", words.join("\\s+"))
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::super::printed::numbers;
    use super::*;

    #[test]
    fn a_pattern_reads_a_number_with_a_digit_and_never_a_part_of_it() {
        let pattern_of = |line: &str| numbers(line).pop().map(|number| number.pattern(None)).unwrap_or_default();
        for line in [
            "42",
            "time 17,79ms",
            "tps: 12,345",
            "time 1 234 ms",
            "throughput 1.25K tokens/s",
            // Names of fields.
            "loss: 0.5",
            "time=1.5 s/it",
            // Names without a letter.
            "accuracy 2504/10042=0.2494",
            "- 2s",
        ] {
            assert_eq!(pattern_of(line), "", "{line}");
        }
        let pattern = Regex::new(&pattern_of("patches: 7")).expect("a regular expression");
        let read =
            |line: &'static str| pattern.captures(line).and_then(|captures| Some(captures.name("patches")?.as_str()));
        assert_eq!(
            ["patches: 1e-3.", "patches: -2.5, 3", "patches: 1,234 ms"].map(read),
            [Some("1e-3"), Some("-2.5"), Some("1,234")]
        );
        assert_eq!(["patches: e", "patches: --", "patches: ."].map(read), [None, None, None]);
    }

    #[test]
    fn a_pattern_names_a_number_whose_name_begins_with_a_digit() {
        let printed = numbers("2nd_loss: 0.5");
        assert_eq!(printed.iter().map(Printed::key).collect::<Vec<_>>(), ["2nd_loss"]);
        let pattern = Regex::new(&printed[0].pattern(None)).expect("a name of a group begins with a letter");
        let read =
            pattern.captures("2nd_loss: 0.25").and_then(|captures| Some(captures.name("nd_loss")?.as_str().to_owned()));
        assert_eq!(read.as_deref(), Some("0.25"));
    }

    #[test]
    fn the_name_of_a_group_has_the_printed_unit_and_a_duration_a_field_for_its_unit() {
        let group = |part: Option<Part>| part.and_then(|part| part.group().map(str::to_owned));
        for (line, of_reading, of_duration) in [
            ("time 250 µs", Some("time_us"), None),
            ("time 900ns", Some("time_ns"), None),
            ("time=21.3 ms/it", Some("time_ms"), Some("duration_ms")),
            ("time (ms): 21.3", Some("time_ms"), Some("duration_ms")),
            ("dt 1.5 s", Some("dt_s"), Some("duration_s")),
            ("| 12 ms", None, Some("duration_ms")),
            ("memory: 1.5GiB", Some("memory_gib"), None),
        ] {
            let number = numbers(line).pop().expect("a number");
            assert_eq!(group(number.part(None)).as_deref(), of_reading, "{line}");
            assert_eq!(group(number.part_of_duration()).as_deref(), of_duration, "{line}");
        }
    }

    #[test]
    fn an_epoch_and_a_step_in_brackets_are_read_in_their_order() {
        let line = "Epoch: [3][ 10/5005]\tLoss 6.9";
        let parts =
            vec![Part::of_count(line, 9, &(12..14), "step", Some(19)), Part::of_count(line, 0, &(8..9), "epoch", None)];
        let [pattern, anchored] = patterns(line, parts);
        for pattern in [pattern, anchored] {
            let pattern = Regex::new(&pattern).expect("a regular expression");
            let captures = pattern.captures("Epoch: [12][2000/5005]\tLoss 6.9").expect("a match");
            assert_eq!(["epoch", "step", "steps"].map(|name| captures[name].to_owned()), ["12", "2000", "5005"]);
            assert!(!pattern.is_match("Test: [3/20]\tLoss 6.9"), "{pattern}");
        }
    }

    #[test]
    fn an_anchored_pattern_reads_only_lines_that_begin_like_its_line() {
        let line = "Test: [1/3]\tTime  0.500\tAcc@1   1.00";
        let parts = numbers(line).pop().and_then(|number| number.part(None)).into_iter().collect();
        let [pattern, anchored] = patterns(line, parts).map(|text| Regex::new(&text).expect("a regular expression"));
        let other = "Epoch: [0][ 1/20]\tAcc@1  90.00";
        assert_eq!([&pattern, &anchored].map(|pattern| pattern.is_match(other)), [true, false], "{anchored}");
        assert!(anchored.is_match("Test: [20/300] Time 1.5 Acc@1 2.00"), "{anchored}");
    }
}
