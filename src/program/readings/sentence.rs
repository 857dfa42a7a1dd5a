//! Lines of output with a step and a loss, in the words of many programs: `step 12/100 loss 0.5, time 17.79ms`, and the lines of Keras,
//! timm and PyTorch's examples.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Match, Regex};

use super::fields::{Fields, can_wait, ungrouped};
use super::parts::{self, Part};
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
/// `step 12/100`, `iter: 12`, `Step [12/100]`, MMEngine's `Iter(train) [  50/160000]`.
static STEP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:^|[^\w/])(?:global[ _])?(?:step|iter|iteration)s?(?:\(train\))?\s*[:=#]?\s*\[?\s*(?<step>‥)(?:\s*/\s*(?<steps>‥))?(?:[^\w.]|\.?$|\.\s)",
    )
});
/// Steps that are called batches, with the number of all: `Epoch 1, Batch 10/938`, `| 200/2983 batches |`. The number of a batch alone may be
/// its size.
static OF_BATCHES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:^|[^\w/])(?:(?:mini[ -]?)?batch(?:[ _](?:idx|index|no\.?))?\s*[:=#]?\s*\[?\s*(?<step>‥)\s*(?:/|of)\s*(?<steps>‥)(?:[^\w.]|\.?$|\.\s)|(?<counted>‥)\s*/\s*(?<batches>‥) batches\b)",
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
/// The loss of an evaluation behind the word for it: `val_loss: 0.5`, `Validation: average loss 0.5`, `validate step: 10  loss: 0.5`,
/// Megatron's `validation loss at iteration 10 | lm loss value: 2.5E+00`.
static EVALUATED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = [EVALUATIONS, EVALUATING].concat().join("|");
    pattern(&format!(
        r"(?i)(?:\b|_)(?<word>{words})(?:(?:ion|ing)?[\s_/.:|,-]{{1,4}}(?:step|iter|iteration|epoch)\s*[:=#]?\s*\d+(?:/\d+)?)?(?:[\s_/.:|,-]{{1,4}}(?:set|avg|average|mean))*[\s_/.:|,-]{{1,4}}loss(?: at (?:step|iteration) \d+ \| lm loss value)?\s*[:=]?\s*(?<loss>…)(?:[^\w.#^]|\.?$|\.\s)"
    ))
});
/// Lines of evaluations without a loss: MMEngine's `Epoch(val) [3][7/7]`, torchvision's `Test:  [ 7/79]`.
static UNDER_WAY: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^(?:.*- )?(?:(?:Epoch|Iter)\((?:val|test)\)\s|Test:\s+\[)"));
/// An accuracy with a mean loss behind it, such as PyTorch's quickstart prints of its test: `Accuracy: 66.0%, Avg loss: 0.8`.
static SCORES: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?i)^\W*acc(?:uracy)?\b.*\b(?:avg|average|mean)[ _]loss\b"));
/// The end of a text behind which stands the best loss so far.
static BEST: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?i)(?:\b|_)(?:best|lowest|smallest|minimum|min)[\W_]*$"));

/// A number behind a whole number.
static NEXT_NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^:?\s+…(?:[^\w.]|\.?$)"));

/// Keras: ` 12/100 ━━━╸━━━ 1s 2ms/step - accuracy: 0.9 - loss: 0.5`; the line characters are a bar, `-` is not.
static KERAS: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*(?<step>\d+)/(?<steps>\d+)\s+(?<bar>\[[=>.]+\]|[━╸╺ ]+|-)\s*(?:-|\d|ETA)"));
/// timm, PyTorch's examples, torchvision and MMEngine: `Train: 0 [  50/1251 (  4%)]`, `Epoch: [0][  10/5005]`, `Epoch: [0]  [  10/5005]`,
/// `Epoch(train)  [1][ 50/391]`.
static BATCH: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?:Train: (?<epoch>\d+) |Epoch(?:\(train\))?:? {0,2}\[(?<e>\d+)\] {0,2})\[\s*(?<step>‥)/\s*(?<steps>‥)(?: \([^)]*\))?\]",
    )
});

