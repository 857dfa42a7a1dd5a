//! The data sets of the `image` workload.

use std::path::PathBuf;
use std::str::FromStr;

use strum::{EnumString, IntoStaticStr, VariantNames};

use super::Scenario;
use crate::plan::{Data, DataSetRule, Factor, Level, Obtainable, Obtained, named};

/// A data set of the `image` workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataSet {
    /// The procedural handwritten-like digits: 60,000 + 10,000 images of 28×28 bytes.
    Digits,
    /// MNIST's IDX files, plain or gzipped.
    Mnist {
        /// The folder of the files; `None` for the folder that `multicard data fetch mnist` fills.
        folder: Option<PathBuf>,
    },
    /// Folders `train` and `test` of image files, each with one sub-folder for each class (scenario b).
    Folder {
        /// The folder that contains `train` and `test`.
        folder: PathBuf,
        /// When their files are decoded.
        decode: Decode,
        /// What happens with a file that cannot be decoded.
        corrupt: Corrupt,
    },
}

/// When image files are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Decode {
    /// Before the first epoch; their pixels stay in memory as bytes, in the size that the model sees.
    #[default]
    Once,
    /// The loader's threads decode files in every epoch.
    EachEpoch,
}

named!(Decode: names, name);

/// What happens with an image file that cannot be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Corrupt {
    /// The run ends with an error that names the file.
    #[default]
    Stop,
    /// The file is reported and left out: all files are tried before the first epoch.
    Skip,
}

named!(Corrupt: names, name);

impl DataSet {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = &["digits", "mnist", "folder"];

    /// The name used in plans.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Mnist { .. } => "mnist",
            Self::Folder { .. } => "folder",
        }
    }

    /// A folder of image files, with the defaults.
    pub fn files(folder: impl Into<PathBuf>) -> Self {
        Self::Folder { folder: folder.into(), decode: Decode::default(), corrupt: Corrupt::default() }
    }

    /// When image files are decoded; `None` for a set without image files.
    pub fn decode(&self) -> Option<Decode> {
        if let Self::Folder { decode, .. } = self { Some(*decode) } else { None }
    }

    /// The number of training and test images, if it is known before the set is opened.
    pub fn images(&self) -> Option<(u64, u64)> {
        match self {
            Self::Digits | Self::Mnist { .. } => Some((60_000, 10_000)),
            Self::Folder { .. } => None,
        }
    }

    /// Reads the data set of a plan or a job.
    ///
    /// # Errors
    /// What is missing or unknown.
    pub fn read(data: &Data) -> Result<Self, String> {
        let folder = data.folder().map(PathBuf::from);
        match &*data.set {
            "digits" => Ok(Self::Digits),
            "mnist" => Ok(Self::Mnist { folder }),
            "folder" => Ok(Self::Folder {
                folder: folder.ok_or("data.set = folder needs a folder")?,
                decode: named(data, "decode", Decode::NAMES)?,
                corrupt: named(data, "corrupt", Corrupt::NAMES)?,
            }),
            other => Err(format!("data.set = {other} is not one of {}", Self::NAMES.join(", "))),
        }
    }
}

/// A named level of a data set, or its default.
fn named<T: Default + FromStr>(data: &Data, key: &str, names: &[&str]) -> Result<T, String> {
    let Some(level) = data.get(key) else { return Ok(T::default()) };
    let named = level.as_text().and_then(|name| name.parse().ok());
    named.ok_or_else(|| format!("data.{key} = {level} is not one of {}", names.join(", ")))
}

impl From<DataSet> for Data {
    fn from(set: DataSet) -> Self {
        let data = Self::of_set(set.name());
        match set {
            DataSet::Digits | DataSet::Mnist { folder: None } => data,
            DataSet::Mnist { folder: Some(folder) } => data.with("folder", Level::text(&folder.to_string_lossy())),
            DataSet::Folder { folder, decode, corrupt } => data
                .with("folder", Level::text(&folder.to_string_lossy()))
                .with("decode", Level::text(decode.name()))
                .with("corrupt", Level::text(corrupt.name())),
        }
    }
}

/// The settings that plans may give for each data set.
pub(super) fn rules() -> Vec<DataSetRule> {
    let rule = |set: &str, help: &str, scenario: Scenario| DataSetRule {
        key: set.into(),
        help: help.to_owned(),
        keys: Vec::new(),
        required: Vec::new(),
        synthetic: false,
        // Scenario b reads image files, scenario a reads bytes.
        ticks: vec![(Scenario::KEY.into(), Level::text(scenario.name()))],
        read_by: Vec::new(),
        obtainable: Vec::new(),
    };
    let digits = "70,000 procedural digits of 28×28 pixels; generated when first needed";
    let mnist = "70,000 handwritten digits of 28×28 pixels; a download of 12 MB";
    vec![
        DataSetRule {
            obtainable: vec![Obtainable::new("digits", Obtained::Generated, digits)],
            ..rule("digits", "Drawn by this program when first needed; nothing is downloaded.", Scenario::A)
        },
        DataSetRule {
            obtainable: vec![Obtainable {
                name: "MNIST".to_owned(),
                ..Obtainable::new("mnist", Obtained::Downloaded, mnist)
            }],
            keys: vec![Factor::path("folder", "Folder of MNIST", "").help("as downloaded")],
            ..rule("mnist", "Handwritten digits; `multicard data fetch mnist` downloads them.", Scenario::A)
        },
        DataSetRule {
            keys: vec![
                Factor::path("folder", "Folder of images", "images").help("a folder"),
                Factor::named("decode", "Files are decoded", Decode::NAMES),
                Factor::named("corrupt", "Files that cannot be decoded", Corrupt::NAMES),
            ],
            required: vec!["folder".into()],
            ..rule(
                "folder",
                "Its folders train and test contain one folder for each class; `multicard data make --scenario b` makes such a set.",
                Scenario::B,
            )
        },
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_read_as_it_is_written() {
        for set in [
            DataSet::Digits,
            DataSet::Mnist { folder: None },
            DataSet::Mnist { folder: Some("/data".into()) },
            DataSet::Folder { folder: "photos".into(), decode: Decode::EachEpoch, corrupt: Corrupt::Skip },
        ] {
            assert_eq!(DataSet::read(&set.clone().into()).unwrap(), set);
        }
        // A session of before files could be decoded in each epoch.
        assert_eq!(
            DataSet::read(&Data::of_set("folder").with("folder", Level::text("x"))).unwrap(),
            DataSet::files("x")
        );
    }

    #[test]
    fn what_is_unknown_or_missing_is_named() {
        for (data, part) in [
            (Data::of_set("cifar"), "data.set = cifar is not one of digits, mnist, folder"),
            (Data::of_set("folder"), "needs a folder"),
            (
                Data::of_set("folder").with("folder", Level::text("x")).with("decode", Level::text("never")),
                "decode = never",
            ),
        ] {
            assert!(DataSet::read(&data).unwrap_err().contains(part), "{data:?}");
        }
    }
}
