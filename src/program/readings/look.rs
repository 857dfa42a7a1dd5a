//! Readings of a program whose plan declares none. They are looked for in the file `$MULTICARD_READINGS`, in TensorBoard's event files in
//! the run's folder, and in common formats of output.
//!
//! Only the first source is certain. The others are guesses: they are reported as such, the certain source takes precedence, and only one
//! of them gives steps.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::fields::{Fields, shown};
use super::json::JsonLines;
use super::printed::{self, Meaning, Printed};
use super::tensorboard::EventFiles;
use super::{Found, Source, Stream, Untaken};

/// The source that gives the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    Program,
    EventFiles,
    Output,
}

/// All sources that are looked for.
pub(super) struct Look {
    program: JsonLines,
    event_files: EventFiles,
    output: Shapes,
    speaker: Option<Speaker>,
    has_guessed_readings: bool,
}

impl Look {
    pub fn new(program: JsonLines, run_folder: &Path) -> Self {
        let event_files = EventFiles::looked_for(run_folder);
        Self { program, event_files, output: Shapes::default(), speaker: None, has_guessed_readings: false }
    }

    /// Passes on what one source found. Steps are passed on only from the first source that had some, and from the program's own file in
    /// any case.
    fn pass(&mut self, speaker: Speaker, guess: &str, new: Vec<Found>, found: &mut Vec<Found>) {
        let is_certain = speaker == Speaker::Program;
        let has = |is_one: fn(&Found) -> bool| new.iter().any(is_one);
        if has(|found| matches!(found, Found::Step(_))) && (self.speaker.is_none() || is_certain) {
            self.speaker = Some(speaker);
            if !is_certain {
                found.push(said(&format!("steps were guessed from {guess}")));
            }
        }
        let is_new = speaker == Speaker::Output && self.speaker.is_none() && !self.has_guessed_readings;
        if is_new && has(|found| matches!(found, Found::Reading { .. })) {
            self.has_guessed_readings = true;
            found.push(said(&format!("readings were guessed from {guess}, which contains no step number")));
        }
        let is_heard = |found: &Found| match found {
            Found::Step(_) | Found::Phase { .. } => self.speaker == Some(speaker),
            Found::Reading { .. } | Found::Warning(_) => true,
            // This is shown in trials; runs are not marked with it.
            Found::Untaken(_) => false,
        };
        found.extend(new.into_iter().filter(|found| is_certain || is_heard(found)));
    }
}

fn said(guess: &str) -> Found {
    Found::Warning(format!("{guess}; declare it in [command.readings] to be certain"))
}

impl Source for Look {
    fn line(&mut self, stream: Stream, line: &str, at_s: f64, found: &mut Vec<Found>) {
        if self.speaker != Some(Speaker::Program) {
            let mut new = Vec::new();
            self.output.line(stream, line, at_s, &mut new);
            if !new.is_empty() {
                // The message has no numbers, so that it is the same for all runs of a program.
                let pattern = NUMBERS.as_ref().map_or_else(|| line.into(), |numbers| numbers.replace_all(line, "…"));
                self.pass(Speaker::Output, &format!("output such as {}", shown(pattern.trim())), new, found);
            }
        }
    }

    fn poll(&mut self, last: bool, now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        let (mut said, mut logged, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let program = self.program.poll(last, now_s, &mut said);
        self.pass(Speaker::Program, "", said, found);
        let event_files = self.event_files.poll(last, now_s, &mut logged);
        if self.speaker != Some(Speaker::Program) {
            self.pass(Speaker::EventFiles, "TensorBoard's event files", logged, found);
            self.output.poll(last, now_s, &mut kept)?;
            self.pass(Speaker::Output, "output", kept, found);
        }
        program.and(event_files)
    }
}

/// A number as programs print it.
const NUMBER: &str = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|NaN|inf|Infinity)";

/// The numbers of a line.
static NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d[\d.,]*(?:[eE][-+]?\d+)?").ok());

/// A pattern of this file, with [`NUMBER`] in the place of `…`.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(&text.replace('…', NUMBER)).ok()
}

