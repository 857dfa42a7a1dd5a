//! The images that a rank's loaders prepare: bytes in memory, or files that are decoded whenever they are needed.

use std::ops::Deref;
use std::path::PathBuf;

use multicard::dataset::{ImageFiles, Images};

use super::mapping::Mapping;

/// One part of the data set.
pub struct Samples {
    /// The class of each image.
    pub labels: Vec<u16>,
    /// Their pixels, or the files that hold them.
    pub content: Content,
}

/// The place of the pixels.
pub enum Content {
    /// Pixels are in memory.
    Bytes {
        /// Rows, columns and channels of each image.
        shape: [usize; 3],
        /// `[images, rows, columns, channels]`.
        pixels: Pixels,
    },
    /// Pixels are in files.
    Files(Vec<PathBuf>),
}

/// Bytes in memory.
pub enum Pixels {
    /// Memory of this process.
    Own(Vec<u8>),
    /// One copy for all ranks of the node.
    Shared(Mapping),
}

impl Deref for Pixels {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(mapping) => mapping,
        }
    }
}

impl From<Images> for Samples {
    fn from(images: Images) -> Self {
        let shape = [images.rows.max(1), images.columns.max(1), 1];
        let content = Content::Bytes { shape, pixels: Pixels::Own(images.pixels) };
        Self { labels: images.labels.into_iter().map(u16::from).collect(), content }
    }
}

impl From<ImageFiles> for Samples {
    fn from(files: ImageFiles) -> Self {
        Self { labels: files.labels, content: Content::Files(files.paths) }
    }
}

impl Samples {
    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }
}

#[cfg(test)]
#[path = "samples_tests.rs"]
mod tests;
