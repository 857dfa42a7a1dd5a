//! `multicard command`: shows what a plan's commands would read from a log. `multicard adapter`: helpers for programs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::{OK, Outcome, SOME_RUN_FAILED, print, say};
use crate::foreign;
use crate::plan::{self, Plan, counted, suggestion};
use crate::program::readings::{
    Found, MOST_LOG_BYTES, NO_PATTERNS, PYTHON_ADAPTER, READABLE, StepParts, Suggestions, read_log, summary,
};

/// The most bytes that are read of a log that is not a regular file: a device may have no end.
const MOST_STREAM_BYTES: u64 = 1 << 30;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Show how the readings of a command are found in a log of a program's output, line by line. Exit code 1 if a pattern matches nothing.
    Test(TestArguments),
}

#[derive(Args)]
pub(super) struct TestArguments {
    /// Plan file that contains the command.
    plan: PathBuf,
    /// A file with the output of the program.
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Name of the command, if the plan has several.
    #[arg(long)]
    name: Option<String>,
}

#[derive(Args)]
pub(super) struct AdapterArguments {
    /// The program's language.
    #[arg(value_enum)]
    language: Language,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Language {
    /// A module for training loops of your own, PyTorch Lightning and Hugging Face's Trainer.
    Python,
}

pub(super) fn adapter(arguments: &AdapterArguments) -> Outcome {
    print(match arguments.language {
        Language::Python => PYTHON_ADAPTER,
    })?;
    Ok(OK)
}

pub(super) fn run(command: &Command) -> Outcome {
    match command {
        Command::Test(arguments) => test(arguments),
    }
}

fn test(arguments: &TestArguments) -> Outcome {
    let plan = Plan::read(&arguments.plan)?;
    let command = command_of(&plan, arguments.name.as_deref())?;
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", arguments.log.display());
    let mut log = open_log(&arguments.log, MOST_STREAM_BYTES).map_err(unreadable)?;
    let mut begin = Vec::new();
    log.by_ref().take(MOST_LOG_BYTES).read_to_end(&mut begin).map_err(unreadable)?;
    let (mut text, mut read, mut missed) = (String::new(), Read::default(), Vec::new());
    let lines = read_log(&command.readings, begin.as_slice().chain(&mut log), |line, found| {
        read.add(&found);
        match (line, &found) {
            (Some((line, _)), _) => text.push_str(&format!("{line:>6}  {found}\n")),
            (None, Found::Warning(_)) => missed.push(found.to_string()),
            // It waited for a line behind its own.
            (None, _) => text.push_str(&format!("{:>6}  {found}\n", "end")),
        }
    });
    let lines = lines.map_err(unreadable)?;
    print(&text)?;
    if log.limit() == 0 {
        let (path, most) = (arguments.log.display(), MOST_STREAM_BYTES >> 20);
        say(format_args!(
            "Only the first {most} MB of {path} were read, which is not a regular file: it may have no end."
        ));
    }
    let is_declared = !command.readings.patterns.is_empty();
    say(read.summary(lines, is_declared));
    advice(&Suggestions::new(&command.readings, &begin), is_declared).iter().for_each(say);
    missed.iter().for_each(say);
    if !command.readings.files.is_empty() {
        say("The files of [command.readings] are read while the program runs.");
    }
    Ok(if missed.is_empty() && !read.is_empty() { OK } else { SOME_RUN_FAILED })
}

/// Opens a log. At most `most_bytes` bytes are read from a log that is not a regular file.
fn open_log(path: &Path, most_bytes: u64) -> io::Result<io::Take<Box<dyn io::Read>>> {
    let is_file = fs::metadata(path).is_ok_and(|about| about.is_file());
    Ok(foreign::open_stream(path)?.take(if is_file { u64::MAX } else { most_bytes }))
}

/// The plan's only command, or the one with the given name.
fn command_of<'p>(plan: &'p Plan, name: Option<&str>) -> Result<&'p plan::Command, String> {
    let mut commands: Vec<&plan::Command> = plan.blocks().filter_map(|block| block.spec.command.as_deref()).collect();
    commands.dedup_by_key(|command| command.name.clone());
    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
    let named = |name: &str| commands.iter().find(|command| command.name == *name).copied();
    match (name, &commands[..]) {
        (_, []) => Err("the plan has no [command]".to_owned()),
        (None, [command]) => Ok(command),
        (None, _) => Err(format!("the plan has several commands: choose one with --name: {}", names.join(", "))),
        (Some(name), _) => named(name)
            .ok_or_else(|| format!("--name {name}: the plan has no command of this name{}", suggestion(name, &names))),
    }
}

/// What was found in a log.
#[derive(Default)]
struct Read {
    steps: u64,
    parts: StepParts,
    readings: BTreeMap<String, u64>,
}

