//! Times in ISO 8601, as other programs write them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The moment that a text states as a date with a time of day: `2026-11-26T08:30:00.25+01:00`, `2026-11-26 08:30:00`. A time without a
/// zone is in `zone`. `None` for any other text, also for a date alone.
pub fn moment(text: &str, zone: TimeZone) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    // A date alone would be read as its midnight.
    let time: DateTime = text.parse().ok().filter(|_| text.contains(['T', 't', ' ']))?;
    Some(time.to_zoned(zone).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_with_a_time_is_a_moment_in_its_own_zone_or_else_in_the_given_one() {
        let at = |text: &str| moment(text, TimeZone::fixed(jiff::tz::offset(2))).map(Timestamp::as_millisecond);
        let expected = Some(1_795_681_800_250);
        for text in [
            "2026-11-26T08:30:00.25Z",
            "2026-11-26T09:30:00.250+01:00",
            "2026-11-26 10:30:00.25",
            "2026-11-26 10:30:00,250",
            "2026-11-26T10:30:00.25",
        ] {
            assert_eq!(at(text), expected, "{text}");
        }
        for text in ["2026-11-26", "10:30:00", "1795681800", "soon", "", "2026-13-26T08:30:00Z"] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
