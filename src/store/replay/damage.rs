//! The damage that a replay finds in logs: malformed lines, incomplete last lines, pieces of lines.

use super::Replay;
use super::listing::{Kind, LogFile};
use crate::foreign::with_ellipsis;
use crate::plan::counted;
use crate::protocol::event_start;

/// Maximum length of an error about a malformed line.
const WHY_CHARS: usize = 300;
/// The most damaged lines of a log that are reported one by one.
const NAMED_LINES: u64 = 20;
/// The damage of a line that begins with a piece of another line, unless the log also has that other line as a whole: a rank that was
/// interrupted by a full disk writes its line again ([`crate::protocol::LogWriter::shared`]).
const NOT_WRITTEN_AGAIN: &str = "it begins with a piece of a line that was not written again";

impl Replay<'_> {
    /// Remembers the pieces of lines before an event, until the lines are found whole.
    pub(super) fn keep_pieces(&mut self, mut pieces: &[u8], log: &LogFile, number: u64) -> rusqlite::Result<()> {
        while !pieces.is_empty() {
            let (before, piece) = pieces.split_at(event_start(pieces));
            if (self.pieces.len() as u64) < NAMED_LINES {
                self.pieces.push((number, piece.to_vec()));
            } else {
                self.damaged(log, number, &NOT_WRITTEN_AGAIN)?;
            }
            pieces = before;
        }
        Ok(())
    }

    /// Records a last line without a line break. In the log of an active run, the line is being written; a missing last sample does not
    /// matter.
    pub(super) fn torn(&mut self, log: &LogFile, number: u64) -> rusqlite::Result<()> {
        let what = "the last line is incomplete; skipped";
        self.report.torn.push(format!("{}:{number}: {what}", log.path));
        let is_lost = match &log.kind {
            Kind::Journal => true,
            Kind::Ranks { run, .. } => self.index.has_ended(run)?,
            Kind::Samples { .. } => false,
        };
        if is_lost {
            self.index.damage(&log.path, number, log.kind.run(), log.kind.is_of_ranks(), what)
        } else {
            Ok(())
        }
    }

    /// Records the pieces of lines that were not written again, and how many more damaged lines a log has than were reported.
    pub(super) fn note_rest(&mut self, log: &LogFile) -> rusqlite::Result<()> {
        for (number, _) in std::mem::take(&mut self.pieces) {
            self.damaged(log, number, &NOT_WRITTEN_AGAIN)?;
        }
        let Some(further) = self.damaged_lines.checked_sub(NAMED_LINES).filter(|further| *further > 0) else {
            return Ok(());
        };
        let what = format!("damage in {}", counted(further, "more line"));
        self.report.damaged.push(format!("{}: {what}", log.path));
        self.index.damage(&log.path, 0, log.kind.run(), log.kind.is_of_ranks(), &what)
    }

    pub(super) fn damaged(&mut self, log: &LogFile, number: u64, why: &dyn std::fmt::Display) -> rusqlite::Result<()> {
        self.damaged_lines += 1;
        if self.damaged_lines > NAMED_LINES {
            return Ok(());
        }
        // A malformed line may be long, and some error messages quote it.
        let mut why = why.to_string();
        if let Some((cut, _)) = why.char_indices().nth(WHY_CHARS) {
            why = with_ellipsis(&why[..cut], "");
        }
        self.report.damaged.push(format!("{}:{number}: {why}", log.path));
        self.index.damage(&log.path, number, log.kind.run(), log.kind.is_of_ranks(), &why)
    }
}
