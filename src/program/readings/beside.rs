//! Dictionaries of losses beside a progress bar, as Hugging Face's Trainer prints them: `{'loss': 0.5, 'epoch': 0.25}` on standard output, and
//! tqdm's bar on standard error.
//!
//! Only the bar gives steps and their times, because the dictionaries have no step numbers. tqdm draws the bar at most every 0.1 s, and again
//! behind each dictionary, so that a loss belongs to the step that the bar shows next. The streams are read by two threads, whose times are
//! not exact: the step that the bar showed before is taken if it is nearer in time. Once the number of epochs is certain, the epoch of a
//! dictionary tells its step.

use std::collections::VecDeque;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::fields::Fields;
use super::sentence::pattern;

/// The most steps that are kept until a loss stands beside the bar, and the most that are kept afterwards.
const MOST_SHOWN: usize = 10_000;
const MOST_TOLD: usize = 256;
/// A step is told this long after it ended: the dictionary beside it comes through another pipe, which is read by another thread.
const READ_LATE_S: f64 = 0.1;
/// A dictionary waits this long until there is a bar, and until the number of epochs is certain.
const UNSURE_S: f64 = 1.0;
/// The most dictionaries that wait for their steps.
const MOST_HELD: usize = 1_000;
/// The most numbers of epochs among which the right one is looked for.
const MOST_CANDIDATES: f64 = 64.0;

/// An entry of a dictionary: `'loss': 0.5`, `'learning_rate': '5e-05'`.
static ENTRY: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"'(?<name>[^']+)': (?:'(?<text>…)'|(?<value>…))[,}]"));

/// Fields of lines, each with the time at which what they describe ended.
pub(super) type Told = Vec<(Fields, f64)>;

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
        let mut read = Self { fields: Fields::default(), at_s, rounding: 0.0 };
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
    pub fn without_step(mut self) -> Fields {
        if let Some(loss) = self.fields.step.loss.take() {
            self.fields.reading("loss", loss);
        }
        self.fields
    }
}

/// By how much an epoch that is printed like this may be rounded: Trainer rounds to two decimals or to four digits, and leaves out zeros at
/// the end.
fn rounding(text: &str, epoch: f64) -> f64 {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half_digit = 0.5 * 0.1_f64.powi(i32::try_from(decimals).unwrap_or(i32::MAX));
    half_digit.min((5e-4 * epoch).max(0.005))
}

/// A step that the bar showed, or a step between two such steps, to which a loss belongs.
struct Shown {
    step: u64,
    /// When the bar showed it first and last. A step that the bar did not show ended with the next step that it showed.
    first_s: f64,
    last_s: f64,
    is_told: bool,
    /// Whether a dictionary belongs to it, and what that holds until the step is told.
    has_loss: bool,
    beside: Fields,
}

impl Shown {
    fn new(step: u64, at_s: f64) -> Self {
        Self { step, first_s: at_s, last_s: at_s, is_told: false, has_loss: false, beside: Fields::default() }
    }
}

/// The steps that the bar showed before a dictionary and after it.
struct Around {
    before: u64,
    after: u64,
    /// The one of both that is nearer in time.
    nearest: u64,
}

/// The progress bar without losses that was printed last, and the dictionaries beside it.
#[derive(Default)]
pub(super) struct Beside {
    has_bar: bool,
    /// The number of steps of the bar, if it shows one.
    steps: Option<u64>,
    /// When the bar was first seen.
    began_s: f64,
    /// The newest steps of the bar, in order.
    shown: VecDeque<Shown>,
    /// Whether a loss stood beside the bar, so that it counts the steps of the training.
    counts: bool,
    /// Dictionaries that wait until the bar shows their steps.
    held: VecDeque<Dictionary>,
    epochs: NumberOfEpochs,
}

impl Beside {
    /// Whether there is a bar beside which a loss may stand.
    pub fn has_bar(&self) -> bool {
        self.has_bar
    }

    /// Whether a loss stood beside the bar, so that it counts the steps of the training.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// The number of steps of the bar, if it shows one.
    pub fn steps(&self) -> Option<u64> {
        self.steps
    }

