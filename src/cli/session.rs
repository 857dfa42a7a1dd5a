//! `multicard session`: look after a session's folder.

use std::path::PathBuf;

use clap::Subcommand;

use super::{OK, Outcome, SOME_RUN_FAILED, say, session_folder};
use crate::store;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make the index anew from the logs.
    Rebuild {
        /// The session's folder, or the name of one in the default place.
        session: PathBuf,
    },
}

pub(super) fn run(command: Command) -> Outcome {
    let Command::Rebuild { session } = command;
    let report = store::rebuild(&session_folder(&session)?, &mut |_, _| {})?;
    say(format_args!("{} runs, {} events, {} samples", report.runs, report.events, report.samples));
    for damage in &report.damaged {
        say(format_args!("left out: {damage}"));
    }
    Ok(if report.damaged.is_empty() { OK } else { SOME_RUN_FAILED })
}
