//! Reader of archives: names, sizes and checksums must all agree with the manifest.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::manifest::{FileEntry, MANIFEST, MANIFEST_LIMIT_BYTES, Manifest};
use super::{ArchiveError, ArchiveProgress};

/// Archives may always unpack to this number of bytes, whatever their own size.
const FREE_BYTES: u64 = 64 << 20;
/// Beyond that, they may unpack to this many times their own size. Logs shrink to a tenth; a ZIP of zeros unpacks to a thousand times its
/// size.
const MOST_RATIO: u64 = 200;

/// Archive whose names and sizes have been checked.
pub(super) struct Archive<R> {
    zip: ZipArchive<R>,
    path: PathBuf,
    files: Vec<FileEntry>,
}

/// Verifies a whole archive without unpacking it to disk, and returns the number of its files. `path` is its name in error
/// messages.
pub fn verify_archive(archive: impl Read + Seek, path: &Path) -> Result<usize, ArchiveError> {
    let mut archive = Archive::open(archive, path)?;
    archive.unpack(&mut |_, _| std::ops::ControlFlow::Continue(()), |_| Ok(io::sink()))?;
    Ok(archive.files.len())
}

impl<R: Read + Seek> Archive<R> {
    pub(super) fn open(mut archive: R, path: &Path) -> Result<Self, ArchiveError> {
        let damaged = |reason: String| ArchiveError::damaged(path, reason);
        let io = |error: io::Error| ArchiveError::zip(path, error.into());
        let packed_bytes = archive.seek(io::SeekFrom::End(0)).map_err(io)?;
        archive.rewind().map_err(io)?;
        let mut zip = ZipArchive::new(archive).map_err(|error| ArchiveError::zip(path, error))?;
        if zip.has_duplicate_names() {
            return Err(damaged("a name occurs in it twice".to_owned()));
        }
        // Overlapping files make a small archive unpack to a huge folder.
        if zip.has_overlapping_entries().map_err(|error| ArchiveError::zip(path, error))? {
            return Err(damaged("files in it overlap, which occurs only in malicious archives".to_owned()));
        }
        let Some(manifest) = zip.index_for_name(MANIFEST) else {
            return Err(damaged(format!("it contains no {MANIFEST}, so it is not an archive of a session")));
        };
        let text = read_manifest(&mut zip, manifest, path)?;
        let files = Manifest::parse(&text, path)?.files;
        drop(text);
        let unpacked_bytes = total_bytes(&files);
        if unpacked_bytes > FREE_BYTES.saturating_add(packed_bytes.saturating_mul(MOST_RATIO)) {
            return Err(damaged(format!(
                "its {packed_bytes} bytes would unpack to {unpacked_bytes}, more than {MOST_RATIO} times as many, which no session does"
            )));
        }
        let mut wanted: BTreeMap<&str, u64> = files.iter().map(|file| (file.path.as_str(), file.bytes)).collect();
        for at in (0..zip.len()).filter(|at| *at != manifest) {
            let entry = zip.by_index_raw(at).map_err(|error| ArchiveError::zip(path, error))?;
            let name = entry.name().map_err(|error| ArchiveError::zip(path, error))?;
            if !entry.is_file() {
                return Err(damaged(format!(
                    "{name:?} is a folder or a link; an archive of a session contains only files"
                )));
            }
            match wanted.remove(name.as_ref()) {
                Some(bytes) if bytes == entry.size() => {}
                Some(bytes) => {
                    return Err(damaged(format!(
                        "{name:?} has {} bytes instead of the manifest's {bytes}",
                        entry.size()
                    )));
                }
                None => return Err(damaged(format!("{name:?} is not listed in its manifest"))),
            }
        }
        if let Some((name, _)) = wanted.first_key_value() {
            return Err(damaged(format!("{name:?} is listed in its manifest but missing")));
        }
        Ok(Self { zip, path: path.to_owned(), files })
    }

    /// Total size of its files according to the manifest.
    pub(super) fn total_bytes(&self) -> u64 {
        total_bytes(&self.files)
    }

    /// Writes each file to the writer from `open`, and verifies it.
    pub(super) fn unpack<W: Write>(
        &mut self,
        progress: ArchiveProgress<'_>,
        mut open: impl FnMut(&str) -> Result<W, ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let (total_bytes, mut done_bytes) = (self.total_bytes(), 0);
        let mut block = vec![0; 1 << 17];
        for file in &self.files {
            // This stops an archive of many empty files, too.
            if progress(done_bytes, total_bytes).is_break() {
                return Err(ArchiveError::Cancelled);
            }
            let damaged = |reason: &str| ArchiveError::damaged(&self.path, format!("{:?} {reason}", file.path));
            let entry = self.zip.by_name(&file.path).map_err(|error| ArchiveError::zip(&self.path, error))?;
            let mut out = open(&file.path)?;
            // Never writes more bytes than the manifest declares.
            let (mut entry, mut sum, mut bytes) = (entry.take(file.bytes.saturating_add(1)), Sha256::new(), 0);
            loop {
                let count = match entry.read(&mut block) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) => return Err(ArchiveError::zip(&self.path, error.into())),
                };
                bytes += count as u64;
                if bytes > file.bytes {
                    return Err(damaged("is longer than its manifest says"));
                }
                sum.update(&block[..count]);
                out.write_all(&block[..count]).map_err(ArchiveError::io("writing", Path::new(&file.path)))?;
                done_bytes += count as u64;
                if progress(done_bytes, total_bytes).is_break() {
                    return Err(ArchiveError::Cancelled);
                }
            }
            if bytes < file.bytes {
                return Err(damaged("is truncated"));
            }
            if hexadecimal(&sum.finalize()) != file.sha256 {
                return Err(damaged("differs from the exported file: its SHA-256 does not match"));
            }
            out.flush().map_err(ArchiveError::io("writing", Path::new(&file.path)))?;
        }
        Ok(())
    }
}

fn total_bytes(files: &[FileEntry]) -> u64 {
    files.iter().fold(0, |total, file| total.saturating_add(file.bytes))
}

fn read_manifest<R: Read + Seek>(zip: &mut ZipArchive<R>, at: usize, path: &Path) -> Result<Vec<u8>, ArchiveError> {
    let entry = zip.by_index(at).map_err(|error| ArchiveError::zip(path, error))?;
    let mut text = Vec::new();
    let read = entry.take(MANIFEST_LIMIT_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| ArchiveError::zip(path, error.into()))?;
    if text.len() as u64 > MANIFEST_LIMIT_BYTES {
        return Err(ArchiveError::damaged(path, format!("{MANIFEST} is longer than any manifest")));
    }
    Ok(text)
}

pub(super) fn hexadecimal(sum: &[u8]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}
