//! The left column of the Compare screen: sessions, and which of their cells are shown.

use std::path::PathBuf;

use eframe::egui::{Button, Id, Key, Label, Response, RichText, Role, ScrollArea, Ui, WidgetInfo};

use super::picture::Picture;
use super::{CompareCommand, filter_id, levels_menu, metrics};
use crate::analysis::{Circumstances, counted};
use crate::app::command::{Command, edit};
use crate::app::deliberate;
use crate::app::look;
use crate::app::screens::compare::View;
use crate::app::task::typed_path;
use crate::app::theme::GRID;
use crate::app::widgets::{
    card, check_ui, cut_to, filter_field, lasting_menu, left_out_ui, listed, muted, named, strong, text_field,
    text_width, together_ui,
};
use crate::figure::{SettingLevels, Study, level_name};
use crate::plan::Level;

/// Draws the left column: sessions, and which cells are shown.
pub fn side_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    ScrollArea::vertical().id_salt("compare-side").auto_shrink([false, false]).show(ui, |ui| {
        card(ui).show(ui, |ui| {
            ui.take_available_width();
            ui.label(strong("Sessions"));
            sessions_ui(ui, view, commands);
        });
        ui.add_space(2.0 * GRID);
        card(ui).show(ui, |ui| {
            ui.take_available_width();
            filter_ui(ui, view, picture, commands);
        });
    });
}

fn sessions_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let sources = view.sources();
    for (index, source) in sources.iter().enumerate() {
        let folder = &source.records.folder;
        let open = view.session.as_ref().filter(|session| index == 0 && session.folder == *folder);
        let name = match open {
            Some(session) if source.name.is_empty() => session.name(),
            _ => source.name.clone(),
        };
        ui.horizontal(|ui| {
            name_ui(ui, RichText::new(&name)).on_hover_text(folder.display().to_string());
            if open.is_some() {
                ui.label(muted(ui, "open"));
            }
            if open.is_none() {
                let remove = ui.small_button("✗").on_hover_text("Remove this session from the comparison");
                remove.widget_info(|| named(&format!("Remove session {name}")));
                if deliberate::clicked(&remove, ("remove session", folder)) {
                    commands.push(Command::from(CompareCommand::Remove(folder.clone())));
                }
            }
        });
        if sources.len() > 1 {
            let about = Circumstances::of_session(&source.records.summaries);
            if !about.is_empty() {
                ui.add(Label::new(muted(ui, about).small()).truncate());
            }
        }
    }
    for folder in view.compared.reading() {
        ui.horizontal(|ui| {
            let text = format!("reading {} …", folder.file_name().unwrap_or_default().to_string_lossy());
            name_ui(ui, muted(ui, text)).on_hover_text(folder.display().to_string());
            let stop = ui.small_button("✗").on_hover_text("Stop reading this session");
            stop.widget_info(|| named(&format!("Stop reading {}", folder.display())));
            if deliberate::clicked(&stop, ("stop reading", folder)) {
                commands.push(Command::from(CompareCommand::Remove(folder.clone())));
            }
        });
    }
    add_session_ui(ui, view, commands);
    metrics::attach_ui(ui, view, commands);
}

/// Draws a session's name; the word or the button behind a long one keeps its room.
fn name_ui(ui: &mut Ui, name: RichText) -> Response {
    let room = ui.available_width() - text_width(ui, "open") - 2.0 * GRID;
    let is_whole = text_width(ui, name.text()) <= room;
    let label = Label::new(name).truncate();
    if is_whole { ui.add(label) } else { ui.add_sized([room, ui.spacing().interact_size.y], label) }
}

/// The name of the menu that adds a session.
pub const ADD_SESSION: &str = "Add a session";

/// Draws the menu that adds a recent session, or a session by its folder.
pub fn add_session_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let menu = lasting_menu(ui, Button::new(ADD_SESSION), |ui| {
        ui.set_min_width(280.0);
        let shown = view.sources();
        let is_shown = |folder: &&PathBuf| shown.iter().any(|source| source.records.folder == **folder);
        for folder in view.settings.recent.iter().filter(|folder| !is_shown(folder)) {
            let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
            if ui.button(name).on_hover_text(folder.display().to_string()).clicked() {
                commands.push(Command::from(CompareCommand::Add(folder.clone())));
                ui.close();
            }
        }
        // Typed text is local state, stored in egui's memory.
        let id = Id::unique("compare-folder");
        let mut text: String = ui.data(|data| data.get_temp(id)).unwrap_or_default();
        let field = ui.add(text_field(&mut text, "Folder of a session", 260.0));
        field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, "Folder of a session"));
        let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let folder = typed_path(&text);
        ui.horizontal(|ui| {
            let pressed = ui.add_enabled(folder.is_some(), Button::new("Add this folder")).clicked() || entered;
            if let (true, Some(folder)) = (pressed, folder) {
                commands.push(Command::from(CompareCommand::Add(folder)));
                text.clear();
                ui.close();
            }
            if ui.button("Choose …").on_hover_text("Choose the folder in a dialog").clicked() {
                commands.push(Command::from(CompareCommand::Choose));
                ui.close();
            }
        });
        ui.data_mut(|data| data.insert_temp(id, text));
    });
    menu.response.on_hover_text("Compare with the cells of another session");
}

