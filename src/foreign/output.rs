//! Writes files that the user named: figures, tables, archives, plans. A file appears only when it is complete, and anything that is not a
//! regular file is written to and not replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The most links that are followed one after the other, as in the system itself.
const MOST_LINKS: u32 = 40;
/// The most names that are tried for an unfinished file.
const MOST_NAMES: u32 = 1000;
/// The `f_type` of the file system `/proc`, of statfs(2).
const PROC: i64 = 0x9fa0;

/// The files and folders of a session's folder, beside its index: `multicard help session`.
const OF_SESSIONS: [&str; 10] = [
    "session.toml",
    "session.lock",
    "journal.jsonl",
    "queue.json",
    "imported.json",
    "origin",
    "runs",
    "setup",
    "readers",
    "allocations",
];
/// How the names of an index's files begin.
const OF_INDEXES: &str = "session.sqlite";

/// A file that is being written. If it is dropped before [`Output::keep`], it leaves no trace.
///
/// A regular file is replaced as a whole: readers find either the old one or the new one, which gets the mode of the old one. Links are
/// followed, even to a target that does not exist yet. Terminals, other character devices, pipes with a reader and the open files of a
/// process (`/dev/stdout`, `/dev/fd/3`) are written to directly. Everything else is refused.
#[derive(Debug)]
pub struct Output {
    file: File,
    /// The temporary path while it is unfinished; `None` if it is written to directly.
    unfinished: Option<PathBuf>,
    place: PathBuf,
    /// Whether it replaces another file.
    replaces: bool,
}

impl Output {
    /// A file that replaces the file with this name.
    ///
    /// # Errors
    /// The folder cannot be written; the name belongs to a session; or something has the name that is not a file and cannot be written to
    /// directly.
    pub fn replacing(path: &Path) -> io::Result<Self> {
        let Some(place) = followed(path)? else { return Self::through(path) };
        refuse_files_of_sessions(&place)?;
        Self::at(place)
    }

    /// A file at a path whose links were followed.
    fn at(place: PathBuf) -> io::Result<Self> {
        match fs::symlink_metadata(&place) {
            Ok(about) if about.is_file() => {
                // A file that its mode protects from writing is not replaced either.
                drop(OpenOptions::new().write(true).open(&place)?);
                let output = Self::beside(place, true)?;
                output.file.set_permissions(about.permissions())?;
                Ok(output)
            }
            Ok(_) => Self::through(&place),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::beside(place, true),
            Err(error) => Err(error),
        }
    }

    /// A file with a name that does not exist yet.
    ///
    /// # Errors
    /// The name exists, even if only as a broken link, or the folder cannot be written.
    pub fn new(path: &Path) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(_) => Err(exists()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::beside(path.to_owned(), false),
            Err(error) => Err(error),
        }
    }

    /// An unfinished file in the folder of its final path.
    fn beside(place: PathBuf, replaces: bool) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if place.file_name().is_none() {
            return Err(refused("not the name of a file: choose one"));
        }
        for _ in 0..MOST_NAMES {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            // The final name itself may be as long as the system allows.
            let unfinished = place.with_file_name(format!(".multicard-{}-{number}.part", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&unfinished) {
                Ok(file) => return Ok(Self { file, unfinished: Some(unfinished), place, replaces }),
                // An earlier process with the same id may have left a file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("its folder is full of unfinished files .multicard-*.part: remove them"))
    }

    /// Opens something that is not a regular file, or that is open in a process, and writes to it directly.
    fn through(path: &Path) -> io::Result<Self> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().append(true).custom_flags(flags).open(path).map_err(|error| {
            match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NXIO) => refused("a socket, or a pipe that no program reads: start its reader first"),
                Some(Errno::ISDIR) => refused("a folder: choose the name of a file in it"),
                _ => error,
            }
        })?;
        let kind = file.metadata()?.file_type();
        if !(kind.is_file() || kind.is_fifo() || kind.is_char_device()) {
            return Err(refused("neither a regular file nor a pipe nor a terminal: choose another name"));
        }
        // Opening waits for a reader.
        let status = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, status - OFlags::NONBLOCK)?;
        Ok(Self { file, unfinished: None, place: path.to_owned(), replaces: true })
    }

    /// A second handle to the file, for a writer that needs its own.
    ///
    /// # Errors
    /// The process has too many files open.
    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// The current path of the unfinished file, for libraries that write by path, and for reading it back.
    pub fn path(&self) -> &Path {
        self.unfinished.as_deref().unwrap_or(&self.place)
    }

    /// Moves the finished file to its final path.
    ///
    /// # Errors
    /// The disk is full or broken, or something took the name of a new file in the meantime.
    pub fn keep(mut self) -> io::Result<()> {
        let Some(unfinished) = &self.unfinished else { return Ok(()) };
        self.file.sync_all()?;
        if self.replaces { fs::rename(unfinished, &self.place) } else { put_in_place(unfinished, &self.place) }?;
        self.unfinished = None;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            // If it cannot be removed either, the error says why.
            let _ = fs::remove_file(unfinished);
        }
    }
}

