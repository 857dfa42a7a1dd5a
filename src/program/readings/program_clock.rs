//! Compares the times that a program reports for the ends of its steps (`time_s`) with the times at which their lines were read.
//!
//! Both are times by the machine's clock. Correct times are therefore not before the start of the program, not after their lines were read,
//! and advance as fast as the times of reading. If the reported times are not correct in this sense, a step ends at the time at which its
//! line was read. The step keeps the duration that follows from the reported times, so that the analysis can compare it with the time that
//! passed.

use super::{Found, FoundStep};

/// A program may round its times to whole seconds.
const ROUNDED_S: f64 = 1.0;
/// Reported times advance as fast as the times of reading if they differ by at most this share of the elapsed time, and by two steps: a
/// line may be late by that much if it waits in a buffer.
const MOST_APART: f64 = 0.1;
/// If lines arrive promptly, reported times may differ by this share only: beyond it, steps get the times of their lines, and the analysis
/// compares their durations with these, as it does for durations that a program reports.
const MOST_APART_OF_PROMPT: f64 = 0.02;
/// Lines arrive promptly if the mean time between arrivals is at most this, since files that cannot be watched are read some times a second,
/// or two steps.
const PROMPT_S: f64 = 0.25;
/// The decision is made after this number of arrivals, if they are spread over this time …
const ARRIVALS: u64 = 8;
const SPAN_S: f64 = 2.0;
/// … or at the end of the run, if there were this number of arrivals before the last one.
const FEWEST_ARRIVALS: u64 = 3;

/// The newest of the steps that arrived together.
#[derive(Clone, Copy)]
struct Arrival {
    /// The time at which the step ended, according to the program.
    told_s: f64,
    /// The time at which its line was read.
    read_s: f64,
    /// The number of arrivals so far, and of steps in them.
    arrivals: u64,
    steps: u64,
}

/// The clock by which a program reports times.
pub(super) struct ProgramClock {
    started_s: f64,
    /// The seconds by which the machine's clock was set while the program ran, forwards and backwards.
    set_s: f64,
    first: Option<Arrival>,
    /// The newest arrival, and the one before it.
    newest: Option<Arrival>,
    before: Option<Arrival>,
    /// Whether it is the machine's clock; `None` as long as this is unknown.
    is_right: Option<bool>,
}

impl ProgramClock {
    /// The clock of a program that starts at this time.
    pub fn new(started_s: f64) -> Self {
        Self { started_s, set_s: 0.0, first: None, newest: None, before: None, is_right: None }
    }

    /// The machine's clock was set by `by_s`: arrivals before and after that are not compared.
    pub fn machine_clock_set(&mut self, by_s: f64) {
        self.set_s += by_s.abs();
        (self.first, self.newest, self.before) = (None, None, None);
    }

    /// Whether it is the machine's clock; `None` as long as this is unknown.
    pub fn is_right(&self) -> Option<bool> {
        self.is_right
    }

    /// When something happened: the reported time, or if that is wrong, the time at which its line was read.
    pub fn time_s(&self, told_s: f64, read_s: Option<f64>) -> f64 {
        read_s.filter(|_| self.is_right == Some(false)).unwrap_or(told_s)
    }

