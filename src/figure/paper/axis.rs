//! Axes of numbers: their range, their ticks with labels, and the multiple of the unit that they use.

use super::letter::Line;
use crate::figure::chart::{Axis, Scale};
use crate::figure::number::{grouped, unit_of_times};
use crate::figure::ticks::{decimals, multiples, round_up, tick_text, ticks_between};

/// The range of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Starts at 0, because the length of areas shows the value.
    FromZero,
    /// Covers the values only.
    Free,
    /// The axis reaches from a labelled tick below the values to a labelled tick above them.
    Enclosing,
}

/// A tick: its value as shown, and its label. Minor ticks have no label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    pub label: Option<Line>,
}

/// An axis of numbers after layout.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ruler {
    /// The ends, in shown values.
    pub low: f64,
    pub high: f64,
    pub scale: Scale,
    pub ticks: Vec<Tick>,
    /// Factor from a value of the chart to the value shown.
    pub factor: f64,
    pub title: Line,
}

impl Ruler {
    /// An axis for a chart's values from `low` to `high`, with about `count` ticks unless an author sets their number.
    pub fn new(axis: &Axis, (low, high): (f64, f64), reach: Reach, count: usize) -> Self {
        let count = axis.tick_count.unwrap_or(count);
        let sound = low.is_finite() && high.is_finite() && low <= high;
        let (low, high) = if sound { (low, high) } else { (0.0, 1.0) };
        if axis.scale == Scale::Log && high > 0.0 {
            return Self::log(axis, (low, high), reach).with_own_ticks(axis);
        }
        let greatest = low.abs().max(high.abs());
        let (factor, title) = multiple(axis, greatest);
        let (mut low, mut high) = (low * factor, high * factor);
        if reach == Reach::FromZero || (low > 0.0 && low < 0.5 * high) {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= 1e-9 * greatest * factor || high == low {
            let room = if high == 0.0 { 1.0 } else { 0.1 * high.abs() };
            (low, high) = (if low == 0.0 { 0.0 } else { low - room }, high + room);
        }
        // Extends the axis to the next tick if that is near, so that it ends with a number.
        let step = step(low, high, count);
        let room = 0.04 * (high - low);
        let end = (high / step - 1e-6).ceil() * step;
        let start = (low / step + 1e-6).floor() * step;
        let encloses = reach == Reach::Enclosing;
        high = if encloses || end - high < 0.65 * step || high > end - room { end } else { high + room };
        if low != 0.0 {
            low = if encloses || low - start < 0.65 * step { start } else { low - room };
        }
        let own = limited(axis, low, high);
        (low, high) = own.unwrap_or((low, high));
        let step = if own.is_some() { self::step(low, high, count) } else { step };
        let decimals = decimals(step);
        let label = |value: f64| {
            let text = format!("{value:.decimals$}");
            let text = if text.trim_start_matches(['-', '0', '.']).is_empty() { "0".to_owned() } else { text };
            Line::plain(grouped(&text.replace('-', "\u{2212}")))
        };
        let ticks = multiples(step, low, high).into_iter().map(|value| Tick { value, label: Some(label(value)) });
        Self { low, high, scale: Scale::Linear, ticks: ticks.collect(), factor, title }.with_own_ticks(axis)
    }

    /// The axis with an author's ticks, as far as they are within its range.
    fn with_own_ticks(mut self, axis: &Axis) -> Self {
        if !axis.ticks.is_empty() {
            let label = |value: f64| Line::plain(grouped(&value.to_string().replace('-', "\u{2212}")));
            let inside = axis.ticks.iter().filter(|tick| (self.low..=self.high).contains(*tick));
            self.ticks = inside.map(|tick| Tick { value: *tick, label: Some(label(*tick)) }).collect();
        }
        self
    }

    /// Whether a value of the chart is within the axis.
    pub fn shows(&self, value: f64) -> bool {
        let (value, room) = (value * self.factor, 1e-6 * (self.high - self.low));
        value >= self.low - room && value <= self.high + room
    }

    /// An axis with ticks at given values, such as numbers of GPUs.
    pub fn at(axis: &Axis, values: &[f64]) -> Option<Self> {
        let is_own = axis.limits != (None, None) || !axis.ticks.is_empty() || axis.tick_count.is_some();
        if is_own || axis.scale == Scale::Log {
            return None;
        }
        let (low, high) = (values.first()?, values.last()?);
        let whole = |value: &f64| value.fract() == 0.0 && (0.0..1e4).contains(value);
        if values.len() > 8 || values.len() < 2 || !values.iter().all(whole) {
            return None;
        }
        let room = 0.06 * (high - low);
        let ticks = values.iter().map(|value| Tick { value: *value, label: Some(Line::plain(format!("{value}"))) });
        Some(Self {
            low: low - room,
            high: high + room,
            scale: Scale::Linear,
            ticks: ticks.collect(),
            factor: 1.0,
            title: Line::plain(axis.title()),
        })
    }

    /// Removes ticks that are not whole numbers.
    pub fn whole_numbers(&mut self) {
        if self.factor == 1.0 && self.scale == Scale::Linear {
            self.ticks.retain(|tick| (tick.value - tick.value.round()).abs() < 1e-6);
            for tick in &mut self.ticks {
                tick.label = Some(Line::plain(grouped(&format!("{:.0}", tick.value).replace('-', "\u{2212}"))));
            }
        }
    }

    fn log(axis: &Axis, (low, high): (f64, f64), reach: Reach) -> Self {
        let from_zero = reach == Reach::FromZero;
        // Values that are not above 0 cannot be drawn.
        let low = if low > 0.0 { low } else { high * 1e-3 };
        let (mut bottom, mut top) = (low.log10(), high.log10());
        if top - bottom < 0.02 {
            (bottom, top) = (bottom - 0.05, top + 0.05);
        }
        if reach == Reach::Enclosing && axis.limits == (None, None) {
            return Self::enclosing(axis, 10f64.powf(bottom), 10f64.powf(top));
        }
        let room = 0.05 * (top - bottom);
        (bottom, top) = (bottom - room, top + room);
        let decades = top - bottom;
        if from_zero || decades > 1.6 {
            let (down, up) = (bottom.floor(), top.ceil());
            bottom = if from_zero || bottom - down < 0.5 { down } else { bottom };
            top = if up - top < 0.5 { up } else { top };
        }
        if let Some((low, high)) = limited(axis, 10f64.powf(bottom), 10f64.powf(top)) {
            (bottom, top) = (low.log10(), high.log10());
        }
        let (low, high) = (10f64.powf(bottom), 10f64.powf(top));
        let inside = |value: f64| value >= low * 0.999_999 && value <= high * 1.000_001;
        let (first, last) = (bottom.floor() as i32, top.ceil() as i32);
        let mut ticks = Vec::new();
        if top - bottom > 1.6 {
            // Limits the number of labels, so that they can be read.
            let most = axis.tick_count.map_or(7, |count| i32::try_from(count).unwrap_or(7));
            let every = ((last - first) / most + 1).max(1);
            for exponent in first..=last {
                let decade = 10f64.powi(exponent);
                for digit in 1..10 {
                    let value = f64::from(digit) * decade;
                    let label = (digit == 1 && (exponent - first) % every == 0).then(|| Line::power("", exponent, ""));
                    if inside(value) && (label.is_some() || every == 1) {
                        ticks.push(Tick { value, label });
                    }
                }
            }
        } else {
            let mut values: Vec<f64> = (first..=last)
                .flat_map(|exponent| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(exponent)))
                .filter(|value| inside(*value))
                .collect();
            if let Some(count) = axis.tick_count {
                values = ticks_between(low, high, count).into_iter().filter(|value| *value > 0.0).collect();
            } else if values.len() < 3 {
                // Adds ticks if few would be left: values cannot be read with only two numbers.
                let between = |count: usize| -> Vec<f64> {
                    ticks_between(low, high, count).into_iter().filter(|value| *value > 0.0 && inside(*value)).collect()
                };
                values = (4..10).map(between).find(|ticks| ticks.len() > 2).unwrap_or_else(|| between(4));
            }
            ticks.extend(values.into_iter().map(|value| Tick { value, label: Some(Line::plain(tick_text(value))) }));
        }
        Self { low, high, scale: Scale::Log, ticks, factor: 1.0, title: Line::plain(axis.title()) }
    }

