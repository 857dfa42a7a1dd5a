//! The menu of a factor: show only one of its levels, or change the order and the colours of its levels.

use eframe::egui::{Align, Button, Layout, Role, ScrollArea, Sense, Stroke, Ui, WidgetInfo, vec2};

use super::CompareCommand;
use crate::analysis::Setting;
use crate::app::command::{Command, edit};
use crate::app::look::{colour, colour_name};
use crate::app::theme::palette;
use crate::app::widgets::{lasting_menu, left_out_ui, listed, muted};
use crate::figure::{COLOURS, Look, SettingLevels, Study};
use crate::plan::Level;

/// The most of the window's height that the menu takes.
const MOST_OF_WINDOW: f32 = 0.7;

/// Draws the button, which shows the level if only one is shown, and its menu.
pub fn menu_ui(ui: &mut Ui, study: &Study, levels: &SettingLevels, commands: &mut Vec<Command>) {
    let Setting { key, name, .. } = &levels.setting;
    let (held, text) = (study.held_level(key), button_text(study, key));
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        let button = Button::new(text).small().selected(held.is_some());
        let response = lasting_menu(ui, button, |ui| {
            // Many levels are higher than the window; a menu that grows while it is open grows to this height too.
            let most_height = MOST_OF_WINDOW * ui.ctx().content_rect().height();
            ScrollArea::vertical().max_height(most_height).min_scrolled_height(most_height).show(ui, |ui| {
                hold_ui(ui, study, levels, commands);
                ui.separator();
                let (shown, left_out) = listed(&levels.levels);
                shown.iter().for_each(|(level, _)| level_ui(ui, study, levels, level, commands));
                left_out_ui(ui, left_out);
                order_ui(ui, study, levels, commands);
            });
        })
        .response;
        let state = held.map_or("all levels".to_owned(), |level| format!("held at {level}"));
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("{name}: {state}")));
        response.on_hover_text("Show only one level of this factor; change the order and colours of its levels");
    });
}

/// The text of the button.
pub fn button_text(study: &Study, key: &str) -> String {
    study.held_level(key).map_or("all".to_owned(), |level| format!("only {level}"))
}

/// Draws the choice between all levels and one.
fn hold_ui(ui: &mut Ui, study: &Study, levels: &SettingLevels, commands: &mut Vec<Command>) {
    let Setting { key, name, .. } = &levels.setting;
    let held = study.held_level(key);
    let all = std::iter::once(None).chain(listed(&levels.levels).0.iter().map(|(level, _)| Some(level)));
    for level in all {
        let text = level.map_or("all levels".to_owned(), |level| format!("only {level}"));
        let response = ui.selectable_label(held == level, &text);
        response.widget_info(|| {
            WidgetInfo::selected(Role::RadioButton, true, held == level, format!("{name}: show {text}"))
        });
        if response.clicked() {
            edit::<CompareCommand>(commands, study, None, |study| study.hold(key.clone(), level.cloned()));
            ui.close();
        }
    }
}

/// Draws one level: its position and its colour.
fn level_ui(ui: &mut Ui, study: &Study, levels: &SettingLevels, level: &Level, commands: &mut Vec<Command>) {
    let setting = &levels.setting;
    let place = levels.levels.iter().position(|(known, _)| known == level).unwrap_or(0);
    ui.horizontal(|ui| {
        for (sign, word, other) in [("▲", "up", place.checked_sub(1)), ("▼", "down", Some(place + 1))] {
            let other = other.filter(|other| *other < levels.levels.len());
            let button = ui.add_enabled(other.is_some(), Button::new(sign).small());
            button.widget_info(|| WidgetInfo::labeled(Role::Button, other.is_some(), format!("Move {level} {word}")));
            if let (true, Some(other)) = (button.clicked(), other) {
                let mut order: Vec<Level> = levels.levels.iter().map(|(level, _)| level.clone()).collect();
                order.swap(place, other);
                edit::<CompareCommand>(commands, study, None, |study| study.put_in_order(setting.key.clone(), order));
            }
        }
        let chosen = study.colours.iter().find(|(key, known, _)| (key, known) == (&setting.key, level));
        let chosen = chosen.map(|(.., place)| *place);
        for place in 0..COLOURS.len() as u8 {
            let (rect, response) = ui.allocate_exact_size(vec2(14.0, 14.0), Sense::click());
            let (is_chosen, dark) = (chosen == Some(place), ui.visuals().dark_mode);
            let name = colour_name(usize::from(place), dark);
            ui.painter().rect_filled(rect, 2.0, colour(&Look::Place(usize::from(place)), dark));
            if is_chosen || response.has_focus() || response.hovered() {
                ui.painter().rect_stroke(
                    rect.expand(1.5),
                    3.0,
                    Stroke::new(1.5, palette(ui.visuals()).accent),
                    eframe::egui::StrokeKind::Outside,
                );
            }
            let text = format!("Colour of {level}: {name}");
            response.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, is_chosen, &text));
            if response.clicked() {
                let place = if is_chosen { None } else { Some(place) };
                edit::<CompareCommand>(commands, study, None, |study| {
                    study.paint(setting.key.clone(), level.clone(), place);
                });
            }
            response.on_hover_text(if is_chosen {
                format!("{name}; click for the default colour")
            } else {
                name.to_owned()
            });
        }
        ui.label(level.to_string());
    });
}

/// Draws the button that restores the default order and colours.
fn order_ui(ui: &mut Ui, study: &Study, levels: &SettingLevels, commands: &mut Vec<Command>) {
    let key = &levels.setting.key;
    let painted: Vec<Level> =
        study.colours.iter().filter(|(known, ..)| known == key).map(|(_, level, _)| level.clone()).collect();
    let is_ordered = study.order.iter().any(|(known, _)| known == key);
    if !is_ordered && painted.is_empty() {
        ui.label(muted(ui, "The order and the colours apply to this screen and to figures"));
        return;
    }
    if ui.button("Default order and colours").clicked() {
        edit::<CompareCommand>(commands, study, None, |study| {
            study.put_in_order(key.clone(), Vec::new());
            painted.into_iter().for_each(|level| study.paint(key.clone(), level, None));
        });
    }
}
