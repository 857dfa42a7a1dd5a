//! Opens files that others can replace: only regular files, of limited size, and in multicard's own folders no links.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Lets only the owner write new files and folders of this process and its children. The owner may always read and write them and enter
/// folders, whatever the umask was. Whether other users may read them is still decided by the umask.
pub fn keep_files_from_others() {
    let others = Mode::WGRP | Mode::WOTH;
    // The only way to read the umask is to set it.
    let before = rustix::process::umask(others);
    rustix::process::umask(before.difference(Mode::RWXU) | others);
}

/// Free space on the disk of a folder; `None` if the file system does not report it.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let statistics = rustix::fs::statvfs(folder).ok()?;
    (statistics.f_blocks > 0).then(|| statistics.f_bavail.saturating_mul(statistics.f_frsize))
}

/// The number of files that can still be made on the disk of a folder (its free inodes); `None` if the file system has no such limit, or does
/// not report it.
pub fn free_files(folder: &Path) -> Option<u64> {
    let statistics = rustix::fs::statvfs(folder).ok()?;
    (statistics.f_files > 0).then_some(statistics.f_favail)
}

/// Whether the disk of a folder is full: not even the smallest files of a database have room.
pub fn has_no_room(folder: &Path) -> bool {
    free_bytes(folder).is_some_and(|free_bytes| free_bytes < 1 << 20)
}

/// Device and inode: what a file or folder keeps when it is renamed, and a copy does not have.
pub fn identity(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// Whether a folder that is open was removed, so that it cannot come back. False for one that was only renamed, and if its file system does
/// not answer.
pub fn is_removed(folder: &File) -> bool {
    folder.metadata().is_ok_and(|about| about.nlink() == 0)
}

/// Opens a file that the user named or put into a data set. Links are followed, since the user made them.
///
/// # Errors
/// It cannot be opened, or it is not a regular file: a pipe would wait for a writer, a device may have no end.
pub fn open(path: &Path) -> io::Result<File> {
    checked(path, OpenOptions::new().read(true), OFlags::NONBLOCK)
}

/// Opens a file that the user named and that is read from beginning to end; it may be a pipe or a terminal.
///
/// # Errors
/// It cannot be opened, or it is a pipe without a writer, which would block forever.
pub fn open_stream(path: &Path) -> io::Result<Box<dyn Read>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut first = [0];
    let mut read = 0;
    if file.metadata()?.file_type().is_fifo() {
        read = match file.read(&mut first) {
            Ok(0) => return Err(io::Error::other("it is a pipe that no program writes to: start its writer first")),
            Ok(read) => read,
            // Its writer has not written anything yet.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
    }
    let status = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, status - OFlags::NONBLOCK)?;
    Ok(Box::new(io::Cursor::new(first).take(read as u64).chain(file)))
}

/// Opens a file in one of multicard's own folders for reading. A link in its place is an error.
///
/// # Errors
/// It cannot be opened, or is a link or not a regular file.
pub fn open_ours(path: &Path) -> io::Result<File> {
    open_ours_with(path, OpenOptions::new().read(true))
}

/// Opens a file as [`open_ours`] does, with other options, such as options for writing.
///
/// # Errors
/// The errors of [`open_ours`].
pub fn open_ours_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    checked(path, options, OFlags::NONBLOCK | OFlags::NOFOLLOW)
}

/// Creates a file in one of multicard's own folders and opens it for reading and writing. If root creates it, it gets the user and the group
/// that own the folder: otherwise the owner of a session could not write files that root made while reading the session.
///
/// # Errors
/// It exists, or it cannot be created.
pub fn create_ours(path: &Path) -> io::Result<File> {
    // A mere name has the empty path as its parent.
    let folder = Path::new(".").join(path.parent().unwrap_or(path));
    // The file is created in the folder whose owner is read here, even if another process puts another folder in its place.
    let folder = rustix::fs::open(&folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let name = path.file_name().unwrap_or_default();
    let file = File::from(rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(0o666))?);
    if rustix::process::geteuid().is_root() {
        let about = rustix::fs::fstat(&folder)?;
        // Some network file systems refuse that. Root can use the file all the same.
        let _ = fchown(&file, Some(about.st_uid), Some(about.st_gid));
    }
    Ok(file)
}

