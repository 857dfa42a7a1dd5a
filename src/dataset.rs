//! Image data sets as bytes: where they are, IDX files, the procedural digits and the download of MNIST.

mod digits;
mod error;
mod fetch;
mod folder;
mod glyph;
mod idx;
mod images;
mod make;

pub use error::DatasetError;
pub use fetch::{MNIST_URLS, fetch_mnist};
pub use folder::{data_folder, load, present};
pub use images::{ImageSet, Images};
pub use make::make_digits;
