//! The workbench: no argument opens the window, a subcommand works without one.

use std::process::ExitCode;

fn main() -> ExitCode {
    multicard::protocol::set_build(option_env!("MULTICARD_BUILD"));
    multicard::cli::main()
}
