//! Shares and times in sentences.

/// The text of [`percent`] for larger shares.
pub(super) const OVER_1000: &str = "more than 1000 %";

/// A share in percent with two digits; a whole number from 10 % on. Shares that are too large to be worth a number are [`OVER_1000`].
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        _ if !percent.is_finite() || percent > 1_000.0 => OVER_1000.to_owned(),
        9.95.. => format!("{percent:.0} %"),
        0.995.. => format!("{percent:.1} %").replace(".0 %", " %"),
        _ => format!("{percent:.2} %"),
    }
}

/// A time in the largest unit that fits: `26 h`.
pub(super) fn long_time(time_s: f64) -> String {
    match time_s {
        172_800.0.. => format!("{:.0} days", time_s / 86_400.0),
        5_400.0.. => format!("{:.0} h", time_s / 3_600.0),
        90.0.. => format!("{:.0} min", time_s / 60.0),
        _ => format!("{:.0} s", time_s.max(0.0)),
    }
}
