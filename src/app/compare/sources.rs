//! The compared sessions, their names, and the names of cells when a session is added.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::CompareState;
use crate::analysis::CellKey;
use crate::app::engine::Records;
use crate::app::{Request, Screen, State};
use crate::figure::baseline_name;

/// A compared session.
#[derive(Clone)]
pub struct Source {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// Its runs.
    pub records: Arc<Records>,
}

impl State {
    /// Adds a session to the comparison.
    pub(super) fn add_session(&mut self, folder: PathBuf, requests: &mut Vec<Request>) {
        if !folder.join("session.toml").exists() {
            let message = format!(
                "{}: not a session (it has no session.toml): choose a folder created by `multicard run --session`",
                folder.display()
            );
            self.problem(Screen::Compare, message);
            return;
        }
        if self.session.as_ref().is_some_and(|session| same(&session.folder, &folder)) {
            self.problem(Screen::Compare, format!("{}: this session is open already", folder.display()));
            return;
        }
        let compare = &mut self.compare;
        if !compare.reading.contains(&folder) && compare.others.iter().all(|other| !same(&other.folder, &folder)) {
            compare.reading.push(folder.clone());
            requests.push(Request::Read(folder));
        }
    }

    /// The open session and the added ones.
    pub(in crate::app) fn compare_sources(&self) -> Vec<Source> {
        let mut all: Vec<Arc<Records>> = Vec::new();
        if self.session.is_some() {
            all.push(Arc::clone(&self.records));
        }
        let is_open = |folder: &Path| self.session.as_ref().is_some_and(|session| session.folder == folder);
        all.extend(self.compare.others.iter().filter(|other| !is_open(&other.folder)).cloned());
        let folders: Vec<&Path> = all.iter().map(|records| records.folder.as_path()).collect();
        let names = if all.len() > 1 { names(&folders) } else { vec![String::new(); all.len()] };
        names.into_iter().zip(all).map(|(name, records)| Source { name, records }).collect()
    }
}

impl CompareState {
    /// Adapts the selected cells: cells are qualified by their session only while there are several.
    pub(super) fn name_cells_for(&mut self, sources: &[Source]) {
        let Some(open) = sources.first() else { return };
        let rename = |key: &mut CellKey| {
            let several = sources.len() > 1;
            if several == key.session.is_empty() {
                key.session = open.name.clone();
            }
        };
        self.held.iter_mut().for_each(rename);
        self.selected.iter_mut().for_each(rename);
        // A baseline without a session belongs to the open one.
        if let Some(asked) = self.study.baseline.as_mut().filter(|asked| !asked.contains('=') && sources.len() > 1) {
            *asked = baseline_name(&CellKey { session: open.name.clone(), cell: asked.clone() });
        }
        // Levels of removed sessions must not stay hidden.
        let names = |name: &str| sources.iter().any(|source| source.name == name);
        self.study.hidden.retain(|(key, level)| *key != "session" || level.as_text().is_some_and(names));
    }
}

/// Whether two paths lead to the same folder.
fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The shortest ends of paths that distinguish the folders.
pub(super) fn names(folders: &[&Path]) -> Vec<String> {
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