/// Writes a file that the user named, as [`Output::replacing`] does.
///
/// # Errors
/// Those of [`Output::replacing`] and [`Output::keep`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    written(Output::replacing(path)?, bytes)
}

/// Writes a whole file in a folder of multicard, such as the folder of a run.
///
/// # Errors
/// The errors of [`write`], except that the file may belong to a session.
pub fn write_ours(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let output = match followed(path)? {
        Some(place) => Output::at(place),
        None => Output::through(path),
    };
    written(output?, bytes)
}

fn written(mut output: Output, bytes: &[u8]) -> io::Result<()> {
    output.write_all(bytes)?;
    output.keep()
}

/// Refuses to replace what a session consists of.
fn refuse_files_of_sessions(place: &Path) -> io::Result<()> {
    let Some(session) = session_of(place) else { return Ok(()) };
    let message = format!("it belongs to the session {}: choose another name", session.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// The folder of the session that a file belongs to, or would belong to: as its journal, its index, the logs and recordings of its runs do.
pub fn session_of(file: &Path) -> Option<PathBuf> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that does not exist is in no session.
    let folder = folder.canonicalize().ok()?;
    let place = folder.join(file.file_name()?);
    let is_session = |folder: &&Path| ["session.toml", "journal.jsonl"].iter().all(|file| folder.join(file).is_file());
    let owns = |session: &&Path| {
        let first = place.strip_prefix(session).ok().and_then(|rest| rest.iter().next());
        let first = first.unwrap_or_default().to_string_lossy();
        OF_SESSIONS.contains(&&*first) || first.starts_with(OF_INDEXES)
    };
    folder.ancestors().filter(is_session).find(owns).map(Path::to_owned)
}

/// Renames a finished file or folder to a name that does not exist yet.
///
/// # Errors
/// The name exists ([`io::ErrorKind::AlreadyExists`]), or the folder cannot be written.
pub fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems cannot rename without overwriting.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => fs::rename(from, to)?,
        Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => return Err(exists()),
        renamed => renamed?,
    }
    // Syncing the folder makes the name durable.
    if let Some(parent) = to.parent() {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let _ = File::open(parent).map(|folder| folder.sync_all());
    }
    Ok(())
}

