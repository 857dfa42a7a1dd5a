//! Patterns for a plan, made from a log of its program: patterns that read what was guessed, and patterns for numbers that were not read.
//!
//! Patterns take the place of a guess only if they read the same from all lines of the log: the same steps, with the same epochs, losses and
//! durations. A pattern for another number reads no field of a step, and matches no line of a step if its own line is none.

use std::collections::{BTreeMap, HashSet};

use regex::Regex;

use super::keys::refusal;
use super::others::Others;
use super::pattern::Patterns;
use super::{Course, Found, Lines, Source, Stream, Untaken, output, shapes};
use crate::plan::WarmUp;
use crate::plan::command::{ReadingsSpec, compiled};
use crate::protocol::Event;

/// The most bytes of a log from which patterns are made.
pub const MOST_LOG_BYTES: u64 = 16 << 20;
/// The most lines of steps from which patterns are made.
const MOST_LINES: usize = 1_000;
/// The most patterns that take the place of a guess.
const MOST_PATTERNS: usize = 20;

/// What patterns for other numbers cannot read.
pub const READABLE: &str = "no pattern is suggested, because patterns read numbers that are printed with a name, a decimal point and no other \
                            separators, and must not change what is read of the steps";
/// The message about a guess that has no patterns.
pub const NO_PATTERNS: &str = "multicard guessed this from the output. It suggests no patterns for such lines, because those that it can make \
                               do not read the same steps, epochs, losses and durations";

/// The patterns that a log suggests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggestions {
    /// Patterns that read what was guessed of the steps.
    pub kept: Vec<String>,
    /// Whether something was guessed that no such patterns read.
    pub is_guess_lost: bool,
    /// Numbers that were not read, each with a pattern that reads it.
    pub more: Vec<(String, String)>,
    /// Numbers that were not read and for which there is no pattern, see [`READABLE`].
    pub others: Vec<String>,
}

impl Suggestions {
    /// The patterns that a log suggests for a plan with these declared readings. Reads up to [`MOST_LOG_BYTES`] of the log.
    pub fn new(spec: &ReadingsSpec, log: &[u8]) -> Self {
        let (mut lines, mut splitter) = (Vec::new(), Lines::of_output());
        let most = usize::try_from(MOST_LOG_BYTES).unwrap_or(usize::MAX).min(log.len());
        splitter.push(&log[..most], |_, line| lines.push(line.to_owned()));
        splitter.finish(|_, line| lines.push(line.to_owned()));
        let was = WasRead::new(output(spec), &lines);
        let is_guess = spec.patterns.is_empty() && was.has_readings;
        let kept = if is_guess { kept(&lines, &was) } else { Vec::new() };
        let mut suggestions = Self { is_guess_lost: is_guess && kept.is_empty(), kept, ..Self::default() };
        let declared: Vec<Regex> =
            suggestions.kept.iter().chain(&spec.patterns).filter_map(|pattern| compiled(pattern).ok()).collect();
        let taken: HashSet<&str> =
            declared.iter().flat_map(groups).chain(spec.names.keys().map(String::as_str)).collect();
        for (at, untaken) in &was.untaken {
            let fits = |pattern: &&String| {
                let Ok(regex) = compiled(pattern) else { return false };
                let is_of_step = was.of_steps[*at];
                let reads_steps =
                    || lines.iter().zip(&was.of_steps).any(|(line, is_step)| *is_step && regex.is_match(line));
                let is_new = groups(&regex).all(|group| !taken.contains(group) && refusal(group).is_none());
                is_new && regex.is_match(&lines[*at]) && (is_of_step || !reads_steps())
            };
            let mut patterns = [&untaken.pattern, &untaken.anchored].into_iter().filter(|pattern| !pattern.is_empty());
            match patterns.find(fits) {
                Some(pattern) => suggestions.more.push((untaken.number.clone(), pattern.clone())),
                None => suggestions.others.push(untaken.number.clone()),
            }
        }
        suggestions
    }
}

