//! The meaning of names: which field or reading a name in a line, a row or an event stands for.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::tz::TimeZone;

use super::phases::names_loss_of_evaluation;
use super::{Found, FoundStep, NamedPhase};
use crate::foreign::moment;
use crate::plan::Key;
use crate::protocol::{MAX_KEY_BYTES, MOST_STEPS, check_duration, check_moment};

/// The names of fields; all other names are readings.
pub(super) const WORDS: &[&str] = &[
    "step",
    "steps",
    "epoch",
    "loss",
    "duration_s",
    "duration_ms",
    "wait_s",
    "units",
    "warm_up",
    "phase",
    "rank",
    "time_s",
];

/// Names of these fields in other programs, in lower case with `_` for every other character.
const ALIASES: &[(&str, &[&str])] = &[
    ("step", &["global_step", "current_steps", "iteration", "iter", "_step", "train_global_step"]),
    ("steps", &["max_steps", "total_steps"]),
    ("loss", &["train_loss", "training_loss", "loss_train", "train_loss_step", "loss_step"]),
    ("time_s", &["wall_time", "timestamp", "_timestamp"]),
    ("phase", &["split", "stage", "mode", "subset", "dataset"]),
];

/// The field that a name usually stands for in other programs.
fn usual(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    let alias = ALIASES.iter().find(|(word, names)| *word == plain || names.contains(&plain.as_str()));
    alias.map(|(word, _)| *word)
}

/// The meaning of a program's names: as its plan declares, and for formats that multicard does not define, the usual meaning.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    declared: BTreeMap<String, String>,
    /// Whether names with a usual meaning are taken for fields; each guess is reported.
    guesses: bool,
    /// The name that is taken for each of these fields.
    guessed: HashMap<&'static str, String>,
    /// Fields that no other name is taken for, because their own names have appeared, or because the source's records contain them.
    certain: HashSet<&'static str>,
}

impl Names {
    /// Names that a plan declares. If `guesses`, other names get their usual meaning.
    pub fn new(declared: &BTreeMap<String, String>, guesses: bool) -> Self {
        Self { declared: declared.clone(), guesses, ..Self::default() }
    }

    /// These names, for a source whose records contain these fields.
    pub fn besides(self, fields: &[&'static str]) -> Self {
        Self { certain: fields.iter().copied().collect(), ..self }
    }

    /// Notes a name that has a value. If it is the own name of a field, no other name is taken for that field from then on.
    pub fn see(&mut self, name: &str, origin: &str, found: &mut Vec<Found>) {
        let field = ALIASES.iter().map(|(word, _)| *word).find(|word| self.guesses && *word == name);
        let Some(word) = field.filter(|word| self.certain.insert(*word)) else { return };
        if let Some(other) = self.guessed.remove(word) {
            found.push(Found::Warning(format!(
                "{origin}: {other:?} was taken for {word} until {word:?} appeared, which counts from there on; to choose another one, \
                     declare it with names in [command.readings]"
            )));
        }
    }

    /// The field or the key that a program's name with a number as its value stands for. A guess is reported once.
    pub fn meaning<'n>(&'n mut self, name: &'n str, origin: &str, found: &mut Vec<Found>) -> &'n str {
        // No number names a phase.
        self.meaning_among(name, usual(name).filter(|word| *word != "phase"), origin, found)
    }

    /// The field or the key that a name stands for, if `usual` is the field that it usually stands for.
    fn meaning_among<'n>(
        &'n mut self,
        name: &'n str,
        usual: Option<&'static str>,
        origin: &str,
        found: &mut Vec<Found>,
    ) -> &'n str {
        if self.declared.contains_key(name) {
            return &self.declared[name];
        }
        if WORDS.contains(&name) || !self.guesses {
            return name;
        }
        let Some(word) = usual else { return name };
        if self.certain.contains(word) || self.declared.values().any(|taken| taken == word) {
            return name;
        }
        // If two names stand for the same field, the first one is used.
        if let Some(first) = self.guessed.get(word) {
            return if first == name { word } else { name };
        }
        self.guessed.insert(word, name.to_owned());
        found.push(Found::Warning(format!(
            "{origin}: {name:?} was taken for {word} because of its name; to confirm this, write names = {{ {name:?} = {word:?} }} in \
                 [command.readings]"
        )));
        word
    }

    /// The field or the key that a program's name with a text as its value stands for. `None` if the text says nothing: if it is no number
    /// under the key of a reading, or if the name is only usually that of a field, and the text cannot be the field's value.
    pub fn meaning_of_text<'n>(
        &'n mut self,
        name: &'n str,
        text: &str,
        origin: &str,
        found: &mut Vec<Found>,
    ) -> Option<&'n str> {
        let usual = usual(name).filter(|word| is_value_of(word, text.trim()));
        let meaning = self.meaning_among(name, usual, origin, found);
        (WORDS.contains(&meaning) || text.trim().parse::<f64>().is_ok()).then_some(meaning)
    }
}

