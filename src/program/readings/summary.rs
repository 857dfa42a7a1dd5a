//! The readings of a program, in words.

use super::FoundStep;
use crate::plan::counted;

/// The values that the steps of a program have besides their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepParts {
    /// Losses.
    pub loss: bool,
    /// Durations that the program reports.
    pub time: bool,
    /// Times spent waiting for data.
    pub wait: bool,
    /// Units, such as images.
    pub units: bool,
}

impl StepParts {
    /// Adds what a step has.
    pub fn add(&mut self, step: &FoundStep) {
        self.loss |= step.loss.is_some();
        self.time |= step.duration_s.is_some();
        self.wait |= step.wait_s.is_some();
        self.units |= step.units.is_some();
    }
}

/// Steps and the names of further readings in words: `20 steps with loss and time, no other readings`.
pub fn summary(steps: u64, parts: StepParts, readings: &[String]) -> String {
    let all = [(parts.loss, "loss"), (parts.time, "time"), (parts.wait, "wait"), (parts.units, "units")];
    let named: Vec<&str> = all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    let with = match named.split_last() {
        None => String::new(),
        Some((last, [])) => format!(" with {last}"),
        Some((last, rest)) => format!(" with {} and {last}", rest.join(", ")),
    };
    let other = if named.is_empty() { "" } else { "other " };
    let readings = match readings {
        [] => format!("no {other}readings"),
        readings => format!("{other}readings: {}", readings.join(", ")),
    };
    format!("{}{with}, {readings}", counted(steps, "step"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_steps_are_no_readings_of_their_own() {
        let mut parts = StepParts::default();
        assert_eq!(summary(0, parts, &[]), "0 steps, no readings");
        assert_eq!(summary(0, parts, &["accuracy".to_owned()]), "0 steps, readings: accuracy");
        parts.add(&FoundStep { loss: Some(2.3), ..FoundStep::default() });
        assert_eq!(summary(1, parts, &[]), "1 step with loss, no other readings");
        parts.add(&FoundStep { duration_s: Some(0.1), ..FoundStep::default() });
        assert_eq!(summary(20, parts, &[]), "20 steps with loss and time, no other readings");
        parts.add(&FoundStep { units: Some(64.0), ..FoundStep::default() });
        assert_eq!(summary(2, parts, &["lr".to_owned()]), "2 steps with loss, time and units, other readings: lr");
    }
}
