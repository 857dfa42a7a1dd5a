//! Common formats of output: the lines and progress bars that usual trainers print, and what is read of them.

mod bar;

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::ahead::{AheadBars, Ended};
use super::bars::{Bars, says_evaluation};
use super::beside::{self, Beside, Dictionary, TimedFields};
use super::drawn::{BAR, Drawn};
use super::fields::{Fields, Names};
use super::json;
use super::printed;
use super::records::is_of_first_rank;
use super::sentence::{self, Read, captures, count, pattern};
use super::{Found, NamedPhase, Source, Stream, Untaken};

/// Nearly all lines have none of these formats, because they have none of these parts. Behind a bar is a rate.
const PARTS: [&str; 12] =
    ["oss", "OSS", "/s]", "/s,", "s/it", "s/step", "s/batch", "Epoch", "SamplesPerSec", "Test: ", "(val)", "(test)"];
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

/// The rank in front of a line: `[rank0]: step 1`, `[default0]:step 1` (torchrun --tee), `[Rank 0] step 1`, `rank 0: step 1`.
static RANK: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^(?:\[(?:default|(?i:rank) ?)(?<rank>\d+)\]:? ?|(?i:rank)[ _]?(?<named>\d+) ?[:|-] ?)"));

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

/// The heading of an evaluation.
struct Heading {
    /// The stream whose next line is below it.
    stream: Stream,
    /// The number in the last line below it, and the number of all, if further lines are expected.
    counted: Option<(u64, u64)>,
}

impl Heading {
    /// The heading of further lines, if this line below it counts some of all.
    fn goes_on(stream: Stream, line: &str) -> Option<Self> {
        let counted = sentence::counted(line).filter(|(number, all)| number < all)?;
        Some(Self { stream, counted: Some(counted) })
    }

    /// Whether this line belongs to it: the next line, and those that count on.
    fn is_above(&self, line: &str) -> bool {
        let Some((number, all)) = self.counted else { return true };
        sentence::counted(line).is_some_and(|(next, of_all)| next > number && of_all == all)
    }
}

/// Common formats of output.
#[derive(Default)]
pub(super) struct Shapes {
    /// Which bars count steps of the training.
    bars: Bars,
    /// Which steps the losses in these bars belong to.
    ahead: AheadBars,
    /// The bar without losses, and the dictionaries of losses beside it.
    beside: Beside,
    /// Whether bars with a loss were seen, so that dictionaries of losses need no step from a bar.
    bars_have_loss: bool,
    /// Whether a sentence with a loss was read that gives no scores.
    has_losses: bool,
    /// Whether a line began with `rank 0`, so that lines with other ranks are those of other processes, and not of LoRA's ranks.
    has_first_rank: bool,
    /// The heading of an evaluation whose lines are expected next: `Test Error:`.
    heading: Option<Heading>,
    /// The number of the newest step that has one.
    newest: Option<u64>,
    /// The number in a bar that was drawn again after an evaluation, until the bar shows another number.
    drawn_again: Option<u64>,
    /// The epoch that Keras printed last.
    epoch: Option<f64>,
    /// The number of steps in that epoch, once all of them were shown, and whether an evaluation has begun since.
    full: Option<u64>,
    evaluates_keras: bool,
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
        let heading = self.heading.take_if(|heading| heading.stream == stream);
        let is_headed = heading.is_some_and(|heading| heading.is_above(line));
        self.heading = self.heading.take().or(if is_headed { Heading::goes_on(stream, line) } else { None });
        let may_head = line.trim_end().ends_with(':');
        // Nearly all lines have none of these formats.
        let has = |part: &&str| line.contains(*part);
        let may_have = may_head || PARTS.iter().any(has);
        if !may_have || !is_text(line) {
            return;
        }
        let Some(line) = self.of_first_rank(line) else { return };
        if may_head && says_evaluation(line) {
            self.heading = Some(Heading { stream, counted: None });
        }
        let mut fields = Fields::default();
        if self.heads(line, at_s, found) {
            return;
        }
        if self.is_evaluation_of_keras(line) {
            return self.keras_evaluates(line, at_s, found);
        }
        let read = if let Some(row) = captures(&YOLO_ROW, line).filter(|_| !self.columns.is_empty()) {
            self.row(&row, line, at_s, found);
            None
        } else if let Some(timer) = captures(&TIMER, line) {
            timed(&timer, &mut fields)
        } else if let Some(bar) = captures(&BAR, line) {
            Drawn::of(&bar, line).and_then(|drawn| self.bar(&drawn, at_s, &mut fields, found))
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
            if fields.phase.take().is_some() {
                self.settle_before_evaluation(found);
                fields.evaluated(at_s, found);
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
            self.full = sentence::last_of_keras(line).or(self.full);
        }
    }

