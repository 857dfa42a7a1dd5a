//! Prints the table of false verdicts that stands in `src/analysis/method.md`.

use multicard::analysis;

mod verdict_table;

use verdict_table::{KINDS, Kind, outcome};

fn main() {
    println!("| experiment | false verdicts, % | differences found, % |\n|---|---:|---:|");
    for kind in KINDS {
        let seen = outcome(kind, 20_000, 39);
        let found = if kind.0 == Kind::RealDifference { format!("{:.1}", seen.found) } else { "–".to_owned() };
        println!("| {} | {:.1} | {found} |", kind.1, seen.false_differences);
    }
}