/// PyTorch's tutorial of CIFAR-10: `[2,  4000] loss: 1.271`.
static TUTORIAL: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"(?i)^\s*\[(?<e>\d+),\s*(?<step>\d+)\]\s+loss\b"));

pub(super) fn captures<'l>(regex: &Option<Regex>, line: &'l str) -> Option<Captures<'l>> {
    regex.as_ref()?.captures(line)
}

pub(super) fn count(captures: &Captures, name: &str) -> Option<u64> {
    count_of(captures.name(name)?.as_str())
}

fn count_of(text: &str) -> Option<u64> {
    ungrouped(text).as_deref().unwrap_or(text).parse().ok()
}

/// The places of the number of a step, and of that of the last step.
fn step_of(line: &str) -> (Option<Match<'_>>, Option<Match<'_>>) {
    if let Some(step) = captures(&STEP, line) {
        return (step.name("step"), step.name("steps"));
    }
    let Some(batch) = captures(&OF_BATCHES, line) else { return (None, None) };
    (batch.name("step").or(batch.name("counted")), batch.name("steps").or(batch.name("batches")))
}

/// The number of a step in a line, with that of the last step.
pub(super) fn counted(line: &str) -> Option<(u64, u64)> {
    let (first, last) = step_of(line);
    count_of(first?.as_str()).zip(count_of(last?.as_str()))
}

/// `None` if a line does not have the format; otherwise whether its numbers can be read, with the problem.
pub(super) type Read = Option<Result<(), String>>;

/// The epoch or the step of a line.
struct Count {
    name: &'static str,
    /// The place of its number, in bytes.
    place: Range<usize>,
    /// The end of the number of the last step, if that follows.
    last_end: Option<usize>,
}

/// Epoch and step in the order of the line.
fn counts(epoch: Option<Match<'_>>, step: Option<Match<'_>>, steps: Option<Match<'_>>) -> Vec<Count> {
    let count = |name, found: Option<Match<'_>>, last: Option<Match<'_>>| {
        found.map(|found| Count { name, place: found.range(), last_end: last.map(|last| last.end()) })
    };
    let mut counts: Vec<Count> =
        [count("epoch", epoch, None), count("step", step, steps)].into_iter().flatten().collect();
    counts.sort_by_key(|count| count.place.start);
    counts
}

/// The number of a step in a line, with the last step and the epoch.
#[derive(Default)]
struct Numbered {
    step: Option<u64>,
    steps: Option<u64>,
    epoch: Option<f64>,
    /// Whether it is a line of Keras, and whether that line has a bar.
    keras: bool,
    has_bar: bool,
    /// Whether it is a line of Keras that was printed after a validation.
    is_validated: bool,
    /// The positions of these numbers, in bytes.
    places: Vec<Range<usize>>,
    counts: Vec<Count>,
    /// Whether the number of the step has separators that do not show its value.
    is_unclear: bool,
}