    fn poll(&mut self, last: bool, now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        let reports = if last { self.beside.settle(f64::INFINITY) } else { self.beside.poll(now_s) };
        self.hand_over_all(reports, found);
        if last {
            let rest = self.ahead.rest();
            self.hand_over_uncounted(rest, found);
        }
        Ok(())
    }
}

impl Shapes {
    /// The formats in a log, whose lines are in order, and whose times say nothing.
    pub fn of_log() -> Self {
        Self { beside: Beside::of_log(), ahead: AheadBars::of_log(), ..Self::default() }
    }

    /// The line without the rank in front of it, as torchrun and PyTorch write it; `None` if it is the line of another rank than the first.
    fn of_first_rank<'l>(&mut self, line: &'l str) -> Option<&'l str> {
        let Some(prefix) = captures(&RANK, line) else { return Some(line) };
        let named = count(&prefix, "named");
        self.has_first_rank |= named == Some(0);
        if named.is_some() && !self.has_first_rank {
            return Some(line);
        }
        (named.or_else(|| count(&prefix, "rank")) == Some(0)).then(|| &line[prefix[0].len()..])
    }

    /// Adds what was read of a line to `found`.
    fn hand_over(&mut self, fields: Fields, at_s: f64, found: &mut Vec<Found>) {
        if fields.is_step() {
            self.newest = fields.step.step.or(self.newest);
        }
        fields.found(at_s, found);
    }

    /// Adds steps whose losses a bar has shown and which it has not counted.
    fn hand_over_uncounted(&mut self, ended: Vec<Ended>, found: &mut Vec<Found>) {
        let columns = self.columns.clone();
        self.hand_over_ended(ended, found, |ended, _| {
            let mut fields = Fields::default();
            let is_loss = fields.text("loss", &ended.values).is_ok();
            if is_loss { Some(fields) } else { fields_of_row(&columns, &ended.values) }
        });
    }

    /// Adds what is known of the bar's steps to `found`. With a new step, the training goes on.
    fn hand_over_all(&mut self, reports: TimedFields, found: &mut Vec<Found>) {
        if reports.iter().any(|(fields, _)| fields.step.step > self.newest) {
            self.bars.trains();
        }
        reports.into_iter().for_each(|(fields, at_s)| self.hand_over(fields, at_s, found));
    }

    /// Whether a line is the header of an epoch or of a table; headers are remembered.
    fn heads(&mut self, line: &str, at_s: f64, found: &mut Vec<Found>) -> bool {
        if let Some(epoch) = captures(&KERAS_EPOCH, line) {
            (self.epoch, self.keras_s) = (count(&epoch, "epoch").map(|epoch| epoch as f64), None);
            (self.full, self.evaluates_keras) = (None, false);
            found.extend(self.newest.map(|_| Found::Begins { at_s }));
            return true;
        }
        if captures(&YOLO_HEADER, line).is_some() {
            self.columns = line.split_whitespace().skip(2).map(str::to_owned).collect();
            return true;
        }
        false
    }

    /// Whether it is a line of Keras that no epoch was announced for: its `evaluate` prints lines like those of the training. A full bar may be
    /// drawn again.
    fn is_evaluation_of_keras(&mut self, line: &str) -> bool {
        let Some(full) = self.full.filter(|_| self.epoch.is_some() && sentence::is_of_keras(line)) else {
            return false;
        };
        let is_again = sentence::last_of_keras(line) == Some(full) && sentence::follows_validation(line).is_some();
        self.evaluates_keras |= !is_again;
        self.evaluates_keras
    }

    /// Takes a line of such an evaluation.
    fn keras_evaluates(&mut self, line: &str, at_s: f64, found: &mut Vec<Found>) {
        let (mut read, mut evaluated) = (Fields::default(), Fields::default());
        let _ = sentence::read(line, false, None, &mut read);
        if sentence::last_of_keras(line).is_some() {
            for (key, value) in [("test_loss", read.step.loss), ("test_accuracy", read.value("accuracy"))] {
                value.into_iter().for_each(|value| evaluated.reading(key, value));
            }
        }
        evaluated.evaluated(at_s, found);
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

    /// A row of YOLO's table in front of its bar.
    fn row(&mut self, row: &Captures, line: &str, at_s: f64, found: &mut Vec<Found>) -> Option<()> {
        let bar = captures(&BAR, line)?;
        let (step, steps) = (count(&bar, "step")?, count(&bar, "steps"));
        let (numbers, memory_gb) = (row.name("numbers")?.as_str(), row.name("memory")?.as_str().parse().ok()?);
        let epoch = count(row, "epoch").map(|epoch| epoch as f64);
        self.bars.is_beside_table(steps);
        self.bars_have_loss = true;
        let ended = self.ahead.bar(steps).draw((step, steps), numbers, at_s);
        let columns = self.columns.clone();
        self.hand_over_ended(ended, found, |ended, is_newest| {
            let mut fields = fields_of_row(&columns, &ended.values)?;
            // Steps that are known when a bar begins are those of the bar before.
            (fields.step.steps, fields.step.epoch) = (steps, epoch.filter(|_| step > 0));
            if is_newest {
                fields.reading("gpu_mem_gb", memory_gb);
            }
            Some(fields)
        });
        Some(())
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

    /// Hands over all steps that have ended: an evaluation has begun, unless one goes on.
    fn settle_before_evaluation(&mut self, found: &mut Vec<Found>) {
        if !self.bars.is_evaluating() {
            let ended = self.ahead.take();
            self.hand_over_uncounted(ended, found);
        }
        self.settle(f64::INFINITY, found);
    }

    /// A JSON object with a loss: what its names usually stand for. With the number of a step it is a step, and otherwise a reading.
    fn object(&mut self, line: &str, at_s: f64, fields: &mut Fields, found: &mut Vec<Found>) -> Read {
        let object = json::object(line).ok()?;
        let names = self.names.get_or_insert_with(|| Names::new(&BTreeMap::new(), true));
        // Only records of steps decide what names mean: a message may use the same names.
        let (mut tried, mut said) = (names.clone(), Vec::new());
        let mut read = json::fields(&object, &mut tried, "output", &mut said).ok()?;
        if !is_of_first_rank(read.rank) {
            return None;
        }
        if read.step.loss.is_none() {
            if read.evaluation(at_s).is_some() {
                read.found(at_s, found);
            }
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
        if dictionary.is_last {
            self.beside.ends(at_s);
        }
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

/// The values of a row of YOLO's table: the loss is the sum of the partial losses, which are means over the epoch so far.
fn fields_of_row(columns: &[String], numbers: &str) -> Option<Fields> {
    let numbers: Vec<f64> = numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let (mut fields, mut loss) = (Fields::default(), 0.0);
    for (name, value) in columns.iter().zip(&numbers) {
        let is_loss = name.ends_with("loss") || ["box", "obj", "cls"].contains(&name.as_str());
        loss += if is_loss { *value } else { 0.0 };
        fields.reading(name, *value);
    }
    (fields.step.loss, fields.step.is_mean_loss) = (Some(loss), true);
    Some(fields)
}

/// Reads DeepSpeed's timer, which gives the rate of a step.
fn timed(timer: &Captures, fields: &mut Fields) -> Read {
    fields.step.step = count(timer, "step");
    let rate: f64 = timer.name("rate")?.as_str().parse().ok()?;
    fields.reading("samples_per_s", rate);
    Some(Ok(()))
}

/// Patterns that read the guessed step of a line, or its loss of an evaluation, anywhere in a line or only in lines that begin like this one; `None` for other lines, and
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
    let is_step = read == Some(Ok(())) && !fields.step.is_untimed;
    ((is_step || fields.phase.is_some()) && !patterns[0].is_empty()).then_some(patterns)
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
