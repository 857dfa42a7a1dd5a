//! Folders of data sets, and loading a set.

use std::env;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{DatasetError, ImageSet, idx, make};
use crate::foreign;
use crate::plan::Data;
use crate::plan::image::DataSet;

/// The folder of a data set: the one named by the plan, else one of the set's name in `$MULTICARD_DATA`, else in `multicard/data`
/// of the XDG data directory.
pub fn data_folder(data: &Data) -> Result<PathBuf, DatasetError> {
    if let Some(folder) = data.folder() {
        return Ok(folder.into());
    }
    let root = match env::var_os("MULTICARD_DATA") {
        Some(root) if !root.is_empty() => PathBuf::from(root),
        _ => {
            let base = foreign::data_folder().map_err(DatasetError::NoDataFolder)?;
            base.join("multicard").join("data")
        }
    };
    Ok(root.join(&*data.set))
}

/// The folder of a data set that must be fetched, or the message that it is missing and how to get it; `None` for other sets.
pub fn whereabouts(data: &Data) -> Option<Result<String, String>> {
    let Ok(DataSet::Mnist { folder: own }) = DataSet::read(data) else { return None };
    let remedy = match own {
        Some(_) => "put MNIST's four IDX files there",
        None => "run `multicard data fetch mnist`",
    };
    let folder = match data_folder(data) {
        Ok(folder) => folder,
        Err(error) => return Some(Err(error.to_string())),
    };
    let has_mnist_files =
        ["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"].iter().any(|name| folder.join(name).exists());
    let folder = folder.display();
    Some(if has_mnist_files {
        Ok(format!("MNIST found in {folder}"))
    } else {
        Err(format!("MNIST not found in {folder}: {remedy}"))
    })
}

/// Size of the IDX files in `folder`, in bytes; `None` if one is missing. Contents are not checked; [`load`] does that.
pub(super) fn idx_bytes(folder: &Path) -> Option<u64> {
    let bytes = |name: &&'static str| Some(idx::find(folder, name)?.metadata().ok()?.len());
    idx::NAMES.as_flattened().iter().map(bytes).sum()
}

/// Reads a data set from `folder` (see [`data_folder`]). Missing or damaged digits are generated first, which takes seconds; MNIST must
/// exist.
pub fn load(set: &DataSet, folder: &Path) -> Result<ImageSet, DatasetError> {
    let remedy = match set {
        DataSet::Digits => {
            make::make_digits(folder, &mut |_, _| ControlFlow::Continue(()))?;
            "run `multicard data make digits`"
        }
        DataSet::Mnist { folder: None } => "run `multicard data fetch mnist`",
        DataSet::Mnist { folder: Some(_) } => {
            "put MNIST's four IDX files there, or remove the folder from the plan and run `multicard data fetch mnist`"
        }
        DataSet::Folder { folder, .. } => return Err(DatasetError::NotBytes(folder.clone())),
    };
    idx::read_set(folder, remedy)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_plans_own_folder_wins() {
        let folder = PathBuf::from("/data/mine");
        assert_eq!(data_folder(&DataSet::Mnist { folder: Some(folder.clone()) }.into()).unwrap(), folder);
        assert_eq!(data_folder(&DataSet::files(&folder).into()).unwrap(), folder);
        assert!(data_folder(&DataSet::Digits.into()).unwrap().ends_with("digits"));
        assert!(data_folder(&DataSet::Mnist { folder: None }.into()).unwrap().ends_with("mnist"));
    }

    #[test]
    fn a_set_is_present_when_all_its_files_are_plain_or_gzipped() {
        let folder = tempfile::tempdir().unwrap();
        let names = idx::NAMES.as_flattened();
        for (index, name) in names.iter().enumerate() {
            assert_eq!(idx_bytes(folder.path()), None, "{index} of {}", names.len());
            let name = if index % 2 == 0 { (*name).to_owned() } else { format!("{name}.gz") };
            std::fs::write(folder.path().join(name), "12345").unwrap();
        }
        assert_eq!(idx_bytes(folder.path()), Some(20));
    }

    #[test]
    fn missing_mnist_says_what_to_run() {
        let folder = tempfile::tempdir().unwrap();
        let error = load(&DataSet::Mnist { folder: None }, folder.path()).unwrap_err().to_string();
        assert!(error.contains("train-images-idx3-ubyte"), "{error}");
        assert!(error.contains("run `multicard data fetch mnist`"), "{error}");
    }

    #[test]
    fn a_folder_of_files_is_not_read_as_bytes() {
        let folder = PathBuf::from("/data/mine");
        let error = load(&DataSet::files(&folder), &folder).unwrap_err();
        assert!(matches!(error, DatasetError::NotBytes(_)), "{error}");
    }
}
