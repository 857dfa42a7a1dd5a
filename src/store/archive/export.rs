//! Export of a session into an archive: written beside the destination, read back and verified, then renamed.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::anonymous::{self, Pseudonyms};
use super::manifest::{ARCHIVE_VERSION, FileEntry, MANIFEST, Manifest, is_left_out};
use super::unpack::{Archive, hexadecimal};
use super::{ArchiveError, ArchiveProgress};
use crate::foreign::{self, Output};
use crate::protocol::EXPORT_FOLDER;
use crate::store::folder;

/// Recordings of Nsight Systems that were left out of an archive. Its text is a clause within a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of recordings.
    pub recordings: usize,
    /// Number of other files that an anonymous archive leaves out: output of programs, weights, reports.
    pub outputs: usize,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outputs {
            0 => {}
            1 => write!(f, "; 1 file that may hold names or paths left out")?,
            count => write!(f, "; {count} files that may hold names or paths left out")?,
        }
        let recordings = match self.recordings {
            0 => return Ok(()),
            1 => "1 recording".to_owned(),
            count => format!("{count} recordings"),
        };
        write!(
            f,
            "; {recordings} of Nsight Systems (.nsys-rep) left out, since these files contain the environments of programs. Data that \
                 was imported from them is in the archive"
        )
    }
}

/// Exports the session in `session` to the archive `out`, which must not exist yet and not be in the session's folder. A session that is
/// being written is exported as it is at this moment. `progress` counts all bytes twice: once written, once read back.
///
/// Recordings of Nsight Systems (`.nsys-rep`) are left out, because they contain the environments of programs; data that was imported from
/// them is included.
pub fn export_session(session: &Path, out: &Path, progress: ArchiveProgress<'_>) -> Result<LeftOut, ArchiveError> {
    folder::read_node(session)?;
    export(session, out, None, progress)
}

/// Like [`export_session`], but anonymous, for publication: only numbers and multicard's own words are kept, every other text is replaced.
/// `measures` are the keys of measures that multicard knows. Lines of logs that cannot be parsed become empty.
pub fn export_anonymous(
    session: &Path,
    out: &Path,
    measures: impl IntoIterator<Item = String>,
    progress: ArchiveProgress<'_>,
) -> Result<LeftOut, ArchiveError> {
    folder::read_node(session)?;
    export(session, out, Some(Pseudonyms::new(measures)), progress)
}

fn export(
    session: &Path,
    out: &Path,
    names: Option<Pseudonyms>,
    progress: ArchiveProgress<'_>,
) -> Result<LeftOut, ArchiveError> {
    if out.file_name().is_none() || out.extension().is_none_or(|extension| extension != "zip") {
        return Err(ArchiveError::Name { path: out.to_owned() });
    }
    refuse_inside(session, out)?;
    let (mut files, mut left_out) = files(session)?;
    if names.is_some() {
        let all = files.len();
        files.retain(|(path, _)| anonymous::is_log(path));
        left_out.outputs = all - files.len();
    }
    let output = Output::new(out).map_err(ArchiveError::placing(out))?;
    let total_bytes = 2 * files.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let writing = |error| ArchiveError::io("writing", out)(error);
    let file = Sink { file: output.writer().map_err(writing)?, forgotten: None };
    let mut zip = ZipWriter::new(io::BufWriter::with_capacity(1 << 18, file));
    add_files(&mut zip, out, session, files, names, &mut |done_bytes| progress(done_bytes, total_bytes))?;
    let file = zip.finish().map_err(|error| ArchiveError::writing(out, error))?;
    file.into_inner().map_err(|error| writing(error.into_error()))?;
    // An archive is valid only after it has been read back.
    let file = File::open(output.path()).map_err(ArchiveError::io("reading", out))?;
    let check = &mut |done, _| progress(total_bytes / 2 + done, total_bytes);
    Archive::open(file, out)?.unpack(check, |_| Ok(io::sink()))?;
    output.keep().map_err(ArchiveError::placing(out))?;
    Ok(left_out)
}

/// Refuses an archive in the session's own folder, all of whose files the next archive would hold.
fn refuse_inside(session: &Path, out: &Path) -> Result<(), ArchiveError> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // If the folder does not exist, writing the archive says so.
    let (Ok(folder), Ok(own)) = (folder.canonicalize(), session.canonicalize()) else { return Ok(()) };
    if folder.starts_with(own) {
        return Err(ArchiveError::Inside { path: out.to_owned(), session: session.to_owned() });
    }
    Ok(())
}

/// The file of an archive. After a failed write, it accepts everything and discards it: otherwise the ZIP writer would try to complete the
/// archive when it is dropped, and print that it cannot.
struct Sink {
    file: File,
    forgotten: Option<Forgotten>,
}

/// The position and length of the file as they would be without the failure.
#[derive(Clone, Copy)]
struct Forgotten {
    at: u64,
    end: u64,
}