impl Numbered {
    /// Finds step and epoch in a line with these numbers.
    fn of(line: &str, epoch: Option<f64>, numbers: &[Printed<'_>]) -> Self {
        let number = |captures: &Captures, name: &str| -> Option<f64> { captures.name(name)?.as_str().parse().ok() };
        if let Some(found) = captures(&KERAS, line) {
            let has_bar = found.name("bar").is_some_and(|bar| bar.as_str() != "-");
            let end = found.name("bar").map_or(0, |bar| bar.start());
            return Self {
                step: count(&found, "step"),
                steps: count(&found, "steps"),
                epoch,
                keras: true,
                has_bar,
                is_validated: is_validated(line),
                places: std::iter::once(0..end).collect(),
                counts: counts(None, found.name("step"), found.name("steps")),
                is_unclear: false,
            };
        }
        if let Some(found) = captures(&BATCH, line).or_else(|| captures(&TUTORIAL, line)) {
            let whole = found.get(0).map_or(0..0, |whole| whole.range());
            let at_epoch = found.name("epoch").or(found.name("e"));
            return Self {
                step: count(&found, "step"),
                steps: count(&found, "steps"),
                epoch: number(&found, "epoch").or_else(|| number(&found, "e")),
                places: vec![whole],
                counts: counts(at_epoch, found.name("step"), found.name("steps")),
                ..Self::default()
            };
        }
        let is_part = |part: &Match<'_>| numbers.iter().any(|number| number.extends(&part.range()));
        let at_epoch = captures(&EPOCH, line).and_then(|found| found.name("epoch")).filter(|epoch| !is_part(epoch));
        let (first, last) = step_of(line);
        if first.iter().chain(&last).any(is_part) {
            return Self { is_unclear: true, ..Self::default() };
        }
        let whole = |found: Option<Match<'_>>| found.and_then(|found| count_of(found.as_str()));
        Self {
            step: whole(first),
            steps: whole(last),
            epoch: at_epoch.and_then(|found| found.as_str().parse().ok()),
            places: [at_epoch, first, last].into_iter().flatten().map(|found| found.range()).collect(),
            counts: counts(at_epoch, first, last),
            ..Self::default()
        }
    }

    /// Whether a number of the line is the number of an epoch or of a step.
    fn counts(&self, number: &Printed<'_>) -> bool {
        self.places.iter().any(|place| place.contains(&number.at))
    }

    /// The parts of a pattern that read epoch and step of their line.
    fn parts(&self, line: &str) -> Vec<Part> {
        let mut after = 0;
        let part = |Count { name, place, last_end }: &Count| {
            let part = Part::of_count(line, after, place, name, *last_end);
            after = last_end.unwrap_or(place.end);
            part
        };
        self.counts.iter().map(part).collect()
    }
}

/// Whether it is a line of Keras.
pub(super) fn is_of_keras(line: &str) -> bool {
    captures(&KERAS, line).is_some()
}

/// The number of steps in a line of Keras that has counted all of them.
pub(super) fn last_of_keras(line: &str) -> Option<u64> {
    let found = captures(&KERAS, line)?;
    count(&found, "steps").filter(|steps| count(&found, "step") == Some(*steps))
}

/// Whether a line with Keras's bar is the last one of its epoch, which Keras prints after the validation; `None` for any other line.
pub(super) fn follows_validation(line: &str) -> Option<bool> {
    let has_bar = captures(&KERAS, line)?.name("bar")?.as_str() != "-";
    has_bar.then(|| is_validated(line))
}

/// Whether a line of Keras has the values of a validation.
fn is_validated(line: &str) -> bool {
    line.contains(" - val_")
}

/// Whether a line gives an accuracy with a mean loss, which is that of an evaluation if the training prints its losses otherwise.
pub(super) fn gives_scores(line: &str) -> bool {
    captures(&SCORES, line).is_some()
}

/// Whether a line with a loss has the number of a step.
pub(super) fn has_step(line: &str) -> bool {
    let mut fields = Fields::default();
    read(line, false, None, &mut fields).0 == Some(Ok(())) && fields.step.step.is_some()
}

/// The place of the loss of a line: the first one without a word in front of it, such as `min loss`, or else the first one. The best loss so far
/// is none, and neither is the number of a step between the name and the loss: `loss 39 1.025`.
fn loss_in(line: &str) -> Option<Match<'_>> {
    let (regex, mut from, mut first) = (LOSS.as_ref()?, 0, None);
    while let Some(found) = regex.captures_at(line, from) {
        let (loss, before) = (found.name("loss")?, &line[..found.get(0)?.start()]);
        let is_count = loss.as_str().bytes().all(|byte| byte.is_ascii_digit())
            && captures(&NEXT_NUMBER, &line[loss.end()..]).is_some();
        if !is_count && captures(&BEST, before).is_none() {
            if !before.ends_with(char::is_alphabetic) {
                return Some(loss);
            }
            first = first.or(Some(loss));
        }
        from = loss.end();
    }
    first
}