    /// A logarithmic axis with labelled ticks at both ends and at least three ticks.
    fn enclosing(axis: &Axis, low: f64, high: f64) -> Self {
        let values = enclosing_ticks(low, high, axis.tick_count.unwrap_or(7));
        let (low, high) = (values.first().copied().unwrap_or(low), values.last().copied().unwrap_or(high));
        let step = values.windows(2).map(|two| two[1] - two[0]).fold(f64::INFINITY, f64::min);
        // With three digits, 0.998 and 0.999 could not be distinguished from 1.
        let label = |value: f64| match decimals(step) {
            few @ 3.. => format!("{value:.few$}"),
            _ => tick_text(value),
        };
        let ticks = values.iter().map(|value| Tick { value: *value, label: Some(Line::plain(label(*value))) });
        Self { low, high, scale: Scale::Log, ticks: ticks.collect(), factor: 1.0, title: Line::plain(axis.title()) }
    }

    /// The position of a value of the chart: 0 at the lower end, 1 at the upper.
    pub fn place(&self, value: f64) -> f64 {
        let value = value * self.factor;
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value <= 0.0 => 0.0,
            Scale::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The position of a tick.
    pub fn tick_place(&self, tick: &Tick) -> f64 {
        self.place(tick.value / self.factor)
    }
}

/// Digits of ticks per power of ten on a logarithmic axis, from few to many.
const DIGITS: [&[f64]; 4] =
    [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]];

