//! Prints the tables of coverage that stand in `src/analysis/method.md`.

use multicard::analysis;

mod coverage_table;

use coverage_table::{KINDS, QUESTIONS, Question, REPEATS, share};

fn main() {
    for (question, name) in QUESTIONS {
        println!("Percentage of {name}:\n\n{}", table(question, 10_000));
    }
}

/// A table in Markdown: one row a number of repeats, one column a kind.
fn table(question: Question, cases: usize) -> String {
    let names = KINDS.map(|kind| format!("{kind:?}").to_lowercase()).join(" | ");
    let mut text = format!("| repeats | {names} |\n|---:|---:|---:|---:|---:|---:|\n");
    for repeats in REPEATS {
        let shares = KINDS.map(|kind| format!("{:.1}", share(question, kind, repeats, cases)));
        text += &format!("| {repeats} | {} |\n", shares.join(" | "));
    }
    text
}
