//! Compares the two clocks of a program: the times that it reports for its steps, and the times at which its lines of output arrived.
//!
//! A program may time a GPU without waiting for it, report milliseconds as seconds, or leave out what it does between steps. The arrival of
//! its lines and the time that its GPUs worked are measured independently. Lines that were held back in a buffer arrive together; only the
//! last of them gives a time, which is late by two steps at most.
//!
//! A program that prints every tenth step may report the time of one step, or the time since its previous line. The arrival of its lines
//! shows which of the two it reports: times since the previous line are divided by the number of steps that they cover before anything is
//! computed from them.

use std::fmt;

use super::TrainingTime;
use super::covered::covered;
use crate::statistics::median;
use crate::store::{RankRecord, RunRecord, StepRecord};

/// Arrivals that are closer than this, and closer than a tenth of a step, count as one.
const TOGETHER_S: f64 = 0.002;
/// With fewer consecutive arrivals, the program's clock cannot be confirmed.
const LEAST_ARRIVALS: usize = 8;
/// The reported time agrees with the time between arrivals if their ratio is at least this …
const LEAST_RATIO: f64 = 0.9;
/// … and at most this.
const MOST_RATIO: f64 = 1.1;
/// Reported times are impossible if they exceed the elapsed time by more than this share, …
const IMPOSSIBLE_RATIO: f64 = 1.02;
/// … and by more than the time that a line may be delayed: files are read five times a second.
const LATE_S: f64 = 0.2;
/// Reported times are impossible if they are below this share of the GPUs' busy time; the busy time of NVML is a mean over its own samples.
const LEAST_OF_BUSY: f64 = 0.8;
/// Numbers that would give shorter steps than this do not count steps.
const LEAST_STEP_S: f64 = 1e-6;
/// Lines were written at once if they arrived in less than this share of the time that they report.
const AT_ONCE: f64 = 0.1;
/// If reported times equal the times between arrivals within this, they were computed from the arrivals.
const EXACT_S: f64 = 2e-6;
/// NVML's busy time is meaningful for periods of at least this length.
const BUSY_S: f64 = 1.0;

/// Whether the step times that a program reports are correct.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// The program's lines arrived at the intervals that the program reports.
    Confirmed,
    /// The program reports impossible times.
    Impossible(Contradiction),
    /// Nothing shows whether the reported times are right.
    Unconfirmed(Doubt),
}

/// Why the reported times are impossible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contradiction {
    /// The reported step times add up to more than the time that passed, in seconds.
    LongerThanPassed {
        /// The sum of the reported times.
        told_s: f64,
        /// The elapsed time.
        passed_s: f64,
    },
    /// The reported times fit neither as the times of one step each nor as the times of all steps since the previous line.
    MoreStepsThanTime {
        /// The number of steps, by the numbers that the program gives them.
        steps: f64,
        /// The mean of the reported times.
        told_s: f64,
        /// The time in which these steps were made.
        passed_s: f64,
    },
    /// The reported step time is shorter than the time the GPUs worked in a step, in seconds.
    ShorterThanBusy {
        /// The mean of the reported step times.
        told_s: f64,
        /// The least time that the GPUs worked in a step.
        busy_s: f64,
    },
}

/// Why the reported times could not be confirmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The lines of steps arrived farther apart than the reported step times say. Both times are in seconds per step.
    FartherApart {
        /// The mean of the reported step times.
        told_s: f64,
        /// The mean time between the arrivals of steps.
        apart_s: f64,
    },
    /// The lines of steps arrived closer together than the reported step times say. Both times are in seconds per step.
    CloserTogether {
        /// The mean of the reported step times.
        told_s: f64,
        /// The mean time between the arrivals of steps.
        apart_s: f64,
    },
    /// Too many lines arrived together.
    Together {
        /// The number of steps that count.
        steps: usize,
        /// The number of different times at which they arrived.
        arrivals: usize,
    },
}

impl Clock {
    /// Whether the reported times are impossible.
    pub fn is_impossible(&self) -> bool {
        matches!(self, Self::Impossible(_))
    }
}

