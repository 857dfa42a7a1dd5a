//! Files and text that other programs wrote: opened without following links or waiting for anyone, read with limits, and shown so
//! that they cannot control a terminal or mislead a reader.

mod file;
mod line;
mod place;
mod text;

pub use file::{free_bytes, keep_files_from_others, open, open_ours, open_ours_with, read, read_ours, regular};
pub use line::{Line, Lines, MOST_LINE_BYTES};
pub use place::{cache_folder, config_folder, data_folder, state_folder};
pub use text::{message, misleads, printable};