/// The place of the first loss of an evaluation in a line that names it, except that of the best one so far, with the key of the reading. A
/// whole number is none: it may be a weight of this loss, or a number of steps.
fn evaluated_loss(line: &str) -> Option<(Match<'_>, &'static str)> {
    let (regex, mut from) = (EVALUATED.as_ref()?, 0);
    loop {
        let found = regex.captures_at(line, from)?;
        let (word, loss) = (found.name("word")?, found.name("loss")?);
        let is_whole = loss.as_str().bytes().all(|byte| byte.is_ascii_digit());
        if !is_whole && captures(&BEST, &line[..word.start()]).is_none() {
            return Some(loss).zip(NamedPhase::of(word.as_str())?.loss_key());
        }
        from = loss.end();
    }
}

/// The loss of the training in a text that has no step of its own, such as the description of a progress bar: `Epoch 2 loss 0.5`.
pub(super) fn training_loss(text: &str) -> Option<&str> {
    let loss = loss_in(text).filter(|loss| captures(&OTHERS, &text[..loss.start()]).is_none())?;
    loss_of(&loss, &printed::numbers(text)).map(|_| loss.as_str())
}

/// A line with a loss is a step if it contains a step number, and otherwise a reading. Other numbers of a step are its duration, its wait
/// or readings, judged by their names and units; numbers of unknown meaning are returned. Of a line with the loss of an evaluation, as its
/// words or the lines before it (`is_evaluated`) say, the fields have only the phase, the numbers of step and epoch, and the losses as readings.
pub(super) fn read(line: &str, is_evaluated: bool, epoch: Option<f64>, fields: &mut Fields) -> (Read, Vec<Untaken>) {
    let (read, others, _) = told_apart(line, is_evaluated, epoch, fields);
    (read, untaken(line, others.into_iter()))
}

/// Reads a sentence as [`read`] does; returns the numbers of unknown meaning, and patterns for the numbers that were read of a step, see
/// [`parts::patterns`].
pub(super) fn told_apart<'l>(
    line: &'l str,
    is_evaluated: bool,
    epoch: Option<f64>,
    fields: &mut Fields,
) -> (Read, Vec<Printed<'l>>, [String; 2]) {
    let nothing = |read: Read| (read, Vec::new(), Default::default());
    let (own, evaluated) = (loss_in(line), evaluated_loss(line));
    let Some(loss) = own.or(evaluated.map(|(loss, _)| loss)) else {
        fields.phase = captures(&UNDER_WAY, line).and_then(|_| NamedPhase::of("evaluate"));
        return nothing(None);
    };
    let numbers = printed::numbers(line);
    let numbered = Numbered::of(line, epoch, &numbers);
    // An evaluation is not a step: if it repeats a training loss, the step would be counted twice.
    if is_evaluated || own.is_none() || captures(&OTHERS, line).is_some() && !numbered.keras {
        let (others, patterns) = read_evaluation(line, (own, evaluated), numbers, &numbered, fields);
        return (None, others, patterns);
    }
    let Some(value) = loss_of(&loss, &numbers).filter(|_| !numbered.is_unclear) else {
        return (None, numbers.into_iter().filter(|number| !numbered.counts(number)).collect(), Default::default());
    };
    fields.step.epoch = numbered.epoch;
    if numbered.step.is_none() {
        fields.reading("loss", value);
        return nothing(Some(Ok(())));
    }
    (fields.step.step, fields.step.steps) = (numbered.step, numbered.steps);
    (fields.step.loss, fields.step.is_mean_loss) = (Some(value), numbered.keras);
    // Without a bar, when the validation began is unknown.
    fields.step.is_untimed = numbered.is_validated && !numbered.has_bar;
    let (mut others, mut parts, mut wait) = (Vec::new(), numbered.parts(line), None);
    for number in numbers {
        if number.at == loss.start() {
            parts.extend(number.part(Some("loss")));
            continue;
        }
        if numbered.counts(&number) {
            continue;
        }
        match meaning(&number, &numbered) {
            Meaning::Duration(duration_s) if fields.step.duration_s.is_none() => {
                fields.step.duration_s = Some(duration_s);
                parts.extend(number.part_of_duration());
            }
            Meaning::Wait(wait_s) if wait.is_none() => wait = Some((wait_s, number)),
            Meaning::Reading(key, value) => {
                fields.reading(&key, value);
                parts.extend(number.part(None));
            }
            // Keras prints the time since the epoch began without a name.
            Meaning::Unknown if numbered.keras && number.name.is_empty() => {}
            Meaning::Duration(_) | Meaning::Wait(_) | Meaning::Unknown => others.push(number),
        }
    }
    if let Some((wait_s, number)) = wait {
        match fields.step.duration_s {
            Some(duration_s) if !can_wait(wait_s, duration_s) => others.push(number),
            _ => {
                fields.step.wait_s = Some(wait_s);
                parts.extend(number.part_of_wait());
            }
        }
    }
    (Some(Ok(())), others, parts::patterns(line, parts))
}

