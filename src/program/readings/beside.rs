//! Dictionaries of losses beside a progress bar, as Hugging Face's Trainer prints them: `{'loss': 0.5, 'epoch': 0.25}` on standard output, and
//! tqdm's bar on standard error.
//!
//! Only the bar gives steps and their times, because the dictionaries have no step numbers. tqdm draws the bar at most every 0.1 s, and again
//! behind each dictionary, so that a loss belongs to the step that the bar shows next. The streams are read by two threads, whose times are
//! not exact: the step that the bar showed before is taken if it is nearer in time. Once the number of epochs is certain, the epoch of a
//! dictionary tells its step.

use std::collections::{BTreeSet, VecDeque};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::fields::Fields;
use super::sentence::pattern;

/// The most steps of a bar that are kept until a loss stands beside it.
const MOST_SHOWN: usize = 10_000;
/// The most reported steps that are kept: a later dictionary may belong to one of them.
const MOST_REPORTED: usize = 256;
/// A step is reported this long after it ended: the dictionary beside it comes through another pipe, which is read by another thread.
const READ_LATE_S: f64 = 0.1;
/// The bar that is drawn behind a dictionary may be read this much before it, because it comes through another pipe.
const TOGETHER_S: f64 = 0.002;
/// A dictionary waits this long until there is a bar, until a full bar begins again, and until the number of epochs is certain.
const UNSURE_S: f64 = 1.0;
/// The most dictionaries that wait for their steps.
const MOST_WAITING: usize = 1_000;
/// The most numbers of epochs among which the right one is looked for.
const MOST_CANDIDATES: f64 = 64.0;
/// Half of the last of two decimals, and half of the last of four digits as a share of the number: Trainer rounds epochs to either.
const HALF_OF_TWO_DECIMALS: f64 = 0.005;
const HALF_SHARE_OF_FOUR_DIGITS: f64 = 5e-4;

/// An entry of a dictionary: `'loss': 0.5`, `'learning_rate': '5e-05'`.
static ENTRY: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"'(?<name>[^']+)': (?:'(?<text>…)'|(?<value>…))[,}]"));

/// Fields of lines, each with the time at which what they describe ended.
pub(super) type TimedFields = Vec<(Fields, f64)>;

/// Whether a line is a dictionary of Python.
pub(super) fn is_dictionary(line: &str) -> bool {
    line.trim_start().starts_with("{'") && line.trim_end().ends_with('}')
}

/// A dictionary with a loss, or with the results of an evaluation or of the training.
pub(super) struct Dictionary {
    pub fields: Fields,
    at_s: f64,
    /// By how much its epoch may be rounded.
    rounding: f64,
    /// Whether the bar was full and an evaluation went on when it was printed: then it belongs to no step of this bar.
    is_outside: bool,
    /// Whether the training is over with it.
    pub is_last: bool,
}

impl Dictionary {
    /// Reads a line that was printed at this time. `None` if it is no such dictionary, or has a number that is impossible.
    pub fn of(line: &str, at_s: f64) -> Option<Self> {
        if !is_dictionary(line) {
            return None;
        }
        let entry = |entry: Captures<'_>| {
            let value = entry.name("text").or_else(|| entry.name("value"))?;
            // A comma before a digit may be a decimal comma.
            let is_whole = !line[entry.get(0)?.end()..].starts_with(|c: char| c.is_ascii_digit());
            Some((&line[entry.name("name")?.range()], &line[value.range()])).filter(|_| is_whole)
        };
        let entries: Vec<(&str, &str)> = ENTRY.as_ref()?.captures_iter(line).filter_map(entry).collect();
        let has = |names: &[&str]| entries.iter().any(|(name, _)| names.contains(name));
        let has_loss = has(&["loss"]);
        if !has_loss && !has(&["eval_loss", "train_runtime", "train_loss"]) {
            return None;
        }
        let numbered = ["step", "global_step", "iter", "iteration"];
        let own = entries.iter().map(|(name, _)| *name).find(|name| has_loss && numbered.contains(name));
        let mut read = Self {
            fields: Fields::default(),
            at_s,
            rounding: 0.0,
            is_outside: false,
            is_last: has(&["train_runtime"]),
        };
        for (name, value) in &entries {
            match *name {
                "loss" | "epoch" => read.fields.text(name, value).ok()?,
                _ if Some(*name) == own => read.fields.text("step", value).ok()?,
                _ => read.fields.reading(name, value.parse().ok()?),
            }
            if let ("epoch", Some(epoch)) = (*name, read.fields.step.epoch) {
                read.rounding = rounding(value, epoch);
            }
        }
        Some(read)
    }

    /// Its epoch, and by how much that may be rounded.
    fn epoch(&self) -> Option<(f64, f64)> {
        self.fields.step.epoch.map(|epoch| (epoch, self.rounding))
    }

    /// Whether it has the number of its step, or no loss of a step.
    pub fn needs_no_bar(&self) -> bool {
        self.fields.step.step.is_some() || self.fields.step.loss.is_none()
    }

    /// Its fields if there is no bar: the loss is a reading. As a step without a number it would count as a single step, however many steps it
    /// stands for.
    pub fn without_step(self) -> Fields {
        with_loss_as_reading(self.fields)
    }
}

