//! The options above the plots.

use eframe::egui::{Role, Slider, Ui, WidgetInfo};
use strum::IntoEnumIterator;

use super::LiveCommand;
use crate::app::curves::{Kind, XAxis};
use crate::app::screens::live::View;
use crate::app::theme::GRID;
use crate::app::widgets::check_ui;
use crate::app::widgets::{text_width, together_ui};

/// Draws the options.
pub fn options_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<LiveCommand>) {
    let live = view.own;
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 3.0 * GRID;
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = GRID;
            for axis in XAxis::iter() {
                if ui.selectable_label(live.x_axis == axis, axis.name(&live.step)).clicked() {
                    commands.push(LiveCommand::XAxis(axis));
                }
            }
        });
        let mut check = |name: &str, hover: &str, on: bool, command: fn(bool) -> LiveCommand| {
            let mut now = on;
            if check_ui(ui, &mut now, name).on_hover_text(hover).changed() {
                commands.push(command(now));
            }
        };
        check("Per GPU", "One curve per GPU or rank instead of one per run", live.per_gpu, LiveCommand::PerGpu);
        check("Log loss", "Draw the loss on a logarithmic axis", live.log_loss, LiveCommand::LogLoss);
        check("Follow", "Keep the newest values of an active run in view", live.follow, LiveCommand::Follow);
        // A slider, its number and the space between them.
        let width = text_width(ui, "Smoothing") + ui.spacing().slider_width + 64.0;
        together_ui(ui, width, |ui| {
            let label = ui.label("Smoothing");
            let mut factor = live.smoothing;
            let slider = Slider::new(&mut factor, 0.0..=0.99).fixed_decimals(2);
            let hover = "Exponential moving average over time: the weight of the past in each point. The raw curve stays visible behind \
                 it";
            if ui.add(slider).labelled_by(label.id).on_hover_text(hover).changed() {
                commands.push(LiveCommand::Smoothing(factor));
            }
        });
        let zoomed = live.view.is_some();
        let reset = ui.add_enabled(zoomed, eframe::egui::Button::new("Show all"));
        if reset.on_hover_text("Or double-click a plot").clicked() {
            commands.push(LiveCommand::Reset);
        }
    });
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0 * GRID;
        for kind in Kind::iter() {
            let mut shown = !live.hidden.contains(&kind);
            let response = check_ui(ui, &mut shown, kind.name(&live.step)).on_hover_text(kind.meaning(&live.step));
            let name = format!("Panel {}", kind.name(&live.step));
            response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, shown, &name));
            if response.changed() {
                commands.push(LiveCommand::Panel(kind, shown));
            }
        }
    });
}