fn checked(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    // With these flags, a link gives ELOOP, and a pipe without a reader or a socket ENXIO.
    let file = opened.map_err(|error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::LOOP) if flags.contains(OFlags::NOFOLLOW) => refused("a link, which is not followed"),
        Some(rustix::io::Errno::NXIO) => refused("not a regular file"),
        _ => error,
    })?;
    regular(&file)?;
    Ok(file)
}

/// The length of a regular file.
///
/// # Errors
/// It is a folder, pipe, device or socket.
pub fn regular(file: &File) -> io::Result<u64> {
    let about = file.metadata()?;
    if about.is_file() { Ok(about.len()) } else { Err(refused("not a regular file")) }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}: replace it by the file itself"))
}

/// Reads a file of at most `most_bytes` that the user named.
///
/// # Errors
/// Those of [`open`], and a longer file.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    whole(open(path)?, most_bytes)
}

/// Reads a file of at most `most_bytes` in one of multicard's own folders.
///
/// # Errors
/// Those of [`open_ours`], and a longer file.
pub fn read_ours(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    whole(open_ours(path)?, most_bytes)
}

fn whole(file: File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let too_long = || {
        let reason = format!("it is longer than {most_bytes} bytes, more than any such file has");
        io::Error::new(io::ErrorKind::FileTooLarge, reason)
    };
    // The size is checked before anything is read, and reading is limited in case the file grows.
    if regular(&file)? > most_bytes {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes { Err(too_long()) } else { Ok(bytes) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn pipes_devices_and_folders_are_refused_at_once_and_links_where_they_are_not_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        symlink("/dev/zero", at("zeros")).unwrap();
        for refused in [at("pipe"), at("zeros"), folder.path().to_owned()] {
            let error = open(&refused).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{}: {error}", refused.display());
            assert!(open_ours(&refused).is_err());
            assert!(read(&refused, 9).is_err());
        }
        let write = open_ours_with(&at("pipe"), OpenOptions::new().append(true)).unwrap_err().to_string();
        assert!(write.contains("not a regular file"), "{write}");
        fs::write(at("file"), "12345").unwrap();
        symlink(at("file"), at("link")).unwrap();
        assert_eq!(read(&at("link"), 5).unwrap(), b"12345");
        let error = open_ours(&at("link")).unwrap_err().to_string();
        assert!(error.contains("a link, which is not followed"), "{error}");
        assert!(open_ours_with(&at("link"), OpenOptions::new().append(true)).is_err());
        assert_eq!(read_ours(&at("file"), 5).unwrap(), b"12345");
        assert_eq!(open(&at("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_created_only_where_none_is_and_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(regular(&create_ours(&at("file")).unwrap()).unwrap(), 0);
        symlink(at("absent"), at("link")).unwrap();
        for taken in ["file", "link"] {
            assert_eq!(create_ours(&at(taken)).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{taken}");
        }
        assert!(!at("absent").exists());
    }

    #[test]
    fn a_file_that_root_creates_belongs_to_the_owner_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        if chown(folder.path(), Some(4711), Some(4712)).is_err() {
            println!("skipped: only root can give files to another user");
            return;
        }
        let about = create_ours(&folder.path().join("file")).unwrap().metadata().unwrap();
        assert_eq!((about.uid(), about.gid()), (4711, 4712));
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_not_waited_for_if_nobody_writes_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = open_stream(&pipe).err().unwrap().to_string();
        assert!(error.contains("a pipe that no program writes to"), "{error}");
        let text = |mut stream: Box<dyn Read>| {
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        };
        // One writer that has written, and one that has not yet.
        for waits in ["", "sleep 0.2;"] {
            let script = format!("exec > {}; {waits} echo whole words", pipe.display());
            // Both ends are open here, so that the shell's end opens at once.
            let held = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
            let mut writer = Command::new("sh").args(["-c", &script]).spawn().unwrap();
            if waits.is_empty() {
                writer.wait().unwrap();
            }
            let stream = open_stream(&pipe).unwrap();
            writer.wait().unwrap();
            drop(held);
            assert_eq!(text(stream).unwrap(), "whole words\n");
        }
        fs::write(folder.path().join("file"), "12345").unwrap();
        assert_eq!(text(open_stream(&folder.path().join("file")).unwrap()).unwrap(), "12345");
        assert!(open_stream(folder.path()).and_then(text).is_err());
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&path, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("longer than 1048576 bytes"), "{error}");
    }
}
