//! The frame around every screen: bar, rail, messages, command palette and list of keys.

use eframe::egui::{Align, Button, CentralPanel, Frame, Label, Layout, Margin, Panel, RichText, ScrollArea, Ui};
use strum::IntoEnumIterator;

use super::theme::{GRID, palette};
use super::widgets::{muted, named, strong};
use super::{Command, RunsCommand, Screen, State, Theme, closing, keys, runs, sessions};
use crate::figure::duration_text;

/// Draws the window.
pub fn shell_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let bar = Frame::new().fill(ui.visuals().panel_fill).inner_margin(Margin::symmetric(12, 6));
    Panel::top("bar").frame(bar).show(ui, |ui| bar_ui(ui, state, commands));
    closing::close_ui(ui, state, commands);
    let rail = Frame::new().fill(ui.visuals().panel_fill).inner_margin(Margin::symmetric(8, 8));
    Panel::left("rail").frame(rail).resizable(false).exact_size(104.0).show(ui, |ui| rail_ui(ui, state, commands));
    let screen = Frame::new().fill(ui.visuals().panel_fill).inner_margin(Margin::same(12));
    CentralPanel::default().frame(screen).show(ui, |ui| {
        problems_ui(ui, state, commands);
        match state.screen {
            Screen::Plan => super::plan::plan_ui(ui, state, commands),
            Screen::Runs => runs::runs_ui(ui, state, commands),
            Screen::Live => super::live::live_ui(ui, state, commands),
            Screen::Compare => super::compare::compare_ui(ui, state, commands),
            Screen::Timeline => super::timeline::timeline_ui(ui, state, commands),
            Screen::Figures => super::figures::figures_ui(ui, state, commands),
            Screen::Node => super::node::node_ui(ui, state, commands),
        }
    });
    if state.command_palette {
        super::command_palette::command_palette_ui(ui.ctx(), state, commands);
    }
    if state.sessions.browser.is_open {
        sessions::browser_ui(ui.ctx(), state, commands);
    }
    if state.help {
        keys::help_ui(ui.ctx(), commands);
    }
}

fn bar_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        ui.label(strong("multicard"));
        ui.separator();
        sessions::session_menu_ui(ui, state, commands);
        ui.separator();
        ui.label(muted(ui, node_text(state)));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            theme_ui(ui, state, commands);
            ui.separator();
            progress_ui(ui, state, commands);
        });
    });
}

fn node_text(state: &State) -> String {
    let Some(node) = &state.node else { return "reading this machine …".to_owned() };
    let Some(gpu) = node.gpus.first() else {
        let cpus = if node.cpus == 1 { "CPU" } else { "CPUs" };
        return format!("{} {cpus}, no GPU", node.cpus);
    };
    let memory_gb = gpu.memory_bytes as f64 / 1e9;
    let driver = node.driver.as_deref().map_or(String::new(), |driver| format!(" · driver {driver}"));
    format!("{}× {} {memory_gb:.0} GB{driver}", node.gpus.len(), gpu.name.trim_start_matches("NVIDIA "))
}

fn theme_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let menu = ui.menu_button("◐", |ui| {
        for theme in Theme::iter() {
            if ui.radio(state.settings.theme == theme, theme.name()).clicked() {
                commands.push(Command::Theme(theme));
                ui.close();
            }
        }
        ui.separator();
        let zoom = (state.settings.zoom_factor() * 100.0).round();
        for (name, steps) in [("Zoom in", 1), ("Zoom out", -1), ("Reset zoom", 0)] {
            if ui.button(name).on_hover_text(format!("now {zoom} %")).clicked() {
                commands.push(Command::Zoom(steps));
            }
        }
    });
    menu.response.widget_info(|| named("Theme and zoom"));
    if ui.button("?").on_hover_text("All keys").clicked() {
        commands.push(Command::Help(true));
    }
}

fn progress_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let queue = &state.queue;
    let far = state.session.as_ref().filter(|session| session.host().is_some());
    if let Some(reason) = far.and_then(|session| session.read_only.as_ref()) {
        // Whichever screen is shown: what it shows stands still until there is a line again.
        let text = RichText::new(format!("⚠ {reason}")).color(palette(ui.visuals()).warning);
        ui.add(Label::new(text).truncate()).on_hover_text(reason);
    }
    if !queue.is_active() {
        return;
    }
    let (symbol, name) = if queue.paused { ("▶", "Resume the queue") } else { ("⏸", "Pause the queue") };
    let button = ui.button(symbol).on_hover_text(format!("{name} (Ctrl P)"));
    button.widget_info(|| named(name));
    if button.clicked() {
        commands.push(Command::Runs(RunsCommand::Pause(!queue.paused)));
    }
    let paused = if queue.paused { "paused · " } else { "" };
    // Reattached runs have no estimate until they have done some steps.
    let eta =
        if queue.remaining_s > 0.0 { format!(" · ETA {}", duration_text(queue.remaining_s)) } else { String::new() };
    ui.label(format!("{paused}{} of {} runs{eta}", queue.ended, queue.queued));
}

fn rail_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.take_available_width();
    ui.spacing_mut().item_spacing.y = GRID;
    for (index, screen) in Screen::iter().enumerate() {
        let chosen = state.screen == screen;
        let text = RichText::new(format!("{}{}", screen.name(), badge(state, screen)));
        let button = Button::selectable(chosen, text).min_size([ui.available_width(), 30.0].into());
        let response = ui.add(button).on_hover_text(format!("{} ({})", screen.name(), index + 1));
        response
            .widget_info(|| eframe::egui::WidgetInfo::selected(eframe::egui::Role::Tab, true, chosen, screen.name()));
        if response.clicked() {
            commands.push(Command::Show(screen));
        }
    }
}

fn badge(state: &State, screen: Screen) -> String {
    match screen {
        Screen::Runs if !state.records.runs.is_empty() => match state.records.runs.len() {
            few @ ..10_000 => format!("  {few}"),
            // The rail is narrow; the filter of the list has the whole number.
            many => format!("  {}k", many / 1000),
        },
        Screen::Live if state.queue.is_running() => "  ●".to_owned(),
        _ => String::new(),
    }
}

fn problems_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let here: Vec<_> = state.problems.iter().filter(|problem| problem.screen == state.screen).collect();
    if here.is_empty() {
        return;
    }
    let palette = palette(ui.visuals());
    let frame = super::widgets::card(ui).stroke(eframe::egui::Stroke::new(1.0, palette.bad));
    frame.show(ui, |ui| {
        ui.take_available_width();
        ScrollArea::vertical().id_salt("problems").max_height(120.0).show(ui, |ui| {
            for problem in here {
                ui.horizontal_wrapped(|ui| {
                    ui.colored_label(palette.bad, "⚠");
                    ui.label(&problem.message);
                    if ui.small_button("Dismiss").clicked() {
                        commands.push(Command::Dismiss(problem.number));
                    }
                });
            }
        });
    });
    ui.add_space(2.0 * GRID);
}
