//! `multicard data`: make or fetch data sets.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{OK, Outcome, say};
use crate::dataset;
use crate::plan::DataSet;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make a procedural data set.
    Make {
        /// Which.
        #[arg(value_enum, default_value_t = Made::Digits)]
        set: Made,
        /// Where; by default, where plans look for it.
        #[arg(long)]
        folder: Option<PathBuf>,
    },
    /// Download a data set; an interrupted download goes on where it stopped.
    Fetch {
        /// Which.
        #[arg(value_enum)]
        set: Fetched,
        /// Where; by default, where plans look for it.
        #[arg(long)]
        folder: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Made {
    /// 60,000 + 10,000 handwritten-like digits of 28×28 pixels.
    Digits,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Fetched {
    /// 60,000 + 10,000 handwritten digits of 28×28 pixels.
    Mnist,
}

pub(super) fn run(command: Command) -> Outcome {
    let folder = match command {
        Command::Make { set: Made::Digits, folder } => {
            let folder = folder.map_or_else(|| dataset::data_folder(&DataSet::Digits), Ok)?;
            with_bar("images", |progress| dataset::make_digits(&folder, progress))?;
            folder
        }
        Command::Fetch { set: Fetched::Mnist, folder } => {
            let folder = folder.map_or_else(|| dataset::data_folder(&DataSet::Mnist { folder: None }), Ok)?;
            with_bar("bytes", |progress| dataset::fetch_mnist(&folder, dataset::MNIST_URLS, progress))?;
            folder
        }
    };
    say(format_args!("{}", folder.display()));
    Ok(OK)
}

/// Sees that a plan's data set is there before anything is launched: makes what can be made, refuses what is
/// absent or wrong.
pub(super) fn prepare(set: &DataSet) -> Result<(), dataset::DatasetError> {
    let folder = dataset::data_folder(set)?;
    if *set == DataSet::Digits {
        with_bar("images", |progress| dataset::make_digits(&folder, progress))?;
    }
    dataset::load(set, &folder).map(drop)
}

/// Does something that tells how far it is, with a bar on a terminal.
fn with_bar<T>(unit: &str, work: impl FnOnce(&mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> T) -> T {
    let bar = ProgressBar::new(0);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    // The template is a constant that the crate accepts; without it the bar is plain.
    if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:30}} {{pos}}/{{len}} {unit}  ETA {{eta}}")) {
        bar.set_style(style);
    }
    let outcome = work(&mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    outcome
}
