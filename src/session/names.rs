//! Names of sessions by their folders.

use std::path::{Path, PathBuf};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sessions_are_as_short_as_tells_them_apart() {
        let paths = ["/x/a/study", "/x/b/study", "/x/other"].map(Path::new);
        assert_eq!(short_names(&paths), ["a/study", "b/study", "other"]);
    }
}
