//! Topology, data sets and disk space, read on a background thread; the disks on screen.

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::{Context, Label, Ui};
use poll_promise::Promise;

use crate::app::task::on_thread;
use crate::app::theme::palette;
use crate::app::widgets::muted;
use crate::app::words::bytes_text;
use crate::plan::Node;
use crate::session::Places;

/// Below this amount of free space, a disk shows a warning.
const LITTLE_BYTES: u64 = 5_000_000_000;

/// Starts reading.
pub fn look(node: Arc<Node>, session: Option<PathBuf>, context: &Context) -> Promise<Places> {
    on_thread("node-places", context, move || Places::look(&node, session))
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
            ui.label(&disk.name);
            ui.label(text);
            ui.label(muted(ui, disk.folder.display().to_string()).small());
        });
        if little {
            let text = "⚠ Less than 5 GB: recording stops when the disk is full. Free some space or use another disk.";
            ui.add(Label::new(eframe::egui::RichText::new(text).color(warning)).wrap());
        }
    }
}
