//! Data sets that this program generates or downloads, by the names that workloads give them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{
    DatasetError, ImageSet, MNIST_URLS, data_folder, fetch_mnist, folder, list_files, load, make_digits, text,
};
use crate::plan::image::{self, DataSet};
use crate::plan::llm;
use crate::plan::{Block, Data, DataSetRule, Key, Level, Levels, Obtainable, Obtained, obtainable};

/// Receives the amount done and the total, in images or bytes, and cancels by breaking.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// The folder of a set of files for plans that name no other.
///
/// # Errors
/// There is no folder for data.
pub fn folder_of(rule: &DataSetRule, files: &Obtainable) -> Result<PathBuf, DatasetError> {
    let folder = data_folder(&Data::of_set(&rule.key))?;
    Ok(if files.key == rule.key { folder } else { folder.join(&*files.key) })
}

/// Generates or downloads a set of files into `folder`; an interrupted download continues.
///
/// # Errors
/// What could not be written or downloaded; cancelled.
pub fn obtain(key: &str, folder: &Path, progress: Progress) -> Result<(), DatasetError> {
    match key {
        "digits" => make_digits(folder, progress),
        "mnist" => fetch_mnist(folder, MNIST_URLS, progress),
        _ => match text_set(key) {
            Some(set) => text::fetch_text(set, folder, text::HUB_URL, progress),
            None => Err(DatasetError::Text(format!("{key}: this version can neither generate nor download it"))),
        },
    }
}

fn text_set(key: &str) -> Option<llm::DataSet> {
    llm::DataSet::PUBLISHED.into_iter().map(|(set, _)| set).find(|set| set.name() == key)
}

/// The size of a set of files in its folder, in bytes; `None` if some are missing. Contents are not checked.
pub fn present(key: &str, folder: &Path) -> Option<u64> {
    if text_set(key).is_none() {
        return folder::idx_bytes(folder);
    }
    let mut bytes = 0;
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        match entry.path().extension()?.to_str()? {
            "parquet" => bytes += entry.metadata().ok()?.len(),
            // A download that is not finished.
            "part" => return None,
            _ => {}
        }
    }
    (bytes > 0).then_some(bytes)
}

/// Prepares the images of a plan before its runs start: generates the digits, and checks all other images.
///
/// # Errors
/// What is missing or damaged, and what to do.
pub fn prepare(data: &Data, progress: Progress) -> Result<(), DatasetError> {
    let Ok(set) = DataSet::read(data) else { return Ok(()) };
    let folder = data_folder(data)?;
    let generated = obtainable().find(|(rule, files)| rule.key == data.set && files.by == Obtained::Generated);
    if let Some((_, files)) = generated {
        // The function above has already compared the files with their checksums.
        return obtain(&files.key, &folder, progress);
    }
    match set {
        // Decoding all files would take minutes; the runs check the ones they use.
        DataSet::Folder { .. } => list_files(&folder).map(drop),
        _ => load(&set, &folder).map(drop),
    }
}

/// The files of a plan's block that are missing on this machine and that a launch does not generate: one sentence each, with what to do.
pub fn missing(block: &Block) -> Vec<String> {
    let Some(rule) = block.spec.data_set(&block.data.set) else { return Vec::new() };
    let generated =
        block.spec.data_sets.iter().find(|rule| rule.obtainable.iter().any(|one| one.by == Obtained::Generated));
    let instead = generated.map_or(String::new(), |rule| {
        format!("; --data {} uses generated images instead, which tables state", rule.key)
    });
    let wanted = |files: &&Obtainable| {
        let is_level = |(_, levels): &(Key, Vec<Level>)| levels.contains(&Level::text(&files.key));
        files.by == Obtained::Downloaded && (files.key == rule.key || block.factors.iter().any(is_level))
    };
    let absent = |files: &Obtainable| {
        let named = block.data.folder().map(PathBuf::from);
        let own = |folder: PathBuf| if files.key == rule.key { folder } else { folder.join(&*files.key) };
        let folder = named.map_or_else(|| folder_of(rule, files).ok(), |folder| Some(own(folder)))?;
        // The folder may contain rows in any readable form, but images only in the form of their set.
        let is_absent = match text_set(&files.key) {
            Some(set) => text::files_of(set, &folder).is_err(),
            None => present(&files.key, &folder).is_none(),
        };
        is_absent.then(|| {
            let (key, folder) = (&files.key, folder.display());
            let into = if block.data.folder().is_some() { format!(" --folder {folder}") } else { String::new() };
            format!("{key} is not in {folder}: multicard data fetch {key}{into} downloads it{instead}")
        })
    };
    let mut missing: Vec<String> = rule.obtainable.iter().filter(wanted).filter_map(absent).collect();
    if rule.obtainable.is_empty()
        && let Some(folder) = block.data.folder().filter(|folder| !Path::new(folder).is_dir())
    {
        missing.push(format!("the folder {folder} of data.set = {} does not exist", rule.key));
    }
    missing
}