impl Read {
    /// Adds what was found, in a line or at the end.
    fn add(&mut self, found: &Found) {
        match found {
            Found::Step(step) => {
                self.steps += 1;
                self.parts.add(step);
            }
            Found::Reading { key, .. } => *self.readings.entry(key.to_string()).or_default() += 1,
            Found::StepsWithdrawn
            | Found::Untaken(_)
            | Found::Phase { .. }
            | Found::Evaluated { .. }
            | Found::Begins { .. }
            | Found::Epoch(_)
            | Found::Warning(_) => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.steps == 0 && self.readings.is_empty()
    }

    fn summary(&self, lines: u64, is_declared: bool) -> String {
        let by =
            if is_declared { "by the plan's patterns" } else { "by guessing, since the plan declares no patterns" };
        let readings: Vec<String> = self.readings.iter().map(|(key, count)| format!("{count} of {key}")).collect();
        format!("Of {}, {by}: {}.", counted(lines, "line"), summary(self.steps, self.parts, &readings))
    }
}

/// What the user can do about the numbers that were not read, and about the guess: patterns for the plan.
fn advice(suggestions: &Suggestions, is_declared: bool) -> Vec<String> {
    let Suggestions { kept, is_guess_lost, more, others } = suggestions;
    let mut texts = Vec::new();
    if !others.is_empty() {
        texts.push(format!("Not read: {}; {READABLE}.", others.join(", ")));
    }
    if *is_guess_lost {
        texts.push(format!("{NO_PATTERNS}."));
    }
    let what = match (is_declared, kept.len()) {
        (true, _) => "; add them to the plan's".to_owned(),
        (false, 0) if !is_guess_lost => String::new(),
        (false, 0) => ", and replace the guess".to_owned(),
        (false, 1) => ", and replace the guess; the first pattern keeps what was guessed".to_owned(),
        (false, guessed) => format!(", and replace the guess; the first {guessed} patterns keep what was guessed"),
    };
    let numbers: Vec<&str> = more.iter().map(|(number, _)| number.as_str()).collect();
    let what = match numbers.is_empty() {
        true => "multicard guessed this from the output. To fix the guess, add these patterns to the plan".to_owned(),
        false => format!("Not read: {}. These patterns read them{what}", numbers.join(", ")),
    };
    let patterns: String = kept
        .iter()
        .chain(more.iter().map(|(_, pattern)| pattern))
        .map(|pattern| format!("    '{pattern}',\n"))
        .collect();
    if !patterns.is_empty() {
        texts.push(format!("{what}:\n[command.readings]\npatterns = [\n{patterns}]"));
    }
    texts
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tried(readings: &str, log: &[u8], name: Option<&str>) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let (plan, file) = (folder.path().join("own.toml"), folder.path().join("log"));
        fs::write(&plan, format!("version = 1\n[command]\nname = \"own\"\nrun = [\"true\"]\n{readings}")).unwrap();
        fs::write(&file, log).unwrap();
        test(&TestArguments { plan, log: file, name: name.map(str::to_owned) })
    }

