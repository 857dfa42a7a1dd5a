//! Lines of output with a step and a loss, in the words of many programs: `step 12/100 loss 0.5, time 17.79ms`, and the lines of Keras,
//! timm and PyTorch's examples.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Match, Regex};

use super::fields::{Fields, can_wait, ungrouped};
use super::phases::{EVALUATING, EVALUATIONS};
use super::printed::{self, Meaning, Printed};
use super::{NamedPhase, Untaken};

/// A number as programs print it.
const NUMBER: &str = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))";

/// A count as programs print it, with commas between its groups of three digits or without.
const COUNT: &str = r"\d{1,3}(?:,\d{3})+|\d+";

/// The regular expression of a format, with [`NUMBER`] in the place of `…`, and [`COUNT`] in the place of `‥`.
pub(super) fn pattern(text: &str) -> Option<Regex> {
    Regex::new(&text.replace('…', NUMBER).replace('‥', COUNT)).ok()
}

/// `loss: 0.5`, `train loss = 0.5`, `Loss 6.9e+00 (7.0e+00)`.
static LOSS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"(?i)(?:^|[^\w/-])(?:train(?:ing)?[ _/])?loss\s*[:=]?\s*(?<loss>…)(?:[^\w.#^]|\.?$|\.\s)")
});
/// `step 12/100`, `iter: 12`, `Step [12/100]`.
static STEP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:^|[^\w/])(?:global[ _])?(?:step|iter|iteration)s?\s*[:=#]?\s*\[?\s*(?<step>‥)(?:\s*/\s*(?<steps>‥))?(?:[^\w.]|\.?$|\.\s)",
    )
});
/// `epoch 3`, `Epoch: [3]`.
static EPOCH: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?i)(?:^|[^\w/])epoch\s*[:=#]?\s*\[?\s*(?<epoch>\d+(?:\.\d+)?)(?:[^\w.]|$)"));
/// Lines with these words report the loss of an evaluation: `val loss 0.5`, `validate step: 10  loss: 0.5`, `dev_loss=0.5`.
static OTHERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let (words, naming) = (EVALUATIONS.join("|"), EVALUATING.join("|"));
    pattern(&format!(
        r"(?i)\b(?:{words})(?:\b|_)|\b(?:{naming})(?:[\s:|/\])>-]{{1,4}}(?:(?:global[ _])?(?:step|iter|iteration|batch|epoch)|loss)\b|_loss\b)"
    ))
});
/// The end of a text behind which stands the best loss so far.
static BEST: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"(?i)\b(?:best|lowest|smallest)\W*$"));

/// Keras: ` 12/100 ━━━╸━━━ 1s 2ms/step - accuracy: 0.9 - loss: 0.5`; the line characters are a bar, `-` is not.
static KERAS: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*(?<step>\d+)/(?<steps>\d+)\s+(?<bar>\[[=>.]+\]|[━╸╺ ]+|-)\s*(?:-|\d|ETA)"));
/// timm, and PyTorch's examples: `Train: 0 [  50/1251 (  4%)]`, `Epoch: [0][  10/5005]`.
static BATCH: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"(?:Train: (?<epoch>\d+) |Epoch:? ?\[(?<e>\d+)\] ?)\[\s*(?<step>‥)/\s*(?<steps>‥)(?: \([^)]*\))?\]")
});

pub(super) fn captures<'l>(regex: &Option<Regex>, line: &'l str) -> Option<Captures<'l>> {
    regex.as_ref()?.captures(line)
}

pub(super) fn count(captures: &Captures, name: &str) -> Option<u64> {
    let text = captures.name(name)?.as_str();
    ungrouped(text).as_deref().unwrap_or(text).parse().ok()
}

/// `None` if a line does not have the format; otherwise whether its numbers can be read, with the problem.
pub(super) type Read = Option<Result<(), String>>;

/// The position of a step's number in a line, with the last step and the epoch.
struct Numbered {
    step: Option<u64>,
    steps: Option<u64>,
    epoch: Option<f64>,
    /// Whether it is a line of Keras, and whether that line has a bar.
    keras: bool,
    has_bar: bool,
    /// The positions of these numbers, in bytes.
    places: Vec<Range<usize>>,
    /// The place at which the number of the step begins; `None` in lines of Keras.
    step_at: Option<usize>,
    /// Whether the number of the step has separators that do not show its value.
    is_unclear: bool,
}

