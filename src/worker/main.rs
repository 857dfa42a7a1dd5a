//! The worker: a process group's supervisor, and its ranks.
mod group;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [verb, job] if verb == "group" => group::run(Path::new(job)),
        [verb, ..] if verb == "rank" => {
            group::die_with_parent();
            eprintln!("this build cannot train yet");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(2),
    }
}
