//! A formula whose names and units are known, and its value for a run.

use std::collections::BTreeMap;

use crate::plan::{Function, Key, Level, Levels, Operator};

/// A formula whose names and units are known. Its values are in base units.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Code {
    Number(f64),
    /// A measure of the run, times the factor of its unit.
    Measure(Key, f64),
    /// The level of a factor, times the factor of its unit.
    Level(Key, f64),
    Negative(Box<Code>),
    Pair(Operator, Box<Code>, Box<Code>),
    Call(Function, Vec<Code>),
}

/// Why a formula has no value for a run.
pub(super) enum NoValue {
    /// The run lacks a measure or level that it needs.
    Lacking,
    /// It is not defined for the run's values: the reason.
    Undefined(String),
}

/// The values of a run.
pub(super) struct Values<'a> {
    pub measures: &'a BTreeMap<Key, f64>,
    pub levels: &'a Levels,
}

impl Code {
    /// The value for a run.
    pub(super) fn value(&self, of_run: &Values) -> Result<f64, NoValue> {
        let undefined = |reason: &str| Err(NoValue::Undefined(reason.to_owned()));
        match self {
            Self::Number(number) => Ok(*number),
            Self::Measure(key, factor) => of_run.measures.get(key).map(|value| value * factor).ok_or(NoValue::Lacking),
            Self::Level(key, factor) => {
                let level = of_run.levels.get(key).and_then(Level::as_number);
                level.map(|value| value * factor).ok_or(NoValue::Lacking)
            }
            Self::Negative(part) => Ok(-part.value(of_run)?),
            Self::Pair(operator, left, right) => {
                let (left, right_value) = (left.value(of_run)?, right.value(of_run)?);
                match operator {
                    Operator::Add => Ok(left + right_value),
                    Operator::Subtract => Ok(left - right_value),
                    Operator::Multiply => Ok(left * right_value),
                    Operator::Divide if right_value == 0.0 => {
                        let what = if let Self::Measure(key, _) | Self::Level(key, _) = &**right {
                            key
                        } else {
                            "the divisor"
                        };
                        undefined(&format!("division by zero: {what} is 0"))
                    }
                    Operator::Divide => Ok(left / right_value),
                }
            }
            Self::Call(function, parts) => {
                let values = parts.iter().map(|part| part.value(of_run)).collect::<Result<Vec<_>, _>>()?;
                let first = values.first().copied().unwrap_or(f64::NAN);
                match function {
                    Function::Min => Ok(values.into_iter().fold(f64::INFINITY, f64::min)),
                    Function::Max => Ok(values.into_iter().fold(f64::NEG_INFINITY, f64::max)),
                    Function::Sqrt if first < 0.0 => undefined("the square root of a number below 0"),
                    Function::Sqrt => Ok(first.sqrt()),
                    Function::Log2 if first <= 0.0 => undefined("the logarithm of a number that is not above 0"),
                    Function::Log2 => Ok(first.log2()),
                }
            }
        }
    }

    /// The value of a part without names.
    pub(super) fn constant(&self) -> Option<f64> {
        let empty = Values { measures: &BTreeMap::new(), levels: &Levels::default() };
        self.value(&empty).ok()
    }
}