impl Numbered {
    /// Finds step and epoch in a line with these numbers.
    fn of(line: &str, epoch: Option<f64>, numbers: &[Printed<'_>]) -> Self {
        let none = Self {
            step: None,
            steps: None,
            epoch: None,
            keras: false,
            has_bar: false,
            places: vec![],
            step_at: None,
            is_unclear: false,
        };
        let at = |captures: &Captures| captures.name("step").map(|step| step.start());
        let number = |captures: &Captures, name: &str| -> Option<f64> { captures.name(name)?.as_str().parse().ok() };
        if let Some(found) = captures(&KERAS, line) {
            let has_bar = found.name("bar").is_some_and(|bar| bar.as_str() != "-");
            let end = found.name("bar").map_or(0, |bar| bar.start());
            let (step, steps) = (count(&found, "step"), count(&found, "steps"));
            return Self {
                step,
                steps,
                keras: true,
                has_bar,
                places: std::iter::once(0..end).collect(),
                epoch,
                ..none
            };
        }
        if let Some(found) = captures(&BATCH, line) {
            let epoch = number(&found, "epoch").or_else(|| number(&found, "e"));
            let whole = found.get(0).map_or(0..0, |whole| whole.range());
            let (step, steps) = (count(&found, "step"), count(&found, "steps"));
            return Self { step, steps, epoch, places: vec![whole], step_at: at(&found), ..none };
        }
        let is_part = |found: &Captures, name: &str| {
            found.name(name).is_some_and(|part| numbers.iter().any(|number| number.extends(&part.range())))
        };
        let step = captures(&STEP, line);
        if step.as_ref().is_some_and(|step| is_part(step, "step") || is_part(step, "steps")) {
            return Self { is_unclear: true, ..none };
        }
        let at_epoch = captures(&EPOCH, line).filter(|found| !is_part(found, "epoch"));
        let ranges = [(&step, "step"), (&step, "steps"), (&at_epoch, "epoch")];
        let places = ranges.iter().filter_map(|(found, name)| Some(found.as_ref()?.name(name)?.range()));
        let places = places.collect();
        let of_step = |name| step.as_ref().and_then(|step| count(step, name));
        let epoch = at_epoch.as_ref().and_then(|found| number(found, "epoch"));
        let step_at = step.as_ref().and_then(at);
        Self { step: of_step("step"), steps: of_step("steps"), epoch, places, step_at, ..none }
    }
}

/// Whether a line with Keras's bar is the last one of its epoch, which Keras prints after the validation; `None` for any other line.
pub(super) fn follows_validation(line: &str) -> Option<bool> {
    let has_bar = captures(&KERAS, line)?.name("bar")?.as_str() != "-";
    has_bar.then(|| captures(&OTHERS, line).is_some())
}

/// The place of the first loss of a line, except that of the best loss so far.
fn loss_in(line: &str) -> Option<Match<'_>> {
    let (regex, mut from) = (LOSS.as_ref()?, 0);
    loop {
        let found = regex.captures_at(line, from)?;
        let loss = found.name("loss")?;
        if captures(&BEST, &line[..found.get(0)?.start()]).is_none() {
            return Some(loss);
        }
        from = loss.end();
    }
}

/// A line with a loss is a step if it contains a step number, and otherwise a reading. Other numbers of a step are its duration, its wait
/// or readings, judged by their names and units; numbers of unknown meaning are returned. Of a line with the loss of an evaluation, the
/// fields have only the phase and the number of the step.
pub(super) fn read(line: &str, epoch: Option<f64>, fields: &mut Fields) -> (Read, Vec<Untaken>) {
    let (read, others, _) = told_apart(line, epoch, fields);
    (read, untaken(others.into_iter()))
}

