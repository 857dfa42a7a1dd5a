//! Command lines that show the same as the screen, for use in a terminal, a script or a batch system.

use super::desk::{Desk, place_of};
use super::words::shell_word;
use crate::figure::{Study, arguments, paper};

/// A command on the open session, from the words before and after the session.
///
/// # Errors
/// No session is open.
pub fn of_session(desk: &Desk, before: &str, behind: &[String]) -> Result<String, String> {
    let session = desk.session.as_ref().ok_or("no session is open")?;
    let words = [before.to_owned(), shell_word(&session.place())];
    Ok(format!("multicard {}", [&words, behind].concat().join(" ")))
}

/// A command on the open session and the sessions that are compared with it. `before` and `behind` are the words before
/// and after the sessions.
///
/// # Errors
/// No session is open.
pub fn of_compared(desk: &Desk, before: &str, behind: &[String]) -> Result<String, String> {
    let others = desk.sources().into_iter().skip(1);
    let others = others.map(|source| shell_word(&place_of(&source.records.folder)));
    of_session(desk, before, &others.chain(behind.iter().cloned()).collect::<Vec<_>>())
}

/// The arguments that produce this study of the compared sessions.
///
/// # Errors
/// Why there are none.
pub fn study_words(desk: &Desk, study: &Study) -> Result<Vec<String>, String> {
    Ok(arguments(study, &desk.records.studies)?.iter().map(|word| shell_word(word)).collect())
}

/// The arguments that give a figure this style.
pub fn style_words(style: &paper::Style) -> Vec<String> {
    let usual = paper::Style::default();
    let mut words = Vec::new();
    if style.width != usual.width {
        words.extend(["--width".to_owned(), style.width.to_string()]);
    }
    if style.font != usual.font {
        words.extend(["--font", if style.font == paper::Family::Serif { "serif" } else { "sans" }].map(String::from));
    }
    if style.palette != usual.palette {
        let name = if style.palette == paper::Palette::Grey { "grey" } else { "colour" };
        words.extend(["--palette", name].map(String::from));
    }
    if style.size_pt != usual.size_pt {
        words.extend(["--size".to_owned(), style.size_pt.to_string()]);
    }
    words
}
