//! The resolution of a clock, estimated from the times that it gave, and the decimal step with which values were written.

/// The finest step that is searched for: 10⁻⁹ s. A finer resolution does not matter.
const MOST_DECIMALS: i32 = 9;
/// Values with more digits than this are as good as exact.
const MOST_DIGITS: i32 = 7;
/// The number of different values from which a common divisor must come from the clock.
const LEAST_DIFFERENT: usize = 3;

/// The resolution of a clock in seconds: the greatest number such that all of these durations are whole multiples of it. It is 0.001 for
/// a program that prints whole milliseconds, and 0.015625 for a clock that ticks 64 times per second. `None` if the number would be below
/// a nanosecond, or if there are fewer than two durations; durations that are not above 0 are ignored.
///
/// If durations hardly differ, it is the unit of their last decimal: ten times 0.012 s gives a resolution of 0.001 s.
pub fn resolution(durations_s: &[f64]) -> Option<f64> {
    let durations_s: Vec<f64> = durations_s.iter().copied().filter(|s| s.is_finite() && *s > 0.0).collect();
    if durations_s.len() < 2 {
        return None;
    }
    let (decimals, mut whole) =
        (0..=MOST_DECIMALS).find_map(|decimals| Some((decimals, multiples(&durations_s, decimals)?)))?;
    whole.sort_unstable();
    whole.dedup();
    let common = if whole.len() < LEAST_DIFFERENT { 1 } else { whole.iter().copied().fold(0, divisor) };
    Some(common as f64 / 10_f64.powi(decimals))
}

/// The unit of the last digit with which these values were written: the largest power of ten, up to 10 to the power of `largest`, that
/// divides all of them. `None` if values have more than seven digits, and if all of them are 0.
pub(super) fn decimal_step(values: &[f64], largest: i32) -> Option<f64> {
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    let greatest = sizes.iter().copied().fold(0.0, f64::max);
    (greatest > 0.0 && greatest.is_finite()).then_some(())?;
    let exponent = greatest.log10().floor() as i32;
    let mut decimals = -exponent.min(largest)..MOST_DIGITS - exponent;
    decimals.find(|decimals| multiples(&sizes, *decimals).is_some()).map(|decimals| 10_f64.powi(-decimals))
}

/// The values in units of a decimal; `None` if one of them is not a whole multiple of it.
fn multiples(values: &[f64], decimals: i32) -> Option<Vec<u64>> {
    let multiple = |value: &f64| {
        let exact = value * 10_f64.powi(decimals);
        let whole = exact.round();
        let is_whole = (exact - whole).abs() <= 1e-6 + 4.0 * f64::EPSILON * exact && whole < 1e15;
        (is_whole && (whole >= 1.0 || *value == 0.0)).then_some(whole as u64)
    };
    values.iter().map(multiple).collect()
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::Noise;

    #[test]
    fn rounded_times_have_the_resolution_that_they_were_rounded_to() {
        let mut noise = Noise::new(11);
        let times: Vec<f64> = (0..200).map(|_| 0.0125 * (1.0 + 0.05 * noise.normal())).collect();
        let rounded = |step: f64| -> Vec<f64> { times.iter().map(|time_s| (time_s / step).round() * step).collect() };
        for step in [1e-3, 1e-4, 1e-6, 5e-4] {
            let found = resolution(&rounded(step));
            assert!(found.is_some_and(|found| (found - step).abs() < 1e-12), "{step}: {found:?}");
        }
        assert_eq!(resolution(&times), None, "as fine as numbers are");
        let milliseconds: Vec<f64> = times.iter().map(|time_s| (time_s * 1e3).round() * 1e-3).collect();
        assert_eq!(resolution(&milliseconds), Some(1e-3), "printed as whole milliseconds");
        let ticks: Vec<f64> = (1..40).map(|ticks| f64::from(ticks * ticks % 7 + 1) / 64.0).collect();
        assert_eq!(resolution(&ticks), Some(1.0 / 64.0));
    }

    #[test]
    fn times_that_hardly_differ_have_the_resolution_of_their_last_decimal() {
        assert_eq!(resolution(&[0.012; 10]), Some(1e-3));
        assert_eq!(
            resolution(&[0.012, 0.014, 0.012, 0.014]),
            Some(1e-3),
            "no clock ticks by what two values have in common"
        );
        assert_eq!(resolution(&[0.012, 0.014]), Some(1e-3), "two durations suffice");
        assert_eq!(resolution(&[3.0, 5.0, 4.0]), Some(1.0));
        assert_eq!((resolution(&[0.012]), resolution(&[]), resolution(&[0.0, f64::NAN])), (None, None, None));
    }

    #[test]
    fn written_values_lie_on_the_step_of_their_last_digit() {
        let step = |values: &[f64]| decimal_step(values, i32::MAX);
        assert_eq!((step(&[1.0, 2.0, -3.0]), step(&[0.0, 0.5])), (Some(1.0), Some(0.1)));
        assert_eq!((step(&[1.01, 1.02]), step(&[1200.0, 1500.0])), (Some(0.01), Some(100.0)));
        assert_eq!(decimal_step(&[1200.0, 1500.0], 0), Some(1.0));
        assert_eq!((step(&[1.234_567, 2.0]), step(&[1.234_567_8, 2.0])), (Some(1e-6), None));
        assert!(step(&[3e-12, 5e-12]).is_some_and(|step| (step - 1e-12).abs() < 1e-20) && step(&[4e300]).is_some());
        assert_eq!([step(&[]), step(&[0.0]), step(&[1e-320]), step(&[1.0, f64::INFINITY])], [None; 4]);
    }
}
