//! Files and text that other programs wrote: opened without following links or waiting for a writer, read with limits, and shown so that
//! they cannot control a terminal or mislead a reader. Also files that the user names for writing, which may be of any kind.

mod file;
mod limits;
mod line;
mod moment;
mod output;
mod place;
mod text;

pub use file::{
    create_ours, free_bytes, free_files, has_no_room, identity, is_removed, keep_files_from_others, open, open_ours,
    open_ours_with, open_stream, read, read_ours, regular,
};
pub use limits::{LONG_FILE, advice, is_full_disk, most_file_bytes, no_more_files, start_advice};
pub use line::{Line, Lines, MOST_LINE_BYTES};
pub use moment::moment;
pub use output::{Output, put_in_place, session_of, write, write_ours};
pub use place::{cache_folder, config_folder, data_folder, disk_space, state_folder, temporary_folder};
pub use text::{code_parts, message, misleads, printable, say, shortened, with_ellipsis};
