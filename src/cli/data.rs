//! `multicard data`: generates or downloads data sets.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Subcommand, ValueEnum};

use super::{OK, Outcome, progress_bar, say};
use crate::dataset::{self, FileFormat};
use crate::plan::{Block, Data, Obtainable, Obtained, obtainable};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Generate a data set: the procedural digits, or with `--scenario b` a folder of 300×300 colour images.
    Make {
        /// `digits` (default); with `--scenario b`, the folder to write.
        #[arg(value_name = "SET|DIR")]
        target: Option<PathBuf>,
        /// The scenario.
        #[arg(long, value_enum, default_value_t = Scenario::A)]
        scenario: Scenario,
        /// Folder of the digits. Default: where plans look for them.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// Source of scenario b's images.
        #[arg(long, value_name = "SET", default_value = "digits", value_parser = names(dataset::image_sets()))]
        from: String,
        /// Number of training images of scenario b; a sixth as many test images are added.
        #[arg(long, default_value_t = 60_000)]
        count: usize,
        /// File format of scenario b's images.
        #[arg(long, value_enum, default_value_t = Written::Jpeg)]
        format: Written,
    },
    /// Download a data set; resumes an interrupted download.
    Fetch {
        /// The data set.
        #[arg(value_parser = names(with(Obtained::Downloaded)))]
        set: String,
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
pub(super) enum Written {
    /// JPEG of quality 90.
    Jpeg,
    /// PNG, lossless.
    Png,
}

/// The names of data sets, as clap offers them.
fn names<'a>(files: impl Iterator<Item = &'static Obtainable> + 'a) -> PossibleValuesParser {
    PossibleValuesParser::new(files.map(|files| PossibleValue::new(&*files.key).help(&*files.about)))
}

fn with(by: Obtained) -> impl Iterator<Item = &'static Obtainable> {
    obtainable().map(|(_, files)| files).filter(move |files| files.by == by)
}

pub(super) fn run(command: Command) -> Outcome {
    let folder = match command {
        Command::Make { target: Some(folder), scenario: Scenario::B, from, count, format, .. } => {
            let data = Data::of_set(&from);
            with_bar("images", |progress| dataset::prepare(&data, progress))?;
            let images = dataset::images(&data)?;
            let format = if format == Written::Png { FileFormat::Png } else { FileFormat::Jpeg };
            with_bar("images", |progress| dataset::make_files(&images, &folder, count, format, progress))?;
            folder
        }
        Command::Make { scenario: Scenario::B, .. } => {
            return Err("name the folder to write: multicard data make --scenario b DIR".into());
        }
        Command::Make { target, folder, .. } => {
            let name = target.unwrap_or_else(|| "digits".into());
            let generated = || with(Obtained::Generated).map(|files| &*files.key);
            let Some(name) = generated().find(|key| name.as_os_str() == *key) else {
                let (name, known) = (name.display(), generated().collect::<Vec<_>>().join(", "));
                return Err(format!("cannot generate `{name}`: use {known}, or --scenario b and a folder").into());
            };
            obtain(name, folder, "images")?
        }
        Command::Fetch { set, folder } => obtain(&set, folder, "bytes")?,
    };
    say(format_args!("{}", folder.display()));
    Ok(OK)
}

/// Generates or downloads a data set, into its default folder unless another is given.
fn obtain(name: &str, folder: Option<PathBuf>, unit: &str) -> Result<PathBuf, Box<dyn Error>> {
    let known = obtainable().find(|(_, files)| files.key == name);
    let (rule, files) = known.ok_or_else(|| format!("{name} is not a data set of any workload"))?;
    let own = || dataset::folder_of(rule, files);
    // A folder that is named holds all sets that its rule reads.
    let given = |folder: PathBuf| if files.key == rule.key { folder } else { folder.join(&*files.key) };
    let folder = folder.map_or_else(own, |folder| Ok(given(folder)))?;
    with_bar(unit, |progress| dataset::obtain(name, &folder, progress))?;
    Ok(folder)
}

/// Checks a plan's data set before a launch: generates the digits if necessary, and rejects a data set that is missing or invalid.
pub(super) fn prepare(block: &Block) -> Result<(), Box<dyn Error>> {
    let missing = dataset::missing(block);
    match with_bar("images", |progress| dataset::prepare(&block.data, progress)) {
        Err(_) if !missing.is_empty() => Err(missing.join("; ").into()),
        prepared => Ok(prepared?),
    }
}

/// Runs work that reports progress, with a progress bar on a terminal.
fn with_bar<T>(unit: &str, work: impl FnOnce(&mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> T) -> T {
    let bar = progress_bar(&format!("{{bar:30}} {{pos}}/{{len}} {unit}  ETA {{eta}}"));
    let outcome = work(&mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    outcome
}
