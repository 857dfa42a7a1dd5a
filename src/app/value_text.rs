//! Values as text: numbers, ratios, intervals and their origins.

use crate::analysis::{Method, Value};
use crate::figure::{precise, without_zeros};

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
            let coverage = coverage_text(value.coverage().unwrap_or(0.0));
            format!(
                "median of {} repeats; their range contains the true median in {coverage} % of cases: {interval}",
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
        Method::Unpaired => "no two repeats form a pair, so no interval".to_owned(),
        Method::GeometricMeans => format!(
            "ratio of geometric means of {} repeats, which form no pairs; 95 % interval by Welch's t: {interval}",
            value.n
        ),
    }
}

/// A share of cases in percent: `75`, `96.9`. The difference from 100 % has two significant digits.
fn coverage_text(share: f64) -> String {
    let percent = 100.0 * share;
    let missing = (100.0 - percent).max(1e-6);
    let decimals = (1.0 - missing.log10().floor()).clamp(1.0, 8.0) as usize;
    without_zeros(&format!("{percent:.decimals$}")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_cases_has_no_more_digits_than_it_needs_and_enough_near_all() {
        let texts = [0.5, 0.75, 0.96875, 0.998_046_875, 1.0 - 0.5_f64.powi(19)].map(coverage_text);
        assert_eq!(texts, ["50", "75", "96.9", "99.8", "99.99981"]);
    }
}
