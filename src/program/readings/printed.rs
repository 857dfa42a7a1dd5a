//! The numbers of a printed line, each with its name and its unit: `iter 10: loss 3.24, time 17.79ms, mfu 20.94%`.
//!
//! A number's name is the text in front of it, back to the previous number or a separator. A number in parentheses directly after another
//! number is its mean, and has no name. Dates, times of day and the counts of progress bars do not count as numbers.
//!
//! Commas between groups of three digits belong to a number. It has no value if its separators may mean something else: `17,79`, `1 234`.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::fields::ungrouped;

/// A number of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Printed<'l> {
    /// Its printed name; empty if it has none.
    pub name: &'l str,
    /// The text between the previous number and this one, including the name and separators.
    pub gap: &'l str,
    /// Its position in the line, in bytes.
    pub at: usize,
    /// The printed number.
    pub text: &'l str,
    /// The number; `None` if its separators or its unit do not show its value.
    pub value: Option<f64>,
    /// Its printed unit, after the number or in parentheses after the name; empty if it has none.
    pub unit: &'l str,
    /// Whether its mean follows, as a number in parentheses.
    pub has_mean: bool,
}

/// Dates with times, times of day, and the counts and durations of progress bars.
static NO_NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?|\d+:\d\d(?::\d\d(?:[.,]\d+)?)?|\[[\d:]+<[^\]]*\]|\[Rank \d+\]|\[\w+\.\w+:\d+:\w+\]|\[\s*[\d,]+/\s*[\d,]+\s*(?:\([^)]*\))?\]|\w+_step=|/micro_step=\d+").ok()
});
/// A number with all points and commas between its digits.
static NUMBER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[-+]?(?:(?:\d+(?:[.,]\d+)+|\d+\.?)(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?)\b)").ok());
/// The rest of a number after its first digits, if the number has blanks or quotes between its groups of three digits, and perhaps
/// decimals.
static GROUPS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:[ \u{a0}\u{2009}\u{202f}]\d{3}|['’]\d{3})+(?:[.,]\d+)*").ok());
/// The unit after a number.
static UNIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^\s?(?<unit>[kKMG]\s?(?:it|steps?|tok|tokens?|samples?|images?|imgs?|img)/s(?:ec)?|[mµun]?s/(?:step|it|iter|batch)|(?:it|steps?|tok|tokens?|samples?|images?|imgs?|img)/s(?:ec)?|[TG]?FLOPS?(?:/s)?|/s(?:ec)?|msec|ms|µs|us|ns|secs?|seconds|s|%|[KMGT]i?B|[KMG])(?:[^\w/:=]|$)",
    )
    .ok()
});
/// The unit in parentheses after a name: `elapsed time per iteration (ms):`.
static NAMED_UNIT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?<name>.*?)\s*\((?<unit>[^()\d]+)\)$").ok());

/// The numbers of a line in order.
pub(super) fn numbers(line: &str) -> Vec<Printed<'_>> {
    let (Some(number), Some(none), Some(units)) = (&*NUMBER, &*NO_NUMBERS, &*UNIT) else { return Vec::new() };
    let barred: Vec<(usize, usize)> =
        none.find_iter(line).map(|barred_number| (barred_number.start(), barred_number.end())).collect();
    let (mut numbers, mut from, mut gap_from): (Vec<Printed<'_>>, _, _) = (Vec::new(), 0, 0);
    while let Some(digits) = number.find_at(line, from) {
        let at = digits.start();
        if let Some((_, end)) = barred.iter().find(|(start, end)| (*start..*end).contains(&at)) {
            (from, gap_from) = (*end, *end);
            continue;
        }
        let (end, value) = whole(line, digits.range());
        let text = &line[at..end];
        let before = line[..at].chars().next_back();
        let after = line[end..].chars().next();
        let unit = units.captures(&line[end..]).and_then(|unit| unit.name("unit"));
        // A digit that belongs to a word: `Acc@1`, `rank0`, `1.2.3`. A letter after a number is a unit, or makes it a word: `2x`.
        let is_word = before.is_some_and(|c| c.is_alphanumeric() || "_@./^".contains(c)) || is_version(text);
        // `2^3` and `1.#QNAN` are other numbers than their first digits.
        let continues = |c: char| c.is_alphanumeric() || "_@#^".contains(c);
        if is_word || unit.is_none() && after.is_some_and(continues) {
            from = end + line[end..].find(|c| !continues(c)).unwrap_or(line.len() - end);
            continue;
        }
        let gap = &line[gap_from..at];
        from = unit.map_or(end, |unit| end + unit.end());
        gap_from = from;
        let follows = numbers.last_mut().filter(|_| gap.trim() == "(");
        if let Some(last) = follows {
            last.has_mean = true;
            continue;
        }
        let (name, named_unit) = name_of(gap);
        let unit = unit.map_or(named_unit, |unit| unit.as_str());
        numbers.push(Printed { name, gap, at, text, value, unit, has_mean: false });
    }
    // A program that prints one decimal comma prints all decimals so.
    if numbers.iter().any(|number| number.value.is_none() && number.text.matches(',').count() == 1) {
        numbers.iter_mut().filter(|number| number.may_have_decimals()).for_each(|number| number.value = None);
    }
    numbers.iter_mut().filter(|number| number.is_of_unknown_unit()).for_each(|number| number.value = None);
    numbers
}