impl Sink {
    fn attempt<T>(&mut self, act: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let done = act(&mut self.file);
        if done.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
            let end = self.file.metadata().map_or(0, |about| about.len());
            self.forgotten = Some(Forgotten { at: self.file.stream_position().unwrap_or(end), end });
        }
        done
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(Forgotten { at, end }) = &mut self.forgotten else { return self.attempt(|file| file.write(bytes)) };
        *at += bytes.len() as u64;
        *end = (*end).max(*at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.forgotten.is_some() { Ok(()) } else { self.attempt(File::flush) }
    }
}

impl Seek for Sink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let Some(Forgotten { at, end }) = &mut self.forgotten else { return self.attempt(|file| file.seek(to)) };
        *at = match to {
            SeekFrom::Start(place) => place,
            SeekFrom::Current(further) => at.saturating_add_signed(further),
            SeekFrom::End(further) => end.saturating_add_signed(further),
        };
        Ok(*at)
    }
}

/// Adds files of a session and the manifest. `progress` receives the number of bytes added.
fn add_files<W: Write + Seek>(
    zip: &mut ZipWriter<W>,
    out: &Path,
    session: &Path,
    files: Vec<(String, u64)>,
    mut names: Option<Pseudonyms>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), ArchiveError> {
    let mut done_bytes = 0;
    let mut entries = Vec::with_capacity(files.len());
    let mut block = vec![0; 1 << 17];
    for (path, bytes) in files {
        if progress(done_bytes).is_break() {
            return Err(ArchiveError::Cancelled);
        }
        let from = session.join(&path);
        let name = names.as_mut().map_or_else(|| path.clone(), |names| names.path(&path));
        start(zip, &name, bytes, out)?;
        let reading = |error| ArchiveError::io("reading", &from)(error);
        let mut file: Box<dyn Read> = match &mut names {
            Some(names) => names.open(session, &path).map_err(reading)?,
            None => Box::new(foreign::open_ours(&from).map_err(reading)?.take(bytes)),
        };
        let (mut sum, mut read_bytes) = (Sha256::new(), 0);
        loop {
            let count = file.read(&mut block).map_err(reading)?;
            if count == 0 {
                break;
            }
            sum.update(&block[..count]);
            zip.write_all(&block[..count]).map_err(ArchiveError::io("writing", out))?;
            read_bytes += count as u64;
            // Replacements may be longer than the names.
            if progress(done_bytes + read_bytes.min(bytes)).is_break() {
                return Err(ArchiveError::Cancelled);
            }
        }
        drop(file);
        if names.is_none() && read_bytes < bytes {
            return Err(reading(io::Error::other("it shrank while it was read")));
        }
        done_bytes += bytes;
        entries.push(FileEntry { path: name, bytes: read_bytes, sha256: hexadecimal(&sum.finalize()) });
    }
    let manifest = Manifest {
        version: ARCHIVE_VERSION,
        program: format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        created: jiff::Timestamp::now().to_string(),
        files: entries,
    };
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| ArchiveError::io("writing", out)(error.into()))?;
    start(zip, MANIFEST, text.len() as u64, out)?;
    zip.write_all(&text).map_err(ArchiveError::io("writing", out))
}

fn start<W: Write + Seek>(zip: &mut ZipWriter<W>, path: &str, bytes: u64, out: &Path) -> Result<(), ArchiveError> {
    // Without modification times and owners, the same session gives the same bytes.
    let options = SimpleFileOptions::default().unix_permissions(0o644).large_file(bytes >= u64::from(u32::MAX));
    zip.start_file(path, options).map_err(|error| ArchiveError::writing(out, error))
}

/// Extensions of profiler recordings, finished or not, of current and former versions.
const RECORDINGS: [&str; 3] = [".nsys-rep", ".qdstrm", ".qdrep"];

/// The files of a session with their current lengths. The journal precedes the logs of its runs, so that the logs of each
/// run that it reports as ended are complete. Recordings of Nsight Systems are only counted.
fn files(session: &Path) -> Result<(Vec<(String, u64)>, LeftOut), ArchiveError> {
    let (mut found, mut left_out) = (Vec::new(), LeftOut { recordings: 0, outputs: 0 });
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let at = session.join(&folder);
        let entries = fs::read_dir(&at).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut entries = entries.map_err(ArchiveError::io("listing", &at))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = folder.join(entry.file_name());
            let Some(name) = path.to_str().map(str::to_owned) else {
                return Err(ArchiveError::Special { path: entry.path() });
            };
            let metadata = entry.metadata().map_err(ArchiveError::io("reading", &entry.path()))?;
            if is_left_out(&name) {
                continue;
            } else if metadata.is_dir() && entry.file_name().to_string_lossy().starts_with(EXPORT_FOLDER) {
                // The file of a report that is being exported, or whose export was killed; it contains environments, too.
                continue;
            } else if metadata.is_file() && RECORDINGS.iter().any(|ending| name.ends_with(ending)) {
                left_out.recordings += 1;
            } else if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file() && super::manifest::rejection(&name).is_none() {
                found.push((name, metadata.len()));
            } else {
                return Err(ArchiveError::Special { path: entry.path() });
            }
        }
    }
    found.sort();
    found.sort_by_key(|(path, _)| path.contains('/'));
    Ok((found, left_out))
}
