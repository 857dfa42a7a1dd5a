//! Ticks of plots on screen, linear and logarithmic, and their labels.

use egui_plot::{GridInput, GridMark};

use crate::figure::{decimals, grouped, round_up, significant, ticks_between, without_zeros};

/// Least distance of labelled ticks, in units of egui_plot's least grid spacing (8 points).
const LABEL_ROWS: f64 = 3.5;

/// Multiples of `step` minus `shift` within the bounds.
pub fn multiples(step: f64, shift: f64, (from, to): (f64, f64)) -> Vec<GridMark> {
    let values = crate::figure::multiples(step, from + shift, to + shift).into_iter();
    values.map(|value| GridMark { value: value - shift, step_size: step }).collect()
}

/// Ticks of a vertical axis.
pub fn y_ticks(input: &GridInput) -> Vec<GridMark> {
    multiples(round_up(input.base_step_size * LABEL_ROWS), 0.0, input.bounds)
}

/// Ticks of a logarithmic axis: powers of ten, with 2 and 5 between them if there is room, or round values if these are
/// fewer than three.
pub fn log_ticks(input: &GridInput) -> Vec<GridMark> {
    let (from, to) = input.bounds;
    let (least, apart) = (input.base_step_size * LABEL_ROWS, input.base_step_size * 2.0);
    if !(from.is_finite() && to.is_finite() && least > 0.0 && to - from < 600.0) {
        return Vec::new();
    }
    let every = least.ceil().max(1.0) as usize;
    let powers: Vec<f64> = (from.floor() as i32..=to.ceil() as i32).step_by(every).map(f64::from).collect();
    let mut values: Vec<f64> = powers.iter().copied().filter(|value| (from..=to).contains(value)).collect();
    if values.len() < 4 && every == 1 {
        for digit in [2_f64, 5.0] {
            for value in powers.iter().map(|power| power + digit.log10()) {
                let has_room = values.iter().all(|other| (other - value).abs() >= apart);
                if has_room && (from..=to).contains(&value) {
                    values.push(value);
                }
            }
        }
    }
    if values.len() < 3 {
        values = ticks_between(10_f64.powf(from), 10_f64.powf(to), 5).into_iter().map(f64::log10).collect();
    }
    values.sort_by(f64::total_cmp);
    // The step size only decides whether a label is drawn; these have room.
    values.into_iter().map(|value| GridMark { value, step_size: least }).collect()
}

/// Label of a tick on a vertical axis.
pub fn y_text(mark: GridMark) -> String {
    let places = decimals(mark.step_size);
    // Avoids `-0` and rounding residue.
    let value = if mark.value.abs() < mark.step_size / 2.0 { 0.0 } else { mark.value };
    if value != 0.0 && (value.abs() >= 1e7 || mark.step_size < 1e-5) {
        return significant(value).replace('-', "\u{2212}");
    }
    grouped(&format!("{value:.places$}").replace('-', "\u{2212}"))
}

/// Label of a tick on a logarithmic axis: the value itself.
pub fn log_text(mark: GridMark) -> String {
    let value = 10_f64.powf(mark.value);
    let power = mark.value.floor();
    if !(-4.0..6.0).contains(&power) {
        return format!("{value:.0e}").replace('-', "\u{2212}");
    }
    // Up to three digits, or the number of digits that distinguishes neighbours, without trailing zeros.
    let apart = value * (10_f64.powf(mark.step_size) - 1.0);
    let places = decimals(apart).max((2.0 - power).max(0.0) as usize);
    let text = format!("{value:.places$}");
    grouped(without_zeros(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(from: f64, to: f64, points: f64) -> GridInput {
        GridInput { bounds: (from, to), base_step_size: 8.0 * (to - from) / points }
    }

    #[test]
    fn a_logarithmic_axis_shows_values_not_their_logarithms() {
        let texts = |from: f64, to: f64| -> Vec<String> {
            log_ticks(&input(f64::log10(from), f64::log10(to), 120.0)).into_iter().map(log_text).collect()
        };
        assert_eq!(texts(0.009, 11.0), ["0.01", "0.1", "1", "10"]);
        assert_eq!(texts(0.9, 9.0), ["1", "2", "5"]);
        assert_eq!(texts(0.12, 3.0), ["0.2", "0.5", "1", "2"]);
        assert_eq!(texts(2.1, 2.31), ["2.1", "2.15", "2.2", "2.25", "2.3"]);
        assert_eq!(texts(2.2499, 2.2531), ["2.25", "2.251", "2.252", "2.253"]);
        assert!(texts(1e-300, 1e300).len() < 60);
    }

    #[test]
    fn ticks_of_values_have_the_decimals_they_need() {
        let texts: Vec<String> = y_ticks(&input(0.0, 0.3, 120.0)).into_iter().map(y_text).collect();
        assert_eq!(texts, ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(y_text(GridMark { value: 20_000.0, step_size: 5_000.0 }), "20\u{202f}000");
        assert_eq!(y_text(GridMark { value: -1e-17, step_size: 0.1 }), "0.0");
    }

    #[test]
    fn axes_without_extent_have_no_ticks() {
        for (from, to) in [(0.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (1.0, 0.0)] {
            let input = input(from, to, 120.0);
            assert!(y_ticks(&input).len() <= 1 && log_ticks(&input).len() <= 1, "{from} {to}");
        }
    }
}