/// Reads the parts of its data set's files that a cell uses, without keeping them, before a run occupies a GPU.
///
/// # Errors
/// What is missing or cannot be used, with its place.
pub fn check(levels: &Levels, data: &Data, folder: &Path) -> Result<(), DatasetError> {
    if llm::LlmData::read(data).is_ok() { text::check(levels, data, folder) } else { Ok(()) }
}

/// Checks the existing files that describe the networks of a plan's block, before anything is started or written.
///
/// # Errors
/// The file that is damaged or belongs to another network, and what is wrong with it.
pub fn check_models(block: &Block) -> Result<(), DatasetError> {
    if block.spec.key != llm::KEY || !block.spec.is_built_in() {
        return Ok(());
    }
    let data = llm::LlmData::read(&block.data).map_err(DatasetError::Text)?;
    let ticked = block.factors.iter().filter(|(key, _)| key.as_str() == llm::Model::KEY).flat_map(|(_, levels)| levels);
    let ticked: Vec<&str> = ticked.filter_map(Level::as_text).collect();
    let models = llm::Model::ALL.iter().filter(|model| ticked.contains(&model.name()));
    models.copied().try_for_each(|model| text::check_model(model, &data))
}

/// A set of images, as [`load`] returns it, from its default folder.
///
/// # Errors
/// The data set is not a set of images; or a file is missing or damaged. The error says which file, and what to do.
pub fn images(data: &Data) -> Result<ImageSet, DatasetError> {
    let set = DataSet::read(data).map_err(DatasetError::Text)?;
    load(&set, &data_folder(data)?)
}

/// The names of the sets of images that this program generates or downloads.
pub fn image_sets() -> impl Iterator<Item = &'static Obtainable> {
    let of_images = |rule: &DataSetRule| image::spec().data_set(&rule.key).is_some();
    obtainable().filter(move |(rule, _)| of_images(rule)).map(|(_, files)| files)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_set_that_a_workload_declares_can_be_obtained_into_a_folder_of_its_own() {
        let mut folders = Vec::new();
        for (rule, files) in obtainable() {
            let known = matches!(&*files.key, "digits" | "mnist") || text_set(&files.key).is_some();
            assert!(known && !files.about.is_empty(), "{}", files.key);
            folders.push(folder_of(rule, files).unwrap());
        }
        let count = folders.len();
        folders.sort_unstable();
        folders.dedup();
        assert_eq!(folders.len(), count);
        let error = obtain("cifar", Path::new("/nowhere"), &mut |_, _| ControlFlow::Continue(())).unwrap_err();
        assert!(error.to_string().contains("cifar"), "{error}");
    }

    #[test]
    fn text_is_present_once_no_part_of_it_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(present("samsum", folder.path()), None);
        fs::write(folder.path().join("0000.parquet"), "12345").unwrap();
        assert_eq!(present("samsum", folder.path()), Some(5));
        fs::write(folder.path().join("0001.parquet.part"), "12").unwrap();
        assert_eq!(present("samsum", folder.path()), None);
        assert_eq!(present("mnist", folder.path()), None);
    }
}
