//! Readings of a program whose plan declares none. They are looked for in the file `$MULTICARD_READINGS`, in TensorBoard's event files in
//! the run's folder, and in common formats of output.
//!
//! Only the first source is certain. The others are guesses: they are reported as such, only one of them gives steps, and all of these steps
//! give way to those of the certain source.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::bars::{Bar, Bars, GUESS, description, says_evaluation};
use super::beside::{self, Beside, Dictionary, TimedFields};
use super::fields::{Fields, Names, shown};
use super::json::{self, JsonLines};
use super::printed;
use super::records::is_of_first_rank;
use super::sentence::{self, Read, captures, count, pattern};
use super::tensorboard::EventFiles;
use super::{Found, NamedPhase, Source, Stream, Untaken};

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
    /// The warning that steps were guessed. It is given at the end, because the guess may give way until then.
    guess: Option<Found>,
    has_guessed_readings: bool,
}

impl Look {
    pub fn new(program: JsonLines, run_folder: &Path) -> Self {
        let event_files = EventFiles::looked_for(run_folder);
        let output = Shapes::default();
        Self { program, event_files, output, speaker: None, guess: None, has_guessed_readings: false }
    }

    /// Passes on the findings of one source. Steps are passed on only from the first source that had steps, and always from the program's
    /// own file.
    fn pass(&mut self, speaker: Speaker, guess: &str, new: Vec<Found>, found: &mut Vec<Found>) {
        let is_certain = speaker == Speaker::Program;
        let has = |is_one: fn(&Found) -> bool| new.iter().any(is_one);
        if has(|found| matches!(found, Found::Step(_))) && (self.speaker.is_none() || is_certain) {
            if self.guess.take().is_some() {
                found.push(Found::StepsWithdrawn);
            }
            self.speaker = Some(speaker);
            self.guess = (!is_certain).then(|| guess_warning(&format!("steps were guessed from {guess}")));
        }
        let is_new = speaker == Speaker::Output && self.speaker.is_none() && !self.has_guessed_readings;
        if is_new && has(|found| matches!(found, Found::Reading { .. })) {
            self.has_guessed_readings = true;
            found.push(guess_warning(&format!("readings were guessed from {guess}, which contains no step number")));
        }
        let is_heard = |found: &Found| match found {
            Found::Step(_) | Found::Phase { .. } | Found::Begins { .. } | Found::Epoch(_) => {
                self.speaker == Some(speaker)
            }
            // The first step may report a duration that contains an evaluation before it.
            Found::Evaluated { .. } => self.speaker.is_none_or(|heard| heard == speaker),
            // A warning about output is about its steps.
            Found::Warning(_) => speaker != Speaker::Output || self.speaker == Some(speaker),
            Found::Reading { .. } | Found::StepsWithdrawn => true,
            // This is shown in trials; runs are not marked with it.
            Found::Untaken(_) => false,
        };
        let marked = |mut found: Found| {
            if let Found::Step(step) = &mut found {
                step.is_guessed = !is_certain;
            }
            found
        };
        found.extend(new.into_iter().filter(|found| is_certain || is_heard(found)).map(marked));
    }
}

fn guess_warning(guess: &str) -> Found {
    Found::Warning(format!("{guess}; declare it in [command.readings] to be certain"))
}

impl Source for Look {
    fn watch(&mut self) {
        self.program.watch();
    }

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
        let (mut declared, mut logged, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let program = self.program.poll(last, now_s, &mut declared);
        self.pass(Speaker::Program, "", declared, found);
        let event_files = self.event_files.poll(last, now_s, &mut logged);
        if self.speaker != Some(Speaker::Program) {
            self.pass(Speaker::EventFiles, "TensorBoard's event files", logged, found);
            self.output.poll(last, now_s, &mut kept)?;
            self.pass(Speaker::Output, "output", kept, found);
        }
        if last {
            found.extend(self.guess.take());
        }
        program.and(event_files)
    }
}

/// The numbers of a line, and the bar behind a percentage.
static NUMBERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\d[\d.,]*(?:[eE][-+]?\d+)?(?:%\|[^|]*\|)?").ok());

