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
    /// A folder of image files, one sub-folder a class (scenario b).
    Folder {
        /// Where it is.
        folder: PathBuf,
    },
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

    /// Training and test images in the set, where that is known before it is opened.
    pub fn images(&self) -> Option<(u64, u64)> {
        match self {
            Self::Digits | Self::Mnist { .. } => Some((60_000, 10_000)),
            Self::Folder { .. } => None,
        }
    }
}
