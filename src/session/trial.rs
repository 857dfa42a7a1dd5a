//! A short trial of a plan's first cell, which shows the readings of its program before anything is launched.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Machine, Notice, Session, SessionError, queueing::runnable};
use crate::plan::command::OUTSIDE;
use crate::plan::{Key, Plan, RunState, Tracing};
use crate::program::readings::{
    Found, MOST_LOG_BYTES, NO_PATTERNS, READABLE, READINGS_FILE, StepParts, Suggestions, read_log, summary,
};
use crate::protocol::Event;

/// The most lines that a trial keeps.
const KEPT: usize = 200;

/// The result of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// The last lines of output in which readings were found, each with these readings.
    pub read: Vec<(String, String)>,
    /// Patterns that read the guessed steps, and then the numbers in the output that were not read, with patterns that would read them.
    pub untaken: Vec<String>,
    /// The last lines of output, if no readings were found in it.
    pub output: Vec<String>,
    /// Number of steps.
    pub steps: u64,
    /// The parts that its steps have besides their numbers.
    pub parts: StepParts,
    /// Keys of its readings.
    pub keys: Vec<Key>,
    /// The run's warnings.
    pub warnings: Vec<String>,
    /// How the run ended; `None` if it was ended when its time was over.
    pub end: Option<String>,
}

/// Runs the first cell of a plan that can run here for some seconds, in a temporary folder, until the run ends or `stop` is set.
///
/// # Errors
/// No cell can run, or the folder cannot be made.
pub fn try_once(plan: &Plan, seconds: f64, machine: Machine, stop: &AtomicBool) -> Result<Trial, SessionError> {
    // A trial is not traced.
    let mut plan = Plan { tracing: Tracing::default(), ..plan.clone() };
    let matrix = runnable(&plan, &machine.node)?;
    if let Some(cell) = matrix.cells.first() {
        let block = plan.blocks().find(|block| block.spec.key == cell.workload).cloned();
        plan.first = block.unwrap_or(plan.first);
        plan.further.clear();
        for (key, ticked) in &mut plan.first.factors {
            *ticked = cell.levels.get(key).cloned().into_iter().collect();
        }
    }
    (plan.repeats, plan.limits.run_time_s) = (1, Some(seconds));
    plan.studies.clear();
    let folder = Scratch::new(&std::env::temp_dir(), "multicard-trial")?;
    let mut session = Session::open_or_create(&folder.0.join("session"), machine)?;
    session.add_plan(&plan, false)?;
    let (mut trial, mut is_stopped) = (Trial::default(), false);
    while !session.is_idle() {
        if stop.load(Ordering::Relaxed) && !is_stopped {
            is_stopped = true;
            session.cancel_all()?;
        }
        for notice in session.advance(Duration::from_millis(50))? {
            match notice {
                Notice::State { state: RunState::Finished, .. } => trial.end = Some("It ended by itself.".to_owned()),
                Notice::State { state: RunState::Failed, reason, .. } => trial.end = reason,
                Notice::Event(line) => trial.take(line.event),
                _ => {}
            }
        }
    }
    let run = session.states().next().map(|(run, _)| run.to_owned());
    if let Some(run) = run {
        trial.look(&session.folder().join("runs").join(run), &plan);
    }
    Ok(trial)
}

