//! Axis ticks at round times, values and powers of ten, and their labels.

use egui_plot::{GridInput, GridMark};
use jiff::tz::TimeZone;

use super::scene::Scene;
use crate::app::curves::XAxis;
use crate::figure::{grouped, significant};

/// Round durations from one second up, in seconds.
const ROUND_TIMES_S: [f64; 17] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0,
    86_400.0,
];
/// Least distance of labelled ticks, in units of egui_plot's least grid spacing (8 points).
const LABEL_COLUMNS: f64 = 12.0;
const LABEL_ROWS: f64 = 3.5;
/// Most ticks on an axis.
const MOST_TICKS: f64 = 400.0;

/// The smallest of 1, 2, 5, 10, 20, … that is at least `least`.
fn round_up(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

fn round_time_up(least_s: f64) -> f64 {
    if least_s <= 0.5 {
        return round_up(least_s);
    }
    let days = || round_up(least_s / 86_400.0) * 86_400.0;
    ROUND_TIMES_S.into_iter().find(|step| *step >= least_s).unwrap_or_else(days)
}

/// Multiples of `step` minus `shift` within the bounds.
fn multiples(step: f64, shift: f64, (from, to): (f64, f64)) -> Vec<GridMark> {
    // Tolerance keeps a tick on an edge despite rounding.
    let (first, last) = (((from + shift) / step - 1e-9).ceil(), ((to + shift) / step + 1e-9).floor());
    if !(step > 0.0 && first.is_finite() && last.is_finite() && last - first < MOST_TICKS) {
        return Vec::new();
    }
    let count = (last - first).max(-1.0) as i64 + 1;
    (0..count).map(|n| GridMark { value: (first + n as f64) * step - shift, step_size: step }).collect()
}

/// Ticks of the horizontal axis.
pub fn x_ticks(axis: XAxis, input: &GridInput) -> Vec<GridMark> {
    let least = input.base_step_size * LABEL_COLUMNS;
    match axis {
        XAxis::Since => multiples(round_time_up(least), 0.0, input.bounds),
        // Round in local time, not in UTC.
        XAxis::Clock => multiples(round_time_up(least), utc_offset_s(input.bounds.0), input.bounds),
        XAxis::Step => multiples(round_up(least.max(1.0)), 0.0, input.bounds),
    }
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
        let (low, high) = (10_f64.powf(from), 10_f64.powf(to));
        let step = round_up(((high - low) / 5.0).max(f64::MIN_POSITIVE));
        values = multiples(step, 0.0, (low, high)).iter().map(|mark| mark.value.log10()).collect();
    }
    values.sort_by(f64::total_cmp);
    // The step size only decides whether a label is drawn; these have room.
    values.into_iter().map(|value| GridMark { value, step_size: least }).collect()
}

/// Label of a tick on the horizontal axis.
pub fn x_text(axis: XAxis, mark: GridMark) -> String {
    match axis {
        XAxis::Since => since_text(mark.value, mark.step_size),
        XAxis::Clock => clock_text(mark.value, mark.step_size),
        XAxis::Step => grouped(&format!("{:.0}", mark.value)),
    }
}

/// Label of the cursor's position on the horizontal axis.
pub fn place_text(scene: &Scene, x: f64, width: f64) -> String {
    match scene.axis {
        XAxis::Since => since_text(x, width / 1000.0),
        XAxis::Clock => clock_text(x, width / 1000.0),
        XAxis::Step => format!("{} {}", scene.step(), grouped(&format!("{x:.0}"))),
    }
}

fn decimals(step: f64) -> usize {
    (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize
}

/// Elapsed time as `12.5 s`, `4:05` or `1:04:05`.
fn since_text(time_s: f64, step_s: f64) -> String {
    let sign = if time_s < 0.0 { "\u{2212}" } else { "" };
    let time_s = time_s.abs();
    let places = decimals(step_s);
    if !(60.0..1e9).contains(&time_s) {
        return format!("{sign}{time_s:.places$} s");
    }
    let scale = 10_f64.powi(places as i32);
    let time_s = (time_s * scale).round() / scale;
    let (hours, minutes) = ((time_s / 3600.0).floor(), (time_s / 60.0).floor() % 60.0);
    let seconds = time_s % 60.0;
    let width = if places == 0 { 2 } else { places + 3 };
    if hours > 0.0 {
        format!("{sign}{hours:.0}:{minutes:02.0}:{seconds:0width$.places$}")
    } else {
        format!("{sign}{minutes:.0}:{seconds:0width$.places$}")
    }
}

fn clock_text(time_s: f64, step_s: f64) -> String {
    let places = decimals(step_s).min(6) as u32;
    let scale = 10_f64.powi(places as i32);
    let rounded = (time_s * scale).round() / scale;
    let Ok(timestamp) = jiff::Timestamp::from_microsecond((rounded * 1e6).round() as i64) else {
        return String::new();
    };
    let zoned = timestamp.to_zoned(TimeZone::system());
    match places {
        _ if step_s >= 86_400.0 => zoned.strftime("%Y-%m-%d").to_string(),
        0 if step_s >= 60.0 => zoned.strftime("%H:%M").to_string(),
        0 => zoned.strftime("%H:%M:%S").to_string(),
        _ => format!(
            "{}{}",
            zoned.strftime("%H:%M:%S"),
            &format!("{:.1$}", rounded.rem_euclid(1.0), places as usize)[1..]
        ),
    }
}

fn utc_offset_s(time_s: f64) -> f64 {
    let timestamp = jiff::Timestamp::from_second(time_s as i64).unwrap_or_default();
    f64::from(TimeZone::system().to_offset(timestamp).seconds())
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
    // Up to three digits, without trailing zeros.
    let text = format!("{value:.*}", (2.0 - power).max(0.0) as usize);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    grouped(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    fn input(from: f64, to: f64, points: f64) -> GridInput {
        GridInput { bounds: (from, to), base_step_size: 8.0 * (to - from) / points }
    }

    #[test]
    fn ticks_of_time_are_round() {
        let places =
            |to: f64| x_ticks(XAxis::Since, &input(0.0, to, 900.0)).iter().map(|m| m.value).collect::<Vec<_>>();
        assert_eq!(places(12.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(places(400.0)[..3], [0.0, 60.0, 120.0]);
        assert_eq!(places(90_000.0)[..2], [0.0, 21_600.0]);
        assert!(x_ticks(XAxis::Step, &input(0.0, 3.0, 900.0)).iter().all(|mark| mark.value.fract() == 0.0));
    }

    #[test]
    fn times_are_written_as_minutes_and_hours() {
        assert_eq!(since_text(12.5, 0.5), "12.5 s");
        assert_eq!(since_text(59.96, 1.0), "60 s");
        assert_eq!(since_text(245.0, 1.0), "4:05");
        assert_eq!(since_text(245.25, 0.01), "4:05.25");
        assert_eq!(since_text(3_845.0, 60.0), "1:04:05");
        assert_eq!(since_text(119.999, 1.0), "2:00");
        assert_eq!(since_text(-3.0, 1.0), "\u{2212}3 s");
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
            for axis in XAxis::iter() {
                assert!(x_ticks(axis, &input(from, to, 900.0)).len() <= 1, "{from} {to}");
            }
            assert!(y_ticks(&input(from, to, 120.0)).len() <= 1 && log_ticks(&input(from, to, 120.0)).len() <= 1);
        }
    }
}