/// These fields with their loss as a reading, so that they are no step.
fn with_loss_as_reading(mut fields: Fields) -> Fields {
    if let Some(loss) = fields.step.loss.take() {
        fields.reading("loss", loss);
    }
    fields
}

/// By how much an epoch that is printed like this may be rounded. Trainer leaves out zeros at the end.
fn rounding(text: &str, epoch: f64) -> f64 {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half_digit = 0.5 * 0.1_f64.powi(i32::try_from(decimals).unwrap_or(i32::MAX));
    half_digit.min((HALF_SHARE_OF_FOUR_DIGITS * epoch).max(HALF_OF_TWO_DECIMALS))
}

/// A step that the bar showed, or a step between two such steps, to which a loss belongs.
struct Shown {
    step: u64,
    /// When the bar showed it first and last. A step that the bar did not show ended with the next step that it showed.
    first_s: f64,
    last_s: f64,
    is_reported: bool,
    /// Whether a dictionary belongs to it.
    has_loss: bool,
    /// The dictionaries that belong to it, in order, until the step is reported.
    beside: Vec<Fields>,
}

impl Shown {
    fn new(step: u64, at_s: f64) -> Self {
        Self { step, first_s: at_s, last_s: at_s, is_reported: false, has_loss: false, beside: Vec::new() }
    }
}

/// The steps that the bar showed before a dictionary and after it.
struct Around {
    before: u64,
    after: u64,
    /// The one of both that is nearer in time.
    nearest: u64,
}

impl Around {
    /// The same step before and after.
    fn at(step: u64) -> Self {
        Self { before: step, after: step, nearest: step }
    }

    /// Whether a step is one of these, between them or next to them: times are not exact.
    fn is_near(&self, step: u64) -> bool {
        (self.before.saturating_sub(1)..=self.after.saturating_add(1)).contains(&step)
    }
}

/// The progress bar without losses that was printed last, and the dictionaries beside it.
#[derive(Default)]
pub(super) struct Beside {
    /// Whether the lines are those of a log: they are in order, and their times say nothing.
    is_log: bool,
    has_bar: bool,
    /// The number of steps of the bar, if it shows one.
    steps: Option<u64>,
    /// The newest steps of the bar, in order.
    shown: VecDeque<Shown>,
    /// The numbers of steps of the bars beside which a loss stood.
    counted: BTreeSet<Option<u64>>,
    /// Dictionaries that wait until the bar shows their steps, in order of time.
    waiting: VecDeque<Dictionary>,
    epochs: NumberOfEpochs,
    /// How many of the waiting dictionaries `epochs` has taken note of.
    noted: usize,
    /// When the training was over.
    over_s: Option<f64>,
}

impl Beside {
    /// The bar and the dictionaries in a log.
    pub fn of_log() -> Self {
        Self { is_log: true, ..Self::default() }
    }

    /// Whether there is a bar beside which a loss may stand.
    pub fn has_bar(&self) -> bool {
        self.has_bar
    }

    /// Whether a loss stood beside the bar, or beside one with as many steps, so that it counts the steps of the training.
    pub fn counts(&self) -> bool {
        self.has_bar && self.counted.contains(&self.steps)
    }

    /// The number of steps of the bar, if it shows one.
    pub fn steps(&self) -> Option<u64> {
        self.steps
    }

