//! Where the values of a long curve are, with landmarks among them: a million places do not fit into a cache.

use std::ops::Deref;

/// Places between two landmarks.
pub(super) const STRIDE: usize = 8;

/// Ascending places, which grow at their end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    all: Vec<f64>,
    /// Every [`STRIDE`]th place, the first one included.
    landmarks: Vec<f64>,
}

impl Places {
    /// Adds a place that is not before the last one.
    pub fn push(&mut self, place: f64) {
        if self.all.len().is_multiple_of(STRIDE) {
            self.landmarks.push(place);
        }
        self.all.push(place);
    }

    /// Where each block of [`STRIDE`] places begins.
    pub(super) fn landmarks(&self) -> &[f64] {
        &self.landmarks
    }
}

impl Deref for Places {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.all
    }
}

impl FromIterator<f64> for Places {
    fn from_iter<I: IntoIterator<Item = f64>>(places: I) -> Self {
        let mut all = Self::default();
        places.into_iter().for_each(|place| all.push(place));
        all
    }
}
