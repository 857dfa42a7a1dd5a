//! Readings from lines of output by regular expressions with named groups.

use regex::Regex;

use super::fields::{Fields, Names};
use super::records::{MOST_REFUSED, Ranks};
use super::whole_seconds::WholeSeconds;
use super::{Found, Source, Stream};
use crate::plan::command::{ReadingsSpec, compiled};

/// The patterns of a plan.
pub(super) struct Patterns {
    patterns: Vec<Pattern>,
    names: Names,
    /// Whether a pattern has a group for steps, so that numbers on other lines belong to the last step.
    names_steps: bool,
    step: Option<u64>,
    lines: u64,
    refused: u64,
    ranks: Ranks,
    seconds: WholeSeconds,
}

struct Pattern {
    regex: Regex,
    matches: u64,
}

impl Patterns {
    /// The patterns of a plan. A pattern that is not a regular expression is ignored here; reading the plan has already rejected it.
    pub fn new(spec: &ReadingsSpec) -> Self {
        let regexes = spec.patterns.iter().filter_map(|pattern| compiled(pattern).ok());
        let patterns: Vec<_> = regexes.map(|regex| Pattern { regex, matches: 0 }).collect();
        let mut names = Names::new(&spec.names, false);
        let mut groups = patterns.iter().flat_map(|pattern| pattern.regex.capture_names().flatten());
        let names_steps = groups.any(|group| names.meaning(group, "", &mut Vec::new()) == "step");
        let (ranks, seconds) = (Ranks::default(), WholeSeconds::default());
        Self { patterns, names, names_steps, step: None, lines: 0, refused: 0, ranks, seconds }
    }
}

impl Source for Patterns {
    fn line(&mut self, _stream: Stream, line: &str, at_s: f64, found: &mut Vec<Found>) {
        let Self { patterns, names, names_steps, step, lines, refused, ranks, seconds } = self;
        *lines += 1;
        let (mut read, mut rank): (Vec<Fields>, Option<u64>) = (Vec::new(), None);
        for Pattern { regex, matches } in patterns {
            let Some(captures) = regex.captures(line) else { continue };
            *matches += 1;
            let mut fields = Fields::default();
            let mut groups = regex.capture_names().flatten().filter_map(|name| Some((name, captures.name(name)?)));
            let set = groups.try_for_each(|(name, group)| fields.text(names.meaning(name, "", found), group.as_str()));
            rank = rank.or(fields.rank);
            match set {
                Ok(()) => read.push(fields),
                Err(why) => {
                    *refused += 1;
                    if *refused <= MOST_REFUSED {
                        let line = super::fields::shown(line);
                        found.push(Found::Warning(format!("the pattern '{regex}' matches {line}, but {why}")));
                    }
                }
            }
        }
        // The rank of a line may be read by a pattern of its own.
        if read.is_empty() || !ranks.count(rank) {
            return;
        }
        // A line is about one epoch. Without a step of its own, this may be the epoch of the steps that follow.
        let epoch = read.iter().find_map(|fields| fields.step.epoch);
        let is_of_step = |fields: &Fields| fields.step.step.is_some() || fields.is_measured() && !*names_steps;
        let of_step = epoch.filter(|_| read.iter().any(is_of_step));
        // Several patterns may read a line, but a phase in it is that of its step.
        let phase = read.iter().find_map(|fields| fields.phase).filter(|_| read.iter().any(Fields::is_measured));
        if phase.is_some() {
            read.retain(|fields| !fields.is_only_phase());
            let is_step = |fields: &&mut Fields| fields.step.step.is_some() || fields.is_measured();
            read.iter_mut().for_each(|fields| fields.phase = None);
            read.iter_mut().filter(is_step).for_each(|fields| fields.phase = phase);
        }
        let is_evaluation = !read.iter().any(|fields| fields.is_step() || fields.phase.is_some());
        if is_evaluation {
            read.iter_mut().for_each(|fields| seconds.mend(fields, at_s));
        }
        let evaluation = read.iter().find_map(|fields| fields.evaluation(at_s)).filter(|_| is_evaluation);
        for mut fields in read.into_iter().filter(|fields| !fields.is_at_most_epoch()) {
            if *names_steps {
                *step = fields.step.step.or(*step);
                fields.step.step = *step;
            }
            fields.step.epoch = fields.step.epoch.or(of_step);
            if !is_evaluation {
                seconds.mend(&mut fields, at_s);
            }
            fields.values(at_s, found);
        }
        found.extend(evaluation);
        found.extend(epoch.filter(|_| of_step.is_none()).map(Found::Epoch));
    }

