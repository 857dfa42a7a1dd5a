//! Reads a trace from beginning to end, a piece at a time; damaged parts are skipped.
//!
//! A file is an object with facts and the list `traceEvents`, or that list alone. Only a window of it is in memory.

use std::io::{self, Read};
use std::ops::ControlFlow;

use super::json::{Cursor, Stop, Value};
use super::record::Record;

/// Bytes that are read at a time.
const STRIDE: usize = 1 << 20;
/// The longest event or fact.
const MOST_BYTES: usize = 16 << 20;
/// The longest event behind a damaged place, where its beginning is a guess.
const MOST_GUESSED_BYTES: usize = 1 << 20;
/// Bytes that may be looked at in vain behind damaged places, and how many more for each byte that was read. A file made to waste time is
/// given up.
const MOST_WASTED_BYTES: u64 = 64 << 20;
const MOST_WASTED: u64 = 8;
/// The list of events.
const EVENTS: &[u8] = b"traceEvents";

/// A piece of a trace.
pub(super) enum Piece<'t> {
    /// A member of the outermost object.
    Fact(&'t [u8], Value<'t>),
    Event(&'t Record<'t>),
}

/// Where reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    Facts,
    Events,
    End,
}

/// The parts of a file that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Damage {
    /// Damaged places, and the first one's byte.
    pub places: u64,
    pub first: u64,
    /// The byte at which the file is cut off, or at which it was given up.
    pub cut_at: Option<u64>,
    pub given_up: bool,
    /// Why the bytes could not be unpacked to their end.
    pub unpacking: Option<String>,
}

pub(super) struct Document<'a> {
    reader: Box<dyn Read + 'a>,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes before the buffer.
    passed: u64,
    has_ended: bool,
    place: Place,
    /// Whether the list of events is a member of an object.
    is_member: bool,
    /// The byte at which a damaged place begins, while its end is looked for.
    lost: Option<u64>,
    wasted: u64,
    damage: Damage,
}

/// The result of an attempt to read a piece.
enum Step {
    Done,
    More,
    Stopped,
}

impl<'a> Document<'a> {
    pub fn new(reader: impl Read + 'a) -> Self {
        Self {
            reader: Box::new(reader),
            buffer: Vec::new(),
            at: 0,
            passed: 0,
            has_ended: false,
            place: Place::Start,
            is_member: false,
            lost: None,
            wasted: 0,
            damage: Damage::default(),
        }
    }

