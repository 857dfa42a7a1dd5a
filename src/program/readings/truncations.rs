//! Whether a file was truncated since a moment, even if it has the same bytes again.
//!
//! A process that maps a file for itself and changes a page of it has a copy of that page. When the file is truncated before the page, Linux
//! takes the copy away (`unmap_mapping_range` with `even_cows`, mm/memory.c). No append does so. Therefore a changed byte in the copy of the
//! first page stays exactly as long as nobody writes the file anew. Sizes and times do not show this: a file may be truncated and written
//! within microseconds.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Notes whether a file is truncated. Truncations that leave a part of the first page are not noted: the file was smaller for a while, but
/// its beginning was not written again.
pub(super) struct Truncations {
    /// The copy of the first page.
    page: *mut c_void,
    /// The memory of this process. Where a page is gone, reading this file is an error, while reading through the pointer would end the process.
    memory: File,
    /// The changed byte at the start of the copy.
    mark: u8,
}

impl Truncations {
    /// Notes truncations of a file from now on, without a change to the file.
    ///
    /// # Errors
    /// The file is empty, its file system cannot map it, or this process cannot write to its own memory through `/proc`.
    pub fn of(file: &File) -> io::Result<Self> {
        let mut first = [0];
        file.read_exact_at(&mut first, 0)?;
        let memory = File::options().read(true).write(true).open("/proc/self/mem")?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this is a new mapping at an address that the kernel chooses. No reference to it is ever made.
        let page = unsafe { mmap(ptr::null_mut(), 1, access, MapFlags::PRIVATE, file, 0) }?;
        let truncations = Self { page, memory, mark: !first[0] };
        truncations.memory.write_all_at(&[truncations.mark], page as u64)?;
        Ok(truncations)
    }

    /// Whether the file was truncated since.
    pub fn happened(&self) -> bool {
        let mut now = [0];
        self.memory.read_exact_at(&mut now, self.page as u64).is_err() || now != [self.mark]
    }
}

impl Drop for Truncations {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length; there is no reference to it.
        let _ = unsafe { munmap(self.page, 1) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::path::Path;

    use super::*;

    const TEXT: &str = "epoch,accuracy\n1,0.5\n";

    /// Whether a file with the text counts as truncated once this was done to it.
    fn is_truncated_by(change: impl FnOnce(&Path)) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.csv");
        fs::write(&path, TEXT).unwrap();
        let truncations = Truncations::of(&File::open(&path).unwrap()).unwrap();
        assert!(!truncations.happened());
        assert_eq!(fs::read_to_string(&path).unwrap(), TEXT, "the file is unchanged");
        change(&path);
        truncations.happened()
    }

    fn append(path: &Path, text: &str) {
        OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_file_that_is_written_anew_was_truncated_whatever_it_contains_then() {
        let written = |text: String| is_truncated_by(|path| fs::write(path, text).unwrap());
        assert!(written(TEXT.to_owned()), "the same");
        assert!(written(format!("{TEXT}2,0.75\n")), "more");
        assert!(written(format!("{TEXT}{}", "2,0.75\n".repeat(10_000))), "much more");
        assert!(written(String::new()), "nothing");
        assert!(is_truncated_by(|path| {
            append(path, "2,0.75\n");
            fs::write(path, TEXT).unwrap();
        }));
    }

    #[test]
    fn what_grows_or_has_another_time_was_not_truncated() {
        assert!(!is_truncated_by(|path| append(path, "2,0.75\n")));
        assert!(!is_truncated_by(|path| append(path, &"2,0.75\n".repeat(10_000))));
        assert!(!is_truncated_by(|path| {
            let file = OpenOptions::new().append(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }));
        assert!(!is_truncated_by(|path| fs::remove_file(path).unwrap()), "it has only lost its name");
    }

    #[test]
    fn an_empty_file_has_nothing_to_be_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.csv");
        fs::write(&path, "").unwrap();
        assert!(Truncations::of(&File::open(&path).unwrap()).is_err());
    }
}