/// Round numbers from one below `low` to one above `high`: at least three, at most about `most`, and not much beyond `low` and `high`.
fn enclosing_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32 + 1);
    let of_digits = |digits: &&[f64]| -> Vec<f64> {
        let all = (first..=last).flat_map(|exponent| digits.iter().map(move |digit| digit * 10f64.powi(exponent)));
        let all: Vec<f64> = all.collect();
        let from = all.iter().rposition(|value| *value <= low * 1.000_001).unwrap_or(0);
        let to = all.iter().position(|value| *value >= high * 0.999_999).unwrap_or(all.len() - 1);
        all[from..=to.max(from)].to_vec()
    };
    let reach = |ticks: &Vec<f64>| match (ticks.first(), ticks.last()) {
        (Some(first), Some(last)) => (last / first).ln() / (high / low).ln(),
        _ => f64::INFINITY,
    };
    let suits = |ticks: &Vec<f64>| (3..=most.max(3)).contains(&ticks.len()) && reach(ticks) < 1.5;
    DIGITS.iter().map(of_digits).find(suits).unwrap_or_else(|| {
        let step = step(low, high, most.clamp(2, 5) - 1);
        multiples(step, (low / step + 1e-6).floor().max(1.0) * step, (high / step - 1e-6).ceil() * step)
    })
}

/// The ends that an author sets for an axis; an end that is not set keeps its usual value. `None` if they leave no range.
fn limited(axis: &Axis, low: f64, high: f64) -> Option<(f64, f64)> {
    let ends = (axis.limits.0.unwrap_or(low), axis.limits.1.unwrap_or(high));
    let is_sound = axis.scale == Scale::Linear || ends.0 > 0.0;
    (axis.limits != (None, None) && ends.0 < ends.1 && is_sound).then_some(ends)
}

/// The distance between ticks if there are about `count` of them. Steps of 25, 250, … are allowed; 2.5 is not, because it needs one
/// decimal more than 2 and 5.
fn step(low: f64, high: f64, count: usize) -> f64 {
    let least = 0.999 * (high - low) / count.max(1) as f64;
    let step = round_up(least);
    if step >= 50.0 && step / 2.0 >= least { step / 2.0 } else { step }
}

/// The unit with which the numbers of an axis of times are short, and the factor from seconds to it. `None` for other axes, and for one
/// that keeps its unit.
pub(super) fn time_unit(axis: &Axis, greatest: f64) -> Option<(&'static str, f64)> {
    if axis.unit == "s" && !axis.keeps_unit { unit_of_times(greatest) } else { None }
}

