//! Which values files leave out, because reading adds them again.

/// Whether a value is its type's default.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn one() -> u32 {
    1
}

pub(super) fn is_one(number: &u32) -> bool {
    *number == 1
}
