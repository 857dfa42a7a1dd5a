//! Finds the libraries of PyTorch that the worker loads: in the packages of a Python on this node, or where `multicard setup` has fetched
//! them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::answer::finish;
use crate::foreign;

/// Version of libtorch that the worker is built for; its C++ interface is stable only within one version.
pub const TORCH_VERSION: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/torch-version")).trim_ascii();

/// The two sets of libraries that can be fetched, as the names of their folders.
pub const FETCHED: [&str; 2] = ["cuda", "cpu"];

/// Time limit for a Python to report the path of its torch: a cold interpreter on a network file system takes seconds.
const PYTHON_LIMIT: Duration = Duration::from_secs(20);

/// A script that prints the path of torch without importing it. The current folder is not searched, since it may contain another `torch`.
const WHERE: &str = "\
import sys
sys.path = [place for place in sys.path if place]
import importlib.util
found = importlib.util.find_spec('torch')
print(next(iter(found.submodule_search_locations or []), '') if found else '')";

/// A place where PyTorch may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The torch that this Python would import; the Python may belong to the system, to an environment of venv or conda, or to a module.
    Python(OsString),
    /// A folder, with a description of its origin.
    Folder(&'static str, PathBuf),
}

/// The places to search, in order: the Python of the active environment, those on the `PATH`, what `multicard setup` fetched.
pub(super) fn places() -> Vec<Place> {
    let of_environment = |name: &str| {
        let folder = env::var_os(name).filter(|folder| !folder.is_empty())?;
        Some(Path::new(&folder).join("bin/python").into_os_string())
    };
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(of_environment);
    let on_path = ["python3", "python"].into_iter().map(OsString::from);
    let mut places: Vec<_> = environments.chain(on_path).map(Place::Python).collect();
    let fetched = FETCHED.into_iter().filter_map(|kind| fetched_folder(kind).ok());
    places.extend(fetched.map(|folder| Place::Folder("multicard setup", folder.join("torch"))));
    places
}

/// The folder that `multicard setup` fetches a set of libraries into; `make` shares it.
///
/// # Errors
///
/// The user has no home folder.
pub fn fetched_folder(kind: &str) -> Result<PathBuf, String> {
    Ok(foreign::cache_folder()?.join("multicard").join(format!("libtorch-{TORCH_VERSION}-{kind}")))
}

impl Place {
    /// The folder of the torch in this place, if it has the required version.
    ///
    /// # Errors
    ///
    /// What was found instead; `None` if nothing was found.
    pub(super) fn torch(&self) -> Result<PathBuf, Option<String>> {
        let (name, folder) = match self {
            Self::Python(program) => (program.to_string_lossy().into_owned(), python_torch(program)?),
            Self::Folder(origin, folder) if folder.is_dir() => ((*origin).to_owned(), folder.clone()),
            Self::Folder(..) => return Err(None),
        };
        let version = torch_version(&folder).map_err(|error| Some(format!("{name}: {error}")))?;
        if version.split('+').next() == Some(TORCH_VERSION) {
            Ok(folder)
        } else {
            Err(Some(format!("{name} has torch {version} ({})", folder.display())))
        }
    }
}

/// The folder of the torch that a Python would import.
fn python_torch(program: &OsStr) -> Result<PathBuf, Option<String>> {
    let mut python = Command::new(program);
    python.args(["-c", WHERE]);
    let shown = program.to_string_lossy();
    // Not every name of a Python exists.
    let Ok(finished) = finish(python, PYTHON_LIMIT) else { return Err(None) };
    let Some((exit, stdout, stderr)) = finished else {
        return Err(Some(format!("{shown} did not report the path of its torch within {} s", PYTHON_LIMIT.as_secs())));
    };
    if !exit.is_success() {
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("without a word");
        return Err(Some(format!("{shown} failed: {last}")));
    }
    match stdout.trim() {
        "" => Err(Some(format!("{shown} has no torch"))),
        folder => Ok(PathBuf::from(folder)),
    }
}