/// The unit or power of ten with which numbers are short, and the title that names it.
fn multiple(axis: &Axis, greatest: f64) -> (f64, Line) {
    let titled = |unit: &str| Line::plain(Axis::new(axis.name.clone(), unit).title());
    if axis.keeps_unit || greatest <= 0.0 || !greatest.is_finite() {
        return (1.0, titled(&axis.unit));
    }
    if let Some((unit, factor)) = time_unit(axis, greatest) {
        return (factor, titled(unit));
    }
    if (1e-3..1e5).contains(&greatest) {
        return (1.0, titled(&axis.unit));
    }
    let exponent = 3 * (greatest.log10() / 3.0).floor() as i32;
    let unit = if axis.unit.is_empty() { ")".to_owned() } else { format!(" {})", axis.unit) };
    (10f64.powi(-exponent), Line::power(&format!("{} (", axis.name), exponent, &unit))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn labels(ruler: &Ruler) -> Vec<String> {
        let text = |line: &Line| {
            line.0.iter().map(|span| if span.raised { format!("^{}", span.text) } else { span.text.clone() }).collect()
        };
        ruler.ticks.iter().filter_map(|tick| tick.label.as_ref()).map(text).collect()
    }

    #[test]
    fn numbers_are_round_and_short_and_the_title_has_the_unit() {
        let ruler = Ruler::new(&Axis::new("Epoch time", "s"), (0.0, 186.0), Reach::FromZero, 4);
        assert_eq!(labels(&ruler), ["0", "50", "100", "150", "200"]);
        assert_eq!(ruler.title, Line::plain("Epoch time (s)"));
        let ruler = Ruler::new(&Axis::new("Step time", "s"), (0.0, 0.012), Reach::FromZero, 4);
        assert_eq!((labels(&ruler).last().unwrap().as_str(), &ruler.title), ("15", &Line::plain("Step time (ms)")));
        let ruler = Ruler::new(&Axis::new("Distinct images", "images/s"), (0.0, 3.1e5), Reach::FromZero, 4);
        assert_eq!(ruler.title, Line::power("Distinct images (", 3, " images/s)"));
        assert_eq!(labels(&ruler).last().unwrap(), "300");
    }

    #[test]
    fn decades_are_powers_of_ten() {
        let axis = Axis { scale: Scale::Log, ..Axis::new("Loss", "") };
        let ruler = Ruler::new(&axis, (0.013, 2.1), Reach::Free, 4);
        assert_eq!(labels(&ruler), ["10^\u{2212}2", "10^\u{2212}1", "10^0"]);
        assert!(ruler.ticks.len() > 15);
        let narrow = Ruler::new(&axis, (0.8, 3.2), Reach::Free, 4);
        assert_eq!(labels(&narrow), ["1", "2", "3"]);
    }

    #[test]
    fn an_axis_of_ratios_encloses_them_with_three_labels_at_least() {
        for (low, high) in
            [(0.55, 1.0), (1.0, 1.49), (0.9, 1.02), (0.999, 1.001), (0.05, 3.0), (0.5, 2.0), (1e-4, 60.0)]
        {
            for scale in [Scale::Linear, Scale::Log] {
                let ruler = Ruler::new(&Axis { scale, ..Axis::new("ratio", "×") }, (low, high), Reach::Enclosing, 5);
                let names = labels(&ruler);
                let mut once = names.clone();
                once.dedup();
                assert!(names.len() >= 3 && once.len() == names.len(), "{low} {high}: {names:?}");
                let (first, last) = (ruler.ticks.first().unwrap().value, ruler.ticks.last().unwrap().value);
                assert!(first <= low * 1.000_01 && last >= high * 0.999_99, "{low} {high}: {names:?}");
            }
        }
    }

    #[test]
    fn an_axis_has_about_as_many_ticks_as_an_author_says() {
        for scale in [Scale::Linear, Scale::Log] {
            let count = |tick_count| {
                let axis = Axis { scale, tick_count, ..Axis::new("Loss", "") };
                labels(&Ruler::new(&axis, (0.8, 3.2), Reach::Free, 5)).len()
            };
            assert!(count(Some(2)) < count(None) && count(Some(12)) > count(None), "{scale:?}");
        }
    }

    #[test]
    fn odd_values_make_an_axis_all_the_same() {
        for (low, high) in
            [(f64::NAN, 1.0), (0.0, 0.0), (-5.0, -5.0), (1.0, f64::INFINITY), (3.0, 1.0), (1e-300, 1e300)]
        {
            for scale in [Scale::Linear, Scale::Log] {
                let ruler = Ruler::new(&Axis { scale, ..Axis::new("x", "s") }, (low, high), Reach::FromZero, 4);
                assert!(ruler.low < ruler.high, "{low} {high}: {ruler:?}");
                assert!(ruler.ticks.len() < 500);
                assert!((0.0..=1.0).contains(&ruler.place(high)));
            }
        }
    }
}
