//! Readings of a program whose plan declares none. They are looked for in the file `$MULTICARD_READINGS`, in TensorBoard's event files in
//! the run's folder, and in common formats of output.
//!
//! Only the first source is certain. The others are guesses: they are reported as such, only one of them gives steps, and all of these steps
//! give way to those of the certain source.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::fields::shown;
use super::json::JsonLines;
use super::shapes::Shapes;
use super::tensorboard::EventFiles;
use super::{Found, Source, Stream};

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
    /// The same of readings, which is given if there were no steps.
    reading_guess: Option<Found>,
}

impl Look {
    pub fn new(program: JsonLines, run_folder: &Path) -> Self {
        let event_files = EventFiles::looked_for(run_folder);
        let output = Shapes::default();
        Self { program, event_files, output, speaker: None, guess: None, reading_guess: None }
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
        let is_reading = speaker == Speaker::Output && self.reading_guess.is_none();
        if is_reading && has(|found| matches!(found, Found::Reading { .. })) {
            let message = format!("readings were guessed from {guess}, which contains no step number");
            self.reading_guess = Some(guess_warning(&message));
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
            let of_readings = self.reading_guess.take().filter(|_| self.speaker.is_none());
            found.extend(self.guess.take().or(of_readings));
        }
        program.and(event_files)
    }
}

/// The numbers of a line, and the bar behind a percentage.
static NUMBERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\d[\d.,]*(?:[eE][-+]?\d+)?(?:%\|[^|]*\|)?").ok());

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "look_tests.rs"]
mod tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "sentences_tests.rs"]
mod sentences_tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "trainers_tests.rs"]
mod trainers_tests;
