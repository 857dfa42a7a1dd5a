//! Numbers for readers: three significant digits, but integers in full.

pub use crate::analysis::{capitalised, counted};

/// A number with three significant digits in plain ASCII: without decimals from 100 on, `1.23e-7` below 0.0001.
pub fn significant(value: f64) -> String {
    with_digits(value, 3)
}

/// A number in plain ASCII with this number of significant digits, which is at least 1.
fn with_digits(value: f64, digits: u8) -> String {
    let decimals = i32::from(digits) - 1;
    let scientific = format!("{value:.*e}", usize::try_from(decimals).unwrap_or(0));
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match exponent {
        _ if value == 0.0 => "0".to_owned(),
        ..-4 | 15.. => format!("{mantissa}e{exponent}"),
        // The exponent is that of the rounded number; otherwise 99.96 would get one decimal too many.
        _ => format!("{value:.*}", usize::try_from(decimals - exponent).unwrap_or(0)),
    }
}

/// The unit that gives short numbers for times up to `greatest_s`, and the factor from seconds to this unit; `None` if no time is above 0.
pub fn unit_of_times(greatest_s: f64) -> Option<(&'static str, f64)> {
    if greatest_s <= 0.0 || !greatest_s.is_finite() {
        return None;
    }
    Some(match greatest_s {
        ..0.000_5 => ("µs", 1e6),
        ..0.5 => ("ms", 1e3),
        1e5.. => ("h", 1.0 / 3600.0),
        _ => ("s", 1.0),
    })
}

/// The ends of an interval: `[1.07, 1.09]`, with one more digit if they would look equal.
pub fn interval_text(low: f64, high: f64) -> String {
    let digits = if significant(low) == significant(high) { 4 } else { 3 };
    format!("[{}, {}]", with_digits(low, digits), with_digits(high, digits))
}

/// A number with three significant digits, a minus sign and separated thousands.
pub fn short(value: f64) -> String {
    grouped(&significant(value).replace('-', "\u{2212}"))
}

/// A number with up to nine significant digits: more than any measurement has, but no rounding errors of computers.
pub fn precise(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 8 - value.abs().log10().floor() as i32 };
    if !(0..=15).contains(&digits) {
        return short(value);
    }
    let text = format!("{value:.*}", digits as usize);
    grouped(&without_zeros(&text).replace('-', "\u{2212}"))
}

/// A number's text without zeros at the end of its decimals.
pub fn without_zeros(text: &str) -> &str {
    if text.contains('.') && !text.contains('e') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A range: `1.42 to 1.81`.
pub fn from_to(low: f64, high: f64) -> String {
    format!("{} to {}", significant(low), significant(high))
}

/// A number for Markdown: narrow no-break spaces between thousands from five digits on, powers as `×10`.
pub(super) fn markdown(value: f64) -> String {
    let text = significant(value).replace('-', "\u{2212}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => format!("{mantissa}×10<sup>{exponent}</sup>"),
        None => grouped(&text),
    }
}

/// A whole number's text with narrow no-break spaces between thousands, from five digits on. Decimals, powers and words are not changed.
pub fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('\u{2212}').map_or(("", text), |digits| ("\u{2212}", digits));
    if digits.len() < 5 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut grouped = sign.to_owned();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A duration for reading: `8 s`, `4 min 5 s`, `2 h 3 min`.
pub fn duration_text(duration_s: f64) -> String {
    let seconds = duration_s.max(0.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_not_grouped() {
        for text in ["device", "ddp-ds", "first-node", "1.23e-7", "12345.5"] {
            assert_eq!(grouped(text), text);
        }
        assert_eq!(grouped("\u{2212}12345"), "\u{2212}12\u{202f}345");
    }

    #[test]
    fn durations_read_in_the_two_greatest_units() {
        assert_eq!(duration_text(8.4), "8 s");
        assert_eq!(duration_text(245.0), "4 min 5 s");
        assert_eq!(duration_text(7400.0), "2 h 3 min");
    }

    #[test]
    fn three_digits_are_kept_and_integers_stay_whole() {
        let cases = [
            (0.0, "0"),
            (1.0, "1.00"),
            (41.25, "41.2"),
            (99.96, "100"),
            (0.04125, "0.0413"),
            (14_981.4, "14981"),
            (-0.99961, "-1.00"),
            (0.000_041_2, "4.12e-5"),
            (0.000_123_4, "0.000123"),
            (1.0e15, "1.00e15"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text, "{value}");
        }
    }

    #[test]
    fn ends_of_an_interval_that_would_look_equal_have_one_more_digit() {
        assert_eq!(interval_text(1.0712, 1.0931), "[1.07, 1.09]");
        assert_eq!(interval_text(1.0789, 1.0823), "[1.079, 1.082]");
    }

    #[test]
    fn thousands_stand_apart_from_five_digits_on() {
        assert_eq!(markdown(1_234.0), "1234");
        assert_eq!(markdown(14_981.4), "14\u{202f}981");
        assert_eq!(markdown(-1_234_567.0), "\u{2212}1\u{202f}234\u{202f}567");
        assert_eq!(markdown(4.12e-5), "4.12×10<sup>\u{2212}5</sup>");
    }

    #[test]
    fn a_precise_number_has_no_digits_of_the_computers_own() {
        let cases = [
            (3.497_894_591_999_999_7, "3.49789459"),
            (0.1 + 0.2, "0.3"),
            (4156.0, "4156"),
            (14_981.25, "14981.25"),
            (-0.002_500_000_000_000_1, "\u{2212}0.0025"),
            (0.0, "0"),
            (3.2e9, "3\u{202f}200\u{202f}000\u{202f}000"),
            (4.0e-12, "4.00e\u{2212}12"),
        ];
        for (value, text) in cases {
            assert_eq!(precise(value), text, "{value}");
        }
    }
}
