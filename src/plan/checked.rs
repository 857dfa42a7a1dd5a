//! Check measures of a plan: measures that must agree between cells if these do the same work, and how far they may differ.

use std::fmt;
use std::str::FromStr;

use super::{Key, MeasureUnit};

/// How far the check values of two cells may differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Margin {
    /// The largest difference in the measure's own unit: 0.01 of an accuracy is one percentage point. In plans, the own unit of a formula is
    /// the one that it declares; in runs, whose values of formulas are in base units (s, B), so are margins.
    Absolute(f64),
    /// The largest difference as a share of the value.
    Relative(f64),
}

impl Margin {
    /// Whether both are shares of values, or both are numbers in the measure's own unit.
    pub fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The margin of the same values in another unit. A share stays as it is, and so does a number if a unit is unknown or if the units are
    /// not of one quantity.
    pub fn converted(self, from: &str, to: &str) -> Self {
        let Self::Absolute(margin) = self else { return self };
        if from == to || from.is_empty() || to.is_empty() {
            return self;
        }
        let [from, to] = [from, to].map(MeasureUnit::parse);
        if from.is_like(&to) { Self::Absolute(margin * from.factor / to.factor) } else { self }
    }

    /// The margin of the same values in base units (s, B), if it is a number in `unit`. A share stays as it is.
    pub fn in_base_units(self, unit: &str) -> Self {
        match self {
            Self::Absolute(margin) => Self::Absolute(margin * MeasureUnit::parse(unit).factor),
            Self::Relative(_) => self,
        }
    }
}

impl FromStr for Margin {
    type Err = &'static str;

    /// `2 %` is a share of the value.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let share = percent.map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share < 1.0);
        share
            .map(Self::Relative)
            .ok_or("must be a share of the value such as \"2 %\", or a number in the measure's own unit")
    }
}

/// The margin as plans write it: a number, or `2 %`.
impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(margin) => write!(f, "{margin}"),
            Self::Relative(share) => write!(f, "{} %", (share * 1e14).round() / 1e12),
        }
    }
}

/// A measure by which work is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The measure's key.
    pub measure: Key,
    /// Differences up to this one do not matter.
    pub margin: Margin,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_a_share_of_the_value_or_a_number_above_0() {
        for text in ["2 %", "0.1 %", "12.5 %", "33.3 %"] {
            let margin: Margin = text.parse().unwrap();
            assert_eq!(margin.to_string(), text);
        }
        assert_eq!("7%".parse(), Ok(Margin::Relative(0.07)));
        for text in ["", "2", "0 %", "-1 %", "100 %", "nan %", "two %"] {
            assert!(text.parse::<Margin>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_margin_in_the_measures_own_unit_is_converted_with_the_unit() {
        let half = Margin::Absolute(0.5);
        assert_eq!(half.converted("s", "ms"), Margin::Absolute(500.0));
        for (from, to) in [("s", "s"), ("", "ms"), ("s", ""), ("s", "tokens")] {
            assert_eq!(half.converted(from, to), half, "{from} to {to}");
        }
        assert_eq!(Margin::Relative(0.5).converted("s", "ms"), Margin::Relative(0.5));
    }

    #[test]
    fn a_margin_in_the_unit_of_a_formula_is_one_in_base_units_and_a_share_stays() {
        for (unit, expected) in [("ms", 0.0005), ("MiB", 524_288.0), ("%", 0.005), ("tokens", 0.5), ("", 0.5)] {
            let Margin::Absolute(margin) = Margin::Absolute(0.5).in_base_units(unit) else { panic!("{unit}") };
            assert!((margin / expected - 1.0).abs() < 1e-12, "{unit}: {margin}");
        }
        assert_eq!(Margin::Relative(0.5).in_base_units("ms"), Margin::Relative(0.5));
    }
}