/// Reads a sentence as [`read`] does; returns the numbers of unknown meaning, and a pattern for the numbers that were read of a step.
pub(super) fn told_apart<'l>(
    line: &'l str,
    epoch: Option<f64>,
    fields: &mut Fields,
) -> (Read, Vec<Printed<'l>>, String) {
    let nothing = |read: Read| (read, Vec::new(), String::new());
    let Some(loss) = loss_in(line) else { return nothing(None) };
    let numbers = printed::numbers(line);
    let numbered = Numbered::of(line, epoch, &numbers);
    let value = loss_of(&loss, &numbers);
    // An evaluation is not a step: if it repeats a training loss, the step would be counted twice.
    let is_evaluation = captures(&OTHERS, line).is_some() && !numbered.keras;
    if is_evaluation {
        (fields.phase, fields.step.step) = (NamedPhase::of("evaluate"), numbered.step);
    }
    let Some(value) = value.filter(|_| !is_evaluation && !numbered.is_unclear) else {
        let is_other = |number: &Printed<'_>| !numbered.places.iter().any(|place| place.contains(&number.at));
        return (None, numbers.into_iter().filter(is_other).collect(), String::new());
    };
    fields.step.epoch = numbered.epoch;
    if numbered.step.is_none() {
        fields.reading("loss", value);
        return nothing(Some(Ok(())));
    }
    (fields.step.step, fields.step.steps) = (numbered.step, numbered.steps);
    fields.step.loss = Some(value);
    let (mut others, mut taken, mut names_step, mut wait) = (Vec::new(), Vec::new(), false, None);
    for number in numbers {
        if number.at == loss.start() || numbered.places.iter().any(|place| place.contains(&number.at)) {
            let is_step = numbered.step_at == Some(number.at);
            let name = if number.at == loss.start() { Some("loss") } else { is_step.then_some("step") };
            taken.extend(name.map(|name| (number.at, number.pattern(Some(name)))));
            names_step |= name == Some("step");
            continue;
        }
        match meaning(&number, &numbered) {
            Meaning::Duration(duration_s) if fields.step.duration_s.is_none() => {
                fields.step.duration_s = Some(duration_s);
                taken.push((number.at, number.pattern(Some(number.duration_group()))));
            }
            Meaning::Wait(wait_s) if wait.is_none() => wait = Some((wait_s, number)),
            Meaning::Reading(key, value) => {
                fields.reading(&key, value);
                taken.push((number.at, number.pattern(None)));
            }
            Meaning::Duration(_) | Meaning::Wait(_) | Meaning::Unknown => others.push(number),
        }
    }
    if let Some((wait_s, number)) = wait {
        match fields.step.duration_s {
            Some(duration_s) if !can_wait(wait_s, duration_s) => others.push(number),
            _ => fields.step.wait_s = Some(wait_s),
        }
    }
    // A count in brackets, as in `Step [100/600]`, is not among the printed numbers.
    if let Some(at) = numbered.step_at.filter(|_| !names_step) {
        taken.push((at, printed::pattern_of_step(&line[..at])));
        taken.sort();
    }
    let taken = taken.into_iter().map(|(_, pattern)| pattern).filter(|pattern| !pattern.is_empty());
    let taken: Vec<String> = taken.collect();
    (Some(Ok(())), others, taken.join(".*?"))
}

/// The loss at this place of a line with these numbers; `None` if its separators do not show its value. Hardly a loss is a whole number of
/// thousands, so that `2,345` may have a decimal comma.
fn loss_of(loss: &Match<'_>, numbers: &[Printed<'_>]) -> Option<f64> {
    match numbers.iter().find(|number| number.extends(&loss.range())) {
        Some(whole) => whole.value.filter(|_| !whole.may_have_decimals()),
        None => loss.as_str().parse().ok(),
    }
}

/// The numbers of a line that are not read.
pub(super) fn untaken<'l>(numbers: impl Iterator<Item = Printed<'l>>) -> Vec<Untaken> {
    let words = |number: &Printed<'l>| {
        let parts = [number.name, number.text, number.unit];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let of_number = |number: Printed<'l>| Untaken {
        number: words(&number),
        name: number.name.to_owned(),
        pattern: number.pattern(None),
    };
    numbers.map(of_number).collect()
}

/// The meaning of a number in a step's line. Keras prints all measures with their names. If it prints no bar, it prints the mean time of a
/// step over the whole epoch.
fn meaning(number: &Printed<'_>, numbered: &Numbered) -> Meaning {
    match number.meaning() {
        Meaning::Reading(key, value) if numbered.keras && !numbered.has_bar && key == "mean_step_s" => {
            Meaning::Duration(value)
        }
        Meaning::Unknown if numbered.keras && !number.name.is_empty() && number.name != "ETA" => {
            number.value.map_or(Meaning::Unknown, |value| Meaning::Reading(number.key(), value))
        }
        meaning => meaning,
    }
}
