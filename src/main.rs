//! The workbench: no argument opens the window, a subcommand works without one.
fn main() {}
