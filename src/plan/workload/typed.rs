//! Levels as types: enums whose variants are the named levels of a factor, and readers of the others. The errors name the factor.

use crate::plan::{Binding, Level, Levels};

/// An enum whose variants are the named levels of one factor, the default first.
macro_rules! levels {
    ($(#[$doc:meta])* $name:ident = $key:literal { $($(#[$variant_doc:meta])* $variant:ident = $level:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// The factor's key in plans.
            pub const KEY: &'static str = $key;
            /// The names of its levels, the default first.
            pub const NAMES: &'static [&'static str] = &[$($level),+];

            /// The level's name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $level),+ }
            }

            /// The level that a cell has.
            pub(in crate::plan) fn read(levels: &$crate::plan::Levels) -> Result<Self, String> {
                match levels.get($key) {
                    $(Some($crate::plan::Level::Text(name)) if name.as_ref() == $level => Ok(Self::$variant),)+
                    Some(other) => Err(format!("{} = {other} is none of {}", $key, Self::NAMES.join(", "))),
                    None => Err(format!("the level of {} is missing", $key)),
                }
            }
        }
    };
}
pub(super) use levels;

/// A switch.
pub(super) fn switch(levels: &Levels, key: &str) -> Result<bool, String> {
    match levels.get(key).and_then(Level::as_text) {
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        _ => Err(format!("the level of {key} must be on or off")),
    }
}

/// A whole number from 0.
pub(super) fn count(levels: &Levels, key: &str) -> Result<usize, String> {
    let value = levels.get(key).and_then(Level::as_integer).and_then(|value| usize::try_from(value).ok());
    value.ok_or_else(|| format!("the level of {key} must be a whole number"))
}

/// A real number.
pub(super) fn number(levels: &Levels, key: &str) -> Result<f64, String> {
    levels.get(key).and_then(Level::as_number).ok_or_else(|| format!("the level of {key} must be a number"))
}

/// How ranks and their memory are bound to NUMA nodes.
pub(super) fn binding(levels: &Levels) -> Result<Binding, String> {
    let level = levels.get(Binding::KEY).ok_or_else(|| format!("the level of {} is missing", Binding::KEY))?;
    let named = level.as_text().and_then(Binding::of_name);
    named.ok_or_else(|| format!("{} = {level} is none of {}", Binding::KEY, Binding::NAMES.join(", ")))
}
