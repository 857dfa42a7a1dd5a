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