    /// Takes what a bar shows. Returns the steps that are known with it.
    pub fn show(&mut self, (step, steps): (u64, Option<u64>), is_described: bool, at_s: f64) -> Told {
        let mut told = Told::new();
        let is_other = self.has_bar && steps != self.steps;
        if steps.is_some_and(|steps| step > steps) || self.counts && is_other {
            return told;
        }
        if !self.counts && is_described && Some(step) == steps && self.held.is_empty() {
            // A bar of files or downloads, which is full before the training begins.
            *self = Self::default();
            return told;
        }
        let goes_back = self.shown.back().is_some_and(|newest| step < newest.step);
        if goes_back && self.counts {
            told = self.settle();
        }
        if goes_back || is_other || !self.has_bar {
            self.shown.clear();
            (self.began_s, self.epochs) = (at_s, NumberOfEpochs::default());
        }
        (self.has_bar, self.steps) = (true, steps);
        if step == 0 {
            return told;
        }
        match self.shown.back_mut().filter(|newest| newest.step == step) {
            Some(newest) => newest.last_s = at_s,
            None => self.shown.push_back(Shown::new(step, at_s)),
        }
        self.place(at_s, &mut told);
        told
    }

    /// Returns the steps that are known at this time, once there was a first one.
    pub fn poll(&mut self, now_s: f64) -> Told {
        let mut told = Told::new();
        if self.counts {
            self.place(now_s, &mut told);
        }
        // The text of a bar ends with the next one.
        while !self.has_bar && self.held.front().is_some_and(|held| held.at_s + UNSURE_S <= now_s) {
            self.settle_next(&mut told);
        }
        told
    }

    /// Takes a dictionary with a loss and without the number of a step. Returns the steps that are known with it.
    pub fn hold(&mut self, dictionary: Dictionary) -> Told {
        let (mut told, at_s) = (Told::new(), dictionary.at_s);
        self.held.push_back(dictionary);
        let is_full = self.shown.back().is_some_and(|newest| Some(newest.step) == self.steps);
        if is_full {
            return self.settle();
        }
        if self.held.len() > MOST_HELD {
            self.settle_next(&mut told);
        }
        if !self.is_log(at_s) {
            self.place(at_s, &mut told);
        }
        told
    }

    /// Gives all dictionaries to steps that are known: the bar shows no more steps for a while.
    pub fn settle(&mut self) -> Told {
        let mut told = Told::new();
        self.narrow();
        while !self.held.is_empty() {
            self.settle_next(&mut told);
        }
        self.tell(f64::INFINITY, &mut told);
        told
    }

    fn settle_next(&mut self, told: &mut Told) {
        let Some(dictionary) = self.held.pop_front() else { return };
        let around = self.around(dictionary.at_s).map(|around| around.nearest);
        let newest = self.shown.back().map(|newest| newest.step);
        match newest.and(self.certain(&dictionary)).or(around).or(newest) {
            Some(step) => told.extend(self.put(step, dictionary)),
            None => {
                let at_s = dictionary.at_s;
                told.push((dictionary.without_step(), at_s));
            }
        }
    }

    /// Whether this is the time of a line of a log: all of its lines have the same time, and are in order.
    fn is_log(&self, now_s: f64) -> bool {
        now_s == self.began_s
    }

    /// Gives dictionaries to their steps as far as these are known at this time, and adds the steps that are known to `told`.
    fn place(&mut self, now_s: f64, told: &mut Told) {
        self.narrow();
        while let Some(step) = self.held.front().and_then(|dictionary| self.step_of(dictionary, now_s))
            && let Some(dictionary) = self.held.pop_front()
        {
            told.extend(self.put(step, dictionary));
        }
        self.tell(now_s, told);
    }

    /// The steps around a time; `None` if the bar has shown none since.
    fn around(&self, at_s: f64) -> Option<Around> {
        let next = match self.shown.len().checked_sub(1) {
            Some(newest) if self.is_log(at_s) => newest,
            _ => self.shown.partition_point(|shown| shown.last_s < at_s),
        };
        let after = self.shown.get(next)?;
        if after.first_s < at_s {
            return Some(Around { before: after.step, after: after.step, nearest: after.step });
        }
        let before = next.checked_sub(1).and_then(|before| self.shown.get(before));
        let is_nearer = |before: &&Shown| at_s - before.last_s < after.first_s - at_s;
        let nearest = before.filter(is_nearer).unwrap_or(after).step;
        Some(Around { before: before.map_or(0, |before| before.step), after: after.step, nearest })
    }