    /// Whether the bar has shown its last step.
    fn is_full(&self) -> bool {
        self.newest().is_some_and(|newest| Some(newest) == self.steps)
    }

    /// The newest step that the bar has shown.
    fn newest(&self) -> Option<u64> {
        self.shown.back().map(|newest| newest.step)
    }

    /// Takes what a bar shows. Returns the steps that are known with it.
    pub fn show(&mut self, (step, steps): (u64, Option<u64>), is_described: bool, at_s: f64) -> TimedFields {
        let mut reports = TimedFields::new();
        let is_other = self.has_bar && steps != self.steps;
        // Behind a full bar, another training may begin.
        let may_begin = step == 0 && self.is_full();
        if steps.is_some_and(|steps| step > steps) || self.counts() && is_other && !may_begin {
            return reports;
        }
        if !self.counts() && is_described && Some(step) == steps && self.waiting.is_empty() {
            // A bar of files or downloads, which is full before the training begins.
            *self = Self { is_log: self.is_log, counted: std::mem::take(&mut self.counted), ..Self::default() };
            return reports;
        }
        let goes_back = self.newest().is_some_and(|newest| step < newest);
        if goes_back && self.counts() {
            reports = self.settle(at_s);
        }
        if goes_back || is_other || !self.has_bar {
            self.shown.clear();
            (self.epochs, self.noted, self.over_s) = (NumberOfEpochs::default(), 0, None);
        }
        (self.has_bar, self.steps) = (true, steps);
        if step == 0 {
            return reports;
        }
        match self.shown.back_mut().filter(|newest| newest.step == step) {
            Some(newest) => newest.last_s = at_s,
            None => self.shown.push_back(Shown::new(step, at_s)),
        }
        self.assign_known(at_s, &mut reports);
        reports
    }

    /// Returns the steps that are known at this time, once there was a first one.
    pub fn poll(&mut self, now_s: f64) -> TimedFields {
        let mut reports = TimedFields::new();
        // The bar of a dictionary may be on its way, through another pipe.
        while (!self.has_bar || self.is_full())
            && self.waiting.front().is_some_and(|dictionary| dictionary.at_s + UNSURE_S <= now_s)
        {
            self.assign_next(&mut reports);
        }
        if self.counts() {
            self.assign_known(now_s, &mut reports);
        }
        reports
    }

    /// Notes that the training was over at this time: Trainer draws the bar once more, and has saved a checkpoint or evaluated before that.
    pub fn ends(&mut self, at_s: f64) {
        self.over_s = Some(at_s);
    }

    /// Takes a dictionary with a loss and without the number of a step; `is_evaluating` says whether an evaluation goes on. Returns the steps
    /// that are known with it.
    pub fn add(&mut self, dictionary: Dictionary, is_evaluating: bool) -> TimedFields {
        let (mut reports, at_s) = (TimedFields::new(), dictionary.at_s);
        let is_outside = is_evaluating && self.is_full();
        self.waiting.push_back(Dictionary { is_outside, ..dictionary });
        if self.is_log && self.is_full() {
            return self.settle(at_s);
        }
        if self.waiting.len() > MOST_WAITING {
            self.assign_next(&mut reports);
            // Outside of logs, when a step is known depends on the dictionaries that still wait.
            self.report(f64::NEG_INFINITY, &mut reports);
        }
        // In a log, the bar behind the dictionary is the next line with a bar.
        if !self.is_log {
            self.assign_known(at_s, &mut reports);
        }
        reports
    }

    /// Gives all dictionaries up to this time to steps, and reports all steps: the bar shows no more steps for a while.
    pub fn settle(&mut self, until_s: f64) -> TimedFields {
        let mut reports = TimedFields::new();
        self.narrow();
        while self.waiting.front().is_some_and(|dictionary| dictionary.at_s <= until_s) {
            self.assign_next(&mut reports);
        }
        self.report(f64::INFINITY, &mut reports);
        reports
    }

    /// Takes the first one of the dictionaries that wait.
    fn take_first(&mut self) -> Option<Dictionary> {
        self.noted = self.noted.saturating_sub(1);
        self.waiting.pop_front()
    }