/// The end of the number that begins with these digits, and its value if its separators show it.
fn whole(line: &str, digits: Range<usize>) -> (usize, Option<f64>) {
    let (start, end) = (digits.start, digits.end);
    let (text, rest) = (&line[digits], &line[end..]);
    let first = text.trim_start_matches(['-', '+']);
    let is_first_group =
        (1..=3).contains(&first.len()) && first.bytes().all(|byte| byte.is_ascii_digit()) && !first.starts_with('0');
    let groups = GROUPS.as_ref().filter(|_| is_first_group).and_then(|groups| groups.find(rest));
    if let Some(groups) = groups.filter(|groups| !rest[groups.end()..].starts_with(|c: char| c.is_ascii_digit())) {
        return (end + groups.end(), None);
    }
    let parts: Vec<&str> = text.split(',').collect();
    // A list such as `0.5,0.25`.
    if parts.len() > 1 && parts.iter().all(|part| part.contains('.')) {
        return (start + parts[0].len(), parts[0].parse().ok());
    }
    if parts.len() == 1 {
        return (end, text.parse().ok());
    }
    let (count, decimals) = first.split_once('.').unwrap_or((first, ""));
    let is_grouped = ungrouped(count).is_some() && decimals.bytes().all(|byte| byte.is_ascii_digit());
    (end, text.replace(',', "").parse().ok().filter(|_| is_grouped))
}

/// Whether a number with several points is a version or an address.
fn is_version(text: &str) -> bool {
    text.matches('.').count() > 1 && !text.contains([',', ' ', '\''])
}

/// Splits the text in front of a number into the name and the unit in parentheses after it.
fn name_of(gap: &str) -> (&str, &str) {
    let ends = |c: char| c.is_whitespace() || ":=([{'\"#".contains(c);
    let name = gap.trim_end_matches(ends);
    // An opening parenthesis belongs to a unit: `time (ms):`.
    let begin = name.rfind([',', ';', '|', '\t', ']', '}', '{']).map_or(0, |at| at + 1);
    let begin =
        [" - ", "  "].iter().filter_map(|sign| name.rfind(sign).map(|at| at + sign.len())).fold(begin, usize::max);
    let name = name[begin..].trim_matches(|c: char| c.is_whitespace() || "-–•:('\"/".contains(c));
    // Without a letter it is another number, such as the last step.
    let name = if name.contains(char::is_alphabetic) { name } else { "" };
    match NAMED_UNIT.as_ref().and_then(|regex| regex.captures(name)) {
        Some(captures) => (
            captures.name("name").map_or("", |name| name.as_str()),
            captures.name("unit").map_or("", |unit| unit.as_str()),
        ),
        None => (name.trim_matches(['(', ')']).trim(), ""),
    }
}

/// The conversion of a unit: the factor, and the ending of the key.
pub(super) fn unit_of(unit: &str) -> (f64, &'static str) {
    let plain = unit.to_lowercase();
    let plain = plain.strip_suffix("ec").filter(|rest| rest.ends_with("/s")).unwrap_or(&plain);
    match plain {
        "s" | "sec" | "secs" | "seconds" | "s/step" | "s/it" | "s/iter" | "s/batch" => (1.0, "_s"),
        "ms" | "msec" | "ms/step" | "ms/it" | "ms/iter" | "ms/batch" => (1e-3, "_s"),
        "us" | "µs" | "us/step" | "µs/step" => (1e-6, "_s"),
        "ns" => (1e-9, "_s"),
        "%" => (1.0, "_percent"),
        "kib" => (1024.0, "_bytes"),
        "mib" => (1_048_576.0, "_bytes"),
        "gib" => (1_073_741_824.0, "_bytes"),
        "tib" => (1_099_511_627_776.0, "_bytes"),
        "kb" | "k" => (1e3, "_bytes"),
        "mb" | "m" => (1e6, "_bytes"),
        "gb" | "g" => (1e9, "_bytes"),
        "tb" => (1e12, "_bytes"),
        "it/s" | "step/s" | "steps/s" => (1.0, "_steps_per_s"),
        "tok/s" | "token/s" | "tokens/s" => (1.0, "_tokens_per_s"),
        "sample/s" | "samples/s" | "image/s" | "images/s" | "img/s" | "imgs/s" | "/s" => (1.0, "_samples_per_s"),
        "tflops" | "tflop/s" | "tflop" | "tflops/s" | "tflop/s/gpu" => (1.0, "_tflop_per_s"),
        _ => scaled_rate(plain).unwrap_or((1.0, "")),
    }
}

