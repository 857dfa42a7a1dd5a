//! The two clocks of a program: the times that it tells for its steps, and the times at which its lines arrived.
//!
//! A program may time a GPU without waiting for it, say milliseconds as seconds, or leave out what it does between steps. When its
//! lines arrived is known without it, and so is how long its GPUs worked. Lines that a buffer held back arrive together: only the
//! last of them tells a time, which is late by two steps at most.

use std::fmt;

use crate::statistics::median;
use crate::store::{RankRecord, RunRecord, StepRecord};

/// Arrivals that are this close to each other, and closer than a tenth of the step between them, are one.
const TOGETHER_S: f64 = 0.002;
/// With fewer arrivals in a row than this nothing is confirmed.
const LEAST_ARRIVALS: usize = 8;
/// From this share of the time between arrivals on, the told time agrees with it.
const LEAST_RATIO: f64 = 0.9;
/// Up to this share it does.
const MOST_RATIO: f64 = 1.1;
/// More told time than has passed is impossible beyond this share, …
const IMPOSSIBLE_RATIO: f64 = 1.02;
/// … and beyond the time for which a line can be on its way: files are read five times a second.
const LATE_S: f64 = 0.2;
/// Told time below this share of what GPUs worked is impossible; NVML's busy time is a mean over its own samples.
const LEAST_OF_BUSY: f64 = 0.8;
/// Told times agree with those between arrivals to this only where the latter were taken for them.
const EXACT_S: f64 = 2e-6;
/// NVML's samples say something of periods this long.
const BUSY_S: f64 = 1.0;

/// Whether the times that a program tells for its steps stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// The lines of its steps arrived as far apart as it tells.
    Confirmed,
    /// It tells what cannot be.
    Impossible(Contradiction),
    /// Nothing shows that it is right.
    Unconfirmed(Doubt),
}

/// Why told times cannot be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contradiction {
    /// Steps are told to have taken longer in all than the time in which they were made, in seconds.
    LongerThanPassed {
        /// The sum of the told times.
        told_s: f64,
        /// The time that passed meanwhile.
        passed_s: f64,
    },
    /// A step is told to be shorter than the GPUs worked for it, in seconds.
    ShorterThanBusy {
        /// The mean of the told times.
        told_s: f64,
        /// How long the GPUs worked in a step, at least.
        busy_s: f64,
    },
}

/// Why told times are not confirmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// Steps arrived farther apart than they are told to last, in seconds a step.
    FartherApart {
        /// The mean of the told times.
        told_s: f64,
        /// The mean time between the arrivals of steps.
        apart_s: f64,
    },
    /// Too many steps arrived together.
    Together {
        /// Steps that count.
        steps: usize,
        /// How many times some of them arrived.
        arrivals: usize,
    },
}

impl Clock {
    /// Whether the told times cannot be.
    pub fn is_impossible(&self) -> bool {
        matches!(self, Self::Impossible(_))
    }
}

/// What the mark says.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confirmed => write!(f, "its lines arrived as far apart as it tells"),
            Self::Impossible(Contradiction::LongerThanPassed { told_s, passed_s }) => {
                write!(
                    f,
                    "impossible step times: it tells {} s of steps, and {} s passed meanwhile",
                    digits(*told_s),
                    digits(*passed_s)
                )?;
                match told_s / passed_s {
                    300.0..3e4 => write!(f, "; does it say milliseconds as seconds?"),
                    3e5.. => write!(f, "; does it say microseconds as seconds?"),
                    _ => Ok(()),
                }
            }
            Self::Impossible(Contradiction::ShorterThanBusy { told_s, busy_s }) => write!(
                f,
                "impossible step times: it tells {} s a step, and its GPUs worked for {} s in each: it does not wait for the GPU \
                 before it reads the clock",
                digits(*told_s),
                digits(*busy_s)
            ),
            Self::Unconfirmed(Doubt::FartherApart { told_s, apart_s }) => write!(
                f,
                "the clock could not be confirmed: it tells {} s a step, its lines arrived every {} s; either it does other things \
                 between steps, or it does not wait for the GPU before it reads the clock",
                digits(*told_s),
                digits(*apart_s)
            ),
            Self::Unconfirmed(Doubt::Together { steps, arrivals }) => write!(
                f,
                "the clock could not be confirmed: {steps} steps arrived at {arrivals} times, as output that is not flushed at each \
                 line does, or a short run"
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

/// What is known of a program's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Witness {
    pub clock: Clock,
    /// Told time over the time in which the same steps arrived; none where they arrived at one time.
    pub ratio: Option<f64>,
}

/// The clock of a run's program; none for workloads that are no programs, without steps that count, and where the program tells no times:
/// its steps are timed by the arrival of their lines.
pub(super) fn witness(record: &RunRecord) -> Option<Witness> {
    record.workload.command.as_ref()?;
    let rank = record.ranks.iter().find(|rank| rank.steps.iter().any(|step| !step.warm_up))?;
    if are_by_arrival(&rank.steps) {
        return None;
    }
    let arrivals = Arrivals::of(rank);
    let told_s: f64 = rank.steps.iter().map(|step| step.duration_s).filter(|time_s| time_s.is_finite()).sum();
    if let Some(passed_s) = life_s(record, rank)
        && told_s > IMPOSSIBLE_RATIO * passed_s + LATE_S
    {
        let clock = Clock::Impossible(Contradiction::LongerThanPassed { told_s, passed_s });
        return Some(Witness { clock, ratio: Some(told_s / passed_s) });
    }
    let ratio = arrivals.ratio().filter(|ratio| ratio.is_finite());
    Some(Witness { clock: arrivals.clock(record.telemetry.load.gpus_busy), ratio })
}

