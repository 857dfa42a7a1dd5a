//! Times in files of other programs.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::Field;
use crate::foreign;

/// A moment, in seconds since the Unix epoch, and whether it is a whole day. Times without a zone are in UTC. `None` for
/// moments before 1990 or after 2099, which cannot be times of measurements; a journal cannot hold all such moments.
pub(super) fn moment(field: &Field) -> Option<(f64, bool)> {
    written(field).filter(|(seconds, _)| (631_152_000.0..4_102_444_800.0).contains(seconds))
}

/// The moment that a field states, of any year, and whether it is a whole day.
fn written(field: &Field) -> Option<(f64, bool)> {
    if let Some(number) = field.number() {
        return Some((if number > 1e11 { number / 1e3 } else { number }, false));
    }
    let Field::Text(text) = field else { return None };
    if let Some(time) = foreign::moment(text, TimeZone::UTC) {
        return Some((time.as_second() as f64, false));
    }
    let day: Date = text.parse().ok()?;
    Some((day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second() as f64, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_days_times_or_seconds() {
        let moment_of = |text: &str| moment(&Field::of_text(text));
        assert_eq!(moment_of("2001-09-09"), Some((999_993_600.0, true)));
        assert_eq!(moment_of("2026-11-26T08:30:00Z"), moment_of("2026-11-26 08:30:00"));
        assert_eq!(moment_of("2026-11-26T10:30:00+02:00"), moment_of("2026-11-26T08:30:00Z"));
        assert_eq!((moment_of("1700000000"), moment_of("1700000000000")), (Some((1.7e9, false)), Some((1.7e9, false))));
        assert_eq!((moment_of("0.5"), moment_of("soon"), moment_of("2026-13-01")), (None, None, None));
    }

    #[test]
    fn moments_far_from_now_are_none_however_they_are_written() {
        for text in ["1969-12-31", "5139-01-01", "1960-01-01T00:00:00Z", "5139-01-01 08:30:00", "-86400", "1e14"] {
            assert_eq!(moment(&Field::of_text(text)), None, "{text}");
        }
    }
}