/// The conversion of a rate in thousands, millions or billions: `k tokens/s`.
fn scaled_rate(plain: &str) -> Option<(f64, &'static str)> {
    [("k", 1e3), ("m", 1e6), ("g", 1e9)].iter().find_map(|(prefix, scale)| {
        let rate = plain.strip_prefix(prefix)?.trim_start();
        let (factor, ending) = unit_of(rate);
        let is_rate = ["_steps_per_s", "_tokens_per_s", "_samples_per_s"].contains(&ending);
        // `m/s` is a speed.
        (is_rate && factor == 1.0 && rate != "/s").then_some((*scale, ending))
    })
}

/// Parts of names of memory, whose numbers have K, M and G for bytes.
const MEMORIES: [&str; 6] = ["mem", "alloc", "reserved", "vram", "rss", "peak"];

/// Names that mean the time of one step.
const STEP_TIMES: &[&str] = &[
    "time",
    "dt",
    "iter time",
    "iteration time",
    "step time",
    "batch time",
    "time per iteration",
    "elapsed time per iteration",
    "elapsed time per step",
    "time per step",
    "time/iter",
    "time/step",
    "duration",
    "duration s",
    "duration ms",
    "step took",
    "took",
    "",
];
/// Names that mean the time a step waits for data.
const WAITS: &[&str] = &["data", "data time", "load time", "data loading time", "wait", "wait s"];
/// Words in names of numbers that are readings of a step.
const READINGS: &[&str] = &[
    "lr",
    "learning rate",
    "norm",
    "grad",
    "gnorm",
    "acc",
    "accuracy",
    "mfu",
    "hfu",
    "flops",
    "throughput",
    "tps",
    "mem",
    "memory",
    "memallocated",
    "maxmemallocated",
    "ppl",
    "perplexity",
    "samples/sec",
    "samples/s",
    "tokens/sec",
    "tokens/s",
    "tok/s",
    "tok/sec",
    "images/sec",
    "images/s",
    "ips",
    "samplespersec",
    "auc",
    "map",
    "f1",
];

/// The meaning of a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// The duration of the step, in seconds.
    Duration(f64),
    /// The part of the duration spent waiting for data, in seconds.
    Wait(f64),
    /// Another number, with the key of its measure.
    Reading(String, f64),
    /// Its meaning is unknown.
    Unknown,
}

