//! Values as text: numbers, ratios, intervals and their origins.

use crate::analysis::{Method, Value};
use crate::figure::precise;

pub use crate::figure::short as number;

/// A ratio as `1.92×`.
pub fn ratio(value: f64) -> String {
    format!("{}×", number(value))
}

/// An interval as `[40.9, 41.6]`; empty if there is none.
pub fn interval(value: &Value, factor: f64) -> String {
    value.interval.map_or(String::new(), |ends| {
        let (low, high) = (ends.low * factor, ends.high * factor);
        format!("[{}, {}]", number(low), number(high))
    })
}

/// How a value was computed.
pub fn origin(value: &Value, factor: f64, unit: &str) -> String {
    let interval = value.interval.map_or(String::new(), |ends| {
        format!("{} to {} {unit}", precise(ends.low * factor), precise(ends.high * factor)).trim_end().to_owned()
    });
    match value.method {
        Method::One if value.n <= 1 => "one repeat, so no interval".to_owned(),
        Method::One => format!("by definition, over {} repeats", value.n),
        Method::Range => {
            let coverage = 100.0 * value.coverage().unwrap_or(0.0);
            format!(
                "median of {} repeats; their range contains the true median in {coverage:.4} % of cases: {interval}",
                value.n
            )
        }
        Method::OrderStatistics => {
            format!("median of {} repeats; 95 % interval by order statistics: {interval}", value.n)
        }
        Method::BetweenSessions => format!("95 % interval by the spread between {} sessions", value.n),
        Method::Means => {
            format!("difference of means over {} recordings; 95 % interval by Welch's t: {interval}", value.n)
        }
        Method::Unpaired => "ratio of medians; no two repeats form a pair, so no interval".to_owned(),
    }
}
