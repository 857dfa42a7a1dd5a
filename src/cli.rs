//! The subcommands. Data goes to stdout; progress and messages go to stderr.
//!
//! Exit codes: 0 success, 1 some run did not finish, 2 bad input or usage, 130 interrupted.

mod data;
mod figure;
mod node;
mod plan;
mod report;
mod run;
mod session;
mod table;
mod trace;

use std::error::Error;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

/// Success.
const OK: u8 = 0;
/// Some run did not finish.
const SOME_RUN_FAILED: u8 = 1;
/// Bad input or usage.
const BAD_INPUT: u8 = 2;
/// Interrupted by the user.
const INTERRUPTED: u8 = 130;

/// A workbench for performance experiments on multi-GPU machines.
#[derive(Parser)]
#[command(name = "multicard", version, arg_required_else_help = false)]
struct Arguments {
    /// Session that the window opens, created if missing. Default: the last open session.
    #[arg(long, value_name = "DIR")]
    session: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Describe this machine: GPUs, CPUs, memory, worker.
    Node(node::Arguments),
    /// Show what a plan would run here: cells, estimated time and memory, and cells that cannot run.
    Plan(plan::Arguments),
    /// Run a plan and record it in a session.
    Run(run::Arguments),
    /// Print a table of a session's results.
    Table(table::Arguments),
    /// Write a figure of a session's results, or open a figure file in the window.
    Figure(figure::Arguments),
    /// Write all figures and tables of a session into a folder.
    Report(report::Arguments),
    /// Summarise a report of Nsight Systems: metrics, kernels, API calls, copies, gaps.
    Trace(trace::Arguments),
    /// Generate or download data sets.
    #[command(subcommand)]
    Data(data::Command),
    /// Rebuild, export or import a session.
    #[command(subcommand)]
    Session(session::Command),
    /// Print a shell completion script.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff.
    Man,
}

/// Output format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TableFormat {
    /// Markdown.
    Md,
    /// CSV with all digits, and separate columns for units and intervals.
    Csv,
    /// LaTeX with booktabs and siunitx.
    Latex,
    /// JSON.
    Json,
}

impl From<TableFormat> for crate::figure::Format {
    fn from(format: TableFormat) -> Self {
        match format {
            TableFormat::Md => Self::Markdown,
            TableFormat::Csv => Self::Csv,
            TableFormat::Latex => Self::Latex,
            TableFormat::Json => Self::Json,
        }
    }
}

/// Result of a subcommand: the exit code, or the error for bad input.
type Outcome = Result<u8, Box<dyn Error>>;

/// Runs the command line.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Some(Command::Node(arguments)) => node::run(&arguments),
        Some(Command::Plan(arguments)) => plan::run(&arguments),
        Some(Command::Run(arguments)) => run::run(&arguments),
        Some(Command::Table(arguments)) => table::run(&arguments),
        Some(Command::Figure(arguments)) => figure::run(&arguments),
        Some(Command::Report(arguments)) => report::run(&arguments),
        Some(Command::Trace(arguments)) => trace::run(&arguments),
        Some(Command::Data(command)) => data::run(command),
        Some(Command::Session(command)) => session::run(command),
        Some(Command::Completions { shell }) => completions(shell),
        Some(Command::Man) => man(),
        None => window(arguments.session),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(error.as_ref()) => ExitCode::from(OK),
        Err(error) => {
            say(format_args!("multicard: {error}"));
            ExitCode::from(BAD_INPUT)
        }
    }
}

#[cfg(feature = "window")]
fn window(session: Option<PathBuf>) -> Outcome {
    crate::app::open(session, None)?;
    Ok(OK)
}

/// Opens the window with a figure.
#[cfg(feature = "window")]
fn window_at(figure: PathBuf) -> Outcome {
    crate::app::open(None, Some(figure))?;
    Ok(OK)
}

#[cfg(not(feature = "window"))]
fn window_at(_figure: PathBuf) -> Outcome {
    window(None)
}

#[cfg(not(feature = "window"))]
fn window(_session: Option<PathBuf>) -> Outcome {
    Err("built without the feature `window`: use a subcommand (`multicard --help` lists them)".into())
}

/// Output format of the description of a machine or a plan.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Markdown.
    Md,
    /// JSON.
    Json,
}

/// Writes data to stdout.
fn print(text: &str) -> Result<(), std::io::Error> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}

/// Writes a message to stderr; ignores a closed stderr.
fn say(message: impl Display) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Whether the reader of a pipe, such as `head`, has closed it: not an error.
fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "multicard", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(OK)
}

fn man() -> Outcome {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    print(&String::from_utf8(page)?)?;
    Ok(OK)
}

/// Resolves a session argument: a path, or a name in the default folder.
fn session_folder(argument: &PathBuf) -> Result<PathBuf, Box<dyn Error>> {
    let folder = if argument.exists() || argument.components().count() > 1 {
        argument.clone()
    } else {
        crate::session::default_sessions_folder()?.join(argument)
    };
    if folder.join("session.toml").exists() {
        return Ok(folder);
    }
    Err(format!("{} is not a session (it contains no session.toml)", folder.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
