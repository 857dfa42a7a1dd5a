//! `multicard papers`: what the papers print, and the report of a reproduction of them.

use std::path::PathBuf;

use clap::Args;

use super::{OK, Outcome, print, reproduction};
use crate::papers::{self, Artefact};
use crate::text_table::{Field, TextTable};

#[derive(Args)]
pub(super) struct Arguments {
    /// A table or figure, such as 2503.15252/table-2. Without it, all are listed.
    id: Option<String>,
    /// Write a report that compares these sessions with both papers: all tables and figures in the papers' order with published and
    /// measured values, deviations from the papers' settings, claims with verdicts, and contradictions.
    #[arg(long, value_name = "SESSION", num_args = 1.., conflicts_with = "id", requires = "out")]
    report: Vec<PathBuf>,
    /// The folder of the report, created if missing: reproduction.md, reproduction.html, reproduction.tex and figures. Files of an
    /// earlier report are replaced.
    #[arg(long, value_name = "DIR", requires = "report")]
    out: Option<PathBuf>,
}

/// Prints what the papers print, or writes the report of a reproduction.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    if !arguments.report.is_empty() {
        let out = arguments.out.as_deref().ok_or("--report needs --out DIR, the folder to write to")?;
        return reproduction::write(&arguments.report, out);
    }
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
        text += &format!("The paper does not say: {}.\n\n", paper.unstated.join("; "));
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
    text + "`multicard papers ID` prints the values of a table or figure; `multicard plan --preset ID` shows its plan, `multicard run \
         --preset ID` runs it, and `multicard table SESSION --preset ID` compares a session with it.\n"
}

fn describe(artefact: &Artefact) -> String {
    let mut text = format!("# {artefact}: {}\n\n{}; {}.\n", artefact.shows, artefact.quantity, artefact.conditions);
    if let Some(needs) = &artefact.needs {
        text += &format!("\nNot measured here, or only in part: {needs}.\n");
    }
    for differs in &artefact.differs {
        text += &format!("\nDifferent from the paper: {differs}.\n");
    }
    if let Some(id) = artefact.companion_id() {
        text += &format!(
            "\nThe published accuracy comes from full runs: `multicard run --preset {id}` makes a full run of each cell.\n"
        );
    }
    let (line, table) = reproduction::values(artefact);
    if !table.is_empty() {
        text += &format!("\n{line}\n\n{}", table.markdown());
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
                "- {} ({}): {}. Recomputed from their own numbers: {}.\n",
                claim.id, claim.place, claim.text, claim.on_their_numbers
            )
        })
        .collect();
    if !claims.is_empty() {
        text += &format!("\nClaims (`multicard claims SESSION --on {}`):\n\n{}", artefact.id(), claims.concat());
    }
    text
}
