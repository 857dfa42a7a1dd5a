//! `multicard data`: make or fetch data sets.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{OK, Outcome, say};
use crate::dataset::{self, FileFormat};
use crate::plan::DataSet;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make a data set: the procedural digits, or with `--scenario b` a folder of 300×300 colour images.
    Make {
        /// `digits`, the default; with `--scenario b`, the folder to write.
        #[arg(value_name = "SET|DIR")]
        target: Option<PathBuf>,
        /// Of which scenario.
        #[arg(long, value_enum, default_value_t = Scenario::A)]
        scenario: Scenario,
        /// Where the digits go; by default, where plans look for them.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// What scenario b's images are made from.
        #[arg(long, value_enum, default_value_t = From::Digits)]
        from: From,
        /// Training images of scenario b; test images are a sixth of them.
        #[arg(long, default_value_t = 60_000)]
        count: usize,
        /// How scenario b's images are written.
        #[arg(long, value_enum, default_value_t = Written::Jpeg)]
        format: Written,
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
pub(super) enum Scenario {
    /// 60,000 + 10,000 handwritten-like digits of 28×28 pixels.
    A,
    /// Colour images of 300×300 pixels in files, a folder a class.
    B,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum From {
    /// The procedural digits.
    Digits,
    /// MNIST, once fetched.
    Mnist,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Written {
    /// At quality 90.
    Jpeg,
    /// Without loss.
    Png,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Fetched {
    /// 60,000 + 10,000 handwritten digits of 28×28 pixels.
    Mnist,
}

pub(super) fn run(command: Command) -> Outcome {
    let folder = match command {
        Command::Make { target: Some(folder), scenario: Scenario::B, from, count, format, .. } => {
            let set = if from == From::Mnist { DataSet::Mnist { folder: None } } else { DataSet::Digits };
            prepare(&set)?;
            let images = dataset::load(&set, &dataset::data_folder(&set)?)?;
            let format = if format == Written::Png { FileFormat::Png } else { FileFormat::Jpeg };
            with_bar("images", |progress| dataset::make_files(&images, &folder, count, format, progress))?;
            folder
        }
        Command::Make { scenario: Scenario::B, .. } => {
            return Err("name the folder to write: multicard data make --scenario b DIR".into());
        }
        Command::Make { target: Some(other), .. } if other.as_os_str() != "digits" => {
            let other = other.display();
            return Err(format!("`{other}` cannot be made: write digits, or --scenario b and a folder").into());
        }
        Command::Make { folder, .. } => {
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
    match set {
        // Decoding them all would take minutes: each file is looked at by the run that uses it.
        DataSet::Folder { .. } => dataset::list_files(&folder).map(drop),
        _ => dataset::load(set, &folder).map(drop),
    }
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