/// The fields of one line, row or event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields {
    pub step: FoundStep,
    pub rank: Option<u64>,
    pub time_s: Option<f64>,
    pub phase: Option<NamedPhase>,
    readings: Vec<(Key, f64)>,
}

impl Fields {
    /// Sets a field, or adds a reading under another name.
    ///
    /// # Errors
    /// The number is impossible for this field.
    pub fn number(&mut self, name: &str, value: f64) -> Result<(), String> {
        let refused = |what: &str| Err(format!("{name} is {value}, but must be {what}"));
        let count = || (value.fract() == 0.0 && (0.0..=MOST_STEPS as f64).contains(&value)).then_some(value as u64);
        let positive = || (value.is_finite() && value >= 0.0).then_some(value);
        let step = &mut self.step;
        match name {
            "step" | "steps" | "rank" => {
                let Some(count) = count() else { return refused(&format!("a whole number from 0 to {MOST_STEPS}")) };
                match name {
                    "step" => step.step = Some(count),
                    "steps" => step.steps = Some(count),
                    _ => self.rank = Some(count),
                }
            }
            "loss" => step.loss = Some(value),
            "epoch" | "units" => {
                let Some(value) = positive() else { return refused("a number from 0") };
                if name == "epoch" { step.epoch = Some(value) } else { step.units = Some(value) }
            }
            "duration_s" | "duration_ms" | "wait_s" => {
                let value_s = if name == "duration_ms" { value / 1e3 } else { value };
                if positive().is_none() {
                    return refused("a number from 0");
                }
                // The log could not be parsed with it.
                if check_duration(name, value_s).is_err() {
                    return refused("the time of a step");
                }
                let field = if name == "wait_s" { &mut step.wait_s } else { &mut step.duration_s };
                *field = Some(value_s);
                if let (Some(wait_s), Some(duration_s)) = (step.wait_s, step.duration_s)
                    && !can_wait(wait_s, duration_s)
                {
                    return Err(format!("wait_s is {wait_s}, but must be part of the step's {duration_s} s"));
                }
            }
            "time_s" => {
                if check_moment(value).is_err() {
                    return refused("a time in seconds since 1970");
                }
                self.time_s = Some(value);
            }
            "warm_up" => step.warm_up = Some(value != 0.0),
            "phase" => return refused("the name of a phase"),
            _ => self.reading(name, value),
        }
        Ok(())
    }

    /// Adds a reading, whatever its name.
    pub fn reading(&mut self, name: &str, value: f64) {
        self.readings.extend(reading_key(name).map(|key| (key, value)));
    }

    /// The reading of this key.
    pub fn value(&self, key: &str) -> Option<f64> {
        self.readings.iter().find(|(own, _)| own.as_str() == key).map(|(_, value)| *value)
    }

