//! Conditions that differ between runs and may explain their times: a GPU clock that is lower than in the other repeats, a warmer GPU, and
//! drift over the session.

use super::{Cell, Measure, RunState, RunSummary};
use crate::statistics::median;

/// A clock this far below its cell's median is reported: times of arithmetic are inversely proportional to the clock, and drifts of 3 %
/// within a run are marked, too.
const SLOW_CLOCK: f64 = 0.03;
/// A GPU this much warmer than its cell's median is reported: several times the few degrees by which settled repeats differ.
const WARM_C: f64 = 10.0;
/// With fewer repeats, the median is not a useful reference.
const LEAST_REPEATS: usize = 3;
/// With fewer runs, a trend over the session cannot be shown.
const LEAST_RUNS: usize = 10;
/// A smaller drift over the session is not reported, even if it is certain.
const LEAST_SESSION_DRIFT: f64 = 0.01;
/// Standard deviations of Kendall's S beyond which a trend is certain: chance exceeds this in 0.1 % of sessions.
const CERTAIN: f64 = 3.29;
/// Up to this number, runs are judged one by one; more runs are first averaged into this number of parts.
const MOST_RUNS: usize = 200;

/// A condition that distinguishes a run from the other repeats of its cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Its run.
    pub run: String,
    /// Two words: `slow clock`, `warm GPU`.
    pub label: &'static str,
    /// The description with numbers.
    pub text: String,
}

fn finished<'a>(cell: &Cell<'a>) -> Vec<&'a RunSummary> {
    cell.runs.iter().copied().filter(|run| run.state == RunState::Finished).collect()
}

/// The repeats of a cell whose GPU clock or temperature differs from the others'.
pub fn conditions(cell: &Cell) -> Vec<Condition> {
    let runs = finished(cell);
    let runs_with_value = |key: &str| -> Vec<(&RunSummary, f64)> {
        runs.iter().filter_map(|run| Some((*run, run.value(key)?))).collect()
    };
    let middle_of = |values: &[(&RunSummary, f64)]| {
        (values.len() >= LEAST_REPEATS).then(|| median(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>()))
    };
    let mut found = Vec::new();
    let clocks = runs_with_value("sm_clock_mhz");
    if let Some(middle) = middle_of(&clocks).filter(|middle| *middle > 0.0) {
        found.extend(clocks.iter().filter(|(_, clock)| *clock <= middle * (1.0 - SLOW_CLOCK)).map(|(run, clock)| {
            let below = 100.0 * (1.0 - clock / middle);
            let text = format!("GPU clock {clock:.0} MHz, {below:.0} % below the median of its cell ({middle:.0} MHz)");
            Condition { run: run.run.clone(), label: "slow clock", text }
        }));
    }
    let temperatures = runs_with_value("temperature_c");
    if let Some(middle) = middle_of(&temperatures) {
        found.extend(temperatures.iter().filter(|(_, heat)| *heat >= middle + WARM_C).map(|(run, heat)| {
            let text = format!("GPU at {heat:.0} °C, {:.0} °C above the median of its cell", heat - middle);
            Condition { run: run.run.clone(), label: "warm GPU", text }
        }));
    }
    found
}

/// The drift of a measure over a session, in the order in which its runs were started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionDrift {
    /// The number of runs behind it.
    pub runs: usize,
    /// The last fifth of runs over the first fifth, minus 1; each run is divided by the median of its cell.
    pub change: f64,
    /// The change of the GPU clock, computed in the same way.
    pub clock: Option<f64>,
    /// The number of degrees by which the GPUs became warmer.
    pub warmer_c: Option<f64>,
}

