//! The units of profilers' metrics: seconds, and shares of what.

use serde::{Deserialize, Serialize};

use crate::plan::Key;
use crate::protocol::{TraceMetric, TraceSummary};

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

/// The key of a metric's measure in a unit.
pub(super) fn key_in(metric: &str, unit: MetricUnit) -> Key {
    let unit = if unit == MetricUnit::Seconds { "s" } else { unit.name() };
    format!("{metric}_{unit}").into()
}
