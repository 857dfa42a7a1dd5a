//! Lines of prose on a terminal: broken between words, since a terminal breaks long lines within them.

use std::env;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// How lines of prose begin. Other lines may be of a table, of code or of another format, in which a line break has a meaning.
const BEGINNINGS: [&str; 7] = ["- ", "> ", "✓ ", "✗ ", "    → ", "Note: ", "Warning: "];

/// The columns of a terminal. Where the terminal does not know them, as on a serial line, the variable COLUMNS gives them. `None` if they
/// are unknown.
pub(super) fn columns(terminal: impl AsFd) -> Option<usize> {
    let known = tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    known.or_else(|| env::var("COLUMNS").ok()?.parse::<usize>().ok().filter(|columns| *columns > 0))
}

/// The text with its lines of prose broken between words, so that they fit into these columns; the text goes on below its begin. A word
/// that is wider than a line stays whole.
pub(super) fn wrapped(text: &str, columns: usize) -> String {
    text.lines().map(|line| wrapped_line(line, columns) + "\n").collect()
}

fn wrapped_line(line: &str, columns: usize) -> String {
    let Some(beginning) = BEGINNINGS.into_iter().find(|beginning| line.starts_with(beginning)) else {
        return line.to_owned();
    };
    let indent = beginning.chars().count();
    let (mut wrapped, mut column) = (beginning.to_owned(), indent);
    for (place, word) in line[beginning.len()..].split(' ').enumerate() {
        let width = word.chars().count();
        if place > 0 && column + 1 + width > columns {
            wrapped += &format!("\n{:indent$}", "");
            column = indent;
        } else if place > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += width;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_between_words_and_goes_on_below_its_begin() {
        let text = "- CUPTI: no activity of GPUs\n    → build it\n✓ ssh: /usr/bin/ssh\nNote: one two three\n";
        let expected = "- CUPTI: no\n  activity of\n  GPUs\n    → build it\n✓ ssh:\n  /usr/bin/ssh\n\
                        Note: one two\n      three\n";
        assert_eq!(wrapped(text, 14), expected);
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn a_word_wider_than_the_terminal_stays_whole() {
        assert_eq!(wrapped("✗ Worker: a /very/long/path b", 8), "✗ Worker:\n  a\n  /very/long/path\n  b\n");
        assert_eq!(wrapped("- abc", 1), "- abc\n");
    }

    #[test]
    fn tables_and_other_formats_keep_their_lines() {
        for line in ["| a long row | of a table |\n", "{\"key\": \"a long value\"}\n", "a,long,row of CSV\n", "\n"] {
            assert_eq!(wrapped(line, 5), line);
        }
    }
}
