//! How much rounding can change the ratio of two values: the clock of a program ticks, and programs and files write values with few digits.

use super::resolution::decimal_step;
use super::{Cell, Measure, RunSummary};

/// The units to which the values of files are converted. A rounding step of 1 MB/s then becomes a step of 10⁶ B/s. Values in other units
/// are kept as written, and their rounding step is at most 1.
const CONVERTED: [&str; 5] = ["s", "J", "W", "B/s", "FLOP/s"];

/// How coarse values are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rounding {
    /// The step between values, as a share of a value. The logarithm of a ratio of two such values can be wrong by as much, since each of
    /// them can be wrong by half a step.
    pub(super) step: f64,
    /// True if the values were written with few digits; false if a clock is coarse.
    pub(super) is_written: bool,
}

impl Rounding {
    /// The rounding of a run's value. If the import of the run recorded no step, written values lie on multiples of `written_step`.
    pub(super) fn of_run(run: &RunSummary, measure: &Measure, written_step: f64) -> Self {
        let by_clock = if measure.is_told() { clock_resolution(run) } else { 0.0 };
        let written_step = recorded_step(run, measure).unwrap_or(written_step);
        let value = if run.is_reported() && written_step > 0.0 { run.value_alone(measure) } else { None };
        let by_writer = value.map(|value| written_step / value.abs()).filter(|share| share.is_finite()).unwrap_or(0.0);
        Self { step: by_clock + by_writer, is_written: by_writer > by_clock }
    }

    /// The rounding of the ratio of two cells: that of the coarsest of these pairs of runs, or of their geometric means if repeats form no
    /// pairs.
    pub(super) fn of_cells(
        cell: &Cell,
        base: &Cell,
        pairs: &[(&RunSummary, &RunSummary)],
        measure: &Measure,
        written_step: f64,
    ) -> Self {
        let of_run = |run: &RunSummary| Self::of_run(run, measure, written_step);
        if !cell.pairs_with(base) {
            let of_mean = |cell: &Cell| {
                let runs = super::finished(cell).filter(|run| run.value_alone(measure).is_some());
                Self::mean(&runs.map(of_run).collect::<Vec<_>>())
            };
            return of_mean(cell).with(of_mean(base));
        }
        Self::most(pairs.iter().map(|(own, other)| of_run(own).with(of_run(other))))
    }

    /// The rounding of the ratio of two values: half a step of each.
    fn with(self, other: Self) -> Self {
        Self { step: (self.step + other.step) / 2.0, is_written: self.is_written || other.is_written }
    }

    /// The rounding of the geometric mean of values.
    fn mean(all: &[Self]) -> Self {
        let step = all.iter().map(|one| one.step).sum::<f64>() / all.len().max(1) as f64;
        Self { step, is_written: all.iter().any(|one| one.is_written) }
    }

    /// The coarsest of several.
    pub(super) fn most(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |most, one| if one.step > most.step { one } else { most })
    }
}

/// The step of the last digit with which a file writes a run's value, in the unit of `measure`; 0 if the value is exact, and `None` if no
/// import recorded it.
fn recorded_step(run: &RunSummary, measure: &Measure) -> Option<f64> {
    let own = run.measures.find(&measure.key)?;
    let steps = own.written_steps.as_ref()?;
    // Bytes may be written in another unit, but counts are exact.
    let may_be_rounded = own.unit == "B" || !own.is_exact();
    let step = steps.get(&run.cell).copied().filter(|_| may_be_rounded).unwrap_or(0.0);
    Some(step * own.factor_to(measure)?)
}

/// The decimal step on which the values of a measure lie in runs of programs and in imported runs; 0 if they are exact.
pub(super) fn step_in_runs<'a>(runs: impl Iterator<Item = &'a RunSummary>, measure: &Measure) -> f64 {
    let reported = runs.filter(|run| run.is_reported());
    step_of_values(reported.filter_map(|run| run.value_alone(measure)), measure)
}