    #[test]
    fn of_a_log_without_an_end_a_part_is_read_and_of_a_file_all() {
        let mut endless = open_log(Path::new("/dev/zero"), 100_000).unwrap();
        let lines = read_log(&plan::command::ReadingsSpec::default(), &mut endless, |_, _| ()).unwrap();
        assert_eq!((lines, endless.limit()), (1, 0));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, b"step 1 loss 0.5\nstep 2 loss 0.25\n").unwrap();
        let (mut log, mut steps) = (open_log(file.path(), 3).unwrap(), 0);
        read_log(&plan::command::ReadingsSpec::default(), &mut log, |_, found| {
            steps += usize::from(matches!(found, Found::Step(_)));
        })
        .unwrap();
        assert!(steps == 2 && log.limit() > 0, "{steps}");
    }

    #[test]
    fn a_log_that_the_patterns_match_is_well_and_others_are_not() {
        let patterns = "[command.readings]\npatterns = ['step (?<step>\\d+)', 'loss (?<loss>\\S+)']";
        assert_eq!(tried(patterns, b"step 1\nloss 0.5\n", None).unwrap(), OK);
        assert_eq!(tried(patterns, b"step 1\n\xff\x00", None).unwrap(), SOME_RUN_FAILED, "a pattern matches nothing");
        assert_eq!(tried("", b"step 1 loss 0.5", Some("own")).unwrap(), OK, "a usual shape");
        let ends_with_loss =
            b" 10%|#| 10/100 [00:05<00:45, 2.0it/s]\n 50%|#| 50/100 [00:25<00:25, 2.0it/s]\n{'loss': 0.5}\n";
        assert_eq!(tried("", ends_with_loss, None).unwrap(), OK, "its step is known at the end");
        assert_eq!(tried("", b"", None).unwrap(), SOME_RUN_FAILED);
    }

    #[test]
    fn a_reading_that_multicard_measures_itself_is_refused_as_in_a_run() {
        let declared = "[command.readings]\npatterns = ['code (?<exit_code>\\d+)']";
        assert_eq!(tried(declared, b"code 0\n", None).unwrap(), SOME_RUN_FAILED, "nothing else is read");
        let patterns = vec!["code (?<exit_code>\\d+) bleu (?<bleu>\\d+)".to_owned()];
        let spec = plan::command::ReadingsSpec { patterns, ..Default::default() };
        let (mut read, mut told) = (Read::default(), Vec::new());
        read_log(&spec, b"code 0 bleu 7\ncode 0 bleu 8\n".as_slice(), |line, found| {
            read.add(&found);
            told.push((line.map(|(number, _)| number), found.to_string()));
        })
        .unwrap();
        let refused = "the program reported exit_code, which multicard measures itself: its values are left out; report them under \
                       another key";
        let expected = [(1, refused), (1, "reading bleu = 7"), (2, "reading bleu = 8")];
        assert_eq!(told, expected.map(|(line, text)| (Some(line), text.to_owned())));
        let summary = read.summary(2, true);
        assert!(summary.ends_with("0 steps, readings: 2 of bleu."), "{summary}");
    }

    #[test]
    fn patterns_for_numbers_that_were_not_read_say_what_they_replace() {
        let summary_of = |log: &str, is_declared: bool| {
            let suggestions = Suggestions::new(&plan::command::ReadingsSpec::default(), log.as_bytes());
            advice(&suggestions, is_declared).join("\n")
        };
        let unknown = summary_of("latency: 12.5 ms\n", false);
        assert!(unknown.starts_with("Not read: latency 12.5 ms. These patterns read them:\n"), "{unknown}");
        assert!(unknown.contains("    'latency:\\s*(?<latency_ms>"), "{unknown}");
        let guessed = summary_of("step 1 loss 0.5\nlatency: 12.5 ms\n", false);
        let replaces = "These patterns read them, and replace the guess; the first pattern keeps what was guessed:";
        assert!(guessed.contains(replaces), "{guessed}");
        let unclear = summary_of("step 1 loss 0.5 time 17,79ms 42\n", false);
        let expected = format!(
            "Not read: time 17,79 ms, 42; {READABLE}.\nmulticard guessed this from the output. To fix the guess, add"
        );
        assert!(
            unclear.starts_with(&expected),
            "neither a decimal comma nor a number without a name has a pattern: {unclear}"
        );
        let declared = summary_of("latency: 12.5 ms\n", true);
        assert!(declared.contains("These patterns read them; add them to the plan's:"), "{declared}");
        let lost = summary_of("step 1 loss 0.5 | 250 us\n", false);
        assert_eq!(lost, format!("{NO_PATTERNS}."), "no field has this unit");
    }

    #[test]
    fn what_was_guessed_becomes_patterns_that_read_the_same() {
        let log = "step 1 loss 0.5 time 20ms\nstep 2 loss 0.25 time 20ms\n";
        let found = |patterns: Vec<String>| {
            let spec = plan::command::ReadingsSpec { patterns, ..Default::default() };
            let (mut read, mut steps) = (Read::default(), Vec::new());
            read_log(&spec, log.as_bytes(), |_, found| {
                read.add(&found);
                steps.push(found.to_string());
            })
            .unwrap();
            (read, steps, advice(&Suggestions::new(&spec, log.as_bytes()), !spec.patterns.is_empty()))
        };
        let (read, guessed, advice) = found(Vec::new());
        let summary = read.summary(2, false);
        assert!(summary.ends_with(": 2 steps with loss and time, no other readings."), "{summary}");
        let advice = advice.join("\n");
        assert!(
            advice.starts_with(
                "multicard guessed this from the output. To fix the guess, add these patterns to the plan:\n"
            ),
            "{advice}"
        );
        let patterns = advice.lines().filter_map(|line| line.trim().strip_prefix('\'')?.strip_suffix("',"));
        let (_, certain, advice) = found(patterns.map(str::to_owned).collect());
        assert_eq!(certain, guessed);
        assert_eq!(advice, [""; 0]);
    }

    #[test]
    fn a_command_that_the_plan_lacks_is_named() {
        let error = tried("", b"", Some("owm")).unwrap_err().to_string();
        assert!(error.contains("--name owm: the plan has no command of this name; did you mean \"own\"?"), "{error}");
        let plan = Plan::parse("version = 1", "image.toml").unwrap();
        assert_eq!(command_of(&plan, None).unwrap_err(), "the plan has no [command]");
    }
}