    /// Gives readings of one key another key.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.readings.iter_mut().filter(|(key, _)| key.as_str() == from).for_each(|(key, _)| *key = to.into());
    }

    /// Sets a field given as text: a phase, a number as it is printed, or a time as a date with a time of day.
    ///
    /// # Errors
    /// The text is no such phase, number or time.
    pub fn text(&mut self, name: &str, text: &str) -> Result<(), String> {
        let text = text.trim();
        if name == "phase" {
            let unknown = || format!("{} is not a phase; the phases are start, load, train, evaluate", shown(text));
            self.phase = Some(NamedPhase::of(text).ok_or_else(unknown)?);
            return Ok(());
        }
        match number_of(name, text) {
            Some(number) => self.number(name, number),
            None => Err(format!("{name} is {}, but must be a number", shown(text))),
        }
    }

    /// Whether they hold a value of a step.
    pub fn is_measured(&self) -> bool {
        self.step.loss.is_some() || self.step.duration_s.is_some() || self.step.units.is_some()
    }

    /// Whether they describe a step: if they hold a value of a step, or its number and nothing else.
    pub fn is_step(&self) -> bool {
        self.is_measured() || self.step.step.is_some() && self.readings.is_empty() && self.phase.is_none()
    }

    /// Whether they say nothing of a step or of the run but its epoch.
    pub fn is_at_most_epoch(&self) -> bool {
        let epoch = FoundStep { epoch: self.step.epoch, ..FoundStep::default() };
        self.step == epoch && self.phase.is_none() && self.readings.is_empty()
    }

    /// Whether they hold a phase and nothing else.
    pub fn is_only_phase(&self) -> bool {
        self.phase.is_some() && self.step == FoundStep::default() && self.readings.is_empty()
    }

    /// The end of an evaluation, if they hold its loss and neither a step nor a phase; `now_s` is the time for a line without one.
    pub fn evaluation(&self, now_s: f64) -> Option<Found> {
        let is_loss = |(key, _): &(Key, f64)| names_loss_of_evaluation(key);
        let has_ended = !self.is_step() && self.phase.is_none() && self.readings.iter().any(is_loss);
        has_ended.then(|| Found::Evaluated { step: self.step.step, at_s: self.time_s.unwrap_or(now_s) })
    }

    /// Adds what a line says of an evaluation that has ended: its loss, if they hold it as a reading, and the end.
    pub fn evaluated(&mut self, at_s: f64, found: &mut Vec<Found>) {
        let (step, epoch) = (self.step.step, self.step.epoch);
        let reading = |(key, value)| Found::Reading { key, value, step, epoch };
        found.extend(self.readings.drain(..).map(reading));
        found.push(Found::Evaluated { step, at_s });
    }

    /// Adds what the fields of a line describe to `found`; `now_s` is the time for a line without one.
    pub fn found(self, now_s: f64, found: &mut Vec<Found>) {
        let evaluation = self.evaluation(now_s);
        self.values(now_s, found);
        found.extend(evaluation);
    }

    /// Adds the values that the fields hold, and the phase. A phase in the line of a step is that of the step; otherwise it begins.
    pub fn values(self, now_s: f64, found: &mut Vec<Found>) {
        let is_step = self.is_step();
        let Self { mut step, time_s, phase, readings, rank: _ } = self;
        (step.at_s, step.read_s) = (time_s.unwrap_or(now_s), time_s.map(|_| now_s));
        if is_step {
            step.phase = phase;
            found.push(Found::Step(step));
        } else {
            found.extend(phase.map(|phase| Found::Phase { phase, at_s: step.at_s }));
        }
        let reading = |(key, value)| Found::Reading { key, value, step: step.step, epoch: step.epoch };
        found.extend(readings.into_iter().map(reading));
    }
}

/// Whether a text can be the value of a field.
fn is_value_of(word: &str, text: &str) -> bool {
    if word == "phase" { NamedPhase::of(text).is_some() } else { number_of(word, text).is_some() }
}

/// The number that the text of a field states. A time may be a date with a time of day, which is local without a zone.
fn number_of(name: &str, text: &str) -> Option<f64> {
    // `\S+` also matches the comma after a number.
    let number = text.trim_end_matches([',', ';', ')', ']', '|']);
    // Elsewhere a comma may be a decimal one.
    let count = if name == "step" || name == "steps" { ungrouped(number) } else { None };
    match count.as_deref().unwrap_or(number).parse() {
        Ok(number) => Some(number),
        Err(_) if name == "time_s" => {
            let time = moment(number, TimeZone::system())?;
            Some(time.as_second() as f64 + f64::from(time.subsec_nanosecond()) / 1e9)
        }
        Err(_) => None,
    }
}

