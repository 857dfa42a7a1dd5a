//! Lists as texts of a form: words, levels, and lines. Every list is read from its text as it was.
//!
//! Quotes hold what would otherwise be read differently: a word with spaces, `"1.10"` as a text, a line with a line break.

use crate::plan::Level;

const QUOTES: [char; 2] = ['"', '\''];

/// The words of a text, separated by spaces.
///
/// # Errors
/// A quote is not closed.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    Ok(pieces(text, char::is_whitespace)?.into_iter().map(|(word, _)| word).collect())
}

/// The text with these words.
pub(super) fn words_text(words: &[String]) -> String {
    words.iter().map(|word| piece_text(word)).collect::<Vec<_>>().join(" ")
}

/// The levels of a text, separated by commas: numbers if all of them are numbers without quotes, texts otherwise.
///
/// # Errors
/// A quote is not closed.
pub(super) fn levels(text: &str) -> Result<Vec<Level>, String> {
    let pieces = pieces(text, |letter| letter == ',')?;
    let numbers: Option<Vec<Level>> =
        pieces.iter().map(|(text, is_quoted)| if *is_quoted { None } else { number(text) }).collect();
    Ok(numbers.unwrap_or_else(|| pieces.iter().map(|(text, _)| Level::text(text)).collect()))
}

/// The text with these levels, which are all numbers or all texts, as in a plan.
pub(super) fn levels_text(levels: &[Level]) -> String {
    let look_like_numbers = levels.iter().all(|level| number(&level.to_string()).is_some());
    let shown = |level: &Level| match level.as_text() {
        None => level.to_string(),
        // The number of "1.10" is written 1.1. It is quoted beside other texts, too, since the user may remove those.
        Some(text) if look_like_numbers || number(text).is_some_and(|number| number.to_string() != text) => {
            quoted(text)
        }
        Some(text) => piece_text(text),
    };
    levels.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// The number that a text would be without quotes.
fn number(text: &str) -> Option<Level> {
    let real = || text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Level::Number);
    text.parse().ok().map(Level::Integer).or_else(real)
}

/// The lines of a text that are not blank. Quotes mean themselves, unless they enclose a line that [`lines_text`] quotes.
pub(super) fn lines(text: &str) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), Some(text));
    while let Some(text) = rest {
        let is_line = |after: &str| after.is_empty() || after.starts_with('\n');
        if let Some((line, after)) = unquoted(text).filter(|(line, after)| is_line(after) && needs_quotes(line)) {
            lines.push(line);
            rest = after.strip_prefix('\n');
            continue;
        }
        let (line, after) = text.split_once('\n').map_or((text, None), |(line, after)| (line, Some(after)));
        let line = line.strip_suffix('\r').unwrap_or(line);
        if !line.trim().is_empty() {
            lines.push(line.to_owned());
        }
        rest = after;
    }
    lines
}

/// The text with these lines.
pub(super) fn lines_text(lines: &[String]) -> String {
    let shown = |line: &String| if needs_quotes(line) { quoted(line) } else { line.clone() };
    lines.iter().map(shown).collect::<Vec<_>>().join("\n")
}

/// Whether a line would be read as another one, or as several, without quotes around it.
fn needs_quotes(line: &str) -> bool {
    // A quote that is not closed in its own line could be closed in a further one.
    let may_lose_quotes = || unquoted(line).is_none_or(|(inner, after)| after.is_empty() && needs_quotes(&inner));
    line.trim().is_empty()
        || line.contains('\n')
        || line.ends_with('\r')
        || line.starts_with(QUOTES) && may_lose_quotes()
}

/// The name before the `=` of a line, and the text after it; `None` without `=`.
pub(super) fn pair(line: &str) -> Option<(String, String)> {
    let quoted = unquoted(line.trim_start());
    if let Some((name, text)) = quoted.and_then(|(name, after)| Some((name, after.trim_start().strip_prefix('=')?))) {
        return Some((name, text.to_owned()));
    }
    line.split_once('=').map(|(name, text)| (name.trim().to_owned(), text.to_owned()))
}