/// tqdm's bar: ` 12/100 [00:03<00:22,  4.00it/s, loss=0.5]`, or without a total `12it [00:03,  4.00it/s, loss=0.5]`. Its unit may have
/// the name of a step; bars of files and downloads have other units.
static BAR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?:^|[ |])(?<step>\d+)(?:/(?<steps>\d+)| ?(?:it|batch|step)) \[[\d:]+(?:<[\d:?]+)?, *(?:[\d.]+|\?) ?(?:(?:it|batch|step)/s|s/ ?(?:it|batch|step))(?:, (?<more>.*))?\]",
    )
});
/// The epoch in front of a bar: `Epoch 3: 50%|…`, or that of torchtune, before the number of the step over all epochs: `1|25|Loss: 0.5: 3%|…`.
static BAR_EPOCH: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*(?:(?i:epoch)[ :\[]*(?<epoch>\d+)|(?<first>\d+)\|\d+\|Loss:)"));
/// Keras's line before an epoch: `Epoch 1/5`.
static KERAS_EPOCH: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^Epoch (?<epoch>\d+)/\d+\s*$"));
/// The table of Ultralytics' YOLO: its header, and the numbers before a bar.
static YOLO_HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^\s*Epoch\s+(?i:gpu_mem)\s+\S*(?:box|loss)"));
static YOLO_ROW: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*(?<epoch>\d+)/\d+\s+(?<memory>[\d.]+)G\s+(?<numbers>(?:[\d.]+\s+)+[\d.]+):\s"));
/// DeepSpeed's timer: `epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=123.4, …`.
static TIMER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"global_step=(?<step>\d+), RunningAvgSamplesPerSec=[\d.]+, CurrSamplesPerSec=(?<rate>[\d.]+)(?:,\D|[^\d.,]|,?$)",
    )
});

/// The rank in front of a line: `[rank0]: step 1`, `[default0]:step 1` (torchrun --tee), `[Rank 0] step 1`.
static RANK: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^\[(?:default|rank|Rank )(?<rank>\d+)\]:? ?"));

/// The most unread numbers that are reported.
pub(super) const MOST_UNTAKEN: usize = 20;
/// The most characters of a line of text that are not text: a program may ring the bell, or print a letter in another encoding.
const MOST_STRAY_CHARS: usize = 3;

/// Whether a line is text and not binary data, which contains words and numbers only by chance. Bytes that are not UTF-8 were replaced.
/// Keras takes its bars back with backspaces.
fn is_text(line: &str) -> bool {
    let is_stray = |letter: &char| {
        *letter == char::REPLACEMENT_CHARACTER || letter.is_control() && !matches!(*letter, '\t' | '\u{8}')
    };
    !line.contains('\0') && line.chars().filter(is_stray).nth(MOST_STRAY_CHARS).is_none()
}

/// The line without the rank in front of it, as torchrun and PyTorch write it; `None` if it is the line of another rank than the first.
fn of_first_rank(line: &str) -> Option<&str> {
    let Some(prefix) = captures(&RANK, line) else { return Some(line) };
    (count(&prefix, "rank") == Some(0)).then(|| &line[prefix[0].len()..])
}

/// Common formats of output.
#[derive(Default)]
pub(super) struct Shapes {
    /// Which bars count steps of the training.
    bars: Bars,
    /// The bar without losses, and the dictionaries of losses beside it.
    beside: Beside,
    /// Whether bars with a loss were seen, so that dictionaries of losses need no step from a bar.
    bars_have_loss: bool,
    /// Whether a sentence with a loss was read that gives no scores.
    has_losses: bool,
    /// The stream whose newest line is the heading of an evaluation: `Test Error:`.
    heading: Option<Stream>,
    /// The number of the newest step that has one.
    newest: Option<u64>,
    /// The number in a bar that was drawn again after an evaluation, until the bar shows another number.
    drawn_again: Option<u64>,
    /// The epoch that Keras printed last.
    epoch: Option<f64>,
    /// When Keras's newest bar in this epoch was printed.
    keras_s: Option<f64>,
    /// Whether Keras has printed the accuracy of a validation.
    keras_validates: bool,
    /// The columns of YOLO's table after epoch and memory.
    columns: Vec<String>,
    /// Names of unread numbers that were already reported.
    untaken: HashSet<String>,
    /// The meanings of names in JSON lines and dictionaries.
    names: Option<Names>,
}

