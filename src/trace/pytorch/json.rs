//! JSON as profilers write it, which is not always JSON: values such as `nan` and `inf`, raw control characters, and commas too many are
//! taken. Nothing is copied, and nesting takes no stack.

use std::borrow::Cow;

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The text ends within it.
    Cut,
    /// It is no value.
    Wrong,
}

/// A value as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value<'a> {
    #[default]
    Missing,
    /// The text between the quotes, with its escapes.
    Text(&'a [u8]),
    /// A number or a word.
    Bare(&'a [u8]),
    /// An array or an object, with its brackets.
    Nested(&'a [u8]),
}

/// A place in a text.
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is no space.
    #[inline]
    pub fn peek(&mut self) -> Result<u8, Stop> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Stop::Cut),
            }
        }
    }

    /// Passes over the next byte that is no space, if it is this one.
    #[inline]
    pub fn takes(&mut self, byte: u8) -> Result<bool, Stop> {
        let is_next = self.peek()? == byte;
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Reads a string, at its opening quote.
    #[inline]
    fn string(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            match self.text.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => return Err(Stop::Cut),
            }
        }
        self.at = at + 1;
        Ok(&self.text[start..at])
    }

    /// Passes over an array or an object, at its opening bracket. Which brackets close which is not checked.
    fn nested(&mut self) -> Result<&'a [u8], Stop> {
        let (start, mut depth) = (self.at, 0_usize);
        loop {
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth -= 1,
                Some(_) => {}
                None => return Err(Stop::Cut),
            }
            self.at += 1;
            if depth == 0 {
                return Ok(&self.text[start..self.at]);
            }
        }
    }

    /// Reads a value of any kind.
    #[inline]
    pub fn value(&mut self) -> Result<Value<'a>, Stop> {
        match self.peek()? {
            b'"' => self.string().map(Value::Text),
            b'{' | b'[' => self.nested().map(Value::Nested),
            _ => {
                let rest = &self.text[self.at..];
                let ends = |byte: &u8| {
                    matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[') || byte.is_ascii_whitespace()
                };
                let length = rest.iter().position(ends).ok_or(Stop::Cut)?;
                self.at += length;
                Ok(if length == 0 { Value::Missing } else { Value::Bare(&rest[..length]) })
            }
        }
    }

    /// Reads a member's key and the colon after it.
    #[inline]
    pub fn key(&mut self) -> Result<&'a [u8], Stop> {
        if self.peek()? != b'"' {
            return Err(Stop::Wrong);
        }
        let key = self.string()?;
        if self.takes(b':')? { Ok(key) } else { Err(Stop::Wrong) }
    }

    /// Reads an object, at its opening bracket. `each` is given a key, and reads its value.
    #[inline]
    pub fn members(&mut self, mut each: impl FnMut(&'a [u8], &mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                b',' => self.at += 1,
                _ => {
                    let key = self.key()?;
                    each(key, self)?;
                    if !matches!(self.peek()?, b',' | b'}') {
                        return Err(Stop::Wrong);
                    }
                }
            }
        }
    }
}

impl<'a> Value<'a> {
    /// Its text, if it is one.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(raw) if !raw.contains(&b'\\') => Some(String::from_utf8_lossy(raw)),
            Self::Text(raw) => Some(Cow::Owned(unescaped(raw))),
            _ => None,
        }
    }

    /// A whole number; one in quotes counts, too.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Bare(raw) | Self::Text(raw) => std::str::from_utf8(raw).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Bare(raw) | Self::Text(raw) => std::str::from_utf8(raw).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// A time in microseconds with decimals, as nanoseconds. A binary fraction would round: `1790857026000000.123` has 19 digits.
    pub fn microseconds(self) -> Option<i64> {
        let (Self::Bare(raw) | Self::Text(raw)) = self else { return None };
        let (is_negative, digits) = match raw.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, raw),
        };
        let point = digits.iter().position(|byte| *byte == b'.');
        let (whole, fraction) = digits.split_at(point.unwrap_or(digits.len()));
        let fraction = fraction.strip_prefix(b".").unwrap_or_default();
        if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            let value: f64 = std::str::from_utf8(raw).ok()?.parse().ok()?;
            let ns = value * 1e3;
            return (ns.abs() < 9e18).then_some(ns.round() as i64);
        }
        let thousandths = fraction.iter().copied().chain([b'0'; 3]).take(3);
        let ns = whole
            .iter()
            .copied()
            .chain(thousandths)
            .try_fold(0_i64, |ns, digit| ns.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
        Some(if is_negative { -ns } else { ns })
    }
}

