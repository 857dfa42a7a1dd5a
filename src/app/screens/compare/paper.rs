//! The row about a paper's table or figure: which cells the session has, which are missing, and which deviate.

use eframe::egui::{Button, ScrollArea, Ui};

use super::CompareCommand;
use super::picture::Picture;
use crate::analysis::counted;
use crate::app::command::Command;
use crate::app::deliberate;
use crate::app::screens::compare::View;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{lasting_menu, muted, named, strong};

/// Shows which paper's table or figure the study belongs to, and the button that queues the missing runs.
pub fn paper_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let Some(of_paper) = &picture.comparison.of_paper else { return };
    ui.horizontal_wrapped(|ui| {
        ui.label(strong(&of_paper.title));
        if of_paper.asked > 0 {
            let (asked, missing, full) = (of_paper.asked, of_paper.missing.len(), of_paper.full.len());
            let by_full = if full > 0 { format!(", {full} of them by full runs") } else { String::new() };
            let others = match of_paper.otherwise {
                0 => String::new(),
                others => format!(", {others} with other settings"),
            };
            let text = format!(
                "{} of {} measured with the paper's settings{by_full}{others}",
                asked - missing,
                counted(asked, "cell")
            );
            let count = ui.label(muted(ui, text));
            if full > 0 {
                count.on_hover_text(format!(
                    "Full runs measure more than the plan's quick ones:\n{}",
                    of_paper.full.join("\n")
                ));
            }
            let read_only = view.session.as_ref().and_then(|session| session.read_only.clone());
            if missing > 0 {
                let text = format!("Queue {}", counted(missing, "missing cell"));
                let button = ui.add_enabled(read_only.is_none(), Button::new(text));
                let why = read_only.unwrap_or_else(|| of_paper.missing.join("\n"));
                let button = button.on_hover_text(&why).on_disabled_hover_text(&why);
                if deliberate::clicked(&button, ("queue missing cells", &of_paper.id)) {
                    commands.push(Command::from(CompareCommand::QueueMissing));
                }
            }
        }
        let menu = lasting_menu(ui, Button::new(format!("About it ({})", of_paper.notes.len())), |ui| {
            ScrollArea::vertical().max_height(420.0).show(ui, |ui| {
                ui.set_max_width(560.0);
                for note in &of_paper.notes {
                    ui.label(format!("• {note}"));
                }
            });
        });
        menu.response.widget_info(|| named("About the paper's table or figure"));
        if of_paper.deviates {
            ui.colored_label(palette(ui.visuals()).warning, "⚠ cells deviate from the paper's");
        }
    });
    ui.add_space(GRID);
}
