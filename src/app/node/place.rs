//! Topology, data sets and disk space, read on a background thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::{Context, Label, Ui};
use poll_promise::Promise;

use crate::app::theme::palette;
use crate::app::widgets::{bytes_text, muted};
use crate::dataset;
use crate::plan::{Node, Topology, obtainable};
use crate::session::default_sessions_folder;
use crate::telemetry::read_topology;

/// Free space below which a disk warns.
const LITTLE_BYTES: u64 = 5_000_000_000;

/// A folder's file system.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// What it holds.
    pub name: &'static str,
    /// The folder.
    pub folder: PathBuf,
    /// Bytes free for this user and in total; `None` if unknown.
    pub space: Option<(u64, u64)>,
}

/// Topology, data sets and disks.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// GPU interconnects and NUMA nodes.
    pub topology: Topology,
    /// Data sets, in the order of [`obtainable`]: the folder, and the size in bytes if present.
    pub sets: Vec<(Result<PathBuf, String>, Option<u64>)>,
    /// Disks of data and sessions.
    pub disks: Vec<Disk>,
}

/// Starts reading.
pub fn look(node: Arc<Node>, session: Option<PathBuf>, context: &Context) -> Promise<Places> {
    let waker = context.clone();
    Promise::spawn_thread("node-places", move || {
        let places = read(&node, session);
        waker.request_repaint();
        places
    })
}

fn read(node: &Node, session: Option<PathBuf>) -> Places {
    let sets: Vec<_> = obtainable()
        .map(|(rule, files)| {
            let folder = dataset::folder_of(rule, files).map_err(|error| error.to_string());
            let bytes = folder.as_deref().ok().and_then(|folder| dataset::present(&files.key, folder));
            (folder, bytes)
        })
        .collect();
    let data = sets.first().and_then(|(folder, _)| folder.as_ref().ok()?.parent().map(PathBuf::from));
    let sessions = default_sessions_folder().ok();
    let named = [("Data", data), ("Sessions", sessions), ("Open session", session)];
    let disk = |(name, folder): (&'static str, Option<PathBuf>)| {
        let folder = folder?;
        Some(Disk { name, space: space(&folder), folder })
    };
    Places { topology: read_topology(node), sets, disks: named.into_iter().filter_map(disk).collect() }
}

/// Free and total bytes of the file system that holds a folder, or will hold it.
fn space(folder: &Path) -> Option<(u64, u64)> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some((found.f_bavail.saturating_mul(found.f_frsize), found.f_blocks.saturating_mul(found.f_frsize)))
}

/// Draws the disks.
pub fn disks_ui(ui: &mut Ui, places: Option<&Places>) {
    let Some(places) = places else {
        ui.weak("reading …");
        return;
    };
    let warning = palette(ui.visuals()).warning;
    for disk in &places.disks {
        let (text, little) = match disk.space {
            Some((free, all)) => {
                (format!("{} free of {}", bytes_text(free as f64), bytes_text(all as f64)), free < LITTLE_BYTES)
            }
            None => ("space unknown".to_owned(), false),
        };
        ui.horizontal_wrapped(|ui| {
            ui.label(disk.name);
            ui.label(text);
            ui.label(muted(ui, disk.folder.display().to_string()).small());
        });
        if little {
            let text = "⚠ Less than 5 GB: recording stops when the disk is full. Free some space or use another disk.";
            ui.add(Label::new(eframe::egui::RichText::new(text).color(warning)).wrap());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_space_of_the_one_it_will_be_in() {
        let folder = tempfile::tempdir().unwrap();
        let (_, all) = space(folder.path()).unwrap();
        assert_eq!(space(&folder.path().join("a/b")).unwrap().1, all);
    }
}