fn filter_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let study = &view.own.study;
    ui.horizontal(|ui| {
        ui.label(strong("Filter"));
        if !study.shows_all() && ui.small_button("Show all").clicked() {
            edit::<CompareCommand>(commands, study, None, Study::show_all);
        }
    });
    let hint = "fp16 or gpus>=2 …";
    let (names, keys) = (("Filter cells", hint), view.filter_keys());
    // An order of names is told with what else the cells do not have.
    if let Some(text) = filter_field(ui, filter_id(), names, &study.filter, 184.0, &keys, None) {
        edit::<CompareCommand>(commands, study, Some("filter"), |study| study.filter = text);
    }
    for levels in &picture.comparison.settings {
        ui.add_space(GRID);
        ui.horizontal(|ui| {
            let name = &*levels.setting.name;
            // The button at the right end has a frame.
            let button = text_width(ui, &levels_menu::button_text(study, &levels.setting.key)) + 6.0 * GRID;
            let label = ui.label(muted(ui, cut_to(ui, name, ui.available_width() - button)));
            label.on_hover_text(name);
            levels_menu::menu_ui(ui, study, levels, commands);
        });
        levels_ui(ui, view, picture, levels, commands);
    }
    made_with_ui(ui, view, picture, commands);
}

/// Draws the facts of runs' environments: repeats that differ in a ticked fact are separated.
fn made_with_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    if picture.comparison.made_with.is_empty() {
        return;
    }
    ui.add_space(GRID);
    let help = "Repeats of a cell that were made in different environments have separate rows. Untick a fact that makes no difference: \
         repeats that differ only in this fact are joined.";
    ui.label(muted(ui, "Separate repeats by")).on_hover_text(help);
    ui.horizontal_wrapped(|ui| {
        for (key, name) in &picture.comparison.made_with {
            let mut apart = !view.own.study.pool.contains(key);
            let check = check_ui(ui, &mut apart, name.as_str()).on_hover_text(help);
            check.widget_info(|| {
                WidgetInfo::selected(Role::CheckBox, true, apart, format!("Separate repeats by {name}"))
            });
            if check.changed() {
                let key = key.clone();
                edit::<CompareCommand>(commands, &view.own.study, None, move |study| {
                    study.pool.retain(|known| *known != key);
                    if !apart {
                        study.pool.push(key);
                    }
                });
            }
        }
    });
}

fn levels_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, levels: &SettingLevels, commands: &mut Vec<Command>) {
    let key = &levels.setting.key;
    let is_colour = !view.own.claims && picture.coloured(view.own.study.form) == Some(&**key);
    let held = view.own.study.held_level(key);
    let series = picture.comparison.charts.first().map(|chart| chart.legend()).unwrap_or_default();
    ui.horizontal_wrapped(|ui| {
        let shown = levels.levels.iter().filter(|(level, _)| held.is_none_or(|held| held == level));
        let shown: Vec<&(Level, usize)> = shown.collect();
        let (shown, left_out) = listed(&shown);
        for (level, count) in shown {
            let hidden = (key.clone(), level.clone());
            let mut keep = !view.own.study.hidden.contains(&hidden);
            let name = level_name(&levels.setting, level);
            let swatch =
                series.iter().find(|series| is_colour && (series.look.level() == Some(level) || series.name == name));
            let beside = 22.0 + if swatch.is_some() { 18.0 } else { 0.0 };
            let text = cut_to(ui, &level.to_string(), ui.max_rect().width() - beside);
            let width = text_width(ui, &text) + beside;
            together_ui(ui, width, |ui| {
                let check = check_ui(ui, &mut keep, text).on_hover_text(format!("{name}: {}", counted(*count, "cell")));
                check.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, keep, format!("Show {name}")));
                if let Some(swatch) = swatch {
                    look::swatch_ui(ui, &swatch.look);
                }
                if check.changed() {
                    edit::<CompareCommand>(commands, &view.own.study, None, |study| study.keep(hidden, keep));
                }
            });
        }
        left_out_ui(ui, left_out);
    });
}