impl Source for Shapes {
    fn line(&mut self, stream: Stream, line: &str, at_s: f64, found: &mut Vec<Found>) {
        let is_headed = self.heading.take_if(|of_stream| *of_stream == stream).is_some();
        let may_head = line.trim_end().ends_with(':');
        // Nearly all lines have none of these formats.
        let has = |part: &&str| line.contains(*part);
        let may_have = may_head || ["oss", "OSS", "it/s", "s/it", "Epoch", "SamplesPerSec"].iter().any(has);
        if !may_have || !is_text(line) {
            return;
        }
        let Some(line) = of_first_rank(line) else { return };
        if may_head && says_evaluation(line) {
            self.heading = Some(stream);
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
            self.bar(&bar, line, at_s, &mut fields, found)
        } else if !is_headed && line.trim_start().starts_with("{\"") && line.trim_end().ends_with('}') {
            self.object(line, at_s, &mut fields, found)
        } else if !is_headed && beside::is_dictionary(line) {
            self.dictionary(line, at_s, &mut fields, found)
        } else {
            let gives_scores = sentence::gives_scores(line);
            let is_evaluated = is_headed || gives_scores && self.has_losses && !sentence::has_step(line);
            let (read, untaken) = sentence::read(line, is_evaluated, self.epoch, &mut fields);
            self.has_losses |= !gives_scores && read.is_some();
            found.extend(untaken.into_iter().filter(|untaken| self.is_news(untaken)).map(Found::Untaken));
            if fields.phase.is_some() {
                self.settle(f64::INFINITY, found);
                found.push(Found::Evaluated { step: fields.step.step, at_s });
            }
            read
        };
        if read == Some(Ok(())) {
            let keras = sentence::follows_validation(line);
            if sentence::is_of_keras(line) {
                self.name_accuracies(&mut fields);
            }
            // The validation, and not the step, took the time since the bar before.
            let validation = keras.filter(|follows| *follows).and_then(|_| NamedPhase::of("validation"));
            let began_s = self.keras_s.unwrap_or(at_s);
            found.extend(validation.map(|phase| Found::Phase { phase, at_s: began_s }));
            if fields.phase.is_none() && fields.is_measured() && (self.bars.trains() || validation.is_some()) {
                fields.phase = NamedPhase::of("train");
            }
            self.hand_over(fields, at_s, found);
            self.keras_s = keras.map(|_| at_s).or(self.keras_s);
        }
    }

    fn poll(&mut self, last: bool, now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        let reports = if last { self.beside.settle(f64::INFINITY) } else { self.beside.poll(now_s) };
        self.hand_over_all(reports, found);
        Ok(())
    }
}

impl Shapes {
    /// The formats in a log, whose lines are in order, and whose times say nothing.
    pub fn of_log() -> Self {
        Self { beside: Beside::of_log(), ..Self::default() }
    }

    /// Adds what was read of a line to `found`.
    fn hand_over(&mut self, fields: Fields, at_s: f64, found: &mut Vec<Found>) {
        if fields.is_step() {
            self.newest = fields.step.step.or(self.newest);
        }
        fields.found(at_s, found);
    }

    /// Adds what is known of the bar's steps to `found`. With a new step, the training goes on.
    fn hand_over_all(&mut self, reports: TimedFields, found: &mut Vec<Found>) {
        if reports.iter().any(|(fields, _)| fields.step.step > self.newest) {
            self.bars.trains();
        }
        reports.into_iter().for_each(|(fields, at_s)| self.hand_over(fields, at_s, found));
    }

    /// Whether a line is the header of an epoch or of a table; headers are remembered.
    fn heads(&mut self, line: &str) -> bool {
        if let Some(epoch) = captures(&KERAS_EPOCH, line) {
            (self.epoch, self.keras_s) = (count(&epoch, "epoch").map(|epoch| epoch as f64), None);
            return true;
        }
        if captures(&YOLO_HEADER, line).is_some() {
            self.columns = line.split_whitespace().skip(2).map(str::to_owned).collect();
            return true;
        }
        false
    }

    /// Names the accuracies of a line of Keras. If Keras validates, the accuracy of the program is that of the validation.
    fn name_accuracies(&mut self, fields: &mut Fields) {
        let of_validation = fields.value("val_accuracy");
        self.keras_validates |= of_validation.is_some();
        if self.keras_validates {
            fields.rename("accuracy", "train_accuracy");
        }
        if let Some(accuracy) = of_validation {
            fields.reading("accuracy", accuracy);
        }
    }

