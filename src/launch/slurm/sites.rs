//! The user's sites: `sites.toml` in multicard's configuration folder, with a table for each.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::foreign;
use crate::plan::{is_name, suggestion};
use crate::protocol::Site;

/// Longest file of sites that is read.
const MOST_BYTES: u64 = 1 << 20;

/// The greatest `most_jobs`: schedulers take some ten thousand jobs.
const MOST_JOBS: u32 = 10_000;

/// The file of the user's sites.
///
/// # Errors
/// The user has no home folder.
pub fn sites_file() -> Result<PathBuf, String> {
    Ok(foreign::config_folder()?.join("multicard").join("sites.toml"))
}

/// The user's sites, by name. Without the file there are none.
///
/// # Errors
/// The file cannot be read; the message names its line.
pub fn sites() -> Result<Vec<Site>, String> {
    read(&sites_file()?)
}

/// The user's site of a name.
///
/// # Errors
/// There is none, or the file cannot be read.
pub fn site(name: &str) -> Result<Site, String> {
    let file = sites_file()?;
    let mut sites = read(&file)?;
    let names: Vec<String> = sites.iter().map(|site| site.name.clone()).collect();
    if let Some(at) = names.iter().position(|known| known == name) {
        return Ok(sites.swap_remove(at));
    }
    let known = if names.is_empty() { String::new() } else { suggestion(name, &names) };
    let file = file.display();
    Err(format!(
        "there is no site {name:?} in {file}{known}: on the cluster's login node, `multicard site {name} --add` adds it"
    ))
}

fn read(file: &Path) -> Result<Vec<Site>, String> {
    let bytes = match foreign::read(file, MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
    };
    understood(&String::from_utf8_lossy(&bytes)).map_err(|reason| format!("{}: {reason}", file.display()))
}

fn understood(text: &str) -> Result<Vec<Site>, String> {
    let tables: BTreeMap<String, Site> = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let line = line.map_or(String::new(), |line| format!("line {line}: "));
        format!("{line}{}", error.message())
    })?;
    let site = |(name, site): (String, Site)| {
        if !is_name(&name) {
            return Err(format!("[{name:?}] is not a name of a site: use letters, digits and hyphens"));
        }
        if !(1..=MOST_JOBS).contains(&site.most_jobs) || site.most_starts == 0 || site.cpus_per_task == Some(0) {
            return Err(format!(
                "[{name}]: most_jobs is from 1 to {MOST_JOBS}, and most_starts and cpus_per_task are at least 1"
            ));
        }
        Ok(Site { name, ..site })
    };
    tables.into_iter().map(site).collect()
}

/// Adds a site to the end of the user's file, which keeps what it contains.
///
/// # Errors
/// The file has a site of this name, or cannot be read or written.
pub fn add_site(site: &Site) -> Result<PathBuf, String> {
    let file = sites_file()?;
    if !is_name(&site.name) {
        return Err(format!("{:?} is not a name of a site: use letters, digits and hyphens", site.name));
    }
    if read(&file)?.iter().any(|known| known.name == site.name) {
        return Err(format!("{} has a site {} already: edit it there", file.display(), site.name));
    }
    let failed = |error: io::Error| format!("cannot write {}: {error}", file.display());
    let table = BTreeMap::from([(site.name.clone(), Site { name: String::new(), ..site.clone() })]);
    let added = toml::to_string(&table).map_err(|error| failed(io::Error::other(error)))?;
    let before = fs::read_to_string(&file).unwrap_or_default();
    let between = if before.is_empty() { "" } else { "\n" };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    foreign::write(&file, format!("{before}{between}{added}").as_bytes()).map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_site_and_what_is_wrong_is_named_with_its_line() {
        let sites = understood("[lab]\npartition = \"gpu\"\n\n[small]\nmost_jobs = 2\n").unwrap();
        let names: Vec<_> = sites.iter().map(|site| (site.name.as_str(), site.most_jobs)).collect();
        assert_eq!(names, [("lab", 50), ("small", 2)]);
        let error = understood("[lab]\npartition = \"gpu\"\npartion = \"x\"\n").unwrap_err();
        assert!(error.starts_with("line 3: unknown field `partion`"), "{error}");
        assert!(understood("[lab]\nmost_jobs = 0\n").unwrap_err().contains("at least 1"));
    }
}
