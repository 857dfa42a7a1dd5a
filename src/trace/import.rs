//! Opens recordings, and imports them as a [`Trace`] or keeps their events.

use std::ops::ControlFlow;
use std::path::Path;

use super::TraceError;
use super::cupti;
use super::division::StepsFrom;
use super::export;
use super::file::{self, EventsFile};
use super::fold::summarise;
use super::perfetto;
use super::progress::Progress;
use super::pytorch;
use super::source::nsys::{NsysReport, is_sqlite};
use super::value::Trace;
use super::window::Window;

/// A function that receives the progress, and cancels with [`ControlFlow::Break`].
type Tell<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Imports a recording: an `.sqlite` export of nsys, an `.nsys-rep`, which nsys exports first, a trace of PyTorch's profiler or a folder
/// with those of several ranks, an events file, or a raw file of the built-in tracer. `tell` receives the progress and cancels with [`ControlFlow::Break`]. The file is not changed, and no other files are
/// left behind.
///
/// # Errors
///
/// If the file is neither a complete report of a known schema nor an events file, contains an impossible value, or `tell` cancelled.
pub fn import(file: &Path, window: &Window, tell: Tell<'_>) -> Result<Trace, TraceError> {
    import_divided(file, window, &StepsFrom::Found, tell)
}

/// Imports a recording as [`import`] does, and divides it into steps by `steps`.
///
/// # Errors
/// The errors of [`import`]; or the recording cannot be divided into steps in this way.
pub fn import_divided(file: &Path, window: &Window, steps: &StepsFrom, tell: Tell<'_>) -> Result<Trace, TraceError> {
    if is_events(file)? {
        return summarise(&EventsFile::open(file)?, window, steps, tell);
    }
    if let Some(converted) = converted(file, tell)? {
        return summarise(&EventsFile::open(&converted.file(CONVERTED))?, window, steps, tell);
    }
    with_report(file, tell, |report, tell| summarise(report, window, steps, tell))
}

/// Writes the events of a recording to an events file, which must not exist yet. [`import`] gives the same result for both files.
///
/// # Errors
///
/// As [`import`], and if the file cannot be written.
pub fn keep_events(file: &Path, kept: &Path, tell: Tell<'_>) -> Result<(), TraceError> {
    if is_events(file)? {
        return file::keep(&EventsFile::open(file)?, kept, tell);
    }
    if cupti::is_raw(file)? {
        return cupti::keep(file, kept, tell);
    }
    if pytorch::is_one(file)? {
        return pytorch::keep(file, kept, tell);
    }
    with_report(file, tell, |report, tell| file::keep(report, kept, tell))
}

/// Writes the events of a recording that start within a window to a file for ui.perfetto.dev, which must not exist yet.
///
/// # Errors
///
/// As [`import`], and if the file cannot be written.
pub fn export_perfetto(file: &Path, window: &Window, written: &Path, tell: Tell<'_>) -> Result<(), TraceError> {
    if is_events(file)? {
        return perfetto::write(&EventsFile::open(file)?, window, written, tell);
    }
    if let Some(converted) = converted(file, tell)? {
        return perfetto::write(&EventsFile::open(&converted.file(CONVERTED))?, window, written, tell);
    }
    with_report(file, tell, |report, tell| perfetto::write(report, window, written, tell))
}

/// Whether this is an events file rather than a report.
pub(super) fn is_events(file: &Path) -> Result<bool, TraceError> {
    // Folders and pipes are rejected later, by their kind; a pipe can be read only once.
    Ok((file.is_file() || !file.exists())
        && EventsFile::is_one(file).map_err(|source| TraceError::Io { file: file.to_owned(), source })?)
}

/// The events file in the folder of a recording that was converted.
const CONVERTED: &str = "events";

/// A folder with the events of a recording that is read only as an events file: a raw file of the built-in tracer, or a trace of PyTorch's
/// profiler. `None` for all others.
fn converted(file: &Path, tell: Tell<'_>) -> Result<Option<export::PrivateFolder>, TraceError> {
    let convert = match (cupti::is_raw(file)?, pytorch::is_one(file)?) {
        (true, _) => cupti::keep,
        (_, true) => pytorch::convert,
        _ => return Ok(None),
    };
    let whole = file.canonicalize().map_err(|source| TraceError::Io { file: file.to_owned(), source })?;
    let folder = export::PrivateFolder::beside(&whole)?;
    convert(file, &folder.file(CONVERTED), tell)?;
    Ok(Some(folder))
}

/// Opens a report of nsys by exporting it first.
fn with_report<T>(
    file: &Path,
    tell: Tell<'_>,
    read: impl FnOnce(&NsysReport<'_>, Tell<'_>) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let io = |source| TraceError::Io { file: file.to_owned(), source };
    let is_recording = file.extension().is_some_and(|ending| ending == "nsys-rep" || ending == "qdrep");
    if is_recording && !is_sqlite(file).map_err(io)? {
        let exported = export::export(file, tell)?;
        // Messages name the file that the user gave.
        let report = NsysReport::open(&exported.file())?.named(file.to_owned());
        return read(&report, tell);
    }
    read(&NsysReport::open(file)?, tell)
}

/// Imports an `.nsys-rep` and stores its export, without private rows, as `kept`.
///
/// # Errors
///
/// As [`import`]. If the export was made but could not be read, it is stored as well.
pub fn import_recording(file: &Path, kept: &Path, tell: Tell<'_>) -> Result<Trace, TraceError> {
    export::export(file, tell)?.keep(kept)?;
    summarise(&NsysReport::open(kept)?, &Window::default(), &StepsFrom::Found, tell)
}

/// Imports an `.sqlite` export, a trace of PyTorch's profiler or an events file from memory; `file` is its name in messages.
///
/// # Errors
///
/// As [`import`].
pub fn import_bytes(file: &Path, bytes: &[u8], window: &Window) -> Result<Trace, TraceError> {
    let tell: Tell<'_> = &mut |_| ControlFlow::Continue(());
    if EventsFile::are(bytes) {
        return summarise(&EventsFile::from_bytes(file, bytes)?, window, &StepsFrom::Found, tell);
    }
    if pytorch::are(bytes) {
        return summarise(
            &EventsFile::from_bytes(file, &pytorch::converted(file, bytes)?)?,
            window,
            &StepsFrom::Found,
            tell,
        );
    }
    summarise(&NsysReport::from_bytes(file, bytes)?, window, &StepsFrom::Found, tell)
}