/// The names of the groups of a pattern.
fn groups(pattern: &Regex) -> impl Iterator<Item = &str> {
    pattern.capture_names().flatten()
}

/// What was read of the lines of a log.
struct WasRead {
    /// The steps of the run by their numbers: epoch, loss and duration in words.
    steps: BTreeMap<u64, String>,
    /// For each line, whether a step was read of it.
    of_steps: Vec<bool>,
    /// For each line, whether a step or the end of an evaluation was read of it.
    were_read: Vec<bool>,
    has_readings: bool,
    /// The numbers that were not read, each with the index of its line.
    untaken: Vec<(usize, Untaken)>,
}

impl WasRead {
    /// Reads these lines as those of a run in which each line comes a second after the one before.
    fn new(mut source: Box<dyn Source>, lines: &[String]) -> Self {
        let (mut course, mut others) = (Course::new(0.0, WarmUp::Steps(0)), Others::default());
        let (mut of_steps, mut were_read, mut has_readings, mut untaken) = (Vec::new(), Vec::new(), false, Vec::new());
        let (mut found, mut events) = (Vec::new(), Vec::new());
        for (at, line) in lines.iter().enumerate() {
            let at_s = at as f64 + 1.0;
            source.line(Stream::Output, line, at_s, &mut found);
            others.look(line, &mut found);
            let is_step = found.iter().any(|found| matches!(found, Found::Step(_)));
            of_steps.push(is_step);
            were_read.push(is_step || found.iter().any(|found| matches!(found, Found::Evaluated { .. })));
            has_readings |= is_step || found.iter().any(|found| matches!(found, Found::Reading { .. }));
            untaken.extend(found.iter().filter_map(|found| match found {
                Found::Untaken(number) => Some((at, number.clone())),
                _ => None,
            }));
            course.take(&mut found, at_s, &mut events);
        }
        let end_s = lines.len() as f64 + 1.0;
        // Such sources read only lines, not files that could fail.
        let _ = source.poll(true, end_s, &mut found);
        course.take(&mut found, end_s, &mut events);
        course.finish(end_s, &mut events);
        let step = |(_, event)| match event {
            // A conversion of units may change the last digits.
            Event::Step { step, epoch, loss, duration_s, warm_up, .. } => {
                Some((step, format!("epoch {epoch}, loss {loss:.9e}, {duration_s:.9e} s, warm-up {warm_up}")))
            }
            _ => None,
        };
        // The last event of a step counts.
        Self { steps: events.into_iter().filter_map(step).collect(), of_steps, were_read, has_readings, untaken }
    }
}

/// Patterns that read the same steps as the guess. They match anywhere in a line, or else only lines that begin alike. Empty if there are none.
fn kept(lines: &[String], guess: &WasRead) -> Vec<String> {
    let were_read = lines.iter().zip(&guess.were_read).filter_map(|(line, was_read)| was_read.then_some(line));
    let made: Vec<(&str, [String; 2])> =
        were_read.take(MOST_LINES).filter_map(|line| Some((line.as_str(), shapes::pattern_of_guess(line)?))).collect();
    let header = shapes::pattern_of_header(lines);
    let sets = [0, 1].map(|kind| {
        let patterns = made.iter().map(|(line, patterns)| (*line, patterns[kind].as_str()));
        header.iter().cloned().chain(one_for_each_kind_of_line(patterns)).collect::<Vec<String>>()
    });
    let reads_the_same = |patterns: &Vec<String>| {
        let spec = ReadingsSpec { patterns: patterns.clone(), ..ReadingsSpec::default() };
        !made.is_empty() && WasRead::new(Box::new(Patterns::new(&spec)), lines).steps == guess.steps
    };
    sets.into_iter().find(reads_the_same).unwrap_or_default()
}

