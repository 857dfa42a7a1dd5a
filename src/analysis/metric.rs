//! Units of profilers' metrics: seconds and several shares.

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::plan::{Key, named};
use crate::protocol::{CopiedBytes, TraceMetric, TraceSummary};

/// The unit of a profiler's metrics. The name on the command line, in files and on screen is given by attributes; the doc comment is also
/// the help.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, IntoStaticStr, EnumMessage,
)]
pub enum MetricUnit {
    /// Seconds, summed over GPUs and threads.
    #[default]
    #[serde(rename = "seconds")]
    #[strum(to_string = "seconds", message = "time")]
    Seconds,
    /// Time (%) in the list of nsys that contains the metric: calls, kernels or memory operations.
    #[serde(rename = "percent_of_report")]
    #[strum(serialize = "percent-of-report", to_string = "percent_of_report", message = "% of report")]
    OfReport,
    /// Share of the shown metrics, which add up to 100 %.
    #[serde(rename = "percent_of_shown")]
    #[strum(serialize = "percent-of-shown", to_string = "percent_of_shown", message = "% of shown")]
    OfShown,
    /// Share of the recorded time, divided by the number of GPUs.
    #[serde(rename = "percent_of_wall")]
    #[strum(serialize = "percent-of-wall", to_string = "percent_of_wall", message = "% of wall")]
    OfWall,
    /// Seconds, summed over GPUs and threads, scaled from the recorded time to the papers' 720 s.
    #[serde(rename = "seconds_of_720")]
    #[strum(serialize = "seconds-of-720", to_string = "seconds_of_720", message = "seconds per 720 s")]
    Of720,
}

/// The window in seconds that the papers record for language models (2503.15252 section 4.4, 2505.22905 section 5.4.2).
pub const WINDOW_S: f64 = 720.0;

named!(MetricUnit: all, key, label, sentences);

/// Bytes of copies: from hosts to GPUs, within GPUs, from GPUs to hosts, and all together.
pub(super) const COPIED: [(&str, &str); 4] = [
    ("host_to_device_bytes", "Copied host to device"),
    ("device_to_device_bytes", "Copied device to device"),
    ("device_to_host_bytes", "Copied device to host"),
    ("copied_bytes", "Copied in all"),
];

/// The values in a report, under the keys of their measures.
pub(super) fn metric_values<'a>(trace: &'a TraceSummary) -> impl Iterator<Item = (Key, f64)> + 'a {
    let values = |metric: &'a TraceMetric| {
        let value = |unit| match unit {
            MetricUnit::Seconds => Some(metric.seconds),
            MetricUnit::OfReport => Some(metric.percent_of_report),
            MetricUnit::OfShown => Some(metric.percent_of_shown),
            MetricUnit::OfWall => Some(metric.percent_of_wall),
            MetricUnit::Of720 => of_window(metric.seconds, trace),
        };
        MetricUnit::ALL.iter().filter_map(move |&unit| Some((key_in(&metric.key, unit), value(unit)?)))
    };
    let copied = trace.copied.map(|CopiedBytes { host_to_device, device_to_device, device_to_host }| {
        let bytes = [host_to_device, device_to_device, device_to_host].map(|bytes| bytes as f64);
        [bytes[0], bytes[1], bytes[2], bytes.iter().sum()]
    });
    let copied = copied.into_iter().flat_map(|bytes| COPIED.into_iter().zip(bytes));
    trace.metrics.iter().flat_map(values).chain(copied.map(|((key, _), bytes)| (key.into(), bytes)))
}

/// Seconds of a report scaled to [`WINDOW_S`]; `None` for a report that covers no time.
pub fn of_window(seconds: f64, trace: &TraceSummary) -> Option<f64> {
    (trace.wall_s > 0.0).then(|| seconds * WINDOW_S / trace.wall_s)
}

/// The key of a metric's measure in a unit.
pub(super) fn key_in(metric: &str, unit: MetricUnit) -> Key {
    let unit = match unit {
        MetricUnit::Seconds => "s",
        MetricUnit::Of720 => "s_of_720",
        _ => unit.key(),
    };
    format!("{metric}_{unit}").into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::fixture;

    #[test]
    fn a_report_says_bytes_of_copies_and_seconds_of_the_papers_window() {
        let copied = CopiedBytes { host_to_device: 3, device_to_device: 40, device_to_host: 500 };
        let trace = TraceSummary { wall_s: 36.0, copied: Some(copied), ..fixture::trace(1.5, 3.0) };
        let values: BTreeMap<Key, f64> = metric_values(&trace).collect();
        assert_eq!(COPIED.map(|(key, _)| values[key]), [3.0, 40.0, 500.0, 543.0]);
        assert_eq!((values["host_to_device_s"], values["host_to_device_s_of_720"]), (1.5, 30.0));
        let earlier = TraceSummary { copied: None, wall_s: 0.0, ..trace };
        let values: BTreeMap<Key, f64> = metric_values(&earlier).collect();
        assert!(!values.contains_key("copied_bytes") && !values.contains_key("host_to_device_s_of_720"));
    }
}