/// Whether the times of steps that count are those between the arrivals of their lines: exactly, mostly. Steps that arrived at once share
/// that time, and the first one after another phase is timed from its end.
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

/// Steps between two arrivals of a program's lines.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Steps, those that no line told included.
    steps: f64,
    /// The sum of told times, each of them the time of one step.
    each_s: f64,
    /// The same where a line tells the time of all steps since the line before.
    since_line_s: f64,
    /// Between the arrivals.
    passed_s: f64,
}

/// When the steps of a rank that count arrived.
#[derive(Debug)]
struct Arrivals {
    pieces: Vec<Piece>,
    /// Whether told times are those of all steps since the line before.
    is_since_line: bool,
    /// Steps that count, and how many times some of them arrived.
    steps: usize,
    times: usize,
    /// From the first to the last step that counts, whatever lies between: steps, and seconds.
    span: (f64, f64),
}

impl Arrivals {
    fn of(rank: &RankRecord) -> Self {
        let counted: Vec<&StepRecord> = rank.steps.iter().filter(|step| !step.warm_up).collect();
        // The last step of each arrival, and whether it came alone.
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
        // What a buffer held back to the end arrived when the program ended, whenever its steps did.
        if ends.last().is_some_and(|(_, is_alone)| !is_alone) {
            ends.pop();
        }
        let mut pieces = Vec::new();
        for pair in ends.windows(2) {
            pieces.extend(piece(&counted[pair[0].0..=pair[1].0]));
        }
        let passed_s: f64 = pieces.iter().map(|piece| piece.passed_s).sum();
        let off = |sum_s: f64| (sum_s / passed_s).ln().abs();
        let sum = |of: fn(&Piece) -> f64| pieces.iter().map(of).sum::<f64>();
        // A program that prints each tenth step may tell the time of one or of ten: the one that is nearer to what passed.
        let is_since_line = off(sum(|piece| piece.since_line_s)) < off(sum(|piece| piece.each_s));
        let span = counted.last().zip(counted.first());
        let span = span.map(|(last, first)| (last.step.saturating_sub(first.step) as f64, last.time_s - first.time_s));
        Self { pieces, is_since_line, steps: counted.len(), times, span: span.unwrap_or_default() }
    }

    fn told_s(&self, piece: &Piece) -> f64 {
        if self.is_since_line { piece.since_line_s } else { piece.each_s }
    }

    /// Steps, their told time, and the time that passed, over all pieces.
    fn sums(&self) -> (f64, f64, f64) {
        let add = |(steps, told_s, passed_s): (f64, f64, f64), piece: &Piece| {
            (steps + piece.steps, told_s + self.told_s(piece), passed_s + piece.passed_s)
        };
        self.pieces.iter().fold((0.0, 0.0, 0.0), add)
    }

    fn ratio(&self) -> Option<f64> {
        let (_, told_s, passed_s) = self.sums();
        (passed_s > 0.0).then(|| told_s / passed_s)
    }

    fn clock(&self, gpus_busy: Option<f64>) -> Clock {
        let (steps, told_s, passed_s) = self.sums();
        let together = Clock::Unconfirmed(Doubt::Together { steps: self.steps, arrivals: self.times });
        if self.pieces.is_empty() || passed_s <= 0.0 || !told_s.is_finite() {
            return together;
        }
        let apart_s = passed_s / steps;
        if told_s > IMPOSSIBLE_RATIO * passed_s + 2.0 * apart_s + LATE_S {
            return Clock::Impossible(Contradiction::LongerThanPassed { told_s, passed_s });
        }
        let step_s = told_s / steps;
        if let Some(busy_s) = self.busy_s(gpus_busy).filter(|busy_s| step_s < LEAST_OF_BUSY * busy_s) {
            return Clock::Impossible(Contradiction::ShorterThanBusy { told_s: step_s, busy_s });
        }
        let ratios: Vec<f64> = self.pieces.iter().map(|piece| self.told_s(piece) / piece.passed_s).collect();
        let agrees = |ratio: f64| (LEAST_RATIO..=MOST_RATIO).contains(&ratio);
        let ratio = told_s / passed_s;
        match (self.pieces.len() >= LEAST_ARRIVALS, ratio) {
            (true, ratio) if agrees(ratio) => Clock::Confirmed,
            // A pause now and then, as for a test, is no step's.
            (true, ratio) if ratio < LEAST_RATIO && agrees(median(&ratios)) => Clock::Confirmed,
            (true, ratio) if ratio < LEAST_RATIO => Clock::Unconfirmed(Doubt::FartherApart { told_s: step_s, apart_s }),
            _ => together,
        }
    }

    /// How long GPUs that were busy for this share of the time worked in a step, at least: what lies between steps may all have been
    /// work, too.
    fn busy_s(&self, gpus_busy: Option<f64>) -> Option<f64> {
        let (steps, span_s) = self.span;
        let share = gpus_busy.filter(|_| span_s >= BUSY_S && steps > 0.0)?;
        let typical_s = median(&self.pieces.iter().map(|piece| piece.passed_s / piece.steps).collect::<Vec<_>>());
        let mean_s = span_s / steps;
        let between_s = (mean_s - typical_s).max(0.0);
        Some(share * mean_s - between_s).filter(|busy_s| *busy_s > 0.0)
    }
}

/// Whether two steps that follow each other arrived together.
fn together(step: &StepRecord, next: &StepRecord) -> bool {
    let apart_s = next.time_s - step.time_s;
    apart_s <= 0.0 || apart_s < TOGETHER_S.min(next.duration_s / 10.0)
}

/// The steps after the first of these; none where something else than steps lies between them.
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
