//! The frame around every screen: bar with messages, rail, command palette and list of keys.

use eframe::egui::{Align, Button, CentralPanel, Frame, Label, Layout, Margin, Panel, RichText, Ui};
use strum::IntoEnumIterator;

use super::command::Command;
use super::desk::Desk;
use super::settings::Theme;
use super::theme::{GRID, palette};
use super::widgets::{muted, named, strong};
use super::window::Window;
use super::words::left_text;
use super::{allowing, closing, command_palette, deliberate, keys, notices, sessions};
use crate::analysis::counted;

/// Height of the bar, in points: a message has two rows of small text in a frame.
pub(super) const BAR_HEIGHT: f32 = 40.0;
/// From this width on, in points, the bar has room for the description of the machine beside messages.
const FOR_ALL: f32 = 800.0;

/// Draws the window.
pub fn shell_ui(ui: &mut Ui, window: &Window, commands: &mut Vec<Command>) {
    let Window { desk, sessions, screens, .. } = window;
    deliberate::watch(ui.ctx());
    let bar = Frame::new().fill(ui.visuals().panel_fill).inner_margin(Margin::symmetric(12, 4));
    Panel::top("bar").frame(bar).exact_size(BAR_HEIGHT).show(ui, |ui| bar_ui(ui, window, commands));
    closing::close_ui(ui, window.closing, desk, &|| window.unsaved(), commands);
    allowing::allow_ui(ui, desk, commands);
    let rail = Frame::new().fill(ui.visuals().panel_fill).inner_margin(Margin::symmetric(8, 8));
    Panel::left("rail").frame(rail).resizable(false).exact_size(104.0).show(ui, |ui| rail_ui(ui, window, commands));
    let screen = Frame::new().fill(ui.visuals().panel_fill).inner_margin(Margin::same(12));
    CentralPanel::default().frame(screen).show(ui, |ui| {
        if let Some(screen) = window.shown() {
            screen.ui(desk, ui, commands);
        }
    });
    desk.table_path_ui(ui.ctx(), commands);
    if window.command_palette {
        command_palette::command_palette_ui(ui.ctx(), window, commands);
    }
    if sessions.browser.is_open {
        sessions::browser_ui(ui.ctx(), &sessions.browser, desk, commands);
    }
    if let Some(dialog) = &sessions.mapping {
        sessions::mapping_ui(ui.ctx(), dialog, commands);
    }
    if window.help {
        keys::help_ui(ui.ctx(), screens, commands);
    }
}

fn bar_ui(ui: &mut Ui, window: &Window, commands: &mut Vec<Command>) {
    let desk = &window.desk;
    ui.horizontal_centered(|ui| {
        ui.label(strong("multicard"));
        ui.separator();
        sessions::session_menu_ui(ui, &window.sessions, desk, commands);
        ui.separator();
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            theme_ui(ui, desk, commands);
            ui.separator();
            progress_ui(ui, desk, commands);
            // Messages and the description of the machine have the room that all else leaves; in a small window, messages have all of it.
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                let has_messages = notices::are_any(window);
                if !has_messages || ui.available_width() > FOR_ALL {
                    ui.add(Label::new(muted(ui, node_text(desk))).truncate());
                }
                if has_messages {
                    notices::notices_ui(ui, window, commands);
                }
            });
        });
    });
}

fn node_text(desk: &Desk) -> String {
    let Some(node) = &desk.node else { return "reading this machine …".to_owned() };
    let Some(gpu) = node.gpus.first() else {
        return format!("{}, no GPU", counted(node.cpus as usize, "CPU"));
    };
    let memory_gb = gpu.memory_bytes as f64 / 1e9;
    let driver = node.driver.as_deref().map_or(String::new(), |driver| format!(" · driver {driver}"));
    format!("{}× {} {memory_gb:.0} GB{driver}", node.gpus.len(), gpu.name.trim_start_matches("NVIDIA "))
}

fn theme_ui(ui: &mut Ui, desk: &Desk, commands: &mut Vec<Command>) {
    let menu = ui.menu_button("◐", |ui| {
        for theme in Theme::iter() {
            if ui.radio(desk.settings.theme == theme, theme.name()).clicked() {
                commands.push(Command::Theme(theme));
                ui.close();
            }
        }
        ui.separator();
        let zoom = (desk.settings.zoom_factor() * 100.0).round();
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

fn progress_ui(ui: &mut Ui, desk: &Desk, commands: &mut Vec<Command>) {
    let queue = &desk.queue;
    let far = desk.session.as_ref().filter(|session| session.host().is_some());
    if let Some(reason) = far.and_then(|session| session.read_only.as_ref()) {
        // On every screen, since what it shows is out of date until there is a connection again.
        let text = RichText::new(format!("⚠ {reason}")).color(palette(ui.visuals()).warning);
        ui.add(Label::new(text).truncate().show_tooltip_when_elided(false)).on_hover_text(reason);
    }
    if !queue.is_active() {
        return;
    }
    let (symbol, name) = if queue.paused { ("▶", "Resume the queue") } else { ("⏸", "Pause the queue") };
    let button = ui.button(symbol).on_hover_text(format!("{name} (Ctrl P)"));
    button.widget_info(|| named(name));
    if button.clicked() {
        commands.push(Command::Pause(!queue.paused));
    }
    let paused = if queue.paused { "paused · " } else { "" };
    // Reattached runs have no estimate until they have done some steps.
    let eta = left_text(queue).map_or(String::new(), |left| format!(" · ETA {left}"));
    ui.label(format!("{paused}{} of {}{eta}", queue.ended, counted(queue.queued, "run")));
}

fn rail_ui(ui: &mut Ui, window: &Window, commands: &mut Vec<Command>) {
    ui.take_available_width();
    ui.spacing_mut().item_spacing.y = GRID;
    for (index, screen) in window.screens.iter().enumerate() {
        let name = screen.name().name();
        let chosen = window.desk.screen == screen.name();
        let text = RichText::new(format!("{name}{}", screen.badge(&window.desk)));
        let button = Button::selectable(chosen, text).min_size([ui.available_width(), 30.0].into());
        let response = ui.add(button).on_hover_text(format!("{name} ({})", index + 1));
        response.widget_info(|| eframe::egui::WidgetInfo::selected(eframe::egui::Role::Tab, true, chosen, name));
        if response.clicked() {
            commands.push(Command::Show(screen.name()));
        }
    }
}
