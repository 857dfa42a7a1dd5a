//! Splits a stream of bytes into lines.

use super::drawn::end_of_bar;

/// The number of bytes of a line that are kept; the rest of a longer line is dropped.
const KEPT: usize = 64 << 10;

/// A complete bar ends this many bytes before the end of a text at most: only escape sequences and blanks follow it.
const BEHIND_BAR: usize = 64;

/// Splits a stream into lines. A carriage return ends a line, too, because progress bars print one after each state.
#[derive(Default)]
pub struct Lines {
    partial: Vec<u8>,
    /// The number of line breaks so far; carriage returns are not counted.
    breaks: u64,
    /// Whether bytes are dropped until the next line break.
    skips: bool,
    /// Whether a progress bar is a line.
    has_bars: bool,
}

impl Lines {
    /// A stream that has not been read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The output of a program that has not been read yet. A progress bar is a line as soon as it is there, because programs end its line only
    /// when they print the next one. What they print behind it is another line.
    pub fn of_output() -> Self {
        Self { has_bars: true, ..Self::default() }
    }

    /// Reads more of the stream and passes each complete line to `take`, with its number as in editors. Colours, other escape sequences and
    /// empty lines are left out, and bytes that are not UTF-8 are replaced.
    pub fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(u64, &str)) {
        if self.skips {
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
            (bytes, self.skips) = (&bytes[end + 1..], false);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.keep(&bytes[..end]);
            self.hand_out(&mut take);
            self.breaks += u64::from(bytes[end] == b'\n');
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
        if self.has_bars && self.ends_with_bar() {
            self.hand_out(&mut take);
        }
    }

    /// Whether the text after the last line break ends with a progress bar.
    fn ends_with_bar(&self) -> bool {
        let last = &self.partial[self.partial.len().saturating_sub(BEHIND_BAR)..];
        if !last.contains(&b']') {
            return false;
        }
        let plain = without_escapes(&String::from_utf8_lossy(&self.partial));
        end_of_bar(&plain) == Some(plain.trim_end().len())
    }

    /// Whether these bytes begin with the end of a line whose text was read before them, maybe behind escape sequences. Some progress bars end
    /// a line only when they print the next one.
    pub fn has_text_of_line_ended_by(&self, bytes: &[u8]) -> bool {
        let has_text = |bytes: &[u8]| !without_escapes(&String::from_utf8_lossy(bytes)).trim().is_empty();
        let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        end.is_some_and(|end| !has_text(&bytes[..end])) && has_text(&self.partial)
    }

    /// Drops everything up to the first line break of the next piece.
    pub fn skip(&mut self) {
        self.partial.clear();
        self.skips = true;
    }

    /// Passes the text after the last line break to `take`, once nothing more will come.
    pub fn finish(&mut self, mut take: impl FnMut(u64, &str)) {
        self.hand_out(&mut take);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = KEPT - self.partial.len();
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn hand_out(&mut self, take: &mut impl FnMut(u64, &str)) {
        let number = self.breaks + 1;
        let text = String::from_utf8_lossy(&self.partial);
        let plain = if text.contains('\x1b') { without_escapes(&text).into() } else { text };
        let bar_end = if self.has_bars { end_of_bar(&plain) } else { None };
        let (bar, rest) = plain.split_at(bar_end.unwrap_or(0));
        [bar, rest].into_iter().filter(|part| !part.trim().is_empty()).for_each(|part| take(number, part));
        self.partial.clear();
    }
}

/// A text without the control sequences of terminals: `ESC [ … letter`, and other escapes of one letter.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\x1b' {
            plain.push(letter);
        } else if letters.next() == Some('[') {
            letters.by_ref().find(|letter| ('@'..='~').contains(letter));
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::new(), Vec::new());
        pieces.iter().for_each(|piece| lines.push(piece, |_, line| found.push(line.to_owned())));
        lines.finish(|_, line| found.push(line.to_owned()));
        found
    }

    #[test]
    fn lines_end_at_line_breaks_and_at_carriage_returns() {
        assert_eq!(lines(&[b"one\r\n\ntw", b"o\r 1/9\r 2/9", b""]), ["one", "two", " 1/9", " 2/9"]);
    }

    #[test]
    fn lines_are_numbered_as_editors_number_them() {
        let (mut lines, mut numbers) = (Lines::new(), Vec::new());
        lines.push(b"one\n\nthree\r\nfour\rfour\n\nsix", |number, _| numbers.push(number));
        lines.finish(|number, _| numbers.push(number));
        assert_eq!(numbers, [1, 3, 4, 4, 6]);
    }

    #[test]
    fn colours_are_left_out_and_bytes_that_are_no_text_are_replaced() {
        assert_eq!(lines(&[b"\x1b[1;32mloss\x1b[0m 0.5\n\x1b[A\n\xff\xfe\x00x"]), ["loss 0.5", "\u{fffd}\u{fffd}\0x"]);
    }

    #[test]
    fn of_an_endless_line_the_start_is_kept() {
        let long = vec![b'x'; 3 << 20];
        let found = lines(&[b"a", &long, b"\nnext"]);
        assert_eq!((found[0].len(), found[1].as_str(), found.len()), (KEPT, "next", 2));
    }

    #[test]
    fn after_a_gap_reading_goes_on_with_a_whole_line() {
        let (mut lines, mut found) = (Lines::new(), Vec::new());
        lines.push(b"one\ntw", |_, line| found.push(line.to_owned()));
        lines.skip();
        lines.push(b"step 9\nfour\n", |_, line| found.push(line.to_owned()));
        lines.finish(|_, line| found.push(line.to_owned()));
        assert_eq!(found, ["one", "four"]);
    }

    proptest! {
        #[test]
        fn pieces_of_a_stream_give_the_lines_of_the_whole(bytes: Vec<u8>, cuts: Vec<proptest::sample::Index>) {
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
            ends.sort_unstable();
            let pieces: Vec<&[u8]> = ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(lines(&pieces), lines(&[&bytes]));
        }
    }
}
