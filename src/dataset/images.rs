//! Images of one channel and their labels, in memory.

/// Images of one size, one byte a pixel, with a label each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Height of an image, in pixels.
    pub rows: usize,
    /// Width of an image, in pixels.
    pub columns: usize,
    /// Count × rows × columns bytes, row by row; 0 is background.
    pub pixels: Vec<u8>,
    /// The class of each image, 0 to 9.
    pub labels: Vec<u8>,
}

impl Images {
    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The bytes of one image, row by row. Panics where `index` is not below [`Self::len`].
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.rows * self.columns;
        &self.pixels[index * size..(index + 1) * size]
    }

    /// Keeps the first `count` images; all where there are fewer.
    pub fn truncate(&mut self, count: usize) {
        self.labels.truncate(count);
        self.pixels.truncate(count.saturating_mul(self.rows * self.columns));
    }
}

/// A data set in its two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    /// To train on.
    pub train: Images,
    /// To evaluate on.
    pub test: Images,
}