    /// Compares the times of the readings since the last call. Returns a message if one of these times is impossible.
    pub fn compare<'f>(&mut self, found: impl Iterator<Item = &'f Found> + Clone, now_s: f64) -> Option<String> {
        if self.is_right == Some(false) {
            return None;
        }
        let impossible = found.clone().find_map(|found| match found {
            Found::Step(FoundStep { at_s, read_s: Some(read_s), .. }) => self.impossible(*at_s, *read_s),
            Found::Phase { at_s, .. } | Found::Evaluated { at_s, .. } => self.impossible(*at_s, now_s),
            _ => None,
        });
        if let Some(how) = impossible {
            self.is_right = Some(false);
            return Some(format!(
                "the program reported a time (time_s) that is {how}: this is impossible, so steps end when their lines were read; report \
                 seconds since 1970 by the clock of this machine, such as those of time.time() in Python"
            ));
        }
        let step = |found: &Found| if let Found::Step(step) = found { Some((step.at_s, step.read_s?)) } else { None };
        let steps: Vec<(f64, f64)> = found.filter_map(step).collect();
        if let Some((told_s, read_s)) = steps.last().copied() {
            let (arrivals, earlier) = self.newest.map_or((0, 0), |newest| (newest.arrivals, newest.steps));
            let arrival = Arrival { told_s, read_s, arrivals: arrivals + 1, steps: earlier + steps.len() as u64 };
            self.before = self.newest.replace(arrival);
            self.first = self.first.or(Some(arrival));
            self.decide(Some(arrival), false);
        }
        None
    }

    /// Decides at the end of the run, if that was not possible before. The last lines may have waited in a buffer until the program ended.
    pub fn end(&mut self) {
        self.decide(self.before, true);
    }

    fn decide(&mut self, last: Option<Arrival>, is_end: bool) {
        let Some((first, last)) = self.first.zip(last).filter(|_| self.is_right.is_none()) else { return };
        let (arrivals, passed_s) = (last.arrivals - first.arrivals + 1, last.read_s - first.read_s);
        let is_long = arrivals >= ARRIVALS && passed_s >= SPAN_S;
        let step_s = mean_step_s(first, last);
        let is_prompt = passed_s <= PROMPT_S.max(2.0 * step_s) * (arrivals - 1) as f64;
        if is_long && !advance_alike(first, last, MOST_APART) {
            self.is_right = Some(false);
        } else if is_long && is_prompt {
            // The time of two steps hides a small difference until the run is long.
            let is_clear = is_end || 2.0 * step_s <= MOST_APART_OF_PROMPT * passed_s;
            self.is_right = is_clear.then(|| advance_alike(first, last, MOST_APART_OF_PROMPT));
        } else if is_long || is_end && arrivals >= FEWEST_ARRIVALS {
            self.is_right = Some(advance_alike(first, last, MOST_APART));
        }
    }

    /// How a reported time is impossible, given the time at which its line was read.
    fn impossible(&self, told_s: f64, read_s: f64) -> Option<String> {
        let most_s = ROUNDED_S + self.set_s;
        if told_s > read_s + most_s {
            Some(format!("{:.1} s after its line was read", told_s - read_s))
        } else if told_s < self.started_s - most_s {
            Some(format!("{:.1} s before the program was started", self.started_s - told_s))
        } else {
            None
        }
    }
}

/// The mean time from one step to the next.
fn mean_step_s(first: Arrival, last: Arrival) -> f64 {
    (last.read_s - first.read_s) / last.steps.saturating_sub(first.steps).max(1) as f64
}