/// A text without its escapes; invalid escapes are left as they are.
fn unescaped(raw: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
        bytes.extend_from_slice(&rest[..place]);
        let code = rest.get(place + 1).copied().unwrap_or(b'\\');
        rest = rest.get(place + 2..).unwrap_or_default();
        match code {
            b'"' | b'\\' | b'/' => bytes.push(code),
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            b'u' => {
                let (letter, taken) = unicode(rest);
                rest = &rest[taken..];
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => bytes.extend_from_slice(&[b'\\', other]),
        }
    }
    bytes.extend_from_slice(rest);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The letter whose number follows a `\u`, which may go on in a second one, and how many bytes that takes.
fn unicode(rest: &[u8]) -> (char, usize) {
    let four = |at: usize| {
        let digits = rest.get(at..at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    match four(0) {
        None => (char::REPLACEMENT_CHARACTER, 0),
        Some(high @ 0xd800..0xdc00) => {
            match four(6).filter(|low| rest[4..].starts_with(b"\\u") && (0xdc00..0xe000).contains(low)) {
                Some(low) => {
                    let letter = char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
                    (letter.unwrap_or(char::REPLACEMENT_CHARACTER), 10)
                }
                None => (char::REPLACEMENT_CHARACTER, 4),
            }
        }
        Some(number) => (char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER), 4),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Cursor::new(text.as_bytes()).value().unwrap()
    }

    #[test]
    fn microseconds_become_nanoseconds_without_rounding() {
        for (text, ns) in [
            ("1790857026000000.123 ", Some(1_790_857_026_000_000_123)),
            ("12.5,", Some(12_500)),
            ("12.3456}", Some(12_345)),
            ("-0.001 ", Some(-1)),
            ("7,", Some(7_000)),
            ("\"7.25\"", Some(7_250)),
            ("1.5e3,", Some(1_500_000)),
            ("nan,", None),
            ("-Infinity,", None),
            ("9223372036854775807,", None),
            ("1e300,", None),
            ("[1],", None),
            (",", None),
        ] {
            assert_eq!(value(text).microseconds(), ns, "{text}");
        }
    }

    #[test]
    fn texts_lose_their_escapes_and_wrong_ones_stay() {
        for (text, shown) in [
            (r#""aten::add""#, "aten::add"),
            (r#""a\"b\\c\/d\n""#, "a\"b\\c/d\n"),
            (r#""\u00e9\ud83d\ude00\ud83d""#, "é😀\u{fffd}"),
            (r#""\ud83d\u0041\uzz\q""#, "\u{fffd}A\u{fffd}zz\\q"),
        ] {
            assert_eq!(value(text).text().unwrap(), shown, "{text}");
        }
        assert_eq!(Cursor::new(b"\"\xc3\"").value().unwrap().text().unwrap(), "\u{fffd}");
        assert_eq!(value("12,").text(), None);
    }

    #[test]
    fn objects_are_read_member_by_member_however_deep_and_sloppy_they_are() {
        let deep =
            format!("{{\"a\": {}1{}, , \"b\" : nan, \"c\":\"}}\", }} rest", "[".repeat(100_000), "]".repeat(100_000));
        let mut cursor = Cursor::new(deep.as_bytes());
        let mut found = Vec::new();
        cursor
            .members(|key, cursor| {
                found.push((String::from_utf8_lossy(key).into_owned(), cursor.value()?));
                Ok(())
            })
            .unwrap();
        assert_eq!(found.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(matches!(found[0].1, Value::Nested(text) if text.len() == 200_001));
        assert_eq!((found[1].1, found[2].1), (Value::Bare(b"nan"), Value::Text(b"}")));
        assert_eq!(&deep.as_bytes()[cursor.at..], b" rest");
    }

    #[test]
    fn a_text_that_ends_early_is_cut_and_a_wrong_one_is_wrong() {
        let read = |text: &str| Cursor::new(text.as_bytes()).members(|_, cursor| cursor.value().map(drop));
        for text in [
            "{",
            "{\"a",
            "{\"a\\",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":[1,{\"b\":\"]",
            "{\"a\":\"b\"",
            "{\"a\":1,",
        ] {
            assert_eq!(read(text), Err(Stop::Cut), "{text}");
        }
        for text in ["{a", "{1:2}", "{\"a\" 1}", "{\"a\":\"b\"c\"}", "{\"a\":1 2}", "{]"] {
            assert_eq!(read(text), Err(Stop::Wrong), "{text}");
        }
        assert_eq!(read("{\"a\":}"), Ok(()));
    }
}
