//! Notes on verdicts: how they were computed, what they take for granted, and why rows have none.

use super::study::is_verdict;
use super::table::{CellValue, Column, Row};
use crate::analysis::{Cell, Check, Incomparable, Judgement, REPEAT, checked_by, counted};
use crate::plan::groups;

/// Notes on verdicts: how they were computed, where each column of them is a family; weaknesses of their basis; and whether check values
/// agree.
pub(super) fn verdict_notes(cells: &[Cell], columns: &[Column], rows: &[Row]) -> Vec<String> {
    let judged_in = |place: usize| -> Vec<&Judgement> {
        let values = rows.iter().map(|row| &row.values[place]);
        values
            .filter_map(|value| if let CellValue::Verdict(judged) = value { Some(judged.as_ref()) } else { None })
            .collect()
    };
    let families: Vec<Vec<&Judgement>> = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| is_verdict(&column.key))
        .map(|(place, _)| judged_in(place))
        .filter(|judged| !judged.is_empty())
        .collect();
    let Some(within) =
        families.first().and_then(|judged| judged.first()).map(|judgement| 100.0 * judgement.equal_within)
    else {
        return Vec::new();
    };
    let all: Vec<&Judgement> = families.concat();
    let mut tested: Vec<usize> = families
        .iter()
        .map(|judged| if judged.iter().all(|judgement| judgement.p.is_none()) { 0 } else { judged[0].family })
        .collect();
    tested.sort_unstable();
    tested.dedup();
    let of_sessions = all.iter().all(|judgement| judgement.counts == "session");
    let unpaired = all.iter().filter(|judgement| judgement.counts == REPEAT).count();
    let (test, again) = match unpaired {
        _ if of_sessions => ("Student's t between sessions, by their spread pooled over both sides", "sessions"),
        0 => ("Student's t on logarithms of paired ratios", "repeats"),
        count if count == all.len() => (
            "Welch's t on logarithms, because the imported file does not number repeats, so that they form no pairs",
            "repeats",
        ),
        _ => ("Student's t on logarithms of paired ratios, or Welch's t where repeats form no pairs", "repeats"),
    };
    let power = format!("a difference \"would show\" if the same number of new {again} would show it in 80 % of cases");
    let is_of_values = |reason: &&Incomparable| {
        matches!(reason, Incomparable::NoRatio | Incomparable::Units { .. } | Incomparable::Better { .. })
    };
    let of_values = all.iter().filter_map(|judgement| judgement.reason.as_ref()).find(is_of_values);
    let how = match tested.as_slice() {
        [0] if of_values.is_some() => {
            format!("verdicts: none, because {}", of_values.map_or(String::new(), ToString::to_string))
        }
        [0] if of_sessions => "verdicts: none, because two sessions do not show how much sessions differ".to_owned(),
        [0] if unpaired > 0 => "verdicts: none, because a cell with one repeat does not show its spread".to_owned(),
        [0] => "verdicts: none, because no two repeats form pairs".to_owned(),
        [1] => format!("verdict: {test} at 5 %, equality within {within} % by two one-sided tests; {power}"),
        counts => {
            let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
            let family = if families.len() == 1 { "over all" } else { "over each column's" };
            format!(
                "verdicts: {test}, equality within {within} % by two one-sided tests, at 5 % {family} \
                 {} comparisons (Holm), including those that a filter hides; {power}",
                counts.join(" or ")
            )
        }
    };
    let assumed = assumption(cells, of_sessions).filter(|_| tested.iter().any(|count| *count > 0));
    std::iter::once(how).chain(assumed).chain(grounds(&all)).chain(check_note(cells, &all)).collect()
}

/// What verdicts on imported runs take for granted.
fn assumption(cells: &[Cell], of_sessions: bool) -> Option<String> {
    let what = if of_sessions { "session is independent of the others" } else { "row is an independent run" };
    let note = format!("verdicts assume that each imported {what}; files do not show it");
    cells.iter().any(Cell::is_imported).then_some(note)
}

/// The reasons why rows have no verdict, with their counts, and what to do.
fn grounds(judged: &[&Judgement]) -> Vec<String> {
    let reasons = judged.iter().filter_map(|judgement| judgement.reason.as_ref());
    let reasons = groups(reasons.map(|reason| ((reason.name(), reason.advice()), reason.to_string())));
    let note = |((_, advice), texts): &((&str, &str), Vec<String>)| {
        format!("not comparable in {}: {}; {advice}", counted(texts.len(), "row"), texts[0])
    };
    let looked = judged.iter().map(|judgement| judgement.looks).max().filter(|looks| *looks > 1).map(|looks| {
        format!(
            "the results count as looked at {looks} times (launches that added repeats, and cancelled runs): each look uses a part of the \
             5 %, so false differences stay below 5 % whenever one stops"
        )
    });
    reasons.iter().map(note).chain(looked).collect()
}

/// Whether check values agree, as a sentence; `None` if there is nothing to compare.
fn check_note(cells: &[Cell], judged: &[&Judgement]) -> Option<String> {
    let compared: Vec<&&Judgement> = judged.iter().filter(|judgement| judgement.p.is_some()).collect();
    let count = |name: &str| compared.iter().filter(|judgement| judgement.check.name() == name).count();
    let (same, differs, unknown, none) = (count("same"), count("differs"), count("unknown"), count("none"));
    if none == compared.len() {
        let untold = match cells.iter().flat_map(|cell| &cell.runs).any(|run| !run.checked.is_empty()) {
            true => format!("the runs do not report {}", checked_by(cells)),
            false => "the runs report neither accuracy nor loss".to_owned(),
        };
        return (none > 0)
            .then(|| format!("check: none; {untold}, so a cell that computes something else would not be noticed"));
    }
    let needed = compared.iter().filter_map(|judgement| match &judgement.check {
        Check::Unknown { needed: Some(needed), .. } => Some(*needed),
        _ => None,
    });
    let needed = needed
        .max()
        .map_or(String::new(), |needed| format!("; about {} would show it", counted(needed as usize, "repeat")));
    let parts = [(same, "the same in"), (differs, "different in"), (unknown, "undecided with these repeats in")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{words} {count}")).collect();
    Some(format!(
        "check: {} are {} of {}{needed}",
        checked_by(cells),
        parts.join(", "),
        counted(compared.len(), "comparison")
    ))
}
