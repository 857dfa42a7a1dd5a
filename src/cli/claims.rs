//! `multicard claims`: judges the papers' claims by a session's runs.

use std::path::PathBuf;

use clap::Args;

use super::material::Material;
use super::{OK, Outcome, SOME_RUN_FAILED, TableFormat, print, say, session_folder, variant};
use crate::analysis::{Cell, cells};
use crate::figure::{self, Table, claims_table};
use crate::papers::{self, Judgement, Verdict, judge};

#[derive(Args)]
pub(super) struct Arguments {
    /// The session's folder, or the name of a session in the default folder.
    session: PathBuf,
    /// Only the claims about this table or figure, such as 2503.15252/table-2, or only the claim of this name.
    #[arg(long, value_name = "ID")]
    on: Option<String>,
    /// List the claims that nothing in this session tests, too.
    #[arg(long)]
    all: bool,
    /// Output format.
    #[arg(long, value_parser = variant::<TableFormat>(), default_value = "md")]
    format: TableFormat,
}

/// Exit code 1 where a claim fails.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = session_folder(&arguments.session)?;
    let asked = arguments.on.as_deref();
    if let Some(asked) = asked
        && papers::claims().iter().all(|claim| claim.id != asked)
    {
        papers::artefact(asked)?;
    }
    let material = Material::read(&folder)?;
    let mut judgements = judged(&cells(&material.runs));
    judgements
        .retain(|one| asked.is_none_or(|asked| one.claim.id == asked || one.claim.on.iter().any(|id| id == asked)));
    let fails = judgements.iter().any(|one| one.verdict == Verdict::Fails);
    let with_untested = arguments.all || asked.is_some();
    let table = claims_table(&judgements, with_untested);
    if arguments.format == TableFormat::Csv {
        // A file of rows has no place for them.
        table.notes.iter().for_each(say);
    }
    print(&text_of(&table, arguments.format))?;
    if !with_untested {
        say("--all also lists the claims that no run of this session tests");
    }
    Ok(if fails { SOME_RUN_FAILED } else { OK })
}

/// The table as text. For people, a sentence takes the place of a table without rows.
fn text_of(table: &Table, format: TableFormat) -> String {
    if table.rows.is_empty() && format == TableFormat::Markdown {
        return "No run of this session tests a claim of the papers.\n".to_owned();
    }
    figure::render(table, format)
}

/// The claims judged by cells; those that were tested come first.
pub(super) fn judged(cells: &[Cell]) -> Vec<Judgement> {
    let mut judgements = judge(cells);
    judgements.sort_by_key(|one| one.findings.is_empty());
    judgements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_rows_is_a_sentence_and_a_file_without_rows_stays_one() {
        let judgements = judged(&[]);
        let tested = claims_table(&judgements, false);
        assert_eq!(text_of(&tested, TableFormat::Markdown), "No run of this session tests a claim of the papers.\n");
        assert!(text_of(&tested, TableFormat::Csv).starts_with("claim,"), "{}", text_of(&tested, TableFormat::Csv));
        let all = text_of(&claims_table(&judgements, true), TableFormat::Markdown);
        assert!(all.starts_with("| Claim |") && all.contains("untested"), "{all}");
    }
}
