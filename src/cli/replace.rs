//! Which files an output replaces: those that multicard wrote. Another file of the same name stays, and the error says what to do.

use std::error::Error;
use std::path::Path;

use crate::figure::paper::{self, ReadError};
use crate::foreign;

/// Longest file that is looked at. A page contains all of its figures.
const MOST_BYTES: u64 = 256 << 20;

/// The kind of a written file. It decides how an earlier file of the same kind is recognised.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A figure, which carries its provenance.
    Figure,
    /// The LaTeX that includes a figure.
    Latex,
    /// A page of HTML.
    Page,
    /// The Markdown of a report.
    Readme,
    /// A file that says nothing about its writer, such as a table or a plan. It is recognised only if it has the same content.
    Plain,
}

/// How each kind of text begins, in this version and in earlier ones.
const BEGINNINGS: [(Kind, &[&str]); 3] = [
    (Kind::Latex, &["% \\usepackage{graphicx}\n\\begin{figure"]),
    (
        Kind::Page,
        &[
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\"",
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>multicard ",
        ],
    ),
    (Kind::Readme, &["# Session ", "# A reproduction of arXiv "]),
];

/// Refuses to replace a file that is not of a kind that multicard writes. Pipes and devices are written to, and empty files hold nothing.
pub(super) fn check(path: &Path, kind: Kind) -> Result<(), String> {
    check_for(path, kind, b"")
}

/// Writes a file after the check. A file that already has this content is replaced, too.
pub(super) fn write(path: &Path, bytes: &[u8], kind: Kind) -> Result<(), Box<dyn Error>> {
    check_for(path, kind, bytes)?;
    Ok(paper::write_file(path, bytes)?)
}

/// Refuses a link in the place of a file or a folder of a report: writing through it would change something outside the report's folder.
pub(super) fn refuse_link(path: &Path) -> Result<(), String> {
    if !path.is_symlink() {
        return Ok(());
    }
    Err(format!(
        "{} is a link, and may lead to a file of another writer: remove the link, or give another folder with --out",
        path.display()
    ))
}

fn check_for(path: &Path, kind: Kind, bytes: &[u8]) -> Result<(), String> {
    let holds_something = path.metadata().is_ok_and(|about| about.is_file() && about.len() > 0);
    if !holds_something || is_ours(path, kind, bytes) {
        return Ok(());
    }
    Err(format!(
        "{} exists, and multicard did not write it: move or remove it, or give another name with --out",
        path.display()
    ))
}

/// Whether a file is of a kind that multicard writes, or has these bytes.
fn is_ours(path: &Path, kind: Kind, bytes: &[u8]) -> bool {
    if kind == Kind::Figure {
        // One of another version may not be readable, and is a figure of multicard.
        return !matches!(
            paper::read_file(path),
            Err(ReadError::File { .. }
                | ReadError::TooLarge(_)
                | ReadError::Unknown
                | ReadError::Foreign(_)
                | ReadError::Damaged { .. }
                | ReadError::TooMuch(_))
        );
    }
    let Ok(found) = foreign::read(path, MOST_BYTES) else { return false };
    let mut beginnings = BEGINNINGS.iter().filter(|(known, _)| *known == kind).flat_map(|(_, beginnings)| *beginnings);
    found == bytes || beginnings.any(|beginning| found.starts_with(beginning.as_bytes()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_of_another_writer_stays_and_an_earlier_output_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, kind, ours, foreign) in [
            ("a.tex", Kind::Latex, "% \\usepackage{graphicx}\n\\begin{figure*}\n", "\\documentclass{article}\n"),
            ("README.md", Kind::Readme, "# Session s\n\nabout\n", "# My project\n"),
            ("t.csv", Kind::Plain, "a,b\n1,2\n", "a,b\n1,3\n"),
        ] {
            write(&at(name), ours.as_bytes(), kind).unwrap();
            write(&at(name), ours.as_bytes(), kind).unwrap();
            fs::write(at(name), foreign).unwrap();
            let error = write(&at(name), ours.as_bytes(), kind).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("multicard did not write it: move or remove it"), "{error}");
            assert_eq!(fs::read_to_string(at(name)).unwrap(), foreign);
            fs::write(at(name), "").unwrap();
            assert_eq!(check(&at(name), kind), Ok(()), "an empty file holds nothing");
        }
        fs::write(at("a.svg"), "<svg xmlns=\"http://www.w3.org/2000/svg\"/>").unwrap();
        assert!(check(&at("a.svg"), Kind::Figure).is_err());
        assert_eq!(check(&at("absent.svg"), Kind::Figure), Ok(()));
        assert_eq!(check(Path::new("/dev/null"), Kind::Figure), Ok(()));
    }
}
