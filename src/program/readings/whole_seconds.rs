//! Times of steps that a program rounds to whole seconds, such as `2026-11-26 08:30:00` in the rows of a table.
//!
//! If several steps share a second, such times say little of single steps. As long as lines are read soon after they are written, the times
//! of reading are more exact, and are used in place of the reported ones. If lines come late, for example from a buffer, the reported times
//! stay, and are those of all steps of their second.

use super::fields::Fields;

/// A time may be rounded up to the next second: its line is read before it by this much at most.
const EARLY_S: f64 = 1.0;
/// A time may be rounded down, and files that cannot be watched are read five times a second: a line that is read later than this after its
/// time has waited elsewhere.
const LATE_S: f64 = 1.25;

/// What is known of the times that a source reports.
#[derive(Default)]
pub(super) struct WholeSeconds {
    /// Whether a time had a fraction of a second, so that times are exact.
    has_fractions: bool,
    /// Whether a line was read long after its time, or long before.
    is_late: bool,
    /// Whether two steps had the same time.
    is_shared: bool,
    /// The number of the newest step, if it has one, and its reported time.
    newest: Option<(Option<u64>, f64)>,
    /// Whether the times of reading are used.
    replaces: bool,
}

impl WholeSeconds {
    /// Takes the fields of the next line, which was read at `read_s`. Removes a rounded time if the time of reading is more exact; the time
    /// of a step that stays although it is rounded is marked as such.
    pub fn mend(&mut self, fields: &mut Fields, read_s: f64) {
        let Some(time_s) = fields.time_s else { return };
        self.has_fractions |= time_s.fract() != 0.0;
        self.is_late |= !(-EARLY_S..=LATE_S).contains(&(read_s - time_s));
        let is_step = fields.is_step();
        if is_step {
            let number = fields.step.step;
            let before = self.newest.replace((number, time_s));
            // Several lines may be about the same step.
            let is_next = |before: Option<u64>| number.is_none() || number != before;
            self.is_shared |= before.is_some_and(|(before, before_s)| before_s == time_s && is_next(before));
        }
        let is_rounded = self.is_shared && !self.has_fractions;
        let replaces = is_rounded && !self.is_late;
        if is_step {
            // Between a time of reading and a reported one, up to a second is missing or too much.
            let changes = std::mem::replace(&mut self.replaces, replaces) != replaces;
            fields.step.is_untimed |= changes && fields.step.duration_s.is_none();
            fields.step.is_rounded = is_rounded && !replaces;
        }
        if replaces {
            fields.time_s = None;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Found, FoundStep};
    use super::*;

    /// The steps of lines with these times, each read at the second one; steps are numbered from 1.
    fn steps(lines: &[(f64, f64)]) -> Vec<FoundStep> {
        let mut seconds = WholeSeconds::default();
        let mut found = Vec::new();
        for (number, (time_s, read_s)) in (1_u32..).zip(lines) {
            let mut fields = Fields::default();
            fields.number("step", number.into()).unwrap();
            fields.number("time_s", *time_s).unwrap();
            seconds.mend(&mut fields, *read_s);
            fields.found(*read_s, &mut found);
        }
        let step = |found: Found| if let Found::Step(step) = found { step } else { panic!("{found:?}") };
        found.into_iter().map(step).collect()
    }

    #[test]
    fn times_of_reading_replace_whole_seconds_that_several_steps_share() {
        let read = |step: u32| 1_000.45 + 0.02 * f64::from(step);
        let lines: Vec<(f64, f64)> = (1..=40).map(|step| (read(step).floor(), read(step))).collect();
        let steps = steps(&lines);
        assert_eq!((steps[0].at_s, steps[0].read_s), (1_000.0, Some(lines[0].1)), "it may be exact");
        assert!(steps[1].is_untimed, "its time since a reported one is unknown");
        for (step, (_, read_s)) in steps.iter().zip(&lines).skip(1) {
            assert_eq!((step.at_s, step.read_s, step.is_rounded), (*read_s, None, false));
        }
        assert!(steps.iter().skip(2).all(|step| !step.is_untimed));
    }

    #[test]
    fn exact_times_stay_as_they_are_even_if_some_are_whole_or_equal() {
        let exact = [(1_000.5, 1_000.75), (1_001.0, 1_001.25), (1_001.0, 1_001.25), (1_001.5, 1_001.75)];
        let each_second = [(1_000.0, 1_000.75), (1_001.0, 1_001.75), (1_002.0, 1_002.75)];
        for lines in [&exact[..], &each_second] {
            for (step, (time_s, read_s)) in steps(lines).into_iter().zip(lines) {
                assert_eq!((step.at_s, step.read_s), (*time_s, Some(*read_s)));
                assert!(!step.is_untimed && !step.is_rounded);
            }
        }
    }

    #[test]
    fn whole_seconds_stay_and_are_marked_if_their_lines_are_read_late() {
        let lines = [(1_000.0, 1_005.0), (1_000.0, 1_005.0), (1_001.0, 1_005.0), (1_005.0, 1_005.0)];
        let late = steps(&lines);
        assert_eq!(late.iter().map(|step| step.at_s).collect::<Vec<_>>(), [1_000.0, 1_000.0, 1_001.0, 1_005.0]);
        assert_eq!(late.iter().map(|step| step.is_rounded).collect::<Vec<_>>(), [false, true, true, true]);
        assert!(!late.iter().any(|step| step.is_untimed));
        // Lines that begin to wait: from then on reported times count again.
        let lines = [(1_000.0, 1_000.5), (1_000.0, 1_000.75), (1_001.0, 1_003.0), (1_002.0, 1_003.0)];
        let later = steps(&lines);
        assert_eq!(later.iter().map(|step| step.at_s).collect::<Vec<_>>(), [1_000.0, 1_000.75, 1_001.0, 1_002.0]);
        assert_eq!(later.iter().map(|step| step.is_untimed).collect::<Vec<_>>(), [false, true, true, false]);
    }

    #[test]
    fn several_lines_about_one_step_do_not_share_its_second_with_another_step() {
        let mut seconds = WholeSeconds::default();
        for _ in 0..3 {
            let mut fields = Fields::default();
            fields.number("step", 1.0).unwrap();
            fields.number("time_s", 1_000.0).unwrap();
            seconds.mend(&mut fields, 1_000.5);
            assert_eq!(fields.time_s, Some(1_000.0));
        }
    }

    #[test]
    fn a_duration_that_a_program_reports_stays() {
        let mut seconds = WholeSeconds::default();
        for step in 1..=3_u32 {
            let mut fields = Fields::default();
            fields.number("step", step.into()).unwrap();
            fields.number("duration_s", 0.25).unwrap();
            fields.number("time_s", 1_000.0).unwrap();
            seconds.mend(&mut fields, 1_000.5);
            assert!(!fields.step.is_untimed && fields.step.duration_s == Some(0.25));
            assert_eq!(fields.time_s.is_none(), step > 1);
        }
    }
}