/// tqdm's bar: ` 12/100 [00:03<00:22,  4.00it/s, loss=0.5]`.
static BAR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"(?:^|[ |])(?<step>\d+)/(?<steps>\d+) \[[\d:]+<[\d:?]+, +(?:[\d.]+|\?)(?:it/s|s/it)(?:, (?<more>.*))?\]")
});
/// The epoch in front of a bar.
static BAR_EPOCH: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"(?i)^\s*epoch[ :\[]*(?<epoch>\d+)"));
/// Hugging Face's Trainer: `{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 0.01}`.
static ENTRY: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"'(?<name>[^']+)': '?(?<value>…)'?[,}]"));
/// `loss: 0.5`, `train loss = 0.5`, `Loss 6.9e+00 (7.0e+00)`.
static LOSS: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?i)(?:^|[^\w/-])(?:train(?:ing)?[ _/])?loss\s*[:=]?\s*(?<loss>…)(?:[^\w.]|\.?$|\.\s)"));
/// `step 12/100`, `iter: 12`, `Step [12/100]`.
static STEP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:^|[^\w/])(?:global[ _])?(?:step|iter|iteration)s?\s*[:=#]?\s*\[?\s*(?<step>\d+)(?:\s*/\s*(?<steps>\d+))?(?:[^\w.]|\.?$|\.\s)",
    )
});
/// `epoch 3`, `Epoch: [3]`.
static EPOCH: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?i)(?:^|[^\w/])epoch\s*[:=#]?\s*\[?\s*(?<epoch>\d+(?:\.\d+)?)(?:[^\w.]|$)"));
/// Lines with these words report another loss than the training loss.
static OTHERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?i)\b(?:val|valid|validation|eval|evaluation|test)(?:\b|_)"));

fn captures<'l>(regex: &Option<Regex>, line: &'l str) -> Option<Captures<'l>> {
    regex.as_ref()?.captures(line)
}

fn count(captures: &Captures, name: &str) -> Option<u64> {
    captures.name(name)?.as_str().parse().ok()
}

/// Keras: ` 12/100 ━━━╸━━━ 1s 2ms/step - accuracy: 0.9 - loss: 0.5`; the line characters are a bar, `-` is not.
static KERAS: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*(?<step>\d+)/(?<steps>\d+)\s+(?<bar>\[[=>.]+\]|[━╸╺ ]+|-)\s*(?:-|\d|ETA)"));
/// Keras's line before an epoch: `Epoch 1/5`.
static KERAS_EPOCH: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^Epoch (?<epoch>\d+)/\d+\s*$"));
/// timm, and PyTorch's examples: `Train: 0 [  50/1251 (  4%)]`, `Epoch: [0][  10/5005]`.
static BATCH: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"(?:Train: (?<epoch>\d+) |Epoch:? ?\[(?<e>\d+)\] ?)\[\s*(?<step>\d+)/\s*(?<steps>\d+)(?: \([^)]*\))?\]")
});
/// The table of Ultralytics' YOLO: its header, and the numbers before a bar.
static YOLO_HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^\s*Epoch\s+(?i:gpu_mem)\s+\S*(?:box|loss)"));
static YOLO_ROW: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*(?<epoch>\d+)/\d+\s+(?<memory>[\d.]+)G\s+(?<numbers>(?:[\d.]+\s+)+[\d.]+):\s"));
/// DeepSpeed's timer: `epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=123.4, …`.
static TIMER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"global_step=(?<step>\d+), RunningAvgSamplesPerSec=[\d.]+, CurrSamplesPerSec=(?<rate>[\d.]+)")
});

/// The most unread numbers that are reported.
pub(super) const MOST_UNTAKEN: usize = 20;

/// Common formats of output.
#[derive(Default)]
pub(super) struct Shapes {
    /// The progress bar that was printed last: its step, its number of steps, and its epoch.
    bar: Option<(u64, u64, Option<f64>)>,
    /// Whether bars with a loss were seen, so that dictionaries of losses need no step from a bar.
    bars_have_loss: bool,
    /// A dictionary that arrived before its bar, with the time; the two come through different pipes.
    early: Option<(String, f64)>,
    /// The epoch that Keras printed last.
    epoch: Option<f64>,
    /// The columns of YOLO's table after epoch and memory.
    columns: Vec<String>,
    /// Names of unread numbers that were already reported.
    untaken: HashSet<String>,
}

