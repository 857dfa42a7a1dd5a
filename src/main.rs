//! The workbench: no argument opens the window, a subcommand works without one.

use std::process::ExitCode;

fn main() -> ExitCode {
    multicard::cli::main()
}
