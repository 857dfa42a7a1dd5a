//! Shows text from other programs safely: characters that could control a terminal or change the order of text are written as escapes.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};

/// Most characters of a line in a message.
const MOST_LINE_CHARS: usize = 2_000;

/// Whether a character controls a terminal, reorders or hides text: control characters other than line breaks and tabs, marks of
/// direction, invisible ones (Unicode's Trojan Source set, tags and separators).
pub fn misleads(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => letter.is_control(),
    }
}

/// The text with every misleading character escaped as in JSON: `\u001b`. The meaning of JSON text is unchanged.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if misleads(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                escaped += &format!("\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

/// The parts of a sentence that has code between pairs of backticks, each with whether it is code. A backtick without a partner is text.
pub fn code_parts(sentence: &str) -> Vec<(&str, bool)> {
    let mut parts: Vec<(&str, bool)> =
        sentence.split('`').enumerate().map(|(place, part)| (part, place % 2 == 1)).collect();
    if let Some((rest, is_code)) = parts.last_mut().filter(|(_, is_code)| *is_code) {
        (*rest, *is_code) = (&sentence[sentence.len() - rest.len() - 1..], false);
    }
    parts
}

/// A message for people: [`printable`], with very long lines shortened.
pub fn message(text: &str) -> Cow<'_, str> {
    let is_long = |line: &str| line.len() > MOST_LINE_CHARS && line.chars().nth(MOST_LINE_CHARS).is_some();
    if !text.split('\n').any(is_long) {
        return printable(text);
    }
    let mut cut = String::new();
    for (place, line) in text.split('\n').enumerate() {
        if place > 0 {
            cut.push('\n');
        }
        match line.char_indices().nth(MOST_LINE_CHARS) {
            Some((end, _)) => {
                cut += &printable(&line[..end]);
                cut += &format!("… ({} bytes more)", line.len() - end);
            }
            None => cut += &printable(line),
        }
    }
    Cow::Owned(cut)
}

/// Writes a [`message`] to stderr. That stderr is closed, or a file on a full disk, is ignored; `eprintln!` would end the process.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", message(&text.to_string()));
}

/// The start and the end of a text with an ellipsis for what is left out between them. An ellipsis beside it would only double it.
pub fn with_ellipsis(start: &str, end: &str) -> String {
    format!("{}…{}", start.trim_end_matches('…'), end.trim_start_matches('…'))
}

/// A text with at most this many of its characters: `…` replaces those in the middle, since the end of a failure tells as much as its start.
pub fn shortened(text: &str, most_chars: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= most_chars {
        return Cow::Borrowed(text);
    }
    let half = most_chars / 2;
    let start: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(count - half).collect();
    Cow::Owned(with_ellipsis(&start, &end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_terminals_and_marks_of_direction_are_written_out() {
        assert!(matches!(printable("50 µs · 2 × H200\n\tfine\u{202f}000"), Cow::Borrowed(_)));
        assert_eq!(printable("\u{1b}[2J\u{7}\u{9b}x\r"), "\\u001b[2J\\u0007\\u009bx\\u000d");
        assert_eq!(printable("a\u{202e}b\u{e0041}"), "a\\u202eb\\udb40\\udc41");
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let text = "name \u{9b}31m \u{202e} \u{e0041} \u{7f}";
        let json = serde_json::json!({ "name": text }).to_string();
        assert_ne!(printable(&json), json);
        let read: Result<serde_json::Value, _> = serde_json::from_str(&printable(&json));
        assert_eq!(read.ok(), Some(serde_json::json!({ "name": text })));
    }

    #[test]
    fn a_long_text_keeps_its_start_and_its_end() {
        assert_eq!(shortened("größer", 6), "größer");
        assert_eq!(shortened("größer als", 6), "grö…als");
    }

    #[test]
    fn a_text_that_is_cut_beside_an_ellipsis_has_one() {
        assert_eq!(
            [with_ellipsis("gr", ""), with_ellipsis("gr…", ""), with_ellipsis("gr…", "…als")],
            ["gr…", "gr…", "gr…als"]
        );
        assert_eq!(shortened("gr…größer…als", 6), "gr…als");
    }

    #[test]
    fn a_line_of_megabytes_is_cut_and_those_around_it_stay() {
        let text = format!("before\n{}\nafter", "é".repeat(4 << 20));
        let cut = message(&text);
        assert!(cut.len() < 3 * MOST_LINE_CHARS, "{}", cut.len());
        assert!(cut.starts_with("before\né") && cut.ends_with(" bytes more)\nafter"), "{cut}");
    }
}