/// The line with this name and text; `between` is `=`, with or without spaces.
pub(super) fn pair_text(name: &str, between: &str, text: &str) -> String {
    let needs_quotes = name.is_empty() || name.trim() != name || name.contains('=') || name.starts_with(QUOTES);
    format!("{}{between}{text}", if needs_quotes { quoted(name) } else { name.to_owned() })
}

/// Splits a text at separators; quotes keep a piece together. Returns each piece with whether it had quotes.
fn pieces(text: &str, is_separator: impl Fn(char) -> bool) -> Result<Vec<(String, bool)>, String> {
    let (mut pieces, mut piece, mut quoted, mut was_quoted) = (Vec::new(), String::new(), None, false);
    let mut end = |piece: &mut String, was_quoted: &mut bool| {
        let whole = std::mem::take(piece);
        let whole = if *was_quoted { whole } else { whole.trim().to_owned() };
        if !whole.is_empty() || *was_quoted {
            pieces.push((whole, *was_quoted));
        }
        *was_quoted = false;
    };
    for letter in text.chars() {
        match (quoted, letter) {
            (Some(quote), letter) if letter == quote => quoted = None,
            (None, letter) if QUOTES.contains(&letter) => {
                if !was_quoted {
                    piece = piece.trim_start().to_owned();
                }
                (quoted, was_quoted) = (Some(letter), true);
            }
            (None, letter) if is_separator(letter) => end(&mut piece, &mut was_quoted),
            // Spaces after a quoted level.
            (None, ' ') if was_quoted => {}
            (_, letter) => piece.push(letter),
        }
    }
    if let Some(quote) = quoted {
        return Err(format!("a {quote} is not closed"));
    }
    end(&mut piece, &mut was_quoted);
    Ok(pieces)
}

/// A piece as [`pieces`] reads it, with quotes where needed.
fn piece_text(piece: &str) -> String {
    let is_bare = |letter: char| !letter.is_whitespace() && letter != ',' && !QUOTES.contains(&letter);
    if !piece.is_empty() && piece.chars().all(is_bare) { piece.to_owned() } else { quoted(piece) }
}

/// A text in quotes.
fn quoted(text: &str) -> String {
    if !text.contains('"') {
        return format!("\"{text}\"");
    }
    if !text.contains('\'') {
        return format!("'{text}'");
    }
    // Neither kind of quotes can hold both kinds: the text is split into parts with alternating quotes.
    let parts = text.split('"').map(|part| if part.is_empty() { String::new() } else { format!("\"{part}\"") });
    parts.collect::<Vec<_>>().join("'\"'")
}