/// The decimal step on which values lie that a program reports; 0 if they are exact.
pub(super) fn step_of_values(values: impl Iterator<Item = f64>, measure: &Measure) -> f64 {
    if measure.is_exact() {
        return 0.0;
    }
    let largest = if CONVERTED.contains(&&*measure.unit) { i32::MAX } else { 0 };
    decimal_step(&values.collect::<Vec<_>>(), largest).unwrap_or(0.0)
}

/// The resolution of the clock that timed a run's steps, as a share of a step; 0 if the resolution does not matter.
pub(super) fn clock_resolution(run: &RunSummary) -> f64 {
    let share = run.told_resolution_s.zip(run.value("step_time_s")).map(|(resolution_s, step_s)| resolution_s / step_s);
    share.filter(|share| share.is_finite()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Measures, Origin, OverRanks, OverTime, fixture, measure, summarise_run};
    use crate::plan::DeclaredMeasure;
    use crate::protocol::{Environment, IMPORTED_FROM};

    #[test]
    fn an_imported_value_is_as_coarse_as_the_file_writes_its_cell() {
        let declared = |unit: &str| DeclaredMeasure {
            key: "own".into(),
            name: "own".into(),
            unit: unit.into(),
            written_steps: Some(BTreeMap::from([("coarse".to_owned(), 60.0)])),
            ..DeclaredMeasure::default()
        };
        let mut environment = Environment::default();
        environment.set(IMPORTED_FROM, Some("f.csv"));
        let run = summarise_run(&fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.1));
        let mut run = RunSummary { environment: Some(Arc::new(environment)), ..run };
        run.values.insert("own".into(), 120.0);
        let mut share = |cell: &str, unit: &str| {
            run.cell = cell.to_owned();
            run.measures = Arc::new(Measures::clone(&run.measures).with([Measure::declared(&declared(unit))]));
            let measure = run.measures.find("own").cloned().unwrap_or_else(|| Measure::new("own"));
            Rounding::of_run(&run, &measure, 10.0).step
        };
        assert_eq!(
            [share("coarse", "s"), share("coarse", "B"), share("fine", "s"), share("coarse", "count")],
            [0.5, 0.5, 0.0, 0.0]
        );
    }

    #[test]
    fn counts_and_bytes_are_exact_and_other_readings_lie_on_the_step_of_their_last_digit() {
        let of_unit = |unit: &str| Measure { unit: unit.to_owned(), ..Measure::new("own") };
        let step = |unit: &str, values: &[f64]| step_of_values(values.iter().copied(), &of_unit(unit));
        assert_eq!(
            [step("", &[1.0, 2.0]), step("s", &[1.01, 1.02]), step("points", &[300.0, 400.0])],
            [1.0, 0.01, 1.0]
        );
        assert_eq!([step("B/s", &[3e6, 5e6]), step("s", &[120.0, 180.0])], [1e6, 10.0], "files write MB/s and minutes");
        assert_eq!([step("B", &[512.0, 1024.0]), step("count", &[1.0, 2.0])], [0.0; 2]);
        assert_eq!(step("", &[0.123_456_789, 0.2]), 0.0, "as fine as nobody rounds");
        let built_in = |key: &str| step_of_values([1.0, 2.0].into_iter(), measure(key).unwrap_or(&of_unit("")));
        assert_eq!(["step_time_s", "skipped_updates", "peak_allocated_bytes"].map(built_in), [0.0; 3]);
        assert_eq!(built_in("train_loss"), 1.0);
        let formula = Measure { origin: Origin::Derived, has_inexact_part: true, ..of_unit("") };
        assert_eq!(step_of_values([1.0, 2.0].into_iter(), &formula), 1.0);
        let read = Measure {
            origin: Origin::Readings(OverRanks::First, OverTime::Last),
            ..measure("step_time_s").cloned().unwrap_or(formula)
        };
        assert_eq!(step_of_values([1.0, 2.0].into_iter(), &read), 1.0, "a file says it");
    }
}
