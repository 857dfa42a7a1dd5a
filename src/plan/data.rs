//! Which data set a plan trains on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A data set of the `image` workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "set")]
pub enum DataSet {
    /// The procedural handwritten-like digits: 60,000 + 10,000 images of 28×28 bytes.
    Digits,
    /// MNIST's IDX files, plain or gzipped.
    Mnist {
        /// Their folder; none for the one that `multicard data fetch mnist` fills.
        folder: Option<PathBuf>,
    },
    /// Folders `train` and `test` of image files, in each one sub-folder a class (scenario b).
    Folder {
        /// Where they are.
        folder: PathBuf,
        /// When their files are decoded.
        #[serde(default)]
        decode: Decode,
        /// What a file does that cannot be decoded.
        #[serde(default)]
        corrupt: Corrupt,
    },
}

/// When image files are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decode {
    /// Before the first epoch; their pixels stay in memory, as bytes of the size that the model sees.
    #[default]
    Once,
    /// In every epoch, by the loader's threads.
    EachEpoch,
}

impl Decode {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = &["once", "each_epoch"];

    /// The name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::EachEpoch => "each_epoch",
        }
    }
}

/// What an image file does that cannot be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Corrupt {
    /// It ends the run, which names it.
    #[default]
    Stop,
    /// It is named and left out: all files are tried before the first epoch.
    Skip,
}

impl Corrupt {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = &["stop", "skip"];

    /// The name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Skip => "skip",
        }
    }
}

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

    /// When its files are decoded; none for a set that has no image files.
    pub fn decode(&self) -> Option<Decode> {
        if let Self::Folder { decode, .. } = self { Some(*decode) } else { None }
    }

    /// Training and test images in the set, where that is known before it is opened.
    pub fn images(&self) -> Option<(u64, u64)> {
        match self {
            Self::Digits | Self::Mnist { .. } => Some((60_000, 10_000)),
            Self::Folder { .. } => None,
        }
    }
}