impl Trial {
    /// Reads the files that the run left in its folder.
    fn look(&mut self, run: &Path, plan: &Plan) {
        let spec = plan.first.spec.command.as_deref().map(|command| command.readings.clone()).unwrap_or_default();
        let mut output = Vec::new();
        for name in ["group.out", "stderr.log"] {
            let Ok(log) = File::open(run.join(name)) else { continue };
            let _ = (&log).take(MOST_LOG_BYTES).read_to_end(&mut output).and_then(|_| (&log).rewind());
            output.push(b'\n');
            let _ = read_log(&spec, log, |line, found| {
                if let Found::Step(step) = &found {
                    self.parts.add(step);
                }
                let is_read = !matches!(found, Found::Untaken(_) | Found::Epoch(_) | Found::Warning(_));
                if let Some((_, line)) = line.filter(|_| is_read) {
                    self.read.push((line.to_owned(), found.to_string()));
                }
            });
        }
        self.read.drain(..self.read.len().saturating_sub(KEPT));
        // What the program writes into its own file is no guess.
        let reports_itself = fs::metadata(run.join(READINGS_FILE)).is_ok_and(|about| about.len() > 0);
        self.untaken = advice(&Suggestions::new(&spec, &output), spec.names_no_source() && !reports_itself);
        if self.read.is_empty() {
            for name in ["group.out", "stderr.log"] {
                let text = fs::read(run.join(name)).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                let lines: Vec<&str> = text.lines().collect();
                self.output
                    .extend(lines[lines.len().saturating_sub(8)..].iter().map(|line| line.chars().take(200).collect()));
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Step { loss, load_wait_s, units, .. } => {
                self.steps += 1;
                self.parts.loss |= loss.is_finite();
                self.parts.wait |= load_wait_s.is_finite();
                self.parts.units |= units > 0;
            }
            Event::StepsWithdrawn => (self.steps, self.parts) = (0, StepParts::default()),
            Event::Reading { key, .. } if !OUTSIDE.contains(&key.as_str()) && !self.keys.contains(&key) => {
                self.keys.push(key);
            }
            Event::Warning { message } => self.warnings.push(message),
            Event::Failed { message, .. } => self.end = Some(message),
            _ => {}
        }
    }

    /// Its steps and readings in words.
    pub fn summary(&self) -> String {
        // The mean of the steps' losses is no reading of its own.
        let keys = self.keys.iter().filter(|key| !(self.parts.loss && key.as_str() == "train_loss"));
        summary(self.steps, self.parts, &keys.map(Key::to_string).collect::<Vec<_>>())
    }
}

/// The numbers that were not read, with patterns that read them. If readings were guessed, the patterns that keep what was guessed stand before
/// these, after a line that says what they are for.
fn advice(suggestions: &Suggestions, is_guess: bool) -> Vec<String> {
    let Suggestions { kept, is_guess_lost, more, others } = suggestions;
    let once = "⚠ Once a plan has a pattern, nothing is guessed any more";
    let first = match (more.is_empty(), kept.is_empty()) {
        (_, true) if !is_guess_lost => None,
        (true, true) => Some(format!("{NO_PATTERNS}.")),
        (true, false) => {
            Some("multicard guessed this from the output. To fix the guess, add these patterns to the plan.".to_owned())
        }
        (false, true) => Some(format!("{once}: write patterns for the steps and readings that were guessed, too.")),
        (false, false) => Some(format!("{once}: add the patterns that keep what was guessed, too.")),
    };
    let kept = kept.iter().map(|pattern| format!("a pattern that keeps what was guessed: '{pattern}'"));
    let of_guess = first.into_iter().chain(kept).filter(|_| is_guess);
    let more = more.iter().map(|(number, pattern)| format!("not read: {number}; a pattern that reads it: '{pattern}'"));
    of_guess.chain(more).chain(others.iter().map(|number| format!("not read: {number}; {READABLE}"))).collect()
}

/// A folder that only the user can enter and that is removed when it is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A new folder within `parent`; its name begins with `name`.
    pub fn new(parent: &Path, name: &str) -> Result<Self, SessionError> {
        let folder = parent.join(format!("{name}-{:016x}", rand::random::<u64>()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => Ok(Self(folder)),
            Err(error) => Err(SessionError::Scratch { folder, error }),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::starting_command;

    #[test]
    fn beside_a_pattern_for_an_unread_number_stand_the_patterns_that_keep_steps_and_losses() {
        let folder = tempfile::tempdir().unwrap();
        let looked = |log: &str| {
            fs::write(folder.path().join("group.out"), log).unwrap();
            let mut trial = Trial::default();
            trial.look(folder.path(), &Plan::new("own", starting_command()));
            trial.untaken
        };
        let untaken = looked("step 1 loss 0.5\nlatency: 12.5 ms\nstep 2 loss 0.25\n");
        let [warning, kept, suggested] = &untaken[..] else { panic!("{untaken:?}") };
        assert!(warning.contains("nothing is guessed any more"), "{warning}");
        assert!(kept.contains("(?<step>") && kept.contains("(?<loss>"), "{kept}");
        assert!(suggested.contains("latency"), "{suggested}");
        assert_eq!(looked("latency: 12.5 ms\n").len(), 1, "nothing was guessed that could be lost");
        let untaken = looked("step 1 loss 0.5\nstep 2 loss 0.25\n");
        let [first, kept] = &untaken[..] else { panic!("{untaken:?}") };
        assert!(first.contains("To fix the guess, add these patterns to the plan"), "{first}");
        assert!(kept.contains("(?<step>") && kept.contains("(?<loss>"), "{kept}");
        fs::write(folder.path().join(READINGS_FILE), "{\"step\": 1}\n").unwrap();
        assert_eq!(looked("step 1 loss 0.5\n"), [""; 0], "the program itself says what its steps are");
    }

    #[test]
    fn the_tutorial_shows_a_line_with_what_a_trial_reads_from_it() {
        let tutorial = include_str!("../cli/manual/own-program.md");
        let (line, found) = tutorial.lines().find_map(|line| line.split_once(" → ")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("group.out"), format!("{line}\n")).unwrap();
        let mut trial = Trial::default();
        trial.look(folder.path(), &Plan::new("own", starting_command()));
        assert_eq!(trial.read, [(line.to_owned(), found.to_owned())]);
    }
}