/// Whether a step of this duration can have waited so long. Both may be rounded.
pub(super) fn can_wait(wait_s: f64, duration_s: f64) -> bool {
    wait_s <= 1.1 * duration_s + 1e-3
}

/// The digits of a whole number that is printed with commas between its groups of three digits; `None` for any other text.
pub(super) fn ungrouped(text: &str) -> Option<String> {
    let (first, rest) = text.split_once(',')?;
    let is_group = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let is_first = (1..=3).contains(&first.len()) && is_group(first) && !first.starts_with('0');
    let is_grouped = is_first && rest.split(',').all(|group| group.len() == 3 && is_group(group));
    is_grouped.then(|| text.replace(',', ""))
}

/// Turns a name into the key of a measure: without spaces and control characters, and shortened to the maximum length of keys.
fn reading_key(name: &str) -> Option<Key> {
    let mut key: String =
        name.trim().chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
    let end = (0..=MAX_KEY_BYTES.min(key.len())).rev().find(|end| key.is_char_boundary(*end)).unwrap_or(0);
    key.truncate(end);
    (!key.is_empty()).then(|| key.into())
}

/// A text for a message: in quotes, and cut if it is long.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::protocol::Phase;

    fn found(fields: &[(&str, &str)]) -> Vec<Found> {
        let (mut line_fields, mut found) = (Fields::default(), Vec::new());
        fields.iter().for_each(|(name, text)| line_fields.text(name, text).unwrap());
        line_fields.found(9.0, &mut found);
        found
    }

    #[test]
    fn a_line_with_a_loss_a_duration_or_units_is_a_step_and_other_numbers_are_readings_of_it() {
        let step = FoundStep { step: Some(3), loss: Some(0.5), at_s: 9.0, ..FoundStep::default() };
        let reading = Found::Reading { key: "learning_rate".into(), value: 1e-3, step: Some(3), epoch: None };
        assert_eq!(
            found(&[("step", "3"), ("loss", "0.5"), ("learning_rate", "1e-3")]),
            [Found::Step(step), reading.clone()]
        );
        assert_eq!(found(&[("step", "3"), ("learning_rate", "1e-3")]), [reading], "a number that belongs to a step");
        let bare = FoundStep { step: Some(3), at_s: 2.0, read_s: Some(9.0), ..FoundStep::default() };
        assert_eq!(found(&[("step", "3"), ("time_s", "2")]), [Found::Step(bare)]);
        let units = FoundStep { units: Some(64.0), duration_s: Some(0.25), at_s: 9.0, ..FoundStep::default() };
        assert_eq!(found(&[("units", "64"), ("duration_ms", "250")]), [Found::Step(units)]);
        assert_eq!(found(&[("step", "3,"), ("time_s", "2;")]), [Found::Step(bare)], "with the sign after it");
        let phases = ["start", "load", "loading", "warmup", "training", "eval", "val"];
        let trained = [Phase::Start, Phase::Load, Phase::Load, Phase::WarmUp, Phase::Steady];
        let expected = trained.into_iter().chain([Phase::Evaluate, Phase::Evaluate]);
        for (name, phase) in phases.into_iter().zip(expected) {
            assert_eq!(
                found(&[("phase", name)]),
                [Found::Phase { phase: NamedPhase { phase, name }, at_s: 9.0 }],
                "a phase of its own line"
            );
        }
        let validation = Some(NamedPhase { phase: Phase::Evaluate, name: "valid" });
        let of_step = FoundStep { loss: Some(0.5), phase: validation, at_s: 9.0, ..FoundStep::default() };
        assert_eq!(found(&[("loss", "0.5"), ("phase", "Valid")]), [Found::Step(of_step)]);
    }

    #[test]
    fn a_number_that_cannot_be_is_refused_and_a_loss_that_is_none_is_kept() {
        let refused = |name: &str, text: &str| Fields::default().text(name, text).unwrap_err();
        assert_eq!(refused("step", "-3"), "step is -3, but must be a whole number from 0 to 9007199254740991");
        assert!(refused("step", "1e300").contains("must be a whole number from 0"));
        // As a number of JSON it is the same as ...992.
        assert!(refused("step", "9007199254740993").contains("must be a whole number from 0"));
        assert!(refused("steps", "9007199254740992").contains("must be a whole number from 0"));
        let largest = found(&[("step", "9007199254740991")]);
        assert!(matches!(largest[0], Found::Step(FoundStep { step: Some(9_007_199_254_740_991), .. })), "{largest:?}");
        assert_eq!(refused("duration_s", "nan"), "duration_s is NaN, but must be a number from 0");
        assert_eq!(refused("units", "many"), "units is \"many\", but must be a number");
        for text in ["1,5", "1,0000", "0,100", "1,,000", ",100"] {
            assert_eq!(refused("step", text), format!("step is \"{text}\", but must be a number"));
        }
        assert_eq!(refused("loss", "2,345"), "loss is \"2,345\", but must be a number", "it may be a decimal comma");
        assert!(refused("phase", "lunch").contains("start, load, train, evaluate"));
        let Found::Step(step) = found(&[("loss", "NaN")])[0] else { panic!("not a step") };
        assert!(step.loss.unwrap().is_nan());
    }

    #[test]
    fn commas_between_groups_of_three_digits_belong_to_the_number_of_a_step() {
        let step =
            FoundStep { step: Some(1_000), steps: Some(1_234_567), loss: Some(0.5), at_s: 9.0, ..FoundStep::default() };
        assert_eq!(found(&[("step", "1,000"), ("steps", "1,234,567,"), ("loss", "0.5")]), [Found::Step(step)]);
    }

    #[test]
    fn a_wait_that_is_longer_than_the_step_is_refused_in_either_order() {
        for fields in [[("duration_s", "0.01"), ("wait_s", "0.5")], [("wait_s", "0.5"), ("duration_ms", "10")]] {
            let mut line_fields = Fields::default();
            line_fields.text(fields[0].0, fields[0].1).unwrap();
            let refused = line_fields.text(fields[1].0, fields[1].1).unwrap_err();
            assert_eq!(refused, "wait_s is 0.5, but must be part of the step's 0.01 s");
        }
        let mut rounded = Fields::default();
        rounded.text("duration_s", "0.31").unwrap();
        rounded.text("wait_s", "0.312").unwrap();
    }

    #[test]
    fn a_name_becomes_a_key_of_a_fair_length() {
        let key = |name: &str| reading_key(name).map(|key| key.to_string());
        assert_eq!(key(" eval/top 1\n").as_deref(), Some("eval/top_1"));
        assert_eq!(key(&"ü".repeat(80)).unwrap(), "ü".repeat(50));
        assert_eq!(key(" "), None);
    }

    #[test]
    fn usual_names_are_guessed_once_and_said_and_declared_ones_are_not() {
        let mut found = Vec::new();
        let mut names = Names::new(&BTreeMap::from([("it".to_owned(), "step".to_owned())]), true);
        assert_eq!(names.meaning("it", "a.csv", &mut found), "step");
        assert_eq!(names.meaning("global_step", "a.csv", &mut found), "global_step", "the step is declared");
        assert!(found.is_empty());
        assert_eq!(names.meaning("Loss/train", "a.csv", &mut found), "loss");
        assert_eq!(names.meaning("Loss/train", "a.csv", &mut found), "loss");
        assert_eq!(names.meaning("train_loss", "a.csv", &mut found), "train_loss", "the second of its kind");
        let [Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
        assert!(warning.contains(r#"names = { "Loss/train" = "loss" }"#), "{warning}");
        let mut plain = Names::new(&BTreeMap::new(), false);
        assert_eq!(plain.meaning("Loss/train", "a.csv", &mut found), "Loss/train");
    }

    #[test]
    fn a_time_may_be_a_date_with_a_time_of_day_which_is_local_without_a_zone() {
        let at_s = |text: &str| {
            let Found::Step(step) = found(&[("step", "3"), ("time_s", text)])[0] else { panic!("not a step") };
            step.at_s
        };
        assert_eq!(at_s("2026-11-26T09:30:00.25+01:00"), 1_795_681_800.25);
        let local: jiff::civil::DateTime = "2026-11-26T09:30:00.25".parse().unwrap();
        let local = local.to_zoned(TimeZone::system()).unwrap().timestamp();
        assert_eq!(at_s("2026-11-26 09:30:00.250"), local.as_millisecond() as f64 / 1e3);
        for text in ["2026-11-26", "soon"] {
            let refused = Fields::default().text("time_s", text).unwrap_err();
            assert_eq!(refused, format!("time_s is \"{text}\", but must be a number"));
        }
        let refused = Fields::default().text("units", "2026-11-26T09:30:00Z").unwrap_err();
        assert!(refused.starts_with("units is"), "{refused}");
    }

    #[test]
    fn a_name_is_taken_for_a_field_only_because_of_texts_that_the_field_can_have() {
        let mut found = Vec::new();
        let mut names = Names::new(&BTreeMap::from([("when".to_owned(), "time_s".to_owned())]), true);
        let mut meaning = |names: &mut Names, name: &str, text: &str| {
            names.meaning_of_text(name, text, "a.csv", &mut found).map(str::to_owned)
        };
        assert_eq!(meaning(&mut names, "when", "soon").as_deref(), Some("time_s"), "declared, so it is refused later");
        assert_eq!(meaning(&mut names, "loss", "high").as_deref(), Some("loss"));
        assert_eq!(meaning(&mut names, "note", "high"), None);
        assert_eq!(meaning(&mut names, "note", "0.5").as_deref(), Some("note"));
        let mut names = Names::new(&BTreeMap::new(), true);
        assert_eq!(meaning(&mut names, "timestamp", "soon"), None);
        assert_eq!(meaning(&mut names, "wall_time", "2026-11-26 09:30:00").as_deref(), Some("time_s"));
        assert_eq!(meaning(&mut names, "timestamp", "2026-11-26 09:30:00"), None, "the second of its kind");
        let [Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
        assert!(warning.starts_with("a.csv: \"wall_time\" was taken for time_s"), "{warning}");
    }

    #[test]
    fn a_usual_name_of_phases_is_taken_for_the_phase_because_of_a_word_for_one() {
        let (mut names, mut found) = (Names::new(&BTreeMap::new(), true), Vec::new());
        let meaning = |names: &mut Names, name: &str, text: &str, found: &mut Vec<Found>| {
            names.meaning_of_text(name, text, "a.csv", found).map(str::to_owned)
        };
        assert_eq!(meaning(&mut names, "split", "cifar", &mut found), None);
        assert_eq!(meaning(&mut names, "split", "3", &mut found).as_deref(), Some("split"));
        assert_eq!(names.meaning("split", "a.csv", &mut found), "split", "a number");
        assert_eq!(found, []);
        for text in ["train", " Val ", "test"] {
            assert_eq!(meaning(&mut names, "split", text, &mut found).as_deref(), Some("phase"), "{text}");
        }
        assert_eq!(meaning(&mut names, "mode", "train", &mut found), None, "the second of its kind");
        let [Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
        assert!(warning.starts_with("a.csv: \"split\" was taken for phase"), "{warning}");
        names.see("phase", "a.csv", &mut found);
        assert_eq!(meaning(&mut names, "split", "val", &mut found), None, "the phase has a column of its own");
    }

    #[test]
    fn a_name_is_taken_for_a_field_only_until_the_fields_own_name_appears() {
        let mut found = Vec::new();
        let mut names = Names::new(&BTreeMap::new(), true);
        assert_eq!(names.meaning("train/loss", "a.csv", &mut found), "loss");
        names.see("loss", "a.csv", &mut found);
        names.see("loss", "a.csv", &mut found);
        assert_eq!(names.meaning("loss", "a.csv", &mut found), "loss");
        assert_eq!(names.meaning("train/loss", "a.csv", &mut found), "train/loss");
        let [Found::Warning(_), Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
        assert!(warning.starts_with(r#"a.csv: "train/loss" was taken for loss until "loss" appeared"#), "{warning}");
        let mut of_records = Names::new(&BTreeMap::new(), true).besides(&["step"]);
        assert_eq!(of_records.meaning("global_step", "events", &mut found), "global_step");
        assert_eq!(found.len(), 2);
    }
}
