//! Line-based logs: lines are appended whole or not at all, and read up to the last whole line.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::foreign;

/// Writer of a log that only this process writes. A line that cannot be written completely leaves nothing behind.
pub(super) struct Appender {
    path: PathBuf,
    file: File,
    /// Length up to the end of the last whole line.
    bytes: u64,
    was_torn: bool,
}

impl Appender {
    /// Opens a log and removes an incomplete last line that a crash left; such a line was never acknowledged.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = foreign::open_ours_with(path, File::options().create(true).read(true).append(true))?;
        let length = file.metadata()?.len();
        let bytes = end_of_last_line(&file, length)?;
        if bytes < length {
            file.set_len(bytes)?;
        }
        Ok(Self { path: path.to_owned(), file, bytes, was_torn: bytes < length })
    }

    /// Appends one line, given without its line break.
    pub(super) fn append(&mut self, line: String) -> io::Result<()> {
        self.write(line, false)
    }

    /// Appends one line, or several separated by line breaks, and syncs them to disk: all or none. It is an error if the log was deleted,
    /// replaced or emptied in the meantime, because the line or those before it would be lost.
    pub(super) fn append_durably(&mut self, line: String) -> io::Result<()> {
        let gone = |what: &str| {
            let message = format!("it was {what} while this program wrote it");
            Err(io::Error::new(io::ErrorKind::NotFound, message))
        };
        let (ours, present) = (self.file.metadata()?, std::fs::symlink_metadata(&self.path));
        if !present.is_ok_and(|present| foreign::identity(&present) == foreign::identity(&ours)) {
            return gone("deleted or replaced");
        }
        if ours.len() < self.bytes {
            return gone("emptied or cut off");
        }
        self.write(line, true)
    }

    fn write(&mut self, mut line: String, durably: bool) -> io::Result<()> {
        line.push('\n');
        let written = self.file.write_all(line.as_bytes());
        if let Err(error) = written.and_then(|()| if durably { self.file.sync_data() } else { Ok(()) }) {
            // A full disk may have accepted a part of the line, which would be joined with the next one.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Whether an incomplete last line was removed when the log was opened.
    pub(super) fn was_torn(&self) -> bool {
        self.was_torn
    }

    /// Length of the log.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn end_of_last_line(mut file: &File, length: u64) -> io::Result<u64> {
    const BLOCK: u64 = 64 * 1024;
    let mut block = Vec::new();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Item of [`read`].
pub(super) enum Line<'a> {
    /// A complete line without its line break, and its number from 1.
    Whole(&'a [u8], u64),
    /// Number of a line that is longer than any line of a log.
    TooLong(u64),
    /// Number of a last line without a line break: it is still being written, or a crash interrupted it.
    Torn(u64),
}

/// Reads the first `bytes` of a log, line by line, until `each` returns an error or stops. A missing log is empty.
pub(super) fn read<E: From<io::Error>>(
    path: &Path,
    bytes: u64,
    mut each: impl FnMut(Line<'_>) -> Result<std::ops::ControlFlow<()>, E>,
) -> Result<(), E> {
    let file = match foreign::open_ours(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut lines = foreign::Lines::new(BufReader::with_capacity(256 * 1024, file.take(bytes)));
    loop {
        let number = lines.number() + 1;
        let flow = match lines.read()? {
            Some(foreign::Line::Whole(line)) => each(Line::Whole(line, number))?,
            Some(foreign::Line::TooLong) => each(Line::TooLong(number))?,
            None => break,
        };
        if flow.is_break() {
            return Ok(());
        }
    }
    if lines.rest().is_none() {
        return Ok(());
    }
    each(Line::Torn(lines.number())).map(|_| ())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_torn_last_line_is_cut_off_before_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for (before, after) in [("", "x\n"), ("to", "x\n"), ("a\n", "a\nx\n"), ("a\nb", "a\nx\n")] {
            fs::write(&path, before).unwrap();
            let mut log = Appender::open(&path).unwrap();
            log.append("x".to_owned()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
            assert_eq!(log.bytes(), after.len() as u64);
        }
    }

    #[test]
    fn a_long_torn_line_is_cut_off_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, format!("whole\n{}", "t".repeat(300_000))).unwrap();
        assert_eq!(Appender::open(&path).unwrap().bytes(), 6);
    }

    #[test]
    fn a_log_that_is_a_link_is_neither_written_nor_cut() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("log"), folder.path().join("elsewhere"));
        fs::write(&elsewhere, "a line\nand a part").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let error = Appender::open(&path).err().unwrap().to_string();
        assert!(error.contains("a link, which is not followed"), "{error}");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "a line\nand a part");
    }

    #[test]
    fn what_is_written_durably_is_in_the_log_that_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Appender::open(&path).unwrap();
        log.append_durably("kept".to_owned()).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(log.append_durably("lost".to_owned()).is_err());
        fs::write(&path, "of another\n").unwrap();
        assert!(log.append_durably("lost".to_owned()).unwrap_err().to_string().contains("deleted or replaced"));
    }

    #[test]
    fn a_log_that_was_emptied_while_it_was_written_is_noticed_at_the_next_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Appender::open(&path).unwrap();
        log.append_durably("kept".to_owned()).unwrap();
        fs::write(&path, "").unwrap();
        assert!(log.append_durably("next".to_owned()).unwrap_err().to_string().contains("emptied or cut off"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }
}
