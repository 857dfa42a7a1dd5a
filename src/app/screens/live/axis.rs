//! Ticks of the horizontal axis at round times and steps, and their labels.

use egui_plot::{GridInput, GridMark};
use jiff::tz::TimeZone;

use super::scene::Scene;
use crate::app::curves::XAxis;
use crate::app::ticks::multiples;
use crate::figure::{decimals, grouped, round_up};

/// Round durations from one second up, in seconds.
const ROUND_TIMES_S: [f64; 17] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0,
    86_400.0,
];
/// Least distance of labelled ticks, in units of egui_plot's least grid spacing (8 points).
const LABEL_COLUMNS: f64 = 12.0;
/// The cursor's times are as precise as this part of the view needs: a panel has some hundred pixels, so further digits would be made up.
const RESOLVED: f64 = 100.0;

fn round_time_up(least_s: f64) -> f64 {
    if least_s <= 0.5 {
        return round_up(least_s);
    }
    let days = || round_up(least_s / 86_400.0) * 86_400.0;
    ROUND_TIMES_S.into_iter().find(|step| *step >= least_s).unwrap_or_else(days)
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
        XAxis::Since => since_text(x, width / RESOLVED),
        XAxis::Clock => clock_text(x, width / RESOLVED),
        XAxis::Step => format!("{} {}", scene.step(), grouped(&format!("{x:.0}"))),
    }
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
    fn axes_without_extent_have_no_ticks() {
        for (from, to) in [(0.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (1.0, 0.0)] {
            for axis in XAxis::iter() {
                assert!(x_ticks(axis, &input(from, to, 900.0)).len() <= 1, "{from} {to}");
            }
        }
    }
}
