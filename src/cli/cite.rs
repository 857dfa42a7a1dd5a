//! `multicard cite`: how to cite multicard (from `CITATION.cff`) and measurements made with it. `multicard methods`: a methods
//! paragraph from a session's records.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::material::Material;
use super::study::StudyArguments;
use super::{OK, Outcome, print, session_folder};
use crate::figure;
use crate::plan::{RunState, counted};
use crate::protocol::build;
use crate::text_table::latex_text;

/// How to cite multicard, in the Citation File Format.
const CITATION: &str = include_str!("../../CITATION.cff");

#[derive(Args)]
pub(super) struct Arguments {
    /// Session whose measurements are cited too: its folder, or its name in the default folder.
    session: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = CitationFormat::Bibtex)]
    format: CitationFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CitationFormat {
    /// BibTeX entries.
    Bibtex,
    /// CITATION.cff, which describes multicard alone.
    Cff,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if arguments.format == CitationFormat::Cff {
        if arguments.session.is_some() {
            return Err("--format cff cites multicard alone: leave the session out, or use --format bibtex".into());
        }
        print(CITATION)?;
        return Ok(OK);
    }
    let mut text = software(CITATION);
    if let Some(session) = &arguments.session {
        text += "\n";
        text += &measurements(&Material::read(&session_folder(session)?)?);
    }
    print(&text)?;
    Ok(OK)
}

#[derive(Args)]
pub(super) struct MethodsArguments {
    /// Session folder, or the name of a session in the default folder.
    session: PathBuf,
    #[command(flatten)]
    study: StudyArguments,
}

pub(super) fn methods(arguments: &MethodsArguments) -> Outcome {
    let folder = session_folder(&arguments.session)?;
    let study = arguments.study.study(std::slice::from_ref(&folder))?;
    let material = Material::read(&folder)?;
    arguments.study.check(&material.sources())?;
    print(&figure::methods(&material.sources(), &study, std::slice::from_ref(&material.origin)))?;
    Ok(OK)
}

/// The value of a top-level key of a citation file, without quotes.
fn value<'a>(citation: &'a str, key: &str) -> &'a str {
    let line = citation.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.map_or("", |value| value.trim().trim_matches('"'))
}

/// The names of a citation file's own authors, without those of its references.
fn authors(citation: &str) -> Vec<&str> {
    let lines = citation.lines().skip_while(|line| *line != "authors:").skip(1);
    let own = lines.take_while(|line| line.starts_with(' '));
    own.filter_map(|line| line.trim_start().strip_prefix("- name:")).map(|name| name.trim().trim_matches('"')).collect()
}

fn commit() -> String {
    build().map_or(String::new(), |commit| format!(", git commit {commit}"))
}

fn software(citation: &str) -> String {
    let authors: Vec<String> = authors(citation).iter().map(|name| format!("{{{}}}", latex_text(name))).collect();
    format!(
        "@software{{multicard,\n  author = {{{}}},\n  title = {{{{{}}}}},\n  version = {{{}{}}}\n}}\n",
        authors.join(" and "),
        latex_text(value(citation, "title")),
        latex_text(value(citation, "version")),
        latex_text(&commit())
    )
}

/// The BibTeX entry of a session's measurements. It has no author, since a session does not name one.
fn measurements(material: &Material) -> String {
    let origin = &material.origin;
    let finished = material.runs.iter().filter(|run| run.state == RunState::Finished).count();
    let node = &origin.node;
    let gpus = gpus_text(&node.gpus);
    let day = origin.date.split('T').next().unwrap_or_default();
    let year = day.split('-').next().filter(|year| !year.is_empty());
    let key: String = origin.session.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut text = format!(
        "@misc{{measurements-{key},\n  title = {{{{Measurements of session {}}}}},\n",
        latex_text(&origin.session)
    );
    text += &year.map_or(String::new(), |year| format!("  year = {{{year}}},\n"));
    let day = if day.is_empty() { "date not recorded".to_owned() } else { format!("begun {day}") };
    let finished = counted(finished, "finished run");
    let on = format!("{finished} of {}, {day}, on {gpus}; {}", material.runs.len(), node.cpu_model);
    text + &format!("  note = {{{}. Made with multicard~\\cite{{multicard}}}}\n}}\n", latex_text(&on))
}

/// `4 × NVIDIA H200`: the names of GPUs, each with its count.
fn gpus_text(names: &[String]) -> String {
    let kinds = names.chunk_by(|one, next| one == next);
    let kinds: Vec<String> = kinds.map(|kind| format!("{} × {}", kind.len(), kind[0])).collect();
    if kinds.is_empty() { "no GPU".to_owned() } else { kinds.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_citation_is_of_this_version_and_names_its_authors() {
        assert_eq!(value(CITATION, "version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(authors(CITATION), ["The multicard authors"]);
        let entry = software(CITATION);
        assert!(entry.starts_with("@software{multicard,\n  author = {{The multicard authors}},\n"), "{entry}");
        assert!(entry.contains("title = {{multicard: a workbench for performance experiments on multi-GPU machines}}"));
        assert_eq!(entry.matches('{').count(), entry.matches('}').count());
    }

    #[test]
    fn gpus_of_one_name_are_counted() {
        let names = ["A", "A", "B"].map(str::to_owned);
        assert_eq!(gpus_text(&names), "2 × A, 1 × B");
        assert_eq!(gpus_text(&[]), "no GPU");
    }

    #[test]
    fn text_that_bibtex_would_read_as_its_own_is_latex_text() {
        assert_eq!(latex_text("50 % of a_b {x} \\ ~"), "50 \\% of a\\_b \\{x\\} \\textbackslash{} \\textasciitilde{}");
    }
}
