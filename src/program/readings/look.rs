//! Readings of a program whose plan declares none: what it writes to `$MULTICARD_READINGS`, TensorBoard's event files in the run's
//! folder, and usual shapes of output.
//!
//! Only the first is certain. The others are guesses: they say so, give way to what is certain, and only one of them gives steps.

use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::fields::{Fields, shown};
use super::json::JsonLines;
use super::tensorboard::EventFiles;
use super::{Found, Source, Stream};

/// Who gives the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    Program,
    EventFiles,
    Output,
}

/// What is found by looking.
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

    /// Passes on what one of them found: steps of the one that was first to have some, of the program itself in any case.
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
            found.push(said(&format!("readings were guessed from {guess}, which has no number of a step")));
        }
        let is_heard = |found: &Found| match found {
            Found::Step(_) | Found::Phase { .. } => self.speaker == Some(speaker),
            Found::Reading { .. } | Found::Warning(_) => true,
        };
        found.extend(new.into_iter().filter(|found| is_certain || is_heard(found)));
    }
}

fn said(guess: &str) -> Found {
    Found::Warning(format!("{guess}; [command.readings] makes it certain"))
}

impl Source for Look {
    fn line(&mut self, stream: Stream, line: &str, at_s: f64, found: &mut Vec<Found>) {
        if self.speaker != Some(Speaker::Program) {
            let mut new = Vec::new();
            self.output.line(stream, line, at_s, &mut new);
            if !new.is_empty() {
                self.pass(Speaker::Output, &format!("output such as {}", shown(line.trim())), new, found);
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

/// A pattern of this file, with [`NUMBER`] in the place of `…`.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(&text.replace('…', NUMBER)).ok()
}

/// tqdm's bar: ` 12/100 [00:03<00:22,  4.00it/s, loss=0.5]`.
static BAR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"(?:^|[ |])(?<step>\d+)/(?<steps>\d+) \[[\d:]+<[\d:?]+, +(?:[\d.]+|\?)(?:it/s|s/it)(?:, (?<more>.*))?\]")
});
/// The epoch that stands before a bar.
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
/// Lines with these words tell of another loss than that of training.
static OTHERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?i)\b(?:val|valid|validation|eval|evaluation|test)(?:\b|_)"));

fn captures<'l>(regex: &Option<Regex>, line: &'l str) -> Option<Captures<'l>> {
    regex.as_ref()?.captures(line)
}

fn count(captures: &Captures, name: &str) -> Option<u64> {
    captures.name(name)?.as_str().parse().ok()
}

/// Usual shapes of output.
#[derive(Default)]
pub(super) struct Shapes {
    /// The progress bar that was printed last: its step, where it ends, its epoch.
    bar: Option<(u64, u64, Option<f64>)>,
    /// Bars with a loss in them were seen, so that dictionaries of losses do not need the step of a bar.
    bars_have_loss: bool,
    /// A dictionary that overtook its bar, and when: the two come by different pipes.
    early: Option<(String, f64)>,
}

impl Source for Shapes {
    fn line(&mut self, _stream: Stream, line: &str, at_s: f64, found: &mut Vec<Found>) {
        // Nearly all lines are none of these.
        if !["oss", "OSS", "it/s", "s/it"].iter().any(|part| line.contains(part)) {
            return;
        }
        let mut fields = Fields::default();
        let read = if let Some(bar) = captures(&BAR, line) {
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
            sentence(line, &mut fields)
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

/// Whether a line has a shape, and what is wrong with its numbers.
type Read = Option<Result<(), String>>;

impl Shapes {
    /// Reads the dictionary that was kept until its bar had counted.
    fn catch_up(&mut self, found: &mut Vec<Found>) {
        let Some((line, at_s)) = self.early.take() else { return };
        let mut fields = Fields::default();
        if self.dictionary(&line, &mut fields) == Some(Ok(())) {
            fields.found(at_s, found);
        }
    }

    /// A bar says a step if it has its loss. Without one, it may be that of a download.
    fn bar(&mut self, bar: &Captures, line: &str, fields: &mut Fields) -> Read {
        let (step, steps) = (count(bar, "step")?, count(bar, "steps")?);
        let epoch = captures(&BAR_EPOCH, line).and_then(|epoch| count(&epoch, "epoch")).map(|epoch| epoch as f64);
        self.bar = Some((step, steps, epoch));
        let more = bar.name("more").map_or("", |more| more.as_str());
        let mut entries: Vec<(&str, &str)> = more.split(',').filter_map(|entry| entry.trim().split_once('=')).collect();
        let is_loss = |name: &str| ["loss", "train_loss", "train_loss_step", "train/loss"].contains(&name);
        let loss = entries.iter().position(|(name, value)| is_loss(name) && value.parse::<f64>().is_ok())?;
        // A bar without a finished step has nothing to say.
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
            // Without a number, it would count as one step, however many it stands for.
            "loss" if bar.is_none() => {
                value.parse().map(|loss| fields.reading("loss", loss)).map_err(|_| String::new())
            }
            "loss" | "epoch" => fields.text(name, value),
            _ => value.parse().map(|value| fields.reading(name, value)).map_err(|_| String::new()),
        }))
    }
}

/// A line with a loss is a step if it has the number of one, and otherwise a reading.
fn sentence(line: &str, fields: &mut Fields) -> Read {
    let loss = captures(&LOSS, line)?;
    if captures(&OTHERS, line).is_some() {
        return None;
    }
    let loss: f64 = loss.name("loss")?.as_str().parse().ok()?;
    if let Some(epoch) = captures(&EPOCH, line) {
        fields.step.epoch = epoch.name("epoch").and_then(|epoch| epoch.as_str().parse().ok());
    }
    match captures(&STEP, line) {
        Some(step) => {
            (fields.step.step, fields.step.steps) = (count(&step, "step"), count(&step, "steps"));
            fields.step.loss = Some(loss);
        }
        None => fields.reading("loss", loss),
    }
    Some(Ok(()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "look_tests.rs"]
mod tests;
