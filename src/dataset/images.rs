//! Grey images and their labels, in memory.

/// Labelled images of one size, one byte per pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Height of an image, in pixels.
    pub rows: usize,
    /// Width of an image, in pixels.
    pub columns: usize,
    /// Count × rows × columns bytes, row by row; 0 is background.
    pub pixels: Vec<u8>,
    /// Class of each image, 0 to 9.
    pub labels: Vec<u8>,
}

impl Images {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The bytes of one image, row by row.
    ///
    /// # Panics
    /// When `index` is not below [`Self::len`].
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.rows * self.columns;
        &self.pixels[index * size..(index + 1) * size]
    }

    /// Keeps at most the first `count` images.
    pub fn truncate(&mut self, count: usize) {
        self.labels.truncate(count);
        self.pixels.truncate(count.saturating_mul(self.rows * self.columns));
    }
}

/// The two parts of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    /// Training images.
    pub train: Images,
    /// Test images.
    pub test: Images,
}