/// The path after following its links; `None` if one of them is in `/proc` and stands for an open file of a process.
fn followed(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::symlink_metadata(&path) {
            Ok(about) if about.is_symlink() => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                if rustix::fs::statfs(folder)?.f_type == PROC {
                    return Ok(None);
                }
                path = folder.join(fs::read_link(&path)?);
            }
            Ok(_) => return Ok(Some(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(path)),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}

fn exists() -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        "something has this name already and is not overwritten: choose another name",
    )
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;
    use std::thread;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }

    fn make_pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn a_file_is_replaced_whole_keeps_its_mode_and_links_to_it_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "before").unwrap();
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::create_dir(at("links")).unwrap();
        symlink("../file", at("links/one")).unwrap();
        symlink("one", at("links/two")).unwrap();
        let mut output = Output::replacing(&at("links/two")).unwrap();
        output.write_all(b"after").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"before");
        output.keep().unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"after");
        assert_eq!(fs::metadata(at("file")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(at("links/two").is_symlink() && at("links/one").is_symlink());
        // A link that leads nowhere yet.
        symlink(at("new"), at("links/three")).unwrap();
        write(&at("links/three"), b"new").unwrap();
        assert_eq!(fs::read(at("new")).unwrap(), b"new");
        let longest = "n".repeat(255);
        write(&at(&longest), b"long").unwrap();
        assert_eq!(names(folder.path()), ["file", "links", "new", &longest]);
        assert_eq!(names(&at("links")), ["one", "three", "two"]);
        symlink("loop", at("loop")).unwrap();
        assert!(write(&at("loop"), b"x").is_err());
    }

    #[test]
    fn what_a_session_consists_of_is_not_replaced_and_other_files_beside_it_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("session.toml"), "version = 1").unwrap();
        fs::write(at("journal.jsonl"), "a decision\n").unwrap();
        fs::create_dir_all(at("runs/r1")).unwrap();
        let files = include_str!("../store/session.md").split("# Journal").next().unwrap();
        let listed = files.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '/']).next());
        let listed: Vec<&str> = listed.chain(["session.sqlite-wal", "origin", "runs/r1/figure.svg"]).collect();
        assert!(listed.contains(&"journal.jsonl") && listed.len() > 10, "{listed:?}");
        symlink("journal.jsonl", at("link")).unwrap();
        for name in listed.into_iter().chain(["link"]) {
            let error = write(&at(name), b"x").unwrap_err().to_string();
            assert!(error.contains("it belongs to the session"), "{name}: {error}");
            assert_eq!(session_of(&at(name)).is_some(), name != "link", "{name}");
        }
        assert_eq!(fs::read_to_string(at("journal.jsonl")).unwrap(), "a decision\n");
        write(&at("figure.svg"), b"x").unwrap();
        write_ours(&at("runs/r1/step.json"), b"x").unwrap();
        fs::create_dir(at("figures")).unwrap();
        write(&at("figures/runs"), b"x").unwrap();
    }

    #[test]
    fn pipes_and_devices_are_written_through_and_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        make_pipe(&at("pipe"));
        symlink("pipe", at("link")).unwrap();
        let error = write(&at("link"), b"x").unwrap_err().to_string();
        assert!(error.contains("a pipe that no program reads"), "{error}");
        let long = vec![7; 1 << 20];
        let heard = thread::scope(|scope| {
            // Both ends, so that neither waits for the other to be opened.
            let mut reader = OpenOptions::new().read(true).write(true).open(at("pipe")).unwrap();
            let length = long.len();
            let reading = scope.spawn(move || {
                let mut heard = vec![0; length];
                reader.read_exact(&mut heard).unwrap();
                heard
            });
            write(&at("link"), &long).unwrap();
            reading.join().unwrap()
        });
        assert!(heard == long);
        assert!(fs::symlink_metadata(at("pipe")).unwrap().file_type().is_fifo() && at("link").is_symlink());
        // What /dev/null is to root: a device that a rename would replace.
        symlink("/dev/null", at("null")).unwrap();
        write(&at("null"), b"x").unwrap();
        assert!(at("null").is_symlink() && fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let _listener = UnixListener::bind(at("socket")).unwrap();
        assert!(write(&at("socket"), b"x").is_err());
        let error = write(folder.path(), b"x").unwrap_err().to_string();
        assert!(error.contains("a folder"), "{error}");
        assert_eq!(names(folder.path()), ["link", "null", "pipe", "socket"]);
    }

    #[test]
    fn a_file_that_this_process_has_open_is_appended_to_by_its_number() {
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"before ").unwrap();
        write(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())), b"after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before after");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn nothing_is_left_of_a_file_that_is_not_kept_and_a_new_one_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "before").unwrap();
        Output::replacing(&at("file")).unwrap().write_all(b"half").unwrap();
        assert_eq!(names(folder.path()), ["file"]);
        symlink("nowhere", at("link")).unwrap();
        for taken in ["file", "link"] {
            assert_eq!(Output::new(&at(taken)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        let mut output = Output::new(&at("new")).unwrap();
        output.write_all(b"ours").unwrap();
        fs::write(at("new"), "of another").unwrap();
        assert_eq!(output.keep().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(at("new")).unwrap(), b"of another");
        assert_eq!(fs::read(at("file")).unwrap(), b"before");
        assert_eq!(names(folder.path()), ["file", "link", "new"]);
        assert_eq!(write(&at("absent/file"), b"x").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(write(Path::new(""), b"x").is_err());
    }
}
