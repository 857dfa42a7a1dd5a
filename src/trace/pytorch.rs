//! Traces of PyTorch's profiler: the JSON that `torch.profiler` exports (`export_chrome_trace`, `tensorboard_trace_handler`), plain or
//! compressed with gzip, one file or a folder with those of several ranks. They are converted to an events file, which is then read like
//! any other.
//!
//! The format is Kineto's form of Chrome's: see `record`.

mod conversion;
mod document;
mod facts;
mod json;
mod overlap;
mod ranks;
mod record;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use super::TraceError;
use super::file::EventsFile;
use super::progress::{Progress, Watch};
use crate::foreign;
use conversion::Conversion;
use document::Document;
use facts::Facts;

/// The first bytes of files compressed with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Most files in which a trace is looked for to find out whether a folder is a recording.
const MOST_PEEKED: usize = 16;
/// Most files of one recording.
const MOST_FILES: usize = 4096;

/// Whether this is JSON, which is read as a trace, or a folder with traces.
pub(super) fn is_one(file: &Path) -> Result<bool, TraceError> {
    let io = |source| TraceError::Io { file: file.to_owned(), source };
    if file.is_dir() {
        return Ok(is_trace(file));
    }
    // Pipes are rejected later; they can be read only once.
    Ok(file.is_file() && begins(foreign::open(file).map_err(io)?).unwrap_or(false))
}

/// Whether bytes are a trace.
pub(super) fn are(bytes: &[u8]) -> bool {
    begins(bytes).unwrap_or(false)
}

fn begins(reader: impl Read) -> io::Result<bool> {
    Document::new(unpacked(reader)?).begins()
}

/// Whether a file is a trace of PyTorch's profiler, or a folder has some. Other JSON is not.
pub fn is_trace(path: &Path) -> bool {
    let is_trace = |file: &PathBuf| {
        let facts = foreign::open(file).and_then(document).and_then(|mut document| Facts::peek(&mut document));
        facts.is_ok_and(|facts| facts.is_trace())
    };
    files(path).is_ok_and(|files| files.iter().take(MOST_PEEKED).any(is_trace))
}

/// The files of a recording: itself, or the traces in its folder.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let io = |source| TraceError::Io { file: path.to_owned(), source };
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_json = name.ends_with(".json") || name.ends_with(".json.gz");
        if is_json && file.is_file() && files.len() < MOST_FILES {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Writes the events of a trace, or of all traces in a folder, to an events file, which must not exist yet.
pub(super) fn keep(
    path: &Path,
    kept: &Path,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { file: kept.to_owned(), source };
    let output = foreign::Output::new(kept).map_err(failed)?;
    convert(path, output.path(), tell)?;
    EventsFile::open(output.path())?.keep_tiles()?;
    output.keep().map_err(failed)
}

/// Does what [`keep`] does, but writes no tiles, which only timelines need.
pub(super) fn convert(
    path: &Path,
    kept: &Path,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { file: kept.to_owned(), source };
    let files = files(path)?;
    let mut inputs = Vec::new();
    let mut bytes = 0;
    for file in &files {
        let io = |source| TraceError::Io { file: file.clone(), source };
        let opened = foreign::open(file).map_err(io)?;
        bytes += opened.metadata().map_err(io)?.len();
        inputs.push(Input { file: file.clone(), facts: Facts::peek(&mut document(opened).map_err(io)?).map_err(io)? });
    }
    // Other JSON in the folder is no trace.
    if path.is_dir() {
        inputs.retain(|input| input.facts.is_trace());
    }
    let watch = &mut Watch::new(tell, usize::try_from(bytes).unwrap_or(usize::MAX));
    let to = io::BufWriter::new(fs::OpenOptions::new().create(true).append(true).open(kept).map_err(failed)?);
    write(path, inputs, |file| foreign::open(file).map(|opened| Box::new(opened) as Box<dyn Read>), to, watch)
}

/// The events file of a trace in memory; `file` is its name in messages.
pub(super) fn converted(file: &Path, bytes: &[u8]) -> Result<Vec<u8>, TraceError> {
    let io = |source| TraceError::Io { file: file.to_owned(), source };
    let facts = Facts::peek(&mut document(bytes).map_err(io)?).map_err(io)?;
    let mut events = Vec::new();
    let go_on = &mut |_| ControlFlow::Continue(());
    let watch = &mut Watch::new(go_on, bytes.len());
    write(file, vec![Input { file: file.to_owned(), facts }], |_| Ok(Box::new(bytes)), &mut events, watch)?;
    Ok(events)
}

/// A file, and the facts that are known before its events are read.
struct Input {
    file: PathBuf,
    facts: Facts,
}

fn write<'a>(
    path: &Path,
    mut inputs: Vec<Input>,
    open: impl Fn(&Path) -> io::Result<Box<dyn Read + 'a>>,
    to: impl Write,
    watch: &mut Watch<'_>,
) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { file: path.to_owned(), source };
    for input in &mut inputs {
        input.facts.rank = input.facts.rank.or_else(|| facts::rank_of(&input.file));
    }
    // Ranks are numbered and their GPUs found in order.
    inputs.sort_by_key(|input| (input.facts.rank.unwrap_or(i64::MAX), input.facts.base_ns, input.facts.start_ns));
    if let Some(pair) = inputs.windows(2).find(|pair| pair[0].facts.is_of_copy(&pair[1].facts)) {
        return Err(TraceError::Copies { file: pair[0].file.clone(), copy: pair[1].file.clone() });
    }
    let mut conversion = Conversion::new(to).map_err(failed)?;
    for Input { file, facts } in inputs {
        let io = |source| TraceError::Io { file: file.clone(), source };
        let counted = Counted { reader: open(&file).map_err(io)?, bytes: Arc::default() };
        let read = Arc::clone(&counted.bytes);
        let mut cancelled = None;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        let mut document = document(counted).map_err(io)?;
        let taken = conversion.take(&mut document, facts, (&name, facts::worker_of(&file)), || {
            match watch.look(read.load(Ordering::Relaxed) as usize) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    cancelled = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        taken.map_err(io)?;
        if let Some(error) = cancelled {
            return Err(error);
        }
        watch.done(read.load(Ordering::Relaxed) as usize)?;
    }
    match conversion.finish().map_err(failed)? {
        Ok(()) => Ok(()),
        Err(found) => Err(TraceError::NotAReport { file: path.to_owned(), found: found.to_owned() }),
    }
}

fn document<'a>(reader: impl Read + 'a) -> io::Result<Document<'a>> {
    Ok(Document::new(unpacked(reader)?))
}

/// The bytes of a file, unpacked if they are compressed.
fn unpacked<'a>(mut reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut head = Vec::new();
    reader.by_ref().take(GZIP.len() as u64).read_to_end(&mut head)?;
    let is_packed = head == GZIP;
    let whole = io::Cursor::new(head).chain(reader);
    Ok(if is_packed {
        Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(1 << 17, whole)))
    } else {
        Box::new(whole)
    })
}

/// A reader that counts what is read of a file.
struct Counted<'a> {
    reader: Box<dyn Read + 'a>,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
