//! What the subcommands share: exit codes, output to stdout and stderr, formats, and session arguments.

use std::error::Error;
use std::io::{ErrorKind, IsTerminal, Write};

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use strum::{EnumMessage, VariantArray};

use super::wrap::{columns, wrapped};
pub(super) use crate::figure::Format as TableFormat;
use crate::foreign;
pub(super) use crate::foreign::say;
use crate::text_table::for_terminal;

/// Success.
pub(super) const OK: u8 = 0;
/// At least one run did not finish.
pub(super) const SOME_RUN_FAILED: u8 = 1;
/// Bad input or usage.
pub(super) const BAD_INPUT: u8 = 2;
/// Undecided: the sessions show neither that a cell became worse nor that none did.
pub(super) const UNDECIDED: u8 = 3;
/// Interrupted by the user.
pub(super) const INTERRUPTED: u8 = 130;

/// Parser of an option whose values are the variants of an enum: each value is the variant's first name in strum, with its documentation as
/// help.
pub(super) fn variant<T>() -> impl TypedValueParser<Value = T>
where
    T: VariantArray + EnumMessage + Copy + Send + Sync,
{
    let name = |one: &T| one.get_serializations().first().copied().unwrap_or_default();
    let values = T::VARIANTS.iter().map(|one| {
        let help = one.get_documentation().unwrap_or_default().trim_end_matches('.');
        PossibleValue::new(name(one)).help(help)
    });
    PossibleValuesParser::new(values).try_map(move |text| {
        T::VARIANTS.iter().find(|one| name(one) == text).copied().ok_or("it is not one of the possible values")
    })
}

/// Result of a subcommand: the exit code, or the error for bad input.
pub(super) type Outcome = Result<u8, Box<dyn Error>>;

/// Output format of the description of a machine or a plan.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Markdown.
    Md,
    /// JSON.
    Json,
}

/// Writes data to stdout. Control characters are escaped as in JSON, so that they cannot control the terminal. On a terminal, Markdown is
/// shown as text: tables are aligned, prose is broken between words, and nothing is escaped.
pub(super) fn print(text: &str) -> Result<(), std::io::Error> {
    let mut text = foreign::printable(text);
    let mut stdout = std::io::stdout().lock();
    if stdout.is_terminal() {
        text = for_terminal(&text).into();
        if let Some(columns) = columns(&stdout) {
            text = wrapped(&text, columns).into();
        }
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(end.as_bytes()));
    written.and_then(|()| stdout.flush()).map_err(|error| of_stdout(&error))
}

/// An error of standard output with its name. It keeps its kind, which tells whether a reader has closed the pipe.
pub(super) fn of_stdout(error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("writing to standard output: {error}"))
}

/// A progress bar on a terminal. If the template is invalid, the bar has the plain style.
pub(super) fn progress_bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Whether the error means that the reader of a pipe, such as `head`, has closed it, which is not a failure.
pub(super) fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