/// Whether reported times advanced as fast as the times of reading, but for a share and two steps.
fn advance_alike(first: Arrival, last: Arrival, most_apart: f64) -> bool {
    let (told_s, passed_s) = (last.told_s - first.told_s, last.read_s - first.read_s);
    let most_s = most_apart * passed_s + 2.0 * mean_step_s(first, last);
    // If the first line waited in a buffer, the reported times advanced faster, but they are not ahead of the machine's clock.
    let is_faster = told_s - passed_s > most_s && last.told_s > last.read_s;
    passed_s - told_s <= most_s && !is_faster
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What is found out about a program that starts at 1000 s, makes a step each 20 ms, and reports times that `told_s` makes of the time
    /// since its start. Its lines are read each 0.1 s. Gives the answer during the run, and the answer at its end.
    fn judged(run_s: f64, told_s: impl Fn(f64) -> f64) -> (Option<bool>, Option<bool>, Vec<String>) {
        let (mut clock, mut messages) = (ProgramClock::new(1_000.0), Vec::new());
        let steps = (run_s / 0.02).round() as u64;
        let all: Vec<u64> = (1..=steps).collect();
        for read_together in all.chunks(5) {
            let read_s = 1_000.0 + 0.02 * *read_together.last().unwrap() as f64 + 0.01;
            let found = |step: &u64| {
                let at_s = 1_000.0 + told_s(0.02 * *step as f64);
                Found::Step(FoundStep { step: Some(*step), at_s, read_s: Some(read_s), ..FoundStep::default() })
            };
            let read: Vec<Found> = read_together.iter().map(found).collect();
            messages.extend(clock.compare(read.iter(), read_s));
        }
        let during = clock.is_right();
        clock.end();
        (during, clock.is_right(), messages)
    }

    #[test]
    fn times_that_advance_like_the_times_of_reading_are_right() {
        assert_eq!(judged(5.0, |since_s| since_s).0, Some(true));
        assert_eq!(judged(0.6, |since_s| since_s).1, Some(true), "a short run");
        assert_eq!(judged(5.0, |since_s| (1e2 * since_s).round() / 1e2).0, Some(true), "rounded to 10 ms");
    }

    #[test]
    fn times_that_advance_at_another_rate_are_wrong_even_in_a_run_of_half_a_second() {
        for (run_s, rate) in [(5.0, 0.5), (5.0, 0.8), (5.0, 1.3), (0.6, 0.5), (0.6, 1.5)] {
            let (_, at_the_end, _) = judged(run_s, |since_s| rate * since_s);
            assert_eq!(at_the_end, Some(false), "{rate} in {run_s} s");
        }
    }

    #[test]
    fn a_clock_that_is_a_little_slow_is_found_if_lines_arrive_promptly() {
        for (run_s, rate) in [(2.5, 0.92), (8.0, 0.92), (8.0, 0.95)] {
            assert_eq!(judged(run_s, |since_s| rate * since_s).1, Some(false), "{rate} in {run_s} s");
        }
        assert_eq!(judged(8.0, |since_s| 0.995 * since_s).1, Some(true));
        // Lines that are written together, and later from the second time on, say little: steps keep their times.
        let mut clock = ProgramClock::new(1_000.0);
        for second in 1..=12_u32 {
            let at_s = 1_000.0 + f64::from(second);
            let read_s = if second == 1 { at_s } else { at_s + 0.6 };
            let step = |part: u32| FoundStep {
                at_s: at_s - 1.0 + 0.05 * f64::from(part),
                read_s: Some(read_s),
                ..FoundStep::default()
            };
            let found: Vec<Found> = (1..=20).map(step).map(Found::Step).collect();
            assert_eq!(clock.compare(found.iter(), read_s), None);
        }
        clock.end();
        assert_eq!(clock.is_right(), Some(true));
    }

    #[test]
    fn a_time_before_the_start_or_after_the_reading_is_impossible_and_said_once() {
        let (during, _, messages) = judged(1.0, |since_s| since_s + 3_600.0);
        assert_eq!((during, messages.len()), (Some(false), 1));
        assert!(
            messages[0].contains("a time (time_s) that is 3599.") && messages[0].contains("after its line was read")
        );
        let (during, _, messages) = judged(1.0, |since_s| since_s - 1_000.0);
        assert_eq!((during, messages.len()), (Some(false), 1));
        assert!(messages[0].contains("s before the program was started"), "{messages:?}");
    }

    #[test]
    fn steps_that_are_reported_together_at_the_end_of_the_run_are_not_doubted() {
        let mut clock = ProgramClock::new(1_000.0);
        let step = |step: u64| FoundStep { at_s: 1_000.0 + step as f64, read_s: Some(1_110.0), ..FoundStep::default() };
        let found: Vec<Found> = (1..=100).map(step).map(Found::Step).collect();
        assert_eq!(clock.compare(found.iter(), 1_110.0), None);
        clock.end();
        assert_eq!(clock.is_right(), None);
        assert_eq!(clock.time_s(1_001.0, Some(1_110.0)), 1_001.0);
    }

    #[test]
    fn times_are_compared_anew_after_the_machines_clock_was_set() {
        let mut clock = ProgramClock::new(1_000.0);
        let step = |at_s: f64| [Found::Step(FoundStep { at_s, read_s: Some(at_s), ..FoundStep::default() })];
        for set_s in [0.0, -3_600.0] {
            clock.machine_clock_set(set_s);
            for tenth in 1..=3 {
                let at_s = 1_000.0 + set_s + 0.1 * f64::from(tenth);
                assert_eq!(clock.compare(step(at_s).iter(), at_s), None);
            }
        }
        assert_eq!(clock.is_right(), None);
    }
}
