//! The x positions of a long curve. A million positions do not fit into a processor's cache, so a search first looks among landmarks: a
//! copy of every eighth position.

use std::ops::Deref;

/// Each position whose index is a multiple of this is a landmark.
pub(super) const STRIDE: usize = 8;

/// Ascending positions; new ones are added at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    all: Vec<f64>,
    /// The landmarks; the first position is one.
    landmarks: Vec<f64>,
}

impl Places {
    /// Adds a position, which must not be before the last one.
    pub fn push(&mut self, place: f64) {
        if self.all.len().is_multiple_of(STRIDE) {
            self.landmarks.push(place);
        }
        self.all.push(place);
    }

    /// The first position of each block of [`STRIDE`] positions.
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