/// These patterns of lines, without those of which another one reads the same groups in the line.
fn one_for_each_kind_of_line<'l>(patterns: impl Iterator<Item = (&'l str, &'l str)>) -> Vec<String> {
    let (mut seen, mut chosen): (HashSet<&str>, Vec<Regex>) = (HashSet::new(), Vec::new());
    for (line, pattern) in patterns {
        if chosen.len() >= MOST_PATTERNS || !seen.insert(pattern) {
            continue;
        }
        let Ok(pattern) = compiled(pattern) else { continue };
        let reads_it = |other: &Regex| groups(other).eq(groups(&pattern)) && other.is_match(line);
        if !chosen.iter().any(reads_it) {
            chosen.push(pattern);
        }
    }
    chosen.iter().map(|pattern| pattern.as_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(log: &str) -> Suggestions {
        Suggestions::new(&ReadingsSpec::default(), log.as_bytes())
    }

    /// What the patterns of a plan, or without patterns the guess, read of the steps.
    fn steps(patterns: &[String], log: &str) -> Vec<String> {
        let spec = ReadingsSpec { patterns: patterns.to_vec(), ..ReadingsSpec::default() };
        let lines: Vec<String> = log.lines().map(str::to_owned).collect();
        WasRead::new(output(&spec), &lines).steps.into_iter().map(|(step, text)| format!("{step}: {text}")).collect()
    }

    fn imagenet() -> String {
        let mut log = String::new();
        for epoch in 0..2 {
            for step in (0..20).step_by(10) {
                log += &format!(
                    "Epoch: [{epoch}][{step:3}/20]\tTime  0.02{epoch} ( 0.021)\tData  0.001 ( 0.001)\tLoss 1.{step}e-01 (2.0e-01)\t\
                     Acc@1  90.00 ( 90.00)\n"
                );
            }
            log += "Test: [1/3]\tTime  0.500 ( 0.500)\tLoss 5.0e+00 (5.0e+00)\tAcc@1   1.00 (  1.00)\tTop 3\n";
        }
        log
    }

    #[test]
    fn patterns_read_the_epochs_and_counts_of_the_guess_and_leave_its_evaluations_out() {
        let log = imagenet();
        let suggestions = suggested(&log);
        let [pattern] = &suggestions.kept[..] else { panic!("{suggestions:?}") };
        assert!(pattern.starts_with(r"Epoch:\s*\[(?<epoch>"), "{pattern}");
        assert_eq!(steps(&suggestions.kept, &log), steps(&[], &log));
        let patterns: Vec<String> =
            suggestions.kept.iter().chain(suggestions.more.iter().map(|(_, pattern)| pattern)).cloned().collect();
        assert_eq!(steps(&patterns, &log), steps(&[], &log));
        // The accuracy of the training has this name, a loss is a field of steps, and "Time" is anchored.
        assert_eq!(suggestions.others, ["Loss 5.0e+00", "Acc@1 1.00"]);
        let [(time, pattern), (top, _)] = &suggestions.more[..] else { panic!("{suggestions:?}") };
        assert_eq!((time.as_str(), top.as_str()), ("Time 0.500", "Top 3"));
        assert!(pattern.starts_with(r"^Test:\s*\[.*?Time"), "{pattern}");
    }

    #[test]
    fn the_lines_of_keras_without_bars_have_a_pattern_for_the_line_with_their_epoch() {
        let epoch =
            |epoch: u32| format!("Epoch {epoch}/3\n100/100 - 2s - 20ms/step - accuracy: 0.5000 - loss: 2.{epoch}000\n");
        let log: String = (1..=3).map(epoch).collect();
        let suggestions = suggested(&log);
        assert_eq!(suggestions.kept.len(), 2, "{suggestions:?}");
        assert_eq!(steps(&suggestions.kept, &log), steps(&[], &log));
        assert_eq!(steps(&[], &log).len(), 3);
    }

    #[test]
    fn patterns_read_the_durations_of_the_guess_or_are_not_suggested() {
        for (line, is_suggested) in [
            ("loss 1.2 time 1.5s", true),
            ("loss 1.2 | 250 ms", true),
            ("loss 1.2 elapsed time per iteration (ms): 250", true),
            ("loss 1.2 | time=21.3 ms/it", true),
            ("loss 1.2 | 12,345 tokens/s", true),
            ("loss 1.2 | 250 us", false),
            ("loss 1.2 time 250µs", false),
            ("loss 1.2 time 900ns", false),
            ("loss 1.2 | time (us) 250", false),
        ] {
            let log: String = (1..=3).map(|step| format!("step {step} {line}\n")).collect();
            let suggestions = suggested(&log);
            assert_eq!(
                (suggestions.kept.len(), suggestions.is_guess_lost),
                (usize::from(is_suggested), !is_suggested),
                "{line}"
            );
            if is_suggested {
                assert_eq!(steps(&suggestions.kept, &log), steps(&[], &log), "{line}");
            }
        }
    }

    #[test]
    fn a_guess_that_patterns_would_read_otherwise_has_none() {
        let bars = " 50%|█ | 1/2 [00:01<00:01,  4.00it/s, loss=0.5]\n100%|█ | 2/2 [00:01<00:01,  4.00it/s, loss=0.5]\n";
        // With a pattern, the time of the validation would be time of the next step.
        let validation = "step: 10  loss: 1.5\nvalidate step: 10  loss: 9.5\nstep: 20  loss: 1.5\n";
        let keras = "Epoch 1/2\n9/9 - 2s - 20ms/step - loss: 2.5 - val_loss: 2.0\n\
                     Epoch 2/2\n9/9 - 2s - 20ms/step - loss: 1.5 - val_loss: 1.0\n";
        for log in [bars, validation, keras, "loss: 0.5\n"] {
            let suggestions = suggested(log);
            assert_eq!((suggestions.kept.len(), suggestions.is_guess_lost), (0, true), "{log}");
        }
        assert_eq!(suggested("ready\n"), Suggestions::default());
    }

    #[test]
    fn patterns_match_only_lines_that_begin_alike_if_they_would_read_other_lines_too() {
        let log = "step 1 loss 0.5\nstep 2 loss 0.25\nTest: step 2 loss 7.5 (of 3)\nstep 3 time 10ms loss 0.5\n";
        let suggestions = suggested(log);
        let (of_test, of_steps): (Vec<_>, Vec<_>) =
            suggestions.kept.iter().partition(|pattern: &&String| pattern.contains("test_loss"));
        assert!(of_steps.iter().all(|pattern| pattern.starts_with(r"^step\s*")), "{suggestions:?}");
        assert!(matches!(of_test[..], [pattern] if pattern.starts_with("^Test")), "{suggestions:?}");
        assert!(!suggestions.is_guess_lost);
    }

    #[test]
    fn a_number_behind_a_number_has_no_name_and_no_pattern() {
        let log = "step 1 | loss: 3.0 | dt: 31.3ms\nHellaSwag accuracy: 2504/10042=0.2494\n";
        let suggestions = suggested(log);
        let patterns = suggestions.kept.iter().chain(suggestions.more.iter().map(|(_, pattern)| pattern));
        assert!(patterns.clone().all(|pattern| !pattern.contains("(?<>")) && patterns.count() == 2, "{suggestions:?}");
        assert_eq!(suggestions.more[0].0, "HellaSwag accuracy 2504");
    }

    #[test]
    fn the_patterns_of_a_plan_are_kept_and_numbers_that_they_do_not_read_get_patterns() {
        let spec = ReadingsSpec { patterns: vec![r"bleu (?<bleu>\S+)".to_owned()], ..ReadingsSpec::default() };
        let suggestions = Suggestions::new(&spec, b"bleu 7\nlatency: 12.5 ms\nexit_code 3\n");
        assert_eq!((suggestions.kept.len(), suggestions.is_guess_lost), (0, false));
        assert_eq!(suggestions.others, ["exit_code 3"], "multicard measures it itself");
        let [(number, pattern)] = &suggestions.more[..] else { panic!("{suggestions:?}") };
        assert!(number == "latency 12.5 ms" && pattern.starts_with(r"latency:\s*(?<latency_ms>"), "{pattern}");
    }
}
