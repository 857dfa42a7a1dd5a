//! The topology: GPU interconnects as a matrix, NUMA nodes as boxes with their CPUs, memory and GPUs.

use eframe::egui::{Frame, Grid, Margin, RichText, Stroke, Ui};

use crate::app::theme::palette;
use crate::app::widgets::{muted, strong};
use crate::app::words::bytes_text;
use crate::plan::{LinkKind, Node, Topology, counted};

/// Draws the topology.
pub fn topology_ui(ui: &mut Ui, node: &Node, topology: &Topology) {
    if node.gpus.len() > 1 {
        matrix_ui(ui, node, topology);
    }
    ui.horizontal_wrapped(|ui| {
        for numa in &topology.numa {
            let frame = Frame::new()
                .stroke(Stroke::new(1.0, palette(ui.visuals()).line))
                .fill(ui.visuals().faint_bg_color)
                .corner_radius(4)
                .inner_margin(Margin::same(8));
            frame.show(ui, |ui| {
                ui.vertical(|ui| {
                    ui.label(strong(format!("NUMA node {}", numa.id)));
                    let list = if numa.cpu_list.is_empty() { String::new() } else { format!(" ({})", numa.cpu_list) };
                    ui.label(format!("{}{list}", counted(numa.cpus, "CPU")));
                    ui.label(numa.memory_bytes.map_or("memory –".to_owned(), |bytes| bytes_text(bytes as f64)));
                    for gpu in &numa.gpus {
                        ui.label(format!("GPU {gpu}"));
                    }
                });
            });
        }
    });
    let elsewhere: Vec<String> = node
        .gpus
        .iter()
        .filter(|gpu| topology.numa.iter().all(|numa| !numa.gpus.contains(&gpu.index)))
        .map(|gpu| gpu.index.to_string())
        .collect();
    if !elsewhere.is_empty() {
        ui.label(muted(ui, format!("NUMA node of GPU {}: unknown.", elsewhere.join(", "))));
    }
}

fn matrix_ui(ui: &mut Ui, node: &Node, topology: &Topology) {
    let palette = palette(ui.visuals());
    Grid::new("node-links").spacing([16.0, 4.0]).show(ui, |ui| {
        ui.label("");
        for gpu in &node.gpus {
            ui.label(muted(ui, format!("GPU {}", gpu.index)));
        }
        ui.end_row();
        for row in &node.gpus {
            ui.label(muted(ui, format!("GPU {}", row.index)));
            for column in &node.gpus {
                if row.index == column.index {
                    ui.label(muted(ui, "×"));
                    continue;
                }
                match topology.link(row.index, column.index) {
                    Some(kind) => {
                        let color = match kind {
                            LinkKind::NvLink(_) => palette.good,
                            LinkKind::Sys => palette.warning,
                            _ => ui.visuals().text_color(),
                        };
                        ui.label(RichText::new(kind.name()).color(color)).on_hover_text(kind.meaning());
                    }
                    None => {
                        ui.label("–").on_hover_text("Not reported by the driver");
                    }
                }
            }
            ui.end_row();
        }
    });
    ui.add_space(4.0);
}