impl Source for Shapes {
    fn line(&mut self, _stream: Stream, line: &str, at_s: f64, found: &mut Vec<Found>) {
        // Nearly all lines have none of these formats.
        if !["oss", "OSS", "it/s", "s/it", "Epoch", "SamplesPerSec"].iter().any(|part| line.contains(part)) {
            return;
        }
        let mut fields = Fields::default();
        if self.heads(line) {
            return;
        }
        let read = if let Some(row) = captures(&YOLO_ROW, line).filter(|_| !self.columns.is_empty()) {
            self.row(&row, line, &mut fields)
        } else if let Some(timer) = captures(&TIMER, line) {
            timed(&timer, &mut fields)
        } else if let Some(bar) = captures(&BAR, line) {
            let read = self.bar(&bar, line, &mut fields);
            if self.bar.is_some_and(|(step, ..)| step > 0) {
                self.catch_up(found);
            }
            read
        } else if line.trim_start().starts_with("{'") && line.trim_end().ends_with('}') {
            if self.bar.is_some_and(|(step, ..)| step == 0) && self.early.is_none() {
                self.early = Some((line.into(), at_s));
                return;
            }
            self.catch_up(found);
            self.dictionary(line, &mut fields)
        } else {
            let (read, untaken) = sentence(line, self.epoch, &mut fields);
            found.extend(untaken.into_iter().filter(|untaken| self.is_news(untaken)).map(Found::Untaken));
            read
        };
        if read == Some(Ok(())) {
            fields.found(at_s, found);
        }
    }

    fn poll(&mut self, last: bool, _now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        if last {
            self.catch_up(found);
        }
        Ok(())
    }
}

/// Whether a line has a format, and what is wrong with its numbers.
type Read = Option<Result<(), String>>;

impl Shapes {
    /// Whether a line is the header of an epoch or of a table; headers are remembered.
    fn heads(&mut self, line: &str) -> bool {
        if let Some(epoch) = captures(&KERAS_EPOCH, line) {
            self.epoch = count(&epoch, "epoch").map(|epoch| epoch as f64);
            return true;
        }
        if captures(&YOLO_HEADER, line).is_some() {
            self.columns = line.split_whitespace().skip(2).map(str::to_owned).collect();
            return true;
        }
        false
    }

    /// A row of YOLO's table in front of its bar: the loss is the sum of the partial losses.
    fn row(&mut self, row: &Captures, line: &str, fields: &mut Fields) -> Read {
        let bar = captures(&BAR, line)?;
        (fields.step.step, fields.step.steps) = (count(&bar, "step"), count(&bar, "steps"));
        if fields.step.step == Some(0) {
            return None;
        }
        fields.step.epoch = count(row, "epoch").map(|epoch| epoch as f64);
        let numbers = row.name("numbers")?.as_str().split_whitespace();
        let numbers: Vec<f64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
        let memory_gb: f64 = row.name("memory")?.as_str().parse().ok()?;
        let mut loss = 0.0;
        for (name, value) in self.columns.iter().zip(&numbers) {
            let is_loss = name.ends_with("loss") || ["box", "obj", "cls"].contains(&name.as_str());
            loss += if is_loss { *value } else { 0.0 };
            fields.reading(name, *value);
        }
        fields.reading("gpu_mem_gb", memory_gb);
        fields.step.loss = Some(loss);
        Some(Ok(()))
    }

    /// Whether an unread number has not been reported yet.
    fn is_news(&mut self, untaken: &Untaken) -> bool {
        self.untaken.len() < MOST_UNTAKEN && self.untaken.insert(untaken.name.clone())
    }

    /// Reads the dictionary that was kept until its bar arrived.
    fn catch_up(&mut self, found: &mut Vec<Found>) {
        let Some((line, at_s)) = self.early.take() else { return };
        let mut fields = Fields::default();
        if self.dictionary(&line, &mut fields) == Some(Ok(())) {
            fields.found(at_s, found);
        }
    }