    /// A row of YOLO's table in front of its bar: the loss is the sum of the partial losses, which are means over the epoch so far.
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
        (fields.step.loss, fields.step.is_mean_loss) = (Some(loss), true);
        Some(Ok(()))
    }

    /// Whether an unread number has not been reported yet.
    fn is_news(&mut self, untaken: &Untaken) -> bool {
        self.untaken.len() < MOST_UNTAKEN && self.untaken.insert(untaken.name.clone())
    }

    /// Gives the losses up to this time that wait for a step to the steps that are known.
    fn settle(&mut self, until_s: f64, found: &mut Vec<Found>) {
        let reports = self.beside.settle(until_s);
        self.hand_over_all(reports, found);
    }

    /// A bar is a step if it contains a loss and is not the bar of an evaluation. A bar without a loss may be the bar of a download, unless
    /// losses stand beside it.
    fn bar(&mut self, bar: &Captures, line: &str, at_s: f64, fields: &mut Fields, found: &mut Vec<Found>) -> Read {
        let (step, steps) = (count(bar, "step")?, count(bar, "steps"));
        let before = &line[..bar.name("step")?.start()];
        let more = bar.name("more").map_or("", |more| more.as_str());
        let mut entries: Vec<(&str, &str)> = entries(more);
        let is_loss = |name: &str| ["loss", "train_loss", "train_loss_step", "train/loss"].contains(&name);
        let at = entries.iter().position(|(name, value)| is_loss(name) && value.parse::<f64>().is_ok());
        let loss = at.map(|at| entries.remove(at).1).or_else(|| sentence::training_loss(description(before)));
        let kind = self.bars.kind(before, steps, loss.is_some());
        if kind == Bar::Outer {
            // Its loss is a mean of the steps inside. Its other values are those of the run.
            let mut around = Fields::default();
            take(entries, &mut around).ok()?;
            around.values(at_s, found);
            return None;
        }
        if kind != Bar::Training {
            if kind == Bar::Guessed && self.bars.must_tell_guess() {
                found.push(Found::Warning(GUESS.to_owned()));
            }
            // The time of an evaluation is not time of a step. An evaluation begins with an empty bar: Hugging Face's Trainer prints the full
            // bar once more when it is over.
            let is_under_way = Some(step) != steps || loss.is_some();
            // A step of the training ends an evaluation, so that the steps before this one are handed over first.
            if is_under_way && !self.bars.is_evaluating() {
                self.settle(f64::INFINITY, found);
            }
            let begins = is_under_way && self.bars.evaluates();
            return begins.then(|| fields.text("phase", "evaluate"));
        }
        let is_new = step == 0 && loss.is_none() && bar[0].contains("[00:00");
        if is_new && self.bars.is_first(steps) {
            // These are steps of the bar before.
            self.settle(at_s, found);
        }
        if is_new && self.newest.is_some_and(|newest| self.bars.begins_again(before, steps, newest)) {
            self.drawn_again = None;
            found.push(Found::Begins { at_s });
        }
        if self.bars.is_evaluating() && self.newest == Some(step) && Some(step) != steps {
            self.drawn_again = Some(step);
        }
        // A bar without a finished step contains no values.
        let Some(loss) = loss.filter(|_| step > 0) else {
            // If steps were made since the newest reported one, the time of the next one began before the evaluation.
            let follows = step == 0 || self.newest == Some(step);
            let goes_on = follows && self.bars.is_first(steps) && self.bars.trains();
            found.extend(NamedPhase::of("train").filter(|_| goes_on).map(|phase| Found::Phase { phase, at_s }));
            if !self.bars_have_loss {
                let reports = self.beside.show((step, steps), !description(before).is_empty(), at_s);
                if self.beside.counts() {
                    self.bars.has_loss_beside(self.beside.steps());
                }
                self.hand_over_all(reports, found);
            }
            return None;
        };
        self.bars_have_loss = true;
        let epoch = captures(&BAR_EPOCH, line).and_then(|epoch| count(&epoch, "epoch").or(count(&epoch, "first")));
        (fields.step.step, fields.step.steps) = (Some(step), steps);
        // Lightning draws the number that its bar showed last, although steps may have been made before the evaluation since. A bar that shows
        // each step has no such steps.
        let drawn_again = self.drawn_again.take_if(|drawn_again| *drawn_again != step);
        fields.step.is_untimed = drawn_again.is_some_and(|drawn_again| step != drawn_again.saturating_add(1));
        fields.step.epoch = epoch.map(|epoch| epoch as f64);
        Some(fields.text("loss", loss).and_then(|()| take(entries, fields)))
    }

    /// A JSON object with a loss: what its names usually stand for. With the number of a step it is a step, and otherwise a reading.
    fn object(&mut self, line: &str, at_s: f64, fields: &mut Fields, found: &mut Vec<Found>) -> Read {
        let object = json::object(line).ok()?;
        let names = self.names.get_or_insert_with(|| Names::new(&BTreeMap::new(), true));
        // A record that is no step, such as a message, says nothing of the meaning of names.
        let (mut tried, mut said) = (names.clone(), Vec::new());
        let mut read = json::fields(&object, &mut tried, "output", &mut said).ok()?;
        if !is_of_first_rank(read.rank) {
            return None;
        }
        if read.step.loss.is_none() {
            found.extend(read.evaluation(at_s));
            return None;
        }
        *names = tried;
        found.append(&mut said);
        if let Some(loss) = read.step.loss.filter(|_| read.step.step.is_none()) {
            // Without a number, it would count as a single step, however many steps it stands for.
            read.step.loss = None;
            read.reading("loss", loss);
        }
        *fields = read;
        Some(Ok(()))
    }

    /// A dictionary with a loss is a step if it has the number of a step. Without such a number, it belongs to a step of the bar beside it.
    fn dictionary(&mut self, line: &str, at_s: f64, fields: &mut Fields, found: &mut Vec<Found>) -> Read {
        let dictionary = Dictionary::of(line, at_s)?;
        if dictionary.needs_no_bar() {
            if dictionary.fields.evaluation(at_s).is_some() && !self.bars.is_evaluating() {
                self.settle(f64::INFINITY, found);
            }
            *fields = dictionary.fields;
        } else if self.bars_have_loss {
            *fields = dictionary.without_step();
        } else {
            if self.beside.has_bar() {
                self.bars.has_loss_beside(self.beside.steps());
            }
            let reports = self.beside.add(dictionary, self.bars.is_evaluating());
            self.hand_over_all(reports, found);
            return None;
        }
        Some(Ok(()))
    }
}

