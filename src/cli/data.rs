//! `multicard data`: generates or downloads data sets.

use std::error::Error;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{OK, Outcome, say};
use crate::dataset::{self, FileFormat};
use crate::plan::image::{self, DataSet};
use crate::plan::{Block, Data, llm};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Generate a data set: the procedural digits, or with `--scenario b` a folder of 300×300 colour images.
    Make {
        /// `digits` (default), or with `--scenario b` the folder to write.
        #[arg(value_name = "SET|DIR")]
        target: Option<PathBuf>,
        /// The scenario.
        #[arg(long, value_enum, default_value_t = Scenario::A)]
        scenario: Scenario,
        /// Folder of the digits. Default: where plans look for them.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// Source of scenario b's images.
        #[arg(long, value_enum, default_value_t = From::Digits)]
        from: From,
        /// Training images of scenario b; there are a sixth as many test images.
        #[arg(long, default_value_t = 60_000)]
        count: usize,
        /// File format of scenario b's images.
        #[arg(long, value_enum, default_value_t = Written::Jpeg)]
        format: Written,
    },
    /// Download a data set; resumes an interrupted download.
    Fetch {
        /// The data set.
        #[arg(value_enum)]
        set: Fetched,
        /// Target folder. Default: where plans look for it.
        #[arg(long)]
        folder: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// 60,000 + 10,000 digits of 28×28 pixels.
    A,
    /// Colour images of 300×300 pixels as files, one folder per class.
    B,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum From {
    /// The procedural digits.
    Digits,
    /// MNIST; download it first.
    Mnist,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Written {
    /// JPEG of quality 90.
    Jpeg,
    /// PNG, lossless.
    Png,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Fetched {
    /// 60,000 + 10,000 handwritten digits of 28×28 pixels.
    Mnist,
    /// 51,760 instructions with answers.
    AlpacaCleaned,
    /// C4_200M: sentences and their corrections.
    Grammar,
    /// 16,369 dialogues with summaries.
    Samsum,
    /// 363,491 conversations.
    Slimorca,
}

impl Fetched {
    /// The data set of text that it is; none for images.
    fn text(self) -> Option<llm::DataSet> {
        match self {
            Self::Mnist => None,
            Self::AlpacaCleaned => Some(llm::DataSet::AlpacaCleaned),
            Self::Grammar => Some(llm::DataSet::Grammar),
            Self::Samsum => Some(llm::DataSet::Samsum),
            Self::Slimorca => Some(llm::DataSet::Slimorca),
        }
    }
}

pub(super) fn run(command: Command) -> Outcome {
    let folder = match command {
        Command::Make { target: Some(folder), scenario: Scenario::B, from, count, format, .. } => {
            let set = if from == From::Mnist { DataSet::Mnist { folder: None } } else { DataSet::Digits };
            prepare_images(&set)?;
            let images = dataset::load(&set, &dataset::data_folder(&set.clone().into())?)?;
            let format = if format == Written::Png { FileFormat::Png } else { FileFormat::Jpeg };
            with_bar("images", |progress| dataset::make_files(&images, &folder, count, format, progress))?;
            folder
        }
        Command::Make { scenario: Scenario::B, .. } => {
            return Err("name the folder to write: multicard data make --scenario b DIR".into());
        }
        Command::Make { target: Some(other), .. } if other.as_os_str() != "digits" => {
            let other = other.display();
            return Err(format!("cannot generate `{other}`: use digits, or --scenario b and a folder").into());
        }
        Command::Make { folder, .. } => {
            let folder = folder.map_or_else(|| dataset::data_folder(&Data::of_set("digits")), Ok)?;
            with_bar("images", |progress| dataset::make_digits(&folder, progress))?;
            folder
        }
        Command::Fetch { set, folder } => match set.text() {
            Some(set) => {
                let folder = folder.map_or_else(|| dataset::data_folder(&Data::of_set("files")), Ok)?.join(set.name());
                let hub = dataset::text::HUB_URL;
                with_bar("bytes", |progress| dataset::text::fetch_text(set, &folder, hub, progress))?;
                folder
            }
            None => {
                let folder = folder.map_or_else(|| dataset::data_folder(&Data::of_set("mnist")), Ok)?;
                with_bar("bytes", |progress| dataset::fetch_mnist(&folder, dataset::MNIST_URLS, progress))?;
                folder
            }
        },
    };
    say(format_args!("{}", folder.display()));
    Ok(OK)
}

/// Checks the data set of a plan's block before a launch: generates the digits if necessary, and rejects a missing or invalid set.
pub(super) fn prepare(block: &Block) -> Result<(), Box<dyn Error>> {
    if block.spec.key == image::KEY {
        prepare_images(&DataSet::read(&block.data)?)?;
    }
    Ok(())
}

fn prepare_images(set: &DataSet) -> Result<(), dataset::DatasetError> {
    let folder = dataset::data_folder(&set.clone().into())?;
    if *set == DataSet::Digits {
        with_bar("images", |progress| dataset::make_digits(&folder, progress))?;
    }
    match set {
        // Decoding all files would take minutes; the runs check the files they use.
        DataSet::Folder { .. } => dataset::list_files(&folder).map(drop),
        _ => dataset::load(set, &folder).map(drop),
    }
}

/// Runs work that reports progress, with a progress bar on a terminal.
fn with_bar<T>(unit: &str, work: impl FnOnce(&mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> T) -> T {
    let bar = ProgressBar::new(0);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    // The template is valid; without it the bar would be plain.
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
