//! Downloads of published text: the Parquet files that Hugging Face makes of a data set, with the checksums that it declares.

use std::ops::ControlFlow;
use std::path::Path;

use crate::dataset::DatasetError;
use crate::dataset::fetch::{self, Wanted};
use crate::plan::llm::DataSet;

/// The site that publishes data sets.
pub const HUB_URL: &str = "https://huggingface.co";

/// The repository of a data set; `None` for sets that are not published.
fn repository(set: DataSet) -> Option<&'static str> {
    match set {
        DataSet::AlpacaCleaned => Some("yahma/alpaca-cleaned"),
        DataSet::Grammar => Some("liweili/c4_200m"),
        // Samsung/samsum itself is an archive; this one holds its rows.
        DataSet::Samsum => Some("knkarthick/samsum"),
        DataSet::Slimorca => Some("Open-Orca/SlimOrca-Dedup"),
        DataSet::File | DataSet::Uniform => None,
    }
}

/// Downloads the rows of a published data set into `folder`. Existing files are kept, partial ones resumed. `progress` receives the bytes
/// done and their total, and cancels by breaking.
///
/// # Errors
/// The hub does not answer, lists no files, or sends files that differ from its declaration.
pub fn fetch_text(
    set: DataSet,
    folder: &Path,
    hub: &str,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), DatasetError> {
    let failed = |url: &str, reason: String| DatasetError::Fetch {
        file: format!("the list of {}'s files", set.name()),
        folder: folder.to_owned(),
        tried: vec![format!("{url}: {reason}")],
    };
    let name =
        repository(set).ok_or_else(|| DatasetError::Text(format!("{} is not published anywhere", set.name())))?;
    let agent = fetch::agent();
    let list = format!("{hub}/api/datasets/{name}/parquet/default/train");
    let urls = fetch::text(&agent, &list).map_err(|reason| failed(&list, reason))?;
    let urls: Vec<String> = serde_json::from_str(&urls).map_err(|error| failed(&list, format!("no list: {error}")))?;
    if urls.is_empty() {
        return Err(failed(&list, "it lists no files".to_owned()));
    }
    let mut files = Vec::new();
    for (place, url) in urls.into_iter().enumerate() {
        let (bytes, sha256) = fetch::declared(&agent, &url).map_err(|reason| failed(&url, reason))?;
        files.push(Wanted { name: format!("{place:04}.parquet"), bytes, sha256, urls: vec![url] });
    }
    fetch::fetch(&agent, folder, &files, progress)
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
