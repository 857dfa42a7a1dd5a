//! The papers' claims with the verdicts of the displayed sessions' runs.

use eframe::egui::{Color32, ScrollArea, Ui};

use super::CompareCommand;
use super::picture::Picture;
use crate::analysis::{Interval, Value};
use crate::app::command::Command;
use crate::app::theme::{GRID, palette};
use crate::app::value_text;
use crate::app::widgets::{card, muted, named, strong};
use crate::figure::{capitalised, claimed, counted, from_to, preset};
use crate::papers::{Judgement, Verdict, WHY_WIDER};

/// Draws the claims; those that some run tests come first.
pub fn claims_ui(ui: &mut Ui, picture: &Picture, commands: &mut Vec<Command>) {
    let judgements = &picture.claims;
    if judgements.iter().all(|one| one.findings.is_empty()) {
        ui.label(muted(ui, "These runs test no claim of the papers. Each claim names the plan that tests it."));
    } else {
        counts_ui(ui, judgements);
    }
    ui.add_space(GRID);
    ScrollArea::vertical().id_salt("claims").auto_shrink([false, false]).show(ui, |ui| {
        let mut ordered: Vec<&Judgement> = judgements.iter().collect();
        ordered.sort_by_key(|one| one.verdict == Verdict::Untested);
        for judgement in ordered {
            claim_ui(ui, judgement, commands);
            ui.add_space(GRID);
        }
    });
}

/// Draws how many claims have each verdict, and how verdicts are found.
fn counts_ui(ui: &mut Ui, judgements: &[Judgement]) {
    let count = |verdict| judgements.iter().filter(|one| one.verdict == verdict).count();
    let counts: Vec<String> =
        Verdict::ALL.into_iter().map(|verdict| format!("{} {}", count(verdict), verdict.name())).collect();
    ui.label(strong(format!("{} of both papers: {}", counted(judgements.len(), "claim"), counts.join(", "))));
    ui.label(muted(
        ui,
        "A claim holds if the 95 % interval of each of its comparisons lies within the claimed range. It fails if an interval lies \
             outside; the chance that this happens to a true claim is at most 5 % (Student's t over repeats, Holm over comparisons). \
             Runs that do another amount of work than the claim's are not counted.",
    ));
    ui.label(muted(ui, capitalised(WHY_WIDER) + "."));
}

fn claim_ui(ui: &mut Ui, judgement: &Judgement, commands: &mut Vec<Command>) {
    let claim = judgement.claim;
    card(ui).show(ui, |ui| {
        ui.take_available_width();
        ui.horizontal_wrapped(|ui| {
            verdict_ui(ui, judgement.verdict);
            ui.label(strong(&claim.text));
        });
        ui.horizontal_wrapped(|ui| {
            ui.label(muted(ui, format!("{} {}", claim.paper, claim.place)));
            for id in &claim.on {
                let link = ui.link(id).on_hover_text(
                    "Shows the measured values on Compare, arranged as in this table or figure of the paper",
                );
                link.widget_info(|| named(&format!("Compare as {id}")));
                if link.clicked()
                    && let Ok(study) = preset(id)
                {
                    commands.push(Command::from(CompareCommand::Study(Box::new(study))));
                }
            }
        });
        findings_ui(ui, judgement);
        if let Some(caveat) = judgement.caveat() {
            ui.colored_label(palette(ui.visuals()).warning, capitalised(&caveat) + ".");
        }
        let reason = judgement.reason();
        if !reason.is_empty() {
            ui.label(muted(ui, reason));
        }
        ui.label(muted(ui, format!("Recomputed from the papers' own numbers: {}.", claim.on_their_numbers)));
    });
}

fn findings_ui(ui: &mut Ui, judgement: &Judgement) {
    for finding in &judgement.findings {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 2.0 * GRID;
            verdict_ui(ui, finding.verdict);
            let value = &finding.value;
            let (factor, unit) = finding.test.shown_unit();
            let found = found(value, finding.decides, (factor, unit));
            ui.label(found).on_hover_text(value_text::origin(value, factor, unit));
            ui.label(muted(ui, format!("claimed {} {unit}", claimed(finding.test, factor)).trim_end()));
            ui.label(&finding.test.says);
            ui.label(muted(ui, &finding.cells));
        });
    }
}

/// A value with the interval that decides: `1.59 (95 % interval 1.56 to 1.62, 6 repeats)`.
fn found(value: &Value, decides: Option<Interval>, (factor, unit): (f64, &str)) -> String {
    let decides = decides.map_or("one repeat, no interval".to_owned(), |ends| {
        format!("95 % interval {}, {}", from_to(factor * ends.low, factor * ends.high), counted(value.n, "repeat"))
    });
    let found = format!("{} {unit}", value_text::number(factor * value.median));
    format!("{} ({decides})", found.trim_end())
}

fn verdict_ui(ui: &mut Ui, verdict: Verdict) {
    let palette = palette(ui.visuals());
    let (sign, colour): (&str, Color32) = match verdict {
        Verdict::Holds => ("✓", palette.good),
        Verdict::Fails => ("✗", palette.bad),
        Verdict::Undecided => ("?", palette.warning),
        Verdict::NotJudged | Verdict::Untested => ("–", palette.muted),
    };
    ui.colored_label(colour, format!("{sign} {}", verdict.name()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Method;

    #[test]
    fn a_finding_says_what_its_numbers_are() {
        let ends = Interval { low: 1.56, high: 1.62 };
        let value = Value { median: 1.59, interval: Some(ends), n: 6, method: Method::Means };
        let ratio = (1.0, "");
        assert_eq!(found(&value, Some(ends), ratio), "1.59 (95 % interval 1.56 to 1.62, 6 repeats)");
        assert_eq!(found(&value, None, ratio), "1.59 (one repeat, no interval)");
        let fall = Value { median: 0.002, ..value };
        assert_eq!(
            found(&fall, None, (100.0, "percentage points")),
            "0.200 percentage points (one repeat, no interval)"
        );
    }
}
