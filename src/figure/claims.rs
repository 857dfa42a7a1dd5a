//! Judgements of the papers' claims as a table.

use super::notes::method_note;
use super::number::{counted, from_to, significant};
use super::table::{CellValue, Column, Row, Table};
use crate::papers::{Judgement, Test, Verdict, WHY_WIDER};

/// One row for each comparison, and one for each test without cells. Claims that no cells test are included only if `with_untested` is
/// set.
pub fn claims_table(judgements: &[Judgement], with_untested: bool) -> Table {
    let column = |key: &str, name: &str, is_measure: bool| Column {
        key: key.into(),
        name: name.to_owned(),
        unit: String::new(),
        shown_unit: String::new(),
        shown_factor: 1.0,
        is_measure,
    };
    let columns = vec![
        column("claim", "Claim", false),
        column("source", "Source", false),
        column("verdict", "Verdict", false),
        column("test", "Test", false),
        column("cells", "Cells", false),
        column("value", "Value", true),
        column("decides", "95 % interval", false),
        column("claimed", "Claimed", false),
        column("finding", "Finding", false),
    ];
    let text = |text: &str| if text.is_empty() { CellValue::Missing } else { CellValue::Text(text.to_owned()) };
    let mut rows = Vec::new();
    // Claims that multicard cannot judge have no findings either.
    for judgement in judgements.iter().filter(|one| with_untested || !one.findings.is_empty()) {
        let claim = judgement.claim;
        let mut row = |test: Option<&Test>, runs: usize, rest: [CellValue; 3], finding: Verdict| {
            let [cells, value, decides] = rest;
            let values = vec![
                text(&claim.id),
                text(&format!("{} {}", claim.paper, claim.place)),
                text(judgement.verdict.name()),
                text(test.map_or(&claim.text, |test| &test.says)),
                cells,
                value,
                decides,
                text(&test.map_or(String::new(), |test| claimed(test, 1.0))),
                text(finding.name()),
            ];
            rows.push(Row::of_no_cell(runs, values));
        };
        for finding in &judgement.findings {
            let decides = finding.decides.map_or(CellValue::Missing, |ends| text(&from_to(ends.low, ends.high)));
            let cells = [text(&finding.cells), CellValue::Measure(finding.value), decides];
            row(Some(finding.test), finding.value.n, cells, finding.verdict);
        }
        const NOTHING: [CellValue; 3] = [CellValue::Missing, CellValue::Missing, CellValue::Missing];
        for test in &judgement.untested {
            row(Some(test), 0, NOTHING, Verdict::Untested);
        }
        if claim.tests.is_empty() {
            row(None, 0, NOTHING, judgement.verdict);
        }
    }
    let count = |verdict| judgements.iter().filter(|judgement| judgement.verdict == verdict).count();
    let counts: Vec<String> =
        Verdict::ALL.into_iter().map(|verdict| format!("{} {}", count(verdict), verdict.name())).collect();
    let mut notes = vec![
        format!("{}: {}", counted(judgements.len(), "claim"), counts.join(", ")),
        "a claim holds if the 95 % interval of every comparison is within its bounds, and fails if one comparison is shown to be outside, \
         at 5 % over all comparisons of the claim (Holm); the intervals are those of the mean over repeats by Student's t, computed on \
         logarithms for ratios, and on differences for claims about accuracy; cells that do other work than the claim's do not judge it"
            .to_owned(),
    ];
    if !rows.is_empty() {
        notes.push(WHY_WIDER.to_owned());
        notes.push(method_note(&rows));
    }
    for judgement in
        judgements.iter().filter(|one| with_untested && one.verdict != Verdict::Untested || !one.findings.is_empty())
    {
        let texts = judgement.caveat().into_iter().chain(Some(judgement.reason()).filter(|reason| !reason.is_empty()));
        notes.extend(texts.map(|text| format!("{}: {text}", judgement.claim.id)));
    }
    let lead = notes.clone();
    Table { study: "claims".to_owned(), columns, rows, notes, lead }
}

/// The bounds of a test, including its tolerance, times a factor: `1.42 to 1.81`, `at least 2.00`.
pub fn claimed(test: &Test, factor: f64) -> String {
    let (low, high) = test.bounds();
    match (factor * low, factor * high) {
        (low, f64::INFINITY) => format!("at least {}", significant(low)),
        (f64::NEG_INFINITY, high) => format!("at most {}", significant(high)),
        (low, high) => from_to(low, high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::judge;

    #[test]
    fn a_table_of_claims_says_once_why_claimed_ranges_are_wider_than_printed_ones() {
        let table = claims_table(&judge(&[]), true);
        let is_wider = |row: &Row| matches!(&row.values[7], CellValue::Text(text) if text == "1.42 to 1.81");
        assert!(table.rows.iter().any(is_wider), "1.54 to 1.68 in the paper");
        assert_eq!(table.notes.iter().filter(|note| *note == WHY_WIDER).count(), 1, "{:?}", table.notes);
    }
}