    /// Whether this begins like a trace.
    pub fn begins(&mut self) -> io::Result<bool> {
        self.fill()?;
        let text = self.buffer.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.buffer);
        Ok(matches!(text.trim_ascii_start().first(), Some(b'{' | b'[')))
    }

    /// The parts that could not be read so far.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Passes on all pieces, until `take` breaks.
    pub fn pieces(&mut self, mut take: impl FnMut(Piece<'_>, u64) -> io::Result<ControlFlow<()>>) -> io::Result<()> {
        loop {
            let step = match self.place {
                Place::Start => self.start()?,
                Place::Facts => self.fact(&mut take)?,
                Place::Events => self.event(&mut take)?,
                Place::End => return Ok(()),
            };
            match step {
                Step::Done => {}
                Step::Stopped => return Ok(()),
                Step::More => {
                    if !self.fill()? {
                        self.end();
                    }
                }
            }
        }
    }

    /// Reads more behind what the buffer still holds; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.has_ended {
            return Ok(false);
        }
        self.buffer.drain(..self.at);
        self.passed += self.at as u64;
        self.at = 0;
        // A piece that is longer than the buffer is not read over and over again.
        let wanted = STRIDE.max(self.buffer.len());
        let before = self.buffer.len();
        let read = self.reader.by_ref().take(wanted as u64).read_to_end(&mut self.buffer);
        match read {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
                ) =>
            {
                self.damage.unpacking = Some(error.to_string());
                self.has_ended = true;
            }
            read => self.has_ended = read? < wanted,
        }
        Ok(self.buffer.len() > before)
    }

    /// The file has ended where more was expected.
    fn end(&mut self) {
        if self.place != Place::Start {
            let at = self.lost.unwrap_or(self.passed + self.at as u64);
            self.damage.cut_at = Some(at);
        }
        self.place = Place::End;
    }

    fn start(&mut self) -> io::Result<Step> {
        if self.buffer[self.at..].starts_with(b"\xef\xbb\xbf") {
            self.at += 3;
        }
        let mut cursor = Cursor::new(&self.buffer[self.at..]);
        let next = cursor.peek();
        self.at += cursor.at;
        self.place = match next {
            Err(_) => return Ok(Step::More),
            Ok(b'{') => Place::Facts,
            Ok(b'[') => Place::Events,
            Ok(_) => Place::End,
        };
        self.at += 1;
        Ok(Step::Done)
    }

    fn fact(&mut self, take: &mut impl FnMut(Piece<'_>, u64) -> io::Result<ControlFlow<()>>) -> io::Result<Step> {
        let rest = &self.buffer[self.at..];
        if self.lost.is_some() {
            // Behind a damaged place only the list of events is looked for.
            let Some(place) = rest.windows(EVENTS.len() + 2).position(|window| {
                window.starts_with(b"\"") && window.ends_with(b"\"") && &window[1..=EVENTS.len()] == EVENTS
            }) else {
                self.at += rest.len().saturating_sub(EVENTS.len() + 1);
                return Ok(Step::More);
            };
            self.at += place;
            self.found();
            return Ok(Step::Done);
        }
        let mut cursor = Cursor::new(rest);
        let read = (|| {
            while cursor.takes(b',')? {}
            if cursor.takes(b'}')? {
                return Ok(None);
            }
            let key = cursor.key()?;
            if key == EVENTS && cursor.takes(b'[')? {
                return Ok(Some((key, Value::Missing)));
            }
            let value = cursor.value()?;
            Ok(Some((key, value)))
        })();
        match read {
            Err(Stop::Cut) if !self.has_ended && rest.len() < MOST_BYTES => Ok(Step::More),
            Err(Stop::Cut) if self.has_ended => Ok(Step::More),
            Err(_) => {
                self.lose();
                Ok(Step::Done)
            }
            Ok(piece) => {
                let (mut step, length) = (Step::Done, cursor.at);
                match piece {
                    None => self.place = Place::End,
                    Some((EVENTS, Value::Missing)) => (self.place, self.is_member) = (Place::Events, true),
                    Some((key, value)) => {
                        if take(Piece::Fact(key, value), self.passed + self.at as u64)?.is_break() {
                            step = Step::Stopped;
                        }
                    }
                }
                self.at += length;
                Ok(step)
            }
        }
    }

    fn event(&mut self, take: &mut impl FnMut(Piece<'_>, u64) -> io::Result<ControlFlow<()>>) -> io::Result<Step> {
        if self.lost.is_some() {
            // The next event may begin at the next bracket.
            let rest = &self.buffer[self.at..];
            let skipped = rest.iter().position(|byte| *byte == b'{').unwrap_or(rest.len());
            self.at += skipped;
        }
        let rest = &self.buffer[self.at..];
        let mut cursor = Cursor::new(rest);
        let next = (|| {
            while cursor.takes(b',')? {}
            cursor.peek()
        })();
        match next {
            Err(_) => {
                self.at += cursor.at;
                return Ok(Step::More);
            }
            Ok(b'{') => {}
            Ok(b']') => {
                self.at += cursor.at + 1;
                self.place = if self.is_member { Place::Facts } else { Place::End };
                return Ok(Step::Done);
            }
            Ok(_) => {
                self.at += cursor.at;
                self.lose();
                return Ok(Step::Done);
            }
        }
        let start = cursor.at;
        match Record::read(&mut cursor) {
            Ok(record) if self.lost.is_none() || record.is_event() => {
                let length = cursor.at;
                let taken = take(Piece::Event(&record), self.passed + (self.at + start) as u64)?;
                self.at += length;
                self.found();
                Ok(if taken.is_break() { Step::Stopped } else { Step::Done })
            }
            Err(Stop::Cut)
                if !self.has_ended
                    && rest.len() < if self.lost.is_some() { MOST_GUESSED_BYTES } else { MOST_BYTES } =>
            {
                self.at += start;
                Ok(Step::More)
            }
            _ => {
                self.wasted += (cursor.at - start) as u64;
                self.at += start;
                self.lose();
                Ok(Step::Done)
            }
        }
    }

    /// The next byte belongs to no piece.
    fn lose(&mut self) {
        let at = self.passed + self.at as u64;
        self.lost.get_or_insert(at);
        self.at = self.buffer.len().min(self.at + 1);
        if self.wasted > MOST_WASTED_BYTES + MOST_WASTED * at {
            self.damage.given_up = true;
            self.end();
        }
    }

    /// The end of a damaged place.
    fn found(&mut self) {
        if let Some(lost) = self.lost.take() {
            if self.damage.places == 0 {
                self.damage.first = lost;
            }
            self.damage.places += 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// The names of a text's events, its facts, and its damage, read in pieces of any size.
    fn read(text: &[u8]) -> (Vec<String>, Vec<String>, Damage) {
        let (mut events, mut facts) = (Vec::new(), Vec::new());
        let mut document = Document::new(text);
        document
            .pieces(|piece, _| {
                match piece {
                    Piece::Fact(key, _) => facts.push(String::from_utf8_lossy(key).into_owned()),
                    Piece::Event(record) => {
                        let name = record.item().and_then(|item| item.name.map(std::borrow::Cow::into_owned));
                        events.push(name.unwrap_or_default());
                    }
                }
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        (events, facts, document.damage().clone())
    }

    fn event(name: &str) -> String {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "ts": 1, "dur": 2, "args": {{"Input Dims": [[1], []]}}}}"#
        )
    }

    fn whole() -> String {
        format!(
            "{{\"schemaVersion\": 1,\n \"traceEvents\": [\n{},\n{}\n],\n \"traceName\": \"a\"}}",
            event("one"),
            event("two")
        )
    }

    #[test]
    fn facts_and_events_are_read_from_objects_and_from_lists() {
        let (events, facts, damage) = read(whole().as_bytes());
        assert_eq!(
            (events, facts),
            (vec!["one".to_owned(), "two".to_owned()], vec!["schemaVersion".to_owned(), "traceName".to_owned()])
        );
        assert_eq!(damage, Damage::default());
        let (events, facts, damage) = read(format!("\u{feff} [{},{},]", event("one"), event("two")).as_bytes());
        assert_eq!((events.len(), facts.len(), damage), (2, 0, Damage::default()));
        for text in ["", " ", "hello", "12"] {
            assert_eq!(read(text.as_bytes()), (Vec::new(), Vec::new(), Damage::default()), "{text}");
        }
    }

    #[test]
    fn a_text_cut_anywhere_gives_the_events_before_the_cut_and_says_so() {
        let whole = whole();
        let ends: Vec<usize> =
            ["one", "two"].map(|name| whole.find(&event(name)).unwrap() + event(name).len()).to_vec();
        for end in 1..whole.len() {
            let (events, _, damage) = read(&whole.as_bytes()[..end]);
            assert_eq!(events.len(), ends.iter().filter(|place| **place <= end).count(), "{}", &whole[..end]);
            let cut_at = damage.cut_at.unwrap();
            assert!(cut_at <= end as u64 && damage.places == 0, "{damage:?}");
        }
    }

    #[test]
    fn a_damaged_event_costs_itself_and_the_next_one_is_found() {
        let broken = whole().replace("],\n", ",\n],\n").replacen("\"cpu_op\"", "\"cpu\"_op\"", 1);
        let (events, facts, damage) = read(broken.as_bytes());
        assert_eq!((events, facts.len()), (vec!["two".to_owned()], 2));
        assert_eq!((damage.places, damage.first, damage.cut_at), (1, broken.find("{\"ph\"").unwrap() as u64, None));
        let noise = whole().replacen(",\n{", ", garbage {\"a\": 1} {\u{0}\n{", 1);
        let (events, _, damage) = read(noise.as_bytes());
        assert_eq!((events.len(), damage.places), (2, 1));
        let fact = whole().replacen("1,", "1 2 3 \"traceEvents,", 1);
        let (events, facts, damage) = read(fact.as_bytes());
        assert_eq!((events.len(), facts.len(), damage.places), (2, 2, 1));
    }

    #[test]
    fn events_longer_than_the_window_are_read_and_those_beyond_all_measure_are_not() {
        let long = |bytes: usize| whole().replacen("[[1], []]", &format!("[\"{}\"]", "x".repeat(bytes)), 1);
        let (events, _, damage) = read(long(3 << 20).as_bytes());
        assert_eq!((events.len(), damage), (2, Damage::default()));
        let (events, _, damage) = read(long(3 * MOST_BYTES).as_bytes());
        assert_eq!((events, damage.places, damage.cut_at), (vec!["two".to_owned()], 1, None));
    }

    #[test]
    fn a_text_made_to_waste_time_is_given_up() {
        for piece in ["{\"\":[", "{\"ph\":{", "{\"a\":1,", "{", "{\"\":\""] {
            let text = format!("{{\"traceEvents\": [{}", piece.repeat((3 << 20) / piece.len()));
            let began = Instant::now();
            let (events, _, damage) = read(text.as_bytes());
            assert!(events.is_empty() && damage.cut_at.is_some(), "{piece}: {damage:?}");
            assert!(began.elapsed().as_secs() < 60, "{piece} took {:?}", began.elapsed());
        }
    }
}