    /// Gives the first dictionary that waits to the step that is most likely its own.
    fn assign_next(&mut self, reports: &mut TimedFields) {
        let Some(dictionary) = self.take_first() else { return };
        let is_of_bar = !(dictionary.is_outside && self.is_full());
        let around = self.around(dictionary.at_s).or_else(|| self.newest().map(Around::at));
        match around.filter(|_| is_of_bar) {
            Some(around) => {
                let step = self.certain(&dictionary, &around).unwrap_or(around.nearest);
                reports.extend(self.assign(step, dictionary));
            }
            None => {
                let at_s = dictionary.at_s;
                reports.push((dictionary.without_step(), at_s));
            }
        }
    }

    /// Gives dictionaries to their steps as far as these are known at this time, and adds the steps that are known to `reports`.
    fn assign_known(&mut self, now_s: f64, reports: &mut TimedFields) {
        self.narrow();
        while let Some(step) = self.waiting.front().and_then(|dictionary| self.step_of(dictionary, now_s))
            && let Some(dictionary) = self.take_first()
        {
            reports.extend(self.assign(step, dictionary));
        }
        // A step before a dictionary that waits may be that of the dictionary.
        let until_s = self.waiting.front().map_or(now_s, |dictionary| dictionary.at_s.min(now_s));
        self.report(until_s, reports);
    }

    /// The steps around a time; `None` if the bar has shown none since.
    fn around(&self, at_s: f64) -> Option<Around> {
        let next = match self.shown.len().checked_sub(1) {
            Some(newest) if self.is_log => newest,
            _ => self.shown.partition_point(|shown| shown.last_s < at_s),
        };
        let after = self.shown.get(next)?;
        if after.first_s < at_s {
            return Some(Around::at(after.step));
        }
        let before = next.checked_sub(1).and_then(|before| self.shown.get(before));
        let is_nearer = |before: &&Shown| at_s - before.last_s < after.first_s - at_s;
        let nearest = before.filter(is_nearer).unwrap_or(after).step;
        Some(Around { before: before.map_or(0, |before| before.step), after: after.step, nearest })
    }

    /// Takes note of the epochs of the dictionaries that wait, of each once: as soon as the bar has shown a step behind it.
    fn narrow(&mut self) {
        let Some(steps) = self.steps else { return };
        while let Some(dictionary) = self.waiting.get(self.noted)
            && let Some(around) = self.around(dictionary.at_s)
        {
            if let Some(epoch) = dictionary.epoch() {
                self.epochs.narrow(steps, epoch, &around);
            }
            self.noted += 1;
        }
    }

    /// The step that the epoch of a dictionary tells, if it is certain. The training may not end with an epoch, and then a wrong number of
    /// epochs may be the only one that fits: only a step near the dictionary counts.
    fn certain(&self, dictionary: &Dictionary, around: &Around) -> Option<u64> {
        self.epochs.step(self.steps?, dictionary.epoch()?).filter(|step| around.is_near(*step))
    }

    /// The step of a dictionary, if it is known at this time.
    fn step_of(&self, dictionary: &Dictionary, now_s: f64) -> Option<u64> {
        let around = self.around(dictionary.at_s)?;
        if let Some(certain) = self.certain(dictionary, &around) {
            return self.has_shown(certain).then_some(certain);
        }
        let is_same = around.before == around.after;
        let may_be_known = self.steps.and(dictionary.epoch()).is_some() && self.epochs.may_be_known();
        let waits = may_be_known && now_s - dictionary.at_s < UNSURE_S && !self.is_log;
        (is_same || !waits).then_some(around.nearest)
    }

    /// Whether the bar has come to a step.
    fn has_shown(&self, step: u64) -> bool {
        self.newest().is_some_and(|newest| newest >= step)
    }

    /// Gives a dictionary to a step. Returns its fields if the step was reported before.
    fn assign(&mut self, step: u64, dictionary: Dictionary) -> Option<(Fields, f64)> {
        self.counted.insert(self.steps);
        let mut fields = dictionary.fields;
        let index = self.index_of(step)?;
        let shown = self.shown.get_mut(index)?;
        (fields.step.step, fields.step.steps) = (Some(shown.step), self.steps);
        let is_second = std::mem::replace(&mut shown.has_loss, true);
        if shown.is_reported {
            // The same number with a later epoch would be another step.
            fields.step.epoch = fields.step.epoch.filter(|_| !is_second);
            return Some((fields, shown.first_s));
        }
        shown.beside.push(fields);
        None
    }

