//! Memory that all ranks of a node map, so that they hold one copy of a data set. It has no name, so nothing is left behind however ranks
//! end.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of an anonymous file in memory, mapped by this process.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// The file's identity on this node.
    pub inode: u64,
    /// Stays open, because other processes open it through this one.
    file: OwnedFd,
}

// SAFETY: this is plain memory; the callers of `part_mut` agree on who may write which part.
unsafe impl Send for Mapping {}
// SAFETY: shared references only read, and nobody writes once all parts have been filled.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Creates `len` bytes of zeros that other processes can map.
    pub fn create(len: usize) -> io::Result<Self> {
        let file = memfd_create(c"multicard-images", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, len as u64)?;
        Self::map(file, len)
    }

    /// Maps memory that another process of this user has created, given that process's id and the number of its file there.
    pub fn open([process, file]: [i64; 2], len: usize) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(format!("/proc/{process}/fd/{file}"))?;
        if file.metadata()?.len() != len as u64 {
            return Err(io::Error::other("the other process's memory is of another size"));
        }
        Self::map(file.into(), len)
    }

    fn map(file: OwnedFd, len: usize) -> io::Result<Self> {
        let inode = fstat(&file)?.st_ino;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this is a new mapping at an address that the kernel chooses. An empty mapping is refused, hence at least one byte.
        let start = unsafe { mmap(ptr::null_mut(), len.max(1), access, MapFlags::SHARED, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, len, inode, file })
    }

    /// The address by which another process finds it: this process's id and the number of the file.
    pub fn address(&self) -> [i64; 2] {
        [i64::from(std::process::id()), i64::from(self.file.as_raw_fd())]
    }

    /// A part to fill. Until it is filled, no other process may read or write it.
    pub fn part_mut(&mut self, part: Range<usize>) -> &mut [u8] {
        assert!(part.start <= part.end && part.end <= self.len, "a part beyond the mapping");
        // SAFETY: the part is within the mapping, which lives as long as `self`. It is exclusive here by `&mut`, and elsewhere by
        // agreement.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(part.start), part.len()) }
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, `len` bytes long and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; no reference outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len.max(1)) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads_and_nothing_is_left() {
        let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let maps = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("multicard-images").count();
        let (files_before, maps_before) = (open_files(), maps());
        let mut first = Mapping::create(10_000).unwrap();
        let second = Mapping::open(first.address(), 10_000).unwrap();
        assert_eq!((first.inode, maps()), (second.inode, maps_before + 2));
        first.part_mut(5000..5003).copy_from_slice(&[1, 2, 3]);
        assert_eq!(second[4999..5004], [0, 1, 2, 3, 0]);
        assert!(Mapping::open(first.address(), 9_999).is_err());
        drop(first);
        assert_eq!(second[5002], 3, "it lives as long as somebody maps it");
        drop(second);
        // Other tests open and close files meanwhile, but no others of this name.
        assert!(maps() <= maps_before && open_files() <= files_before + 64);
    }

    #[test]
    fn an_empty_one_is_empty() {
        assert!(Mapping::create(0).unwrap().is_empty());
    }
}