    /// A bar is a step if it contains a loss. A bar without a loss may be the bar of a download.
    fn bar(&mut self, bar: &Captures, line: &str, fields: &mut Fields) -> Read {
        let (step, steps) = (count(bar, "step")?, count(bar, "steps")?);
        let epoch = captures(&BAR_EPOCH, line).and_then(|epoch| count(&epoch, "epoch")).map(|epoch| epoch as f64);
        self.bar = Some((step, steps, epoch));
        let more = bar.name("more").map_or("", |more| more.as_str());
        let mut entries: Vec<(&str, &str)> = more.split(',').filter_map(|entry| entry.trim().split_once('=')).collect();
        let is_loss = |name: &str| ["loss", "train_loss", "train_loss_step", "train/loss"].contains(&name);
        let loss = entries.iter().position(|(name, value)| is_loss(name) && value.parse::<f64>().is_ok())?;
        // A bar without a finished step contains no values.
        if step == 0 {
            return None;
        }
        self.bars_have_loss = true;
        let (_, loss) = entries.remove(loss);
        fields.step.step = Some(step);
        fields.step.steps = Some(steps);
        fields.step.epoch = epoch;
        let readings = entries.into_iter().filter(|(name, value)| *name != "v_num" && value.parse::<f64>().is_ok());
        let readings: Vec<_> = readings.collect();
        Some(fields.text("loss", loss).and_then(|()| {
            readings.into_iter().try_for_each(|(name, value)| {
                if super::fields::WORDS.contains(&name) { Ok(()) } else { fields.text(name, value) }
            })
        }))
    }

    /// A dictionary with a loss is a step if there is a bar that counts; its other numbers are readings.
    fn dictionary(&mut self, line: &str, fields: &mut Fields) -> Read {
        let entries = ENTRY.as_ref()?.captures_iter(line);
        let entries: Vec<(&str, &str)> =
            entries.filter_map(|entry| Some((entry.name("name")?.as_str(), entry.name("value")?.as_str()))).collect();
        let has_loss = entries.iter().any(|(name, _)| *name == "loss");
        let known = ["eval_loss", "train_runtime", "train_loss"];
        if !has_loss && !entries.iter().any(|(name, _)| known.contains(name)) {
            return None;
        }
        let bar = self.bar.filter(|(step, ..)| has_loss && *step > 0 && !self.bars_have_loss);
        if let Some((step, steps, _)) = bar {
            (fields.step.step, fields.step.steps) = (Some(step), Some(steps));
        }
        Some(entries.into_iter().try_for_each(|(name, value)| match name {
            // Without a number, it would count as a single step, however many steps it stands for.
            "loss" if bar.is_none() => {
                value.parse().map(|loss| fields.reading("loss", loss)).map_err(|_| String::new())
            }
            "loss" | "epoch" => fields.text(name, value),
            _ => value.parse().map(|value| fields.reading(name, value)).map_err(|_| String::new()),
        }))
    }
}

/// Reads DeepSpeed's timer, which gives the rate of a step.
fn timed(timer: &Captures, fields: &mut Fields) -> Read {
    fields.step.step = count(timer, "step");
    let rate: f64 = timer.name("rate")?.as_str().parse().ok()?;
    fields.reading("samples_per_s", rate);
    Some(Ok(()))
}

/// The position of a step's number in a line, with the last step and the epoch.
struct Numbered {
    step: Option<u64>,
    steps: Option<u64>,
    epoch: Option<f64>,
    /// Whether it is a line of Keras, and whether that line has a bar.
    keras: bool,
    has_bar: bool,
    /// The positions of these numbers, in bytes.
    places: Vec<std::ops::Range<usize>>,
    /// Where the number of the step begins, except in lines of Keras.
    step_at: Option<usize>,
}

impl Numbered {
    fn of(line: &str, epoch: Option<f64>) -> Self {
        let none =
            Self { step: None, steps: None, epoch: None, keras: false, has_bar: false, places: vec![], step_at: None };
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
        let (step, at_epoch) = (captures(&STEP, line), captures(&EPOCH, line));
        let ranges = [(&step, "step"), (&step, "steps"), (&at_epoch, "epoch")];
        let places = ranges.iter().filter_map(|(found, name)| Some(found.as_ref()?.name(name)?.range()));
        let places = places.collect();
        let of_step = |name| step.as_ref().and_then(|step| count(step, name));
        let epoch = at_epoch.as_ref().and_then(|found| number(found, "epoch"));
        let step_at = step.as_ref().and_then(at);
        Self { step: of_step("step"), steps: of_step("steps"), epoch, places, step_at, ..none }
    }
}

/// A line with a loss is a step if it contains a step number, and otherwise a reading. Other numbers of a step are its duration, its wait
/// or readings, judged by their names and units; numbers of unknown meaning are returned.
fn sentence(line: &str, epoch: Option<f64>, fields: &mut Fields) -> (Read, Vec<Untaken>) {
    let (read, others, taken) = told_apart(line, epoch, fields);
    (read, untaken(others.into_iter(), &taken))
}

