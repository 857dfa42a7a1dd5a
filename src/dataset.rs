//! Data sets: folders, IDX files, procedural digits, folders of image files, downloads, and text.

mod bilinear;
mod digits;
mod error;
mod fetch;
mod files;
mod folder;
mod glyph;
mod idx;
mod images;
mod make;
mod make_files;
mod obtain;
pub mod text;

pub use bilinear::{Axis, Real, enlarge, nearest_byte};
pub use error::DatasetError;
pub use fetch::{MNIST_URLS, Wanted, checksum, fetch_files, fetch_mnist};
pub use files::{FileSet, ImageFiles, Picture, class_count, decode, list_files, read_image};
pub use folder::{data_folder, load, whereabouts};
pub use images::{ImageSet, Images};
pub use make::make_digits;
pub use make_files::{FileFormat, make_files};
pub use obtain::{Progress, check, check_models, folder_of, image_sets, images, missing, obtain, prepare, present};
