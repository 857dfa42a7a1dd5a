//! The tables of coverage in `method.md` say what simulation finds.
#![allow(clippy::unwrap_used)]

use crate::analysis;

#[path = "../../tests/bench/coverage_table.rs"]
mod coverage_table;

use coverage_table::{KINDS, Kind, QUESTIONS, Question, REPEATS, share};

/// Cases of one share; with fewer than this the documented shares could not be told from wrong ones.
const CASES: usize = 1_500;

/// The shares in percent of the table behind a heading: row by row.
fn documented(name: &str) -> Vec<Vec<f64>> {
    let text = include_str!("method.md");
    let table = text.split_once(&format!("Percentage of {name}:")).unwrap().1;
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| repeats"));
    let numbers = |line: &str| line.split('|').filter_map(|cell| cell.trim().parse().ok()).skip(1).collect();
    rows.take(REPEATS.len()).map(numbers).collect()
}

#[test]
fn coverage_is_what_the_documented_tables_say() {
    for (question, name) in QUESTIONS {
        let documented = documented(name);
        for (row, repeats) in REPEATS.into_iter().enumerate().filter(|(_, repeats)| [3, 5, 6, 8, 20].contains(repeats))
        {
            for (column, kind) in KINDS.into_iter().enumerate() {
                let (expected, measured) = (documented[row][column], share(question, kind, repeats, CASES));
                // Four standard errors.
                let error = 400.0
                    * (expected.clamp(1.0, 99.0) / 100.0 * (1.0 - expected.clamp(1.0, 99.0) / 100.0) / CASES as f64)
                        .sqrt();
                assert!(
                    (measured - expected).abs() < error,
                    "{question:?}, {kind:?}, {repeats} repeats: {measured} % for {expected} %"
                );
            }
        }
    }
}

#[test]
fn intervals_of_six_independent_repeats_and_more_cover_92_to_97_percent() {
    for question in [Question::Median, Question::Ratio] {
        let documented = documented(QUESTIONS.iter().find(|known| known.0 == question).unwrap().1);
        for (row, repeats) in REPEATS.into_iter().enumerate().filter(|(_, repeats)| *repeats >= 6) {
            let independent = [Kind::Normal, Kind::Skewed, Kind::Bimodal];
            for (column, kind) in KINDS.into_iter().enumerate().filter(|(_, kind)| independent.contains(kind)) {
                let documented_share = documented[row][column];
                assert!(
                    (92.0..=97.0).contains(&documented_share),
                    "{question:?}, {kind:?}, {repeats} repeats: {documented_share} %"
                );
            }
        }
    }
}