/// A pattern that reads what is guessed in the line of a step; `None` for other lines, and for formats that a pattern would read otherwise.
pub(super) fn pattern_of_guess(line: &str) -> Option<String> {
    if captures(&TIMER, line).is_some() || captures(&BAR, line).is_some() || line.trim_start().starts_with("{'") {
        return None;
    }
    let (read, _, taken) = told_apart(line, None, &mut Fields::default());
    (read == Some(Ok(())) && !taken.is_empty()).then_some(taken)
}

/// Reads a sentence as [`sentence`] does; returns the numbers of unknown meaning, and a pattern for the numbers that were read of a step.
fn told_apart<'l>(line: &'l str, epoch: Option<f64>, fields: &mut Fields) -> (Read, Vec<Printed<'l>>, String) {
    let nothing = |read: Read| (read, Vec::new(), String::new());
    let Some(loss) = captures(&LOSS, line).and_then(|loss| loss.name("loss")) else { return nothing(None) };
    let numbered = Numbered::of(line, epoch);
    if captures(&OTHERS, line).is_some() && !numbered.keras {
        // This is an evaluation, not a step: if it repeats a training loss, the step would be counted twice.
        let is_other = |number: &Printed<'_>| !numbered.places.iter().any(|place| place.contains(&number.at));
        return (None, printed::numbers(line).into_iter().filter(is_other).collect(), String::new());
    }
    let Ok(value) = loss.as_str().parse::<f64>() else { return nothing(None) };
    fields.step.epoch = numbered.epoch;
    if numbered.step.is_none() {
        fields.reading("loss", value);
        return nothing(Some(Ok(())));
    }
    (fields.step.step, fields.step.steps) = (numbered.step, numbered.steps);
    fields.step.loss = Some(value);
    let (mut others, mut taken, mut names_step) = (Vec::new(), Vec::new(), false);
    for number in printed::numbers(line) {
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
            Meaning::Wait(wait_s) => fields.step.wait_s = Some(wait_s),
            Meaning::Reading(key, value) => {
                fields.reading(&key, value);
                taken.push((number.at, number.pattern(None)));
            }
            Meaning::Duration(_) | Meaning::Unknown => others.push(number),
        }
    }
    // A count in brackets, as in `Step [100/600]`, is not among the printed numbers.
    if let Some(at) = numbered.step_at.filter(|_| !names_step) {
        taken.push((at, printed::pattern_of_step(&line[..at])));
        taken.sort();
    }
    let taken: Vec<String> = taken.into_iter().map(|(_, pattern)| pattern).collect();
    (Some(Ok(())), others, taken.join(".*?"))
}

/// The numbers of a line that are not read, with the pattern of the numbers that are read.
fn untaken<'l>(numbers: impl Iterator<Item = Printed<'l>>, taken: &str) -> Vec<Untaken> {
    let words = |number: &Printed<'l>| {
        let parts = [number.name, number.text, number.unit];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let of_number = |number: Printed<'l>| Untaken {
        number: words(&number),
        name: number.name.to_owned(),
        pattern: number.pattern(None),
        taken: taken.to_owned(),
    };
    numbers.map(of_number).collect()
}

/// The named numbers of a line from which nothing was read. Progress bars and the headers of epochs and of tables have none.
pub(super) fn numbers_of(line: &str) -> Vec<Untaken> {
    if [&KERAS_EPOCH, &YOLO_HEADER, &BAR].iter().any(|format| captures(format, line).is_some()) {
        return Vec::new();
    }
    untaken(printed::numbers(line).into_iter().filter(|number| !number.name.is_empty()), "")
}

/// The meaning of a number in a step's line. Keras prints all measures with their names; where it prints no bar, it prints the mean time of
/// a step over the whole epoch.
fn meaning(number: &Printed<'_>, numbered: &Numbered) -> Meaning {
    match number.meaning() {
        Meaning::Reading(key, value) if numbered.keras && !numbered.has_bar && key == "mean_step_s" => {
            Meaning::Duration(value)
        }
        Meaning::Unknown if numbered.keras && !number.name.is_empty() && number.name != "ETA" => {
            Meaning::Reading(number.key(), number.value)
        }
        meaning => meaning,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "look_tests.rs"]
mod tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "trainers_tests.rs"]
mod trainers_tests;