/// Takes a line of an evaluation, with the place of its first loss and that of the loss of the evaluation, which has the key of its reading.
/// Returns the numbers that were not read, and patterns for the loss of the evaluation.
fn read_evaluation<'l>(
    line: &'l str,
    (first, evaluated): (Option<Match<'_>>, Option<(Match<'_>, &str)>),
    numbers: Vec<Printed<'l>>,
    numbered: &Numbered,
    fields: &mut Fields,
) -> (Vec<Printed<'l>>, [String; 2]) {
    (fields.phase, fields.step.step) = (NamedPhase::of("evaluate"), numbered.step);
    fields.step.epoch = numbered.epoch;
    let Some((evaluated, key)) = evaluated else {
        return (numbers.into_iter().filter(|number| !numbered.counts(number)).collect(), Default::default());
    };
    // The line of an epoch gives the loss of the training, too.
    let is_of_training = |loss: &Match<'_>| captures(&OTHERS, &line[..loss.start()]).is_none();
    let training = first.filter(|loss| numbered.step.is_none() && is_of_training(loss));
    for (key, loss) in [("loss", training), (key, Some(evaluated))] {
        if let Some(loss) = loss.and_then(|loss| loss_of(&loss, &numbers)) {
            fields.reading(key, loss);
        }
    }
    let (read, mut others): (Vec<_>, Vec<_>) = numbers.into_iter().partition(|number| number.at == evaluated.start());
    others.retain(|number| !numbered.counts(number) && training.is_none_or(|loss| number.at != loss.start()));
    let parts = read.iter().filter_map(|number| number.part(Some(key)));
    (others, parts::patterns(line, parts.collect()))
}

/// The loss at this place of a line with these numbers; `None` if its separators do not show its value. Hardly a loss is a whole number of
/// thousands, so that `2,345` may have a decimal comma.
fn loss_of(loss: &Match<'_>, numbers: &[Printed<'_>]) -> Option<f64> {
    match numbers.iter().find(|number| number.extends(&loss.range())) {
        Some(whole) => whole.value.filter(|_| !whole.may_have_decimals()),
        None => loss.as_str().parse().ok(),
    }
}

/// The numbers of this line that are not read.
pub(super) fn untaken<'l>(line: &str, numbers: impl Iterator<Item = Printed<'l>>) -> Vec<Untaken> {
    let words = |number: &Printed<'l>| {
        let parts = [number.name, number.text, number.unit];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let of_number = |number: Printed<'l>| {
        let [pattern, anchored] = parts::patterns(line, number.part(None).into_iter().collect());
        Untaken { number: words(&number), name: number.name.to_owned(), pattern, anchored }
    };
    numbers.map(of_number).collect()
}

/// The meaning of a number in a step's line. Keras prints all measures with their names. If it prints no bar, it prints the mean time of a
/// step over the whole epoch, which contains the validation, if there was one.
fn meaning(number: &Printed<'_>, numbered: &Numbered) -> Meaning {
    match number.meaning() {
        Meaning::Reading(key, value) if numbered.keras && !numbered.has_bar && key == "mean_step_s" => {
            if numbered.is_validated { Meaning::Reading(key, value) } else { Meaning::Duration(value) }
        }
        Meaning::Unknown if numbered.keras && !number.name.is_empty() && number.name != "ETA" => {
            number.value.map_or(Meaning::Unknown, |value| Meaning::Reading(number.key(), value))
        }
        meaning => meaning,
    }
}