/// The text of the mark.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confirmed => write!(f, "its lines arrived at the intervals that it reports"),
            Self::Impossible(Contradiction::LongerThanPassed { told_s, passed_s }) => {
                write!(
                    f,
                    "impossible step times: it reports {} s of steps, but only {} s passed",
                    digits(*told_s),
                    digits(*passed_s)
                )?;
                match told_s / passed_s {
                    300.0..3e4 => write!(f, "; does it report milliseconds as seconds?"),
                    3e5.. => write!(f, "; does it report microseconds as seconds?"),
                    _ => Ok(()),
                }
            }
            Self::Impossible(Contradiction::MoreStepsThanTime { steps, told_s, passed_s }) => write!(
                f,
                "impossible step times: it reports {} s a step and numbers {steps:.0} steps, but only {} s passed: let it report the time \
                     of one step and number its steps one by one",
                digits(*told_s),
                digits(*passed_s)
            ),
            Self::Impossible(Contradiction::ShorterThanBusy { told_s, busy_s }) => write!(
                f,
                "impossible step times: it reports {} s a step, but its GPUs worked for {} s in each: it does not wait for the GPU \
                     before it reads the clock",
                digits(*told_s),
                digits(*busy_s)
            ),
            Self::Unconfirmed(Doubt::FartherApart { told_s, apart_s }) => write!(
                f,
                "the clock could not be confirmed: it reports {} s a step, its lines arrived every {} s; either it does other work \
                     between steps, or it does not wait for the GPU before it reads the clock",
                digits(*told_s),
                digits(*apart_s)
            ),
            Self::Unconfirmed(Doubt::CloserTogether { told_s, apart_s }) => write!(
                f,
                "the clock could not be confirmed: it reports {} s a step, but its lines arrived every {} s: the times that it reports are \
                     too long",
                digits(*told_s),
                digits(*apart_s)
            ),
            Self::Unconfirmed(Doubt::Together { steps, arrivals }) if steps == arrivals => {
                write!(f, "the clock could not be confirmed: ")?;
                if *steps <= LEAST_ARRIVALS {
                    let count = if *steps == 1 { "step counts" } else { "steps count" };
                    write!(
                        f,
                        "only {steps} {count} after the warm-up, too few to compare its clock with the arrival of its lines"
                    )?;
                } else {
                    write!(
                        f,
                        "its lines arrived one by one, but do not show that the times which it reports are right"
                    )?;
                }
                write!(f, "; run more steps")
            }
            Self::Unconfirmed(Doubt::Together { steps, arrivals }) => write!(
                f,
                "the clock could not be confirmed: {steps} steps arrived at only {arrivals} times: the output is not flushed after each \
                     line, or the run is short"
            ),
        }
    }
}