    /// The index in `shown` of a step, or of the nearest one that may still be reported: none before the newest one that was reported, since
    /// steps are reported in order. A step that the bar did not show is added.
    fn index_of(&mut self, step: u64) -> Option<usize> {
        let newest_reported = self.shown.partition_point(|shown| shown.is_reported).checked_sub(1);
        let index = self.shown.partition_point(|shown| shown.step < step).max(newest_reported.unwrap_or(0));
        match self.shown.get(index).map(|shown| (shown.step > step && !shown.is_reported, shown.first_s)) {
            Some((true, ended_s)) => {
                self.shown.insert(index, Shown::new(step, ended_s));
                Some(index)
            }
            Some((false, _)) => Some(index),
            None => index.checked_sub(1),
        }
    }

    /// Adds the steps that were not reported yet, if they are known at this time to be steps of the training, with all that is beside them.
    fn report(&mut self, until_s: f64, reports: &mut TimedFields) {
        let (counts, is_log, over_s) = (self.counts(), self.is_log, self.over_s);
        let is_known = |shown: &&mut Shown| is_log || shown.first_s + READ_LATE_S <= until_s;
        if counts {
            let first = self.shown.partition_point(|shown| shown.is_reported);
            for shown in self.shown.range_mut(first..).take_while(is_known) {
                shown.is_reported = true;
                let mut beside = std::mem::take(&mut shown.beside);
                // The last loss is that of the step. Earlier ones are those of steps that the bar did not show.
                let mut fields = beside.pop().unwrap_or_default();
                (fields.step.step, fields.step.steps) = (Some(shown.step), self.steps);
                fields.step.is_untimed = over_s.is_some_and(|over_s| shown.first_s + TOGETHER_S >= over_s);
                reports.push((fields, shown.first_s));
                reports.extend(beside.into_iter().map(|earlier| (with_loss_as_reading(earlier), shown.first_s)));
            }
        }
        let reported = self.shown.partition_point(|shown| shown.is_reported);
        let (most, may_go) = if counts { (MOST_REPORTED, reported) } else { (MOST_SHOWN, self.shown.len()) };
        let excess = self.shown.len().saturating_sub(most).min(may_go);
        self.shown.drain(..excess);
    }
}

/// The number of epochs of a training with a known number of steps: a whole number, by which the number of steps can be divided. It is certain
/// once only one such number fits all dictionaries so far.
struct NumberOfEpochs {
    least: f64,
    most: f64,
}

impl Default for NumberOfEpochs {
    fn default() -> Self {
        Self { least: 0.0, most: f64::INFINITY }
    }
}

impl NumberOfEpochs {
    /// Takes note of an epoch, which may be rounded, that was reported between two steps. It may be that of a step next to them, because times
    /// are not exact.
    fn narrow(&mut self, steps: u64, (epoch, rounding): (f64, f64), around: &Around) {
        let epochs = |epoch: f64, step: u64| steps as f64 * epoch / step as f64;
        self.least = self.least.max(epochs(epoch - rounding, around.after.saturating_add(1)));
        if around.before > 1 {
            self.most = self.most.min(epochs(epoch + rounding, around.before - 1));
        }
    }

    /// Whether further dictionaries may tell the number.
    fn may_be_known(&self) -> bool {
        self.least.ceil() <= self.most
    }

    /// The step at which the training has come to an epoch, if it is certain.
    fn step(&self, steps: u64, (epoch, rounding): (f64, f64)) -> Option<u64> {
        let (first, last) = (self.least.ceil().max(1.0), self.most.floor());
        if last - first >= MOST_CANDIDATES {
            return None;
        }
        let mut fitting = (first as u64..=last as u64).filter(|epochs| steps.is_multiple_of(*epochs));
        let epochs = fitting.next().filter(|_| fitting.next().is_none())?;
        let of_epoch = (steps / epochs) as f64;
        let step = (epoch * of_epoch).round();
        let is_certain = rounding * of_epoch < 0.5 && (epoch * of_epoch - step).abs() <= rounding * of_epoch + 1e-6;
        (is_certain && (1.0..=steps as f64).contains(&step)).then_some(step as u64)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "beside_tests.rs"]
mod tests;