impl Printed<'_> {
    /// Whether this number begins at this place and is longer than it.
    pub fn extends(&self, place: &Range<usize>) -> bool {
        self.at == place.start && self.text.trim_end_matches('.').len() > place.len()
    }

    /// Whether its only comma may be a decimal comma.
    pub fn may_have_decimals(&self) -> bool {
        self.text.matches(',').count() == 1 && !self.text.contains('.')
    }

    /// Whether its unit is a letter that may mean thousands, millions or billions of anything: `params 7M`.
    fn is_of_unknown_unit(&self) -> bool {
        let name = self.name.to_lowercase();
        let is_memory = MEMORIES.iter().any(|memory| name.contains(memory));
        !is_memory && ["k", "m", "g"].iter().any(|letter| self.unit.eq_ignore_ascii_case(letter))
    }

    /// The meaning of the number, judged by its name and its unit.
    pub fn meaning(&self) -> Meaning {
        let name = self.name.to_lowercase().replace('_', " ");
        let (factor, ending) = unit_of(self.unit);
        let Some(value) = self.value.map(|value| value * factor) else { return Meaning::Unknown };
        // PyTorch's examples print seconds without a unit, followed by the mean.
        let is_time = ending == "_s" || self.unit.is_empty() && self.has_mean;
        let is_per_step = self.unit.contains("/step") || self.unit.contains("/it");
        if is_time && value.is_finite() && value >= 0.0 {
            if STEP_TIMES.contains(&&*name) && (!name.is_empty() || self.unit != "s") && !is_per_step {
                return Meaning::Duration(value);
            }
            if WAITS.contains(&&*name) {
                return Meaning::Wait(value);
            }
            if is_per_step {
                return Meaning::Reading("mean_step_s".to_owned(), value);
            }
        }
        let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric() && c != '/').collect();
        let is_known = READINGS.iter().any(|known| words.contains(known) || name == *known || name.ends_with(known));
        let is_rate = ending.ends_with("_per_s");
        if is_known || is_rate { Meaning::Reading(self.key(), value) } else { Meaning::Unknown }
    }

    /// The key of its measure: the name, with the unit unless the name contains it.
    pub fn key(&self) -> String {
        let (_, ending) = unit_of(self.unit);
        let plain = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let name: String = self.name.replace("/sec", "_per_s").replace("/s", "_per_s").chars().map(plain).collect();
        let name = name.trim_matches('_').to_owned();
        let key = if name.is_empty() {
            ending.trim_start_matches('_').to_owned()
        } else if name.ends_with(ending) {
            name
        } else {
            name + ending
        };
        if key.is_empty() { "number".to_owned() } else { key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of a line as they are printed, each with its value.
    fn values(line: &str) -> Vec<(&str, Option<f64>)> {
        numbers(line).iter().map(|number| (number.text, number.value)).collect()
    }

    #[test]
    fn a_number_is_read_whole_or_not_at_all() {
        for (line, expected) in [
            ("tps: 12,345", vec![("12,345", Some(12_345.0))]),
            ("time 1,234.5ms of 1,234,567", vec![("1,234.5", Some(1_234.5)), ("1,234,567", Some(1_234_567.0))]),
            ("time 17,79ms", vec![("17,79", None)]),
            ("time 0,079 s", vec![("0,079", None)]),
            ("rate 1.234,5", vec![("1.234,5", None)]),
            ("1 234 ms, 1'234 ms, 1\u{202f}234,5 ms", vec![("1 234", None), ("1'234", None), ("1\u{202f}234,5", None)]),
            ("loss 2,950 time 24,07ms", vec![("2,950", None), ("24,07", None)]),
            ("torch 2.1.0 on 10.0.0.1", vec![]),
            (
                "loss 2.1, 3.4 shape (3, 224)",
                vec![("2.1", Some(2.1)), ("3.4", Some(3.4)), ("3", Some(3.0)), ("224", Some(224.0))],
            ),
            ("losses 0.5,0.25", vec![("0.5", Some(0.5)), ("0.25", Some(0.25))]),
            ("acc 1.#QNAN lr 2^3, 1.#INF top 10^-3 step #4", vec![("4", Some(4.0))]),
            ("tps 1.2K params 7M gpu_mem 2G", vec![("1.2", None), ("7", None), ("2", Some(2.0))]),
            (
                "batch 5  200 img/s 0 100 7 2048",
                vec![
                    ("5", Some(5.0)),
                    ("200", Some(200.0)),
                    ("0", Some(0.0)),
                    ("100", Some(100.0)),
                    ("7", Some(7.0)),
                    ("2048", Some(2_048.0)),
                ],
            ),
        ] {
            assert_eq!(values(line), expected, "{line}");
        }
    }

    #[test]
    fn words_that_are_no_finite_number_are_readings_however_they_are_written() {
        for (text, value) in [("NaN", f64::NAN), ("Inf", f64::INFINITY), ("-Infinity", -f64::INFINITY)] {
            let line = format!("step 3 acc {text} lr 0.1");
            let meanings: Vec<Meaning> = numbers(&line).iter().skip(1).map(Printed::meaning).collect();
            let [Meaning::Reading(key, read), Meaning::Reading(..)] = &meanings[..] else { panic!("{meanings:?}") };
            assert_eq!((key.as_str(), read.to_string()), ("acc", value.to_string()));
        }
        assert!(values("INFO nano infinite").is_empty());
    }

    #[test]
    fn a_letter_in_front_of_a_rate_is_a_factor_and_means_bytes_only_of_memory() {
        let meaning = |line: &str| numbers(line)[0].meaning();
        let reading = |key: &str, value| Meaning::Reading(key.to_owned(), value);
        assert_eq!(meaning("throughput 1.25K tokens/s"), reading("throughput_tokens_per_s", 1250.0));
        assert_eq!(meaning("throughput 2.5 Mtok/sec"), reading("throughput_tokens_per_s", 2.5e6));
        assert_eq!(meaning("speed 3k it/s"), reading("speed_steps_per_s", 3e3));
        assert_eq!(meaning("mem 2G"), reading("mem_bytes", 2e9));
        assert_eq!(meaning("throughput 1.25K"), Meaning::Unknown);
    }
}