/// The text in the quotes with which a text begins, and what is after them; `None` if it begins with none, or if one is not closed.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut inner, mut after) = (String::new(), text);
    while let Some(quote) = after.chars().next().filter(|letter| QUOTES.contains(letter)) {
        let (part, further) = after[1..].split_once(quote)?;
        inner.push_str(part);
        after = further;
    }
    (after.len() < text.len()).then_some((inner, after))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn texts(texts: &[&str]) -> Vec<Level> {
        texts.iter().map(|text| Level::text(text)).collect()
    }

    fn any_levels() -> impl Strategy<Value = Vec<Level>> {
        let text = prop_oneof![
            "[0-9.+e-]{0,5}",
            "[a-z0-9 \"',.\n\t]{0,6}",
            "\\PC{0,6}",
            proptest::sample::select(vec!["true", "off", "nan", "inf", "1.10", "007"]).prop_map(str::to_owned),
        ];
        let number = prop_oneof![any::<i64>().prop_map(Level::Integer), (-1e30..1e30).prop_map(Level::Number)];
        prop_oneof![
            vec(text, 0..5).prop_map(|all| all.iter().map(|one| Level::text(one)).collect::<Vec<_>>()),
            vec(number, 0..5)
        ]
    }

    #[test]
    fn texts_that_look_like_numbers_are_quoted_and_quoted_numbers_are_texts() {
        for (levels, expected) in [
            (texts(&["1.9", "1.10"]), "\"1.9\", \"1.10\""),
            (texts(&["007"]), "\"007\""),
            (texts(&["auto", "4"]), "auto, 4"),
            (texts(&["1.10", "nightly"]), "\"1.10\", nightly"),
            (texts(&["a,b", "c"]), "\"a,b\", c"),
            (texts(&["true", "nan"]), "true, nan"),
            (texts(&["say \"x\""]), "'say \"x\"'"),
            (vec![Level::Integer(1), Level::Number(0.5)], "1, 0.5"),
        ] {
            assert_eq!(levels_text(&levels), expected);
        }
        assert_eq!(levels(" \"1\" , 2").unwrap(), texts(&["1", "2"]));
        assert_eq!(levels("1, 2.0").unwrap(), [Level::Integer(1), Level::Integer(2)]);
    }

    #[test]
    fn a_line_is_quoted_only_where_it_would_be_read_differently() {
        for (line, expected) in [
            ("\"loss\": (?<loss>\\S+)", "\"loss\": (?<loss>\\S+)"),
            ("\"(?<loss>\\S+)\"", "\"(?<loss>\\S+)\""),
            (" MOTD= two\tparts", " MOTD= two\tparts"),
            ("MOTD=a\nb", "\"MOTD=a\nb\""),
            ("\"open", "'\"open'"),
            ("", "\"\""),
        ] {
            assert_eq!(lines_text(&[line.to_owned()]), expected);
        }
        assert_eq!(lines("a\r\n\n \n\"b\"\n\"c\nd\" e"), ["a", "\"b\"", "\"c", "d\" e"]);
    }

    #[test]
    fn a_name_with_a_sign_of_equality_is_quoted() {
        let pair = |line: &str| pair(line).unwrap();
        assert_eq!(pair_text("acc (k=5)", " = ", "accuracy"), "\"acc (k=5)\" = accuracy");
        assert_eq!(pair("\"acc (k=5)\" = accuracy"), ("acc (k=5)".to_owned(), " accuracy".to_owned()));
        assert_eq!(pair(" A =\"x\" = y"), ("A".to_owned(), "\"x\" = y".to_owned()));
        assert_eq!(super::pair("\"A\""), None);
    }

    proptest! {
        #[test]
        fn levels_are_read_as_they_were(all in any_levels()) {
            let read = levels(&levels_text(&all)).unwrap();
            prop_assert_eq!(&read, &all, "{}", levels_text(&all));
            let is_text = |level: &Level| level.as_text().is_some();
            prop_assert!(read.iter().map(is_text).eq(all.iter().map(is_text)));
        }

        #[test]
        fn words_are_read_as_they_were(all in vec("[a-z \"',{}=\n\t]{0,8}", 0..5)) {
            prop_assert_eq!(words(&words_text(&all)).unwrap(), all);
        }

        #[test]
        fn lines_are_read_as_they_were(all in vec("[ab \"'=\n\r]{0,8}", 0..5)) {
            prop_assert_eq!(lines(&lines_text(&all)), all);
        }

        #[test]
        fn names_and_texts_are_read_as_they_were(all in vec(("[ab \"'=\n\r]{0,6}", "[ab \"'=\n\r]{0,6}"), 0..4)) {
            let written: Vec<String> = all.iter().map(|(name, text)| pair_text(name, "=", text)).collect();
            let read: Option<Vec<_>> = lines(&lines_text(&written)).iter().map(|line| pair(line)).collect();
            prop_assert_eq!(read.unwrap(), all);
        }
    }
}