    /// Takes note of the epochs of the dictionaries that wait.
    fn narrow(&mut self) {
        let Some(steps) = self.steps else { return };
        let mut epochs = std::mem::take(&mut self.epochs);
        for dictionary in &self.held {
            if let (Some(epoch), Some(around)) = (dictionary.epoch(), self.around(dictionary.at_s)) {
                epochs.narrow(steps, epoch, &around);
            }
        }
        self.epochs = epochs;
    }

    /// The step that the epoch of a dictionary tells, if it is certain.
    fn certain(&self, dictionary: &Dictionary) -> Option<u64> {
        self.epochs.step(self.steps?, dictionary.epoch()?)
    }

    /// The step of a dictionary, if it is known at this time.
    fn step_of(&self, dictionary: &Dictionary, now_s: f64) -> Option<u64> {
        let around = self.around(dictionary.at_s)?;
        if let Some(certain) = self.certain(dictionary) {
            return self.has_shown(certain).then_some(certain);
        }
        let is_same = around.before == around.after;
        let may_be_known = self.steps.and(dictionary.epoch()).is_some() && self.epochs.may_be_known();
        let waits = may_be_known && now_s - dictionary.at_s < UNSURE_S && !self.is_log(now_s);
        (is_same || !waits).then_some(around.nearest)
    }

    /// Whether the bar has come to a step.
    fn has_shown(&self, step: u64) -> bool {
        self.shown.back().is_some_and(|newest| newest.step >= step)
    }

    /// Gives a dictionary to a step. Returns its fields if the step was told before.
    fn put(&mut self, step: u64, dictionary: Dictionary) -> Option<(Fields, f64)> {
        self.counts = true;
        let mut fields = dictionary.fields;
        let place = self.place_of(step)?;
        let shown = self.shown.get_mut(place)?;
        (fields.step.step, fields.step.steps) = (Some(shown.step), self.steps);
        let is_second = std::mem::replace(&mut shown.has_loss, true);
        if shown.is_told {
            // The same number with a later epoch would be another step.
            fields.step.epoch = fields.step.epoch.filter(|_| !is_second);
            return Some((fields, shown.first_s));
        }
        shown.beside = fields;
        None
    }

    /// The place of a step, or of the nearest one that may still be told: none before the newest one that was told, since steps are told in
    /// order. A step that the bar did not show gets a place of its own.
    fn place_of(&mut self, step: u64) -> Option<usize> {
        let newest_told = self.shown.partition_point(|shown| shown.is_told).checked_sub(1);
        let place = self.shown.partition_point(|shown| shown.step < step).max(newest_told.unwrap_or(0));
        match self.shown.get(place).map(|shown| (shown.step > step && !shown.is_told, shown.first_s)) {
            Some((true, ended_s)) => {
                self.shown.insert(place, Shown::new(step, ended_s));
                Some(place)
            }
            Some((false, _)) => Some(place),
            None => place.checked_sub(1),
        }
    }

    /// Adds the steps that were not told yet, if they are known at this time to be steps of the training, with all that is beside them.
    fn tell(&mut self, now_s: f64, told: &mut Told) {
        let is_log = self.is_log(now_s);
        // A step before a dictionary that waits may be that of the dictionary.
        let until_s = self.held.front().map_or(now_s, |held| held.at_s.min(now_s));
        let is_known = |shown: &&mut Shown| is_log || shown.first_s + READ_LATE_S <= until_s;
        if self.counts {
            let first = self.shown.partition_point(|shown| shown.is_told);
            for shown in self.shown.range_mut(first..).take_while(is_known) {
                shown.is_told = true;
                let mut fields = std::mem::take(&mut shown.beside);
                (fields.step.step, fields.step.steps) = (Some(shown.step), self.steps);
                told.push((fields, shown.first_s));
            }
        }
        let most = if self.counts { MOST_TOLD } else { MOST_SHOWN };
        let excess = self.shown.len().saturating_sub(most);
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
