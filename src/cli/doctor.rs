//! `multicard doctor`: checks what runs need on this machine, and says what to type if something is missing.

use clap::Args;

use super::{Format, OK, Outcome, SOME_RUN_FAILED, print};
use crate::session::{Check, Health, Machine, examine};

#[derive(Args)]
pub(super) struct Arguments {
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
}

/// Prints the list. The exit code is 1 if something does not work that should.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let checks = examine(&Machine::look().node);
    match arguments.format {
        Format::Md => print(&checks.iter().map(line).collect::<Vec<_>>().join("\n"))?,
        Format::Json => print(&serde_json::to_string_pretty(&checks)?)?,
    }
    Ok(if checks.iter().any(|check| check.health == Health::Bad) { SOME_RUN_FAILED } else { OK })
}

/// A check as a line of text, with its remedy on a second line.
pub(super) fn line(check: &Check) -> String {
    let mark = match check.health {
        Health::Good => "✓",
        Health::Absent => "-",
        Health::Bad => "✗",
    };
    let remedy = check.remedy.as_ref().map_or_else(String::new, |remedy| format!("\n    → {remedy}"));
    format!("{mark} {}: {}{remedy}", check.name, check.found)
}