/// The names and values behind a bar. A digit directly after a comma continues a number with a comma, which is left out.
fn entries(more: &str) -> Vec<(&str, &str)> {
    let mut entries: Vec<Option<(&str, &str)>> = Vec::new();
    for part in more.split(',') {
        let is_rest = part.starts_with(|c: char| c.is_ascii_digit());
        if is_rest {
            entries.pop();
        }
        entries.push(part.trim().split_once('=').filter(|_| !is_rest));
    }
    entries.into_iter().flatten().collect()
}

/// Takes the numbers behind a bar as readings.
fn take(entries: Vec<(&str, &str)>, fields: &mut Fields) -> Result<(), String> {
    let is_reading = |(name, value): &(&str, &str)| {
        *name != "v_num" && !super::fields::WORDS.contains(name) && value.parse::<f64>().is_ok()
    };
    entries.into_iter().filter(is_reading).try_for_each(|(name, value)| fields.text(name, value))
}

/// Reads DeepSpeed's timer, which gives the rate of a step.
fn timed(timer: &Captures, fields: &mut Fields) -> Read {
    fields.step.step = count(timer, "step");
    let rate: f64 = timer.name("rate")?.as_str().parse().ok()?;
    fields.reading("samples_per_s", rate);
    Some(Ok(()))
}

/// Patterns that read the guessed step of a line, anywhere in a line or only in lines that begin like this one; `None` for other lines, and
/// for formats that patterns would read with another meaning.
pub(super) fn pattern_of_guess(line: &str) -> Option<[String; 2]> {
    // The losses beside Keras's bars are means over the epoch so far.
    let is_bar = captures(&BAR, line).is_some() || sentence::follows_validation(line).is_some();
    if captures(&TIMER, line).is_some() || is_bar || line.trim_start().starts_with('{') {
        return None;
    }
    let mut fields = Fields::default();
    let (read, _, patterns) = sentence::told_apart(line, false, None, &mut fields);
    // With a pattern, the step would have the time since the line before.
    (read == Some(Ok(())) && !fields.step.is_untimed && !patterns[0].is_empty()).then_some(patterns)
}

/// A pattern that reads Keras's line before each epoch; `None` if these lines are not those of Keras, or have no such line.
pub(super) fn pattern_of_header(lines: &[String]) -> Option<String> {
    let is_header = |line: &String| captures(&KERAS_EPOCH, line).is_some();
    let is_keras = lines.iter().any(is_header) && lines.iter().any(|line| sentence::is_of_keras(line));
    KERAS_EPOCH.as_ref().filter(|_| is_keras).map(|header| header.as_str().to_owned())
}

/// The named numbers of a line from which nothing was read. Progress bars, dictionaries of losses, the headers of epochs and of tables, and
/// binary data have none.
pub(super) fn numbers_of(line: &str) -> Vec<Untaken> {
    let is_format = [&KERAS_EPOCH, &YOLO_HEADER, &BAR].iter().any(|format| captures(format, line).is_some());
    // The loss of a dictionary may wait for its step.
    if !is_text(line) || is_format || Dictionary::of(line, 0.0).is_some() {
        return Vec::new();
    }
    sentence::untaken(line, printed::numbers(line).into_iter().filter(|number| !number.name.is_empty()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "look_tests.rs"]
mod tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "trainers_tests.rs"]
mod trainers_tests;
