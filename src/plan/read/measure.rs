//! Reads how runs are measured and recorded: `[measure]`.

use super::factor_levels;
use crate::plan::checked_table::{Table, real, whole_numbers};
use crate::plan::problem::Problems;
use crate::plan::tracing::{TRACE_CALLS, TRACE_WINDOWS};
use crate::plan::{Capture, Factor, Mode, Tracer, Tracing};

/// Keys of `[measure]`.
pub(super) const MEASURE_KEYS: &[&str] = &[
    "warm_up_steps",
    "mode",
    "step_precision",
    Tracer::KEY,
    TRACE_CALLS,
    "trace_first_s",
    "trace_steps",
    TRACE_WINDOWS,
];

/// The mode of the runs, full or quick.
pub(super) fn mode(measure: &Table, problems: &mut Problems) -> Mode {
    let quick = measure.choice("mode", Mode::NAMES, problems) == Some("quick");
    let Some((span, value)) = measure.find("step_precision") else {
        return if quick { Mode::Quick { step_precision: Mode::STEP_PRECISION } } else { Mode::Full };
    };
    let (least, most) = Mode::STEP_PRECISIONS;
    let valid = real(value).filter(|share| (least..=most).contains(share));
    match valid {
        Some(step_precision) if quick => return Mode::Quick { step_precision },
        Some(_) => problems.add(&span, measure.path("step_precision"), "has no effect without mode = \"quick\""),
        None => {
            let message = format!("must be a share from {least} to {most}: 0.01 is ±1 %");
            problems.add(&span, measure.path("step_precision"), message);
        }
    }
    Mode::Full
}

/// Which tracer records runs, and which part of each run.
pub(super) fn tracing(measure: &Table, problems: &mut Problems) -> Tracing {
    let tracing = Tracing::by(&tracers(measure, problems), Capture::Whole);
    for (key, needs) in [
        ("trace_first_s", (!tracing.is_off(), "trace = \"nsys\" or \"built-in\"")),
        ("trace_steps", (!tracing.is_off(), "trace = \"nsys\" or \"built-in\"")),
        (TRACE_WINDOWS, (tracing.has_built_in(), "trace = \"built-in\"")),
        (TRACE_CALLS, (tracing.has_built_in(), "trace = \"built-in\"")),
    ] {
        if let (Some((span, _)), (false, tracer)) = (measure.find(key), needs) {
            problems.add(&span, measure.path(key), format!("has no effect without {tracer}"));
        }
    }
    let first_s = measure.positive("trace_first_s", 1e9, problems);
    let steps = measure.steps("trace_steps", problems);
    let parts = [
        ("trace_first_s", first_s.map(|seconds| Capture::First { seconds })),
        ("trace_steps", steps.map(|(first, last)| Capture::Steps { first, last })),
        (TRACE_WINDOWS, windows(measure, problems)),
    ];
    let given: Vec<(&str, Capture)> = parts.into_iter().filter_map(|(key, part)| Some((key, part?))).collect();
    match given[..] {
        [] => tracing,
        [(_, part)] => tracing.with_capture(part),
        [(first, _), .., (last, _)] => {
            let span = measure.find(last).map_or(0..0, |(span, _)| span);
            problems.add(&span, measure.path(last), format!("{first} is given too: remove one of them"));
            Tracing::default()
        }
    }
}

/// The tracers of a plan. `trace` names them; `trace_calls` says whether the built-in one records calls.
fn tracers(measure: &Table, problems: &mut Problems) -> Vec<Tracer> {
    let factor = Factor::named(Tracer::KEY, "Trace", &Tracer::PLANNED);
    let named = factor_levels(&factor, None, Some(measure), problems).unwrap_or_default();
    let mut tracers: Vec<Tracer> = named.iter().filter_map(|level| Tracer::of_name(level.as_text()?)).collect();
    let calls = Factor::named(TRACE_CALLS, "Calls", &["on", "off"]);
    let Some(calls) = factor_levels(&calls, None, Some(measure), problems) else { return tracers };
    let is_asked = |name: &str| calls.iter().any(|level| level.as_text() == Some(name));
    if tracers.contains(&Tracer::BuiltIn) && is_asked("off") {
        tracers.push(Tracer::BuiltInWithoutCalls);
        tracers.retain(|tracer| *tracer != Tracer::BuiltIn || is_asked("on"));
    }
    tracers
}

/// `trace_windows`: how many steps of each period are recorded.
fn windows(measure: &Table, problems: &mut Problems) -> Option<Capture> {
    let (span, value) = measure.find(TRACE_WINDOWS)?;
    let least = Capture::LEAST_REST;
    match whole_numbers(value)[..] {
        [Some(recorded @ 2..=1_000_000), Some(period @ ..=1_000_000_000)] if period >= recorded + least => {
            Some(Capture::Windows { recorded, period })
        }
        _ => {
            let message = format!(
                "must be the number of recorded steps (2 or more) and of steps in a period (at least {least} more), such as [4, 20]"
            );
            problems.add(&span, measure.path(TRACE_WINDOWS), message);
            None
        }
    }
}
