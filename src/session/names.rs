//! Folders of sessions, and the names by which people know them.

use std::path::{Path, PathBuf};

use super::SessionError;
use crate::foreign;

/// For each folder the shortest end of its path that no other folder has.
pub fn short_names(folders: &[&Path]) -> Vec<String> {
    let end = |folder: &Path, parts: usize| -> String {
        let all: Vec<_> = folder.components().collect();
        let end: PathBuf = all[all.len().saturating_sub(parts)..].iter().collect();
        end.display().to_string()
    };
    let name = |folder: &&Path| {
        let is_clear = |parts: &usize| {
            let own = end(folder, *parts);
            folders.iter().filter(|other| end(other, *parts) == own).count() == 1
        };
        end(folder, (1..12).find(is_clear).unwrap_or(usize::MAX))
    };
    folders.iter().map(name).collect()
}

/// The default folder of sessions: `multicard/sessions` in the XDG data folder.
pub fn default_sessions_folder() -> Result<PathBuf, SessionError> {
    let data = foreign::data_folder().map_err(SessionError::NoHome)?;
    Ok(data.join("multicard").join("sessions"))
}

/// Finds the session with a name that was read from a file such as a figure: in a folder around or next to the file, among `recent`
/// sessions, or in the default folder.
pub fn find_session(file: &Path, name: &str, recent: &[PathBuf]) -> Option<PathBuf> {
    let named = |folder: &&Path| folder.file_name().is_some_and(|own| own.to_string_lossy() == name);
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let around = file.ancestors().skip(1).filter(named).map(Path::to_owned);
    let recent = recent.iter().map(PathBuf::as_path).filter(named).map(Path::to_owned);
    // A name must not contain a path that leads out of the folder.
    let plain = Path::new(name).components().count() == 1;
    // A folder of figures may be next to its session as well.
    let beside = file.ancestors().skip(1).take(2).filter(|_| plain).map(|folder| folder.join(name));
    let usual = default_sessions_folder().ok().filter(|_| plain).map(|folder| folder.join(name));
    around.chain(beside).chain(recent).chain(usual).find(|folder| folder.join("session.toml").exists())
}

/// The folder of a new session in the default folder, named after its first plan and the current time.
pub fn new_session_folder(plan: &str) -> Result<PathBuf, SessionError> {
    let plain: String = plan.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let name = format!("{plain}-{}", jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S"));
    Ok(default_sessions_folder()?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sessions_are_as_short_as_tells_them_apart() {
        let paths = ["/x/a/study", "/x/b/study", "/x/other"].map(Path::new);
        assert_eq!(short_names(&paths), ["a/study", "b/study", "other"]);
    }
}
