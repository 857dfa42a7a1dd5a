//! `multicard claims`: what a session's runs say to the papers' claims. `multicard papers`: what the papers print.

use std::path::PathBuf;

use clap::Args;

use super::material::Material;
use super::{OK, Outcome, SOME_RUN_FAILED, TableFormat, print, say, session_folder, variant};
use crate::analysis::{Cell, cells};
use crate::figure::{self, Table, claims_table};
use crate::papers::{self, Artefact, Bound, Judgement, PublishedValue, Verdict, judge};
use crate::text_table::{Field, TextTable};

#[derive(Args)]
pub(super) struct Arguments {
    /// The session's folder, or the name of one in the default place.
    session: PathBuf,
    /// Only claims made of this table or figure, such as 2503.15252/table-2, or the claim of this name.
    #[arg(long, value_name = "ID")]
    on: Option<String>,
    /// Claims that nothing here tests, too.
    #[arg(long)]
    all: bool,
    /// How to write it.
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
        say("--all lists the claims that nothing in this session tests, too");
    }
    Ok(if fails { SOME_RUN_FAILED } else { OK })
}

/// The table as text; a sentence where people would read a table without rows.
fn text_of(table: &Table, format: TableFormat) -> String {
    if table.rows.is_empty() && format == TableFormat::Markdown {
        return "No run of this session tests a claim of the papers.\n".to_owned();
    }
    figure::render(table, format)
}

fn judged(cells: &[Cell]) -> Vec<Judgement> {
    let mut judgements = judge(cells);
    // What was tested first.
    judgements.sort_by_key(|one| one.verdict == Verdict::Untested);
    judgements
}

#[derive(Args)]
pub(super) struct PapersArguments {
    /// A table or figure, such as 2503.15252/table-2; without one all are listed.
    id: Option<String>,
}

pub(super) fn papers(arguments: &PapersArguments) -> Outcome {
    let text = match &arguments.id {
        Some(id) => describe(papers::artefact(id)?),
        None => list(),
    };
    print(&text)?;
    Ok(OK)
}

fn list() -> String {
    let mut text = String::new();
    for paper in papers::papers() {
        text += &format!(
            "# arXiv {}: {}\n\n{}; {}; {}.\n\n",
            paper.id, paper.title, paper.node, paper.system, paper.software
        );
        text += &format!("It does not say: {}.\n\n", paper.unstated.join("; "));
        let mut table = TextTable::new("lllrl", ["Id", "Shows", "Conditions", "Values", "Plan"]);
        for artefact in papers::artefacts().iter().filter(|artefact| artefact.paper == paper.id) {
            let plan = match (artefact.plan(), &artefact.needs) {
                (Some(_), None) => "yes".to_owned(),
                (Some(_), Some(needs)) => format!("in part: {needs}"),
                (None, needs) => format!("no: {}", needs.as_deref().unwrap_or("not yet")),
            };
            let (shows, conditions) = (artefact.shows.as_str(), artefact.conditions.as_str());
            let values = artefact.values().count();
            // What an artefact needs is Markdown of its own.
            table.row([artefact.id().into(), shows.into(), conditions.into(), values.into(), Field::Ready(plan)]);
        }
        text += &(table.markdown() + "\n");
    }
    text + "`multicard papers ID` prints the values of one; `multicard plan --preset ID` shows its plan, \
            `multicard run --preset ID` runs it, `multicard table SESSION --preset ID` compares.\n"
}

fn describe(artefact: &Artefact) -> String {
    let mut text = format!("# {artefact}: {}\n\n{}; {}.\n", artefact.shows, artefact.quantity, artefact.conditions);
    if let Some(needs) = &artefact.needs {
        text += &format!("\nNot measured here, or not wholly: {needs}.\n");
    }
    let mut table = TextTable::new("lllrll", ["Place", "Levels", "Measure", "Value", "Unit", "Note"]);
    for value in artefact.values() {
        let levels: Vec<String> = value.levels.iter().map(|(key, level)| format!("{key} = {level}")).collect();
        let bound = match value.bound {
            Bound::Exact => "",
            Bound::Low => "from ",
            Bound::High => "to ",
            Bound::About => "about ",
        };
        let recomputed = value.recomputed.filter(|recomputed| *recomputed != value.value);
        let recomputed = recomputed.map(|recomputed| format!("{recomputed} from the printed times"));
        let notes: Vec<String> =
            recomputed.into_iter().chain((!value.note.is_empty()).then(|| value.note.clone())).collect();
        let PublishedValue { place, measure, value, unit, .. } = value;
        table.row([
            place.as_str().into(),
            levels.join(", ").into(),
            measure.as_str().into(),
            format!("{bound}{value}").into(),
            unit.as_str().into(),
            notes.join("; ").into(),
        ]);
    }
    if !table.is_empty() {
        text += &format!("\n{}", table.markdown());
    }
    let contradictions: Vec<String> =
        artefact.contradictions().map(|one| format!("- {}: {}\n", one.place, one.what)).collect();
    if !contradictions.is_empty() {
        text += &format!("\nWhere the papers contradict themselves:\n\n{}", contradictions.concat());
    }
    let claims: Vec<String> = artefact
        .claims()
        .map(|claim| {
            format!(
                "- {} ({}): {}. On their own numbers: {}.\n",
                claim.id, claim.place, claim.text, claim.on_their_numbers
            )
        })
        .collect();
    if !claims.is_empty() {
        text += &format!("\nClaims (`multicard claims SESSION --on {}`):\n\n{}", artefact.id(), claims.concat());
    }
    text
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
