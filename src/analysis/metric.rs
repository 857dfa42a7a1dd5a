//! Metrics of profilers' reports as measures: each in seconds and as shares, which are named.

use serde::{Deserialize, Serialize};

use super::measure::{Measure, measure};
use crate::plan::Better;
use crate::plan::Key;
use crate::protocol::{TRACE_METRICS, TraceMetric, TraceMetricKind, TraceSummary};

/// In what metrics are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MetricUnit {
    /// Seconds, summed over GPUs and threads.
    #[default]
    #[serde(rename = "seconds")]
    Seconds,
    /// `Time (%)` of the nsys report that lists the metric.
    #[serde(rename = "percent_of_report")]
    OfReport,
    /// Share of the metrics that are shown.
    #[serde(rename = "percent_of_shown")]
    OfShown,
    /// Share of the time the report covers, divided by the GPUs.
    #[serde(rename = "percent_of_wall")]
    OfWall,
}

impl MetricUnit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Seconds, Self::OfReport, Self::OfShown, Self::OfWall];

    /// The name in files and on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::OfReport => "percent_of_report",
            Self::OfShown => "percent_of_shown",
            Self::OfWall => "percent_of_wall",
        }
    }

    /// What it means.
    pub fn help(self) -> &'static str {
        match self {
            Self::Seconds => "Seconds, summed over GPUs and threads.",
            Self::OfReport => {
                "Time (%) of the list of nsys that holds the metric: calls, kernels or memory operations."
            }
            Self::OfShown => "Share of the metrics that are shown, which make 100 % together.",
            Self::OfWall => "Share of the time the report covers, divided by the GPUs.",
        }
    }
}

/// Four measures of each metric, in the order of [`TRACE_METRICS`] and [`MetricUnit::ALL`].
pub(super) fn metric_measures() -> Vec<Measure> {
    let one = |kind: &TraceMetricKind, unit: MetricUnit| match unit {
        MetricUnit::Seconds => Measure { better: Better::Neither, ..Measure::time(key_in(kind.key, unit), kind.name) },
        _ => Measure::derived(
            key_in(kind.key, unit),
            kind.name,
            &unit.name().replace("percent_", "% ").replace('_', " "),
        ),
    };
    TRACE_METRICS.iter().flat_map(|kind| MetricUnit::ALL.map(|unit| one(kind, unit))).collect()
}

/// The values of a report's metrics under the keys of their measures.
pub(super) fn metric_values(trace: &TraceSummary) -> impl Iterator<Item = (Key, f64)> {
    let values = |metric: &TraceMetric| {
        let value = |unit| match unit {
            MetricUnit::Seconds => metric.seconds,
            MetricUnit::OfReport => metric.percent_of_report,
            MetricUnit::OfShown => metric.percent_of_shown,
            MetricUnit::OfWall => metric.percent_of_wall,
        };
        MetricUnit::ALL.map(|unit| (key_in(&metric.key, unit), value(unit)))
    };
    trace.metrics.iter().flat_map(values)
}

fn key_in(metric: &str, unit: MetricUnit) -> Key {
    let unit = if unit == MetricUnit::Seconds { "s" } else { unit.name() };
    format!("{metric}_{unit}").into()
}

/// The measure of a metric; none of a key that no metric has.
pub fn metric_measure(key: &str, unit: MetricUnit) -> Option<&'static Measure> {
    measure(&key_in(key, unit))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_a_measure_in_every_unit_under_its_own_name() {
        assert_eq!(metric_measures().len(), TRACE_METRICS.len() * MetricUnit::ALL.len());
        for kind in &TRACE_METRICS {
            for unit in MetricUnit::ALL {
                let measure = metric_measure(kind.key, unit).unwrap();
                let ending = if unit == MetricUnit::Seconds { "s" } else { unit.name() };
                assert_eq!((&*measure.key, &*measure.name), (format!("{}_{ending}", kind.key).as_str(), kind.name));
                let shown = if unit == MetricUnit::OfWall { Some("% of wall") } else { None };
                assert!(shown.is_none_or(|shown| shown == measure.unit), "{}", measure.unit);
            }
        }
    }
}