/// The drift of a measure over a session; `None` for few runs, and if the trend is small or may be chance. Each run counts by its ratio to
/// its cell's median, so that cells may differ; cells with one run are left out.
pub fn session_drift(cells: &[Cell], measure: &Measure) -> Option<SessionDrift> {
    let mut runs: Vec<(f64, f64, &RunSummary)> = Vec::new();
    for cell in cells {
        let values: Vec<(&RunSummary, f64)> =
            finished(cell).into_iter().filter_map(|run| Some((run, run.value_alone(measure)?))).collect();
        let middle = median(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>());
        if values.len() > 1 && middle > 0.0 {
            runs.extend(values.iter().filter_map(|(run, value)| Some((run.value("run_order")?, value / middle, *run))));
        }
    }
    if runs.len() < LEAST_RUNS {
        return None;
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let shares: Vec<f64> = runs.iter().map(|(_, share, _)| *share).collect();
    let fifth = runs.len() / 5;
    let (first, last) = (&runs[..fifth], &runs[runs.len() - fifth..]);
    let median_share =
        |part: &[(f64, f64, &RunSummary)]| median(&part.iter().map(|(_, share, _)| *share).collect::<Vec<_>>());
    let change = median_share(last) / median_share(first) - 1.0;
    if !(change.abs() >= LEAST_SESSION_DRIFT && is_certain(&shares)) {
        return None;
    }
    let middle = |part: &[(f64, f64, &RunSummary)], key: &str| {
        let values: Vec<f64> = part.iter().filter_map(|(.., run)| run.value(key)).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let both = |key: &str| middle(last, key).zip(middle(first, key));
    Some(SessionDrift {
        runs: runs.len(),
        change,
        clock: both("sm_clock_mhz").map(|(last, first)| last / first - 1.0),
        warmer_c: both("temperature_c").map(|(last, first)| last - first),
    })
}

/// Whether values rise or fall over their order more than chance explains (H. B. Mann, *Econometrica* 13(3), 1945).
fn is_certain(values: &[f64]) -> bool {
    let width = values.len().div_ceil(MOST_RUNS);
    let means: Vec<f64> = values.chunks(width).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    let n = means.len() as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    f64::from(super::steadiness::kendall(&means).abs()) > CERTAIN * deviation
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{cells, fixture, measure, summarise_run};

    fn runs(runs_given: impl Iterator<Item = (u32, f64, f64, f64)>) -> Vec<RunSummary> {
        let one = summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), 1, 1.0));
        runs_given
            .map(|(order, time_s, clock, heat)| {
                let mut run = RunSummary { run: format!("r{order}"), repeat: order, ..one.clone() };
                let readings = [("run_order", f64::from(order)), ("step_time_s", time_s)];
                for (key, value) in readings.into_iter().chain([("sm_clock_mhz", clock), ("temperature_c", heat)]) {
                    run.values.insert(key.into(), value);
                }
                run
            })
            .collect()
    }

    #[test]
    fn a_repeat_with_a_slow_clock_or_a_warm_gpu_is_named() {
        let clocks = [1980.0, 1980.0, 1965.0, 1710.0];
        let rows =
            runs((1..).zip(clocks).map(|(order, clock)| (order, 0.01, clock, if order == 2 { 71.0 } else { 55.0 })));
        let found = conditions(&cells(&rows)[0]);
        let short: Vec<_> = found.iter().map(|one| (one.run.as_str(), one.label)).collect();
        assert_eq!(short, [("r4", "slow clock"), ("r2", "warm GPU")]);
        assert!(found[0].text.starts_with("GPU clock 1710 MHz, 13 % below"), "{}", found[0].text);
        assert!(conditions(&cells(&rows[2..])[0]).is_empty(), "two repeats have no median to stand off");
    }

    #[test]
    fn a_session_that_becomes_slower_drifts_and_noise_does_not() {
        let mut noise = fixture::Noise::new(11);
        let time = measure("step_time_s").unwrap();
        let warming = runs((1..=40).map(|order| {
            let far = f64::from(order) / 40.0;
            (order, 0.02 * (1.0 + 0.04 * far + 0.005 * noise.normal()), 1980.0 - 60.0 * far, 50.0 + 10.0 * far)
        }));
        let drift = session_drift(&cells(&warming), time).unwrap();
        assert!((drift.change - 0.032).abs() < 0.008 && drift.runs == 40, "{drift:?}");
        assert!(drift.clock.unwrap() < -0.02 && (drift.warmer_c.unwrap() - 8.0).abs() < 0.5, "{drift:?}");
        let chance = (0..300).filter(|_| {
            let noisy = runs((1..=24).map(|order| (order, 0.02 * (1.0 + 0.05 * noise.normal()), 1980.0, 50.0)));
            session_drift(&cells(&noisy), time).is_some()
        });
        assert!(chance.count() <= 2);
        assert_eq!(session_drift(&cells(&warming[..9]), time), None);
    }
}