/// A time with three digits.
fn digits(time_s: f64) -> String {
    let decimals = (2.0 - time_s.abs().max(1e-9).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{time_s:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The findings about a program's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Witness {
    pub clock: Clock,
    /// Reported time over the time in which the same steps arrived; `None` if they all arrived at the same time.
    pub ratio: Option<f64>,
    /// The usual number of steps that a reported time covers, if it covers all steps since the previous line; `None` if it covers one.
    pub covered: Option<f64>,
    /// Whether only some steps have a line, and the time of all steps is longer than the life of the process. The run then has no training
    /// time; see [`outlives_process`] for the other reasons.
    pub outlives: bool,
}

/// Examines the clock of a run's program. `None` for workloads other than programs, without steps that count, and if the program reports no
/// times, so that the arrival of its lines gives the step times.
pub(super) fn witness(record: &RunRecord) -> Option<Witness> {
    record.workload.command.as_ref()?;
    let rank = record.ranks.iter().find(|rank| rank.steps.iter().any(|step| !step.warm_up))?;
    if are_by_arrival(&rank.steps) {
        return None;
    }
    let arrivals = Arrivals::of(rank);
    let covered = arrivals.is_since_line.then(|| usual_advance(&rank.steps));
    let told_s: f64 = rank.steps.iter().map(|step| step.duration_s).filter(|time_s| time_s.is_finite()).sum();
    let passed_s = life_s(record, rank);
    if let Some(passed_s) = passed_s.filter(|passed_s| is_longer(told_s, *passed_s)) {
        let clock = Clock::Impossible(Contradiction::LongerThanPassed { told_s, passed_s });
        return Some(Witness { clock, ratio: Some(told_s / passed_s), covered, outlives: false });
    }
    let before_s = record.started_time_s.zip(arrivals.first_s).map(|(started_s, first_s)| first_s - started_s);
    let can_be_late = before_s.is_some_and(|before_s| told_s <= before_s);
    let clock = arrivals.clock(record.telemetry.load.gpus_busy, can_be_late);
    let ratio = arrivals.ratio().filter(|ratio| ratio.is_finite());
    let single = covered.map(|_| in_single_steps(rank));
    let more = passed_s.and_then(|passed_s| more_steps_than_time(record, single.as_ref().unwrap_or(rank), passed_s));
    let outlives = more.is_some();
    // If most lines arrive at the intervals that they report, only a few times do not stand for the steps without a line.
    let is_open = !clock.is_impossible() && clock != Clock::Confirmed && !arrivals.usually_agree();
    match more.filter(|_| is_open) {
        Some((more, ratio)) => Some(Witness { clock: Clock::Impossible(more), ratio: Some(ratio), covered, outlives }),
        None => Some(Witness { clock, ratio, covered, outlives }),
    }
}

/// Whether reported times exceed the life of a process.
fn is_longer(told_s: f64, passed_s: f64) -> bool {
    told_s > IMPOSSIBLE_RATIO * passed_s + LATE_S
}

/// Whether the training time of a program that made all of its steps is longer than the life of its process, because its other steps were
/// faster than those that count, or because the times of these contain more than a step.
pub(super) fn outlives_process(record: &RunRecord, rank: Option<&RankRecord>, training: &TrainingTime) -> bool {
    let made_all = training.planned_steps <= training.steps as f64;
    let rank = rank.filter(|_| made_all && record.workload.command.is_some());
    rank.and_then(|rank| life_s(record, rank)).is_some_and(|life_s| is_longer(training.time_s, life_s))
}

/// Checks whether all steps, including steps without a line, would take longer than the process lived if each took the mean reported time.
/// Returns this contradiction and the ratio of the reported time to the time that passed. Without this check, the training time of such a
/// run could be any multiple of its life.
fn more_steps_than_time(record: &RunRecord, rank: &RankRecord, passed_s: f64) -> Option<(Contradiction, f64)> {
    let training = TrainingTime::of(record, Some(rank))?;
    let told_s = training.time_s / training.planned_steps;
    let first = rank.steps.iter().position(|step| step.counts())?;
    // The first step that counts has taken its time since the step before it.
    let (from, counted) = (rank.steps.get(first.saturating_sub(1))?.step, rank.steps.get(first..)?);
    let steps = counted.last()?.step.saturating_sub(from) as f64;
    let has_gaps = steps > counted.len() as f64;
    let contradiction = Contradiction::MoreStepsThanTime { steps, told_s, passed_s };
    (has_gaps && is_longer(steps * told_s, passed_s)).then_some((contradiction, steps * told_s / passed_s))
}

/// The number of steps from one line to the next: the median over a rank's lines.
fn usual_advance(steps: &[StepRecord]) -> f64 {
    let advances = steps.windows(2).map(|pair| pair[1].step.saturating_sub(pair[0].step) as f64);
    median(&advances.collect::<Vec<_>>())
}

/// The run with the times of single steps in place of times that cover all steps since the previous line.
pub(super) fn by_single_steps(record: &RunRecord) -> RunRecord {
    RunRecord { ranks: record.ranks.iter().map(in_single_steps).collect(), ..record.clone() }
}

/// A rank with the times of single steps, and with the waits in them, which are parts of these times.
fn in_single_steps(rank: &RankRecord) -> RankRecord {
    let mut rank = rank.clone();
    let steps: Vec<f64> = covered(&rank.steps).map(|steps| steps as f64).collect();
    for (step, covered) in rank.steps.iter_mut().zip(steps) {
        step.duration_s /= covered;
        step.load_wait_s /= covered;
    }
    rank
}

/// Whether the step times equal the times between the arrivals of lines, exactly and for most steps. Steps that arrived together share that
/// time, and the first step after another phase is timed from the end of that phase.
fn are_by_arrival(steps: &[StepRecord]) -> bool {
    let (mut exact, mut all) = (0, 0);
    let mut before: Option<&StepRecord> = None;
    for arrived in steps.chunk_by(|a, b| a.time_s == b.time_s) {
        let Some(last) = arrived.last() else { continue };
        if let Some(before) = before.filter(|_| !last.warm_up) {
            let from = std::iter::once(before).chain(arrived);
            let told_s: f64 = from.zip(arrived).map(|(a, b)| b.step.saturating_sub(a.step) as f64 * b.duration_s).sum();
            exact += usize::from((last.time_s - before.time_s - told_s).abs() <= EXACT_S);
            all += 1;
        }
        before = Some(last);
    }
    all > 0 && 2 * exact >= all
}

/// The longest time in which a rank can have made its steps, in seconds.
fn life_s(record: &RunRecord, rank: &RankRecord) -> Option<f64> {
    let by_clock_s = || Some(rank.steps.last()?.time_s - record.started_time_s?);
    rank.duration_s.or_else(by_clock_s).filter(|life_s| life_s.is_finite() && *life_s > 0.0)
}

/// The steps between two arrivals of a program's lines.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The number of steps, including those without a line.
    steps: f64,
    /// The sum of reported times, if each line reports the time of one step.
    each_s: f64,
    /// The sum of reported times, if each line reports the time of all steps since the previous line.
    since_line_s: f64,
    /// The time between the arrivals.
    passed_s: f64,
}

/// The arrival times of a rank's counted steps.
#[derive(Debug)]
struct Arrivals {
    pieces: Vec<Piece>,
    /// Whether reported times cover all steps since the previous line.
    is_since_line: bool,
    /// The number of counted steps, and the number of different times at which they arrived.
    steps: usize,
    times: usize,
    /// When the first counted step arrived, in seconds since the Unix epoch.
    first_s: Option<f64>,
    /// The number of steps and the seconds from the first to the last counted step, including everything in between.
    span: (f64, f64),
}

impl Arrivals {
    fn of(rank: &RankRecord) -> Self {
        let counted: Vec<&StepRecord> = rank.steps.iter().filter(|step| !step.warm_up).collect();
        // The last step of each arrival, and whether it arrived alone.
        let mut ends: Vec<(usize, bool)> = Vec::new();
        let mut is_alone = true;
        for place in 0..counted.len() {
            let joins = counted.get(place + 1).is_some_and(|next| together(counted[place], next));
            if !joins {
                ends.push((place, is_alone));
            }
            is_alone = !joins;
        }
        let times = ends.len();
        // Lines that a buffer held back to the end arrived when the program ended, whenever their steps ended.
        if ends.last().is_some_and(|(_, is_alone)| !is_alone) {
            ends.pop();
        }
        let mut pieces = Vec::new();
        for pair in ends.windows(2) {
            pieces.extend(piece(&counted[pair[0].0..=pair[1].0]));
        }
        let is_since_line = is_since_line(&pieces);
        let span = counted.last().zip(counted.first());
        let span = span.map(|(last, first)| (last.step.saturating_sub(first.step) as f64, last.time_s - first.time_s));
        let first_s = counted.first().map(|first| first.time_s);
        Self { pieces, is_since_line, steps: counted.len(), times, first_s, span: span.unwrap_or_default() }
    }

    fn told_s(&self, piece: &Piece) -> f64 {
        if self.is_since_line { piece.since_line_s } else { piece.each_s }
    }

    /// The number of steps, their reported time, and the elapsed time, summed over all pieces.
    fn sums(&self) -> (f64, f64, f64) {
        let add = |(steps, told_s, passed_s): (f64, f64, f64), piece: &Piece| {
            (steps + piece.steps, told_s + self.told_s(piece), passed_s + piece.passed_s)
        };
        self.pieces.iter().fold((0.0, 0.0, 0.0), add)
    }

    fn ratio(&self) -> Option<f64> {
        let (_, told_s, passed_s) = self.sums();
        let ratio = told_s / passed_s;
        (passed_s > 0.0).then(|| if ratio > MOST_RATIO && self.usually_agree() { self.usual_ratio() } else { ratio })
    }

    /// The median over pieces of the reported time over the elapsed time.
    fn usual_ratio(&self) -> f64 {
        usual_ratio(&self.pieces, |piece| self.told_s(piece))
    }

    /// Whether the reported time agrees with the elapsed time in most pieces, and a pause, for example for a test, explains the others.
    /// A pause does not belong to a step. If the reported times leave the pause out, they are shorter than the elapsed time. If a line's
    /// reported time includes the pause, the steps before that line, which have no lines, took less time than the line reports.
    fn usually_agree(&self) -> bool {
        let (_, _, passed_s) = self.sums();
        agrees(self.usual_ratio()) && self.of_lines_s() <= MOST_RATIO * passed_s
    }

    /// The sum of the reported times.
    fn of_lines_s(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.since_line_s).sum()
    }

    /// Whether the lines were written at once, several at a time.
    fn came_at_once(&self) -> bool {
        let (_, told_s, passed_s) = self.sums();
        2 * self.times <= self.steps && passed_s <= AT_ONCE * told_s
    }

    /// What the arrivals show, given the busy share of the GPUs, and whether the time before the first arrival was enough for all steps.
    fn clock(&self, gpus_busy: Option<f64>, can_be_late: bool) -> Clock {
        let (steps, told_s, passed_s) = self.sums();
        let together = Clock::Unconfirmed(Doubt::Together { steps: self.steps, arrivals: self.times });
        if self.pieces.is_empty() || passed_s <= 0.0 || !told_s.is_finite() {
            return together;
        }
        let apart_s = passed_s / steps;
        let step_s = told_s / steps;
        let is_late = can_be_late && self.came_at_once();
        let is_too_long = |told_s: f64| !is_late && told_s > IMPOSSIBLE_RATIO * passed_s + 2.0 * apart_s + LATE_S;
        if is_too_long(self.of_lines_s()) {
            return Clock::Impossible(Contradiction::LongerThanPassed { told_s, passed_s });
        }
        let usually_agree = self.usually_agree();
        if is_too_long(told_s) && !usually_agree {
            return Clock::Impossible(Contradiction::MoreStepsThanTime { steps, told_s: step_s, passed_s });
        }
        if let Some(busy_s) = self.busy_s(gpus_busy).filter(|busy_s| step_s < LEAST_OF_BUSY * busy_s) {
            return Clock::Impossible(Contradiction::ShorterThanBusy { told_s: step_s, busy_s });
        }
        match (self.pieces.len() >= LEAST_ARRIVALS, told_s / passed_s) {
            (true, ratio) if agrees(ratio) || usually_agree => Clock::Confirmed,
            (true, ratio) if ratio < LEAST_RATIO => Clock::Unconfirmed(Doubt::FartherApart { told_s: step_s, apart_s }),
            // Lines that were held back arrive together, but not in most pieces.
            (true, _) if self.usual_ratio() > MOST_RATIO && !self.came_at_once() => {
                Clock::Unconfirmed(Doubt::CloserTogether { told_s: step_s, apart_s })
            }
            _ => together,
        }
    }

    /// The least time that the GPUs worked in a step, if they were busy for this share of the time: all work between steps is subtracted.
    fn busy_s(&self, gpus_busy: Option<f64>) -> Option<f64> {
        let (steps, span_s) = self.span;
        let share = gpus_busy.filter(|_| span_s >= BUSY_S && steps > 0.0)?;
        let typical_s = median(&self.pieces.iter().map(|piece| piece.passed_s / piece.steps).collect::<Vec<_>>());
        let mean_s = span_s / steps;
        let between_s = (mean_s - typical_s).max(0.0);
        Some(share * mean_s - between_s).filter(|busy_s| *busy_s > 0.0)
    }
}