/// The version in a torch folder's `version.py`.
pub(super) fn torch_version(torch: &Path) -> Result<String, String> {
    let path = torch.join("version.py");
    let text = fs::read_to_string(&path).map_err(|error| {
        format!("cannot read {}: {error}: name the folder of an installed torch {TORCH_VERSION}", path.display())
    })?;
    let version = text.lines().find_map(|line| line.strip_prefix("__version__")?.trim_start().strip_prefix('='));
    let version = version.map(|version| version.trim().trim_matches(['\'', '"']).to_owned());
    version.ok_or_else(|| format!("{} has no __version__: name the folder of an installed torch", path.display()))
}

/// The `LD_LIBRARY_PATH` with which a program finds the libraries of a torch, and NVIDIA's libraries next to it, before those of `after`.
pub(super) fn library_path(torch: &Path, after: Option<&OsStr>) -> Result<String, String> {
    let mut folders = vec![torch.join("lib")];
    let packages = torch.parent().map(|parent| parent.join("nvidia"));
    let packages = packages.and_then(|nvidia| fs::read_dir(nvidia).ok()).into_iter().flatten().flatten();
    let mut libraries: Vec<_> = packages.map(|entry| entry.path().join("lib")).filter(|path| path.is_dir()).collect();
    libraries.sort();
    folders.append(&mut libraries);
    folders.extend(after.iter().flat_map(env::split_paths));
    let joined = env::join_paths(&folders).ok().and_then(|joined| joined.into_string().ok());
    joined.ok_or_else(|| format!("{}: the path contains a colon or is not UTF-8: move the folder", torch.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::executable;

    fn torch_of(version: &str) -> (tempfile::TempDir, PathBuf) {
        let site = tempfile::tempdir().unwrap();
        let torch = site.path().join("torch");
        fs::create_dir_all(torch.join("lib")).unwrap();
        fs::write(torch.join("version.py"), format!("__version__ = '{version}'\n")).unwrap();
        (site, torch)
    }

    /// A program that answers as a Python does.
    fn python(folder: &Path, body: &str) -> Place {
        let path = folder.join("python");
        executable::write(&path, format!("#!/bin/sh\n{body}\n"));
        Place::Python(path.into())
    }

    #[test]
    fn a_pythons_torch_of_the_right_version_is_found_and_another_is_named() {
        let (site, torch) = torch_of(&format!("{TORCH_VERSION}+cu130"));
        let says = format!("echo '{}'", torch.display());
        assert_eq!(python(site.path(), &says).torch(), Ok(torch.clone()));
        fs::write(torch.join("version.py"), "__version__ = '2.4.1'\n").unwrap();
        let reason = python(site.path(), &says).torch().unwrap_err().unwrap();
        assert!(reason.contains("has torch 2.4.1") && reason.contains(&torch.display().to_string()), "{reason}");
    }

    #[test]
    fn no_python_no_torch_and_a_broken_python_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Place::Python(folder.path().join("absent").into()).torch(), Err(None));
        let none = python(folder.path(), "echo").torch().unwrap_err().unwrap();
        assert!(none.ends_with("has no torch"), "{none}");
        let broken =
            python(folder.path(), "echo 'No module named encodings' >&2; exit 1").torch().unwrap_err().unwrap();
        assert!(broken.contains("failed: No module named encodings"), "{broken}");
        let (_site, torch) = torch_of("1.0");
        assert_eq!(Place::Folder("multicard setup", torch.join("absent")).torch(), Err(None));
        let old = Place::Folder("multicard setup", torch).torch().unwrap_err().unwrap();
        assert!(old.starts_with("multicard setup has torch 1.0"), "{old}");
    }

    #[test]
    fn a_torch_in_the_current_folder_is_not_taken_for_that_of_python() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("torch")).unwrap();
        fs::write(folder.path().join("torch/__init__.py"), "").unwrap();
        let output = Command::new("python3").args(["-c", WHERE]).current_dir(folder.path()).output().unwrap();
        let here = folder.path().join("torch").display().to_string();
        assert!(output.status.success() && !String::from_utf8_lossy(&output.stdout).contains(&here), "{output:?}");
        let mut with = Command::new("python3");
        let output = with.args(["-c", WHERE]).env("PYTHONPATH", folder.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), here);
    }
}
