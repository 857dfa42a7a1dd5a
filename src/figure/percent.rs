//! Shares in percent, as people write them: each text is read as exactly the share that it was written for.

/// A share in percent: the shortest decimal that [`share_of`] reads as this share. A factor of 100 would add the rounding of computers:
/// 0.07 would be 7.000000000000001.
pub fn percent_of(share: f64) -> String {
    let text = share.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((text.as_str(), ""));
    let decimals = format!("{decimals:0<2}");
    let (hundredths, rest) = decimals.split_at(2);
    let digits = format!("{whole}{hundredths}");
    let whole = Some(digits.trim_start_matches('0')).filter(|whole| !whole.is_empty()).unwrap_or("0");
    if rest.is_empty() { whole.to_owned() } else { format!("{whole}.{rest}") }
}

/// The share that a number of percent means, rounded once: `0.7` is 0.007, while 0.7 / 100.0 is less by the rounding of 0.7. `None` if the
/// text is no number.
pub fn share_of(percent: &str) -> Option<f64> {
    let (digits, exponent) = percent.split_once(['e', 'E']).unwrap_or((percent, "0"));
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(2)?;
    format!("{digits}e{exponent}").parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percent_have_the_digits_of_their_share_and_no_others() {
        let cases = [
            (0.0, "0"),
            (0.000_01, "0.001"),
            (0.005, "0.5"),
            (0.007, "0.7"),
            (0.01, "1"),
            (0.07, "7"),
            (0.123, "12.3"),
            (0.57, "57"),
            (0.995, "99.5"),
            (1.0, "100"),
            (12.5, "1250"),
        ];
        for (share, percent) in cases {
            assert_eq!(percent_of(share), percent, "{share}");
            assert_eq!(share_of(percent), Some(share), "{percent}");
        }
    }

    #[test]
    fn percent_are_numbers_of_any_form() {
        assert_eq!(["1e1", "2.5E-1", "-3", "+4"].map(share_of), [Some(0.1), Some(0.0025), Some(-0.03), Some(0.04)]);
        assert_eq!(["", "e", "few", "1e", "NaN", "inf", "1 2"].map(share_of), [None; 7]);
    }

    proptest! {
        #[test]
        fn each_share_is_read_back_from_its_percent(share in prop_oneof![0.0..=1.0_f64, 0.0..=1e-6_f64, 0.0..=1e6_f64]) {
            prop_assert_eq!(share_of(&percent_of(share)), Some(share));
        }

        #[test]
        fn a_share_of_few_digits_has_as_few_in_percent(thousandths in 0..=100_000_u32) {
            let percent = (f64::from(thousandths) / 1e3).to_string();
            prop_assert_eq!(share_of(&percent).map(percent_of), Some(percent));
        }
    }
}