/// Whether a reported time agrees with the elapsed time, by their ratio.
fn agrees(ratio: f64) -> bool {
    (LEAST_RATIO..=MOST_RATIO).contains(&ratio)
}

/// The median over pieces of the reported time over the elapsed time.
fn usual_ratio<'p>(pieces: impl IntoIterator<Item = &'p Piece>, told_s: impl Fn(&Piece) -> f64) -> f64 {
    median(&pieces.into_iter().map(|piece| told_s(piece) / piece.passed_s).collect::<Vec<_>>())
}

/// Whether each line reports the time of all steps since the previous line. Only pieces with steps that have no line show this. Their
/// median is used, because a line may report the time of one step with a long test in it, which resembles the time since the previous line.
fn is_since_line(pieces: &[Piece]) -> bool {
    let with_gaps = || pieces.iter().filter(|piece| piece.each_s > piece.since_line_s);
    let steps_s: Vec<f64> = with_gaps().map(|piece| piece.since_line_s / piece.steps).collect();
    median(&steps_s) >= LEAST_STEP_S
        && agrees(usual_ratio(with_gaps(), |piece| piece.since_line_s))
        && !agrees(usual_ratio(with_gaps(), |piece| piece.each_s))
}

/// Whether two consecutive steps arrived together.
fn together(step: &StepRecord, next: &StepRecord) -> bool {
    let apart_s = next.time_s - step.time_s;
    apart_s <= 0.0 || apart_s < TOGETHER_S.min(next.duration_s / 10.0)
}

/// The steps after the first one as a piece; `None` if something other than steps lies between them.
fn piece(steps: &[&StepRecord]) -> Option<Piece> {
    let (first, last) = (steps.first()?, steps.last()?);
    let mut piece = Piece { steps: 0.0, each_s: 0.0, since_line_s: 0.0, passed_s: last.time_s - first.time_s };
    for pair in steps.windows(2) {
        let (before, step) = (pair[0], pair[1]);
        let advance = step.step.checked_sub(before.step).filter(|advance| *advance > 0)? as f64;
        if step.epoch != before.epoch {
            return None;
        }
        piece.steps += advance;
        piece.each_s += advance * step.duration_s;
        piece.since_line_s += step.duration_s;
    }
    (piece.passed_s > 0.0 && piece.each_s.is_finite()).then_some(piece)
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