    fn poll(&mut self, last: bool, _now_s: f64, found: &mut Vec<Found>) -> Result<(), String> {
        if last {
            let Self { lines, refused, .. } = *self;
            for Pattern { regex, .. } in self.patterns.iter().filter(|pattern| pattern.matches == 0) {
                let lines = if lines == 1 { "the only line".to_owned() } else { format!("any of the {lines} lines") };
                found.push(Found::Warning(format!("the pattern '{regex}' does not match {lines} of output")));
            }
            if refused > MOST_REFUSED {
                found.push(Found::Warning(format!(
                    "{refused} lines match a pattern, but have no number where the pattern expects one"
                )));
            }
            found.extend(self.ranks.warning("output", "line"));
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{FoundStep, NamedPhase};
    use super::*;

    fn read(patterns: &[&str], lines: &[&str]) -> Vec<Found> {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let mut source = Patterns::new(&ReadingsSpec { patterns, ..ReadingsSpec::default() });
        let mut found = Vec::new();
        lines.iter().for_each(|line| source.line(Stream::Output, line, 7.0, &mut found));
        source.poll(true, 8.0, &mut found).unwrap();
        found
    }

    fn step(step: u64, loss: Option<f64>) -> Found {
        Found::Step(FoundStep { step: Some(step), loss, at_s: 7.0, ..FoundStep::default() })
    }

    #[test]
    fn groups_are_fields_and_other_names_are_readings() {
        let found = read(
            &[r"^step (?<step>\d+): loss (?<loss>[^,]+)(, (?<tokens_per_s>[\d.]+) tok/s)?"],
            &["step 1: loss 0.5, 900.5 tok/s", "a step 2: loss 3", "step 2: loss 0.25"],
        );
        let reading = Found::Reading { key: "tokens_per_s".into(), value: 900.5, step: Some(1), epoch: None };
        assert_eq!(found, [step(1, Some(0.5)), reading, step(2, Some(0.25))]);
    }

    #[test]
    fn a_line_without_a_number_of_its_own_belongs_to_the_step_that_was_named_last() {
        let found = read(&[r"step (?<step>\d+)$", r"loss (?<loss>\S+)"], &["step 4", "loss 0.5", "step 5"]);
        assert_eq!(found, [step(4, None), step(4, Some(0.5)), step(5, None)]);
    }

    #[test]
    fn an_epoch_on_a_line_of_its_own_belongs_to_no_step_before() {
        let patterns = [r"^Epoch (?<epoch>\d+)", r"(?<step>\d+)/\d+ loss (?<loss>\S+)", r"accuracy (?<accuracy>\S+)"];
        let found = read(&patterns, &["Epoch 1/2", "30/30 loss 0.5", "Epoch 2/2", "30/30 loss 0.25", "accuracy 1"]);
        let accuracy = Found::Reading { key: "accuracy".into(), value: 1.0, step: Some(30), epoch: None };
        let (first, second) = (step(30, Some(0.5)), step(30, Some(0.25)));
        assert_eq!(found, [Found::Epoch(1.0), first, Found::Epoch(2.0), second, accuracy]);
        let found = read(&patterns[..2], &["Epoch 3: 30/30 loss 0.5"]);
        assert!(
            matches!(found[..], [Found::Step(FoundStep { step: Some(30), epoch: Some(3.0), .. }), ..]),
            "{found:?}"
        );
    }

    #[test]
    fn a_phase_that_a_pattern_of_its_own_reads_is_that_of_the_step_in_the_line() {
        let patterns = [r"^(?<phase>\w+) ", r"loss (?<loss>\S+)"];
        let phase = NamedPhase::of("val");
        let of_line = FoundStep { loss: Some(0.5), phase, at_s: 7.0, ..FoundStep::default() };
        assert_eq!(read(&patterns, &["val loss 0.5"]), [Found::Step(of_line)]);
        let begins = Found::Phase { phase: phase.unwrap(), at_s: 7.0 };
        assert_eq!(read(&patterns[..1], &["val begins"]), [begins]);
    }

    #[test]
    fn of_lines_with_a_rank_only_those_of_rank_0_count_whichever_pattern_reads_the_rank() {
        let (of_line, of_step) = (r"^\[rank(?<rank>\d+)\]", r"step (?<step>\d+) loss (?<loss>\S+)");
        let lines = ["[rank0] ready", "[rank1] step 1 loss 9", "[rank0] step 1 loss 0.5", "step 2 loss 0.25"];
        assert_eq!(read(&[of_line, of_step], &lines), [step(1, Some(0.5)), step(2, Some(0.25))]);
        assert_eq!(read(&[of_step, of_line], &lines), [step(1, Some(0.5)), step(2, Some(0.25))]);
        let one = [r"worker (?<rank>\d+) step (?<step>\d+) loss (?<loss>\S+)"];
        assert_eq!(read(&one, &["worker 1 step 1 loss 9", "worker 0 step 1 loss 0.5"]), [step(1, Some(0.5))]);
    }

    #[test]
    fn lines_of_other_ranks_alone_are_told_to_count_nothing() {
        let pattern = [r"worker (?<rank>\d+) step (?<step>\d+)"];
        let found = read(&pattern, &["ready", "worker 1 step 1", "worker 2 step 1"]);
        let [Found::Warning(warning)] = &found[..] else { panic!("{found:?}") };
        assert!(
            warning.starts_with("output: no line of rank 0") && warning.contains("leaves out 2 lines of other ranks"),
            "{warning}"
        );
    }

    #[test]
    fn a_line_of_which_only_the_rank_is_read_ends_no_phase() {
        let patterns = [r"^\[rank(?<rank>\d+)\]", r"step (?<step>\d+)$", r"begin (?<phase>\w+)"];
        let begins = Found::Phase { phase: NamedPhase::of("val").unwrap(), at_s: 7.0 };
        let lines = ["[rank0] step 4", "[rank0] begin val", "[rank0] saved"];
        assert_eq!(read(&patterns, &lines), [step(4, None), begins]);
    }

    #[test]
    fn a_line_with_the_loss_of_an_evaluation_and_no_step_tells_the_end_of_the_evaluation() {
        let patterns = [r"step (?<step>\d+) loss (?<loss>\S+)", r"val_loss (?<val_loss>\S+)"];
        let found = read(&patterns, &["step 4 loss 0.5", "val_loss 2", "step 5 loss 0.25 val_loss 3"]);
        let loss = |value, step| Found::Reading { key: "val_loss".into(), value, step: Some(step), epoch: None };
        // The line has no number of its own.
        let evaluated = Found::Evaluated { step: None, at_s: 7.0 };
        let expected = [step(4, Some(0.5)), loss(2.0, 4), evaluated, step(5, Some(0.25)), loss(3.0, 5)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_pattern_that_never_matches_and_a_group_that_is_no_number_are_said() {
        let found = read(&["loss (?<loss>.*)", "(?<accuracy>0x.*)"], &["loss low", "loss 1"]);
        let warnings: Vec<_> =
            found.iter().filter_map(|found| if let Found::Warning(text) = found { Some(text) } else { None }).collect();
        assert_eq!(
            warnings,
            [
                "the pattern 'loss (?<loss>.*)' matches \"loss low\", but loss is \"low\", but must be a number",
                "the pattern '(?<accuracy>0x.*)' does not match any of the 2 lines of output"
            ]
        );
        assert!(matches!(found[1], Found::Step(_)));
    }
}
