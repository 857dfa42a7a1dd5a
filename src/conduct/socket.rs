//! The socket of a session's conductor: its path, and the check of who may use it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::ConductError;
use crate::foreign;

/// Ending of the files of sockets.
pub(super) const SOCKET_ENDING: &str = "sock";

/// The socket of a session's conductor: `multicard/conductors/<hash>.sock` in the XDG state folder of this machine. The hash is made of the
/// machine's name and the session's path, because several machines may share a home folder.
///
/// # Errors
/// There is no state folder.
pub fn socket_path(session: &Path) -> Result<PathBuf, ConductError> {
    let session = session.canonicalize().or_else(|_| std::path::absolute(session));
    let session = session.map_err(|error| ConductError::NoPlace(error.to_string()))?;
    let mut hash = Sha256::new();
    hash.update(rustix::system::uname().nodename().to_bytes());
    hash.update([0]);
    hash.update(session.as_os_str().as_encoded_bytes());
    let name: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let state = foreign::state_folder().map_err(ConductError::NoPlace)?;
    Ok(state.join("multicard").join("conductors").join(format!("{name}.{SOCKET_ENDING}")))
}

/// A socket on which this process listens. Dropping it removes the file.
pub(super) struct Listening {
    path: PathBuf,
    listener: UnixListener,
}

impl Listening {
    /// Listens for clients of a session whose lock this process holds. A socket that already exists was left by a dead conductor and is
    /// replaced.
    pub(super) fn new(session: &Path) -> Result<Self, ConductError> {
        let path = socket_path(session)?;
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| ConductError::Socket { doing, path, source }
        };
        let folder = own_folder(&path)?;
        if fs::symlink_metadata(&path).is_ok_and(|about| about.file_type().is_socket()) {
            fs::remove_file(&path).map_err(failed("removing the dead socket", &path))?;
        }
        let listener = UnixListener::bind(short(&folder, &path)).map_err(failed("listening on", &path))?;
        Ok(Self { path, listener })
    }

    /// A handle that accepts clients.
    pub(super) fn acceptor(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The folder of sockets, which is created if it is missing and which only the user may enter.
pub(super) fn own_folder(socket: &Path) -> Result<File, ConductError> {
    let folder = socket.parent().unwrap_or(socket);
    let open = || -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let opened = File::open(folder)?;
        let about = opened.metadata()?;
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("it belongs to the user with id {}", about.uid())));
        }
        if about.mode() & 0o077 != 0 {
            opened.set_permissions(fs::Permissions::from_mode(0o700))?;
        }
        Ok(opened)
    };
    open().map_err(|source| ConductError::Socket { doing: "preparing the folder", path: folder.to_owned(), source })
}

/// A short path to a socket in an open folder, since the system accepts no more than 107 bytes.
fn short(folder: &File, socket: &Path) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(socket.file_name().unwrap_or_default())
}

/// A stream to the process that listens at the socket of a session's path; `None` if no process listens. It may conduct a session that was
/// moved away from that path.
///
/// # Errors
/// The process belongs to another user, or the socket fails.
pub(super) fn connect(session: &Path) -> Result<Option<UnixStream>, ConductError> {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    let path = socket_path(session)?;
    let connect = || File::open(path.parent().unwrap_or(&path)).and_then(|at| UnixStream::connect(short(&at, &path)));
    let stream = match connect() {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => return Ok(None),
        Err(source) => return Err(ConductError::Socket { doing: "connecting to", path, source }),
    };
    match stranger(&stream) {
        Ok(None) => Ok(Some(stream)),
        Ok(Some(user)) => Err(ConductError::OtherUser { session: session.to_owned(), user }),
        Err(source) => Err(ConductError::Socket { doing: "asking who listens on", path, source }),
    }
}

/// The user at the other end, if it is not the user of this process.
pub(super) fn stranger(stream: &UnixStream) -> io::Result<Option<u32>> {
    let user = rustix::net::sockopt::socket_peercred(stream)?.uid;
    Ok((user != rustix::process::geteuid()).then(|| user.as_raw()))
}
